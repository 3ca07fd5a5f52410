/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hundreds of clients, killed at any point of their lives, and all alive at once.
 *
 * Half of the killed ones kill themselves between a request and its reply, at a random request; the others drive traffic
 * until the parent kills them after a random time.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <shmd/abi/cqe.h>
#include <shmd/abi/wqe.h>

#include "proto/base/nsec.h"
#include "tests/lib/fixture-daemon.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/sim-nic.h"
#include "tests/lib/test.h"
#include "tests/system/daemon-usage.h"
#include "tests/system/raw-traffic.h"

#define BATCH 100
#define N_BATCHES 10u
#define N_BATCHES_SLOW 3u
#define BATCH_TRAFFIC 10u /* at least, of the 50 that may */
#define N_REQUESTS 5 /* of a client before its first WQE */
#define N_SIM_NICS 2u
#define RSS_SLACK_BYTES (4u << 20)
#define RSS_SLACK_MLX5_BYTES (32u << 20) /* libmlx5 has a quarter of a MiB for each context, and malloc keeps some */

struct churn {
	struct fixture_daemon daemon;
	struct raw_client ctl;
	uint32_t *n_traffic; /* shared with the children: how many had a verified write */
	uint64_t slowest_nsec; /* reply to a controller while clients die */
};

static void churn_init(struct churn *churn)
{
	*churn = (struct churn){0};
	fixture_daemon_start(&churn->daemon, "--max-sessions=600", "--soft-nics=4", NULL);
	raw_connect(&churn->ctl, churn->daemon.socket);
	raw_hello(&churn->ctl, MSG_ROLE_CONTROL);
	churn->n_traffic = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(churn->n_traffic, MAP_FAILED);
	srandom(4);
}

static void churn_deinit(struct churn *churn)
{
	munmap(churn->n_traffic, 4096);
	raw_close(&churn->ctl);
	fixture_daemon_stop(&churn->daemon);
}

static void die_at_zero(void *arg)
{
	unsigned int *left = arg;

	if ((*left)-- == 0)
		raise(SIGKILL);
}

/* In a child: `n_requests` requests and death; with none left, verified traffic until another process kills it. */
static void __attribute__((noreturn)) live(struct churn *churn, unsigned int n_requests)
{
	struct raw_traffic_attr attr = {.pump = die_at_zero, .pump_arg = &n_requests, .log2_sq_wqebbs = 6};
	struct raw_traffic t;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	raw_traffic_init_with(&t, churn->daemon.socket, &attr);
	for (uint32_t n = 0;; n++) {
		memset(t.heap, (int)n, 4096);
		for (uint32_t i = 0; i < 8; i++)
			raw_traffic_write(&t, 4096 * (i + 1), 0, 4096);
		for (int i = 0; i < 8; i++)
			ASSERT_EQ(raw_traffic_poll(&t), SHMD_CQE_REQ);
		ASSERT_MEMEQ(t.heap + 8 * 4096, t.heap, 4096);
		if (n == 0)
			__atomic_fetch_add(churn->n_traffic, 1, __ATOMIC_RELAXED);
	}
}

static void nap(uint64_t nsec)
{
	struct timespec ts = nsec_to_timespec(nsec);

	nanosleep(&ts, NULL);
}

static void ask_status(struct churn *churn)
{
	struct msg_status_rep status;
	uint64_t begin = nsec_now();

	raw_status(&churn->ctl, &status);
	begin = nsec_now() - begin;
	if (begin > churn->slowest_nsec)
		churn->slowest_nsec = begin;
}

/* Until so many have had traffic: the random points of death are not all before it. */
static void wait_for_traffic(const struct churn *churn, uint32_t n)
{
	uint64_t end = nsec_now() + 30 * NSEC_PER_SEC;

	while (__atomic_load_n(churn->n_traffic, __ATOMIC_RELAXED) < n) {
		ASSERT_LT(nsec_now(), end);
		nap(NSEC_PER_MSEC);
	}
}

