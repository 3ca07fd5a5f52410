/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ledger keeps more than requests: states and settings, errors and flushes, armed CQs. It refuses some QPs, and traffic of all kinds
 * survives many deaths.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/engine/engine-private.h"
#include "fixture-ledger.h"
#include "kernels/host/wqe-dump.h"
#include "tests/lib/test.h"

#define SIZE 65536u
#define SECOND 1000000000ull

struct lab {
	struct lives l;
	struct tqp a, b;
	struct region *local, *remote;
	struct tqp_attr attr;
};

static void make(struct lab *t, enum mem_mode mode, const struct tqp_attr *attr)
{
	memset(t, 0, sizeof(*t));
	t->attr = *attr;
	lives_init(&t->l, mode, 256);
	t->local = region_new(&t->l.w, 0, SIZE);
	t->remote = region_new(&t->l.w, 1, SIZE);
	region_fill(t->local, 1);
	tqp_init(&t->a, &t->l.w, 0, attr);
	tqp_init(&t->b, &t->l.w, 1, attr);
	lives_add(&t->l, &t->a);
	lives_add(&t->l, &t->b);
}

static void init(struct lab *t, enum mem_mode mode)
{
	struct tqp_attr attr = TQP_ATTR;

	attr.log2_cq = 6;
	make(t, mode, &attr);
	tqp_connect(&t->a, &t->b, &attr);
	tqp_connect(&t->b, &t->a, &attr);
}

static void deinit(struct lab *t)
{
	t->l.left = 0;
	tqp_deinit(&t->a);
	tqp_deinit(&t->b);
	lives_deinit(&t->l);
}

/* Longer than a requester waits for a peer that is not back. */
static void run(struct lab *t)
{
	while (!lives_run(&t->l, 4 * SECOND))
		lives_restore(&t->l);
}

/* ---- states ---- */

static const struct engine_qp_modify to_init = {.state = ENGINE_QP_INIT,
						.set = ENGINE_QP_SET_ACCESS,
						.access = ENGINE_ACCESS_REMOTE_WRITE};

static struct engine_qp_modify to_rtr(const struct tqp *peer)
{
	return (struct engine_qp_modify){
		.state = ENGINE_QP_RTR,
		.set = ENGINE_QP_SET_PATH | ENGINE_QP_SET_RQ_PSN | ENGINE_QP_SET_RD_ATOMIC | ENGINE_QP_SET_RNR_TIMER,
		.dest_gid = {(uint8_t)peer->node->index},
		.dest_qpn = peer->qpn,
		.path_mtu_bytes = 4096,
		.rq_psn = 0xfffffe,
		.min_rnr_timer = 12,
		.max_dest_rd_atomic = 16,
	};
}

static const struct engine_qp_modify to_rts = {.state = ENGINE_QP_RTS,
					       .set = ENGINE_QP_SET_RETRY | ENGINE_QP_SET_SQ_PSN | ENGINE_QP_SET_RD_ATOMIC,
					       .sq_psn = 0xfffffe,
					       .timeout = 14,
					       .retry_count = 0,
					       .rnr_retry = 7,
					       .max_rd_atomic = 16};

/* As a client does that sends its request again when it got no answer. */
static void modify(struct lab *t, struct tqp *qp, const struct engine_qp_modify *mod)
{
	int r = lives_modify(&t->l, qp, mod);

	if (r == -ECONNRESET) {
		lives_restore(&t->l);
		r = lives_modify(&t->l, qp, mod);
	}
	ASSERT_OK(r);
	ASSERT_EQ(tqp_info(qp).state, mod->state);
}

static void connect_all(struct lab *t)
{
	struct tqp *qps[2] = {&t->a, &t->b};

	for (unsigned int i = 0; i < 2; i++) {
		struct engine_qp_modify rtr = to_rtr(qps[1 - i]);

		modify(t, qps[i], &to_init);
		modify(t, qps[i], &rtr);
		modify(t, qps[i], &to_rts);
	}
}

