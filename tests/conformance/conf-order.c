/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ordering: what a QP promises among its requests, as seen by the requester, by the peer's CPU, and in memory.
 *
 * The rounds are many and small so that a rule broken now and then is seen; the memory backend that delays and
 * reorders breaks it nearly always.
 */
#include "tests/conformance/conf.h"

#include <stdatomic.h>
#include <string.h>

#define LOC 4096u
#define DATA 4096u /* payload at the target */
#define FLAG 64u   /* 8-byte flag at the target */
#define ROUNDS 100u

static const struct conf_attr with_rq = {.rq_wqes = 16};

static uint64_t load_flag(const struct conf *c)
{
	return atomic_load_explicit((const _Atomic uint64_t *)(c->tgt.mem.addr + FLAG),
				    memory_order_acquire);
}

static void clear_flag(struct conf *c)
{
	atomic_store((_Atomic uint64_t *)(c->tgt.mem.addr + FLAG), 0);
}

static void fill_local(struct conf *c, size_t bytes, uint64_t seed)
{
	conf_pattern(c->ini.mem.addr + LOC, bytes, seed);
}

/* The flag is up: every payload byte must be the new one. */
static void expect_data(const struct conf *c, size_t bytes)
{
	ASSERT_MEMEQ(c->tgt.mem.addr + DATA, c->ini.mem.addr + LOC, bytes);
}

/* ---- the peer's CPU sees the signal after the data --------------------------------------------------------------- */

enum signal_kind { BY_WRITE, BY_INLINE, BY_ATOMIC };

static void post_signal(struct conf *c, enum signal_kind kind, uint64_t value)
{
	struct conf_wqe w;

	if (kind == BY_ATOMIC) {
		conf_fetch_add(&w, c->a, 0, FLAG, value);
	} else if (kind == BY_INLINE) {
		conf_write_inline(&w, c->a, &value, 8, FLAG);
	} else {
		memcpy(c->ini.mem.addr + 8, &value, 8);
		conf_write(&w, c->a, 8, FLAG, 8);
	}
	conf_post(c->a, &w);
}

static void data_then_signal(struct conf *c, size_t bytes, enum signal_kind kind)
{
	struct conf_wqe w;

	conf_need(c, CONF_F_PLACEMENT_ORDER | (kind == BY_ATOMIC ? CONF_F_ATOMIC : 0));
	clear_flag(c);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		struct conf_timer timer = CONF_TIMER;

		fill_local(c, bytes, i);
		conf_write(&w, c->a, LOC, DATA, bytes);
		conf_post(c->a, &w);
		post_signal(c, kind, kind == BY_ATOMIC ? 1 : i);
		conf_ring(c->a);
		while (load_flag(c) != i)
			conf_pause(&timer);
		expect_data(c, bytes);
		conf_expect_ok(c->a, (uint16_t)(c->a->sq_pi - 1));
	}
}

static void write_then_write(struct conf *c, size_t bytes)
{
	data_then_signal(c, bytes, BY_WRITE);
}

static void write_then_inline(struct conf *c, size_t bytes)
{
	data_then_signal(c, bytes, BY_INLINE);
}

static void write_then_atomic(struct conf *c, size_t bytes)
{
	data_then_signal(c, bytes, BY_ATOMIC);
}

TEST(conf_order_write_is_seen_before_a_later_write)
{
	conf_each_variant(write_then_write, 8, NULL);
}

TEST(conf_order_write_of_9000_bytes_is_seen_before_a_later_write)
{
	conf_each_variant(write_then_write, 9000, NULL);
}

TEST(conf_order_write_is_seen_before_a_later_inline_write)
{
	conf_each_variant(write_then_inline, 9000, NULL);
}

TEST(conf_order_write_is_seen_before_a_later_atomic)
{
	conf_each_variant(write_then_atomic, 64, NULL);
}

TEST(conf_order_write_of_9000_bytes_is_seen_before_a_later_atomic)
{
	conf_each_variant(write_then_atomic, 9000, NULL);
}

