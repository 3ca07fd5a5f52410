/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call in which PEs choose their hot peers, by four exchanges over the bootstrap. So nothing is under way on any queue between the first
 * of them and the end, and a QP can be destroyed at once: its other end learns of that before it posts again.
 *
 *	1. all	have completed their requests, and their arguments are right; else nothing changes
 *	2. each	passes to each peer whether it names that peer, and whether their QPs are connected. Each picks its own wishes, then PEs
 *		that named it, while there is room, and destroys the QPs of others
 *	3. each	passes the address of a QP to those that it picked. If both did, they connect
 *	4. each	passes to them whether that worked. If it did at both ends, both switch to RC
 *
 * A bootstrap that fails, for example since a PE has ended, fails for good. After step 1 other PEs may then be a step further, so this PE
 * takes all its peers back to DC and keeps connected QPs, which serve the requests of the other ends.
 */
#include <errno.h>
#include <stdlib.h>

#include <shmd/dev/pe.h>
#include <shmemclient-hot.h>

#include "libclient/runtime/settings/log.h"
#include "libclient/runtime/world/ctx.h"
#include "libclient/runtime/world/exchange.h"
#include "libclient/runtime/world/hot-set.h"
#include "libclient/runtime/world/hot.h"
#include "libclient/runtime/world/queues-private.h"
#include "libclient/runtime/world/queues.h"
#include "libclient/runtime/world/world.h"

/* A PE passes this to each other. */
struct hot_wish {
	uint8_t is_named, is_connected;
};

/* The memory of a call, by PE. */
struct hot_call {
	struct hot_wish *to, *from;
	struct shmd_addr *to_addrs, *from_addrs; /* bytes 0: not picked */
	uint8_t *to_results, *from_results; /* 1: connected */
	uint8_t *is_picked;
	unsigned int n_named;
};

static void call_free(struct hot_call *call)
{
	free(call->to);
	free(call->to_addrs);
	free(call->to_results);
	free(call->is_picked);
}

static int call_init(struct hot_call *call, size_t n)
{
	call->to = calloc(2 * n, sizeof(*call->to));
	call->to_addrs = calloc(2 * n, sizeof(*call->to_addrs));
	call->to_results = calloc(2 * n, 1);
	call->is_picked = calloc(n, 1);
	if (!call->to || !call->to_addrs || !call->to_results || !call->is_picked)
		return shmd_error_set(-ENOMEM, "no memory to choose hot ones of %zu PEs", n);
	call->from = call->to + n;
	call->from_addrs = call->to_addrs + n;
	call->from_results = call->to_results + n;
	return 0;
}

/* A failure of one pair is no failure of the call: the others wait for this PE, and by DC it is reached. */
static void note_failure(const struct shmd_world *world, int i, int r)
{
	char text[PE_TEXT_BYTES];

	if (r < 0)
		runtime_log(PATH, WARN, "%s stays on DC: %s", pe_text(world->hellos, world->queues->peers[i], text), shmd_error_text());
}

/* ---- what this PE wants ------------------------------------------------------------------------------------------------------ */

/* More than there is room for, the caller itself, and PEs that need no queue are passed over. */
static void name(const struct shmd_world *world, struct hot_call *call, int pe)
{
	if (call->n_named >= world->settings.hot_peers || pe == world->rank || !world->queues->ways[pe].state_addr || call->to[pe].is_named)
		return;
	call->to[pe].is_named = 1;
	call->n_named++;
}

static void name_nearest(const struct shmd_world *world, struct hot_call *call)
{
	for (int i = 1; i < world->size && call->n_named < world->settings.hot_start; i++) {
		/* 1, -1, 2, -2, ... */
		int distance = (i + 1) / 2;

		name(world, call, (world->rank + (i & 1 ? distance : world->size - distance)) % world->size);
	}
}

/* First the hot ones that stay so, then the busiest of the others. */
static int name_busiest(const struct shmd_world *world, struct hot_call *call)
{
	struct shmd_hot_change changes[2 * SHMD_HOT_MAX_PEERS];
	struct world_queues *queues = world->queues;
	unsigned int n = 0;
	int r = queues->hot ? shmd_hot_decide(queues->hot, changes, &n) : 0;

	if (r < 0)
		return r;
	for (unsigned int i = 0; i < n; i++)
		if (changes[i].action == SHMD_HOT_RETIRE)
			call->is_picked[queues->peers[changes[i].peer]] = 1;
	for (int i = 0; i < queues->n_peers; i++)
		if (world_hot_state_of(queues, i) == SHMD_HOT_RC && !call->is_picked[queues->peers[i]])
			name(world, call, queues->peers[i]);
	for (unsigned int i = 0; i < n; i++) {
		call->is_picked[queues->peers[changes[i].peer]] = 0;
		if (changes[i].action == SHMD_HOT_OFFER)
			name(world, call, queues->peers[changes[i].peer]);
	}
	return 0;
}

static int check_list(const struct shmd_world *world, const int *pes, int n)
{
	if (n < 0 || (n && !pes))
		return shmd_error_set(-EINVAL, "%d PEs, or pes is NULL", n);
	for (int i = 0; i < n; i++)
		if (pes[i] < 0 || pes[i] >= world->size)
			return shmd_error_set(-EINVAL, "PE %d is out of range: the world has %d PEs", pes[i], world->size);
	return 0;
}

/* ---- the steps --------------------------------------------------------------------------------------------------------------- */

static int alltoall(struct shmd_world *world, const void *to, void *from, size_t bytes)
{
	int r = world->boot.ops->alltoall(&world->boot, to, from, bytes);

	return r < 0 ? world_boot_error(world, r, world->call) : 0;
}

