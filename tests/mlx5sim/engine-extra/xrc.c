/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extended reliable connections (IBTA vol. 1, annex A14): many senders of one node share a connection, and reach any SRQ of
 * the other node's XRC domain through it.
 *
 * An XRC_INI is the requester of RC; each of its requests carries the number of an SRQ. An XRC_TGT is the responder of RC
 * without anything of its own: before it executes a request in order, it takes on the SRQ that the request names, with its PD
 * and CQ. All packets of a message name the same one. An SRQ of another domain, or none, is an invalid request.
 *
 * SRQs know nothing of the QPs that have taken them on and go when their owner wants; then those QPs are looked for.
 */
#include "tests/mlx5sim/engine-extra/extra-private.h"

/* ---- the SRQ ---------------------------------------------------------------------------------------------------- */

/* A new one takes its CQ. -EINVAL: there is none. */
int xrc_join(struct srq *srq)
{
	srq->cq = hash_get(&srq->engine->cqs, srq->attr.cqn);
	if (!srq->cq)
		return -EINVAL;
	srq->cq->n_users++;
	return 0;
}

static void let_go(struct engine_qp *tgt)
{
	struct responder *resp = &tgt->resp;
	bool in_use = resp->has_recv || resp->in_message;

	resp->has_recv = false;
	tgt->srq = NULL;
	tgt->recv_cq = NULL;
	if (in_use)
		qp_error(tgt, SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR, true);
}

/* It goes: the QP that has taken it on lets it go, and a message that was for it has nowhere to go on. */
void xrc_leave(struct srq *srq)
{
	struct engine_qp *qp;

	list_for_each_entry(qp, &srq->engine->all_qps, all_link) {
		if (qp->attr.type == ENGINE_QP_XRC_TGT && qp->srq == srq)
			let_go(qp);
	}
	srq->cq->n_users--;
}

/* IBTA annex A14: an XRC_INI receives nothing, an XRC_TGT sends nothing. */
static const struct transition ini_transitions[8][8] = {
	[ENGINE_QP_RST][ENGINE_QP_INIT] = {true, 0, ENGINE_QP_SET_ACCESS},
	[ENGINE_QP_INIT][ENGINE_QP_INIT] = {true, 0, ENGINE_QP_SET_ACCESS},
	[ENGINE_QP_INIT][ENGINE_QP_RTR] = {true, ENGINE_QP_SET_PATH | ENGINE_QP_SET_RQ_PSN, ENGINE_QP_SET_ACCESS},
	[ENGINE_QP_RTR][ENGINE_QP_RTS] = {true, ENGINE_SET_RTS, ENGINE_QP_SET_ACCESS},
	[ENGINE_QP_RTS][ENGINE_QP_RTS] = {true, 0, ENGINE_QP_SET_ACCESS},
	[ENGINE_QP_RTS][ENGINE_QP_SQD] = {true, 0, 0},
	[ENGINE_QP_SQD][ENGINE_QP_SQD] = {true, 0, ENGINE_SET_DRAINED & ~ENGINE_QP_SET_RNR_TIMER},
	[ENGINE_QP_SQD][ENGINE_QP_RTS] = {true, 0, ENGINE_QP_SET_ACCESS},
};

static const struct transition tgt_transitions[8][8] = {
	[ENGINE_QP_RST][ENGINE_QP_INIT] = {true, ENGINE_QP_SET_ACCESS, 0},
	[ENGINE_QP_INIT][ENGINE_QP_INIT] = {true, 0, ENGINE_QP_SET_ACCESS},
	[ENGINE_QP_INIT][ENGINE_QP_RTR] = {true, ENGINE_SET_RTR, ENGINE_QP_SET_ACCESS},
	[ENGINE_QP_RTR][ENGINE_QP_RTS] = {true, ENGINE_QP_SET_SQ_PSN, ENGINE_SET_LATER},
	[ENGINE_QP_RTS][ENGINE_QP_RTS] = {true, 0, ENGINE_SET_LATER},
};

/* ---- QPs ---------------------------------------------------------------------------------------------------------- */

/* A QP of the same type is not heard. */
static bool hears(const struct engine_qp *qp, const struct engine_packet *pkt)
{
	uint8_t peer = qp->attr.type == ENGINE_QP_XRC_INI ? ENGINE_QP_XRC_TGT : ENGINE_QP_XRC_INI;

	return pkt->service == peer && qp->path.dest_qpn == pkt->src_qpn && qp->route == pkt->source;
}

static struct srq *find(const struct engine_qp *tgt, uint32_t srqn)
{
	struct srq *srq = hash_get(&tgt->engine->srqs, srqn);

	return srq && srq->attr.is_xrc && srq->attr.xrcdn == tgt->attr.xrcdn ? srq : NULL;
}

/* A duplicate: only a READ is executed again, which needs the PD. */
static bool attend_again(struct engine_qp *tgt, struct engine_packet *pkt, const struct srq *srq)
{
	if (pkt->kind != PACKET_READ)
		return true;
	if (!srq) {
		packet_put(tgt->engine, pkt);
		return false;
	}
	tgt->remote_pdn = srq->attr.pdn;
	return true;
}

/* The SRQ that this request names is the one to execute it with. False: it is refused, and the packet taken. */
static bool attend(struct engine_qp *tgt, struct engine_packet *pkt, bool in_order)
{
	struct srq *srq = find(tgt, pkt->xrc.srqn);

	if (!in_order)
		return attend_again(tgt, pkt, srq);
	if (!srq || (tgt->resp.in_message && srq != tgt->srq)) {
		responder_fail(tgt, pkt, NAK_INVALID_REQUEST);
		return false;
	}
	if (srq->cq->dead) {
		responder_fail_with(tgt, pkt, NAK_REMOTE_OP, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
		return false;
	}
	tgt->srq = srq;
	tgt->recv_cq = srq->cq;
	tgt->recv_pdn = tgt->remote_pdn = srq->attr.pdn;
	return true;
}

/* ---- the services ------------------------------------------------------------------------------------------------- */

static int check_ini(const struct engine *engine, const struct engine_qp_attr *attr)
{
	return !attr->rq_ring && !attr->has_srq && qp_rings_are_valid(attr) ? 0 : -EINVAL;
}

static int check_tgt(const struct engine *engine, const struct engine_qp_attr *attr)
{
	return attr->qpn <= PSN_MASK && attr->user_index <= PSN_MASK && attr->xrcdn <= PSN_MASK && !attr->has_srq &&
			       !attr->sq_ring && !attr->rq_ring && !attr->dbrec
		       ? 0
		       : -EINVAL;
}

static void fill_packet(struct engine_qp *qp, struct engine_packet *pkt)
{
	pkt->xrc.srqn = qp->req.cur.xrc_srqn;
}

const struct engine_service xrc_ini = {
	.transitions = ini_transitions,
	.reliable = true,
	.has_no_recv_cq = true,
	.has_no_ledger = true,
	.check = check_ini,
	.hears = hears,
	.parse = wqe_parse_xrc,
	.fill_packet = fill_packet,
	.attend = attend,
};

const struct engine_service xrc_tgt = {
	.transitions = tgt_transitions,
	.reliable = true,
	.has_no_queues = true,
	.has_no_ledger = true,
	.check = check_tgt,
	.hears = hears,
	.attend = attend,
};
