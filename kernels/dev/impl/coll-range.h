/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The large way of reductions and scans: each PE has a range of the elements. It reads that range of every source, combines in the order
 * of the team, and writes the results to every dest. Nobody else touches the range meanwhile, so dest and source may be equal. All have
 * called (meet), each computes, all have written (meet again).
 *
 * A thread works through tiles. Elements behind a queue come into memory of the context first (pe-bounce.h), a piece at a time.
 */
#include <shmd/dev/coll.h>

#ifndef SHMDI_COLL_RANGE_H
#define SHMDI_COLL_RANGE_H

#include <shmd/dev/impl/coll-left.h>
#include <shmd/dev/impl/coll-ops.h>
#include <shmd/dev/impl/coll-team.h>
#include <shmd/dev/impl/pe-bounce.h>

/* Bytes that a thread combines at once; a multiple of every element. */
#if SHMDI_CUDA
#define SHMDI_COLL_TILE 32u
#else
#define SHMDI_COLL_TILE 4096u
#endif
/* Ranges of PEs begin at multiples of it, where elements allow. */
#define SHMDI_COLL_LINE 64u

enum shmdi_coll_kind {
	SHMDI_REDUCE = 0,
	SHMDI_REDUCE_SCATTER = 1,
	SHMDI_SCAN_INCLUSIVE = 2,
	SHMDI_SCAN_EXCLUSIVE = 3,
};

/* The calculation, and the range of this PE. */
struct shmdi_math {
	uint32_t type, op;
	int kind;
	uint64_t bytes; /* of source */
	uint64_t begin, end; /* the range of this PE */
	uint64_t to; /* at dest, in place of begin: reduce-scatter */
	/* Pieces of members behind queues, and how many of them there is room for. */
	uint64_t piece;
	uint32_t window;
};

SHMDI_FN int shmdi_math_is_scan(const struct shmdi_math *m)
{
	return m->kind >= SHMDI_SCAN_INCLUSIVE;
}

SHMDI_FN void shmdi_math_neutral(const struct shmdi_math *m, uint8_t *to, uint64_t bytes)
{
	uint32_t size = shmd_dev_type_bytes(m->type);
	uint8_t element[16];
	uint64_t i;

	shmdi_op_neutral(m->type, m->op, element);
	for (i = 0; i < bytes; i += size)
		__builtin_memcpy(to + i, element, size);
}

/* ---- memory for elements behind queues: one caller -------------------------------------------------------------------------------- */

SHMDI_FN uint8_t *shmdi_landing_at(const struct shmdi_coll *c, const struct shmdi_math *m, uint32_t i)
{
	return (uint8_t *)(uintptr_t)SHMDI_CTX(c->ctx->bounce_addr) + (i % m->window) * m->piece;
}

/* A piece between that memory and a member; complete after shmdi_coll_settle_one(). */
SHMDI_SLOW int shmdi_landing_move(const struct shmdi_coll *c, struct shmdi_pe_at at, const uint8_t *landing, uint64_t bytes, int is_get)
{
	uint64_t into = (uint64_t)(landing - (const uint8_t *)(uintptr_t)SHMDI_CTX(c->ctx->bounce_addr)), part, end;
	struct shmd_dev_addr near, remote;
	struct shmd_dev_mode mode;
	struct shmdi_pe_way way;
	int rc = shmdi_way_take(c->ctx, at.pe, &way);

	if (rc)
		return rc;
	mode = shmdi_way_mode(&way, &c->mode);
	while (bytes && !rc) {
		remote = shmdi_remote_of(shmdi_world_of(c->ctx), &at, way.peer_rail, &part);
		near = shmd_dev_addr_of(SHMDI_CTX(c->ctx->bounce_iova) + into, SHMDI_CTX(c->ctx->bounce_lkey_be[way.rail]));
		if (part > bytes)
			part = bytes;
		rc = shmdi_transfer_one(way.qp, shmdi_transfer_of(remote, near, part, is_get), &mode, &end);
		at.offset += part;
		into += part;
		bytes -= part;
	}
	return shmdi_queue_status(c->ctx, &at, rc);
}

