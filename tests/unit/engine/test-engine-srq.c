/* SPDX-License-Identifier: Apache-2.0 */
/* SRQ: one queue of receives for QPs of every type, its limit, and what a client may write there. */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "fixture.h"
#include "tests/lib/test.h"

#define SIZE 65536u
#define SLOT 4096u
#define LOG2_WQES 4u
#define QKEY 0x77u
#define N_PAIRS 3u

/* Pairs of a sender on node 0 and a receiver on node 1, whose receivers share an SRQ. */
struct lab {
	struct world w;
	struct region *local, *remote;
	struct tsrq srq;
	struct tqp senders[N_PAIRS], receivers[N_PAIRS];
	unsigned int n;
};

static void add_pair(struct lab *l, enum engine_qp_type type, struct tqp_attr attr)
{
	struct tqp *sender = &l->senders[l->n], *receiver = &l->receivers[l->n];

	attr.type = type;
	attr.qkey = QKEY;
	tqp_init(sender, &l->w, 0, &attr);
	attr.srq = &l->srq;
	tqp_init(receiver, &l->w, 1, &attr);
	tqp_connect(sender, receiver, &attr);
	tqp_connect(receiver, sender, &attr);
	l->n++;
}

static void setup_attr(struct lab *l, enum mem_mode mode, enum engine_qp_type type, unsigned int n, struct tqp_attr attr)
{
	l->n = 0;
	world_init(&l->w, mode);
	l->local = region_new(&l->w, 0, SIZE);
	l->remote = region_new(&l->w, 1, SIZE);
	region_fill(l->local, 1);
	tsrq_init(&l->srq, &l->w, 1, attr.pdn, LOG2_WQES);
	for (unsigned int i = 0; i < n; i++)
		add_pair(l, type, attr);
}

static void setup(struct lab *l, enum mem_mode mode, enum engine_qp_type type, unsigned int n)
{
	struct tqp_attr attr = TQP_ATTR;

	setup_attr(l, mode, type, n, attr);
}

static void teardown(struct lab *l)
{
	for (unsigned int i = 0; i < l->n; i++) {
		tqp_deinit(&l->senders[i]);
		tqp_deinit(&l->receivers[i]);
	}
	tsrq_deinit(&l->srq);
	world_deinit(&l->w);
}

static uint16_t send(struct lab *l, unsigned int pair, uint64_t offset, uint32_t bytes)
{
	struct tqp *from = &l->senders[pair];
	struct wqe wqe;
	uint16_t index;

	wqe_begin(&wqe, SHMD_OPCODE_SEND, SIGNALED);
	if (from->type == ENGINE_QP_UD)
		wqe_av(&wqe, &l->receivers[pair], QKEY);
	wqe_data(&wqe, l->local->iova + offset, l->local->key, bytes);
	index = tqp_post(from, &wqe);
	tqp_ring(from);
	return index;
}

static void expect_recv(struct lab *l, unsigned int pair, uint16_t index, uint64_t dst, uint64_t src, uint32_t bytes)
{
	uint32_t grh = l->receivers[pair].type == ENGINE_QP_UD ? SHMD_GRH_BYTES : 0;
	struct shmd_cqe cqe;

	expect_cqe(&l->receivers[pair].rcq, SHMD_CQE_RESP_SEND, index, &cqe);
	ASSERT_EQ(be32toh(cqe.byte_cnt), bytes + grh);
	ASSERT_EQ(be32toh(cqe.flags_rqpn) & 0xffffff, l->senders[pair].qpn);
	ASSERT_EQ(be32toh(cqe.sop_drop_qpn) & 0xffffff, l->receivers[pair].qpn);
	ASSERT_MEMEQ(l->remote->bytes + dst + grh, l->local->bytes + src, bytes);
}

static struct engine_srq_info srq_info(const struct lab *l)
{
	struct engine_srq_info info;

	ASSERT_OK(engine_srq_query(l->srq.node->engine, l->srq.srqn, &info));
	return info;
}

static unsigned int n_events(const struct lab *l, enum engine_event_kind kind)
{
	return world_count_events(&l->w.nodes[1], kind);
}

static const enum engine_qp_type types[] = {ENGINE_QP_RC, ENGINE_QP_UC, ENGINE_QP_UD};

