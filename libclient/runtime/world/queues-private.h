/* SPDX-License-Identifier: Apache-2.0 */
/* The queues of a world from inside, for queues.c, own-queues.c, hot.c, hot-set.c and mend.c. */
#ifndef SHMD_WORLD_QUEUES_PRIVATE_H
#define SHMD_WORLD_QUEUES_PRIVATE_H

#include <pthread.h>
#include <stdbool.h>

#include <shmd.h>

#include "libclient/runtime/world/world.h"

#define WORLD_N_KEYS (SHMD_DEV_HEAPS * SHMD_DEV_HEAP_CHUNKS)

struct world_queues {
	struct shmd_nic *nic; /* of the session */
	struct shmd_nic_info info;
	int n_peers; /* with a way */
	int *peers; /* ascending; room for all PEs */
	bool is_dc;
	struct shmd_queues *qps;
	struct shmd_dct *dct; /* NULL: the NIC has none, or this PE has no way */
	struct shmd_addr *dct_addrs; /* of the peers, in their order; bytes 0: that PE has none */
	struct shmd_dev_pe_way *ways; /* by PE */
	uint64_t *qp_addrs;
	unsigned int n_qps;
	struct shmd_hot *hot; /* peers of the DCIs that have an RC QP of their own; NULL: none can have */
	uint64_t hot_state_addr; /* of the DCIs, for contexts that share them */
	shmd_be32 lkeys[WORLD_N_KEYS];
	shmd_be32 *rkeys; /* [WORLD_N_KEYS][n_pes] */
	struct shmd_mr *mrs[WORLD_N_KEYS];

	pthread_mutex_t lock; /* around what follows */
	struct shmd_dev_peer *targets; /* the peers for DCIs, in their order; NULL: not resolved yet */
	struct shmd_queues *spare; /* a DCI in place of RC QPs that failed; NULL: none has */
};

static inline enum shmd_sharing world_queues_sharing(const struct shmd_world *world)
{
	return world->settings.thread_level == RUNTIME_THREAD_MULTIPLE ? SHMD_SHARING_GPU : SHMD_SHARING_EXCLUSIVE;
}

/* Fills `targets`. lock held, or no other thread knows the world yet. */
int world_queues_resolve(struct world_queues *queues);
/* Ways to all peers by DCIs in turn. The targets are resolved. */
void world_ways_fill(const struct world_queues *queues, struct shmd_dev_pe_way *ways, const uint64_t *qp_addrs, unsigned int n_qps);

/* Whether contexts can have DCIs of their own here: a setting wants it, and each peer can be reached by them. */
bool world_queues_can_have_own(const struct shmd_world *world);
int world_queues_make_own(struct shmd_world *world, struct shmd_ctx *ctx);
void world_queues_drop_own(struct shmd_ctx *ctx);

#endif
