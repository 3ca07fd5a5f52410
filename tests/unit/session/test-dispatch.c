/* SPDX-License-Identifier: Apache-2.0 */
/* Permissions and order of requests: the rules before any handler. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/unit/session/lab.h"
#include "proto/base/nsec.h"
#include "proto/framing.h"
#include "tests/lib/test.h"

static void hello(struct msg *msg, uint32_t min, uint32_t max, enum msg_role role)
{
	msg_init(msg, MSG_HELLO_REQ, 0);
	msg->hello_req.version_min = min;
	msg->hello_req.version_max = max;
	msg->hello_req.role = role;
}

TEST(hello_tells_version_limits_and_health_page)
{
	struct fdlist fds;
	struct msg req, rep;
	struct pair pair;
	struct lab lab;

	lab_init(&lab, 7);
	pair_init(&pair, &lab);
	hello(&req, 1, 99, MSG_ROLE_CLIENT);
	raw_send(&pair.raw, &req, NULL, 0);
	fdlist_init(&fds);
	ASSERT_OK(raw_recv(&pair.raw, &rep, &fds));
	ASSERT_EQ(rep.kind, MSG_HELLO_REP);
	ASSERT_EQ(rep.hello_rep.version, 1);
	ASSERT_EQ(rep.hello_rep.session, pair.session->id);
	ASSERT_EQ(rep.hello_rep.n_nics, 2);
	ASSERT_STREQ(rep.hello_rep.daemon, "shmemd under test");
	ASSERT_EQ(rep.hello_rep.limits.max_qps, 7);
	ASSERT_EQ(rep.hello_rep.limits.max_registered_bytes, 7 << 20);
	ASSERT_EQ(rep.hello_rep.limits.max_packet_bytes, FRAMING_MAX_PACKET_BYTES);
	ASSERT_EQ(rep.hello_rep.limits.max_qps_per_request, MSG_MAX_QPS);
	ASSERT_EQ(fds.n, 1);
	ASSERT_EQ(fcntl(fds.fds[0], F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	fdlist_deinit(&fds);
	pair_deinit(&pair);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

TEST(version_mismatch_is_reported_and_ends_the_session)
{
	static const struct {
		uint32_t min, max;
		enum shmd_status status;
	} ranges[] = {{2, 9, SHMD_STATUS_VERSION}, {0, 0, SHMD_STATUS_VERSION}, {9, 1, SHMD_STATUS_INVALID}};

	for (int i = 0; i < 3; i++) {
		struct pair pair;
		struct msg req;
		struct lab lab;

		lab_init(&lab, 7);
		pair_init(&pair, &lab);
		hello(&req, ranges[i].min, ranges[i].max, MSG_ROLE_CLIENT);
		raw_expect_error(&pair.raw, &req, NULL, 0, ranges[i].status);
		pair_expect_end(&pair, ranges[i].status);
		ASSERT_EQ(lab.registry.refused_total, ranges[i].status == SHMD_STATUS_VERSION);
		pair_deinit(&pair);
		lab_assert_empty(&lab);
		lab_deinit(&lab);
	}
}

/* Half of what a session has is there already: a second Hello must not find it. */
TEST(hello_that_finds_no_descriptor_left_ends_the_session_and_not_the_daemon)
{
	struct rlimit limit, none;
	struct pair pair;
	struct msg req;
	struct lab lab;

	lab_init(&lab, 7);
	ASSERT_OK(getrlimit(RLIMIT_NOFILE, &limit));
	for (rlim_t n_left = 0; n_left < 2; n_left++) {
		pair_init(&pair, &lab);
		none = limit;
		/* One more is enough for the page, and not for the client's descriptor of it. */
		none.rlim_cur = (rlim_t)dup(pair.raw.sock) + n_left;
		close((int)(none.rlim_cur - n_left));
		hello(&req, 1, 1, MSG_ROLE_CLIENT);
		ASSERT_OK(setrlimit(RLIMIT_NOFILE, &none));
		raw_send(&pair.raw, &req, NULL, 0);
		raw_send(&pair.raw, &req, NULL, 0);
		ASSERT_OK(setrlimit(RLIMIT_NOFILE, &limit));
		pair_expect_end(&pair, SHMD_STATUS_NO_MEMORY);
		pair_deinit(&pair);
		lab_assert_empty(&lab);
	}
	lab_deinit(&lab);
}

