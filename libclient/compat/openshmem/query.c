/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about PEs, addresses and this library (sections 9.1 and 10). */
#include <string.h>

#include "libclient/compat/openshmem/openshmem.h"

int pshmem_pe_accessible(int pe)
{
	struct shmd_pe_info info;

	if (!osh.world)
		osh_fail("shmem_pe_accessible", -1);
	return pe >= 0 && pe < shmd_n_pes(osh.world) && !shmd_pe_info(osh.world, pe, &info) && info.path != SHMD_PATH_NONE &&
	       info.path != SHMD_PATH_GONE;
}
OSH_WEAK(shmem_pe_accessible, pshmem_pe_accessible)

/* In the heap of this PE, which all PEs have at the same offsets. */
static bool is_symmetric(const void *addr)
{
	const struct shmd_dev_world *dev = shmd_world_dev(osh.world);
	uintptr_t a = (uintptr_t)osh_symmetric(addr);

	for (uint32_t i = 0; i < dev->n_heaps; i++) {
		uint64_t used = __atomic_load_n(&dev->heap[i].used_bytes, __ATOMIC_ACQUIRE);

		if (dev->heap[i].own_addr && a - dev->heap[i].own_addr < used)
			return true;
	}
	return false;
}

int pshmem_addr_accessible(const void *addr, int pe)
{
	return pshmem_pe_accessible(pe) && is_symmetric(addr);
}
OSH_WEAK(shmem_addr_accessible, pshmem_addr_accessible)

void *pshmem_ptr(const void *dest, int pe)
{
	void *found = shmd_ptr(osh.world, osh_symmetric(dest), pe);

	/* The program sees its own data where it lies. */
	return found && pe == shmd_my_pe(osh.world) ? (void *)(uintptr_t)dest : found;
}
OSH_WEAK(shmem_ptr, pshmem_ptr)

void pshmem_info_get_version(int *major, int *minor)
{
	*major = SHMEM_MAJOR_VERSION;
	*minor = SHMEM_MINOR_VERSION;
}
OSH_WEAK(shmem_info_get_version, pshmem_info_get_version)

_Static_assert(sizeof(SHMEM_VENDOR_STRING) <= SHMEM_MAX_NAME_LEN, "the name fits");

void pshmem_info_get_name(char *name)
{
	memcpy(name, SHMEM_VENDOR_STRING, sizeof(SHMEM_VENDOR_STRING));
}
OSH_WEAK(shmem_info_get_name, pshmem_info_get_name)

/* For profiling libraries, which define it; here it does nothing. */
void pshmem_pcontrol(int level, ...)
{
	(void)level;
}
OSH_WEAK(shmem_pcontrol, pshmem_pcontrol)
