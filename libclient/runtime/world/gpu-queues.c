/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of kernels: DCIs of a context, its ways by them, and the keys of the GPU heap, all of which kernels find in GPU memory. See world-gpu.h.
 *
 * A QP has one driver, so those of the host do not serve for kernels. DCIs take no other PE to make: they reach the DCT that every PE of a
 * world with queues has. They are on the rail of the context (rail-rule.h), and those for atomics and signals on the first one, where the atomics on a
 * PE's words meet.
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
#include "libclient/runtime/world/rail-rule.h"
#include "libclient/runtime/world/world-gpu.h"
#include "libclient/runtime/world/world.h"
#include "proto/base/cleanup.h"

#define BOUNCE_BYTES 65536u

/* ---- keys: those of this PE, by rail, then those of all PEs, by rail of the peer */

#define LKEYS_BYTES (WORLD_N_KEYS * sizeof(shmd_be32))

size_t world_gpu_keys_bytes(const struct shmd_world *world)
{
	const struct world_queues *queues = world->queues;

	/* bounded: a world has at most TEAM_MAX_PES PEs, and a PE SHMD_DEV_RAILS NICs */
	return queues ? LKEYS_BYTES * (queues->n_rails + queues->most_rails * (size_t)world->size) : 0;
}

static uint64_t lkeys_at(uint64_t at, uint32_t rail)
{
	return at + rail * LKEYS_BYTES;
}

static uint64_t rkeys_at(const struct shmd_world *world, uint64_t at, uint32_t rail)
{
	return at + LKEYS_BYTES * (world->queues->n_rails + rail * (uint64_t)world->size);
}

int world_gpu_keys_write(const struct shmd_world *world, uint64_t at)
{
	const struct world_queues *queues = world->queues;
	size_t n = (size_t)world->size, first = WORLD_GPU_CHUNK(0), n_keys = world->gpu->chunks.n;
	int r = 0;

	for (uint32_t i = 0; queues && !r && i < queues->n_rails; i++)
		r = device_write(world->gpu->device, lkeys_at(at, i) + first * sizeof(shmd_be32), &queues->rails[i].lkeys[first],
				 n_keys * sizeof(shmd_be32));
	for (uint32_t i = 0; queues && !r && i < queues->most_rails; i++)
		r = device_write(world->gpu->device, rkeys_at(world, at, i) + first * n * sizeof(shmd_be32), &queues->rkeys[i][first * n],
				 n_keys * n * sizeof(shmd_be32));
	return r;
}

void world_gpu_keys_show(const struct shmd_world *world, uint64_t at, struct shmd_dev_world *dev)
{
	const struct world_queues *queues = world->queues;

	if (!queues)
		return;
	dev->n_rails = queues->n_rails;
	for (uint32_t i = 0; i < queues->n_rails; i++)
		dev->lkeys_addr[i] = lkeys_at(at, i);
	for (uint32_t i = 0; i < queues->most_rails; i++)
		dev->rkeys_addr[i] = rkeys_at(world, at, i);
	dev->flags |= SHMD_WORLD_ATOMICS_BY_QUEUE;
}

/* ---- queues */

/* A setting of none is for contexts of the host, which can share. */
static unsigned int n_dcis(const struct shmd_world *world)
{
	return world->settings.ctx_dcis ? (unsigned int)world->settings.ctx_dcis : 1;
}

/* Ways for atomics apart from the others, where a context may be on another rail than the first. */
static bool may_be_apart(const struct shmd_world *world)
{
	return world->queues->n_rails > 1;
}

/* Ways, ways of atomics, QPs, QPs of atomics. */
size_t world_gpu_queues_bytes(const struct shmd_world *world)
{
	size_t one = (size_t)world->size * sizeof(struct shmd_dev_pe_way) + n_dcis(world) * sizeof(uint64_t);

	return !world->queues ? 0 : may_be_apart(world) ? 2 * one : one;
}

