/* SPDX-License-Identifier: Apache-2.0 */
/* Every limit of shmemd.conf: it binds, the refusal names it, and giving something back makes room. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "tests/lib/fixture-daemon.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"

#define PATIENCE_NSEC (10 * NSEC_PER_SEC)

static void expect_limit(struct raw_client *raw, struct msg *req, const int *fd, enum shmd_status status,
			 const char *name)
{
	char start[64];
	struct msg rep;

	raw_expect(raw, req, fd, fd != NULL, MSG_ERROR_REP, &rep);
	ASSERT_STREQ(status_name(rep.error_rep.status), status_name(status));
	snprintf(start, sizeof(start), "limit reached: %s ", name);
	if (strncmp(rep.error_rep.text, start, strlen(start)) != 0)
		test_fail(TEST_WHERE, "the refusal does not name %s: %s", name, rep.error_rep.text);
}

static void fill_hello(struct msg *req)
{
	msg_init(req, MSG_HELLO_REQ, 0);
	req->hello_req = (struct msg_hello_req){
		.version_min = 1, .version_max = 1, .role = MSG_ROLE_CLIENT};
}

/* Descriptors closed a moment ago may still count. */
static void wait_for_room(uint64_t begin)
{
	if (nsec_now() - begin > PATIENCE_NSEC)
		test_fail(TEST_WHERE, "there was no room within 10 s");
	usleep(10000);
}

/* Connect and say Hello until there is room. */
static void hello_when_room(struct raw_client *raw, const struct fixture_daemon *daemon)
{
	for (uint64_t begin = nsec_now();; wait_for_room(begin)) {
		struct msg req, rep;

		raw_connect(raw, daemon->socket);
		fill_hello(&req);
		/* Refused at once, the socket may be closed before the request is sent. */
		if (raw_try(raw, &req, &rep) == 0 && rep.kind == MSG_HELLO_REP)
			return;
		raw_close(raw);
	}
}

static void ask_when_room(struct raw_client *raw, struct msg *req, const int *fd, enum msg_kind kind)
{
	for (uint64_t begin = nsec_now();; wait_for_room(begin)) {
		struct msg rep;
		bool done;

		raw_ask(raw, req, fd, fd != NULL, &rep);
		done = rep.kind == kind;
		msg_deinit(&rep);
		if (done)
			return;
	}
}

TEST(max_sessions)
{
	struct fixture_daemon daemon;
	struct raw_client a, b, ctl;
	struct msg req;

	fixture_daemon_start(&daemon, "--max-sessions=1", NULL);
	raw_connect(&a, daemon.socket);
	raw_hello(&a, MSG_ROLE_CLIENT);
	raw_connect(&ctl, daemon.socket);
	raw_hello(&ctl, MSG_ROLE_CONTROL);
	raw_connect(&b, daemon.socket);
	fill_hello(&req);
	expect_limit(&b, &req, NULL, SHMD_STATUS_QUOTA_SESSIONS, "max-sessions");
	raw_expect_end(&b, SHMD_STATUS_QUOTA_SESSIONS);
	raw_close(&b);
	raw_close(&a);
	hello_when_room(&b, &daemon);
	raw_close(&b);
	raw_close(&ctl);
	fixture_daemon_stop(&daemon);
}

TEST(max_connections)
{
	struct fixture_daemon daemon;
	struct raw_client a, b;
	struct msg req;

	fixture_daemon_start(&daemon, "--max-connections=1", NULL);
	hello_when_room(&a, &daemon); /* the fixture's own probe may still be there */
	/* The test is the daemon's administrator: it gets in, with a controller. */
	raw_connect(&b, daemon.socket);
	fill_hello(&req);
	expect_limit(&b, &req, NULL, SHMD_STATUS_QUOTA_SESSIONS, "max-connections is 1,");
	raw_expect_end(&b, SHMD_STATUS_QUOTA_SESSIONS);
	raw_close(&b);
	raw_close(&a);
	hello_when_room(&b, &daemon);
	raw_close(&b);
	fixture_daemon_stop(&daemon);
}

TEST(max_qps_and_max_cqs)
{
	struct fixture_daemon daemon;
	struct raw_client a, b;
	struct msg req, rep;

	fixture_daemon_start(&daemon, "--max-qps=10", "--max-cqs=3", NULL);
	raw_connect(&a, daemon.socket);
	raw_hello(&a, MSG_ROLE_CLIENT);
	raw_open_nic(&a, "");
	raw_connect(&b, daemon.socket);
	raw_hello(&b, MSG_ROLE_CLIENT);
	raw_open_nic(&b, "");
	raw_create_queues(&a, 6, &rep);
	msg_deinit(&rep);
	/* The limit is the user's, not the session's. */
	raw_fill_create(&req, 5);
	expect_limit(&b, &req, NULL, SHMD_STATUS_QUOTA_QPS, "max-qps");
	raw_create_queues(&b, 4, &rep);
	msg_deinit(&rep);
	raw_fill_create(&req, 0);
	req.queue_create_req.specs.cqs[0].count = 2;
	expect_limit(&b, &req, NULL, SHMD_STATUS_QUOTA_CQS, "max-cqs");
	raw_close(&a);
	raw_fill_create(&req, 6);
	ask_when_room(&b, &req, NULL, MSG_QUEUE_CREATE_REP);
	/* b holds two CQs now, so there is room for one. */
	raw_fill_create(&req, 0);
	req.queue_create_req.specs.cqs[0].count = 2;
	raw_expect(&b, &req, NULL, 0, MSG_ERROR_REP, &rep);
	req.queue_create_req.specs.cqs[0].count = 1;
	raw_expect(&b, &req, NULL, 0, MSG_QUEUE_CREATE_REP, &rep);
	msg_deinit(&rep);
	raw_close(&b);
	fixture_daemon_stop(&daemon);
}

