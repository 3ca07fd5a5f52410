/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <shmemclient.h>

#include "libclient/runtime/heap/heap-map.h"
#include "libclient/runtime/world/chunk-table.h"
#include "proto/base/overflow.h"

_Static_assert(UINT64_C(1) << WORLD_GRANULE_LOG2 == HEAP_MAP_STEP, "chunks begin there");

int chunk_table_make(struct chunk_table *table, const struct chunk_names *names)
{
	table->index = calloc(table->range_bytes >> WORLD_GRANULE_LOG2, 1);
	return table->index ? 0 : shmd_error_set(-ENOMEM, "no memory for the index of a %s of %llu bytes", names->heap,
						 (unsigned long long)table->range_bytes);
}

void chunk_table_drop(struct chunk_table *table)
{
	free(table->index);
	table->index = NULL;
}

int chunk_table_first(const struct chunk_table *table, const struct chunk_names *names, uint64_t bytes, uint64_t internal, uint64_t *ret_bytes)
{
	if (add_overflows(bytes, internal, ret_bytes) || heap_chunk_round(*ret_bytes, ret_bytes) < 0 || *ret_bytes > table->range_bytes)
		return shmd_error_set(-ENOMEM, "a %s of %llu bytes does not fit in a range of %llu (SHMD_%s_SIZE, SHMD_%s_RESERVE)", names->heap,
				      (unsigned long long)bytes, (unsigned long long)table->range_bytes, names->settings, names->settings);
	return 0;
}

int chunk_table_next(const struct chunk_table *table, const struct chunk_names *names, uint64_t bytes, uint64_t *ret_bytes)
{
	uint64_t offset = chunk_table_end(table);

	*ret_bytes = bytes;
	if (heap_chunk_round(bytes, ret_bytes) < 0 || !range_fits(offset, *ret_bytes, table->range_bytes))
		return shmd_error_set(-ENOMEM, "the %s has %llu of %llu bytes, and a chunk of %llu does not fit any more (SHMD_%s_RESERVE)", names->heap,
				      (unsigned long long)offset, (unsigned long long)table->range_bytes, (unsigned long long)*ret_bytes,
				      names->settings);
	if (table->n == SHMD_DEV_HEAP_CHUNKS)
		return shmd_error_set(-ENOMEM, "the %s has %u chunks, and cannot have more (SHMD_%s_CHUNK)", names->heap, SHMD_DEV_HEAP_CHUNKS,
				      names->settings);
	return 0;
}

void chunk_table_count(struct chunk_table *table, uint64_t offset, uint64_t bytes)
{
	/* bounded: the chunk lies in the range */
	memset(&table->index[offset >> WORLD_GRANULE_LOG2], (int)table->n, bytes >> WORLD_GRANULE_LOG2);
	table->ends[table->n] = offset + bytes;
	table->n++;
}
