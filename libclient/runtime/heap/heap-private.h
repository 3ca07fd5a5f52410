/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks: the pieces into which chunks are cut. Each byte of a chunk is in one block, a used one or a hole, and two holes are
 * never neighbours. A block has a slot, its index in all arrays, from the moment it is cut off to the moment it is merged
 * into another.
 */
#ifndef SHMD_HEAP_PRIVATE_H
#define SHMD_HEAP_PRIVATE_H

#include "libclient/runtime/heap/heap-alloc.h"
#include "libclient/runtime/heap/heap-tree.h"

/* Sums of offsets, sizes and alignments do not overflow. */
#define HEAP_MAX_RANGE (UINT64_C(1) << 56)

/* A collective call cuts a hole into three at most, or adds a chunk. */
#define HEAP_SLOTS_PER_CALL 4u

struct heap_block {
	uint64_t start, bytes; /* zones included */
	uint32_t prev, next; /* neighbours in the chunk; 0: its end. `next` of an unused slot: the next unused one */
	uint32_t next_pending; /* of the list of freed ones */
	uint32_t n_freed;
	bool is_used;
	bool is_marked; /* freed here */
	bool is_pending; /* and in the list */
	uint64_t align;
	/* set in used ones */
	uint64_t offset, size, hints, number;
	const char *label;
};

struct heap_chunk {
	uint64_t offset, bytes;
	uint32_t first; /* its first block */
};

struct heap {
	struct heap_attr attr;
	/*
	 * By slot; slot 0 is none. Slots are used again, the last one first, before fresh ones are taken: the room that
	 * a PE happens to have is no part of the choice.
	 */
	struct heap_block *blocks;
	struct heap_node *nodes; /* of the tree that the block is in */
	uint64_t *freed_by; /* n_words for each slot: the PEs that have freed it */
	uint32_t n_words;
	uint32_t n_slots, room_slots; /* slots that were ever used, slot 0 included */
	uint32_t unused; /* the first of the list */
	uint32_t used; /* tree of used blocks: offset */
	uint32_t holes; /* tree of holes: bytes, start */
	struct heap_chunk chunks[HEAP_MAX_CHUNKS]; /* by offset */
	uint32_t n_chunks;
	uint32_t first_pending, last_pending;
	struct heap_stats stats;
};

/* Where a request lies in a hole, or in a block that it has already. */
struct heap_place {
	uint64_t start, bytes; /* of the block */
	uint64_t offset; /* of the caller's memory */
};

static inline uint64_t heap_block_end(const struct heap_block *block)
{
	return block->start + block->bytes; /* bounded: inside a chunk */
}

/* The request's alignment and size as blocks have them, checked. -EINVAL, -ENOMEM with a sentence. */
int heap_request_check(const struct heap *heap, const struct heap_request *request, uint64_t *ret_align);
uint64_t heap_align_of(const struct heap_request *request);
/* From the caller's memory to the end of its block, zone included; align as heap_align_of() says. bounded: size is at most the range */
uint64_t heap_body_bytes(const struct heap *heap, uint64_t size, uint64_t align);
/* The lowest place at or behind `start`. */
struct heap_place heap_place_at(const struct heap *heap, uint64_t start, uint64_t size, uint64_t align);

/* The best hole; 0: none fits. */
uint32_t heap_hole_find(const struct heap *heap, uint64_t size, uint64_t align, struct heap_place *ret_place);
/* The hole becomes a used block at this place and holes around it. */
void heap_hole_use(struct heap *heap, uint32_t slot, const struct heap_place *place);
/* A block of its own for [start, start + bytes), behind `prev`; a hole, merged with its neighbours. */
uint32_t heap_hole_new(struct heap *heap, uint64_t start, uint64_t bytes, uint32_t prev, uint32_t next);
/* A used block becomes a hole, with the holes beside it. */
void heap_block_free(struct heap *heap, uint32_t slot);
/* A used block and the hole behind it: the first `bytes` for the block. False: there is less. */
bool heap_block_resize(struct heap *heap, uint32_t slot, uint64_t bytes);

/* ---- asking: heap-ask.c -------------------------------------------------------------------------------------------------- */

/* The allocation that starts at offset; -EINVAL with a sentence. */
int heap_slot_at(const struct heap *heap, uint64_t offset, uint32_t *ret_slot);
/* And is not freed here; likewise. */
int heap_live_slot(const struct heap *heap, uint64_t offset, uint32_t *ret_slot);

/* As heap_info_text(). */
const char *heap_block_text(const struct heap_block *block, char text[HEAP_TEXT_BYTES]);

#endif
