/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See rma.h. Copies of the host go by the library's stream, which waits for no kernel; so a quiet waits for them alone. In a job with queues all
 * go by those that the runtime has for the host, and a quiet is the runtime's.
 */
#include <errno.h>

#include <shmd-stream.h>

#include "libclient/compat/nvshmem/rma.h"

void *nvs_at(const void *symmetric, int pe)
{
	void *at = shmd_ptr(nvs.world, symmetric, pe);

	if (!at && nvs.ibgda && pe >= 0 && pe < nvs.facts.npes && pe != nvs.facts.mype)
		(void)shmd_error_set(-EINVAL, "the memory of PE %d is not mapped here, so only kernels and queues reach it", pe);
	else if (!at)
		(void)shmd_error_set(-EINVAL, "%p of PE %d is no symmetric memory, or there is no such PE", symmetric, pe);
	return at;
}

int nvs_copy_on(cuda_stream stream, void *dest, const void *source, size_t bytes)
{
	const struct cuda_api *cuda = nvs.device->cuda;
	cuda_result result;

	if (!bytes || dest == source)
		return 0;
	if (!cuda->copy_any)
		return nvs_lacks("cuMemcpyAsync");
	result = cuda->copy_any(nvs_address(dest), nvs_address(source), bytes, stream);
	return result == CUDA_OK ? 0 : cuda_fail(cuda, result, "copy");
}

/* ---- by the host */

static int copy(void *dest, const void *source, size_t bytes)
{
	int r = device_enter(nvs.device), r2;

	if (r < 0)
		return r;
	r = nvs_copy_on(nvs.device->stream, dest, source, bytes);
	__atomic_fetch_add(&nvs.n_copies, 1, __ATOMIC_SEQ_CST);
	r2 = device_leave(nvs.device, CUDA_OK, "copy");
	return r ? r : r2;
}

/* Without copies since the last time it makes no call of CUDA. */
int nvs_quiet(void)
{
	uint64_t n = __atomic_load_n(&nvs.n_copies, __ATOMIC_SEQ_CST);
	int r;

	if (nvs.ibgda)
		return shmd_quiet(shmd_world_ctx(nvs.world));
	if (n == __atomic_load_n(&nvs.n_copies_done, __ATOMIC_SEQ_CST))
		return 0;
	r = device_enter(nvs.device);
	if (!r)
		r = device_leave(nvs.device, nvs.device->cuda->stream_sync(nvs.device->stream), "wait for copies");
	if (!r)
		__atomic_store_n(&nvs.n_copies_done, n, __ATOMIC_SEQ_CST);
	return r;
}

static int copy_and_wait(void *dest, const void *source, size_t bytes, bool is_now)
{
	int r = dest && source ? copy(dest, source, bytes) : -EINVAL;

	return r || !is_now ? r : nvs_quiet();
}

static int put_by_queue(void *dest, const void *source, size_t bytes, int pe, bool is_now)
{
	struct shmd_ctx *ctx = shmd_world_ctx(nvs.world);

	return is_now ? shmd_put(ctx, dest, source, bytes, pe) : shmd_put_nbi(ctx, dest, source, bytes, pe);
}

static int get_by_queue(void *dest, const void *source, size_t bytes, int pe, bool is_now)
{
	struct shmd_ctx *ctx = shmd_world_ctx(nvs.world);

	return is_now ? shmd_get(ctx, dest, source, bytes, pe) : shmd_get_nbi(ctx, dest, source, bytes, pe);
}

void nvs_put(const char *name, void *dest, const void *source, size_t bytes, int pe, bool is_now)
{
	int r = nvs_ready();

	if (!r && nvs.ibgda)
		r = put_by_queue(dest, source, bytes, pe, is_now);
	else if (!r)
		r = copy_and_wait(nvs_at(dest, pe), source, bytes, is_now);
	(void)nvs_result(name, r);
}

void nvs_get(const char *name, void *dest, const void *source, size_t bytes, int pe, bool is_now)
{
	int r = nvs_ready();

	if (!r && nvs.ibgda)
		r = get_by_queue(dest, source, bytes, pe, is_now);
	else if (!r)
		r = copy_and_wait(dest, nvs_at(source, pe), bytes, is_now);
	(void)nvs_result(name, r);
}

static int copy_strided_on(char *dest, const char *source, struct nvs_strides strides, cuda_stream stream)
{
	int r = dest && source ? 0 : -EINVAL;

	for (size_t i = 0; !r && i < strides.n; i++) {
		r = nvs_copy_on(stream, dest, source, strides.bytes);
		dest += strides.dest * (ptrdiff_t)strides.bytes;
		source += strides.source * (ptrdiff_t)strides.bytes;
	}
	return r;
}

/* After a failure, too, the caller may change what the earlier elements come from. */
static int finish_strided(int r)
{
	int r2 = nvs_quiet();

	return r ? r : r2;
}

static int copy_strided(char *dest, const char *source, struct nvs_strides strides)
{
	int r = device_enter(nvs.device), r2;

	if (r < 0)
		return r;
	r = copy_strided_on(dest, source, strides, nvs.device->stream);
	__atomic_fetch_add(&nvs.n_copies, 1, __ATOMIC_SEQ_CST);
	r2 = device_leave(nvs.device, CUDA_OK, "copy");
	return finish_strided(r ? r : r2);
}

