/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues: how much memory a batch needs, create it, destroy it.
 *
 * Counts are bounded before anything is computed from them. Queue memory is the client's, checked like any memory
 * it registers, or a memfd made and sealed here. Control thread, but run_create() and run_destroy().
 */
#include "daemon/session/dispatch.h"
#include "daemon/porter/held.h"
#include "daemon/session/monitor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/assert.h"
#include "proto/base/cleanup.h"

#define QUEUE_MEM_ALIGN 4096u
/* The NIC fills CQ rings when it creates them: 1 MiB takes two thirds of a millisecond. */
#define LONG_CQ_BYTES (1ull << 20)
#define CQE_BYTES 64ull

/* Number of CQs and QPs, in 64 bits so that no sum of 32-bit counts overflows. */
static int check_counts(struct request *req, const struct msg_queue_specs *specs)
{
	uint64_t n_cqs = 0, n_qps = 0;

	for (unsigned int i = 0; i < specs->n_cqs; i++)
		n_cqs += specs->cqs[i].count;
	for (unsigned int i = 0; i < specs->n_qps; i++)
		n_qps += specs->qps[i].count;
	if (n_cqs > MSG_MAX_CQS || n_qps > MSG_MAX_QPS)
		return request_fail(req, SHMD_STATUS_LIMIT_REQUEST,
				    "%" PRIu64 " CQs and %" PRIu64 " QPs in one request; at most %d and %d",
				    n_cqs, n_qps, MSG_MAX_CQS, MSG_MAX_QPS);
	if (n_cqs + n_qps == 0)
		return request_fail(req, SHMD_STATUS_INVALID, "the request names no queue");
	return 0;
}

static void fill_specs(struct nic_queues_attr *attr, const struct msg_queue_specs *specs, uint32_t access)
{
	memset(attr, 0, sizeof(*attr));
	attr->n_cq_specs = specs->n_cqs;
	attr->n_qp_specs = specs->n_qps;
	for (unsigned int i = 0; i < specs->n_cqs; i++)
		attr->cqs[i] = (struct nic_cq_spec){
			.count = specs->cqs[i].count,
			.log2_entries = specs->cqs[i].log2_entries,
			.flags = specs->cqs[i].flags,
		};
	for (unsigned int i = 0; i < specs->n_qps; i++) {
		const struct msg_qp_spec *from = &specs->qps[i];

		attr->qps[i] = (struct nic_qp_spec){
			.count = from->count,
			.type = (enum nic_qp_type)from->type,
			.log2_sq_wqebbs = from->log2_sq_wqebbs,
			.n_rq_wqes = from->n_rq_wqes,
			.log2_rq_stride = from->log2_rq_stride,
			.send_cq_first = from->send_cq_first,
			.send_cq_step = from->send_cq_step,
			.send_cqn = from->send_cqn,
			.recv_cq_first = from->recv_cq_first,
			.recv_cq_step = from->recv_cq_step,
			.recv_cqn = from->recv_cqn,
			.flags = from->flags,
			.access = from->access & access,
		};
	}
}

_Static_assert(MSG_MAX_SPECS == NIC_MAX_SPECS, "a request fits into nic_queues_attr");

static int make_layout(struct request *req, const struct msg_queue_specs *specs,
		       struct nic_layout *ret_layout)
{
	uint32_t withheld = req->session->registry->attr.no_atomics ? NIC_ACCESS_REMOTE_ATOMIC : 0;
	struct nic_queues_attr attr;
	int r;

	r = check_counts(req, specs);
	if (r != 0)
		return r;
	fill_specs(&attr, specs, ~withheld);
	r = nic_layout_init(ret_layout, &attr);
	if (r == -EINVAL || r == -EOVERFLOW)
		return request_fail(req, SHMD_STATUS_INVALID,
				    "a CQ or QP of the request is outside its range; "
				    "the description of QueueCreateReq has the ranges");
	return r;
}

int handle_queue_layout(struct request *req)
{
	struct nic_layout layout;
	int r;

	r = make_layout(req, &req->msg->queue_layout_req, &layout);
	if (r != 0)
		return r;
	req->rep->kind = MSG_QUEUE_LAYOUT_REP;
	req->rep->queue_layout_rep.total_bytes = layout.total_bytes;
	nic_layout_deinit(&layout);
	return 0;
}

