/* SPDX-License-Identifier: Apache-2.0 */
/* Memory apart from addresses: a handle is a memfd, whose duplicate an export gives out. See fake-cuda.h. */
#include "tests/lib/fake-cuda-private.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_RESERVED 64
#define MAX_MAPPED 256

/* A range of addresses of the GPU's: reserved, or one in which memory is mapped. */
struct span {
	uint64_t addr;
	size_t bytes; /* 0: unused */
	int fd; /* of what is mapped there, until it is accessible; -1 */
};

static struct span reserved[MAX_RESERVED], mapped[MAX_MAPPED];

int fake_cuda_is_mapped(const void *at, size_t bytes)
{
	int found = 0;

	for (int i = 0; i < MAX_MAPPED && !found; i++)
		found = fake_cuda_holds((const char *)(uintptr_t)mapped[i].addr, mapped[i].bytes, at, bytes);
	return found;
}

int fake_cuda_fd_of_mapped(const void *at, size_t bytes)
{
	for (int i = 0; i < MAX_MAPPED; i++)
		if (mapped[i].addr == (uintptr_t)at && bytes <= mapped[i].bytes)
			return mapped[i].fd;
	return -1;
}

#define STEP (2u << 20)

struct memory_attr {
	int kind, handle_kinds, place_kind, gpu;
	void *unused;
	unsigned char flags[8];
};

struct memory_access {
	int place_kind, gpu, flags;
};

static struct span *span_free(struct span *spans, int n)
{
	for (int i = 0; i < n; i++)
		if (!spans[i].bytes)
			return &spans[i];
	abort();
}

static struct span *span_at(struct span *spans, int n, uint64_t addr, size_t bytes)
{
	for (int i = 0; i < n; i++)
		if (spans[i].bytes && spans[i].addr == addr && spans[i].bytes == bytes)
			return &spans[i];
	return NULL;
}

static int overlaps(const struct span *spans, int n, uint64_t addr, size_t bytes)
{
	for (int i = 0; i < n; i++)
		if (spans[i].bytes && addr < spans[i].addr + spans[i].bytes && spans[i].addr < addr + bytes)
			return 1;
	return 0;
}

static int memory_check(const struct memory_attr *attr)
{
	/* For NICs, as the attribute says that it can be. */
	if (attr->flags[0] || attr->flags[1] != 1)
		return INVALID_VALUE;
	return attr->kind == 1 && attr->handle_kinds == 1 && attr->place_kind == 1 && attr->gpu >= 0 && attr->gpu < FAKE_CUDA_GPUS ?
		       OK : INVALID_VALUE;
}

EXPORT int cuMemGetAllocationGranularity(size_t *bytes, const struct memory_attr *attr, int which);
int cuMemGetAllocationGranularity(size_t *bytes, const struct memory_attr *attr, int which)
{
	ENTER(0);
	*bytes = STEP;
	return which ? INVALID_VALUE : memory_check(attr);
}

