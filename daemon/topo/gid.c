/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses of a port: room for them, and their text as the kernel writes it. Pure; any thread. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/topo/topo-private.h"

#define GIDS_AT_FIRST 4u
#define GROUPS 8

/* Room doubles, from a power of two. */
static int grow(struct topo_nic *nic)
{
	unsigned int n = nic->n_gids ? 2 * nic->n_gids : GIDS_AT_FIRST;
	struct topo_gid *gids;

	if (nic->n_gids && (nic->n_gids < GIDS_AT_FIRST || (nic->n_gids & (nic->n_gids - 1))))
		return 0;
	gids = reallocarray(nic->gids, n, sizeof(*gids));
	if (!gids)
		return -ENOMEM;
	nic->gids = gids;
	return 0;
}

int topo_add_gid(struct topo_nic *nic, const struct topo_gid *gid)
{
	int r;

	nic->has_gids = TOPO_YES;
	if (nic->n_gids == TOPO_MAX_GIDS)
		return 0;
	r = grow(nic);
	if (r < 0)
		return r;
	nic->gids[nic->n_gids++] = *gid;
	return 0;
}

bool topo_gid_is_zero(const struct topo_gid *gid)
{
	static const uint8_t zero[16];

	return memcmp(gid->bytes, zero, sizeof(zero)) == 0;
}

static int digit(char c)
{
	if (!isxdigit((unsigned char)c))
		return -1;
	return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

bool topo_gid_parse(const char *text, uint8_t ret_bytes[16])
{
	uint8_t bytes[2 * GROUPS];

	for (unsigned int group = 0; group < GROUPS; group++, text += 5) {
		int digits[4];

		for (unsigned int i = 0; i < 4; i++) {
			digits[i] = digit(text[i]);
			if (digits[i] < 0)
				return false;
		}
		if (text[4] != (group + 1 < GROUPS ? ':' : 0))
			return false;
		bytes[2 * group] = (uint8_t)(digits[0] << 4 | digits[1]);
		bytes[2 * group + 1] = (uint8_t)(digits[2] << 4 | digits[3]);
	}
	memcpy(ret_bytes, bytes, sizeof(bytes));
	return true;
}
