/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "libclient/runtime/settings/log.h"
#include "libclient/runtime/world/exchange.h"
#include "libclient/runtime/world/gpu-apart.h"
#include "libclient/runtime/world/world-gpu.h"
#include "libclient/runtime/world/world.h"
#include "proto/base/cleanup.h"

bool world_gpu_set_apart(struct shmd_world *world, int pe)
{
	char text[PE_TEXT_BYTES];

	if (!(world->cards[world->rank].allow & world->cards[pe].allow & SHMD_ALLOW_QUEUE))
		return false;
	runtime_log(WORLD, WARN, "GPU memory of %s by queues: %s", pe_text(world->hellos, pe, text), shmd_error_text());
	world->peers[pe].is_gpu_apart = true;
	world->gpu->n_refused++;
	return true;
}

static bool any_refused(const struct shmd_world *world)
{
	bool any = false;

	for (int pe = 0; pe < world->size; pe++)
		any |= world->outcomes[pe].value != 0;
	return any;
}

static bool has_bit(const uint8_t *bits, int i)
{
	return bits[i / 8] >> (i % 8) & 1;
}

/* A bit for each PE that is apart from this one; and what the others found of this one. */
static int exchange(struct shmd_world *world, uint8_t *mine, uint8_t *all, size_t bytes)
{
	int r;

	for (int pe = 0; pe < world->size; pe++)
		if (world->peers[pe].is_gpu_apart)
			mine[pe / 8] |= (uint8_t)(1u << (pe % 8));
	r = world_exchange(world, mine, all, bytes);
	for (int pe = 0; !r && pe < world->size; pe++)
		world->peers[pe].is_gpu_apart |= has_bit(all + (size_t)pe * bytes, world->rank);
	return r;
}

int world_gpu_agree_on_apart(struct shmd_world *world, int error)
{
	/* bounded: a world has at most TEAM_MAX_PES PEs */
	size_t bytes = ((size_t)world->size + 63) / 64 * 8;
	_cleanup_free_ uint8_t *mine = calloc(1, bytes), *all = calloc((size_t)world->size, bytes);
	int r = error;

	if (!r && (!mine || !all))
		r = shmd_error_set(-ENOMEM, "no memory for %d PEs", world->size);
	r = world_agree_on(world, r, world->gpu->n_refused);
	if (r < 0 || !any_refused(world))
		return r;
	world->some_gpus_apart = true;
	r = exchange(world, mine, all, bytes);
	return r ? r : WORLD_BEGIN_AGAIN;
}
