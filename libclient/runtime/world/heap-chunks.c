/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks: making, passing on and mapping the memory of the heap. See world-heap.h.
 *
 * A chunk appears in three steps, each of which ends with an agreement of all PEs: the lowest PE of each group makes and publishes it,
 * the others fetch and map it, and then it counts. Publishing ends with the second step; descriptors are closed as soon as they are
 * mapped. A failure undoes the chunk on all PEs.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/runtime/heap/heap-agree.h"
#include "libclient/runtime/heap/heap-alloc.h"
#include "libclient/runtime/heap/heap-guard.h"
#include "libclient/runtime/heap/heap-map.h"
#include "libclient/runtime/settings/log.h"
#include "libclient/runtime/world/adopt.h"
#include "libclient/runtime/world/exchange.h"
#include "libclient/runtime/world/queues.h"
#include "libclient/runtime/world/process.h"
#include "libclient/runtime/world/world-heap.h"
#include "libclient/runtime/world/world.h"
#include "proto/base/cleanup.h"
#include "proto/base/overflow.h"

_Static_assert(WORLD_INTERNAL_BYTES % HEAP_CHUNK_ALIGN == 0, "chunks begin there");

static const struct chunk_names names = {"heap", "HEAP"};

/* A chunk while it is made. */
struct chunk {
	uint32_t number;
	uint64_t offset, bytes;
	int fd; /* memory of the whole group; -1: not here */
	bool is_published, is_mapped;
};

static bool leads_group(const struct shmd_world *world)
{
	return world->heap->my_place == 0;
}

/* ---- ranges */

static int find_group(struct shmd_world *world)
{
	struct world_heap *heap = world->heap;

	heap->group = calloc((size_t)world->size, sizeof(*heap->group));
	if (!heap->group)
		return shmd_error_set(-ENOMEM, "no memory for %d PEs", world->size);
	for (int i = 0; i < world->size; i++) {
		if (i == world->rank)
			heap->my_place = heap->n_group;
		if (i == world->rank || world->peers[i].is_mapped)
			heap->group[heap->n_group++] = i;
	}
	return 0;
}

static bool wants_huge(const struct shmd_world *world)
{
	return world->settings.huge_pages != RUNTIME_HUGE_PAGES_OFF;
}

static int reserve(struct shmd_world *world, uint64_t wish)
{
	struct world_heap *heap = world->heap;
	struct heap_map_attr attr = {
		.n_local = (uint32_t)heap->n_group,
		.own = (uint32_t)heap->my_place,
		.is_huge = wants_huge(world),
		.range_bytes = wish,
		.least_bytes = WORLD_INTERNAL_BYTES,
	};

	return heap_map_new(&attr, &heap->map);
}

/* ---- one chunk */

static int make_memory(const struct shmd_world *world, struct chunk *chunk)
{
	struct heap_memory_attr attr = {
		.n_local = (uint32_t)world->heap->n_group,
		.bytes = chunk->bytes,
		.is_huge = world->settings.huge_pages == RUNTIME_HUGE_PAGES_ON,
	};
	struct heap_memory memory;
	int r = heap_memory_new(&attr, &memory);

	if (r < 0)
		return r;
	chunk->fd = memory.fd;
	if (attr.is_huge && memory.why[0])
		return shmd_error_set(-ENOMEM, "SHMD_HUGE_PAGES is on: %s", memory.why);
	return 0;
}

static int offer(struct shmd_world *world, struct chunk *chunk)
{
	int r = 0;

	if (!leads_group(world))
		return 0;
	r = make_memory(world, chunk);
	/* A group of one keeps its memory to itself. */
	if (!r && world->heap->n_group > 1) {
		r = shmd_publish(session_client(world->session), &world->key, (uint32_t)world->rank, chunk->number, NULL, 0, chunk->fd);
		chunk->is_published = !r;
	}
	return r;
}

static int fetch(struct shmd_world *world, struct chunk *chunk)
{
	if (leads_group(world))
		return 0;
	return shmd_fetch(session_client(world->session), &world->key, (uint32_t)world->heap->group[0], chunk->number, NULL, NULL,
			  &chunk->fd, 0);
}

/* The NIC's refusal, with the setting that may be its reason. */
static int refuse_huge(int error)
{
	char why[256];

	snprintf(why, sizeof(why), "%s", shmd_error_text());
	return shmd_error_set(error, "SHMD_HUGE_PAGES is on, and the NIC did not register the heap: %s; set it to auto if the NIC takes no huge pages",
			      why);
}

