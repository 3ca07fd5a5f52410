/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that can be handed to the daemon: sealed memfds.
 *
 * If a memfd could shrink, its owner could make every other process that maps it fault, so the library seals it before
 * another process gets it. Adopting moves existing memory: its contents go into a memfd that then takes
 * its place at the same addresses. The copy is complete before the range is touched; if the kernel refuses the exchange, the
 * library restores the range.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libclient/objects.h"
#include "proto/base/overflow.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x8U /* Linux 6.3 */
#endif

int mem_seal(int fd, int seals)
{
	int present = fcntl(fd, F_GET_SEALS);

	if (present < 0)
		return -errno;
	if ((present & seals) == seals)
		return 0;
	return fcntl(fd, F_ADD_SEALS, seals) < 0 ? -errno : 0;
}

int mem_fd_new(size_t bytes)
{
	_cleanup_close_ int fd = -1;
	int r;

	/* Some systems refuse a memfd that could be executed; older kernels do not know the flag. */
	fd = memfd_create("shmd-mem", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("shmd-mem", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		return text_fail(-errno, "cannot make a memfd of %zu bytes: %s", bytes, strerror(errno));
	r = mem_seal(fd, F_SEAL_SHRINK | F_SEAL_GROW);
	if (r < 0)
		return text_fail(r, "cannot seal a memfd: %s", strerror(-r));
	return take_fd(&fd);
}

void mem_free(struct shmd_mem *mem)
{
	if (mem->addr && !mem->is_adopted)
		munmap(mem->addr, mem->bytes);
	safe_close(mem->fd);
	list_del(&mem->link);
	free(mem);
}
DEFINE_CLEANUP(struct shmd_mem *, mem_free);

static struct shmd_mem *mem_new(struct shmd_client *client, size_t bytes)
{
	struct shmd_mem *mem = calloc(1, sizeof(*mem));

	if (!mem)
		return NULL;
	list_init(&mem->link);
	mem->client = client;
	mem->bytes = bytes;
	mem->fd = -1;
	return mem;
}

static void mem_add(struct shmd_mem *mem)
{
	client_lock(mem->client);
	list_add_tail(&mem->client->mems, &mem->link);
	client_unlock(mem->client);
}

int shmd_mem_alloc(struct shmd_client *client, size_t bytes, struct shmd_mem **ret_mem)
{
	_cleanup_(mem_freep) struct shmd_mem *mem = NULL;
	uint64_t rounded;
	void *addr;
	int r = client_check(client);

	if (r < 0)
		return r;
	if (!bytes || !ret_mem || align_up_overflows(bytes, page_bytes(), &rounded) ||
	    rounded > INT64_MAX)
		return text_fail(-EINVAL, "%zu bytes cannot be allocated, or ret_mem is NULL", bytes);
	mem = mem_new(client, rounded);
	if (!mem)
		return text_fail(-ENOMEM, "no memory for a memory object");
	mem->fd = mem_fd_new(rounded);
	if (mem->fd < 0)
		return mem->fd;
	addr = mmap(NULL, rounded, PROT_READ | PROT_WRITE, MAP_SHARED, mem->fd, 0);
	if (addr == MAP_FAILED)
		return text_fail(-errno, "cannot map %zu bytes: %s", mem->bytes, strerror(errno));
	mem->addr = addr;
	mem_add(mem);
	*ret_mem = take_ptr(mem);
	return 0;
}

/* ---- adopting */

struct map_line {
	uint64_t start, end, inode;
	char perms[8];
	char name[64];
};

static bool parse_map_line(const char *line, struct map_line *ret_map)
{
	ret_map->name[0] = 0;
	return sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %*x %*x:%*x %" SCNu64 " %63s", &ret_map->start,
		      &ret_map->end, ret_map->perms, &ret_map->inode, ret_map->name) >= 4;
}

static bool is_private_anonymous(const struct map_line *map)
{
	if (strncmp(map->perms, "rw", 2) || map->perms[3] != 'p' || map->inode)
		return false;
	/* Stacks and the kernel's own mappings have names; the heap and named anonymous memory may move. */
	return !map->name[0] || !strcmp(map->name, "[heap]") || !strncmp(map->name, "[anon:", 6);
}

/* 0 when every byte of the range lies in private anonymous memory that can be read and written. */
static int check_adoptable(uint64_t start, uint64_t end)
{
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	struct map_line map;
	FILE *maps = fopen("/proc/self/maps", "re");

	if (!maps)
		return text_fail(-errno, "cannot read /proc/self/maps: %s", strerror(errno));
	/* Sorted by address: `start` moves up as far as the mappings cover without a gap. */
	while (start < end && getline(&line, &size, maps) > 0) {
		if (!parse_map_line(line, &map) || map.end <= start)
			continue;
		if (map.start > start || !is_private_anonymous(&map))
			break;
		start = map.end;
	}
	fclose(maps);
	if (start < end)
		return text_fail(-EINVAL, "the memory at 0x%" PRIx64 " is not private anonymous memory that "
				 "can be read and written", start);
	return 0;
}

/* Pages of zeros stay holes. */
static void copy_pages(char *dst, const char *src, size_t bytes)
{
	static const char zeros[PAGE_BYTES];

	for (size_t done = 0; done < bytes; done += PAGE_BYTES)
		if (memcmp(src + done, zeros, PAGE_BYTES))
			memcpy(dst + done, src + done, PAGE_BYTES);
}

/* The kernel refused after it had unmapped the range: give the caller private memory with its contents back. */
static void restore_range(void *addr, const void *copy, size_t bytes)
{
	void *at = mmap(addr, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (at == addr)
		copy_pages(addr, copy, bytes);
	else if (at != MAP_FAILED)
		munmap(at, bytes);
}

#define PAGES_AT_ONCE 512u

/* How many of up to n pages in a row were never touched: anonymous ones are zeros. Without the file: none. */
static size_t count_untouched(int pagemap, const char *at, size_t n)
{
	static const uint64_t is_there = UINT64_C(3) << 62; /* in memory, or swapped out */
	uint64_t entries[PAGES_AT_ONCE];
	size_t first = 0;

	n = n < PAGES_AT_ONCE ? n : PAGES_AT_ONCE;
	if (pread(pagemap, entries, n * 8, (off_t)((uintptr_t)at / page_bytes() * 8)) != (ssize_t)(n * 8))
		return 0;
	while (first < n && !(entries[first] & is_there))
		first++;
	return first;
}

/* Under an emulator of programs the file is about the emulator's own pages, so one that is certainly there must be known as such. */
static int open_pagemap(void)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	return fd >= 0 && count_untouched(fd, (const char *)&fd, 1) ? safe_close(fd) : fd;
}

/* Looking at an untouched page would make it real, so large memory that nobody has used yet is not looked at. */
static void copy_private(char *dst, const char *src, size_t bytes)
{
	_cleanup_close_ int pagemap = open_pagemap();
	size_t page = page_bytes(), skipped, part;

	for (size_t done = 0; done < bytes; done += part) {
		skipped = count_untouched(pagemap, src + done, (bytes - done) / page);
		part = skipped ? skipped * page : bytes - done < PAGES_AT_ONCE * page ? bytes - done : PAGES_AT_ONCE * page;
		if (!skipped)
			copy_pages(dst + done, src + done, part);
	}
}

static int exchange_range(struct shmd_mem *mem, void *addr)
{
	void *copy = mmap(NULL, mem->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, mem->fd, 0);
	int r = 0;

	if (copy == MAP_FAILED)
		return text_fail(-errno, "cannot map %zu bytes: %s", mem->bytes, strerror(errno));
	copy_private(copy, addr, mem->bytes);
	if (mmap(addr, mem->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, mem->fd, 0) != addr) {
		r = text_fail(-errno, "cannot exchange the mapping: %s", strerror(errno));
		restore_range(addr, copy, mem->bytes);
	}
	munmap(copy, mem->bytes);
	return r;
}

int shmd_mem_adopt(struct shmd_client *client, void *addr, size_t bytes, struct shmd_mem **ret_mem)
{
	const uint64_t page = page_bytes();
	_cleanup_(mem_freep) struct shmd_mem *mem = NULL;
	uint64_t start = (uintptr_t)addr, end;
	int r = client_check(client);

	if (r < 0)
		return r;
	if (!addr || !bytes || !ret_mem || start % page || bytes % page || add_overflows(start, bytes, &end))
		return text_fail(-EINVAL, "the range to adopt must start and end at pages of %" PRIu64 " bytes",
				 page);
	r = check_adoptable(start, end);
	if (r < 0)
		return r;
	mem = mem_new(client, bytes);
	if (!mem)
		return text_fail(-ENOMEM, "no memory for a memory object");
	mem->is_adopted = true;
	mem->fd = mem_fd_new(bytes);
	if (mem->fd < 0)
		return mem->fd;
	r = exchange_range(mem, addr);
	if (r < 0)
		return r;
	mem->addr = addr;
	mem_add(mem);
	*ret_mem = take_ptr(mem);
	return 0;
}

/* ---- asking, freeing */

void *shmd_mem_addr(const struct shmd_mem *mem)
{
	return mem ? mem->addr : NULL;
}

size_t shmd_mem_bytes(const struct shmd_mem *mem)
{
	return mem ? mem->bytes : 0;
}

int shmd_mem_fd(const struct shmd_mem *mem)
{
	return mem ? mem->fd : -1;
}

void shmd_mem_free(struct shmd_mem *mem)
{
	struct shmd_client *client;

	if (!mem)
		return;
	client = mem->client;
	/* In a forked child the lock may be held for ever; the child's copy goes with shmd_client_close(). */
	if (client->pid != getpid())
		return;
	client_lock(client);
	gpu_forget_range(client, mem->addr);
	mem_free(mem);
	client_unlock(client);
}
