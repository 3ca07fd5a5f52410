/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The responder's WRITE and SEND, and the receive WQEs they take.
 *
 * SEND takes a receive WQE with its first packet, WRITE with immediate data with its last. The range of a WRITE is
 * checked as a whole before its first byte is written, and each part again when it is written, since the region may
 * have gone. A receive WQE is copied once and parsed; its keys are looked up when bytes arrive for them.
 */
#include "daemon/engine/ledger-private.h"

/* ---- receive WQEs ------------------------------------------------------------------------------------------------ */

uint16_t qp_read_rcv(const struct engine_qp *qp)
{
	const struct shmd_dbrec *dbrec = qp->attr.dbrec;

	if (unlikely(qp->frozen))
		return qp->resp.pi;
	return (uint16_t)be32toh(__atomic_load_n(&dbrec->rcv, __ATOMIC_ACQUIRE));
}

/* From its first byte on: it is new, or the message that it was taken for was dropped. */
static void rewind_recv(struct responder *resp)
{
	resp->recv_sge = resp->recv_sge_offset = 0;
	resp->recv_left_bytes = resp->recv_bytes;
}

/* Copies and parses the receive WQE at `index`. 0, or its syndrome. */
static uint8_t parse_recv(struct engine_qp *qp, uint16_t index)
{
	struct responder *resp = &qp->resp;
	uint32_t slot = index & ((1u << qp->attr.log2_rq_wqes) - 1);
	/* bounded: at most 2^9, when the QP was made. */
	size_t stride = (size_t)1 << qp->attr.log2_rq_stride;
	uint8_t wqe[512];

	memcpy(wqe, (const uint8_t *)qp->attr.rq_ring + slot * stride, stride);
	return (uint8_t)wqe_parse_recv(wqe, stride, &resp->n_recv_sges, resp->recv_sges,
				       &resp->recv_bytes);
}

static bool recv_is_posted(struct engine_qp *qp)
{
	struct responder *resp = &qp->resp;

	if (unlikely(qp->srq))
		return srq_is_posted(qp->srq);
	if (resp->pi == resp->ci)
		resp->pi = qp_read_rcv(qp);
	return resp->pi != resp->ci;
}

/* The next one of the QP's own ring. 0, or its syndrome. */
static uint8_t take_own(struct engine_qp *qp)
{
	struct responder *resp = &qp->resp;
	uint8_t syndrome;

	resp->has_recv = true;
	resp->recv_index = resp->ci;
	if (unlikely((uint16_t)(resp->pi - resp->ci) > 1u << qp->attr.log2_rq_wqes)) {
		resp->ci = resp->pi;
		return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	}
	syndrome = parse_recv(qp, resp->ci);
	resp->ci++;
	fault_point(qp->engine, ENGINE_STEP_TAKE);
	return syndrome;
}

/* Where the message under way has come to in its receive WQE. */
static void seek_recv(struct responder *resp)
{
	uint64_t left = resp->done_bytes;

	if (left > resp->recv_bytes)
		left = resp->recv_bytes;
	resp->recv_left_bytes -= left;
	while (left && left >= resp->recv_sges[resp->recv_sge].bytes)
		left -= resp->recv_sges[resp->recv_sge++].bytes;
	resp->recv_sge_offset = (uint32_t)left;
}

/* The receive WQE that a former process had taken, after the message that it was for. One that is wrong now has no room. */
void responder_retake(struct engine_qp *qp, uint16_t index)
{
	struct responder *resp = &qp->resp;
	uint16_t next;

	resp->has_recv = true;
	resp->recv_index = index;
	if (!qp->srq && !qp->attr.rq_ring)
		resp->has_recv = false;
	else if (qp->srq ? index >> qp->srq->attr.log2_wqes || srq_parse(qp, index, &next) : parse_recv(qp, index))
		resp->recv_bytes = resp->n_recv_sges = 0;
	rewind_recv(resp);
	if (resp->in_message && resp->message_kind == PACKET_SEND)
		seek_recv(resp);
}

static void not_ready(struct engine_qp *qp, struct engine_packet *pkt)
{
	if (unlikely(!qp->reliable)) {
		qp->service->drop(qp, pkt);
		return;
	}
	qp->resp.nak_sent = true;
	responder_reply_nak(qp, pkt, NAK_RNR, qp->resp.expected_psn);
}