/* This PE's part, to its NICs. */
static int make_known(struct shmd_world *world, struct chunk *chunk)
{
	/* bounded: heap_memory_new() made, or heap_map_chunk() checked, memory for all of the group; the chunk lies in the range */
	struct shmd_mr_attr attr = {
		.fd = chunk->fd,
		.offset = (uint64_t)world->heap->my_place * chunk->bytes,
		.length_bytes = chunk->bytes,
		.iova = WORLD_HEAP_IOVA + chunk->offset,
		.access = SHMD_ACCESS_ALL,
	};

	int r = world_queues_register(world, chunk->number, &attr);

	if (r < 0 && world->settings.huge_pages == RUNTIME_HUGE_PAGES_ON)
		return refuse_huge(r);
	return r;
}

static int take(struct shmd_world *world, struct chunk *chunk)
{
	int r = fetch(world, chunk);

	if (!r)
		r = heap_map_chunk(world->heap->map, chunk->fd, chunk->offset, chunk->bytes);
	chunk->is_mapped = !r;
	return r ? r : make_known(world, chunk);
}

static void chunk_end(struct shmd_world *world, struct chunk *chunk, int r)
{
	if (chunk->is_published)
		(void)shmd_unpublish(session_client(world->session), &world->key, (uint32_t)world->rank, chunk->number);
	chunk->fd = safe_close(chunk->fd);
	if (r < 0)
		world_queues_deregister(world, chunk->number);
	if (r < 0 && chunk->is_mapped)
		heap_map_undo(world->heap->map, chunk->offset);
}

/* Readers look at used_bytes first, so it changes last. */
void world_heap_count(struct shmd_world *world, uint64_t offset, uint64_t bytes)
{
	struct chunk_table *chunks = &world->heap->chunks;

	chunk_table_count(chunks, offset, bytes);
	__atomic_store_n(&world->dev->heap[SHMD_DEV_HEAP_HOST].used_bytes, chunk_table_end(chunks), __ATOMIC_RELEASE);
}

static int share(struct shmd_world *world, struct chunk *chunk)
{
	return world_queues_share_keys(world, chunk->number, take(world, chunk));
}

static int chunk_add(struct shmd_world *world, uint64_t offset, uint64_t bytes)
{
	struct chunk chunk = {.number = world->heap->chunks.n, .offset = offset, .bytes = bytes, .fd = -1};
	int r = world_agree(world, offer(world, &chunk));

	if (!r)
		r = share(world, &chunk);
	chunk_end(world, &chunk, r);
	if (!r)
		world_heap_count(world, chunk.offset, chunk.bytes);
	return r;
}

/* ---- the heap */

static int heap_prepare(struct shmd_world *world, uint64_t range_bytes)
{
	struct world_heap *heap = world->heap = calloc(1, sizeof(*heap));
	int r;

	if (!heap)
		return shmd_error_set(-ENOMEM, "no memory for a heap");
	pthread_mutex_init(&heap->lock, NULL);
	heap->records = calloc((size_t)world->size, sizeof(*heap->records));
	if (!heap->records)
		return shmd_error_set(-ENOMEM, "no memory for the records of %d PEs", world->size);
	r = find_group(world);
	return r ? r : reserve(world, range_bytes);
}

uint64_t world_heap_zone_bytes(const struct runtime_settings *settings)
{
	return settings->heap_debug & RUNTIME_HEAP_GUARD ? HEAP_GUARD_ZONE_BYTES : 0;
}

static int make_tables(struct shmd_world *world)
{
	struct world_heap *heap = world->heap;
	struct heap_attr attr = {
		.n_pes = (uint32_t)world->size,
		.range_bytes = heap->chunks.range_bytes,
		.zone_bytes = world_heap_zone_bytes(&world->settings),
	};
	int r;

	r = chunk_table_make(&heap->chunks, &names);
	if (!r)
		r = heap_new(&attr, &heap->alloc);
	return r ? r : heap_reserve(heap->alloc);
}

static void dev_heap_init(struct shmd_world *world)
{
	struct world_heap *heap = world->heap;

	for (int i = 0; i < heap->n_group; i++)
		world->pes[heap->group[i]].heap_addr[SHMD_DEV_HEAP_HOST] = (uintptr_t)heap_map_base(heap->map, (uint32_t)i);
	world->dev->n_heaps = 1;
	world->dev->heap[SHMD_DEV_HEAP_HOST] = (struct shmd_dev_heap){
		.own_addr = world->pes[world->rank].heap_addr[SHMD_DEV_HEAP_HOST],
		.range_bytes = heap->chunks.range_bytes,
		.iova = WORLD_HEAP_IOVA,
		.chunk_index_addr = (uintptr_t)heap->chunks.index,
		.chunk_ends_addr = (uintptr_t)heap->chunks.ends,
		.log2_granule = WORLD_GRANULE_LOG2,
		.kind = SHMD_DEV_HEAP_HOST,
	};
}

