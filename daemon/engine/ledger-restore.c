/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of a former process, from their ledger.
 *
 * Due entries of the journal are carried out first: words of QPs when the ledger is opened, the CQE and its count when its CQ
 * comes back. A QP begins again at the oldest request that had not completed: it takes the WQEs from its ring anew and sends them
 * under their PSNs, which the peer knows when it has executed them.
 *
 * Numbers in a ledger are the daemon's own; they are made to fit where they would lead outside of something.
 */
#include "daemon/engine/ledger-private.h"

#define GRACE_RESENDS 100u

/* ---- names of steps -------------------------------------------------------------------------------------------- */

static const char *const step_names[ENGINE_N_STEPS] = {
	[ENGINE_STEP_FETCH] = "engine.fetch",
	[ENGINE_STEP_SEND] = "engine.send",
	[ENGINE_STEP_TAKE] = "engine.take",
	[ENGINE_STEP_TAKE_NOTED] = "engine.take-noted",
	[ENGINE_STEP_PAYLOAD] = "engine.payload",
	[ENGINE_STEP_INTENT] = "engine.intent",
	[ENGINE_STEP_ATOMIC] = "engine.atomic",
	[ENGINE_STEP_REPLAY] = "engine.replay",
	[ENGINE_STEP_EXECUTED] = "engine.executed",
	[ENGINE_STEP_REPLY] = "engine.reply",
	[ENGINE_STEP_RESPONSE] = "engine.response",
	[ENGINE_STEP_COMPLETE] = "engine.complete",
	[ENGINE_STEP_CQE_BODY] = "engine.cqe-body",
	[ENGINE_STEP_CQE_INTENT] = "engine.cqe-intent",
	[ENGINE_STEP_CQE] = "engine.cqe",
	[ENGINE_STEP_CQE_STATE] = "engine.cqe-state",
	[ENGINE_STEP_CQE_NOTED] = "engine.cqe-noted",
	[ENGINE_STEP_NOTIFY] = "engine.notify",
	[ENGINE_STEP_ERROR] = "engine.error",
	[ENGINE_STEP_MODIFY] = "engine.modify",
	[ENGINE_STEP_MODIFIED] = "engine.modified",
	[ENGINE_STEP_CONNECT] = "engine.connect",
	[ENGINE_STEP_CONNECTED] = "engine.connected",
};

const char *engine_step_name(enum engine_step step)
{
	return (unsigned int)step < ENGINE_N_STEPS ? step_names[step] : NULL;
}

/* ---- places ----------------------------------------------------------------------------------------------------- */

struct ledger_qp *ledger_find_qp(struct engine_ledger *ledger, uint32_t qpn)
{
	uint32_t n = ledger_used(ledger->head->used.max_qps, ledger->head->limits.max_qps);

	for (uint32_t k = 0; k < n; k++) {
		uint32_t i = (ledger->next_qp + k) % n;

		if (ledger->qps[i].number != (qpn | LEDGER_USED) || ledger->qps[i].dci_qpn)
			continue;
		ledger->next_qp = i + 1;
		return &ledger->qps[i];
	}
	return NULL;
}

static struct ledger_queue *find_queue(struct ledger_queue *queues, uint32_t n, uint32_t *next, uint32_t number)
{
	for (uint32_t k = 0; k < n; k++) {
		uint32_t i = (*next + k) % n;

		if (queues[i].number != (number | LEDGER_USED))
			continue;
		*next = i + 1;
		return &queues[i];
	}
	return NULL;
}

struct ledger_queue *ledger_find_cq(struct engine_ledger *ledger, uint32_t cqn)
{
	uint32_t n = ledger_used(ledger->head->used.max_cqs, ledger->head->limits.max_cqs);

	return find_queue(ledger->cqs, n, &ledger->next_cq, cqn);
}

struct ledger_queue *ledger_find_srq(struct engine_ledger *ledger, uint32_t srqn)
{
	uint32_t n = ledger_used(ledger->head->used.max_srqs, ledger->head->limits.max_srqs);

