/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of order.h for memory that PEs share: words of a heap that is mapped here, read and written by CPU threads and
 * kernels of several processes.
 *
 * The C build releases with every store of a word and acquires with every load of one, since that costs nothing on x86 and
 * lets TSan see each pairing. On a GPU words are relaxed at system scope, and shmdi_pes_fence() orders them.
 */
#ifndef SHMDI_ORDER_PES_H
#define SHMDI_ORDER_PES_H

#include <shmd/dev/args.h>
#include <shmd/dev/impl/annotate.h>
#include <shmd/dev/impl/order.h>

/* ---- words ---------------------------------------------------------------------------------------------------------------- */

/* One store of 1, 2, 4 or 8 bytes, naturally aligned: a reader sees all of it or nothing. */
SHMDI_FN void shmdi_pes_store(void *word, uint64_t v, uint32_t bytes)
{
#if SHMDI_CUDA
	if (bytes == 8)
		SHMDI_PTX_ST("st.relaxed.sys.u64", word, v, "l");
	else if (bytes == 4)
		SHMDI_PTX_ST("st.relaxed.sys.u32", word, (uint32_t)v, "r");
	else if (bytes == 2)
		*(volatile uint16_t *)word = (uint16_t)v;
	else
		*(volatile uint8_t *)word = (uint8_t)v;
#else
	if (bytes == 8)
		__atomic_store_n((uint64_t *)word, v, __ATOMIC_RELEASE);
	else if (bytes == 4)
		__atomic_store_n((uint32_t *)word, (uint32_t)v, __ATOMIC_RELEASE);
	else if (bytes == 2)
		__atomic_store_n((uint16_t *)word, (uint16_t)v, __ATOMIC_RELEASE);
	else
		__atomic_store_n((uint8_t *)word, (uint8_t)v, __ATOMIC_RELEASE);
#endif
}

/* One load. After it the caller sees what a peer put before the word, if the peer ordered both. */
SHMDI_FN uint64_t shmdi_pes_load(const void *word, uint32_t bytes)
{
#if SHMDI_CUDA
	uint16_t v;

	if (bytes == 8)
		return shmdi_word_load64((const uint64_t *)word);
	if (bytes == 4)
		return shmdi_word_load32((const uint32_t *)word);
	if (bytes == 1)
		return *(const volatile uint8_t *)word;
	SHMDI_PTX_LD("ld.acquire.sys.u16", v, word, "h");
	return v;
#else
	if (bytes == 8)
		return __atomic_load_n((const uint64_t *)word, __ATOMIC_ACQUIRE);
	if (bytes == 4)
		return __atomic_load_n((const uint32_t *)word, __ATOMIC_ACQUIRE);
	if (bytes == 2)
		return __atomic_load_n((const uint16_t *)word, __ATOMIC_ACQUIRE);
	return __atomic_load_n((const uint8_t *)word, __ATOMIC_ACQUIRE);
#endif
}

/* Two words, aligned to both: a reader sees each of them whole, or not yet. */
SHMDI_FN void shmdi_pes_store_pair(uint64_t *words, uint64_t first, uint64_t second)
{
#if SHMDI_CUDA
	asm volatile("st.relaxed.sys.v2.u64 [%0], {%1, %2};" ::"l"(words), "l"(first), "l"(second) : "memory");
#else
	__atomic_store_n(words, first, __ATOMIC_RELEASE);
	__atomic_store_n(words + 1, second, __ATOMIC_RELEASE);
#endif
}

/* On a GPU they order nothing: what they say is in themselves. */
SHMDI_FN void shmdi_pes_load_pair(const uint64_t *words, uint64_t *ret_first, uint64_t *ret_second)
{
#if SHMDI_CUDA
	asm volatile("ld.relaxed.sys.v2.u64 {%0, %1}, [%2];" : "=l"(*ret_first), "=l"(*ret_second) : "l"(words) : "memory");
#else
	*ret_first = __atomic_load_n(words, __ATOMIC_ACQUIRE);
	*ret_second = __atomic_load_n(words + 1, __ATOMIC_ACQUIRE);
#endif
}

/* Everything this caller stored comes before the word. */
SHMDI_FN void shmdi_pes_publish64(uint64_t *word, uint64_t v)
{
#if SHMDI_CUDA
	SHMDI_PTX_ST("st.release.sys.u64", word, v, "l");
#else
	__atomic_store_n(word, v, __ATOMIC_RELEASE);
#endif
}

/* ---- fences --------------------------------------------------------------------------------------------------------------- */

