/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requester's way in: acknowledgements, responses, retries, completions.
 *
 * Completions are in order: only the oldest entry completes. A response implies the acknowledgement of everything
 * before it, so when one is looked at, the oldest entry is the one it belongs to. After a gap (a READ response
 * overtaken by an acknowledgement, a PSN sequence NAK, a timer) everything from that PSN on is sent again.
 */
#include "daemon/engine/ledger-private.h"

static struct sent *oldest(struct requester *req)
{
	return &req->sent[req->head & req->sent_mask];
}

static bool has_outstanding(const struct requester *req)
{
	return req->unacked_psn != req->sent_psn;
}

#define GRACE_NSEC 20000000u

uint64_t requester_retry_nsec(const struct engine_qp *qp)
{
	uint64_t nsec = timer_retry_nsec(qp->path.timeout);

	return unlikely(qp->req.grace && nsec > GRACE_NSEC) ? GRACE_NSEC : nsec;
}

/* The peer made progress. */
static void note_progress(struct engine_qp *qp)
{
	struct requester *req = &qp->req;

	req->recovering = false;
	req->grace = 0;
	req->peer_stamp = 0;
	req->behind_since_nsec = 0;
	req->retry_left = qp->path.retry_count;
	req->rnr_left = qp->path.rnr_retry;
	if (req->rnr_wait)
		return;
	if (has_outstanding(req))
		timer_arm(qp, requester_retry_nsec(qp));
	else
		timer_cancel(qp);
}

/* ---- completion ----------------------------------------------------------------------------------------------- */

static void count(struct engine_qp *qp, const struct sent *sent)
{
	struct engine_qp_counters *c = qp->counters;

	c->wqes++;
	c->wqes_by_kind[sent->kind]++;
	if (sent->kind == ENGINE_WQE_READ)
		c->bytes_read += sent->bytes;
	else
		c->bytes_sent += sent->bytes;
}

static void complete(struct engine_qp *qp, const struct sent *sent)
{
	struct requester *req = &qp->req;
	struct cqe_fields fields = {
		.cqe_opcode = SHMD_CQE_REQ,
		.wqe_opcode = sent->opcode,
		.wqe_counter = sent->wqe_index,
		.bytes = sent->bytes,
	};

	count(qp, sent);
	if (sent->flags & SENT_FETCH) {
		req->n_fetches--;
		req->n_reads -= sent->kind == ENGINE_WQE_READ;
	}
	req->oldest = (uint16_t)(sent->wqe_index + sent->n_wqebbs);
	req->head++;
	fault_point(qp->engine, ENGINE_STEP_COMPLETE);
	if (sent->flags & SENT_SIGNALED)
		cq_write(qp->send_cq, qp, &fields);
	else
		ledger_note_req(qp);
}

/* True when the QP goes on: the request's stream does not. */
static bool complete_failed(struct engine_qp *qp, const struct sent *sent)
{
	struct requester *req = &qp->req;
	struct cqe_fields fields = {
		.cqe_opcode = SHMD_CQE_REQ_ERR,
		.wqe_opcode = sent->opcode,
		.syndrome = sent->syndrome,
		.wqe_counter = sent->wqe_index,
	};

	req->oldest = (uint16_t)(sent->wqe_index + sent->n_wqebbs);
	req->head++;
	qp->failing = true; /* those with streams have no ledger */
	cq_write_error(qp->send_cq, qp, &fields);
	if (unlikely(qp->streams.max) && qp->engine->extension->stream_takes_error(qp, sent))
		return true;
	if (unlikely(!qp->reliable))
		qp->service->fail(qp, fields.syndrome);
	else
		qp_error(qp, fields.syndrome, false);
	return false;
}

static bool is_done(const struct engine_qp *qp, const struct sent *sent)
{
	if (!(sent->flags & SENT_STARTED))
		return false;
	if ((sent->flags & SENT_FETCH) || unlikely(!qp->reliable))
		return sent->n_responses == sent->n_psns;
	return !sent->n_psns ||
	       psn_diff(qp->req.unacked_psn, psn_add(sent->first_psn, sent->n_psns)) >= 0;
}

static void report_drained(struct engine_qp *qp)
{
	struct engine_event ev = {ENGINE_EVENT_QP_SQ_DRAINED, qp->attr.qpn, 0, false};

	if (qp->state != ENGINE_QP_SQD || qp->req.head != qp->req.tail || qp->req.drain_reported)
		return;
	if (unlikely(requester_resumes(&qp->req)))
		return; /* some of them are still to be fetched again */
	qp->req.drain_reported = true;
	qp->engine->ops.event(qp->engine->owner, &ev);
}

