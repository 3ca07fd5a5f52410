/* SPDX-License-Identifier: Apache-2.0 */
/* The allocator on one PE after another, without memory: offsets, frees of PEs, what it refuses. */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>

#include <shmemclient.h>

#include "libclient/runtime/heap/heap-alloc.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static struct heap *heap_of(uint32_t n_pes, uint64_t zone_bytes, uint64_t chunk_bytes)
{
	struct heap *heap;

	ASSERT_OK(heap_new(&(struct heap_attr){.n_pes = n_pes, .range_bytes = 64 * GIB, .zone_bytes = zone_bytes}, &heap));
	if (chunk_bytes)
		ASSERT_OK(heap_add_chunk(heap, 0, chunk_bytes));
	return heap;
}

static uint64_t get(struct heap *heap, uint64_t size, uint64_t align)
{
	uint64_t offset = 12345;

	ASSERT_OK(heap_reserve(heap));
	ASSERT_OK(heap_malloc(heap, &(struct heap_request){.size = size, .align = align}, &offset));
	return offset;
}

static int get_error(struct heap *heap, uint64_t size, uint64_t align)
{
	uint64_t offset = 12345;
	int r;

	ASSERT_OK(heap_reserve(heap));
	r = heap_malloc(heap, &(struct heap_request){.size = size, .align = align}, &offset);
	ASSERT_EQ(offset, 12345);
	return r;
}

/* All PEs free what this one has freed. */
static void agree(struct heap *heap, uint32_t n_pes)
{
	uint32_t slots[64], n;

	while ((n = heap_take_freed(heap, slots, 64)))
		for (uint32_t pe = 0; pe < n_pes; pe++)
			ASSERT_OK(heap_apply_freed(heap, pe, slots, n));
}

static struct heap_stats stats_of(const struct heap *heap)
{
	struct heap_stats stats;

	heap_stats(heap, &stats);
	return stats;
}

static struct heap_info info_at(const struct heap *heap, uint64_t offset)
{
	struct heap_info info;

	ASSERT_OK(heap_find(heap, offset, &info));
	return info;
}

#define ASSERT_TEXT(part) ASSERT(strstr(shmd_error_text(), part))

/* ---- placing */

TEST(size_0_is_no_memory)
{
	struct heap *heap = heap_of(1, 0, MIB);

	ASSERT_EQ(get(heap, 0, 0), HEAP_NONE);
	ASSERT_EQ(stats_of(heap).n_live, 0);
	ASSERT_OK(heap_release(heap, HEAP_NONE));
	ASSERT_OK(heap_free_agreed(heap, HEAP_NONE));
	heap_free(heap);
}

TEST(small_blocks_lie_on_16_bytes_and_blocks_from_64_bytes_on_cache_lines)
{
	struct heap *heap = heap_of(1, 0, MIB);

	ASSERT_EQ(get(heap, 1, 0), 0);
	ASSERT_EQ(get(heap, 17, 1), 16);
	ASSERT_EQ(get(heap, 63, 8), 48);
	ASSERT_EQ(get(heap, 64, 0), 128);
	ASSERT_EQ(get(heap, 65, 0), 192);
	ASSERT_EQ(get(heap, 8, 0), 112);
	ASSERT_EQ(get(heap, 1, 0), 320);
	heap_free(heap);
}

TEST(alignments_up_to_the_largest_hold)
{
	struct heap *heap = heap_of(1, 0, GIB);

	for (uint64_t align = 1; align <= HEAP_MAX_ALIGN; align *= 2) {
		uint64_t offset = get(heap, 24, align);

		ASSERT_EQ(offset % align, 0);
		ASSERT_GE(info_at(heap, offset).align, align);
	}
	ASSERT_ERR(get_error(heap, 8, 24), EINVAL);
	ASSERT_ERR(get_error(heap, 8, 2 * HEAP_MAX_ALIGN), EINVAL);
	ASSERT_TEXT("power of two");
	heap_free(heap);
}

