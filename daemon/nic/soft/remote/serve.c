/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process: its start, its threads, its end.
 *
 * It ends when the daemon dies, when the daemon closes a channel, or when it has had no context for a while. Whatever maps memory or
 * touches that of clients may stand still in the kernel for as long as the user likes, so nobody but the thread of works and the
 * executors does. The death of the daemon ends the process without its help.
 */
#include "daemon/nic/soft/remote/serve.h"

#include <errno.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/base/cleanup.h"
#include "proto/base/sandbox.h"
#include "proto/base/thread.h"

#define LINGER_MSEC 10000u
#define STACK_BYTES (256u << 10)

/* ---- threads -------------------------------------------------------------------------------------------------------------- */

static void __attribute__((noreturn)) end(void)
{
	_exit(EXIT_SUCCESS);
}

/* The daemon's descriptors may be in other hands for a while; its death is not. */
static void *watch_daemon(void *arg)
{
	const struct serve *serve = arg;
	struct pollfd pfd = {.fd = serve->daemon_pidfd, .events = POLLIN};

	while (poll(&pfd, 1, -1) <= 0)
		;
	kill(getpid(), SIGKILL);
	return NULL;
}

static int send_answer(int sock, struct serve_answer *with, int result)
{
	unsigned int n_fds = result < 0 ? 0 : with->n_fds;

	with->head.result = result;
	with->head.bytes = result < 0 ? 0 : with->body.n;
	return remote_send(sock, &with->head, with->body.buf, n_fds, with->fds, false);
}

/* The daemon does not hear what was made. */
static void undo(struct serve *serve, const struct remote_packet *request, const struct serve_answer *with)
{
	struct remote_packet undoing = {.head = remote_undoing(&request->head, &with->head)};
	struct serve_answer nothing = {0};

	if (undoing.head.op)
		serve_work(serve, &undoing, &nothing);
	remote_writer_deinit(&nothing.body);
}

/* An answer for which there is no memory or no descriptor is an error of its request. */
static void answer(struct serve *serve, int sock, const struct remote_packet *request, struct serve_answer *with, int result)
{
	int r = result >= 0 && with->body.is_short ? -ENOMEM : 0;

	with->head.op = request->head.op;
	with->head.seq = request->head.seq;
	if (r == 0)
		r = send_answer(sock, with, result);
	if (r < 0 && !remote_is_gone(r)) {
		if (result >= 0)
			undo(serve, request, with);
		r = send_answer(sock, with, r);
	}
	if (r < 0)
		end();
	remote_writer_deinit(&with->body);
}

static bool is_unused(struct serve *serve)
{
	bool is_unused;

	pthread_mutex_lock(&serve->lock);
	is_unused = list_empty(&serve->ctxs) && !serve->is_busy;
	pthread_mutex_unlock(&serve->lock);
	return is_unused;
}

/* A request that has been read and not begun gets no answer, so the daemon starts another process for it. */
static void end_if_unused(struct serve *serve)
{
	pthread_mutex_lock(&serve->lock);
	serve->is_ending = list_empty(&serve->ctxs) && !serve->is_busy;
	pthread_mutex_unlock(&serve->lock);
	if (serve->is_ending)
		end();
}

static void set_busy(struct serve *serve, bool is_busy)
{
	pthread_mutex_lock(&serve->lock);
	serve->is_busy = is_busy;
	if (serve->is_ending)
		end();
	pthread_mutex_unlock(&serve->lock);
}

/* The last context may have gone, while the first thread sleeps without a limit. */
static void nudge(struct serve *serve)
{
	uint64_t one = 1;

	if (is_unused(serve) && write(serve->nudge, &one, sizeof(one)) < 0)
		end();
}

static void *run_works(void *arg)
{
	struct serve *serve = arg;
	struct remote_packet request;

	while (remote_recv(serve->works, REMOTE_FOR_EVER, &request) == 0) {
		struct serve_answer with = {0};
		int r;

		set_busy(serve, true);
		r = request.lost ? request.lost : serve_work(serve, &request, &with);
		answer(serve, serve->works, &request, &with, r);
		remote_packet_deinit(&request);
		set_busy(serve, false);
		nudge(serve);
	}
	end();
}

/* ---- events --------------------------------------------------------------------------------------------------------------- */

