/* SPDX-License-Identifier: Apache-2.0 */
/* The QP state machine: every pair of states, the attributes each transition needs, drain, reset, destroy. */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "fixture.h"
#include "tests/lib/test.h"

#define S_ACCESS ENGINE_QP_SET_ACCESS
#define S_PATH ENGINE_QP_SET_PATH
#define S_RQ ENGINE_QP_SET_RQ_PSN
#define S_SQ ENGINE_QP_SET_SQ_PSN
#define S_RETRY ENGINE_QP_SET_RETRY
#define S_RNR ENGINE_QP_SET_RNR_TIMER
#define S_RD ENGINE_QP_SET_RD_ATOMIC
#define S_ALL 0x7fu

static const enum engine_qp_state states[] = {ENGINE_QP_RST, ENGINE_QP_INIT, ENGINE_QP_RTR,
					      ENGINE_QP_RTS, ENGINE_QP_SQER, ENGINE_QP_ERR,
					      ENGINE_QP_SQD};
#define N_STATES (sizeof(states) / sizeof(states[0]))

/* After IBTA "QP state transition properties", written down a second time. */
static const struct row {
	enum engine_qp_state from, to;
	uint32_t required, optional;
} rows[] = {
	{ENGINE_QP_RST, ENGINE_QP_INIT, S_ACCESS, 0},
	{ENGINE_QP_INIT, ENGINE_QP_INIT, 0, S_ACCESS},
	{ENGINE_QP_INIT, ENGINE_QP_RTR, S_PATH | S_RQ | S_RD | S_RNR, S_ACCESS},
	{ENGINE_QP_RTR, ENGINE_QP_RTS, S_RETRY | S_SQ | S_RD, S_ACCESS | S_RNR},
	{ENGINE_QP_RTS, ENGINE_QP_RTS, 0, S_ACCESS | S_RNR},
	{ENGINE_QP_RTS, ENGINE_QP_SQD, 0, 0},
	{ENGINE_QP_SQD, ENGINE_QP_SQD, 0, S_ACCESS | S_RNR | S_PATH | S_RETRY | S_RD},
	{ENGINE_QP_SQD, ENGINE_QP_RTS, 0, S_ACCESS | S_RNR},
};

static const struct row *find_row(enum engine_qp_state from, enum engine_qp_state to)
{
	static struct row any;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].from == from && rows[i].to == to)
			return &rows[i];
	}
	any = (struct row){from, to, 0, 0};
	return to == ENGINE_QP_RST || to == ENGINE_QP_ERR ? &any : NULL;
}

static struct engine_qp_modify modify_to(enum engine_qp_state state, uint32_t set)
{
	return (struct engine_qp_modify){
		.state = state,
		.set = set,
		.dest_qpn = 0x123,
		.path_mtu_bytes = 1024,
		.timeout = 14,
		.retry_count = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
	};
}

/* False for SQER, which an RC QP never enters. */
static bool bring_to(struct tqp *qp, enum engine_qp_state state)
{
	struct tqp_attr attr = TQP_ATTR;

	ASSERT_OK(tqp_to(qp, ENGINE_QP_RST));
	if (state == ENGINE_QP_RST)
		return true;
	if (state == ENGINE_QP_ERR)
		return tqp_to(qp, ENGINE_QP_ERR) == 0;
	ASSERT_OK(tqp_to_init(qp, &attr));
	if (state == ENGINE_QP_INIT)
		return true;
	ASSERT_OK(tqp_to_rtr(qp, qp, &attr));
	if (state == ENGINE_QP_RTR)
		return true;
	ASSERT_OK(tqp_to_rts(qp, &attr));
	if (state == ENGINE_QP_RTS)
		return true;
	return state == ENGINE_QP_SQD && tqp_to(qp, ENGINE_QP_SQD) == 0;
}

