/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UC, UD and raw packets, where they differ from RC.
 *
 * Nothing is acknowledged and nothing sent again. A request completes when its last packet was sent and no packet
 * refers to the client's memory for it any more: packets that carry references are awaited, and count when they come back to the
 * pool of this engine, whether executed, dropped or lost. Packets that carry their payload are done at once.
 *
 * The responder drops a message whole: when a packet of it is missing, when no receive WQE is posted, when it is longer
 * than its receive, or not allowed. A receive WQE that had been taken serves the next message. The written part of a
 * message that breaks off stays written. Only a receive WQE that is wrong itself is an error.
 *
 * A UD message is one packet, whose way and header the owner makes from its address vector. A frame of a raw packet QP is none:
 * nobody would receive it, so it is done when its request was checked.
 */
#include "tests/mlx5sim/engine-extra/extra-private.h"
#include "daemon/engine/ledger-private.h"

#define OWN_QKEY 0x80000000u /* bit of the Q_Key of a WQE */
#define MAX_FRAME_BYTES 16384u
#define UD_MAX_BYTES 4096u /* the largest path MTU there is */

/* ---- states ------------------------------------------------------------------------------------------------------- */

/* Where UC differs: nothing is acknowledged, so there is nothing to retry, and a send queue has errors of its own. */
static const struct transition uc_transitions[8][8] = {
	[ENGINE_QP_RST][ENGINE_QP_INIT] = {true, ENGINE_QP_SET_ACCESS, 0},
	[ENGINE_QP_INIT][ENGINE_QP_INIT] = {true, 0, ENGINE_QP_SET_ACCESS},
	[ENGINE_QP_INIT][ENGINE_QP_RTR] = {true, ENGINE_QP_SET_PATH | ENGINE_QP_SET_RQ_PSN, ENGINE_QP_SET_ACCESS},
	[ENGINE_QP_RTR][ENGINE_QP_RTS] = {true, ENGINE_QP_SET_SQ_PSN, ENGINE_QP_SET_ACCESS},
	[ENGINE_QP_RTS][ENGINE_QP_RTS] = {true, 0, ENGINE_QP_SET_ACCESS},
	[ENGINE_QP_RTS][ENGINE_QP_SQD] = {true, 0, 0},
	[ENGINE_QP_SQD][ENGINE_QP_SQD] = {true, 0, ENGINE_QP_SET_ACCESS | ENGINE_QP_SET_PATH},
	[ENGINE_QP_SQD][ENGINE_QP_RTS] = {true, 0, ENGINE_QP_SET_ACCESS},
	[ENGINE_QP_SQER][ENGINE_QP_RTS] = {true, 0, ENGINE_QP_SET_ACCESS},
};

/* UD has no peer either. */
static const struct transition ud_transitions[8][8] = {
	[ENGINE_QP_RST][ENGINE_QP_INIT] = {true, ENGINE_QP_SET_QKEY, 0},
	[ENGINE_QP_INIT][ENGINE_QP_INIT] = {true, 0, ENGINE_QP_SET_QKEY},
	[ENGINE_QP_INIT][ENGINE_QP_RTR] = {true, 0, ENGINE_QP_SET_QKEY},
	[ENGINE_QP_RTR][ENGINE_QP_RTS] = {true, ENGINE_QP_SET_SQ_PSN, ENGINE_QP_SET_QKEY},
	[ENGINE_QP_RTS][ENGINE_QP_RTS] = {true, 0, ENGINE_QP_SET_QKEY},
	[ENGINE_QP_RTS][ENGINE_QP_SQD] = {true, 0, 0},
	[ENGINE_QP_SQD][ENGINE_QP_SQD] = {true, 0, ENGINE_QP_SET_QKEY},
	[ENGINE_QP_SQD][ENGINE_QP_RTS] = {true, 0, ENGINE_QP_SET_QKEY},
	[ENGINE_QP_SQER][ENGINE_QP_RTS] = {true, 0, ENGINE_QP_SET_QKEY},
};

