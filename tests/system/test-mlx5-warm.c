/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts in advance with the whole daemon, on simulated ConnectX NICs: when they are made and destroyed, the reports of
 * them, and that no session waits for them or fails by them. That nothing is left of them the simulator says at its end.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <shmd/abi/cqe.h>

#include "proto/base/nsec.h"
#include "tests/lib/fixture-daemon.h"
#include "tests/lib/sim-nic.h"
#include "tests/lib/test.h"
#include "tests/system/ctl-lab.h"
#include "tests/system/daemon-usage.h"
#include "tests/system/raw-traffic.h"

#define LIMIT_NSEC (20 * NSEC_PER_SEC)

/* A daemon with a file of settings, and a client that watches it. */
struct lab {
	struct fixture_daemon daemon;
	struct raw_client ctl;
	char conf[96];
};

static const struct raw_traffic_attr fitting = {.nic = "mlx5_0", .n_qps = 1, .own_cqs = true, .log2_sq_wqebbs = 6,
						.log2_cq_entries = 6};

static void write_conf(struct lab *lab, const char *settings)
{
	FILE *file = fopen(lab->conf, "w");

	ASSERT(file);
	ASSERT_GE(fputs(settings, file), 0);
	ASSERT_OK(fclose(file));
}

static void lab_init(struct lab *lab, const char *settings)
{
	char option[112];

	test_make_file(lab->conf, sizeof(lab->conf), "shmemd-warm");
	write_conf(lab, settings);
	snprintf(option, sizeof(option), "--config=%s", lab->conf);
	fixture_daemon_start(&lab->daemon, option, NULL);
	raw_connect(&lab->ctl, lab->daemon.socket);
	raw_hello(&lab->ctl, MSG_ROLE_CONTROL);
	setenv("SHMEMD_SOCKET", lab->daemon.socket, 1);
}

static void lab_deinit(struct lab *lab)
{
	raw_close(&lab->ctl);
	fixture_daemon_stop(&lab->daemon);
	ASSERT_OK(unlink(lab->conf));
}

static void reload(struct lab *lab, const char *settings)
{
	write_conf(lab, settings);
	ASSERT_OK(kill(lab->daemon.pid, SIGHUP));
}

static struct msg_nic_warm warm_of(struct lab *lab, unsigned int nic)
{
	struct msg_nic_warm warm;
	struct msg req, rep;

	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_NICS;
	raw_expect(&lab->ctl, &req, NULL, 0, MSG_LIST_REP, &rep);
	ASSERT_EQ(rep.list_rep.n_nics, 2u);
	warm = rep.list_rep.nics[nic].warm;
	msg_deinit(&rep);
	return warm;
}

static struct msg_nic_warm wait_ready(struct lab *lab, unsigned int nic, uint32_t n)
{
	const struct timespec pause = {.tv_nsec = 2000000};
	uint64_t end = nsec_now() + LIMIT_NSEC;
	struct msg_nic_warm warm;

	while ((warm = warm_of(lab, nic)).n_ready != n || warm.n_wanted != n) {
		ASSERT_LT(nsec_now(), end);
		nanosleep(&pause, NULL);
	}
	return warm;
}

static void use(struct raw_traffic *t)
{
	memset(t->heap, 0x5a, 128);
	memset(t->heap + 4096, 0, 128);
	raw_traffic_write(t, 4096, 0, 128);
	ASSERT_EQ(raw_traffic_poll(t), (unsigned int)SHMD_CQE_REQ);
	ASSERT_MEMEQ(t->heap, t->heap + 4096, 128);
}

TEST(a_session_gets_what_was_made_in_advance_and_the_next_is_made)
{
	struct msg_nic_warm warm;
	struct raw_traffic t;
	struct lab lab;

	lab_init(&lab, "warm-contexts = 2\nwarm-depth = 64\n");
	wait_ready(&lab, 0, 2);
	wait_ready(&lab, 1, 2);
	raw_traffic_init_with(&t, lab.daemon.socket, &fitting);
	use(&t);
	warm = wait_ready(&lab, 0, 2);
	ASSERT_EQ(warm.n_handed_out, 1u);
	ASSERT_EQ(warm.n_batches_handed_out, 1u);
	ASSERT_EQ(warm.n_made, 3u);
	ASSERT_EQ(warm.missed_empty + warm.missed_shape + warm.missed_memory + warm.n_failed, 0u);
	ASSERT_EQ(warm_of(&lab, 1).n_made, 2u);
	raw_traffic_deinit(&t);
	ASSERT_EQ(CTL("status"), 0);
	ASSERT_HAS("IN ADVANCE", "NONE READY", "2 of 2");
	ASSERT_EQ(CTL("--json", "status"), 0);
	ASSERT_HAS("\"warm\":{\"n_wanted\":2,\"n_ready\":2,\"n_made\":3,\"n_handed_out\":1,\"n_batches_handed_out\":1,"
		   "\"missed_empty\":0,\"missed_shape\":0,\"missed_memory\":0,\"n_failed\":0}");
	lab_deinit(&lab);
}

