/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls on streams: put and get are copies by the GPU's copy engines where the PE is mapped; all else is a kernel of one block
 * (stream-kernels.h).
 *
 * Nothing here waits for the stream. A kernel cannot return an errno, so the first failure stays in GPU memory until shmd_stream_status().
 */
#include <errno.h>
#include <pthread.h>

#include <shmd-stream.h>
#include <shmd.h>

#include "libclient/runtime/gpu/device.h"
#include "libclient/runtime/rma/rma-check.h"
#include "libclient/runtime/stream/begin.h"
#include "libclient/runtime/stream/kernels.h"
#include "libclient/runtime/team/team.h"
#include "libclient/runtime/world/exchange.h"
#include "libclient/runtime/world/heaps.h"
#include "libclient/runtime/world/mend.h"
#include "libclient/runtime/world/report.h"
#include "libclient/runtime/world/world-gpu.h"
#include "proto/base/cleanup.h"
#include "proto/base/overflow.h"

/* ---- before a launch */

static int check_world(const struct shmd_world *world)
{
	int r = world_check_started(world);

	if (r < 0)
		return r;
	return world->gpu ? 0 : shmd_error_set(-EOPNOTSUPP, "the world has no GPU heap (SHMD_GPU, SHMD_GPU_HEAP_SIZE)");
}

static int check_ctx(const struct shmd_ctx *ctx)
{
	int r = rma_check(ctx);

	return r ? r : check_world(ctx->world);
}

static int launch(struct shmd_ctx *ctx, struct shmd_team *team, enum stream_kernel kernel, struct stream_call *call, void *stream)
{
	int r = stream_begin(ctx, team, call);

	return r ? r : stream_kernels_launch(ctx->world->gpu->kernels, kernel, call, stream);
}

/* ---- copies */

/* A PE of the context as one of the world. */
static int world_pe(const struct shmd_ctx *ctx, int pe, const char *what)
{
	int n = ctx->team ? (int)ctx->team->dev.n_pes : ctx->world->size;

	if (pe < 0 || pe >= n)
		return shmd_error_set(-EINVAL, "%s: PE %d is out of range; the context's team has %d PEs", what, pe, n);
	return ctx->team ? shmd_team_translate(ctx->team, pe, NULL) : pe;
}

/* Whether [ptr, ptr + bytes) is memory of this PE in the GPU heap. */
static int check_range(const struct shmd_world *world, const void *ptr, size_t bytes, uint64_t *ret_offset, const char *what)
{
	uint64_t end, last;

	if (add_overflows((uint64_t)(uintptr_t)ptr, bytes, &end) || world_find(world, ptr, ret_offset) != SHMD_DEV_HEAP_GPU ||
	    world_find(world, (const void *)(uintptr_t)(end - 1), &last) != SHMD_DEV_HEAP_GPU)
		return shmd_error_set(-EINVAL, "%s: %zu bytes at %p are not in the GPU heap", what, bytes, ptr);
	return 0;
}

/* Where the memory of PE `pe` of the context is mapped; NULL: a queue leads there. */
static int find_peer(const struct shmd_ctx *ctx, const void *ptr, size_t bytes, int pe, const char *what, void **ret_peer)
{
	uint64_t offset;
	int r = check_range(ctx->world, ptr, bytes, &offset, what);

	if (r < 0)
		return r;
	pe = world_pe(ctx, pe, what);
	if (pe < 0)
		return pe;
	if (__atomic_load_n(&ctx->world->pes[pe].path[SHMD_DEV_HEAP_HOST], __ATOMIC_ACQUIRE) == SHMD_PATH_GONE)
		return world_status_error(ctx->world, SHMD_DEV_PE_GONE, what, pe);
	*ret_peer = world_peer_address(ctx->world, SHMD_DEV_HEAP_GPU, pe, offset);
	return 0;
}

static int copy(const struct shmd_world *world, void *to, const void *from, size_t bytes, const char *what, void *stream)
{
	const struct device *device = world->gpu->device;
	int r;

	if (!device->cuda->copy_any)
		return shmd_error_set(-EOPNOTSUPP, "the CUDA driver has no cuMemcpyAsync");
	r = device_enter(device);
	return r ? r : device_leave(device, device->cuda->copy_any((uintptr_t)to, (uintptr_t)from, bytes, stream), what);
}

