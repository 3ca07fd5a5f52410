/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The states of queue pairs, and their events. Transitions go by the table (qp-table.c); the engine's state is the true
 * one: a QP that failed is in ERR whatever the client did last. A DCT is made in the engine when it moves to RTR, with
 * the attributes given before; that is when its client learns its number.
 */
#include <errno.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5-abi.h>

#include "tests/mlx5sim/sim/address.h"
#include "tests/mlx5sim/sim/qp-table.h"
#include "tests/mlx5sim/sim/qp.h"
#include "tests/mlx5sim/sim/xrc.h"

#define DCT_RD_ATOMIC 16

/* Errors of the responder are asynchronous events; those of the requester have a CQE. */
void qp_event(struct qp *qp, const struct engine_event *ev)
{
	struct ib_uverbs_async_event_desc event = {0};

	if (!qp->object.ufile->async)
		return;
	if (ev->kind == ENGINE_EVENT_QP_ERROR && !ev->responder)
		return;
	event.element = qp->user_handle;
	if (ev->kind == ENGINE_EVENT_QP_SQ_DRAINED)
		event.event_type = IBV_EVENT_SQ_DRAINED;
	else if (ev->kind == ENGINE_EVENT_QP_LAST_WQE)
		event.event_type = IBV_EVENT_QP_LAST_WQE_REACHED;
	else if (ev->syndrome == SHMD_SYNDROME_LOCAL_ACCESS_ERR)
		event.event_type = IBV_EVENT_QP_ACCESS_ERR;
	else
		event.event_type = IBV_EVENT_QP_REQ_ERR;
	if (channel_send(qp->object.ufile->async, &event, sizeof(event)))
		qp->n_events++;
}

void qp_engine_event(struct nic *nic, const struct engine_event *ev)
{
	struct qp *qp = hash_get(&nic->qps_by_number, ev->number);

	if (qp)
		qp_event(qp, ev);
}

static uint32_t verbs_state(enum engine_qp_state state)
{
	switch (state) {
	case ENGINE_QP_RST:
		return IBV_QPS_RESET;
	case ENGINE_QP_INIT:
		return IBV_QPS_INIT;
	case ENGINE_QP_RTR:
		return IBV_QPS_RTR;
	case ENGINE_QP_RTS:
		return IBV_QPS_RTS;
	case ENGINE_QP_SQD:
		return IBV_QPS_SQD;
	case ENGINE_QP_SQER:
		return IBV_QPS_SQE;
	case ENGINE_QP_ERR:
		break;
	}
	return IBV_QPS_ERR;
}

static uint32_t present_state(struct nic *nic, const struct qp *qp)
{
	struct engine_qp_info info = {.state = ENGINE_QP_ERR};

	if (!qp->qpn)
		return qp->dct_state;
	sim_lock(nic->sim);
	engine_qp_query(nic->engine, qp->qpn, &info);
	sim_unlock(nic->sim);
	return verbs_state(info.state);
}

#define REMEMBER(bit, field)                                                                       \
	if (cmd->attr_mask & (bit))                                                                \
	last->field = cmd->field

/* An attribute set on an XRC_TGT holds for all its handles. Under sim->lock. */
static struct ib_uverbs_modify_qp *last_of(struct qp *qp)
{
	return qp->tgt ? &qp->tgt->last : &qp->last;
}

