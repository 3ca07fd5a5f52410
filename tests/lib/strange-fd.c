/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/strange-fd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "proto/base/cleanup.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MFD_HUGETLB
#define MFD_HUGETLB 0x0004U
#endif

static int new_memfd(int64_t bytes, unsigned int flags, int seals)
{
	_cleanup_close_ int fd = memfd_create("strange", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	if (fd < 0 || ftruncate(fd, bytes) < 0 || (seals && fcntl(fd, F_ADD_SEALS, seals) < 0))
		return -1;
	return take_fd(&fd);
}

static int new_read_only(void)
{
	_cleanup_close_ int fd = new_memfd(STRANGE_FD_BYTES, 0, F_SEAL_SHRINK);
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* The other end is closed. */
static int one_end(int fds[2], unsigned int which)
{
	close(fds[!which]);
	return fds[which];
}

static int new_pipe(unsigned int which)
{
	int fds[2];

	return pipe2(fds, O_CLOEXEC) < 0 ? -1 : one_end(fds, which);
}

/* No process ever writes into it: its writing end would be one descriptor more, so it is its own writer. */
static int new_silent_pipe(void)
{
	char path[64];
	int fds[2], both;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[0]);
	both = open(path, O_RDWR | O_CLOEXEC);
	close(fds[0]);
	close(fds[1]);
	return both;
}

static int new_socket(void)
{
	int fds[2];

	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0 ? -1 : one_end(fds, 0);
}

static int new_file(void)
{
	FILE *f = tmpfile();
	int fd = -1;

	if (f) {
		fd = fcntl(fileno(f), F_DUPFD_CLOEXEC, 3);
		fclose(f);
	}
	return fd >= 0 && ftruncate(fd, STRANGE_FD_BYTES) < 0 ? safe_close(fd) : fd;
}

/* A flat switch over the kinds. */
static int make(enum strange_fd kind)
{
	switch (kind) {
	case STRANGE_SEALED: return new_memfd(STRANGE_FD_BYTES, 0, F_SEAL_SHRINK);
	case STRANGE_UNSEALED: return new_memfd(STRANGE_FD_BYTES, 0, 0);
	case STRANGE_WRITE_SEALED: return new_memfd(STRANGE_FD_BYTES, 0, F_SEAL_SHRINK | F_SEAL_WRITE);
	case STRANGE_FUTURE_WRITE_SEALED:
		return new_memfd(STRANGE_FD_BYTES, 0, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE);
	case STRANGE_READ_ONLY: return new_read_only();
	case STRANGE_SHORT: return new_memfd(4095, 0, F_SEAL_SHRINK);
	case STRANGE_EMPTY: return new_memfd(0, 0, F_SEAL_SHRINK);
	case STRANGE_HUGE: return new_memfd(INT64_C(1) << 62, 0, F_SEAL_SHRINK);
	case STRANGE_ALL_SEALS: return new_memfd(STRANGE_FD_BYTES, 0, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	case STRANGE_FILE: return new_file();
	case STRANGE_FOLDER: return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	case STRANGE_PATH: return open("/dev/null", O_PATH | O_CLOEXEC);
	case STRANGE_NULL: return open("/dev/null", O_RDWR | O_CLOEXEC);
	case STRANGE_ZERO: return open("/dev/zero", O_RDWR | O_CLOEXEC);
	case STRANGE_PIPE: return new_pipe(1);
	case STRANGE_PIPE_READ: return new_silent_pipe();
	case STRANGE_SOCKET: return new_socket();
	case STRANGE_TCP: return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	case STRANGE_EPOLL: return epoll_create1(EPOLL_CLOEXEC);
	case STRANGE_TIMERFD: return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	case STRANGE_INOTIFY: return inotify_init1(IN_CLOEXEC);
	case STRANGE_PIDFD: return (int)syscall(SYS_pidfd_open, getpid(), 0);
	case STRANGE_HUGE_PAGES: return new_memfd(2 * STRANGE_FD_BYTES, MFD_HUGETLB, F_SEAL_SHRINK);
	default: return -1;
	}
}

int strange_fd_new(enum strange_fd kind)
{
	int fd = make(kind);

	return fd >= 0 ? fd : eventfd(0, EFD_CLOEXEC);
}

/* A listening socket of this machine alone, and its address. */
static int new_listener(struct sockaddr_in *ret_addr)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t bytes = sizeof(*ret_addr);
	int small = 4096;

	*ret_addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	if (fd < 0 || bind(fd, (struct sockaddr *)ret_addr, bytes) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)) < 0 || listen(fd, 1) < 0 ||
	    getsockname(fd, (struct sockaddr *)ret_addr, &bytes) < 0)
		return -1;
	return take_fd(&fd);
}

int strange_fd_lingering(int linger_sec, int *ret_peer)
{
	struct linger linger = {1, linger_sec};
	_cleanup_close_ int listener = -1, sock = -1;
	struct sockaddr_in addr;
	static char data[65536];
	int small = 4096, peer;

	listener = new_listener(&addr);
	sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener < 0 || sock < 0 || setsockopt(sock, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)) < 0 ||
	    setsockopt(sock, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) < 0 ||
	    (connect(sock, (struct sockaddr *)&addr, sizeof(addr)) < 0 && errno != EINPROGRESS))
		return -1;
	peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (peer < 0)
		return -1;
	while (send(sock, data, sizeof(data), MSG_NOSIGNAL) > 0)
		;
	*ret_peer = peer;
	return take_fd(&sock);
}

bool strange_fd_is_taken(enum strange_fd kind, int fd)
{
	switch (kind) {
	case STRANGE_FILE:
	case STRANGE_FOLDER:
	case STRANGE_PATH:
	case STRANGE_NULL:
	case STRANGE_ZERO:
		return fcntl(fd, F_GET_SEALS) >= 0;
	default:
		return true;
	}
}

bool strange_fd_is_memory(enum strange_fd kind)
{
	return kind == STRANGE_SEALED || kind == STRANGE_HUGE || kind == STRANGE_ALL_SEALS;
}
