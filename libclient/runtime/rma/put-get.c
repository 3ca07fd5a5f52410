/* SPDX-License-Identifier: Apache-2.0 */
/* One-sided operations on the host: the device functions on a context, with an errno and a sentence. Any thread. */
#include <shmd.h>
#include <shmd/dev/pe.h>

#include "libclient/runtime/rma/gpu-memory.h"
#include "libclient/runtime/rma/rma-check.h"

_Static_assert(SHMD_SIGNAL_SET == (int)SHMD_DEV_SIGNAL_SET && SHMD_SIGNAL_ADD == (int)SHMD_DEV_SIGNAL_ADD, "the same numbers");
_Static_assert(SHMD_ATOMIC_FETCH == (int)SHMD_DEV_AMO_FETCH && SHMD_ATOMIC_ADD == (int)SHMD_DEV_AMO_ADD &&
		       SHMD_ATOMIC_AND == (int)SHMD_DEV_AMO_AND && SHMD_ATOMIC_OR == (int)SHMD_DEV_AMO_OR &&
		       SHMD_ATOMIC_XOR == (int)SHMD_DEV_AMO_XOR && SHMD_ATOMIC_SWAP == (int)SHMD_DEV_AMO_SWAP &&
		       SHMD_ATOMIC_COMPARE_SWAP == (int)SHMD_DEV_AMO_COMPARE_SWAP &&
		       SHMD_ATOMIC_ADD_FLOAT == (int)SHMD_DEV_AMO_ADD_FLOAT,
	       "the same numbers");
#define SAME_ITEM(host, dev) \
	_Static_assert(sizeof(struct host) == sizeof(struct dev) && offsetof(struct host, source) == offsetof(struct dev, source) && \
			       offsetof(struct host, bytes) == offsetof(struct dev, bytes) && \
			       offsetof(struct host, pe) == offsetof(struct dev, pe), \
		       "one layout")
SAME_ITEM(shmd_put_item, shmd_dev_put_item);
SAME_ITEM(shmd_get_item, shmd_dev_get_item);

int shmd_put(struct shmd_ctx *ctx, void *dest, const void *source, size_t bytes, int pe)
{
	int r = RMA_BEGIN(ctx, rma_gpu_move(ctx, dest, source, bytes, pe, false));

	return r <= 0 ? r : rma_result(ctx, shmd_dev_put(&ctx->dev, dest, source, bytes, (uint32_t)pe), "put", pe);
}

int shmd_put_nbi(struct shmd_ctx *ctx, void *dest, const void *source, size_t bytes, int pe)
{
	int r = RMA_BEGIN(ctx, rma_gpu_move(ctx, dest, source, bytes, pe, false));

	return r <= 0 ? r : rma_result(ctx, shmd_dev_put_nbi(&ctx->dev, dest, source, bytes, (uint32_t)pe), "put", pe);
}

int shmd_get(struct shmd_ctx *ctx, void *dest, const void *source, size_t bytes, int pe)
{
	int r = RMA_BEGIN(ctx, rma_gpu_move(ctx, dest, source, bytes, pe, true));

	return r <= 0 ? r : rma_result(ctx, shmd_dev_get(&ctx->dev, dest, source, bytes, (uint32_t)pe), "get", pe);
}

int shmd_get_nbi(struct shmd_ctx *ctx, void *dest, const void *source, size_t bytes, int pe)
{
	int r = RMA_BEGIN(ctx, rma_gpu_move(ctx, dest, source, bytes, pe, true));

	return r <= 0 ? r : rma_result(ctx, shmd_dev_get_nbi(&ctx->dev, dest, source, bytes, (uint32_t)pe), "get", pe);
}

/* A size that the device function refuses. */
static uint32_t word_bytes(size_t bytes)
{
	return bytes > 8 ? 0 : (uint32_t)bytes;
}

