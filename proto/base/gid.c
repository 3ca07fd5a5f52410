/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/gid.h"

#include <string.h>

#define IPV4_AT 12
#define FIRST_MULTICAST 224 /* 224.0.0.0/4 is multicast, 240.0.0.0/4 is reserved */

bool gid_is_ipv4(const uint8_t bytes[GID_BYTES])
{
	static const uint8_t mapped[IPV4_AT] = {[10] = 0xff, [11] = 0xff};

	return memcmp(bytes, mapped, sizeof(mapped)) == 0;
}

static enum gid_reach ipv4_reach(const uint8_t bytes[4])
{
	if (bytes[0] == 0 || bytes[0] == 127 || bytes[0] >= FIRST_MULTICAST)
		return GID_REACHES_NOBODY;
	return bytes[0] == 169 && bytes[1] == 254 ? GID_REACHES_NEIGHBOURS : GID_REACHES_ALL;
}

enum gid_reach gid_reach(const uint8_t bytes[GID_BYTES])
{
	static const uint8_t zero[GID_BYTES - 1]; /* no address and loopback differ in the last byte alone */

	if (gid_is_ipv4(bytes))
		return ipv4_reach(bytes + IPV4_AT);
	if (bytes[0] == 0xff || memcmp(bytes, zero, sizeof(zero)) == 0)
		return GID_REACHES_NOBODY;
	return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80 ? GID_REACHES_NEIGHBOURS : GID_REACHES_ALL;
}
