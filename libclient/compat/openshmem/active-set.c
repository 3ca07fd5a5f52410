/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Active sets: PEs start, start + 2^log_stride, ... as the collective calls of before 1.5 name them.
 *
 * The first call on a set makes a team of its PEs, without the others, and the library keeps it until finalize; all later calls on that
 * set use it. A PE keeps as many as half of its room for teams, and none with one of the last ids, so any PEs find an id in common there. A set that
 * is too much for one of its PEs gets a team for each call, which ends with the call; its PEs agree on that by a split. The work arrays of the
 * program are left as they are.
 *
 * Threads that make more teams at once than there are ids wait: whoever has a team needs no other one to end its call.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <shmd/abi/world.h>

#include <shmd-info.h>

#include "libclient/compat/openshmem/collective.h"

/* Teams that every world has, for which the setting has room as well. */
#define N_BUILTIN 4
/* Ids for the sets that are not kept. */
#define MOST_FOR_OTHERS 16

struct kept_set {
	struct osh_set set;
	struct shmd_team *team;
	struct kept_set *next;
};

/* All PEs of a set try again as often, and none goes on to another call meanwhile. */
#define TRY_AGAIN_MSEC 1
#define SAY_AFTER_SEC 10

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* not held while a team is made: other sets go on */
static struct kept_set *kept;
static uint64_t n_kept;

static struct shmd_team *find(struct osh_set set)
{
	struct kept_set *one;

	pthread_mutex_lock(&lock);
	for (one = kept; one && memcmp(&one->set, &set, sizeof(set)) != 0; one = one->next)
		;
	pthread_mutex_unlock(&lock);
	return one ? one->team : NULL;
}

static int fill_pes(struct osh_set set, int *pes)
{
	for (int i = 0; i < set.size; i++) {
		int64_t pe = set.start + ((int64_t)i << set.log_stride);

		if (pe >= shmd_n_pes(osh.world))
			return -EINVAL;
		pes[i] = (int)pe;
	}
	return 0;
}

static int make_team(struct osh_set set, int *pes, struct shmd_team **ret_team)
{
	struct shmd_team_members members = {.n_pes = set.size, .pes = pes};

	/* No two sets have one number, and programs cannot reach shmd_team_from_members() on this world. */
	members.tag = (uint64_t)set.start << 40 | (uint64_t)set.log_stride << 32 | (uint64_t)set.size;
	if (fill_pes(set, pes) < 0)
		return shmd_error_set(-EINVAL, "the active set of %d PEs from %d on, 2^%d apart, is not in a world of %d", set.size, set.start,
				      set.log_stride, shmd_n_pes(osh.world));
	return shmd_team_from_members(osh.world, &members, ret_team);
}

static uint64_t room_for_teams(void)
{
	struct shmd_setting_info info;

	for (unsigned int i = 0; !shmd_info_setting(i, &info); i++)
		if (!strcmp(info.name, "SHMD_MAX_TEAMS"))
			return strtoull(info.value, NULL, 10);
	return N_BUILTIN;
}

/* All PEs of the set can keep it, and have memory for that: then they are a team of their own for a moment. */
static bool all_have_room(struct shmd_team *team, bool has_memory)
{
	uint64_t n_ids = room_for_teams(), room = (n_ids - N_BUILTIN) / 2, others = room < MOST_FOR_OTHERS ? room : MOST_FOR_OTHERS;
	struct shmd_team *those = NULL;
	bool all;

	pthread_mutex_lock(&lock);
	all = has_memory && n_kept < room && shmd_team_dev(team)->id < n_ids - others;
	pthread_mutex_unlock(&lock);
	/* Without an id for them there is no room; all PEs get the same answer. */
	if (shmd_team_split_color(team, all ? 0 : -1, 0, &those) || !those)
		return false;
	all = shmd_team_n_pes(those) == shmd_team_n_pes(team);
	(void)shmd_team_destroy(those);
	return all;
}

static bool keep(struct osh_set set, struct shmd_team *team)
{
	struct kept_set *one = calloc(1, sizeof(*one));

	if (!all_have_room(team, one)) {
		free(one);
		return false;
	}
	one->set = set;
	one->team = team;
	pthread_mutex_lock(&lock);
	one->next = kept;
	kept = one;
	n_kept++;
	pthread_mutex_unlock(&lock);
	return true;
}

