/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The responder: executes the peer's requests in PSN order, one at a time.
 *
 * A request's memory effects start only when those of the one before have ended, so order holds over memory that
 * answers late; where that memory keeps the order itself, writes are early (responder-early.c). Replies travel in the packet of the request they answer; only the responses of a long READ need
 * packets of their own. Acknowledgements that are due are sent once, when there is nothing more to execute.
 *
 * Duplicates: WRITE and SEND are acknowledged and not executed, READ is executed again, an atomic is answered from
 * the replay table. A request that breaks a rule is refused with a NAK and moves the QP to ERR; a receive WQE that was taken
 * for it gets an error CQE first.
 */
#include "daemon/engine/ledger-private.h"

/* ---- replies -------------------------------------------------------------------------------------------------- */

void responder_drop_ack(struct engine_qp *qp)
{
	struct responder *resp = &qp->resp;

	resp->ack_due = false;
	resp->spent = packet_put(qp->engine, resp->spent);
}

static void reply(struct engine_qp *qp, struct engine_packet *pkt, enum packet_kind kind,
		  uint32_t psn)
{
	packet_drop_payload(pkt);
	pkt->kind = (uint8_t)kind;
	pkt->flags = 0;
	pkt->psn = psn;
	qp_send(qp, pkt);
	fault_point(qp->engine, ENGINE_STEP_REPLY);
}

/* Acknowledge everything executed. */
void responder_flush_ack(struct engine_qp *qp)
{
	struct responder *resp = &qp->resp;
	struct engine_packet *pkt = resp->spent;

	if (!resp->ack_due)
		return;
	resp->ack_due = false;
	resp->spent = NULL;
	reply(qp, pkt, PACKET_ACK, psn_add(early_oldest_psn(resp), PSN_MASK));
}

void responder_owe_ack(struct engine_qp *qp, struct engine_packet *pkt)
{
	struct responder *resp = &qp->resp;

	packet_put(qp->engine, resp->spent);
	packet_drop_payload(pkt);
	resp->spent = pkt;
	resp->ack_due = true;
}

/* A WRITE or SEND is noted as executed. Takes the packet. */
void responder_executed(struct engine_qp *qp, struct engine_packet *pkt)
{
	fault_point(qp->engine, ENGINE_STEP_EXECUTED);
	if (pkt->flags & PACKET_ACK_REQ)
		responder_owe_ack(qp, pkt);
	else
		packet_put(qp->engine, pkt);
}

/* A NAK acknowledges everything before its PSN. Takes the packet. */
void responder_reply_nak(struct engine_qp *qp, struct engine_packet *pkt, enum packet_nak nak,
			 uint32_t psn)
{
	responder_drop_ack(qp);
	pkt->nak = (uint8_t)nak;
	pkt->rnr_timer = qp->path.min_rnr_timer;
	reply(qp, pkt, PACKET_NAK, psn);
}

static uint8_t own_syndrome(enum packet_nak nak)
{
	return nak == NAK_REMOTE_ACCESS ? SHMD_SYNDROME_LOCAL_ACCESS_ERR
					: SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR;
}

/* Refuse the request under way; on an unreliable QP only a fault of its own is an error. Takes the packet. */
void responder_fail_with(struct engine_qp *qp, struct engine_packet *pkt, enum packet_nak nak,
			 uint8_t syndrome)
{
	struct responder *resp = &qp->resp;
	uint32_t psn = resp->reading ? resp->read_psn : pkt->psn;
	struct cqe_fields fields = {
		.cqe_opcode = SHMD_CQE_RESP_ERR,
		.syndrome = syndrome,
		.wqe_counter = resp->recv_index,
	};

	if (unlikely(!qp->reliable && nak != NAK_REMOTE_OP)) {
		qp->service->drop(qp, pkt);
		return;
	}
	resp->pkt = NULL;
	resp->copy.n_dst = 0;
	if (likely(qp->reliable))
		responder_reply_nak(qp, pkt, nak, psn);
	else
		packet_put(qp->engine, pkt);
	if (resp->has_recv) {
		resp->has_recv = false;
		qp->failing = true;
		cq_write_error(qp->recv_cq, qp, &fields);
	}
	qp_error(qp, syndrome, true);
}

void responder_fail(struct engine_qp *qp, struct engine_packet *pkt, enum packet_nak nak)
{
	responder_fail_with(qp, pkt, nak, own_syndrome(nak));
}

/*
 * A right that the QP lacks makes the request an invalid one; a right that the region lacks is an access error. Linux has it so
 * in rxe (drivers/infiniband/sw/rxe/rxe_resp.c, check_op_valid) and in hfi1 and qib (rc.c, nack_inv).
 */
void responder_refuse(struct engine_qp *qp, struct engine_packet *pkt, int r)
{
	responder_fail(qp, pkt, r == -EPERM ? NAK_INVALID_REQUEST : NAK_REMOTE_ACCESS);
}

