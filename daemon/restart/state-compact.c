/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saved state: files that are mostly free become small again.
 *
 * A free extent serves records of its own size only, so a client whose objects keep changing their sizes makes the file grow.
 * Once free extents have more than 1 MiB and twice the bytes of the others, one more commit moves all records together and gives
 * the memory behind them back to the system. It copies at most half a byte for each byte that was freed since the last time.
 */
#include "daemon/restart/state-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "proto/base/cleanup.h"

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

/* Copies the extents with their heads; sizes stay. *ret_end is where the last one ends. */
static int add_records(const struct state *state, struct journal *journal, uint64_t *ret_end)
{
	const struct record *record;
	uint64_t key;
	size_t pos = 0;
	int r = 0;

	*ret_end = BLOCK_BYTES;
	while (r == 0 && (record = hash_next(&state->records, &pos, &key))) {
		/* bounded: the file. */
		size_t n = sizeof(struct extent) + record->length;
		_cleanup_free_ unsigned char *bytes = malloc(n);

		r = bytes ? state_get(state, record->place->offset, bytes, n) : -ENOMEM;
		if (r == 0)
			state_add_patch(journal, *ret_end, bytes, n, NULL, 0);
		*ret_end += record->place->bytes;
	}
	return r;
}

/* Visits the records in the order in which add_records() did. */
static void settle(struct state *state, uint64_t end)
{
	struct record *record;
	uint64_t to = BLOCK_BYTES, key;
	size_t pos = 0;

	while ((record = hash_next(&state->records, &pos, &key))) {
		record->place->offset = to;
		to += record->place->bytes;
	}
	state_forget_free(state);
	state->end = end;
}

static void give_back(struct state *state)
{
	size_t from = (state->end + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;

	if (from >= state->reserved)
		return;
	/* After a failure the file still has its memory, which harms nothing. */
	if (fallocate(state->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)(state->size - from)) == 0)
		state->reserved = from;
}

static int move_together(struct state *state, uint64_t bytes)
{
	_cleanup_free_ unsigned char *buf = malloc(bytes);
	struct journal journal = {
		.buf = buf,
		.offset = state->end,
		.sequence = state->sequence + 1,
		.n_records = state->records.n,
		.records_sum = state->records_sum,
	};
	uint64_t end;
	int r = buf ? add_records(state, &journal, &end) : -ENOMEM;

	if (r < 0)
		return r;
	state_add_head(&journal, state->version, end);
	r = state_carry_out(state, &journal);
	if (r < 0)
		return r;
	settle(state, end);
	state->sequence = journal.sequence;
	return 0;
}

void state_compact(struct state *state)
{
	uint64_t bytes = is_mostly_free(state) ? journal_bytes(state) : 0;

	if (bytes > 0 && state_reserve(state, state->end + bytes) == 0 && move_together(state, bytes) == 0)
		give_back(state);
}
