/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of hot peers. Collective, with the world's lock. */
#ifndef SHMD_WORLD_HOT_H
#define SHMD_WORLD_HOT_H

#include <shmd.h>

/* At the end of a start: as many as SHMD_HOT_START says. */
int world_hot_start(struct shmd_world *world);
/* As shmd_world_hot_peers(), on a started world. */
int world_hot_choose(struct shmd_world *world, const int *pes, int n);

#endif
