/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How PEs meet that make a team by themselves: entries in the internal area of each one's heap, which the others read.
 *
 * A call has a slot on its PE, with two entries that are used in turn, one for each step. Step 0 says that the PE has called; each later
 * step has an offer of ids. A PE goes on when it has read the step of all members, so it overwrites an entry only when all have read it.
 * An entry may be read while its owner writes it: then its check does not fit, and the reader looks again.
 *
 * A call that gives up leaves no entry, but others may have seen it. So each call has a number of its own, its nonce, and all steps but
 * the first name the nonces of all members (the view): offers to a call that has ended do not count for the one that follows it.
 *
 * Pure. Any thread.
 */
#ifndef SHMD_TEAM_MEETING_H
#define SHMD_TEAM_MEETING_H

#include <stdbool.h>
#include <stdint.h>

#include "libclient/runtime/team/ids.h"

struct meeting_entry {
	uint64_t tag;
	uint64_t list; /* meeting_list() */
	uint64_t nonce; /* of the call; not 0 */
	uint64_t view; /* meeting_view(); 0 in step 0 */
	struct team_offer offer;
	uint32_t step;
	uint32_t place; /* of this PE in the team */
	uint64_t check;
};

struct meeting_slot {
	struct meeting_entry entries[2]; /* by the lowest bit of the step */
};

/* Sets the check. */
void meeting_entry_seal(struct meeting_entry *entry);
/* Zeroed memory is no entry, nor is one that is half written. */
bool meeting_entry_is_whole(const struct meeting_entry *entry);

/* The members as the callers name them; pes NULL: their number alone. */
uint64_t meeting_list(const int *pes, int n);

/* One member after the other, from 0 on. */
uint64_t meeting_view(uint64_t view, int pe, uint64_t nonce);

#endif
