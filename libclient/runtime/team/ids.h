/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ids of teams: which are free on a PE, and how the members of a new team agree on one.
 *
 * They agree in rounds. In each, every member offers those ids of one word of its bitmap that are free; the lowest id that all offer is
 * the team's. A PE that makes several teams at once, in several threads, offers an id to one of them at a time. Which word it is
 * follows from the key of the call and the round, so that two calls that met on one word soon do not. A pass of rounds visits every
 * word; if it ends without an id and no member held one back, there is none.
 *
 * Pure; the caller locks.
 */
#ifndef SHMD_TEAM_IDS_H
#define SHMD_TEAM_IDS_H

#include <stdbool.h>
#include <stdint.h>

#include <shmd/abi/world.h>

#define TEAM_ID_WORDS (SHMD_DEV_MAX_TEAMS / 64u)
#define TEAM_ID_PASSES 64u /* then ids are held back by calls that do not end */

struct team_ids {
	uint64_t free[TEAM_ID_WORDS];
	uint64_t held[TEAM_ID_WORDS]; /* offered by calls under way */
};

/* The word of a member in a round. */
struct team_offer {
	uint64_t ids; /* of the round's word */
	uint32_t is_short; /* it held some back */
	int32_t error; /* the call fails on all members */
};

/* One agreement, as a member follows it. */
struct team_agreement {
	uint64_t key;
	uint32_t round;
	uint64_t all; /* what all members of this round so far offer */
	bool was_short; /* in this pass */
	int error;
};

/* Ids from `first` up to below `n` are free. */
void team_ids_init(struct team_ids *ids, uint32_t first, uint32_t n);
void team_ids_return(struct team_ids *ids, uint32_t id);

void team_agreement_init(struct team_agreement *agreement, uint64_t key);
/* The offer of this PE for the round, held until team_agreement_end(). */
struct team_offer team_agreement_offer(struct team_agreement *agreement, struct team_ids *ids);
/* A member's offer, the caller's own included. */
void team_agreement_take(struct team_agreement *agreement, const struct team_offer *offer);
/*
 * All members' offers are taken. The id, in use from now on; -EAGAIN: another round; -ENOSPC: no id is free; the error of a member.
 * own: what team_agreement_offer() returned; if is_member is not set the id is not taken here.
 */
int team_agreement_end(struct team_agreement *agreement, struct team_ids *ids, const struct team_offer *own, bool is_member);

#endif
