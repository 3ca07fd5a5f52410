/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs: made over the client's buffers, moved through their states by the table, executed by the engine. The
 * engine's state is the true one: a QP that failed is in ERR whatever the client did last.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5-abi.h>

#include "tests/mlx5sim/sim/pd-mr.h"
#include "tests/mlx5sim/sim/qp-table.h"

/* What a kernel of these days knows and this device may ignore: scatter to CQE is a permission, not a promise. */
#define FLAGS_TAKEN                                                                                \
	(MLX5_QP_FLAG_SCATTER_CQE | MLX5_QP_FLAG_ALLOW_SCATTER_CQE | MLX5_QP_FLAG_UAR_PAGE_INDEX)

struct qp {
	struct object object;
	struct list uar_link;
	struct pd *pd;
	struct cq *send_cq, *recv_cq;
	struct uar *uar;
	struct memory *ring_memory, *dbrec_memory;
	uint64_t user_handle;
	uint32_t qpn;
	uint32_t n_events; /* sent */
	bool sq_sig_all;
	struct ib_uverbs_qp_cap cap;
	struct ib_uverbs_modify_qp last; /* what query_qp tells, from all transitions */
};

struct qp_params {
	struct mlx5_ib_create_qp driver;
	struct ib_uverbs_qp_cap cap;
	uint32_t log2_sq, log2_rq, log2_rq_stride;
	uint64_t rq_bytes, sq_bytes;
	bool sq_sig_all;
};

void qp_doorbell(struct nic *nic, const struct uar *uar)
{
	struct qp *qp;

	list_for_each_entry (qp, &uar->qps, uar_link)
		engine_doorbell(nic->engine, qp->qpn);
}

/* Errors of the responder are asynchronous events; those of the requester have a CQE. */
void qp_engine_event(struct nic *nic, const struct engine_event *ev)
{
	struct qp *qp = hash_get(&nic->qps_by_number, ev->number);
	struct ib_uverbs_async_event_desc event = {0};

	if (!qp || !qp->object.ufile->async)
		return;
	if (ev->kind == ENGINE_EVENT_QP_ERROR && !ev->responder)
		return;
	event.element = qp->user_handle;
	if (ev->kind == ENGINE_EVENT_QP_SQ_DRAINED)
		event.event_type = IBV_EVENT_SQ_DRAINED;
	else if (ev->syndrome == SHMD_SYNDROME_LOCAL_ACCESS_ERR)
		event.event_type = IBV_EVENT_QP_ACCESS_ERR;
	else
		event.event_type = IBV_EVENT_QP_REQ_ERR;
	if (channel_send(qp->object.ufile->async, &event, sizeof(event)))
		qp->n_events++;
}

/* ---- create ---------------------------------------------------------------------------------------------------- */

static void qp_free(struct object *object)
{
	struct qp *qp = container_of(object, struct qp, object);
	struct nic *nic = object->ufile->nic;

	sim_lock(nic->sim);
	if (qp->qpn) {
		engine_qp_destroy(nic->engine, qp->qpn);
		hash_remove(&nic->qps_by_number, qp->qpn);
		nic->n_qps--;
	}
	list_del(&qp->uar_link);
	sim_unlock(nic->sim);
	if (qp->pd)
		qp->pd->object.users--;
	if (qp->send_cq)
		qp->send_cq->object.users--;
	if (qp->recv_cq)
		qp->recv_cq->object.users--;
	if (qp->uar)
		qp->uar->object.users--;
	memory_unref(qp->ring_memory);
	memory_unref(qp->dbrec_memory);
	free(qp);
}

static bool is_power_of_two(uint32_t n)
{
	return n && !(n & (n - 1));
}

static int check_rings(struct call *call, struct qp_params *params)
{
	const struct mlx5_ib_create_qp *driver = &params->driver;

	if (!is_power_of_two(driver->sq_wqe_count) || driver->sq_wqe_count > SIM_MAX_QP_WR)
		return call_refuse(call, -EINVAL, "a send queue of %u WQEBBs",
				   driver->sq_wqe_count);
	params->log2_sq = (uint32_t)__builtin_ctz(driver->sq_wqe_count);
	params->sq_bytes = (uint64_t)driver->sq_wqe_count * SHMD_WQEBB_BYTES;
	if (!params->cap.max_recv_wr)
		return 0;
	if (!is_power_of_two(driver->rq_wqe_count) || driver->rq_wqe_count > SIM_MAX_QP_WR)
		return call_refuse(call, -EINVAL, "a receive queue of %u WQEs",
				   driver->rq_wqe_count);
	if (driver->rq_wqe_shift < 4 || driver->rq_wqe_shift > 9)
		return call_refuse(call, -EINVAL, "receive WQEs of 1 << %u bytes",
				   driver->rq_wqe_shift);
	params->log2_rq = (uint32_t)__builtin_ctz(driver->rq_wqe_count);
	params->log2_rq_stride = driver->rq_wqe_shift;
	params->rq_bytes = (uint64_t)driver->rq_wqe_count << driver->rq_wqe_shift;
	return 0;
}

