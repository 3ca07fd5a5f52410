/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs of eight PEs against a model that any reader can check: a list of the ranges in use.
 *
 * Each PE has an allocator of its own. All PEs make the same collective calls; between them each frees what it likes, in an
 * order of its own. The lists of freed slots go from PE to PE as the runtime's records carry them, a few at a time.
 */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <shmemclient.h>

#include "libclient/runtime/heap/heap-alloc.h"

#define N_PES 8u
#define MAX_LIVE 400u
#define N_CALLS 1500u
#define BATCH 5u
#define MIN_CHUNK (UINT64_C(1) << 17)
#define RANGE (UINT64_C(1) << 32)

struct model_range {
	uint64_t offset, size, usable, align;
	uint32_t n_freed; /* PEs that have published it */
	uint32_t freed_by; /* bit of each PE that called heap_release() */
	bool is_live;
};

struct lab {
	struct heap *heaps[N_PES];
	struct model_range ranges[MAX_LIVE];
	uint64_t zone;
	uint64_t random;
	uint32_t n_seen_chunks;
	unsigned int n_moved, n_grown, n_reused, n_batches_left;
};

static uint64_t random_below(struct lab *lab, uint64_t n)
{
	lab->random ^= lab->random << 13;
	lab->random ^= lab->random >> 7;
	lab->random ^= lab->random << 17;
	return lab->random % n;
}

/* Many small sizes, some large ones. */
static uint64_t random_size(struct lab *lab)
{
	uint64_t most = UINT64_C(1) << (4 + random_below(lab, 14));

	return 1 + random_below(lab, most);
}

static uint64_t random_align(struct lab *lab)
{
	return random_below(lab, 3) ? 0 : UINT64_C(1) << random_below(lab, 17);
}

static struct model_range *range_at(struct lab *lab, uint64_t offset)
{
	for (unsigned int i = 0; i < MAX_LIVE; i++)
		if (lab->ranges[i].is_live && lab->ranges[i].offset == offset)
			return &lab->ranges[i];
	return NULL;
}

static struct model_range *unused_range(struct lab *lab)
{
	for (unsigned int i = 0; i < MAX_LIVE; i++)
		if (!lab->ranges[i].is_live)
			return &lab->ranges[i];
	return NULL;
}

static struct model_range *random_range(struct lab *lab)
{
	struct model_range *range = &lab->ranges[random_below(lab, MAX_LIVE)];

	return range->is_live ? range : NULL;
}

/* That no PE has freed. */
static struct model_range *random_whole_range(struct lab *lab)
{
	uint64_t first = random_below(lab, MAX_LIVE);

	for (unsigned int i = 0; i < MAX_LIVE; i++) {
		struct model_range *range = &lab->ranges[(first + i) % MAX_LIVE];

		if (range->is_live && !range->freed_by)
			return range;
	}
	return NULL;
}

/* ---- the runtime's part -------------------------------------------------------------------------------------------------- */

/* The first half of a collective call: all PEs publish a few of their frees, all count them. */
static void exchange(struct lab *lab)
{
	uint32_t lists[N_PES][BATCH], n[N_PES];

	for (unsigned int pe = 0; pe < N_PES; pe++) {
		struct heap_walk walk = {0};
		struct heap_info info;

		ASSERT_OK(heap_reserve(lab->heaps[pe]));
		n[pe] = heap_take_freed(lab->heaps[pe], lists[pe], BATCH);
		lab->n_batches_left += n[pe] == BATCH;
		for (unsigned int i = 0; i < n[pe]; i++) {
			while (heap_walk(lab->heaps[pe], &walk, &info) && info.slot != lists[pe][i])
				;
			ASSERT_EQ(info.slot, lists[pe][i]);
			struct model_range *range = range_at(lab, info.offset);
			ASSERT(range);
			ASSERT(range->freed_by & 1u << pe);
			if (++range->n_freed == N_PES)
				range->is_live = false;
			walk = (struct heap_walk){0};
		}
	}
	for (unsigned int here = 0; here < N_PES; here++)
		for (unsigned int pe = 0; pe < N_PES; pe++)
			ASSERT_OK(heap_apply_freed(lab->heaps[here], pe, lists[pe], n[pe]));
}

static void grow(struct lab *lab, const struct heap_request *request, uint64_t old)
{
	uint64_t bytes, end = heap_end(lab->heaps[0]);

	/* Contiguous, or with a gap. */
	end += random_below(lab, 2) * 4096 * random_below(lab, 100);
	for (unsigned int pe = 0; pe < N_PES; pe++) {
		ASSERT_OK(heap_chunk_needed(lab->heaps[pe], request, old, &bytes));
		ASSERT_OK(heap_reserve(lab->heaps[pe]));
		ASSERT_OK(heap_add_chunk(lab->heaps[pe], end, bytes < MIN_CHUNK ? MIN_CHUNK : bytes));
		ASSERT_OK(heap_reserve(lab->heaps[pe]));
	}
	lab->n_grown++;
}

/* ---- invariants ---------------------------------------------------------------------------------------------------------- */

