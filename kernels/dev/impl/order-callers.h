/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The half of order.h for words that the callers of one QP share: indexes, locks, flags. Sharing BLOCK is scope .cta,
 * GPU is .gpu, and EXCLUSIVE is plain. No NIC and no other process looks at these words.
 */
#ifndef SHMDI_ORDER_CALLERS_H
#define SHMDI_ORDER_CALLERS_H

#include <shmd/abi/dev-state.h>
#include <shmd/dev/impl/annotate.h>

#if SHMDI_CUDA
/* clang-format off */
#define SHMDI_PTX_LD(op, v, p, c) asm volatile(op " %0, [%1];" : "=" c(v) : "l"(p) : "memory")
#define SHMDI_PTX_ST(op, p, v, c) asm volatile(op " [%0], %1;" : : "l"(p), c(v) : "memory")
#define SHMDI_PTX_MAX(op, p, v) asm volatile(op " [%0], %1;" : : "l"(p), "l"(v) : "memory")
/* The word is in global memory. A CAS on a generic address would become a branch and two loops. */
#define SHMDI_PTX_AND(op, p, v) \
	asm volatile(op " [%0], %1;" : : "l"(__cvta_generic_to_global(p)), "r"(v) : "memory")
#define SHMDI_PTX_CAS(op, v, p, old, now, c) \
	asm volatile(op " %0, [%1], %2, %3;" \
		     : "=" c(v) \
		     : "l"(__cvta_generic_to_global(p)), c(old), c(now) \
		     : "memory")
/* clang-format on */
/* Before a plain store to another word. PTX ISA 8.6 has fence.release on sm_90; the older fence also empties the cache. */
#if __CUDA_ARCH__ >= 900 && __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1208
#define SHMDI_PTX_FENCE_RELEASE(scope) asm volatile("fence.release." scope ";" ::: "memory")
#else
#define SHMDI_PTX_FENCE_RELEASE(scope) asm volatile("fence.acq_rel." scope ";" ::: "memory")
#endif
#define SHMDI_PTX_BY_SHARING(sharing, cta, gpu)                                                    \
	do {                                                                                       \
		if ((sharing) == SHMD_SHARING_BLOCK)                                               \
			cta;                                                                       \
		else                                                                               \
			gpu;                                                                       \
	} while (0)
#define SHMDI_PTX_BY_PLACEMENT(placement, gpu, sys)                                                \
	do {                                                                                       \
		if ((placement) == SHMD_PLACEMENT_GPU)                                             \
			gpu;                                                                       \
		else                                                                               \
			sys;                                                                       \
	} while (0)
#endif

/* A guess at an index, to be confirmed by a claim or an acquire. Orders nothing. */
SHMDI_FN uint64_t shmdi_index_peek(const uint64_t *index, int sharing)
{
	if (sharing == SHMD_SHARING_EXCLUSIVE)
		return *index;
#if SHMDI_CUDA
	uint64_t v;

	SHMDI_PTX_BY_SHARING(sharing, SHMDI_PTX_LD("ld.relaxed.cta.u64", v, index, "l"),
			     SHMDI_PTX_LD("ld.relaxed.gpu.u64", v, index, "l"));
	return v;
#else
	return __atomic_load_n(index, __ATOMIC_RELAXED);
#endif
}

/* Stores of another caller before it published the index (WQEs, consumed CQEs) come before the loads that follow. */
SHMDI_FN uint64_t shmdi_index_acquire(const uint64_t *index, int sharing)
{
	if (sharing == SHMD_SHARING_EXCLUSIVE)
		return *index;
#if SHMDI_CUDA
	uint64_t v;

	SHMDI_PTX_BY_SHARING(sharing, SHMDI_PTX_LD("ld.acquire.cta.u64", v, index, "l"),
			     SHMDI_PTX_LD("ld.acquire.gpu.u64", v, index, "l"));
	return v;
#else
	return __atomic_load_n(index, __ATOMIC_ACQUIRE);
#endif
}

/*
 * Load sq_ready_index, before this caller may announce earlier WQEs together with its own. On a GPU the fence of
 * shmdi_dbrec_store_ready makes it an acquire.
 */
