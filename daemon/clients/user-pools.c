/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the pools: the descriptors and memory mappings that all users together may hold.
 *
 * Users get three quarters of RLIMIT_NOFILE, less four descriptors for each soft NIC, and seven eighths of `vm.max_map_count`. The
 * rest of the mappings is for the daemon's threads, NICs, malloc, and memory that is on its way back to the kernel (later.h). The
 * rest of the descriptors is for the daemon and administrators: connections get numbers below seven eighths (accept.c), and an
 * administrator's connection must find one when users hold all they may. session/quota.c divides the pools between users. Control
 * thread, at the start.
 */
#include "daemon/clients/user-pools.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>

#include "daemon/node/node.h"

#define MAPS_RESERVE_SHARE 8u
#define FDS_RESERVE_SHARE 4u
#define FDS_PER_NIC 4u
#define MAPS_UNKNOWN 65530u /* the default of Linux */
#define MALLOC_MAPS 1024

static uint64_t max_maps(void)
{
	char path[512];
	uint64_t n = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%.400s/sys/vm/max_map_count", node_procfs());
	file = fopen(path, "re");
	if (!file)
		return MAPS_UNKNOWN;
	if (fscanf(file, "%" SCNu64, &n) != 1 || n == 0)
		n = MAPS_UNKNOWN;
	fclose(file);
	return n;
}

/* Users get a quarter at least. */
static uint64_t fds_of_users(uint64_t max_fds, uint64_t n_soft_nics)
{
	/* bounded: a setting. */
	uint64_t reserve = max_fds / FDS_RESERVE_SHARE + FDS_PER_NIC * n_soft_nics;
	uint64_t least = max_fds / FDS_RESERVE_SHARE;

	return max_fds > reserve && max_fds - reserve > least ? max_fds - reserve : least;
}

void user_pools_compute(uint64_t max_fds, uint64_t n_soft_nics, struct quota_amount *ret_pools)
{
	uint64_t n_maps = max_maps();

	*ret_pools = (struct quota_amount){.n = {
		[QUOTA_FDS] = fds_of_users(max_fds, n_soft_nics),
		[QUOTA_MAPS] = n_maps - n_maps / MAPS_RESERVE_SHARE,
	}};
}

void user_pools_bound_malloc(void)
{
	mallopt(M_MMAP_MAX, MALLOC_MAPS);
}
