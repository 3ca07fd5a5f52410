/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DC targets and shared receive queues (receive memory pools) by command. A pool is a linked list of WQEs, as an SRQ of
 * verbs is; cyclic ones are refused. A DCT is ready when it is made.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mlx5sim/sim/fw.h"
#include "tests/mlx5sim/sim/pd-mr.h"
#include "tests/mlx5sim/sim/srq.h"

const uint32_t fw_wq_fields[] = {PRM_WQ_WQ_TYPE,
				 PRM_WQ_LWM,
				 PRM_WQ_PD,
				 PRM_WQ_UAR_PAGE,
				 PRM_WQ_DBR_ADDR,
				 PRM_WQ_LOG_WQ_STRIDE,
				 PRM_WQ_LOG_WQ_PG_SZ,
				 PRM_WQ_LOG_WQ_SZ,
				 PRM_WQ_DBR_UMEM_VALID,
				 PRM_WQ_WQ_UMEM_VALID,
				 PRM_WQ_DBR_UMEM_ID,
				 PRM_WQ_WQ_UMEM_ID,
				 PRM_WQ_WQ_UMEM_OFFSET,
				 0};

/* Scatter to CQE is a permission: what is small goes where the receive says, and CQEs do not say otherwise. */
const uint32_t fw_dct_fields[] = {PRM_DCTC_USER_INDEX,
				  PRM_DCTC_CQN,
				  PRM_DCTC_COUNTER_SET_ID,
				  PRM_DCTC_ATOMIC_MODE,
				  PRM_DCTC_RRE,
				  PRM_DCTC_RWE,
				  PRM_DCTC_RAE,
				  PRM_DCTC_LATENCY_SENSITIVE,
				  PRM_DCTC_RLKEY,
				  PRM_DCTC_FULL_HANDSHAKE,
				  PRM_DCTC_MIN_RNR_NAK,
				  PRM_DCTC_SRQN,
				  PRM_DCTC_PD,
				  PRM_DCTC_TCLASS,
				  PRM_DCTC_FLOW_LABEL,
				  PRM_DCTC_DC_ACCESS_KEY,
				  PRM_DCTC_MTU,
				  PRM_DCTC_PORT,
				  PRM_DCTC_PKEY_INDEX,
				  PRM_DCTC_MY_ADDR_INDEX,
				  PRM_DCTC_HOP_LIMIT,
				  PRM_DCTC_ETH_PRIO,
				  PRM_DCTC_ECN,
				  PRM_DCTC_DSCP,
				  PRM_DCTC_CS_RES,
				  0};

#define WQ(name) (PRM_CREATE_RMP_IN_RMPC + PRM_RMPC_WQ + PRM_WQ_##name)
#define DCTC(name) (PRM_CREATE_DCT_IN_DCTC + PRM_DCTC_##name)
#define RMP_READY 1u
#define WQ_LINKED_LIST 0u
#define DCT_RD_ATOMIC 16

/* ---- receive memory pools -------------------------------------------------------------------------------------- */

static int check_rmp(struct fw_cmd *cmd)
{
	uint64_t log_size = fw_get(cmd, WQ(LOG_WQ_SZ)), log_stride = fw_get(cmd, WQ(LOG_WQ_STRIDE));

	if (fw_get(cmd, PRM_CREATE_RMP_IN_RMPC + PRM_RMPC_STATE) != RMP_READY)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, PRM_CREATE_RMP_IN_RMPC + PRM_RMPC_STATE,
			       "a pool that is not ready");
	if (fw_get(cmd, WQ(WQ_TYPE)) != WQ_LINKED_LIST)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, WQ(WQ_TYPE), "not a linked list");
	if (log_size < 1 || log_size > 15)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, WQ(LOG_WQ_SZ), "2^%u WQEs",
			       (unsigned int)log_size);
	if (log_stride < 5 || log_stride > 9)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, WQ(LOG_WQ_STRIDE), "WQEs of 2^%u bytes",
			       (unsigned int)log_stride);
	if (fw_get(cmd, WQ(LWM)))
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, WQ(LWM), "a limit before it is armed");
	if (fw_get(cmd, WQ(DBR_ADDR)) & 3)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, WQ(DBR_ADDR),
			       "the doorbell record is not aligned");
	if (fw_get(cmd, WQ(WQ_UMEM_OFFSET)) % SHMD_WQEBB_BYTES)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, WQ(WQ_UMEM_OFFSET),
			       "the ring is not aligned");
	if (nic_count(cmd->nic, &cmd->nic->n_srqs) >= SIM_MAX_SRQ)
		return fw_fail(cmd, PRM_STATUS_LIM, 0, "more than %u SRQs", SIM_MAX_SRQ);
	return 0;
}

