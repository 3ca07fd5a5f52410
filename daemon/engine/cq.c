/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion queues.
 *
 * The body of a CQE is written first; its last 8 bytes, which hold the WQE counter and the owner bit, are one
 * store with release order, so that a reader of a collapsed CQ never pairs a new counter with an old opcode.
 *
 * The consumer index is client-written: it is read only when the ring looks full, and a full ring (or nonsense)
 * kills the CQ: event, and its QPs go to ERR from cq_bury_dead(), outside of any half's work. The arm word is
 * read once per progress call after CQEs were written.
 *
 * Collapsed CQ: a flush CQE never covers an error CQE of the same QP, so that the cause stays readable.
 */
#include <stdlib.h>

#include "daemon/engine/ledger-private.h"

#define CI_MASK 0xffffffu
#define ARM_SOLICITED_ONLY 0x01000000u
#define LARGE_ENTRY_BYTES 128u

bool cq_attr_is_valid(const struct engine_cq_attr *attr)
{
	uint32_t flags = ENGINE_CQ_COLLAPSED | ENGINE_CQ_OVERRUN_IGNORE;

	return attr->cqn <= PSN_MASK && attr->log2_entries <= 22 && attr->ring &&
	       (!attr->entry_bytes || attr->entry_bytes == SHMD_CQE_BYTES || attr->entry_bytes == LARGE_ENTRY_BYTES) &&
	       !(attr->flags & ~flags) && (attr->dbrec || (attr->flags & ENGINE_CQ_OVERRUN_IGNORE));
}

static size_t ring_bytes(const struct engine_cq_attr *attr)
{
	/* bounded: cq_attr_is_valid() allows 2^22 entries. */
	return (attr->flags & ENGINE_CQ_COLLAPSED ? 1 : (size_t)1 << attr->log2_entries) *
	       attr->entry_bytes;
}

/* Entries without a CQE belong to the NIC, and have an opcode that says so. */
void cq_clear_ring(const struct engine_cq_attr *attr)
{
	memset(attr->ring, 0xff, ring_bytes(attr));
}

/* slot: of a former process; NULL: a new one. */
static int create(struct engine *engine, const struct engine_cq_attr *attr, struct ledger_queue *slot)
{
	struct cq *cq;
	int r = 0;

	if (!cq_attr_is_valid(attr))
		return -EINVAL;
	if (engine->cqs.n >= engine->attr.max_cqs)
		return -ENOSPC;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	cq->engine = engine;
	cq->attr = *attr;
	if (!attr->entry_bytes)
		cq->attr.entry_bytes = SHMD_CQE_BYTES;
	cq->error_qpn = CQ_NO_QPN;
	list_init(&cq->notify_link);
	list_init(&cq->dead_link);
	r = hash_add(&engine->cqs, attr->cqn, cq);
	if (r < 0) {
		free(cq);
		return r;
	}
	if (slot) {
		ledger_load_cq(cq, slot);
		return 0;
	}
	if (!attr->filled)
		cq_clear_ring(&cq->attr);
	r = attr->ledger ? ledger_take_cq(cq) : 0;
	if (r < 0) {
		hash_remove(&engine->cqs, attr->cqn);
		free(cq);
	}
	return r;
}

int engine_cq_create(struct engine *engine, const struct engine_cq_attr *attr)
{
	return create(engine, attr, NULL);
}

int engine_cq_restore(struct engine *engine, const struct engine_cq_attr *attr)
{
	struct ledger_queue *slot = attr->ledger ? ledger_find_cq(attr->ledger, attr->cqn) : NULL;

	return slot ? create(engine, attr, slot) : -ENOENT;
}

int engine_cq_destroy(struct engine *engine, uint32_t cqn)
{
	struct cq *cq = hash_get(&engine->cqs, cqn);

	if (!cq)
		return -ENOENT;
	if (cq->n_users)
		return -EBUSY;
	hash_remove(&engine->cqs, cqn);
	ledger_drop_cq(cq);
	list_del(&cq->notify_link);
	list_del(&cq->dead_link);
	free(cq);
	return 0;
}

static uint32_t *dbrec_word(const struct cq *cq, size_t offset)
{
	return (uint32_t *)(void *)((uint8_t *)cq->attr.dbrec + offset);
}

static void read_ci(struct cq *cq)
{
	cq->ci = be32toh(__atomic_load_n(dbrec_word(cq, offsetof(struct shmd_dbrec, rcv)), __ATOMIC_ACQUIRE)) & CI_MASK;
}

