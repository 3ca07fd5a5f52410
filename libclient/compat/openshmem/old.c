/* SPDX-License-Identifier: Apache-2.0 */
/* Names of before 1.2, and calls for machines whose caches are not coherent, which do nothing on ours. */
#include "libclient/compat/openshmem/openshmem.h"

int p_my_pe(void)
{
	return pshmem_my_pe();
}
OSH_WEAK(_my_pe, p_my_pe)

int p_num_pes(void)
{
	return pshmem_n_pes();
}
OSH_WEAK(_num_pes, p_num_pes)

void *pshmalloc(size_t size)
{
	return pshmem_malloc(size);
}
OSH_WEAK(shmalloc, pshmalloc)

void pshfree(void *ptr)
{
	pshmem_free(ptr);
}
OSH_WEAK(shfree, pshfree)

void *pshrealloc(void *ptr, size_t size)
{
	return pshmem_realloc(ptr, size);
}
OSH_WEAK(shrealloc, pshrealloc)

void *pshmemalign(size_t alignment, size_t size)
{
	return pshmem_align(alignment, size);
}
OSH_WEAK(shmemalign, pshmemalign)

void pshmem_clear_cache_inv(void)
{
}
OSH_WEAK(shmem_clear_cache_inv, pshmem_clear_cache_inv)

void pshmem_set_cache_inv(void)
{
}
OSH_WEAK(shmem_set_cache_inv, pshmem_set_cache_inv)

void pshmem_clear_cache_line_inv(void *dest)
{
	(void)dest;
}
OSH_WEAK(shmem_clear_cache_line_inv, pshmem_clear_cache_line_inv)

void pshmem_set_cache_line_inv(void *dest)
{
	(void)dest;
}
OSH_WEAK(shmem_set_cache_line_inv, pshmem_set_cache_line_inv)

void pshmem_udcflush(void)
{
}
OSH_WEAK(shmem_udcflush, pshmem_udcflush)

void pshmem_udcflush_line(void *dest)
{
	(void)dest;
}
OSH_WEAK(shmem_udcflush_line, pshmem_udcflush_line)