	return find_queue(ledger->srqs, n, &ledger->next_srq, srqn);
}

/* ---- the journal ------------------------------------------------------------------------------------------------- */

/* A word of the places; NULL: outside of them. */
static uint64_t *word_at(const struct engine_ledger *ledger, uint64_t offset)
{
	if (offset < LEDGER_HEAD_BYTES || offset % 8 || offset >= engine_ledger_bytes(&ledger->head->limits))
		return NULL;
	return (uint64_t *)(void *)((uint8_t *)ledger->head + offset);
}

/* The word of the CQ or SRQ that is due; NULL: nothing is. */
static uint64_t *due_word(const struct engine_ledger *ledger)
{
	uint64_t armed = ledger->head->journal.armed;
	uint64_t *word = word_at(ledger, (armed >> 32) * 8);

	return word && (uint32_t)*word == (uint32_t)armed ? word : NULL;
}

static bool is_of_cq(const struct engine_ledger *ledger, const uint64_t *word)
{
	const void *at = word;

	return at >= (const void *)ledger->cqs && at < (const void *)ledger->srqs;
}

void ledger_replay_words(struct engine_ledger *ledger)
{
	const struct ledger_journal *journal = &ledger->head->journal;
	uint64_t *word = due_word(ledger), *qp_word = word_at(ledger, journal->qp_at);

	if (!word)
		return;
	if (qp_word)
		ledger_store(qp_word, journal->qp_word);
	/* That of a CQ waits for its ring. */
	if (!is_of_cq(ledger, word))
		ledger_store(word, journal->word);
}

/* ---- queues -------------------------------------------------------------------------------------------------------- */

static uint64_t *tail_at(const struct cq *cq, uint32_t pi)
{
	/* bounded by what engine_cq_create() allows. */
	size_t index = cq->attr.flags & ENGINE_CQ_COLLAPSED ? 0 : pi & ((1u << cq->attr.log2_entries) - 1);

	return (uint64_t *)(void *)((uint8_t *)cq->attr.ring + (index + 1) * cq->attr.entry_bytes) - 1;
}

/* Instead of ledger_take_cq(). Whoever waits for it is woken: the event of before may not have come through. */
void ledger_load_cq(struct cq *cq, struct ledger_queue *slot)
{
	struct engine_ledger *ledger = cq->attr.ledger;
	const struct ledger_journal *journal = &ledger->head->journal;

	cq->slot = slot;
	ledger->n_users++;
	if (due_word(ledger) == &slot->word) {
		__atomic_store_n(tail_at(cq, (uint32_t)slot->word), journal->cqe_tail, __ATOMIC_RELEASE);
		ledger_store(&slot->word, journal->word);
	}
	cq->pi = (uint32_t)slot->word;
	/* It looks full, so the dbrec is read first. bounded by what engine_cq_create() allows. */
	cq->ci = cq->pi - (1u << cq->attr.log2_entries);
	if (slot->word & CQ_HAS_ERROR)
		cq->error_qpn = slot->word >> CQ_ERROR_QPN_SHIFT & PSN_MASK;
	if (slot->word & CQ_DEAD) {
		cq->dead = true;
		list_add_tail(&cq->engine->dead_cqs, &cq->dead_link);
	}
	cq->new_solicited = true;
	if (cq->attr.dbrec)
		list_add_tail(&cq->engine->notify_cqs, &cq->notify_link);
}

void ledger_load_srq(struct srq *srq, struct ledger_queue *slot)
{
	srq->slot = slot;
	srq->attr.ledger->n_users++;
	srq->n_taken = (uint32_t)slot->word;
	srq->pi = srq->ci = (uint16_t)srq->n_taken;
	/* bounded: 2^15 WQEs at most. */
	srq->next_index = (uint16_t)(slot->word >> SRQ_NEXT_SHIFT & ((1u << srq->attr.log2_wqes) - 1));
	srq->limit = (uint16_t)(slot->word >> SRQ_LIMIT_SHIFT);
}