/* Complete what is done, oldest first; fail at the first that failed. */
void requester_advance(struct engine_qp *qp)
{
	struct requester *req = &qp->req;

	while (req->head != req->tail) {
		struct sent *sent = oldest(req);

		if (unlikely(sent->syndrome)) {
			if (complete_failed(qp, sent))
				continue;
			return;
		}
		if (!is_done(qp, sent))
			break;
		complete(qp, sent);
	}
	/* A resend may have been overtaken by the acknowledgement it was made for. */
	if ((int32_t)(req->cursor - req->head) < 0) {
		req->cursor = req->head;
		req->loaded = false;
		req->resume_packet = 0;
	}
	report_drained(qp);
}

void requester_fail(struct engine_qp *qp, struct sent *sent, uint8_t syndrome)
{
	struct requester *req = &qp->req;

	sent->syndrome = syndrome;
	req->halted = true;
	req->loaded = false;
	requester_advance(qp);
	/* Earlier requests may not have asked for an acknowledgement. */
	if (qp->state != ENGINE_QP_ERR)
		requester_solicit(qp, sent->flags & SENT_STARTED ? sent->first_psn : req->sent_psn);
}

/* ---- resending ---------------------------------------------------------------------------------------------------- */

/* Send again from this PSN on, which is on its way. */
void requester_resend(struct engine_qp *qp, uint32_t psn)
{
	struct requester *req = &qp->req;

	for (uint32_t i = req->head; i != req->tail; i++) {
		const struct sent *sent = &req->sent[i & req->sent_mask];
		uint32_t packet = psn_ahead(psn, sent->first_psn);

		if (!(sent->flags & SENT_STARTED) || packet >= sent->n_psns)
			continue;
		req->cursor = i;
		req->loaded = false;
		req->resume_packet = packet;
		qp_ready(qp);
		return;
	}
}

/* When nothing on its way asks for an acknowledgement, send the packet before this PSN again, asking. */
void requester_solicit(struct engine_qp *qp, uint32_t behind_psn)
{
	struct requester *req = &qp->req;

	if (req->n_since_ack_req && psn_diff(behind_psn, req->unacked_psn) > 0)
		requester_resend(qp, psn_add(behind_psn, PSN_MASK));
}

