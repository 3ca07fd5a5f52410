/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chunks of a heap: which there are, and the tables by which device functions find the chunk of an address. The host's heap and that in
 * GPU memory have one each. No memory of the heap itself, no other PE. Under the world's lock; `used` also without.
 */
#ifndef SHMD_WORLD_CHUNK_TABLE_H
#define SHMD_WORLD_CHUNK_TABLE_H

#include <stdint.h>

#include <shmd/abi/world.h>

#define WORLD_GRANULE_LOG2 21u /* HEAP_MAP_STEP of heap-map.h */

struct chunk_table {
	uint64_t range_bytes; /* of each PE, the same on all */
	uint32_t n;
	uint64_t ends[SHMD_DEV_HEAP_CHUNKS];
	uint8_t *index; /* by granule: the chunk */
};

/* A heap as sentences name it. */
struct chunk_names {
	const char *heap; /* "heap" */
	const char *settings; /* "HEAP": its settings are SHMD_HEAP_SIZE and so on */
};

/* Room for a range of table->range_bytes. -ENOMEM. */
int chunk_table_make(struct chunk_table *table, const struct chunk_names *names);
void chunk_table_drop(struct chunk_table *table);

/* The size of the first chunk: `bytes` behind `internal` bytes. -ENOMEM: they do not fit in the range. */
int chunk_table_first(const struct chunk_table *table, const struct chunk_names *names, uint64_t bytes, uint64_t internal, uint64_t *ret_bytes);
/* The size of one more, of at least `bytes`. -ENOMEM: there is no room for it, or for its number. */
int chunk_table_next(const struct chunk_table *table, const struct chunk_names *names, uint64_t bytes, uint64_t *ret_bytes);
/* It is the last one from now on. Readers look at used_bytes first, which the caller stores afterwards. */
void chunk_table_count(struct chunk_table *table, uint64_t offset, uint64_t bytes);

/* Where the next one begins. */
static inline uint64_t chunk_table_end(const struct chunk_table *table)
{
	return table->n ? table->ends[table->n - 1] : 0;
}

#endif
