/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reserving ranges of addresses, and mapping chunks into them; heap-map.h has the contract.
 *
 * All ranges are one reservation, so that one munmap undoes everything. Inside of it MAP_FIXED replaces nothing of others:
 * every byte is either reserved or a chunk's. A mapping that fails may leave its addresses unmapped; they are reserved again
 * at once. If even that fails, another thread may map something there, so the map accepts no chunk any more and, at its end,
 * leaves the addresses as they are.
 */
#include "libclient/runtime/heap/heap-map.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <shmemclient.h>

#include "libclient/runtime/heap/heap-alloc.h"
#include "proto/base/cleanup.h"
#include "proto/base/overflow.h"
#include "proto/base/page.h"

#define RESERVED (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

struct map_chunk {
	uint64_t offset, bytes;
};

struct heap_map {
	struct heap_map_attr attr;
	uint32_t n_ranges; /* n_local, or 1 */
	uint64_t range_bytes; /* a multiple of HEAP_MAX_ALIGN */
	uint8_t *base; /* of range 0; a multiple of HEAP_MAX_ALIGN */
	uint32_t n_chunks;
	bool is_torn;
	struct map_chunk chunks[HEAP_MAX_CHUNKS];
};

/* ---- reserving ----------------------------------------------------------------------------------------------------------- */

