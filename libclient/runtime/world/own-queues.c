/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of a context's own: a few DCIs, which reach the DCTs that all PEs of a world with queues have. So a context is made without its
 * peers, its operations have an order of their own, and its quiet waits for no other context.
 *
 * If a NIC has no dynamic connections, contexts share the QPs of their world. The same if SHMD_CTX_DCIS is 0.
 */
#include <errno.h>
#include <stdlib.h>

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

bool world_queues_can_have_own(const struct shmd_world *world, uint32_t rail)
{
	const struct world_queues *queues = world->queues;

	if (!world->settings.ctx_dcis || !queues->n_peers || (rail && (world->dev->flags & SHMD_WORLD_ATOMICS_BY_QUEUE)))
		return false;
	for (int i = 0; i < queues->n_peers; i++)
		if (!queues->rails[rail].dct_addrs[i].bytes)
			return false;
	return true;
}

static int create(struct shmd_world *world, struct shmd_ctx *ctx)
{
	struct shmd_queues_attr attr = {
		.n_qps = (unsigned int)world->settings.ctx_dcis,
		.sq_wqebbs = (uint32_t)world->settings.queue_depth,
		.sharing = ctx->dev.sharing == SHMD_SHARING_EXCLUSIVE ? SHMD_SHARING_EXCLUSIVE : world_queues_sharing(world),
		.qp_type = SHMD_QP_TYPE_DCI,
	};
	int r = shmd_queues_create(world->queues->rails[ctx->rail].nic, &attr, &ctx->own);

	return r ? r : shmd_queues_connect(ctx->own, 0, attr.n_qps, NULL, NULL, NULL);
}

static int resolve(struct world_queues *queues, uint32_t rail)
{
	int r;

	pthread_mutex_lock(&queues->lock);
	r = world_queues_resolve(&queues->rails[rail], queues->n_peers);
	pthread_mutex_unlock(&queues->lock);
	return r;
}

int world_queues_make_own(struct shmd_world *world, struct shmd_ctx *ctx)
{
	unsigned int n = (unsigned int)world->settings.ctx_dcis;
	int r = resolve(world->queues, ctx->rail);

	if (r < 0)
		return r;
	ctx->ways = calloc((size_t)world->size, sizeof(*ctx->ways));
	ctx->qp_addrs = calloc(n, sizeof(*ctx->qp_addrs));
	if (!ctx->ways || !ctx->qp_addrs)
		return shmd_error_set(-ENOMEM, "no memory for the ways of a context to %d PEs", world->size);
	r = create(world, ctx);
	if (r < 0)
		return r;
	for (unsigned int i = 0; i < n; i++)
		ctx->qp_addrs[i] = (uintptr_t)shmd_queues_dev_qp(ctx->own, i);
	world_ways_fill(world->queues, ctx->rail, ctx->ways, ctx->qp_addrs, n);
	ctx->dev.ways_addr = (uintptr_t)ctx->ways;
	ctx->dev.qps_addr = (uintptr_t)ctx->qp_addrs;
	ctx->dev.n_qps = n;
	return 0;
}

void world_queues_drop_own(struct shmd_ctx *ctx)
{
	if (ctx->own)
		(void)shmd_queues_destroy(ctx->own);
	free(ctx->ways);
	free(ctx->qp_addrs);
	ctx->own = NULL;
	ctx->ways = NULL;
	ctx->qp_addrs = NULL;
}
