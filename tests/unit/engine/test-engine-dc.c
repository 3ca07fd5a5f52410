/* SPDX-License-Identifier: Apache-2.0 */
/* DC: one DCI to many DCTs, many DCIs to one, order, losses, and errors that harm no other QP. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/engine/engine-private.h"
#include "fixture.h"
#include "tests/lib/test.h"

#define SIZE 65536u
#define SLOT 4096u
#define KEY 0x1122334455667788ull
#define N_DCIS 3u
#define N_DCTS 3u

/* DCIs on node 0; DCTs on node 1, but the last one, which is on node 0. All DCTs of a node share an SRQ. */
struct lab {
	struct world w;
	struct region *local, *remote, *here;
	struct tsrq srqs[N_NODES];
	struct tqp dcis[N_DCIS], dcts[N_DCTS];
	struct tqp_attr attr;
};

static struct tqp_attr lab_attr(void)
{
	struct tqp_attr attr = TQP_ATTR;

	attr.dc_key = KEY;
	return attr;
}

static void init_dct(struct lab *l, unsigned int i)
{
	struct tqp_attr attr = l->attr;
	unsigned int node = i + 1 < N_DCTS;

	attr.type = ENGINE_QP_DCT;
	attr.srq = &l->srqs[node];
	tqp_init(&l->dcts[i], &l->w, node, &attr);
	tqp_start_dc(&l->dcts[i], &attr);
}

static void init_dci(struct lab *l, unsigned int i)
{
	struct tqp_attr attr = l->attr;

	attr.type = ENGINE_QP_DCI;
	tqp_init(&l->dcis[i], &l->w, 0, &attr);
	tqp_start_dc(&l->dcis[i], &attr);
}

static void setup_attr(struct lab *l, enum mem_mode mode, struct tqp_attr attr)
{
	l->attr = attr;
	world_init(&l->w, mode);
	l->local = region_new(&l->w, 0, SIZE);
	l->remote = region_new(&l->w, 1, SIZE);
	l->here = region_new(&l->w, 0, SIZE);
	region_fill(l->local, 1);
	for (unsigned int i = 0; i < N_NODES; i++)
		tsrq_init(&l->srqs[i], &l->w, i, 1, 6);
	for (unsigned int i = 0; i < N_DCTS; i++)
		init_dct(l, i);
	for (unsigned int i = 0; i < N_DCIS; i++)
		init_dci(l, i);
}

static void setup(struct lab *l, enum mem_mode mode)
{
	setup_attr(l, mode, lab_attr());
}

static void teardown(struct lab *l)
{
	for (unsigned int i = 0; i < N_DCIS; i++)
		tqp_deinit(&l->dcis[i]);
	for (unsigned int i = 0; i < N_DCTS; i++)
		tqp_deinit(&l->dcts[i]);
	world_run(&l->w);
	for (unsigned int i = 0; i < N_NODES; i++)
		tsrq_deinit(&l->srqs[i]);
	world_deinit(&l->w);
}

/* The memory of the DCT of this number. */
static struct region *region_of(struct lab *l, unsigned int dct)
{
	return l->dcts[dct].node->index ? l->remote : l->here;
}

static uint16_t post(struct lab *l, unsigned int dci, unsigned int dct, unsigned int opcode, unsigned int flags,
		     uint64_t src, uint64_t dst, uint32_t bytes)
{
	struct region *r = region_of(l, dct);
	struct wqe wqe;

	wqe_begin(&wqe, opcode, flags);
	wqe_dc_av(&wqe, &l->dcts[dct], KEY);
	if (opcode != SHMD_OPCODE_SEND)
		wqe_raddr(&wqe, r->iova + dst, r->key);
	if (bytes)
		wqe_data(&wqe, l->local->iova + src, l->local->key, bytes);
	return tqp_post(&l->dcis[dci], &wqe);
}

static uint16_t write_to(struct lab *l, unsigned int dci, unsigned int dct, unsigned int flags, uint64_t src, uint64_t dst,
			 uint32_t bytes)
{
	return post(l, dci, dct, SHMD_OPCODE_RDMA_WRITE, flags, src, dst, bytes);
}

static uint16_t send_to(struct lab *l, unsigned int dci, unsigned int dct, uint64_t src, uint32_t bytes)
{
	return post(l, dci, dct, SHMD_OPCODE_SEND, SIGNALED, src, 0, bytes);
}

