/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device functions between two PEs that map each other's memory, as two threads. Each reaches the other's heap by a mapping of its
 * own, as a process would.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <shmd/dev/pe.h>

#include "proto/base/nsec.h"
#include "tests/bench/bench.h"
#include "tests/bench/ref/ref.h"

#define MIB (UINT64_C(1) << 20)
#define HEAP_BYTES (4 * MIB)
#define N_ROUNDS 20000u
#define N_BARRIERS 20000u
#define N_ADDS 200000u
#define N_COPIES 200u

struct end {
	struct shmd_dev_world world;
	struct shmd_dev_ctx ctx;
	struct shmd_dev_pe pes[2];
	struct shmd_dev_team team;
	uint8_t *heap; /* scratch of the team first; then a word, and 1 MiB from the first MiB on */
};

static struct end ends[2];

static uint8_t *map(int fd)
{
	void *p = mmap(NULL, HEAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);

	if (p == MAP_FAILED)
		abort();
	return p;
}

static void open_end(uint32_t me, const int *fds)
{
	struct end *end = &ends[me];

	end->heap = map(fds[me]);
	end->world = (struct shmd_dev_world){.version = SHMD_DEV_WORLD_VERSION,
					     .size_bytes = sizeof(end->world),
					     .my_pe = me,
					     .n_pes = 2,
					     .n_heaps = 1,
					     .pes_addr = (uintptr_t)end->pes};
	end->world.heap[0] = (struct shmd_dev_heap){
		.own_addr = (uintptr_t)end->heap, .range_bytes = HEAP_BYTES, .used_bytes = HEAP_BYTES};
	for (uint32_t pe = 0; pe < 2; pe++) {
		end->pes[pe].heap_addr[0] = (uintptr_t)(pe == me ? end->heap : map(fds[pe]));
		end->pes[pe].path[0] = pe == me ? SHMD_PATH_SELF : SHMD_PATH_MAPPED;
	}
	end->ctx = (struct shmd_dev_ctx){
		.world_addr = (uintptr_t)&end->world, .timeout_nsec = BENCH_WAIT_NSEC, .sharing = SHMD_SHARING_GPU};
	end->team = (struct shmd_dev_team){.world_addr = (uintptr_t)&end->world, .n_pes = 2, .my_pe = me, .stride = 1};
}

static uint64_t *word_of(const struct end *end)
{
	return (uint64_t *)(end->heap + SHMD_DEV_TEAM_SCRATCH_BYTES);
}

/* ---- round trips ---------------------------------------------------------------------------------------------------------------- */

/* Sends number i to the other end. */
typedef int (*send_fn)(struct end *end, uint32_t to, uint64_t i);

static int send_p(struct end *end, uint32_t to, uint64_t i)
{
	return shmd_dev_p(&end->ctx, word_of(end), i, 8, to);
}

/* Data and signal share a line. */
static int send_signal(struct end *end, uint32_t to, uint64_t i)
{
	return shmd_dev_put_signal(&end->ctx, word_of(end) + 1, &i, 8,
				   shmd_dev_pe_signal_of(word_of(end), SHMD_DEV_SIGNAL_SET, i), to);
}

static inline __attribute__((always_inline)) bool exchange(uint32_t me, send_fn send)
{
	struct end *end = &ends[me];

	for (uint64_t i = 1; i <= N_ROUNDS; i++) {
		if (me && shmd_dev_wait_until(&end->ctx, word_of(end), 8, SHMD_DEV_CMP_EQ, i))
			return false;
		if (send(end, 1 - me, i))
			return false;
		if (!me && shmd_dev_wait_until(&end->ctx, word_of(end), 8, SHMD_DEV_CMP_EQ, i))
			return false;
	}
	return true;
}

static void *answer_p(void *arg)
{
	return exchange(1, send_p) ? arg : NULL;
}

static void *answer_signal(void *arg)
{
	return exchange(1, send_signal) ? arg : NULL;
}

static double round_trip(void *(*answer)(void *), bool (*ask)(void))
{
	pthread_t thread;
	uint64_t start;
	void *good;
	bool asked;

	*word_of(&ends[0]) = *word_of(&ends[1]) = 0;
	if (pthread_create(&thread, NULL, answer, &ends))
		return -1;
	start = nsec_now();
	asked = ask();
	start = nsec_now() - start;
	pthread_join(thread, &good);
	return asked && good ? (double)start / N_ROUNDS : -1;
}

