/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel that calls every plain function: scope thread, sharing of the QP. Built with the bodies inline, and with
 * SHMD_DEV_USE_LIBRARY, when it holds none of them.
 */
#include <shmd/dev/rma.h>

#include "kernels.h"
#include "step.h"

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
