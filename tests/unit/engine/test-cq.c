/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues: owner bit, overrun, collapsed, arming, fault point. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "tests/lib/test.h"

static void setup(struct setup *s, uint32_t log2_cq, uint32_t cq_flags)
{
	struct tqp_attr attr = TQP_ATTR;

	attr.log2_cq = log2_cq;
	attr.cq_flags = cq_flags;
	setup_init(s, MEM_POINTER, 4096, &attr);
}

static void write_n(struct setup *s, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		post_write(&s->p.a, SIGNALED, s->local, 0, s->remote, 0, 8);
	tqp_ring(&s->p.a);
	world_run(&s->w);
}

TEST(the_owner_bit_turns_with_every_round)
{
	for (uint32_t log2 = 0; log2 < 5; log2++) {
		unsigned int entries = 1u << log2;
		struct setup s;

		setup(&s, log2, 0);
		for (unsigned int i = 0; i < 40; i++) {
			const uint8_t *entry = s.p.a.scq.ring + (size_t)(i % entries) * 64;

			write_n(&s, 1);
			ASSERT_EQ(entry[63] & 1, (i / entries) & 1);
			expect_ok(&s.p.a, (uint16_t)i);
			tcq_expect_none(&s.p.a.scq);
		}
		setup_deinit(&s);
	}
}

TEST(a_new_ring_is_invalid)
{
	struct tqp_attr attr = TQP_ATTR;
	struct world w;
	struct tqp qp;

	world_init(&w, MEM_POINTER);
	tqp_init(&qp, &w, 0, &attr);
	for (unsigned int i = 0; i < 64u << attr.log2_cq; i++)
		ASSERT_EQ(qp.scq.ring[i], 0xff);
	tqp_deinit(&qp);
	world_deinit(&w);
}

/* As many CQEs as entries fit; one more kills the CQ and the QPs that use it. */
TEST(overrun_kills_the_cq_and_its_qps)
{
	struct setup s;

	setup(&s, 3, 0);
	write_n(&s, 8);
	ASSERT_EQ(s.w.nodes[0].n_events, 0);
	write_n(&s, 1);
	ASSERT_EQ(s.w.nodes[0].n_events, 2);
	ASSERT_EQ(s.w.nodes[0].events[0].kind, ENGINE_EVENT_CQ_OVERRUN);
	ASSERT_EQ(s.w.nodes[0].events[0].number, s.p.a.scq.cqn);
	ASSERT_EQ(s.w.nodes[0].events[1].kind, ENGINE_EVENT_QP_ERROR);
	ASSERT_EQ(s.w.nodes[0].events[1].number, s.p.a.qpn);
	ASSERT_EQ(tqp_info(&s.p.a).state, ENGINE_QP_ERR);
	for (uint16_t i = 0; i < 8; i++)
		expect_ok(&s.p.a, i);
	/* Dead for good: nothing is written there any more. */
	post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8);
	tqp_ring(&s.p.a);
	world_run(&s.w);
	tcq_expect_none(&s.p.a.scq);
	ASSERT_EQ(tqp_info(&s.p.b).state, ENGINE_QP_RTS);
	setup_deinit(&s);
}

TEST(consumed_entries_are_used_again)
{
	struct setup s;

	setup(&s, 3, 0);
	for (unsigned int round = 0; round < 1000; round++) {
		write_n(&s, 5);
		for (unsigned int i = 0; i < 5; i++)
			expect_ok(&s.p.a, (uint16_t)(5 * round + i));
	}
	ASSERT_EQ(s.w.nodes[0].n_events, 0);
	setup_deinit(&s);
}

TEST(a_consumer_index_that_cannot_be_is_an_overrun)
{
	struct setup s;

	setup(&s, 3, 0);
	write_n(&s, 8);
	s.p.a.scq.dbrec->rcv = htobe32(0x345678);
	write_n(&s, 1);
	ASSERT_EQ(world_count_events(&s.w.nodes[0], ENGINE_EVENT_CQ_OVERRUN), 1);
	setup_deinit(&s);
}

