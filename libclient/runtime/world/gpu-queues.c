/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of kernels: DCIs of a context, its ways by them, and the keys of the GPU heap, all of which kernels find in GPU memory. See world-gpu.h.
 *
 * A QP has one driver, so those of the host do not serve for kernels. DCIs take no other PE to make: they reach the DCT that every PE of a
 * world with queues has. All lead from this PE's first NIC to the first one of a PE (rail-rule.h): there its atomics meet those of all others.
 *
 * Data of kernels that is not registered goes through host memory that the GPU maps, which works with every NIC.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "libclient/runtime/gpu/device.h"
#include "libclient/runtime/settings/log.h"
#include "libclient/runtime/world/ctx.h"
#include "libclient/runtime/world/process.h"
#include "libclient/runtime/world/queues-private.h"
#include "libclient/runtime/world/queues.h"
#include "libclient/runtime/world/world-gpu.h"
#include "libclient/runtime/world/world.h"
#include "proto/base/cleanup.h"

#define BOUNCE_BYTES 65536u

/* ---- keys: those of this PE, then those of all PEs */

#define LKEYS_BYTES (WORLD_N_KEYS * sizeof(shmd_be32))

size_t world_gpu_keys_bytes(const struct shmd_world *world)
{
	/* bounded: a world has at most TEAM_MAX_PES PEs */
	return world->queues ? LKEYS_BYTES * (1 + (size_t)world->size) : 0;
}

int world_gpu_keys_write(const struct shmd_world *world, uint64_t at)
{
	const struct world_queues *queues = world->queues;
	size_t n = (size_t)world->size, first = WORLD_GPU_CHUNK(0), n_keys = world->gpu->chunks.n;
	int r;

	if (!queues)
		return 0;
	r = device_write(world->gpu->device, at + first * sizeof(shmd_be32), &queues->rails[0].lkeys[first], n_keys * sizeof(shmd_be32));
	return r ? r : device_write(world->gpu->device, at + LKEYS_BYTES + first * n * sizeof(shmd_be32), &queues->rkeys[0][first * n],
				    n_keys * n * sizeof(shmd_be32));
}

void world_gpu_keys_show(const struct shmd_world *world, uint64_t at, struct shmd_dev_world *dev)
{
	if (!world->queues)
		return;
	dev->n_rails = 1;
	dev->lkeys_addr[0] = at;
	dev->rkeys_addr[0] = at + LKEYS_BYTES;
	dev->flags |= SHMD_WORLD_ATOMICS_BY_QUEUE;
}

/* ---- queues */

/* A setting of none is for contexts of the host, which can share. */
static unsigned int n_dcis(const struct shmd_world *world)
{
	return world->settings.ctx_dcis ? (unsigned int)world->settings.ctx_dcis : 1;
}

size_t world_gpu_queues_bytes(const struct shmd_world *world)
{
	return world->queues ? (size_t)world->size * sizeof(struct shmd_dev_pe_way) + n_dcis(world) * sizeof(uint64_t) : 0;
}

static int create(struct shmd_ctx *ctx)
{
	struct world_queues *queues = ctx->world->queues;
	struct shmd_queues_attr attr = {
		.n_qps = n_dcis(ctx->world),
		.sq_wqebbs = (uint32_t)ctx->world->settings.queue_depth,
		.sharing = ctx->dev.sharing == SHMD_SHARING_EXCLUSIVE ? SHMD_SHARING_EXCLUSIVE : SHMD_SHARING_GPU,
		.qp_type = SHMD_QP_TYPE_DCI,
		.gpu_driven = 1,
	};
	int r;

	if (!world_queues_reach_all(queues, 0))
		return shmd_error_set(-EOPNOTSUPP, "kernels reach PEs by dynamic connections, and the NIC of a PE has none");
	r = world_queues_resolve_alone(queues, 0);
	if (!r)
		r = shmd_queues_create(queues->rails[0].nic, &attr, &ctx->gpu_queues);
	if (!r)
		r = shmd_queues_set_peers(ctx->gpu_queues, (unsigned int)queues->n_peers, queues->rails[0].targets);
	return r ? r : shmd_queues_connect(ctx->gpu_queues, 0, attr.n_qps, NULL, NULL, NULL);
}

/* As kernels see it. */
static int read_state(const struct shmd_ctx *ctx, struct shmd_dev_state *state)
{
	const struct world_gpu *gpu = ctx->world->gpu;
	uint64_t addr = 0;
	int r = shmd_gpu_dev_state(gpu->of_session, ctx->gpu_queues, &addr);

	return r ? r : device_read(gpu->device, state, addr, sizeof(*state));
}

/* The ways to all PEs, and the QPs behind them. */
static int write_ways(const struct shmd_ctx *ctx, uint64_t at, const struct shmd_dev_state *state)
{
	const struct shmd_world *world = ctx->world;
	const struct world_queues *queues = world->queues;
	unsigned int n_qps = n_dcis(world);
	size_t bytes = world_gpu_queues_bytes(world);
	_cleanup_free_ struct shmd_dev_pe_way *ways = calloc(1, bytes);
	uint64_t *qps;
	int r = 0;

	if (!ways)
		return shmd_error_set(-ENOMEM, "no memory for the ways of kernels to %d PEs", world->size);
	qps = (uint64_t *)(void *)&ways[world->size];
	for (unsigned int i = 0; !r && i < n_qps; i++)
		r = shmd_gpu_dev_qp(world->gpu->of_session, ctx->gpu_queues, i, &qps[i]);
	for (int i = 0; i < queues->n_peers; i++) {
		ways[queues->peers[i]].qp_addr = qps[(unsigned int)i % n_qps];
		ways[queues->peers[i]].peer_addr = state->peers_addr + (uint64_t)i * sizeof(struct shmd_dev_peer);
	}
	return r ? r : device_write(world->gpu->device, at, ways, bytes);
}

