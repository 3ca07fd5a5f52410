/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engines in a process that is killed with SIGKILL, at each step of the executor and at any moment. The parent is the client
 * and posts and polls meanwhile; each child goes on with the memory of its predecessor.
 */
#include <endian.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture-ledger.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"

#define SIZE 65536u
#define BATCH 10u
#define N_BATCHES 6u
#define IDLE_NSEC 1000000u /* of the engines' clock */

struct client {
	struct lives l;
	struct tqp a, b;
	struct region *local, *remote;
	uint64_t seed;
	pid_t child;
	unsigned int n_children;
	uint16_t indexes[BATCH * N_BATCHES];
	unsigned int n_posted, n_done, n_sends, n_received;
	uint64_t n_adds, n_adds_done;
	bool is_add[BATCH * N_BATCHES];
	bool is_unknown; /* an atomic was cut off ... */
	unsigned int n_flushed; /* ... and the receives went with it */
};

static void die(void)
{
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

static void init(struct client *c, uint64_t seed)
{
	struct tqp_attr attr = TQP_ATTR;

	memset(c, 0, sizeof(*c));
	c->seed = seed;
	attr.log2_cq = 6;
	lives_init(&c->l, MEM_POINTER, 256);
	c->local = region_new(&c->l.w, 0, SIZE);
	c->remote = region_new(&c->l.w, 1, SIZE);
	region_fill(c->local, 1);
	tqp_init(&c->a, &c->l.w, 0, &attr);
	tqp_init(&c->b, &c->l.w, 1, &attr);
	tqp_connect(&c->a, &c->b, &attr);
	tqp_connect(&c->b, &c->a, &attr);
	lives_add(&c->l, &c->a);
	lives_add(&c->l, &c->b);
	c->l.die = die;
}

static void deinit(struct client *c)
{
	kill(c->child, SIGKILL);
	ASSERT_EQ(waitpid(c->child, NULL, 0), c->child);
	c->l.die = NULL;
	tqp_deinit(&c->a);
	tqp_deinit(&c->b);
	lives_deinit(&c->l);
}

/* The engines: no doorbell rings, so they look. */
static void serve(struct client *c)
{
	lives_restore(&c->l);
	for (;;) {
		unsigned int news = 0;

		for (unsigned int i = 0; i < N_NODES; i++)
			news += engine_scan(c->l.w.nodes[i].engine);
		world_run(&c->l.w);
		c->l.w.now_nsec += IDLE_NSEC;
		if (!news)
			usleep(50);
	}
}

static void start(struct client *c)
{
	pid_t parent = getpid();

	c->n_children++;
	c->child = fork();
	ASSERT_GE(c->child, 0);
	if (c->child)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	serve(c);
}

static void post(struct client *c)
{
	uint32_t bytes = 1 + (uint32_t)(test_random(&c->seed) % (c->n_posted % 2 ? 100 : 2000));
	uint64_t at = test_random(&c->seed) % 4096;
	unsigned int i = c->n_posted;
	struct wqe wqe;

	switch (i % 5) {
	case 0:
		c->indexes[i] = post_write(&c->a, SIGNALED, c->local, at, c->remote, 16384 + at, bytes);
		break;
	case 1:
		c->indexes[i] = post_read(&c->a, SIGNALED, c->local, 32768 + at, c->remote, 32768 + at, bytes);
		break;
	case 2:
		c->is_add[i] = true;
		c->n_adds++;
		c->indexes[i] = post_fadd(&c->a, SIGNALED, c->local, 60000, c->remote, 0, 1);
		break;
	default:
		post_recv(&c->b, c->remote, 4096 + 2048 * (c->n_sends % 4), 2048);
		wqe_begin(&wqe, i % 5 == 3 ? SHMD_OPCODE_SEND_IMM : SHMD_OPCODE_RDMA_WRITE_IMM, SIGNALED);
		wqe_imm(&wqe, htobe32(c->n_sends++));
		if (i % 5 == 4)
			wqe_raddr(&wqe, c->remote->iova + 16384 + at, c->remote->key);
		wqe_data(&wqe, c->local->iova + at, c->local->key, bytes);
		c->indexes[i] = tqp_post(&c->a, &wqe);
		break;
	}
	c->n_posted++;
}

static void completed(struct client *c, const struct shmd_cqe *cqe)
{
	struct shmd_err_cqe err;

	ASSERT_LT(c->n_done, c->n_posted);
	ASSERT_EQ(be16toh(cqe->wqe_counter), c->indexes[c->n_done]);
	memcpy(&err, cqe, sizeof(err));
	if (cqe->op_own >> 4 == SHMD_CQE_REQ) {
		ASSERT(!c->is_unknown);
		c->n_adds_done += c->is_add[c->n_done];
	} else {
		ASSERT_EQ(err.syndrome, c->is_unknown ? SHMD_SYNDROME_WR_FLUSH_ERR : SHMD_SYNDROME_OUTCOME_UNKNOWN);
		ASSERT(c->is_unknown || c->is_add[c->n_done]);
		c->is_unknown = true;
	}
	c->n_done++;
}

static void poll(struct client *c)
{
	struct shmd_cqe cqe;

	while (tcq_poll(&c->a.scq, &cqe))
		completed(c, &cqe);
	while (tcq_poll(&c->b.rcq, &cqe)) {
		if (cqe.op_own >> 4 == SHMD_CQE_RESP_ERR) {
			c->n_flushed++;
			continue;
		}
		ASSERT_EQ(cqe.op_own >> 4,
			  c->n_received % 2 ? SHMD_CQE_RESP_WRITE_IMM : SHMD_CQE_RESP_SEND_IMM);
		ASSERT_EQ(cqe.imm_inval_pkey, c->n_received);
		c->n_received++;
	}
}

/* The next child when this one is dead. */
static void look_after(struct client *c)
{
	int status;

	if (waitpid(c->child, &status, WNOHANG) != c->child)
		return;
	ASSERT(WIFSIGNALED(status));
	ASSERT_EQ(WTERMSIG(status), SIGKILL);
	c->l.left = 0;
	start(c);
}

static void await(struct client *c)
{
	while (c->n_done < c->n_posted || (!c->is_unknown && c->n_received < c->n_sends)) {
		poll(c);
		look_after(c);
		sched_yield();
	}
}

static void check(const struct client *c)
{
	uint64_t word;

	memcpy(&word, c->remote->bytes, 8);
	ASSERT_GE(word, c->n_adds_done);
	ASSERT_LE(word, c->n_adds_done + c->is_unknown);
	if (c->is_unknown)
		return;
	ASSERT_EQ(c->n_adds_done, c->n_adds);
	ASSERT_EQ(c->n_flushed, 0);
}

static void post_batch(struct client *c)
{
	for (unsigned int i = 0; i < BATCH; i++)
		post(c);
}

/* No SRQ, DC, error or modify here: those steps have tests of their own. */
static bool is_passed_here(enum engine_step step)
{
	return step <= ENGINE_STEP_CQE_NOTED && step != ENGINE_STEP_TAKE_NOTED;
}

static void die_at(enum engine_step step, unsigned int nth)
{
	struct client c;

	init(&c, step + 1);
	c.l.at = step;
	c.l.left = nth;
	post_batch(&c);
	start(&c);
	await(&c);
	ASSERT_EQ(c.n_children, 2);
	ASSERT_EQ(c.is_unknown, step_cuts_atomic(step));
	check(&c);
	if (!c.is_unknown) {
		post_batch(&c);
		await(&c);
		check(&c);
	}
	deinit(&c);
}

TEST_TIMEOUT(killed_at_each_step, 120)
{
	for (enum engine_step step = 0; step < ENGINE_N_STEPS; step++) {
		if (!is_passed_here(step))
			continue;
		die_at(step, 1);
		die_at(step, 2);
	}
}

/* A child is killed when the client has seen so and so many completions, or has looked so and so often. */
static void kill_at_random(struct client *c)
{
	unsigned int looks = (unsigned int)(test_random(&c->seed) % 2000);

	while (looks-- > 0 && c->n_done < c->n_posted)
		poll(c);
	kill(c->child, SIGKILL);
}

static void storm(uint64_t seed)
{
	struct client c;

	init(&c, seed);
	start(&c);
	for (unsigned int i = 0; i < N_BATCHES && !c.is_unknown; i++) {
		post_batch(&c);
		kill_at_random(&c);
		look_after(&c);
		kill_at_random(&c);
		await(&c);
		check(&c);
	}
	ASSERT_GT(c.n_children, 1);
	deinit(&c);
}

TEST_TIMEOUT(killed_at_any_moment, 120)
{
	for (uint64_t seed = 1; seed <= (test_is_full() ? 100 : 3); seed++)
		storm(seed);
}
