/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues by command: over umems, plain or collapsed, with CQEs of 64 or 128 bytes, which may be compressed and never are. */
#include <errno.h>
#include <string.h>

#include "tests/mlx5sim/sim/fw.h"

const uint32_t fw_cq_fields[] = {PRM_CQC_DBR_UMEM_VALID,
				 PRM_CQC_CC,
				 PRM_CQC_SCQE_BREAK_MODERATION,
				 PRM_CQC_OI,
				 PRM_CQC_PERIOD_MODE,
				 PRM_CQC_DBR_UMEM_ID,
				 PRM_CQC_LOG_CQ_SIZE,
				 PRM_CQC_UAR_PAGE,
				 PRM_CQC_PERIOD,
				 PRM_CQC_MAX_COUNT,
				 PRM_CQC_EQN,
				 PRM_CQC_LOG_PAGE_SIZE,
				 PRM_CQC_DBR_ADDR,
				 PRM_CQC_CQE_SZ,
				 PRM_CQC_CQE_COMP_EN,
				 PRM_CQC_MINI_CQE_FORMAT,
				 0};

#define CQC(name) (PRM_CREATE_CQ_IN_CQC + PRM_CQC_##name)
/* PRM, modify_cq_in.modify_field_select, op_mod 0 */
#define CQ_SELECT_PERIOD 0x1u
#define CQ_SELECT_MAX_COUNT 0x2u
#define LOG_CQ_SIZE_MAX 22
#define LARGE_CQE_BYTES 128u
#define SCRIBBLE 0xb4 /* as the last byte of a CQE: no opcode that there is */

static uint32_t cqe_bytes(const struct fw_cmd *cmd)
{
	return fw_get(cmd, CQC(CQE_SZ)) ? LARGE_CQE_BYTES : SHMD_CQE_BYTES;
}

static int check(struct fw_cmd *cmd)
{
	if (fw_get(cmd, CQC(LOG_CQ_SIZE)) > LOG_CQ_SIZE_MAX)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, CQC(LOG_CQ_SIZE), "2^%u CQEs",
			       (unsigned int)fw_get(cmd, CQC(LOG_CQ_SIZE)));
	if (fw_get(cmd, CQC(CQE_SZ)) > 1)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, CQC(CQE_SZ), "size of CQEs %u",
			       (unsigned int)fw_get(cmd, CQC(CQE_SZ)));
	if (fw_get(cmd, CQC(EQN)) != FW_EQN)
		return fw_fail(cmd, PRM_STATUS_BAD_RES, CQC(EQN), "no event queue %u",
			       (unsigned int)fw_get(cmd, CQC(EQN)));
	if (fw_get(cmd, PRM_CREATE_CQ_IN_UMEM_OFFSET) % cqe_bytes(cmd))
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, PRM_CREATE_CQ_IN_UMEM_OFFSET,
			       "the ring is not aligned");
	if (fw_get(cmd, CQC(DBR_ADDR)) & 7)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, CQC(DBR_ADDR),
			       "the doorbell record is not aligned");
	if (nic_count(cmd->nic, &cmd->nic->n_cqs) >= SIM_MAX_CQ)
		return fw_fail(cmd, PRM_STATUS_LIM, 0, "more than %u CQs", SIM_MAX_CQ);
	return 0;
}

/*
 * The whole ring of a collapsed CQ is the device's, and it may write behind the first entry: a client that has
 * something else there loses it.
 */
static void scribble(uint8_t *ring, uint32_t entry_bytes, uint64_t ring_bytes)
{
	memset(ring + entry_bytes, SCRIBBLE, ring_bytes - entry_bytes);
}

static int find_parts(struct fw_cmd *cmd, struct cq *cq)
{
	uint64_t ring_bytes = (uint64_t)cq->entry_bytes << cq->log2_entries;
	uint8_t *ring;

	cq->uar = uar_get(cmd->call->ufile, (uint32_t)fw_get(cmd, CQC(UAR_PAGE)));
	if (!cq->uar)
		return fw_fail(cmd, PRM_STATUS_BAD_RES, CQC(UAR_PAGE),
			       "UAR page 0x%x is not of this uid",
			       (unsigned int)fw_get(cmd, CQC(UAR_PAGE)));
	cq->uar->object.users++;
	ring = fw_umem(cmd, PRM_CREATE_CQ_IN_UMEM_ID, PRM_CREATE_CQ_IN_UMEM_OFFSET, ring_bytes,
		       true, &cq->ring_umem);
	if (!ring)
		return -EREMOTEIO;
	if (cq->collapsed)
		scribble(ring, cq->entry_bytes, ring_bytes);
	cq->ring = ring;
	cq->dbrec = fw_umem(cmd, CQC(DBR_UMEM_ID), CQC(DBR_ADDR), 8, true, &cq->dbrec_umem);
	return cq->dbrec ? 0 : -EREMOTEIO;
}

