/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collective functions of every type: sections 9.10.5 to 9.10.10, on the world and on the PEs with even numbers; and the deprecated ones on
 * active sets. The runtime's own tests have the algorithms; here each function meets its operation, type, order of parameters and sizes.
 */
#include <complex.h>

#include "tests/openshmem/osh.h"

#define MAX_PES 8
#define N 3
#define BIT_TYPES(X) \
	X(uchar, unsigned char) X(ushort, unsigned short) X(uint, unsigned int) X(ulong, unsigned long) X(ulonglong, unsigned long long) \
	X(int8, int8_t) X(int16, int16_t) X(int32, int32_t) X(int64, int64_t) X(uint8, uint8_t) X(uint16, uint16_t) X(uint32, uint32_t) \
	X(uint64, uint64_t) X(size, size_t)
#define SUM_TYPES(X) STANDARD_RMA_TYPES(X) X(complexf, float complex) X(complexd, double complex)

static shmem_team_t team;
static int me, n; /* in the team */

#define WORDS (N * MAX_PES + 8)
static long double *dest_words, *source_words; /* symmetric */

#define FILL(type, source, count, value) \
	do { \
		memset(dest_words, 0, WORDS * sizeof(*dest_words)); \
		for (int i = 0; i < (count); i++) \
			(source)[i] = (type)(value); \
		CHECK(shmem_team_sync(team) == 0); \
	} while (0)

