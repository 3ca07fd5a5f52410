/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reference: two threads that meet by two flags, each of which only grows, in lines of their own; and an add that no
 * other thread disturbs.
 */
#include "ref.h"

#include <pthread.h>
#include <sched.h>

struct flags {
	_Alignas(128) uint64_t flag[2][16];
	uint64_t rounds;
};

static void meet(struct flags *flags, unsigned int me, uint64_t rounds)
{
	for (uint64_t i = 1; i <= rounds; i++) {
		unsigned int spins = 0;

		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		__atomic_store_n(&flags->flag[1 - me][0], i, __ATOMIC_RELEASE);
		while (__atomic_load_n(&flags->flag[me][0], __ATOMIC_ACQUIRE) < i) {
			if (++spins % 4096 == 0)
				sched_yield();
			ref_pause();
		}
	}
}

static void *other(void *arg)
{
	struct flags *flags = arg;

	meet(flags, 1, flags->rounds);
	return NULL;
}

double ref_barrier_nsec(uint64_t rounds)
{
	struct flags flags = {.rounds = rounds};
	pthread_t thread;
	uint64_t start;

	if (pthread_create(&thread, NULL, other, &flags))
		return -1;
	start = ref_now_nsec();
	meet(&flags, 0, rounds);
	start = ref_now_nsec() - start;
	pthread_join(thread, NULL);
	return (double)start / (double)rounds;
}

double ref_fetch_add_nsec(uint64_t *word, uint64_t rounds)
{
	uint64_t start = ref_now_nsec(), sum = 0;

	for (uint64_t i = 0; i < rounds; i++)
		sum += __atomic_fetch_add(word, 1, __ATOMIC_ACQ_REL);
	__asm__ volatile("" : : "r"(sum));
	return (double)(ref_now_nsec() - start) / (double)rounds;
}
