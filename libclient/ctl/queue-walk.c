/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks rings by their indexes; see queue-walk.h.
 *
 * WQEs have different sizes, so the walk finds where they begin forwards only. Before the consumer index, bytes count as a WQE
 * if they carry their own index and QP number; the walk skips garbage WQEBB by WQEBB. Pure functions.
 */
#include "libclient/ctl/queue-walk.h"

#include <string.h>

#include <shmd/abi/cqe.h>
#include <shmd/abi/wqe.h>

static uint32_t load32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

const char *walk_state_text(enum walk_state state)
{
	static const char *const words[] = {"consumed", "pending", "not-rung", "unannounced"};

	return words[state];
}

/* ---- indexes */

static uint32_t distance(const struct walk_ring *ring, uint16_t from, uint16_t to)
{
	uint32_t n = (uint16_t)(to - from);

	return n > ring->n_entries ? 0 : n;
}

struct walk_counts walk_count(const struct walk_ring *ring)
{
	return (struct walk_counts){
		.pending = distance(ring, ring->ci, ring->pi),
		.not_rung = distance(ring, ring->pi, ring->dbrec),
	};
}

/* The state of the entry that is `offset` entries behind the consumer index. */
static enum walk_state state_at(const struct walk_counts *counts, uint32_t offset)
{
	if (offset < counts->pending)
		return WALK_PENDING;
	if (offset < counts->pending + counts->not_rung)
		return WALK_NOT_RUNG;
	return WALK_UNANNOUNCED;
}

/* ---- send queue */

/* bounded by n_entries, a power of two */
static const uint8_t *slot_at(const struct walk_ring *ring, uint16_t index)
{
	return ring->bytes + (size_t)(index & (ring->n_entries - 1)) * ring->entry_bytes;
}

/* Whether these bytes claim to be the WQE of this index. */
static bool is_wqe(const struct walk_ring *ring, uint16_t index)
{
	const uint8_t *at = slot_at(ring, index);
	uint32_t ds = at[7] & 0x3f;

	return ((load32(at) >> 8) & 0xffff) == index && load32(at + 4) >> 8 == ring->qpn && ds;
}

static uint32_t wqebbs_of(const uint8_t *at)
{
	uint32_t n = ((at[7] & 0x3fu) * SHMD_DS_BYTES + SHMD_WQEBB_BYTES - 1) / SHMD_WQEBB_BYTES;

	return !n ? 1 : n > SHMD_WQE_MAX_WQEBBS ? SHMD_WQE_MAX_WQEBBS : n;
}

/* Fills everything but the state. room: entries that it may take. */
static void read_wqe(const struct walk_ring *ring, uint16_t index, uint32_t room, struct walk_entry *entry)
{
	uint32_t slot = index & (ring->n_entries - 1), before_end;

	entry->index = index;
	entry->slot = slot;
	entry->at = slot_at(ring, index);
	entry->n_entries = wqebbs_of(entry->at);
	if (entry->n_entries > room)
		entry->n_entries = room;
	entry->bytes = (size_t)entry->n_entries * SHMD_WQEBB_BYTES;
	before_end = ring->n_entries - slot;
	if (entry->n_entries <= before_end)
		return;
	memcpy(entry->unwrapped, entry->at, (size_t)before_end * SHMD_WQEBB_BYTES);
	memcpy(entry->unwrapped + (size_t)before_end * SHMD_WQEBB_BYTES, ring->bytes,
	       (size_t)(entry->n_entries - before_end) * SHMD_WQEBB_BYTES);
	entry->at = entry->unwrapped;
}

/* Consumed WQEs, in the part of the ring that is not overwritten yet. */
static void walk_sq_consumed(const struct walk_ring *ring, const struct walk_counts *counts, walk_fn *fn, void *arg)
{
	uint32_t left = ring->n_entries - (counts->pending + counts->not_rung > ring->n_entries ? ring->n_entries :
					   counts->pending + counts->not_rung);
	struct walk_entry entry;

	while (left) {
		uint16_t index = (uint16_t)(ring->ci - left);

		if (!is_wqe(ring, index)) {
			left--;
			continue;
		}
		read_wqe(ring, index, left, &entry);
		entry.state = WALK_CONSUMED;
		fn(arg, &entry);
		left -= entry.n_entries;
	}
}

void walk_sq(const struct walk_ring *ring, walk_fn *fn, void *arg)
{
	struct walk_counts counts = walk_count(ring);
	uint32_t known = counts.pending + counts.not_rung, offset = 0;
	struct walk_entry entry;

	walk_sq_consumed(ring, &counts, fn, arg);
	while (offset < ring->n_entries) {
		uint16_t index = (uint16_t)(ring->ci + offset);

		/* Behind the doorbell record may be anything: old WQEs carry the index of an earlier round. */
		if (offset >= known && !is_wqe(ring, index))
			return;
		read_wqe(ring, index, ring->n_entries - offset, &entry);
		entry.state = state_at(&counts, offset);
		fn(arg, &entry);
		offset += entry.n_entries;
	}
}

/* ---- receive queue */

void walk_rq(const struct walk_ring *ring, walk_fn *fn, void *arg)
{
	struct walk_counts counts = walk_count(ring);
	uint32_t known = counts.pending + counts.not_rung, n_old;
	struct walk_entry entry;

	known = known > ring->n_entries ? ring->n_entries : known;
	n_old = ring->n_entries - known;
	/* A receive WQE does not carry its index: during the first round there are no old ones. */
	if (ring->ci < n_old && ring->pi < ring->n_entries)
		n_old = ring->ci;
	for (uint32_t i = 0; i < n_old + known; i++) {
		uint16_t index = (uint16_t)(ring->ci - n_old + i);

		entry.index = index;
		entry.slot = index & (ring->n_entries - 1);
		entry.n_entries = 1;
		entry.at = slot_at(ring, index);
		entry.bytes = ring->entry_bytes;
		entry.state = i < n_old ? WALK_CONSUMED : state_at(&counts, i - n_old);
		fn(arg, &entry);
	}
}

/* ---- completion queue */

bool walk_cqe(const uint8_t *cqe, uint32_t index, uint32_t ci, uint32_t log2_entries, enum walk_state *ret_state)
{
	uint8_t op_own = cqe[63];
	bool is_owned = (op_own & SHMD_CQE_OWNER_MASK) == ((index >> log2_entries) & 1);

	if (op_own >> 4 == SHMD_CQE_INVALID || !is_owned)
		return false;
	/* Consumer indexes have 24 bits. */
	*ret_state = (index - ci) & 0x800000 ? WALK_CONSUMED : WALK_PENDING;
	return true;
}
