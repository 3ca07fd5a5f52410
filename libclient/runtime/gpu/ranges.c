/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include <shmd/abi/world.h>
#include <shmemclient.h>

#include "libclient/runtime/gpu/ranges.h"
#include "proto/base/cleanup.h"
#include "proto/base/overflow.h"

#define MIN_STEP 0 /* CU_MEM_ALLOC_GRANULARITY_MINIMUM */
#define MAKES_MEMORY_FOR_NICS 110 /* CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED */

/* A mapped piece of one PE. */
struct piece {
	uint32_t pe;
	uint64_t offset, bytes; /* 0 bytes: none */
};

struct gpu_ranges {
	const struct device *device;
	uint32_t n, own;
	uint64_t bytes; /* of each */
	bool is_for_nics; /* memory of this GPU can be made so that NICs reach it themselves */
	uint64_t *bases; /* 0: not reserved */
	struct piece *pieces;
	uint32_t n_pieces; /* places for them */
};

static struct cuda_memory_attr memory_attr(const struct gpu_ranges *ranges)
{
	return (struct cuda_memory_attr){
		.kind = CUDA_MEMORY_PINNED,
		.handle_kinds = CUDA_HANDLE_FD,
		.place = {.kind = CUDA_PLACE_GPU, .id = ranges->device->ordinal},
		.is_for_nics = ranges->is_for_nics,
	};
}

static bool makes_memory_for_nics(const struct device *device)
{
	int value = 0;

	return device->cuda->gpu_attribute && device->cuda->gpu_attribute(&value, MAKES_MEMORY_FOR_NICS, device->ordinal) == CUDA_OK && value;
}

/* ---- addresses; the context is current */

static void give_back(struct gpu_ranges *ranges)
{
	for (uint32_t i = 0; i < ranges->n; i++) {
		if (ranges->bases[i])
			(void)ranges->device->cuda->range_free(ranges->bases[i], ranges->bytes);
		ranges->bases[i] = 0;
	}
}

static cuda_result reserve(struct gpu_ranges *ranges)
{
	cuda_result result = CUDA_OK;

	for (uint32_t i = 0; result == CUDA_OK && i < ranges->n; i++)
		result = ranges->device->cuda->range_reserve(&ranges->bases[i], ranges->bytes, GPU_RANGES_STEP, 0, 0);
	if (result != CUDA_OK)
		give_back(ranges);
	return result;
}

static cuda_result reserve_what_fits(struct gpu_ranges *ranges, uint64_t least_bytes)
{
	cuda_result result = reserve(ranges);

	while (result == CUDA_OUT_OF_MEMORY && ranges->bytes / 2 >= least_bytes) {
		ranges->bytes = ranges->bytes / 2 / GPU_RANGES_STEP * GPU_RANGES_STEP;
		result = reserve(ranges);
	}
	return result;
}

static int check_step(const struct gpu_ranges *ranges)
{
	struct cuda_memory_attr attr = memory_attr(ranges);
	size_t step = 0;
	cuda_result result = ranges->device->cuda->memory_step(&step, &attr, MIN_STEP);

	if (result != CUDA_OK)
		return cuda_fail(ranges->device->cuda, result, "ask for the step of GPU memory");
	if (!step || GPU_RANGES_STEP % step)
		return shmd_error_set(-EOPNOTSUPP, "memory of this GPU comes in steps of %zu bytes, which do not fit in 2 MiB", step);
	return 0;
}

static int ranges_open(struct gpu_ranges *ranges, uint64_t least_bytes)
{
	int r = device_enter(ranges->device);

	if (r < 0)
		return r;
	ranges->is_for_nics = makes_memory_for_nics(ranges->device);
	r = check_step(ranges);
	if (r < 0) {
		(void)device_leave(ranges->device, CUDA_OK, "");
		return r;
	}
	return device_leave(ranges->device, reserve_what_fits(ranges, least_bytes), "reserve addresses for the GPU heap (SHMD_GPU_HEAP_RESERVE)");
}

static void unmap(struct gpu_ranges *ranges, struct piece *piece)
{
	/* bounded: find_place() checked it */
	if (piece->bytes)
		(void)ranges->device->cuda->range_unmap(ranges->bases[piece->pe] + piece->offset, piece->bytes);
	piece->bytes = 0;
}

