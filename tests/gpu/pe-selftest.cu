/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Self-test of <shmd/dev/pe.h> on a GPU, over mapped memory: each block of one launch is a PE with a world state, a context and a heap
 * of its own, and looks at every effect of its neighbour's calls. The heaps are in GPU memory, then in pinned memory of the host.
 * usage: gpu-pe-selftest [GPU [gpu-memory]]. It returns 0 if all checks passed, 1 if one failed, and 77 without a GPU. With gpu-memory it
 * leaves out memory of the host: compute-sanitizer's memcheck refuses system-scope atomics there, because PCIe carries none to CPUs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <shmd/dev/pe.h>

#define N_PES 4u
#define MAX_THREADS 512u
#define GRANULE 65536u
#define SCRATCH_BYTES GRANULE /* of 16 teams */
#define AREA_BYTES 65536u
#define N_AREAS 3u
#define HEAP_BYTES (SCRATCH_BYTES + N_AREAS * AREA_BYTES)
#define PATIENCE_NSEC 5000000000ull
#define N_LOCKED 50u

/* A block has one of these for its PE, and puts its result there. */
struct pe {
	struct shmd_dev_world world;
	struct shmd_dev_ctx ctx;
	struct shmd_dev_team team, evens;
	struct shmd_dev_pe entries[N_PES];
	uint8_t chunk_index[HEAP_BYTES / GRANULE];
	uint64_t chunk_ends[SHMD_DEV_HEAP_CHUNKS];
	uint64_t indexes[N_PES], n_indexes;
	uint32_t line; /* of the first check that failed; 0: all were good */
	uint32_t n_checks;
	int status; /* of the last call */
};

struct test {
	struct pe *pe;
	struct shmd_dev_ctx *ctx;
	uint8_t *source, *dest; /* AREA_BYTES each */
	uint64_t *words;
	uint32_t me, next, previous, thread;
};

#define CHECK(x)                                                                                   \
	do {                                                                                       \
		if (!(x))                                                                          \
			atomicCAS(&t->pe->line, 0, __LINE__);                                      \
		else                                                                               \
			atomicAdd(&t->pe->n_checks, 1);                                            \
	} while (0)

#define CALL(call)                                                                                 \
	do {                                                                                       \
		int status_ = (call);                                                              \
                                                                                                   \
		if (status_)                                                                       \
			t->pe->status = status_;                                                   \
		CHECK(status_ == SHMD_DEV_OK);                                                     \
	} while (0)

static __device__ uint8_t pattern(uint64_t i, uint32_t seed)
{
	return (uint8_t)(i * 7 + (i >> 8) + seed * 131);
}

static __device__ void fill(const struct test *t, uint8_t *at, uint64_t bytes, uint32_t seed)
{
	for (uint64_t i = t->thread; i < bytes; i += blockDim.x)
		at[i] = pattern(i, seed);
	__syncthreads();
}

static __device__ void expect(const struct test *t, const uint8_t *at, uint64_t bytes, uint32_t seed)
{
	uint64_t n_wrong = 0;

	for (uint64_t i = t->thread; i < bytes; i += blockDim.x)
		n_wrong += *(const volatile uint8_t *)&at[i] != pattern(i, seed);
	CHECK(n_wrong == 0);
	__syncthreads();
}

static __device__ void barrier(const struct test *t)
{
	CALL(shmd_dev_team_barrier_as(t->ctx, &t->pe->team, shmd_dev_ctx_mode(t->ctx, SHMD_DEV_BLOCK)));
}

/* ---- put and get ------------------------------------------------------------------------------------------------------------- */

static __device__ void by_block(const struct test *t, uint64_t bytes, uint32_t seed)
{
	struct shmd_dev_mode block = shmd_dev_ctx_mode(t->ctx, SHMD_DEV_BLOCK);

	fill(t, t->source, bytes, seed + t->me);
	barrier(t);
	CALL(shmd_dev_put_as(t->ctx, t->dest, t->source, bytes, t->next, block));
	barrier(t);
	expect(t, t->dest, bytes, seed + t->previous);
	CALL(shmd_dev_get_as(t->ctx, t->dest, t->source, bytes, t->next, block));
	__syncthreads();
	expect(t, t->dest, bytes, seed + t->next);
	barrier(t);
	CALL(shmd_dev_put_nbi_as(t->ctx, t->dest, t->source, bytes, t->next, block));
	CALL(shmd_dev_quiet_as(t->ctx, block));
	barrier(t);
	expect(t, t->dest, bytes, seed + t->previous);
	CALL(shmd_dev_get_nbi_as(t->ctx, t->dest, t->source, bytes, t->previous, block));
	CALL(shmd_dev_quiet_pe_as(t->ctx, t->previous, block));
	__syncthreads();
	expect(t, t->dest, bytes, seed + t->previous);
	barrier(t);
}

