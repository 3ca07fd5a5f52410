/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collective and the local calls of the allocator; heap-alloc.h has the contract.
 *
 * PEs differ in marks of heap_release(), in the list of pending ones, in labels and in room for metadata. None of these
 * decides anything: collective calls look at blocks and at agreed frees alone.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <shmemclient.h>

#include "libclient/runtime/heap/heap-private.h"
#include "proto/base/cleanup.h"
#include "proto/base/overflow.h"

#define FIRST_ROOM 64u

DEFINE_CLEANUP(struct heap *, heap_free);

/* ---- life ---------------------------------------------------------------------------------------------------------------- */

int heap_new(const struct heap_attr *attr, struct heap **ret_heap)
{
	_cleanup_(heap_freep) struct heap *heap = NULL;
	int r;

	if (!attr->n_pes || attr->n_pes > HEAP_MAX_PES || attr->range_bytes > HEAP_MAX_RANGE)
		return shmd_error_set(-EINVAL, "a heap of %" PRIu64 " bytes for %u PEs is beyond the limits",
				      attr->range_bytes, attr->n_pes);
	if (attr->zone_bytes % HEAP_GRAIN || attr->zone_bytes > HEAP_MAX_ZONE)
		return shmd_error_set(-EINVAL, "guard zones of %" PRIu64 " bytes: not a multiple of 16 up to 1 MiB",
				      attr->zone_bytes);
	heap = calloc(1, sizeof(*heap));
	if (!heap)
		return shmd_error_set(-ENOMEM, "no memory for a heap's metadata");
	heap->attr = *attr;
	heap->n_words = (attr->n_pes + 63) / 64;
	heap->n_slots = 1;
	r = heap_reserve(heap);
	if (r < 0)
		return r;
	*ret_heap = take_ptr(heap);
	return 0;
}

void heap_free(struct heap *heap)
{
	if (!heap)
		return;
	free(heap->blocks);
	free(heap->nodes);
	free(heap->freed_by);
	free(heap);
}

/* The array itself grows before the count of its room does, so half of this leaves a heap that is whole. */
static bool grow(void *array, uint32_t room, size_t bytes_each)
{
	void *larger = reallocarray(*(void **)array, room, bytes_each);

	if (larger)
		*(void **)array = larger;
	return larger;
}

static bool reserve_slots(struct heap *heap)
{
	uint32_t room = heap->room_slots ? heap->room_slots : FIRST_ROOM / 2;

	if (heap->room_slots - heap->n_slots >= HEAP_SLOTS_PER_CALL && heap->room_slots)
		return true;
	if (mul_overflows(room, 2u, &room) || !grow(&heap->blocks, room, sizeof(*heap->blocks)) ||
	    !grow(&heap->nodes, room, sizeof(*heap->nodes)) ||
	    !grow(&heap->freed_by, room, heap->n_words * sizeof(*heap->freed_by)))
		return false;
	heap->room_slots = room;
	return true;
}

int heap_reserve(struct heap *heap)
{
	if (reserve_slots(heap))
		return 0;
	return shmd_error_set(-ENOMEM, "no memory for the metadata of %" PRIu64 " allocations", heap->stats.n_live + 1);
}

/* ---- chunks -------------------------------------------------------------------------------------------------------------- */

static int check_chunk(const struct heap *heap, uint64_t offset, uint64_t bytes)
{
	if (!bytes || offset % HEAP_CHUNK_ALIGN || bytes % HEAP_CHUNK_ALIGN ||
	    !range_fits(offset, bytes, heap->attr.range_bytes))
		return shmd_error_set(-EINVAL,
				      "a chunk of %" PRIu64 " bytes at offset 0x%" PRIx64 " does not lie in the heap's %" PRIu64
				      " bytes, or not on pages of 4096", bytes, offset, heap->attr.range_bytes);
	if (heap->n_chunks == HEAP_MAX_CHUNKS)
		return shmd_error_set(-ENOSPC,
				      "the heap has %u chunks already; a larger first chunk or larger steps make fewer",
				      HEAP_MAX_CHUNKS);
	for (uint32_t i = 0; i < heap->n_chunks; i++) {
		const struct heap_chunk *chunk = &heap->chunks[i];

		/* bounded: both lie in the range */
		if (offset < chunk->offset + chunk->bytes && chunk->offset < offset + bytes)
			return shmd_error_set(-EINVAL, "a chunk at offset 0x%" PRIx64 " overlaps the one at 0x%" PRIx64,
					      offset, chunk->offset);
	}
	return 0;
}

