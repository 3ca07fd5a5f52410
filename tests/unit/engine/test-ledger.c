/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engines that die at each step of the executor, and go on: each request takes effect as often as it must, CQEs appear once
 * and in order, and unknown outcomes are reported.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fixture-ledger.h"
#include "tests/lib/test.h"

#define SIZE 65536u
#define N_MESSAGES 3u
#define SMALL 64u
#define LONG 1000u /* of 256 bytes in each packet */
#define SECOND 1000000000ull

enum kind {
	KIND_WRITE,
	KIND_WRITE_IMM,
	KIND_READ,
	KIND_SEND,
	KIND_SEND_IMM,
	KIND_FADD,
	KIND_CSWAP,
	KIND_NOP,
	N_KINDS,
};

struct lab {
	struct lives l;
	struct tqp a, b;
	struct region *local, *remote;
	struct tsrq srq;
	enum kind kind;
	uint32_t bytes;
	bool has_srq, is_collapsed;
	uint16_t indexes[2 * N_MESSAGES];
	unsigned int n_posted, n_done, n_received;
	unsigned int n_unknown, n_flushed;
	uint32_t last_counter; /* collapsed CQ: last one seen */
};

static void init_lab(struct lab *t, enum kind kind, uint32_t bytes, bool is_collapsed, bool has_srq)
{
	struct tqp_attr attr = TQP_ATTR;

	memset(t, 0, sizeof(*t));
	t->kind = kind;
	t->bytes = bytes;
	t->is_collapsed = is_collapsed;
	t->has_srq = has_srq;
	attr.log2_sq = 6;
	attr.log2_rq = 4;
	attr.log2_cq = 2;
	attr.cq_flags = is_collapsed ? ENGINE_CQ_COLLAPSED | ENGINE_CQ_OVERRUN_IGNORE : 0;
	lives_init(&t->l, MEM_POINTER, 256);
	t->local = region_new(&t->l.w, 0, SIZE);
	t->remote = region_new(&t->l.w, 1, SIZE);
	region_fill(t->local, 1);
	tqp_init(&t->a, &t->l.w, 0, &attr);
	if (has_srq) {
		tsrq_init(&t->srq, &t->l.w, 1, 1, 4);
		t->l.srqs[1] = &t->srq;
		attr.srq = &t->srq;
	}
	attr.cq_flags = 0;
	tqp_init(&t->b, &t->l.w, 1, &attr);
	tqp_connect(&t->a, &t->b, &attr);
	tqp_connect(&t->b, &t->a, &attr);
	lives_add(&t->l, &t->a);
	lives_add(&t->l, &t->b);
}

static void deinit_lab(struct lab *t)
{
	t->l.left = 0;
	tqp_deinit(&t->a);
	tqp_deinit(&t->b);
	if (t->has_srq)
		tsrq_deinit(&t->srq);
	lives_deinit(&t->l);
}

static bool kind_receives(enum kind kind)
{
	return kind == KIND_WRITE_IMM || kind == KIND_SEND || kind == KIND_SEND_IMM;
}

static bool kind_is_atomic(enum kind kind)
{
	return kind == KIND_FADD || kind == KIND_CSWAP;
}

static uint64_t slot_of(const struct lab *t, unsigned int i)
{
	return kind_is_atomic(t->kind) ? 8 * i : (uint64_t)i * 2048;
}

static void post_receive(struct lab *t, unsigned int i)
{
	if (!kind_receives(t->kind))
		return;
	if (t->has_srq)
		tsrq_post(&t->srq, t->remote, slot_of(t, i), t->bytes);
	else
		post_recv(&t->b, t->remote, slot_of(t, i), t->bytes);
}

static void add_words(struct lab *t, struct wqe *wqe, unsigned int i)
{
	/* A compare-swap that succeeds only when all before it have taken effect once. */
	uint64_t fadd[2] = {1, 0}, cswap[2] = {i + 1, i};

	wqe_words64(wqe, t->kind == KIND_FADD ? fadd : cswap, 2);
}

