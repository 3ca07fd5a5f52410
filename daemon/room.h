/* SPDX-License-Identifier: Apache-2.0 */
/* Decides how many of the process's descriptors and memory mappings users may hold. */
#ifndef SHMEMD_ROOM_H
#define SHMEMD_ROOM_H

#include "daemon/session/quota.h"

/* Connections of administrators beyond all limits. */
#define ROOM_ADMIN_PLACES 16u

/*
 * The pools of descriptors and of memory mappings, for a process that may open max_fds descriptors and has this many soft
 * NICs. Reads vm.max_map_count; the kernel's default counts where it cannot be read.
 */
void room_pools(uint64_t max_fds, uint64_t n_soft_nics, struct quota_amount *ret_pools);

/* Bounds the mappings that malloc makes for large blocks: no user is charged for those. Call it before other threads start. */
void room_bound_malloc(void);

#endif