static bool ask_p(void)
{
	return exchange(0, send_p);
}

static bool ask_signal(void)
{
	return exchange(0, send_signal);
}

static double p_run(void *arg)
{
	(void)arg;
	return round_trip(answer_p, ask_p);
}

static double signal_run(void *arg)
{
	(void)arg;
	return round_trip(answer_signal, ask_signal);
}

static double pingpong_run(void *arg)
{
	(void)arg;
	return ref_pingpong_nsec(N_ROUNDS);
}

/* ---- the others ------------------------------------------------------------------------------------------------------------------ */

static double add_run(void *arg)
{
	struct shmd_dev_amo amo = shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1);
	uint64_t start = nsec_now(), old, sum = 0;

	(void)arg;
	for (uint32_t i = 0; i < N_ADDS; i++) {
		if (shmd_dev_atomic_fetch(&ends[0].ctx, word_of(&ends[0]), amo, 1, &old))
			return -1;
		sum += old;
	}
	__asm__ volatile("" : : "r"(sum));
	return (double)(nsec_now() - start) / N_ADDS;
}

static double xadd_run(void *arg)
{
	(void)arg;
	return ref_fetch_add_nsec(word_of(&ends[1]), N_ADDS);
}

static double put_run(void *arg)
{
	uint64_t start = nsec_now();

	(void)arg;
	for (uint32_t i = 0; i < N_COPIES; i++) {
		if (shmd_dev_put(&ends[0].ctx, ends[0].heap + MIB, ends[0].heap + 2 * MIB, MIB, 1))
			return -1;
	}
	return (double)MIB * N_COPIES / (double)(nsec_now() - start);
}

static double memcpy_run(void *arg)
{
	(void)arg;
	/* The same memory. */
	return ref_memcpy_bytes_per_sec((uint8_t *)(uintptr_t)ends[0].pes[1].heap_addr[0] + MIB, ends[0].heap + 2 * MIB, MIB, N_COPIES) /
	       1e9;
}

static void *meet(void *arg)
{
	struct end *end = arg;

	for (uint32_t i = 0; i < N_BARRIERS; i++) {
		if (shmd_dev_team_barrier(&end->ctx, &end->team))
			return NULL;
	}
	return arg;
}

static double barrier_run(void *arg)
{
	pthread_t thread;
	uint64_t start;
	void *good[2];

	(void)arg;
	if (pthread_create(&thread, NULL, meet, &ends[1]))
		return -1;
	start = nsec_now();
	good[0] = meet(&ends[0]);
	start = nsec_now() - start;
	pthread_join(thread, &good[1]);
	return good[0] && good[1] ? (double)start / N_BARRIERS : -1;
}

static double flags_run(void *arg)
{
	(void)arg;
	return ref_barrier_nsec(N_BARRIERS);
}

int main(void)
{
	const struct bench_row rows[] = {
		{.name = "p 8 bytes, round trip", .unit = "ns", .ours = p_run, .reference = pingpong_run, .reference_name = "flags", .ratio_limit = 1.5, .n_runs = 21},
		{.name = "put_signal, round trip", .unit = "ns", .ours = signal_run, .reference = pingpong_run, .reference_name = "flags", .ratio_limit = 1.5, .n_runs = 21},
		{.name = "fetch-add", .unit = "ns", .ours = add_run, .reference = xadd_run, .reference_name = "xadd", .ratio_limit = 2, .n_runs = 21},
		{.name = "put 1 MiB", .unit = "GB/s", .ours = put_run, .reference = memcpy_run, .reference_name = "memcpy", .ratio_limit = 0.95, .higher_is_better = true, .n_runs = 21},
		{.name = "barrier of 2", .unit = "ns", .ours = barrier_run, .reference = flags_run, .reference_name = "flags", .ratio_limit = 3, .n_runs = 21},
	};
	int fds[2] = {memfd_create("heap-0", MFD_CLOEXEC), memfd_create("heap-1", MFD_CLOEXEC)};
	bool good = true;

	if (ftruncate(fds[0], HEAP_BYTES) || ftruncate(fds[1], HEAP_BYTES))
		return 1;
	open_end(0, fds);
	open_end(1, fds);
	memset(ends[0].heap + MIB, 1, 3 * MIB);
	memset(ends[1].heap + MIB, 2, 3 * MIB);
	bench_header("device functions between two PEs, mapped");
	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		good = bench_run(&rows[i]) && good;
	return good ? 0 : 1;
}