static int check_driver_part(struct call *call, const struct mlx5_ib_create_qp *driver)
{
	if (driver->flags & ~(uint32_t)FLAGS_TAKEN)
		return call_refuse(call, -EOPNOTSUPP, "driver flags 0x%x",
				   driver->flags & ~(uint32_t)FLAGS_TAKEN);
	if (!(driver->flags & MLX5_QP_FLAG_UAR_PAGE_INDEX))
		return call_refuse(call, -EINVAL, "no UAR page");
	if (driver->sq_buf_addr || driver->ece_options || driver->reserved ||
	    driver->dci_streams.log_num_concurent || driver->dci_streams.log_num_errored)
		return call_refuse(call, -EOPNOTSUPP, "input that an RC QP does not have");
	if (driver->uidx > 0xffffff)
		return call_refuse(call, -EINVAL, "user index 0x%x", driver->uidx);
	if (driver->db_addr & 7)
		return call_refuse(call, -EINVAL, "the doorbell record is not aligned");
	return 0;
}

static int read_params(struct call *call, struct qp_params *ret)
{
	uint64_t type = call_u64(call, UVERBS_ATTR_CREATE_QP_TYPE), flags;
	int r;

	memset(ret, 0, sizeof(*ret));
	r = call_in_struct(call, UVERBS_ATTR_UHW_IN, &ret->driver, sizeof(ret->driver));
	if (r == 0)
		r = call_in_struct(call, UVERBS_ATTR_CREATE_QP_CAP, &ret->cap, sizeof(ret->cap));
	if (r < 0)
		return r;
	flags = call_u64(call, UVERBS_ATTR_CREATE_QP_FLAGS);
	if (type != IB_UVERBS_QPT_RC)
		return call_refuse(call, -EOPNOTSUPP, "QP type %llu", (unsigned long long)type);
	if (flags & ~(uint64_t)IB_UVERBS_QP_CREATE_SQ_SIG_ALL)
		return call_refuse(call, -EOPNOTSUPP, "flags 0x%llx", (unsigned long long)flags);
	ret->sq_sig_all = flags != 0;
	if (ret->cap.max_send_wr > SIM_MAX_QP_WR || ret->cap.max_recv_wr > SIM_MAX_QP_WR ||
	    ret->cap.max_send_sge > SIM_MAX_SGE || ret->cap.max_recv_sge > SIM_MAX_SGE)
		return call_refuse(call, -EINVAL, "beyond the device's limits");
	if (call->nic->n_qps >= SIM_MAX_QP)
		return call_refuse(call, -ENOMEM, "more than %u QPs", SIM_MAX_QP);
	r = check_driver_part(call, &ret->driver);
	return r < 0 ? r : check_rings(call, ret);
}

static struct cq *take_cq(struct call *call, uint16_t id)
{
	struct object *object = object_get(call->ufile, OBJECT_CQ, call_u64(call, id));

	if (!object)
		return NULL;
	object->users++;
	return container_of(object, struct cq, object);
}

static int find_parts(struct call *call, struct qp *qp, const struct qp_params *params)
{
	qp->pd = pd_get(call, call_u64(call, UVERBS_ATTR_CREATE_QP_PD_HANDLE));
	if (!qp->pd)
		return call_refuse(call, -ENOENT, "no such PD");
	qp->pd->object.users++;
	qp->send_cq = take_cq(call, UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE);
	qp->recv_cq = take_cq(call, UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE);
	if (!qp->send_cq || !qp->recv_cq)
		return call_refuse(call, -ENOENT, "no such CQ");
	qp->uar = uar_get(call->ufile, params->driver.bfreg_index);
	if (!qp->uar)
		return call_refuse(call, -EINVAL, "UAR page 0x%x is not of this context",
				   params->driver.bfreg_index);
	qp->uar->object.users++;
	return 0;
}

