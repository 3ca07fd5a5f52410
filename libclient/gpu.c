/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUs of a session: opening, the views of queues that kernels work on, closing.
 *
 * The library retains the primary context, or uses the caller's current one. Copies go through a stream of its own, so they do
 * not wait for kernels.
 *
 * All under client->lock. Nothing of CUDA is called in a forked child.
 */
#include <stdlib.h>

#include "libclient/gpu-private.h"

DEFINE_CLEANUP(struct shmd_gpu *, gpu_unref);

static int take_context(struct shmd_gpu *gpu, int ordinal)
{
	const struct cuda_api *cuda = gpu->cuda;
	cuda_result result;

	if (ordinal == SHMD_GPU_CURRENT) {
		result = cuda->context_current(&gpu->context);
		if (result == CUDA_OK && !gpu->context)
			return text_fail(-EINVAL, "this thread has no current CUDA context; name a GPU by its number");
		if (result == CUDA_OK)
			result = cuda->context_gpu(&gpu->gpu);
		return result == CUDA_OK ? 0 : cuda_fail(cuda, result, "current CUDA context");
	}
	result = cuda->gpu_get(&gpu->gpu, ordinal);
	if (result != CUDA_OK)
		return cuda_fail(cuda, result, "find the GPU");
	result = cuda->primary_retain(&gpu->context, gpu->gpu);
	if (result != CUDA_OK)
		return cuda_fail(cuda, result, "primary context of the GPU");
	gpu->is_primary = true;
	return 0;
}

static int fill_info(struct shmd_gpu *gpu)
{
	cuda_result result =
		gpu->cuda->gpu_name(gpu->info.name, (int)sizeof(gpu->info.name), gpu->gpu);

	if (result == CUDA_OK)
		result = gpu->cuda->gpu_pci(gpu->info.pci, (int)sizeof(gpu->info.pci), gpu->gpu);
	gpu->info.ordinal = gpu->gpu;
	return result == CUDA_OK ? 0 : cuda_fail(gpu->cuda, result, "describe the GPU");
}

static int make_stream(struct shmd_gpu *gpu)
{
	cuda_result result;
	int r = gpu_enter(gpu);

	if (r < 0)
		return r;
	result = gpu->cuda->stream_create(&gpu->stream, CUDA_STREAM_NON_BLOCKING);
	return gpu_finish(gpu, result, "make a stream");
}

int shmd_gpu_open(struct shmd_client *client, int ordinal, struct shmd_gpu **ret_gpu)
{
	_cleanup_(gpu_unrefp) struct shmd_gpu *gpu = NULL;
	int r = client_check(client);

	if (r < 0)
		return r;
	if (!ret_gpu || ordinal < SHMD_GPU_CURRENT)
		return text_fail(-EINVAL, "ret_gpu is NULL, or there is no GPU %d", ordinal);
	gpu = calloc(1, sizeof(*gpu));
	if (!gpu)
		return text_fail(-ENOMEM, "no memory for a GPU");
	gpu->client = client;
	gpu->n_refs = 1;
	list_init(&gpu->maps);
	list_init(&gpu->views);
	r = cuda_api_get(&gpu->cuda);
	if (!r)
		r = take_context(gpu, ordinal);
	if (!r)
		r = fill_info(gpu);
	if (!r)
		r = make_stream(gpu);
	if (r < 0)
		return r;
	client_lock(client);
	list_add_tail(&client->gpus, &gpu->link);
	client_unlock(client);
	*ret_gpu = take_ptr(gpu);
	return 0;
}

int shmd_gpu_info(const struct shmd_gpu *gpu, struct shmd_gpu_info *ret_info)
{
	int r = client_check_out(gpu ? gpu->client : NULL, ret_info, "ret_info");

	if (!r)
		*ret_info = gpu->info;
	return r;
}

/* ---- views of queues ---------------------------------------------------------------------------------------------- */

static int make_view(struct shmd_gpu *gpu, struct shmd_queues *queues, struct gpu_view **ret_view)
{
	int r = gpu_view_make(gpu, queues, ret_view);

	if (r < 0 || !queues->hot)
		return r;
	r = gpu_view_write_ways(*ret_view);
	if (r < 0)
		gpu_view_free(*ret_view);
	return r;
}

static int get_view(struct shmd_gpu *gpu, struct shmd_queues *queues, uint64_t *ret_base)
{
	struct gpu_view *view;
	int r;

	if (!gpu || gpu->client != queues->nic->client)
		return text_fail(-EINVAL, "gpu is NULL or belongs to another client");
	client_lock(gpu->client);
	view = gpu_view_find(gpu, queues);
	r = view ? 0 : make_view(gpu, queues, &view);
	if (!r)
		*ret_base = view->base;
	client_unlock(gpu->client);
	return r;
}

int shmd_gpu_dev_state(struct shmd_gpu *gpu, struct shmd_queues *queues, uint64_t *ret_addr)
{
	int r = queues_check(queues, 0);

	if (r < 0)
		return r;
	if (!ret_addr)
		return text_fail(-EINVAL, "ret_addr is NULL");
	return get_view(gpu, queues, ret_addr);
}

int shmd_gpu_dev_qp(struct shmd_gpu *gpu, struct shmd_queues *queues, unsigned int i, uint64_t *ret_addr)
{
	uint64_t base = 0;
	int r = queues_check(queues, i);

	if (r < 0)
		return r;
	if (!ret_addr)
		return text_fail(-EINVAL, "ret_addr is NULL");
	r = get_view(gpu, queues, &base);
	if (!r)
		*ret_addr = base + GPU_VIEW_QPS_OFFSET + (uint64_t)i * sizeof(struct shmd_dev_qp);
	return r;
}

/* ---- closing ------------------------------------------------------------------------------------------------------ */

/* Lock held, or the client is closing. */
static void close_locked(struct shmd_gpu *gpu)
{
	struct gpu_view *view, *next_view;
	struct gpu_map *map, *next_map;

	list_for_each_entry_safe(view, next_view, &gpu->views, gpu_link)
		gpu_view_free(view);
	list_for_each_entry_safe(map, next_map, &gpu->maps, link)
		gpu_unmap(map);
	list_del(&gpu->link);
	gpu_unref(gpu);
}

void gpu_close_all(struct shmd_client *client)
{
	struct shmd_gpu *gpu, *next;

	list_for_each_entry_safe(gpu, next, &client->gpus, link)
		close_locked(gpu);
}

int shmd_gpu_close(struct shmd_gpu *gpu)
{
	struct shmd_client *client = gpu ? gpu->client : NULL;
	int r = client_check(client);

	if (r < 0)
		return r;
	client_lock(client);
	close_locked(gpu);
	client_unlock(client);
	return 0;
}
