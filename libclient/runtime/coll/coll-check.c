/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "libclient/runtime/coll/coll-check.h"
#include "libclient/runtime/team/missing.h"
#include "libclient/runtime/world/heaps.h"

static int refuse_gpu(const struct shmd_team *team, const void *ptr)
{
	uint64_t addr = (uintptr_t)ptr;

	return world_is_on_gpu(team->world, addr, addr + 1) ? shmd_error_set(-EINVAL, "%p is in the GPU heap, on which kernels call collectives", ptr) : 0;
}

int coll_check_slow(const struct shmd_team *team, const void *dest, const void *source)
{
	int r = team_check(team);

	if (!r)
		r = refuse_gpu(team, dest);
	return r ? r : refuse_gpu(team, source);
}

int coll_fail(const struct shmd_team *team, int status, const char *what, int root)
{
	if (status == SHMD_DEV_INVALID)
		return shmd_error_set(-EINVAL, "%s: memory outside the symmetric heap, a PE that is not in the team of %u, strides below the size of an "
				      "element, or an operation that the type does not have", what, team->dev.n_pes);
	if (status == SHMD_DEV_TIMEOUT)
		return team_blame_missing_in_coll(team, what, root);
	return team_status_error(team, status, what);
}
