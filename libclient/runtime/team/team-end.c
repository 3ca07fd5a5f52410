/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a team: its members complete their messages, sync, and take its id back.
 *
 * Invariant: an id that is free on a PE has scratch to which no message of a former team comes any more. A PE whose messages are not complete
 * tells its members by a word in their scratch, and none of them takes the id back. Thread: the caller's; none calls for the team meanwhile.
 */
#include <string.h>

#include <shmd/dev/pe.h>

#include "libclient/runtime/coll/coll-gpu.h"
#include "libclient/runtime/team/ids.h"
#include "libclient/runtime/team/team.h"
#include "libclient/runtime/world/ctx.h"
#include "libclient/runtime/world/exchange.h"
#include "libclient/runtime/world/world-gpu.h"
#include "libclient/runtime/world/world-heap.h"
#include "libclient/runtime/world/world.h"

/* After the sync no member writes to the scratch of this PE any more. */
static int release_id(struct shmd_team *team)
{
	struct shmd_world *world = team->world;
	int r = world_gpu_clear_scratch(world, team->dev.id);

	if (r < 0)
		return r;
	memset(world_heap_at(&world->pes[world->rank], team->dev.scratch_offset), 0, SHMD_DEV_TEAM_SCRATCH_BYTES);
	pthread_mutex_lock(&world->tables);
	team_ids_return(world->ids, team->dev.id);
	pthread_mutex_unlock(&world->tables);
	return 0;
}

/* A queue that failed has flushed its messages. */
static int judge_quiet(const struct shmd_team *team, int status)
{
	if (status == SHMD_DEV_CQE_ERROR || status == SHMD_DEV_PE_GONE)
		return 0;
	return world_status_error(team->world, status, "completing the operations of a team", -1);
}

/*
 * Messages of the team that are under way must not arrive in scratch that is used again. Behind queues one may be late though nothing
 * failed: a PE goes on when it has heard of the others, and a later message by another context may overtake it. A kernel that the library ran
 * for the team may have left some when it failed; the GPU heap may go by queues where the host's is mapped.
 */
static int complete_messages(struct shmd_team *team)
{
	int r = 0, status;

	if (!(team->dev.flags & SHMD_TEAM_MAPPED))
		r = judge_quiet(team, world_ctx_settle_shared(team->world));
	if (!r)
		r = coll_gpu_settle(team, &status);
	return r ? r : judge_quiet(team, status);
}

static uint64_t *incomplete_word(const struct shmd_team *team)
{
	struct shmd_world *world = team->world;

	return (uint64_t *)world_heap_at(&world->pes[world->rank], team->dev.scratch_offset + SHMD_DEV_TEAM_INCOMPLETE_OFFSET);
}

/* Completes before the last sync, so every member sees the word behind that. */
static int tell_members(const struct shmd_team *team)
{
	struct shmd_dev_ctx *ctx = &team->world->ctx->dev;
	int status = SHMD_DEV_OK;

	for (int i = 0; !status && i < (int)team->dev.n_pes; i++)
		status = shmd_dev_p(ctx, incomplete_word(team), 1, sizeof(uint64_t), (uint32_t)team_pe(team, i));
	if (!status)
		status = shmd_dev_quiet(ctx);
	return world_status_error(team->world, status, "telling the members of a team that messages are under way", -1);
}

/* The others wait for this PE there, also if its own messages are not complete. */
static int sync_last(struct shmd_team *team)
{
	int r = team_finish_sync(team, "shmd_team_destroy");

	return r ? r : team_sync(team, "shmd_team_destroy");
}

/* Where telling them fails this PE does not come, so they keep the id. */
static int end_together(struct shmd_team *team)
{
	int error = complete_messages(team);
	int r = error ? tell_members(team) : 0;

	if (!r)
		r = sync_last(team);
	return r ? r : error;
}

int shmd_team_destroy(struct shmd_team *team)
{
	int r;

	if (!team)
		return 0;
	r = team_check(team);
	if (r < 0 || team->dev.id < WORLD_N_BUILTIN)
		return r;
	r = end_together(team);
	/* A PE that did not come, or has messages left, may still write to the scratch. */
	if (!r && !__atomic_load_n(incomplete_word(team), __ATOMIC_ACQUIRE))
		r = release_id(team);
	team_drop(team);
	return r;
}
