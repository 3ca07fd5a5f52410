/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few things of CUDA that the device headers use, made of clang's builtins and PTX: so the bitcode is made without a CUDA toolkit, and by
 * a clang that does not know the newest one. Only libshmd_device.bc includes it. Names are those of CUDA.
 */
#ifndef SHMD_BITCODE_BUILTINS_H
#define SHMD_BITCODE_BUILTINS_H

#include <stdint.h>

#if !defined(__clang__) || !defined(__NVPTX__)
#error "this is for clang --cuda-device-only"
#endif

#define __CUDACC__ 1
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __align__(n) __attribute__((aligned(n)))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define SHMDB_FN static __device__ __forceinline__ __attribute__((unused))

/* ---- indexes */

struct shmdb_index {
	uint32_t x, y, z;
};

SHMDB_FN struct shmdb_index shmdb_thread_index(void)
{
	return {(uint32_t)__nvvm_read_ptx_sreg_tid_x(), (uint32_t)__nvvm_read_ptx_sreg_tid_y(), (uint32_t)__nvvm_read_ptx_sreg_tid_z()};
}

SHMDB_FN struct shmdb_index shmdb_block_size(void)
{
	return {(uint32_t)__nvvm_read_ptx_sreg_ntid_x(), (uint32_t)__nvvm_read_ptx_sreg_ntid_y(), (uint32_t)__nvvm_read_ptx_sreg_ntid_z()};
}

#define threadIdx shmdb_thread_index()
#define blockDim shmdb_block_size()

/* ---- threads of a warp and of a block */

/*
 * Statements and not clang's builtins: LLVM believes that these do not change a variable in shared memory whose address nobody takes, and moves
 * loads of it in front of the barrier.
 */
SHMDB_FN void shmdb_block_barrier(void)
{
	asm volatile("bar.sync 0;" : : : "memory");
}

#define __syncthreads() shmdb_block_barrier()

/* Barriers that also say whether all threads, or any, gave something that is not 0. */
SHMDB_FN int __syncthreads_and(int says_yes)
{
	uint32_t all;

	asm volatile("{.reg .pred p, q; setp.ne.u32 p, %1, 0; bar.red.and.pred q, 0, p; selp.u32 %0, 1, 0, q;}"
		     : "=r"(all) : "r"((uint32_t)says_yes) : "memory");
	return (int)all;
}

SHMDB_FN int __syncthreads_or(int says_yes)
{
	uint32_t any;

	asm volatile("{.reg .pred p, q; setp.ne.u32 p, %1, 0; bar.red.or.pred q, 0, p; selp.u32 %0, 1, 0, q;}"
		     : "=r"(any) : "r"((uint32_t)says_yes) : "memory");
	return (int)any;
}

SHMDB_FN int __all_sync(uint32_t lanes, int says_yes)
{
	uint32_t all;

	asm volatile("{.reg .pred p, q; setp.ne.u32 p, %1, 0; vote.sync.all.pred q, p, %2; selp.u32 %0, 1, 0, q;}"
		     : "=r"(all) : "r"((uint32_t)says_yes), "r"(lanes));
	return (int)all;
}

SHMDB_FN uint32_t __ballot_sync(uint32_t lanes, int says_yes)
{
	uint32_t all;

	asm volatile("{.reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, %2;}" : "=r"(all) : "r"((uint32_t)says_yes), "r"(lanes));
	return all;
}

SHMDB_FN int __any_sync(uint32_t lanes, int says_yes)
{
	return __ballot_sync(lanes, says_yes) != 0;
}

SHMDB_FN void __syncwarp(uint32_t lanes = 0xffffffffu)
{
	asm volatile("bar.warp.sync %0;" : : "r"(lanes) : "memory");
}

SHMDB_FN uint32_t __activemask(void)
{
	uint32_t lanes;

	asm volatile("activemask.b32 %0;" : "=r"(lanes));
	return lanes;
}

/* From any lane of a whole warp: no clamp, no segments. */
SHMDB_FN unsigned long long __shfl_sync(uint32_t lanes, unsigned long long v, int from)
{
	uint32_t lo = (uint32_t)__nvvm_shfl_sync_idx_i32(lanes, (int)(uint32_t)v, from, 31);
	uint32_t hi = (uint32_t)__nvvm_shfl_sync_idx_i32(lanes, (int)(uint32_t)(v >> 32), from, 31);

	return ((unsigned long long)hi << 32) | lo;
}