static void check_new(struct lab *lab, struct model_range *range, uint64_t offset, uint64_t size, uint64_t align)
{
	struct heap_info info;

	ASSERT_OK(heap_find(lab->heaps[0], offset, &info));
	ASSERT_EQ(info.offset, offset);
	ASSERT_EQ(info.size, size);
	ASSERT_GE(info.usable, size);
	ASSERT_EQ(offset % (align ? align : 16), 0);
	ASSERT(size < 64 || offset % 64 == 0);
	for (unsigned int i = 0; i < MAX_LIVE; i++) {
		const struct model_range *other = &lab->ranges[i];

		if (other->is_live && other != range)
			ASSERT(offset + info.usable + lab->zone <= other->offset ||
			       other->offset + other->usable + lab->zone <= offset);
	}
	lab->n_reused += offset + size < heap_end(lab->heaps[0]) / 2;
	*range = (struct model_range){.offset = offset, .size = size, .usable = info.usable, .align = align, .is_live = true};
}

/* Every byte is in one block, no two holes touch, live blocks are those of the model; all PEs agree about each block. */
static void check_blocks(struct lab *lab)
{
	struct heap_walk walks[N_PES] = {0};
	struct heap_info info = {0}, before = {.is_hole = false, .block_start = 1}, other;
	uint64_t n_live = 0, n_model = 0;
	bool is_more = true;

	while (is_more) {
		is_more = heap_walk(lab->heaps[0], &walks[0], &info);
		for (unsigned int pe = 1; pe < N_PES; pe++) {
			ASSERT_EQ(heap_walk(lab->heaps[pe], &walks[pe], &other), is_more);
			if (is_more) {
				ASSERT_EQ(other.offset, info.offset);
				ASSERT_EQ(other.block_bytes, info.block_bytes);
				ASSERT_EQ(other.slot, info.slot);
				ASSERT_EQ(other.number, info.number);
				ASSERT_EQ(other.n_freed, info.n_freed);
			}
		}
		if (!is_more)
			break;
		ASSERT_GE(info.block_start + 1, before.block_start + before.block_bytes);
		/* Two holes are neighbours only where a chunk ends, and chunks end on pages. */
		if (before.is_hole && info.is_hole && before.block_start + before.block_bytes == info.block_start)
			ASSERT_EQ(info.block_start % 4096, 0);
		n_live += !info.is_hole;
		ASSERT(info.is_hole || range_at(lab, info.offset));
		before = info;
	}
	for (unsigned int i = 0; i < MAX_LIVE; i++)
		n_model += lab->ranges[i].is_live;
	ASSERT_EQ(n_live, n_model);
}

static void check_counts(struct lab *lab)
{
	struct heap_stats stats, sum = {0};
	struct heap_walk walk = {0};
	struct heap_info info;
	uint64_t bytes = 0;

	heap_stats(lab->heaps[3], &stats);
	while (heap_walk(lab->heaps[3], &walk, &info)) {
		bytes += info.block_bytes;
		sum.n_holes += info.is_hole;
		sum.n_live += !info.is_hole;
		sum.hole_bytes += info.is_hole ? info.block_bytes : 0;
		sum.live_bytes += info.is_hole ? 0 : info.size;
		if (info.is_hole && info.block_bytes > sum.largest_hole)
			sum.largest_hole = info.block_bytes;
	}
	ASSERT_EQ(stats.n_holes, sum.n_holes);
	ASSERT_EQ(stats.n_live, sum.n_live);
	ASSERT_EQ(stats.hole_bytes, sum.hole_bytes);
	ASSERT_EQ(stats.live_bytes, sum.live_bytes);
	ASSERT_EQ(stats.largest_hole, sum.largest_hole);
	ASSERT_EQ(stats.chunk_bytes, bytes);
}

/* ---- the program of all PEs ---------------------------------------------------------------------------------------------- */

/* The same call on all PEs: equal results. old HEAP_NONE: malloc. */
static int on_all(struct lab *lab, const struct heap_request *request, uint64_t old, uint64_t *ret_offset)
{
	uint64_t offset = 0;
	int r = 0;

	for (unsigned int pe = 0; pe < N_PES; pe++) {
		int here = old == HEAP_NONE ? heap_malloc(lab->heaps[pe], request, &offset) :
					      heap_realloc(lab->heaps[pe], old, request->size, NULL, &offset);

		ASSERT(!pe || (r == here && (r < 0 || *ret_offset == offset)));
		r = here;
		*ret_offset = offset;
	}
	return r;
}

static void call_malloc(struct lab *lab)
{
	struct heap_request request = {.size = random_size(lab), .align = random_align(lab)};
	struct model_range *range;
	uint64_t offset;

	exchange(lab);
	range = unused_range(lab);
	if (!range)
		return;
	if (on_all(lab, &request, HEAP_NONE, &offset) == -ENOSPC) {
		grow(lab, &request, HEAP_NONE);
		ASSERT_OK(on_all(lab, &request, HEAP_NONE, &offset));
	}
	check_new(lab, range, offset, request.size, request.align);
}

