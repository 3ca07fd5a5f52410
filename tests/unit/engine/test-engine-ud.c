/* SPDX-License-Identifier: Apache-2.0 */
/* UD: accepted senders, the content of receive buffer and CQE, and silent drops. */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "fixture.h"
#include "tests/lib/test.h"

#define SIZE 16384u
#define QKEY 0x11112222u

static struct tqp_attr ud_attr(void)
{
	struct tqp_attr attr = TQP_ATTR;

	attr.type = ENGINE_QP_UD;
	attr.qkey = QKEY;
	return attr;
}

static void setup(struct setup *s, enum mem_mode mode)
{
	struct tqp_attr attr = ud_attr();

	setup_init(s, mode, SIZE, &attr);
}

static void run(struct tqp *qp, struct setup *s)
{
	tqp_ring(qp);
	world_run(&s->w);
}

static uint16_t post_to(struct tqp *from, const struct tqp *to, uint32_t qkey, const struct region *src,
			uint64_t offset, uint32_t bytes)
{
	struct wqe wqe;

	wqe_begin(&wqe, SHMD_OPCODE_SEND, SIGNALED);
	wqe_av(&wqe, to, qkey);
	if (bytes)
		wqe_data(&wqe, src->iova + offset, src->key, bytes);
	return tqp_post(from, &wqe);
}

static uint16_t post(struct setup *s, uint32_t qkey, uint64_t offset, uint32_t bytes)
{
	return post_to(&s->p.a, &s->p.b, qkey, s->local, offset, bytes);
}

static void expect_alive(const struct setup *s)
{
	ASSERT_EQ(tqp_info(&s->p.a).state, ENGINE_QP_RTS);
	ASSERT_EQ(tqp_info(&s->p.b).state, ENGINE_QP_RTS);
	ASSERT_EQ(s->w.nodes[0].n_events + s->w.nodes[1].n_events, 0);
}

/* The bytes that the fixture's transport writes there. */
static void expect_grh(const struct tqp *from, uint32_t bytes, const uint8_t *buffer)
{
	for (unsigned int i = 0; i < SHMD_GRH_BYTES; i++)
		ASSERT_EQ(buffer[i], (uint8_t)(from->qpn + bytes + i));
}

static void expect_dropped(struct setup *s, unsigned int n)
{
	tcq_expect_none(&s->p.b.rcq);
	ASSERT_EQ(tqp_info(&s->p.b).counters.dropped, n);
	expect_alive(s);
}

TEST(ud_message_of_every_size_lies_behind_its_grh)
{
	static const uint32_t sizes[] = {0, 1, 8, 127, 128, 129, 1000, 4095, 4096};

	FOR_EACH_MODE(mode)
	{
		for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			struct shmd_cqe cqe;
			struct setup s;
			uint16_t index;

			setup(&s, mode);
			post_recv(&s.p.b, s.remote, 8, SHMD_GRH_BYTES + sizes[i]);
			index = post(&s, QKEY, 24, sizes[i]);
			run(&s.p.a, &s);
			expect_ok(&s.p.a, index);
			expect_cqe(&s.p.b.rcq, SHMD_CQE_RESP_SEND, 0, &cqe);
			ASSERT_EQ(be32toh(cqe.byte_cnt), SHMD_GRH_BYTES + sizes[i]);
			ASSERT_EQ(be32toh(cqe.flags_rqpn), 1u << 28 | 5u << 24 | s.p.a.qpn);
			ASSERT_EQ(be16toh(cqe.slid), 0x40);
			ASSERT_EQ(be32toh(cqe.srqn_uidx), s.p.b.qpn + 0x10000);
			ASSERT_EQ(be32toh(cqe.sop_drop_qpn) & 0xffffff, s.p.b.qpn);
			expect_grh(&s.p.a, sizes[i], s.remote->bytes + 8);
			ASSERT_MEMEQ(s.remote->bytes + 8 + SHMD_GRH_BYTES, s.local->bytes + 24, sizes[i]);
			ASSERT_EQ(s.remote->bytes[8 + SHMD_GRH_BYTES + sizes[i]], 0);
			ASSERT_EQ(tqp_info(&s.p.a).counters.bytes_sent, sizes[i]);
			expect_alive(&s);
			setup_deinit(&s);
		}
	}
}

