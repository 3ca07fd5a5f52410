/* SPDX-License-Identifier: Apache-2.0 */
/* XRC: one connection to all SRQs of a domain, and requests that name a wrong one; raw packet QPs. */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "fixture.h"
#include "tests/lib/test.h"

#define SIZE 65536u
#define SLOT 8192u
#define LOG2_WQES 4u
#define N_SRQS 2u
#define DOMAIN 7u
#define TGT_PD 100u /* no memory is there */
#define SRQ_PD 5u

/* A sender on node 0, a receiver on node 1, and SRQs there with a CQ each, in a PD that is not the receiver's. */
struct lab {
	struct world w;
	struct region *local, *remote;
	struct tcq cqs[N_SRQS];
	struct tsrq srqs[N_SRQS];
	bool srq_gone[N_SRQS];
	struct tqp ini, tgt;
};

static void setup_attr(struct lab *l, enum mem_mode mode, struct tqp_attr attr)
{
	const uint32_t access = ENGINE_ACCESS_LOCAL_WRITE | ENGINE_ACCESS_REMOTE_WRITE |
				ENGINE_ACCESS_REMOTE_READ | ENGINE_ACCESS_REMOTE_ATOMIC;

	memset(l->srq_gone, 0, sizeof(l->srq_gone));
	world_init(&l->w, mode);
	l->local = region_new(&l->w, 0, SIZE);
	l->remote = region_new_attr(&l->w, 1, SIZE, access, SRQ_PD);
	region_fill(l->local, 1);
	for (uint32_t i = 0; i < N_SRQS; i++) {
		tcq_init(&l->cqs[i], &l->w.nodes[1], 0x9000 + i, 6, 0);
		tsrq_init_xrc(&l->srqs[i], &l->w, 1, SRQ_PD, LOG2_WQES, DOMAIN, &l->cqs[i]);
	}
	attr.type = ENGINE_QP_XRC_INI;
	tqp_init(&l->ini, &l->w, 0, &attr);
	attr.type = ENGINE_QP_XRC_TGT;
	attr.pdn = TGT_PD;
	attr.xrcdn = DOMAIN;
	tqp_init(&l->tgt, &l->w, 1, &attr);
	tqp_connect(&l->ini, &l->tgt, &attr);
	tqp_connect(&l->tgt, &l->ini, &attr);
}

static void setup(struct lab *l, enum mem_mode mode)
{
	struct tqp_attr attr = TQP_ATTR;

	setup_attr(l, mode, attr);
}

static void drop_srq(struct lab *l, unsigned int i)
{
	tsrq_deinit(&l->srqs[i]);
	l->srq_gone[i] = true;
}

static void teardown(struct lab *l)
{
	tqp_deinit(&l->ini);
	tqp_deinit(&l->tgt);
	world_run(&l->w);
	for (unsigned int i = 0; i < N_SRQS; i++) {
		if (!l->srq_gone[i])
			drop_srq(l, i);
		tcq_deinit(&l->cqs[i]);
	}
	world_deinit(&l->w);
}

static uint16_t post(struct lab *l, uint32_t srqn, unsigned int opcode, uint64_t src, uint64_t dst, uint32_t bytes)
{
	const uint64_t words[2] = {3, 0};
	struct wqe wqe;

	wqe_begin(&wqe, opcode, SIGNALED);
	wqe_xrc(&wqe, srqn);
	if (opcode != SHMD_OPCODE_SEND)
		wqe_raddr(&wqe, l->remote->iova + dst, l->remote->key);
	if (opcode == SHMD_OPCODE_ATOMIC_FA)
		wqe_words64(&wqe, words, 2);
	if (opcode == SHMD_OPCODE_RDMA_WRITE_IMM)
		wqe_imm(&wqe, 0x1234);
	wqe_data(&wqe, l->local->iova + src, l->local->key, bytes);
	return tqp_post(&l->ini, &wqe);
}

static uint16_t send_to(struct lab *l, unsigned int srq, uint64_t src, uint32_t bytes)
{
	return post(l, l->srqs[srq].srqn, SHMD_OPCODE_SEND, src, 0, bytes);
}

