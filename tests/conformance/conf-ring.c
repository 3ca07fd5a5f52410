/* SPDX-License-Identifier: Apache-2.0 */
/* The send ring and its doorbell: wraps of ring and index, batches, dialects, doorbells overwritten and late. */
#include "tests/conformance/conf.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define LOC 4159u

/* ---- wrapping ----------------------------------------------------------------------------------------------- */

/* Inline writes of so many WQEBBs each, until the ring has wrapped several times with a WQE across its end. */
static void wrap_wqebbs(struct conf *c, size_t n_wqebbs)
{
	size_t bytes = 64 * n_wqebbs - 32 - 4;
	uint8_t data[SHMD_WQE_MAX_WQEBBS * SHMD_WQEBB_BYTES];
	struct conf_wqe w;

	conf_need_inline(c, (unsigned int)bytes);
	for (size_t i = 0; i < 100; i++) {
		size_t at = 1024 * (i % 60) + i % 32;

		conf_pattern(data, bytes, i);
		conf_write_inline(&w, c->a, data, bytes, at);
		ASSERT_EQ(conf_wqe_wqebbs(&w), n_wqebbs);
		conf_want_bytes(&c->tgt.mem, at, data, bytes);
		conf_do(c->a, &w);
	}
	conf_check(c);
}

