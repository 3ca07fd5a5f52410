/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/nsec.h"
#include "tests/lib/test.h"

TEST(the_clock_never_goes_back)
{
	uint64_t last = nsec_now();

	ASSERT_GT(last, 0);
	for (int i = 0; i < 1000; i++) {
		uint64_t now = nsec_now();

		ASSERT_GE(now, last);
		last = now;
	}
}

TEST(timespec_and_back)
{
	uint64_t nsec = 3 * NSEC_PER_SEC + 999999999;
	struct timespec ts = nsec_to_timespec(nsec);

	ASSERT_EQ(ts.tv_sec, 3);
	ASSERT_EQ(ts.tv_nsec, 999999999);
	ASSERT_EQ(nsec_from_timespec(&ts), nsec);
}

TEST(adding_stops_at_for_ever)
{
	ASSERT_EQ(nsec_add(1, 2), 3);
	ASSERT_EQ(nsec_add(5, UINT64_MAX), UINT64_MAX);
	ASSERT_EQ(nsec_add(UINT64_MAX - 1, 1), UINT64_MAX);
	ASSERT_EQ(nsec_add(UINT64_MAX - 1, 2), UINT64_MAX);
}
