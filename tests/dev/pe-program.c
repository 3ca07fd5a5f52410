/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of the C build, memory of the program, and the order of its parts: see pe-program.h. */
#include "tests/dev/pe-program.h"

#include "tests/lib/test.h"

/* ---- device functions */

static const char *dev_why(int r)
{
	(void)r;
	return "a device function";
}

static int dev_put(void *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe)
{
	return shmd_dev_put(ctx, dest, source, bytes, pe);
}

static int dev_put_nbi(void *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe)
{
	return shmd_dev_put_nbi(ctx, dest, source, bytes, pe);
}

static int dev_get(void *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe)
{
	return shmd_dev_get(ctx, dest, source, bytes, pe);
}

static int dev_get_nbi(void *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe)
{
	return shmd_dev_get_nbi(ctx, dest, source, bytes, pe);
}

static int dev_put_strided(void *ctx, void *dest, const void *source, const struct shmd_dev_stride *stride, uint32_t pe)
{
	return shmd_dev_put_strided(ctx, dest, source, stride, pe);
}

static int dev_get_strided(void *ctx, void *dest, const void *source, const struct shmd_dev_stride *stride, uint32_t pe)
{
	return shmd_dev_get_strided(ctx, dest, source, stride, pe);
}

static int dev_put_strided_nbi(void *ctx, void *dest, const void *source, const struct shmd_dev_stride *stride, uint32_t pe)
{
	return shmd_dev_put_strided_nbi(ctx, dest, source, stride, pe);
}

static int dev_get_strided_nbi(void *ctx, void *dest, const void *source, const struct shmd_dev_stride *stride, uint32_t pe)
{
	return shmd_dev_get_strided_nbi(ctx, dest, source, stride, pe);
}

static int dev_get_batch_nbi(void *ctx, const struct shmd_dev_get_item *items, uint64_t n)
{
	return shmd_dev_get_batch_nbi(ctx, items, n);
}

static int dev_put_batch_nbi(void *ctx, const struct shmd_dev_put_item *items, uint64_t n)
{
	return shmd_dev_put_batch_nbi(ctx, items, n);
}

static int dev_p(void *ctx, void *dest, uint64_t value, uint32_t bytes, uint32_t pe)
{
	return shmd_dev_p(ctx, dest, value, bytes, pe);
}

static int dev_g(void *ctx, const void *source, uint32_t bytes, uint32_t pe, uint64_t *ret_value)
{
	return shmd_dev_g(ctx, source, bytes, pe, ret_value);
}

static int dev_put_signal(void *ctx, const struct shmd_dev_put_item *put, struct shmd_dev_pe_signal signal)
{
	return shmd_dev_put_signal(ctx, put->dest, put->source, put->bytes, signal, put->pe);
}

static int dev_put_signal_nbi(void *ctx, const struct shmd_dev_put_item *put, struct shmd_dev_pe_signal signal)
{
	return shmd_dev_put_signal_nbi(ctx, put->dest, put->source, put->bytes, signal, put->pe);
}

static int dev_signal(void *ctx, struct shmd_dev_pe_signal signal, uint32_t pe)
{
	return shmd_dev_signal(ctx, signal, pe);
}

static int dev_atomic(void *ctx, void *dest, struct shmd_dev_amo amo, uint32_t pe)
{
	return shmd_dev_atomic(ctx, dest, amo, pe);
}

static int dev_atomic_fetch(void *ctx, void *dest, struct shmd_dev_amo amo, uint32_t pe, uint64_t *ret_old)
{
	return shmd_dev_atomic_fetch(ctx, dest, amo, pe, ret_old);
}

static int dev_atomic_fetch_nbi(void *ctx, void *dest, struct shmd_dev_amo amo, uint32_t pe, void *ret_old)
{
	return shmd_dev_atomic_fetch_nbi(ctx, dest, amo, pe, ret_old);
}

static int dev_fence(void *ctx)
{
	return shmd_dev_fence(ctx);
}

static int dev_fence_pe(void *ctx, uint32_t pe)
{
	return shmd_dev_fence_pe(ctx, pe);
}

static int dev_quiet(void *ctx)
{
	return shmd_dev_quiet(ctx);
}

static int dev_quiet_pe(void *ctx, uint32_t pe)
{
	return shmd_dev_quiet_pe(ctx, pe);
}

static int dev_wait_until(void *ctx, const void *word, uint32_t bytes, uint32_t cmp, uint64_t value)
{
	return shmd_dev_wait_until(ctx, word, bytes, cmp, value);
}

static int dev_wait_until_all(void *ctx, const struct shmd_dev_wait *wait)
{
	return shmd_dev_wait_until_all(ctx, wait);
}

static int dev_wait_until_any(void *ctx, const struct shmd_dev_wait *wait, uint64_t *ret_index)
{
	return shmd_dev_wait_until_any(ctx, wait, ret_index);
}

