/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put, get, p, g, send: what carries them out. Contracts are in rma.h, which includes this.
 *
 * The _one functions are what one caller, or the leader of a warp or block, does; *ret_end is where to wait to.
 */
#include <shmd/dev/rma.h>

#ifndef SHMD_DEV_RMA_OPS_H
#define SHMD_DEV_RMA_OPS_H

#include <shmd/dev/scratch.h>

/* A put or a get. */
struct shmd_dev_transfer {
	struct shmd_dev_addr remote;
	struct shmd_dev_addr local;
	uint64_t bytes;
	int is_get;
};

/* One request: bytes 1..SHMD_DEV_MAX_REQUEST_BYTES. */
SHMD_DEV int shmd_dev_part_one(struct shmd_dev_qp *qp, const struct shmd_dev_transfer *part,
			       const struct shmd_dev_mode *mode, uint64_t *ret_end)
{
	struct shmd_dev_av av;
	struct shmd_dev_post post;
	struct shmd_dev_wqe wqe;
	int rc;

	shmd_dev_post_address(mode, &av);
	rc = shmd_dev_post_begin(qp, mode, 1, 0, 1, &post);
	if (rc)
		return rc;
	wqe = shmd_dev_post_wqe(mode, &av, post.index, post.first_flags | post.last_flags);
	if (part->is_get)
		shmd_dev_prepare_read(qp, wqe, part->remote, part->local, part->bytes);
	else
		shmd_dev_prepare_write(qp, wqe, part->remote, part->local, part->bytes);
	*ret_end = post.end;
	return shmd_dev_post_end(qp, mode, &post, part->is_get);
}

/* Cut a request off the front of a transfer that has bytes left. */
SHMD_DEV struct shmd_dev_transfer shmd_dev_transfer_cut(struct shmd_dev_transfer *rest)
{
	struct shmd_dev_transfer part = *rest;

	if (part.bytes > SHMD_DEV_MAX_REQUEST_BYTES)
		part.bytes = SHMD_DEV_MAX_REQUEST_BYTES;
	rest->remote.iova += part.bytes;
	rest->local.iova += part.bytes;
	rest->bytes -= part.bytes;
	return part;
}

/* *ret_end is untouched when there is nothing to do. */
SHMD_DEV int shmd_dev_transfer_one(struct shmd_dev_qp *qp, struct shmd_dev_transfer transfer,
				   const struct shmd_dev_mode *mode, uint64_t *ret_end)
{
	while (transfer.bytes) {
		struct shmd_dev_transfer part = shmd_dev_transfer_cut(&transfer);
		int rc = shmd_dev_part_one(qp, &part, mode, ret_end);

		if (rc)
			return rc;
	}
	return SHMD_DEV_OK;
}

SHMD_DEV struct shmd_dev_transfer shmd_dev_transfer_of(struct shmd_dev_addr remote,
						       struct shmd_dev_addr local, uint64_t bytes,
						       int is_get)
{
	struct shmd_dev_transfer transfer;

	transfer.remote = remote;
	transfer.local = local;
	transfer.bytes = bytes;
	transfer.is_get = is_get;
	return transfer;
}

SHMD_DEV int shmd_dev_transfer_as(struct shmd_dev_qp *qp, struct shmd_dev_transfer transfer,
				  struct shmd_dev_mode mode, int waits)
{
	uint64_t end = 0;
	int rc = SHMD_DEV_OK;

	if (shmd_dev_scope_enter(mode.scope)) {
		rc = shmd_dev_transfer_one(qp, transfer, &mode, &end);
		if (!rc && waits)
			rc = shmd_dev_sq_wait(qp, end, mode.sharing, mode.timeout_nsec);
	}
	return shmd_dev_scope_leave(mode.scope, rc);
}

/* ---- put and get ----------------------------------------------------------------------------------------- */

SHMD_DEV int shmd_dev_qp_put_as(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				struct shmd_dev_addr local, uint64_t bytes,
				struct shmd_dev_mode mode)
{
	return shmd_dev_transfer_as(qp, shmd_dev_transfer_of(remote, local, bytes, 0), mode, 1);
}

SHMD_DEV int shmd_dev_qp_put_nbi_as(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				    struct shmd_dev_addr local, uint64_t bytes,
				    struct shmd_dev_mode mode)
{
	return shmd_dev_transfer_as(qp, shmd_dev_transfer_of(remote, local, bytes, 0), mode, 0);
}

SHMD_DEV int shmd_dev_qp_get_as(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				struct shmd_dev_addr local, uint64_t bytes,
				struct shmd_dev_mode mode)
{
	return shmd_dev_transfer_as(qp, shmd_dev_transfer_of(remote, local, bytes, 1), mode, 1);
}

SHMD_DEV int shmd_dev_qp_get_nbi_as(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
				    struct shmd_dev_addr local, uint64_t bytes,
				    struct shmd_dev_mode mode)
{
	return shmd_dev_transfer_as(qp, shmd_dev_transfer_of(remote, local, bytes, 1), mode, 0);
}

