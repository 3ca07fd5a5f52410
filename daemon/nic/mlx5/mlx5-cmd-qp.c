/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands on QPs and DCTs: create, the way to RTS, query.
 *
 * Commands give all fields that a transition demands, so the masks of optional parameters stay 0, but for a DCI's atomics. Scatter to CQE is off and
 * every packet asks for an acknowledgement: a GPU polls the CQE alone, and for the message it posted last.
 *
 * Pure; any thread.
 */
#include "daemon/nic/mlx5/mlx5-cmd.h"

#include <string.h>

#include "proto/base/assert.h"

#define LOG2_MTU_256 8u
#define OPTPAR_RAE 0x4u /* Linux, MLX5_QP_OPTPAR_RAE */

/* Fields of the receive memory pool of DCTs. The fields of wq_type and stride are logarithms, a linked list is type 0. */
#define POOL_READY 1u
#define POOL_LOG2_WQES 1u
#define POOL_LOG2_STRIDE 5u
#define POOL_DBREC_OFFSET 1024u

static uint32_t log2_floor(uint32_t n)
{
	return n ? 31 - (uint32_t)__builtin_clz(n) : 0;
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* ---- create ------------------------------------------------------------------------------------------------------ */

static void set_receive_ring(uint8_t *in, const struct nic_qp *qp)
{
	const uint32_t qpc = PRM_CREATE_QP_IN_QPC;

	if (qp->n_rq_wqes == 0) {
		prm_set(in, qpc + PRM_QPC_RQ_TYPE, PRM_RQ_NONE);
		return;
	}
	prm_set(in, qpc + PRM_QPC_RQ_TYPE, PRM_RQ_OWN);
	prm_set(in, qpc + PRM_QPC_LOG_RQ_SIZE, log2_floor(qp->n_rq_wqes));
	prm_set(in, qpc + PRM_QPC_LOG_RQ_STRIDE, qp->log2_rq_stride - NIC_MIN_LOG2_RQ_STRIDE);
}

void mlx5_cmd_create_qp(struct mlx5_cmd *cmd, const struct mlx5_qp_args *args)
{
	const uint32_t qpc = PRM_CREATE_QP_IN_QPC;
	const struct nic_qp *qp = args->qp;

	assert_bug(qp->type == NIC_QP_RC || qp->type == NIC_QP_DCI);
	mlx5_cmd_begin(cmd, PRM_OP_CREATE_QP);
	prm_set(cmd->in, qpc + PRM_QPC_ST, qp->type == NIC_QP_RC ? PRM_ST_RC : PRM_ST_DCI);
	prm_set(cmd->in, qpc + PRM_QPC_PM_STATE, PRM_PM_MIGRATED);
	prm_set(cmd->in, qpc + PRM_QPC_PD, args->pdn);
	prm_set(cmd->in, qpc + PRM_QPC_LOG_SQ_SIZE, qp->log2_sq_wqebbs);
	prm_set(cmd->in, qpc + PRM_QPC_TS_FORMAT, args->caps->ts_format);
	prm_set(cmd->in, qpc + PRM_QPC_UAR_PAGE, args->uar_page);
	prm_set(cmd->in, qpc + PRM_QPC_USER_INDEX, args->user_index);
	prm_set(cmd->in, qpc + PRM_QPC_CQN_SND, qp->send_cqn);
	prm_set(cmd->in, qpc + PRM_QPC_CQN_RCV, qp->recv_cqn);
	set_receive_ring(cmd->in, qp);
	prm_set(cmd->in, qpc + PRM_QPC_DBR_ADDR, qp->dbrec_offset);
	prm_set(cmd->in, qpc + PRM_QPC_DBR_UMEM_VALID, 1);
	prm_set(cmd->in, qpc + PRM_QPC_DBR_UMEM_ID, args->umem_id);
	/* The receive ring, if any, lies there with the send ring behind it. */
	prm_set(cmd->in, PRM_CREATE_QP_IN_UMEM_OFFSET, qp->rq_offset);
	prm_set(cmd->in, PRM_CREATE_QP_IN_UMEM_ID, args->umem_id);
	prm_set(cmd->in, PRM_CREATE_QP_IN_UMEM_VALID, 1);
}

/* ---- to RTS ------------------------------------------------------------------------------------------------------ */

static void begin_modify(struct mlx5_cmd *cmd, enum prm_opcode opcode, uint32_t qpn)
{
	mlx5_cmd_begin(cmd, opcode);
	prm_set(cmd->in, PRM_MODIFY_QP_IN_QPN, qpn);
}

static void set_access(uint8_t *in, const struct mlx5_connect_args *args)
{
	const uint32_t qpc = PRM_MODIFY_QP_IN_QPC;
	uint32_t access = args->qp->access;
	bool atomics = (access & NIC_ACCESS_REMOTE_ATOMIC) && args->caps->atomic_mode;

	prm_set(in, qpc + PRM_QPC_RRE, !!(access & NIC_ACCESS_REMOTE_READ));
	prm_set(in, qpc + PRM_QPC_RWE, !!(access & NIC_ACCESS_REMOTE_WRITE));
	prm_set(in, qpc + PRM_QPC_RAE, atomics);
	prm_set(in, qpc + PRM_QPC_ATOMIC_MODE, atomics ? args->caps->atomic_mode : PRM_ATOMIC_NONE);
}

/*
 * The set of counters belongs here and not in CREATE_QP, whose field firmware may ignore: Linux (mlx5_ib,
 * __mlx5_ib_modify_qp) and UCX (uct_ib_mlx5_devx_create_qp_common, uct_dc_mlx5_iface_devx_dci_connect) name it in
 * RST2INIT_QP alone.
 */
void mlx5_cmd_rst2init(struct mlx5_cmd *cmd, const struct mlx5_connect_args *args)
{
	const uint32_t qpc = PRM_MODIFY_QP_IN_QPC;

	begin_modify(cmd, PRM_OP_RST2INIT_QP, args->qp->qpn);
	prm_set(cmd->in, qpc + PRM_QPC_PM_STATE, PRM_PM_MIGRATED);
	prm_set(cmd->in, qpc + PRM_QPC_PATH + PRM_ADS_PORT, args->port->number);
	prm_set(cmd->in, qpc + PRM_QPC_COUNTER_SET_ID, args->counter_set_id);
	if (args->qp->type == NIC_QP_DCI)
		prm_set(cmd->in, qpc + PRM_QPC_DC_ACCESS_KEY, args->qp->addr.dc_key);
	else
		set_access(cmd->in, args);
}

uint16_t mlx5_udp_sport(const struct mlx5_caps *caps, uint32_t qpn, uint32_t remote_qpn)
{
	uint32_t range = (uint32_t)caps->udp_sport_max - caps->udp_sport_min + 1;
	uint64_t mixed = ((uint64_t)remote_qpn << 24 | qpn) * 0x9e3779b97f4a7c15u;

	/* Top bits of the product depend on all bits of both numbers. */
	return (uint16_t)(caps->udp_sport_min + (mixed >> 32) % range);
}

/* RoCE v2: GID and MAC instead of a LID; switches get the class by DSCP. */
static void set_roce_path(uint8_t *in, const struct mlx5_connect_args *args)
{
	const uint32_t ads = PRM_MODIFY_QP_IN_QPC + PRM_QPC_PATH;

	prm_set(in, ads + PRM_ADS_SRC_ADDR_INDEX, args->port->gid_index);
	prm_set(in, ads + PRM_ADS_HOP_LIMIT, NIC_HOP_LIMIT);
	prm_set_bytes(in, ads + PRM_ADS_RGID, args->remote->gid);
	prm_set(in, ads + PRM_ADS_UDP_SPORT,
		mlx5_udp_sport(args->caps, args->qp->qpn, args->remote->qpn));
	prm_set_bytes(in, ads + PRM_ADS_RMAC, args->next_hop_mac);
}

bool mlx5_needs_grh(const struct mlx5_port *port, const struct nic_addr *remote)
{
	return port->demands_grh || memcmp(remote->gid, port->gid, 8) != 0;
}

/* By LID; a GRH only where it is needed: the peer is in another subnet, or this one wants it. */
static void set_ib_path(uint8_t *in, const struct mlx5_connect_args *args)
{
	const uint32_t ads = PRM_MODIFY_QP_IN_QPC + PRM_QPC_PATH;

	prm_set(in, ads + PRM_ADS_RLID, args->remote->lid);
	if (!mlx5_needs_grh(args->port, args->remote))
		return;
	prm_set(in, ads + PRM_ADS_GRH, 1);
	prm_set(in, ads + PRM_ADS_SRC_ADDR_INDEX, args->port->gid_index);
	prm_set(in, ads + PRM_ADS_HOP_LIMIT, NIC_HOP_LIMIT);
	prm_set_bytes(in, ads + PRM_ADS_RGID, args->remote->gid);
}

static void set_class(uint8_t *in, const struct mlx5_connect_args *args)
{
	const uint32_t ads = PRM_MODIFY_QP_IN_QPC + PRM_QPC_PATH;

	prm_set(in, ads + PRM_ADS_TCLASS, args->params->traffic_class);
	if (args->port->link == NIC_LINK_ETHERNET)
		prm_set(in, ads + PRM_ADS_DSCP, args->params->traffic_class >> 2);
	prm_set(in, ads + PRM_ADS_PORT, args->port->number);
}

/* The responder's side: what is received, and how it is answered. */
static void set_rc_responder(uint8_t *in, const struct mlx5_connect_args *args)
{
	const uint32_t qpc = PRM_MODIFY_QP_IN_QPC;
	uint32_t log_rra = log2_floor(args->params->max_rd_atomic);

	if (args->port->link == NIC_LINK_ETHERNET)
		set_roce_path(in, args);
	else
		set_ib_path(in, args);
	set_access(in, args);
	prm_set(in, qpc + PRM_QPC_REMOTE_QPN, args->remote->qpn);
	prm_set(in, qpc + PRM_QPC_LOG_RRA_MAX, min_u32(log_rra, args->caps->log_max_ra_res_qp));
	prm_set(in, qpc + PRM_QPC_MIN_RNR_NAK, args->params->min_rnr_timer);
	prm_set(in, qpc + PRM_QPC_NEXT_RCV_PSN, args->remote->psn);
}

/* A requester too must know how large atomics may be: as UCX does it for its DCIs. */
static void set_dci_atomics(uint8_t *in, const struct mlx5_connect_args *args)
{
	const uint32_t qpc = PRM_MODIFY_QP_IN_QPC;

	if (!args->caps->atomic_mode_dc)
		return;
	prm_set(in, PRM_MODIFY_QP_IN_OPT_PARAM_MASK, OPTPAR_RAE);
	prm_set(in, qpc + PRM_QPC_RAE, 1);
	prm_set(in, qpc + PRM_QPC_ATOMIC_MODE, args->caps->atomic_mode_dc);
}

void mlx5_cmd_init2rtr(struct mlx5_cmd *cmd, const struct mlx5_connect_args *args)
{
	const uint32_t qpc = PRM_MODIFY_QP_IN_QPC;
	bool rc = args->qp->type == NIC_QP_RC;
	/* Both ends of a pair know both addresses: they come to the same, whatever happened to their ports since. */
	uint32_t mtu_log2 = rc ? min_u32(args->qp->addr.mtu_log2, args->remote->mtu_log2) : args->port->mtu_log2;

	begin_modify(cmd, PRM_OP_INIT2RTR_QP, args->qp->qpn);
	prm_set(cmd->in, qpc + PRM_QPC_MTU, mtu_log2 - LOG2_MTU_256 + 1);
	prm_set(cmd->in, qpc + PRM_QPC_LOG_MSG_MAX, args->caps->log_max_msg);
	set_class(cmd->in, args);
	if (rc)
		set_rc_responder(cmd->in, args);
	else
		set_dci_atomics(cmd->in, args);
}

void mlx5_cmd_rtr2rts(struct mlx5_cmd *cmd, const struct mlx5_connect_args *args)
{
	const uint32_t qpc = PRM_MODIFY_QP_IN_QPC;
	const struct mlx5_caps *caps = args->caps;
	bool rc = args->qp->type == NIC_QP_RC;
	uint32_t log_sra = log2_floor(args->params->max_rd_atomic);

	begin_modify(cmd, PRM_OP_RTR2RTS_QP, args->qp->qpn);
	prm_set(cmd->in, qpc + PRM_QPC_PATH + PRM_ADS_ACK_TIMEOUT, args->params->timeout);
	prm_set(cmd->in, qpc + PRM_QPC_LOG_SRA_MAX,
		min_u32(log_sra, rc ? caps->log_max_ra_req_qp : caps->log_max_ra_req_dc));
	prm_set(cmd->in, qpc + PRM_QPC_RETRY_COUNT, args->params->retry_count);
	prm_set(cmd->in, qpc + PRM_QPC_RNR_RETRY, args->params->rnr_retry);
	if (rc)
		prm_set(cmd->in, qpc + PRM_QPC_NEXT_SEND_PSN, args->qp->addr.psn);
}

/* ---- other states, query ----------------------------------------------------------------------------------------- */

_Static_assert((uint32_t)PRM_QP_IN_QPN == (uint32_t)PRM_MODIFY_QP_IN_QPN,
	       "one place for the QP's number");

void mlx5_cmd_qp(struct mlx5_cmd *cmd, enum prm_opcode opcode, uint32_t qpn)
{
	mlx5_cmd_begin(cmd, opcode);
	prm_set(cmd->in, PRM_QP_IN_QPN, qpn);
}

void mlx5_cmd_query_qp(struct mlx5_cmd *cmd, uint32_t qpn)
{
	mlx5_cmd_qp(cmd, PRM_OP_QUERY_QP, qpn);
}

void mlx5_qp_info_init(struct nic_qp_info *ret_info, const void *out)
{
	const uint32_t qpc = PRM_QUERY_QP_OUT_QPC;

	*ret_info = (struct nic_qp_info){
		.state = (enum nic_qp_state)prm_get(out, qpc + PRM_QPC_STATE),
		.dest_qpn = (uint32_t)prm_get(out, qpc + PRM_QPC_REMOTE_QPN),
		.sq_pi = (uint32_t)prm_get(out, qpc + PRM_QPC_SW_SQ_WQEBB_COUNTER) & 0xffff,
		.sq_ci = (uint32_t)prm_get(out, qpc + PRM_QPC_HW_SQ_WQEBB_COUNTER) & 0xffff,
		.rq_pi = (uint32_t)prm_get(out, qpc + PRM_QPC_SW_RQ_COUNTER) & 0xffff,
		.rq_ci = (uint32_t)prm_get(out, qpc + PRM_QPC_HW_RQ_COUNTER) & 0xffff,
	};
}

_Static_assert((int)NIC_QPS_RST == (int)PRM_QPS_RST && (int)NIC_QPS_INIT == (int)PRM_QPS_INIT &&
		       (int)NIC_QPS_RTR == (int)PRM_QPS_RTR &&
		       (int)NIC_QPS_RTS == (int)PRM_QPS_RTS &&
		       (int)NIC_QPS_ERR == (int)PRM_QPS_ERR && (int)NIC_QPS_SQD == (int)PRM_QPS_SQD,
	       "the same numbers");

/* ---- DCTs -------------------------------------------------------------------------------------------------------- */

void mlx5_cmd_create_rmp(struct mlx5_cmd *cmd, uint32_t umem_id, uint32_t pdn)
{
	const uint32_t rmpc = PRM_CREATE_RMP_IN_RMPC, wq = rmpc + PRM_RMPC_WQ;

	mlx5_cmd_begin(cmd, PRM_OP_CREATE_RMP);
	prm_set(cmd->in, rmpc + PRM_RMPC_STATE, POOL_READY);
	prm_set(cmd->in, wq + PRM_WQ_PD, pdn);
	prm_set(cmd->in, wq + PRM_WQ_DBR_ADDR, POOL_DBREC_OFFSET);
	prm_set(cmd->in, wq + PRM_WQ_LOG_WQ_STRIDE, POOL_LOG2_STRIDE);
	prm_set(cmd->in, wq + PRM_WQ_LOG_WQ_SZ, POOL_LOG2_WQES);
	prm_set(cmd->in, wq + PRM_WQ_DBR_UMEM_VALID, 1);
	prm_set(cmd->in, wq + PRM_WQ_WQ_UMEM_VALID, 1);
	prm_set(cmd->in, wq + PRM_WQ_DBR_UMEM_ID, umem_id);
	prm_set(cmd->in, wq + PRM_WQ_WQ_UMEM_ID, umem_id);
}

void mlx5_cmd_query_rmp(struct mlx5_cmd *cmd, uint32_t rmpn)
{
	mlx5_cmd_begin(cmd, PRM_OP_QUERY_RMP);
	prm_set(cmd->in, PRM_RMP_IN_RMPN, rmpn);
}

void mlx5_cmd_create_dct(struct mlx5_cmd *cmd, const struct mlx5_dct_args *args)
{
	const uint32_t dctc = PRM_CREATE_DCT_IN_DCTC;
	uint32_t access = args->qp->access;
	bool atomics = (access & NIC_ACCESS_REMOTE_ATOMIC) && args->caps->atomic_mode_dc;
	uint8_t *in = cmd->in;

	mlx5_cmd_begin(cmd, PRM_OP_CREATE_DCT);
	prm_set(in, dctc + PRM_DCTC_USER_INDEX, args->user_index);
	prm_set(in, dctc + PRM_DCTC_CQN, args->qp->recv_cqn);
	prm_set(in, dctc + PRM_DCTC_COUNTER_SET_ID, args->counter_set_id);
	prm_set(in, dctc + PRM_DCTC_ATOMIC_MODE,
		atomics ? args->caps->atomic_mode_dc : PRM_ATOMIC_NONE);
	prm_set(in, dctc + PRM_DCTC_RRE, !!(access & NIC_ACCESS_REMOTE_READ));
	prm_set(in, dctc + PRM_DCTC_RWE, !!(access & NIC_ACCESS_REMOTE_WRITE));
	prm_set(in, dctc + PRM_DCTC_RAE, atomics);
	prm_set(in, dctc + PRM_DCTC_MIN_RNR_NAK, args->params->min_rnr_timer);
	prm_set(in, dctc + PRM_DCTC_SRQN, args->srqn);
	prm_set(in, dctc + PRM_DCTC_PD, args->pdn);
	prm_set(in, dctc + PRM_DCTC_TCLASS, args->params->traffic_class);
	prm_set(in, dctc + PRM_DCTC_DC_ACCESS_KEY, args->qp->addr.dc_key);
	prm_set(in, dctc + PRM_DCTC_MTU, args->port->mtu_log2 - LOG2_MTU_256 + 1);
	prm_set(in, dctc + PRM_DCTC_PORT, args->port->number);
	prm_set(in, dctc + PRM_DCTC_MY_ADDR_INDEX, args->port->gid_index);
	prm_set(in, dctc + PRM_DCTC_HOP_LIMIT, NIC_HOP_LIMIT);
	if (args->port->link == NIC_LINK_ETHERNET)
		prm_set(in, dctc + PRM_DCTC_DSCP, args->params->traffic_class >> 2);
}

void mlx5_cmd_dct(struct mlx5_cmd *cmd, enum prm_opcode opcode, uint32_t dctn)
{
	mlx5_cmd_begin(cmd, opcode);
	prm_set(cmd->in, PRM_DCT_IN_DCTN, dctn);
}
