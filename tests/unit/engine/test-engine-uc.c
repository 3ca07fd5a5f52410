/* SPDX-License-Identifier: Apache-2.0 */
/* UC: messages that arrive, messages that are dropped whole, and that neither end suffers from a drop. */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "daemon/engine/engine-private.h"
#include "fixture.h"
#include "tests/lib/test.h"

#define SIZE 65536u

static void setup(struct setup *s, enum mem_mode mode)
{
	struct tqp_attr attr = TQP_ATTR;

	attr.type = ENGINE_QP_UC;
	setup_init(s, mode, SIZE, &attr);
}

static void expect_alive(const struct setup *s)
{
	ASSERT_EQ(tqp_info(&s->p.a).state, ENGINE_QP_RTS);
	ASSERT_EQ(tqp_info(&s->p.b).state, ENGINE_QP_RTS);
	ASSERT_EQ(s->w.nodes[0].n_events + s->w.nodes[1].n_events, 0);
}

static void run(struct setup *s)
{
	tqp_ring(&s->p.a);
	world_run(&s->w);
}

static uint16_t post_imm(struct setup *s, unsigned int opcode, uint64_t dst_offset, uint32_t bytes, uint32_t imm)
{
	struct wqe wqe;

	wqe_begin(&wqe, opcode, SIGNALED);
	wqe_imm(&wqe, imm);
	if (opcode == SHMD_OPCODE_RDMA_WRITE_IMM)
		wqe_raddr(&wqe, s->remote->iova + dst_offset, s->remote->key);
	if (bytes)
		wqe_data(&wqe, s->local->iova, s->local->key, bytes);
	return tqp_post(&s->p.a, &wqe);
}

static void expect_recv(struct setup *s, uint8_t opcode, uint16_t index, uint32_t bytes)
{
	struct shmd_cqe cqe;

	expect_cqe(&s->p.b.rcq, opcode, index, &cqe);
	ASSERT_EQ(be32toh(cqe.byte_cnt), bytes);
	ASSERT_EQ(be32toh(cqe.flags_rqpn), s->p.a.qpn);
	ASSERT_EQ(be32toh(cqe.srqn_uidx), s->p.b.qpn + 0x10000);
}

/* Loses the n-th packet of all, from 1. */
static bool lose_nth(struct world *w, const struct engine_packet *pkt, uint64_t n)
{
	return n == *(const uint64_t *)w->data;
}

TEST(uc_writes_and_sends_of_every_size_arrive)
{
	static const uint32_t sizes[] = {0, 1, 8, 128, 129, 4096, 4097, 20000};

	FOR_EACH_MODE(mode)
	{
		for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			struct setup s;
			uint16_t write, send;

			setup(&s, mode);
			post_recv(&s.p.b, s.remote, 0, 32768);
			write = post_write(&s.p.a, SIGNALED, s.local, 8, s.remote, 32768, sizes[i]);
			send = post_send(&s.p.a, SIGNALED, s.local, 0, sizes[i]);
			run(&s);
			expect_ok(&s.p.a, write);
			expect_ok(&s.p.a, send);
			expect_recv(&s, SHMD_CQE_RESP_SEND, 0, sizes[i]);
			ASSERT_MEMEQ(s.remote->bytes, s.local->bytes, sizes[i]);
			ASSERT_MEMEQ(s.remote->bytes + 32768, s.local->bytes + 8, sizes[i]);
			ASSERT_EQ(tqp_info(&s.p.a).pending, 0);
			ASSERT_EQ(engine_next_deadline(s.w.nodes[0].engine), UINT64_MAX);
			expect_alive(&s);
			setup_deinit(&s);
		}
	}
}

TEST(uc_immediate_data_arrive_and_take_a_receive)
{
	FOR_EACH_MODE(mode)
	{
		struct shmd_cqe cqe;
		struct setup s;

		setup(&s, mode);
		post_recv(&s.p.b, s.remote, 0, 8192);
		post_recv(&s.p.b, s.remote, 8192, 8192);
		post_imm(&s, SHMD_OPCODE_RDMA_WRITE_IMM, 16384, 5000, 0x11223344);
		post_imm(&s, SHMD_OPCODE_SEND_IMM, 0, 5000, 0x55667788);
		run(&s);
		expect_cqe(&s.p.b.rcq, SHMD_CQE_RESP_WRITE_IMM, 0, &cqe);
		ASSERT_EQ(be32toh(cqe.imm_inval_pkey), 0x11223344);
		expect_cqe(&s.p.b.rcq, SHMD_CQE_RESP_SEND_IMM, 1, &cqe);
		ASSERT_EQ(be32toh(cqe.imm_inval_pkey), 0x55667788);
		ASSERT_MEMEQ(s.remote->bytes + 16384, s.local->bytes, 5000);
		ASSERT_MEMEQ(s.remote->bytes + 8192, s.local->bytes, 5000);
		expect_alive(&s);
		setup_deinit(&s);
	}
}

