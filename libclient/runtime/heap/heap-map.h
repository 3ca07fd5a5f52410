/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heaps of a node's PEs in this process's address space.
 *
 * One range of addresses is reserved for each PE of the node, all of the same size, before there is memory. A chunk is one
 * memfd for all of them: part i is the memory of the node's PE i, and appears at the chunk's offset in range i. So the copy
 * of an address that belongs to another PE is its base plus the same offset, and nothing ever moves. A world that forbids
 * mapped paths reserves and maps its own range alone.
 *
 * Pages come into being when they are touched first, and then lie on the NUMA node of the thread that touched them. Nothing here
 * touches any, so the first write of a PE, or of a peer, places them.
 *
 * Threads	one call at a time on one map. Blocks: never.
 * Errors	a negative errno and a sentence by shmd_error_set(). A call that fails leaves everything as it was.
 */
#ifndef SHMD_HEAP_MAP_H
#define SHMD_HEAP_MAP_H

#include <stdbool.h>
#include <stdint.h>

#define HEAP_MAP_STEP (UINT64_C(2) << 20) /* chunks start and end at multiples of it: one huge page, and any page of the kernel's */
#define HEAP_MAP_RANGE (UINT64_C(64) << 30) /* reserved for each PE, if there is no wish */
#define HEAP_MAP_WHY_BYTES 192

/* ---- memory -------------------------------------------------------------------------------------------------------------- */

struct heap_memory_attr {
	uint32_t n_local; /* PEs of the node */
	uint64_t bytes; /* of each; a multiple of HEAP_MAP_STEP */
	bool is_huge; /* huge pages if the machine has enough free ones, else ordinary ones */
};

struct heap_memory {
	int fd; /* sealed: nobody changes its size; the caller's, to close */
	uint64_t page_bytes;
	char why[HEAP_MAP_WHY_BYTES]; /* why the pages are not huge though they were asked for, or "" */
};

/* Bytes of a chunk that has at least so many: a multiple of HEAP_MAP_STEP. -EOVERFLOW. */
int heap_chunk_round(uint64_t bytes, uint64_t *ret_bytes);

/*
 * The memory of a chunk, for all PEs of the node; one of them makes it, the others receive the descriptor. -EINVAL, -ENOMEM,
 * -EMFILE.
 */
int heap_memory_new(const struct heap_memory_attr *attr, struct heap_memory *ret_memory);

/* ---- addresses ----------------------------------------------------------------------------------------------------------- */

struct heap_map;

struct heap_map_attr {
	uint32_t n_local;
	uint32_t own; /* place of this PE among them */
	bool is_own_only; /* the other PEs are not mapped */
	bool is_huge; /* ask the kernel to join pages of ordinary memory into huge ones */
	uint64_t range_bytes; /* wished for each PE; 0: HEAP_MAP_RANGE */
	uint64_t least_bytes; /* less is of no use */
};

/*
 * Reserves addresses. The ranges are smaller than wished, halved as often as needed, if the address space, or half of what
 * RLIMIT_AS leaves, is too small; PEs agree on the smallest among them. -ENOMEM: less than least_bytes. -EINVAL.
 */
int heap_map_new(const struct heap_map_attr *attr, struct heap_map **ret_map);
/* Unmaps everything. NULL: nothing. */
void heap_map_free(struct heap_map *map);

uint64_t heap_map_range_bytes(const struct heap_map *map);
/* Offset 0 of this PE of the node, a multiple of HEAP_MAX_ALIGN; NULL: it is not mapped. */
void *heap_map_base(const struct heap_map *map, uint32_t local_pe);

/*
 * Map a chunk at `offset` of all ranges. The descriptor is another process's: it must be sealed against shrinking and have
 * n_local * bytes. It stays the caller's, who may close it. -EINVAL, -ENOMEM.
 */
int heap_map_chunk(struct heap_map *map, int fd, uint64_t offset, uint64_t bytes);
/* Undo it, because another PE could not. Its addresses stay reserved. An offset without a chunk: nothing. */
void heap_map_undo(struct heap_map *map, uint64_t offset);

/* Memory of one PE that is not the heap's own, but appears in its range. */
struct heap_part {
	uint32_t local_pe;
	int fd; /* as in heap_map_chunk(); stays the caller's */
	uint64_t fd_offset; /* a multiple of the kernel's page, as bytes */
	uint64_t offset, bytes; /* in the range; behind the chunks, and chunks come behind it */
};
/* -EINVAL: no such place, or the descriptor has no such memory; -ENOMEM. */
int heap_map_part(struct heap_map *map, const struct heap_part *part);
/* Its addresses stay reserved. Also where nothing is mapped. */
void heap_unmap_part(struct heap_map *map, uint32_t local_pe, uint64_t offset, uint64_t bytes);

#endif