TEST(overrun_ignore_never_looks)
{
	const struct shmd_cqe *last;
	struct setup s;

	setup(&s, 3, ENGINE_CQ_OVERRUN_IGNORE);
	for (unsigned int i = 0; i < 10; i++)
		write_n(&s, 10);
	ASSERT_EQ(s.w.nodes[0].n_events, 0);
	last = (const struct shmd_cqe *)(const void *)(s.p.a.scq.ring + (99 % 8) * 64);
	ASSERT_EQ(be16toh(last->wqe_counter), 99);
	setup_deinit(&s);
}

#define COLLAPSED (ENGINE_CQ_COLLAPSED | ENGINE_CQ_OVERRUN_IGNORE)

TEST(a_collapsed_cq_holds_the_newest_at_entry_0)
{
	const struct shmd_cqe *cqe;
	struct setup s;

	setup(&s, 10, COLLAPSED);
	cqe = (const struct shmd_cqe *)(const void *)s.p.a.scq.ring;
	ASSERT_EQ(cqe->op_own, 0xff);
	for (unsigned int i = 0; i < 3000; i++) {
		write_n(&s, 1);
		ASSERT_EQ(be16toh(cqe->wqe_counter), i);
		ASSERT_EQ(cqe->op_own >> 4, SHMD_CQE_REQ);
	}
	setup_deinit(&s);
}

TEST(flush_does_not_hide_the_cause_in_a_collapsed_cq)
{
	const struct shmd_err_cqe *err;
	struct setup s;
	struct wqe wqe;

	setup(&s, 10, COLLAPSED);
	err = (const struct shmd_err_cqe *)(const void *)s.p.a.scq.ring;
	post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8);
	wqe_begin(&wqe, 0x77, SIGNALED);
	tqp_post(&s.p.a, &wqe);
	write_n(&s, 3);
	ASSERT_EQ(err->op_own >> 4, SHMD_CQE_REQ_ERR);
	ASSERT_EQ(err->syndrome, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
	ASSERT_EQ(be16toh(err->wqe_counter), 1);
	ASSERT_EQ(tqp_info(&s.p.a).counters.error_cqes, 4);
	setup_deinit(&s);
}

TEST(an_armed_cq_gives_one_event)
{
	struct setup s;

	setup(&s, 6, 0);
	write_n(&s, 1);
	ASSERT_EQ(s.w.nodes[0].n_events, 0);
	s.p.a.scq.dbrec->snd = htobe32(1u << 28 | 1);
	write_n(&s, 3);
	ASSERT_EQ(s.w.nodes[0].n_events, 1);
	ASSERT_EQ(s.w.nodes[0].events[0].kind, ENGINE_EVENT_CQ_COMPLETION);
	ASSERT_EQ(s.w.nodes[0].events[0].number, s.p.a.scq.cqn);
	write_n(&s, 3);
	ASSERT_EQ(s.w.nodes[0].n_events, 1);
	s.p.a.scq.dbrec->snd = htobe32(2u << 28 | 7);
	write_n(&s, 1);
	ASSERT_EQ(s.w.nodes[0].n_events, 2);
	setup_deinit(&s);
}

TEST(armed_for_solicited_only)
{
	struct setup s;

	setup(&s, 6, 0);
	post_recv(&s.p.b, s.remote, 0, 64);
	post_recv(&s.p.b, s.remote, 0, 64);
	s.p.b.rcq.dbrec->snd = htobe32(1u << 28 | 1u << 24);
	post_send(&s.p.a, SIGNALED, s.local, 0, 8);
	tqp_ring(&s.p.a);
	world_run(&s.w);
	ASSERT_EQ(s.w.nodes[1].n_events, 0);
	post_send(&s.p.a, SIGNALED | SOLICITED, s.local, 0, 8);
	tqp_ring(&s.p.a);
	world_run(&s.w);
	ASSERT_EQ(s.w.nodes[1].n_events, 1);
	ASSERT_EQ(s.w.nodes[1].events[0].kind, ENGINE_EVENT_CQ_COMPLETION);
	setup_deinit(&s);
}