void gpu_ranges_free(struct gpu_ranges *ranges)
{
	if (!ranges)
		return;
	if (ranges->bases && ranges->pieces && !device_enter(ranges->device)) {
		for (uint32_t i = 0; i < ranges->n_pieces; i++)
			unmap(ranges, &ranges->pieces[i]);
		give_back(ranges);
		(void)device_leave(ranges->device, CUDA_OK, "");
	}
	free(ranges->pieces);
	free(ranges->bases);
	free(ranges);
}
DEFINE_CLEANUP(struct gpu_ranges *, gpu_ranges_free);

int gpu_ranges_new(const struct device *device, uint32_t n, uint32_t own, uint64_t range_bytes, uint64_t least_bytes,
		   struct gpu_ranges **ret_ranges)
{
	_cleanup_(gpu_ranges_freep) struct gpu_ranges *ranges = calloc(1, sizeof(*ranges));
	int r;

	if (!n || own >= n || range_bytes < GPU_RANGES_STEP || least_bytes > range_bytes)
		return shmd_error_set(-EINVAL, "no ranges for PE %u of %u", own, n);
	if (!ranges)
		return shmd_error_set(-ENOMEM, "no memory for the ranges of %u PEs", n);
	ranges->device = device;
	ranges->n = n;
	ranges->own = own;
	ranges->bytes = range_bytes / GPU_RANGES_STEP * GPU_RANGES_STEP;
	ranges->n_pieces = n * SHMD_DEV_HEAP_CHUNKS;
	ranges->bases = calloc(n, sizeof(*ranges->bases));
	ranges->pieces = calloc(ranges->n_pieces, sizeof(*ranges->pieces));
	if (!ranges->bases || !ranges->pieces)
		return shmd_error_set(-ENOMEM, "no memory for the ranges of %u PEs", n);
	r = ranges_open(ranges, least_bytes);
	if (!r)
		*ret_ranges = take_ptr(ranges);
	return r;
}

uint64_t gpu_ranges_bytes(const struct gpu_ranges *ranges)
{
	return ranges->bytes;
}

uint64_t gpu_ranges_base(const struct gpu_ranges *ranges, uint32_t pe)
{
	return ranges->bases[pe];
}

/* ---- memory; the context is current */

static int find_place(struct gpu_ranges *ranges, uint32_t pe, uint64_t offset, uint64_t bytes, struct piece **ret_piece)
{
	if (pe >= ranges->n || !bytes || bytes % GPU_RANGES_STEP || offset % GPU_RANGES_STEP || !range_fits(offset, bytes, ranges->bytes))
		return shmd_error_set(-EINVAL, "no place for %llu bytes at offset %llu of the GPU heap", (unsigned long long)bytes,
				      (unsigned long long)offset);
	for (uint32_t i = 0; i < ranges->n_pieces; i++) {
		*ret_piece = &ranges->pieces[i];
		if (!(*ret_piece)->bytes)
			return 0;
	}
	return shmd_error_set(-ENOSPC, "the GPU heap has as many chunks as it can have");
}

static cuda_result map(struct gpu_ranges *ranges, const struct piece *piece, cuda_memory memory)
{
	const struct cuda_api *cuda = ranges->device->cuda;
	const struct cuda_access access = {
		.place = {.kind = CUDA_PLACE_GPU, .id = ranges->device->ordinal}, .flags = CUDA_ACCESS_READ_WRITE};
	uint64_t addr = ranges->bases[piece->pe] + piece->offset; /* bounded: find_place() checked it */
	cuda_result result = cuda->range_map(addr, piece->bytes, 0, memory, 0);

	if (result != CUDA_OK)
		return result;
	result = cuda->range_access(addr, piece->bytes, &access, 1);
	if (result != CUDA_OK)
		(void)cuda->range_unmap(addr, piece->bytes);
	return result;
}

/* Takes the handle. */
static cuda_result map_and_export(struct gpu_ranges *ranges, const struct piece *piece, cuda_memory memory, int *ret_fd, bool *ret_is_exported)
{
	const struct cuda_api *cuda = ranges->device->cuda;
	_cleanup_close_ int fd = -1;
	cuda_result result = cuda->memory_export(&fd, memory, CUDA_HANDLE_FD, 0);

	*ret_is_exported = result == CUDA_OK;
	if (result == CUDA_OK)
		result = map(ranges, piece, memory);
	if (result == CUDA_OK)
		*ret_fd = take_fd(&fd);
	/* The mapping holds it from here on. */
	(void)cuda->memory_release(memory);
	return result;
}

