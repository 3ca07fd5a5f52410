/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local side of a request that a kernel has written. The runtime moves symmetric memory by CUDA or queues, and copies all other memory by the CPU,
 * which cannot touch GPU memory. So GPU memory outside the heap is refused. The thread of proxy.c calls.
 */
#include <errno.h>

#include "libclient/compat/nvshmem/proxy-requests.h"
#include "libclient/compat/nvshmem/proxy.h"

/* Host memory that CUDA has allocated or registered, all of it, and where the CPU reaches it: a GPU may know it by another address. */
static bool find_on_host(uint64_t address, uint64_t bytes, uint64_t *ret_at)
{
	const struct cuda_api *cuda = nvs.device->cuda;
	uint64_t start = 0, length = 0;
	cuda_result result;

	*ret_at = 0;
	if (device_enter(nvs.device))
		return false;
	result = cuda->pointer_attribute(ret_at, CUDA_POINTER_HOST_ADDRESS, address);
	if (result == CUDA_OK)
		result = cuda->pointer_attribute(&start, CUDA_POINTER_RANGE_START, address);
	if (result == CUDA_OK)
		result = cuda->pointer_attribute(&length, CUDA_POINTER_RANGE_BYTES, address);
	if (device_leave(nvs.device, CUDA_OK, "find memory of the host") || result != CUDA_OK || !*ret_at)
		return false;
	return address - start < length && bytes <= length - (address - start);
}

static bool is_symmetric(uint64_t address, uint64_t bytes)
{
	uint64_t last = address + bytes - 1;

	return last >= address && shmd_ptr(nvs.world, (void *)(uintptr_t)address, nvs.facts.mype) &&
	       shmd_ptr(nvs.world, (void *)(uintptr_t)last, nvs.facts.mype);
}

int nvs_proxy_local(const struct nvs_request *request, void **ret_local)
{
	void *local = (void *)(uintptr_t)request->local;
	uint64_t at = 0;

	if (!request->bytes || is_symmetric(request->local, request->bytes)) {
		*ret_local = local;
		return 0;
	}
	if (!nvs.device->cuda->pointer_attribute)
		return nvs_lacks("cuPointerGetAttribute");
	if (!find_on_host(request->local, request->bytes, &at))
		return shmd_error_set(-EINVAL,
				      "%llu bytes at %#llx on the local side are neither symmetric memory nor host memory that CUDA knows; use nvshmem_malloc() or cudaHostAlloc()",
				      (unsigned long long)request->bytes, (unsigned long long)request->local);
	*ret_local = (void *)(uintptr_t)at;
	return 0;
}
