/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the library, and failures. */
#include <errno.h>
#include <stdio.h>

#include "libclient/compat/nvshmem/nvs.h"

struct nvs nvs = {.lock = PTHREAD_MUTEX_INITIALIZER, .frees = PTHREAD_MUTEX_INITIALIZER};

static int result_of(int error)
{
	switch (error) {
	case -EINVAL:
		return NVS_INVALID_VALUE;
	case -ENOMEM:
	case -ENOSPC:
		return NVS_OUT_OF_MEMORY;
	case -EOPNOTSUPP:
	case -EPROTONOSUPPORT:
		return NVS_NOT_SUPPORTED;
	case -ENODEV:
		return NVS_GPU_NOT_SELECTED;
	default:
		return NVS_INTERNAL;
	}
}

int nvs_fail(const char *name, int error)
{
	if (nvs.world)
		fprintf(stderr, "shmemd: %s: PE %d: %s\n", name, shmd_my_pe(nvs.world), shmd_error_text());
	else
		fprintf(stderr, "shmemd: %s: %s\n", name, shmd_error_text());
	return result_of(error);
}

int nvs_result(const char *name, int error)
{
	return error < 0 ? nvs_fail(name, error) : NVS_SUCCESS;
}

int nvs_lacks(const char *what)
{
	return shmd_error_set(-EOPNOTSUPP, "this CUDA driver lacks %s", what);
}
