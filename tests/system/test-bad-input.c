/* SPDX-License-Identifier: Apache-2.0 */
/* Bad input from a client harms only its own session. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <shmd/abi/cqe.h>
#include <shmd/abi/doorbell.h>

#include "proto/base/nsec.h"
#include "proto/framing.h"
#include "tests/lib/fixture-daemon.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/strange-fd.h"
#include "tests/lib/test.h"
#include "tests/system/raw-traffic.h"

static void hello(struct raw_client *raw, const struct fixture_daemon *daemon)
{
	raw_connect(raw, daemon->socket);
	raw_hello(raw, MSG_ROLE_CLIENT);
}

TEST(malformed_and_truncated_packets)
{
	static uint8_t buf[FRAMING_MAX_PACKET_BYTES];
	struct fixture_daemon daemon;
	struct raw_client raw;
	struct msg req;
	int bytes;

	fixture_daemon_start(&daemon, NULL);
	raw_fill_create(&req, 3);
	req.id = 1;
	bytes = msg_encode(&req, buf, sizeof(buf));
	for (int cut = 1; cut < bytes; cut++) {
		struct msg msg;

		hello(&raw, &daemon);
		raw_send_bytes(&raw, buf, (size_t)cut, NULL, 0);
		ASSERT_OK(raw_recv(&raw, &msg, NULL));
		ASSERT_EQ(msg.kind, MSG_ERROR_REP);
		raw_close(&raw);
	}
	fixture_daemon_assert_alive(&daemon);
	fixture_daemon_stop(&daemon);
}

/* Valid requests with a few bytes changed, always the same ones. */
TEST_TIMEOUT(damaged_packets, 60)
{
	static uint8_t good[FRAMING_MAX_PACKET_BYTES], bad[FRAMING_MAX_PACKET_BYTES];
	static const enum msg_kind kinds[] = {
		MSG_NIC_OPEN_REQ, MSG_MEM_REG_REQ, MSG_QUEUE_CREATE_REQ, MSG_QUEUE_LAYOUT_REQ,
		MSG_PUBLISH_REQ, MSG_LIST_REQ, MSG_QP_MODIFY_REQ};
	struct fixture_daemon daemon;
	struct raw_client raw;
	struct msg create, req, rep;
	int fd = raw_memfd(65536);

	fixture_daemon_start(&daemon, NULL);
	srandom(1);
	for (int round = 0; round < 400; round++) {
		int bytes;

		raw_fill_create(&create, 3);
		msg_init(&req, kinds[round % 7], 9);
		if (req.kind == MSG_QUEUE_LAYOUT_REQ)
			req.queue_layout_req = create.queue_create_req.specs;
		if (req.kind == MSG_QUEUE_CREATE_REQ)
			req.queue_create_req = create.queue_create_req;
		if (req.kind == MSG_LIST_REQ)
			req.list_req.what = MSG_LIST_QPS;
		bytes = msg_encode(&req, good, sizeof(good));
		ASSERT_GT(bytes, 0);
		hello(&raw, &daemon);
		raw_open_nic(&raw, "");
		for (int i = 0; i < 8; i++) {
			memcpy(bad, good, (size_t)bytes);
			for (int k = 0; k < 3; k++)
				bad[random() % bytes] = (uint8_t)random();
			/* The daemon may have hung up already. */
			if (framing_send(raw.sock, bad, (size_t)bytes, &fd, random() % 2) < 0 ||
			    raw_recv(&raw, &rep, NULL) < 0)
				break;
			msg_deinit(&rep);
		}
		raw_close(&raw);
	}
	fixture_daemon_assert_alive(&daemon);
	fixture_daemon_stop(&daemon);
	close(fd);
}

