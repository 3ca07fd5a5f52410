/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <shmemclient.h>

#include "libclient/runtime/gpu/device.h"
#include "proto/base/cleanup.h"

#define MAX_ORDINAL 1024
#define MAX_DIGITS 4

/* The thread's own word about captures, while it is in a context. So nobody enters twice. */
static _Thread_local int capture_mode;

/* CUDA refuses to allocate, and may refuse to wait for a stream, while any thread captures one, unless the caller says that it knows. */
static void exchange_capture_mode(const struct cuda_api *cuda)
{
	if (cuda->capture_mode)
		(void)cuda->capture_mode(&capture_mode);
}

int device_enter(const struct device *device)
{
	cuda_result result = device->cuda->context_push(device->context);

	if (result != CUDA_OK)
		return cuda_fail(device->cuda, result, "use the GPU's context");
	capture_mode = CUDA_CAPTURE_RELAXED;
	exchange_capture_mode(device->cuda);
	return 0;
}

int device_leave(const struct device *device, cuda_result result, const char *what)
{
	cuda_context ours;

	exchange_capture_mode(device->cuda);
	(void)device->cuda->context_pop(&ours);
	return result == CUDA_OK ? 0 : cuda_fail(device->cuda, result, what);
}

/* ---- which one */

/* -1: no number. */
static int number_of(const char *which)
{
	char *end;
	unsigned long n = strtoul(which, &end, 10);

	return *which >= '0' && *which <= '9' && !*end && n < MAX_ORDINAL && strlen(which) <= MAX_DIGITS ? (int)n : -1;
}

int device_check_name(const char *which)
{
	if (!strcmp(which, "auto") || !strcmp(which, "current") || !strcmp(which, "none") || number_of(which) >= 0)
		return 0;
	return shmd_error_set(-EINVAL, "\"%.40s\" names no GPU: none, auto, current or a number (SHMD_GPU)", which);
}

static int take_current(struct device *device, bool must)
{
	cuda_result result = device->cuda->context_current(&device->context);

	if (result == CUDA_OK && !device->context)
		return must ? shmd_error_set(-EINVAL, "this thread has no current CUDA context; name a GPU by its number (SHMD_GPU)") : 0;
	if (result == CUDA_OK)
		result = device->cuda->context_gpu(&device->ordinal);
	return result == CUDA_OK ? 0 : cuda_fail(device->cuda, result, "current CUDA context");
}

static int take_primary(struct device *device, int ordinal)
{
	cuda_result result = device->cuda->gpu_get(&device->ordinal, ordinal);

	if (result != CUDA_OK)
		return cuda_fail(device->cuda, result, "find the GPU");
	result = device->cuda->primary_retain(&device->context, device->ordinal);
	if (result != CUDA_OK)
		return cuda_fail(device->cuda, result, "primary context of the GPU");
	device->is_primary = true;
	return 0;
}

static int take_share(struct device *device, int node_pe)
{
	int n = 0, r = take_current(device, false);
	cuda_result result;

	if (r < 0 || device->context)
		return r;
	result = device->cuda->gpu_count(&n);
	if (result != CUDA_OK)
		return cuda_fail(device->cuda, result, "count the GPUs");
	if (n < 1)
		return shmd_error_set(-ENODEV, "CUDA shows no GPU");
	return take_primary(device, node_pe % n);
}

static int take_context(struct device *device, const char *which, int node_pe)
{
	if (!strcmp(which, "current"))
		return take_current(device, true);
	return !strcmp(which, "auto") ? take_share(device, node_pe) : take_primary(device, number_of(which));
}

static int make_stream(struct device *device)
{
	int r = device_enter(device);

	return r ? r : device_leave(device, device->cuda->stream_create(&device->stream, CUDA_STREAM_NON_BLOCKING), "make a stream");
}

void device_close(struct device *device)
{
	if (!device)
		return;
	if (device->stream && !device_enter(device))
		(void)device_leave(device, device->cuda->stream_destroy(device->stream), "end a stream");
	if (device->is_primary)
		(void)device->cuda->primary_release(device->ordinal);
	free(device);
}
DEFINE_CLEANUP(struct device *, device_close);