static int strided_by_queue(char *dest, const char *source, struct nvs_strides strides, int pe, bool is_get)
{
	int r = 0;

	for (size_t i = 0; !r && i < strides.n; i++) {
		r = is_get ? get_by_queue(dest, source, strides.bytes, pe, false) : put_by_queue(dest, source, strides.bytes, pe, false);
		dest += strides.dest * (ptrdiff_t)strides.bytes;
		source += strides.source * (ptrdiff_t)strides.bytes;
	}
	return finish_strided(r);
}

void nvs_put_strided(const char *name, void *dest, const void *source, struct nvs_strides strides, int pe)
{
	int r = nvs_ready();

	if (!r && nvs.ibgda)
		r = strided_by_queue(dest, source, strides, pe, false);
	else if (!r)
		r = copy_strided(nvs_at(dest, pe), source, strides);
	(void)nvs_result(name, r);
}

void nvs_get_strided(const char *name, void *dest, const void *source, struct nvs_strides strides, int pe)
{
	int r = nvs_ready();

	if (!r && nvs.ibgda)
		r = strided_by_queue(dest, source, strides, pe, true);
	else if (!r)
		r = copy_strided(dest, nvs_at(source, pe), strides);
	(void)nvs_result(name, r);
}

NVS_API void nvshmem_quiet(void);
void nvshmem_quiet(void)
{
	int r = nvs_ready();

	(void)nvs_result("nvshmem_quiet", r ? r : nvs_quiet());
}

/* Atomics are kernels, on another stream than copies. */
NVS_API void nvshmem_fence(void);
void nvshmem_fence(void)
{
	int r = nvs_ready();

	(void)nvs_result("nvshmem_fence", r ? r : nvs_quiet());
}

/* Sources of puts are free when these are complete. */
NVS_API void nvshmemx_flush(void);
void nvshmemx_flush(void)
{
	int r = nvs_ready();

	(void)nvs_result("nvshmemx_flush", r ? r : nvs_quiet());
}

NVS_API uint64_t nvshmem_signal_fetch(uint64_t *word);
uint64_t nvshmem_signal_fetch(uint64_t *word)
{
	uint64_t value = 0;
	int r = nvs_ready();

	(void)nvs_result("nvshmem_signal_fetch", r ? r : device_read(nvs.device, &value, nvs_address(word), sizeof(value)));
	return value;
}

/* ---- on streams; in the caller's context, whose streams these are */

static int copy_to_on(cuda_stream stream, void *at, const void *source, size_t bytes)
{
	return at ? nvs_copy_on(stream, at, source, bytes) : -EINVAL;
}

/* By queues kernels of the runtime put and get. */
static int put_on(void *dest, const void *source, size_t bytes, int pe, cuda_stream stream)
{
	if (nvs.ibgda)
		return shmd_put_on_stream(shmd_world_ctx(nvs.world), dest, source, bytes, pe, stream);
	return copy_to_on(stream, nvs_at(dest, pe), source, bytes);
}

static int copy_from_on(cuda_stream stream, void *dest, const void *at, size_t bytes)
{
	return at ? nvs_copy_on(stream, dest, at, bytes) : -EINVAL;
}

static int get_on(void *dest, const void *source, size_t bytes, int pe, cuda_stream stream)
{
	if (nvs.ibgda)
		return shmd_get_on_stream(shmd_world_ctx(nvs.world), dest, source, bytes, pe, stream);
	return copy_from_on(stream, dest, nvs_at(source, pe), bytes);
}

void nvs_put_on(const char *name, void *dest, const void *source, size_t bytes, int pe, cuda_stream stream)
{
	int r = nvs_ready();

	(void)nvs_result(name, r ? r : put_on(dest, source, bytes, pe, stream));
}

void nvs_get_on(const char *name, void *dest, const void *source, size_t bytes, int pe, cuda_stream stream)
{
	int r = nvs_ready();

	(void)nvs_result(name, r ? r : get_on(dest, source, bytes, pe, stream));
}

/* A kernel for each element. */
static int strided_by_queue_on(char *dest, const char *source, struct nvs_strides strides, int pe, bool is_get, cuda_stream stream)
{
	int r = 0;

	for (size_t i = 0; !r && i < strides.n; i++) {
		r = is_get ? get_on(dest, source, strides.bytes, pe, stream) : put_on(dest, source, strides.bytes, pe, stream);
		dest += strides.dest * (ptrdiff_t)strides.bytes;
		source += strides.source * (ptrdiff_t)strides.bytes;
	}
	return r;
}

void nvs_put_strided_on(const char *name, void *dest, const void *source, struct nvs_strides strides, int pe, cuda_stream stream)
{
	int r = nvs_ready();

	if (!r && nvs.ibgda)
		r = strided_by_queue_on(dest, source, strides, pe, false, stream);
	else if (!r)
		r = copy_strided_on(nvs_at(dest, pe), source, strides, stream);
	(void)nvs_result(name, r);
}

void nvs_get_strided_on(const char *name, void *dest, const void *source, struct nvs_strides strides, int pe, cuda_stream stream)
{
	int r = nvs_ready();

	if (!r && nvs.ibgda)
		r = strided_by_queue_on(dest, source, strides, pe, true, stream);
	else if (!r)
		r = copy_strided_on(dest, nvs_at(source, pe), strides, stream);
	(void)nvs_result(name, r);
}