TEST(the_smallest_hole_that_fits_is_taken_and_of_equal_ones_the_lowest)
{
	struct heap *heap = heap_of(1, 0, MIB);
	const uint64_t sizes[] = {4096, 64, 1024, 64, 2048, 64, 1024, 64};
	uint64_t offsets[8];

	for (unsigned int i = 0; i < 8; i++)
		offsets[i] = get(heap, sizes[i], 0);
	for (unsigned int i = 0; i < 8; i += 2)
		ASSERT_OK(heap_release(heap, offsets[i]));
	agree(heap, 1);
	ASSERT_EQ(get(heap, 1000, 0), offsets[2]);
	ASSERT_EQ(get(heap, 1024, 0), offsets[6]);
	ASSERT_EQ(get(heap, 1024, 0), offsets[4]);
	heap_free(heap);
}

/* Many holes are large enough, one has the alignment: it is found before the heap grows, far behind the first ones. */
TEST(a_hole_with_the_alignment_is_found_among_many_without_it)
{
	struct heap *heap = heap_of(1, 0, 64 * 8192);
	uint64_t at[128], offset;
	struct heap_walk walk = {0};
	struct heap_info info;
	unsigned int n_found = 0;

	for (unsigned int i = 0; i < 128; i++)
		at[i] = get(heap, i == 2 ? 8192 - 64 : i % 2 ? 128 : 4096 + 64 * (i / 2 % 30), 0);
	while (heap_reserve(heap) == 0 && heap_malloc(heap, &(struct heap_request){.size = 64}, &offset) == 0)
		;
	for (unsigned int i = 0; i < 128; i += 2)
		ASSERT_OK(heap_release(heap, at[i]));
	agree(heap, 1);
	while (heap_reserve(heap) == 0 && heap_malloc(heap, &(struct heap_request){.size = 4096, .align = 4096}, &offset) == 0)
		n_found++;
	ASSERT_GT(n_found, 0);
	/* None is left: by looking at every hole. */
	while (heap_walk(heap, &walk, &info)) {
		offset = (info.offset + 4095) & ~UINT64_C(4095);
		ASSERT(!info.is_hole || offset + 4096 > info.offset + info.size);
	}
	heap_free(heap);
}

TEST(sizes_beyond_the_range_are_refused_and_not_rounded_to_small_ones)
{
	struct heap *heap = heap_of(1, 0, MIB);

	for (uint64_t size = UINT64_MAX; size > 64 * GIB; size = size / 2 + 1)
		ASSERT_ERR(get_error(heap, size, 0), ENOMEM);
	ASSERT_ERR(get_error(heap, UINT64_MAX - 14, HEAP_MAX_ALIGN), ENOMEM);
	ASSERT_TEXT("can ever have");
	ASSERT_ERR(get_error(heap, 64 * GIB, HEAP_MAX_ALIGN), ENOSPC);
	heap_free(heap);
}

TEST(a_chunk_of_the_size_that_was_named_is_enough_wherever_it_lies)
{
	for (unsigned int zone = 0; zone <= 64; zone += 16) {
		for (uint64_t align = 16; align <= HEAP_MAX_ALIGN; align *= 2) {
			struct heap *heap = heap_of(1, zone, 0);
			struct heap_request request = {.size = align == 64 ? 40 : 5000, .align = align};
			uint64_t bytes, offset;

			ASSERT_ERR(heap_malloc(heap, &request, &offset), ENOSPC);
			ASSERT_OK(heap_chunk_needed(heap, &request, HEAP_NONE, &bytes));
			ASSERT_OK(heap_add_chunk(heap, 4096 * (align / 16 + 1), bytes));
			ASSERT_OK(heap_malloc(heap, &request, &offset));
			heap_free(heap);
		}
	}
}

/* ---- chunks */