static int make_rmp(struct fw_cmd *cmd, struct srq *srq)
{
	struct object *object = fw_object(cmd, PRM_OP_ALLOC_PD, WQ(PD), "PD");
	struct engine_srq_attr attr = {.srqn = 0};

	if (!object)
		return -EREMOTEIO;
	object->users++;
	srq->pd = container_of(object, struct pd, object);
	srq->log2_wqes = (uint32_t)fw_get(cmd, WQ(LOG_WQ_SZ));
	srq->log2_stride = (uint32_t)fw_get(cmd, WQ(LOG_WQ_STRIDE));
	attr.ring =
		fw_umem(cmd, WQ(WQ_UMEM_ID), WQ(WQ_UMEM_OFFSET),
			(uint64_t)1 << (srq->log2_wqes + srq->log2_stride), false, &srq->ring_umem);
	if (!attr.ring)
		return -EREMOTEIO;
	attr.dbrec = fw_umem(cmd, WQ(DBR_UMEM_ID), WQ(DBR_ADDR), 4, false, &srq->dbrec_umem);
	return attr.dbrec ? srq_enter(srq, &attr) : -EREMOTEIO;
}

int fw_create_rmp(struct fw_cmd *cmd)
{
	struct srq *srq = NULL;
	int r;

	r = check_rmp(cmd);
	if (r == 0)
		r = srq_new(cmd->call, OBJECT_DEVX, &srq);
	if (r < 0)
		return r;
	r = make_rmp(cmd, srq);
	if (r < 0) {
		object_destroy(&srq->object);
		return r;
	}
	fw_set(cmd, PRM_CREATE_RMP_OUT_RMPN, srq->srqn);
	cmd->created = &srq->object;
	return 0;
}

static struct srq *find_rmp(struct fw_cmd *cmd, uint32_t field)
{
	struct object *object = fw_object(cmd, PRM_OP_CREATE_RMP, field, "SRQ");

	return object ? container_of(object, struct srq, object) : NULL;
}

int fw_query_rmp(struct fw_cmd *cmd)
{
	const struct srq *srq = find_rmp(cmd, PRM_RMP_IN_RMPN);
	struct engine_srq_info info = {0};

	if (!srq)
		return -EREMOTEIO;
	sim_lock(cmd->nic->sim);
	engine_srq_query(cmd->nic->engine, srq->srqn, &info);
	sim_unlock(cmd->nic->sim);
#define OUT(name) (PRM_QUERY_RMP_OUT_RMPC + PRM_RMPC_WQ + PRM_WQ_##name)
	fw_set(cmd, PRM_QUERY_RMP_OUT_RMPC + PRM_RMPC_STATE, info.error ? 3 : RMP_READY);
	fw_set(cmd, OUT(LWM), info.limit);
	fw_set(cmd, OUT(PD), srq->pd->pdn);
	fw_set(cmd, OUT(LOG_WQ_SZ), srq->log2_wqes);
	fw_set(cmd, OUT(LOG_WQ_STRIDE), srq->log2_stride);
	fw_set(cmd, OUT(HW_COUNTER), info.ci);
	fw_set(cmd, OUT(SW_COUNTER), info.pi);
#undef OUT
	return 0;
}

#define ARM_SRQ 1u /* op_mod */

