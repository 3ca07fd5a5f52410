/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/overflow.h"
#include "tests/lib/test.h"

TEST(arithmetic_that_does_not_fit_says_so)
{
	uint32_t small;
	uint64_t sum;

	ASSERT(!add_overflows(UINT64_MAX - 1, UINT64_C(1), &sum));
	ASSERT_EQ(sum, UINT64_MAX);
	ASSERT(add_overflows(UINT64_MAX, UINT64_C(1), &sum));
	ASSERT(!mul_overflows(UINT64_C(1) << 32, (UINT64_C(1) << 32) - 1, &sum));
	ASSERT(mul_overflows(UINT64_C(1) << 32, UINT64_C(1) << 32, &sum));
	ASSERT(mul_overflows(UINT64_C(1) << 31, 2, &small)); /* the target's width counts */
}

TEST(a_range_fits_up_to_its_last_byte)
{
	ASSERT(range_fits(0, 0, 0));
	ASSERT(range_fits(10, 0, 10));
	ASSERT(range_fits(4, 6, 10));
	ASSERT(!range_fits(4, 7, 10));
	ASSERT(!range_fits(11, 0, 10));
	ASSERT(!range_fits(UINT64_MAX, 2, 10));
	ASSERT(!range_fits(2, UINT64_MAX, 10));
	ASSERT(range_fits(1, UINT64_MAX - 1, UINT64_MAX));
}

TEST(alignment_goes_up_or_overflows)
{
	uint64_t aligned = 1;

	ASSERT(!align_up_overflows(0, 4096, &aligned));
	ASSERT_EQ(aligned, 0);
	ASSERT(!align_up_overflows(1, 4096, &aligned));
	ASSERT_EQ(aligned, 4096);
	ASSERT(!align_up_overflows(4096, 4096, &aligned));
	ASSERT_EQ(aligned, 4096);
	ASSERT(align_up_overflows(UINT64_MAX - 4094, 4096, &aligned));
	ASSERT(!align_up_overflows(UINT64_MAX - 4095, 4096, &aligned));
	ASSERT_EQ(aligned, UINT64_MAX - 4095);
}
