/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon is killed in mid-traffic, at random moments and at each step of the executor, under a service manager that keeps
 * descriptors: its client goes on, loses nothing, and nothing happens twice.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "tests/lib/fixture-keeper.h"
#include "tests/lib/test.h"
#include "tests/system/ctl-lab.h"
#include "tests/system/daemon-usage.h"

/* Where a start takes seconds, a client with the daemon's own grace is not there any more. */
#define FOR_EVER "--restart-grace=600000"
#define TURN_NSEC (5 * NSEC_PER_SEC)
#define FEW_KILLS 8u
#define MANY_KILLS 100u
#define NAMES_BYTES 4096
#define SLACK_PAGES 98u /* of memory: what a hundred deaths leave, a page each, is more */
#define MEMORY_LOOKS 10

struct traffic {
	pid_t pid;
	int out; /* what it prints */
	char text[1 << 16];
	size_t bytes;
	const char *at; /* the step that the daemon was killed at last; NULL: at none */
};

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

static void read_some(struct traffic *traffic)
{
	ssize_t n = read(traffic->out, traffic->text + traffic->bytes, sizeof(traffic->text) - 1 - traffic->bytes);

	traffic->bytes += n > 0 ? (size_t)n : 0;
	traffic->text[traffic->bytes] = 0;
	if (n == 0)
		test_fail(TEST_WHERE, "the traffic ended by itself%s%s: %s", traffic->at ? " after " : "",
			  traffic->at ? traffic->at : "", traffic->text);
}

static void traffic_start(struct traffic *traffic, const char *socket)
{
	char patience[32];
	char *const args[] = {(char *)SHMD_TEST_TRAFFIC, patience, (char *)"--pause-msec=1", NULL};
	int pipes[2];

	snprintf(patience, sizeof(patience), "--patience=%u",
		 (unsigned int)(test_patience_nsec() / NSEC_PER_SEC));
	*traffic = (struct traffic){0};
	ASSERT_OK(pipe2(pipes, O_CLOEXEC));
	traffic->pid = fork();
	ASSERT_GE(traffic->pid, 0);
	if (traffic->pid == 0) {
		setenv("SHMEMD_SOCKET", socket, 1);
		unsetenv("SHMEMD_FAULT");
		dup2(pipes[1], STDOUT_FILENO);
		dup2(pipes[1], STDERR_FILENO);
		execv(args[0], args);
		_exit(127);
	}
	close(pipes[1]);
	traffic->out = pipes[0];
	while (!strstr(traffic->text, "running\n"))
		read_some(traffic);
}

/* It has gone on: a whole batch was done since, and its results were right. */
static void traffic_await(struct traffic *traffic)
{
	size_t before = traffic->bytes;

	ASSERT_OK(kill(traffic->pid, SIGUSR1));
	while (!strstr(traffic->text + before, "at "))
		read_some(traffic);
}

static uint64_t number(const struct traffic *traffic, const char *key)
{
	char quoted[32];
	const char *at;

	snprintf(quoted, sizeof(quoted), "\"%s\": ", key);
	at = strstr(traffic->text, quoted);
	ASSERT(at);
	return strtoull(at + strlen(quoted), NULL, 10);
}

/* It must say that all was right. */
static void traffic_stop(struct traffic *traffic)
{
	int status;

	ASSERT_OK(kill(traffic->pid, SIGTERM));
	while (!strstr(traffic->text, "]}\n"))
		read_some(traffic);
	ASSERT_EQ(waitpid(traffic->pid, &status, 0), traffic->pid);
	ASSERT_EQ(status, 0);
	close(traffic->out);
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

/* After deaths: it was all right, and everything is as it was before them. Frees `before`. */
static void traffic_stop_as_before(struct traffic *traffic, const struct fixture_keeper *keeper,
				   char *before)
{
	char *after = await_lists(keeper, before);

	traffic_stop(traffic);
	if (number(traffic, "unknown") == 0)
		ASSERT_STREQ(after, before);
	free(before);
	free(after);
}

/* ---- what is left --------------------------------------------------------------------------------------------------- */

/* What the manager and the daemon have without any session. */
struct usage {
	char names[NAMES_BYTES];
	unsigned int n_kept, n_fds;
	uint64_t kib; /* of a daemon that has taken over what was left, and carried nobody's traffic */
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
	look_at_memory(keeper, ret);
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

/* What the client waited for each of the n restarts, as far as those were the longest of its pauses, which rise. */
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
	       (unsigned long long)number(traffic, "batches"), pauses[n_pauses - 1 - n / 2], pauses[n_pauses - 1]);
}

/* What is left by sessions that were taken over once, and have ended. */
static void start(struct fixture_keeper *keeper, struct usage *ret)
{
	struct traffic traffic;

	fixture_keeper_start(keeper, FOR_EVER, doorbell(), NULL);
	traffic_start(&traffic, keeper->daemon.socket);
	fixture_keeper_kill_daemon(keeper);
	traffic_stop(&traffic);
	look_without_sessions(keeper, ret);
}

