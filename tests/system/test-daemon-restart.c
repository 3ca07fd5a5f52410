/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon dies or restarts, and the next one takes over: clients go on, and lists stay the same. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "tests/lib/fixture-keeper.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"
#include "tests/system/daemon-usage.h"
#include "tests/system/client-lab.h"
#include "tests/system/ctl-lab.h"

#define FULL_KILLS 100u
#define SHORT_KILLS 4u
#define MAX_RANDOM_MSEC 60
#define TEXT_BYTES 65536

/* ---- programs -------------------------------------------------------------------------------------------------------- */

/* shmemd-traffic under way; its output is read from *ret_out. */
static pid_t start_traffic(const struct fixture_keeper *keeper, int *ret_out)
{
	char patience[16];
	int out[2];
	pid_t pid;

	snprintf(patience, sizeof(patience), "%u",
		 (unsigned int)(test_patience_nsec() / NSEC_PER_SEC));
	ASSERT_OK(pipe2(out, O_CLOEXEC));
	pid = fork();
	ASSERT_GE(pid, 0);
	if (pid == 0) {
		setenv("SHMEMD_SOCKET", keeper->daemon.socket, 1);
		dup2(out[1], STDOUT_FILENO);
		execl(SHMD_TEST_TRAFFIC, "shmemd-traffic", "--nics", "soft0,soft1", "--patience",
		      patience, NULL);
		_exit(126);
	}
	close(out[1]);
	*ret_out = out[0];
	return pid;
}

/* Until the text has the words, or ends. */
static void read_until(int out, char *text, const char *words)
{
	size_t used = strlen(text);

	while (!strstr(text, words)) {
		ssize_t n = read(out, text + used, TEXT_BYTES - 1 - used);

		if (n <= 0)
			test_fail(TEST_WHERE, "the traffic ended before \"%s\": %s", words, text);
		used += (size_t)n;
		text[used] = 0;
	}
}

static uint64_t number_of(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	if (!at)
		test_fail(TEST_WHERE, "no %s in %s", key, text);
	return strtoull(at + strlen(key), NULL, 10);
}

/* Its counts, after the request to end. */
static void end_traffic(pid_t pid, int out, char *text)
{
	int status;

	ASSERT_OK(kill(pid, SIGTERM));
	read_until(out, text, "\"pauses_msec\"");
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT(WIFEXITED(status));
	ASSERT_EQ(WEXITSTATUS(status), 0);
	close(out);
}

/* ---- what is there ---------------------------------------------------------------------------------------------------- */

/* Shared memory is where queues, pages and states are. */
static uint64_t shmem_kib(pid_t pid)
{
	char path[64], line[256];
	uint64_t kib = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	ASSERT(file);
	while (fgets(line, sizeof(line), file))
		if (strncmp(line, "RssShmem:", 9) == 0)
			kib = strtoull(line + 9, NULL, 10);
	fclose(file);
	return kib;
}

/* But for what grows with time. */
static char *lists(const struct fixture_keeper *keeper)
{
	static const char *const moving[] = {"age_nsec", NULL};

	setenv("SHMEMD_SOCKET", keeper->daemon.socket, 1);
	return ctl_lists(moving);
}

/* ---- tests ------------------------------------------------------------------------------------------------------------ */

static const struct shmd_queues_attr two_qps = {.n_qps = 2};

static void put(struct lab_side *from, struct lab_side *to, uint64_t value)
{
	struct shmd_dev_qp *qp = shmd_queues_dev_qp(from->queues, 0);

	memcpy(lab_byte(from, 0), &value, sizeof(value));
	ASSERT_EQ(shmd_dev_qp_put(qp, lab_remote(to, 4096), lab_local(from, 0), sizeof(value), test_patience_nsec()),
		  SHMD_DEV_OK);
	ASSERT_MEMEQ(lab_byte(to, 4096), &value, sizeof(value));
}

/* The counts of former daemons belong to the session and the NIC. */
static void make_queues_anew(struct lab_side *side)
{
	ASSERT_OK(shmd_queues_destroy(side->queues));
	ASSERT_OK(shmd_queues_create(side->nic, &two_qps, &side->queues));
}

static void expect_same_lists(struct fixture_keeper *keeper, void (*again)(struct fixture_keeper *keeper))
{
	char *before, *after;
	char names[4096], later[4096];
	struct lab_side a, b;

	lab_side_open(&a, &keeper->daemon, &two_qps);
	lab_side_open(&b, &keeper->daemon, &two_qps);
	lab_connect(&a, 0, &b, 0);
	put(&a, &b, 0x1234567890abcdef);
	make_queues_anew(&a);
	make_queues_anew(&b);
	lab_connect(&a, 0, &b, 0);
	put(&a, &b, 0x234567890abcdef1);
	before = lists(keeper);
	ASSERT_GT(fixture_keeper_list(keeper, names, sizeof(names)), 0);
	again(keeper);
	after = lists(keeper);
	ASSERT_STREQ(before, after);
	fixture_keeper_list(keeper, later, sizeof(later));
	ASSERT_STREQ(names, later);
	/* And they work. */
	put(&a, &b, 0xfedcba0987654321);
	lab_side_close(&a);
	lab_side_close(&b);
	free(before);
	free(after);
}