/* ---- QPs ------------------------------------------------------------------------------------------------------------ */

static uint8_t byte_of(uint64_t word, unsigned int shift)
{
	return (uint8_t)(word >> shift);
}

static void load_requester(struct engine_qp *qp, const struct ledger_qp *slot)
{
	struct requester *req = &qp->req;

	req->oldest = (uint16_t)(slot->req >> REQ_OLDEST_SHIFT);
	req->ci = req->pi = req->oldest;
	req->next_psn = req->unacked_psn = req->sent_psn = slot->req >> REQ_PSN_SHIFT & PSN_MASK;
	/* A packet sent now may reach an engine that is not back yet, and be lost. */
	req->grace = GRACE_RESENDS;
	req->retry_left = qp->path.retry_count;
	req->rnr_left = qp->path.rnr_retry;
	req->check_dbrec = true;
	if (!qp->reliable)
		req->resume_end = (uint16_t)(slot->sent >> REQ_OLDEST_SHIFT);
	else
		req->resume_end = (uint16_t)(slot->control >> CONTROL_STOP_SHIFT);
	req->resuming = (!qp->reliable || qp->state == ENGINE_QP_SQD) && req->resume_end != req->ci;
}

static void load_replay(struct engine_qp *qp, const struct ledger_qp *slot)
{
	struct responder *resp = &qp->resp;

	for (unsigned int i = 0; i < REPLAY_ENTRIES; i++) {
		const struct ledger_replay *from = &slot->replay[i];

		resp->replay[i] = (struct replay){
			.valid = from->valid,
			.psn = from->psn & PSN_MASK,
			.old = from->old,
			.bytes = from->bytes == 4 ? 4 : 8,
			.unknown = from->unknown,
		};
	}
	resp->replay_next = (unsigned int)(slot->resp >> RESP_REPLAY_SHIFT) % REPLAY_ENTRIES;
}

/* One was cut off: it counts as executed, and a requester that asks for its result gets "outcome unknown". */
static void settle_atomic(struct engine_qp *qp)
{
	struct responder *resp = &qp->resp;
	struct replay *replay = &resp->replay[resp->replay_next];

	*replay = (struct replay){.valid = true, .psn = resp->expected_psn, .bytes = 8, .unknown = true};
	ledger_note_replay(qp, replay);
	resp->replay_next = (resp->replay_next + 1) % REPLAY_ENTRIES;
	resp->expected_psn = psn_add(resp->expected_psn, 1);
	ledger_note_resp(qp);
}

static void load_message(struct engine_qp *qp, const struct ledger_qp *slot)
{
	struct responder *resp = &qp->resp;
	const struct ledger_message *from = &slot->messages[resp->noted_half];

	resp->in_message = slot->resp & RESP_IN_MESSAGE;
	if (!resp->in_message)
		return;
	resp->message_kind = from->kind == PACKET_WRITE ? PACKET_WRITE : PACKET_SEND;
	resp->raddr = from->raddr;
	resp->left_bytes = from->left_bytes;
	resp->done_bytes = from->done_bytes;
	resp->rkey = from->rkey;
}

static void load_responder(struct engine_qp *qp, const struct ledger_qp *slot)
{
	struct responder *resp = &qp->resp;
	uint16_t ci = (uint16_t)(slot->resp >> RESP_CI_SHIFT);

	resp->expected_psn = slot->resp >> RESP_PSN_SHIFT & PSN_MASK;
	resp->noted_half = slot->resp >> RESP_HALF_SHIFT & 1;
	if (!qp->srq)
		resp->pi = resp->ci = ci;
	load_message(qp, slot);
	if (slot->resp & RESP_HAS_RECV)
		responder_retake(qp, qp->srq ? ci : (uint16_t)(ci - 1));
	load_replay(qp, slot);
	if (slot->resp & RESP_ATOMIC)
		settle_atomic(qp);
}

