/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collective operations on teams, on the world state of <shmd/abi/world.h>: what the host calls of <shmd-coll.h> do, for kernels and CPU
 * threads. Call shmd_dev_*; names with shmdi_ and SHMDI_ are internal and may change.
 *
 * All PEs of the team call, in the same order, with equal arguments (shmd_dev_collect() excepted); one call at a time on each PE of a
 * team. dest and source are the caller's own copies of symmetric memory. A PE's dest changes, and its source is read by others, only
 * between its call and its return, so calls follow each other without a barrier.
 *
 * Functions return enum shmd_dev_status as those of <shmd/dev/pe.h> do. SHMD_DEV_INVALID: an argument, or a reduction or scan that goes by
 * queues and whose context has less than 128 bytes for unregistered data; nothing was done, and the other PEs wait for this one until their
 * time limit. SHMD_DEV_PE_GONE: a PE has ended; a member also if the program has forgiven it. After any failure but SHMD_DEV_INVALID dest
 * is undefined, and until the team ends other PEs may still write to it and read source. If the program changes source meanwhile, the calls
 * of those that read it fail, too. The team has no more collectives on this PE: they return the same status; its syncs still work where no member has ended.
 *
 * Scope, time limit and context are as in <shmd/dev/pe.h>. The context reaches all members; its own team does not matter. A change of
 * context is as for shmd_dev_team_sync().
 */
#ifndef SHMD_DEV_COLL_H
#define SHMD_DEV_COLL_H

#include <shmd/abi/world.h>
#include <shmd/dev/pe.h>

/* ---- arguments --------------------------------------------------------------------------------------------------------------- */

enum shmd_dev_type {
	SHMD_DEV_TYPE_INT8 = 1,
	SHMD_DEV_TYPE_INT16 = 2,
	SHMD_DEV_TYPE_INT32 = 3,
	SHMD_DEV_TYPE_INT64 = 4,
	SHMD_DEV_TYPE_UINT8 = 5,
	SHMD_DEV_TYPE_UINT16 = 6,
	SHMD_DEV_TYPE_UINT32 = 7,
	SHMD_DEV_TYPE_UINT64 = 8,
	SHMD_DEV_TYPE_FLOAT = 9,
	SHMD_DEV_TYPE_DOUBLE = 10,
	SHMD_DEV_TYPE_LONG_DOUBLE = 11, /* this one and complex numbers: in the C build */
	SHMD_DEV_TYPE_COMPLEX_FLOAT = 12, /* SUM and PROD */
	SHMD_DEV_TYPE_COMPLEX_DOUBLE = 13,
	SHMD_DEV_TYPE_HALF = 14, /* IEEE 754, of 16 bits; this one and the next: computed as floats and rounded after each operation */
	SHMD_DEV_TYPE_BFLOAT16 = 15,
};

/* Numbers of 16 bits as floats; and a float as the nearest of them, the even one of two. */
SHMDI_FN float shmd_dev_float_of_half(uint16_t half);
SHMDI_FN uint16_t shmd_dev_half_of_float(float v);
SHMDI_FN float shmd_dev_float_of_bfloat16(uint16_t bfloat16);
SHMDI_FN uint16_t shmd_dev_bfloat16_of_float(float v);

enum shmd_dev_reduce_op {
	SHMD_DEV_REDUCE_SUM = 1, /* integers wrap around */
	SHMD_DEV_REDUCE_PROD = 2,
	SHMD_DEV_REDUCE_MIN = 3,
	SHMD_DEV_REDUCE_MAX = 4,
	SHMD_DEV_REDUCE_AND = 5, /* bitwise, of integers */
	SHMD_DEV_REDUCE_OR = 6,
	SHMD_DEV_REDUCE_XOR = 7,
};

/* Arguments of a call; a function reads those that it has. */
struct shmd_dev_coll {
	void *dest;
	const void *source;
	uint64_t n; /* bytes of one PE, or of one block; elements where there is a type */
	uint32_t root; /* broadcast */
	uint32_t type, op; /* enum shmd_dev_type, enum shmd_dev_reduce_op */
	struct shmd_dev_stride stride; /* alltoalls: n elements of block_bytes for each PE */
};

