/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks of the GPU heap. A chunk appears in two steps, each of which ends with an agreement of all PEs: every PE makes its part and publishes
 * it, then fetches and maps those of the others. Publishing ends with the second step; descriptors are closed as soon as they are mapped. A
 * failure undoes the chunk on all PEs.
 */
#include <errno.h>
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
#include "libclient/runtime/world/world-gpu.h"
#include "libclient/runtime/world/world.h"
#include "proto/base/cleanup.h"
#include "proto/base/overflow.h"

_Static_assert(GPU_RANGES_STEP == HEAP_MAP_STEP && WORLD_GPU_INTERNAL_BYTES % HEAP_CHUNK_ALIGN == 0, "chunks begin there");

#define FIRST_SLOT SHMD_DEV_HEAP_CHUNKS /* of what is published: behind the chunks of the host's heap */

static const struct chunk_names names = {"GPU heap", "GPU_HEAP"};

struct chunk {
	uint32_t number;
	uint64_t offset, bytes;
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
	int r = gpu_ranges_make(gpu->ranges, chunk->offset, chunk->bytes, &fd);

	if (!r && !chunk->number)
		r = device_zero(gpu->device, gpu_ranges_base(gpu->ranges, (uint32_t)world->rank), WORLD_GPU_INTERNAL_BYTES);
	if (!r && world->size > 1) {
		r = shmd_publish(session_client(world->session), &world->key, (uint32_t)world->rank, FIRST_SLOT + chunk->number, NULL, 0, fd);
		chunk->is_published = !r;
	}
	return r;
}

static int take_from(struct shmd_world *world, const struct chunk *chunk, int pe)
{
	_cleanup_close_ int fd = -1;
	int r = shmd_fetch(session_client(world->session), &world->key, (uint32_t)pe, FIRST_SLOT + chunk->number, NULL, NULL, &fd, 0);

	return r ? r : gpu_ranges_take(world->gpu->ranges, (uint32_t)pe, fd, chunk->offset, chunk->bytes);
}

static int take(struct shmd_world *world, const struct chunk *chunk)
{
	int r = 0;

	for (int pe = 0; !r && pe < world->size; pe++)
		if (pe != world->rank)
			r = take_from(world, chunk, pe);
	return r;
}

static void count(struct world_gpu *gpu, const struct chunk *chunk)
{
	chunk_table_count(&gpu->chunks, chunk->offset, chunk->bytes);
	__atomic_store_n(&gpu->used_bytes, chunk_table_end(&gpu->chunks), __ATOMIC_RELEASE);
}

/* The descriptors go when all PEs have mapped them, or when the chunk has failed. */
static int chunk_add(struct shmd_world *world, uint64_t offset, uint64_t bytes)
{
	struct chunk chunk = {.number = world->gpu->chunks.n, .offset = offset, .bytes = bytes};
	int r = world_agree(world, offer(world, &chunk));

	if (!r)
		r = world_agree(world, take(world, &chunk));
	if (chunk.is_published)
		(void)shmd_unpublish(session_client(world->session), &world->key, (uint32_t)world->rank, FIRST_SLOT + chunk.number);
	if (r < 0)
		gpu_ranges_undo(world->gpu->ranges, offset);
	else
		count(world->gpu, &chunk);
	return r;
}

/* ---- the heap */

/* The thread that reports PEs which end looks at it. */
static void set_gpu(struct shmd_world *world, struct world_gpu *gpu)
{
	pthread_mutex_lock(&world->gpu_lock);
	world->gpu = gpu;
	pthread_mutex_unlock(&world->gpu_lock);
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
	return r ? r : gpu_ranges_new(gpu->device, (uint32_t)world->size, (uint32_t)world->rank, range_bytes, WORLD_GPU_INTERNAL_BYTES,
				      &gpu->ranges);
}

static int make_tables(struct shmd_world *world)
{
	struct world_gpu *gpu = world->gpu;
	struct heap_attr attr = {.n_pes = (uint32_t)world->size, .range_bytes = gpu->chunks.range_bytes};
	int r;

	r = chunk_table_make(&gpu->chunks, &names);
	if (!r)
		r = heap_new(&attr, &gpu->alloc);
	return r ? r : heap_reserve(gpu->alloc);
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
		r = chunk_table_first(&world->gpu->chunks, &names, bytes, WORLD_GPU_INTERNAL_BYTES, &end);
	r = world_agree(world, r);
	if (!r)
		r = chunk_add(world, 0, end);
	if (r < 0)
		return r;
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
	r = chunk_table_next(&gpu->chunks, &names, bytes, &bytes);
	if (r < 0)
		return r;
	r = chunk_add(world, offset, bytes);
	/* A PE whose kernels do not see the chunk does not have it; then the world has lost its heap, as after an exchange that failed. */
	if (!r) {
		r = world_agree(world, world_gpu_show_chunks(world));
		if (r < 0)
			world->heap->lost = r;
	}
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
		device_close(gpu->device);
	}
	heap_free(gpu->alloc);
	chunk_table_drop(&gpu->chunks);
	free(gpu);
	world->gpu = NULL;
}
