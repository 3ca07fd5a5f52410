/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels around the device functions: each function in each scope and each sharing, one call after the other.
 *
 * They are thin on purpose. Benchmarks and tests on a GPU launch them by name; without a GPU the build proves that all
 * of it compiles, as relocatable device code and whole. A kernel stops at the first status that is not SHMD_DEV_OK and
 * stores it; `done` counts the calls before.
 */
#include <shmd/dev/rma.h>

#include "kernels.h"

#define STEP(call)                                                                                 \
	do {                                                                                       \
		int status_ = (call);                                                              \
                                                                                                   \
		if (status_)                                                                       \
			return status_;                                                            \
		++*n_done;                                                                         \
	} while (0)

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

KERNEL(shmd_kernel_thread_exclusive, SHMD_DEV_THREAD, SHMD_SHARING_EXCLUSIVE)
KERNEL(shmd_kernel_thread_block, SHMD_DEV_THREAD, SHMD_SHARING_BLOCK)
KERNEL(shmd_kernel_thread_gpu, SHMD_DEV_THREAD, SHMD_SHARING_GPU)
KERNEL(shmd_kernel_warp_exclusive, SHMD_DEV_WARP, SHMD_SHARING_EXCLUSIVE)
KERNEL(shmd_kernel_warp_block, SHMD_DEV_WARP, SHMD_SHARING_BLOCK)
KERNEL(shmd_kernel_warp_gpu, SHMD_DEV_WARP, SHMD_SHARING_GPU)
KERNEL(shmd_kernel_block_exclusive, SHMD_DEV_BLOCK, SHMD_SHARING_EXCLUSIVE)
KERNEL(shmd_kernel_block_block, SHMD_DEV_BLOCK, SHMD_SHARING_BLOCK)
KERNEL(shmd_kernel_block_gpu, SHMD_DEV_BLOCK, SHMD_SHARING_GPU)

/* ---- the plain names: scope thread, sharing of the QP ---------------------------------------------------- */

static __device__ __forceinline__ int plain_transfers(const struct shmd_kernel_args *a,
						      uint32_t *n_done)
{
	struct shmd_dev_signal signal = shmd_dev_signal_of(a->word, SHMD_DEV_SIGNAL_ADD, 1);
	uint64_t value, limit = a->timeout_nsec;

	STEP(shmd_dev_qp_put(a->qp, a->remote, a->local, a->bytes, limit));
	STEP(shmd_dev_qp_put_nbi(a->qp, a->remote, a->local, a->bytes));
	STEP(shmd_dev_qp_get(a->qp, a->remote, a->local, a->bytes, limit));
	STEP(shmd_dev_qp_get_nbi(a->qp, a->remote, a->local, a->bytes));
	STEP(shmd_dev_qp_fence(a->qp));
	STEP(shmd_dev_qp_p(a->qp, a->remote, a->value, 8));
	STEP(shmd_dev_qp_g(a->qp, a->remote, 8, limit, &value));
	STEP(shmd_dev_qp_signal_set(a->qp, a->word, a->value));
	STEP(shmd_dev_qp_signal_add(a->qp, a->word, 1));
	STEP(shmd_dev_qp_put_signal(a->qp, a->remote, a->local, a->bytes, signal, limit));
	STEP(shmd_dev_qp_put_signal_nbi(a->qp, a->remote, a->local, a->bytes, signal));
	STEP(shmd_dev_qp_quiet(a->qp, limit));
	STEP(shmd_dev_qp_wait_until64(a->qp, a->local_word, SHMD_DEV_CMP_GE, 1, limit));
	STEP(shmd_dev_qp_wait_until32(a->qp, (const uint32_t *)a->local_word, SHMD_DEV_CMP_GE, 0,
				      limit));
	STEP(shmd_dev_qp_test64(a->qp, a->local_word, SHMD_DEV_CMP_GE, 1));
	STEP(shmd_dev_qp_test32(a->qp, (const uint32_t *)a->local_word, SHMD_DEV_CMP_GE, 0));
	return SHMD_DEV_OK;
}

