/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs: made over the client's buffers, executed by the engine. RC, UC, UD, DCI, DCT, XRC (xrc.c) and raw
 * packets; RSS is refused. A DCT has no rings, and its number is given at RTR (qp-modify.c).
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5-abi.h>

#include "tests/mlx5sim/sim/fw.h"
#include "tests/mlx5sim/sim/qp.h"
#include "tests/mlx5sim/sim/xrc.h"

/* Flags that a current kernel knows and this device may ignore: scatter to CQE is a permission, not a promise. */
#define FLAGS_TAKEN                                                                                \
	(MLX5_QP_FLAG_SCATTER_CQE | MLX5_QP_FLAG_ALLOW_SCATTER_CQE | MLX5_QP_FLAG_UAR_PAGE_INDEX | \
	 MLX5_QP_FLAG_TYPE_DCI | MLX5_QP_FLAG_TYPE_DCT | MLX5_QP_FLAG_DCI_STREAM)

struct qp_params {
	struct mlx5_ib_create_qp driver;
	struct ib_uverbs_qp_cap cap;
	enum engine_qp_type type;
	uint32_t log2_sq, log2_rq, log2_rq_stride;
	uint64_t rq_bytes, sq_bytes;
	bool sq_sig_all;
};

/* A QP that sends nothing: its record shows zeros. */
static uint8_t empty_ring[SHMD_WQEBB_BYTES];

void qp_doorbell(struct nic *nic, const struct uar *uar)
{
	struct qp *qp;

	list_for_each_entry (qp, &uar->qps, uar_link)
		engine_doorbell(nic->engine, qp->qpn);
}

/* ---- create ---------------------------------------------------------------------------------------------------- */