/* Only threads of this library's calls give ids back, so one thread alone would wait for ever. */
static int make_team_in_time(struct osh_set set, int *pes, struct shmd_team **ret_team)
{
	struct timespec begin, now;
	bool has_said = false;
	int r;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	while ((r = make_team(set, pes, ret_team)) == -ENOSPC && osh.threads == SHMEM_THREAD_MULTIPLE) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (!has_said && now.tv_sec - begin.tv_sec >= SAY_AFTER_SEC)
			fprintf(stderr, "PE %d waits to make a team of an active set: %s\n", shmd_my_pe(osh.world), shmd_error_text());
		has_said |= now.tv_sec - begin.tv_sec >= SAY_AFTER_SEC;
		poll(NULL, 0, TRY_AGAIN_MSEC);
	}
	return r;
}

static struct osh_use make_use(const char *name, struct osh_set set)
{
	int *pes = calloc((size_t)set.size, sizeof(*pes)), r;
	struct osh_use use = {.team = NULL};

	if (!pes)
		osh_fail(name, shmd_error_set(-ENOMEM, "no memory for an active set of %d PEs", set.size));
	r = make_team_in_time(set, pes, &use.team);
	free(pes);
	osh_check(name, r);
	use.is_last = !keep(set, use.team);
	return use;
}

struct osh_use osh_set_begin(const char *name, struct osh_set set)
{
	struct shmd_team *team;

	if (!osh.world)
		osh_fail(name, -EINVAL);
	if (set.start < 0 || set.size < 1 || set.log_stride < 0 || set.log_stride > 30)
		osh_fail(name, shmd_error_set(-EINVAL, "an active set of %d PEs from %d on, 2^%d apart", set.size, set.start,
					      set.log_stride));
	/* The stride of a single PE says nothing, and neither does another way to say "all". */
	if (set.size == 1)
		set.log_stride = 0;
	if (!set.start && !set.log_stride && set.size == shmd_n_pes(osh.world))
		return (struct osh_use){.team = osh.world_team.team};
	team = find(set);
	return team ? (struct osh_use){.team = team} : make_use(name, set);
}

void osh_set_end(const char *name, struct osh_use use)
{
	if (use.is_last)
		osh_check(name, shmd_team_destroy(use.team));
}

/* The world frees the teams. */
void osh_sets_drop(void)
{
	while (kept) {
		struct kept_set *one = kept;

		kept = one->next;
		free(one);
	}
	n_kept = 0;
}

void pshmem_barrier(int PE_start, int logPE_stride, int PE_size, long *pSync)
{
	(void)pSync;
	OSH_ON_SET("shmem_barrier", ((struct osh_set){PE_start, logPE_stride, PE_size}), shmd_team_barrier(team));
}
OSH_WEAK(shmem_barrier, pshmem_barrier)

void pshmem_sync(int PE_start, int logPE_stride, int PE_size, long *pSync)
{
	(void)pSync;
	OSH_ON_SET("shmem_sync", ((struct osh_set){PE_start, logPE_stride, PE_size}), shmd_team_sync(team));
}
OSH_WEAK(shmem_sync, pshmem_sync)

/* Unlike that of a team, this broadcast leaves dest of the root as it is. */
void osh_broadcast_set(const char *name, struct osh_set set, void *dest, const void *source, size_t bytes, int root)
{
	struct osh_use use = osh_set_begin(name, set);
	bool is_root = shmd_team_my_pe(use.team) == root && dest != source;
	void *before = is_root && bytes ? malloc(bytes) : NULL;

	if (is_root && bytes && !before)
		osh_fail(name, shmd_error_set(-ENOMEM, "no memory for what dest of the root had"));
	if (before)
		memcpy(before, dest, bytes);
	osh_check(name, shmd_broadcast(use.team, osh_symmetric(dest), osh_symmetric(source), bytes, root));
	if (before)
		memcpy(dest, before, bytes);
	free(before);
	osh_set_end(name, use);
}