/* Each warp, or each thread, has a piece of its own. */
static __device__ void by_pieces(const struct test *t, enum shmd_dev_scope scope, uint64_t bytes, uint32_t seed)
{
	uint64_t piece = scope == SHMD_DEV_WARP ? t->thread / 32 : t->thread;
	uint64_t n = scope == SHMD_DEV_WARP ? blockDim.x / 32 : blockDim.x;
	struct shmd_dev_mode mode = shmd_dev_ctx_mode(t->ctx, scope);

	fill(t, t->source, n * bytes, seed + t->me);
	barrier(t);
	CALL(shmd_dev_put_as(t->ctx, t->dest + piece * bytes, t->source + piece * bytes, bytes, t->next, mode));
	barrier(t);
	expect(t, t->dest, n * bytes, seed + t->previous);
	CALL(shmd_dev_get_as(t->ctx, t->dest + piece * bytes, t->source + piece * bytes, bytes, t->next, mode));
	__syncthreads();
	expect(t, t->dest, n * bytes, seed + t->next);
	barrier(t);
}

/* The plain functions, by every thread at once. */
static __device__ void plain_put_and_get(const struct test *t)
{
	uint64_t at = t->thread * 40ull;

	fill(t, t->source, blockDim.x * 40ull, 60 + t->me);
	barrier(t);
	CALL(shmd_dev_put(t->ctx, t->dest + at, t->source + at, 13, t->next));
	CALL(shmd_dev_put_nbi(t->ctx, t->dest + at + 13, t->source + at + 13, 27, t->next));
	CALL(shmd_dev_quiet(t->ctx));
	barrier(t);
	expect(t, t->dest, blockDim.x * 40ull, 60 + t->previous);
	CALL(shmd_dev_get(t->ctx, t->dest + at, t->source + at, 13, t->next));
	CALL(shmd_dev_get_nbi(t->ctx, t->dest + at + 13, t->source + at + 13, 27, t->next));
	CALL(shmd_dev_quiet_pe(t->ctx, t->next));
	__syncthreads();
	expect(t, t->dest, blockDim.x * 40ull, 60 + t->next);
	barrier(t);
}

static __device__ void words_of_each_size(const struct test *t)
{
	uint64_t value = 0x1122334455667700ull + t->thread + t->me * 1000, found = 0;

	for (uint32_t bytes = 1; bytes <= 8; bytes *= 2) {
		uint64_t mask = bytes == 8 ? UINT64_MAX : (1ull << 8 * bytes) - 1;
		uint64_t theirs = 0x1122334455667700ull + t->thread + t->next * 1000;
		uint8_t *word = t->dest + 8 * t->thread;

		CALL(shmd_dev_p(t->ctx, word, value, bytes, t->next));
		CALL(shmd_dev_g(t->ctx, word, bytes, t->next, &found));
		CHECK(found == (value & mask));
		barrier(t);
		/* The previous PE has put this here; read it through the next but one. */
		CALL(shmd_dev_g(t->ctx, word, bytes, (t->next + 1) % N_PES, &found));
		CHECK(found == (theirs & mask));
		barrier(t);
	}
}

/* Thread 0 alone moves 100 blocks apart on the next PE, and back together. */
static __device__ void strided(const struct test *t, bool nbi)
{
	struct shmd_dev_stride apart = {100, 24, 40, 24}, together = {100, 24, 24, 40};

	fill(t, t->source, 2400, 70 + nbi + t->me);
	fill(t, t->dest, 8000, 7);
	barrier(t);
	if (t->thread == 0 && nbi) {
		CALL(shmd_dev_put_strided_nbi(t->ctx, t->dest, t->source, &apart, t->next));
		CALL(shmd_dev_quiet(t->ctx));
	} else if (t->thread == 0) {
		CALL(shmd_dev_put_strided(t->ctx, t->dest, t->source, &apart, t->next));
	}
	barrier(t);
	for (uint32_t i = t->thread; i < 100; i += blockDim.x) {
		for (uint32_t j = 0; j < 40; j++)
			CHECK(t->dest[i * 40 + j] ==
			      (j < 24 ? pattern(i * 24 + j, 70 + nbi + t->previous) : pattern(i * 40 + j, 7)));
	}
	barrier(t);
	if (t->thread == 0 && nbi) {
		CALL(shmd_dev_get_strided_nbi(t->ctx, t->dest + 8192, t->dest, &together, t->next));
		CALL(shmd_dev_quiet(t->ctx));
	} else if (t->thread == 0) {
		CALL(shmd_dev_get_strided(t->ctx, t->dest + 8192, t->dest, &together, t->next));
	}
	__syncthreads();
	expect(t, t->dest + 8192, 2400, 70 + nbi + t->me);
	barrier(t);
}

