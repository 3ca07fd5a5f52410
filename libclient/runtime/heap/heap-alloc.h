/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator of the symmetric heap, in offsets. Every PE runs one, and all of them decide the same.
 *
 * The heap is a range of offsets in which chunks of memory appear, one by one. The allocator places blocks in them, by best
 * fit, and never touches the memory, which may be a GPU's. Its decisions are a function of the collective calls below, of
 * their arguments and of their order; neither addresses, nor time, nor a local failure is part of them. So equal calls give
 * equal offsets on all PEs.
 *
 * Freeing is local: heap_release() marks, and never waits. The runtime publishes the marks of each PE with its next
 * collective call (heap_take_freed()), and every PE counts them (heap_apply_freed(), in the order of the PEs). The memory is
 * a hole again when the last PE has freed it.
 *
 * Collective: heap_add_chunk, heap_apply_freed, heap_malloc, heap_realloc, heap_free_agreed. heap_reserve() before each one
 * of them takes what metadata they may need; after it they cannot fail for lack of memory, on one PE and not on another.
 *
 * Threads	one call at a time; the caller locks. Blocks: never.
 * Errors	a negative errno and, unless said otherwise, a sentence by shmd_error_set(). A call that fails changes nothing.
 */
#ifndef SHMD_HEAP_ALLOC_H
#define SHMD_HEAP_ALLOC_H

#include <stdbool.h>
#include <stdint.h>

#include <shmd/abi/world.h>

#define HEAP_NONE UINT64_MAX /* instead of an offset: no memory, NULL of the public functions */
#define HEAP_GRAIN UINT64_C(16) /* blocks start and end at its multiples */
/* And blocks of this size or more, those with such a hint and those that ask for it at multiples of it: a cache line has one owner. */
#define HEAP_LINE UINT64_C(64)
#define HEAP_HINTS_OWN_LINES UINT64_C(3) /* SHMD_HINT_ATOMICS, SHMD_HINT_SIGNALS */
#define HEAP_CHUNK_ALIGN UINT64_C(4096) /* chunks start and end at its multiples */
#define HEAP_MAX_ALIGN (UINT64_C(64) << 20) /* offset 0 must be mapped at a multiple of it */
#define HEAP_MAX_CHUNKS SHMD_DEV_HEAP_CHUNKS
#define HEAP_MAX_ZONE (UINT64_C(1) << 20)
#define HEAP_MAX_PES (1u << 20)

struct heap;

struct heap_attr {
	uint32_t n_pes;
	uint64_t range_bytes; /* chunks lie in [0, range_bytes) */
	/*
	 * For debugging: unused bytes at both ends of each allocation, for the runtime to fill and to check. A multiple of
	 * HEAP_GRAIN, of HEAP_LINE if cache lines matter; 0: none.
	 */
	uint64_t zone_bytes;
};

struct heap_request {
	uint64_t size; /* 0: no memory, HEAP_NONE */
	/* A power of two up to HEAP_MAX_ALIGN, or 0; raised to HEAP_GRAIN or HEAP_LINE. */
	uint64_t align;
	uint64_t hints; /* HEAP_HINTS_OWN_LINES count */
	const char *label; /* borrowed as long as the allocation lives, or NULL; need not be equal on all PEs */
};

/* An allocation, or a hole between allocations. */
struct heap_info {
	uint64_t offset; /* of a hole: its start */
	uint64_t size; /* that was asked for */
	uint64_t usable; /* from offset; size if there are zones */
	uint64_t align; /* that offset has by request or by size */
	uint64_t hints;
	uint64_t number; /* of the allocation, from 1 on, equal on all PEs */
	const char *label;
	uint64_t block_start, block_bytes; /* with zones */
	uint32_t slot; /* its name in lists of freed ones */
	uint32_t n_freed; /* PEs that have freed it, as far as it is agreed */
	bool is_freed_here;
	bool is_hole;
};

struct heap_span {
	uint64_t offset, bytes;
};

struct heap_stats {
	uint64_t n_live, live_bytes; /* allocations, and what was asked for */
	uint64_t n_holes, hole_bytes, largest_hole;
	uint64_t n_chunks, chunk_bytes;
	uint64_t n_pending; /* freed here, not taken yet */
	uint64_t n_numbers; /* allocations so far */
};

