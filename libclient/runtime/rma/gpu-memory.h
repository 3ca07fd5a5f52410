/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-sided operations of the host with GPU memory on a side, in worlds that have a GPU heap.
 *
 * Device functions serve wherever a queue carries the data, by keys. Where there is none, or the symmetric side is host memory that is mapped
 * here, CUDA copies, and the operation is complete when the call returns. Atomics are kernels there: no copy is one.
 *
 * Each function here returns 1 if the device function serves, also for refusing; 0 if the operation is done; or a negative errno, with a
 * sentence. Any thread.
 */
#ifndef SHMD_RMA_GPU_MEMORY_H
#define SHMD_RMA_GPU_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shmd.h>

#include "libclient/runtime/rma/rma-check.h"

int rma_gpu_move(struct shmd_ctx *ctx, void *dest, const void *source, size_t bytes, int pe, bool is_get);
int rma_gpu_strided(struct shmd_ctx *ctx, void *dest, const void *source, const struct shmd_stride *stride, int pe, bool is_get);
int rma_gpu_put_items(struct shmd_ctx *ctx, const struct shmd_put_item *items, size_t n);
int rma_gpu_get_items(struct shmd_ctx *ctx, const struct shmd_get_item *items, size_t n);
int rma_gpu_p(struct shmd_ctx *ctx, void *dest, uint64_t value, size_t bytes, int pe);
int rma_gpu_g(struct shmd_ctx *ctx, const void *source, size_t bytes, int pe, uint64_t *ret_value);
int rma_gpu_signal(struct shmd_ctx *ctx, uint64_t *signal, uint64_t value, enum shmd_signal_op op, int pe);
/* Behind the data: signal with it. */
int rma_gpu_put_signal(struct shmd_ctx *ctx, const struct shmd_put_item *put, uint64_t *signal, uint64_t value, enum shmd_signal_op op);
/* By a kernel where no queue leads to the word. -EOPNOTSUPP: there is none. ret_old: `bytes` of the former value, or NULL. */
int rma_gpu_atomic(struct shmd_ctx *ctx, void *word, const struct shmd_atomic *atomic, int pe, void *ret_old);

/* The checks of every operation, then `call`, one of the former, if there is a GPU heap. */
#define RMA_BEGIN(ctx, call)                                                                                                  \
	({                                                                                                                    \
		int begin_ = rma_check(ctx);                                                                                  \
                                                                                                                              \
		begin_ ? begin_ : __builtin_expect(!(ctx)->world->gpu, 1) ? 1 : (call);                                       \
	})

#endif
