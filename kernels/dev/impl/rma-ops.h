/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put, get, p, g and send: the bodies. Contracts are in rma.h, which includes this.
 *
 * One caller, or the leader of a warp or block, runs the _one functions; *ret_end is the index to wait for.
 */
#include <shmd/dev/rma.h>

#ifndef SHMDI_RMA_OPS_H
#define SHMDI_RMA_OPS_H

#include <shmd/dev/impl/scratch.h>

/* A put or a get. */
struct shmdi_transfer {
	struct shmd_dev_addr remote;
	struct shmd_dev_addr local;
	uint64_t bytes;
	int is_get;
};

/* One request: bytes 1..SHMD_DEV_MAX_REQUEST_BYTES. */
SHMDI_FN int shmdi_part_one(struct shmd_dev_qp *qp, const struct shmdi_transfer *part,
			    const struct shmd_dev_mode *mode, uint64_t *ret_end)
{
	struct shmd_dev_av av;
	struct shmdi_post post;
	struct shmd_dev_wqe wqe;
	int rc;

	shmdi_post_address(mode, &av);
	rc = shmdi_post_begin(qp, mode, 1, 0, 1, &post);
	if (rc)
		return rc;
	wqe = shmdi_post_wqe(mode, &av, post.index, post.first_flags | post.last_flags);
	if (part->is_get)
		shmd_dev_prepare_read(qp, wqe, part->remote, part->local, part->bytes);
	else
		shmd_dev_prepare_write(qp, wqe, part->remote, part->local, part->bytes);
	*ret_end = post.end;
	return shmdi_post_end(qp, mode, &post, part->is_get);
}

/* Cut a request off the front of a transfer that has bytes left. */
SHMDI_FN struct shmdi_transfer shmdi_transfer_cut(struct shmdi_transfer *rest)
{
	struct shmdi_transfer part = *rest;

	if (part.bytes > SHMD_DEV_MAX_REQUEST_BYTES)
		part.bytes = SHMD_DEV_MAX_REQUEST_BYTES;
	rest->remote.iova += part.bytes;
	rest->local.iova += part.bytes;
	rest->bytes -= part.bytes;
	return part;
}

/* Leaves *ret_end alone when there is nothing to do. */
SHMDI_FN int shmdi_transfer_one(struct shmd_dev_qp *qp, struct shmdi_transfer transfer,
				const struct shmd_dev_mode *mode, uint64_t *ret_end)
{
	while (transfer.bytes) {
		struct shmdi_transfer part = shmdi_transfer_cut(&transfer);
		int rc = shmdi_part_one(qp, &part, mode, ret_end);

		if (rc)
			return rc;
	}
	return SHMD_DEV_OK;
}

SHMDI_FN struct shmdi_transfer shmdi_transfer_of(struct shmd_dev_addr remote,
						 struct shmd_dev_addr local, uint64_t bytes,
						 int is_get)
{
	struct shmdi_transfer transfer;

	transfer.remote = remote;
	transfer.local = local;
	transfer.bytes = bytes;
	transfer.is_get = is_get;
	return transfer;
}

SHMDI_FN int shmdi_transfer_as(struct shmd_dev_qp *qp, struct shmdi_transfer transfer,
			       struct shmd_dev_mode mode, int waits)
{
	uint64_t end = 0;
	int rc = SHMD_DEV_OK;

	if (shmdi_scope_enter(mode.scope)) {
		rc = shmdi_transfer_one(qp, transfer, &mode, &end);
		if (!rc && waits)
			rc = shmdi_sq_wait(qp, end, mode.sharing, mode.timeout_nsec);
	}
	return shmdi_scope_leave(mode.scope, rc);
}

/* ---- put and get ----------------------------------------------------------------------------------------- */

SHMDI_FN int shmd_dev_qp_put_as(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				struct shmd_dev_addr local, uint64_t bytes,
				struct shmd_dev_mode mode)
{
	return shmdi_transfer_as(qp, shmdi_transfer_of(remote, local, bytes, 0), mode, 1);
}

SHMDI_FN int shmd_dev_qp_put_nbi_as(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				    struct shmd_dev_addr local, uint64_t bytes,
				    struct shmd_dev_mode mode)
{
	return shmdi_transfer_as(qp, shmdi_transfer_of(remote, local, bytes, 0), mode, 0);
}

SHMDI_FN int shmd_dev_qp_get_as(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				struct shmd_dev_addr local, uint64_t bytes,
				struct shmd_dev_mode mode)
{
	return shmdi_transfer_as(qp, shmdi_transfer_of(remote, local, bytes, 1), mode, 1);
}

SHMDI_FN int shmd_dev_qp_get_nbi_as(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				    struct shmd_dev_addr local, uint64_t bytes,
				    struct shmd_dev_mode mode)
{
	return shmdi_transfer_as(qp, shmdi_transfer_of(remote, local, bytes, 1), mode, 0);
}

