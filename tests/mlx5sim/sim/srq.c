/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared receive queues of the basic kind and of XRC, made over the client's buffers. Tag matching is refused. The number
 * of WQEs and the stride follow from what was asked for, in the way that library and kernel have agreed on.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include "tests/mlx5sim/sim/fw.h"
#include "tests/mlx5sim/sim/srq.h"
#include "tests/mlx5sim/sim/xrc.h"

#define MIN_STRIDE_LOG2 5
#define SEG_BYTES 16u

struct srq_params {
	struct mlx5_ib_create_srq driver;
	uint32_t log2_wqes, log2_stride;
	bool is_xrc;
};

void srq_engine_event(struct nic *nic, const struct engine_event *ev)
{
	struct srq *srq = hash_get(&nic->srqs_by_number, ev->number);
	struct ib_uverbs_async_event_desc event = {0};

	if (!srq)
		return;
	event_send(&srq->object, ev->kind == ENGINE_EVENT_SRQ_LIMIT ? FW_EVENT_SRQ_LIMIT : FW_EVENT_SRQ_CATASTROPHIC);
	if (srq->object.type != OBJECT_SRQ || !srq->object.ufile->async)
		return;
	event.element = srq->user_handle;
	event.event_type = ev->kind == ENGINE_EVENT_SRQ_LIMIT ? IBV_EVENT_SRQ_LIMIT_REACHED
							      : IBV_EVENT_SRQ_ERR;
	if (channel_send(srq->object.ufile->async, &event, sizeof(event)))
		srq->n_events++;
}

static void srq_free(struct object *object)
{
	struct srq *srq = container_of(object, struct srq, object);
	struct nic *nic = object->ufile->nic;

	sim_lock(nic->sim);
	if (srq->srqn) {
		engine_srq_destroy(nic->engine, srq->srqn);
		hash_remove(&nic->srqs_by_number, srq->srqn);
		nic->n_srqs--;
	}
	sim_unlock(nic->sim);
	if (srq->pd)
		srq->pd->object.users--;
	if (srq->xrcd)
		srq->xrcd->object.users--;
	if (srq->cq)
		srq->cq->object.users--;
	memory_unref(srq->ring_memory);
	memory_unref(srq->dbrec_memory);
	umem_put(srq->ring_umem);
	umem_put(srq->dbrec_umem);
	free(srq);
}

static uint32_t log2_ceil(uint64_t n)
{
	return n <= 1 ? 0 : (uint32_t)(64 - __builtin_clzll(n - 1));
}

static int read_params(struct call *call, struct srq_params *ret)
{
	uint64_t type = call_u64(call, UVERBS_ATTR_CREATE_SRQ_TYPE);
	uint64_t max_wr = call_u64(call, UVERBS_ATTR_CREATE_SRQ_MAX_WR);
	uint64_t max_sge = call_u64(call, UVERBS_ATTR_CREATE_SRQ_MAX_SGE);
	const struct mlx5_ib_create_srq *driver = &ret->driver;
	int r;

	r = call_in_struct(call, UVERBS_ATTR_UHW_IN, &ret->driver, sizeof(ret->driver));
	if (r < 0)
		return r;
	if (type != IB_UVERBS_SRQT_BASIC && type != IB_UVERBS_SRQT_XRC)
		return call_refuse(call, -EOPNOTSUPP, "tag matching is not simulated");
	ret->is_xrc = type == IB_UVERBS_SRQT_XRC;
	if (call_has(call, UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE) != ret->is_xrc ||
	    call_has(call, UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE) != ret->is_xrc)
		return call_refuse(call, -EINVAL, "an SRQ of XRC, and no other, has a domain and a CQ");
	if (max_wr > SIM_MAX_SRQ_WR || max_sge > SIM_MAX_SRQ_SGE)
		return call_refuse(call, -EINVAL, "%llu WQEs of %llu segments",
				   (unsigned long long)max_wr, (unsigned long long)max_sge);
	if (driver->flags || driver->reserved0 || (driver->uidx && !ret->is_xrc) || driver->reserved1)
		return call_refuse(call, -EOPNOTSUPP, "driver flags 0x%x or reserved bits",
				   driver->flags);
	if (driver->uidx > 0xffffff)
		return call_refuse(call, -EINVAL, "user index 0x%x", driver->uidx);
	if (driver->db_addr & 3)
		return call_refuse(call, -EINVAL, "the doorbell record is not aligned");
	if (nic_count(call->nic, &call->nic->n_srqs) >= SIM_MAX_SRQ)
		return call_refuse(call, -ENOMEM, "more than %u SRQs", SIM_MAX_SRQ);
	ret->log2_wqes = log2_ceil(max_wr + 1);
	ret->log2_stride = log2_ceil(SEG_BYTES + max_sge * SEG_BYTES);
	if (ret->log2_stride < MIN_STRIDE_LOG2)
		ret->log2_stride = MIN_STRIDE_LOG2;
	return 0;
}

