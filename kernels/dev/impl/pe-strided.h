/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers in blocks, and several puts or gets at once: the bodies. Contracts are in pe.h, which includes this.
 */
#include <shmd/dev/pe.h>

#ifndef SHMDI_PE_STRIDED_H
#define SHMDI_PE_STRIDED_H

#include <shmd/dev/impl/pe-sync.h>

/* From the first byte of the first block to the last of the last; 0 if there are no bytes. Returns 0 on overflow. */
SHMDI_FN int shmdi_stride_span(const struct shmd_dev_stride *stride, uint64_t stride_bytes, uint64_t *ret_span)
{
	*ret_span = 0;
	if (!stride->n || !stride->block_bytes)
		return 1;
	*ret_span = UINT64_MAX;
	if (stride->n > 1 && stride_bytes > (UINT64_MAX - stride->block_bytes) / (stride->n - 1))
		return 0;
	*ret_span = (stride->n - 1) * stride_bytes + stride->block_bytes;
	return 1;
}

/* The blocks of a put or get by a queue: one doorbell, then one wait for all of them if it waits. */
SHMDI_APART int shmdi_queue_strided_one(struct shmd_dev_ctx *ctx, struct shmdi_pe_at at, uint8_t *local,
					const struct shmd_dev_stride *stride, int is_get, int waits)
{
	uint64_t far_stride = is_get ? stride->source_stride_bytes : stride->dest_stride_bytes;
	uint64_t near_stride = is_get ? stride->dest_stride_bytes : stride->source_stride_bytes, i;
	struct shmd_dev_mode mode = shmdi_ctx_mode(ctx);
	struct shmdi_pe_way way;
	int rc = SHMD_DEV_OK;

	for (i = 0; i < stride->n && !rc; i++) {
		struct shmdi_move move = shmdi_move_of(ctx, &mode, is_get, 0);

		move.mode.flags |= SHMD_DEV_NO_DOORBELL;
		rc = shmdi_move_one(&move, at, local, stride->block_bytes);
		at.offset += far_stride;
		local += near_stride;
	}
	way = shmdi_way_look(ctx, at.pe);
	/* Blocks before one that failed must not stay unannounced either. */
	if (way.qp && (rc || !waits))
		(void)shmdi_sq_kick(way.qp, SHMDI_FIXED(way.qp->sharing));
	else if (!rc)
		rc = shmd_dev_qp_quiet_as(way.qp, shmd_dev_mode_of(way.qp, mode.timeout_nsec));
	return shmdi_queue_status(ctx, &at, rc);
}

SHMDI_FN void shmdi_copy_strided(uint8_t *dest, const uint8_t *source, const struct shmd_dev_stride *stride)
{
	uint64_t i;

	for (i = 0; i < stride->n; i++)
		shmdi_copy(dest + i * stride->dest_stride_bytes, source + i * stride->source_stride_bytes, stride->block_bytes,
			   SHMD_DEV_THREAD);
}

SHMDI_FN int shmdi_put_strided(struct shmd_dev_ctx *ctx, void *dest, const void *source, const struct shmd_dev_stride *stride,
			       uint32_t pe, int waits)
{
	struct shmdi_pe_at at;
	uint64_t span;
	int rc = SHMD_DEV_INVALID;

	if (SHMDI_LIKELY(shmdi_stride_span(stride, stride->dest_stride_bytes, &span)))
		rc = shmdi_pe_find(ctx, dest, span, pe, SHMD_DEV_THREAD, &at);
	if (rc || !span)
		return shmdi_pe_unless_empty(ctx, span, pe, rc);
	if (!at.addr)
		return shmdi_queue_strided_one(ctx, at, (uint8_t *)(uintptr_t)source, stride, 0, waits);
	shmdi_copy_strided((uint8_t *)(uintptr_t)at.addr, (const uint8_t *)source, stride);
	return SHMD_DEV_OK;
}

SHMDI_FN int shmdi_get_strided(struct shmd_dev_ctx *ctx, void *dest, const void *source, const struct shmd_dev_stride *stride,
			       uint32_t pe, int waits)
{
	struct shmdi_pe_at at;
	uint64_t span;
	int rc = SHMD_DEV_INVALID;

	if (SHMDI_LIKELY(shmdi_stride_span(stride, stride->source_stride_bytes, &span)))
		rc = shmdi_pe_find(ctx, source, span, pe, SHMD_DEV_THREAD, &at);
	if (rc || !span)
		return shmdi_pe_unless_empty(ctx, span, pe, rc);
	if (!at.addr)
		return shmdi_queue_strided_one(ctx, at, (uint8_t *)dest, stride, 1, waits);
	shmdi_copy_strided((uint8_t *)dest, (const uint8_t *)(uintptr_t)at.addr, stride);
	return SHMD_DEV_OK;
}