static void remember(struct qp *qp, const struct ib_uverbs_modify_qp *cmd)
{
	struct ib_uverbs_modify_qp *last;

	sim_lock(qp->object.ufile->sim);
	last = last_of(qp);
	REMEMBER(IBV_QP_AV, dest);
	REMEMBER(IBV_QP_RQ_PSN, rq_psn);
	REMEMBER(IBV_QP_SQ_PSN, sq_psn);
	REMEMBER(IBV_QP_DEST_QPN, dest_qp_num);
	REMEMBER(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	REMEMBER(IBV_QP_QKEY, qkey);
	REMEMBER(IBV_QP_PKEY_INDEX, pkey_index);
	REMEMBER(IBV_QP_PATH_MTU, path_mtu);
	REMEMBER(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	REMEMBER(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	REMEMBER(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	REMEMBER(IBV_QP_PORT, port_num);
	REMEMBER(IBV_QP_TIMEOUT, timeout);
	REMEMBER(IBV_QP_RETRY_CNT, retry_cnt);
	REMEMBER(IBV_QP_RNR_RETRY, rnr_retry);
	sim_unlock(qp->object.ufile->sim);
}

/* The attributes of INIT and those of now, in two steps. */
static int enter_dct(struct call *call, struct qp *qp, const struct engine_qp_modify *rtr)
{
	struct engine_qp_modify init = {.state = ENGINE_QP_INIT,
					.set = ENGINE_QP_SET_ACCESS | ENGINE_QP_SET_DC_KEY,
					.access = qp->last.qp_access_flags & QP_TABLE_REMOTE_ACCESS,
					.dc_key = qp->dc_key};
	struct engine_qp_modify mod = *rtr;
	struct engine_qp_attr attr = {0};
	int r;

	mod.set |= ENGINE_QP_SET_RD_ATOMIC;
	mod.max_dest_rd_atomic = DCT_RD_ATOMIC;
	r = qp_enter(qp, &attr);
	if (r < 0)
		return r;
	sim_lock(call->nic->sim);
	r = engine_qp_modify(call->nic->engine, qp->qpn, &init);
	if (r == 0)
		r = engine_qp_modify(call->nic->engine, qp->qpn, &mod);
	sim_unlock(call->nic->sim);
	return r;
}

static int tell_engine(struct call *call, struct qp *qp, const struct engine_qp_modify *mod,
		       uint32_t to)
{
	int r;

	if (qp->type == ENGINE_QP_DCT) {
		r = to == IBV_QPS_RTR ? enter_dct(call, qp, mod) : 0;
		qp->dct_state = r == 0 ? to : qp->dct_state;
		return r;
	}
	sim_lock(call->nic->sim);
	r = engine_qp_modify(call->nic->engine, qp->qpn, mod);
	sim_unlock(call->nic->sim);
	return r;
}

static int modify(struct call *call, struct qp *qp, const struct ib_uverbs_modify_qp *cmd)
{
	uint32_t from = present_state(call->nic, qp);
	uint32_t to = cmd->attr_mask & IBV_QP_STATE ? cmd->qp_state : from;
	struct engine_qp_modify mod;
	const char *reason = "";
	int r;

	if ((cmd->attr_mask & IBV_QP_CUR_STATE) && cmd->cur_qp_state != from)
		return call_refuse(call, -EINVAL, "the QP is in state %u, not %u", from,
				   cmd->cur_qp_state);
	r = qp_table_check(qp->type, from, to, cmd->attr_mask, &reason);
	if (r == 0)
		r = qp_table_translate(qp->type, cmd, to, &mod, &reason);
	if (r < 0)
		return call_refuse(call, r, "state %u to %u, mask 0x%x: %s", from, to,
				   cmd->attr_mask, reason);
	if (mod.set & ENGINE_QP_SET_PATH) {
		r = address_of_peer(call, &cmd->dest, mod.dest_gid);
		if (r < 0)
			return r;
	}
	r = tell_engine(call, qp, &mod, to);
	if (r < 0)
		return call_refuse(call, r, "state %u to %u, mask 0x%x: the engine", from, to,
				   cmd->attr_mask);
	remember(qp, cmd);
	return 0;
}

static struct qp *find_qp(struct call *call, uint32_t handle)
{
	struct object *object = object_get(call->ufile, OBJECT_QP, handle);

	return object ? container_of(object, struct qp, object) : NULL;
}

int write_modify_qp(struct call *call)
{
	struct ib_uverbs_modify_qp cmd;
	struct qp *qp;
	int r;

	r = call_in_struct(call, UVERBS_ATTR_CORE_IN, &cmd, sizeof(cmd));
	if (r < 0)
		return r;
	qp = find_qp(call, cmd.qp_handle);
	return qp ? modify(call, qp, &cmd) : call_refuse(call, -EINVAL, "no such QP");
}

static int read_ex(struct call *call, struct ib_uverbs_ex_modify_qp *ret)
{
	struct mlx5_ib_modify_qp driver;
	int r;

	r = call_in_struct(call, UVERBS_ATTR_CORE_IN, ret, sizeof(*ret));
	if (r == 0)
		r = call_in_struct(call, UVERBS_ATTR_UHW_IN, &driver, sizeof(driver));
	if (r < 0)
		return r;
	if (ret->rate_limit || driver.burst_info.max_burst_sz || driver.burst_info.typical_pkt_sz)
		return call_refuse(call, -EOPNOTSUPP, "there are no rate limits");
	if (ret->reserved || driver.comp_mask || driver.burst_info.reserved || driver.ece_options)
		return call_refuse(call, -EOPNOTSUPP, "unknown input bits");
	return 0;
}

int write_ex_modify_qp(struct call *call)
{
	struct ib_uverbs_ex_modify_qp_resp resp = {.response_length = sizeof(resp)};
	struct mlx5_ib_modify_qp_resp driver = {.response_length = sizeof(driver)};
	struct ib_uverbs_ex_modify_qp cmd;
	struct qp *qp;
	int r;

	r = read_ex(call, &cmd);
	if (r < 0)
		return r;
	qp = find_qp(call, cmd.base.qp_handle);
	if (!qp)
		return call_refuse(call, -EINVAL, "no such QP");
	r = modify(call, qp, &cmd.base);
	if (r < 0)
		return r;
	driver.dctn = qp->type == ENGINE_QP_DCT ? qp->qpn : 0;
	r = call_out(call, UVERBS_ATTR_UHW_OUT, &driver, sizeof(driver));
	return r < 0 ? r : call_out(call, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
}

int write_query_qp(struct call *call)
{
	struct ib_uverbs_query_qp_resp resp = {0};
	struct ib_uverbs_query_qp cmd;
	struct ib_uverbs_modify_qp last;
	struct qp *qp;
	int r;

	r = call_in_struct(call, UVERBS_ATTR_CORE_IN, &cmd, sizeof(cmd));
	if (r < 0)
		return r;
	qp = find_qp(call, cmd.qp_handle);
	if (!qp)
		return call_refuse(call, -EINVAL, "no such QP");
	sim_lock(call->nic->sim);
	last = *last_of(qp);
	sim_unlock(call->nic->sim);
	resp.dest = last.dest;
	resp.max_send_wr = qp->cap.max_send_wr;
	resp.max_recv_wr = qp->cap.max_recv_wr;
	resp.max_send_sge = qp->cap.max_send_sge;
	resp.max_recv_sge = qp->cap.max_recv_sge;
	resp.max_inline_data = qp->cap.max_inline_data;
	resp.qkey = last.qkey;
	resp.rq_psn = last.rq_psn;
	resp.sq_psn = last.sq_psn;
	resp.dest_qp_num = last.dest_qp_num;
	resp.qp_access_flags = last.qp_access_flags;
	resp.pkey_index = last.pkey_index;
	resp.qp_state = (uint8_t)present_state(call->nic, qp);
	resp.cur_qp_state = resp.qp_state;
	resp.path_mtu = last.path_mtu;
	resp.max_rd_atomic = last.max_rd_atomic;
	resp.max_dest_rd_atomic = last.max_dest_rd_atomic;
	resp.min_rnr_timer = last.min_rnr_timer;
	resp.port_num = last.port_num;
	resp.timeout = last.timeout;
	resp.retry_cnt = last.retry_cnt;
	resp.rnr_retry = last.rnr_retry;
	resp.sq_sig_all = qp->sq_sig_all;
	return call_out(call, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
}