static __device__ __forceinline__ int plain_atomics(const struct shmd_kernel_args *a,
						    uint32_t *n_done)
{
	uint64_t v = a->value, limit = a->timeout_nsec, old;
	struct shmd_dev_amo cs = shmd_dev_amo_of(SHMD_DEV_AMO_COMPARE_SWAP, 8, v);

	STEP(shmd_dev_qp_atomic_add(a->qp, a->word, 8, v));
	STEP(shmd_dev_qp_atomic_inc(a->qp, a->word, 8));
	STEP(shmd_dev_qp_atomic_and(a->qp, a->word, 8, v));
	STEP(shmd_dev_qp_atomic_or(a->qp, a->word, 8, v));
	STEP(shmd_dev_qp_atomic_xor(a->qp, a->word, 8, v));
	STEP(shmd_dev_qp_atomic_set(a->qp, a->word, 8, v));
	STEP(shmd_dev_qp_atomic_fetch(a->qp, a->word, 4, limit, &old));
	STEP(shmd_dev_qp_atomic_fetch_add(a->qp, a->word, 4, v, limit, &old));
	STEP(shmd_dev_qp_atomic_fetch_inc(a->qp, a->word, 4, limit, &old));
	STEP(shmd_dev_qp_atomic_fetch_and(a->qp, a->word, 4, v, limit, &old));
	STEP(shmd_dev_qp_atomic_fetch_or(a->qp, a->word, 4, v, limit, &old));
	STEP(shmd_dev_qp_atomic_fetch_xor(a->qp, a->word, 4, v, limit, &old));
	STEP(shmd_dev_qp_atomic_swap(a->qp, a->word, 4, v, limit, &old));
	STEP(shmd_dev_qp_atomic_compare_swap(a->qp, a->word, cs, limit, &old));
	return SHMD_DEV_OK;
}

/* Every request kind as a WQE of one's own, withheld and then announced at once. */
static __device__ __forceinline__ int raw(const struct shmd_kernel_args *a, uint32_t *n_done)
{
	struct shmd_dev_masked_cs cs = {1, 2, ~0ull, ~0ull};
	struct shmd_dev_qp *qp = a->qp;
	uint32_t wqe_index = 0;
	uint64_t i = 0;

	STEP(shmd_dev_qp_reserve(qp, 13, &i));
	shmd_dev_prepare_write(qp, shmd_dev_wqe_at(i, shmd_dev_qp_fence_flags(qp)), a->remote,
			       a->local, 64);
	shmd_dev_prepare_write_inline(qp, shmd_dev_wqe_at(i + 1, 0), a->remote, a->local_word, 28);
	shmd_dev_prepare_write_value(qp, shmd_dev_wqe_at(i + 2, 0), a->remote, a->value, 4);
	shmd_dev_prepare_read(qp, shmd_dev_wqe_at(i + 3, 0), a->remote, a->local, 64);
	shmd_dev_prepare_atomic_fa(qp, shmd_dev_wqe_at(i + 4, 0), a->word, a->local, 1);
	shmd_dev_prepare_atomic_cs(qp, shmd_dev_wqe_at(i + 5, 0), a->word, a->local, 1, 2);
	shmd_dev_prepare_masked_fa32(qp, shmd_dev_wqe_at(i + 6, 0), a->word, a->local, 1, 0);
	shmd_dev_prepare_masked_fa64(qp, shmd_dev_wqe_at(i + 7, 0), a->word, a->local, 1, 0);
	shmd_dev_prepare_masked_cs32(qp, shmd_dev_wqe_at(i + 8, 0), a->word, a->local, cs);
	shmd_dev_prepare_masked_cs64(qp, shmd_dev_wqe_at(i + 9, 0), a->word, a->local, cs);
	shmd_dev_prepare_write_imm(qp, shmd_dev_wqe_at(i + 11, 0), a->remote, a->local, 8);
	shmd_dev_prepare_nop(qp, shmd_dev_wqe_at(i + 12, SHMD_WQE_CE_ALWAYS));
	STEP(shmd_dev_qp_ready(qp, i, 13));
	STEP(shmd_dev_qp_submit(qp, i + 13, SHMD_DEV_NO_DOORBELL));
	STEP(shmd_dev_qp_submit(qp, i + 13, 0));
	STEP(shmd_dev_qp_wait(qp, i + 13, a->timeout_nsec));
	STEP(shmd_dev_qp_test(qp, i + 13));
	STEP(shmd_dev_qp_post_recv(qp, a->local, 64));
	STEP(shmd_dev_qp_send(qp, a->local, 64));
	STEP(shmd_dev_qp_send_imm(qp, a->local, 64, 7));
	STEP(shmd_dev_qp_error(qp, &wqe_index) ? SHMD_DEV_CQE_ERROR : SHMD_DEV_OK);
	return SHMD_DEV_OK;
}

extern "C" __global__ void shmd_kernel_plain(struct shmd_kernel_args args)
{
	uint32_t done = 0;
	int status = plain_transfers(&args, &done);

	if (!status)
		status = plain_atomics(&args, &done);
	if (!status)
		status = raw(&args, &done);
	args.status[blockIdx.x * blockDim.x + threadIdx.x] = status;
	args.done[blockIdx.x * blockDim.x + threadIdx.x] = done;
}
