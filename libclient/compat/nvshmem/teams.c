/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Teams: of the runtime for calls of the host, and their structures for kernels (sets.c), under the small numbers that programs have.
 *
 * Members agree on the lowest number that all of them have free. They clear their scratch and meet before any of them uses it, so what an
 * earlier team with that number left does not matter. A job is on one node: the team of the node is that of the world.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "libclient/compat/nvshmem/nvs.h"
#include "proto/base/cleanup.h"

#define PCI_BYTES NVS_PLACE_BYTES
#define MASK_WORDS NVS_AGREEMENT_WORDS

/* ---- one team */

struct nvs_host_team *nvs_team_at(int32_t team)
{
	if (team >= 0 && team < nvs.max_teams && nvs.teams[team].team)
		return &nvs.teams[team];
	(void)shmd_error_set(-EINVAL, "%d is no team of this PE", team);
	return NULL;
}

/* Local. */
static int take_in(int index, struct shmd_team *team)
{
	struct nvs_host_team *mine = &nvs.teams[index];
	struct nvs_members members = {.index = index, .my_pe = shmd_team_my_pe(team), .size = shmd_team_n_pes(team), .npes = nvs.facts.npes,
				     .by_queues = nvs.facts.by_queues};

	*mine = (struct nvs_host_team){.team = team, .pes = calloc((size_t)members.size, sizeof(*mine->pes))};
	if (!mine->pes)
		return shmd_error_set(-ENOMEM, "no memory for a team");
	for (int i = 0; i < members.size; i++)
		mine->pes[i] = shmd_team_translate(team, i, NULL);
	members.pes = mine->pes;
	return nvs_sets_add_team(&members);
}

/* The stream of the host's reductions, which have ended. */
static void drop_stream(const struct nvs_host_team *team)
{
	if (team->stream && !device_enter(nvs.device))
		(void)device_leave(nvs.device, nvs.device->cuda->stream_destroy(team->stream), "end a stream");
}

static void forget(int index)
{
	drop_stream(&nvs.teams[index]);
	nvs_sets_drop_team(index);
	free(nvs.teams[index].pes);
	nvs.teams[index] = (struct nvs_host_team){.team = NULL};
}

/* ---- teams that every job has */

/* The lowest PE with the GPU of this one. Collective. */
static int find_leader(int *ret_leader)
{
	char *own = (char *)nvs_agreement_places(), *all = own + PCI_BYTES;
	int r = device_enter(nvs.device);

	memset(own, 0, PCI_BYTES);
	if (!r)
		r = device_leave(nvs.device, nvs.device->cuda->gpu_pci(own, PCI_BYTES - 1, nvs.device->ordinal), "address of the GPU");
	r = nvs_agree(r);
	if (!r)
		r = shmd_fcollect(shmd_team_world(nvs.world), all, own, PCI_BYTES);
	for (*ret_leader = 0; !r && memcmp(all + (size_t)*ret_leader * PCI_BYTES, own, PCI_BYTES) != 0;)
		++*ret_leader;
	return r;
}

/*
 * PEs on one GPU, the first of each, and those that would share multicast: a team of its own beside that of shared memory, since collectives of two teams may run
 * at once. Each step fails on all PEs or on none.
 */
static int make_other_teams(void)
{
	struct shmd_team *all = shmd_team_world(nvs.world);
	int leader, me = nvs.facts.mype, r = find_leader(&leader);

	if (!r)
		r = shmd_team_split_color(all, leader, me, &nvs.same_gpu);
	if (!r)
		r = shmd_team_split_color(all, leader == me ? 0 : -1, me, &nvs.gpu_leaders);
	return r ? r : shmd_team_split_color(all, shmd_team_translate(shmd_team_shared(nvs.world), 0, NULL), me, &nvs.mc_shared);
}

/* Local from the second step on; the caller agrees with the others. */
int nvs_teams_make(void)
{
	int r = make_other_teams();

	if (!r)
		r = take_in(NVS_TEAM_WORLD, shmd_team_world(nvs.world));
	if (!r)
		r = take_in(NVS_TEAM_SHARED, shmd_team_shared(nvs.world));
	if (!r)
		r = take_in(NVS_TEAM_NODE, shmd_team_node(nvs.world));
	if (!r)
		r = take_in(NVS_TEAM_SAME_MYPE_NODE, shmd_team_same_index(nvs.world));
	if (!r)
		r = take_in(NVS_TEAM_SAME_GPU, nvs.same_gpu);
	if (!r && nvs.gpu_leaders)
		r = take_in(NVS_TEAM_GPU_LEADERS, nvs.gpu_leaders);
	return r ? r : take_in(NVS_TEAM_MC_SHARED, nvs.mc_shared);
}

