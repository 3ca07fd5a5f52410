/* SPDX-License-Identifier: Apache-2.0 */
/* Is it a dmabuf, and how large? Answered by the kernel alone: the file itself is not asked. */
#ifndef SHMEMD_SESSION_DMABUF_H
#define SHMEMD_SESSION_DMABUF_H

#include <stdint.h>

/* -EBADF for everything else than a dmabuf. Never blocks, whatever the descriptor is. */
int dmabuf_size(int fd, uint64_t *ret_bytes);

/* The same from the text of /proc/self/fdinfo/FD. */
int dmabuf_parse_fdinfo(const char *text, uint64_t *ret_bytes);

#endif