TEST_TIMEOUT(lists_are_the_same_after_a_kill, 60)
{
	struct fixture_keeper keeper = {0};

	fixture_keeper_start(&keeper, "--backend=soft", "--soft-nics=2", "--restart-grace=600000", NULL);
	expect_same_lists(&keeper, fixture_keeper_kill_daemon);
	fixture_keeper_stop(&keeper);
}

TEST_TIMEOUT(lists_are_the_same_after_a_restart, 60)
{
	struct fixture_keeper keeper = {0};

	fixture_keeper_start(&keeper, "--backend=soft", "--soft-nics=2", "--restart-grace=600000", NULL);
	expect_same_lists(&keeper, fixture_keeper_restart);
	fixture_keeper_stop(&keeper);
}

/* One number of each of both sessions, added. */
static uint64_t sum_of(const struct fixture_keeper *keeper, const char *what, const char *key)
{
	uint64_t sum = 0;

	setenv("SHMEMD_SOCKET", keeper->daemon.socket, 1);
	ASSERT_EQ(CTL("list", what, "--json"), 0);
	for (const char *at = ctl_text; (at = strstr(at, key)); at++)
		sum += strtoull(at + strlen(key), NULL, 10);
	return sum;
}

/* By QP 0, with a key that was never given out: its one error is reported once. */
static void put_with_bad_key(struct lab_side *from, struct lab_side *to)
{
	struct shmd_dev_qp *qp = shmd_queues_dev_qp(from->queues, 0);
	struct shmd_dev_addr bad = shmd_dev_addr_of((uintptr_t)lab_byte(to, 4096), ~shmd_mr_rkey_be(to->mr));
	uint32_t index = 0, syndrome;

	ASSERT_EQ(shmd_dev_qp_put(qp, bad, lab_local(from, 0), 8, test_patience_nsec()), SHMD_DEV_CQE_ERROR);
	syndrome = shmd_dev_qp_error(qp, &index);
	/* The peer's refusal, or no answer: the peer's QP had failed when this one asked again. */
	if (syndrome != SHMD_SYNDROME_REMOTE_ACCESS_ERR && syndrome != SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR)
		test_fail(TEST_WHERE, "syndrome 0x%x", syndrome);
	ASSERT_EQ(index, 1);
}

static void expect_one_error(const char *fault)
{
	struct fixture_keeper keeper = {0};
	struct lab_side a, b;

	setenv("SHMEMD_FAULT", fault, 1);
	fixture_keeper_start(&keeper, "--backend=soft", "--soft-nics=1", "--restart-grace=600000", NULL);
	lab_side_open(&a, &keeper.daemon, &two_qps);
	lab_side_open(&b, &keeper.daemon, &two_qps);
	lab_connect(&a, 0, &b, 0);
	lab_connect(&a, 1, &b, 1);
	put(&a, &b, 0x1234567890abcdef);
	put_with_bad_key(&a, &b);
	fixture_keeper_wait_start(&keeper, 2);
	ASSERT_EQ(sum_of(&keeper, "sessions", "\"error_cqes\":"), 1);
	/* The other QPs and the sessions go on. */
	ASSERT_EQ(shmd_dev_qp_put(shmd_queues_dev_qp(a.queues, 1), lab_remote(&b, 0), lab_local(&a, 4096), 8,
				  test_patience_nsec()),
		  SHMD_DEV_OK);
	make_queues_anew(&a);
	make_queues_anew(&b);
	lab_connect(&a, 0, &b, 0);
	put(&a, &b, 0xfedcba0987654321);
	ASSERT_EQ(sum_of(&keeper, "sessions", "\"error_cqes\":"), 1);
	ASSERT_EQ(fixture_keeper_n_starts(&keeper), 2);
	lab_side_close(&a);
	lab_side_close(&b);
	fixture_keeper_stop(&keeper);
	unsetenv("SHMEMD_FAULT");
}

/* The peer's QP fails first, then the sender's. */
TEST_TIMEOUT(daemon_killed_when_a_qp_fails_tells_the_error_once, 120)
{
	expect_one_error("engine.error:1");
	expect_one_error("engine.error:2");
}

