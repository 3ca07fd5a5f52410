/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who takes part in a call: thread, warp or block.
 *
 * Scope thread: each calling thread has an operation of its own. Lanes of a warp that happen to call together form
 * a group, which shares one reservation, one CQE and one doorbell; that is an optimisation and no promise. Scope
 * warp and block: all threads of it call with the same arguments, one of them (the leader) acts, and all return its
 * result after a barrier of the scope; what they wrote before the call is covered by the operation.
 *
 * In the C build a warp and a block are one thread.
 */
#ifndef SHMD_DEV_COOP_H
#define SHMD_DEV_COOP_H

#include <shmd/abi/dev-state.h>
#include <shmd/dev/annotate.h>
#include <shmd/dev/args.h>

/* Flag of a mode in scope thread: form no group. Of shmd_dev_mode_alone. */
#define SHMD_DEV_ALONE 0x2u

/* ---- scope warp and block -------------------------------------------------------------------------------- */

#if SHMD_DEV_CUDA
SHMD_DEV uint32_t shmd_dev_thread_rank(void)
{
	return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
#endif

/* Waits until all of the scope have come; 1 for the one who acts. */
SHMD_DEV int shmd_dev_scope_enter(int scope)
{
#if SHMD_DEV_CUDA
	if (scope == SHMD_DEV_WARP) {
		__syncwarp();
		return shmd_dev_lane_id() == 0;
	}
	if (scope == SHMD_DEV_BLOCK) {
		__syncthreads();
		return shmd_dev_thread_rank() == 0;
	}
#endif
	(void)scope;
	return 1;
}

/* The leader's value, to all of the scope. */
SHMD_DEV uint64_t shmd_dev_scope_share(int scope, uint64_t value)
{
#if SHMD_DEV_CUDA
	if (scope == SHMD_DEV_WARP)
		return __shfl_sync(0xffffffffu, (unsigned long long)value, 0);
	if (scope == SHMD_DEV_BLOCK) {
		__shared__ uint64_t cell;

		if (shmd_dev_thread_rank() == 0)
			cell = value;
		__syncthreads();
		value = cell;
		/* Nobody writes the cell again before all have read it. */
		__syncthreads();
	}
#endif
	(void)scope;
	return value;
}

/* Ends what shmd_dev_scope_enter began: all return the leader's status. */
SHMD_DEV int shmd_dev_scope_leave(int scope, int status)
{
	if (scope == SHMD_DEV_THREAD)
		return status;
	return (int)(int64_t)shmd_dev_scope_share(scope, (uint64_t)(int64_t)status);
}

/* ---- scope thread: lanes that call together -------------------------------------------------------------- */

/* Known when compiled: one thread acts for itself. */
SHMD_DEV int shmd_dev_mode_is_lone(const struct shmd_dev_mode *mode)
{
	return mode->sharing == SHMD_SHARING_EXCLUSIVE || (mode->flags & SHMD_DEV_ALONE) != 0;
}

/* Whether no other lane of the warp runs with this one now. */
SHMD_DEV int shmd_dev_is_alone(const struct shmd_dev_mode *mode)
{
#if SHMD_DEV_CUDA
	uint32_t lanes;

	if (mode->scope != SHMD_DEV_THREAD || mode->sharing == SHMD_SHARING_EXCLUSIVE)
		return 0;
	lanes = __activemask();
	return (lanes & (lanes - 1)) == 0;
#else
	(void)mode;
	return 0;
#endif
}

/* For a lane that is: what is made for groups folds away. */
SHMD_DEV struct shmd_dev_mode shmd_dev_mode_alone(const struct shmd_dev_mode *mode)
{
	struct shmd_dev_mode alone = *mode;

	alone.scope = SHMD_DEV_THREAD;
	alone.flags |= SHMD_DEV_ALONE;
	return alone;
}

/* Lanes that share a reservation, in order of lane. Alone in the C build and in the other scopes. */
struct shmd_dev_group {
	uint32_t mask;
	uint32_t rank;
	uint32_t size;
};

SHMD_DEV int shmd_dev_group_is_leader(const struct shmd_dev_group *group)
{
	return group->rank == 0;
}

SHMD_DEV int shmd_dev_group_is_last(const struct shmd_dev_group *group)
{
	return group->rank == group->size - 1;
}

#if SHMD_DEV_CUDA
SHMD_DEV void shmd_dev_group_set(struct shmd_dev_group *group, uint32_t mask)
{
	uint32_t lane = shmd_dev_lane_id();

	group->mask = mask;
	group->rank = (uint32_t)__popc(mask & ((1u << lane) - 1));
	group->size = (uint32_t)__popc(mask);
}
#endif

/*
 * Form a group of callers with this QP, at most `limit` of them, whose posts have the same shape: `shape` is a
 * number below 128 that says all about the reservation.
 */
SHMD_DEV void shmd_dev_group_form(struct shmd_dev_group *group, const struct shmd_dev_qp *qp,
				  const struct shmd_dev_mode *mode, uint32_t shape, uint32_t limit)
{
	group->mask = 1;
	group->rank = 0;
	group->size = 1;
#if SHMD_DEV_CUDA
	/* One thread acts. */
	if (mode->scope != SHMD_DEV_THREAD || mode->sharing == SHMD_SHARING_EXCLUSIVE ||
	    mode->flags & SHMD_DEV_ALONE)
		return;
	/* Addresses have at most 57 bits. */
	shmd_dev_group_set(group, __match_any_sync(__activemask(),
						   (unsigned long long)(uintptr_t)qp ^
							   ((unsigned long long)shape << 57)));
	if (SHMD_DEV_UNLIKELY(group->size > 1) && group->size > limit)
		shmd_dev_group_set(group, __match_any_sync(group->mask, group->rank / limit));
#else
	(void)qp;
	(void)mode;
	(void)shape;
	(void)limit;
#endif
}

/* What the lanes wrote comes before what the leader does next. */
SHMD_DEV void shmd_dev_group_sync(const struct shmd_dev_group *group)
{
#if SHMD_DEV_CUDA
	if (group->size > 1)
		__syncwarp(group->mask);
#else
	(void)group;
#endif
}

/* The leader's value, to all of the group. */
SHMD_DEV uint64_t shmd_dev_group_share(const struct shmd_dev_group *group, uint64_t value)
{
#if SHMD_DEV_CUDA
	if (group->size == 1)
		return value;
	return __shfl_sync(group->mask, (unsigned long long)value, __ffs((int)group->mask) - 1);
#else
	(void)group;
	return value;
#endif
}

#endif
