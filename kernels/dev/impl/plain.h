/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bodies of the plain functions, in scope thread and with the sharing of the QP. Contracts are in rma.h, which includes
 * this unless the bodies come from libshmd_device.a (annotate.h). The other headers call none of them.
 */
#include <shmd/dev/rma.h>

#ifndef SHMDI_PLAIN_H
#define SHMDI_PLAIN_H

/* ---- put, get, p and g ------------------------------------------------------------------------------------- */

SHMDI_API int shmd_dev_qp_put(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
			      struct shmd_dev_addr local, uint64_t bytes, uint64_t timeout_nsec)
{
	return shmd_dev_qp_put_as(qp, remote, local, bytes, shmd_dev_mode_of(qp, timeout_nsec));
}

SHMDI_API int shmd_dev_qp_put_nbi(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				  struct shmd_dev_addr local, uint64_t bytes)
{
	return shmd_dev_qp_put_nbi_as(qp, remote, local, bytes, shmd_dev_mode_of(qp, 0));
}

SHMDI_API int shmd_dev_qp_get(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
			      struct shmd_dev_addr local, uint64_t bytes, uint64_t timeout_nsec)
{
	return shmd_dev_qp_get_as(qp, remote, local, bytes, shmd_dev_mode_of(qp, timeout_nsec));
}

SHMDI_API int shmd_dev_qp_get_nbi(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				  struct shmd_dev_addr local, uint64_t bytes)
{
	return shmd_dev_qp_get_nbi_as(qp, remote, local, bytes, shmd_dev_mode_of(qp, 0));
}

SHMDI_API int shmd_dev_qp_p(struct shmd_dev_qp *qp, struct shmd_dev_addr remote, uint64_t value,
			    uint32_t bytes)
{
	return shmd_dev_qp_p_as(qp, remote, value, bytes, shmd_dev_mode_of(qp, 0));
}

SHMDI_API int shmd_dev_qp_g(struct shmd_dev_qp *qp, struct shmd_dev_addr remote, uint32_t bytes,
			    uint64_t timeout_nsec, uint64_t *ret_value)
{
	return shmd_dev_qp_g_as(qp, remote, bytes, shmd_dev_mode_of(qp, timeout_nsec), ret_value);
}

/* ---- signals ----------------------------------------------------------------------------------------------- */

SHMDI_API int shmd_dev_qp_signal_set(struct shmd_dev_qp *qp, struct shmd_dev_addr word,
				     uint64_t value)
{
	return shmd_dev_qp_signal_as(qp, shmd_dev_signal_of(word, SHMD_DEV_SIGNAL_SET, value),
				     shmd_dev_mode_of(qp, 0));
}

SHMDI_API int shmd_dev_qp_signal_add(struct shmd_dev_qp *qp, struct shmd_dev_addr word,
				     uint64_t value)
{
	return shmd_dev_qp_signal_as(qp, shmd_dev_signal_of(word, SHMD_DEV_SIGNAL_ADD, value),
				     shmd_dev_mode_of(qp, 0));
}

SHMDI_API int shmd_dev_qp_put_signal(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				     struct shmd_dev_addr local, uint64_t bytes,
				     struct shmd_dev_signal signal, uint64_t timeout_nsec)
{
	return shmd_dev_qp_put_signal_as(qp, remote, local, bytes, signal,
					 shmd_dev_mode_of(qp, timeout_nsec));
}

SHMDI_API int shmd_dev_qp_put_signal_nbi(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
					 struct shmd_dev_addr local, uint64_t bytes,
					 struct shmd_dev_signal signal)
{
	return shmd_dev_qp_put_signal_nbi_as(qp, remote, local, bytes, signal,
					     shmd_dev_mode_of(qp, 0));
}

/* ---- atomics ----------------------------------------------------------------------------------------------- */

SHMDI_API int shmd_dev_qp_atomic_add(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				     uint32_t bytes, uint64_t value)
{
	return shmdi_amo_post(qp, remote, SHMD_DEV_AMO_ADD, bytes, value);
}

SHMDI_API int shmd_dev_qp_atomic_inc(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				     uint32_t bytes)
{
	return shmdi_amo_post(qp, remote, SHMD_DEV_AMO_ADD, bytes, 1);
}

SHMDI_API int shmd_dev_qp_atomic_and(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				     uint32_t bytes, uint64_t value)
{
	return shmdi_amo_post(qp, remote, SHMD_DEV_AMO_AND, bytes, value);
}

SHMDI_API int shmd_dev_qp_atomic_or(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				    uint32_t bytes, uint64_t value)
{
	return shmdi_amo_post(qp, remote, SHMD_DEV_AMO_OR, bytes, value);
}

SHMDI_API int shmd_dev_qp_atomic_xor(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				     uint32_t bytes, uint64_t value)
{
	return shmdi_amo_post(qp, remote, SHMD_DEV_AMO_XOR, bytes, value);
}

