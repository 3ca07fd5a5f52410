/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind of a client's descriptor, as the kernel alone reports it.
 *
 * fstat, fstatfs and lseek ask the file system of the file, and one in user space answers when its owner likes. Only shared
 * memory of the kernel has seals. A file without a path has a name from the kernel in /proc/self/fd; a path begins with a slash
 * and may lie. The page about a dmabuf has "size" and "exp_name", which no file system can put there. This code reads no page about
 * other files, since that of an epoll descriptor takes its lock and lists everything it watches. Any thread.
 */
#include "daemon/porter/inspect.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/cleanup.h"

#define FDINFO_BYTES 1024
#define NVIDIA_MAJOR 195u /* Documentation/admin-guide/devices.txt: reserved for them */

/* The text behind "key:\t" at the start of a line, or NULL. */
static const char *value_of(const char *text, const char *key)
{
	size_t bytes = strlen(key);

	while (text && (strncmp(text, key, bytes) != 0 || strncmp(text + bytes, ":\t", 2) != 0)) {
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	return text ? text + bytes + 2 : NULL;
}

int inspect_parse_dmabuf(const char *text, uint64_t *ret_bytes)
{
	const char *size = value_of(text, "size");
	uint64_t bytes;

	if (!size || !value_of(text, "exp_name") || sscanf(size, "%" SCNu64, &bytes) != 1)
		return -EBADF;
	*ret_bytes = bytes;
	return 0;
}

static bool is_dmabuf(int fd, uint64_t *ret_bytes)
{
	_cleanup_close_ int info = -1;
	char path[40], text[FDINFO_BYTES];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	info = open(path, O_RDONLY | O_CLOEXEC);
	n = info < 0 ? -1 : read(info, text, sizeof(text) - 1);
	if (n < 0)
		return false;
	text[n] = '\0';
	return inspect_parse_dmabuf(text, ret_bytes) == 0;
}

/* The name may lie. AT_STATX_DONT_SYNC: a file system in user space is not asked. */
static bool is_nvidia(int fd)
{
	struct statx st;

	return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) == 0 && S_ISCHR(st.stx_mode) &&
	       st.stx_rdev_major == NVIDIA_MAJOR;
}

static bool begins(const char *name, const char *with)
{
	return strncmp(name, with, strlen(with)) == 0;
}

static enum inspect_kind kind_of_path(int fd, const char *name, uint64_t *ret_bytes)
{
	if (begins(name, "/dmabuf:") && is_dmabuf(fd, ret_bytes))
		return INSPECT_DMABUF;
	return begins(name, "/dev/nvidia") && is_nvidia(fd) ? INSPECT_GPU : INSPECT_FILE;
}

void inspect_fd(int fd, struct inspect_info *ret_info)
{
	char path[40], name[32] = "";

	*ret_info = (struct inspect_info){.kind = INSPECT_UNKNOWN};
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fcntl(fd, F_GET_SEALS) >= 0)
		ret_info->kind = INSPECT_MEMFD;
	else if (fd < 0 || readlink(path, name, sizeof(name) - 1) < 0)
		return;
	else if (name[0] == '/')
		ret_info->kind = kind_of_path(fd, name, &ret_info->bytes);
	/* A pidfd was an anonymous inode before Linux 6.9, and has such a name again. Each close of an io_uring waited before 5.16. */
	else if ((begins(name, "anon_inode:") && !begins(name, "anon_inode:[io_uring")) || begins(name, "pidfd:["))
		ret_info->kind = INSPECT_ANON;
	else if (begins(name, "pipe:["))
		ret_info->kind = INSPECT_PIPE;
	else if (begins(name, "socket:["))
		ret_info->kind = INSPECT_SOCKET;
}

const char *inspect_refusal(uint32_t kind)
{
	switch (kind) {
	case INSPECT_MEMFD:
	case INSPECT_DMABUF:
	case INSPECT_GPU:
	case INSPECT_ANON:
	case INSPECT_PIPE:
	case INSPECT_SOCKET:
		return NULL;
	case INSPECT_FILE:
		return "a file, folder or device";
	default:
		return "of a kind that shmemd does not know";
	}
}
