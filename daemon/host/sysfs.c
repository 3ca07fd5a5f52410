/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a file of sysfs may make a driver ask its firmware: not for the control thread. Keeps nothing. */
#include "daemon/host/sysfs.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/cleanup.h"

void sysfs_close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

DIR *sysfs_open_dir(int at, const char *path)
{
	int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

	if (!dir)
		safe_close(fd);
	return dir;
}

bool sysfs_text(int at, const char *path, char text[SYSFS_TEXT_BYTES])
{
	_cleanup_close_ int fd = openat(at, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd >= 0 ? read(fd, text, SYSFS_TEXT_BYTES) : -1;

	if (n < 0 || n >= SYSFS_TEXT_BYTES)
		n = 0;
	text[n] = 0;
	text[strcspn(text, "\n")] = 0;
	return text[0];
}

uint64_t sysfs_number(int at, const char *path, int base, uint64_t max)
{
	char text[SYSFS_TEXT_BYTES];

	return sysfs_text(at, path, text) ? host_number(text, base, max) : 0;
}

bool sysfs_link(int at, const char *path, char target[SYSFS_PATH_BYTES])
{
	ssize_t n = readlinkat(at, path, target, SYSFS_PATH_BYTES);

	if (n <= 0 || n >= SYSFS_PATH_BYTES)
		n = 0;
	target[n] = 0;
	return n > 0;
}

void sysfs_link_name(int at, const char *path, char name[SYSFS_PATH_BYTES])
{
	char target[SYSFS_PATH_BYTES];
	const char *last;

	sysfs_link(at, path, target);
	last = strrchr(target, '/');
	last = last ? last + 1 : target;
	memcpy(name, last, strlen(last) + 1);
}