/* A kernel reads or writes the other side, which the GPU must see at the same address. */
static int check_other_side(const struct shmd_world *world, uint64_t addr, const char *what)
{
	const struct device *device = world->gpu->device;
	cuda_address seen = 0;
	cuda_result result;
	int r;

	if (!device->cuda->pointer_attribute)
		return 0;
	r = device_enter(device);
	if (r < 0)
		return r;
	result = device->cuda->pointer_attribute(&seen, CUDA_POINTER_GPU_ADDRESS, addr);
	r = device_leave(device, CUDA_OK, what);
	if (r || (result == CUDA_OK && seen == addr))
		return r;
	return shmd_error_set(-EINVAL, "%s: kernels do not see %#llx, which one carries or reads: use GPU memory, or host memory of cuMemHostAlloc()",
			      what, (unsigned long long)addr);
}

/* call: a put or get, whose `symmetric` side is of the PE and whose other side is of the caller. */
static int move(struct shmd_ctx *ctx, struct stream_call *call, const char *name, void *stream)
{
	bool is_get = call->what == STREAM_GET;
	void *symmetric = (void *)(uintptr_t)(is_get ? call->source : call->dest), *other = (void *)(uintptr_t)(is_get ? call->dest : call->source);
	void *peer = NULL;
	int r = check_ctx(ctx);

	if (r < 0)
		return r;
	if (!call->n)
		return world_pe(ctx, (int)call->pe, name) < 0 ? -EINVAL : 0;
	r = find_peer(ctx, symmetric, call->n, (int)call->pe, name, &peer);
	if (!r && peer)
		r = copy(ctx->world, is_get ? other : peer, is_get ? peer : other, call->n, name, stream);
	if (!r && peer && peer != symmetric)
		world_count_copy(ctx->world, is_get, call->n);
	if (r || peer)
		return r;
	r = check_other_side(ctx->world, (uintptr_t)other, name);
	return r ? r : launch(ctx, NULL, STREAM_KERNEL_ORDER, call, stream);
}

int shmd_put_on_stream(struct shmd_ctx *ctx, void *dest, const void *source, size_t bytes, int pe, void *stream)
{
	struct stream_call call = {
		.what = STREAM_PUT, .dest = (uintptr_t)dest, .source = (uintptr_t)source, .n = bytes, .pe = (uint32_t)pe};

	return move(ctx, &call, "put on a stream", stream);
}

int shmd_get_on_stream(struct shmd_ctx *ctx, void *dest, const void *source, size_t bytes, int pe, void *stream)
{
	struct stream_call call = {
		.what = STREAM_GET, .dest = (uintptr_t)dest, .source = (uintptr_t)source, .n = bytes, .pe = (uint32_t)pe};

	return move(ctx, &call, "get on a stream", stream);
}

/* ---- words */

/* n words of so many bytes. */
static int check_words(const struct shmd_ctx *ctx, const void *words, size_t bytes, size_t n, const char *what)
{
	uint64_t offset, all;

	if ((bytes != 2 && bytes != 4 && bytes != 8) || (uintptr_t)words % bytes)
		return shmd_error_set(-EINVAL, "%s: a word is 2, 4 or 8 aligned bytes, not %zu at %p", what, bytes, words);
	if (mul_overflows(n, bytes, &all))
		return shmd_error_set(-EINVAL, "%s: %zu words are more than any memory", what, n);
	return n ? check_range(ctx->world, words, all, &offset, what) : 0;
}

static int check_word(const struct shmd_ctx *ctx, const void *word, size_t bytes, const char *what)
{
	return check_words(ctx, word, bytes, 1, what);
}

static int check_cmp(uint32_t cmp)
{
	if ((cmp & ~(uint32_t)SHMD_CMP_SIGNED) > SHMD_CMP_LE)
		return shmd_error_set(-EINVAL, "wait on a stream: unknown comparison %u", cmp);
	return 0;
}

int shmd_p_on_stream(struct shmd_ctx *ctx, void *dest, uint64_t value, uint32_t bytes, int pe, void *stream)
{
	struct stream_call call = {.what = STREAM_P, .dest = (uintptr_t)dest, .value = value, .type = bytes, .pe = (uint32_t)pe};
	uint64_t offset;
	int r = check_ctx(ctx);

	if (!r && ((bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) || (uintptr_t)dest % bytes))
		r = shmd_error_set(-EINVAL, "p on a stream: a value has 1, 2, 4 or 8 aligned bytes, not %u at %p", bytes, dest);
	if (!r)
		r = check_range(ctx->world, dest, bytes, &offset, "p on a stream");
	if (!r && world_pe(ctx, pe, "p on a stream") < 0)
		r = -EINVAL;
	return r ? r : launch(ctx, NULL, STREAM_KERNEL_WORD, &call, stream);
}

