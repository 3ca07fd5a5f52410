/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls that shmemperf's kernels and its host part make, with two bodies: on this library, and with SHMEMPERF_NVSHMEM on NVIDIA's
 * NVSHMEM. The text around them is one for both. A call of this library has a status, which `bad` collects; NVSHMEM's have none.
 *
 * Device functions whose names end in _block are called by all threads of a block, the others by one thread.
 */
#ifndef SHMEMPERF_SHIM_H
#define SHMEMPERF_SHIM_H

#include <stdint.h>
#include <stdlib.h>

#ifdef SHMEMPERF_NVSHMEM

#include "shim-nvshmem.h"

#else

#include <shmd.h>
#include <shmd/dev/coll.h>
#include <shmd/dev/pe.h>

#define PERF_SIDE "ours"

/* Handles that every call takes. */
struct perf_env {
	struct shmd_dev_ctx ctx; /* among the parameters of a kernel */
	struct shmd_dev_team *team;
	uint32_t *bad;
};

/* ---- in kernels -------------------------------------------------------------------------------------------------------------- */

static __device__ __forceinline__ void perf_note(const struct perf_env &env, int status)
{
	if (status)
		*env.bad = 1;
}

static __device__ __forceinline__ struct shmd_dev_ctx *perf_ctx(const struct perf_env &env)
{
	return shmd_dev_ctx_of(&env.ctx);
}

static __device__ __forceinline__ struct shmd_dev_mode perf_block(const struct perf_env &env)
{
	return shmd_dev_ctx_mode(perf_ctx(env), SHMD_DEV_BLOCK);
}

static __device__ __forceinline__ void perf_p(const struct perf_env &env, uint64_t *dest, uint64_t value, int pe)
{
	perf_note(env, shmd_dev_p(perf_ctx(env), dest, value, 8, (uint32_t)pe));
}

static __device__ __forceinline__ void perf_await(const struct perf_env &env, uint64_t *word, uint64_t value)
{
	perf_note(env, shmd_dev_wait_until(perf_ctx(env), word, 8, SHMD_DEV_CMP_GE, value));
}

static __device__ __forceinline__ uint64_t perf_fetch_add(const struct perf_env &env, uint64_t *dest, uint64_t value, int pe)
{
	uint64_t old = 0;

	perf_note(env, shmd_dev_atomic_fetch(perf_ctx(env), dest, shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, value), (uint32_t)pe, &old));
	return old;
}

static __device__ __forceinline__ void perf_quiet(const struct perf_env &env)
{
	perf_note(env, shmd_dev_quiet(perf_ctx(env)));
}

static __device__ __forceinline__ void perf_put_block(const struct perf_env &env, void *dest, const void *source, uint64_t bytes, int pe)
{
	perf_note(env, shmd_dev_put_as(perf_ctx(env), dest, source, bytes, (uint32_t)pe, perf_block(env)));
}

static __device__ __forceinline__ void perf_put_signal_block(const struct perf_env &env, void *dest, const void *source, uint64_t bytes,
							     uint64_t *word, uint64_t value, int pe)
{
	struct shmd_dev_put_item put = {dest, source, bytes, (uint32_t)pe};

	perf_note(env, shmd_dev_put_signal_as(perf_ctx(env), put, shmd_dev_pe_signal_of(word, SHMD_DEV_SIGNAL_SET, value), perf_block(env)));
}

static __device__ __forceinline__ void perf_barrier_block(const struct perf_env &env)
{
	perf_note(env, shmd_dev_team_barrier_as(perf_ctx(env), env.team, perf_block(env)));
}

static __device__ __forceinline__ void perf_sync_block(const struct perf_env &env)
{
	perf_note(env, shmd_dev_team_sync_as(perf_ctx(env), env.team, perf_block(env)));
}

static __device__ __forceinline__ void perf_sum_block(const struct perf_env &env, float *dest, const float *source, uint64_t n)
{
	struct shmd_dev_coll sum = shmd_dev_coll_math(dest, source, n, SHMD_DEV_TYPE_FLOAT, SHMD_DEV_REDUCE_SUM);

	perf_note(env, shmd_dev_reduce_as(perf_ctx(env), env.team, &sum, perf_block(env)));
}

static __device__ __forceinline__ void perf_alltoall_block(const struct perf_env &env, void *dest, const void *source, uint64_t bytes)
{
	struct shmd_dev_coll all = shmd_dev_coll_of(dest, source, bytes);

	perf_note(env, shmd_dev_alltoall_as(perf_ctx(env), env.team, &all, perf_block(env)));
}

static __device__ __forceinline__ void perf_fcollect_block(const struct perf_env &env, void *dest, const void *source, uint64_t bytes)
{
	struct shmd_dev_coll all = shmd_dev_coll_of(dest, source, bytes);

	perf_note(env, shmd_dev_fcollect_as(perf_ctx(env), env.team, &all, perf_block(env)));
}

/* ---- on the host: failures end the program -------------------------------------------------------------------------------------- */

static struct shmd_world *perf_world;

static void perf_must(int r, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "shmemperf-ours: %s: %s\n", what, shmd_error_text());
	exit(1);
}

/* The GPU of the caller is chosen. */
static void perf_open(void)
{
	struct shmd_world_attr attr = {};

	attr.gpu = "current";
	perf_must(shmd_world_open(&attr, &perf_world), "open the world");
	perf_must(shmd_world_start(perf_world), "start the world");
}

static struct perf_env perf_env_of(uint32_t *bad)
{
	struct perf_env env = {};
	uint64_t team;

	perf_must(shmd_ctx_gpu_copy(shmd_world_ctx(perf_world), &env.ctx), "the context");
	perf_must(shmd_team_gpu_dev(shmd_team_world(perf_world), &team), "the team");
	env.team = (struct shmd_dev_team *)team;
	env.bad = bad;
	return env;
}

static int perf_me(void)
{
	return shmd_my_pe(perf_world);
}

static int perf_n(void)
{
	return shmd_n_pes(perf_world);
}

static void *perf_malloc(uint64_t bytes)
{
	void *memory;

	perf_must(shmd_calloc(perf_world, 1, bytes, SHMD_HINT_GPU, &memory), "allocate GPU memory");
	return memory;
}

/* Timed: as a program allocates. */
static void *perf_malloc_plain(uint64_t bytes)
{
	void *memory;

	perf_must(shmd_malloc(perf_world, bytes, SHMD_HINT_GPU, &memory), "allocate GPU memory");
	return memory;
}

static void perf_free(void *memory)
{
	perf_must(shmd_free(perf_world, memory), "free");
}

static void perf_host_barrier(void)
{
	perf_must(shmd_barrier_all(perf_world), "barrier");
}

static void perf_close(void)
{
	perf_must(shmd_world_close(perf_world), "close the world");
}

static __global__ void perf_find_peer(const __grid_constant__ struct shmd_dev_ctx ctx, void *own, uint32_t pe, void **ret_peer)
{
	*ret_peer = shmd_dev_ptr(shmd_dev_ctx_of(&ctx), own, pe);
}

/* The other PE's copy, mapped here, for the floor; NULL if it is not. */
static void *perf_peer(const struct perf_env &env, void *own, void **room)
{
	perf_find_peer<<<1, 1>>>(env.ctx, own, 1 - (uint32_t)perf_me(), room);
	return cudaDeviceSynchronize() == cudaSuccess ? *room : NULL;
}

#endif

#endif