/* ---- p and g --------------------------------------------------------------------------------------------- */

/* 1, 2, 4 or 8. */
SHMDI_FN int shmdi_is_word(uint32_t bytes)
{
	return bytes - 1 < 8 && (bytes & (bytes - 1)) == 0;
}

SHMDI_FN int shmdi_p_one(struct shmd_dev_qp *qp, struct shmd_dev_addr remote, uint64_t value,
			 uint32_t bytes, const struct shmd_dev_mode *mode)
{
	struct shmd_dev_av av;
	struct shmdi_post post;
	int rc;

	if (!shmdi_is_word(bytes))
		return SHMD_DEV_INVALID;
	shmdi_post_address(mode, &av);
	rc = shmdi_post_begin(qp, mode, 1, 0, 1, &post);
	if (rc)
		return rc;
	shmdi_ring_write_value(
		&post.ring, shmdi_post_wqe(mode, &av, post.index, post.first_flags | post.last_flags), remote,
		value, bytes);
	return shmdi_post_end(qp, mode, &post, 0);
}

SHMDI_FN int shmd_dev_qp_p_as(struct shmd_dev_qp *qp, struct shmd_dev_addr remote, uint64_t value,
			      uint32_t bytes, struct shmd_dev_mode mode)
{
	int rc = SHMD_DEV_OK;

	if (shmdi_is_alone(&mode)) {
		struct shmd_dev_mode alone = shmdi_mode_alone(&mode);

		return shmdi_p_one(qp, remote, value, bytes, &alone);
	}
	if (shmdi_scope_enter(mode.scope))
		rc = shmdi_p_one(qp, remote, value, bytes, &mode);
	return shmdi_scope_leave(mode.scope, rc);
}

SHMDI_FN int shmdi_g_one(struct shmd_dev_qp *qp, struct shmd_dev_addr remote, uint32_t bytes,
			 const struct shmd_dev_mode *mode, uint64_t *ret_value)
{
	struct shmd_dev_av av;
	struct shmdi_post post;
	int rc, taken;

	if (!shmdi_is_word(bytes))
		return SHMD_DEV_INVALID;
	shmdi_post_address(mode, &av);
	rc = shmdi_post_begin(qp, mode, 1, 0, 0, &post);
	if (rc)
		return rc;
	taken = shmdi_slot_take(qp, post.index, mode->sharing, 1);
	if (taken)
		shmdi_post_cancel(qp, &post, shmdi_post_wqebbs(mode, 1, 0));
	else
		shmd_dev_prepare_read(
			qp, shmdi_post_wqe(mode, &av, post.index, post.first_flags | post.last_flags), remote,
			shmdi_slot_addr(qp, post.index), bytes);
	rc = shmdi_post_end(qp, mode, &post, 0);
	if (taken)
		return taken;
	if (!rc)
		rc = shmdi_sq_wait(qp, post.end, mode->sharing, mode->timeout_nsec);
	if (!rc)
		*ret_value = shmdi_slot_read(qp, post.index, bytes);
	shmdi_slot_drop(qp, post.index, mode->sharing);
	return rc;
}

SHMDI_FN int shmd_dev_qp_g_as(struct shmd_dev_qp *qp, struct shmd_dev_addr remote, uint32_t bytes,
			      struct shmd_dev_mode mode, uint64_t *ret_value)
{
	uint64_t value = 0;
	int rc = SHMD_DEV_OK;

	if (shmdi_scope_enter(mode.scope))
		rc = shmdi_g_one(qp, remote, bytes, &mode, &value);
	rc = shmdi_scope_leave(mode.scope, rc);
	if (rc)
		return rc;
	/* Every thread of the scope takes part, also those that want no value. */
	value = shmdi_scope_share(mode.scope, value);
	if (ret_value)
		*ret_value = value;
	return SHMD_DEV_OK;
}

/* ---- send ------------------------------------------------------------------------------------------------ */

SHMDI_FN int shmdi_send_one(struct shmd_dev_qp *qp, struct shmd_dev_addr local, uint64_t bytes,
			    const uint32_t *imm)
{
	struct shmd_dev_mode mode = shmd_dev_mode_of(qp, 0);
	struct shmdi_post post;
	struct shmd_dev_wqe wqe;
	int rc;

	if (bytes > SHMD_DEV_MAX_REQUEST_BYTES)
		return SHMD_DEV_INVALID;
	rc = shmdi_post_begin(qp, &mode, 1, 0, 1, &post);
	if (rc)
		return rc;
	wqe = shmd_dev_wqe_at(post.index, post.first_flags | post.last_flags);
	if (imm) {
		wqe.imm = *imm;
		shmd_dev_prepare_send_imm(qp, wqe, local, bytes);
	} else {
		shmd_dev_prepare_send(qp, wqe, local, bytes);
	}
	return shmdi_post_end(qp, &mode, &post, 0);
}

#endif
