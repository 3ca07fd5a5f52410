/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views of queues that kernels work on.
 *
 * A view is a copy of a batch's dev-state in GPU memory, with the addresses that hold there. It lives as long as the
 * batch and the GPU. A QP that goes back to RST is reset in its views too.
 *
 * All under client->lock.
 */
#include <stdlib.h>
#include <string.h>

#include "libclient/gpu-private.h"

static size_t view_slots_offset(const struct shmd_queues *queues)
{
	/* bounded: queues that exist. */
	return GPU_VIEW_QPS_OFFSET + queues->attr.n_qps * sizeof(struct shmd_dev_qp);
}

static size_t view_slots_bytes(const struct shmd_queues *queues)
{
	/* bounded: queues that exist. */
	return (size_t)queues->attr.n_qps * queues->attr.sq_wqebbs * sizeof(uint32_t);
}

static size_t view_peers_bytes(const struct shmd_queues *queues)
{
	/* bounded: a table that exists. */
	return queues->dev_state->n_peers * sizeof(struct shmd_dev_peer);
}

/* Routes, then the list of QPs that peers have of their own. */
static size_t view_ways_bytes(const struct shmd_queues *queues)
{
	/* bounded: a set that exists. */
	return queues->hot ? queues->hot->n_peers * sizeof(struct shmd_dev_route) +
				     queues->hot->n_slots * sizeof(uint64_t)
			   : 0;
}

