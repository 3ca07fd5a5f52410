/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The QP state machine.
 *
 * Transitions and the attributes each needs are a table, after IBTA "QP state transition properties". A QP enters
 * ERR by itself only through qp_error(); it then drops everything on its way, waits for memory operations that
 * are still pending (their buffers must not be given back before), and flushes: the requests on their way, then
 * what is posted, then the receives, each with a CQE, a bounded number per turn. WQEs posted to a QP in ERR are
 * flushed too.
 */
#include "daemon/engine/ledger-private.h"

#define MAX_RD_ATOMIC REPLAY_ENTRIES

#define ALL_ACCESS                                                                                 \
	(ENGINE_ACCESS_REMOTE_WRITE | ENGINE_ACCESS_REMOTE_READ | ENGINE_ACCESS_REMOTE_ATOMIC)

/* [from][to]; RST and ERR can be reached from everywhere and are not in the table. */
static const struct transition transitions[8][8] = {
	[ENGINE_QP_RST][ENGINE_QP_INIT] = {true, ENGINE_QP_SET_ACCESS, 0},
	[ENGINE_QP_INIT][ENGINE_QP_INIT] = {true, 0, ENGINE_QP_SET_ACCESS},
	[ENGINE_QP_INIT][ENGINE_QP_RTR] = {true, ENGINE_SET_RTR, ENGINE_QP_SET_ACCESS},
	[ENGINE_QP_RTR][ENGINE_QP_RTS] = {true, ENGINE_SET_RTS, ENGINE_SET_LATER},
	[ENGINE_QP_RTS][ENGINE_QP_RTS] = {true, 0, ENGINE_SET_LATER},
	[ENGINE_QP_RTS][ENGINE_QP_SQD] = {true, 0, 0},
	[ENGINE_QP_SQD][ENGINE_QP_SQD] = {true, 0, ENGINE_SET_DRAINED},
	[ENGINE_QP_SQD][ENGINE_QP_RTS] = {true, 0, ENGINE_SET_LATER},
};

/* A DCI meets its peers later, and has nothing to receive; a DCT has nothing to send. */
static const struct transition dci_transitions[8][8] = {
	[ENGINE_QP_RST][ENGINE_QP_INIT] = {true, 0, ENGINE_QP_SET_ACCESS},
	[ENGINE_QP_INIT][ENGINE_QP_RTR] = {true, 0, 0},
	[ENGINE_QP_RTR][ENGINE_QP_RTS] = {true, ENGINE_SET_RTS, 0},
	[ENGINE_QP_RTS][ENGINE_QP_RTS] = {true, 0, 0},
	[ENGINE_QP_RTS][ENGINE_QP_SQD] = {true, 0, 0},
	[ENGINE_QP_SQD][ENGINE_QP_SQD] = {true, 0, ENGINE_QP_SET_RETRY | ENGINE_QP_SET_RD_ATOMIC},
	[ENGINE_QP_SQD][ENGINE_QP_RTS] = {true, 0, 0},
};

static const struct transition dct_transitions[8][8] = {
	[ENGINE_QP_RST][ENGINE_QP_INIT] = {true, ENGINE_QP_SET_ACCESS | ENGINE_QP_SET_DC_KEY, 0},
	[ENGINE_QP_INIT][ENGINE_QP_RTR] = {true, ENGINE_QP_SET_RNR_TIMER | ENGINE_QP_SET_RD_ATOMIC, 0},
};

static const struct transition *transition_of(const struct engine_qp *qp, enum engine_qp_state to)
{
	if (qp->service)
		return &qp->service->transitions[qp->state][to];
	switch (qp->attr.type) {
	case ENGINE_QP_DCI:
		return &dci_transitions[qp->state][to];
	case ENGINE_QP_DCT:
		return &dct_transitions[qp->state][to];
	default:
		return &transitions[qp->state][to];
	}
}

