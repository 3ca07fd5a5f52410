/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See preload.h. LD_PRELOAD alone reaches programs that name a folder of their own for the library (DT_RPATH), as PyTorch does; LD_LIBRARY_PATH is
 * for those that load it by name later.
 */
#include "libclient/ctl/preload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libclient/ctl/ctl.h"

#define LIBRARY "libnvshmem_host.so.3"
#define BESIDE "/../compat/nvshmem" /* of shmemctl in a build folder */

static bool has_library(const char *folder)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%s/" LIBRARY, folder) < PATH_MAX && !access(path, R_OK);
}

/* shmemctl of a build folder takes the library of that build. */
static bool find_beside(char folder[PATH_MAX])
{
	char own[PATH_MAX], beside[PATH_MAX], *slash;
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);

	if (n <= 0)
		return false;
	own[n] = 0;
	slash = strrchr(own, '/');
	if (!slash)
		return false;
	*slash = 0;
	return snprintf(beside, sizeof(beside), "%s" BESIDE, own) < PATH_MAX && realpath(beside, folder) && has_library(folder);
}

static int join(char buf[PRELOAD_BYTES], const char *name, const char *path)
{
	const char *before = getenv(name);
	int n = snprintf(buf, PRELOAD_BYTES, "%s=%s%s%s", name, path, before && *before ? ":" : "", before ? before : "");

	return n < PRELOAD_BYTES ? 0 : ctl_fail("--nvshmem: %s is too long already", name);
}

static void find_folder(char folder[PATH_MAX])
{
	if (!find_beside(folder))
		snprintf(folder, PATH_MAX, "%s", SHMD_NVSHMEM_FOLDER);
}

bool preload_find(char ret_path[PATH_MAX])
{
	char folder[PATH_MAX];

	find_folder(folder);
	return snprintf(ret_path, PATH_MAX, "%s/" LIBRARY, folder) < PATH_MAX && has_library(folder);
}

int preload_nvshmem(struct preload *ret_preload)
{
	char folder[PATH_MAX], path[PATH_MAX];

	find_folder(folder);
	if (!has_library(folder))
		return ctl_fail("--nvshmem: there is no %s/" LIBRARY "; install the library for NVSHMEM programs", folder);
	if (strpbrk(folder, " :") || snprintf(path, sizeof(path), "%s/" LIBRARY, folder) >= PATH_MAX)
		return ctl_fail("--nvshmem: the path %s cannot stand in LD_PRELOAD; it has a space or a colon, or is too long", folder);
	return join(ret_preload->library, "LD_PRELOAD", path) || join(ret_preload->folder, "LD_LIBRARY_PATH", folder) ? -1 : 0;
}
