/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The world, contexts and teams as kernels see them: copies in GPU memory. See world-gpu.h.
 *
 * world->gpu_lock is held while the copy of the world changes. The thread that reports the end of a PE waits for it, so nothing allocates
 * or frees GPU memory meanwhile once kernels may run: CUDA may wait for kernels there, and these for that news. world->gpu_copies is held
 * around the making of contexts and teams.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/runtime/gpu/device.h"
#include "libclient/runtime/settings/log.h"
#include "libclient/runtime/team/team.h"
#include "libclient/runtime/world/ctx.h"
#include "libclient/runtime/world/heaps.h"
#include "libclient/runtime/world/process.h"
#include "libclient/runtime/world/world-gpu.h"
#include "libclient/runtime/world/world.h"
#include "proto/base/cleanup.h"

/* ---- places behind the copy of the world */

static uint64_t pes_at(const struct world_gpu *gpu)
{
	return gpu->dev + sizeof(struct shmd_dev_world);
}

static uint64_t ends_at(const struct shmd_world *world)
{
	return pes_at(world->gpu) + (uint64_t)world->size * sizeof(struct shmd_dev_pe);
}

static uint64_t keys_at(const struct shmd_world *world)
{
	return ends_at(world) + sizeof(world->gpu->chunks.ends);
}

static uint64_t index_at(const struct shmd_world *world)
{
	return keys_at(world) + world_gpu_keys_bytes(world);
}

static size_t copy_bytes(const struct shmd_world *world)
{
	/* bounded: a range is at most HEAP_MAX_RANGE bytes, and a world has at most TEAM_MAX_PES PEs */
	return sizeof(struct shmd_dev_world) + (size_t)world->size * sizeof(struct shmd_dev_pe) + sizeof(world->gpu->chunks.ends) +
	       world_gpu_keys_bytes(world) + (size_t)(world->gpu->chunks.range_bytes >> WORLD_GRANULE_LOG2);
}

/* ---- what changes */

static uint32_t path_of(const struct shmd_world *world, int pe)
{
	if (__atomic_load_n(&world->pes[pe].path[SHMD_DEV_HEAP_HOST], __ATOMIC_ACQUIRE) == SHMD_PATH_GONE)
		return SHMD_PATH_GONE;
	if (pe == world->rank)
		return SHMD_PATH_SELF;
	return world_gpu_is_mapped(world, pe) ? SHMD_PATH_MAPPED : SHMD_PATH_QUEUE;
}

static int write_path(const struct shmd_world *world, int pe)
{
	uint64_t at = pes_at(world->gpu) + (uint64_t)pe * sizeof(struct shmd_dev_pe) + offsetof(struct shmd_dev_pe, path[SHMD_DEV_HEAP_GPU]);
	uint32_t path = path_of(world, pe);

	return path == SHMD_PATH_GONE ? device_write(world->gpu->device, at, &path, sizeof(path)) : 0;
}

static int write_word(const struct shmd_world *world, size_t offset, uint32_t value)
{
	return device_write(world->gpu->device, world->gpu->dev + offset, &value, sizeof(value));
}

/* In the order of watch.c. */
static int write_gone(const struct shmd_world *world)
{
	/* In this order: a PE is forgiven after it has ended. */
	uint32_t n_known = __atomic_load_n(&world->dev->n_gone_known, __ATOMIC_ACQUIRE);
	uint32_t n_gone = __atomic_load_n(&world->dev->n_gone, __ATOMIC_ACQUIRE);
	int r = 0;

	for (int pe = 0; !r && n_gone && pe < world->size; pe++)
		r = write_path(world, pe);
	if (!r)
		r = write_word(world, offsetof(struct shmd_dev_world, first_gone), __atomic_load_n(&world->dev->first_gone, __ATOMIC_RELAXED));
	if (!r)
		r = write_word(world, offsetof(struct shmd_dev_world, n_gone), n_gone);
	return r ? r : write_word(world, offsetof(struct shmd_dev_world, n_gone_known), n_known);
}

void world_gpu_show_gone(struct shmd_world *world)
{
	int r = 0;

	pthread_mutex_lock(&world->gpu_lock);
	if (world->gpu && world->gpu->dev)
		r = write_gone(world);
	/* In a process that ends CUDA goes first, and its kernels with it. */
	if (r < 0 && r != -ESHUTDOWN)
		runtime_log(WORLD, WARN, "kernels do not see that a PE has ended: %s", shmd_error_text());
	pthread_mutex_unlock(&world->gpu_lock);
}

