/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of queues.h: NIC, QPs, addresses by the bootstrap, connecting, and an agreement before the first post, since a request to a QP
 * that is not connected is lost.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <shmd/dev/rma.h>

#include "libclient/runtime/settings/log.h"
#include "libclient/runtime/world/ctx.h"
#include "libclient/runtime/world/exchange.h"
#include "libclient/runtime/world/hot-set.h"
#include "libclient/runtime/world/queues-private.h"
#include "libclient/runtime/world/queues.h"
#include "libclient/runtime/world/world.h"
#include "proto/base/cleanup.h"

#define BOUNCE_BYTES 65536u

/* The addresses of a PE's queues. */
struct way_card {
	struct shmd_addr qp;
	struct shmd_addr dct; /* bytes 0: it has none */
};

/* ---- the NICs */

static int open_nics(struct shmd_world *world)
{
	struct world_queues *queues = world->queues = calloc(1, sizeof(*queues));
	size_t n = (size_t)world->size;

	if (!queues)
		return shmd_error_set(-ENOMEM, "no memory for queues");
	pthread_mutex_init(&queues->lock, NULL);
	queues->peers = calloc(n, sizeof(*queues->peers));
	queues->n_rails_of = calloc(n, sizeof(*queues->n_rails_of));
	queues->ways = calloc(n, sizeof(*queues->ways));
	if (!queues->peers || !queues->n_rails_of || !queues->ways)
		return shmd_error_set(-ENOMEM, "no memory for the ways to %d PEs", world->size);
	return world_rails_open(world);
}

/* The NIC in software uses the CPU's atomics; others have their own. */
static bool is_coherent(const struct world_queues *queues)
{
	for (uint32_t i = 0; i < queues->n_rails; i++)
		if (strcmp(queues->rails[i].info.backend, "soft") != 0)
			return false;
	return true;
}

static void choose_peers(struct shmd_world *world)
{
	struct world_queues *queues = world->queues;
	/* The host reaches GPU memory by queues alone, also its own; and kernels send all atomics by them. */
	bool all = (world->dev->flags & SHMD_WORLD_ATOMICS_BY_QUEUE) || world->cards[0].gpu_heap_bytes;

	for (int i = 0; i < world->size; i++)
		if (all || (i != world->rank && !world->peers[i].is_mapped))
			queues->peers[queues->n_peers++] = i;
}

#define IS_COHERENT 0x100u /* beside the number of rails */

static int note_nics(struct shmd_world *world)
{
	struct world_queues *queues = world->queues;

	for (int i = 0; i < world->size; i++) {
		uint32_t value = world->outcomes[i].value, n_rails = value & ~IS_COHERENT;

		if (!n_rails || n_rails > SHMD_DEV_RAILS)
			return shmd_error_set(-EPROTO, "PE %d passed that it has %u NICs", i, n_rails);
		if (!(value & IS_COHERENT))
			world->dev->flags |= SHMD_WORLD_ATOMICS_BY_QUEUE;
		queues->n_rails_of[i] = (uint8_t)n_rails;
		queues->most_rails = n_rails > queues->most_rails ? n_rails : queues->most_rails;
	}
	return 0;
}

static int agree_on_nics(struct shmd_world *world)
{
	int r = open_nics(world);

	r = world_agree_on(world, r, r ? 0 : world->queues->n_rails | (is_coherent(world->queues) ? IS_COHERENT : 0));
	if (!r)
		r = note_nics(world);
	if (r < 0)
		return r;
	choose_peers(world);
	return world_agree_on(world, world_rails_prepare(world), (uint32_t)world->queues->n_peers);
}

/* ---- QPs */

static int create(struct shmd_world *world)
{
	struct world_queues *queues = world->queues;
	struct shmd_queues_attr attr = {
		.n_qps = queues->is_dc ? (unsigned int)world->settings.dcis : (unsigned int)queues->n_peers,
		.sq_wqebbs = (uint32_t)world->settings.queue_depth,
		.sharing = queues->is_dc ? world_hot_sharing(world) : world_queues_sharing(world),
		.qp_type = queues->is_dc ? SHMD_QP_TYPE_DCI : SHMD_QP_TYPE_RC,
	};
	int r;

	/* A PE that maps all others has no way to any; as a target by DC it is one nevertheless. */
	if (!attr.n_qps)
		return 0;
	r = shmd_queues_create(queues->rails[0].nic, &attr, &queues->qps);
	/* Contexts reach this PE by targets, and so do PEs whose RC QP has failed; a NIC that has none of them shares the QPs of the world. */
	if (!r)
		r = world_rails_make_targets(world);
	if (r < 0)
		return r;
	queues->n_qps = attr.n_qps;
	queues->qp_addrs = calloc(attr.n_qps, sizeof(*queues->qp_addrs));
	if (!queues->qp_addrs)
		return shmd_error_set(-ENOMEM, "no memory for the addresses of %u QPs", attr.n_qps);
	for (unsigned int i = 0; i < attr.n_qps; i++)
		queues->qp_addrs[i] = (uintptr_t)shmd_queues_dev_qp(queues->qps, i);
	return 0;
}

