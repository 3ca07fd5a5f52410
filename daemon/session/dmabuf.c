/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stranger's descriptor says it is, without asking it.
 *
 * fstat, fstatfs and lseek go to the file's own file system, and one in user space answers when its owner likes. The
 * kernel's page about a descriptor has "size" and "exp_name" for a dmabuf, which no file system can put there. Refuses
 * what has not both. Any thread.
 */
#include "daemon/session/dmabuf.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/cleanup.h"

#define FDINFO_BYTES 1024

/* What stands behind "key:\t" at the start of a line, or NULL. */
static const char *value_of(const char *text, const char *key)
{
	size_t bytes = strlen(key);

	while (text && (strncmp(text, key, bytes) != 0 || strncmp(text + bytes, ":\t", 2) != 0)) {
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	return text ? text + bytes + 2 : NULL;
}

int dmabuf_parse_fdinfo(const char *text, uint64_t *ret_bytes)
{
	const char *size = value_of(text, "size");
	uint64_t bytes;

	if (!size || !value_of(text, "exp_name") || sscanf(size, "%" SCNu64, &bytes) != 1)
		return -EBADF;
	*ret_bytes = bytes;
	return 0;
}

int dmabuf_size(int fd, uint64_t *ret_bytes)
{
	_cleanup_close_ int info = -1;
	char path[40], text[FDINFO_BYTES];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	info = open(path, O_RDONLY | O_CLOEXEC);
	n = info < 0 ? -1 : read(info, text, sizeof(text) - 1);
	if (n < 0)
		return -EBADF;
	text[n] = '\0';
	return dmabuf_parse_fdinfo(text, ret_bytes);
}
