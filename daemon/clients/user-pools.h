/* SPDX-License-Identifier: Apache-2.0 */
/* Decides how many of the process's descriptors and memory mappings users may hold. */
#ifndef SHMEMD_CLIENTS_USER_POOLS_H
#define SHMEMD_CLIENTS_USER_POOLS_H

#include "daemon/session/quota.h"

/* Connections of administrators beyond all limits. */
#define USER_POOLS_ADMIN_PLACES 16u

/*
 * The pools of descriptors and of memory mappings, for a process that may open max_fds descriptors and has this many soft
 * NICs. Reads vm.max_map_count; the kernel's default counts where it cannot be read.
 */
void user_pools_compute(uint64_t max_fds, uint64_t n_soft_nics, struct quota_amount *ret_pools);

/* Bounds the mappings that malloc makes for large blocks: no user is charged for those. Call it before other threads start. */
void user_pools_bound_malloc(void);

#endif
