/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NICs of a PE in a world: opening them, keys of chunks on each, addresses by which contexts reach peers, and the NIC of a context.
 * rail-rule.h says which one carries what.
 *
 * A PE that cannot open as many as it wants goes on with those that it has. PEs may have different numbers of them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/runtime/settings/log.h"
#include "libclient/runtime/world/exchange.h"
#include "libclient/runtime/world/queues-private.h"
#include "libclient/runtime/world/queues.h"
#include "libclient/runtime/world/rail-rule.h"
#include "libclient/runtime/world/world.h"
#include "proto/base/cleanup.h"

#define NIC_ACTIVE 2u /* struct shmd_nic_info.state */
#define MAX_NICS 64u /* of a session */

/* A PE passes this to all others. */
struct rail_card {
	struct world_outcome outcome;
	struct shmd_addr dcts[SHMD_DEV_RAILS]; /* bytes 0: none */
};

/* ---- opening */

static uint32_t count_active(const struct shmd_world *world)
{
	_cleanup_free_ struct shmd_nic_info *infos = calloc(MAX_NICS, sizeof(*infos));
	int n = infos ? shmd_nic_list(session_client(world->session), infos, MAX_NICS) : 0;
	uint32_t n_active = 0;

	for (int i = 0; i < n && i < (int)MAX_NICS; i++)
		n_active += infos[i].state == NIC_ACTIVE;
	return n_active;
}

static uint32_t count_wanted(const struct shmd_world *world)
{
	uint32_t n_node_pes = 0;

	if (world->settings.nics_per_pe)
		return rail_count(world->settings.nics_per_pe, 0, 0);
	for (int i = 0; i < world->size; i++)
		n_node_pes += world->peers[i].node == world->peers[world->rank].node;
	return rail_count(0, count_active(world), n_node_pes);
}

int world_rails_open(struct shmd_world *world)
{
	struct world_queues *queues = world->queues;
	uint32_t n = count_wanted(world);
	struct shmd_nic *nics[SHMD_DEV_RAILS];
	int r = session_nics(world->session, n, nics, &queues->n_rails);

	if (r < 0)
		return r;
	if (queues->n_rails < n)
		runtime_log(PATH, WARN, "this PE has %u NICs, and not %u (SHMD_NICS_PER_PE): %s", queues->n_rails, n, shmd_error_text());
	for (uint32_t i = 0; !r && i < queues->n_rails; i++) {
		queues->rails[i].nic = nics[i];
		r = shmd_nic_info(nics[i], &queues->rails[i].info);
	}
	return r;
}

int world_rails_prepare(struct shmd_world *world)
{
	struct world_queues *queues = world->queues;
	size_t n = (size_t)world->size;

	for (uint32_t i = 0; i < queues->n_rails; i++) {
		queues->rails[i].dct_addrs = calloc(n, sizeof(*queues->rails[i].dct_addrs));
		if (!queues->rails[i].dct_addrs)
			return shmd_error_set(-ENOMEM, "no memory for the addresses of %d PEs", world->size);
	}
	for (uint32_t i = 0; i < queues->most_rails; i++) {
		queues->rkeys[i] = calloc(n * WORLD_N_KEYS, sizeof(*queues->rkeys[i]));
		if (!queues->rkeys[i])
			return shmd_error_set(-ENOMEM, "no memory for the keys of %d PEs", world->size);
	}
	return 0;
}

int world_rails_make_targets(struct shmd_world *world)
{
	struct world_queues *queues = world->queues;
	int r = 0;

	for (uint32_t i = 0; !r && i < queues->n_rails; i++) {
		r = shmd_dct_create(queues->rails[i].nic, 0, &queues->rails[i].dct);
		if (r == -EOPNOTSUPP && (i || !queues->is_dc))
			r = 0;
	}
	return r;
}

/* ---- addresses */

static int fill_card(const struct world_queues *queues, struct rail_card *card)
{
	int r = 0;

	for (uint32_t i = 0; !r && i < queues->n_rails; i++)
		if (queues->rails[i].dct)
			r = shmd_dct_addr(queues->rails[i].dct, &card->dcts[i]);
	return r;
}

