/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that fail while others read their source. Where data is read from source, all have called (meet), each reads, all have read (meet
 * again). A PE that fails in the second meeting may be followed by PEs that still read, though its program changes source. So it leaves them a
 * word, and each looks for it behind its reads, before it says that it has read.
 *
 * All names but shmdi_coll_meet_again() are for one caller.
 */
#include <shmd/dev/coll.h>

#ifndef SHMDI_COLL_LEFT_H
#define SHMDI_COLL_LEFT_H

#include <shmd/dev/impl/coll-team.h>

SHMDI_FN uint64_t shmdi_coll_left_offset(const struct shmdi_coll *c)
{
	return SHMDI_FIXED(c->team->scratch_offset) + SHMD_DEV_COLL_LEFT_OFFSET;
}

/* The word of this PE, by others. */
SHMDI_FN uint64_t shmdi_coll_left(const struct shmdi_coll *c)
{
	const struct shmd_dev_heap *heap = &shmdi_world_of(c->ctx)->heap[SHMDI_FIXED(c->team->scratch_heap)];

	return shmdi_pes_load((const void *)(uintptr_t)(SHMDI_FIXED(heap->own_addr) + shmdi_coll_left_offset(c)), 8);
}

/*
 * This call failed behind its first meet, so others may be reading, and the program may change source when it returns. They look for this before
 * they say that they have read.
 */
SHMDI_SLOW void shmdi_coll_leave_one(const struct shmdi_coll *c, int rc)
{
	uint64_t word = (uint64_t)(uint32_t)rc << 32 | (c->me + 1);
	struct shmdi_pe_at at;
	uint32_t i;

	for (i = 0; i + 1 < c->n; i++) {
		if (shmdi_coll_reach(c, shmdi_coll_other(c, i), SHMDI_FIXED(c->team->scratch_heap), shmdi_coll_left_offset(c), &at))
			continue;
		if (at.addr)
			shmdi_pes_publish64((uint64_t *)(uintptr_t)at.addr, word);
		else
			(void)shmdi_queue_word_one(c->ctx, &at, word, 8, &c->mode, 0);
	}
	if (c->by_queue)
		(void)shmdi_coll_settle_one(c);
	shmdi_pes_flush();
}

SHMDI_APART int shmdi_coll_meet_again_one(const struct shmdi_coll *c)
{
	uint64_t left;
	int rc;

	/* All reads are in front of this. */
	shmdi_pes_flush();
	left = shmdi_coll_left(c);
	if (SHMDI_UNLIKELY(left))
		return (int)(left >> 32);
	rc = shmdi_coll_meet_one(c);
	if (SHMDI_UNLIKELY(rc))
		shmdi_coll_leave_one(c, rc);
	return rc;
}

/* All members have read what they need of others' sources, as these were when they called. All threads of the scope. */
SHMDI_FN int shmdi_coll_meet_again(struct shmdi_coll *c)
{
	int rc = SHMD_DEV_OK;

	c->number++;
	if (shmdi_scope_enter(c->mode.scope))
		rc = shmdi_coll_meet_again_one(c);
	return shmdi_scope_leave(c->mode.scope, rc);
}

#endif
