/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on a PE by the queue of its way.
 *
 * A put or get is cut where a chunk of either side ends, since each chunk has a key of its own. Data of the caller's that is
 * not registered goes through the memory of the context (pe-bounce.h), a few bytes of a put in the requests themselves. An
 * atomic that the NIC lacks is made of compare-swaps of the 8 bytes around its word. The nbi form of a fetching
 * atomic waits where its result cannot land in the caller's memory: 4 bytes arrive big-endian, and memory may be unregistered.
 *
 * A context on another NIC than the first has queues of their own for atomics and signals, which go to the first NIC of a PE.
 *
 * The functions with _one act for one caller, the leader of a scope.
 */
#include <shmd/dev/pe.h>

#ifndef SHMDI_PE_QUEUE_H
#define SHMDI_PE_QUEUE_H

#include <shmd/dev/impl/pe-bounce.h>
#include <shmd/dev/impl/pe-copy.h>
#include <shmd/dev/impl/pe-way.h>
#include <shmd/dev/impl/pe-wait.h>

/* Unregistered data of a put up to here travels in requests of at most 8 bytes. */
#define SHMDI_INLINE_BYTES 32u

/* A failure of a request to a PE that has ended is reported as that. */
SHMDI_FN int shmdi_queue_status(const struct shmd_dev_ctx *ctx, const struct shmdi_pe_at *at, int rc)
{
	const struct shmd_dev_world *world = shmdi_world_of(ctx);

	if (SHMDI_LIKELY(rc != SHMD_DEV_CQE_ERROR))
		return rc;
	return shmdi_path_load(shmdi_pe_entry(world, at->pe), at->heap) == SHMD_PATH_GONE ? (int)SHMD_DEV_PE_GONE : rc;
}

/* ---- put and get ------------------------------------------------------------------------------------------------------------- */

/* 1 to SHMDI_INLINE_BYTES of the caller's, in requests of 8, 4, 2 and 1 bytes. */
SHMDI_FN int shmdi_inline_one(const struct shmdi_move *move, struct shmd_dev_addr remote, const uint8_t *local, uint64_t bytes)
{
	uint32_t piece = 8, i;
	uint64_t value;
	int rc;

	while (bytes) {
		while (piece > bytes)
			piece /= 2;
		for (value = 0, i = 0; i < piece; i++)
			value |= (uint64_t)local[i] << (8 * i);
		rc = shmd_dev_qp_p_as(move->way.qp, remote, value, piece, move->mode);
		if (rc)
			return rc;
		remote.iova += piece;
		local += piece;
		bytes -= piece;
	}
	return SHMD_DEV_OK;
}

/* One piece with one key on each side, of at most *bytes, which becomes what it was. */
SHMDI_FN int shmdi_piece_one(struct shmdi_move *move, const struct shmdi_pe_at *at, uint8_t *local, uint64_t *bytes)
{
	const struct shmd_dev_world *world = shmdi_world_of(move->ctx);
	uint64_t remote_bytes, local_bytes;
	struct shmd_dev_addr remote = shmdi_remote_of(world, at, move->way.peer_rail, &remote_bytes), near;

	if (*bytes > remote_bytes)
		*bytes = remote_bytes;
	if (SHMDI_LIKELY(shmdi_local_of(world, local, move->way.rail, &near, &local_bytes))) {
		if (*bytes > local_bytes)
			*bytes = local_bytes;
		return shmdi_transfer_one(move->way.qp, shmdi_transfer_of(remote, near, *bytes, move->is_get), &move->mode,
					  &move->end);
	}
	if (!move->is_get && *bytes <= SHMDI_INLINE_BYTES)
		return shmdi_inline_one(move, remote, local, *bytes);
	return shmdi_bounce_one(move, remote, local, bytes);
}

SHMDI_APART int shmdi_move_one(struct shmdi_move *move, struct shmdi_pe_at at, uint8_t *local, uint64_t bytes)
{
	uint64_t piece;
	int rc = shmdi_way_take(move->ctx, at.pe, &move->way);

	if (rc)
		return rc;
	move->mode = shmdi_way_mode(&move->way, &move->mode);
	while (bytes && !rc) {
		piece = bytes;
		rc = shmdi_piece_one(move, &at, local, &piece);
		at.offset += piece;
		local += piece;
		bytes -= piece;
	}
	/* Inline requests and those of bounce memory have left nothing to wait for. */
	if (!rc && move->waits && move->end)
		rc = shmdi_sq_wait(move->way.qp, move->end, move->mode.sharing, move->mode.timeout_nsec);
	return shmdi_queue_status(move->ctx, &at, rc);
}

