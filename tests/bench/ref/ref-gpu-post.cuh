/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reference: the least that posts an inline put of 8 bytes. WQE, dbrec and doorbell with the two fences mlx5 needs, and
 * the completion read from a collapsed CQ; no limits, no errors, no sharing.
 */
#ifndef SHMEMD_BENCH_REF_GPU_POST_CUH
#define SHMEMD_BENCH_REF_GPU_POST_CUH

#include <stdint.h>

struct ref_queue {
	uint8_t *sq;
	uint32_t *dbrec;
	uint64_t *doorbell;
	const uint64_t *cqe_tail;
	uint32_t qpn, wqebbs, rkey_be;
	uint64_t remote, pi, done;
};

static __device__ __forceinline__ uint32_t ref_be32(uint32_t v)
{
	return __byte_perm(v, 0, 0x0123);
}

static __device__ __forceinline__ uint64_t ref_be64(uint64_t v)
{
	return (uint64_t)ref_be32((uint32_t)v) << 32 | ref_be32((uint32_t)(v >> 32));
}

static __device__ __forceinline__ void ref_wqe(const struct ref_queue *q, uint64_t i, uint64_t value, uint32_t ce)
{
	ulonglong2 *wqe = (ulonglong2 *)(q->sq + (i & (q->wqebbs - 1)) * 64);
	uint64_t control = (uint64_t)ref_be32(q->qpn << 8 | 3) << 32 | ref_be32((uint32_t)(i & 0xffff) << 8 | 8);

	wqe[0] = make_ulonglong2(control, (uint64_t)ce << 24);
	wqe[1] = make_ulonglong2(ref_be64(q->remote), q->rkey_be);
	wqe[2] = make_ulonglong2(value << 32 | ref_be32(0x80000008u), value >> 32);
}

static __device__ __forceinline__ void ref_ring(const struct ref_queue *q, uint64_t end)
{
	uint64_t db = (end & 0xffff) << 40 | (uint64_t)q->qpn << 8;

	asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(q->dbrec), "r"(ref_be32(end & 0xffff)) : "memory");
	asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(q->doorbell), "l"(ref_be64(db)) : "memory");
}

static __device__ __forceinline__ uint64_t ref_wait(const struct ref_queue *q, uint64_t done, uint64_t end)
{
	uint64_t tail;

	while (done < end) {
		asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(tail) : "l"(q->cqe_tail) : "memory");
		if (tail >> 60 != 15)
			done += (uint16_t)(__byte_perm((uint32_t)(tail >> 32), 0, 0x4401) + 1 - done);
	}
	return done;
}

#endif