static void post(struct lab *t)
{
	static const uint8_t opcodes[N_KINDS] = {SHMD_OPCODE_RDMA_WRITE, SHMD_OPCODE_RDMA_WRITE_IMM, SHMD_OPCODE_RDMA_READ,
						 SHMD_OPCODE_SEND, SHMD_OPCODE_SEND_IMM, SHMD_OPCODE_ATOMIC_FA,
						 SHMD_OPCODE_ATOMIC_CS, SHMD_OPCODE_NOP};
	unsigned int i = t->n_posted;
	struct wqe wqe;

	post_receive(t, i);
	wqe_begin(&wqe, opcodes[t->kind], SIGNALED);
	wqe_imm(&wqe, htobe32(0x100 + i));
	if (t->kind <= KIND_READ)
		wqe_raddr(&wqe, t->remote->iova + slot_of(t, i), t->remote->key);
	if (kind_is_atomic(t->kind)) {
		wqe_raddr(&wqe, t->remote->iova, t->remote->key);
		add_words(t, &wqe, i);
		wqe_data(&wqe, t->local->iova + slot_of(t, i), t->local->key, 8);
	} else if (t->kind != KIND_NOP) {
		wqe_data(&wqe, t->local->iova + slot_of(t, i), t->local->key, t->bytes);
	}
	t->indexes[t->n_posted++] = tqp_post(&t->a, &wqe);
}

/* One CQE of the sender, in order. */
static void sent(struct lab *t, const struct shmd_cqe *cqe)
{
	struct shmd_err_cqe err;

	ASSERT_LT(t->n_done, t->n_posted);
	ASSERT_EQ(be16toh(cqe->wqe_counter), t->indexes[t->n_done]);
	t->n_done++;
	memcpy(&err, cqe, sizeof(err));
	if (cqe->op_own >> 4 == SHMD_CQE_REQ) {
		ASSERT_EQ(t->n_unknown, 0);
		return;
	}
	ASSERT_EQ(cqe->op_own >> 4, SHMD_CQE_REQ_ERR);
	ASSERT_EQ(err.syndrome, t->n_unknown ? SHMD_SYNDROME_WR_FLUSH_ERR : SHMD_SYNDROME_OUTCOME_UNKNOWN);
	if (t->n_unknown)
		t->n_flushed++;
	else
		t->n_unknown = 1;
}

/* A collapsed CQ shows the last one only: those before it completed as well. */
static void look_at_collapsed(struct lab *t)
{
	struct shmd_cqe cqe;

	memcpy(&cqe, t->a.scq.ring, sizeof(cqe));
	if (cqe.op_own >> 4 == SHMD_CQE_INVALID)
		return;
	while (t->n_done < t->n_posted && (int16_t)(be16toh(cqe.wqe_counter) - t->indexes[t->n_done]) > 0)
		t->n_done++;
	if (t->n_done < t->n_posted && be16toh(cqe.wqe_counter) == t->indexes[t->n_done])
		sent(t, &cqe);
	/* No flush CQE covers the error CQE. */
	if (t->n_unknown) {
		t->n_flushed += t->n_posted - t->n_done;
		t->n_done = t->n_posted;
	}
}

static void received(struct lab *t, const struct shmd_cqe *cqe)
{
	unsigned int i = t->n_received++;
	uint8_t opcode = cqe->op_own >> 4;

	ASSERT_LT(i, t->n_posted);
	ASSERT_EQ(be16toh(cqe->wqe_counter), i);
	ASSERT_EQ(be32toh(cqe->byte_cnt), t->bytes);
	ASSERT_EQ(opcode, t->kind == KIND_SEND ? SHMD_CQE_RESP_SEND
			  : t->kind == KIND_WRITE_IMM ? SHMD_CQE_RESP_WRITE_IMM : SHMD_CQE_RESP_SEND_IMM);
	if (t->kind != KIND_SEND)
		ASSERT_EQ(cqe->imm_inval_pkey, 0x100 + i);
	/* It is there when the CQE is. */
	if (t->kind != KIND_READ)
		ASSERT_MEMEQ(t->remote->bytes + slot_of(t, i), t->local->bytes + slot_of(t, i), t->bytes);
}

/* The client looks, whatever lives. */
static void poll(struct lab *t)
{
	struct shmd_cqe cqe;

	if (t->is_collapsed)
		look_at_collapsed(t);
	else
		while (tcq_poll(&t->a.scq, &cqe))
			sent(t, &cqe);
	while (tcq_poll(&t->b.rcq, &cqe))
		received(t, &cqe);
}

static void check_words(const struct lab *t)
{
	uint64_t word, result;
	unsigned int n_ok = t->n_done - t->n_unknown - t->n_flushed;

	memcpy(&word, t->remote->bytes, 8);
	if (t->n_unknown) {
		ASSERT_GE(word, n_ok);
		ASSERT_LE(word, n_ok + 1);
	} else {
		ASSERT_EQ(word, n_ok);
	}
	for (unsigned int i = 0; i < n_ok; i++) {
		memcpy(&result, t->local->bytes + 8 * i, 8);
		ASSERT_EQ(result, i);
	}
}