/* Half of what RLIMIT_AS leaves to this process: the rest is for the program. */
static uint64_t address_space_left(void)
{
	unsigned long long pages = 0;
	struct rlimit limit;
	uint64_t used;
	FILE *statm;

	if (getrlimit(RLIMIT_AS, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	statm = fopen("/proc/self/statm", "re");
	if (statm && fscanf(statm, "%llu", &pages) != 1)
		pages = 0;
	if (statm)
		fclose(statm);
	used = pages * page_bytes();
	return used < limit.rlim_cur ? (limit.rlim_cur - used) / 2 : 0;
}

/* Mapped at a multiple of HEAP_MAX_ALIGN: with so much more, which is given back. NULL: no such range is free. */
static uint8_t *reserve_aligned(uint64_t bytes)
{
	uint8_t *at = mmap(NULL, bytes + HEAP_MAX_ALIGN, PROT_NONE, RESERVED, -1, 0);
	uint64_t before;

	if (at == MAP_FAILED)
		return NULL;
	before = -(uintptr_t)at & (HEAP_MAX_ALIGN - 1);
	if (before)
		munmap(at, before);
	munmap(at + before + bytes, HEAP_MAX_ALIGN - before);
	return at + before;
}

static uint8_t *reserve_ranges(uint64_t range_bytes, uint32_t n)
{
	uint64_t total, with_spare;

	if (mul_overflows(range_bytes, n, &total) || add_overflows(total, HEAP_MAX_ALIGN, &with_spare) ||
	    with_spare > address_space_left())
		return NULL;
	return reserve_aligned(total);
}

static int reserve(struct heap_map *map, uint64_t wish, uint64_t least)
{
	uint64_t bytes;

	if (align_up_overflows(wish, HEAP_MAX_ALIGN, &bytes))
		bytes = INT64_MAX & ~(HEAP_MAX_ALIGN - 1);
	while (bytes >= least && bytes >= HEAP_MAX_ALIGN && !map->base) {
		map->range_bytes = bytes;
		map->base = reserve_ranges(bytes, map->n_ranges);
		bytes = bytes / 2 & ~(HEAP_MAX_ALIGN - 1);
	}
	if (map->base)
		return 0;
	return shmd_error_set(-ENOMEM,
			      "cannot reserve %u ranges of %" PRIu64 " bytes of address space for the heap; see ulimit -v",
			      map->n_ranges, least > HEAP_MAX_ALIGN ? least : HEAP_MAX_ALIGN);
}

void heap_map_free(struct heap_map *map)
{
	if (!map)
		return;
	/* bounded: reserve_ranges() has checked the product */
	if (map->base && !map->is_torn)
		munmap(map->base, map->range_bytes * map->n_ranges);
	free(map);
}
DEFINE_CLEANUP(struct heap_map *, heap_map_free);

int heap_map_new(const struct heap_map_attr *attr, struct heap_map **ret_map)
{
	_cleanup_(heap_map_freep) struct heap_map *map = NULL;
	int r;

	if (!attr->n_local || attr->own >= attr->n_local)
		return shmd_error_set(-EINVAL, "PE %u of %u on this node cannot be", attr->own, attr->n_local);
	map = calloc(1, sizeof(*map));
	if (!map)
		return shmd_error_set(-ENOMEM, "no memory for the map of a heap");
	map->attr = *attr;
	map->n_ranges = attr->is_own_only ? 1 : attr->n_local;
	r = reserve(map, attr->range_bytes ? attr->range_bytes : HEAP_MAP_RANGE, attr->least_bytes);
	if (r < 0)
		return r;
	*ret_map = take_ptr(map);
	return 0;
}

uint64_t heap_map_range_bytes(const struct heap_map *map)
{
	return map->range_bytes;
}

void *heap_map_base(const struct heap_map *map, uint32_t local_pe)
{
	if (local_pe >= map->attr.n_local || (map->attr.is_own_only && local_pe != map->attr.own))
		return NULL;
	return map->base + (map->attr.is_own_only ? 0 : local_pe * map->range_bytes);
}

/* ---- chunks -------------------------------------------------------------------------------------------------------------- */

static int check_place(const struct heap_map *map, uint64_t offset, uint64_t bytes)
{
	if (map->is_torn)
		return shmd_error_set(-ENOMEM,
				      "an earlier chunk of the heap could be neither mapped nor undone; open another world");
	if (!bytes || offset % HEAP_MAP_STEP || bytes % HEAP_MAP_STEP || !range_fits(offset, bytes, map->range_bytes))
		return shmd_error_set(-EINVAL,
				      "a chunk of %" PRIu64 " bytes at offset 0x%" PRIx64 " does not lie in the %" PRIu64
				      " bytes reserved for a heap, or not on multiples of 2 MiB", bytes, offset, map->range_bytes);
	for (uint32_t i = 0; i < map->n_chunks; i++) {
		const struct map_chunk *chunk = &map->chunks[i];

		/* bounded: both lie in the range */
		if (offset < chunk->offset + chunk->bytes && chunk->offset < offset + bytes)
			return shmd_error_set(-EINVAL, "there is a chunk at offset 0x%" PRIx64 " of the heap already",
					      chunk->offset);
	}
	if (map->n_chunks == HEAP_MAX_CHUNKS)
		return shmd_error_set(-ENOSPC, "the heap has %u chunks already", HEAP_MAX_CHUNKS);
	return 0;
}

/* It came from another process: without the seal and the size its pages could vanish below us. */
static int check_memory(const struct heap_map *map, int fd, uint64_t bytes)
{
	int seals = fcntl(fd, F_GET_SEALS);
	uint64_t total;
	struct stat st;

	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return shmd_error_set(-EINVAL, "the descriptor of a chunk is not a memfd that is sealed against shrinking");
	if (fstat(fd, &st) < 0)
		return shmd_error_set(-errno, "cannot ask for the size of a chunk's memfd: %s", strerror(errno));
	if (mul_overflows(bytes, map->attr.n_local, &total) || st.st_size < 0 || (uint64_t)st.st_size != total)
		return shmd_error_set(-EINVAL, "the memfd of a chunk has %lld bytes, not %u times %" PRIu64,
				      (long long)st.st_size,
				      map->attr.n_local, bytes);
	return 0;
}

static uint8_t *address_of(const struct heap_map *map, uint32_t range, uint64_t offset)
{
	return map->base + range * map->range_bytes + offset; /* bounded: inside the reservation */
}

/* The PE of the node whose memory lies in a range. */
static uint32_t part_of(const struct heap_map *map, uint32_t range)
{
	return map->attr.is_own_only ? map->attr.own : range;
}

static void reserve_one_again(struct heap_map *map, uint32_t range, uint64_t offset, uint64_t bytes)
{
	if (mmap(address_of(map, range, offset), bytes, PROT_NONE, RESERVED | MAP_FIXED, -1, 0) == MAP_FAILED)
		map->is_torn = true;
}

static void reserve_again(struct heap_map *map, uint32_t n_ranges, uint64_t offset, uint64_t bytes)
{
	for (uint32_t i = 0; i < n_ranges; i++)
		reserve_one_again(map, i, offset, bytes);
}

/* Dumps of a PE's memory need not hold its peers'. */
static void advise(const struct heap_map *map, uint32_t range, void *at, uint64_t bytes)
{
	if (part_of(map, range) != map->attr.own)
		madvise(at, bytes, MADV_DONTDUMP);
	if (map->attr.is_huge)
		madvise(at, bytes, MADV_HUGEPAGE);
}

/* 0 or a negative errno without a sentence. bounded: check_memory() */
static int map_part(const struct heap_map *map, uint32_t range, int fd, uint64_t offset, uint64_t bytes)
{
	uint8_t *at = address_of(map, range, offset);

	if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		 (off_t)(part_of(map, range) * bytes)) == MAP_FAILED)
		return -errno;
	advise(map, range, at, bytes);
	return 0;
}