static __device__ void batches(const struct test *t)
{
	struct shmd_dev_put_item puts[4];
	struct shmd_dev_get_item gets[4];

	fill(t, t->source, 2400, 75 + t->me);
	for (uint32_t i = 0; i < 4; i++) {
		puts[i] = {t->dest + 600 * i, t->source + 600 * i, 600, (t->next + i % 2) % N_PES};
		gets[i] = {t->dest + 4096 + 600 * i, t->source + 600 * i, 600, (t->previous + i % 2) % N_PES};
	}
	barrier(t);
	if (t->thread == 0) {
		CALL(shmd_dev_put_batch_nbi(t->ctx, puts, 4));
		CALL(shmd_dev_get_batch_nbi(t->ctx, gets, 4));
		CALL(shmd_dev_quiet(t->ctx));
	}
	barrier(t);
	for (uint32_t i = t->thread; i < 2400; i += blockDim.x) {
		uint32_t odd = i / 600 % 2;

		CHECK(t->dest[i] == pattern(i, 75 + (t->previous + (odd ? N_PES - 1 : 0)) % N_PES));
		CHECK(t->dest[4096 + i] == pattern(i, 75 + (t->previous + odd) % N_PES));
	}
	barrier(t);
}

/* ---- signals ----------------------------------------------------------------------------------------------------------------- */

static __device__ void signals(const struct test *t)
{
	struct shmd_dev_mode block = shmd_dev_ctx_mode(t->ctx, SHMD_DEV_BLOCK);
	struct shmd_dev_put_item put = {t->dest, t->source, 20000, t->next};
	uint64_t *arrived = &t->words[0], *answered = &t->words[1];

	for (uint64_t i = 1; i <= 20; i++) {
		struct shmd_dev_pe_signal signal = i % 2 ? shmd_dev_pe_signal_of(arrived, SHMD_DEV_SIGNAL_SET, i)
							 : shmd_dev_pe_signal_of(arrived, SHMD_DEV_SIGNAL_ADD, 1);

		fill(t, t->source, 20000, 80 + t->me + i);
		if (i % 4 < 2)
			CALL(shmd_dev_put_signal_as(t->ctx, put, signal, block));
		else
			CALL(shmd_dev_put_signal_nbi_as(t->ctx, put, signal, block));
		CALL(shmd_dev_wait_until_as(t->ctx, arrived, 8, SHMD_DEV_CMP_GE, i, block));
		CHECK(shmd_dev_signal_fetch(arrived) == i);
		expect(t, t->dest, 20000, 80 + t->previous + i);
		CALL(shmd_dev_signal_as(t->ctx, shmd_dev_pe_signal_of(answered, SHMD_DEV_SIGNAL_ADD, 1), t->previous, block));
		CALL(shmd_dev_wait_until_as(t->ctx, answered, 8, SHMD_DEV_CMP_EQ, i, block));
	}
	barrier(t);
	/* The plain forms, by all threads: each adds one to the same word. */
	fill(t, t->source, 64ull * blockDim.x, 110 + t->me);
	CALL(shmd_dev_put_signal(t->ctx, t->dest + 64 * t->thread, t->source + 64 * t->thread, 64,
				 shmd_dev_pe_signal_of(&t->words[2], SHMD_DEV_SIGNAL_ADD, 1), t->next));
	CALL(shmd_dev_put_signal_nbi(t->ctx, t->dest + 64 * t->thread, t->source + 64 * t->thread, 64,
				     shmd_dev_pe_signal_of(&t->words[2], SHMD_DEV_SIGNAL_ADD, 1), t->next));
	CALL(shmd_dev_signal(t->ctx, shmd_dev_pe_signal_of(&t->words[2], SHMD_DEV_SIGNAL_ADD, 1), t->next));
	CALL(shmd_dev_wait_until(t->ctx, &t->words[2], 8, SHMD_DEV_CMP_GE, 3 * blockDim.x));
	expect(t, t->dest, 64ull * blockDim.x, 110 + t->previous);
	barrier(t);
}

