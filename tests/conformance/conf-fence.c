/* SPDX-License-Identifier: Apache-2.0 */
/* Fence bits: a request behind a fence sees the results of the reads and atomics before it. */
#include "tests/conformance/conf.h"

#include <string.h>

#define FROM 4096u /* at the target: what is read */
#define VIA 8192u  /* at the initiator: where it lands and leaves again */
#define TO 24576u  /* at the target: where it is written */
#define ROUNDS 100u

static void fenced_write(struct conf *c, size_t bytes, uint8_t fence)
{
	struct conf_wqe w;

	for (uint64_t i = 1; i <= ROUNDS; i++) {
		conf_pattern(c->tgt.mem.addr + FROM, bytes, i);
		conf_read(&w, c->a, VIA, FROM, bytes);
		conf_post(c->a, &w);
		conf_write(&w, c->a, VIA, TO, bytes);
		w.fm_ce_se |= fence;
		conf_do(c->a, &w);
		ASSERT_MEMEQ(c->tgt.mem.addr + TO, c->tgt.mem.addr + FROM, bytes);
	}
}

static void fence_8(struct conf *c, size_t fence)
{
	fenced_write(c, 8, (uint8_t)fence);
}

static void fence_9000(struct conf *c, size_t fence)
{
	fenced_write(c, 9000, (uint8_t)fence);
}

TEST(conf_fence_write_of_8_bytes_sends_what_was_read)
{
	conf_each_variant(fence_8, SHMD_WQE_FM_FENCE, NULL);
}

TEST(conf_fence_write_of_9000_bytes_sends_what_was_read)
{
	conf_each_variant(fence_9000, SHMD_WQE_FM_FENCE, NULL);
}

TEST(conf_fence_strong_write_sends_what_was_read)
{
	conf_each_variant(fence_9000, SHMD_WQE_FM_STRONG, NULL);
}

TEST(conf_fence_and_small_write_sends_what_was_read)
{
	conf_each_variant(fence_9000, SHMD_WQE_FM_FENCE_AND_SMALL, NULL);
}

static void fence_after_atomic(struct conf *c, size_t arg)
{
	struct conf_wqe w;
	uint64_t value;

	conf_need(c, CONF_F_ATOMIC);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		memcpy(c->tgt.mem.addr + FROM, &i, 8);
		conf_fetch_add(&w, c->a, VIA, FROM, 1000);
		conf_post(c->a, &w);
		conf_write(&w, c->a, VIA, TO, 8);
		w.fm_ce_se |= SHMD_WQE_FM_FENCE;
		conf_do(c->a, &w);
		memcpy(&value, c->tgt.mem.addr + TO, 8);
		ASSERT_EQ(value, i);
	}
}

TEST(conf_fence_write_sends_the_result_of_an_atomic)
{
	conf_each_variant(fence_after_atomic, 0, NULL);
}

static void fence_send(struct conf *c, size_t bytes)
{
	struct conf_wqe w;

	conf_need(c, CONF_F_RECV);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		conf_pattern(c->tgt.mem.addr + FROM, bytes, i);
		conf_post_recv(c->b, TO, (uint32_t)bytes);
		conf_read(&w, c->a, VIA, FROM, bytes);
		conf_post(c->a, &w);
		conf_send(&w, c->a, VIA, bytes);
		w.fm_ce_se |= SHMD_WQE_FM_FENCE;
		conf_run(c->a, &w);
		ASSERT_EQ(conf_wait_recv(c->b).byte_cnt, bytes);
		ASSERT_MEMEQ(c->tgt.mem.addr + TO, c->tgt.mem.addr + FROM, bytes);
		conf_expect_ok(c->a, (uint16_t)(c->a->sq_pi - 1));
	}
}

TEST(conf_fence_send_sends_what_was_read)
{
	conf_each_variant(fence_send, 5000, &(struct conf_attr){.rq_wqes = 4});
}

/* Many reads before one fence, and many fenced requests behind: all of it holds at once. */
static void fence_many(struct conf *c, size_t n)
{
	struct conf_wqe w;

	for (uint64_t round = 1; round <= 20; round++) {
		conf_pattern(c->tgt.mem.addr + FROM, 64 * n, round);
		for (size_t i = 0; i < n; i++) {
			conf_read(&w, c->a, VIA + 64 * i, FROM + 64 * i, 64);
			conf_post(c->a, &w);
		}
		for (size_t i = 0; i < n; i++) {
			conf_write(&w, c->a, VIA + 64 * i, TO + 64 * i, 64);
			w.fm_ce_se |= i == 0 ? SHMD_WQE_FM_FENCE : 0;
			conf_post(c->a, &w);
		}
		conf_ring(c->a);
		conf_expect_ok(c->a, (uint16_t)(c->a->sq_pi - 1));
		ASSERT_MEMEQ(c->tgt.mem.addr + TO, c->tgt.mem.addr + FROM, 64 * n);
	}
}

TEST(conf_fence_holds_for_all_reads_before_and_all_writes_behind)
{
	conf_each_variant(fence_many, 30, NULL);
}

static void fence_first(struct conf *c, size_t fence)
{
	struct conf_wqe w;

	conf_write(&w, c->a, 0, TO, 100);
	w.fm_ce_se |= (uint8_t)fence;
	conf_want_copy(&c->tgt.mem, TO, &c->ini.mem, 0, 100);
	conf_do(c->a, &w);
	conf_check(c);
}

TEST(conf_fence_with_nothing_before_it_holds_nothing_up)
{
	conf_each_variant(fence_first, SHMD_WQE_FM_FENCE, NULL);
}

TEST(conf_fence_initiator_small_without_reads_holds_nothing_up)
{
	conf_each_variant(fence_first, SHMD_WQE_FM_INITIATOR_SMALL, NULL);
}
