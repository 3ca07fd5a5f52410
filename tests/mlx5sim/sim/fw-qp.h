/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs made by command: what creation (fw-qp.c) and transitions (fw-qp-modify.c) share. */
#ifndef SHMEMD_TESTS_MLX5SIM_FW_QP_H
#define SHMEMD_TESTS_MLX5SIM_FW_QP_H

#include "tests/mlx5sim/sim/fw.h"
#include "tests/mlx5sim/sim/pd-mr.h"
#include "tests/mlx5sim/sim/srq.h"

/* A set of counters, with what QPs that are gone had counted. */
struct counter {
	struct object object;
	struct list qps;
	struct engine_qp_counters past, base; /* base: at the last query that cleared */
};

struct fw_qp {
	struct object object;
	struct list uar_link, counter_link;
	struct pd *pd;
	struct cq *send_cq, *recv_cq;
	struct srq *srq;
	struct uar *uar;
	struct umem *ring_umem, *dbrec_umem;
	uint32_t *dbrec;	 /* receive counter, send counter */
	struct counter *counter; /* NULL: none */
	struct engine_qp_counters counted_from; /* what it had counted when it joined that set */
	enum engine_qp_type type;
	uint32_t qpn;		    /* 0: not in the engine */
	uint8_t qpc[PRM_QPC_BYTES]; /* what was set, from all commands */
};

/*
 * A QP that is made or reset has nothing posted, whatever its record says: hardware does not look there before the QP's
 * own doorbell, while here that of another QP of the page may do.
 */
void fw_qp_forget_posts(struct fw_qp *qp);
/* Counts for another set from now on. NULL: none. */
void fw_qp_count_for(struct fw_qp *qp, struct counter *counter);
/* The set named in a field, 0 for none. -EREMOTEIO: no such. */
int fw_counter(struct fw_cmd *cmd, uint32_t field, struct counter **ret_counter);

#endif