#define WRAP_CASE(n_)                                                                              \
	TEST(conf_ring_wraps_inside_wqes_of_##n_##_wqebbs)                                         \
	{                                                                                          \
		conf_each_variant(wrap_wqebbs, n_, &(struct conf_attr){.sq_wqebbs = 16});          \
	}
WRAP_CASE(1)
WRAP_CASE(2)
WRAP_CASE(3)
WRAP_CASE(5)
WRAP_CASE(7)
WRAP_CASE(15)

static void wrap_sges(struct conf *c, size_t rounds)
{
	struct conf_wqe w;

	conf_need_sges(c, 12);
	for (size_t i = 0; i < rounds; i++) {
		conf_wqe_init(&w, SHMD_OPCODE_RDMA_WRITE);
		conf_wqe_raddr(&w, (uintptr_t)c->tgt.mem.addr + 1000 * (i % 60),
			       c->tgt.mem.rkey_be);
		for (size_t k = 0; k < 1 + i % 12; k++) {
			conf_wqe_data(&w, (uintptr_t)c->ini.mem.addr + 300 * k + i, 50,
				      c->ini.mem.lkey_be);
			conf_want_copy(&c->tgt.mem, 1000 * (i % 60) + 50 * k, &c->ini.mem,
				       300 * k + i, 50);
		}
		conf_do(c->a, &w);
	}
	conf_check(c);
}

TEST(conf_ring_wraps_with_wqes_of_mixed_sizes)
{
	conf_each_variant(wrap_sges, 150, &(struct conf_attr){.sq_wqebbs = 16});
}

/* Fill the ring to its last WQEBB, again and again. */
static void fill_ring(struct conf *c, size_t rounds)
{
	struct conf_wqe w;
	uint64_t n = 0;

	while (rounds--) {
		uint16_t last = 0;

		for (; conf_room(c->a); n++) {
			conf_write_inline(&w, c->a, &n, 8, 8 * (n % 8000));
			conf_want_bytes(&c->tgt.mem, 8 * (n % 8000), &n, 8);
			w.fm_ce_se = conf_room(c->a) == 1 ? SHMD_WQE_CE_ALWAYS : 0;
			last = conf_post(c->a, &w);
		}
		conf_ring(c->a);
		conf_expect_ok(c->a, last);
	}
	conf_check(c);
}

TEST(conf_ring_may_be_filled_completely)
{
	conf_each_variant(fill_ring, 50, &(struct conf_attr){.sq_wqebbs = 64});
}

TEST(conf_ring_of_16_wqebbs_may_be_filled_completely)
{
	conf_each_variant(fill_ring, 100, &(struct conf_attr){.sq_wqebbs = 16});
}

/* More WQEBBs than a 16-bit index counts: the last of 300 batches has passed 65,536 once. */
TEST_TIMEOUT(conf_ring_index_wraps_at_65536, 60)
{
	conf_each_variant(fill_ring, 300, &(struct conf_attr){.sq_wqebbs = 256});
}

TEST_TIMEOUT(conf_ring_of_32768_wqebbs_wraps_its_index_within_one_batch, 60)
{
	conf_each_variant(fill_ring, 3, &(struct conf_attr){.sq_wqebbs = 32768});
}

static void nops(struct conf *c, size_t rounds)
{
	struct conf_wqe w;

	conf_nop(&w);
	while (rounds--) {
		uint16_t last = 0;

		while (conf_room(c->a))
			last = conf_post(c->a, &w);
		conf_ring(c->a);
		conf_expect_ok(c->a, last);
	}
	conf_check(c);
}

TEST(conf_nop_completes_and_changes_nothing)
{
	conf_each_variant(nops, 10, NULL);
}

/* ---- doorbells --------------------------------------------------------------------------------------------------- */

/* Nothing may run while neither dbrec nor doorbell speak of it. */
static void withheld(struct conf *c, size_t n)
{
	struct conf_wqe w;
	uint16_t last = 0;

	for (size_t i = 0; i < n; i++) {
		conf_write(&w, c->a, 100 * i, 200 * i, 100);
		last = conf_post(c->a, &w);
	}
	conf_expect_no_cqe(c->a, 5);
	conf_check(c);
	for (size_t i = 0; i < n; i++)
		conf_want_copy(&c->tgt.mem, 200 * i, &c->ini.mem, 100 * i, 100);
	conf_ring(c->a);
	conf_expect_ok(c->a, last);
	conf_check(c);
}

TEST(conf_doorbell_withheld_until_the_end_of_a_batch)
{
	conf_each_variant(withheld, 64, NULL);
}

/* The dbrec runs ahead; one doorbell at the end announces all. */
static void dbrec_ahead(struct conf *c, size_t n)
{
	struct conf_wqe w;
	uint16_t last = 0;

	for (size_t i = 0; i < n; i++) {
		conf_write(&w, c->a, 100 * i, 200 * i, 100);
		conf_want_copy(&c->tgt.mem, 200 * i, &c->ini.mem, 100 * i, 100);
		last = conf_post(c->a, &w);
		conf_dbrec(c->a);
	}
	conf_doorbell(c->a, c->a->doorbell);
	conf_wake(c->a);
	conf_expect_ok(c->a, last);
	conf_check(c);
}

TEST(conf_doorbell_rung_once_for_many_dbrec_updates)
{
	conf_each_variant(dbrec_ahead, 64, NULL);
}

/* As NVSHMEM rings: (producer index << 8, qpn << 8), no opcode, no ds. */
static void foreign(struct conf *c, size_t n)
{
	struct conf_wqe w;

	for (size_t i = 0; i < n; i++) {
		uint32_t words[2];
		uint64_t value;
		uint16_t index;

		conf_write(&w, c->a, LOC + i, 100 * i, 100);
		conf_want_copy(&c->tgt.mem, 100 * i, &c->ini.mem, LOC + i, 100);
		index = conf_post(c->a, &w);
		words[0] = htobe32((uint32_t)c->a->sq_pi << 8);
		words[1] = htobe32(c->a->dev->qpn << 8);
		memcpy(&value, words, 8);
		conf_dbrec(c->a);
		conf_doorbell(c->a, value);
		conf_wake(c->a);
		conf_expect_ok(c->a, index);
	}
	conf_check(c);
}

TEST(conf_doorbell_in_the_dialect_of_nvshmem)
{
	conf_each_variant(foreign, 100, NULL);
}

/* Each QP's doorbell overwrites the one before in the page they share, before the NIC can have seen it. */
static void overwritten(struct conf *c, size_t rounds)
{
	struct conf_wqe w;

	for (size_t r = 0; r < rounds; r++) {
		uint16_t index[8];

		for (unsigned int i = 0; i < 8; i++) {
			conf_write_inline(&w, &c->a[i], &r, 8, 64 * i);
			conf_want_bytes(&c->tgt.mem, 64 * i, &r, 8);
			index[i] = conf_post(&c->a[i], &w);
			conf_dbrec(&c->a[i]);
		}
		for (unsigned int i = 0; i < 8; i++)
			conf_doorbell(&c->a[i], c->a[i].doorbell);
		conf_wake(c->a);
		for (unsigned int i = 0; i < 8; i++)
			conf_expect_ok(&c->a[i], index[i]);
		if (r % 10 == 0)
			conf_sleep_msec(3);
	}
	conf_check(c);
}

TEST(conf_doorbell_overwritten_by_seven_others_is_not_lost)
{
	conf_each_variant(overwritten, 50, &(struct conf_attr){.n_qps = 8});
}

struct hog {
	struct conf_qp *qp;
	atomic_bool stop;
};

/* Keeps the NIC from resting, and the doorbell word full of its own number. */
static void *keep_busy(void *arg)
{
	struct hog *hog = arg;
	struct conf_wqe w;

	conf_nop(&w);
	while (!atomic_load(&hog->stop)) {
		uint16_t last = conf_run(hog->qp, &w);

		while (conf_room(hog->qp) > 8)
			last = conf_run(hog->qp, &w);
		conf_expect_ok(hog->qp, last);
	}
	return NULL;
}

/* More QPs than a NIC can keep an eye on, rung among the doorbells of a busy one. */
static void overwritten_by_busy(struct conf *c, size_t rounds)
{
	struct hog hog = {.qp = &c->a[0]};
	pthread_t thread;
	struct conf_wqe w;

	ASSERT_OK(pthread_create(&thread, NULL, keep_busy, &hog));
	for (size_t r = 0; r < rounds; r++) {
		for (unsigned int i = 1; i < c->ini.n_qps; i++) {
			conf_write_inline(&w, &c->a[i], &r, 8, 64 * i);
			conf_want_bytes(&c->tgt.mem, 64 * i, &r, 8);
			conf_post(&c->a[i], &w);
			conf_dbrec(&c->a[i]);
		}
		for (unsigned int i = 1; i < c->ini.n_qps; i++)
			conf_doorbell(&c->a[i], c->a[i].doorbell);
		conf_wake(c->a);
		for (unsigned int i = 1; i < c->ini.n_qps; i++)
			conf_expect_ok(&c->a[i], (uint16_t)r);
	}
	atomic_store(&hog.stop, true);
	pthread_join(thread, NULL);
	conf_check(c);
}

TEST(conf_doorbell_of_30_qps_is_not_lost_behind_a_busy_one)
{
	conf_each_variant(overwritten_by_busy, 10, &(struct conf_attr){.n_qps = 31});
}

static void repeated(struct conf *c, size_t n)
{
	struct conf_wqe w;
	uint64_t old, value;

	memcpy(&value, c->tgt.mem.want, 8);
	for (size_t i = 0; i < n; i++, value++) {
		uint16_t index;

		old = value;
		conf_fetch_add(&w, c->a, 64, 0, 1);
		index = conf_post(c->a, &w);
		for (int k = 0; k < 10; k++)
			conf_ring(c->a);
		conf_expect_ok(c->a, index);
		conf_ring(c->a);
		conf_want_bytes(&c->ini.mem, 64, &old, 8);
	}
	conf_want_bytes(&c->tgt.mem, 0, &value, 8);
	conf_check(c);
}

TEST(conf_doorbell_repeated_executes_nothing_twice)
{
	conf_each_variant(repeated, 100, NULL);
}

static void garbage(struct conf *c, size_t n)
{
	uint64_t random = 5;
	struct conf_wqe w;

	for (size_t i = 0; i < n; i++) {
		conf_doorbell(c->a, conf_random(&random));
		conf_wake(c->a);
	}
	conf_write(&w, c->a, LOC, 100, 5000);
	conf_want_copy(&c->tgt.mem, 100, &c->ini.mem, LOC, 5000);
	conf_do(c->a, &w);
	conf_check(c);
}

TEST(conf_doorbell_garbage_is_harmless)
{
	conf_each_variant(garbage, 1000, NULL);
}

/* After a rest the NIC thread sleeps: each of these must wake it. */
static void after_rest(struct conf *c, size_t msec)
{
	struct conf_wqe w;

	for (size_t i = 0; i < 4; i++) {
		conf_sleep_msec((unsigned int)msec);
		conf_write(&w, c->a, LOC + i, 100 + 10 * i, 9);
		conf_want_copy(&c->tgt.mem, 100 + 10 * i, &c->ini.mem, LOC + i, 9);
		conf_do(c->a, &w);
	}
	conf_check(c);
}

TEST(conf_doorbell_wakes_a_nic_that_rests)
{
	conf_each_variant(after_rest, 60, NULL);
}

/* A race between a NIC that falls asleep and the next doorbell: delays around the time it spins. */
static void around_sleep(struct conf *c, size_t rounds)
{
	struct conf_wqe w;

	for (size_t i = 0; i < rounds; i++) {
		uint64_t until = shmd_dev_host_now_nsec() + 2000 * i;

		while (shmd_dev_host_now_nsec() < until)
			;
		conf_write_inline(&w, c->a, &i, 8, 8 * (i % 100));
		conf_want_bytes(&c->tgt.mem, 8 * (i % 100), &i, 8);
		conf_do(c->a, &w);
	}
	conf_check(c);
}

TEST(conf_doorbell_while_the_nic_falls_asleep_is_not_lost)
{
	conf_each_variant(around_sleep, 300, NULL);
}
