/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon is killed during traffic, at random moments and at each step of the executor, under a service manager that keeps
 * descriptors. Its client goes on, loses nothing, and nothing happens twice.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "tests/lib/fixture-keeper.h"
#include "tests/lib/test.h"
#include "tests/system/ctl-lab.h"
#include "tests/system/daemon-usage.h"
#include "tests/system/traffic-child.h"

/* If a start takes seconds, a client with the daemon's own grace is not there any more. */
#define FOR_EVER "--restart-grace=600000"
#define BOTH_NICS "--soft-nics=2"
#define ONE_NIC "--soft-nics=1"
#define FEW_KILLS 8u
#define MANY_KILLS 100u
#define KILLS_PER_HASTE 4u /* one of them does not wait for the traffic */
#define NAMES_BYTES 4096
#define SLACK_PAGES 98u /* of memory: what a hundred deaths leave, a page each, is more */
#define MEMORY_LOOKS 10
#define FIRST_LOOKS 3

static bool is_mlx5(void)
{
	const char *backend = getenv("SHMEMD_TEST_BACKEND");

	return backend && strcmp(backend, "mlx5") == 0;
}

/* An option, or the end of them. */
static const char *doorbell(void)
{
	return getenv("SHMEMD_TEST_DOORBELL");
}

static void pause_nsec(uint64_t nsec)
{
	const struct timespec time = {.tv_sec = (time_t)(nsec / NSEC_PER_SEC), .tv_nsec = (long)(nsec % NSEC_PER_SEC)};

	nanosleep(&time, NULL);
}

/* ---- lists ---------------------------------------------------------------------------------------------------------- */

/* But for what traffic moves, and for what each daemon counts for itself. */
static char *lists(const struct fixture_keeper *keeper)
{
	static const char *const moving[] = {
		"age_nsec", "sq_pi", "sq_ci", "wqes", "bytes", "bytes_sent", "bytes_read", "recv_wqes", "error_cqes",
		"rnr_naks", "retries", "nop", "write", "write_imm", "read", "send", "send_imm", "atomic", "other",
		"n_ready", "n_made", "n_handed_out", "n_batches_handed_out", "missed_empty", NULL};

	setenv("SHMEMD_SOCKET", keeper->daemon.socket, 1);
	return ctl_lists(moving);
}

static unsigned int count(const char *text, const char *words)
{
	unsigned int n = 0;

	for (const char *at = text; (at = strstr(at, words)); at++)
		n++;
	return n;
}

/* Both sessions, and nothing of a request that is under way: of each its memory, and that of its queues. */
static char *lists_at_rest(const struct fixture_keeper *keeper)
{
	uint64_t end = nsec_now() + test_patience_nsec();
	char *text;

	for (text = lists(keeper); count(text, "\"n_mrs\":2,") != 2 || count(text, "\"mr\":") != 4;
	     text = lists(keeper)) {
		if (nsec_now() > end)
			test_fail(TEST_WHERE, "not two regions of each session: %s", text);
		free(text);
	}
	return text;
}

/* Queues have other numbers where an atomic was cut: they were made anew. */
static bool is_same(const char *a, const char *b)
{
	static const char *const numbers[] = {"qpn", "dest_qpn", "mr", "iova", NULL};
	char *x = ctl_masked(a, numbers), *y = ctl_masked(b, numbers);
	bool same = strcmp(x, y) == 0;

	free(x);
	free(y);
	return same;
}

static char *await_lists(const struct fixture_keeper *keeper, const char *before)
{
	uint64_t end = nsec_now() + test_patience_nsec();
	char *now;

	for (now = lists(keeper); !is_same(now, before); now = lists(keeper)) {
		if (nsec_now() > end)
			ASSERT_STREQ(now, before);
		free(now);
	}
	return now;
}

/* ---- what is left --------------------------------------------------------------------------------------------------- */

/* The holdings of the manager and the daemon without any session. */
struct usage {
	char names[NAMES_BYTES];
	unsigned int n_kept, n_fds;
	uint64_t kib; /* of a daemon that has taken sessions over and carried no traffic */
};

