/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches of queues: one mapping of queue memory, its CQs and QPs created and destroyed in slices on the data
 * thread.
 *
 * One of a former process is created by the same walk, under its numbers, and goes on where its ledger says.
 *
 * A batch is destroyed by the same walk whether it was completed or failed half way. Its rings are unmapped by
 * the caller afterwards, when the engine has let go of every queue.
 */
#include "daemon/nic/soft/soft.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <shmd/abi/cqe.h>

#include "proto/base/assert.h"
#include "proto/base/cleanup.h"

struct queues_call {
	struct soft_call call;
	struct soft_queues *queues;
	uint32_t n_done; /* CQs and QPs together */
	bool checked;
};

/* ---- create: data thread ---------------------------------------------------------------------------------------- */

_Static_assert(NIC_CQ_COLLAPSED == ENGINE_CQ_COLLAPSED, "the same bits");
_Static_assert(NIC_CQ_OVERRUN_IGNORE == ENGINE_CQ_OVERRUN_IGNORE, "the same bits");

/* A restored object has its number. If the ledger does not know it, it was being made or destroyed, and is made. */
static int take_number(struct soft_names *names, bool is_restored, void *object, uint32_t *number)
{
	int r;

	if (!is_restored && !names->are_given)
		return soft_names_alloc(names, object, number);
	r = soft_names_reserve(names, *number, object);
	return r == -EEXIST ? -EINVAL : r;
}

static int make_cq(struct engine *engine, struct engine_cq_attr *attr, bool is_restored)
{
	int r = is_restored ? engine_cq_restore(engine, attr) : -ENOENT;

	if (r != -ENOENT)
		return r;
	attr->filled = !is_restored;
	return engine_cq_create(engine, attr);
}

static int create_cq(struct soft_exec *exec, struct soft_queues *queues, uint32_t i)
{
	struct nic_cq *desc = &queues->base.layout.cqs[i];
	struct soft_cq *cq = &queues->cqs[i];
	struct engine_cq_attr attr = {
		.cqn = desc->cqn,
		.log2_entries = desc->log2_entries,
		.flags = desc->flags,
		.ring = queues->map.data + desc->ring_offset,
		.dbrec = queues->map.data + desc->dbrec_offset,
		.ledger = queues->ctx->ledger,
	};
	int r;

	r = take_number(&exec->cqns, queues->is_restored, cq, &attr.cqn);
	if (r < 0)
		return r;
	r = make_cq(exec->engine, &attr, queues->is_restored);
	if (r < 0) {
		soft_names_dealloc(&exec->cqns, attr.cqn);
		return r;
	}
	cq->queues = queues;
	cq->cqn = attr.cqn;
	desc->cqn = attr.cqn;
	return 0;
}

/* A CQ of this batch by index, or an older one of the same context by number; else NULL. */
static struct soft_cq *find_cq(struct soft_exec *exec, struct soft_queues *queues, uint32_t name)
{
	struct soft_cq *cq;

	if (name & NIC_CQ_BY_INDEX) {
		name &= ~NIC_CQ_BY_INDEX;
		return name < queues->base.layout.n_cqs ? &queues->cqs[name] : NULL;
	}
	cq = soft_names_find(&exec->cqns, name);
	return cq && cq->queues->ctx == queues->ctx ? cq : NULL;
}

static void set_addr(struct soft_exec *exec, struct nic_qp *desc, uint32_t psn, uint64_t dc_key)
{
	desc->addr = (struct nic_addr){
		.link = NIC_LINK_ETHERNET,
		.qp_type = desc->type,
		.mtu_log2 = exec->nic->mtu_log2,
		.qpn = desc->qpn,
		.psn = psn & NIC_PSN_MASK,
		.dc_key = desc->type == NIC_QP_DCT ? dc_key : 0,
	};
	memcpy(desc->addr.gid, exec->nic->port->shared->gid, sizeof(desc->addr.gid));
	soft_port_mac(exec->nic->port, desc->addr.mac);
}

static uint32_t log2_of(uint32_t power)
{
	return power ? (uint32_t)__builtin_ctz(power) : 0;
}