/* GRH and payload in pieces that end anywhere, of sources that end elsewhere. */
TEST(ud_scatters_over_any_pieces)
{
	FOR_EACH_MODE(mode)
	{
		uint8_t seg[48];
		struct wqe wqe;
		struct setup s;

		setup(&s, mode);
		for (unsigned int i = 0; i < 3; i++) {
			static const uint32_t bytes[] = {39, 100, 1000};
			uint32_t head[2] = {htobe32(bytes[i]), htobe32(s.remote->key)};
			uint64_t addr = htobe64(s.remote->iova + 2000 * i);

			memcpy(seg + 16 * i, head, 8);
			memcpy(seg + 16 * i + 8, &addr, 8);
		}
		post_recv_raw(&s.p.b, seg, sizeof(seg));
		wqe_begin(&wqe, SHMD_OPCODE_SEND, SIGNALED);
		wqe_av(&wqe, &s.p.b, QKEY);
		wqe_data(&wqe, s.local->iova, s.local->key, 50);
		wqe_data(&wqe, s.local->iova + 50, s.local->key, 450);
		tqp_post(&s.p.a, &wqe);
		run(&s.p.a, &s);
		expect_ok(&s.p.a, 0);
		expect_cqe(&s.p.b.rcq, SHMD_CQE_RESP_SEND, 0, NULL);
		ASSERT_EQ(s.remote->bytes[38], (uint8_t)(s.p.a.qpn + 500 + 38));
		ASSERT_EQ(s.remote->bytes[2000], (uint8_t)(s.p.a.qpn + 500 + 39));
		ASSERT_MEMEQ(s.remote->bytes + 2001, s.local->bytes, 99);
		ASSERT_MEMEQ(s.remote->bytes + 4000, s.local->bytes + 99, 401);
		setup_deinit(&s);
	}
}

TEST(ud_immediate_inline_and_the_short_address)
{
	uint32_t av[4] = {htobe32(QKEY), 0, 0, 0};
	struct shmd_cqe cqe;
	struct wqe wqe;
	struct setup s;

	setup(&s, MEM_POINTER);
	memset(s.remote->bytes, 0xee, 64);
	post_recv(&s.p.b, s.remote, 0, 64);
	av[2] = htobe32(s.p.b.qpn);
	av[3] = htobe32(0x03000001); /* SL 3, LID 1 */
	wqe_begin(&wqe, SHMD_OPCODE_SEND_IMM, SIGNALED | SOLICITED);
	wqe_imm(&wqe, 0xabcd1234);
	memcpy(wqe.bytes + 16, av, 16);
	wqe.ds++;
	wqe_inline(&wqe, "datagram", 8);
	tqp_post(&s.p.a, &wqe);
	run(&s.p.a, &s);
	expect_ok(&s.p.a, 0);
	expect_cqe(&s.p.b.rcq, SHMD_CQE_RESP_SEND_IMM, 0, &cqe);
	ASSERT_EQ(be32toh(cqe.imm_inval_pkey), 0xabcd1234);
	ASSERT_EQ(be32toh(cqe.flags_rqpn), 3u << 24 | s.p.a.qpn);
	/* Without a GRH its place is kept all the same. */
	ASSERT_EQ(be32toh(cqe.byte_cnt), 48);
	ASSERT_MEMEQ(s.remote->bytes + SHMD_GRH_BYTES, "datagram", 8);
	setup_deinit(&s);
}

TEST(ud_longest_inline_and_16_blocks)
{
	uint8_t data[940];
	struct wqe wqe;
	struct setup s;

	setup(&s, MEM_POINTER);
	memset(data, 0x5c, sizeof(data));
	post_recv(&s.p.b, s.remote, 0, 4096);
	wqe_begin(&wqe, SHMD_OPCODE_SEND, SIGNALED);
	wqe_av(&wqe, &s.p.b, QKEY);
	wqe_inline(&wqe, data, sizeof(data));
	ASSERT_EQ(wqe.ds, 63);
	tqp_post(&s.p.a, &wqe);
	run(&s.p.a, &s);
	expect_ok(&s.p.a, 0);
	ASSERT_MEMEQ(s.remote->bytes + SHMD_GRH_BYTES, data, sizeof(data));
	setup_deinit(&s);
}

