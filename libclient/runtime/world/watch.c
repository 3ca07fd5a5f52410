/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PEs that end. The bootstrap reports them on a thread of its own; from then on their path is GONE, and waits and collective calls end.
 *
 * The order of the stores matters to device functions: first_gone and the path, then n_gone, which they look at.
 */
#include <stdio.h>

#include "libclient/runtime/settings/log.h"
#include "libclient/runtime/world/mend.h"
#include "libclient/runtime/world/world-gpu.h"
#include "libclient/runtime/world/world.h"

static void mark_gone(struct shmd_world *world, int pe)
{
	struct shmd_dev_world *dev = world->dev;
	uint32_t n_gone = __atomic_load_n(&dev->n_gone, __ATOMIC_RELAXED);

	if (!n_gone)
		__atomic_store_n(&dev->first_gone, (uint32_t)pe, __ATOMIC_RELAXED);
	for (unsigned int heap = 0; heap < SHMD_DEV_HEAPS; heap++)
		__atomic_store_n(&world->pes[pe].path[heap], SHMD_PATH_GONE, __ATOMIC_RELEASE);
	__atomic_store_n(&dev->n_gone, n_gone + 1, __ATOMIC_RELEASE);
}

static void gone(void *arg, int rank, const char *why)
{
	struct shmd_world *world = arg;
	char text[PE_TEXT_BYTES], sentence[2 * PE_TEXT_BYTES];

	if (rank < 0 || rank >= world->size || rank == world->rank)
		return;
	mark_gone(world, rank);
	world_gpu_show_gone(world);
	/* Not by default: a log that nobody reads would hold up the news of other PEs. */
	runtime_log(WORLD, INFO, "%s has ended: %s", pe_text(world->hellos, rank, text), why);
	if (world->settings.abort_on_error) {
		snprintf(sentence, sizeof(sentence), "%s has ended: %s", pe_text(world->hellos, rank, text), why);
		world_end_job(world, sentence);
	}
}

int world_watch(struct shmd_world *world)
{
	/* A plug-in may not be able to notice: then its PEs end by time limits alone. */
	if (!world->boot.ops->watch || world->size == 1)
		return 0;
	return world->boot.ops->watch(&world->boot, gone, world);
}

int shmd_world_forgive(struct shmd_world *world)
{
	int r = world_check(world);

	if (r < 0)
		return r;
	__atomic_store_n(&world->dev->n_gone_known, __atomic_load_n(&world->dev->n_gone, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
	world_gpu_show_gone(world);
	return __atomic_load_n(&world->is_started, __ATOMIC_ACQUIRE) ? world_fail(world, world_queues_mend(world)) : 0;
}
