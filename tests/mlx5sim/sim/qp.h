/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs made by verbs: what creation (qp.c) and transitions (qp-modify.c) share. */
#ifndef SHMEMD_TESTS_MLX5SIM_QP_H
#define SHMEMD_TESTS_MLX5SIM_QP_H

#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>

#include "tests/mlx5sim/sim/pd-mr.h"
#include "tests/mlx5sim/sim/srq.h"

struct xrcd;
struct xrc_tgt;

struct qp {
	struct object object;
	struct list uar_link;
	struct list tgt_link; /* with other handles of the same XRC_TGT */
	enum engine_qp_type type;
	struct pd *pd; /* NULL for an XRC_TGT */
	struct cq *send_cq, *recv_cq;
	struct srq *srq;
	struct xrcd *xrcd; /* of an XRC_TGT */
	struct xrc_tgt *tgt;
	struct uar *uar; /* NULL for a DCT and an XRC_TGT */
	struct memory *ring_memory, *dbrec_memory;
	struct memory *send_memory; /* of a raw packet QP: the send ring alone */
	uint64_t user_handle;
	uint64_t dc_key;
	uint32_t user_index;
	uint32_t qpn;	    /* 0: not in the engine; a DCT enters it at RTR */
	uint32_t dct_state; /* before that */
	uint32_t n_events;  /* sent */
	bool sq_sig_all;
	struct ib_uverbs_qp_cap cap;
	struct ib_uverbs_modify_qp last; /* what query_qp tells, from all transitions */
};

/* Not in the engine yet; frees itself as an object. */
int qp_object_new(struct call *call, struct qp **ret_qp);
/* An event of the engine, to its owner. Under sim->lock. */
void qp_event(struct qp *qp, const struct engine_event *ev);
/* Into the engine, with a number of its own. */
int qp_enter(struct qp *qp, struct engine_qp_attr *attr);

#endif
