/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives that move data: the bodies. Contracts are in coll.h, which includes this.
 *
 * A few bytes travel with the exchange, in slots. Everything else is read by those who want it, straight from source into dest: all
 * have called (meet), each reads, all have read (meet again). Where a team has the scratch of all at hand, as in kernels, fcollect and alltoall
 * write instead (coll-write.h, if dest and source are at hand, too).
 */
#include <shmd/dev/coll.h>

#ifndef SHMDI_COLL_MOVE_H
#define SHMDI_COLL_MOVE_H

#include <shmd/dev/impl/coll-left.h>
#include <shmd/dev/impl/coll-team.h>
#include <shmd/dev/impl/coll-write.h>
#include <shmd/dev/impl/pe-strided.h>

/* Bytes of each source that a PE reads in turn. */
#define SHMDI_COLL_PIECE 65536u

/* ---- reading ------------------------------------------------------------------------------------------------------------------ */

/* Bytes of member i's source, to the caller's dest; by a queue they are there after shmdi_coll_settle(). All threads of the scope. */
SHMDI_FN int shmdi_coll_read(const struct shmdi_coll *c, uint32_t i, uint64_t to, uint64_t from, uint64_t bytes)
{
	struct shmdi_pe_at at;
	int rc = shmdi_coll_find(c, &c->source, i, from, &at);

	if (SHMDI_UNLIKELY(rc) || !bytes)
		return rc;
	if (SHMDI_UNLIKELY(!at.addr))
		return shmdi_queue_get(c->ctx, &at, c->dest.own + to, bytes, &c->mode, 0);
	if (c->dest.own + to != (const uint8_t *)(uintptr_t)at.addr)
		shmdi_copy(c->dest.own + to, (const void *)(uintptr_t)at.addr, bytes, c->mode.scope);
	return SHMD_DEV_OK;
}

/* 0: whole blocks. */
SHMDI_FN uint64_t shmdi_coll_piece(const struct shmdi_coll *c)
{
#if SHMDI_CUDA
	(void)c;
	return 0;
#else
	return c->by_queue ? 0 : SHMDI_COLL_PIECE;
#endif
}

/*
 * Every second call goes from the end to the beginning: programs call again with the same memory, and what the last call touched last is
 * still in caches when the next one begins, but not when it ends. Each call has two meetings.
 */
SHMDI_FN int shmdi_coll_is_backward(const struct shmdi_coll *c)
{
	return (int)(c->number >> 1 & 1);
}

/* All have called. Block i of dest from member i's source, at `from` there, for all members: pieces of each in turn. */
SHMDI_FN int shmdi_coll_read_blocks(struct shmdi_coll *c, uint64_t from, uint64_t bytes, uint64_t piece)
{
	uint64_t n = piece ? bytes / piece + !!(bytes % piece) : 1, k, at, part;
	int is_backward = piece && shmdi_coll_is_backward(c), rc = SHMD_DEV_OK;
	uint32_t i, j;

	for (k = 0; k < n && !rc; k++) {
		at = (is_backward ? n - 1 - k : k) * piece;
		part = piece && bytes - at > piece ? piece : bytes - at;
		for (i = 0; i < c->n && !rc; i++) {
			j = shmdi_coll_other(c, is_backward ? c->n - 1 - i : i);
			rc = shmdi_coll_read(c, j, j * bytes + at, from + at, part);
		}
	}
	if (!rc)
		rc = shmdi_coll_settle(c);
	return rc ? rc : shmdi_coll_meet_again(c);
}

/* A place in member i's copy of the heap that has the team's scratch, where that is near. */
SHMDI_FN uint8_t *shmdi_coll_near_at(const struct shmdi_coll *c, uint32_t i, uint64_t offset)
{
	return (uint8_t *)(uintptr_t)(shmdi_team_near(c->team, i) - SHMDI_FIXED(c->team->scratch_offset) + offset);
}

SHMDI_FN int shmdi_coll_writes(const struct shmdi_coll *c)
{
	return c->is_near && c->dest.heap == SHMDI_FIXED(c->team->scratch_heap);
}

/* All have called, and each writes its blocks to all: stores of a GPU wait for nothing, as its loads do. Then all have written. */
SHMDI_FN int shmdi_coll_write_blocks(struct shmdi_coll *c, uint64_t stride, uint64_t bytes)
{
	uint32_t i, to;
	int rc = shmdi_coll_meet(c);

	for (i = 0; i < c->n && !rc; i++) {
		to = shmdi_coll_other(c, i);
		shmdi_copy_share(shmdi_coll_near_at(c, to, c->dest.offset + c->me * bytes), c->source.own + to * stride, bytes, c->mode.scope);
	}
	return rc ? rc : shmdi_coll_meet(c);
}

