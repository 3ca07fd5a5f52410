/* SPDX-License-Identifier: Apache-2.0 */
/* Atomics are atomic: against those of other QPs and NICs, and against those of the CPU that owns the memory. */
#include "tests/conformance/conf.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define REM 8192u

/* Both QPs of the initiator post n fetch-adds of 1 to one word; every old value must come exactly once. */
static void two_qps_add(struct conf *c, size_t n)
{
	uint64_t zero = 0, total = 2 * n;
	uint64_t *results = (uint64_t *)(c->ini.mem.addr + 4096);
	struct conf_wqe w;
	bool seen[256] = {false};

	conf_need(c, CONF_F_ATOMIC);
	memcpy(c->tgt.mem.addr + REM, &zero, 8);
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < 2; k++) {
			conf_fetch_add(&w, &c->a[k], 4096 + 8 * (2 * i + k), REM, 1);
			conf_run(&c->a[k], &w);
		}
	}
	for (size_t k = 0; k < 2; k++)
		conf_expect_ok(&c->a[k], (uint16_t)(n - 1));
	ASSERT_MEMEQ(c->tgt.mem.addr + REM, &total, 8);
	for (size_t i = 0; i < total; i++) {
		ASSERT_LT(results[i], total);
		ASSERT(!seen[results[i]]);
		seen[results[i]] = true;
	}
}

TEST(conf_atomic_of_two_qps_on_one_word_loses_nothing)
{
	conf_each_variant(two_qps_add, 64, &(struct conf_attr){.n_qps = 2});
}

struct adder {
	_Atomic uint64_t *word;
	atomic_bool stop;
	uint64_t n_added;
};

static void *add_by_cpu(void *arg)
{
	struct adder *adder = arg;

	while (!atomic_load(&adder->stop)) {
		atomic_fetch_add(adder->word, 1ull << 32);
		adder->n_added++;
	}
	return NULL;
}

/* The owner adds in the upper half, the peer in the lower one. */
static void cpu_and_nic_add(struct conf *c, size_t msec)
{
	uint64_t end = shmd_dev_host_now_nsec() + msec * 1000000;
	struct adder adder = {.word = (_Atomic uint64_t *)(c->tgt.mem.addr + REM)};
	struct conf_wqe w;
	pthread_t thread;
	uint64_t n = 0;

	conf_need(c, CONF_F_ATOMIC | CONF_F_CPU_ATOMIC);
	atomic_store(adder.word, 0);
	ASSERT_OK(pthread_create(&thread, NULL, add_by_cpu, &adder));
	conf_fetch_add(&w, c->a, 4096, REM, 1);
	while (shmd_dev_host_now_nsec() < end) {
		uint16_t last = 0;

		for (; conf_room(c->a); n++)
			last = conf_post(c->a, &w);
		conf_ring(c->a);
		conf_expect_ok(c->a, last);
	}
	atomic_store(&adder.stop, true);
	pthread_join(thread, NULL);
	ASSERT_EQ(atomic_load(adder.word) & UINT32_MAX, n);
	ASSERT_EQ(atomic_load(adder.word) >> 32, adder.n_added & UINT32_MAX);
}

TEST(conf_atomic_of_nic_and_cpu_on_one_word_loses_nothing)
{
	conf_each_variant(cpu_and_nic_add, 200, NULL);
}

/* A lock taken by compare-swap and given back by a write, by two QPs: the count under it is never torn. */
static void spin_lock_by_qp(struct conf_qp *qp, uint64_t owner)
{
	volatile uint64_t *result = (volatile uint64_t *)(qp->side->mem.addr + 8 * owner);
	struct conf_timer timer = CONF_TIMER;
	struct conf_wqe w;

	for (;;) {
		conf_compare_swap(&w, qp, 8 * owner, REM, 0, owner);
		conf_do(qp, &w);
		if (*result == 0)
			return;
		conf_pause(&timer);
	}
}

struct locker {
	struct conf_qp *qp;
	uint64_t owner;
	size_t rounds;
};

static void *count_under_lock(void *arg)
{
	struct locker *locker = arg;
	size_t mine = 1024 * locker->owner;
	volatile uint64_t *value = (volatile uint64_t *)(locker->qp->side->mem.addr + mine);
	uint64_t zero = 0;
	struct conf_wqe w;

	for (size_t i = 0; i < locker->rounds; i++) {
		spin_lock_by_qp(locker->qp, locker->owner);
		conf_read(&w, locker->qp, mine, REM + 64, 8);
		conf_do(locker->qp, &w);
		++*value;
		conf_write(&w, locker->qp, mine, REM + 64, 8);
		conf_do(locker->qp, &w);
		conf_write_inline(&w, locker->qp, &zero, 8, REM);
		conf_do(locker->qp, &w);
	}
	return NULL;
}

static void lock_and_count(struct conf *c, size_t rounds)
{
	struct locker lockers[2] = {{&c->a[0], 1, rounds}, {&c->a[1], 2, rounds}};
	pthread_t threads[2];
	uint64_t want = 2 * rounds;

	conf_need(c, CONF_F_ATOMIC);
	memset(c->tgt.mem.addr + REM, 0, 128);
	for (int i = 0; i < 2; i++)
		ASSERT_OK(pthread_create(&threads[i], NULL, count_under_lock, &lockers[i]));
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	ASSERT_MEMEQ(c->tgt.mem.addr + REM + 64, &want, 8);
}

TEST(conf_atomic_lock_protects_a_remote_counter)
{
	conf_each_variant(lock_and_count, 50, &(struct conf_attr){.n_qps = 2});
}
