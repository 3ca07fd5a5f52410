/* SPDX-License-Identifier: Apache-2.0 */
/* Every opcode moves the right bytes, at every size class, over every kind of memory. */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "fixture.h"
#include "tests/lib/test.h"

static const uint32_t sizes[] = {0, 1, 2, 4, 7, 8, 64, 127, 128, 129, 4095, 4096, 4097, 20000};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))
#define ROOM 32768u

static void setup_nodes(struct setup *s, enum mem_mode mode, unsigned int a, unsigned int b)
{
	struct tqp_attr attr = TQP_ATTR;

	world_init(&s->w, mode);
	s->local = region_new(&s->w, a, ROOM);
	s->remote = region_new(&s->w, b, ROOM);
	region_fill(s->local, 1);
	region_fill(s->remote, 2);
	pair_init_nodes(&s->p, &s->w, a, b, &attr);
}

static void setup(struct setup *s, enum mem_mode mode)
{
	setup_nodes(s, mode, 0, 1);
}

static void teardown(struct setup *s)
{
	ASSERT_EQ(tqp_info(&s->p.a).first_error, 0);
	ASSERT_EQ(tqp_info(&s->p.b).first_error, 0);
	setup_deinit(s);
}

/* The bytes arrived, and those around them are as before. */
static void expect_moved(const struct region *src, uint64_t src_offset, const struct region *dst,
			 uint64_t dst_offset, uint32_t bytes, const uint8_t *before)
{
	ASSERT_MEMEQ(dst->bytes, before, dst_offset);
	ASSERT_MEMEQ(dst->bytes + dst_offset, src->bytes + src_offset, bytes);
	ASSERT_MEMEQ(dst->bytes + dst_offset + bytes, before + dst_offset + bytes,
		     dst->size_bytes - dst_offset - bytes);
}

TEST(write_moves_every_size)
{
	FOR_EACH_MODE(mode)
	{
		for (unsigned int i = 0; i < N_SIZES; i++) {
			uint8_t before[ROOM];
			struct setup s;
			uint16_t index;

			setup(&s, mode);
			memcpy(before, s.remote->bytes, ROOM);
			index = post_write(&s.p.a, SIGNALED, s.local, 24, s.remote, 104, sizes[i]);
			tqp_ring(&s.p.a);
			world_run(&s.w);
			expect_ok(&s.p.a, index);
			tcq_expect_none(&s.p.a.scq);
			tcq_expect_none(&s.p.b.rcq);
			expect_moved(s.local, 24, s.remote, 104, sizes[i], before);
			ASSERT_EQ(tqp_info(&s.p.a).counters.bytes_sent, sizes[i]);
			teardown(&s);
		}
	}
}

TEST(read_moves_every_size)
{
	FOR_EACH_MODE(mode)
	{
		for (unsigned int i = 0; i < N_SIZES; i++) {
			uint8_t before[ROOM];
			struct shmd_cqe cqe;
			struct setup s;
			uint16_t index;

			setup(&s, mode);
			memcpy(before, s.local->bytes, ROOM);
			index = post_read(&s.p.a, SIGNALED, s.local, 24, s.remote, 104, sizes[i]);
			tqp_ring(&s.p.a);
			world_run(&s.w);
			expect_cqe(&s.p.a.scq, SHMD_CQE_REQ, index, &cqe);
			ASSERT_EQ(be32toh(cqe.byte_cnt), sizes[i]);
			expect_moved(s.remote, 104, s.local, 24, sizes[i], before);
			ASSERT_EQ(tqp_info(&s.p.a).counters.bytes_read, sizes[i]);
			teardown(&s);
		}
	}
}

static uint16_t post_inline(struct setup *s, unsigned int opcode, uint64_t dst_offset,
			    uint32_t bytes)
{
	struct wqe wqe;

	wqe_begin(&wqe, opcode, SIGNALED);
	wqe_imm(&wqe, 0xabcd);
	if (opcode == SHMD_OPCODE_RDMA_WRITE || opcode == SHMD_OPCODE_RDMA_WRITE_IMM)
		wqe_raddr(&wqe, s->remote->iova + dst_offset, s->remote->key);
	wqe_inline(&wqe, s->local->bytes, bytes);
	return tqp_post(&s->p.a, &wqe);
}

