/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/health-lab.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <shmemclient-admin.h>

#include "proto/base/nsec.h"
#include "tests/lib/test.h"

#define WORDS_OFFSET 4096u /* words that stay unwritten, one for each wait */
#define PEER_RQ_WQES 4u

/* Thread: shared by all, collapsed CQ. Warp: shared by a block, ordinary CQ. Block: exclusive. */
static const struct {
	enum shmd_dev_scope scope;
	enum shmd_sharing sharing;
	enum shmd_cq_mode cq_mode;
} kinds[HEALTH_N_SIDES] = {
	{SHMD_DEV_THREAD, SHMD_SHARING_GPU, SHMD_CQ_MODE_COLLAPSED},
	{SHMD_DEV_WARP, SHMD_SHARING_BLOCK, SHMD_CQ_MODE_ORDINARY},
	{SHMD_DEV_BLOCK, SHMD_SHARING_EXCLUSIVE, SHMD_CQ_MODE_COLLAPSED},
};

/* Each process's data on its side, for the other one. */
struct intro {
	uint64_t iova;
	shmd_be32 rkey_be;
	struct shmd_addr addrs[HEALTH_MAX_QPS];
};

static void must_write(int fd, const void *data, size_t bytes)
{
	for (size_t at = 0; at < bytes;) {
		ssize_t n = write(fd, (const uint8_t *)data + at, bytes - at);

		ASSERT_GT(n, 0);
		at += (size_t)n;
	}
}

static void must_read(int fd, void *data, size_t bytes)
{
	for (size_t at = 0; at < bytes;) {
		ssize_t n = read(fd, (uint8_t *)data + at, bytes - at);

		ASSERT_GT(n, 0);
		at += (size_t)n;
	}
}

/* ---- both processes ---------------------------------------------------------------------------------------------- */

static void open_sides(struct health_lab *lab, unsigned int rq_wqes)
{
	for (unsigned int s = 0; s < HEALTH_N_SIDES; s++) {
		const struct shmd_queues_attr attr = {
			.n_qps = lab->n_qps,
			.sq_wqebbs = HEALTH_SQ_WQEBBS,
			.rq_wqes = rq_wqes,
			.sharing = kinds[s].sharing,
			.cq_mode = kinds[s].cq_mode,
		};

		lab_side_open(&lab->sides[s], &lab->daemon, &attr);
	}
}

static void introduce(struct health_lab *lab, int fd)
{
	for (unsigned int s = 0; s < HEALTH_N_SIDES; s++) {
		const struct lab_side *side = &lab->sides[s];
		struct intro intro = {.iova = (uintptr_t)lab_byte(side, 0), .rkey_be = shmd_mr_rkey_be(side->mr)};

		for (unsigned int i = 0; i < lab->n_qps; i++)
			ASSERT_OK(shmd_queues_addr(side->queues, i, &intro.addrs[i]));
		must_write(fd, &intro, sizeof(intro));
	}
}

static void connect_sides(struct health_lab *lab, int fd, const struct shmd_qp_params *params,
			  struct intro intros[HEALTH_N_SIDES])
{
	for (unsigned int s = 0; s < HEALTH_N_SIDES; s++) {
		must_read(fd, &intros[s], sizeof(intros[s]));
		ASSERT_OK(shmd_queues_connect(lab->sides[s].queues, 0, lab->n_qps, intros[s].addrs, params, NULL));
	}
}

/* ---- the peer ------------------------------------------------------------------------------------------------------- */

static void peer_receive(struct health_lab *lab, uint64_t bytes)
{
	for (unsigned int s = 0; s < HEALTH_N_SIDES; s++)
		for (unsigned int i = 0; i < lab->n_qps; i++)
			ASSERT_EQ(shmd_dev_qp_post_recv(shmd_queues_dev_qp(lab->sides[s].queues, i),
							lab_local(&lab->sides[s], 0), bytes),
				  SHMD_DEV_OK);
}

static void peer_write_badly(struct health_lab *lab, const struct intro intros[HEALTH_N_SIDES])
{
	const shmd_be32 no_key = (shmd_be32)0x01010101u;

	for (unsigned int s = 0; s < HEALTH_N_SIDES; s++)
		for (unsigned int i = 0; i < lab->n_qps; i++)
			ASSERT_EQ(shmd_dev_qp_p(shmd_queues_dev_qp(lab->sides[s].queues, i),
						shmd_dev_addr_of(intros[s].iova, no_key), 1, 8),
				  SHMD_DEV_OK);
}