/* Not clang's: the result of that intrinsic has another type in later LLVM. */
SHMDB_FN uint32_t __match_any_sync(uint32_t lanes, unsigned long long v)
{
	uint32_t equal;

	asm volatile("match.any.sync.b64 %0, %1, %2;" : "=r"(equal) : "l"(v), "r"(lanes));
	return equal;
}

SHMDB_FN void __nanosleep(uint32_t nsec)
{
	asm volatile("nanosleep.u32 %0;" : : "r"(nsec));
}

/* ---- integers */

SHMDB_FN int __popc(uint32_t v)
{
	return __builtin_popcount(v);
}

SHMDB_FN int __ffs(int v)
{
	return __builtin_ffs(v);
}

/* The headers reverse bytes with it, and nothing else. */
#define __byte_perm(v, zero, order)                                                                 \
	({                                                                                          \
		static_assert((zero) == 0 && (order) == 0x0123, "only the reversal of bytes is here"); \
		__builtin_bswap32(v);                                                               \
	})

/* ---- memory */

typedef struct __attribute__((aligned(16))) {
	unsigned long long x, y;
} ulonglong2;

SHMDB_FN ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y)
{
	return {x, y};
}

/* By the cache of constant data, which fences do not empty. Not volatile: the compiler may merge loads of one address. */
#define SHMDB_LDG(type, suffix, constraint)                                                        \
	SHMDB_FN type __ldg(const type *at)                                                        \
	{                                                                                          \
		type v;                                                                            \
                                                                                                   \
		asm("ld.global.nc." suffix " %0, [%1];" : "=" constraint(v) : "l"(at));            \
		return v;                                                                          \
	}

SHMDB_LDG(uint16_t, "u16", "h")
SHMDB_LDG(uint32_t, "u32", "r")
SHMDB_LDG(uint64_t, "u64", "l")

SHMDB_FN uint8_t __ldg(const uint8_t *at)
{
	uint16_t v;

	asm("ld.global.nc.u8 %0, [%1];" : "=h"(v) : "l"(at));
	return (uint8_t)v;
}

SHMDB_FN ulonglong2 __ldg(const ulonglong2 *at)
{
	ulonglong2 v;

	asm("ld.global.nc.v2.u64 {%0, %1}, [%2];" : "=l"(v.x), "=l"(v.y) : "l"(at));
	return v;
}

SHMDB_FN uint64_t __cvta_generic_to_global(const void *at)
{
	return (uint64_t)(uintptr_t)(const __attribute__((address_space(1))) void *)at;
}

SHMDB_FN void __threadfence_system(void)
{
	__nvvm_membar_sys();
}

/* Relaxed at system scope, as CUDA's of these names. */
#define SHMDB_ATOMIC(name, op)                                                                     \
	SHMDB_FN uint32_t name(uint32_t *word, uint32_t v)                                         \
	{                                                                                          \
		uint32_t old;                                                                      \
                                                                                                   \
		asm volatile("atom.relaxed.sys." op "32 %0, [%1], %2;" : "=r"(old) : "l"(word), "r"(v) : "memory"); \
		return old;                                                                        \
	}                                                                                          \
	SHMDB_FN unsigned long long name(unsigned long long *word, unsigned long long v)           \
	{                                                                                          \
		unsigned long long old;                                                            \
                                                                                                   \
		asm volatile("atom.relaxed.sys." op "64 %0, [%1], %2;" : "=l"(old) : "l"(word), "l"(v) : "memory"); \
		return old;                                                                        \
	}

SHMDB_ATOMIC(atomicAdd_system, "add.u")
SHMDB_ATOMIC(atomicAnd_system, "and.b")
SHMDB_ATOMIC(atomicOr_system, "or.b")
SHMDB_ATOMIC(atomicXor_system, "xor.b")
SHMDB_ATOMIC(atomicExch_system, "exch.b")

SHMDB_FN uint32_t atomicCAS_system(uint32_t *word, uint32_t expected, uint32_t v)
{
	uint32_t old;

	asm volatile("atom.relaxed.sys.cas.b32 %0, [%1], %2, %3;" : "=r"(old) : "l"(word), "r"(expected), "r"(v) : "memory");
	return old;
}

SHMDB_FN unsigned long long atomicCAS_system(unsigned long long *word, unsigned long long expected, unsigned long long v)
{
	unsigned long long old;

	asm volatile("atom.relaxed.sys.cas.b64 %0, [%1], %2, %3;" : "=l"(old) : "l"(word), "l"(expected), "l"(v) : "memory");
	return old;
}

#endif
