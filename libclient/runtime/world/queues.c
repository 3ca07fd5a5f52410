/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of queues.h: NIC, QPs, addresses by the bootstrap, connecting, and an agreement before the first post, since a request to a QP
 * that is not connected is lost.
 */
#include <arpa/inet.h>
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

/* ---- the NIC */

static int open_nic(struct shmd_world *world)
{
	struct world_queues *queues = world->queues = calloc(1, sizeof(*queues));
	size_t n = (size_t)world->size;
	int r;

	if (!queues)
		return shmd_error_set(-ENOMEM, "no memory for queues");
	pthread_mutex_init(&queues->lock, NULL);
	queues->peers = calloc(n, sizeof(*queues->peers));
	queues->dct_addrs = calloc(n, sizeof(*queues->dct_addrs));
	queues->ways = calloc(n, sizeof(*queues->ways));
	queues->rkeys = calloc(n * WORLD_N_KEYS, sizeof(*queues->rkeys));
	if (!queues->peers || !queues->dct_addrs || !queues->ways || !queues->rkeys)
		return shmd_error_set(-ENOMEM, "no memory for the ways to %d PEs", world->size);
	r = session_nic(world->session, &queues->nic);
	return r ? r : shmd_nic_info(queues->nic, &queues->info);
}

/* The NIC in software uses the CPU's atomics; others have their own. */
static bool is_coherent(const struct world_queues *queues)
{
	return !strcmp(queues->info.backend, "soft");
}

static void choose_peers(struct shmd_world *world)
{
	struct world_queues *queues = world->queues;
	bool all = world->dev->flags & SHMD_WORLD_ATOMICS_BY_QUEUE;

	for (int i = 0; i < world->size; i++)
		if (all || (i != world->rank && !world->peers[i].is_mapped))
			queues->peers[queues->n_peers++] = i;
}

static int agree_on_nics(struct shmd_world *world)
{
	int r = open_nic(world);

	r = world_agree_on(world, r, !r && is_coherent(world->queues));
	if (r < 0)
		return r;
	for (int i = 0; i < world->size; i++)
		if (!world->outcomes[i].value)
			world->dev->flags |= SHMD_WORLD_ATOMICS_BY_QUEUE;
	choose_peers(world);
	return 0;
}

/* ---- QPs */

/* Contexts reach this PE by it, and so do PEs whose RC QP has failed; where the NIC has no such thing they share the QPs of the world. */
static int create_target(struct world_queues *queues)
{
	int r = shmd_dct_create(queues->nic, 0, &queues->dct);

	return r == -EOPNOTSUPP && !queues->is_dc ? 0 : r;
}

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
	r = shmd_queues_create(queues->nic, &attr, &queues->qps);
	if (!r)
		r = create_target(queues);
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
	int r = queues->dct ? shmd_dct_addr(queues->dct, &dct) : 0;

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
		queues->dct_addrs[i] = cards[queues->peers[i]].dct;
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
	int r = world_queues_resolve(queues);

	if (!r)
		r = shmd_queues_set_peers(queues->qps, (unsigned int)queues->n_peers, queues->targets);
	if (!r)
		r = shmd_queues_connect(queues->qps, 0, queues->n_qps, NULL, NULL, NULL);
	if (r < 0)
		return r;
	world_ways_fill(queues, queues->ways, queues->qp_addrs, queues->n_qps);
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

static void show(struct shmd_world *world)
{
	struct world_queues *queues = world->queues;

	world->dev->n_rails = 1;
	world->dev->lkeys_addr[0] = (uintptr_t)queues->lkeys;
	world->dev->rkeys_addr[0] = (uintptr_t)queues->rkeys;
	world->dev->health_addr = (uintptr_t)shmd_client_health_page(session_client(world->session));
	for (int i = 0; i < queues->n_peers; i++)
		snprintf(world->peers[queues->peers[i]].nic, sizeof(world->peers[0].nic), "%s", queues->info.name);
}

