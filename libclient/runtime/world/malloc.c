/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symmetric memory: collective calls on the heap, and what needs none.
 *
 * A collective call begins with a record of each PE: what it asks for, and what it has freed since. All PEs apply all records in the
 * order of the PEs, and then the call, so that all allocators stay equal. If the records differ, no allocator runs the call. The
 * exchange of records is the barrier that the call ends with, unless memory is filled after it.
 *
 * After an exchange that failed here the others may have gone on, with records that this PE cannot write a second time. So the heap then
 * refuses all collective calls (heap->lost).
 *
 * heap->lock is held around the allocator only, so that a free never waits for a PE.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <shmd/dev/pe.h>

#include "libclient/runtime/heap/heap-agree.h"
#include "libclient/runtime/heap/heap-alloc.h"
#include "libclient/runtime/heap/heap-guard.h"
#include "libclient/runtime/settings/log.h"
#include "libclient/runtime/settings/nvtx.h"
#include "libclient/runtime/team/team.h"
#include "libclient/runtime/world/ctx.h"
#include "libclient/runtime/world/exchange.h"
#include "libclient/runtime/world/heaps.h"
#include "libclient/runtime/world/report.h"
#include "libclient/runtime/world/world-gpu.h"
#include "libclient/runtime/world/world-heap.h"
#include "libclient/runtime/world/world.h"
#include "proto/base/overflow.h"

_Static_assert(HEAP_HINTS_OWN_LINES == (SHMD_HINT_ATOMICS | SHMD_HINT_SIGNALS), "words that many PEs write or wait for");

/* A collective call under way on this PE. */
struct job {
	struct shmd_world *world;
	struct heap_call call;
	char why[HEAP_RECORD_WHY];
	uint64_t offset; /* out */
};

static void lock_heap(struct shmd_world *world)
{
	pthread_mutex_lock(&world->heap->lock);
}

static void unlock_heap(struct shmd_world *world)
{
	pthread_mutex_unlock(&world->heap->lock);
}

/* ---- records */

static void write_record(struct job *job, struct heap_record *record)
{
	struct heap *alloc = world_alloc(job->world, job->call.heap);
	int r;

	lock_heap(job->world);
	r = job->call.status ? job->call.status : heap_reserve(alloc);
	if (!r && job->call.operation == HEAP_OP_REALLOC && job->call.offset != HEAP_NONE)
		r = heap_check_live(alloc, job->call.offset);
	if (r < 0) {
		snprintf(job->why, sizeof(job->why), "%.100s", shmd_error_text());
		job->call.why = job->why;
		job->call.status = r;
	}
	heap_record_write(record, &job->call, alloc);
	unlock_heap(job->world);
}

static int read_record(struct shmd_world *world, int pe, struct heap_record *ret_record)
{
	struct heap_record copy;
	const void *at = NULL;
	int r = world_exchange_read(world, pe, &copy, sizeof(copy), &at);

	if (r < 0)
		return r;
	r = heap_record_read(at, (uint32_t)pe, ret_record);
	if (r < 0)
		world->heap->lost = r;
	return r;
}

/* The frees count whatever becomes of the call. */
static int apply_records(struct job *job)
{
	struct world_heap *heap = job->world->heap;
	struct heap *const allocs[] = {world_alloc(job->world, SHMD_DEV_HEAP_HOST), world_alloc(job->world, SHMD_DEV_HEAP_GPU)};
	uint32_t n = (uint32_t)job->world->size;
	int r;

	lock_heap(job->world);
	r = heap_records_apply(heap->records, n, allocs, SHMD_DEV_HEAPS);
	unlock_heap(job->world);
	return r ? r : heap_records_check(heap->records, n);
}

static int pass_records(struct job *job)
{
	struct shmd_world *world = job->world;
	struct heap_record mine;
	int r;

	write_record(job, &mine);
	r = world_exchange_write(world, &mine, sizeof(mine));
	for (int i = 0; !r && i < world->size; i++)
		r = read_record(world, i, &world->heap->records[i]);
	return r ? r : apply_records(job);
}

/* ---- the call */

static struct heap_request request_of(const struct job *job)
{
	return (struct heap_request){.size = job->call.size, .align = job->call.align, .hints = job->call.hints};
}

static bool has_guards(const struct shmd_world *world)
{
	return world->settings.heap_debug & RUNTIME_HEAP_GUARD;
}

static void fill_guards(struct shmd_world *world, uint64_t offset)
{
	struct heap_info info;

	if (has_guards(world) && offset != HEAP_NONE && !heap_find(world->heap->alloc, offset, &info))
		heap_guard_fill(&info, (void *)(uintptr_t)world_own_base(world, SHMD_DEV_HEAP_HOST));
}

static int check_guards(struct shmd_world *world, uint64_t offset)
{
	struct heap_info info;

	if (!has_guards(world) || heap_find(world->heap->alloc, offset, &info))
		return 0;
	return heap_guard_check(&info, (const void *)(uintptr_t)world_own_base(world, SHMD_DEV_HEAP_HOST));
}