/* Block i of dest from the slot of member i. One caller; `stride` as shmdi_coll_tell_all(). */
SHMDI_APART int shmdi_coll_slots_one(const struct shmdi_coll *c, uint64_t stride, uint64_t bytes)
{
	uint32_t i, j;
	int rc = shmdi_coll_tell_all(c, shmdi_coll_note_of(c->source.own, bytes), stride);

	shmdi_copy(c->dest.own + c->me * bytes, c->source.own + c->me * stride, bytes, SHMD_DEV_THREAD);
	for (i = 0; i + 1 < c->n && !rc; i++) {
		j = shmdi_coll_other(c, i);
		rc = shmdi_coll_await(c, j, c->number);
		if (!rc)
			shmdi_copy(c->dest.own + j * bytes, shmdi_coll_data(c, j), bytes, SHMD_DEV_THREAD);
	}
	return !rc && c->by_queue ? shmdi_coll_settle_one(c) : rc;
}

/* stride 0: all of source to everybody; else block i of it to member i. */
SHMDI_FN int shmdi_coll_blocks_to_all(struct shmdi_coll *c, uint64_t stride, uint64_t bytes)
{
	int rc = SHMD_DEV_OK;

	if (shmd_dev_coll_plan(c->team, bytes) != SHMD_DEV_COLL_SLOTS) {
		if (shmdi_coll_writes(c))
			return shmdi_coll_write_blocks(c, stride, bytes);
		rc = shmdi_coll_meet(c);
		return rc ? rc : shmdi_coll_read_blocks(c, c->me * stride, bytes, shmdi_coll_piece(c));
	}
	c->number++;
	if (shmdi_scope_enter(c->mode.scope))
		rc = shmdi_coll_slots_one(c, stride, bytes);
	return rc;
}

/* ---- broadcast ---------------------------------------------------------------------------------------------------------------- */

/* The root has failed, and its program may change source: who comes now does not find the number, but the one that was there before. */
SHMDI_SLOW void shmdi_broadcast_revoke_one(const struct shmdi_coll *c)
{
	uint64_t before = c->number > c->depth ? c->number - c->depth : 0;
	struct shmdi_pe_at at;
	uint32_t i;

	for (i = 0; i + 1 < c->n; i++) {
		if (shmdi_coll_reach(c, shmdi_coll_other(c, i), SHMDI_FIXED(c->team->scratch_heap),
				     shmdi_coll_slot(c, c->me, c->number), &at))
			continue;
		if (at.addr)
			shmdi_pes_publish64((uint64_t *)(uintptr_t)at.addr, before);
		else
			(void)shmdi_queue_word_one(c->ctx, &at, before, 8, &c->mode, 0);
	}
	if (c->by_queue)
		(void)shmdi_coll_settle_one(c);
	shmdi_pes_flush();
}

/* Data with the root's number, or its number alone. One caller. */
SHMDI_APART int shmdi_broadcast_tell_one(const struct shmdi_coll *c, uint64_t bytes)
{
	return shmdi_coll_tell_all(c, shmdi_coll_note_of(c->source.own, bytes), 0);
}

/* Until source may change. One caller, whose first failure is rc. */
SHMDI_APART int shmdi_broadcast_end_one(const struct shmdi_coll *c, int is_small, int rc)
{
	/* Where data is not in the slots the others read it from source. */
	if (!rc && !is_small)
		rc = shmdi_coll_await_all(c);
	if (SHMDI_UNLIKELY(rc && !is_small))
		shmdi_broadcast_revoke_one(c);
	return !rc && c->by_queue ? shmdi_coll_settle_one(c) : rc;
}

/* One caller. The root must not have failed before the data was read. */
SHMDI_FN int shmdi_broadcast_done_one(const struct shmdi_coll *c, uint32_t root, int is_small)
{
	int rc = SHMD_DEV_OK;

	if (!is_small) {
		shmdi_pes_flush();
		rc = shmdi_coll_await(c, root, c->number);
	}
	return rc ? rc : shmdi_coll_tell_all(c, shmdi_coll_note_of(0, 0), 0);
}