/* ---- atomics ----------------------------------------------------------------------------------------------------------------- */

static __device__ uint64_t outcome(const struct shmd_dev_amo *amo, uint64_t word)
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
		if (amo->bytes == 8)
			return (uint64_t)__double_as_longlong(__longlong_as_double((int64_t)word) + __longlong_as_double((int64_t)amo->value));
		return (uint32_t)__float_as_int(__int_as_float((int)word) + __int_as_float((int)amo->value));
	default:
		return word;
	}
}

/* The former value, with nothing behind it changed. */
static __device__ void one_atomic_nbi(const struct test *t, uint64_t *word, struct shmd_dev_amo *amo, uint64_t before)
{
	uint64_t mask = amo->bytes == 8 ? UINT64_MAX : UINT32_MAX, old = UINT64_MAX, found = 1;

	amo->compare = before;
	CALL(shmd_dev_atomic_fetch_nbi(t->ctx, word, *amo, t->next, &old));
	CALL(shmd_dev_quiet(t->ctx));
	CHECK((old & mask) == before && (old | mask) == UINT64_MAX);
	CALL(shmd_dev_g(t->ctx, word, amo->bytes, t->next, &found));
	CHECK(found == (outcome(amo, before) & mask));
}

static __device__ void one_atomic(const struct test *t, int op, uint32_t bytes, uint64_t before)
{
	struct shmd_dev_amo amo = shmd_dev_amo_of(op, bytes, bytes == 8 ? 0x3ff8000000000123ull : 0x40200123ull);
	uint64_t mask = bytes == 8 ? UINT64_MAX : UINT32_MAX, old = 1, found = 1, *word = &t->words[8 + t->thread];

	amo.compare = before;
	CALL(shmd_dev_p(t->ctx, word, before, bytes, t->next));
	CALL(shmd_dev_fence_pe(t->ctx, t->next));
	CALL(shmd_dev_atomic_fetch(t->ctx, word, amo, t->next, &old));
	CHECK(old == (before & mask));
	CALL(shmd_dev_g(t->ctx, word, bytes, t->next, &found));
	CHECK(found == (outcome(&amo, before) & mask));
	before = found;
	amo.compare = before + 1;
	CALL(shmd_dev_atomic(t->ctx, word, amo, t->next));
	CALL(shmd_dev_quiet(t->ctx));
	CALL(shmd_dev_g(t->ctx, word, bytes, t->next, &found));
	CHECK(found == (outcome(&amo, before) & mask));
	one_atomic_nbi(t, word, &amo, found);
}

static __device__ void atomics(const struct test *t)
{
	struct shmd_dev_mode warp = shmd_dev_ctx_mode(t->ctx, SHMD_DEV_WARP);
	uint64_t old, *of_warp = (uint64_t *)t->dest + t->thread / 32;

	for (int op = SHMD_DEV_AMO_FETCH; op <= SHMD_DEV_AMO_ADD_FLOAT; op++) {
		one_atomic(t, op, 4, 0x3f800000u + t->thread);
		one_atomic(t, op, 8, 0x4010000000000000ull + t->thread);
	}
	barrier(t);
	/* All threads of all PEs on one word, and each warp once on another. */
	for (uint32_t i = 0; i < 10; i++)
		CALL(shmd_dev_atomic(t->ctx, &t->words[3], shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1), i % N_PES));
	CALL(shmd_dev_atomic_as(t->ctx, &t->words[4], shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1), 0, warp));
	CALL(shmd_dev_atomic_fetch_as(t->ctx, &t->words[4], shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1), 0, warp, &old));
	CALL(shmd_dev_atomic_fetch_nbi_as(t->ctx, &t->words[4], shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1), 0, warp, of_warp));
	CALL(shmd_dev_quiet(t->ctx));
	CHECK(*of_warp < N_PES * (blockDim.x / 32) * 3);
	barrier(t);
	CALL(shmd_dev_g_as(t->ctx, &t->words[3], 8, 0, warp, &old));
	CHECK(old == N_PES * blockDim.x * 3);
	CALL(shmd_dev_g(t->ctx, &t->words[4], 8, 0, &old));
	CHECK(old == N_PES * (blockDim.x / 32) * 3);
	barrier(t);
}

