/* SPDX-License-Identifier: Apache-2.0 */
/* Commands on CQs, keys and counters; capabilities. Pure; any thread. */
#include "daemon/nic/mlx5/mlx5-cmd.h"

#include <string.h>

#include "proto/base/assert.h"

/* Ports below are not for RoCE (IBTA annex A17; IANA's dynamic range). */
#define UDP_SPORT_MIN 0xc000u
#define UDP_SPORT_MAX 0xffffu

/* Bits of ATOMIC_CAP.OPERATIONS and its sizes. */
#define ATOMIC_CS_FA 0x3u
#define ATOMIC_MASKED 0xcu
#define ATOMIC_4_BYTES 0x4u
#define ATOMIC_8_BYTES 0x8u

void mlx5_cmd_begin(struct mlx5_cmd *cmd, enum prm_opcode opcode)
{
	const struct prm_command *command = prm_command_find(opcode);

	assert_bug(command && command->in->n_bits / 8 <= sizeof(cmd->in));
	memset(cmd, 0, sizeof(*cmd));
	cmd->in_bytes = command->in->n_bits / 8;
	cmd->out_bytes = command->out->n_bits / 8;
	prm_set(cmd->in, PRM_IN_OPCODE, opcode);
}

/* ---- capabilities -------------------------------------------------------------------------------------------- */

void mlx5_cmd_query_cap(struct mlx5_cmd *cmd, uint32_t type)
{
	mlx5_cmd_begin(cmd, PRM_OP_QUERY_HCA_CAP);
	prm_set(cmd->in, PRM_IN_OP_MOD, type << 1 | PRM_CAP_CURRENT);
}

void mlx5_cmd_query_roce_address(struct mlx5_cmd *cmd, uint32_t index)
{
	mlx5_cmd_begin(cmd, PRM_OP_QUERY_ROCE_ADDRESS);
	prm_set(cmd->in, PRM_QUERY_ROCE_ADDRESS_IN_INDEX, index);
}

static uint8_t cap(const void *out, uint32_t field)
{
	return (uint8_t)prm_get(out, PRM_QUERY_HCA_CAP_OUT_CAP + field);
}

static uint16_t cap16(const void *out, uint32_t field)
{
	return (uint16_t)prm_get(out, PRM_QUERY_HCA_CAP_OUT_CAP + field);
}

/*
 * As Linux (mlx5_ib, get_atomic_caps and get_atomic_mode) and UCX (ib_mlx5dv_md.c) read them. Sizes are of masked atomics; plain
 * ones have 8 bytes. The present mode of the requester says how results of 8 bytes arrive: 0 big-endian, 1 as the host has it,
 * which Linux sets where the NIC has that mode; results of 4 bytes are big-endian in both.
 */
static uint32_t atomics(const void *atomic, uint32_t size_field)
{
	uint16_t ops, sizes;
	uint32_t all;

	if (!atomic)
		return 0;
	ops = cap16(atomic, PRM_ATOMIC_CAP_OPERATIONS);
	sizes = cap16(atomic, size_field);
	if ((ops & ATOMIC_CS_FA) != ATOMIC_CS_FA)
		return 0;
	all = NIC_ATOMIC_8;
	if ((ops & ATOMIC_MASKED) == ATOMIC_MASKED)
		all |= (sizes & ATOMIC_4_BYTES ? NIC_ATOMIC_MASKED_4 : 0) | (sizes & ATOMIC_8_BYTES ? NIC_ATOMIC_MASKED_8 : 0);
	return cap(atomic, PRM_ATOMIC_CAP_REQ_8B_ENDIANNESS) ? all : all | NIC_ATOMIC_RESULT_BE;
}

/* Masked atomics need the mode that allows them; else what every InfiniBand NIC can. */
static uint8_t atomic_mode(uint32_t atomics)
{
	if (!atomics)
		return PRM_ATOMIC_NONE;
	return atomics & (NIC_ATOMIC_MASKED_4 | NIC_ATOMIC_MASKED_8) ? PRM_ATOMIC_UP_TO_8B : PRM_ATOMIC_IB_SPEC;
}

static void roce_caps(struct mlx5_caps *caps, const void *roce)
{
	uint16_t min = 0, max = 0;

	if (roce) {
		min = cap16(roce, PRM_ROCE_CAP_MIN_SRC_UDP_PORT);
		max = cap16(roce, PRM_ROCE_CAP_MAX_SRC_UDP_PORT);
		/* NICs that tell formats at all accept "default" for QPs; older ones know the free-running clock only. */
		caps->ts_format =
			cap(roce, PRM_ROCE_CAP_QP_TS_FORMAT) ? PRM_TS_DEFAULT : PRM_TS_FREE_RUNNING;
	}
	caps->udp_sport_min = min >= UDP_SPORT_MIN ? min : UDP_SPORT_MIN;
	caps->udp_sport_max = max >= caps->udp_sport_min ? max : UDP_SPORT_MAX;
}

