/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts and their sessions (sections 9.5 and 9.9).
 *
 * The library keeps a list of the contexts that live, because a team and finalize destroy those that the program has left.
 */
#include <pthread.h>
#include <stdlib.h>

#include "libclient/compat/openshmem/openshmem.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct osh_ctx *contexts;

static void enter(struct osh_ctx *ctx)
{
	pthread_mutex_lock(&lock);
	ctx->next = contexts;
	if (contexts)
		contexts->prev = ctx;
	contexts = ctx;
	pthread_mutex_unlock(&lock);
}

static void leave(struct osh_ctx *ctx)
{
	pthread_mutex_lock(&lock);
	if (ctx->next)
		ctx->next->prev = ctx->prev;
	if (ctx->prev)
		ctx->prev->next = ctx->next;
	else
		contexts = ctx->next;
	pthread_mutex_unlock(&lock);
}

/* NOSTORE allows a cheaper quiet; here stores cost nothing more. */
static int create(struct osh_team *team, long options, shmem_ctx_t *ret_ctx)
{
	struct shmd_ctx_attr attr = {.flags = (options & SHMEM_CTX_PRIVATE ? SHMD_CTX_PRIVATE : 0) |
					      (options & SHMEM_CTX_SERIALIZED ? SHMD_CTX_SERIALIZED : 0)};
	struct osh_ctx *ctx;
	int r;

	*ret_ctx = SHMEM_CTX_INVALID;
	if (!osh.world)
		osh_fail("shmem_ctx_create", -1);
	if (!team)
		return 1;
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return 1;
	r = shmd_ctx_create(team->team, &attr, &ctx->ctx);
	if (r) {
		free(ctx);
		return 1;
	}
	ctx->team = team;
	enter(ctx);
	*ret_ctx = (shmem_ctx_t)ctx;
	return 0;
}

int pshmem_ctx_create(long options, shmem_ctx_t *ctx)
{
	return create(&osh.world_team, options, ctx);
}
OSH_WEAK(shmem_ctx_create, pshmem_ctx_create)

int pshmem_team_create_ctx(shmem_team_t team, long options, shmem_ctx_t *ctx)
{
	return create(osh_team_of(team), options, ctx);
}
OSH_WEAK(shmem_team_create_ctx, pshmem_team_create_ctx)

static void destroy(struct osh_ctx *ctx)
{
	int r;

	leave(ctx);
	r = shmd_ctx_destroy(ctx->ctx);
	free(ctx);
	osh_check("shmem_ctx_destroy", r);
}

void pshmem_ctx_destroy(shmem_ctx_t ctx)
{
	if (ctx != SHMEM_CTX_INVALID && ctx != SHMEM_CTX_DEFAULT)
		destroy((struct osh_ctx *)ctx);
}
OSH_WEAK(shmem_ctx_destroy, pshmem_ctx_destroy)

static struct osh_ctx *first_of(const struct osh_team *team)
{
	struct osh_ctx *ctx;

	pthread_mutex_lock(&lock);
	for (ctx = contexts; ctx && team && ctx->team != team; ctx = ctx->next)
		;
	pthread_mutex_unlock(&lock);
	return ctx;
}

void osh_contexts_of_team_drop(const struct osh_team *team)
{
	for (struct osh_ctx *ctx = first_of(team); ctx; ctx = first_of(team))
		destroy(ctx);
}

void osh_contexts_drop(void)
{
	osh_contexts_of_team_drop(NULL);
}

int pshmem_ctx_get_team(shmem_ctx_t ctx, shmem_team_t *team)
{
	*team = SHMEM_TEAM_INVALID;
	if (ctx == SHMEM_CTX_INVALID)
		return 1;
	*team = ctx == SHMEM_CTX_DEFAULT ? SHMEM_TEAM_WORLD : osh_handle_of(((struct osh_ctx *)ctx)->team);
	return 0;
}
OSH_WEAK(shmem_ctx_get_team, pshmem_ctx_get_team)

/* ---- sessions: hints, which change nothing here: an operation on mapped memory is complete at once, and one on a queue is announced at once */

void pshmem_ctx_session_start(shmem_ctx_t ctx, long options, const shmem_ctx_session_config_t *config, long config_mask)
{
	(void)ctx, (void)options, (void)config, (void)config_mask;
}
OSH_WEAK(shmem_ctx_session_start, pshmem_ctx_session_start)

void pshmem_ctx_session_stop(shmem_ctx_t ctx)
{
	(void)ctx;
}
OSH_WEAK(shmem_ctx_session_stop, pshmem_ctx_session_stop)