static void look(struct fixture_keeper *keeper, struct usage *ret)
{
	ret->n_kept = fixture_keeper_list(keeper, ret->names, sizeof(ret->names));
	ret->n_fds = daemon_n_fds(keeper->daemon.pid);
}

static void look_at_memory(struct fixture_keeper *keeper, struct usage *ret)
{
	fixture_keeper_kill_daemon(keeper);
	ret->kib = daemon_own_kib(keeper->daemon.pid);
}

static void look_without_sessions(struct fixture_keeper *keeper, struct usage *ret)
{
	uint64_t end = nsec_now() + test_patience_nsec();

	for (look(keeper, ret); strstr(ret->names, "s1-") || strstr(ret->names, "s2-"); look(keeper, ret)) {
		ASSERT_LT(nsec_now(), end);
		pause_nsec(NSEC_PER_MSEC);
	}
	/* The most of several: one look may come before a thread of the new daemon has begun. */
	for (unsigned int i = 0; i < FIRST_LOOKS; i++) {
		struct usage one;

		look_at_memory(keeper, &one);
		ret->kib = i == 0 || one.kib > ret->kib ? one.kib : ret->kib;
	}
}

/* The least of several: what is left is there each time. */
static void expect_memory(struct fixture_keeper *keeper, const struct usage *want)
{
	uint64_t most_kib = want->kib + (uint64_t)sysconf(_SC_PAGESIZE) / 1024 * SLACK_PAGES;
	struct usage now;

	for (unsigned int i = 0; i < MEMORY_LOOKS; i++) {
		look_at_memory(keeper, &now);
		if (now.kib <= most_kib)
			break;
	}
	printf("%llu KiB before, %llu after\n", (unsigned long long)want->kib, (unsigned long long)now.kib);
	ASSERT_LE(now.kib, most_kib);
}

/* The ends of sessions take their time. */
static void expect_usage(struct fixture_keeper *keeper, const struct usage *want)
{
	uint64_t end = nsec_now() + test_patience_nsec();
	struct usage now;

	for (look(keeper, &now); now.n_kept != want->n_kept || now.n_fds > want->n_fds; look(keeper, &now)) {
		if (nsec_now() > end) {
			fixture_daemon_print_log(&keeper->daemon);
			test_fail(TEST_WHERE, "%u descriptors now, %u before; kept before:\n%s\nnow:\n%s", now.n_fds,
				  want->n_fds, want->names, now.names);
		}
		pause_nsec(NSEC_PER_MSEC);
	}
	expect_memory(keeper, want);
}

/* The client's pause for each of the n restarts, if those were its longest pauses, in rising order. */
static void report(const struct traffic *traffic, unsigned int n)
{
	const char *at = strstr(traffic->text, "\"pauses_msec\": [");
	unsigned int n_pauses = 0;
	double pauses[4096];

	ASSERT(at);
	for (at = strchr(at, '['); *at != ']' && n_pauses < 4096; at += strcspn(at, ",]"))
		pauses[n_pauses++] = strtod(++at, (char **)&at);
	ASSERT_GT(n_pauses, 0);
	if (n > n_pauses)
		n = n_pauses;
	printf("%u restarts, %llu batches; pauses: median %.1f ms, longest %.1f ms\n", n,
	       (unsigned long long)traffic_number(traffic, "batches"), pauses[n_pauses - 1 - n / 2], pauses[n_pauses - 1]);
}

/* ---- before and after ----------------------------------------------------------------------------------------------- */

struct before {
	struct usage usage;
	struct traffic_usage client;
	uint64_t n_unknown; /* of the one kill before */
	char *lists;
};

