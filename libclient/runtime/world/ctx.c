/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts. On mapped memory nothing of a context is left to wait for, so there it is a number, a team and a time limit; where the world has
 * queues it also has ways by them, its own or the world's, and memory for data that is not registered.
 *
 * The list of a world's contexts is under its lock of tables; all else of a context is constant.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <shmd/dev/pe.h>

#include "libclient/runtime/team/team.h"
#include "libclient/runtime/world/ctx.h"
#include "libclient/runtime/world/exchange.h"
#include "libclient/runtime/world/queues.h"
#include "libclient/runtime/world/world-gpu.h"
#include "libclient/runtime/world/world.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

_Static_assert(SHMD_CTX_PRIVATE == 1 && SHMD_CTX_SERIALIZED == 2, "the flags that check_attr() knows");

static void ctx_free(struct shmd_ctx *ctx)
{
	WORLD_REQUESTS(ctx->world);
	world_gpu_queues_drop(ctx);
	world_gpu_hide(ctx->world, &ctx->gpu_addr);
	world_queues_detach(ctx);
	free(ctx);
}

static int ctx_new(struct shmd_team *team, const struct shmd_ctx_attr *attr, uint32_t id, struct shmd_ctx **ret_ctx)
{
	struct shmd_world *world = team->world;
	WORLD_REQUESTS(world);
	struct shmd_ctx *ctx = NULL;
	void *memory;
	int r;

	if (posix_memalign(&memory, 64, sizeof(*ctx)))
		return shmd_error_set(-ENOMEM, "no memory for a context");
	ctx = memset(memory, 0, sizeof(*ctx));
	ctx->world = world;
	ctx->team = team;
	ctx->dev.world_addr = (uintptr_t)world->dev;
	ctx->dev.team_addr = team == world->builtin[WORLD_TEAM_ALL] ? 0 : (uintptr_t)&team->dev;
	ctx->dev.timeout_nsec = attr->timeout_nsec ? attr->timeout_nsec : world->dev->timeout_nsec;
	ctx->dev.sharing = attr->flags & (SHMD_CTX_PRIVATE | SHMD_CTX_SERIALIZED) ? SHMD_SHARING_EXCLUSIVE : SHMD_SHARING_GPU;
	ctx->dev.id = id;
	r = world_queues_attach(world, ctx, id != 0);
	if (r < 0) {
		ctx_free(ctx);
		return r;
	}
	*ret_ctx = ctx;
	return 0;
}

static void link_ctx(struct shmd_world *world, struct shmd_ctx *ctx)
{
	struct shmd_ctx *first = world->ctx;

	/* Behind the default context. */
	if (!first) {
		world->ctx = ctx;
		return;
	}
	ctx->prev = first;
	ctx->next = first->next;
	if (first->next)
		first->next->prev = ctx;
	first->next = ctx;
}

int world_ctx_make(struct shmd_world *world)
{
	static const struct shmd_ctx_attr defaults;

	return ctx_new(world->builtin[WORLD_TEAM_ALL], &defaults, 0, &world->ctx);
}

static uint64_t until(uint64_t deadline)
{
	uint64_t now = nsec_now();

	return deadline > now ? deadline - now : 0;
}

static int settle_one(struct shmd_ctx *ctx, bool with_private, uint64_t nsec)
{
	struct shmd_dev_mode mode = shmd_dev_ctx_mode(&ctx->dev, SHMD_DEV_THREAD);

	/* A private context may be in use by the thread that has it. */
	if (!with_private && ctx->dev.sharing == SHMD_SHARING_EXCLUSIVE)
		return SHMD_DEV_OK;
	if (!with_private || nsec < mode.timeout_nsec)
		mode.timeout_nsec = nsec;
	return shmd_dev_quiet_as(&ctx->dev, mode);
}

/* One time limit for all: whoever makes or ends a context or team waits for the lock meanwhile. */
static int settle(struct shmd_world *world, bool with_private)
{
	uint64_t limit = world->dev->timeout_nsec, deadline = nsec_add(nsec_now(), limit);
	int failure = SHMD_DEV_OK;

	pthread_mutex_lock(&world->tables);
	for (struct shmd_ctx *ctx = world->ctx; ctx; ctx = ctx->next) {
		int status = settle_one(ctx, with_private, limit == SHMD_DEV_NO_TIMEOUT ? limit : until(deadline));

		if (status == SHMD_DEV_TIMEOUT || failure == SHMD_DEV_OK)
			failure = status;
	}
	pthread_mutex_unlock(&world->tables);
	return failure;
}

int world_ctx_settle(struct shmd_world *world)
{
	return settle(world, true);
}

int world_ctx_settle_shared(struct shmd_world *world)
{
	return settle(world, false);
}

void world_ctx_drop(struct shmd_world *world)
{
	while (world->ctx) {
		struct shmd_ctx *next = world->ctx->next;

		ctx_free(world->ctx);
		world->ctx = next;
	}
}

int shmd_ctx_create(struct shmd_team *team, const struct shmd_ctx_attr *attr, struct shmd_ctx **ret_ctx)
{
	static const struct shmd_ctx_attr defaults;
	static uint32_t n_made;
	int r = team_check(team);

	if (r < 0)
		return r;
	attr = attr ? attr : &defaults;
	if (!ret_ctx || (attr->flags & ~(SHMD_CTX_PRIVATE | SHMD_CTX_SERIALIZED)))
		return shmd_error_set(-EINVAL, "ret_ctx is NULL, or flags has unknown bits: 0x%x", attr->flags);
	r = ctx_new(team, attr, __atomic_add_fetch(&n_made, 1, __ATOMIC_RELAXED), ret_ctx);
	if (r < 0)
		return world_fail(team->world, r);
	pthread_mutex_lock(&team->world->tables);
	link_ctx(team->world, *ret_ctx);
	pthread_mutex_unlock(&team->world->tables);
	return 0;
}

static void unlink_ctx(struct shmd_ctx *ctx)
{
	if (ctx->prev)
		ctx->prev->next = ctx->next;
	if (ctx->next)
		ctx->next->prev = ctx->prev;
}

int shmd_ctx_destroy(struct shmd_ctx *ctx)
{
	int r;

	if (!ctx)
		return 0;
	r = world_check(ctx->world);
	if (r < 0)
		return r;
	if (ctx == ctx->world->ctx)
		return shmd_error_set(-EINVAL, "the default context ends with its world");
	r = ctx_status_error(ctx, shmd_dev_quiet(&ctx->dev), "completing the operations of a context", -1);
	pthread_mutex_lock(&ctx->world->tables);
	unlink_ctx(ctx);
	pthread_mutex_unlock(&ctx->world->tables);
	ctx_free(ctx);
	return r;
}

struct shmd_ctx *shmd_world_ctx(struct shmd_world *world)
{
	return world ? world->ctx : NULL;
}

struct shmd_dev_ctx *shmd_ctx_dev(struct shmd_ctx *ctx)
{
	return ctx ? &ctx->dev : NULL;
}

struct shmd_dev_world *shmd_world_dev(struct shmd_world *world)
{
	return world ? world->dev : NULL;
}