TEST(ud_one_sender_many_receivers_and_back)
{
	struct tqp_attr attr = ud_attr();
	struct shmd_cqe cqe;
	struct tqp more[3];
	struct setup s;

	setup(&s, MEM_POINTER);
	for (unsigned int i = 0; i < 3; i++) {
		tqp_init(&more[i], &s.w, i & 1, &attr);
		tqp_connect(&more[i], &more[i], &attr);
		post_recv(&more[i], i & 1 ? s.remote : s.local, 8192 + 1024 * i, 1024);
		post_to(&s.p.a, &more[i], QKEY, s.local, 100 * i, 100);
	}
	/* And to itself. */
	post_recv(&s.p.a, s.local, 4096, 1024);
	post_to(&s.p.a, &s.p.a, QKEY, s.local, 0, 200);
	run(&s.p.a, &s);
	for (uint16_t i = 0; i < 4; i++)
		expect_ok(&s.p.a, (uint16_t)(i * 2));
	for (unsigned int i = 0; i < 3; i++) {
		const struct region *r = i & 1 ? s.remote : s.local;

		expect_cqe(&more[i].rcq, SHMD_CQE_RESP_SEND, 0, &cqe);
		ASSERT_EQ(be32toh(cqe.flags_rqpn) & 0xffffff, s.p.a.qpn);
		ASSERT_MEMEQ(r->bytes + 8192 + 1024 * i + SHMD_GRH_BYTES, s.local->bytes + 100 * i, 100);
	}
	expect_cqe(&s.p.a.rcq, SHMD_CQE_RESP_SEND, 0, NULL);
	for (unsigned int i = 0; i < 3; i++)
		tqp_deinit(&more[i]);
	setup_deinit(&s);
}

TEST(ud_wrong_qkey_is_dropped)
{
	struct setup s;

	setup(&s, MEM_POINTER);
	post_recv(&s.p.b, s.remote, 0, 1024);
	post(&s, QKEY + 1, 0, 64);
	run(&s.p.a, &s);
	expect_ok(&s.p.a, 0);
	expect_dropped(&s, 1);
	ASSERT_EQ(s.remote->bytes[0], 0);
	/* A controlled Q_Key stands for that of the sending QP. */
	post(&s, 0x80000000u, 0, 64);
	run(&s.p.a, &s);
	expect_cqe(&s.p.b.rcq, SHMD_CQE_RESP_SEND, 0, NULL);
	setup_deinit(&s);
}

TEST(ud_qkey_changes_at_once)
{
	struct engine_qp_modify mod = {.state = ENGINE_QP_RTS, .set = ENGINE_QP_SET_QKEY, .qkey = 7};
	struct setup s;

	setup(&s, MEM_POINTER);
	post_recv(&s.p.b, s.remote, 0, 1024);
	ASSERT_OK(engine_qp_modify(s.p.b.node->engine, s.p.b.qpn, &mod));
	post(&s, QKEY, 0, 64);
	post(&s, 7, 0, 64);
	run(&s.p.a, &s);
	expect_cqe(&s.p.b.rcq, SHMD_CQE_RESP_SEND, 0, NULL);
	expect_dropped(&s, 1);
	setup_deinit(&s);
}

TEST(ud_unknown_destination_is_dropped)
{
	struct node nowhere = {.index = 77};
	struct tqp unknown = {0}, rc;
	struct tqp_attr rc_attr = TQP_ATTR;
	struct setup s;

	setup(&s, MEM_POINTER);
	tqp_init(&rc, &s.w, 1, &rc_attr);
	tqp_connect(&rc, &s.p.a, &rc_attr);
	post_recv(&rc, s.remote, 0, 1024);
	unknown.node = &nowhere;
	unknown.qpn = s.p.b.qpn;
	post_to(&s.p.a, &unknown, QKEY, s.local, 0, 4096);
	unknown.node = &s.w.nodes[1];
	unknown.qpn = 0xabcdef;
	post_to(&s.p.a, &unknown, QKEY, s.local, 0, 64);
	post_to(&s.p.a, &rc, 0, s.local, 0, 64);
	run(&s.p.a, &s);
	for (uint16_t i = 0; i < 3; i++)
		expect_ok(&s.p.a, (uint16_t)(i * 2));
	tcq_expect_none(&rc.rcq);
	ASSERT_EQ(s.w.n_ud_paths, 3);
	ASSERT_EQ(tqp_info(&s.p.a).pending, 0);
	expect_alive(&s);
	tqp_deinit(&rc);
	setup_deinit(&s);
}