/* The root copies while the others read. */
SHMDI_FN int shmdi_broadcast_root(struct shmdi_coll *c, uint64_t bytes, int is_small)
{
	int rc = SHMD_DEV_OK;

	if (shmdi_scope_enter(c->mode.scope))
		rc = shmdi_broadcast_tell_one(c, is_small ? bytes : 0);
	if (c->dest.own != c->source.own)
		shmdi_copy(c->dest.own, c->source.own, bytes, c->mode.scope);
	if (shmdi_scope_enter(c->mode.scope))
		rc = shmdi_broadcast_end_one(c, is_small, rc);
	return shmdi_scope_leave(c->mode.scope, rc);
}

SHMDI_FN int shmdi_broadcast_other(struct shmdi_coll *c, uint32_t root, uint64_t bytes, int is_small)
{
	int rc = SHMD_DEV_OK;

	if (shmdi_scope_enter(c->mode.scope)) {
		rc = shmdi_coll_all_live(c);
		if (!rc)
			rc = shmdi_coll_await(c, root, c->number);
		if (!rc && is_small)
			shmdi_copy(c->dest.own, shmdi_coll_data(c, root), bytes, SHMD_DEV_THREAD);
	}
	rc = shmdi_scope_leave(c->mode.scope, rc);
	if (!rc && !is_small)
		rc = shmdi_coll_read(c, root, 0, 0, bytes);
	if (!rc)
		rc = shmdi_coll_settle(c);
	if (!rc && shmdi_scope_enter(c->mode.scope))
		rc = shmdi_broadcast_done_one(c, root, is_small);
	rc = shmdi_scope_leave(c->mode.scope, rc);
	return rc ? rc : shmdi_coll_settle(c);
}

SHMDI_FN int shmdi_broadcast_rounds(struct shmdi_coll *c, uint32_t root, uint64_t bytes)
{
	int rc = shmdi_coll_meet(c);

	if (!rc)
		rc = shmdi_coll_read(c, root, 0, 0, bytes);
	if (!rc)
		rc = shmdi_coll_settle(c);
	return rc ? rc : shmdi_coll_meet_again(c);
}

SHMDI_FN int shmdi_broadcast(struct shmdi_coll *c, uint32_t root, uint64_t bytes)
{
	enum shmd_dev_coll_plan plan = shmd_dev_coll_plan(c->team, bytes);

	if (plan == SHMD_DEV_COLL_ROUNDS)
		return shmdi_broadcast_rounds(c, root, bytes);
	c->number++;
	if (c->me == root)
		return shmdi_broadcast_root(c, bytes, plan == SHMD_DEV_COLL_SLOTS);
	return shmdi_broadcast_other(c, root, bytes, plan == SHMD_DEV_COLL_SLOTS);
}

/* ---- elements apart from each other --------------------------------------------------------------------------------------------- */

/* From the first byte of the first element to the last of the last, for all members; UINT64_MAX where that overflows. */
SHMDI_FN uint64_t shmdi_alltoalls_span(const struct shmdi_coll *c, const struct shmd_dev_stride *stride, uint64_t stride_bytes)
{
	struct shmd_dev_stride all = *stride;
	uint64_t span;

	all.n = shmdi_coll_times(stride->n, c->n);
	return shmdi_stride_span(&all, stride_bytes, &span) ? span : UINT64_MAX;
}

SHMDI_FN int shmdi_alltoalls(struct shmdi_coll *c, const struct shmd_dev_stride *stride)
{
	uint64_t k, to, from;
	uint32_t i, j;
	int rc = shmdi_coll_meet(c);

	for (i = 0; i < c->n && !rc; i++) {
		j = shmdi_coll_other(c, i);
		to = j * stride->n * stride->dest_stride_bytes;
		from = c->me * stride->n * stride->source_stride_bytes;
		for (k = 0; k < stride->n && !rc; k++)
			rc = shmdi_coll_read(c, j, to + k * stride->dest_stride_bytes, from + k * stride->source_stride_bytes,
					     stride->block_bytes);
	}
	if (!rc)
		rc = shmdi_coll_settle(c);
	return rc ? rc : shmdi_coll_meet_again(c);
}

/* ---- what a program calls --------------------------------------------------------------------------------------------------------- */

SHMDI_FN int shmd_dev_broadcast_as(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args,
				   struct shmd_dev_mode mode)
{
	struct shmdi_coll c;
	int rc = shmdi_coll_begin(&c, ctx, team, mode);

	if (args->root >= c.n)
		return SHMD_DEV_INVALID;
	if (rc || !args->n)
		return rc;
	if (shmdi_coll_sides(&c, args, args->n, args->n))
		return SHMD_DEV_INVALID;
	if (c.n > 1)
		return shmdi_coll_end(&c, shmdi_broadcast(&c, args->root, args->n));
	if (args->dest != args->source)
		shmdi_copy(args->dest, args->source, args->n, mode.scope);
	return SHMD_DEV_OK;
}

