/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DCIs and DCTs whose engines die at each step: connections go on where they were, on both sides. And that all steps of the
 * executor were passed by the tests of ledgers.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fixture-ledger.h"
#include "tests/lib/test.h"

#define SIZE 65536u
#define SECOND 1000000000ull
#define KEY 0x1122334455667788ull
#define N_DCIS 2u
#define N_DCTS 2u
#define N_MESSAGES 4u

struct lab {
	struct lives l;
	struct region *local, *remote;
	struct tsrq srq;
	struct tqp dcis[N_DCIS], dcts[N_DCTS]; /* on nodes 0 and 1 */
	unsigned int n_sent[N_DCTS], n_received[N_DCTS];
	uint32_t last[N_DCTS][N_DCIS]; /* immediate data; each DCI counts */
	uint16_t indexes[N_DCIS][N_MESSAGES];
	bool is_unknown[N_DCIS];
	unsigned int n_adds, n_adds_done;
};

static void init_qp(struct lab *t, struct tqp *qp, enum engine_qp_type type)
{
	struct tqp_attr attr = TQP_ATTR;

	attr.type = type;
	attr.dc_key = KEY;
	attr.log2_cq = 6;
	attr.srq = type == ENGINE_QP_DCT ? &t->srq : NULL;
	tqp_init(qp, &t->l.w, type == ENGINE_QP_DCT, &attr);
	tqp_start_dc(qp, &attr);
	lives_add(&t->l, qp);
}

static void init(struct lab *t)
{
	memset(t, 0, sizeof(*t));
	lives_init(&t->l, MEM_POINTER, 256);
	t->local = region_new(&t->l.w, 0, SIZE);
	t->remote = region_new(&t->l.w, 1, SIZE);
	region_fill(t->local, 1);
	tsrq_init(&t->srq, &t->l.w, 1, 1, 5);
	t->l.srqs[1] = &t->srq;
	for (unsigned int i = 0; i < N_DCTS; i++)
		init_qp(t, &t->dcts[i], ENGINE_QP_DCT);
	for (unsigned int i = 0; i < N_DCIS; i++)
		init_qp(t, &t->dcis[i], ENGINE_QP_DCI);
}

static void deinit(struct lab *t)
{
	t->l.left = 0;
	for (unsigned int i = 0; i < N_DCIS; i++)
		tqp_deinit(&t->dcis[i]);
	for (unsigned int i = 0; i < N_DCTS; i++)
		tqp_deinit(&t->dcts[i]);
	world_run(&t->l.w);
	tsrq_deinit(&t->srq);
	lives_deinit(&t->l);
}

/* Every second message to the other DCT; sends of one packet and of several, and adds to one word. */
static void post(struct lab *t, unsigned int dci, unsigned int i, bool adds)
{
	unsigned int dct = (dci + i / 2) % N_DCTS;
	uint64_t words[2] = {1, 0};
	struct wqe wqe;

	wqe_begin(&wqe, adds ? SHMD_OPCODE_ATOMIC_FA : SHMD_OPCODE_SEND_IMM, SIGNALED);
	wqe_imm(&wqe, htobe32(dci << 16 | (i + 1)));
	wqe_dc_av(&wqe, &t->dcts[dct], KEY);
	if (adds) {
		wqe_raddr(&wqe, t->remote->iova, t->remote->key);
		wqe_words64(&wqe, words, 2);
		wqe_data(&wqe, t->local->iova + 60000, t->local->key, 8);
		t->n_adds++;
	} else {
		tsrq_post(&t->srq, t->remote, 4096, 2048);
		wqe_data(&wqe, t->local->iova, t->local->key, i % 2 ? 1000 : 64);
		t->n_sent[dct]++;
	}
	t->indexes[dci][i] = tqp_post(&t->dcis[dci], &wqe);
	tqp_ring(&t->dcis[dci]);
}

static void run(struct lab *t)
{
	while (!lives_run(&t->l, SECOND))
		lives_restore(&t->l);
}

