/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/page.h"

#include <string.h>

#include "proto/base/cleanup.h"
#include "tests/lib/test.h"

static const uint64_t pages[] = {4096, 16384, 65536};
#define N_PAGES (sizeof(pages) / sizeof(pages[0]))

TEST(a_range_starts_at_a_page_and_ends_with_its_bytes)
{
	static const uint64_t offsets[] = {0, 8, 4096, 4104, 8192, 61440, 65536, 69632, UINT64_C(1) << 40};

	for (unsigned int i = 0; i < N_PAGES; i++) {
		for (unsigned int k = 0; k < sizeof(offsets) / sizeof(offsets[0]); k++) {
			struct page_range range;

			ASSERT(!page_range_overflows(offsets[k], 4096, pages[i], &range));
			ASSERT_EQ(range.start % pages[i], 0);
			ASSERT_LT(range.head, pages[i]);
			ASSERT_EQ(range.start + range.head, offsets[k]);
			ASSERT_EQ(range.start + range.bytes, offsets[k] + 4096);
		}
	}
}

/* The second doorbell page of a file, where the kernel's page holds sixteen of them. */
TEST(small_pages_lie_inside_a_large_one)
{
	struct page_range range;

	ASSERT(!page_range_overflows(4096, 4096, 65536, &range));
	ASSERT_EQ(range.start, 0);
	ASSERT_EQ(range.head, 4096);
	ASSERT_EQ(range.bytes, 8192);
	ASSERT(!page_range_overflows(65536 + 4096, 65536, 65536, &range));
	ASSERT_EQ(range.start, 65536);
	ASSERT_EQ(range.head, 4096);
	ASSERT_EQ(range.bytes, 65536 + 4096);
}

TEST(sizes_beyond_off_t_are_refused)
{
	struct page_range range;

	for (unsigned int i = 0; i < N_PAGES; i++) {
		ASSERT(page_range_overflows(UINT64_MAX - 4095, 4096, pages[i], &range));
		ASSERT(page_range_overflows(INT64_MAX - 4094, 4096, pages[i], &range));
		ASSERT(!page_range_overflows(INT64_MAX - 4095, 4095, pages[i], &range));
	}
	ASSERT_EQ(map_shared(-1, UINT64_MAX, 8, PROT_READ), MAP_FAILED);
	ASSERT_EQ(errno, EOVERFLOW);
}

TEST(bytes_at_any_offset_can_be_mapped)
{
	static const uint64_t offsets[] = {0, 8, 4096, 12288, 65536, 69640};
	_cleanup_close_ int fd = memfd_create("pages", MFD_CLOEXEC);
	uint64_t seen;

	ASSERT_OK(ftruncate(fd, 3 * 65536));
	for (unsigned int i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		uint64_t *word = map_shared(fd, offsets[i], 4096, PROT_READ | PROT_WRITE);

		ASSERT_NE(word, MAP_FAILED);
		*word = 77 + i;
		ASSERT_EQ(pread(fd, &seen, 8, (off_t)offsets[i]), 8);
		ASSERT_EQ(seen, 77 + i);
		unmap_shared(word, 4096);
		/* All of it is gone: the address is free again. */
		ASSERT_LT(msync((void *)((uintptr_t)word & ~(uintptr_t)(page_bytes() - 1)), page_bytes(), MS_ASYNC), 0);
	}
}
