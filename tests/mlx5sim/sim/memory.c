/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of clients, mapped here. The memfds behind them are known by inode as long as something uses them, so that a
 * page that is registered twice is one page.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include <linux/magic.h>

#include "proto/base/cleanup.h"
#include "tests/mlx5sim/sim/sim.h"

struct pin_file {
	struct list link;
	uint64_t dev, ino;
	unsigned int refs;
	int fd;
};

static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list files = {&files, &files};

/* Takes the descriptor. With fd -1 only a file that is known; NULL when it is not. */
static struct pin_file *file_ref(uint64_t dev, uint64_t ino, int fd)
{
	struct pin_file *file, *found = NULL;

	pthread_mutex_lock(&files_lock);
	list_for_each_entry (file, &files, link) {
		if (file->dev == dev && file->ino == ino)
			found = file;
	}
	if (found) {
		safe_close(fd);
	} else if (fd >= 0) {
		found = calloc(1, sizeof(*found));
		if (found) {
			found->dev = dev;
			found->ino = ino;
			found->fd = fd;
			list_add_tail(&files, &found->link);
		}
	}
	if (found)
		found->refs++;
	pthread_mutex_unlock(&files_lock);
	return found;
}

static void file_unref(struct pin_file *file)
{
	pthread_mutex_lock(&files_lock);
	if (--file->refs == 0) {
		list_del(&file->link);
		close(file->fd);
		free(file);
	}
	pthread_mutex_unlock(&files_lock);
}

static void *mem_pointer(struct engine_mem *mem, uint64_t offset, size_t bytes)
{
	return container_of(mem, struct memory, mem)->base + offset;
}

static int mem_read(struct engine_mem *mem, uint64_t offset, void *dst, size_t bytes,
		    struct engine_memop *op)
{
	memcpy(dst, mem_pointer(mem, offset, bytes), bytes);
	return 0;
}

static int mem_write(struct engine_mem *mem, uint64_t offset, const void *src, size_t bytes,
		     struct engine_memop *op)
{
	memcpy(mem_pointer(mem, offset, bytes), src, bytes);
	return 0;
}

static int mem_atomic(struct engine_mem *mem, uint64_t offset, const struct engine_atomic *what,
		      uint64_t *ret_old, struct engine_memop *op)
{
	*ret_old = engine_atomic_apply(mem_pointer(mem, offset, what->bytes), what);
	return 0;
}

/*
 * As a device whose atomics are atomic with each other alone: others have the word between its read and its write, and what a CPU does to it
 * meanwhile is lost.
 */
static int mem_atomic_apart(struct engine_mem *mem, uint64_t offset, const struct engine_atomic *what,
			    uint64_t *ret_old, struct engine_memop *op)
{
	const struct timespec a_moment = {.tv_nsec = 1};
	void *word = mem_pointer(mem, offset, what->bytes);
	uint64_t value = what->bytes == 4 ? __atomic_load_n((uint32_t *)word, __ATOMIC_RELAXED)
					  : __atomic_load_n((uint64_t *)word, __ATOMIC_RELAXED);
	uint32_t narrow = (uint32_t)value;

	nanosleep(&a_moment, NULL);
	if (what->bytes == 4) {
		*ret_old = engine_atomic_apply(&narrow, what);
		__atomic_store_n((uint32_t *)word, narrow, __ATOMIC_RELEASE);
	} else {
		*ret_old = engine_atomic_apply(&value, what);
		__atomic_store_n((uint64_t *)word, value, __ATOMIC_RELEASE);
	}
	return 0;
}

static void mem_free(struct engine_mem *mem)
{
	struct memory *memory = container_of(mem, struct memory, mem);

	if (memory->base)
		munmap(memory->base, memory->bytes);
	for (unsigned int i = 0; i < memory->n_files; i++)
		file_unref(memory->files[i]);
	free(memory);
}

static const struct engine_mem_ops mem_ops = {
	.pointer = mem_pointer,
	.read = mem_read,
	.write = mem_write,
	.atomic = mem_atomic,
	.free = mem_free,
};

/* Without a pointer the engine asks for each atomic. */
static const struct engine_mem_ops mem_ops_apart = {
	.read = mem_read,
	.write = mem_write,
	.atomic = mem_atomic_apart,
	.free = mem_free,
};

static const struct engine_mem_ops *ops_of(const struct call *call)
{
	return call->ufile->sim->atomics_apart ? &mem_ops_apart : &mem_ops;
}

void memory_unref(struct memory *memory)
{
	if (memory)
		engine_mem_unref(&memory->mem);
}

static void memory_unrefp(struct memory **memory)
{
	memory_unref(*memory);
}

static int map_segment(struct memory *memory, const struct sim_segment *segment, uint64_t at,
		       bool writable, int fd)
{
	int prot = PROT_READ | (segment->writable ? PROT_WRITE : 0);
	struct pin_file *file;
	void *p;

	if (writable && !segment->writable) {
		safe_close(fd);
		return -EFAULT;
	}
	file = file_ref(segment->dev, segment->ino, fd);
	if (!file)
		return -ESTALE;
	memory->files[memory->n_files++] = file;
	p = mmap(memory->base + at, segment->bytes, prot, MAP_SHARED | MAP_FIXED, file->fd,
		 (off_t)segment->offset);
	return p == MAP_FAILED ? -errno : 0;
}