TEST(uc_inline_data_complete_without_an_answer)
{
	struct wqe wqe;
	struct setup s;

	setup(&s, MEM_POINTER);
	wqe_begin(&wqe, SHMD_OPCODE_RDMA_WRITE, SIGNALED);
	wqe_raddr(&wqe, s.remote->iova, s.remote->key);
	wqe_inline(&wqe, "unreliable", 10);
	tqp_post(&s.p.a, &wqe);
	tqp_ring(&s.p.a);
	engine_progress(s.w.nodes[0].engine, 64);
	expect_ok(&s.p.a, 0);
	world_run(&s.w);
	ASSERT_MEMEQ(s.remote->bytes, "unreliable", 10);
	ASSERT_EQ(s.w.n_packets, 1);
	setup_deinit(&s);
}

/* A completion says that the buffer may be used again, so it waits until no packet refers to it. */
TEST(uc_completion_waits_until_the_buffer_is_free)
{
	struct engine *sender, *receiver;
	struct setup s;

	setup(&s, MEM_POINTER);
	sender = s.w.nodes[0].engine;
	receiver = s.w.nodes[1].engine;
	post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 4096);
	tqp_ring(&s.p.a);
	engine_progress(sender, 64);
	engine_progress(sender, 64);
	tcq_expect_none(&s.p.a.scq);
	/* Nothing wakes the sender when the packet has been consumed. */
	ASSERT_LE(engine_next_deadline(sender), s.w.now_nsec + PACKET_WAIT_NSEC);
	while (!list_empty(&s.w.nodes[1].inbox)) {
		struct list *link = s.w.nodes[1].inbox.next;

		list_del(link);
		engine_input(receiver, engine_packet_from_link(link));
	}
	engine_progress(receiver, 64);
	engine_progress(sender, 64);
	expect_ok(&s.p.a, 0);
	ASSERT_MEMEQ(s.remote->bytes, s.local->bytes, 4096);
	setup_deinit(&s);
}

TEST(uc_message_that_misses_a_packet_is_dropped_whole)
{
	FOR_EACH_MODE(mode)
	{
		for (uint64_t nth = 1; nth <= 5; nth++) {
			struct setup s;

			setup(&s, mode);
			s.w.lose = lose_nth;
			s.w.data = &nth;
			post_recv(&s.p.b, s.remote, 0, 32768);
			post_recv(&s.p.b, s.remote, 32768, 32768);
			post_send(&s.p.a, SIGNALED, s.local, 0, 5 * 4096);
			run(&s);
			/* The sender never knows. */
			expect_ok(&s.p.a, 0);
			tcq_expect_none(&s.p.b.rcq);
			/* The receive WQE it had taken serves the next one, from its first byte on. */
			post_send(&s.p.a, SIGNALED, s.local, 100, 6000);
			run(&s);
			expect_ok(&s.p.a, 1);
			expect_recv(&s, SHMD_CQE_RESP_SEND, 0, 6000);
			ASSERT_MEMEQ(s.remote->bytes, s.local->bytes + 100, 6000);
			/* Packets behind a lost first one are dropped too; a lost last one has none behind it. */
			ASSERT_EQ(tqp_info(&s.p.b).counters.dropped, 5 - nth);
			ASSERT_EQ(tqp_info(&s.p.a).counters.retries, 0);
			expect_alive(&s);
			setup_deinit(&s);
		}
	}
}

TEST(uc_write_that_breaks_off_leaves_what_arrived)
{
	uint64_t nth = 3;
	struct setup s;

	setup(&s, MEM_POINTER);
	s.w.lose = lose_nth;
	s.w.data = &nth;
	post_recv(&s.p.b, s.remote, 0, 8);
	post_imm(&s, SHMD_OPCODE_RDMA_WRITE_IMM, 0, 4 * 4096, 7);
	run(&s);
	tcq_expect_none(&s.p.b.rcq);
	ASSERT_MEMEQ(s.remote->bytes, s.local->bytes, 2 * 4096);
	for (unsigned int i = 2 * 4096; i < 4 * 4096; i++)
		ASSERT_EQ(s.remote->bytes[i], 0);
	expect_alive(&s);
	setup_deinit(&s);
}