SHMDI_API int shmd_dev_qp_atomic_set(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				     uint32_t bytes, uint64_t value)
{
	return shmdi_amo_post(qp, remote, SHMD_DEV_AMO_SWAP, bytes, value);
}

SHMDI_API int shmd_dev_qp_atomic_fetch(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				       uint32_t bytes, uint64_t timeout_nsec, uint64_t *ret_old)
{
	return shmdi_amo_fetch(qp, remote, shmd_dev_amo_of(SHMD_DEV_AMO_FETCH, bytes, 0),
			       timeout_nsec, ret_old);
}

SHMDI_API int shmd_dev_qp_atomic_fetch_add(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
					   uint32_t bytes, uint64_t value, uint64_t timeout_nsec,
					   uint64_t *ret_old)
{
	return shmdi_amo_fetch(qp, remote, shmd_dev_amo_of(SHMD_DEV_AMO_ADD, bytes, value),
			       timeout_nsec, ret_old);
}

SHMDI_API int shmd_dev_qp_atomic_fetch_inc(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
					   uint32_t bytes, uint64_t timeout_nsec,
					   uint64_t *ret_old)
{
	return shmdi_amo_fetch(qp, remote, shmd_dev_amo_of(SHMD_DEV_AMO_ADD, bytes, 1),
			       timeout_nsec, ret_old);
}

SHMDI_API int shmd_dev_qp_atomic_fetch_and(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
					   uint32_t bytes, uint64_t value, uint64_t timeout_nsec,
					   uint64_t *ret_old)
{
	return shmdi_amo_fetch(qp, remote, shmd_dev_amo_of(SHMD_DEV_AMO_AND, bytes, value),
			       timeout_nsec, ret_old);
}

SHMDI_API int shmd_dev_qp_atomic_fetch_or(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
					  uint32_t bytes, uint64_t value, uint64_t timeout_nsec,
					  uint64_t *ret_old)
{
	return shmdi_amo_fetch(qp, remote, shmd_dev_amo_of(SHMD_DEV_AMO_OR, bytes, value),
			       timeout_nsec, ret_old);
}

SHMDI_API int shmd_dev_qp_atomic_fetch_xor(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
					   uint32_t bytes, uint64_t value, uint64_t timeout_nsec,
					   uint64_t *ret_old)
{
	return shmdi_amo_fetch(qp, remote, shmd_dev_amo_of(SHMD_DEV_AMO_XOR, bytes, value),
			       timeout_nsec, ret_old);
}

SHMDI_API int shmd_dev_qp_atomic_swap(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				      uint32_t bytes, uint64_t value, uint64_t timeout_nsec,
				      uint64_t *ret_old)
{
	return shmdi_amo_fetch(qp, remote, shmd_dev_amo_of(SHMD_DEV_AMO_SWAP, bytes, value),
			       timeout_nsec, ret_old);
}

SHMDI_API int shmd_dev_qp_atomic_compare_swap(struct shmd_dev_qp *qp,
					      struct shmd_dev_addr remote,
					      struct shmd_dev_amo amo, uint64_t timeout_nsec,
					      uint64_t *ret_old)
{
	amo.op = SHMD_DEV_AMO_COMPARE_SWAP;
	return shmdi_amo_fetch(qp, remote, amo, timeout_nsec, ret_old);
}

/* ---- ordering ---------------------------------------------------------------------------------------------- */

SHMDI_API int shmd_dev_qp_fence(struct shmd_dev_qp *qp)
{
	return shmd_dev_qp_fence_as(qp, shmd_dev_mode_of(qp, 0));
}

SHMDI_API int shmd_dev_qp_quiet(struct shmd_dev_qp *qp, uint64_t timeout_nsec)
{
	return shmd_dev_qp_quiet_as(qp, shmd_dev_mode_of(qp, timeout_nsec));
}

/* ---- local words that peers write -------------------------------------------------------------------------- */

SHMDI_API int shmd_dev_qp_wait_until64(struct shmd_dev_qp *qp, const uint64_t *word,
				       enum shmd_dev_cmp cmp, uint64_t value,
				       uint64_t timeout_nsec)
{
	return shmd_dev_qp_wait_until64_as(qp, word, cmp, value,
					   shmd_dev_mode_of(qp, timeout_nsec));
}

SHMDI_API int shmd_dev_qp_wait_until32(struct shmd_dev_qp *qp, const uint32_t *word,
				       enum shmd_dev_cmp cmp, uint32_t value,
				       uint64_t timeout_nsec)
{
	return shmd_dev_qp_wait_until32_as(qp, word, cmp, value,
					   shmd_dev_mode_of(qp, timeout_nsec));
}

SHMDI_API int shmd_dev_qp_test64(struct shmd_dev_qp *qp, const uint64_t *word,
				 enum shmd_dev_cmp cmp, uint64_t value)
{
	return shmd_dev_qp_test64_as(qp, word, cmp, value, shmd_dev_mode_of(qp, 0));
}

