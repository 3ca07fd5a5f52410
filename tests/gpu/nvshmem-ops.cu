/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of NVSHMEM, as its user writes it: atomics of the host against those of kernels, reductions of the host and on streams, words on
 * streams, graphs of collectives, teams by id, and a launch by the host library. nvshmem-first.sh builds and runs it. It prints a line for each part, and exits with the number of parts that failed.
 */
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include <cooperative_groups.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <nvshmem.h>
#include <nvshmemx.h>

#include "nvshmem-program.h"

#define N 4096
#define ADDS 2000
#define LAUNCHES 5

static cudaStream_t stream;

static void report(const char *part, unsigned int bad, double microseconds)
{
	if (bad)
		n_failed++;
	printf("%-24s %s", part, bad ? "FAILED" : "ok");
	if (bad)
		printf(" (checks 0x%x)", bad);
	printf("  %.1f us\n", microseconds);
	fflush(stdout);
}

template <typename T> static T read_one(const T *at)
{
	T value;

	CUDA(cudaMemcpy(&value, at, sizeof(value), cudaMemcpyDefault));
	return value;
}

template <typename T> static void write_one(T *at, T value)
{
	CUDA(cudaMemcpy(at, &value, sizeof(value), cudaMemcpyDefault));
}

/* ---- atomics, while kernels of all PEs count on the same words */

__global__ void count(unsigned long long *word, int *narrow, double *real, __half *halves, int adds)
{
	for (int i = 0; i < adds; i++) {
		nvshmem_ulonglong_atomic_add(word, 1, 0);
		nvshmem_int_atomic_add(narrow, 1, 0);
		atomicAdd_system((double *)nvshmem_ptr(real, 0), 1.0);
		if (i < 100)
			atomicAdd((__half *)nvshmem_ptr(halves, 0), __float2half(1.0f));
	}
	nvshmem_quiet();
}

static void atomics(void)
{
	unsigned long long *word = (unsigned long long *)nvshmem_calloc(8, 8);
	int *narrow = (int *)(word + 1);
	double *real = (double *)(word + 2), begin;
	__half *halves = (__half *)(word + 3);
	unsigned int bad = 0;

	nvshmem_barrier_all();
	count<<<1, 1, 0, stream>>>(word, narrow, real, halves, ADDS);
	begin = now();
	for (int i = 0; i < 100; i++) {
		nvshmem_ulonglong_atomic_inc(word, 0);
		nvshmem_int_atomic_fetch_add(narrow, 1, 0);
	}
	begin = (now() - begin) / 200;
	CUDA(cudaStreamSynchronize(stream));
	nvshmem_barrier_all();
	bad |= (nvshmem_ulonglong_atomic_fetch(word, 0) != (unsigned long long)n * (ADDS + 100)) << 0;
	bad |= (nvshmem_int_atomic_fetch(narrow, 0) != n * (ADDS + 100)) << 1;
	bad |= (nvshmem_double_atomic_fetch(real, 0) != (double)n * ADDS) << 2;
	bad |= (__half2float(nvshmem_half_g(halves, 0)) != 100.0f * (float)n) << 3;
	nvshmem_barrier_all();
	bad |= (nvshmem_int_atomic_compare_swap(&narrow[1], 0, 7, me) != 0 || nvshmem_int_atomic_swap(&narrow[1], 9, me) != 7) << 4;
	bad |= (nvshmem_uint_atomic_fetch_or((unsigned int *)&narrow[1], 6, me) != 9 || read_one(&narrow[1]) != 15) << 5;
	nvshmem_float_atomic_set((float *)&word[6], 2.5f, me);
	bad |= (read_one((float *)&word[6]) != 2.5f) << 6;
	report("atomics of the host", bad, begin);
	nvshmem_barrier_all();
	nvshmem_free(word);
}

/* ---- reductions */

