/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A symmetric address and a PE: which heap, which PE of the world, and where its copy is.
 *
 * One chain of loads without a division: world, its heap and PE, and the address. Nothing here waits.
 */
#include <shmd/dev/pe.h>

#ifndef SHMDI_PE_AT_H
#define SHMDI_PE_AT_H

#include <shmd/dev/impl/coop.h>
#include <shmd/dev/impl/order-pes.h>

/* The copy of some bytes at one PE. */
struct shmdi_pe_at {
	uint64_t addr; /* where it is mapped here; 0: a queue leads there */
	uint64_t offset; /* in its heap */
	uint32_t heap;
	uint32_t pe; /* of the world */
};

SHMDI_FN struct shmd_dev_mode shmd_dev_ctx_mode(const struct shmd_dev_ctx *ctx, enum shmd_dev_scope scope)
{
	struct shmd_dev_mode mode;

	mode.timeout_nsec = SHMDI_CTX(ctx->timeout_nsec);
	mode.peer = 0;
	mode.scope = (uint8_t)scope;
	mode.sharing = (uint8_t)SHMDI_CTX(ctx->sharing);
	mode.flags = 0;
	return mode;
}

SHMDI_FN struct shmd_dev_mode shmdi_ctx_mode(const struct shmd_dev_ctx *ctx)
{
	return shmd_dev_ctx_mode(ctx, SHMD_DEV_THREAD);
}

/* The context itself, where this is a copy: it has what changes. */
SHMDI_FN struct shmd_dev_ctx *shmdi_ctx_self(struct shmd_dev_ctx *ctx)
{
	uint64_t self = SHMDI_CTX(ctx->self_addr);

	return self ? (struct shmd_dev_ctx *)(uintptr_t)self : ctx;
}

SHMDI_FN const struct shmd_dev_world *shmdi_world_of(const struct shmd_dev_ctx *ctx)
{
	return (const struct shmd_dev_world *)(uintptr_t)SHMDI_CTX(ctx->world_addr);
}

SHMDI_FN const struct shmd_dev_pe *shmdi_pe_entry(const struct shmd_dev_world *world, uint32_t pe)
{
	return (const struct shmd_dev_pe *)(uintptr_t)SHMDI_FIXED(world->pes_addr) + pe;
}

SHMDI_FN uint32_t shmdi_path_load(const struct shmd_dev_pe *entry, uint32_t heap)
{
	return shmdi_nic_load32(&entry->path[heap], SHMD_PLACEMENT_HOST);
}

SHMDI_FN uint64_t shmdi_used_load(const struct shmd_dev_heap *heap)
{
	return shmdi_pes_load(&heap->used_bytes, 8);
}

/* A member below n_pes as a PE of the world. */
SHMDI_FN uint32_t shmdi_team_member(const struct shmd_dev_team *team, uint32_t i)
{
	const uint32_t *members = (const uint32_t *)(uintptr_t)SHMDI_FIXED(team->members_addr);

	return members ? SHMDI_FIXED(members[i]) : SHMDI_FIXED(team->start) + i * SHMDI_FIXED(team->stride);
}

/* A PE of the context as a PE of the world. Returns 0 when it is out of range. */
SHMDI_FN int shmdi_pe_number(const struct shmd_dev_ctx *ctx, const struct shmd_dev_world *world, uint32_t pe,
			     uint32_t *ret_pe)
{
	const struct shmd_dev_team *team = (const struct shmd_dev_team *)(uintptr_t)SHMDI_CTX(ctx->team_addr);

	*ret_pe = pe;
	if (SHMDI_LIKELY(!team))
		return pe < SHMDI_FIXED(world->n_pes);
	if (pe >= SHMDI_FIXED(team->n_pes))
		return 0;
	*ret_pe = shmdi_team_member(team, pe);
	return 1;
}

/* Whether [offset, offset + bytes) is in use. */
SHMDI_FN int shmdi_heap_has(const struct shmd_dev_heap *heap, uint64_t offset, uint64_t bytes)
{
	uint64_t used;

	/* The range never changes, so an address of the other heap costs no look at what is in use. */
	if (offset > SHMDI_FIXED(heap->range_bytes))
		return 0;
#if SHMDI_CUDA
	/* The number only grows: one from a cache may be old, and what it covers is in use all the same. */
	used = SHMDI_FIXED(heap->used_bytes);
	if (SHMDI_LIKELY(offset <= used && bytes <= used - offset))
		return 1;
#endif
	used = shmdi_used_load(heap);
	return offset <= used && bytes <= used - offset;
}