static void moderate(struct cq *cq, const struct fw_cmd *cmd, uint32_t cqc)
{
	cq->moderate_count = (uint32_t)fw_get(cmd, cqc + PRM_CQC_MAX_COUNT);
	cq->moderate_nsec = fw_get(cmd, cqc + PRM_CQC_PERIOD) * 1000;
}

int fw_create_cq(struct fw_cmd *cmd)
{
	struct cq *cq = NULL;
	int r;

	r = check(cmd);
	if (r == 0)
		r = cq_new(cmd->call, OBJECT_DEVX, &cq);
	if (r < 0)
		return r;
	cq->log2_entries = (uint32_t)fw_get(cmd, CQC(LOG_CQ_SIZE));
	cq->entry_bytes = cqe_bytes(cmd);
	cq->collapsed = fw_get(cmd, CQC(CC)) != 0;
	moderate(cq, cmd, PRM_CREATE_CQ_IN_CQC);
	cq->ignores_overrun = fw_get(cmd, CQC(OI)) != 0;
	r = find_parts(cmd, cq);
	if (r == 0)
		r = cq_enter(cq, (cq->collapsed ? ENGINE_CQ_COLLAPSED : 0) |
					 (cq->ignores_overrun ? ENGINE_CQ_OVERRUN_IGNORE : 0));
	if (r < 0) {
		object_destroy(&cq->object);
		return r;
	}
	fw_set(cmd, PRM_CREATE_CQ_OUT_CQN, cq->cqn);
	cmd->created = &cq->object;
	return 0;
}

static struct cq *find(struct fw_cmd *cmd)
{
	struct object *object = fw_object(cmd, PRM_OP_CREATE_CQ, PRM_CQ_IN_CQN, "CQ");

	return object ? container_of(object, struct cq, object) : NULL;
}

int fw_query_cq(struct fw_cmd *cmd)
{
	const struct cq *cq = find(cmd);
	uint32_t pi = 0;

	if (!cq)
		return -EREMOTEIO;
	sim_lock(cmd->nic->sim);
	engine_cq_producer(cmd->nic->engine, cq->cqn, &pi);
	sim_unlock(cmd->nic->sim);
#define OUT(name) (PRM_QUERY_CQ_OUT_CQC + PRM_CQC_##name)
	fw_set(cmd, OUT(PRODUCER_COUNTER), pi & 0xffffff);
	fw_set(cmd, OUT(CQE_SZ), cq->entry_bytes == LARGE_CQE_BYTES);
	fw_set(cmd, OUT(CC), cq->collapsed);
	fw_set(cmd, OUT(OI), cq->ignores_overrun);
	fw_set(cmd, OUT(LOG_CQ_SIZE), cq->log2_entries);
	fw_set(cmd, OUT(UAR_PAGE), cq->uar->page_id);
	fw_set(cmd, OUT(EQN), FW_EQN);
	fw_set(cmd, OUT(MAX_COUNT), cq->moderate_count);
	fw_set(cmd, OUT(PERIOD), cq->moderate_nsec / 1000);
	fw_set(cmd, OUT(DBR_UMEM_VALID), cq->dbrec_umem != NULL);
	if (cq->dbrec_umem)
		fw_set(cmd, OUT(DBR_UMEM_ID), cq->dbrec_umem->object.number);
#undef OUT
	return 0;
}

/* Moderation; what a CQ is made of does not change. */
int fw_modify_cq(struct fw_cmd *cmd)
{
	const uint32_t moderation = CQ_SELECT_PERIOD | CQ_SELECT_MAX_COUNT;
	uint32_t select = (uint32_t)fw_get(cmd, PRM_MODIFY_CQ_IN_FIELD_SELECT);
	struct cq *cq = find(cmd);

	if (!cq)
		return -EREMOTEIO;
	if (cmd->op_mod)
		return fw_fail(cmd, PRM_STATUS_BAD_OP, PRM_IN_OP_MOD, "a CQ is not resized");
	if (select != moderation)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, PRM_MODIFY_CQ_IN_FIELD_SELECT,
			       "field select 0x%x", select);
	sim_lock(cmd->nic->sim);
	moderate(cq, cmd, PRM_MODIFY_CQ_IN_CQC);
	sim_unlock(cmd->nic->sim);
	return 0;
}