/* -EINVAL, -ENOMEM. */
int heap_new(const struct heap_attr *attr, struct heap **ret_heap);
void heap_free(struct heap *heap);

/* Room for the metadata of the next collective call. -ENOMEM; calling it more often changes nothing. */
int heap_reserve(struct heap *heap);

/* ---- collective ---------------------------------------------------------------------------------------------------------- */

/*
 * Memory appears at [offset, offset + bytes). Blocks do not cross from one chunk into the next. -EINVAL; -ENOSPC:
 * HEAP_MAX_CHUNKS.
 */
int heap_add_chunk(struct heap *heap, uint64_t offset, uint64_t bytes);

/*
 * -ENOSPC, without a sentence: no hole fits, a chunk of heap_chunk_needed() bytes would. -EINVAL: the alignment. -ENOMEM:
 * more than the whole range.
 */
int heap_malloc(struct heap *heap, const struct heap_request *request, uint64_t *ret_offset);

/*
 * In place if possible; else *ret_offset is another place, the old one is a hole, and the caller copies the smaller size
 * before the next collective call. offset HEAP_NONE: allocates; size 0: frees, HEAP_NONE. Alignment and hints stay as they
 * were. Errors as heap_malloc(); -EINVAL: no allocation, or one that a PE has freed.
 */
int heap_realloc(struct heap *heap, uint64_t offset, uint64_t size, const char *label, uint64_t *ret_offset);

/* All PEs free it in this call; a hole at once. HEAP_NONE: nothing. -EINVAL as heap_realloc(). */
int heap_free_agreed(struct heap *heap, uint64_t offset);

/* PE `pe` has freed these slots. -EINVAL: one of them is no allocation, or freed by this PE before. */
int heap_apply_freed(struct heap *heap, uint32_t pe, const uint32_t *slots, uint32_t n);

/* ---- local --------------------------------------------------------------------------------------------------------------- */

/* HEAP_NONE: nothing. -EINVAL: no allocation starts there, or it is freed already. */
int heap_release(struct heap *heap, uint64_t offset);
/* Slots freed here since, oldest first, at most `max`; how many. */
uint32_t heap_take_freed(struct heap *heap, uint32_t *slots, uint32_t max);

/* An allocation starts at offset and is not freed here. -EINVAL as heap_release(). */
int heap_check_live(const struct heap *heap, uint64_t offset);

/*
 * A chunk of this size, anywhere, would do for the request, or for heap_realloc() of `offset` (else HEAP_NONE). -EINVAL,
 * -ENOMEM.
 */
int heap_chunk_needed(const struct heap *heap, const struct heap_request *request, uint64_t offset, uint64_t *ret_bytes);

/* The allocation that has this byte, or whose first byte it is. -ENOENT, without a sentence. */
int heap_find(const struct heap *heap, uint64_t offset, struct heap_info *ret_info);

/* Where the next chunk goes: behind the last one. */
uint64_t heap_end(const struct heap *heap);
void heap_stats(const struct heap *heap, struct heap_stats *ret_stats);

/*
 * All blocks in the order of offsets, holes among them, from {0} on. No collective call during a walk. False: there are no
 * more.
 */
struct heap_walk {
	uint32_t chunk, slot;
};
bool heap_walk(const struct heap *heap, struct heap_walk *walk, struct heap_info *ret_info);

#define HEAP_TEXT_BYTES 160
/* "allocation 7 (4096 bytes at offset 0x1000, halo.c:17)". Returns text. */
const char *heap_info_text(const struct heap_info *info, char text[HEAP_TEXT_BYTES]);

/* The bytes before and behind the caller's, for the runtime to fill and to check; empty without zones. */
static inline struct heap_span heap_zone_before(const struct heap_info *info)
{
	return (struct heap_span){info->block_start, info->offset - info->block_start};
}

static inline struct heap_span heap_zone_behind(const struct heap_info *info)
{
	/* bounded: the block lies in a chunk */
	uint64_t end = info->offset + info->usable;

	return (struct heap_span){end, info->block_start + info->block_bytes - end};
}

#endif
