/* SPDX-License-Identifier: Apache-2.0 */
/* Reference: a sum of two PEs whose floats carry their flag, in memory that each other's kernels map. */
#include "ref-pair.cuh"

/* A float travels in a word with the number of the round; words of two rounds in turn. */
static __global__ void ref_sum(struct ref_pair r)
{
	const float *mine = (const float *)r.source;
	float *sum = (float *)(r.source + r.bytes);
	uint32_t n = (uint32_t)(r.bytes / sizeof(float));
	uint64_t begin = 0;

	for (uint32_t i = 0; i < r.n_warm + r.n; i++) {
		uint64_t round = r.first + i + 1, *own = (uint64_t *)r.own + (i & 1) * n, *peer = (uint64_t *)r.peer + (i & 1) * n, word;

		begin = ref_begin(r, i, begin);
		for (uint32_t at = threadIdx.x; at < n; at += blockDim.x)
			ref_store(peer + at, round << 32 | __float_as_uint(mine[at]));
		for (uint32_t at = threadIdx.x; at < n; at += blockDim.x) {
			while ((uint32_t)((word = ref_load(own + at)) >> 32) != (uint32_t)round)
				;
			sum[at] = mine[at] + __uint_as_float((uint32_t)word);
		}
		__syncthreads();
	}
	if (!threadIdx.x)
		*r.ret_nsec = ref_now() - begin;
}