static void write_then_message(struct conf *c, uint8_t opcode)
{
	struct conf_wqe w;

	conf_need(c, CONF_F_RECV);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		fill_local(c, 9000, i);
		conf_post_recv(c->b, 0, 64);
		conf_write(&w, c->a, LOC, DATA, 9000);
		conf_post(c->a, &w);
		conf_wqe_init(&w, opcode);
		if (opcode == SHMD_OPCODE_RDMA_WRITE_IMM)
			conf_wqe_raddr(&w, 0, 0);
		w.imm = (uint32_t)i;
		conf_run(c->a, &w);
		ASSERT_EQ(conf_wait_recv(c->b).imm, i);
		expect_data(c, 9000);
		conf_expect_ok(c->a, (uint16_t)(c->a->sq_pi - 1));
	}
}

static void write_then_send(struct conf *c, size_t arg)
{
	write_then_message(c, SHMD_OPCODE_SEND_IMM);
}

static void write_then_write_imm(struct conf *c, size_t arg)
{
	write_then_message(c, SHMD_OPCODE_RDMA_WRITE_IMM);
}

TEST(conf_order_write_is_seen_before_a_later_send_completes)
{
	conf_each_variant(write_then_send, 0, &with_rq);
}

TEST(conf_order_write_is_seen_before_a_later_immediate)
{
	conf_each_variant(write_then_write_imm, 0, &with_rq);
}

/* ---- in memory ------------------------------------------------------------------------------------------------------ */

/* Overlapping writes of all sizes: what was posted last remains. */
static void last_write_wins(struct conf *c, size_t rounds)
{
	uint64_t random = 21;
	struct conf_wqe w;

	while (rounds--) {
		while (conf_room(c->a)) {
			size_t bytes = 1 + conf_random(&random) % 3000,
			       at = conf_random(&random) % 1000;
			size_t loc = conf_random(&random) % 60000;

			conf_write(&w, c->a, loc, DATA + at, bytes);
			conf_want_copy(&c->tgt.mem, DATA + at, &c->ini.mem, loc, bytes);
			conf_post(c->a, &w);
		}
		conf_ring(c->a);
		conf_expect_ok(c->a, (uint16_t)(c->a->sq_pi - 1));
		conf_check(c);
	}
}

TEST(conf_order_of_overlapping_writes_is_that_of_posting)
{
	conf_each_variant(last_write_wins, 10, NULL);
}

static void read_after_write(struct conf *c, size_t bytes)
{
	struct conf_wqe w;

	for (uint64_t i = 1; i <= ROUNDS; i++) {
		fill_local(c, bytes, i);
		conf_write(&w, c->a, LOC, DATA, bytes);
		conf_post(c->a, &w);
		conf_read(&w, c->a, 32768, DATA, bytes);
		conf_do(c->a, &w);
		ASSERT_MEMEQ(c->ini.mem.addr + 32768, c->ini.mem.addr + LOC, bytes);
	}
}

TEST(conf_order_read_returns_what_an_earlier_write_put)
{
	conf_each_variant(read_after_write, 8, NULL);
}

TEST(conf_order_read_of_9000_bytes_returns_what_an_earlier_write_put)
{
	conf_each_variant(read_after_write, 9000, NULL);
}

static void atomic_after_write(struct conf *c, size_t arg)
{
	volatile uint64_t *result = (volatile uint64_t *)c->ini.mem.addr;
	struct conf_wqe w;

	conf_need(c, CONF_F_ATOMIC);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		uint64_t value = i << 20;

		conf_write_inline(&w, c->a, &value, 8, FLAG);
		conf_post(c->a, &w);
		conf_fetch_add(&w, c->a, 0, FLAG, 1);
		conf_post(c->a, &w);
		conf_fetch_add(&w, c->a, 8, FLAG, 1);
		conf_do(c->a, &w);
		ASSERT_EQ(result[0], value);
		ASSERT_EQ(result[1], value + 1);
	}
}

TEST(conf_order_atomic_works_on_what_an_earlier_write_put)
{
	conf_each_variant(atomic_after_write, 0, NULL);
}

static void atomics_in_order(struct conf *c, size_t n)
{
	uint64_t *results = (uint64_t *)c->ini.mem.addr;
	struct conf_wqe w;

	conf_need(c, CONF_F_ATOMIC);
	clear_flag(c);
	for (uint64_t i = 0; i < n; i++) {
		conf_fetch_add(&w, c->a, 8 * i, FLAG, 1);
		conf_post(c->a, &w);
	}
	conf_ring(c->a);
	conf_expect_ok(c->a, (uint16_t)(n - 1));
	for (uint64_t i = 0; i < n; i++)
		ASSERT_EQ(results[i], i);
}

TEST(conf_order_of_atomics_is_that_of_posting)
{
	conf_each_variant(atomics_in_order, 64, NULL);
}

