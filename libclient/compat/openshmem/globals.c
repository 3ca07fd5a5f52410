/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Global and static data of the program as symmetric memory (section 3).
 *
 * A buffer of the runtime, as large as the writable data of the executable (.data, .bss; not what the linker made read-only after the start),
 * becomes symmetric: its memory appears in the range of the heap, at one offset on all PEs. Then the data is copied there, and the same memory
 * takes the place of the data. A symmetric address of the program that lies in the data is translated to the place in the heap
 * (osh_symmetric), so executables may lie at different addresses.
 *
 * With large data (-mcmodel=medium) the executable has two such segments; they become one range.
 *
 * Threads that the program has already are stopped while the data is copied and exchanged, all in all (stopped.c); so are those that are left
 * in finalize. Where the kernel does not allow that they run on, and what they write meanwhile may be lost.
 * Not moved: data of shared libraries, thread-local data, and that of an executable without a dynamic linker, whose C library is in the same
 * data. A forked child gets a private copy of what the data was before the fork.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "libclient/compat/openshmem/openshmem.h"

#define MAX_GAP ((uintptr_t)4 << 20) /* bytes between two segments; a linker leaves at most its largest page */

/* In whole pages. */
struct range {
	uintptr_t begin, end;
	uintptr_t zeros_begin, zeros_end; /* the largest part that comes from no file */
	bool is_dynamic;
};

static uintptr_t page_up(uintptr_t at)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	return (at + page - 1) / page * page;
}

static uintptr_t page_down(uintptr_t at)
{
	return page_up(at + 1) - (uintptr_t)sysconf(_SC_PAGESIZE);
}

/* Makes one range of two: memory of zeros between them, if nothing is mapped there. */
static bool fill_gap(uintptr_t begin, uintptr_t end)
{
	void *at;

	if (begin == end)
		return true;
	if (end - begin > MAX_GAP)
		return false;
	at = mmap((void *)begin, end - begin, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (at == (void *)begin)
		return true;
	/* A kernel before 4.17 takes another place. */
	if (at != MAP_FAILED)
		munmap(at, end - begin);
	return false;
}

/* A writable segment behind the ones before. */
static void add_segment(struct range *range, uintptr_t begin, uintptr_t end)
{
	if (begin >= end)
		return;
	if (!range->end || !fill_gap(range->end, begin))
		range->begin = begin;
	range->end = end;
}

/* The end of the whole pages that the dynamic linker has made read-only. */
static uintptr_t read_only_end(const struct dl_phdr_info *info)
{
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO)
			return page_down(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz);
	return 0;
}

static void note_zeros(struct range *range, uintptr_t begin, uintptr_t end)
{
	if (end - begin <= range->zeros_end - range->zeros_begin || end < begin)
		return;
	range->zeros_begin = begin;
	range->zeros_end = end;
}

/* The first object is the executable. Its segments stand in the order of their addresses. */
static int look_at_executable(struct dl_phdr_info *info, size_t size, void *cookie)
{
	struct range *range = cookie;
	uintptr_t taken = read_only_end(info);

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + part->p_vaddr;

		if (part->p_type == PT_INTERP)
			range->is_dynamic = true;
		if (part->p_type == PT_LOAD && part->p_flags & PF_W) {
			add_segment(range, page_down(at) < taken ? taken : page_down(at), page_up(at + part->p_memsz));
			taken = range->end > taken ? range->end : taken;
			note_zeros(range, page_up(at + part->p_filesz), page_up(at + part->p_memsz));
		}
	}
	return 1;
}

/* Pages of zeros stay without memory. */
static void copy_pages(uint8_t *to, const uint8_t *from, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	for (size_t at = 0; at < bytes; at += page)
		if (from[at] || memcmp(from + at, from + at + 1, page - 1))
			memcpy(to + at, from + at, page);
}

/* Shared memory that has holes, by its descriptor: to look at a hole would fill it, for all PEs that map it. -1: by looking. */
static void copy_shared(uint8_t *to, const uint8_t *from, size_t bytes, int fd)
{
	off_t at = fd < 0 ? -1 : lseek(fd, 0, SEEK_DATA), end;

	if (fd < 0)
		copy_pages(to, from, bytes);
	for (; at >= 0 && (size_t)at < bytes; at = lseek(fd, end, SEEK_DATA)) {
		end = lseek(fd, at, SEEK_HOLE);
		if (end < 0 || (size_t)end > bytes)
			end = (off_t)bytes;
		memcpy(to + at, from + at, (size_t)(end - at));
	}
}