static void batch(struct churn *churn)
{
	uint32_t n_traffic = *churn->n_traffic;
	pid_t pids[BATCH];

	for (int i = 0; i < BATCH; i++) {
		unsigned int n_requests = i % 2 ? (unsigned int)(random() % N_REQUESTS) : UINT32_MAX;

		pids[i] = fork();
		ASSERT_GE(pids[i], 0);
		if (pids[i] == 0)
			live(churn, n_requests);
	}
	wait_for_traffic(churn, n_traffic + BATCH_TRAFFIC);
	for (int i = 0; i < BATCH; i++) {
		int k = i + (int)(random() % (BATCH - i));
		pid_t pid = pids[k];

		pids[k] = pids[i];
		pids[i] = pid;
		nap((uint64_t)(random() % 1000) * NSEC_PER_USEC);
		kill(pid, SIGKILL);
		if (i % 10 == 0)
			ask_status(churn);
	}
	for (int i = 0; i < BATCH; i++) {
		int status;

		ASSERT_EQ(waitpid(pids[i], &status, 0), pids[i]);
		ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	daemon_expect_empty(&churn->ctl, NSEC_PER_SEC);
}

/* Objects that contexts of simulated NICs have in the simulator: the daemon's own alone, as long as no client is there. */
static void expect_objects(uint64_t n_objects[N_SIM_NICS], bool is_first)
{
	if (!getenv("MLX5SIM_ROOT"))
		return;
	for (unsigned int i = 0; i < N_SIM_NICS; i++) {
		sim_nic_wait_contexts(i, 1);
		if (is_first)
			n_objects[i] = sim_nic_objects(i);
		sim_nic_wait_objects(i, n_objects[i]);
	}
	if (!is_first)
		printf("# the simulator has %u and %u objects, as before\n", (unsigned int)n_objects[0],
		       (unsigned int)n_objects[1]);
}

TEST_TIMEOUT(a_thousand_clients_killed_at_random_points_leave_nothing, 120)
{
	const uint64_t slack = getenv("SHMEMD_TEST_BACKEND") ? RSS_SLACK_MLX5_BYTES : RSS_SLACK_BYTES;
	struct daemon_usage before, after;
	/* On a simulated NIC every client is a context of libmlx5: the long form has as many as elsewhere. */
	unsigned int n_batches =
		getenv("SHMEMD_TEST_BACKEND") && !test_is_full() ? N_BATCHES_SLOW : N_BATCHES;
	uint64_t n_objects[N_SIM_NICS] = {0};
	struct churn churn;

	churn_init(&churn);
	batch(&churn); /* NIC threads, arenas and stacks come with the first clients and stay */
	daemon_usage(churn.daemon.pid, &before);
	expect_objects(n_objects, true);
	for (unsigned int i = 0; i < n_batches; i++)
		batch(&churn);
	daemon_expect_usage(churn.daemon.pid, &before, &after);
	expect_objects(n_objects, false);
	printf("# %u of %u had traffic; daemon: %u fds, %u shared mappings, %.1f MB, peak %.1f MB; slowest reply %.1f ms\n",
	       *churn.n_traffic, (n_batches + 1) * BATCH, after.n_fds, after.n_shared, (double)after.rss_bytes / 1e6,
	       (double)after.peak_rss_bytes / 1e6, (double)churn.slowest_nsec / 1e6);
	if (!test_has_sanitizer())
		ASSERT_LT(after.rss_bytes, before.rss_bytes + slack);
	churn_deinit(&churn);
}

/* ---- many at once --------------------------------------------------------------------------------------------------- */

#define N_LIVE 512
#define N_LIVE_SLOW 32
#define LIVE_QPS 4u
#define LIVE_FDS 8u /* of this process for each session, and some */

/* On a simulated NIC every command waits for the traffic of all others: the long form has as many as elsewhere. */
static unsigned int how_many(void)
{
	return getenv("SHMEMD_TEST_BACKEND") && !test_is_full() ? N_LIVE_SLOW : N_LIVE;
}

/* One write of 64 bytes on each QP, verified. */
static void use_all_qps(struct raw_traffic *t, unsigned int salt)
{
	for (uint32_t i = 0; i < LIVE_QPS; i++) {
		t->qp = t->all_qps[i];
		t->pi = 0;
		memset(t->heap, (int)(salt + i + 1), 64);
		raw_traffic_write(t, 4096 * (i + 1), 0, 64);
		ASSERT_EQ(raw_traffic_poll(t), SHMD_CQE_REQ);
		ASSERT_MEMEQ(t->heap + 4096 * (i + 1), t->heap, 64);
	}
}

static void raise_limit(int what, rlim_t least)
{
	struct rlimit limit;

	ASSERT_OK(getrlimit(what, &limit));
	if (limit.rlim_cur < least && limit.rlim_cur != RLIM_INFINITY) {
		limit.rlim_cur = limit.rlim_max < least ? limit.rlim_max : least;
		ASSERT_OK(setrlimit(what, &limit));
	}
	if (limit.rlim_cur < least)
		test_skip("not enough descriptors for 512 sessions: ulimit -n");
}

TEST_TIMEOUT(five_hundred_and_twelve_sessions_work_at_once, 60)
{
	static struct raw_traffic t[N_LIVE];
	struct raw_traffic_attr attr = {.n_qps = LIVE_QPS};
	struct daemon_usage before, live, after;
	struct msg_status_rep status;
	unsigned int n = how_many();
	struct churn churn;

	raise_limit(RLIMIT_NOFILE, N_LIVE * LIVE_FDS);
	churn_init(&churn);
	for (int round = 0; round < 2; round++) {
		daemon_usage(churn.daemon.pid, &before); /* of the second round: with all NICs started */
		for (unsigned int i = 0; i < n; i++)
			raw_traffic_init_with(&t[i], churn.daemon.socket, &attr);
		for (unsigned int i = 0; i < n; i++)
			use_all_qps(&t[i], i);
		raw_status(&churn.ctl, &status);
		ASSERT_EQ(status.n_sessions, n);
		ASSERT_EQ(status.n_qps, n * LIVE_QPS);
		daemon_usage(churn.daemon.pid, &live);
		for (unsigned int i = 0; i < n; i++)
			raw_traffic_deinit(&t[i]);
		daemon_expect_empty(&churn.ctl, 5 * NSEC_PER_SEC);
	}
	daemon_expect_usage(churn.daemon.pid, &before, &after);
	printf("# %u sessions: %u fds, %u shared mappings, %.1f MB; afterwards %u, %u, %.1f MB\n", n, live.n_fds,
	       live.n_shared, (double)live.rss_bytes / 1e6, after.n_fds, after.n_shared,
	       (double)after.rss_bytes / 1e6);
	churn_deinit(&churn);
}

/* ---- ends that the client makes long ----------------------------------------------------------------------------- */

#define N_POSTERS 32
#define N_POSTER_QPS 64u
#define N_POSTER_QPS_SLOW 16u

/* On a simulated NIC most of the time goes into their making. */
static uint32_t poster_qps(void)
{
	return getenv("SHMEMD_TEST_BACKEND") && !test_is_full() ? N_POSTER_QPS_SLOW : N_POSTER_QPS;
}

/* One request for all: on a busy machine each of a thousand would wait for a CPU several times. */
static void connect_to(struct raw_traffic *t, const struct msg_qp_info *remote, uint32_t n)
{
	struct msg_peer peers[N_POSTER_QPS];
	struct msg req, rep;

	for (uint32_t i = 0; i < n; i++) {
		peers[i] = (struct msg_peer){.qpn = t->all_qps[i].qpn, .addr_bytes = remote->addr_bytes};
		memcpy(peers[i].addr, remote->addr, sizeof(peers[i].addr));
	}
	msg_init(&req, MSG_CONNECT_REQ, 0);
	req.connect_req = (struct msg_connect_req){.has_params = true, .n_peers = n, .peers = peers};
	req.connect_req.params = (struct msg_qp_params){.timeout = 31, .retry_count = 7, .max_rd_atomic = 1};
	raw_expect(&t->raw, &req, NULL, 0, MSG_CONNECT_REP, &rep);
	ASSERT_EQ(rep.connect_rep.status, SHMD_STATUS_OK);
}

/*
 * QPs with a full send queue that never moves: the peer does not answer, the first retry is due in hours, and the second read
 * waits for the first. With the default timeout these QPs would fail, and flush everything, while others are still being made.
 */
static void fill_queues(struct raw_traffic *t)
{
	struct raw_op op = {.opcode = SHMD_OPCODE_RDMA_READ, .lkey = t->lkey, .rkey = t->rkey,
			    .laddr = RAW_TRAFFIC_IOVA, .raddr = RAW_TRAFFIC_IOVA, .bytes = 8};

	connect_to(t, &t->all_qps[poster_qps() - 1], poster_qps() - 1);
	for (uint32_t i = 0; i < poster_qps() - 1; i++) {
		t->qp = t->all_qps[i];
		t->pi = 0;
		raw_traffic_post(t, &op);
		raw_traffic_post(t, &op);
	}
	raw_traffic_announce(t, 32767);
}

/* In a child: sessions with full queues, which end by a broken packet. */
static void __attribute__((noreturn)) end_with_full_queues(const char *socket, int ready, int end)
{
	static struct raw_traffic t[N_POSTERS];
	struct raw_traffic_attr attr = {
		.log2_sq_wqebbs = 15, .n_qps = poster_qps(), .unconnected = true};
	char c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < N_POSTERS; i++) {
		raw_traffic_init_with(&t[i], socket, &attr);
		fill_queues(&t[i]);
	}
	if (write(ready, "x", 1) != 1 || read(end, &c, 1) != 1)
		_exit(1);
	for (int i = 0; i < N_POSTERS; i++)
		ASSERT_EQ(send(t[i].raw.sock, "?", 1, MSG_NOSIGNAL), 1);
	for (;;)
		pause();
}

/* A client whose every wait used the whole quiesce-timeout of 100 ms would hold up the daemon for 3.2 s. */
TEST_TIMEOUT(sessions_that_end_with_full_queues_delay_no_client, 60)
{
	struct churn churn;
	int ready[2], end[2];
	uint64_t nsec;
	pid_t pid;
	char c;

	churn_init(&churn);
	ASSERT_OK(pipe(ready));
	ASSERT_OK(pipe(end));
	pid = fork();
	if (pid == 0)
		end_with_full_queues(churn.daemon.socket, ready[1], end[0]);
	ASSERT_EQ(read(ready[0], &c, 1), 1);
	ASSERT_EQ(write(end[1], "x", 1), 1);
	nsec = daemon_expect_empty(&churn.ctl, 2 * NSEC_PER_SEC);
	printf("# %d sessions gone after %.0f ms\n", N_POSTERS, (double)nsec / 1e6);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	for (int i = 0; i < 2; i++) {
		close(ready[i]);
		close(end[i]);
	}
	churn_deinit(&churn);
}