/* One for each PE, in its place. */
static int fill_cards(const struct shmd_world *world, struct way_card *cards)
{
	struct world_queues *queues = world->queues;
	struct shmd_addr dct = {0};
	int r = queues->rails[0].dct ? shmd_dct_addr(queues->rails[0].dct, &dct) : 0;

	for (int i = 0; i < world->size; i++)
		cards[i].dct = dct;
	for (int i = 0; !r && !queues->is_dc && i < queues->n_peers; i++)
		r = shmd_queues_addr(queues->qps, (unsigned int)i, &cards[queues->peers[i]].qp);
	return r;
}

static int exchange_cards(struct shmd_world *world, struct way_card *mine, struct way_card *theirs)
{
	/* The addresses travel in any case: the others wait for them. A card by DC is the same for all. */
	int r = fill_cards(world, mine), s;

	if (world->queues->is_dc)
		s = world->boot.ops->allgather(&world->boot, &mine[0], theirs, sizeof(*mine));
	else
		s = world->boot.ops->alltoall(&world->boot, mine, theirs, sizeof(*mine));
	return r ? r : s;
}

/* Addresses of the PEs that have a way, in their order. */
static void pack(struct world_queues *queues, const struct way_card *cards, struct shmd_addr *qp_addrs)
{
	for (int i = 0; i < queues->n_peers; i++) {
		qp_addrs[i] = cards[queues->peers[i]].qp;
		queues->rails[0].dct_addrs[i] = cards[queues->peers[i]].dct;
	}
}

static int connect_rc(struct shmd_world *world, const struct shmd_addr *addrs)
{
	struct world_queues *queues = world->queues;
	int r = queues->n_peers ? shmd_queues_connect(queues->qps, 0, (unsigned int)queues->n_peers, addrs, NULL, NULL) : 0;

	for (int i = 0; !r && i < queues->n_peers; i++)
		queues->ways[queues->peers[i]].qp_addr = queues->qp_addrs[i];
	return r;
}

static int connect_dc(struct shmd_world *world)
{
	struct world_queues *queues = world->queues;
	int r = world_queues_resolve(&queues->rails[0], queues->n_peers);

	if (!r)
		r = shmd_queues_set_peers(queues->qps, (unsigned int)queues->n_peers, queues->rails[0].targets);
	if (!r)
		r = shmd_queues_connect(queues->qps, 0, queues->n_qps, NULL, NULL, NULL);
	if (r < 0)
		return r;
	world_ways_fill(queues, 0, queues->ways, queues->qp_addrs, queues->n_qps);
	return world_hot_open(world);
}

static int exchange_and_connect(struct shmd_world *world, struct way_card *mine, struct way_card *theirs)
{
	struct world_queues *queues = world->queues;
	_cleanup_free_ struct shmd_addr *addrs = calloc((size_t)world->size, sizeof(*addrs));
	int r;

	/* The others must not wait for the addresses of a PE that has none. */
	r = world_agree(world, mine && theirs && addrs ? 0 : shmd_error_set(-ENOMEM, "no memory for the addresses of %d PEs", world->size));
	if (!r)
		r = exchange_cards(world, mine, theirs);
	if (r < 0)
		return r;
	pack(queues, theirs, addrs);
	return queues->is_dc ? connect_dc(world) : connect_rc(world, addrs);
}

static int connect_all(struct shmd_world *world)
{
	_cleanup_free_ struct way_card *mine = calloc((size_t)world->size, sizeof(*mine));
	_cleanup_free_ struct way_card *theirs = calloc((size_t)world->size, sizeof(*theirs));

	return world_agree(world, exchange_and_connect(world, mine, theirs));
}

static uint32_t most_peers(const struct shmd_world *world)
{
	uint32_t most = 0;

	for (int i = 0; i < world->size; i++)
		most = world->outcomes[i].value > most ? world->outcomes[i].value : most;
	return most;
}