static int dev_wait_until_some(void *ctx, const struct shmd_dev_wait *wait, uint64_t *ret_indexes, uint64_t *ret_n)
{
	return shmd_dev_wait_until_some(ctx, wait, ret_indexes, ret_n);
}

static int looked(int status)
{
	return status == SHMD_DEV_AGAIN ? 0 : status ? status : 1;
}

static int dev_test(void *ctx, const void *word, uint32_t bytes, uint32_t cmp, uint64_t value)
{
	return looked(shmd_dev_test(ctx, word, bytes, cmp, value));
}

static int dev_test_all(void *ctx, const struct shmd_dev_wait *wait)
{
	return looked(shmd_dev_test_all(ctx, wait));
}

static int dev_test_any(void *ctx, const struct shmd_dev_wait *wait, uint64_t *ret_index)
{
	return looked(shmd_dev_test_any(ctx, wait, ret_index));
}

static int dev_test_some(void *ctx, const struct shmd_dev_wait *wait, uint64_t *ret_indexes, uint64_t *ret_n)
{
	return looked(shmd_dev_test_some(ctx, wait, ret_indexes, ret_n));
}

static int dev_lock(void *ctx, uint64_t *lock)
{
	return shmd_dev_lock(ctx, lock);
}

static int dev_lock_test(void *ctx, uint64_t *lock)
{
	return looked(shmd_dev_lock_test(ctx, lock));
}

static int dev_unlock(void *ctx, uint64_t *lock)
{
	return shmd_dev_unlock(ctx, lock);
}

const struct pe_calls pe_calls_dev = {
	.name = "device functions",
	.why = dev_why,
	.put = dev_put,
	.put_nbi = dev_put_nbi,
	.get = dev_get,
	.get_nbi = dev_get_nbi,
	.put_strided = dev_put_strided,
	.get_strided = dev_get_strided,
	.put_strided_nbi = dev_put_strided_nbi,
	.get_strided_nbi = dev_get_strided_nbi,
	.put_batch_nbi = dev_put_batch_nbi,
	.get_batch_nbi = dev_get_batch_nbi,
	.p = dev_p,
	.g = dev_g,
	.put_signal = dev_put_signal,
	.put_signal_nbi = dev_put_signal_nbi,
	.signal = dev_signal,
	.signal_fetch = shmd_dev_signal_fetch,
	.atomic = dev_atomic,
	.atomic_fetch = dev_atomic_fetch,
	.atomic_fetch_nbi = dev_atomic_fetch_nbi,
	.fence = dev_fence,
	.fence_pe = dev_fence_pe,
	.quiet = dev_quiet,
	.quiet_pe = dev_quiet_pe,
	.wait_until = dev_wait_until,
	.wait_until_all = dev_wait_until_all,
	.wait_until_any = dev_wait_until_any,
	.wait_until_some = dev_wait_until_some,
	.test = dev_test,
	.test_all = dev_test_all,
	.test_any = dev_test_any,
	.test_some = dev_test_some,
	.lock = dev_lock,
	.lock_test = dev_lock_test,
	.unlock = dev_unlock,
};

/* ---- memory */

_Static_assert(sizeof(struct pe_room) % 64 == 0, "slots are aligned");

uint64_t pe_program_bytes(uint32_t n_lanes, uint32_t n_threads, uint32_t slot_bytes)
{
	return sizeof(struct pe_room) + (uint64_t)slot_bytes * (n_lanes + 2 * n_threads);
}

uint8_t *pe_slot(const struct pe_home *home, uint32_t lane)
{
	return (uint8_t *)home->room + sizeof(struct pe_room) + (uint64_t)lane * home->slot_bytes;
}

uint8_t *pe_outbox(const struct pe_home *home)
{
	return pe_slot(home, pe_n_lanes(home) + home->thread);
}

uint8_t *pe_inbox(const struct pe_home *home)
{
	return pe_slot(home, pe_n_lanes(home) + home->n_threads + home->thread);
}

/* ---- the program */

int pe_must(const struct pe_home *home, int r, const char *what, const char *where)
{
	if (r < 0)
		test_fail(where, "PE %u of %u, thread %u: %s by %s: %d: %s", home->pe, home->n_pes, home->thread, what, home->calls->name, r,
			  home->calls->why(r));
	return r;
}

void pe_program_run(struct pe_home *home)
{
	ASSERT_LE(pe_n_lanes(home), PE_PROGRAM_LANES);
	ASSERT_LE(home->n_threads, PE_PROGRAM_THREADS);
	home->meet(home, 1);
	pe_program_moves(home);
	pe_program_signals(home);
	pe_program_atomics(home);
	pe_program_waits(home);
	home->meet(home, 1);
}
