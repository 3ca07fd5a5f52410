/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between memory of PEs that is mapped here.
 *
 * 1, 2, 4 and 8 aligned bytes are one load and one store, since peers may wait for such a word. In the C build the rest is the
 * C library's memcpy, which knows the processor's best way for each size. In scope warp and block the threads share the work.
 */
#ifndef SHMDI_PE_COPY_H
#define SHMDI_PE_COPY_H

#include <shmd/dev/impl/annotate.h>
#include <shmd/dev/impl/coop.h>
#include <shmd/dev/impl/order-pes.h>

/* 1, 2, 4 or 8. */
SHMDI_FN int shmdi_bytes_are_word(uint64_t bytes)
{
	return bytes - 1 < 8 && (bytes & (bytes - 1)) == 0;
}

SHMDI_FN int shmdi_copy_is_word(const void *dest, const void *source, uint64_t bytes)
{
	uint64_t both = (uint64_t)(uintptr_t)dest | (uint64_t)(uintptr_t)source;

	return shmdi_bytes_are_word(bytes) && !(both & (bytes - 1));
}

SHMDI_FN void shmdi_copy_word(void *dest, const void *source, uint64_t bytes)
{
	shmdi_pes_store(dest, shmdi_pes_load(source, (uint32_t)bytes), (uint32_t)bytes);
}

#if SHMDI_CUDA
/* The loads of so many units are under way before the first store. */
#define SHMDI_COPY_AHEAD 4

/*
 * Bytes in units of 16, the threads in turn; a thread that has nothing does not call. Most calls have one unit for each thread, or less. Places
 * are counted in bytes: a GPU's single thread waits for each of its instructions.
 */
SHMDI_FN void shmdi_copy_units(uint8_t *dest, const uint8_t *source, uint64_t bytes, uint32_t rank, uint32_t size)
{
	uint64_t at = (uint64_t)rank * 16, step = (uint64_t)size * 16;
	ulonglong2 units[SHMDI_COPY_AHEAD];
	int k;

	if (SHMDI_LIKELY(bytes <= step)) {
		*(ulonglong2 *)(dest + at) = *(const ulonglong2 *)(source + at);
		return;
	}
	SHMDI_ROLLED
	for (; at + (SHMDI_COPY_AHEAD - 1) * step < bytes; at += SHMDI_COPY_AHEAD * step) {
#pragma unroll
		for (k = 0; k < SHMDI_COPY_AHEAD; k++)
			units[k] = *(const ulonglong2 *)(source + at + k * step);
#pragma unroll
		for (k = 0; k < SHMDI_COPY_AHEAD; k++)
			*(ulonglong2 *)(dest + at + k * step) = units[k];
	}
	SHMDI_ROLLED
	for (; at < bytes; at += step)
		*(ulonglong2 *)(dest + at) = *(const ulonglong2 *)(source + at);
}

/* The threads take units in turn: 16 bytes where both sides are aligned, else 8, else 1. A word is the leader's. */
SHMDI_SLOW void shmdi_copy_long(void *dest, const void *source, uint64_t bytes, int scope)
{
	uint64_t both = (uint64_t)(uintptr_t)dest | (uint64_t)(uintptr_t)source, i, done = 0;
	uint32_t rank = shmdi_scope_rank(scope), size = shmdi_scope_size(scope);

	if (shmdi_copy_is_word(dest, source, bytes)) {
		if (rank == 0)
			shmdi_copy_word(dest, source, bytes);
		return;
	}
	if (both % 16 == 0) {
		done = bytes / 16 * 16;
		if (rank < bytes / 16)
			shmdi_copy_units((uint8_t *)dest, (const uint8_t *)source, done, rank, size);
	} else if (both % 8 == 0) {
		for (i = rank; i < bytes / 8; i += size)
			((uint64_t *)dest)[i] = ((const uint64_t *)source)[i];
		done = bytes / 8 * 8;
	}
	for (i = done + rank; i < bytes; i += size)
		((uint8_t *)dest)[i] = ((const uint8_t *)source)[i];
}
#endif

#if SHMDI_CUDA
/* The loads of four words are under way before the first store. */
#define SHMDI_COPY_WORDS(T)                                                                                                        \
	do {                                                                                                                       \
		const T *in = (const T *)source;                                                                                   \
		T *out = (T *)dest, a, b, c, d;                                                                                    \
                                                                                                                                   \
		for (; n >= 4; n -= 4, in += 4, out += 4) {                                                                        \
			a = in[0];                                                                                                 \
			b = in[1];                                                                                                 \
			c = in[2];                                                                                                 \
			d = in[3];                                                                                                 \
			out[0] = a;                                                                                                \
			out[1] = b;                                                                                                \
			out[2] = c;                                                                                                \
			out[3] = d;                                                                                                \
		}                                                                                                                  \
		for (; n; n--)                                                                                                     \
			*out++ = *in++;                                                                                            \
	} while (0)
