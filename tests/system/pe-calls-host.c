/* SPDX-License-Identifier: Apache-2.0 */
/* The host calls of <shmd.h> for tests/dev/pe-program.h. */
#include <shmd.h>

#include "tests/system/pe-calls-host.h"

static const char *host_why(int r)
{
	(void)r;
	return shmd_error_text();
}

static int host_put(void *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe)
{
	return shmd_put(ctx, dest, source, bytes, (int)pe);
}

static int host_put_nbi(void *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe)
{
	return shmd_put_nbi(ctx, dest, source, bytes, (int)pe);
}

static int host_get(void *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe)
{
	return shmd_get(ctx, dest, source, bytes, (int)pe);
}

static int host_get_nbi(void *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe)
{
	return shmd_get_nbi(ctx, dest, source, bytes, (int)pe);
}

static int host_p(void *ctx, void *dest, uint64_t value, uint32_t bytes, uint32_t pe)
{
	return shmd_p(ctx, dest, value, bytes, (int)pe);
}

static int host_g(void *ctx, const void *source, uint32_t bytes, uint32_t pe, uint64_t *ret_value)
{
	return shmd_g(ctx, source, bytes, (int)pe, ret_value);
}

static int host_signal(void *ctx, struct shmd_dev_pe_signal signal, uint32_t pe)
{
	return shmd_signal(ctx, signal.word, signal.value, (enum shmd_signal_op)signal.op, (int)pe);
}

static int host_fence(void *ctx)
{
	return shmd_fence(ctx);
}

static int host_fence_pe(void *ctx, uint32_t pe)
{
	return shmd_fence_pe(ctx, (int)pe);
}

static int host_quiet(void *ctx)
{
	return shmd_quiet(ctx);
}

static int host_quiet_pe(void *ctx, uint32_t pe)
{
	return shmd_quiet_pe(ctx, (int)pe);
}

static int host_wait_until(void *ctx, const void *word, uint32_t bytes, uint32_t cmp, uint64_t value)
{
	return shmd_wait_until(ctx, word, bytes, cmp, value);
}

static int host_test(void *ctx, const void *word, uint32_t bytes, uint32_t cmp, uint64_t value)
{
	return shmd_test(ctx, word, bytes, cmp, value);
}

static int host_lock(void *ctx, uint64_t *lock)
{
	return shmd_lock(ctx, lock);
}

static int host_lock_test(void *ctx, uint64_t *lock)
{
	return shmd_lock_test(ctx, lock);
}

static int host_unlock(void *ctx, uint64_t *lock)
{
	return shmd_unlock(ctx, lock);
}

static struct shmd_stride host_stride(const struct shmd_dev_stride *stride)
{
	return (struct shmd_stride){.n = stride->n,
				    .block_bytes = stride->block_bytes,
				    .dest_stride_bytes = stride->dest_stride_bytes,
				    .source_stride_bytes = stride->source_stride_bytes};
}

static int host_put_strided(void *ctx, void *dest, const void *source, const struct shmd_dev_stride *stride, uint32_t pe)
{
	struct shmd_stride blocks = host_stride(stride);

	return shmd_put_strided(ctx, dest, source, &blocks, (int)pe);
}

static int host_get_strided(void *ctx, void *dest, const void *source, const struct shmd_dev_stride *stride, uint32_t pe)
{
	struct shmd_stride blocks = host_stride(stride);

	return shmd_get_strided(ctx, dest, source, &blocks, (int)pe);
}

static int host_put_strided_nbi(void *ctx, void *dest, const void *source, const struct shmd_dev_stride *stride, uint32_t pe)
{
	struct shmd_stride blocks = host_stride(stride);

	return shmd_put_strided_nbi(ctx, dest, source, &blocks, (int)pe);
}

static int host_get_strided_nbi(void *ctx, void *dest, const void *source, const struct shmd_dev_stride *stride, uint32_t pe)
{
	struct shmd_stride blocks = host_stride(stride);

	return shmd_get_strided_nbi(ctx, dest, source, &blocks, (int)pe);
}

#define MAX_ITEMS 512u

static int host_put_batch_nbi(void *ctx, const struct shmd_dev_put_item *items, uint64_t n)
{
	struct shmd_put_item same[MAX_ITEMS];

	if (n > MAX_ITEMS)
		return -1;
	for (uint64_t i = 0; i < n; i++)
		same[i] = (struct shmd_put_item){
			.dest = items[i].dest, .source = items[i].source, .bytes = items[i].bytes, .pe = (int)items[i].pe};
	return shmd_put_batch_nbi(ctx, same, n);
}

static int host_get_batch_nbi(void *ctx, const struct shmd_dev_get_item *items, uint64_t n)
{
	struct shmd_get_item same[MAX_ITEMS];

	if (n > MAX_ITEMS)
		return -1;
	for (uint64_t i = 0; i < n; i++)
		same[i] = (struct shmd_get_item){
			.dest = items[i].dest, .source = items[i].source, .bytes = items[i].bytes, .pe = (int)items[i].pe};
	return shmd_get_batch_nbi(ctx, same, n);
}

