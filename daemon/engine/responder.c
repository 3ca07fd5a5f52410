/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The responder: executes the peer's requests in PSN order, one at a time.
 *
 * A request's memory effects start only when those of the one before have ended, so order holds over memory that
 * answers late. Replies travel in the packet of the request they answer; only the responses of a long READ need
 * packets of their own. Acknowledgements that are due are sent once, when there is nothing more to execute.
 *
 * Duplicates: WRITE and SEND are acknowledged and not executed, READ is executed again, an atomic is answered from
 * the replay table. What breaks a rule is refused with a NAK and moves the QP to ERR; a receive WQE that was taken
 * for it gets an error CQE first.
 */
#include "daemon/engine/engine-private.h"

/* ---- replies -------------------------------------------------------------------------------------------------- */

static void drop_ack(struct engine_qp *qp)
{
	struct responder *resp = &qp->resp;

	resp->ack_due = false;
	resp->spent = packet_put(qp->engine, resp->spent);
}

static void reply(struct engine_qp *qp, struct engine_packet *pkt, enum packet_kind kind, uint32_t psn)
{
	packet_drop_payload(pkt);
	pkt->kind = (uint8_t)kind;
	pkt->flags = 0;
	pkt->psn = psn;
	qp_send(qp, pkt);
}

/* Acknowledge everything executed. */
static void flush_ack(struct engine_qp *qp)
{
	struct responder *resp = &qp->resp;
	struct engine_packet *pkt = resp->spent;

	if (!resp->ack_due)
		return;
	resp->ack_due = false;
	resp->spent = NULL;
	reply(qp, pkt, PACKET_ACK, psn_add(resp->expected_psn, PSN_MASK));
}

static void owe_ack(struct engine_qp *qp, struct engine_packet *pkt)
{
	struct responder *resp = &qp->resp;

	packet_put(qp->engine, resp->spent);
	packet_drop_payload(pkt);
	resp->spent = pkt;
	resp->ack_due = true;
}

/* A NAK acknowledges everything before its PSN. Takes the packet. */
static void reply_nak(struct engine_qp *qp, struct engine_packet *pkt, enum packet_nak nak, uint32_t psn)
{
	drop_ack(qp);
	pkt->nak = (uint8_t)nak;
	pkt->rnr_timer = qp->path.min_rnr_timer;
	reply(qp, pkt, PACKET_NAK, psn);
}

static uint8_t own_syndrome(enum packet_nak nak)
{
	return nak == NAK_REMOTE_ACCESS ? SHMD_SYNDROME_LOCAL_ACCESS_ERR :
					  SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR;
}

/* Refuse the request under way. Takes the packet. */
static void fail_with(struct engine_qp *qp, struct engine_packet *pkt, enum packet_nak nak,
		      uint8_t syndrome)
{
	struct responder *resp = &qp->resp;
	uint32_t psn = resp->reading ? resp->read_psn : pkt->psn;
	struct cqe_fields fields = {
		.cqe_opcode = SHMD_CQE_RESP_ERR,
		.syndrome = syndrome,
		.wqe_counter = resp->recv_index,
	};

	resp->pkt = NULL;
	resp->copy.n_dst = 0;
	reply_nak(qp, pkt, nak, psn);
	if (resp->has_recv) {
		resp->has_recv = false;
		cq_write_error(qp->recv_cq, qp, &fields);
	}
	qp_error(qp, syndrome, true);
}

static void fail(struct engine_qp *qp, struct engine_packet *pkt, enum packet_nak nak)
{
	fail_with(qp, pkt, nak, own_syndrome(nak));
}

/* ---- receive WQEs ------------------------------------------------------------------------------------------------ */

uint16_t qp_read_rcv(const struct engine_qp *qp)
{
	const struct shmd_dbrec *dbrec = qp->attr.dbrec;

	return (uint16_t)be32toh(__atomic_load_n(&dbrec->rcv, __ATOMIC_ACQUIRE));
}