TEST(every_pair_of_states_with_every_set_of_attributes)
{
	struct tqp_attr attr = TQP_ATTR;
	unsigned int n_allowed = 0;
	struct world w;
	struct tqp qp;

	world_init(&w, MEM_POINTER);
	tqp_init(&qp, &w, 0, &attr);
	for (size_t f = 0; f < N_STATES; f++) {
		for (size_t t = 0; t < N_STATES; t++) {
			const struct row *row = find_row(states[f], states[t]);

			for (uint32_t set = 0; set <= S_ALL; set++) {
				struct engine_qp_modify mod = modify_to(states[t], set);
				bool allowed = row && (set & row->required) == row->required &&
					       !(set & ~(row->required | row->optional));
				int r;

				if (!bring_to(&qp, states[f]))
					continue;
				r = engine_qp_modify(qp.node->engine, qp.qpn, &mod);
				ASSERT_EQ(r, allowed ? 0 : -EINVAL);
				ASSERT_EQ(tqp_info(&qp).state, allowed ? states[t] : states[f]);
				n_allowed += allowed;
			}
		}
	}
	ASSERT_GT(n_allowed, 12 + 30);
	tqp_deinit(&qp);
	world_deinit(&w);
}

TEST(values_out_of_range_are_refused)
{
	struct tqp_attr attr = TQP_ATTR;
	struct engine_qp_modify mod;
	struct world w;
	struct tqp qp;

	world_init(&w, MEM_POINTER);
	tqp_init(&qp, &w, 0, &attr);
	mod = modify_to((enum engine_qp_state)8, 0);
	ASSERT_ERR(engine_qp_modify(qp.node->engine, qp.qpn, &mod), EINVAL);
	mod = modify_to((enum engine_qp_state) - 1, 0);
	ASSERT_ERR(engine_qp_modify(qp.node->engine, qp.qpn, &mod), EINVAL);
	mod = modify_to(ENGINE_QP_INIT, S_ACCESS | 0x80);
	ASSERT_ERR(engine_qp_modify(qp.node->engine, qp.qpn, &mod), EINVAL);
	mod = modify_to(ENGINE_QP_INIT, S_ACCESS);
	mod.access = ENGINE_ACCESS_LOCAL_WRITE;
	ASSERT_ERR(engine_qp_modify(qp.node->engine, qp.qpn, &mod), EINVAL);
	ASSERT_ERR(engine_qp_modify(qp.node->engine, 0xffffff, &mod), ENOENT);
	ASSERT_OK(tqp_to_init(&qp, &attr));

#define REFUSED_RTR(field, value)                                                                  \
	do {                                                                                       \
		mod = modify_to(ENGINE_QP_RTR, S_PATH | S_RQ | S_RD | S_RNR);                      \
		mod.field = (value);                                                               \
		ASSERT_ERR(engine_qp_modify(qp.node->engine, qp.qpn, &mod), EINVAL);               \
	} while (0)
	REFUSED_RTR(dest_qpn, 0x1000000);
	REFUSED_RTR(path_mtu_bytes, 128);
	REFUSED_RTR(path_mtu_bytes, 8192);
	REFUSED_RTR(path_mtu_bytes, 1000);
	REFUSED_RTR(rq_psn, 0x1000000);
	REFUSED_RTR(min_rnr_timer, 32);
	REFUSED_RTR(max_dest_rd_atomic, 17);
#undef REFUSED_RTR
	mod = modify_to(ENGINE_QP_RTR, S_PATH | S_RQ | S_RD | S_RNR);
	mod.dest_gid[0] = N_NODES;
	ASSERT_ERR(engine_qp_modify(qp.node->engine, qp.qpn, &mod), EHOSTUNREACH);
	ASSERT_EQ(tqp_info(&qp).state, ENGINE_QP_INIT);
	ASSERT_OK(tqp_to_rtr(&qp, &qp, &attr));

#define REFUSED_RTS(field, value)                                                                  \
	do {                                                                                       \
		mod = modify_to(ENGINE_QP_RTS, S_RETRY | S_SQ | S_RD);                             \
		mod.field = (value);                                                               \
		ASSERT_ERR(engine_qp_modify(qp.node->engine, qp.qpn, &mod), EINVAL);               \
	} while (0)
	REFUSED_RTS(timeout, 32);
	REFUSED_RTS(retry_count, 8);
	REFUSED_RTS(rnr_retry, 8);
	REFUSED_RTS(sq_psn, 0x1000000);
	REFUSED_RTS(max_rd_atomic, 17);
#undef REFUSED_RTS
	tqp_deinit(&qp);
	world_deinit(&w);
}