static int create_engine_qp(struct soft_exec *exec, struct soft_queues *queues, struct nic_qp *desc)
{
	const struct engine_qp_attr attr = {
		.qpn = desc->qpn,
		.type = desc->type == NIC_QP_DCI ? ENGINE_QP_DCI : ENGINE_QP_RC,
		.pdn = queues->ctx->pdn,
		.user_index = desc->qpn,
		.sq_ring = queues->map.data + desc->sq_offset,
		.log2_sq_wqebbs = desc->log2_sq_wqebbs,
		.rq_ring = desc->n_rq_wqes ? queues->map.data + desc->rq_offset : NULL,
		.log2_rq_wqes = log2_of(desc->n_rq_wqes),
		.log2_rq_stride = desc->log2_rq_stride,
		.dbrec = queues->map.data + desc->dbrec_offset,
		.send_cqn = desc->send_cqn,
		.recv_cqn = desc->recv_cqn,
		.ledger = queues->ctx->ledger,
	};
	int r = queues->is_restored ? engine_qp_restore(exec->engine, &attr) : -ENOENT;

	return r == -ENOENT ? engine_qp_create(exec->engine, &attr) : r;
}

static void attach_qp(struct soft_queues *queues, struct soft_qp *qp)
{
	qp->queues = queues;
	qp->send_cq->n_foreign_qps += qp->send_cq->queues != queues;
	qp->recv_cq->n_foreign_qps += qp->recv_cq->queues != queues;
	qp->doorbell.qpn = qp->desc->qpn;
	qp->doorbell.is_gpu_driven = qp->desc->flags & NIC_QP_GPU_DRIVEN;
	doorbell_page_add(&queues->ctx->page, &qp->doorbell);
}

/* Only a DCT has a key, which nobody guesses. */
static int take_secrets(const struct soft_queues *queues, struct nic_qp *desc, uint32_t *ret_psn, uint64_t *ret_dc_key)
{
	struct {
		uint64_t dc_key;
		uint32_t psn;
	} secret = {.dc_key = desc->addr.dc_key, .psn = desc->addr.psn};

	if (!queues->is_restored && getrandom(&secret, sizeof(secret), 0) != sizeof(secret))
		return -EIO;
	*ret_psn = secret.psn;
	*ret_dc_key = secret.dc_key;
	return 0;
}

static int create_qp(struct soft_exec *exec, struct soft_queues *queues, uint32_t i)
{
	struct nic_qp *desc = &queues->base.layout.qps[i];
	struct soft_qp *qp = &queues->qps[i];
	uint64_t dc_key;
	uint32_t psn;
	int r;

	qp->desc = desc;
	qp->doorbell.snd_be = (const uint32_t *)&((const struct shmd_dbrec *)(queues->map.data + desc->dbrec_offset))->snd;
	qp->error = (uint32_t *)(queues->map.data + desc->dbrec_offset + SHMD_QP_ERROR_OFFSET);
	qp->is_restored = queues->is_restored;
	if (!qp->is_restored)
		soft_qp_tell_error(qp, 0);
	qp->send_cq = find_cq(exec, queues, desc->send_cqn);
	qp->recv_cq = find_cq(exec, queues, desc->recv_cqn);
	if (!qp->send_cq || !qp->recv_cq)
		return -EINVAL;
	r = take_secrets(queues, desc, &psn, &dc_key);
	if (r == 0)
		r = take_number(&exec->qpns, queues->is_restored, qp, &desc->qpn);
	if (r < 0)
		return r;
	desc->send_cqn = qp->send_cq->cqn;
	desc->recv_cqn = qp->recv_cq->cqn;
	set_addr(exec, desc, psn, dc_key);
	r = desc->type == NIC_QP_DCT ? soft_dct_create(queues->ctx, desc, queues->is_restored)
				     : create_engine_qp(exec, queues, desc);
	if (r < 0) {
		soft_names_dealloc(&exec->qpns, desc->qpn);
		return r;
	}
	attach_qp(queues, qp);
	if (qp->is_restored)
		soft_qp_learn_error(qp);
	return 0;
}

static bool run_create(struct soft_exec *exec, struct soft_call *base)
{
	struct queues_call *call = container_of(base, struct queues_call, call);
	struct soft_queues *queues = call->queues;
	const struct nic_layout *layout = &queues->base.layout;
	/* bounded: nic_layout_init() made the layout. */
	uint32_t n_all = layout->n_cqs + layout->n_qps;

	for (uint32_t n = 0; n < SOFT_CALL_SLICE && call->n_done < n_all; n++, call->n_done++) {
		uint32_t i = call->n_done;

		base->result = i < layout->n_cqs ? create_cq(exec, queues, i) :
						   create_qp(exec, queues, i - layout->n_cqs);
		if (base->result < 0)
			return true;
	}
	return call->n_done == n_all;
}

/* ---- destroy: data thread -------------------------------------------------------------------------------------------- */