/* The heap that has these bytes of the caller's own, or SHMD_DEV_HEAPS. */
SHMDI_FN uint32_t shmdi_heap_find(const struct shmd_dev_world *world, const void *ptr, uint64_t bytes, uint64_t *ret_offset)
{
	uint32_t h;

	for (h = 0; h < SHMD_DEV_HEAPS; h++) {
		uint64_t own = SHMDI_FIXED(world->heap[h].own_addr);

		*ret_offset = (uint64_t)(uintptr_t)ptr - own;
		if (SHMDI_LIKELY(own && shmdi_heap_has(&world->heap[h], *ret_offset, bytes)))
			break;
	}
	return h;
}

SHMDI_FN int shmdi_path_is_mapped(uint32_t path)
{
	return path == SHMD_PATH_SELF || path == SHMD_PATH_MAPPED;
}

/* The status of an operation by this path. */
SHMDI_FN int shmdi_path_status(uint32_t path)
{
	if (path == SHMD_PATH_GONE)
		return SHMD_DEV_PE_GONE;
	return path == SHMD_PATH_NONE ? SHMD_DEV_NO_PATH : SHMD_DEV_OK;
}

/* With heap, offset and PE of the world known: the address, or the status that says why there is none. */
SHMDI_FN int shmdi_pe_reach(const struct shmd_dev_world *world, struct shmdi_pe_at *at)
{
	const struct shmd_dev_pe *entry = shmdi_pe_entry(world, at->pe);
	uint32_t path = shmdi_path_load(entry, at->heap);

	at->addr = 0;
	if (SHMDI_LIKELY(shmdi_path_is_mapped(path)))
		at->addr = SHMDI_FIXED(entry->heap_addr[at->heap]) + at->offset;
	else
		return shmdi_path_status(path);
	return SHMD_DEV_OK;
}

/* ---- at hand ------------------------------------------------------------------------------------------------------------------ */

/*
 * Whether the bytes are in the near heap's part at hand; their offset in it. Sizes are below 2^63, so each of these numbers has the highest bit
 * where something is out of range: one look at a bit takes a GPU's single thread less time than a row of comparisons of 64 bits. No bytes are
 * nowhere.
 */
SHMDI_FN int shmdi_near_has(const struct shmd_dev_ctx *ctx, const void *ptr, uint64_t bytes, uint64_t *ret_offset)
{
	uint64_t offset = (uint64_t)(uintptr_t)ptr - SHMDI_CTX(ctx->near.own_addr), room = SHMDI_CTX(ctx->near.used_bytes) - offset;

	*ret_offset = offset;
	return (int32_t)((offset | (bytes - 1) | room | (room - bytes)) >> 32) >= 0;
}

/* Offset 0 of the near heap at a PE of the context. An address below 4 GiB is taken for none: half of it says so. */
SHMDI_FN int shmdi_near_base(const struct shmd_dev_ctx *ctx, uint32_t pe, uint64_t *ret_base)
{
	*ret_base = SHMDI_CTX(ctx->near.peer_addr[pe & (SHMD_DEV_NEAR_PES - 1)]);
	return (uint32_t)(*ret_base >> 32) != 0 && pe < SHMD_DEV_NEAR_PES;
}

/*
 * Whether the copy of ptr at a PE of the context is at hand, and its address; else look in the world. Threads of a scope may get different
 * answers while the part at hand grows (shmdi_near_agree()).
 */
SHMDI_FN int shmdi_near_find(const struct shmd_dev_ctx *ctx, const void *ptr, uint64_t bytes, uint32_t pe, uint64_t *ret_addr)
{
	uint64_t base, offset;
	int has_base = shmdi_near_base(ctx, pe, &base), has_bytes = shmdi_near_has(ctx, ptr, bytes, &offset);

	*ret_addr = base + offset;
	return has_base && has_bytes;
}

/* The same for a word, which is refused here if it is not aligned. Heaps begin and end at multiples of a word. */
SHMDI_FN int shmdi_near_word(const struct shmd_dev_ctx *ctx, const void *word, uint32_t bytes, uint32_t pe, uint64_t *ret_addr)
{
	uint64_t offset = (uint64_t)(uintptr_t)word - SHMDI_CTX(ctx->near.own_addr), base;
	int has_base = shmdi_near_base(ctx, pe, &base);
	uint32_t high = (uint32_t)((offset | (SHMDI_CTX(ctx->near.used_bytes) - 1 - offset)) >> 32);

	*ret_addr = base + offset;
	return has_base && ((high >> 31) | ((uint32_t)offset & (bytes - 1))) == 0;
}

/* The same for atomics and signals. */
SHMDI_FN int shmdi_near_amo(const struct shmd_dev_ctx *ctx, const void *word, uint32_t bytes, uint32_t pe, uint64_t *ret_addr)
{
	return shmdi_near_word(ctx, word, bytes, pe, ret_addr) & (SHMDI_CTX(ctx->near.flags) & SHMD_NEAR_ATOMICS);
}

