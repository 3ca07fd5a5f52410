/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the queues of one request lie in their memory.
 *
 * CQ rings first, then the QPs, each its receive ring with its send ring directly behind it (the hardware knows
 * one start address for both), then the dbrecs of all CQs and of all QPs, one cache line each. A ring is aligned to
 * its size, at least 64 and at most 4096 bytes, so that none crosses a page it need not. Sizes come from
 * clients: every sum is checked. And whether saved queues lie in theirs.
 *
 * Pure; any thread.
 */
#include "daemon/nic/nic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <shmd/abi/cqe.h>
#include <shmd/abi/doorbell.h>
#include <shmd/abi/wqe.h>

#include "proto/base/overflow.h"

#define LAYOUT_PAGE_BYTES 4096u
#define LAYOUT_MIN_ALIGN 64u
#define NUMBER_MAX 0xffffffu

#define CQ_FLAGS (NIC_CQ_COLLAPSED | NIC_CQ_OVERRUN_IGNORE)
#define QP_FLAGS NIC_QP_GPU_DRIVEN
#define QP_ACCESS (NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_REMOTE_ATOMIC)

/* ---- what is asked for ---------------------------------------------------------------------------------------------- */

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

/* A DCT has no rings, a DCI no receive ring. */
static bool sizes_are_right(enum nic_qp_type type, uint32_t log2_sq_wqebbs, uint32_t n_rq_wqes, uint32_t log2_rq_stride)
{
	if (type == NIC_QP_DCT)
		return !log2_sq_wqebbs && !n_rq_wqes;
	if (log2_sq_wqebbs < NIC_MIN_LOG2_SQ_WQEBBS || log2_sq_wqebbs > NIC_MAX_LOG2_SQ_WQEBBS)
		return false;
	if (n_rq_wqes == 0)
		return true;
	return type != NIC_QP_DCI && n_rq_wqes <= NIC_MAX_RQ_WQES && !(n_rq_wqes & (n_rq_wqes - 1)) &&
	       log2_rq_stride >= NIC_MIN_LOG2_RQ_STRIDE && log2_rq_stride <= NIC_MAX_LOG2_RQ_STRIDE;
}

static int check_qp_spec(const struct nic_qp_spec *spec, uint32_t n_cqs)
{
	int r = 0;

	if (spec->count == 0 || spec->count > NIC_MAX_BATCH_QPS || spec->type < NIC_QP_RC ||
	    spec->type > NIC_QP_DCT || (spec->flags & ~QP_FLAGS) || (spec->access & ~QP_ACCESS) ||
	    (spec->send_cqn & NIC_CQ_BY_INDEX) || (spec->recv_cqn & NIC_CQ_BY_INDEX) ||
	    !sizes_are_right(spec->type, spec->log2_sq_wqebbs, spec->n_rq_wqes, spec->log2_rq_stride))
		return -EINVAL;
	if (spec->send_cqn == 0)
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

/* ---- where it lies --------------------------------------------------------------------------------------------------- */

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

/*
 * A collapsed CQ has its whole ring too, though its CQEs are all at the first entry: a NIC gets the size and may use all of
 * it. NVSHMEM (ibgda.cpp, ibgda_create_cq) gives as many entries as the CQ has, and so does UCX (gdaki.c), with one.
 */
static int place_cqs(struct nic_layout *layout, const struct nic_cq_spec *spec, uint64_t *end)
{
	/* bounded by check_cq_spec(). */
	uint64_t bytes = (uint64_t)SHMD_CQE_BYTES << spec->log2_entries;

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
	/* bounded by sizes_are_right(). */
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

/* ---- saved queues ---------------------------------------------------------------------------------------------------- */

static bool lies_well(uint64_t offset, uint64_t bytes, uint64_t total)
{
	return (offset & (LAYOUT_MIN_ALIGN - 1)) == 0 && range_fits(offset, bytes, total);
}

bool nic_cq_is_right(const struct nic_cq *cq, uint64_t total_bytes)
{
	uint64_t entries;

	if (cq->log2_entries > NIC_MAX_LOG2_CQ_ENTRIES || (cq->flags & ~CQ_FLAGS) || cq->cqn > NUMBER_MAX)
		return false;
	/* bounded: by the check above. A context of a daemon before has one entry of a collapsed CQ, which is all that is read. */
	entries = cq->flags & NIC_CQ_COLLAPSED ? 1 : 1ull << cq->log2_entries;
	return lies_well(cq->ring_offset, entries * SHMD_CQE_BYTES, total_bytes) &&
	       lies_well(cq->dbrec_offset, sizeof(struct shmd_dbrec), total_bytes);
}

static bool rings_are_right(const struct nic_qp *qp, uint64_t total_bytes)
{
	uint64_t rq_bytes, sq_bytes;

	if (!sizes_are_right(qp->type, qp->log2_sq_wqebbs, qp->n_rq_wqes, qp->log2_rq_stride))
		return false;
	/* bounded: by the check above. */
	rq_bytes = qp->n_rq_wqes ? (uint64_t)qp->n_rq_wqes << qp->log2_rq_stride : 0;
	sq_bytes = qp->type == NIC_QP_DCT ? 0 : (uint64_t)SHMD_WQEBB_BYTES << qp->log2_sq_wqebbs;
	return lies_well(qp->rq_offset, rq_bytes, total_bytes) && lies_well(qp->sq_offset, sq_bytes, total_bytes) &&
	       lies_well(qp->dbrec_offset, SHMD_QP_ERROR_OFFSET + sizeof(uint32_t), total_bytes);
}

bool nic_qp_is_right(const struct nic_qp *qp, uint64_t total_bytes)
{
	return qp->type >= NIC_QP_RC && qp->type <= NIC_QP_DCT && qp->qpn <= NUMBER_MAX && !(qp->flags & ~QP_FLAGS) &&
	       !(qp->access & ~QP_ACCESS) && qp->addr.psn <= NUMBER_MAX &&
	       (qp->type == NIC_QP_DCT || !qp->addr.dc_key) && rings_are_right(qp, total_bytes);
}
