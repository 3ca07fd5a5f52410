/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What UC and UD do otherwise than RC.
 *
 * Nothing is acknowledged and nothing sent again. A request completes when its last packet was sent and nobody reads
 * the client's memory for it any more: packets that carry references are awaited, and count when they come back to the
 * pool of this engine, whether executed, dropped or lost. Those that carry their payload are done at once.
 *
 * The responder drops a message whole: when a packet of it is missing, when no receive WQE is posted, when it is longer
 * than its receive, or not allowed. A receive WQE that had been taken serves the next message. What was written of a
 * message that breaks off stays written. Only a receive WQE that is wrong itself is an error.
 *
 * A UD message is one packet, whose way and header the owner makes from its address vector. A frame of a raw packet QP is none:
 * nobody would receive it, so it is done when its request was checked.
 */
#include "daemon/engine/ledger-private.h"

#define OWN_QKEY 0x80000000u /* bit of the Q_Key of a WQE */

/* ---- requester ------------------------------------------------------------------------------------------------------ */

#define MAX_FRAME_BYTES 16384u

/* Has a request of a raw packet QP something that a port could send? */
bool unreliable_check_frame(const struct engine_qp *qp, const struct sent *sent)
{
	return sent->kind == ENGINE_WQE_NOP ||
	       (sent->opcode == SHMD_OPCODE_SEND && sent->bytes <= MAX_FRAME_BYTES);
}

/* Before the packet at the cursor is sent. */
void unreliable_await(struct engine_qp *qp, struct sent *sent, struct engine_packet *pkt)
{
	if (!pkt->n_segs) {
		sent->n_responses++;
		return;
	}
	pkt->awaited = true;
	pkt->unreliable.life = qp->req.life;
	pkt->unreliable.entry = qp->req.cursor;
	qp->engine->n_awaited++;
}

static void emit_datagram(struct engine_qp *qp, struct engine_packet *pkt)
{
	struct packet_unreliable *to = &pkt->unreliable;
	const struct wqe_request *cur = &qp->req.cur;
	struct engine *engine = qp->engine;

	packet_sign(pkt, qp);
	pkt->dest_qpn = cur->av_qpn;
	to->qkey = (uint32_t)(cur->av_key >> 32);
	if (to->qkey & OWN_QKEY)
		to->qkey = qp->path.qkey;
	to->path = (struct engine_ud_path){0};
	if (engine->ops.ud_path(engine->owner, qp->attr.qpn, &cur->av, pkt->payload_bytes, &to->path) < 0)
		packet_put(engine, pkt);
	else
		engine->ops.send(engine->owner, to->path.route, pkt);
}

/* Takes the packet. */
void unreliable_emit(struct engine_qp *qp, struct engine_packet *pkt)
{
	if (qp->attr.type == ENGINE_QP_UD)
		emit_datagram(qp, pkt);
	else
		qp_send(qp, pkt);
}

/* A packet has come back. Its sender may have been reset or destroyed since. */
void unreliable_packet_back(struct engine *engine, struct engine_packet *pkt)
{
	struct engine_qp *qp = hash_get(&engine->qps, pkt->src_qpn);

	pkt->awaited = false;
	engine->n_awaited--;
	if (!qp || qp->req.life != pkt->unreliable.life)
		return;
	qp->req.sent[pkt->unreliable.entry & qp->req.sent_mask].n_responses++;
	qp_ready(qp);
}

/* ---- responder ------------------------------------------------------------------------------------------------------ */

/* The message under way goes with it. Takes the packet. */
void unreliable_drop(struct engine_qp *qp, struct engine_packet *pkt)
{
	struct responder *resp = &qp->resp;

	resp->pkt = NULL;
	resp->copy.n_dst = 0;
	resp->in_message = false;
	qp->counters->dropped++;
	packet_put(qp->engine, pkt);
}

/* Takes the packet. */
void unreliable_execute(struct engine_qp *qp, struct engine_packet *pkt)
{
	struct responder *resp = &qp->resp;

	if (qp->attr.type == ENGINE_QP_UD) {
		responder_execute_datagram(qp, pkt);
		return;
	}
	if (pkt->flags & PACKET_FIRST) {
		/* Whatever came before: a message begins here. */
		resp->in_message = false;
		resp->expected_psn = pkt->psn;
	}
	if (pkt->psn != resp->expected_psn || (!(pkt->flags & PACKET_FIRST) && !resp->in_message))
		unreliable_drop(qp, pkt);
	else
		responder_execute_data(qp, pkt);
}
