/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/gid.h"
#include "tests/lib/test.h"

static enum gid_reach of_ipv4(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
	const uint8_t bytes[GID_BYTES] = {[10] = 0xff, 0xff, a, b, c, d};

	ASSERT(gid_is_ipv4(bytes));
	return gid_reach(bytes);
}

TEST(ipv4_addresses_reach_as_far_as_their_block)
{
	ASSERT_EQ(of_ipv4(10, 0, 0, 1), GID_REACHES_ALL);
	ASSERT_EQ(of_ipv4(192, 168, 1, 1), GID_REACHES_ALL);
	ASSERT_EQ(of_ipv4(223, 255, 255, 254), GID_REACHES_ALL);
	ASSERT_EQ(of_ipv4(169, 253, 0, 1), GID_REACHES_ALL);
	ASSERT_EQ(of_ipv4(169, 254, 0, 1), GID_REACHES_NEIGHBOURS);
	ASSERT_EQ(of_ipv4(0, 0, 0, 0), GID_REACHES_NOBODY);
	ASSERT_EQ(of_ipv4(127, 0, 0, 1), GID_REACHES_NOBODY);
	ASSERT_EQ(of_ipv4(224, 0, 0, 1), GID_REACHES_NOBODY);
	ASSERT_EQ(of_ipv4(240, 0, 0, 1), GID_REACHES_NOBODY);
	ASSERT_EQ(of_ipv4(255, 255, 255, 255), GID_REACHES_NOBODY);
}

TEST(ipv6_addresses_reach_as_far_as_their_block)
{
	ASSERT_EQ(gid_reach((const uint8_t[GID_BYTES]){0x20, 0x01, 0x0d, 0xb8, [15] = 1}), GID_REACHES_ALL);
	ASSERT_EQ(gid_reach((const uint8_t[GID_BYTES]){0xfd, [15] = 1}), GID_REACHES_ALL);
	ASSERT_EQ(gid_reach((const uint8_t[GID_BYTES]){0xfe, 0x80, [15] = 1}), GID_REACHES_NEIGHBOURS);
	ASSERT_EQ(gid_reach((const uint8_t[GID_BYTES]){0xfe, 0xbf, [15] = 1}), GID_REACHES_NEIGHBOURS);
	ASSERT_EQ(gid_reach((const uint8_t[GID_BYTES]){0xff, 0x02, [15] = 1}), GID_REACHES_NOBODY);
	ASSERT_EQ(gid_reach((const uint8_t[GID_BYTES]){[15] = 1}), GID_REACHES_NOBODY);
	ASSERT_EQ(gid_reach((const uint8_t[GID_BYTES]){0}), GID_REACHES_NOBODY);
}
