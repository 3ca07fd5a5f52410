/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bodies of the kernels behind calls on streams. CUDA; and C, in which a test runs them as the single thread of their block.
 *
 * All threads of the block call. A failure is reported once, by the first that fails on this PE until the host has taken it.
 */
#ifndef SHMD_STREAM_KERNELS_H
#define SHMD_STREAM_KERNELS_H

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

STREAM_FN bool stream_is_first_failure(struct stream_failure *failure, int status)
{
#if defined(__CUDACC__)
	return threadIdx.x == 0 && atomicCAS(&failure->status, 0, status) == 0;
#else
	int32_t none = 0;

	return __atomic_compare_exchange_n(&failure->status, &none, status, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
#endif
}

STREAM_FN void stream_end(const struct stream_call *call, int status)
{
	struct stream_failure *failure = (struct stream_failure *)(uintptr_t)call->failure_addr;

	if (status == SHMD_DEV_OK || !stream_is_first_failure(failure, status))
		return;
	failure->what = call->what;
	failure->pe = call->pe;
}

STREAM_FN int stream_word_status(const struct stream_call *call)
{
	struct shmd_dev_ctx *ctx = stream_ctx(call);

	if (call->what == STREAM_SIGNAL)
		return shmd_dev_signal(ctx, shmd_dev_pe_signal_of((uint64_t *)(uintptr_t)call->dest, (int)call->op, call->value), call->pe);
	if (call->what == STREAM_WAIT)
		return shmd_dev_wait_until(ctx, (const void *)(uintptr_t)call->dest, call->type, call->op, call->value);
	return shmd_dev_quiet(ctx);
}

STREAM_FN void stream_word(const struct stream_call *call)
{
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
	struct shmd_dev_mode mode = shmd_dev_ctx_mode(ctx, STREAM_SCOPE(SHMD_DEV_WARP));

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
	struct shmd_dev_mode mode = shmd_dev_ctx_mode(ctx, STREAM_SCOPE(SHMD_DEV_BLOCK));
	int status;

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
	struct shmd_dev_mode mode = shmd_dev_ctx_mode(ctx, STREAM_SCOPE(SHMD_DEV_BLOCK));

	stream_end(call, call->what == STREAM_REDUCE ? shmd_dev_reduce_as(ctx, stream_team(call), &args, mode)
						     : shmd_dev_reduce_scatter_as(ctx, stream_team(call), &args, mode));
}

#endif