static void poll_dct(struct lab *t, unsigned int dct)
{
	struct shmd_cqe cqe;

	while (tcq_poll(&t->dcts[dct].rcq, &cqe)) {
		uint32_t imm = cqe.imm_inval_pkey;

		ASSERT_EQ(cqe.op_own >> 4, SHMD_CQE_RESP_SEND_IMM);
		ASSERT_LT(imm >> 16, N_DCIS);
		/* Each once, and those of one DCI in order. */
		ASSERT_GT(imm & 0xffff, t->last[dct][imm >> 16]);
		t->last[dct][imm >> 16] = imm & 0xffff;
		t->n_received[dct]++;
	}
}

static void poll_dci(struct lab *t, unsigned int dci)
{
	for (unsigned int i = 0; i < N_MESSAGES; i++) {
		uint8_t error = (uint8_t)tqp_info(&t->dcis[dci]).first_error;
		struct shmd_cqe cqe;

		ASSERT(tcq_poll(&t->dcis[dci].scq, &cqe));
		ASSERT_EQ(be16toh(cqe.wqe_counter), t->indexes[dci][i]);
		if (cqe.op_own >> 4 == SHMD_CQE_REQ) {
			t->n_adds_done++;
			continue;
		}
		ASSERT_EQ(error, SHMD_SYNDROME_OUTCOME_UNKNOWN);
		t->is_unknown[dci] = true;
	}
	tcq_expect_none(&t->dcis[dci].scq);
}

static bool die_once(enum engine_step step, unsigned int nth, bool adds)
{
	bool died, is_unknown;
	uint64_t word;
	struct lab t;

	init(&t);
	for (unsigned int i = 0; i < N_MESSAGES; i++)
		for (unsigned int dci = 0; dci < N_DCIS; dci++)
			post(&t, dci, i, adds);
	t.l.at = step;
	t.l.left = nth;
	run(&t);
	died = !t.l.left;
	for (unsigned int i = 0; i < N_DCIS; i++)
		poll_dci(&t, i);
	is_unknown = t.is_unknown[0] || t.is_unknown[1];
	ASSERT_EQ(is_unknown, died && step_cuts_atomic(step));
	for (unsigned int i = 0; i < N_DCTS && !adds; i++) {
		poll_dct(&t, i);
		ASSERT_EQ(t.n_received[i], t.n_sent[i]);
	}
	memcpy(&word, t.remote->bytes, 8);
	ASSERT_GE(word, adds ? t.n_adds_done : 0);
	ASSERT_LE(word, adds ? t.n_adds_done + is_unknown : 0);
	deinit(&t);
	return died;
}

static unsigned int each_step(bool adds)
{
	unsigned int n = 0;

	for (enum engine_step step = 0; step < ENGINE_N_STEPS; step++)
		for (unsigned int nth = 1; die_once(step, nth, adds); nth++)
			n++;
	return n;
}

TEST(sends_arrive_once)
{
	ASSERT_GT(each_step(false), ENGINE_N_STEPS);
}

TEST(adds_are_done_once)
{
	ASSERT_GT(each_step(true), ENGINE_N_STEPS);
}

TEST(many_deaths_in_a_row)
{
	for (uint64_t seed = 1; seed <= (test_is_full() ? 300 : 20); seed++) {
		uint64_t random = seed;
		struct lab t;

		init(&t);
		for (unsigned int i = 0; i < N_MESSAGES; i++)
			for (unsigned int dci = 0; dci < N_DCIS; dci++)
				post(&t, dci, i, false);
		t.l.at = ENGINE_N_STEPS;
		t.l.left = 1 + test_random(&random) % 40;
		for (unsigned int n = 0; !lives_run(&t.l, SECOND); n++) {
			lives_restore(&t.l);
			t.l.left = n < 10 ? 1 + test_random(&random) % 40 : 0;
		}
		for (unsigned int i = 0; i < N_DCIS; i++)
			poll_dci(&t, i);
		for (unsigned int i = 0; i < N_DCTS; i++) {
			poll_dct(&t, i);
			ASSERT_EQ(t.n_received[i], t.n_sent[i]);
		}
		deinit(&t);
	}
}

