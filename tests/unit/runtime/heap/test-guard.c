/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <shmemclient.h>

#include "libclient/runtime/heap/heap-guard.h"

#define BYTES (UINT64_C(1) << 16)

static uint8_t *base;
static struct heap *heap;

static void open_heap(void)
{
	base = calloc(1, BYTES);
	ASSERT(base);
	ASSERT_OK(heap_new(&(struct heap_attr){.n_pes = 1, .range_bytes = BYTES, .zone_bytes = HEAP_GUARD_ZONE_BYTES}, &heap));
	ASSERT_OK(heap_add_chunk(heap, 0, BYTES));
}

static void close_heap(void)
{
	heap_free(heap);
	free(base);
}

static struct heap_info info_at(uint64_t offset)
{
	struct heap_info info;

	ASSERT_OK(heap_find(heap, offset, &info));
	return info;
}

/* Filled, as the runtime does it, and then used up to its last byte. */
static struct heap_info get(uint64_t size, const char *label)
{
	struct heap_info info;
	uint64_t offset;

	ASSERT_OK(heap_reserve(heap));
	ASSERT_OK(heap_malloc(heap, &(struct heap_request){.size = size, .label = label}, &offset));
	info = info_at(offset);
	heap_guard_fill(&info, base);
	memset(base + offset, 0xee, size);
	return info;
}

TEST(writes_to_all_bytes_of_an_allocation_are_no_damage)
{
	uint64_t n_damaged;

	open_heap();
	for (uint64_t size = 1; size < 300; size += 7)
		get(size, NULL);
	ASSERT_OK(heap_guard_check_all(heap, base, &n_damaged));
	ASSERT_EQ(n_damaged, 0);
	close_heap();
}

TEST(one_byte_past_either_end_is_found_for_every_size)
{
	open_heap();
	for (uint64_t size = 1; size < 150; size++) {
		struct heap_info info = get(size, NULL);

		base[info.offset + size] ^= 1;
		ASSERT_ERR(heap_guard_check(&info, base), EFAULT);
		ASSERT(strstr(shmd_error_text(), "past the end of allocation"));
		ASSERT(strstr(shmd_error_text(), ": 1 byte changed, the first 1 behind it"));
		base[info.offset + size] ^= 1;
		base[info.offset - 1] ^= 1;
		ASSERT_ERR(heap_guard_check(&info, base), EFAULT);
		ASSERT(strstr(shmd_error_text(), "before the start of allocation"));
		base[info.offset - 1] ^= 1;
		ASSERT_OK(heap_guard_check(&info, base));
	}
	close_heap();
}

TEST(the_sentence_names_the_allocation_and_the_bytes)
{
	struct heap_info info;

	open_heap();
	info = get(100, "halo.c:17");
	memset(base + info.offset + 104, 0, 3);
	ASSERT_ERR(heap_guard_check(&info, base), EFAULT);
	ASSERT_STREQ(shmd_error_text(),
		     "a PE wrote past the end of allocation 1 (100 bytes at offset 0x40, halo.c:17): 3 bytes changed, "
					"the first 5 behind it");
	memset(base + info.offset - 20, 0, 4);
	ASSERT_ERR(heap_guard_check(&info, base), EFAULT);
	ASSERT_STREQ(shmd_error_text(),
		     "a PE wrote before the start of allocation 1 (100 bytes at offset 0x40, halo.c:17): 4 bytes "
					"changed, the nearest 17 before it");
	close_heap();
}

/* A program that clears or fills too much writes equal bytes, and each of them differs from the pattern somewhere. */
TEST(a_zone_full_of_any_one_byte_is_damage)
{
	struct heap_info info;

	open_heap();
	info = get(64, NULL);
	for (int byte = 0; byte < 256; byte++) {
		memset(base + info.offset + 64, byte, 8);
		ASSERT_ERR(heap_guard_check(&info, base), EFAULT);
	}
	close_heap();
}

TEST(all_damaged_allocations_are_counted_and_the_first_is_named)
{
	struct heap_info first, second;
	uint64_t n_damaged;

	open_heap();
	get(64, NULL);
	first = get(64, NULL);
	get(64, NULL);
	second = get(64, NULL);
	base[first.offset + 64] ^= 1;
	base[second.offset + 64] ^= 1;
	ASSERT_ERR(heap_guard_check_all(heap, base, &n_damaged), EFAULT);
	ASSERT_EQ(n_damaged, 2);
	ASSERT(strstr(shmd_error_text(), "allocation 2 "));
	close_heap();
}

TEST(zones_move_with_an_allocation_that_is_resized_in_place)
{
	struct heap_info info;
	uint64_t offset;

	open_heap();
	info = get(1000, NULL);
	for (uint64_t size = 900; size < 1300; size += 50) {
		ASSERT_OK(heap_realloc(heap, info.offset, size, NULL, &offset));
		ASSERT_EQ(offset, info.offset);
		info = info_at(offset);
		heap_guard_fill(&info, base);
		memset(base + offset, 0x11, size);
		ASSERT_OK(heap_guard_check(&info, base));
		base[offset + size]++;
		ASSERT_ERR(heap_guard_check(&info, base), EFAULT);
		base[offset + size]--;
	}
	close_heap();
}

TEST(an_allocation_without_zones_has_nothing_to_fill_or_check)
{
	uint8_t bytes[4096] = {0}, zeros[4096] = {0};
	struct heap_info info;
	uint64_t offset;

	ASSERT_OK(heap_new(&(struct heap_attr){.n_pes = 1, .range_bytes = 4096}, &heap));
	ASSERT_OK(heap_add_chunk(heap, 0, 4096));
	ASSERT_OK(heap_malloc(heap, &(struct heap_request){.size = 100}, &offset));
	info = info_at(offset);
	heap_guard_fill(&info, bytes);
	ASSERT_MEMEQ(bytes, zeros, sizeof(bytes));
	ASSERT_OK(heap_guard_check(&info, bytes));
	heap_free(heap);
}

static void note(void *arg, const struct heap_info *info)
{
	char text[HEAP_TEXT_BYTES];

	strcat(arg, heap_info_text(info, text));
	strcat(arg, ";");
}

TEST(leaks_are_what_this_pe_has_not_freed)
{
	struct heap_leaks leaks;
	struct heap_info info;
	char text[1024] = "";

	open_heap();
	get(10, "a");
	info = get(20, "b");
	get(30, "c");
	get(40, NULL);
	ASSERT_OK(heap_release(heap, info.offset));
	heap_leaks(heap, 2, note, text, &leaks);
	ASSERT_EQ(leaks.n, 3);
	ASSERT_EQ(leaks.bytes, 80);
	ASSERT_STREQ(text, "allocation 1 (10 bytes at offset 0x40, a);allocation 3 (30 bytes at offset 0x170, c);");
	heap_leaks(heap, 100, NULL, NULL, &leaks);
	ASSERT_EQ(leaks.n, 3);
	close_heap();
}
