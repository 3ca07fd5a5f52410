/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PEs share work: each takes the next task from a counter on PE 0, so that a fast PE does more than a slow one.
 *
 * Build and run it while shmemd runs:
 *
 *	cc work-queue.c -o work-queue $(pkg-config --cflags --libs shmemclient)
 *	shmemctl run -n 4 ./work-queue
 *
 * Task i counts the primes from i * NUMBERS on. An atomic that fetches the counter and adds 1 gives each task to one PE; atomics
 * without a result add up what the PEs found. PE 0 does not serve the others: they work on its memory without its help.
 */
#include <stdint.h>
#include <stdio.h>

#include <shmd.h>

#define TASKS 100
#define NUMBERS 1000

/* On PE 0. */
struct queue {
	uint64_t next; /* task */
	uint64_t n_done;
	uint64_t n_primes;
};

static uint64_t count_primes(uint64_t from, uint64_t to)
{
	uint64_t n = 0;

	for (uint64_t number = from < 2 ? 2 : from; number < to; number++) {
		uint64_t divisor = 2;

		while (divisor * divisor <= number && number % divisor)
			divisor++;
		n += divisor * divisor > number;
	}
	return n;
}

static int add(struct shmd_world *world, uint64_t *word, uint64_t value)
{
	const struct shmd_atomic atomic = {.op = SHMD_ATOMIC_ADD, .bytes = sizeof(*word), .value = value};

	return shmd_atomic(shmd_world_ctx(world), word, &atomic, 0);
}

static int take(struct shmd_world *world, struct queue *queue, uint64_t *ret_task)
{
	const struct shmd_atomic atomic = {.op = SHMD_ATOMIC_ADD, .bytes = sizeof(queue->next), .value = 1};

	return shmd_atomic_fetch(shmd_world_ctx(world), &queue->next, &atomic, 0, ret_task);
}

static int work(struct shmd_world *world, struct queue *queue)
{
	uint64_t task;
	int r = take(world, queue, &task);

	while (!r && task < TASKS) {
		r = add(world, &queue->n_primes, count_primes(task * NUMBERS, (task + 1) * NUMBERS));
		if (!r)
			r = add(world, &queue->n_done, 1);
		if (!r)
			r = take(world, queue, &task);
	}
	return r;
}

static int run(struct shmd_world *world)
{
	struct queue *queue;
	int r = shmd_calloc(world, 1, sizeof(*queue), SHMD_HINT_ATOMICS, (void **)&queue);

	if (!r)
		r = work(world, queue);
	/* Also completes the atomics that this PE has posted. */
	if (!r)
		r = shmd_barrier_all(world);
	if (!r && shmd_my_pe(world) == 0)
		printf("%llu tasks by %d PEs: %llu primes below %d\n", (unsigned long long)queue->n_done, shmd_n_pes(world),
		       (unsigned long long)queue->n_primes, TASKS * NUMBERS);
	return r;
}

int main(void)
{
	struct shmd_world *world = NULL;
	int r = shmd_world_open(NULL, &world);

	if (!r)
		r = run(world);
	if (r < 0)
		fprintf(stderr, "%s\n", shmd_error_text());
	/* Frees the memory, too. */
	if (shmd_world_close(world) < 0 || r < 0)
		return 1;
	return 0;
}
