/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUs of a session: host memory that a GPU can reach, and the views of queues that kernels work on.
 *
 * Host ranges (queue memory, scratch slots, doorbell page, health page, payload) are registered with CUDA once for
 * all GPUs of the client, a "pin"; a GPU's "map" of it holds a reference. A pin was made in the context of one GPU
 * and keeps that GPU's context for as long as it lives, also when the GPU was closed meanwhile. A range is forgotten
 * before it is unmapped.
 *
 * A view is a copy of a batch's dev-state in GPU memory, with the addresses that hold there. It lives as long as the
 * batch and the GPU. Copies go through a stream of our own, so they do not wait for kernels.
 *
 * All under client->lock. Nothing of CUDA is called in a forked child.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libclient/client-private.h"
#include "libclient/cuda-api.h"

struct shmd_gpu {
	struct shmd_client *client;
	struct list link; /* client->gpus, until it is closed */
	const struct cuda_api *cuda;
	unsigned int n_refs; /* the handle, and pins made in this context */
	cuda_ordinal gpu;
	cuda_context context;
	cuda_stream stream;
	bool is_primary; /* the primary context, retained by us */
	struct shmd_gpu_info info;
	struct list maps; /* gpu_map.link */
	struct list views; /* gpu_view.gpu_link */
};

struct gpu_pin {
	struct list link; /* client->gpu_pins */
	struct shmd_gpu *owner; /* in whose context it was registered */
	void *addr;
	size_t bytes;
	unsigned int n_maps;
};

struct gpu_map {
	struct list link; /* gpu->maps */
	struct gpu_pin *pin;
	cuda_address gpu_addr;
};

struct gpu_view {
	struct list gpu_link, queues_link;
	struct shmd_gpu *gpu;
	struct shmd_queues *queues;
	cuda_address base; /* dev-state, dev-qps, slot words */
};

static bool may_call_cuda(const struct shmd_client *client)
{
	return client->pid == getpid();
}

/* Runs with the GPU's context current; the caller's own comes back. */
static int enter(struct shmd_gpu *gpu)
{
	cuda_result result = gpu->cuda->context_push(gpu->context);

	return result == CUDA_OK ? 0 : cuda_fail(gpu->cuda, result, "use the GPU's context");
}

static void leave(struct shmd_gpu *gpu)
{
	cuda_context ours;

	(void)gpu->cuda->context_pop(&ours);
}

/* ---- a GPU ------------------------------------------------------------------------------------------------ */

static void gpu_unref(struct shmd_gpu *gpu)
{
	if (--gpu->n_refs)
		return;
	if (may_call_cuda(gpu->client)) {
		if (gpu->stream && !enter(gpu)) {
			(void)gpu->cuda->stream_destroy(gpu->stream);
			leave(gpu);
		}
		if (gpu->is_primary)
			(void)gpu->cuda->primary_release(gpu->gpu);
	}
	free(gpu);
}
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
	int r = enter(gpu);

	if (r < 0)
		return r;
	result = gpu->cuda->stream_create(&gpu->stream, CUDA_STREAM_NON_BLOCKING);
	leave(gpu);
	return result == CUDA_OK ? 0 : cuda_fail(gpu->cuda, result, "make a stream");
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
	int r = client_check(gpu ? gpu->client : NULL);

	if (r < 0)
		return r;
	if (!ret_info)
		return text_fail(-EINVAL, "ret_info is NULL");
	*ret_info = gpu->info;
	return 0;
}

/* ---- host ranges -------------------------------------------------------------------------------------------- */

static void unmap(struct gpu_map *map)
{
	struct gpu_pin *pin = map->pin;
	struct shmd_gpu *owner = pin->owner;

	list_del(&map->link);
	free(map);
	if (--pin->n_maps)
		return;
	if (may_call_cuda(owner->client) && !enter(owner)) {
		(void)owner->cuda->host_unregister(pin->addr);
		leave(owner);
	}
	list_del(&pin->link);
	free(pin);
	gpu_unref(owner);
}

static struct gpu_map *find_map(struct shmd_gpu *gpu, const void *addr)
{
	struct gpu_map *map;

	list_for_each_entry(map, &gpu->maps, link)
		if (map->pin->addr == addr)
			return map;
	return NULL;
}

static struct gpu_pin *find_pin(struct shmd_client *client, const void *addr)
{
	struct gpu_pin *pin;

	list_for_each_entry(pin, &client->gpu_pins, link)
		if (pin->addr == addr)
			return pin;
	return NULL;
}

/* The GPU's context is current. */
static int make_pin(struct shmd_gpu *gpu, void *addr, size_t bytes, unsigned int flags, struct gpu_pin **ret_pin)
{
	_cleanup_free_ struct gpu_pin *pin = calloc(1, sizeof(*pin));
	cuda_result result;

	if (!pin)
		return text_fail(-ENOMEM, "no memory for a registration");
	result = gpu->cuda->host_register(addr, bytes, CUDA_REGISTER_PORTABLE | CUDA_REGISTER_MAP | flags);
	if (result != CUDA_OK)
		return cuda_fail(gpu->cuda, result, "register host memory with the GPU");
	pin->owner = gpu;
	pin->addr = addr;
	pin->bytes = bytes;
	gpu->n_refs++;
	list_add_tail(&gpu->client->gpu_pins, &pin->link);
	*ret_pin = take_ptr(pin);
	return 0;
}