TEST(creation_is_checked)
{
	struct tqp_attr attr = TQP_ATTR;
	struct engine_qp_attr good, bad;
	struct engine *engine;
	struct world w;
	struct tqp qp;

	world_init(&w, MEM_POINTER);
	engine = w.nodes[0].engine;
	tqp_init(&qp, &w, 0, &attr);
	good = (struct engine_qp_attr){.qpn = 0x5000,
				       .pdn = 1,
				       .sq_ring = qp.sq,
				       .log2_sq_wqebbs = 4,
				       .rq_ring = qp.rq,
				       .log2_rq_wqes = 0,
				       .log2_rq_stride = 4,
				       .dbrec = qp.dbrec,
				       .send_cqn = qp.scq.cqn,
				       .recv_cqn = qp.rcq.cqn};
#define REFUSED(field, value, err)                                                                 \
	do {                                                                                       \
		bad = good;                                                                        \
		bad.field = (value);                                                               \
		ASSERT_ERR(engine_qp_create(engine, &bad), err);                                   \
	} while (0)
	REFUSED(type, ENGINE_QP_DCI, EINVAL); /* it has a receive ring */
	REFUSED(type, ENGINE_QP_DCT, EINVAL);
	REFUSED(type, ENGINE_QP_XRC_INI, EINVAL);
	REFUSED(type, ENGINE_QP_XRC_TGT, EINVAL);
	REFUSED(type, 8, EOPNOTSUPP);
	REFUSED(qpn, qp.qpn, EEXIST);
	REFUSED(qpn, 0x1000000, EINVAL);
	REFUSED(user_index, 0x1000000, EINVAL);
	REFUSED(sq_ring, NULL, EINVAL);
	REFUSED(dbrec, NULL, EINVAL);
	REFUSED(log2_sq_wqebbs, 16, EINVAL);
	REFUSED(log2_rq_wqes, 16, EINVAL);
	REFUSED(log2_rq_stride, 3, EINVAL);
	REFUSED(log2_rq_stride, 10, EINVAL);
	REFUSED(send_cqn, 0xabcdef, EINVAL);
	REFUSED(recv_cqn, 0xabcdef, EINVAL);
#undef REFUSED
	ASSERT_OK(engine_qp_create(engine, &good));
	ASSERT_ERR(engine_cq_destroy(engine, qp.scq.cqn), EBUSY);
	ASSERT_OK(engine_qp_destroy(engine, good.qpn));
	ASSERT_ERR(engine_qp_destroy(engine, good.qpn), ENOENT);
	tqp_deinit(&qp);
	world_deinit(&w);
}

TEST(numbers_are_limited)
{
	struct engine_attr attr = {.max_qps = 1, .max_cqs = 1, .max_mrs = 1, .chunk_bytes = 4096};
	struct engine_ops ops = {0};
	uint8_t ring[64], sq[1024];
	struct shmd_dbrec dbrec = {0};
	struct engine_cq_attr cq = {.cqn = 1, .ring = ring, .dbrec = &dbrec};
	struct engine_qp_attr qp = {.qpn = 1,
				    .sq_ring = sq,
				    .log2_sq_wqebbs = 4,
				    .dbrec = &dbrec,
				    .send_cqn = 1,
				    .recv_cqn = 1};
	struct engine *engine;

	for (uint32_t chunk = 0; chunk < 4; chunk++) {
		static const uint32_t bad[] = {0, 128, 3000, 2u << 20};

		attr.chunk_bytes = bad[chunk];
		ASSERT_ERR(engine_new(&attr, &ops, NULL, &engine), EINVAL);
	}
	attr.chunk_bytes = 256;
	ASSERT_OK(engine_new(&attr, &ops, NULL, &engine));
	ASSERT_OK(engine_cq_create(engine, &cq));
	cq.cqn = 2;
	ASSERT_ERR(engine_cq_create(engine, &cq), ENOSPC);
	ASSERT_OK(engine_qp_create(engine, &qp));
	qp.qpn = 2;
	ASSERT_ERR(engine_qp_create(engine, &qp), ENOSPC);
	engine_free(engine);
}

