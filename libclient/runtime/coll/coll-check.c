/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "libclient/runtime/coll/coll-check.h"
#include "libclient/runtime/team/missing.h"
#include "libclient/runtime/world/heaps.h"

static bool is_on_gpu(const struct shmd_team *team, const void *ptr)
{
	uint64_t addr = (uintptr_t)ptr;

	return world_is_on_gpu(team->world, addr, addr + 1);
}

int coll_check_slow(const struct shmd_team *team, const void *dest, const void *source, size_t n)
{
	int r = team_check(team);

	if (r < 0 || !n)
		return r;
	if (is_on_gpu(team, dest) != is_on_gpu(team, source))
		return shmd_error_set(-EINVAL, "one of %p and %p is in the GPU heap: a collective has both in one heap", dest, source);
	return is_on_gpu(team, dest) ? COLL_ON_GPU : 0;
}

#define CALL_BYTES 96

/* Numbers in the scratch are those of the call that failed first: later ones did nothing. */
static int blame(struct shmd_team *team, const char *what, int root)
{
	char call[CALL_BYTES];

	if (!team->failed_call) {
		team->failed_call = what;
		team->failed_root = root;
		return team_blame_missing_in_coll(team, what, root);
	}
	snprintf(call, sizeof(call), "%s, after the %s that failed", what, team->failed_call);
	return team_blame_missing_in_coll(team, call, team->failed_root);
}

int coll_fail(struct shmd_team *team, int status, const char *what, int root)
{
	if (status == SHMD_DEV_INVALID)
		return shmd_error_set(-EINVAL, "%s: memory outside the symmetric heap, a PE that is not in the team of %u, strides below the size of an "
				      "element, or an operation that the type does not have", what, team->dev.n_pes);
	if (status == SHMD_DEV_TIMEOUT)
		return blame(team, what, root);
	return team_status_error(team, status, what);
}