bool cq_is_full(struct cq *cq)
{
	/* bounded by cq_attr_is_valid(), as below. */
	uint32_t entries = 1u << cq->attr.log2_entries;

	if (cq->attr.flags & ENGINE_CQ_OVERRUN_IGNORE)
		return false;
	if (likely(((cq->pi - cq->ci) & CI_MASK) < entries))
		return false;
	read_ci(cq);
	return ((cq->pi - cq->ci) & CI_MASK) >= entries;
}

static bool fault_hits(struct engine *engine)
{
	if (likely(engine->fault != ENGINE_FAULT_DROP_CQE))
		return false;
	return engine->fault_left && --engine->fault_left == 0;
}

/* Where the next CQE goes. */
static uint64_t *entry_at_pi(const struct cq *cq)
{
	/* bounded by cq_attr_is_valid(). */
	size_t index = cq->pi & ((1u << cq->attr.log2_entries) - 1);

	if (cq->attr.flags & ENGINE_CQ_COLLAPSED)
		index = 0;
	return (uint64_t *)(void *)((uint8_t *)cq->attr.ring + (index + 1) * cq->attr.entry_bytes -
				    SHMD_CQE_BYTES);
}

/* Entry for the next CQE, or NULL when there is none to write. */
static uint64_t *next_entry(struct cq *cq)
{
	if (unlikely(cq->dead))
		return NULL;
	if (unlikely(cq_is_full(cq))) {
		cq->dead = true;
		ledger_note_cq(cq);
		list_add_tail(&cq->engine->dead_cqs, &cq->dead_link);
		return NULL;
	}
	if (unlikely(fault_hits(cq->engine)))
		return NULL;
	return entry_at_pi(cq);
}

/* For a half of `qp`, which goes on from here; or for none. */
static void publish(struct cq *cq, struct engine_qp *qp, uint64_t *entry, const struct shmd_cqe *cqe, bool responder,
		    bool solicited)
{
	uint64_t words[SHMD_CQE_BYTES / 8];
	unsigned int i;

	/* A poller of a collapsed CQ may look while the next CQE arrives: it reads the last word whole. */
	memcpy(words, cqe, sizeof(words));
	for (i = 0; i < 7; i++)
		__atomic_store_n(&entry[i], words[i], __ATOMIC_RELAXED);
	if (unlikely(cq->slot))
		ledger_publish(cq, qp, responder, &entry[7], words[7]);
	else
		__atomic_store_n(&entry[7], words[7], __ATOMIC_RELEASE);
	cq->pi++;
	cq->new_solicited |= solicited;
	if (cq->attr.dbrec && list_empty(&cq->notify_link))
		list_add_tail(&cq->engine->notify_cqs, &cq->notify_link);
}

static uint8_t op_own(const struct cq *cq, uint8_t opcode)
{
	return (uint8_t)(opcode << 4 | ((cq->pi >> cq->attr.log2_entries) & SHMD_CQE_OWNER_MASK));
}

/* CQEs that the client has not consumed, by its consumer index of now. */
uint32_t cq_n_unread(struct cq *cq)
{
	read_ci(cq);
	return (cq->pi - cq->ci) & CI_MASK;
}

/* A CQE of no QP, which has an opcode alone. The ring has room. */
void cq_write_mark(struct cq *cq, uint8_t cqe_opcode)
{
	struct shmd_cqe cqe = {.op_own = op_own(cq, cqe_opcode)};

	publish(cq, NULL, entry_at_pi(cq), &cqe, false, false);
}

static uint32_t responder_index(const struct engine_qp *qp)
{
	if (likely(!qp->srq))
		return qp->attr.user_index;
	if (unlikely(qp->srq->attr.is_xrc))
		return qp->srq->attr.user_index;
	return qp->attr.srqn_in_cqes ? qp->attr.srqn : qp->attr.user_index;
}

/* The half that it is of goes on all the same. */
static void write_none(struct engine_qp *qp, bool responder)
{
	if (responder)
		ledger_note_resp(qp);
	else
		ledger_note_req(qp);
}

