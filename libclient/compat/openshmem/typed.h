/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of the functions of many types: bytes in place of elements, bits in place of values. name: of the function, for errors. */
#ifndef SHMD_OPENSHMEM_TYPED_H
#define SHMD_OPENSHMEM_TYPED_H

#include <string.h>

#include "libclient/compat/openshmem/openshmem.h"

/* ---- remote memory access */

static inline void osh_put(const char *name, shmem_ctx_t ctx, void *dest, const void *source, size_t bytes, int pe)
{
	osh_check(name, shmd_put(osh_ctx_of(ctx), osh_symmetric(dest), source, bytes, pe));
}

static inline void osh_put_nbi(const char *name, shmem_ctx_t ctx, void *dest, const void *source, size_t bytes, int pe)
{
	osh_check(name, shmd_put_nbi(osh_ctx_of(ctx), osh_symmetric(dest), source, bytes, pe));
}

static inline void osh_get(const char *name, shmem_ctx_t ctx, void *dest, const void *source, size_t bytes, int pe)
{
	osh_check(name, shmd_get(osh_ctx_of(ctx), dest, osh_symmetric(source), bytes, pe));
}

static inline void osh_get_nbi(const char *name, shmem_ctx_t ctx, void *dest, const void *source, size_t bytes, int pe)
{
	osh_check(name, shmd_get_nbi(osh_ctx_of(ctx), dest, osh_symmetric(source), bytes, pe));
}

/* n blocks of n_elements each; the starts of blocks are so many elements apart. */
struct osh_blocks {
	size_t n, n_elements;
	ptrdiff_t dest_stride, source_stride;
	size_t bytes; /* of an element */
};

/* All products are bounded by the program's memory: the elements lie in it. */
static inline struct shmd_stride osh_stride(struct osh_blocks blocks)
{
	return (struct shmd_stride){.n = blocks.n,
				    .block_bytes = blocks.n_elements * blocks.bytes,
				    .dest_stride_bytes = (size_t)blocks.dest_stride * blocks.bytes,
				    .source_stride_bytes = (size_t)blocks.source_stride * blocks.bytes};
}

static inline void osh_iput(const char *name, shmem_ctx_t ctx, void *dest, const void *source, struct osh_blocks blocks, int pe)
{
	struct shmd_stride stride = osh_stride(blocks);

	osh_check(name, shmd_put_strided(osh_ctx_of(ctx), osh_symmetric(dest), source, &stride, pe));
}

static inline void osh_iget(const char *name, shmem_ctx_t ctx, void *dest, const void *source, struct osh_blocks blocks, int pe)
{
	struct shmd_stride stride = osh_stride(blocks);

	osh_check(name, shmd_get_strided(osh_ctx_of(ctx), dest, osh_symmetric(source), &stride, pe));
}

struct osh_signal {
	uint64_t *word;
	uint64_t value;
	int op; /* SHMEM_SIGNAL_* */
};

static inline void osh_put_signal(const char *name, shmem_ctx_t ctx, void *dest, const void *source, size_t bytes, struct osh_signal signal,
				  int pe)
{
	osh_check(name, shmd_put_signal(osh_ctx_of(ctx), osh_symmetric(dest), source, bytes, osh_symmetric(signal.word), signal.value,
					(enum shmd_signal_op)signal.op, pe));
}

static inline void osh_put_signal_nbi(const char *name, shmem_ctx_t ctx, void *dest, const void *source, size_t bytes,
				      struct osh_signal signal, int pe)
{
	osh_check(name, shmd_put_signal_nbi(osh_ctx_of(ctx), osh_symmetric(dest), source, bytes, osh_symmetric(signal.word), signal.value,
					    (enum shmd_signal_op)signal.op, pe));
}

/* ---- values */

/* The first 8 bytes of a value as a number, and back. */
#define OSH_BITS(T, value) \
	({ \
		T osh_value = (value); \
		uint64_t osh_bits = 0; \
		memcpy(&osh_bits, &osh_value, sizeof(T) < 8 ? sizeof(T) : 8); \
		osh_bits; \
	})
#define OSH_VALUE(T, bits) \
	({ \
		uint64_t osh_number = (bits); \
		T osh_result; \
		memcpy(&osh_result, &osh_number, sizeof(T) < 8 ? sizeof(T) : 8); \
		osh_result; \
	})

