/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heap of a world: ranges of addresses, chunks of memory in them, and the internal area at the start of chunk 0.
 *
 * PEs that map each other are a group. A chunk of all PEs of a group is one memfd, which the lowest PE of the group makes and
 * publishes; each PE maps all parts of it, one into the range of each PE. Offsets of chunks are the same on all PEs.
 *
 * The internal area is how PEs talk once the world has started:
 *	exchange	what world_exchange() passes (exchange.h): two slots for each PE, used in turn
 *	scratch		of teams, by id
 *	boards		of teams, by id: ids that members offer (team/split.c)
 *	meetings	of PEs that make a team by themselves (team/members.c)
 */
#ifndef SHMD_WORLD_HEAP_H
#define SHMD_WORLD_HEAP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <shmd.h>

#include "libclient/runtime/settings/settings.h"
#include "libclient/runtime/world/chunk-table.h"
#include "libclient/runtime/world/symmetric.h"

struct heap;
struct heap_map;
struct heap_record;

#define WORLD_HEAP_IOVA (UINT64_C(1) << 44) /* of offset 0; the same on all PEs */

#define WORLD_EXCHANGE_BYTES 4096u /* of one slot */
#define WORLD_BOARD_BYTES 64u
#define WORLD_MEETINGS 16u /* calls of a PE at once */
#define WORLD_MEETING_BYTES 128u

#define WORLD_EXCHANGE_OFFSET UINT64_C(0)
#define WORLD_BOARDS_OFFSET (WORLD_EXCHANGE_OFFSET + 2 * WORLD_EXCHANGE_BYTES)
#define WORLD_MEETINGS_OFFSET (WORLD_BOARDS_OFFSET + SHMD_DEV_MAX_TEAMS * WORLD_BOARD_BYTES)
#define WORLD_SCRATCH_OFFSET (WORLD_MEETINGS_OFFSET + WORLD_MEETINGS * WORLD_MEETING_BYTES)
#define WORLD_INTERNAL_END (WORLD_SCRATCH_OFFSET + (uint64_t)SHMD_DEV_MAX_TEAMS * SHMD_DEV_TEAM_SCRATCH_BYTES)
#define WORLD_INTERNAL_BYTES ((WORLD_INTERNAL_END + 4095) & ~UINT64_C(4095)) /* HEAP_CHUNK_ALIGN of heap-alloc.h */

struct world_heap {
	pthread_mutex_t lock; /* around alloc; never held while a PE waits for another */
	struct heap *alloc;
	struct heap_map *map;
	int *group; /* PEs of the group, ascending */
	int n_group, my_place;
	struct chunk_table chunks;
	struct symmetric symmetric[SHMD_DEV_HEAP_CHUNKS]; /* places of buffers of the program */
	uint32_t n_symmetric;
	struct heap_record *records; /* room for those of all PEs (heap-agree.h) */
	uint64_t n_exchanges; /* through the heap */
	uint64_t n_calls; /* collective calls on the heap */
	int lost; /* the error of an exchange that failed here: the PEs may differ from then on; else 0 */
};

/* Collective: the ranges, and chunk 0 with `bytes` or more behind the internal area. All PEs pass the same. */
int world_heap_open(struct shmd_world *world, uint64_t bytes, uint64_t range_bytes);
/* Collective: a chunk of at least `bytes` behind the last one. All PEs have it, or none. */
int world_heap_grow(struct shmd_world *world, uint64_t bytes);
/* Readers find this chunk from now on, the last one. */
void world_heap_count(struct shmd_world *world, uint64_t offset, uint64_t bytes);
/* The guard bytes around each allocation with these settings. All PEs have the same. */
uint64_t world_heap_zone_bytes(const struct runtime_settings *settings);
void world_heap_close(struct shmd_world *world);

/* Offset 0 of a PE's heap here; NULL: not mapped. */
static inline uint8_t *world_heap_at(const struct shmd_dev_pe *pe, uint64_t offset)
{
	return pe->heap_addr[SHMD_DEV_HEAP_HOST] ? (uint8_t *)(uintptr_t)(pe->heap_addr[SHMD_DEV_HEAP_HOST] + offset) : NULL;
}

void world_heap_sizes(const struct shmd_world *world, uint64_t *ret_bytes, uint64_t *ret_used, uint64_t *ret_max);

#endif
