/* SPDX-License-Identifier: Apache-2.0 */
/* References for shmemperf: what a bare kernel of one of two PEs is given. Kernels that include this know nothing of a library. */
#ifndef REF_PAIR_CUH
#define REF_PAIR_CUH

#include <stdint.h>

/* own: of this PE; peer: the same memory of the other, mapped here. Words only grow, from `first` on. */
struct ref_pair {
	uint64_t *own_words, *peer_words;
	uint8_t *source, *own, *peer; /* data, own and the other's place for it */
	uint64_t bytes, first;
	uint32_t me, n_warm, n;
	uint64_t *ret_nsec; /* of the last n of n_warm + n rounds */
	uint32_t *ret_bad; /* raised where a result is wrong */
};

static __device__ __forceinline__ uint64_t ref_now(void)
{
	uint64_t now;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	return now;
}

/* Thread 0, in each round: notes the begin of the first that counts. */
static __device__ __forceinline__ uint64_t ref_begin(const struct ref_pair &r, uint32_t i, uint64_t begin)
{
	return i == r.n_warm ? ref_now() : begin;
}

static __device__ __forceinline__ void ref_store(uint64_t *word, uint64_t v)
{
	asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(word), "l"(v) : "memory");
}

static __device__ __forceinline__ void ref_release(uint64_t *word, uint64_t v)
{
	asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(word), "l"(v) : "memory");
}

static __device__ __forceinline__ uint64_t ref_load(const uint64_t *word)
{
	uint64_t v;

	asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(v) : "l"(word) : "memory");
	return v;
}

static __device__ __forceinline__ void ref_await(const uint64_t *word, uint64_t v)
{
	while (ref_load(word) < v)
		;
}

#endif
