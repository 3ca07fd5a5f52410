/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loop that forks.
 *
 * A child receives its own order, so that the zygote never has the child's channel: the daemon does not wait before it sends on
 * the channel, and the last close of a channel closes what was sent. While no process can be forked the order stays in the socket,
 * and the zygote reports the error, once.
 *
 * The zygote has its channel and the daemon's pidfd, and nothing else: no standard streams, so that a reader of the daemon's
 * output does not wait for a porter. Signals that end the daemon do not end it; the end of the channel does.
 */
#include "daemon/porter/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/porter/message.h"
#include "daemon/porter/process.h"
#include "proto/base/cleanup.h"
#include "proto/framing.h"

#define FIRST_OWN_FD 3
#define RETRY_MSEC 10 /* no process, or no memory for one */

/* Both ways have room for hundreds of orders. */
static int channel_pair(int fds[2])
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	for (int i = 0; i < 2; i++)
		framing_setup(fds[i]);
	return 0;
}

/* ---- the zygote --------------------------------------------------------------------------------------------------- */

static void ignore_signals(void)
{
	static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGCHLD, SIGQUIT, SIGUSR1, SIGUSR2};
	sigset_t none;

	for (unsigned int i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		signal(signals[i], SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static void close_streams(void)
{
	int null = open("/dev/null", O_RDWR);

	for (int i = 0; null >= 0 && i < FIRST_OWN_FD; i++)
		dup2(null, i);
}

static void close_from(int fd)
{
	long most;

	if (syscall(SYS_close_range, (unsigned int)fd, ~0u, 0) == 0)
		return;
	most = sysconf(_SC_OPEN_MAX);
	for (; fd < most; fd++)
		close(fd);
}

/* Moves both to the lowest numbers, and closes everything else. */
static void keep_two(int *a, int *b)
{
	int high_a = fcntl(*a, F_DUPFD_CLOEXEC, FIRST_OWN_FD + 2);
	int high_b = *b < 0 ? -1 : fcntl(*b, F_DUPFD_CLOEXEC, FIRST_OWN_FD + 2);

	*a = dup3(high_a, FIRST_OWN_FD, O_CLOEXEC);
	*b = high_b < 0 ? -1 : dup3(high_b, FIRST_OWN_FD + 1, O_CLOEXEC);
	close_from(FIRST_OWN_FD + (*b >= 0) + 1);
}

static void raise_fd_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* Descriptors that come with an order. */
struct order_fds {
	int channel, lifeline; /* the second one may be missing */
};

union order_control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(struct order_fds))];
};

