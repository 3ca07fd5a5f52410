/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The type-generic forms, of C11 and as overloads in C++: each is called with every type, without a context and with one, on the caller's own
 * copy. osh-rma, osh-atomic and osh-wait check the functions that stand behind them.
 */
#ifndef OSH_GENERIC_INC_H
#define OSH_GENERIC_INC_H

#include <stdlib.h>

#include "tests/openshmem/osh.h"

static shmem_ctx_t ctx;

#define MAKE(type, n) ((type *)shmem_calloc(n, sizeof(type)))

#define DEFINE_RMA(name, type) \
	static void rma_##name(void) \
	{ \
		type *word = MAKE(type, 8), mine[8] = {1, 2, 3, 4, 5, 6, 7, 8}, got[8] = {0}; \
		const type *constant = word; \
		uint64_t *signal = MAKE(uint64_t, 1); \
		int me = shmem_my_pe(); \
		shmem_put(word, mine, 2, me); \
		shmem_put(ctx, word + 2, mine + 2, 2, me); \
		shmem_put_nbi(word + 4, mine + 4, 2, me); \
		shmem_put_nbi(ctx, word + 6, mine + 6, 2, me); \
		shmem_quiet(); \
		shmem_ctx_quiet(ctx); \
		CHECK(!memcmp(word, mine, sizeof(type)) && word[3] == 4 && word[5] == 6 && word[7] == 8); \
		shmem_get(got, word, 2, me); \
		shmem_get(ctx, got + 2, constant + 2, 2, me); \
		shmem_get_nbi(got + 4, word + 4, 2, me); \
		shmem_get_nbi(ctx, got + 6, constant + 6, 2, me); \
		shmem_quiet(); \
		shmem_ctx_quiet(ctx); \
		CHECK(got[0] == 1 && got[3] == 4 && got[5] == 6 && got[7] == 8); \
		shmem_p(word, (type)9, me); \
		shmem_p(ctx, word + 1, (type)10, me); \
		shmem_ctx_quiet(ctx); \
		CHECK(shmem_g(word, me) == 9 && shmem_g(ctx, constant + 1, me) == 10); \
		shmem_iput(word, mine, 2, 1, 2, me); \
		shmem_iput(ctx, word + 1, mine + 4, 2, 1, 2, me); \
		CHECK(word[0] == 1 && word[2] == 2 && word[1] == 5 && word[3] == 6); \
		shmem_iget(got, word, 1, 2, 2, me); \
		shmem_iget(ctx, got + 2, word + 1, 1, 2, 2, me); \
		CHECK(got[0] == 1 && got[1] == 2 && got[2] == 5 && got[3] == 6); \
		shmem_ibput(word, mine, 4, 2, 2, 2, me); \
		shmem_ibput(ctx, word + 2, mine + 4, 4, 2, 2, 2, me); \
		CHECK(word[1] == 2 && word[4] == 3 && word[2] == 5 && word[7] == 8); \
		shmem_ibget(got, word, 2, 4, 2, 2, me); \
		shmem_ibget(ctx, got + 4, constant, 2, 4, 2, 2, me); \
		CHECK(got[2] == 3 && got[7] == 4); \
		shmem_put_signal(word, mine, 1, signal, 1, SHMEM_SIGNAL_SET, me); \
		shmem_put_signal(ctx, word, mine, 1, signal, 1, SHMEM_SIGNAL_ADD, me); \
		shmem_put_signal_nbi(word, mine, 1, signal, 1, SHMEM_SIGNAL_ADD, me); \
		shmem_put_signal_nbi(ctx, word, mine, 1, signal, 1, SHMEM_SIGNAL_ADD, me); \
		CHECK(shmem_signal_wait_until(signal, SHMEM_CMP_EQ, 4) == 4); \
		shmem_signal_add(signal, 1, me); \
		shmem_signal_add(ctx, signal, 1, me); \
		CHECK(shmem_signal_wait_until(signal, SHMEM_CMP_EQ, 6) == 6); \
		shmem_signal_set(signal, 1, me); \
		CHECK(shmem_signal_wait_until(signal, SHMEM_CMP_EQ, 1) == 1); \
		shmem_signal_set(ctx, signal, 9, me); \
		CHECK(shmem_signal_wait_until(signal, SHMEM_CMP_EQ, 9) == 9); \
		shmem_free(signal); \
		shmem_free(word); \
	}
STANDARD_RMA_TYPES(DEFINE_RMA)