int shmd_signal_on_stream(struct shmd_ctx *ctx, uint64_t *signal, uint64_t value, enum shmd_signal_op op, int pe, void *stream)
{
	struct stream_call call = {.what = STREAM_SIGNAL, .dest = (uintptr_t)signal, .value = value, .op = (uint32_t)op, .pe = (uint32_t)pe};
	int r = check_ctx(ctx);

	if (!r)
		r = check_word(ctx, signal, sizeof(*signal), "signal on a stream");
	if (!r && op != SHMD_SIGNAL_SET && op != SHMD_SIGNAL_ADD)
		r = shmd_error_set(-EINVAL, "signal on a stream: unknown operation %d", (int)op);
	if (!r && world_pe(ctx, pe, "signal on a stream") < 0)
		r = -EINVAL;
	return r ? r : launch(ctx, NULL, STREAM_KERNEL_WORD, &call, stream);
}

int shmd_put_signal_on_stream(struct shmd_ctx *ctx, void *dest, const void *source, size_t bytes, uint64_t *signal, uint64_t value,
			      enum shmd_signal_op op, int pe, void *stream)
{
	struct stream_call nothing;
	int r = check_ctx(ctx);

	/* There is no put if the signal would be refused, also for want of kernels. */
	if (!r)
		r = check_word(ctx, signal, sizeof(*signal), "put with a signal on a stream");
	if (!r && op != SHMD_SIGNAL_SET && op != SHMD_SIGNAL_ADD)
		r = shmd_error_set(-EINVAL, "put with a signal on a stream: unknown operation %d", (int)op);
	if (!r)
		r = stream_begin(ctx, NULL, &nothing);
	if (!r)
		r = shmd_put_on_stream(ctx, dest, source, bytes, pe, stream);
	return r ? r : shmd_signal_on_stream(ctx, signal, value, op, pe, stream);
}

int shmd_wait_until_on_stream(struct shmd_ctx *ctx, const void *word, uint32_t bytes, uint32_t cmp, uint64_t value, void *stream)
{
	struct stream_call call = {
		.what = STREAM_WAIT, .dest = (uintptr_t)word, .value = value, .op = cmp, .type = bytes, .pe = STREAM_NO_PE};
	int r = check_ctx(ctx);

	if (!r)
		r = check_word(ctx, word, bytes, "wait on a stream");
	if (!r)
		r = check_cmp(cmp);
	return r ? r : launch(ctx, NULL, STREAM_KERNEL_WORD, &call, stream);
}

int shmd_wait_until_all_on_stream(struct shmd_ctx *ctx, const struct shmd_wait *wait, void *stream)
{
	struct stream_call call = {
		.what = STREAM_WAIT_ALL, .dest = (uintptr_t)wait->words, .source = (uintptr_t)wait->values, .n = wait->n, .value = wait->value,
		.status_addr = (uintptr_t)wait->status, .op = wait->cmp, .type = wait->bytes, .pe = STREAM_NO_PE};
	int r = check_ctx(ctx);

	if (!r)
		r = check_words(ctx, wait->words, wait->bytes, wait->n, "wait on a stream");
	if (!r)
		r = check_cmp(wait->cmp);
	if (!r && wait->status)
		r = check_other_side(ctx->world, call.status_addr, "wait on a stream");
	if (!r && wait->values)
		r = check_other_side(ctx->world, call.source, "wait on a stream");
	return r ? r : launch(ctx, NULL, STREAM_KERNEL_WORD, &call, stream);
}

int shmd_quiet_on_stream(struct shmd_ctx *ctx, void *stream)
{
	struct stream_call call = {.what = STREAM_QUIET, .pe = STREAM_NO_PE};
	int r = check_ctx(ctx);

	return r ? r : launch(ctx, NULL, STREAM_KERNEL_WORD, &call, stream);
}

/* ---- teams */

static int launch_team(struct shmd_team *team, enum stream_kernel kernel, struct stream_call *call, void *stream)
{
	int r = team_check(team);

	if (!r)
		r = check_world(team->world);
	return r ? r : launch(team->world->ctx, team, kernel, call, stream);
}

int shmd_team_sync_on_stream(struct shmd_team *team, void *stream)
{
	return launch_team(team, STREAM_KERNEL_ORDER, &(struct stream_call){.what = STREAM_SYNC, .pe = STREAM_NO_PE}, stream);
}

int shmd_team_barrier_on_stream(struct shmd_team *team, void *stream)
{
	return launch_team(team, STREAM_KERNEL_ORDER, &(struct stream_call){.what = STREAM_BARRIER, .pe = STREAM_NO_PE}, stream);
}