/* The same CQ, made again with large entries. */
static uint8_t *enlarge(struct setup *s, uint32_t log2_entries)
{
	struct tcq *cq = &s->p.a.scq;
	struct engine_qp_attr qp = {.qpn = s->p.a.qpn,
				    .pdn = 1,
				    .sq_ring = s->p.a.sq,
				    .log2_sq_wqebbs = s->p.a.log2_sq,
				    .dbrec = s->p.a.dbrec,
				    .send_cqn = cq->cqn,
				    .recv_cqn = s->p.a.rcq.cqn};
	struct engine_cq_attr attr = {
		.cqn = cq->cqn, .log2_entries = log2_entries, .entry_bytes = 128, .dbrec = cq->dbrec};

	attr.ring = malloc(128u << log2_entries);
	ASSERT(attr.ring);
	memset(attr.ring, 0x11, 128u << log2_entries);
	ASSERT_OK(engine_qp_destroy(cq->node->engine, s->p.a.qpn));
	ASSERT_OK(engine_cq_destroy(cq->node->engine, cq->cqn));
	ASSERT_OK(engine_cq_create(cq->node->engine, &attr));
	ASSERT_OK(engine_qp_create(cq->node->engine, &qp));
	return attr.ring;
}

TEST(a_large_entry_has_its_cqe_in_the_second_half)
{
	struct tqp_attr attr = TQP_ATTR;
	uint8_t *ring;
	struct setup s;

	setup(&s, 4, 0);
	ring = enlarge(&s, 1);
	for (unsigned int i = 0; i < 256; i++)
		ASSERT_EQ(ring[i], 0xff);
	tqp_connect(&s.p.a, &s.p.b, &attr);
	write_n(&s, 2);
	for (unsigned int i = 0; i < 64; i++)
		ASSERT_EQ(ring[i], 0xff);
	ASSERT_EQ(ring[127], SHMD_CQE_REQ << 4);
	ASSERT_EQ(ring[255], SHMD_CQE_REQ << 4);
	ASSERT_EQ(ring[253], 1);
	setup_deinit(&s);
	free(ring);
}

/* A client as libmlx5 is one: it moves what it has not polled, each CQE one entry further. */
TEST(a_resized_cq_goes_on_in_the_new_ring)
{
	uint8_t *old, *ring = malloc(8 * 64), dummy[64];
	struct tcq *cq;
	struct setup s;

	ASSERT(ring);
	setup(&s, 2, 0);
	cq = &s.p.a.scq;
	write_n(&s, 1);
	expect_ok(&s.p.a, 0);
	write_n(&s, 2);
	ASSERT_ERR(engine_cq_resize(cq->node->engine, cq->cqn, dummy, 0), EINVAL);
	ASSERT_ERR(engine_cq_resize(cq->node->engine, cq->cqn, ring, 23), EINVAL);
	ASSERT_ERR(engine_cq_resize(cq->node->engine, cq->cqn + 1000, ring, 3), ENOENT);
	ASSERT_OK(engine_cq_resize(cq->node->engine, cq->cqn, ring, 3));
	ASSERT_EQ(cq->ring[3 * 64 + 63], SHMD_CQE_RESIZE << 4);
	for (unsigned int i = 0; i < 8 * 64; i++)
		ASSERT_EQ(ring[i], 0xff);
	memcpy(ring + 2 * 64, cq->ring + 1 * 64, 128);
	old = cq->ring;
	cq->ring = ring;
	cq->log2_entries = 3;
	cq->ci++;
	expect_ok(&s.p.a, 1);
	expect_ok(&s.p.a, 2);
	for (uint16_t i = 3; i < 30; i++) {
		write_n(&s, 1);
		expect_ok(&s.p.a, i);
	}
	tcq_expect_none(cq);
	cq->ring = old;
	setup_deinit(&s);
	free(ring);
}

