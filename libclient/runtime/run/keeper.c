/* SPDX-License-Identifier: Apache-2.0 */
/* See keeper.h. One thread; packets over a socket in both directions; signals by signalfd. */
#include "libclient/runtime/run/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libclient/runtime/run/spawn.h"
#include "libclient/runtime/run/sweep.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

struct keeper {
	const struct keeper_attr *attr;
	int sock, failed[2], signals;
	pid_t *pids; /* 0: not started, or ended */
	bool is_launcher_gone;
};

/* ---- packets --------------------------------------------------------------------------------------------------------------- */

union fds_control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(KEEPER_FDS * sizeof(int))];
};

/* Descriptors that are -1 stand as the socket's own in the packet, and as -1 again at the other end. */
static int send_news(int sock, const struct keeper_news *news, const struct keeper_fds *fds)
{
	struct packet {
		struct keeper_news news;
		uint32_t has[KEEPER_FDS];
	} packet = {.news = *news};
	struct iovec iov = {&packet, sizeof(packet)};
	union fds_control control = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	int all[KEEPER_FDS] = {fds ? fds->out : -1, fds ? fds->err : -1, fds ? fds->pmi : -1, fds ? fds->in : -1}, r;

	if (fds) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
		*CMSG_FIRSTHDR(&msg) = (struct cmsghdr){
			.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(all))};
		for (unsigned int i = 0; i < KEEPER_FDS; i++) {
			packet.has[i] = all[i] >= 0;
			all[i] = all[i] < 0 ? sock : all[i];
		}
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), all, sizeof(all));
	}
	do
		r = sendmsg(sock, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
	while (r == -EINTR);
	return r;
}

static int take_fds(struct msghdr *msg, const uint32_t *has, struct keeper_fds *ret_fds)
{
	struct cmsghdr *head = CMSG_FIRSTHDR(msg);
	int all[KEEPER_FDS] = {-1, -1, -1, -1};

	if (head && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(sizeof(all)))
		memcpy(all, CMSG_DATA(head), sizeof(all));
	for (unsigned int i = 0; i < KEEPER_FDS; i++)
		if (!has[i])
			all[i] = safe_close(all[i]);
	*ret_fds = (struct keeper_fds){all[0], all[1], all[2], all[3]};
	return msg->msg_flags & MSG_CTRUNC ? -EMFILE : 1;
}

int keeper_next(int sock, struct keeper_news *ret_news, struct keeper_fds *ret_fds)
{
	struct packet {
		struct keeper_news news;
		uint32_t has[KEEPER_FDS];
	} packet;
	struct iovec iov = {&packet, sizeof(packet)};
	union fds_control control;
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
	ssize_t n = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN;
	if (n != sizeof(packet))
		return 0;
	*ret_news = packet.news;
	return take_fds(&msg, packet.has, ret_fds);
}

