/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared receive queues.
 *
 * WQEs form a list: the engine begins with WQE 0 and follows the index that stands in each, as many as the dbrec says
 * were posted. A WQE is copied once when it is taken, its index of the next with it. An index outside the ring, or more
 * posted than the ring has, cannot be true: the SRQ is in error from then on, with one event, and a QP that wants a WQE
 * of it goes to ERR with 0x02.
 *
 * The limit is looked at when a WQE is taken, after a look at the dbrec.
 */
#include <stdlib.h>

#include "daemon/engine/ledger-private.h"

#define NEXT_SEG_BYTES sizeof(struct shmd_wqe_srq_next_seg)

static bool attr_is_valid(const struct engine_srq_attr *attr)
{
	if (attr->is_xrc && (attr->xrcdn > PSN_MASK || attr->user_index > PSN_MASK))
		return false;
	return attr->srqn <= PSN_MASK && attr->ring && attr->dbrec && attr->log2_wqes <= 15 &&
	       attr->log2_stride >= 5 && attr->log2_stride <= 9;
}

/* slot: of a former process; NULL: a new one. */
static int create(struct engine *engine, const struct engine_srq_attr *attr, struct ledger_queue *slot)
{
	struct srq *srq;
	int r;

	if (!attr_is_valid(attr))
		return -EINVAL;
	if (attr->is_xrc && (attr->ledger || !engine->extension))
		return -EOPNOTSUPP;
	if (engine->srqs.n >= engine->attr.max_srqs)
		return -ENOSPC;
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return -ENOMEM;
	srq->engine = engine;
	srq->attr = *attr;
	r = attr->is_xrc ? engine->extension->srq_join(srq) : 0;
	if (r == 0)
		r = hash_add(&engine->srqs, attr->srqn, srq);
	if (r == 0 && slot)
		ledger_load_srq(srq, slot);
	if (r == 0 && attr->ledger && !slot) {
		r = ledger_take_srq(srq);
		if (r < 0)
			hash_remove(&engine->srqs, attr->srqn);
	}
	if (r < 0 && srq->cq)
		srq->cq->n_users--;
	if (r < 0)
		free(srq);
	return r;
}

int engine_srq_create(struct engine *engine, const struct engine_srq_attr *attr)
{
	return create(engine, attr, NULL);
}

int engine_srq_restore(struct engine *engine, const struct engine_srq_attr *attr)
{
	struct ledger_queue *slot = attr->ledger ? ledger_find_srq(attr->ledger, attr->srqn) : NULL;

	return slot ? create(engine, attr, slot) : -ENOENT;
}

int engine_srq_destroy(struct engine *engine, uint32_t srqn)
{
	struct srq *srq = hash_get(&engine->srqs, srqn);

	if (!srq)
		return -ENOENT;
	if (srq->n_users)
		return -EBUSY;
	if (srq->attr.is_xrc)
		engine->extension->srq_leave(srq);
	hash_remove(&engine->srqs, srqn);
	ledger_drop_srq(srq);
	free(srq);
	return 0;
}

static void tell(const struct srq *srq, enum engine_event_kind kind)
{
	struct engine_event ev = {kind, srq->attr.srqn, 0, true};

	srq->engine->ops.event(srq->engine->owner, &ev);
}

static void read_dbrec(struct srq *srq)
{
	srq->pi = (uint16_t)be32toh(__atomic_load_n((const uint32_t *)srq->attr.dbrec, __ATOMIC_ACQUIRE));
}

static uint16_t n_left(const struct srq *srq)
{
	return (uint16_t)(srq->pi - srq->ci);
}

static void check_limit(struct srq *srq)
{
	if (likely(n_left(srq) >= srq->limit))
		return;
	read_dbrec(srq);
	if (n_left(srq) >= srq->limit)
		return;
	tell(srq, ENGINE_EVENT_SRQ_LIMIT);
	srq->limit = 0;
	ledger_note_srq(srq);
}

int engine_srq_arm(struct engine *engine, uint32_t srqn, uint32_t limit)
{
	struct srq *srq = hash_get(&engine->srqs, srqn);

	if (!srq)
		return -ENOENT;
	/* bounded: 2^15 WQEs, says attr_is_valid(), also below. */
	if (limit > 1u << srq->attr.log2_wqes)
		return -EINVAL;
	srq->limit = (uint16_t)limit;
	ledger_note_srq(srq);
	check_limit(srq);
	return 0;
}

/* One in error has something to say too. */
bool srq_is_posted(struct srq *srq)
{
	if (!n_left(srq))
		read_dbrec(srq);
	return n_left(srq) || srq->error;
}

static uint8_t fail(struct srq *srq)
{
	if (!srq->error)
		tell(srq, ENGINE_EVENT_SRQ_ERROR);
	srq->error = true;
	return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
}

/* The WQE at this index, which is read once. 0, or a syndrome. */
uint8_t srq_parse(struct engine_qp *qp, uint16_t index, uint16_t *ret_next)
{
	size_t stride = (size_t)1 << qp->srq->attr.log2_stride;
	struct responder *resp = &qp->resp;
	struct shmd_wqe_srq_next_seg head;
	uint8_t wqe[512];

	memcpy(wqe, (const uint8_t *)qp->srq->attr.ring + index * stride, stride);
	memcpy(&head, wqe, sizeof(head));
	*ret_next = be16toh(head.next_wqe_index);
	return (uint8_t)wqe_parse_recv(wqe + NEXT_SEG_BYTES, stride - NEXT_SEG_BYTES, &resp->n_recv_sges,
				       resp->recv_sges, &resp->recv_bytes);
}

/* The next WQE becomes the QP's, when srq_is_posted() says so. 0, or a syndrome; of a wrong SRQ no WQE is taken. */
uint8_t srq_take(struct engine_qp *qp)
{
	struct responder *resp = &qp->resp;
	struct srq *srq = qp->srq;
	size_t n_wqes = (size_t)1 << srq->attr.log2_wqes;
	uint8_t syndrome;
	uint16_t next;

	if (unlikely(srq->error || n_left(srq) > n_wqes))
		return fail(srq);
	syndrome = srq_parse(qp, srq->next_index, &next);
	if (unlikely(next >= n_wqes))
		return fail(srq);
	resp->has_recv = true;
	resp->recv_index = srq->next_index;
	srq->next_index = next;
	srq->ci = (uint16_t)++srq->n_taken;
	fault_point(qp->engine, ENGINE_STEP_TAKE);
	ledger_note_take(qp);
	check_limit(srq);
	return syndrome;
}