static void expect_recv(struct lab *l, unsigned int srq, uint8_t opcode, uint16_t index, uint32_t bytes)
{
	struct shmd_cqe cqe;

	expect_cqe(&l->cqs[srq], opcode, index, &cqe);
	ASSERT_EQ(be32toh(cqe.byte_cnt), bytes);
	ASSERT_EQ(be32toh(cqe.srqn_uidx), l->srqs[srq].srqn + 0x20000);
	ASSERT_EQ(be32toh(cqe.sop_drop_qpn) & 0xffffff, l->tgt.qpn);
	ASSERT_EQ(be32toh(cqe.flags_rqpn) & 0xffffff, l->ini.qpn);
}

static unsigned int n_errors(const struct lab *l)
{
	return world_count_events(&l->w.nodes[1], ENGINE_EVENT_QP_ERROR);
}

TEST(xrc_messages_reach_each_srq_of_the_domain_through_one_connection)
{
	FOR_EACH_MODE(mode)
	{
		struct lab l;

		setup(&l, mode);
		for (unsigned int i = 0; i < 6; i++) {
			ASSERT_EQ(tsrq_post(&l.srqs[i & 1], l.remote, SLOT * i, SLOT), i / 2);
			send_to(&l, i & 1, 512 * i, i & 2 ? 5000 : 100);
		}
		tqp_ring(&l.ini);
		world_run(&l.w);
		for (uint16_t i = 0; i < 6; i++) {
			expect_ok(&l.ini, i);
			expect_recv(&l, i & 1, SHMD_CQE_RESP_SEND, i / 2, i & 2 ? 5000 : 100);
			ASSERT_MEMEQ(l.remote->bytes + SLOT * i, l.local->bytes + 512 * i, i & 2 ? 5000 : 100);
		}
		teardown(&l);
	}
}

/* The receiver's own PD has none of it. */
TEST(xrc_remote_memory_is_that_of_the_pd_of_the_srq)
{
	FOR_EACH_MODE(mode)
	{
		struct shmd_cqe cqe;
		struct lab l;

		setup(&l, mode);
		tsrq_post(&l.srqs[1], l.remote, SIZE - 64, 64);
		post(&l, l.srqs[0].srqn, SHMD_OPCODE_RDMA_WRITE, 0, 100, 9000);
		post(&l, l.srqs[1].srqn, SHMD_OPCODE_RDMA_WRITE_IMM, 9000, 9100, 300);
		post(&l, l.srqs[0].srqn, SHMD_OPCODE_ATOMIC_FA, SIZE - 8, 40000, 8);
		post(&l, l.srqs[1].srqn, SHMD_OPCODE_RDMA_READ, 30000, 100, 9300);
		tqp_ring(&l.ini);
		world_run(&l.w);
		for (uint16_t i = 0; i < 4; i++) {
			ASSERT(tcq_poll(&l.ini.scq, &cqe));
			ASSERT_EQ(cqe.op_own >> 4, SHMD_CQE_REQ);
		}
		ASSERT_MEMEQ(l.remote->bytes + 100, l.local->bytes, 9300);
		ASSERT_MEMEQ(l.local->bytes + 30000, l.local->bytes, 9300);
		ASSERT_EQ(l.remote->bytes[40000], 3);
		expect_recv(&l, 1, SHMD_CQE_RESP_WRITE_IMM, 0, 300);
		tcq_expect_none(&l.cqs[0]);
		teardown(&l);
	}
}

/* No SRQ, one of no domain, one of another, and keys of another PD than the SRQ's. */
TEST(xrc_request_for_an_srq_that_is_not_of_the_domain_ends_the_connection)
{
	for (unsigned int i = 0; i < 4; i++) {
		struct tsrq other;
		struct lab l;

		setup(&l, MEM_POINTER);
		if (i == 0)
			tsrq_init(&other, &l.w, 1, SRQ_PD, LOG2_WQES);
		else
			tsrq_init_xrc(&other, &l.w, 1, i == 3 ? SRQ_PD + 1 : SRQ_PD, LOG2_WQES,
				      i == 3 ? DOMAIN : DOMAIN + 1, &l.cqs[0]);
		tsrq_post(&other, l.remote, 0, SLOT);
		post(&l, i == 1 ? 0xabcdef : other.srqn, SHMD_OPCODE_RDMA_WRITE, 0, 0, 64);
		tqp_ring(&l.ini);
		world_run(&l.w);
		expect_error(&l.ini.scq, false, 0,
			     i == 3 ? SHMD_SYNDROME_REMOTE_ACCESS_ERR : SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR);
		ASSERT_EQ(tqp_info(&l.tgt).state, ENGINE_QP_ERR);
		ASSERT_EQ(n_errors(&l), 1);
		ASSERT_EQ(world_count_events(&l.w.nodes[1], ENGINE_EVENT_QP_LAST_WQE), 0);
		tsrq_deinit(&other);
		teardown(&l);
	}
}

