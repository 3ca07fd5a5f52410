/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues that have failed: their PE and the reason in words, and how a world goes on with them.
 *
 * A DCI that has failed, for example since a PE has ended, is reset, which takes no other PE. An RC QP has two ends, so a DCI takes
 * its place; the PE at the other end does the same. The failed QP stays as it is until the world closes; that of a hot peer goes.
 */
#include <errno.h>
#include <stdio.h>

#include <shmd/dev/pe.h>

#include "libclient/runtime/settings/log.h"
#include "libclient/runtime/world/ctx.h"
#include "libclient/runtime/world/hot-set.h"
#include "libclient/runtime/world/mend.h"
#include "libclient/runtime/world/queues-private.h"
#include "libclient/runtime/world/world-gpu.h"
#include "libclient/runtime/world/world.h"

/* ---- in words */

static uint32_t error_on(const struct shmd_dev_pe_way *ways, int pe)
{
	const struct shmd_dev_state *state = ways ? (const void *)(uintptr_t)ways[pe].state_addr : NULL;
	struct shmd_dev_qp *qp = ways ? (void *)(uintptr_t)ways[pe].qp_addr : NULL;

	if (state)
		qp = shmd_dev_way_to(state, qp, ways[pe].peer_index).qp;
	return qp ? shmd_dev_qp_error(qp, NULL) : 0;
}

static uint32_t error_to(const struct shmd_ctx *ctx, int pe)
{
	uint32_t error = error_on((const void *)(uintptr_t)ctx->dev.ways_addr, pe);

	return error ? error : error_on((const void *)(uintptr_t)ctx->dev.amo_ways_addr, pe);
}

static bool is_by_dci(const struct shmd_ctx *ctx, int pe)
{
	const struct shmd_dev_pe_way *ways = (const void *)(uintptr_t)ctx->dev.ways_addr;

	return ways && ways[pe].peer_addr;
}

static bool is_gone(const struct shmd_world *world, int pe)
{
	return __atomic_load_n(&world->pes[pe].path[SHMD_DEV_HEAP_HOST], __ATOMIC_ACQUIRE) == SHMD_PATH_GONE;
}

/* The PE whose way has failed: one that has ended, if there is one. */
static int find_failed(const struct shmd_ctx *ctx)
{
	int found = -1;

	for (int i = 0; i < ctx->world->size; i++) {
		if (!error_to(ctx, i))
			continue;
		if (is_gone(ctx->world, i))
			return i;
		found = found < 0 ? i : found;
	}
	return found;
}

int world_queue_error(const struct shmd_ctx *ctx, const char *what, int pe)
{
	char text[PE_TEXT_BYTES] = "the world";
	/* A stream does not say whose kernel failed. One of the host may have failed before, and is not the reason. */
	uint32_t syndrome = pe == WORLD_PE_OF_KERNELS ? world_gpu_queues_error(ctx->world) : 0;

	if (!syndrome && pe < 0)
		pe = find_failed(ctx);
	if (!syndrome)
		syndrome = pe < 0 ? world_gpu_queues_error(ctx->world) : error_to(ctx, pe);
	if (pe >= 0)
		pe_text(ctx->world->hellos, pe, text);
	if (pe >= 0 && is_gone(ctx->world, pe))
		return shmd_error_set(-EHOSTDOWN, "%s: %s has ended", what, text);
	shmd_error_set(-EIO, "%s, %s: a request failed at the NIC: %s (shmd_world_forgive() makes the queue anew)", what, text,
		       shmd_syndrome_text(syndrome));
	/* A request to a PE that has ended breaks a DCI for all. */
	return pe < 0 || is_by_dci(ctx, pe) ? world_blame(ctx->world, -EIO) : -EIO;
}

/* ---- going on */

static int reset_one(struct shmd_queues *dcis, unsigned int i)
{
	int r = shmd_queues_modify(dcis, i, SHMD_QP_RST);

	return r ? r : shmd_queues_connect(dcis, i, 1, NULL, NULL, NULL);
}

static int reset_failed(struct shmd_queues *dcis)
{
	int r = 0;

	for (unsigned int i = 0; !r && i < shmd_queues_count(dcis); i++)
		if (shmd_dev_qp_error(shmd_queues_dev_qp(dcis, i), NULL))
			r = reset_one(dcis, i);
	return r;
}

static int make_spare(struct shmd_world *world)
{
	struct world_queues *queues = world->queues;
	struct shmd_queues_attr attr = {
		.n_qps = 1,
		.sq_wqebbs = (uint32_t)world->settings.queue_depth,
		.sharing = world_queues_sharing(world),
		.qp_type = SHMD_QP_TYPE_DCI,
	};
	int r = world_queues_resolve(&queues->rails[0], queues->n_peers);

	if (r < 0 || queues->spare)
		return r;
	r = shmd_queues_create(queues->rails[0].nic, &attr, &queues->spare);
	return r ? r : shmd_queues_connect(queues->spare, 0, 1, NULL, NULL, NULL);
}

/* Peer i by RC. Without a DCT there the failure stays. */
static int replace(struct shmd_world *world, int i)
{
	struct world_queues *queues = world->queues;
	struct shmd_dev_pe_way *way = &queues->ways[queues->peers[i]];
	char text[PE_TEXT_BYTES];
	int r;

	if (!queues->rails[0].dct_addrs[i].bytes)
		return 0;
	r = make_spare(world);
	if (r < 0)
		return r;
	queues->qp_addrs[i] = way->qp_addr = (uintptr_t)shmd_queues_dev_qp(queues->spare, 0);
	way->peer_addr = (uintptr_t)&queues->rails[0].targets[i];
	runtime_log(PATH, WARN, "%s: requests go by DC from now on, because the RC QP has failed", pe_text(world->hellos, queues->peers[i], text));
	return 0;
}

static int replace_failed(struct shmd_world *world)
{
	struct world_queues *queues = world->queues;
	int r = queues->spare ? reset_failed(queues->spare) : 0;

	/* Nothing is asked of a PE that has ended. */
	for (int i = 0; !r && i < queues->n_peers; i++)
		if (error_to(world->ctx, queues->peers[i]) && !is_gone(world, queues->peers[i]))
			r = replace(world, i);
	return r;
}

static int mend_own(struct shmd_world *world)
{
	int r = 0;

	pthread_mutex_lock(&world->tables);
	for (struct shmd_ctx *ctx = world->ctx; !r && ctx; ctx = ctx->next) {
		if (ctx->own)
			r = reset_failed(ctx->own);
		if (!r && ctx->amo_own)
			r = reset_failed(ctx->amo_own);
	}
	pthread_mutex_unlock(&world->tables);
	return r;
}

int world_queues_mend(struct shmd_world *world)
{
	WORLD_REQUESTS(world);
	struct world_queues *queues = world->queues;
	int r;

	if (!queues || !queues->qps)
		return 0;
	pthread_mutex_lock(&queues->lock);
	r = queues->is_dc ? reset_failed(queues->qps) : replace_failed(world);
	if (!r)
		r = world_hot_mend(world);
	pthread_mutex_unlock(&queues->lock);
	if (!r)
		r = mend_own(world);
	return r ? r : world_gpu_queues_mend(world);
}
