/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives among 2, 4 and 8 PEs that map each other's memory, as threads, each on a CPU of its own where there are enough. The
 * references are a barrier of two flags, and a copy of as many bytes as a PE reads and writes, by all PEs at once.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <shmd/dev/coll.h>

#include "proto/base/nsec.h"
#include "tests/bench/bench.h"
#include "tests/bench/ref/ref.h"

#define MIB (UINT64_C(1) << 20)
#define HEAP_BYTES (32 * MIB)
#define MAX_PES 8u
#define N_SMALL 20000u
#define N_LARGE 100u

struct pe {
	struct shmd_dev_world world;
	struct shmd_dev_ctx ctx;
	struct shmd_dev_pe pes[MAX_PES];
	struct shmd_dev_team team;
	uint8_t *heap; /* scratch of the team first, source from the first MiB on, dest from the 16th */
};

typedef int (*op_fn)(struct pe *pe, uint8_t *dest, const uint8_t *source, uint64_t bytes);

struct job {
	uint32_t n;
	op_fn op;
	uint64_t bytes;
	uint32_t n_rounds;
};

static struct pe *pes;
static int fds[MAX_PES];
static pthread_barrier_t start_line;

static uint8_t *map(int fd)
{
	void *p = mmap(NULL, HEAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);

	if (p == MAP_FAILED)
		abort();
	return p;
}

static void open_pe(uint32_t me)
{
	struct pe *pe = &pes[me];

	pe->heap = map(fds[me]);
	pe->world = (struct shmd_dev_world){
		.version = SHMD_DEV_WORLD_VERSION, .size_bytes = sizeof(pe->world), .my_pe = me, .n_pes = MAX_PES, .n_heaps = 1, .pes_addr = (uintptr_t)pe->pes};
	pe->world.heap[0] = (struct shmd_dev_heap){.own_addr = (uintptr_t)pe->heap, .range_bytes = HEAP_BYTES, .used_bytes = HEAP_BYTES};
	for (uint32_t i = 0; i < MAX_PES; i++) {
		pe->pes[i].heap_addr[0] = (uintptr_t)(i == me ? pe->heap : map(fds[i]));
		pe->pes[i].path[0] = i == me ? SHMD_PATH_SELF : SHMD_PATH_MAPPED;
	}
	pe->ctx = (struct shmd_dev_ctx){.world_addr = (uintptr_t)&pe->world, .timeout_nsec = BENCH_WAIT_NSEC, .sharing = SHMD_SHARING_GPU};
}

/* The team of the first n, new. */
static void open_team(uint32_t n)
{
	for (uint32_t me = 0; me < n; me++) {
		memset(pes[me].heap, 0, SHMD_DEV_TEAM_SCRATCH_BYTES);
		pes[me].team = (struct shmd_dev_team){
			.world_addr = (uintptr_t)&pes[me].world, .n_pes = n, .my_pe = me, .stride = 1, .flags = SHMD_TEAM_MAPPED};
	}
}

/* ---- operations */

static int op_sync(struct pe *pe, uint8_t *dest, const uint8_t *source, uint64_t bytes)
{
	(void)dest;
	(void)source;
	(void)bytes;
	return shmd_dev_team_sync(&pe->ctx, &pe->team);
}

static int op_broadcast(struct pe *pe, uint8_t *dest, const uint8_t *source, uint64_t bytes)
{
	return shmd_dev_broadcast(&pe->ctx, &pe->team, dest, source, bytes, 0);
}

static int op_fcollect(struct pe *pe, uint8_t *dest, const uint8_t *source, uint64_t bytes)
{
	return shmd_dev_fcollect(&pe->ctx, &pe->team, dest, source, bytes);
}

static int op_alltoall(struct pe *pe, uint8_t *dest, const uint8_t *source, uint64_t bytes)
{
	return shmd_dev_alltoall(&pe->ctx, &pe->team, dest, source, bytes);
}

static int op_sum(struct pe *pe, uint8_t *dest, const uint8_t *source, uint64_t bytes)
{
	struct shmd_dev_coll args = shmd_dev_coll_math(dest, source, bytes / 8, SHMD_DEV_TYPE_DOUBLE, SHMD_DEV_REDUCE_SUM);

	return shmd_dev_reduce(&pe->ctx, &pe->team, &args);
}

/* As many bytes as a PE reads and writes in a sum, one half of each from and to another PE; then a sync. */
static int op_copy(struct pe *pe, uint8_t *dest, const uint8_t *source, uint64_t bytes)
{
	uint32_t other = (pe->team.my_pe + 1) % pe->team.n_pes;
	uint64_t half = bytes / 2, to = (uint64_t)(dest - pe->heap), from = (uint64_t)(source - pe->heap);
	uint8_t *there = (uint8_t *)(uintptr_t)pe->pes[other].heap_addr[0];

	memcpy(dest + half, there + from + half, half);
	memcpy(there + to, source, half);
	return shmd_dev_team_sync(&pe->ctx, &pe->team);
}

/* ---- runs */

struct runner {
	const struct job *job;
	uint32_t me;
	double nsec;
};

