/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of chunks: sealed memfds, of huge pages if they are wanted and free.
 *
 * A peer that maps a file which its owner could shorten would die of SIGBUS, so the size is sealed, and the seals too. Huge
 * pages are reserved before anybody uses the file, for the same reason: a huge page that is missing when it is touched is a
 * SIGBUS.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <shmemclient.h>

#include "libclient/runtime/heap/heap-map.h"
#include "proto/base/cleanup.h"
#include "proto/base/overflow.h"
#include "proto/base/page.h"
#include "proto/base/show.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x8U /* Linux 6.3 */
#endif
#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21U << 26)
#endif

int heap_chunk_round(uint64_t bytes, uint64_t *ret_bytes)
{
	if (align_up_overflows(bytes ? bytes : 1, HEAP_MAP_STEP, ret_bytes))
		return shmd_error_set(-EOVERFLOW, "a chunk of %" PRIu64 " bytes is too large", bytes);
	return 0;
}

/* Some systems refuse a memfd that could be executed; older kernels do not know the flag. */
static int make_memfd(unsigned int flags)
{
	int fd;

	flags |= MFD_CLOEXEC | MFD_ALLOW_SEALING;
	fd = memfd_create("shmd-heap", flags | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("shmd-heap", flags);
	return fd < 0 ? -errno : fd;
}

/* A mapping reserves the pages of a file for as long as the file is there, not only while it is mapped. */
static int reserve_huge_pages(int fd, uint64_t total)
{
	void *at = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		return -errno;
	munmap(at, total);
	return 0;
}

/* Descriptor or negative errno. */
static int make_huge(uint64_t total)
{
	_cleanup_close_ int fd = make_memfd(MFD_HUGETLB | MFD_HUGE_2MB);
	int r;

	if (fd < 0)
		return fd;
	if (ftruncate(fd, (off_t)total) < 0)
		return -errno;
	r = reserve_huge_pages(fd, total);
	return r < 0 ? r : take_fd(&fd);
}

static int make_ordinary(uint64_t total)
{
	_cleanup_close_ int fd = make_memfd(0);

	if (fd < 0)
		return fd;
	if (ftruncate(fd, (off_t)total) < 0)
		return -errno;
	return take_fd(&fd);
}

static int make_huge_or_say_why(uint64_t total, struct heap_memory *memory)
{
	const uint64_t n = total / HEAP_MAP_STEP;
	int fd = make_huge(total);

	if (fd >= 0)
		memory->page_bytes = HEAP_MAP_STEP;
	else if (fd == -ENOMEM)
		snprintf(memory->why, sizeof(memory->why),
			 "%" PRIu64 " huge page%s of 2 MiB %s not free; see vm.nr_hugepages and "
			 "vm.nr_overcommit_hugepages", n, plural_s(n), n == 1 ? "is" : "are");
	else
		snprintf(memory->why, sizeof(memory->why), "the kernel makes no huge pages of 2 MiB: %s", strerror(-fd));
	return fd;
}

int heap_memory_new(const struct heap_memory_attr *attr, struct heap_memory *ret_memory)
{
	struct heap_memory memory = {.page_bytes = page_bytes()};
	_cleanup_close_ int fd = -1;
	uint64_t total;

	if (!attr->n_local || !attr->bytes || attr->bytes % HEAP_MAP_STEP ||
	    mul_overflows(attr->bytes, attr->n_local, &total) ||
	    total > INT64_MAX)
		return shmd_error_set(-EINVAL, "a chunk of %u times %" PRIu64 " bytes cannot be", attr->n_local, attr->bytes);
	if (attr->is_huge)
		fd = make_huge_or_say_why(total, &memory);
	if (fd < 0)
		fd = make_ordinary(total);
	if (fd < 0)
		return shmd_error_set(fd, "cannot make a memfd of %" PRIu64 " bytes for a chunk of the heap: %s", total,
				      strerror(-fd));
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return shmd_error_set(-errno, "cannot seal a chunk of the heap: %s", strerror(errno));
	memory.fd = take_fd(&fd);
	*ret_memory = memory;
	return 0;
}
