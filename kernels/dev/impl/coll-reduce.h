/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions and scans: the bodies. Contracts are in coll.h, which includes this.
 *
 * A few bytes travel with the exchange, and each PE computes for itself; for more see coll-range.h.
 */
#include <shmd/dev/coll.h>

#ifndef SHMDI_COLL_REDUCE_H
#define SHMDI_COLL_REDUCE_H

#include <shmd/dev/impl/coll-range.h>
#include <shmd/dev/impl/coll-words.h>

/* ---- in slots: one caller ------------------------------------------------------------------------------------------------------- */

/* Member i's elements: in its slot, or the caller's own. */
SHMDI_FN const uint8_t *shmdi_slots_at(const struct shmdi_coll *c, const struct shmdi_math *m, uint32_t i)
{
	return i == c->me ? c->source.own + m->begin : shmdi_coll_data(c, i);
}

/* The members first..last - 1, in order; bytes of the result. */
SHMDI_FN int shmdi_slots_combine(const struct shmdi_coll *c, const struct shmdi_math *m, uint32_t last, uint8_t *result)
{
	uint64_t bytes = m->end - m->begin;
	uint32_t i;
	int rc = SHMD_DEV_OK;

	for (i = 0; i < last; i++) {
		if (i != c->me)
			rc = shmdi_coll_await(c, i, c->number);
		if (rc)
			return rc;
		if (i)
			shmdi_op(m->type, m->op, result, result, shmdi_slots_at(c, m, i), bytes);
		else
			shmdi_bytes_copy(result, shmdi_slots_at(c, m, 0), bytes);
	}
	return rc;
}

/* How many members' elements are in the result of this PE. */
SHMDI_FN uint32_t shmdi_slots_last(const struct shmdi_coll *c, const struct shmdi_math *m)
{
	if (!shmdi_math_is_scan(m))
		return c->n;
	return m->kind == SHMDI_SCAN_EXCLUSIVE ? c->me : c->me + 1;
}

SHMDI_APART int shmdi_slots_math_one(const struct shmdi_coll *c, const struct shmdi_math *m)
{
	uint64_t bytes = m->end - m->begin, result[SHMD_DEV_COLL_SLOT_DATA / 8 + 1];
	uint32_t last = shmdi_slots_last(c, m);
	int rc = shmdi_coll_tell_all(c, shmdi_coll_note_of(c->source.own, bytes), m->kind == SHMDI_REDUCE_SCATTER ? bytes : 0);

	if (!last)
		shmdi_math_neutral(m, (uint8_t *)result, bytes);
	else if (!rc)
		rc = shmdi_slots_combine(c, m, last, (uint8_t *)result);
	/* source may be dest, so it must have been read. */
	if (!rc && c->by_queue)
		rc = shmdi_coll_settle_one(c);
	if (!rc)
		shmdi_bytes_copy(c->dest.own, (const uint8_t *)result, bytes);
	return rc;
}

/* ---- what a program calls ------------------------------------------------------------------------------------------------------------- */

/* Which part of the work is this PE's. */
SHMDI_FN void shmdi_math_divide(const struct shmdi_coll *c, struct shmdi_math *m)
{
	uint64_t share = (m->bytes + c->n - 1) / c->n;

	m->to = 0;
	/* Others still read the place of the result. */
	if (m->kind == SHMDI_REDUCE_SCATTER && c->dest.own == c->source.own)
		m->to = c->me * share;
	if (m->kind != SHMDI_REDUCE_SCATTER)
		share = (share + SHMDI_COLL_LINE - 1) / SHMDI_COLL_LINE * SHMDI_COLL_LINE;
	m->begin = c->me * share < m->bytes ? c->me * share : m->bytes;
	m->end = m->bytes - m->begin < share ? m->bytes : m->begin + share;
}

/* `bytes` for each PE. */
SHMDI_FN int shmdi_math_all(struct shmdi_coll *c, struct shmdi_math *m, uint64_t bytes)
{
	int rc = SHMD_DEV_OK;

	shmdi_math_divide(c, m);
	if (shmd_dev_coll_plan(c->team, bytes) != SHMD_DEV_COLL_SLOTS)
		return shmdi_math_large(c, m);
	if (m->kind != SHMDI_REDUCE_SCATTER) {
		m->begin = 0;
		m->end = bytes;
	}
	c->number++;
	if (shmdi_scope_enter(c->mode.scope))
		rc = shmdi_slots_math_one(c, m);
	return rc;
}

SHMDI_FN int shmdi_math_alone(const struct shmdi_coll *c, const struct shmdi_math *m)
{
	if (m->kind == SHMDI_SCAN_EXCLUSIVE) {
		if (shmdi_scope_enter(c->mode.scope))
			shmdi_math_neutral(m, c->dest.own, m->bytes);
	} else if (c->dest.own != c->source.own) {
		shmdi_copy(c->dest.own, c->source.own, m->bytes, c->mode.scope);
	}
	return SHMD_DEV_OK;
}