TEST(nothing_is_charged_before_it_is_handed_out)
{
	struct raw_traffic t;
	struct lab lab;

	/* The pool has more of them than one user may have. */
	lab_init(&lab, "warm-contexts = 4\nwarm-depth = 64\nwarm-queues = 1\nmax-qps = 1\nmax-cqs = 1\nmax-fds = 16\n");
	wait_ready(&lab, 0, 4);
	ASSERT(daemon_is_empty(&lab.ctl));
	raw_traffic_init_with(&t, lab.daemon.socket, &fitting);
	use(&t);
	ASSERT_EQ(wait_ready(&lab, 0, 4).n_batches_handed_out, 1u);
	raw_traffic_deinit(&t);
	daemon_expect_empty(&lab.ctl, NSEC_PER_SEC);
	lab_deinit(&lab);
}

TEST(other_shapes_and_own_doorbells_work_beside_the_pool)
{
	const struct raw_traffic_attr deeper = {.nic = "mlx5_0", .log2_sq_wqebbs = 8};
	struct msg_nic_warm warm;
	struct raw_traffic t;
	struct lab lab;

	lab_init(&lab, "warm-contexts = 1\nwarm-depth = 64\n");
	wait_ready(&lab, 0, 1);
	raw_traffic_init_with(&t, lab.daemon.socket, &deeper);
	use(&t);
	raw_traffic_deinit(&t);
	warm = wait_ready(&lab, 0, 1);
	ASSERT_EQ(warm.n_handed_out, 1u);
	ASSERT_EQ(warm.missed_shape, 1u);
	ASSERT_EQ(warm.n_batches_handed_out, 0u);
	lab_deinit(&lab);
}

TEST_TIMEOUT(a_reload_and_a_drain_change_what_is_kept_ready, 90)
{
	struct lab lab;
	struct raw_traffic t;

	lab_init(&lab, "warm-depth = 64\n");
	ASSERT_EQ(warm_of(&lab, 0).n_wanted, 0u);
	reload(&lab, "warm-contexts = 3\nwarm-depth = 64\n");
	wait_ready(&lab, 0, 3);
	reload(&lab, "warm-contexts = 1\nwarm-depth = 128\n");
	ASSERT_EQ(wait_ready(&lab, 0, 1).n_made, 4u);
	ASSERT_EQ(CTL("drain"), 0);
	wait_ready(&lab, 0, 0);
	ASSERT_EQ(CTL("drain", "--off"), 0);
	wait_ready(&lab, 0, 1);
	reload(&lab, "warm-contexts = 0\n");
	wait_ready(&lab, 0, 0);
	raw_traffic_init_with(&t, lab.daemon.socket, &fitting);
	use(&t);
	raw_traffic_deinit(&t);
	lab_deinit(&lab);
}

TEST_TIMEOUT(a_nic_that_returns_has_its_pool_again, 90)
{
	struct msg_nic_warm warm;
	struct raw_traffic t;
	struct lab lab;
	uint64_t end;

	lab_init(&lab, "warm-contexts = 2\nwarm-depth = 64\n");
	wait_ready(&lab, 0, 2);
	sim_nic_happen("fatal 0");
	end = nsec_now() + LIMIT_NSEC;
	fixture_daemon_assert_logged(&lab.daemon, "NIC mlx5_0 is gone");
	while ((warm = warm_of(&lab, 0)).n_ready != 0)
		ASSERT_LT(nsec_now(), end);
	sim_nic_happen("return 0");
	fixture_daemon_assert_logged(&lab.daemon, "NIC mlx5_0 is back");
	wait_ready(&lab, 0, 2);
	raw_traffic_init_with(&t, lab.daemon.socket, &fitting);
	use(&t);
	ASSERT_EQ(wait_ready(&lab, 0, 2).n_batches_handed_out, 1u);
	raw_traffic_deinit(&t);
	lab_deinit(&lab);
}