static void take_cards(struct world_queues *queues, const struct rail_card *cards)
{
	for (uint32_t rail = 1; rail < queues->n_rails; rail++)
		for (int i = 0; i < queues->n_peers; i++) {
			int pe = queues->peers[i];

			queues->rails[rail].dct_addrs[i] = cards[pe].dcts[rail_at_peer(rail, queues->n_rails_of[pe])];
		}
}

int world_rails_exchange(struct shmd_world *world)
{
	_cleanup_free_ struct rail_card *cards = NULL;
	struct rail_card mine = {0};
	int r;

	if (world->queues->most_rails < 2)
		return 0;
	cards = calloc((size_t)world->size, sizeof(*cards));
	r = world_agree(world, cards ? 0 : shmd_error_set(-ENOMEM, "no memory for the addresses of %d PEs", world->size));
	if (r < 0)
		return r;
	outcome_fill(&mine.outcome, fill_card(world->queues, &mine));
	r = world_exchange(world, &mine, cards, sizeof(mine));
	if (!r)
		r = world_fail(world, outcomes_judge(world->hellos, cards, sizeof(mine), world->size, world->rank));
	if (!r)
		take_cards(world->queues, cards);
	return r;
}

/* "soft0,soft1", as far as there is room for whole names. */
static void write_names(const struct shmd_world *world, char *text, size_t bytes)
{
	const struct world_queues *queues = world->queues;
	size_t used = (size_t)snprintf(text, bytes, "%s", queues->rails[0].info.name);

	for (uint32_t i = 1; i < queues->n_rails; i++) {
		const char *name = queues->rails[i].info.name;

		if (!world_queues_can_have_own(world, i) || used + strlen(name) + 1 >= bytes)
			continue;
		used += (size_t)snprintf(text + used, bytes - used, ",%s", name);
	}
}

void world_rails_show(struct shmd_world *world)
{
	struct world_queues *queues = world->queues;

	world->dev->n_rails = queues->n_rails;
	for (uint32_t i = 0; i < queues->n_rails; i++)
		world->dev->lkeys_addr[i] = (uintptr_t)queues->rails[i].lkeys;
	for (uint32_t i = 0; i < queues->most_rails; i++)
		world->dev->rkeys_addr[i] = (uintptr_t)queues->rkeys[i];
	for (int i = 0; i < queues->n_peers; i++)
		write_names(world, world->peers[queues->peers[i]].nic, sizeof(world->peers[0].nic));
}

void world_rails_close(struct shmd_world *world)
{
	struct world_queues *queues = world->queues;

	for (uint32_t i = 0; i < queues->n_rails; i++)
		if (queues->rails[i].dct)
			(void)shmd_dct_destroy(queues->rails[i].dct);
	for (uint32_t i = 0; i < WORLD_N_KEYS; i++)
		world_queues_deregister(world, i);
	world->dev->n_rails = 0;
	for (uint32_t i = 0; i < SHMD_DEV_RAILS; i++) {
		world->dev->lkeys_addr[i] = world->dev->rkeys_addr[i] = 0;
		free(queues->rails[i].dct_addrs);
		free(queues->rails[i].targets);
		free(queues->rkeys[i]);
	}
}

/* ---- memory */

int world_queues_register(struct shmd_world *world, uint32_t chunk, const struct shmd_mr_attr *attr)
{
	struct world_queues *queues = world->queues;
	int r = 0;

	for (uint32_t i = 0; queues && !r && i < queues->n_rails; i++) {
		struct world_rail *rail = &queues->rails[i];

		r = shmd_mr_reg(rail->nic, attr, &rail->mrs[chunk]);
		if (!r)
			rail->lkeys[chunk] = shmd_mr_lkey_be(rail->mrs[chunk]);
	}
	return r;
}

int world_queues_register_gpu(struct shmd_world *world, uint32_t chunk, struct shmd_gpu *gpu, const struct shmd_gpu_mr_attr *attr)
{
	struct world_queues *queues = world->queues;
	int r = 0;

	for (uint32_t i = 0; queues && !r && i < queues->n_rails; i++) {
		struct world_rail *rail = &queues->rails[i];

		r = shmd_gpu_mr_reg(gpu, rail->nic, attr, &rail->mrs[chunk]);
		if (!r)
			rail->lkeys[chunk] = shmd_mr_lkey_be(rail->mrs[chunk]);
	}
	return r;
}