static int create(const struct shmd_ctx *ctx, uint32_t rail, struct shmd_queues **ret_queues)
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

	if (!world_queues_reach_all(queues, rail))
		return shmd_error_set(-EOPNOTSUPP, "kernels reach PEs by dynamic connections, and the NIC of a PE has none");
	r = world_queues_resolve_alone(queues, rail);
	if (!r)
		r = shmd_queues_create(queues->rails[rail].nic, &attr, ret_queues);
	if (!r)
		r = shmd_queues_set_peers(*ret_queues, (unsigned int)queues->n_peers, queues->rails[rail].targets);
	return r ? r : shmd_queues_connect(*ret_queues, 0, attr.n_qps, NULL, NULL, NULL);
}

/* For the context, and on the first rail for its atomics, if that is another one. */
static int create_all(struct shmd_ctx *ctx, uint32_t rail)
{
	int r = create(ctx, rail, &ctx->gpu_queues);

	return r || !rail ? r : create(ctx, 0, &ctx->gpu_amo_queues);
}

/* As kernels see it. */
static int read_state(const struct shmd_ctx *ctx, struct shmd_queues *batch, struct shmd_dev_state *state)
{
	const struct world_gpu *gpu = ctx->world->gpu;
	uint64_t addr = 0;
	int r = shmd_gpu_dev_state(gpu->of_session, batch, &addr);

	return r ? r : device_read(gpu->device, state, addr, sizeof(*state));
}

/* The ways to all PEs on a rail, and the QPs behind them. */
static int fill_ways(const struct shmd_ctx *ctx, uint32_t rail, struct shmd_queues *batch, struct shmd_dev_pe_way *ways, uint64_t *qps)
{
	const struct shmd_world *world = ctx->world;
	const struct world_queues *queues = world->queues;
	unsigned int n_qps = n_dcis(world);
	struct shmd_dev_state state;
	int r = read_state(ctx, batch, &state);

	for (unsigned int i = 0; !r && i < n_qps; i++)
		r = shmd_gpu_dev_qp(world->gpu->of_session, batch, i, &qps[i]);
	for (int i = 0; !r && i < queues->n_peers; i++) {
		struct shmd_dev_pe_way *way = &ways[queues->peers[i]];

		way->qp_addr = qps[(unsigned int)i % n_qps];
		way->peer_addr = state.peers_addr + (uint64_t)i * sizeof(struct shmd_dev_peer);
		way->rail = (uint16_t)rail;
		way->peer_rail = (uint16_t)rail_at_peer(rail, queues->n_rails_of[queues->peers[i]]);
	}
	return r;
}

/* All atomics on a PE's words meet its first NIC (rail-rule.h). A way that leads there serves for all requests. */
static int fill_amo_ways(const struct shmd_ctx *ctx, const struct shmd_dev_pe_way *ways, struct shmd_dev_pe_way *amo_ways, uint64_t *qps)
{
	int r = fill_ways(ctx, 0, ctx->gpu_amo_queues, amo_ways, qps);

	for (int pe = 0; pe < ctx->world->size; pe++)
		if (!ways[pe].peer_rail)
			amo_ways[pe] = ways[pe];
	return r;
}

/* Fills dev with where they are. */
static int write_ways(const struct shmd_ctx *ctx, uint64_t at, uint32_t rail, struct shmd_dev_ctx *dev)
{
	const struct shmd_world *world = ctx->world;
	size_t bytes = world_gpu_queues_bytes(world), n_ways = (size_t)world->size * (may_be_apart(world) ? 2 : 1);
	_cleanup_free_ struct shmd_dev_pe_way *ways = calloc(1, bytes);
	uint64_t *qps;
	int r;

	if (!ways)
		return shmd_error_set(-ENOMEM, "no memory for the ways of kernels to %d PEs", world->size);
	qps = (uint64_t *)(void *)&ways[n_ways];
	r = fill_ways(ctx, rail, ctx->gpu_queues, ways, qps);
	if (!r && rail)
		r = fill_amo_ways(ctx, ways, &ways[world->size], qps + n_dcis(world));
	if (!r)
		r = device_write(world->gpu->device, at, ways, bytes);
	dev->ways_addr = at;
	dev->amo_ways_addr = rail ? at + (uint64_t)world->size * sizeof(*ways) : 0;
	dev->qps_addr = at + (uint64_t)n_ways * sizeof(*ways);
	dev->n_qps = n_dcis(world) * (rail ? 2 : 1); /* bounded: SHMD_CTX_DCIS */
	return r;
}