static void check(const struct lab *t)
{
	ASSERT_EQ(t->n_done, t->n_posted);
	ASSERT_EQ(t->n_received, kind_receives(t->kind) ? t->n_posted : 0);
	if (kind_is_atomic(t->kind))
		check_words(t);
	else if (t->kind != KIND_NOP)
		for (unsigned int i = 0; i < t->n_posted; i++)
			ASSERT_MEMEQ(t->remote->bytes + slot_of(t, i), t->local->bytes + slot_of(t, i), t->bytes);
}

static void post_all(struct lab *t)
{
	for (unsigned int i = 0; i < N_MESSAGES; i++)
		post(t);
	tqp_ring(&t->a);
}

static void run_to_the_end(struct lab *t)
{
	while (!lives_run(&t->l, SECOND)) {
		poll(t);
		lives_restore(&t->l);
	}
	poll(t);
}

/* The same at the nth passing of a step. False: it is not passed so often. */
static bool die_once(struct lab *t, enum engine_step step, unsigned int nth)
{
	bool died;

	if (t->kind == KIND_READ)
		region_fill(t->remote, 7);
	if (kind_is_atomic(t->kind))
		memset(t->local->bytes, 0xee, 8 * N_MESSAGES);
	t->l.at = step;
	t->l.left = nth;
	post_all(t);
	run_to_the_end(t);
	died = !t->l.left;
	check(t);
	ASSERT_EQ(t->n_unknown, died && step_cuts_atomic(step));
	if (!t->n_unknown) {
		/* And it goes on. */
		t->l.left = 0;
		post_all(t);
		run_to_the_end(t);
		check(t);
		/* A completion that the crash cut off is counted again. */
		ASSERT_GE(tqp_info(&t->a).counters.wqes, 2 * N_MESSAGES);
		ASSERT_LE(tqp_info(&t->a).counters.wqes, 2 * N_MESSAGES + died);
	}
	return died;
}

static void each_step(enum kind kind, uint32_t bytes, bool is_collapsed, bool has_srq)
{
	for (enum engine_step step = 0; step < ENGINE_N_STEPS; step++) {
		bool died = true;

		for (unsigned int nth = 1; died; nth++) {
			struct lab t;

			init_lab(&t, kind, bytes, is_collapsed, has_srq);
			died = die_once(&t, step, nth);
			deinit_lab(&t);
		}
	}
}

/* Cut off at its nth passing of this step, and any other death after that. False: there are not so many passings. */
static bool die_twice(enum kind kind, enum engine_step step, unsigned int nth, unsigned int again)
{
	struct lab t;
	bool died;

	init_lab(&t, kind, SMALL, false, false);
	memset(t.local->bytes, 0xee, 8 * N_MESSAGES);
	t.l.at = step;
	t.l.left = nth;
	post_all(&t);
	ASSERT(!lives_run(&t.l, SECOND));
	poll(&t);
	lives_restore(&t.l);
	t.l.at = ENGINE_N_STEPS;
	t.l.left = again;
	run_to_the_end(&t);
	died = !t.l.left;
	check(&t);
	ASSERT_EQ(t.n_unknown, 1);
	deinit_lab(&t);
	return died;
}

static void die_twice_each(enum kind kind, enum engine_step step)
{
	for (unsigned int nth = 1; nth <= N_MESSAGES; nth++)
		for (unsigned int again = 1; die_twice(kind, step, nth, again); again++)
			;
}

/* The refusal of the second life may be lost with it. */
TEST(atomic_that_was_cut_off_is_refused_whatever_dies_then)
{
	for (enum engine_step step = 0; step < ENGINE_N_STEPS; step++) {
		if (!step_cuts_atomic(step))
			continue;
		die_twice_each(KIND_FADD, step);
		die_twice_each(KIND_CSWAP, step);
	}
}