SHMDI_FN struct shmdi_move shmdi_move_of(struct shmd_dev_ctx *ctx, const struct shmd_dev_mode *mode, int is_get, int waits)
{
	struct shmdi_move move;

	move.ctx = ctx;
	move.mode = *mode;
	move.is_get = is_get;
	move.waits = waits;
	move.end = 0;
	return move;
}

SHMDI_FN int shmdi_queue_put(struct shmd_dev_ctx *ctx, const struct shmdi_pe_at *at, const void *source, uint64_t bytes,
			     const struct shmd_dev_mode *mode, int waits)
{
	struct shmdi_move move = shmdi_move_of(ctx, mode, 0, waits);
	int rc = SHMD_DEV_OK;

	if (shmdi_scope_enter(mode->scope))
		rc = shmdi_move_one(&move, *at, (uint8_t *)(uintptr_t)source, bytes);
	return shmdi_scope_leave(mode->scope, rc);
}

SHMDI_FN int shmdi_queue_get(struct shmd_dev_ctx *ctx, const struct shmdi_pe_at *at, void *dest, uint64_t bytes,
			     const struct shmd_dev_mode *mode, int waits)
{
	struct shmdi_move move = shmdi_move_of(ctx, mode, 1, waits);
	int rc = SHMD_DEV_OK;

	if (shmdi_scope_enter(mode->scope))
		rc = shmdi_move_one(&move, *at, (uint8_t *)dest, bytes);
	return shmdi_scope_leave(mode->scope, rc);
}

/* ---- p and g ------------------------------------------------------------------------------------------------------------------ */

/* An aligned word, which lies in one chunk. With ret_value it is read. */
SHMDI_APART int shmdi_queue_word_one(struct shmd_dev_ctx *ctx, const struct shmdi_pe_at *at, uint64_t value, uint32_t bytes,
				     const struct shmd_dev_mode *mode, uint64_t *ret_value)
{
	struct shmd_dev_mode on_way;
	struct shmd_dev_addr remote;
	struct shmdi_pe_way way;
	uint64_t left;
	int rc = shmdi_way_take(ctx, at->pe, &way);

	if (rc)
		return rc;
	on_way = shmdi_way_mode(&way, mode);
	remote = shmdi_remote_of(shmdi_world_of(ctx), at, way.peer_rail, &left);
	if (ret_value)
		rc = shmd_dev_qp_g_as(way.qp, remote, bytes, on_way, ret_value);
	else
		rc = shmd_dev_qp_p_as(way.qp, remote, value, bytes, on_way);
	return shmdi_queue_status(ctx, at, rc);
}

SHMDI_FN int shmdi_queue_p(struct shmd_dev_ctx *ctx, const struct shmdi_pe_at *at, uint64_t value, uint32_t bytes,
			   const struct shmd_dev_mode *mode)
{
	int rc = SHMD_DEV_OK;

	if (shmdi_scope_enter(mode->scope))
		rc = shmdi_queue_word_one(ctx, at, value, bytes, mode, 0);
	return shmdi_scope_leave(mode->scope, rc);
}

SHMDI_FN int shmdi_queue_g(struct shmd_dev_ctx *ctx, const struct shmdi_pe_at *at, uint32_t bytes,
			   const struct shmd_dev_mode *mode, uint64_t *ret_value)
{
	int rc = SHMD_DEV_OK;

	if (shmdi_scope_enter(mode->scope))
		rc = shmdi_queue_word_one(ctx, at, 0, bytes, mode, ret_value);
	rc = shmdi_scope_leave(mode->scope, rc);
	*ret_value = shmdi_scope_share(mode->scope, *ret_value);
	return rc;
}

/* ---- atomics ------------------------------------------------------------------------------------------------------------------ */

/* The word of an atomic within the 8 or 4 bytes that the NIC can compare and swap. */
struct shmdi_swap {
	struct shmd_dev_qp *qp;
	struct shmd_dev_mode mode;
	struct shmd_dev_addr remote;
	uint32_t bytes; /* of the compare-swap */
	uint32_t shift; /* of the word in it */
};

/* The NIC's bytes after the atomic: only the word in them changes. */
SHMDI_FN uint64_t shmdi_swap_outcome(const struct shmdi_swap *swap, const struct shmd_dev_amo *amo, uint64_t all)
{
	uint64_t mask = amo->bytes == 8 ? ~0ull : 0xffffffffull << swap->shift;
	uint64_t word = (all & mask) >> swap->shift;
	struct shmd_dev_amo narrow = *amo;

	if (amo->bytes == 4)
		narrow.compare = (uint32_t)amo->compare;
	return (all & ~mask) | ((shmdi_amo_outcome(&narrow, word) << swap->shift) & mask);
}