/* Rules that this NIC and this session add to those of the layout. */
static int check_specs(struct request *req, struct session_nic *nic)
{
	const struct msg_queue_specs *specs = &req->msg->queue_create_req.specs;
	const struct nic_info *info = &nic->rnic->info;

	for (unsigned int i = 0; i < specs->n_cqs; i++)
		if (specs->cqs[i].log2_entries > info->max_log2_cq_entries)
			return request_fail(req, SHMD_STATUS_INVALID,
					    "%s has CQs of at most 2^%u entries", info->name,
					    info->max_log2_cq_entries);
	for (unsigned int i = 0; i < specs->n_qps; i++) {
		const struct msg_qp_spec *qp = &specs->qps[i];
		uint32_t cqns[] = {qp->send_cqn, qp->recv_cqn};

		if (qp->log2_sq_wqebbs > info->max_log2_sq_wqebbs)
			return request_fail(req, SHMD_STATUS_INVALID,
					    "%s has send queues of at most 2^%u WQEBBs", info->name,
					    info->max_log2_sq_wqebbs);
		for (int k = 0; k < 2; k++)
			if (cqns[k] && !session_nic_has_cqn(nic, cqns[k]))
				return request_fail(req, SHMD_STATUS_NOT_FOUND,
						    "this session has no CQ 0x%x on %s", cqns[k],
						    info->name);
	}
	return 0;
}

static int find_mem(struct request *req, const struct session_nic *nic,
		    const struct nic_layout *layout, struct nic_queue_mem *mem)
{
	const struct msg_queue_create_req *create = &req->msg->queue_create_req;
	const struct mem_claim claim = {
		.kind = create->mem_kind,
		.fd = create->mem_kind >= MSG_MEM_AGENT ? -1 : fdlist_get(req->fds, create->mem_fd),
		.offset = create->mem_offset,
		.length_bytes = create->mem_bytes,
		.writable = true,
	};
	int r;

	if (create->mem_kind == MSG_MEM_UNSET) {
		*mem = (struct nic_queue_mem){.kind = NIC_MEM_MEMFD, .fd = -1, .length_bytes = layout->total_bytes};
		return 0;
	}
	if (create->mem_kind >= MSG_MEM_AGENT)
		return request_fail(req, SHMD_STATUS_MEM_KIND, "queues cannot lie in memory that %s",
				    create->mem_kind == MSG_MEM_AGENT ? "only an agent touches" : "its client registered itself");
	r = request_check_mem(req, nic->rnic, &claim);
	if (r != 0)
		return r;
	if (create->mem_offset % QUEUE_MEM_ALIGN || create->mem_bytes < layout->total_bytes)
		return request_fail(req, SHMD_STATUS_MEM_RANGE,
				    "queue memory must start at a multiple of %u and have %" PRIu64
				    " bytes; it has %" PRIu64 " at %" PRIu64,
				    QUEUE_MEM_ALIGN, layout->total_bytes, create->mem_bytes,
				    create->mem_offset);
	*mem = (struct nic_queue_mem){
		.kind = (enum nic_mem_kind)create->mem_kind,
		.fd = claim.fd,
		.offset = create->mem_offset,
		.length_bytes = create->mem_bytes,
	};
	return 0;
}

/* A batch on its way to the NIC: whatever can fail but the NIC comes before it. */
struct create {
	struct session_queues *queues; /* owned, until the session's table has it */
	struct nic_layout layout;
	struct nic_queue_mem mem; /* fd -1: of the daemon's own, which is made with the queues */
	int r;
};

/* The daemon's own memory goes into the reply, which owns it; the backend maps what it keeps. */
static int create_in_own_mem(struct request *req, struct create *op)
{
	struct nic_ctx *ctx = op->queues->nic->ctx;
	_cleanup_close_ int fd = -1;
	int r;

	r = ctx->nic->ops->queues_take(ctx, &op->layout, &fd, &op->queues->queues);
	if (r == -ENOENT)
		r = nic_queue_memfd(op->mem.length_bytes, &fd);
	op->mem.fd = fd;
	if (r == 0 && !op->queues->queues)
		r = ctx->nic->ops->queues_create(ctx, &op->mem, &op->layout, &op->queues->queues);
	if (r < 0)
		return r;
	r = fdlist_add(&req->rep_fds, fd);
	assert_bug(r == 0); /* the first of this reply */
	take_fd(&fd);
	return 0;
}