#endif

/*
 * Any number of bytes, by one thread, between places that others do not write meanwhile. On a GPU by the widest words that both places allow:
 * memcpy of a length that the compiler does not know goes byte by byte there.
 */
SHMDI_FN void shmdi_bytes_copy(void *dest, const void *source, uint64_t bytes)
{
#if SHMDI_CUDA
	uint64_t both = (uint64_t)(uintptr_t)dest | (uint64_t)(uintptr_t)source | bytes;
	uint64_t n = both % 16 == 0 ? bytes / 16 : both % 8 == 0 ? bytes / 8 : both % 4 == 0 ? bytes / 4 : bytes;

	if (both % 16 == 0)
		SHMDI_COPY_WORDS(ulonglong2);
	else if (both % 8 == 0)
		SHMDI_COPY_WORDS(uint64_t);
	else if (both % 4 == 0)
		SHMDI_COPY_WORDS(uint32_t);
	else
		SHMDI_COPY_WORDS(uint8_t);
#else
	__builtin_memcpy(dest, source, bytes);
#endif
}

/* On a GPU a copy is quick in whole units of 16 bytes, or of a word; in scope warp and block of a word of 8 bytes. */
SHMDI_FN int shmdi_copy_is_quick(const void *dest, const void *source, uint64_t bytes, int scope)
{
#if SHMDI_CUDA
	uint32_t all = (uint32_t)((uint64_t)(uintptr_t)dest | (uint64_t)(uintptr_t)source | bytes);

	return all % 16 == 0 || (scope == SHMD_DEV_THREAD ? shmdi_copy_is_word(dest, source, bytes) : bytes == 8 && all % 8 == 0);
#else
	(void)dest;
	(void)source;
	(void)bytes;
	(void)scope;
	return 1;
#endif
}

/* The share of this thread where a copy is quick. Returns 0 where it is not. Threads that have nothing do not call. */
SHMDI_FN int shmdi_copy_quick(void *dest, const void *source, uint64_t bytes, int scope)
{
#if SHMDI_CUDA
	uint32_t all = (uint32_t)((uint64_t)(uintptr_t)dest | (uint64_t)(uintptr_t)source | bytes), rank = shmdi_scope_rank(scope);

	if (SHMDI_LIKELY(all % 16 == 0)) {
		shmdi_copy_units((uint8_t *)dest, (const uint8_t *)source, bytes, rank, shmdi_scope_size(scope));
		return 1;
	}
	if (!shmdi_copy_is_quick(dest, source, bytes, scope))
		return 0;
	if (rank == 0)
		shmdi_copy_word(dest, source, scope == SHMD_DEV_THREAD ? bytes : 8);
	return 1;
#else
	(void)scope;
	if (shmdi_copy_is_word(dest, source, bytes))
		shmdi_copy_word(dest, source, bytes);
	else if (bytes) /* of nothing the source may be NULL */
		__builtin_memcpy(dest, source, bytes);
	return 1;
#endif
}

/* Whether this thread has nothing of a copy that is quick: most of a block have nothing of a short one. The leader is not asked. */
SHMDI_FN int shmdi_copy_is_others(uint64_t bytes, int scope)
{
	uint32_t rank = shmdi_scope_rank(scope);

	return (uint64_t)rank * 16 >= bytes && rank;
}

/* The share of this thread; all threads of the scope call. */
SHMDI_FN void shmdi_copy_share(void *dest, const void *source, uint64_t bytes, int scope)
{
#if SHMDI_CUDA
	if (!shmdi_copy_is_quick(dest, source, bytes, scope)) {
		shmdi_copy_long(dest, source, bytes, scope);
		return;
	}
	if (!bytes || shmdi_copy_is_others(bytes, scope))
		return;
#endif
	(void)shmdi_copy_quick(dest, source, bytes, scope);
}

/* All threads of the scope call; the copy is complete when they return. */
SHMDI_FN void shmdi_copy(void *dest, const void *source, uint64_t bytes, int scope)
{
	shmdi_copy_share(dest, source, bytes, scope);
	(void)shmdi_scope_enter(scope);
}

#endif
