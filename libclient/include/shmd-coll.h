/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collective operations on a team: data that all its PEs pass to each other. <shmd.h> includes this.
 *
 * dest and source are symmetric, and all PEs of the team pass equal arguments, but for what the comment of a function excepts.
 * Calls on one team come in the same order on all its PEs; calls on different teams, which may share PEs, in any order that does not
 * deadlock, and at once in different threads. No barrier is needed before, between or behind them:
 *
 *	A PE's dest changes only between the call and the return of that PE, so dest need not be made ready on other PEs
 *	A PE's source is read by other PEs only between its call and its return; then it may be changed
 *	When a PE returns, its own dest is complete. Other PEs may not have returned, nor even have called, unless data of theirs is in
 *	dest: these calls are no barriers, and they do not complete operations that were begun before
 *
 * GPU memory: dest and source may both be in the GPU heap, but for collect, alltoalls and scans (-EOPNOTSUPP). Then a kernel of the library carries
 * the call out, in an order with those of the program's kernels on the team, so no kernel uses the team meanwhile. The call waits for that kernel, and
 * for no other; what kernels of the program write to source is complete before.
 *
 * dest and source do not overlap, but where a comment allows that they are equal. 0 bytes or elements: returns at once, whatever the
 * addresses, and waits for nobody. Addresses need no alignment beyond that of their elements.
 *
 * These rules hold for every function:
 *	Blocks	until the PEs have called whose data it needs; with more than a few bytes, or many PEs, until all have called and are through
 *		with its memory. Each wait for a PE has the time limit of the world
 *	Errors	those of <shmd.h>. -EINVAL memory outside the symmetric heap, a PE out of range, an unknown type, or an operation that the type
 *		does not have: nothing was done, and other PEs wait for this one until their time limit. -EHOSTDOWN a PE has ended; one of
 *		the team also if it was forgiven. After any failure but -EINVAL dest is undefined, and until the team ends other PEs may still
 *		write to it and read source. Calls that read what the program changed there meanwhile fail, too. This PE has no more of these
 *		calls on the team: they return the same error at once. Where no PE of it has ended, its syncs and barriers and its end still
 *		work; PEs that are left make a new team
 *	Since	0.2
 */
#ifndef SHMD_COLL_H
#define SHMD_COLL_H

#include <stddef.h>
#include <stdint.h>

#include <shmemclient.h>

#ifdef __cplusplus
extern "C" {
#endif

struct shmd_stride;
struct shmd_team;

/* ---- moving ----------------------------------------------------------------------------------------------------------------- */

/*
 * shmd_broadcast - source of the PE root, to dest of all PEs, its own included
 *
 * dest and source may be equal. root is a PE of the team.
 */
SHMD_EXPORT int shmd_broadcast(struct shmd_team *team, void *dest, const void *source, size_t bytes, int root);
/* `bytes` of every PE, one behind the other in the order of the team, to all: dest has room for bytes * n_pes. */
SHMD_EXPORT int shmd_fcollect(struct shmd_team *team, void *dest, const void *source, size_t bytes);
/*
 * shmd_collect - as shmd_fcollect(), but each PE passes a number of bytes of its own, which may be 0
 *
 * It waits for all PEs, also with 0 bytes: others may have some. dest has room for the sum; -EINVAL that it has not, which shows in the
 * call, is as any other failure.
 */
SHMD_EXPORT int shmd_collect(struct shmd_team *team, void *dest, const void *source, size_t bytes);
/* Block i of source, of so many bytes, goes to PE i of the team; block i of dest came from it. */
SHMD_EXPORT int shmd_alltoall(struct shmd_team *team, void *dest, const void *source, size_t bytes);
/*
 * shmd_alltoalls - as shmd_alltoall(), with elements apart from each other
 *
 * stride	n elements of block_bytes for each PE. Element k of PE i is at source + (i * n + k) * source_stride_bytes, and element k that
 *		came from PE i at dest + (i * n + k) * dest_stride_bytes. Strides are at least block_bytes
 */
SHMD_EXPORT int shmd_alltoalls(struct shmd_team *team, void *dest, const void *source, const struct shmd_stride *stride);

/* ---- computing -------------------------------------------------------------------------------------------------------------- */

enum shmd_type {
	SHMD_TYPE_INT8 = 1,
	SHMD_TYPE_INT16 = 2,
	SHMD_TYPE_INT32 = 3,
	SHMD_TYPE_INT64 = 4,
	SHMD_TYPE_UINT8 = 5,
	SHMD_TYPE_UINT16 = 6,
	SHMD_TYPE_UINT32 = 7,
	SHMD_TYPE_UINT64 = 8,
	SHMD_TYPE_FLOAT = 9,
	SHMD_TYPE_DOUBLE = 10,
	SHMD_TYPE_LONG_DOUBLE = 11, /* on the host only */
	SHMD_TYPE_COMPLEX_FLOAT = 12, /* complex numbers: on the host only, with SUM and PROD */
	SHMD_TYPE_COMPLEX_DOUBLE = 13,
	SHMD_TYPE_HALF = 14, /* IEEE 754, of 16 bits; this one and the next: computed as floats and rounded after each operation */
	SHMD_TYPE_BFLOAT16 = 15,
};

enum shmd_reduce_op {
	SHMD_REDUCE_SUM = 1, /* integers wrap around */
	SHMD_REDUCE_PROD = 2,
	SHMD_REDUCE_MIN = 3, /* with a NaN among them: one of the elements */
	SHMD_REDUCE_MAX = 4,
	SHMD_REDUCE_AND = 5, /* bitwise, of integers */
	SHMD_REDUCE_OR = 6,
	SHMD_REDUCE_XOR = 7,
};

/*
 * shmd_reduce - element by element over all PEs, the result to all of them
 *
 * n elements; dest and source may be equal. Elements are combined in the order of the team, so floating point gives what a loop over
 * the PEs gives, with the same bits on all of them.
 */
SHMD_EXPORT int shmd_reduce(struct shmd_team *team, void *dest, const void *source, size_t n, enum shmd_type type,
			    enum shmd_reduce_op op);
/*
 * shmd_reduce_scatter - the same, each PE gets its part
 *
 * source has n * n_pes elements, dest n: block i of the result goes to PE i of the team. dest and source may be equal; then the rest of
 * source is undefined.
 */
SHMD_EXPORT int shmd_reduce_scatter(struct shmd_team *team, void *dest, const void *source, size_t n, enum shmd_type type,
				    enum shmd_reduce_op op);
/*
 * shmd_scan_inclusive - element by element over the PEs up to and with this one
 *
 * n elements; dest and source may be equal. shmd_scan_exclusive() leaves this one out: PE 0 of the team gets the neutral element (sum: 0,
 * product: 1, minimum: the greatest value, ...). Combined in the order of the team.
 */
SHMD_EXPORT int shmd_scan_inclusive(struct shmd_team *team, void *dest, const void *source, size_t n, enum shmd_type type,
				    enum shmd_reduce_op op);
SHMD_EXPORT int shmd_scan_exclusive(struct shmd_team *team, void *dest, const void *source, size_t n, enum shmd_type type,
				    enum shmd_reduce_op op);
/* Bytes of an element; 0 for an unknown type. Never blocks. */
SHMD_EXPORT size_t shmd_type_bytes(enum shmd_type type);

#ifdef __cplusplus
}
#endif

#endif