SHMDI_FAR int shmdi_blocks_far(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, struct shmd_dev_coll args, struct shmd_dev_mode mode,
			       int is_alltoall)
{
	struct shmdi_coll c;
	int rc = shmdi_coll_begin(&c, ctx, team, mode);

	if (rc || !args.n)
		return rc;
	if (shmdi_coll_sides(&c, &args, shmdi_coll_times(args.n, c.n), shmdi_coll_times(args.n, is_alltoall ? c.n : 1)))
		return SHMD_DEV_INVALID;
	if (c.n > 1)
		return shmdi_coll_end(&c, shmdi_coll_blocks_to_all(&c, is_alltoall ? args.n : 0, args.n));
	shmdi_copy(args.dest, args.source, args.n, mode.scope);
	return SHMD_DEV_OK;
}

SHMDI_FN int shmdi_blocks(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args, struct shmd_dev_mode mode,
			  int is_alltoall)
{
	struct shmdi_write w = shmdi_write_of(team);
	int is_near = shmdi_write_is_near(ctx, &w, args, is_alltoall ? w.n : 1) &&
		      shmdi_copy_is_quick(args->dest, args->source, args->n, mode.scope);

	/* The part of the heap at hand may grow between the looks of two threads. */
	if (SHMDI_IS_FAR(!shmdi_scope_all(mode.scope, is_near)))
		return shmdi_blocks_far(ctx, team, *args, mode, is_alltoall);
	return shmdi_write_all(ctx, team, &w, args, is_alltoall ? args->n : 0, mode);
}

SHMDI_FN int shmd_dev_fcollect_as(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args,
				  struct shmd_dev_mode mode)
{
	return shmdi_blocks(ctx, team, args, mode, 0);
}

SHMDI_FN int shmd_dev_alltoall_as(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args,
				  struct shmd_dev_mode mode)
{
	return shmdi_blocks(ctx, team, args, mode, 1);
}

SHMDI_FN int shmd_dev_alltoalls_as(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args,
				   struct shmd_dev_mode mode)
{
	const struct shmd_dev_stride *stride = &args->stride;
	struct shmdi_coll c;
	uint64_t k;
	int rc = shmdi_coll_begin(&c, ctx, team, mode);

	if (stride->dest_stride_bytes < stride->block_bytes || stride->source_stride_bytes < stride->block_bytes)
		return SHMD_DEV_INVALID;
	if (rc || !stride->n || !stride->block_bytes)
		return rc;
	if (shmdi_coll_sides(&c, args, shmdi_alltoalls_span(&c, stride, stride->dest_stride_bytes),
			     shmdi_alltoalls_span(&c, stride, stride->source_stride_bytes)))
		return SHMD_DEV_INVALID;
	if (c.n > 1)
		return shmdi_coll_end(&c, shmdi_alltoalls(&c, stride));
	for (k = 0; k < stride->n; k++)
		shmdi_copy(c.dest.own + k * stride->dest_stride_bytes, c.source.own + k * stride->source_stride_bytes,
			   stride->block_bytes, mode.scope);
	return SHMD_DEV_OK;
}

SHMDI_FN int shmd_dev_broadcast(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, void *dest, const void *source, uint64_t bytes,
				uint32_t root)
{
	struct shmd_dev_coll args = shmd_dev_coll_of(dest, source, bytes);

	args.root = root;
	return shmd_dev_broadcast_as(ctx, team, &args, shmdi_ctx_mode(ctx));
}

SHMDI_FN int shmd_dev_fcollect(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, void *dest, const void *source, uint64_t bytes)
{
	struct shmd_dev_coll args = shmd_dev_coll_of(dest, source, bytes);

	return shmd_dev_fcollect_as(ctx, team, &args, shmdi_ctx_mode(ctx));
}

SHMDI_FN int shmd_dev_alltoall(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, void *dest, const void *source, uint64_t bytes)
{
	struct shmd_dev_coll args = shmd_dev_coll_of(dest, source, bytes);

	return shmd_dev_alltoall_as(ctx, team, &args, shmdi_ctx_mode(ctx));
}

SHMDI_FN int shmd_dev_alltoalls(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, void *dest, const void *source,
				const struct shmd_dev_stride *stride)
{
	struct shmd_dev_coll args = shmd_dev_coll_of(dest, source, 0);

	args.stride = *stride;
	return shmd_dev_alltoalls_as(ctx, team, &args, shmdi_ctx_mode(ctx));
}

#endif