/* Something was lost at this PSN. One loss shows many times: only the first, and the timer, count. */
static void lost(struct engine_qp *qp, uint32_t psn)
{
	struct requester *req = &qp->req;

	if (req->recovering && req->recovered_psn == psn)
		return;
	req->recovering = true;
	req->recovered_psn = psn;
	if (!req->retry_left && !req->grace) {
		requester_fail(qp, oldest(req), SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
		return;
	}
	if (unlikely(req->grace))
		req->grace--;
	else
		req->retry_left--;
	qp->counters->retries++;
	timer_arm(qp, requester_retry_nsec(qp));
	requester_resend(qp, psn);
}

#define BEHIND_LEAST_NSEC 4000000u
#define BEHIND_MOST_NSEC 100000000u
#define BEHIND_PATIENCE_NSEC 60000000000ull

/*
 * An answer is here, and this side has not come to it; or the QP waits for packets or for its way, so it has not sent what the other
 * side would answer, and could not send anything again.
 */
static bool is_behind_itself(const struct engine_qp *qp)
{
	return !list_empty(&qp->packet_link[PACKET_USE_REQUEST]) || !list_empty(&qp->req.rx) || qp->req.pkt;
}

/*
 * Has the other side not run since it could have answered? Then the timer runs on, for a while that grows: many QPs may wait for
 * one that does not run for long. For a minute in all: then each expiry spends a retry, until the peer has run.
 */
static bool peer_is_behind(struct engine_qp *qp)
{
	struct engine *engine = qp->engine;
	struct requester *req = &qp->req;
	uint64_t nsec;

	if (!engine->ops.is_peer_behind || !qp->has_route ||
	    (!is_behind_itself(qp) &&
	     !engine->ops.is_peer_behind(engine->owner, qp->route, qp->path.dest_qpn, &req->peer_stamp))) {
		req->behind_since_nsec = 0;
		return false;
	}
	if (!req->behind_since_nsec)
		req->behind_since_nsec = engine->now_nsec;
	nsec = engine->now_nsec - req->behind_since_nsec;
	if (nsec > BEHIND_PATIENCE_NSEC)
		return false;
	nsec = nsec < BEHIND_LEAST_NSEC ? BEHIND_LEAST_NSEC : nsec;
	timer_arm(qp, nsec < BEHIND_MOST_NSEC ? nsec : BEHIND_MOST_NSEC);
	return true;
}

void requester_timer(struct engine_qp *qp)
{
	struct requester *req = &qp->req;

	if (!qp_can_send(qp))
		return;
	if (req->rnr_wait) {
		req->rnr_wait = false;
		qp_ready(qp);
		return;
	}
	if (!has_outstanding(req))
		return;
	if (req->pkt || !list_empty(&req->rx)) {
		timer_arm(qp, requester_retry_nsec(qp));
		return;
	}
	if (peer_is_behind(qp))
		return;
	req->recovering = false;
	lost(qp, req->unacked_psn);
}

/* ---- input ---------------------------------------------------------------------------------------------------------- */

/*
 * Everything before `upto` has arrived. False when that is impossible (old or foreign), or when it shows that a
 * response of a READ or atomic before it was lost.
 */
static bool acknowledge(struct engine_qp *qp, uint32_t upto)
{
	struct requester *req = &qp->req;
	uint32_t n = psn_ahead(upto, req->unacked_psn), life = req->life;
	struct sent *sent;
	uint32_t missing;

	if (unlikely(n > psn_ahead(req->sent_psn, req->unacked_psn))) {
		/* The peer may have executed what a former process sent, and this one has not come to yet. */
		if (!qp->restored || psn_diff(upto, req->sent_psn) <= 0)
			return false;
		upto = req->sent_psn;
		n = psn_ahead(upto, req->unacked_psn);
	}
	if (!n)
		return true;
	req->unacked_psn = upto;
	requester_advance(qp);
	/* A connection that a stream's error has ended is not heard any more either. */
	if (qp->state == ENGINE_QP_ERR || req->life != life)
		return false;
	sent = oldest(req);
	if (req->head != req->tail && (sent->flags & SENT_STARTED) && (sent->flags & SENT_FETCH)) {
		missing = psn_add(sent->first_psn, sent->n_responses);
		if (psn_diff(upto, missing) > 0) {
			req->unacked_psn = missing;
			lost(qp, missing);
			return false;
		}
	}
	note_progress(qp);
	return true;
}

/* Can this PSN be answered? */
static bool is_on_its_way(const struct requester *req, uint32_t psn)
{
	return psn_ahead(psn, req->unacked_psn) < psn_ahead(req->sent_psn, req->unacked_psn);
}

static void rnr(struct engine_qp *qp, const struct engine_packet *pkt)
{
	struct requester *req = &qp->req;

	qp->counters->rnr_naks++;
	if (qp->path.rnr_retry != 7) {
		if (!req->rnr_left) {
			requester_fail(qp, oldest(req), SHMD_SYNDROME_RNR_RETRY_EXC_ERR);
			return;
		}
		req->rnr_left--;
	}
	requester_resend(qp, pkt->psn);
	req->rnr_wait = true;
	timer_arm(qp, timer_rnr_nsec(pkt->rnr_timer));
}

static uint8_t nak_syndrome(enum packet_nak nak)
{
	switch (nak) {
	case NAK_REMOTE_ACCESS:
		return SHMD_SYNDROME_REMOTE_ACCESS_ERR;
	case NAK_REMOTE_OP:
		return SHMD_SYNDROME_REMOTE_OP_ERR;
	case NAK_OUTCOME_UNKNOWN:
		return SHMD_SYNDROME_OUTCOME_UNKNOWN;
	default:
		return SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR;
	}
}

static void input_nak(struct engine_qp *qp, const struct engine_packet *pkt)
{
	struct requester *req = &qp->req;

	if (!is_on_its_way(req, pkt->psn) || !acknowledge(qp, pkt->psn))
		return;
	if (pkt->nak == NAK_RNR)
		rnr(qp, pkt);
	else if (pkt->nak == NAK_PSN_SEQUENCE)
		lost(qp, pkt->psn);
	else
		requester_fail(qp, oldest(req), nak_syndrome(pkt->nak));
}

/* The scatter list of an entry; the common single reference is kept in it. */
static const struct wqe_sge *scatter_list(struct engine_qp *qp, const struct sent *sent)
{
	struct engine *engine = qp->engine;
	int r;

	if (sent->n_sges == 1)
		return &sent->sge;
	r = parse_shadow(qp, sent->wqe_index, sent->n_wqebbs, &engine->scratch);
	assert_bug(r == 0);
	return engine->scratch.sges;
}

/* Where the payload of the next response goes. -EACCES when a region is gone. */
static int add_targets(struct engine_qp *qp, const struct sent *sent, uint32_t bytes)
{
	const struct wqe_sge *sge = scatter_list(qp, sent);
	/* bounded: offsets by the 2 GiB of a message; an address that wraps lies in no region, says mr_resolve(). */
	uint64_t offset = (uint64_t)sent->n_responses << qp->log2_mtu;
	struct mem_span span;

	while (offset >= sge->bytes)
		offset -= sge++->bytes;
	while (bytes) {
		struct mr_want want = {
			.key = sge->lkey,
			.pdn = qp->attr.pdn,
			.access = ENGINE_ACCESS_LOCAL_WRITE,
			.addr = sge->addr + offset,
			.bytes = sge->bytes - offset < bytes ? sge->bytes - offset : bytes,
		};

		if (mr_resolve(qp->engine, &qp->req.mr, &want, &span) < 0)
			return -EACCES;
		copy_add_dst(&qp->req.copy, &span);
		bytes -= span.bytes;
		offset = 0;
		sge++;
	}
	return 0;
}

static void response_copied(struct engine_qp *qp, struct engine_packet *pkt, int status)
{
	struct requester *req = &qp->req;
	struct sent *sent = oldest(req);

	qp->req.pkt = NULL;
	packet_put(qp->engine, pkt);
	fault_point(qp->engine, ENGINE_STEP_RESPONSE);
	if (status < 0) {
		requester_fail(qp, sent, SHMD_SYNDROME_LOCAL_PROT_ERR);
		return;
	}
	sent->n_responses++;
	req->unacked_psn = psn_add(sent->first_psn, sent->n_responses);
	requester_advance(qp);
	if (qp->state != ENGINE_QP_ERR)
		note_progress(qp);
}

static uint32_t expected_bytes(const struct engine_qp *qp, const struct sent *sent)
{
	uint64_t left = sent->bytes - ((uint64_t)sent->n_responses << qp->log2_mtu);

	return left < 1u << qp->log2_mtu ? (uint32_t)left : 1u << qp->log2_mtu;
}

/* Is this the response the oldest entry waits for? */
static bool is_expected(const struct requester *req, const struct sent *sent,
			const struct engine_packet *pkt)
{
	enum engine_wqe_kind kind =
		pkt->kind == PACKET_READ_RESPONSE ? ENGINE_WQE_READ : ENGINE_WQE_ATOMIC;

	return req->head != req->tail && (sent->flags & SENT_STARTED) && sent->kind == kind &&
	       pkt->psn == psn_add(sent->first_psn, sent->n_responses);
}

/* Takes the packet. */
static void input_response(struct engine_qp *qp, struct engine_packet *pkt)
{
	struct requester *req = &qp->req;
	struct sent *sent;
	int r = 0;

	if (!is_on_its_way(req, pkt->psn) || !acknowledge(qp, pkt->psn) ||
	    !is_expected(req, oldest(req), pkt)) {
		packet_put(qp->engine, pkt);
		return;
	}
	sent = oldest(req);
	if (pkt->payload_bytes != expected_bytes(qp, sent)) {
		packet_put(qp->engine, pkt);
		requester_fail(qp, sent, SHMD_SYNDROME_BAD_RESP_ERR);
		return;
	}
	if (pkt->payload_bytes) {
		r = add_targets(qp, sent, pkt->payload_bytes);
		r = r < 0 ? r : copy_start(&req->copy, pkt);
	}
	if (r == -EINPROGRESS) {
		req->pkt = pkt;
		return;
	}
	req->copy.n_dst = 0;
	response_copied(qp, pkt, r);
}

/* Takes the packet. */
static void input(struct engine_qp *qp, struct engine_packet *pkt)
{
	switch ((enum packet_kind)pkt->kind) {
	case PACKET_READ_RESPONSE:
	case PACKET_ATOMIC_RESPONSE:
		input_response(qp, pkt);
		return;
	case PACKET_NAK:
		input_nak(qp, pkt);
		break;
	default:
		acknowledge(qp, psn_add(pkt->psn, 1));
		break;
	}
	packet_put(qp->engine, pkt);
}

static bool finish_copy(struct engine_qp *qp)
{
	int r = copy_continue(&qp->req.copy);

	if (r == -EINPROGRESS)
		return false;
	response_copied(qp, qp->req.pkt, r);
	return true;
}

/* Up to `budget` responses; one whose payload is still being copied holds up those behind it. */
unsigned int requester_input(struct engine_qp *qp, unsigned int budget)
{
	struct requester *req = &qp->req;
	unsigned int done = 0;

	while (done < budget && qp_can_send(qp)) {
		struct engine_packet *pkt;

		if (req->pkt) {
			if (!finish_copy(qp))
				break;
		} else {
			if (list_empty(&req->rx))
				break;
			pkt = list_first_entry(&req->rx, struct engine_packet, link);
			list_del(&pkt->link);
			input(qp, pkt);
		}
		done++;
		if (turn_is_over(qp))
			break;
	}
	return done;
}