TEST(uc_message_without_receive_is_dropped)
{
	struct setup s;

	setup(&s, MEM_POINTER);
	post_send(&s.p.a, SIGNALED, s.local, 0, 5000);
	post_imm(&s, SHMD_OPCODE_RDMA_WRITE_IMM, 0, 64, 7);
	run(&s);
	expect_ok(&s.p.a, 0);
	expect_ok(&s.p.a, 1);
	post_recv(&s.p.b, s.remote, 0, 8192);
	post_send(&s.p.a, SIGNALED, s.local, 0, 8000);
	run(&s);
	expect_recv(&s, SHMD_CQE_RESP_SEND, 0, 8000);
	tcq_expect_none(&s.p.b.rcq);
	/* Two packets of the SEND and one of the WRITE. */
	ASSERT_EQ(tqp_info(&s.p.b).counters.dropped, 3);
	ASSERT_EQ(tqp_info(&s.p.a).counters.rnr_naks, 0);
	expect_alive(&s);
	setup_deinit(&s);
}

TEST(uc_message_longer_than_its_receive_is_dropped)
{
	FOR_EACH_MODE(mode)
	{
		struct setup s;

		setup(&s, mode);
		post_recv(&s.p.b, s.remote, 0, 5000);
		post_send(&s.p.a, SIGNALED, s.local, 0, 5001);
		post_send(&s.p.a, SIGNALED, s.local, 0, 5000);
		run(&s);
		expect_ok(&s.p.a, 0);
		expect_ok(&s.p.a, 1);
		expect_recv(&s, SHMD_CQE_RESP_SEND, 0, 5000);
		tcq_expect_none(&s.p.b.rcq);
		ASSERT_MEMEQ(s.remote->bytes, s.local->bytes, 5000);
		expect_alive(&s);
		setup_deinit(&s);
	}
}

TEST(uc_write_that_is_not_allowed_is_dropped)
{
	struct region *read_only;
	struct wqe wqe;
	struct setup s;

	setup(&s, MEM_POINTER);
	read_only = region_new_attr(&s.w, 1, 4096, ENGINE_ACCESS_REMOTE_READ, 1);
	post_write(&s.p.a, SIGNALED, s.local, 0, read_only, 0, 64);
	wqe_begin(&wqe, SHMD_OPCODE_RDMA_WRITE, SIGNALED);
	wqe_raddr(&wqe, s.remote->iova, s.remote->key + 1);
	wqe_data(&wqe, s.local->iova, s.local->key, 8192);
	tqp_post(&s.p.a, &wqe);
	post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, SIZE - 8, 16);
	post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 16);
	run(&s);
	for (uint16_t i = 0; i < 4; i++)
		expect_ok(&s.p.a, i);
	ASSERT_EQ(read_only->bytes[0], 0);
	ASSERT_EQ(s.remote->bytes[SIZE - 8], 0);
	ASSERT_MEMEQ(s.remote->bytes, s.local->bytes, 16);
	ASSERT_EQ(tqp_info(&s.p.b).counters.dropped, 4);
	expect_alive(&s);
	setup_deinit(&s);
}

/* The receiver's own fault. */
TEST(uc_bad_receive_wqe_is_an_error_of_the_receiver_only)
{
	struct setup s;

	setup(&s, MEM_POINTER);
	post_recv(&s.p.b, s.local, 0, 64); /* a key of the other engine */
	post_send(&s.p.a, SIGNALED, s.local, 0, 64);
	run(&s);
	expect_ok(&s.p.a, 0);
	expect_error(&s.p.b.rcq, true, 0, SHMD_SYNDROME_LOCAL_PROT_ERR);
	ASSERT_EQ(tqp_info(&s.p.b).state, ENGINE_QP_ERR);
	ASSERT_EQ(tqp_info(&s.p.a).state, ENGINE_QP_RTS);
	ASSERT_EQ(world_count_events(&s.w.nodes[1], ENGINE_EVENT_QP_ERROR), 1);
	ASSERT_EQ(s.w.nodes[0].n_events, 0);
	setup_deinit(&s);
}

