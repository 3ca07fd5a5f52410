/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of NVSHMEM, as its user writes it: puts, signals, atomics, barriers and collectives in kernels, calls of the host, and on streams.
 * nvshmem-first.sh builds it with NVIDIA's headers and device library and runs it. PE n has GPU n modulo their number. It prints a line for each
 * part, and exits with the number of parts that failed. With NVSHMEM_DISABLE_P2P=1 all goes by queues.
 *
 * With the argument "exits" a kernel of PE 0 ends the job with status 37, while another PE's waits. With "dies" the last PE kills itself while a kernel of PE 0 puts to it by queues, for ever: the job must end.
 */
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <unistd.h>

#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>

#include "nvshmem-program.h"

#define N 16384
#define ROUNDS 20

struct memory {
	int ints[4 * N];
	int from[N];
	uint64_t words[64];
	double reals[64];
};

/* Which checks of a part failed, by bit. */
__device__ static void expect(unsigned int *bad, int bit, bool holds)
{
	if (!holds)
		atomicOr(bad, 1u << bit);
}

__global__ void moves(struct memory *m, unsigned int *bad, bool is_mapped)
{
	int pe = nvshmem_my_pe(), pes = nvshmem_n_pes(), right = (pe + 1) % pes, left = (pe + pes - 1) % pes;

	for (int i = 0; i < N; i++)
		m->from[i] = pe * N + i;
	nvshmem_int_p(&m->ints[0], 100 + pe, right);
	nvshmem_barrier_all();
	expect(bad, 0, m->ints[0] == 100 + left);
	expect(bad, 1, nvshmem_int_g(&m->ints[0], right) == 100 + pe);
	nvshmem_int_put(&m->ints[N], m->from, N, right);
	nvshmem_barrier_all();
	expect(bad, 2, m->ints[N] == left * N && m->ints[2 * N - 1] == left * N + N - 1);
	nvshmem_int_get(&m->ints[2 * N], m->from, N, right);
	expect(bad, 3, m->ints[2 * N] == right * N && m->ints[3 * N - 1] == right * N + N - 1);
	expect(bad, 4, (nvshmem_ptr(m, right) != NULL) == is_mapped);
	nvshmem_barrier_all();
}

__global__ void signals(struct memory *m, unsigned int *bad, uint64_t round)
{
	int pe = nvshmem_my_pe(), pes = nvshmem_n_pes(), right = (pe + 1) % pes, left = (pe + pes - 1) % pes;

	m->from[0] = (int)round * 10 + pe;
	nvshmem_int_put_signal(&m->ints[3 * N], m->from, 1, &m->words[0], round, NVSHMEM_SIGNAL_SET, right);
	nvshmem_signal_wait_until(&m->words[0], NVSHMEM_CMP_EQ, round);
	expect(bad, 0, m->ints[3 * N] == (int)round * 10 + left);
	nvshmemx_signal_op(&m->words[1], 2, NVSHMEM_SIGNAL_ADD, right);
	nvshmem_uint64_wait_until(&m->words[1], NVSHMEM_CMP_GE, 2 * round);
	expect(bad, 1, m->words[1] == 2 * round);
	nvshmem_uint64_atomic_add(&m->words[2], 1, 0);
	(void)nvshmem_uint64_atomic_fetch_add(&m->words[2], 1, 0);
	nvshmem_quiet();
	nvshmem_barrier_all();
	expect(bad, 2, nvshmem_uint64_g(&m->words[2], 0) == 2 * round * (uint64_t)pes);
	nvshmem_barrier_all();
}

/* By a block. */
__global__ void collectives(struct memory *m, unsigned int *bad, nvshmem_team_t team)
{
	int pe = nvshmem_team_my_pe(team), pes = nvshmem_team_n_pes(team);

	for (int i = (int)threadIdx.x; i < N; i += (int)blockDim.x)
		m->from[i] = pe + i;
	nvshmemx_barrier_block(team);
	nvshmemx_int_sum_reduce_block(team, m->ints, m->from, 1024);
	__syncthreads();
	if (!threadIdx.x)
		expect(bad, 0, m->ints[1000] == pes * 1000 + pes * (pes - 1) / 2);
	nvshmemx_barrier_block(team);
	nvshmemx_int_fcollect_block(team, m->ints, m->from, 64);
	__syncthreads();
	if (!threadIdx.x)
		expect(bad, 1, m->ints[64 * (pes - 1) + 5] == pes - 1 + 5);
	nvshmemx_barrier_block(team);
	nvshmemx_int_broadcast_block(team, m->ints, m->from, 2000, pes - 1);
	__syncthreads();
	if (!threadIdx.x)
		expect(bad, 2, m->ints[1999] == pes - 1 + 1999);
	nvshmemx_barrier_block(team);
	nvshmemx_int_alltoall_block(team, m->ints, m->from, 100);
	nvshmemx_barrier_block(team);
	if (!threadIdx.x)
		expect(bad, 3, m->ints[100 * (pes - 1) + 7] == pes - 1 + 100 * pe + 7);
	nvshmemx_team_sync_block(team);
}

