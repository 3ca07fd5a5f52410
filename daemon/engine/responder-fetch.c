/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The responder's READ and atomics.
 *
 * A READ is answered packet by packet, each naming the memory its payload lies in: the peer copies it from there.
 * Its request waits in the half until the last response, which travels in it. The result of an atomic is kept for
 * the case that its response is lost.
 */
#include "daemon/engine/ledger-private.h"

/* ---- READ --------------------------------------------------------------------------------------------------------------- */

static uint32_t n_responses(const struct engine_packet *pkt)
{
	/* bounded by the 2 GiB of a message. */
	uint64_t n = (pkt->length_bytes + pkt->mtu_bytes - 1) / pkt->mtu_bytes;

	return n ? (uint32_t)n : 1;
}

/* Takes the packet: it stays until the last response, which travels in it. */
static void start_read(struct engine_qp *qp, struct engine_packet *pkt, bool again)
{
	struct responder *resp = &qp->resp;

	resp->pkt = pkt;
	resp->reading = true;
	resp->read_again = again;
	resp->read_psn = pkt->psn;
	resp->read_done_bytes = 0;
	if (again)
		responder_flush_ack(qp);
	else
		responder_drop_ack(qp);
}

static bool read_is_sane(const struct engine_qp *qp, const struct engine_packet *pkt)
{
	return qp->path.max_dest_rd_atomic && pkt->mtu_bytes &&
	       pkt->length_bytes <= WQE_MAX_MESSAGE_BYTES && !qp->resp.in_message;
}

void responder_execute_read(struct engine_qp *qp, struct engine_packet *pkt)
{
	struct responder *resp = &qp->resp;
	struct mem_span whole;
	int r;

	if (!read_is_sane(qp, pkt)) {
		responder_fail(qp, pkt, NAK_INVALID_REQUEST);
		return;
	}
	r = responder_resolve_remote(qp, pkt, ENGINE_ACCESS_REMOTE_READ, pkt->length_bytes, &whole);
	if (r < 0) {
		responder_refuse(qp, pkt, r);
		return;
	}
	resp->expected_psn = psn_add(resp->expected_psn, n_responses(pkt));
	ledger_note_resp(qp);
	fault_point(qp->engine, ENGINE_STEP_EXECUTED);
	start_read(qp, pkt, false);
}

static void read_refused(struct engine_qp *qp)
{
	struct engine_packet *pkt = qp->resp.pkt;
	bool again = qp->resp.read_again;

	qp->resp.pkt = NULL;
	if (again) {
		qp->resp.reading = false;
		packet_put(qp->engine, pkt);
		return;
	}
	responder_fail(qp, pkt, NAK_REMOTE_ACCESS);
}

static void fill_response(struct engine_packet *pkt, const struct mem_span *span)
{
	const void *from = NULL;

	pkt->n_segs = 0;
	pkt->payload_bytes = span->bytes;
	if (span->bytes <= PACKET_SMALL_BYTES)
		from = span->bytes ? span_pointer(span) : pkt->data;
	if (from)
		copy_bytes(pkt->data, from, span->bytes);
	else
		packet_add_seg(pkt, span);
}

/* The memory cannot be sent to this peer. Without a packet for the refusal the peer asks again. */
static void read_cannot_be_sent(struct engine_qp *qp, uint32_t psn)
{
	struct responder *resp = &qp->resp;
	struct engine_packet *pkt = resp->pkt ? resp->pkt : tenant_packet(qp, PACKET_USE_RESPONSE);

	if (!pkt)
		return;
	resp->pkt = NULL;
	resp->reading = false;
	pkt->psn = psn;
	responder_fail_with(qp, pkt, NAK_REMOTE_OP, SHMD_SYNDROME_LOCAL_PROT_ERR);
}

/* One response. False when there is no packet for it now. */
static bool step_read(struct engine_qp *qp)
{
	struct responder *resp = &qp->resp;
	struct engine_packet *request = resp->pkt;
	/* bounded: an address that wraps lies in no region, says mr_resolve(). */
	uint64_t left = request->length_bytes - resp->read_done_bytes;
	bool last = left <= request->mtu_bytes;
	struct mr_want want = {
		.key = request->rkey,
		.pdn = qp->remote_pdn,
		.access = ENGINE_ACCESS_REMOTE_READ,
		.addr = request->raddr + resp->read_done_bytes,
		.bytes = last ? left : request->mtu_bytes,
		.remote_of = qp,
	};
	struct engine_packet *pkt = request;
	struct mem_span span = {NULL, 0, 0};
	uint32_t psn;

	if (want.bytes && mr_resolve(qp->engine, &resp->mr, &want, &span) < 0) {
		read_refused(qp);
		return true;
	}
	if (!last)
		pkt = tenant_packet(qp, PACKET_USE_RESPONSE);
	if (!pkt)
		return false;
	pkt->kind = PACKET_READ_RESPONSE;
	pkt->flags = last ? PACKET_LAST : 0;
	pkt->psn = resp->read_psn;
	fill_response(pkt, &span);
	psn = resp->read_psn;
	resp->read_psn = psn_add(resp->read_psn, 1);
	resp->read_done_bytes += span.bytes;
	if (last) {
		resp->pkt = NULL;
		resp->reading = false;
	}
	if (unlikely(qp_send(qp, pkt) == -EOPNOTSUPP))
		read_cannot_be_sent(qp, psn);
	else
		fault_point(qp->engine, ENGINE_STEP_REPLY);
	return true;
}

/* ---- atomics -------------------------------------------------------------------------------------------------------------- */