static void destroy_qp(struct soft_exec *exec, struct soft_qp *qp)
{
	struct soft_ctx *ctx = qp->queues->ctx;
	int r;

	soft_qp_count(qp, &ctx->past);
	if (qp->desc->type == NIC_QP_DCT) {
		soft_dct_destroy(exec, qp->desc->qpn);
	} else {
		r = engine_qp_destroy(exec->engine, qp->desc->qpn);
		assert_bug(r == 0);
	}
	soft_names_dealloc(&exec->qpns, qp->desc->qpn);
	qp->send_cq->n_foreign_qps -= qp->send_cq->queues != qp->queues;
	qp->recv_cq->n_foreign_qps -= qp->recv_cq->queues != qp->queues;
	doorbell_page_remove(&ctx->page, &qp->doorbell);
	qp->queues = NULL;
}

void soft_qps_destroy(struct soft_ctx *ctx)
{
	while (!list_empty(&ctx->page.queues))
		destroy_qp(ctx->exec, list_first_entry(&ctx->page.queues, struct soft_qp, doorbell.link));
}

/* False: a QP still holds on to it in the engine; later. */
static bool destroy_cq(struct soft_exec *exec, struct soft_cq *cq)
{
	int r = engine_cq_destroy(exec->engine, cq->cqn);

	if (r == -EBUSY)
		return false;
	assert_bug(r == 0);
	soft_names_dealloc(&exec->cqns, cq->cqn);
	cq->queues = NULL;
	return true;
}

/* QPs before CQs. Returns false when this one must wait. */
static bool destroy_next(struct soft_exec *exec, struct soft_queues *queues, uint32_t i)
{
	uint32_t n_qps = queues->base.layout.n_qps;

	if (i >= n_qps)
		return !queues->cqs[i - n_qps].queues || destroy_cq(exec, &queues->cqs[i - n_qps]);
	if (queues->qps[i].queues)
		destroy_qp(exec, &queues->qps[i]);
	return true;
}

static int check_unused(const struct soft_queues *queues)
{
	for (uint32_t i = 0; i < queues->base.layout.n_cqs; i++)
		if (queues->cqs[i].n_foreign_qps > 0)
			return -EBUSY;
	return 0;
}

static bool run_destroy(struct soft_exec *exec, struct soft_call *base)
{
	struct queues_call *call = container_of(base, struct queues_call, call);
	struct soft_queues *queues = call->queues;
	/* bounded: nic_layout_init() made the layout. */
	uint32_t n_all = queues->base.layout.n_cqs + queues->base.layout.n_qps;

	if (!call->checked) {
		call->checked = true;
		base->result = check_unused(queues);
		if (base->result < 0)
			return true;
	}
	for (uint32_t n = 0; n < SOFT_CALL_SLICE && call->n_done < n_all; n++, call->n_done++)
		if (!destroy_next(exec, queues, call->n_done))
			return false;
	return call->n_done == n_all;
}

/* ---- the caller's side --------------------------------------------------------------------------------------------------- */

static struct soft_queues *queues_free(struct soft_queues *queues)
{
	if (!queues)
		return NULL;
	list_del(&queues->base.link);
	soft_map_deinit(&queues->map);
	nic_layout_deinit(&queues->base.layout);
	free(queues->cqs);
	free(queues->qps);
	free(queues);
	return NULL;
}
DEFINE_CLEANUP(struct soft_queues *, queues_free);

static uint64_t cq_ring_bytes(const struct nic_cq *cq)
{
	/* bounded: nic_layout_init() made the layout. */
	return (uint64_t)SHMD_CQE_BYTES << cq->log2_entries;
}

/* Here and not on the data thread, which would serve nobody meanwhile. */
static void fill_cq_rings(struct soft_queues *queues, const struct nic_layout *layout)
{
	for (uint32_t i = 0; i < layout->n_cqs; i++)
		memset(queues->map.data + layout->cqs[i].ring_offset, 0xff, cq_ring_bytes(&layout->cqs[i]));
}

/* The rings of CQs lie in front. */
static uint64_t cq_rings_end(const struct nic_layout *layout)
{
	const struct nic_cq *last = layout->n_cqs ? &layout->cqs[layout->n_cqs - 1] : NULL;

	return last ? last->ring_offset + cq_ring_bytes(last) : 0;
}

static int check_mem(const struct nic_queue_mem *mem, const struct nic_layout *layout)
{
	int r = soft_check_kind(mem->kind);

	if (r < 0)
		return r;
	if ((mem->offset & NIC_PAGE_MASK) || mem->length_bytes < layout->total_bytes)
		return -EINVAL;
	for (uint32_t i = 0; i < layout->n_cqs; i++)
		if (layout->cqs[i].log2_entries > SOFT_MAX_LOG2_CQ_ENTRIES)
			return -ENOSPC;
	if (cq_rings_end(layout) > SOFT_MAX_CQ_BYTES)
		return -ENOSPC;
	return 0;
}