TEST(nothing_is_sent_before_rts_nor_received_before_rtr)
{
	struct tqp_attr attr = TQP_ATTR;
	struct setup s;

	setup_init(&s, MEM_POINTER, 16384, NULL);
	ASSERT(bring_to(&s.p.a, ENGINE_QP_INIT));
	post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8);
	tqp_ring(&s.p.a);
	world_run(&s.w);
	ASSERT_OK(tqp_to_rtr(&s.p.a, &s.p.b, &attr));
	tqp_ring(&s.p.a);
	world_run(&s.w);
	tcq_expect_none(&s.p.a.scq);
	ASSERT_EQ(s.w.n_packets, 0);
	/* Requests posted early leave at RTS, without another doorbell. */
	ASSERT_OK(tqp_to_rts(&s.p.a, &attr));
	world_run(&s.w);
	expect_ok(&s.p.a, 0);
	setup_deinit(&s);
}

TEST(rtr_answers_the_peer)
{
	struct tqp_attr attr = TQP_ATTR;
	struct setup s;

	setup_init(&s, MEM_POINTER, 16384, NULL);
	ASSERT_OK(tqp_to(&s.p.b, ENGINE_QP_RST));
	ASSERT_OK(tqp_to_init(&s.p.b, &attr));
	ASSERT_OK(tqp_to_rtr(&s.p.b, &s.p.a, &attr));
	post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 9000);
	tqp_ring(&s.p.a);
	world_run(&s.w);
	expect_ok(&s.p.a, 0);
	ASSERT_MEMEQ(s.remote->bytes, s.local->bytes, 9000);
	setup_deinit(&s);
}

TEST(sqd_drains_and_goes_on)
{
	FOR_EACH_MODE(mode)
	{
		struct setup s;

		setup_init(&s, mode, 16384, NULL);
		for (unsigned int i = 0; i < 40; i++)
			post_write(&s.p.a, i == 39 ? SIGNALED : 0, s.local, 0, s.remote, 0, 5000);
		tqp_ring(&s.p.a);
		world_step(&s.w);
		ASSERT_OK(tqp_to(&s.p.a, ENGINE_QP_SQD));
		world_run(&s.w);
		/* Stopped somewhere, with nothing on its way. */
		ASSERT_EQ(world_count_events(&s.w.nodes[0], ENGINE_EVENT_QP_SQ_DRAINED), 1);
		ASSERT_EQ(tqp_info(&s.p.a).pending, 0);
		ASSERT_LT(tqp_info(&s.p.a).sq_ci, 40);
		tcq_expect_none(&s.p.a.scq);
		/* The responder half works on. */
		post_write(&s.p.b, SIGNALED, s.remote, 0, s.local, 8000, 8);
		tqp_ring(&s.p.b);
		world_run(&s.w);
		expect_ok(&s.p.b, 0);
		ASSERT_OK(tqp_to(&s.p.a, ENGINE_QP_RTS));
		world_run(&s.w);
		expect_ok(&s.p.a, 39);
		ASSERT_EQ(world_count_events(&s.w.nodes[0], ENGINE_EVENT_QP_SQ_DRAINED), 1);
		setup_deinit(&s);
	}
}

TEST(sqd_of_an_idle_qp_is_drained_at_once)
{
	struct setup s;

	setup_init(&s, MEM_POINTER, 16384, NULL);
	world_run(&s.w);
	ASSERT_OK(tqp_to(&s.p.a, ENGINE_QP_SQD));
	world_run(&s.w);
	ASSERT_EQ(world_count_events(&s.w.nodes[0], ENGINE_EVENT_QP_SQ_DRAINED), 1);
	setup_deinit(&s);
}

static void clear_queues(struct tqp *qp)
{
	qp->pi = qp->rq_pi = 0;
	memset(qp->dbrec, 0, sizeof(*qp->dbrec));
}