static int try(struct job *job)
{
	struct heap *alloc = world_alloc(job->world, job->call.heap);
	struct heap_request request = request_of(job);
	int r;

	lock_heap(job->world);
	if (job->call.operation == HEAP_OP_REALLOC)
		r = heap_realloc(alloc, job->call.offset, job->call.size, NULL, &job->offset);
	else
		r = heap_malloc(alloc, &request, &job->offset);
	if (!r && job->call.heap == SHMD_DEV_HEAP_HOST)
		fill_guards(job->world, job->offset);
	unlock_heap(job->world);
	return r;
}

static int grow(struct job *job)
{
	WORLD_REQUESTS(job->world);
	struct heap_request request = request_of(job);
	uint64_t bytes;
	int r;

	lock_heap(job->world);
	r = heap_chunk_needed(world_alloc(job->world, job->call.heap), &request, job->call.offset, &bytes);
	unlock_heap(job->world);
	if (!r)
		r = job->call.heap == SHMD_DEV_HEAP_GPU ? world_gpu_grow(job->world, bytes) : world_heap_grow(job->world, bytes);
	if (!r)
		world_report(job->world);
	/* The chunk has used the room for metadata that the call needs. */
	return r ? r : pass_records(job);
}

/* Memory that all PEs have freed, and have not said so yet, goes before a new chunk. */
static int carry_out(struct job *job)
{
	uint32_t n = (uint32_t)job->world->size;
	int r = pass_records(job);

	if (!r)
		r = try(job);
	while (r == -ENOSPC && heap_records_left(job->world->heap->records, n)) {
		r = pass_records(job);
		if (!r)
			r = try(job);
	}
	if (r == -ENOSPC) {
		r = grow(job);
		if (!r)
			r = try(job);
	}
	return r;
}

static int ensure_started(struct shmd_world *world)
{
	int r = world_check(world);

	if (!r && !__atomic_load_n(&world->is_started, __ATOMIC_ACQUIRE))
		r = shmd_world_start(world);
	return r;
}

/* A barrier promises that all of this PE's operations before it are visible behind it. */
static int complete(struct shmd_world *world)
{
	return world_status_error(world, shmd_dev_quiet(&world->ctx->dev), world->call, -1);
}

static int collective(struct job *job)
{
	struct world_heap *heap = job->world->heap;
	int r;

	job->world->call = heap_operation_name(job->call.operation);
	if (heap->lost)
		return shmd_error_set(heap->lost, "an earlier collective call on the heap failed here half way, and other PEs may have "
						  "gone on: close the world");
	r = complete(job->world);
	job->call.step = HEAP_STEP_ENTER;
	job->call.number = heap->n_calls++;
	if (r < 0)
		job->call.status = r;
	return carry_out(job);
}

/* The sync of a call that fills memory, with `error`. No PE allocates before it has passed. */
static int finish(struct shmd_world *world, int error)
{
	int r = world->gpu ? world_agree(world, error) : team_sync(world->builtin[WORLD_TEAM_ALL], world->call);

	if (r < 0)
		world->heap->lost = r;
	return r;
}

/* The others learn that this PE asks for a heap that is not there. */
static void choose_heap(struct shmd_world *world, struct heap_call *call)
{
	if (!(call->hints & SHMD_HINT_GPU))
		return;
	if (world->gpu)
		call->heap = SHMD_DEV_HEAP_GPU;
	else
		call->status = shmd_error_set(-EOPNOTSUPP, "SHMD_HINT_GPU: the world has no GPU heap (SHMD_GPU, SHMD_GPU_HEAP_SIZE)");
}

/* fill: bytes to be zeroed. */
static int allocate(struct shmd_world *world, struct heap_call call, uint64_t fill, void **ret_ptr)
{
	struct job job = {.world = world, .call = call};
	int r = ensure_started(world);

	if (!r && !ret_ptr)
		r = shmd_error_set(-EINVAL, "ret_ptr is NULL");
	if (r < 0)
		return r;
	pthread_mutex_lock(&world->lock);
	runtime_nvtx_push("shmd_malloc");
	job.offset = HEAP_NONE;
	choose_heap(world, &job.call);
	r = collective(&job);
	if (!r && fill)
		r = finish(world, world_memory_zero(world, job.call.heap, job.offset, fill));
	runtime_nvtx_pop();
	pthread_mutex_unlock(&world->lock);
	if (!r && job.call.heap == SHMD_DEV_HEAP_GPU)
		world_report_news(world);
	if (!r)
		*ret_ptr = world_address(world, job.call.heap, job.offset);
	runtime_log(HEAP, TRACE, "%s of %llu bytes: %s", heap_operation_name(call.operation), (unsigned long long)call.size,
		    r ? shmd_error_text() : "done");
	return r;
}

int shmd_malloc(struct shmd_world *world, size_t bytes, uint32_t hints, void **ret_ptr)
{
	return allocate(world, (struct heap_call){.operation = HEAP_OP_MALLOC, .size = bytes, .hints = hints, .offset = HEAP_NONE}, 0, ret_ptr);
}