/* The counters of NICs, one number behind the other. */
struct counted {
	uint64_t n[64];
	unsigned int n_all;
};

static void count_nics(const struct fixture_keeper *keeper, struct counted *ret)
{
	ret->n_all = 0;
	setenv("SHMEMD_SOCKET", keeper->daemon.socket, 1);
	ASSERT_EQ(CTL("list", "nics", "--json"), 0);
	for (const char *at = ctl_text; (at = strstr(at, "\"counters\":")) != NULL;)
		for (const char *end = strstr(at, "\"warm\":"); at < end; at += strcspn(at, "0123456789")) {
			char *behind;

			if (*at < '0' || *at > '9') {
				at++;
				continue;
			}
			ASSERT_LT(ret->n_all, sizeof(ret->n) / sizeof(ret->n[0]));
			ret->n[ret->n_all++] = strtoull(at, &behind, 10);
			at = behind;
		}
	ASSERT_GT(ret->n_all, 0);
}

/* None of them has fallen since the last look. */
static void expect_risen(const struct fixture_keeper *keeper, struct counted *last)
{
	struct counted now;

	count_nics(keeper, &now);
	ASSERT_EQ(now.n_all, last->n_all);
	for (unsigned int i = 0; i < now.n_all; i++)
		if (now.n[i] < last->n[i])
			test_fail(TEST_WHERE, "counter %u of NICs fell from %llu to %llu: %s", i,
				  (unsigned long long)last->n[i], (unsigned long long)now.n[i], ctl_text);
	*last = now;
}

/* All that was ever put, and nothing twice. A NIC whose thread gets no CPU in time reports what it had, so the list is read again. */
static void await_total(const struct fixture_keeper *keeper, struct counted *last, uint64_t total)
{
	uint64_t end = nsec_now() + test_patience_nsec();

	while (last->n[0] + last->n[last->n_all / 2] < total && nsec_now() < end) {
		usleep(5000);
		expect_risen(keeper, last);
	}
	ASSERT_EQ(last->n[0] + last->n[last->n_all / 2], total);
}

static void work(struct lab_side *a, struct lab_side *b, unsigned int n)
{
	lab_connect(a, 0, b, 0);
	for (unsigned int i = 0; i < n; i++)
		put(a, b, i);
}

/* Two sessions for a while. */
static void come_and_go(struct fixture_keeper *keeper, unsigned int n, struct counted *last)
{
	struct lab_side a, b;

	lab_side_open(&a, &keeper->daemon, &two_qps);
	lab_side_open(&b, &keeper->daemon, &two_qps);
	work(&a, &b, n);
	if (last)
		expect_risen(keeper, last);
	lab_side_close(&a);
	lab_side_close(&b);
}

/* Sessions that end between, some that no list has shown, and two that live on and have other queues. */
static void expect_rising_counters(void (*again)(struct fixture_keeper *keeper))
{
	struct fixture_keeper keeper = {0};
	struct counted last;
	struct lab_side a, b;

	fixture_keeper_start(&keeper, "--backend=soft", "--soft-nics=2", "--restart-grace=600000", NULL);
	count_nics(&keeper, &last);
	lab_side_open(&a, &keeper.daemon, &two_qps);
	lab_side_open(&b, &keeper.daemon, &two_qps);
	for (unsigned int i = 0; i < 4; i++) {
		work(&a, &b, 3);
		come_and_go(&keeper, 40 - 10 * i, i % 2 ? &last : NULL);
		/* No list is read between an end and the death. */
		make_queues_anew(&a);
		make_queues_anew(&b);
		again(&keeper);
		if (i % 2)
			expect_risen(&keeper, &last);
		again(&keeper);
	}
	expect_risen(&keeper, &last);
	await_total(&keeper, &last, 4 * 3 + 40 + 30 + 20 + 10);
	lab_side_close(&a);
	lab_side_close(&b);
	expect_risen(&keeper, &last);
	fixture_keeper_stop(&keeper);
}

TEST_TIMEOUT(counters_of_nics_never_fall_when_daemons_are_killed, 60)
{
	expect_rising_counters(fixture_keeper_kill_daemon);
}

TEST_TIMEOUT(counters_of_nics_never_fall_when_daemons_are_restarted, 60)
{
	expect_rising_counters(fixture_keeper_restart);
}

