/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "libclient/runtime/gpu/device.h"
#include "libclient/runtime/heap/heap-alloc.h"
#include "libclient/runtime/world/heaps.h"
#include "libclient/runtime/world/world-gpu.h"
#include "libclient/runtime/world/world-heap.h"
#include "libclient/runtime/world/world.h"

struct heap *world_alloc(const struct shmd_world *world, uint32_t heap)
{
	if (heap == SHMD_DEV_HEAP_HOST)
		return world->heap->alloc;
	return world->gpu ? world->gpu->alloc : NULL;
}

uint64_t world_own_base(const struct shmd_world *world, uint32_t heap)
{
	return world->pes[world->rank].heap_addr[heap];
}

static uint64_t used_of(const struct shmd_world *world, uint32_t heap)
{
	return __atomic_load_n(heap == SHMD_DEV_HEAP_HOST ? &world->dev->heap[heap].used_bytes : &world->gpu->used_bytes, __ATOMIC_ACQUIRE);
}

uint32_t world_find(const struct shmd_world *world, const void *ptr, uint64_t *ret_offset)
{
	for (uint32_t heap = 0; heap < SHMD_DEV_HEAPS; heap++) {
		if (heap == SHMD_DEV_HEAP_GPU && !world->gpu)
			break;
		*ret_offset = (uintptr_t)ptr - world_own_base(world, heap);
		if (*ret_offset < used_of(world, heap))
			return heap;
	}
	return SHMD_DEV_HEAPS;
}

bool world_is_on_gpu(const struct shmd_world *world, uint64_t addr, uint64_t end)
{
	for (int pe = 0; world->gpu && pe < world->size; pe++) {
		uint64_t base = world->pes[pe].heap_addr[SHMD_DEV_HEAP_GPU];

		/* bounded: the range lies in the address space */
		if (base && addr < base + world->gpu->chunks.range_bytes && base < end)
			return true;
	}
	return false;
}

bool world_gpu_is_mapped(const struct shmd_world *world, int pe)
{
	return world->pes[pe].heap_addr[SHMD_DEV_HEAP_GPU] != 0;
}

int world_offset(const struct shmd_world *world, const void *ptr, uint32_t *ret_heap, uint64_t *ret_offset)
{
	uint64_t offset;
	uint32_t heap = world_find(world, ptr, &offset);

	if (heap == SHMD_DEV_HEAPS)
		return shmd_error_set(-EINVAL, "%p is not in the symmetric heap", ptr);
	*ret_heap = heap;
	*ret_offset = offset;
	return 0;
}

void *world_peer_address(const struct shmd_world *world, uint32_t heap, int pe, uint64_t offset)
{
	uint64_t base = world->pes[pe].heap_addr[heap];

	return base ? (void *)(uintptr_t)(base + offset) : NULL;
}

void *world_address(const struct shmd_world *world, uint32_t heap, uint64_t offset)
{
	return offset == HEAP_NONE ? NULL : world_peer_address(world, heap, world->rank, offset);
}

int world_memory_zero(struct shmd_world *world, uint32_t heap, uint64_t offset, uint64_t bytes)
{
	if (heap == SHMD_DEV_HEAP_GPU)
		return device_zero(world->gpu->device, world_own_base(world, heap) + offset, bytes);
	memset(world_address(world, heap, offset), 0, bytes);
	return 0;
}

int world_memory_move(struct shmd_world *world, uint32_t heap, uint64_t to, uint64_t from, uint64_t bytes)
{
	uint64_t base = world_own_base(world, heap);

	if (heap == SHMD_DEV_HEAP_GPU)
		return device_move(world->gpu->device, base + to, base + from, bytes);
	memmove(world_address(world, heap, to), world_address(world, heap, from), bytes);
	return 0;
}
