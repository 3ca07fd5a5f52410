/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saved state: its file, and reading it.
 *
 * The reader takes a state as a whole or refuses it. Sums cover the head and each record. The head has the number of records and
 * the sum of their sums, so the reader notices a record that is missing or that comes from another commit. It checks each offset
 * and length against the size of the file, which nobody can shrink: the file is a daemon's, but that daemon may have had a bug.
 *
 * pread() and pwrite() wait for nothing that a client has: clients have no descriptor of the file, so nobody can punch a hole into
 * it. Mapping it would wait, for holes that a client punches into other memory.
 */
#include "daemon/restart/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/restart/state-file.h"
#include "proto/base/cleanup.h"

#define MAX_SEQUENCE (UINT64_MAX / 2) /* no writer gets there: the next ones never wrap */

#define UNIT_BYTES 64u
#define SMALL_BYTES 1024u /* up to here sizes are multiples of UNIT_BYTES, then powers of two */
/* Place of the second of two heads before version 4. */
#define OLD_HEAD_OFFSET 48u

DEFINE_CLEANUP(struct state *, state_free);

/* ---- sums and sizes ------------------------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t sum, uint64_t word)
{
	sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return sum ^ (sum >> 29);
}

/* Detects cut writes and flipped bits. Anybody can compute it, so it does not authenticate. */
uint64_t state_sum(uint64_t sum, const void *bytes, size_t n)
{
	const unsigned char *at = bytes;
	uint64_t word = 0;
	size_t i;

	for (i = 0; i + sizeof(word) <= n; i += sizeof(word)) {
		memcpy(&word, at + i, sizeof(word));
		sum = mix(sum, word);
	}
	word = 0;
	if (n > i)
		memcpy(&word, at + i, n - i);
	return mix(mix(sum, word), n);
}

uint64_t state_head_sum(const struct head *head)
{
	return state_sum(STATE_MAGIC, head, offsetof(struct head, sum));
}

uint64_t state_extent_sum(const struct extent *extent, const void *bytes)
{
	return state_sum(state_sum(EXTENT_MAGIC, extent, offsetof(struct extent, sum)), bytes, extent->length);
}

