/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reference: two threads bounce a counter between two cache lines of shared memory, release to acquire, nothing
 * else. The least cost of a request and its completion.
 */
#include "ref.h"

#include <pthread.h>
#include <sched.h>

struct lines {
	_Alignas(128) uint64_t request;
	_Alignas(128) uint64_t answer;
	uint64_t rounds;
};

/* Two threads on one core would wait for ever without yielding now and then. */
static void wait_for(const uint64_t *word, uint64_t value)
{
	unsigned int spins = 0;

	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value) {
		if (++spins % 4096 == 0)
			sched_yield();
		ref_pause();
	}
}

static void *responder(void *arg)
{
	struct lines *lines = arg;
	uint64_t i;

	for (i = 1; i <= lines->rounds; i++) {
		wait_for(&lines->request, i);
		__atomic_store_n(&lines->answer, i, __ATOMIC_RELEASE);
	}
	return NULL;
}

double ref_pingpong_nsec(uint64_t rounds)
{
	struct lines lines = {.rounds = rounds};
	pthread_t thread;
	uint64_t i, start;

	if (pthread_create(&thread, NULL, responder, &lines))
		return -1;
	start = ref_now_nsec();
	for (i = 1; i <= rounds; i++) {
		__atomic_store_n(&lines.request, i, __ATOMIC_RELEASE);
		wait_for(&lines.answer, i);
	}
	start = ref_now_nsec() - start;
	pthread_join(thread, NULL);
	return (double)start / (double)rounds;
}
