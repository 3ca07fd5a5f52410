/* SPDX-License-Identifier: Apache-2.0 */
/* Every function of section 9.7, and its deprecated name: on a word of the next PE, and all PEs on one word. */
#include "tests/openshmem/osh.h"

static shmem_ctx_t ctx;

static void complete(void)
{
	shmem_ctx_quiet(ctx);
	shmem_barrier_all();
}

/* The word of this PE after the previous PE's operations. */
#define EXPECT(word, value) \
	do { \
		complete(); \
		CHECK(*(word) == (value)); \
		shmem_barrier_all(); \
	} while (0)

#define DEFINE_EXTENDED(name, type) \
	static void extended_##name(void) \
	{ \
		type *word = shmem_calloc(1, sizeof(type)), old = 0; \
		int pe = next_pe(); \
		shmem_##name##_atomic_set(word, (type)5, pe); \
		EXPECT(word, 5); \
		shmem_ctx_##name##_atomic_set(ctx, word, (type)6, pe); \
		EXPECT(word, 6); \
		shmem_##name##_set(word, (type)7, pe); \
		EXPECT(word, 7); \
		CHECK(shmem_##name##_atomic_fetch(word, pe) == 7); \
		CHECK(shmem_ctx_##name##_atomic_fetch(ctx, word, pe) == 7); \
		CHECK(shmem_##name##_fetch(word, pe) == 7); \
		shmem_##name##_atomic_fetch_nbi(&old, word, pe); \
		shmem_quiet(); \
		CHECK(old == 7); \
		old = 0; \
		shmem_ctx_##name##_atomic_fetch_nbi(ctx, &old, word, pe); \
		shmem_ctx_quiet(ctx); \
		CHECK(old == 7); \
		CHECK(shmem_##name##_atomic_swap(word, (type)8, pe) == 7); \
		CHECK(shmem_ctx_##name##_atomic_swap(ctx, word, (type)9, pe) == 8); \
		CHECK(shmem_##name##_swap(word, (type)10, pe) == 9); \
		shmem_##name##_atomic_swap_nbi(&old, word, (type)11, pe); \
		shmem_quiet(); \
		CHECK(old == 10); \
		shmem_ctx_##name##_atomic_swap_nbi(ctx, &old, word, (type)12, pe); \
		shmem_ctx_quiet(ctx); \
		CHECK(old == 11); \
		EXPECT(word, 12); \
		shmem_free(word); \
	}
EXTENDED_AMO_TYPES(DEFINE_EXTENDED)

#define DEFINE_STANDARD(name, type) \
	static void compare_##name(type *word, int pe) \
	{ \
		type old = 99; \
		CHECK(shmem_##name##_atomic_compare_swap(word, (type)3, (type)4, pe) == 0); \
		CHECK(shmem_##name##_atomic_compare_swap(word, (type)0, (type)4, pe) == 0); \
		CHECK(shmem_ctx_##name##_atomic_compare_swap(ctx, word, (type)4, (type)5, pe) == 4); \
		CHECK(shmem_##name##_cswap(word, (type)5, (type)6, pe) == 5); \
		shmem_##name##_atomic_compare_swap_nbi(&old, word, (type)6, (type)7, pe); \
		shmem_quiet(); \
		CHECK(old == 6); \
		shmem_ctx_##name##_atomic_compare_swap_nbi(ctx, &old, word, (type)7, (type)8, pe); \
		shmem_ctx_quiet(ctx); \
		CHECK(old == 7); \
		EXPECT(word, 8); \
	} \
	static void count_##name(type *word, int pe) \
	{ \
		type old = 99; \
		CHECK(shmem_##name##_atomic_fetch_inc(word, pe) == 8); \
		CHECK(shmem_ctx_##name##_atomic_fetch_inc(ctx, word, pe) == 9); \
		CHECK(shmem_##name##_finc(word, pe) == 10); \
		shmem_##name##_atomic_fetch_inc_nbi(&old, word, pe); \
		shmem_quiet(); \
		CHECK(old == 11); \
		shmem_ctx_##name##_atomic_fetch_inc_nbi(ctx, &old, word, pe); \
		shmem_ctx_quiet(ctx); \
		CHECK(old == 12); \
		shmem_##name##_atomic_inc(word, pe); \
		EXPECT(word, 14); \
		shmem_ctx_##name##_atomic_inc(ctx, word, pe); \
		EXPECT(word, 15); \
		shmem_##name##_inc(word, pe); \
		EXPECT(word, 16); \
	} \
	static void add_##name(type *word, int pe) \
	{ \
		type old = 99; \
		CHECK(shmem_##name##_atomic_fetch_add(word, (type)2, pe) == 16); \
		CHECK(shmem_ctx_##name##_atomic_fetch_add(ctx, word, (type)3, pe) == 18); \
		CHECK(shmem_##name##_fadd(word, (type)-1, pe) == 21); \
		shmem_##name##_atomic_fetch_add_nbi(&old, word, (type)5, pe); \
		shmem_quiet(); \
		CHECK(old == 20); \
		shmem_ctx_##name##_atomic_fetch_add_nbi(ctx, &old, word, (type)5, pe); \
		shmem_ctx_quiet(ctx); \
		CHECK(old == 25); \
		shmem_##name##_atomic_add(word, (type)1, pe); \
		EXPECT(word, 31); \
		shmem_ctx_##name##_atomic_add(ctx, word, (type)-2, pe); \
		EXPECT(word, 29); \
		shmem_##name##_add(word, (type)3, pe); \
		EXPECT(word, 32); \
	} \
	static void standard_##name(void) \
	{ \
		type *words = shmem_calloc(3, sizeof(type)); \
		compare_##name(words, next_pe()); \
		count_##name(words, next_pe()); \
		add_##name(words, next_pe()); \
		/* All PEs on one word of the last PE; its neighbour stays as it is. */ \
		for (int i = 0; i < 50; i++) \
			shmem_##name##_atomic_add(&words[1], (type)(shmem_my_pe() + 1), shmem_n_pes() - 1); \
		complete(); \
		int n = shmem_n_pes(); \
		CHECK(words[1] == (type)(shmem_my_pe() == n - 1 ? 50 * n * (n + 1) / 2 : 0) && words[2] == 0); \
		shmem_barrier_all(); \
		shmem_free(words); \
	}
STANDARD_AMO_TYPES(DEFINE_STANDARD)

/* value is 0x0f at first. */
#define DEFINE_BITS(name, type) \
	static void bits_##name(void) \
	{ \
		type *word = shmem_calloc(1, sizeof(type)), old = 99; \
		int pe = next_pe(); \
		shmem_##name##_atomic_or(word, (type)0x0f, pe); \
		EXPECT(word, 0x0f); \
		shmem_ctx_##name##_atomic_or(ctx, word, (type)0x10, pe); \
		EXPECT(word, 0x1f); \
		CHECK(shmem_##name##_atomic_fetch_or(word, (type)0x20, pe) == 0x1f); \
		CHECK(shmem_ctx_##name##_atomic_fetch_or(ctx, word, (type)0x40, pe) == 0x3f); \
		shmem_##name##_atomic_fetch_or_nbi(&old, word, (type)0x80, pe); \
		shmem_quiet(); \
		CHECK(old == 0x7f); \
		shmem_ctx_##name##_atomic_fetch_or_nbi(ctx, &old, word, (type)0x100, pe); \
		shmem_ctx_quiet(ctx); \
		CHECK(old == 0xff); \
		shmem_##name##_atomic_and(word, (type)0x0ff, pe); \
		EXPECT(word, 0xff); \
		shmem_ctx_##name##_atomic_and(ctx, word, (type)0x7f, pe); \
		EXPECT(word, 0x7f); \
		CHECK(shmem_##name##_atomic_fetch_and(word, (type)0x3f, pe) == 0x7f); \
		CHECK(shmem_ctx_##name##_atomic_fetch_and(ctx, word, (type)0x1f, pe) == 0x3f); \
		shmem_##name##_atomic_fetch_and_nbi(&old, word, (type)0x0f, pe); \
		shmem_quiet(); \
		CHECK(old == 0x1f); \
		shmem_ctx_##name##_atomic_fetch_and_nbi(ctx, &old, word, (type)0x07, pe); \
		shmem_ctx_quiet(ctx); \
		CHECK(old == 0x0f); \
		shmem_##name##_atomic_xor(word, (type)0x05, pe); \
		EXPECT(word, 0x02); \
		shmem_ctx_##name##_atomic_xor(ctx, word, (type)0x03, pe); \
		EXPECT(word, 0x01); \
		CHECK(shmem_##name##_atomic_fetch_xor(word, (type)0x03, pe) == 0x01); \
		CHECK(shmem_ctx_##name##_atomic_fetch_xor(ctx, word, (type)0x04, pe) == 0x02); \
		shmem_##name##_atomic_fetch_xor_nbi(&old, word, (type)0x08, pe); \
		shmem_quiet(); \
		CHECK(old == 0x06); \
		shmem_ctx_##name##_atomic_fetch_xor_nbi(ctx, &old, word, (type)0x01, pe); \
		shmem_ctx_quiet(ctx); \
		CHECK(old == 0x0e); \
		EXPECT(word, 0x0f); \
		shmem_free(word); \
	}
BITWISE_AMO_TYPES(DEFINE_BITS)

int main(void)
{
	shmem_init();
	CHECK(shmem_ctx_create(0, &ctx) == 0);
#define TRY_EXTENDED(name, type) extended_##name();
	EXTENDED_AMO_TYPES(TRY_EXTENDED)
#define TRY_STANDARD(name, type) standard_##name();
	STANDARD_AMO_TYPES(TRY_STANDARD)
#define TRY_BITS(name, type) bits_##name();
	BITWISE_AMO_TYPES(TRY_BITS)
	shmem_ctx_destroy(ctx);
	shmem_finalize();
	return 0;
}
