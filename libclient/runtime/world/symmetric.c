/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registering buffers of all PEs as symmetric memory. The memory of each PE moves into a memfd (adopt.h), which appears a second time in the
 * heap's range of addresses, at the same offset on all PEs. So device functions find it as they find any chunk of the heap; only the
 * allocator does not know it.
 *
 * The steps of a chunk (heap-chunks.c), but that every PE of a group passes its own memfd to the others.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <shmd/dev/pe.h>

#include "libclient/runtime/gpu/ranges.h"
#include "libclient/runtime/heap/heap-map.h"
#include "libclient/runtime/settings/nvtx.h"
#include "libclient/runtime/world/adopt.h"
#include "libclient/runtime/world/ctx.h"
#include "libclient/runtime/world/exchange.h"
#include "libclient/runtime/world/heaps.h"
#include "libclient/runtime/world/queues.h"
#include "libclient/runtime/world/symmetric.h"
#include "libclient/runtime/world/world-gpu.h"
#include "libclient/runtime/world/world-heap.h"
#include "libclient/runtime/world/world.h"
#include "proto/base/cleanup.h"
#include "proto/base/overflow.h"
#include "proto/base/page.h"

#define ON_GPU (UINT32_C(1) << 31) /* in what PEs tell each other: memory of a GPU */

/* A call under way. */
struct job {
	struct shmd_world *world;
	void *addr;
	size_t bytes;
	struct symmetric place;
	bool is_new_place;
	int fd; /* of the caller's own memory; not to be closed */
	uint64_t fd_offset; /* of the buffer in it; published with it */
	bool is_published;
};

/* ---- places */

static uint64_t granules(uint64_t bytes)
{
	uint64_t step = UINT64_C(1) << WORLD_GRANULE_LOG2, rounded;

	return align_up_overflows(bytes, step, &rounded) ? UINT64_MAX : rounded;
}

/* A function of the calls of all PEs alone. */
static int choose_place(struct job *job)
{
	struct world_heap *heap = job->world->heap;
	uint64_t end = chunk_table_end(&heap->chunks), bytes = granules(job->bytes);
	const struct symmetric *free_place = symmetric_find_free(heap->symmetric, heap->n_symmetric, bytes);

	if (free_place) {
		job->place = *free_place;
		return 0;
	}
	job->is_new_place = true;
	job->place = (struct symmetric){.chunk = heap->chunks.n, .offset = end, .bytes = bytes};
	if (heap->chunks.n == SHMD_DEV_HEAP_CHUNKS)
		return shmd_error_set(-ENOMEM, "the heap has %u chunks, and no place for a buffer", SHMD_DEV_HEAP_CHUNKS);
	if (!range_fits(end, bytes, heap->chunks.range_bytes))
		return shmd_error_set(-ENOMEM, "the heap has %" PRIu64 " of %" PRIu64 " bytes, and a buffer of %zu does not fit any more "
				      "(SHMD_HEAP_RESERVE)", end, heap->chunks.range_bytes, job->bytes);
	return 0;
}

/* ---- the steps */

static int check_buffer(const struct job *job)
{
	uint64_t page = page_bytes(), end;

	if (!job->addr || !job->bytes || (uintptr_t)job->addr % page || job->bytes % page || job->bytes / page >= ON_GPU ||
	    add_overflows((uintptr_t)job->addr, job->bytes, &end))
		return shmd_error_set(-EINVAL, "%zu bytes at %p do not begin and end at pages of %" PRIu64 " bytes", job->bytes, job->addr, page);
	if (world_is_on_gpu(job->world, (uintptr_t)job->addr, end))
		return shmd_error_set(-EINVAL, "the buffer at %p is in the GPU heap", job->addr);
	return 0;
}

static int offer(struct job *job)
{
	struct shmd_world *world = job->world;
	int r = check_buffer(job);

	if (!r)
		r = choose_place(job);
	if (!r)
		r = adopt(session_client(world->session), job->addr, job->bytes, &job->place.memory, &job->fd, &job->fd_offset);
	if (!r && world->heap->n_group > 1) {
		r = shmd_publish(session_client(world->session), &world->key, (uint32_t)world->rank, job->place.chunk, &job->fd_offset,
				 sizeof(job->fd_offset), job->fd);
		job->is_published = !r;
	}
	return r;
}