static uint16_t fadd_to(struct lab *l, unsigned int dci, unsigned int dct, uint64_t dst, uint64_t add)
{
	struct region *r = region_of(l, dct);
	uint64_t words[2] = {add, 0};
	struct wqe wqe;

	wqe_begin(&wqe, SHMD_OPCODE_ATOMIC_FA, SIGNALED);
	wqe_dc_av(&wqe, &l->dcts[dct], KEY);
	wqe_raddr(&wqe, r->iova + dst, r->key);
	wqe_words64(&wqe, words, 2);
	wqe_data(&wqe, l->local->iova + SIZE - 8, l->local->key, 8);
	return tqp_post(&l->dcis[dci], &wqe);
}

static void run(struct lab *l)
{
	for (unsigned int i = 0; i < N_DCIS; i++)
		tqp_ring(&l->dcis[i]);
	world_run(&l->w);
}

static uint64_t word_at(const struct region *r, uint64_t offset)
{
	uint64_t v;

	memcpy(&v, r->bytes + offset, 8);
	return v;
}

TEST(dc_one_dci_writes_to_many_dcts)
{
	FOR_EACH_MODE(mode)
	{
		uint16_t index[9];
		struct lab l;

		setup(&l, mode);
		for (unsigned int i = 0; i < 9; i++)
			index[i] = write_to(&l, 0, i % 3, SIGNALED, 100 * i, SLOT * i, i & 1 ? 4096 : 64);
		run(&l);
		for (unsigned int i = 0; i < 9; i++) {
			expect_ok(&l.dcis[0], index[i]);
			ASSERT_MEMEQ(region_of(&l, i % 3)->bytes + SLOT * i, l.local->bytes + 100 * i, i & 1 ? 4096 : 64);
		}
		tcq_expect_none(&l.dcis[0].scq);
		ASSERT_EQ(tqp_info(&l.dcis[0]).state, ENGINE_QP_RTS);
		ASSERT_EQ(tqp_info(&l.dcis[0]).counters.retries, 0);
		teardown(&l);
	}
}

TEST(dc_reads_atomics_and_immediates)
{
	FOR_EACH_MODE(mode)
	{
		struct shmd_cqe cqe;
		struct lab l;
		uint16_t recv;

		setup(&l, mode);
		region_fill(l.remote, 7);
		memset(l.here->bytes, 0, 64);
		recv = tsrq_post(&l.srqs[1], l.remote, SLOT, SLOT);
		post(&l, 0, 1, SHMD_OPCODE_RDMA_READ, SIGNALED, SLOT, 8192, 9000);
		fadd_to(&l, 0, 2, 0, 5);
		post(&l, 0, 0, SHMD_OPCODE_RDMA_WRITE_IMM, SIGNALED, 0, 32768, 5000);
		fadd_to(&l, 0, 2, 0, 6);
		run(&l);
		for (unsigned int i = 0; i < 4; i++)
			ASSERT(tcq_poll(&l.dcis[0].scq, &cqe) && cqe.op_own >> 4 == SHMD_CQE_REQ);
		ASSERT_MEMEQ(l.local->bytes + SLOT, l.remote->bytes + 8192, 9000);
		ASSERT_EQ(word_at(l.here, 0), 11);
		ASSERT_EQ(word_at(l.local, SIZE - 8), 5);
		expect_cqe(&l.dcts[0].rcq, SHMD_CQE_RESP_WRITE_IMM, recv, &cqe);
		ASSERT_EQ(be32toh(cqe.flags_rqpn), l.dcis[0].qpn);
		ASSERT_EQ(be16toh(cqe.slid), 0x40);
		ASSERT_EQ(be32toh(cqe.sop_drop_qpn) & 0xffffff, l.dcts[0].qpn);
		ASSERT_EQ(be32toh(cqe.srqn_uidx), l.dcts[0].qpn + 0x10000);
		ASSERT_EQ(tqp_info(&l.dcts[0]).counters.recv_wqes, 1);
		ASSERT_MEMEQ(l.remote->bytes + 32768, l.local->bytes, 5000);
		teardown(&l);
	}
}

/* Each DCI has its own connection; their messages of several packets do not mix. */
TEST(dc_many_dcis_send_to_one_dct)
{
	FOR_EACH_MODE(mode)
	{
		struct shmd_cqe cqe;
		struct lab l;

		setup(&l, mode);
		for (unsigned int i = 0; i < 12; i++) {
			tsrq_post(&l.srqs[1], l.remote, 5120 * i, 5120);
			send_to(&l, i % 3, 0, 7 * i, 4500 + i);
		}
		run(&l);
		for (unsigned int i = 0; i < 12; i++) {
			uint32_t from, bytes;
			uint64_t at;

			ASSERT(tcq_poll(&l.dcts[0].rcq, &cqe));
			from = be32toh(cqe.flags_rqpn) & 0xffffff;
			bytes = be32toh(cqe.byte_cnt);
			at = 5120ull * be16toh(cqe.wqe_counter);
			ASSERT_EQ(from, l.dcis[(bytes - 4500) % 3].qpn);
			ASSERT_MEMEQ(l.remote->bytes + at, l.local->bytes + 7ull * (bytes - 4500), bytes);
		}
		for (unsigned int i = 0; i < N_DCIS; i++)
			ASSERT_EQ(tqp_info(&l.dcis[i]).counters.wqes, 4);
		teardown(&l);
	}
}

