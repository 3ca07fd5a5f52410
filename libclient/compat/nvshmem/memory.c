/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symmetric heap, in GPU memory.
 *
 * A free marks the memory and waits for nobody: programs free in the order of their garbage collection, which differs among PEs. Memory that all
 * PEs have freed serves a later allocation. After finalize a free does nothing, since all memory has gone with the job.
 */
#include <errno.h>

#include "libclient/compat/nvshmem/ibgda.h"

#define ALIGNMENT 512u

static void *allocate(const char *name, size_t alignment, size_t bytes)
{
	void *memory = NULL;
	int r = nvs_ready();

	if (!bytes && !r)
		return NULL;
	pthread_mutex_lock(&nvs.lock);
	if (!r)
		r = shmd_align(nvs.world, alignment < ALIGNMENT ? ALIGNMENT : alignment, bytes, SHMD_HINT_GPU, &memory);
	if (!r) {
		r = nvs_ibgda_follow();
		if (r < 0)
			(void)shmd_free(nvs.world, memory);
	}
	pthread_mutex_unlock(&nvs.lock);
	if (r < 0)
		(void)nvs_fail(name, r);
	return r ? NULL : memory;
}

NVS_API void *nvshmem_malloc(size_t bytes);
void *nvshmem_malloc(size_t bytes)
{
	return allocate("nvshmem_malloc", ALIGNMENT, bytes);
}

NVS_API void *nvshmem_align(size_t alignment, size_t bytes);
void *nvshmem_align(size_t alignment, size_t bytes)
{
	if (alignment && !(alignment & (alignment - 1)))
		return allocate("nvshmem_align", alignment, bytes);
	(void)nvs_fail("nvshmem_align", shmd_error_set(-EINVAL, "the alignment %zu is no power of two", alignment));
	return NULL;
}

NVS_API void nvshmem_free(void *memory);
/* It ends when all PEs have zeroed theirs, so no PE puts into memory that another one zeroes later; if one cannot, none gets the memory. */
NVS_API void *nvshmem_calloc(size_t n, size_t bytes);
void *nvshmem_calloc(size_t n, size_t bytes)
{
	void *memory;
	size_t all;
	int r;

	if (__builtin_mul_overflow(n, bytes, &all)) {
		(void)nvs_fail("nvshmem_calloc", shmd_error_set(-ENOMEM, "%zu times %zu bytes are more than any memory", n, bytes));
		return NULL;
	}
	memory = allocate("nvshmem_calloc", ALIGNMENT, all);
	if (!memory)
		return NULL;
	pthread_mutex_lock(&nvs.lock);
	r = nvs_agree(device_zero(nvs.device, (uint64_t)(uintptr_t)memory, all));
	pthread_mutex_unlock(&nvs.lock);
	if (r < 0) {
		(void)nvs_fail("nvshmem_calloc", r);
		nvshmem_free(memory);
	}
	return r < 0 ? NULL : memory;
}

/* Not nvs.lock, which another thread has while it waits for other PEs in an allocation. */
void nvshmem_free(void *memory)
{
	if (!nvs_is_running())
		return;
	pthread_mutex_lock(&nvs.frees);
	if (nvs.status == NVS_STATUS_INITIALIZED)
		(void)nvs_result("nvshmem_free", shmd_free(nvs.world, memory));
	pthread_mutex_unlock(&nvs.frees);
}

/* NULL also for what is not symmetric: programs ask. */
NVS_API void *nvshmem_ptr(const void *memory, int pe);
void *nvshmem_ptr(const void *memory, int pe)
{
	return nvs_ready() ? NULL : shmd_ptr(nvs.world, memory, pe);
}

/* There is no multicast. */
NVS_API void *nvshmemx_mc_ptr(int32_t team, const void *memory);
void *nvshmemx_mc_ptr(int32_t team, const void *memory)
{
	(void)team;
	(void)memory;
	return NULL;
}

/* ---- memory of the program's as symmetric memory */