/* Packets in any order, some lost and some twice: each message that completes has the bytes of one that was sent. */
TEST(uc_storm_delivers_whole_messages_or_nothing)
{
	FOR_EACH_MODE(mode)
	{
		unsigned int n_received = 0;
		struct shmd_cqe cqe;
		struct setup s;

		setup(&s, mode);
		s.w.lose_percent = s.w.repeat_percent = s.w.swap_percent = 5;
		for (unsigned int i = 0; i < 200; i++) {
			uint32_t bytes = 1 + i * 61;

			while (s.p.b.rq_pi < n_received + 4)
				post_recv(&s.p.b, s.remote, 0, SIZE);
			memset(s.remote->bytes, 0, SIZE);
			post_send(&s.p.a, SIGNALED, s.local, i, bytes);
			run(&s);
			expect_ok(&s.p.a, (uint16_t)i);
			while (tcq_poll(&s.p.b.rcq, &cqe)) {
				ASSERT_EQ(cqe.op_own >> 4, SHMD_CQE_RESP_SEND);
				ASSERT_EQ(be32toh(cqe.byte_cnt), bytes);
				ASSERT_MEMEQ(s.remote->bytes, s.local->bytes + i, bytes);
				n_received++;
			}
		}
		ASSERT_GT(n_received, 60);
		ASSERT_GT(tqp_info(&s.p.b).counters.dropped, 0);
		expect_alive(&s);
		setup_deinit(&s);
	}
}

TEST(uc_flood_of_references_is_bounded_and_completes)
{
	struct setup s;

	setup(&s, MEM_DELAY);
	for (unsigned int round = 0; round < 8; round++) {
		for (unsigned int i = 0; i < 256; i++)
			post_write(&s.p.a, i == 255 ? SIGNALED : 0, s.local, 0, s.remote, 0, 9000);
		run(&s);
		expect_ok(&s.p.a, (uint16_t)(round * 256 + 255));
		tcq_expect_none(&s.p.a.scq);
	}
	ASSERT_EQ(tqp_info(&s.p.a).counters.wqes, 8 * 256);
	expect_alive(&s);
	setup_deinit(&s);
}

static void expect_send_error(struct setup *s, struct wqe *wqe, uint8_t syndrome)
{
	uint16_t bad, behind;

	post_write(&s->p.a, SIGNALED, s->local, 0, s->remote, 0, 5000);
	bad = tqp_post(&s->p.a, wqe);
	behind = post_write(&s->p.a, SIGNALED, s->local, 0, s->remote, 8192, 64);
	run(s);
	expect_ok(&s->p.a, 0);
	expect_error(&s->p.a.scq, false, bad, syndrome);
	expect_error(&s->p.a.scq, false, behind, SHMD_SYNDROME_WR_FLUSH_ERR);
	tcq_expect_none(&s->p.a.scq);
	ASSERT_EQ(tqp_info(&s->p.a).state, ENGINE_QP_SQER);
	ASSERT_EQ(tqp_info(&s->p.a).first_error, syndrome);
	ASSERT_EQ(s->remote->bytes[8192], 0);
}

TEST(uc_send_error_stops_sending_only_until_the_owner_resumes)
{
	struct wqe wqe;
	struct setup s;

	setup(&s, MEM_POINTER);
	wqe_begin(&wqe, SHMD_OPCODE_RDMA_READ, SIGNALED);
	wqe_raddr(&wqe, s.remote->iova, s.remote->key);
	wqe_data(&wqe, s.local->iova, s.local->key, 8);
	expect_send_error(&s, &wqe, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
	/* A request posted now is flushed. */
	post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 8192, 64);
	ASSERT_EQ(engine_scan(s.w.nodes[0].engine), 1);
	world_run(&s.w);
	expect_error(&s.p.a.scq, false, 3, SHMD_SYNDROME_WR_FLUSH_ERR);
	/* It still receives. */
	post_recv(&s.p.a, s.local, 0, 64);
	post_send(&s.p.b, SIGNALED, s.remote, 0, 64);
	tqp_ring(&s.p.b);
	world_run(&s.w);
	expect_cqe(&s.p.a.rcq, SHMD_CQE_RESP_SEND, 0, NULL);
	ASSERT_OK(tqp_to(&s.p.a, ENGINE_QP_RTS));
	post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 8192, 5000);
	run(&s);
	expect_ok(&s.p.a, 4);
	ASSERT_MEMEQ(s.remote->bytes + 8192, s.local->bytes, 5000);
	expect_alive(&s);
	setup_deinit(&s);
}