void mlx5_caps_init(struct mlx5_caps *caps, const void *general, const void *atomic,
		    const void *roce)
{
	memset(caps, 0, sizeof(*caps));
	caps->log_max_qp = cap(general, PRM_HCA_CAP_LOG_MAX_QP);
	caps->log_max_qp_sz = cap(general, PRM_HCA_CAP_LOG_MAX_QP_SZ);
	caps->log_max_cq = cap(general, PRM_HCA_CAP_LOG_MAX_CQ);
	caps->log_max_cq_sz = cap(general, PRM_HCA_CAP_LOG_MAX_CQ_SZ);
	caps->log_max_mkey = cap(general, PRM_HCA_CAP_LOG_MAX_MKEY);
	caps->log_max_msg = cap(general, PRM_HCA_CAP_LOG_MAX_MSG);
	caps->log_max_ra_req_qp = cap(general, PRM_HCA_CAP_LOG_MAX_RA_REQ_QP);
	caps->log_max_ra_res_qp = cap(general, PRM_HCA_CAP_LOG_MAX_RA_RES_QP);
	caps->log_max_ra_req_dc = cap(general, PRM_HCA_CAP_LOG_MAX_RA_REQ_DC);
	caps->log_max_ra_res_dc = cap(general, PRM_HCA_CAP_LOG_MAX_RA_RES_DC);
	caps->num_ports = cap(general, PRM_HCA_CAP_NUM_PORTS);
	caps->cqe_version = cap(general, PRM_HCA_CAP_CQE_VERSION);
	caps->link = cap(general, PRM_HCA_CAP_PORT_TYPE) == PRM_PORT_ETHERNET ? NIC_LINK_ETHERNET
									      : NIC_LINK_INFINIBAND;
	caps->rc = cap(general, PRM_HCA_CAP_RC);
	caps->dct = cap(general, PRM_HCA_CAP_DCT);
	caps->roce = cap(general, PRM_HCA_CAP_ROCE);
	caps->cq_oi = cap(general, PRM_HCA_CAP_CQ_OI);
	caps->atomics = atomics(atomic, PRM_ATOMIC_CAP_SIZE_QP);
	caps->atomics_dc = atomics(atomic, PRM_ATOMIC_CAP_SIZE_DC);
	caps->atomic_mode = atomic_mode(caps->atomics);
	caps->atomic_mode_dc = atomic_mode(caps->atomics_dc);
	roce_caps(caps, roce);
}

/* ---- CQs --------------------------------------------------------------------------------------------------------- */

void mlx5_cmd_create_cq(struct mlx5_cmd *cmd, const struct mlx5_cq_args *args)
{
	const uint32_t cqc = PRM_CREATE_CQ_IN_CQC;
	const struct nic_cq *cq = args->cq;

	mlx5_cmd_begin(cmd, PRM_OP_CREATE_CQ);
	prm_set(cmd->in, cqc + PRM_CQC_DBR_UMEM_VALID, 1);
	prm_set(cmd->in, cqc + PRM_CQC_CC, !!(cq->flags & NIC_CQ_COLLAPSED));
	prm_set(cmd->in, cqc + PRM_CQC_OI, !!(cq->flags & NIC_CQ_OVERRUN_IGNORE));
	prm_set(cmd->in, cqc + PRM_CQC_DBR_UMEM_ID, args->umem_id);
	prm_set(cmd->in, cqc + PRM_CQC_LOG_CQ_SIZE, cq->log2_entries);
	prm_set(cmd->in, cqc + PRM_CQC_UAR_PAGE, args->uar_page);
	prm_set(cmd->in, cqc + PRM_CQC_EQN, args->eqn);
	prm_set(cmd->in, cqc + PRM_CQC_DBR_ADDR, cq->dbrec_offset);
	prm_set(cmd->in, PRM_CREATE_CQ_IN_UMEM_OFFSET, cq->ring_offset);
	prm_set(cmd->in, PRM_CREATE_CQ_IN_UMEM_ID, args->umem_id);
	prm_set(cmd->in, PRM_CREATE_CQ_IN_UMEM_VALID, 1);
}

void mlx5_cmd_query_cq(struct mlx5_cmd *cmd, uint32_t cqn)
{
	mlx5_cmd_begin(cmd, PRM_OP_QUERY_CQ);
	prm_set(cmd->in, PRM_CQ_IN_CQN, cqn);
}

/* ---- counters ---------------------------------------------------------------------------------------------------- */

void mlx5_cmd_alloc_q_counter(struct mlx5_cmd *cmd)
{
	mlx5_cmd_begin(cmd, PRM_OP_ALLOC_Q_COUNTER);
}

void mlx5_cmd_query_q_counter(struct mlx5_cmd *cmd, uint32_t counter_set_id)
{
	mlx5_cmd_begin(cmd, PRM_OP_QUERY_Q_COUNTER);
	prm_set(cmd->in, PRM_QUERY_Q_COUNTER_IN_COUNTER_SET_ID, counter_set_id);
}