/* The runtime would take memory of the host, too, into a heap that kernels here do not look at. */
static int check_buffer(const void *memory)
{
	if (!nvs.device->cuda->address_range)
		return nvs_lacks("cuMemGetAddressRange");
	return device_has_memory_at(nvs.device, (uintptr_t)memory) ? 0 : shmd_error_set(-EINVAL, "%p is no memory of a GPU", memory);
}

/* PEs that cannot pass their buffer say so before any of them goes on. */
static void *register_symmetric(const char *name, void *memory, size_t bytes)
{
	void *symmetric = NULL;
	int r = nvs_ready();

	pthread_mutex_lock(&nvs.lock);
	if (!r && nvs.ibgda)
		r = shmd_error_set(-EOPNOTSUPP, "a job with queues takes no memory of the program's as symmetric memory");
	else if (!r)
		r = nvs_agree(check_buffer(memory));
	if (!r)
		r = shmd_buffer_register_symmetric(nvs.world, memory, bytes, &symmetric);
	pthread_mutex_unlock(&nvs.lock);
	return nvs_result(name, r) ? NULL : symmetric;
}

NVS_API void *nvshmemx_buffer_register_symmetric(void *memory, size_t bytes, int flags);
void *nvshmemx_buffer_register_symmetric(void *memory, size_t bytes, int flags)
{
	(void)flags;
	return register_symmetric("nvshmemx_buffer_register_symmetric", memory, bytes);
}

/* The address is a wish; symmetric memory is where the heap is. */
NVS_API void *nvshmemx_buffer_register_symmetric_at_preferred_address(void *memory, size_t bytes, void *address, int flags);
void *nvshmemx_buffer_register_symmetric_at_preferred_address(void *memory, size_t bytes, void *address, int flags)
{
	(void)address;
	(void)flags;
	return register_symmetric("nvshmemx_buffer_register_symmetric_at_preferred_address", memory, bytes);
}

NVS_API int nvshmemx_buffer_unregister_symmetric(void *symmetric, size_t bytes);
int nvshmemx_buffer_unregister_symmetric(void *symmetric, size_t bytes)
{
	int r = nvs_ready();

	(void)bytes;
	pthread_mutex_lock(&nvs.lock);
	/* The runtime does not know the copies of the host here. */
	if (!r)
		r = nvs_agree(nvs_quiet());
	if (!r)
		r = shmd_buffer_unregister_symmetric(nvs.world, symmetric);
	pthread_mutex_unlock(&nvs.lock);
	return nvs_result("nvshmemx_buffer_unregister_symmetric", r);
}

/* ---- memory of the program's as the local side of operations */

/* Where all PEs are mapped any memory of the host or of a GPU may be the local side of an operation; NICs know what is registered. */
NVS_API int nvshmemx_buffer_register(void *memory, size_t bytes);
int nvshmemx_buffer_register(void *memory, size_t bytes)
{
	int r = nvs_ready();

	pthread_mutex_lock(&nvs.lock);
	if (!r)
		r = nvs_ibgda_buffer_add(memory, bytes);
	pthread_mutex_unlock(&nvs.lock);
	return nvs_result("nvshmemx_buffer_register", r);
}

NVS_API int nvshmemx_buffer_unregister(void *memory);
int nvshmemx_buffer_unregister(void *memory)
{
	int r = nvs_ready();

	pthread_mutex_lock(&nvs.lock);
	if (!r)
		r = nvs_ibgda_buffer_remove(memory);
	pthread_mutex_unlock(&nvs.lock);
	return nvs_result("nvshmemx_buffer_unregister", r);
}

NVS_API void nvshmemx_buffer_unregister_all(void);
void nvshmemx_buffer_unregister_all(void)
{
	int r = nvs_ready();

	pthread_mutex_lock(&nvs.lock);
	if (!r)
		r = nvs_ibgda_buffers_remove();
	pthread_mutex_unlock(&nvs.lock);
	(void)nvs_result("nvshmemx_buffer_unregister_all", r);
}