__global__ void barriers(int rounds, long long *ret_cycles)
{
	long long begin = clock64();

	for (int i = 0; i < rounds; i++)
		nvshmemx_barrier_all_block();
	if (!threadIdx.x)
		*ret_cycles = clock64() - begin;
}

/* The kernels of the part have ended by now: bad is what they found. */
static void report(const char *part, unsigned int bad, double begin)
{
	double microseconds = now() - begin;

	if (bad)
		n_failed++;
	printf("%-24s %s", part, bad ? "FAILED" : "ok");
	if (bad)
		printf(" (checks 0x%x)", bad);
	printf("  %.1f us\n", microseconds);
	fflush(stdout);
}

static unsigned int finish(unsigned int *bad)
{
	unsigned int found;

	CUDA(cudaDeviceSynchronize());
	found = *(volatile unsigned int *)bad;
	*(volatile unsigned int *)bad = 0;
	nvshmem_barrier_all();
	return found;
}

static void parts(struct memory *m, unsigned int *bad)
{
	nvshmem_team_t team = NVSHMEM_TEAM_INVALID;
	double begin = now();

	moves<<<1, 1>>>(m, bad, nvshmem_ptr(m, (me + 1) % n) != NULL);
	report("moves", finish(bad), begin);
	begin = now();
	for (uint64_t round = 1; round <= 3; round++)
		signals<<<1, 1>>>(m, bad, round);
	report("signals", finish(bad), begin);
	begin = now();
	collectives<<<1, 128>>>(m, bad, NVSHMEM_TEAM_WORLD);
	report("collectives of all", finish(bad), begin);
	begin = now();
	for (int i = 0; i < 3; i++) {
		if (nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, 0, 1, n, NULL, 0, &team)) {
			report("team split", 1, begin);
			return;
		}
		collectives<<<1, 128>>>(m, bad, team);
		CUDA(cudaDeviceSynchronize());
		nvshmem_team_destroy(team);
	}
	report("collectives of teams", finish(bad), begin);
}

static void launched_together(unsigned int *bad)
{
	long long *cycles;
	int rounds = ROUNDS, status;
	void *arguments[] = {&rounds, &cycles};
	double begin = now();

	CUDA(cudaMallocManaged(&cycles, sizeof(*cycles)));
	status = nvshmemx_collective_launch((const void *)barriers, dim3(1), dim3(128), arguments, 0, 0);
	report("collective launch", finish(bad) | (status != 0), begin);
	barriers<<<1, 128>>>(ROUNDS, cycles);
	CUDA(cudaDeviceSynchronize());
	printf("barrier in a kernel      %.0f cycles\n", (double)*cycles / ROUNDS);
	CUDA(cudaFree(cycles));
}