int world_queues_open(struct shmd_world *world, uint32_t n_needed)
{
	int r = world_agree_on(world, 0, n_needed);

	if (r < 0 || !most_peers(world))
		return r;
	r = agree_on_nics(world);
	if (r < 0)
		return r;
	world->queues->is_dc = most_peers(world) > world->settings.rc_peers;
	r = world_agree(world, create(world));
	if (!r)
		r = connect_all(world);
	if (!r)
		r = world_rails_exchange(world);
	if (r < 0)
		return r;
	world_rails_show(world);
	world->dev->health_addr = (uintptr_t)shmd_client_health_page(session_client(world->session));
	runtime_log(RMA, INFO, "queues on %s for %d PEs by %s (SHMD_RC_PEERS is %llu), %llu entries each", world->queues->rails[0].info.name,
		    world->queues->n_peers, world->queues->is_dc ? "DC" : "RC", (unsigned long long)world->settings.rc_peers,
		    (unsigned long long)world->settings.queue_depth);
	return 0;
}

bool world_queues_are_dc(const struct shmd_world *world)
{
	return world->queues && world->queues->is_dc;
}

bool world_queues_reach_by_dc(const struct shmd_world *world, int pe)
{
	return world->queues && world->queues->ways[pe].peer_addr;
}

void world_queues_close(struct shmd_world *world)
{
	struct world_queues *queues = world->queues;

	if (!queues)
		return;
	world_hot_close(queues);
	if (queues->qps)
		(void)shmd_queues_destroy(queues->qps);
	if (queues->spare)
		(void)shmd_queues_destroy(queues->spare);
	world_rails_close(world);
	world->dev->flags &= ~(SHMD_WORLD_ATOMICS_BY_QUEUE | SHMD_WORLD_FENCE_WAITS);
	world->dev->health_addr = 0;
	pthread_mutex_destroy(&queues->lock);
	free(queues->peers);
	free(queues->n_rails_of);
	free(queues->ways);
	free(queues->qp_addrs);
	free(queues);
	world->queues = NULL;
}

/* ---- contexts */

static void share_queues(struct world_queues *queues, struct shmd_ctx *ctx)
{
	ctx->dev.ways_addr = (uintptr_t)queues->ways;
	ctx->dev.qps_addr = (uintptr_t)queues->qp_addrs;
	ctx->dev.n_qps = queues->n_qps;
	ctx->dev.states_addr = (uintptr_t)&queues->hot_state_addr;
	ctx->dev.n_states = queues->hot ? 1 : 0;
}

static int attach_bounce(struct shmd_world *world, struct shmd_ctx *ctx)
{
	int r = shmd_mr_reg_mem(world->queues->rails[ctx->rail].nic, ctx->bounce, SHMD_ACCESS_LOCAL_WRITE, &ctx->bounce_mr);

	if (!r)
		ctx->dev.bounce_lkey_be[ctx->rail] = shmd_mr_lkey_be(ctx->bounce_mr);
	return r;
}

static int attach_to_rail(struct shmd_world *world, struct shmd_ctx *ctx, bool has_own)
{
	int r = attach_bounce(world, ctx);

	if (r < 0)
		return r;
	if (has_own && world_queues_can_have_own(world, ctx->rail))
		return world_queues_make_own(world, ctx);
	share_queues(world->queues, ctx);
	return 0;
}

static void detach_from_rail(struct shmd_ctx *ctx)
{
	world_queues_drop_own(ctx);
	if (ctx->bounce_mr)
		(void)shmd_mr_dereg(ctx->bounce_mr);
	ctx->bounce_mr = NULL;
}

/* Rail 0 leads to all PEs; another may not, for example since its NIC has gone down. */
static int fall_back(struct shmd_world *world, struct shmd_ctx *ctx)
{
	runtime_log(PATH, WARN, "a context goes by %s, because %s does not serve it: %s", world->queues->rails[0].info.name,
		    world->queues->rails[ctx->rail].info.name, shmd_error_text());
	detach_from_rail(ctx);
	world_rails_move(world, &ctx->rail);
	return attach_to_rail(world, ctx, true);
}

int world_queues_attach(struct shmd_world *world, struct shmd_ctx *ctx, bool has_own)
{
	int r;

	if (!world->queues)
		return 0;
	r = shmd_mem_alloc(session_client(world->session), BOUNCE_BYTES, &ctx->bounce);
	if (r < 0)
		return r;
	ctx->dev.bounce_addr = ctx->dev.bounce_iova = (uintptr_t)shmd_mem_addr(ctx->bounce);
	ctx->dev.bounce_bytes = BOUNCE_BYTES;
	ctx->rail = world_rails_take(world, has_own);
	r = attach_to_rail(world, ctx, has_own);
	return r < 0 && ctx->rail ? fall_back(world, ctx) : r;
}

void world_queues_detach(struct shmd_ctx *ctx)
{
	/* Without this memory it did not come to a rail. */
	if (!ctx->bounce)
		return;
	detach_from_rail(ctx);
	world_rails_leave(ctx->world, ctx->rail);
	shmd_mem_free(ctx->bounce);
}