/* ---- waits, locks, teams, errors ---------------------------------------------------------------------------------------------- */

static __device__ void waits(const struct test *t)
{
	int status[N_PES] = {0};
	struct shmd_dev_wait wait = {&t->words[8], N_PES, 8, SHMD_DEV_CMP_EQ | SHMD_DEV_CMP_SIGNED, status, (uint64_t)-5, NULL};
	uint64_t index = 0;

	for (uint32_t i = t->thread; i < N_PES; i += blockDim.x)
		t->words[8 + i] = 0;
	barrier(t);
	if (t->thread == 0) {
		CHECK(shmd_dev_test(t->ctx, &t->words[8], 8, SHMD_DEV_CMP_NE, 0) == SHMD_DEV_AGAIN);
		CHECK(shmd_dev_test_any(t->ctx, &wait, &index) == SHMD_DEV_AGAIN);
		CHECK(shmd_dev_test_all(t->ctx, &wait) == SHMD_DEV_AGAIN);
		CHECK(shmd_dev_test_some(t->ctx, &wait, t->pe->indexes, &t->pe->n_indexes) == SHMD_DEV_AGAIN);
	}
	barrier(t);
	if (t->thread == 0) {
		for (uint32_t pe = 0; pe < N_PES; pe++)
			CALL(shmd_dev_p(t->ctx, &t->words[8 + t->me], (uint64_t)-5, 8, pe));
		CALL(shmd_dev_wait_until_any(t->ctx, &wait, &index));
		CHECK(index < N_PES && t->words[8 + index] == (uint64_t)-5);
		CALL(shmd_dev_wait_until_some(t->ctx, &wait, t->pe->indexes, &t->pe->n_indexes));
		CHECK(t->pe->n_indexes >= 1 && t->pe->n_indexes <= N_PES);
		CALL(shmd_dev_wait_until_all(t->ctx, &wait));
		CALL(shmd_dev_test_all(t->ctx, &wait));
		CALL(shmd_dev_test_any(t->ctx, &wait, &index));
		CALL(shmd_dev_test_some(t->ctx, &wait, t->pe->indexes, &t->pe->n_indexes));
		CHECK(t->pe->n_indexes == N_PES);
		for (uint32_t i = 0; i < N_PES; i++)
			status[i] = 1;
		CALL(shmd_dev_wait_until_any(t->ctx, &wait, &index));
		CHECK(index == SHMD_DEV_NO_INDEX);
	}
	barrier(t);
}

/* A counter without atomics: each lane 0 of a warp takes the lock. */
static __device__ void locks(const struct test *t)
{
	uint64_t *lock = &t->words[5], *counter = &t->words[6], n = 0;

	barrier(t);
	for (uint32_t i = 0; i < N_LOCKED && t->thread % 32 == 0; i++) {
		int status;

		if (i % 4 == 3) {
			do
				status = shmd_dev_lock_test(t->ctx, lock);
			while (status == SHMD_DEV_AGAIN);
			CALL(status);
		} else {
			CALL(shmd_dev_lock(t->ctx, lock));
		}
		CALL(shmd_dev_g(t->ctx, counter, 8, 1, &n));
		CALL(shmd_dev_p(t->ctx, counter, n + 1, 8, 1));
		CALL(shmd_dev_unlock(t->ctx, lock));
	}
	barrier(t);
	CALL(shmd_dev_g(t->ctx, counter, 8, 1, &n));
	CHECK(n == N_PES * (blockDim.x / 32) * N_LOCKED);
	if (t->thread == 0 && t->me == 0)
		CHECK(shmd_dev_unlock(t->ctx, lock) == SHMD_DEV_INVALID);
	barrier(t);
}