int device_open(const char *which, int node_pe, struct device **ret_device)
{
	_cleanup_(device_closep) struct device *device = NULL;
	int r = device_check_name(which);

	if (r < 0)
		return r;
	device = calloc(1, sizeof(*device));
	if (!device)
		return shmd_error_set(-ENOMEM, "no memory for a GPU");
	r = cuda_api_get(&device->cuda);
	if (!r)
		r = cuda_has_memory_apart(device->cuda);
	if (!r)
		r = take_context(device, which, node_pe);
	if (!r)
		r = make_stream(device);
	if (!r)
		*ret_device = take_ptr(device);
	return r;
}

void device_pci(const struct device *device, char *text, size_t bytes)
{
	if (device->cuda->gpu_pci(text, (int)bytes, device->ordinal) != CUDA_OK)
		*text = '\0';
}

/* ---- memory and copies */

static int finish(const struct device *device, cuda_result result, const char *what)
{
	if (result == CUDA_OK)
		result = device->cuda->stream_sync(device->stream);
	return device_leave(device, result, what);
}

int device_zero(const struct device *device, uint64_t at, size_t bytes)
{
	int r = device_enter(device);

	return r ? r : finish(device, device->cuda->set8(at, 0, bytes, device->stream), "zero GPU memory");
}

int device_alloc(const struct device *device, size_t bytes, uint64_t *ret_addr)
{
	uint64_t addr = 0;
	int r = device_enter(device);

	if (!r)
		r = device_leave(device, device->cuda->alloc(&addr, bytes), "allocate GPU memory");
	if (r < 0)
		return r;
	r = device_zero(device, addr, bytes);
	if (r < 0)
		device_free(device, addr);
	else
		*ret_addr = addr;
	return r;
}

bool device_has_memory_at(const struct device *device, uint64_t addr)
{
	cuda_address begin = 0;
	size_t bytes = 0;
	bool found;

	if (!device->cuda->address_range || device_enter(device) < 0)
		return false;
	found = device->cuda->address_range(&begin, &bytes, addr) == CUDA_OK;
	(void)device_leave(device, CUDA_OK, "");
	return found;
}

void device_free(const struct device *device, uint64_t addr)
{
	if (addr && !device_enter(device))
		(void)device_leave(device, device->cuda->free(addr), "free GPU memory");
}

int device_write(const struct device *device, uint64_t to, const void *from, size_t bytes)
{
	int r = device_enter(device);

	return r ? r : finish(device, device->cuda->copy_in(to, from, bytes, device->stream), "write GPU memory");
}

static cuda_result write_word(const struct device *device, uint64_t to, const uint64_t *value, size_t bytes)
{
	const struct cuda_api *cuda = device->cuda;
	cuda_result result = CUDA_NOT_SUPPORTED;

	if (bytes == 8 && cuda->stream_write8)
		result = cuda->stream_write8(device->stream, to, *value, 0);
	if (bytes == 4 && cuda->stream_write4)
		result = cuda->stream_write4(device->stream, to, (uint32_t)*value, 0);
	/* The low bytes come first. */
	return result == CUDA_NOT_SUPPORTED ? cuda->copy_in(to, value, bytes, device->stream) : result;
}

int device_write_word(const struct device *device, uint64_t to, uint64_t value, size_t bytes)
{
	int r = device_enter(device);

	return r ? r : finish(device, write_word(device, to, &value, bytes), "write GPU memory");
}

int device_read(const struct device *device, void *to, uint64_t from, size_t bytes)
{
	int r = device_enter(device);

	return r ? r : finish(device, device->cuda->copy_out(to, from, bytes, device->stream), "read GPU memory");
}

static int copy(const struct device *device, uint64_t to, uint64_t from, size_t bytes)
{
	int r = device_enter(device);

	return r ? r : finish(device, device->cuda->copy_within(to, from, bytes, device->stream), "copy GPU memory");
}

/* CUDA's copies of overlapping memory are undefined. */
int device_move(const struct device *device, uint64_t to, uint64_t from, size_t bytes)
{
	uint64_t between = 0;
	int r;

	/* bounded: both lie in one allocation's range */
	if (to + bytes <= from || from + bytes <= to)
		return copy(device, to, from, bytes);
	r = device_alloc(device, bytes, &between);
	if (!r)
		r = copy(device, between, from, bytes);
	if (!r)
		r = copy(device, to, between, bytes);
	device_free(device, between);
	return r;
}
