/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of NVSHMEM that lives long: teams of three members, more teams one after the other than there are at a time, a heap that grows while
 * kernels use it, and jobs one after the other. nvshmem-first.sh builds it with NVIDIA's headers and device library and runs it. PE n has GPU n
 * modulo their number. It prints a line for each part, and exits with the number of parts that failed.
 *
 * The argument is how many jobs there are at the end (default: 100). With "dies" the last PE kills itself while the others wait for it in a
 * barrier of the host: the job must end.
 */
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>

#include "nvshmem-program.h"

#define N 1024
#define TEAMS 40 /* a job has 32 at a time */
#define BLOCKS 12
#define BLOCK_WORDS (48u << 17) /* of 8 bytes: 48 MiB, and the heap grows by 64 */

struct memory {
	int from[N], to[4 * N];
};

__device__ static void expect(unsigned int *bad, int bit, bool holds)
{
	if (!holds)
		atomicOr(bad, 1u << bit);
}

/* By a block of each member. Values differ by round. */
__global__ void collectives(struct memory *m, unsigned int *bad, nvshmem_team_t team, int round)
{
	int pe = nvshmem_team_my_pe(team), pes = nvshmem_team_n_pes(team);

	for (int i = (int)threadIdx.x; i < N; i += (int)blockDim.x)
		m->from[i] = 1000 * round + pe + i;
	nvshmemx_barrier_block(team);
	nvshmemx_int_sum_reduce_block(team, m->to, m->from, N);
	__syncthreads();
	if (!threadIdx.x)
		expect(bad, 0, m->to[N - 1] == pes * (1000 * round + N - 1) + pes * (pes - 1) / 2);
	nvshmemx_barrier_block(team);
	nvshmemx_int_fcollect_block(team, m->to, m->from, 100);
	__syncthreads();
	if (!threadIdx.x)
		for (int i = 0; i < pes; i++)
			expect(bad, 1, m->to[100 * i + 99] == 1000 * round + i + 99);
	nvshmemx_barrier_block(team);
	nvshmemx_int_broadcast_block(team, m->to, m->from, N, pes - 1);
	__syncthreads();
	if (!threadIdx.x)
		expect(bad, 2, m->to[N - 1] == 1000 * round + pes - 1 + N - 1);
	nvshmemx_barrier_block(team);
	nvshmemx_int_alltoall_block(team, m->to, m->from, 100);
	nvshmemx_barrier_block(team);
	if (!threadIdx.x)
		for (int i = 0; i < pes; i++)
			expect(bad, 3, m->to[100 * i + 7] == 1000 * round + i + 100 * pe + 7);
	nvshmemx_team_sync_block(team);
}

/* The last word of a block, from the left to the right. */
__global__ void puts_last(uint64_t *block, uint64_t value, unsigned int *bad)
{
	int pe = nvshmem_my_pe(), pes = nvshmem_n_pes();

	nvshmem_uint64_p(&block[BLOCK_WORDS - 1], value + (uint64_t)pe, (pe + 1) % pes);
	nvshmem_barrier_all();
	expect(bad, 0, block[BLOCK_WORDS - 1] == value + (uint64_t)((pe + pes - 1) % pes));
	nvshmem_barrier_all();
}

__global__ void passes_on(int *word, int value, unsigned int *bad)
{
	int pe = nvshmem_my_pe(), pes = nvshmem_n_pes();

	nvshmem_int_p(word, value + pe, (pe + 1) % pes);
	nvshmem_barrier_all();
	expect(bad, 0, *word == value + (pe + pes - 1) % pes);
	nvshmem_barrier_all();
}

static unsigned int finish(unsigned int *bad)
{
	unsigned int found;

	CUDA(cudaDeviceSynchronize());
	found = *(volatile unsigned int *)bad;
	*(volatile unsigned int *)bad = 0;
	return found;
}

static void report(const char *part, unsigned int found, double begin)
{
	n_failed += found != 0;
	printf("%-24s %s", part, found ? "FAILED" : "ok");
	if (found)
		printf(" (checks 0x%x)", found);
	printf("  %.1f us\n", now() - begin);
	fflush(stdout);
}

