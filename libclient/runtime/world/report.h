/* SPDX-License-Identifier: Apache-2.0 */
/* The report of this PE to shmemd, for its list of PEs. */
#ifndef SHMD_WORLD_REPORT_H
#define SHMD_WORLD_REPORT_H

#include <shmd.h>

/* The paths of a started world to the log, a line for each run of PEs. */
void world_log_paths(const struct shmd_world *world);
/* A started world, as it is now. */
void world_report(struct shmd_world *world);
/* Nothing where nothing was reported. */
void world_retract(struct shmd_world *world);

#endif
