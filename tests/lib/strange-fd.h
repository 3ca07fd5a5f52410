/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of all kinds, as a hostile client might send them where memory is wanted. */
#ifndef SHMD_TESTS_LIB_STRANGE_FD_H
#define SHMD_TESTS_LIB_STRANGE_FD_H

#include <stdbool.h>

#define STRANGE_FD_BYTES (1u << 20)

enum strange_fd {
	STRANGE_SEALED, /* the one that is right: a memfd of STRANGE_FD_BYTES, sealed against shrinking */
	STRANGE_UNSEALED,
	STRANGE_WRITE_SEALED, /* against shrinking as well, like the next ones */
	STRANGE_FUTURE_WRITE_SEALED,
	STRANGE_READ_ONLY,
	STRANGE_SHORT, /* one byte less than a page */
	STRANGE_EMPTY,
	STRANGE_HUGE, /* 4 EiB, none of it there */
	STRANGE_ALL_SEALS, /* but those against writing */
	STRANGE_FILE, /* an unlinked file */
	STRANGE_FOLDER,
	STRANGE_PATH, /* O_PATH: nothing can be done with it */
	STRANGE_NULL,
	STRANGE_ZERO,
	STRANGE_PIPE, /* the writing end; the other is never read */
	STRANGE_PIPE_READ, /* never readable */
	STRANGE_SOCKET, /* of a pair whose other end is closed */
	STRANGE_TCP,
	STRANGE_EVENTFD, /* never readable */
	STRANGE_EPOLL,
	STRANGE_TIMERFD,
	STRANGE_INOTIFY,
	STRANGE_PIDFD,
	STRANGE_HUGE_PAGES, /* a memfd that the soft NIC does not take */
	STRANGE_FD_N
};

/* A new one, close-on-exec; what this machine cannot make is an eventfd instead. */
int strange_fd_new(enum strange_fd kind);
/*
 * A TCP connection that has more to send than its peer takes, and waits so long when it is closed, or until the peer is.
 * -1: this machine has none.
 */
int strange_fd_lingering(int linger_sec, int *ret_peer);
/* Does the daemon take it at all? A file on tmpfs is memory as any other. */
bool strange_fd_is_taken(enum strange_fd kind, int fd);
/* May it be registered as a memfd for everything, a page from its start? */
bool strange_fd_is_memory(enum strange_fd kind);

#endif