TEST(too_many_descriptors_and_too_large_packets)
{
	static uint8_t big[FRAMING_MAX_PACKET_BYTES + 4096];
	int fds[40], socks[2];
	struct fixture_daemon daemon;
	struct raw_client raw;
	struct iovec iov = {.iov_base = big, .iov_len = 10};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(fds))];
	} control = {0};
	struct msghdr header = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};

	fixture_daemon_start(&daemon, NULL);
	ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM, 0, socks));
	for (int i = 0; i < 40; i++)
		fds[i] = socks[0];
	hello(&raw, &daemon);
	control.align = (struct cmsghdr){
		.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(fds))};
	memcpy(CMSG_DATA(&control.align), fds, sizeof(fds));
	ASSERT_EQ(sendmsg(raw.sock, &header, 0), 10);
	raw_expect_end(&raw, SHMD_STATUS_PROTOCOL);
	raw_close(&raw);

	hello(&raw, &daemon);
	ASSERT_EQ(send(raw.sock, big, sizeof(big), 0), sizeof(big));
	raw_expect_end(&raw, SHMD_STATUS_PROTOCOL);
	raw_close(&raw);

	/* All copies that the daemon received are closed again: the pair hangs up. */
	close(socks[0]);
	ASSERT_EQ(read(socks[1], big, 1), 0);
	close(socks[1]);
	fixture_daemon_assert_alive(&daemon);
	fixture_daemon_stop(&daemon);
}

TEST(wrong_number_of_descriptors_ends_the_session)
{
	struct fixture_daemon daemon;
	struct raw_client raw;
	struct msg req;
	int fd = raw_memfd(4096);

	fixture_daemon_start(&daemon, NULL);
	hello(&raw, &daemon);
	msg_init(&req, MSG_STATUS_REQ, 0);
	raw_send(&raw, &req, &fd, 1);
	raw_expect_end(&raw, SHMD_STATUS_FDS);
	raw_close(&raw);
	hello(&raw, &daemon);
	raw_open_nic(&raw, "");
	msg_init(&req, MSG_MEM_REG_REQ, 0);
	req.mem_reg_req = (struct msg_mem_reg_req){.kind = MSG_MEM_MEMFD, .length_bytes = 4096};
	raw_send(&raw, &req, NULL, 0);
	raw_expect_end(&raw, SHMD_STATUS_FDS);
	raw_close(&raw);
	close(fd);
	fixture_daemon_assert_alive(&daemon);
	fixture_daemon_stop(&daemon);
}

TEST(wrong_kinds_of_descriptors_are_refused)
{
	struct fixture_daemon daemon;
	struct raw_client raw;
	struct msg req, rep;
	int fds[5];

	fixture_daemon_start(&daemon, NULL);
	hello(&raw, &daemon);
	raw_open_nic(&raw, "");
	fds[0] = open("/dev/null", O_RDWR | O_CLOEXEC);
	fds[1] = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ASSERT_OK(ftruncate(fds[1], 4096));
	fds[2] = raw_memfd(4095);
	fds[3] = raw_memfd(4096);
	fds[4] = dup(raw.sock);
	msg_init(&req, MSG_MEM_REG_REQ, 0);
	req.mem_reg_req = (struct msg_mem_reg_req){.kind = MSG_MEM_MEMFD, .length_bytes = 4096};
	raw_expect_error(&raw, &req, &fds[0], 1, SHMD_STATUS_MEM_FD);
	raw_expect_error(&raw, &req, &fds[1], 1, SHMD_STATUS_MEM_SEALS);
	raw_expect_error(&raw, &req, &fds[2], 1, SHMD_STATUS_MEM_RANGE);
	raw_expect_error(&raw, &req, &fds[4], 1, SHMD_STATUS_MEM_FD);
	req.mem_reg_req.kind = MSG_MEM_DMABUF;
	raw_expect(&raw, &req, &fds[3], 1, MSG_ERROR_REP, &rep);
	if (getenv("SHMEMD_TEST_BACKEND")) {
		/* A NIC that takes dmabufs finds that this is not one. */
		ASSERT_EQ(rep.error_rep.status, SHMD_STATUS_MEM_FD);
	} else {
		ASSERT_EQ(rep.error_rep.status, SHMD_STATUS_MEM_KIND);
		ASSERT(rep.error_rep.accepted_kinds & 1u << MSG_MEM_MEMFD);
		ASSERT(strstr(rep.error_rep.text, "accepts memfd"));
	}
	req.mem_reg_req.kind = MSG_MEM_MEMFD;
	raw_expect(&raw, &req, &fds[3], 1, MSG_MEM_REG_REP, &rep);
	for (int i = 0; i < 5; i++)
		close(fds[i]);
	raw_close(&raw);
	fixture_daemon_stop(&daemon);
}