int shmd_align(struct shmd_world *world, size_t alignment, size_t bytes, uint32_t hints, void **ret_ptr)
{
	return allocate(world,
			(struct heap_call){
				.operation = HEAP_OP_ALIGN, .size = bytes, .align = alignment, .hints = hints, .offset = HEAP_NONE},
			0, ret_ptr);
}

int shmd_calloc(struct shmd_world *world, size_t n, size_t bytes, uint32_t hints, void **ret_ptr)
{
	size_t all;

	/* Too large for any heap, and the PEs agree on that failure as on any other. */
	if (mul_overflows(n, bytes, &all))
		all = SIZE_MAX;
	return allocate(world, (struct heap_call){.operation = HEAP_OP_CALLOC, .size = all, .hints = hints, .offset = HEAP_NONE}, all, ret_ptr);
}

/* ---- realloc */

static uint64_t size_at(struct shmd_world *world, uint32_t heap, uint64_t offset)
{
	struct heap_info info;
	uint64_t bytes;

	lock_heap(world);
	bytes = heap_find(world_alloc(world, heap), offset, &info) < 0 ? 0 : info.size;
	unlock_heap(world);
	return bytes;
}

/* Nobody allocates before the sync, so the old place keeps its contents until all PEs have moved theirs. */
static int move(struct shmd_world *world, uint32_t heap, uint64_t from, uint64_t to, uint64_t bytes)
{
	if (to == from || from == HEAP_NONE || to == HEAP_NONE)
		return 0;
	return finish(world, world_memory_move(world, heap, to, from, bytes));
}

static int reallocate(struct job *job, void *ptr, void **ret_ptr)
{
	struct shmd_world *world = job->world;
	uint64_t kept = 0;
	int r = 0;

	if (ptr)
		r = world_offset(world, ptr, &job->call.heap, &job->call.offset);
	/* The others learn that this PE cannot. */
	if (r < 0)
		job->call.status = r;
	else if (ptr)
		kept = size_at(world, job->call.heap, job->call.offset);
	r = collective(job);
	if (!r)
		r = move(world, job->call.heap, job->call.offset, job->offset, kept < job->call.size ? kept : job->call.size);
	if (!r)
		*ret_ptr = world_address(world, job->call.heap, job->offset);
	return r;
}

int shmd_realloc(struct shmd_world *world, void *ptr, size_t bytes, void **ret_ptr)
{
	struct job job = {.world = world, .call = {.operation = HEAP_OP_REALLOC, .size = bytes, .offset = HEAP_NONE}};
	int r = ensure_started(world);

	if (!r && !ret_ptr)
		r = shmd_error_set(-EINVAL, "ret_ptr is NULL");
	if (r < 0)
		return r;
	pthread_mutex_lock(&world->lock);
	runtime_nvtx_push("shmd_realloc");
	r = reallocate(&job, ptr, ret_ptr);
	runtime_nvtx_pop();
	pthread_mutex_unlock(&world->lock);
	if (!r && job.call.heap == SHMD_DEV_HEAP_GPU)
		world_report_news(world);
	return r;
}

/* ---- without the others */

int shmd_free(struct shmd_world *world, void *ptr)
{
	uint64_t offset = HEAP_NONE;
	uint32_t heap = SHMD_DEV_HEAP_HOST;
	int r = world_check_started(world), damage;

	if (r < 0 || !ptr)
		return r;
	r = world_offset(world, ptr, &heap, &offset);
	if (r < 0)
		return r;
	lock_heap(world);
	/* It is freed all the same: damage is no reason to keep it. */
	damage = heap == SHMD_DEV_HEAP_HOST ? check_guards(world, offset) : 0;
	r = heap_release(world_alloc(world, heap), offset);
	unlock_heap(world);
	if (!r && heap == SHMD_DEV_HEAP_GPU)
		world_report_news(world);
	return r ? r : damage;
}

void *shmd_ptr(const struct shmd_world *world, const void *ptr, int pe)
{
	uint64_t offset;
	uint32_t heap;

	if (!world || !__atomic_load_n(&world->is_started, __ATOMIC_ACQUIRE) || pe < 0 || pe >= world->size)
		return NULL;
	heap = world_find(world, ptr, &offset);
	return heap == SHMD_DEV_HEAPS ? NULL : world_peer_address(world, heap, pe, offset);
}

/* ---- the whole world */

int shmd_sync_all(struct shmd_world *world)
{
	int r = world_check_started(world);

	if (r < 0)
		return r;
	runtime_nvtx_push("shmd_sync_all");
	r = team_sync(world->builtin[WORLD_TEAM_ALL], "shmd_sync_all");
	runtime_nvtx_pop();
	return r;
}

int shmd_barrier_all(struct shmd_world *world)
{
	int r = world_check_started(world);

	if (r < 0)
		return r;
	runtime_nvtx_push("shmd_barrier_all");
	r = team_barrier(world->builtin[WORLD_TEAM_ALL], "shmd_barrier_all");
	runtime_nvtx_pop();
	return r;
}