/* Traffic that was taken over once runs in the end, and what there was before it is what such traffic leaves. */
static void start(struct fixture_keeper *keeper, const char *nics, struct traffic *traffic, struct before *ret)
{
	fixture_keeper_start(keeper, FOR_EVER, nics, doorbell(), NULL);
	traffic_start(traffic, keeper->daemon.socket);
	fixture_keeper_kill_daemon(keeper);
	traffic_stop(traffic);
	look_without_sessions(keeper, &ret->usage);
	traffic_start(traffic, keeper->daemon.socket);
	fixture_keeper_kill_daemon(keeper);
	ret->n_unknown = traffic_await(traffic);
	ret->lists = lists_at_rest(keeper);
	traffic_look(traffic, &ret->client);
}

/* After n deaths: it was all right, and everything is as it was before them. */
static void finish(struct fixture_keeper *keeper, struct traffic *traffic, unsigned int n, struct before *before)
{
	char *after = await_lists(keeper, before->lists);

	traffic_expect_usage(traffic, &before->client);
	traffic_stop(traffic);
	if (traffic_number(traffic, "unknown") == 0)
		ASSERT_STREQ(after, before->lists);
	free(before->lists);
	free(after);
	report(traffic, n);
	expect_usage(keeper, &before->usage);
	fixture_keeper_stop(keeper);
}

/* How many of these kills fell into traffic: a batch was done since the daemon before was killed. */
static unsigned int kill_at_random(struct fixture_keeper *keeper, struct traffic *traffic, unsigned int n)
{
	unsigned int n_in_traffic = 0;

	for (unsigned int i = 0; i < n; i++) {
		/* Were none waited for, then on a slow machine no daemon would live long enough to answer anything. */
		if (i % KILLS_PER_HASTE == 0)
			traffic_ask(traffic);
		else
			traffic_await(traffic);
		pause_nsec((uint64_t)random() % (20 * NSEC_PER_MSEC));
		n_in_traffic += traffic_has_gone_on(traffic);
		fixture_keeper_kill_daemon(keeper);
	}
	printf("%u of %u kills in mid-traffic\n", n_in_traffic, n);
	return n_in_traffic;
}

TEST_WAITS(daemon_killed_at_random_moments_loses_nothing_and_does_nothing_twice, 240)
{
	unsigned int n = test_is_full() ? MANY_KILLS : FEW_KILLS, n_in_traffic;
	/* A kill seldom cuts an atomic. A simulated NIC is not killed: there every outcome is known. */
	unsigned int most_unknown = is_mlx5() ? 0 : n / 10 + 2;
	struct fixture_keeper keeper = {0};
	struct traffic traffic;
	struct before before;

	start(&keeper, BOTH_NICS, &traffic, &before);
	srandom((unsigned int)getpid());
	n_in_traffic = kill_at_random(&keeper, &traffic, n);
	ASSERT_GE(n_in_traffic, n - n / KILLS_PER_HASTE);
	finish(&keeper, &traffic, n, &before);
	ASSERT_LE(traffic_number(&traffic, "unknown"), most_unknown);
}

/* Steps that traffic passes all the time. Behind those that cut an atomic its outcome is unknown. */
static const struct step {
	const char *name;
	unsigned int n_unknown; /* 0, or at most 1 */
} steps[] = {
	{"engine.fetch", 0}, {"engine.send", 0}, {"engine.take", 0}, {"engine.payload", 0}, {"engine.intent", 1},
	{"engine.atomic", 1}, {"engine.replay", 1}, {"engine.executed", 0}, {"engine.reply", 0}, {"engine.response", 0},
	{"engine.complete", 0}, {"engine.cqe-body", 0}, {"engine.cqe-intent", 0}, {"engine.cqe", 0},
	{"engine.cqe-state", 0}, {"engine.cqe-noted", 0}, {"engine.notify", 0}};
#define N_STEPS (sizeof(steps) / sizeof(steps[0]))

/* The fault kills it while there is traffic: not, when the client has seen something wrong and ended. */
static void wait_start(struct fixture_keeper *keeper, struct traffic *traffic, unsigned int number, const char *step)
{
	uint64_t end = nsec_now() + test_patience_nsec();
	struct pollfd said = {.fd = traffic->out, .events = POLLIN};

	while (fixture_keeper_n_starts(keeper) < number) {
		if (poll(&said, 1, 1) > 0)
			traffic_read(traffic);
		if (nsec_now() > end)
			test_fail(TEST_WHERE, "traffic has not come to %s", step);
	}
	fixture_keeper_wait_start(keeper, number);
}

