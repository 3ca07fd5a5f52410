/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places of a ledger: how many there are, and that an entry reaches its own object, and no other one that is made
 * before or after it.
 */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "fixture-ledger.h"
#include "tests/lib/test.h"

#define SIZE 65536u
#define SECOND 1000000000ull

struct lab {
	struct lives l;
	struct tqp a, b;
	struct region *local, *remote;
	struct tqp_attr attr;
};

static void init(struct lab *t)
{
	memset(t, 0, sizeof(*t));
	t->attr = (struct tqp_attr)TQP_ATTR;
	lives_init(&t->l, MEM_POINTER, 256);
	t->local = region_new(&t->l.w, 0, SIZE);
	t->remote = region_new(&t->l.w, 1, SIZE);
	region_fill(t->local, 1);
	tqp_init(&t->a, &t->l.w, 0, &t->attr);
	tqp_init(&t->b, &t->l.w, 1, &t->attr);
	tqp_connect(&t->a, &t->b, &t->attr);
	tqp_connect(&t->b, &t->a, &t->attr);
	lives_add(&t->l, &t->a);
	lives_add(&t->l, &t->b);
}

static void deinit(struct lab *t)
{
	t->l.left = 0;
	tqp_deinit(&t->a);
	tqp_deinit(&t->b);
	lives_deinit(&t->l);
}

static void run(struct lab *t)
{
	while (!lives_run(&t->l, 4 * SECOND))
		lives_restore(&t->l);
}

/* ---- places ---- */

TEST(places_are_bounded_and_used_again)
{
	struct lab t;
	struct tqp qps[16];
	unsigned int n = 0;

	init(&t);
	/* 16 CQs for each node: two QPs more than the pair has make 6. */
	for (; n < 7; n++)
		tqp_init(&qps[n], &t.l.w, 0, &t.attr);
	ASSERT_ERR(engine_cq_create(t.a.node->engine, &(struct engine_cq_attr){.cqn = 0x5000,
									       .ring = t.local->bytes,
									       .dbrec = t.local->bytes,
									       .ledger = t.a.node->ledger}),
		   ENOSPC);
	while (n-- > 0)
		tqp_deinit(&qps[n]);
	tqp_init(&qps[0], &t.l.w, 0, &t.attr);
	/* It is not restored: its places are free again. */
	lives_restore(&t.l);
	qps[0].attr.ledger = t.a.node->ledger;
	ASSERT_ERR(engine_qp_restore(t.a.node->engine, &qps[0].attr), ENOENT);
	for (n = 0; n < 7; n++)
		tqp_init(&qps[n], &t.l.w, 0, &t.attr);
	while (n-- > 0)
		tqp_deinit(&qps[n]);
	run(&t);
	deinit(&t);
}

/* The journal's last entry names a CQ that is gone. */
TEST(a_place_that_is_used_again_knows_nothing_of_before)
{
	struct lab t;

	init(&t);
	post_write(&t.a, SIGNALED, t.local, 0, t.remote, 0, 1000);
	tqp_ring(&t.a);
	run(&t);
	tqp_deinit(&t.a);
	tqp_init(&t.a, &t.l.w, 0, &t.attr);
	lives_restore(&t.l);
	tcq_expect_none(&t.a.scq);
	tcq_expect_none(&t.a.rcq);
	ASSERT_EQ(tqp_info(&t.a).state, ENGINE_QP_RST);
	ASSERT_EQ(tqp_info(&t.a).counters.wqes, 0);
	deinit(&t);
}

/* ---- objects that are made again ---- */

static void die_at_intent(struct lab *t)
{
	t->l.at = ENGINE_STEP_CQE_INTENT;
	t->l.left = 1;
	ASSERT(!lives_run(&t->l, SECOND));
}

/* Its creation had not ended, or it was destroyed: in the midst of a restore the owner makes it anew. */
static void make_cq_anew(struct tcq *cq)
{
	cq->attr.ledger = cq->node->ledger;
	ASSERT_ERR(engine_cq_restore(cq->node->engine, &cq->attr), ENOENT);
	ASSERT_OK(engine_cq_create(cq->node->engine, &cq->attr));
}

TEST(a_cqe_that_is_due_waits_for_its_cq_whatever_is_made_before)
{
	uint16_t index;
	struct tcq cq;
	struct lab t;

	init(&t);
	tcq_init(&cq, &t.l.w.nodes[0], 0x90, 4, 0);
	ASSERT_OK(engine_cq_destroy(cq.node->engine, cq.cqn));
	index = post_write(&t.a, SIGNALED, t.local, 0, t.remote, 0, 1000);
	tqp_ring(&t.a);
	die_at_intent(&t);
	lives_open(&t.l);
	make_cq_anew(&cq);
	lives_restore_objects(&t.l);
	for (unsigned int i = 0; i < N_NODES; i++)
		lives_end_restore(&t.l, i);
	run(&t);
	expect_cqe(&t.a.scq, SHMD_CQE_REQ, index, NULL);
	tcq_deinit(&cq);
	deinit(&t);
}

static void make_qp_anew(struct tqp *qp, const struct tqp *with_cqs_of)
{
	qp->attr.ledger = qp->node->ledger;
	qp->attr.send_cqn = with_cqs_of->scq.cqn;
	qp->attr.recv_cqn = with_cqs_of->rcq.cqn;
	ASSERT_OK(engine_qp_create(qp->node->engine, &qp->attr));
}

static void free_rings(struct tqp *qp)
{
	world_free(qp->node->world, qp->sq);
	world_free(qp->node->world, qp->rq);
	world_free(qp->node->world, qp->dbrec);
}

/* Else the next restart would give the new QP the indexes of the former one. */
TEST(debts_of_a_qp_that_is_gone_do_not_reach_the_next_at_its_place)
{
	uint16_t index;
	struct tqp c, d;
	struct lab t;

	init(&t);
	tqp_init(&c, &t.l.w, 0, &t.attr);
	tqp_init(&d, &t.l.w, 1, &t.attr);
	tqp_connect(&c, &d, &t.attr);
	tqp_connect(&d, &c, &t.attr);
	post_write(&c, SIGNALED, t.local, 0, t.remote, 0, 8);
	tqp_ring(&c);
	die_at_intent(&t);
	lives_restore(&t.l); /* without them */
	make_qp_anew(&c, &t.a);
	make_qp_anew(&d, &t.b);
	tqp_connect(&c, &d, &t.attr);
	tqp_connect(&d, &c, &t.attr);
	c.pi = 0;
	c.dbrec->snd = 0;
	lives_open(&t.l);
	lives_restore_objects(&t.l);
	c.attr.ledger = c.node->ledger;
	d.attr.ledger = d.node->ledger;
	ASSERT_OK(engine_qp_restore(c.node->engine, &c.attr));
	ASSERT_OK(engine_qp_restore(d.node->engine, &d.attr));
	for (unsigned int i = 0; i < N_NODES; i++)
		lives_end_restore(&t.l, i);
	index = post_write(&c, SIGNALED, t.local, 1000, t.remote, 1000, 1000);
	tqp_ring(&c);
	run(&t);
	expect_cqe(&t.a.scq, SHMD_CQE_REQ, index, NULL);
	ASSERT_MEMEQ(t.remote->bytes + 1000, t.local->bytes + 1000, 1000);
	ASSERT_OK(engine_qp_destroy(c.node->engine, c.qpn));
	ASSERT_OK(engine_qp_destroy(d.node->engine, d.qpn));
	free_rings(&c);
	free_rings(&d);
	deinit(&t);
}
