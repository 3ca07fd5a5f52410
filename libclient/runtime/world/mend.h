/* SPDX-License-Identifier: Apache-2.0 */
/* Queues that have failed. */
#ifndef SHMD_WORLD_MEND_H
#define SHMD_WORLD_MEND_H

struct shmd_ctx;
struct shmd_world;

#define WORLD_PE_OF_KERNELS (-2) /* a kernel's queue has failed, which leads to many PEs */

/* SHMD_DEV_CQE_ERROR as an errno with a sentence. pe: of the world; -1: the queue that has failed tells it; or WORLD_PE_OF_KERNELS. */
int world_queue_error(const struct shmd_ctx *ctx, const char *what, int pe);
/* Makes queues that have failed anew. No thread may post meanwhile. */
int world_queues_mend(struct shmd_world *world);

#endif
