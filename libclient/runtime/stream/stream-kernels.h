/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bodies of the kernels behind calls on streams. CUDA; and C, in which a test runs them as the single thread of their block.
 *
 * All threads of the block call. A failure is reported once, by the first that fails on this PE until the host has taken it.
 */
#ifndef SHMD_STREAM_KERNELS_H
#define SHMD_STREAM_KERNELS_H

#include <stdbool.h>
#include <string.h>

#include <shmd/dev/coll.h>
#include <shmd/dev/pe.h>

#include "libclient/runtime/stream/stream-call.h"

#if defined(__CUDACC__)
#define STREAM_FN static __device__ inline
#define STREAM_SCOPE(scope) (scope)
#else
#define STREAM_FN static inline __attribute__((unused))
#define STREAM_SCOPE(scope) SHMD_DEV_THREAD
#endif

STREAM_FN struct shmd_dev_ctx *stream_ctx(const struct stream_call *call)
{
	return (struct shmd_dev_ctx *)(uintptr_t)call->ctx_addr;
}

STREAM_FN struct shmd_dev_team *stream_team(const struct stream_call *call)
{
	return (struct shmd_dev_team *)(uintptr_t)call->team_addr;
}

/* If there is none: all of it at once. */
STREAM_FN void stream_report(uint64_t *word, uint64_t failure)
{
#if defined(__CUDACC__)
	if (threadIdx.x == 0)
		(void)atomicCAS((unsigned long long *)word, 0ull, (unsigned long long)failure);
#else
	uint64_t none = 0;

	(void)__atomic_compare_exchange_n(word, &none, failure, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
#endif
}

STREAM_FN bool stream_has_own_limit(const struct stream_call *call)
{
	const struct shmd_dev_ctx *ctx = stream_ctx(call);

	return ctx->timeout_nsec != ((const struct shmd_dev_world *)(uintptr_t)ctx->world_addr)->timeout_nsec;
}

STREAM_FN void stream_end(const struct stream_call *call, int status)
{
	struct stream_failure failure;
	uint64_t word;

	if (status == SHMD_DEV_OK)
		return;
	failure.status = status;
	failure.what = (uint16_t)call->what;
	failure.is_own_limit = stream_has_own_limit(call);
	memcpy(&word, &failure, sizeof(word));
	stream_report((uint64_t *)(uintptr_t)call->failure_addr, word);
}

/* Complete at the end, since a copy engine may carry what comes behind it in the stream. */
STREAM_FN int stream_signal_status(const struct stream_call *call, struct shmd_dev_ctx *ctx)
{
	struct shmd_dev_pe_signal signal = shmd_dev_pe_signal_of((uint64_t *)(uintptr_t)call->dest, (int)call->op, call->value);
	int status = shmd_dev_signal(ctx, signal, call->pe);

	return status == SHMD_DEV_OK ? shmd_dev_quiet_pe(ctx, call->pe) : status;
}

STREAM_FN int stream_p_status(const struct stream_call *call, struct shmd_dev_ctx *ctx)
{
	int status = shmd_dev_p(ctx, (void *)(uintptr_t)call->dest, call->value, call->type, call->pe);

	return status == SHMD_DEV_OK ? shmd_dev_quiet_pe(ctx, call->pe) : status;
}

STREAM_FN int stream_wait_all_status(const struct stream_call *call, struct shmd_dev_ctx *ctx)
{
	struct shmd_dev_wait wait;

	wait.words = (const void *)(uintptr_t)call->dest;
	wait.n = call->n;
	wait.bytes = call->type;
	wait.cmp = call->op;
	wait.status = (const int *)(uintptr_t)call->status_addr;
	wait.value = call->value;
	wait.values = (const void *)(uintptr_t)call->source;
	return shmd_dev_wait_until_all(ctx, &wait);
}

/* The host waits for it, and gets its status. */
STREAM_FN void stream_atomic_now(const struct stream_call *call)
{
	struct shmd_dev_amo amo = shmd_dev_amo_of((int)call->op, call->type, call->value);
	struct stream_result *result = (struct stream_result *)(uintptr_t)call->source;

	amo.compare = call->n;
	result->status = shmd_dev_atomic_fetch(stream_ctx(call), (void *)(uintptr_t)call->dest, amo, call->pe, &result->old);
}

STREAM_FN int stream_word_status(const struct stream_call *call)
{
	struct shmd_dev_ctx *ctx = stream_ctx(call);

	if (call->what == STREAM_SIGNAL)
		return stream_signal_status(call, ctx);
	if (call->what == STREAM_WAIT)
		return shmd_dev_wait_until(ctx, (const void *)(uintptr_t)call->dest, call->type, call->op, call->value);
	if (call->what == STREAM_WAIT_ALL)
		return stream_wait_all_status(call, ctx);
	if (call->what == STREAM_P)
		return stream_p_status(call, ctx);
	return shmd_dev_quiet(ctx);
}

STREAM_FN void stream_word(const struct stream_call *call)
{
	if (call->what == STREAM_NOTHING)
		return;
	if (call->what == STREAM_ATOMIC)
		stream_atomic_now(call);
	else
		stream_end(call, stream_word_status(call));
}

/* Complete at the end, as a copy is. */
STREAM_FN int stream_copy_status(const struct stream_call *call, struct shmd_dev_ctx *ctx, struct shmd_dev_mode mode)
{
	void *dest = (void *)(uintptr_t)call->dest;
	const void *source = (const void *)(uintptr_t)call->source;
	int status;

	if (call->what == STREAM_GET)
		return shmd_dev_get_as(ctx, dest, source, call->n, call->pe, mode);
	status = shmd_dev_put_as(ctx, dest, source, call->n, call->pe, mode);
	return status == SHMD_DEV_OK ? shmd_dev_quiet_pe_as(ctx, call->pe, mode) : status;
}

STREAM_FN void stream_order(const struct stream_call *call)
{
	struct shmd_dev_ctx *ctx = stream_ctx(call);
	struct shmd_dev_mode mode;

	if (call->what == STREAM_NOTHING)
		return;
	mode = shmd_dev_ctx_mode(ctx, STREAM_SCOPE(SHMD_DEV_WARP));
	if (call->what == STREAM_SYNC)
		stream_end(call, shmd_dev_team_sync_as(ctx, stream_team(call), mode));
	else if (call->what == STREAM_BARRIER)
		stream_end(call, shmd_dev_team_barrier_as(ctx, stream_team(call), mode));
	else
		stream_end(call, stream_copy_status(call, ctx, mode));
}

STREAM_FN void stream_move(const struct stream_call *call)
{
	struct shmd_dev_coll args = shmd_dev_coll_of((void *)(uintptr_t)call->dest, (const void *)(uintptr_t)call->source, call->n);
	struct shmd_dev_ctx *ctx = stream_ctx(call);
	struct shmd_dev_mode mode;
	int status;

	if (call->what == STREAM_NOTHING)
		return;
	mode = shmd_dev_ctx_mode(ctx, STREAM_SCOPE(SHMD_DEV_BLOCK));
	args.root = call->pe;
	if (call->what == STREAM_BROADCAST)
		status = shmd_dev_broadcast_as(ctx, stream_team(call), &args, mode);
	else if (call->what == STREAM_FCOLLECT)
		status = shmd_dev_fcollect_as(ctx, stream_team(call), &args, mode);
	else
		status = shmd_dev_alltoall_as(ctx, stream_team(call), &args, mode);
	stream_end(call, status);
}

STREAM_FN void stream_reduce(const struct stream_call *call)
{
	struct shmd_dev_coll args = shmd_dev_coll_math((void *)(uintptr_t)call->dest, (const void *)(uintptr_t)call->source, call->n,
						       call->type, call->op);
	struct shmd_dev_ctx *ctx = stream_ctx(call);
	struct shmd_dev_mode mode;

	if (call->what == STREAM_NOTHING)
		return;
	mode = shmd_dev_ctx_mode(ctx, STREAM_SCOPE(SHMD_DEV_BLOCK));
	stream_end(call, call->what == STREAM_REDUCE ? shmd_dev_reduce_as(ctx, stream_team(call), &args, mode)
						     : shmd_dev_reduce_scatter_as(ctx, stream_team(call), &args, mode));
}

#endif
