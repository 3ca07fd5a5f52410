/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shmd_dev_collect: each PE passes a number of bytes of its own. Contracts are in coll.h, which includes this.
 *
 * First the numbers go round, with the bytes if all have few. Otherwise each PE writes its own bytes to all: for that it needs the sum of
 * the numbers before it only.
 */
#include <shmd/dev/coll.h>

#ifndef SHMDI_COLL_COLLECT_H
#define SHMDI_COLL_COLLECT_H

#include <shmd/dev/impl/coll-team.h>

/* Behind the number of bytes there is less room. */
#define SHMDI_COLLECT_DATA (SHMD_DEV_COLL_SLOT_DATA - 8)

SHMDI_FN uint64_t shmdi_collect_bytes(const struct shmdi_coll *c, uint32_t i, uint64_t own)
{
	return i == c->me ? own : *(const uint64_t *)shmdi_coll_data(c, i);
}

/* Each tells how many bytes it has, and the bytes if they are few. One caller. */
SHMDI_APART int shmdi_collect_tell_one(const struct shmdi_coll *c, uint64_t bytes)
{
	struct shmdi_coll_note note = shmdi_coll_note_of(c->source.own, bytes <= SHMDI_COLLECT_DATA ? bytes : 0);
	int rc;

	note.word = &bytes;
	rc = shmdi_coll_tell_all(c, note, 0);
	if (!rc)
		rc = shmdi_coll_await_all(c);
	return !rc && c->by_queue ? shmdi_coll_settle_one(c) : rc;
}

/* The bytes of all, and the most of one of them. */
SHMDI_FN uint64_t shmdi_collect_sum(const struct shmdi_coll *c, uint64_t own, uint64_t *ret_most)
{
	uint64_t sum = 0, one;
	uint32_t i;

	*ret_most = 0;
	for (i = 0; i < c->n; i++) {
		one = shmdi_collect_bytes(c, i, own);
		if (one > *ret_most)
			*ret_most = one;
		sum = one > UINT64_MAX - sum ? UINT64_MAX : sum + one;
	}
	return sum;
}

SHMDI_FN void shmdi_collect_take(const struct shmdi_coll *c, uint64_t own)
{
	uint64_t to = 0, bytes;
	uint32_t i;

	for (i = 0; i < c->n; i++, to += bytes) {
		bytes = shmdi_collect_bytes(c, i, own);
		shmdi_copy(c->dest.own + to, i == c->me ? c->source.own : shmdi_coll_data(c, i) + 8, bytes, c->mode.scope);
	}
}

/* Each writes its own bytes to all; a PE that has none need not know where source is. */
SHMDI_FN int shmdi_collect_write(struct shmdi_coll *c, uint64_t to, uint64_t bytes)
{
	struct shmdi_pe_at at;
	uint32_t i;
	int rc = SHMD_DEV_OK;

	for (i = 0; i < c->n && !rc && bytes; i++) {
		rc = shmdi_coll_find(c, &c->dest, shmdi_coll_other(c, i), to, &at);
		if (!rc && !at.addr)
			rc = shmdi_queue_put(c->ctx, &at, c->source.own, bytes, &c->mode, 0);
		else if (!rc)
			shmdi_copy((void *)(uintptr_t)at.addr, c->source.own, bytes, c->mode.scope);
	}
	if (!rc)
		rc = shmdi_coll_settle(c);
	return rc ? rc : shmdi_coll_meet(c);
}

SHMDI_FN uint64_t shmdi_collect_before(const struct shmdi_coll *c)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < c->me; i++)
		sum += shmdi_collect_bytes(c, i, 0);
	return sum;
}

SHMDI_FN int shmdi_collect_flat(struct shmdi_coll *c, uint64_t own)
{
	uint64_t sum, most, offset;
	int rc = SHMD_DEV_OK;

	c->number++;
	if (shmdi_scope_enter(c->mode.scope))
		rc = shmdi_collect_tell_one(c, own);
	rc = shmdi_scope_leave(c->mode.scope, rc);
	if (rc)
		return rc;
	sum = shmdi_collect_sum(c, own, &most);
	if (sum && shmdi_heap_find(shmdi_world_of(c->ctx), c->dest.own, sum, &offset) == SHMD_DEV_HEAPS)
		return SHMD_DEV_INVALID;
	if (most > SHMDI_COLLECT_DATA)
		return shmdi_collect_write(c, shmdi_collect_before(c), own);
	shmdi_collect_take(c, own);
	return SHMD_DEV_OK;
}

/*
 * The sum of the bytes of all members up to and with this one: in round r from the one 2^r before, whose sum covers as many. One caller,
 * behind a meet, which says that everybody is through with the slots of the call before the last.
 */
SHMDI_APART int shmdi_collect_scan_one(const struct shmdi_coll *c, uint64_t bytes, uint64_t *ret_sum)
{
	struct shmdi_coll_note note = shmdi_coll_note_of(0, 0);
	uint64_t sum = bytes;
	uint32_t r, step;
	int rc = SHMD_DEV_OK;

	for (r = 0; (1ull << r) < c->n && !rc; r++) {
		step = 1u << r;
		note.word = &sum;
		if (c->me + step < c->n)
			rc = shmdi_coll_tell_at(c, c->me + step, r, &note);
		if (rc || c->me < step)
			continue;
		rc = shmdi_coll_await(c, r, c->number);
		if (!rc)
			sum += *(const uint64_t *)shmdi_coll_data(c, r);
	}
	*ret_sum = sum;
	return rc;
}

SHMDI_FN int shmdi_collect_rounds(struct shmdi_coll *c, uint64_t bytes)
{
	uint64_t sum = 0, offset;
	int rc = shmdi_coll_meet(c);

	if (!rc && shmdi_scope_enter(c->mode.scope))
		rc = shmdi_collect_scan_one(c, bytes, &sum);
	rc = shmdi_scope_leave(c->mode.scope, rc);
	sum = shmdi_scope_share(c->mode.scope, sum);
	if (rc)
		return rc;
	if (sum && shmdi_heap_find(shmdi_world_of(c->ctx), c->dest.own, sum, &offset) == SHMD_DEV_HEAPS)
		return SHMD_DEV_INVALID;
	return shmdi_collect_write(c, sum - bytes, bytes);
}

SHMDI_FN int shmd_dev_collect_as(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args,
				 struct shmd_dev_mode mode)
{
	struct shmdi_coll c;
	int rc = shmdi_coll_begin(&c, ctx, team, mode);

	if (rc)
		return rc;
	/* A PE without bytes still receives those of others; how many they are shows in the call. */
	if (shmdi_coll_sides(&c, args, args->n, args->n) && args->n)
		return SHMD_DEV_INVALID;
	if (c.n > 1)
		return shmdi_coll_end(&c, c.is_flat ? shmdi_collect_flat(&c, args->n) : shmdi_collect_rounds(&c, args->n));
	shmdi_copy(args->dest, args->source, args->n, mode.scope);
	return SHMD_DEV_OK;
}

SHMDI_FN int shmd_dev_collect(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, void *dest, const void *source, uint64_t bytes)
{
	struct shmd_dev_coll args = shmd_dev_coll_of(dest, source, bytes);

	return shmd_dev_collect_as(ctx, team, &args, shmdi_ctx_mode(ctx));
}

#endif