SHMDI_APART int shmdi_math(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args, struct shmd_dev_mode mode,
			   int kind)
{
	uint64_t bytes = shmdi_coll_times(args->n, shmd_dev_type_bytes(args->type));
	struct shmdi_math m;
	struct shmdi_coll c;
	int rc = shmdi_coll_begin(&c, ctx, team, mode);

	if (!shmdi_op_is_valid(args->type, args->op))
		return SHMD_DEV_INVALID;
	if (rc || !args->n)
		return rc;
	m.type = args->type;
	m.op = args->op;
	m.kind = kind;
	m.bytes = kind == SHMDI_REDUCE_SCATTER ? shmdi_coll_times(bytes, c.n) : bytes;
	if (shmdi_coll_sides(&c, args, bytes, m.bytes))
		return SHMD_DEV_INVALID;
	if (c.n > 1 && shmd_dev_coll_plan(team, bytes) != SHMD_DEV_COLL_SLOTS && !shmdi_math_has_room(&c))
		return SHMD_DEV_INVALID;
	return shmdi_coll_end(&c, c.n > 1 ? shmdi_math_all(&c, &m, bytes) : shmdi_math_alone(&c, &m));
}

/* Arguments by value: a pointer to them would keep them in memory for the short way. */
SHMDI_FAR int shmdi_math_far(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, struct shmd_dev_coll args, struct shmd_dev_mode mode)
{
	return shmdi_math(ctx, team, &args, mode, SHMDI_REDUCE);
}

/* The same on all PEs, so not a matter of addresses. */
SHMDI_FN int shmdi_math_by_words(const struct shmd_dev_team *team, const struct shmd_dev_coll *args, uint64_t bytes)
{
	return bytes && shmdi_words_fit(team, bytes) && shmdi_op_is_valid(args->type, args->op) &&
	       shmd_dev_type_bytes(args->type) <= SHMDI_WORDS_UNIT;
}

/* dest and source in one of the heaps, outside the part that the context has at hand. */
SHMDI_SLOW int shmdi_math_is_in_heaps(const struct shmd_dev_ctx *ctx, const void *dest, const void *source, uint64_t bytes)
{
	const struct shmd_dev_world *world = shmdi_world_of(ctx);
	struct shmdi_coll_side side;

	return shmdi_coll_side_of(world, dest, bytes, &side) && shmdi_coll_side_of(world, source, bytes, &side);
}

SHMDI_FN int shmdi_math_is_symmetric(const struct shmd_dev_ctx *ctx, const struct shmd_dev_coll *args, uint64_t bytes)
{
	uint64_t offset;

	return SHMDI_LIKELY(shmdi_near_has(ctx, args->dest, bytes, &offset) && shmdi_near_has(ctx, args->source, bytes, &offset)) ||
	       shmdi_math_is_in_heaps(ctx, args->dest, args->source, bytes);
}

SHMDI_FN int shmd_dev_reduce_as(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args,
				struct shmd_dev_mode mode)
{
	uint64_t bytes = shmdi_coll_times(args->n, shmd_dev_type_bytes(args->type));

	if (!team->coll_status && shmdi_math_by_words(team, args, bytes))
		return shmdi_math_is_symmetric(ctx, args, bytes) ? shmdi_words_reduce(ctx, team, args, bytes, mode) : (int)SHMD_DEV_INVALID;
	return shmdi_math_far(ctx, team, *args, mode);
}

SHMDI_FN int shmd_dev_reduce_scatter_as(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args,
					struct shmd_dev_mode mode)
{
	return shmdi_math(ctx, team, args, mode, SHMDI_REDUCE_SCATTER);
}

SHMDI_FN int shmd_dev_scan_inclusive_as(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args,
					struct shmd_dev_mode mode)
{
	return shmdi_math(ctx, team, args, mode, SHMDI_SCAN_INCLUSIVE);
}

SHMDI_FN int shmd_dev_scan_exclusive_as(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args,
					struct shmd_dev_mode mode)
{
	return shmdi_math(ctx, team, args, mode, SHMDI_SCAN_EXCLUSIVE);
}

SHMDI_FN int shmd_dev_reduce(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args)
{
	return shmd_dev_reduce_as(ctx, team, args, shmdi_ctx_mode(ctx));
}

SHMDI_FN int shmd_dev_reduce_scatter(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args)
{
	return shmd_dev_reduce_scatter_as(ctx, team, args, shmdi_ctx_mode(ctx));
}

SHMDI_FN int shmd_dev_scan_inclusive(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args)
{
	return shmd_dev_scan_inclusive_as(ctx, team, args, shmdi_ctx_mode(ctx));
}

SHMDI_FN int shmd_dev_scan_exclusive(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args)
{
	return shmd_dev_scan_exclusive_as(ctx, team, args, shmdi_ctx_mode(ctx));
}

#endif