static bool values_are_valid(const struct engine_qp_modify *mod)
{
	uint32_t mtu = mod->path_mtu_bytes;

	if ((mod->set & ENGINE_QP_SET_ACCESS) && (mod->access & ~ALL_ACCESS))
		return false;
	if ((mod->set & ENGINE_QP_SET_PATH) &&
	    (mod->dest_qpn > PSN_MASK || mtu < 256 || mtu > 4096 || (mtu & (mtu - 1))))
		return false;
	if ((mod->set & ENGINE_QP_SET_RQ_PSN) && mod->rq_psn > PSN_MASK)
		return false;
	if ((mod->set & ENGINE_QP_SET_SQ_PSN) && mod->sq_psn > PSN_MASK)
		return false;
	if ((mod->set & ENGINE_QP_SET_RETRY) &&
	    (mod->timeout > 31 || mod->retry_count > 7 || mod->rnr_retry > 7))
		return false;
	if ((mod->set & ENGINE_QP_SET_RNR_TIMER) && mod->min_rnr_timer > 31)
		return false;
	return !(mod->set & ENGINE_QP_SET_RD_ATOMIC) ||
	       (mod->max_rd_atomic <= MAX_RD_ATOMIC && mod->max_dest_rd_atomic <= MAX_RD_ATOMIC);
}

static bool transition_is_valid(const struct engine_qp *qp, const struct engine_qp_modify *mod)
{
	const struct transition *t;

	if ((unsigned int)mod->state > ENGINE_QP_SQD)
		return false;
	if (mod->state == ENGINE_QP_RST || mod->state == ENGINE_QP_ERR)
		return mod->set == 0;
	t = transition_of(qp, mod->state);
	return t->allowed && (mod->set & t->required) == t->required &&
	       !(mod->set & ~((uint32_t)t->required | t->optional)) && values_are_valid(mod);
}

static void merge_path(struct engine_qp_modify *path, const struct engine_qp_modify *mod)
{
	memcpy(path->dest_gid, mod->dest_gid, sizeof(path->dest_gid));
	path->dest_qpn = mod->dest_qpn;
	path->path_mtu_bytes = mod->path_mtu_bytes;
}

static void merge(struct engine_qp *qp, const struct engine_qp_modify *mod)
{
	struct engine_qp_modify *path = &qp->path;

	if (mod->set & ENGINE_QP_SET_ACCESS)
		path->access = mod->access;
	if (mod->set & ENGINE_QP_SET_PATH)
		merge_path(path, mod);
	if (mod->set & ENGINE_QP_SET_QKEY)
		path->qkey = mod->qkey;
	if (mod->set & ENGINE_QP_SET_DC_KEY)
		path->dc_key = mod->dc_key;
	if (mod->set & ENGINE_QP_SET_RQ_PSN)
		qp->resp.expected_psn = path->rq_psn = mod->rq_psn;
	if (mod->set & ENGINE_QP_SET_SQ_PSN) {
		path->sq_psn = mod->sq_psn;
		qp->req.next_psn = qp->req.unacked_psn = qp->req.sent_psn = mod->sq_psn;
	}
	if (mod->set & ENGINE_QP_SET_RETRY) {
		path->timeout = mod->timeout;
		path->retry_count = mod->retry_count;
		path->rnr_retry = mod->rnr_retry;
		qp->req.retry_left = mod->retry_count;
		qp->req.rnr_left = mod->rnr_retry;
	}
	if (mod->set & ENGINE_QP_SET_RNR_TIMER)
		path->min_rnr_timer = mod->min_rnr_timer;
	/* Each side of the pair is given where IBTA asks for it. */
	if ((mod->set & ENGINE_QP_SET_RD_ATOMIC) && mod->state == ENGINE_QP_RTR)
		path->max_dest_rd_atomic = mod->max_dest_rd_atomic;
	else if (mod->set & ENGINE_QP_SET_RD_ATOMIC)
		path->max_rd_atomic = mod->max_rd_atomic;
}

static void drop_route(struct engine_qp *qp)
{
	if (!qp->has_route)
		return;
	qp->has_route = false;
	qp->engine->ops.route_put(qp->engine->owner, qp->route);
	qp->route = NULL;
}