/* The piece at `at` of members first..last - 1, as far as they are behind queues. */
SHMDI_SLOW int shmdi_landing_fetch_one(const struct shmdi_coll *c, const struct shmdi_math *m, uint64_t at, uint64_t bytes, uint32_t first,
				       uint32_t last)
{
	struct shmdi_pe_at from;
	uint32_t i;
	int rc = SHMD_DEV_OK;

	for (i = first; i < last && !rc; i++) {
		rc = shmdi_coll_reach(c, i, c->source.heap, c->source.offset + at, &from);
		if (!rc && !from.addr)
			rc = shmdi_landing_move(c, from, shmdi_landing_at(c, m, i), bytes, 1);
	}
	return rc ? rc : shmdi_coll_settle_one(c);
}

/* ---- a range ------------------------------------------------------------------------------------------------------------------------ */

/* A piece under way. */
struct shmdi_part {
	uint64_t at, bytes; /* of source */
	uint32_t first, last; /* members whose elements are there now */
};

/* A part of it that one thread combines. */
struct shmdi_tile {
	uint64_t at; /* of source */
	uint64_t into; /* the piece */
	uint64_t bytes;
};

/* Where member i's copy can be read or written; NULL: behind a queue. A path that ends meanwhile leaves the address as it is. */
SHMDI_FN uint8_t *shmdi_math_addr(const struct shmdi_coll *c, const struct shmdi_coll_side *side, uint32_t i, uint64_t at)
{
	const struct shmd_dev_pe *entry = shmdi_pe_entry(shmdi_world_of(c->ctx), shmdi_team_member(c->team, i));
	uint64_t base = SHMDI_FIXED(entry->heap_addr[side->heap]);

	return base ? (uint8_t *)(uintptr_t)(base + side->offset + at) : (uint8_t *)0;
}

SHMDI_FN const uint8_t *shmdi_math_source(const struct shmdi_coll *c, const struct shmdi_math *m, const struct shmdi_tile *tile, uint32_t i)
{
	const uint8_t *addr = shmdi_math_addr(c, &c->source, i, tile->at);

	return addr ? addr : shmdi_landing_at(c, m, i) + tile->into;
}

/* A result of a scan, for member i: into its dest, or over its elements in the landing, from where they go there. */
SHMDI_FN void shmdi_scan_give(const struct shmdi_coll *c, const struct shmdi_math *m, const struct shmdi_tile *tile, uint32_t i,
			      const uint8_t *result)
{
	uint8_t *addr = shmdi_math_addr(c, &c->dest, i, tile->at);

	shmdi_bytes_copy(addr ? addr : shmdi_landing_at(c, m, i) + tile->into, result, tile->bytes);
}

/* `sum` has what the members before this one gave, and `before` room for it: the result may take the place of the elements. */
SHMDI_FN void shmdi_scan_exclusive(const struct shmdi_coll *c, const struct shmdi_math *m, const struct shmdi_tile *tile, uint32_t i,
				   uint8_t *sum, uint8_t *before)
{
	const uint8_t *source = shmdi_math_source(c, m, tile, i);

	if (i) {
		shmdi_bytes_copy(before, sum, tile->bytes);
		shmdi_op(m->type, m->op, sum, sum, source, tile->bytes);
	} else {
		shmdi_math_neutral(m, before, tile->bytes);
		shmdi_bytes_copy(sum, source, tile->bytes);
	}
	shmdi_scan_give(c, m, tile, i, before);
}

SHMDI_FN void shmdi_scan_inclusive(const struct shmdi_coll *c, const struct shmdi_math *m, const struct shmdi_tile *tile, uint32_t i,
				   uint8_t *sum)
{
	const uint8_t *source = shmdi_math_source(c, m, tile, i);

	if (i)
		shmdi_op(m->type, m->op, sum, sum, source, tile->bytes);
	else
		shmdi_bytes_copy(sum, source, tile->bytes);
	shmdi_scan_give(c, m, tile, i, sum);
}

SHMDI_FN void shmdi_scan_tile(const struct shmdi_coll *c, const struct shmdi_math *m, const struct shmdi_part *part,
			      const struct shmdi_tile *tile, uint8_t *sum)
{
	SHMDI_ALIGNED16 uint64_t before[SHMDI_COLL_TILE / 8];
	uint32_t i;

	for (i = part->first; i < part->last; i++) {
		if (m->kind == SHMDI_SCAN_EXCLUSIVE)
			shmdi_scan_exclusive(c, m, tile, i, sum, (uint8_t *)before);
		else
			shmdi_scan_inclusive(c, m, tile, i, sum);
	}
}