static void run_create(struct request *req)
{
	struct create *op = req->op;
	struct nic_ctx *ctx = op->queues->nic->ctx;

	op->r = op->mem.fd < 0 ? create_in_own_mem(req, op)
			       : ctx->nic->ops->queues_create(ctx, &op->mem, &op->layout, &op->queues->queues);
	/* Here, since a batch may have many thousands. */
	if (op->r == 0 && req->changes)
		req->session->registry->attr.save->export(SAVE_QUEUES, op->queues);
}

static int reserve(struct request *req, const struct create *op)
{
	struct session_nic *nic = op->queues->nic;
	int r;

	r = hash_reserve(&nic->qps, op->layout.n_qps);
	if (r == 0)
		r = hash_reserve(&nic->cqs, op->layout.n_cqs);
	return r < 0 ? r : resource_reserve(&req->session->resources);
}

static int charge_create(struct request *req, struct create *op)
{
	const struct msg_queue_create_req *create = &req->msg->queue_create_req;
	const struct quota_amount amount = {.n = {
		[QUOTA_QPS] = op->layout.n_qps,
		[QUOTA_CQS] = op->layout.n_cqs,
		[QUOTA_MAPS] = SESSION_QUEUES_MAPS,
		[QUOTA_BYTES] = create->mem_kind == MSG_MEM_UNSET ? op->layout.total_bytes
								  : create->mem_bytes,
	}};

	if (create->mem_kind == MSG_MEM_DMABUF)
		op->queues->held = held_ref(op->mem.fd);
	return request_charge(req, &amount, &op->queues->head.charge);
}

static void fill_cq(struct msg_cq_info *to, const struct nic_cq *from)
{
	*to = (struct msg_cq_info){
		.cqn = from->cqn,
		.log2_entries = from->log2_entries,
		.flags = from->flags,
		.ring_offset = from->ring_offset,
		.dbrec_offset = from->dbrec_offset,
	};
}

static void fill_qp(struct msg_qp_info *to, const struct nic_qp *from)
{
	*to = (struct msg_qp_info){
		.qpn = from->qpn,
		.log2_sq_wqebbs = from->log2_sq_wqebbs,
		.n_rq_wqes = from->n_rq_wqes,
		.log2_rq_stride = from->log2_rq_stride,
		.send_cqn = from->send_cqn,
		.recv_cqn = from->recv_cqn,
		.rq_offset = from->rq_offset,
		.sq_offset = from->sq_offset,
		.dbrec_offset = from->dbrec_offset,
	};
	to->addr_bytes = (uint32_t)nic_addr_encode(&from->addr, to->addr);
}

/* From here on the reply has arrays: one of another kind would free some that were never there. */
static int make_create_rep(struct request *req, const struct create *op)
{
	struct msg_queue_create_rep *rep = &req->rep->queue_create_rep;
	const struct nic_layout *layout = &op->layout;

	req->rep->kind = MSG_QUEUE_CREATE_REP;
	rep->mem_fd = op->mem.fd < 0; /* index + 1 of the only one, or 0 */
	rep->mem_bytes = op->mem.length_bytes;
	rep->cqs = calloc(layout->n_cqs ? layout->n_cqs : 1, sizeof(*rep->cqs));
	rep->qps = calloc(layout->n_qps ? layout->n_qps : 1, sizeof(*rep->qps));
	return rep->cqs && rep->qps ? 0 : -ENOMEM;
}

static void fill_create_rep(struct request *req, const struct session_queues *queues)
{
	struct msg_queue_create_rep *rep = &req->rep->queue_create_rep;
	const struct nic_layout *layout = &queues->queues->layout;

	rep->queues = queues->head.handle;
	for (; rep->n_cqs < layout->n_cqs; rep->n_cqs++)
		fill_cq(&rep->cqs[rep->n_cqs], &layout->cqs[rep->n_cqs]);
	for (; rep->n_qps < layout->n_qps; rep->n_qps++)
		fill_qp(&rep->qps[rep->n_qps], &layout->qps[rep->n_qps]);
}

static int finish_create(struct request *req)
{
	struct create *op = req->op;
	struct session_queues *queues = op->queues;
	int r = op->r;

	nic_layout_deinit(&op->layout);
	if (r < 0) {
		session_queues_free(req->session, queues);
		return r;
	}
	session_queues_count(queues);
	r = session_queues_add_numbers(queues);
	assert_bug(r == 0); /* reserved, as the handle is */
	r = resource_add(&req->session->resources, &queues->head);
	assert_bug(r == 0);
	/* Memory that the CPU does not reach is of no use to who cannot read it. */
	session_save(req->session, SAVE_QUEUES, queues,
		     op->mem.kind == NIC_MEM_MEMFD || queues->nic->rnic->nic->saves_memory ? op->mem.fd : -1);
	monitor_queues(req->session, MSG_EVENT_QUEUES_CREATED, queues);
	fill_create_rep(req, queues);
	return 0;
}