TEST(a_full_cq_is_not_resized)
{
	uint8_t ring[16 * 64];
	struct setup s;

	setup(&s, 2, 0);
	write_n(&s, 4);
	ASSERT_ERR(engine_cq_resize(s.p.a.node->engine, s.p.a.scq.cqn, ring, 4), ENOSPC);
	expect_ok(&s.p.a, 0);
	ASSERT_OK(engine_cq_resize(s.p.a.node->engine, s.p.a.scq.cqn, ring, 4));
	setup_deinit(&s);
}

TEST(dropped_cqe_fault_shows)
{
	struct setup s;

	setup(&s, 6, 0);
	engine_set_fault(s.w.nodes[0].engine, ENGINE_FAULT_DROP_CQE, 3);
	write_n(&s, 5);
	expect_ok(&s.p.a, 0);
	expect_ok(&s.p.a, 1);
	expect_ok(&s.p.a, 3);
	expect_ok(&s.p.a, 4);
	tcq_expect_none(&s.p.a.scq);
	setup_deinit(&s);
}

TEST(creation_is_checked)
{
	uint8_t ring[64 * 16];
	struct shmd_dbrec dbrec = {0};
	struct engine_cq_attr good = {.cqn = 1, .log2_entries = 4, .ring = ring, .dbrec = &dbrec},
			      bad;
	struct engine *engine;
	struct world w;

	world_init(&w, MEM_POINTER);
	engine = w.nodes[0].engine;
#define REFUSED(field, value, err)                                                                 \
	do {                                                                                       \
		bad = good;                                                                        \
		bad.field = (value);                                                               \
		ASSERT_ERR(engine_cq_create(engine, &bad), err);                                   \
	} while (0)
	REFUSED(cqn, 0x1000000, EINVAL);
	REFUSED(log2_entries, 23, EINVAL);
	REFUSED(ring, NULL, EINVAL);
	REFUSED(dbrec, NULL, EINVAL);
	REFUSED(flags, 4, EINVAL);
	REFUSED(entry_bytes, 32, EINVAL);
	REFUSED(entry_bytes, 96, EINVAL);
	ASSERT_OK(engine_cq_create(engine, &good));
	REFUSED(cqn, 1, EEXIST);
	ASSERT_OK(engine_cq_destroy(engine, 1));
	ASSERT_ERR(engine_cq_destroy(engine, 1), ENOENT);
	good.dbrec = NULL;
	good.flags = COLLAPSED;
	ASSERT_OK(engine_cq_create(engine, &good));
#undef REFUSED
	world_deinit(&w);
}

/* One CQ for several QPs and both halves. */
TEST(a_cq_may_be_shared)
{
	struct tqp_attr attr = TQP_ATTR;
	struct engine_qp_attr create;
	unsigned int n[2] = {0, 0};
	struct shmd_cqe cqe;
	struct setup s;
	struct tqp c;

	setup(&s, 8, 0);
	tqp_init(&c, &s.w, 0, &attr);
	ASSERT_OK(engine_qp_destroy(c.node->engine, c.qpn));
	create = (struct engine_qp_attr){.qpn = c.qpn,
					 .pdn = 1,
					 .sq_ring = c.sq,
					 .log2_sq_wqebbs = c.log2_sq,
					 .rq_ring = c.rq,
					 .log2_rq_wqes = c.log2_rq,
					 .log2_rq_stride = c.log2_stride,
					 .dbrec = c.dbrec,
					 .send_cqn = s.p.a.scq.cqn,
					 .recv_cqn = s.p.a.scq.cqn};
	ASSERT_OK(engine_qp_create(c.node->engine, &create));
	tqp_connect(&c, &c, &attr);
	for (unsigned int i = 0; i < 10; i++) {
		post_recv(&c, s.local, 0, 64);
		post_send(&c, SIGNALED, s.local, 64, 8);
		post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8);
	}
	tqp_ring(&c);
	tqp_ring(&s.p.a);
	world_run(&s.w);
	while (tcq_poll(&s.p.a.scq, &cqe))
		n[(be32toh(cqe.sop_drop_qpn) & 0xffffff) == c.qpn]++;
	ASSERT_EQ(n[0], 10);
	ASSERT_EQ(n[1], 20);
	tqp_deinit(&c);
	setup_deinit(&s);
}
