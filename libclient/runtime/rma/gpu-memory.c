/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "libclient/runtime/gpu/device.h"
#include "libclient/runtime/rma/gpu-memory.h"
#include "libclient/runtime/stream/begin.h"
#include "libclient/runtime/team/team.h"
#include "libclient/runtime/world/heaps.h"
#include "libclient/runtime/world/report.h"
#include "libclient/runtime/world/world-gpu.h"
#include "proto/base/overflow.h"

/* ---- where is it */

/* -EINVAL: GPU memory that is not this PE's own, all of it. Neither the CPU nor a NIC's key reaches it. */
static int look(const struct shmd_world *world, const void *ptr, uint64_t bytes, bool *ret_on_gpu)
{
	uint64_t addr = (uintptr_t)ptr, end, offset;
	uint64_t used = __atomic_load_n(&world->gpu->used_bytes, __ATOMIC_ACQUIRE);

	*ret_on_gpu = false;
	/* No byte is anywhere. */
	if (!bytes)
		return 0;
	if (add_overflows(addr, bytes, &end))
		return shmd_error_set(-EINVAL, "%llu bytes at %p wrap around", (unsigned long long)bytes, ptr);
	if (!world_is_on_gpu(world, addr, end))
		return 0;
	*ret_on_gpu = true;
	if (world_find(world, ptr, &offset) == SHMD_DEV_HEAP_GPU && range_fits(offset, bytes, used))
		return 0;
	return shmd_error_set(-EINVAL, "%llu bytes at %p are not in the chunks of this PE's GPU heap", (unsigned long long)bytes, ptr);
}

/* Both sides of an operation. */
static int look_at_both(const struct shmd_world *world, const void *a, const void *b, uint64_t bytes, bool *ret_a, bool *ret_b)
{
	int r = look(world, a, bytes, ret_a);

	return r ? r : look(world, b, bytes, ret_b);
}

static bool has_queues(const struct shmd_ctx *ctx)
{
	return ctx->world->queues != NULL;
}

/* A PE's copy of symmetric memory, if it is mapped here; else NULL. */
static int find_copy(const struct shmd_ctx *ctx, const void *ptr, const char *what, int pe, void **ret_copy)
{
	const struct shmd_world *world = ctx->world;
	int number = ctx->team ? shmd_dev_team_translate(&ctx->team->dev, (uint32_t)pe, NULL) : pe;
	uint32_t heap;
	uint64_t offset;
	int r = world_offset(world, ptr, &heap, &offset);

	if (r < 0)
		return r;
	if (number < 0 || number >= world->size)
		return rma_fail(ctx, SHMD_DEV_INVALID, what, pe);
	if (__atomic_load_n(&world->pes[number].path[SHMD_DEV_HEAP_HOST], __ATOMIC_ACQUIRE) == SHMD_PATH_GONE)
		return rma_fail(ctx, SHMD_DEV_PE_GONE, what, pe);
	*ret_copy = world_peer_address(world, heap, number, offset);
	return 0;
}

/* ---- moves */

static int copy(const struct device *device, void *to, bool to_gpu, const void *from, bool from_gpu, size_t bytes)
{
	if (!bytes)
		return 0;
	if (to_gpu && from_gpu)
		return device_move(device, (uintptr_t)to, (uintptr_t)from, bytes);
	return to_gpu ? device_write(device, (uintptr_t)to, from, bytes) : device_read(device, to, (uintptr_t)from, bytes);
}

/* Bytes of the host's heap; the device function refuses what is not. */
static bool is_in_heap(const struct shmd_world *world, const void *ptr, size_t bytes)
{
	uint64_t offset;

	return world_find(world, ptr, &offset) == SHMD_DEV_HEAP_HOST &&
	       range_fits(offset, bytes, __atomic_load_n(&world->dev->heap[SHMD_DEV_HEAP_HOST].used_bytes, __ATOMIC_ACQUIRE));
}

int rma_gpu_move(struct shmd_ctx *ctx, void *dest, const void *source, size_t bytes, int pe, bool is_get)
{
	const struct shmd_world *world = ctx->world;
	const void *symmetric = is_get ? source : dest;
	bool to_gpu = false, from_gpu = false, is_symmetric_on_gpu;
	void *mapped = NULL;
	int r = look_at_both(world, dest, source, bytes, &to_gpu, &from_gpu);

	is_symmetric_on_gpu = is_get ? from_gpu : to_gpu;
	if (r < 0)
		return r;
	if (!to_gpu && !from_gpu)
		return 1;
	if (is_symmetric_on_gpu ? has_queues(ctx) : !is_in_heap(world, symmetric, bytes))
		return 1;
	r = find_copy(ctx, symmetric, is_get ? "get" : "put", pe, &mapped);
	if (r < 0)
		return r;
	/* A queue leads there, and the GPU heap has keys. */
	if (!mapped)
		return 1;
	r = copy(world->gpu->device, is_get ? dest : mapped, to_gpu, is_get ? mapped : source, from_gpu, bytes);
	if (!r && is_symmetric_on_gpu && mapped != symmetric)
		world_count_copy(ctx->world, is_get, bytes);
	return r;
}