EXPORT int cuMemCreate(unsigned long long *memory, size_t bytes, const struct memory_attr *attr, unsigned long long flags);
int cuMemCreate(unsigned long long *memory, size_t bytes, const struct memory_attr *attr, unsigned long long flags)
{
	int fd;

	ENTER(0);
	if (flags || !bytes || bytes % STEP || memory_check(attr))
		return INVALID_VALUE;
	fd = memfd_create("fake-cuda-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		abort();
	/* As dirty as a GPU's. */
	if (pwrite(fd, "\xa5\xa5\xa5\xa5\xa5\xa5\xa5\xa5", 8, 0) != 8)
		abort();
	fake_cuda_counted.memories++;
	*memory = (unsigned long long)fd;
	return OK;
}

EXPORT int cuMemRelease(unsigned long long memory);
int cuMemRelease(unsigned long long memory)
{
	ENTER(0);
	if (close((int)memory))
		return INVALID_VALUE;
	fake_cuda_counted.memories--;
	return OK;
}

/* The span in which the byte is mapped. */
static struct span *span_with(uint64_t addr)
{
	for (int i = 0; i < MAX_MAPPED; i++)
		if (mapped[i].bytes && addr >= mapped[i].addr && addr - mapped[i].addr < mapped[i].bytes)
			return &mapped[i];
	return NULL;
}

EXPORT int cuMemGetAddressRange_v2(uint64_t *begin, size_t *bytes, uint64_t addr);
int cuMemGetAddressRange_v2(uint64_t *begin, size_t *bytes, uint64_t addr)
{
	const struct span *span;

	ENTER(0);
	if (fake_cuda_find_allocation((const void *)(uintptr_t)addr, begin, bytes))
		return OK;
	span = span_with(addr);
	if (!span)
		return NOT_FOUND;
	*begin = span->addr;
	*bytes = span->bytes;
	return OK;
}

EXPORT int cuMemRetainAllocationHandle(unsigned long long *memory, void *addr);
int cuMemRetainAllocationHandle(unsigned long long *memory, void *addr)
{
	const struct span *span;

	ENTER(0);
	span = span_with((uintptr_t)addr);
	if (!span)
		return INVALID_VALUE;
	fake_cuda_counted.memories++;
	*memory = (unsigned long long)fcntl(span->fd, F_DUPFD_CLOEXEC, 3);
	return OK;
}

EXPORT int cuMemExportToShareableHandle(void *handle, unsigned long long memory, int kind, unsigned long long flags);
int cuMemExportToShareableHandle(void *handle, unsigned long long memory, int kind, unsigned long long flags)
{
	ENTER(0);
	if (kind != 1 || flags)
		return INVALID_VALUE;
	*(int *)handle = fcntl((int)memory, F_DUPFD_CLOEXEC, 3);
	return OK;
}

EXPORT int cuMemImportFromShareableHandle(unsigned long long *memory, void *handle, int kind);
int cuMemImportFromShareableHandle(unsigned long long *memory, void *handle, int kind)
{
	int fd;

	ENTER(0);
	fd = kind == 1 ? fcntl((int)(uintptr_t)handle, F_DUPFD_CLOEXEC, 3) : -1;
	if (fd < 0)
		return INVALID_VALUE;
	fake_cuda_counted.memories++;
	*memory = (unsigned long long)fd;
	return OK;
}

EXPORT int cuMemAddressReserve(uint64_t *addr, size_t bytes, size_t align, uint64_t wish, unsigned long long flags);
int cuMemAddressReserve(uint64_t *addr, size_t bytes, size_t align, uint64_t wish, unsigned long long flags)
{
	uint64_t at;
	char *all;

	ENTER(0);
	if (!bytes || bytes % STEP || align > STEP || wish || flags)
		return INVALID_VALUE;
	all = mmap(NULL, bytes + STEP, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (all == MAP_FAILED)
		return 2;
	at = ((uintptr_t)all + STEP - 1) / STEP * STEP;
	if (at > (uintptr_t)all)
		munmap(all, at - (uintptr_t)all);
	munmap((void *)(uintptr_t)(at + bytes), (uintptr_t)all + STEP - at);
	*span_free(reserved, MAX_RESERVED) = (struct span){at, bytes, -1};
	fake_cuda_counted.reserved++;
	*addr = at;
	return OK;
}

EXPORT int cuMemAddressFree(uint64_t addr, size_t bytes);
int cuMemAddressFree(uint64_t addr, size_t bytes)
{
	struct span *span;

	ENTER(0);
	span = span_at(reserved, MAX_RESERVED, addr, bytes);
	if (!span || overlaps(mapped, MAX_MAPPED, addr, bytes))
		return INVALID_VALUE;
	munmap((void *)(uintptr_t)addr, bytes);
	span->bytes = 0;
	fake_cuda_counted.reserved--;
	return OK;
}

static int is_reserved(uint64_t addr, size_t bytes)
{
	for (int i = 0; i < MAX_RESERVED; i++)
		if (reserved[i].bytes && addr >= reserved[i].addr && addr + bytes <= reserved[i].addr + reserved[i].bytes)
			return 1;
	return 0;
}

EXPORT int cuMemMap(uint64_t addr, size_t bytes, size_t offset, unsigned long long memory, unsigned long long flags);
int cuMemMap(uint64_t addr, size_t bytes, size_t offset, unsigned long long memory, unsigned long long flags)
{
	ENTER(0);
	if (offset || flags || !bytes || bytes % STEP || addr % STEP || !is_reserved(addr, bytes) ||
	    overlaps(mapped, MAX_MAPPED, addr, bytes) || lseek((int)memory, 0, SEEK_END) < (off_t)bytes)
		return INVALID_VALUE;
	*span_free(mapped, MAX_MAPPED) = (struct span){addr, bytes, fcntl((int)memory, F_DUPFD_CLOEXEC, 3)};
	fake_cuda_counted.mapped++;
	return OK;
}

EXPORT int cuMemSetAccess(uint64_t addr, size_t bytes, const struct memory_access *access, size_t n);
int cuMemSetAccess(uint64_t addr, size_t bytes, const struct memory_access *access, size_t n)
{
	struct span *span;

	ENTER(0);
	span = span_at(mapped, MAX_MAPPED, addr, bytes);
	if (!span || n != 1 || access->place_kind != 1 || access->flags != 3)
		return INVALID_VALUE;
	if (mmap((void *)(uintptr_t)addr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, span->fd, 0) == MAP_FAILED)
		abort();
	return OK;
}

EXPORT int cuMemUnmap(uint64_t addr, size_t bytes);
int cuMemUnmap(uint64_t addr, size_t bytes)
{
	struct span *span;

	ENTER(0);
	span = span_at(mapped, MAX_MAPPED, addr, bytes);
	if (!span)
		return INVALID_VALUE;
	if (mmap((void *)(uintptr_t)addr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		abort();
	close(span->fd);
	span->bytes = 0;
	fake_cuda_counted.mapped--;
	return OK;
}