TEST(srq_serves_qps_of_every_type_in_the_order_of_their_messages)
{
	FOR_EACH_MODE(mode)
	{
		struct tqp_attr attr = TQP_ATTR;
		struct lab l;

		setup(&l, mode, ENGINE_QP_RC, 0);
		for (unsigned int i = 0; i < N_PAIRS; i++)
			add_pair(&l, types[i], attr);
		for (unsigned int i = 0; i < 6; i++)
			ASSERT_EQ(tsrq_post(&l.srq, l.remote, SLOT * i, SLOT), i);
		for (unsigned int i = 0; i < 6; i++) {
			send(&l, i % 3, 10 * i, 1000 + i);
			world_run(&l.w);
			expect_recv(&l, i % 3, (uint16_t)i, SLOT * i, 10 * i, 1000 + i);
		}
		ASSERT_EQ(srq_info(&l).ci, 6);
		ASSERT_EQ(srq_info(&l).next_index, 6);
		ASSERT_EQ(l.w.nodes[1].n_events, 0);
		teardown(&l);
	}
}

/* WQEs given back in another order than they were taken: the list is followed, not the ring. */
TEST(srq_follows_the_list_of_its_client)
{
	struct shmd_cqe cqe;
	unsigned int seed = 1;
	struct lab l;

	setup(&l, MEM_POINTER, ENGINE_QP_RC, 2);
	for (unsigned int round = 0; round < 200; round++) {
		uint16_t indexes[8], n = (uint16_t)(1 + round % 8);

		for (uint16_t i = 0; i < n; i++)
			indexes[i] = tsrq_post(&l.srq, l.remote, SLOT * i, SLOT);
		for (uint16_t i = 0; i < n; i++) {
			send(&l, round & 1, i, 100);
			world_run(&l.w);
			expect_recv(&l, round & 1, indexes[i], SLOT * i, i, 100);
			ASSERT(tcq_poll(&l.senders[round & 1].scq, &cqe));
		}
		for (uint16_t left = n; left > 0; left--) {
			uint16_t pick;

			seed = seed * 1103515245u + 12345u;
			pick = (uint16_t)((seed >> 16) % left);
			tsrq_give_back(&l.srq, indexes[pick]);
			indexes[pick] = indexes[left - 1];
		}
	}
	ASSERT(!srq_info(&l).error);
	teardown(&l);
}

TEST(srq_empty_is_rnr_for_rc_only)
{
	for (unsigned int i = 0; i < N_PAIRS; i++) {
		struct lab l;
		uint16_t index;

		setup(&l, MEM_POINTER, types[i], 1);
		index = send(&l, 0, 0, 64);
		world_run(&l.w);
		ASSERT_EQ(tqp_info(&l.senders[0]).counters.rnr_naks, types[i] == ENGINE_QP_RC);
		ASSERT_EQ(tqp_info(&l.receivers[0]).counters.dropped, types[i] != ENGINE_QP_RC);
		tsrq_post(&l.srq, l.remote, 0, SLOT);
		world_run_timers(&l.w, 100000000);
		expect_ok(&l.senders[0], index);
		if (types[i] == ENGINE_QP_RC)
			expect_recv(&l, 0, 0, 0, 0, 64);
		else
			tcq_expect_none(&l.receivers[0].rcq);
		teardown(&l);
	}
}

TEST(srq_limit_is_reported_once_each_time_it_is_armed)
{
	struct engine *engine;
	struct lab l;

	setup(&l, MEM_POINTER, ENGINE_QP_RC, 1);
	engine = l.srq.node->engine;
	for (unsigned int i = 0; i < 8; i++)
		tsrq_post(&l.srq, l.remote, SLOT * i, SLOT);
	/* None of them has been looked at yet. */
	ASSERT_OK(engine_srq_arm(engine, l.srq.srqn, 6));
	ASSERT_EQ(n_events(&l, ENGINE_EVENT_SRQ_LIMIT), 0);
	ASSERT_EQ(srq_info(&l).limit, 6);
	for (unsigned int i = 0; i < 4; i++) {
		send(&l, 0, 0, 64);
		world_run(&l.w);
		/* Below 6 with the third. */
		ASSERT_EQ(n_events(&l, ENGINE_EVENT_SRQ_LIMIT), i >= 2);
	}
	ASSERT_EQ(l.w.nodes[1].events[0].number, l.srq.srqn);
	ASSERT_EQ(srq_info(&l).limit, 0);
	/* Below it already; then a limit that nothing is below. */
	ASSERT_OK(engine_srq_arm(engine, l.srq.srqn, 5));
	ASSERT_EQ(n_events(&l, ENGINE_EVENT_SRQ_LIMIT), 2);
	ASSERT_OK(engine_srq_arm(engine, l.srq.srqn, 4));
	ASSERT_OK(engine_srq_arm(engine, l.srq.srqn, 0));
	send(&l, 0, 0, 64);
	world_run(&l.w);
	ASSERT_EQ(n_events(&l, ENGINE_EVENT_SRQ_LIMIT), 2);
	/* Posting counts, also when the engine has not seen it. */
	ASSERT_OK(engine_srq_arm(engine, l.srq.srqn, 3));
	for (unsigned int i = 0; i < 4; i++)
		tsrq_post(&l.srq, l.remote, 0, SLOT);
	send(&l, 0, 0, 64);
	world_run(&l.w);
	ASSERT_EQ(n_events(&l, ENGINE_EVENT_SRQ_LIMIT), 2);
	ASSERT_ERR(engine_srq_arm(engine, l.srq.srqn, (1u << LOG2_WQES) + 1), EINVAL);
	ASSERT_ERR(engine_srq_arm(engine, 0xabcdef, 1), ENOENT);
	teardown(&l);
}