TEST(max_mrs_and_max_registered_bytes)
{
	struct fixture_daemon daemon;
	struct raw_client raw;
	struct msg req, rep;
	int fd = raw_memfd(1 << 20);
	uint32_t mr;

	fixture_daemon_start(&daemon, "--max-mrs=2", "--max-registered-bytes=1M", NULL);
	raw_connect(&raw, daemon.socket);
	raw_hello(&raw, MSG_ROLE_CLIENT);
	raw_open_nic(&raw, "");
	mr = raw_reg(&raw, 524288);
	msg_init(&req, MSG_MEM_REG_REQ, 0);
	req.mem_reg_req = (struct msg_mem_reg_req){
		.kind = MSG_MEM_MEMFD, .length_bytes = 524289, .access = 1};
	expect_limit(&raw, &req, &fd, SHMD_STATUS_QUOTA_BYTES, "max-registered-bytes");
	raw_reg(&raw, 4096);
	req.mem_reg_req.length_bytes = 1;
	expect_limit(&raw, &req, &fd, SHMD_STATUS_QUOTA_MRS, "max-mrs");
	/* Region and bytes come back. */
	msg_init(&req, MSG_MEM_DEREG_REQ, 0);
	req.mem_dereg_req.handle = mr;
	raw_expect(&raw, &req, NULL, 0, MSG_OK_REP, &rep);
	raw_reg(&raw, 524288);
	close(fd);
	raw_close(&raw);
	fixture_daemon_stop(&daemon);
}

TEST(max_fds_and_max_published)
{
	struct fixture_daemon daemon;
	struct raw_client raw;
	struct msg req, rep;
	int fd = raw_memfd(4096);

	/* Socket, pidfd and health page leave one. */
	fixture_daemon_start(&daemon, "--max-fds=4", "--max-published=2", NULL);
	hello_when_room(&raw, &daemon);
	msg_init(&req, MSG_NIC_OPEN_REQ, 0);
	expect_limit(&raw, &req, NULL, SHMD_STATUS_QUOTA_FDS, "max-fds");
	msg_init(&req, MSG_PUBLISH_REQ, 0);
	req.publish_req.has_fd = true;
	ask_when_room(&raw, &req, &fd, MSG_OK_REP);
	req.publish_req.key.pe = 1;
	expect_limit(&raw, &req, &fd, SHMD_STATUS_QUOTA_FDS, "max-fds");
	req.publish_req.has_fd = false;
	raw_expect(&raw, &req, NULL, 0, MSG_OK_REP, &rep);
	req.publish_req.key.pe = 2;
	expect_limit(&raw, &req, NULL, SHMD_STATUS_QUOTA_PUBLISHED, "max-published");
	/* Withdrawn, both the descriptor's place and the entry's come back. */
	msg_init(&req, MSG_UNPUBLISH_REQ, 0);
	raw_expect(&raw, &req, NULL, 0, MSG_OK_REP, &rep);
	msg_init(&req, MSG_PUBLISH_REQ, 0);
	req.publish_req.key.pe = 2;
	req.publish_req.has_fd = true;
	raw_expect(&raw, &req, &fd, 1, MSG_OK_REP, &rep);
	close(fd);
	raw_close(&raw);
	fixture_daemon_stop(&daemon);
}

TEST(request_limits_are_those_of_hello)
{
	struct fixture_daemon daemon;
	struct msg_limits limits;
	struct raw_client raw;
	struct msg req, rep;

	fixture_daemon_start(&daemon, "--max-qps=100000", NULL);
	raw_connect(&raw, daemon.socket);
	fill_hello(&req);
	raw_expect(&raw, &req, NULL, 0, MSG_HELLO_REP, &rep);
	limits = rep.hello_rep.limits;
	ASSERT_EQ(limits.max_qps, 100000);
	raw_open_nic(&raw, "");
	raw_fill_create(&req, limits.max_qps_per_request + 1);
	raw_expect_error(&raw, &req, NULL, 0, SHMD_STATUS_LIMIT_REQUEST);
	raw_create_queues(&raw, limits.max_qps_per_request, &rep);
	ASSERT_EQ(rep.queue_create_rep.n_qps, limits.max_qps_per_request);
	msg_deinit(&rep);
	raw_close(&raw);
	fixture_daemon_stop(&daemon);
}