TEST(inline_write_moves_every_size)
{
	static const uint32_t inline_sizes[] = {0,  1,	3,  4,	8,   12,  13,
						28, 29, 44, 45, 200, 900, 972};

	FOR_EACH_MODE(mode)
	{
		for (unsigned int i = 0; i < sizeof(inline_sizes) / sizeof(inline_sizes[0]); i++) {
			uint32_t bytes = inline_sizes[i];
			uint8_t before[ROOM];
			struct setup s;
			uint16_t index;

			setup(&s, mode);
			memcpy(before, s.remote->bytes, ROOM);
			index = post_inline(&s, SHMD_OPCODE_RDMA_WRITE, 3, bytes);
			tqp_ring(&s.p.a);
			world_run(&s.w);
			expect_ok(&s.p.a, index);
			expect_moved(s.local, 0, s.remote, 3, bytes, before);
			teardown(&s);
		}
	}
}

/* Inline data of several packets. */
TEST(inline_write_larger_than_a_chunk)
{
	struct tqp_attr attr = TQP_ATTR;
	struct setup s;
	uint16_t index;

	world_init_chunk(&s.w, MEM_POINTER, 256);
	s.local = region_new(&s.w, 0, ROOM);
	s.remote = region_new(&s.w, 1, ROOM);
	region_fill(s.local, 1);
	pair_init(&s.p, &s.w, &attr);
	index = post_inline(&s, SHMD_OPCODE_RDMA_WRITE, 3, 972);
	tqp_ring(&s.p.a);
	world_run(&s.w);
	expect_ok(&s.p.a, index);
	ASSERT_MEMEQ(s.remote->bytes + 3, s.local->bytes, 972);
	ASSERT_EQ(s.remote->bytes[3 + 972], 0);
	teardown(&s);
}

TEST(send_fills_the_receive)
{
	FOR_EACH_MODE(mode)
	{
		for (unsigned int i = 0; i < N_SIZES; i++) {
			uint8_t before[ROOM];
			struct shmd_cqe cqe;
			struct setup s;
			uint16_t index;

			setup(&s, mode);
			memcpy(before, s.remote->bytes, ROOM);
			post_recv(&s.p.b, s.remote, 72, 20000);
			index = post_send(&s.p.a, SIGNALED, s.local, 16, sizes[i]);
			tqp_ring(&s.p.a);
			world_run(&s.w);
			expect_ok(&s.p.a, index);
			expect_cqe(&s.p.b.rcq, SHMD_CQE_RESP_SEND, 0, &cqe);
			ASSERT_EQ(be32toh(cqe.byte_cnt), sizes[i]);
			ASSERT_EQ(be32toh(cqe.srqn_uidx), s.p.b.qpn + 0x10000);
			ASSERT_EQ(be32toh(cqe.flags_rqpn) & 0xffffff, s.p.a.qpn);
			expect_moved(s.local, 16, s.remote, 72, sizes[i], before);
			ASSERT_EQ(tqp_info(&s.p.b).counters.recv_wqes, 1);
			teardown(&s);
		}
	}
}

static void send_imm(unsigned int opcode, uint8_t cqe_opcode, uint32_t bytes, enum mem_mode mode)
{
	struct shmd_cqe cqe;
	struct setup s;
	struct wqe wqe;
	uint16_t index;

	setup(&s, mode);
	post_recv(&s.p.b, s.remote, 0, 20000);
	wqe_begin(&wqe, opcode, SIGNALED);
	wqe_imm(&wqe, 0xcafe1234);
	if (opcode == SHMD_OPCODE_RDMA_WRITE_IMM)
		wqe_raddr(&wqe, s.remote->iova + 8, s.remote->key);
	if (bytes)
		wqe_data(&wqe, s.local->iova, s.local->key, bytes);
	index = tqp_post(&s.p.a, &wqe);
	tqp_ring(&s.p.a);
	world_run(&s.w);
	expect_ok(&s.p.a, index);
	expect_cqe(&s.p.b.rcq, cqe_opcode, 0, &cqe);
	ASSERT_EQ(be32toh(cqe.imm_inval_pkey), 0xcafe1234);
	ASSERT_EQ(be32toh(cqe.byte_cnt), bytes);
	ASSERT_MEMEQ(s.remote->bytes + (opcode == SHMD_OPCODE_SEND_IMM ? 0 : 8), s.local->bytes,
		     bytes);
	tcq_expect_none(&s.p.b.rcq);
	teardown(&s);
}

