/* SPDX-License-Identifier: Apache-2.0 */
/* The symmetric heap (section 9.3). A call that finds no room returns NULL; any other failure ends the job. */
#include <errno.h>

#include "libclient/compat/openshmem/openshmem.h"

/* *ptr is read after the call that writes it. */
static void *result(const char *name, int r, void *const *ptr)
{
	if (r && r != -ENOMEM)
		osh_fail(name, r);
	return r ? NULL : *ptr;
}

void *pshmem_malloc(size_t size)
{
	void *ptr = NULL;

	return result("shmem_malloc", shmd_malloc(osh.world, size, 0, &ptr), &ptr);
}
OSH_WEAK(shmem_malloc, pshmem_malloc)

void *pshmem_calloc(size_t count, size_t size)
{
	void *ptr = NULL;

	return result("shmem_calloc", shmd_calloc(osh.world, count, size, 0, &ptr), &ptr);
}
OSH_WEAK(shmem_calloc, pshmem_calloc)

/* An address that is a multiple of alignment, otherwise a null pointer: also where no address can be one. */
void *pshmem_align(size_t alignment, size_t size)
{
	void *ptr = NULL;

	if (!alignment || (alignment & (alignment - 1)))
		return NULL;
	return result("shmem_align", shmd_align(osh.world, alignment, size, 0, &ptr), &ptr);
}
OSH_WEAK(shmem_align, pshmem_align)

void *pshmem_malloc_with_hints(size_t size, long hints)
{
	uint32_t mine = (hints & SHMEM_MALLOC_ATOMICS_REMOTE ? SHMD_HINT_ATOMICS : 0) |
			(hints & SHMEM_MALLOC_SIGNAL_REMOTE ? SHMD_HINT_SIGNALS : 0);
	void *ptr = NULL;

	return result("shmem_malloc_with_hints", shmd_malloc(osh.world, size, mine, &ptr), &ptr);
}
OSH_WEAK(shmem_malloc_with_hints, pshmem_malloc_with_hints)

void *pshmem_realloc(void *ptr, size_t size)
{
	void *moved = NULL;

	if (ptr && !size) {
		pshmem_free(ptr);
		return NULL;
	}
	return result("shmem_realloc", shmd_realloc(osh.world, ptr, size, &moved), &moved);
}
OSH_WEAK(shmem_realloc, pshmem_realloc)

/* A barrier on entry, unless nothing is freed: operations of all PEs on the memory are complete before it serves again. */
void pshmem_free(void *ptr)
{
	if (!ptr)
		return;
	osh_check("shmem_free", shmd_barrier_all(osh.world));
	osh_check("shmem_free", shmd_free(osh.world, ptr));
}
OSH_WEAK(shmem_free, pshmem_free)
