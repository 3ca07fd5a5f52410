/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that others have mapped very often, and into which they punch holes at the lowest priority: the kernel holds its list of
 * mappings for seconds, and whoever maps, touches or unmaps it waits, and cannot be killed.
 */
#ifndef SHMD_TESTS_SYSTEM_STALL_MAPS_H
#define SHMD_TESTS_SYSTEM_STALL_MAPS_H

#include <stdint.h>
#include <sys/types.h>

#include "tests/lib/puncher.h"

#define STALL_MAPS_PROCESSES 3u

struct stall_maps {
	struct puncher puncher;
	pid_t pids[STALL_MAPS_PROCESSES];
};

/* Returns when the file is mapped and holes come. */
void stall_maps_start(struct stall_maps *maps, int memfd, uint64_t bytes);
void stall_maps_stop(struct stall_maps *maps);

#endif
