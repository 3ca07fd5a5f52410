/* SPDX-License-Identifier: Apache-2.0 */
/* See begin.h. */
#include <pthread.h>

#include "libclient/runtime/gpu/device.h"
#include "libclient/runtime/stream/begin.h"
#include "libclient/runtime/stream/kernels.h"
#include "libclient/runtime/team/team.h"
#include "libclient/runtime/world/ctx.h"
#include "libclient/runtime/world/world-gpu.h"
#include "libclient/runtime/world/world.h"
#include "proto/base/cleanup.h"

struct capture {
	const struct cuda_api *cuda;
	int mode;
};

/* A first call allocates and loads, also by the session, which does not use device_enter(). CUDA forbids that while a stream is captured. */
static struct capture capture_relax(const struct cuda_api *cuda)
{
	struct capture capture = {.cuda = cuda, .mode = CUDA_CAPTURE_RELAXED};

	if (cuda->capture_mode && cuda->capture_mode(&capture.mode) != CUDA_OK)
		capture.cuda = NULL;
	return capture;
}

static void capture_restore(struct capture *capture)
{
	if (capture->cuda && capture->cuda->capture_mode)
		(void)capture->cuda->capture_mode(&capture->mode);
}

static int load(struct shmd_world *world)
{
	int r = 0;

	pthread_mutex_lock(&world->gpu_copies);
	if (!world->gpu->kernels)
		r = stream_kernels_new(world->gpu->device, &world->gpu->kernels);
	pthread_mutex_unlock(&world->gpu_copies);
	return r;
}

int stream_begin(struct shmd_ctx *ctx, struct shmd_team *team, struct stream_call *call)
{
	_cleanup_(capture_restore) __attribute__((unused)) struct capture capture = capture_relax(ctx->world->gpu->device->cuda);
	int r = load(ctx->world);

	if (!r)
		r = shmd_ctx_gpu_dev(ctx, &call->ctx_addr);
	return r || !team ? r : shmd_team_gpu_dev(team, &call->team_addr);
}

int stream_atomic(struct shmd_ctx *ctx, void *word, const struct shmd_atomic *atomic, int pe, struct stream_result *ret_result)
{
	struct stream_call call = {.what = STREAM_ATOMIC, .dest = (uintptr_t)word, .value = atomic->value, .n = atomic->compare,
				   .op = (uint32_t)atomic->op, .type = atomic->bytes, .pe = (uint32_t)pe};
	int r = stream_begin(ctx, NULL, &call);

	if (r < 0)
		return r;
	pthread_mutex_lock(&ctx->world->gpu_copies);
	r = stream_kernels_run(ctx->world->gpu->kernels, STREAM_KERNEL_WORD, &call, ret_result);
	pthread_mutex_unlock(&ctx->world->gpu_copies);
	return r ? r : ret_result->status != 0;
}
