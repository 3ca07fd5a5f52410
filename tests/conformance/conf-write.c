/* SPDX-License-Identifier: Apache-2.0 */
/* RDMA_WRITE and RDMA_WRITE_IMM: every size class, any alignment, nothing beside the target changes. */
#include "tests/conformance/conf.h"
#include "tests/conformance/sizes.h"

/* Offsets that are no multiple of anything; at least a page stays untouched on both sides. */
#define LOC 4159u
#define REM 4227u
#define ROOM 16384u

static void write_bytes(struct conf *c, size_t bytes)
{
	struct conf_wqe w;

	conf_need_bytes(c, bytes);
	conf_write(&w, c->a, LOC, REM, bytes);
	conf_want_copy(&c->tgt.mem, REM, &c->ini.mem, LOC, bytes);
	conf_do(c->a, &w);
	conf_check(c);
}

#define WRITE_CASE(bytes_)                                                                         \
	TEST(conf_write_##bytes_##_bytes)                                                          \
	{                                                                                          \
		conf_each_variant(write_bytes, bytes_,                                             \
				  &(struct conf_attr){.mem_bytes = (bytes_) + ROOM});              \
	}
CONF_SIZES(WRITE_CASE)

TEST(conf_write_of_nothing_completes_and_changes_nothing)
{
	conf_each_variant(write_bytes, 0, NULL);
}

static void write_nothing_with_bad_rkey(struct conf *c, size_t arg)
{
	struct conf_wqe w;

	conf_wqe_init(&w, SHMD_OPCODE_RDMA_WRITE);
	conf_wqe_raddr(&w, 0, 0);
	conf_do(c->a, &w);
	conf_check(c);
}

TEST(conf_write_of_nothing_does_not_look_at_the_rkey)
{
	conf_each_variant(write_nothing_with_bad_rkey, 0, NULL);
}

static void write_edges(struct conf *c, size_t arg)
{
	size_t end = c->tgt.mem.bytes;
	struct conf_wqe w;

	conf_write(&w, c->a, end - 1, 0, 1);
	conf_want_copy(&c->tgt.mem, 0, &c->ini.mem, end - 1, 1);
	conf_do(c->a, &w);
	conf_write(&w, c->a, 0, end - 1, 1);
	conf_want_copy(&c->tgt.mem, end - 1, &c->ini.mem, 0, 1);
	conf_do(c->a, &w);
	conf_check(c);
}

TEST(conf_write_reaches_the_first_and_the_last_byte_of_a_region)
{
	conf_each_variant(write_edges, 0, NULL);
}

static void write_all(struct conf *c, size_t arg)
{
	struct conf_wqe w;

	conf_write(&w, c->a, 0, 0, c->tgt.mem.bytes);
	conf_want_copy(&c->tgt.mem, 0, &c->ini.mem, 0, c->tgt.mem.bytes);
	conf_do(c->a, &w);
	conf_check(c);
}

TEST(conf_write_covers_a_whole_region)
{
	conf_each_variant(write_all, 0, NULL);
}

static void write_alignments(struct conf *c, size_t bytes)
{
	struct conf_wqe w;
	uint16_t last = 0;

	for (size_t loc = 0; loc < 16; loc++) {
		for (size_t rem = 0; rem < 16; rem++) {
			size_t at = 128 * (16 * loc + rem) + rem;

			conf_write(&w, c->a, LOC + loc, at, bytes);
			conf_want_copy(&c->tgt.mem, at, &c->ini.mem, LOC + loc, bytes);
			last = conf_post(c->a, &w);
		}
		conf_ring(c->a);
		conf_expect_ok(c->a, last);
	}
	conf_check(c);
}

TEST(conf_write_of_37_bytes_at_every_pair_of_alignments)
{
	conf_each_variant(write_alignments, 37, NULL);
}

TEST(conf_write_of_8_bytes_at_every_pair_of_alignments)
{
	conf_each_variant(write_alignments, 8, NULL);
}

static void write_random(struct conf *c, size_t n)
{
	uint64_t random = 1;
	struct conf_wqe w;

	while (n--) {
		size_t bytes = conf_random(&random) % 6000;
		size_t loc = conf_random(&random) % (c->ini.mem.bytes - bytes);
		size_t rem = conf_random(&random) % (c->tgt.mem.bytes - bytes);

		conf_write(&w, c->a, loc, rem, bytes);
		conf_want_copy(&c->tgt.mem, rem, &c->ini.mem, loc, bytes);
		conf_post(c->a, &w);
		if (conf_room(c->a) == 0 || n == 0) {
			conf_ring(c->a);
			conf_expect_ok(c->a, (uint16_t)(c->a->sq_pi - 1));
			conf_check(c);
		}
	}
}

TEST(conf_write_512_random_overlapping_ranges)
{
	conf_each_variant(write_random, 512, NULL);
}

static void write_both_ways(struct conf *c, size_t n)
{
	struct conf_wqe w;

	for (size_t i = 0; i < n; i++) {
		conf_write(&w, c->a, 100 * i, 32768 + 100 * i, 99);
		conf_want_copy(&c->tgt.mem, 32768 + 100 * i, &c->ini.mem, 100 * i, 99);
		conf_run(c->a, &w);
		conf_write(&w, c->b, 101 * i, 32768 + 101 * i, 100);
		conf_want_copy(&c->ini.mem, 32768 + 101 * i, &c->tgt.mem, 101 * i, 100);
		conf_run(c->b, &w);
	}
	conf_expect_ok(c->a, (uint16_t)(n - 1));
	conf_expect_ok(c->b, (uint16_t)(n - 1));
	conf_check(c);
}

TEST(conf_write_in_both_directions_at_once)
{
	conf_each_variant(write_both_ways, 60, NULL);
}

static void write_from_read_only(struct conf *c, size_t arg)
{
	struct conf_mem source;
	struct conf_wqe w;

	conf_mem_open(&c->ini, &source, 4096, 0);
	conf_wqe_init(&w, SHMD_OPCODE_RDMA_WRITE);
	conf_wqe_raddr(&w, (uintptr_t)c->tgt.mem.addr + REM, c->tgt.mem.rkey_be);
	conf_wqe_data(&w, (uintptr_t)source.addr, 300, source.lkey_be);
	conf_want_copy(&c->tgt.mem, REM, &source, 0, 300);
	conf_do(c->a, &w);
	conf_check(c);
	conf_mem_close(&source);
}

TEST(conf_write_from_memory_registered_without_any_access)
{
	conf_each_variant(write_from_read_only, 0, NULL);
}

/* ---- a region whose iova is not its address --------------------------------------------------------------------- */

static void write_to_iova(struct conf *c, size_t arg)
{
	struct shmd_mr_attr attr = {
		.offset = 8192,
		.length_bytes = 8192,
		.iova = arg,
		.access = SHMD_ACCESS_ALL,
	};
	struct shmd_mr *mr;
	struct conf_wqe w;

	conf_need(c, arg ? 0 : CONF_F_ZERO_BASED);
	mr = conf_mr_of_part(&c->tgt, &c->tgt.mem, &attr);
	conf_wqe_init(&w, SHMD_OPCODE_RDMA_WRITE);
	conf_wqe_raddr(&w, attr.iova + 100, shmd_mr_rkey_be(mr));
	conf_wqe_data(&w, (uintptr_t)c->ini.mem.addr + LOC, 5000, c->ini.mem.lkey_be);
	conf_want_copy(&c->tgt.mem, 8192 + 100, &c->ini.mem, LOC, 5000);
	conf_do(c->a, &w);
	conf_check(c);
	ASSERT_OK(shmd_mr_dereg(mr));
}

TEST(conf_write_to_a_zero_based_region_inside_a_memfd)
{
	conf_each_variant(write_to_iova, 0, NULL);
}

TEST(conf_write_to_a_region_at_a_high_iova)
{
	conf_each_variant(write_to_iova, 0xffffffff00000000ull, NULL);
}

/* ---- with immediate ------------------------------------------------------------------------------------------------- */

static void write_imm(struct conf *c, size_t bytes)
{
	uint16_t recv = 0, sent;
	struct conf_cqe cqe;
	struct conf_wqe w;

	conf_need(c, CONF_F_RECV);
	recv = conf_post_recv(c->b, 0, 64);
	conf_write(&w, c->a, LOC, REM, bytes);
	w.opcode = SHMD_OPCODE_RDMA_WRITE_IMM;
	w.imm = 0x12345678;
	conf_want_copy(&c->tgt.mem, REM, &c->ini.mem, LOC, bytes);
	sent = conf_run(c->a, &w);
	cqe = conf_wait_recv(c->b);
	conf_check(c);
	ASSERT_EQ(cqe.opcode, SHMD_CQE_RESP_WRITE_IMM);
	ASSERT_EQ(cqe.imm, 0x12345678);
	ASSERT_EQ(cqe.byte_cnt, bytes);
	ASSERT_EQ(cqe.wqe_counter, recv);
	conf_expect_ok(c->a, sent);
}

#define WRITE_IMM_CASE(bytes_)                                                                     \
	TEST(conf_write_imm_##bytes_##_bytes)                                                      \
	{                                                                                          \
		conf_each_variant(                                                                 \
			write_imm, bytes_,                                                         \
			&(struct conf_attr){.mem_bytes = (bytes_) + ROOM, .rq_wqes = 4});          \
	}
WRITE_IMM_CASE(0)
WRITE_IMM_CASE(1)
WRITE_IMM_CASE(4096)
WRITE_IMM_CASE(65537)
WRITE_IMM_CASE(1048576)

static void write_imm_waits(struct conf *c, size_t arg)
{
	struct conf_wqe w;
	uint16_t sent, recv;

	conf_need(c, CONF_F_RECV);
	conf_write(&w, c->a, LOC, REM, 500);
	w.opcode = SHMD_OPCODE_RDMA_WRITE_IMM;
	sent = conf_run(c->a, &w);
	conf_expect_no_cqe(c->a, 5);
	recv = conf_post_recv(c->b, 0, 0);
	conf_want_copy(&c->tgt.mem, REM, &c->ini.mem, LOC, 500);
	conf_expect_recv(c->b, recv, SHMD_CQE_RESP_WRITE_IMM, 500);
	conf_expect_ok(c->a, sent);
	conf_check(c);
}

TEST(conf_write_imm_waits_for_a_receive)
{
	conf_each_variant(write_imm_waits, 0, &(struct conf_attr){.rq_wqes = 4});
}