int world_queues_open(struct shmd_world *world, uint32_t n_needed)
{
	int r = world_agree_on(world, 0, n_needed);

	if (r < 0 || !most_peers(world))
		return r;
	r = agree_on_nics(world);
	if (!r)
		r = world_agree_on(world, 0, (uint32_t)world->queues->n_peers);
	if (r < 0)
		return r;
	world->queues->is_dc = most_peers(world) > world->settings.rc_peers;
	r = world_agree(world, create(world));
	if (!r)
		r = connect_all(world);
	if (r < 0)
		return r;
	show(world);
	runtime_log(RMA, INFO, "queues on %s for %d PEs by %s (SHMD_RC_PEERS is %llu), %llu entries each", world->queues->info.name,
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
	if (queues->dct)
		(void)shmd_dct_destroy(queues->dct);
	for (uint32_t i = 0; i < WORLD_N_KEYS; i++)
		world_queues_deregister(world, i);
	world->dev->n_rails = 0;
	world->dev->flags &= ~SHMD_WORLD_ATOMICS_BY_QUEUE;
	world->dev->lkeys_addr[0] = world->dev->rkeys_addr[0] = world->dev->health_addr = 0;
	pthread_mutex_destroy(&queues->lock);
	free(queues->peers);
	free(queues->dct_addrs);
	free(queues->targets);
	free(queues->ways);
	free(queues->qp_addrs);
	free(queues->rkeys);
	free(queues);
	world->queues = NULL;
}

/* ---- chunks */

int world_queues_register(struct shmd_world *world, uint32_t chunk, const struct shmd_mr_attr *attr, uint32_t *ret_rkey)
{
	struct world_queues *queues = world->queues;
	int r;

	*ret_rkey = 0;
	if (!queues)
		return 0;
	r = shmd_mr_reg(queues->nic, attr, &queues->mrs[chunk]);
	if (r < 0)
		return r;
	queues->lkeys[chunk] = shmd_mr_lkey_be(queues->mrs[chunk]);
	*ret_rkey = shmd_mr_rkey(queues->mrs[chunk]);
	return 0;
}

void world_queues_deregister(struct shmd_world *world, uint32_t chunk)
{
	struct world_queues *queues = world->queues;

	if (queues && queues->mrs[chunk] && !shmd_mr_dereg(queues->mrs[chunk]))
		queues->mrs[chunk] = NULL;
}

void world_queues_set_rkeys(struct shmd_world *world, uint32_t chunk)
{
	for (int i = 0; world->queues && i < world->size; i++)
		world->queues->rkeys[chunk * (uint32_t)world->size + (uint32_t)i] = (shmd_be32)htonl(world->outcomes[i].value);
}

int world_queues_reg_buffer(struct shmd_world *world, const struct shmd_mr_attr *attr, struct shmd_mr **ret_mr)
{
	return shmd_mr_reg(world->queues->nic, attr, ret_mr);
}

/* ---- contexts */

int world_queues_attach(struct shmd_world *world, struct shmd_ctx *ctx, bool has_own)
{
	struct world_queues *queues = world->queues;
	int r;

	if (!queues)
		return 0;
	r = shmd_mem_alloc(session_client(world->session), BOUNCE_BYTES, &ctx->bounce);
	if (!r)
		r = shmd_mr_reg_mem(queues->nic, ctx->bounce, SHMD_ACCESS_LOCAL_WRITE, &ctx->bounce_mr);
	if (r < 0)
		return r;
	ctx->dev.bounce_addr = ctx->dev.bounce_iova = (uintptr_t)shmd_mem_addr(ctx->bounce);
	ctx->dev.bounce_bytes = BOUNCE_BYTES;
	ctx->dev.bounce_lkey_be[0] = shmd_mr_lkey_be(ctx->bounce_mr);
	if (has_own && world_queues_can_have_own(world))
		return world_queues_make_own(world, ctx);
	ctx->dev.ways_addr = (uintptr_t)queues->ways;
	ctx->dev.qps_addr = (uintptr_t)queues->qp_addrs;
	ctx->dev.n_qps = queues->n_qps;
	ctx->dev.states_addr = (uintptr_t)&queues->hot_state_addr;
	ctx->dev.n_states = queues->hot ? 1 : 0;
	return 0;
}

void world_queues_detach(struct shmd_ctx *ctx)
{
	world_queues_drop_own(ctx);
	if (ctx->bounce_mr)
		(void)shmd_mr_dereg(ctx->bounce_mr);
	if (ctx->bounce)
		shmd_mem_free(ctx->bounce);
}