static int copy_range(uintptr_t begin, size_t bytes, void **ret_copy)
{
	void *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (copy == MAP_FAILED)
		return -errno;
	copy_shared(copy, (const uint8_t *)begin, bytes, osh.data_fd - 1);
	*ret_copy = copy;
	return 0;
}

/* A copy takes the place of the range in one step. It is gone afterwards, also if that failed. */
static int put_copy(void *copy, uintptr_t begin, size_t bytes)
{
	int r;

	if (mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)begin) != MAP_FAILED)
		return 0;
	r = -errno;
	munmap(copy, bytes);
	return r;
}

/* The range as private anonymous memory, with its contents. */
static int make_private(uintptr_t begin, size_t bytes)
{
	void *copy = NULL;
	int r = copy_range(begin, bytes, &copy);

	return r ? r : put_copy(copy, begin, bytes);
}

/* ---- fork: the parent may write to its data before the child runs at all, so the copy for the child is made before. */

static _Thread_local void *for_child;

static size_t data_bytes(void)
{
	return osh.data_end - osh.data_begin;
}

static void before_fork(void)
{
	if (data_bytes() && copy_range(osh.data_begin, data_bytes(), &for_child) < 0)
		for_child = NULL;
}

static void in_parent(void)
{
	if (for_child)
		munmap(for_child, data_bytes());
	for_child = NULL;
}

/* Without memory for a copy there is one more attempt, which may see what the parent wrote meanwhile. */
static void in_child(void)
{
	if (for_child)
		(void)put_copy(for_child, osh.data_begin, data_bytes());
	else if (data_bytes())
		(void)make_private(osh.data_begin, data_bytes());
	for_child = NULL;
}

/* Before the program's own handlers are there: so the copy has what they write before the fork, and a child's write to the copy alone. */
static void __attribute__((constructor)) watch_forks(void)
{
	(void)pthread_atfork(before_fork, in_parent, in_child);
}

/* ---- the move */

struct move {
	const struct range *range;
	uint8_t *to; /* shared memory of zeros */
	int pagemap; /* of this process; -1: it cannot be read */
};

#define PAGES_AT_ONCE 512u
#define IS_THERE (UINT64_C(3) << 62) /* in memory, or swapped out */

/* Under an emulator of programs the file is about the emulator's own pages, so one that is certainly there must be known as such. */
static int open_pagemap(void)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	off_t at = (off_t)((uintptr_t)&fd / (uintptr_t)sysconf(_SC_PAGESIZE) * 8);
	uint64_t entry;

	if (fd < 0 || (pread(fd, &entry, sizeof(entry), at) == sizeof(entry) && entry & IS_THERE))
		return fd;
	close(fd);
	return -1;
}

/* Which of the pages from `at` on were never touched, where such pages are zeros. Without the file all count as touched. */
static void look_at_pages(const struct move *move, uintptr_t at, size_t n, bool *ret_untouched)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint64_t entries[PAGES_AT_ONCE];
	bool is_known = pread(move->pagemap, entries, n * 8, (off_t)(at / page * 8)) == (ssize_t)(n * 8);

	for (size_t i = 0; i < n; i++, at += page)
		ret_untouched[i] = is_known && at >= move->range->zeros_begin && at < move->range->zeros_end && !(entries[i] & IS_THERE);
}

static void copy_touched(const struct move *move)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n;
	bool is_untouched[PAGES_AT_ONCE];

	for (uintptr_t at = move->range->begin; at < move->range->end; at += n * page) {
		n = (move->range->end - at) / page < PAGES_AT_ONCE ? (move->range->end - at) / page : PAGES_AT_ONCE;
		look_at_pages(move, at, n, is_untouched);
		for (size_t i = 0; i < n; i++)
			if (!is_untouched[i])
				copy_pages(move->to + (at - move->range->begin) + i * page, (const uint8_t *)at + i * page, page);
	}
}

/* The shared memory appears a second time, in place of the data. Other threads may be stopped. */
static int exchange(void *arg)
{
	const struct move *move = arg;
	size_t bytes = move->range->end - move->range->begin;

	copy_touched(move);
	return mremap(move->to, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)move->range->begin) == MAP_FAILED ? -errno : 0;
}

static int work(int (*run)(void *arg), void *arg, bool is_alone)
{
	int error = 0, r;

	if (is_alone)
		return run(arg);
	r = osh_while_stopped(run, arg, &error);
	if (error)
		fprintf(stderr, "the threads of the program could not be stopped (ptrace: %s), and what they wrote to its data meanwhile may be lost\n",
			strerror(-error));
	return r;
}

