/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An exchange through the heap has two slots of each PE, used in turn: whoever writes a slot again has passed the sync of the exchange
 * between, so all PEs have read what it held. One sync for each exchange is enough.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <shmd/dev/pe.h>

#include "libclient/runtime/settings/log.h"
#include "libclient/runtime/team/team.h"
#include "libclient/runtime/world/ctx.h"
#include "libclient/runtime/world/exchange.h"
#include "libclient/runtime/world/mend.h"
#include "libclient/runtime/world/world-heap.h"
#include "libclient/runtime/world/world.h"
#include "proto/base/cleanup.h"

/* Nobody has ended whom the program has not forgiven. */
static int error_of_forgiven(const struct shmd_world *world, const char *what)
{
	return shmd_error_set(-EHOSTDOWN, __atomic_load_n(&world->dev->ended, __ATOMIC_ACQUIRE) ? "%s: the world was aborted" :
			      "%s: a PE had ended when this or an earlier call failed, and was forgiven", what);
}

static int error_of(const struct shmd_ctx *ctx, int status, const char *what, int pe)
{
	const struct shmd_world *world = ctx->world;
	char text[PE_TEXT_BYTES] = "the world";

	if (pe >= 0)
		pe_text(world->hellos, pe, text);
	switch (status) {
	case SHMD_DEV_OK:
		return 0;
	case SHMD_DEV_AGAIN:
		return -EAGAIN;
	case SHMD_DEV_TIMEOUT:
		return shmd_error_set(-ETIMEDOUT, "%s, %s: not within the time limit (SHMD_TIMEOUT)", what, text);
	case SHMD_DEV_PE_GONE:
		if (pe >= 0)
			return shmd_error_set(-EHOSTDOWN, "%s: %s has ended", what, text);
		return world_blame(world, error_of_forgiven(world, what));
	case SHMD_DEV_HEALTH:
		return shmd_error_set(-ECONNRESET, "%s, %s: the session with shmemd has ended, or the NIC is down", what, text);
	case SHMD_DEV_NO_PATH:
		return shmd_error_set(-ENOTCONN, "%s: no path leads to %s", what, text);
	case SHMD_DEV_CQE_ERROR:
		return world_queue_error(ctx, what, pe);
	case SHMD_DEV_UNSUPPORTED:
		return shmd_error_set(-EOPNOTSUPP, "%s, %s: the NIC has no such operation", what, text);
	default:
		return shmd_error_set(-EINVAL, "%s: an argument is out of range", what);
	}
}

int ctx_status_error(const struct shmd_ctx *ctx, int status, const char *what, int pe)
{
	bool is_own_limit = status == SHMD_DEV_TIMEOUT && ctx->dev.timeout_nsec != ctx->world->dev->timeout_nsec;
	int r = error_of(ctx, status, what, pe);

	if (r < 0 && r != -EAGAIN)
		runtime_log(RMA, DEBUG, "%s", shmd_error_text());
	/* A program that gives a context a limit of its own expects it to pass. */
	return is_own_limit ? r : world_fail(ctx->world, r);
}

int world_status_error(const struct shmd_world *world, int status, const char *what, int pe)
{
	return ctx_status_error(world->ctx, status, what, pe);
}

static uint64_t slot_offset(uint64_t number)
{
	return WORLD_EXCHANGE_OFFSET + (number & 1) * WORLD_EXCHANGE_BYTES;
}

int world_exchange_write(struct shmd_world *world, const void *mine, size_t bytes)
{
	struct world_heap *heap = world->heap;
	int r = team_finish_sync(world->builtin[WORLD_TEAM_ALL], world->call);

	if (r < 0)
		return r;
	memcpy(world_heap_at(&world->pes[world->rank], slot_offset(heap->n_exchanges)), mine, bytes);
	r = team_sync(world->builtin[WORLD_TEAM_ALL], world->call);
	if (r < 0)
		heap->lost = r;
	else
		heap->n_exchanges++;
	return r;
}

int world_exchange_read(struct shmd_world *world, int pe, void *buffer, size_t bytes, const void **ret_at)
{
	uint64_t offset = slot_offset(world->heap->n_exchanges - 1);
	const uint8_t *own = world_heap_at(&world->pes[world->rank], offset), *mapped = world_heap_at(&world->pes[pe], offset);

	int r;

	*ret_at = mapped ? mapped : buffer;
	if (mapped)
		return 0;
	r = world_status_error(world, shmd_dev_get(&world->ctx->dev, buffer, own, bytes, (uint32_t)pe), world->call, pe);
	if (r < 0)
		world->heap->lost = r;
	return r;
}

static int exchange(struct shmd_world *world, const void *mine, void *all, size_t bytes)
{
	int r = world_exchange_write(world, mine, bytes);
	const void *at;

	for (int i = 0; !r && i < world->size; i++) {
		uint8_t *to = (uint8_t *)all + (size_t)i * bytes;

		r = world_exchange_read(world, i, to, bytes, &at);
		if (!r && at != to)
			memcpy(to, at, bytes);
	}
	return r;
}

int world_exchange(struct shmd_world *world, const void *mine, void *all, size_t bytes)
{
	int r;

	if (__atomic_load_n(&world->is_started, __ATOMIC_ACQUIRE))
		return exchange(world, mine, all, bytes);
	r = world->boot.ops->allgather(&world->boot, mine, all, bytes);
	return r < 0 ? world_boot_error(world, r, world->call) : 0;
}

int world_agree_on(struct shmd_world *world, int error, uint32_t value)
{
	struct world_outcome mine;
	int r;

	outcome_fill(&mine, error);
	mine.value = value;
	r = world_exchange(world, &mine, world->outcomes, sizeof(mine));
	if (r < 0)
		return error ? shmd_error_set(error, "%s", mine.why) : r;
	return world_fail(world, outcomes_judge(world->hellos, world->outcomes, sizeof(mine), world->size, world->rank));
}

int world_agree(struct shmd_world *world, int error)
{
	return world_agree_on(world, error, 0);
}

int world_agree_on_range(struct shmd_world *world, int error, uint64_t bytes, uint64_t *ret_bytes)
{
	struct range_card {
		struct world_outcome outcome;
		uint64_t bytes;
	} mine = {0};
	_cleanup_free_ struct range_card *all = calloc((size_t)world->size, sizeof(*all));
	int r;

	if (!all)
		return shmd_error_set(-ENOMEM, "no memory for the ranges of %d PEs", world->size);
	outcome_fill(&mine.outcome, error);
	mine.bytes = bytes;
	r = world_exchange(world, &mine, all, sizeof(mine));
	if (!r)
		r = world_fail(world, outcomes_judge(world->hellos, all, sizeof(mine), world->size, world->rank));
	if (r < 0)
		return error ? error : r;
	*ret_bytes = bytes;
	for (int i = 0; i < world->size; i++)
		if (all[i].bytes < *ret_bytes)
			*ret_bytes = all[i].bytes;
	return 0;
}