/* The counts of these sessions are lost, but for the reported ones. */
TEST_TIMEOUT(counters_of_nics_never_fall_when_sessions_end_with_their_daemon, 60)
{
	struct fixture_keeper keeper = {.max = 3};
	struct counted last;
	struct lab_side a, b;

	fixture_keeper_start(&keeper, "--backend=soft", "--soft-nics=2", "--restart-grace=600000", NULL);
	count_nics(&keeper, &last);
	for (unsigned int i = 0; i < 4; i++) {
		lab_side_open(&a, &keeper.daemon, &two_qps);
		lab_side_open(&b, &keeper.daemon, &two_qps);
		work(&a, &b, 10);
		come_and_go(&keeper, 5, &last);
		await_total(&keeper, &last, (i + 1) * (10 + 5));
		fixture_keeper_kill_daemon(&keeper);
		expect_risen(&keeper, &last);
		shmd_client_close(a.client);
		shmd_client_close(b.client);
	}
	ASSERT_EQ(last.n[0] + last.n[last.n_all / 2], 4u * (10 + 5));
	fixture_keeper_stop(&keeper);
}

static void pause_random(unsigned int *seed)
{
	*seed = *seed * 1103515245u + 12345u;
	usleep((*seed >> 16) % (MAX_RANDOM_MSEC * 1000));
}

/* However slow the machine is: traffic goes on behind the last death. */
static void await_traffic(const struct fixture_keeper *keeper)
{
	uint64_t begin = sum_of(keeper, "qps", "\"wqes\":"), end = nsec_now() + test_patience_nsec();

	while (sum_of(keeper, "qps", "\"wqes\":") < begin + 100) {
		if (nsec_now() > end)
			test_fail(TEST_WHERE, "no traffic after the last death");
		usleep(5000);
	}
}

static void kill_under_traffic(void (*again)(struct fixture_keeper *keeper), unsigned int n)
{
	struct fixture_keeper keeper = {0};
	char *text = calloc(1, TEXT_BYTES);
	unsigned int seed = (unsigned int)getpid(), n_fds, n_names;
	uint64_t kib;
	char names[4096];
	pid_t pid;
	int out;

	fixture_keeper_start(&keeper, "--backend=soft", "--soft-nics=2", "--restart-grace=600000", NULL);
	pid = start_traffic(&keeper, &out);
	read_until(out, text, "running");
	again(&keeper);
	n_fds = daemon_n_fds(keeper.daemon.pid);
	kib = shmem_kib(keeper.daemon.pid);
	for (unsigned int i = 0; i < n; i++) {
		pause_random(&seed);
		again(&keeper);
	}
	await_traffic(&keeper);
	end_traffic(pid, out, text);
	fprintf(stderr, "%u deaths, seed %u: %s", n + 1, (unsigned int)getpid(), strchr(text, '{'));
	ASSERT_GT(number_of(text, "\"batches\": "), 0);
	/* Both sessions are over: what is left is the daemon's own. */
	n_names = fixture_keeper_list(&keeper, names, sizeof(names));
	for (int i = 0; i < 2000 && n_names > 2; i++) {
		usleep(5000);
		n_names = fixture_keeper_list(&keeper, names, sizeof(names));
	}
	ASSERT_LE(n_names, 3);
	ASSERT_LE(daemon_n_fds(keeper.daemon.pid), n_fds);
	ASSERT_LE(shmem_kib(keeper.daemon.pid), kib);
	fixture_keeper_stop(&keeper);
	free(text);
}

TEST_TIMEOUT(traffic_goes_on_while_daemons_are_killed, 600)
{
	kill_under_traffic(fixture_keeper_kill_daemon, test_is_full() ? FULL_KILLS : SHORT_KILLS);
}

TEST_TIMEOUT(traffic_goes_on_while_daemons_are_restarted, 600)
{
	kill_under_traffic(fixture_keeper_restart, test_is_full() ? FULL_KILLS / 5 : 2);
}

TEST_TIMEOUT(stop_ends_sessions, 60)
{
	struct fixture_keeper keeper = {0};
	struct lab_side a;
	struct shmd_queues *queues;

	fixture_keeper_start(&keeper, "--backend=soft", NULL);
	lab_side_open(&a, &keeper.daemon, &two_qps);
	fixture_keeper_stop_daemon(&keeper);
	ASSERT_ERR(shmd_queues_create(a.nic, &two_qps, &queues), ECONNRESET);
	shmd_client_close(a.client);
	fixture_keeper_stop(&keeper);
}

/* No manager keeps anything: the socket ends with the daemon. */
TEST_TIMEOUT(crash_without_a_keeper_ends_sessions, 60)
{
	struct fixture_daemon daemon;
	struct shmd_queues *queues;
	struct lab_side a;

	fixture_daemon_start(&daemon, "--backend=soft", NULL);
	lab_side_open(&a, &daemon, &two_qps);
	fixture_daemon_kill(&daemon);
	ASSERT_ERR(shmd_queues_create(a.nic, &two_qps, &queues), ECONNRESET);
	ASSERT(strstr(shmd_error_text(), "the connection to shmemd broke"));
	shmd_client_close(a.client);
}
