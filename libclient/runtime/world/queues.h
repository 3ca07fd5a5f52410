/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue paths of a world: its QPs, their peers, registrations of chunks and their keys.
 *
 * A world whose PEs are all mapped has none of this, and opens no NIC. If two PEs of a world need a queue, every PE opens its NICs. RC QPs,
 * one for each peer, if no PE has more such peers than SHMD_RC_PEERS; else each PE has a few DCIs, and RC QPs to some hot peers (hot-set.h).
 * A DCT of each PE serves the DCIs of others, also those of contexts.
 */
#ifndef SHMD_WORLD_QUEUES_H
#define SHMD_WORLD_QUEUES_H

#include <stdbool.h>

#include <shmd.h>
#include <shmemclient-gpu-mem.h>

struct world_queues;
struct shmd_ctx;

/* A chunk of the GPU heap, among those of all heaps. */
#define WORLD_GPU_CHUNK(number) (SHMD_DEV_HEAP_GPU * SHMD_DEV_HEAP_CHUNKS + (number))

/*
 * Collective, once the paths are chosen. n_needed: PEs that this PE reaches by a queue. Makes no queues if that is 0 on all PEs; else the
 * PEs are connected when it returns.
 */
int world_queues_open(struct shmd_world *world, uint32_t n_needed);
/* Not collective: no PE may post any more. */
void world_queues_close(struct shmd_world *world);

/* Register this PE's part of a chunk with each of its NICs. Does nothing in a world without queues. chunk: also those of the GPU heap. */
int world_queues_register(struct shmd_world *world, uint32_t chunk, const struct shmd_mr_attr *attr);
int world_queues_register_gpu(struct shmd_world *world, uint32_t chunk, struct shmd_gpu *gpu, const struct shmd_gpu_mr_attr *attr);
/* How the first NIC has the chunk, which is registered. */
enum shmd_mem_kind world_queues_mem_kind(const struct shmd_world *world, uint32_t chunk);
/* After a failure of the former, too. */
void world_queues_deregister(struct shmd_world *world, uint32_t chunk);
/* Collective, in every world: world_agree() on `error`, and the keys of the chunk become known to all. */
int world_queues_share_keys(struct shmd_world *world, uint32_t chunk, int error);

bool world_queues_are_dc(const struct shmd_world *world); /* false without queues */
bool world_queues_reach_by_dc(const struct shmd_world *world, int pe); /* false without a way to it */

/* Memory of the program, for requests of this PE alone: by rail. */
int world_queues_reg_buffer(struct shmd_world *world, const struct shmd_mr_attr *attr, struct shmd_mr *mrs[SHMD_DEV_RAILS]);
void world_queues_dereg_buffer(struct shmd_mr *mrs[SHMD_DEV_RAILS]);

/* The context's ways and its memory for data that is not registered. has_own: with queues of its own, if they can be had. */
int world_queues_attach(struct shmd_world *world, struct shmd_ctx *ctx, bool has_own);
void world_queues_detach(struct shmd_ctx *ctx);

#endif
