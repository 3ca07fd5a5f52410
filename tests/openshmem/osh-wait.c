/* SPDX-License-Identifier: Apache-2.0 */
/* Every function of section 9.11, deprecated ones too: PEs wait for words that the previous PE sets. */
#include "tests/openshmem/osh.h"

#define N 5

/* The words of the next PE. */
#define SET_NEXT(name, type, words, i, value) \
	do { \
		shmem_barrier_all(); \
		shmem_##name##_p(&(words)[i], (type)(value), next_pe()); \
		shmem_quiet(); \
	} while (0)

#define DEFINE_ONE(name, type) \
	static void one_##name(void) \
	{ \
		type *word = shmem_calloc(1, sizeof(type)); \
		CHECK(shmem_##name##_test(word, SHMEM_CMP_EQ, (type)0) == 1); \
		CHECK(shmem_##name##_test(word, SHMEM_CMP_NE, (type)0) == 0); \
		SET_NEXT(name, type, word, 0, 5); \
		shmem_##name##_wait_until(word, SHMEM_CMP_EQ, (type)5); \
		shmem_##name##_wait_until(word, SHMEM_CMP_NE, (type)4); \
		shmem_##name##_wait_until(word, SHMEM_CMP_GT, (type)4); \
		shmem_##name##_wait_until(word, SHMEM_CMP_GE, (type)5); \
		shmem_##name##_wait_until(word, SHMEM_CMP_LT, (type)6); \
		shmem_##name##_wait_until(word, SHMEM_CMP_LE, (type)5); \
		shmem_##name##_wait(word, (type)4); \
		CHECK(shmem_##name##_test(word, SHMEM_CMP_GT, (type)5) == 0 && shmem_##name##_test(word, SHMEM_CMP_LT, (type)5) == 0); \
		CHECK(shmem_##name##_test(word, SHMEM_CMP_GE, (type)6) == 0 && shmem_##name##_test(word, SHMEM_CMP_LE, (type)4) == 0); \
		/* The greatest value of an unsigned type, -1 of a signed one. */ \
		SET_NEXT(name, type, word, 0, -1); \
		shmem_##name##_wait_until(word, SHMEM_CMP_EQ, (type)-1); \
		CHECK(shmem_##name##_test(word, (type)-1 < (type)1 ? SHMEM_CMP_LT : SHMEM_CMP_GT, (type)1) == 1); \
		shmem_barrier_all(); \
		shmem_free(word); \
	}
STANDARD_AMO_TYPES(DEFINE_ONE)
DEFINE_ONE(short, short)
DEFINE_ONE(ushort, unsigned short)

#define DEFINE_MANY(name, type) \
	static void empty_##name(type *words) \
	{ \
		const int all[N] = {1, 1, 1, 1, 1}; \
		type values[N] = {9, 9, 9, 9, 9}; \
		size_t found[N]; \
		shmem_##name##_wait_until_all(words, 0, NULL, SHMEM_CMP_EQ, (type)9); \
		shmem_##name##_wait_until_all_vector(words, N, all, SHMEM_CMP_EQ, values); \
		CHECK(shmem_##name##_wait_until_any(words, N, all, SHMEM_CMP_EQ, (type)9) == SIZE_MAX); \
		CHECK(shmem_##name##_wait_until_any_vector(words, 0, NULL, SHMEM_CMP_EQ, values) == SIZE_MAX); \
		CHECK(shmem_##name##_wait_until_some(words, 0, found, NULL, SHMEM_CMP_EQ, (type)9) == 0); \
		CHECK(shmem_##name##_wait_until_some_vector(words, N, found, all, SHMEM_CMP_EQ, values) == 0); \
		CHECK(shmem_##name##_test_all(words, N, all, SHMEM_CMP_EQ, (type)9) == 1); \
		CHECK(shmem_##name##_test_all_vector(words, 0, NULL, SHMEM_CMP_EQ, values) == 1); \
		CHECK(shmem_##name##_test_any(words, 0, NULL, SHMEM_CMP_EQ, (type)9) == SIZE_MAX); \
		CHECK(shmem_##name##_test_any_vector(words, N, all, SHMEM_CMP_EQ, values) == SIZE_MAX); \
		CHECK(shmem_##name##_test_some(words, N, found, all, SHMEM_CMP_EQ, (type)9) == 0); \
		CHECK(shmem_##name##_test_some_vector(words, 0, found, NULL, SHMEM_CMP_EQ, values) == 0); \
	} \
	static void one_of_them_##name(type *words) \
	{ \
		type values[N] = {9, 9, 9, 7, 9}; \
		size_t found[N]; \
		CHECK(shmem_##name##_test_any(words, N, NULL, SHMEM_CMP_EQ, (type)7) == SIZE_MAX); \
		CHECK(shmem_##name##_test_some(words, N, found, NULL, SHMEM_CMP_EQ, (type)7) == 0); \
		SET_NEXT(name, type, words, 3, 7); \
		CHECK(shmem_##name##_wait_until_any(words, N, NULL, SHMEM_CMP_EQ, (type)7) == 3); \
		CHECK(shmem_##name##_wait_until_any_vector(words, N, NULL, SHMEM_CMP_EQ, values) == 3); \
		CHECK(shmem_##name##_wait_until_some(words, N, found, NULL, SHMEM_CMP_EQ, (type)7) == 1 && found[0] == 3); \
		CHECK(shmem_##name##_wait_until_some_vector(words, N, found, NULL, SHMEM_CMP_EQ, values) == 1 && found[0] == 3); \
		CHECK(shmem_##name##_test_any(words, N, NULL, SHMEM_CMP_EQ, (type)7) == 3); \
		CHECK(shmem_##name##_test_any_vector(words, N, NULL, SHMEM_CMP_EQ, values) == 3); \
		CHECK(shmem_##name##_test_some(words, N, found, NULL, SHMEM_CMP_EQ, (type)7) == 1 && found[0] == 3); \
		CHECK(shmem_##name##_test_some_vector(words, N, found, NULL, SHMEM_CMP_EQ, values) == 1 && found[0] == 3); \
		CHECK(shmem_##name##_test_all(words, N, NULL, SHMEM_CMP_EQ, (type)7) == 0); \
		CHECK(shmem_##name##_test_all_vector(words, N, NULL, SHMEM_CMP_EQ, values) == 0); \
	} \
	static void all_of_them_##name(type *words) \
	{ \
		const int but_first[N] = {1, 0, 0, 0, 0}; \
		type values[N] = {9, 11, 12, 13, 14}; \
		for (int i = 1; i < N; i++) \
			SET_NEXT(name, type, words, i, 10 + i); \
		shmem_##name##_wait_until_all(words, N, but_first, SHMEM_CMP_GT, (type)10); \
		shmem_##name##_wait_until_all_vector(words, N, but_first, SHMEM_CMP_EQ, values); \
		/* 9.11.3, 9.11.10: a series of calls returns every word that satisfies. */ \
		for (int i = 0, seen = 0, waited = 0; seen != 0x1e || waited != 0x1e; i++) { \
			CHECK(i < 1000); \
			seen |= 1 << shmem_##name##_test_any(words, N, but_first, SHMEM_CMP_GT, (type)10); \
			waited |= 1 << shmem_##name##_wait_until_any_vector(words, N, but_first, SHMEM_CMP_EQ, values); \
		} \
		CHECK(shmem_##name##_test_all(words, N, but_first, SHMEM_CMP_GT, (type)10) == 1); \
		CHECK(shmem_##name##_test_all_vector(words, N, but_first, SHMEM_CMP_EQ, values) == 1); \
		CHECK(shmem_##name##_test_all(words, N, NULL, SHMEM_CMP_GT, (type)10) == 0); \
	} \
	static void many_##name(void) \
	{ \
		type *words = shmem_calloc(N, sizeof(type)); \
		empty_##name(words); \
		one_of_them_##name(words); \
		all_of_them_##name(words); \
		shmem_barrier_all(); \
		shmem_free(words); \
	}
STANDARD_AMO_TYPES(DEFINE_MANY)
DEFINE_MANY(short, short)
DEFINE_MANY(ushort, unsigned short)

/* Section 9.11.1: the functions for long without a type in their names are deprecated. */
static void try_long_without_type(void)
{
	long *word = shmem_calloc(1, sizeof(*word));

	SET_NEXT(long, long, word, 0, -3);
	(shmem_wait)(word, 0);
	(shmem_wait_until)(word, SHMEM_CMP_LT, -2);
	CHECK(*word == -3);
	shmem_barrier_all();
	shmem_free(word);
}

/* Section 9.11.15: the value that it returns satisfied the comparison. */
static void try_signal(void)
{
	uint64_t *signal = shmem_calloc(1, sizeof(*signal));

	shmem_signal_set(signal, UINT64_MAX, next_pe());
	CHECK(shmem_signal_wait_until(signal, SHMEM_CMP_GT, 5) == UINT64_MAX);
	CHECK(shmem_signal_wait_until(signal, SHMEM_CMP_NE, 5) == UINT64_MAX);
	shmem_barrier_all();
	shmem_signal_add(signal, 4, next_pe());
	CHECK(shmem_signal_wait_until(signal, SHMEM_CMP_LE, 3) == 3);
	CHECK(shmem_signal_wait_until(signal, SHMEM_CMP_LT, 4) == 3);
	CHECK(shmem_signal_wait_until(signal, SHMEM_CMP_GE, 3) == 3);
	CHECK(shmem_signal_fetch(signal) == 3);
	shmem_barrier_all();
	shmem_free(signal);
}

int main(void)
{
	shmem_init();
#define TRY_ONE(name, type) one_##name();
	STANDARD_AMO_TYPES(TRY_ONE)
	TRY_ONE(short, short)
	TRY_ONE(ushort, unsigned short)
#define TRY_MANY(name, type) many_##name();
	STANDARD_AMO_TYPES(TRY_MANY)
	TRY_MANY(short, short)
	TRY_MANY(ushort, unsigned short)
	try_long_without_type();
	try_signal();
	shmem_finalize();
	return 0;
}