/* How many outcomes are unknown because of it. */
static unsigned int kill_at(struct fixture_keeper *keeper, struct traffic *traffic, const char *step, unsigned int nth)
{
	unsigned int n = fixture_keeper_n_starts(keeper);
	uint64_t before = traffic_await(traffic);
	char text[64];

	snprintf(text, sizeof(text), "SHMEMD_FAULT=%s:%u", step, nth);
	fixture_keeper_set_env(keeper, text);
	fixture_keeper_restart(keeper);
	traffic->at = step;
	wait_start(keeper, traffic, n + 2, text);
	/* The next one dies in traffic that has gone on, however slow the machine is. */
	return (unsigned int)(traffic_await(traffic) - before);
}

/* n_chance: how many kills may cut an atomic that they were not meant for. */
static void kill_at_each_step(const char *nics, unsigned int rounds, unsigned int n_chance)
{
	struct fixture_keeper keeper = {0};
	unsigned int n_others = 0;
	struct traffic traffic;
	struct before before;

	if (is_mlx5())
		test_skip("the queues are executed by the simulated NIC, which is not killed");
	start(&keeper, nics, &traffic, &before);
	srandom((unsigned int)getpid());
	for (unsigned int i = 0; i < rounds * N_STEPS; i++) {
		const struct step *step = &steps[i % N_STEPS];
		unsigned int n = kill_at(&keeper, &traffic, step->name, 1 + (unsigned int)random() % 60);

		n_others += n > step->n_unknown ? n - step->n_unknown : 0;
		if (n_others > n_chance)
			test_fail(TEST_WHERE, "killed at %s: %u outcomes unknown", step->name, n);
	}
	finish(&keeper, &traffic, rounds * N_STEPS * 2, &before);
}

/* While one NIC dies at its step the other one may be in the middle of an atomic. */
TEST_WAITS(daemon_killed_at_each_step_of_the_executor_loses_nothing_and_does_nothing_twice, 240)
{
	unsigned int rounds = test_is_full() ? 10 : 1;

	kill_at_each_step(BOTH_NICS, rounds, rounds / 2 + 1);
}

TEST_WAITS(daemon_killed_at_each_step_of_one_executor_knows_all_outcomes_but_that_of_an_atomic_it_cut, 240)
{
	kill_at_each_step(ONE_NIC, test_is_full() ? 10 : 1, 0);
}

/* In the middle of the requests that make queues and connect them. */
TEST_TIMEOUT(daemon_killed_while_queues_are_connected_connects_them, 240)
{
	static const char *const faults[] = {
		"engine.modify:1", "engine.modified:1"};

	if (is_mlx5())
		test_skip("the queues are executed by the simulated NIC, which is not killed");
	for (unsigned int i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		struct fixture_keeper keeper = {0};
		struct traffic traffic;

		setenv("SHMEMD_FAULT", faults[i], 1);
		fixture_keeper_start(&keeper, FOR_EVER, doorbell(), NULL);
		traffic_start(&traffic, keeper.daemon.socket);
		ASSERT_EQ(fixture_keeper_n_starts(&keeper), 2);
		traffic_stop(&traffic);
		fixture_keeper_stop(&keeper);
	}
}

TEST_TIMEOUT(daemon_that_is_stopped_and_started_keeps_its_sessions, 240)
{
	unsigned int n = test_is_full() ? 30 : 3;
	struct fixture_keeper keeper = {0};
	struct traffic traffic;
	struct before before;

	start(&keeper, BOTH_NICS, &traffic, &before);
	for (unsigned int i = 0; i < n; i++) {
		traffic_await(&traffic);
		fixture_keeper_restart(&keeper);
	}
	finish(&keeper, &traffic, n, &before);
	/* Its NICs stop between two requests first. */
	ASSERT_EQ(traffic_number(&traffic, "unknown"), before.n_unknown);
}
