/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reference: the least that posts an inline put of 8 bytes by a DCI, whose requests have the peer's address vector and take two WQEBBs; beside
 * ref-gpu-post.cuh. A request that asks for a CQE is named in it by its first WQEBB.
 */
#ifndef REF_DC_POST_CUH
#define REF_DC_POST_CUH

#include "ref-gpu-post.cuh"

#define REF_DC_WQEBBS 2u
#define REF_DC_CE 8u

struct ref_dc {
	struct ref_queue q;
	const ulonglong2 *av; /* 48 bytes */
};

/* At index i. The ring has an even number of WQEBBs, so a request does not wrap. */
static __device__ __forceinline__ void ref_dc_wqe(const struct ref_dc *dc, uint64_t i, uint64_t value, uint32_t ce)
{
	const struct ref_queue *q = &dc->q;
	ulonglong2 *wqe = (ulonglong2 *)(q->sq + (i & (q->wqebbs - 1)) * 64);
	uint64_t control = (uint64_t)ref_be32(q->qpn << 8 | 6) << 32 | ref_be32((uint32_t)(i & 0xffff) << 8 | 8);

	wqe[0] = make_ulonglong2(control, (uint64_t)ce << 24);
	wqe[1] = dc->av[0];
	wqe[2] = dc->av[1];
	wqe[3] = dc->av[2];
	wqe[4] = make_ulonglong2(ref_be64(q->remote), q->rkey_be);
	wqe[5] = make_ulonglong2(value << 32 | ref_be32(0x80000008u), value >> 32);
}

/* Until the request in front of `end`, which has asked for a CQE, is complete. */
static __device__ __forceinline__ void ref_dc_wait(struct ref_dc *dc, uint64_t end)
{
	dc->q.done = ref_wait(&dc->q, dc->q.done, end - REF_DC_WQEBBS + 1);
}

#endif
