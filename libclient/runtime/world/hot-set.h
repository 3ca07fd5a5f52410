/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hot peers: in a world by DC, some PEs have an RC QP to each other as well, and requests between them go by it.
 *
 * The senders of the world have a set of hot peers (<shmemclient-hot.h>); each PE has room for SHMD_HOT_PEERS in its own. Contexts with
 * senders of their own stay on DC. hot.h chooses the pairs. i: a peer by its place among those with a way.
 */
#ifndef SHMD_WORLD_HOT_SET_H
#define SHMD_WORLD_HOT_SET_H

#include <stdbool.h>

#include <shmd.h>

struct world_queues;

/* The sharing of the world's DCIs: all that post to a hot peer share its QP. */
enum shmd_sharing world_hot_sharing(const struct shmd_world *world);
/* Once the DCIs have their peers and ways. All begin on DC. */
int world_hot_open(struct shmd_world *world);
void world_hot_close(struct world_queues *queues);

/* enum shmd_hot_state */
int world_hot_state_of(const struct world_queues *queues, int i);
/* By its own QP, which is connected at both ends, or by DC. Nothing is under way. */
int world_hot_set_way(struct shmd_world *world, int i, bool is_hot);
/* By DC, without a QP of its own. */
int world_hot_drop(struct shmd_world *world, int i);
/* Peers whose QP has failed go by DC again. No thread may post meanwhile. */
int world_hot_mend(struct shmd_world *world);

#endif
