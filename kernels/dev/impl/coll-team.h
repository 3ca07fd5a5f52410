/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ground of all collectives: arguments, members, and the exchange by which the members of a team tell each other that they have
 * called, with a few bytes of data.
 *
 * Exchanges of a team are numbered. In each a PE writes the number into a slot of every other member, with data where it has some, and
 * waits for those whose data it needs. Three rules let calls follow each other without a barrier:
 *	- a PE tells every number to every member, also where nobody waits for it
 *	- it tells a number when it has read what others told with earlier numbers
 *	- a sender uses its slots in turn, and has more of them where there are fewer members; before it writes data into one it waits for the
 *	  reader's number behind that of the data there, which says that the reader is through with it. So a PE that broadcasts goes ahead of
 *	  those that read
 * A number alone needs no room: numbers only grow, and data stays.
 *
 * Teams of many PEs, or of PEs behind queues, use the rounds of a sync instead, whose messages carry nothing (SHMD_DEV_COLL_ROUNDS). They
 * have flags of their own: a PE whose call failed leaves others in the middle of theirs, and its next sync must not pass for the rest.
 */
#include <shmd/dev/coll.h>

#ifndef SHMDI_COLL_TEAM_H
#define SHMDI_COLL_TEAM_H

#include <shmd/dev/impl/pe-copy.h>
#include <shmd/dev/impl/pe-queue.h>
#include <shmd/dev/impl/pe-sync.h>
#include <shmd/dev/impl/pe-wait.h>

/* Members up to which a PE tells each of the others; behind queues each message costs requests. */
#define SHMDI_COLL_FLAT_QUEUE 4u

/* dest or source: the caller's own copy, and where that of others is. */
struct shmdi_coll_side {
	uint8_t *own;
	uint64_t offset;
	uint32_t heap;
};

/* A call under way. */
struct shmdi_coll {
	struct shmd_dev_ctx *ctx;
	struct shmd_dev_team *team;
	struct shmd_dev_mode mode;
	struct shmdi_coll_side dest, source;
	uint64_t number; /* of the newest exchange */
	uint32_t n, me;
	uint32_t depth; /* slots of each sender, a power of two */
	int by_queue; /* some members may be */
	int is_flat;
	int is_near; /* the team has the scratch of all members at hand */
};

SHMDI_FN int shmdi_coll_is_flat(uint32_t flags, uint32_t n)
{
	return n <= (flags & SHMD_TEAM_MAPPED ? SHMD_DEV_COLL_SENDERS : SHMDI_COLL_FLAT_QUEUE);
}

SHMDI_FN enum shmd_dev_coll_plan shmd_dev_coll_plan(const struct shmd_dev_team *team, uint64_t bytes)
{
	if (SHMDI_FIXED(team->n_pes) == 1)
		return SHMD_DEV_COLL_LOCAL;
	if (!shmdi_coll_is_flat(SHMDI_FIXED(team->flags), SHMDI_FIXED(team->n_pes)))
		return SHMD_DEV_COLL_ROUNDS;
	return bytes <= SHMD_DEV_COLL_SLOT_DATA ? SHMD_DEV_COLL_SLOTS : SHMD_DEV_COLL_FLAT;
}

SHMDI_FN uint32_t shmd_dev_coll_depth(const struct shmd_dev_team *team)
{
	uint32_t n = SHMDI_FIXED(team->n_pes), depth = SHMD_DEV_COLL_SENDERS;

	while (depth > 2 && n * depth > 2 * SHMD_DEV_COLL_SENDERS)
		depth /= 2;
	return depth;
}

/* ---- begin and end ---------------------------------------------------------------------------------------------------------- */

SHMDI_FN int shmdi_coll_side_of(const struct shmd_dev_world *world, const void *ptr, uint64_t bytes, struct shmdi_coll_side *ret_side)
{
	ret_side->own = (uint8_t *)(uintptr_t)ptr;
	ret_side->heap = shmdi_heap_find(world, ptr, bytes, &ret_side->offset);
	return ret_side->heap < SHMD_DEV_HEAPS;
}