/* Whether the line of /proc/self/maps is that of the mapping there: device and number of its file, of which it is the beginning. */
static bool parse_map(const char *line, const void *at, struct stat *ret_file)
{
	unsigned long begin, end, offset, number;
	unsigned int major, minor;

	if (sscanf(line, "%lx-%lx %*4s %lx %x:%x %lu", &begin, &end, &offset, &major, &minor, &number) != 6 || begin != (uintptr_t)at || offset)
		return false;
	ret_file->st_dev = makedev(major, minor);
	ret_file->st_ino = number;
	return true;
}

static int find_file(const void *at, struct stat *ret_file)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	bool is_found = false;

	while (maps && !is_found && fgets(line, sizeof(line), maps))
		is_found = parse_map(line, at, ret_file);
	if (maps)
		fclose(maps);
	return is_found ? 0 : -ENOENT;
}

/* A descriptor of the memory that is mapped there, which the runtime has under a number that it does not say; -1: none. */
static int open_memory(const void *at)
{
	int limit = (int)sysconf(_SC_OPEN_MAX);
	struct stat wanted = {0}, st;

	if (find_file(at, &wanted) < 0)
		return -1;
	for (int fd = 3; fd < limit && fd < 65536; fd++)
		if (!fstat(fd, &st) && st.st_ino == wanted.st_ino && st.st_dev == wanted.st_dev)
			return fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return -1;
}

static void take_place(const struct range *range, void *to, bool is_alone)
{
	struct move move = {.range = range, .to = to, .pagemap = open_pagemap()};
	int r = work(exchange, &move, is_alone);

	if (move.pagemap >= 0)
		close(move.pagemap);
	/* The others have it already. */
	if (r < 0)
		osh_fail("shmem_init", shmd_error_set(r, "the program's data cannot move: %s", strerror(-r)));
}

static int move(const struct range *range, bool is_alone)
{
	size_t bytes = range->end - range->begin;
	void *again = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0), *in_heap = NULL;
	int r;

	/* All PEs call, also one that failed so far: no memory is refused, and so all fail. */
	if (again == MAP_FAILED) {
		fprintf(stderr, "shmem_init: the program's data stays where it is: %s\n", strerror(errno));
		again = NULL;
	}
	r = shmd_buffer_register_symmetric(osh.world, again, bytes, &in_heap);
	if (r) {
		if (again)
			munmap(again, bytes);
		return r;
	}
	take_place(range, again, is_alone);
	osh.data_begin = range->begin;
	osh.data_end = range->end;
	osh.data_to_heap = (ptrdiff_t)((uintptr_t)in_heap - range->begin);
	osh.data_again = again;
	osh.data_fd = open_memory(again) + 1;
	/* A PE that is through may put into the data of one that is not. */
	osh_check("shmem_init", shmd_sync_all(osh.world));
	return 0;
}

/* There in a program with AddressSanitizer, which guards the gaps between its variables against any copy of whole pages. */
extern void __asan_init(void) __attribute__((weak));

/* A program without data of its own, or with all libraries in it, has the same on all PEs. */
void osh_globals_move(bool is_alone)
{
	static struct range range; /* of the first time, since gaps are filled then */

	if (!range.end)
		dl_iterate_phdr(look_at_executable, &range);
	if (!range.is_dynamic) {
		snprintf(osh.why_no_globals, sizeof(osh.why_no_globals), "the executable is static");
		return;
	}
	if (__asan_init) {
		snprintf(osh.why_no_globals, sizeof(osh.why_no_globals), "the program is built with AddressSanitizer");
		return;
	}
	if (range.begin < range.end && move(&range, is_alone) < 0)
		snprintf(osh.why_no_globals, sizeof(osh.why_no_globals), "%s", shmd_error_text());
	/* Next time it is the memory of this time that moves, where no page is known to be zeros. */
	range.zeros_end = range.zeros_begin;
}

static int make_range_private(void *arg)
{
	const struct range *range = arg;

	return make_private(range->begin, range->end - range->begin);
}

/* After the world has ended the memory is that of no PE but this one. */
void osh_globals_return(uintptr_t begin, uintptr_t end, void *again)
{
	struct range range = {.begin = begin, .end = end};

	if (end == begin)
		return;
	(void)work(make_range_private, &range, osh_is_alone());
	if (osh.data_fd)
		close(osh.data_fd - 1);
	munmap(again, end - begin);
}