/* A request completes at its DCT before the next one begins at another DCT. */
TEST(dc_order_holds_across_dcts)
{
	struct lab l;

	setup(&l, MEM_DELAY);
	for (unsigned int i = 1; i <= 20; i++) {
		/* Unsignaled: nothing but the change of DCT asks for an acknowledgement. */
		write_to(&l, 0, 0, 0, 64, 0, 20000);
		write_to(&l, 0, 2, 0, 64, 0, 8);
	}
	tqp_ring(&l.dcis[0]);
	while (world_step(&l.w)) {
		if (word_at(l.here, 0))
			ASSERT_MEMEQ(l.remote->bytes, l.local->bytes + 64, 20000);
	}
	ASSERT_MEMEQ(l.here->bytes, l.local->bytes + 64, 8);
	ASSERT_EQ(tqp_info(&l.dcis[0]).counters.wqes, 40);
	teardown(&l);
}

static unsigned int most_at_once(enum mem_mode mode)
{
	unsigned int most;
	struct lab l;

	setup(&l, mode);
	l.w.delays.hold_turns = 100;
	for (unsigned int i = 0; i < 20; i++)
		write_to(&l, 0, 0, i == 19 ? SIGNALED : 0, 8 * i, 8 * (i % 5), 8);
	tqp_ring(&l.dcis[0]);
	world_run(&l.w);
	ASSERT_MEMEQ(l.remote->bytes, l.local->bytes + 8 * 15, 40);
	most = l.w.delays.max_n;
	teardown(&l);
	return most;
}

/* As those of RC. */
TEST(dc_writes_are_early_where_memory_keeps_their_order)
{
	ASSERT_EQ(most_at_once(MEM_QUEUE), 20);
	ASSERT_EQ(most_at_once(MEM_DELAY), 1);
}

static bool lose_close(struct world *w, const struct engine_packet *pkt, uint64_t n)
{
	return pkt->kind == PACKET_DC_CLOSE;
}

/* The DCI has begun another connection while writes of the former one may still be under way. */
static void come_and_go(bool (*lose)(struct world *w, const struct engine_packet *pkt, uint64_t n))
{
	struct lab l;

	setup(&l, MEM_QUEUE);
	l.w.lose = lose;
	l.w.delays.hold_turns = 30;
	for (unsigned int round = 1; round <= 30; round++) {
		for (unsigned int i = 0; i < 20; i++)
			write_to(&l, 0, i % 7 ? 0 : 1, 0, 8 * i, 0, 8);
		tqp_ring(&l.dcis[0]);
		for (unsigned int step = 0; step < 2 * round; step++)
			world_step(&l.w);
		tqp_to(&l.dcis[0], round % 2 ? ENGINE_QP_ERR : ENGINE_QP_RST);
		ASSERT_OK(tqp_to(&l.dcis[0], ENGINE_QP_RST));
		l.dcis[0].pi = 0;
		l.dcis[0].dbrec->snd = 0;
		tqp_start_dc(&l.dcis[0], &l.attr);
		memset(l.remote->bytes + 8, 0, 8);
		write_to(&l, 0, 0, SIGNALED, 8, 8, 8);
		tqp_ring(&l.dcis[0]);
		/* A connection is not heard as long as the former one has writes under way, and asks again. */
		world_run_timers(&l.w, 1000000000);
		ASSERT_MEMEQ(l.remote->bytes + 8, l.local->bytes + 8, 8);
		ASSERT_EQ(l.w.delays.n, 0);
	}
	teardown(&l);
}

TEST(dc_connections_come_and_go_with_early_writes_under_way)
{
	come_and_go(NULL);
	come_and_go(lose_close);
}