/* Takes the route. */
void qp_change_route(struct engine_qp *qp, void *route)
{
	drop_route(qp);
	qp->route = route;
	qp->has_route = true;
}

static int take_route(struct engine_qp *qp, const uint8_t gid[16])
{
	struct engine *engine = qp->engine;
	void *route;
	int r;

	r = engine->ops.route_get(engine->owner, gid, &route);
	if (r < 0)
		return r;
	qp_change_route(qp, route);
	return 0;
}

/* The route that its settings name, after a restart. */
int qp_restore_route(struct engine_qp *qp)
{
	struct engine *engine = qp->engine;
	void *route;
	int r;

	if (qp->attr.type == ENGINE_QP_DCI && qp->dc.connected) {
		r = engine->ops.dc_route(engine->owner, qp->attr.qpn, &qp->dc.av, &route);
		if (r < 0) {
			qp->dc.connected = false; /* there is no peer to notify */
			return r;
		}
		qp_change_route(qp, route);
		return 0;
	}
	if (qp->attr.type != ENGINE_QP_RC && qp->attr.type != ENGINE_QP_UC)
		return 0;
	return take_route(qp, qp->path.dest_gid);
}

bool qp_has_pending_ops(const struct engine_qp *qp)
{
	return copy_is_pending(&qp->req.copy) || copy_is_pending(&qp->resp.copy) ||
	       qp->resp.atomic_pending || early_is_pending(&qp->resp);
}

/* Packets that nothing pending reads or writes any more. */
static void drop_current(struct engine_qp *qp)
{
	struct engine *engine = qp->engine;

	if (!copy_is_pending(&qp->req.copy) && qp->req.pkt) {
		copy_end(&qp->req.copy);
		qp->req.pkt = packet_put(engine, qp->req.pkt);
	}
	if (!copy_is_pending(&qp->resp.copy) && !qp->resp.atomic_pending && qp->resp.pkt) {
		copy_end(&qp->resp.copy);
		qp->resp.pkt = packet_put(engine, qp->resp.pkt);
	}
	early_drop(qp);
}

/* Everything on its way is dropped; what memory operations still use is kept until qp_settle(). */
void qp_stop(struct engine_qp *qp)
{
	struct engine *engine = qp->engine;

	timer_cancel(qp);
	qp->req.life = ++engine->next_life;
	for (unsigned int use = 0; use < N_PACKET_USES; use++)
		list_del(&qp->packet_link[use]);
	packet_put_all(engine, &qp->req.rx);
	packet_put_all(engine, &qp->resp.rx);
	qp->resp.spent = packet_put(engine, qp->resp.spent);
	qp->resp.ack_due = false;
	qp->resp.reading = false;
	drop_current(qp);
	if (unlikely(qp->dc.connected))
		dc_leave(qp);
	drop_route(qp);
}

/* Called at each turn of a stopped QP: true when no memory operation is pending any more. */
void qp_settle(struct engine_qp *qp)
{
	drop_current(qp);
	if (qp->cancelled && !qp_has_pending_ops(qp))
		qp->cancelled = false;
}

void qp_error(struct engine_qp *qp, uint8_t syndrome, bool responder)
{
	struct engine_event ev = {ENGINE_EVENT_QP_ERROR, qp->attr.qpn, syndrome, responder};

	if (qp->state == ENGINE_QP_ERR || qp->state == ENGINE_QP_RST)
		return;
	if (!qp->first_error)
		qp->first_error = syndrome;
	qp->state = ENGINE_QP_ERR;
	ledger_note_control(qp);
	fault_point(qp->engine, ENGINE_STEP_ERROR);
	qp_stop(qp);
	qp_ready(qp);
	if (qp->dc.parent)
		return; /* the DCT goes on */
	if (qp->attr.type == ENGINE_QP_DCT)
		dc_drop_children(qp);
	qp->engine->ops.event(qp->engine->owner, &ev);
}