static int enter(struct call *call, struct qp *qp, const struct qp_params *params)
{
	struct nic *nic = call->nic;
	uint8_t *ring = memory_at(qp->ring_memory, params->driver.buf_addr);
	struct engine_qp_attr attr = {
		.type = ENGINE_QP_RC,
		.pdn = qp->pd->pdn,
		.user_index = params->driver.uidx,
		.sq_ring = ring + params->rq_bytes,
		.log2_sq_wqebbs = params->log2_sq,
		.rq_ring = params->rq_bytes ? ring : NULL,
		.log2_rq_wqes = params->log2_rq,
		.log2_rq_stride = params->log2_rq_stride,
		.dbrec = memory_at(qp->dbrec_memory, params->driver.db_addr),
		.send_cqn = qp->send_cq->cqn,
		.recv_cqn = qp->recv_cq->cqn,
	};
	int r;

	sim_lock(nic->sim);
	attr.qpn = nic->next_qpn++;
	r = engine_qp_create(nic->engine, &attr);
	if (r == 0) {
		qp->qpn = attr.qpn;
		nic->n_qps++;
		list_add_tail(&qp->uar->qps, &qp->uar_link);
		r = hash_add(&nic->qps_by_number, qp->qpn, qp);
	}
	sim_unlock(nic->sim);
	return r;
}

static int make(struct call *call, struct qp *qp, const struct qp_params *params)
{
	int r;

	r = find_parts(call, qp, params);
	if (r == 0)
		r = memory_pin(call, params->driver.buf_addr, params->rq_bytes + params->sq_bytes,
			       true, &qp->ring_memory);
	if (r == 0)
		r = memory_pin(call, params->driver.db_addr, 8, true, &qp->dbrec_memory);
	if (r < 0)
		return r;
	qp->user_handle = call_u64(call, UVERBS_ATTR_CREATE_QP_USER_HANDLE);
	qp->cap = params->cap;
	qp->sq_sig_all = params->sq_sig_all;
	return enter(call, qp, params);
}

static int answer(struct call *call, const struct qp *qp)
{
	struct mlx5_ib_create_qp_resp driver = {.bfreg_index = qp->uar->page_id};
	int r;

	r = call_out(call, UVERBS_ATTR_CREATE_QP_RESP_CAP, &qp->cap, sizeof(qp->cap));
	if (r == 0)
		r = call_out(call, UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &qp->qpn, sizeof(qp->qpn));
	if (r == 0)
		r = call_out(call, UVERBS_ATTR_UHW_OUT, &driver, sizeof(driver));
	return r < 0 ? r : call_set_handle(call, UVERBS_ATTR_CREATE_QP_HANDLE, qp->object.handle);
}

int qp_create(struct call *call)
{
	struct qp_params params;
	struct qp *qp;
	int r;

	r = read_params(call, &params);
	if (r < 0)
		return r;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return -ENOMEM;
	list_init(&qp->uar_link);
	r = object_add(call->ufile, &qp->object, OBJECT_QP, qp_free);
	if (r < 0) {
		free(qp);
		return r;
	}
	r = make(call, qp, &params);
	if (r == 0)
		r = answer(call, qp);
	if (r < 0)
		object_destroy(&qp->object);
	return r;
}

static bool event_is_of(const void *event, const void *of)
{
	return ((const struct ib_uverbs_async_event_desc *)event)->element ==
	       ((const struct qp *)of)->user_handle;
}

int qp_destroy(struct call *call)
{
	struct object *object =
		object_get(call->ufile, OBJECT_QP, call_u64(call, UVERBS_ATTR_DESTROY_QP_HANDLE));
	struct ib_uverbs_destroy_qp_resp resp = {0};
	struct qp *qp;

	if (!object)
		return call_refuse(call, -ENOENT, "no such QP");
	qp = container_of(object, struct qp, object);
	sim_lock(call->nic->sim);
	hash_remove(&call->nic->qps_by_number, qp->qpn);
	resp.events_reported = qp->n_events;
	if (call->ufile->async)
		resp.events_reported -= channel_withdraw(call->ufile->async,
							 sizeof(struct ib_uverbs_async_event_desc),
							 event_is_of, qp);
	sim_unlock(call->nic->sim);
	object_destroy(object);
	return call_out(call, UVERBS_ATTR_DESTROY_QP_RESP, &resp, sizeof(resp));
}

/* ---- states ---------------------------------------------------------------------------------------------------- */

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

	sim_lock(nic->sim);
	engine_qp_query(nic->engine, qp->qpn, &info);
	sim_unlock(nic->sim);
	return verbs_state(info.state);
}

/* Where the peer is: by GID, or on InfiniBand by LID. */
static int find_peer(struct call *call, const struct ib_uverbs_qp_dest *dest, uint8_t ret_gid[16])
{
	struct sim *sim = call->ufile->sim;

	if (dest->port_num != 1)
		return call_refuse(call, -EINVAL, "port %u", dest->port_num);
	if (dest->is_global) {
		if (dest->sgid_index >= call->nic->n_gids)
			return call_refuse(call, -EINVAL, "GID index %u", dest->sgid_index);
		memcpy(ret_gid, dest->dgid, 16);
		return 0;
	}
	if (sim->ethernet)
		return call_refuse(call, -EINVAL, "RoCE needs a GID");
	for (int i = 0; i < sim->n_nics; i++) {
		if (sim->nics[i].lid == dest->dlid) {
			memcpy(ret_gid, sim->nics[i].gids[0], 16);
			return 0;
		}
	}
	return call_refuse(call, -EHOSTUNREACH, "no port has LID %u", dest->dlid);
}

