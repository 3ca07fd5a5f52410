/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The book of an open job, which each rank has: the place of each rank in the tree, where it listens, and which rank it hangs below. Rank 0 makes
 * it and sends it when all have come.
 *
 * A parent has a lower place than its children, also after a rank has found another parent, so there are no circles. Bytes of the book are
 * checked before they are used. No sockets; one thread at a time.
 */
#ifndef SHMD_RUNTIME_MEMBERS_H
#define SHMD_RUNTIME_MEMBERS_H

#include <stdbool.h>

#include "libclient/runtime/bootstrap/uid.h"

/* One entry of the book: a rank's place, its port, and its address, 0.0.0.0 for rank 0's machine. */
#define MEMBERS_ENTRY_BYTES 24

struct member {
	uint32_t place;
	uint32_t parent;  /* its rank; rank 0's own is 0 */
	uint64_t n_moves; /* how many other parents it has found */
	uint64_t n_done;  /* of a rank that has closed: the calls that it had completed */
	uint64_t lost_since; /* 0, or since when no connection to it begins */
	uint8_t n_refusals;  /* of connections, one after the other */
	bool is_silent; /* no kernel has answered at its address, so it is not asked for now */
	bool may_have_closed; /* news of it went to a rank that closed before it passed them on */
	uint16_t port;
	uint8_t address[UID_ADDRESS_BYTES];
};

struct members {
	unsigned int size;
	struct member *all; /* by rank */
	uint32_t *by_place; /* ranks */
};

void members_write_entry(uint8_t entry[MEMBERS_ENTRY_BYTES], unsigned int place, const union address *address);
/* -EPROTO: not the book of a job of this size; -ENOMEM. */
int members_new(const uint8_t *book, size_t bytes, unsigned int size, struct members **ret);
void members_free(struct members *members); /* NULL is fine */

/* Where `rank` listens, for a process that reached rank 0 at `first`. */
union address members_address(const struct members *members, unsigned int rank, const union address *first);

/*
 * The ranks that may become a rank's parent, in the order in which it asks them: those above it in the tree, then all with lower places, lowest
 * first. `step` counts from 0. False: no more.
 */
bool members_candidate(const struct members *members, unsigned int rank, unsigned int step, unsigned int *ret);
/* The kernel at this rank's address answers nothing: all ranks there are silent until members_forget_silence(). */
void members_note_silence(struct members *members, unsigned int rank);
void members_forget_silence(struct members *members);
/* How many steps there are. */
unsigned int members_steps(const struct members *members, unsigned int rank);

#endif