/* The daemon itself reports what its ports do. False: no room. */
static bool pass_on(struct serve_nic *nic, const struct nic_event *event)
{
	return event->kind == NIC_EVENT_PORT_STATE || send(nic->events, event, sizeof(*event), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

static void pass_events_on(struct serve_nic *nic)
{
	if (nic->has_held && !pass_on(nic, &nic->held))
		return;
	nic->has_held = false;
	while (nic->nic->ops->next_event(nic->nic, &nic->held) == 0) {
		if (pass_on(nic, &nic->held))
			continue;
		nic->has_held = true;
		return;
	}
}

/* Returns how many; the first two are the channel of questions and the nudge. */
static unsigned int fill_pfds(const struct serve *serve, struct pollfd *pfds)
{
	unsigned int n = 0;

	pfds[n++] = (struct pollfd){.fd = serve->asks, .events = POLLIN};
	pfds[n++] = (struct pollfd){.fd = serve->nudge, .events = POLLIN};
	for (unsigned int i = 0; i < serve->n_nics; i++) {
		const struct serve_nic *nic = &serve->nics[i];

		if (nic->events >= 0)
			pfds[n++] = (struct pollfd){.fd = nic->has_held ? nic->events : nic->nic->event_fd,
						    .events = nic->has_held ? POLLOUT : POLLIN};
	}
	return n;
}

/* ---- the first thread ----------------------------------------------------------------------------------------------------- */

static void answer_one(struct serve *serve)
{
	struct remote_packet request;
	struct serve_answer with = {0};
	int r = remote_recv(serve->asks, 0, &request);

	if (r == -EAGAIN)
		return;
	if (r < 0)
		end();
	r = request.lost ? request.lost : serve_ask(serve, &request, &with);
	answer(serve, serve->asks, &request, &with, r);
	remote_packet_deinit(&request);
}

static void __attribute__((noreturn)) run_asks(struct serve *serve)
{
	struct pollfd pfds[2 + REMOTE_MAX_NICS];
	uint64_t count;

	for (;;) {
		unsigned int n = fill_pfds(serve, pfds);
		int r = poll(pfds, n, is_unused(serve) ? (int)serve->linger_msec : -1);

		if (r == 0)
			end_if_unused(serve);
		if (r <= 0)
			continue;
		if (pfds[0].revents)
			answer_one(serve);
		if (pfds[1].revents && read(serve->nudge, &count, sizeof(count)) < 0)
			end();
		for (unsigned int i = 0; i < serve->n_nics; i++)
			if (serve->nics[i].events >= 0)
				pass_events_on(&serve->nics[i]);
	}
}

/* ---- start ---------------------------------------------------------------------------------------------------------------- */

/* Only its own user's files and processes are touched here, for which the uid is enough. A fault point may kill the daemon. */
static void drop_privileges(bool has_fault)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {{0}};

	sandbox_enter(has_fault);
	syscall(SYS_capset, &header, none);
}

static int make_nics(struct serve *serve, const struct remote_init *init, const int *fds)
{
	const struct soft_identity identity = {
		.table_fd = fds[REMOTE_INIT_TABLE], .part_fd = fds[REMOTE_INIT_PART], .exec = init->seat, .killed_pid = init->daemon_pid};
	struct nic_soft_attr attr = init->attr;
	struct list nics;
	struct nic *nic;
	int r;

	attr.fault = init->fault[0] ? init->fault : NULL;
	list_init(&nics);
	r = soft_probe(&attr, &identity, &nics);
	if (r < 0)
		return r;
	list_for_each_entry (nic, &nics, link)
		serve->nics[serve->n_nics++] = (struct serve_nic){.nic = nic, .events = -1};
	return 0;
}

/* So that the daemon knows when this process has ended. */
static void tell_pidfd(struct serve_answer *with)
{
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	if (pidfd >= 0)
		with->fds[with->n_fds++] = pidfd;
}

static int init(struct serve *serve, struct remote_packet *request, struct serve_answer *with)
{
	struct remote_init init;
	char name[32];
	pthread_t thread;
	int r;

	if (request->head.op != REMOTE_INIT || request->n_fds != REMOTE_N_INIT || request->head.bytes != sizeof(init))
		return -EBADMSG;
	memcpy(&init, request->body, sizeof(init));
	serve->asks = remote_packet_take_fd(request, REMOTE_INIT_ASKS);
	serve->peers = remote_packet_take_fd(request, REMOTE_INIT_PEERS);
	serve->want_fd = remote_packet_take_fd(request, REMOTE_INIT_WANT);
	serve->linger_msec = init.attr.linger_msec ? init.attr.linger_msec : LINGER_MSEC;
	snprintf(name, sizeof(name), "executor %u", init.uid);
	prctl(PR_SET_NAME, name);
	tell_pidfd(with);
	drop_privileges(init.fault[0]);
	r = make_nics(serve, &init, request->fds);
	if (r == 0 && serve->daemon_pidfd >= 0)
		r = thread_start(&thread, STACK_BYTES, "shmd-watch", watch_daemon, serve);
	return r < 0 ? r : thread_start(&thread, STACK_BYTES, "shmd-peers", serve_peers, serve);
}

void nic_soft_serve(int channel, int daemon_pidfd)
{
	static struct serve serve;
	struct remote_packet request;
	struct serve_answer with = {0};
	pthread_t thread;
	int r;

	serve.works = channel;
	serve.asks = -1;
	serve.daemon_pidfd = daemon_pidfd;
	serve.nudge = eventfd(0, EFD_CLOEXEC);
	pthread_mutex_init(&serve.lock, NULL);
	list_init(&serve.ctxs);
	if (serve.nudge < 0 || remote_recv(channel, REMOTE_FOR_EVER, &request) < 0)
		end();
	r = init(&serve, &request, &with);
	answer(&serve, channel, &request, &with, r);
	for (unsigned int i = 0; i < with.n_fds; i++)
		safe_close(with.fds[i]);
	remote_packet_deinit(&request);
	if (r < 0 || thread_start(&thread, 0, "shmd-works", run_works, &serve) < 0)
		end();
	run_asks(&serve);
}
