/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers of the program as symmetric memory: each takes the place of a chunk of the heap. See symmetric.c, and gpu-symmetric.c for those in
 * memory of GPUs.
 *
 * A place stays when its buffer is taken away, since a heap does not shrink, and serves for a buffer of the same size or less.
 */
#ifndef SHMD_WORLD_SYMMETRIC_H
#define SHMD_WORLD_SYMMETRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct adopted;

/* One place, equal on all PEs but for the memory. */
struct symmetric {
	uint32_t chunk;
	uint64_t offset, bytes; /* in the heap; a multiple of the granule */
	bool is_used;
	struct adopted *memory; /* of this PE; NULL: it is memory of a GPU */
};

/* The first place without memory that has so many bytes. NULL: there is none. */
static inline struct symmetric *symmetric_find_free(struct symmetric *places, uint32_t n, uint64_t bytes)
{
	for (uint32_t i = 0; i < n; i++)
		if (!places[i].is_used && places[i].bytes >= bytes)
			return &places[i];
	return NULL;
}

/* The place with memory at this offset. NULL: there is none. */
static inline struct symmetric *symmetric_find_used(struct symmetric *places, uint32_t n, uint64_t offset)
{
	for (uint32_t i = 0; i < n; i++)
		if (places[i].is_used && places[i].offset == offset)
			return &places[i];
	return NULL;
}

#endif
