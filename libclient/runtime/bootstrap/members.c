/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/bootstrap/members.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/runtime/bootstrap/join.h"
#include "libclient/runtime/bootstrap/little-endian.h"

_Static_assert(4 + 2 + UID_ADDRESS_BYTES <= MEMBERS_ENTRY_BYTES, "an entry has room for its parts");

void members_write_entry(uint8_t entry[MEMBERS_ENTRY_BYTES], unsigned int place, const union address *address)
{
	unsigned int port = address_port(address);

	memset(entry, 0, MEMBERS_ENTRY_BYTES);
	put32(entry, place);
	entry[4] = (uint8_t)port;
	entry[5] = (uint8_t)(port >> 8);
	uid_pack_address(address, entry + 6);
}

/* False: the place is taken, or out of range, or the address is none. */
static bool read_entry(struct members *members, unsigned int rank, const uint8_t *entry)
{
	struct member *member = &members->all[rank];
	union address address;

	member->place = get32(entry);
	member->port = (uint16_t)(entry[4] | entry[5] << 8);
	memcpy(member->address, entry + 6, UID_ADDRESS_BYTES);
	if (member->place >= members->size || !member->place != !rank || members->by_place[member->place] ||
	    uid_unpack_address(member->address, member->port, &address))
		return false;
	members->by_place[member->place] = rank;
	return true;
}

static int read_book(struct members *members, const uint8_t *book)
{
	for (unsigned int rank = 0; rank < members->size; rank++)
		if (!read_entry(members, rank, book + (size_t)rank * MEMBERS_ENTRY_BYTES))
			return -EPROTO;
	for (unsigned int place = 1; place < members->size; place++)
		members->all[members->by_place[place]].parent = members->by_place[(place - 1) / JOIN_FANOUT];
	return 0;
}

int members_new(const uint8_t *book, size_t bytes, unsigned int size, struct members **ret)
{
	struct members *members;
	int err;

	if (bytes != (size_t)size * MEMBERS_ENTRY_BYTES)
		return -EPROTO;
	members = calloc(1, sizeof(*members));
	if (!members)
		return -ENOMEM;
	members->size = size;
	members->all = calloc(size, sizeof(*members->all));
	members->by_place = calloc(size, sizeof(*members->by_place));
	err = members->all && members->by_place ? read_book(members, book) : -ENOMEM;
	if (err)
		members_free(members);
	else
		*ret = members;
	return err;
}

void members_free(struct members *members)
{
	if (!members)
		return;
	free(members->all);
	free(members->by_place);
	free(members);
}

union address members_address(const struct members *members, unsigned int rank, const union address *first)
{
	const struct member *member = &members->all[rank];
	union address address = *first;

	/* read_entry() has unpacked the same bytes. */
	uid_unpack_address(member->address, member->port, &address);
	if (address.any.sa_family == AF_INET && !address.in.sin_addr.s_addr) {
		address = *first;
		if (address.any.sa_family == AF_INET6)
			address.in6.sin6_port = htons(member->port);
		else
			address.in.sin_port = htons(member->port);
	}
	return address;
}

void members_note_silence(struct members *members, unsigned int rank)
{
	for (unsigned int i = 0; i < members->size; i++)
		members->all[i].is_silent |= !memcmp(members->all[i].address, members->all[rank].address, UID_ADDRESS_BYTES);
}

void members_forget_silence(struct members *members)
{
	for (unsigned int i = 0; i < members->size; i++)
		members->all[i].is_silent = false;
}

static unsigned int count_above(unsigned int place)
{
	unsigned int n = 0;

	for (; place; place = (place - 1) / JOIN_FANOUT)
		n++;
	return n;
}

unsigned int members_steps(const struct members *members, unsigned int rank)
{
	unsigned int place = members->all[rank].place;

	return count_above(place) + place;
}

bool members_candidate(const struct members *members, unsigned int rank, unsigned int step, unsigned int *ret)
{
	unsigned int place = members->all[rank].place, n_above = count_above(place), at = place;

	if (step >= n_above + place)
		return false;
	if (step >= n_above)
		at = step - n_above;
	for (unsigned int i = 0; step < n_above && i <= step; i++)
		at = (at - 1) / JOIN_FANOUT;
	*ret = members->by_place[at];
	return true;
}
