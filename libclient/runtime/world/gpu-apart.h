/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUs that CUDA keeps apart: without peer access, as parts of one GPU (MIG), or in processes between which it passes no memory.
 *
 * Two PEs that map each other's host heap find this out when they map the first chunk of the GPU heap. If both allow queues, the path between
 * their GPU heaps is a queue instead, in both directions. A queue has to be there before the heaps are, so all PEs undo their start and begin it
 * again, which a world without such a pair never does. If one forbids queues, it stays an error. A later chunk that CUDA refuses is an error, too.
 *
 * Collective where it says so. With the world's lock.
 */
#ifndef SHMD_WORLD_GPU_APART_H
#define SHMD_WORLD_GPU_APART_H

#include <stdbool.h>

#include <shmd.h>

/* CUDA has just refused memory of `pe`, with the present error text. false: it stays an error. */
bool world_gpu_set_apart(struct shmd_world *world, int pe);
/* Collective: world_agree() on `error`; and WORLD_BEGIN_AGAIN if a PE has set one apart, which both know from then on. */
int world_gpu_agree_on_apart(struct shmd_world *world, int error);

#endif
