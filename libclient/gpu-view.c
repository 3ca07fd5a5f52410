/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views of queues that kernels work on: their layout, their end, and QPs that go back to RST.
 *
 * A view is a copy of a batch's dev-state in GPU memory, with the addresses that hold there. It lives as long as the
 * batch and the GPU. A QP that goes back to RST is reset in its views too.
 *
 * All under client->lock.
 */
#include <stdlib.h>
#include <string.h>

#include "libclient/gpu-private.h"

size_t gpu_view_slots_offset(const struct shmd_queues *queues)
{
	/* bounded: queues that exist. */
	return GPU_VIEW_QPS_OFFSET + queues->attr.n_qps * sizeof(struct shmd_dev_qp);
}

size_t gpu_view_slots_bytes(const struct shmd_queues *queues)
{
	/* bounded: queues that exist. */
	return (size_t)queues->attr.n_qps * queues->attr.sq_wqebbs * sizeof(uint32_t);
}

size_t gpu_view_peers_bytes(const struct shmd_queues *queues)
{
	/* bounded: a table that exists. */
	return queues->dev_state->n_peers * sizeof(struct shmd_dev_peer);
}

/* Routes, then the list of QPs that peers have of their own. */
size_t gpu_view_ways_bytes(const struct shmd_queues *queues)
{
	/* bounded: a set that exists. */
	return queues->hot ? queues->hot->n_peers * sizeof(struct shmd_dev_route) +
				     queues->hot->n_slots * sizeof(uint64_t)
			   : 0;
}

uint64_t gpu_view_routes(const struct gpu_view *view)
{
	/* Behind the slots, whose size is a multiple of 64 bytes, and the peers, whose is too. */
	return view->base + gpu_view_slots_offset(view->queues) + gpu_view_slots_bytes(view->queues) +
	       gpu_view_peers_bytes(view->queues);
}

struct gpu_view *gpu_view_find(const struct shmd_gpu *gpu, const struct shmd_queues *queues)
{
	struct gpu_view *view;

	list_for_each_entry(view, &gpu->views, gpu_link)
		if (view->queues == queues)
			return view;
	return NULL;
}

void gpu_view_free(struct gpu_view *view)
{
	struct shmd_gpu *gpu = view->gpu;

	if (view->base && gpu_may_call_cuda(gpu->client) && !gpu_enter(gpu)) {
		(void)gpu->cuda->free(view->base);
		gpu_leave(gpu);
	}
	list_del(&view->gpu_link);
	list_del(&view->queues_link);
	free(view);
}

void gpu_forget_queues(struct shmd_queues *queues)
{
	struct gpu_view *view, *next;

	list_for_each_entry_safe(view, next, &queues->gpu_views, queues_link)
		gpu_view_free(view);
	for (unsigned int b = 0; b < queues->n_batches; b++)
		gpu_forget_range(queues->nic->client, queues->batches[b].mem);
	if (queues->scratch)
		gpu_forget_range(queues->nic->client, queues->scratch->addr);
}

/* ---- back to RST ------------------------------------------------------------------------------------------------ */

#define MUTABLE_OFFSET offsetof(struct shmd_dev_qp, sq_rsvd_index)

static cuda_address view_qp(const struct gpu_view *view, unsigned int i)
{
	return view->base + GPU_VIEW_QPS_OFFSET + (uint64_t)i * sizeof(struct shmd_dev_qp);
}

/* The consumer index of an ordinary CQ goes on through a reset; the GPU that consumed it has the current value. */
static cuda_result view_read_cq_ci(const struct gpu_view *view, unsigned int i, uint64_t *ret_cq_ci)
{
	struct shmd_gpu *gpu = view->gpu;

	return gpu->cuda->copy_out(ret_cq_ci, view_qp(view, i) + offsetof(struct shmd_dev_qp, cq_ci), sizeof(*ret_cq_ci),
				   gpu->stream);
}

static cuda_result view_reset(const struct gpu_view *view, unsigned int i)
{
	struct shmd_queues *queues = view->queues;
	struct shmd_gpu *gpu = view->gpu;
	uint64_t slots = (uint64_t)queues->attr.sq_wqebbs * sizeof(uint32_t);
	cuda_result result;

	result = gpu->cuda->copy_in(view_qp(view, i) + MUTABLE_OFFSET, (char *)&queues->dev_qps[i] + MUTABLE_OFFSET,
				    sizeof(struct shmd_dev_qp) - MUTABLE_OFFSET, gpu->stream);
	if (result == CUDA_OK)
		result = gpu->cuda->set8(view->base + gpu_view_slots_offset(queues) + i * slots, 0, slots, gpu->stream);
	return result;
}

int gpu_before_reset(struct shmd_queues *queues, unsigned int i)
{
	struct gpu_view *view;
	uint64_t cq_ci;
	int r;

	list_for_each_entry(view, &queues->gpu_views, queues_link) {
		r = gpu_enter(view->gpu);
		if (r < 0)
			return r;
		r = gpu_finish_copies(view->gpu, view_read_cq_ci(view, i, &cq_ci), "read the dev-state from the GPU");
		if (r < 0)
			return r;
		if (cq_ci > queues->dev_qps[i].cq_ci)
			queues->dev_qps[i].cq_ci = cq_ci;
	}
	return 0;
}

int gpu_after_reset(struct shmd_queues *queues, unsigned int i)
{
	struct gpu_view *view;
	int r;

	list_for_each_entry(view, &queues->gpu_views, queues_link) {
		r = gpu_enter(view->gpu);
		if (r < 0)
			return r;
		r = gpu_finish_copies(view->gpu, view_reset(view, i), "write the dev-state to the GPU");
		if (r < 0)
			return r;
	}
	return 0;
}