TEST(chunks_lie_anywhere_in_the_range_and_blocks_do_not_cross_from_one_into_the_next)
{
	struct heap *heap = heap_of(1, 0, MIB);

	ASSERT_EQ(heap_end(heap), MIB);
	ASSERT_OK(heap_add_chunk(heap, 8 * MIB, MIB));
	ASSERT_OK(heap_add_chunk(heap, MIB, MIB));
	ASSERT_EQ(heap_end(heap), 9 * MIB);
	ASSERT_ERR(get_error(heap, MIB + 1, 0), ENOSPC);
	ASSERT_EQ(get(heap, MIB, 0), 0);
	ASSERT_EQ(get(heap, MIB, 0), MIB);
	ASSERT_EQ(get(heap, MIB, 0), 8 * MIB);
	ASSERT_ERR(get_error(heap, 1, 0), ENOSPC);
	heap_free(heap);
}

TEST(chunks_that_overlap_or_leave_the_range_are_refused)
{
	struct heap *heap = heap_of(1, 0, 0);

	ASSERT_OK(heap_add_chunk(heap, 4096, 8192));
	ASSERT_ERR(heap_add_chunk(heap, 8192, 4096), EINVAL);
	ASSERT_ERR(heap_add_chunk(heap, 0, 8192), EINVAL);
	ASSERT_ERR(heap_add_chunk(heap, 0, 64 * GIB), EINVAL);
	ASSERT_TEXT("overlaps");
	ASSERT_ERR(heap_add_chunk(heap, 64 * GIB, 4096), EINVAL);
	ASSERT_ERR(heap_add_chunk(heap, UINT64_MAX - 4095, 4096), EINVAL);
	ASSERT_ERR(heap_add_chunk(heap, 4096 * 4, UINT64_MAX - 4095), EINVAL);
	ASSERT_ERR(heap_add_chunk(heap, 100, 4096), EINVAL);
	ASSERT_ERR(heap_add_chunk(heap, 4096 * 4, 0), EINVAL);
	ASSERT_EQ(stats_of(heap).n_chunks, 1);
	heap_free(heap);
}

TEST(there_are_at_most_64_chunks)
{
	struct heap *heap = heap_of(1, 0, 0);

	for (unsigned int i = 0; i < HEAP_MAX_CHUNKS; i++) {
		ASSERT_OK(heap_reserve(heap));
		ASSERT_OK(heap_add_chunk(heap, i * MIB, MIB));
	}
	ASSERT_OK(heap_reserve(heap));
	ASSERT_ERR(heap_add_chunk(heap, GIB, MIB), ENOSPC);
	heap_free(heap);
}

/* ---- freeing */

TEST(memory_is_reused_when_the_last_pe_has_freed_it_and_not_before)
{
	struct heap *heap = heap_of(3, 0, MIB);
	uint64_t offset = get(heap, MIB, 0);
	uint32_t slot = info_at(heap, offset).slot;

	ASSERT_OK(heap_release(heap, offset));
	ASSERT_EQ(stats_of(heap).n_pending, 1);
	ASSERT_OK(heap_apply_freed(heap, 2, &slot, 1));
	ASSERT_OK(heap_apply_freed(heap, 0, &slot, 1));
	ASSERT_ERR(get_error(heap, 64, 0), ENOSPC);
	ASSERT_EQ(info_at(heap, offset).n_freed, 2);
	ASSERT_OK(heap_apply_freed(heap, 1, &slot, 1));
	ASSERT_EQ(get(heap, MIB, 0), 0);
	heap_free(heap);
}

TEST(freed_slots_are_handed_out_once_in_their_order_and_in_batches)
{
	struct heap *heap = heap_of(2, 0, MIB);
	uint32_t slots[4], got[4];
	uint64_t offsets[4];

	for (unsigned int i = 0; i < 4; i++) {
		offsets[i] = get(heap, 64, 0);
		slots[i] = info_at(heap, offsets[i]).slot;
	}
	for (unsigned int i = 0; i < 3; i++)
		ASSERT_OK(heap_release(heap, offsets[i]));
	ASSERT_EQ(heap_take_freed(heap, got, 2), 2);
	ASSERT_MEMEQ(got, slots, 2 * sizeof(got[0]));
	ASSERT_EQ(stats_of(heap).n_pending, 1);
	ASSERT_OK(heap_release(heap, offsets[3]));
	ASSERT_EQ(heap_take_freed(heap, got, 4), 2);
	ASSERT_MEMEQ(got, slots + 2, 2 * sizeof(got[0]));
	ASSERT_EQ(heap_take_freed(heap, got, 4), 0);
	heap_free(heap);
}