/*
 * PEs that have ended, where something is near. The memory of a PE that has ended stays mapped, so callers look beside the operation, and
 * see to what they found behind it: so no operation waits for the look. It may be from a cache, which a wait or a quiet empties.
 */
SHMDI_FN uint32_t shmdi_near_gone(const struct shmd_dev_ctx *ctx)
{
	const uint32_t *n_gone = (const uint32_t *)(uintptr_t)SHMDI_CTX(ctx->near.gone_addr);

#if SHMDI_CUDA
	return *n_gone;
#else
	return __atomic_load_n(n_gone, __ATOMIC_ACQUIRE);
#endif
}

/* Some PE has ended: whether it is this one. All threads of the scope. */
SHMDI_SLOW int shmdi_near_look(const struct shmd_dev_ctx *ctx, uint32_t pe, int scope)
{
	const struct shmd_dev_world *world = shmdi_world_of(ctx);
	int rc = SHMD_DEV_OK;

	if (shmdi_scope_enter(scope) && shmdi_pe_number(ctx, world, pe, &pe))
		rc = shmdi_path_status(shmdi_path_load(shmdi_pe_entry(world, pe), SHMDI_CTX(ctx->near.heap)));
	return shmdi_scope_leave(scope, rc);
}

/* The status of an operation in place, for all threads of the scope. */
SHMDI_FN int shmdi_near_status(const struct shmd_dev_ctx *ctx, uint32_t pe, int scope, uint32_t gone)
{
	return SHMDI_LIKELY(!shmdi_scope_any(scope, gone != 0)) ? (int)SHMD_DEV_OK : shmdi_near_look(ctx, pe, scope);
}

/* ---- in the world -------------------------------------------------------------------------------------------------------------- */

/* One thread's look. */
SHMDI_FN int shmdi_pe_find_one(const struct shmd_dev_ctx *ctx, const void *ptr, uint64_t bytes, uint32_t pe,
			       struct shmdi_pe_at *at)
{
	const struct shmd_dev_world *world = shmdi_world_of(ctx);

	at->addr = 0;
	if (SHMDI_UNLIKELY(!shmdi_pe_number(ctx, world, pe, &at->pe)))
		return SHMD_DEV_INVALID;
	at->heap = shmdi_heap_find(world, ptr, bytes, &at->offset);
	if (SHMDI_UNLIKELY(at->heap == SHMD_DEV_HEAPS))
		return SHMD_DEV_INVALID;
	return shmdi_pe_reach(world, at);
}

/* The leader's answer to all threads of the scope: a path may change between the looks of two threads, and they must not part ways. */
SHMDI_SLOW int shmdi_pe_agree(int scope, int rc, struct shmdi_pe_at *at)
{
	rc = shmdi_scope_leave(scope, rc);
	at->addr = shmdi_scope_share(scope, at->addr);
	return rc;
}

/* The copy of ptr at a PE of the context. All threads of the scope get the same answer, after a barrier of it. */
SHMDI_FN int shmdi_pe_find(const struct shmd_dev_ctx *ctx, const void *ptr, uint64_t bytes, uint32_t pe, int scope,
			   struct shmdi_pe_at *at)
{
	int rc = shmdi_pe_find_one(ctx, ptr, bytes, pe, at);

	/* Where the copy is mapped its address never changes. */
	if (scope == SHMD_DEV_THREAD || SHMDI_LIKELY(shmdi_scope_all(scope, !rc && at->addr)))
		return rc;
	return shmdi_pe_agree(scope, rc, at);
}

/* The outcome where shmdi_pe_find() failed: without bytes any address will do. */
SHMDI_SLOW int shmdi_pe_unless_empty(const struct shmd_dev_ctx *ctx, uint64_t bytes, uint32_t pe, int rc)
{
	uint32_t of_world;

	return !bytes && rc == SHMD_DEV_INVALID && shmdi_pe_number(ctx, shmdi_world_of(ctx), pe, &of_world) ? (int)SHMD_DEV_OK : rc;
}

/* Whether a queue and stores in place may lead to one PE, which have no order with each other. */
SHMDI_FN int shmdi_fence_waits(const struct shmd_dev_ctx *ctx)
{
	return SHMDI_UNLIKELY(SHMDI_FIXED(shmdi_world_of(ctx)->flags) & (SHMD_WORLD_ATOMICS_BY_QUEUE | SHMD_WORLD_FENCE_WAITS));
}

/* Whether a path by loads and stores serves atomics and signals too. */
SHMDI_FN int shmdi_atomics_in_place(const struct shmd_dev_ctx *ctx)
{
	return SHMDI_LIKELY(!(SHMDI_FIXED(shmdi_world_of(ctx)->flags) & SHMD_WORLD_ATOMICS_BY_QUEUE));
}

#endif