TEST(xrc_srq_that_is_empty_is_waited_for_and_the_next_one_is_not_asked)
{
	struct lab l;

	setup(&l, MEM_POINTER);
	tsrq_post(&l.srqs[1], l.remote, 0, SLOT);
	send_to(&l, 0, 0, 64);
	send_to(&l, 1, 64, 64);
	tqp_ring(&l.ini);
	world_run(&l.w);
	tcq_expect_none(&l.cqs[0]);
	tcq_expect_none(&l.cqs[1]);
	tsrq_post(&l.srqs[0], l.remote, SLOT, SLOT);
	world_run_timers(&l.w, 1000000000);
	expect_recv(&l, 0, SHMD_CQE_RESP_SEND, 0, 64);
	expect_recv(&l, 1, SHMD_CQE_RESP_SEND, 0, 64);
	ASSERT_EQ(tqp_info(&l.ini).counters.rnr_naks, 1);
	teardown(&l);
}

/* At every step of a long message. */
TEST(xrc_srq_that_goes_takes_the_messages_for_it_along_and_no_others)
{
	unsigned int n_went_on = 0, n_ended = 0;

	FOR_EACH_MODE(mode)
	{
		for (unsigned int steps = 0; steps < 16; steps++) {
			struct tqp_attr attr = TQP_ATTR;
			struct shmd_cqe cqe;
			struct lab l;

			attr.timeout = 1;
			attr.retry_count = 1;
			setup_attr(&l, mode, attr);
			tsrq_post(&l.srqs[0], l.remote, 0, 4 * SLOT);
			tsrq_post(&l.srqs[1], l.remote, 5 * SLOT, SLOT);
			send_to(&l, 0, 0, 3 * SLOT);
			tqp_ring(&l.ini);
			for (unsigned int i = 0; i < steps; i++)
				world_step(&l.w);
			drop_srq(&l, 0);
			send_to(&l, 1, 0, 64);
			tqp_ring(&l.ini);
			world_run_timers(&l.w, 1000000000);
			ASSERT(tcq_poll(&l.ini.scq, &cqe));
			if (cqe.op_own >> 4 == SHMD_CQE_REQ) {
				ASSERT_MEMEQ(l.remote->bytes, l.local->bytes, 3 * SLOT);
				expect_recv(&l, 1, SHMD_CQE_RESP_SEND, 0, 64);
				n_went_on++;
			} else {
				ASSERT_EQ(tqp_info(&l.tgt).state, ENGINE_QP_ERR);
				ASSERT_EQ(n_errors(&l), 1);
				tcq_expect_none(&l.cqs[1]);
				n_ended++;
			}
			teardown(&l);
		}
	}
	ASSERT_GT(n_went_on, 0);
	ASSERT_GT(n_ended, 4); /* not only where there is none from the beginning */
}

TEST(xrc_survives_what_is_lost_repeated_and_reordered)
{
	FOR_EACH_MODE(mode)
	{
		struct tqp_attr attr = TQP_ATTR;
		struct shmd_cqe cqe;
		uint64_t sum = 0;
		struct lab l;

		attr.timeout = 1;
		setup_attr(&l, mode, attr);
		l.w.lose_percent = l.w.repeat_percent = l.w.swap_percent = 3;
		for (unsigned int i = 0; i < 60; i++) {
			uint16_t index = tsrq_post(&l.srqs[i & 1], l.remote, SLOT, SLOT);

			send_to(&l, i & 1, 64 * i, 3000 + i);
			post(&l, l.srqs[~i & 1].srqn, SHMD_OPCODE_ATOMIC_FA, SIZE - 8, 0, 8);
			post(&l, l.srqs[i & 1].srqn, SHMD_OPCODE_RDMA_READ, 40000, SLOT, 3000 + i);
			sum += 3;
			tqp_ring(&l.ini);
			world_run_timers(&l.w, 1000000000);
			for (unsigned int k = 0; k < 3; k++) {
				ASSERT(tcq_poll(&l.ini.scq, &cqe));
				ASSERT_EQ(cqe.op_own >> 4, SHMD_CQE_REQ);
			}
			expect_recv(&l, i & 1, SHMD_CQE_RESP_SEND, index, 3000 + i);
			ASSERT_MEMEQ(l.local->bytes + 40000, l.local->bytes + 64 * i, 3000 + i);
			tsrq_give_back(&l.srqs[i & 1], index);
		}
		ASSERT_MEMEQ(l.remote->bytes, &sum, 8);
		ASSERT_GT(l.w.n_lost, 0);
		teardown(&l);
	}
}

