/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a unique id.
 *
 *	offset	bytes
 *	0	4	"shu1": this layout
 *	4	16	secret
 *	20	1	0
 *	21	1	how many addresses, 1 to 6
 *	22	2	first port, big endian
 *	24	1	how many ports rank 0 may listen at, 1 to 16: the first that is free
 *	25	17	each address: 4 or 6, then 4 or 16 bytes, then zeros
 *
 * Bytes from outside are hostile. Pure; any thread.
 */
#ifndef SHMD_RUNTIME_UID_H
#define SHMD_RUNTIME_UID_H

#include <netinet/in.h>
#include <stdint.h>

#include <shmd-bootstrap.h>

#define UID_SECRET_BYTES 16
#define UID_MOST_ADDRESSES 6
#define UID_MOST_PORTS 16

/* An address of either family, with its port. */
union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

struct uid_parts {
	uint8_t secret[UID_SECRET_BYTES];
	uint16_t port;
	unsigned int n_ports;
	unsigned int n_addresses;
	union address addresses[UID_MOST_ADDRESSES]; /* with the first port */
};

void uid_pack(const struct uid_parts *parts, struct shmd_uid *ret);
int uid_unpack(const struct shmd_uid *uid, struct uid_parts *ret); /* -EINVAL with a sentence */

/* The secret of one world of a job, and the key that joins messages to it. */
void uid_world_secret(const uint8_t secret[UID_SECRET_BYTES], uint32_t number, uint8_t ret[UID_SECRET_BYTES]);

/* 17 bytes of an address, as in an id and on the wire; -EINVAL. */
#define UID_ADDRESS_BYTES 17
void uid_pack_address(const union address *address, uint8_t *bytes);
int uid_unpack_address(const uint8_t *bytes, uint16_t port, union address *ret);
socklen_t address_bytes(const union address *address);
uint16_t address_port(const union address *address);

#endif
