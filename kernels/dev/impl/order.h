/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every load, store and atomic whose order or atomicity matters: one named helper for each need.
 *
 * Each comment names the two observers. The C build uses the compiler's C11 atomics, never fences, so that TSan sees
 * each pairing (one exception, marked). The CUDA build is PTX with the weakest scope that holds:
 *
 *	words shared by callers	sharing BLOCK .cta, GPU .gpu, EXCLUSIVE plain
 *	words the NIC reads or writes	placement GPU .gpu, HOST .sys
 *	doorbell	UAR page: st.mmio after a fence of the placement's scope; polled word: .sys
 *	words of other processes	.sys
 *
 * A payload in host memory sent through a queue in GPU memory is behind the placement's scope: its writer issues
 * __threadfence_system() first.
 */
#ifndef SHMDI_ORDER_H
#define SHMDI_ORDER_H

#include <shmd/abi/dev-state.h>
#include <shmd/dev/impl/annotate.h>
#include <shmd/dev/impl/order-callers.h>

/* ---- towards the NIC ------------------------------------------------------------------------------------- */

/* 16 bytes of a WQE. Plain, since the NIC reads them only after shmdi_dbrec_store. */
SHMDI_FN void shmdi_ring_store(void *dst, uint64_t lo, uint64_t hi)
{
#if SHMDI_CUDA
	*(ulonglong2 *)dst = make_ulonglong2(lo, hi);
#else
	uint64_t *word = (uint64_t *)__builtin_assume_aligned(dst, 16);

	word[0] = lo;
	word[1] = hi;
#endif
}

/*
 * WQEs, and payload written by this caller, before dbrec: the NIC that reads the new index sees them. Also for the
 * receive word and for a CQ's consumer index (CQEs were read before the NIC may overwrite them).
 */
SHMDI_FN void shmdi_dbrec_store(uint64_t addr, uint32_t v_be, int placement)
{
	uint32_t *word = (uint32_t *)(uintptr_t)addr;

#if SHMDI_CUDA
	SHMDI_PTX_BY_PLACEMENT(placement, SHMDI_PTX_ST("st.release.gpu.u32", word, v_be, "r"),
			       SHMDI_PTX_ST("st.release.sys.u32", word, v_be, "r"));
#else
	(void)placement;
	__atomic_store_n(word, v_be, __ATOMIC_RELEASE);
#endif
}

#if !SHMDI_CUDA
/* Memory before a device register; then flush the register's store from the write buffer. */
SHMDI_FN void shmdi_uar_store(uint64_t *reg, uint64_t v)
{
#if defined(__x86_64__)
	__atomic_store_n(reg, v, __ATOMIC_RELEASE);
	__asm__ volatile("sfence" ::: "memory");
#elif defined(__aarch64__)
	__asm__ volatile("dmb oshst" ::: "memory");
	__atomic_store_n(reg, v, __ATOMIC_RELAXED);
	__asm__ volatile("dsb st" ::: "memory");
#else
	__sync_synchronize();
	__atomic_store_n(reg, v, __ATOMIC_RELAXED);
	__sync_synchronize();
#endif
}
#endif

/*
 * The same, and `ready` too: callers that see it may announce WQEs written before it. One fence serves both; its scope is
 * that of the placement, which includes that of the sharing. Called by the holder of sq_lock in its turn.
 */
SHMDI_FN void shmdi_dbrec_store_ready(uint64_t addr, uint32_t v_be, int placement,
				      uint64_t *ready, uint64_t end, int sharing)
{
#if SHMDI_CUDA
	uint32_t *word = (uint32_t *)(uintptr_t)addr;

	if (sharing == SHMD_SHARING_EXCLUSIVE) {
		shmdi_dbrec_store(addr, v_be, placement);
		*ready = end;
		return;
	}
	SHMDI_PTX_BY_PLACEMENT(placement, asm volatile("fence.acq_rel.gpu;" ::: "memory"),
			       asm volatile("fence.acq_rel.sys;" ::: "memory"));
	SHMDI_PTX_BY_PLACEMENT(placement, SHMDI_PTX_ST("st.relaxed.gpu.u32", word, v_be, "r"),
			       SHMDI_PTX_ST("st.relaxed.sys.u32", word, v_be, "r"));
	shmdi_index_note(ready, end, sharing);
#else
	shmdi_dbrec_store(addr, v_be, placement);
	shmdi_index_publish(ready, end, sharing);
#endif
}