SHMDI_FN int shmd_dev_put_strided(struct shmd_dev_ctx *ctx, void *dest, const void *source, const struct shmd_dev_stride *stride,
				  uint32_t pe)
{
	return shmdi_put_strided(ctx, dest, source, stride, pe, 1);
}

SHMDI_FN int shmd_dev_put_strided_nbi(struct shmd_dev_ctx *ctx, void *dest, const void *source,
				      const struct shmd_dev_stride *stride, uint32_t pe)
{
	return shmdi_put_strided(ctx, dest, source, stride, pe, 0);
}

SHMDI_FN int shmd_dev_get_strided(struct shmd_dev_ctx *ctx, void *dest, const void *source, const struct shmd_dev_stride *stride,
				  uint32_t pe)
{
	return shmdi_get_strided(ctx, dest, source, stride, pe, 1);
}

SHMDI_FN int shmd_dev_get_strided_nbi(struct shmd_dev_ctx *ctx, void *dest, const void *source,
				      const struct shmd_dev_stride *stride, uint32_t pe)
{
	return shmdi_get_strided(ctx, dest, source, stride, pe, 0);
}

/* ---- several at once ---------------------------------------------------------------------------------------------------------- */

/* The QP by which requests to a PE go; NULL where none does. */
SHMDI_FN struct shmd_dev_qp *shmdi_item_qp(const struct shmd_dev_ctx *ctx, uint32_t team_pe)
{
	uint32_t pe;

	return shmdi_pe_number(ctx, shmdi_world_of(ctx), team_pe, &pe) ? shmdi_way_look(ctx, pe).qp : 0;
}

/* Flags of an item before one to next_pe: the last request of each row of requests on one queue announces them. */
SHMDI_FN uint32_t shmdi_batch_flags(const struct shmd_dev_ctx *ctx, uint32_t pe, uint32_t next_pe, uint64_t next_bytes)
{
	int has_more = shmdi_ctx_has_queues(ctx) && next_bytes && shmdi_item_qp(ctx, pe) == shmdi_item_qp(ctx, next_pe);

	return has_more ? (uint32_t)SHMD_DEV_NO_DOORBELL : 0;
}

/* Requests posted before a failure must not stay unannounced. */
SHMDI_FN int shmdi_batch_end(struct shmd_dev_ctx *ctx, int rc)
{
	if (rc && shmdi_ctx_has_queues(ctx))
		shmdi_ctx_kick(ctx);
	return rc;
}

SHMDI_FN int shmd_dev_put_batch_nbi(struct shmd_dev_ctx *ctx, const struct shmd_dev_put_item *items, uint64_t n)
{
	struct shmd_dev_mode mode = shmdi_ctx_mode(ctx);
	int rc = SHMD_DEV_OK;
	uint64_t i;

	for (i = 0; i < n && !rc; i++) {
		mode.flags = i + 1 < n ? shmdi_batch_flags(ctx, items[i].pe, items[i + 1].pe, items[i + 1].bytes) : 0;
		rc = shmd_dev_put_nbi_as(ctx, items[i].dest, items[i].source, items[i].bytes, items[i].pe, mode);
	}
	return shmdi_batch_end(ctx, rc);
}

SHMDI_FN int shmd_dev_get_batch_nbi(struct shmd_dev_ctx *ctx, const struct shmd_dev_get_item *items, uint64_t n)
{
	struct shmd_dev_mode mode = shmdi_ctx_mode(ctx);
	int rc = SHMD_DEV_OK;
	uint64_t i;

	for (i = 0; i < n && !rc; i++) {
		mode.flags = i + 1 < n ? shmdi_batch_flags(ctx, items[i].pe, items[i + 1].pe, items[i + 1].bytes) : 0;
		rc = shmd_dev_get_nbi_as(ctx, items[i].dest, items[i].source, items[i].bytes, items[i].pe, mode);
	}
	return shmdi_batch_end(ctx, rc);
}

#endif
