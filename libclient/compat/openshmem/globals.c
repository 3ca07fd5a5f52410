/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Global and static data of the program as symmetric memory (section 3).
 *
 * The writable data of the executable (.data, .bss; not what the linker made read-only after the start) becomes anonymous memory, of whole pages,
 * and then a symmetric buffer of the runtime: its memory appears a second time in the range of the heap, at one offset on all PEs. A symmetric
 * address of the program that lies in the data is translated to that place (osh_symmetric), so executables may lie at different addresses.
 *
 * With large data (-mcmodel=medium) the executable has two such segments; they become one range.
 *
 * Nothing but this thread writes to the data meanwhile: init comes before the threads of a program.
 * Not moved: data of shared libraries, thread-local data, and that of an executable without a dynamic linker, whose C library is in the same
 * data. A forked child gets a private copy of what the data was before the fork.
 */
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libclient/compat/openshmem/openshmem.h"

#define MAX_GAP ((uintptr_t)4 << 20) /* bytes between two segments; a linker leaves at most its largest page */

/* In whole pages. */
struct range {
	uintptr_t begin, end;
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

static int copy_range(uintptr_t begin, size_t bytes, void **ret_copy)
{
	void *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (copy == MAP_FAILED)
		return -errno;
	copy_pages(copy, (const uint8_t *)begin, bytes);
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
	void *copy;
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

static int move(const struct range *range)
{
	size_t bytes = range->end - range->begin;
	void *in_heap = NULL;
	int r = make_private(range->begin, bytes);

	/* All PEs call, also one that failed so far: its memory is refused, and so all fail. */
	if (r)
		fprintf(stderr, "shmem_init: the program's data stays where it is: %s\n", strerror(-r));
	r = shmd_buffer_register_symmetric(osh.world, (void *)range->begin, bytes, &in_heap);
	if (r)
		return r;
	osh.data_begin = range->begin;
	osh.data_end = range->end;
	osh.data_to_heap = (ptrdiff_t)((uintptr_t)in_heap - range->begin);
	return 0;
}

/* There in a program with AddressSanitizer, which guards the gaps between its variables against any copy of whole pages. */
extern void __asan_init(void) __attribute__((weak));

/* A program without data of its own, or with all libraries in it, has the same on all PEs. */
void osh_globals_move(void)
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
	if (range.begin < range.end && move(&range) < 0)
		snprintf(osh.why_no_globals, sizeof(osh.why_no_globals), "%s", shmd_error_text());
}

/* After the world has ended the memory is that of no PE but this one. */
void osh_globals_return(uintptr_t begin, uintptr_t end)
{
	if (end > begin)
		(void)make_private(begin, end - begin);
}
