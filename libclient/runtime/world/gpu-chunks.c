/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks of the GPU heap. A chunk appears in two steps, each of which ends with an agreement of all PEs: every PE makes its part and publishes
 * it, then fetches and maps those of its group, and registers its own with its NICs, whose keys all PEs get. Publishing ends with the second
 * step; descriptors are closed as soon as they are mapped. A failure undoes the chunk on all PEs.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/runtime/gpu/device.h"
#include "libclient/runtime/gpu/ranges.h"
#include "libclient/runtime/heap/heap-agree.h"
#include "libclient/runtime/heap/heap-alloc.h"
#include "libclient/runtime/heap/heap-map.h"
#include "libclient/runtime/settings/log.h"
#include "libclient/runtime/stream/kernels.h"
#include "libclient/runtime/world/exchange.h"
#include "libclient/runtime/world/gpu-apart.h"
#include "libclient/runtime/world/heaps.h"
#include "libclient/runtime/world/queues.h"
#include "libclient/runtime/world/world-gpu.h"
#include "libclient/runtime/world/world.h"
#include "proto/base/cleanup.h"
#include "proto/base/overflow.h"

_Static_assert(GPU_RANGES_STEP == HEAP_MAP_STEP && WORLD_GPU_INTERNAL_BYTES % HEAP_CHUNK_ALIGN == 0, "chunks begin there");

const struct chunk_names world_gpu_chunk_names = {"GPU heap", "GPU_HEAP"};

struct chunk {
	uint32_t number;
	uint64_t offset, bytes;
	uint64_t lent; /* address of memory of the program's; 0: the heap makes its own */
	bool is_published;
};

bool world_gpu_is_wanted(const struct runtime_settings *settings)
{
	return settings->gpu[0] ? strcmp(settings->gpu, "none") != 0 : settings->gpu_heap_bytes != 0;
}

/* ---- one chunk */

/* The first one begins with scratch of teams, which is zero before any PE may write to it. */
static int offer(struct shmd_world *world, struct chunk *chunk)
{
	struct world_gpu *gpu = world->gpu;
	_cleanup_close_ int fd = -1;
	int r = chunk->lent ? gpu_ranges_lend(gpu->ranges, chunk->offset, chunk->lent, chunk->bytes, &fd) :
			      gpu_ranges_make(gpu->ranges, chunk->offset, chunk->bytes, &fd);

	if (!r && !chunk->number)
		r = device_zero(gpu->device, world_own_base(world, SHMD_DEV_HEAP_GPU), WORLD_GPU_INTERNAL_BYTES);
	if (!r && world->heap->n_group > 1) {
		r = shmd_publish(session_client(world->session), &world->key, (uint32_t)world->rank, WORLD_GPU_CHUNK(chunk->number), NULL, 0, fd);
		chunk->is_published = !r;
	}
	return r;
}

static int take_from(struct shmd_world *world, const struct chunk *chunk, int place)
{
	_cleanup_close_ int fd = -1;
	int r = shmd_fetch(session_client(world->session), &world->key, (uint32_t)world->heap->group[place], WORLD_GPU_CHUNK(chunk->number),
			   NULL, NULL, &fd, 0);

	return r ? r : gpu_ranges_take(world->gpu->ranges, (uint32_t)place, fd, chunk->offset, chunk->bytes);
}

static int make_known(struct shmd_world *world, const struct chunk *chunk)
{
	/* bounded: the chunk lies in the range */
	struct shmd_gpu_mr_attr attr = {
		.addr = world_own_base(world, SHMD_DEV_HEAP_GPU) + chunk->offset,
		.length_bytes = chunk->bytes,
		.iova = WORLD_GPU_HEAP_IOVA + chunk->offset,
		.access = SHMD_ACCESS_ALL,
	};

	return world_queues_register_gpu(world, WORLD_GPU_CHUNK(chunk->number), world->gpu->of_session, &attr);
}

