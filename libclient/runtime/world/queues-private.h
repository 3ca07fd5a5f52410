/* SPDX-License-Identifier: Apache-2.0 */
/* The queues of a world from inside, for queues.c, rails.c, own-queues.c, gpu-queues.c, hot.c, hot-set.c and mend.c. */
#ifndef SHMD_WORLD_QUEUES_PRIVATE_H
#define SHMD_WORLD_QUEUES_PRIVATE_H

#include <pthread.h>
#include <stdbool.h>

#include <shmd.h>

#include "libclient/runtime/world/world.h"

#define WORLD_N_KEYS (SHMD_DEV_HEAPS * SHMD_DEV_HEAP_CHUNKS)

/* A NIC of this PE (rail-rule.h). */
struct world_rail {
	struct shmd_nic *nic; /* of the session */
	struct shmd_nic_info info;
	struct shmd_dct *dct; /* NULL: the NIC has none, or this PE has no way */
	struct shmd_addr *dct_addrs; /* of the peers, in their order, on the rail to which this one leads; bytes 0: that PE has none */
	shmd_be32 lkeys[WORLD_N_KEYS];
	struct shmd_mr *mrs[WORLD_N_KEYS];

	struct shmd_dev_peer *targets; /* the peers for DCIs, in their order; NULL: not resolved yet; under the lock of the queues */
	uint32_t n_contexts; /* atomic; grows under the lock */
};

struct world_queues {
	struct world_rail rails[SHMD_DEV_RAILS];
	uint32_t n_rails; /* of this PE */
	uint32_t most_rails; /* of any PE */
	uint8_t *n_rails_of; /* by PE */
	int n_peers; /* with a way */
	int *peers; /* ascending; room for all PEs */
	bool is_dc;
	struct shmd_queues *qps; /* on rail 0 */
	struct shmd_dev_pe_way *ways; /* by PE */
	uint64_t *qp_addrs;
	unsigned int n_qps;
	struct shmd_hot *hot; /* peers of the DCIs that have an RC QP of their own; NULL: none can have */
	uint64_t hot_state_addr; /* of the DCIs, for contexts that share them */
	shmd_be32 *rkeys[SHMD_DEV_RAILS]; /* by rail of the peer: [WORLD_N_KEYS][n_pes] */

	pthread_mutex_t lock; /* around what follows, and parts of the rails */
	struct shmd_queues *spare; /* a DCI in place of RC QPs that failed; NULL: none has */
};

static inline enum shmd_sharing world_queues_sharing(const struct shmd_world *world)
{
	return world->settings.thread_level == RUNTIME_THREAD_MULTIPLE ? SHMD_SHARING_GPU : SHMD_SHARING_EXCLUSIVE;
}

/* ---- rails.c */

/* The NICs of the session for this world. */
int world_rails_open(struct shmd_world *world);
/* Once all PEs know how many each has: tables of keys and addresses. */
int world_rails_prepare(struct shmd_world *world);
/* A DCT on each. EOPNOTSUPP is none of rail 0's in a world by DC; other rails without one carry no context. */
int world_rails_make_targets(struct shmd_world *world);
/* Collective: the addresses of the DCTs behind rail 0. */
int world_rails_exchange(struct shmd_world *world);
/* Device functions and lists see them from here on. */
void world_rails_show(struct shmd_world *world);
void world_rails_close(struct shmd_world *world);
/* For a new context, which counts there until world_rails_leave(). */
uint32_t world_rails_take(struct shmd_world *world, bool has_own);
/* To rail 0. */
void world_rails_move(struct shmd_world *world, uint32_t *rail);
void world_rails_leave(struct shmd_world *world, uint32_t rail);

/* ---- own-queues.c */

/* Fills `targets`. lock held, or no other thread knows the world yet. */
int world_queues_resolve(struct world_rail *rail, int n_peers);
/* The same, and takes the lock. */
int world_queues_resolve_alone(struct world_queues *queues, uint32_t rail);
/* Ways to all peers by DCIs in turn. The targets are resolved. */
void world_ways_fill(const struct world_queues *queues, uint32_t rail, struct shmd_dev_pe_way *ways, const uint64_t *qp_addrs,
		     unsigned int n_qps);

/* Whether each peer has a DCT to which it leads. */
bool world_queues_reach_all(const struct world_queues *queues, uint32_t rail);
/* Whether contexts can have DCIs of their own there: a setting wants it, and each peer can be reached by them. */
bool world_queues_can_have_own(const struct shmd_world *world, uint32_t rail);
/* On the rail of the context. */
int world_queues_make_own(struct shmd_world *world, struct shmd_ctx *ctx);
void world_queues_drop_own(struct shmd_ctx *ctx);

#endif
