/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Active sets: PEs start, start + 2^log_stride, ... as the collective calls of before 1.5 name them.
 *
 * The first call on a set makes a team of its PEs, without the others, and the library keeps it until finalize; all later calls on that
 * set use it. The work arrays of the program are left as they are.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/compat/openshmem/collective.h"

struct kept_set {
	struct osh_set set;
	struct shmd_team *team;
	struct kept_set *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* not held while a team is made: other sets go on */
static struct kept_set *kept;

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

static struct shmd_team *keep(const char *name, struct osh_set set)
{
	struct kept_set *one = calloc(1, sizeof(*one));
	int *pes = calloc((size_t)set.size, sizeof(*pes)), r;

	if (!one || !pes)
		osh_fail(name, shmd_error_set(-ENOMEM, "no memory for an active set of %d PEs", set.size));
	r = make_team(set, pes, &one->team);
	free(pes);
	osh_check(name, r);
	one->set = set;
	pthread_mutex_lock(&lock);
	one->next = kept;
	kept = one;
	pthread_mutex_unlock(&lock);
	return one->team;
}

struct shmd_team *osh_team_of_set(const char *name, struct osh_set set)
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
		return osh.world_team.team;
	team = find(set);
	return team ? team : keep(name, set);
}

/* The world frees the teams. */
void osh_sets_drop(void)
{
	while (kept) {
		struct kept_set *one = kept;

		kept = one->next;
		free(one);
	}
}

void pshmem_barrier(int PE_start, int logPE_stride, int PE_size, long *pSync)
{
	(void)pSync;
	osh_check("shmem_barrier", shmd_team_barrier(osh_team_of_set("shmem_barrier", (struct osh_set){PE_start, logPE_stride, PE_size})));
}
OSH_WEAK(shmem_barrier, pshmem_barrier)

void pshmem_sync(int PE_start, int logPE_stride, int PE_size, long *pSync)
{
	(void)pSync;
	osh_check("shmem_sync", shmd_team_sync(osh_team_of_set("shmem_sync", (struct osh_set){PE_start, logPE_stride, PE_size})));
}
OSH_WEAK(shmem_sync, pshmem_sync)

/* Unlike that of a team, this broadcast leaves dest of the root as it is. */
void osh_broadcast_set(const char *name, struct osh_set set, void *dest, const void *source, size_t bytes, int root)
{
	struct shmd_team *team = osh_team_of_set(name, set);
	bool is_root = shmd_team_my_pe(team) == root && dest != source;
	void *before = is_root && bytes ? malloc(bytes) : NULL;

	if (is_root && bytes && !before)
		osh_fail(name, shmd_error_set(-ENOMEM, "no memory for what dest of the root had"));
	if (before)
		memcpy(before, dest, bytes);
	osh_check(name, shmd_broadcast(team, osh_symmetric(dest), osh_symmetric(source), bytes, root));
	if (before)
		memcpy(dest, before, bytes);
	free(before);
}