int shmd_broadcast_on_stream(struct shmd_team *team, void *dest, const void *source, size_t bytes, int root, void *stream)
{
	struct stream_call call = {
		.what = STREAM_BROADCAST, .dest = (uintptr_t)dest, .source = (uintptr_t)source, .n = bytes, .pe = (uint32_t)root};

	return launch_team(team, STREAM_KERNEL_MOVE, &call, stream);
}

static int launch_move(struct shmd_team *team, enum stream_what what, void *dest, const void *source, size_t bytes, void *stream)
{
	struct stream_call call = {
		.what = what, .dest = (uintptr_t)dest, .source = (uintptr_t)source, .n = bytes, .pe = STREAM_NO_PE};

	return launch_team(team, STREAM_KERNEL_MOVE, &call, stream);
}

int shmd_fcollect_on_stream(struct shmd_team *team, void *dest, const void *source, size_t bytes, void *stream)
{
	return launch_move(team, STREAM_FCOLLECT, dest, source, bytes, stream);
}

int shmd_alltoall_on_stream(struct shmd_team *team, void *dest, const void *source, size_t bytes, void *stream)
{
	return launch_move(team, STREAM_ALLTOALL, dest, source, bytes, stream);
}

static int launch_math(struct shmd_team *team, struct stream_call call, enum shmd_type type, enum shmd_reduce_op op, void *stream)
{
	call.pe = STREAM_NO_PE;
	call.type = (uint32_t)type;
	call.op = (uint32_t)op;
	return launch_team(team, STREAM_KERNEL_REDUCE, &call, stream);
}

int shmd_reduce_on_stream(struct shmd_team *team, void *dest, const void *source, size_t n, enum shmd_type type, enum shmd_reduce_op op,
			  void *stream)
{
	struct stream_call call = {.what = STREAM_REDUCE, .dest = (uintptr_t)dest, .source = (uintptr_t)source, .n = n};

	return launch_math(team, call, type, op, stream);
}

int shmd_reduce_scatter_on_stream(struct shmd_team *team, void *dest, const void *source, size_t n, enum shmd_type type,
				  enum shmd_reduce_op op, void *stream)
{
	struct stream_call call = {.what = STREAM_REDUCE_SCATTER, .dest = (uintptr_t)dest, .source = (uintptr_t)source, .n = n};

	return launch_math(team, call, type, op, stream);
}

/* ---- failures */

static const char *name_of(uint32_t what)
{
	static const char *const names[] = {
		[STREAM_SIGNAL] = "signal on a stream",		  [STREAM_WAIT] = "wait on a stream",
		[STREAM_QUIET] = "quiet on a stream",		  [STREAM_SYNC] = "sync on a stream",
		[STREAM_BARRIER] = "barrier on a stream",	  [STREAM_BROADCAST] = "broadcast on a stream",
		[STREAM_FCOLLECT] = "fcollect on a stream",	  [STREAM_ALLTOALL] = "alltoall on a stream",
		[STREAM_REDUCE] = "reduction on a stream",	  [STREAM_REDUCE_SCATTER] = "reduction by parts on a stream",
		[STREAM_PUT] = "put on a stream",		  [STREAM_GET] = "get on a stream",
		[STREAM_P] = "p on a stream",			  [STREAM_WAIT_ALL] = "wait on a stream",
	};

	return what < sizeof(names) / sizeof(*names) && names[what] ? names[what] : "call on a stream";
}

static int fail(const struct shmd_world *world, const struct stream_failure *failure)
{
	if (failure->status == SHMD_DEV_INVALID)
		return shmd_error_set(-EINVAL, "%s: memory outside the GPU heap, a PE that is not in the team, or a type or operation that GPUs do not have",
				      name_of(failure->what));
	/* A program that gives a context a limit of its own expects it to pass, also under SHMD_ABORT_ON_ERROR. */
	if (failure->status == SHMD_DEV_TIMEOUT && failure->is_own_limit)
		return shmd_error_set(-ETIMEDOUT, "%s: not within the time limit of its context", name_of(failure->what));
	return world_status_error(world, failure->status, name_of(failure->what), WORLD_PE_OF_KERNELS);
}

int shmd_stream_status(struct shmd_world *world)
{
	struct stream_failure failure = {0};
	int r = check_world(world);

	if (r < 0)
		return r;
	pthread_mutex_lock(&world->gpu_copies);
	if (world->gpu->kernels)
		r = stream_kernels_failure(world->gpu->kernels, &failure);
	pthread_mutex_unlock(&world->gpu_copies);
	return r || !failure.status ? r : fail(world, &failure);
}