/* The descriptor of a segment, which is the caller's from now on; -1 none. */
static int fd_of_segment(const struct sim_segment *segment, int *fds, unsigned int n_fds)
{
	int index = segment->fd_index, fd;

	if (index < 0 || (unsigned int)index >= n_fds)
		return -1;
	fd = fds[index];
	fds[index] = -1;
	return fd;
}

/*
 * Maps the pages of [addr, addr + bytes) at `at`. Pages whose memfd has no owner any more, since their object is gone, are
 * pinned afresh, and no others: those beside them may be in use by something that lives.
 */
static int pin_at(struct call *call, struct memory *memory, uint64_t at, uint64_t addr,
		  uint64_t bytes, uint32_t flags, bool writable)
{
	uint64_t page = addr & ~(uint64_t)(SIM_PAGE - 1);
	struct sim_segment segments[SIM_SEGMENTS_MAX];
	int fds[SIM_SEGMENTS_MAX], n, r = 0;
	unsigned int n_fds;

	n = upcall_pin(call->reply, addr, bytes, flags, segments, fds, &n_fds);
	for (int i = 0; i < n && r == 0; i++) {
		int fd = fd_of_segment(&segments[i], fds, n_fds);

		if (segments[i].bytes > memory->bytes - at || memory->n_files == SIM_SEGMENTS_MAX) {
			safe_close(fd);
			r = -EIO;
			break;
		}
		r = map_segment(memory, &segments[i], at, writable, fd);
		if (r == -ESTALE && !(flags & SIM_PIN_AFRESH))
			r = pin_at(call, memory, at, page, segments[i].bytes, SIM_PIN_AFRESH,
				   writable);
		at += segments[i].bytes;
		page += segments[i].bytes;
	}
	for (unsigned int i = 0; i < n_fds; i++)
		safe_close(fds[i]);
	return n < 0 ? n : r;
}

static int pin(struct call *call, uint64_t addr, uint64_t bytes, bool writable,
	       struct memory **ret_memory)
{
	_cleanup_(memory_unrefp) struct memory *memory = calloc(1, sizeof(*memory));
	void *p;
	int r;

	if (!memory)
		return -ENOMEM;
	memory->bytes = (size_t)(((addr & (SIM_PAGE - 1)) + bytes + SIM_PAGE - 1) &
				 ~(uint64_t)(SIM_PAGE - 1));
	engine_mem_init(&memory->mem, ops_of(call), memory->bytes);
	p = mmap(NULL, memory->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	memory->base = p;
	r = pin_at(call, memory, 0, addr, bytes, 0, writable);
	if (r < 0)
		return r;
	*ret_memory = take_ptr(memory);
	return 0;
}

int memory_pin(struct call *call, uint64_t addr, uint64_t bytes, bool writable,
	       struct memory **ret_memory)
{
	int r;

	if (!bytes || bytes > UINT64_MAX / 2 || addr > UINT64_MAX - bytes - SIM_PAGE)
		return -EINVAL;
	r = pin(call, addr, bytes, writable, ret_memory);
	if (r == -EOPNOTSUPP)
		return call_refuse(call, r, "memory at 0x%llx cannot be shared with the simulator",
				   (unsigned long long)addr);
	return r;
}

int memory_of_memfd(int fd, uint64_t bytes, struct memory **ret_memory)
{
	struct memory *memory = calloc(1, sizeof(*memory));
	void *p;

	if (!memory)
		return -ENOMEM;
	engine_mem_init(&memory->mem, &mem_ops, bytes);
	memory->bytes = bytes;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		memory_unref(memory);
		return -ENOMEM;
	}
	memory->base = p;
	*ret_memory = memory;
	return 0;
}

/* ---- dmabufs ----------------------------------------------------------------------------------------------------- */

static int map_dmabuf(const struct call *call, struct memory *memory, int fd, uint64_t offset, uint64_t bytes, bool writable)
{
	uint64_t first = offset & ~(uint64_t)(SIM_PAGE - 1);
	off_t size = lseek(fd, 0, SEEK_END);
	void *p;

	if (size < 0 || offset > (uint64_t)size || bytes > (uint64_t)size - offset)
		return -EINVAL;
	memory->bytes = (size_t)((offset - first + bytes + SIM_PAGE - 1) & ~(uint64_t)(SIM_PAGE - 1));
	p = mmap(NULL, memory->bytes, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd,
		 (off_t)first);
	if (p == MAP_FAILED)
		return -EINVAL;
	memory->base = p;
	engine_mem_init(&memory->mem, ops_of(call), memory->bytes);
	return 0;
}

int memory_of_dmabuf(struct call *call, int fd, uint64_t offset, uint64_t bytes, bool writable,
		     struct memory **ret_memory)
{
	_cleanup_close_ int own = fd;
	struct memory *memory;
	struct statfs st;
	int r;

	if (fstatfs(own, &st) < 0 ||
	    ((unsigned long)st.f_type != DMA_BUF_MAGIC && !call->ufile->sim->memfd_dmabuf))
		return -EINVAL;
	memory = calloc(1, sizeof(*memory));
	if (!memory)
		return -ENOMEM;
	r = map_dmabuf(call, memory, own, offset, bytes, writable);
	if (r < 0) {
		free(memory);
		return r;
	}
	*ret_memory = memory;
	return 0;
}