static void begin_anew(struct tqp *dci)
{
	ASSERT_OK(tqp_to(dci, ENGINE_QP_RST));
	dci->pi = 0;
	dci->dbrec->snd = 0;
	ASSERT_OK(tqp_to(dci, ENGINE_QP_INIT));
	ASSERT_OK(tqp_to(dci, ENGINE_QP_RTR));
	ASSERT_OK(tqp_to_rts(dci, &(const struct tqp_attr)TQP_ATTR));
}

/* A DCT that remembers a former DCI does not take a new one for it: its connection numbers are higher. */
TEST(connection_numbers_go_on)
{
	struct lab t;

	init(&t);
	post(&t, 0, 0, false);
	run(&t);
	lives_restore(&t.l);
	run(&t);
	begin_anew(&t.dcis[0]);
	post(&t, 0, 1, false);
	run(&t);
	expect_cqe(&t.dcis[0].scq, SHMD_CQE_REQ, 0, NULL);
	expect_cqe(&t.dcis[0].scq, SHMD_CQE_REQ, t.indexes[0][1], NULL);
	poll_dct(&t, 0);
	ASSERT_EQ(t.n_received[0], 2);
	deinit(&t);
}

/* Its good-bye has arrived, or dies with the engines. */
static void reset_and_die(bool arrives)
{
	struct lab t;

	init(&t);
	post(&t, 0, 0, false);
	run(&t);
	expect_cqe(&t.dcis[0].scq, SHMD_CQE_REQ, t.indexes[0][0], NULL);
	begin_anew(&t.dcis[0]);
	if (arrives)
		run(&t);
	lives_restore(&t.l);
	poll_dct(&t, 0);
	t.last[0][0] = 0;
	post(&t, 0, 0, false);
	run(&t);
	expect_cqe(&t.dcis[0].scq, SHMD_CQE_REQ, t.indexes[0][0], NULL);
	ASSERT_EQ(tqp_info(&t.dcis[0]).state, ENGINE_QP_RTS);
	poll_dct(&t, 0);
	ASSERT_EQ(t.n_received[0], 2);
	deinit(&t);
}

/* Else its first request would be taken for one that the DCT has executed, or that comes too late. */
TEST(a_dci_that_was_reset_comes_back_without_its_connection)
{
	reset_and_die(true);
	reset_and_die(false);
}

/* As a context that is closed: nothing is left of what it knew. */
static void close_dcis(struct lab *t)
{
	for (unsigned int i = 0; i < N_DCIS; i++) {
		struct tqp *dci = &t->dcis[i];

		ASSERT_OK(engine_qp_destroy(dci->node->engine, dci->qpn));
		ASSERT_OK(engine_cq_destroy(dci->node->engine, dci->scq.cqn));
		ASSERT_OK(engine_cq_destroy(dci->node->engine, dci->rcq.cqn));
	}
	run(t);
	memset(t->l.ledgers[0], 0, t->l.ledger_bytes);
	t->l.n_qps = N_DCTS;
}

/* Others under the same numbers. */
static void make_dcis(struct lab *t)
{
	for (unsigned int i = 0; i < N_DCIS; i++) {
		struct tqp *dci = &t->dcis[i];

		dci->scq.attr.ledger = dci->rcq.attr.ledger = dci->attr.ledger = dci->node->ledger;
		ASSERT_OK(engine_cq_create(dci->node->engine, &dci->scq.attr));
		ASSERT_OK(engine_cq_create(dci->node->engine, &dci->rcq.attr));
		ASSERT_OK(engine_qp_create(dci->node->engine, &dci->attr));
		dci->scq.ci = 0;
		dci->pi = 0;
		dci->dbrec->snd = 0;
		tqp_start_dc(dci, &(const struct tqp_attr)TQP_ATTR);
	}
}

