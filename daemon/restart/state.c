/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saved state: two heads in the first block, each with the place of its bytes behind it.
 *
 * A write takes the head that is older: it is made void, the bytes are written where the newer ones are not, then the head,
 * its magic last. The sum over head and bytes makes a half void that is neither the old nor the new one. Memory is reserved
 * before it is written, since a page that cannot be had would kill the writer. What is read is checked against
 * the file's size, which nobody can shrink: the daemon's own file, but maybe another daemon's mistake.
 */
#include "daemon/restart/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "proto/base/cleanup.h"

#define STATE_MAGIC UINT64_C(0x6574617453646d68)
#define BLOCK_BYTES ((size_t)4096)
#define MAX_FILE_BYTES (3 * STATE_MAX_BYTES + 4 * BLOCK_BYTES)

struct head {
	uint64_t magic; /* 0: void */
	uint32_t version;
	uint32_t zero;
	uint64_t sequence;
	uint64_t offset, length; /* of the bytes */
	uint64_t sum;
};

struct state {
	int fd; /* owned */
	unsigned char *map; /* owned */
	size_t size; /* of the file and of the map */
};

DEFINE_CLEANUP(struct state *, state_free);

static struct head *head_of(const struct state *state, unsigned int i)
{
	return (struct head *)state->map + i;
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t sum, uint64_t word)
{
	sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return sum ^ (sum >> 29);
}

/* Notices a write that was cut, and bytes that rotted; it is no secret and keeps nobody out. */
static uint64_t sum_of(const struct head *head, const unsigned char *bytes, size_t n)
{
	uint64_t sum, word = 0;
	size_t i;

	sum = mix(mix(STATE_MAGIC, head->version), head->sequence);
	sum = mix(mix(sum, head->offset), head->length);
	for (i = 0; i + sizeof(word) <= n; i += sizeof(word)) {
		memcpy(&word, bytes + i, sizeof(word));
		sum = mix(sum, word);
	}
	word = 0;
	memcpy(&word, bytes + i, n - i);
	return mix(sum, word);
}

static bool is_whole(const struct state *state, const struct head *head)
{
	if (head->magic != STATE_MAGIC || head->zero || head->sequence == 0 || head->offset < BLOCK_BYTES ||
	    head->offset > state->size || head->length > state->size - head->offset)
		return false;
	return head->sum == sum_of(head, state->map + head->offset, head->length);
}

/* The newest half that is whole, or NULL. */
static struct head *newest(const struct state *state)
{
	struct head *a = head_of(state, 0), *b = head_of(state, 1);

	if (!is_whole(state, a))
		return is_whole(state, b) ? b : NULL;
	return is_whole(state, b) && b->sequence > a->sequence ? b : a;
}

int state_read(struct state *state, uint32_t *ret_version, const void **ret_bytes, size_t *ret_n)
{
	const struct head *head = newest(state);

	if (!head)
		return -EBADMSG;
	*ret_version = head->version;
	if (head->version != STATE_VERSION)
		return -EPROTONOSUPPORT;
	*ret_bytes = state->map + head->offset;
	*ret_n = head->length;
	return 0;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static size_t round_up(size_t n)
{
	return (n + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
}

/* Where the bytes do not touch those of the newest: before them, else behind them. */
static size_t place(const struct head *now, size_t n)
{
	if (!now || BLOCK_BYTES + n <= now->offset)
		return BLOCK_BYTES;
	return round_up(now->offset + now->length);
}

/* Room for that much, and memory behind it. */
static int grow(struct state *state, size_t end)
{
	size_t size = round_up(end);
	void *map;

	if (size <= state->size)
		return 0;
	if (size > MAX_FILE_BYTES)
		return -EFBIG;
	if (fallocate(state->fd, 0, 0, (off_t)size) < 0)
		return -errno;
	map = mremap(state->map, state->size, size, MREMAP_MAYMOVE);
	if (map == MAP_FAILED)
		return -errno;
	state->map = map;
	state->size = size;
	return 0;
}

/*
 * From magic 0 to magic set the half is void: the stores before are not moved behind it, nor those behind before. Who reads it reads it
 * after this process has ended, so the compiler's order is enough.
 */
static void write_half(struct state *state, struct head *head, const struct head *want, const void *bytes)
{
	__atomic_store_n(&head->magic, 0, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (want->length > 0)
		memcpy(state->map + want->offset, bytes, want->length);
	head->version = want->version;
	head->zero = 0;
	head->sequence = want->sequence;
	head->offset = want->offset;
	head->length = want->length;
	head->sum = want->sum;
	__atomic_store_n(&head->magic, STATE_MAGIC, __ATOMIC_RELEASE);
}

int state_write_version(struct state *state, uint32_t version, const void *bytes, size_t n)
{
	struct head want = {.version = version, .sequence = 1, .length = n};
	struct head *now = newest(state);
	unsigned int half = 0;
	int r;

	if (n > STATE_MAX_BYTES)
		return -EFBIG;
	if (now) {
		half = now == head_of(state, 0);
		want.sequence = now->sequence + 1;
	}
	want.offset = place(now, n);
	r = grow(state, want.offset + n);
	if (r < 0)
		return r;
	want.sum = sum_of(&want, bytes, n);
	write_half(state, head_of(state, half), &want, bytes);
	return 0;
}

int state_write(struct state *state, const void *bytes, size_t n)
{
	return state_write_version(state, STATE_VERSION, bytes, n);
}

/* ---- birth and death -------------------------------------------------------------------------------------------- */

static int map_file(struct state *state)
{
	void *map = mmap(NULL, state->size, PROT_READ | PROT_WRITE, MAP_SHARED, state->fd, 0);

	if (map == MAP_FAILED)
		return -errno;
	state->map = map;
	return 0;
}

int state_new(struct state **ret)
{
	_cleanup_(state_freep) struct state *state = calloc(1, sizeof(*state));
	int r;

	if (!state)
		return -ENOMEM;
	state->size = 2 * BLOCK_BYTES;
	state->fd = memfd_create("shmemd-state", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (state->fd < 0)
		return -errno;
	if (fallocate(state->fd, 0, 0, (off_t)state->size) < 0 ||
	    fcntl(state->fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
		return -errno;
	r = map_file(state);
	if (r < 0)
		return r;
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

int state_open(int fd, struct state **ret)
{
	_cleanup_(state_freep) struct state *state = calloc(1, sizeof(*state));
	int r;

	if (!state) {
		safe_close(fd);
		return -ENOMEM;
	}
	state->fd = fd;
	r = check_file(state);
	if (r == 0)
		r = map_file(state);
	if (r < 0)
		return r;
	*ret = take_ptr(state);
	return 0;
}

struct state *state_free(struct state *state)
{
	if (!state)
		return NULL;
	if (state->map)
		munmap(state->map, state->size);
	safe_close(state->fd);
	free(state);
	return NULL;
}

int state_fd(const struct state *state)
{
	return state->fd;
}
