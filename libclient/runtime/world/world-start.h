/* SPDX-License-Identifier: Apache-2.0 */
/* The end of what a start made. Also of a start that failed half way. */
#ifndef SHMD_WORLD_START_H
#define SHMD_WORLD_START_H

#include <stdbool.h>

struct shmd_world;

/* Frees contexts, teams, heap, and the world's share of the session. is_ours false: in a forked child, whose copy alone it frees. */
void world_stop(struct shmd_world *world, bool is_ours);

#endif