TEST(frees_of_what_is_no_allocation_and_second_frees_are_refused_with_a_sentence)
{
	struct heap *heap = heap_of(2, 0, MIB);
	uint64_t offset;
	uint32_t slot;

	ASSERT_OK(heap_malloc(heap, &(struct heap_request){.size = 4096, .label = "halo.c:17"}, &offset));
	ASSERT_ERR(heap_release(heap, offset + 8), EINVAL);
	ASSERT_TEXT("not the start of an allocation; it lies in allocation 1 (4096 bytes at offset 0x0, halo.c:17)");
	ASSERT_ERR(heap_release(heap, offset + 4096), EINVAL);
	ASSERT_TEXT("no allocation starts at offset 0x1000");
	ASSERT_ERR(heap_release(heap, 70 * GIB), EINVAL);
	ASSERT_OK(heap_release(heap, offset));
	ASSERT_ERR(heap_release(heap, offset), EINVAL);
	ASSERT_TEXT("this PE has freed allocation 1");
	ASSERT_EQ(heap_take_freed(heap, &slot, 1), 1);
	ASSERT_ERR(heap_release(heap, offset), EINVAL);
	ASSERT_ERR(heap_check_live(heap, offset), EINVAL);
	heap_free(heap);
}

TEST(a_list_of_a_pe_with_a_bad_slot_changes_nothing)
{
	struct heap *heap = heap_of(2, 0, MIB);
	uint32_t good = info_at(heap, get(heap, 64, 0)).slot;
	const uint32_t bad[] = {0, 1u << 30, UINT32_MAX, 63, good};
	uint64_t hole_bytes = stats_of(heap).hole_bytes;

	for (unsigned int i = 0; i < 5; i++) {
		ASSERT_ERR(heap_apply_freed(heap, 1, (uint32_t[]){good, bad[i]}, 2), EINVAL);
		ASSERT_EQ(info_at(heap, 0).n_freed, 0);
	}
	ASSERT_TEXT("PE 1 reports twice");
	ASSERT_ERR(heap_apply_freed(heap, 2, &good, 1), EINVAL);
	ASSERT_OK(heap_apply_freed(heap, 1, &good, 1));
	ASSERT_ERR(heap_apply_freed(heap, 1, &good, 1), EINVAL);
	ASSERT_EQ(stats_of(heap).hole_bytes, hole_bytes);
	ASSERT_OK(heap_apply_freed(heap, 0, &good, 1));
	ASSERT_EQ(stats_of(heap).hole_bytes, MIB);
	heap_free(heap);
}

TEST(frees_of_more_than_64_pes_are_told_apart)
{
	struct heap *heap = heap_of(200, 0, MIB);
	uint64_t offset = get(heap, 64, 0);
	uint32_t slot = info_at(heap, offset).slot;

	for (unsigned int round = 0; round < 2; round++) {
		for (uint32_t pe = 0; pe < 200; pe++) {
			ASSERT_EQ(stats_of(heap).n_live, 1);
			ASSERT_OK(heap_apply_freed(heap, pe, &slot, 1));
			if (pe < 199)
				ASSERT_ERR(heap_apply_freed(heap, pe, &slot, 1), EINVAL);
		}
		ASSERT_EQ(stats_of(heap).n_live, 0);
		ASSERT_EQ(get(heap, 64, 0), offset);
	}
	heap_free(heap);
}