static int host_put_signal(void *ctx, const struct shmd_dev_put_item *put, struct shmd_dev_pe_signal signal)
{
	return shmd_put_signal(ctx, put->dest, put->source, put->bytes, signal.word, signal.value, (enum shmd_signal_op)signal.op,
			       (int)put->pe);
}

static int host_put_signal_nbi(void *ctx, const struct shmd_dev_put_item *put, struct shmd_dev_pe_signal signal)
{
	return shmd_put_signal_nbi(ctx, put->dest, put->source, put->bytes, signal.word, signal.value,
				   (enum shmd_signal_op)signal.op, (int)put->pe);
}

static struct shmd_atomic host_amo(const struct shmd_dev_amo *amo)
{
	return (struct shmd_atomic){
		.op = (enum shmd_atomic_op)amo->op, .bytes = amo->bytes, .value = amo->value, .compare = amo->compare};
}

static int host_atomic(void *ctx, void *dest, struct shmd_dev_amo amo, uint32_t pe)
{
	struct shmd_atomic same = host_amo(&amo);

	return shmd_atomic(ctx, dest, &same, (int)pe);
}

static int host_atomic_fetch(void *ctx, void *dest, struct shmd_dev_amo amo, uint32_t pe, uint64_t *ret_old)
{
	struct shmd_atomic same = host_amo(&amo);

	return shmd_atomic_fetch(ctx, dest, &same, (int)pe, ret_old);
}

static int host_atomic_fetch_nbi(void *ctx, void *dest, struct shmd_dev_amo amo, uint32_t pe, void *ret_old)
{
	struct shmd_atomic same = host_amo(&amo);

	return shmd_atomic_fetch_nbi(ctx, dest, &same, (int)pe, ret_old);
}

static struct shmd_wait host_wait(const struct shmd_dev_wait *wait)
{
	return (struct shmd_wait){.words = wait->words,
				  .n = wait->n,
				  .bytes = wait->bytes,
				  .cmp = wait->cmp,
				  .status = wait->status,
				  .value = wait->value,
				  .values = wait->values};
}

static int host_wait_until_all(void *ctx, const struct shmd_dev_wait *wait)
{
	struct shmd_wait same = host_wait(wait);

	return shmd_wait_until_all(ctx, &same);
}

static int host_wait_until_any(void *ctx, const struct shmd_dev_wait *wait, uint64_t *ret_index)
{
	struct shmd_wait same = host_wait(wait);

	return shmd_wait_until_any(ctx, &same, ret_index);
}

static int host_wait_until_some(void *ctx, const struct shmd_dev_wait *wait, uint64_t *ret_indexes, uint64_t *ret_n)
{
	struct shmd_wait same = host_wait(wait);

	return shmd_wait_until_some(ctx, &same, ret_indexes, ret_n);
}

static int host_test_all(void *ctx, const struct shmd_dev_wait *wait)
{
	struct shmd_wait same = host_wait(wait);

	return shmd_test_all(ctx, &same);
}

static int host_test_any(void *ctx, const struct shmd_dev_wait *wait, uint64_t *ret_index)
{
	struct shmd_wait same = host_wait(wait);

	return shmd_test_any(ctx, &same, ret_index);
}

static int host_test_some(void *ctx, const struct shmd_dev_wait *wait, uint64_t *ret_indexes, uint64_t *ret_n)
{
	struct shmd_wait same = host_wait(wait);

	return shmd_test_some(ctx, &same, ret_indexes, ret_n);
}

const struct pe_calls pe_calls_host = {
	.name = "host calls",
	.why = host_why,
	.signal_fetch = shmd_signal_fetch,
	.put = host_put,
	.put_nbi = host_put_nbi,
	.get = host_get,
	.get_nbi = host_get_nbi,
	.put_strided = host_put_strided,
	.get_strided = host_get_strided,
	.put_strided_nbi = host_put_strided_nbi,
	.get_strided_nbi = host_get_strided_nbi,
	.put_batch_nbi = host_put_batch_nbi,
	.get_batch_nbi = host_get_batch_nbi,
	.p = host_p,
	.g = host_g,
	.put_signal = host_put_signal,
	.put_signal_nbi = host_put_signal_nbi,
	.signal = host_signal,
	.atomic = host_atomic,
	.atomic_fetch = host_atomic_fetch,
	.atomic_fetch_nbi = host_atomic_fetch_nbi,
	.fence = host_fence,
	.fence_pe = host_fence_pe,
	.quiet = host_quiet,
	.quiet_pe = host_quiet_pe,
	.wait_until = host_wait_until,
	.wait_until_all = host_wait_until_all,
	.wait_until_any = host_wait_until_any,
	.wait_until_some = host_wait_until_some,
	.test = host_test,
	.test_all = host_test_all,
	.test_any = host_test_any,
	.test_some = host_test_some,
	.lock = host_lock,
	.lock_test = host_lock_test,
	.unlock = host_unlock,
};
