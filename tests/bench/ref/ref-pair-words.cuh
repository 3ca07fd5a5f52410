/* SPDX-License-Identifier: Apache-2.0 */
/* References: words of two PEs that each other's kernels map. A ping-pong, atomics, a sync and a barrier. */
#include "ref-pair.cuh"

static __global__ void ref_ping_pong(struct ref_pair r)
{
	uint64_t begin = 0;

	for (uint32_t i = 0; i < r.n_warm + r.n; i++) {
		begin = ref_begin(r, i, begin);
		if (r.me)
			ref_await(r.own_words, r.first + i + 1);
		ref_store(r.peer_words, r.first + i + 1);
		if (!r.me)
			ref_await(r.own_words, r.first + i + 1);
	}
	*r.ret_nsec = ref_now() - begin;
}

static __global__ void ref_fetch_add(struct ref_pair r)
{
	uint64_t last = 0;

	for (uint32_t i = 0; i < r.n; i++)
		last += atomicAdd_system((unsigned long long *)r.peer_words + 8, 1 + (last >> 63));
	*r.ret_nsec = last;
}

/* releases: what other threads of the block stored before it is visible to the other PE after it. */
template <bool releases> static __global__ void ref_meet(struct ref_pair r)
{
	uint64_t begin = 0;

	for (uint32_t i = 0; i < r.n_warm + r.n; i++) {
		begin = ref_begin(r, i, begin);
		__syncthreads();
		if (!threadIdx.x) {
			(releases ? ref_release : ref_store)(r.peer_words, r.first + i + 1);
			ref_await(r.own_words, r.first + i + 1);
		}
		__syncthreads();
	}
	if (!threadIdx.x)
		*r.ret_nsec = ref_now() - begin;
}
