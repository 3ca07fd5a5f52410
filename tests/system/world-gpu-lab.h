/* SPDX-License-Identifier: Apache-2.0 */
/* PEs with a GPU heap over a CUDA without a GPU: opening worlds, copies for kernels, and a function that does what a kernel would. */
#ifndef SHMEMD_TESTS_WORLD_GPU_LAB_H
#define SHMEMD_TESTS_WORLD_GPU_LAB_H

#include <shmd/dev/coll.h>
#include <shmd/dev/pe.h>

#include "tests/system/world-lab.h"

#define GPU_LAB_BYTES 50000u
#define GPU_LAB_GROWTH (96ull << 20) /* more than the heap has */

/* paths: SHMD_ALLOW_*; 0: all. */
struct shmd_world *gpu_lab_open(const struct world_lab *lab, int pe, const char *gpu, uint32_t paths);
struct shmd_dev_ctx *gpu_lab_ctx(struct shmd_ctx *ctx);
struct shmd_dev_team *gpu_lab_team(struct shmd_team *team);
/* Symmetric and zero. */
void *gpu_lab_memory(struct shmd_world *world, size_t bytes);

/* As a kernel: puts to the right, signals, counts on PE 0, sums. memory: 3 * GPU_LAB_BYTES, symmetric and zero. */
void gpu_lab_kernel(struct shmd_world *world, struct shmd_ctx *ctx, struct shmd_team *team, uint8_t *memory);
/* A request with a key that nobody has: the queue of kernels to this PE fails. */
void gpu_lab_break_queue(struct shmd_dev_ctx *ctx, uint32_t pe);
/* Nothing of CUDA is left. */
void gpu_lab_expect_nothing(void);

#endif