/* ---- chunks */

static int write_chunks(const struct shmd_world *world)
{
	const struct world_gpu *gpu = world->gpu;
	uint64_t used = __atomic_load_n(&gpu->used_bytes, __ATOMIC_ACQUIRE);
	int r = device_write(gpu->device, index_at(world), gpu->chunks.index, used >> WORLD_GRANULE_LOG2);

	if (!r)
		r = world_gpu_keys_write(world, keys_at(world));
	if (!r)
		r = device_write(gpu->device, ends_at(world), gpu->chunks.ends, sizeof(gpu->chunks.ends));
	/* Readers look at used_bytes first, so it changes last. */
	return r ? r : device_write(gpu->device, gpu->dev + offsetof(struct shmd_dev_world, heap[SHMD_DEV_HEAP_GPU].used_bytes), &used,
				    sizeof(used));
}

int world_gpu_show_chunks(struct shmd_world *world)
{
	int r;

	pthread_mutex_lock(&world->gpu_lock);
	r = write_chunks(world);
	pthread_mutex_unlock(&world->gpu_lock);
	return r;
}

/* ---- contexts and teams; with gpu_copies */

static uint32_t member(const struct shmd_team *team, uint32_t i)
{
	return team->members ? team->members[i] : team->dev.start + i * team->dev.stride;
}

/* Where a team's scratch is at each member, if they are few and all are mapped here. */
static void fill_near_scratch(const struct shmd_team *team, struct shmd_dev_team *dev)
{
	if (!(dev->flags & SHMD_TEAM_MAPPED) || dev->n_pes > SHMD_DEV_NEAR_PES)
		return;
	for (uint32_t i = 0; i < dev->n_pes; i++) {
		uint32_t pe = member(team, (dev->my_pe + i) % dev->n_pes);

		dev->near_scratch[i] = team->world->pes[pe].heap_addr[SHMD_DEV_HEAP_GPU] + dev->scratch_offset;
	}
	if (dev->id < SHMD_DEV_WORDS_TEAMS)
		dev->words_from_scratch = WORLD_GPU_WORDS_OFFSET + (uint64_t)dev->id * SHMD_DEV_WORDS_BYTES - dev->scratch_offset;
}

/* The team's copy, and its members behind it. */
static int make_team(struct shmd_team *team)
{
	struct world_gpu *gpu = team->world->gpu;
	size_t n_bytes = team->members ? team->dev.n_pes * sizeof(*team->members) : 0;
	struct shmd_dev_team dev = team->dev;
	uint64_t at = 0;
	int r = device_alloc(gpu->device, sizeof(dev) + n_bytes, &at);

	if (r < 0)
		return r;
	dev.world_addr = gpu->dev;
	dev.members_addr = team->members ? at + sizeof(dev) : 0;
	dev.scratch_offset = (uint64_t)team->dev.id * SHMD_DEV_TEAM_SCRATCH_BYTES;
	dev.scratch_heap = SHMD_DEV_HEAP_GPU;
	dev.n_syncs = dev.n_begun = dev.n_exchanges = 0;
	dev.coll_status = SHMD_DEV_OK;
	/* All members must find the same, and only its two PEs know of a pair. */
	if (team->world->some_gpus_apart && dev.n_pes > 1)
		dev.flags &= ~SHMD_TEAM_MAPPED;
	fill_near_scratch(team, &dev);
	r = device_write(gpu->device, at, &dev, sizeof(dev));
	if (!r && n_bytes)
		r = device_write(gpu->device, dev.members_addr, team->members, n_bytes);
	if (r < 0)
		device_free(gpu->device, at);
	else
		team->gpu_addr = at;
	return r;
}

/* The GPU heap at the context's first PEs. */
static void fill_near(const struct shmd_ctx *ctx, struct shmd_dev_near *near)
{
	const struct shmd_world *world = ctx->world;
	const struct world_gpu *gpu = world->gpu;

	near->own_addr = world_own_base(world, SHMD_DEV_HEAP_GPU);
	near->used_bytes = __atomic_load_n(&gpu->used_bytes, __ATOMIC_ACQUIRE);
	near->gone_addr = gpu->dev + offsetof(struct shmd_dev_world, n_gone);
	near->heap = SHMD_DEV_HEAP_GPU;
	near->flags = world->queues ? 0 : SHMD_NEAR_ATOMICS;
	for (uint32_t i = 0; i < SHMD_DEV_NEAR_PES && i < ctx->team->dev.n_pes; i++) {
		int pe = (int)member(ctx->team, i);

		if (world_gpu_is_mapped(world, pe))
			near->peer_addr[i] = world->pes[pe].heap_addr[SHMD_DEV_HEAP_GPU];
	}
}

