/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service manager that reads nothing for a while: the daemon answers everybody, says which sessions are not kept meanwhile, and
 * gives the manager all descriptors when that reads again.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "tests/lib/fixture-keeper.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"

#define N_SESSIONS 3u
#define N_REGIONS 3u
#define PROMISED_NSEC (100 * NSEC_PER_MSEC) /* for others; the bound is ten times that */
#define HELD_NSEC (2 * NSEC_PER_SEC) /* of each request at most; the bound is ten times that for all of them */
#define LIMIT_NSEC (60 * NSEC_PER_SEC)

/* Sessions that are not kept since the manager is busy. */
static unsigned int count_busy(const struct fixture_keeper *keeper)
{
	struct raw_client admin;
	struct msg req, rep;
	unsigned int n = 0;

	raw_connect(&admin, keeper->daemon.socket);
	raw_hello(&admin, MSG_ROLE_CONTROL);
	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_SESSIONS;
	raw_expect(&admin, &req, NULL, 0, MSG_LIST_REP, &rep);
	for (unsigned int i = 0; i < rep.list_rep.n_sessions; i++)
		n += !rep.list_rep.sessions[i].kept && strstr(rep.list_rep.sessions[i].unkept_reason, "is busy");
	msg_deinit(&rep);
	raw_close(&admin);
	return n;
}

static void wait_until_kept(const struct fixture_keeper *keeper)
{
	uint64_t end = nsec_now() + LIMIT_NSEC;

	while (count_busy(keeper) > 0) {
		ASSERT_LT(nsec_now(), end);
		usleep(1000);
	}
}

static void open_session(struct raw_client *raw, const struct fixture_keeper *keeper)
{
	raw_connect(raw, keeper->daemon.socket);
	raw_hello_resumes(raw);
	raw_open_nic(raw, "soft0");
	for (unsigned int i = 0; i < N_REGIONS; i++)
		raw_reg(raw, 4096);
}

static void expect_resumed(struct raw_client *raw)
{
	struct msg msg;

	ASSERT_OK(raw_recv(raw, &msg, NULL));
	ASSERT_STREQ(msg_kind_name(msg.kind), msg_kind_name(MSG_RESUMED_EVENT));
}

/* One that was there before, whose descriptors the manager has. */
static void ask_quickly(struct raw_client *raw)
{
	struct msg_status_rep status;
	uint64_t begin = nsec_now(), took;

	raw_status(raw, &status);
	took = nsec_now() - begin;
	ASSERT_LT(took, 10 * PROMISED_NSEC);
}

TEST_TIMEOUT(manager_that_reads_nothing_delays_nobody_else_and_has_everything_later, 180)
{
	struct raw_client before, raws[N_SESSIONS];
	struct fixture_keeper keeper = {0};
	uint64_t begin, took;

	fixture_keeper_start(&keeper, NULL);
	open_session(&before, &keeper);
	wait_until_kept(&keeper);
	ASSERT_OK(kill(keeper.pid, SIGSTOP));
	for (unsigned int i = 0; i < N_SESSIONS; i++) {
		begin = nsec_now();
		open_session(&raws[i], &keeper);
		took = nsec_now() - begin;
		printf("# session %u came after %.2f s\n", i, (double)took / NSEC_PER_SEC);
		ASSERT_LT(took, 10 * HELD_NSEC);
		ask_quickly(&before);
	}
	ASSERT_GT(count_busy(&keeper), 0u);
	ASSERT_OK(kill(keeper.pid, SIGCONT));
	wait_until_kept(&keeper);
	fixture_keeper_kill_daemon(&keeper);
	expect_resumed(&before);
	for (unsigned int i = 0; i < N_SESSIONS; i++) {
		expect_resumed(&raws[i]);
		raw_close(&raws[i]);
	}
	raw_close(&before);
	fixture_keeper_stop(&keeper);
}

#define N_MANY 70u /* so many that the manager has memory in carriers */
#define N_MORE 24u /* more than a carrier has places for */

static unsigned int n_carriers(struct fixture_keeper *keeper)
{
	static char names[1 << 16];
	unsigned int n = 0;

	fixture_keeper_list(keeper, names, sizeof(names));
	for (const char *at = names; (at = strstr(at, "s0-b")); at++)
		n++;
	return n;
}

