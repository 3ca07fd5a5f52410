/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See qp-table.h. After IBTA "QP state transition properties" (XRC: annex A14); for DCIs and DCTs, of which it says nothing, after
 * mlx5_ib of Linux (modify_dci_qp_is_ok, mlx5_ib_modify_dct). There are no alternate paths.
 */
#include "tests/mlx5sim/sim/qp-table.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include <infiniband/verbs.h>

#define RC (1u << ENGINE_QP_RC)
#define UC (1u << ENGINE_QP_UC)
#define UD (1u << ENGINE_QP_UD)
#define DCI (1u << ENGINE_QP_DCI)
#define DCT (1u << ENGINE_QP_DCT)
#define INI (1u << ENGINE_QP_XRC_INI)
#define TGT (1u << ENGINE_QP_XRC_TGT)
#define RAW (1u << ENGINE_QP_RAW)

struct transition {
	uint8_t types;
	uint8_t from, to;
	uint32_t required;
	uint32_t optional;
};

#define PORT_ATTRS (IBV_QP_PKEY_INDEX | IBV_QP_PORT)
#define PATH_ATTRS (IBV_QP_AV | IBV_QP_PATH_MTU)
#define PEER_ATTRS (PATH_ATTRS | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define RTS_ATTRS                                                                                  \
	(IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |                    \
	 IBV_QP_MAX_QP_RD_ATOMIC)
#define RC_LATER (IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER)
#define UC_LATER (IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS)
#define UD_LATER (IBV_QP_CUR_STATE | IBV_QP_QKEY)
#define SQD_ATTRS IBV_QP_EN_SQD_ASYNC_NOTIFY