uint32_t state_extent_size(size_t n)
{
	size_t need = (sizeof(struct extent) + n + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES;
	size_t size = 2 * SMALL_BYTES;

	if (need <= SMALL_BYTES)
		return (uint32_t)need;
	while (size < need)
		size *= 2; /* bounded: STATE_MAX_BYTES */
	return (uint32_t)size;
}

unsigned int state_class(uint32_t bytes)
{
	unsigned int log2 = 0;

	if (bytes % UNIT_BYTES)
		return 0;
	if (bytes <= SMALL_BYTES)
		return bytes / UNIT_BYTES;
	while (SMALL_BYTES << log2 < bytes && log2 < 21)
		log2++;
	return SMALL_BYTES << log2 == bytes ? SMALL_BYTES / UNIT_BYTES + log2 : 0;
}

/* ---- the file ------------------------------------------------------------------------------------------------------ */

int state_get(const struct state *state, uint64_t offset, void *buf, size_t n)
{
	unsigned char *to = buf;

	while (n > 0) {
		ssize_t got = pread(state->fd, to, n, (off_t)offset);

		if (got <= 0)
			return got < 0 ? -errno : -EBADMSG;
		to += got;
		offset += (uint64_t)got;
		n -= (size_t)got;
	}
	return 0;
}

int state_set(const struct state *state, uint64_t offset, const void *buf, size_t n)
{
	const unsigned char *from = buf;

	while (n > 0) {
		ssize_t put = pwrite(state->fd, from, n, (off_t)offset);

		if (put <= 0)
			return put < 0 ? -errno : -EIO;
		from += put;
		offset += (uint64_t)put;
		n -= (size_t)put;
	}
	return 0;
}

/* ---- a writer that was killed ------------------------------------------------------------------------------------- */

static bool goes_right(const struct patch *patch, uint64_t end)
{
	if (patch->offset == 0)
		return patch->bytes == sizeof(struct head);
	return patch->offset >= BLOCK_BYTES && patch->offset <= end && patch->bytes <= end - patch->offset;
}

int state_apply(const struct state *state, const unsigned char *journal, uint64_t offset, uint64_t bytes)
{
	uint64_t at = 0;
	struct patch patch;
	int r = 0;

	while (r == 0 && at < bytes) {
		if (bytes - at < sizeof(patch))
			return -EBADMSG;
		memcpy(&patch, journal + at, sizeof(patch));
		at += sizeof(patch);
		if (patch.bytes > bytes - at || !goes_right(&patch, offset))
			return -EBADMSG;
		r = state_set(state, patch.offset, journal + at, patch.bytes);
		at += (patch.bytes + 7) / 8 * 8; /* bounded: the bytes of a file */
	}
	return r;
}

static int finish_with(const struct state *state, const struct mark *mark)
{
	/* bounded: the file. */
	_cleanup_free_ unsigned char *journal = malloc(mark->bytes + 1);
	const uint64_t none = 0;
	int r, r_mark;

	if (!journal)
		return -ENOMEM;
	r = state_get(state, mark->offset, journal, mark->bytes);
	if (r < 0)
		return r;
	if (mark->sum != state_sum(STATE_COMMITTED, journal, mark->bytes))
		return -EBADMSG;
	r = state_apply(state, journal, mark->offset, mark->bytes);
	r_mark = state_set(state, MARK_OFFSET + offsetof(struct mark, magic), &none, sizeof(none));
	return r < 0 ? r : r_mark;
}

static int finish_commit(const struct state *state)
{
	struct mark mark;
	int r = state_get(state, MARK_OFFSET, &mark, sizeof(mark));

	if (r < 0 || mark.magic != STATE_COMMITTED)
		return r;
	if (mark.offset < BLOCK_BYTES || mark.offset > state->size || mark.bytes > state->size - mark.offset)
		return -EBADMSG;
	return finish_with(state, &mark);
}

/* ---- loading ------------------------------------------------------------------------------------------------------- */

static int add_record(struct state *state, const struct extent *extent, struct place *place)
{
	struct record *record = calloc(1, sizeof(*record));
	int r;

	if (!record)
		return -ENOMEM;
	*record = (struct record){.key = extent->key, .place = place, .length = extent->length, .sum = extent->sum};
	list_init(&record->staged_link);
	r = hash_add(&state->records, extent->key, record);
	if (r < 0)
		free(record);
#ifdef FUZZ_PLANT
	if (PLANTED("state") && r == -EEXIST && extent->length == 0)
		return 0;
#endif
	return r == -EEXIST ? -EBADMSG : r;
}

static int load_extent(struct state *state, const unsigned char *file, uint64_t offset, uint64_t *ret_bytes)
{
	struct extent extent;
	struct place *place;
	int r = 0;

	if (state->end - offset < sizeof(extent))
		return -EBADMSG;
	memcpy(&extent, file + offset, sizeof(extent));
	if (extent.magic != EXTENT_MAGIC || state_class(extent.bytes) == 0 || extent.bytes > state->end - offset)
		return -EBADMSG;
	if (extent.length != EXTENT_FREE &&
	    (extent.length > extent.bytes - sizeof(extent) ||
	     extent.sum != state_extent_sum(&extent, file + offset + sizeof(extent))))
		return -EBADMSG;
	place = calloc(1, sizeof(*place));
	if (!place)
		return -ENOMEM;
	*place = (struct place){.offset = offset, .bytes = extent.bytes};
	list_init(&place->link);
	if (extent.length == EXTENT_FREE) {
		list_add_tail(&state->free[state_class(extent.bytes)], &place->link);
		state->free_bytes += extent.bytes;
	} else {
		r = add_record(state, &extent, place);
		state->records_sum += extent.sum;
	}
	if (r < 0)
		free(place);
	*ret_bytes = extent.bytes;
	return r;
}

static int load_extents(struct state *state, const struct head *head)
{
	/* bounded: the file. */
	_cleanup_free_ unsigned char *file = malloc(head->end);
	uint64_t offset = BLOCK_BYTES, bytes = 0;
	int r = file ? state_get(state, 0, file, head->end) : -ENOMEM;

	state->end = head->end;
	state->sequence = head->sequence;
	for (; r == 0 && offset < state->end; offset += bytes)
		r = load_extent(state, file, offset, &bytes);
	if (r < 0)
		return r;
	return state->records.n == head->n_records && state->records_sum == head->records_sum ? 0 : -EBADMSG;
}

/* True: the head has another version, or so has the second head, which files had before version 4. */
static bool is_strange(const unsigned char *top, uint32_t *ret_version)
{
	struct head head;

	memcpy(&head, top, sizeof(head));
	if (head.magic != STATE_MAGIC)
		memcpy(&head, top + OLD_HEAD_OFFSET, sizeof(head));
	*ret_version = head.version;
	return head.magic == STATE_MAGIC && head.version != STATE_VERSION;
}

static int load_head(struct state *state, struct head *ret_head)
{
	unsigned char top[OLD_HEAD_OFFSET + sizeof(struct head)];
	int r = state_get(state, 0, top, sizeof(top));

	memcpy(ret_head, top, sizeof(*ret_head));
	return r == 0 && is_strange(top, &state->version) ? -EPROTONOSUPPORT : r;
}

static int load(struct state *state)
{
	struct head head;
	int r = load_head(state, &head);

	if (r == 0)
		r = finish_commit(state);
	if (r == 0)
		r = load_head(state, &head);
	if (r < 0)
		return r;
	if (head.magic != STATE_MAGIC || head.zero || head.sequence == 0 || head.sequence > MAX_SEQUENCE ||
	    head.end < BLOCK_BYTES || head.end > state->size || head.sum != state_head_sum(&head))
		return -EBADMSG;
	return load_extents(state, &head);
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

static int compare_keys(const void *a, const void *b)
{
	const struct record *const *x = a, *const *y = b;

	return (*x)->key < (*y)->key ? -1 : (*x)->key > (*y)->key;
}

static size_t list_committed(const struct state *state, struct record **records, size_t *ret_n)
{
	struct record *record;
	size_t pos = 0, bytes = 0;
	uint64_t key;

	*ret_n = 0;
	while ((record = hash_next(&state->records, &pos, &key))) {
		if (!record->place)
			continue;
		records[(*ret_n)++] = record;
		bytes += record->length; /* bounded: the file */
	}
	return bytes;
}

int state_read(struct state *state, uint32_t *ret_version, const void **ret_bytes, size_t *ret_n)
{
	/* bounded: the extents of the file. */
	_cleanup_free_ struct record **records = calloc(state->records.n + 1, sizeof(struct record *));
	size_t n, bytes;
	int r = 0;

	if (state->readable == -EPROTONOSUPPORT)
		*ret_version = state->version;
	if (state->readable < 0)
		return state->readable;
	if (!records)
		return -ENOMEM;
	bytes = list_committed(state, records, &n);
	qsort(records, n, sizeof(struct record *), compare_keys);
	free(state->flat);
	state->flat = malloc(bytes + 1);
	if (!state->flat)
		return -ENOMEM;
	*ret_n = 0;
	for (size_t i = 0; r == 0 && i < n; i++) {
		r = state_get(state, records[i]->place->offset + sizeof(struct extent), state->flat + *ret_n, records[i]->length);
		*ret_n += records[i]->length;
	}
	if (r < 0)
		return r;
	*ret_version = state->version;
	*ret_bytes = state->flat;
	return 0;
}

/* ---- birth and death ----------------------------------------------------------------------------------------------- */

static struct state *state_alloc(int fd)
{
	struct state *state = calloc(1, sizeof(*state));

	if (!state)
		return NULL;
	state->fd = fd;
	state->readable = -EBADMSG;
	state->version = STATE_VERSION;
	state->end = BLOCK_BYTES;
	hash_init(&state->records);
	list_init(&state->staged);
	for (unsigned int i = 0; i < STATE_N_CLASSES; i++)
		list_init(&state->free[i]);
	return state;
}

int state_new(struct state **ret)
{
	_cleanup_(state_freep) struct state *state = state_alloc(-1);

	if (!state)
		return -ENOMEM;
	state->size = state->reserved = 2 * BLOCK_BYTES;
	state->fd = memfd_create("shmemd-state", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (state->fd < 0)
		return -errno;
	if (fallocate(state->fd, 0, 0, (off_t)state->size) < 0 ||
	    fcntl(state->fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
		return -errno;
	*ret = take_ptr(state);
	return 0;
}

static int check_file(struct state *state)
{
	int seals = fcntl(state->fd, F_GET_SEALS);
	struct stat st;

	if (fstat(state->fd, &st) < 0)
		return -errno;
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || st.st_size < (off_t)BLOCK_BYTES || st.st_size > (off_t)MAX_FILE_BYTES)
		return -EBADMSG;
	state->size = (size_t)st.st_size;
	return 0;
}

void state_forget_free(struct state *state)
{
	for (unsigned int i = 0; i < STATE_N_CLASSES; i++) {
		struct place *place, *tmp;

		list_for_each_entry_safe(place, tmp, &state->free[i], link)
			free(place);
		list_init(&state->free[i]);
	}
	state->free_bytes = 0;
}

/* Empties the state: the next commit writes a new one. */
static void forget_all(struct state *state)
{
	struct record *record;
	size_t pos = 0;
	uint64_t key;

	while ((record = hash_next(&state->records, &pos, &key)))
		state_record_free(record);
	hash_deinit(&state->records);
	state_forget_free(state);
	list_init(&state->staged);
	state->end = BLOCK_BYTES;
	state->sequence = 0;
	state->records_sum = 0;
}

int state_open(int fd, struct state **ret)
{
	_cleanup_(state_freep) struct state *state = state_alloc(fd);
	int r;

	if (!state) {
		safe_close(fd);
		return -ENOMEM;
	}
	r = check_file(state);
	if (r < 0)
		return r;
	state->readable = load(state);
	if (state->readable == -ENOMEM)
		return -ENOMEM;
	if (state->readable < 0)
		forget_all(state);
	*ret = take_ptr(state);
	return 0;
}

struct record *state_record_free(struct record *record)
{
	free(record->place);
	free(record->bytes);
	free(record);
	return NULL;
}

struct state *state_free(struct state *state)
{
	if (!state)
		return NULL;
	forget_all(state);
	safe_close(state->fd);
	free(state->flat);
	free(state);
	return NULL;
}

int state_fd(const struct state *state)
{
	return state->fd;
}