/* The GPU's context is current. The pin is there already when another GPU mapped it. */
static int make_map(struct shmd_gpu *gpu, void *addr, size_t bytes, unsigned int flags, struct gpu_map **ret_map)
{
	struct gpu_map *map = calloc(1, sizeof(*map));
	cuda_result result;
	int r;

	if (!map)
		return text_fail(-ENOMEM, "no memory for a registration");
	map->pin = find_pin(gpu->client, addr);
	if (!map->pin) {
		r = make_pin(gpu, addr, bytes, flags, &map->pin);
		if (r < 0) {
			free(map);
			return r;
		}
	}
	map->pin->n_maps++;
	list_add_tail(&gpu->maps, &map->link);
	result = gpu->cuda->host_address(&map->gpu_addr, addr, 0);
	if (result == CUDA_OK) {
		*ret_map = map;
		return 0;
	}
	r = cuda_fail(gpu->cuda, result, "address of host memory on the GPU");
	unmap(map);
	return r;
}

/* Lock held. Where the GPU sees the range; registers it when that was not done yet. */
static int map_range(struct shmd_gpu *gpu, void *addr, size_t bytes, unsigned int flags, uint64_t *ret_addr)
{
	struct gpu_map *map = find_map(gpu, addr);
	int r;

	if (!map) {
		r = enter(gpu);
		if (r < 0)
			return r;
		r = make_map(gpu, addr, bytes, flags, &map);
		leave(gpu);
		if (r < 0)
			return r;
	}
	*ret_addr = map->gpu_addr;
	return 0;
}

void gpu_forget_range(struct shmd_client *client, const void *addr)
{
	struct shmd_gpu *gpu;
	struct gpu_map *map;

	list_for_each_entry(gpu, &client->gpus, link) {
		map = addr ? find_map(gpu, addr) : NULL;
		if (map)
			unmap(map);
	}
}

int shmd_gpu_map_mem(struct shmd_gpu *gpu, const struct shmd_mem *mem, uint64_t *ret_addr)
{
	int r = client_check(gpu ? gpu->client : NULL);

	if (r < 0)
		return r;
	if (!mem || !ret_addr || mem->client != gpu->client)
		return text_fail(-EINVAL, "mem or ret_addr is NULL, or mem belongs to another client");
	client_lock(gpu->client);
	r = map_range(gpu, mem->addr, mem->bytes, 0, ret_addr);
	client_unlock(gpu->client);
	return r;
}

int shmd_gpu_unmap_mem(struct shmd_gpu *gpu, const struct shmd_mem *mem)
{
	struct gpu_map *map;
	int r = client_check(gpu ? gpu->client : NULL);

	if (r < 0)
		return r;
	if (!mem)
		return text_fail(-EINVAL, "mem is NULL");
	client_lock(gpu->client);
	map = find_map(gpu, mem->addr);
	if (map)
		unmap(map);
	client_unlock(gpu->client);
	return map ? 0 : text_fail(-ENOENT, "this memory is not mapped on the GPU");
}

/* ---- views of queues ------------------------------------------------------------------------------------------ */

#define VIEW_QPS_OFFSET sizeof(struct shmd_dev_state)

static size_t view_slots_offset(const struct shmd_queues *queues)
{
	/* bounded: queues that exist. */
	return VIEW_QPS_OFFSET + queues->attr.n_qps * sizeof(struct shmd_dev_qp);
}

static size_t view_slots_bytes(const struct shmd_queues *queues)
{
	/* bounded: queues that exist. */
	return (size_t)queues->attr.n_qps * queues->attr.sq_wqebbs * sizeof(uint32_t);
}