/* With no retries at all: a restore must not cost one. */
static void connect_and_write(struct lab *t)
{
	uint16_t index;

	connect_all(t);
	index = post_write(&t->a, SIGNALED, t->local, 0, t->remote, 0, 3000);
	tqp_ring(&t->a);
	run(t);
	expect_ok(&t->a, index);
	ASSERT_MEMEQ(t->remote->bytes, t->local->bytes, 3000);
}

TEST(each_transition_is_done_or_not)
{
	const struct tqp_attr attr = TQP_ATTR;
	bool died = true;

	for (unsigned int nth = 1; died; nth++) {
		struct lab t;

		make(&t, MEM_POINTER, &attr);
		t.l.at = nth % 2 ? ENGINE_STEP_MODIFY : ENGINE_STEP_MODIFIED;
		t.l.left = (nth + 1) / 2;
		connect_and_write(&t);
		died = !t.l.left;
		deinit(&t);
	}
}

TEST(a_reset_leaves_nothing_behind)
{
	const struct engine_qp_modify to_rst = {.state = ENGINE_QP_RST};

	for (unsigned int nth = 1; nth <= 4; nth++) {
		const struct tqp_attr attr = TQP_ATTR;
		struct lab t;

		make(&t, MEM_POINTER, &attr);
		connect_and_write(&t);
		t.l.at = nth % 2 ? ENGINE_STEP_MODIFY : ENGINE_STEP_MODIFIED;
		t.l.left = (nth + 1) / 2;
		modify(&t, &t.a, &to_rst);
		modify(&t, &t.b, &to_rst);
		ASSERT_EQ(t.l.left, 0);
		t.a.pi = t.b.pi = 0;
		t.a.dbrec->snd = t.b.dbrec->snd = 0;
		connect_and_write(&t);
		deinit(&t);
	}
}

TEST(the_last_modify_is_repeated_once)
{
	struct engine_qp_modify mod = {.state = ENGINE_QP_SQD};
	struct lab t;

	init(&t, MEM_POINTER);
	ASSERT_OK(lives_modify(&t.l, &t.a, &mod));
	lives_restore(&t.l);
	mod.state = ENGINE_QP_RTS;
	ASSERT_OK(lives_modify(&t.l, &t.a, &mod));
	lives_restore(&t.l);
	ASSERT_OK(lives_modify(&t.l, &t.b, &mod));
	/* It is RTS that was asked for last, and a modify of another kind was no repetition. */
	mod.set = ENGINE_QP_SET_SQ_PSN;
	ASSERT_ERR(lives_modify(&t.l, &t.a, &mod), EINVAL);
	deinit(&t);
}

/* ---- the send queue drained ---- */

/* In SQD, with a request that was fetched and has not completed, and another one that was not. */
static void drain_in_the_midst(struct lab *t, uint16_t *ret_first, uint16_t *ret_second)
{
	*ret_first = post_write(&t->a, SIGNALED, t->local, 0, t->remote, 0, 1000);
	tqp_ring(&t->a);
	t->l.at = ENGINE_STEP_SEND;
	t->l.left = 2;
	ASSERT(!lives_run(&t->l, 0));
	/* The jump left it in the midst of its turn: a new one is needed for the state to be noted. */
	lives_restore(&t->l);
	t->l.left = 2;
	ASSERT(!lives_run(&t->l, 0));
	lives_restore(&t->l);
	t->l.left = 0;
	ASSERT_GT(engine_progress(t->a.node->engine, 2), 0);
	ASSERT_OK(tqp_to(&t->a, ENGINE_QP_SQD));
	*ret_second = post_write(&t->a, SIGNALED, t->local, 2000, t->remote, 2000, 1000);
}

static void expect_drained(struct lab *t, unsigned int n)
{
	tcq_expect_none(&t->a.scq);
	ASSERT_EQ(world_count_events(t->a.node, ENGINE_EVENT_QP_SQ_DRAINED), n);
	ASSERT_EQ(tqp_info(&t->a).state, ENGINE_QP_SQD);
}