/* The daemon's is the last descriptor: a thread that closes it waits a minute. */
static int lingering_socket(int *ret_peer)
{
	int sock = strange_fd_lingering(60, ret_peer);

	if (sock < 0)
		test_skip("no TCP here");
	return sock;
}

TEST(a_socket_that_lingers_does_not_hold_the_daemon_up)
{
	struct fixture_daemon daemon;
	struct raw_client raw, other;
	struct msg_status_rep status;
	int peer, sock = lingering_socket(&peer);
	uint64_t begin;
	struct msg req;

	fixture_daemon_start(&daemon, NULL);
	hello(&raw, &daemon);
	hello(&other, &daemon);
	raw_open_nic(&raw, "");
	msg_init(&req, MSG_MEM_REG_REQ, 0);
	req.mem_reg_req = (struct msg_mem_reg_req){.kind = MSG_MEM_MEMFD, .length_bytes = 4096};
	/* A daemon that ran meanwhile could close the socket first, and the close here would linger. */
	ASSERT_OK(kill(daemon.pid, SIGSTOP));
	raw_send(&raw, &req, &sock, 1);
	close(sock);
	begin = nsec_now();
	ASSERT_OK(kill(daemon.pid, SIGCONT));
	raw_status(&other, &status);
	raw_status(&other, &status);
	ASSERT_LT(nsec_now() - begin, 10 * NSEC_PER_SEC);
	close(peer);
	raw_close(&raw);
	raw_close(&other);
	fixture_daemon_stop(&daemon);
}

/* The daemon does not leave unread descriptors to the kernel, which would close them on the thread that serves all clients. */
TEST(a_socket_that_lingers_behind_a_session_that_has_ended_delays_no_client)
{
	/* Before the descriptor: a packet that ends the session, or one that looks like the end of the stream. */
	for (size_t bytes = 0; bytes < 2; bytes++) {
		struct fixture_daemon daemon;
		struct raw_client raw, other;
		struct msg_status_rep status;
		int peer, sock = lingering_socket(&peer);
		uint64_t begin;

		fixture_daemon_start(&daemon, NULL);
		hello(&raw, &daemon);
		hello(&other, &daemon);
		ASSERT_OK(kill(daemon.pid, SIGSTOP));
		ASSERT_EQ(send(raw.sock, "\xff", bytes, 0), (ssize_t)bytes);
		ASSERT_EQ(send(raw.sock, "\xff", 0, 0), 0);
		raw_send_bytes(&raw, "\xff", 1, &sock, 1);
		close(sock);
		raw_close(&raw);
		begin = nsec_now();
		ASSERT_OK(kill(daemon.pid, SIGCONT));
		for (int i = 0; i < 3; i++)
			raw_status(&other, &status);
		ASSERT_LT(nsec_now() - begin, 10 * NSEC_PER_SEC);
		close(peer);
		raw_close(&other);
		fixture_daemon_stop(&daemon);
	}
}

/* The kernel closes what it has no room to hand over: there is room for all that a packet can carry. */
TEST(a_socket_that_lingers_among_too_many_descriptors_delays_no_client)
{
	struct fixture_daemon daemon;
	struct raw_client raw, other;
	struct msg_status_rep status;
	int peer, sock = lingering_socket(&peer), fds[253];
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(fds))];
	} control = {0};
	char byte = 0;
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
				.msg_controllen = sizeof(control)};
	uint64_t begin;

	fixture_daemon_start(&daemon, NULL);
	hello(&raw, &daemon);
	hello(&other, &daemon);
	for (int i = 0; i < 253; i++)
		fds[i] = i < 252 ? STDIN_FILENO : sock;
	control.align = (struct cmsghdr){
		.cmsg_len = CMSG_LEN(sizeof(fds)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(&control.align), fds, sizeof(fds));
	ASSERT_OK(kill(daemon.pid, SIGSTOP));
	ASSERT_EQ(sendmsg(raw.sock, &header, 0), 1);
	close(sock);
	begin = nsec_now();
	ASSERT_OK(kill(daemon.pid, SIGCONT));
	raw_expect_end(&raw, SHMD_STATUS_PROTOCOL);
	raw_status(&other, &status);
	ASSERT_LT(nsec_now() - begin, 10 * NSEC_PER_SEC);
	close(peer);
	raw_close(&raw);
	raw_close(&other);
	fixture_daemon_stop(&daemon);
}

