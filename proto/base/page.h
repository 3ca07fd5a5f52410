/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's pages: 4 KiB, and up to 64 KiB on Arm.
 *
 * Offsets and lengths of the protocol count in pages of 4096 bytes, which every NIC translates; mmap takes only
 * multiples of the kernel's page. Every mapping at an offset goes through here. Any thread.
 */
#ifndef SHMEMD_BASE_PAGE_H
#define SHMEMD_BASE_PAGE_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/base/overflow.h"

static inline uint64_t page_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* The part of a file that must be mapped to reach some bytes of it. */
struct page_range {
	uint64_t start; /* multiple of the page */
	uint64_t head; /* from there to the first byte that was asked for */
	uint64_t bytes; /* to map, head included */
};

/* The range to map for [offset, offset + bytes), with pages of `page` bytes (a power of two). */
static inline bool page_range_overflows(uint64_t offset, uint64_t bytes, uint64_t page,
					struct page_range *ret)
{
	uint64_t head = offset & (page - 1), end;

	if (add_overflows(offset, bytes, &end) || end > INT64_MAX)
		return true;
	*ret = (struct page_range){.start = offset - head, .head = head, .bytes = head + bytes};
	return false;
}

/* Map bytes of a file, shared: their address, or MAP_FAILED with errno. Undone by unmap_shared(). */
static inline void *map_shared(int fd, uint64_t offset, uint64_t bytes, int prot)
{
	struct page_range range;
	uint8_t *base;

	if (page_range_overflows(offset, bytes, page_bytes(), &range)) {
		errno = EOVERFLOW;
		return MAP_FAILED;
	}
	base = mmap(NULL, range.bytes, prot, MAP_SHARED, fd, (off_t)range.start);
	return base == MAP_FAILED ? MAP_FAILED : base + range.head;
}

static inline void unmap_shared(void *at, uint64_t bytes)
{
	uint64_t head = (uintptr_t)at & (page_bytes() - 1);

	munmap((uint8_t *)at - head, head + bytes);
}

#endif