/* A restart may come before the one before has caught up, and settings may change meanwhile. */
static void drain_and_die(unsigned int n_restarts, bool is_modified)
{
	uint16_t first, second;
	struct lab t;

	init(&t, MEM_POINTER);
	drain_in_the_midst(&t, &first, &second);
	for (unsigned int i = 0; i < n_restarts; i++) {
		lives_restore(&t.l);
		/* The first one is what was asked for before. */
		for (unsigned int k = 0; k < 2 && is_modified; k++)
			ASSERT_OK(tqp_to(&t.a, ENGINE_QP_SQD));
	}
	run(&t);
	expect_ok(&t.a, first);
	expect_drained(&t, 1);
	ASSERT_OK(tqp_to(&t.a, ENGINE_QP_RTS));
	run(&t);
	expect_ok(&t.a, second);
	ASSERT_MEMEQ(t.remote->bytes, t.local->bytes, 1000);
	ASSERT_MEMEQ(t.remote->bytes + 2000, t.local->bytes + 2000, 1000);
	/* The backlog is caught up once. */
	ASSERT_OK(tqp_to(&t.a, ENGINE_QP_SQD));
	first = post_write(&t.a, SIGNALED, t.local, 4000, t.remote, 4000, 1000);
	tqp_ring(&t.a);
	run(&t);
	expect_drained(&t, 2);
	ASSERT_OK(tqp_to(&t.a, ENGINE_QP_RTS));
	run(&t);
	expect_ok(&t.a, first);
	deinit(&t);
}

TEST(wqes_fetched_in_sqd_are_finished_there)
{
	drain_and_die(1, false);
}

TEST(wqes_fetched_in_sqd_are_finished_there_after_many_restarts)
{
	drain_and_die(3, false);
}

TEST(wqes_fetched_in_sqd_are_finished_there_after_any_modify)
{
	drain_and_die(2, true);
}

/* ---- errors ---- */

#define N_FLUSHED 3u

