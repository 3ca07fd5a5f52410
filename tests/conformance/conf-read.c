/* SPDX-License-Identifier: Apache-2.0 */
/* RDMA_READ: every size class, any alignment, nothing beside the local target changes. */
#include "tests/conformance/conf.h"
#include "tests/conformance/sizes.h"

#define LOC 4219u
#define REM 4153u
#define ROOM 16384u

static void read_bytes(struct conf *c, size_t bytes)
{
	struct conf_wqe w;

	conf_need_bytes(c, bytes);
	conf_read(&w, c->a, LOC, REM, bytes);
	conf_want_copy(&c->ini.mem, LOC, &c->tgt.mem, REM, bytes);
	conf_do(c->a, &w);
	conf_check(c);
}

#define READ_CASE(bytes_)                                                                          \
	TEST(conf_read_##bytes_##_bytes)                                                           \
	{                                                                                          \
		conf_each_variant(read_bytes, bytes_,                                              \
				  &(struct conf_attr){.mem_bytes = (bytes_) + ROOM});              \
	}
CONF_SIZES(READ_CASE)

TEST(conf_read_of_nothing_completes_and_changes_nothing)
{
	conf_each_variant(read_bytes, 0, NULL);
}

static void read_edges(struct conf *c, size_t arg)
{
	size_t end = c->tgt.mem.bytes;
	struct conf_wqe w;

	conf_read(&w, c->a, end - 1, 0, 1);
	conf_want_copy(&c->ini.mem, end - 1, &c->tgt.mem, 0, 1);
	conf_do(c->a, &w);
	conf_read(&w, c->a, 0, end - 1, 1);
	conf_want_copy(&c->ini.mem, 0, &c->tgt.mem, end - 1, 1);
	conf_do(c->a, &w);
	conf_check(c);
}

TEST(conf_read_reaches_the_first_and_the_last_byte_of_a_region)
{
	conf_each_variant(read_edges, 0, NULL);
}

static void read_all(struct conf *c, size_t arg)
{
	struct conf_wqe w;

	conf_read(&w, c->a, 0, 0, c->tgt.mem.bytes);
	conf_want_copy(&c->ini.mem, 0, &c->tgt.mem, 0, c->tgt.mem.bytes);
	conf_do(c->a, &w);
	conf_check(c);
}

TEST(conf_read_covers_a_whole_region)
{
	conf_each_variant(read_all, 0, NULL);
}

static void read_alignments(struct conf *c, size_t bytes)
{
	struct conf_wqe w;
	uint16_t last = 0;

	for (size_t rem = 0; rem < 16; rem++) {
		for (size_t loc = 0; loc < 16; loc++) {
			size_t at = 128 * (16 * rem + loc) + loc;

			conf_read(&w, c->a, at, REM + rem, bytes);
			conf_want_copy(&c->ini.mem, at, &c->tgt.mem, REM + rem, bytes);
			last = conf_post(c->a, &w);
		}
		conf_ring(c->a);
		conf_expect_ok(c->a, last);
	}
	conf_check(c);
}

TEST(conf_read_of_37_bytes_at_every_pair_of_alignments)
{
	conf_each_variant(read_alignments, 37, NULL);
}

/* Disjoint targets: reads that overlap locally have no order among their bytes. */
static void read_many(struct conf *c, size_t n)
{
	uint64_t random = 2;
	struct conf_wqe w;

	for (size_t i = 0; i < n; i++) {
		size_t bytes = conf_random(&random) % 500;
		size_t rem = conf_random(&random) % (c->tgt.mem.bytes - bytes);

		conf_read(&w, c->a, 512 * i, rem, bytes);
		conf_want_copy(&c->ini.mem, 512 * i, &c->tgt.mem, rem, bytes);
		conf_run(c->a, &w);
	}
	conf_expect_ok(c->a, (uint16_t)(n - 1));
	conf_check(c);
}

TEST(conf_read_more_at_once_than_may_be_outstanding)
{
	conf_each_variant(read_many, 60, NULL);
}

TEST(conf_read_with_one_outstanding_at_a_time)
{
	static const struct shmd_qp_params params = {.timeout = 20,
						     .retry_count = 7,
						     .rnr_retry = 7,
						     .min_rnr_timer = 1,
						     .max_rd_atomic = 1};

	conf_each_variant(read_many, 40, &(struct conf_attr){.params = &params});
}

static void read_both_ways(struct conf *c, size_t n)
{
	struct conf_wqe w;

	for (size_t i = 0; i < n; i++) {
		conf_read(&w, c->a, 32768 + 500 * i, 500 * i, 499);
		conf_want_copy(&c->ini.mem, 32768 + 500 * i, &c->tgt.mem, 500 * i, 499);
		conf_run(c->a, &w);
		conf_read(&w, c->b, 32768 + 500 * i, 500 * i, 498);
		conf_want_copy(&c->tgt.mem, 32768 + 500 * i, &c->ini.mem, 500 * i, 498);
		conf_run(c->b, &w);
	}
	conf_expect_ok(c->a, (uint16_t)(n - 1));
	conf_expect_ok(c->b, (uint16_t)(n - 1));
	conf_check(c);
}

TEST(conf_read_in_both_directions_at_once)
{
	conf_each_variant(read_both_ways, 60, NULL);
}

static void read_from_iova(struct conf *c, size_t iova)
{
	struct shmd_mr_attr attr = {
		.offset = 4096,
		.length_bytes = 5000,
		.iova = iova,
		.access = SHMD_ACCESS_REMOTE_READ,
	};
	struct shmd_mr *mr;
	struct conf_wqe w;

	conf_need(c, iova ? 0 : CONF_F_ZERO_BASED);
	mr = conf_mr_of_part(&c->tgt, &c->tgt.mem, &attr);
	conf_wqe_init(&w, SHMD_OPCODE_RDMA_READ);
	conf_wqe_raddr(&w, attr.iova, shmd_mr_rkey_be(mr));
	conf_wqe_data(&w, (uintptr_t)c->ini.mem.addr + LOC, 5000, c->ini.mem.lkey_be);
	conf_want_copy(&c->ini.mem, LOC, &c->tgt.mem, 4096, 5000);
	conf_do(c->a, &w);
	conf_check(c);
	ASSERT_OK(shmd_mr_dereg(mr));
}

TEST(conf_read_from_a_zero_based_region_that_may_only_be_read)
{
	conf_each_variant(read_from_iova, 0, NULL);
}

/* ---- what a requester's CQE says ----------------------------------------------------------------------------------- */

static void read_sees_peer_stores(struct conf *c, size_t rounds)
{
	volatile uint64_t *remote = (volatile uint64_t *)(c->tgt.mem.addr + 4096);
	volatile uint64_t *local = (volatile uint64_t *)(c->ini.mem.addr + 4096);
	struct conf_wqe w;

	conf_read(&w, c->a, 4096, 4096, 8);
	for (uint64_t i = 1; i <= rounds; i++) {
		*remote = i;
		conf_do(c->a, &w);
		ASSERT_EQ(*local, i);
	}
}

TEST(conf_read_returns_what_the_peer_stored_last)
{
	conf_each_variant(read_sees_peer_stores, 200, NULL);
}
