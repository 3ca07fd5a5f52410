/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Teams from inside.
 *
 * A team has an id, equal on its members, which selects its scratch and its board in the internal area of the heap. An id may be used
 * by several teams that have no PE in common. Its scratch is zero whenever the id is free on a PE: whoever ends a team zeroes it, after a
 * sync, behind which no member writes there any more. So a new team may sync at once, whoever of its members knows it first.
 */
#ifndef SHMD_TEAM_H
#define SHMD_TEAM_H

#include <stdbool.h>
#include <stdint.h>

#include <shmd.h>

/* A sync has so many rounds, each with a flag of its own. */
#define TEAM_MAX_PES (1 << SHMD_DEV_SYNC_ROUNDS)

struct stream_own;

struct shmd_team {
	struct shmd_dev_team dev; /* first: aligned as device functions want it */
	struct shmd_world *world;
	uint32_t *members; /* PEs of the world; NULL: all of them */
	struct shmd_team_config config; /* under the world's `tables` */
	uint64_t n_boards; /* entries written to the board so far */
	uint64_t gpu_addr; /* its copy for kernels; 0: not made. Under the world's gpu_copies */
	struct stream_own *gpu_calls; /* of the host's collectives on GPU memory (coll/coll-gpu.h); NULL: there was none */
	const char *failed_call; /* the collective that failed first; NULL: none */
	int failed_root; /* of it */
	int lost; /* -errno: passing entries failed here, so members may disagree about ids */
	struct shmd_team *prev, *next; /* of the world */
};

/* -EINVAL: NULL; -ECHILD. */
int team_check(const struct shmd_team *team);
/*
 * A sync by the default context, and behind a quiet of it; the failure as an errno with a sentence. `call` is the function of the program;
 * where its time limit passes, the sentence names the PEs that did not come.
 */
int team_sync(struct shmd_team *team, const char *call);
int team_barrier(struct shmd_team *team, const char *call);
/* world_status_error() of a call of the whole team: names the member that has ended. */
int team_status_error(const struct shmd_team *team, int status, const char *call);
/*
 * A sync that failed here may have completed for the others. Before anything is passed with the next one it is waited for again, or the
 * members would be one sync apart.
 */
int team_finish_sync(struct shmd_team *team, const char *call);
static inline int team_pe(const struct shmd_team *team, int i)
{
	return team->members ? (int)team->members[i] : i;
}

/* Room for a team with this many members, before the members agree. -ENOMEM. */
int team_alloc(struct shmd_world *world, int max_pes, struct shmd_team **ret_team);
void team_free(struct shmd_team *team); /* one that has not begun; NULL is allowed */
/* team->members are set, or NULL: all PEs of the world. Enters the world's list; the id is the caller's business. */
void team_begin(struct shmd_team *team, uint32_t id, int n_pes);
/* Leaves the list, and frees. The id stays in use. */
void team_drop(struct shmd_team *team);

/* World, shared, node, same index; the ids of all. */
int world_teams_make(struct shmd_world *world);
void world_teams_drop(struct shmd_world *world);

#endif
