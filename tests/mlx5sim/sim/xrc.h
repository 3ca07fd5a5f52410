/* SPDX-License-Identifier: Apache-2.0 */
/* XRC domains, and receiving QPs that belong to all who opened them. */
#ifndef SHMEMD_TESTS_MLX5SIM_XRC_H
#define SHMEMD_TESTS_MLX5SIM_XRC_H

#include "tests/mlx5sim/sim/qp.h"

/* One open of a domain. */
struct xrcd {
	struct object object;
	struct xrc_domain *domain;
};

struct xrcd *xrcd_get(struct call *call, uint64_t handle); /* NULL */
uint32_t xrcd_number(const struct xrcd *xrcd);

/* The receiving QP behind a handle. State that all handles share is read and written under sim->lock. */
struct xrc_tgt {
	struct list domain_link;
	struct list handles; /* struct qp.tgt_link, of those that get events */
	uint32_t users; /* handles that have not put it: one leaves the list before */
	uint32_t qpn;
	struct ib_uverbs_modify_qp last;
};

/* A new one, in the engine, of the domain that `qp` names. */
int xrc_tgt_new(struct qp *qp);
/* Under sim->lock. The last handle takes it along. */
void xrc_tgt_put(struct qp *qp);

#endif