/* dbrec before doorbell: the NIC that sees the doorbell finds at least this index in the dbrec. */
SHMDI_FN void shmdi_doorbell_store(uint64_t addr, uint64_t v, int placement, int doorbell_mode)
{
	uint64_t *reg = (uint64_t *)(uintptr_t)addr;

#if SHMDI_CUDA
	if (doorbell_mode != SHMD_DOORBELL_UAR_MMAP) {
		SHMDI_PTX_ST("st.release.sys.u64", reg, v, "l");
		return;
	}
	SHMDI_PTX_BY_PLACEMENT(placement, SHMDI_PTX_FENCE_RELEASE("gpu"), SHMDI_PTX_FENCE_RELEASE("sys"));
	SHMDI_PTX_ST("st.mmio.relaxed.sys.u64", reg, v, "l");
#else
	(void)placement;
	if (doorbell_mode == SHMD_DOORBELL_UAR_MMAP)
		shmdi_uar_store(reg, v);
	else
		__atomic_store_n(reg, v, __ATOMIC_RELEASE);
#endif
}

#if SHMDI_CUDA
/*
 * dbrec before a polled doorbell, and actions of the lock's holder before those of the next: one fence for both, because
 * each costs a trip over PCIe. The lock is free before the doorbell rings, so doorbells of two holders may change places;
 * a polled doorbell only wakes.
 */
SHMDI_FN void shmdi_doorbell_store_unlock(uint64_t addr, uint64_t v, uint32_t *lock, int sharing)
{
	uint64_t *reg = (uint64_t *)(uintptr_t)addr;

	SHMDI_PTX_FENCE_RELEASE("sys");
	SHMDI_PTX_BY_SHARING(sharing, SHMDI_PTX_ST("st.relaxed.cta.u32", lock, 0u, "r"),
			     SHMDI_PTX_ST("st.relaxed.gpu.u32", lock, 0u, "r"));
	SHMDI_PTX_ST("st.relaxed.sys.u64", reg, v, "l");
}
#endif

#if !SHMDI_CUDA
/*
 * Doorbell before `asleep`: either we see the NIC thread asleep, or it sees the doorbell when it polls once more after
 * its store of `asleep` and its fence. The only place that needs a full fence.
 */
SHMDI_FN uint32_t shmdi_asleep_load(const uint32_t *asleep)
{
#if SHMDI_TSAN
	uint32_t fence = 0;

	__atomic_fetch_add(&fence, 1, __ATOMIC_SEQ_CST);
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
	return __atomic_load_n(asleep, __ATOMIC_RELAXED);
}
#endif

/* ---- from the NIC ---------------------------------------------------------------------------------------- */

/* Last word of a CQE before everything it reports: results, payload of reads, the rest of the CQE. */
SHMDI_FN uint64_t shmdi_cqe_load(const uint64_t *tail, int placement)
{
#if SHMDI_CUDA
	uint64_t v;

	SHMDI_PTX_BY_PLACEMENT(placement, SHMDI_PTX_LD("ld.acquire.gpu.u64", v, tail, "l"),
			       SHMDI_PTX_LD("ld.acquire.sys.u64", v, tail, "l"));
	return v;
#else
	(void)placement;
	return __atomic_load_n(tail, __ATOMIC_ACQUIRE);
#endif
}

/* A word that the NIC writes and no caller waits for: a syndrome, a result after its CQE. Not cached, orders nothing. */
SHMDI_FN uint32_t shmdi_nic_load32(const uint32_t *word, int placement)
{
#if SHMDI_CUDA
	uint32_t v;

	SHMDI_PTX_BY_PLACEMENT(placement, SHMDI_PTX_LD("ld.relaxed.gpu.u32", v, word, "r"),
			       SHMDI_PTX_LD("ld.relaxed.sys.u32", v, word, "r"));
	return v;
#else
	(void)placement;
	return __atomic_load_n(word, __ATOMIC_RELAXED);
#endif
}

SHMDI_FN uint64_t shmdi_nic_load64(const uint64_t *word, int placement)
{
#if SHMDI_CUDA
	uint64_t v;

	SHMDI_PTX_BY_PLACEMENT(placement, SHMDI_PTX_LD("ld.relaxed.gpu.u64", v, word, "l"),
			       SHMDI_PTX_LD("ld.relaxed.sys.u64", v, word, "l"));
	return v;
#else
	(void)placement;
	return __atomic_load_n(word, __ATOMIC_RELAXED);
#endif
}

/* ---- from other processes -------------------------------------------------------------------------------- */

/* The health word, which daemon or library writes. Orders nothing. */
SHMDI_FN uint32_t shmdi_health_load(uint64_t addr)
{
	return shmdi_nic_load32((const uint32_t *)(uintptr_t)addr, SHMD_PLACEMENT_HOST);
}

/* Signal before payload: data that the peer put before this word (put_signal) is visible. */
SHMDI_FN uint64_t shmdi_word_load64(const uint64_t *word)
{
	return shmdi_cqe_load(word, SHMD_PLACEMENT_HOST);
}

SHMDI_FN uint32_t shmdi_word_load32(const uint32_t *word)
{
#if SHMDI_CUDA
	uint32_t v;

	SHMDI_PTX_LD("ld.acquire.sys.u32", v, word, "r");
	return v;
#else
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

#endif
