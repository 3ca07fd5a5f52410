/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put_signal, ordering and waiting for words: the bodies. Contracts are in rma.h, which includes this.
 */
#include <shmd/dev/rma.h>

#ifndef SHMDI_QUEUE_OPS_H
#define SHMDI_QUEUE_OPS_H

#include <shmd/dev/impl/amo-ops.h>
#include <shmd/dev/impl/rma-ops.h>

/* ---- put_signal ------------------------------------------------------------------------------------------ */

/* The last part of the data, which may be empty, and the signal, in one reservation. */
SHMDI_FN int shmdi_signal_part_one(struct shmd_dev_qp *qp, const struct shmdi_transfer *part,
				   const struct shmd_dev_signal *signal,
				   const struct shmd_dev_mode *mode, uint64_t *ret_end)
{
	struct shmd_dev_amo amo = shmdi_signal_amo(signal);
	uint32_t wide = (uint32_t)shmdi_amo_is_wide(&amo);
	struct shmd_dev_av av;
	struct shmdi_post post;
	int rc, taken;

	shmdi_post_address(mode, &av);
	rc = shmdi_post_begin(qp, mode, 2, wide, 0, &post);
	if (rc)
		return rc;
	*ret_end = post.end;
	taken = shmdi_slot_take(qp, post.index + shmdi_post_wqebbs(mode, 1, 0), mode->sharing, 0);
	if (taken) {
		shmdi_post_cancel(qp, &post, shmdi_post_wqebbs(mode, 2, wide));
		(void)shmdi_post_end(qp, mode, &post, 0);
		return taken;
	}
	/* Lanes of a group have the same shape, so an empty part becomes a NOP, or two. */
	if (part->bytes) {
		shmd_dev_prepare_write(qp, shmdi_post_wqe(mode, &av, post.index, post.first_flags),
				       part->remote, part->local, part->bytes);
	} else {
		shmd_dev_prepare_nop(qp, shmd_dev_wqe_at(post.index, post.first_flags));
		if (mode->peer)
			shmd_dev_prepare_nop(qp, shmd_dev_wqe_at(post.index + 1, 0));
	}
	shmdi_amo_prepare(qp,
			  shmdi_post_wqe(mode, &av, post.index + shmdi_post_wqebbs(mode, 1, 0),
					 post.last_flags),
			  signal->word, &amo);
	return shmdi_post_end(qp, mode, &post, 0);
}

SHMDI_FN int shmdi_put_signal_one(struct shmd_dev_qp *qp, struct shmdi_transfer transfer,
				  const struct shmd_dev_signal *signal,
				  const struct shmd_dev_mode *mode, uint64_t *ret_end)
{
	struct shmd_dev_amo amo = shmdi_signal_amo(signal);
	int rc;

	if (!shmdi_signal_is_valid(signal))
		return SHMD_DEV_INVALID;
	rc = shmdi_amo_status(qp, &amo);
	if (rc)
		return rc;
	while (transfer.bytes > SHMD_DEV_MAX_REQUEST_BYTES) {
		struct shmdi_transfer part = shmdi_transfer_cut(&transfer);

		rc = shmdi_part_one(qp, &part, mode, ret_end);
		if (rc)
			return rc;
	}
	return shmdi_signal_part_one(qp, &transfer, signal, mode, ret_end);
}

SHMDI_FN int shmdi_put_signal_as(struct shmd_dev_qp *qp, struct shmdi_transfer transfer,
				 const struct shmd_dev_signal *signal, struct shmd_dev_mode mode,
				 int waits)
{
	uint64_t end = 0;
	int rc = SHMD_DEV_OK;

	if (shmdi_scope_enter(mode.scope)) {
		rc = shmdi_put_signal_one(qp, transfer, signal, &mode, &end);
		if (!rc && waits)
			rc = shmdi_sq_wait(qp, end, mode.sharing, mode.timeout_nsec);
	}
	return shmdi_scope_leave(mode.scope, rc);
}

SHMDI_FN int shmd_dev_qp_put_signal_as(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				       struct shmd_dev_addr local, uint64_t bytes,
				       struct shmd_dev_signal signal, struct shmd_dev_mode mode)
{
	return shmdi_put_signal_as(qp, shmdi_transfer_of(remote, local, bytes, 0), &signal,
				   mode, 1);
}

