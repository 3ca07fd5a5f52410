/* SPDX-License-Identifier: Apache-2.0 */
/* One call in each kernel, of this library or of NVSHMEM: what it takes of registers and instructions (compare-resources). */
#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime.h>

#ifdef SHMEMPERF_NVSHMEM
#include <device_host/nvshmem_common.cuh>
#include <device_host_transport/nvshmem_common_ibgda.h>

/* Its headers declare it for relocatable code only; here both sides are whole programs. */
static __constant__ nvshmemi_ibgda_device_state_t nvshmemi_ibgda_device_state_d;
#endif

#include "shim.h"

extern "C" __global__ void p(struct perf_env env, uint64_t *dest, uint64_t value, int pe)
{
	perf_p(env, dest, value, pe);
}

extern "C" __global__ void put_block(struct perf_env env, void *dest, const void *source, uint64_t bytes, int pe)
{
	perf_put_block(env, dest, source, bytes, pe);
}

extern "C" __global__ void put_signal_block(struct perf_env env, void *dest, const void *source, uint64_t bytes, uint64_t *word, int pe)
{
	perf_put_signal_block(env, dest, source, bytes, word, 1, pe);
}

extern "C" __global__ void quiet(struct perf_env env)
{
	perf_quiet(env);
}

extern "C" __global__ void barrier_block(struct perf_env env)
{
	perf_barrier_block(env);
}
