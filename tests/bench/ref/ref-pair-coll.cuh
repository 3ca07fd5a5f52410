/* SPDX-License-Identifier: Apache-2.0 */
/* References: collectives of two PEs whose kernels write to each other's memory, between two barriers of one release and one flag each. */
#include "ref-pair-data.cuh"

static __device__ __forceinline__ void ref_barrier(const struct ref_pair &r, uint64_t number)
{
	__syncthreads();
	if (!threadIdx.x) {
		ref_release(r.peer_words, number);
		ref_await(r.own_words, number);
	}
	__syncthreads();
}

/* A block of this PE's to each. moves_all: the same block to both, as fcollect; else block i to PE i, as alltoall. */
template <bool moves_all> static __global__ void ref_blocks(struct ref_pair r)
{
	uint64_t begin = 0, to_own = moves_all ? 0 : r.me * r.bytes, to_peer = moves_all ? 0 : (1 - r.me) * r.bytes;

	for (uint32_t i = 0; i < r.n_warm + r.n; i++) {
		begin = ref_begin(r, i, begin);
		ref_barrier(r, r.first + 2 * i + 1);
		ref_copy(r.peer + r.me * r.bytes, r.source + to_peer, r.bytes, 0, 1);
		ref_copy(r.own + r.me * r.bytes, r.source + to_own, r.bytes, 0, 1);
		ref_barrier(r, r.first + 2 * i + 2);
	}
	if (!threadIdx.x)
		*r.ret_nsec = ref_now() - begin;
}

/* Each PE adds one half and writes it to both. The other's source lies as far behind its data as this PE's. */
static __global__ void ref_sum_halves(struct ref_pair r)
{
	const float4 *mine = (const float4 *)r.source, *other = (const float4 *)(r.peer + (r.source - r.own));
	float4 *own = (float4 *)r.own, *peer = (float4 *)r.peer;
	uint64_t half = r.bytes / 32, begin = 0;

	for (uint32_t i = 0; i < r.n_warm + r.n; i++) {
		begin = ref_begin(r, i, begin);
		ref_barrier(r, r.first + 2 * i + 1);
#pragma unroll 4
		for (uint64_t k = r.me * half + threadIdx.x; k < (r.me + 1) * half; k += blockDim.x) {
			float4 a = mine[k], b = other[k], sum = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);

			own[k] = sum;
			peer[k] = sum;
		}
		ref_barrier(r, r.first + 2 * i + 2);
	}
	if (!threadIdx.x)
		*r.ret_nsec = ref_now() - begin;
}
