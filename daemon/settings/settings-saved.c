/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saves the settings in force for the next daemon. A wrong shmemd.conf must not end kept sessions, and defaults could give them
 * another socket, other NICs or smaller quotas.
 *
 * Writes one file of "key = value" lines, like shmemd.conf, beside the old one and renames it: a daemon that is killed leaves a
 * whole file. Control thread.
 */
#include "daemon/settings/settings-saved.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/base/cleanup.h"

#define FILE_NAME "settings"

/* $RUNTIME_DIRECTORY must be one path; a list of several is not ours. */
static int make_path(const char *suffix, char *buf, size_t size)
{
	const char *folder = getenv("RUNTIME_DIRECTORY");

	if (!folder || folder[0] != '/')
		return -ENOENT;
	for (const char *at = folder; *at; at++)
		if (*at == ':')
			return -ENOENT;
	return (size_t)snprintf(buf, size, "%s/" FILE_NAME "%s", folder, suffix) < size ? 0 : -ENAMETOOLONG;
}

static int write_file(const struct settings *settings, const char *path)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	bool is_broken;
	FILE *f;

	if (fd < 0)
		return -errno;
	f = fdopen(fd, "w");
	if (!f)
		return -errno;
	take_fd(&fd);
	settings_print_all(settings, f);
	is_broken = ferror(f);
	return fclose(f) < 0 || is_broken ? -EIO : 0;
}

int settings_saved_path(char *buf, size_t size)
{
	return make_path("", buf, size);
}

int settings_saved_write(const struct settings *settings)
{
	char path[SETTINGS_PATH_BYTES], part[SETTINGS_PATH_BYTES];
	int r;

	if (make_path("", path, sizeof(path)) < 0 || make_path(".part", part, sizeof(part)) < 0)
		return 0;
	r = write_file(settings, part);
	if (r == 0 && rename(part, path) < 0)
		r = -errno;
	if (r < 0)
		unlink(part);
	return r;
}