TEST(holes_punched_into_registered_memory)
{
	struct fixture_daemon daemon;
	struct raw_traffic t;

	fixture_daemon_start(&daemon, NULL);
	raw_traffic_init(&t, daemon.socket);
	memset(t.heap, 0x55, RAW_TRAFFIC_HEAP_BYTES);
	ASSERT_OK(madvise(t.heap, RAW_TRAFFIC_HEAP_BYTES, MADV_REMOVE));
	raw_traffic_write(&t, 65536, 0, 65536);
	ASSERT_EQ(raw_traffic_poll(&t), SHMD_CQE_REQ);
	ASSERT_OK(madvise(t.queue_mem, t.queue_mem_bytes, MADV_REMOVE));
	fixture_daemon_assert_alive(&daemon);
	raw_traffic_deinit(&t);
	fixture_daemon_stop(&daemon);
}

/* The whole of what a client can write: rings, dbrecs and doorbell, filled with noise. */
TEST(noise_in_queue_memory_and_doorbell)
{
	struct fixture_daemon daemon;
	struct raw_traffic t;
	uint64_t one = 1;

	fixture_daemon_start(&daemon, NULL);
	srandom(2);
	for (int round = 0; round < 20; round++) {
		raw_traffic_init(&t, daemon.socket);
		for (uint64_t i = 0; i < t.queue_mem_bytes; i++)
			t.queue_mem[i] = (uint8_t)random();
		for (unsigned int i = 0; i < SHMD_DB_PAGE_BYTES; i++)
			t.doorbell_page[i] = (uint8_t)random();
		if (t.wake_fd >= 0)
			ASSERT_EQ(write(t.wake_fd, &one, sizeof(one)), sizeof(one));
		fixture_daemon_assert_alive(&daemon);
		raw_traffic_deinit(&t);
	}
	fixture_daemon_assert_alive(&daemon);
	fixture_daemon_stop(&daemon);
}

TEST(silent_connection_is_closed)
{
	struct fixture_daemon daemon;
	struct raw_client raw;
	struct pollfd p;

	fixture_daemon_start(&daemon, "--handshake-timeout=100", NULL);
	raw_connect(&raw, daemon.socket);
	p = (struct pollfd){.fd = raw.sock, .events = POLLIN};
	ASSERT_EQ(poll(&p, 1, 10000), 1);
	raw_expect_end(&raw, SHMD_STATUS_PROTOCOL);
	raw_close(&raw);
	fixture_daemon_stop(&daemon);
}

/* Asks and never reads: it is ended when its replies have filled socket and queue; others are served. */
TEST(client_that_never_reads_is_ended)
{
	static uint8_t buf[FRAMING_MAX_PACKET_BYTES];
	struct fixture_daemon daemon;
	struct raw_client raw;
	struct msg req;
	int bytes, r = 0;

	fixture_daemon_start(&daemon, NULL);
	hello(&raw, &daemon);
	raw_open_nic(&raw, "");
	msg_init(&req, MSG_NIC_LIST_REQ, 1);
	bytes = msg_encode(&req, buf, sizeof(buf));
	for (int i = 0; i < 100000 && r == 0; i++)
		r = framing_send(raw.sock, buf, (size_t)bytes, NULL, 0);
	ASSERT(r == -EPIPE || r == -ECONNRESET);
	fixture_daemon_assert_alive(&daemon);
	raw_close(&raw);
	fixture_daemon_stop(&daemon);
}

TEST(two_hundred_connections_at_once)
{
	static struct raw_client raws[200];
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	for (int i = 0; i < 200; i++)
		raw_connect(&raws[i], daemon.socket);
	for (int i = 0; i < 200; i++)
		raw_hello(&raws[i], MSG_ROLE_CLIENT);
	fixture_daemon_assert_alive(&daemon);
	for (int i = 0; i < 200; i++)
		raw_close(&raws[i]);
	fixture_daemon_stop(&daemon);
}
