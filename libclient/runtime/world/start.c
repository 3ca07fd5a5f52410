/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start of a world: session, cards, paths, heap, teams. Each step is the same on all PEs and ends with what all know of it, so
 * that a failure on one PE undoes the start on all.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/runtime/settings/log.h"
#include "libclient/runtime/settings/nvtx.h"
#include "libclient/runtime/team/team.h"
#include "libclient/runtime/world/buffers.h"
#include "libclient/runtime/world/ctx.h"
#include "libclient/runtime/world/exchange.h"
#include "libclient/runtime/world/hot.h"
#include "libclient/runtime/world/queues.h"
#include "libclient/runtime/world/report.h"
#include "libclient/runtime/world/world-gpu.h"
#include "libclient/runtime/world/world-heap.h"
#include "libclient/runtime/world/world-start.h"
#include "libclient/runtime/world/world.h"
#include "proto/base/cleanup.h"

/* ---- cards */

static void fill_gpu_card(const struct runtime_settings *settings, struct world_card *card)
{
	if (!world_gpu_is_wanted(settings))
		return;
	card->gpu_chunk_bytes = settings->gpu_heap_chunk_bytes;
	card->gpu_heap_bytes = settings->gpu_heap_bytes ? settings->gpu_heap_bytes : settings->gpu_heap_chunk_bytes;
	card->gpu_range_bytes = settings->gpu_heap_reserve_bytes;
	/* As that of the host's heap. */
	if (card->gpu_range_bytes < card->gpu_heap_bytes + 2 * WORLD_GPU_INTERNAL_BYTES)
		card->gpu_range_bytes = card->gpu_heap_bytes + 2 * WORLD_GPU_INTERNAL_BYTES;
}

static int fill_card(struct shmd_world *world, struct world_card *card)
{
	int r;

	card->allow = world->allow;
	card->heap_bytes = world->settings.heap_bytes;
	card->range_bytes = world->settings.heap_reserve_bytes;
	card->chunk_bytes = world->settings.heap_chunk_bytes;
	card->zone_bytes = world_heap_zone_bytes(&world->settings);
	card->rc_peers = (uint32_t)world->settings.rc_peers;
	card->hot_start = (uint32_t)world->settings.hot_start;
	/* A range that is too small for the first chunk is a wish for a heap that does not grow. */
	if (card->range_bytes < card->heap_bytes + 2 * WORLD_INTERNAL_BYTES)
		card->range_bytes = card->heap_bytes + 2 * WORLD_INTERNAL_BYTES;
	fill_gpu_card(&world->settings, card);
	r = session_get(world->settings.socket, world->dev->timeout_nsec, &world->session);
	return r ? r : session_node(world->session, &card->node);
}

static int exchange_cards(struct shmd_world *world)
{
	struct world_card card = {0}, *cards = world->cards;
	int r = fill_card(world, &card);

	outcome_fill(&card.outcome, r);
	r = world->boot.ops->allgather(&world->boot, &card, cards, sizeof(card));
	if (r < 0)
		return card.outcome.error ? card.outcome.error : world_boot_error(world, r, world->call);
	r = world_fail(world, outcomes_judge(world->hellos, cards, sizeof(*cards), world->size, world->rank));
	if (!r)
		r = cards_check(cards, world->size);
	return r ? r : cards_check_gpu(cards, world->size);
}

/* ---- paths */

static void set_path(struct shmd_world *world, int pe, enum shmd_path path)
{
	uint32_t none = SHMD_PATH_NONE;

	/* A PE that ended meanwhile stays GONE. */
	__atomic_compare_exchange_n(&world->pes[pe].path[SHMD_DEV_HEAP_HOST], &none, (uint32_t)path, false, __ATOMIC_ACQ_REL,
				    __ATOMIC_ACQUIRE);
}

static int choose_path(struct shmd_world *world, int pe)
{
	const struct world_card *cards = world->cards;
	struct world_peer *peer = &world->peers[pe];
	enum shmd_path path = cards_path(&cards[world->rank], &cards[pe], pe == world->rank, peer->reason, sizeof(peer->reason));
	char text[PE_TEXT_BYTES];

	if (path == SHMD_PATH_NONE)
		return shmd_error_set(-EHOSTUNREACH, "no path leads to %s: %s", pe_text(world->hellos, pe, text), peer->reason);
	peer->is_mapped = path == SHMD_PATH_MAPPED;
	set_path(world, pe, path);
	world->pes[pe].node = (uint32_t)peer->node;
	world->pes[pe].node_pe = (uint32_t)peer->node_pe;
	return 0;
}