TEST(uc_destroyed_and_reset_with_packets_away)
{
	FOR_EACH_MODE(mode)
	{
		struct tqp_attr attr = TQP_ATTR;
		struct setup s;

		attr.type = ENGINE_QP_UC;
		setup(&s, mode);
		post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 20000);
		tqp_ring(&s.p.a);
		engine_progress(s.w.nodes[0].engine, 64);
		ASSERT_OK(tqp_to(&s.p.a, ENGINE_QP_RST));
		s.p.a.pi = 0;
		s.p.a.dbrec->snd = 0;
		tqp_connect(&s.p.a, &s.p.b, &attr);
		post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 32768, 20000);
		run(&s);
		expect_ok(&s.p.a, 0);
		tcq_expect_none(&s.p.a.scq);
		ASSERT_MEMEQ(s.remote->bytes + 32768, s.local->bytes, 20000);
		post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 20000);
		tqp_ring(&s.p.a);
		engine_progress(s.w.nodes[0].engine, 64);
		setup_deinit(&s);
	}
}

TEST(uc_drains_when_its_packets_have_come_back)
{
	struct setup s;

	setup(&s, MEM_DELAY);
	post_write(&s.p.a, 0, s.local, 0, s.remote, 0, 20000);
	tqp_ring(&s.p.a);
	engine_progress(s.w.nodes[0].engine, 64);
	ASSERT_OK(tqp_to(&s.p.a, ENGINE_QP_SQD));
	ASSERT_EQ(world_count_events(&s.w.nodes[0], ENGINE_EVENT_QP_SQ_DRAINED), 0);
	world_run(&s.w);
	ASSERT_EQ(world_count_events(&s.w.nodes[0], ENGINE_EVENT_QP_SQ_DRAINED), 1);
	ASSERT_OK(tqp_to(&s.p.a, ENGINE_QP_RTS));
	setup_deinit(&s);
}

/* The two services have opcodes of their own on a wire. */
TEST(uc_and_rc_do_not_hear_each_other)
{
	struct tqp_attr rc = TQP_ATTR, uc = TQP_ATTR;
	struct region *local, *remote;
	struct tqp a, b;
	struct world w;

	uc.type = ENGINE_QP_UC;
	world_init(&w, MEM_POINTER);
	local = region_new(&w, 0, 4096);
	remote = region_new(&w, 1, 4096);
	region_fill(local, 1);
	tqp_init(&a, &w, 0, &uc);
	tqp_init(&b, &w, 1, &rc);
	tqp_connect(&a, &b, &uc);
	tqp_connect(&b, &a, &rc);
	post_write(&a, SIGNALED, local, 0, remote, 0, 64);
	tqp_ring(&a);
	post_write(&b, SIGNALED, remote, 0, local, 0, 64);
	tqp_ring(&b);
	world_run(&w);
	expect_ok(&a, 0);
	ASSERT_EQ(remote->bytes[0], 0);
	ASSERT_NE(local->bytes[0], 0);
	tcq_expect_none(&b.scq);
	tqp_deinit(&a);
	tqp_deinit(&b);
	world_deinit(&w);
}

TEST(uc_states_need_what_uc_has)
{
	struct tqp_attr attr = TQP_ATTR;
	struct engine_qp_modify mod;
	struct world w;
	struct tqp a;

	attr.type = ENGINE_QP_UC;
	world_init(&w, MEM_POINTER);
	tqp_init(&a, &w, 0, &attr);
	ASSERT_OK(tqp_to_init(&a, &attr));
	mod = (struct engine_qp_modify){.state = ENGINE_QP_RTR,
					.set = ENGINE_QP_SET_PATH | ENGINE_QP_SET_RQ_PSN | ENGINE_QP_SET_RD_ATOMIC,
					.path_mtu_bytes = 1024};
	ASSERT_EQ(engine_qp_modify(a.node->engine, a.qpn, &mod), -EINVAL);
	mod.set = ENGINE_QP_SET_PATH;
	ASSERT_EQ(engine_qp_modify(a.node->engine, a.qpn, &mod), -EINVAL);
	ASSERT_OK(tqp_to_rtr(&a, &a, &attr));
	mod = (struct engine_qp_modify){.state = ENGINE_QP_RTS, .set = ENGINE_QP_SET_SQ_PSN | ENGINE_QP_SET_RETRY};
	ASSERT_EQ(engine_qp_modify(a.node->engine, a.qpn, &mod), -EINVAL);
	ASSERT_OK(tqp_to_rts(&a, &attr));
	tqp_deinit(&a);
	world_deinit(&w);
}
