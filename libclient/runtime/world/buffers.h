/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers of the program that its NIC reads and writes in place: the table that device functions look at.
 *
 * A table never changes; a new one takes its place. Functions may still read the former one, and nothing tells when they have done so,
 * so tables stay until the world ends: 16 bytes and 32 for each buffer with each call.
 */
#ifndef SHMD_WORLD_BUFFERS_H
#define SHMD_WORLD_BUFFERS_H

#include <stdbool.h>

#include <shmd.h>

struct world_buffers;

int world_buffers_make(struct shmd_world *world);
/* After the QPs are gone. is_ours: not in a forked child. */
void world_buffers_drop(struct shmd_world *world, bool is_ours);

#endif