TEST(immediate_data_arrive_with_send_and_write)
{
	FOR_EACH_MODE(mode)
	{
		send_imm(SHMD_OPCODE_SEND_IMM, SHMD_CQE_RESP_SEND_IMM, 0, mode);
		send_imm(SHMD_OPCODE_SEND_IMM, SHMD_CQE_RESP_SEND_IMM, 100, mode);
		send_imm(SHMD_OPCODE_SEND_IMM, SHMD_CQE_RESP_SEND_IMM, 13000, mode);
		send_imm(SHMD_OPCODE_RDMA_WRITE_IMM, SHMD_CQE_RESP_WRITE_IMM, 0, mode);
		send_imm(SHMD_OPCODE_RDMA_WRITE_IMM, SHMD_CQE_RESP_WRITE_IMM, 100, mode);
		send_imm(SHMD_OPCODE_RDMA_WRITE_IMM, SHMD_CQE_RESP_WRITE_IMM, 13000, mode);
	}
}

/* `n` pieces of unequal size from places in reverse order; returns the bytes in all. */
static uint32_t add_pieces(struct wqe *wqe, const struct region *r, unsigned int n, uint32_t step)
{
	uint32_t total = 0;

	for (unsigned int i = 0; i < n; i++) {
		uint32_t bytes = step + i * 7 % step;

		wqe_data(wqe, r->iova + (uint64_t)(n - 1 - i) * 2 * step, r->key, bytes);
		total += bytes;
	}
	return total;
}

static void expect_pieces(const uint8_t *flat, const struct region *r, unsigned int n,
			  uint32_t step)
{
	for (unsigned int i = 0; i < n; i++) {
		uint32_t bytes = step + i * 7 % step;

		ASSERT_MEMEQ(r->bytes + (uint64_t)(n - 1 - i) * 2 * step, flat, bytes);
		flat += bytes;
	}
}

static void pieces(unsigned int opcode, unsigned int n, uint32_t step, enum mem_mode mode)
{
	struct region *listed, *flat;
	struct shmd_cqe cqe;
	struct setup s;
	struct wqe wqe;
	uint32_t bytes;
	uint16_t index;

	setup(&s, mode);
	listed = s.local;
	flat = s.remote;
	post_recv(&s.p.b, flat, 0, ROOM);
	wqe_begin(&wqe, opcode, SIGNALED);
	if (opcode != SHMD_OPCODE_SEND)
		wqe_raddr(&wqe, flat->iova, flat->key);
	bytes = add_pieces(&wqe, listed, n, step);
	ASSERT_LE(bytes, ROOM);
	index = tqp_post(&s.p.a, &wqe);
	tqp_ring(&s.p.a);
	world_run(&s.w);
	expect_cqe(&s.p.a.scq, SHMD_CQE_REQ, index, &cqe);
	ASSERT_EQ(be32toh(cqe.byte_cnt), bytes);
	expect_pieces(flat->bytes, listed, n, step);
	teardown(&s);
}

TEST(several_data_segments)
{
	static const unsigned int opcodes[] = {SHMD_OPCODE_RDMA_WRITE, SHMD_OPCODE_RDMA_READ,
					       SHMD_OPCODE_SEND};

	FOR_EACH_MODE(mode)
	{
		for (unsigned int i = 0; i < 3; i++) {
			pieces(opcodes[i], 2, 8, mode);
			pieces(opcodes[i], 3, 2048, mode);
			pieces(opcodes[i], 8, 1500, mode);
			pieces(opcodes[i], 60, 200, mode);
		}
	}
}