TEST(memory_that_all_pes_free_in_one_call_is_a_hole_at_once)
{
	struct heap *heap = heap_of(2, 0, MIB);
	uint64_t offset = get(heap, MIB, 0);
	uint32_t slot = info_at(heap, offset).slot;

	ASSERT_OK(heap_apply_freed(heap, 1, &slot, 1));
	ASSERT_ERR(heap_free_agreed(heap, offset), EINVAL);
	ASSERT_TEXT("1 of 2 PEs have freed");
	ASSERT_OK(heap_apply_freed(heap, 0, &slot, 1));
	ASSERT_EQ(get(heap, MIB, 0), offset);
	/* A mark that came after the agreement goes with the allocation, and not to the next one in the same slot. */
	ASSERT_OK(heap_release(heap, offset));
	ASSERT_OK(heap_free_agreed(heap, offset));
	ASSERT_ERR(heap_free_agreed(heap, offset), EINVAL);
	ASSERT_EQ(heap_take_freed(heap, &slot, 1), 0);
	ASSERT_EQ(get(heap, MIB, 0), offset);
	ASSERT_OK(heap_release(heap, offset));
	ASSERT_EQ(heap_take_freed(heap, &slot, 1), 1);
	heap_free(heap);
}

TEST(marks_around_one_that_went_by_agreement_stay_in_their_order)
{
	for (unsigned int gone = 0; gone < 3; gone++) {
		struct heap *heap = heap_of(2, 0, MIB);
		uint64_t at[4];
		uint32_t slots[4];

		for (unsigned int i = 0; i < 4; i++)
			at[i] = get(heap, 64, 0);
		for (unsigned int i = 0; i < 3; i++)
			ASSERT_OK(heap_release(heap, at[i]));
		ASSERT_OK(heap_free_agreed(heap, at[gone]));
		ASSERT_EQ(stats_of(heap).n_pending, 2);
		ASSERT_OK(heap_release(heap, at[3]));
		ASSERT_EQ(heap_take_freed(heap, slots, 4), 3);
		ASSERT_EQ(slots[0], info_at(heap, at[gone ? 0 : 1]).slot);
		ASSERT_EQ(slots[1], info_at(heap, at[gone == 2 ? 1 : 2]).slot);
		ASSERT_EQ(slots[2], info_at(heap, at[3]).slot);
		heap_free(heap);
	}
}

/* Or metadata would grow for ever in a program that allocates and frees. */
TEST(slots_are_used_again)
{
	struct heap *heap = heap_of(2, 0, MIB);

	for (unsigned int i = 0; i < 10000; i++) {
		uint64_t a = get(heap, 100, 0), b = get(heap, 5000, 4096);

		ASSERT_LT(info_at(heap, b).slot, 8);
		ASSERT_OK(heap_release(heap, a));
		ASSERT_OK(heap_release(heap, b));
		agree(heap, 2);
	}
	heap_free(heap);
}

TEST(what_one_pe_has_marked_decides_nothing)
{
	struct heap *here = heap_of(2, 0, MIB), *there = heap_of(2, 0, MIB);
	uint64_t a = get(here, 4096, 0), b;

	ASSERT_EQ(get(there, 4096, 0), a);
	ASSERT_OK(heap_release(here, a));
	ASSERT_OK(heap_realloc(here, a, 8192, NULL, &b));
	ASSERT_OK(heap_realloc(there, a, 8192, NULL, &a));
	ASSERT_EQ(a, b);
	heap_free(here);
	heap_free(there);
}

/* ---- resizing */

TEST(realloc_grows_into_the_hole_behind_and_gives_back_what_it_does_not_need)
{
	struct heap *heap = heap_of(1, 0, MIB);
	uint64_t a = get(heap, 4096, 0), b = get(heap, 4096, 0), c = get(heap, 4096, 0), moved;

	ASSERT_OK(heap_release(heap, b));
	agree(heap, 1);
	ASSERT_OK(heap_realloc(heap, a, 8192, "x", &moved));
	ASSERT_EQ(moved, a);
	ASSERT_EQ(info_at(heap, a).usable, 8192);
	ASSERT_OK(heap_realloc(heap, a, 100, "x", &moved));
	ASSERT_EQ(moved, a);
	ASSERT_EQ(info_at(heap, a).usable, 128);
	ASSERT_EQ(get(heap, 8192 - 128, 0), a + 128);
	ASSERT_EQ(info_at(heap, c).size, 4096);
	ASSERT_EQ(stats_of(heap).live_bytes, 100 + 8192 - 128 + 4096);
	ASSERT_EQ(info_at(heap, a).number, 5);
	heap_free(heap);
}