SHMDI_FN uint64_t shmdi_ready_peek(const uint64_t *index, int sharing)
{
#if SHMDI_CUDA
	return shmdi_index_peek(index, sharing);
#else
	return shmdi_index_acquire(index, sharing);
#endif
}

/* Pairs with shmdi_index_acquire, for the one caller that may move the index. */
SHMDI_FN void shmdi_index_publish(uint64_t *index, uint64_t v, int sharing)
{
	if (sharing == SHMD_SHARING_EXCLUSIVE) {
		*index = v;
		return;
	}
#if SHMDI_CUDA
	SHMDI_PTX_BY_SHARING(sharing, SHMDI_PTX_ST("st.release.cta.u64", index, v, "l"),
			     SHMDI_PTX_ST("st.release.gpu.u64", index, v, "l"));
#else
	__atomic_store_n(index, v, __ATOMIC_RELEASE);
#endif
}

/* Pairs with shmdi_index_acquire, for callers that race: the index only grows. */
SHMDI_FN void shmdi_index_raise(uint64_t *index, uint64_t v, int sharing)
{
	if (sharing == SHMD_SHARING_EXCLUSIVE) {
		if (*index < v)
			*index = v;
		return;
	}
#if SHMDI_CUDA
	SHMDI_PTX_BY_SHARING(sharing, SHMDI_PTX_MAX("red.release.cta.max.u64", index, v),
			     SHMDI_PTX_MAX("red.release.gpu.max.u64", index, v));
#else
	uint64_t old = __atomic_load_n(index, __ATOMIC_RELAXED);

	while (old < v && !__atomic_compare_exchange_n(index, &old, v, 1, __ATOMIC_RELEASE,
						       __ATOMIC_RELAXED))
		;
#endif
}

/* A statistic that callers and other threads of the process count. Orders nothing. */
SHMDI_FN void shmdi_count_add(uint64_t *counter, uint64_t n)
{
#if SHMDI_CUDA
	asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;"
		     :
		     : "l"(__cvta_generic_to_global(counter)), "l"(n)
		     : "memory");
#else
	__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
#endif
}

/*
 * Move the index from *expected to v, or refresh *expected and return 0. Callers agree by it on the owner of a range and
 * on nothing else, so it orders nothing.
 */
SHMDI_FN int shmdi_index_claim(uint64_t *index, uint64_t *expected, uint64_t v, int sharing)
{
	if (sharing == SHMD_SHARING_EXCLUSIVE) {
		*index = v;
		return 1;
	}
#if SHMDI_CUDA
	uint64_t found;
	int won;

	SHMDI_PTX_BY_SHARING(
		sharing,
		SHMDI_PTX_CAS("atom.relaxed.cta.global.cas.b64", found, index, *expected, v, "l"),
		SHMDI_PTX_CAS("atom.relaxed.gpu.global.cas.b64", found, index, *expected, v, "l"));
	won = found == *expected;
	*expected = found;
	return won;
#else
	return __atomic_compare_exchange_n(index, expected, v, 0, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED);
#endif
}

