/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cutting chunks into blocks and merging them again; heap-private.h has the invariants. Nothing here fails: heap_reserve()
 * was called.
 */
#include "libclient/runtime/heap/heap-private.h"

#include "proto/base/assert.h"

/* Holes that are tried one by one before one is taken that is large enough for any alignment. */
#define TRIES 8u

uint64_t heap_align_of(const struct heap_request *request)
{
	bool has_lines = request->size >= HEAP_LINE || (request->hints & HEAP_HINTS_OWN_LINES);
	uint64_t least = has_lines ? HEAP_LINE : HEAP_GRAIN, align = request->align;

	return align > least ? align : least;
}

static uint64_t round_up(uint64_t value, uint64_t align)
{
	return (value + align - 1) & ~(align - 1);
}

uint64_t heap_body_bytes(const struct heap *heap, uint64_t size, uint64_t align)
{
	/* bounded: heap_request_check() */
	return round_up(size + heap->attr.zone_bytes, align >= HEAP_LINE ? HEAP_LINE : HEAP_GRAIN);
}

struct heap_place heap_place_at(const struct heap *heap, uint64_t start, uint64_t size, uint64_t align)
{
	const uint64_t zone = heap->attr.zone_bytes;
	uint64_t offset = round_up(start + zone, align);

	return (struct heap_place){
		.start = offset - zone,
		.bytes = zone + heap_body_bytes(heap, size, align),
		.offset = offset,
	};
}

/* ---- slots and trees ----------------------------------------------------------------------------------------------------- */

static uint32_t slot_take(struct heap *heap)
{
	uint32_t slot = heap->unused;

	if (slot) {
		heap->unused = heap->blocks[slot].next;
	} else {
		assert_bug(heap->n_slots < heap->room_slots);
		slot = heap->n_slots++;
	}
	heap->blocks[slot] = (struct heap_block){0};
	return slot;
}

static void slot_put(struct heap *heap, uint32_t slot)
{
	heap->blocks[slot] = (struct heap_block){.next = heap->unused};
	heap->unused = slot;
}

static void hole_insert(struct heap *heap, uint32_t slot)
{
	const struct heap_block *block = &heap->blocks[slot];

	heap->nodes[slot] = (struct heap_node){.key = block->bytes, .tie = block->start};
	heap_tree_insert(heap->nodes, &heap->holes, slot);
	heap->stats.n_holes++;
	heap->stats.hole_bytes += block->bytes;
}

static void hole_remove(struct heap *heap, uint32_t slot)
{
	heap_tree_remove(heap->nodes, &heap->holes, slot);
	heap->stats.n_holes--;
	heap->stats.hole_bytes -= heap->blocks[slot].bytes;
}

static void link_behind(struct heap *heap, uint32_t slot, uint32_t prev, uint32_t next)
{
	heap->blocks[slot].prev = prev;
	heap->blocks[slot].next = next;
	if (prev)
		heap->blocks[prev].next = slot;
	if (next)
		heap->blocks[next].prev = slot;
}

/* The block behind `slot`, which is in no tree, becomes part of it. */
static void join_next(struct heap *heap, uint32_t slot)
{
	struct heap_block *block = &heap->blocks[slot];
	uint32_t gone = block->next;

	block->bytes += heap->blocks[gone].bytes; /* bounded: inside a chunk */
	block->next = heap->blocks[gone].next;
	if (block->next)
		heap->blocks[block->next].prev = slot;
	slot_put(heap, gone);
}

static bool is_hole(const struct heap *heap, uint32_t slot)
{
	return slot && !heap->blocks[slot].is_used;
}

static void absorb_next_hole(struct heap *heap, uint32_t slot)
{
	uint32_t next = heap->blocks[slot].next;

	if (!is_hole(heap, next))
		return;
	hole_remove(heap, next);
	join_next(heap, slot);
}

uint32_t heap_hole_new(struct heap *heap, uint64_t start, uint64_t bytes, uint32_t prev, uint32_t next)
{
	uint32_t slot = slot_take(heap);

	heap->blocks[slot].start = start;
	heap->blocks[slot].bytes = bytes;
	link_behind(heap, slot, prev, next);
	absorb_next_hole(heap, slot);
	hole_insert(heap, slot);
	return slot;
}