TEST(realloc_moves_with_alignment_and_hints_when_there_is_no_room_and_the_old_place_is_a_hole)
{
	struct heap *heap = heap_of(1, 0, MIB);
	uint64_t a, wall, moved;

	ASSERT_OK(heap_malloc(heap, &(struct heap_request){.size = 4096, .align = 1024, .hints = 7}, &a));
	wall = get(heap, 64, 0);
	ASSERT_OK(heap_realloc(heap, a, 4097, NULL, &moved));
	ASSERT_GT(moved, wall);
	ASSERT_EQ(moved % 1024, 0);
	ASSERT_EQ(info_at(heap, moved).hints, 7);
	ASSERT_EQ(get(heap, 4096, 0), a);
	ASSERT_ERR(heap_realloc(heap, moved, MIB, NULL, &moved), ENOSPC);
	ASSERT_ERR(heap_realloc(heap, moved, UINT64_MAX, NULL, &moved), ENOMEM);
	ASSERT_EQ(info_at(heap, moved).size, 4097);
	heap_free(heap);
}

TEST(words_with_a_hint_have_cache_lines_of_their_own_also_when_they_shrink_or_move)
{
	for (uint64_t zone = 0; zone <= 64; zone += 32) {
		struct heap *heap = heap_of(1, zone, MIB);

		for (uint64_t hints = 0; hints < 8; hints++) {
			bool is_alone = hints & HEAP_HINTS_OWN_LINES;
			uint64_t before = get(heap, 8, 0), word, behind, moved;

			ASSERT_OK(heap_malloc(heap, &(struct heap_request){.size = 8, .hints = hints}, &word));
			behind = get(heap, 8, 0);
			ASSERT_EQ(info_at(heap, word).size, 8);
			if (is_alone) {
				ASSERT_EQ(word % HEAP_LINE, 0);
				ASSERT_NE(before / HEAP_LINE, word / HEAP_LINE);
				ASSERT_NE(behind / HEAP_LINE, word / HEAP_LINE);
			} else if (!zone && !hints) {
				ASSERT_EQ(behind, word + HEAP_GRAIN);
			}
			/* Behind its line is no room, so more than a line moves, and comes back to less than one. */
			ASSERT_OK(heap_realloc(heap, word, 1000, NULL, &moved));
			ASSERT_OK(heap_realloc(heap, moved, 8, NULL, &moved));
			ASSERT_EQ(moved % HEAP_LINE, 0);
			ASSERT_NE(get(heap, 8, 0) / HEAP_LINE, moved / HEAP_LINE);
		}
		heap_free(heap);
	}
}

/* Grown to a cache line or more, it must not stay where it shares one. */
TEST(realloc_from_less_than_a_cache_line_gets_one_of_its_own)
{
	struct heap *heap = heap_of(1, 0, MIB);
	uint64_t a = get(heap, 16, 0), b = get(heap, 16, 0), moved;

	ASSERT_OK(heap_realloc(heap, b, 64, NULL, &moved));
	ASSERT_EQ(moved, 64);
	ASSERT_OK(heap_realloc(heap, a, 64, NULL, &moved));
	ASSERT_EQ(moved, 0);
	heap_free(heap);
}

TEST(realloc_of_nothing_allocates_and_to_0_frees)
{
	struct heap *heap = heap_of(2, 0, MIB);
	uint64_t a, none;

	ASSERT_OK(heap_realloc(heap, HEAP_NONE, 4096, "r", &a));
	ASSERT_STREQ(info_at(heap, a).label, "r");
	ASSERT_OK(heap_realloc(heap, a, 0, NULL, &none));
	ASSERT_EQ(none, HEAP_NONE);
	ASSERT_EQ(stats_of(heap).hole_bytes, MIB);
	ASSERT_ERR(heap_realloc(heap, a, 64, NULL, &a), EINVAL);
	heap_free(heap);
}