static inline void osh_p(const char *name, shmem_ctx_t ctx, void *dest, uint64_t bits, size_t bytes, int pe)
{
	osh_check(name, shmd_p(osh_ctx_of(ctx), osh_symmetric(dest), bits, bytes, pe));
}

static inline uint64_t osh_g(const char *name, shmem_ctx_t ctx, const void *source, size_t bytes, int pe)
{
	uint64_t bits = 0;

	osh_check(name, shmd_g(osh_ctx_of(ctx), osh_symmetric(source), bytes, pe, &bits));
	return bits;
}

static inline void osh_atomic(const char *name, shmem_ctx_t ctx, void *dest, struct shmd_atomic atomic, int pe)
{
	osh_check(name, shmd_atomic(osh_ctx_of(ctx), osh_symmetric(dest), &atomic, pe));
}

static inline uint64_t osh_fetch(const char *name, shmem_ctx_t ctx, const void *dest, struct shmd_atomic atomic, int pe)
{
	uint64_t old = 0;

	osh_check(name, shmd_atomic_fetch(osh_ctx_of(ctx), osh_symmetric(dest), &atomic, pe, &old));
	return old;
}

/* The former value is at `old` after a quiet. */
static inline void osh_fetch_nbi(const char *name, shmem_ctx_t ctx, void *old, const void *dest, struct shmd_atomic atomic, int pe)
{
	osh_check(name, shmd_atomic_fetch_nbi(osh_ctx_of(ctx), osh_symmetric(dest), &atomic, pe, old));
}

static inline struct shmd_atomic osh_amo(enum shmd_atomic_op op, size_t bytes, uint64_t value, uint64_t compare)
{
	return (struct shmd_atomic){.op = op, .bytes = (uint32_t)bytes, .value = value, .compare = compare};
}

/* ---- words of the caller that others change. Data of the program is waited for where it lies */

#define OSH_IS_SIGNED(T) ((T)-1 < (T)1)
#define OSH_CMP(T, cmp) ((uint32_t)(cmp) | (OSH_IS_SIGNED(T) ? SHMD_CMP_SIGNED : 0u))

#define OSH_WORDS(T, ivars, nelems, skip, how, number) \
	((struct shmd_wait){.words = ivars, .n = nelems, .bytes = sizeof(T), .cmp = OSH_CMP(T, how), .status = skip, .value = (uint64_t)number})
#define OSH_WORDS_AND_VALUES(T, ivars, nelems, skip, how, numbers) \
	((struct shmd_wait){.words = ivars, .n = nelems, .bytes = sizeof(T), .cmp = OSH_CMP(T, how), .status = skip, .values = numbers})

static inline void osh_wait_until(const char *name, const void *word, size_t bytes, uint32_t cmp, uint64_t value)
{
	osh_check(name, shmd_wait_until(osh.ctx, word, (uint32_t)bytes, cmp, value));
}

static inline void osh_wait_until_all(const char *name, const struct shmd_wait *wait)
{
	osh_check(name, shmd_wait_until_all(osh.ctx, wait));
}

/* Fair: a word for which the comparison holds is returned after some calls, whatever the others are. */
size_t osh_wait_until_any(const char *name, const struct shmd_wait *wait);
size_t osh_test_any(const char *name, const struct shmd_wait *wait);

static inline size_t osh_wait_until_some(const char *name, const struct shmd_wait *wait, size_t *indices)
{
	size_t n = 0;

	osh_check(name, shmd_wait_until_some(osh.ctx, wait, indices, &n));
	return n;
}

/* 1 or 0. */
static inline int osh_looked(const char *name, int found)
{
	osh_check(name, found);
	return found;
}

static inline int osh_test(const char *name, const void *word, size_t bytes, uint32_t cmp, uint64_t value)
{
	return osh_looked(name, shmd_test(osh.ctx, word, (uint32_t)bytes, cmp, value));
}

static inline int osh_test_all(const char *name, const struct shmd_wait *wait)
{
	return osh_looked(name, shmd_test_all(osh.ctx, wait));
}

static inline size_t osh_test_some(const char *name, const struct shmd_wait *wait, size_t *indices)
{
	size_t n = 0;

	return osh_looked(name, shmd_test_some(osh.ctx, wait, indices, &n)) ? n : 0;
}

#endif
