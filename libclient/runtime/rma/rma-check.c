/* SPDX-License-Identifier: Apache-2.0 */
/* The process that a context belongs to, and statuses of device functions in words. Any thread. */
#include <errno.h>

#include "libclient/runtime/rma/rma-check.h"
#include "libclient/runtime/team/team.h"
#include "libclient/runtime/world/exchange.h"
#include "libclient/runtime/world/heaps.h"

int rma_check_slow(const struct shmd_ctx *ctx)
{
	if (!ctx)
		return shmd_error_set(-EINVAL, "ctx is NULL: the context of a world is there when shmd_world_start() has made it");
	return world_check(ctx->world);
}

int rma_check_words_slow(const struct shmd_ctx *ctx, const void *words)
{
	uint64_t addr = (uintptr_t)words;

	return world_is_on_gpu(ctx->world, addr, addr + 1) ? shmd_error_set(-EINVAL, "%p is in the GPU heap, which kernels use", words) : 0;
}

/* An argument, in words: the device function does not say which it was. */
static int fail_argument(const struct shmd_ctx *ctx, const char *what, int pe)
{
	int n = ctx->team ? (int)ctx->team->dev.n_pes : ctx->world->size;

	if (pe != RMA_NO_PE && (pe < 0 || pe >= n))
		return shmd_error_set(-EINVAL, "%s: PE %d is out of range; the context's team has %d PEs", what, pe, n);
	return shmd_error_set(-EINVAL, "%s: memory outside the symmetric heap, a word that is not aligned, or an unknown size or operation",
			      what);
}

int rma_fail(const struct shmd_ctx *ctx, int status, const char *what, int pe)
{
	if (status == SHMD_DEV_INVALID)
		return fail_argument(ctx, what, pe);
	if (pe >= 0 && ctx->team)
		pe = shmd_dev_team_translate(&ctx->team->dev, (uint32_t)pe, NULL);
	return ctx_status_error(ctx, status, what, pe);
}