/* ---- p and g --------------------------------------------------------------------------------------------- */

/* 1, 2, 4 or 8. */
SHMD_DEV int shmd_dev_is_word(uint32_t bytes)
{
	return bytes - 1 < 8 && (bytes & (bytes - 1)) == 0;
}

SHMD_DEV int shmd_dev_p_one(struct shmd_dev_qp *qp, struct shmd_dev_addr remote, uint64_t value,
			    uint32_t bytes, const struct shmd_dev_mode *mode)
{
	struct shmd_dev_av av;
	struct shmd_dev_post post;
	int rc;

	if (!shmd_dev_is_word(bytes))
		return SHMD_DEV_INVALID;
	shmd_dev_post_address(mode, &av);
	rc = shmd_dev_post_begin(qp, mode, 1, 0, 1, &post);
	if (rc)
		return rc;
	shmd_dev_ring_write_value(
		&post.ring, shmd_dev_post_wqe(mode, &av, post.index, post.first_flags | post.last_flags), remote,
		value, bytes);
	return shmd_dev_post_end(qp, mode, &post, 0);
}

SHMD_DEV int shmd_dev_qp_p_as(struct shmd_dev_qp *qp, struct shmd_dev_addr remote, uint64_t value,
			      uint32_t bytes, struct shmd_dev_mode mode)
{
	int rc = SHMD_DEV_OK;

	if (shmd_dev_is_alone(&mode)) {
		struct shmd_dev_mode alone = shmd_dev_mode_alone(&mode);

		return shmd_dev_p_one(qp, remote, value, bytes, &alone);
	}
	if (shmd_dev_scope_enter(mode.scope))
		rc = shmd_dev_p_one(qp, remote, value, bytes, &mode);
	return shmd_dev_scope_leave(mode.scope, rc);
}

SHMD_DEV int shmd_dev_g_one(struct shmd_dev_qp *qp, struct shmd_dev_addr remote, uint32_t bytes,
			    const struct shmd_dev_mode *mode, uint64_t *ret_value)
{
	struct shmd_dev_av av;
	struct shmd_dev_post post;
	int rc, taken;

	if (!shmd_dev_is_word(bytes))
		return SHMD_DEV_INVALID;
	shmd_dev_post_address(mode, &av);
	rc = shmd_dev_post_begin(qp, mode, 1, 0, 0, &post);
	if (rc)
		return rc;
	taken = shmd_dev_slot_take(qp, post.index, mode->sharing, 1);
	if (taken)
		shmd_dev_post_cancel(qp, &post, shmd_dev_post_wqebbs(mode, 1, 0));
	else
		shmd_dev_prepare_read(
			qp, shmd_dev_post_wqe(mode, &av, post.index, post.first_flags | post.last_flags), remote,
			shmd_dev_slot_addr(qp, post.index), bytes);
	rc = shmd_dev_post_end(qp, mode, &post, 0);
	if (taken)
		return taken;
	if (!rc)
		rc = shmd_dev_sq_wait(qp, post.end, mode->sharing, mode->timeout_nsec);
	if (!rc)
		*ret_value = shmd_dev_slot_read(qp, post.index, bytes);
	shmd_dev_slot_drop(qp, post.index, mode->sharing);
	return rc;
}

SHMD_DEV int shmd_dev_qp_g_as(struct shmd_dev_qp *qp, struct shmd_dev_addr remote, uint32_t bytes,
			      struct shmd_dev_mode mode, uint64_t *ret_value)
{
	uint64_t value = 0;
	int rc = SHMD_DEV_OK;

	if (shmd_dev_scope_enter(mode.scope))
		rc = shmd_dev_g_one(qp, remote, bytes, &mode, &value);
	rc = shmd_dev_scope_leave(mode.scope, rc);
	if (rc)
		return rc;
	/* All of the scope take part, also those who want no value. */
	value = shmd_dev_scope_share(mode.scope, value);
	if (ret_value)
		*ret_value = value;
	return SHMD_DEV_OK;
}

/* ---- send ------------------------------------------------------------------------------------------------ */

SHMD_DEV int shmd_dev_send_one(struct shmd_dev_qp *qp, struct shmd_dev_addr local, uint64_t bytes,
			       const uint32_t *imm)
{
	struct shmd_dev_mode mode = shmd_dev_mode_of(qp, 0);
	struct shmd_dev_post post;
	struct shmd_dev_wqe wqe;
	int rc;

	if (bytes > SHMD_DEV_MAX_REQUEST_BYTES)
		return SHMD_DEV_INVALID;
	rc = shmd_dev_post_begin(qp, &mode, 1, 0, 1, &post);
	if (rc)
		return rc;
	wqe = shmd_dev_wqe_at(post.index, post.first_flags | post.last_flags);
	if (imm) {
		wqe.imm = *imm;
		shmd_dev_prepare_send_imm(qp, wqe, local, bytes);
	} else {
		shmd_dev_prepare_send(qp, wqe, local, bytes);
	}
	return shmd_dev_post_end(qp, &mode, &post, 0);
}

#endif
