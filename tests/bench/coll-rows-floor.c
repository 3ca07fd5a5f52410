/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floor of the rows: processes that share memory, flags, and the copies that no library can do without. A sum is a copy of as many
 * bytes as a PE reads and writes in one.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/coll-rows.h"
#include "tests/bench/ref/ref.h"

#define MAX_PES 64

struct flags {
	_Alignas(128) uint64_t of[MAX_PES][16];
};

struct memory {
	double *source, *dest;
};

static struct flags *flags; /* flags[i].of[j]: PE j tells PE i */
static struct memory memory[MAX_PES];
static int me, n;
static uint64_t number;

static void barrier(void)
{
	number++;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (int i = 0; i < n; i++)
		__atomic_store_n(&flags[i].of[me][0], number, __ATOMIC_RELEASE);
	for (int i = 0; i < n; i++) {
		for (unsigned int spins = 0; __atomic_load_n(&flags[me].of[i][0], __ATOMIC_ACQUIRE) < number;) {
			if (++spins > 64)
				sched_yield();
			ref_pause();
		}
	}
}

/* Source never changes, so a PE waits for no reader of it. */
static void broadcast(double *dest, const double *source, size_t bytes)
{
	(void)source;
	barrier();
	if (me)
		memcpy(dest, memory[0].source, bytes);
}

static void blocks(double *dest, size_t block, size_t stride)
{
	barrier();
	for (int i = 0, j = me; i < n; i++, j = (j + 1) % n)
		memcpy((char *)dest + (size_t)j * block, (char *)memory[j].source + (size_t)me * stride, block);
}

static void fcollect(double *dest, const double *source, size_t bytes)
{
	(void)source;
	blocks(dest, bytes, 0);
}

static void alltoall(double *dest, const double *source, size_t bytes)
{
	(void)source;
	blocks(dest, bytes, bytes);
}

/* A share of each source, and the same share of each dest. */
static void sum(double *dest, const double *source, size_t bytes)
{
	size_t count = bytes / sizeof(double), share = (count + (size_t)n - 1) / (size_t)n, begin = (size_t)me * share;

	(void)dest;
	(void)source;
	barrier();
	for (int i = 0; i < n && begin < count; i++)
		memcpy(memory[i].dest + begin, memory[i].source + begin, (count - begin < share ? count - begin : share) * sizeof(double));
	barrier();
}

static void tell(uint64_t *word, uint64_t value)
{
	*word = value;
}

static void *map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		exit(1);
	return p;
}

int main(int argc, char **argv)
{
	const struct coll_rows_calls calls = {barrier, broadcast, fcollect, alltoall, sum, tell};
	struct coll_rows rows = {.calls = &calls, .n_rounds = map(sizeof(uint64_t)), .sum_is_copy = 1};
	int status;

	n = rows.n = argc == 2 ? atoi(argv[1]) : 0;
	if (n < 1 || n > MAX_PES)
		return 2;
	flags = map(sizeof(*flags) * (size_t)n);
	for (int i = 0; i < n; i++)
		memory[i] = (struct memory){map((size_t)n * COLL_ROWS_MIB), map((size_t)n * COLL_ROWS_MIB)};
	for (me = n - 1; me > 0 && fork(); me--)
		;
	rows.me = me;
	rows.source = memory[me].source;
	rows.dest = memory[me].dest;
	coll_rows_run(&rows);
	for (int i = 1; i < n && me == 0; i++)
		if (wait(&status) < 0 || status)
			return 1;
	return 0;
}
