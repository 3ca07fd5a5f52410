/* SPDX-License-Identifier: Apache-2.0 */
/* SEND and SEND_IMM into receive queues: sizes, several segments, receives that come late, wrap of the ring. */
#include "tests/conformance/conf.h"
#include "tests/conformance/sizes.h"

#define LOC 4159u
#define REM 4227u
#define ROOM 16384u

static const struct conf_attr with_rq = {.rq_wqes = 16};

static void send_bytes(struct conf *c, size_t bytes)
{
	struct conf_wqe w;
	uint16_t sent, recv;

	conf_need(c, CONF_F_RECV);
	conf_need_bytes(c, bytes);
	recv = conf_post_recv(c->b, REM, (uint32_t)bytes);
	conf_send(&w, c->a, LOC, bytes);
	conf_want_copy(&c->tgt.mem, REM, &c->ini.mem, LOC, bytes);
	sent = conf_run(c->a, &w);
	conf_expect_recv(c->b, recv, SHMD_CQE_RESP_SEND, (uint32_t)bytes);
	conf_expect_ok(c->a, sent);
	conf_check(c);
}

#define SEND_CASE(bytes_)                                                                          \
	TEST(conf_send_##bytes_##_bytes)                                                           \
	{                                                                                          \
		conf_each_variant(                                                                 \
			send_bytes, bytes_,                                                        \
			&(struct conf_attr){.mem_bytes = (bytes_) + ROOM, .rq_wqes = 4});          \
	}
CONF_SIZES(SEND_CASE)

TEST(conf_send_of_nothing_uses_a_receive)
{
	conf_each_variant(send_bytes, 0, &with_rq);
}

static void send_imm(struct conf *c, size_t bytes)
{
	struct conf_cqe cqe;
	struct conf_wqe w;
	uint16_t sent, recv;

	conf_need(c, CONF_F_RECV);
	recv = conf_post_recv(c->b, REM, 8192);
	conf_send(&w, c->a, LOC, bytes);
	w.opcode = SHMD_OPCODE_SEND_IMM;
	w.imm = 0xa1b2c3d4;
	conf_want_copy(&c->tgt.mem, REM, &c->ini.mem, LOC, bytes);
	sent = conf_run(c->a, &w);
	cqe = conf_wait_recv(c->b);
	conf_check(c);
	ASSERT_EQ(cqe.opcode, SHMD_CQE_RESP_SEND_IMM);
	ASSERT_EQ(cqe.imm, 0xa1b2c3d4);
	ASSERT_EQ(cqe.byte_cnt, bytes);
	ASSERT_EQ(cqe.wqe_counter, recv);
	ASSERT_EQ(cqe.qpn, c->b->dev->qpn);
	conf_expect_ok(c->a, sent);
}

TEST(conf_send_imm_carries_the_immediate)
{
	conf_each_variant(send_imm, 777, &with_rq);
}

TEST(conf_send_imm_without_payload)
{
	conf_each_variant(send_imm, 0, &with_rq);
}

TEST(conf_send_imm_of_two_packets)
{
	conf_each_variant(send_imm, 8191, &with_rq);
}

static void send_short(struct conf *c, size_t bytes)
{
	struct conf_wqe w;
	uint16_t sent, recv;

	conf_need(c, CONF_F_RECV);
	recv = conf_post_recv(c->b, REM, (uint32_t)bytes + 1000);
	conf_send(&w, c->a, LOC, bytes);
	conf_want_copy(&c->tgt.mem, REM, &c->ini.mem, LOC, bytes);
	sent = conf_run(c->a, &w);
	conf_expect_recv(c->b, recv, SHMD_CQE_RESP_SEND, (uint32_t)bytes);
	conf_expect_ok(c->a, sent);
	conf_check(c);
}

TEST(conf_send_shorter_than_the_receive_leaves_the_rest_alone)
{
	conf_each_variant(send_short, 5000, &with_rq);
}

static void send_without_receive(struct conf *c, size_t msec)
{
	struct conf_wqe w;
	uint16_t sent, recv;

	conf_need(c, CONF_F_RECV);
	conf_send(&w, c->a, LOC, 5000);
	sent = conf_run(c->a, &w);
	conf_expect_no_cqe(c->a, (unsigned int)msec);
	conf_check(c);
	recv = conf_post_recv(c->b, REM, 5000);
	conf_want_copy(&c->tgt.mem, REM, &c->ini.mem, LOC, 5000);
	conf_expect_recv(c->b, recv, SHMD_CQE_RESP_SEND, 5000);
	conf_expect_ok(c->a, sent);
	conf_check(c);
}

TEST(conf_send_waits_for_a_receive_that_comes_late)
{
	static const struct shmd_qp_params params = {.timeout = 18,
						     .retry_count = 7,
						     .rnr_retry = 7,
						     .min_rnr_timer = 5,
						     .max_rd_atomic = 16};

	conf_each_variant(send_without_receive, 20,
			  &(struct conf_attr){.rq_wqes = 4, .params = &params});
}

TEST(conf_send_finds_a_receive_within_its_rnr_retries)
{
	static const struct shmd_qp_params params = {.timeout = 18,
						     .retry_count = 7,
						     .rnr_retry = 6,
						     .min_rnr_timer = 26, /* 82 ms */
						     .max_rd_atomic = 16};

	conf_each_variant(send_without_receive, 10,
			  &(struct conf_attr){.rq_wqes = 4, .params = &params});
}

/* Each receive is posted only after its send has been refused: the order of the messages must hold. */
static void send_many_late(struct conf *c, size_t n)
{
	struct conf_wqe w;

	conf_need(c, CONF_F_RECV);
	for (size_t i = 0; i < n; i++) {
		conf_send(&w, c->a, 700 * i, 700);
		conf_run(c->a, &w);
		conf_want_copy(&c->tgt.mem, 701 * i, &c->ini.mem, 700 * i, 700);
	}
	for (size_t i = 0; i < n; i++) {
		conf_sleep_msec(1);
		conf_post_recv(c->b, 701 * i, 700);
		conf_expect_recv(c->b, (uint16_t)i, SHMD_CQE_RESP_SEND, 700);
	}
	conf_expect_ok(c->a, (uint16_t)(n - 1));
	conf_check(c);
}

TEST(conf_send_keeps_its_order_over_late_receives)
{
	static const struct shmd_qp_params params = {.timeout = 18,
						     .retry_count = 7,
						     .rnr_retry = 7,
						     .min_rnr_timer = 1,
						     .max_rd_atomic = 16};

	conf_each_variant(send_many_late, 20, &(struct conf_attr){.rq_wqes = 4, .params = &params});
}

/* ---- several segments -------------------------------------------------------------------------------------------------- */

static void send_scattered(struct conf *c, size_t bytes)
{
	uint64_t base = (uintptr_t)c->tgt.mem.addr;
	shmd_be32 key = c->tgt.mem.lkey_be;
	struct conf_sge sges[3] = {
		{base + 301, 1, key}, {base + 8000, 4097, key}, {base + 601, 2000, key}};
	size_t at = 0;
	struct conf_wqe w;
	uint16_t sent, recv;

	conf_need(c, CONF_F_RECV);
	recv = conf_post_recv_sges(c->b, sges, 3);
	for (int i = 0; i < 3; i++) {
		size_t part = sges[i].bytes < bytes - at ? sges[i].bytes : bytes - at;

		conf_want_copy(&c->tgt.mem, sges[i].addr - base, &c->ini.mem, LOC + at, part);
		at += part;
	}
	conf_send(&w, c->a, LOC, bytes);
	sent = conf_run(c->a, &w);
	conf_expect_recv(c->b, recv, SHMD_CQE_RESP_SEND, (uint32_t)bytes);
	conf_expect_ok(c->a, sent);
	conf_check(c);
}

TEST(conf_send_fills_three_receive_segments)
{
	conf_each_variant(send_scattered, 1 + 4097 + 2000, &with_rq);
}

TEST(conf_send_ends_inside_the_second_receive_segment)
{
	conf_each_variant(send_scattered, 1 + 4000, &with_rq);
}

TEST(conf_send_ends_with_the_first_receive_segment)
{
	conf_each_variant(send_scattered, 1, &with_rq);
}

static void send_full_stride(struct conf *c, size_t n)
{
	uint64_t base = (uintptr_t)c->tgt.mem.addr;
	struct conf_sge sges[32];
	struct conf_wqe w;
	uint16_t sent, recv;

	conf_need(c, CONF_F_RECV);
	for (size_t i = 0; i < n; i++) {
		sges[i] = (struct conf_sge){base + 1000 * i, 100, c->tgt.mem.lkey_be};
		conf_want_copy(&c->tgt.mem, 1000 * i, &c->ini.mem, LOC + 100 * i, 100);
	}
	recv = conf_post_recv_sges(c->b, sges, (unsigned int)n);
	conf_send(&w, c->a, LOC, 100 * n);
	sent = conf_run(c->a, &w);
	conf_expect_recv(c->b, recv, SHMD_CQE_RESP_SEND, (uint32_t)(100 * n));
	conf_expect_ok(c->a, sent);
	conf_check(c);
}

TEST(conf_send_into_a_receive_of_one_segment_without_terminator)
{
	conf_each_variant(send_full_stride, 1,
			  &(struct conf_attr){.rq_wqes = 8, .rq_stride_bytes = 16});
}

TEST(conf_send_into_a_receive_of_32_segments)
{
	conf_each_variant(send_full_stride, 32,
			  &(struct conf_attr){.rq_wqes = 8, .rq_stride_bytes = 512});
}

/* ---- the ring of receives ------------------------------------------------------------------------------------------------ */

static void send_wrap(struct conf *c, size_t n)
{
	struct conf_wqe w;

	conf_need(c, CONF_F_RECV);
	for (size_t i = 0; i < n; i++) {
		size_t rem = 64 * (i % 900);
		uint16_t sent, recv;

		recv = conf_post_recv(c->b, rem, 64);
		conf_send(&w, c->a, LOC + i, 60);
		conf_want_copy(&c->tgt.mem, rem, &c->ini.mem, LOC + i, 60);
		sent = conf_run(c->a, &w);
		conf_expect_recv(c->b, recv, SHMD_CQE_RESP_SEND, 60);
		conf_expect_ok(c->a, sent);
	}
	conf_check(c);
}

TEST(conf_send_wraps_the_receive_ring_and_its_cq)
{
	conf_each_variant(send_wrap, 100, &(struct conf_attr){.rq_wqes = 4});
}

static void send_batch(struct conf *c, size_t n)
{
	struct conf_wqe w;

	conf_need(c, CONF_F_RECV);
	for (size_t i = 0; i < n; i++)
		conf_post_recv(c->b, 1000 * i, 1000);
	for (size_t i = 0; i < n; i++) {
		conf_send(&w, c->a, 500 * i, 10 * i);
		conf_want_copy(&c->tgt.mem, 1000 * i, &c->ini.mem, 500 * i, 10 * i);
		conf_post(c->a, &w);
	}
	conf_ring(c->a);
	for (size_t i = 0; i < n; i++)
		conf_expect_recv(c->b, (uint16_t)i, SHMD_CQE_RESP_SEND, (uint32_t)(10 * i));
	conf_expect_ok(c->a, (uint16_t)(n - 1));
	conf_check(c);
}

TEST(conf_send_uses_receives_in_their_order)
{
	conf_each_variant(send_batch, 32, &(struct conf_attr){.rq_wqes = 32});
}

static void send_both_ways(struct conf *c, size_t n)
{
	struct conf_wqe w;

	conf_need(c, CONF_F_RECV);
	for (size_t i = 0; i < n; i++) {
		conf_post_recv(c->a, 32768 + 300 * i, 300);
		conf_post_recv(c->b, 32768 + 300 * i, 300);
	}
	for (size_t i = 0; i < n; i++) {
		conf_send(&w, c->a, 300 * i, 299);
		conf_want_copy(&c->tgt.mem, 32768 + 300 * i, &c->ini.mem, 300 * i, 299);
		conf_run(c->a, &w);
		conf_send(&w, c->b, 300 * i, 298);
		conf_want_copy(&c->ini.mem, 32768 + 300 * i, &c->tgt.mem, 300 * i, 298);
		conf_run(c->b, &w);
	}
	for (size_t i = 0; i < n; i++) {
		conf_expect_recv(c->a, (uint16_t)i, SHMD_CQE_RESP_SEND, 298);
		conf_expect_recv(c->b, (uint16_t)i, SHMD_CQE_RESP_SEND, 299);
	}
	conf_expect_ok(c->a, (uint16_t)(n - 1));
	conf_expect_ok(c->b, (uint16_t)(n - 1));
	conf_check(c);
}

TEST(conf_send_in_both_directions_at_once)
{
	conf_each_variant(send_both_ways, 32, &(struct conf_attr){.rq_wqes = 32});
}