/* Step 1. `error`: of what the caller passed. */
static int settle(struct shmd_world *world, int error)
{
	struct world_outcome mine;
	int r = error ? error : ctx_status_error(world->ctx, shmd_dev_quiet(&world->ctx->dev), "completing requests before their way changes", -1);

	outcome_fill(&mine, r);
	error = world->boot.ops->allgather(&world->boot, &mine, world->outcomes, sizeof(mine));
	if (error < 0)
		return r ? shmd_error_set(r, "%s", mine.why) : world_boot_error(world, error, world->call);
	return world_fail(world, outcomes_judge(world->hellos, world->outcomes, sizeof(mine), world->size, world->rank));
}

static bool is_kept(const struct world_queues *queues, const struct hot_call *call, int i)
{
	return world_hot_state_of(queues, i) >= SHMD_HOT_CONNECTED && call->from[queues->peers[i]].is_connected;
}

/* PEs that named this one come from the next number on, so that not all take the lowest. */
static void pick(const struct shmd_world *world, struct hot_call *call)
{
	uint64_t left = world->settings.hot_peers - call->n_named;

	for (int i = 0; i < world->size; i++)
		call->is_picked[i] = call->to[i].is_named;
	for (int i = 1; i < world->size && left; i++) {
		int pe = (world->rank + i) % world->size;

		if (!call->from[pe].is_named || call->is_picked[pe] || !world->queues->ways[pe].state_addr)
			continue;
		call->is_picked[pe] = 1;
		left--;
	}
}

/* Step 2. */
static int choose(struct shmd_world *world, struct hot_call *call)
{
	struct world_queues *queues = world->queues;
	int r;

	for (int i = 0; i < queues->n_peers; i++)
		call->to[queues->peers[i]].is_connected = world_hot_state_of(queues, i) >= SHMD_HOT_CONNECTED;
	r = alltoall(world, call->to, call->from, sizeof(*call->to));
	if (r < 0)
		return r;
	pick(world, call);
	for (int i = 0; i < queues->n_peers; i++) {
		if (call->is_picked[queues->peers[i]] && is_kept(queues, call, i))
			continue;
		r = world_hot_drop(world, i);
		note_failure(world, i, r);
		if (r < 0)
			call->is_picked[queues->peers[i]] = 0;
	}
	return 0;
}

static void connect_one(struct shmd_world *world, struct hot_call *call, int i)
{
	int pe = world->queues->peers[i], r = 0;

	if (!is_kept(world->queues, call, i))
		r = shmd_hot_accept(world->queues->hot, (uint32_t)i, &call->from_addrs[pe], NULL);
	note_failure(world, i, r);
	call->to_results[pe] = r == 0;
}

/* Step 3. */
static int connect_picked(struct shmd_world *world, struct hot_call *call)
{
	struct world_queues *queues = world->queues;
	int r;

	for (int i = 0; i < queues->n_peers; i++)
		if (call->is_picked[queues->peers[i]])
			note_failure(world, i, shmd_hot_offer(queues->hot, (uint32_t)i, &call->to_addrs[queues->peers[i]]));
	r = alltoall(world, call->to_addrs, call->from_addrs, sizeof(*call->to_addrs));
	for (int i = 0; !r && i < queues->n_peers; i++)
		if (call->to_addrs[queues->peers[i]].bytes && call->from_addrs[queues->peers[i]].bytes)
			connect_one(world, call, i);
	return r;
}

/* Step 4. */
static int switch_pairs(struct shmd_world *world, struct hot_call *call)
{
	struct world_queues *queues = world->queues;
	int r = alltoall(world, call->to_results, call->from_results, 1), s;

	if (r < 0)
		return r;
	for (int i = 0; i < queues->n_peers; i++) {
		int pe = queues->peers[i];

		s = call->to_results[pe] && call->from_results[pe] ? world_hot_set_way(world, i, true) : world_hot_drop(world, i);
		r = r ? r : s;
	}
	return r;
}

static void all_by_dc(struct shmd_world *world)
{
	for (int i = 0; i < world->queues->n_peers; i++)
		if (world_hot_state_of(world->queues, i) == SHMD_HOT_RC)
			(void)world_hot_set_way(world, i, false);
}

static int take_steps(struct shmd_world *world, struct hot_call *call)
{
	int r = choose(world, call);

	if (!r)
		r = connect_picked(world, call);
	if (!r)
		r = switch_pairs(world, call);
	if (r < 0)
		all_by_dc(world);
	return r;
}

int world_hot_start(struct shmd_world *world)
{
	struct hot_call call = {0};
	uint32_t most = 0;
	int r;

	for (int i = 0; i < world->size; i++)
		most = world->cards[i].hot_start > most ? world->cards[i].hot_start : most;
	if (!most || !world_queues_are_dc(world))
		return 0;
	r = call_init(&call, (size_t)world->size);
	if (!r)
		name_nearest(world, &call);
	r = settle(world, r);
	if (!r)
		r = take_steps(world, &call);
	call_free(&call);
	return r;
}

int world_hot_choose(struct shmd_world *world, const int *pes, int n)
{
	struct hot_call call = {0};
	int r = pes || n ? check_list(world, pes, n) : 0;

	if (!world_queues_are_dc(world))
		return r;
	if (!r)
		r = call_init(&call, (size_t)world->size);
	for (int i = 0; !r && i < n; i++)
		name(world, &call, pes[i]);
	if (!r && !pes)
		r = name_busiest(world, &call);
	r = settle(world, r);
	if (!r)
		r = take_steps(world, &call);
	call_free(&call);
	return r;
}
