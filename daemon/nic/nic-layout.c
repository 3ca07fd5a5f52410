/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the queues of one request lie in their memory.
 *
 * CQ rings first, then the QPs, each its receive ring with its send ring directly behind it (the hardware knows
 * one start address for both), then the dbrecs of all CQs and of all QPs, one cache line each. A ring is aligned to
 * its size, at least 64 and at most 4096 bytes, so that none crosses a page it need not. Sizes come from
 * clients: every sum is checked.
 *
 * Pure; any thread.
 */
#include "daemon/nic/nic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <shmd/abi/cqe.h>
#include <shmd/abi/wqe.h>

#include "proto/base/overflow.h"

#define LAYOUT_PAGE_BYTES 4096u
#define LAYOUT_MIN_ALIGN 64u

#define CQ_FLAGS (NIC_CQ_COLLAPSED | NIC_CQ_OVERRUN_IGNORE)
#define QP_FLAGS NIC_QP_GPU_DRIVEN
#define QP_ACCESS (NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_REMOTE_ATOMIC)

static int check_cq_spec(const struct nic_cq_spec *spec)
{
	if (spec->count == 0 || spec->count > NIC_MAX_BATCH_CQS ||
	    spec->log2_entries > NIC_MAX_LOG2_CQ_ENTRIES || (spec->flags & ~CQ_FLAGS))
		return -EINVAL;
	return 0;
}

/* Every CQ index that first + i * step takes must exist. */
static int check_cq_index(uint32_t count, uint32_t first, uint32_t step, uint32_t n_cqs)
{
	uint64_t last = (uint64_t)first + (uint64_t)(count - 1) * step;

	return last < n_cqs ? 0 : -EINVAL;
}

static int check_qp_rings(const struct nic_qp_spec *spec)
{
	if (spec->type == NIC_QP_DCT)
		return spec->log2_sq_wqebbs || spec->n_rq_wqes ? -EINVAL : 0;
	if (spec->log2_sq_wqebbs < NIC_MIN_LOG2_SQ_WQEBBS ||
	    spec->log2_sq_wqebbs > NIC_MAX_LOG2_SQ_WQEBBS)
		return -EINVAL;
	if (spec->n_rq_wqes == 0)
		return 0;
	if (spec->type == NIC_QP_DCI || spec->n_rq_wqes > NIC_MAX_RQ_WQES || (spec->n_rq_wqes & (spec->n_rq_wqes - 1)) ||
	    spec->log2_rq_stride < NIC_MIN_LOG2_RQ_STRIDE ||
	    spec->log2_rq_stride > NIC_MAX_LOG2_RQ_STRIDE)
		return -EINVAL;
	return 0;
}

static int check_qp_spec(const struct nic_qp_spec *spec, uint32_t n_cqs)
{
	int r;

	if (spec->count == 0 || spec->count > NIC_MAX_BATCH_QPS || spec->type < NIC_QP_RC ||
	    spec->type > NIC_QP_DCT || (spec->flags & ~QP_FLAGS) || (spec->access & ~QP_ACCESS) ||
	    (spec->send_cqn & NIC_CQ_BY_INDEX) || (spec->recv_cqn & NIC_CQ_BY_INDEX))
		return -EINVAL;
	r = check_qp_rings(spec);
	if (r == 0 && spec->send_cqn == 0)
		r = check_cq_index(spec->count, spec->send_cq_first, spec->send_cq_step, n_cqs);
	if (r == 0 && spec->recv_cqn == 0)
		r = check_cq_index(spec->count, spec->recv_cq_first, spec->recv_cq_step, n_cqs);
	return r;
}

static int check_attr(const struct nic_queues_attr *attr, uint32_t *ret_n_cqs, uint32_t *ret_n_qps)
{
	uint32_t n_cqs = 0, n_qps = 0;
	int r;

	if (attr->n_cq_specs > NIC_MAX_SPECS || attr->n_qp_specs > NIC_MAX_SPECS ||
	    attr->n_cq_specs + attr->n_qp_specs == 0)
		return -EINVAL;
	for (unsigned int i = 0; i < attr->n_cq_specs; i++) {
		r = check_cq_spec(&attr->cqs[i]);
		if (r < 0)
			return r;
		n_cqs += attr->cqs[i].count; /* at most 8 * 65536 */
	}
	for (unsigned int i = 0; i < attr->n_qp_specs; i++) {
		r = check_qp_spec(&attr->qps[i], n_cqs);
		if (r < 0)
			return r;
		n_qps += attr->qps[i].count;
	}
	if (n_cqs > NIC_MAX_BATCH_CQS || n_qps > NIC_MAX_BATCH_QPS)
		return -EINVAL;
	*ret_n_cqs = n_cqs;
	*ret_n_qps = n_qps;
	return 0;
}

/* Alignment of a ring: its size up to the next power of two, between 64 and 4096. */
static uint64_t ring_align(uint64_t bytes)
{
	uint64_t align = LAYOUT_MIN_ALIGN;

	while (align < bytes && align < LAYOUT_PAGE_BYTES)
		align <<= 1;
	return align;
}

/* Take `bytes` from *end, aligned; *ret_offset is where they lie. */
static int place(uint64_t *end, uint64_t align, uint64_t bytes, uint64_t *ret_offset)
{
	uint64_t start, next;

	if (align_up_overflows(*end, align, &start) || add_overflows(start, bytes, &next))
		return -EOVERFLOW;
	*end = next;
	*ret_offset = start;
	return 0;
}