/* Takes the next receive WQE, or the one left of a dropped message. False when the request ended here: not ready, or refused. */
bool responder_take_recv(struct engine_qp *qp, struct engine_packet *pkt)
{
	struct responder *resp = &qp->resp;
	uint8_t syndrome;

	if (unlikely(resp->has_recv)) {
		rewind_recv(resp);
		return true;
	}
	if (unlikely(!qp->attr.rq_ring && !qp->srq)) {
		responder_fail(qp, pkt, NAK_INVALID_REQUEST);
		return false;
	}
	if (unlikely(!recv_is_posted(qp))) {
		not_ready(qp, pkt);
		return false;
	}
	syndrome = unlikely(qp->srq) ? srq_take(qp) : take_own(qp);
	if (unlikely(syndrome)) {
		responder_fail_with(qp, pkt, NAK_REMOTE_OP, syndrome);
		return false;
	}
	rewind_recv(resp);
	return true;
}

/* Where the next bytes of the receive WQE lie; there are enough. -EACCES */
int responder_add_recv_targets(struct engine_qp *qp, uint32_t bytes)
{
	struct responder *resp = &qp->resp;
	struct mem_span span;

	resp->recv_left_bytes -= bytes;
	while (bytes) {
		const struct wqe_sge *sge = &resp->recv_sges[resp->recv_sge];
		/* bounded: an address that wraps lies in no region, says mr_resolve(). */
		uint32_t left = sge->bytes - resp->recv_sge_offset;
		struct mr_want want = {
			.key = sge->lkey,
			.pdn = qp->recv_pdn,
			.access = ENGINE_ACCESS_LOCAL_WRITE,
			.addr = sge->addr + resp->recv_sge_offset,
			.bytes = left < bytes ? left : bytes,
		};

		if (mr_resolve(qp->engine, &resp->recv_mr, &want, &span) < 0)
			return -EACCES;
		copy_add_dst(&resp->copy, &span);
		bytes -= span.bytes;
		resp->recv_sge_offset += span.bytes;
		if (resp->recv_sge_offset == sge->bytes) {
			resp->recv_sge++;
			resp->recv_sge_offset = 0;
		}
	}
	return 0;
}

/* ---- WRITE and SEND ------------------------------------------------------------------------------------------------- */

static void write_recv_cqe(struct engine_qp *qp, const struct engine_packet *pkt)
{
	struct responder *resp = &qp->resp;
	bool imm = pkt->flags & PACKET_IMM, inval = pkt->flags & PACKET_INVAL;
	struct cqe_fields fields = {
		.cqe_opcode = imm ? SHMD_CQE_RESP_SEND_IMM : SHMD_CQE_RESP_SEND,
		.solicited = pkt->flags & PACKET_SOLICITED,
		.wqe_counter = resp->recv_index,
		.bytes = (uint32_t)resp->done_bytes,
		.imm = imm || inval ? pkt->imm : 0,
		.rqpn = pkt->src_qpn,
	};

	if (pkt->kind == PACKET_WRITE)
		fields.cqe_opcode = SHMD_CQE_RESP_WRITE_IMM;
	else if (inval)
		fields.cqe_opcode = SHMD_CQE_RESP_SEND_INV;
	if (unlikely(qp->service && qp->service->fill_recv_cqe))
		qp->service->fill_recv_cqe(pkt, &fields);
	else if (unlikely(qp->is_dc))
		fields.slid = qp->dc.slid;
	resp->has_recv = false;
	qp->counters->recv_wqes++;
	cq_write(qp->recv_cq, qp, &fields);
}

static int invalidate(struct engine_qp *qp, uint32_t key)
{
	const struct engine_extension *extension = qp->engine->extension;

	return extension ? extension->invalidate_key(qp, key) : -EACCES;
}

/* The payload is in place, or not. Takes the packet. */
static void data_done(struct engine_qp *qp, struct engine_packet *pkt, int status)
{
	struct responder *resp = &qp->resp;
	bool last = pkt->flags & PACKET_LAST;

	resp->pkt = NULL;
	resp->copy.n_dst = 0;
	fault_point(qp->engine, ENGINE_STEP_PAYLOAD);
	if (unlikely(status < 0 && !qp->reliable)) {
		/* Perhaps the sender's memory failed, and that is no error of this side. */
		qp->service->drop(qp, pkt);
		return;
	}
	if (unlikely(status < 0)) {
		responder_fail_with(qp, pkt, NAK_REMOTE_OP, SHMD_SYNDROME_LOCAL_PROT_ERR);
		return;
	}
	if (unlikely((pkt->flags & PACKET_INVAL) && invalidate(qp, pkt->imm) < 0)) {
		responder_fail(qp, pkt, NAK_REMOTE_ACCESS);
		return;
	}
	resp->expected_psn = psn_add(resp->expected_psn, 1);
	resp->left_bytes -= pkt->payload_bytes;
	resp->done_bytes += pkt->payload_bytes;
	resp->in_message = !last;
	if (last && resp->has_recv)
		write_recv_cqe(qp, pkt);
	else
		ledger_note_resp(qp);
	responder_executed(qp, pkt);
}

