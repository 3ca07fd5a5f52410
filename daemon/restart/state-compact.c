/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saved state: files that are mostly free become small again.
 *
 * Free extents are used for records of their own size only, so a client that makes objects of ever other sizes would have the
 * daemon keep the most that it had of each. Once the free ones are more than twice as large as the others, and a MiB, all records move
 * together in one more commit, and the memory behind them goes back to the system. That copies half a byte at most for each byte
 * that was freed since the last time.
 */
#include "daemon/restart/state-file.h"

#include <fcntl.h>
#include <stdlib.h>

#define MOST_FREE_BYTES ((uint64_t)1 << 20)

static bool is_mostly_free(const struct state *state)
{
	uint64_t used = state->end - BLOCK_BYTES - state->free_bytes;

	return state->free_bytes > MOST_FREE_BYTES + 2 * used;
}

static uint64_t journal_bytes(const struct state *state)
{
	uint64_t bytes = state_patch_bytes(sizeof(struct head)), key;
	const struct record *record;
	size_t pos = 0;

	while ((record = hash_next(&state->records, &pos, &key)))
		bytes += state_patch_bytes(sizeof(struct extent) + record->length); /* bounded: the file */
	return bytes;
}

/* Extents keep their sizes and heads. Returns where they end. */
static uint64_t add_records(const struct state *state, struct journal *journal)
{
	const struct record *record;
	uint64_t to = BLOCK_BYTES, key;
	size_t pos = 0;

	while ((record = hash_next(&state->records, &pos, &key))) {
		state_add_patch(journal, to, state->map + record->place->offset, sizeof(struct extent) + record->length, NULL, 0);
		to += record->place->bytes;
	}
	return to;
}

/* In the same order. */
static void settle(struct state *state, uint64_t end)
{
	struct record *record;
	uint64_t to = BLOCK_BYTES, key;
	size_t pos = 0;

	while ((record = hash_next(&state->records, &pos, &key))) {
		record->place->offset = to;
		to += record->place->bytes;
	}
	for (unsigned int i = 0; i < STATE_N_CLASSES; i++) {
		struct place *place, *tmp;

		list_for_each_entry_safe(place, tmp, &state->free[i], link)
			free(place);
		list_init(&state->free[i]);
	}
	state->free_bytes = 0;
	state->end = end;
}

static void give_back(struct state *state)
{
	size_t from = (state->end + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;

	if (from >= state->reserved)
		return;
	/* On failure it has its memory yet: no harm. */
	if (fallocate(state->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)(state->size - from)) == 0)
		state->reserved = from;
}

void state_compact(struct state *state)
{
	struct journal journal = {
		.offset = state->end,
		.sequence = state->sequence + 1,
		.n_records = state->records.n,
		.records_sum = state->records_sum,
	};
	uint64_t end;

	if (!is_mostly_free(state) || state_reserve(state, state->end + journal_bytes(state)) < 0)
		return;
	journal.map = state->map;
	end = add_records(state, &journal);
	state_add_head(&journal, state->version, end);
	state_carry_out(state, &journal);
	settle(state, end);
	state->sequence = journal.sequence;
	give_back(state);
}