_Static_assert(MSG_ADDR_BYTES >= NIC_ADDR_BYTES, "an endpoint address fits into a message");

static struct session_queues *queues_new(struct session_nic *nic, const struct nic_layout *layout)
{
	struct session_queues *queues = calloc(1, sizeof(*queues));

	if (!queues)
		return NULL;
	resource_init(&queues->head, RESOURCE_QUEUES);
	list_init(&queues->changed_link);
	queues->nic = nic;
	/* bounded: nic_layout_init() made the layout. */
	queues->qps = calloc((size_t)layout->n_qps + 1, sizeof(*queues->qps));
	if (queues->qps)
		return queues;
	free(queues);
	return NULL;
}

static int prepare_create(struct request *req, struct session_nic *nic, struct create *op)
{
	int r;

	r = check_specs(req, nic);
	if (r != 0)
		return r;
	op->queues = queues_new(nic, &op->layout);
	if (!op->queues)
		return -ENOMEM;
	r = charge_create(req, op);
	if (r == 0)
		r = find_mem(req, nic, &op->layout, &op->mem);
	if (r == 0)
		r = reserve(req, op);
	return r != 0 ? r : make_create_rep(req, op);
}

/* The control thread does not touch a client's memory: its file decides how long a page takes to come. */
static bool is_long(const struct msg_queue_create_req *create, const struct nic_layout *layout)
{
	uint64_t bytes = 0;

	if (create->mem_kind != MSG_MEM_UNSET)
		return true;
	/* bounded: nic_layout_init() made the layout. */
	for (uint32_t i = 0; i < layout->n_cqs; i++)
		bytes += CQE_BYTES << layout->cqs[i].log2_entries;
	return bytes > LONG_CQ_BYTES;
}

int handle_queue_create(struct request *req)
{
	const struct msg_queue_create_req *create = &req->msg->queue_create_req;
	struct session_nic *nic = request_nic(req, create->nic);
	struct create *op;
	int r;

	if (!nic)
		return SHMD_STATUS_NOT_FOUND;
	op = request_op(req, sizeof(*op));
	if (!op)
		return -ENOMEM;
	r = make_layout(req, &create->specs, &op->layout);
	if (r != 0)
		return r;
	r = prepare_create(req, nic, op);
	if (r != 0) {
		nic_layout_deinit(&op->layout);
		session_queues_free(req->session, op->queues);
		return r;
	}
	return is_long(create, &op->layout) ? request_change_long(req, nic, run_create, finish_create)
					    : request_change(req, nic, run_create, finish_create);
}

/* ---- destroy ------------------------------------------------------------------------------------------------------ */

static void run_destroy(struct request *req)
{
	struct create *op = req->op;
	struct nic_queues *queues = op->queues->queues;

	op->r = queues->ctx->nic->ops->queues_destroy(queues);
	if (op->r == 0)
		op->queues->queues = NULL;
}

static int finish_destroy(struct request *req)
{
	struct create *op = req->op;
	int r;

	op->queues->leaving = false;
	if (op->r == 0) {
		session_queues_free(req->session, op->queues);
		return 0;
	}
	r = session_queues_add_numbers(op->queues);
	assert_bug(r == 0); /* the maps never shrink */
	if (op->r == -EBUSY)
		return request_fail(req, SHMD_STATUS_BUSY,
				    "QPs of another batch use CQs of this one; destroy those first");
	return op->r;
}

int handle_queue_destroy(struct request *req)
{
	uint32_t handle = req->msg->queue_destroy_req.handle;
	struct resource *head = resource_find(&req->session->resources, handle, RESOURCE_QUEUES);
	struct create *op;

	if (!head)
		return request_fail(req, SHMD_STATUS_NOT_FOUND, "this session has no queues 0x%x", handle);
	op = request_op(req, sizeof(*op));
	if (!op)
		return -ENOMEM;
	op->queues = container_of(head, struct session_queues, head);
	op->queues->leaving = true;
	session_queues_remove_numbers(op->queues);
	return request_change(req, op->queues->nic, run_destroy, finish_destroy);
}
