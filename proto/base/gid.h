/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far an address of a port reaches. A GID of RoCE is an IPv6 address, or an IPv4 address in the last four of its bytes.
 * Everybody who chooses or judges addresses asks here, so that no two places answer differently. Pure; any thread.
 */
#ifndef SHMEMD_GID_H
#define SHMEMD_GID_H

#include <stdbool.h>
#include <stdint.h>

#define GID_BYTES 16

/* From the nearest to the farthest. */
enum gid_reach {
	GID_REACHES_NOBODY, /* loopback, multicast, reserved, or no address */
	GID_REACHES_NEIGHBOURS, /* link-local: no router passes it on */
	GID_REACHES_ALL,
};

enum gid_reach gid_reach(const uint8_t bytes[GID_BYTES]);
bool gid_is_ipv4(const uint8_t bytes[GID_BYTES]);

#endif
