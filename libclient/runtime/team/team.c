/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Teams: those that every world has, their members, sync and barrier. split.c makes new ones, team-end.c ends them.
 *
 * The list of a world's teams is under its lock of tables; all else of a team is constant but for what syncs count.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <shmd/dev/pe.h>

#include "libclient/runtime/settings/log.h"
#include "libclient/runtime/settings/nvtx.h"
#include "libclient/runtime/stream/kernels.h"
#include "libclient/runtime/team/ids.h"
#include "libclient/runtime/team/missing.h"
#include "libclient/runtime/team/team.h"
#include "libclient/runtime/world/ctx.h"
#include "libclient/runtime/world/exchange.h"
#include "libclient/runtime/world/process.h"
#include "libclient/runtime/world/world-gpu.h"
#include "libclient/runtime/world/world-heap.h"
#include "libclient/runtime/world/world.h"
#include "proto/base/cleanup.h"

int team_check(const struct shmd_team *team)
{
	if (!team)
		return shmd_error_set(-EINVAL, "team is NULL: the teams of a world are there when shmd_world_start() has made them");
	return world_check(team->world);
}

static void list_add(struct shmd_world *world, struct shmd_team *team)
{
	pthread_mutex_lock(&world->tables);
	team->next = world->teams;
	if (team->next)
		team->next->prev = team;
	world->teams = team;
	pthread_mutex_unlock(&world->tables);
}

static void list_remove(struct shmd_world *world, struct shmd_team *team)
{
	pthread_mutex_lock(&world->tables);
	if (team->prev)
		team->prev->next = team->next;
	else
		world->teams = team->next;
	if (team->next)
		team->next->prev = team->prev;
	pthread_mutex_unlock(&world->tables);
}

void team_free(struct shmd_team *team)
{
	if (!team)
		return;
	/* In a forked child it is the parent's. */
	if (process_is(team->world->pid))
		stream_own_free(team->gpu_calls);
	world_gpu_hide(team->world, &team->gpu_addr);
	free(team->members);
	free(team);
}

int team_alloc(struct shmd_world *world, int max_pes, struct shmd_team **ret_team)
{
	struct shmd_team *team;
	void *memory;

	if (posix_memalign(&memory, 64, sizeof(*team)))
		return shmd_error_set(-ENOMEM, "no memory for a team");
	team = memset(memory, 0, sizeof(*team));
	team->world = world;
	team->members = calloc((size_t)max_pes, sizeof(*team->members));
	if (!team->members) {
		free(team);
		return shmd_error_set(-ENOMEM, "no memory for a team of %d PEs", max_pes);
	}
	*ret_team = team;
	return 0;
}

static uint32_t place_of(const struct shmd_team *team, int pe)
{
	uint32_t i = 0;

	while (i < team->dev.n_pes && team_pe(team, (int)i) != pe)
		i++;
	return i;
}

/* Every member finds the same, since all have the cards of all. */
static bool all_are_mapped(const struct shmd_team *team, int n_pes)
{
	const struct world_card *cards = team->world->cards;
	const struct world_card *first = &cards[team_pe(team, 0)];
	bool are_mapped = true;

	for (int i = 0; i < n_pes; i++) {
		const struct world_card *card = &cards[team_pe(team, i)];

		are_mapped = are_mapped && card->node == first->node && (card->allow & SHMD_ALLOW_MAPPED);
	}
	return are_mapped || n_pes == 1;
}

