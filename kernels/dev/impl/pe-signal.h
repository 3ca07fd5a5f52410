/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals on a PE, and puts with one: the bodies. Contracts are in pe.h, which includes this. Data in place comes first, then a barrier of the scope,
 * and the leader stores the signal behind all of it.
 */
#include <shmd/dev/pe.h>

#ifndef SHMDI_PE_SIGNAL_H
#define SHMDI_PE_SIGNAL_H

#include <shmd/dev/impl/pe-ops.h>

/* ---- signals ------------------------------------------------------------------------------------------------------------------ */

SHMDI_FN int shmdi_pe_signal_op_is_known(int op)
{
	return op == SHMD_DEV_SIGNAL_SET || op == SHMD_DEV_SIGNAL_ADD;
}

SHMDI_FN int shmdi_pe_signal_is_valid(const struct shmd_dev_pe_signal *signal)
{
	return shmdi_pe_signal_op_is_known(signal->op) && !((uintptr_t)signal->word & 7);
}

SHMDI_FN struct shmd_dev_amo shmdi_pe_signal_amo(const struct shmd_dev_pe_signal *signal)
{
	return shmd_dev_amo_of(signal->op == SHMD_DEV_SIGNAL_SET ? SHMD_DEV_AMO_SWAP : SHMD_DEV_AMO_ADD, 8, signal->value);
}

/* In place, behind everything that this caller stored. */
SHMDI_FN void shmdi_signal_store(uint64_t *word, const struct shmd_dev_pe_signal *signal)
{
	struct shmd_dev_amo amo = shmdi_pe_signal_amo(signal);

	if (signal->op == SHMD_DEV_SIGNAL_SET) {
		shmdi_pes_publish64(word, signal->value);
		return;
	}
#if SHMDI_CUDA
	shmdi_pes_fence();
#endif
	shmdi_pes_amo_post(word, &amo);
}

SHMDI_FN int shmd_dev_signal_as(struct shmd_dev_ctx *ctx, struct shmd_dev_pe_signal signal, uint32_t pe,
				struct shmd_dev_mode mode)
{
	struct shmd_dev_amo amo = shmdi_pe_signal_amo(&signal);

	if (SHMDI_UNLIKELY(!shmdi_pe_signal_is_valid(&signal)))
		return SHMD_DEV_INVALID;
	return shmd_dev_atomic_as(ctx, signal.word, amo, pe, mode);
}

SHMDI_FN int shmd_dev_signal(struct shmd_dev_ctx *ctx, struct shmd_dev_pe_signal signal, uint32_t pe)
{
	return shmd_dev_signal_as(ctx, signal, pe, shmdi_ctx_mode(ctx));
}

SHMDI_FN uint64_t shmd_dev_signal_fetch(const uint64_t *word)
{
	return shmdi_pes_load(word, 8);
}

SHMDI_FAR int shmdi_far_put_signal(struct shmd_dev_ctx *ctx, struct shmd_dev_put_item put, struct shmd_dev_pe_signal signal,
				  struct shmd_dev_mode mode, int waits)
{
	struct shmd_dev_amo amo = shmdi_pe_signal_amo(&signal);
	struct shmdi_pe_at at, word;
	int rc;

	if (SHMDI_UNLIKELY(!shmdi_pe_signal_is_valid(&signal)))
		return SHMD_DEV_INVALID;
	rc = shmdi_pe_find_one(ctx, signal.word, 8, put.pe, &word);
	at = word;
	if (SHMDI_LIKELY(!rc) && SHMDI_LIKELY(put.bytes))
		rc = shmdi_pe_find_one(ctx, put.dest, put.bytes, put.pe, &at);
	if (SHMDI_UNLIKELY(!shmdi_scope_all(mode.scope, !rc && at.addr && word.addr && shmdi_atomics_in_place(ctx)))) {
		rc = shmdi_pe_agree(mode.scope, rc, &at);
		(void)shmdi_pe_agree(mode.scope, rc, &word);
		if (rc)
			return rc;
		if (!at.addr || !word.addr || !shmdi_atomics_in_place(ctx))
			return shmdi_queue_put_signal(shmdi_move_of(ctx, &mode, 0, waits), &put, &at, &word, &amo);
	}
	shmdi_copy((void *)(uintptr_t)at.addr, put.source, put.bytes, mode.scope);
	if (shmdi_scope_enter(mode.scope))
		shmdi_signal_store((uint64_t *)(uintptr_t)word.addr, &signal);
	return SHMD_DEV_OK;
}