/* The write that is refused is the second. A refusal or acknowledgement that was lost is a peer that does not answer. */
static void expect_failure(struct lab *t, const uint16_t *indexes, bool died)
{
	uint8_t error = (uint8_t)tqp_info(&t->a).first_error;
	unsigned int i = 0;
	struct shmd_cqe cqe;

	if (!died)
		ASSERT_EQ(error, SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	else if (error != SHMD_SYNDROME_REMOTE_ACCESS_ERR)
		ASSERT_EQ(error, SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	memcpy(&cqe, t->a.scq.ring, sizeof(cqe));
	if (error == SHMD_SYNDROME_REMOTE_ACCESS_ERR || cqe.op_own >> 4 == SHMD_CQE_REQ)
		expect_ok(&t->a, indexes[i++]);
	expect_error(&t->a.scq, false, indexes[i++], error);
	while (i < N_FLUSHED + 2)
		expect_error(&t->a.scq, false, indexes[i++], SHMD_SYNDROME_WR_FLUSH_ERR);
	tcq_expect_none(&t->a.scq);
}

/* One CQE each: the error, then those behind it; the peer's receives as well. */
static bool fail_once(enum engine_step step, unsigned int nth)
{
	uint16_t indexes[N_FLUSHED + 2];
	struct lab t;
	bool died;

	init(&t, MEM_POINTER);
	for (unsigned int i = 0; i < 2; i++)
		post_recv(&t.b, t.remote, 4096, 64);
	indexes[0] = post_write(&t.a, SIGNALED, t.local, 0, t.remote, 0, 64);
	indexes[1] = post_write(&t.a, 0, t.local, 0, t.remote, SIZE, 64);
	for (unsigned int i = 0; i < N_FLUSHED; i++)
		indexes[i + 2] = post_write(&t.a, SIGNALED, t.local, 0, t.remote, 1024, 64);
	t.l.at = step;
	t.l.left = nth;
	tqp_ring(&t.a);
	run(&t);
	died = !t.l.left;
	ASSERT_EQ(tqp_info(&t.a).state, ENGINE_QP_ERR);
	ASSERT_EQ(tqp_info(&t.b).state, ENGINE_QP_ERR);
	expect_failure(&t, indexes, died);
	for (unsigned int i = 0; i < 2; i++)
		expect_error(&t.b.rcq, true, (uint16_t)i, SHMD_SYNDROME_WR_FLUSH_ERR);
	tcq_expect_none(&t.b.rcq);
	deinit(&t);
	return died;
}

TEST(errors_and_flushes_appear_once)
{
	for (enum engine_step step = 0; step < ENGINE_N_STEPS; step++)
		for (unsigned int nth = 1; fail_once(step, nth); nth++) {
		}
}

/* A receive WQE that is too short: the error CQE of the receiver, and that of the sender. */
static bool too_long_once(enum engine_step step, unsigned int nth)
{
	struct lab t;
	bool died;

	init(&t, MEM_POINTER);
	post_recv(&t.b, t.remote, 0, 32);
	post_send(&t.a, SIGNALED, t.local, 0, 1000);
	t.l.at = step;
	t.l.left = nth;
	tqp_ring(&t.a);
	run(&t);
	died = !t.l.left;
	expect_error(&t.b.rcq, true, 0, SHMD_SYNDROME_LOCAL_LENGTH_ERR);
	tcq_expect_none(&t.b.rcq);
	ASSERT_EQ(tqp_info(&t.b).first_error, SHMD_SYNDROME_LOCAL_LENGTH_ERR);
	expect_error(&t.a.scq, false, 0, tqp_info(&t.a).first_error);
	tcq_expect_none(&t.a.scq);
	deinit(&t);
	return died;
}

TEST(an_error_of_the_receiver_appears_once)
{
	for (enum engine_step step = 0; step < ENGINE_N_STEPS; step++)
		for (unsigned int nth = 1; too_long_once(step, nth); nth++) {
		}
}

TEST(a_dead_cq_stays_dead)
{
	struct tqp_attr attr = TQP_ATTR;
	struct lab t;

	attr.log2_cq = 1;
	make(&t, MEM_POINTER, &attr);
	tqp_connect(&t.a, &t.b, &attr);
	tqp_connect(&t.b, &t.a, &attr);
	for (unsigned int i = 0; i < 4; i++)
		post_write(&t.a, SIGNALED, t.local, 0, t.remote, 0, 8);
	tqp_ring(&t.a);
	run(&t);
	ASSERT_EQ(world_count_events(t.a.node, ENGINE_EVENT_CQ_OVERRUN), 1);
	lives_restore(&t.l);
	run(&t);
	ASSERT_EQ(tqp_info(&t.a).state, ENGINE_QP_ERR);
	expect_ok(&t.a, 0);
	expect_ok(&t.a, 1);
	tcq_expect_none(&t.a.scq);
	deinit(&t);
}

/* A client that has not looked since sees that the CQ has no room. */
TEST(a_full_cq_is_full_afterwards)
{
	struct tqp_attr attr = TQP_ATTR;
	struct lab t;

	attr.log2_cq = 1;
	make(&t, MEM_POINTER, &attr);
	tqp_connect(&t.a, &t.b, &attr);
	tqp_connect(&t.b, &t.a, &attr);
	for (unsigned int i = 0; i < 2; i++)
		post_write(&t.a, SIGNALED, t.local, 0, t.remote, 0, 8);
	tqp_ring(&t.a);
	run(&t);
	lives_restore(&t.l);
	post_write(&t.a, SIGNALED, t.local, 0, t.remote, 0, 8);
	tqp_ring(&t.a);
	run(&t);
	ASSERT_EQ(world_count_events(t.a.node, ENGINE_EVENT_CQ_OVERRUN), 1);
	expect_ok(&t.a, 0);
	expect_ok(&t.a, 1);
	tcq_expect_none(&t.a.scq);
	deinit(&t);
}

/* ---- events ---- */

TEST(waiting_client_is_woken)
{
	struct lab t;

	init(&t, MEM_POINTER);
	t.a.scq.dbrec->snd = htobe32(0x10000000);
	post_write(&t.a, SIGNALED, t.local, 0, t.remote, 0, 8);
	tqp_ring(&t.a);
	t.l.at = ENGINE_STEP_NOTIFY;
	t.l.left = 1;
	ASSERT(!lives_run(&t.l, SECOND));
	ASSERT_EQ(world_count_events(t.a.node, ENGINE_EVENT_CQ_COMPLETION), 0);
	lives_restore(&t.l);
	run(&t);
	ASSERT_EQ(world_count_events(t.a.node, ENGINE_EVENT_CQ_COMPLETION), 1);
	expect_ok(&t.a, 0);
	deinit(&t);
}

/* ---- a QP that its owner has frozen ---- */

TEST(a_frozen_qp_sees_nothing_new)
{
	struct lab t;

	init(&t, MEM_POINTER);
	post_write(&t.a, SIGNALED, t.local, 0, t.remote, 0, 8);
	ASSERT_OK(tqp_to(&t.a, ENGINE_QP_ERR));
	ASSERT_OK(engine_qp_freeze(t.a.node->engine, t.a.qpn));
	post_write(&t.a, SIGNALED, t.local, 0, t.remote, 0, 8);
	lives_restore(&t.l);
	run(&t);
	expect_error(&t.a.scq, false, 0, SHMD_SYNDROME_WR_FLUSH_ERR);
	tcq_expect_none(&t.a.scq);
	deinit(&t);
}

/* ---- unreliable connections ---- */

/* Nothing arrives twice; each request completes. */
static bool uc_once(enum engine_step step, unsigned int nth)
{
	struct tqp_attr attr = TQP_ATTR;
	unsigned int n_received = 0;
	uint16_t indexes[4];
	struct shmd_cqe cqe;
	struct lab t;
	bool died;
	int32_t last = -1;

	attr.type = ENGINE_QP_UC;
	make(&t, MEM_POINTER, &attr);
	tqp_connect(&t.a, &t.b, &attr);
	tqp_connect(&t.b, &t.a, &attr);
	for (unsigned int i = 0; i < 4; i++)
		post_recv(&t.b, t.remote, i * 1024, 1024);
	for (unsigned int i = 0; i < 4; i++) {
		struct wqe wqe;

		wqe_begin(&wqe, SHMD_OPCODE_SEND_IMM, SIGNALED);
		wqe_imm(&wqe, htobe32(i));
		wqe_data(&wqe, t.local->iova, t.local->key, i % 2 ? 1000 : 64);
		indexes[i] = tqp_post(&t.a, &wqe);
	}
	tqp_ring(&t.a);
	t.l.at = step;
	t.l.left = nth;
	run(&t);
	died = !t.l.left;
	for (unsigned int i = 0; i < 4; i++)
		expect_ok(&t.a, indexes[i]);
	tcq_expect_none(&t.a.scq);
	while (tcq_poll(&t.b.rcq, &cqe)) {
		ASSERT_EQ(be16toh(cqe.wqe_counter), n_received);
		n_received++;
		ASSERT_GT((int32_t)cqe.imm_inval_pkey, last);
		last = (int32_t)cqe.imm_inval_pkey;
	}
	ASSERT_GE(n_received, died ? 0 : 4);
	deinit(&t);
	return died;
}

TEST(unreliable_messages_never_arrive_twice)
{
	for (enum engine_step step = 0; step < ENGINE_N_STEPS; step++)
		for (unsigned int nth = 1; uc_once(step, nth); nth++) {
		}
}

/* ---- what is refused ---- */

TEST(wrong_ledgers_are_refused)
{
	struct engine_ledger_limits limits = {1, 1, 0}, many = {1u << 17, 0, 0};
	size_t bytes = engine_ledger_bytes(&limits);
	struct engine_ledger *ledger = NULL;
	struct engine *engine;
	struct lab t;
	uint64_t *memory = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);

	ASSERT(memory);
	memset(memory, 0, bytes);
	init(&t, MEM_POINTER);
	engine = t.a.node->engine;
	ASSERT_ERR(engine_ledger_new(engine, memory, bytes - 1, &limits, &ledger), EINVAL);
	ASSERT_ERR(engine_ledger_new(engine, memory, bytes, &many, &ledger), EINVAL);
	ASSERT_ERR(engine_ledger_new(engine, memory, bytes, NULL, &ledger), EINVAL);
	ASSERT_OK(engine_ledger_new(engine, memory, bytes, &limits, &ledger));
	ASSERT_ERR(engine_cq_restore(engine, &(struct engine_cq_attr){.cqn = 1, .ring = memory, .dbrec = memory, .ledger = ledger}),
		   ENOENT);
	/* Its CQs are of another ledger. */
	t.a.attr.qpn = 0x999;
	t.a.attr.ledger = ledger;
	ASSERT_ERR(engine_qp_create(engine, &t.a.attr), EINVAL);
	ASSERT_ERR(engine_qp_restore(engine, &t.a.attr), ENOENT);
	t.a.attr.ledger = t.a.node->ledger;
	t.a.attr.type = ENGINE_QP_XRC_INI;
	t.a.attr.rq_ring = NULL;
	ASSERT_ERR(engine_qp_create(engine, &t.a.attr), EOPNOTSUPP);
	ASSERT_ERR(engine_cq_resize(engine, t.a.scq.cqn, t.local->bytes, 2), EOPNOTSUPP);
	ledger = engine_ledger_free(ledger);
	((uint32_t *)memory)[2]++;
	ASSERT_ERR(engine_ledger_new(engine, memory, bytes, NULL, &ledger), EPROTONOSUPPORT);
	memory[0]++;
	ASSERT_ERR(engine_ledger_new(engine, memory, bytes, NULL, &ledger), EBADMSG);
	t.a.attr.qpn = t.a.qpn;
	deinit(&t);
	free(memory);
}

/* Two contexts of one engine, of which one goes. */
TEST(only_its_own_objects_leave_a_ledger)
{
	const struct engine_ledger_limits limits = {4, 4, 0};
	size_t bytes = engine_ledger_bytes(&limits);
	void *memory = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095), *left = malloc(bytes);
	const struct tqp_attr attr = TQP_ATTR;
	struct engine_ledger *first, *second;
	struct engine_qp_counters was;
	struct tqp c, d;
	struct lab t;

	ASSERT(memory && left);
	memset(memory, 0, bytes);
	init(&t, MEM_POINTER);
	first = t.a.node->ledger;
	ASSERT_OK(engine_ledger_new(t.a.node->engine, memory, bytes, &limits, &second));
	t.a.node->ledger = second;
	tqp_init(&c, &t.l.w, 0, &attr);
	tqp_init(&d, &t.l.w, 1, &attr);
	t.a.node->ledger = first;
	tqp_connect(&c, &d, &attr);
	tqp_connect(&d, &c, &attr);
	memcpy(left, memory, bytes);
	engine_ledger_leave(second);
	second = engine_ledger_free(second);
	post_write(&c, SIGNALED, t.local, 0, t.remote, 0, 64);
	tqp_ring(&c);
	post_write(&t.a, SIGNALED, t.local, 0, t.remote, 64, 64);
	tqp_ring(&t.a);
	run(&t);
	expect_cqe(&c.scq, SHMD_CQE_REQ, 0, NULL);
	tqp_deinit(&c);
	tqp_deinit(&d);
	ASSERT_MEMEQ(memory, left, bytes);
	was = tqp_info(&t.a).counters;
	ASSERT_EQ(was.wqes, 1);
	/* And the other one is as before. */
	lives_restore(&t.l);
	ASSERT_EQ(tqp_info(&t.a).counters.wqes, was.wqes);
	expect_cqe(&t.a.scq, SHMD_CQE_REQ, 0, NULL);
	post_write(&t.a, SIGNALED, t.local, 0, t.remote, 64, 64);
	tqp_ring(&t.a);
	run(&t);
	expect_cqe(&t.a.scq, SHMD_CQE_REQ, 1, NULL);
	deinit(&t);
	free(memory);
	free(left);
}

