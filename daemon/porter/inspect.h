/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the kind of a descriptor without asking the process that made it. */
#ifndef SHMEMD_PORTER_INSPECT_H
#define SHMEMD_PORTER_INSPECT_H

#include <stdint.h>

enum inspect_kind {
	/* No close waits for another process, unless it is the last one. */
	INSPECT_MEMFD = 1, /* the last one neither: nothing can poll a memfd, and its file system is the kernel's own */
	INSPECT_DMABUF,
	INSPECT_GPU, /* memory that CUDA exports */
	INSPECT_ANON, /* an anonymous inode: eventfd, epoll, pidfd, ... */
	INSPECT_PIPE,
	INSPECT_SOCKET,
	/* Each close asks a file system, which may be in user space. */
	INSPECT_FILE,
	INSPECT_UNKNOWN,
	INSPECT_N
};

struct inspect_info {
	uint32_t kind; /* enum inspect_kind; 0: not looked at */
	uint32_t reserved;
	uint64_t bytes; /* of a dmabuf */
};

/* Any number, also one that is not open. Does not block. */
void inspect_fd(int fd, struct inspect_info *ret_info);
/* NULL if the daemon takes this kind; else its name, for an error message. Any number. */
const char *inspect_refusal(uint32_t kind);

/* The size in the text of /proc/self/fdinfo/N of a dmabuf; -EBADF for any other. */
int inspect_parse_dmabuf(const char *text, uint64_t *ret_bytes);

#endif