uint64_t gpu_view_routes(const struct gpu_view *view)
{
	/* Behind the slots, whose size is a multiple of 64 bytes, and the peers, whose is too. */
	return view->base + view_slots_offset(view->queues) + view_slots_bytes(view->queues) +
	       view_peers_bytes(view->queues);
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

static struct gpu_view *find_view(const struct shmd_gpu *gpu, const struct shmd_queues *queues)
{
	struct gpu_view *view;

	list_for_each_entry(view, &gpu->views, gpu_link)
		if (view->queues == queues)
			return view;
	return NULL;
}

/* How far the GPU's addresses of the ranges that a dev-qp points into lie from this process's. */
struct shifts {
	uint64_t batch, health, scratch;
	uint64_t doorbell; /* an address: the page may be another one than when the queues were made */
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
 * A UAR page is I/O memory, which CUDA takes where driver and user may. That of a simulated NIC is ordinary memory. A GPU that
 * reaches neither has the daemon ring for it: lock held, so doorbell and mode are what they are for all that reads them here.
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
		/* A GPU that cannot be used at all says nothing about the page. */
		r = gpu_enter(gpu);
		if (r < 0)
			return r;
		gpu_leave(gpu);
		r = gpu_map_range(gpu, nic->page, PAGE_BYTES, CUDA_REGISTER_IO, ret_addr);
		text_copy(why, sizeof(why), shmd_error_text());
		if (r == -ENOMEM || !r || !gpu_map_range(gpu, nic->page, PAGE_BYTES, 0, ret_addr))
			return r == -ENOMEM ? r : 0;
		/* The daemon's thread looks by itself after queues for a GPU alone. */
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
	/* Nobody wakes a NIC thread from a GPU. */
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
			qps[i].slot_busy_addr = view->base + view_slots_offset(queues) +
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
		state->peers_addr = view->base + view_slots_offset(view->queues) + view_slots_bytes(view->queues);
	/* Which of them have a QP is written by gpu_view_write_ways(). */
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
	size_t bytes = view_slots_offset(view->queues), peers_bytes = view_peers_bytes(view->queues);
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
		result = gpu->cuda->set8(view->base + bytes, 0, view_slots_bytes(view->queues), gpu->stream);
	if (result == CUDA_OK && peers_bytes)
		result = gpu->cuda->copy_in(((struct shmd_dev_state *)image)->peers_addr, view->queues->peers,
					    peers_bytes, gpu->stream);
	if (result == CUDA_OK && view_ways_bytes(view->queues))
		result = gpu->cuda->set8(gpu_view_routes(view), 0, view_ways_bytes(view->queues), gpu->stream);
	if (result == CUDA_OK)
		result = gpu->cuda->stream_sync(gpu->stream);
	gpu_leave(gpu);
	return result == CUDA_OK ? 0 : cuda_fail(gpu->cuda, result, "write the dev-state to the GPU");
}

static int view_alloc(struct gpu_view *view)
{
	size_t bytes = view_slots_offset(view->queues) + view_slots_bytes(view->queues) +
		       view_peers_bytes(view->queues) + view_ways_bytes(view->queues);
	struct shmd_gpu *gpu = view->gpu;
	cuda_result result;
	int r = gpu_enter(gpu);

	if (r < 0)
		return r;
	result = gpu->cuda->alloc(&view->base, bytes);
	gpu_leave(gpu);
	return result == CUDA_OK ? 0 : cuda_fail(gpu->cuda, result, "GPU memory for a dev-state");
}

/* Lock held. */
static int view_new(struct shmd_gpu *gpu, struct shmd_queues *queues, struct gpu_view **ret_view)
{
	struct gpu_view *view;
	int r;

	/* The QP of a peer would be driven through several views. */
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
	if (!r && queues->hot)
		r = gpu_view_write_ways(view);
	if (r < 0) {
		gpu_view_free(view);
		return r;
	}
	*ret_view = view;
	return 0;
}

int gpu_view_get(struct shmd_gpu *gpu, struct shmd_queues *queues, uint64_t *ret_base)
{
	struct gpu_view *view = find_view(gpu, queues);
	int r = view ? 0 : view_new(gpu, queues, &view);

	if (!r)
		*ret_base = view->base;
	return r;
}

static int get_view(struct shmd_gpu *gpu, struct shmd_queues *queues, uint64_t *ret_base)
{
	int r;

	if (!gpu || gpu->client != queues->nic->client)
		return text_fail(-EINVAL, "gpu is NULL or belongs to another client");
	client_lock(gpu->client);
	r = gpu_view_get(gpu, queues, ret_base);
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

/* An ordinary CQ counts on; the GPU that consumed it knows how far. */
static cuda_result view_read_cq_ci(const struct gpu_view *view, unsigned int i, uint64_t *ret_cq_ci)
{
	struct shmd_gpu *gpu = view->gpu;
	cuda_result result = gpu->cuda->copy_out(ret_cq_ci, view_qp(view, i) + offsetof(struct shmd_dev_qp, cq_ci),
						 sizeof(*ret_cq_ci), gpu->stream);

	return result == CUDA_OK ? gpu->cuda->stream_sync(gpu->stream) : result;
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
		result = gpu->cuda->set8(view->base + view_slots_offset(queues) + i * slots, 0, slots, gpu->stream);
	return result == CUDA_OK ? gpu->cuda->stream_sync(gpu->stream) : result;
}

int gpu_before_reset(struct shmd_queues *queues, unsigned int i)
{
	struct gpu_view *view;
	cuda_result result;
	uint64_t cq_ci;
	int r;

	list_for_each_entry(view, &queues->gpu_views, queues_link) {
		r = gpu_enter(view->gpu);
		if (r < 0)
			return r;
		result = view_read_cq_ci(view, i, &cq_ci);
		gpu_leave(view->gpu);
		if (result != CUDA_OK)
			return cuda_fail(view->gpu->cuda, result, "read the dev-state from the GPU");
		if (cq_ci > queues->dev_qps[i].cq_ci)
			queues->dev_qps[i].cq_ci = cq_ci;
	}
	return 0;
}

int gpu_after_reset(struct shmd_queues *queues, unsigned int i)
{
	struct gpu_view *view;
	cuda_result result;
	int r;

	list_for_each_entry(view, &queues->gpu_views, queues_link) {
		r = gpu_enter(view->gpu);
		if (r < 0)
			return r;
		result = view_reset(view, i);
		gpu_leave(view->gpu);
		if (result != CUDA_OK)
			return cuda_fail(view->gpu->cuda, result, "write the dev-state to the GPU");
	}
	return 0;
}