static void by_the_host(struct memory *m, unsigned int *bad)
{
	int right = (me + 1) % n, left = (me + n - 1) % n, value = 500 + me, back = 0;
	unsigned int found = 0;
	double begin = now();
	cudaStream_t stream;
	void *block;

	nvshmem_int_put(&m->ints[9], &value, 1, right);
	nvshmem_barrier_all();
	CUDA(cudaMemcpy(&back, &m->ints[9], sizeof(back), cudaMemcpyDefault));
	found |= (back != 500 + left) << 0;
	nvshmem_int_get(&back, &m->ints[9], 1, right);
	found |= (back != 500 + me) << 1;
	report("puts of the host", found | finish(bad), begin);
	found = 0;
	begin = now();
	CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CUDA(cudaMemset(&m->words[8], 0, 8));
	CUDA(cudaMemcpy(m->from, &value, sizeof(value), cudaMemcpyDefault));
	/* It may still be under way otherwise, and the stream waits for no other. */
	CUDA(cudaDeviceSynchronize());
	nvshmem_barrier_all();
	nvshmemx_putmem_signal_on_stream(&m->ints[11], m->from, sizeof(int), &m->words[8], 7, NVSHMEM_SIGNAL_SET, right, stream);
	nvshmemx_signal_wait_until_on_stream(&m->words[8], NVSHMEM_CMP_GE, 7, stream);
	nvshmemx_getmem_on_stream(&m->ints[12], m->from, sizeof(int), right, stream);
	nvshmemx_barrier_all_on_stream(stream);
	nvshmemx_broadcastmem_on_stream(NVSHMEM_TEAM_WORLD, &m->ints[13], m->from, sizeof(int), n - 1, stream);
	nvshmemx_alltoallmem_on_stream(NVSHMEM_TEAM_WORLD, &m->ints[20], m->from, sizeof(int), stream);
	nvshmemx_int_sum_reduce_on_stream(NVSHMEM_TEAM_WORLD, &m->ints[14], (const int *)m->from, 1, stream);
	CUDA(cudaStreamSynchronize(stream));
	CUDA(cudaMemcpy(&back, &m->ints[11], sizeof(back), cudaMemcpyDefault));
	found |= (back != 500 + left) << 0;
	CUDA(cudaMemcpy(&back, &m->ints[12], sizeof(back), cudaMemcpyDefault));
	found |= (back != 500 + right) << 1;
	CUDA(cudaMemcpy(&back, &m->ints[13], sizeof(back), cudaMemcpyDefault));
	found |= (back != 500 + n - 1) << 2;
	CUDA(cudaMemcpy(&back, &m->ints[14], sizeof(back), cudaMemcpyDefault));
	found |= (back != 500 * n + n * (n - 1) / 2) << 3;
	report("on a stream", found | finish(bad), begin);
	CUDA(cudaStreamDestroy(stream));
	begin = now();
	for (int i = 0; i < 1000; i++)
		nvshmem_barrier_all();
	printf("barrier of the host      %.2f us\n", (now() - begin) / 1000);
	begin = now();
	for (int i = 0; i < 100; i++) {
		block = nvshmem_malloc(4096);
		nvshmem_free(block);
	}
	printf("malloc and free          %.2f us\n", (now() - begin) / 100);
}

static void job(void)
{
	double begin = now();
	struct memory *m;
	unsigned int *bad;

	nvshmem_init();
	me = nvshmem_my_pe();
	n = nvshmem_n_pes();
	printf("init                     %.1f ms, PE %d of %d\n", (now() - begin) / 1000, me, n);
	m = (struct memory *)nvshmem_calloc(1, sizeof(*m));
	CUDA(cudaMallocManaged(&bad, sizeof(*bad)));
	*bad = 0;
	if (!m) {
		report("calloc", 1, begin);
		exit(98);
	}
	parts(m, bad);
	launched_together(bad);
	by_the_host(m, bad);
	nvshmem_free(m);
	begin = now();
	nvshmem_finalize();
	printf("finalize                 %.1f ms\n", (now() - begin) / 1000);
	CUDA(cudaFree(bad));
}

__global__ void puts_for_ever(struct memory *m, int pe)
{
	for (;;) {
		nvshmem_int_put(m->ints, m->from, 64, pe);
		nvshmem_quiet();
	}
}

static int lose_a_pe(void)
{
	struct memory *m;
	cudaError_t error;
	double begin;

	nvshmem_init();
	me = nvshmem_my_pe();
	n = nvshmem_n_pes();
	m = (struct memory *)nvshmem_calloc(1, sizeof(*m));
	nvshmem_barrier_all();
	if (me == n - 1) {
		sleep(2);
		raise(SIGKILL);
	}
	begin = now();
	if (me)
		return 0;
	puts_for_ever<<<1, 1>>>(m, n - 1);
	error = cudaDeviceSynchronize();
	printf("kernel that lost a PE    %s after %.1f s\n", cudaGetErrorName(error), (now() - begin) / 1e6);
	fflush(stdout);
	_exit(error == cudaSuccess);
}

__global__ void exits(uint64_t *word, bool waits)
{
	if (waits)
		nvshmem_uint64_wait_until(word, NVSHMEM_CMP_EQ, 1);
	nvshmem_global_exit(37);
}

static int end_by_a_kernel(void)
{
	uint64_t *word;

	nvshmem_init();
	me = nvshmem_my_pe();
	word = (uint64_t *)nvshmem_calloc(1, 8);
	nvshmem_barrier_all();
	exits<<<1, 1>>>(word, me != 0);
	(void)cudaDeviceSynchronize();
	return 1;
}

int main(int argc, char **argv)
{
	const char *rank = getenv("SHMD_RANK");
	int gpus = 0;

	CUDA(cudaGetDeviceCount(&gpus));
	CUDA(cudaSetDevice((rank ? atoi(rank) : 0) % gpus));
	CUDA(cudaFree(NULL));
	if (argc > 1 && !strcmp(argv[1], "dies"))
		return lose_a_pe();
	if (argc > 1 && !strcmp(argv[1], "exits"))
		return end_by_a_kernel();
	job();
	job();
	return n_failed;
}
