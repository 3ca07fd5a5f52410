/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways to peers, some of which have an RC QP of their own: the bodies. Contracts are in rma.h, which includes this.
 *
 * A way is a QP and a peer for the mode, so the functions that post need no way and pay nothing for it.
 */
#include <shmd/dev/rma.h>

#ifndef SHMDI_WAY_OPS_H
#define SHMDI_WAY_OPS_H

#include <shmd/dev/impl/queue-ops.h>

SHMDI_FN struct shmd_dev_way shmd_dev_way_to(const struct shmd_dev_state *state, struct shmd_dev_qp *dci, uint32_t peer)
{
	const struct shmd_dev_route *routes =
		(const struct shmd_dev_route *)(uintptr_t)SHMDI_FIXED(state->routes_addr);
	const struct shmd_dev_peer *peers =
		(const struct shmd_dev_peer *)(uintptr_t)SHMDI_FIXED(state->peers_addr);
	uint64_t own = routes ? SHMDI_FIXED(routes[peer].qp_addr) : 0;
	struct shmd_dev_way way;

	way.qp = own ? (struct shmd_dev_qp *)(uintptr_t)own : dci;
	way.peer = own ? 0 : &peers[peer];
	return way;
}

SHMDI_FN void shmd_dev_way_count(const struct shmd_dev_state *state, uint32_t peer, uint64_t n)
{
	struct shmd_dev_route *routes = (struct shmd_dev_route *)(uintptr_t)SHMDI_FIXED(state->routes_addr);

	if (routes)
		shmdi_count_add(&routes[peer].n_posts, n);
}

SHMDI_FN int shmd_dev_ways_quiet_as(const struct shmd_dev_state *state, struct shmd_dev_qp *dci, struct shmd_dev_mode mode)
{
	const uint64_t *qps = (const uint64_t *)(uintptr_t)SHMDI_FIXED(state->hot_qps_addr);
	uint32_t n = SHMDI_FIXED(state->n_hot_qps), i;
	int rc = shmd_dev_qp_quiet_as(dci, mode), one;

#if SHMDI_CUDA
#pragma unroll 1
#endif
	for (i = 0; i < n; i++) {
		one = shmd_dev_qp_quiet_as((struct shmd_dev_qp *)(uintptr_t)SHMDI_FIXED(qps[i]), mode);
		if (!rc)
			rc = one;
	}
	return rc;
}

#endif
