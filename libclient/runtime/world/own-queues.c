/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of a context's own: a few DCIs, which reach the DCTs that all PEs of a world with queues have. So a context is made without its
 * peers, its operations have an order of their own, and its quiet waits for no other context.
 *
 * On another rail than the first, a context has DCIs on the first one as well if atomics are those of the NIC (rail-rule.h).
 *
 * If a NIC has no dynamic connections, contexts share the QPs of their world. The same if SHMD_CTX_DCIS is 0.
 */
#include <errno.h>
#include <stdlib.h>

#include "libclient/runtime/settings/log.h"
#include "libclient/runtime/world/ctx.h"
#include "libclient/runtime/world/queues-private.h"
#include "libclient/runtime/world/rail-rule.h"
#include "libclient/runtime/world/world.h"
#include "proto/base/cleanup.h"

int world_queues_resolve(struct world_rail *rail, int n_peers)
{
	size_t n = (size_t)n_peers;
	_cleanup_free_ struct shmd_dev_peer *targets = NULL;
	int r;

	if (rail->targets)
		return 0;
	targets = calloc(n ? n : 1, sizeof(*targets));
	if (!targets)
		return shmd_error_set(-ENOMEM, "no memory for %zu peers", n);
	r = shmd_peers_resolve(rail->nic, (unsigned int)n, rail->dct_addrs, 0, targets, NULL);
	if (!r)
		rail->targets = take_ptr(targets);
	return r;
}

void world_ways_fill(const struct world_queues *queues, uint32_t rail, struct shmd_dev_pe_way *ways, const uint64_t *qp_addrs,
		     unsigned int n_qps)
{
	for (int i = 0; i < queues->n_peers; i++) {
		struct shmd_dev_pe_way *way = &ways[queues->peers[i]];

		way->qp_addr = qp_addrs[(unsigned int)i % n_qps];
		way->peer_addr = (uintptr_t)&queues->rails[rail].targets[i];
		way->rail = (uint16_t)rail;
		way->peer_rail = (uint16_t)rail_at_peer(rail, queues->n_rails_of[queues->peers[i]]);
	}
}

/* All atomics on a PE's words meet one NIC of it. */
static bool amos_take_rail_0(const struct shmd_world *world)
{
	return world->dev->flags & SHMD_WORLD_ATOMICS_BY_QUEUE;
}

bool world_queues_reach_all(const struct world_queues *queues, uint32_t rail)
{
	for (int i = 0; i < queues->n_peers; i++)
		if (!queues->rails[rail].dct_addrs[i].bytes)
			return false;
	return true;
}

bool world_queues_can_have_own(const struct shmd_world *world, uint32_t rail)
{
	const struct world_queues *queues = world->queues;

	if (!world->settings.ctx_dcis || !queues->n_peers)
		return false;
	return world_queues_reach_all(queues, rail) && (!amos_take_rail_0(world) || world_queues_reach_all(queues, 0));
}

static int create(struct shmd_world *world, const struct shmd_ctx *ctx, uint32_t rail, struct shmd_queues **ret_queues)
{
	struct shmd_queues_attr attr = {
		.n_qps = (unsigned int)world->settings.ctx_dcis,
		.sq_wqebbs = (uint32_t)world->settings.queue_depth,
		.sharing = ctx->dev.sharing == SHMD_SHARING_EXCLUSIVE ? SHMD_SHARING_EXCLUSIVE : world_queues_sharing(world),
		.qp_type = SHMD_QP_TYPE_DCI,
	};
	int r = shmd_queues_create(world->queues->rails[rail].nic, &attr, ret_queues);

	return r ? r : shmd_queues_connect(*ret_queues, 0, attr.n_qps, NULL, NULL, NULL);
}

int world_queues_resolve_alone(struct world_queues *queues, uint32_t rail)
{
	int r;

	pthread_mutex_lock(&queues->lock);
	r = world_queues_resolve(&queues->rails[rail], queues->n_peers);
	pthread_mutex_unlock(&queues->lock);
	return r;
}

/* DCIs on a rail, and ways by them. They stand in qp_addrs behind those that the context has. */
static int make_ways(struct shmd_world *world, struct shmd_ctx *ctx, uint32_t rail, struct shmd_queues **ret_queues, struct shmd_dev_pe_way *ways)
{
	uint64_t *addrs = ctx->qp_addrs + ctx->dev.n_qps;
	int r = world_queues_resolve_alone(world->queues, rail);

	if (!r)
		r = create(world, ctx, rail, ret_queues);
	if (r < 0)
		return r;
	for (unsigned int i = 0; i < shmd_queues_count(*ret_queues); i++)
		addrs[i] = (uintptr_t)shmd_queues_dev_qp(*ret_queues, i);
	world_ways_fill(world->queues, rail, ways, addrs, shmd_queues_count(*ret_queues));
	ctx->dev.n_qps += shmd_queues_count(*ret_queues); /* bounded: SHMD_CTX_DCIS, twice at most */
	return 0;
}

static int make_amo_ways(struct shmd_world *world, struct shmd_ctx *ctx)
{
	int r;

	ctx->amo_ways = calloc((size_t)world->size, sizeof(*ctx->amo_ways));
	if (!ctx->amo_ways)
		return shmd_error_set(-ENOMEM, "no memory for the ways of a context to %d PEs", world->size);
	r = make_ways(world, ctx, 0, &ctx->amo_own, ctx->amo_ways);
	if (r < 0)
		return r;
	/* A way to rail 0 of a PE serves for all requests, so that signals need not wait for their data. */
	for (int pe = 0; pe < world->size; pe++)
		if (!ctx->ways[pe].peer_rail)
			ctx->amo_ways[pe] = ctx->ways[pe];
	ctx->dev.amo_ways_addr = (uintptr_t)ctx->amo_ways;
	return 0;
}

int world_queues_make_own(struct shmd_world *world, struct shmd_ctx *ctx)
{
	int r;

	ctx->ways = calloc((size_t)world->size, sizeof(*ctx->ways));
	ctx->qp_addrs = calloc(2 * (size_t)world->settings.ctx_dcis, sizeof(*ctx->qp_addrs));
	if (!ctx->ways || !ctx->qp_addrs)
		return shmd_error_set(-ENOMEM, "no memory for the ways of a context to %d PEs", world->size);
	r = make_ways(world, ctx, ctx->rail, &ctx->own, ctx->ways);
	if (!r && ctx->rail && amos_take_rail_0(world))
		r = make_amo_ways(world, ctx);
	if (r < 0)
		return r;
	ctx->dev.ways_addr = (uintptr_t)ctx->ways;
	ctx->dev.qps_addr = (uintptr_t)ctx->qp_addrs;
	runtime_log(RMA, DEBUG, "context %u has %u DC senders of its own", ctx->dev.id, ctx->dev.n_qps);
	return 0;
}

void world_queues_drop_own(struct shmd_ctx *ctx)
{
	if (ctx->own)
		(void)shmd_queues_destroy(ctx->own);
	if (ctx->amo_own)
		(void)shmd_queues_destroy(ctx->amo_own);
	free(ctx->ways);
	free(ctx->amo_ways);
	free(ctx->qp_addrs);
	ctx->own = ctx->amo_own = NULL;
	ctx->ways = ctx->amo_ways = NULL;
	ctx->qp_addrs = NULL;
	ctx->dev.ways_addr = ctx->dev.amo_ways_addr = ctx->dev.qps_addr = 0;
	ctx->dev.n_qps = 0;
}