/* ---- the way back ---- */

static bool lose_all(struct world *w, const struct engine_packet *pkt, uint64_t n)
{
	return true;
}

/* The side that is back first has no peer yet. Then no retry count and no time-out matters. */
TEST(a_peer_that_comes_back_later_is_found)
{
	struct tqp_attr attr = TQP_ATTR;
	struct lab t;

	attr.retry_count = 0;
	attr.timeout = 0;
	make(&t, MEM_POINTER, &attr);
	tqp_connect(&t.a, &t.b, &attr);
	tqp_connect(&t.b, &t.a, &attr);
	post_write(&t.a, SIGNALED, t.local, 0, t.remote, 0, 1000);
	tqp_ring(&t.a);
	t.l.at = ENGINE_STEP_SEND;
	t.l.left = 1;
	ASSERT(!lives_run(&t.l, SECOND));
	lives_restore(&t.l);
	t.l.w.lose = lose_all;
	ASSERT(lives_run(&t.l, SECOND / 2));
	tcq_expect_none(&t.a.scq);
	ASSERT_EQ(tqp_info(&t.a).state, ENGINE_QP_RTS);
	t.l.w.lose = NULL;
	run(&t);
	expect_ok(&t.a, 0);
	/* And later all is as it was asked for. */
	t.l.w.lose = lose_all;
	post_write(&t.a, SIGNALED, t.local, 0, t.remote, 0, 1000);
	tqp_ring(&t.a);
	run(&t);
	tcq_expect_none(&t.a.scq);
	deinit(&t);
}