static void fill(float *reals, __half *halves, int64_t *longs)
{
	static float f[N];
	static __half h[N];
	static int64_t l[N];

	for (int i = 0; i < N; i++) {
		f[i] = (float)(me + i) / 2;
		h[i] = __float2half((float)((me + i) % 8));
		l[i] = (int64_t)(me + 1) * (i + 1);
	}
	CUDA(cudaMemcpy(reals, f, sizeof(f), cudaMemcpyDefault));
	CUDA(cudaMemcpy(halves, h, sizeof(h), cudaMemcpyDefault));
	CUDA(cudaMemcpy(longs, l, sizeof(l), cudaMemcpyDefault));
}

static float sum_of(int i, bool is_half)
{
	float sum = 0;

	for (int pe = 0; pe < n; pe++)
		sum += is_half ? (float)((pe + i) % 8) : (float)(pe + i) / 2;
	return sum;
}

static void reductions(void)
{
	float *reals = (float *)nvshmem_calloc(2 * N, sizeof(*reals));
	__half *halves = (__half *)nvshmem_calloc(2 * N, sizeof(*halves));
	int64_t *longs = (int64_t *)nvshmem_calloc(2 * N, sizeof(*longs));
	unsigned int bad = 0;
	double begin;

	fill(reals, halves, longs);
	nvshmem_barrier_all();
	bad |= (nvshmem_float_sum_reduce(NVSHMEM_TEAM_WORLD, reals + N, reals, N) != 0 || read_one(&reals[2 * N - 1]) != sum_of(N - 1, false)) << 0;
	bad |= (nvshmem_half_sum_reduce(NVSHMEM_TEAM_WORLD, halves + N, halves, N) != 0 ||
		__half2float(read_one(&halves[N + 77])) != sum_of(77, true)) << 1;
	bad |= (nvshmem_int64_max_reducescatter(NVSHMEM_TEAM_WORLD, longs + N, longs, 100) != 0 ||
		read_one(&longs[N + 99]) != (int64_t)n * (100 * me + 100)) << 2;
	report("reductions of the host", bad, 0);
	bad = 0;
	begin = now();
	for (int i = 0; i < 20; i++)
		bad |= nvshmemx_int64_sum_reduce_on_stream(NVSHMEM_TEAM_WORLD, longs + N, longs, 8, stream) != 0;
	bad |= (nvshmemx_half_max_reduce_on_stream(NVSHMEM_TEAM_WORLD, halves + N, halves, N, stream) != 0) << 1;
	bad |= (nvshmemx_float_prod_reducescatter_on_stream(NVSHMEM_TEAM_WORLD, reals + N, reals, 4, stream) != 0) << 2;
	CUDA(cudaStreamSynchronize(stream));
	begin = (now() - begin) / 22;
	bad |= (read_one(&longs[N + 7]) != (int64_t)n * (n + 1) / 2 * 8) << 3;
	report("reductions on a stream", bad, begin);
	nvshmem_barrier_all();
	nvshmem_free(longs);
	nvshmem_free(halves);
	nvshmem_free(reals);
}

/* ---- words on a stream */

static void words(void)
{
	uint64_t *word = (uint64_t *)nvshmem_calloc(16, 8);
	int right = (me + 1) % n, left = (me + n - 1) % n, *status = (int *)(word + 12);
	unsigned int bad = 0;
	double begin = now();

	nvshmem_barrier_all();
	nvshmemx_double_p_on_stream((double *)&word[0], 1.5 + me, right, stream);
	nvshmemx_schar_p_on_stream((signed char *)&word[1], -1, right, stream);
	nvshmemx_barrier_all_on_stream(stream);
	bad |= (nvshmemx_double_g_on_stream((double *)&word[0], right, stream) != 1.5 + me) << 0;
	nvshmemx_signal_op_on_stream(&word[2], 3, NVSHMEM_SIGNAL_ADD, 0, stream);
	nvshmemx_putmem_signal_on_stream(&word[3], &word[0], 8, &word[4], 1, NVSHMEM_SIGNAL_ADD, right, stream);
	nvshmemx_signal_wait_until_on_stream(&word[4], NVSHMEM_CMP_NE, 0, stream);
	nvshmemx_uint64_wait_until_on_stream(&word[4], NVSHMEM_CMP_LE, 1, stream);
	nvshmemx_barrier_all_on_stream(stream);
	write_one(&status[1], 1);
	nvshmemx_long_p_on_stream((long *)&word[8], -5, right, stream);
	nvshmemx_long_p_on_stream((long *)&word[10], -6, right, stream);
	nvshmemx_long_wait_until_all_on_stream((long *)&word[8], 3, status, NVSHMEM_CMP_LT, 0, stream);
	CUDA(cudaStreamSynchronize(stream));
	bad |= (read_one((double *)&word[0]) != 1.5 + left || read_one(&word[1]) != 0xff) << 1;
	bad |= (read_one(&word[2]) != (me ? 0 : 3u * (unsigned int)n) || read_one(&word[4]) != 1) << 2;
	bad |= (read_one((double *)&word[3]) != 1.5 + (left + n - 1) % n) << 3;
	report("words on a stream", bad, now() - begin);
	nvshmem_barrier_all();
	nvshmem_free(word);
}