/* The first chunk finds out which GPUs are apart, and all PEs agree on it. */
static int take(struct shmd_world *world, const struct chunk *chunk)
{
	int r = 0;

	for (int i = 0; !r && i < world->heap->n_group; i++) {
		int pe = world->heap->group[i];

		if (i != world->heap->my_place && !world->peers[pe].is_gpu_apart)
			r = take_from(world, chunk, i);
		if (r == -EXDEV && !chunk->number && world_gpu_set_apart(world, pe))
			r = 0;
	}
	return chunk->number ? r : world_gpu_agree_on_apart(world, r);
}

static int share(struct shmd_world *world, const struct chunk *chunk)
{
	int r = take(world, chunk);

	/* All PEs have failed, or begin again. */
	if (r && !chunk->number)
		return r;
	return world_queues_share_keys(world, WORLD_GPU_CHUNK(chunk->number), r ? r : make_known(world, chunk));
}

/* Readers look at used_bytes first, so it changes last. The host reaches the chunk by queues only. */
static void count(struct shmd_world *world, const struct chunk *chunk)
{
	struct world_gpu *gpu = world->gpu;

	chunk_table_count(&gpu->chunks, chunk->offset, chunk->bytes);
	__atomic_store_n(&gpu->used_bytes, chunk_table_end(&gpu->chunks), __ATOMIC_RELEASE);
	if (world->queues)
		__atomic_store_n(&world->dev->heap[SHMD_DEV_HEAP_GPU].used_bytes, chunk_table_end(&gpu->chunks), __ATOMIC_RELEASE);
}

void world_gpu_undo(struct shmd_world *world, uint32_t number, uint64_t offset)
{
	world_queues_deregister(world, WORLD_GPU_CHUNK(number));
	gpu_ranges_undo(world->gpu->ranges, offset);
}

/* The descriptors go when all PEs have mapped them, or when the chunk has failed. */
static int chunk_make(struct shmd_world *world, struct chunk *chunk)
{
	int r = world_agree(world, offer(world, chunk));

	if (!r)
		r = share(world, chunk);
	if (chunk->is_published)
		(void)shmd_unpublish(session_client(world->session), &world->key, (uint32_t)world->rank, WORLD_GPU_CHUNK(chunk->number));
	if (r)
		world_gpu_undo(world, chunk->number, chunk->offset);
	else if (chunk->number == world->gpu->chunks.n)
		count(world, chunk);
	return r;
}

static int chunk_add(struct shmd_world *world, uint64_t offset, uint64_t bytes)
{
	struct chunk chunk = {.number = world->gpu->chunks.n, .offset = offset, .bytes = bytes};

	return chunk_make(world, &chunk);
}

/* A PE whose kernels do not see the chunk does not have it; then the world has lost its heap, as after an exchange that failed. */
static int show_chunk(struct shmd_world *world)
{
	int r = world_agree(world, world_gpu_show_chunks(world));

	if (r < 0)
		world->heap->lost = r;
	return r;
}

int world_gpu_lend(struct shmd_world *world, uint32_t number, uint64_t offset, uint64_t bytes, uint64_t addr)
{
	struct chunk chunk = {.number = number, .offset = offset, .bytes = bytes, .lent = addr};
	int r = chunk_make(world, &chunk);

	return r ? r : show_chunk(world);
}

/* ---- the heap */

/* The thread that reports PEs which end looks at it. */
static void set_gpu(struct shmd_world *world, struct world_gpu *gpu)
{
	pthread_mutex_lock(&world->gpu_lock);
	world->gpu = gpu;
	pthread_mutex_unlock(&world->gpu_lock);
}

