/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomics and signals: the bodies. Contracts are in rma.h, which includes this.
 *
 * The request that carries each operation (results that are not fetched go to their scratch slot too):
 *
 *	8 bytes	fetch, add: ATOMIC_FA. xor: MASKED_FA with every carry stopped. compare-swap: ATOMIC_CS.
 *	and, or, swap: MASKED_CS, two WQEBBs, and a NOP that asks for the CQE.
 *	4 bytes	fetch, add, xor: MASKED_FA. and, or, swap, compare-swap: MASKED_CS. One WQEBB.
 *
 * On a DCI all of them cover two WQEBBs, and the NOP follows. A request that the NIC lacks (flags of the QP) is not posted.
 */
#include <shmd/dev/rma.h>

#ifndef SHMDI_AMO_OPS_H
#define SHMDI_AMO_OPS_H

#include <shmd/dev/impl/scratch.h>

/* Covers two WQEBBs. */
SHMDI_FN int shmdi_amo_is_wide(const struct shmd_dev_amo *amo)
{
	return amo->bytes == 8 && (amo->op == SHMD_DEV_AMO_AND || amo->op == SHMD_DEV_AMO_OR ||
				   amo->op == SHMD_DEV_AMO_SWAP);
}

SHMDI_FN int shmdi_amo_is_valid(const struct shmd_dev_amo *amo)
{
	return (amo->bytes == 4 || amo->bytes == 8) && amo->op >= SHMD_DEV_AMO_FETCH &&
	       amo->op <= SHMD_DEV_AMO_COMPARE_SWAP;
}

/* The flag by which a QP says that its NIC lacks the request for this operation. */
SHMDI_FN uint32_t shmdi_amo_lack(const struct shmd_dev_amo *amo)
{
	if (amo->bytes == 4)
		return SHMD_QP_NO_MASKED_4;
	return amo->op == SHMD_DEV_AMO_XOR || shmdi_amo_is_wide(amo) ? SHMD_QP_NO_MASKED_8 : SHMD_QP_NO_ATOMIC_8;
}

/* SHMD_DEV_OK where this QP can carry the operation. */
SHMDI_FN int shmdi_amo_status(const struct shmd_dev_qp *qp, const struct shmd_dev_amo *amo)
{
	if (!shmdi_amo_is_valid(amo))
		return SHMD_DEV_INVALID;
	return SHMDI_UNLIKELY(SHMDI_FIXED(qp->flags) & shmdi_amo_lack(amo)) ? SHMD_DEV_UNSUPPORTED : SHMD_DEV_OK;
}

/* and, or, swap and compare-swap as masks; 4-byte operands are truncated when they are written. */
SHMDI_FN struct shmd_dev_masked_cs shmdi_amo_masks(const struct shmd_dev_amo *amo)
{
	struct shmd_dev_masked_cs cs;

	cs.swap = amo->op == SHMD_DEV_AMO_AND ? 0 : amo->value;
	cs.swap_mask = amo->op == SHMD_DEV_AMO_AND  ? ~amo->value
		       : amo->op == SHMD_DEV_AMO_OR ? amo->value
						    : ~0ull;
	cs.compare = amo->compare;
	cs.compare_mask = amo->op == SHMD_DEV_AMO_COMPARE_SWAP ? ~0ull : 0;
	return cs;
}

SHMDI_FN void shmdi_amo_prepare32(const struct shmd_dev_qp *qp, struct shmd_dev_wqe wqe,
				  struct shmd_dev_addr remote, struct shmd_dev_addr result,
				  const struct shmd_dev_amo *amo)
{
	uint32_t value = (uint32_t)amo->value;

	switch (amo->op) {
	case SHMD_DEV_AMO_FETCH:
		shmd_dev_prepare_masked_fa32(qp, wqe, remote, result, 0, 0);
		break;
	case SHMD_DEV_AMO_ADD:
		shmd_dev_prepare_masked_fa32(qp, wqe, remote, result, value, 0);
		break;
	case SHMD_DEV_AMO_XOR:
		shmd_dev_prepare_masked_fa32(qp, wqe, remote, result, value, ~0u);
		break;
	default:
		shmd_dev_prepare_masked_cs32(qp, wqe, remote, result, shmdi_amo_masks(amo));
		break;
	}
}

