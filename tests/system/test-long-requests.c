/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attack: one user asks for the largest CQ rings all the time, in several sessions, or for middling ones in hundreds. The
 * daemon must answer others meanwhile. If root runs the tests, the attacker is another user.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "tests/lib/fixture-daemon.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"
#include "tests/system/daemon-usage.h"

#define ATTACKER_UID 4242u
#define N_ATTACKERS 4u
#define N_SESSIONS 256u /* of the attacker with many */
#define N_ASKED 200u
#define PAUSE_NSEC (10 * NSEC_PER_MSEC)
#define CQ_LOG2_ENTRIES 17u /* 8 MiB */
#define CQ_LOG2_MIDDLING 14u /* 1 MiB, which no worker is asked for */

static void start_daemon(struct fixture_daemon *daemon)
{
	fixture_daemon_start(daemon, "--socket-mode=0666", NULL);
	if (geteuid() == 0)
		ASSERT_OK(chmod(daemon->folder, 0711));
}

static void fill_cqs(struct msg *req, uint32_t n_cqs, uint32_t log2_entries)
{
	msg_init(req, MSG_QUEUE_CREATE_REQ, 0);
	req->queue_create_req.specs.n_cqs = 1;
	req->queue_create_req.specs.cqs[0].count = n_cqs;
	req->queue_create_req.specs.cqs[0].log2_entries = log2_entries;
}

static void open_session(struct raw_client *raw, const struct fixture_daemon *daemon)
{
	raw_connect(raw, daemon->socket);
	raw_hello(raw, MSG_ROLE_CLIENT);
	raw_open_nic(raw, "");
}

static void destroy(struct raw_client *raw, uint32_t queues)
{
	struct msg req, rep;

	msg_init(&req, MSG_QUEUE_DESTROY_REQ, 0);
	req.queue_destroy_req.handle = queues;
	raw_expect(raw, &req, NULL, 0, MSG_OK_REP, &rep);
}

static void __attribute__((noreturn)) ask_for_rings(const struct fixture_daemon *daemon, uint32_t n_cqs)
{
	struct raw_client raw;
	struct msg req, rep;

	open_session(&raw, daemon);
	for (;;) {
		uint32_t queues;

		fill_cqs(&req, n_cqs, CQ_LOG2_ENTRIES);
		raw_expect(&raw, &req, NULL, 0, MSG_QUEUE_CREATE_REP, &rep);
		queues = rep.queue_create_rep.queues;
		msg_deinit(&rep);
		destroy(&raw, queues);
	}
}

/* All of its sessions have a request under way, all the time: 1 MiB of rings, then their end. */
static void __attribute__((noreturn)) ask_in_many_sessions(const struct fixture_daemon *daemon)
{
	struct raw_client raws[N_SESSIONS];
	struct msg msg;

	for (unsigned int i = 0; i < N_SESSIONS; i++) {
		open_session(&raws[i], daemon);
		fill_cqs(&msg, 1, CQ_LOG2_MIDDLING);
		raw_send(&raws[i], &msg, NULL, 0);
	}
	for (unsigned int i = 0;; i = (i + 1) % N_SESSIONS) {
		struct msg rep;

		do
			ASSERT_OK(raw_recv(&raws[i], &rep, NULL));
		while (rep.kind == MSG_OK_REP);
		ASSERT_EQ(rep.kind, MSG_QUEUE_CREATE_REP);
		msg_init(&msg, MSG_QUEUE_DESTROY_REQ, 0);
		msg.queue_destroy_req.handle = rep.queue_create_rep.queues;
		msg_deinit(&rep);
		raw_send(&raws[i], &msg, NULL, 0);
		fill_cqs(&msg, 1, CQ_LOG2_MIDDLING);
		raw_send(&raws[i], &msg, NULL, 0);
	}
}

static pid_t attack(const struct fixture_daemon *daemon, uint32_t n_cqs)
{
	pid_t pid = fork();

	ASSERT_GE(pid, 0);
	if (pid > 0)
		return pid;
	if (geteuid() == 0) {
		ASSERT_OK(setgid(ATTACKER_UID));
		ASSERT_OK(setuid(ATTACKER_UID));
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (n_cqs)
		ask_for_rings(daemon, n_cqs);
	ask_in_many_sessions(daemon);
}

static void end(pid_t pid)
{
	int status;

	ASSERT_OK(kill(pid, SIGKILL));
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT(WIFSIGNALED(status)); /* it did not fail before */
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void dereg(struct raw_client *raw, uint32_t mr)
{
	struct msg req, rep;

	msg_init(&req, MSG_MEM_DEREG_REQ, 0);
	req.mem_dereg_req.handle = mr;
	raw_expect(raw, &req, NULL, 0, MSG_OK_REP, &rep);
}

static uint64_t patience_nsec(void)
{
	return (test_has_sanitizer() ? 1000 : 100) * NSEC_PER_MSEC;
}

/*
 * A victim registers a region and gives it back, now and then. The median must be below the patience, and nearly all below
 * three times that: the tests that run beside this one take CPU time too.
 */
static void expect_answers(struct raw_client *raw)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NSEC};
	uint64_t nsec[N_ASKED];

	for (unsigned int i = 0; i < N_ASKED; i++) {
		uint64_t begin = nsec_now();

		dereg(raw, raw_reg(raw, 4096));
		nsec[i] = nsec_now() - begin;
		nanosleep(&pause, NULL);
	}
	qsort(nsec, N_ASKED, sizeof(nsec[0]), compare);
	printf("# two requests: median %.2f ms, 95 of 100 within %.2f ms, all within %.2f ms\n", (double)nsec[N_ASKED / 2] / 1e6,
	       (double)nsec[N_ASKED * 95 / 100] / 1e6, (double)nsec[N_ASKED - 1] / 1e6);
	ASSERT_LT(nsec[N_ASKED / 2], patience_nsec());
	ASSERT_LT(nsec[N_ASKED * 95 / 100], 3 * patience_nsec());
}