enum shmd_mem_kind world_queues_mem_kind(const struct shmd_world *world, uint32_t chunk)
{
	struct shmd_mr_info info = {0};

	(void)shmd_mr_info(world->queues->rails[0].mrs[chunk], &info);
	return info.kind;
}

void world_queues_deregister(struct shmd_world *world, uint32_t chunk)
{
	struct world_queues *queues = world->queues;

	for (uint32_t i = 0; queues && i < queues->n_rails; i++) {
		struct world_rail *rail = &queues->rails[i];

		if (rail->mrs[chunk] && !shmd_mr_dereg(rail->mrs[chunk]))
			rail->mrs[chunk] = NULL;
	}
}

static uint32_t own_rkey(const struct world_queues *queues, uint32_t rail, uint32_t chunk)
{
	const struct shmd_mr *mr = queues && rail < queues->n_rails ? queues->rails[rail].mrs[chunk] : NULL;

	return mr ? shmd_mr_rkey(mr) : 0;
}

int world_queues_share_keys(struct shmd_world *world, uint32_t chunk, int error)
{
	struct world_queues *queues = world->queues;
	uint32_t n = queues ? queues->most_rails : 1, n_pes = (uint32_t)world->size;
	int r = 0;

	for (uint32_t rail = 0; !r && rail < n; rail++) {
		r = world_agree_on(world, error, own_rkey(queues, rail, chunk));
		for (uint32_t i = 0; queues && !r && i < n_pes; i++)
			queues->rkeys[rail][chunk * n_pes + i] = (shmd_be32)htonl(world->outcomes[i].value);
	}
	return r;
}

int world_queues_reg_buffer(struct shmd_world *world, const struct shmd_mr_attr *attr, struct shmd_mr *mrs[SHMD_DEV_RAILS])
{
	struct world_queues *queues = world->queues;
	int r = 0;

	for (uint32_t i = 0; !r && i < queues->n_rails; i++)
		r = shmd_mr_reg(queues->rails[i].nic, attr, &mrs[i]);
	if (r < 0)
		world_queues_dereg_buffer(mrs);
	return r;
}

void world_queues_dereg_buffer(struct shmd_mr *mrs[SHMD_DEV_RAILS])
{
	for (uint32_t i = 0; i < SHMD_DEV_RAILS; i++) {
		/* A session that has ended has ended the registration too. */
		if (mrs[i])
			(void)shmd_mr_dereg(mrs[i]);
		mrs[i] = NULL;
	}
}

/* ---- contexts */

static uint32_t choose(const struct shmd_world *world)
{
	const struct world_queues *queues = world->queues;
	uint32_t n_contexts[SHMD_DEV_RAILS];
	bool is_usable[SHMD_DEV_RAILS];

	for (uint32_t i = 0; i < queues->n_rails; i++) {
		n_contexts[i] = __atomic_load_n(&queues->rails[i].n_contexts, __ATOMIC_RELAXED);
		is_usable[i] = world_queues_can_have_own(world, i) && shmd_nic_health(queues->rails[i].nic) == SHMD_HEALTH_OK;
	}
	return rail_of_new_ctx(n_contexts, is_usable, queues->n_rails);
}

uint32_t world_rails_take(struct shmd_world *world, bool has_own)
{
	struct world_queues *queues = world->queues;
	uint32_t rail;

	pthread_mutex_lock(&queues->lock);
	rail = has_own ? choose(world) : 0;
	__atomic_fetch_add(&queues->rails[rail].n_contexts, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&queues->lock);
	return rail;
}

/* Without the lock: another thread may have held it when this process was forked. */
void world_rails_leave(struct shmd_world *world, uint32_t rail)
{
	__atomic_fetch_sub(&world->queues->rails[rail].n_contexts, 1, __ATOMIC_RELAXED);
}

void world_rails_move(struct shmd_world *world, uint32_t *rail)
{
	world_rails_leave(world, *rail);
	*rail = world_rails_take(world, false);
}