static void give_order(int sock, struct keeper_order order)
{
	/* Never waits: a keeper that does not read has other troubles, and signals come again. */
	(void)!send(sock, &order, sizeof(order), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void keeper_signal(int sock, uint32_t rank, int signo)
{
	give_order(sock, (struct keeper_order){.rank = rank, .signo = signo});
}

void keeper_finish(int sock, unsigned int grace_msec)
{
	give_order(sock, (struct keeper_order){.rank = KEEPER_ALL, .grace_msec = grace_msec});
}

/* ---- in the keeper --------------------------------------------------------------------------------------------------------- */

static void tell(struct keeper *keeper, struct keeper_news news, const struct keeper_fds *fds)
{
	struct timespec pause = nsec_to_timespec(NSEC_PER_MSEC);
	int r;

	/* Too many descriptors are under way in sockets: the launcher takes them out. */
	while ((r = send_news(keeper->sock, &news, fds)) == -ETOOMANYREFS)
		nanosleep(&pause, NULL);
	if (r < 0)
		keeper->is_launcher_gone = true;
}

static void start_pe(struct keeper *keeper, unsigned int rank)
{
	struct keeper_fds fds = {-1, -1, -1, -1};
	enum keeper_step step;
	pid_t pid = spawn_pe(keeper->attr, rank, keeper->failed[1], &fds, &step);

	if (pid < 0) {
		tell(keeper, (struct keeper_news){.kind = KEEPER_REFUSED, .rank = rank, .step = step, .value = -pid}, NULL);
		return;
	}
	keeper->pids[rank] = pid;
	tell(keeper, (struct keeper_news){.kind = KEEPER_STARTED, .rank = rank, .value = pid}, &fds);
	spawn_close_fds(&fds);
}

/* Reports those that did not come to run the program. Before their ends, which would explain nothing. */
static void read_failures(struct keeper *keeper)
{
	struct spawn_failure failure;

	while (read(keeper->failed[0], &failure, sizeof(failure)) == sizeof(failure))
		tell(keeper,
		     (struct keeper_news){.kind = KEEPER_REFUSED, .rank = failure.rank, .step = failure.step, .value = failure.error},
		     NULL);
}

static void note_end(struct keeper *keeper, pid_t pid, int status)
{
	for (unsigned int rank = 0; rank < keeper->attr->n_pes; rank++) {
		if (keeper->pids[rank] != pid)
			continue;
		keeper->pids[rank] = 0;
		read_failures(keeper);
		tell(keeper, (struct keeper_news){.kind = KEEPER_ENDED, .rank = rank, .value = status}, NULL);
	}
}

static void reap(struct keeper *keeper)
{
	pid_t pid;
	int status;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		note_end(keeper, pid, status);
}

/* A PE that has ended is not waited for before pids[] forgets it, so its number belongs to nobody else. */
static void signal_groups(struct keeper *keeper, uint32_t rank, int signo)
{
	for (uint32_t i = 0; i < keeper->attr->n_pes; i++)
		if ((rank == KEEPER_ALL || rank == i) && keeper->pids[i])
			kill(-keeper->pids[i], signo);
}

/* False: finish. */
static bool take_orders(struct keeper *keeper, unsigned int *ret_grace_msec)
{
	struct keeper_order order;
	ssize_t n;

	while ((n = recv(keeper->sock, &order, sizeof(order), MSG_DONTWAIT)) == sizeof(order)) {
		if (!order.signo) {
			*ret_grace_msec = order.grace_msec;
			return false;
		}
		signal_groups(keeper, order.rank, order.signo);
	}
	if (!n || (n < 0 && errno != EAGAIN && errno != EINTR))
		keeper->is_launcher_gone = true;
	return !keeper->is_launcher_gone;
}

static void serve(struct keeper *keeper)
{
	struct pollfd polls[] = {{keeper->sock, POLLIN, 0}, {keeper->signals, POLLIN, 0}, {keeper->failed[0], POLLIN, 0}};
	struct signalfd_siginfo info;
	unsigned int grace_msec = 0;
	int n_killed;

	while (take_orders(keeper, &grace_msec) && !keeper->is_launcher_gone) {
		poll(polls, 3, -1);
		(void)!read(keeper->signals, &info, sizeof(info));
		if (polls[2].revents) {
			read_failures(keeper);
			/* All writers have run their programs or ended. */
			polls[2].fd = polls[2].revents & POLLHUP ? -1 : polls[2].fd;
		}
		reap(keeper);
	}
	if (keeper->is_launcher_gone)
		signal_groups(keeper, KEEPER_ALL, SIGKILL);
	n_killed = sweep_children(grace_msec);
	tell(keeper, (struct keeper_news){.kind = KEEPER_SWEPT, .value = n_killed}, NULL);
}

static int keeper_open(struct keeper *keeper)
{
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	keeper->pids = calloc(keeper->attr->n_pes, sizeof(*keeper->pids));
	keeper->signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (!keeper->pids || keeper->signals < 0 || pipe2(keeper->failed, O_CLOEXEC) < 0 ||
	    fcntl(keeper->failed[0], F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	return 0;
}

/* A process group of its own: the terminal's signals go to the launcher, and a signal to the launcher's group is not for it. */
static void keeper_main(const struct keeper_attr *attr, int sock)
{
	struct keeper keeper = {.attr = attr, .sock = sock, .failed = {-1, -1}, .signals = -1};

	setpgid(0, 0);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	prctl(PR_SET_NAME, "shmemctl-keeper");
	if (keeper_open(&keeper) < 0)
		_exit(1);
	for (unsigned int rank = 0; rank < attr->n_pes && !keeper.is_launcher_gone; rank++)
		start_pe(&keeper, rank);
	keeper.failed[1] = safe_close(keeper.failed[1]);
	serve(&keeper);
	_exit(0);
}

pid_t keeper_start(const struct keeper_attr *attr, int *ret_sock)
{
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid = fork();
	if (!pid) {
		close(pair[0]);
		keeper_main(attr, pair[1]);
	}
	if (pid < 0)
		pid = -errno;
	close(pair[1]);
	if (pid < 0)
		close(pair[0]);
	else
		*ret_sock = pair[0];
	return pid;
}
