/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels with operations on PEs, for check-ptx-pe.py: they are compiled, never run. */
#include <shmd/dev/pe.h>

extern "C" __global__ void put_word(struct shmd_dev_ctx *ctx, uint64_t *dest, uint64_t value, uint32_t pe, int *ret_status)
{
	*ret_status = shmd_dev_p(ctx, dest, value, 8, pe);
}

extern "C" __global__ void put_signal(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes,
				      struct shmd_dev_pe_signal signal, int *ret_status)
{
	ret_status[0] = shmd_dev_put_signal(ctx, dest, source, bytes, signal, 1);
	ret_status[1] = shmd_dev_put_signal_as(ctx, shmdi_put_item(dest, source, bytes, 1), signal,
					       shmd_dev_ctx_mode(ctx, SHMD_DEV_BLOCK));
}

extern "C" __global__ void wait_word(struct shmd_dev_ctx *ctx, const uint64_t *word, int *ret_status)
{
	*ret_status = shmd_dev_wait_until(ctx, word, 8, SHMD_DEV_CMP_EQ, 1);
}

extern "C" __global__ void atomics(struct shmd_dev_ctx *ctx, uint64_t *word, struct shmd_dev_amo amo, int *ret_status)
{
	ret_status[0] = shmd_dev_atomic(ctx, word, amo, 1);
	ret_status[1] = shmd_dev_atomic_fetch(ctx, word, amo, 1, word);
	ret_status[3] = shmd_dev_atomic_fetch_nbi(ctx, word, amo, 1, word) +
			shmd_dev_atomic_fetch_nbi_as(ctx, word, amo, 1, shmd_dev_ctx_mode(ctx, SHMD_DEV_WARP), word);
	ret_status[2] = shmd_dev_atomic_fetch_as(ctx, word, amo, 1, shmd_dev_ctx_mode(ctx, SHMD_DEV_WARP), word);
}

extern "C" __global__ void all_others(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_wait *wait,
				      const struct shmd_dev_stride *stride, uint64_t *word, int *ret_status)
{
	struct shmd_dev_mode block = shmd_dev_ctx_mode(ctx, SHMD_DEV_BLOCK);

	ret_status[0] = shmd_dev_put_as(ctx, word, team, 4096, 1, block);
	ret_status[1] = shmd_dev_get_as(ctx, team, word, 4096, 1, block);
	ret_status[2] = shmd_dev_g_as(ctx, word, 4, 1, block, word);
	ret_status[3] = shmd_dev_team_barrier_as(ctx, team, block);
	ret_status[4] = shmd_dev_lock(ctx, word) + shmd_dev_lock_test(ctx, word) + shmd_dev_unlock(ctx, word);
	ret_status[5] = shmd_dev_wait_until_all(ctx, wait) + shmd_dev_wait_until_some(ctx, wait, word, word);
	ret_status[6] = shmd_dev_put_strided(ctx, word, team, stride, 1) + shmd_dev_get_strided(ctx, team, word, stride, 1);
	ret_status[6] += shmd_dev_put_strided_nbi(ctx, word, team, stride, 1) + shmd_dev_get_strided_nbi(ctx, team, word, stride, 1);
	ret_status[7] = shmd_dev_fence(ctx) + shmd_dev_fence_pe(ctx, 1) + shmd_dev_quiet_pe(ctx, 1);
	ret_status[8] = shmd_dev_team_translate(team, 1, team) + (shmd_dev_ptr(ctx, word, 1) != 0);
}
