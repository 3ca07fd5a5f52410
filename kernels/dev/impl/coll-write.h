/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fcollect and alltoall whose memory is at hand, as in kernels: all have called, each writes its blocks to all, all have written. Nothing here leaves
 * registers, which is most of their time on a GPU. Memory that is not at hand goes the way of coll-move.h, which is the same to the other members.
 *
 * Refused here: few bytes, which travel with the exchange, and teams of which a collective has failed.
 */
#include <shmd/dev/coll.h>

#ifndef SHMDI_COLL_WRITE_H
#define SHMDI_COLL_WRITE_H

#include <shmd/dev/impl/coll-team.h>

/* Fields of a team that a call needs. A GPU loads them at once: each wait empties the cache that they were in. */
struct shmdi_write {
	uint64_t own, next; /* scratch of this PE and of the one behind it; 0: not near, or no other */
	uint64_t n_exchanges;
	uint32_t n, heap;
	int status;
};

SHMDI_FN struct shmdi_write shmdi_write_of(const struct shmd_dev_team *team)
{
	struct shmdi_write w;

	w.n_exchanges = *(const volatile uint64_t *)&team->n_exchanges;
	w.status = *(const volatile int32_t *)&team->coll_status;
	shmdi_fixed16(team->near_scratch, &w.own, &w.next);
	w.n = SHMDI_FIXED(team->n_pes);
	w.heap = SHMDI_FIXED(team->scratch_heap);
	return w;
}

/* n times `bytes`, all in the near heap's part at hand; n is small. */
SHMDI_FN int shmdi_write_has(const struct shmd_dev_ctx *ctx, const void *ptr, uint64_t bytes, uint32_t n)
{
	uint64_t offset;

	return ((bytes >> 60) == 0) & shmdi_near_has(ctx, ptr, bytes * n, &offset);
}

/* n_source: blocks of args->n bytes in source. */
SHMDI_FN int shmdi_write_is_near(const struct shmd_dev_ctx *ctx, const struct shmdi_write *w, const struct shmd_dev_coll *args, uint32_t n_source)
{
	return (w->status == SHMD_DEV_OK) & (w->own != 0) & (w->next != 0) & (SHMDI_CTX(ctx->near.heap) == w->heap) &
	       (args->n > SHMD_DEV_COLL_SLOT_DATA) & shmdi_write_has(ctx, args->dest, args->n, w->n) &
	       shmdi_write_has(ctx, args->source, args->n, n_source);
}

/* This thread's share of all blocks; stride 0: the same block to all. The place in dest is the same at all members, from their scratch. */
SHMDI_FN void shmdi_write_blocks(const struct shmdi_coll *c, const struct shmdi_write *w, const struct shmd_dev_coll *args, uint64_t stride)
{
	uint64_t from_scratch = (uint64_t)(uintptr_t)args->dest - w->own + c->me * args->n, scratch = w->next;
	uint32_t i;

	if (shmdi_copy_is_others(args->n, c->mode.scope))
		return;
	SHMDI_ROLLED
	for (i = 0; i < c->n; i++) {
		(void)shmdi_copy_quick((void *)(uintptr_t)(scratch + from_scratch),
				       (const uint8_t *)args->source + shmdi_coll_other(c, i) * stride, args->n, c->mode.scope);
		scratch = i + 2 < c->n ? SHMDI_FIXED(c->team->near_scratch[i + 2]) : w->own;
	}
}

/* All threads of the scope, behind a barrier of it. */
SHMDI_FN int shmdi_write_all(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmdi_write *w, const struct shmd_dev_coll *args,
			     uint64_t stride, struct shmd_dev_mode mode)
{
	struct shmdi_coll c;
	int rc;

	(void)shmdi_coll_begin(&c, ctx, team, mode);
	c.number = w->n_exchanges + 1;
	rc = shmdi_coll_meet_here(&c);
	if (SHMDI_LIKELY(!rc)) {
		shmdi_write_blocks(&c, w, args, stride);
		c.number++;
		if (shmdi_scope_is_leader(mode.scope))
			team->n_exchanges = c.number;
		rc = shmdi_coll_meet_near(&c);
	}
	return SHMDI_LIKELY(!rc) ? (int)SHMD_DEV_OK : shmdi_coll_end(&c, rc);
}

#endif