/* The GPU as the session knows it, for its NICs. A context that is the library's own is retained there as well. */
static int open_for_nics(struct shmd_world *world)
{
	struct world_gpu *gpu = world->gpu;
	int r;

	if (!world->queues)
		return 0;
	r = device_enter(gpu->device);
	if (r < 0)
		return r;
	r = shmd_gpu_open(session_client(world->session), gpu->device->is_primary ? gpu->device->ordinal : SHMD_GPU_CURRENT, &gpu->of_session);
	(void)device_leave(gpu->device, CUDA_OK, "");
	return r;
}

static int prepare(struct shmd_world *world, uint64_t range_bytes)
{
	struct world_gpu *gpu = calloc(1, sizeof(*gpu));
	const char *which = world->settings.gpu[0] ? world->settings.gpu : "auto";
	int r;

	if (!gpu)
		return shmd_error_set(-ENOMEM, "no memory for a GPU heap");
	set_gpu(world, gpu);
	r = device_open(which, world->peers[world->rank].node_pe, &gpu->device);
	if (!r)
		r = open_for_nics(world);
	return r ? r : gpu_ranges_new(gpu->device, (uint32_t)world->heap->n_group, (uint32_t)world->heap->my_place, range_bytes,
				      WORLD_GPU_INTERNAL_BYTES, &gpu->ranges);
}

static int make_tables(struct shmd_world *world)
{
	struct world_gpu *gpu = world->gpu;
	struct heap_attr attr = {.n_pes = (uint32_t)world->size, .range_bytes = gpu->chunks.range_bytes};
	int r;

	r = chunk_table_make(&gpu->chunks, &world_gpu_chunk_names);
	if (!r)
		r = heap_new(&attr, &gpu->alloc);
	return r ? r : heap_reserve(gpu->alloc);
}

/* Where queues are, the host's functions reach the GPU heap by them, and only so. */
static void show_to_host(struct shmd_world *world)
{
	struct world_gpu *gpu = world->gpu;

	for (int pe = 0; pe < world->size; pe++) {
		uint32_t none = SHMD_PATH_NONE;

		/* A PE that ended meanwhile stays GONE. */
		__atomic_compare_exchange_n(&world->pes[pe].path[SHMD_DEV_HEAP_GPU], &none, (uint32_t)SHMD_PATH_QUEUE, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_ACQUIRE);
	}
	world->dev->n_heaps = SHMD_DEV_HEAPS;
	world->dev->flags |= SHMD_WORLD_FENCE_WAITS;
	world->dev->heap[SHMD_DEV_HEAP_GPU] = (struct shmd_dev_heap){
		.own_addr = world_own_base(world, SHMD_DEV_HEAP_GPU),
		.range_bytes = gpu->chunks.range_bytes,
		.iova = WORLD_GPU_HEAP_IOVA,
		.chunk_index_addr = (uintptr_t)gpu->chunks.index,
		.chunk_ends_addr = (uintptr_t)gpu->chunks.ends,
		.log2_granule = WORLD_GRANULE_LOG2,
		.kind = SHMD_DEV_HEAP_GPU,
	};
}

static void set_bases(struct shmd_world *world)
{
	for (int i = 0; i < world->heap->n_group; i++)
		if (!world->peers[world->heap->group[i]].is_gpu_apart)
			world->pes[world->heap->group[i]].heap_addr[SHMD_DEV_HEAP_GPU] = gpu_ranges_base(world->gpu->ranges, (uint32_t)i);
}

/* How the first NIC reaches GPU memory of this PE, and it is the same on the others as a rule. */
static const char *way_of_nic(const struct shmd_world *world)
{
	static const char *const words[] = {[SHMD_MEM_DMABUF] = "dmabuf", [SHMD_MEM_AGENT] = "memory agent", [SHMD_MEM_PEERMEM] = "peermem"};
	enum shmd_mem_kind kind = world_queues_mem_kind(world, WORLD_GPU_CHUNK(0));

	return words[kind];
}