void responder_moved(struct engine_qp *qp, struct engine_packet *pkt, int r)
{
	if (r == -EINPROGRESS)
		qp->resp.pkt = pkt;
	else
		data_done(qp, pkt, r);
}

static void move_payload(struct engine_qp *qp, struct engine_packet *pkt)
{
	responder_moved(qp, pkt, pkt->payload_bytes ? copy_start(&qp->resp.copy, pkt) : 0);
}

/* Opens the message; the whole range is checked before its first byte is written. */
static int open_write(struct engine_qp *qp, const struct engine_packet *pkt)
{
	struct responder *resp = &qp->resp;
	struct mem_span whole;
	int r = responder_resolve_remote(qp, pkt, ENGINE_ACCESS_REMOTE_WRITE, pkt->length_bytes, &whole);

	if (r < 0)
		return r;
	resp->rkey = pkt->rkey;
	resp->raddr = pkt->raddr;
	resp->left_bytes = pkt->length_bytes;
	return 0;
}

/* 1: the write goes on by itself. */
static int add_write_target(struct engine_qp *qp, struct engine_packet *pkt)
{
	struct responder *resp = &qp->resp;
	struct mr_want want = {
		.key = resp->rkey,
		.pdn = qp->remote_pdn,
		.access = ENGINE_ACCESS_REMOTE_WRITE,
		/* bounded: raddr and all that is written from there were resolved as a whole. */
		.addr = resp->raddr + resp->done_bytes,
		.bytes = pkt->payload_bytes,
		.remote_of = qp,
	};
	struct mem_span span;

	if (!pkt->payload_bytes)
		return 0;
	if (mr_resolve(qp->engine, &resp->mr, &want, &span) < 0)
		return -EACCES;
	if (unlikely(span.mem->ops->order) && early_start(qp, pkt, &span))
		return 1;
	copy_add_dst(&resp->copy, &span);
	return 0;
}

static bool length_is_right(const struct responder *resp, const struct engine_packet *pkt)
{
	if (pkt->flags & PACKET_LAST)
		return pkt->payload_bytes == resp->left_bytes;
	return pkt->payload_bytes && pkt->payload_bytes < resp->left_bytes;
}

static void execute_write(struct engine_qp *qp, struct engine_packet *pkt)
{
	struct responder *resp = &qp->resp;
	int r;

	/* Before it takes a receive, and before it is not ready. */
	if (!(qp->path.access & ENGINE_ACCESS_REMOTE_WRITE)) {
		responder_refuse(qp, pkt, -EPERM);
		return;
	}
	if ((pkt->flags & PACKET_IMM) && !responder_take_recv(qp, pkt))
		return;
	r = pkt->flags & PACKET_FIRST ? open_write(qp, pkt) : 0;
	if (r < 0) {
		responder_refuse(qp, pkt, r);
		return;
	}
	if (!length_is_right(resp, pkt)) {
		responder_fail(qp, pkt, NAK_INVALID_REQUEST);
		return;
	}
	r = add_write_target(qp, pkt);
	if (r < 0)
		responder_fail(qp, pkt, NAK_REMOTE_ACCESS);
	else if (r == 0)
		move_payload(qp, pkt);
}

static void execute_send(struct engine_qp *qp, struct engine_packet *pkt)
{
	struct responder *resp = &qp->resp;

	if ((pkt->flags & PACKET_FIRST) && !responder_take_recv(qp, pkt))
		return;
	if (pkt->payload_bytes > resp->recv_left_bytes)
		responder_fail_with(qp, pkt, NAK_INVALID_REQUEST, SHMD_SYNDROME_LOCAL_LENGTH_ERR);
	else if (responder_add_recv_targets(qp, pkt->payload_bytes) < 0)
		responder_fail_with(qp, pkt, NAK_REMOTE_OP, SHMD_SYNDROME_LOCAL_PROT_ERR);
	else
		move_payload(qp, pkt);
}

void responder_execute_data(struct engine_qp *qp, struct engine_packet *pkt)
{
	struct responder *resp = &qp->resp;
	bool first = pkt->flags & PACKET_FIRST;

	if (first == resp->in_message || (!first && pkt->kind != resp->message_kind)) {
		responder_fail(qp, pkt, NAK_INVALID_REQUEST);
		return;
	}
	if (first) {
		resp->message_kind = pkt->kind;
		resp->done_bytes = 0;
	}
	if (pkt->kind == PACKET_WRITE)
		execute_write(qp, pkt);
	else
		execute_send(qp, pkt);
}

/* Go on with the payload under way. False when it still waits. */
bool responder_resume_data(struct engine_qp *qp)
{
	int r = copy_continue(&qp->resp.copy);

	if (r == -EINPROGRESS)
		return false;
	data_done(qp, qp->resp.pkt, r);
	return true;
}
