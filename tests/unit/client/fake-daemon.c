/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/client/fake-daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libclient/client-open.h"
#include "libclient/objects.h"
#include "proto/framing.h"
#include "tests/lib/test.h"

int fake_memfd(size_t bytes)
{
	int fd = memfd_create("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ASSERT_GE(fd, 0);
	ASSERT_OK(ftruncate(fd, (off_t)bytes));
	ASSERT_OK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
	return fd;
}

void fake_send_raw(struct fake_daemon *fake, const void *bytes, size_t n)
{
	ASSERT_OK(framing_send(fake->sock, bytes, n, NULL, 0));
}

void fake_send(struct fake_daemon *fake, struct msg *msg, const int *fds, unsigned int n_fds)
{
	static _Thread_local uint8_t buf[FRAMING_MAX_PACKET_BYTES];
	int bytes, r;

	msg->n_fds = n_fds;
	bytes = msg_encode(msg, buf, sizeof(buf));
	ASSERT_GT(bytes, 0);
	r = framing_send(fake->sock, buf, (size_t)bytes, fds, n_fds);
	/* The second reply to a request that came twice: no call waits for it, and the client may be gone. */
	if (r != -EPIPE || !fake->grace_nsec)
		ASSERT_OK(r);
}

void fake_send_ok(struct fake_daemon *fake, uint64_t id)
{
	struct msg msg;

	msg_init(&msg, MSG_OK_REP, id);
	fake_send(fake, &msg, NULL, 0);
}

void fake_send_error(struct fake_daemon *fake, uint64_t id, uint32_t status, const char *text)
{
	struct msg msg;

	msg_init(&msg, MSG_ERROR_REP, id);
	msg.error_rep.status = status;
	snprintf(msg.error_rep.text, sizeof(msg.error_rep.text), "%s", text);
	fake_send(fake, &msg, NULL, 0);
}

void fake_send_event(struct fake_daemon *fake, enum msg_event_kind kind, uint32_t number, const char *text)
{
	struct msg msg;

	msg_init(&msg, MSG_EVENT, 0);
	msg.event.kind = kind;
	msg.event.number = number;
	msg.event.detail = number;
	snprintf(msg.event.text, sizeof(msg.event.text), "%s", text);
	fake_send(fake, &msg, NULL, 0);
}

/* ---- dying -------------------------------------------------------------------------------------------------- */

/* One end is the daemon's, and the other the caller's. */
static int make_watch(struct fake_daemon *fake)
{
	int fds[2];

	ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
	ASSERT_OK(shutdown(fds[1], SHUT_RD));
	pthread_mutex_lock(&fake->lock);
	safe_close(fake->watch_fd);
	fake->watch_fd = fds[1];
	pthread_mutex_unlock(&fake->lock);
	return fds[0];
}

static void set_away(struct fake_daemon *fake, bool is_away)
{
	pthread_mutex_lock(&fake->lock);
	fake->is_away = is_away;
	if (is_away)
		fake->watch_fd = safe_close(fake->watch_fd);
	pthread_mutex_unlock(&fake->lock);
}

void fake_crash(struct fake_daemon *fake)
{
	set_away(fake, true);
}

void fake_come_back(struct fake_daemon *fake)
{
	int fd = make_watch(fake);
	struct msg msg;

	msg_init(&msg, MSG_RESUMED_EVENT, 0);
	msg.resumed_event.restart_grace_nsec = fake->grace_nsec;
	snprintf(msg.resumed_event.daemon, sizeof(msg.resumed_event.daemon), "fake 1.2.4");
	fake_send(fake, &msg, &fd, 1);
	close(fd);
	set_away(fake, false);
}

static bool is_away(struct fake_daemon *fake)
{
	bool away;

	pthread_mutex_lock(&fake->lock);
	away = fake->is_away;
	pthread_mutex_unlock(&fake->lock);
	return away;
}

/* Something lies in the socket and there is a daemon, or the connection has ended. */
static void wait_for_packet(struct fake_daemon *fake)
{
	struct pollfd pfd = {.fd = fake->sock, .events = POLLIN};

	ASSERT_EQ(poll(&pfd, 1, -1), 1);
	while (is_away(fake) && !(pfd.revents & POLLHUP)) {
		usleep(1000);
		ASSERT_GE(poll(&pfd, 1, 0), 0);
	}
}

/* ---- living ------------------------------------------------------------------------------------------------- */

static void die_in_hello(struct fake_daemon *fake)
{
	fake_crash(fake);
	fake_come_back(fake);
}

static void answer_hello(struct fake_daemon *fake, const struct msg *req)
{
	bool is_client = req->hello_req.role == MSG_ROLE_CLIENT;
	struct msg rep;
	int fds[2] = {-1, -1};

	fake->hello_resumes = req->hello_req.resumes;
	if (fake->n_hellos++ < fake->n_hello_deaths) {
		(fake->in_hello ? fake->in_hello : die_in_hello)(fake);
		return;
	}
	if (fake->hello_status) {
		fake_send_error(fake, req->id, fake->hello_status, "");
		return;
	}
	msg_init(&rep, MSG_HELLO_REP, req->id);
	rep.hello_rep.version = fake->hello_version ? fake->hello_version : SHMD_PROTOCOL_VERSION_MAX;
	rep.hello_rep.session = 7;
	rep.hello_rep.limits = fake->limits;
	snprintf(rep.hello_rep.daemon, sizeof(rep.hello_rep.daemon), "fake 1.2.3");
	if (is_client) {
		fds[0] = fake_memfd(PAGE_BYTES);
		fake->health = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
		ASSERT_NE(fake->health, MAP_FAILED);
		fake->health->version = SHMD_HEALTH_PAGE_VERSION;
	}
	if (is_client && fake->grace_nsec) {
		fds[1] = fake->hello_watch_fd ? dup(fake->hello_watch_fd) : make_watch(fake);
		rep.hello_rep.watch_fd = fake->hello_watch_index ? fake->hello_watch_index : 2;
		rep.hello_rep.restart_grace_nsec = fake->grace_nsec;
	}
	fake_send(fake, &rep, fds, is_client ? 1 + (fds[1] >= 0) : 0);
	safe_close(fds[0]);
	safe_close(fds[1]);
}

static void *fake_run(void *arg)
{
	uint8_t *buf = malloc(FRAMING_MAX_PACKET_BYTES);
	struct fake_daemon *fake = arg;
	struct fdlist fds;
	struct msg req;
	size_t bytes;

	ASSERT(buf);
	for (;;) {
		fdlist_init(&fds);
		wait_for_packet(fake);
		if (framing_recv(fake->sock, buf, FRAMING_MAX_PACKET_BYTES, &bytes, &fds) < 0)
			break;
		ASSERT_OK(msg_decode(buf, bytes, &req));
		ASSERT_EQ(req.n_fds, fds.n);
		if (req.kind == MSG_HELLO_REQ) {
			answer_hello(fake, &req);
		} else {
			fake->n_requests++;
			fake->handle(fake, &req, &fds);
		}
		msg_deinit(&req);
		fdlist_deinit(&fds);
	}
	fake->saw_end = true;
	free(buf);
	return NULL;
}

static void set_defaults(struct fake_daemon *fake)
{
	fake->sock = fake->watch_fd = -1;
	fake->is_away = false;
	ASSERT_OK(pthread_mutex_init(&fake->lock, NULL));
	if (!fake->limits.max_qps_per_request) {
		fake->limits.max_qps_per_request = MSG_MAX_QPS;
		fake->limits.max_peers_per_request = MSG_MAX_PEERS;
		fake->limits.max_qps = 100000;
	}
}

void fake_serve(struct fake_daemon *fake, int sock)
{
	set_defaults(fake);
	ASSERT_OK(framing_setup(sock));
	fake->sock = sock;
	ASSERT_OK(pthread_create(&fake->thread, NULL, fake_run, fake));
}

int fake_open(struct fake_daemon *fake, const struct shmd_client_attr *attr, struct shmd_client **ret_client)
{
	int socks[2];

	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks));
	ASSERT_OK(framing_setup(socks[1]));
	fake_serve(fake, socks[0]);
	return client_open_on_fd(socks[1], attr, ret_client);
}

void fake_join(struct fake_daemon *fake)
{
	if (fake->sock < 0)
		return;
	ASSERT_OK(pthread_join(fake->thread, NULL));
	fake->sock = safe_close(fake->sock);
	fake->watch_fd = safe_close(fake->watch_fd);
	if (fake->health)
		munmap(fake->health, PAGE_BYTES);
	fake->health = NULL;
}

void fake_stop(struct fake_daemon *fake)
{
	if (fake->sock >= 0)
		shutdown(fake->sock, SHUT_RDWR);
	fake_join(fake);
}