TEST(receive_scattered_over_several_segments)
{
	FOR_EACH_MODE(mode)
	{
		struct setup s;
		struct wqe list;

		setup(&s, mode);
		/* Only the data segments behind the control segment are the receive WQE. */
		wqe_begin(&list, SHMD_OPCODE_NOP, 0);
		wqe_data(&list, s.remote->iova + 9000, s.remote->key, 100);
		wqe_data(&list, s.remote->iova + 100, s.remote->key, 5000);
		wqe_data(&list, s.remote->iova + 10000, s.remote->key, 7);
		wqe_data(&list, s.remote->iova + 20000, s.remote->key, 6000);
		post_recv_raw(&s.p.b, list.bytes + 16, 64);
		post_send(&s.p.a, SIGNALED, s.local, 0, 100 + 5000 + 7 + 2000);
		tqp_ring(&s.p.a);
		world_run(&s.w);
		expect_ok(&s.p.a, 0);
		expect_cqe(&s.p.b.rcq, SHMD_CQE_RESP_SEND, 0, NULL);
		ASSERT_MEMEQ(s.remote->bytes + 9000, s.local->bytes, 100);
		ASSERT_MEMEQ(s.remote->bytes + 100, s.local->bytes + 100, 5000);
		ASSERT_MEMEQ(s.remote->bytes + 10000, s.local->bytes + 5100, 7);
		ASSERT_MEMEQ(s.remote->bytes + 20000, s.local->bytes + 5107, 2000);
		teardown(&s);
	}
}

TEST(one_engine_may_hold_both_ends)
{
	FOR_EACH_MODE(mode)
	{
		struct setup s;

		setup_nodes(&s, mode, 0, 0);
		post_write(&s.p.a, 0, s.local, 0, s.remote, 0, 10000);
		post_read(&s.p.a, SIGNALED, s.local, 10000, s.remote, 0, 10000);
		tqp_ring(&s.p.a);
		world_run(&s.w);
		expect_ok(&s.p.a, 1);
		ASSERT_MEMEQ(s.local->bytes + 10000, s.local->bytes, 10000);
		teardown(&s);
	}
}

TEST(a_qp_may_be_connected_to_itself)
{
	FOR_EACH_MODE(mode)
	{
		struct tqp_attr attr = TQP_ATTR;
		struct region *r;
		struct world w;
		struct tqp qp;

		world_init(&w, mode);
		r = region_new(&w, 0, ROOM);
		region_fill(r, 3);
		tqp_init(&qp, &w, 0, &attr);
		tqp_connect(&qp, &qp, &attr);
		post_recv(&qp, r, 24000, 100);
		post_write(&qp, SIGNALED, r, 0, r, 10000, 9000);
		post_send(&qp, SIGNALED, r, 0, 100);
		tqp_ring(&qp);
		world_run(&w);
		expect_ok(&qp, 0);
		expect_ok(&qp, 1);
		ASSERT_MEMEQ(r->bytes + 10000, r->bytes, 9000);
		ASSERT_MEMEQ(r->bytes + 24000, r->bytes, 100);
		tqp_deinit(&qp);
		world_deinit(&w);
	}
}

/* WQEs of one to sixteen WQEBBs through a ring of sixteen, many times round, index beyond 16 bits. */
TEST(wqes_wrap_in_the_ring)
{
	struct tqp_attr attr = TQP_ATTR;
	uint64_t seed = 9;
	struct setup s;

	attr.log2_sq = 4;
	world_init(&s.w, MEM_POINTER);
	s.local = region_new(&s.w, 0, ROOM);
	s.remote = region_new(&s.w, 1, ROOM);
	region_fill(s.local, 1);
	pair_init(&s.p, &s.w, &attr);
	for (unsigned int i = 0; i < 10000; i++) {
		unsigned int n = 1 + (unsigned int)(test_random(&seed) % 60);
		struct wqe wqe;
		uint32_t bytes;

		memset(s.remote->bytes, 0, ROOM);
		wqe_begin(&wqe, SHMD_OPCODE_RDMA_WRITE, SIGNALED);
		wqe_raddr(&wqe, s.remote->iova, s.remote->key);
		bytes = add_pieces(&wqe, s.local, n, 16);
		expect_ok(&s.p.a, (tqp_post(&s.p.a, &wqe), tqp_ring(&s.p.a), world_run(&s.w),
				   (uint16_t)(s.p.a.pi - (wqe.ds + 3) / 4)));
		expect_pieces(s.remote->bytes, s.local, n, 16);
		ASSERT_EQ(s.remote->bytes[bytes], 0);
	}
	teardown(&s);
}

