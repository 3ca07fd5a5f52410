/* SPDX-License-Identifier: Apache-2.0 */
/* Every status has a name, a sentence and an errno; unknown ones are answered. */
#include <errno.h>
#include <string.h>

#include "proto/status.h"
#include "tests/lib/test.h"

static const unsigned int numbers[] = {
#define X(name, number, err, text) number,
	SHMD_STATUS_LIST(X)
#undef X
};

TEST(numbers_are_used_once)
{
	for (unsigned int i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		for (unsigned int j = 0; j < i; j++)
			ASSERT_NE(numbers[i], numbers[j]);
}

/* As they were first released; a number never changes its meaning. */
TEST(numbers_are_frozen)
{
	ASSERT_EQ(SHMD_STATUS_OK, 0);
	ASSERT_EQ(SHMD_STATUS_INTERNAL, 1);
	ASSERT_EQ(SHMD_STATUS_PROTOCOL, 2);
	ASSERT_EQ(SHMD_STATUS_VERSION, 3);
	ASSERT_EQ(SHMD_STATUS_UNKNOWN_REQUEST, 4);
	ASSERT_EQ(SHMD_STATUS_INVALID, 5);
	ASSERT_EQ(SHMD_STATUS_PERMISSION, 6);
	ASSERT_EQ(SHMD_STATUS_NOT_FOUND, 7);
	ASSERT_EQ(SHMD_STATUS_BUSY, 8);
	ASSERT_EQ(SHMD_STATUS_EXISTS, 9);
	ASSERT_EQ(SHMD_STATUS_NO_MEMORY, 10);
	ASSERT_EQ(SHMD_STATUS_QUOTA_SESSIONS, 16);
	ASSERT_EQ(SHMD_STATUS_QUOTA_QPS, 17);
	ASSERT_EQ(SHMD_STATUS_QUOTA_CQS, 18);
	ASSERT_EQ(SHMD_STATUS_QUOTA_BYTES, 19);
	ASSERT_EQ(SHMD_STATUS_QUOTA_FDS, 20);
	ASSERT_EQ(SHMD_STATUS_QUOTA_MRS, 21);
	ASSERT_EQ(SHMD_STATUS_QUOTA_PUBLISHED, 22);
	ASSERT_EQ(SHMD_STATUS_QUOTA_PES, 26);
	ASSERT_EQ(SHMD_STATUS_LIMIT_REQUEST, 23);
	ASSERT_EQ(SHMD_STATUS_NIC_LIMIT, 24);
	ASSERT_EQ(SHMD_STATUS_QUOTA_MAPS, 25);
	ASSERT_EQ(SHMD_STATUS_NO_NIC, 32);
	ASSERT_EQ(SHMD_STATUS_NIC_LOST, 33);
	ASSERT_EQ(SHMD_STATUS_DOORBELL, 34);
	ASSERT_EQ(SHMD_STATUS_UNREACHABLE, 35);
	ASSERT_EQ(SHMD_STATUS_QP_STATE, 36);
	ASSERT_EQ(SHMD_STATUS_BACKEND, 37);
	ASSERT_EQ(SHMD_STATUS_MEM_KIND, 48);
	ASSERT_EQ(SHMD_STATUS_MEM_SEALS, 49);
	ASSERT_EQ(SHMD_STATUS_MEM_RANGE, 50);
	ASSERT_EQ(SHMD_STATUS_MEM_FD, 51);
	ASSERT_EQ(SHMD_STATUS_FDS, 52);
	ASSERT_EQ(SHMD_STATUS_NOT_PUBLISHED, 53);
	ASSERT_EQ(SHMD_STATUS_DRAINING, 64);
	ASSERT_EQ(SHMD_STATUS_SHUTDOWN, 65);
	ASSERT_EQ(SHMD_STATUS_KILLED, 66);
}

TEST(every_status_has_name_text_and_errno)
{
#define X(name, number, err, sentence)                                                             \
	ASSERT_STREQ(status_name(number), #name);                                                  \
	ASSERT_STREQ(status_text(number), sentence);                                               \
	ASSERT_EQ(status_to_errno(number), err);                                                   \
	ASSERT_EQ(err < 0, number != 0);
	SHMD_STATUS_LIST(X)
#undef X
}

TEST(unknown_statuses_are_answered)
{
	ASSERT_STREQ(status_name(12345), "UNKNOWN");
	ASSERT_GT(strlen(status_text(UINT32_MAX)), 10);
	ASSERT_EQ(status_to_errno(12345), -EIO);
}
