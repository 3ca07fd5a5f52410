/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to the allocator, and checks of what callers pass to it. Nothing here changes a heap. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include <shmemclient.h>

#include "libclient/runtime/heap/heap-private.h"
#include "proto/base/show.h"

const char *heap_info_text(const struct heap_info *info, char text[HEAP_TEXT_BYTES])
{
	char label[SHOW_BUF_BYTES];

	snprintf(text, HEAP_TEXT_BYTES, "allocation %" PRIu64 " (%" PRIu64 " bytes at offset 0x%" PRIx64 "%s%s)", info->number,
		 info->size, info->offset, info->label ? ", " : "", info->label ? show_text(info->label, label) : "");
	return text;
}

const char *heap_block_text(const struct heap_block *block, char text[HEAP_TEXT_BYTES])
{
	return heap_info_text(&(struct heap_info){.number = block->number, .size = block->size, .offset = block->offset,
						  .label = block->label}, text);
}

/* ---- checks -------------------------------------------------------------------------------------------------------------- */

int heap_request_check(const struct heap *heap, const struct heap_request *request, uint64_t *ret_align)
{
	if (request->align & (request->align - 1) || request->align > HEAP_MAX_ALIGN)
		return shmd_error_set(-EINVAL, "the alignment %" PRIu64 " is not a power of two up to %" PRIu64,
				      request->align, HEAP_MAX_ALIGN);
	if (request->size > heap->attr.range_bytes)
		return shmd_error_set(-ENOMEM, "%" PRIu64 " bytes are more than the %" PRIu64 " that the heap can ever have",
				      request->size,
				      heap->attr.range_bytes);
	*ret_align = heap_align_of(request);
	return 0;
}

static uint64_t usable_bytes(const struct heap *heap, const struct heap_block *block)
{
	return heap->attr.zone_bytes ? block->size : heap_block_end(block) - block->offset;
}

/* The allocation around a byte, or at it; 0: none. */
static uint32_t slot_around(const struct heap *heap, uint64_t offset)
{
	uint32_t slot = heap_tree_last(heap->nodes, heap->used, offset);

	if (!slot || offset - heap->blocks[slot].offset >= usable_bytes(heap, &heap->blocks[slot]))
		return 0;
	return slot;
}

int heap_slot_at(const struct heap *heap, uint64_t offset, uint32_t *ret_slot)
{
	uint32_t slot = slot_around(heap, offset);
	char text[HEAP_TEXT_BYTES];

	if (!slot)
		return shmd_error_set(-EINVAL, "no allocation starts at offset 0x%" PRIx64 " of the heap", offset);
	if (heap->blocks[slot].offset != offset)
		return shmd_error_set(-EINVAL, "offset 0x%" PRIx64 " is not the start of an allocation; it lies in %s", offset,
				      heap_block_text(&heap->blocks[slot], text));
	*ret_slot = slot;
	return 0;
}

int heap_live_slot(const struct heap *heap, uint64_t offset, uint32_t *ret_slot)
{
	char text[HEAP_TEXT_BYTES];
	uint32_t slot = 0;
	int r = heap_slot_at(heap, offset, &slot);

	if (r < 0)
		return r;
	if (heap->blocks[slot].is_marked)
		return shmd_error_set(-EINVAL, "this PE has freed %s already", heap_block_text(&heap->blocks[slot], text));
	*ret_slot = slot;
	return 0;
}

int heap_check_live(const struct heap *heap, uint64_t offset)
{
	uint32_t slot = 0;

	return heap_live_slot(heap, offset, &slot);
}

int heap_chunk_needed(const struct heap *heap, const struct heap_request *request, uint64_t offset, uint64_t *ret_bytes)
{
	struct heap_request wanted = *request;
	struct heap_place place;
	uint64_t align = 0, pad;
	uint32_t slot = 0;
	int r = 0;

	if (offset != HEAP_NONE) {
		r = heap_slot_at(heap, offset, &slot);
		wanted.align = r < 0 ? 0 : heap->blocks[slot].align;
	}
	if (r >= 0)
		r = heap_request_check(heap, &wanted, &align);
	if (r < 0)
		return r;
	/* bounded: alignments, sizes and zones have limits far below 2^64 */
	place = heap_place_at(heap, 0, wanted.size, align);
	pad = align > HEAP_CHUNK_ALIGN ? align : place.start;
	*ret_bytes = (pad + place.bytes + HEAP_CHUNK_ALIGN - 1) & ~(HEAP_CHUNK_ALIGN - 1);
	return 0;
}

/* ---- what is there ------------------------------------------------------------------------------------------------------- */

static struct heap_info info_of(const struct heap *heap, uint32_t slot)
{
	const struct heap_block *block = &heap->blocks[slot];

	return (struct heap_info){
		.offset = block->is_used ? block->offset : block->start,
		.size = block->is_used ? block->size : block->bytes,
		.usable = block->is_used ? usable_bytes(heap, block) : block->bytes,
		.align = block->align,
		.hints = block->hints,
		.number = block->number,
		.label = block->label,
		.block_start = block->start,
		.block_bytes = block->bytes,
		.slot = slot,
		.n_freed = block->n_freed,
		.is_freed_here = block->is_marked,
		.is_hole = !block->is_used,
	};
}

int heap_find(const struct heap *heap, uint64_t offset, struct heap_info *ret_info)
{
	uint32_t slot = slot_around(heap, offset);

	if (!slot)
		return -ENOENT;
	*ret_info = info_of(heap, slot);
	return 0;
}

uint64_t heap_end(const struct heap *heap)
{
	const struct heap_chunk *last = heap->n_chunks ? &heap->chunks[heap->n_chunks - 1] : NULL;

	return last ? last->offset + last->bytes : 0; /* bounded: in the range */
}

void heap_stats(const struct heap *heap, struct heap_stats *ret_stats)
{
	uint32_t largest = heap_tree_last(heap->nodes, heap->holes, UINT64_MAX);

	*ret_stats = heap->stats;
	ret_stats->largest_hole = largest ? heap->blocks[largest].bytes : 0;
}

bool heap_walk(const struct heap *heap, struct heap_walk *walk, struct heap_info *ret_info)
{
	uint32_t slot = walk->slot ? heap->blocks[walk->slot].next : 0;

	if (!slot) {
		if (walk->chunk == heap->n_chunks)
			return false;
		slot = heap->chunks[walk->chunk++].first;
	}
	walk->slot = slot;
	*ret_info = info_of(heap, slot);
	return true;
}