TEST_TIMEOUT(others_are_answered_while_four_sessions_ask_for_the_largest_rings, 120)
{
	/* A GiB each; or an eighth, where memory is dear. */
	uint32_t n_cqs = test_is_full() ? 128 : 16;
	struct fixture_daemon daemon;
	pid_t pids[N_ATTACKERS];
	struct raw_client raw;

	start_daemon(&daemon);
	open_session(&raw, &daemon);
	for (unsigned int i = 0; i < N_ATTACKERS; i++)
		pids[i] = attack(&daemon, n_cqs);
	expect_answers(&raw);
	for (unsigned int i = 0; i < N_ATTACKERS; i++)
		end(pids[i]);
	raw_close(&raw);
	fixture_daemon_stop(&daemon);
}

/* Each request takes less than a millisecond and is the control thread's. */
TEST_TIMEOUT(others_are_answered_while_a_user_asks_in_many_sessions, 120)
{
	struct fixture_daemon daemon;
	struct raw_client raw;
	pid_t pid;

	if (geteuid() != 0)
		test_skip("the attacker has the uid of the victim, unless root runs this");
	start_daemon(&daemon);
	open_session(&raw, &daemon);
	pid = attack(&daemon, 0);
	expect_answers(&raw);
	end(pid);
	raw_close(&raw);
	fixture_daemon_stop(&daemon);
}

/* The rings that a worker fills meanwhile go with the session. */
TEST_TIMEOUT(session_that_waits_for_its_rings_is_listed_and_killed, 120)
{
	struct fixture_daemon daemon;
	struct raw_client raw, ctl;
	struct msg req, rep;
	uint64_t id;

	start_daemon(&daemon);
	open_session(&raw, &daemon);
	raw_connect(&ctl, daemon.socket);
	raw_hello(&ctl, MSG_ROLE_CONTROL);
	fill_cqs(&req, 64, CQ_LOG2_ENTRIES);
	raw_send(&raw, &req, NULL, 0);
	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_SESSIONS;
	raw_expect(&ctl, &req, NULL, 0, MSG_LIST_REP, &rep);
	ASSERT_EQ(rep.list_rep.n_sessions, 1);
	id = rep.list_rep.sessions[0].session;
	msg_deinit(&rep);
	msg_init(&req, MSG_SESSION_KILL_REQ, 0);
	req.session_kill_req.session = id;
	raw_expect(&ctl, &req, NULL, 0, MSG_OK_REP, &rep);
	daemon_expect_empty(&ctl, 5 * NSEC_PER_SEC);
	raw_close(&raw);
	raw_close(&ctl);
	fixture_daemon_stop(&daemon);
}

/* Some clients die in the queue of the workers, some while a worker fills their rings. */
TEST_TIMEOUT(clients_that_die_while_their_rings_are_made_leave_nothing, 120)
{
	const struct timespec pause = {.tv_nsec = 5000000};
	struct fixture_daemon daemon;
	struct raw_client raw, ctl;
	struct msg req;

	start_daemon(&daemon);
	raw_connect(&ctl, daemon.socket);
	raw_hello(&ctl, MSG_ROLE_CONTROL);
	for (unsigned int i = 0; i < 8; i++) {
		open_session(&raw, &daemon);
		fill_cqs(&req, 4, CQ_LOG2_ENTRIES);
		raw_send(&raw, &req, NULL, 0);
		if (i % 2)
			nanosleep(&pause, NULL);
		raw_close(&raw);
	}
	daemon_expect_empty(&ctl, 20 * NSEC_PER_SEC);
	raw_close(&ctl);
	fixture_daemon_stop(&daemon);
}

TEST_TIMEOUT(daemon_that_stops_while_rings_are_made_ends_in_order, 120)
{
	struct fixture_daemon daemon;
	struct raw_client raws[4];
	struct msg req;

	start_daemon(&daemon);
	for (unsigned int i = 0; i < 4; i++) {
		open_session(&raws[i], &daemon);
		fill_cqs(&req, 4, CQ_LOG2_ENTRIES);
		raw_send(&raws[i], &req, NULL, 0);
	}
	fixture_daemon_stop(&daemon);
	for (unsigned int i = 0; i < 4; i++)
		raw_close(&raws[i]);
}
