/* SPDX-License-Identifier: Apache-2.0 */
/* Closing a stranger's descriptor takes no longer than it must. */
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/base/foreign-fd.h"
#include "proto/base/later.h"
#include "proto/base/nsec.h"
#include "tests/lib/strange-fd.h"
#include "tests/lib/test.h"

#define LINGER_SEC 4
#define N_FILES 64
#define N_STUCK 32 /* as many as all threads */

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static int lingering(int *ret_peer)
{
	int sock = strange_fd_lingering(LINGER_SEC, ret_peer);

	if (sock < 0)
		test_skip("no TCP here");
	return sock;
}

TEST(a_socket_that_lingers_is_closed_at_once)
{
	int peer, sock = lingering(&peer);
	uint64_t begin = nsec_now();

	ASSERT_EQ(close_foreign(sock), -1);
	ASSERT(!is_open(sock));
	ASSERT_LT(nsec_now() - begin, 1000000000ull * LINGER_SEC / 2);
	close(peer);
}

/* A Unix socket with that on its way in it, whose last descriptor it is: it closes with the other, and blocks. */
static int blocking(int *ret_peer)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.align = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	struct iovec iov = {.iov_base = &(char){0}, .iov_len = 1};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
				.msg_controllen = sizeof(control)};
	int sock = lingering(ret_peer), pair[2];

	ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	memcpy(CMSG_DATA(&control.align), &sock, sizeof(sock));
	ASSERT_EQ(sendmsg(pair[0], &header, 0), 1);
	close(sock);
	close(pair[0]);
	return pair[1];
}

TEST(a_socket_that_lingers_inside_another_is_closed_elsewhere)
{
	int peer, sock = blocking(&peer);
	uint64_t begin = nsec_now();

	close_foreign(sock);
	ASSERT_LT(nsec_now() - begin, 1000000000ull * LINGER_SEC / 2);
	close(peer);
	close_foreign_wait();
}

static void wait_for_unclosed(struct foreign_account *account, unsigned int n)
{
	while (foreign_account_unclosed(account) != n)
		usleep(1000);
}

TEST(who_gets_all_its_closing_stuck_waits_alone_and_is_counted)
{
	struct foreign_account *stuck = foreign_account_new(), *other = foreign_account_new();
	uint64_t begin = nsec_now();
	int peers[N_STUCK];

	for (int i = 0; i < N_STUCK; i++)
		close_foreign_for(blocking(&peers[i]), stuck);
	for (int i = 0; i < N_FILES; i++)
		close_foreign_for(open("/dev/null", O_RDONLY | O_CLOEXEC), other);
	wait_for_unclosed(other, 0);
	ASSERT_LT(nsec_now() - begin, 1000000000ull * LINGER_SEC / 2);
	ASSERT_EQ(foreign_account_unclosed(stuck), N_STUCK);
	for (int i = 0; i < N_STUCK; i++)
		close(peers[i]);
	wait_for_unclosed(stuck, 0);
	foreign_account_unref(other);
	foreign_account_unref(stuck);
	close_foreign_wait();
}

/* As when the daemon ends before its clients' descriptors are closed. */
TEST(an_account_lives_until_its_last_descriptor_is_closed)
{
	struct foreign_account *account = foreign_account_new();
	int peer;

	close_foreign_for(blocking(&peer), account);
	ASSERT_EQ(foreign_account_unclosed(account), 1);
	foreign_account_unref(account);
	close(peer);
	close_foreign_wait();
}

static sem_t gate;

static void wait_at_gate(struct later *later)
{
	sem_wait(&gate);
}

/* A memfd that has memory in it: giving that back takes long. */
TEST(a_large_memfd_is_closed_elsewhere)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	struct later slow = {.fn = wait_at_gate};

	ASSERT_OK(sem_init(&gate, 0, 0));
	ASSERT_OK(ftruncate(fd, 32 << 20));
	ASSERT_OK(fallocate(fd, 0, 0, 32 << 20));
	ASSERT_OK(later_run(&slow));
	close_foreign(fd);
	ASSERT(is_open(fd));
	ASSERT_OK(sem_post(&gate));
	close_foreign_wait();
	ASSERT(!is_open(fd));
}

TEST(what_cannot_block_is_closed_before_the_call_returns)
{
	int fds[4], pipes[2], again;

	for (int round = 0; round < 100; round++) {
		ASSERT_OK(pipe2(pipes, O_CLOEXEC));
		fds[0] = pipes[0];
		fds[1] = pipes[1];
		fds[2] = eventfd(0, EFD_CLOEXEC);
		fds[3] = memfd_create("test", MFD_CLOEXEC);
		errno = 77;
		for (int i = 0; i < 4; i++)
			close_foreign(fds[i]);
		again = errno;
		ASSERT_EQ(again, 77);
		for (int i = 0; i < 4; i++)
			ASSERT(!is_open(fds[i]));
	}
	ASSERT_EQ(close_foreign(-1), -1);
}

/* Whatever its sender does to it afterwards. */
TEST(kinds_that_never_wait_are_told_by_the_kernel_alone)
{
	static const enum strange_fd never[] = {STRANGE_SEALED, STRANGE_UNSEALED, STRANGE_PIPE, STRANGE_PIPE_READ, STRANGE_EVENTFD,
						STRANGE_EPOLL, STRANGE_TIMERFD, STRANGE_INOTIFY};
	static const enum strange_fd maybe[] = {STRANGE_FOLDER, STRANGE_PATH, STRANGE_NULL, STRANGE_ZERO, STRANGE_SOCKET};
	int fd;

	for (unsigned int i = 0; i < sizeof(never) / sizeof(never[0]); i++) {
		fd = strange_fd_new(never[i]);
		ASSERT(foreign_never_waits(fd));
		close(fd);
	}
	for (unsigned int i = 0; i < sizeof(maybe) / sizeof(maybe[0]); i++) {
		fd = strange_fd_new(maybe[i]);
		ASSERT(!foreign_never_waits(fd));
		close(fd);
	}
	ASSERT(!foreign_never_waits(-1));
}

TEST(a_descriptor_of_the_driver_of_gpus_never_waits)
{
	int fd = open("/dev/nvidiactl", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		test_skip("there is no driver of GPUs");
	ASSERT(foreign_never_waits(fd));
	close(fd);
}

/* A file's server might not answer: another thread asks it. */
TEST(files_are_closed_soon)
{
	char path[] = "/tmp/test-foreign-fd-XXXXXX";
	int fds[N_FILES];

	fds[0] = mkostemp(path, O_CLOEXEC);
	ASSERT_GE(fds[0], 0);
	unlink(path);
	for (int i = 1; i < N_FILES; i++)
		fds[i] = fcntl(fds[0], F_DUPFD_CLOEXEC, 3);
	for (int i = 0; i < N_FILES; i++)
		close_foreign(fds[i]);
	close_foreign_wait();
	for (int i = 0; i < N_FILES; i++)
		ASSERT(!is_open(fds[i]));
}