static int make_ctx(struct shmd_ctx *ctx)
{
	struct world_gpu *gpu = ctx->world->gpu;
	struct shmd_dev_ctx dev = {
		.world_addr = gpu->dev,
		.timeout_nsec = ctx->dev.timeout_nsec,
		.sharing = ctx->dev.sharing,
		.id = ctx->dev.id,
	};
	uint64_t at = 0;
	int r = 0;

	if (ctx->dev.team_addr && !ctx->team->gpu_addr)
		r = make_team(ctx->team);
	if (!r)
		r = device_alloc(gpu->device, sizeof(dev) + world_gpu_queues_bytes(ctx->world), &at);
	if (r < 0)
		return r;
	dev.team_addr = ctx->dev.team_addr ? ctx->team->gpu_addr : 0;
	fill_near(ctx, &dev.near);
	r = world_gpu_queues_make(ctx, at + sizeof(dev), &dev);
	if (!r)
		r = device_write(gpu->device, at, &dev, sizeof(dev));
	if (!r) {
		ctx->gpu_addr = at;
		ctx->gpu_dev = dev;
		ctx->gpu_dev.self_addr = at;
		return 0;
	}
	world_gpu_queues_drop(ctx);
	device_free(gpu->device, at);
	return r;
}

void world_gpu_hide(struct shmd_world *world, uint64_t *copy)
{
	/* In a forked child it is the parent's, and another thread may have held the lock. */
	if (!process_is(world->pid))
		return;
	pthread_mutex_lock(&world->gpu_copies);
	if (world->gpu)
		device_free(world->gpu->device, *copy);
	*copy = 0;
	pthread_mutex_unlock(&world->gpu_copies);
}

int world_gpu_clear_scratch(struct shmd_world *world, uint32_t team)
{
	struct world_gpu *gpu = world->gpu;

	uint64_t base;
	int r;

	if (!gpu)
		return 0;
	base = world_own_base(world, SHMD_DEV_HEAP_GPU);
	r = device_zero(gpu->device, base + (uint64_t)team * SHMD_DEV_TEAM_SCRATCH_BYTES, SHMD_DEV_TEAM_SCRATCH_BYTES);
	if (!r && team < SHMD_DEV_WORDS_TEAMS)
		r = device_zero(gpu->device, base + WORLD_GPU_WORDS_OFFSET + (uint64_t)team * SHMD_DEV_WORDS_BYTES, SHMD_DEV_WORDS_BYTES);
	return r;
}

/* ---- the world; with the lock */

static int write_pes(const struct shmd_world *world)
{
	_cleanup_free_ struct shmd_dev_pe *pes = calloc((size_t)world->size, sizeof(*pes));

	if (!pes)
		return shmd_error_set(-ENOMEM, "no memory for %d PEs", world->size);
	for (int pe = 0; pe < world->size; pe++) {
		pes[pe].heap_addr[SHMD_DEV_HEAP_GPU] = world->pes[pe].heap_addr[SHMD_DEV_HEAP_GPU];
		pes[pe].path[SHMD_DEV_HEAP_GPU] = path_of(world, pe);
		pes[pe].node = world->pes[pe].node;
		pes[pe].node_pe = world->pes[pe].node_pe;
	}
	return device_write(world->gpu->device, pes_at(world->gpu), pes, (size_t)world->size * sizeof(*pes));
}