/* Copies and parses the receive WQE at ci. 0, or its syndrome. */
static uint8_t parse_recv(struct engine_qp *qp)
{
	struct responder *resp = &qp->resp;
	uint32_t slot = resp->ci & ((1u << qp->attr.log2_rq_wqes) - 1);
	size_t stride = (size_t)1 << qp->attr.log2_rq_stride;
	uint8_t wqe[512];

	memcpy(wqe, (const uint8_t *)qp->attr.rq_ring + slot * stride, stride);
	return (uint8_t)wqe_parse_recv(wqe, stride, &resp->n_recv_sges, resp->recv_sges,
				       &resp->recv_left_bytes);
}

static bool recv_is_posted(struct engine_qp *qp)
{
	struct responder *resp = &qp->resp;

	if (resp->pi == resp->ci)
		resp->pi = qp_read_rcv(qp);
	return resp->pi != resp->ci;
}

/* Takes the next receive WQE. False when the request ended here: not ready, or refused. */
static bool take_recv(struct engine_qp *qp, struct engine_packet *pkt)
{
	struct responder *resp = &qp->resp;
	uint8_t syndrome = 0;

	if (unlikely(!qp->attr.rq_ring)) {
		fail(qp, pkt, NAK_INVALID_REQUEST);
		return false;
	}
	if (unlikely(!recv_is_posted(qp))) {
		resp->nak_sent = true;
		reply_nak(qp, pkt, NAK_RNR, resp->expected_psn);
		return false;
	}
	resp->has_recv = true;
	resp->recv_index = resp->ci;
	resp->recv_sge = resp->recv_sge_offset = 0;
	if (unlikely((uint16_t)(resp->pi - resp->ci) > 1u << qp->attr.log2_rq_wqes)) {
		resp->ci = resp->pi;
		syndrome = SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	} else {
		syndrome = parse_recv(qp);
		resp->ci++;
	}
	if (unlikely(syndrome)) {
		fail_with(qp, pkt, NAK_REMOTE_OP, syndrome);
		return false;
	}
	return true;
}