static void *run_pe(void *arg)
{
	struct runner *runner = arg;
	const struct job *job = runner->job;
	struct pe *pe = &pes[runner->me];
	uint64_t start = 0;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(runner->me, &cpus);
	if (sysconf(_SC_NPROCESSORS_ONLN) >= job->n)
		(void)sched_setaffinity(0, sizeof(cpus), &cpus);
	pthread_barrier_wait(&start_line);
	for (uint32_t i = 0; i < job->n_rounds + job->n_rounds / 10; i++) {
		if (i == job->n_rounds / 10)
			start = nsec_now();
		if (job->op(pe, pe->heap + 16 * MIB, pe->heap + MIB, job->bytes)) {
			runner->nsec = -1;
			return NULL;
		}
	}
	runner->nsec = (double)(nsec_now() - start) / job->n_rounds;
	return NULL;
}

static double run(void *arg)
{
	const struct job *job = arg;
	struct runner runners[MAX_PES];
	pthread_t threads[MAX_PES];

	open_team(job->n);
	pthread_barrier_init(&start_line, NULL, job->n);
	for (uint32_t i = 0; i < job->n; i++) {
		runners[i] = (struct runner){.job = job, .me = i};
		if (pthread_create(&threads[i], NULL, run_pe, &runners[i]))
			abort();
	}
	for (uint32_t i = 0; i < job->n; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&start_line);
	return runners[0].nsec;
}

static double run_barrier(void *arg)
{
	(void)arg;
	return ref_barrier_nsec(N_SMALL);
}

static double run_copy(void *arg)
{
	struct job job = *(const struct job *)arg;

	job.op = op_copy;
	return run(&job);
}

static const char *plan_name(uint32_t n, uint32_t flags, uint64_t bytes)
{
	static const char *const texts[] = {"local", "slots", "flat", "rounds"};
	struct shmd_dev_team team = {.n_pes = n, .flags = flags};

	return texts[shmd_dev_coll_plan(&team, bytes)];
}

static const char *plan_text(const struct job *job)
{
	return job->op == op_sync ? "sync" : plan_name(job->n, SHMD_TEAM_MAPPED, job->bytes);
}

/* The numbers of PEs and of bytes around which the plan changes, and sizes that benchmarks use. */
static void print_plans(void)
{
	static const uint32_t numbers[] = {1, 2, 3, 4, 5, 8, 16, 17, 64, 1024};
	static const uint64_t sizes[] = {8, 56, 57, 4096, MIB};

	printf("%-6s %-8s", "PEs", "path");
	for (unsigned int k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
		printf(" %8llu", (unsigned long long)sizes[k]);
	printf("  bytes\n");
	for (unsigned int i = 0; i < 2 * sizeof(numbers) / sizeof(numbers[0]); i++) {
		uint32_t n = numbers[i / 2], flags = i % 2 ? 0 : SHMD_TEAM_MAPPED;

		printf("%-6u %-8s", n, flags ? "mapped" : "queues");
		for (unsigned int k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
			printf(" %8s", plan_name(n, flags, sizes[k]));
		printf("\n");
	}
}

static bool run_row(const char *what, struct job *job)
{
	struct bench_row row = {.unit = "ns", .ours = run, .reference = run_barrier, .reference_name = "two flags", .arg = job};
	char name[64];

	if (job->bytes >= MIB) {
		row.reference = run_copy;
		row.reference_name = "copy";
	}
	snprintf(name, sizeof(name), "%s, %llu bytes, %u PEs (%s)", what, (unsigned long long)job->bytes, job->n, plan_text(job));
	row.name = name;
	if (job->n == 2 && job->op == op_sync)
		row.ratio_limit = 3;
	return bench_run(&row);
}

static bool run_rows(uint32_t n)
{
	static const struct {
		const char *name;
		op_fn op;
		uint64_t bytes;
	} rows[] = {
		{"sync", op_sync, 0},	       {"broadcast", op_broadcast, 8}, {"broadcast", op_broadcast, 4096}, {"fcollect", op_fcollect, 8},
		{"fcollect", op_fcollect, 4096}, {"alltoall", op_alltoall, 8},   {"alltoall", op_alltoall, 4096},   {"sum", op_sum, 8},
		{"sum", op_sum, 1024},	       {"sum", op_sum, 65536},	       {"sum", op_sum, MIB},
	};
	bool good = true;

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct job job = {.n = n, .op = rows[i].op, .bytes = rows[i].bytes, .n_rounds = rows[i].bytes >= 65536 ? N_LARGE : N_SMALL};

		good = run_row(rows[i].name, &job) && good;
	}
	return good;
}

int main(int argc, char **argv)
{
	bool good = true;
	uint32_t n;

	if (argc == 2 && !strcmp(argv[1], "--plans")) {
		print_plans();
		return 0;
	}
	if (argc > 1) {
		printf("usage: %s [--plans]\nCollectives among threads as PEs; sizes beyond the number of CPUs are left out. --plans: how a call works.\n",
		       argv[0]);
		return strcmp(argv[1], "--help") ? 2 : 0;
	}
	pes = aligned_alloc(64, sizeof(*pes) * MAX_PES);
	if (!pes)
		return 1;
	memset(pes, 0, sizeof(*pes) * MAX_PES);
	for (uint32_t i = 0; i < MAX_PES; i++) {
		fds[i] = memfd_create("heap", MFD_CLOEXEC);
		if (fds[i] < 0 || ftruncate(fds[i], HEAP_BYTES) < 0)
			return 1;
	}
	for (uint32_t i = 0; i < MAX_PES; i++)
		open_pe(i);
	bench_header("collectives on mapped memory");
	for (n = 2; n <= MAX_PES && n <= (uint32_t)sysconf(_SC_NPROCESSORS_ONLN); n *= 2)
		good = run_rows(n) && good;
	return good ? 0 : 1;
}