/* The keys of its WQEs are those of its own PD. */
TEST(srq_has_a_pd_of_its_own)
{
	for (uint32_t srq_pdn = 1; srq_pdn <= 2; srq_pdn++) {
		struct tqp_attr attr = TQP_ATTR;
		struct lab l;

		setup(&l, MEM_POINTER, ENGINE_QP_RC, 0);
		tsrq_deinit(&l.srq);
		tsrq_init(&l.srq, &l.w, 1, srq_pdn, LOG2_WQES);
		add_pair(&l, ENGINE_QP_RC, attr);
		tsrq_post(&l.srq, l.remote, 0, SLOT); /* of PD 1 */
		send(&l, 0, 0, 64);
		world_run(&l.w);
		if (srq_pdn == 1)
			expect_recv(&l, 0, 0, 0, 0, 64);
		else
			expect_error(&l.receivers[0].rcq, true, 0, SHMD_SYNDROME_LOCAL_PROT_ERR);
		teardown(&l);
	}
}

TEST(srq_number_in_cqes_on_request)
{
	for (unsigned int asked = 0; asked < 2; asked++) {
		struct tqp_attr attr = TQP_ATTR;
		struct shmd_err_cqe err;
		struct shmd_cqe cqe;
		uint32_t expected;
		struct lab l;

		attr.srqn_in_cqes = asked;
		setup_attr(&l, MEM_POINTER, ENGINE_QP_RC, 1, attr);
		expected = asked ? l.srq.srqn : l.receivers[0].qpn + 0x10000;
		tsrq_post(&l.srq, l.remote, 0, SLOT);
		tsrq_post(&l.srq, l.remote, 0, 8);
		send(&l, 0, 0, 64);
		send(&l, 0, 0, 64);
		world_run(&l.w);
		expect_cqe(&l.receivers[0].rcq, SHMD_CQE_RESP_SEND, 0, &cqe);
		ASSERT_EQ(be32toh(cqe.srqn_uidx), expected);
		/* Longer than its receive: an error CQE. */
		expect_cqe(&l.receivers[0].rcq, SHMD_CQE_RESP_ERR, 1, &cqe);
		memcpy(&err, &cqe, sizeof(err));
		ASSERT_EQ(err.syndrome, SHMD_SYNDROME_LOCAL_LENGTH_ERR);
		ASSERT_EQ(be32toh(err.srqn), expected);
		teardown(&l);
	}
}

/* Posted entries stay for the other QPs; only the entries that this QP took are flushed. */
TEST(srq_outlives_the_error_of_a_qp)
{
	struct lab l;

	setup(&l, MEM_DELAY, ENGINE_QP_RC, 2);
	l.w.delays.hold_turns = 50;
	for (unsigned int i = 0; i < 3; i++)
		tsrq_post(&l.srq, l.remote, SLOT * i, SLOT);
	send(&l, 0, 0, 3000);
	for (unsigned int i = 0; i < 10; i++)
		world_step(&l.w);
	ASSERT_EQ(srq_info(&l).ci, 1);
	ASSERT_OK(tqp_to(&l.receivers[0], ENGINE_QP_ERR));
	ASSERT_EQ(n_events(&l, ENGINE_EVENT_QP_LAST_WQE), 0);
	world_run(&l.w);
	expect_error(&l.receivers[0].rcq, true, 0, SHMD_SYNDROME_WR_FLUSH_ERR);
	tcq_expect_none(&l.receivers[0].rcq);
	ASSERT_EQ(n_events(&l, ENGINE_EVENT_QP_LAST_WQE), 1);
	ASSERT_EQ(l.w.nodes[1].events[0].number, l.receivers[0].qpn);
	send(&l, 1, 0, 64);
	world_run(&l.w);
	expect_recv(&l, 1, 1, SLOT, 0, 64);
	/* Once for each stay in ERR. */
	tqp_ring(&l.receivers[0]);
	world_run(&l.w);
	ASSERT_EQ(n_events(&l, ENGINE_EVENT_QP_LAST_WQE), 1);
	ASSERT_OK(tqp_to(&l.receivers[0], ENGINE_QP_RST));
	ASSERT_OK(tqp_to(&l.receivers[0], ENGINE_QP_ERR));
	world_run(&l.w);
	ASSERT_EQ(n_events(&l, ENGINE_EVENT_QP_LAST_WQE), 2);
	teardown(&l);
}

