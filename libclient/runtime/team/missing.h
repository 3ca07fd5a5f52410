/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PEs that a sync or a collective waited for in vain, in words.
 *
 * A PE begins a sync by round 0: it writes the number of the sync to the flag of the PE behind it. If the two map each other, and this PE maps the
 * second, that flag says for certain whether the first has come. Flag k of a PE says that the 2^k PEs before it have come. For the others
 * the sentence names the PE whose message is missing, which may wait for another one. Collectives of many PEs have rounds of their own; in
 * those of few each PE tells each other the number of the exchange, so the numbers here say who is behind. If none is, one may have given up
 * while this PE read its data.
 */
#ifndef SHMD_TEAM_MISSING_H
#define SHMD_TEAM_MISSING_H

#include "libclient/runtime/team/team.h"

/* -ETIMEDOUT with a sentence. The time limit of the sync that this PE has begun passed; `call` is the function of the program. */
int team_blame_missing(const struct shmd_team *team, const char *call);
/* The same for the first collective that has failed on this PE. root: the member from which all others have their data, or -1. */
int team_blame_missing_in_coll(const struct shmd_team *team, const char *call, int root);

#endif
