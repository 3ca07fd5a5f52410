/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules and kernels of the libcuda of tests: a kernel is a function of the test program, by its name, which the thread that launches runs
 * at once. So it holds no lock, and a kernel that waits for another process keeps its launcher, and whoever waits for its stream.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/fake-cuda-private.h"

#define MAX_KERNELS 16

/* ---- a thread's word about captures */

#define CAPTURE_RELAXED 2

static int captures; /* some thread does, in mode global */
static _Thread_local int capture_mode; /* CU_STREAM_CAPTURE_MODE_*; 0: global */

EXPORT int cuThreadExchangeStreamCaptureMode(int *mode);
int cuThreadExchangeStreamCaptureMode(int *mode)
{
	int before = capture_mode;
	ENTER(0);

	if (*mode < 0 || *mode > 2)
		return INVALID_VALUE;
	capture_mode = *mode;
	*mode = before;
	return OK;
}

void fake_cuda_capture(int now)
{
	__atomic_store_n(&captures, now, __ATOMIC_RELEASE);
}

EXPORT int cuStreamIsCapturing(const void *stream, int *status);
int cuStreamIsCapturing(const void *stream, int *status)
{
	ENTER(1);
	*status = captures;
	return stream ? OK : INVALID_VALUE;
}

int fake_cuda_forbids(void)
{
	return __atomic_load_n(&captures, __ATOMIC_ACQUIRE) && capture_mode != CAPTURE_RELAXED;
}

/* ---- kernels */

struct kernel {
	const char *name;
	void (*run)(void **parameters);
};

/* Handles of a driver lie in no library. */
static struct kernel *kernels;
static char module;

__attribute__((constructor)) static void make_room(void)
{
	kernels = calloc(MAX_KERNELS, sizeof(*kernels));
	if (!kernels)
		abort();
}

void fake_cuda_kernel(const char *name, void (*run)(void **parameters))
{
	LOCKED;
	for (int i = 0; i < MAX_KERNELS; i++)
		if (!kernels[i].name || !strcmp(kernels[i].name, name)) {
			kernels[i] = (struct kernel){.name = name, .run = run};
			return;
		}
}

EXPORT int cuModuleLoadData(void **ret_module, const void *image);
int cuModuleLoadData(void **ret_module, const void *image)
{
	ENTER(1);
	if (!image)
		return INVALID_VALUE;
	if (fake_cuda_forbids())
		return UNDER_CAPTURE;
	*ret_module = &module;
	fake_cuda_counted.modules++;
	return OK;
}

EXPORT int cuModuleUnload(void *which);
int cuModuleUnload(void *which)
{
	ENTER(1);
	if (which != &module)
		return INVALID_VALUE;
	fake_cuda_counted.modules--;
	return OK;
}

EXPORT int cuModuleGetFunction(void **ret_function, void *which, const char *name);
int cuModuleGetFunction(void **ret_function, void *which, const char *name)
{
	ENTER(1);
	if (which != &module)
		return INVALID_VALUE;
	for (int i = 0; i < MAX_KERNELS && kernels[i].name; i++)
		if (!strcmp(kernels[i].name, name)) {
			*ret_function = &kernels[i];
			return OK;
		}
	return NOT_FOUND;
}

static int begin(const struct kernel *kernel, void *stream, unsigned int threads)
{
	LOCKED;
	int result = fake_cuda_enter("cuLaunchKernel", 1);

	if (result)
		return result;
	if (!kernel->run || !threads || threads > 1024 || fake_cuda_stream_begin(stream))
		return INVALID_VALUE;
	fake_cuda_counted.launches++;
	return OK;
}

EXPORT int cuLaunchKernel(void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
			  unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, void *stream, void **parameters,
			  void **extra);
int cuLaunchKernel(void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
		   unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, void *stream, void **parameters, void **extra)
{
	int result;

	if (grid_x * grid_y * grid_z != 1 || shared_bytes || extra)
		return INVALID_VALUE;
	result = begin(function, stream, block_x * block_y * block_z);
	if (result)
		return result;
	((struct kernel *)function)->run(parameters);
	fake_cuda_stream_end(stream);
	return OK;
}

/* ---- with attributes; of one block of a multiprocessor */

#define COOPERATIVE 2

struct launch_attribute {
	unsigned int id, unused, value[16];
};

struct launch {
	unsigned int grid[3], block[3], shared_bytes;
	void *stream;
	struct launch_attribute *attributes;
	unsigned int n_attributes;
};

static unsigned int cooperative_blocks;

unsigned int fake_cuda_cooperative_blocks(void)
{
	return cooperative_blocks;
}

EXPORT int cuLaunchKernelEx(const struct launch *launch, void *function, void **parameters, void **extra);
int cuLaunchKernelEx(const struct launch *launch, void *function, void **parameters, void **extra)
{
	int result;

	if (extra || !launch->grid[0] || !launch->grid[1] || !launch->grid[2])
		return INVALID_VALUE;
	result = begin(function, launch->stream, launch->block[0] * launch->block[1] * launch->block[2]);
	if (result)
		return result;
	cooperative_blocks = 0;
	for (unsigned int i = 0; i < launch->n_attributes; i++)
		if (launch->attributes[i].id == COOPERATIVE && launch->attributes[i].value[0])
			cooperative_blocks = launch->grid[0] * launch->grid[1] * launch->grid[2];
	((struct kernel *)function)->run(parameters);
	fake_cuda_stream_end(launch->stream);
	return OK;
}

EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void *function, int threads, size_t shared_bytes);
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void *function, int threads, size_t shared_bytes)
{
	ENTER(1);
	if (!((struct kernel *)function)->run || threads < 1)
		return INVALID_VALUE;
	*n = threads <= 1024 && shared_bytes <= 65536 ? 1024 / threads : 0;
	return OK;
}
