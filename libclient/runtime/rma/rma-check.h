/* SPDX-License-Identifier: Apache-2.0 */
/* Checks before the device function of a one-sided operation, and the errno and sentence of its status. */
#ifndef SHMD_RMA_CHECK_H
#define SHMD_RMA_CHECK_H

#include <limits.h>
#include <stdint.h>

#include <shmd.h>
#include <shmd/dev/pe.h>

#include "libclient/runtime/world/ctx.h"
#include "libclient/runtime/world/process.h"
#include "libclient/runtime/world/world.h"

/* -EINVAL, -ECHILD. */
int rma_check_slow(const struct shmd_ctx *ctx) __attribute__((cold, noinline));

static inline int rma_check(const struct shmd_ctx *ctx)
{
	if (__builtin_expect(ctx && process_is(ctx->world->pid), 1))
		return 0;
	return rma_check_slow(ctx);
}

int rma_check_words_slow(const struct shmd_ctx *ctx, const void *words) __attribute__((cold, noinline));

/* And -EINVAL: words that a CPU does not read. */
static inline int rma_check_words(const struct shmd_ctx *ctx, const void *words)
{
	int r = rma_check(ctx);

	return r || !ctx->world->gpu ? r : rma_check_words_slow(ctx, words);
}

static inline int rma_check_wait(const struct shmd_ctx *ctx, const struct shmd_wait *wait)
{
	int r = rma_check(ctx);

	return r ? r : rma_check_words(ctx, wait->words);
}

#define RMA_NO_PE INT_MIN /* not -1, which programs pass for a PE that is not in a team */

/* A status that is not SHMD_DEV_OK as an errno, with a sentence. pe: of the context, or RMA_NO_PE. */
int rma_fail(const struct shmd_ctx *ctx, int status, const char *what, int pe) __attribute__((cold, noinline));

static inline int rma_result(const struct shmd_ctx *ctx, int status, const char *what, int pe)
{
	return __builtin_expect(status == SHMD_DEV_OK, 1) ? 0 : rma_fail(ctx, status, what, pe);
}

#endif
