/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "libclient/runtime/coll/coll-check.h"
#include "libclient/runtime/coll/coll-gpu.h"
#include "libclient/runtime/gpu/device.h"
#include "libclient/runtime/stream/begin.h"
#include "libclient/runtime/stream/kernels.h"
#include "libclient/runtime/world/exchange.h"
#include "libclient/runtime/world/world-gpu.h"

int coll_gpu_refuse(const char *what)
{
	return shmd_error_set(-EOPNOTSUPP, "%s: both sides are in the GPU heap, on which only kernels call it", what);
}

static int judge(struct shmd_team *team, int status, const char *what)
{
	if (status == SHMD_DEV_OK)
		return 0;
	if (status == SHMD_DEV_INVALID)
		return coll_fail(team, status, what, COLL_NO_ROOT);
	/* Numbers in the scratch of the host say nothing of kernels. */
	if (status == SHMD_DEV_TIMEOUT)
		return world_status_error(team->world, status, what, -1);
	return team_status_error(team, status, what);
}

int coll_gpu_run(struct shmd_team *team, enum stream_kernel kernel, struct stream_call call, const char *what)
{
	struct world_gpu *gpu = team->world->gpu;
	struct stream_failure failure = {0};
	int r = stream_begin(team->world->ctx, team, &call);

	if (!r && !team->gpu_calls)
		r = stream_own_new(gpu->device, &team->gpu_calls);
	if (!r)
		r = stream_own_run(team->gpu_calls, gpu->kernels, kernel, &call, &failure);
	return r ? r : judge(team, failure.status, what);
}

int coll_gpu_settle(struct shmd_team *team, int *ret_status)
{
	struct stream_call call = {.what = STREAM_QUIET, .pe = STREAM_NO_PE};
	struct stream_failure failure = {0};
	int r;

	*ret_status = SHMD_DEV_OK;
	if (!team->gpu_calls || !team->world->queues)
		return 0;
	r = stream_begin(team->world->ctx, NULL, &call);
	if (!r)
		r = stream_own_run(team->gpu_calls, team->world->gpu->kernels, STREAM_KERNEL_WORD, &call, &failure);
	if (!r)
		*ret_status = failure.status;
	return r;
}