/* 1: an order, with its descriptors; 0: a signal came; negative: there is none. */
static int next_order(int from, struct zygote_order *ret_order, struct order_fds *ret_fds)
{
	struct iovec iov = {.iov_base = ret_order, .iov_len = sizeof(*ret_order)};
	union order_control control;
	struct msghdr header = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
	ssize_t n = recvmsg(from, &header, MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&header) : NULL;

	if (n < 0 && errno == EINTR)
		return 0;
	if (n <= 0)
		return -ECONNRESET;
	*ret_fds = (struct order_fds){-1, -1};
	if (!c || c->cmsg_type != SCM_RIGHTS || n != (ssize_t)sizeof(*ret_order))
		return -EBADMSG;
	memcpy(ret_fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
	return 1;
}

/* False: the daemon has gone. */
static bool wait_for_order(int from)
{
	char byte;
	ssize_t n;

	do
		n = recv(from, &byte, sizeof(byte), MSG_PEEK);
	while (n < 0 && errno == EINTR);
	return n > 0;
}

/* `taken` is closed once the order is here. */
static void __attribute__((noreturn)) be_child(const struct zygote_runs *runs, int from, int taken, int daemon_pidfd)
{
	struct zygote_order order;
	struct order_fds fds;
	int r;

	do
		r = next_order(from, &order, &fds);
	while (r == 0);
	close(from);
	close(taken);
	if (r > 0 && order.kind < ZYGOTE_KINDS && runs && runs->run[order.kind]) {
		safe_close(fds.lifeline);
		runs->run[order.kind](fds.channel, daemon_pidfd);
	}
	if (r > 0 && order.kind == ZYGOTE_PORTER)
		process_run(&(struct process_attr){fds.channel, fds.lifeline, daemon_pidfd, order.uid, order.linger_msec});
	_exit(EXIT_FAILURE);
}

/* Returns when the order is taken, or its process has died before. */
static int fork_child(const struct zygote_runs *runs, int from, int daemon_pidfd)
{
	_cleanup_close_ int heard = -1;
	int ends[2], r;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	heard = ends[0];
	pid = fork();
	r = pid < 0 ? -errno : 0;
	if (pid == 0) {
		close(heard);
		be_child(runs, from, ends[1], daemon_pidfd);
	}
	close(ends[1]);
	if (r < 0)
		return r;
	while (read(heard, &(char){0}, 1) < 0 && errno == EINTR)
		;
	return 0;
}

static void __attribute__((noreturn)) serve(const struct zygote_runs *runs, int from, int daemon_pidfd)
{
	int reported = 0;

	while (wait_for_order(from)) {
		int r = fork_child(runs, from, daemon_pidfd);

		if (r != reported && send(from, &r, sizeof(r), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(r))
			reported = r;
		if (r < 0)
			poll(NULL, 0, RETRY_MSEC);
	}
	_exit(EXIT_SUCCESS);
}

static void __attribute__((noreturn)) be_zygote(const struct zygote_runs *runs, int from, int daemon_pidfd)
{
	ignore_signals();
	close_streams();
	keep_two(&from, &daemon_pidfd);
	raise_fd_limit();
	prctl(PR_SET_NAME, "shmemd-zygote");
	serve(runs, from, daemon_pidfd);
}

/* ---- the daemon --------------------------------------------------------------------------------------------------- */

int zygote_start(const struct zygote_runs *runs, int *ret_channel)
{
	_cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	int fds[2], r = channel_pair(fds);
	pid_t pid;

	if (r < 0)
		return r;
	pid = fork();
	r = -errno;
	if (pid == 0)
		be_zygote(runs, fds[1], pidfd);
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return r;
	}
	*ret_channel = fds[0];
	return 0;
}

static int send_fds(int zygote, const struct zygote_order *order, const struct order_fds *fds)
{
	size_t bytes = fds->lifeline < 0 ? sizeof(int) : sizeof(*fds);
	struct iovec iov = {.iov_base = (void *)order, .iov_len = sizeof(*order)};
	union order_control control = {
		.align = {.cmsg_len = CMSG_LEN(bytes), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
	struct msghdr header = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = CMSG_SPACE(bytes)};
	ssize_t n;

	memcpy(CMSG_DATA(&control.align), fds, bytes);
	do
		n = sendmsg(zygote, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

int zygote_fork(int zygote, const struct zygote_order *order, int lifeline, int *ret_channel)
{
	_cleanup_close_ int ours = -1, theirs = -1;
	int fds[2], r = channel_pair(fds);

	if (r < 0)
		return r;
	ours = fds[0];
	theirs = fds[1];
	/* A mapper answers without descriptors. Closing one could take as long as its sender likes; kernels before 6.16 take it. */
	if (order->kind == ZYGOTE_MAPPER)
		framing_set_passing(ours, false);
	if (fcntl(ours, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	r = send_fds(zygote, order, &(struct order_fds){theirs, lifeline});
	if (r == 0)
		*ret_channel = take_fd(&ours);
	return r;
}

int zygote_hear(int zygote, int *ret_error)
{
	int error = 0;
	ssize_t n;

	do
		n = recv(zygote, &error, sizeof(error), MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return -EAGAIN;
	if (n != sizeof(error))
		return -EPIPE;
	*ret_error = error;
	return 0;
}
