/* SPDX-License-Identifier: Apache-2.0 */
/* See random-work.h: on a GPU. */
#include <stdio.h>

#include "tests/gpu/random-kernel.h"

#define STACK_BYTES 4096

static __global__ void __launch_bounds__(N_THREADS) random_works(const struct work *works, uint32_t n, struct work_failure *failure)
{
	carry_out(works, n, failure);
}

void *work_memory(uint64_t bytes)
{
	void *memory = NULL;

	return cudaHostAlloc(&memory, bytes ? bytes : 1, cudaHostAllocMapped) == cudaSuccess ? memory : NULL;
}

void *work_gpu_memory(uint64_t bytes)
{
	void *memory = NULL;

	return cudaMalloc(&memory, bytes) == cudaSuccess ? memory : NULL;
}

int work_choose_gpu(int pe)
{
	int n = 0;

	if (cudaGetDeviceCount(&n) != cudaSuccess || n < 1 || cudaSetDevice(pe % n) != cudaSuccess)
		return -1;
	return cudaDeviceSetLimit(cudaLimitStackSize, STACK_BYTES) == cudaSuccess ? pe % n : -1;
}

int work_run(const struct work *works, uint32_t n, struct work_failure *failure)
{
	cudaError_t error;

	random_works<<<1, N_THREADS>>>(works, n, failure);
	error = cudaGetLastError();
	if (error == cudaSuccess)
		error = cudaDeviceSynchronize();
	if (error != cudaSuccess)
		fprintf(stderr, "gpu-random-selftest: %s\n", cudaGetErrorString(error));
	return error == cudaSuccess ? 0 : -1;
}
