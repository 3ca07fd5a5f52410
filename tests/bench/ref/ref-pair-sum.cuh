/* SPDX-License-Identifier: Apache-2.0 */
/* Reference: a sum of two PEs whose floats carry their flag, in memory that each other's kernels map. */
#include "ref-pair.cuh"

/* A thread for each float, or more. A float travels in a word with the number of the round; words of two rounds in turn. */
static __global__ void ref_sum(struct ref_pair r)
{
	uint32_t n = (uint32_t)(r.bytes / sizeof(float)), at = threadIdx.x < n ? threadIdx.x : n - 1;
	float mine = ((const float *)r.source)[at], *sum = (float *)(r.source + r.bytes);
	uint64_t begin = 0;

	for (uint32_t i = 0; i < r.n_warm + r.n; i++) {
		uint64_t round = r.first + i + 1, *slot = (uint64_t *)r.own + at + (i & 1) * n, word;

		begin = ref_begin(r, i, begin);
		ref_store((uint64_t *)r.peer + at + (i & 1) * n, round << 32 | __float_as_uint(mine));
		while ((uint32_t)((word = ref_load(slot)) >> 32) != (uint32_t)round)
			;
		sum[at] = mine + __uint_as_float((uint32_t)word);
		__syncthreads();
	}
	if (!threadIdx.x)
		*r.ret_nsec = ref_now() - begin;
}
