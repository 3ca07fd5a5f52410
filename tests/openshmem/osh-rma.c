/* SPDX-License-Identifier: Apache-2.0 */
/* Every function of sections 9.6 and 9.8 (puts and gets): each PE writes to the next one, and reads from it. */
#include "tests/openshmem/osh.h"

#define N 24

/* The value of PE pe at place i; it fits every type. */
#define AT(type, pe, i) ((type)(7 * (pe) + (i) + 1))

static shmem_ctx_t ctx;

/* dest has the values of PE pe at 0, step, 2 * step, ..., in runs of `run`; all else is 0. */
#define IS_STRIDED(type, dest, pe, n, run, step) \
	({ \
		int is_right = 1; \
		for (int j = 0; j < N; j++) { \
			int is_in = j % (step) < (run) && j / (step) < (n); \
			type wanted = is_in ? AT(type, pe, (j / (step)) * (run) + j % (step)) : (type)0; \
			is_right &= (dest)[j] == wanted; \
		} \
		is_right; \
	})

/* Between two steps: nobody writes to memory that others still look at. */
static void clear(void *dest, size_t bytes)
{
	shmem_barrier_all();
	memset(dest, 0, bytes);
	shmem_barrier_all();
}

static void complete(void)
{
	shmem_ctx_quiet(ctx);
	shmem_barrier_all();
}