/* A DCT remembers a DCI that is forgotten everywhere else. */
TEST(connection_numbers_go_on_though_no_ledger_tells)
{
	struct lab t;

	init(&t);
	post(&t, 0, 0, false);
	run(&t);
	close_dcis(&t);
	lives_restore(&t.l);
	make_dcis(&t);
	post(&t, 0, 1, false);
	run(&t);
	expect_cqe(&t.dcis[0].scq, SHMD_CQE_REQ, 0, NULL);
	poll_dct(&t, 0);
	ASSERT_EQ(t.n_received[0], 2);
	deinit(&t);
}

/* An owner that gives up in the midst of a restore. */
TEST(half_restored_objects_can_be_destroyed)
{
	struct lab t;

	init(&t);
	post(&t, 0, 0, false);
	post(&t, 1, 0, false);
	run(&t);
	lives_begin_restore(&t.l);
	deinit(&t);
}

/* Connections that are there, and those that come. */
TEST(connections_of_a_dct_that_left_its_ledger_are_not_noted)
{
	struct lab t;
	void *left;

	init(&t);
	post(&t, 0, 0, false);
	run(&t);
	left = malloc(t.l.ledger_bytes);
	ASSERT(left);
	memcpy(left, t.l.ledgers[1], t.l.ledger_bytes);
	engine_ledger_leave(t.l.w.nodes[1].ledger);
	for (unsigned int i = 0; i < N_MESSAGES; i++)
		post(&t, 1, i, false);
	post(&t, 0, 1, false);
	run(&t);
	for (unsigned int i = 0; i < N_DCTS; i++) {
		poll_dct(&t, i);
		ASSERT_EQ(t.n_received[i], t.n_sent[i]);
		tqp_deinit(&t.dcts[i]);
	}
	for (unsigned int i = 0; i < N_DCIS; i++)
		tqp_deinit(&t.dcis[i]);
	world_run(&t.l.w);
	tsrq_deinit(&t.srq);
	ASSERT_MEMEQ(t.l.ledgers[1], left, t.l.ledger_bytes);
	lives_deinit(&t.l);
	free(left);
}

/* ---- all steps ---- */

static void note_passed(const struct lives *l, uint64_t *passed)
{
	for (enum engine_step step = 0; step < ENGINE_N_STEPS; step++)
		passed[step] += l->passed[step];
}

/* The other programs die wherever these pass: DC sends and adds, a read with an armed CQ, and a refusal. */
TEST(no_step_is_left_out)
{
	uint64_t passed[ENGINE_N_STEPS] = {0};
	struct tqp_attr attr = TQP_ATTR;
	struct lab t;
	struct tqp a, b;

	for (unsigned int adds = 0; adds < 2; adds++) {
		init(&t);
		post(&t, 0, 0, adds);
		run(&t);
		note_passed(&t.l, passed);
		deinit(&t);
	}
	init(&t);
	tqp_init(&a, &t.l.w, 0, &attr);
	tqp_init(&b, &t.l.w, 1, &attr);
	tqp_connect(&a, &b, &attr);
	tqp_connect(&b, &a, &attr);
	a.scq.dbrec->snd = htobe32(0x10000000);
	post_read(&a, SIGNALED, t.local, 0, t.remote, 0, 1000);
	post_write(&a, SIGNALED, t.local, 0, t.remote, SIZE, 8);
	tqp_ring(&a);
	run(&t);
	note_passed(&t.l, passed);
	tqp_deinit(&a);
	tqp_deinit(&b);
	deinit(&t);
	for (enum engine_step step = 0; step < ENGINE_N_STEPS; step++) {
		if (!passed[step])
			test_fail(TEST_WHERE, "%s is never passed", engine_step_name(step));
		ASSERT_EQ(strncmp(engine_step_name(step), "engine.", 7), 0);
	}
	ASSERT(!engine_step_name(ENGINE_N_STEPS));
}
