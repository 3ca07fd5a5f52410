/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saved state: staging and committing.
 *
 * A commit writes patches behind all extents, sets the mark, applies the patches and clears the mark. A writer that dies before
 * it sets the mark has changed nothing that a reader sees; after that, the next process that opens the state applies the patches
 * again. A record that needs an extent of the same size stays where it is. Any other record moves, and the next record of that
 * size takes the extent that it leaves. So a commit neither moves nor reads records that it does not change; state-compact.c is
 * the exception. A commit reserves memory first, so that no write fails behind the mark. Files grow by an eighth, so that this
 * happens rarely.
 */
#include "daemon/restart/state-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/assert.h"
#include "proto/base/cleanup.h"

/* ---- staging ------------------------------------------------------------------------------------------------------- */

static void unstage(struct state *state, struct record *record)
{
	list_del(&record->staged_link);
	free(record->bytes);
	record->bytes = NULL;
	record->staged = STAGED_NOTHING;
	if (record->place)
		return;
	hash_remove(&state->records, record->key);
	state_record_free(record);
}

static struct record *find_or_add(struct state *state, uint64_t key)
{
	struct record *record = hash_get(&state->records, key);

	if (record)
		return record;
	record = calloc(1, sizeof(*record));
	if (!record)
		return NULL;
	record->key = key;
	list_init(&record->staged_link);
	if (hash_add(&state->records, key, record) == 0)
		return record;
	free(record);
	return NULL;
}

static void stage(struct state *state, struct record *record, enum staged what, void *bytes, size_t n)
{
	if (record->staged == STAGED_NOTHING)
		list_add_tail(&state->staged, &record->staged_link);
	free(record->bytes);
	record->staged = what;
	record->bytes = bytes;
	record->n = n;
}

static bool has_bytes(const struct state *state, uint64_t offset, const unsigned char *bytes, size_t n)
{
	unsigned char buf[1024];
	size_t part;

	for (; n > 0; n -= part, bytes += part, offset += part) {
		part = n < sizeof(buf) ? n : sizeof(buf);
		if (state_get(state, offset, buf, part) < 0 || memcmp(buf, bytes, part) != 0)
			return false;
	}
	return true;
}

static bool is_there(const struct state *state, uint64_t key, const void *bytes, size_t n)
{
	const struct record *record = hash_get(&state->records, key);

	return record && record->place && record->staged == STAGED_NOTHING && record->length == n &&
	       has_bytes(state, record->place->offset + sizeof(struct extent), bytes, n);
}

void state_put(struct state *state, uint64_t key, const void *bytes, size_t n)
{
	_cleanup_free_ void *copy = NULL;
	struct record *record;

	if (state->error < 0 || is_there(state, key, bytes, n))
		return;
	if (n > STATE_MAX_BYTES) {
		state->error = -EFBIG;
		return;
	}
	copy = malloc(n + 1);
	record = copy ? find_or_add(state, key) : NULL;
	if (!record) {
		state->error = -ENOMEM;
		return;
	}
	if (n > 0)
		memcpy(copy, bytes, n);
	stage(state, record, STAGED_PUT, take_ptr(copy), n);
}

void state_remove(struct state *state, uint64_t key)
{
	struct record *record = hash_get(&state->records, key);

	if (!record)
		return;
	if (record->place)
		stage(state, record, STAGED_REMOVE, NULL, 0);
	else
		unstage(state, record);
}

/* ---- where records go ---------------------------------------------------------------------------------------------- */

static struct place *take_place(struct state *state, uint32_t bytes, uint64_t *end)
{
	struct list *free_places = &state->free[state_class(bytes)];
	struct place *place;

	if (!list_empty(free_places)) {
		place = list_first_entry(free_places, struct place, link);
		list_del(&place->link);
		state->free_bytes -= bytes;
		return place;
	}
	place = malloc(sizeof(*place));
	if (!place)
		return NULL;
	*place = (struct place){.offset = *end, .bytes = bytes};
	list_init(&place->link);
	*end += bytes;
	return place;
}

static void give_place(struct state *state, struct place *place)
{
	list_add_head(&state->free[state_class(place->bytes)], &place->link);
	state->free_bytes += place->bytes;
}

