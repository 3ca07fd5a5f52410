/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put, get, p and g on a PE: the choice between memory that is mapped here and queues. Contracts are in
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

/* How a thread's share of a copy went. */
enum shmdi_near {
	SHMDI_NEAR_DONE = 0,
	SHMDI_NEAR_NOT = 1, /* nothing was stored: nothing is at hand, or the copy is not quick */
	SHMDI_NEAR_GONE = 2, /* done, and some PE has ended */
};

/* In place, as far as it is this thread's and quick. */
SHMDI_FN int shmdi_near_copy(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe, int scope, int is_get)
{
	uint64_t addr;
	uint32_t gone;

	if (shmdi_copy_is_others(bytes, scope))
		return SHMDI_NEAR_DONE;
	if (SHMDI_IS_FAR(!shmdi_near_find(ctx, is_get ? source : dest, bytes, pe, &addr)))
		return SHMDI_NEAR_NOT;
	gone = shmdi_near_gone(ctx);
	if (!shmdi_copy_quick(is_get ? dest : (void *)(uintptr_t)addr, is_get ? (const void *)(uintptr_t)addr : source, bytes, scope))
		return SHMDI_NEAR_NOT;
	return gone ? SHMDI_NEAR_GONE : SHMDI_NEAR_DONE;
}

/* The leader's answer for all threads, since the part of the heap at hand may grow between their looks: the address, or 0. */
SHMDI_FN uint64_t shmdi_near_agree(const struct shmd_dev_ctx *ctx, const void *ptr, uint64_t bytes, uint32_t pe, int scope)
{
	uint64_t addr;
	int is_near = shmdi_near_find(ctx, ptr, bytes, pe, &addr);

	return shmdi_scope_share(scope, is_near ? addr : 0);
}

/*
 * Some thread has more to do. No store is made again, since a peer may have seen a word and changed it; only where the part of the heap at hand
 * grows between the looks of a block's threads, those that looked later store twice.
 */
SHMDI_FAR int shmdi_put_rest(struct shmd_dev_ctx *ctx, struct shmd_dev_put_item put, struct shmd_dev_mode mode, int waits, int near)
{
	uint64_t addr;

	if (!shmdi_scope_any(mode.scope, near == SHMDI_NEAR_NOT))
		return shmdi_near_status(ctx, put.pe, mode.scope, shmdi_near_gone(ctx));
	addr = shmdi_near_agree(ctx, put.dest, put.bytes, put.pe, mode.scope);
	if (!addr)
		return shmdi_far_put(ctx, put.dest, put.source, put.bytes, put.pe, mode, waits);
	shmdi_copy_share((void *)(uintptr_t)addr, put.source, put.bytes, mode.scope);
	return shmdi_near_status(ctx, put.pe, mode.scope, shmdi_near_gone(ctx));
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

/* waits: until the source may be changed. */
SHMDI_FN int shmdi_pe_put(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe,
			  const struct shmd_dev_mode *mode, int waits)
{
	int near;

	(void)shmdi_scope_enter(mode->scope);
	near = shmdi_near_copy(ctx, dest, source, bytes, pe, mode->scope, 0);
	if (!SHMDI_IS_FAR(shmdi_scope_any(mode->scope, near != SHMDI_NEAR_DONE)))
		return SHMD_DEV_OK;
	return shmdi_put_rest(ctx, shmdi_put_item(dest, source, bytes, pe), *mode, waits, near);
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

SHMDI_FAR int shmdi_get_rest(struct shmd_dev_ctx *ctx, struct shmd_dev_put_item get, struct shmd_dev_mode mode, int waits, int near)
{
	uint64_t addr;

	if (!shmdi_scope_any(mode.scope, near == SHMDI_NEAR_NOT))
		return shmdi_near_status(ctx, get.pe, mode.scope, shmdi_near_gone(ctx));
	addr = shmdi_near_agree(ctx, get.source, get.bytes, get.pe, mode.scope);
	if (!addr)
		return shmdi_far_get(ctx, get.dest, get.source, get.bytes, get.pe, mode, waits);
	shmdi_copy_share(get.dest, (const void *)(uintptr_t)addr, get.bytes, mode.scope);
	return shmdi_near_status(ctx, get.pe, mode.scope, shmdi_near_gone(ctx));
}

/* waits: until the data is there. */
SHMDI_FN int shmdi_pe_get(struct shmd_dev_ctx *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe,
			  const struct shmd_dev_mode *mode, int waits)
{
	int near;

	(void)shmdi_scope_enter(mode->scope);
	near = shmdi_near_copy(ctx, dest, source, bytes, pe, mode->scope, 1);
	if (!SHMDI_IS_FAR(shmdi_scope_any(mode->scope, near != SHMDI_NEAR_DONE)))
		return SHMD_DEV_OK;
	return shmdi_get_rest(ctx, shmdi_put_item(dest, source, bytes, pe), *mode, waits, near);
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

	/* One answer for all threads, since the part of the heap at hand may grow between their looks. */
	if (SHMDI_IS_FAR(!shmdi_scope_all(mode.scope, shmdi_bytes_are_word(bytes) && shmdi_near_word(ctx, dest, bytes, pe, &addr))))
		return shmdi_far_p(ctx, dest, value, bytes, pe, mode);
	if (shmdi_scope_is_leader(mode.scope))
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

	if (SHMDI_IS_FAR(!shmdi_scope_all(mode.scope, shmdi_bytes_are_word(bytes) && shmdi_near_word(ctx, source, bytes, pe, &addr)))) {
		value = 0;
		rc = shmdi_far_g(ctx, source, bytes, pe, mode, &value);
	} else {
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

#endif