TEST(a_reset_qp_lives_again)
{
	FOR_EACH_MODE(mode)
	{
		struct tqp_attr attr = TQP_ATTR;
		struct setup s;

		setup_init(&s, mode, 16384, NULL);
		for (unsigned int life = 0; life < 5; life++) {
			uint16_t first = 0;
			struct shmd_cqe cqe;

			/* Stopped in the middle of something else each time. */
			post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 9000);
			post_read(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 9000);
			post_fadd(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 1);
			tqp_ring(&s.p.a);
			for (unsigned int i = 0; i < life; i++)
				world_step(&s.w);
			ASSERT_OK(tqp_to(&s.p.a, ENGINE_QP_RST));
			ASSERT_OK(tqp_to(&s.p.b, ENGINE_QP_RST));
			while (tcq_poll(&s.p.a.scq, &cqe))
				;
			clear_queues(&s.p.a);
			clear_queues(&s.p.b);
			attr.psn = (attr.psn + 1000) & 0xffffff;
			tqp_connect(&s.p.a, &s.p.b, &attr);
			tqp_connect(&s.p.b, &s.p.a, &attr);
			region_fill(s.remote, life);
			first = post_read(&s.p.a, SIGNALED, s.local, 4096, s.remote, 0, 9000);
			tqp_ring(&s.p.a);
			world_run(&s.w);
			expect_ok(&s.p.a, first);
			tcq_expect_none(&s.p.a.scq);
			ASSERT_MEMEQ(s.local->bytes + 4096, s.remote->bytes, 9000);
			ASSERT_OK(tqp_to(&s.p.a, ENGINE_QP_RST));
			ASSERT_OK(tqp_to(&s.p.b, ENGINE_QP_RST));
			clear_queues(&s.p.a);
			clear_queues(&s.p.b);
			tqp_connect(&s.p.a, &s.p.b, &attr);
			tqp_connect(&s.p.b, &s.p.a, &attr);
		}
		setup_deinit(&s);
	}
}

/* Destroyed at every moment: the rings are let go at once, the number when memory operations have ended. */
TEST(a_qp_may_be_destroyed_at_any_moment)
{
	FOR_EACH_MODE(mode)
	{
		for (unsigned int steps = 0; steps < 40; steps++) {
			for (unsigned int who = 0; who < 2; who++) {
				struct tqp *victim;
				struct setup s;

				setup_init(&s, mode, 16384, NULL);
				post_recv(&s.p.b, s.remote, 0, 5000);
				post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 9000);
				post_fadd(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 1);
				post_read(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 9000);
				post_send(&s.p.a, SIGNALED, s.local, 0, 5000);
				tqp_ring(&s.p.a);
				for (unsigned int i = 0; i < steps; i++)
					world_step(&s.w);
				victim = who ? &s.p.b : &s.p.a;
				ASSERT_OK(engine_qp_destroy(victim->node->engine, victim->qpn));
				memset(victim->sq, 0xaa, 64);
				world_run_timers(&s.w, 1000000);
				ASSERT_EQ(victim->sq[0], 0xaa);
				{
					/* The number is free again. */
					struct engine_qp_attr again = {.qpn = victim->qpn,
								       .sq_ring = victim->sq,
								       .log2_sq_wqebbs = 4,
								       .dbrec = victim->dbrec,
								       .send_cqn = victim->scq.cqn,
								       .recv_cqn = victim->rcq.cqn};

					ASSERT_OK(engine_qp_create(victim->node->engine, &again));
				}
				setup_deinit(&s);
			}
		}
	}
}

TEST(the_number_stays_taken_while_memory_operations_are_pending)
{
	struct engine_qp_attr again;
	struct engine_qp_info info;
	struct setup s;

	setup_init(&s, MEM_DELAY, 16384, NULL);
	s.w.delays.hold_turns = 20;
	post_read(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 5000);
	tqp_ring(&s.p.a);
	while (tqp_info(&s.p.a).pending != 2)
		ASSERT(world_step(&s.w));
	ASSERT_OK(engine_qp_destroy(s.w.nodes[0].engine, s.p.a.qpn));
	ASSERT_ERR(engine_qp_query(s.w.nodes[0].engine, s.p.a.qpn, &info), ENOENT);
	again = (struct engine_qp_attr){.qpn = s.p.a.qpn,
					.sq_ring = s.p.a.sq,
					.log2_sq_wqebbs = 4,
					.dbrec = s.p.a.dbrec,
					.send_cqn = s.p.a.scq.cqn,
					.recv_cqn = s.p.a.rcq.cqn};
	ASSERT_ERR(engine_qp_create(s.w.nodes[0].engine, &again), EEXIST);
	/* The region may go too: the operation holds the memory. */
	region_dereg(s.local);
	world_run(&s.w);
	ASSERT_OK(engine_qp_create(s.w.nodes[0].engine, &again));
	setup_deinit(&s);
}
