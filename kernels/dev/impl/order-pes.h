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
#define SHMDI_PES_ADD(word, v) atomicAdd_system(word, v)
#define SHMDI_PES_AND(word, v) atomicAnd_system(word, v)
#define SHMDI_PES_OR(word, v) atomicOr_system(word, v)
#define SHMDI_PES_XOR(word, v) atomicXor_system(word, v)
#define SHMDI_PES_SWAP(word, v) atomicExch_system(word, v)
#else
#define SHMDI_WORD64 uint64_t
#define SHMDI_WORD32 uint32_t
#define SHMDI_PES_ADD(word, v) __atomic_fetch_add(word, v, __ATOMIC_ACQ_REL)
#define SHMDI_PES_AND(word, v) __atomic_fetch_and(word, v, __ATOMIC_ACQ_REL)
#define SHMDI_PES_OR(word, v) __atomic_fetch_or(word, v, __ATOMIC_ACQ_REL)
#define SHMDI_PES_XOR(word, v) __atomic_fetch_xor(word, v, __ATOMIC_ACQ_REL)
#define SHMDI_PES_SWAP(word, v) __atomic_exchange_n(word, v, __ATOMIC_ACQ_REL)
#endif

/* Returns the previous value. */
SHMDI_FN uint64_t shmdi_pes_compare_swap(void *word, uint32_t bytes, uint64_t expected, uint64_t v)
{
#if SHMDI_CUDA
	if (bytes == 8)
		return atomicCAS_system((SHMDI_WORD64 *)word, (SHMDI_WORD64)expected, (SHMDI_WORD64)v);
	return atomicCAS_system((SHMDI_WORD32 *)word, (SHMDI_WORD32)expected, (SHMDI_WORD32)v);
#else
	uint32_t expected32 = (uint32_t)expected;

	if (bytes == 8) {
		__atomic_compare_exchange_n((uint64_t *)word, &expected, v, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
		return expected;
	}
	__atomic_compare_exchange_n((uint32_t *)word, &expected32, (uint32_t)v, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
	return expected32;
#endif
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
		return SHMDI_PES_ADD(word, amo->value);
	case SHMD_DEV_AMO_AND:
		return SHMDI_PES_AND(word, amo->value);
	case SHMD_DEV_AMO_OR:
		return SHMDI_PES_OR(word, amo->value);
	case SHMD_DEV_AMO_XOR:
		return SHMDI_PES_XOR(word, amo->value);
	default:
		return SHMDI_PES_SWAP(word, amo->value);
	}
}

SHMDI_FN uint64_t shmdi_pes_amo32(void *at, const struct shmd_dev_amo *amo)
{
	SHMDI_WORD32 *word = (SHMDI_WORD32 *)at;
	SHMDI_WORD32 value = (SHMDI_WORD32)amo->value;

	switch (amo->op) {
	case SHMD_DEV_AMO_ADD:
		return SHMDI_PES_ADD(word, value);
	case SHMD_DEV_AMO_AND:
		return SHMDI_PES_AND(word, value);
	case SHMD_DEV_AMO_OR:
		return SHMDI_PES_OR(word, value);
	case SHMD_DEV_AMO_XOR:
		return SHMDI_PES_XOR(word, value);
	default:
		return SHMDI_PES_SWAP(word, value);
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