#define DEFINE_EXTENDED(name, type) \
	static void extended_##name(void) \
	{ \
		type *word = MAKE(type, 1), old = 0; \
		const type *constant = word; \
		int me = shmem_my_pe(); \
		shmem_atomic_set(word, (type)1, me); \
		shmem_quiet(); \
		CHECK(shmem_atomic_fetch(word, me) == 1); \
		shmem_atomic_set(ctx, word, (type)2, me); \
		shmem_ctx_quiet(ctx); \
		CHECK(shmem_atomic_fetch(ctx, constant, me) == 2 && shmem_fetch(word, me) == 2); \
		CHECK(shmem_atomic_swap(word, (type)3, me) == 2 && shmem_atomic_swap(ctx, word, (type)4, me) == 3); \
		CHECK(shmem_swap(word, (type)5, me) == 4); \
		shmem_set(word, (type)6, me); \
		shmem_quiet(); \
		shmem_atomic_fetch_nbi(&old, word, me); \
		shmem_quiet(); \
		CHECK(old == 6); \
		shmem_atomic_fetch_nbi(ctx, &old, word, me); \
		shmem_atomic_swap_nbi(&old, word, (type)7, me); \
		shmem_quiet(); \
		shmem_atomic_swap_nbi(ctx, &old, word, (type)8, me); \
		shmem_ctx_quiet(ctx); \
		CHECK(old == 7); \
		shmem_free(word); \
	}
EXTENDED_AMO_TYPES(DEFINE_EXTENDED)

#define DEFINE_STANDARD(name, type) \
	static void standard_##name(void) \
	{ \
		type *word = MAKE(type, 1), old = 0; \
		int me = shmem_my_pe(); \
		CHECK(shmem_atomic_compare_swap(word, (type)0, (type)1, me) == 0); \
		CHECK(shmem_atomic_compare_swap(ctx, word, (type)1, (type)2, me) == 1 && shmem_cswap(word, (type)2, (type)3, me) == 2); \
		shmem_atomic_compare_swap_nbi(&old, word, (type)3, (type)4, me); \
		shmem_quiet(); \
		shmem_atomic_compare_swap_nbi(ctx, &old, word, (type)4, (type)5, me); \
		shmem_ctx_quiet(ctx); \
		CHECK(old == 4); \
		CHECK(shmem_atomic_fetch_inc(word, me) == 5 && shmem_atomic_fetch_inc(ctx, word, me) == 6 && shmem_finc(word, me) == 7); \
		shmem_atomic_fetch_inc_nbi(&old, word, me); \
		shmem_quiet(); \
		shmem_atomic_fetch_inc_nbi(ctx, &old, word, me); \
		shmem_ctx_quiet(ctx); \
		CHECK(old == 9); \
		CHECK(shmem_atomic_fetch_add(word, (type)2, me) == 10 && shmem_atomic_fetch_add(ctx, word, (type)2, me) == 12); \
		CHECK(shmem_fadd(word, (type)2, me) == 14); \
		shmem_atomic_fetch_add_nbi(&old, word, (type)2, me); \
		shmem_quiet(); \
		shmem_atomic_fetch_add_nbi(ctx, &old, word, (type)2, me); \
		shmem_ctx_quiet(ctx); \
		CHECK(old == 18); \
		shmem_atomic_inc(word, me); \
		shmem_atomic_inc(ctx, word, me); \
		shmem_inc(word, me); \
		shmem_atomic_add(word, (type)1, me); \
		shmem_atomic_add(ctx, word, (type)1, me); \
		shmem_add(word, (type)1, me); \
		shmem_quiet(); \
		shmem_ctx_quiet(ctx); \
		CHECK(*word == 26); \
		shmem_free(word); \
	} \
	static void wait_##name(void) \
	{ \
		type *words = MAKE(type, 2), values[2] = {0, 0}; \
		size_t found[2]; \
		shmem_wait_until(words, SHMEM_CMP_EQ, (type)0); \
		shmem_wait_until_all(words, 2, NULL, SHMEM_CMP_EQ, (type)0); \
		shmem_wait_until_all_vector(words, 2, NULL, SHMEM_CMP_EQ, values); \
		CHECK(shmem_wait_until_any(words, 2, NULL, SHMEM_CMP_EQ, (type)0) < 2); \
		CHECK(shmem_wait_until_any_vector(words, 2, NULL, SHMEM_CMP_EQ, values) < 2); \
		CHECK(shmem_wait_until_some(words, 2, found, NULL, SHMEM_CMP_EQ, (type)0) >= 1); \
		CHECK(shmem_wait_until_some_vector(words, 2, found, NULL, SHMEM_CMP_EQ, values) >= 1); \
		CHECK(shmem_test(words, SHMEM_CMP_EQ, (type)0) == 1); \
		CHECK(shmem_test_all(words, 2, NULL, SHMEM_CMP_EQ, (type)0) == 1); \
		CHECK(shmem_test_all_vector(words, 2, NULL, SHMEM_CMP_EQ, values) == 1); \
		CHECK(shmem_test_any(words, 2, NULL, SHMEM_CMP_EQ, (type)1) == SIZE_MAX); \
		CHECK(shmem_test_any_vector(words, 2, NULL, SHMEM_CMP_NE, values) == SIZE_MAX); \
		CHECK(shmem_test_some(words, 2, found, NULL, SHMEM_CMP_EQ, (type)0) == 2); \
		CHECK(shmem_test_some_vector(words, 2, found, NULL, SHMEM_CMP_EQ, values) == 2); \
		shmem_free(words); \
	}
