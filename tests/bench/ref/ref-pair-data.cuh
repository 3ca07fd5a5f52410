/* SPDX-License-Identifier: Apache-2.0 */
/* References: data between two PEs that each other's kernels map. Four words of 16 bytes are under way for each thread. */
#include "ref-pair.cuh"

/* All threads of so many blocks. */
static __device__ __forceinline__ void ref_copy(void *to, const void *from, uint64_t bytes, uint32_t block, uint32_t n_blocks)
{
	uint64_t n = bytes / 16, step = (uint64_t)n_blocks * blockDim.x, i = (uint64_t)block * blockDim.x + threadIdx.x;
	const ulonglong2 *in = (const ulonglong2 *)from;
	ulonglong2 *out = (ulonglong2 *)to, v[4];

	for (; i + 3 * step < n; i += 4 * step) {
#pragma unroll
		for (int k = 0; k < 4; k++)
			v[k] = in[i + k * step];
#pragma unroll
		for (int k = 0; k < 4; k++)
			out[i + k * step] = v[k];
	}
	for (; i < n; i += step)
		out[i] = in[i];
	if (!block && threadIdx.x < bytes % 16)
		((uint8_t *)to)[n * 16 + threadIdx.x] = ((const uint8_t *)from)[n * 16 + threadIdx.x];
}

/* Data, then a flag: back and forth. */
static __global__ void ref_data_and_flag(struct ref_pair r)
{
	uint64_t begin = 0;

	for (uint32_t i = 0; i < r.n_warm + r.n; i++) {
		begin = ref_begin(r, i, begin);
		for (uint32_t turn = 0; turn < 2; turn++) {
			if (turn == r.me)
				ref_copy(r.peer, r.source, r.bytes, 0, 1);
			__syncthreads();
			if (!threadIdx.x && turn == r.me)
				ref_release(r.peer_words, r.first + i + 1);
			if (!threadIdx.x && turn != r.me)
				ref_await(r.own_words, r.first + i + 1);
			__syncthreads();
		}
	}
	if (!threadIdx.x)
		*r.ret_nsec = ref_now() - begin;
}

static __global__ void ref_puts(struct ref_pair r)
{
	for (uint32_t i = 0; i < r.n; i++) {
		ref_copy(r.peer, r.source, r.bytes, blockIdx.x, gridDim.x);
		__syncthreads();
	}
	__threadfence_system();
}
