/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files about GPUs share: gpu.c (a GPU), gpu-range.c (host memory that it reaches), gpu-view.c (queues as
 * kernels see them), gpu-hot.c (ways to hot peers in views). All under client->lock; the names without `shmd_` want it held. Nothing of CUDA is called in a
 * forked child.
 */
#ifndef SHMD_GPU_PRIVATE_H
#define SHMD_GPU_PRIVATE_H

#include "libclient/client-private.h"
#include "libclient/cuda-api.h"

struct shmd_gpu {
	struct shmd_client *client;
	struct list link; /* client->gpus, until it is closed */
	const struct cuda_api *cuda;
	unsigned int n_refs; /* the handle, and pins made in this context */
	cuda_ordinal gpu;
	cuda_context context;
	cuda_stream stream;
	bool is_primary; /* the primary context, retained by us */
	struct shmd_gpu_info info;
	struct list maps; /* gpu_map.link */
	struct list views; /* gpu_view.gpu_link */
};

struct gpu_pin {
	struct list link; /* client->gpu_pins */
	struct shmd_gpu *owner; /* in whose context it was registered */
	void *addr;
	size_t bytes;
	unsigned int n_maps;
};

struct gpu_map {
	struct list link; /* gpu->maps */
	struct gpu_pin *pin;
	cuda_address gpu_addr;
};

struct gpu_view {
	struct list gpu_link, queues_link;
	struct shmd_gpu *gpu;
	struct shmd_queues *queues;
	cuda_address base; /* dev-state, dev-qps, slot words, peers, ways to peers */
};

#define GPU_VIEW_QPS_OFFSET sizeof(struct shmd_dev_state)

bool gpu_may_call_cuda(const struct shmd_client *client);
/* Runs with the GPU's context current; the caller's own comes back. */
int gpu_enter(struct shmd_gpu *gpu);
void gpu_leave(struct shmd_gpu *gpu);
void gpu_unref(struct shmd_gpu *gpu);

/* *ret_addr: where the GPU sees this range, which is registered for it when it was not. */
int gpu_map_range(struct shmd_gpu *gpu, void *addr, size_t bytes, unsigned int flags, uint64_t *ret_addr);
/* NULL when the range that begins at addr is not mapped. */
struct gpu_map *gpu_find_map(struct shmd_gpu *gpu, const void *addr);
void gpu_unmap(struct gpu_map *map);
void gpu_view_free(struct gpu_view *view);
/* *ret_base: of the view, which is made when there was none. */
int gpu_view_get(struct shmd_gpu *gpu, struct shmd_queues *queues, uint64_t *ret_base);
/* Where its routes are, if its DCIs have a set of hot peers. */
uint64_t gpu_view_routes(const struct gpu_view *view);
/* Brings a view of DCIs with a set of hot peers to what the set's slots say. */
int gpu_view_write_ways(struct gpu_view *view);

#endif