static void qp_free(struct object *object)
{
	struct qp *qp = container_of(object, struct qp, object);
	struct nic *nic = object->ufile->nic;

	sim_lock(nic->sim);
	if (qp->tgt) {
		xrc_tgt_put(qp);
	} else if (qp->qpn && qp->type != ENGINE_QP_XRC_TGT) {
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
	if (qp->srq)
		qp->srq->object.users--;
	if (qp->xrcd)
		qp->xrcd->object.users--;
	if (qp->uar)
		qp->uar->object.users--;
	memory_unref(qp->ring_memory);
	memory_unref(qp->send_memory);
	memory_unref(qp->dbrec_memory);
	free(qp);
}

static bool is_power_of_two(uint32_t n)
{
	return n && !(n & (n - 1));
}

static int check_send_ring(struct call *call, struct qp_params *params)
{
	const struct mlx5_ib_create_qp *driver = &params->driver;

	if (!driver->sq_wqe_count && !params->cap.max_send_wr)
		return 0;
	if (!is_power_of_two(driver->sq_wqe_count) || driver->sq_wqe_count > SIM_MAX_QP_WR)
		return call_refuse(call, -EINVAL, "a send queue of %u WQEBBs",
				   driver->sq_wqe_count);
	params->log2_sq = (uint32_t)__builtin_ctz(driver->sq_wqe_count);
	params->sq_bytes = (uint64_t)driver->sq_wqe_count * SHMD_WQEBB_BYTES;
	return 0;
}

static int check_recv_ring(struct call *call, struct qp_params *params)
{
	const struct mlx5_ib_create_qp *driver = &params->driver;

	if (call_has(call, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE)) {
		params->cap.max_recv_wr = params->cap.max_recv_sge = 0;
		return 0;
	}
	if (!params->cap.max_recv_wr)
		return 0;
	if (params->type == ENGINE_QP_DCI || params->type == ENGINE_QP_XRC_INI)
		return call_refuse(call, -EINVAL, "a DCI or XRC_INI receives nothing");
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

static bool streams_are_valid(const struct qp_params *params)
{
	const struct mlx5_ib_create_qp_dci_streams *streams = &params->driver.dci_streams;

	if (!(params->driver.flags & MLX5_QP_FLAG_DCI_STREAM))
		return !streams->log_num_concurent && !streams->log_num_errored;
	return params->type == ENGINE_QP_DCI && streams->log_num_concurent <= SIM_MAX_LOG2_STREAMS &&
	       streams->log_num_errored <= SIM_MAX_LOG2_STREAMS;
}

static int check_driver_part(struct call *call, const struct qp_params *params)
{
	const struct mlx5_ib_create_qp *driver = &params->driver;
	bool is_dct = params->type == ENGINE_QP_DCT;
	bool has_uar = !is_dct && params->type != ENGINE_QP_XRC_TGT;

	if (driver->flags & ~(uint32_t)FLAGS_TAKEN)
		return call_refuse(call, -EOPNOTSUPP, "driver flags 0x%x",
				   driver->flags & ~(uint32_t)FLAGS_TAKEN);
	if (has_uar && !(driver->flags & MLX5_QP_FLAG_UAR_PAGE_INDEX))
		return call_refuse(call, -EINVAL, "no UAR page");
	/* For a raw packet QP the same word is sq_buf_addr. */
	if ((!is_dct && params->type != ENGINE_QP_RAW && driver->access_key) || driver->ece_options || driver->reserved)
		return call_refuse(call, -EOPNOTSUPP, "input that this QP does not have");
	if (!streams_are_valid(params))
		return call_refuse(call, -EINVAL, "streams 2^%u, in error 2^%u",
				   driver->dci_streams.log_num_concurent, driver->dci_streams.log_num_errored);
	if (driver->uidx > 0xffffff)
		return call_refuse(call, -EINVAL, "user index 0x%x", driver->uidx);
	if (driver->db_addr & 7)
		return call_refuse(call, -EINVAL, "the doorbell record is not aligned");
	return 0;
}

static int read_type(struct call *call, struct qp_params *params)
{
	uint64_t type = call_u64(call, UVERBS_ATTR_CREATE_QP_TYPE);
	uint32_t dc = params->driver.flags & (MLX5_QP_FLAG_TYPE_DCI | MLX5_QP_FLAG_TYPE_DCT);
	bool is_driver = type == IB_UVERBS_QPT_DRIVER;

	if (is_driver != (dc == MLX5_QP_FLAG_TYPE_DCI || dc == MLX5_QP_FLAG_TYPE_DCT) ||
	    (!is_driver && dc))
		return call_refuse(call, -EINVAL, "QP type %llu, driver flags 0x%x",
				   (unsigned long long)type, dc);
	if (is_driver)
		params->type = dc == MLX5_QP_FLAG_TYPE_DCI ? ENGINE_QP_DCI : ENGINE_QP_DCT;
	else if (type == IB_UVERBS_QPT_RC)
		params->type = ENGINE_QP_RC;
	else if (type == IB_UVERBS_QPT_UC)
		params->type = ENGINE_QP_UC;
	else if (type == IB_UVERBS_QPT_UD)
		params->type = ENGINE_QP_UD;
	else if (type == IB_UVERBS_QPT_RAW_PACKET && call->ufile->sim->ethernet)
		params->type = ENGINE_QP_RAW;
	else if (type == IB_UVERBS_QPT_XRC_INI)
		params->type = ENGINE_QP_XRC_INI;
	else if (type == IB_UVERBS_QPT_XRC_TGT)
		params->type = ENGINE_QP_XRC_TGT;
	else
		return call_refuse(call, -EOPNOTSUPP, "QP type %llu", (unsigned long long)type);
	return 0;
}

static int check_limits(struct call *call, const struct qp_params *params)
{
	const struct ib_uverbs_qp_cap *cap = &params->cap;

	if (cap->max_send_wr > SIM_MAX_QP_WR || cap->max_recv_wr > SIM_MAX_QP_WR ||
	    cap->max_send_sge > SIM_MAX_SGE || cap->max_recv_sge > SIM_MAX_SGE)
		return call_refuse(call, -EINVAL, "beyond the device's limits");
	if (nic_count(call->nic, &call->nic->n_qps) >= SIM_MAX_QP)
		return call_refuse(call, -ENOMEM, "more than %u QPs", SIM_MAX_QP);
	return 0;
}

static int read_params(struct call *call, struct qp_params *ret)
{
	uint64_t flags = call_u64(call, UVERBS_ATTR_CREATE_QP_FLAGS);
	int r;

	memset(ret, 0, sizeof(*ret));
	r = call_in_struct(call, UVERBS_ATTR_UHW_IN, &ret->driver, sizeof(ret->driver));
	if (r == 0)
		r = call_in_struct(call, UVERBS_ATTR_CREATE_QP_CAP, &ret->cap, sizeof(ret->cap));
	if (r == 0)
		r = read_type(call, ret);
	if (r < 0)
		return r;
	/* Multicast does not come back, as there is none. */
	if (flags &
	    ~(uint64_t)(IB_UVERBS_QP_CREATE_SQ_SIG_ALL |
			(ret->type == ENGINE_QP_UD || ret->type == ENGINE_QP_RAW ? IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK
						   : 0)))
		return call_refuse(call, -EOPNOTSUPP, "flags 0x%llx", (unsigned long long)flags);
	ret->sq_sig_all = flags & IB_UVERBS_QP_CREATE_SQ_SIG_ALL;
	r = check_limits(call, ret);
	if (r == 0)
		r = check_driver_part(call, ret);
	if (r < 0 || ret->type == ENGINE_QP_DCT)
		return r;
	if (ret->type == ENGINE_QP_XRC_TGT)
		return ret->cap.max_send_wr || ret->cap.max_recv_wr
			       ? call_refuse(call, -EINVAL, "an XRC_TGT has no rings")
			       : 0;
	r = check_send_ring(call, ret);
	return r < 0 ? r : check_recv_ring(call, ret);
}

static struct cq *take_cq(struct call *call, uint16_t id)
{
	struct object *object = NULL;

	if (call_has(call, id))
		object = object_get(call->ufile, OBJECT_CQ, call_u64(call, id));
	if (!object)
		return NULL;
	object->users++;
	return container_of(object, struct cq, object);
}

static bool has_any(const struct call *call, const uint16_t *ids, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (call_has(call, ids[i]))
			return true;
	}
	return false;
}

/* Attributes that a type does not use are refused. */
static int check_parts(struct call *call, const struct qp_params *params)
{
	static const uint16_t of_no_tgt[] = {UVERBS_ATTR_CREATE_QP_PD_HANDLE, UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE,
					     UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE};
	static const uint16_t of_no_ini[] = {UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE};
	bool is_tgt = params->type == ENGINE_QP_XRC_TGT;

	if (is_tgt != call_has(call, UVERBS_ATTR_CREATE_QP_XRCD_HANDLE) ||
	    (is_tgt && has_any(call, of_no_tgt, sizeof(of_no_tgt) / sizeof(of_no_tgt[0]))))
		return call_refuse(call, -EINVAL, "an XRC domain is for an XRC_TGT, which has nothing else");
	if (params->type == ENGINE_QP_XRC_INI && has_any(call, of_no_ini, sizeof(of_no_ini) / sizeof(of_no_ini[0])))
		return call_refuse(call, -EINVAL, "an XRC_INI receives nothing");
	if (!is_tgt && !call_has(call, UVERBS_ATTR_CREATE_QP_PD_HANDLE))
		return call_refuse(call, -EINVAL, "no PD");
	return 0;
}

static int find_srq(struct call *call, struct qp *qp)
{
	if (!call_has(call, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE))
		return 0;
	qp->srq = srq_get(call, call_u64(call, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE));
	if (!qp->srq)
		return call_refuse(call, -ENOENT, "no such SRQ");
	qp->srq->object.users++;
	return qp->srq->xrcd ? call_refuse(call, -EINVAL, "an SRQ of XRC") : 0;
}

static int find_xrcd(struct call *call, struct qp *qp)
{
	qp->xrcd = xrcd_get(call, call_u64(call, UVERBS_ATTR_CREATE_QP_XRCD_HANDLE));
	if (!qp->xrcd)
		return call_refuse(call, -ENOENT, "no such XRC domain");
	qp->xrcd->object.users++;
	return 0;
}

static int find_parts(struct call *call, struct qp *qp, const struct qp_params *params)
{
	int r = check_parts(call, params);

	if (r < 0 || params->type == ENGINE_QP_XRC_TGT)
		return r < 0 ? r : find_xrcd(call, qp);
	qp->pd = pd_get(call, call_u64(call, UVERBS_ATTR_CREATE_QP_PD_HANDLE));
	if (!qp->pd)
		return call_refuse(call, -ENOENT, "no such PD");
	qp->pd->object.users++;
	qp->send_cq = take_cq(call, UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE);
	qp->recv_cq = take_cq(call, UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE);
	if (!qp->send_cq || (!qp->recv_cq && params->type != ENGINE_QP_XRC_INI))
		return call_refuse(call, -ENOENT, "no such CQ");
	r = find_srq(call, qp);
	if (r < 0)
		return r;
	if (params->type == ENGINE_QP_DCT)
		return qp->srq ? 0 : call_refuse(call, -EINVAL, "a DCT needs an SRQ");
	qp->uar = uar_get(call->ufile, params->driver.bfreg_index);
	if (!qp->uar)
		return call_refuse(call, -EINVAL, "UAR page 0x%x is not of this context",
				   params->driver.bfreg_index);
	qp->uar->object.users++;
	return 0;
}

int qp_enter(struct qp *qp, struct engine_qp_attr *attr)
{
	struct nic *nic = qp->object.ufile->nic;
	int r;

	attr->type = qp->type;
	attr->pdn = qp->pd->pdn;
	attr->user_index = qp->user_index;
	attr->send_cqn = qp->send_cq->cqn;
	attr->recv_cqn = qp->recv_cq ? qp->recv_cq->cqn : 0;
	/* A DCI may be given one and takes nothing of it. */
	attr->has_srq = qp->srq && qp->type != ENGINE_QP_DCI;
	attr->srqn = attr->has_srq ? qp->srq->srqn : 0;
	sim_lock(nic->sim);
	attr->qpn = nic->next_qpn++;
	r = engine_qp_create(nic->engine, attr);
	if (r == 0) {
		qp->qpn = attr->qpn;
		nic->n_qps++;
		if (qp->uar)
			list_add_tail(&qp->uar->qps, &qp->uar_link);
		r = hash_add(&nic->qps_by_number, qp->qpn, qp);
	}
	sim_unlock(nic->sim);
	if (r < 0)
		return r;
	return object_name(&qp->object, qp->type == ENGINE_QP_DCT ? PRM_OP_CREATE_DCT : PRM_OP_CREATE_QP,
			   qp->qpn);
}

static int pin_rings(struct call *call, struct qp *qp, const struct qp_params *params)
{
	bool apart = params->type == ENGINE_QP_RAW;
	uint64_t bytes = params->rq_bytes + (apart ? 0 : params->sq_bytes);
	int r = 0;

	if (bytes)
		r = memory_pin(call, params->driver.buf_addr, bytes, true, &qp->ring_memory);
	if (r == 0 && apart && params->sq_bytes)
		r = memory_pin(call, params->driver.sq_buf_addr, params->sq_bytes, true, &qp->send_memory);
	return r < 0 ? r : memory_pin(call, params->driver.db_addr, 8, true, &qp->dbrec_memory);
}

static int enter(struct call *call, struct qp *qp, const struct qp_params *params)
{
	struct engine_qp_attr attr = {
		.log2_sq_wqebbs = params->log2_sq,
		.log2_rq_wqes = params->log2_rq,
		.log2_rq_stride = params->log2_rq_stride,
		.ud_mtu_bytes = call->ufile->sim->ethernet ? 1024 : 4096,
		.has_streams = !!(params->driver.flags & MLX5_QP_FLAG_DCI_STREAM),
		.log2_errored_streams = params->driver.dci_streams.log_num_errored,
	};
	uint8_t *ring;
	int r;

	r = pin_rings(call, qp, params);
	if (r < 0)
		return r;
	ring = qp->ring_memory ? memory_at(qp->ring_memory, params->driver.buf_addr) : NULL;
	if (qp->send_memory)
		attr.sq_ring = memory_at(qp->send_memory, params->driver.sq_buf_addr);
	else
		attr.sq_ring = params->sq_bytes ? ring + params->rq_bytes : empty_ring;
	attr.rq_ring = params->rq_bytes ? ring : NULL;
	attr.dbrec = memory_at(qp->dbrec_memory, params->driver.db_addr);
	/* A device looks at it when a doorbell comes, the engine in RTS as well: what an allocator left there is gone. */
	memset(attr.dbrec, 0, sizeof(struct shmd_dbrec));
	return qp_enter(qp, &attr);
}

static int make(struct call *call, struct qp *qp, const struct qp_params *params)
{
	int r;

	r = find_parts(call, qp, params);
	if (r < 0)
		return r;
	qp->type = params->type;
	qp->user_handle = call_u64(call, UVERBS_ATTR_CREATE_QP_USER_HANDLE);
	qp->user_index = params->driver.uidx;
	qp->cap = params->cap;
	if (params->rq_bytes)
		qp->cap.max_recv_wr = params->driver.rq_wqe_count;
	qp->sq_sig_all = params->sq_sig_all;
	if (params->type == ENGINE_QP_XRC_TGT)
		return xrc_tgt_new(qp);
	if (params->type != ENGINE_QP_DCT)
		return enter(call, qp, params);
	qp->dc_key = params->driver.access_key;
	qp->dct_state = IBV_QPS_RESET;
	return 0;
}

static int answer(struct call *call, const struct qp *qp)
{
	struct mlx5_ib_create_qp_resp driver = {.bfreg_index = qp->uar ? qp->uar->page_id : 0};
	int r;

	r = call_out(call, UVERBS_ATTR_CREATE_QP_RESP_CAP, &qp->cap, sizeof(qp->cap));
	if (r == 0)
		r = call_out(call, UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &qp->qpn, sizeof(qp->qpn));
	if (r == 0)
		r = call_out(call, UVERBS_ATTR_UHW_OUT, &driver, sizeof(driver));
	return r < 0 ? r : call_set_handle(call, UVERBS_ATTR_CREATE_QP_HANDLE, qp->object.handle);
}

int qp_object_new(struct call *call, struct qp **ret_qp)
{
	struct qp *qp = calloc(1, sizeof(*qp));
	int r;

	if (!qp)
		return -ENOMEM;
	list_init(&qp->uar_link);
	list_init(&qp->tgt_link);
	r = object_add(call->ufile, &qp->object, OBJECT_QP, qp_free);
	if (r < 0) {
		free(qp);
		return r;
	}
	*ret_qp = qp;
	return 0;
}

int qp_create(struct call *call)
{
	struct qp_params params;
	struct qp *qp = NULL;
	int r;

	r = read_params(call, &params);
	if (r == 0)
		r = qp_object_new(call, &qp);
	if (r < 0)
		return r;
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
	if (qp->qpn && !qp->tgt)
		hash_remove(&call->nic->qps_by_number, qp->qpn);
	list_del(&qp->tgt_link); /* no events from now on */
	resp.events_reported = qp->n_events;
	if (call->ufile->async)
		resp.events_reported -= channel_withdraw(call->ufile->async,
							 sizeof(struct ib_uverbs_async_event_desc),
							 event_is_of, qp);
	sim_unlock(call->nic->sim);
	object_destroy(object);
	return call_out(call, UVERBS_ATTR_DESTROY_QP_RESP, &resp, sizeof(resp));
}