/* The caller's own place of the result: nobody else reads or writes it now, and it may be that of the elements. */
SHMDI_FN uint8_t *shmdi_reduce_own(const struct shmdi_coll *c, const struct shmdi_math *m, const struct shmdi_tile *tile)
{
	return c->dest.own + (m->kind == SHMDI_REDUCE_SCATTER ? m->to + (tile->at - m->begin) : tile->at);
}

/* The result of a tile to all others, and to the caller unless it is there. Members behind queues get theirs from the caller's dest. */
SHMDI_FN void shmdi_reduce_give(const struct shmdi_coll *c, const struct shmdi_math *m, const struct shmdi_tile *tile, const uint8_t *result)
{
	uint8_t *own = shmdi_reduce_own(c, m, tile), *addr;
	uint32_t i;

	if (result != own)
		shmdi_bytes_copy(own, result, tile->bytes);
	for (i = 0; i + 1 < c->n && m->kind != SHMDI_REDUCE_SCATTER; i++) {
		addr = shmdi_math_addr(c, &c->dest, shmdi_coll_other(c, i), tile->at);
		if (addr)
			shmdi_bytes_copy(addr, result, tile->bytes);
	}
}

/* The last sum goes straight to the caller's dest, which saves a copy; on a GPU it stays in registers, from where it goes to all. */
SHMDI_FN void shmdi_reduce_tile(const struct shmdi_coll *c, const struct shmdi_math *m, const struct shmdi_part *part,
				const struct shmdi_tile *tile, uint8_t *sum)
{
	const uint8_t *left = part->first ? sum : shmdi_math_source(c, m, tile, 0);
	uint8_t *to = sum;
	uint32_t i;

	for (i = part->first ? part->first : 1; i < part->last; i++) {
#if !SHMDI_CUDA
		if (i + 1 == c->n)
			to = shmdi_reduce_own(c, m, tile);
#endif
		shmdi_op(m->type, m->op, to, left, shmdi_math_source(c, m, tile, i), tile->bytes);
		left = to;
	}
	if (part->last == c->n)
		shmdi_reduce_give(c, m, tile, to);
}

/* The threads of the scope take tiles in turn. `sum` outlives the call where a piece is one tile. */
SHMDI_APART void shmdi_math_tiles(const struct shmdi_coll *c, const struct shmdi_math *m, const struct shmdi_part *part, uint8_t *sum)
{
#if SHMDI_CUDA
	uint64_t at = (uint64_t)shmdi_scope_rank(c->mode.scope) * SHMDI_COLL_TILE;
	uint64_t step = (uint64_t)shmdi_scope_size(c->mode.scope) * SHMDI_COLL_TILE;
#else
	uint64_t at = 0, step = SHMDI_COLL_TILE;
#endif
	struct shmdi_tile tile;

	for (; at < part->bytes; at += step) {
		tile.at = part->at + at;
		tile.into = at;
		tile.bytes = part->bytes - at < SHMDI_COLL_TILE ? part->bytes - at : SHMDI_COLL_TILE;
		if (shmdi_math_is_scan(m))
			shmdi_scan_tile(c, m, part, &tile, sum);
		else
			shmdi_reduce_tile(c, m, part, &tile, sum);
	}
}

/* The results of a piece for members behind queues: posted, or for a scan complete. One caller. */
SHMDI_SLOW int shmdi_math_send_one(const struct shmdi_coll *c, const struct shmdi_math *m, const struct shmdi_part *part)
{
	struct shmdi_move move;
	struct shmdi_pe_at to;
	uint32_t i, first = shmdi_math_is_scan(m) ? part->first : 0;
	int rc = SHMD_DEV_OK;

	for (i = first; i < part->last && !rc && m->kind != SHMDI_REDUCE_SCATTER; i++) {
		rc = shmdi_coll_reach(c, i, c->dest.heap, c->dest.offset + part->at, &to);
		if (rc || to.addr)
			continue;
		move = shmdi_move_of(c->ctx, &c->mode, 0, 0);
		if (shmdi_math_is_scan(m))
			rc = shmdi_landing_move(c, to, shmdi_landing_at(c, m, i), part->bytes, 0);
		else if (part->last == c->n)
			rc = shmdi_move_one(&move, to, c->dest.own + part->at, part->bytes);
	}
	return !rc && shmdi_math_is_scan(m) ? shmdi_coll_settle_one(c) : rc;
}

