/* SPDX-License-Identifier: Apache-2.0 */
/* Checks before a collective, and the errno and sentence of its status. */
#ifndef SHMD_COLL_CHECK_H
#define SHMD_COLL_CHECK_H

#include <shmd.h>
#include <shmd/dev/coll.h>

#include "libclient/runtime/team/team.h"
#include "libclient/runtime/world/ctx.h"
#include "libclient/runtime/world/process.h"
#include "libclient/runtime/world/world.h"

#define COLL_ON_GPU 1 /* both sides are in the GPU heap: coll-gpu.h */

int coll_check_slow(const struct shmd_team *team, const void *dest, const void *source, size_t n) __attribute__((cold, noinline));

/* 0, COLL_ON_GPU, -EINVAL or -ECHILD. n 0: addresses do not matter, as the device function says. */
static inline int coll_check(const struct shmd_team *team, const void *dest, const void *source, size_t n)
{
	if (__builtin_expect(team && process_is(team->world->pid) && !team->world->gpu, 1))
		return 0;
	return coll_check_slow(team, dest, source, n);
}

static inline struct shmd_dev_ctx *coll_ctx(const struct shmd_team *team)
{
	return &team->world->ctx->dev;
}

#define COLL_NO_ROOT (-1)

/* A status that is not SHMD_DEV_OK. root: the member whose data all others wait for. */
int coll_fail(struct shmd_team *team, int status, const char *what, int root) __attribute__((cold, noinline));

static inline int coll_result(struct shmd_team *team, int status, const char *what)
{
	return __builtin_expect(status == SHMD_DEV_OK, 1) ? 0 : coll_fail(team, status, what, COLL_NO_ROOT);
}

#endif
