/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libshmd_device.bc: the functions of <shmd/dev/pe.h> and <shmd/dev/coll.h> as LLVM bitcode with C names, for languages that link bitcode into
 * their kernels, such as Triton. kernels/README.md describes it; python/shmemclient/_device.py has the list.
 *
 * Addresses are numbers of 64 bits, so a caller needs no types of ours. ctx and team are what shmd_ctx_gpu_dev() and shmd_team_gpu_dev()
 * returned, team 0 is the team of all PEs. Each function returns the status of the function in the header. A value goes to memory at
 * ret_value, where every calling thread writes it.
 *
 * FUNCTIONS(scope, SCOPE) makes the functions of one scope. The time limit is that of the context.
 */
#include "builtins.h"

#include <shmd/dev/coll.h>
#include <shmd/dev/pe.h>

#define SHMDB_API extern "C" __device__ int

SHMDB_FN struct shmd_dev_ctx *ctx_of(uint64_t ctx)
{
	return (struct shmd_dev_ctx *)ctx;
}

SHMDB_FN struct shmd_dev_team *team_of(uint64_t ctx, uint64_t team)
{
	return (struct shmd_dev_team *)(team ? team : ((const struct shmd_dev_world *)ctx_of(ctx)->world_addr)->world_team_addr);
}

SHMDB_FN struct shmd_dev_mode mode_of(uint64_t ctx, enum shmd_dev_scope scope)
{
	return shmd_dev_ctx_mode(ctx_of(ctx), scope);
}

SHMDB_FN struct shmd_dev_put_item item_of(uint64_t dest, uint64_t source, uint64_t bytes, int pe)
{
	return {(void *)dest, (const void *)source, bytes, (uint32_t)pe};
}

SHMDB_FN struct shmd_dev_pe_signal signal_of(uint64_t word, int op, uint64_t value)
{
	return shmd_dev_pe_signal_of((uint64_t *)word, op, value);
}

SHMDB_FN struct shmd_dev_amo amo_of(int op, int bytes, uint64_t value, uint64_t compare)
{
	struct shmd_dev_amo amo = shmd_dev_amo_of(op, (uint32_t)bytes, value);

	amo.compare = compare;
	return amo;
}

/* A value of `bytes` to the caller's memory, unless there is none. */
SHMDB_FN int value_to(uint64_t ret_value, int bytes, uint64_t value, int rc)
{
	if (rc)
		return rc;
	if (bytes == 8)
		*(uint64_t *)ret_value = value;
	else if (bytes == 4)
		*(uint32_t *)ret_value = (uint32_t)value;
	else if (bytes == 2)
		*(uint16_t *)ret_value = (uint16_t)value;
	else
		*(uint8_t *)ret_value = (uint8_t)value;
	return rc;
}

/* Look once. The threads of a scope look at different times, so one of them looks for all. */
SHMDB_FN int test_for_all(uint64_t ctx, uint64_t word, int bytes, int cmp, uint64_t value, int scope)
{
	int rc = SHMD_DEV_AGAIN;

	if (shmdi_scope_enter(scope))
		rc = shmd_dev_test(ctx_of(ctx), (const void *)word, (uint32_t)bytes, (uint32_t)cmp, value);
	return shmdi_scope_leave(scope, rc);
}

#define MOVES(scope, SCOPE)                                                                        \
	SHMDB_API shmd_bc_put_##scope(uint64_t ctx, uint64_t dest, uint64_t source, uint64_t bytes, int pe) \
	{                                                                                          \
		return shmd_dev_put_as(ctx_of(ctx), (void *)dest, (const void *)source, bytes, (uint32_t)pe, mode_of(ctx, SCOPE)); \
	}                                                                                          \
	SHMDB_API shmd_bc_put_nbi_##scope(uint64_t ctx, uint64_t dest, uint64_t source, uint64_t bytes, int pe) \
	{                                                                                          \
		return shmd_dev_put_nbi_as(ctx_of(ctx), (void *)dest, (const void *)source, bytes, (uint32_t)pe, mode_of(ctx, SCOPE)); \
	}                                                                                          \
	SHMDB_API shmd_bc_get_##scope(uint64_t ctx, uint64_t dest, uint64_t source, uint64_t bytes, int pe) \
	{                                                                                          \
		return shmd_dev_get_as(ctx_of(ctx), (void *)dest, (const void *)source, bytes, (uint32_t)pe, mode_of(ctx, SCOPE)); \
	}                                                                                          \
	SHMDB_API shmd_bc_get_nbi_##scope(uint64_t ctx, uint64_t dest, uint64_t source, uint64_t bytes, int pe) \
	{                                                                                          \
		return shmd_dev_get_nbi_as(ctx_of(ctx), (void *)dest, (const void *)source, bytes, (uint32_t)pe, mode_of(ctx, SCOPE)); \
	}                                                                                          \
	SHMDB_API shmd_bc_p_##scope(uint64_t ctx, uint64_t dest, uint64_t value, int bytes, int pe) \
	{                                                                                          \
		return shmd_dev_p_as(ctx_of(ctx), (void *)dest, value, (uint32_t)bytes, (uint32_t)pe, mode_of(ctx, SCOPE)); \
	}                                                                                          \
	SHMDB_API shmd_bc_g_##scope(uint64_t ctx, uint64_t ret_value, uint64_t source, int bytes, int pe) \
	{                                                                                          \
		uint64_t value = 0;                                                                \
		int rc = shmd_dev_g_as(ctx_of(ctx), (const void *)source, (uint32_t)bytes, (uint32_t)pe, mode_of(ctx, SCOPE), &value); \
                                                                                                   \
		return value_to(ret_value, bytes, value, rc);                                      \
	}

