/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of either heap of a world: whose address is it, where is an offset, filling and moving.
 *
 * heap: SHMD_DEV_HEAP_*. The world has started. Any thread.
 */
#ifndef SHMD_WORLD_HEAPS_H
#define SHMD_WORLD_HEAPS_H

#include <stdbool.h>
#include <stdint.h>

#include <shmd.h>

struct heap;

/* NULL: the world has no such heap. Used under the lock of the host's heap. */
struct heap *world_alloc(const struct shmd_world *world, uint32_t heap);
/* Offset 0 of this PE. */
uint64_t world_own_base(const struct shmd_world *world, uint32_t heap);
/* The heap in whose chunks this PE's address lies; SHMD_DEV_HEAPS: in none. */
uint32_t world_find(const struct shmd_world *world, const void *ptr, uint64_t *ret_offset);
/* The same; -EINVAL with a sentence. */
int world_offset(const struct shmd_world *world, const void *ptr, uint32_t *ret_heap, uint64_t *ret_offset);
/* Whether bytes of [addr, end) lie in the GPU heap of any PE. */
bool world_is_on_gpu(const struct shmd_world *world, uint64_t addr, uint64_t end);
/* Whether loads, stores and copies of this PE's GPU reach the GPU heap of `pe`; so they do for itself. */
bool world_gpu_is_mapped(const struct shmd_world *world, int pe);
/* HEAP_NONE: NULL. */
void *world_address(const struct shmd_world *world, uint32_t heap, uint64_t offset);
/* NULL: not mapped. */
void *world_peer_address(const struct shmd_world *world, uint32_t heap, int pe, uint64_t offset);

int world_memory_zero(struct shmd_world *world, uint32_t heap, uint64_t offset, uint64_t bytes);
/* The two may overlap. */
int world_memory_move(struct shmd_world *world, uint32_t heap, uint64_t to, uint64_t from, uint64_t bytes);

#endif