/* All PEs have a buffer, of one size and of one kind. */
static int compare(const struct shmd_world *world)
{
	uint32_t first = world->outcomes[0].value;
	int r = 0;

	for (int i = 1; !r && i < world->size; i++) {
		uint32_t value = world->outcomes[i].value;

		if ((value ^ first) & ON_GPU)
			r = shmd_error_set(-EINVAL, "the buffer of PE %d is in memory of %s, and that of PE 0 is not", i,
					   value & ON_GPU ? "a GPU" : "the host");
		else if (value != first)
			r = shmd_error_set(-EINVAL, "the buffer has %u pages on PE %d, and %u on PE 0", value & ~ON_GPU, i, first & ~ON_GPU);
	}
	return r;
}

/* The first step. */
static int meet(struct job *job)
{
	int r = world_agree_on(job->world, offer(job), (uint32_t)(job->bytes / page_bytes()));

	return r ? r : compare(job->world);
}

static int meet_on_gpu(struct job *job)
{
	uint64_t pages = job->bytes / page_bytes();
	int r = 0;

	if (!job->bytes || job->bytes % GPU_RANGES_STEP || pages >= ON_GPU)
		r = shmd_error_set(-EINVAL, "%zu bytes of GPU memory at %p are no multiple of 2 MiB", job->bytes, job->addr);
	r = world_agree_on(job->world, r, ON_GPU | (uint32_t)pages);
	return r ? r : compare(job->world);
}

static int fetch(struct job *job, int pe, int *ret_fd, uint64_t *ret_offset)
{
	struct shmd_world *world = job->world;
	size_t bytes = sizeof(*ret_offset);
	int r = shmd_fetch(session_client(world->session), &world->key, (uint32_t)pe, job->place.chunk, ret_offset, &bytes, ret_fd, 0);

	if (!r && bytes != sizeof(*ret_offset))
		r = shmd_error_set(-EPROTO, "PE %d published %zu bytes with its buffer", pe, bytes);
	return r;
}

/* The memory of one PE of the group. */
static int map_part(struct job *job, int place)
{
	struct heap_part part = {.local_pe = (uint32_t)place,
				 .fd = job->fd,
				 .fd_offset = job->fd_offset,
				 .offset = job->place.offset,
				 .bytes = job->bytes};
	struct shmd_world *world = job->world;
	_cleanup_close_ int fetched = -1;
	int pe = world->heap->group[place], r = 0;

	if (pe != world->rank) {
		r = fetch(job, pe, &fetched, &part.fd_offset);
		part.fd = fetched;
	}
	return r ? r : heap_map_part(world->heap->map, &part);
}

static int take(struct job *job)
{
	struct shmd_world *world = job->world;
	struct shmd_mr_attr attr = {
		.fd = job->fd,
		.offset = job->fd_offset,
		.length_bytes = job->bytes,
		.iova = WORLD_HEAP_IOVA + job->place.offset, /* bounded: the place lies in the range */
		.access = SHMD_ACCESS_ALL,
	};
	int r = 0;

	for (int i = 0; !r && i < world->heap->n_group; i++)
		r = map_part(job, i);
	return r ? r : world_queues_register(world, job->place.chunk, &attr);
}

static int share(struct job *job)
{
	return world_queues_share_keys(job->world, job->place.chunk, take(job));
}

static void unmap(struct shmd_world *world, const struct symmetric *place)
{
	for (int i = 0; i < world->heap->n_group; i++)
		heap_unmap_part(world->heap->map, (uint32_t)i, place->offset, place->bytes);
	world_queues_deregister(world, place->chunk);
}

static void keep(struct job *job)
{
	struct world_heap *heap = job->world->heap;
	struct symmetric *place = job->is_new_place ? &heap->symmetric[heap->n_symmetric++] :
						    symmetric_find_free(heap->symmetric, heap->n_symmetric, granules(job->bytes));

	*place = job->place;
	place->is_used = true;
	if (job->is_new_place)
		world_heap_count(job->world, place->offset, place->bytes);
}

static int register_all(struct job *job)
{
	WORLD_REQUESTS(job->world);
	struct shmd_world *world = job->world;
	int r = meet(job);

	if (!r) {
		r = share(job);
		if (r < 0)
			unmap(world, &job->place);
	}
	if (job->is_published)
		(void)shmd_unpublish(session_client(world->session), &world->key, (uint32_t)world->rank, job->place.chunk);
	if (r < 0)
		(void)adopted_return(job->place.memory);
	else
		keep(job);
	return r;
}