/* The first three PEs, then the last three; with four PEs two of them are in both, one after the other. */
static void teams_of_three(struct memory *m, unsigned int *bad)
{
	unsigned int found = 0;
	double begin = now();

	if (n < 3)
		return;
	for (int start = 0; start <= n - 3; start++) {
		nvshmem_team_t team = NVSHMEM_TEAM_INVALID;
		bool is_in = me >= start && me < start + 3;
		int status = nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, start, 1, 3, NULL, 0, &team);

		if (is_in && (status || team == NVSHMEM_TEAM_INVALID || nvshmem_team_n_pes(team) != 3)) {
			report("a team of three", 1, begin);
			exit(97);
		}
		for (int round = 0; is_in && round < 3; round++)
			collectives<<<1, 128>>>(m, bad, team, round);
		found |= finish(bad);
		nvshmem_barrier_all();
		if (is_in)
			nvshmem_team_destroy(team);
	}
	report("teams of three", found, begin);
}

static void many_teams(struct memory *m, unsigned int *bad)
{
	nvshmem_team_t first = NVSHMEM_TEAM_INVALID;
	unsigned int found = 0;
	double begin = now();

	for (int i = 0; i < TEAMS; i++) {
		nvshmem_team_t team = NVSHMEM_TEAM_INVALID;

		if (nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, 0, 1, n, NULL, 0, &team) || team == NVSHMEM_TEAM_INVALID) {
			report("a team again", 1, begin);
			exit(97);
		}
		if (!i)
			first = team;
		found |= (unsigned int)(team != first) << 8;
		collectives<<<1, 128>>>(m, bad, team, i);
		found |= finish(bad);
		nvshmem_barrier_all();
		nvshmem_team_destroy(team);
	}
	report("teams one after another", found, begin);
}

static void heap_that_grows(unsigned int *bad)
{
	uint64_t *blocks[BLOCKS];
	unsigned int found = 0;
	double begin = now();

	for (int twice = 0; twice < 2; twice++) {
		for (uint64_t i = 0; i < BLOCKS; i++) {
			blocks[i] = (uint64_t *)nvshmem_malloc(BLOCK_WORDS * sizeof(uint64_t));
			if (!blocks[i]) {
				report("a heap that grows", 1, begin);
				exit(96);
			}
			puts_last<<<1, 1>>>(blocks[i], 100 * i, bad);
			/* Growth moves nothing: the first block serves as before. */
			puts_last<<<1, 1>>>(blocks[0], 100 * i, bad);
			found |= finish(bad);
		}
		for (int i = 0; i < BLOCKS; i++)
			nvshmem_free(blocks[(i + twice) % BLOCKS]);
	}
	report("a heap that grows", found, begin);
}

static unsigned int one_job(int number, unsigned int *bad)
{
	unsigned int found;
	int *word;

	nvshmem_init();
	word = (int *)nvshmem_calloc(1, sizeof(*word));
	if (!word)
		return 1;
	passes_on<<<1, 1>>>(word, number, bad);
	found = finish(bad);
	nvshmem_free(word);
	nvshmem_finalize();
	return found;
}

static int lose_a_pe(void)
{
	nvshmem_init();
	me = nvshmem_my_pe();
	n = nvshmem_n_pes();
	(void)nvshmem_malloc(64);
	if (me == n - 1) {
		sleep(1);
		raise(SIGKILL);
	}
	nvshmem_barrier_all();
	printf("the barrier came back\n");
	fflush(stdout);
	sleep(30);
	return 1;
}

int main(int argc, char **argv)
{
	const char *rank = getenv("SHMD_RANK");
	int gpus = 0, jobs = argc > 1 ? atoi(argv[1]) : 100;
	unsigned int *bad, found = 0;
	struct memory *m;
	double begin;

	CUDA(cudaGetDeviceCount(&gpus));
	CUDA(cudaSetDevice((rank ? atoi(rank) : 0) % gpus));
	CUDA(cudaFree(NULL));
	if (argc > 1 && !strcmp(argv[1], "dies"))
		return lose_a_pe();
	nvshmem_init();
	me = nvshmem_my_pe();
	n = nvshmem_n_pes();
	CUDA(cudaMallocManaged(&bad, sizeof(*bad)));
	*bad = 0;
	m = (struct memory *)nvshmem_calloc(1, sizeof(*m));
	if (!m)
		return 98;
	teams_of_three(m, bad);
	many_teams(m, bad);
	heap_that_grows(bad);
	nvshmem_free(m);
	nvshmem_finalize();
	begin = now();
	for (int i = 0; i < jobs; i++)
		found |= one_job(i, bad);
	report("jobs one after another", found, begin);
	printf("%d jobs of %d PEs         %.1f ms each\n", jobs, n, (now() - begin) / 1000 / (jobs ? jobs : 1));
	return n_failed;
}