/* 2.6 ms between two tries of a SEND that found no receive. */
static void __attribute__((noreturn)) peer_main(struct health_lab *lab, int in, int out)
{
	const struct shmd_qp_params params = {
		.timeout = 14, .retry_count = 7, .rnr_retry = 7, .min_rnr_timer = 16, .max_rd_atomic = 16};
	static struct intro intros[HEALTH_N_SIDES];
	char command;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_sides(lab, PEER_RQ_WQES);
	introduce(lab, out);
	connect_sides(lab, in, &params, intros);
	must_write(out, "c", 1);
	for (;;) {
		if (read(in, &command, 1) != 1)
			_exit(0); /* the test has failed */
		if (command == 'b')
			peer_write_badly(lab, intros);
		else
			peer_receive(lab, command == 'r' ? 64 : 0);
		must_write(out, "d", 1);
	}
}

static void start_peer(struct health_lab *lab)
{
	int to[2], from[2];

	ASSERT_OK(pipe(to));
	ASSERT_OK(pipe(from));
	lab->peer = fork();
	ASSERT_GE(lab->peer, 0);
	if (lab->peer == 0) {
		close(to[1]);
		close(from[0]);
		peer_main(lab, to[0], from[1]);
	}
	close(to[0]);
	close(from[1]);
	lab->to_peer = to[1];
	lab->from_peer = from[0];
}

static void ask_peer(struct health_lab *lab, char command)
{
	char done;

	must_write(lab->to_peer, &command, 1);
	must_read(lab->from_peer, &done, 1);
}

void health_peer_receive(struct health_lab *lab, bool fits)
{
	ask_peer(lab, fits ? 'r' : 'z');
}

void health_peer_write_badly(struct health_lab *lab)
{
	ask_peer(lab, 'b');
}

void health_peer_kill(struct health_lab *lab)
{
	if (!lab->peer)
		return;
	kill(lab->peer, SIGKILL);
	ASSERT_EQ(waitpid(lab->peer, NULL, 0), lab->peer);
	lab->peer = 0;
	close(lab->to_peer);
	close(lab->from_peer);
}

/* ---- this process ------------------------------------------------------------------------------------------------------ */

/* The calls that side s makes, QP by QP. */
static void make_calls(struct health_lab *lab, unsigned int s, const struct intro *intro)
{
	struct lab_side *side = &lab->sides[s];

	for (unsigned int i = 0; i < lab->n_qps; i++) {
		const struct health_wait *wait = &health_waits[i];
		struct health_call *call = &lab->calls[lab->n_calls];

		if ((wait->plain_only && kinds[s].scope != SHMD_DEV_THREAD) ||
		    (wait->shared_only && kinds[s].sharing == SHMD_SHARING_EXCLUSIVE))
			continue;
		*call = (struct health_call){
			.wait = wait,
			.side = side,
			.qp = shmd_queues_dev_qp(side->queues, i),
			.remote = shmd_dev_addr_of(intro->iova + 64 * i, intro->rkey_be),
			.local = lab_local(side, 64 * i),
			.word = (uint64_t *)(void *)lab_byte(side, WORDS_OFFSET + 64 * i),
			.mode = shmd_dev_mode_const(kinds[s].scope, kinds[s].sharing),
		};
		lab->n_calls++;
	}
}

static int kill_own(void *arg, const struct shmd_session_item *item)
{
	const struct health_lab *lab = arg;

	return item->pid == (uint32_t)getpid() ? shmd_admin_kill(lab->control, item->session) : 0;
}

void health_sessions_kill(struct health_lab *lab)
{
	ASSERT_OK(shmd_admin_sessions(lab->control, kill_own, lab));
}

void health_port_set(struct health_lab *lab, bool up)
{
	ASSERT_OK(shmd_admin_port_set(lab->control, "soft0", up));
}

