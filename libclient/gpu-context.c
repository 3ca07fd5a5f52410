/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The context of a GPU: entering, leaving, and the count of its users.
 *
 * Calls into CUDA run with the GPU's context current and leave the caller's own behind.
 *
 * All under client->lock, but entering and leaving: a context never changes. Nothing of CUDA is called in a forked child.
 */
#include <stdlib.h>
#include <unistd.h>

#include "libclient/gpu-private.h"

bool gpu_may_call_cuda(const struct shmd_client *client)
{
	return client->pid == getpid();
}

int gpu_enter(struct shmd_gpu *gpu)
{
	cuda_result result = gpu->cuda->context_push(gpu->context);

	return result == CUDA_OK ? 0 : cuda_fail(gpu->cuda, result, "use the GPU's context");
}

void gpu_leave(struct shmd_gpu *gpu)
{
	cuda_context ours;

	(void)gpu->cuda->context_pop(&ours);
}

int gpu_finish(struct shmd_gpu *gpu, cuda_result result, const char *what)
{
	gpu_leave(gpu);
	return result == CUDA_OK ? 0 : cuda_fail(gpu->cuda, result, what);
}

int gpu_finish_copies(struct shmd_gpu *gpu, cuda_result result, const char *what)
{
	if (result == CUDA_OK)
		result = gpu->cuda->stream_sync(gpu->stream);
	return gpu_finish(gpu, result, what);
}

void gpu_unref(struct shmd_gpu *gpu)
{
	if (--gpu->n_refs)
		return;
	if (gpu_may_call_cuda(gpu->client)) {
		if (gpu->stream && !gpu_enter(gpu)) {
			(void)gpu->cuda->stream_destroy(gpu->stream);
			gpu_leave(gpu);
		}
		if (gpu->is_primary)
			(void)gpu->cuda->primary_release(gpu->gpu);
	}
	free(gpu);
}