#define DEFINE_TYPE(name, type) \
	static void puts_##name(type *dest, const type *mine) \
	{ \
		shmem_##name##_put(dest, mine, 5, next_pe()); \
		complete(); \
		CHECK(IS_STRIDED(type, dest, previous_pe(), 5, 1, 1)); \
		clear(dest, N * sizeof(type)); \
		shmem_ctx_##name##_put(ctx, dest, mine, 5, next_pe()); \
		complete(); \
		CHECK(IS_STRIDED(type, dest, previous_pe(), 5, 1, 1)); \
		clear(dest, N * sizeof(type)); \
		shmem_##name##_put_nbi(dest, mine, 7, next_pe()); \
		complete(); \
		CHECK(IS_STRIDED(type, dest, previous_pe(), 7, 1, 1)); \
		clear(dest, N * sizeof(type)); \
		shmem_ctx_##name##_put_nbi(ctx, dest, mine, 7, next_pe()); \
		complete(); \
		CHECK(IS_STRIDED(type, dest, previous_pe(), 7, 1, 1)); \
		clear(dest, N * sizeof(type)); \
		shmem_##name##_p(dest, mine[0], next_pe()); \
		shmem_ctx_##name##_p(ctx, dest + 1, mine[1], next_pe()); \
		complete(); \
		CHECK(IS_STRIDED(type, dest, previous_pe(), 2, 1, 1)); \
		clear(dest, N * sizeof(type)); \
	} \
	static void strided_puts_##name(type *dest, const type *mine) \
	{ \
		shmem_##name##_iput(dest, mine, 3, 1, 4, next_pe()); \
		complete(); \
		CHECK(IS_STRIDED(type, dest, previous_pe(), 4, 1, 3)); \
		clear(dest, N * sizeof(type)); \
		shmem_ctx_##name##_iput(ctx, dest, mine, 2, 1, 5, next_pe()); \
		complete(); \
		CHECK(IS_STRIDED(type, dest, previous_pe(), 5, 1, 2)); \
		clear(dest, N * sizeof(type)); \
		shmem_##name##_ibput(dest, mine, 5, 2, 2, 4, next_pe()); \
		complete(); \
		CHECK(IS_STRIDED(type, dest, previous_pe(), 4, 2, 5)); \
		clear(dest, N * sizeof(type)); \
		shmem_ctx_##name##_ibput(ctx, dest, mine, 5, 3, 3, 2, next_pe()); \
		complete(); \
		CHECK(IS_STRIDED(type, dest, previous_pe(), 2, 3, 5)); \
		clear(dest, N * sizeof(type)); \
	} \
	static void gets_##name(type *got, const type *source) \
	{ \
		shmem_##name##_get(got, source, 5, next_pe()); \
		CHECK(IS_STRIDED(type, got, next_pe(), 5, 1, 1)); \
		memset(got, 0, N * sizeof(type)); \
		shmem_ctx_##name##_get(ctx, got, source, 6, next_pe()); \
		CHECK(IS_STRIDED(type, got, next_pe(), 6, 1, 1)); \
		memset(got, 0, N * sizeof(type)); \
		shmem_##name##_get_nbi(got, source, 3, next_pe()); \
		shmem_quiet(); \
		CHECK(IS_STRIDED(type, got, next_pe(), 3, 1, 1)); \
		memset(got, 0, N * sizeof(type)); \
		shmem_ctx_##name##_get_nbi(ctx, got, source, 4, next_pe()); \
		shmem_ctx_quiet(ctx); \
		CHECK(IS_STRIDED(type, got, next_pe(), 4, 1, 1)); \
		memset(got, 0, N * sizeof(type)); \
		CHECK(shmem_##name##_g(source + 3, next_pe()) == AT(type, next_pe(), 3)); \
		CHECK(shmem_ctx_##name##_g(ctx, source + 4, next_pe()) == AT(type, next_pe(), 4)); \
	} \
	static void strided_gets_##name(type *got, const type *source) \
	{ \
		shmem_##name##_iget(got, source, 3, 1, 4, next_pe()); \
		CHECK(IS_STRIDED(type, got, next_pe(), 4, 1, 3)); \
		memset(got, 0, N * sizeof(type)); \
		shmem_ctx_##name##_iget(ctx, got, source, 2, 1, 5, next_pe()); \
		CHECK(IS_STRIDED(type, got, next_pe(), 5, 1, 2)); \
		memset(got, 0, N * sizeof(type)); \
		shmem_##name##_ibget(got, source, 5, 2, 2, 4, next_pe()); \
		CHECK(IS_STRIDED(type, got, next_pe(), 4, 2, 5)); \
		memset(got, 0, N * sizeof(type)); \
		shmem_ctx_##name##_ibget(ctx, got, source, 5, 3, 3, 2, next_pe()); \
		CHECK(IS_STRIDED(type, got, next_pe(), 2, 3, 5)); \
		memset(got, 0, N * sizeof(type)); \
	} \
	static void signals_##name(type *dest, const type *mine, uint64_t *signal) \
	{ \
		shmem_##name##_put_signal(dest, mine, 5, signal, 3, SHMEM_SIGNAL_SET, next_pe()); \
		CHECK(shmem_signal_wait_until(signal, SHMEM_CMP_EQ, 3) == 3); \
		CHECK(IS_STRIDED(type, dest, previous_pe(), 5, 1, 1)); \
		clear(dest, N * sizeof(type)); \
		shmem_ctx_##name##_put_signal(ctx, dest, mine, 4, signal, 4, SHMEM_SIGNAL_ADD, next_pe()); \
		CHECK(shmem_signal_wait_until(signal, SHMEM_CMP_GT, 3) == 7); \
		CHECK(IS_STRIDED(type, dest, previous_pe(), 4, 1, 1)); \
		clear(dest, N * sizeof(type)); \
		shmem_##name##_put_signal_nbi(dest, mine, 6, signal, 1, SHMEM_SIGNAL_ADD, next_pe()); \
		CHECK(shmem_signal_wait_until(signal, SHMEM_CMP_EQ, 8) == 8); \
		CHECK(IS_STRIDED(type, dest, previous_pe(), 6, 1, 1)); \
		clear(dest, N * sizeof(type)); \
		shmem_ctx_##name##_put_signal_nbi(ctx, dest, mine, 2, signal, 9, SHMEM_SIGNAL_SET, next_pe()); \
		CHECK(shmem_signal_wait_until(signal, SHMEM_CMP_EQ, 9) == 9); \
		CHECK(IS_STRIDED(type, dest, previous_pe(), 2, 1, 1)); \
		complete(); \
		*signal = 0; \
		clear(dest, N * sizeof(type)); \
	} \
	static void try_##name(void) \
	{ \
		type *dest = shmem_calloc(N, sizeof(type)), *source = shmem_calloc(N, sizeof(type)), got[N]; \
		uint64_t *signal = shmem_calloc(1, sizeof(*signal)); \
		memset(got, 0, sizeof(got)); \
		for (int i = 0; i < N; i++) \
			source[i] = AT(type, shmem_my_pe(), i); \
		shmem_barrier_all(); \
		puts_##name(dest, source); \
		strided_puts_##name(dest, source); \
		gets_##name(got, source); \
		strided_gets_##name(got, source); \
		signals_##name(dest, source, signal); \
		shmem_free(signal); \
		shmem_free(source); \
		shmem_free(dest); \
	}
STANDARD_RMA_TYPES(DEFINE_TYPE)

/* ---- by size: an element of `size` bits */

static uint8_t *dest_bytes, *source_bytes, got_bytes[16 * N];
static uint64_t *signal_word;

/* n blocks of so many bytes, step bytes apart in dest and one behind the other in the memory of PE pe. */
static void check_blocks(const uint8_t *dest, int pe, size_t n, size_t bytes, size_t step)
{
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < bytes; j++)
			CHECK(dest[i * step + j] == (uint8_t)(11 * pe + (int)(i * bytes + j)));
	CHECK(dest[n * step] == 0);
}

static void check_put(size_t n, size_t bytes, size_t step)
{
	complete();
	check_blocks(dest_bytes, previous_pe(), n, bytes, step);
	clear(dest_bytes, 16 * N);
}

static void check_get(size_t n, size_t bytes, size_t step)
{
	shmem_quiet();
	shmem_ctx_quiet(ctx);
	check_blocks(got_bytes, next_pe(), n, bytes, step);
	memset(got_bytes, 0, sizeof(got_bytes));
}

static void check_signal(size_t bytes, uint64_t value)
{
	CHECK(shmem_signal_wait_until(signal_word, SHMEM_CMP_EQ, value) == value);
	check_put(1, bytes, bytes);
}

#define DEFINE_SIZE(name, bytes) \
	static void try_size_##name(void) \
	{ \
		shmem_put##name(dest_bytes, source_bytes, 3, next_pe()); \
		check_put(1, 3 * (bytes), 3 * (bytes)); \
		shmem_ctx_put##name(ctx, dest_bytes, source_bytes, 4, next_pe()); \
		check_put(1, 4 * (bytes), 4 * (bytes)); \
		shmem_put##name##_nbi(dest_bytes, source_bytes, 5, next_pe()); \
		check_put(1, 5 * (bytes), 5 * (bytes)); \
		shmem_ctx_put##name##_nbi(ctx, dest_bytes, source_bytes, 6, next_pe()); \
		check_put(1, 6 * (bytes), 6 * (bytes)); \
		shmem_get##name(got_bytes, source_bytes, 3, next_pe()); \
		check_get(1, 3 * (bytes), 3 * (bytes)); \
		shmem_ctx_get##name(ctx, got_bytes, source_bytes, 4, next_pe()); \
		check_get(1, 4 * (bytes), 4 * (bytes)); \
		shmem_get##name##_nbi(got_bytes, source_bytes, 5, next_pe()); \
		check_get(1, 5 * (bytes), 5 * (bytes)); \
		shmem_ctx_get##name##_nbi(ctx, got_bytes, source_bytes, 6, next_pe()); \
		check_get(1, 6 * (bytes), 6 * (bytes)); \
		shmem_put##name##_signal(dest_bytes, source_bytes, 3, signal_word, 1, SHMEM_SIGNAL_SET, next_pe()); \
		check_signal(3 * (bytes), 1); \
		shmem_ctx_put##name##_signal(ctx, dest_bytes, source_bytes, 2, signal_word, 1, SHMEM_SIGNAL_ADD, next_pe()); \
		check_signal(2 * (bytes), 2); \
		shmem_put##name##_signal_nbi(dest_bytes, source_bytes, 3, signal_word, 5, SHMEM_SIGNAL_SET, next_pe()); \
		check_signal(3 * (bytes), 5); \
		shmem_ctx_put##name##_signal_nbi(ctx, dest_bytes, source_bytes, 2, signal_word, 1, SHMEM_SIGNAL_ADD, next_pe()); \
		check_signal(2 * (bytes), 6); \
		*signal_word = 0; \
		shmem_barrier_all(); \
	}
#define DEFINE_STRIDED_SIZE(name, bytes) \
	DEFINE_SIZE(name, bytes) \
	static void try_strided_##name(void) \
	{ \
		shmem_iput##name(dest_bytes, source_bytes, 3, 1, 4, next_pe()); \
		check_put(4, bytes, 3 * (bytes)); \
		shmem_ctx_iput##name(ctx, dest_bytes, source_bytes, 2, 1, 5, next_pe()); \
		check_put(5, bytes, 2 * (bytes)); \
		shmem_ibput##name(dest_bytes, source_bytes, 5, 2, 2, 4, next_pe()); \
		check_put(4, 2 * (bytes), 5 * (bytes)); \
		shmem_ctx_ibput##name(ctx, dest_bytes, source_bytes, 5, 3, 3, 2, next_pe()); \
		check_put(2, 3 * (bytes), 5 * (bytes)); \
		shmem_iget##name(got_bytes, source_bytes, 3, 1, 4, next_pe()); \
		check_get(4, bytes, 3 * (bytes)); \
		shmem_ctx_iget##name(ctx, got_bytes, source_bytes, 2, 1, 5, next_pe()); \
		check_get(5, bytes, 2 * (bytes)); \
		shmem_ibget##name(got_bytes, source_bytes, 5, 2, 2, 4, next_pe()); \
		check_get(4, 2 * (bytes), 5 * (bytes)); \
		shmem_ctx_ibget##name(ctx, got_bytes, source_bytes, 5, 3, 3, 2, next_pe()); \
		check_get(2, 3 * (bytes), 5 * (bytes)); \
	}
#define STRIDED_SIZES(X) X(8, 1) X(16, 2) X(32, 4) X(64, 8) X(128, 16)
STRIDED_SIZES(DEFINE_STRIDED_SIZE)
DEFINE_SIZE(mem, 1)

int main(void)
{
	shmem_init();
	CHECK(shmem_ctx_create(0, &ctx) == 0);
	dest_bytes = shmem_calloc(N, 16);
	source_bytes = shmem_calloc(N, 16);
	signal_word = shmem_calloc(1, sizeof(*signal_word));
	for (int i = 0; i < 16 * N; i++)
		source_bytes[i] = (uint8_t)(11 * shmem_my_pe() + i);
	shmem_barrier_all();
#define TRY_TYPE(name, type) try_##name();
	STANDARD_RMA_TYPES(TRY_TYPE)
#define TRY_SIZE(name, bytes) try_size_##name();
	STRIDED_SIZES(TRY_SIZE)
	TRY_SIZE(mem, 1)
#define TRY_STRIDED(name, bytes) try_strided_##name();
	STRIDED_SIZES(TRY_STRIDED)
	shmem_ctx_destroy(ctx);
	shmem_finalize();
	return 0;
}