int srq_enter(struct srq *srq, struct engine_srq_attr *attr)
{
	struct nic *nic = srq->object.ufile->nic;
	int r;

	attr->pdn = srq->pd->pdn;
	attr->log2_wqes = srq->log2_wqes;
	attr->log2_stride = srq->log2_stride;
	sim_lock(nic->sim);
	attr->srqn = nic->next_srqn++;
	r = engine_srq_create(nic->engine, attr);
	if (r == 0) {
		srq->srqn = attr->srqn;
		nic->n_srqs++;
		r = hash_add(&nic->srqs_by_number, srq->srqn, srq);
	}
	sim_unlock(nic->sim);
	return r < 0 ? r : object_name(&srq->object, PRM_OP_CREATE_RMP, srq->srqn);
}

static int find_xrc(struct call *call, struct srq *srq)
{
	struct xrcd *xrcd = xrcd_get(call, call_u64(call, UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE));
	struct object *cq = object_get(call->ufile, OBJECT_CQ, call_u64(call, UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE));

	if (!xrcd || !cq)
		return call_refuse(call, -ENOENT, "no such XRC domain or CQ");
	srq->xrcd = xrcd;
	xrcd->object.users++;
	srq->cq = container_of(cq, struct cq, object);
	cq->users++;
	return 0;
}

static int find_parts(struct call *call, struct srq *srq, const struct srq_params *params)
{
	srq->pd = pd_get(call, call_u64(call, UVERBS_ATTR_CREATE_SRQ_PD_HANDLE));
	if (!srq->pd)
		return call_refuse(call, -ENOENT, "no such PD");
	srq->pd->object.users++;
	return params->is_xrc ? find_xrc(call, srq) : 0;
}

static int make(struct call *call, struct srq *srq, const struct srq_params *params)
{
	struct engine_srq_attr attr = {.is_xrc = params->is_xrc, .user_index = params->driver.uidx};
	int r;

	r = find_parts(call, srq, params);
	if (r < 0)
		return r;
	if (params->is_xrc) {
		attr.xrcdn = xrcd_number(srq->xrcd);
		attr.cqn = srq->cq->cqn;
	}
	r = memory_pin(call, params->driver.buf_addr,
		       1ull << (params->log2_wqes + params->log2_stride), true, &srq->ring_memory);
	if (r == 0)
		r = memory_pin(call, params->driver.db_addr, 4, true, &srq->dbrec_memory);
	if (r < 0)
		return r;
	srq->user_handle = call_u64(call, UVERBS_ATTR_CREATE_SRQ_USER_HANDLE);
	srq->log2_wqes = params->log2_wqes;
	srq->log2_stride = params->log2_stride;
	attr.ring = memory_at(srq->ring_memory, params->driver.buf_addr);
	attr.dbrec = memory_at(srq->dbrec_memory, params->driver.db_addr);
	memset(attr.dbrec, 0, sizeof(uint32_t)); /* as of a QP */
	return srq_enter(srq, &attr);
}

static uint32_t max_wr(const struct srq *srq)
{
	return (1u << srq->log2_wqes) - 1;
}

static uint32_t max_sge(const struct srq *srq)
{
	return (1u << srq->log2_stride) / SEG_BYTES - 1;
}

static int answer(struct call *call, const struct srq *srq)
{
	struct mlx5_ib_create_srq_resp driver = {.srqn = srq->srqn};
	uint32_t wr = max_wr(srq), sge = max_sge(srq);
	int r;

	r = call_out(call, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, &wr, sizeof(wr));
	if (r == 0)
		r = call_out(call, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, &sge, sizeof(sge));
	if (r == 0)
		r = call_out(call, UVERBS_ATTR_UHW_OUT, &driver, sizeof(driver));
	if (r == 0)
		r = call_out(call, UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, &srq->srqn, sizeof(srq->srqn));
	return r < 0 ? r : call_set_handle(call, UVERBS_ATTR_CREATE_SRQ_HANDLE, srq->object.handle);
}

