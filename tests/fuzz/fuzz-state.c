/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a saved state. A state that can be read goes on: after a commit, and after the next open, it holds its old records and
 * the new ones. Any other is refused, and its file can be written anew.
 *
 * The first byte selects the checksums that the fuzzer corrects, since mutation does not find them. The next 160 bytes are head and
 * mark, and the rest follows the first block.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/restart/state-file.h"
#include "proto/base/assert.h"
#include "tests/fuzz/fuzz.h"

#define TOP_BYTES 160u
#define MOST_BYTES ((size_t)1 << 16)
#define SEAL_RECORDS 1u
#define SEAL_HEAD 2u
#define SEAL_MARK 4u

_Static_assert(MARK_OFFSET + sizeof(struct mark) <= TOP_BYTES, "head and mark are in the input");

static uint8_t file[BLOCK_BYTES + MOST_BYTES];

/* Extents as far as they are some. */
static void seal_records(size_t n, struct head *head)
{
	size_t at = BLOCK_BYTES;

	head->n_records = head->records_sum = 0;
	while (at < head->end && n - at >= sizeof(struct extent)) {
		struct extent extent;

		memcpy(&extent, file + at, sizeof(extent));
		if (extent.magic != EXTENT_MAGIC || state_class(extent.bytes) == 0 || extent.bytes > n - at)
			return;
		if (extent.length <= extent.bytes - sizeof(extent)) {
			extent.sum = state_extent_sum(&extent, file + at + sizeof(extent));
			memcpy(file + at, &extent, sizeof(extent));
			head->records_sum += extent.sum;
			head->n_records++;
		}
		at += extent.bytes;
	}
}

static void seal(size_t n, uint8_t what)
{
	struct head head;
	struct mark mark;

	memcpy(&head, file, sizeof(head));
	memcpy(&mark, file + MARK_OFFSET, sizeof(mark));
	if (what & SEAL_RECORDS)
		seal_records(n, &head);
	if (what & SEAL_HEAD)
		head.sum = state_head_sum(&head);
	if ((what & SEAL_MARK) && mark.offset <= n && mark.bytes <= n - mark.offset)
		mark.sum = state_sum(STATE_COMMITTED, file + mark.offset, mark.bytes);
	memcpy(file, &head, sizeof(head));
	memcpy(file + MARK_OFFSET, &mark, sizeof(mark));
}

static int make_file(const uint8_t *bytes, size_t n, size_t *ret_n)
{
	size_t top = n < 1 + TOP_BYTES ? n - 1 : TOP_BYTES, rest = n - 1 - top;
	int fd = memfd_create("fuzz-state", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	memset(file, 0, BLOCK_BYTES);
	memcpy(file, bytes + 1, top);
	memcpy(file + BLOCK_BYTES, bytes + 1 + top, rest);
	*ret_n = BLOCK_BYTES + rest;
	seal(*ret_n, bytes[0]);
	assert_bug(fd >= 0 && pwrite(fd, file, *ret_n, 0) == (ssize_t)*ret_n);
	assert_bug(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
	return fd;
}

static void expect(struct state *state, const void *bytes, size_t n)
{
	const void *read;
	uint32_t version;
	size_t size;

	assert_bug(state_read(state, &version, &read, &size) == 0 && version == STATE_VERSION);
	assert_bug(size == n && (n == 0 || memcmp(read, bytes, n) == 0));
}

/* By its writer and by the next one. */
static void expect_both(struct state *state, const void *bytes, size_t n)
{
	struct state *again;

	expect(state, bytes, n);
	assert_bug(state_open(fcntl(state_fd(state), F_DUPFD_CLOEXEC, 3), &again) == 0);
	expect(again, bytes, n);
	state_free(again);
}

/* The last record, whatever there is: nothing else moves. */
static void go_on(struct state *state, const void *bytes, size_t n)
{
	static const uint8_t more[] = "more";
	uint8_t *want = malloc(n + sizeof(more));
	struct record *last = hash_get(&state->records, UINT64_MAX);
	size_t kept = n - (last ? last->length : 0);

	assert_bug(want);
	if (kept)
		memcpy(want, bytes, kept);
	memcpy(want + kept, more, sizeof(more));
	state_put(state, UINT64_MAX, more, sizeof(more));
	assert_bug(state_commit(state) == 0);
	expect_both(state, want, kept + sizeof(more));
	state_remove(state, UINT64_MAX);
	assert_bug(state_commit(state) == 0);
	expect_both(state, want, kept);
	free(want);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct state *state;
	const void *read;
	uint32_t version;
	size_t size;
	int r;

	if (n < 2 || n > MOST_BYTES)
		return 0;
	assert_bug(state_open(make_file(bytes, n, &size), &state) == 0);
	r = state_read(state, &version, &read, &size);
	assert_bug(r == 0 || r == -EBADMSG || r == -EPROTONOSUPPORT);
	assert_bug(r == 0 || state->records.n == 0);
	if (r == 0)
		go_on(state, read, size);
	assert_bug(state_write(state, "all", 3) == 0);
	expect_both(state, "all", 3);
	state_free(state);
	return 0;
}
