/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: the default one of a world, and those that a program makes. */
#ifndef SHMD_WORLD_CTX_H
#define SHMD_WORLD_CTX_H

#include <shmd.h>

struct shmd_ctx {
	struct shmd_dev_ctx dev; /* first: aligned as device functions want it */
	struct shmd_world *world;
	struct shmd_team *team;
	uint64_t gpu_addr; /* its copy for kernels; 0: not made. Under the world's gpu_copies */
	struct shmd_dev_ctx gpu_dev; /* what that copy was made of, with its address. Under gpu_copies */
	struct shmd_queues *gpu_queues; /* of its kernels; NULL: not made, or no queues. Under gpu_copies, as the next two */
	struct shmd_mem *gpu_bounce; /* and for data of kernels that is not registered */
	struct shmd_mr *gpu_bounce_mr;
	struct shmd_mem *bounce; /* for data that is not registered; NULL: the world has no queues */
	struct shmd_mr *bounce_mr;
	uint32_t rail; /* rail-rule.h */
	struct shmd_queues *own; /* queues of its own; NULL: it shares those of the world, or there are none */
	struct shmd_queues *amo_own; /* on rail 0, for atomics and signals; NULL: they go by `own`, too */
	struct shmd_dev_pe_way *ways, *amo_ways; /* of these, by PE */
	uint64_t *qp_addrs; /* of `own`, then of `amo_own` */
	struct shmd_ctx *prev, *next; /* of the world */
};

/* The default context, which world_stop() frees with all others. */
int world_ctx_make(struct shmd_world *world);
void world_ctx_drop(struct shmd_world *world);
/* Waits for the operations of all contexts, as far as they can end. SHMD_DEV_TIMEOUT if some did not, else the first other failure. */
int world_ctx_settle(struct shmd_world *world);
/* The same without private contexts, whose threads may use them, within the time limit of the world. */
int world_ctx_settle_shared(struct shmd_world *world);

#endif
