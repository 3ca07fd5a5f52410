/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error CQEs in the rings of CQs, and the word beside a QP's dbrec that names its first error.
 *
 * Rings are memory that the client writes: only that client's QPs get findings from them. Any thread that owns the context.
 */
#include "daemon/nic/mlx5/mlx5.h"

#include <endian.h>
#include <string.h>

#include <shmd/abi/cqe.h>
#include <shmd/abi/doorbell.h>

/* The most CQEs of one search: other sessions wait for this thread. */
#define SEARCH_CQES 4096u
#define CQ_COUNTER_MASK 0xffffffu

void mlx5_qp_tell_error(struct mlx5_qp *qp, uint32_t syndrome)
{
	if (syndrome && qp->first_error)
		return;
	qp->first_error = syndrome;
	mlx5_memory_store(&qp->queues->memory, qp->desc->dbrec_offset + SHMD_QP_ERROR_OFFSET, syndrome);
}

/* The CQE in this slot and those behind it, as many as are read at once. NULL: the memory is not there. */
static const uint8_t *cqe_in(const struct mlx5_cq *cq, struct mlx5_cqes *cqes, uint32_t slot, uint32_t n_slots)
{
	uint32_t most = sizeof(cqes->bytes) / SHMD_CQE_BYTES;

	/* bounded: by the line before each. */
	if (slot >= cqes->first_slot && slot - cqes->first_slot < cqes->n)
		return cqes->bytes + (size_t)(slot - cqes->first_slot) * SHMD_CQE_BYTES;
	cqes->first_slot = slot;
	cqes->n = n_slots - slot < most ? n_slots - slot : most;
	if (mlx5_memory_read(&cq->queues->memory, mlx5_cq_desc(cq)->ring_offset + (uint64_t)slot * SHMD_CQE_BYTES,
			     cqes->bytes, (size_t)cqes->n * SHMD_CQE_BYTES) == 0)
		return cqes->bytes;
	cqes->n = 0;
	return NULL;
}

/* The slot is bounded by the ring's own size. The NIC had written the CQE when it told its counter. */
uint32_t mlx5_cq_error_at(const struct mlx5_cq *cq, struct mlx5_cqes *cqes, uint64_t index, uint32_t *ret_qpn)
{
	const struct nic_cq *desc = mlx5_cq_desc(cq);
	/* bounded: nic_layout_init() made the layout. */
	uint32_t n_slots = desc->flags & NIC_CQ_COLLAPSED ? 1 : 1u << desc->log2_entries;
	const uint8_t *at = cqe_in(cq, cqes, (uint32_t)index & (n_slots - 1), n_slots);
	struct shmd_err_cqe cqe;
	uint8_t opcode;

	if (!at)
		return 0;
	opcode = at[offsetof(struct shmd_err_cqe, op_own)] >> 4;
	if (opcode != SHMD_CQE_REQ_ERR && opcode != SHMD_CQE_RESP_ERR)
		return 0;
	memcpy(&cqe, at, sizeof(cqe));
	*ret_qpn = be32toh(cqe.s_wqe_opcode_qpn) & 0xffffffu;
	return cqe.syndrome;
}

uint64_t mlx5_cq_look(struct mlx5_ctx *ctx, const struct mlx5_cq *cq, uint32_t from_ci, uint64_t *ret_end)
{
	const struct nic_cq *desc = mlx5_cq_desc(cq);
	/* bounded: nic_layout_init() made the layout. */
	uint64_t n_entries = desc->flags & NIC_CQ_COLLAPSED ? 1 : 1ull << desc->log2_entries;
	uint8_t out[PRM_QUERY_CQ_OUT_BYTES];
	struct mlx5_cmd cmd;
	uint64_t n_new;

	mlx5_cmd_query_cq(&cmd, cq->cqn);
	if (!mlx5_memory_is_there(&cq->queues->memory) || mlx5_exec_query(ctx, cq->obj, &cmd, out) < 0)
		return 0;
	*ret_end = prm_get(out, PRM_QUERY_CQ_OUT_CQC + PRM_CQC_PRODUCER_COUNTER);
	n_new = (*ret_end - from_ci) & CQ_COUNTER_MASK;
	n_new = n_new < n_entries ? n_new : n_entries;
	return n_new < SEARCH_CQES ? n_new : SEARCH_CQES;
}