/* Arguments that only move bytes. */
SHMDI_FN struct shmd_dev_coll shmd_dev_coll_of(void *dest, const void *source, uint64_t n)
{
	struct shmd_dev_coll args;

	args.dest = dest;
	args.source = source;
	args.n = n;
	args.root = 0;
	args.type = 0;
	args.op = 0;
	args.stride.n = 0;
	args.stride.block_bytes = 0;
	args.stride.dest_stride_bytes = 0;
	args.stride.source_stride_bytes = 0;
	return args;
}

/* Arguments that compute. */
SHMDI_FN struct shmd_dev_coll shmd_dev_coll_math(void *dest, const void *source, uint64_t n, uint32_t type, uint32_t op)
{
	struct shmd_dev_coll args = shmd_dev_coll_of(dest, source, n);

	args.type = type;
	args.op = op;
	return args;
}

/* Bytes of an element; 0 for an unknown type, or one that the build does not have. */
SHMDI_FN uint32_t shmd_dev_type_bytes(uint32_t type);

/* How a call works. On teams that have words, reductions of up to SHMD_DEV_WORDS_DATA bytes go by these, whatever the plan. */
enum shmd_dev_coll_plan {
	SHMD_DEV_COLL_LOCAL = 0, /* one PE: a copy */
	SHMD_DEV_COLL_SLOTS = 1, /* each PE tells each other, and the data travels with it */
	SHMD_DEV_COLL_FLAT = 2, /* each PE tells each other; data is read where it is */
	SHMD_DEV_COLL_ROUNDS = 3, /* rounds as in a sync of the team; data is read where it is */
};
/* For messages of so many bytes; the same on all PEs of the team. */
SHMDI_FN enum shmd_dev_coll_plan shmd_dev_coll_plan(const struct shmd_dev_team *team, uint64_t bytes);
/* Slots of each sender in the scratch of a team: 16 among 2 members, 2 among 16. A power of two. Never waits. */
SHMDI_FN uint32_t shmd_dev_coll_depth(const struct shmd_dev_team *team);

/* ---- moving: in scope thread, with the time limit of the context; the _as form has a mode ------------------------------------- */

SHMDI_FN int shmd_dev_broadcast(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, void *dest, const void *source, uint64_t bytes,
				uint32_t root);
SHMDI_FN int shmd_dev_broadcast_as(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args,
				   struct shmd_dev_mode mode);
SHMDI_FN int shmd_dev_fcollect(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, void *dest, const void *source, uint64_t bytes);
SHMDI_FN int shmd_dev_fcollect_as(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args,
				  struct shmd_dev_mode mode);
/* SHMD_DEV_INVALID that dest has no room for all, which shows in the call, is as any other failure. */
SHMDI_FN int shmd_dev_collect(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, void *dest, const void *source, uint64_t bytes);
SHMDI_FN int shmd_dev_collect_as(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args,
				 struct shmd_dev_mode mode);
SHMDI_FN int shmd_dev_alltoall(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, void *dest, const void *source, uint64_t bytes);
SHMDI_FN int shmd_dev_alltoall_as(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args,
				  struct shmd_dev_mode mode);
SHMDI_FN int shmd_dev_alltoalls(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, void *dest, const void *source,
				const struct shmd_dev_stride *stride);
SHMDI_FN int shmd_dev_alltoalls_as(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args,
				   struct shmd_dev_mode mode);

/* ---- computing: arguments from shmd_dev_coll_math() ------------------------------------------------------------------------------ */

SHMDI_FN int shmd_dev_reduce(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args);
SHMDI_FN int shmd_dev_reduce_as(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args,
				struct shmd_dev_mode mode);
/* source has n elements for each PE. */
SHMDI_FN int shmd_dev_reduce_scatter(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args);
SHMDI_FN int shmd_dev_reduce_scatter_as(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args,
					struct shmd_dev_mode mode);
SHMDI_FN int shmd_dev_scan_inclusive(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args);
SHMDI_FN int shmd_dev_scan_inclusive_as(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args,
					struct shmd_dev_mode mode);
SHMDI_FN int shmd_dev_scan_exclusive(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args);
SHMDI_FN int shmd_dev_scan_exclusive_as(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args,
					struct shmd_dev_mode mode);

#include <shmd/dev/impl/coll-collect.h>
#include <shmd/dev/impl/coll-move.h>
#include <shmd/dev/impl/coll-reduce.h>

#endif