static __device__ void teams(const struct test *t)
{
	struct shmd_dev_team *evens = &t->pe->evens;
	uint64_t found = 0;

	CHECK(shmd_dev_team_translate(&t->pe->team, t->me, NULL) == (int)t->me);
	CHECK(shmd_dev_team_translate(&t->pe->team, t->me, evens) == (t->me % 2 ? -1 : (int)t->me / 2));
	CHECK(shmd_dev_team_translate(evens, 1, NULL) == 2);
	CHECK(shmd_dev_ptr(t->ctx, t->dest, t->me) == t->dest);
	CHECK(shmd_dev_ptr(t->ctx, t->dest, t->next) == (uint8_t *)t->pe->entries[t->next].heap_addr[0] + SCRATCH_BYTES + AREA_BYTES);
	for (uint32_t i = 1; i <= 20 && t->me % 2 == 0; i++) {
		uint32_t other = (t->me + 2) % N_PES;

		if (t->thread == 0)
			CALL(shmd_dev_p(t->ctx, &t->words[7], i, 8, other));
		if (i % 2)
			CALL(shmd_dev_team_sync_as(t->ctx, evens, shmd_dev_ctx_mode(t->ctx, SHMD_DEV_BLOCK)));
		else if (t->thread == 0)
			CALL(shmd_dev_team_barrier(t->ctx, evens));
		__syncthreads();
		CALL(shmd_dev_g(t->ctx, &t->words[7], 8, t->me, &found));
		CHECK(found == i);
		__syncthreads();
		if (t->thread == 0)
			CALL(shmd_dev_team_sync(t->ctx, evens));
		__syncthreads();
	}
	barrier(t);
}

static __device__ void errors(const struct test *t)
{
	struct shmd_dev_mode soon = shmd_dev_ctx_mode(t->ctx, SHMD_DEV_THREAD);
	uint64_t found = 77;

	soon.timeout_nsec = 1000000;
	CHECK(shmd_dev_put(t->ctx, t->dest, t->source, 8, N_PES) == SHMD_DEV_INVALID);
	CHECK(shmd_dev_put(t->ctx, t->pe, t->source, 8, t->next) == SHMD_DEV_INVALID);
	CHECK(shmd_dev_g(t->ctx, t->dest + 1, 8, t->next, &found) == SHMD_DEV_INVALID);
	CHECK(shmd_dev_atomic(t->ctx, t->dest, shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 2, 1), t->next) == SHMD_DEV_INVALID);
	CHECK(found == 77);
	CHECK(shmd_dev_wait_until_as(t->ctx, &t->words[6], 8, SHMD_DEV_CMP_EQ, 0xdead, soon) == SHMD_DEV_TIMEOUT);
	CALL(shmd_dev_put(t->ctx, t->dest, t->source, 0, t->next));
	CALL(shmd_dev_fence(t->ctx));
	barrier(t);
	/* PE 3 ends: the others see it at once. */
	if (t->thread == 0 && t->me != 3) {
		t->pe->entries[3].path[0] = SHMD_PATH_GONE;
		t->pe->world.first_gone = 3;
		__threadfence();
		*(volatile uint32_t *)&t->pe->world.n_gone = 1;
		__threadfence();
		CHECK(shmd_dev_put(t->ctx, t->dest, t->source, 8, 3) == SHMD_DEV_PE_GONE);
		CHECK(shmd_dev_wait_until(t->ctx, &t->words[6], 8, SHMD_DEV_CMP_EQ, 0xdead) == SHMD_DEV_PE_GONE);
		CHECK(shmd_dev_team_sync(t->ctx, &t->pe->team) == SHMD_DEV_PE_GONE);
	}
}

static __global__ __launch_bounds__(MAX_THREADS) void run_pes(struct pe *pes, uint8_t *heaps)
{
	uint8_t *memory = heaps + (uint64_t)blockIdx.x * HEAP_BYTES + SCRATCH_BYTES;
	struct test all = {&pes[blockIdx.x], &pes[blockIdx.x].ctx, memory, memory + AREA_BYTES,
			   (uint64_t *)(memory + 2 * AREA_BYTES), blockIdx.x, (blockIdx.x + 1) % N_PES,
			   (blockIdx.x + N_PES - 1) % N_PES, threadIdx.x};
	const struct test *t = &all;

	by_block(t, AREA_BYTES, 1);
	by_block(t, 1, 20);
	by_block(t, 12345, 30);
	by_pieces(t, SHMD_DEV_WARP, 1111, 40);
	by_pieces(t, SHMD_DEV_THREAD, 77, 50);
	plain_put_and_get(t);
	words_of_each_size(t);
	strided(t, false);
	strided(t, true);
	batches(t);
	signals(t);
	atomics(t);
	waits(t);
	locks(t);
	teams(t);
	errors(t);
}

