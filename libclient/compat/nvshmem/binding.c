/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which library a program's calls reach.
 *
 * NVIDIA's library and this one have the same name. A program whose calls go to both works with two heaps: a call to one gets addresses of the
 * other. Init therefore looks where calls go, and warns. PyTorch loads NVIDIA's by its path and makes no call to it, so a library that is
 * only loaded is worth a line for those who ask.
 *
 * Any thread.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "libclient/compat/nvshmem/nvs.h"

#define LIBRARY "libnvshmem_host"

/* Only a symbol that no other library can take over finds this library. */
static const char own_place;

struct other {
	const void *own_base;
	char path[SHMD_INFO_TEXT_BYTES];
};

static const void *base_of(const void *place, const char **ret_path)
{
	Dl_info info;

	if (!place || !dladdr(place, &info))
		return NULL;
	*ret_path = info.dli_fname;
	return info.dli_fbase;
}

static int look_at(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct other *other = arg;
	const char *name = strrchr(info->dlpi_name, '/');

	(void)size;
	name = name ? name + 1 : info->dlpi_name;
	if (info->dlpi_addr == (uintptr_t)other->own_base || strncmp(name, LIBRARY ".", sizeof(LIBRARY ".") - 1) != 0)
		return 0;
	snprintf(other->path, sizeof(other->path), "%s", info->dlpi_name);
	return 1;
}

void nvs_binding_check(bool is_verbose)
{
	struct other other = {0};
	const char *own = "", *bound = NULL;

	other.own_base = base_of(&own_place, &own);
	if (is_verbose)
		fprintf(stderr, "shmemd: NVSHMEM calls of this process go to %s\n", own);
	if (base_of(dlsym(RTLD_DEFAULT, "nvshmem_malloc"), &bound) != other.own_base && bound)
		fprintf(stderr, "shmemd: nvshmem_malloc() of this process goes to %s, but init went to %s; start the program with shmemctl run --nvshmem\n",
			bound, own);
	else if (is_verbose && dl_iterate_phdr(look_at, &other))
		fprintf(stderr, "shmemd: this process has loaded %s, too; calls that look up its symbols by a handle go there\n", other.path);
}