static void call_realloc(struct lab *lab)
{
	struct heap_request request = {.size = random_size(lab)};
	struct model_range *range;
	uint64_t offset, old;

	exchange(lab);
	range = random_whole_range(lab);
	if (!range)
		return;
	old = range->offset;
	if (on_all(lab, &request, old, &offset) == -ENOSPC) {
		grow(lab, &request, old);
		ASSERT_OK(on_all(lab, &request, old, &offset));
	}
	ASSERT(offset == old || offset + request.size <= old || old + range->size <= offset);
	lab->n_moved += offset != old;
	check_new(lab, range, offset, request.size, range->align);
}

static void call_free_agreed(struct lab *lab)
{
	struct model_range *range;

	exchange(lab);
	range = random_whole_range(lab);
	if (!range)
		return;
	for (unsigned int pe = 0; pe < N_PES; pe++)
		ASSERT_OK(heap_free_agreed(lab->heaps[pe], range->offset));
	range->is_live = false;
}

/* A PE frees what it has not freed yet, or tries what must be refused. */
static void free_locally(struct lab *lab)
{
	unsigned int pe = (unsigned int)random_below(lab, N_PES);
	struct model_range *range = random_range(lab);

	/* PEs that have more room for metadata than others decide as they do. */
	if (pe % 2)
		ASSERT_OK(heap_reserve(lab->heaps[pe]));
	if (!range)
		return;
	if (range->freed_by & 1u << pe) {
		ASSERT_ERR(heap_release(lab->heaps[pe], range->offset), EINVAL);
		return;
	}
	if (range->size > 1)
		ASSERT_ERR(heap_release(lab->heaps[pe], range->offset + 1), EINVAL);
	ASSERT_OK(heap_release(lab->heaps[pe], range->offset));
	range->freed_by |= 1u << pe;
}

static void free_everything(struct lab *lab)
{
	bool is_pending = true;

	for (unsigned int i = 0; i < MAX_LIVE; i++) {
		struct model_range *range = &lab->ranges[i];

		for (unsigned int pe = 0; range->is_live && pe < N_PES; pe++) {
			if (!(range->freed_by & 1u << pe))
				ASSERT_OK(heap_release(lab->heaps[pe], range->offset));
			range->freed_by |= 1u << pe;
		}
	}
	while (is_pending) {
		is_pending = false;
		exchange(lab);
		for (unsigned int pe = 0; pe < N_PES; pe++) {
			struct heap_stats stats;

			heap_stats(lab->heaps[pe], &stats);
			is_pending = is_pending || stats.n_pending;
		}
	}
}

static void check_empty(const struct lab *lab)
{
	for (unsigned int pe = 0; pe < N_PES; pe++) {
		struct heap_stats stats;

		heap_stats(lab->heaps[pe], &stats);
		ASSERT_EQ(stats.n_live, 0);
		ASSERT_EQ(stats.live_bytes, 0);
		ASSERT_EQ(stats.n_holes, stats.n_chunks);
		ASSERT_EQ(stats.hole_bytes, stats.chunk_bytes);
	}
}

static void run(struct lab *lab)
{
	for (unsigned int i = 0; i < N_CALLS; i++) {
		/* Programs that grow and shrink: the number of local frees for each call changes. */
		uint64_t n_frees = random_below(lab, i / 300 % 2 ? 30 : 12), call = random_below(lab, 10);

		for (uint64_t n = 0; n < n_frees; n++)
			free_locally(lab);
		if (call < 7)
			call_malloc(lab);
		else if (call < 9)
			call_realloc(lab);
		else
			call_free_agreed(lab);
		if (i % 10 == 0)
			check_blocks(lab);
	}
	check_blocks(lab);
	check_counts(lab);
	free_everything(lab);
	check_blocks(lab);
	check_empty(lab);
}

static void run_seed(uint64_t seed, uint64_t zone)
{
	struct lab *lab = calloc(1, sizeof(*lab));

	ASSERT(lab);
	lab->random = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
	lab->zone = zone;
	for (unsigned int pe = 0; pe < N_PES; pe++)
		ASSERT_OK(heap_new(&(struct heap_attr){.n_pes = N_PES, .range_bytes = RANGE, .zone_bytes = zone},
				   &lab->heaps[pe]));
	run(lab);
	/* The program went where it should. */
	ASSERT_GT(lab->n_moved, 10);
	ASSERT_GT(lab->n_grown, 3);
	ASSERT_GT(lab->n_reused, 100);
	ASSERT_GT(lab->n_batches_left, 10);
	for (unsigned int pe = 0; pe < N_PES; pe++)
		heap_free(lab->heaps[pe]);
	free(lab);
}

static void run_seeds(uint64_t first, uint64_t zone)
{
	const uint64_t n = test_is_full() ? 200 : 10;

	for (uint64_t seed = first; seed < first + n; seed++) {
		printf("seed %llu\n", (unsigned long long)seed);
		run_seed(seed, zone);
	}
}

TEST_TIMEOUT(random_programs_of_eight_pes_agree_and_hold_the_invariants, 600)
{
	run_seeds(1, 0);
}

TEST_TIMEOUT(random_programs_of_eight_pes_hold_them_with_zones_too, 600)
{
	run_seeds(1000, 64);
}
