/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the device headers need from the compiler.
 *
 * The same text is C11, C++17 and CUDA. Under nvcc every function is a __device__ function; a CPU thread that
 * wants to drive a queue compiles these headers as C or C++. The common subset is small: no templates, no
 * _Atomic, no designated initialisers. What other libraries pass as template parameters are enum arguments of
 * always-inline functions here, which fold when they are constant.
 */
#ifndef SHMD_DEV_ANNOTATE_H
#define SHMD_DEV_ANNOTATE_H

#include <shmd/abi/types.h>

#if defined(__CUDACC__)
#define SHMD_DEV_CUDA 1
#else
#define SHMD_DEV_CUDA 0
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the device functions assume a little-endian processor"
#endif

/*
 * Where the bodies of the plain functions are: with SHMD_DEV_USE_LIBRARY in libshmd_device.a, whose maker says
 * SHMD_DEV_MAKE_LIBRARY; else in each unit. Units of both kinds may be linked together. C has no library.
 */
#if SHMD_DEV_CUDA && defined(SHMD_DEV_USE_LIBRARY)
#define SHMD_DEV_FROM_LIBRARY 1
#if defined(__NVCC__) && !defined(__CUDACC_RDC__)
#error "SHMD_DEV_USE_LIBRARY needs relocatable device code: nvcc -rdc=true"
#endif
#else
#define SHMD_DEV_FROM_LIBRARY 0
#endif

/*
 * SHMD_DEV: inlined wherever it is called, so that constant arguments fold. SHMD_DEV_API: for callers, inlined as
 * the compiler sees fit, or from the library. SHMD_DEV_SLOW: the loops behind fast paths, kept out of line.
 */
#if SHMD_DEV_CUDA
#define SHMD_DEV static __device__ __forceinline__
#if SHMD_DEV_FROM_LIBRARY || defined(SHMD_DEV_MAKE_LIBRARY)
#define SHMD_DEV_API extern "C" __device__
#else
#define SHMD_DEV_API static __device__ inline
#endif
#define SHMD_DEV_SLOW static __device__ __noinline__ __attribute__((unused))
#else
#define SHMD_DEV static inline __attribute__((always_inline, unused))
#define SHMD_DEV_API static inline __attribute__((unused))
#define SHMD_DEV_SLOW static __attribute__((noinline, cold, unused))
#endif

/*
 * A constant field of a dev-qp. It was written before the kernel started, so the compiler may keep it across whatever
 * else happens, and the GPU may read it from a cache that fences do not empty.
 */
#if SHMD_DEV_CUDA
#define SHMD_DEV_FIXED(field) __ldg(&(field))
#else
#define SHMD_DEV_FIXED(field) (field)
#endif

/* The same for 16 bytes of any type, aligned to 16: a constant of another struct that was written as early. */
SHMD_DEV void shmd_dev_fixed16(const void *src, uint64_t *ret_lo, uint64_t *ret_hi)
{
#if SHMD_DEV_CUDA
	const ulonglong2 v = __ldg((const ulonglong2 *)src);

	*ret_lo = v.x;
	*ret_hi = v.y;
#else
	__builtin_memcpy(ret_lo, src, 8);
	__builtin_memcpy(ret_hi, (const uint8_t *)src + 8, 8);
#endif
}

#define SHMD_DEV_LIKELY(x) __builtin_expect(!!(x), 1)
#define SHMD_DEV_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* What the compiler cannot know and may build on. */
#if SHMD_DEV_CUDA
#define SHMD_DEV_ASSUME(x) __builtin_assume(x)
#else
#define SHMD_DEV_ASSUME(x) ((x) ? (void)0 : __builtin_unreachable())
#endif

#ifdef __CHECKER__
#define SHMD_DEV_FORCE __attribute__((force))
#else
#define SHMD_DEV_FORCE
#endif

/* TSan cannot see fences; order.h uses read-modify-writes in their place there. */
#if defined(__SANITIZE_THREAD__)
#define SHMD_DEV_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SHMD_DEV_TSAN 1
#endif
#endif
#ifndef SHMD_DEV_TSAN
#define SHMD_DEV_TSAN 0
#endif

/* Byte order. The values keep the types of integers: they go straight into queue words. */
SHMD_DEV uint32_t shmd_dev_swap32(uint32_t v)
{
#if SHMD_DEV_CUDA
	return __byte_perm(v, 0, 0x0123);
#else
	return __builtin_bswap32(v);
#endif
}

SHMD_DEV uint64_t shmd_dev_swap64(uint64_t v)
{
#if SHMD_DEV_CUDA
	return ((uint64_t)shmd_dev_swap32((uint32_t)v) << 32) |
	       shmd_dev_swap32((uint32_t)(v >> 32));
#else
	return __builtin_bswap64(v);
#endif
}

SHMD_DEV uint32_t shmd_dev_swap16(uint32_t v)
{
	return ((v & 0xff) << 8) | ((v >> 8) & 0xff);
}

#if SHMD_DEV_CUDA
SHMD_DEV uint64_t shmd_dev_clock_nsec(void)
{
	uint64_t v;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(v));
	return v;
}

SHMD_DEV uint32_t shmd_dev_lane_id(void)
{
	uint32_t v;

	asm("mov.u32 %0, %%laneid;" : "=r"(v));
	return v;
}
#endif

#endif