static unsigned int n_logged(const struct lab *lab, const char *words)
{
	FILE *file = fopen(lab->daemon.log, "r");
	unsigned int n = 0;
	char line[1024];

	ASSERT(file);
	while (fgets(line, sizeof(line), file))
		n += strstr(line, words) != NULL;
	fclose(file);
	return n;
}

/* Files of more than a MiB cannot be made: queues of the pool, not those of the sessions. */
static void limit_files(struct lab *lab, rlim_t most)
{
	struct rlimit limit;

	ASSERT_OK(prlimit(lab->daemon.pid, RLIMIT_FSIZE, NULL, &limit));
	limit.rlim_cur = most;
	ASSERT_OK(prlimit(lab->daemon.pid, RLIMIT_FSIZE, &limit, NULL));
}

TEST_TIMEOUT(a_pool_that_fails_is_logged_once_and_fails_no_session, 90)
{
	const char *words = "cannot create a context of mlx5_0 for the context pool: File too large; sessions create their own";
	struct raw_traffic t;
	struct lab lab;

	lab_init(&lab, "warm-depth = 64\n");
	limit_files(&lab, 1 << 20);
	reload(&lab, "warm-contexts = 2\nwarm-depth = 16384\n");
	fixture_daemon_assert_logged(&lab.daemon, words);
	for (uint64_t i = 1; i <= 3; i++) {
		raw_traffic_init_with(&t, lab.daemon.socket, &fitting);
		use(&t);
		raw_traffic_deinit(&t);
		ASSERT_EQ(warm_of(&lab, 0).missed_empty, i);
	}
	ASSERT_GE(warm_of(&lab, 0).n_failed, 1u);
	ASSERT_EQ(n_logged(&lab, words), 1u);
	ASSERT_EQ(CTL("status"), 0);
	ASSERT_HAS("0 of 2");
	limit_files(&lab, RLIM_INFINITY);
	/* Tried again by itself in the longer form, which takes seconds. */
	if (test_is_full())
		wait_ready(&lab, 0, 2);
	/* At once, since the cause has changed. */
	reload(&lab, "warm-contexts = 2\nwarm-depth = 64\n");
	wait_ready(&lab, 0, 2);
	lab_deinit(&lab);
}

/* ---- clients that die -------------------------------------------------------------------------------------------------- */

#define AT_ONCE 10u

static void die_at_zero(void *arg)
{
	unsigned int *left = arg;

	if ((*left)-- == 0)
		raise(SIGKILL);
}

/* In a child: a few requests and death, or traffic and death. */
static void __attribute__((noreturn)) live(const struct lab *lab, unsigned int n_requests)
{
	struct raw_traffic_attr attr = fitting;
	struct raw_traffic t;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	attr.pump = die_at_zero;
	attr.pump_arg = &n_requests;
	raw_traffic_init_with(&t, lab->daemon.socket, &attr);
	use(&t);
	raise(SIGKILL);
	_exit(1);
}

static void kill_some(struct lab *lab)
{
	pid_t pids[AT_ONCE];
	int status;

	for (unsigned int i = 0; i < AT_ONCE; i++) {
		pids[i] = fork();
		ASSERT_GE(pids[i], 0);
		if (pids[i] == 0)
			live(lab, i % 6);
	}
	for (unsigned int i = 0; i < AT_ONCE; i++) {
		ASSERT_EQ(waitpid(pids[i], &status, 0), pids[i]);
		ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
}

/* A thousand in the longer form. */
TEST_TIMEOUT(clients_that_are_killed_leave_nothing_of_the_pool, 300)
{
	unsigned int n = test_is_full() ? 1000 : 40;
	struct msg_nic_warm warm;
	struct lab lab;

	lab_init(&lab, "warm-contexts = 4\nwarm-depth = 64\n");
	wait_ready(&lab, 0, 4);
	for (unsigned int i = 0; i < n; i += AT_ONCE)
		kill_some(&lab);
	daemon_expect_empty(&lab.ctl, 10 * NSEC_PER_SEC);
	warm = wait_ready(&lab, 0, 4);
	ASSERT_GT(warm.n_handed_out, 0u);
	/* Each belonged to one session, once. */
	ASSERT_EQ(warm.n_made, warm.n_handed_out + 4);
	reload(&lab, "warm-contexts = 0\n");
	wait_ready(&lab, 0, 0);
	lab_deinit(&lab);
}