static void write_after_atomic(struct conf *c, size_t arg)
{
	volatile uint64_t *result = (volatile uint64_t *)c->ini.mem.addr;
	struct conf_wqe w;

	conf_need(c, CONF_F_ATOMIC);
	clear_flag(c);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		uint64_t value = 1000 * i;

		conf_fetch_add(&w, c->a, 0, FLAG, 1);
		conf_post(c->a, &w);
		conf_write_inline(&w, c->a, &value, 8, FLAG);
		conf_do(c->a, &w);
		ASSERT_EQ(*result, 1000 * (i - 1));
		ASSERT_EQ(load_flag(c), value);
	}
}

TEST(conf_order_write_does_not_pass_an_earlier_atomic)
{
	conf_each_variant(write_after_atomic, 0, NULL);
}

/* ---- receives --------------------------------------------------------------------------------------------------------- */

static void sends_in_order(struct conf *c, size_t n)
{
	struct conf_wqe w;

	conf_need(c, CONF_F_RECV);
	for (uint32_t i = 0; i < n; i++)
		conf_post_recv(c->b, 3000 * i, 3000);
	for (uint32_t i = 0; i < n; i++) {
		size_t bytes = i % 2 ? 8 : 3000;

		conf_send(&w, c->a, 100 * i, bytes);
		conf_want_copy(&c->tgt.mem, 3000 * i, &c->ini.mem, 100 * i, bytes);
		w.opcode = SHMD_OPCODE_SEND_IMM;
		w.imm = i;
		conf_post(c->a, &w);
	}
	conf_ring(c->a);
	for (uint32_t i = 0; i < n; i++) {
		struct conf_cqe cqe = conf_wait_recv(c->b);

		ASSERT_EQ(cqe.imm, i);
		ASSERT_EQ(cqe.wqe_counter, i);
	}
	conf_expect_ok(c->a, (uint16_t)(n - 1));
	conf_check(c);
}

TEST(conf_order_of_sends_is_that_of_posting)
{
	conf_each_variant(sends_in_order, 16, &with_rq);
}

/* A send that waits for its receive holds back what was posted after it. */
static void blocked_send(struct conf *c, size_t arg)
{
	struct conf_wqe w;
	uint16_t recv;

	conf_need(c, CONF_F_RECV);
	conf_send(&w, c->a, LOC, 100);
	conf_run(c->a, &w);
	conf_write(&w, c->a, LOC, DATA, 5000);
	conf_run(c->a, &w);
	conf_expect_no_cqe(c->a, 10);
	conf_check(c);
	recv = conf_post_recv(c->b, 0, 100);
	conf_want_copy(&c->tgt.mem, 0, &c->ini.mem, LOC, 100);
	conf_want_copy(&c->tgt.mem, DATA, &c->ini.mem, LOC, 5000);
	conf_expect_recv(c->b, recv, SHMD_CQE_RESP_SEND, 100);
	conf_expect_ok(c->a, 1);
	conf_check(c);
}

TEST(conf_order_write_does_not_pass_a_send_that_waits)
{
	conf_each_variant(blocked_send, 0, &(struct conf_attr){.rq_wqes = 4});
}

/* ---- independence ---------------------------------------------------------------------------------------------------------- */

static void independent(struct conf *c, size_t n)
{
	struct conf_wqe w;
	uint16_t recv;

	conf_need(c, CONF_F_RECV);
	conf_send(&w, &c->a[0], LOC, 100);
	conf_run(&c->a[0], &w);
	for (size_t i = 0; i < n; i++) {
		conf_write(&w, &c->a[1], LOC, 200 * i, 200);
		conf_want_copy(&c->tgt.mem, 200 * i, &c->ini.mem, LOC, 200);
		conf_do(&c->a[1], &w);
	}
	conf_check(c);
	recv = conf_post_recv(&c->b[0], 60000, 100);
	conf_want_copy(&c->tgt.mem, 60000, &c->ini.mem, LOC, 100);
	conf_expect_recv(&c->b[0], recv, SHMD_CQE_RESP_SEND, 100);
	conf_expect_ok(&c->a[0], 0);
	conf_check(c);
}

TEST(conf_order_a_qp_that_waits_does_not_hold_another)
{
	conf_each_variant(independent, 100, &(struct conf_attr){.n_qps = 2, .rq_wqes = 4});
}
