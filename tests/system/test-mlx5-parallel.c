/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slow firmware (5 ms a command): sessions do not wait for each other's commands, and a session that ends meanwhile leaves
 * nothing. On simulated ConnectX NICs; the simulator fails if an object is left.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "tests/lib/fixture-daemon.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"
#include "tests/system/daemon-usage.h"

#define N_MANY 128u /* QPs: more than half a second of firmware */
#define N_SOME 16u
#define N_SESSIONS 8
#define LIMIT_NSEC (20 * NSEC_PER_SEC)

static void open_session(struct raw_client *raw, const struct fixture_daemon *daemon)
{
	raw_connect(raw, daemon->socket);
	raw_hello(raw, MSG_ROLE_CLIENT);
	raw_open_nic(raw, "mlx5_0");
}

static void open_control(struct raw_client *ctl, const struct fixture_daemon *daemon)
{
	raw_connect(ctl, daemon->socket);
	raw_hello(ctl, MSG_ROLE_CONTROL);
}

static void send_create(struct raw_client *raw, uint32_t n_qps)
{
	struct msg req;

	raw_fill_create(&req, n_qps);
	raw_send(raw, &req, NULL, 0);
}

static uint32_t n_qps_now(struct raw_client *ctl)
{
	struct msg_status_rep status;

	raw_status(ctl, &status);
	return status.n_qps;
}

/* They are charged when the request is checked: a worker has it, or will soon. */
static void wait_for_qps(struct raw_client *ctl, uint32_t n)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	uint64_t end = nsec_now() + LIMIT_NSEC;

	while (n_qps_now(ctl) != n) {
		ASSERT_LT(nsec_now(), end);
		nanosleep(&pause, NULL);
	}
}

static bool has_reply(const struct raw_client *raw)
{
	struct pollfd pfd = {.fd = raw->sock, .events = POLLIN};

	return poll(&pfd, 1, 0) == 1;
}

static void expect_created(struct raw_client *raw, uint32_t n_qps)
{
	struct msg rep;

	ASSERT_OK(raw_recv(raw, &rep, NULL));
	ASSERT_STREQ(msg_kind_name(rep.kind), msg_kind_name(MSG_QUEUE_CREATE_REP));
	ASSERT_EQ(rep.queue_create_rep.n_qps, n_qps);
	msg_deinit(&rep);
}

static void list(struct raw_client *ctl, enum msg_list_what what)
{
	struct msg req, rep;

	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = what;
	raw_expect(ctl, &req, NULL, 0, MSG_LIST_REP, &rep);
	msg_deinit(&rep);
}

TEST(a_slow_request_delays_neither_status_nor_lists_nor_another_session)
{
	struct fixture_daemon daemon;
	struct raw_client ctl, a, b;

	fixture_daemon_start(&daemon, NULL);
	open_control(&ctl, &daemon);
	open_session(&a, &daemon);
	open_session(&b, &daemon);
	send_create(&a, N_MANY);
	wait_for_qps(&ctl, N_MANY);
	for (int i = 0; i < 20; i++)
		ASSERT_EQ(n_qps_now(&ctl), N_MANY);
	for (int what = MSG_LIST_SESSIONS; what <= MSG_LIST_NICS; what++)
		list(&ctl, (enum msg_list_what)what);
	raw_reg(&b, 4096);
	send_create(&b, 1);
	expect_created(&b, 1);
	/* All that was done while the first one is at it. */
	ASSERT(!has_reply(&a));
	expect_created(&a, N_MANY);
	raw_close(&a);
	raw_close(&b);
	daemon_expect_empty(&ctl, LIMIT_NSEC);
	raw_close(&ctl);
	fixture_daemon_stop(&daemon);
}

static uint64_t create_in_all(struct raw_client *raw, int n)
{
	uint64_t begin = nsec_now();

	for (int i = 0; i < n; i++)
		send_create(&raw[i], N_SOME);
	for (int i = 0; i < n; i++)
		expect_created(&raw[i], N_SOME);
	return nsec_now() - begin;
}