/* ---- asking */

TEST(an_allocation_is_found_by_each_of_its_bytes)
{
	struct heap *heap = heap_of(1, 0, MIB);
	uint64_t a = get(heap, 100, 0), b = get(heap, 5000, 4096);
	struct heap_info info;

	ASSERT_EQ(info_at(heap, a + 127).offset, a);
	ASSERT_ERR(heap_find(heap, a + 128, &info), ENOENT);
	ASSERT_EQ(info_at(heap, b + 4999).offset, b);
	ASSERT_ERR(heap_find(heap, b - 1, &info), ENOENT);
	ASSERT_ERR(heap_find(heap, HEAP_NONE, &info), ENOENT);
	heap_free(heap);
}

TEST(a_walk_shows_all_blocks_of_all_chunks_with_number_and_label)
{
	struct heap *heap = heap_of(2, 0, 8192);
	struct heap_walk walk = {0};
	struct heap_info info;
	uint64_t a;

	ASSERT_OK(heap_malloc(heap, &(struct heap_request){.size = 64, .align = 4096, .label = "first"}, &a));
	ASSERT_OK(heap_add_chunk(heap, MIB, 4096));
	ASSERT_OK(heap_malloc(heap, &(struct heap_request){.size = 8192 - 64, .label = "second"}, &a));
	ASSERT_EQ(a, 64);
	ASSERT_OK(heap_release(heap, a));
	ASSERT(heap_walk(heap, &walk, &info));
	ASSERT_STREQ(info.label, "first");
	ASSERT_EQ(info.number, 1);
	ASSERT(heap_walk(heap, &walk, &info));
	ASSERT_STREQ(info.label, "second");
	ASSERT(info.is_freed_here);
	ASSERT_EQ(info.n_freed, 0);
	ASSERT(heap_walk(heap, &walk, &info));
	ASSERT(info.is_hole);
	ASSERT_EQ(info.offset, MIB);
	ASSERT(!heap_walk(heap, &walk, &info));
	ASSERT(!heap_walk(heap, &walk, &info));
	heap_free(heap);
}

TEST(zones_enclose_the_bytes_that_were_asked_for_exactly)
{
	struct heap *heap = heap_of(1, 64, MIB);

	for (uint64_t size = 1; size < 200; size += 9) {
		for (uint64_t align = 1; align <= 8192; align *= 16) {
			struct heap_info info = info_at(heap, get(heap, size, align));
			struct heap_span before = heap_zone_before(&info), behind = heap_zone_behind(&info);

			ASSERT_EQ(info.offset % align, 0);
			ASSERT_EQ(before.offset, info.block_start);
			ASSERT_EQ(before.offset + before.bytes, info.offset);
			ASSERT_EQ(before.bytes, 64);
			ASSERT_EQ(behind.offset, info.offset + size);
			ASSERT_GE(behind.bytes, 64);
			ASSERT_EQ(behind.offset + behind.bytes, info.block_start + info.block_bytes);
			ASSERT_EQ(info.usable, size);
		}
	}
	heap_free(heap);
}

TEST(attributes_beyond_the_limits_are_refused)
{
	struct heap *heap;

	ASSERT_ERR(heap_new(&(struct heap_attr){.n_pes = 0, .range_bytes = MIB}, &heap), EINVAL);
	ASSERT_ERR(heap_new(&(struct heap_attr){.n_pes = 1, .range_bytes = UINT64_MAX}, &heap), EINVAL);
	ASSERT_ERR(heap_new(&(struct heap_attr){.n_pes = 1, .range_bytes = MIB, .zone_bytes = 8}, &heap), EINVAL);
	ASSERT_ERR(heap_new(&(struct heap_attr){.n_pes = 1, .range_bytes = MIB, .zone_bytes = 2 * MIB}, &heap), EINVAL);
	heap_free(NULL);
}
