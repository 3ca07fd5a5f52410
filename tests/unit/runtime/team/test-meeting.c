/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "libclient/runtime/team/meeting.h"
#include "tests/lib/test.h"

static struct meeting_entry sample(uint32_t step)
{
	struct meeting_entry entry = {
		.tag = 7, .list = 8, .nonce = 9, .view = 10, .offer = {.ids = 0xff << step, .is_short = 1}, .step = step, .place = 2};

	meeting_entry_seal(&entry);
	return entry;
}

TEST(zeroed_memory_is_no_entry)
{
	struct meeting_entry entry = {0};

	ASSERT(!meeting_entry_is_whole(&entry));
	meeting_entry_seal(&entry);
	ASSERT(!meeting_entry_is_whole(&entry));
	entry = sample(1);
	ASSERT(meeting_entry_is_whole(&entry));
}

TEST(an_entry_with_any_bit_of_another_is_not_whole)
{
	for (size_t bit = 0; bit < 8 * sizeof(struct meeting_entry); bit++) {
		struct meeting_entry entry = sample(1);

		((uint8_t *)&entry)[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ASSERT(!meeting_entry_is_whole(&entry));
	}
}

/* As a reader sees it while its owner writes the next one over it. */
TEST(an_entry_that_is_half_written_is_not_whole)
{
	const struct meeting_entry before = sample(1), after = sample(3);

	for (size_t bytes = 0; bytes <= sizeof(before); bytes++) {
		struct meeting_entry mixed = before;

		memcpy(&mixed, &after, bytes);
		ASSERT_EQ(meeting_entry_is_whole(&mixed), !memcmp(&mixed, &before, sizeof(mixed)) || !memcmp(&mixed, &after, sizeof(mixed)));
	}
}

TEST(lists_that_differ_have_other_names)
{
	const int list[] = {1, 2, 3}, other[] = {1, 3, 2};

	ASSERT_EQ(meeting_list(list, 3), meeting_list((const int[]){1, 2, 3}, 3));
	ASSERT_NE(meeting_list(list, 3), meeting_list(other, 3));
	ASSERT_NE(meeting_list(list, 3), meeting_list(list, 2));
	ASSERT_NE(meeting_list(list, 3), meeting_list(NULL, 3));
	ASSERT_NE(meeting_list(NULL, 2), meeting_list(NULL, 3));
}

TEST(a_view_names_each_pe_and_its_call)
{
	uint64_t view = meeting_view(meeting_view(0, 1, 11), 2, 12);

	ASSERT_NE(view, meeting_view(meeting_view(0, 2, 12), 1, 11));
	ASSERT_NE(view, meeting_view(meeting_view(0, 1, 11), 2, 13));
	ASSERT_NE(view, meeting_view(meeting_view(0, 1, 12), 2, 11));
}