/* Stores of this caller before stores after it, as other PEs see them. */
SHMDI_FN void shmdi_pes_fence(void)
{
#if SHMDI_CUDA
	__threadfence_system();
#elif SHMDI_TSAN
	/* TSan sees no fence; it sees the releasing stores of words. */
	uint32_t fence = 0;

	__atomic_fetch_add(&fence, 1, __ATOMIC_SEQ_CST);
#else
	__atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

/* Stores of this caller are visible before it loads anything. */
SHMDI_FN void shmdi_pes_flush(void)
{
#if SHMDI_CUDA
	__threadfence_system();
#elif SHMDI_TSAN || defined(__x86_64__) || defined(__i386__)
	/* On x86 cheaper than the fence instruction, and as strong. */
	uint32_t fence = 0;

	__atomic_fetch_add(&fence, 1, __ATOMIC_SEQ_CST);
#else
	/* On Arm an add made of two instructions lets loads behind it go before stores in front of it. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* ---- atomics in place ------------------------------------------------------------------------------------------------------ */

/* The word after a floating-point add: value and word are the bits of a float or a double. */
SHMDI_FN uint64_t shmdi_float_sum(uint64_t word, uint64_t value, uint32_t bytes)
{
	union {
		uint64_t bits;
		double v;
	} a, b;
	union {
		uint32_t bits;
		float v;
	} c, d;

	if (bytes == 8) {
		a.bits = word;
		b.bits = value;
		a.v += b.v;
		return a.bits;
	}
	c.bits = (uint32_t)word;
	d.bits = (uint32_t)value;
	c.v += d.v;
	return c.bits;
}

/* The word after any operation, for those that are made of compare-swaps. */
SHMDI_FN uint64_t shmdi_amo_outcome(const struct shmd_dev_amo *amo, uint64_t word)
{
	switch (amo->op) {
	case SHMD_DEV_AMO_ADD:
		return word + amo->value;
	case SHMD_DEV_AMO_AND:
		return word & amo->value;
	case SHMD_DEV_AMO_OR:
		return word | amo->value;
	case SHMD_DEV_AMO_XOR:
		return word ^ amo->value;
	case SHMD_DEV_AMO_SWAP:
		return amo->value;
	case SHMD_DEV_AMO_COMPARE_SWAP:
		return word == amo->compare ? amo->value : word;
	case SHMD_DEV_AMO_ADD_FLOAT:
		return shmdi_float_sum(word, amo->value, amo->bytes);
	default:
		return word;
	}
}

#if SHMDI_CUDA
#define SHMDI_WORD64 unsigned long long
#define SHMDI_WORD32 unsigned int
/*
 * Heaps are global memory. An atomic by a pointer of any kind, as those of CUDA's functions are, comes with code for shared memory of a block.
 */
#define SHMDI_PES_FN(name, T, op, c)                                                                                               \
	SHMDI_FN T shmdi_pes_##name(T *word, T v)                                                                                  \
	{                                                                                                                          \
		T old;                                                                                                             \
                                                                                                                                   \
		asm volatile("{ .reg .u64 at; cvta.to.global.u64 at, %1; atom.relaxed.sys.global." op " %0, [at], %2; }"           \
			     : "=" c(old)                                                                                          \
			     : "l"(word), c(v)                                                                                     \
			     : "memory");                                                                                          \
		return old;                                                                                                        \
	}
#define SHMDI_PES_CAS_FN(name, T, op, c)                                                                                           \
	SHMDI_FN T shmdi_pes_##name(T *word, T expected, T v)                                                                      \
	{                                                                                                                          \
		T old;                                                                                                             \
                                                                                                                                   \
		asm volatile("{ .reg .u64 at; cvta.to.global.u64 at, %1; atom.relaxed.sys.global." op " %0, [at], %2, %3; }"       \
			     : "=" c(old)                                                                                          \
			     : "l"(word), c(expected), c(v)                                                                        \
			     : "memory");                                                                                          \
		return old;                                                                                                        \
	}
#else
#define SHMDI_WORD64 uint64_t
#define SHMDI_WORD32 uint32_t
#define SHMDI_PES_FN(name, T, op, c)                                                                                               \
	SHMDI_FN T shmdi_pes_##name(T *word, T v)                                                                                  \
	{                                                                                                                          \
		return op(word, v, __ATOMIC_ACQ_REL);                                                                              \
	}
#define SHMDI_PES_CAS_FN(name, T, op, c)                                                                                           \
	SHMDI_FN T shmdi_pes_##name(T *word, T expected, T v)                                                                      \
	{                                                                                                                          \
		__atomic_compare_exchange_n(word, &expected, v, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);                            \
		return expected;                                                                                                   \
	}
#endif

#if SHMDI_CUDA
#define SHMDI_PES_BOTH(name, op)                                                                                                   \
	SHMDI_PES_FN(name##64, SHMDI_WORD64, op "64", "l") SHMDI_PES_FN(name##32, SHMDI_WORD32, op "32", "r")
SHMDI_PES_BOTH(add, "add.u")
SHMDI_PES_BOTH(and, "and.b")
SHMDI_PES_BOTH(or, "or.b")
SHMDI_PES_BOTH(xor, "xor.b")
SHMDI_PES_BOTH(exch, "exch.b")
SHMDI_PES_CAS_FN(cas64, SHMDI_WORD64, "cas.b64", "l")
SHMDI_PES_CAS_FN(cas32, SHMDI_WORD32, "cas.b32", "r")
#else
#define SHMDI_PES_BOTH(name, op) SHMDI_PES_FN(name##64, SHMDI_WORD64, op, ) SHMDI_PES_FN(name##32, SHMDI_WORD32, op, )
SHMDI_PES_BOTH(add, __atomic_fetch_add)
SHMDI_PES_BOTH(and, __atomic_fetch_and)
SHMDI_PES_BOTH(or, __atomic_fetch_or)
SHMDI_PES_BOTH(xor, __atomic_fetch_xor)
SHMDI_PES_BOTH(exch, __atomic_exchange_n)
SHMDI_PES_CAS_FN(cas64, SHMDI_WORD64, , )
SHMDI_PES_CAS_FN(cas32, SHMDI_WORD32, , )
#endif

/* Returns the previous value. */
SHMDI_FN uint64_t shmdi_pes_compare_swap(void *word, uint32_t bytes, uint64_t expected, uint64_t v)
{
	if (bytes == 8)
		return shmdi_pes_cas64((SHMDI_WORD64 *)word, (SHMDI_WORD64)expected, (SHMDI_WORD64)v);
	return shmdi_pes_cas32((SHMDI_WORD32 *)word, (SHMDI_WORD32)expected, (SHMDI_WORD32)v);
}

/* Swaps until no other operation came between. */
SHMDI_FN uint64_t shmdi_pes_amo_loop(void *word, const struct shmd_dev_amo *amo)
{
	uint64_t old = shmdi_pes_load(word, amo->bytes), found;

	for (;;) {
		found = shmdi_pes_compare_swap(word, amo->bytes, old, shmdi_amo_outcome(amo, old));
		if (SHMDI_LIKELY(found == old))
			return old;
		old = found;
	}
}

SHMDI_FN uint64_t shmdi_pes_amo64(void *at, const struct shmd_dev_amo *amo)
{
	SHMDI_WORD64 *word = (SHMDI_WORD64 *)at;

	switch (amo->op) {
	case SHMD_DEV_AMO_ADD:
		return shmdi_pes_add64(word, amo->value);
	case SHMD_DEV_AMO_AND:
		return shmdi_pes_and64(word, amo->value);
	case SHMD_DEV_AMO_OR:
		return shmdi_pes_or64(word, amo->value);
	case SHMD_DEV_AMO_XOR:
		return shmdi_pes_xor64(word, amo->value);
	default:
		return shmdi_pes_exch64(word, amo->value);
	}
}

SHMDI_FN uint64_t shmdi_pes_amo32(void *at, const struct shmd_dev_amo *amo)
{
	SHMDI_WORD32 *word = (SHMDI_WORD32 *)at;
	SHMDI_WORD32 value = (SHMDI_WORD32)amo->value;

	switch (amo->op) {
	case SHMD_DEV_AMO_ADD:
		return shmdi_pes_add32(word, value);
	case SHMD_DEV_AMO_AND:
		return shmdi_pes_and32(word, value);
	case SHMD_DEV_AMO_OR:
		return shmdi_pes_or32(word, value);
	case SHMD_DEV_AMO_XOR:
		return shmdi_pes_xor32(word, value);
	default:
		return shmdi_pes_exch32(word, value);
	}
}

/* Any valid operation; returns the previous value, zero-extended. */
SHMDI_FN uint64_t shmdi_pes_amo(void *word, const struct shmd_dev_amo *amo)
{
	switch (amo->op) {
	case SHMD_DEV_AMO_FETCH:
		return shmdi_pes_load(word, amo->bytes);
	case SHMD_DEV_AMO_COMPARE_SWAP:
		return shmdi_pes_compare_swap(word, amo->bytes, amo->compare, amo->value);
	case SHMD_DEV_AMO_ADD_FLOAT:
		return shmdi_pes_amo_loop(word, amo);
	default:
		return amo->bytes == 8 ? shmdi_pes_amo64(word, amo) : shmdi_pes_amo32(word, amo);
	}
}

/* The same without a result. */
SHMDI_FN void shmdi_pes_amo_post(void *word, const struct shmd_dev_amo *amo)
{
	if (amo->op == SHMD_DEV_AMO_SWAP)
		shmdi_pes_store(word, amo->value, amo->bytes);
	else
		(void)shmdi_pes_amo(word, amo);
}

#endif
