/* SPDX-License-Identifier: Apache-2.0 */
/* Queries of a world: status, numbers, paths and their reasons. They take the heap's lock and wait for nothing else. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "libclient/runtime/world/process.h"
#include "libclient/runtime/world/world-heap.h"
#include "libclient/runtime/world/world.h"

static bool is_session_over(const struct shmd_world *world)
{
	struct shmd_health_page *page = shmd_client_health_page(session_client(world->session));
	uint32_t word = page ? __atomic_load_n(&page->session, __ATOMIC_ACQUIRE) : SHMD_HEALTH_OK;

	return word == SHMD_HEALTH_DAEMON_GONE || word == SHMD_HEALTH_SESSION_ENDED;
}

enum shmd_world_status shmd_world_status(const struct shmd_world *world)
{
	if (!world || !process_is(world->pid))
		return SHMD_WORLD_NONE;
	if (__atomic_load_n(&world->dev->n_gone, __ATOMIC_ACQUIRE) || __atomic_load_n(&world->dev->ended, __ATOMIC_ACQUIRE))
		return SHMD_WORLD_BROKEN;
	if (!__atomic_load_n(&world->is_started, __ATOMIC_ACQUIRE))
		return SHMD_WORLD_OPEN;
	return is_session_over(world) ? SHMD_WORLD_BROKEN : SHMD_WORLD_STARTED;
}

int shmd_my_pe(const struct shmd_world *world)
{
	return world ? world->rank : -1;
}

int shmd_n_pes(const struct shmd_world *world)
{
	return world ? world->size : -1;
}

static int n_on_node(const struct shmd_world *world, int node)
{
	int n = 0;

	for (int i = 0; i < world->size; i++)
		n += world->peers[i].node == node;
	return n;
}

int shmd_world_info(const struct shmd_world *world, struct shmd_world_info *ret_info)
{
	struct shmd_world_info info = {0};
	int r = world_check(world);

	if (!r && !ret_info)
		r = shmd_error_set(-EINVAL, "ret_info is NULL");
	if (r < 0)
		return r;
	info.pe = world->rank;
	info.n_pes = world->size;
	info.node_pe = world->boot.node_rank;
	info.n_node_pes = world->boot.node_size;
	info.node = info.n_nodes = -1;
	if (__atomic_load_n(&world->is_started, __ATOMIC_ACQUIRE)) {
		info.node = world->peers[world->rank].node;
		info.node_pe = world->peers[world->rank].node_pe;
		info.n_node_pes = n_on_node(world, info.node);
		info.n_nodes = world->n_nodes;
		world_heap_sizes(world, &info.heap_bytes, &info.heap_used_bytes, &info.heap_max_bytes);
	}
	info.n_gone = (int)__atomic_load_n(&world->dev->n_gone, __ATOMIC_ACQUIRE);
	snprintf(info.bootstrap, sizeof(info.bootstrap), "%s", world->boot.ops->name);
	*ret_info = info;
	return 0;
}

int shmd_pe_info(const struct shmd_world *world, int pe, struct shmd_pe_info *ret_info)
{
	struct shmd_pe_info info = {0};
	int r = world_check(world);

	if (!r && (!ret_info || pe < 0 || pe >= world->size))
		r = shmd_error_set(-EINVAL, "ret_info is NULL, or PE %d is not one of %d", pe, world->size);
	if (r < 0)
		return r;
	info.path = (enum shmd_path)__atomic_load_n(&world->pes[pe].path[SHMD_DEV_HEAP_HOST], __ATOMIC_ACQUIRE);
	info.node = info.node_pe = -1;
	info.pid = world->hellos[pe].pid;
	snprintf(info.host, sizeof(info.host), "%.63s", world->hellos[pe].host);
	if (__atomic_load_n(&world->is_started, __ATOMIC_ACQUIRE)) {
		info.node = world->peers[pe].node;
		info.node_pe = world->peers[pe].node_pe;
		snprintf(info.reason, sizeof(info.reason), "%.100s%s", world->peers[pe].reason,
			 __atomic_load_n(&world->peers[pe].is_hot, __ATOMIC_ACQUIRE) ? "; hot: by RC beside DC" : "");
		snprintf(info.nic, sizeof(info.nic), "%s", world->peers[pe].nic);
	} else {
		snprintf(info.reason, sizeof(info.reason), "the world has not started");
	}
	if (info.path == SHMD_PATH_GONE)
		snprintf(info.reason, sizeof(info.reason), "the PE has ended");
	*ret_info = info;
	return 0;
}