/* 0 to 1: actions of the last holder come before those of the new one. Returns 1 when held. */
SHMDI_FN int shmdi_lock_try(uint32_t *lock, int sharing)
{
	if (sharing == SHMD_SHARING_EXCLUSIVE)
		return 1;
#if SHMDI_CUDA
	uint32_t found;

	SHMDI_PTX_BY_SHARING(sharing,
			     SHMDI_PTX_CAS("atom.acquire.cta.global.cas.b32", found, lock, 0u, 1u, "r"),
			     SHMDI_PTX_CAS("atom.acquire.gpu.global.cas.b32", found, lock, 0u, 1u, "r"));
	return found == 0;
#else
	uint32_t expected = 0;

	return __atomic_load_n(lock, __ATOMIC_RELAXED) == 0 &&
	       __atomic_compare_exchange_n(lock, &expected, 1u, 0, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
#endif
}

/*
 * The same, if `wanted`, for a caller whose next step under the lock is shmdi_dbrec_store_ready. On a GPU the fence there
 * makes it an acquire, and does not empty the cache too early. There is no branch on `wanted`, since the compiler would wait
 * for outstanding loads before it: a caller that does not want the lock compares with a value that it never has.
 */
SHMDI_FN int shmdi_lock_try_ready(uint32_t *lock, int wanted, int sharing)
{
#if SHMDI_CUDA
	uint32_t expected = wanted ? 0 : ~0u;
	uint32_t found;

	if (sharing == SHMD_SHARING_EXCLUSIVE)
		return wanted;
	SHMDI_PTX_BY_SHARING(sharing,
			     SHMDI_PTX_CAS("atom.relaxed.cta.global.cas.b32", found, lock, expected, 1u, "r"),
			     SHMDI_PTX_CAS("atom.relaxed.gpu.global.cas.b32", found, lock, expected, 1u, "r"));
	return (found | expected) == 0;
#else
	return wanted && shmdi_lock_try(lock, sharing);
#endif
}

/* A flag that callers set for each other: a free lock, a free slot, a recorded error. */
SHMDI_FN void shmdi_flag_store(uint32_t *flag, uint32_t v, int sharing)
{
	if (sharing == SHMD_SHARING_EXCLUSIVE) {
		*flag = v;
		return;
	}
#if SHMDI_CUDA
	SHMDI_PTX_BY_SHARING(sharing, SHMDI_PTX_ST("st.release.cta.u32", flag, v, "r"),
			     SHMDI_PTX_ST("st.release.gpu.u32", flag, v, "r"));
#else
	__atomic_store_n(flag, v, __ATOMIC_RELEASE);
#endif
}

SHMDI_FN uint32_t shmdi_flag_load(const uint32_t *flag, int sharing)
{
	if (sharing == SHMD_SHARING_EXCLUSIVE)
		return *flag;
#if SHMDI_CUDA
	uint32_t v;

	SHMDI_PTX_BY_SHARING(sharing, SHMDI_PTX_LD("ld.acquire.cta.u32", v, flag, "r"),
			     SHMDI_PTX_LD("ld.acquire.gpu.u32", v, flag, "r"));
	return v;
#else
	return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
#endif
}

/* Load a flag that is only tested. Callers that read data written before it use shmdi_flag_load. */
SHMDI_FN uint32_t shmdi_flag_peek(const uint32_t *flag, int sharing)
{
	if (sharing == SHMD_SHARING_EXCLUSIVE)
		return *flag;
#if SHMDI_CUDA
	uint32_t v;

	SHMDI_PTX_BY_SHARING(sharing, SHMDI_PTX_LD("ld.relaxed.cta.u32", v, flag, "r"),
			     SHMDI_PTX_LD("ld.relaxed.gpu.u32", v, flag, "r"));
	return v;
#else
	return __atomic_load_n(flag, __ATOMIC_RELAXED);
#endif
}

/* Store an index that callers only compare with their own. Orders nothing. */
SHMDI_FN void shmdi_index_note(uint64_t *index, uint64_t v, int sharing)
{
	if (sharing == SHMD_SHARING_EXCLUSIVE) {
		*index = v;
		return;
	}
#if SHMDI_CUDA
	SHMDI_PTX_BY_SHARING(sharing, SHMDI_PTX_ST("st.relaxed.cta.u64", index, v, "l"),
			     SHMDI_PTX_ST("st.relaxed.gpu.u64", index, v, "l"));
#else
	__atomic_store_n(index, v, __ATOMIC_RELAXED);
#endif
}

SHMDI_FN void shmdi_lock_drop(uint32_t *lock, int sharing)
{
	if (sharing != SHMD_SHARING_EXCLUSIVE)
		shmdi_flag_store(lock, 0, sharing);
}

/*
 * The same for a lock from shmdi_lock_try_ready that protected nothing: actions of the previous holder come before those
 * of the next one. On a GPU this caller acquired nothing that a release could pass on; but a chain of atomics passes on
 * the release before it.
 */
SHMDI_FN void shmdi_lock_drop_unused(uint32_t *lock, int sharing)
{
#if SHMDI_CUDA
	if (sharing != SHMD_SHARING_EXCLUSIVE)
		SHMDI_PTX_BY_SHARING(sharing, SHMDI_PTX_AND("red.relaxed.cta.global.and.b32", lock, 0u),
				     SHMDI_PTX_AND("red.relaxed.gpu.global.and.b32", lock, 0u));
#else
	shmdi_lock_drop(lock, sharing);
#endif
}

#endif
