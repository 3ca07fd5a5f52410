/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops that shmemperf times, on the calls of shim.h. Two PEs run the kernels that both must be in; puts and atomics are those of PE 0
 * alone. Words grow from r.first on. Launch bounds are the blocks of pe.cu: NVSHMEM's collectives have too many registers for 1,024 threads.
 */
#ifndef SHMEMPERF_KERNELS_CUH
#define SHMEMPERF_KERNELS_CUH

#include "../ref/ref-pair.cuh"
#include "shim.h"

/* Arguments of a kernel. In calls of the shim a word is the caller's own copy. */
struct perf_run {
	struct ref_pair r;
	struct perf_env env;
};

#define PERF_ROUNDS(body)                                                                                                          \
	do {                                                                                                                       \
		uint64_t begin = 0;                                                                                                \
                                                                                                                                   \
		for (uint32_t i = 0; i < p.r.n_warm + p.r.n; i++) {                                                                \
			begin = ref_begin(p.r, i, begin);                                                                          \
			body;                                                                                                      \
		}                                                                                                                  \
		if (!threadIdx.x)                                                                                                  \
			*p.r.ret_nsec = ref_now() - begin;                                                                         \
	} while (0)

static __device__ __forceinline__ void perf_ping(const struct perf_run &p, uint64_t value)
{
	int other = 1 - (int)p.r.me;

	if (p.r.me)
		perf_await(p.env, p.r.own_words, value);
	perf_p(p.env, p.r.own_words, value, other);
	if (!p.r.me)
		perf_await(p.env, p.r.own_words, value);
}

static __global__ void perf_ping_pong(const __grid_constant__ struct perf_run p)
{
	PERF_ROUNDS(perf_ping(p, p.r.first + i + 1));
}

static __device__ __forceinline__ void perf_data(const struct perf_run &p, uint64_t value)
{
	for (uint32_t turn = 0; turn < 2; turn++) {
		if (turn == p.r.me)
			perf_put_signal_block(p.env, p.r.own, p.r.source, p.r.bytes, p.r.own_words, value, 1 - (int)p.r.me);
		else if (!threadIdx.x)
			perf_await(p.env, p.r.own_words, value);
		__syncthreads();
	}
}

static __global__ void __launch_bounds__(1024) perf_put_signal(const __grid_constant__ struct perf_run p)
{
	PERF_ROUNDS(perf_data(p, p.r.first + i + 1));
}

static __global__ void perf_barrier(const __grid_constant__ struct perf_run p)
{
	PERF_ROUNDS(perf_barrier_block(p.env));
}

static __global__ void perf_sync(const __grid_constant__ struct perf_run p)
{
	PERF_ROUNDS(perf_sync_block(p.env));
}

/* The result stands behind the elements, as in the floor's. */
static __global__ void __launch_bounds__(512) perf_sum(const __grid_constant__ struct perf_run p)
{
	PERF_ROUNDS(perf_sum_block(p.env, (float *)(p.r.source + p.r.bytes), (const float *)p.r.source, p.r.bytes / sizeof(float)));
}

/* More than source has room for twice. */
static __global__ void __launch_bounds__(512) perf_sum_large(const __grid_constant__ struct perf_run p)
{
	PERF_ROUNDS(perf_sum_block(p.env, (float *)p.r.own, (const float *)p.r.source, p.r.bytes / sizeof(float)));
}

static __global__ void __launch_bounds__(512) perf_alltoall(const __grid_constant__ struct perf_run p)
{
	PERF_ROUNDS(perf_alltoall_block(p.env, p.r.own, p.r.source, p.r.bytes));
}

static __global__ void __launch_bounds__(512) perf_fcollect(const __grid_constant__ struct perf_run p)
{
	PERF_ROUNDS(perf_fcollect_block(p.env, p.r.own, p.r.source, p.r.bytes));
}

/* ---- of PE 0 alone -------------------------------------------------------------------------------------------------------------- */

static __global__ void perf_fetch_adds(const __grid_constant__ struct perf_run p)
{
	uint64_t last = 0;

	for (uint32_t i = 0; i < p.r.n; i++)
		last += perf_fetch_add(p.env, p.r.own_words + 8, 1 + (last >> 63), 1 - (int)p.r.me);
	*p.r.ret_nsec = last;
}

/* Each block has a part of the data. */
static __global__ void __launch_bounds__(1024) perf_puts(const __grid_constant__ struct perf_run p)
{
	uint64_t part = p.r.bytes / gridDim.x, at = blockIdx.x * part;

	for (uint32_t i = 0; i < p.r.n; i++)
		perf_put_block(p.env, p.r.own + at, p.r.source + at, part, 1 - (int)p.r.me);
	__syncthreads();
	if (!threadIdx.x)
		perf_quiet(p.env);
}

#endif