TEST_TIMEOUT(daemon_killed_at_random_moments_loses_nothing_and_does_nothing_twice, 240)
{
	struct fixture_keeper keeper = {0};
	unsigned int n = test_is_full() ? MANY_KILLS : FEW_KILLS;
	struct traffic traffic;
	struct usage before;
	char *were;
	uint64_t turn;

	start(&keeper, &before);
	traffic_start(&traffic, keeper.daemon.socket);
	were = lists_at_rest(&keeper);
	srandom((unsigned int)getpid());
	turn = nsec_now() + TURN_NSEC;
	for (unsigned int i = 0; i < n; i++) {
		pause_nsec((uint64_t)random() % (20 * NSEC_PER_MSEC));
		fixture_keeper_kill_daemon(&keeper);
		/* On a slow machine no daemon would live long enough to answer anything, and one request has its time for all of them. */
		if (nsec_now() > turn) {
			traffic_await(&traffic);
			turn = nsec_now() + TURN_NSEC;
		}
	}
	pause_nsec(20 * NSEC_PER_MSEC);
	traffic_stop_as_before(&traffic, &keeper, were);
	report(&traffic, n);
	expect_usage(&keeper, &before);
	fixture_keeper_stop(&keeper);
}

/* What traffic passes all the time. */
static const char *const steps[] = {
	"engine.fetch", "engine.send", "engine.take", "engine.payload", "engine.intent", "engine.atomic", "engine.replay",
	"engine.executed", "engine.reply", "engine.response", "engine.complete", "engine.cqe-body", "engine.cqe-intent",
	"engine.cqe", "engine.cqe-state", "engine.cqe-noted", "engine.notify"};
#define N_STEPS (sizeof(steps) / sizeof(steps[0]))
#define N_UNDECIDED 3 /* of them, an atomic may or may not have happened: intent, atomic, replay */

/* The fault kills it while there is traffic: not, when the client has seen something wrong and ended. */
static void wait_start(struct fixture_keeper *keeper, struct traffic *traffic, unsigned int number, const char *step)
{
	uint64_t end = nsec_now() + test_patience_nsec();
	struct pollfd said = {.fd = traffic->out, .events = POLLIN};

	while (fixture_keeper_n_starts(keeper) < number) {
		if (poll(&said, 1, 1) > 0)
			read_some(traffic);
		if (nsec_now() > end)
			test_fail(TEST_WHERE, "traffic has not come to %s", step);
	}
	fixture_keeper_wait_start(keeper, number);
	/* The next one dies in traffic that has gone on, however slow the machine is. */
	traffic_await(traffic);
}

static void kill_at(struct fixture_keeper *keeper, struct traffic *traffic, const char *step, unsigned int nth)
{
	unsigned int n = fixture_keeper_n_starts(keeper);
	char text[64];

	snprintf(text, sizeof(text), "SHMEMD_FAULT=%s:%u", step, nth);
	fixture_keeper_set_env(keeper, text);
	fixture_keeper_restart(keeper);
	traffic->at = step;
	wait_start(keeper, traffic, n + 2, text);
}

TEST_TIMEOUT(daemon_killed_at_each_step_of_the_executor_loses_nothing_and_does_nothing_twice, 240)
{
	unsigned int rounds = test_is_full() ? 10 : 1;
	struct fixture_keeper keeper = {0};
	struct traffic traffic;
	struct usage before;
	char *were;

	if (is_mlx5())
		test_skip("the queues are executed by the simulated NIC, which is not killed");
	start(&keeper, &before);
	traffic_start(&traffic, keeper.daemon.socket);
	were = lists_at_rest(&keeper);
	srandom((unsigned int)getpid());
	for (unsigned int i = 0; i < rounds * N_STEPS; i++)
		kill_at(&keeper, &traffic, steps[i % N_STEPS],
			1 + (unsigned int)random() % 60);
	traffic_stop_as_before(&traffic, &keeper, were);
	report(&traffic, rounds * N_STEPS * 2);
	ASSERT_LE(number(&traffic, "unknown"), rounds * N_UNDECIDED);
	expect_usage(&keeper, &before);
	fixture_keeper_stop(&keeper);
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
	struct usage before;
	char *were;

	start(&keeper, &before);
	traffic_start(&traffic, keeper.daemon.socket);
	were = lists_at_rest(&keeper);
	for (unsigned int i = 0; i < n; i++) {
		traffic_await(&traffic);
		fixture_keeper_restart(&keeper);
	}
	traffic_stop_as_before(&traffic, &keeper, were);
	report(&traffic, n);
	expect_usage(&keeper, &before);
	fixture_keeper_stop(&keeper);
}