TEST(ud_message_without_receive_or_too_long_for_it_is_dropped)
{
	FOR_EACH_MODE(mode)
	{
		struct setup s;

		setup(&s, mode);
		post(&s, QKEY, 0, 64);
		run(&s.p.a, &s);
		expect_dropped(&s, 1);
		post_recv(&s.p.b, s.remote, 0, SHMD_GRH_BYTES + 300);
		post(&s, QKEY, 0, 301);
		run(&s.p.a, &s);
		expect_dropped(&s, 2);
		post(&s, QKEY, 0, 300);
		run(&s.p.a, &s);
		expect_cqe(&s.p.b.rcq, SHMD_CQE_RESP_SEND, 0, NULL);
		expect_dropped(&s, 2);
		setup_deinit(&s);
	}
}

static void expect_send_error(struct setup *s, uint16_t index, uint8_t syndrome)
{
	run(&s->p.a, s);
	expect_error(&s->p.a.scq, false, index, syndrome);
	ASSERT_EQ(tqp_info(&s->p.a).state, ENGINE_QP_SQER);
	ASSERT_EQ(s->w.n_packets, 0);
	ASSERT_OK(tqp_to(&s->p.a, ENGINE_QP_RTS));
}

TEST(ud_what_a_datagram_cannot_be_is_an_error_of_the_sender)
{
	struct wqe wqe;
	struct setup s;

	setup(&s, MEM_POINTER);
	expect_send_error(&s, post(&s, QKEY, 0, 4097), SHMD_SYNDROME_LOCAL_LENGTH_ERR);
	wqe_begin(&wqe, SHMD_OPCODE_RDMA_WRITE, SIGNALED);
	wqe_av(&wqe, &s.p.b, QKEY);
	wqe_raddr(&wqe, s.remote->iova, s.remote->key);
	wqe_data(&wqe, s.local->iova, s.local->key, 8);
	expect_send_error(&s, tqp_post(&s.p.a, &wqe), SHMD_SYNDROME_LOCAL_QP_OP_ERR);
	wqe_begin(&wqe, SHMD_OPCODE_SEND, SIGNALED);
	expect_send_error(&s, tqp_post(&s.p.a, &wqe), SHMD_SYNDROME_LOCAL_QP_OP_ERR);
	wqe_begin(&wqe, SHMD_OPCODE_SEND, SIGNALED);
	wqe_av(&wqe, &s.p.b, QKEY);
	wqe_data(&wqe, s.local->iova + SIZE - 4, s.local->key, 8);
	expect_send_error(&s, tqp_post(&s.p.a, &wqe), SHMD_SYNDROME_LOCAL_PROT_ERR);
	/* And goes on. */
	post_recv(&s.p.b, s.remote, 0, 1024);
	post(&s, QKEY, 0, 64);
	run(&s.p.a, &s);
	expect_cqe(&s.p.b.rcq, SHMD_CQE_RESP_SEND, 0, NULL);
	setup_deinit(&s);
}

TEST(ud_nop_has_no_address)
{
	struct wqe wqe;
	struct setup s;

	setup(&s, MEM_POINTER);
	wqe_begin(&wqe, SHMD_OPCODE_NOP, SIGNALED);
	tqp_post(&s.p.a, &wqe);
	run(&s.p.a, &s);
	expect_ok(&s.p.a, 0);
	ASSERT_EQ(s.w.n_ud_paths, 0);
	setup_deinit(&s);
}

static void create_with_mtu(struct setup *s, uint32_t mtu, int expected)
{
	struct engine_qp_attr attr = {
		.qpn = 0x7777,
		.type = ENGINE_QP_UD,
		.pdn = 1,
		.sq_ring = s->p.a.sq,
		.log2_sq_wqebbs = 4,
		.dbrec = s->p.a.dbrec,
		.send_cqn = s->p.a.scq.cqn,
		.recv_cqn = s->p.a.rcq.cqn,
		.ud_mtu_bytes = mtu,
	};
	struct engine *engine = s->w.nodes[0].engine;

	ASSERT_EQ(engine_qp_create(engine, &attr), expected);
	if (!expected)
		ASSERT_OK(engine_qp_destroy(engine, attr.qpn));
}

