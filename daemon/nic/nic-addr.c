/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoint addresses on the wire.
 *
 * Clients carry these bytes between nodes and never look inside; they come back from another client, so decode
 * treats them as hostile. Version 1 is 44 bytes, big-endian:
 *
 *	 0 version   1 link   2 QP type   3 log2 of the MTU   4 qpn (32)   8 psn (32)   12 lid (16)
 *	14 gid (16 bytes)   30 mac (6 bytes)   36 dc_key (64)
 *
 * Pure; any thread.
 */
#include "daemon/nic/nic.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#define ADDR_VERSION 1u
#define ADDR_BYTES 44u
#define ADDR_MAX_24 0xffffffu

_Static_assert(ADDR_BYTES <= NIC_ADDR_BYTES, "an address fits its limit");

size_t nic_addr_encode(const struct nic_addr *addr, uint8_t buf[NIC_ADDR_BYTES])
{
	uint32_t qpn_be = htobe32(addr->qpn), psn_be = htobe32(addr->psn);
	uint16_t lid_be = htobe16(addr->lid);
	uint64_t dc_key_be = htobe64(addr->dc_key);

	buf[0] = ADDR_VERSION;
	buf[1] = addr->link;
	buf[2] = addr->qp_type;
	buf[3] = addr->mtu_log2;
	memcpy(buf + 4, &qpn_be, sizeof(qpn_be));
	memcpy(buf + 8, &psn_be, sizeof(psn_be));
	memcpy(buf + 12, &lid_be, sizeof(lid_be));
	memcpy(buf + 14, addr->gid, sizeof(addr->gid));
	memcpy(buf + 30, addr->mac, sizeof(addr->mac));
	memcpy(buf + 36, &dc_key_be, sizeof(dc_key_be));
	return ADDR_BYTES;
}

static bool addr_makes_sense(const struct nic_addr *addr)
{
	return addr->link >= NIC_LINK_ETHERNET && addr->link <= NIC_LINK_INFINIBAND &&
	       addr->qp_type >= NIC_QP_RC && addr->qp_type <= NIC_QP_DCT &&
	       addr->mtu_log2 >= 8 && addr->mtu_log2 <= 12 && addr->qpn > 1 &&
	       addr->qpn < ADDR_MAX_24 && addr->psn <= ADDR_MAX_24;
}

int nic_addr_decode(const void *buf, size_t bytes, struct nic_addr *ret_addr)
{
	const uint8_t *in = buf;
	struct nic_addr addr = {0};
	uint32_t qpn_be, psn_be;
	uint16_t lid_be;
	uint64_t dc_key_be;

	if (bytes != ADDR_BYTES || in[0] != ADDR_VERSION)
		return -EINVAL;
	memcpy(&qpn_be, in + 4, sizeof(qpn_be));
	memcpy(&psn_be, in + 8, sizeof(psn_be));
	memcpy(&lid_be, in + 12, sizeof(lid_be));
	memcpy(&dc_key_be, in + 36, sizeof(dc_key_be));
	addr.link = in[1];
	addr.qp_type = in[2];
	addr.mtu_log2 = in[3];
	addr.qpn = be32toh(qpn_be);
	addr.psn = be32toh(psn_be);
	addr.lid = be16toh(lid_be);
	memcpy(addr.gid, in + 14, sizeof(addr.gid));
	memcpy(addr.mac, in + 30, sizeof(addr.mac));
	addr.dc_key = be64toh(dc_key_be);
	if (!addr_makes_sense(&addr))
		return -EINVAL;
	*ret_addr = addr;
	return 0;
}