int heap_add_chunk(struct heap *heap, uint64_t offset, uint64_t bytes)
{
	uint32_t at = heap->n_chunks;
	int r = check_chunk(heap, offset, bytes);

	if (r < 0)
		return r;
	while (at && heap->chunks[at - 1].offset > offset)
		at--;
	memmove(&heap->chunks[at + 1], &heap->chunks[at], (heap->n_chunks - at) * sizeof(*heap->chunks));
	heap->chunks[at] = (struct heap_chunk){offset, bytes, heap_hole_new(heap, offset, bytes, 0, 0)};
	heap->n_chunks++;
	heap->stats.n_chunks++;
	heap->stats.chunk_bytes += bytes;
	return 0;
}

/* ---- allocations --------------------------------------------------------------------------------------------------------- */

static uint64_t *freed_by(struct heap *heap, uint32_t slot)
{
	return &heap->freed_by[(size_t)slot * heap->n_words];
}

static void count_allocation(struct heap *heap, struct heap_block *block, uint64_t size, const char *label)
{
	block->size = size;
	block->label = label;
	block->number = ++heap->stats.n_numbers;
	heap->stats.n_live++;
	heap->stats.live_bytes += size;
}

/* -ENOSPC without a sentence. The size is not 0 and at most the range. */
static int allocate(struct heap *heap, const struct heap_request *request, uint64_t align, uint32_t *ret_slot)
{
	struct heap_place place;
	uint32_t slot = heap_hole_find(heap, request->size, align, &place);

	if (!slot)
		return -ENOSPC;
	heap_hole_use(heap, slot, &place);
	heap->blocks[slot].align = align;
	heap->blocks[slot].hints = request->hints;
	memset(freed_by(heap, slot), 0, heap->n_words * sizeof(uint64_t));
	count_allocation(heap, &heap->blocks[slot], request->size, request->label);
	*ret_slot = slot;
	return 0;
}

int heap_malloc(struct heap *heap, const struct heap_request *request, uint64_t *ret_offset)
{
	uint64_t align;
	uint32_t slot = 0;
	int r = heap_request_check(heap, request, &align);

	if (r >= 0 && request->size)
		r = allocate(heap, request, align, &slot);
	if (r < 0)
		return r;
	*ret_offset = slot ? heap->blocks[slot].offset : HEAP_NONE;
	return 0;
}

/*
 * The caller freed it here, and the list has not been taken yet: all PEs have agreed meanwhile, so there is nothing to
 * publish.
 */
static void forget_pending(struct heap *heap, uint32_t slot)
{
	uint32_t *at = &heap->first_pending, last = 0;

	while (*at != slot) {
		last = *at;
		at = &heap->blocks[*at].next_pending;
	}
	*at = heap->blocks[slot].next_pending;
	if (heap->last_pending == slot)
		heap->last_pending = last;
	heap->stats.n_pending--;
}

static void drop(struct heap *heap, uint32_t slot)
{
	struct heap_block *block = &heap->blocks[slot];

	if (block->is_pending)
		forget_pending(heap, slot);
	heap->stats.n_live--;
	heap->stats.live_bytes -= block->size;
	heap_block_free(heap, slot);
}

/* No PE has freed it, as far as it is agreed: what one of them alone knows must not decide. */
static int slot_not_freed(const struct heap *heap, uint64_t offset, uint32_t *ret_slot)
{
	char text[HEAP_TEXT_BYTES];
	uint32_t slot;
	int r = heap_slot_at(heap, offset, &slot);

	if (r < 0)
		return r;
	if (heap->blocks[slot].n_freed)
		return shmd_error_set(-EINVAL, "%u of %u PEs have freed %s", heap->blocks[slot].n_freed, heap->attr.n_pes,
				      heap_block_text(&heap->blocks[slot], text));
	*ret_slot = slot;
	return 0;
}

static bool resize_in_place(struct heap *heap, uint32_t slot, const struct heap_request *request, uint64_t align)
{
	struct heap_block *block = &heap->blocks[slot];

	if (block->offset % align ||
	    !heap_block_resize(heap, slot, heap->attr.zone_bytes + heap_body_bytes(heap, request->size, align)))
		return false;
	heap->stats.n_live--;
	heap->stats.live_bytes -= block->size;
	count_allocation(heap, block, request->size, request->label);
	block->align = align;
	return true;
}