/* The same, by the device function if that serves. */
static int put_one(struct shmd_ctx *ctx, void *dest, const void *source, size_t bytes, int pe, bool waits)
{
	int r = rma_gpu_move(ctx, dest, source, bytes, pe, false);

	if (r <= 0)
		return r;
	r = waits ? shmd_dev_put(&ctx->dev, dest, source, bytes, (uint32_t)pe) : shmd_dev_put_nbi(&ctx->dev, dest, source, bytes, (uint32_t)pe);
	return rma_result(ctx, r, "put", pe);
}

static int get_one(struct shmd_ctx *ctx, void *dest, const void *source, size_t bytes, int pe, bool waits)
{
	int r = rma_gpu_move(ctx, dest, source, bytes, pe, true);

	if (r <= 0)
		return r;
	r = waits ? shmd_dev_get(&ctx->dev, dest, source, bytes, (uint32_t)pe) : shmd_dev_get_nbi(&ctx->dev, dest, source, bytes, (uint32_t)pe);
	return rma_result(ctx, r, "get", pe);
}

/* All that blocks reach over is looked at as one. false: it wraps around, which the device function refuses. */
static bool find_extent(const struct shmd_stride *stride, size_t stride_bytes, uint64_t *ret_bytes)
{
	uint64_t to_last;

	*ret_bytes = 0;
	if (!stride->n)
		return true;
	return !mul_overflows(stride->n - 1, stride_bytes, &to_last) && !add_overflows(to_last, stride->block_bytes, ret_bytes);
}

static bool touches_gpu(const struct shmd_world *world, const void *ptr, uint64_t bytes)
{
	uint64_t addr = (uintptr_t)ptr, end;

	return bytes && !add_overflows(addr, bytes, &end) && world_is_on_gpu(world, addr, end);
}

/* Block by block. */
int rma_gpu_strided(struct shmd_ctx *ctx, void *dest, const void *source, const struct shmd_stride *stride, int pe, bool is_get)
{
	uint64_t to_bytes, from_bytes;
	uint8_t *to = dest;
	const uint8_t *from = source;
	int r = 0;

	if (!find_extent(stride, stride->dest_stride_bytes, &to_bytes) || !find_extent(stride, stride->source_stride_bytes, &from_bytes))
		return 1;
	if (!touches_gpu(ctx->world, dest, to_bytes) && !touches_gpu(ctx->world, source, from_bytes))
		return 1;
	for (size_t i = 0; !r && i < stride->n; i++) {
		r = is_get ? get_one(ctx, to, from, stride->block_bytes, pe, true) : put_one(ctx, to, from, stride->block_bytes, pe, true);
		to += stride->dest_stride_bytes;
		from += stride->source_stride_bytes;
	}
	return r;
}

static bool item_touches_gpu(const struct shmd_world *world, const void *dest, const void *source, size_t bytes)
{
	return touches_gpu(world, dest, bytes) || touches_gpu(world, source, bytes);
}

int rma_gpu_put_items(struct shmd_ctx *ctx, const struct shmd_put_item *items, size_t n)
{
	bool some = false;
	int r = 0;

	for (size_t i = 0; i < n; i++)
		some |= item_touches_gpu(ctx->world, items[i].dest, items[i].source, items[i].bytes);
	for (size_t i = 0; some && !r && i < n; i++)
		r = put_one(ctx, items[i].dest, items[i].source, items[i].bytes, items[i].pe, false);
	return some ? r : 1;
}

int rma_gpu_get_items(struct shmd_ctx *ctx, const struct shmd_get_item *items, size_t n)
{
	bool some = false;
	int r = 0;

	for (size_t i = 0; i < n; i++)
		some |= item_touches_gpu(ctx->world, items[i].dest, items[i].source, items[i].bytes);
	for (size_t i = 0; some && !r && i < n; i++)
		r = get_one(ctx, items[i].dest, items[i].source, items[i].bytes, items[i].pe, false);
	return some ? r : 1;
}

/* ---- words */

static bool is_word(const void *ptr, size_t bytes)
{
	return (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8) && !((uintptr_t)ptr & (bytes - 1));
}