static const struct transition raw_transitions[8][8] = {
	[ENGINE_QP_RST][ENGINE_QP_INIT] = {true, 0, 0},
	[ENGINE_QP_INIT][ENGINE_QP_INIT] = {true, 0, 0},
	[ENGINE_QP_INIT][ENGINE_QP_RTR] = {true, 0, 0},
	[ENGINE_QP_RTR][ENGINE_QP_RTS] = {true, 0, 0},
	[ENGINE_QP_RTS][ENGINE_QP_RTS] = {true, 0, 0},
	[ENGINE_QP_SQER][ENGINE_QP_RTS] = {true, 0, 0},
};

/*
 * The send queue of an unreliable QP failed: what is behind the failed request is flushed, the receive queue goes on. No
 * event, as the error CQE says it.
 */
static void fail(struct engine_qp *qp, uint8_t syndrome)
{
	if (!qp_can_send(qp))
		return;
	if (!qp->first_error)
		qp->first_error = syndrome;
	qp->state = ENGINE_QP_SQER;
	ledger_note_control(qp);
	fault_point(qp->engine, ENGINE_STEP_ERROR);
	qp->req.life = ++qp->engine->next_life;
	list_del(&qp->packet_link[PACKET_USE_REQUEST]);
	qp_ready(qp);
}

/* ---- requester ------------------------------------------------------------------------------------------------------ */

/* Has a request of a raw packet QP something that a port could send? */
static bool is_frame(const struct sent *sent)
{
	return sent->kind == ENGINE_WQE_NOP ||
	       (sent->opcode == SHMD_OPCODE_SEND && sent->bytes <= MAX_FRAME_BYTES);
}

/* Before the packet at the cursor is sent. */
static void await(struct engine_qp *qp, struct sent *sent, struct engine_packet *pkt)
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
static void emit(struct engine_qp *qp, struct engine_packet *pkt)
{
	if (qp->attr.type == ENGINE_QP_UD)
		emit_datagram(qp, pkt);
	else
		qp_send(qp, pkt);
}

/* There is no answer, so a sent message is done. Takes the packet. */
static void send(struct engine_qp *qp, struct sent *sent, struct engine_packet *pkt)
{
	await(qp, sent, pkt);
	if (!qp->req.cur_packet)
		ledger_note_sent(qp);
	emit(qp, pkt);
	fault_point(qp->engine, ENGINE_STEP_SEND);
	requester_step(qp, sent, 0);
	qp->req.unacked_psn = qp->req.sent_psn;
	requester_advance(qp);
}

/* Had a former process begun to send this message? Then it may or may not have arrived. */
static bool was_sent(struct engine_qp *qp, const struct sent *sent)
{
	struct requester *req = &qp->req;

	if (likely(!req->resuming))
		return false;
	/* bounded: a ring has 2^15 WQEBBs at most. */
	req->resuming = (int16_t)(req->resume_end - sent->wqe_index) > 0;
	return req->resuming;
}