/* ---- the host ---------------------------------------------------------------------------------------------------------------- */

static void fail(const char *what, cudaError_t error)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "gpu-pe-selftest: %s: %s\n", what, cudaGetErrorString(error));
	exit(error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver ? 77 : 1);
}

static void fill_pe(struct pe *pe, uint32_t me, uint8_t *heaps)
{
	struct shmd_dev_heap *heap = &pe->world.heap[0];

	pe->world.version = SHMD_DEV_WORLD_VERSION;
	pe->world.size_bytes = sizeof(pe->world);
	pe->world.my_pe = me;
	pe->world.n_pes = N_PES;
	pe->world.n_heaps = 1;
	pe->world.pes_addr = (uintptr_t)pe->entries;
	pe->world.world_team_addr = (uintptr_t)&pe->team;
	pe->world.timeout_nsec = PATIENCE_NSEC;
	heap->own_addr = (uintptr_t)heaps + (uint64_t)me * HEAP_BYTES;
	heap->range_bytes = heap->used_bytes = HEAP_BYTES;
	heap->chunk_index_addr = (uintptr_t)pe->chunk_index;
	heap->chunk_ends_addr = (uintptr_t)pe->chunk_ends;
	heap->log2_granule = 16;
	pe->chunk_ends[0] = HEAP_BYTES;
	for (uint32_t i = 0; i < N_PES; i++) {
		pe->entries[i].heap_addr[0] = (uintptr_t)heaps + (uint64_t)i * HEAP_BYTES;
		pe->entries[i].path[0] = i == me ? SHMD_PATH_SELF : SHMD_PATH_MAPPED;
	}
	pe->ctx.world_addr = (uintptr_t)&pe->world;
	pe->ctx.timeout_nsec = PATIENCE_NSEC;
	pe->ctx.sharing = SHMD_SHARING_GPU;
	pe->team.world_addr = pe->evens.world_addr = (uintptr_t)&pe->world;
	pe->team.n_pes = N_PES;
	pe->team.my_pe = me;
	pe->team.stride = 1;
	pe->evens.scratch_offset = SHMD_DEV_TEAM_SCRATCH_BYTES;
	pe->evens.id = 1;
	pe->evens.n_pes = N_PES / 2;
	pe->evens.my_pe = me / 2;
	pe->evens.stride = 2;
}

static int run_once(const char *where, uint8_t *heaps, unsigned int n_threads)
{
	uint64_t n_checks = 0;
	int result = 0;
	struct pe *pes;

	fail("allocate", cudaMallocManaged((void **)&pes, N_PES * sizeof(*pes)));
	memset(pes, 0, N_PES * sizeof(*pes));
	for (uint32_t i = 0; i < N_PES; i++)
		fill_pe(&pes[i], i, heaps);
	fail("clear the heaps", cudaMemset(heaps, 0, N_PES * HEAP_BYTES));
	run_pes<<<N_PES, n_threads>>>(pes, heaps);
	fail("run the kernel", cudaDeviceSynchronize());
	for (uint32_t i = 0; i < N_PES; i++) {
		n_checks += pes[i].n_checks;
		if (!pes[i].line)
			continue;
		fprintf(stderr, "gpu-pe-selftest: %s: PE %u: the check in line %u failed, last bad status %d\n", where, i, pes[i].line,
			pes[i].status);
		result = 1;
	}
	if (result == 0)
		printf("%s, %u threads a PE: %u PEs, %llu checks passed\n", where, n_threads, N_PES, (unsigned long long)n_checks);
	cudaFree(pes);
	return result;
}

int main(int argc, char **argv)
{
	uint8_t *on_gpu, *on_host;
	bool has_host = argc < 3 || strcmp(argv[2], "gpu-memory");
	int result = 0;

	fail("choose the GPU", cudaSetDevice(argc > 1 ? atoi(argv[1]) : 0));
	fail("allocate GPU memory", cudaMalloc((void **)&on_gpu, N_PES * HEAP_BYTES));
	fail("allocate pinned memory", cudaHostAlloc((void **)&on_host, N_PES * HEAP_BYTES, cudaHostAllocMapped));
	for (unsigned int n = 32; n <= MAX_THREADS; n *= 4) {
		result |= run_once("GPU memory", on_gpu, n);
		if (has_host)
			result |= run_once("host memory", on_host, n);
	}
	cudaFree(on_gpu);
	cudaFreeHost(on_host);
	return result;
}
