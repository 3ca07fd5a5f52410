/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations in the order of a CUDA stream, on the GPU heap of a world. Include it beside <shmd.h>.
 *
 * A call puts its operation into the stream and returns. The operation begins when what came before in the stream has ended, and what comes
 * behind it waits for its end. All of them may be captured into a CUDA graph; the graph is launched while the world, the team and the
 * context live. These end when the stream has passed all calls on them: kernels do not notice the end. Puts, gets and signals of one
 * stream to one PE are carried out in their order.
 *
 * stream	a CUstream or cudaStream_t of the GPU of the heap; NULL: the default stream of its context
 * Memory	dest of a put, source of a get, words, and both of a collective are in the GPU heap. The other side of a put or get is any
 *		memory that CUDA copies, and stays unchanged until the stream has passed the call. Where a queue leads to the PE it is memory
 *		that kernels see at the same address: GPU memory, or host memory that CUDA allocated
 * Waits	in the stream have the time limit of the context, or of the world for calls on teams. The first call of a world loads its kernels,
 *		for which CUDA may wait until kernels that run have ended; so it comes before kernels that wait for other PEs. Members
 *		count syncs and collectives on streams and in kernels of their own together, in one order on all members; the host's apart
 * Errors	at the call: -EINVAL an argument; -EHOSTDOWN put or get of a PE that has ended; -EOPNOTSUPP the world has no GPU heap; the
 *		library was built without nvcc, or a NIC has no dynamic connections (all but put and get of PEs that are mapped); others of
 *		CUDA. Later ones: shmd_stream_status()
 * Threads	any; one call at a time on a team
 * Blocks	a first call for a world, a context or a team, for CUDA; a put or get where the other side is host memory that CUDA neither
 *		allocated nor registered, as CUDA's copies of it do: until the stream has passed it; others never
 * Since	0.2
 */
#ifndef SHMD_STREAM_H
#define SHMD_STREAM_H

#include <shmd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- one-sided operations */

/* Complete when the stream has passed it. */
SHMD_EXPORT int shmd_put_on_stream(struct shmd_ctx *ctx, void *dest, const void *source, size_t bytes, int pe, void *stream);
SHMD_EXPORT int shmd_get_on_stream(struct shmd_ctx *ctx, void *dest, const void *source, size_t bytes, int pe, void *stream);
/* A value of 1, 2, 4 or 8 aligned bytes. */
SHMD_EXPORT int shmd_p_on_stream(struct shmd_ctx *ctx, void *dest, uint64_t value, uint32_t bytes, int pe, void *stream);
SHMD_EXPORT int shmd_signal_on_stream(struct shmd_ctx *ctx, uint64_t *signal, uint64_t value, enum shmd_signal_op op, int pe, void *stream);
/* A PE that sees the signal sees the data. */
SHMD_EXPORT int shmd_put_signal_on_stream(struct shmd_ctx *ctx, void *dest, const void *source, size_t bytes, uint64_t *signal,
					  uint64_t value, enum shmd_signal_op op, int pe, void *stream);
/* Until `*word cmp value`, a word of this PE of 2, 4 or 8 aligned bytes; cmp: as in shmd_wait_until(). */
SHMD_EXPORT int shmd_wait_until_on_stream(struct shmd_ctx *ctx, const void *word, uint32_t bytes, uint32_t cmp, uint64_t value, void *stream);
/* Until all words hold. status and values, if there are any, are memory that kernels see at the same address, and are read then. */
SHMD_EXPORT int shmd_wait_until_all_on_stream(struct shmd_ctx *ctx, const struct shmd_wait *wait, void *stream);
/* All that kernels began on the context is complete behind it. */
SHMD_EXPORT int shmd_quiet_on_stream(struct shmd_ctx *ctx, void *stream);

/* ---- teams: members make the same calls, in one order */

SHMD_EXPORT int shmd_team_sync_on_stream(struct shmd_team *team, void *stream);
/* Quiet of the world's context, then the sync. */
SHMD_EXPORT int shmd_team_barrier_on_stream(struct shmd_team *team, void *stream);
/* As the functions of <shmd-coll.h> without the stream. */
SHMD_EXPORT int shmd_broadcast_on_stream(struct shmd_team *team, void *dest, const void *source, size_t bytes, int root, void *stream);
SHMD_EXPORT int shmd_fcollect_on_stream(struct shmd_team *team, void *dest, const void *source, size_t bytes, void *stream);
SHMD_EXPORT int shmd_alltoall_on_stream(struct shmd_team *team, void *dest, const void *source, size_t bytes, void *stream);
/* Types and operations of kernels: integers, float, double, half, bfloat16. */
SHMD_EXPORT int shmd_reduce_on_stream(struct shmd_team *team, void *dest, const void *source, size_t n, enum shmd_type type,
				      enum shmd_reduce_op op, void *stream);
SHMD_EXPORT int shmd_reduce_scatter_on_stream(struct shmd_team *team, void *dest, const void *source, size_t n, enum shmd_type type,
					      enum shmd_reduce_op op, void *stream);

/* ---- failures */

/*
 * shmd_stream_status - the first failure of an operation that a stream of this PE has passed, since the last call
 *
 * 0: none. Forgets what it returns. The program waits for its stream first, or learns of that failure by a later call.
 *
 * Blocks	for a copy of a few bytes
 * Errors	-ETIMEDOUT, -EHOSTDOWN, -ECONNRESET, -EIO as the function without the stream; -EINVAL an argument that only the kernel saw
 */
SHMD_EXPORT int shmd_stream_status(struct shmd_world *world);

#ifdef __cplusplus
}
#endif

#endif