/* The new place is taken before the old one is given back, so they do not overlap. */
static int resize(struct heap *heap, uint32_t slot, uint64_t size, const char *label, uint64_t *ret_offset)
{
	const struct heap_block *block = &heap->blocks[slot];
	struct heap_request request = {.size = size, .align = block->align, .hints = block->hints, .label = label};
	uint32_t moved = slot;
	uint64_t align;
	int r = heap_request_check(heap, &request, &align);

	if (r < 0)
		return r;
	if (!resize_in_place(heap, slot, &request, align)) {
		r = allocate(heap, &request, align, &moved);
		if (r < 0)
			return r;
		drop(heap, slot);
	}
	*ret_offset = heap->blocks[moved].offset;
	return 0;
}

int heap_realloc(struct heap *heap, uint64_t offset, uint64_t size, const char *label, uint64_t *ret_offset)
{
	uint32_t slot = 0;
	int r;

	if (offset == HEAP_NONE)
		return heap_malloc(heap, &(struct heap_request){.size = size, .label = label}, ret_offset);
	r = slot_not_freed(heap, offset, &slot);
	if (r < 0)
		return r;
	if (size)
		return resize(heap, slot, size, label, ret_offset);
	drop(heap, slot);
	*ret_offset = HEAP_NONE;
	return 0;
}

int heap_free_agreed(struct heap *heap, uint64_t offset)
{
	uint32_t slot = 0;
	int r;

	if (offset == HEAP_NONE)
		return 0;
	r = slot_not_freed(heap, offset, &slot);
	if (r >= 0)
		drop(heap, slot);
	return r;
}

/* ---- frees --------------------------------------------------------------------------------------------------------------- */

int heap_release(struct heap *heap, uint64_t offset)
{
	struct heap_block *block;
	uint32_t slot = 0;
	int r;

	if (offset == HEAP_NONE)
		return 0;
	r = heap_live_slot(heap, offset, &slot);
	if (r < 0)
		return r;
	block = &heap->blocks[slot];
	block->is_marked = block->is_pending = true;
	block->next_pending = 0;
	*(heap->last_pending ? &heap->blocks[heap->last_pending].next_pending : &heap->first_pending) = slot;
	heap->last_pending = slot;
	heap->stats.n_pending++;
	return 0;
}

uint32_t heap_take_freed(struct heap *heap, uint32_t *slots, uint32_t max)
{
	uint32_t n = 0;

	for (; n < max && heap->first_pending; n++) {
		struct heap_block *block = &heap->blocks[heap->first_pending];

		slots[n] = heap->first_pending;
		heap->first_pending = block->next_pending;
		block->is_pending = false;
	}
	if (!heap->first_pending)
		heap->last_pending = 0;
	heap->stats.n_pending -= n;
	return n;
}

static int note_freed(struct heap *heap, uint32_t pe, uint32_t slot)
{
	char text[HEAP_TEXT_BYTES];

	if (!slot || slot >= heap->n_slots || !heap->blocks[slot].is_used)
		return shmd_error_set(-EINVAL, "PE %u reports that it freed slot %u of the heap, which has no allocation", pe,
				      slot);
	if (freed_by(heap, slot)[pe / 64] >> pe % 64 & 1)
		return shmd_error_set(-EINVAL, "PE %u reports twice that it freed %s", pe,
				      heap_block_text(&heap->blocks[slot], text));
	freed_by(heap, slot)[pe / 64] |= UINT64_C(1) << pe % 64;
	return 0;
}

/* First all are noted, and un-noted if one is bad; then the PEs are counted, and the blocks that all have freed go. */
int heap_apply_freed(struct heap *heap, uint32_t pe, const uint32_t *slots, uint32_t n)
{
	uint32_t n_noted = 0;
	int r = 0;

	if (pe >= heap->attr.n_pes)
		return shmd_error_set(-EINVAL, "PE %u frees memory in a heap of %u PEs", pe, heap->attr.n_pes);
	while (n_noted < n && r >= 0) {
		r = note_freed(heap, pe, slots[n_noted]);
		n_noted += r >= 0;
	}
	for (uint32_t i = 0; i < n_noted; i++) {
		if (r < 0)
			freed_by(heap, slots[i])[pe / 64] &= ~(UINT64_C(1) << pe % 64);
		else if (++heap->blocks[slots[i]].n_freed == heap->attr.n_pes)
			drop(heap, slots[i]);
	}
	return r;
}