static enum engine_qp_state state_of(const struct engine_qp *qp, const struct ledger_qp *slot)
{
	uint8_t state = byte_of(slot->control, CONTROL_STATE_SHIFT);

	if (state > ENGINE_QP_SQD || state == 5)
		return ENGINE_QP_RST;
	if (state <= ENGINE_QP_INIT || state == ENGINE_QP_ERR)
		return (enum engine_qp_state)state;
	/* The error CQE was its last word, and it was killed before the state was noted. */
	if ((slot->req & REQ_FAILED) || (slot->resp & RESP_FAILED))
		return qp->reliable || (slot->resp & RESP_FAILED) ? ENGINE_QP_ERR : ENGINE_QP_SQER;
	return (enum engine_qp_state)state;
}

static uint8_t error_of(const struct ledger_qp *slot)
{
	uint8_t error = byte_of(slot->control, CONTROL_ERROR_SHIFT);

	if (!error && (slot->req & REQ_FAILED))
		error = byte_of(slot->req, REQ_SYNDROME_SHIFT);
	if (!error && (slot->resp & RESP_FAILED))
		error = byte_of(slot->resp, RESP_SYNDROME_SHIFT);
	return error;
}

static void load_connection(struct engine_qp *qp, const struct ledger_qp *slot)
{
	const struct ledger_dc *dc = &slot->dcs[qp->dc_half];

	if (!qp->is_dc)
		return;
	if (qp->engine->next_connection < dc->connection)
		qp->engine->next_connection = dc->connection;
	if (qp->state == ENGINE_QP_RST || qp->state == ENGINE_QP_INIT)
		return;
	qp->dc.connection = dc->connection;
	qp->dc.first_psn = dc->first_psn & PSN_MASK;
	if (qp->attr.type != ENGINE_QP_DCI || !dc->connected)
		return;
	qp->dc.connected = true;
	qp->dc.av = dc->av;
	qp->dc.key = dc->key;
	qp->path.dest_qpn = be32toh(dc->av.dqp_dct) & PSN_MASK;
}

/* Its queues are there. Instead of ledger_take_qp(). */
void ledger_load_qp(struct engine_qp *qp, struct ledger_qp *slot)
{
	uint64_t control = slot->control;

	qp->slot = slot;
	qp->counters = &slot->counters;
	qp->attr.ledger->n_users++;
	qp->restored = qp->repeats = true;
	if (slot->log2_mtu >= 8 && slot->log2_mtu <= 20)
		qp->log2_mtu = (uint8_t)slot->log2_mtu;
	qp->settings_half = control >> CONTROL_HALF_SHIFT & 1;
	qp->dc_half = control >> CONTROL_DC_HALF_SHIFT & 1;
	qp->path = slot->settings[qp->settings_half].path;
	qp->state = state_of(qp, slot);
	qp->first_error = error_of(slot);
	qp->last_wqe_told = control & CONTROL_LAST_WQE_TOLD;
	load_connection(qp, slot);
	if (qp->state != ENGINE_QP_RST && qp->state != ENGINE_QP_INIT) {
		load_requester(qp, slot);
		load_responder(qp, slot);
	}
	if (control & CONTROL_FROZEN) {
		qp->frozen = true;
		qp->req.pi = slot->frozen_sq_pi;
		qp->resp.pi = slot->frozen_rq_pi;
	}
	ledger_note_control(qp);
}

/* Member by member: what lies between them says nothing. */
static bool is_same(const struct engine_qp_modify *a, const struct engine_qp_modify *b)
{
	return a->state == b->state && a->set == b->set && a->access == b->access &&
	       !memcmp(a->dest_gid, b->dest_gid, sizeof(a->dest_gid)) && a->dest_qpn == b->dest_qpn &&
	       a->path_mtu_bytes == b->path_mtu_bytes && a->rq_psn == b->rq_psn && a->sq_psn == b->sq_psn &&
	       a->timeout == b->timeout && a->retry_count == b->retry_count && a->rnr_retry == b->rnr_retry &&
	       a->min_rnr_timer == b->min_rnr_timer && a->max_rd_atomic == b->max_rd_atomic &&
	       a->max_dest_rd_atomic == b->max_dest_rd_atomic && a->qkey == b->qkey && a->dc_key == b->dc_key;
}