void team_begin(struct shmd_team *team, uint32_t id, int n_pes)
{
	team->dev.world_addr = (uintptr_t)team->world->dev;
	team->dev.members_addr = (uintptr_t)team->members;
	team->dev.scratch_offset = WORLD_SCRATCH_OFFSET + (uint64_t)id * SHMD_DEV_TEAM_SCRATCH_BYTES;
	team->dev.scratch_heap = SHMD_DEV_HEAP_HOST;
	team->dev.id = id;
	team->dev.n_pes = (uint32_t)n_pes;
	team->dev.stride = 1;
	team->dev.flags = all_are_mapped(team, n_pes) ? SHMD_TEAM_MAPPED : 0;
	team->dev.my_pe = place_of(team, team->world->rank);
	runtime_log(TEAM, DEBUG, "team %u begins: %d PEs, this one is number %u; %s", id, n_pes, team->dev.my_pe,
		    team->dev.flags & SHMD_TEAM_MAPPED ? "all map each other" : "some go by queues");
	list_add(team->world, team);
}

void team_drop(struct shmd_team *team)
{
	runtime_log(TEAM, DEBUG, "team %u ends", team->dev.id);
	list_remove(team->world, team);
	team_free(team);
}

/* ---- teams that every world has */

static bool is_in(const struct shmd_world *world, enum world_builtin which, int pe)
{
	const struct world_peer *peer = &world->peers[pe], *self = &world->peers[world->rank];

	switch (which) {
	case WORLD_TEAM_SHARED:
		return peer == self || peer->is_mapped;
	case WORLD_TEAM_NODE:
		return peer->node == self->node;
	case WORLD_TEAM_SAME_INDEX:
		return peer->node_pe == self->node_pe;
	default:
		return true;
	}
}

static int make_builtin(struct shmd_world *world, enum world_builtin which)
{
	struct shmd_team *team = NULL;
	int r = team_alloc(world, world->size, &team), n = 0;

	if (r < 0)
		return r;
	for (int i = 0; i < world->size; i++)
		if (is_in(world, which, i))
			team->members[n++] = (uint32_t)i;
	/* Without a table, device functions compute the PEs of the world. */
	if (which == WORLD_TEAM_ALL) {
		free(team->members);
		team->members = NULL;
	}
	team_begin(team, which, n);
	world->builtin[which] = team;
	return 0;
}

int world_teams_make(struct shmd_world *world)
{
	int r = 0;

	world->ids = calloc(1, sizeof(*world->ids));
	if (!world->ids)
		return shmd_error_set(-ENOMEM, "no memory for the ids of teams");
	team_ids_init(world->ids, WORLD_N_BUILTIN, (uint32_t)world->settings.max_teams);
	for (int i = 0; !r && i < WORLD_N_BUILTIN; i++)
		r = make_builtin(world, (enum world_builtin)i);
	if (!r)
		world->dev->world_team_addr = (uintptr_t)&world->builtin[WORLD_TEAM_ALL]->dev;
	return r;
}

void world_teams_drop(struct shmd_world *world)
{
	while (world->teams) {
		struct shmd_team *next = world->teams->next;

		team_free(world->teams);
		world->teams = next;
	}
	memset(world->builtin, 0, sizeof(world->builtin));
	world->dev->world_team_addr = 0;
	free(world->ids);
	world->ids = NULL;
}

/* ---- what a program sees */

static struct shmd_team *builtin(struct shmd_world *world, enum world_builtin which)
{
	return world && __atomic_load_n(&world->is_started, __ATOMIC_ACQUIRE) ? world->builtin[which] : NULL;
}

struct shmd_team *shmd_team_world(struct shmd_world *world)
{
	return builtin(world, WORLD_TEAM_ALL);
}

struct shmd_team *shmd_team_shared(struct shmd_world *world)
{
	return builtin(world, WORLD_TEAM_SHARED);
}

struct shmd_team *shmd_team_node(struct shmd_world *world)
{
	return builtin(world, WORLD_TEAM_NODE);
}

struct shmd_team *shmd_team_same_index(struct shmd_world *world)
{
	return builtin(world, WORLD_TEAM_SAME_INDEX);
}

/* The plans of a program change nothing in the runtime: contexts are made when they are asked for. */
int shmd_team_set_config(struct shmd_team *team, const struct shmd_team_config *config)
{
	static const struct shmd_team_config defaults;
	int r = team_check(team);

	if (r < 0)
		return r;
	pthread_mutex_lock(&team->world->tables);
	team->config = config ? *config : defaults;
	pthread_mutex_unlock(&team->world->tables);
	return 0;
}