int srq_new(struct call *call, enum object_type type, struct srq **ret_srq)
{
	struct srq *srq = calloc(1, sizeof(*srq));
	int r;

	if (!srq)
		return -ENOMEM;
	r = object_add(call->ufile, &srq->object, type, srq_free);
	if (r < 0) {
		free(srq);
		return r;
	}
	*ret_srq = srq;
	return 0;
}

int srq_create(struct call *call)
{
	struct srq_params params;
	struct srq *srq = NULL;
	int r;

	r = read_params(call, &params);
	if (r == 0)
		r = srq_new(call, OBJECT_SRQ, &srq);
	if (r < 0)
		return r;
	r = make(call, srq, &params);
	if (r == 0)
		r = answer(call, srq);
	if (r < 0)
		object_destroy(&srq->object);
	return r;
}

struct srq *srq_get(struct call *call, uint64_t handle)
{
	struct object *object = object_get(call->ufile, OBJECT_SRQ, handle);

	return object ? container_of(object, struct srq, object) : NULL;
}

static bool event_is_of(const void *event, const void *of)
{
	return ((const struct ib_uverbs_async_event_desc *)event)->element ==
	       ((const struct srq *)of)->user_handle;
}

int srq_destroy(struct call *call)
{
	struct srq *srq = srq_get(call, call_u64(call, UVERBS_ATTR_DESTROY_SRQ_HANDLE));
	struct ib_uverbs_destroy_srq_resp resp = {0};

	if (!srq)
		return call_refuse(call, -ENOENT, "no such SRQ");
	if (srq->object.users)
		return call_refuse(call, -EBUSY, "%u QPs use it", srq->object.users);
	sim_lock(call->nic->sim);
	resp.events_reported = srq->n_events;
	if (call->ufile->async)
		resp.events_reported -= channel_withdraw(call->ufile->async,
							 sizeof(struct ib_uverbs_async_event_desc),
							 event_is_of, srq);
	sim_unlock(call->nic->sim);
	object_destroy(&srq->object);
	return call_out(call, UVERBS_ATTR_DESTROY_SRQ_RESP, &resp, sizeof(resp));
}

int write_modify_srq(struct call *call)
{
	struct ib_uverbs_modify_srq cmd;
	struct srq *srq;
	int r;

	r = call_in_struct(call, UVERBS_ATTR_CORE_IN, &cmd, sizeof(cmd));
	if (r < 0)
		return r;
	srq = srq_get(call, cmd.srq_handle);
	if (!srq)
		return call_refuse(call, -EINVAL, "no such SRQ");
	if (cmd.attr_mask & ~(uint32_t)IBV_SRQ_LIMIT)
		return call_refuse(call, -EINVAL, "mask 0x%x: an SRQ is not resized",
				   cmd.attr_mask);
	if (!(cmd.attr_mask & IBV_SRQ_LIMIT))
		return 0;
	if (cmd.srq_limit > max_wr(srq))
		return call_refuse(call, -EINVAL, "limit %u", cmd.srq_limit);
	sim_lock(call->nic->sim);
	r = engine_srq_arm(call->nic->engine, srq->srqn, cmd.srq_limit);
	sim_unlock(call->nic->sim);
	return r;
}

int write_query_srq(struct call *call)
{
	struct ib_uverbs_query_srq_resp resp = {0};
	struct engine_srq_info info = {0};
	struct ib_uverbs_query_srq cmd;
	const struct srq *srq;
	int r;

	r = call_in_struct(call, UVERBS_ATTR_CORE_IN, &cmd, sizeof(cmd));
	if (r < 0)
		return r;
	srq = srq_get(call, cmd.srq_handle);
	if (!srq)
		return call_refuse(call, -EINVAL, "no such SRQ");
	sim_lock(call->nic->sim);
	engine_srq_query(call->nic->engine, srq->srqn, &info);
	sim_unlock(call->nic->sim);
	resp.max_wr = max_wr(srq);
	resp.max_sge = max_sge(srq);
	resp.srq_limit = info.limit;
	return call_out(call, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
}