uint64_t state_patch_bytes(uint64_t n)
{
	return sizeof(struct patch) + (n + 7) / 8 * 8;
}

/* Chooses a place for each record, and finds out where the extents then end and how long the journal is. */
static int choose(struct state *state, uint64_t *end, uint64_t *journal)
{
	struct record *record;

	*journal = state_patch_bytes(sizeof(struct head));
	list_for_each_entry(record, &state->staged, staged_link) {
		if (record->staged == STAGED_PUT) {
			uint32_t bytes = state_extent_size(record->n);

			record->to = record->place && record->place->bytes == bytes ? record->place
										    : take_place(state, bytes, end);
			if (!record->to)
				return -ENOMEM;
			*journal += state_patch_bytes(sizeof(struct extent) + record->n);
		}
		*journal += state_patch_bytes(sizeof(struct extent));
		if (*journal > 2 * STATE_MAX_BYTES)
			return -EFBIG;
	}
	return 0;
}

static void unchoose(struct state *state)
{
	struct record *record;

	list_for_each_entry(record, &state->staged, staged_link) {
		struct place *place = record->to == record->place ? NULL : record->to;

		record->to = NULL;
		if (place && place->offset < state->end)
			give_place(state, place);
		else
			free(place);
	}
}

int state_reserve(struct state *state, uint64_t end)
{
	size_t size = state->reserved + state->reserved / 8;

	if (end <= state->reserved)
		return 0;
	if (end > MAX_FILE_BYTES)
		return -EFBIG;
	if (size < end || size > MAX_FILE_BYTES)
		size = end;
	size = (size + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
	if (fallocate(state->fd, 0, (off_t)state->reserved, (off_t)(size - state->reserved)) < 0)
		return -errno;
	state->reserved = size;
	if (state->size < size)
		state->size = size;
	return 0;
}

/* ---- the journal --------------------------------------------------------------------------------------------------- */

void state_add_patch(struct journal *journal, uint64_t offset, const void *a, size_t n_a, const void *b, size_t n_b)
{
	const struct patch patch = {offset, n_a + n_b};
	unsigned char *at = journal->buf + journal->bytes;

	memcpy(at, &patch, sizeof(patch));
	memcpy(at + sizeof(patch), a, n_a);
	if (n_b > 0)
		memcpy(at + sizeof(patch) + n_a, b, n_b);
	/* The sum covers the padding as well. */
	memset(at + sizeof(patch) + n_a + n_b, 0, state_patch_bytes(n_a + n_b) - sizeof(patch) - n_a - n_b);
	journal->bytes += state_patch_bytes(n_a + n_b);
}

static void add_free(struct journal *journal, const struct place *place)
{
	const struct extent extent = {
		.magic = EXTENT_MAGIC, .bytes = place->bytes, .length = EXTENT_FREE, .sequence = journal->sequence};

	state_add_patch(journal, place->offset, &extent, sizeof(extent), NULL, 0);
}

static void add_record(struct journal *journal, struct record *record)
{
	struct extent extent = {
		.magic = EXTENT_MAGIC,
		.bytes = record->to->bytes,
		.key = record->key,
		.length = record->n,
		.sequence = journal->sequence,
	};

	extent.sum = record->to_sum = state_extent_sum(&extent, record->bytes);
	journal->records_sum += extent.sum;
	journal->n_records++;
	state_add_patch(journal, record->to->offset, &extent, sizeof(extent), record->bytes, record->n);
}

static void add_change(struct journal *journal, struct record *record)
{
	if (record->place) {
		journal->records_sum -= record->sum;
		journal->n_records--;
	}
	if (record->staged == STAGED_PUT)
		add_record(journal, record);
	if (record->place && record->place != record->to)
		add_free(journal, record->place);
}

void state_add_head(struct journal *journal, uint32_t version, uint64_t end)
{
	struct head head = {
		.magic = STATE_MAGIC,
		.version = version,
		.sequence = journal->sequence,
		.end = end,
		.n_records = journal->n_records,
		.records_sum = journal->records_sum,
	};

	head.sum = state_head_sum(&head);
	state_add_patch(journal, 0, &head, sizeof(head), NULL, 0);
}

/* The table also has staged records that were never committed. */
static uint64_t count_committed(const struct state *state)
{
	const struct record *record;
	uint64_t n = state->records.n;

	list_for_each_entry(record, &state->staged, staged_link)
		n -= !record->place;
	return n;
}

/* Readers look only after this process has ended, and it writes one after the other. */
int state_carry_out(struct state *state, const struct journal *journal)
{
	struct mark mark = {
		.offset = journal->offset,
		.bytes = journal->bytes,
		.sum = state_sum(STATE_COMMITTED, journal->buf, journal->bytes),
		.magic = STATE_COMMITTED,
	};
	int r = state_set(state, journal->offset, journal->buf, journal->bytes);

	if (r == 0)
		r = state_set(state, MARK_OFFSET, &mark, sizeof(mark));
	if (r < 0)
		return r;
	/* All of it lies before the journal, for which there was room. */
	r = state_apply(state, journal->buf, journal->offset, journal->bytes);
	mark.magic = 0;
	if (r == 0)
		r = state_set(state, MARK_OFFSET, &mark, sizeof(mark));
	assert_bug(r == 0);
	return 0;
}

/* ---- commit -------------------------------------------------------------------------------------------------------- */

static void settle(struct state *state, struct record *record)
{
	if (record->place && record->place != record->to)
		give_place(state, record->place);
	record->place = record->to;
	record->to = NULL;
	record->length = record->n;
	record->sum = record->to_sum;
	unstage(state, record);
}

static void discard(struct state *state)
{
	struct record *record, *tmp;

	list_for_each_entry_safe(record, tmp, &state->staged, staged_link)
		unstage(state, record);
	state->error = 0;
}

static int write_journal(struct state *state, struct journal *journal, uint32_t version, uint64_t end, uint64_t bytes)
{
	/* bounded: choose(). */
	_cleanup_free_ unsigned char *buf = malloc(bytes);
	struct record *record;

	if (!buf)
		return -ENOMEM;
	journal->buf = buf;
	journal->offset = end;
	list_for_each_entry(record, &state->staged, staged_link)
		add_change(journal, record);
	state_add_head(journal, version, end);
	return state_carry_out(state, journal);
}

static int commit(struct state *state, uint32_t version)
{
	struct journal journal = {
		.sequence = state->sequence + 1, .n_records = count_committed(state), .records_sum = state->records_sum};
	struct record *record, *tmp;
	uint64_t end = state->end, bytes;
	int r = state->error;

	if (r == 0)
		r = choose(state, &end, &bytes);
	if (r == 0)
		r = state_reserve(state, end + bytes);
	if (r == 0)
		r = write_journal(state, &journal, version, end, bytes);
	if (r < 0) {
		unchoose(state);
		return r;
	}
	list_for_each_entry_safe(record, tmp, &state->staged, staged_link)
		settle(state, record);
	state->sequence = journal.sequence;
	state->records_sum = journal.records_sum;
	state->end = end;
	free(state->flat);
	state->flat = NULL;
	return 0;
}

static int commit_version(struct state *state, uint32_t version)
{
	int r;

	if (state->error == 0 && list_empty(&state->staged) && state->readable == 0 && state->version == version)
		return 0;
	r = commit(state, version);
	if (r < 0) {
		discard(state);
		return r;
	}
	state->version = version;
	state->readable = version == STATE_VERSION ? 0 : -EPROTONOSUPPORT;
	state_compact(state);
	return 0;
}

int state_commit(struct state *state)
{
	return commit_version(state, STATE_VERSION);
}

int state_write_version(struct state *state, uint32_t version, const void *bytes, size_t n)
{
	struct record *record;
	size_t pos = 0;
	uint64_t key;

	discard(state);
	while ((record = hash_next(&state->records, &pos, &key)))
		if (key != 0)
			stage(state, record, STAGED_REMOVE, NULL, 0);
	state_put(state, 0, bytes, n);
	return commit_version(state, version);
}

int state_write(struct state *state, const void *bytes, size_t n)
{
	return state_write_version(state, STATE_VERSION, bytes, n);
}
