/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include <shmd/dev/rma.h>
#include <shmemclient-hot.h>

#include "libclient/runtime/settings/log.h"
#include "libclient/runtime/world/hot-set.h"
#include "libclient/runtime/world/queues-private.h"
#include "libclient/runtime/world/world.h"

enum shmd_sharing world_hot_sharing(const struct shmd_world *world)
{
	return world->settings.hot_peers && world->settings.dcis > 1 ? SHMD_SHARING_GPU : world_queues_sharing(world);
}

int world_hot_open(struct shmd_world *world)
{
	struct world_queues *queues = world->queues;
	struct shmd_hot_attr attr = {.max_peers = (unsigned int)world->settings.hot_peers};
	int r;

	if (!attr.max_peers || !queues->qps)
		return 0;
	r = shmd_hot_open(queues->qps, &attr, &queues->hot);
	if (r < 0)
		return r;
	queues->hot_state_addr = (uintptr_t)shmd_queues_dev_state(queues->qps);
	for (int i = 0; i < queues->n_peers; i++) {
		queues->ways[queues->peers[i]].state_addr = queues->hot_state_addr;
		queues->ways[queues->peers[i]].peer_index = (uint32_t)i;
	}
	return 0;
}

void world_hot_close(struct world_queues *queues)
{
	if (queues->hot)
		(void)shmd_hot_close(queues->hot);
	queues->hot = NULL;
}

int world_hot_state_of(const struct world_queues *queues, int i)
{
	return queues->hot ? shmd_hot_state(queues->hot, (uint32_t)i) : SHMD_HOT_DC;
}

int world_hot_set_way(struct shmd_world *world, int i, bool is_hot)
{
	struct world_queues *queues = world->queues;
	int r = shmd_hot_switch(queues->hot, (uint32_t)i, is_hot);

	if (!r)
		__atomic_store_n(&world->peers[queues->peers[i]].is_hot, is_hot, __ATOMIC_RELEASE);
	return r;
}

int world_hot_drop(struct shmd_world *world, int i)
{
	int state = world_hot_state_of(world->queues, i), r = state == SHMD_HOT_RC ? world_hot_set_way(world, i, false) : 0;

	return r || state == SHMD_HOT_DC ? r : shmd_hot_retire(world->queues->hot, (uint32_t)i);
}

static bool has_failed(const struct world_queues *queues, int i)
{
	const struct shmd_dev_state *state = (const void *)(uintptr_t)queues->hot_state_addr;

	return shmd_dev_qp_error(shmd_dev_way_to(state, NULL, (uint32_t)i).qp, NULL) != 0;
}

int world_hot_mend(struct shmd_world *world)
{
	struct world_queues *queues = world->queues;
	char text[PE_TEXT_BYTES];
	int r = 0;

	for (int i = 0; !r && i < queues->n_peers; i++) {
		if (world_hot_state_of(queues, i) != SHMD_HOT_RC || !has_failed(queues, i))
			continue;
		r = world_hot_drop(world, i);
		runtime_log(PATH, WARN, "%s: requests go by DC from now on, because the RC QP has failed",
			    pe_text(world->hellos, queues->peers[i], text));
	}
	return r;
}