/* A piece of the range by windows of members. All threads of the scope. */
SHMDI_APART int shmdi_math_piece(const struct shmdi_coll *c, const struct shmdi_math *m, struct shmdi_part *part)
{
	SHMDI_ALIGNED16 uint64_t sum[SHMDI_COLL_TILE / 8];
	int rc = SHMD_DEV_OK;

	for (part->first = 0; part->first < c->n && !rc; part->first = part->last) {
		part->last = c->n - part->first < m->window ? c->n : part->first + m->window;
		if (c->by_queue && shmdi_scope_enter(c->mode.scope))
			rc = shmdi_landing_fetch_one(c, m, part->at, part->bytes, part->first, part->last);
		rc = shmdi_scope_leave(c->mode.scope, rc);
		if (rc)
			return rc;
		shmdi_math_tiles(c, m, part, (uint8_t *)sum);
		if (c->by_queue && shmdi_scope_enter(c->mode.scope))
			rc = shmdi_math_send_one(c, m, part);
		rc = shmdi_scope_leave(c->mode.scope, rc);
	}
	return rc;
}

/* The same with the memory of the context, which other threads of the PE use as well. */
SHMDI_SLOW int shmdi_math_landed(const struct shmdi_coll *c, const struct shmdi_math *m, struct shmdi_part *part)
{
	int rc = SHMD_DEV_OK;

	if (shmdi_scope_enter(c->mode.scope))
		rc = shmdi_bounce_take(c->ctx, c->mode.timeout_nsec);
	rc = shmdi_scope_leave(c->mode.scope, rc);
	if (rc)
		return rc;
	rc = shmdi_math_piece(c, m, part);
	if (shmdi_scope_enter(c->mode.scope))
		shmdi_bounce_drop(c->ctx, rc);
	return rc;
}

/* The context has memory for a piece of two members. */
SHMDI_FN int shmdi_math_has_room(const struct shmdi_coll *c)
{
	uint64_t piece = SHMDI_COLL_TILE < SHMDI_COLL_LINE ? SHMDI_COLL_TILE : SHMDI_COLL_LINE;

	return !c->by_queue || SHMDI_CTX(c->ctx->bounce_bytes) >= 2 * piece;
}

/* Pieces and windows. */
SHMDI_FN void shmdi_math_cut(const struct shmdi_coll *c, struct shmdi_math *m)
{
	uint64_t room = SHMDI_CTX(c->ctx->bounce_bytes);

	m->piece = m->end - m->begin;
	m->window = c->n;
	if (!c->by_queue)
		return;
	m->piece = room / c->n / SHMDI_COLL_LINE * SHMDI_COLL_LINE;
	if (!m->piece) {
		m->piece = SHMDI_COLL_TILE < SHMDI_COLL_LINE ? SHMDI_COLL_TILE : SHMDI_COLL_LINE;
		m->window = (uint32_t)(room / m->piece);
	}
}

SHMDI_FN int shmdi_math_range(struct shmdi_coll *c, struct shmdi_math *m)
{
	struct shmdi_part part;
	int rc = SHMD_DEV_OK;

	shmdi_math_cut(c, m);
	for (part.at = m->begin; part.at < m->end && !rc; part.at += part.bytes) {
		part.bytes = m->end - part.at < m->piece ? m->end - part.at : m->piece;
		rc = c->by_queue ? shmdi_math_landed(c, m, &part) : shmdi_math_piece(c, m, &part);
	}
	return rc ? rc : shmdi_coll_settle(c);
}

/* All have called. */
SHMDI_FN int shmdi_math_large_rest(struct shmdi_coll *c, struct shmdi_math *m)
{
	int rc = shmdi_math_range(c, m);

	if (!rc)
		rc = shmdi_coll_meet_again(c);
	if (!rc && m->to)
		shmdi_copy(c->dest.own, c->dest.own + m->to, m->end - m->begin, c->mode.scope);
	return rc;
}

SHMDI_FN int shmdi_math_large(struct shmdi_coll *c, struct shmdi_math *m)
{
	int rc = shmdi_coll_meet(c);

	return rc ? rc : shmdi_math_large_rest(c, m);
}

#endif