TEST(nop_completes_and_may_be_padded)
{
	struct setup s;
	struct wqe wqe;

	setup(&s, MEM_POINTER);
	wqe_begin(&wqe, SHMD_OPCODE_NOP, SIGNALED);
	tqp_post(&s.p.a, &wqe);
	wqe.ds = 13;
	tqp_post(&s.p.a, &wqe);
	post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8);
	tqp_ring(&s.p.a);
	world_run(&s.w);
	expect_ok(&s.p.a, 0);
	expect_ok(&s.p.a, 1);
	expect_ok(&s.p.a, 5);
	ASSERT_EQ(tqp_info(&s.p.a).counters.wqes_by_kind[ENGINE_WQE_NOP], 2);
	teardown(&s);
}

TEST(large_messages_of_many_chunks)
{
	FOR_EACH_MODE(mode)
	{
		struct tqp_attr attr = TQP_ATTR;
		uint32_t bytes = 1u << 20;
		struct setup s;

		world_init_chunk(&s.w, mode, 65536);
		s.local = region_new(&s.w, 0, 4 * bytes);
		s.remote = region_new(&s.w, 1, bytes + 8);
		region_fill(s.local, 4);
		pair_init(&s.p, &s.w, &attr);
		post_recv(&s.p.b, s.remote, 0, bytes + 8);
		post_write(&s.p.a, SIGNALED, s.local, 5, s.remote, 3, bytes);
		post_read(&s.p.a, SIGNALED, s.local, bytes + 9, s.remote, 0, bytes + 8);
		post_send(&s.p.a, SIGNALED | FENCE, s.local, 3 * bytes, bytes);
		tqp_ring(&s.p.a);
		world_run(&s.w);
		for (uint16_t i = 0; i < 3; i++)
			expect_ok(&s.p.a, i);
		ASSERT_MEMEQ(s.local->bytes + bytes + 9 + 3, s.local->bytes + 5, bytes);
		ASSERT_MEMEQ(s.remote->bytes, s.local->bytes + 3 * bytes, bytes);
		teardown(&s);
	}
}

/* Memory that ends an operation inside the call that began it, and says "later" nevertheless. */
TEST(operations_that_end_inside_their_call)
{
	struct setup s;

	setup(&s, MEM_SYNC);
	s.local->mem.done_inside = s.remote->mem.done_inside = true;
	post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 10000);
	post_read(&s.p.a, SIGNALED, s.local, 16384, s.remote, 0, 10000);
	post_fadd(&s.p.a, SIGNALED, s.local, 30000, s.remote, 32000, 1);
	tqp_ring(&s.p.a);
	world_run(&s.w);
	for (uint16_t i = 0; i < 3; i++)
		expect_ok(&s.p.a, i);
	ASSERT_MEMEQ(s.local->bytes + 16384, s.local->bytes, 10000);
	s.remote->mem.fail_with = -EIO;
	post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 10000);
	tqp_ring(&s.p.a);
	world_run(&s.w);
	expect_error(&s.p.a.scq, false, 3, SHMD_SYNDROME_REMOTE_OP_ERR);
	pair_deinit(&s.p);
	world_deinit(&s.w);
}