static int make_bounce(struct shmd_ctx *ctx, uint32_t rail, struct shmd_dev_ctx *dev)
{
	struct shmd_world *world = ctx->world;
	int r = shmd_mem_alloc(session_client(world->session), BOUNCE_BYTES, &ctx->gpu_bounce);

	if (!r)
		r = shmd_mr_reg_mem(world->queues->rails[rail].nic, ctx->gpu_bounce, SHMD_ACCESS_LOCAL_WRITE, &ctx->gpu_bounce_mr);
	if (!r)
		r = shmd_gpu_map_mem(world->gpu->of_session, ctx->gpu_bounce, &dev->bounce_addr);
	if (r < 0)
		return r;
	dev->bounce_iova = (uintptr_t)shmd_mem_addr(ctx->gpu_bounce);
	dev->bounce_bytes = BOUNCE_BYTES;
	dev->bounce_lkey_be[rail] = shmd_mr_lkey_be(ctx->gpu_bounce_mr);
	return 0;
}

/* The health of the session stands at one address for all contexts, and kernels come with a context. */
static int show_health(const struct shmd_world *world, uint64_t addr)
{
	const struct world_gpu *gpu = world->gpu;

	return device_write(gpu->device, gpu->dev + offsetof(struct shmd_dev_world, health_addr), &addr, sizeof(addr));
}

/* Fills dev if all of it can be made. */
static int make_on(struct shmd_ctx *ctx, uint64_t at, uint32_t rail, struct shmd_dev_ctx *dev)
{
	struct shmd_world *world = ctx->world;
	struct shmd_dev_ctx filled = *dev;
	struct shmd_dev_state state;
	int r = create_all(ctx, rail);

	if (!r)
		r = make_bounce(ctx, rail, &filled);
	if (!r)
		r = write_ways(ctx, at, rail, &filled);
	if (!r)
		r = read_state(ctx, ctx->gpu_queues, &state);
	if (!r)
		r = show_health(world, state.health_addr);
	if (r < 0)
		return r;
	*dev = filled;
	runtime_log(RMA, DEBUG, "context %u has %u DC senders for kernels, on %s", ctx->dev.id, dev->n_qps, world->queues->rails[rail].info.name);
	return 0;
}

/* The host's queues fall back in the same way (queues.c); the context stays on its NIC for the host. */
static int fall_back(struct shmd_ctx *ctx, uint64_t at, uint32_t rail, struct shmd_dev_ctx *dev)
{
	const struct world_queues *queues = ctx->world->queues;

	runtime_log(PATH, WARN, "kernels of a context go by %s, because %s does not serve them: %s", queues->rails[0].info.name,
		    queues->rails[rail].info.name, shmd_error_text());
	world_gpu_queues_drop(ctx);
	return make_on(ctx, at, 0, dev);
}

int world_gpu_queues_make(struct shmd_ctx *ctx, uint64_t at, struct shmd_dev_ctx *dev)
{
	const struct world_queues *queues = ctx->world->queues;
	uint32_t rail;
	int r;

	if (!queues)
		return 0;
	rail = world_queues_reach_all(queues, ctx->rail) ? ctx->rail : 0;
	r = make_on(ctx, at, rail, dev);
	return r < 0 && rail ? fall_back(ctx, at, rail, dev) : r;
}