int shmd_p(struct shmd_ctx *ctx, void *dest, uint64_t value, size_t bytes, int pe)
{
	int r = RMA_BEGIN(ctx, rma_gpu_p(ctx, dest, value, bytes, pe));

	return r <= 0 ? r : rma_result(ctx, shmd_dev_p(&ctx->dev, dest, value, word_bytes(bytes), (uint32_t)pe), "p", pe);
}

int shmd_g(struct shmd_ctx *ctx, const void *source, size_t bytes, int pe, uint64_t *ret_value)
{
	int r = RMA_BEGIN(ctx, rma_gpu_g(ctx, source, bytes, pe, ret_value));

	return r <= 0 ? r : rma_result(ctx, shmd_dev_g(&ctx->dev, source, word_bytes(bytes), (uint32_t)pe, ret_value), "g", pe);
}

static struct shmd_dev_stride dev_stride(const struct shmd_stride *stride)
{
	return (struct shmd_dev_stride){.n = stride->n,
					.block_bytes = stride->block_bytes,
					.dest_stride_bytes = stride->dest_stride_bytes,
					.source_stride_bytes = stride->source_stride_bytes};
}

int shmd_put_strided(struct shmd_ctx *ctx, void *dest, const void *source, const struct shmd_stride *stride, int pe)
{
	struct shmd_dev_stride dev;
	int r = RMA_BEGIN(ctx, rma_gpu_strided(ctx, dest, source, stride, pe, false));

	if (r <= 0)
		return r;
	dev = dev_stride(stride);
	return rma_result(ctx, shmd_dev_put_strided(&ctx->dev, dest, source, &dev, (uint32_t)pe), "put of blocks", pe);
}

int shmd_put_strided_nbi(struct shmd_ctx *ctx, void *dest, const void *source, const struct shmd_stride *stride, int pe)
{
	struct shmd_dev_stride dev;
	int r = RMA_BEGIN(ctx, rma_gpu_strided(ctx, dest, source, stride, pe, false));

	if (r <= 0)
		return r;
	dev = dev_stride(stride);
	return rma_result(ctx, shmd_dev_put_strided_nbi(&ctx->dev, dest, source, &dev, (uint32_t)pe), "put of blocks", pe);
}

int shmd_get_strided(struct shmd_ctx *ctx, void *dest, const void *source, const struct shmd_stride *stride, int pe)
{
	struct shmd_dev_stride dev;
	int r = RMA_BEGIN(ctx, rma_gpu_strided(ctx, dest, source, stride, pe, true));

	if (r <= 0)
		return r;
	dev = dev_stride(stride);
	return rma_result(ctx, shmd_dev_get_strided(&ctx->dev, dest, source, &dev, (uint32_t)pe), "get of blocks", pe);
}

int shmd_get_strided_nbi(struct shmd_ctx *ctx, void *dest, const void *source, const struct shmd_stride *stride, int pe)
{
	struct shmd_dev_stride dev;
	int r = RMA_BEGIN(ctx, rma_gpu_strided(ctx, dest, source, stride, pe, true));

	if (r <= 0)
		return r;
	dev = dev_stride(stride);
	return rma_result(ctx, shmd_dev_get_strided_nbi(&ctx->dev, dest, source, &dev, (uint32_t)pe), "get of blocks", pe);
}

int shmd_put_batch_nbi(struct shmd_ctx *ctx, const struct shmd_put_item *items, size_t n)
{
	int r = RMA_BEGIN(ctx, rma_gpu_put_items(ctx, items, n));

	return r <= 0 ? r : rma_result(ctx, shmd_dev_put_batch_nbi(&ctx->dev, (const struct shmd_dev_put_item *)items, n), "batch of puts", RMA_NO_PE);
}

int shmd_get_batch_nbi(struct shmd_ctx *ctx, const struct shmd_get_item *items, size_t n)
{
	int r = RMA_BEGIN(ctx, rma_gpu_get_items(ctx, items, n));

	return r <= 0 ? r : rma_result(ctx, shmd_dev_get_batch_nbi(&ctx->dev, (const struct shmd_dev_get_item *)items, n), "batch of gets", RMA_NO_PE);
}

