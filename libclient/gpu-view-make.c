/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a view: a batch's dev-state with the addresses that hold on the GPU, copied to GPU memory.
 *
 * Every range that a dev-qp points into is mapped for the GPU first. If a GPU cannot reach a NIC's own doorbell page, the
 * daemon rings for it, provided the caller left the mode to the daemon.
 *
 * All under client->lock.
 */
#include <stdlib.h>
#include <string.h>

#include "libclient/gpu-private.h"

/* For each range that a dev-qp points into: the GPU's address of it minus this process's. */
struct shifts {
	uint64_t batch, health, scratch;
	uint64_t doorbell; /* an address: the page may have changed since the queues were made */
	uint8_t doorbell_mode;
};

static int map_batch(struct shmd_gpu *gpu, const struct queue_batch *batch, uint64_t *ret_shift)
{
	uint64_t addr;
	int r = gpu_map_range(gpu, batch->mem, batch->mem_bytes, 0, &addr);

	if (!r)
		*ret_shift = addr - (uintptr_t)batch->mem;
	return r;
}

/*
 * A UAR page is I/O memory, which CUDA maps if driver and user are allowed to. A simulated NIC's page is ordinary memory. For a GPU
 * that reaches neither, the daemon rings. The lock is held, so page and mode stay the same while this file reads them.
 */
static int map_doorbell_page(struct shmd_gpu *gpu, const struct shmd_queues *queues, uint64_t *ret_addr)
{
	struct shmd_nic *nic = queues->nic;
	char why[CLIENT_TEXT_BYTES];
	int r;

	if (nic->fell_back && !queues->attr.gpu_driven)
		return text_fail(-EINVAL, "%s is in doorbell mode cpu (%s), where these queues are not heard from a GPU: "
				 "create them with gpu_driven = 1", nic->info.name, nic->info.doorbell_reason);
	if (nic->info.doorbell_mode == SHMD_DOORBELL_UAR_MMAP) {
		/* If the GPU cannot be used at all, the page is not the cause. */
		r = gpu_enter(gpu);
		if (r < 0)
			return r;
		gpu_leave(gpu);
		r = gpu_map_range(gpu, nic->page, PAGE_BYTES, CUDA_REGISTER_IO, ret_addr);
		text_copy(why, sizeof(why), shmd_error_text());
		if (r == -ENOMEM || !r || !gpu_map_range(gpu, nic->page, PAGE_BYTES, 0, ret_addr))
			return r == -ENOMEM ? r : 0;
		/* The daemon's thread polls only queues that were made for a GPU. */
		if (!queues->attr.gpu_driven)
			return text_fail(r, "%s; the daemon can ring for queues of a GPU: create them with gpu_driven = 1", why);
		r = nic_to_cpu(nic, why);
		if (r < 0)
			return r;
	}
	return gpu_map_range(gpu, nic->page, PAGE_BYTES, 0, ret_addr);
}

static int map_common(struct shmd_gpu *gpu, const struct shmd_queues *queues, struct shifts *ret_shifts)
{
	struct shmd_nic *nic = queues->nic;
	uint64_t page, health, scratch;
	int r = map_doorbell_page(gpu, queues, &page);

	if (!r)
		r = gpu_map_range(gpu, nic->client->health, PAGE_BYTES, 0, &health);
	if (!r)
		r = gpu_map_range(gpu, queues->scratch->addr, queues->scratch->bytes, 0, &scratch);
	if (r < 0)
		return r;
	ret_shifts->doorbell = page + nic->register_offset;
	ret_shifts->doorbell_mode = (uint8_t)nic->info.doorbell_mode;
	ret_shifts->health = health - (uintptr_t)nic->client->health;
	ret_shifts->scratch = scratch - (uintptr_t)queues->scratch->addr;
	return 0;
}

static void shift_qp(struct shmd_dev_qp *qp, const struct shifts *by)
{
	qp->sq_addr += by->batch;
	qp->sq_dbrec_addr += by->batch;
	qp->cq_addr += by->batch;
	qp->cq_dbrec_addr += by->batch;
	if (qp->rq_addr) {
		qp->rq_addr += by->batch;
		qp->rq_dbrec_addr += by->batch;
	}
	qp->doorbell_addr = by->doorbell;
	qp->doorbell_mode = by->doorbell_mode;
	qp->health_addr += by->health;
	qp->scratch_addr += by->scratch;
	/* A GPU cannot wake a NIC thread. */
	qp->flags &= ~SHMD_QP_WAKE;
	qp->nic_page_addr = 0;
	qp->wake_handle = 0;
}