SHMDI_FN int shmd_dev_qp_put_signal_nbi_as(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
					   struct shmd_dev_addr local, uint64_t bytes,
					   struct shmd_dev_signal signal, struct shmd_dev_mode mode)
{
	return shmdi_put_signal_as(qp, shmdi_transfer_of(remote, local, bytes, 0), &signal,
				   mode, 0);
}

/* ---- ordering -------------------------------------------------------------------------------------------- */

SHMDI_FN int shmd_dev_qp_fence_as(struct shmd_dev_qp *qp, struct shmd_dev_mode mode)
{
	/* One QP executes in order; only the data of reads may arrive late. */
	if (shmdi_scope_enter(mode.scope)) {
		uint64_t end = shmdi_index_peek(&qp->last_fetch_index, mode.sharing);

		shmdi_index_raise(&qp->fence_index, end, mode.sharing);
	}
	return shmdi_scope_leave(mode.scope, SHMD_DEV_OK);
}

SHMDI_FN int shmd_dev_qp_quiet_as(struct shmd_dev_qp *qp, struct shmd_dev_mode mode)
{
	int rc = SHMD_DEV_OK;

	/* Everything this caller posted is ready by now. */
	if (shmdi_scope_enter(mode.scope))
		rc = shmdi_sq_wait(qp, shmdi_index_peek(&qp->sq_ready_index, mode.sharing),
				   mode.sharing, mode.timeout_nsec);
	return shmdi_scope_leave(mode.scope, rc);
}

/* ---- the caller's own WQEs --------------------------------------------------------------------------------- */

SHMDI_FN int shmd_dev_qp_reserve_as(struct shmd_dev_qp *qp, uint32_t n_wqebbs, struct shmd_dev_mode mode,
				    uint64_t *ret_index)
{
	struct shmdi_claim claim;
	struct shmdi_ring ring;
	int status;

	claim.index = 0;
	/* Check the caller's number here, since shmdi_sq_try_claim counts in 32 bits with a sign. */
	if (n_wqebbs - 1 >= shmdi_sq_window(qp))
		return SHMD_DEV_INVALID;
	/* Such a caller could never make them ready. */
	if (mode.scope == SHMD_DEV_THREAD && !ret_index)
		return SHMD_DEV_INVALID;
	if (shmdi_scope_enter(mode.scope))
		claim = shmdi_sq_reserve(qp, n_wqebbs, mode.sharing, 0, &ring);
	claim.index = shmdi_scope_share(mode.scope, claim.index);
	status = shmdi_claim_status(claim.index);
	if (!status && ret_index)
		*ret_index = claim.index;
	return status;
}

SHMDI_FN int shmd_dev_qp_publish_as(struct shmd_dev_qp *qp, uint64_t index, uint32_t n_wqebbs,
				    struct shmd_dev_mode mode)
{
	int rc = SHMD_DEV_OK;

	if (shmdi_scope_enter(mode.scope))
		rc = shmdi_sq_publish(qp, &mode, index, index + n_wqebbs);
	return shmdi_scope_leave(mode.scope, rc);
}

SHMDI_FN int shmd_dev_qp_wait_as(struct shmd_dev_qp *qp, uint64_t end, struct shmd_dev_mode mode)
{
	int rc = SHMD_DEV_OK;

	if (shmdi_scope_enter(mode.scope))
		rc = shmdi_sq_wait(qp, end, mode.sharing, mode.timeout_nsec);
	return shmdi_scope_leave(mode.scope, rc);
}

/* ---- local words that peers write ------------------------------------------------------------------------- */

SHMDI_FN int shmdi_compare(uint64_t a, int cmp, uint64_t b)
{
	switch (cmp) {
	case SHMD_DEV_CMP_EQ:
		return a == b;
	case SHMD_DEV_CMP_NE:
		return a != b;
	case SHMD_DEV_CMP_GT:
		return a > b;
	case SHMD_DEV_CMP_GE:
		return a >= b;
	case SHMD_DEV_CMP_LT:
		return a < b;
	default:
		return a <= b;
	}
}

