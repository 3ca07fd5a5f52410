/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files about GPUs. From below: gpu-context.c (a GPU's context), gpu-range.c (host memory that it reaches),
 * gpu-view.c and gpu-view-make.c (queues as kernels see them), gpu-hot.c (ways to hot peers in views), gpu.c (opening, closing)
 * and gpu-mem.c (memory of GPUs).
 *
 * All under client->lock; the names without `shmd_` want it held. Nothing of CUDA is called in a forked child.
 */
#ifndef SHMD_GPU_PRIVATE_H
#define SHMD_GPU_PRIVATE_H

#include "libclient/cuda/cuda-api.h"
#include "libclient/objects.h"

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

/* ---- gpu-context.c */

bool gpu_may_call_cuda(const struct shmd_client *client);
/* Makes the GPU's context current; gpu_leave() brings the caller's own back. These two and gpu_finish() need no lock. */
int gpu_enter(struct shmd_gpu *gpu);
void gpu_leave(struct shmd_gpu *gpu);
/* Leaves the context. 0; or a negative errno, with text, if result is not CUDA_OK. */
int gpu_finish(struct shmd_gpu *gpu, cuda_result result, const char *what);
/* The same, after it has waited for the copies on the GPU's stream. */
int gpu_finish_copies(struct shmd_gpu *gpu, cuda_result result, const char *what);
/* The last one ends the stream and releases the primary context. */
void gpu_unref(struct shmd_gpu *gpu);

/* ---- gpu-range.c */

/* *ret_addr: where the GPU sees this range, which is registered for it if it was not. */
int gpu_map_range(struct shmd_gpu *gpu, void *addr, size_t bytes, unsigned int flags, uint64_t *ret_addr);
/* NULL if the range that begins at addr is not mapped. */
struct gpu_map *gpu_find_map(struct shmd_gpu *gpu, const void *addr);
void gpu_unmap(struct gpu_map *map);

/* ---- gpu-view.c: dev-state and dev-qps, then slot words, peers, ways to peers */

size_t gpu_view_slots_offset(const struct shmd_queues *queues);
size_t gpu_view_slots_bytes(const struct shmd_queues *queues);
size_t gpu_view_peers_bytes(const struct shmd_queues *queues);
size_t gpu_view_ways_bytes(const struct shmd_queues *queues);
/* The address of its routes, if its DCIs have a set of hot peers. */
uint64_t gpu_view_routes(const struct gpu_view *view);
/* NULL if the GPU has no view of these queues. */
struct gpu_view *gpu_view_find(const struct shmd_gpu *gpu, const struct shmd_queues *queues);
void gpu_view_free(struct gpu_view *view);

/* ---- gpu-view-make.c */

/* A view without ways to hot peers. The GPU has none of these queues yet. */
int gpu_view_make(struct shmd_gpu *gpu, struct shmd_queues *queues, struct gpu_view **ret_view);

/* ---- gpu-hot.c */

/* Brings a view of DCIs with a set of hot peers to the state of the set's slots. */
int gpu_view_write_ways(struct gpu_view *view);

#endif