/* 0, and the PE's copy of a word of the GPU heap that only CUDA reaches. */
static int find_word(const struct shmd_ctx *ctx, const void *word, size_t bytes, const char *what, int pe, void **ret_copy)
{
	bool on_gpu;
	int r = look(ctx->world, word, bytes, &on_gpu);

	if (r < 0)
		return r;
	if (!on_gpu || has_queues(ctx) || !is_word(word, bytes))
		return 1;
	return find_copy(ctx, word, what, pe, ret_copy);
}

int rma_gpu_p(struct shmd_ctx *ctx, void *dest, uint64_t value, size_t bytes, int pe)
{
	void *word;
	int r = find_word(ctx, dest, bytes, "p", pe, &word);

	return r ? r : device_write_word(ctx->world->gpu->device, (uintptr_t)word, value, bytes);
}

int rma_gpu_g(struct shmd_ctx *ctx, const void *source, size_t bytes, int pe, uint64_t *ret_value)
{
	uint64_t value = 0;
	void *word;
	int r = find_word(ctx, source, bytes, "g", pe, &word);

	if (!r)
		r = device_read(ctx->world->gpu->device, &value, (uintptr_t)word, bytes);
	if (!r && ret_value)
		*ret_value = value;
	return r;
}

/* By a kernel, against which those of other PEs are exact. Done when it returns. */
static int atomic_by_kernel(struct shmd_ctx *ctx, void *word, const struct shmd_atomic *atomic, const char *what, int pe, void *ret_old)
{
	struct stream_result result;
	int r = stream_atomic(ctx, word, atomic, pe, &result);

	if (r > 0)
		return rma_result(ctx, result.status, what, pe);
	if (!r && ret_old)
		memcpy(ret_old, &result.old, atomic->bytes);
	return r;
}

int rma_gpu_atomic(struct shmd_ctx *ctx, void *word, const struct shmd_atomic *atomic, int pe, void *ret_old)
{
	bool on_gpu, old_on_gpu = false;
	int r = look(ctx->world, word, 1, &on_gpu);

	if (!r && ret_old)
		r = look(ctx->world, ret_old, 1, &old_on_gpu);
	if (r < 0)
		return r;
	if (old_on_gpu)
		return shmd_error_set(-EINVAL, "%p, for a former value, is GPU memory", ret_old);
	return on_gpu && !has_queues(ctx) ? atomic_by_kernel(ctx, word, atomic, "atomic", pe, ret_old) : 1;
}

int rma_gpu_signal(struct shmd_ctx *ctx, uint64_t *signal, uint64_t value, enum shmd_signal_op op, int pe)
{
	void *word;
	int r = find_word(ctx, signal, sizeof(*signal), "signal", pe, &word);

	if (r)
		return r;
	if (op == SHMD_SIGNAL_ADD)
		return atomic_by_kernel(ctx, signal, &(struct shmd_atomic){.op = SHMD_ATOMIC_ADD, .bytes = 8, .value = value}, "signal", pe, NULL);
	if (op != SHMD_SIGNAL_SET)
		return 1;
	return device_write_word(ctx->world->gpu->device, (uintptr_t)word, value, sizeof(*signal));
}

/* Before there is a put: 0, 1 if the device function is to refuse the signal, or a negative errno. */
static int check_signal(struct shmd_ctx *ctx, const uint64_t *signal, enum shmd_signal_op op)
{
	struct stream_call nothing;

	if (!is_word(signal, sizeof(*signal)) || (op != SHMD_SIGNAL_SET && op != SHMD_SIGNAL_ADD))
		return 1;
	return op == SHMD_SIGNAL_ADD ? stream_begin(ctx, NULL, &nothing) : 0;
}

int rma_gpu_put_signal(struct shmd_ctx *ctx, const struct shmd_put_item *put, uint64_t *signal, uint64_t value, enum shmd_signal_op op)
{
	bool is_signal_on_gpu;
	int r = look(ctx->world, signal, sizeof(*signal), &is_signal_on_gpu);

	is_signal_on_gpu = is_signal_on_gpu && !has_queues(ctx);
	if (!r && is_signal_on_gpu)
		r = check_signal(ctx, signal, op);
	if (r)
		return r;
	r = rma_gpu_move(ctx, put->dest, put->source, put->bytes, put->pe, false);
	/* To memory that is mapped here: complete when it returns. */
	if (r == 1 && is_signal_on_gpu)
		r = put_one(ctx, put->dest, put->source, put->bytes, put->pe, true);
	if (r)
		return r;
	r = rma_gpu_signal(ctx, signal, value, op, put->pe);
	return r <= 0 ? r : rma_result(ctx, shmd_dev_signal(&ctx->dev, shmd_dev_pe_signal_of(signal, (int)op, value), (uint32_t)put->pe), "signal", put->pe);
}
