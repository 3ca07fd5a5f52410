/* SPDX-License-Identifier: Apache-2.0 */
/* Teams (section 9.4). The list of those that live is for finalize. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "libclient/compat/openshmem/openshmem.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct osh_team *teams;

static void enter(struct osh_team *team)
{
	pthread_mutex_lock(&lock);
	team->next = teams;
	if (teams)
		teams->prev = team;
	teams = team;
	pthread_mutex_unlock(&lock);
}

static void leave(struct osh_team *team)
{
	pthread_mutex_lock(&lock);
	if (team->next)
		team->next->prev = team->prev;
	if (team->prev)
		team->prev->next = team->next;
	else
		teams = team->next;
	pthread_mutex_unlock(&lock);
}

/* Without a runtime team (this PE is no member) the invalid handle. */
static shmem_team_t handle_of_new(struct osh_team *made, struct shmd_team *team, const shmem_team_config_t *config, long mask)
{
	if (!team) {
		free(made);
		return SHMEM_TEAM_INVALID;
	}
	if (mask & SHMEM_TEAM_NUM_CONTEXTS)
		osh_check("shmem_team_split", shmd_team_set_config(team, &(struct shmd_team_config){(uint32_t)config->num_contexts}));
	*made = (struct osh_team){.team = team};
	enter(made);
	return (shmem_team_t)made;
}

static struct osh_team *must_alloc(const char *name)
{
	struct osh_team *team = calloc(1, sizeof(*team));

	if (!team)
		osh_fail(name, shmd_error_set(-ENOMEM, "no memory for a team"));
	return team;
}

int pshmem_team_split_strided(shmem_team_t parent_team, int start, int stride, int size, const shmem_team_config_t *config,
			      long config_mask, shmem_team_t *new_team)
{
	struct osh_team *parent = osh_team_of(parent_team), *made;
	struct shmd_team *team = NULL;

	*new_team = SHMEM_TEAM_INVALID;
	if (!parent)
		return 1;
	made = must_alloc("shmem_team_split_strided");
	if (shmd_team_split_strided(parent->team, start, stride, size, &team)) {
		free(made);
		return 1;
	}
	*new_team = handle_of_new(made, team, config, config_mask);
	return 0;
}
OSH_WEAK(shmem_team_split_strided, pshmem_team_split_strided)

int pshmem_team_split_2d(shmem_team_t parent_team, int xrange, const shmem_team_config_t *xaxis_config, long xaxis_mask,
			 shmem_team_t *xaxis_team, const shmem_team_config_t *yaxis_config, long yaxis_mask, shmem_team_t *yaxis_team)
{
	struct osh_team *parent = osh_team_of(parent_team), *x, *y;
	struct shmd_team *row = NULL, *column = NULL;
	int n;

	*xaxis_team = *yaxis_team = SHMEM_TEAM_INVALID;
	if (!parent || xrange < 1)
		return 1;
	/* A range beyond the parent's size means that size. */
	n = shmd_team_n_pes(parent->team);
	x = must_alloc("shmem_team_split_2d");
	y = must_alloc("shmem_team_split_2d");
	if (shmd_team_split_2d(parent->team, xrange < n ? xrange : n, &row, &column)) {
		free(x);
		free(y);
		return 1;
	}
	*xaxis_team = handle_of_new(x, row, xaxis_config, xaxis_mask);
	*yaxis_team = handle_of_new(y, column, yaxis_config, yaxis_mask);
	return 0;
}
OSH_WEAK(shmem_team_split_2d, pshmem_team_split_2d)

static void destroy(struct osh_team *team)
{
	struct shmd_team *runtime = team->team;

	osh_contexts_of_team_drop(team);
	leave(team);
	free(team);
	osh_check("shmem_team_destroy", shmd_team_destroy(runtime));
}

void pshmem_team_destroy(shmem_team_t team)
{
	if (team != SHMEM_TEAM_INVALID && team != SHMEM_TEAM_WORLD && team != SHMEM_TEAM_SHARED)
		destroy((struct osh_team *)team);
}
OSH_WEAK(shmem_team_destroy, pshmem_team_destroy)

/* At the end the world frees the teams itself, without their members. */
void osh_teams_drop(void)
{
	while (teams) {
		struct osh_team *team = teams;

		leave(team);
		free(team);
	}
}

int pshmem_team_my_pe(shmem_team_t team)
{
	return shmd_team_my_pe(osh_runtime_team(team));
}
OSH_WEAK(shmem_team_my_pe, pshmem_team_my_pe)

int pshmem_team_n_pes(shmem_team_t team)
{
	return shmd_team_n_pes(osh_runtime_team(team));
}
OSH_WEAK(shmem_team_n_pes, pshmem_team_n_pes)

int pshmem_team_get_config(shmem_team_t team, long config_mask, shmem_team_config_t *config)
{
	struct shmd_team_config mine;

	if (!osh_team_of(team) || shmd_team_config(osh_runtime_team(team), &mine))
		return 1;
	if (config_mask & SHMEM_TEAM_NUM_CONTEXTS)
		config->num_contexts = (int)mine.n_contexts;
	return 0;
}
OSH_WEAK(shmem_team_get_config, pshmem_team_get_config)

int pshmem_team_translate_pe(shmem_team_t src_team, int src_pe, shmem_team_t dest_team)
{
	struct shmd_team *from = osh_runtime_team(src_team), *to = osh_runtime_team(dest_team);

	return from && to ? shmd_team_translate(from, src_pe, to) : -1;
}
OSH_WEAK(shmem_team_translate_pe, pshmem_team_translate_pe)

void *pshmem_team_ptr(shmem_team_t team, const void *dest, int pe)
{
	int world_pe = pshmem_team_translate_pe(team, pe, SHMEM_TEAM_WORLD);

	return world_pe < 0 ? NULL : pshmem_ptr(dest, world_pe);
}
OSH_WEAK(shmem_team_ptr, pshmem_team_ptr)