#define REMEMBER(bit, field)                                                                       \
	if (cmd->attr_mask & (bit))                                                                \
	qp->last.field = cmd->field

static void remember(struct qp *qp, const struct ib_uverbs_modify_qp *cmd)
{
	REMEMBER(IBV_QP_AV, dest);
	REMEMBER(IBV_QP_RQ_PSN, rq_psn);
	REMEMBER(IBV_QP_SQ_PSN, sq_psn);
	REMEMBER(IBV_QP_DEST_QPN, dest_qp_num);
	REMEMBER(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	REMEMBER(IBV_QP_PKEY_INDEX, pkey_index);
	REMEMBER(IBV_QP_PATH_MTU, path_mtu);
	REMEMBER(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	REMEMBER(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	REMEMBER(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	REMEMBER(IBV_QP_PORT, port_num);
	REMEMBER(IBV_QP_TIMEOUT, timeout);
	REMEMBER(IBV_QP_RETRY_CNT, retry_cnt);
	REMEMBER(IBV_QP_RNR_RETRY, rnr_retry);
}

static int modify(struct call *call, struct qp *qp, const struct ib_uverbs_modify_qp *cmd,
		  uint32_t from, uint32_t to)
{
	struct engine_qp_modify mod;
	const char *reason = "";
	int r;

	if ((cmd->attr_mask & IBV_QP_CUR_STATE) && cmd->cur_qp_state != from)
		return call_refuse(call, -EINVAL, "the QP is in state %u, not %u", from,
				   cmd->cur_qp_state);
	r = qp_table_check(from, to, cmd->attr_mask, &reason);
	if (r == 0)
		r = qp_table_translate(cmd, to, &mod, &reason);
	if (r < 0)
		return call_refuse(call, r, "state %u to %u, mask 0x%x: %s", from, to,
				   cmd->attr_mask, reason);
	if (cmd->attr_mask & IBV_QP_AV) {
		r = find_peer(call, &cmd->dest, mod.dest_gid);
		if (r < 0)
			return r;
	}
	sim_lock(call->nic->sim);
	r = engine_qp_modify(call->nic->engine, qp->qpn, &mod);
	sim_unlock(call->nic->sim);
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
	uint32_t from;
	int r;

	r = call_in_struct(call, UVERBS_ATTR_CORE_IN, &cmd, sizeof(cmd));
	if (r < 0)
		return r;
	qp = find_qp(call, cmd.qp_handle);
	if (!qp)
		return call_refuse(call, -EINVAL, "no such QP");
	from = present_state(call->nic, qp);
	return modify(call, qp, &cmd, from, cmd.attr_mask & IBV_QP_STATE ? cmd.qp_state : from);
}

int write_query_qp(struct call *call)
{
	struct ib_uverbs_query_qp_resp resp = {0};
	struct ib_uverbs_query_qp cmd;
	const struct qp *qp;
	int r;

	r = call_in_struct(call, UVERBS_ATTR_CORE_IN, &cmd, sizeof(cmd));
	if (r < 0)
		return r;
	qp = find_qp(call, cmd.qp_handle);
	if (!qp)
		return call_refuse(call, -EINVAL, "no such QP");
	resp.dest = qp->last.dest;
	resp.max_send_wr = qp->cap.max_send_wr;
	resp.max_recv_wr = qp->cap.max_recv_wr;
	resp.max_send_sge = qp->cap.max_send_sge;
	resp.max_recv_sge = qp->cap.max_recv_sge;
	resp.max_inline_data = qp->cap.max_inline_data;
	resp.rq_psn = qp->last.rq_psn;
	resp.sq_psn = qp->last.sq_psn;
	resp.dest_qp_num = qp->last.dest_qp_num;
	resp.qp_access_flags = qp->last.qp_access_flags;
	resp.pkey_index = qp->last.pkey_index;
	resp.qp_state = (uint8_t)present_state(call->nic, qp);
	resp.cur_qp_state = resp.qp_state;
	resp.path_mtu = qp->last.path_mtu;
	resp.max_rd_atomic = qp->last.max_rd_atomic;
	resp.max_dest_rd_atomic = qp->last.max_dest_rd_atomic;
	resp.min_rnr_timer = qp->last.min_rnr_timer;
	resp.port_num = qp->last.port_num;
	resp.timeout = qp->last.timeout;
	resp.retry_cnt = qp->last.retry_cnt;
	resp.rnr_retry = qp->last.rnr_retry;
	resp.sq_sig_all = qp->sq_sig_all;
	return call_out(call, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
}