static void expect_broken(struct lab *l)
{
	send(l, 0, 0, 64);
	world_run(&l->w);
	expect_error(&l->senders[0].scq, false, 0, SHMD_SYNDROME_REMOTE_OP_ERR);
	ASSERT_EQ(tqp_info(&l->receivers[0]).state, ENGINE_QP_ERR);
	ASSERT_EQ(tqp_info(&l->receivers[0]).first_error, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
	ASSERT(srq_info(l).error);
	/* The error is final for every requester, although the receiver is well again, and is reported once. */
	l->srq.head = 0;
	l->srq.ring[3] = 1;
	l->srq.n_posted = (uint16_t)srq_info(l).ci;
	tsrq_post(&l->srq, l->remote, 0, SLOT);
	send(l, 1, 0, 64);
	world_run(&l->w);
	expect_error(&l->senders[1].scq, false, 0, SHMD_SYNDROME_REMOTE_OP_ERR);
	tcq_expect_none(&l->receivers[1].rcq);
	ASSERT_EQ(n_events(l, ENGINE_EVENT_SRQ_ERROR), 1);
	ASSERT_EQ(n_events(l, ENGINE_EVENT_QP_ERROR), 2);
}

TEST(srq_index_that_cannot_be_true_is_an_error)
{
	struct lab l;

	setup(&l, MEM_POINTER, ENGINE_QP_RC, 2);
	*l.srq.dbrec = htobe32((1u << LOG2_WQES) + 1);
	expect_broken(&l);
	teardown(&l);
}

TEST(srq_list_that_leaves_the_ring_is_an_error)
{
	struct lab l;

	setup(&l, MEM_POINTER, ENGINE_QP_RC, 2);
	tsrq_post(&l.srq, l.remote, 0, SLOT);
	l.srq.ring[3] = 1u << LOG2_WQES;
	expect_broken(&l);
	teardown(&l);
}

/* A list that bites its tail serves the same WQE again: that is its client's business. */
TEST(srq_list_that_is_a_ring_harms_its_client_only)
{
	struct lab l;

	setup(&l, MEM_POINTER, ENGINE_QP_RC, 1);
	tsrq_post(&l.srq, l.remote, 0, SLOT);
	tsrq_post(&l.srq, l.remote, SLOT, SLOT);
	l.srq.ring[3] = 0;
	for (unsigned int i = 0; i < 2; i++) {
		send(&l, 0, 0, 64);
		world_run(&l.w);
		expect_recv(&l, 0, 0, 0, 0, 64);
	}
	teardown(&l);
}

TEST(srq_wqe_that_is_wrong_is_an_error_of_the_qp_that_took_it)
{
	for (unsigned int i = 0; i < N_PAIRS; i++) {
		struct lab l;

		setup(&l, MEM_POINTER, types[i], 2);
		tsrq_post(&l.srq, l.remote, 0, 0);
		tsrq_post(&l.srq, l.remote, SLOT, SLOT);
		send(&l, 0, 0, 64);
		world_run(&l.w);
		expect_error(&l.receivers[0].rcq, true, 0, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
		ASSERT_EQ(tqp_info(&l.receivers[0]).state, ENGINE_QP_ERR);
		ASSERT(!srq_info(&l).error);
		send(&l, 1, 0, 64);
		world_run(&l.w);
		expect_recv(&l, 1, 1, SLOT, 0, 64);
		teardown(&l);
	}
}

TEST(srq_creation_is_checked)
{
	struct engine_srq_attr good, bad;
	struct engine *engine;
	struct lab l;

	setup(&l, MEM_POINTER, ENGINE_QP_RC, 1);
	engine = l.srq.node->engine;
	good = (struct engine_srq_attr){
		.srqn = 0x5000,
		.pdn = 1,
		.ring = l.srq.ring,
		.log2_wqes = 1,
		.log2_stride = 5,
		.dbrec = l.srq.dbrec,
	};
#define REFUSED(field, value, err)                                                                 \
	do {                                                                                       \
		bad = good;                                                                        \
		bad.field = (value);                                                               \
		ASSERT_ERR(engine_srq_create(engine, &bad), err);                                  \
	} while (0)
	REFUSED(srqn, 0x1000000, EINVAL);
	REFUSED(srqn, l.srq.srqn, EEXIST);
	REFUSED(ring, NULL, EINVAL);
	REFUSED(dbrec, NULL, EINVAL);
	REFUSED(log2_wqes, 16, EINVAL);
	REFUSED(log2_stride, 4, EINVAL);
	REFUSED(log2_stride, 10, EINVAL);
#undef REFUSED
	ASSERT_ERR(engine_srq_destroy(engine, l.srq.srqn), EBUSY);
	ASSERT_ERR(engine_srq_destroy(engine, good.srqn), ENOENT);
	for (unsigned int i = 0; i < 15; i++, good.srqn++)
		ASSERT_OK(engine_srq_create(engine, &good));
	ASSERT_ERR(engine_srq_create(engine, &good), ENOSPC);
	/* The engine destroys them. */
	teardown(&l);
}

TEST(srq_qp_names_one_that_exists_and_has_no_ring)
{
	struct engine_qp_attr attr;
	struct engine *engine;
	struct lab l;

	setup(&l, MEM_POINTER, ENGINE_QP_RC, 1);
	engine = l.srq.node->engine;
	attr = (struct engine_qp_attr){
		.qpn = 0x5000,
		.pdn = 1,
		.sq_ring = l.receivers[0].sq,
		.log2_sq_wqebbs = 4,
		.dbrec = l.receivers[0].dbrec,
		.send_cqn = l.receivers[0].scq.cqn,
		.recv_cqn = l.receivers[0].rcq.cqn,
		.has_srq = true,
		.srqn = 0xabcdef,
	};
	ASSERT_ERR(engine_qp_create(engine, &attr), EINVAL);
	attr.srqn = l.srq.srqn;
	attr.rq_ring = l.receivers[0].rq;
	attr.log2_rq_stride = 6;
	ASSERT_ERR(engine_qp_create(engine, &attr), EINVAL);
	attr.rq_ring = NULL;
	ASSERT_OK(engine_qp_create(engine, &attr));
	ASSERT_OK(engine_qp_destroy(engine, attr.qpn));
	teardown(&l);
}

/* Messages of several packets from two senders at once, lost, repeated and in any order, over receives in one list. */
TEST(srq_storm_gives_each_message_a_receive_of_its_own)
{
	FOR_EACH_MODE(mode)
	{
		struct tqp_attr attr = TQP_ATTR;
		unsigned int n[2] = {0};
		struct shmd_cqe cqe;
		struct lab l;

		attr.timeout = 1;
		setup_attr(&l, mode, ENGINE_QP_RC, 2, attr);
		l.w.lose_percent = l.w.repeat_percent = l.w.swap_percent = 2;
		for (unsigned int i = 0; i < 40; i++) {
			uint16_t slots = 0;

			while (l.srq.head != l.srq.tail)
				tsrq_post(&l.srq, l.remote, (uint64_t)l.srq.head * SLOT, SLOT);
			send(&l, 0, i, 2000 + i);
			send(&l, 1, 5 * i, 3000 + i);
			world_run_timers(&l.w, 1000000000);
			for (unsigned int k = 0; k < 2; k++) {
				uint64_t src = k ? 5 * i : i;
				uint16_t index;

				ASSERT(tcq_poll(&l.receivers[k].rcq, &cqe));
				index = be16toh(cqe.wqe_counter);
				ASSERT_EQ(be32toh(cqe.byte_cnt), (k ? 3000 : 2000) + i);
				ASSERT_MEMEQ(l.remote->bytes + index * SLOT, l.local->bytes + src, be32toh(cqe.byte_cnt));
				ASSERT_EQ(slots & (1u << index), 0);
				slots |= (uint16_t)(1u << index);
				tsrq_give_back(&l.srq, index);
				n[k]++;
			}
		}
		ASSERT_EQ(n[0] + n[1], 80);
		teardown(&l);
	}
}