void qp_reset(struct engine_qp *qp)
{
	struct requester *req = &qp->req;
	struct responder *resp = &qp->resp;

	if (qp->attr.type == ENGINE_QP_DCT && !qp->dc.parent)
		dc_drop_children(qp);
	qp_stop(qp);
	qp->state = ENGINE_QP_RST;
	qp->cancelled = qp_has_pending_ops(qp);
	qp->first_error = 0;
	qp->failing = false;
	qp->last_wqe_told = false;
	if (likely(qp->send_cq))
		cq_forget_error(qp->send_cq, qp);
	if (likely(qp->recv_cq))
		cq_forget_error(qp->recv_cq, qp);
	if (unlikely(qp->service && qp->service->has_no_queues)) {
		qp->srq = NULL;
		qp->recv_cq = NULL;
	}
	req->pi = req->ci = req->oldest = 0;
	req->head = req->tail = req->cursor = 0;
	req->loaded = req->halted = req->rnr_wait = req->drain_reported = req->recovering = false;
	req->resuming = false;
	req->grace = 0;
	req->resume_packet = 0;
	req->n_since_ack_req = req->n_fetches = req->n_reads = 0;
	qp->streams.n = 0;
	resp->pi = resp->ci = 0;
	resp->nak_sent = resp->in_message = resp->has_recv = false;
	memset(resp->replay, 0, sizeof(resp->replay));
}

static void enter_error(struct engine_qp *qp)
{
	/* Nothing can have been posted yet: what the dbrec holds is not ours. */
	if (qp->state == ENGINE_QP_RST) {
		qp->req.pi = qp->req.ci = qp->req.oldest = qp_read_snd(qp);
		qp->resp.pi = qp->resp.ci = qp_read_rcv(qp);
	}
	qp->state = ENGINE_QP_ERR;
	if (qp->attr.type == ENGINE_QP_DCT)
		dc_drop_children(qp);
	qp_stop(qp);
	qp_ready(qp);
}

static void leave_send_error(struct engine_qp *qp)
{
	struct requester *req = &qp->req;

	/* Nothing is fetched behind a request that failed, and it fails as the oldest. */
	assert_bug(req->head == req->tail);
	req->cursor = req->tail;
	req->oldest = req->ci;
	req->halted = req->loaded = false;
	req->resume_packet = 0;
	qp->failing = false;
}

/* Is it the request whose answer a former process owed? */
static bool is_repeated(struct engine_qp *qp, const struct engine_qp_modify *mod)
{
	bool repeats = qp->repeats;

	qp->repeats = false;
	return repeats && qp->state == mod->state && ledger_is_last(qp, mod);
}

int engine_qp_modify(struct engine *engine, uint32_t qpn, const struct engine_qp_modify *mod)
{
	struct engine_qp *qp = hash_get(&engine->qps, qpn);
	int r;

	if (!qp || qp->zombie)
		return -ENOENT;
	if (unlikely(qp->repeats) && is_repeated(qp, mod))
		return 0;
	if (!transition_is_valid(qp, mod))
		return -EINVAL;
	if (mod->state == ENGINE_QP_RST) {
#ifdef FUZZ_PLANT
		if (PLANTED("engine") && qp->state == ENGINE_QP_SQD && qp->req.head != qp->req.tail)
			qp->has_route = false;
#endif
		qp_reset(qp);
		ledger_note_settings(qp, mod);
		return 0;
	}
	if (mod->state == ENGINE_QP_ERR) {
		enter_error(qp);
		ledger_note_settings(qp, mod);
		return 0;
	}
	if (mod->set & ENGINE_QP_SET_PATH) {
		r = take_route(qp, mod->dest_gid);
		if (r < 0)
			return r;
	}
	merge(qp, mod);
	if (unlikely(qp->state == ENGINE_QP_SQER))
		leave_send_error(qp);
	qp->state = mod->state;
	qp->req.drain_reported = false;
	qp->req.check_dbrec = true;
	/* The next drain is another stretch. */
	if (qp->reliable && mod->state != ENGINE_QP_SQD)
		qp->req.resuming = false;
	ledger_note_settings(qp, mod);
	if (mod->state == ENGINE_QP_SQD && qp->reliable)
		requester_solicit(qp, qp->req.sent_psn);
	qp_ready(qp);
	return 0;
}