#define SIGNALS(scope, SCOPE)                                                                      \
	SHMDB_API shmd_bc_put_signal_##scope(uint64_t ctx, uint64_t dest, uint64_t source, uint64_t bytes, uint64_t word, uint64_t value, \
					     int op, int pe)                                       \
	{                                                                                          \
		return shmd_dev_put_signal_as(ctx_of(ctx), item_of(dest, source, bytes, pe), signal_of(word, op, value), mode_of(ctx, SCOPE)); \
	}                                                                                          \
	SHMDB_API shmd_bc_put_signal_nbi_##scope(uint64_t ctx, uint64_t dest, uint64_t source, uint64_t bytes, uint64_t word, uint64_t value, \
						 int op, int pe)                                   \
	{                                                                                          \
		return shmd_dev_put_signal_nbi_as(ctx_of(ctx), item_of(dest, source, bytes, pe), signal_of(word, op, value), mode_of(ctx, SCOPE)); \
	}                                                                                          \
	SHMDB_API shmd_bc_signal_##scope(uint64_t ctx, uint64_t word, uint64_t value, int op, int pe) \
	{                                                                                          \
		return shmd_dev_signal_as(ctx_of(ctx), signal_of(word, op, value), (uint32_t)pe, mode_of(ctx, SCOPE)); \
	}                                                                                          \
	SHMDB_API shmd_bc_wait_until_##scope(uint64_t ctx, uint64_t word, int bytes, int cmp, uint64_t value) \
	{                                                                                          \
		return shmd_dev_wait_until_as(ctx_of(ctx), (const void *)word, (uint32_t)bytes, (uint32_t)cmp, value, mode_of(ctx, SCOPE)); \
	}                                                                                          \
	SHMDB_API shmd_bc_test_##scope(uint64_t ctx, uint64_t word, int bytes, int cmp, uint64_t value) \
	{                                                                                          \
		return test_for_all(ctx, word, bytes, cmp, value, SCOPE);                          \
	}

#define ATOMICS(scope, SCOPE)                                                                      \
	SHMDB_API shmd_bc_atomic_##scope(uint64_t ctx, uint64_t dest, int op, int bytes, uint64_t value, uint64_t compare, int pe) \
	{                                                                                          \
		return shmd_dev_atomic_as(ctx_of(ctx), (void *)dest, amo_of(op, bytes, value, compare), (uint32_t)pe, mode_of(ctx, SCOPE)); \
	}                                                                                          \
	SHMDB_API shmd_bc_atomic_fetch_##scope(uint64_t ctx, uint64_t ret_value, uint64_t dest, int op, int bytes, uint64_t value, \
					       uint64_t compare, int pe)                           \
	{                                                                                          \
		struct shmd_dev_amo amo = amo_of(op, bytes, value, compare);                       \
		uint64_t old = 0;                                                                  \
		int rc = shmd_dev_atomic_fetch_as(ctx_of(ctx), (void *)dest, amo, (uint32_t)pe, mode_of(ctx, SCOPE), &old); \
                                                                                                   \
		return value_to(ret_value, bytes, old, rc);                                        \
	}

#define ORDER(scope, SCOPE)                                                                        \
	SHMDB_API shmd_bc_quiet_##scope(uint64_t ctx)                                              \
	{                                                                                          \
		return shmd_dev_quiet_as(ctx_of(ctx), mode_of(ctx, SCOPE));                        \
	}                                                                                          \
	SHMDB_API shmd_bc_quiet_pe_##scope(uint64_t ctx, int pe)                                   \
	{                                                                                          \
		return shmd_dev_quiet_pe_as(ctx_of(ctx), (uint32_t)pe, mode_of(ctx, SCOPE));       \
	}                                                                                          \
	SHMDB_API shmd_bc_sync_##scope(uint64_t ctx, uint64_t team)                                \
	{                                                                                          \
		return shmd_dev_team_sync_as(ctx_of(ctx), team_of(ctx, team), mode_of(ctx, SCOPE)); \
	}                                                                                          \
	SHMDB_API shmd_bc_barrier_##scope(uint64_t ctx, uint64_t team)                             \
	{                                                                                          \
		return shmd_dev_team_barrier_as(ctx_of(ctx), team_of(ctx, team), mode_of(ctx, SCOPE)); \
	}

