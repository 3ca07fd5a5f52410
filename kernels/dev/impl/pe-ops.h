/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put, get, p, g and signals on a PE: the choice between memory that is mapped here and queues. Contracts are in
 * pe.h, which includes this.
 *
 * Each call first asks what the context has at hand (shmdi_near_find), which leads to mapped memory by one load. The rest, with _far in its
 * name, looks in the world, and may find a queue. Structs whose addresses go there are made there: a GPU would store them in each call.
 */
#include <shmd/dev/pe.h>

#ifndef SHMDI_PE_OPS_H
#define SHMDI_PE_OPS_H

#include <shmd/dev/impl/pe-amo.h>
#include <shmd/dev/impl/pe-at.h>
#include <shmd/dev/impl/pe-copy.h>
#include <shmd/dev/impl/pe-queue.h>

/* ---- put and get ------------------------------------------------------------------------------------------------------------- */

SHMDI_FAR int shmdi_far_put(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe,
			   struct shmd_dev_mode mode, int waits)
{
	struct shmdi_pe_at at;
	int rc = shmdi_pe_find(ctx, dest, bytes, pe, mode.scope, &at);

	if (SHMDI_UNLIKELY(rc))
		return shmdi_pe_unless_empty(ctx, bytes, pe, rc);
	if (SHMDI_UNLIKELY(!at.addr))
		return shmdi_queue_put(ctx, &at, source, bytes, &mode, waits);
	shmdi_copy((void *)(uintptr_t)at.addr, source, bytes, mode.scope);
	return SHMD_DEV_OK;
}

/*
 * In place, as far as it is this thread's and quick. Returns whether to look again: nothing is at hand, or the copy is not quick, or some PE has
 * ended.
 */
SHMDI_FN int shmdi_near_put(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe, int scope)
{
	uint64_t addr;
	uint32_t gone;

	if (shmdi_copy_is_others(dest, source, bytes, scope))
		return 0;
	if (SHMDI_IS_FAR(!shmdi_near_find(ctx, dest, bytes, pe, &addr) || !shmdi_copy_is_quick(dest, source, bytes, scope)))
		return 1;
	gone = shmdi_near_gone(ctx);
	shmdi_copy_quick((void *)(uintptr_t)addr, source, bytes, scope);
	return gone != 0;
}

/* Behind the quick one, whose stores are not made again: a peer may have seen a word, and changed it since. */
SHMDI_FAR int shmdi_put_rest(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe, struct shmd_dev_mode mode,
			     int waits)
{
	uint64_t addr;

	if (!shmdi_near_find(ctx, dest, bytes, pe, &addr))
		return shmdi_far_put(ctx, dest, source, bytes, pe, mode, waits);
	if (!shmdi_copy_is_quick(dest, source, bytes, mode.scope))
		shmdi_copy_share((void *)(uintptr_t)addr, source, bytes, mode.scope);
	return shmdi_near_status(ctx, pe, mode.scope, shmdi_near_gone(ctx));
}

/* waits: until the source may be changed. */
SHMDI_FN int shmdi_pe_put(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe,
			  const struct shmd_dev_mode *mode, int waits)
{
	(void)shmdi_scope_enter(mode->scope);
	if (!SHMDI_IS_FAR(shmdi_scope_any(mode->scope, shmdi_near_put(ctx, dest, source, bytes, pe, mode->scope))))
		return SHMD_DEV_OK;
	return SHMDI_TO_FAR(shmdi_put_rest)(ctx, dest, source, bytes, pe, *mode, waits);
}

SHMDI_FAR int shmdi_far_get(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe,
			   struct shmd_dev_mode mode, int waits)
{
	struct shmdi_pe_at at;
	int rc = shmdi_pe_find(ctx, source, bytes, pe, mode.scope, &at);

	if (SHMDI_UNLIKELY(rc))
		return shmdi_pe_unless_empty(ctx, bytes, pe, rc);
	if (SHMDI_UNLIKELY(!at.addr))
		return shmdi_queue_get(ctx, &at, dest, bytes, &mode, waits);
	shmdi_copy(dest, (const void *)(uintptr_t)at.addr, bytes, mode.scope);
	return SHMD_DEV_OK;
}

SHMDI_FN int shmdi_near_get(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe, int scope)
{
	uint64_t addr;
	uint32_t gone;

	if (shmdi_copy_is_others(dest, source, bytes, scope))
		return 0;
	if (SHMDI_IS_FAR(!shmdi_near_find(ctx, source, bytes, pe, &addr) || !shmdi_copy_is_quick(dest, source, bytes, scope)))
		return 1;
	gone = shmdi_near_gone(ctx);
	shmdi_copy_quick(dest, (const void *)(uintptr_t)addr, bytes, scope);
	return gone != 0;
}