/* ---- a graph: each launch counts one more */

__global__ void add_one(int *at)
{
	++*at;
}

static void graphs(void)
{
	int *ints = (int *)nvshmem_calloc(1 << 16, sizeof(*ints)), *large = ints + 64;
	unsigned int bad = 0;
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	double begin;

	nvshmem_barrier_all();
	CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	add_one<<<1, 1, 0, stream>>>(&ints[0]);
	bad |= (nvshmemx_int_sum_reduce_on_stream(NVSHMEM_TEAM_WORLD, &ints[1], &ints[0], 1, stream) != 0) << 0;
	bad |= (nvshmemx_int_broadcast_on_stream(NVSHMEM_TEAM_WORLD, &ints[2], &ints[1], 1, n - 1, stream) != 0) << 1;
	bad |= (nvshmemx_int_broadcast_on_stream(NVSHMEM_TEAM_WORLD, large + 20000, large, 20000, 0, stream) != 0) << 2;
	nvshmemx_int_put_on_stream(&ints[8], &ints[2], 1, (me + 1) % n, stream);
	nvshmemx_barrier_all_on_stream(stream);
	CUDA(cudaStreamEndCapture(stream, &graph));
	CUDA(cudaGraphInstantiate(&exec, graph, 0));
	begin = now();
	for (int i = 0; i < LAUNCHES; i++)
		CUDA(cudaGraphLaunch(exec, stream));
	CUDA(cudaStreamSynchronize(stream));
	begin = (now() - begin) / LAUNCHES;
	bad |= (read_one(&ints[1]) != LAUNCHES * n || read_one(&ints[2]) != LAUNCHES * n || read_one(&ints[8]) != LAUNCHES * n) << 3;
	report("graph", bad, begin);
	CUDA(cudaGraphExecDestroy(exec));
	CUDA(cudaGraphDestroy(graph));
	nvshmem_barrier_all();
	nvshmem_free(ints);
}

/* ---- a team that its members make by an id; the other way round */

static void team_by_id(void)
{
	nvshmem_team_config_t config = NVSHMEM_TEAM_CONFIG_INITIALIZER;
	uint64_t *id = (uint64_t *)nvshmem_calloc(1, 8), own = 0;
	nvshmem_team_t team = NVSHMEM_TEAM_INVALID;
	int *ints = (int *)nvshmem_calloc(2, sizeof(*ints));
	unsigned int bad = 0;
	double begin = now();

	if (!me)
		bad |= (nvshmemx_team_get_uniqueid((nvshmemx_team_uniqueid_t *)&own) != 0) << 0;
	for (int pe = 0; !me && pe < n; pe++)
		nvshmem_uint64_p(id, own, pe);
	nvshmem_barrier_all();
	config.uniqueid = read_one(id);
	bad |= (nvshmemx_team_init(&team, &config, 0, n, n - 1 - me) != 0) << 1;
	bad |= (nvshmem_team_my_pe(team) != n - 1 - me || nvshmem_team_n_pes(team) != n) << 2;
	write_one(&ints[0], me);
	bad |= (nvshmem_int_broadcast(team, &ints[1], &ints[0], 1, 0) != 0 || read_one(&ints[1]) != n - 1) << 3;
	bad |= (nvshmemx_int_sum_reduce_on_stream(team, &ints[1], &ints[0], 1, stream) != 0) << 4;
	CUDA(cudaStreamSynchronize(stream));
	bad |= (read_one(&ints[1]) != n * (n - 1) / 2) << 5;
	nvshmem_team_destroy(team);
	report("team by id", bad, now() - begin);
	nvshmem_free(ints);
	nvshmem_free(id);
}