/* Where the next bytes of the receive WQE lie; there are enough. -EACCES */
static int add_recv_targets(struct engine_qp *qp, uint32_t bytes)
{
	struct responder *resp = &qp->resp;
	struct mem_span span;

	resp->recv_left_bytes -= bytes;
	while (bytes) {
		const struct wqe_sge *sge = &resp->recv_sges[resp->recv_sge];
		uint32_t left = sge->bytes - resp->recv_sge_offset;
		struct mr_want want = {
			.key = sge->lkey,
			.pdn = qp->attr.pdn,
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
	bool imm = pkt->flags & PACKET_IMM;
	struct cqe_fields fields = {
		.cqe_opcode = imm ? SHMD_CQE_RESP_SEND_IMM : SHMD_CQE_RESP_SEND,
		.solicited = pkt->flags & PACKET_SOLICITED,
		.wqe_counter = resp->recv_index,
		.bytes = (uint32_t)resp->done_bytes,
		.imm = imm ? pkt->imm : 0,
	};

	if (pkt->kind == PACKET_WRITE)
		fields.cqe_opcode = SHMD_CQE_RESP_WRITE_IMM;
	resp->has_recv = false;
	qp->counters.recv_wqes++;
	cq_write(qp->recv_cq, qp, &fields);
}

/* The payload is in place, or not. Takes the packet. */
static void data_done(struct engine_qp *qp, struct engine_packet *pkt, int status)
{
	struct responder *resp = &qp->resp;
	bool last = pkt->flags & PACKET_LAST;

	resp->pkt = NULL;
	resp->copy.n_dst = 0;
	if (unlikely(status < 0)) {
		fail_with(qp, pkt, NAK_REMOTE_OP, SHMD_SYNDROME_LOCAL_PROT_ERR);
		return;
	}
	resp->expected_psn = psn_add(resp->expected_psn, 1);
	resp->left_bytes -= pkt->payload_bytes;
	resp->done_bytes += pkt->payload_bytes;
	resp->in_message = !last;
	if (last && resp->has_recv)
		write_recv_cqe(qp, pkt);
	if (pkt->flags & PACKET_ACK_REQ)
		owe_ack(qp, pkt);
	else
		packet_put(qp->engine, pkt);
}

static void move_payload(struct engine_qp *qp, struct engine_packet *pkt)
{
	int r = pkt->payload_bytes ? copy_start(&qp->resp.copy, pkt) : 0;

	if (r == -EINPROGRESS)
		qp->resp.pkt = pkt;
	else
		data_done(qp, pkt, r);
}

static int resolve_remote(struct engine_qp *qp, const struct engine_packet *pkt, uint32_t access,
			  uint64_t bytes, struct mem_span *ret_span)
{
	struct mr_want want = {
		.key = pkt->rkey,
		.pdn = qp->attr.pdn,
		.access = access,
		.addr = pkt->raddr,
		.bytes = bytes,
	};

	if (!(qp->path.access & access))
		return -EACCES;
	if (!bytes) {
		ret_span->bytes = 0;
		return 0;
	}
	return mr_resolve(qp->engine, &qp->resp.mr, &want, ret_span);
}

/* Opens the message; the whole range is checked before its first byte is written. */
static int open_write(struct engine_qp *qp, const struct engine_packet *pkt)
{
	struct responder *resp = &qp->resp;
	struct mem_span whole;

	if (resolve_remote(qp, pkt, ENGINE_ACCESS_REMOTE_WRITE, pkt->length_bytes, &whole) < 0)
		return -EACCES;
	resp->rkey = pkt->rkey;
	resp->raddr = pkt->raddr;
	resp->left_bytes = pkt->length_bytes;
	return 0;
}

static int add_write_target(struct engine_qp *qp, const struct engine_packet *pkt)
{
	struct responder *resp = &qp->resp;
	struct mr_want want = {
		.key = resp->rkey,
		.pdn = qp->attr.pdn,
		.access = ENGINE_ACCESS_REMOTE_WRITE,
		.addr = resp->raddr + resp->done_bytes,
		.bytes = pkt->payload_bytes,
	};
	struct mem_span span;

	if (!pkt->payload_bytes)
		return 0;
	if (mr_resolve(qp->engine, &resp->mr, &want, &span) < 0)
		return -EACCES;
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

	if ((pkt->flags & PACKET_IMM) && !take_recv(qp, pkt))
		return;
	if ((pkt->flags & PACKET_FIRST) && open_write(qp, pkt) < 0)
		fail(qp, pkt, NAK_REMOTE_ACCESS);
	else if (!length_is_right(resp, pkt))
		fail(qp, pkt, NAK_INVALID_REQUEST);
	else if (add_write_target(qp, pkt) < 0)
		fail(qp, pkt, NAK_REMOTE_ACCESS);
	else
		move_payload(qp, pkt);
}

static void execute_send(struct engine_qp *qp, struct engine_packet *pkt)
{
	struct responder *resp = &qp->resp;

	if ((pkt->flags & PACKET_FIRST) && !take_recv(qp, pkt))
		return;
	if (pkt->payload_bytes > resp->recv_left_bytes)
		fail_with(qp, pkt, NAK_INVALID_REQUEST, SHMD_SYNDROME_LOCAL_LENGTH_ERR);
	else if (add_recv_targets(qp, pkt->payload_bytes) < 0)
		fail_with(qp, pkt, NAK_REMOTE_OP, SHMD_SYNDROME_LOCAL_PROT_ERR);
	else
		move_payload(qp, pkt);
}

static void execute_data(struct engine_qp *qp, struct engine_packet *pkt)
{
	struct responder *resp = &qp->resp;
	bool first = pkt->flags & PACKET_FIRST;

	if (first == resp->in_message || (!first && pkt->kind != resp->message_kind)) {
		fail(qp, pkt, NAK_INVALID_REQUEST);
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

/* ---- READ --------------------------------------------------------------------------------------------------------------- */

static uint32_t n_responses(const struct engine_packet *pkt)
{
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
		flush_ack(qp);
	else
		drop_ack(qp);
}

static bool read_is_sane(const struct engine_qp *qp, const struct engine_packet *pkt)
{
	return qp->path.max_dest_rd_atomic && pkt->mtu_bytes && pkt->length_bytes <= WQE_MAX_MESSAGE_BYTES &&
	       !qp->resp.in_message;
}

static void execute_read(struct engine_qp *qp, struct engine_packet *pkt)
{
	struct responder *resp = &qp->resp;
	struct mem_span whole;

	if (!read_is_sane(qp, pkt)) {
		fail(qp, pkt, NAK_INVALID_REQUEST);
		return;
	}
	if (resolve_remote(qp, pkt, ENGINE_ACCESS_REMOTE_READ, pkt->length_bytes, &whole) < 0) {
		fail(qp, pkt, NAK_REMOTE_ACCESS);
		return;
	}
	resp->expected_psn = psn_add(resp->expected_psn, n_responses(pkt));
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
	fail(qp, pkt, NAK_REMOTE_ACCESS);
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

/* One response. False when there is no packet for it now. */
static bool step_read(struct engine_qp *qp)
{
	struct responder *resp = &qp->resp;
	struct engine_packet *request = resp->pkt;
	uint64_t left = request->length_bytes - resp->read_done_bytes;
	bool last = left <= request->mtu_bytes;
	struct mr_want want = {
		.key = request->rkey,
		.pdn = qp->attr.pdn,
		.access = ENGINE_ACCESS_REMOTE_READ,
		.addr = request->raddr + resp->read_done_bytes,
		.bytes = last ? left : request->mtu_bytes,
	};
	struct engine_packet *pkt = request;
	struct mem_span span = {NULL, 0, 0};

	if (want.bytes && mr_resolve(qp->engine, &resp->mr, &want, &span) < 0) {
		read_refused(qp);
		return true;
	}
	if (!last)
		pkt = packet_alloc(qp->engine, 0);
	if (!pkt) {
		if (list_empty(&qp->packet_link))
			list_add_tail(&qp->engine->packet_waiters, &qp->packet_link);
		return false;
	}
	pkt->kind = PACKET_READ_RESPONSE;
	pkt->flags = last ? PACKET_LAST : 0;
	pkt->psn = resp->read_psn;
	fill_response(pkt, &span);
	resp->read_psn = psn_add(resp->read_psn, 1);
	resp->read_done_bytes += span.bytes;
	if (last) {
		resp->pkt = NULL;
		resp->reading = false;
	}
	qp_send(qp, pkt);
	return true;
}

/* ---- atomics -------------------------------------------------------------------------------------------------------------- */

static void reply_atomic(struct engine_qp *qp, struct engine_packet *pkt, const struct replay *replay)
{
	uint32_t narrow = htobe32((uint32_t)replay->old);

	packet_drop_payload(pkt);
	pkt->kind = PACKET_ATOMIC_RESPONSE;
	pkt->flags = PACKET_LAST;
	pkt->psn = replay->psn;
	pkt->payload_bytes = replay->bytes;
	if (replay->bytes == 4)
		memcpy(pkt->data, &narrow, 4);
	else
		memcpy(pkt->data, &replay->old, 8);
	qp_send(qp, pkt);
}

/* Takes the packet. */
static void atomic_finish(struct engine_qp *qp, struct engine_packet *pkt, int status, uint64_t old)
{
	struct responder *resp = &qp->resp;
	struct replay *replay = &resp->replay[resp->replay_next];

	resp->pkt = NULL;
	if (status < 0) {
		fail_with(qp, pkt, NAK_REMOTE_OP, SHMD_SYNDROME_LOCAL_PROT_ERR);
		return;
	}
	*replay = (struct replay){true, pkt->psn, old, pkt->atomic.bytes};
	resp->replay_next = (resp->replay_next + 1) % REPLAY_ENTRIES;
	resp->expected_psn = psn_add(resp->expected_psn, 1);
	drop_ack(qp);
	reply_atomic(qp, pkt, replay);
}

static void issue_atomic(struct engine_qp *qp, struct engine_packet *pkt, const struct mem_span *span)
{
	struct responder *resp = &qp->resp;
	void *word = span_pointer(span);
	int r;

	if (word && ((uintptr_t)word & (span->bytes - 1))) {
		fail(qp, pkt, NAK_INVALID_REQUEST);
		return;
	}
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

static void execute_atomic(struct engine_qp *qp, struct engine_packet *pkt)
{
	uint32_t bytes = pkt->atomic.bytes;
	struct mem_span span;

	if (qp->resp.in_message || !qp->path.max_dest_rd_atomic)
		fail(qp, pkt, NAK_INVALID_REQUEST);
	else if (resolve_remote(qp, pkt, ENGINE_ACCESS_REMOTE_ATOMIC, bytes, &span) < 0)
		fail(qp, pkt, NAK_REMOTE_ACCESS);
	else if ((pkt->raddr | span.offset) & (bytes - 1))
		fail(qp, pkt, NAK_INVALID_REQUEST);
	else
		issue_atomic(qp, pkt, &span);
}

/* ---- order -------------------------------------------------------------------------------------------------------------------- */

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

	if (!qp->path.max_dest_rd_atomic || !pkt->mtu_bytes || pkt->length_bytes > WQE_MAX_MESSAGE_BYTES ||
	    psn_ahead(resp->expected_psn, pkt->psn) < n_responses(pkt) ||
	    resolve_remote(qp, pkt, ENGINE_ACCESS_REMOTE_READ, pkt->length_bytes, &whole) < 0) {
		packet_put(qp->engine, pkt);
		return;
	}
	start_read(qp, pkt, true);
}

static void duplicate(struct engine_qp *qp, struct engine_packet *pkt)
{
	const struct replay *replay;

	if (pkt->kind == PACKET_READ) {
		duplicate_read(qp, pkt);
	} else if (pkt->kind == PACKET_ATOMIC) {
		flush_ack(qp);
		replay = find_replay(&qp->resp, pkt->psn);
		if (replay)
			reply_atomic(qp, pkt, replay);
		else
			packet_put(qp->engine, pkt);
	} else {
		owe_ack(qp, pkt);
	}
}

static void out_of_sequence(struct engine_qp *qp, struct engine_packet *pkt)
{
	struct responder *resp = &qp->resp;

	if (resp->nak_sent) {
		packet_put(qp->engine, pkt);
		return;
	}
	resp->nak_sent = true;
	reply_nak(qp, pkt, NAK_PSN_SEQUENCE, resp->expected_psn);
}

/* Takes the packet. */
static void execute(struct engine_qp *qp, struct engine_packet *pkt)
{
	struct responder *resp = &qp->resp;
	int32_t ahead = psn_diff(pkt->psn, resp->expected_psn);

	if (unlikely(ahead > 0)) {
		out_of_sequence(qp, pkt);
		return;
	}
	if (unlikely(ahead < 0)) {
		duplicate(qp, pkt);
		return;
	}
	resp->nak_sent = false;
	switch ((enum packet_kind)pkt->kind) {
	case PACKET_READ:
		execute_read(qp, pkt);
		return;
	case PACKET_ATOMIC:
		execute_atomic(qp, pkt);
		return;
	default:
		execute_data(qp, pkt);
		return;
	}
}

/* Go on with `pkt`. False when it still waits. */
static bool resume(struct engine_qp *qp)
{
	struct responder *resp = &qp->resp;
	int r;

	if (resp->reading)
		return step_read(qp);
	if (resp->pkt->kind == PACKET_ATOMIC) {
		if (resp->atomic_pending)
			return false;
		atomic_finish(qp, resp->pkt, resp->atomic_status, resp->atomic_old);
		return true;
	}
	r = copy_continue(&resp->copy);
	if (r == -EINPROGRESS)
		return false;
	data_done(qp, resp->pkt, r);
	return true;
}

/* Up to `budget` requests and READ responses. */
unsigned int responder_run(struct engine_qp *qp, unsigned int budget)
{
	struct responder *resp = &qp->resp;
	unsigned int done = 0;

	while (done < budget && qp_can_receive(qp)) {
		struct engine_packet *pkt;

		if (resp->pkt) {
			if (!resume(qp))
				break;
		} else {
			if (list_empty(&resp->rx))
				break;
			pkt = list_first_entry(&resp->rx, struct engine_packet, link);
			list_del(&pkt->link);
			execute(qp, pkt);
		}
		done++;
	}
	flush_ack(qp);
	return done;
}
