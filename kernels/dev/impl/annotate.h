/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compiler as the device headers see it.
 *
 * The same text is C11, C++17 and CUDA. Under nvcc every function is a __device__ function; a CPU thread that
 * wants to drive a queue compiles these headers as C or C++. The common subset is small: no templates, no
 * _Atomic, no designated initialisers. Scope and sharing, which other libraries pass as template parameters, are enum
 * arguments of always-inline functions here and fold when they are constant.
 */
#ifndef SHMDI_ANNOTATE_H
#define SHMDI_ANNOTATE_H

#include <shmd/abi/types.h>

#if defined(__CUDACC__)
#define SHMDI_CUDA 1
#else
#define SHMDI_CUDA 0
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the device functions assume a little-endian processor"
#endif

/*
 * The bodies of the plain functions are in libshmd_device.a for units with SHMD_DEV_USE_LIBRARY, and in each other unit.
 * SHMDI_MAKE_LIBRARY makes that library. Units of both kinds may be linked together. C has no library.
 */
#if SHMDI_CUDA && defined(SHMD_DEV_USE_LIBRARY)
#define SHMDI_FROM_LIBRARY 1
#if defined(__NVCC__) && !defined(__CUDACC_RDC__)
#error "SHMD_DEV_USE_LIBRARY needs relocatable device code: nvcc -rdc=true"
#endif
#else
#define SHMDI_FROM_LIBRARY 0
#endif

/*
 * SHMDI_FN is inlined wherever it is called, so that constant arguments fold. SHMDI_API is a plain function: inlined as the
 * compiler sees fit, or taken from the library. SHMDI_SLOW keeps the loops behind fast paths out of line, SHMDI_APART what is
 * long and no slower than the rest. SHMDI_FAR is what a call does where the context has nothing at hand: seldom on a GPU, where its registers
 * would be those of each caller, and always in the library's own calls, as C.
 */
#if SHMDI_CUDA
#define SHMDI_FN static __device__ __forceinline__
#if SHMDI_FROM_LIBRARY || defined(SHMDI_MAKE_LIBRARY)
#define SHMDI_API extern "C" __device__
#else
#define SHMDI_API static __device__ inline
#endif
#define SHMDI_SLOW static __device__ __noinline__ __attribute__((unused))
#define SHMDI_APART SHMDI_SLOW
#define SHMDI_FAR SHMDI_SLOW
#else
#define SHMDI_FN static inline __attribute__((always_inline, unused))
#define SHMDI_API static inline __attribute__((unused))
#define SHMDI_SLOW static __attribute__((noinline, cold, unused))
#define SHMDI_APART static __attribute__((noinline, unused))
#define SHMDI_FAR SHMDI_FN
#endif

/*
 * A constant field of a dev-qp. It was written before the kernel started, so the compiler may keep it across fences and
 * stores, and the GPU may read it from a cache that fences do not empty.
 */
#if SHMDI_CUDA
#define SHMDI_FIXED(field) __ldg(&(field))
#else
#define SHMDI_FIXED(field) (field)
#endif

/* A constant field of a context: it may lie among a kernel's parameters, which have a cache of their own and no such loads. */
#define SHMDI_CTX(field) (field)

#if SHMDI_CUDA
#define SHMDI_ALIGNED16 __align__(16)
#else
#define SHMDI_ALIGNED16 __attribute__((aligned(16)))
#endif

/* Sixteen bytes, aligned to 16, of another struct that was written before the kernel started. */
SHMDI_FN void shmdi_fixed16(const void *src, uint64_t *ret_lo, uint64_t *ret_hi)
{
#if SHMDI_CUDA
	const ulonglong2 v = __ldg((const ulonglong2 *)src);

	*ret_lo = v.x;
	*ret_hi = v.y;
#else
	__builtin_memcpy(ret_lo, src, 8);
	__builtin_memcpy(ret_hi, (const uint8_t *)src + 8, 8);
#endif
}

/* In front of a loop that waits: a copy for each look would fill the GPU's cache of instructions. */
#if SHMDI_CUDA
#define SHMDI_ROLLED _Pragma("unroll 1")
#else
#define SHMDI_ROLLED
#endif

#define SHMDI_LIKELY(x) __builtin_expect(!!(x), 1)
#define SHMDI_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Nothing is at hand. */
#if SHMDI_CUDA
#define SHMDI_IS_FAR(x) SHMDI_UNLIKELY(x)
#else
#define SHMDI_IS_FAR(x) (x)
#endif

/* A condition that the compiler may rely on. */
#if SHMDI_CUDA
#define SHMDI_ASSUME(x) __builtin_assume(x)
#else
#define SHMDI_ASSUME(x) ((x) ? (void)0 : __builtin_unreachable())
#endif

#ifdef __CHECKER__
#define SHMDI_FORCE __attribute__((force))
#else
#define SHMDI_FORCE
#endif

/* TSan cannot see fences; order.h uses read-modify-writes in their place there. */
#if defined(__SANITIZE_THREAD__)
#define SHMDI_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SHMDI_TSAN 1
#endif
#endif
#ifndef SHMDI_TSAN
#define SHMDI_TSAN 0
#endif

/* Byte order. The values keep the types of integers: they go straight into queue words. */
SHMDI_FN uint32_t shmdi_swap32(uint32_t v)
{
#if SHMDI_CUDA
	return __byte_perm(v, 0, 0x0123);
#else
	return __builtin_bswap32(v);
#endif
}

SHMDI_FN uint64_t shmdi_swap64(uint64_t v)
{
#if SHMDI_CUDA
	return ((uint64_t)shmdi_swap32((uint32_t)v) << 32) |
	       shmdi_swap32((uint32_t)(v >> 32));
#else
	return __builtin_bswap64(v);
#endif
}

SHMDI_FN uint32_t shmdi_swap16(uint32_t v)
{
	return ((v & 0xff) << 8) | ((v >> 8) & 0xff);
}

#if SHMDI_CUDA
SHMDI_FN uint64_t shmdi_clock_nsec(void)
{
	uint64_t v;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(v));
	return v;
}

SHMDI_FN uint32_t shmdi_lane_id(void)
{
	uint32_t v;

	asm("mov.u32 %0, %%laneid;" : "=r"(v));
	return v;
}
#endif

#endif