/* An earlier request on this QP is answered, however often it comes. */
static bool die_twice_behind_others(unsigned int again)
{
	struct lab t;
	bool died;

	init_lab(&t, KIND_READ, LONG, false, false);
	region_fill(t.remote, 7);
	post(&t);
	t.kind = KIND_WRITE;
	post(&t);
	t.kind = KIND_FADD;
	post(&t);
	t.l.at = ENGINE_STEP_INTENT;
	t.l.left = 1;
	tqp_ring(&t.a);
	ASSERT(!lives_run(&t.l, SECOND));
	lives_restore(&t.l);
	t.l.at = ENGINE_N_STEPS;
	t.l.left = again;
	run_to_the_end(&t);
	died = !t.l.left;
	ASSERT_EQ(t.n_done, 3);
	ASSERT_EQ(t.n_unknown, 1);
	ASSERT_EQ(t.n_flushed, 0);
	ASSERT_MEMEQ(t.local->bytes, t.remote->bytes, LONG);
	ASSERT_MEMEQ(t.remote->bytes + 2048, t.local->bytes + 2048, LONG);
	deinit_lab(&t);
	return died;
}

TEST(requests_before_an_atomic_that_was_cut_off_are_answered_again)
{
	for (unsigned int again = 1; die_twice_behind_others(again); again++)
		;
}

static void each_size(enum kind kind)
{
	for (unsigned int collapsed = 0; collapsed < 2; collapsed++) {
		each_step(kind, SMALL, collapsed, false);
		if (!kind_is_atomic(kind) && kind != KIND_NOP)
			each_step(kind, LONG, collapsed, false);
	}
}

TEST(write)
{
	each_size(KIND_WRITE);
}

TEST(write_with_immediate)
{
	each_size(KIND_WRITE_IMM);
}

TEST(read)
{
	each_size(KIND_READ);
}

TEST(send)
{
	each_size(KIND_SEND);
}

TEST(send_with_immediate)
{
	each_size(KIND_SEND_IMM);
}

TEST(fetch_and_add)
{
	each_size(KIND_FADD);
}

TEST(compare_and_swap)
{
	each_size(KIND_CSWAP);
}

TEST(nop)
{
	each_size(KIND_NOP);
}

TEST(shared_receive_queue)
{
	each_step(KIND_SEND, SMALL, false, true);
	each_step(KIND_SEND, LONG, false, true);
	each_step(KIND_WRITE_IMM, LONG, false, true);
}

/* ---- leaving ---- */

static uint8_t *copy_of(const struct lab *t, unsigned int node)
{
	uint8_t *copy = malloc(t->l.ledger_bytes);

	ASSERT(copy);
	memcpy(copy, t->l.ledgers[node], t->l.ledger_bytes);
	return copy;
}

/* After n_turns of traffic those of this node leave: all of it is done, but nothing is noted. False: it was done before. */
static bool leave_after(enum kind kind, bool has_srq, unsigned int node, unsigned int n_turns)
{
	uint8_t *left, *others;
	bool is_busy = true;
	struct lab t;

	init_lab(&t, kind, kind_is_atomic(kind) ? SMALL : LONG, false, has_srq);
	t.l.w.budget = 1;
	if (kind == KIND_READ)
		region_fill(t.remote, 7);
	post_all(&t);
	for (unsigned int n = 0; n < n_turns && is_busy; n++)
		is_busy = world_step(&t.l.w);
	left = copy_of(&t, node);
	others = copy_of(&t, !node);
	engine_ledger_leave(t.l.w.nodes[node].ledger);
	run_to_the_end(&t);
	check(&t);
	post_all(&t);
	run_to_the_end(&t);
	check(&t);
	ASSERT_EQ(tqp_info(&t.a).counters.wqes, 2 * N_MESSAGES);
	engine_ledger_recover(t.a.node->engine);
	tqp_deinit(&t.a);
	tqp_deinit(&t.b);
	if (has_srq)
		tsrq_deinit(&t.srq);
	ASSERT_MEMEQ(t.l.ledgers[node], left, t.l.ledger_bytes);
	ASSERT_NE(memcmp(t.l.ledgers[!node], others, t.l.ledger_bytes), 0);
	lives_deinit(&t.l);
	free(left);
	free(others);
	return is_busy;
}

TEST(objects_that_left_their_ledger_write_nothing_there)
{
	static const enum kind kinds[] = {KIND_WRITE, KIND_READ, KIND_SEND, KIND_FADD};

	for (unsigned int i = 0; i < 4; i++) {
		for (unsigned int node = 0; node < 2; node++) {
			bool has_srq = kinds[i] == KIND_SEND;

			for (unsigned int n_turns = 0; leave_after(kinds[i], has_srq, node, n_turns); n_turns++)
				;
		}
	}
}