static int choose_paths(struct shmd_world *world)
{
	_cleanup_free_ int *nodes = calloc((size_t)world->size * 2, sizeof(*nodes));
	int *node_pes, r = 0;

	if (!nodes)
		return shmd_error_set(-ENOMEM, "no memory for %d PEs", world->size);
	node_pes = nodes + world->size;
	world->n_nodes = cards_number_nodes(world->cards, world->size, nodes, node_pes);
	for (int i = 0; i < world->size; i++) {
		world->peers[i].node = nodes[i];
		world->peers[i].node_pe = node_pes[i];
	}
	world->dev->my_node = (uint32_t)nodes[world->rank];
	for (int i = 0; !r && i < world->size; i++)
		r = choose_path(world, i);
	return r;
}

/* ---- the steps */

static int make_objects(struct shmd_world *world)
{
	int r = world_teams_make(world);

	if (!r)
		r = world_buffers_make(world);
	return r ? r : world_ctx_make(world);
}

static uint32_t n_needed(const struct shmd_world *world)
{
	uint32_t n = 0;

	for (int i = 0; i < world->size; i++)
		n += i != world->rank && (!world->peers[i].is_mapped || world->peers[i].is_gpu_apart);
	return n;
}

static int make_parts(struct shmd_world *world)
{
	WORLD_REQUESTS(world);
	int r = world_agree(world, choose_paths(world));

	if (!r)
		r = world_queues_open(world, n_needed(world));
	if (!r)
		r = world_heap_open(world, world->cards[0].heap_bytes, world->cards[0].range_bytes);
	if (!r && world->cards[0].gpu_heap_bytes)
		r = world_gpu_open(world, world->cards[0].gpu_heap_bytes, world->cards[0].gpu_range_bytes);
	if (!r)
		r = world_agree(world, make_objects(world));
	if (!r && world->gpu)
		r = world_agree(world, world_gpu_show(world));
	if (!r)
		r = world_hot_start(world);
	return r;
}

static int try(struct shmd_world *world)
{
	int r = exchange_cards(world);

	if (!r)
		r = make_parts(world);
	if (r)
		world_stop(world, true);
	return r;
}

static int start(struct shmd_world *world)
{
	int r;

	world->some_gpus_apart = false;
	for (int i = 0; i < world->size; i++)
		world->peers[i].is_gpu_apart = false;
	/* It ends: each time two GPUs more are apart. */
	do
		r = try(world);
	while (r == WORLD_BEGIN_AGAIN);
	if (r < 0)
		return r;
	__atomic_store_n(&world->is_started, 1, __ATOMIC_RELEASE);
	world_log_paths(world);
	world_report(world);
	runtime_log(WORLD, DEBUG, "the world has started: %d PEs on %d nodes", world->size, world->n_nodes);
	return 0;
}

int shmd_world_start(struct shmd_world *world)
{
	int r = world_check(world);

	if (r < 0)
		return r;
	pthread_mutex_lock(&world->lock);
	runtime_nvtx_push("shmd_world_start");
	world->call = "shmd_world_start";
	if (!world->is_started)
		r = start(world);
	runtime_nvtx_pop();
	pthread_mutex_unlock(&world->lock);
	return r;
}

static int choose_hot(struct shmd_world *world, const int *pes, int n)
{
	WORLD_REQUESTS(world);
	int r = world_hot_choose(world, pes, n);

	world_report(world);
	return r;
}

int shmd_world_hot_peers(struct shmd_world *world, const int *pes, int n)
{
	int r = shmd_world_start(world);

	if (r < 0)
		return r;
	pthread_mutex_lock(&world->lock);
	world->call = "shmd_world_hot_peers";
	r = choose_hot(world, pes, n);
	pthread_mutex_unlock(&world->lock);
	return r;
}

static void forget_path(uint32_t *at)
{
	uint32_t path = __atomic_load_n(at, __ATOMIC_ACQUIRE);

	if (path != SHMD_PATH_GONE)
		__atomic_compare_exchange_n(at, &path, SHMD_PATH_NONE, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static void forget_paths(struct shmd_world *world)
{
	for (int i = 0; i < world->size; i++) {
		for (unsigned int heap = 0; heap < SHMD_DEV_HEAPS; heap++)
			forget_path(&world->pes[i].path[heap]);
		world->peers[i].node = world->peers[i].node_pe = -1;
		world->peers[i].is_mapped = world->peers[i].is_hot = false;
		world->peers[i].reason[0] = world->peers[i].nic[0] = '\0';
	}
	world->n_nodes = 0;
}

void world_stop(struct shmd_world *world, bool is_ours)
{
	WORLD_REQUESTS(world);
	__atomic_store_n(&world->is_started, 0, __ATOMIC_RELEASE);
	if (is_ours)
		world_retract(world);
	world_ctx_drop(world);
	world_teams_drop(world);
	world_queues_close(world);
	world_buffers_drop(world, is_ours);
	world_gpu_close(world, is_ours);
	world_heap_close(world);
	forget_paths(world);
	/* In a child the session is the parent's: its copy stays, and a world of the child's begins another. */
	if (is_ours)
		session_put(world->session);
	world->session = NULL;
}
