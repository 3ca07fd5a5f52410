/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches of kernels whose blocks are all there at once, so that they may wait for each other and for other PEs.
 *
 * The kernel is a handle of the driver, as programs without NVIDIA's device library have it, or a function of a program whose CUDA runtime is
 * a shared library, which knows the handle. Programs that link the device library launch by that.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/compat/nvshmem/nvs.h"
#include "proto/base/cleanup.h"

#define LAUNCH_FAILED 6 /* of enum nvs_result's interface: this GPU cannot have all blocks at once */
#define ATTRIBUTE_COOPERATIVE 2u /* CU_LAUNCH_ATTRIBUTE_COOPERATIVE */
#define GPU_MULTIPROCESSORS 16 /* CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT */

struct dims { /* dim3 */
	unsigned int x, y, z;
};

struct launch_config { /* cudaLaunchConfig_t */
	struct dims grid, block;
	size_t shared_bytes;
	cuda_stream stream;
	const struct cuda_launch_attribute *attributes;
	unsigned int n_attributes;
};

/* ---- which kernel */

typedef int get_function(cuda_function *ret_function, const void *symbol);

static int find_function(const void *kernel, cuda_function *ret_function)
{
	get_function *get;
	Dl_info info;

	*ret_function = (cuda_function)(uintptr_t)kernel;
	if (!dladdr(kernel, &info))
		return 0;
	/* POSIX lets a symbol's address be that of a function. */
	*(void **)&get = dlsym(RTLD_DEFAULT, "cudaGetFuncBySymbol");
	if (!get)
		return shmd_error_set(-EOPNOTSUPP, "%p is a function of the program, whose CUDA runtime this library does not see; pass the kernel's handle",
				      kernel);
	if (get(ret_function, kernel) != 0)
		return shmd_error_set(-EINVAL, "the CUDA runtime knows no kernel at %p", kernel);
	return 0;
}

/* ---- how many blocks */

static int count_blocks(cuda_function function, struct dims block, size_t shared_bytes, int *ret_blocks)
{
	const struct cuda_api *cuda = nvs.device->cuda;
	int per_unit = 0, units = 0;
	cuda_result result;

	if (!cuda->launch_with || !cuda->max_blocks || !cuda->gpu_attribute)
		return nvs_lacks("cuLaunchKernelEx");
	result = cuda->max_blocks(&per_unit, function, (int)(block.x * block.y * block.z), shared_bytes);
	if (result == CUDA_OK)
		result = cuda->gpu_attribute(&units, GPU_MULTIPROCESSORS, nvs.device->ordinal);
	*ret_blocks = per_unit * units;
	return result == CUDA_OK ? 0 : cuda_fail(cuda, result, "count the blocks of a kernel that run at once");
}

/* No grid: as many as there can be. 1: not all at once. */
static int choose_grid(struct dims *grid, int most)
{
	if (!grid->x && !grid->y && !grid->z)
		*grid = (struct dims){(unsigned int)most, 1, 1};
	else if (!grid->x || !grid->y || !grid->z)
		return shmd_error_set(-EINVAL, "a grid of %u x %u x %u blocks", grid->x, grid->y, grid->z);
	if (most && (uint64_t)grid->x * grid->y <= (uint64_t)most / grid->z)
		return 0;
	(void)shmd_error_set(-EAGAIN, "of a grid of %u x %u x %u blocks at most %d run at once on this GPU", grid->x, grid->y, grid->z, most);
	return 1;
}

/* ---- launch */

/* The user's attributes, and that all blocks are there at once, unless he says something about that. */
static int launch(cuda_function function, const struct launch_config *config, void **arguments)
{
	_cleanup_free_ struct cuda_launch_attribute *attributes = calloc(config->n_attributes + 1u, sizeof(*attributes));
	struct cuda_launch cuda_launch = {
		.grid = {config->grid.x, config->grid.y, config->grid.z}, .block = {config->block.x, config->block.y, config->block.z},
		.shared_bytes = (unsigned int)config->shared_bytes, .stream = config->stream, .attributes = attributes, .n_attributes = config->n_attributes};
	bool is_said = false;
	cuda_result result;

	if (!attributes)
		return shmd_error_set(-ENOMEM, "no memory for %u attributes of a launch", config->n_attributes);
	for (unsigned int i = 0; i < config->n_attributes; i++) {
		attributes[i] = config->attributes[i];
		is_said |= attributes[i].id == ATTRIBUTE_COOPERATIVE;
	}
	if (!is_said)
		attributes[cuda_launch.n_attributes++] = (struct cuda_launch_attribute){.id = ATTRIBUTE_COOPERATIVE, .value = {1}};
	result = nvs.device->cuda->launch_with(&cuda_launch, function, arguments, NULL);
	return result == CUDA_OK ? 0 : cuda_fail(nvs.device->cuda, result, "launch a kernel");
}

static int launch_all(const char *name, const void *kernel, struct launch_config config, void **arguments)
{
	cuda_function function;
	int most = 0, r = nvs_ready();

	if (!r)
		r = find_function(kernel, &function);
	if (!r)
		r = count_blocks(function, config.block, config.shared_bytes, &most);
	if (!r)
		r = choose_grid(&config.grid, most);
	if (r > 0) {
		(void)nvs_fail(name, -EAGAIN);
		return LAUNCH_FAILED;
	}
	return nvs_result(name, r ? r : launch(function, &config, arguments));
}

NVS_API int nvshmemx_collective_launch(const void *kernel, struct dims grid, struct dims block, void **arguments, size_t shared_bytes,
				       cuda_stream stream);
int nvshmemx_collective_launch(const void *kernel, struct dims grid, struct dims block, void **arguments, size_t shared_bytes, cuda_stream stream)
{
	struct launch_config config = {.grid = grid, .block = block, .shared_bytes = shared_bytes, .stream = stream};

	return launch_all("nvshmemx_collective_launch", kernel, config, arguments);
}

NVS_API int nvshmemx_collective_launch_attr(const struct launch_config *config, const void *kernel, void **arguments);
int nvshmemx_collective_launch_attr(const struct launch_config *config, const void *kernel, void **arguments)
{
	return launch_all("nvshmemx_collective_launch_attr", kernel, *config, arguments);
}

NVS_API int nvshmemx_collective_launch_query_gridsize(const void *kernel, struct dims block, void **arguments, size_t shared_bytes, int *ret_blocks);
int nvshmemx_collective_launch_query_gridsize(const void *kernel, struct dims block, void **arguments, size_t shared_bytes, int *ret_blocks)
{
	cuda_function function;
	int r = nvs_ready();

	(void)arguments;
	if (!r)
		r = find_function(kernel, &function);
	return nvs_result("nvshmemx_collective_launch_query_gridsize", r ? r : count_blocks(function, block, shared_bytes, ret_blocks));
}
