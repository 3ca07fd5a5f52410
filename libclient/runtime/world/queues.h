/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue paths of a world: its QPs, their peers, registrations of chunks and their keys.
 *
 * A world whose PEs are all mapped has none of this, and opens no NIC. If two PEs of a world need a queue, every PE opens its NIC. RC QPs,
 * one for each peer, if no PE has more such peers than SHMD_RC_PEERS; else each PE has a few DCIs, and RC QPs to some hot peers (hot-set.h).
 * A DCT of each PE serves the DCIs of others, also those of contexts.
 */
#ifndef SHMD_WORLD_QUEUES_H
#define SHMD_WORLD_QUEUES_H

#include <stdbool.h>

#include <shmd.h>

struct world_queues;
struct shmd_ctx;

/*
 * Collective, once the paths are chosen. n_needed: PEs that this PE reaches by a queue. Makes no queues if that is 0 on all PEs; else the
 * PEs are connected when it returns.
 */
int world_queues_open(struct shmd_world *world, uint32_t n_needed);
/* Not collective: no PE may post any more. */
void world_queues_close(struct shmd_world *world);

/* Register this PE's part of a chunk with its NIC; *ret_rkey for the peers (0: the world has no queues). */
int world_queues_register(struct shmd_world *world, uint32_t chunk, const struct shmd_mr_attr *attr, uint32_t *ret_rkey);
void world_queues_deregister(struct shmd_world *world, uint32_t chunk);
/* rkeys of all PEs for a chunk: world->outcomes[pe].value. */
void world_queues_set_rkeys(struct shmd_world *world, uint32_t chunk);

bool world_queues_are_dc(const struct shmd_world *world); /* false without queues */
bool world_queues_reach_by_dc(const struct shmd_world *world, int pe); /* false without a way to it */

/* Memory of the program, for requests of this PE alone. */
int world_queues_reg_buffer(struct shmd_world *world, const struct shmd_mr_attr *attr, struct shmd_mr **ret_mr);

/* The context's ways and its memory for data that is not registered. has_own: with queues of its own, if they can be had. */
int world_queues_attach(struct shmd_world *world, struct shmd_ctx *ctx, bool has_own);
void world_queues_detach(struct shmd_ctx *ctx);

#endif