STANDARD_AMO_TYPES(DEFINE_STANDARD)

#define DEFINE_BITS(name, type) \
	static void bits_##name(void) \
	{ \
		type *word = MAKE(type, 1), old = 0; \
		int me = shmem_my_pe(); \
		shmem_atomic_or(word, (type)1, me); \
		shmem_atomic_or(ctx, word, (type)2, me); \
		shmem_quiet(); \
		shmem_ctx_quiet(ctx); \
		CHECK(shmem_atomic_fetch_or(word, (type)4, me) == 3 && shmem_atomic_fetch_or(ctx, word, (type)8, me) == 7); \
		shmem_atomic_and(word, (type)7, me); \
		shmem_atomic_and(ctx, word, (type)7, me); \
		shmem_quiet(); \
		shmem_ctx_quiet(ctx); \
		CHECK(shmem_atomic_fetch_and(word, (type)3, me) == 7 && shmem_atomic_fetch_and(ctx, word, (type)1, me) == 3); \
		shmem_atomic_xor(word, (type)2, me); \
		shmem_atomic_xor(ctx, word, (type)4, me); \
		shmem_quiet(); \
		shmem_ctx_quiet(ctx); \
		CHECK(shmem_atomic_fetch_xor(word, (type)1, me) == 7 && shmem_atomic_fetch_xor(ctx, word, (type)2, me) == 6); \
		shmem_atomic_fetch_or_nbi(&old, word, (type)1, me); \
		shmem_quiet(); \
		shmem_atomic_fetch_or_nbi(ctx, &old, word, (type)2, me); \
		shmem_ctx_quiet(ctx); \
		CHECK(old == 5); \
		shmem_atomic_fetch_and_nbi(&old, word, (type)3, me); \
		shmem_quiet(); \
		shmem_atomic_fetch_and_nbi(ctx, &old, word, (type)2, me); \
		shmem_ctx_quiet(ctx); \
		CHECK(old == 3); \
		shmem_atomic_fetch_xor_nbi(&old, word, (type)3, me); \
		shmem_quiet(); \
		shmem_atomic_fetch_xor_nbi(ctx, &old, word, (type)1, me); \
		shmem_ctx_quiet(ctx); \
		CHECK(old == 1 && *word == 0); \
		shmem_free(word); \
	}
BITWISE_AMO_TYPES(DEFINE_BITS)

/* In C++ a word may be volatile, as programs of before 1.5 declare those that they wait for. */
#ifdef __cplusplus
#define DEFINE_VOLATILE(name, type) \
	static void volatile_##name(void) \
	{ \
		volatile type *words = MAKE(type, 2); \
		type values[2] = {0, 0}; \
		size_t found[2]; \
		shmem_wait_until(words, SHMEM_CMP_EQ, (type)0); \
		shmem_wait_until_all(words, 2, NULL, SHMEM_CMP_EQ, (type)0); \
		shmem_wait_until_all_vector(words, 2, NULL, SHMEM_CMP_EQ, values); \
		CHECK(shmem_wait_until_any(words, 2, NULL, SHMEM_CMP_EQ, (type)0) < 2); \
		CHECK(shmem_wait_until_some_vector(words, 2, found, NULL, SHMEM_CMP_EQ, values) >= 1); \
		CHECK(shmem_test(words, SHMEM_CMP_EQ, (type)0) && !shmem_test(words, SHMEM_CMP_NE, (type)0)); \
		CHECK(shmem_test_some(words, 2, found, NULL, SHMEM_CMP_EQ, (type)0) == 2); \
		shmem_free((void *)words); \
	}
#else
#define DEFINE_VOLATILE(name, type) \
	static void volatile_##name(void) \
	{ \
	}
#endif
STANDARD_AMO_TYPES(DEFINE_VOLATILE)

int main(void)
{
	shmem_init();
	CHECK(shmem_ctx_create(0, &ctx) == 0);
#define TRY_RMA(name, type) rma_##name();
	STANDARD_RMA_TYPES(TRY_RMA)
#define TRY_EXTENDED(name, type) extended_##name();
	EXTENDED_AMO_TYPES(TRY_EXTENDED)
#define TRY_STANDARD(name, type) standard_##name(); wait_##name(); volatile_##name();
	STANDARD_AMO_TYPES(TRY_STANDARD)
#define TRY_BITS(name, type) bits_##name();
	BITWISE_AMO_TYPES(TRY_BITS)
	CHECK(shmem_sync(SHMEM_TEAM_WORLD) == 0);
	shmem_finalize();
	return 0;
}

#endif