/* RESET and ERR are reached from everywhere, with no attribute; but a DCT goes to RTR and no further. */
static const struct transition table[] = {
	{RC | UC | DCT | INI | TGT, IBV_QPS_RESET, IBV_QPS_INIT, PORT_ATTRS | IBV_QP_ACCESS_FLAGS, 0},
	{UD, IBV_QPS_RESET, IBV_QPS_INIT, PORT_ATTRS | IBV_QP_QKEY, 0},
	{DCI, IBV_QPS_RESET, IBV_QPS_INIT, PORT_ATTRS, 0},
	{RAW, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PORT, 0},

	{RC | UC | INI | TGT, IBV_QPS_INIT, IBV_QPS_INIT, 0, PORT_ATTRS | IBV_QP_ACCESS_FLAGS},
	{UD, IBV_QPS_INIT, IBV_QPS_INIT, 0, PORT_ATTRS | IBV_QP_QKEY},
	{DCI, IBV_QPS_INIT, IBV_QPS_INIT, 0, PORT_ATTRS},
	{RAW, IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PORT},

	{RC | TGT, IBV_QPS_INIT, IBV_QPS_RTR,
	 PEER_ATTRS | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	 IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
	{UC | INI, IBV_QPS_INIT, IBV_QPS_RTR, PEER_ATTRS, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
	{UD, IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
	{DCI, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_PATH_MTU, IBV_QP_AV | IBV_QP_PKEY_INDEX},
	{DCT, IBV_QPS_INIT, IBV_QPS_RTR, PATH_ATTRS | IBV_QP_MIN_RNR_TIMER, 0},
	{RAW, IBV_QPS_INIT, IBV_QPS_RTR, 0, 0},

	{RC, IBV_QPS_RTR, IBV_QPS_RTS, RTS_ATTRS, RC_LATER},
	{INI, IBV_QPS_RTR, IBV_QPS_RTS, RTS_ATTRS, UC_LATER},
	{TGT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_SQ_PSN, RC_LATER},
	{UC, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, UC_LATER},
	{UD, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, UD_LATER},
	{DCI, IBV_QPS_RTR, IBV_QPS_RTS, RTS_ATTRS, IBV_QP_MIN_RNR_TIMER},
	{RAW, IBV_QPS_RTR, IBV_QPS_RTS, 0, 0},

	{RC | TGT, IBV_QPS_RTS, IBV_QPS_RTS, 0, RC_LATER},
	{UC | INI, IBV_QPS_RTS, IBV_QPS_RTS, 0, UC_LATER},
	{UD, IBV_QPS_RTS, IBV_QPS_RTS, 0, UD_LATER},
	{DCI, IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_MIN_RNR_TIMER},
	{RAW, IBV_QPS_RTS, IBV_QPS_RTS, 0, 0},
	{RC | UC | UD | INI, IBV_QPS_RTS, IBV_QPS_SQD, 0, SQD_ATTRS},

	{RC, IBV_QPS_SQD, IBV_QPS_RTS, 0, RC_LATER},
	{UC | INI, IBV_QPS_SQD, IBV_QPS_RTS, 0, UC_LATER},
	{UD, IBV_QPS_SQD, IBV_QPS_RTS, 0, UD_LATER},
	{UC, IBV_QPS_SQE, IBV_QPS_RTS, 0, UC_LATER},
	{UD, IBV_QPS_SQE, IBV_QPS_RTS, 0, UD_LATER},
	{RAW, IBV_QPS_SQE, IBV_QPS_RTS, 0, 0},
};

static const struct transition *find(enum engine_qp_type type, uint32_t from, uint32_t to)
{
	static const struct transition always = {.required = 0};

	if (type != ENGINE_QP_DCT && (to == IBV_QPS_RESET || to == IBV_QPS_ERR))
		return &always;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if ((table[i].types >> type & 1) && table[i].from == from && table[i].to == to)
			return &table[i];
	}
	return NULL;
}

int qp_table_check(enum engine_qp_type type, uint32_t from, uint32_t to, uint32_t attr_mask,
		   const char **ret_reason)
{
	uint32_t attrs = attr_mask & ~(uint32_t)(IBV_QP_STATE | IBV_QP_CUR_STATE);
	const struct transition *t = find(type, from, to);

	if (from > IBV_QPS_ERR || to > IBV_QPS_ERR) {
		*ret_reason = "no such state";
		return -EINVAL;
	}
	if (!t) {
		*ret_reason = "no such transition";
		return -EINVAL;
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

/*
 * The engine's attributes for the masks of verbs; its sets are coarser, and the table above has seen to completeness. Attributes that a
 * DCI or an XRC_TGT has no use for is dropped.
 */
static uint32_t engine_set(enum engine_qp_type type, uint32_t mask)
{
	static const struct {
		uint8_t types;
		uint32_t mask, set;
	} of[] = {
		{RC | UC | DCT | INI | TGT, IBV_QP_ACCESS_FLAGS, ENGINE_QP_SET_ACCESS},
		{RC | UC | INI | TGT, IBV_QP_AV, ENGINE_QP_SET_PATH},
		{RC | UC | INI | TGT, IBV_QP_RQ_PSN, ENGINE_QP_SET_RQ_PSN},
		{RC | UC | UD | DCI | INI | TGT, IBV_QP_SQ_PSN, ENGINE_QP_SET_SQ_PSN},
		{RC | DCI | INI, IBV_QP_TIMEOUT, ENGINE_QP_SET_RETRY},
		{RC | DCT | TGT, IBV_QP_MIN_RNR_TIMER, ENGINE_QP_SET_RNR_TIMER},
		{RC | DCI | INI, IBV_QP_MAX_QP_RD_ATOMIC, ENGINE_QP_SET_RD_ATOMIC},
		{RC | TGT, IBV_QP_MAX_DEST_RD_ATOMIC, ENGINE_QP_SET_RD_ATOMIC},
		{UD, IBV_QP_QKEY, ENGINE_QP_SET_QKEY},
	};
	uint32_t set = 0;

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		set |= (of[i].types >> type & 1) && (mask & of[i].mask) ? of[i].set : 0;
	return set;
}

/* Newer clients ask for both; a kernel passes them on to devices that flush, and ConnectX does not. */
#define ACCESS_FLUSH 0x300u

static const char *bad_value(const struct ib_uverbs_modify_qp *cmd)
{
	const uint32_t access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
				IBV_ACCESS_MW_BIND | IBV_ACCESS_ON_DEMAND | ACCESS_FLUSH;
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

int qp_table_translate(enum engine_qp_type type, const struct ib_uverbs_modify_qp *cmd, uint32_t to,
		       struct engine_qp_modify *ret_modify, const char **ret_reason)
{
	*ret_reason = bad_value(cmd);
	if (*ret_reason)
		return -EINVAL;
	*ret_modify = (struct engine_qp_modify){
		.state = engine_state(to),
		.set = engine_set(type, cmd->attr_mask),
		.access = cmd->qp_access_flags & QP_TABLE_REMOTE_ACCESS,
		.qkey = cmd->qkey,
		.dest_qpn = cmd->dest_qp_num,
		.path_mtu_bytes = 128u << cmd->path_mtu % 8,
		.rq_psn = cmd->rq_psn & 0xffffff,
		.sq_psn = cmd->sq_psn & 0xffffff,
		.timeout = cmd->timeout,
		.retry_count = cmd->retry_cnt,
		.rnr_retry = cmd->rnr_retry,
		.min_rnr_timer = cmd->min_rnr_timer,
		/* The device has a logarithm: there is no "none". */
		.max_rd_atomic = cmd->max_rd_atomic ? cmd->max_rd_atomic : 1,
		.max_dest_rd_atomic = cmd->max_dest_rd_atomic,
	};
	return 0;
}
