/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registering memory of GPUs as symmetric memory. The memory of each PE, which cuMemCreate() has made, appears a second time in the range of the GPU heap,
 * at the same offset on all PEs; the steps are those of a chunk (gpu-chunks.c). The program's own mapping stays as it is.
 *
 * Which place a buffer gets is a function of the calls of all PEs alone.
 */
#include <errno.h>

#include "libclient/runtime/gpu/ranges.h"
#include "libclient/runtime/world/exchange.h"
#include "libclient/runtime/world/heaps.h"
#include "libclient/runtime/world/world-gpu.h"
#include "libclient/runtime/world/world.h"

bool world_gpu_has_memory_at(const struct shmd_world *world, const void *addr)
{
	return world->gpu && device_has_memory_at(world->gpu->device, (uintptr_t)addr);
}

struct symmetric *world_gpu_find_symmetric(struct shmd_world *world, uint64_t offset)
{
	return symmetric_find_used(world->gpu->symmetric, world->gpu->n_symmetric, offset);
}

/* The heap itself is symmetric already. */
static int check_memory(const struct shmd_world *world, const void *addr, uint64_t bytes)
{
	/* bounded: the memory lies in the address space */
	if (world_is_on_gpu(world, (uintptr_t)addr, (uintptr_t)addr + bytes))
		return shmd_error_set(-EINVAL, "the buffer at %p is in the GPU heap", addr);
	return 0;
}

int world_gpu_register_symmetric(struct shmd_world *world, const void *addr, uint64_t bytes, void **ret_ptr)
{
	struct world_gpu *gpu = world->gpu;
	struct symmetric *place = symmetric_find_free(gpu->symmetric, gpu->n_symmetric, bytes);
	struct symmetric next = {.chunk = gpu->chunks.n, .offset = chunk_table_end(&gpu->chunks), .bytes = bytes};
	uint64_t rounded;
	int r = check_memory(world, addr, bytes);

	if (!r && !place)
		r = chunk_table_next(&gpu->chunks, &world_gpu_chunk_names, bytes, &rounded);
	r = world_agree(world, r);
	if (r < 0)
		return r;
	if (place)
		next = *place;
	r = world_gpu_lend(world, next.chunk, next.offset, bytes, (uintptr_t)addr);
	if (r < 0)
		return r;
	next.is_used = true;
	/* bounded: each place is a chunk of its own */
	*(place ? place : &gpu->symmetric[gpu->n_symmetric++]) = next;
	*ret_ptr = world_address(world, SHMD_DEV_HEAP_GPU, next.offset);
	return 0;
}