static cuda_result make(struct gpu_ranges *ranges, const struct piece *piece, int *ret_fd)
{
	struct cuda_memory_attr attr = memory_attr(ranges);
	cuda_memory memory;
	bool is_exported;
	cuda_result result = ranges->device->cuda->memory_new(&memory, piece->bytes, &attr, 0);

	return result == CUDA_OK ? map_and_export(ranges, piece, memory, ret_fd, &is_exported) : result;
}

/* CUDA maps memory from its first byte on, so that is where the program's has to begin. */
static int lend(struct gpu_ranges *ranges, const struct piece *piece, uint64_t addr, int *ret_fd)
{
	const struct cuda_api *cuda = ranges->device->cuda;
	cuda_address begin = 0;
	bool is_exported;
	cuda_memory memory;
	cuda_result result;
	size_t bytes = 0;

	if (!cuda->address_range || !cuda->memory_retain)
		return shmd_error_set(-EOPNOTSUPP, "this CUDA driver does not say which memory is at an address");
	if (cuda->address_range(&begin, &bytes, addr) != CUDA_OK || begin != addr || bytes < piece->bytes ||
	    cuda->memory_retain(&memory, (void *)(uintptr_t)addr) != CUDA_OK)
		return shmd_error_set(-EINVAL, "no memory of %llu bytes that cuMemCreate() has made begins at 0x%llx", (unsigned long long)piece->bytes,
				      (unsigned long long)addr);
	result = map_and_export(ranges, piece, memory, ret_fd, &is_exported);
	if (!is_exported)
		return shmd_error_set(-EOPNOTSUPP, "the memory at 0x%llx cannot be passed to other processes: cuMemCreate() has to make it with "
				      "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR", (unsigned long long)addr);
	return result == CUDA_OK ? 0 : cuda_fail(cuda, result, "map memory of the program");
}

static cuda_result take(struct gpu_ranges *ranges, const struct piece *piece, int fd)
{
	const struct cuda_api *cuda = ranges->device->cuda;
	cuda_memory memory;
	cuda_result result = cuda->memory_import(&memory, (void *)(uintptr_t)fd, CUDA_HANDLE_FD);

	if (result != CUDA_OK)
		return result;
	result = map(ranges, piece, memory);
	(void)cuda->memory_release(memory);
	return result;
}

int gpu_ranges_make(struct gpu_ranges *ranges, uint64_t offset, uint64_t bytes, int *ret_fd)
{
	struct piece piece = {ranges->own, offset, bytes}, *place = NULL;
	int r = find_place(ranges, ranges->own, offset, bytes, &place);

	if (!r)
		r = device_enter(ranges->device);
	if (!r)
		r = device_leave(ranges->device, make(ranges, &piece, ret_fd), "make a chunk of the GPU heap");
	if (!r)
		*place = piece;
	return r;
}

int gpu_ranges_lend(struct gpu_ranges *ranges, uint64_t offset, uint64_t addr, uint64_t bytes, int *ret_fd)
{
	struct piece piece = {ranges->own, offset, bytes}, *place = NULL;
	int r = find_place(ranges, ranges->own, offset, bytes, &place);

	if (!r)
		r = device_enter(ranges->device);
	if (r < 0)
		return r;
	r = lend(ranges, &piece, addr, ret_fd);
	(void)device_leave(ranges->device, CUDA_OK, "");
	if (!r)
		*place = piece;
	return r;
}

static bool is_apart(cuda_result result)
{
	return result == CUDA_NO_PEER_ACCESS || result == CUDA_INVALID_GPU || result == CUDA_KERNEL_REFUSES || result == CUDA_NOT_PERMITTED ||
	       result == CUDA_NOT_SUPPORTED;
}

int gpu_ranges_take(struct gpu_ranges *ranges, uint32_t pe, int fd, uint64_t offset, uint64_t bytes)
{
	struct piece piece = {pe, offset, bytes}, *place = NULL;
	cuda_result result;
	int r = find_place(ranges, pe, offset, bytes, &place);

	if (!r)
		r = device_enter(ranges->device);
	if (r < 0)
		return r;
	result = take(ranges, &piece, fd);
	r = device_leave(ranges->device, result, "map a peer's GPU memory for this GPU");
	if (!r)
		*place = piece;
	return is_apart(result) ? -EXDEV : r;
}

void gpu_ranges_undo(struct gpu_ranges *ranges, uint64_t offset)
{
	if (device_enter(ranges->device) < 0)
		return;
	for (uint32_t i = 0; i < ranges->n_pieces; i++)
		if (ranges->pieces[i].offset == offset)
			unmap(ranges, &ranges->pieces[i]);
	(void)device_leave(ranges->device, CUDA_OK, "");
}
