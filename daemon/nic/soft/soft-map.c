/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory shared with clients.
 *
 * A client must not be able to make the daemon fault: only memfds of ordinary pages are mapped, and only when
 * they are sealed against shrinking and large enough at that moment. A hole punched later reads as zeros.
 * Huge pages are refused, since a punched hole there may not be filled again and then faults with SIGBUS.
 *
 * Any thread.
 */
#include "daemon/nic/soft/soft.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "proto/base/later.h"
#include "proto/base/overflow.h"
#include "proto/base/page.h"

/* From this on it takes too long for a thread that serves clients. */
#define UNMAP_LATER_BYTES (256u << 10)
#define UNMAP_SLICE_BYTES ((size_t)64 << 20)
#define POPULATE_SLICE_BYTES ((size_t)4 << 20)

int soft_check_kind(enum nic_mem_kind kind)
{
	switch (kind) {
	case NIC_MEM_MEMFD:
		return 0;
	case NIC_MEM_DMABUF:
	case NIC_MEM_PEERMEM:
	case NIC_MEM_AGENT:
		return -EOPNOTSUPP;
	}
	return -EINVAL;
}

int soft_check_mr_kind(enum nic_mem_kind kind)
{
	return kind == NIC_MEM_AGENT ? 0 : soft_check_kind(kind);
}

static int map_errno(void)
{
	return errno == EACCES || errno == EPERM ? -EPERM : -ENOMEM;
}

/* A core file of the daemon is its own: memory of clients has secrets, and there may be terabytes of it. At worst it is in there. */
static void leave_out_of_core(void *base, size_t bytes)
{
	madvise(base, bytes, MADV_DONTDUMP);
}

int soft_map_memfd(int fd, uint64_t offset, uint64_t bytes, bool writable, struct soft_map *ret_map)
{
	struct page_range range;
	uint64_t size;
	int prot = writable ? PROT_READ | PROT_WRITE : PROT_READ;
	void *base;
	int r;

	r = nic_memfd_check(fd, &size);
	if (r < 0)
		return r;
	if (bytes == 0 || !range_fits(offset, bytes, size) ||
	    page_range_overflows(offset, bytes, page_bytes(), &range))
		return -EINVAL;
	base = mmap(NULL, range.bytes, prot, MAP_SHARED, fd, (off_t)range.start);
	if (base == MAP_FAILED)
		return map_errno();
	leave_out_of_core(base, range.bytes);
	*ret_map = (struct soft_map){
		.base = base, .bytes = range.bytes, .data = (uint8_t *)base + range.head};
	return 0;
}

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* In slices: mmap() on another thread waits for one slice at most. */
int soft_map_populate(struct soft_map *map, uint64_t bytes)
{
	size_t left = bytes ? (size_t)(map->data - (uint8_t *)map->base) + bytes : 0;

	for (uint8_t *at = map->base; left > 0;) {
		size_t slice = left < POPULATE_SLICE_BYTES ? left : POPULATE_SLICE_BYTES;

		/* Kernels before 5.14 do not know it: pages then come when they are touched. */
		if (madvise(at, slice, MADV_POPULATE_WRITE) < 0)
			return errno == EINVAL ? 0 : -ENOMEM;
		at += slice;
		left -= slice;
	}
	return 0;
}

/* In slices: nobody else's mmap() waits for all of it. */
static void unmap(void *base, size_t bytes)
{
	for (uint8_t *at = base; bytes > 0;) {
		size_t slice = bytes < UNMAP_SLICE_BYTES ? bytes : UNMAP_SLICE_BYTES;

		munmap(at, slice);
		at += slice;
		bytes -= slice;
	}
}

struct unmapping {
	struct later later;
	void *base;
	size_t bytes;
};

static void run_unmapping(struct later *later)
{
	struct unmapping *unmapping = container_of(later, struct unmapping, later);

	unmap(unmapping->base, unmapping->bytes);
	free(unmapping);
}

/* When its client has died the daemon is the last who has the memory, and the kernel gives it back here and now. */
static bool unmap_later(const struct soft_map *map)
{
	struct unmapping *unmapping = map->bytes < UNMAP_LATER_BYTES ? NULL : malloc(sizeof(*unmapping));

	if (!unmapping)
		return false;
	*unmapping = (struct unmapping){.later.fn = run_unmapping, .base = map->base, .bytes = map->bytes};
	if (later_run(&unmapping->later) == 0)
		return true;
	free(unmapping);
	return false;
}

void soft_map_deinit(struct soft_map *map)
{
	if (map->base && !unmap_later(map))
		unmap(map->base, map->bytes);
	memset(map, 0, sizeof(*map));
}

int soft_map_adopt(int fd, size_t bytes, struct soft_map *ret_map, int *ret_fd)
{
	void *base;
	int r = nic_mem_adopt(fd, bytes, ret_fd, &base);

	if (r < 0)
		return r;
	leave_out_of_core(base, bytes);
	*ret_map = (struct soft_map){.base = base, .bytes = bytes, .data = base};
	return 0;
}

int soft_map_create(const char *name, size_t bytes, struct soft_map *ret_map, int *ret_fd)
{
	void *base;
	int r = nic_mem_create(name, bytes, 0, ret_fd, &base);

	if (r < 0)
		return r;
	leave_out_of_core(base, bytes);
	*ret_map = (struct soft_map){.base = base, .bytes = bytes, .data = base};
	return 0;
}