static int place_cqs(struct nic_layout *layout, const struct nic_cq_spec *spec, uint64_t *end)
{
	/* bounded by check_cq_spec(). */
	uint64_t bytes = spec->flags & NIC_CQ_COLLAPSED ?
				 SHMD_CQE_BYTES :
				 (uint64_t)SHMD_CQE_BYTES << spec->log2_entries;

	for (uint32_t i = 0; i < spec->count; i++) {
		struct nic_cq *cq = &layout->cqs[layout->n_cqs++];
		int r;

		cq->log2_entries = spec->log2_entries;
		cq->flags = spec->flags;
		r = place(end, ring_align(bytes), bytes, &cq->ring_offset);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The send ring must start on a WQEBB, so a receive ring below 64 bytes gets more WQEs. */
static uint32_t rq_wqes(const struct nic_qp_spec *spec)
{
	uint32_t least;

	if (spec->n_rq_wqes == 0)
		return 0;
	least = SHMD_WQEBB_BYTES >> spec->log2_rq_stride;
	return spec->n_rq_wqes < least ? least : spec->n_rq_wqes;
}

static void qp_from_spec(struct nic_qp *qp, const struct nic_qp_spec *spec, uint32_t i)
{
	qp->type = spec->type;
	qp->log2_sq_wqebbs = spec->log2_sq_wqebbs;
	qp->n_rq_wqes = rq_wqes(spec);
	qp->log2_rq_stride = qp->n_rq_wqes ? spec->log2_rq_stride : 0;
	qp->send_cqn = spec->send_cqn ? spec->send_cqn :
					NIC_CQ_BY_INDEX | (spec->send_cq_first + i * spec->send_cq_step);
	qp->recv_cqn = spec->recv_cqn ? spec->recv_cqn :
					NIC_CQ_BY_INDEX | (spec->recv_cq_first + i * spec->recv_cq_step);
	qp->flags = spec->flags;
	qp->access = spec->access;
}

static int place_qps(struct nic_layout *layout, const struct nic_qp_spec *spec, uint64_t *end)
{
	/* bounded by check_qp_rings(). */
	uint64_t rq_bytes = spec->n_rq_wqes ? (uint64_t)rq_wqes(spec) << spec->log2_rq_stride : 0;
	uint64_t sq_bytes = spec->type == NIC_QP_DCT ?
				    0 :
				    (uint64_t)SHMD_WQEBB_BYTES << spec->log2_sq_wqebbs;

	for (uint32_t i = 0; i < spec->count; i++) {
		struct nic_qp *qp = &layout->qps[layout->n_qps++];
		int r;

		qp_from_spec(qp, spec, i);
		r = place(end, ring_align(rq_bytes + sq_bytes), rq_bytes + sq_bytes, &qp->rq_offset);
		if (r < 0)
			return r;
		qp->sq_offset = qp->rq_offset + rq_bytes;
	}
	return 0;
}

static int place_dbrecs(struct nic_layout *layout, uint64_t *end)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < layout->n_cqs; i++)
		r = place(end, SHMD_DBREC_STRIDE, SHMD_DBREC_STRIDE, &layout->cqs[i].dbrec_offset);
	for (uint32_t i = 0; r == 0 && i < layout->n_qps; i++)
		r = place(end, SHMD_DBREC_STRIDE, SHMD_DBREC_STRIDE, &layout->qps[i].dbrec_offset);
	return r;
}

static int place_all(struct nic_layout *layout, const struct nic_queues_attr *attr)
{
	uint64_t end = 0;
	int r = 0;

	for (unsigned int i = 0; r == 0 && i < attr->n_cq_specs; i++)
		r = place_cqs(layout, &attr->cqs[i], &end);
	for (unsigned int i = 0; r == 0 && i < attr->n_qp_specs; i++)
		r = place_qps(layout, &attr->qps[i], &end);
	if (r == 0)
		r = place_dbrecs(layout, &end);
	if (r == 0 && align_up_overflows(end, LAYOUT_PAGE_BYTES, &layout->total_bytes))
		r = -EOVERFLOW;
	return r;
}

int nic_layout_init(struct nic_layout *layout, const struct nic_queues_attr *attr)
{
	struct nic_layout made = {0};
	uint32_t n_cqs, n_qps;
	int r;

	r = check_attr(attr, &n_cqs, &n_qps);
	if (r < 0)
		return r;
	/* One more than needed, so that an empty list is no special case. */
	made.cqs = calloc((size_t)n_cqs + 1, sizeof(*made.cqs));
	made.qps = calloc((size_t)n_qps + 1, sizeof(*made.qps));
	r = made.cqs && made.qps ? place_all(&made, attr) : -ENOMEM;
	if (r < 0) {
		nic_layout_deinit(&made);
		return r;
	}
	*layout = made;
	return 0;
}

int nic_layout_copy(struct nic_layout *copy, const struct nic_layout *layout)
{
	*copy = (struct nic_layout){0};
	/* bounded: who made the layout saw to it. */
	copy->cqs = calloc((size_t)layout->n_cqs + 1, sizeof(*copy->cqs));
	copy->qps = calloc((size_t)layout->n_qps + 1, sizeof(*copy->qps));
	if (!copy->cqs || !copy->qps)
		return -ENOMEM;
	memcpy(copy->cqs, layout->cqs, layout->n_cqs * sizeof(*copy->cqs));
	memcpy(copy->qps, layout->qps, layout->n_qps * sizeof(*copy->qps));
	copy->n_cqs = layout->n_cqs;
	copy->n_qps = layout->n_qps;
	copy->total_bytes = layout->total_bytes;
	return 0;
}

void nic_layout_deinit(struct nic_layout *layout)
{
	free(layout->cqs);
	free(layout->qps);
	memset(layout, 0, sizeof(*layout));
}
