/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory that a GPU can reach.
 *
 * Host ranges (queue memory, scratch slots, doorbell page, health page, payload) are registered with CUDA once for
 * all GPUs of the client, a "pin"; a GPU's "map" of it holds a reference. A pin is made in the context of one GPU
 * and keeps that context for as long as it lives, even after the GPU is closed. A range is forgotten
 * before it is unmapped.
 *
 * All under client->lock.
 */
#include <stdlib.h>

#include "libclient/gpu-private.h"

void gpu_unmap(struct gpu_map *map)
{
	struct gpu_pin *pin = map->pin;
	struct shmd_gpu *owner = pin->owner;

	list_del(&map->link);
	free(map);
	if (--pin->n_maps)
		return;
	if (gpu_may_call_cuda(owner->client) && !gpu_enter(owner)) {
		(void)owner->cuda->host_unregister(pin->addr);
		gpu_leave(owner);
	}
	list_del(&pin->link);
	free(pin);
	gpu_unref(owner);
}

struct gpu_map *gpu_find_map(struct shmd_gpu *gpu, const void *addr)
{
	struct gpu_map *map;

	list_for_each_entry(map, &gpu->maps, link)
		if (map->pin->addr == addr)
			return map;
	return NULL;
}

static struct gpu_pin *find_pin(struct shmd_client *client, const void *addr)
{
	struct gpu_pin *pin;

	list_for_each_entry(pin, &client->gpu_pins, link)
		if (pin->addr == addr)
			return pin;
	return NULL;
}

/* The GPU's context is current. */
static int make_pin(struct shmd_gpu *gpu, void *addr, size_t bytes, unsigned int flags, struct gpu_pin **ret_pin)
{
	_cleanup_free_ struct gpu_pin *pin = calloc(1, sizeof(*pin));
	cuda_result result;

	if (!pin)
		return text_fail(-ENOMEM, "no memory for a registration");
	result = gpu->cuda->host_register(addr, bytes, CUDA_REGISTER_PORTABLE | CUDA_REGISTER_MAP | flags);
	if (result != CUDA_OK)
		return cuda_fail(gpu->cuda, result, "register host memory with the GPU");
	pin->owner = gpu;
	pin->addr = addr;
	pin->bytes = bytes;
	gpu->n_refs++;
	list_add_tail(&gpu->client->gpu_pins, &pin->link);
	*ret_pin = take_ptr(pin);
	return 0;
}

/* The GPU's context is current. If another GPU maps the range, its pin serves. */
static int make_map(struct shmd_gpu *gpu, void *addr, size_t bytes, unsigned int flags, struct gpu_map **ret_map)
{
	struct gpu_map *map = calloc(1, sizeof(*map));
	cuda_result result;
	int r;

	if (!map)
		return text_fail(-ENOMEM, "no memory for a registration");
	map->pin = find_pin(gpu->client, addr);
	if (!map->pin) {
		r = make_pin(gpu, addr, bytes, flags, &map->pin);
		if (r < 0) {
			free(map);
			return r;
		}
	}
	map->pin->n_maps++;
	list_add_tail(&gpu->maps, &map->link);
	result = gpu->cuda->host_address(&map->gpu_addr, addr, 0);
	if (result == CUDA_OK) {
		*ret_map = map;
		return 0;
	}
	r = cuda_fail(gpu->cuda, result, "address of host memory on the GPU");
	gpu_unmap(map);
	return r;
}

int gpu_map_range(struct shmd_gpu *gpu, void *addr, size_t bytes, unsigned int flags, uint64_t *ret_addr)
{
	struct gpu_map *map = gpu_find_map(gpu, addr);
	int r;

	if (!map) {
		r = gpu_enter(gpu);
		if (r < 0)
			return r;
		r = make_map(gpu, addr, bytes, flags, &map);
		gpu_leave(gpu);
		if (r < 0)
			return r;
	}
	*ret_addr = map->gpu_addr;
	return 0;
}

void gpu_forget_range(struct shmd_client *client, const void *addr)
{
	struct shmd_gpu *gpu;
	struct gpu_map *map;

	list_for_each_entry(gpu, &client->gpus, link) {
		map = addr ? gpu_find_map(gpu, addr) : NULL;
		if (map)
			gpu_unmap(map);
	}
}

int shmd_gpu_map_mem(struct shmd_gpu *gpu, const struct shmd_mem *mem, uint64_t *ret_addr)
{
	int r = client_check(gpu ? gpu->client : NULL);

	if (r < 0)
		return r;
	if (!mem || !ret_addr || mem->client != gpu->client)
		return text_fail(-EINVAL, "mem or ret_addr is NULL, or mem belongs to another client");
	client_lock(gpu->client);
	r = gpu_map_range(gpu, mem->addr, mem->bytes, 0, ret_addr);
	client_unlock(gpu->client);
	return r;
}

int shmd_gpu_unmap_mem(struct shmd_gpu *gpu, const struct shmd_mem *mem)
{
	struct gpu_map *map;
	int r = client_check(gpu ? gpu->client : NULL);

	if (r < 0)
		return r;
	if (!mem)
		return text_fail(-EINVAL, "mem is NULL");
	client_lock(gpu->client);
	map = gpu_find_map(gpu, mem->addr);
	if (map)
		gpu_unmap(map);
	client_unlock(gpu->client);
	return map ? 0 : text_fail(-ENOENT, "this memory is not mapped on the GPU");
}