/* A condition on a word of 4 or 8 bytes. */
struct shmdi_until {
	const void *word;
	uint64_t value;
	int cmp; /* enum shmd_dev_cmp */
	int bytes;
};

SHMDI_FN struct shmdi_until shmdi_until_of(const void *word, int bytes, int cmp,
					   uint64_t value)
{
	struct shmdi_until until;

	until.word = word;
	until.value = value;
	until.cmp = cmp;
	until.bytes = bytes;
	return until;
}

SHMDI_FN int shmdi_until_holds(const struct shmdi_until *until)
{
	uint64_t v = until->bytes == 8 ? shmdi_word_load64((const uint64_t *)until->word)
				       : shmdi_word_load32((const uint32_t *)until->word);

	return shmdi_compare(v, until->cmp, until->value);
}

/* Polls the CQ as often as the health word: an error ends this wait too, and no other caller may be polling. */
SHMDI_SLOW int shmdi_until_wait(struct shmd_dev_qp *qp, const struct shmdi_until *until,
				int sharing, uint64_t timeout_nsec)
{
	struct shmdi_wait wait;
	int rc, announced;

	shmdi_wait_init(&wait, qp, timeout_nsec);
	announced = shmdi_sq_kick(qp, sharing);
	while (!shmdi_until_holds(until)) {
		/* The peer may be waiting for it. */
		if (SHMDI_UNLIKELY(!announced))
			announced = shmdi_sq_kick(qp, sharing);
		if (shmdi_wait_is_due(&wait, SHMDI_HEALTH_ROUNDS)) {
			rc = shmdi_cq_poll(qp, sharing);
			if (!rc)
				rc = shmdi_cq_ask_idle(qp, sharing);
			if (rc)
				return rc;
		}
		rc = shmdi_wait_round(&wait);
		if (rc)
			return rc;
	}
	return SHMD_DEV_OK;
}

SHMDI_FN int shmdi_until_as(struct shmd_dev_qp *qp, struct shmdi_until until,
			    struct shmd_dev_mode mode)
{
	int rc = SHMD_DEV_OK;

	if (shmdi_scope_enter(mode.scope) && !shmdi_until_holds(&until))
		rc = shmdi_until_wait(qp, &until, mode.sharing, mode.timeout_nsec);
	return shmdi_scope_leave(mode.scope, rc);
}

SHMDI_FN int shmdi_test_as(struct shmd_dev_qp *qp, struct shmdi_until until,
			   struct shmd_dev_mode mode)
{
	int rc = SHMD_DEV_OK;

	if (shmdi_scope_enter(mode.scope) && !shmdi_until_holds(&until))
		rc = shmdi_cq_has_error(qp, mode.sharing) ? SHMD_DEV_CQE_ERROR : SHMD_DEV_AGAIN;
	return shmdi_scope_leave(mode.scope, rc);
}

SHMDI_FN int shmd_dev_qp_wait_until64_as(struct shmd_dev_qp *qp, const uint64_t *word,
					 enum shmd_dev_cmp cmp, uint64_t value,
					 struct shmd_dev_mode mode)
{
	return shmdi_until_as(qp, shmdi_until_of(word, 8, (int)cmp, value), mode);
}

SHMDI_FN int shmd_dev_qp_wait_until32_as(struct shmd_dev_qp *qp, const uint32_t *word,
					 enum shmd_dev_cmp cmp, uint32_t value,
					 struct shmd_dev_mode mode)
{
	return shmdi_until_as(qp, shmdi_until_of(word, 4, (int)cmp, value), mode);
}

SHMDI_FN int shmd_dev_qp_test64_as(struct shmd_dev_qp *qp, const uint64_t *word,
				   enum shmd_dev_cmp cmp, uint64_t value, struct shmd_dev_mode mode)
{
	return shmdi_test_as(qp, shmdi_until_of(word, 8, (int)cmp, value), mode);
}

SHMDI_FN int shmd_dev_qp_test32_as(struct shmd_dev_qp *qp, const uint32_t *word,
				   enum shmd_dev_cmp cmp, uint32_t value, struct shmd_dev_mode mode)
{
	return shmdi_test_as(qp, shmdi_until_of(word, 4, (int)cmp, value), mode);
}

#endif