/* ---- holes --------------------------------------------------------------------------------------------------------------- */

/* bounded: chunks end far below 2^64 (HEAP_MAX_RANGE), as sizes and alignments do */
static bool fits(const struct heap *heap, uint32_t slot, uint64_t size, uint64_t align, struct heap_place *ret_place)
{
	const struct heap_block *hole = &heap->blocks[slot];
	struct heap_place place = heap_place_at(heap, hole->start, size, align);

	if (place.start + place.bytes > heap_block_end(hole))
		return false;
	*ret_place = place;
	return true;
}

static uint32_t next_hole(const struct heap *heap, uint32_t slot)
{
	return heap_tree_first(heap->nodes, heap->holes, heap->nodes[slot].key, heap->nodes[slot].tie + 1);
}

/*
 * The smallest hole that fits; of equal ones the lowest. A large alignment can make many holes unfit that are large enough,
 * so after a few of them the smallest is taken that fits wherever it starts. Only if there is none all are tried, before the
 * heap grows.
 */
uint32_t heap_hole_find(const struct heap *heap, uint64_t size, uint64_t align, struct heap_place *ret_place)
{
	uint64_t least = heap->attr.zone_bytes + heap_body_bytes(heap, size, align);
	uint32_t slot = heap_tree_first(heap->nodes, heap->holes, least, 0);
	uint32_t any;

	for (unsigned int i = 0; slot && i < TRIES; i++) {
		if (fits(heap, slot, size, align, ret_place))
			return slot;
		slot = next_hole(heap, slot);
	}
	any = heap_tree_first(heap->nodes, heap->holes, least + align - HEAP_GRAIN, 0);
	if (any && fits(heap, any, size, align, ret_place))
		return any;
	while (slot && !fits(heap, slot, size, align, ret_place))
		slot = next_hole(heap, slot);
	return slot;
}

void heap_hole_use(struct heap *heap, uint32_t slot, const struct heap_place *place)
{
	struct heap_block *block = &heap->blocks[slot];
	uint64_t before = place->start - block->start, rest = heap_block_end(block) - place->start;

	hole_remove(heap, slot);
	block->is_used = true;
	block->start = place->start;
	block->bytes = rest;
	if (before) {
		/* It becomes the first block of the chunk if `slot` was. */
		uint32_t hole = heap_hole_new(heap, place->start - before, before, block->prev, slot);

		for (uint32_t i = 0; !heap->blocks[hole].prev && i < heap->n_chunks; i++)
			if (heap->chunks[i].first == slot)
				heap->chunks[i].first = hole;
	}
	heap_block_resize(heap, slot, place->bytes);
	block->offset = place->offset;
	heap->nodes[slot] = (struct heap_node){.key = place->offset};
	heap_tree_insert(heap->nodes, &heap->used, slot);
}

/* ---- used blocks --------------------------------------------------------------------------------------------------------- */

void heap_block_free(struct heap *heap, uint32_t slot)
{
	struct heap_block *block = &heap->blocks[slot];
	uint32_t prev = block->prev;

	heap_tree_remove(heap->nodes, &heap->used, slot);
	*block = (struct heap_block){.start = block->start, .bytes = block->bytes, .prev = prev, .next = block->next};
	absorb_next_hole(heap, slot);
	if (is_hole(heap, prev)) {
		hole_remove(heap, prev);
		join_next(heap, prev);
		slot = prev;
	}
	hole_insert(heap, slot);
}

/* bounded: both blocks lie in one chunk */
bool heap_block_resize(struct heap *heap, uint32_t slot, uint64_t bytes)
{
	struct heap_block *block = &heap->blocks[slot];
	uint64_t most = block->bytes, start = block->start;

	if (is_hole(heap, block->next))
		most += heap->blocks[block->next].bytes;
	if (bytes > most)
		return false;
	absorb_next_hole(heap, slot);
	block->bytes = bytes;
	if (most > bytes)
		heap_hole_new(heap, start + bytes, most - bytes, slot, block->next);
	return true;
}
