/* SPDX-License-Identifier: Apache-2.0 */
/* The report of this PE to shmemd, for its list of PEs. */
#ifndef SHMD_WORLD_REPORT_H
#define SHMD_WORLD_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include <shmd.h>

/* The paths of a started world to the log, a line for each run of PEs. */
void world_log_paths(const struct shmd_world *world);
/* A started world, as it is now. */
void world_report(struct shmd_world *world);
/*
 * Another report, if the last one of this kind is a second old: the GPU heap's use has changed. Waits for the daemon a moment at most, and tries
 * again a minute later then. Nothing in a world without a GPU heap, or while a collective call is under way. Any thread.
 */
void world_report_news(struct shmd_world *world);
/* A copy of CUDA's went between this GPU and the mapped GPU heap of another PE. Any thread. */
void world_count_copy(struct shmd_world *world, bool is_get, uint64_t bytes);
/* Nothing where nothing was reported. */
void world_retract(struct shmd_world *world);

#endif