SHMDI_FN int shmdi_swap_try(const struct shmdi_swap *swap, uint64_t compare, uint64_t value, uint64_t *ret_found)
{
	struct shmd_dev_amo amo = shmd_dev_amo_of(SHMD_DEV_AMO_COMPARE_SWAP, swap->bytes, value);

	amo.compare = compare;
	return shmd_dev_qp_atomic_fetch_as(swap->qp, swap->remote, amo, swap->mode, ret_found);
}

/* Swaps until no other atomic came between. Swapping 0 for 0 reads, where the NIC has nothing that only reads. */
SHMDI_SLOW int shmdi_swap_one(struct shmd_dev_ctx *ctx, const struct shmdi_swap *swap, const struct shmd_dev_amo *amo,
			      uint64_t *ret_old)
{
	struct shmdi_pe_wait wait;
	uint64_t guess = 0, found;
	int rc;

	shmdi_pe_wait_init(&wait, ctx, swap->mode.timeout_nsec);
	rc = shmdi_swap_try(swap, 0, 0, &guess);
	while (!rc) {
		rc = shmdi_swap_try(swap, guess, shmdi_swap_outcome(swap, amo, guess), &found);
		if (rc || found == guess)
			break;
		guess = found;
		/* The end of another PE is no reason to give up. */
		rc = shmdi_wait_round(&wait.wait);
	}
	if (!rc && ret_old)
		*ret_old = amo->bytes == 8 ? guess : (uint32_t)(guess >> swap->shift);
	return rc;
}

/* Which bytes to compare and swap: 8 if the NIC can, else those of the word. Return 0 if neither works. */
SHMDI_FN int shmdi_swap_of(struct shmdi_swap *swap, const struct shmd_dev_amo *amo)
{
	uint32_t lacks = SHMDI_FIXED(swap->qp->flags);

	swap->bytes = (lacks & SHMD_QP_NO_ATOMIC_8) ? 4 : 8;
	swap->shift = 0;
	if (swap->bytes == 4)
		return amo->bytes == 4 && !(lacks & SHMD_QP_NO_MASKED_4);
	if (amo->bytes == 4) {
		swap->shift = (uint32_t)(swap->remote.iova & 4) * 8;
		swap->remote.iova &= ~7ull;
	}
	return 1;
}

/* With a ret_old of NULL it returns when it is posted, unless it is made of compare-swaps. */
SHMDI_APART int shmdi_queue_amo_one(struct shmd_dev_ctx *ctx, const struct shmdi_pe_at *at, const struct shmd_dev_amo *amo,
				    const struct shmd_dev_mode *mode, uint64_t *ret_old)
{
	struct shmdi_swap swap;
	struct shmdi_pe_way way;
	uint64_t left;
	int rc = shmdi_amo_way_take(ctx, at->pe, &way);

	if (rc)
		return rc;
	swap.qp = way.qp;
	swap.mode = shmdi_way_mode(&way, mode);
	swap.remote = shmdi_remote_of(shmdi_world_of(ctx), at, way.peer_rail, &left);
	rc = SHMD_DEV_UNSUPPORTED;
	if (amo->op != SHMD_DEV_AMO_ADD_FLOAT)
		rc = ret_old ? shmd_dev_qp_atomic_fetch_as(way.qp, swap.remote, *amo, swap.mode, ret_old)
			     : shmd_dev_qp_atomic_as(way.qp, swap.remote, *amo, swap.mode);
	if (SHMDI_UNLIKELY(rc == SHMD_DEV_UNSUPPORTED) && shmdi_swap_of(&swap, amo))
		rc = shmdi_swap_one(ctx, &swap, amo, ret_old);
	return shmdi_queue_status(ctx, at, rc);
}

SHMDI_FN int shmdi_queue_amo(struct shmd_dev_ctx *ctx, const struct shmdi_pe_at *at, const struct shmd_dev_amo *amo,
			     const struct shmd_dev_mode *mode, uint64_t *ret_old)
{
	int rc = SHMD_DEV_OK;

	if (shmdi_scope_enter(mode->scope))
		rc = shmdi_queue_amo_one(ctx, at, amo, mode, ret_old);
	rc = shmdi_scope_leave(mode->scope, rc);
	if (ret_old)
		*ret_old = shmdi_scope_share(mode->scope, *ret_old);
	return rc;
}

/* Registered memory of the caller's for the former value, as the queue of the way names it. */
SHMDI_FN int shmdi_old_of(const struct shmd_dev_ctx *ctx, const struct shmdi_pe_way *way, const struct shmd_dev_amo *amo,
			  const void *old, struct shmd_dev_addr *ret_addr)
{
	uint64_t bytes = 0;

	return way->qp && shmdi_amo_lands(way->qp, amo) && shmdi_local_of(shmdi_world_of(ctx), old, way->rail, ret_addr, &bytes) &&
	       bytes >= 8;
}