static int register_in_host(struct job *job, void **ret_ptr)
{
	int r = register_all(job);

	if (!r)
		*ret_ptr = world_heap_at(&job->world->pes[job->world->rank], job->place.offset);
	return r;
}

static int register_on_gpu(struct job *job, void **ret_ptr)
{
	WORLD_REQUESTS(job->world);
	int r = meet_on_gpu(job);

	return r ? r : world_gpu_register_symmetric(job->world, job->addr, job->bytes, ret_ptr);
}

/* ---- the calls */

static int ready(const struct shmd_world *world)
{
	int r = world_check_started(world);

	if (!r && world->heap->lost)
		r = shmd_error_set(world->heap->lost, "an earlier collective call on the heap failed here half way, and other PEs may have "
						      "gone on: close the world");
	return r;
}

int shmd_buffer_register_symmetric(struct shmd_world *world, void *addr, size_t bytes, void **ret_ptr)
{
	struct job job = {.world = world, .addr = addr, .bytes = bytes, .fd = -1};
	int r = world_check(world);

	if (!r && !ret_ptr)
		r = shmd_error_set(-EINVAL, "ret_ptr is NULL");
	if (!r)
		r = shmd_world_start(world);
	if (r < 0)
		return r;
	pthread_mutex_lock(&world->lock);
	runtime_nvtx_push("shmd_buffer_register_symmetric");
	world->call = "shmd_buffer_register_symmetric";
	r = ready(world);
	if (!r)
		r = world_gpu_has_memory_at(world, addr) ? register_on_gpu(&job, ret_ptr) : register_in_host(&job, ret_ptr);
	runtime_nvtx_pop();
	pthread_mutex_unlock(&world->lock);
	return r;
}

/* PEs pass what they take away, and that their own operations are complete. */
static int agree_to_end(struct shmd_world *world, const struct symmetric *place, uint32_t kind)
{
	int error = world_status_error(world, world_ctx_settle(world), "completing the operations on a buffer", -1), r;

	if (!error && !place)
		error = shmd_error_set(-EINVAL, "no symmetric buffer is registered there");
	r = world_agree_on(world, error, place ? kind | place->chunk : 0);
	for (int i = 1; !r && i < world->size; i++)
		if (world->outcomes[i].value != world->outcomes[0].value)
			r = shmd_error_set(-EINVAL, "PE %d takes away another buffer than PE 0", i);
	return r;
}

static int end_place(struct shmd_world *world, struct symmetric *place, bool is_on_gpu)
{
	place->is_used = false;
	if (!is_on_gpu) {
		unmap(world, place);
		return adopted_return(take_ptr(place->memory));
	}
	world_gpu_undo(world, place->chunk, place->offset);
	return 0;
}

static int take_away(struct shmd_world *world, const void *ptr)
{
	WORLD_REQUESTS(world);
	struct world_heap *heap = world->heap;
	uint64_t offset = 0;
	bool is_on_gpu = world_find(world, ptr, &offset) == SHMD_DEV_HEAP_GPU;
	struct symmetric *place;
	int r = ready(world);

	if (r < 0)
		return r;
	place = is_on_gpu ? world_gpu_find_symmetric(world, offset) :
			    symmetric_find_used(heap->symmetric, heap->n_symmetric, (uintptr_t)ptr - world->pes[world->rank].heap_addr[SHMD_DEV_HEAP_HOST]);
	r = agree_to_end(world, place, is_on_gpu ? ON_GPU : 0);
	if (r < 0)
		return r;
	/* The program may go on to use its memory when no PE has it any more. */
	return world_agree(world, end_place(world, place, is_on_gpu));
}

int shmd_buffer_unregister_symmetric(struct shmd_world *world, void *ptr)
{
	int r = world_check_started(world);

	if (r < 0)
		return r;
	pthread_mutex_lock(&world->lock);
	runtime_nvtx_push("shmd_buffer_unregister_symmetric");
	world->call = "shmd_buffer_unregister_symmetric";
	r = take_away(world, ptr);
	runtime_nvtx_pop();
	pthread_mutex_unlock(&world->lock);
	return r;
}
