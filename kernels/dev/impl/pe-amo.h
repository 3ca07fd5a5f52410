/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomics on a PE: the bodies. Contracts are in pe.h, which includes this. As in pe-ops.h a call asks what the context has at hand, and
 * goes the way with _far in its name where that is nothing.
 */
#include <shmd/dev/pe.h>

#ifndef SHMDI_PE_AMO_H
#define SHMDI_PE_AMO_H

#include <shmd/dev/impl/pe-at.h>
#include <shmd/dev/impl/pe-queue.h>

SHMDI_FN int shmdi_pe_amo_is_known(const struct shmd_dev_amo *amo)
{
	return (amo->bytes == 4 || amo->bytes == 8) && amo->op >= SHMD_DEV_AMO_FETCH && amo->op <= SHMD_DEV_AMO_ADD_FLOAT;
}

SHMDI_FN int shmdi_pe_amo_is_valid(const struct shmd_dev_amo *amo, const void *word)
{
	return shmdi_pe_amo_is_known(amo) && !((uintptr_t)word & (amo->bytes - 1));
}

/* The word of an atomic; addr is 0 where a queue must carry it. */
SHMDI_FN int shmdi_amo_find(const struct shmd_dev_ctx *ctx, const void *word, const struct shmd_dev_amo *amo, uint32_t pe,
			    int scope, struct shmdi_pe_at *at)
{
	int rc;

	if (SHMDI_UNLIKELY(!shmdi_pe_amo_is_valid(amo, word)))
		return SHMD_DEV_INVALID;
	rc = shmdi_pe_find(ctx, word, amo->bytes, pe, scope, at);
	if (!shmdi_atomics_in_place(ctx))
		at->addr = 0;
	return rc;
}

SHMDI_FAR int shmdi_far_atomic(struct shmd_dev_ctx *ctx, void *dest, struct shmd_dev_amo amo, uint32_t pe, struct shmd_dev_mode mode)
{
	struct shmdi_pe_at at;
	int rc = shmdi_amo_find(ctx, dest, &amo, pe, mode.scope, &at);

	if (SHMDI_UNLIKELY(rc))
		return rc;
	if (SHMDI_UNLIKELY(!at.addr))
		return shmdi_queue_amo(ctx, &at, &amo, &mode, 0);
	if (shmdi_scope_enter(mode.scope))
		shmdi_pes_amo_post((void *)(uintptr_t)at.addr, &amo);
	return SHMD_DEV_OK;
}

/* A valid operation whose word is at hand: one answer for all threads, and a barrier as shmdi_scope_enter(), since the part at hand may grow. */
SHMDI_FN int shmdi_amo_near(const struct shmd_dev_ctx *ctx, const void *word, const struct shmd_dev_amo *amo, uint32_t pe, int scope, uint64_t *ret_addr)
{
	return shmdi_scope_all(scope, shmdi_near_amo(ctx, word, amo->bytes, pe, ret_addr) & shmdi_pe_amo_is_known(amo));
}

SHMDI_FN int shmd_dev_atomic_as(struct shmd_dev_ctx *ctx, void *dest, struct shmd_dev_amo amo, uint32_t pe,
				struct shmd_dev_mode mode)
{
	uint64_t addr;

	if (SHMDI_IS_FAR(!shmdi_amo_near(ctx, dest, &amo, pe, mode.scope, &addr)))
		return shmdi_far_atomic(ctx, dest, amo, pe, mode);
	if (shmdi_scope_is_leader(mode.scope))
		shmdi_pes_amo_post((void *)(uintptr_t)addr, &amo);
	return shmdi_near_status(ctx, pe, mode.scope, shmdi_near_gone(ctx));
}

SHMDI_FAR int shmdi_far_atomic_fetch(struct shmd_dev_ctx *ctx, void *dest, struct shmd_dev_amo amo, uint32_t pe,
				    struct shmd_dev_mode mode, uint64_t *ret_old)
{
	struct shmdi_pe_at at;
	uint64_t old = 0;
	int rc = shmdi_amo_find(ctx, dest, &amo, pe, mode.scope, &at);

