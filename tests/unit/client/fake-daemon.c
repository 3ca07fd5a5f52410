/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/client/fake-daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libclient/client-private.h"
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
	int bytes;

	msg->n_fds = n_fds;
	bytes = msg_encode(msg, buf, sizeof(buf));
	ASSERT_GT(bytes, 0);
	ASSERT_OK(framing_send(fake->sock, buf, (size_t)bytes, fds, n_fds));
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

static void answer_hello(struct fake_daemon *fake, const struct msg *req)
{
	bool is_client = req->hello_req.role == MSG_ROLE_CLIENT;
	struct msg rep;
	int fd = -1;

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
		fd = fake_memfd(PAGE_BYTES);
		fake->health = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		ASSERT_NE(fake->health, MAP_FAILED);
		fake->health->version = SHMD_HEALTH_PAGE_VERSION;
	}
	fake_send(fake, &rep, &fd, is_client);
	safe_close(fd);
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
	fake->sock = -1;
	if (!fake->limits.max_qps_per_request) {
		fake->limits.max_qps_per_request = MSG_MAX_QPS;
		fake->limits.max_peers_per_request = MSG_MAX_PEERS;
		fake->limits.max_qps = 100000;
	}
}

int fake_open(struct fake_daemon *fake, const struct shmd_client_attr *attr, struct shmd_client **ret_client)
{
	int socks[2];

	set_defaults(fake);
	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks));
	ASSERT_OK(framing_setup(socks[0]));
	ASSERT_OK(framing_setup(socks[1]));
	fake->sock = socks[0];
	ASSERT_OK(pthread_create(&fake->thread, NULL, fake_run, fake));
	return client_open_on_fd(socks[1], attr, ret_client);
}

void fake_join(struct fake_daemon *fake)
{
	if (fake->sock < 0)
		return;
	ASSERT_OK(pthread_join(fake->thread, NULL));
	fake->sock = safe_close(fake->sock);
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