SHMDI_FN void shmdi_amo_prepare64(const struct shmd_dev_qp *qp, struct shmd_dev_wqe wqe,
				  struct shmd_dev_addr remote, struct shmd_dev_addr result,
				  const struct shmd_dev_amo *amo)
{
	switch (amo->op) {
	case SHMD_DEV_AMO_FETCH:
		shmd_dev_prepare_atomic_fa(qp, wqe, remote, result, 0);
		break;
	case SHMD_DEV_AMO_ADD:
		shmd_dev_prepare_atomic_fa(qp, wqe, remote, result, amo->value);
		break;
	case SHMD_DEV_AMO_XOR:
		shmd_dev_prepare_masked_fa64(qp, wqe, remote, result, amo->value, ~0ull);
		break;
	case SHMD_DEV_AMO_COMPARE_SWAP:
		shmd_dev_prepare_atomic_cs(qp, wqe, remote, result, amo->value, amo->compare);
		break;
	default:
		shmd_dev_prepare_masked_cs64(qp, wqe, remote, result, shmdi_amo_masks(amo));
		break;
	}
}

/* The request at wqe.index. */
SHMDI_FN void shmdi_amo_prepare_to(const struct shmd_dev_qp *qp, struct shmd_dev_wqe wqe,
				struct shmd_dev_addr remote, struct shmd_dev_addr result,
				const struct shmd_dev_amo *amo)
{
	if (amo->bytes == 4)
		shmdi_amo_prepare32(qp, wqe, remote, result, amo);
	else
		shmdi_amo_prepare64(qp, wqe, remote, result, amo);
}

/* With the scratch slot of that index as its result. */
SHMDI_FN void shmdi_amo_prepare(const struct shmd_dev_qp *qp, struct shmd_dev_wqe wqe,
				struct shmd_dev_addr remote, const struct shmd_dev_amo *amo)
{
	shmdi_amo_prepare_to(qp, wqe, remote, shmdi_slot_addr(qp, wqe.index), amo);
}

/* With a ret_old of NULL it does not wait. */
SHMDI_FN int shmdi_amo_one(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
			   const struct shmd_dev_amo *amo, const struct shmd_dev_mode *mode,
			   uint64_t *ret_old)
{
	uint32_t wide = (uint32_t)shmdi_amo_is_wide(amo);
	struct shmd_dev_av av;
	struct shmdi_post post;
	int rc, taken;

	rc = shmdi_amo_status(qp, amo);
	if (rc)
		return rc;
	shmdi_post_address(mode, &av);
	rc = shmdi_post_begin(qp, mode, 1, wide, 0, &post);
	if (rc)
		return rc;
	taken = shmdi_slot_take(qp, post.index, mode->sharing, ret_old != 0);
	if (taken)
		shmdi_post_cancel(qp, &post, shmdi_post_wqebbs(mode, 1, wide));
	else
		shmdi_amo_prepare(
			qp, shmdi_post_wqe(mode, &av, post.index, post.first_flags | post.last_flags), remote,
			amo);
	rc = shmdi_post_end(qp, mode, &post, 0);
	if (taken || !ret_old)
		return taken ? taken : rc;
	if (!rc)
		rc = shmdi_sq_wait(qp, post.end, mode->sharing, mode->timeout_nsec);
	if (!rc)
		*ret_old = shmdi_slot_read_atomic(qp, post.index, amo->bytes);
	shmdi_slot_drop(qp, post.index, mode->sharing);
	return rc;
}

/* Whether the NIC writes the former value in the caller's order of bytes: nobody swaps it there. */
SHMDI_FN int shmdi_amo_lands(const struct shmd_dev_qp *qp, const struct shmd_dev_amo *amo)
{
	return amo->bytes == 8 && !(SHMDI_FIXED(qp->flags) & SHMD_QP_ATOMIC_8_BE) && shmdi_amo_status(qp, amo) == SHMD_DEV_OK;
}