static int fill_qps(const struct gpu_view *view, struct shmd_dev_qp *qps)
{
	const struct shmd_queues *queues = view->queues;
	struct shifts by;
	int r = map_common(view->gpu, queues, &by);

	for (unsigned int b = 0; b < queues->n_batches && !r; b++) {
		const struct queue_batch *batch = &queues->batches[b];

		r = map_batch(view->gpu, batch, &by.batch);
		for (unsigned int i = batch->first; i < batch->first + batch->n && !r; i++) {
			qps[i] = queues->dev_qps[i];
			shift_qp(&qps[i], &by);
			qps[i].slot_busy_addr = view->base + gpu_view_slots_offset(queues) +
						(uint64_t)i * queues->attr.sq_wqebbs * sizeof(uint32_t);
		}
	}
	return r;
}

static void fill_head(const struct gpu_view *view, struct shmd_dev_state *state)
{
	struct gpu_map *health = gpu_find_map(view->gpu, view->queues->nic->client->health);

	*state = *view->queues->dev_state;
	state->qps_addr = view->base + GPU_VIEW_QPS_OFFSET;
	state->health_addr = health->gpu_addr;
	/* Behind the slots, whose size is a multiple of 64 bytes. */
	if (state->n_peers)
		state->peers_addr = view->base + gpu_view_slots_offset(view->queues) + gpu_view_slots_bytes(view->queues);
	/* gpu_view_write_ways() writes which of them have a QP. */
	state->n_hot_qps = 0;
	if (!view->queues->hot)
		return;
	state->routes_addr = gpu_view_routes(view);
	/* bounded: a table that exists. */
	state->hot_qps_addr = state->routes_addr + state->n_peers * sizeof(struct shmd_dev_route);
}

static int view_copy_in(struct gpu_view *view)
{
	struct shmd_gpu *gpu = view->gpu;
	size_t bytes = gpu_view_slots_offset(view->queues), peers_bytes = gpu_view_peers_bytes(view->queues);
	_cleanup_free_ char *image = calloc(1, bytes);
	cuda_result result;
	int r;

	if (!image)
		return text_fail(-ENOMEM, "no memory for a dev-state");
	r = fill_qps(view, (struct shmd_dev_qp *)(image + GPU_VIEW_QPS_OFFSET));
	if (!r)
		r = gpu_enter(gpu);
	if (r < 0)
		return r;
	fill_head(view, (struct shmd_dev_state *)image);
	result = gpu->cuda->copy_in(view->base, image, bytes, gpu->stream);
	if (result == CUDA_OK)
		result = gpu->cuda->set8(view->base + bytes, 0, gpu_view_slots_bytes(view->queues), gpu->stream);
	if (result == CUDA_OK && peers_bytes)
		result = gpu->cuda->copy_in(((struct shmd_dev_state *)image)->peers_addr, view->queues->peers,
					    peers_bytes, gpu->stream);
	if (result == CUDA_OK && gpu_view_ways_bytes(view->queues))
		result = gpu->cuda->set8(gpu_view_routes(view), 0, gpu_view_ways_bytes(view->queues), gpu->stream);
	return gpu_finish_copies(gpu, result, "write the dev-state to the GPU");
}

static int view_alloc(struct gpu_view *view)
{
	size_t bytes = gpu_view_slots_offset(view->queues) + gpu_view_slots_bytes(view->queues) +
		       gpu_view_peers_bytes(view->queues) + gpu_view_ways_bytes(view->queues);
	struct shmd_gpu *gpu = view->gpu;
	cuda_result result;
	int r = gpu_enter(gpu);

	if (r < 0)
		return r;
	result = gpu->cuda->alloc(&view->base, bytes);
	return gpu_finish(gpu, result, "GPU memory for a dev-state");
}

int gpu_view_make(struct shmd_gpu *gpu, struct shmd_queues *queues, struct gpu_view **ret_view)
{
	struct gpu_view *view;
	int r;

	/* Otherwise several views would drive the QP of a peer. */
	if (queues->hot && !list_empty(&queues->gpu_views))
		return text_fail(-EBUSY, "DCIs whose peers may have QPs of their own have one view, and a GPU has it: another "
					 "one needs a batch and a set of its own (shmd_hot_open)");
	view = calloc(1, sizeof(*view));
	if (!view)
		return text_fail(-ENOMEM, "no memory for a view of queues");
	view->gpu = gpu;
	view->queues = queues;
	list_add_tail(&gpu->views, &view->gpu_link);
	list_add_tail(&queues->gpu_views, &view->queues_link);
	r = view_alloc(view);
	if (!r)
		r = view_copy_in(view);
	if (r < 0) {
		gpu_view_free(view);
		return r;
	}
	*ret_view = view;
	return 0;
}