/* The host's heap is not there: kernels do not reach it. */
static int write_world(const struct shmd_world *world)
{
	struct world_gpu *gpu = world->gpu;
	struct shmd_dev_world dev = {
		.version = SHMD_DEV_WORLD_VERSION,
		.size_bytes = sizeof(dev),
		.my_pe = (uint32_t)world->rank,
		.n_pes = (uint32_t)world->size,
		.n_heaps = SHMD_DEV_HEAPS,
		.my_node = world->dev->my_node,
		.pes_addr = pes_at(gpu),
		.world_team_addr = world->builtin[WORLD_TEAM_ALL]->gpu_addr,
		.timeout_nsec = world->dev->timeout_nsec,
		.heap[SHMD_DEV_HEAP_GPU] = {
			.own_addr = world_own_base(world, SHMD_DEV_HEAP_GPU),
			.iova = WORLD_GPU_HEAP_IOVA,
			.range_bytes = gpu->chunks.range_bytes,
			.chunk_index_addr = index_at(world),
			.chunk_ends_addr = ends_at(world),
			.log2_granule = WORLD_GRANULE_LOG2,
			.kind = SHMD_DEV_HEAP_GPU,
		},
	};

	world_gpu_keys_show(world, keys_at(world), &dev);
	return device_write(gpu->device, gpu->dev, &dev, sizeof(dev));
}

static int show(struct shmd_world *world)
{
	struct world_gpu *gpu = world->gpu;
	int r = device_alloc(gpu->device, copy_bytes(world), &gpu->dev);

	if (!r)
		r = make_team(world->builtin[WORLD_TEAM_ALL]);
	if (!r)
		r = write_pes(world);
	if (!r)
		r = write_world(world);
	if (!r)
		r = write_chunks(world);
	/* PEs that ended since the paths were written, too. */
	return r ? r : write_gone(world);
}

int world_gpu_show(struct shmd_world *world)
{
	int r;

	pthread_mutex_lock(&world->gpu_lock);
	r = show(world);
	pthread_mutex_unlock(&world->gpu_lock);
	return r;
}

/* ---- what a program sees */

static int check(const struct shmd_world *world, const void *ret)
{
	int r = world_check_started(world);

	if (r < 0)
		return r;
	if (!world->gpu)
		return shmd_error_set(-EOPNOTSUPP, "the world has no GPU heap (SHMD_GPU, SHMD_GPU_HEAP_SIZE)");
	return ret ? 0 : shmd_error_set(-EINVAL, "there is no room for the result: it is NULL");
}

int shmd_world_gpu_dev(struct shmd_world *world, uint64_t *ret_addr)
{
	int r = check(world, ret_addr);

	if (!r)
		*ret_addr = world->gpu->dev;
	return r;
}

/* A heap that grows must not take gpu_copies, so the next call for the context writes the new size. */
static int show_growth(struct shmd_ctx *ctx)
{
	const struct world_gpu *gpu = ctx->world->gpu;
	uint64_t used = __atomic_load_n(&gpu->used_bytes, __ATOMIC_ACQUIRE);
	int r = 0;

	if (used != ctx->gpu_dev.near.used_bytes)
		r = device_write(gpu->device, ctx->gpu_addr + offsetof(struct shmd_dev_ctx, near.used_bytes), &used, sizeof(used));
	if (!r)
		ctx->gpu_dev.near.used_bytes = used;
	return r;
}

static int get_ctx(struct shmd_ctx *ctx, uint64_t *ret_addr, struct shmd_dev_ctx *ret_copy)
{
	WORLD_REQUESTS(ctx->world);
	int r;

	pthread_mutex_lock(&ctx->world->gpu_copies);
	r = ctx->gpu_addr ? show_growth(ctx) : make_ctx(ctx);
	if (!r && ret_addr)
		*ret_addr = ctx->gpu_addr;
	if (!r && ret_copy)
		*ret_copy = ctx->gpu_dev;
	pthread_mutex_unlock(&ctx->world->gpu_copies);
	return r;
}

int shmd_ctx_gpu_dev(struct shmd_ctx *ctx, uint64_t *ret_addr)
{
	int r = check(ctx ? ctx->world : NULL, ret_addr);

	return r ? r : get_ctx(ctx, ret_addr, NULL);
}

int shmd_ctx_gpu_copy(struct shmd_ctx *ctx, struct shmd_dev_ctx *ret_ctx)
{
	int r = check(ctx ? ctx->world : NULL, ret_ctx);

	return r ? r : get_ctx(ctx, NULL, ret_ctx);
}

int shmd_team_gpu_dev(struct shmd_team *team, uint64_t *ret_addr)
{
	int r = check(team ? team->world : NULL, ret_addr);

	if (r < 0)
		return r;
	pthread_mutex_lock(&team->world->gpu_copies);
	if (!team->gpu_addr)
		r = make_team(team);
	if (!r)
		*ret_addr = team->gpu_addr;
	pthread_mutex_unlock(&team->world->gpu_copies);
	return r;
}