/* The sender of one type reaches the receiver of the other, and no other QP. */
TEST(xrc_is_not_heard_by_a_qp_of_the_same_type_or_of_rc)
{
	static const enum engine_qp_type types[] = {ENGINE_QP_XRC_INI, ENGINE_QP_RC};

	for (unsigned int i = 0; i < 2; i++) {
		struct tqp_attr attr = TQP_ATTR;
		struct tqp other;
		struct lab l;

		attr.timeout = 1;
		attr.retry_count = 1;
		setup_attr(&l, MEM_POINTER, attr);
		attr.type = types[i];
		tqp_init(&other, &l.w, 1, &attr);
		tqp_connect(&other, &l.ini, &attr);
		ASSERT_OK(tqp_to(&l.ini, ENGINE_QP_RST));
		tqp_connect(&l.ini, &other, &attr);
		post(&l, l.srqs[0].srqn, SHMD_OPCODE_RDMA_WRITE, 0, 0, 64);
		l.ini.dbrec->snd = htobe32(1);
		tqp_ring(&l.ini);
		world_run_timers(&l.w, 1000000000);
		expect_error(&l.ini.scq, false, 0, SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
		tqp_deinit(&other);
		teardown(&l);
	}
}

TEST(xrc_what_a_qp_or_srq_has_no_use_for_is_refused)
{
	struct engine_qp_modify mod = {.state = ENGINE_QP_RTS, .set = 0};
	struct engine_qp_attr tgt = {.qpn = 0x777, .type = ENGINE_QP_XRC_TGT, .pdn = TGT_PD, .xrcdn = DOMAIN};
	struct engine_srq_attr srq;
	struct engine *engine;
	struct lab l;

	setup(&l, MEM_POINTER);
	engine = l.tgt.node->engine;
	tgt.dbrec = l.tgt.dbrec;
	ASSERT_ERR(engine_qp_create(engine, &tgt), EINVAL);
	tgt.dbrec = NULL;
	tgt.xrcdn = 1u << 24;
	ASSERT_ERR(engine_qp_create(engine, &tgt), EINVAL);
	srq = (struct engine_srq_attr){.srqn = 0x888, .is_xrc = true, .cqn = 0xabcdef, .ring = l.srqs[0].ring,
				       .dbrec = l.srqs[0].dbrec, .log2_wqes = LOG2_WQES, .log2_stride = 6};
	ASSERT_ERR(engine_srq_create(engine, &srq), EINVAL);
	srq.cqn = l.cqs[0].cqn;
	srq.user_index = 1u << 24;
	ASSERT_ERR(engine_srq_create(engine, &srq), EINVAL);
	/* A QP of another type takes nothing of an SRQ of XRC; its CQ stays as long as it. */
	tgt = (struct engine_qp_attr){.qpn = 0x777, .pdn = 1, .sq_ring = l.ini.sq, .log2_sq_wqebbs = 4, .dbrec = l.ini.dbrec,
				      .send_cqn = l.cqs[0].cqn, .recv_cqn = l.cqs[0].cqn, .has_srq = true,
				      .srqn = l.srqs[0].srqn};
	ASSERT_ERR(engine_qp_create(engine, &tgt), EINVAL);
	ASSERT_ERR(engine_cq_destroy(engine, l.cqs[0].cqn), EBUSY);
	ASSERT_OK(tqp_to(&l.tgt, ENGINE_QP_RST));
	ASSERT_ERR(engine_qp_modify(engine, l.tgt.qpn, &mod), EINVAL);
	teardown(&l);
}

/* A receiver in error flushes what it had taken; a reset forgets the SRQ. */
TEST(xrc_receiver_that_is_moved_to_error_flushes_the_receive_of_its_message)
{
	for (unsigned int to_error = 0; to_error < 2; to_error++) {
		struct lab l;

		setup(&l, MEM_DELAY);
		tsrq_post(&l.srqs[0], l.remote, 0, 4 * SLOT);
		send_to(&l, 0, 0, 3 * SLOT);
		tqp_ring(&l.ini);
		while (!tqp_info(&l.tgt).pending)
			ASSERT(world_step(&l.w));
		ASSERT_OK(tqp_to(&l.tgt, to_error ? ENGINE_QP_ERR : ENGINE_QP_RST));
		world_run(&l.w);
		if (to_error)
			expect_error(&l.cqs[0], true, 0, SHMD_SYNDROME_WR_FLUSH_ERR);
		tcq_expect_none(&l.cqs[0]);
		teardown(&l);
	}
}

TEST(xrc_cq_that_overruns_ends_its_receivers)
{
	struct lab l;

	setup(&l, MEM_POINTER);
	for (unsigned int i = 0; i < 70; i++) {
		uint16_t index = tsrq_post(&l.srqs[0], l.remote, 0, SLOT);

		send_to(&l, 0, 0, 8);
		tqp_ring(&l.ini);
		world_run(&l.w);
		tsrq_give_back(&l.srqs[0], index);
	}
	ASSERT_EQ(world_count_events(&l.w.nodes[1], ENGINE_EVENT_CQ_OVERRUN), 1);
	ASSERT_EQ(tqp_info(&l.tgt).state, ENGINE_QP_ERR);
	teardown(&l);
}

/* ---- raw packets ---- */

static void raw_to(struct tqp *qp, enum engine_qp_state last)
{
	for (enum engine_qp_state state = ENGINE_QP_INIT; state <= last; state++)
		ASSERT_OK(tqp_to(qp, state));
}

static uint16_t post_frame(struct tqp *qp, const struct region *src, unsigned int opcode, uint16_t header_bytes,
			   uint32_t key, uint32_t bytes)
{
	const uint32_t eth[4] = {0, 0, 0, (uint32_t)header_bytes << 16 | 0x0102}, more[4] = {0};
	struct wqe wqe;

	wqe_begin(&wqe, opcode, SIGNALED);
	wqe_words32(&wqe, eth, 4);
	if (header_bytes > 2)
		wqe_words32(&wqe, more, 4);
	wqe_data(&wqe, src->iova, key, bytes);
	return tqp_post(qp, &wqe);
}

TEST(raw_frames_are_checked_and_gone)
{
	static const struct {
		unsigned int opcode;
		uint32_t wrong_key, bytes;
		uint8_t syndrome;
	} frames[] = {
		{SHMD_OPCODE_SEND, 1, 64, SHMD_SYNDROME_LOCAL_PROT_ERR},
		{SHMD_OPCODE_SEND_IMM, 0, 64, SHMD_SYNDROME_LOCAL_QP_OP_ERR},
		{SHMD_OPCODE_SEND, 0, 20000, SHMD_SYNDROME_LOCAL_QP_OP_ERR},
		{SHMD_OPCODE_RDMA_WRITE, 0, 64, SHMD_SYNDROME_LOCAL_QP_OP_ERR},
	};
	struct tqp_attr attr = TQP_ATTR;
	struct region *src;
	struct world w;
	struct tqp qp;

	attr.type = ENGINE_QP_RAW;
	world_init(&w, MEM_POINTER);
	src = region_new(&w, 0, SIZE);
	for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
		tqp_init(&qp, &w, 0, &attr);
		raw_to(&qp, ENGINE_QP_RTS);
		post_frame(&qp, src, SHMD_OPCODE_SEND, 0, src->key, 1500);
		post_frame(&qp, src, SHMD_OPCODE_SEND, 18, src->key, 46);
		post_frame(&qp, src, frames[i].opcode, 0, src->key + frames[i].wrong_key, frames[i].bytes);
		tqp_ring(&qp);
		world_run(&w);
		expect_ok(&qp, 0);
		expect_ok(&qp, 1);
		expect_error(&qp.scq, false, 2, frames[i].syndrome);
		ASSERT_EQ(tqp_info(&qp).state, ENGINE_QP_SQER);
		/* It lives on. */
		ASSERT_OK(tqp_to(&qp, ENGINE_QP_RTS));
		post_frame(&qp, src, SHMD_OPCODE_SEND, 14, src->key, 64);
		tqp_ring(&qp);
		world_run(&w);
		expect_ok(&qp, 3);
		ASSERT_EQ(w.n_packets, 0);
		tqp_deinit(&qp);
	}
	world_deinit(&w);
}