TEST(dc_wrong_key_or_unknown_dct_is_not_answered)
{
	struct tqp_attr attr = lab_attr();
	struct wqe wqe;
	struct lab l;

	attr.timeout = 1;
	attr.retry_count = 2;
	setup_attr(&l, MEM_POINTER, attr);
	wqe_begin(&wqe, SHMD_OPCODE_RDMA_WRITE, SIGNALED);
	wqe_dc_av(&wqe, &l.dcts[0], KEY + 1);
	wqe_raddr(&wqe, l.remote->iova, l.remote->key);
	wqe_data(&wqe, l.local->iova, l.local->key, 64);
	tqp_post(&l.dcis[0], &wqe);
	wqe_begin(&wqe, SHMD_OPCODE_RDMA_WRITE, SIGNALED);
	wqe_dc_av(&wqe, &l.dcis[0], KEY); /* no DCT */
	wqe_raddr(&wqe, l.remote->iova, l.remote->key);
	wqe_data(&wqe, l.local->iova, l.local->key, 64);
	tqp_post(&l.dcis[1], &wqe);
	run(&l);
	world_run_timers(&l.w, 1000000000);
	expect_error(&l.dcis[0].scq, false, 0, SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	expect_error(&l.dcis[1].scq, false, 0, SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	ASSERT_EQ(word_at(l.remote, 0), 0);
	write_to(&l, 2, 0, SIGNALED, 0, 0, 64);
	run(&l);
	expect_ok(&l.dcis[2], 0);
	teardown(&l);
}

TEST(dc_no_route_is_retry_exceeded_at_once)
{
	struct node nowhere = {.index = 77};
	struct tqp far = {.node = &nowhere, .qpn = 5};
	struct wqe wqe;
	struct lab l;

	setup(&l, MEM_POINTER);
	write_to(&l, 0, 0, SIGNALED, 0, 0, 64);
	wqe_begin(&wqe, SHMD_OPCODE_SEND, SIGNALED);
	wqe_dc_av(&wqe, &far, KEY);
	tqp_post(&l.dcis[0], &wqe);
	write_to(&l, 0, 0, SIGNALED, 0, 64, 64);
	run(&l);
	expect_ok(&l.dcis[0], 0);
	expect_error(&l.dcis[0].scq, false, 2, SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	expect_error(&l.dcis[0].scq, false, 3, SHMD_SYNDROME_WR_FLUSH_ERR);
	teardown(&l);
}

/* The DCI that did wrong is in error; the DCT, and others connected to it, go on; and so does that DCI after a reset. */
TEST(dc_refused_request_ends_one_connection_only)
{
	FOR_EACH_MODE(mode)
	{
		struct tqp_attr attr = lab_attr();
		struct wqe wqe;
		struct lab l;

		setup(&l, mode);
		attr.type = ENGINE_QP_DCI;
		write_to(&l, 0, 0, SIGNALED, 0, 0, 64);
		wqe_begin(&wqe, SHMD_OPCODE_RDMA_WRITE, SIGNALED);
		wqe_dc_av(&wqe, &l.dcts[0], KEY);
		wqe_raddr(&wqe, l.remote->iova, l.remote->key + 1);
		wqe_data(&wqe, l.local->iova, l.local->key, 5000);
		tqp_post(&l.dcis[0], &wqe);
		write_to(&l, 1, 0, SIGNALED, 0, 8192, 9000);
		run(&l);
		expect_ok(&l.dcis[0], 0);
		expect_error(&l.dcis[0].scq, false, 2, SHMD_SYNDROME_REMOTE_ACCESS_ERR);
		expect_ok(&l.dcis[1], 0);
		ASSERT_EQ(tqp_info(&l.dcts[0]).state, ENGINE_QP_RTR);
		ASSERT_EQ(l.w.nodes[1].n_events, 0);
		ASSERT_OK(tqp_to(&l.dcis[0], ENGINE_QP_RST));
		l.dcis[0].pi = 0;
		l.dcis[0].dbrec->snd = 0;
		tqp_start_dc(&l.dcis[0], &attr);
		write_to(&l, 0, 0, SIGNALED, 0, 16384, 64);
		run(&l);
		expect_ok(&l.dcis[0], 0);
		ASSERT_MEMEQ(l.remote->bytes + 16384, l.local->bytes, 64);
		teardown(&l);
	}
}

TEST(dc_receive_too_short_is_an_error_of_its_sender)
{
	struct lab l;

	setup(&l, MEM_POINTER);
	tsrq_post(&l.srqs[1], l.remote, 0, 8);
	tsrq_post(&l.srqs[1], l.remote, SLOT, SLOT);
	send_to(&l, 0, 0, 0, 64);
	run(&l);
	expect_error(&l.dcis[0].scq, false, 0, SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR);
	expect_error(&l.dcts[0].rcq, true, 0, SHMD_SYNDROME_LOCAL_LENGTH_ERR);
	send_to(&l, 1, 0, 0, 64);
	run(&l);
	expect_cqe(&l.dcts[0].rcq, SHMD_CQE_RESP_SEND, 1, NULL);
	ASSERT_EQ(world_count_events(&l.w.nodes[1], ENGINE_EVENT_QP_LAST_WQE), 0);
	teardown(&l);
}

TEST(dc_empty_srq_is_rnr)
{
	struct lab l;

	setup(&l, MEM_POINTER);
	send_to(&l, 0, 0, 0, 64);
	run(&l);
	ASSERT_EQ(tqp_info(&l.dcis[0]).counters.rnr_naks, 1);
	tsrq_post(&l.srqs[1], l.remote, 0, SLOT);
	world_run_timers(&l.w, 100000000);
	expect_ok(&l.dcis[0], 0);
	teardown(&l);
}

/* A DCI that goes away in mid-message and comes again: the receive it had taken is flushed, not lost. */
static void break_off(enum mem_mode mode, bool (*lose)(struct world *w, const struct engine_packet *pkt, uint64_t n))
{
	struct tqp_attr attr = lab_attr();
	struct lab l;

	attr.timeout = 1;
	setup_attr(&l, mode, attr);
	l.w.delays.hold_turns = 50;
	l.w.lose = lose;
	attr.type = ENGINE_QP_DCI;
	tsrq_post(&l.srqs[1], l.remote, 0, 32768);
	tsrq_post(&l.srqs[1], l.remote, 32768, 32768);
	send_to(&l, 0, 0, 0, 20000);
	tqp_ring(&l.dcis[0]);
	engine_progress(l.w.nodes[0].engine, 2);
	while (!list_empty(&l.w.nodes[1].inbox)) {
		struct list *link = l.w.nodes[1].inbox.next;

		list_del(link);
		engine_input(l.w.nodes[1].engine, engine_packet_from_link(link));
	}
	engine_progress(l.w.nodes[1].engine, 64);
	ASSERT_OK(tqp_to(&l.dcis[0], ENGINE_QP_RST));
	l.dcis[0].pi = 0;
	l.dcis[0].dbrec->snd = 0;
	tqp_start_dc(&l.dcis[0], &attr);
	send_to(&l, 0, 0, 0, 20000);
	run(&l);
	world_run_timers(&l.w, 100000000);
	expect_ok(&l.dcis[0], 0);
	expect_error(&l.dcts[0].rcq, true, 0, SHMD_SYNDROME_WR_FLUSH_ERR);
	expect_cqe(&l.dcts[0].rcq, SHMD_CQE_RESP_SEND, 1, NULL);
	ASSERT_MEMEQ(l.remote->bytes + 32768, l.local->bytes, 20000);
	teardown(&l);
}

/* Also without a report, and when memory is still being written for the message that broke off. */
TEST(dc_broken_off_message_gives_its_receive_back)
{
	FOR_EACH_MODE(mode)
	{
		break_off(mode, NULL);
		break_off(mode, lose_close);
	}
}

/* Numbers of QPs are unique in one engine only. */
TEST(dc_dcis_of_one_number_on_two_engines)
{
	struct engine_qp_attr create;
	struct tqp_attr attr;
	struct tqp twin;
	struct wqe wqe;
	struct lab l;

	setup(&l, MEM_POINTER);
	attr = l.attr;
	attr.type = ENGINE_QP_DCI;
	tqp_init(&twin, &l.w, 1, &attr);
	ASSERT_OK(engine_qp_destroy(twin.node->engine, twin.qpn));
	twin.qpn = l.dcis[0].qpn;
	create = (struct engine_qp_attr){.qpn = twin.qpn,
					 .user_index = twin.qpn + 0x10000,
					 .type = ENGINE_QP_DCI,
					 .pdn = 1,
					 .sq_ring = twin.sq,
					 .log2_sq_wqebbs = twin.log2_sq,
					 .dbrec = twin.dbrec,
					 .send_cqn = twin.scq.cqn,
					 .recv_cqn = twin.rcq.cqn};
	ASSERT_OK(engine_qp_create(twin.node->engine, &create));
	tqp_start_dc(&twin, &attr);
	for (uint16_t i = 0; i < 10; i++) {
		write_to(&l, 0, 0, SIGNALED, 0, 0, 5000);
		run(&l);
		expect_ok(&l.dcis[0], (uint16_t)(i * 2));
		wqe_begin(&wqe, SHMD_OPCODE_RDMA_WRITE, SIGNALED);
		wqe_dc_av(&wqe, &l.dcts[0], KEY);
		wqe_raddr(&wqe, l.remote->iova + 8192, l.remote->key);
		wqe_data(&wqe, l.remote->iova, l.remote->key, 5000);
		tqp_post(&twin, &wqe);
		tqp_ring(&twin);
		world_run(&l.w);
		expect_ok(&twin, (uint16_t)(i * 2));
	}
	ASSERT_MEMEQ(l.remote->bytes + 8192, l.local->bytes, 5000);
	ASSERT_EQ(tqp_info(&l.dcis[0]).counters.retries, 0);
	/* The first of the two, then the other, are taken out of the table. */
	tqp_deinit(&twin);
	teardown(&l);
}

/* Packets lost, repeated and in any order, also from one connection to the next: sums are exact, data are those sent. */
TEST(dc_storm_is_exact)
{
	FOR_EACH_MODE(mode)
	{
		struct tqp_attr attr = lab_attr();
		uint64_t sums[N_DCTS] = {0};
		struct shmd_cqe cqe;
		struct lab l;

		attr.timeout = 1;
		setup_attr(&l, mode, attr);
		l.w.lose_percent = l.w.repeat_percent = l.w.swap_percent = 3;
		for (unsigned int round = 0; round < 30; round++) {
			for (unsigned int i = 0; i < N_DCIS; i++) {
				unsigned int dct = (round + i) % N_DCTS;

				write_to(&l, i, dct, 0, 64 * round, SLOT * (1 + i), 3000 + round);
				fadd_to(&l, i, (dct + 1) % N_DCTS, 8ull * ((dct + 1) % N_DCTS), round + 1);
				sums[(dct + 1) % N_DCTS] += round + 1;
				tqp_ring(&l.dcis[i]);
			}
			world_run_timers(&l.w, 1000000000);
			for (unsigned int i = 0; i < N_DCIS; i++) {
				ASSERT(tcq_poll(&l.dcis[i].scq, &cqe));
				ASSERT_EQ(cqe.op_own >> 4, SHMD_CQE_REQ);
				ASSERT_MEMEQ(region_of(&l, (round + i) % N_DCTS)->bytes + SLOT * (1 + i),
					     l.local->bytes + 64 * round, 3000 + round);
			}
		}
		for (unsigned int i = 0; i < N_DCTS; i++)
			ASSERT_EQ(word_at(region_of(&l, i), 8 * i), sums[i]);
		ASSERT_GT(l.w.n_lost, 0);
		teardown(&l);
	}
}

TEST(dc_dct_destroyed_with_traffic_on_its_way)
{
	FOR_EACH_MODE(mode)
	{
		for (unsigned int steps = 1; steps < 12; steps++) {
			struct tqp_attr attr = lab_attr();
			struct engine *engine;
			uint32_t old_qpn;
			struct lab l;

			attr.timeout = 1;
			attr.retry_count = 7;
			setup_attr(&l, mode, attr);
			l.w.delays.hold_turns = 20;
			engine = l.w.nodes[1].engine;
			old_qpn = l.dcts[0].qpn;
			for (unsigned int i = 0; i < N_DCIS; i++)
				write_to(&l, i, 0, SIGNALED, 0, SLOT * i, 20000);
			for (unsigned int i = 0; i < N_DCIS; i++)
				tqp_ring(&l.dcis[i]);
			for (unsigned int i = 0; i < steps; i++)
				world_step(&l.w);
			if (steps & 1) {
				ASSERT_OK(tqp_to(&l.dcts[0], ENGINE_QP_ERR));
				ASSERT_OK(tqp_to(&l.dcts[0], ENGINE_QP_RST));
				/* Its DCIs go on where they were: to connections that it does not know any more. */
				attr.type = ENGINE_QP_DCT;
				tqp_start_dc(&l.dcts[0], &attr);
			} else {
				tqp_deinit(&l.dcts[0]);
				init_dct(&l, 0);
			}
			world_run_timers(&l.w, 1000000000);
			if (!(steps & 1))
				ASSERT(!hash_get(&engine->qps, old_qpn));
			write_to(&l, 0, 1, SIGNALED, 0, 0, 64);
			run(&l);
			teardown(&l);
		}
	}
}

/* The engine remembers a few connections that it left, so that it recognises late packets. */
TEST(dc_connections_that_were_left_are_forgotten)
{
	struct engine *engine;
	struct lab l;

	setup(&l, MEM_POINTER);
	engine = l.w.nodes[1].engine;
	for (unsigned int i = 0; i < 200; i++) {
		write_to(&l, 0, i & 1, SIGNALED, 0, 0, 64);
		run(&l);
		expect_ok(&l.dcis[0], 0);
		tqp_deinit(&l.dcis[0]);
		init_dci(&l, 0);
	}
	world_run(&l.w);
	/* Two DCTs, and as many as each remembers. */
	ASSERT_LE(engine->n_qps, 2 + 2 * 64);
	ASSERT_GT(engine->n_qps, 2);
	/* If there is no room, those make it. */
	engine->attr.max_qps = engine->n_qps;
	for (unsigned int i = 0; i < N_DCIS; i++) {
		write_to(&l, i, 0, SIGNALED, 64, 0, 64);
		run(&l);
		expect_ok(&l.dcis[i], 0);
	}
	ASSERT_EQ(engine->n_qps, engine->attr.max_qps);
	teardown(&l);
}

/* A DCI that goes on to another DCT waits until it can say so: else each would keep a QP of the one it left for ever. */
TEST(dc_dcis_that_go_on_at_once_are_all_forgotten)
{
	enum { N = 1500 }; /* more than an engine has packets */
	struct tqp *dcis = calloc(N, sizeof(*dcis));
	struct lab l;
	struct engine_qp *dct;

	ASSERT(dcis);
	setup(&l, MEM_POINTER);
	dct = hash_get(&l.w.nodes[1].engine->qps, l.dcts[0].qpn);
	for (unsigned int round = 0; round < 2; round++) {
		for (unsigned int i = 0; i < N; i++) {
			struct tqp_attr attr = l.attr;
			struct tqp first = l.dcis[0];

			attr.type = ENGINE_QP_DCI;
			if (round == 0) {
				tqp_init(&dcis[i], &l.w, 0, &attr);
				tqp_start_dc(&dcis[i], &attr);
			}
			l.dcis[0] = dcis[i];
			write_to(&l, 0, round, SIGNALED, 0, 0, 64);
			dcis[i] = l.dcis[0];
			l.dcis[0] = first;
			tqp_ring(&dcis[i]);
		}
		/* The other engine's thread does not run for a while. */
		for (unsigned int i = 0; i < N; i++)
			engine_progress(l.w.nodes[0].engine, 64);
		world_run_timers(&l.w, 1000000);
	}
	ASSERT_EQ(dct->dc.children.n, dct->dc.n_closed);
	ASSERT_LE(dct->dc.children.n_slots, 1024); /* there were 2048 */
	for (unsigned int i = 0; i < N; i++)
		tqp_deinit(&dcis[i]);
	teardown(&l);
	free(dcis);
}

/* Ended connections of one DCT give their places to those of another, and to QPs that have nothing to do with DC. */
TEST(dc_connections_that_ended_leave_room_for_qps)
{
	struct tqp_attr rc = lab_attr();
	struct engine *engine;
	struct tqp other;
	struct lab l;

	setup(&l, MEM_POINTER);
	engine = l.w.nodes[1].engine;
	for (unsigned int i = 0; i < 10; i++) {
		write_to(&l, 0, 0, SIGNALED, 0, 0, 64);
		run(&l);
		expect_ok(&l.dcis[0], 0);
		tqp_deinit(&l.dcis[0]);
		init_dci(&l, 0);
	}
	world_run(&l.w);
	engine->attr.max_qps = engine->n_qps;
	ASSERT_EQ(engine->n_qps, 2u + 10u);
	write_to(&l, 0, 1, SIGNALED, 0, 64, 64);
	run(&l);
	expect_ok(&l.dcis[0], 0);
	ASSERT_EQ(engine->n_qps, 2u + 10u);
	rc.type = ENGINE_QP_RC;
	tqp_init(&other, &l.w, 1, &rc);
	ASSERT_EQ(engine->n_qps, 2u + 10u);
	tqp_deinit(&other);
	/* The connection that lives was not given away. */
	write_to(&l, 0, 1, SIGNALED, 0, 128, 64);
	run(&l);
	expect_ok(&l.dcis[0], 2);
	teardown(&l);
}

/* A duplicate that arrives when its DCI has gone on to another DCT. */
TEST(dc_late_duplicate_of_an_atomic_is_not_executed)
{
	struct engine_packet *late;
	struct packet_pool *pool;
	struct list *link;
	struct lab l;

	setup(&l, MEM_POINTER);
	fadd_to(&l, 0, 0, 0, 5);
	tqp_ring(&l.dcis[0]);
	engine_progress(l.w.nodes[0].engine, 64);
	link = l.w.nodes[1].inbox.next;
	late = packet_alloc(l.w.nodes[1].engine, 0);
	ASSERT(late);
	pool = late->pool;
	*late = *engine_packet_from_link(link);
	late->pool = pool;
	late->tenant = NULL;
	list_init(&late->link);
	world_run(&l.w);
	write_to(&l, 0, 1, SIGNALED, 0, 64, 64);
	run(&l);
	engine_input(l.w.nodes[1].engine, late);
	world_run(&l.w);
	ASSERT_EQ(word_at(l.remote, 0), 5);
	teardown(&l);
}

/* QPs of connections count against the limit, and a DCI that gets none is not answered. */
TEST(dc_connections_are_bounded)
{
	struct tqp_attr attr = lab_attr();
	struct engine *engine;
	struct lab l;

	attr.timeout = 1;
	attr.retry_count = 1;
	setup_attr(&l, MEM_POINTER, attr);
	engine = l.w.nodes[1].engine;
	engine->attr.max_qps = 3; /* two DCTs, and one connection */
	write_to(&l, 0, 0, SIGNALED, 0, 0, 64);
	run(&l);
	expect_ok(&l.dcis[0], 0);
	write_to(&l, 1, 0, SIGNALED, 0, 0, 64);
	run(&l);
	world_run_timers(&l.w, 1000000000);
	expect_error(&l.dcis[1].scq, false, 0, SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	teardown(&l);
}

/* However many connections there are, half of the QPs are left to those who ask for one. */
TEST(dc_open_connections_leave_room_for_qps)
{
	struct tqp_attr attr = lab_attr(), rc = lab_attr();
	struct engine *engine;
	struct tqp other;
	struct lab l;

	attr.timeout = 1;
	attr.retry_count = 1;
	setup_attr(&l, MEM_POINTER, attr);
	engine = l.w.nodes[1].engine;
	engine->attr.max_qps = 5; /* two DCTs, and two connections */
	for (unsigned int i = 0; i < N_DCIS; i++) {
		write_to(&l, i, 0, SIGNALED, 0, 0, 64);
		run(&l);
	}
	ASSERT_EQ(engine->n_qps, 4);
	rc.type = ENGINE_QP_RC;
	tqp_init(&other, &l.w, 1, &rc);
	tqp_deinit(&other);
	world_run_timers(&l.w, 1000000000);
	expect_error(&l.dcis[2].scq, false, 0, SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	teardown(&l);
}

static void free_rings(struct tqp *qp)
{
	free(qp->sq);
	free(qp->rq);
	free(qp->dbrec);
	free(qp->scq.ring);
	free(qp->scq.dbrec);
	free(qp->rcq.ring);
	free(qp->rcq.dbrec);
}

/* An engine that goes calls its transport no more, and takes the connections of its DCTs with it. */
TEST(dc_engine_freed_with_connections)
{
	uint64_t n_packets;
	struct lab l;

	setup(&l, MEM_POINTER);
	for (unsigned int i = 0; i < N_DCIS; i++)
		write_to(&l, i, i, SIGNALED, 0, 0, 64);
	run(&l);
	n_packets = l.w.n_packets;
	for (unsigned int i = 0; i < N_NODES; i++)
		l.w.nodes[i].engine = engine_free(l.w.nodes[i].engine);
	ASSERT_EQ(l.w.n_packets, n_packets);
	for (unsigned int i = 0; i < N_DCIS; i++)
		free_rings(&l.dcis[i]);
	for (unsigned int i = 0; i < N_DCTS; i++)
		free_rings(&l.dcts[i]);
	for (unsigned int i = 0; i < N_NODES; i++) {
		free(l.srqs[i].ring);
		free(l.srqs[i].dbrec);
	}
	world_deinit(&l.w);
}

TEST(dc_creation_and_states_are_checked)
{
	struct engine_qp_modify mod = {.state = ENGINE_QP_INIT, .set = ENGINE_QP_SET_ACCESS};
	struct engine_qp_attr attr;
	struct engine *engine;
	struct lab l;

	setup(&l, MEM_POINTER);
	engine = l.w.nodes[1].engine;
	attr = (struct engine_qp_attr){.qpn = 0x7000,
				       .type = ENGINE_QP_DCT,
				       .pdn = 1,
				       .recv_cqn = l.dcts[0].rcq.cqn,
				       .has_srq = true,
				       .srqn = l.srqs[1].srqn};
	ASSERT_OK(engine_qp_create(engine, &attr));
	ASSERT_EQ(engine_qp_modify(engine, attr.qpn, &mod), -EINVAL);
	ASSERT_OK(engine_qp_destroy(engine, attr.qpn));
	attr.has_srq = false;
	ASSERT_ERR(engine_qp_create(engine, &attr), EINVAL);
	attr.has_srq = true;
	attr.dbrec = l.dcts[0].dbrec;
	ASSERT_ERR(engine_qp_create(engine, &attr), EINVAL);
	ASSERT_OK(tqp_to(&l.dcts[0], ENGINE_QP_RST));
	ASSERT_EQ(tqp_to(&l.dcts[0], ENGINE_QP_RTS), -EINVAL);
	ASSERT_EQ(tqp_to(&l.dcis[0], ENGINE_QP_INIT), -EINVAL);
	engine_doorbell(engine, l.dcts[1].qpn);
	ASSERT_OK(engine_qp_freeze(engine, l.dcts[1].qpn));
	engine_scan(engine);
	world_run(&l.w);
	teardown(&l);
}