SHMDI_FN int shmdi_signal_is_near(const struct shmd_dev_ctx *ctx, const struct shmd_dev_pe_signal *signal, uint32_t pe, uint64_t *ret_word)
{
	return shmdi_near_amo(ctx, signal->word, 8, pe, ret_word) & shmdi_pe_signal_op_is_known(signal->op);
}

/* As shmdi_put_rest(), then the signal. */
SHMDI_FAR int shmdi_put_signal_rest(struct shmd_dev_ctx *ctx, struct shmd_dev_put_item put, struct shmd_dev_pe_signal signal,
				    struct shmd_dev_mode mode, int waits, int near)
{
	uint64_t word, addr;
	int has_word = shmdi_signal_is_near(ctx, &signal, put.pe, &word), rc;

	if (shmdi_scope_any(mode.scope, near == SHMDI_NEAR_NOT)) {
		addr = shmdi_near_agree(ctx, put.dest, has_word ? put.bytes : 0, put.pe, mode.scope);
		if (!addr)
			return shmdi_far_put_signal(ctx, put, signal, mode, waits);
		shmdi_copy_share((void *)(uintptr_t)addr, put.source, put.bytes, mode.scope);
	}
	rc = shmdi_near_status(ctx, put.pe, mode.scope, shmdi_near_gone(ctx));
	if (!rc && shmdi_scope_is_leader(mode.scope))
		shmdi_signal_store((uint64_t *)(uintptr_t)word, &signal);
	return rc;
}

/* Without bytes any dest will do. */
SHMDI_FN int shmdi_near_copy_put(struct shmd_dev_ctx *ctx, const struct shmd_dev_put_item *put, int scope)
{
	if (put->bytes)
		return shmdi_near_copy(ctx, put->dest, put->source, put->bytes, put->pe, scope, 0);
	return shmdi_near_gone(ctx) ? SHMDI_NEAR_GONE : SHMDI_NEAR_DONE;
}

SHMDI_FN int shmdi_put_signal(struct shmd_dev_ctx *ctx, const struct shmd_dev_put_item *put,
			      const struct shmd_dev_pe_signal *signal, const struct shmd_dev_mode *mode, int waits)
{
	uint64_t word;
	int near = SHMDI_NEAR_NOT, has_word = shmdi_signal_is_near(ctx, signal, put->pe, &word);

	(void)shmdi_scope_enter(mode->scope);
	if (has_word)
		near = shmdi_near_copy_put(ctx, put, mode->scope);
	if (SHMDI_IS_FAR(shmdi_scope_any(mode->scope, near != SHMDI_NEAR_DONE)))
		return shmdi_put_signal_rest(ctx, *put, *signal, *mode, waits, near);
	if (shmdi_scope_is_leader(mode->scope))
		shmdi_signal_store((uint64_t *)(uintptr_t)word, signal);
	return SHMD_DEV_OK;
}

SHMDI_FN int shmd_dev_put_signal_as(struct shmd_dev_ctx *ctx, struct shmd_dev_put_item put, struct shmd_dev_pe_signal signal,
				    struct shmd_dev_mode mode)
{
	return shmdi_put_signal(ctx, &put, &signal, &mode, 1);
}

SHMDI_FN int shmd_dev_put_signal_nbi_as(struct shmd_dev_ctx *ctx, struct shmd_dev_put_item put,
					struct shmd_dev_pe_signal signal, struct shmd_dev_mode mode)
{
	return shmdi_put_signal(ctx, &put, &signal, &mode, 0);
}

SHMDI_FN int shmd_dev_put_signal(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes,
				 struct shmd_dev_pe_signal signal, uint32_t pe)
{
	return shmd_dev_put_signal_as(ctx, shmdi_put_item(dest, source, bytes, pe), signal, shmdi_ctx_mode(ctx));
}

SHMDI_FN int shmd_dev_put_signal_nbi(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes,
				     struct shmd_dev_pe_signal signal, uint32_t pe)
{
	return shmd_dev_put_signal_nbi_as(ctx, shmdi_put_item(dest, source, bytes, pe), signal, shmdi_ctx_mode(ctx));
}

#endif