/* A carrier that waits has memory of those alone who put it there. */
TEST_TIMEOUT(memory_that_waits_for_a_busy_manager_delays_its_own_session_alone, 180)
{
	struct fixture_keeper keeper = {0};
	struct raw_client before, busy[N_SESSIONS];

	fixture_keeper_start(&keeper, NULL);
	open_session(&before, &keeper);
	for (unsigned int i = 0; i < N_MANY; i++)
		raw_reg(&before, 4096);
	wait_until_kept(&keeper);
	ASSERT_GT(n_carriers(&keeper), 0u);
	ASSERT_OK(kill(keeper.pid, SIGSTOP));
	for (unsigned int i = 0; i < N_SESSIONS; i++)
		open_session(&busy[i], &keeper);
	ASSERT_GT(count_busy(&keeper), 0u);
	for (unsigned int i = 0; i < N_MORE; i++)
		raw_reg(&busy[N_SESSIONS - 1], 4096);
	ask_quickly(&before);
	ASSERT_LE(count_busy(&keeper), N_SESSIONS);
	ASSERT_OK(kill(keeper.pid, SIGCONT));
	wait_until_kept(&keeper);
	fixture_keeper_kill_daemon(&keeper);
	expect_resumed(&before);
	for (unsigned int i = 0; i < N_SESSIONS; i++) {
		expect_resumed(&busy[i]);
		raw_close(&busy[i]);
	}
	raw_close(&before);
	fixture_keeper_stop(&keeper);
}

/* One that stops while it is kept waits for the manager, as one that ends everything does. */
TEST_TIMEOUT(daemon_that_stops_gives_a_busy_manager_what_waits, 180)
{
	struct raw_client raws[N_SESSIONS];
	struct fixture_keeper keeper = {0};
	unsigned int n;

	fixture_keeper_start(&keeper, NULL);
	n = fixture_keeper_n_starts(&keeper);
	ASSERT_OK(kill(keeper.pid, SIGSTOP));
	for (unsigned int i = 0; i < N_SESSIONS; i++)
		open_session(&raws[i], &keeper);
	ASSERT_GT(count_busy(&keeper), 0u);
	ASSERT_OK(kill(keeper.daemon.pid, SIGTERM));
	usleep(300000);
	ASSERT_OK(kill(keeper.pid, SIGCONT));
	fixture_keeper_wait_start(&keeper, n + 1);
	for (unsigned int i = 0; i < N_SESSIONS; i++) {
		expect_resumed(&raws[i]);
		raw_close(&raws[i]);
	}
	fixture_keeper_stop(&keeper);
}

static void wait_for_names(struct fixture_keeper *keeper, const char *wanted)
{
	uint64_t end = nsec_now() + LIMIT_NSEC;
	char names[4096];

	do {
		ASSERT_LT(nsec_now(), end);
		usleep(1000);
		fixture_keeper_list(keeper, names, sizeof(names));
	} while (strcmp(names, wanted) != 0);
}

TEST_TIMEOUT(session_that_ends_before_the_manager_reads_leaves_nothing_there, 120)
{
	struct fixture_keeper keeper = {0};
	char names[4096];
	struct raw_client raws[2];

	fixture_keeper_start(&keeper, NULL);
	/* The daemon keeps things for itself from its first session on. */
	open_session(&raws[0], &keeper);
	wait_until_kept(&keeper);
	raw_close(&raws[0]);
	sleep(1);
	fixture_keeper_list(&keeper, names, sizeof(names));
	ASSERT(!strstr(names, "-sock"));
	ASSERT_OK(kill(keeper.pid, SIGSTOP));
	for (unsigned int i = 0; i < 2; i++)
		open_session(&raws[i], &keeper);
	ASSERT_GT(count_busy(&keeper), 0u);
	for (unsigned int i = 0; i < 2; i++)
		raw_close(&raws[i]);
	sleep(1);
	ASSERT_EQ(count_busy(&keeper), 0u);
	ASSERT_OK(kill(keeper.pid, SIGCONT));
	wait_for_names(&keeper, names);
	fixture_keeper_stop(&keeper);
}
