/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways of a context to PEs by queues, the keys of memory on them, and all queues of a context one after the other.
 *
 * Functions here act for one caller: the leader of a scope.
 */
#include <shmd/dev/pe.h>

#ifndef SHMDI_PE_WAY_H
#define SHMDI_PE_WAY_H

#include <shmd/dev/impl/pe-at.h>

/* The queue to one PE. */
struct shmdi_pe_way {
	struct shmd_dev_qp *qp;
	const struct shmd_dev_peer *peer;
	uint32_t rail, peer_rail;
};

SHMDI_FN struct shmdi_pe_way shmdi_way_look_in(uint64_t ways_addr, uint32_t pe)
{
	const struct shmd_dev_pe_way *ways = (const struct shmd_dev_pe_way *)(uintptr_t)ways_addr;
	const struct shmd_dev_state *state;
	struct shmdi_pe_way way = {0, 0, 0, 0};
	struct shmd_dev_way hot;

	if (SHMDI_UNLIKELY(!ways))
		return way;
	way.qp = (struct shmd_dev_qp *)(uintptr_t)SHMDI_FIXED(ways[pe].qp_addr);
	way.peer = (const struct shmd_dev_peer *)(uintptr_t)SHMDI_FIXED(ways[pe].peer_addr);
	way.rail = SHMDI_FIXED(ways[pe].rail);
	way.peer_rail = SHMDI_FIXED(ways[pe].peer_rail);
	state = (const struct shmd_dev_state *)(uintptr_t)SHMDI_FIXED(ways[pe].state_addr);
	if (!state)
		return way;
	hot = shmd_dev_way_to(state, way.qp, SHMDI_FIXED(ways[pe].peer_index));
	way.qp = hot.qp;
	way.peer = hot.peer;
	return way;
}

/* qp is NULL where no queue leads to the PE. */
SHMDI_FN struct shmdi_pe_way shmdi_way_look(const struct shmd_dev_ctx *ctx, uint32_t pe)
{
	return shmdi_way_look_in(SHMDI_CTX(ctx->ways_addr), pe);
}

/* The same for atomics and signals. */
SHMDI_FN struct shmdi_pe_way shmdi_amo_way_look(const struct shmd_dev_ctx *ctx, uint32_t pe)
{
	uint64_t addr = SHMDI_CTX(ctx->amo_ways_addr);

	return shmdi_way_look_in(SHMDI_LIKELY(!addr) ? SHMDI_CTX(ctx->ways_addr) : addr, pe);
}

/* For a post, which counts where busy peers get a QP of their own. */
SHMDI_FN int shmdi_way_take(const struct shmd_dev_ctx *ctx, uint32_t pe, struct shmdi_pe_way *ret_way)
{
	const struct shmd_dev_pe_way *ways = (const struct shmd_dev_pe_way *)(uintptr_t)SHMDI_CTX(ctx->ways_addr);

	*ret_way = shmdi_way_look(ctx, pe);
	if (SHMDI_UNLIKELY(!ret_way->qp))
		return SHMD_DEV_NO_PATH;
	if (SHMDI_FIXED(ways[pe].state_addr))
		shmd_dev_way_count((const struct shmd_dev_state *)(uintptr_t)SHMDI_FIXED(ways[pe].state_addr),
				   SHMDI_FIXED(ways[pe].peer_index), 1);
	return SHMD_DEV_OK;
}

SHMDI_FN int shmdi_amo_way_take(const struct shmd_dev_ctx *ctx, uint32_t pe, struct shmdi_pe_way *ret_way)
{
	if (SHMDI_LIKELY(!SHMDI_CTX(ctx->amo_ways_addr)))
		return shmdi_way_take(ctx, pe, ret_way);
	*ret_way = shmdi_amo_way_look(ctx, pe);
	return ret_way->qp ? SHMD_DEV_OK : SHMD_DEV_NO_PATH;
}

/* The mode of functions on this queue. */
SHMDI_FN struct shmd_dev_mode shmdi_way_mode(const struct shmdi_pe_way *way, const struct shmd_dev_mode *mode)
{
	struct shmd_dev_mode of = shmd_dev_mode_of(way->qp, mode->timeout_nsec);

	of.peer = way->peer;
	of.flags = mode->flags;
	return of;
}

/* ---- keys ------------------------------------------------------------------------------------------------------------------- */

/* The chunk of an offset in use, and how many bytes of it follow. */
SHMDI_FN uint32_t shmdi_chunk_of(const struct shmd_dev_heap *heap, uint64_t offset, uint64_t *ret_bytes)
{
	const uint8_t *index = (const uint8_t *)(uintptr_t)SHMDI_FIXED(heap->chunk_index_addr);
	const uint64_t *ends = (const uint64_t *)(uintptr_t)SHMDI_FIXED(heap->chunk_ends_addr);
	/* Written before used_bytes, which was loaded with acquire. */
	uint32_t chunk = index[offset >> SHMDI_FIXED(heap->log2_granule)];

	*ret_bytes = ends[chunk] - offset;
	return chunk;
}

