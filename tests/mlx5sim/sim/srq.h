/* SPDX-License-Identifier: Apache-2.0 */
/* Shared receive queues, for QPs that take WQEs from them. */
#ifndef SHMEMD_TESTS_MLX5SIM_SRQ_H
#define SHMEMD_TESTS_MLX5SIM_SRQ_H

#include "tests/mlx5sim/sim/pd-mr.h"

struct xrcd;

struct srq {
	struct object object;
	struct pd *pd;
	struct xrcd *xrcd; /* NULL: not of XRC; with its CQ: */
	struct cq *cq;
	struct memory *ring_memory, *dbrec_memory;
	struct umem *ring_umem, *dbrec_umem; /* instead, when DEVX made it */
	uint64_t user_handle;
	uint32_t srqn; /* 0: not in the engine */
	uint32_t log2_wqes, log2_stride;
	uint32_t n_events; /* sent */
};

/* Not in the engine yet; frees itself as an object. */
int srq_new(struct call *call, enum object_type type, struct srq **ret_srq);
/* Into the engine, with a number of its own; ring and dbrec are set. */
int srq_enter(struct srq *srq, struct engine_srq_attr *attr);
struct srq *srq_get(struct call *call, uint64_t handle); /* NULL */

#endif
