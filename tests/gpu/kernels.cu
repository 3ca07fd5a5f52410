/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels around the device functions: each function in each scope and each sharing, one call after the other.
 *
 * They are thin on purpose. Benchmarks and tests on a GPU launch them by name; without a GPU the build proves that all
 * of it compiles, as relocatable device code and whole. A kernel stores its status; `done` counts the calls before.
 * plain.cu has the functions without a mode. On a DCI each thread, warp or block has the peer of its turn.
 */
#include <shmd/dev/rma.h>

#include "kernels.h"
#include "step.h"

static __device__ __forceinline__ int transfers(const struct shmd_kernel_args *a,
						struct shmd_dev_mode mode, uint32_t *n_done)
{
	uint64_t value;

	STEP(shmd_dev_qp_put_as(a->qp, a->remote, a->local, a->bytes, mode));
	STEP(shmd_dev_qp_put_nbi_as(a->qp, a->remote, a->local, a->bytes, mode));
	STEP(shmd_dev_qp_get_as(a->qp, a->remote, a->local, a->bytes, mode));
	STEP(shmd_dev_qp_get_nbi_as(a->qp, a->remote, a->local, a->bytes, mode));
	STEP(shmd_dev_qp_fence_as(a->qp, mode));
	STEP(shmd_dev_qp_p_as(a->qp, a->remote, a->value, 8, mode));
	STEP(shmd_dev_qp_g_as(a->qp, a->remote, 8, mode, &value));
	STEP(shmd_dev_qp_quiet_as(a->qp, mode));
	return SHMD_DEV_OK;
}

static __device__ __forceinline__ int signals(const struct shmd_kernel_args *a,
					      struct shmd_dev_mode mode, uint32_t *n_done)
{
	struct shmd_dev_signal set = shmd_dev_signal_of(a->word, SHMD_DEV_SIGNAL_SET, a->value);
	struct shmd_dev_signal add = shmd_dev_signal_of(a->word, SHMD_DEV_SIGNAL_ADD, 1);

	STEP(shmd_dev_qp_signal_as(a->qp, set, mode));
	STEP(shmd_dev_qp_signal_as(a->qp, add, mode));
	STEP(shmd_dev_qp_put_signal_as(a->qp, a->remote, a->local, a->bytes, set, mode));
	STEP(shmd_dev_qp_put_signal_nbi_as(a->qp, a->remote, a->local, a->bytes, add, mode));
	STEP(shmd_dev_qp_quiet_as(a->qp, mode));
	STEP(shmd_dev_qp_wait_until64_as(a->qp, a->local_word, SHMD_DEV_CMP_GE, 1, mode));
	STEP(shmd_dev_qp_test64_as(a->qp, a->local_word, SHMD_DEV_CMP_NE, 0, mode));
	STEP(shmd_dev_qp_wait_until32_as(a->qp, (const uint32_t *)a->local_word, SHMD_DEV_CMP_GE, 0,
					 mode));
	STEP(shmd_dev_qp_test32_as(a->qp, (const uint32_t *)a->local_word, SHMD_DEV_CMP_GE, 0,
				   mode));
	return SHMD_DEV_OK;
}

static __device__ __forceinline__ int atomics(const struct shmd_kernel_args *a,
					      struct shmd_dev_mode mode, uint32_t *n_done)
{
	uint64_t old;
	int op;

	/* One copy of each call is enough: this is not about speed. */
#pragma unroll 1
	for (op = SHMD_DEV_AMO_FETCH; op <= SHMD_DEV_AMO_COMPARE_SWAP; op++) {
		struct shmd_dev_amo amo4 = shmd_dev_amo_of(op, 4, a->value);
		struct shmd_dev_amo amo8 = shmd_dev_amo_of(op, 8, a->value);

		STEP(shmd_dev_qp_atomic_as(a->qp, a->word, amo4, mode));
		STEP(shmd_dev_qp_atomic_as(a->qp, a->word, amo8, mode));
		STEP(shmd_dev_qp_atomic_fetch_as(a->qp, a->word, amo4, mode, &old));
		STEP(shmd_dev_qp_atomic_fetch_as(a->qp, a->word, amo8, mode, &old));
	}
	return SHMD_DEV_OK;
}

static __device__ __forceinline__ void run_all(struct shmd_kernel_args *a,
					       struct shmd_dev_mode mode)
{
	uint32_t done = 0, *n_done = &done;
	int status;

	mode.timeout_nsec = a->timeout_nsec;
	status = transfers(a, mode, n_done);
	if (!status)
		status = signals(a, mode, n_done);
	if (!status)
		status = atomics(a, mode, n_done);
	a->status[blockIdx.x * blockDim.x + threadIdx.x] = status;
	a->done[blockIdx.x * blockDim.x + threadIdx.x] = done;
}

#define KERNEL(name, scope, sharing)                                                               \
	extern "C" __global__ void name(struct shmd_kernel_args args)                              \
	{                                                                                          \
		run_all(&args, shmd_dev_mode_const(scope, sharing));                               \
	}

#define KERNEL_DC(name, scope, sharing, turn)                                                      \
	extern "C" __global__ void name(struct shmd_kernel_args args)                              \
	{                                                                                          \
		const struct shmd_dev_peer *peer = &args.peers[(turn) % args.n_peers];             \
                                                                                                   \
		SHMDI_ASSUME(peer != 0);                                                           \
		run_all(&args, shmd_dev_mode_to(shmd_dev_mode_const(scope, sharing), peer));       \
	}

KERNEL(shmd_kernel_thread_exclusive, SHMD_DEV_THREAD, SHMD_SHARING_EXCLUSIVE)
KERNEL(shmd_kernel_thread_block, SHMD_DEV_THREAD, SHMD_SHARING_BLOCK)
KERNEL(shmd_kernel_thread_gpu, SHMD_DEV_THREAD, SHMD_SHARING_GPU)
KERNEL(shmd_kernel_warp_exclusive, SHMD_DEV_WARP, SHMD_SHARING_EXCLUSIVE)
KERNEL(shmd_kernel_warp_block, SHMD_DEV_WARP, SHMD_SHARING_BLOCK)
KERNEL(shmd_kernel_warp_gpu, SHMD_DEV_WARP, SHMD_SHARING_GPU)
KERNEL(shmd_kernel_block_exclusive, SHMD_DEV_BLOCK, SHMD_SHARING_EXCLUSIVE)
KERNEL(shmd_kernel_block_block, SHMD_DEV_BLOCK, SHMD_SHARING_BLOCK)
KERNEL(shmd_kernel_block_gpu, SHMD_DEV_BLOCK, SHMD_SHARING_GPU)

KERNEL_DC(shmd_kernel_dc_thread_exclusive, SHMD_DEV_THREAD, SHMD_SHARING_EXCLUSIVE, 0)
KERNEL_DC(shmd_kernel_dc_thread_gpu, SHMD_DEV_THREAD, SHMD_SHARING_GPU, threadIdx.x)
KERNEL_DC(shmd_kernel_dc_warp_block, SHMD_DEV_WARP, SHMD_SHARING_BLOCK, threadIdx.x / 32)
KERNEL_DC(shmd_kernel_dc_block_gpu, SHMD_DEV_BLOCK, SHMD_SHARING_GPU, blockIdx.x)
