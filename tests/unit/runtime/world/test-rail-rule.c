/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/world/rail-rule.h"
#include "tests/lib/test.h"

#include <shmd.h>

TEST(a_number_of_nics_is_taken_as_it_is_up_to_the_most)
{
	ASSERT_EQ(rail_count(1, 8, 1), 1);
	ASSERT_EQ(rail_count(2, 1, 8), 2);
	ASSERT_EQ(rail_count(SHMD_DEV_RAILS, 0, 0), SHMD_DEV_RAILS);
	ASSERT_EQ(rail_count(SHMD_DEV_RAILS + 1, 0, 0), SHMD_DEV_RAILS);
	ASSERT_EQ(rail_count(UINT64_C(1) << 32, 0, 0), SHMD_DEV_RAILS);
}

TEST(an_equal_share_is_never_more_than_all_pes_can_have_and_never_none)
{
	ASSERT_EQ(rail_count(0, 8, 2), 4);
	ASSERT_EQ(rail_count(0, 8, 3), 2);
	ASSERT_EQ(rail_count(0, 8, 8), 1);
	ASSERT_EQ(rail_count(0, 2, 8), 1);
	ASSERT_EQ(rail_count(0, 0, 1), 1);
	ASSERT_EQ(rail_count(0, 64, 1), SHMD_DEV_RAILS);
	ASSERT_EQ(rail_count(0, 8, 0), 1);
}

TEST(a_rail_leads_to_the_same_one_of_a_peer_or_to_its_rails_in_turn)
{
	for (uint32_t n = 1; n <= SHMD_DEV_RAILS; n++)
		for (uint32_t rail = 0; rail < SHMD_DEV_RAILS; rail++) {
			ASSERT_LT(rail_at_peer(rail, n), n);
			if (rail < n)
				ASSERT_EQ(rail_at_peer(rail, n), rail);
		}
	ASSERT_EQ(rail_at_peer(3, 2), 1);
	ASSERT_EQ(rail_at_peer(2, 2), 0);
}

TEST(a_context_goes_to_the_usable_rail_with_the_fewest)
{
	const uint32_t first[] = {1, 0, 0, 0}, full[] = {2, 2, 2, 2}, third[] = {2, 2, 1, 2};
	const bool all[] = {true, true, true, true}, not_1[] = {true, false, true, true}, none[] = {false, false, false, false},
		   last[] = {false, false, false, true};

	ASSERT_EQ(rail_of_new_ctx(first, all, 4), 1);
	ASSERT_EQ(rail_of_new_ctx(first, not_1, 4), 2);
	ASSERT_EQ(rail_of_new_ctx(first, all, 1), 0);
	ASSERT_EQ(rail_of_new_ctx(full, all, 4), 0);
	ASSERT_EQ(rail_of_new_ctx(third, all, 4), 2);
	ASSERT_EQ(rail_of_new_ctx(third, last, 4), 3);
	ASSERT_EQ(rail_of_new_ctx(third, none, 4), 0);
}
