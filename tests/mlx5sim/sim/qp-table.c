/* SPDX-License-Identifier: Apache-2.0 */
/* See qp-table.h. After IBTA "QP state transition properties", for RC. */
#include "tests/mlx5sim/sim/qp-table.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include <infiniband/verbs.h>

struct transition {
	bool allowed;
	uint32_t required;
	uint32_t optional;
};

#define INIT_ATTRS (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define RTR_ATTRS                                                                                  \
	(IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |                           \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_ATTRS                                                                                  \
	(IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |                    \
	 IBV_QP_MAX_QP_RD_ATOMIC)
#define LATER_ATTRS (IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER)

/* RESET and ERR are reached from everywhere, with no attribute. */
static const struct transition table[IBV_QPS_ERR][IBV_QPS_ERR] = {
	[IBV_QPS_RESET][IBV_QPS_INIT] = {true, INIT_ATTRS, 0},
	[IBV_QPS_INIT][IBV_QPS_INIT] = {true, 0, INIT_ATTRS},
	[IBV_QPS_INIT][IBV_QPS_RTR] = {true, RTR_ATTRS, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
	[IBV_QPS_RTR][IBV_QPS_RTS] = {true, RTS_ATTRS, LATER_ATTRS},
	[IBV_QPS_RTS][IBV_QPS_RTS] = {true, 0, LATER_ATTRS},
	[IBV_QPS_RTS][IBV_QPS_SQD] = {true, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
	[IBV_QPS_SQD][IBV_QPS_RTS] = {true, 0, LATER_ATTRS},
};

int qp_table_check(uint32_t from, uint32_t to, uint32_t attr_mask, const char **ret_reason)
{
	static const struct transition always = {true, 0, 0};
	const struct transition *t = &always;
	uint32_t attrs = attr_mask & ~(uint32_t)(IBV_QP_STATE | IBV_QP_CUR_STATE);

	if (from > IBV_QPS_ERR || to > IBV_QPS_ERR) {
		*ret_reason = "no such state";
		return -EINVAL;
	}
	if (to != IBV_QPS_RESET && to != IBV_QPS_ERR) {
		if (from == IBV_QPS_ERR || !table[from][to].allowed) {
			*ret_reason = "no such transition";
			return -EINVAL;
		}
		t = &table[from][to];
	}
	if ((attrs & t->required) != t->required) {
		*ret_reason = "an attribute is missing";
		return -EINVAL;
	}
	if (attrs & ~(t->required | t->optional)) {
		*ret_reason = "an attribute does not belong to this transition";
		return -EINVAL;
	}
	return 0;
}

static enum engine_qp_state engine_state(uint32_t state)
{
	static const enum engine_qp_state states[] = {
		[IBV_QPS_RESET] = ENGINE_QP_RST, [IBV_QPS_INIT] = ENGINE_QP_INIT,
		[IBV_QPS_RTR] = ENGINE_QP_RTR,	 [IBV_QPS_RTS] = ENGINE_QP_RTS,
		[IBV_QPS_SQD] = ENGINE_QP_SQD,	 [IBV_QPS_SQE] = ENGINE_QP_SQER,
		[IBV_QPS_ERR] = ENGINE_QP_ERR,
	};

	return states[state];
}

/* What the masks of verbs are for the engine; its sets are coarser, and the table above has seen to completeness. */
static uint32_t engine_set(uint32_t mask)
{
	static const struct {
		uint32_t mask, set;
	} of[] = {
		{IBV_QP_ACCESS_FLAGS, ENGINE_QP_SET_ACCESS},
		{IBV_QP_AV, ENGINE_QP_SET_PATH},
		{IBV_QP_RQ_PSN, ENGINE_QP_SET_RQ_PSN},
		{IBV_QP_SQ_PSN, ENGINE_QP_SET_SQ_PSN},
		{IBV_QP_TIMEOUT, ENGINE_QP_SET_RETRY},
		{IBV_QP_MIN_RNR_TIMER, ENGINE_QP_SET_RNR_TIMER},
		{IBV_QP_MAX_QP_RD_ATOMIC, ENGINE_QP_SET_RD_ATOMIC},
		{IBV_QP_MAX_DEST_RD_ATOMIC, ENGINE_QP_SET_RD_ATOMIC},
	};
	uint32_t set = 0;

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		set |= mask & of[i].mask ? of[i].set : 0;
	return set;
}

static const char *bad_value(const struct ib_uverbs_modify_qp *cmd)
{
	const uint32_t access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
				IBV_ACCESS_MW_BIND;
	uint32_t mask = cmd->attr_mask;

	if ((mask & IBV_QP_PORT) && cmd->port_num != 1)
		return "port";
	if ((mask & IBV_QP_PKEY_INDEX) && cmd->pkey_index != 0)
		return "P_Key index";
	if ((mask & IBV_QP_ACCESS_FLAGS) && (cmd->qp_access_flags & ~access))
		return "access flags";
	if ((mask & IBV_QP_PATH_MTU) &&
	    (cmd->path_mtu < IBV_MTU_256 || cmd->path_mtu > IBV_MTU_4096))
		return "path MTU";
	if ((mask & IBV_QP_DEST_QPN) && cmd->dest_qp_num > 0xffffff)
		return "destination QP number";
	if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) && cmd->max_rd_atomic > 16)
		return "max_rd_atomic";
	if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) && cmd->max_dest_rd_atomic > 16)
		return "max_dest_rd_atomic";
	if ((mask & IBV_QP_TIMEOUT) && cmd->timeout > 31)
		return "timeout";
	if ((mask & IBV_QP_RETRY_CNT) && cmd->retry_cnt > 7)
		return "retry count";
	if ((mask & IBV_QP_RNR_RETRY) && cmd->rnr_retry > 7)
		return "RNR retry count";
	if ((mask & IBV_QP_MIN_RNR_TIMER) && cmd->min_rnr_timer > 31)
		return "RNR timer";
	return NULL;
}

int qp_table_translate(const struct ib_uverbs_modify_qp *cmd, uint32_t to,
		       struct engine_qp_modify *ret_modify, const char **ret_reason)
{
	*ret_reason = bad_value(cmd);
	if (*ret_reason)
		return -EINVAL;
	*ret_modify = (struct engine_qp_modify){
		.state = engine_state(to),
		.set = engine_set(cmd->attr_mask),
		.access = cmd->qp_access_flags &
			  (ENGINE_ACCESS_REMOTE_WRITE | ENGINE_ACCESS_REMOTE_READ |
			   ENGINE_ACCESS_REMOTE_ATOMIC),
		.dest_qpn = cmd->dest_qp_num,
		.path_mtu_bytes = 128u << cmd->path_mtu % 8,
		.rq_psn = cmd->rq_psn & 0xffffff,
		.sq_psn = cmd->sq_psn & 0xffffff,
		.timeout = cmd->timeout,
		.retry_count = cmd->retry_cnt,
		.rnr_retry = cmd->rnr_retry,
		.min_rnr_timer = cmd->min_rnr_timer,
		.max_rd_atomic = cmd->max_rd_atomic,
		.max_dest_rd_atomic = cmd->max_dest_rd_atomic,
	};
	return 0;
}
