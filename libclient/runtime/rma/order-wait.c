/* SPDX-License-Identifier: Apache-2.0 */
/* Order, waits and locks on the host: the device functions on a context, with an errno and a sentence. Any thread. */
#include <shmd.h>
#include <shmd/dev/pe.h>

#include "libclient/runtime/rma/rma-check.h"

_Static_assert(SHMD_CMP_EQ == (int)SHMD_DEV_CMP_EQ && SHMD_CMP_NE == (int)SHMD_DEV_CMP_NE && SHMD_CMP_GT == (int)SHMD_DEV_CMP_GT &&
		       SHMD_CMP_GE == (int)SHMD_DEV_CMP_GE && SHMD_CMP_LT == (int)SHMD_DEV_CMP_LT &&
		       SHMD_CMP_LE == (int)SHMD_DEV_CMP_LE && SHMD_CMP_SIGNED == SHMD_DEV_CMP_SIGNED,
	       "the same numbers");
_Static_assert(SIZE_MAX == SHMD_DEV_NO_INDEX, "indexes are those of device functions");

int shmd_fence(struct shmd_ctx *ctx)
{
	int r = rma_check(ctx);

	return r ? r : rma_result(ctx, shmd_dev_fence(&ctx->dev), "fence", RMA_NO_PE);
}

int shmd_fence_pe(struct shmd_ctx *ctx, int pe)
{
	int r = rma_check(ctx);

	return r ? r : rma_result(ctx, shmd_dev_fence_pe(&ctx->dev, (uint32_t)pe), "fence", pe);
}

int shmd_quiet(struct shmd_ctx *ctx)
{
	int r = rma_check(ctx);

	return r ? r : rma_result(ctx, shmd_dev_quiet(&ctx->dev), "quiet", RMA_NO_PE);
}

int shmd_quiet_pe(struct shmd_ctx *ctx, int pe)
{
	int r = rma_check(ctx);

	return r ? r : rma_result(ctx, shmd_dev_quiet_pe(&ctx->dev, (uint32_t)pe), "quiet", pe);
}

/* ---- waits */

static struct shmd_dev_wait dev_wait(const struct shmd_wait *wait)
{
	return (struct shmd_dev_wait){.words = wait->words,
				      .n = wait->n,
				      .bytes = wait->bytes,
				      .cmp = wait->cmp,
				      .status = wait->status,
				      .value = wait->value,
				      .values = wait->values};
}

int shmd_wait_until(struct shmd_ctx *ctx, const void *word, uint32_t bytes, uint32_t cmp, uint64_t value)
{
	int r = rma_check_words(ctx, word);

	return r ? r : rma_result(ctx, shmd_dev_wait_until(&ctx->dev, word, bytes, cmp, value), "wait", RMA_NO_PE);
}

int shmd_wait_until_all(struct shmd_ctx *ctx, const struct shmd_wait *wait)
{
	struct shmd_dev_wait dev;
	int r = rma_check_wait(ctx, wait);

	if (r)
		return r;
	dev = dev_wait(wait);
	return rma_result(ctx, shmd_dev_wait_until_all(&ctx->dev, &dev), "wait", RMA_NO_PE);
}

int shmd_wait_until_any(struct shmd_ctx *ctx, const struct shmd_wait *wait, size_t *ret_index)
{
	struct shmd_dev_wait dev;
	int r = rma_check_wait(ctx, wait);

	if (r)
		return r;
	dev = dev_wait(wait);
	return rma_result(ctx, shmd_dev_wait_until_any(&ctx->dev, &dev, ret_index), "wait", RMA_NO_PE);
}

int shmd_wait_until_some(struct shmd_ctx *ctx, const struct shmd_wait *wait, size_t *ret_indexes, size_t *ret_n)
{
	struct shmd_dev_wait dev;
	int r = rma_check_wait(ctx, wait);

	if (r)
		return r;
	dev = dev_wait(wait);
	return rma_result(ctx, shmd_dev_wait_until_some(&ctx->dev, &dev, ret_indexes, ret_n), "wait", RMA_NO_PE);
}

/* 1, 0 or a negative errno. */
static int look(const struct shmd_ctx *ctx, int status, const char *what)
{
	if (status == SHMD_DEV_AGAIN)
		return 0;
	return status ? rma_fail(ctx, status, what, RMA_NO_PE) : 1;
}

int shmd_test(struct shmd_ctx *ctx, const void *word, uint32_t bytes, uint32_t cmp, uint64_t value)
{
	int r = rma_check_words(ctx, word);

	return r ? r : look(ctx, shmd_dev_test(&ctx->dev, word, bytes, cmp, value), "test");
}

int shmd_test_all(struct shmd_ctx *ctx, const struct shmd_wait *wait)
{
	struct shmd_dev_wait dev;
	int r = rma_check_wait(ctx, wait);

	if (r)
		return r;
	dev = dev_wait(wait);
	return look(ctx, shmd_dev_test_all(&ctx->dev, &dev), "test");
}

int shmd_test_any(struct shmd_ctx *ctx, const struct shmd_wait *wait, size_t *ret_index)
{
	struct shmd_dev_wait dev;
	int r = rma_check_wait(ctx, wait);

	if (r)
		return r;
	dev = dev_wait(wait);
	return look(ctx, shmd_dev_test_any(&ctx->dev, &dev, ret_index), "test");
}

int shmd_test_some(struct shmd_ctx *ctx, const struct shmd_wait *wait, size_t *ret_indexes, size_t *ret_n)
{
	struct shmd_dev_wait dev;
	int r = rma_check_wait(ctx, wait);

	if (r)
		return r;
	dev = dev_wait(wait);
	return look(ctx, shmd_dev_test_some(&ctx->dev, &dev, ret_indexes, ret_n), "test");
}

/* ---- locks */

int shmd_lock(struct shmd_ctx *ctx, uint64_t *lock)
{
	int r = rma_check_words(ctx, lock);

	return r ? r : rma_result(ctx, shmd_dev_lock(&ctx->dev, lock), "lock", RMA_NO_PE);
}

int shmd_lock_test(struct shmd_ctx *ctx, uint64_t *lock)
{
	int r = rma_check_words(ctx, lock);

	return r ? r : look(ctx, shmd_dev_lock_test(&ctx->dev, lock), "lock");
}

int shmd_unlock(struct shmd_ctx *ctx, uint64_t *lock)
{
	int r = rma_check_words(ctx, lock);

	return r ? r : rma_result(ctx, shmd_dev_unlock(&ctx->dev, lock), "unlock", RMA_NO_PE);
}