static void start_daemon(struct health_lab *lab, const char *grace)
{
	if (!grace) {
		fixture_daemon_start(&lab->daemon, "--soft-nics=1", NULL);
		return;
	}
	fixture_keeper_start(&lab->keeper, "--soft-nics=1", grace, NULL);
	lab->daemon = lab->keeper.daemon;
}

void health_lab_open(struct health_lab *lab, const struct shmd_qp_params *params, const char *grace)
{
	static struct intro intros[HEALTH_N_SIDES];
	char connected;

	memset(lab, 0, sizeof(*lab));
	lab->n_qps = n_health_waits;
	ASSERT_LE(lab->n_qps, HEALTH_MAX_QPS);
	start_daemon(lab, grace);
	start_peer(lab);
	lab->control = lab_control(&lab->daemon);
	open_sides(lab, 0);
	introduce(lab, lab->to_peer);
	connect_sides(lab, lab->from_peer, params, intros);
	must_read(lab->from_peer, &connected, 1);
	for (unsigned int s = 0; s < HEALTH_N_SIDES; s++)
		make_calls(lab, s, &intros[s]);
}

void health_lab_close(struct health_lab *lab)
{
	health_peer_kill(lab);
	for (unsigned int s = 0; s < HEALTH_N_SIDES; s++)
		shmd_client_close(lab->sides[s].client);
	shmd_client_close(lab->control);
	if (lab->keeper.pid)
		fixture_keeper_stop(&lab->keeper);
	else if (lab->daemon.pid)
		fixture_daemon_stop(&lab->daemon);
}

/* Until the ring is full, or not at all. */
static void fill_ring(struct health_call *call)
{
	ASSERT_EQ(shmd_dev_qp_send(call->qp, call->local, 8), SHMD_DEV_OK);
	if (call->wait->start == HEALTH_FULL)
		while (call->qp->sq_rsvd_index < HEALTH_SQ_WQEBBS)
			ASSERT_EQ(shmd_dev_qp_p(call->qp, call->remote, 1, 8), SHMD_DEV_OK);
}

/* The lock of the doorbell, or the slot of the first request: taken by a caller that never drops it. */
static void hold(struct health_call *call, uint32_t held)
{
	uint32_t *slot = (uint32_t *)(uintptr_t)call->qp->slot_busy_addr;

	if (call->wait->start == HEALTH_LOCK)
		__atomic_store_n(&call->qp->sq_lock, held, __ATOMIC_RELEASE);
	else if (call->wait->start == HEALTH_SLOT)
		__atomic_store_n(slot, held, __ATOMIC_RELEASE);
}

static void prepare(struct health_call *call, uint64_t limit)
{
	uint64_t index;

	call->mode.timeout_nsec = limit;
	call->qp->post_timeout_nsec = limit;
	switch (call->wait->start) {
	case HEALTH_IN_FLIGHT:
	case HEALTH_FULL:
		fill_ring(call);
		break;
	case HEALTH_TURN:
		ASSERT_EQ(shmd_dev_qp_reserve(call->qp, 1, &index), SHMD_DEV_OK);
		break;
	default:
		hold(call, 1);
		break;
	}
}

static void *call_main(void *arg)
{
	struct health_call *call = arg;
	uint64_t begin = nsec_now();

	call->status = call->wait->run(call);
	call->nsec = nsec_now() - begin;
	return NULL;
}

void health_lab_begin(struct health_lab *lab, const uint64_t limit[HEALTH_N_STARTS])
{
	const struct timespec pause = {.tv_nsec = 50000000};

	for (unsigned int i = 0; i < lab->n_calls; i++)
		prepare(&lab->calls[i], limit[lab->calls[i].wait->start]);
	for (unsigned int i = 0; i < lab->n_calls; i++)
		ASSERT_OK(pthread_create(&lab->calls[i].thread, NULL, call_main, &lab->calls[i]));
	/* They wait by now; one that does not yet finds the cause when it comes. */
	nanosleep(&pause, NULL);
}

void health_lab_join(struct health_lab *lab)
{
	for (unsigned int i = 0; i < lab->n_calls; i++)
		ASSERT_OK(pthread_join(lab->calls[i].thread, NULL));
}

void health_lab_release(struct health_lab *lab)
{
	for (unsigned int i = 0; i < lab->n_calls; i++)
		hold(&lab->calls[i], 0);
}