#define DEFINE_MOVING(name, type) \
	static void move_##name(void) \
	{ \
		type *dest = (type *)dest_words, *source = (type *)source_words; \
		FILL(type, source, N, 10 * me + i + 1); \
		CHECK(shmem_##name##_broadcast(team, dest, source, N, n - 1) == 0); \
		for (int i = 0; i < N; i++) \
			CHECK(dest[i] == (type)(10 * (n - 1) + i + 1)); \
		FILL(type, source, N, 10 * me + i + 1); \
		CHECK(shmem_##name##_fcollect(team, dest, source, N) == 0); \
		for (int i = 0; i < N * n; i++) \
			CHECK(dest[i] == (type)(10 * (i / N) + i % N + 1)); \
		FILL(type, source, N, me + 1); \
		CHECK(shmem_##name##_collect(team, dest, source, (size_t)(me % N)) == 0); \
		for (int pe = 0, at = 0; pe < n; pe++) \
			for (int i = 0; i < pe % N; i++) \
				CHECK(dest[at++] == (type)(pe + 1)); \
		FILL(type, source, 2 * n, 8 * me + i); \
		CHECK(shmem_##name##_alltoall(team, dest, source, 2) == 0); \
		for (int i = 0; i < 2 * n; i++) \
			CHECK(dest[i] == (type)(8 * (i / 2) + 2 * me + i % 2)); \
		FILL(type, source, 2 * n, 8 * me + i); \
		CHECK(shmem_##name##_alltoalls(team, dest, source, 3, 2, 1) == 0); \
		for (int pe = 0; pe < n; pe++) \
			CHECK(dest[3 * pe] == (type)(8 * pe + 2 * me)); \
	}
STANDARD_RMA_TYPES(DEFINE_MOVING)

#define REDUCE(type, name, op, value, wanted) \
	do { \
		FILL(type, source, N, value); \
		CHECK(shmem_##name##_##op##_reduce(team, dest, source, N) == 0); \
		for (int i = 0; i < N; i++) \
			CHECK(dest[i] == (type)(wanted)); \
		/* In place. */ \
		CHECK(shmem_##name##_##op##_reduce(team, source, source, N) == 0); \
		for (int i = 0; i < N; i++) \
			CHECK(source[i] == dest[i]); \
	} while (0)
#define DEFINE_BITS(name, type) \
	static void bits_##name(void) \
	{ \
		type *dest = (type *)dest_words, *source = (type *)source_words; \
		REDUCE(type, name, and, 0x70 | 1 << me % 4, n == 1 ? 0x71 : 0x70); \
		REDUCE(type, name, or, 1 << me % 4, (1 << (n < 4 ? n : 4)) - 1); \
		REDUCE(type, name, xor, 3, n % 2 ? 3 : 0); \
	}
BIT_TYPES(DEFINE_BITS)
#define DEFINE_ORDER(name, type) \
	static void order_##name(void) \
	{ \
		type *dest = (type *)dest_words, *source = (type *)source_words; \
		REDUCE(type, name, max, me + 5 + i, n + 4 + i); \
		REDUCE(type, name, min, me + 5 + i, 5 + i); \
	}
STANDARD_RMA_TYPES(DEFINE_ORDER)
#define DEFINE_SUM(name, type) \
	static void sum_##name(void) \
	{ \
		type *dest = (type *)dest_words, *source = (type *)source_words; \
		REDUCE(type, name, sum, me + i, n * (n - 1) / 2 + n * i); \
		REDUCE(type, name, prod, me < 2 ? 2 + i : 1, n == 1 ? 2 + i : (2 + i) * (2 + i)); \
		FILL(type, source, N, me + 1); \
		CHECK(shmem_##name##_sum_inscan(team, dest, source, N) == 0 && dest[N - 1] == (type)((me + 1) * (me + 2) / 2)); \
		CHECK(shmem_##name##_sum_exscan(team, dest, source, N) == 0 && dest[0] == (type)(me * (me + 1) / 2)); \
	}
SUM_TYPES(DEFINE_SUM)

/* The forms for bytes, and those of C11. */
static void try_bytes_and_generic(void)
{
	char *dest = (char *)dest_words, *source = (char *)source_words;
	long *dest_longs = (long *)dest_words, *source_longs = (long *)source_words;

	FILL(char, source, 2 * n, 'a' + me);
	CHECK(shmem_broadcastmem(team, dest, source, 2, 0) == 0 && dest[1] == 'a');
	CHECK(shmem_fcollectmem(team, dest, source, 1) == 0 && shmem_collectmem(team, dest + n, source, 1) == 0);
	for (int pe = 0; pe < n; pe++)
		CHECK(dest[pe] == 'a' + pe && dest[n + pe] == 'a' + pe);
	CHECK(shmem_alltoallmem(team, dest, source, 1) == 0 && dest[n - 1] == 'a' + n - 1);
	CHECK(shmem_alltoallsmem(team, dest, source, 1, 1, 1) == 0 && dest[0] == 'a');
	FILL(long, source_longs, n, me + 1);
	CHECK(shmem_broadcast(team, dest_longs, source_longs, 1, 0) == 0 && dest_longs[0] == 1);
	CHECK(shmem_collect(team, dest_longs, source_longs, 1) == 0 && dest_longs[n - 1] == n);
	CHECK(shmem_fcollect(team, dest_longs, source_longs, 1) == 0 && shmem_alltoall(team, dest_longs, source_longs, 1) == 0);
	CHECK(shmem_alltoalls(team, dest_longs, source_longs, 1, 1, 1) == 0 && dest_longs[n - 1] == n);
	CHECK(shmem_sum_reduce(team, dest_longs, source_longs, 1) == 0 && dest_longs[0] == n * (n + 1) / 2);
	CHECK(shmem_max_reduce(team, dest_longs, source_longs, 1) == 0 && dest_longs[0] == n);
	CHECK(shmem_min_reduce(team, dest_longs, source_longs, 1) == 0 && dest_longs[0] == 1);
	CHECK(shmem_prod_reduce(team, dest_longs, source_longs, 1) == 0 && shmem_sum_inscan(team, dest_longs, source_longs, 1) == 0);
	CHECK(shmem_sum_exscan(team, dest_longs, source_longs, 1) == 0 && dest_longs[0] == me * (me + 1) / 2);
	CHECK(shmem_or_reduce(team, (unsigned long *)dest, (unsigned long *)source, 1) == 0);
	CHECK(shmem_and_reduce(team, (unsigned long *)dest, (unsigned long *)source, 1) == 0);
	CHECK(shmem_xor_reduce(team, (unsigned long *)dest, (unsigned long *)source, 1) == 0);
	CHECK(shmem_long_sum_reduce(SHMEM_TEAM_INVALID, dest_longs, source_longs, 1) != 0);
}

/* ---- active sets: PEs 0, stride, ... */

static long sync[SHMEM_SYNC_SIZE];
static int log_stride;
#define ACTIVE 0, log_stride, n, sync

#define TO_ALL(type, name, op, value, wanted) \
	do { \
		FILL(type, source, N, value); \
		shmem_##name##_##op##_to_all(dest, source, N, 0, log_stride, n, work, sync); \
		for (int i = 0; i < N; i++) \
			CHECK(dest[i] == (type)(wanted)); \
		shmem_barrier(ACTIVE); \
	} while (0)
#define DEFINE_OLD_BITS(name, type) \
	static void old_bits_##name(void) \
	{ \
		type *dest = (type *)dest_words, *source = (type *)source_words, *work = NULL; \
		TO_ALL(type, name, and, 0x70 | 1 << me % 4, n == 1 ? 0x71 : 0x70); \
		TO_ALL(type, name, or, 1 << me % 4, (1 << (n < 4 ? n : 4)) - 1); \
		TO_ALL(type, name, xor, 3, n % 2 ? 3 : 0); \
	}
#define OLD_BIT_TYPES(X) X(short, short) X(int, int) X(long, long) X(longlong, long long)
OLD_BIT_TYPES(DEFINE_OLD_BITS)
#define DEFINE_OLD_ORDER(name, type) \
	static void old_order_##name(void) \
	{ \
		type *dest = (type *)dest_words, *source = (type *)source_words, *work = NULL; \
		TO_ALL(type, name, max, me + 5 + i, n + 4 + i); \
		TO_ALL(type, name, min, me + 5 + i, 5 + i); \
	}
#define OLD_ORDER_TYPES(X) OLD_BIT_TYPES(X) X(float, float) X(double, double) X(longdouble, long double)
OLD_ORDER_TYPES(DEFINE_OLD_ORDER)
#define DEFINE_OLD_SUM(name, type) \
	static void old_sum_##name(void) \
	{ \
		type *dest = (type *)dest_words, *source = (type *)source_words, *work = NULL; \
		TO_ALL(type, name, sum, me + i, n * (n - 1) / 2 + n * i); \
		TO_ALL(type, name, prod, me < 2 ? 2 + i : 1, n == 1 ? 2 + i : (2 + i) * (2 + i)); \
	}
#define OLD_SUM_TYPES(X) OLD_ORDER_TYPES(X) X(complexf, float complex) X(complexd, double complex)
OLD_SUM_TYPES(DEFINE_OLD_SUM)

#define DEFINE_OLD_MOVING(bits, type) \
	static void old_move_##bits(void) \
	{ \
		type *dest = (type *)dest_words, *source = (type *)source_words; \
		FILL(type, source, N, 10 * me + i + 1); \
		/* 9.10.7: dest of the root is not updated. */ \
		shmem_broadcast##bits(dest, source, N, n - 1, ACTIVE); \
		CHECK(dest[N - 1] == (me == n - 1 ? 0 : (type)(10 * (n - 1) + N))); \
		shmem_barrier(ACTIVE); \
		shmem_fcollect##bits(dest, source, N, ACTIVE); \
		CHECK(dest[N * n - 1] == (type)(10 * (n - 1) + N)); \
		shmem_barrier(ACTIVE); \
		shmem_collect##bits(dest, source, (size_t)(me + 1), ACTIVE); \
		CHECK(dest[0] == 1 && dest[n * (n - 1) / 2] == (type)(10 * (n - 1) + 1)); \
		shmem_barrier(ACTIVE); \
		FILL(type, source, 2 * n, 8 * me + i); \
		shmem_alltoall##bits(dest, source, 2, ACTIVE); \
		CHECK(dest[2 * n - 1] == (type)(8 * (n - 1) + 2 * me + 1)); \
		shmem_barrier(ACTIVE); \
		shmem_alltoalls##bits(dest, source, 3, 2, 1, ACTIVE); \
		CHECK(dest[3 * (n - 1)] == (type)(8 * (n - 1) + 2 * me)); \
		shmem_barrier(ACTIVE); \
	}
DEFINE_OLD_MOVING(32, uint32_t)
DEFINE_OLD_MOVING(64, uint64_t)

static void try_team(void)
{
	me = shmem_team_my_pe(team);
	n = shmem_team_n_pes(team);
#define TRY_MOVING(name, type) move_##name();
	STANDARD_RMA_TYPES(TRY_MOVING)
#define TRY_BITS(name, type) bits_##name();
	BIT_TYPES(TRY_BITS)
#define TRY_ORDER(name, type) order_##name();
	STANDARD_RMA_TYPES(TRY_ORDER)
#define TRY_SUM(name, type) sum_##name();
	SUM_TYPES(TRY_SUM)
	try_bytes_and_generic();
#define TRY_OLD_BITS(name, type) old_bits_##name();
	OLD_BIT_TYPES(TRY_OLD_BITS)
#define TRY_OLD_ORDER(name, type) old_order_##name();
	OLD_ORDER_TYPES(TRY_OLD_ORDER)
#define TRY_OLD_SUM(name, type) old_sum_##name();
	OLD_SUM_TYPES(TRY_OLD_SUM)
	old_move_32();
	old_move_64();
}

int main(void)
{
	shmem_init();
	dest_words = shmem_calloc(WORDS, sizeof(*dest_words));
	source_words = shmem_calloc(WORDS, sizeof(*source_words));
	team = SHMEM_TEAM_WORLD;
	try_team();
	shmem_barrier_all();
	log_stride = 1;
	CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, (shmem_n_pes() + 1) / 2, NULL, 0, &team) == 0);
	if (team != SHMEM_TEAM_INVALID)
		try_team();
	shmem_finalize();
	return 0;
}