int fw_arm_rq(struct fw_cmd *cmd)
{
	uint32_t limit = (uint32_t)fw_get(cmd, PRM_ARM_RQ_IN_LWM);
	const struct srq *srq = find_rmp(cmd, PRM_ARM_RQ_IN_SRQN);
	int r;

	if (!srq)
		return -EREMOTEIO;
	if (cmd->op_mod != ARM_SRQ)
		return fw_fail(cmd, PRM_STATUS_BAD_OP, PRM_IN_OP_MOD, "op_mod 0x%x", cmd->op_mod);
	sim_lock(cmd->nic->sim);
	r = engine_srq_arm(cmd->nic->engine, srq->srqn, limit);
	sim_unlock(cmd->nic->sim);
	return r < 0 ? fw_fail(cmd, PRM_STATUS_BAD_PARAM, PRM_ARM_RQ_IN_LWM, "limit %u", limit) : 0;
}

/* ---- DC targets ------------------------------------------------------------------------------------------------ */

struct dct {
	struct object object;
	struct pd *pd;
	struct cq *cq;
	struct srq *srq;
	uint32_t dctn; /* 0: not in the engine */
	uint8_t dctc[PRM_DCTC_BYTES];
};

static void dct_free(struct object *object)
{
	struct dct *dct = container_of(object, struct dct, object);
	struct nic *nic = object->ufile->nic;

	sim_lock(nic->sim);
	if (dct->dctn) {
		engine_qp_destroy(nic->engine, dct->dctn);
		nic->n_qps--;
	}
	sim_unlock(nic->sim);
	if (dct->pd)
		dct->pd->object.users--;
	if (dct->cq)
		dct->cq->object.users--;
	if (dct->srq)
		dct->srq->object.users--;
	free(dct);
}

static int check_dct(struct fw_cmd *cmd)
{
	uint64_t mtu = fw_get(cmd, DCTC(MTU));

	if (mtu < 1 || mtu > 5)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, DCTC(MTU), "MTU %u", (unsigned int)mtu);
	if (fw_get(cmd, DCTC(PORT)) > 1)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, DCTC(PORT), "port");
	if (fw_get(cmd, DCTC(PKEY_INDEX)))
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, DCTC(PKEY_INDEX), "P_Key index");
	if (fw_get(cmd, DCTC(MY_ADDR_INDEX)) >= nic_n_gids(cmd->nic))
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, DCTC(MY_ADDR_INDEX), "GID index %u",
			       (unsigned int)fw_get(cmd, DCTC(MY_ADDR_INDEX)));
	if (fw_get(cmd, DCTC(COUNTER_SET_ID)) &&
	    !fw_object(cmd, PRM_OP_ALLOC_Q_COUNTER, DCTC(COUNTER_SET_ID), "set of counters"))
		return -EREMOTEIO;
	if (nic_count(cmd->nic, &cmd->nic->n_qps) >= SIM_MAX_QP)
		return fw_fail(cmd, PRM_STATUS_LIM, 0, "more than %u QPs", SIM_MAX_QP);
	return fw_check_atomic_mode(cmd, DCTC(ATOMIC_MODE));
}

/*
 * UCX (4096 entries) and NVSHMEM (16384) give a DCT an ordinary CQ, and verbs make none of less than two entries. Nothing
 * published says what hardware does with another one, so it is refused.
 */
static int check_cq(struct fw_cmd *cmd, const struct dct *dct)
{
	if (dct->cq->collapsed || dct->cq->log2_entries == 0)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, DCTC(CQN), "a CQ that is collapsed, or has one entry");
	return 0;
}

static int find_parts(struct fw_cmd *cmd, struct dct *dct)
{
	struct object *object;

	object = fw_object(cmd, PRM_OP_ALLOC_PD, DCTC(PD), "PD");
	if (!object)
		return -EREMOTEIO;
	object->users++;
	dct->pd = container_of(object, struct pd, object);
	object = fw_object(cmd, PRM_OP_CREATE_CQ, DCTC(CQN), "CQ");
	if (!object)
		return -EREMOTEIO;
	object->users++;
	dct->cq = container_of(object, struct cq, object);
	object = fw_object(cmd, PRM_OP_CREATE_RMP, DCTC(SRQN), "SRQ");
	if (!object)
		return -EREMOTEIO;
	object->users++;
	dct->srq = container_of(object, struct srq, object);
	return check_cq(cmd, dct);
}