/* Is it what was carried out last? */
bool ledger_is_last(const struct engine_qp *qp, const struct engine_qp_modify *mod)
{
	return qp->slot && is_same(&qp->slot->settings[qp->settings_half].last, mod);
}

/* ---- the end of a restore ----------------------------------------------------------------------------------------- */

static void forget_queues(struct ledger_queue *queues, uint32_t n, const struct hash *known)
{
	for (uint32_t i = 0; i < n; i++) {
		if (queues[i].number && !hash_get(known, queues[i].number & ~LEDGER_USED))
			queues[i].number = 0;
	}
}

static void restore_connection(struct engine *engine, struct engine_ledger *ledger, struct ledger_qp *slot)
{
	struct engine_qp *dct = hash_get(&engine->qps, slot->number & ~LEDGER_USED);

	if (!dct || dct->attr.type != ENGINE_QP_DCT || dct->attr.ledger != ledger || !dct->slot ||
	    dc_restore_child(dct, slot) < 0)
		slot->number = 0;
}

static void forget_or_connect(struct engine *engine, struct engine_ledger *ledger)
{
	const struct engine_ledger_limits *limits = &ledger->head->limits, *used = &ledger->head->used;
	uint32_t n = ledger_used(used->max_qps, limits->max_qps);

	for (uint32_t i = 0; i < n; i++) {
		struct ledger_qp *slot = &ledger->qps[i];
		const struct engine_qp *qp;

		if (!slot->number)
			continue;
		qp = hash_get(&engine->qps, slot->number & ~LEDGER_USED);
		if (slot->dci_qpn)
			restore_connection(engine, ledger, slot);
		else if (!qp || qp->slot != slot)
			slot->number = 0;
	}
	forget_queues(ledger->cqs, ledger_used(used->max_cqs, limits->max_cqs), &engine->cqs);
	forget_queues(ledger->srqs, ledger_used(used->max_srqs, limits->max_srqs), &engine->srqs);
	/* Due entries without an owner are dropped: their places are for others now. */
	ledger_store(&ledger->head->journal.armed, 0);
	ledger->free_qp = ledger->free_cq = ledger->free_srq = 0;
}

static void go_on(struct engine_qp *qp)
{
	if (qp->state == ENGINE_QP_RST || qp->state == ENGINE_QP_INIT)
		return;
	if (qp_answers_again(qp))
		qp_restore_route(qp); /* without one nobody asks */
	else if (qp->state != ENGINE_QP_ERR && qp_restore_route(qp) < 0)
		qp_error(qp, SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR, false);
	qp_ready(qp);
}

/* DCTs elsewhere may remember connections that no ledger here tells of. Connections are not made as fast as this clock goes. */
static void raise_connections(struct engine *engine)
{
	const struct engine_ops *ops = &engine->ops;
	uint64_t nsec = ops->clock_nsec ? ops->clock_nsec(engine->owner) : engine->now_nsec;

	if (engine->next_connection < nsec)
		engine->next_connection = nsec;
}

void engine_ledger_recover(struct engine *engine)
{
	struct engine_ledger *ledger;
	struct engine_qp *qp;

	engine->now_nsec = engine->ops.now_nsec(engine->owner);
	raise_connections(engine);
	list_for_each_entry(ledger, &engine->ledgers, link)
		forget_or_connect(engine, ledger);
	list_for_each_entry(qp, &engine->all_qps, all_link) {
		if (qp->restored)
			go_on(qp);
	}
	cq_bury_dead(engine);
}