/* The former value, in memory that is aligned to it. */
SHMDI_FN void shmdi_old_store(void *to, uint64_t old, uint32_t bytes)
{
	if (bytes == 8)
		*(uint64_t *)to = old;
	else
		*(uint32_t *)to = (uint32_t)old;
}

SHMDI_APART int shmdi_queue_amo_nbi_one(struct shmd_dev_ctx *ctx, const struct shmdi_pe_at *at, const struct shmd_dev_amo *amo,
					const struct shmd_dev_mode *mode, void *ret_old)
{
	struct shmdi_pe_way way = shmdi_amo_way_look(ctx, at->pe);
	struct shmd_dev_addr remote, near;
	struct shmd_dev_mode on_way;
	uint64_t old = 0;
	int rc;

	if (!shmdi_old_of(ctx, &way, amo, ret_old, &near)) {
		rc = shmdi_queue_amo_one(ctx, at, amo, mode, &old);
		if (!rc)
			shmdi_old_store(ret_old, old, amo->bytes);
		return rc;
	}
	rc = shmdi_amo_way_take(ctx, at->pe, &way);
	if (rc)
		return rc;
	on_way = shmdi_way_mode(&way, mode);
	remote = shmdi_remote_of(shmdi_world_of(ctx), at, way.peer_rail, &old);
	return shmdi_queue_status(ctx, at, shmdi_amo_to_one(way.qp, remote, near, amo, &on_way));
}

SHMDI_FN int shmdi_queue_amo_nbi(struct shmd_dev_ctx *ctx, const struct shmdi_pe_at *at, const struct shmd_dev_amo *amo,
				 const struct shmd_dev_mode *mode, void *ret_old)
{
	int rc = SHMD_DEV_OK;

	if (shmdi_scope_enter(mode->scope))
		rc = shmdi_queue_amo_nbi_one(ctx, at, amo, mode, ret_old);
	return shmdi_scope_leave(mode->scope, rc);
}

/* ---- put_signal ---------------------------------------------------------------------------------------------------------------- */

/* Whether data and signals go to a PE by two queues, which have no order with each other. */
SHMDI_FN int shmdi_signal_is_apart(const struct shmd_dev_ctx *ctx, uint32_t pe)
{
	return SHMDI_CTX(ctx->amo_ways_addr) && shmdi_amo_way_look(ctx, pe).qp != shmdi_way_look(ctx, pe).qp;
}

/* The data without a doorbell, the signal with one; a queue carries out both in order. Apart from the signal, the data is complete first. */
SHMDI_APART int shmdi_queue_put_signal_one(struct shmdi_move *move, const struct shmd_dev_put_item *put,
					   const struct shmdi_pe_at *at, const struct shmdi_pe_at *word,
					   const struct shmd_dev_amo *amo)
{
	int rc = SHMD_DEV_OK, waits = move->waits, is_apart = shmdi_signal_is_apart(move->ctx, word->pe);
	struct shmd_dev_mode mode = move->mode;

	move->waits = 0;
	if (SHMDI_LIKELY(!is_apart))
		move->mode.flags |= SHMD_DEV_NO_DOORBELL;
	if (!at->addr && put->bytes)
		rc = shmdi_move_one(move, *at, (uint8_t *)(uintptr_t)put->source, put->bytes);
	if (SHMDI_UNLIKELY(is_apart) && !rc && !at->addr && put->bytes)
		rc = shmd_dev_qp_quiet_as(move->way.qp, shmd_dev_mode_of(move->way.qp, mode.timeout_nsec));
	if (!rc)
		rc = shmdi_queue_amo_one(move->ctx, word, amo, &mode, 0);
	if (!rc && waits && move->end)
		rc = shmdi_sq_wait(move->way.qp, move->end, move->mode.sharing, mode.timeout_nsec);
	return shmdi_queue_status(move->ctx, word, rc);
}

/* at.addr is set where the data can be stored in place and only the signal needs the queue. */
SHMDI_FN int shmdi_queue_put_signal(struct shmdi_move move, const struct shmd_dev_put_item *put, const struct shmdi_pe_at *at,
				    const struct shmdi_pe_at *word, const struct shmd_dev_amo *amo)
{
	int scope = move.mode.scope, rc = SHMD_DEV_OK;

	if (at->addr)
		shmdi_copy((void *)(uintptr_t)at->addr, put->source, put->bytes, scope);
	if (shmdi_scope_enter(scope))
		rc = shmdi_queue_put_signal_one(&move, put, at, word, amo);
	return shmdi_scope_leave(scope, rc);
}

#endif