/* Whatever the engine's chunk: a message is one packet. */
TEST(ud_mtu_is_the_queues_own)
{
	struct tqp_attr attr = ud_attr();
	struct setup s;

	world_init_chunk(&s.w, MEM_SYNC, 256);
	s.local = region_new(&s.w, 0, SIZE);
	s.remote = region_new(&s.w, 1, SIZE);
	region_fill(s.local, 1);
	pair_init(&s.p, &s.w, &attr);
	post_recv(&s.p.b, s.remote, 0, 8192);
	post(&s, QKEY, 0, 4096);
	run(&s.p.a, &s);
	expect_ok(&s.p.a, 0);
	ASSERT_EQ(s.w.n_packets, 1);
	ASSERT_MEMEQ(s.remote->bytes + SHMD_GRH_BYTES, s.local->bytes, 4096);
	create_with_mtu(&s, 1024, 0);
	create_with_mtu(&s, 255, -EINVAL);
	create_with_mtu(&s, 1000, -EINVAL);
	create_with_mtu(&s, 8192, -EINVAL);
	setup_deinit(&s);
}

TEST(ud_needs_an_owner_that_knows_the_way)
{
	struct engine_attr attr = {.max_qps = 1, .max_cqs = 1, .max_mrs = 1, .chunk_bytes = 256, .extension = &engine_extra};
	struct engine_ops none = {0};
	uint8_t ring[1024] __attribute__((aligned(64)));
	struct engine_cq_attr cq = {.cqn = 1, .log2_entries = 4, .ring = ring, .flags = ENGINE_CQ_OVERRUN_IGNORE};
	struct shmd_dbrec dbrec = {0};
	struct engine_qp_attr qp = {
		.type = ENGINE_QP_UD,
		.sq_ring = ring,
		.log2_sq_wqebbs = 4,
		.dbrec = &dbrec,
		.send_cqn = 1,
		.recv_cqn = 1,
	};
	struct engine *engine;

	ASSERT_OK(engine_new(&attr, &none, NULL, &engine));
	ASSERT_OK(engine_cq_create(engine, &cq));
	ASSERT_ERR(engine_qp_create(engine, &qp), EOPNOTSUPP);
	engine_free(engine);
}

TEST(ud_storm_delivers_whole_messages_or_nothing)
{
	FOR_EACH_MODE(mode)
	{
		unsigned int n_received = 0;
		struct shmd_cqe cqe;
		struct setup s;

		setup(&s, mode);
		s.w.lose_percent = s.w.repeat_percent = s.w.swap_percent = 10;
		for (unsigned int i = 0; i < 128; i++) {
			while (s.p.b.rq_pi < n_received + 4)
				post_recv(&s.p.b, s.remote, 0, SIZE);
			memset(s.remote->bytes, 0, SIZE);
			post(&s, QKEY, i, 1 + 31 * i);
			run(&s.p.a, &s);
			expect_ok(&s.p.a, (uint16_t)(i * 2));
			while (tcq_poll(&s.p.b.rcq, &cqe)) {
				ASSERT_EQ(be32toh(cqe.byte_cnt), SHMD_GRH_BYTES + 1 + 31 * i);
				ASSERT_MEMEQ(s.remote->bytes + SHMD_GRH_BYTES, s.local->bytes + i, 1 + 31 * i);
				n_received++;
			}
		}
		ASSERT_GT(n_received, 64);
		expect_alive(&s);
		setup_deinit(&s);
	}
}

TEST(ud_destroyed_with_messages_away)
{
	FOR_EACH_MODE(mode)
	{
		struct setup s;

		setup(&s, mode);
		for (unsigned int i = 0; i < 8; i++) {
			post_recv(&s.p.b, s.remote, 0, 8192);
			post(&s, QKEY, 0, 4096);
		}
		tqp_ring(&s.p.a);
		for (unsigned int i = 0; i < 3; i++)
			world_step(&s.w);
		tqp_deinit(&s.p.a);
		world_run(&s.w);
		tqp_init(&s.p.a, &s.w, 0, &(struct tqp_attr)TQP_ATTR);
		setup_deinit(&s);
	}
}