/* ---- flush ---------------------------------------------------------------------------------------------- */

static void flush_cqe(struct engine_qp *qp, bool responder, uint16_t wqe_counter,
		      uint8_t wqe_opcode)
{
	struct cqe_fields fields = {
		.cqe_opcode = responder ? SHMD_CQE_RESP_ERR : SHMD_CQE_REQ_ERR,
		.wqe_opcode = wqe_opcode,
		.syndrome = SHMD_SYNDROME_WR_FLUSH_ERR,
		.wqe_counter = wqe_counter,
	};

	cq_write_error(responder ? qp->recv_cq : qp->send_cq, qp, &fields);
}

/* A request on its way. */
static bool flush_sent(struct engine_qp *qp)
{
	struct requester *req = &qp->req;
	const struct sent *sent = &req->sent[req->head & req->sent_mask];

	if (req->head == req->tail)
		return false;
	req->oldest += sent->n_wqebbs;
	req->head++;
	flush_cqe(qp, false, sent->wqe_index, sent->opcode);
	return true;
}

/* A WQE that was posted and never fetched. */
static bool flush_posted(struct engine_qp *qp)
{
	struct requester *req = &qp->req;
	uint16_t n_wqebbs, index;
	uint8_t opcode;

	req->pi = qp_read_snd(qp);
	/* An index that cannot be true flushes nothing. bounded: 2^15 WQEBBs at most. */
	if ((uint16_t)(req->pi - req->ci) > 1u << qp->attr.log2_sq_wqebbs)
		req->ci = req->pi;
	req->oldest = req->ci;
	if (req->pi == req->ci)
		return false;
	n_wqebbs = requester_wqebbs_at(qp, req->ci, &opcode);
	if (n_wqebbs > (uint16_t)(req->pi - req->ci))
		n_wqebbs = (uint16_t)(req->pi - req->ci);
	index = req->ci;
	req->ci += n_wqebbs;
	req->oldest = req->ci;
	flush_cqe(qp, false, index, opcode);
	return true;
}

static bool flush_recv(struct engine_qp *qp)
{
	struct responder *resp = &qp->resp;

	if (resp->has_recv) {
		resp->has_recv = false;
		flush_cqe(qp, true, resp->recv_index, 0);
		return true;
	}
	if (!qp->attr.rq_ring)
		return false;
	resp->pi = qp_read_rcv(qp);
	if ((uint16_t)(resp->pi - resp->ci) > 1u << qp->attr.log2_rq_wqes)
		resp->ci = resp->pi;
	if (resp->pi == resp->ci)
		return false;
	resp->ci++;
	flush_cqe(qp, true, (uint16_t)(resp->ci - 1), 0);
	return true;
}

/* The same of what is posted to a send queue in SQER. */
unsigned int qp_flush_sends(struct engine_qp *qp, unsigned int budget)
{
	unsigned int done = 0;

	while (done < budget && flush_posted(qp))
		done++;
	return done;
}

/* WQEs still posted to the SRQ are for others. */
static void tell_last_wqe(struct engine_qp *qp)
{
	struct engine_event ev = {ENGINE_EVENT_QP_LAST_WQE, qp->attr.qpn, 0, true};

	if (qp->last_wqe_told)
		return;
	qp->last_wqe_told = true;
	qp->engine->ops.event(qp->engine->owner, &ev);
	ledger_note_control(qp);
}

/* Flush up to `budget` WQEs of a QP in ERR whose memory operations have ended. */
unsigned int qp_flush(struct engine_qp *qp, unsigned int budget)
{
	unsigned int done = 0;

	while (done < budget && (flush_sent(qp) || flush_posted(qp) || flush_recv(qp)))
		done++;
	if (qp->srq && done < budget && !qp->dc.parent && !qp->srq->attr.is_xrc)
		tell_last_wqe(qp);
	return done;
}