void world_gpu_queues_drop(struct shmd_ctx *ctx)
{
	/* In a forked child all of it is the parent's. */
	if (!process_is(ctx->world->pid))
		return;
	if (ctx->gpu_queues)
		(void)shmd_queues_destroy(ctx->gpu_queues);
	if (ctx->gpu_amo_queues)
		(void)shmd_queues_destroy(ctx->gpu_amo_queues);
	if (ctx->gpu_bounce_mr)
		(void)shmd_mr_dereg(ctx->gpu_bounce_mr);
	shmd_mem_free(ctx->gpu_bounce);
	ctx->gpu_queues = ctx->gpu_amo_queues = NULL;
	ctx->gpu_bounce_mr = NULL;
	ctx->gpu_bounce = NULL;
}

/* ---- queues that failed */

/* Kernels record the first error of a QP in their own copy of it. */
static int read_syndrome(const struct shmd_ctx *ctx, struct shmd_queues *batch, unsigned int i, uint32_t *ret_syndrome)
{
	const struct world_gpu *gpu = ctx->world->gpu;
	uint64_t addr = 0;
	int r = shmd_gpu_dev_qp(gpu->of_session, batch, i, &addr);

	return r ? r : device_read(gpu->device, ret_syndrome, addr + offsetof(struct shmd_dev_qp, error_syndrome), sizeof(*ret_syndrome));
}

/* NULL: none. */
static uint32_t first_syndrome(const struct shmd_ctx *ctx, struct shmd_queues *batch)
{
	uint32_t syndrome = 0;

	for (unsigned int i = 0; batch && !syndrome && i < n_dcis(ctx->world); i++)
		if (read_syndrome(ctx, batch, i, &syndrome) < 0)
			break;
	return syndrome;
}

uint32_t world_gpu_queues_error(struct shmd_world *world)
{
	uint32_t syndrome = 0;

	if (!world->gpu)
		return 0;
	pthread_mutex_lock(&world->gpu_copies);
	pthread_mutex_lock(&world->tables);
	for (const struct shmd_ctx *ctx = world->ctx; !syndrome && ctx; ctx = ctx->next) {
		syndrome = first_syndrome(ctx, ctx->gpu_queues);
		if (!syndrome)
			syndrome = first_syndrome(ctx, ctx->gpu_amo_queues);
	}
	pthread_mutex_unlock(&world->tables);
	pthread_mutex_unlock(&world->gpu_copies);
	return syndrome;
}

static int reset_if_failed(const struct shmd_ctx *ctx, struct shmd_queues *batch, unsigned int i)
{
	uint32_t syndrome = 0;
	int r = read_syndrome(ctx, batch, i, &syndrome);

	if (r < 0 || !syndrome)
		return r;
	r = shmd_queues_modify(batch, i, SHMD_QP_RST);
	return r ? r : shmd_queues_connect(batch, i, 1, NULL, NULL, NULL);
}

/* NULL: none. */
static int reset_failed(const struct shmd_ctx *ctx, struct shmd_queues *batch)
{
	int r = 0;

	for (unsigned int i = 0; batch && !r && i < n_dcis(ctx->world); i++)
		r = reset_if_failed(ctx, batch, i);
	return r;
}

int world_gpu_queues_mend(struct shmd_world *world)
{
	int r = 0;

	if (!world->gpu)
		return 0;
	pthread_mutex_lock(&world->gpu_copies);
	pthread_mutex_lock(&world->tables);
	for (struct shmd_ctx *ctx = world->ctx; !r && ctx; ctx = ctx->next) {
		r = reset_failed(ctx, ctx->gpu_queues);
		if (!r)
			r = reset_failed(ctx, ctx->gpu_amo_queues);
	}
	pthread_mutex_unlock(&world->tables);
	pthread_mutex_unlock(&world->gpu_copies);
	return r;
}