/* The memory a request names. -EPERM: this QP does not allow it; -EACCES: the region does not. */
int responder_resolve_remote(struct engine_qp *qp, const struct engine_packet *pkt, uint32_t access,
			     uint64_t bytes, struct mem_span *ret_span)
{
	struct mr_want want = {
		.key = pkt->rkey,
		.pdn = qp->remote_pdn,
		.access = access,
		.addr = pkt->raddr,
		.bytes = bytes,
		.remote_of = qp,
	};

	if (!(qp->path.access & access))
		return -EPERM;
	if (!bytes) {
		ret_span->bytes = 0;
		return 0;
	}
	return mr_resolve(qp->engine, &qp->resp.mr, &want, ret_span);
}

/* ---- order -------------------------------------------------------------------------------------------------------------------- */

static void duplicate(struct engine_qp *qp, struct engine_packet *pkt)
{
	if (pkt->kind == PACKET_READ || pkt->kind == PACKET_ATOMIC)
		responder_duplicate_fetch(qp, pkt);
	else
		responder_owe_ack(qp, pkt);
}

static void out_of_sequence(struct engine_qp *qp, struct engine_packet *pkt)
{
	struct responder *resp = &qp->resp;

	if (resp->nak_sent) {
		packet_put(qp->engine, pkt);
		return;
	}
	resp->nak_sent = true;
	responder_reply_nak(qp, pkt, NAK_PSN_SEQUENCE, resp->expected_psn);
}

/* Takes the packet. */
static void execute(struct engine_qp *qp, struct engine_packet *pkt)
{
	struct responder *resp = &qp->resp;
	int32_t ahead = psn_diff(pkt->psn, resp->expected_psn);

	if (unlikely(!qp->reliable)) {
		qp->service->execute(qp, pkt);
		return;
	}
	if (unlikely(ahead >= 0 && !qp_can_receive(qp))) {
		packet_put(qp->engine, pkt);
		return;
	}
	if (unlikely(ahead > 0)) {
		out_of_sequence(qp, pkt);
		return;
	}
	if (unlikely(qp->service) && !qp->service->attend(qp, pkt, ahead == 0))
		return;
	if (unlikely(ahead < 0)) {
		duplicate(qp, pkt);
		return;
	}
	resp->nak_sent = false;
	switch ((enum packet_kind)pkt->kind) {
	case PACKET_READ:
		responder_execute_read(qp, pkt);
		return;
	case PACKET_ATOMIC:
		responder_execute_atomic(qp, pkt);
		return;
	default:
		responder_execute_data(qp, pkt);
		return;
	}
}

/* Go on with `pkt`. False when it still waits. */
static bool resume(struct engine_qp *qp)
{
	uint8_t kind = qp->resp.pkt->kind;

	return kind == PACKET_READ || kind == PACKET_ATOMIC ? responder_resume_fetch(qp)
							    : responder_resume_data(qp);
}

/* ---- early writes --------------------------------------------------------------------------------------------------------- */

/* Must it wait until they have ended? */
static bool is_held_back(struct engine_qp *qp, const struct engine_packet *pkt)
{
	struct mem_span span;

	if (likely(!early_is_open(&qp->resp)))
		return false;
	return !early_may_follow(qp, pkt) ||
	       responder_resolve_remote(qp, pkt, ENGINE_ACCESS_REMOTE_WRITE, pkt->length_bytes, &span) < 0 ||
	       !early_keeps_order(&qp->resp, span.mem);
}

static void early_done(struct engine_qp *qp, struct engine_packet *pkt)
{
	fault_point(qp->engine, ENGINE_STEP_PAYLOAD);
	qp->engine->moved_bytes += pkt->payload_bytes;
	ledger_note_resp(qp);
	responder_executed(qp, pkt);
}

/* Ends those at the front that are done. Returns how many: a turn that takes them all begins nothing else, and the next one does. */
static unsigned int end_early(struct engine_qp *qp, unsigned int budget)
{
	struct engine_packet *pkt;
	unsigned int n = 0;
	int status = 0;

	for (; n < budget && status == 0 && (pkt = early_take(&qp->resp, &status)); n++) {
		if (likely(status == 0))
			early_done(qp, pkt);
		else
			responder_fail_with(qp, pkt, NAK_REMOTE_OP, SHMD_SYNDROME_LOCAL_PROT_ERR);
	}
	return n;
}

/* Up to `budget` requests and READ responses. */
unsigned int responder_run(struct engine_qp *qp, unsigned int budget)
{
	struct responder *resp = &qp->resp;
	unsigned int done = end_early(qp, budget);

	while (done < budget && (qp_can_receive(qp) || qp_answers_again(qp))) {
		struct engine_packet *pkt;

		if (resp->pkt) {
			if (!resume(qp))
				break;
		} else {
			if (list_empty(&resp->rx))
				break;
			pkt = list_first_entry(&resp->rx, struct engine_packet, link);
			if (is_held_back(qp, pkt))
				break;
			list_del(&pkt->link);
			execute(qp, pkt);
		}
		done++;
		if (turn_is_over(qp))
			break;
	}
	responder_flush_ack(qp);
	return done;
}