/* For lists and logs. */
static void tell_paths(struct shmd_world *world)
{
	for (int pe = 0; pe < world->size; pe++) {
		char *reason = world->peers[pe].reason;
		size_t used = strlen(reason);

		if (pe == world->rank)
			continue;
		if (world_gpu_is_mapped(world, pe))
			snprintf(reason + used, WORLD_REASON_BYTES - used, "; GPU heap mapped%s", world->queues ? ", its atomics by queues" : "");
		else
			snprintf(reason + used, WORLD_REASON_BYTES - used, "; GPU heap by queues, %s%s", way_of_nic(world),
				 world->peers[pe].is_gpu_apart ? ": CUDA does not map it" : "");
	}
}

static int add_to_allocator(struct shmd_world *world, uint64_t offset, uint64_t bytes)
{
	int r;

	pthread_mutex_lock(&world->heap->lock);
	r = heap_add_chunk(world->gpu->alloc, offset, bytes);
	pthread_mutex_unlock(&world->heap->lock);
	return r;
}

int world_gpu_open(struct shmd_world *world, uint64_t bytes, uint64_t range_bytes)
{
	uint64_t end;
	int r = prepare(world, range_bytes);

	r = world_agree_on_range(world, r, r ? 0 : gpu_ranges_bytes(world->gpu->ranges), world->gpu ? &world->gpu->chunks.range_bytes : &end);
	if (!r)
		r = make_tables(world);
	if (!r)
		r = chunk_table_first(&world->gpu->chunks, &world_gpu_chunk_names, bytes, WORLD_GPU_INTERNAL_BYTES, &end);
	r = world_agree(world, r);
	if (r < 0)
		return r;
	set_bases(world);
	if (world->queues)
		show_to_host(world);
	r = chunk_add(world, 0, end);
	if (r)
		return r;
	tell_paths(world);
	runtime_log(HEAP, INFO, "the GPU heap begins with %llu bytes in a range of %llu, on GPU %d", (unsigned long long)end,
		    (unsigned long long)world->gpu->chunks.range_bytes, world->gpu->device->ordinal);
	return add_to_allocator(world, WORLD_GPU_INTERNAL_BYTES, end - WORLD_GPU_INTERNAL_BYTES);
}

int world_gpu_grow(struct shmd_world *world, uint64_t bytes)
{
	struct world_gpu *gpu = world->gpu;
	uint64_t offset = chunk_table_end(&gpu->chunks);
	int r;

	if (bytes < world->settings.gpu_heap_chunk_bytes)
		bytes = world->settings.gpu_heap_chunk_bytes;
	r = chunk_table_next(&gpu->chunks, &world_gpu_chunk_names, bytes, &bytes);
	if (r < 0)
		return r;
	r = chunk_add(world, offset, bytes);
	if (!r)
		r = show_chunk(world);
	if (!r)
		runtime_log(HEAP, INFO, "the GPU heap grows by %llu bytes to %llu", (unsigned long long)bytes, (unsigned long long)(offset + bytes));
	return r ? r : add_to_allocator(world, offset, bytes);
}

void world_gpu_close(struct shmd_world *world, bool is_ours)
{
	struct world_gpu *gpu = world->gpu;

	if (!gpu)
		return;
	if (is_ours) {
		set_gpu(world, NULL);
		stream_kernels_free(gpu->kernels);
		if (gpu->device)
			device_free(gpu->device, gpu->dev);
		gpu_ranges_free(gpu->ranges);
		if (gpu->of_session)
			(void)shmd_gpu_close(gpu->of_session);
		device_close(gpu->device);
	}
	for (int pe = 0; pe < world->size; pe++)
		world->pes[pe].heap_addr[SHMD_DEV_HEAP_GPU] = 0;
	memset(&world->dev->heap[SHMD_DEV_HEAP_GPU], 0, sizeof(world->dev->heap[SHMD_DEV_HEAP_GPU]));
	heap_free(gpu->alloc);
	chunk_table_drop(&gpu->chunks);
	free(gpu);
	world->gpu = NULL;
}