SHMDI_API int shmd_dev_qp_test32(struct shmd_dev_qp *qp, const uint32_t *word,
				 enum shmd_dev_cmp cmp, uint32_t value)
{
	return shmd_dev_qp_test32_as(qp, word, cmp, value, shmd_dev_mode_of(qp, 0));
}

/* ---- the caller's own WQEs --------------------------------------------------------------------------------- */

SHMDI_API int shmd_dev_qp_reserve(struct shmd_dev_qp *qp, uint32_t n_wqebbs, uint64_t *ret_index)
{
	return shmd_dev_qp_reserve_as(qp, n_wqebbs, shmd_dev_mode_of(qp, 0), ret_index);
}

SHMDI_API unsigned int shmd_dev_qp_fence_flags(struct shmd_dev_qp *qp)
{
	int sharing = SHMDI_FIXED(qp->sharing);

	return shmdi_sq_take_fence(qp, shmdi_index_peek(&qp->fence_index, sharing),
				   shmdi_index_peek(&qp->cqe_ci, sharing), sharing);
}

SHMDI_API int shmd_dev_qp_ready(struct shmd_dev_qp *qp, uint64_t index, uint32_t n_wqebbs)
{
	return shmdi_sq_ready(qp, index, n_wqebbs, SHMDI_FIXED(qp->sharing));
}

SHMDI_API int shmd_dev_qp_submit(struct shmd_dev_qp *qp, uint64_t end, unsigned int flags)
{
	if (flags & SHMD_DEV_NO_DOORBELL)
		return SHMD_DEV_OK;
	return shmdi_sq_submit(qp, end, SHMDI_FIXED(qp->sharing));
}

SHMDI_API int shmd_dev_qp_wait(struct shmd_dev_qp *qp, uint64_t end, uint64_t timeout_nsec)
{
	return shmdi_sq_wait(qp, end, SHMDI_FIXED(qp->sharing), timeout_nsec);
}

SHMDI_API int shmd_dev_qp_test(struct shmd_dev_qp *qp, uint64_t end)
{
	int rc = shmdi_cq_poll(qp, SHMDI_FIXED(qp->sharing));

	if (rc)
		return rc;
	return shmdi_index_acquire(&qp->cqe_ci, SHMDI_FIXED(qp->sharing)) >= end ? SHMD_DEV_OK
								       : SHMD_DEV_AGAIN;
}

SHMDI_API uint32_t shmd_dev_qp_error(const struct shmd_dev_qp *qp, uint32_t *ret_wqe_index)
{
	uint32_t syndrome = shmdi_flag_load(&qp->error_syndrome, SHMDI_FIXED(qp->sharing));

	if (syndrome && ret_wqe_index)
		*ret_wqe_index = shmdi_flag_load(&qp->error_wqe_index, SHMDI_FIXED(qp->sharing));
	return syndrome;
}

/* ---- two-sided --------------------------------------------------------------------------------------------- */

SHMDI_API int shmd_dev_qp_send(struct shmd_dev_qp *qp, struct shmd_dev_addr local,
			       uint64_t bytes)
{
	return shmdi_send_one(qp, local, bytes, 0);
}

SHMDI_API int shmd_dev_qp_send_imm(struct shmd_dev_qp *qp, struct shmd_dev_addr local,
				   uint64_t bytes, uint32_t imm)
{
	return shmdi_send_one(qp, local, bytes, &imm);
}

SHMDI_API int shmd_dev_qp_post_recv(struct shmd_dev_qp *qp, struct shmd_dev_addr local,
				    uint64_t bytes)
{
	uint64_t key_be = (SHMDI_FORCE uint32_t)local.key_be;
	uint64_t terminate = (uint64_t)shmdi_swap32(SHMD_LKEY_TERMINATE) << 32;
	uint64_t slot;
	uint8_t *wqe;

	if (!SHMDI_FIXED(qp->rq_wqes) || bytes > SHMD_DEV_MAX_REQUEST_BYTES)
		return SHMD_DEV_INVALID;
	slot = qp->rq_pi & (SHMDI_FIXED(qp->rq_wqes) - 1);
	wqe = (uint8_t *)(uintptr_t)(SHMDI_FIXED(qp->rq_addr) + (slot << SHMDI_FIXED(qp->rq_stride_shift)));
	if (bytes) {
		shmdi_ring_store(wqe, shmdi_swap32((uint32_t)bytes) | key_be << 32,
				 shmdi_swap64(local.iova));
		wqe += SHMD_DS_BYTES;
	}
	/* The list ends where the stride does, or earlier at this segment. */
	if (!bytes || 1u << SHMDI_FIXED(qp->rq_stride_shift) > SHMD_DS_BYTES)
		shmdi_ring_store(wqe, terminate, 0);
	qp->rq_pi++;
	shmdi_dbrec_store(SHMDI_FIXED(qp->rq_dbrec_addr), shmdi_swap32((uint32_t)qp->rq_pi & 0xffff),
			  SHMDI_FIXED(qp->placement));
	return SHMD_DEV_OK;
}

#endif