void cq_write(struct cq *cq, struct engine_qp *qp, const struct cqe_fields *fields)
{
	bool responder = fields->cqe_opcode != SHMD_CQE_REQ;
	uint64_t *entry = next_entry(cq);
	struct shmd_cqe cqe = {0};

	if (unlikely(!entry)) {
		write_none(qp, responder);
		return;
	}
	cqe.byte_cnt = htobe32(fields->bytes);
	cqe.timestamp = htobe64(cq->engine->now_nsec);
	cqe.sop_drop_qpn = htobe32((uint32_t)fields->wqe_opcode << 24 | qp->attr.qpn);
	cqe.wqe_counter = htobe16(fields->wqe_counter);
	cqe.op_own = op_own(cq, fields->cqe_opcode);
	cqe.srqn_uidx = htobe32(qp->attr.user_index);
	if (responder) {
		cqe.slid = htobe16(fields->slid);
		cqe.flags_rqpn = htobe32(fields->rqpn);
		cqe.srqn_uidx = htobe32(responder_index(qp));
		cqe.imm_inval_pkey = htobe32(fields->imm);
	}
	cq->error_qpn = CQ_NO_QPN;
	publish(cq, qp, entry, &cqe, responder, fields->solicited);
}

void cq_write_error(struct cq *cq, struct engine_qp *qp, const struct cqe_fields *fields)
{
	bool flush = fields->syndrome == SHMD_SYNDROME_WR_FLUSH_ERR;
	bool responder = fields->cqe_opcode == SHMD_CQE_RESP_ERR;
	struct shmd_err_cqe err = {0};
	struct shmd_cqe cqe;
	uint64_t *entry;

	qp->counters->error_cqes++;
	if (!qp->first_error)
		qp->first_error = fields->syndrome;
	if ((cq->attr.flags & ENGINE_CQ_COLLAPSED) && flush && cq->error_qpn == qp->attr.qpn)
		entry = NULL;
	else
		entry = next_entry(cq);
	if (!entry) {
		write_none(qp, responder);
		return;
	}
	err.srqn = htobe32(responder ? responder_index(qp) : qp->attr.user_index);
	err.syndrome = fields->syndrome;
	err.s_wqe_opcode_qpn = htobe32((uint32_t)fields->wqe_opcode << 24 | qp->attr.qpn);
	err.wqe_counter = htobe16(fields->wqe_counter);
	err.op_own = op_own(cq, fields->cqe_opcode);
	memcpy(&cqe, &err, sizeof(cqe));
	cq->error_qpn = qp->attr.qpn;
	publish(cq, qp, entry, &cqe, responder, true);
}

/* The QP begins a new life: an error CQE of the former one hides nothing any more. */
void cq_forget_error(struct cq *cq, const struct engine_qp *qp)
{
	if (cq->error_qpn != qp->attr.qpn)
		return;
	cq->error_qpn = CQ_NO_QPN;
	ledger_note_cq(cq);
}

/* Did the client ask for an event since the last one? */
static bool take_arm(struct cq *cq, bool solicited)
{
	uint32_t arm = be32toh(__atomic_load_n(dbrec_word(cq, offsetof(struct shmd_dbrec, snd)),
					       __ATOMIC_ACQUIRE));

	if (arm == cq->fired_arm || ((arm & ARM_SOLICITED_ONLY) && !solicited))
		return false;
	cq->fired_arm = arm;
	return true;
}

void cq_notify_all(struct engine *engine)
{
	if (list_empty(&engine->notify_cqs))
		return;
	/* CQEs before arm words: a client arms and then looks at the ring once more; one of the two sees the other. */
	__sync_synchronize();
	while (!list_empty(&engine->notify_cqs)) {
		struct cq *cq = list_first_entry(&engine->notify_cqs, struct cq, notify_link);
		struct engine_event ev = {ENGINE_EVENT_CQ_COMPLETION, cq->attr.cqn, 0, false};
		bool solicited = cq->new_solicited;

		list_del(&cq->notify_link);
		cq->new_solicited = false;
		fault_point(engine, ENGINE_STEP_NOTIFY);
		if (take_arm(cq, solicited))
			engine->ops.event(engine->owner, &ev);
	}
}

static void bury(struct cq *cq)
{
	struct engine *engine = cq->engine;
	struct engine_event ev = {ENGINE_EVENT_CQ_OVERRUN, cq->attr.cqn, 0, false};
	struct engine_qp *qp;

	engine->ops.event(engine->owner, &ev);
	list_for_each_entry(qp, &engine->all_qps, all_link) {
		if (qp->send_cq == cq || qp->recv_cq == cq)
			qp_error(qp, 0, qp->send_cq != cq);
	}
}

void cq_bury_dead(struct engine *engine)
{
	while (!list_empty(&engine->dead_cqs)) {
		struct cq *cq = list_first_entry(&engine->dead_cqs, struct cq, dead_link);

		list_del(&cq->dead_link);
		bury(cq);
	}
}