TEST(nothing_before_hello)
{
	for (unsigned int kind = MSG_NIC_LIST_REQ; kind <= MSG_KIND_MAX; kind++) {
		struct pair pair;
		struct msg req;
		struct lab lab;

		if (strcmp(msg_kind_name(kind), "unknown") == 0 || strstr(msg_kind_name(kind), "-rep"))
			continue;
		lab_init(&lab, 7);
		pair_init(&pair, &lab);
		msg_init(&req, kind, 0);
		if (kind == MSG_LIST_REQ)
			req.list_req.what = MSG_LIST_NICS;
		if (kind == MSG_QUEUE_DUMP_REQ)
			req.queue_dump_req.part = MSG_PART_NONE;
		raw_send(&pair.raw, &req, NULL, 0);
		pair_expect_end(&pair, SHMD_STATUS_PROTOCOL);
		pair_deinit(&pair);
		lab_deinit(&lab);
	}
}

TEST(hello_twice_ends)
{
	struct pair pair;
	struct msg req;
	struct lab lab;

	lab_init(&lab, 7);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	hello(&req, 1, 1, MSG_ROLE_CLIENT);
	raw_send(&pair.raw, &req, NULL, 0);
	pair_expect_end(&pair, SHMD_STATUS_PROTOCOL);
	pair_deinit(&pair);
	lab_deinit(&lab);
}

TEST(replies_as_requests_end)
{
	struct pair pair;
	struct msg req;
	struct lab lab;

	lab_init(&lab, 7);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	msg_init(&req, MSG_OK_REP, 0);
	raw_send(&pair.raw, &req, NULL, 0);
	pair_expect_end(&pair, SHMD_STATUS_PROTOCOL);
	pair_deinit(&pair);
	lab_deinit(&lab);
}

TEST(request_number_zero_ends)
{
	static uint8_t buf[FRAMING_MAX_PACKET_BYTES];
	struct pair pair;
	struct msg req;
	struct lab lab;

	lab_init(&lab, 7);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	msg_init(&req, MSG_STATUS_REQ, 0);
	raw_send_bytes(&pair.raw, buf, (size_t)msg_encode(&req, buf, sizeof(buf)), NULL, 0);
	pair_expect_end(&pair, SHMD_STATUS_PROTOCOL);
	pair_deinit(&pair);
	lab_deinit(&lab);
}

TEST(malformed_packets_end_only_their_session)
{
	static const struct {
		const char *bytes;
		size_t n;
	} packets[] = {
		{"\xff\xff\xff\xff", 4}, {"\x08", 1}, {"\x52\xff\x01", 3}, {"hello", 5}, {"\x00", 1}};
	struct pair other;
	struct msg req, rep;
	struct lab lab;

	lab_init(&lab, 7);
	pair_init_hello(&other, &lab, MSG_ROLE_CLIENT);
	for (unsigned int i = 0; i < sizeof(packets) / sizeof(packets[0]); i++) {
		struct pair pair;

		pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
		raw_send_bytes(&pair.raw, packets[i].bytes, packets[i].n, NULL, 0);
		pair_expect_end(&pair, SHMD_STATUS_PROTOCOL);
		pair_deinit(&pair);
	}
	msg_init(&req, MSG_STATUS_REQ, 0);
	raw_expect(&other.raw, &req, NULL, 0, MSG_STATUS_REP, &rep);
	ASSERT_EQ(rep.status_rep.n_sessions, 1);
	pair_deinit(&other);
	lab_deinit(&lab);
}

/* Envelope field 1 (id) 5, field 63 a message of no bytes. */
TEST(unknown_request_is_refused_and_the_session_lives)
{
	static const uint8_t packet[] = {0x08, 5, 0x9a, 0x06, 0};
	struct msg req, rep;
	struct pair pair;
	struct lab lab;

	lab_init(&lab, 7);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	raw_send_bytes(&pair.raw, packet, sizeof(packet), NULL, 0);
	ASSERT_OK(raw_recv(&pair.raw, &rep, NULL));
	ASSERT_EQ(rep.kind, MSG_ERROR_REP);
	ASSERT_EQ(rep.id, 5);
	ASSERT_EQ(rep.error_rep.status, SHMD_STATUS_UNKNOWN_REQUEST);
	msg_init(&req, MSG_STATUS_REQ, 0);
	raw_expect(&pair.raw, &req, NULL, 0, MSG_STATUS_REP, &rep);
	pair_deinit(&pair);
	lab_deinit(&lab);
}