TEST(a_peer_that_never_comes_back_is_given_up)
{
	struct lab t;

	init(&t, MEM_POINTER);
	post_write(&t.a, SIGNALED, t.local, 0, t.remote, 0, 1000);
	tqp_ring(&t.a);
	t.l.at = ENGINE_STEP_SEND;
	t.l.left = 1;
	ASSERT(!lives_run(&t.l, SECOND));
	lives_restore(&t.l);
	t.l.w.lose = lose_all;
	ASSERT(lives_run(&t.l, 10 * SECOND));
	expect_error(&t.a.scq, false, 0, SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	deinit(&t);
}

/* ---- clients that do what they should not ---- */

static void scribble(uint8_t *at, size_t bytes, uint64_t *seed)
{
	for (unsigned int i = 0; i < 8; i++)
		at[test_random(seed) % bytes] ^= (uint8_t)test_random(seed);
}

/* Whatever a client writes into its rings while no engine lives, it harms itself alone: another pair goes on. */
static void scribble_once(uint64_t seed)
{
	const struct tqp_attr attr = TQP_ATTR;
	struct tqp c, d;
	struct lab t;

	init(&t, MEM_POINTER);
	tqp_init(&c, &t.l.w, 0, &attr);
	tqp_init(&d, &t.l.w, 1, &attr);
	tqp_connect(&c, &d, &attr);
	tqp_connect(&d, &c, &attr);
	lives_add(&t.l, &c);
	lives_add(&t.l, &d);
	for (unsigned int i = 0; i < 4; i++) {
		post_recv(&t.b, t.remote, 2048 * i, 2048);
		post_send(&t.a, SIGNALED, t.local, 0, i % 2 ? 64 : 1000);
		post_read(&t.a, SIGNALED, t.local, 8192, t.remote, 8192, 1000);
		post_write(&c, SIGNALED, t.local, 0, t.remote, 32768, 1000);
	}
	tqp_ring(&t.a);
	tqp_ring(&c);
	t.l.at = ENGINE_N_STEPS;
	t.l.left = 1 + test_random(&seed) % 100;
	while (!lives_run(&t.l, SECOND)) {
		scribble(t.a.sq, 12 * 64, &seed);
		scribble(t.b.rq, 4 * 64, &seed);
		if (test_random(&seed) % 4 == 0)
			scribble((uint8_t *)t.a.dbrec, sizeof(*t.a.dbrec), &seed);
		if (test_random(&seed) % 4 == 0)
			scribble((uint8_t *)t.b.dbrec, sizeof(*t.b.dbrec), &seed);
		lives_restore(&t.l);
	}
	for (unsigned int i = 0; i < 4; i++)
		expect_cqe(&c.scq, SHMD_CQE_REQ, (uint16_t)i, NULL);
	tqp_deinit(&c);
	tqp_deinit(&d);
	deinit(&t);
}

TEST(clients_that_scribble_harm_themselves)
{
	for (uint64_t seed = 1; seed <= (test_is_full() ? 1000 : 60); seed++)
		scribble_once(seed);
}

/* ---- all kinds, and many deaths ---- */

#define N_ROUNDS 40u
#define BATCH 6u

struct storm {
	struct lab t;
	uint64_t seed;
	uint64_t n_adds, n_sends, n_received;
	uint32_t next_imm;
	uint16_t indexes[N_ROUNDS * BATCH];
	unsigned int n_posted, n_done;
};

static void storm_post(struct storm *s)
{
	struct lab *t = &s->t;
	uint32_t bytes = test_random(&s->seed) % 2 ? 1 + test_random(&s->seed) % 128 : 1 + test_random(&s->seed) % 2000;
	uint64_t at = test_random(&s->seed) % 8192;
	unsigned int kind = (unsigned int)(test_random(&s->seed) % 5);
	struct wqe wqe;

	/* An atomic over memory that answers late is cut off wherever the engine dies. */
	if (kind == 2 && t->l.w.mode == MEM_DELAY)
		kind = 3;
	switch (kind) {
	case 0:
		s->indexes[s->n_posted++] = post_write(&t->a, SIGNALED, t->local, at, t->remote, 16384 + at, bytes);
		return;
	case 1:
		s->indexes[s->n_posted++] = post_read(&t->a, SIGNALED, t->local, 32768 + at, t->remote, 32768 + at, bytes);
		return;
	case 2:
		s->n_adds++;
		s->indexes[s->n_posted++] = post_fadd(&t->a, SIGNALED, t->local, 65000 & ~7u, t->remote, 0, 1);
		return;
	default:
		post_recv(&t->b, t->remote, 4096 + 2048 * (s->n_sends % 4), 2048);
		wqe_begin(&wqe, SHMD_OPCODE_SEND_IMM, SIGNALED);
		wqe_imm(&wqe, htobe32((uint32_t)s->n_sends++));
		wqe_data(&wqe, t->local->iova + at, t->local->key, bytes);
		s->indexes[s->n_posted++] = tqp_post(&t->a, &wqe);
		return;
	}
}

static void storm_poll(struct storm *s)
{
	struct shmd_cqe cqe;

	while (tcq_poll(&s->t.a.scq, &cqe)) {
		ASSERT_EQ(cqe.op_own >> 4, SHMD_CQE_REQ);
		ASSERT_LT(s->n_done, s->n_posted);
		ASSERT_EQ(be16toh(cqe.wqe_counter), s->indexes[s->n_done]);
		s->n_done++;
	}
	while (tcq_poll(&s->t.b.rcq, &cqe)) {
		ASSERT_EQ(cqe.op_own >> 4, SHMD_CQE_RESP_SEND_IMM);
		ASSERT_EQ(cqe.imm_inval_pkey, s->n_received);
		s->n_received++;
	}
}

static void storm(enum mem_mode mode, uint64_t seed)
{
	struct storm s = {.seed = seed};
	unsigned int n_deaths = 0;
	uint64_t word;

	init(&s.t, mode);
	s.t.l.spare_atomics = true;
	s.t.l.at = ENGINE_N_STEPS;
	for (unsigned int round = 0; round < N_ROUNDS; round++) {
		for (unsigned int i = 0; i < BATCH; i++)
			storm_post(&s);
		tqp_ring(&s.t.a);
		s.t.l.left = 1 + test_random(&s.seed) % 60;
		while (!lives_run(&s.t.l, SECOND)) {
			n_deaths++;
			if (test_random(&s.seed) % 2)
				storm_poll(&s);
			lives_restore(&s.t.l);
			s.t.l.left = test_random(&s.seed) % 3 ? 1 + test_random(&s.seed) % 60 : 0;
		}
		storm_poll(&s);
		ASSERT_EQ(s.n_done, s.n_posted);
		ASSERT_EQ(s.n_received, s.n_sends);
	}
	memcpy(&word, s.t.remote->bytes, 8);
	ASSERT_EQ(word, s.n_adds);
	ASSERT_GT(n_deaths, N_ROUNDS / 2);
	deinit(&s.t);
}

TEST(a_storm_of_deaths)
{
	for (uint64_t seed = 1; seed <= (test_is_full() ? 40 : 4); seed++)
		storm(MEM_POINTER, seed);
}

TEST(a_storm_of_deaths_over_memory_without_addresses)
{
	for (uint64_t seed = 1; seed <= (test_is_full() ? 20 : 2); seed++) {
		storm(MEM_SYNC, seed);
		storm(MEM_MIXED, seed);
		storm(MEM_DELAY, seed);
	}
}