void nvs_teams_return(void)
{
	(void)shmd_team_destroy(nvs.same_gpu);
	(void)shmd_team_destroy(nvs.gpu_leaders);
	(void)shmd_team_destroy(nvs.mc_shared);
	nvs.same_gpu = nvs.gpu_leaders = nvs.mc_shared = NULL;
}

/* Teams of the runtime end with the world. */
void nvs_teams_drop(void)
{
	for (int i = 0; i < (int)NVS_POOL_TEAMS; i++)
		if (nvs.teams[i].team)
			forget(i);
	nvs.same_gpu = nvs.gpu_leaders = nvs.mc_shared = NULL;
}

/* ---- teams of the program; with the lock */

/* The lowest number that all members have free. Collective on them. */
static int choose_index(struct shmd_team *team, int *ret_index)
{
	uint64_t *mine = nvs.agreement, *all = nvs.agreement + MASK_WORDS;
	int r;

	memset(mine, 0, MASK_WORDS * 8);
	for (int i = NVS_TEAM_FIRST; i < nvs.max_teams; i++)
		if (!nvs.teams[i].team)
			mine[i / 64] |= UINT64_C(1) << i % 64;
	r = shmd_reduce(team, all, mine, MASK_WORDS, SHMD_TYPE_UINT64, SHMD_REDUCE_AND);
	for (unsigned int i = 0; !r && i < MASK_WORDS; i++)
		if (all[i]) {
			*ret_index = (int)(i * 64) + __builtin_ctzll(all[i]);
			return 0;
		}
	return r ? r : shmd_error_set(-ENOSPC, "the members have no number of a team in common that is free; SHMD_MAX_TEAMS has more");
}

/* A team of the runtime becomes one of the program, or ends. NULL: this PE is not in it. */
static int adopt(struct shmd_team *team, int32_t *ret_team)
{
	int index = NVS_TEAM_INVALID, r;

	*ret_team = NVS_TEAM_INVALID;
	if (!team)
		return 0;
	r = choose_index(team, &index);
	if (!r) {
		r = nvs_agree_in(team, take_in(index, team));
		if (r < 0)
			forget(index);
	}
	if (!r)
		*ret_team = index;
	else
		(void)shmd_team_destroy(team);
	return r;
}

/* A program's plans with its contexts are kept, and returned. */
static void keep_config(int32_t team, const struct nvs_team_config *config, long mask)
{
	if (team != NVS_TEAM_INVALID && config && mask & NVS_CONFIG_CONTEXTS)
		nvs.teams[team].n_contexts = config->num_contexts;
}

static int split_strided(int32_t parent, int start, int stride, int size, int32_t *ret_team)
{
	const struct nvs_host_team *from = nvs_team_at(parent);
	struct shmd_team *team = NULL;
	int r = from ? shmd_team_split_strided(from->team, start, stride, size, &team) : -EINVAL;

	return r ? r : adopt(team, ret_team);
}

NVS_API int nvshmem_team_split_strided(int32_t parent, int start, int stride, int size, const struct nvs_team_config *config, long mask,
				       int32_t *ret_team);
int nvshmem_team_split_strided(int32_t parent, int start, int stride, int size, const struct nvs_team_config *config, long mask,
			       int32_t *ret_team)
{
	int r = nvs_ready();

	*ret_team = NVS_TEAM_INVALID;
	pthread_mutex_lock(&nvs.lock);
	if (!r)
		r = split_strided(parent, start, stride, size, ret_team);
	keep_config(*ret_team, config, mask);
	pthread_mutex_unlock(&nvs.lock);
	return nvs_result("nvshmem_team_split_strided", r);
}

static int split_2d(int32_t parent, int xrange, int32_t *ret_row, int32_t *ret_column)
{
	const struct nvs_host_team *from = nvs_team_at(parent);
	struct shmd_team *row = NULL, *column = NULL;
	int r = from ? shmd_team_split_2d(from->team, xrange, &row, &column) : -EINVAL, r2;

	if (r < 0)
		return r;
	r = adopt(row, ret_row);
	r2 = adopt(column, ret_column);
	return r ? r : r2;
}

NVS_API int nvshmem_team_split_2d(int32_t parent, int xrange, const struct nvs_team_config *xconfig, long xmask, int32_t *ret_row,
				  const struct nvs_team_config *yconfig, long ymask, int32_t *ret_column);
int nvshmem_team_split_2d(int32_t parent, int xrange, const struct nvs_team_config *xconfig, long xmask, int32_t *ret_row,
			  const struct nvs_team_config *yconfig, long ymask, int32_t *ret_column)
{
	int r = nvs_ready();

	*ret_row = *ret_column = NVS_TEAM_INVALID;
	pthread_mutex_lock(&nvs.lock);
	if (!r)
		r = split_2d(parent, xrange, ret_row, ret_column);
	keep_config(*ret_row, xconfig, xmask);
	keep_config(*ret_column, yconfig, ymask);
	pthread_mutex_unlock(&nvs.lock);
	return nvs_result("nvshmem_team_split_2d", r);
}