SHMDI_FAR int shmdi_get_rest(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe, struct shmd_dev_mode mode,
			     int waits)
{
	uint64_t addr;

	if (!shmdi_near_find(ctx, source, bytes, pe, &addr))
		return shmdi_far_get(ctx, dest, source, bytes, pe, mode, waits);
	if (!shmdi_copy_is_quick(dest, source, bytes, mode.scope))
		shmdi_copy_share(dest, (const void *)(uintptr_t)addr, bytes, mode.scope);
	return shmdi_near_status(ctx, pe, mode.scope, shmdi_near_gone(ctx));
}

/* waits: until the data is there. */
SHMDI_FN int shmdi_pe_get(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe,
			  const struct shmd_dev_mode *mode, int waits)
{
	(void)shmdi_scope_enter(mode->scope);
	if (!SHMDI_IS_FAR(shmdi_scope_any(mode->scope, shmdi_near_get(ctx, dest, source, bytes, pe, mode->scope))))
		return SHMD_DEV_OK;
	return SHMDI_TO_FAR(shmdi_get_rest)(ctx, dest, source, bytes, pe, *mode, waits);
}

SHMDI_FN int shmd_dev_put_as(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe,
			     struct shmd_dev_mode mode)
{
	return shmdi_pe_put(ctx, dest, source, bytes, pe, &mode, 1);
}

SHMDI_FN int shmd_dev_put_nbi_as(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe,
				 struct shmd_dev_mode mode)
{
	return shmdi_pe_put(ctx, dest, source, bytes, pe, &mode, 0);
}

SHMDI_FN int shmd_dev_get_as(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe,
			     struct shmd_dev_mode mode)
{
	return shmdi_pe_get(ctx, dest, source, bytes, pe, &mode, 1);
}

SHMDI_FN int shmd_dev_get_nbi_as(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe,
				 struct shmd_dev_mode mode)
{
	return shmdi_pe_get(ctx, dest, source, bytes, pe, &mode, 0);
}

SHMDI_FN int shmd_dev_put(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe)
{
	return shmd_dev_put_as(ctx, dest, source, bytes, pe, shmdi_ctx_mode(ctx));
}

SHMDI_FN int shmd_dev_put_nbi(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe)
{
	return shmd_dev_put_nbi_as(ctx, dest, source, bytes, pe, shmdi_ctx_mode(ctx));
}

SHMDI_FN int shmd_dev_get(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe)
{
	return shmd_dev_get_as(ctx, dest, source, bytes, pe, shmdi_ctx_mode(ctx));
}

SHMDI_FN int shmd_dev_get_nbi(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe)
{
	return shmd_dev_get_nbi_as(ctx, dest, source, bytes, pe, shmdi_ctx_mode(ctx));
}

/* ---- p and g ------------------------------------------------------------------------------------------------------------------ */

SHMDI_FN int shmdi_word_is_valid(const void *word, uint32_t bytes)
{
	return SHMDI_LIKELY(shmdi_bytes_are_word(bytes) && !((uintptr_t)word & (bytes - 1)));
}

SHMDI_FAR int shmdi_far_p(struct shmd_dev_ctx *ctx, void *dest, uint64_t value, uint32_t bytes, uint32_t pe, struct shmd_dev_mode mode)
{
	struct shmdi_pe_at at;
	int rc = SHMD_DEV_INVALID;

	if (shmdi_word_is_valid(dest, bytes))
		rc = shmdi_pe_find(ctx, dest, bytes, pe, mode.scope, &at);
	if (SHMDI_UNLIKELY(rc))
		return rc;
	if (SHMDI_UNLIKELY(!at.addr))
		return shmdi_queue_p(ctx, &at, value, bytes, &mode);
	if (shmdi_scope_enter(mode.scope))
		shmdi_pes_store((void *)(uintptr_t)at.addr, value, bytes);
	return SHMD_DEV_OK;
}

SHMDI_FN int shmd_dev_p_as(struct shmd_dev_ctx *ctx, void *dest, uint64_t value, uint32_t bytes, uint32_t pe,
			   struct shmd_dev_mode mode)
{
	uint64_t addr;

	if (SHMDI_IS_FAR(!shmdi_bytes_are_word(bytes) || !shmdi_near_word(ctx, dest, bytes, pe, &addr)))
		return SHMDI_TO_FAR(shmdi_far_p)(ctx, dest, value, bytes, pe, mode);
	if (shmdi_scope_enter(mode.scope))
		shmdi_pes_store((void *)(uintptr_t)addr, value, bytes);
	return shmdi_near_status(ctx, pe, mode.scope, shmdi_near_gone(ctx));
}