/* The product; one that no heap has where it overflows. */
SHMDI_FN uint64_t shmdi_coll_times(uint64_t a, uint64_t b)
{
	return b && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

/* All threads of the scope. The bytes are those of the caller's dest and source. */
SHMDI_FN int shmdi_coll_begin(struct shmdi_coll *c, struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, struct shmd_dev_mode mode)
{
	c->ctx = ctx;
	c->team = team;
	c->mode = mode;
	/* Others wait for what is posted, so a caller cannot withhold the doorbell. */
	c->mode.flags &= (uint8_t)~SHMD_DEV_NO_DOORBELL;
	c->n = SHMDI_FIXED(team->n_pes);
	c->me = SHMDI_FIXED(team->my_pe);
	c->depth = shmd_dev_coll_depth(team);
	c->by_queue = !(SHMDI_FIXED(team->flags) & SHMD_TEAM_MAPPED);
	c->is_flat = shmdi_coll_is_flat(SHMDI_FIXED(team->flags), c->n);
	c->is_near = SHMDI_FIXED(team->near_scratch[0]) != 0;
	c->number = team->n_exchanges;
	return team->coll_status;
}

SHMDI_FN int shmdi_coll_sides(struct shmdi_coll *c, const struct shmd_dev_coll *args, uint64_t dest_bytes, uint64_t source_bytes)
{
	const struct shmd_dev_world *world = shmdi_world_of(c->ctx);
	/* Both are set, also where collect goes on without bytes of its own. */
	int has_dest = shmdi_coll_side_of(world, args->dest, dest_bytes, &c->dest);
	int has_source = shmdi_coll_side_of(world, args->source, source_bytes, &c->source);

	return has_dest && has_source ? SHMD_DEV_OK : SHMD_DEV_INVALID;
}

/* All threads of the scope return its status. */
SHMDI_FN int shmdi_coll_end(struct shmdi_coll *c, int rc)
{
	if (shmdi_scope_enter(c->mode.scope)) {
		c->team->n_exchanges = c->number;
		c->team->coll_status = rc;
	}
	return shmdi_scope_leave(c->mode.scope, rc);
}

/* ---- members ---------------------------------------------------------------------------------------------------------------- */

/* The i-th of the others, behind the caller: so that not all begin with the same one. */
SHMDI_FN uint32_t shmdi_coll_other(const struct shmdi_coll *c, uint32_t i)
{
	uint32_t j = c->me + 1 + i;

	return j < c->n ? j : j - c->n;
}

SHMDI_FN int shmdi_coll_reach(const struct shmdi_coll *c, uint32_t i, uint32_t heap, uint64_t offset, struct shmdi_pe_at *ret_at)
{
	ret_at->heap = heap;
	ret_at->offset = offset;
	ret_at->pe = shmdi_team_member(c->team, i);
	return shmdi_pe_reach(shmdi_world_of(c->ctx), ret_at);
}

/* A member's copy; all threads of the scope get the same answer. */
SHMDI_FN int shmdi_coll_find(const struct shmdi_coll *c, const struct shmdi_coll_side *side, uint32_t i, uint64_t at,
			     struct shmdi_pe_at *ret_at)
{
	int rc;

	if (c->mode.scope == SHMD_DEV_THREAD)
		return shmdi_coll_reach(c, i, side->heap, side->offset + at, ret_at);
	(void)shmdi_scope_enter(c->mode.scope);
	rc = shmdi_coll_reach(c, i, side->heap, side->offset + at, ret_at);
	rc = shmdi_scope_leave(c->mode.scope, rc);
	ret_at->addr = shmdi_scope_share(c->mode.scope, ret_at->addr);
	return rc;
}

/* Everything that this call posted is complete. One caller. */
SHMDI_SLOW int shmdi_coll_settle_one(const struct shmdi_coll *c)
{
	struct shmdi_pe_way way;
	struct shmdi_pe_at at;
	uint32_t i;
	int rc = SHMD_DEV_OK;

	for (i = 0; i + 1 < c->n && !rc; i++) {
		rc = shmdi_coll_reach(c, shmdi_coll_other(c, i), SHMDI_FIXED(c->team->scratch_heap), 0, &at);
		way = shmdi_way_look(c->ctx, at.pe);
		if (!rc && !at.addr && way.qp)
			rc = shmdi_queue_status(c->ctx, &at, shmdi_qp_quiet(c->ctx, way.qp, &c->mode));
	}
	return rc;
}

SHMDI_FN int shmdi_coll_settle(const struct shmdi_coll *c)
{
	int rc = SHMD_DEV_OK;

	if (SHMDI_LIKELY(!c->by_queue))
		return rc;
	if (shmdi_scope_enter(c->mode.scope))
		rc = shmdi_coll_settle_one(c);
	return shmdi_scope_leave(c->mode.scope, rc);
}

/* Before the first message of a call: also to members that could be reached, which fail in the same way, and not for want of a message. */
SHMDI_FN int shmdi_coll_all_live(const struct shmdi_coll *c)
{
	return shmdi_team_all_live(shmdi_world_of(c->ctx), c->team);
}

/* ---- slots: one caller ------------------------------------------------------------------------------------------------------ */

/* In the scratch of the team: the slot of a sender for the exchange `number`. */
SHMDI_FN uint64_t shmdi_coll_slot_in(const struct shmdi_coll *c, uint32_t sender, uint64_t number)
{
	return SHMD_DEV_COLL_OFFSET + (sender * c->depth + (number & (c->depth - 1))) * SHMD_DEV_COLL_SLOT_BYTES;
}

/* The same in the heap. */
SHMDI_FN uint64_t shmdi_coll_slot(const struct shmdi_coll *c, uint32_t sender, uint64_t number)
{
	return SHMDI_FIXED(c->team->scratch_offset) + shmdi_coll_slot_in(c, sender, number);
}

/* The same at member i, whose scratch is near. */
SHMDI_FN uint64_t shmdi_coll_near_slot(const struct shmdi_coll *c, uint32_t i, uint32_t sender)
{
	return SHMDI_FIXED(c->team->near_scratch[i >= c->me ? i - c->me : i + c->n - c->me]) + shmdi_coll_slot_in(c, sender, c->number);
}

/* In this PE's own scratch: the number; data follows. */
SHMDI_FN uint8_t *shmdi_coll_own_slot(const struct shmdi_coll *c, uint32_t sender, uint64_t number)
{
	const struct shmd_dev_heap *heap = &shmdi_world_of(c->ctx)->heap[SHMDI_FIXED(c->team->scratch_heap)];

	return (uint8_t *)(uintptr_t)SHMDI_FIXED(heap->own_addr) + shmdi_coll_slot(c, sender, number);
}

SHMDI_FN uint8_t *shmdi_coll_data(const struct shmdi_coll *c, uint32_t sender)
{
	return shmdi_coll_own_slot(c, sender, c->number) + 8;
}

/* Until a sender has told the number. */
SHMDI_FN int shmdi_coll_await(const struct shmdi_coll *c, uint32_t sender, uint64_t number)
{
	struct shmdi_pe_until until = shmdi_pe_until_of(shmdi_coll_own_slot(c, sender, number), 8, SHMD_DEV_CMP_GE, number);

	until.team = c->team;
	return shmdi_pe_until(c->ctx, &until, SHMD_DEV_THREAD, c->mode.timeout_nsec);
}

/* The data of a slot: a word, then bytes; either may be missing. */
struct shmdi_coll_note {
	const uint64_t *word;
	const uint8_t *data; /* in the heap */
	uint32_t bytes;
};

SHMDI_SLOW int shmdi_coll_post(const struct shmdi_coll *c, struct shmdi_pe_at at, const struct shmdi_coll_note *note)
{
	struct shmdi_pe_at number = at;
	int rc = SHMD_DEV_OK;

	at.offset += 8;
	if (note->word) {
		rc = shmdi_queue_word_one(c->ctx, &at, *note->word, 8, &c->mode, 0);
		at.offset += 8;
	}
	if (!rc && note->bytes) {
		struct shmdi_move move = shmdi_move_of(c->ctx, &c->mode, 0, 0);

		rc = shmdi_move_one(&move, at, (uint8_t *)(uintptr_t)note->data, note->bytes);
	}
	/* A queue carries out both in order. */
	return rc ? rc : shmdi_queue_word_one(c->ctx, &number, c->number, 8, &c->mode, 0);
}

/* To member i, into the slot of `sender`. */
SHMDI_FN int shmdi_coll_tell_at(const struct shmdi_coll *c, uint32_t i, uint32_t sender, const struct shmdi_coll_note *note)
{
	struct shmdi_pe_at at;
	int rc = shmdi_coll_reach(c, i, SHMDI_FIXED(c->team->scratch_heap), shmdi_coll_slot(c, sender, c->number), &at);
	uint8_t *slot = (uint8_t *)(uintptr_t)at.addr;

	if (SHMDI_UNLIKELY(rc))
		return rc;
	if (SHMDI_UNLIKELY(!slot))
		return shmdi_coll_post(c, at, note);
	if (note->word)
		*(uint64_t *)(slot + 8) = *note->word;
	if (note->bytes)
		shmdi_bytes_copy(slot + (note->word ? 16 : 8), note->data, note->bytes);
	shmdi_pes_publish64((uint64_t *)slot, c->number);
	return SHMD_DEV_OK;
}

/* The number of this exchange, and data, to member i. */
SHMDI_FN int shmdi_coll_tell(const struct shmdi_coll *c, uint32_t i, const struct shmdi_coll_note *note)
{
	int rc = SHMD_DEV_OK;

	if ((note->word || note->bytes) && c->number >= c->depth)
		rc = shmdi_coll_await(c, i, c->number - c->depth + 1);
	return SHMDI_UNLIKELY(rc) ? rc : shmdi_coll_tell_at(c, i, c->me, note);
}

/* To all others: data + i * stride goes to member i. */
SHMDI_FN int shmdi_coll_tell_all(const struct shmdi_coll *c, struct shmdi_coll_note note, uint64_t stride)
{
	const uint8_t *data = note.data;
	uint32_t i, to;
	int rc = shmdi_coll_all_live(c);

	for (i = 0; i + 1 < c->n && !rc; i++) {
		to = shmdi_coll_other(c, i);
		note.data = stride ? data + to * stride : data;
		rc = shmdi_coll_tell(c, to, &note);
	}
	return rc;
}

SHMDI_FN int shmdi_coll_await_all(const struct shmdi_coll *c)
{
	uint32_t i;
	int rc = SHMD_DEV_OK;

	for (i = 0; i + 1 < c->n && !rc; i++)
		rc = shmdi_coll_await(c, shmdi_coll_other(c, i), c->number);
	return rc;
}

SHMDI_FN struct shmdi_coll_note shmdi_coll_note_of(const void *data, uint64_t bytes)
{
	struct shmdi_coll_note note;

	note.word = 0;
	note.data = (const uint8_t *)data;
	note.bytes = (uint32_t)bytes;
	return note;
}

/* ---- all members -------------------------------------------------------------------------------------------------------------- */

SHMDI_APART int shmdi_coll_meet_one(const struct shmdi_coll *c)
{
	int rc;

	if (!c->is_flat) {
		rc = shmdi_coll_all_live(c);
		return rc ? rc : shmdi_sync_rounds(c->ctx, c->team, SHMD_DEV_COLL_FLAG, c->number, &c->mode);
	}
	rc = shmdi_coll_tell_all(c, shmdi_coll_note_of(0, 0), 0);
	return rc ? rc : shmdi_coll_await_all(c);
}

/* Where all are near each thread of the scope has some of the members. Behind a barrier of the scope. */
SHMDI_FN int shmdi_coll_meet_here(const struct shmdi_coll *c)
{
	uint32_t rank = shmdi_scope_rank(c->mode.scope), size = shmdi_scope_size(c->mode.scope), i;
	int rc = SHMD_DEV_OK;

	SHMDI_ROLLED
	for (i = rank; i < c->n; i += size) {
		if (i != c->me)
			shmdi_pes_publish64((uint64_t *)(uintptr_t)shmdi_coll_near_slot(c, i, c->me), c->number);
	}
	SHMDI_ROLLED
	for (i = rank; i < c->n && !rc; i += size) {
		if (i != c->me)
			rc = shmdi_team_await(c->ctx, c->team, shmdi_coll_near_slot(c, c->me, i), c->number, c->mode.timeout_nsec);
	}
	return shmdi_scope_agree(c->mode.scope, rc);
}

SHMDI_FN int shmdi_coll_meet_near(const struct shmdi_coll *c)
{
	(void)shmdi_scope_enter(c->mode.scope);
	return shmdi_coll_meet_here(c);
}

/* The call is copied: a pointer to it that leaves this function would keep it in memory for all others. */
SHMDI_FN int shmdi_coll_meet_far(const struct shmdi_coll *c)
{
	struct shmdi_coll copy = *c;
	int rc = SHMD_DEV_OK;

	if (shmdi_scope_enter(c->mode.scope))
		rc = shmdi_coll_meet_one(&copy);
	return shmdi_scope_leave(c->mode.scope, rc);
}

/* All members have come here. All threads of the scope. */
SHMDI_FN int shmdi_coll_meet(struct shmdi_coll *c)
{
	c->number++;
	return SHMDI_IS_FAR(!c->is_near) ? shmdi_coll_meet_far(c) : shmdi_coll_meet_near(c);
}

#endif