/* Into the engine and to where it hears DCIs, which for a DCT is one step. */
static int make_ready(struct fw_cmd *cmd, struct dct *dct)
{
	bool atomic = fw_get(cmd, DCTC(RAE)) && fw_get(cmd, DCTC(ATOMIC_MODE));
	struct engine_qp_modify mod = {
		.state = ENGINE_QP_INIT,
		.set = ENGINE_QP_SET_ACCESS | ENGINE_QP_SET_DC_KEY,
		.access = (fw_get(cmd, DCTC(RRE)) ? ENGINE_ACCESS_REMOTE_READ : 0) |
			  (fw_get(cmd, DCTC(RWE)) ? ENGINE_ACCESS_REMOTE_WRITE : 0) |
			  (atomic ? ENGINE_ACCESS_REMOTE_ATOMIC : 0),
		.dc_key = fw_get(cmd, DCTC(DC_ACCESS_KEY)),
		.min_rnr_timer = (uint8_t)fw_get(cmd, DCTC(MIN_RNR_NAK)),
		.max_dest_rd_atomic = DCT_RD_ATOMIC,
	};
	int r;

	r = engine_qp_modify(cmd->nic->engine, dct->dctn, &mod);
	if (r < 0)
		return r;
	mod.state = ENGINE_QP_RTR;
	mod.set = ENGINE_QP_SET_RNR_TIMER | ENGINE_QP_SET_RD_ATOMIC;
	return engine_qp_modify(cmd->nic->engine, dct->dctn, &mod);
}

static int enter(struct fw_cmd *cmd, struct dct *dct)
{
	struct nic *nic = cmd->nic;
	struct engine_qp_attr attr = {
		.type = ENGINE_QP_DCT,
		.pdn = dct->pd->pdn,
		.user_index = (uint32_t)fw_get(cmd, DCTC(USER_INDEX)),
		.send_cqn = dct->cq->cqn,
		.recv_cqn = dct->cq->cqn,
		.has_srq = true,
		.srqn = dct->srq->srqn,
	};
	int r;

	sim_lock(nic->sim);
	attr.qpn = nic->next_qpn++;
	r = engine_qp_create(nic->engine, &attr);
	if (r == 0) {
		dct->dctn = attr.qpn;
		nic->n_qps++;
		r = make_ready(cmd, dct);
	}
	sim_unlock(nic->sim);
	return r < 0 ? r : object_name(&dct->object, PRM_OP_CREATE_DCT, dct->dctn);
}

int fw_create_dct(struct fw_cmd *cmd)
{
	struct dct *dct;
	int r;

	r = check_dct(cmd);
	if (r < 0)
		return r;
	dct = calloc(1, sizeof(*dct));
	if (!dct)
		return -ENOMEM;
	r = object_add(cmd->call->ufile, &dct->object, OBJECT_DEVX, dct_free);
	if (r < 0) {
		free(dct);
		return r;
	}
	memcpy(dct->dctc, cmd->in + PRM_BIT(PRM_CREATE_DCT_IN_DCTC) / 8, sizeof(dct->dctc));
	r = find_parts(cmd, dct);
	if (r == 0)
		r = enter(cmd, dct);
	if (r < 0) {
		object_destroy(&dct->object);
		return r;
	}
	fw_set(cmd, PRM_CREATE_DCT_OUT_DCTN, dct->dctn);
	cmd->created = &dct->object;
	return 0;
}

int fw_query_dct(struct fw_cmd *cmd)
{
	struct object *object = fw_object(cmd, PRM_OP_CREATE_DCT, PRM_DCT_IN_DCTN, "DCT");
	size_t at = PRM_BIT(PRM_QUERY_DCT_OUT_DCTC) / 8;
	const struct dct *dct;

	if (!object)
		return -EREMOTEIO;
	if (object->type != OBJECT_DEVX)
		return fw_fail(cmd, PRM_STATUS_BAD_OP, PRM_DCT_IN_DCTN, "of a DCT that verbs made");
	dct = container_of(object, struct dct, object);
	if (cmd->out_bytes < at + sizeof(dct->dctc))
		return fw_fail(cmd, PRM_STATUS_BAD_OUTP_LEN, 0, "%zu bytes", cmd->out_bytes);
	memcpy(cmd->out + at, dct->dctc, sizeof(dct->dctc));
	return 0;
}