SHMDI_FN int shmd_dev_p(struct shmd_dev_ctx *ctx, void *dest, uint64_t value, uint32_t bytes, uint32_t pe)
{
	return shmd_dev_p_as(ctx, dest, value, bytes, pe, shmdi_ctx_mode(ctx));
}

SHMDI_FAR int shmdi_far_g(struct shmd_dev_ctx *ctx, const void *source, uint32_t bytes, uint32_t pe, struct shmd_dev_mode mode,
			 uint64_t *ret_value)
{
	struct shmdi_pe_at at;
	int rc = SHMD_DEV_INVALID;

	if (shmdi_word_is_valid(source, bytes))
		rc = shmdi_pe_find(ctx, source, bytes, pe, mode.scope, &at);
	if (SHMDI_UNLIKELY(rc))
		return rc;
	if (SHMDI_UNLIKELY(!at.addr))
		return shmdi_queue_g(ctx, &at, bytes, &mode, ret_value);
	*ret_value = shmdi_scope_share(mode.scope, shmdi_pes_load((const void *)(uintptr_t)at.addr, bytes));
	return SHMD_DEV_OK;
}

SHMDI_FN int shmd_dev_g_as(struct shmd_dev_ctx *ctx, const void *source, uint32_t bytes, uint32_t pe, struct shmd_dev_mode mode,
			   uint64_t *ret_value)
{
	uint64_t addr, value;
	int rc;

	if (SHMDI_IS_FAR(!shmdi_bytes_are_word(bytes) || !shmdi_near_word(ctx, source, bytes, pe, &addr))) {
		value = 0;
		rc = SHMDI_TO_FAR(shmdi_far_g)(ctx, source, bytes, pe, mode, &value);
	} else {
		(void)shmdi_scope_enter(mode.scope);
		value = shmdi_scope_share(mode.scope, shmdi_pes_load((const void *)(uintptr_t)addr, bytes));
		rc = shmdi_near_status(ctx, pe, mode.scope, shmdi_near_gone(ctx));
	}
	if (!rc && ret_value)
		*ret_value = value;
	return rc;
}

SHMDI_FN int shmd_dev_g(struct shmd_dev_ctx *ctx, const void *source, uint32_t bytes, uint32_t pe, uint64_t *ret_value)
{
	return shmd_dev_g_as(ctx, source, bytes, pe, shmdi_ctx_mode(ctx), ret_value);
}

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
				    struct shmd_dev_mode mode, int waits)
{
	uint64_t word, addr;
	int rc;

	if (!shmdi_signal_is_near(ctx, &signal, put.pe, &word) ||
	    (put.bytes && !shmdi_near_find(ctx, put.dest, put.bytes, put.pe, &addr)))
		return shmdi_far_put_signal(ctx, put, signal, mode, waits);
	if (put.bytes && !shmdi_copy_is_quick(put.dest, put.source, put.bytes, mode.scope))
		shmdi_copy_share((void *)(uintptr_t)addr, put.source, put.bytes, mode.scope);
	rc = shmdi_near_status(ctx, put.pe, mode.scope, shmdi_near_gone(ctx));
	if (!rc && shmdi_scope_is_leader(mode.scope))
		shmdi_signal_store((uint64_t *)(uintptr_t)word, &signal);
	return rc;
}

SHMDI_FN int shmdi_put_signal(struct shmd_dev_ctx *ctx, const struct shmd_dev_put_item *put,
			      const struct shmd_dev_pe_signal *signal, const struct shmd_dev_mode *mode, int waits)
{
	uint64_t word;
	int looks = !shmdi_signal_is_near(ctx, signal, put->pe, &word);

	(void)shmdi_scope_enter(mode->scope);
	if (!looks)
		looks = put->bytes ? shmdi_near_put(ctx, put->dest, put->source, put->bytes, put->pe, mode->scope) : shmdi_near_gone(ctx) != 0;
	if (SHMDI_IS_FAR(shmdi_scope_any(mode->scope, looks)))
		return SHMDI_TO_FAR(shmdi_put_signal_rest)(ctx, *put, *signal, *mode, waits);
	if (shmdi_scope_is_leader(mode->scope))
		shmdi_signal_store((uint64_t *)(uintptr_t)word, signal);
	return SHMD_DEV_OK;
}

SHMDI_FN struct shmd_dev_put_item shmdi_put_item(void *dest, const void *source, uint64_t bytes, uint32_t pe)
{
	struct shmd_dev_put_item put;

	put.dest = dest;
	put.source = source;
	put.bytes = bytes;
	put.pe = pe;
	return put;
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
