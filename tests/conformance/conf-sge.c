/* SPDX-License-Identifier: Apache-2.0 */
/* Several data segments: gathered by writes and sends, scattered by reads, from one region and from several. */
#include "tests/conformance/conf.h"

#define REM 4227u
#define MAX_SGES 60u

/* Segment i: 7 * i + 1 bytes, in an order that is not that of the addresses. */
static size_t sge_at(size_t i)
{
	return 1024 * (i * 7 % MAX_SGES) + i;
}

static size_t sge_bytes(size_t i)
{
	return 7 * i + 1;
}

static void add_sges(struct conf *c, struct conf_wqe *w, size_t n)
{
	for (size_t i = 0; i < n; i++)
		conf_wqe_data(w, (uintptr_t)c->ini.mem.addr + sge_at(i), (uint32_t)sge_bytes(i),
			      c->ini.mem.lkey_be);
}

static void gather(struct conf *c, size_t n)
{
	size_t at = REM;
	struct conf_wqe w;

	conf_need_sges(c, (unsigned int)n);
	conf_wqe_init(&w, SHMD_OPCODE_RDMA_WRITE);
	conf_wqe_raddr(&w, (uintptr_t)c->tgt.mem.addr + REM, c->tgt.mem.rkey_be);
	add_sges(c, &w, n);
	for (size_t i = 0; i < n; at += sge_bytes(i++))
		conf_want_copy(&c->tgt.mem, at, &c->ini.mem, sge_at(i), sge_bytes(i));
	conf_do(c->a, &w);
	conf_check(c);
}

static void scatter(struct conf *c, size_t n)
{
	size_t at = REM;
	struct conf_wqe w;

	conf_need_sges(c, (unsigned int)n);
	conf_wqe_init(&w, SHMD_OPCODE_RDMA_READ);
	conf_wqe_raddr(&w, (uintptr_t)c->tgt.mem.addr + REM, c->tgt.mem.rkey_be);
	add_sges(c, &w, n);
	for (size_t i = 0; i < n; at += sge_bytes(i++))
		conf_want_copy(&c->ini.mem, sge_at(i), &c->tgt.mem, at, sge_bytes(i));
	conf_do(c->a, &w);
	conf_check(c);
}

#define SGE_CASES(n_)                                                                              \
	TEST(conf_sge_write_gathers_##n_##_segments)                                               \
	{                                                                                          \
		conf_each_variant(gather, n_, NULL);                                               \
	}                                                                                          \
	TEST(conf_sge_read_scatters_to_##n_##_segments)                                            \
	{                                                                                          \
		conf_each_variant(scatter, n_, NULL);                                              \
	}
SGE_CASES(2)
SGE_CASES(3)
SGE_CASES(4)
SGE_CASES(30)
SGE_CASES(60)

static void gather_send(struct conf *c, size_t n)
{
	uint64_t base = (uintptr_t)c->tgt.mem.addr;
	struct conf_sge recv_sges[2] = {{base + 100, 50, c->tgt.mem.lkey_be},
					{base + 9000, 40000, c->tgt.mem.lkey_be}};
	size_t at = 0;
	struct conf_wqe w;
	uint16_t sent, recv;

	conf_need(c, CONF_F_RECV);
	conf_need_sges(c, (unsigned int)n);
	recv = conf_post_recv_sges(c->b, recv_sges, 2);
	conf_wqe_init(&w, SHMD_OPCODE_SEND);
	add_sges(c, &w, n);
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < sge_bytes(i); k++, at++)
			conf_want_copy(&c->tgt.mem, at < 50 ? 100 + at : 9000 + at - 50,
				       &c->ini.mem, sge_at(i) + k, 1);
	}
	sent = conf_run(c->a, &w);
	conf_expect_recv(c->b, recv, SHMD_CQE_RESP_SEND, (uint32_t)at);
	conf_expect_ok(c->a, sent);
	conf_check(c);
}

TEST(conf_sge_send_gathers_20_segments_into_2)
{
	conf_each_variant(gather_send, 20, &(struct conf_attr){.rq_wqes = 4});
}

static void two_regions(struct conf *c, size_t arg)
{
	struct conf_mem other;
	struct conf_wqe w;

	conf_mem_open(&c->ini, &other, 16384, SHMD_ACCESS_ALL);
	conf_wqe_init(&w, SHMD_OPCODE_RDMA_WRITE);
	conf_wqe_raddr(&w, (uintptr_t)c->tgt.mem.addr + REM, c->tgt.mem.rkey_be);
	conf_wqe_data(&w, (uintptr_t)other.addr + 1, 5000, other.lkey_be);
	conf_wqe_data(&w, (uintptr_t)c->ini.mem.addr + 2, 6000, c->ini.mem.lkey_be);
	conf_want_copy(&c->tgt.mem, REM, &other, 1, 5000);
	conf_want_copy(&c->tgt.mem, REM + 5000, &c->ini.mem, 2, 6000);
	conf_do(c->a, &w);

	conf_wqe_init(&w, SHMD_OPCODE_RDMA_READ);
	conf_wqe_raddr(&w, (uintptr_t)c->tgt.mem.addr + 20000, c->tgt.mem.rkey_be);
	conf_wqe_data(&w, (uintptr_t)c->ini.mem.addr + 30000, 4097, c->ini.mem.lkey_be);
	conf_wqe_data(&w, (uintptr_t)other.addr + 9000, 4095, other.lkey_be);
	conf_want_copy(&c->ini.mem, 30000, &c->tgt.mem, 20000, 4097);
	conf_want_copy(&other, 9000, &c->tgt.mem, 20000 + 4097, 4095);
	conf_do(c->a, &w);
	conf_check(c);
	conf_check_mem_at(TEST_WHERE, &other, "initiator's second region");
	conf_mem_close(&other);
}

TEST(conf_sge_segments_of_two_regions)
{
	conf_each_variant(two_regions, 0, NULL);
}

static void large_segments(struct conf *c, size_t bytes)
{
	struct conf_wqe w;

	conf_wqe_init(&w, SHMD_OPCODE_RDMA_WRITE);
	conf_wqe_raddr(&w, (uintptr_t)c->tgt.mem.addr + REM, c->tgt.mem.rkey_be);
	for (size_t i = 0; i < 3; i++) {
		size_t at = (2 - i) * (bytes + 3);

		conf_wqe_data(&w, (uintptr_t)c->ini.mem.addr + at, (uint32_t)bytes,
			      c->ini.mem.lkey_be);
		conf_want_copy(&c->tgt.mem, REM + i * bytes, &c->ini.mem, at, bytes);
	}
	conf_do(c->a, &w);
	conf_check(c);
}

TEST(conf_sge_three_segments_of_half_a_mebibyte)
{
	conf_each_variant(large_segments, 524289, &(struct conf_attr){.mem_bytes = 2 << 20});
}

static void same_source_twice(struct conf *c, size_t n)
{
	struct conf_wqe w;

	conf_wqe_init(&w, SHMD_OPCODE_RDMA_WRITE);
	conf_wqe_raddr(&w, (uintptr_t)c->tgt.mem.addr + REM, c->tgt.mem.rkey_be);
	for (size_t i = 0; i < n; i++) {
		conf_wqe_data(&w, (uintptr_t)c->ini.mem.addr + 10, 1000, c->ini.mem.lkey_be);
		conf_want_copy(&c->tgt.mem, REM + 1000 * i, &c->ini.mem, 10, 1000);
	}
	conf_do(c->a, &w);
	conf_check(c);
}

TEST(conf_sge_may_name_one_source_several_times)
{
	conf_each_variant(same_source_twice, 8, NULL);
}