/* Memory of a PE as its requests want it, and how many bytes the key is good for. */
SHMDI_FN struct shmd_dev_addr shmdi_remote_of(const struct shmd_dev_world *world, const struct shmdi_pe_at *at,
					      uint32_t peer_rail, uint64_t *ret_bytes)
{
	const struct shmd_dev_heap *heap = &world->heap[at->heap];
	const shmd_be32 *keys = (const shmd_be32 *)(uintptr_t)SHMDI_FIXED(world->rkeys_addr[peer_rail]);
	uint64_t chunk = at->heap * SHMD_DEV_HEAP_CHUNKS + shmdi_chunk_of(heap, at->offset, ret_bytes);

	return shmd_dev_addr_of(SHMDI_FIXED(heap->iova) + at->offset, keys[chunk * SHMDI_FIXED(world->n_pes) + at->pe]);
}

/* The registered buffer that holds ptr, or NULL. */
SHMDI_FN const struct shmd_dev_buffer *shmdi_buffer_find(const struct shmd_dev_world *world, uint64_t ptr)
{
	const struct shmd_dev_buffers *table =
		(const struct shmd_dev_buffers *)(uintptr_t)shmdi_pes_load(&world->buffers_addr, 8);
	const struct shmd_dev_buffer *buffers = (const struct shmd_dev_buffer *)(table + 1);
	uint64_t low = 0, high = table ? table->n : 0, mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (ptr >= buffers[mid].end_addr)
			low = mid + 1;
		else if (ptr < buffers[mid].addr)
			high = mid;
		else
			return &buffers[mid];
	}
	return 0;
}

/* Memory of the caller: 1, its name for the NIC and how many bytes the key is good for; 0 where it is not registered. */
SHMDI_FN int shmdi_local_of(const struct shmd_dev_world *world, const void *ptr, uint32_t rail, struct shmd_dev_addr *ret_addr,
			    uint64_t *ret_bytes)
{
	const shmd_be32 *keys = (const shmd_be32 *)(uintptr_t)SHMDI_FIXED(world->lkeys_addr[rail]);
	uint64_t addr = (uint64_t)(uintptr_t)ptr, offset;
	uint32_t h = shmdi_heap_find(world, ptr, 1, &offset);
	const struct shmd_dev_buffer *buffer;

	if (SHMDI_LIKELY(h < SHMD_DEV_HEAPS)) {
		uint32_t chunk = shmdi_chunk_of(&world->heap[h], offset, ret_bytes);

		*ret_addr = shmd_dev_addr_of(SHMDI_FIXED(world->heap[h].iova) + offset, keys[h * SHMD_DEV_HEAP_CHUNKS + chunk]);
		return 1;
	}
	buffer = shmdi_buffer_find(world, addr);
	if (!buffer)
		return 0;
	*ret_addr = shmd_dev_addr_of(addr, buffer->lkey_be[rail]);
	*ret_bytes = buffer->end_addr - addr;
	return 1;
}

/* ---- all queues of a context ------------------------------------------------------------------------------------------------ */

struct shmdi_ctx_qps {
	uint32_t qp; /* next of the context's own */
	uint32_t state, hot; /* next of the hot ones */
};

/* The next QP; NULL behind the last. Starts with zeros. */
SHMDI_FN struct shmd_dev_qp *shmdi_ctx_next_qp(const struct shmd_dev_ctx *ctx, struct shmdi_ctx_qps *at)
{
	const uint64_t *qps = (const uint64_t *)(uintptr_t)SHMDI_CTX(ctx->qps_addr);
	const uint64_t *states = (const uint64_t *)(uintptr_t)SHMDI_CTX(ctx->states_addr);

	if (at->qp < SHMDI_CTX(ctx->n_qps))
		return (struct shmd_dev_qp *)(uintptr_t)SHMDI_FIXED(qps[at->qp++]);
	for (; at->state < SHMDI_CTX(ctx->n_states); at->state++, at->hot = 0) {
		const struct shmd_dev_state *state =
			(const struct shmd_dev_state *)(uintptr_t)SHMDI_FIXED(states[at->state]);
		const uint64_t *hot = (const uint64_t *)(uintptr_t)SHMDI_FIXED(state->hot_qps_addr);

		if (at->hot < SHMDI_FIXED(state->n_hot_qps))
			return (struct shmd_dev_qp *)(uintptr_t)SHMDI_FIXED(hot[at->hot++]);
	}
	return 0;
}

SHMDI_FN int shmdi_ctx_has_queues(const struct shmd_dev_ctx *ctx)
{
	return (SHMDI_CTX(ctx->n_qps) | SHMDI_CTX(ctx->n_states)) != 0;
}

/* Announce what was posted with SHMD_DEV_NO_DOORBELL, before a wait for peers that may be waiting for it. */
SHMDI_SLOW void shmdi_ctx_kick(struct shmd_dev_ctx *ctx)
{
	struct shmdi_ctx_qps at = {0, 0, 0};
	struct shmd_dev_qp *qp;

	while ((qp = shmdi_ctx_next_qp(ctx, &at)) != 0)
		(void)shmdi_sq_kick(qp, SHMDI_FIXED(qp->sharing));
}

#endif
