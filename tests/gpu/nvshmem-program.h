/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by nvshmem-first.cu, nvshmem-ops.cu and nvshmem-jobs.cu: the PE, a macro that ends the program when CUDA fails, and a clock. Each is one file of CUDA C++. */
#ifndef SHMEMD_TESTS_NVSHMEM_PROGRAM_H
#define SHMEMD_TESTS_NVSHMEM_PROGRAM_H

#include <cstdio>
#include <cstdlib>
#include <ctime>

#include <cuda_runtime.h>

static int me, n, n_failed;

#define CUDA(call)                                                                                                        \
	do {                                                                                                              \
		cudaError_t error_ = (call);                                                                              \
		if (error_ != cudaSuccess) {                                                                              \
			fprintf(stderr, "PE %d: %s: %s\n", me, #call, cudaGetErrorString(error_));                        \
			exit(99);                                                                                         \
		}                                                                                                         \
	} while (0)

static double now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (double)at.tv_sec * 1e6 + (double)at.tv_nsec / 1e3;
}

#endif