int heap_map_chunk(struct heap_map *map, int fd, uint64_t offset, uint64_t bytes)
{
	int r = check_place(map, offset, bytes);

	if (r >= 0)
		r = check_memory(map, fd, bytes);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < map->n_ranges; i++) {
		r = map_part(map, i, fd, offset, bytes);
		if (r >= 0)
			continue;
		reserve_again(map, i + 1, offset, bytes);
		return shmd_error_set(r, "cannot map %" PRIu64 " bytes of the heap of PE %u of this node: %s", bytes,
				      part_of(map, i),
				      strerror(-r));
	}
	map->chunks[map->n_chunks++] = (struct map_chunk){offset, bytes};
	return 0;
}

void heap_map_undo(struct heap_map *map, uint64_t offset)
{
	for (uint32_t i = 0; i < map->n_chunks; i++) {
		if (map->chunks[i].offset != offset)
			continue;
		reserve_again(map, map->n_ranges, offset, map->chunks[i].bytes);
		map->chunks[i] = map->chunks[--map->n_chunks];
		return;
	}
}

/* ---- memory that is not the heap's own ----------------------------------------------------------------------------------- */

static uint32_t range_of(const struct heap_map *map, uint32_t local_pe)
{
	return map->attr.is_own_only ? 0 : local_pe;
}

static int check_part(const struct heap_map *map, const struct heap_part *part)
{
	int seals = fcntl(part->fd, F_GET_SEALS);
	struct stat st;

	if (!heap_map_base(map, part->local_pe) || part->bytes % page_bytes() || part->fd_offset % page_bytes())
		return shmd_error_set(-EINVAL, "%" PRIu64 " bytes of PE %u of this node cannot appear in its heap", part->bytes, part->local_pe);
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(part->fd, &st) < 0 || st.st_size < 0 ||
	    !range_fits(part->fd_offset, part->bytes, (uint64_t)st.st_size))
		return shmd_error_set(-EINVAL, "the descriptor of a buffer is not a memfd that is sealed against shrinking, with %" PRIu64
				      " bytes at offset 0x%" PRIx64, part->bytes, part->fd_offset);
	return 0;
}

int heap_map_part(struct heap_map *map, const struct heap_part *part)
{
	/* The end of its last step belongs to it. */
	uint64_t steps = (part->bytes + HEAP_MAP_STEP - 1) & ~(HEAP_MAP_STEP - 1); /* bounded: check_place() refuses what wraps to 0 */
	int r = check_place(map, part->offset, steps);

	if (!r)
		r = check_part(map, part);
	if (r < 0)
		return r;
	if (mmap(address_of(map, range_of(map, part->local_pe), part->offset), part->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		 part->fd, (off_t)part->fd_offset) != MAP_FAILED)
		return 0;
	r = -errno;
	reserve_one_again(map, range_of(map, part->local_pe), part->offset, part->bytes);
	return shmd_error_set(r, "cannot map %" PRIu64 " bytes of a buffer of PE %u of this node: %s", part->bytes, part->local_pe,
			      strerror(-r));
}

void heap_unmap_part(struct heap_map *map, uint32_t local_pe, uint64_t offset, uint64_t bytes)
{
	reserve_one_again(map, range_of(map, local_pe), offset, bytes);
}