/* Does not wait: the result of an atomic that lands is in registered memory of the caller's when the request has completed. */
SHMDI_FN int shmdi_amo_to_one(struct shmd_dev_qp *qp, struct shmd_dev_addr remote, struct shmd_dev_addr result,
			      const struct shmd_dev_amo *amo, const struct shmd_dev_mode *mode)
{
	uint32_t wide = (uint32_t)shmdi_amo_is_wide(amo);
	struct shmd_dev_av av;
	struct shmdi_post post;
	int rc;

	shmdi_post_address(mode, &av);
	rc = shmdi_post_begin(qp, mode, 1, wide, 1, &post);
	if (rc)
		return rc;
	shmdi_amo_prepare_to(qp, shmdi_post_wqe(mode, &av, post.index, post.first_flags | post.last_flags), remote, result, amo);
	return shmdi_post_end(qp, mode, &post, 1);
}

SHMDI_FN int shmd_dev_qp_atomic_as(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				   struct shmd_dev_amo amo, struct shmd_dev_mode mode)
{
	int rc = SHMD_DEV_OK;

	if (shmdi_scope_enter(mode.scope))
		rc = shmdi_amo_one(qp, remote, &amo, &mode, 0);
	return shmdi_scope_leave(mode.scope, rc);
}

SHMDI_FN int shmd_dev_qp_atomic_fetch_as(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
					 struct shmd_dev_amo amo, struct shmd_dev_mode mode,
					 uint64_t *ret_old)
{
	uint64_t old = 0;
	int rc = SHMD_DEV_OK;

	if (shmdi_scope_enter(mode.scope))
		rc = shmdi_amo_one(qp, remote, &amo, &mode, &old);
	rc = shmdi_scope_leave(mode.scope, rc);
	if (rc)
		return rc;
	/* Every thread of the scope takes part, also those that want no value. */
	old = shmdi_scope_share(mode.scope, old);
	if (ret_old)
		*ret_old = old;
	return SHMD_DEV_OK;
}

/* ---- by name --------------------------------------------------------------------------------------------- */

SHMDI_FN int shmdi_amo_post(struct shmd_dev_qp *qp, struct shmd_dev_addr remote, int op,
			    uint32_t bytes, uint64_t value)
{
	return shmd_dev_qp_atomic_as(qp, remote, shmd_dev_amo_of(op, bytes, value),
				     shmd_dev_mode_of(qp, 0));
}

SHMDI_FN int shmdi_amo_fetch(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
			     struct shmd_dev_amo amo, uint64_t timeout_nsec, uint64_t *ret_old)
{
	return shmd_dev_qp_atomic_fetch_as(qp, remote, amo, shmd_dev_mode_of(qp, timeout_nsec),
					   ret_old);
}

/* ---- signals --------------------------------------------------------------------------------------------- */

SHMDI_FN struct shmd_dev_amo shmdi_signal_amo(const struct shmd_dev_signal *signal)
{
	return shmd_dev_amo_of(signal->op == SHMD_DEV_SIGNAL_SET ? SHMD_DEV_AMO_SWAP
								 : SHMD_DEV_AMO_ADD,
			       8, signal->value);
}

SHMDI_FN int shmdi_signal_is_valid(const struct shmd_dev_signal *signal)
{
	return signal->op == SHMD_DEV_SIGNAL_SET || signal->op == SHMD_DEV_SIGNAL_ADD;
}

SHMDI_FN int shmd_dev_qp_signal_as(struct shmd_dev_qp *qp, struct shmd_dev_signal signal,
				   struct shmd_dev_mode mode)
{
	struct shmd_dev_amo amo = shmdi_signal_amo(&signal);

	if (!shmdi_signal_is_valid(&signal))
		amo.bytes = 0;
	return shmd_dev_qp_atomic_as(qp, signal.word, amo, mode);
}

#endif
