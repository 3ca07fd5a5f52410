/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoint addresses: what encode writes comes back, and nothing else is taken. */
#include <errno.h>
#include <string.h>

#include "daemon/nic/nic.h"
#include "tests/lib/test.h"

static struct nic_addr sample(void)
{
	struct nic_addr addr = {
		.link = NIC_LINK_ETHERNET,
		.qp_type = NIC_QP_RC,
		.mtu_log2 = 12,
		.qpn = 0xabcdef,
		.psn = 0x123456,
		.lid = 0xbeef,
		.dc_key = 0x1122334455667788ull,
	};

	for (int i = 0; i < 16; i++)
		addr.gid[i] = (uint8_t)(0xf0 + i);
	for (int i = 0; i < 6; i++)
		addr.mac[i] = (uint8_t)(0x10 + i);
	return addr;
}

TEST(addr_round_trips)
{
	struct nic_addr addr = sample(), back;
	uint8_t buf[NIC_ADDR_BYTES];
	size_t bytes = nic_addr_encode(&addr, buf);

	memset(&back, 0x5a, sizeof(back));
	ASSERT_LE(bytes, NIC_ADDR_BYTES);
	ASSERT_OK(nic_addr_decode(buf, bytes, &back));
	ASSERT_EQ(back.link, addr.link);
	ASSERT_EQ(back.qp_type, addr.qp_type);
	ASSERT_EQ(back.mtu_log2, addr.mtu_log2);
	ASSERT_EQ(back.qpn, addr.qpn);
	ASSERT_EQ(back.psn, addr.psn);
	ASSERT_EQ(back.lid, addr.lid);
	ASSERT_EQ(back.dc_key, addr.dc_key);
	ASSERT_MEMEQ(back.gid, addr.gid, 16);
	ASSERT_MEMEQ(back.mac, addr.mac, 6);
}

/* The bytes themselves: peers of another version of the daemon read them. */
TEST(addr_version_1_is_these_bytes)
{
	static const uint8_t expected[] = {
		1, 1, 1, 12, 0, 0xab, 0xcd, 0xef, 0, 0x12, 0x34, 0x56, 0xbe, 0xef,
		0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7,
		0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff,
		0x10, 0x11, 0x12, 0x13, 0x14, 0x15,
		0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,
	};
	struct nic_addr addr = sample();
	uint8_t buf[NIC_ADDR_BYTES];

	ASSERT_EQ(nic_addr_encode(&addr, buf), sizeof(expected));
	ASSERT_MEMEQ(buf, expected, sizeof(expected));
}

static void refuse(size_t at, uint8_t value)
{
	struct nic_addr addr = sample(), back;
	uint8_t buf[NIC_ADDR_BYTES];
	size_t bytes = nic_addr_encode(&addr, buf);

	buf[at] = value;
	ASSERT_ERR(nic_addr_decode(buf, bytes, &back), EINVAL);
}

TEST(addr_refuses_what_encode_does_not_write)
{
	struct nic_addr addr = sample(), back = {0};
	uint8_t buf[NIC_ADDR_BYTES];
	size_t bytes = nic_addr_encode(&addr, buf);

	ASSERT_ERR(nic_addr_decode(buf, 0, &back), EINVAL);
	ASSERT_ERR(nic_addr_decode(buf, bytes - 1, &back), EINVAL);
	ASSERT_ERR(nic_addr_decode(buf, bytes + 1, &back), EINVAL);
	refuse(0, 0); /* version */
	refuse(0, 2);
	refuse(1, 0); /* link */
	refuse(1, 3);
	refuse(2, 0); /* QP type */
	refuse(2, 4);
	refuse(3, 7); /* MTU */
	refuse(3, 13);
	refuse(4, 1); /* qpn above 24 bits */
	refuse(8, 1); /* psn above 24 bits */
	ASSERT_EQ(back.qpn, 0u);
}

TEST(addr_refuses_special_qpns)
{
	static const uint32_t bad[] = {0, 1, 0xffffff};
	struct nic_addr addr = sample(), back;
	uint8_t buf[NIC_ADDR_BYTES];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		addr.qpn = bad[i];
		ASSERT_ERR(nic_addr_decode(buf, nic_addr_encode(&addr, buf), &back), EINVAL);
	}
}
