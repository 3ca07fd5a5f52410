/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that this process keeps for itself. A child that it forks closes its copies at once: otherwise the other side of a connection
 * would not notice the death of this process while the child lives. No fork happens between making one and noting it here. Any thread.
 */
#ifndef SHMD_RUNTIME_OWN_FDS_H
#define SHMD_RUNTIME_OWN_FDS_H

#include "proto/base/cleanup.h"

/* Close-on-exec, and they do not block. -errno */
int own_socket(int family);
int own_accept(int listener);
int own_eventfd(void);
/* A descriptor that exists already, perhaps among these. Returns fd; -ENOMEM: it is closed. */
int own_fd_adopt(int fd);

/* Returns -1. In a forked child, which has closed its copies, a caller forgets the numbers instead: they may be of other files by now. */
int own_fd_close(int fd);

static inline void own_fd_closep(const int *fd)
{
	own_fd_close(*fd);
}

#define _cleanup_own_fd_ _cleanup_(own_fd_closep)

#endif