	if (SHMDI_UNLIKELY(rc))
		return rc;
	if (SHMDI_UNLIKELY(!at.addr))
		return shmdi_queue_amo(ctx, &at, &amo, &mode, ret_old);
	if (shmdi_scope_enter(mode.scope))
		old = shmdi_pes_amo((void *)(uintptr_t)at.addr, &amo);
	*ret_old = shmdi_scope_share(mode.scope, old);
	return SHMD_DEV_OK;
}

SHMDI_FN int shmd_dev_atomic_fetch_as(struct shmd_dev_ctx *ctx, void *dest, struct shmd_dev_amo amo, uint32_t pe,
				      struct shmd_dev_mode mode, uint64_t *ret_old)
{
	uint64_t addr, old = 0;
	int rc;

	if (SHMDI_IS_FAR(!shmdi_amo_near(ctx, dest, &amo, pe, mode.scope, &addr))) {
		uint64_t far_old = 0; /* a place of its own: the one below stays in a register */

		rc = shmdi_far_atomic_fetch(ctx, dest, amo, pe, mode, &far_old);
		old = far_old;
	} else {
		if (shmdi_scope_is_leader(mode.scope))
			old = shmdi_pes_amo((void *)(uintptr_t)addr, &amo);
		rc = shmdi_near_status(ctx, pe, mode.scope, shmdi_near_gone(ctx));
		old = shmdi_scope_share(mode.scope, old);
	}
	if (!rc && ret_old)
		*ret_old = old;
	return rc;
}

SHMDI_FAR int shmdi_far_atomic_fetch_nbi(struct shmd_dev_ctx *ctx, void *dest, struct shmd_dev_amo amo, uint32_t pe,
					struct shmd_dev_mode mode, void *ret_old)
{
	struct shmdi_pe_at at;
	int rc = shmdi_amo_find(ctx, dest, &amo, pe, mode.scope, &at);

	if (SHMDI_UNLIKELY(rc))
		return rc;
	if (SHMDI_UNLIKELY(!at.addr))
		return shmdi_queue_amo_nbi(ctx, &at, &amo, &mode, ret_old);
	if (shmdi_scope_enter(mode.scope))
		shmdi_old_store(ret_old, shmdi_pes_amo((void *)(uintptr_t)at.addr, &amo), amo.bytes);
	return shmdi_scope_leave(mode.scope, SHMD_DEV_OK);
}

SHMDI_FN int shmd_dev_atomic_fetch_nbi_as(struct shmd_dev_ctx *ctx, void *dest, struct shmd_dev_amo amo, uint32_t pe,
					  struct shmd_dev_mode mode, void *ret_old)
{
	uint64_t addr;

	if (SHMDI_UNLIKELY(!ret_old || ((uintptr_t)ret_old & (amo.bytes - 1))))
		return SHMD_DEV_INVALID;
	if (SHMDI_IS_FAR(!shmdi_amo_near(ctx, dest, &amo, pe, mode.scope, &addr)))
		return shmdi_far_atomic_fetch_nbi(ctx, dest, amo, pe, mode, ret_old);
	if (shmdi_scope_is_leader(mode.scope))
		shmdi_old_store(ret_old, shmdi_pes_amo((void *)(uintptr_t)addr, &amo), amo.bytes);
	return shmdi_near_status(ctx, pe, mode.scope, shmdi_near_gone(ctx));
}

SHMDI_FN int shmd_dev_atomic(struct shmd_dev_ctx *ctx, void *dest, struct shmd_dev_amo amo, uint32_t pe)
{
	return shmd_dev_atomic_as(ctx, dest, amo, pe, shmdi_ctx_mode(ctx));
}

SHMDI_FN int shmd_dev_atomic_fetch(struct shmd_dev_ctx *ctx, void *dest, struct shmd_dev_amo amo, uint32_t pe, uint64_t *ret_old)
{
	return shmd_dev_atomic_fetch_as(ctx, dest, amo, pe, shmdi_ctx_mode(ctx), ret_old);
}

SHMDI_FN int shmd_dev_atomic_fetch_nbi(struct shmd_dev_ctx *ctx, void *dest, struct shmd_dev_amo amo, uint32_t pe, void *ret_old)
{
	return shmd_dev_atomic_fetch_nbi_as(ctx, dest, amo, pe, shmdi_ctx_mode(ctx), ret_old);
}

#endif