/* The daemon's want is not the client's fault. */
TEST(request_whose_descriptor_finds_no_place_is_refused_and_the_session_lives)
{
	struct rlimit limit, none;
	int fd = raw_memfd(4096);
	struct msg req, rep;
	struct pair pair;
	struct lab lab;

	lab_init(&lab, 7);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	raw_open_nic(&pair.raw, "fake0");
	msg_init(&req, MSG_MEM_REG_REQ, 0);
	req.mem_reg_req = (struct msg_mem_reg_req){.kind = MSG_MEM_MEMFD, .length_bytes = 4096};
	ASSERT_OK(getrlimit(RLIMIT_NOFILE, &limit));
	none = limit;
	none.rlim_cur = (rlim_t)dup(pair.raw.sock);
	close((int)none.rlim_cur);
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &none));
	raw_send(&pair.raw, &req, &fd, 1);
	ASSERT_OK(raw_recv(&pair.raw, &rep, NULL));
	ASSERT_EQ(rep.kind, MSG_ERROR_REP);
	ASSERT_EQ(rep.error_rep.status, SHMD_STATUS_NO_MEMORY);
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &limit));
	raw_expect(&pair.raw, &req, &fd, 1, MSG_MEM_REG_REP, &rep);
	msg_deinit(&rep);
	close(fd);
	pair_deinit(&pair);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