int world_heap_open(struct shmd_world *world, uint64_t bytes, uint64_t range_bytes)
{
	uint64_t end;
	int r = heap_prepare(world, range_bytes);

	r = world_agree_on_range(world, r, r ? 0 : heap_map_range_bytes(world->heap->map), world->heap ? &world->heap->chunks.range_bytes : &end);
	if (!r)
		r = make_tables(world);
	if (!r)
		r = chunk_table_first(&world->heap->chunks, &names, bytes, WORLD_INTERNAL_BYTES, &end);
	r = world_agree(world, r);
	if (r < 0)
		return r;
	dev_heap_init(world);
	r = chunk_add(world, 0, end);
	if (!r)
		runtime_log(HEAP, INFO, "the heap begins with %llu bytes in a range of %llu, shared by %d PEs", (unsigned long long)end,
			    (unsigned long long)world->heap->chunks.range_bytes, world->heap->n_group);
	return r ? r : heap_add_chunk(world->heap->alloc, WORLD_INTERNAL_BYTES, end - WORLD_INTERNAL_BYTES);
}

/* The metadata of the call under way are reserved, and a chunk takes no more than they. */
static int add_to_allocator(struct world_heap *heap, uint64_t offset, uint64_t bytes)
{
	int r;

	pthread_mutex_lock(&heap->lock);
	r = heap_add_chunk(heap->alloc, offset, bytes);
	pthread_mutex_unlock(&heap->lock);
	return r;
}

int world_heap_grow(struct shmd_world *world, uint64_t bytes)
{
	struct world_heap *heap = world->heap;
	uint64_t offset = chunk_table_end(&heap->chunks);
	int r;

	if (bytes < world->settings.heap_chunk_bytes)
		bytes = world->settings.heap_chunk_bytes;
	r = chunk_table_next(&heap->chunks, &names, bytes, &bytes);
	if (r < 0)
		return r;
	r = chunk_add(world, offset, bytes);
	if (!r)
		runtime_log(HEAP, INFO, "the heap grows by %llu bytes to %llu", (unsigned long long)bytes, (unsigned long long)(offset + bytes));
	return r ? r : add_to_allocator(heap, offset, bytes);
}

#define SHOWN_LEAKS 10u

static void report_leak(void *arg, const struct heap_info *info)
{
	(void)arg;
	runtime_log(HEAP, WARN, "not freed: %llu bytes at offset 0x%llx, allocation %llu", (unsigned long long)info->size,
		    (unsigned long long)info->offset, (unsigned long long)info->number);
}

/* What SHMD_HEAP_DEBUG asks for at the end. */
static void report(const struct shmd_world *world)
{
	const struct world_heap *heap = world->heap;
	struct heap_leaks leaks;
	uint64_t n_damaged;

	if (!process_is(world->pid))
		return;
	if ((world->settings.heap_debug & RUNTIME_HEAP_GUARD) &&
	    heap_guard_check_all(heap->alloc, heap_map_base(heap->map, (uint32_t)heap->my_place), &n_damaged) < 0)
		runtime_log(HEAP, ERROR, "%s; %llu allocations are damaged", shmd_error_text(), (unsigned long long)n_damaged);
	if (!(world->settings.heap_debug & RUNTIME_HEAP_LEAKS))
		return;
	heap_leaks(heap->alloc, SHOWN_LEAKS, report_leak, NULL, &leaks);
	if (leaks.n)
		runtime_log(HEAP, WARN, "%llu allocations of %llu bytes in all were not freed", (unsigned long long)leaks.n,
			    (unsigned long long)leaks.bytes);
}

/* Buffers of the program that are left. It may have unmapped them. */
static void leave_buffers(struct shmd_world *world)
{
	for (uint32_t i = 0; world->pid == getpid() && i < world->heap->n_symmetric; i++)
		adopted_leave(world->heap->symmetric[i].memory);
}

void world_heap_close(struct shmd_world *world)
{
	struct world_heap *heap = world->heap;

	if (!heap)
		return;
	if (heap->alloc && heap->chunks.n)
		report(world);
	leave_buffers(world);
	heap_map_free(heap->map);
	for (int i = 0; i < heap->n_group; i++)
		world->pes[heap->group[i]].heap_addr[SHMD_DEV_HEAP_HOST] = 0;
	memset(world->dev->heap, 0, sizeof(world->dev->heap));
	heap_free(heap->alloc);
	pthread_mutex_destroy(&heap->lock);
	free(heap->group);
	free(heap->records);
	chunk_table_drop(&heap->chunks);
	free(heap);
	world->heap = NULL;
}

void world_heap_sizes(const struct shmd_world *world, uint64_t *ret_bytes, uint64_t *ret_used, uint64_t *ret_max)
{
	struct heap_stats stats;

	pthread_mutex_lock(&world->heap->lock);
	heap_stats(world->heap->alloc, &stats);
	pthread_mutex_unlock(&world->heap->lock);
	*ret_bytes = stats.chunk_bytes;
	*ret_used = stats.live_bytes;
	*ret_max = world->heap->chunks.range_bytes - WORLD_INTERNAL_BYTES;
}
