/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads that take part in a call: one, a warp or a block.
 *
 * Scope thread: each calling thread has an operation of its own. Lanes of a warp that happen to call together form
 * a group, which shares one reservation, one CQE and one doorbell; that is an optimisation, not a promise. Scope
 * warp and block: all threads of it call with the same arguments, one of them (the leader) acts, and all return its
 * result after a barrier of the scope; what they wrote before the call is covered by the operation.
 *
 * In the C build a warp and a block are one thread.
 */
#ifndef SHMDI_COOP_H
#define SHMDI_COOP_H

#include <shmd/abi/dev-state.h>
#include <shmd/dev/impl/annotate.h>
#include <shmd/dev/args.h>

/* A flag of modes in scope thread, set by shmdi_mode_alone: form no group. */
#define SHMDI_ALONE 0x2u

/* ---- scope warp and block -------------------------------------------------------------------------------- */

#if SHMDI_CUDA
SHMDI_FN uint32_t shmdi_thread_rank(void)
{
	return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
#endif

/* The caller's number among the threads of the scope, and how many they are. */
SHMDI_FN uint32_t shmdi_scope_rank(int scope)
{
#if SHMDI_CUDA
	return scope == SHMD_DEV_WARP ? shmdi_lane_id() : scope == SHMD_DEV_BLOCK ? shmdi_thread_rank() : 0;
#else
	(void)scope;
	return 0;
#endif
}

SHMDI_FN uint32_t shmdi_scope_size(int scope)
{
#if SHMDI_CUDA
	return scope == SHMD_DEV_WARP ? 32 : scope == SHMD_DEV_BLOCK ? blockDim.x * blockDim.y * blockDim.z : 1;
#else
	(void)scope;
	return 1;
#endif
}

/* Wait for all threads of the scope; return 1 to the one that acts. */
SHMDI_FN int shmdi_scope_enter(int scope)
{
#if SHMDI_CUDA
	if (scope == SHMD_DEV_WARP) {
		__syncwarp();
		return shmdi_lane_id() == 0;
	}
	if (scope == SHMD_DEV_BLOCK) {
		__syncthreads();
		return shmdi_thread_rank() == 0;
	}
#endif
	(void)scope;
	return 1;
}

/* The one that acts, where all have met. */
SHMDI_FN int shmdi_scope_is_leader(int scope)
{
#if SHMDI_CUDA
	return shmdi_scope_rank(scope) == 0;
#else
	(void)scope;
	return 1;
#endif
}

/* Whether all threads of the scope say yes: one answer for all of them, and a barrier as shmdi_scope_enter(). */
SHMDI_FN int shmdi_scope_all(int scope, int says_yes)
{
#if SHMDI_CUDA
	if (scope == SHMD_DEV_WARP) {
		__syncwarp();
		return __all_sync(0xffffffffu, says_yes);
	}
	if (scope == SHMD_DEV_BLOCK)
		return __syncthreads_and(says_yes);
#endif
	(void)scope;
	return says_yes;
}

/* Whether any thread of the scope says yes: one answer for all of them, and a barrier. */
SHMDI_FN int shmdi_scope_any(int scope, int says_yes)
{
#if SHMDI_CUDA
	if (scope == SHMD_DEV_WARP) {
		__syncwarp();
		return __any_sync(0xffffffffu, says_yes);
	}
	if (scope == SHMD_DEV_BLOCK)
		return __syncthreads_or(says_yes);
#endif
	(void)scope;
	return says_yes;
}

/* Return the leader's value to all threads of the scope. */
SHMDI_FN uint64_t shmdi_scope_share(int scope, uint64_t value)
{
#if SHMDI_CUDA
	if (scope == SHMD_DEV_WARP)
		return __shfl_sync(0xffffffffu, (unsigned long long)value, 0);
	if (scope == SHMD_DEV_BLOCK) {
		__shared__ uint64_t cell;

		if (shmdi_thread_rank() == 0)
			cell = value;
		__syncthreads();
		value = cell;
		/* The next call must not write the cell before all threads have read it. */
		__syncthreads();
	}
#endif
	(void)scope;
	return value;
}

/* The end of shmdi_scope_enter: all threads return the leader's status. */
SHMDI_FN int shmdi_scope_leave(int scope, int status)
{
	if (scope == SHMD_DEV_THREAD)
		return status;
#if SHMDI_CUDA
	/* One barrier where sharing a value takes two. */
	if (scope == SHMD_DEV_BLOCK && SHMDI_LIKELY(!__syncthreads_or(shmdi_thread_rank() == 0 && status != SHMD_DEV_OK)))
		return SHMD_DEV_OK;
#endif
	return (int)(int64_t)shmdi_scope_share(scope, (uint64_t)(int64_t)status);
}

/* The status of one of those that failed, for all threads of the scope. */
SHMDI_SLOW int shmdi_scope_failure(int scope, int status)
{
#if SHMDI_CUDA
	if (scope == SHMD_DEV_WARP)
		return __shfl_sync(0xffffffffu, status, __ffs((int)__ballot_sync(0xffffffffu, status != SHMD_DEV_OK)) - 1);
	if (scope == SHMD_DEV_BLOCK) {
		__shared__ int cell;

		if (status)
			cell = status;
		__syncthreads();
		status = cell;
		__syncthreads();
	}
#endif
	(void)scope;
	return status;
}

/* Each thread has a status: all return success, or one of the failures. */
SHMDI_FN int shmdi_scope_agree(int scope, int status)
{
	return SHMDI_LIKELY(!shmdi_scope_any(scope, status != SHMD_DEV_OK)) ? (int)SHMD_DEV_OK : shmdi_scope_failure(scope, status);
}

/* ---- scope thread: lanes that call together -------------------------------------------------------------- */

/* Known at compile time: one thread acts for itself. */
SHMDI_FN int shmdi_mode_is_lone(const struct shmd_dev_mode *mode)
{
	return mode->sharing == SHMD_SHARING_EXCLUSIVE || (mode->flags & SHMDI_ALONE) != 0;
}

/* Whether no other lane of the warp runs with this one now. */
SHMDI_FN int shmdi_is_alone(const struct shmd_dev_mode *mode)
{
#if SHMDI_CUDA
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

/* A mode for a lane that is alone: code for groups folds away. */
SHMDI_FN struct shmd_dev_mode shmdi_mode_alone(const struct shmd_dev_mode *mode)
{
	struct shmd_dev_mode alone = *mode;

	alone.scope = SHMD_DEV_THREAD;
	alone.flags |= SHMDI_ALONE;
	return alone;
}

/* Lanes that share a reservation, in order of lane. One caller in the C build and in the other scopes. */
struct shmdi_group {
	uint32_t mask;
	uint32_t rank;
	uint32_t size;
};

SHMDI_FN int shmdi_group_is_leader(const struct shmdi_group *group)
{
	return group->rank == 0;
}

SHMDI_FN int shmdi_group_is_last(const struct shmdi_group *group)
{
	return group->rank == group->size - 1;
}

#if SHMDI_CUDA
SHMDI_FN void shmdi_group_set(struct shmdi_group *group, uint32_t mask)
{
	uint32_t lane = shmdi_lane_id();

	group->mask = mask;
	group->rank = (uint32_t)__popc(mask & ((1u << lane) - 1));
	group->size = (uint32_t)__popc(mask);
}
#endif

/*
 * Form a group of at most `limit` callers with this QP whose posts have the same shape. `shape`, below 128, describes the
 * reservation.
 */
SHMDI_FN void shmdi_group_form(struct shmdi_group *group, const struct shmd_dev_qp *qp,
			       const struct shmd_dev_mode *mode, uint32_t shape, uint32_t limit)
{
	group->mask = 1;
	group->rank = 0;
	group->size = 1;
#if SHMDI_CUDA
	/* One thread acts. */
	if (mode->scope != SHMD_DEV_THREAD || mode->sharing == SHMD_SHARING_EXCLUSIVE ||
	    mode->flags & SHMDI_ALONE)
		return;
	/* Addresses have at most 57 bits. */
	shmdi_group_set(group, __match_any_sync(__activemask(),
						(unsigned long long)(uintptr_t)qp ^
							((unsigned long long)shape << 57)));
	if (SHMDI_UNLIKELY(group->size > 1) && group->size > limit)
		shmdi_group_set(group, __match_any_sync(group->mask, group->rank / limit));
#else
	(void)qp;
	(void)mode;
	(void)shape;
	(void)limit;
#endif
}

/* Stores of all lanes come before the leader's next action. */
SHMDI_FN void shmdi_group_sync(const struct shmdi_group *group)
{
#if SHMDI_CUDA
	if (group->size > 1)
		__syncwarp(group->mask);
#else
	(void)group;
#endif
}

/* Return the leader's value to all lanes of the group. */
SHMDI_FN uint64_t shmdi_group_share(const struct shmdi_group *group, uint64_t value)
{
#if SHMDI_CUDA
	if (group->size == 1)
		return value;
	return __shfl_sync(group->mask, (unsigned long long)value, __ffs((int)group->mask) - 1);
#else
	(void)group;
	return value;
#endif
}

#endif
