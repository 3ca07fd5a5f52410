/* SPDX-License-Identifier: Apache-2.0 */
/* Fence, quiet, signals and locks, barriers, old names: sections 9.8, 9.10.1, 9.10.4, 9.12, 9.13 and the annex of deprecated names. */
#include "tests/openshmem/osh.h"

#define ROUNDS 200

/* 9.12.1: a put behind a fence is seen after the put before it. */
static void try_fence(int has_ctx)
{
	long *data = shmem_calloc(2, sizeof(*data));
	shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;

	if (has_ctx)
		CHECK(shmem_ctx_create(0, &ctx) == 0);
	for (long round = 1; round <= ROUNDS; round++) {
		shmem_ctx_long_put(ctx, &data[0], &round, 1, next_pe());
		if (has_ctx)
			shmem_ctx_fence(ctx);
		else
			shmem_fence();
		shmem_ctx_long_put(ctx, &data[1], &round, 1, next_pe());
		shmem_long_wait_until(&data[1], SHMEM_CMP_GE, round);
		CHECK(data[0] >= round);
		shmem_sync_all();
	}
	shmem_ctx_quiet(ctx);
	if (has_ctx)
		shmem_ctx_destroy(ctx);
	shmem_barrier_all();
	shmem_free(data);
}

/* 9.12.2, 9.12.3: after quiet a third PE, which learns of it by other means, sees the data. */
static void try_quiet(int kind)
{
	long *data = shmem_calloc(2, sizeof(*data));
	int target = next_pe(), pes[] = {target, target};
	shmem_ctx_t ctx;

	CHECK(shmem_ctx_create(0, &ctx) == 0);
	for (long round = 1; round <= ROUNDS; round++) {
		shmem_ctx_long_put_nbi(kind % 2 ? ctx : SHMEM_CTX_DEFAULT, data, &round, 1, target);
		if (kind == 0)
			shmem_quiet();
		else if (kind == 1)
			shmem_ctx_quiet(ctx);
		else if (kind == 2)
			shmem_pe_quiet(pes, 2);
		else
			shmem_ctx_pe_quiet(ctx, pes, 1);
		CHECK(shmem_long_g(data, target) == round);
		shmem_sync_all();
	}
	shmem_pe_quiet(NULL, 0);
	shmem_ctx_quiet(SHMEM_CTX_INVALID);
	shmem_ctx_fence(SHMEM_CTX_INVALID);
	shmem_ctx_destroy(ctx);
	shmem_free(data);
}

static void try_signals(void)
{
	uint64_t *signal = shmem_calloc(1, sizeof(*signal));
	shmem_ctx_t ctx;

	CHECK(shmem_ctx_create(0, &ctx) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		shmem_signal_add(signal, 1, 0);
		shmem_ctx_signal_add(ctx, signal, 2, 0);
	}
	if (!shmem_my_pe())
		shmem_signal_wait_until(signal, SHMEM_CMP_EQ, 3ull * ROUNDS * (uint64_t)shmem_n_pes());
	shmem_barrier_all();
	shmem_signal_set(signal, 5, next_pe());
	shmem_signal_wait_until(signal, SHMEM_CMP_EQ, 5);
	shmem_barrier_all();
	shmem_ctx_signal_set(ctx, signal, 6, next_pe());
	shmem_signal_wait_until(signal, SHMEM_CMP_EQ, 6);
	CHECK(shmem_signal_fetch(signal) == 6);
	shmem_ctx_destroy(ctx);
	shmem_barrier_all();
	shmem_free(signal);
}

/* 9.13.1: one PE at a time; test_lock returns 0 when it has set the lock. */
static void try_lock(void)
{
	long *lock = shmem_calloc(1, sizeof(*lock)), *counter = shmem_calloc(1, sizeof(*counter)), mine = 0;

	for (int i = 0; i < ROUNDS; i++) {
		if (i % 2)
			shmem_set_lock(lock);
		else
			while (shmem_test_lock(lock))
				;
		mine = shmem_long_g(counter, 0);
		shmem_long_p(counter, mine + 1, 0);
		shmem_clear_lock(lock);
	}
	shmem_barrier_all();
	CHECK(shmem_long_g(counter, 0) == (long)ROUNDS * shmem_n_pes());
	if (!shmem_my_pe())
		CHECK(shmem_test_lock(lock) == 0);
	shmem_barrier_all();
	if (shmem_my_pe())
		CHECK(shmem_test_lock(lock) == 1);
	shmem_barrier_all();
	if (!shmem_my_pe())
		shmem_clear_lock(lock);
	shmem_free(counter);
	shmem_free(lock);
}

/* 9.10.1: operations before a barrier are complete behind it. */
static void try_barrier(void)
{
	long *data = shmem_calloc((size_t)shmem_n_pes(), sizeof(*data));

	for (long round = 1; round <= ROUNDS; round++) {
		for (int pe = 0; pe < shmem_n_pes(); pe++)
			shmem_long_put_nbi(&data[shmem_my_pe()], &round, 1, pe);
		shmem_barrier_all();
		for (int pe = 0; pe < shmem_n_pes(); pe++)
			CHECK(data[pe] == round);
		shmem_sync_all();
	}
	shmem_free(data);
}

static void try_old_names(void)
{
	long *block = shmalloc(sizeof(*block));

	CHECK(block && _my_pe() == shmem_my_pe() && _num_pes() == shmem_n_pes());
	block = shrealloc(block, 4 * sizeof(*block));
	CHECK(block);
	shfree(block);
	block = shmemalign(256, 8);
	CHECK(block && (uintptr_t)block % 256 == 0);
	shmem_set_cache_inv();
	shmem_set_cache_line_inv(block);
	shmem_clear_cache_inv();
	shmem_clear_cache_line_inv(block);
	shmem_udcflush();
	shmem_udcflush_line(block);
	shfree(block);
}

int main(void)
{
	shmem_init();
	try_fence(0);
	try_fence(1);
	for (int kind = 0; kind < 4; kind++)
		try_quiet(kind);
	try_signals();
	try_lock();
	try_barrier();
	try_old_names();
	shmem_finalize();
	return 0;
}