static void view_free(struct gpu_view *view)
{
	struct shmd_gpu *gpu = view->gpu;

	if (view->base && may_call_cuda(gpu->client) && !enter(gpu)) {
		(void)gpu->cuda->free(view->base);
		leave(gpu);
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
	uint64_t batch, page, health, scratch;
};

static int map_batch(struct shmd_gpu *gpu, const struct queue_batch *batch, uint64_t *ret_shift)
{
	uint64_t addr;
	int r = map_range(gpu, batch->mem, batch->mem_bytes, 0, &addr);

	if (!r)
		*ret_shift = addr - (uintptr_t)batch->mem;
	return r;
}

static int map_common(struct shmd_gpu *gpu, const struct shmd_queues *queues, struct shifts *ret_shifts)
{
	const struct shmd_nic *nic = queues->nic;
	unsigned int io = nic->info.doorbell_mode == SHMD_DOORBELL_UAR_MMAP ? CUDA_REGISTER_IO : 0;
	uint64_t page, health, scratch;
	int r = map_range(gpu, nic->page, PAGE_BYTES, io, &page);

	if (!r)
		r = map_range(gpu, nic->client->health, PAGE_BYTES, 0, &health);
	if (!r)
		r = map_range(gpu, queues->scratch->addr, queues->scratch->bytes, 0, &scratch);
	if (r < 0)
		return r;
	ret_shifts->page = page - (uintptr_t)nic->page;
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
	qp->doorbell_addr += by->page;
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
	struct gpu_map *health = find_map(view->gpu, view->queues->nic->client->health);

	*state = *view->queues->dev_state;
	state->qps_addr = view->base + VIEW_QPS_OFFSET;
	state->health_addr = health->gpu_addr;
}

static int view_copy_in(struct gpu_view *view)
{
	struct shmd_gpu *gpu = view->gpu;
	size_t bytes = view_slots_offset(view->queues);
	_cleanup_free_ char *image = calloc(1, bytes);
	cuda_result result;
	int r;

	if (!image)
		return text_fail(-ENOMEM, "no memory for a dev-state");
	r = fill_qps(view, (struct shmd_dev_qp *)(image + VIEW_QPS_OFFSET));
	if (!r)
		r = enter(gpu);
	if (r < 0)
		return r;
	fill_head(view, (struct shmd_dev_state *)image);
	result = gpu->cuda->copy_in(view->base, image, bytes, gpu->stream);
	if (result == CUDA_OK)
		result = gpu->cuda->set8(view->base + bytes, 0, view_slots_bytes(view->queues), gpu->stream);
	if (result == CUDA_OK)
		result = gpu->cuda->stream_sync(gpu->stream);
	leave(gpu);
	return result == CUDA_OK ? 0 : cuda_fail(gpu->cuda, result, "write the dev-state to the GPU");
}

static int view_alloc(struct gpu_view *view)
{
	size_t bytes = view_slots_offset(view->queues) + view_slots_bytes(view->queues);
	struct shmd_gpu *gpu = view->gpu;
	cuda_result result;
	int r = enter(gpu);

	if (r < 0)
		return r;
	result = gpu->cuda->alloc(&view->base, bytes);
	leave(gpu);
	return result == CUDA_OK ? 0 : cuda_fail(gpu->cuda, result, "GPU memory for a dev-state");
}

/* Lock held. */
static int view_new(struct shmd_gpu *gpu, struct shmd_queues *queues, struct gpu_view **ret_view)
{
	struct gpu_view *view = calloc(1, sizeof(*view));
	int r;

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
		view_free(view);
		return r;
	}
	*ret_view = view;
	return 0;
}

static int get_view(struct shmd_gpu *gpu, struct shmd_queues *queues, uint64_t *ret_base)
{
	struct gpu_view *view;
	int r = 0;

	if (!gpu || gpu->client != queues->nic->client)
		return text_fail(-EINVAL, "gpu is NULL or belongs to another client");
	client_lock(gpu->client);
	view = find_view(gpu, queues);
	if (!view)
		r = view_new(gpu, queues, &view);
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
		*ret_addr = base + VIEW_QPS_OFFSET + (uint64_t)i * sizeof(struct shmd_dev_qp);
	return r;
}

void gpu_forget_queues(struct shmd_queues *queues)
{
	struct gpu_view *view, *next;

	list_for_each_entry_safe(view, next, &queues->gpu_views, queues_link)
		view_free(view);
	for (unsigned int b = 0; b < queues->n_batches; b++)
		gpu_forget_range(queues->nic->client, queues->batches[b].mem);
	if (queues->scratch)
		gpu_forget_range(queues->nic->client, queues->scratch->addr);
}

/* ---- back to RST ------------------------------------------------------------------------------------------------ */

#define MUTABLE_OFFSET offsetof(struct shmd_dev_qp, sq_rsvd_index)

static cuda_address view_qp(const struct gpu_view *view, unsigned int i)
{
	return view->base + VIEW_QPS_OFFSET + (uint64_t)i * sizeof(struct shmd_dev_qp);
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
		r = enter(view->gpu);
		if (r < 0)
			return r;
		result = view_read_cq_ci(view, i, &cq_ci);
		leave(view->gpu);
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
		r = enter(view->gpu);
		if (r < 0)
			return r;
		result = view_reset(view, i);
		leave(view->gpu);
		if (result != CUDA_OK)
			return cuda_fail(view->gpu->cuda, result, "write the dev-state to the GPU");
	}
	return 0;
}

/* ---- closing ------------------------------------------------------------------------------------------------------ */

/* Lock held, or the client is closing. */
static void close_locked(struct shmd_gpu *gpu)
{
	struct gpu_view *view, *next_view;
	struct gpu_map *map, *next_map;

	list_for_each_entry_safe(view, next_view, &gpu->views, gpu_link)
		view_free(view);
	list_for_each_entry_safe(map, next_map, &gpu->maps, link)
		unmap(map);
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