/* The best of three rounds, since others use the machine; under a sanitizer computing takes longer than the firmware. */
TEST(sessions_in_parallel_take_much_less_than_one_after_the_other)
{
	struct raw_client ctl, raw[N_SESSIONS];
	struct fixture_daemon daemon;
	uint64_t one = 0, all = 1;

	fixture_daemon_start(&daemon, NULL);
	open_control(&ctl, &daemon);
	for (int i = 0; i < N_SESSIONS; i++)
		open_session(&raw[i], &daemon);
	for (int round = 0; round < 3 && all > one * N_SESSIONS / 2; round++) {
		one = create_in_all(raw, 1);
		all = create_in_all(raw, N_SESSIONS);
	}
	if (all > one * N_SESSIONS / 2 && !test_has_sanitizer())
		test_fail(TEST_WHERE, "%d sessions took %llu ms, one takes %llu ms", N_SESSIONS,
			  (unsigned long long)(all / NSEC_PER_MSEC), (unsigned long long)(one / NSEC_PER_MSEC));
	for (int i = 0; i < N_SESSIONS; i++)
		raw_close(&raw[i]);
	daemon_expect_empty(&ctl, LIMIT_NSEC);
	raw_close(&ctl);
	fixture_daemon_stop(&daemon);
}

TEST(a_single_worker_serves_all_and_status_still_waits_for_none)
{
	struct raw_client ctl, raw[3];
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, "--worker-threads=1", NULL);
	open_control(&ctl, &daemon);
	for (int i = 0; i < 3; i++)
		open_session(&raw[i], &daemon);
	for (int i = 0; i < 3; i++)
		send_create(&raw[i], N_SOME);
	wait_for_qps(&ctl, 3 * N_SOME);
	ASSERT(!has_reply(&raw[2]));
	for (int i = 0; i < 3; i++)
		expect_created(&raw[i], N_SOME);
	for (int i = 0; i < 3; i++)
		raw_close(&raw[i]);
	daemon_expect_empty(&ctl, LIMIT_NSEC);
	raw_close(&ctl);
	fixture_daemon_stop(&daemon);
}

TEST(a_client_killed_during_its_request_leaves_nothing)
{
	struct fixture_daemon daemon;
	struct raw_client ctl;
	pid_t pid;

	fixture_daemon_start(&daemon, NULL);
	open_control(&ctl, &daemon);
	pid = fork();
	if (pid == 0) {
		struct raw_client raw;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		open_session(&raw, &daemon);
		send_create(&raw, N_SOME);
		for (;;)
			pause();
	}
	wait_for_qps(&ctl, N_SOME);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	daemon_expect_empty(&ctl, LIMIT_NSEC);
	raw_close(&ctl);
	fixture_daemon_stop(&daemon);
}

TEST(a_session_killed_during_its_request_learns_it_at_once_and_leaves_nothing)
{
	struct fixture_daemon daemon;
	struct raw_client ctl, a;
	struct msg req, rep;

	fixture_daemon_start(&daemon, NULL);
	open_control(&ctl, &daemon);
	open_session(&a, &daemon);
	send_create(&a, N_MANY);
	wait_for_qps(&ctl, N_MANY);
	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_SESSIONS;
	raw_expect(&ctl, &req, NULL, 0, MSG_LIST_REP, &rep);
	ASSERT_EQ(rep.list_rep.n_sessions, 1);
	msg_init(&req, MSG_SESSION_KILL_REQ, 0);
	req.session_kill_req.session = rep.list_rep.sessions[0].session;
	msg_deinit(&rep);
	raw_expect(&ctl, &req, NULL, 0, MSG_OK_REP, &rep);
	raw_expect_end(&a, SHMD_STATUS_KILLED);
	/* Not at the end of its request: what that makes is still there, and goes. */
	ASSERT_EQ(n_qps_now(&ctl), N_MANY);
	daemon_expect_empty(&ctl, LIMIT_NSEC);
	ASSERT_ERR(raw_recv(&a, &rep, NULL), ECONNRESET);
	raw_close(&a);
	raw_close(&ctl);
	fixture_daemon_stop(&daemon);
}

/* One request under way, one that waits for a worker, and a session that is only there. */
TEST(a_daemon_that_stops_during_requests_ends_in_good_order)
{
	struct raw_client ctl, raw[3];
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, "--worker-threads=1", NULL);
	open_control(&ctl, &daemon);
	for (int i = 0; i < 3; i++)
		open_session(&raw[i], &daemon);
	send_create(&raw[2], 1);
	expect_created(&raw[2], 1);
	for (int i = 0; i < 2; i++)
		send_create(&raw[i], N_SOME);
	wait_for_qps(&ctl, 1 + 2 * N_SOME);
	/* SIGTERM; its exit status must be 0. */
	fixture_daemon_stop(&daemon);
	for (int i = 0; i < 3; i++) {
		raw_expect_end(&raw[i], SHMD_STATUS_SHUTDOWN);
		raw_close(&raw[i]);
	}
	raw_close(&ctl);
}