#define COLLECTIVES(scope, SCOPE)                                                                  \
	SHMDB_API shmd_bc_broadcast_##scope(uint64_t ctx, uint64_t team, uint64_t dest, uint64_t source, uint64_t bytes, int root) \
	{                                                                                          \
		struct shmd_dev_coll args = shmd_dev_coll_of((void *)dest, (const void *)source, bytes); \
                                                                                                   \
		args.root = (uint32_t)root;                                                        \
		return shmd_dev_broadcast_as(ctx_of(ctx), team_of(ctx, team), &args, mode_of(ctx, SCOPE)); \
	}                                                                                          \
	SHMDB_API shmd_bc_fcollect_##scope(uint64_t ctx, uint64_t team, uint64_t dest, uint64_t source, uint64_t bytes) \
	{                                                                                          \
		struct shmd_dev_coll args = shmd_dev_coll_of((void *)dest, (const void *)source, bytes); \
                                                                                                   \
		return shmd_dev_fcollect_as(ctx_of(ctx), team_of(ctx, team), &args, mode_of(ctx, SCOPE)); \
	}                                                                                          \
	SHMDB_API shmd_bc_alltoall_##scope(uint64_t ctx, uint64_t team, uint64_t dest, uint64_t source, uint64_t bytes) \
	{                                                                                          \
		struct shmd_dev_coll args = shmd_dev_coll_of((void *)dest, (const void *)source, bytes); \
                                                                                                   \
		return shmd_dev_alltoall_as(ctx_of(ctx), team_of(ctx, team), &args, mode_of(ctx, SCOPE)); \
	}                                                                                          \
	SHMDB_API shmd_bc_reduce_##scope(uint64_t ctx, uint64_t team, uint64_t dest, uint64_t source, uint64_t n, int type, int op) \
	{                                                                                          \
		struct shmd_dev_coll args = shmd_dev_coll_math((void *)dest, (const void *)source, n, (uint32_t)type, (uint32_t)op); \
                                                                                                   \
		return shmd_dev_reduce_as(ctx_of(ctx), team_of(ctx, team), &args, mode_of(ctx, SCOPE)); \
	}                                                                                          \
	SHMDB_API shmd_bc_reduce_scatter_##scope(uint64_t ctx, uint64_t team, uint64_t dest, uint64_t source, uint64_t n, int type, \
						 int op)                                           \
	{                                                                                          \
		struct shmd_dev_coll args = shmd_dev_coll_math((void *)dest, (const void *)source, n, (uint32_t)type, (uint32_t)op); \
                                                                                                   \
		return shmd_dev_reduce_scatter_as(ctx_of(ctx), team_of(ctx, team), &args, mode_of(ctx, SCOPE)); \
	}

#define FUNCTIONS(scope, SCOPE)                                                                    \
	MOVES(scope, SCOPE)                                                                        \
	SIGNALS(scope, SCOPE)                                                                      \
	ATOMICS(scope, SCOPE)                                                                      \
	ORDER(scope, SCOPE)                                                                        \
	COLLECTIVES(scope, SCOPE)

FUNCTIONS(thread, SHMD_DEV_THREAD)
FUNCTIONS(warp, SHMD_DEV_WARP)
FUNCTIONS(block, SHMD_DEV_BLOCK)

/* ---- without a scope: each thread for itself, and nobody waits */

SHMDB_API shmd_bc_fence(uint64_t ctx)
{
	return shmd_dev_fence(ctx_of(ctx));
}

SHMDB_API shmd_bc_fence_pe(uint64_t ctx, int pe)
{
	return shmd_dev_fence_pe(ctx_of(ctx), (uint32_t)pe);
}

extern "C" __device__ uint64_t shmd_bc_signal_fetch(uint64_t word)
{
	return shmd_dev_signal_fetch((const uint64_t *)word);
}

/* The caller in the team of the context, and the size of it. */
SHMDB_API shmd_bc_my_pe(uint64_t ctx)
{
	return (int)team_of(ctx, ctx_of(ctx)->team_addr)->my_pe;
}

SHMDB_API shmd_bc_n_pes(uint64_t ctx)
{
	return (int)team_of(ctx, ctx_of(ctx)->team_addr)->n_pes;
}

SHMDB_API shmd_bc_team_my_pe(uint64_t team)
{
	return (int)((const struct shmd_dev_team *)team)->my_pe;
}

SHMDB_API shmd_bc_team_n_pes(uint64_t team)
{
	return (int)((const struct shmd_dev_team *)team)->n_pes;
}

/* to 0: the world. */
SHMDB_API shmd_bc_team_translate(uint64_t from, int pe, uint64_t to)
{
	return shmd_dev_team_translate((const struct shmd_dev_team *)from, (uint32_t)pe, (const struct shmd_dev_team *)to);
}

/* 0: the PE's memory is not mapped here. */
extern "C" __device__ uint64_t shmd_bc_ptr(uint64_t ctx, uint64_t address, int pe)
{
	return (uint64_t)shmd_dev_ptr(ctx_of(ctx), (const void *)address, (uint32_t)pe);
}