/* Sends `req` with these descriptors, saying that there are n_said. */
static void expect_fds_end(struct msg *req, unsigned int n_said, unsigned int n_fds)
{
	static uint8_t buf[FRAMING_MAX_PACKET_BYTES];
	int fds[FRAMING_MAX_FDS], bytes;
	struct pair pair;
	struct lab lab;

	lab_init(&lab, 7);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	raw_open_nic(&pair.raw, "fake0");
	for (unsigned int i = 0; i < n_fds; i++)
		fds[i] = raw_memfd(4096);
	req->id = 77;
	req->n_fds = n_said;
	bytes = msg_encode(req, buf, sizeof(buf));
	raw_send_bytes(&pair.raw, buf, (size_t)bytes, fds, n_fds);
	pair_expect_end(&pair, SHMD_STATUS_FDS);
	for (unsigned int i = 0; i < n_fds; i++)
		close(fds[i]);
	pair_deinit(&pair);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

TEST(wrong_number_of_descriptors_ends)
{
	struct msg req;

	msg_init(&req, MSG_MEM_REG_REQ, 0);
	req.mem_reg_req = (struct msg_mem_reg_req){.kind = MSG_MEM_MEMFD, .length_bytes = 4096};
	expect_fds_end(&req, 0, 0);
	expect_fds_end(&req, 1, 0);
	expect_fds_end(&req, 0, 1);
	expect_fds_end(&req, 2, 2);
	expect_fds_end(&req, 16, 16);
	req.mem_reg_req.fd = 1;
	expect_fds_end(&req, 1, 1);
	req.mem_reg_req = (struct msg_mem_reg_req){.kind = MSG_MEM_AGENT, .length_bytes = 4096};
	expect_fds_end(&req, 1, 1);
	msg_init(&req, MSG_AGENT_ATTACH_REQ, 0);
	expect_fds_end(&req, 0, 0);
	expect_fds_end(&req, 2, 2);
	req.agent_attach_req.ring_fd = 1;
	expect_fds_end(&req, 1, 1);
	msg_init(&req, MSG_STATUS_REQ, 0);
	expect_fds_end(&req, 1, 1);
	msg_init(&req, MSG_PUBLISH_REQ, 0);
	expect_fds_end(&req, 1, 1);
	req.publish_req.has_fd = true;
	expect_fds_end(&req, 0, 0);
	raw_fill_create(&req, 1);
	expect_fds_end(&req, 1, 1);
	req.queue_create_req.mem_kind = MSG_MEM_MEMFD;
	expect_fds_end(&req, 0, 0);
	req.queue_create_req.mem_fd = 3;
	expect_fds_end(&req, 1, 1);
}

TEST(controller_owns_nothing_and_is_not_listed)
{
	static const enum msg_kind forbidden[] = {
		MSG_NIC_OPEN_REQ, MSG_MEM_DEREG_REQ, MSG_QUEUE_DESTROY_REQ, MSG_CONNECT_REQ,
		MSG_QP_MODIFY_REQ, MSG_QP_QUERY_REQ, MSG_COUNTERS_REQ, MSG_PUBLISH_REQ,
		MSG_UNPUBLISH_REQ, MSG_FETCH_REQ};
	struct msg req, rep;
	struct pair pair;
	struct lab lab;

	lab_init(&lab, 7);
	pair_init_hello(&pair, &lab, MSG_ROLE_CONTROL);
	for (unsigned int i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++) {
		msg_init(&req, forbidden[i], 0);
		raw_expect_error(&pair.raw, &req, NULL, 0, SHMD_STATUS_PERMISSION);
	}
	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_SESSIONS;
	raw_expect(&pair.raw, &req, NULL, 0, MSG_LIST_REP, &rep);
	ASSERT_EQ(rep.list_rep.n_sessions, 0);
	msg_init(&req, MSG_STATUS_REQ, 0);
	raw_expect(&pair.raw, &req, NULL, 0, MSG_STATUS_REP, &rep);
	ASSERT_EQ(rep.status_rep.n_sessions, 0);
	ASSERT_EQ(pair.session->health_fd, -1);
	pair_deinit(&pair);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

/* Requests that take long end the turn: those of other clients are not kept waiting. */
TEST(dear_requests_are_answered_one_in_a_turn)
{
	static uint8_t buf[FRAMING_MAX_PACKET_BYTES];
	struct msg req, rep;
	struct pair pair;
	struct lab lab;

	lab_init(&lab, 7);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	raw_open_nic(&pair.raw, "fake0");
	raw_create_queues(&pair.raw, 1, &rep);
	msg_init(&req, MSG_QP_QUERY_REQ, 0);
	req.qp_query_req.qpn = rep.queue_create_rep.qps[0].qpn;
	msg_deinit(&rep);
	lab.nics[0].query_nsec = NSEC_PER_MSEC;
	for (req.id = 100; req.id < 104; req.id++)
		ASSERT_OK(framing_send(pair.raw.sock, buf, (size_t)msg_encode(&req, buf, sizeof(buf)), NULL, 0));
	for (uint64_t id = 100; id < 104; id++) {
		session_readable(pair.session);
		ASSERT_OK(raw_recv(&pair.raw, &rep, NULL));
		ASSERT_EQ(rep.id, id);
		ASSERT_ERR(raw_recv(&pair.raw, &rep, NULL), EAGAIN);
	}
	pair_deinit(&pair);
	lab_deinit(&lab);
}

TEST(requests_in_one_batch_are_answered_in_order)
{
	static uint8_t buf[FRAMING_MAX_PACKET_BYTES];
	struct msg req, rep;
	struct pair pair;
	struct lab lab;

	lab_init(&lab, 7);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	for (uint64_t id = 100; id < 110; id++) {
		msg_init(&req, id % 2 ? MSG_STATUS_REQ : MSG_NIC_LIST_REQ, id);
		ASSERT_OK(framing_send(pair.raw.sock, buf, (size_t)msg_encode(&req, buf, sizeof(buf)), NULL, 0));
	}
	/* As often as the loop would call it: a turn ends with time as well. */
	for (int i = 0; i < 10; i++)
		session_readable(pair.session);
	for (uint64_t id = 100; id < 110; id++) {
		ASSERT_OK(raw_recv(&pair.raw, &rep, NULL));
		ASSERT_EQ(rep.id, id);
		ASSERT_EQ(rep.kind, id % 2 ? MSG_STATUS_REP : MSG_NIC_LIST_REP);
		msg_deinit(&rep);
	}
	pair_deinit(&pair);
	lab_deinit(&lab);
}