/* ---- a launch by the host library, as programs without a device library do it: by the handle of the kernel */

__global__ void meet(int *counts)
{
	cooperative_groups::grid_group grid = cooperative_groups::this_grid();

	if (!threadIdx.x)
		atomicAdd(&counts[0], 1);
	grid.sync();
	if (!threadIdx.x && counts[0] != (int)gridDim.x)
		atomicAdd(&counts[1], 1);
	if (!blockIdx.x && !threadIdx.x)
		nvshmem_barrier_all();
}

typedef int launch_call(const void *, dim3, dim3, void **, size_t, cudaStream_t);
typedef int query_call(const void *, dim3, void **, size_t, int *);

static void launches(void)
{
	void *library = dlopen("libnvshmem_host.so.3", RTLD_NOW | RTLD_NOLOAD);
	launch_call *launch = library ? (launch_call *)dlsym(library, "nvshmemx_collective_launch") : NULL;
	query_call *query = library ? (query_call *)dlsym(library, "nvshmemx_collective_launch_query_gridsize") : NULL;
	int *counts, most = 0;
	unsigned int bad = 0;
	cudaFunction_t kernel;
	double begin = now();

	if (!launch || !query) {
		report("launch by a handle", 1, 0);
		return;
	}
	CUDA(cudaGetFuncBySymbol(&kernel, (const void *)meet));
	CUDA(cudaMallocManaged(&counts, 2 * sizeof(*counts)));
	counts[0] = counts[1] = 0;
	void *arguments[] = {&counts};
	bad |= (query(kernel, dim3(64), arguments, 0, &most) != 0 || most < 100) << 0;
	bad |= (launch(kernel, dim3(50), dim3(64), arguments, 0, stream) != 0) << 1;
	CUDA(cudaStreamSynchronize(stream));
	bad |= (counts[0] != 50 || counts[1] != 0) << 2;
	bad |= (launch(kernel, dim3((unsigned int)most + 1), dim3(64), arguments, 0, stream) != 6) << 3;
	printf("%-24s %d\n", "blocks at once", most);
	report("launch by a handle", bad, now() - begin);
	nvshmem_barrier_all();
	CUDA(cudaFree(counts));
}

static void times(void)
{
	double begin;
	char *data = (char *)nvshmem_calloc(2, 1 << 24);

	for (size_t bytes = 8; bytes <= 1 << 24; bytes *= 8) {
		nvshmem_barrier_all();
		begin = now();
		for (int i = 0; i < 20; i++)
			nvshmemx_broadcastmem_on_stream(NVSHMEM_TEAM_WORLD, data + (1 << 24), data, bytes, 0, stream);
		CUDA(cudaStreamSynchronize(stream));
		printf("broadcast of %9zu      %.1f us\n", bytes, (now() - begin) / 20);
	}
	begin = now();
	for (int i = 0; i < 200; i++)
		nvshmemx_barrier_all_on_stream(stream);
	CUDA(cudaStreamSynchronize(stream));
	printf("barrier on a stream      %.1f us\n", (now() - begin) / 200);
	nvshmem_barrier_all();
	nvshmem_free(data);
}

static void job(void)
{
	double begin = now();

	nvshmem_init();
	me = nvshmem_my_pe();
	n = nvshmem_n_pes();
	printf("init                     %.1f ms, PE %d of %d\n", (now() - begin) / 1000, me, n);
	atomics();
	reductions();
	words();
	graphs();
	team_by_id();
	launches();
	times();
	nvshmem_finalize();
}

int main(void)
{
	const char *rank = getenv("SHMD_RANK");
	int gpus = 0;

	CUDA(cudaGetDeviceCount(&gpus));
	CUDA(cudaSetDevice((rank ? atoi(rank) : 0) % gpus));
	CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	job();
	CUDA(cudaStreamDestroy(stream));
	return n_failed;
}