static int make_bounce(struct shmd_ctx *ctx, struct shmd_dev_ctx *dev)
{
	struct shmd_world *world = ctx->world;
	int r = shmd_mem_alloc(session_client(world->session), BOUNCE_BYTES, &ctx->gpu_bounce);

	if (!r)
		r = shmd_mr_reg_mem(world->queues->rails[0].nic, ctx->gpu_bounce, SHMD_ACCESS_LOCAL_WRITE, &ctx->gpu_bounce_mr);
	if (!r)
		r = shmd_gpu_map_mem(world->gpu->of_session, ctx->gpu_bounce, &dev->bounce_addr);
	if (r < 0)
		return r;
	dev->bounce_iova = (uintptr_t)shmd_mem_addr(ctx->gpu_bounce);
	dev->bounce_bytes = BOUNCE_BYTES;
	dev->bounce_lkey_be[0] = shmd_mr_lkey_be(ctx->gpu_bounce_mr);
	return 0;
}

/* The health of the session stands at one address for all contexts, and kernels come with a context. */
static int show_health(const struct shmd_world *world, uint64_t addr)
{
	const struct world_gpu *gpu = world->gpu;

	return device_write(gpu->device, gpu->dev + offsetof(struct shmd_dev_world, health_addr), &addr, sizeof(addr));
}

int world_gpu_queues_make(struct shmd_ctx *ctx, uint64_t at, struct shmd_dev_ctx *dev)
{
	struct shmd_world *world = ctx->world;
	struct shmd_dev_state state;
	int r;

	if (!world->queues)
		return 0;
	r = create(ctx);
	if (!r)
		r = make_bounce(ctx, dev);
	if (!r)
		r = read_state(ctx, &state);
	if (!r)
		r = write_ways(ctx, at, &state);
	if (!r)
		r = show_health(world, state.health_addr);
	if (r < 0)
		return r;
	dev->ways_addr = at;
	dev->qps_addr = at + (uint64_t)world->size * sizeof(struct shmd_dev_pe_way);
	dev->n_qps = n_dcis(world);
	runtime_log(RMA, DEBUG, "context %u has %u DC senders for kernels", ctx->dev.id, dev->n_qps);
	return 0;
}

void world_gpu_queues_drop(struct shmd_ctx *ctx)
{
	/* In a forked child all of it is the parent's. */
	if (!process_is(ctx->world->pid))
		return;
	if (ctx->gpu_queues)
		(void)shmd_queues_destroy(ctx->gpu_queues);
	if (ctx->gpu_bounce_mr)
		(void)shmd_mr_dereg(ctx->gpu_bounce_mr);
	shmd_mem_free(ctx->gpu_bounce);
	ctx->gpu_queues = NULL;
	ctx->gpu_bounce_mr = NULL;
	ctx->gpu_bounce = NULL;
}

/* ---- queues that failed */

/* Kernels record the first error of a QP in their own copy of it. */
static int read_syndrome(const struct shmd_ctx *ctx, unsigned int i, uint32_t *ret_syndrome)
{
	const struct world_gpu *gpu = ctx->world->gpu;
	uint64_t addr = 0;
	int r = shmd_gpu_dev_qp(gpu->of_session, ctx->gpu_queues, i, &addr);

	return r ? r : device_read(gpu->device, ret_syndrome, addr + offsetof(struct shmd_dev_qp, error_syndrome), sizeof(*ret_syndrome));
}

uint32_t world_gpu_queues_error(const struct shmd_ctx *ctx)
{
	uint32_t syndrome = 0;

	if (!ctx->world->gpu)
		return 0;
	pthread_mutex_lock(&ctx->world->gpu_copies);
	for (unsigned int i = 0; ctx->gpu_queues && !syndrome && i < n_dcis(ctx->world); i++)
		if (read_syndrome(ctx, i, &syndrome) < 0)
			break;
	pthread_mutex_unlock(&ctx->world->gpu_copies);
	return syndrome;
}

static int reset_if_failed(const struct shmd_ctx *ctx, unsigned int i)
{
	uint32_t syndrome = 0;
	int r = read_syndrome(ctx, i, &syndrome);

	if (r < 0 || !syndrome)
		return r;
	r = shmd_queues_modify(ctx->gpu_queues, i, SHMD_QP_RST);
	return r ? r : shmd_queues_connect(ctx->gpu_queues, i, 1, NULL, NULL, NULL);
}

int world_gpu_queues_mend(struct shmd_world *world)
{
	int r = 0;

	if (!world->gpu)
		return 0;
	pthread_mutex_lock(&world->gpu_copies);
	pthread_mutex_lock(&world->tables);
	for (struct shmd_ctx *ctx = world->ctx; !r && ctx; ctx = ctx->next)
		for (unsigned int i = 0; !r && ctx->gpu_queues && i < n_dcis(world); i++)
			r = reset_if_failed(ctx, i);
	pthread_mutex_unlock(&world->tables);
	pthread_mutex_unlock(&world->gpu_copies);
	return r;
}
