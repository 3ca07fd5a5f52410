/* SPDX-License-Identifier: Apache-2.0 */
/* See kernels.h. */
#include <errno.h>
#include <stdlib.h>

#include <shmemclient.h>

#include "libclient/runtime/gpu/device.h"
#include "libclient/runtime/stream/kernels.h"
#include "proto/base/cleanup.h"

struct stream_kernels {
	const struct device *device;
	cuda_module module;
	cuda_function functions[STREAM_N_KERNELS];
	uint64_t failure_addr, result_addr; /* one allocation */
};

void stream_kernels_free(struct stream_kernels *kernels)
{
	if (!kernels)
		return;
	device_free(kernels->device, kernels->result_addr);
	if (kernels->module && !device_enter(kernels->device))
		(void)device_leave(kernels->device, kernels->device->cuda->module_unload(kernels->module), "unload kernels");
	free(kernels);
}
DEFINE_CLEANUP(struct stream_kernels *, stream_kernels_free);

static int check(const struct cuda_api *cuda)
{
	if (!cuda->module_load || !cuda->module_unload || !cuda->module_function || !cuda->launch)
		return shmd_error_set(-EOPNOTSUPP, "the CUDA driver cannot load or launch kernels");
	return 0;
}

static cuda_result load(struct stream_kernels *kernels)
{
	static const char *const names[STREAM_N_KERNELS] = STREAM_NAMES;
	const struct cuda_api *cuda = kernels->device->cuda;
	cuda_result result = cuda->module_load(&kernels->module, stream_image);

	for (int i = 0; i < STREAM_N_KERNELS && result == CUDA_OK; i++)
		result = cuda->module_function(&kernels->functions[i], kernels->module, names[i]);
	return result;
}

/* In the GPU's context. */
static cuda_result start(const struct stream_kernels *kernels, enum stream_kernel kernel, struct stream_call *call, cuda_stream stream)
{
	static const unsigned int threads[STREAM_N_KERNELS] = STREAM_THREADS;
	void *parameters[] = {call};

	return kernels->device->cuda->launch(kernels->functions[kernel], 1, 1, 1, threads[kernel], 1, 1, 0, stream, parameters, NULL);
}

/* In the stream of the device. */
static cuda_result launch_each(const struct stream_kernels *kernels)
{
	struct stream_call nothing = {.what = STREAM_NOTHING};
	cuda_result result = CUDA_OK;

	for (int i = 0; i < STREAM_N_KERNELS && result == CUDA_OK; i++)
		result = start(kernels, (enum stream_kernel)i, &nothing, kernels->device->stream);
	return result;
}

/* CUDA refuses the image of a build without nvcc. */
static int check_load(const struct stream_kernels *kernels, cuda_result result)
{
	int r = device_leave(kernels->device, result, "load the kernels for calls on streams");

	if (!r || stream_image_bytes)
		return r;
	return shmd_error_set(-EOPNOTSUPP, "this library was built without nvcc, so it has no kernels for calls on streams and for atomics on GPU memory");
}

int stream_kernels_new(const struct device *device, struct stream_kernels **ret_kernels)
{
	_cleanup_(stream_kernels_freep) struct stream_kernels *kernels = NULL;
	int r = check(device->cuda);

	if (r < 0)
		return r;
	kernels = calloc(1, sizeof(*kernels));
	if (!kernels)
		return shmd_error_set(-ENOMEM, "no memory for kernels");
	kernels->device = device;
	r = device_enter(device);
	if (!r)
		r = check_load(kernels, load(kernels));
	if (!r)
		r = device_enter(device);
	if (!r)
		r = device_leave(device, launch_each(kernels), "launch the kernels of calls on streams for the first time");
	/* This also waits for them. */
	if (!r)
		r = device_alloc(device, sizeof(struct stream_result) + sizeof(struct stream_failure), &kernels->result_addr);
	kernels->failure_addr = kernels->result_addr + sizeof(struct stream_result);
	if (!r)
		*ret_kernels = take_ptr(kernels);
	return r;
}

int stream_kernels_launch(const struct stream_kernels *kernels, enum stream_kernel kernel, struct stream_call *call, cuda_stream stream)
{
	const struct device *device = kernels->device;
	int r = device_enter(device);

	call->failure_addr = kernels->failure_addr;
	return r ? r : device_leave(device, start(kernels, kernel, call, stream), "launch a kernel of a call on a stream");
}

/* The copy of the result comes behind the kernel, in the same stream. */
int stream_kernels_run(const struct stream_kernels *kernels, enum stream_kernel kernel, struct stream_call *call, struct stream_result *ret_result)
{
	int r;

	call->source = kernels->result_addr;
	r = stream_kernels_launch(kernels, kernel, call, kernels->device->stream);
	return r ? r : device_read(kernels->device, ret_result, kernels->result_addr, sizeof(*ret_result));
}

int stream_kernels_failure(const struct stream_kernels *kernels, struct stream_failure *ret_failure)
{
	int r = device_read(kernels->device, ret_failure, kernels->failure_addr, sizeof(*ret_failure));

	return r || !ret_failure->status ? r : device_zero(kernels->device, kernels->failure_addr, sizeof(*ret_failure));
}

/* ---- a stream of the library's own */

struct stream_own {
	const struct device *device;
	cuda_stream stream;
	uint64_t failure_addr;
};

void stream_own_free(struct stream_own *own)
{
	if (!own)
		return;
	if (own->stream && !device_enter(own->device))
		(void)device_leave(own->device, own->device->cuda->stream_destroy(own->stream), "end a stream");
	device_free(own->device, own->failure_addr);
	free(own);
}
DEFINE_CLEANUP(struct stream_own *, stream_own_free);

int stream_own_new(const struct device *device, struct stream_own **ret_own)
{
	_cleanup_(stream_own_freep) struct stream_own *own = calloc(1, sizeof(*own));
	int r;

	if (!own)
		return shmd_error_set(-ENOMEM, "no memory for a stream");
	own->device = device;
	r = device_alloc(device, sizeof(struct stream_failure), &own->failure_addr);
	if (!r)
		r = device_enter(device);
	if (!r)
		r = device_leave(device, device->cuda->stream_create(&own->stream, CUDA_STREAM_NON_BLOCKING), "make a stream");
	if (!r)
		*ret_own = take_ptr(own);
	return r;
}

/* The word is zero before the kernel and read behind it, all in the order of the stream. */
static cuda_result run(const struct stream_own *own, const struct stream_kernels *kernels, enum stream_kernel kernel, struct stream_call *call,
		       struct stream_failure *ret_failure)
{
	const struct cuda_api *cuda = own->device->cuda;
	cuda_result result = cuda->set8(own->failure_addr, 0, sizeof(*ret_failure), own->stream);

	if (result == CUDA_OK)
		result = start(kernels, kernel, call, own->stream);
	if (result == CUDA_OK)
		result = cuda->copy_out(ret_failure, own->failure_addr, sizeof(*ret_failure), own->stream);
	return result == CUDA_OK ? cuda->stream_sync(own->stream) : result;
}

int stream_own_run(const struct stream_own *own, const struct stream_kernels *kernels, enum stream_kernel kernel, struct stream_call *call,
		   struct stream_failure *ret_failure)
{
	int r = device_enter(own->device);

	call->failure_addr = own->failure_addr;
	return r ? r : device_leave(own->device, run(own, kernels, kernel, call, ret_failure), "run a kernel of the library");
}
