/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU heap of a world, and the world as kernels see it.
 *
 * All PEs of the world have a GPU heap or none has. It takes the steps of the host's heap (world-heap.h), but each PE makes its own part of a
 * chunk, on its GPU. An allocator of its own decides on it, by the same records. PEs that map each other's host heap map each other's GPU heap,
 * unless CUDA keeps their GPUs apart (gpu-apart.h); the others reach it by queues. If a world has queues, chunks are registered with the NICs, kernels send all atomics and signals by queues,
 * because a NIC's atomics are not exact against those of a GPU, and the host reaches the GPU heap by queues, also its own.
 *
 * Kernels read a copy of the world in GPU memory, with its PEs and tables behind it, and copies of contexts and teams. Teams count their syncs
 * for kernels apart from those for the host, in scratch at the start of the GPU heap. The library writes what changes by a stream that waits
 * for no kernel: first what is looked at later.
 */
#ifndef SHMD_WORLD_GPU_H
#define SHMD_WORLD_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shmd.h>

#include "libclient/runtime/settings/settings.h"
#include "libclient/runtime/world/symmetric.h"
#include "libclient/runtime/world/world-heap.h"

struct device;
struct gpu_ranges;
struct shmd_ctx;
struct stream_kernels;

#define WORLD_GPU_HEAP_IOVA (UINT64_C(1) << 57) /* of offset 0; the same on all PEs, and behind the host's heap */
/* At the start of the heap: scratch of teams by id, then words of the first of them. */
#define WORLD_GPU_WORDS_OFFSET ((uint64_t)SHMD_DEV_MAX_TEAMS * SHMD_DEV_TEAM_SCRATCH_BYTES)
#define WORLD_GPU_INTERNAL_BYTES (WORLD_GPU_WORDS_OFFSET + SHMD_DEV_WORDS_TEAMS * SHMD_DEV_WORDS_BYTES)

struct world_gpu {
	struct device *device;
	struct gpu_ranges *ranges; /* by place in the group of the host's heap */
	struct shmd_gpu *of_session; /* the same GPU, for NICs; NULL in a world without queues */
	struct heap *alloc; /* under the lock of the host's heap */
	uint64_t used_bytes; /* atomic; end of the last chunk */
	struct chunk_table chunks;
	struct symmetric symmetric[SHMD_DEV_HEAP_CHUNKS]; /* gpu-symmetric.c */
	uint32_t n_symmetric;
	/*
	 * In GPU memory: a struct shmd_dev_world, its PEs, the ends of chunks, keys, and the index of chunks. 0: not there yet. Under the world's
	 * gpu_lock.
	 */
	uint64_t dev;
	uint32_t n_refused; /* PEs whose memory CUDA has refused to map, in this start (gpu-apart.h) */
	uint64_t bytes_put, bytes_got; /* by copies, to and from other PEs; atomic */
	uint64_t reported_nsec; /* when, for lists (report.h); in the future: not before. Atomic */
	struct stream_kernels *kernels; /* of calls on streams; NULL: none was made. Under the world's gpu_copies. */
};

/* Whether these settings ask for a GPU heap. */
bool world_gpu_is_wanted(const struct runtime_settings *settings);

/* ---- gpu-chunks.c: collective, as world_heap_open() and world_heap_grow() */

/* WORLD_BEGIN_AGAIN: on all PEs alike, the start is to be undone and begun again, now with other paths. */
#define WORLD_BEGIN_AGAIN 1
int world_gpu_open(struct shmd_world *world, uint64_t bytes, uint64_t range_bytes);
int world_gpu_grow(struct shmd_world *world, uint64_t bytes);
/*
 * Memory of the program's, of `bytes` from addr on, in the place of a chunk: of the next one, or of one whose memory was taken away. The allocator
 * does not know it.
 */
int world_gpu_lend(struct shmd_world *world, uint32_t number, uint64_t offset, uint64_t bytes, uint64_t addr);
/* Local: takes the memory of a chunk away, of all PEs. */
void world_gpu_undo(struct shmd_world *world, uint32_t number, uint64_t offset);
/* is_ours false: in a forked child, where CUDA does not work and all stays the parent's. */
void world_gpu_close(struct shmd_world *world, bool is_ours);

/* ---- gpu-symmetric.c: shmd_buffer_register_symmetric() and its end for memory of a GPU; collective, with the world's lock */

/* For sentences, and settings that they name. */
extern const struct chunk_names world_gpu_chunk_names;
/* Memory of a GPU is there. */
bool world_gpu_has_memory_at(const struct shmd_world *world, const void *addr);
/* All PEs have agreed that they pass so many bytes of such memory. */
int world_gpu_register_symmetric(struct shmd_world *world, const void *addr, uint64_t bytes, void **ret_ptr);
/* NULL: no such memory is registered at this offset. */
struct symmetric *world_gpu_find_symmetric(struct shmd_world *world, uint64_t offset);

/* ---- gpu-view.c */

/* The copy of the world; teams are there. Local. */
int world_gpu_show(struct shmd_world *world);
/* The GPU heap has grown. */
int world_gpu_show_chunks(struct shmd_world *world);
/* PEs have ended or were forgiven. Where there is no copy: nothing. */
void world_gpu_show_gone(struct shmd_world *world);
/* A context or a team ends: its copy with it. */
void world_gpu_hide(struct shmd_world *world, uint64_t *copy);
/* The scratch of a team that no member writes to any more. */
int world_gpu_clear_scratch(struct shmd_world *world, uint32_t team);

/* ---- gpu-queues.c: the queues of kernels */

/* Room for the keys of all PEs, and writing them there. Nothing in a world without queues. */
size_t world_gpu_keys_bytes(const struct shmd_world *world);
int world_gpu_keys_write(const struct shmd_world *world, uint64_t at);
/* The copy of the world names them. */
void world_gpu_keys_show(const struct shmd_world *world, uint64_t at, struct shmd_dev_world *dev);

/* Room behind the copy of a context; 0 in a world without queues. */
size_t world_gpu_queues_bytes(const struct shmd_world *world);
/*
 * Queues of a context's kernels, with their addresses written to that room, at `at`. Fills dev, the copy of the context. -EOPNOTSUPP: a PE has
 * no dynamic connections. With gpu_copies.
 */
int world_gpu_queues_make(struct shmd_ctx *ctx, uint64_t at, struct shmd_dev_ctx *dev);
void world_gpu_queues_drop(struct shmd_ctx *ctx);
/* The syndrome of a queue of kernels that has failed, of whichever context; 0: none has, or there is none. Takes gpu_copies, then tables. */
uint32_t world_gpu_queues_error(struct shmd_world *world);
/* Queues that have failed begin anew. No kernel posts meanwhile. */
int world_gpu_queues_mend(struct shmd_world *world);

#endif