static void reply_atomic(struct engine_qp *qp, struct engine_packet *pkt,
			 const struct replay *replay)
{
	uint64_t wide = qp->engine->attr.results_8_be ? htobe64(replay->old) : replay->old;
	uint32_t narrow = htobe32((uint32_t)replay->old);

	packet_drop_payload(pkt);
	pkt->kind = PACKET_ATOMIC_RESPONSE;
	pkt->flags = PACKET_LAST;
	pkt->psn = replay->psn;
	pkt->payload_bytes = replay->bytes;
	if (replay->bytes == 4)
		memcpy(pkt->data, &narrow, 4);
	else
		memcpy(pkt->data, &wide, 8);
	qp_send(qp, pkt);
	fault_point(qp->engine, ENGINE_STEP_REPLY);
}

/* Takes the packet. */
static void atomic_finish(struct engine_qp *qp, struct engine_packet *pkt, int status, uint64_t old)
{
	struct responder *resp = &qp->resp;
	struct replay *replay = &resp->replay[resp->replay_next];

	resp->pkt = NULL;
	fault_point(qp->engine, ENGINE_STEP_ATOMIC);
	if (status < 0) {
		ledger_note_resp(qp);
		responder_fail_with(qp, pkt, NAK_REMOTE_OP, SHMD_SYNDROME_LOCAL_PROT_ERR);
		return;
	}
	*replay = (struct replay){.valid = true, .psn = pkt->psn, .old = old, .bytes = pkt->atomic.bytes};
	ledger_note_replay(qp, replay);
	resp->replay_next = (resp->replay_next + 1) % REPLAY_ENTRIES;
	resp->expected_psn = psn_add(resp->expected_psn, 1);
	ledger_note_resp(qp);
	fault_point(qp->engine, ENGINE_STEP_EXECUTED);
	responder_drop_ack(qp);
	reply_atomic(qp, pkt, replay);
}

static void issue_atomic(struct engine_qp *qp, struct engine_packet *pkt,
			 const struct mem_span *span)
{
	struct responder *resp = &qp->resp;
	void *word = span_pointer(span);
	int r;

	if (word && ((uintptr_t)word & (span->bytes - 1))) {
		responder_fail(qp, pkt, NAK_INVALID_REQUEST);
		return;
	}
	ledger_note_atomic(qp);
	if (word) {
		atomic_finish(qp, pkt, 0, engine_atomic_apply(word, &pkt->atomic));
		return;
	}
	resp->atomic_pending = true;
	resp->atomic_status = 0;
	resp->pkt = pkt;
	engine_mem_ref(span->mem);
	resp->atomic_mem = span->mem;
	r = span->mem->ops->atomic(span->mem, span->offset, &pkt->atomic, &resp->atomic_old,
				   &resp->atomic_op);
	if (r == -EINPROGRESS)
		return;
	resp->atomic_pending = false;
	resp->atomic_mem = engine_mem_unref(resp->atomic_mem);
	atomic_finish(qp, pkt, r, resp->atomic_old);
}

void responder_execute_atomic(struct engine_qp *qp, struct engine_packet *pkt)
{
	uint32_t bytes = pkt->atomic.bytes;
	struct mem_span span;
	int r;

	if (qp->resp.in_message || !qp->path.max_dest_rd_atomic) {
		responder_fail(qp, pkt, NAK_INVALID_REQUEST);
		return;
	}
	r = responder_resolve_remote(qp, pkt, ENGINE_ACCESS_REMOTE_ATOMIC, bytes, &span);
	if (r < 0)
		responder_refuse(qp, pkt, r);
	else if ((pkt->raddr | span.offset) & (bytes - 1))
		responder_fail(qp, pkt, NAK_INVALID_REQUEST);
	else
		issue_atomic(qp, pkt, &span);
}

/* Go on with the READ or atomic under way. False when it still waits. */
bool responder_resume_fetch(struct engine_qp *qp)
{
	struct responder *resp = &qp->resp;

	if (resp->reading)
		return step_read(qp);
	if (resp->atomic_pending)
		return false;
	atomic_finish(qp, resp->pkt, resp->atomic_status, resp->atomic_old);
	return true;
}

/* ---- duplicates ---------------------------------------------------------------------------------------------- */

static const struct replay *find_replay(const struct responder *resp, uint32_t psn)
{
	/* Newest first: PSNs come round again. */
	for (unsigned int i = 1; i <= REPLAY_ENTRIES; i++) {
		const struct replay *replay =
			&resp->replay[(resp->replay_next - i) % REPLAY_ENTRIES];

		if (replay->valid && replay->psn == psn)
			return replay;
	}
	return NULL;
}

static void duplicate_read(struct engine_qp *qp, struct engine_packet *pkt)
{
	struct responder *resp = &qp->resp;
	struct mem_span whole;

	if (!qp->path.max_dest_rd_atomic || !pkt->mtu_bytes ||
	    pkt->length_bytes > WQE_MAX_MESSAGE_BYTES ||
	    psn_ahead(resp->expected_psn, pkt->psn) < n_responses(pkt) ||
	    responder_resolve_remote(qp, pkt, ENGINE_ACCESS_REMOTE_READ, pkt->length_bytes,
				     &whole) < 0) {
		packet_put(qp->engine, pkt);
		return;
	}
	start_read(qp, pkt, true);
}

void responder_duplicate_fetch(struct engine_qp *qp, struct engine_packet *pkt)
{
	const struct replay *replay;

	if (pkt->kind == PACKET_READ) {
		duplicate_read(qp, pkt);
		return;
	}
	responder_flush_ack(qp);
	replay = find_replay(&qp->resp, pkt->psn);
	if (replay && unlikely(replay->unknown))
		responder_fail_with(qp, pkt, NAK_OUTCOME_UNKNOWN, SHMD_SYNDROME_OUTCOME_UNKNOWN);
	else if (replay)
		reply_atomic(qp, pkt, replay);
	else
		packet_put(qp->engine, pkt);
}