/* ---- signals and atomics */

int shmd_put_signal(struct shmd_ctx *ctx, void *dest, const void *source, size_t bytes, uint64_t *signal, uint64_t value,
		    enum shmd_signal_op op, int pe)
{
	const struct shmd_put_item put = {dest, source, bytes, pe};
	struct shmd_dev_pe_signal dev = shmd_dev_pe_signal_of(signal, (int)op, value);
	int r = RMA_BEGIN(ctx, rma_gpu_put_signal(ctx, &put, signal, value, op));

	return r <= 0 ? r : rma_result(ctx, shmd_dev_put_signal(&ctx->dev, dest, source, bytes, dev, (uint32_t)pe), "put with signal", pe);
}

int shmd_put_signal_nbi(struct shmd_ctx *ctx, void *dest, const void *source, size_t bytes, uint64_t *signal, uint64_t value,
			enum shmd_signal_op op, int pe)
{
	const struct shmd_put_item put = {dest, source, bytes, pe};
	struct shmd_dev_pe_signal dev = shmd_dev_pe_signal_of(signal, (int)op, value);
	int r = RMA_BEGIN(ctx, rma_gpu_put_signal(ctx, &put, signal, value, op));

	return r <= 0 ? r : rma_result(ctx, shmd_dev_put_signal_nbi(&ctx->dev, dest, source, bytes, dev, (uint32_t)pe), "put with signal", pe);
}

int shmd_signal(struct shmd_ctx *ctx, uint64_t *signal, uint64_t value, enum shmd_signal_op op, int pe)
{
	struct shmd_dev_pe_signal dev = shmd_dev_pe_signal_of(signal, (int)op, value);
	int r = RMA_BEGIN(ctx, rma_gpu_signal(ctx, signal, value, op, pe));

	return r <= 0 ? r : rma_result(ctx, shmd_dev_signal(&ctx->dev, dev, (uint32_t)pe), "signal", pe);
}

uint64_t shmd_signal_fetch(const uint64_t *signal)
{
	return shmd_dev_signal_fetch(signal);
}

static struct shmd_dev_amo dev_amo(const struct shmd_atomic *atomic)
{
	struct shmd_dev_amo amo = shmd_dev_amo_of((int)atomic->op, atomic->bytes, atomic->value);

	amo.compare = atomic->compare;
	return amo;
}

int shmd_atomic(struct shmd_ctx *ctx, void *dest, const struct shmd_atomic *atomic, int pe)
{
	int r = RMA_BEGIN(ctx, rma_gpu_atomic(ctx, dest, atomic, pe, NULL));

	return r <= 0 ? r : rma_result(ctx, shmd_dev_atomic(&ctx->dev, dest, dev_amo(atomic), (uint32_t)pe), "atomic", pe);
}

int shmd_atomic_fetch(struct shmd_ctx *ctx, void *dest, const struct shmd_atomic *atomic, int pe, uint64_t *ret_old)
{
	uint64_t old = 0;
	int r = RMA_BEGIN(ctx, rma_gpu_atomic(ctx, dest, atomic, pe, &old));

	if (!r && ret_old)
		*ret_old = old;
	return r <= 0 ? r : rma_result(ctx, shmd_dev_atomic_fetch(&ctx->dev, dest, dev_amo(atomic), (uint32_t)pe, ret_old), "atomic", pe);
}

int shmd_atomic_fetch_nbi(struct shmd_ctx *ctx, void *dest, const struct shmd_atomic *atomic, int pe, void *ret_old)
{
	int r = RMA_BEGIN(ctx, rma_gpu_atomic(ctx, dest, atomic, pe, ret_old));

	return r <= 0 ? r : rma_result(ctx, shmd_dev_atomic_fetch_nbi(&ctx->dev, dest, dev_amo(atomic), (uint32_t)pe, ret_old), "atomic", pe);
}
