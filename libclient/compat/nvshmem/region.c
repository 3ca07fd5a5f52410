/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions of the host, by which a program says that what it begins may be batched. Copies are batched by nobody here, so a region is a note of its
 * thread: one at a time, as kernels have one in a block.
 */
#include <errno.h>

#include "libclient/compat/nvshmem/nvs.h"

#define HINT_BATCH_RMA 0x1u

struct region_attrs {
	uint32_t hints;
	uint8_t reserved[60];
};
NVS_PIN_SIZE(region_attrs, 64);

static _Thread_local struct {
	uint64_t handle; /* that of the last one */
	uint32_t hints;
	bool is_active;
} region;

static int check_hints(uint32_t hints)
{
	return hints & ~HINT_BATCH_RMA ? shmd_error_set(-EINVAL, "%#x are no hints of a region", hints) : 0;
}

static int start(uint64_t *ret_handle, const struct region_attrs *attrs)
{
	uint32_t hints = attrs ? attrs->hints : 0;
	int r = ret_handle ? check_hints(hints) : shmd_error_set(-EINVAL, "there is no place for the handle of a region");

	if (r < 0)
		return r;
	if (region.is_active)
		return shmd_error_set(-EINVAL, "this thread has a region, and can have one");
	region.is_active = true;
	region.hints = hints;
	*ret_handle = ++region.handle;
	return 0;
}

NVS_API int nvshmemx_region_start(uint64_t *ret_handle, const struct region_attrs *attrs);
int nvshmemx_region_start(uint64_t *ret_handle, const struct region_attrs *attrs)
{
	int r = nvs_ready();

	return nvs_result("nvshmemx_region_start", r ? r : start(ret_handle, attrs));
}

NVS_API int nvshmemx_region_stop(uint64_t handle);
int nvshmemx_region_stop(uint64_t handle)
{
	if (!region.is_active || handle != region.handle)
		return nvs_fail("nvshmemx_region_stop", shmd_error_set(-EINVAL, "%llu is not the region of this thread", (unsigned long long)handle));
	region.is_active = false;
	return NVS_SUCCESS;
}

/* Whether this thread has a region with all of the hints. */
NVS_API int nvshmemx_region_is_active(uint32_t hints, int *ret_active);
int nvshmemx_region_is_active(uint32_t hints, int *ret_active)
{
	int r = ret_active ? check_hints(hints) : shmd_error_set(-EINVAL, "there is no place for the answer");

	if (!r)
		*ret_active = region.is_active && (region.hints & hints) == hints;
	return nvs_result("nvshmemx_region_is_active", r);
}