/* One member makes it and tells the others by means of the program. */
NVS_API int nvshmemx_team_get_uniqueid(uint64_t *ret_id);
int nvshmemx_team_get_uniqueid(uint64_t *ret_id)
{
	int r = 0;

	do {
		if (getrandom(ret_id, sizeof(*ret_id), 0) != sizeof(*ret_id))
			r = shmd_error_set(-EIO, "random numbers for the id of a team: %s", strerror(errno));
	} while (!r && (*ret_id == 0 || *ret_id == UINT64_MAX));
	return nvs_result("nvshmemx_team_get_uniqueid", r);
}

/* The members find each other by the id. */
static int make_by_id(uint64_t id, int n_pes, int my_pe, int32_t *ret_team)
{
	struct shmd_team_members members = {.tag = id, .n_pes = n_pes, .my_pe = my_pe};
	struct shmd_team *team = NULL;
	int r = shmd_team_from_members(nvs.world, &members, &team);

	return r ? r : adopt(team, ret_team);
}

NVS_API int nvshmemx_team_init(int32_t *ret_team, struct nvs_team_config *config, long mask, int n_pes, int my_pe);
int nvshmemx_team_init(int32_t *ret_team, struct nvs_team_config *config, long mask, int n_pes, int my_pe)
{
	int r = nvs_ready();

	*ret_team = NVS_TEAM_INVALID;
	pthread_mutex_lock(&nvs.lock);
	if (!r && (!config || config->version != NVS_WORD(2, sizeof(*config))))
		r = shmd_error_set(-EINVAL, "a team by id needs a configuration of the second version, which has the id");
	if (!r)
		r = make_by_id(config->uniqueid, n_pes, my_pe, ret_team);
	keep_config(*ret_team, config, mask);
	pthread_mutex_unlock(&nvs.lock);
	return nvs_result("nvshmemx_team_init", r);
}

/* Teams that every job has stay. */
NVS_API void nvshmem_team_destroy(int32_t team);
void nvshmem_team_destroy(int32_t team)
{
	struct nvs_host_team *mine;
	struct shmd_team *runtime;

	if (team < NVS_TEAM_FIRST || !nvs_is_running())
		return;
	pthread_mutex_lock(&nvs.lock);
	mine = nvs_team_at(team);
	runtime = mine ? mine->team : NULL;
	/* The members meet first: nobody uses its structures any more. */
	(void)nvs_result("nvshmem_team_destroy", mine ? shmd_team_sync(runtime) : -EINVAL);
	if (mine) {
		forget(team);
		(void)nvs_result("nvshmem_team_destroy", shmd_team_destroy(runtime));
	}
	pthread_mutex_unlock(&nvs.lock);
}

/* Before the heap is there, a program asks for its place on the node to select a GPU. A job is on one node. */
static bool is_known_before(int32_t team)
{
	return (team == NVS_TEAM_WORLD || team == NVS_TEAM_NODE) && __atomic_load_n(&nvs.status, __ATOMIC_ACQUIRE) == NVS_STATUS_BOOTSTRAPPED;
}

NVS_API int nvshmem_team_my_pe(int32_t team);
int nvshmem_team_my_pe(int32_t team)
{
	const struct nvs_host_team *mine;

	if (is_known_before(team))
		return shmd_my_pe(nvs.world);
	mine = nvs_ready() ? NULL : nvs_team_at(team);
	return mine ? shmd_team_my_pe(mine->team) : -1;
}

NVS_API int nvshmem_team_n_pes(int32_t team);
int nvshmem_team_n_pes(int32_t team)
{
	const struct nvs_host_team *mine;

	if (is_known_before(team))
		return shmd_n_pes(nvs.world);
	mine = nvs_ready() ? NULL : nvs_team_at(team);
	return mine ? shmd_team_n_pes(mine->team) : -1;
}

NVS_API int nvshmem_team_translate_pe(int32_t from, int pe, int32_t to);
int nvshmem_team_translate_pe(int32_t from, int pe, int32_t to)
{
	const struct nvs_host_team *first = nvs_ready() ? NULL : nvs_team_at(from), *second = first ? nvs_team_at(to) : NULL;

	return second ? shmd_team_translate(first->team, pe, second->team) : -1;
}

/* As the program said when it made the team. */
NVS_API int nvshmem_team_get_config(int32_t team, struct nvs_team_config *ret_config);
int nvshmem_team_get_config(int32_t team, struct nvs_team_config *ret_config)
{
	int r = nvs_ready();
	const struct nvs_host_team *mine = r ? NULL : nvs_team_at(team);

	if (!r && !mine)
		r = -EINVAL;
	if (!r)
		ret_config->num_contexts = mine->n_contexts;
	return nvs_result("nvshmem_team_get_config", r);
}