/* It is done: unreliable messages are never sent again. */
static bool pass(struct engine_qp *qp, struct sent *sent)
{
	struct requester *req = &qp->req;

	if (!was_sent(qp, sent))
		return false;
	requester_start(qp, sent);
	sent->n_responses = sent->n_psns;
	req->unacked_psn = req->sent_psn = req->next_psn;
	req->cursor++;
	req->loaded = false;
	requester_advance(qp);
	return true;
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
static void drop(struct engine_qp *qp, struct engine_packet *pkt)
{
	struct responder *resp = &qp->resp;

	resp->pkt = NULL;
	resp->copy.n_dst = 0;
	resp->in_message = false;
	qp->counters->dropped++;
	packet_put(qp->engine, pkt);
}

/* A UD message: the GRH, then the payload. */
static void execute_datagram(struct engine_qp *qp, struct engine_packet *pkt)
{
	struct responder *resp = &qp->resp;
	/* bounded: a UD message is 4096 bytes at most. */
	uint32_t bytes = SHMD_GRH_BYTES + pkt->payload_bytes;

	if (!responder_take_recv(qp, pkt))
		return;
	resp->done_bytes = SHMD_GRH_BYTES;
	if (bytes > resp->recv_left_bytes)
		responder_fail_with(qp, pkt, NAK_INVALID_REQUEST, SHMD_SYNDROME_LOCAL_LENGTH_ERR);
	else if (responder_add_recv_targets(qp, bytes) < 0)
		responder_fail_with(qp, pkt, NAK_REMOTE_OP, SHMD_SYNDROME_LOCAL_PROT_ERR);
	else
		responder_moved(qp, pkt, copy_start_behind(&resp->copy, pkt, pkt->unreliable.path.grh, SHMD_GRH_BYTES));
}

/* Takes the packet. */
static void execute(struct engine_qp *qp, struct engine_packet *pkt)
{
	struct responder *resp = &qp->resp;

	if (qp->attr.type == ENGINE_QP_UD) {
		execute_datagram(qp, pkt);
		return;
	}
	if (pkt->flags & PACKET_FIRST) {
		/* Whatever came before: a message begins here. */
		resp->in_message = false;
		resp->expected_psn = pkt->psn;
	}
	if (pkt->psn != resp->expected_psn || (!(pkt->flags & PACKET_FIRST) && !resp->in_message))
		drop(qp, pkt);
	else
		responder_execute_data(qp, pkt);
}

static void fill_recv_cqe(const struct engine_packet *pkt, struct cqe_fields *fields)
{
	const struct engine_ud_path *path = &pkt->unreliable.path;

	fields->rqpn |= (uint32_t)(path->sl & 0xf) << 24 | (uint32_t)path->has_grh << 28;
	fields->slid = path->slid;
}

/* ---- the services ------------------------------------------------------------------------------------------------- */

static int check(const struct engine *engine, const struct engine_qp_attr *attr)
{
	return qp_rings_are_valid(attr) ? 0 : -EINVAL;
}

static int check_ud(const struct engine *engine, const struct engine_qp_attr *attr)
{
	uint32_t mtu = attr->ud_mtu_bytes;

	if (!engine->ops.ud_path)
		return -EOPNOTSUPP;
	if (mtu && (mtu < 256 || mtu > UD_MAX_BYTES || (mtu & (mtu - 1))))
		return -EINVAL;
	return check(engine, attr);
}

static void init_ud(struct engine_qp *qp)
{
	qp->log2_mtu = (uint8_t)__builtin_ctz(UD_MAX_BYTES); /* one packet, whatever the engine's chunk */
	if (!qp->attr.ud_mtu_bytes)
		qp->attr.ud_mtu_bytes = UD_MAX_BYTES;
}

/* Any QP that knows the Q_Key. */
static bool hears_ud(const struct engine_qp *qp, const struct engine_packet *pkt)
{
	return pkt->service == ENGINE_QP_UD && pkt->unreliable.qkey == qp->path.qkey;
}

static uint8_t check_message(struct engine_qp *qp, const struct sent *sent)
{
	if (sent->kind == ENGINE_WQE_NOP)
		return 0;
	if (sent->kind != ENGINE_WQE_SEND && sent->kind != ENGINE_WQE_SEND_IMM)
		return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	return sent->bytes > qp->attr.ud_mtu_bytes ? SHMD_SYNDROME_LOCAL_LENGTH_ERR : 0;
}

static uint8_t check_frame(struct engine_qp *qp, const struct sent *sent)
{
	return is_frame(sent) ? requester_check_sges(qp, false) : SHMD_SYNDROME_LOCAL_QP_OP_ERR;
}

const struct engine_service unreliable_uc = {
	.transitions = uc_transitions,
	.check = check,
	.send = send,
	.pass = pass,
	.fail = fail,
	.execute = execute,
	.drop = drop,
};

const struct engine_service unreliable_ud = {
	.transitions = ud_transitions,
	.check = check_ud,
	.init = init_ud,
	.hears = hears_ud,
	.check_request = check_message,
	.send = send,
	.pass = pass,
	.fail = fail,
	.execute = execute,
	.drop = drop,
	.fill_recv_cqe = fill_recv_cqe,
};

const struct engine_service unreliable_raw = {
	.transitions = raw_transitions,
	.has_no_packets = true,
	.check = check,
	.parse = wqe_parse_eth,
	.check_request = check_frame,
	.send = send,
	.pass = pass,
	.fail = fail,
	.execute = execute,
	.drop = drop,
};