int shmd_team_config(const struct shmd_team *team, struct shmd_team_config *ret_config)
{
	int r = team_check(team);

	if (!r && !ret_config)
		r = shmd_error_set(-EINVAL, "ret_config is NULL");
	if (r < 0)
		return r;
	pthread_mutex_lock(&team->world->tables);
	*ret_config = team->config;
	pthread_mutex_unlock(&team->world->tables);
	return 0;
}

int shmd_team_my_pe(const struct shmd_team *team)
{
	return team ? (int)team->dev.my_pe : -1;
}

int shmd_team_n_pes(const struct shmd_team *team)
{
	return team ? (int)team->dev.n_pes : -1;
}

int shmd_team_translate(const struct shmd_team *from, int pe, const struct shmd_team *to)
{
	uint32_t place;

	if (!from || pe < 0 || (uint32_t)pe >= from->dev.n_pes)
		return -1;
	if (!to)
		return team_pe(from, pe);
	place = to->world == from->world ? place_of(to, team_pe(from, pe)) : to->dev.n_pes;
	return place < to->dev.n_pes ? (int)place : -1;
}

void *shmd_team_ptr(const struct shmd_team *team, const void *ptr, int pe)
{
	int world_pe = shmd_team_translate(team, pe, NULL);

	return world_pe < 0 ? NULL : shmd_ptr(team->world, ptr, world_pe);
}

struct shmd_dev_team *shmd_team_dev(struct shmd_team *team)
{
	return team ? &team->dev : NULL;
}

/* ---- sync */

/* A member that has ended; -1: none, or one that the program has not forgiven, whom the world names. */
static int forgiven_member(const struct shmd_team *team)
{
	const struct shmd_dev_world *dev = team->world->dev;

	if (__atomic_load_n(&dev->n_gone, __ATOMIC_ACQUIRE) != __atomic_load_n(&dev->n_gone_known, __ATOMIC_ACQUIRE))
		return -1;
	for (uint32_t i = 0; i < team->dev.n_pes; i++) {
		int pe = team_pe(team, (int)i);

		if (__atomic_load_n(&team->world->pes[pe].path[team->dev.scratch_heap], __ATOMIC_ACQUIRE) == SHMD_PATH_GONE)
			return pe;
	}
	return -1;
}

int team_status_error(const struct shmd_team *team, int status, const char *call)
{
	return world_status_error(team->world, status, call, status == SHMD_DEV_PE_GONE ? forgiven_member(team) : -1);
}

int team_sync(struct shmd_team *team, const char *call)
{
	int status = shmd_dev_team_sync(&team->world->ctx->dev, &team->dev);

	return status == SHMD_DEV_TIMEOUT ? team_blame_missing(team, call) : team_status_error(team, status, call);
}

int team_finish_sync(struct shmd_team *team, const char *call)
{
	return team->dev.n_begun == team->dev.n_syncs ? 0 : team_sync(team, call);
}

int team_barrier(struct shmd_team *team, const char *call)
{
	int status = shmd_dev_quiet(&team->world->ctx->dev);

	return status ? world_status_error(team->world, status, call, -1) : team_sync(team, call);
}

int shmd_team_sync(struct shmd_team *team)
{
	int r = team_check(team);

	if (r < 0)
		return r;
	runtime_nvtx_push("shmd_team_sync");
	r = team_sync(team, "shmd_team_sync");
	runtime_nvtx_pop();
	return r;
}

int shmd_team_barrier(struct shmd_team *team)
{
	int r = team_check(team);

	if (r < 0)
		return r;
	runtime_nvtx_push("shmd_team_barrier");
	r = team_barrier(team, "shmd_team_barrier");
	runtime_nvtx_pop();
	return r;
}