/* A client that posts over requests on their way harms itself only: what was fetched is what is sent. */
TEST(overposting_waits_for_room)
{
	struct tqp_attr attr = TQP_ATTR;
	struct setup s;

	attr.log2_sq = 4;
	world_init(&s.w, MEM_DELAY);
	s.w.delays.hold_turns = 3;
	s.local = region_new(&s.w, 0, ROOM);
	s.remote = region_new(&s.w, 1, ROOM);
	region_fill(s.local, 1);
	pair_init(&s.p, &s.w, &attr);
	for (unsigned int i = 0; i < 100; i++) {
		post_write(&s.p.a, 0, s.local, 64 * i, s.remote, 64 * i, 64);
		tqp_ring(&s.p.a);
		world_step(&s.w);
		while ((uint16_t)(s.p.a.pi - tqp_info(&s.p.a).sq_ci) > 8)
			world_step(&s.w);
	}
	world_run(&s.w);
	ASSERT_EQ(tqp_info(&s.p.a).counters.wqes, 100);
	ASSERT_MEMEQ(s.remote->bytes, s.local->bytes, 6400);
	teardown(&s);
}

/* A client's writes to a WQE after its fetch change nothing, not even when the engine sends it again. */
TEST(a_wqe_is_read_once)
{
	struct setup s;

	setup(&s, MEM_DELAY);
	s.w.delays.hold_turns = 20;
	post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 16384);
	tqp_ring(&s.p.a);
	for (unsigned int i = 0; i < 4; i++)
		world_step(&s.w);
	ASSERT_EQ(tqp_info(&s.p.a).sq_ci, 1);
	memset(s.p.a.sq, 0xee, 64);
	world_run(&s.w);
	expect_ok(&s.p.a, 0);
	ASSERT_MEMEQ(s.remote->bytes, s.local->bytes, 16384);
	teardown(&s);
}

TEST(flipped_byte_fault_shows)
{
	FOR_EACH_MODE(mode)
	{
		unsigned int differ = 0;
		struct setup s;

		setup(&s, mode);
		engine_set_fault(s.w.nodes[1].engine, ENGINE_FAULT_FLIP_PAYLOAD_BYTE, 2);
		post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 100);
		post_write(&s.p.a, SIGNALED, s.local, 100, s.remote, 100, 300);
		post_write(&s.p.a, SIGNALED, s.local, 400, s.remote, 400, 100);
		tqp_ring(&s.p.a);
		world_run(&s.w);
		for (uint16_t i = 0; i < 3; i++)
			expect_ok(&s.p.a, i);
		for (unsigned int i = 0; i < 500; i++)
			differ += s.local->bytes[i] != s.remote->bytes[i];
		ASSERT_EQ(differ, 1);
		ASSERT_NE(s.local->bytes[100], s.remote->bytes[100]);
		teardown(&s);
	}
}

TEST(counters_by_kind)
{
	struct engine_qp_counters sum;
	struct setup s;

	setup(&s, MEM_POINTER);
	post_recv(&s.p.b, s.remote, 0, 64);
	post_write(&s.p.a, 0, s.local, 0, s.remote, 0, 8);
	post_write(&s.p.a, 0, s.local, 0, s.remote, 0, 8);
	post_read(&s.p.a, 0, s.local, 0, s.remote, 0, 16);
	post_fadd(&s.p.a, 0, s.local, 0, s.remote, 0, 1);
	post_send(&s.p.a, SIGNALED, s.local, 0, 64);
	tqp_ring(&s.p.a);
	world_run(&s.w);
	expect_ok(&s.p.a, 4);
	engine_counters(s.w.nodes[0].engine, &sum);
	ASSERT_EQ(sum.wqes, 5);
	ASSERT_EQ(sum.wqes_by_kind[ENGINE_WQE_WRITE], 2);
	ASSERT_EQ(sum.wqes_by_kind[ENGINE_WQE_READ], 1);
	ASSERT_EQ(sum.wqes_by_kind[ENGINE_WQE_ATOMIC], 1);
	ASSERT_EQ(sum.wqes_by_kind[ENGINE_WQE_SEND], 1);
	ASSERT_EQ(sum.bytes_sent, 8 + 8 + 8 + 64);
	ASSERT_EQ(sum.bytes_read, 16);
	pair_deinit(&s.p);
	engine_counters(s.w.nodes[0].engine, &sum);
	ASSERT_EQ(sum.wqes, 5);
	world_deinit(&s.w);
}