/* Everything but the queues; the layout is copied, since the caller keeps his on failure. */
static int queues_alloc(struct soft_ctx *ctx, const struct nic_queue_mem *mem, const struct nic_layout *layout,
			bool is_restored, struct soft_queues **ret_queues)
{
	_cleanup_(queues_freep) struct soft_queues *queues = calloc(1, sizeof(*queues));
	int r;

	if (!queues)
		return -ENOMEM;
	list_init(&queues->base.link);
	queues->base.ctx = &ctx->base;
	queues->ctx = ctx;
	queues->mem_offset = mem->offset;
	queues->is_restored = is_restored;
	/* bounded: nic_layout_init() made the layout, or the record's reader checked it. */
	queues->cqs = calloc((size_t)layout->n_cqs + 1, sizeof(*queues->cqs));
	queues->qps = calloc((size_t)layout->n_qps + 1, sizeof(*queues->qps));
	r = nic_layout_copy(&queues->base.layout, layout);
	if (r < 0 || !queues->cqs || !queues->qps)
		return -ENOMEM;
	r = soft_map_memfd(mem->fd, mem->offset, layout->total_bytes, true, &queues->map);
	if (r == 0)
		r = soft_map_populate(&queues->map, cq_rings_end(layout));
	if (r < 0)
		return r;
	if (!is_restored)
		fill_cq_rings(queues, layout);
	*ret_queues = take_ptr(queues);
	return 0;
}

static int queues_unmake(struct soft_queues *queues)
{
	struct queues_call call = {.call.run = run_destroy, .queues = queues};
	int r = soft_call(queues->ctx->exec, &call.call);

	if (r < 0)
		return r;
	queues_free(queues);
	return 0;
}

static int queues_make(struct soft_ctx *ctx, const struct nic_queue_mem *mem, const struct nic_layout *layout,
		       bool is_restored, struct nic_queues **ret_queues)
{
	struct queues_call call = {.call.run = run_create};
	int r;

	r = check_mem(mem, layout);
	if (r == 0)
		r = queues_alloc(ctx, mem, layout, is_restored, &call.queues);
	if (r < 0)
		return r;
	r = soft_call(ctx->exec, &call.call);
	if (r < 0) {
		int unmade = queues_unmake(call.queues);

		assert_bug(unmade == 0);
		return r;
	}
	pthread_mutex_lock(&ctx->list_lock);
	list_add_tail(&ctx->base.queues, &call.queues->base.link);
	pthread_mutex_unlock(&ctx->list_lock);
	*ret_queues = &call.queues->base;
	return 0;
}

int soft_queues_create(struct nic_ctx *base, const struct nic_queue_mem *mem,
		       struct nic_layout *layout, struct nic_queues **ret_queues)
{
	int r = queues_make(soft_ctx(base), mem, layout, false, ret_queues);

	if (r == 0)
		nic_layout_deinit(layout);
	return r;
}

int soft_queues_restore(struct soft_ctx *ctx, const struct nic_queue_mem *mem, const struct nic_layout *layout)
{
	struct nic_queues *queues;

	return queues_make(ctx, mem, layout, true, &queues);
}

int soft_queues_destroy(struct nic_queues *base)
{
	return queues_unmake(container_of(base, struct soft_queues, base));
}

/* ---- a look at what lies in it ------------------------------------------------------------------------------------------ */

struct read_call {
	struct soft_call call; /* first: soft-call.c frees it */
	const uint8_t *from;
	size_t bytes;
	uint8_t to[];
};

/* By the data thread, which is the NIC's writer: what it writes is whole. */
static bool run_read(struct soft_exec *exec, struct soft_call *base)
{
	struct read_call *call = container_of(base, struct read_call, call);

	memcpy(call->to, call->from, call->bytes);
	return true;
}

int soft_queues_read(struct nic_queues *base, uint64_t offset, void *buf, size_t bytes)
{
	struct soft_queues *queues = container_of(base, struct soft_queues, base);
	uint64_t total = queues->base.layout.total_bytes;
	struct read_call *call;
	int r;

	if (offset > total || bytes > total - offset)
		return -ERANGE;
	/* bounded: queue memory is mapped. */
	call = calloc(1, sizeof(*call) + bytes);
	if (!call)
		return -ENOMEM;
	call->call.run = run_read;
	call->from = queues->map.data + offset;
	call->bytes = bytes;
	r = soft_ctx_ask(queues->ctx, &call->call);
	if (r < 0)
		return r;
	memcpy(buf, call->to, bytes);
	free(call);
	return 0;
}
