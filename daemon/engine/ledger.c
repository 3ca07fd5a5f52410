/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ledgers: their memory, places for objects, and what the executor notes; ledger-private.h says how.
 *
 * The order of stores is what makes it safe: what is not valid yet first, then the word that makes it valid. A place is
 * filled before its number stands in it, and free from the moment when the number is gone.
 */
#include <stdlib.h>

#include "daemon/engine/ledger-private.h"

#define VERSION 1u
#define MAX_PLACES (1u << 16)

static const char magic[8] = {'s', 'h', 'm', 'd', 'l', 'e', 'd', 'g'};

/* ---- the ledger ------------------------------------------------------------------------------------------------- */

size_t engine_ledger_bytes(const struct engine_ledger_limits *limits)
{
	/* bounded: 2^16 places of less than 2 KiB each. */
	return LEDGER_HEAD_BYTES + limits->max_qps * sizeof(struct ledger_qp) +
	       ((size_t)limits->max_cqs + limits->max_srqs) * sizeof(struct ledger_queue);
}

static bool limits_are_valid(const struct engine_ledger_limits *limits, size_t bytes)
{
	return limits && limits->max_qps <= MAX_PLACES && limits->max_cqs <= MAX_PLACES &&
	       limits->max_srqs <= MAX_PLACES && engine_ledger_bytes(limits) <= bytes;
}

static bool is_all_zero(const void *memory)
{
	const uint64_t *words = memory;

	for (size_t i = 0; i < LEDGER_HEAD_BYTES / 8; i++) {
		if (words[i])
			return false;
	}
	return true;
}

/* The magic makes it one. */
static void format(struct ledger_head *head, const struct engine_ledger_limits *limits)
{
	head->version = VERSION;
	head->qp_bytes = sizeof(struct ledger_qp);
	head->limits = *limits;
	ledger_order();
	memcpy(head->magic, magic, sizeof(magic));
	ledger_order();
}

static int check(const struct ledger_head *head, size_t bytes)
{
	if (memcmp(head->magic, magic, sizeof(magic)) != 0)
		return -EBADMSG;
	if (head->version != VERSION)
		return -EPROTONOSUPPORT;
	return head->qp_bytes == sizeof(struct ledger_qp) && limits_are_valid(&head->limits, bytes) ? 0 : -EBADMSG;
}

static void lay_out(struct engine_ledger *ledger, void *memory)
{
	uint8_t *at = memory;

	ledger->head = memory;
	at += LEDGER_HEAD_BYTES;
	ledger->qps = (struct ledger_qp *)(void *)at;
	at += ledger->head->limits.max_qps * sizeof(struct ledger_qp);
	ledger->cqs = (struct ledger_queue *)(void *)at;
	at += ledger->head->limits.max_cqs * sizeof(struct ledger_queue);
	ledger->srqs = (struct ledger_queue *)(void *)at;
}

int engine_ledger_new(struct engine *engine, void *memory, size_t bytes, const struct engine_ledger_limits *limits,
		      struct engine_ledger **ret_ledger)
{
	struct engine_ledger *ledger;
	int r;

	if (engine->attr.max_mws || engine->attr.max_indirects)
		return -EOPNOTSUPP;
	if (bytes < LEDGER_HEAD_BYTES)
		return -EINVAL;
	/* One that was being formatted holds nothing yet. */
	if (is_all_zero(memory) || !((struct ledger_head *)memory)->magic[0]) {
		if (!limits_are_valid(limits, bytes))
			return -EINVAL;
		format(memory, limits);
	}
	r = check(memory, bytes);
	if (r < 0)
		return r;
	ledger = calloc(1, sizeof(*ledger));
	if (!ledger)
		return -ENOMEM;
	ledger->engine = engine;
	lay_out(ledger, memory);
	ledger_replay_words(ledger);
	if (ledger->head->next_connection > engine->next_connection)
		engine->next_connection = ledger->head->next_connection;
	list_add_tail(&engine->ledgers, &ledger->link);
	*ret_ledger = ledger;
	return 0;
}

struct engine_ledger *engine_ledger_free(struct engine_ledger *ledger)
{
	if (!ledger)
		return NULL;
	assert_bug(!ledger->n_users);
	list_del(&ledger->link);
	free(ledger);
	return NULL;
}

static void detach_qp(struct engine_qp *qp)
{
	if (!qp->slot)
		return;
	qp->own_counters = *qp->counters;
	qp->counters = &qp->own_counters;
	qp->slot = NULL;
	qp->attr.ledger = NULL;
}

static void detach_cq(struct cq *cq)
{
	cq->slot = NULL;
	cq->attr.ledger = NULL;
}

static void detach_srq(struct srq *srq)
{
	srq->slot = NULL;
	srq->attr.ledger = NULL;
}

/* Counts writers to `ledger`, or to any when it is NULL. */
static void detach_all(struct engine *engine, const struct engine_ledger *ledger)
{
	struct engine_qp *qp;
	struct srq *srq;
	struct cq *cq;
	size_t pos = 0;

	list_for_each_entry(qp, &engine->all_qps, all_link) {
		if (!ledger || qp->attr.ledger == ledger)
			detach_qp(qp);
	}
	while ((cq = hash_next(&engine->cqs, &pos, NULL))) {
		if (!ledger || cq->attr.ledger == ledger)
			detach_cq(cq);
	}
	pos = 0;
	while ((srq = hash_next(&engine->srqs, &pos, NULL))) {
		if (!ledger || srq->attr.ledger == ledger)
			detach_srq(srq);
	}
}

static void end(struct engine_ledger *ledger)
{
	ledger->engine = NULL;
	ledger->n_users = 0;
	list_del(&ledger->link);
}

void engine_ledger_leave(struct engine_ledger *ledger)
{
	if (!ledger->engine)
		return;
	detach_all(ledger->engine, ledger);
	end(ledger);
}

void ledger_detach(struct engine *engine)
{
	detach_all(engine, NULL);
	while (!list_empty(&engine->ledgers))
		end(list_first_entry(&engine->ledgers, struct engine_ledger, link));
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* Before it is. */
static void mark_used(uint32_t *used, uint32_t place)
{
	if (place < *used)
		return;
	*used = place + 1;
	ledger_order();
}

static uint64_t offset_of(const struct engine_ledger *ledger, const void *at)
{
	return (uint64_t)((const uint8_t *)at - (const uint8_t *)ledger->head);
}

/* Drops the journal's entry on a former object at this place. An entry on another one may be due until that is restored. */
static void forget_journal(struct engine_ledger *ledger, const struct ledger_queue *slot)
{
	struct ledger_journal *journal = &ledger->head->journal;

	if ((journal->armed >> 32) * 8 == offset_of(ledger, &slot->word))
		ledger_store(&journal->armed, 0);
}

static struct ledger_queue *free_place(struct ledger_queue *queues, uint32_t n, uint32_t *used, uint32_t *first)
{
	for (; *first < n; (*first)++) {
		if (queues[*first].number)
			continue;
		mark_used(used, *first);
		return &queues[(*first)++];
	}
	return NULL;
}

/* NULL: there was no place. */
static struct ledger_queue *take_place(struct engine_ledger *ledger, struct ledger_queue *slot, uint32_t number)
{
	if (!slot)
		return NULL;
	forget_journal(ledger, slot);
	slot->word = 0;
	ledger_order();
	slot->number = number | LEDGER_USED;
	ledger_order();
	ledger->n_users++;
	return slot;
}

static void give_back(struct engine_ledger *ledger, struct ledger_queue *queues, struct ledger_queue *slot, uint32_t *first)
{
	uint32_t place = (uint32_t)(slot - queues);

	ledger_order();
	slot->number = 0;
	ledger_order();
	if (place < *first)
		*first = place;
	ledger->n_users--;
}

int ledger_take_cq(struct cq *cq)
{
	struct engine_ledger *ledger = cq->attr.ledger;
	struct ledger_head *head = ledger->head;

	cq->slot = take_place(ledger, free_place(ledger->cqs, head->limits.max_cqs, &head->used.max_cqs, &ledger->free_cq),
			      cq->attr.cqn);
	return cq->slot ? 0 : -ENOSPC;
}

void ledger_drop_cq(struct cq *cq)
{
	struct engine_ledger *ledger = cq->attr.ledger;

	if (cq->slot)
		give_back(ledger, ledger->cqs, cq->slot, &ledger->free_cq);
	cq->slot = NULL;
}

int ledger_take_srq(struct srq *srq)
{
	struct engine_ledger *ledger = srq->attr.ledger;
	struct ledger_head *head = ledger->head;

	srq->slot = take_place(ledger, free_place(ledger->srqs, head->limits.max_srqs, &head->used.max_srqs, &ledger->free_srq),
			       srq->attr.srqn);
	return srq->slot ? 0 : -ENOSPC;
}

void ledger_drop_srq(struct srq *srq)
{
	struct engine_ledger *ledger = srq->attr.ledger;

	if (srq->slot)
		give_back(ledger, ledger->srqs, srq->slot, &ledger->free_srq);
	srq->slot = NULL;
}

static struct ledger_qp *free_qp_place(struct engine_ledger *ledger)
{
	for (; ledger->free_qp < ledger->head->limits.max_qps; ledger->free_qp++) {
		if (ledger->qps[ledger->free_qp].number)
			continue;
		mark_used(&ledger->head->used.max_qps, ledger->free_qp);
		return &ledger->qps[ledger->free_qp++];
	}
	return NULL;
}

/* In RST. */
int ledger_take_qp(struct engine_qp *qp)
{
	struct engine_ledger *ledger = qp->attr.ledger;
	struct ledger_qp *slot = free_qp_place(ledger);

	if (!slot)
		return -ENOSPC;
	memset(slot, 0, sizeof(*slot));
	slot->log2_mtu = qp->log2_mtu;
	if (qp->dc.parent)
		slot->dci_qpn = qp->path.dest_qpn | LEDGER_USED;
	ledger_order();
	slot->number = qp->attr.qpn | LEDGER_USED;
	ledger_order();
	qp->slot = slot;
	qp->counters = &slot->counters;
	ledger->n_users++;
	return 0;
}

void ledger_drop_qp(struct engine_qp *qp)
{
	struct engine_ledger *ledger = qp->attr.ledger;
	struct ledger_qp *slot = qp->slot;
	uint32_t place;

	if (!slot)
		return;
	detach_qp(qp);
	ledger_order();
	slot->number = 0;
	ledger_order();
	place = (uint32_t)(slot - ledger->qps);
	if (place < ledger->free_qp)
		ledger->free_qp = place;
	ledger->n_users--;
}

/* ---- QPs ----------------------------------------------------------------------------------------------------------- */

/* WQEs that a former process had fetched in SQD are fetched again, also when this process dies before all of them are. */
static uint16_t stop_of(const struct engine_qp *qp)
{
	return unlikely(qp->reliable && requester_resumes(&qp->req)) ? qp->req.resume_end : qp->req.ci;
}

static uint64_t control_word(const struct engine_qp *qp)
{
	return (uint64_t)qp->state << CONTROL_STATE_SHIFT | (uint64_t)qp->first_error << CONTROL_ERROR_SHIFT |
	       (uint64_t)qp->settings_half << CONTROL_HALF_SHIFT | (uint64_t)qp->dc_half << CONTROL_DC_HALF_SHIFT |
	       (qp->frozen ? CONTROL_FROZEN : 0) | (qp->last_wqe_told ? CONTROL_LAST_WQE_TOLD : 0) |
	       (uint64_t)stop_of(qp) << CONTROL_STOP_SHIFT;
}

/* State, and the indexes of a QP whose dbrec is not read any more. */
void ledger_note_control(struct engine_qp *qp)
{
	struct ledger_qp *slot = qp->slot;

	if (!slot)
		return;
	if (qp->frozen) {
		slot->frozen_sq_pi = qp->req.pi;
		slot->frozen_rq_pi = qp->resp.pi;
	}
	ledger_store(&slot->control, control_word(qp));
}

/* A DCI that was reset has left its DCT. Valid with the control word. */
static void note_left(struct engine_qp *qp)
{
	qp->dc_half = !qp->dc_half;
	qp->slot->dcs[qp->dc_half] = (struct ledger_dc){.connection = qp->dc.connection};
}

/* All of it after a change by request, which is saved to be known again. */
void ledger_note_settings(struct engine_qp *qp, const struct engine_qp_modify *mod)
{
	struct ledger_qp *slot = qp->slot;

	if (!slot)
		return;
	slot->settings[!qp->settings_half] = (struct ledger_settings){.path = qp->path, .last = *mod};
	fault_point(qp->engine, ENGINE_STEP_MODIFY);
	qp->settings_half = !qp->settings_half;
	if (qp->attr.type == ENGINE_QP_DCI && qp->state == ENGINE_QP_RST)
		note_left(qp);
	/*
	 * In RST these words mean nothing, and the former state needs the former ones. No step lies between them: a request that
	 * was cut there was not answered, comes again, and sets them all.
	 */
	if (qp->state != ENGINE_QP_RST) {
		ledger_note_req(qp);
		ledger_note_resp(qp);
		slot->sent = slot->req;
	}
	ledger_note_control(qp);
	fault_point(qp->engine, ENGINE_STEP_MODIFIED);
}

/*
 * An unreliable QP is about to send this message: it is never sent again, whether it gets out or not. A death right behind
 * this is a packet lost, which needs no step.
 */
void ledger_note_sent(struct engine_qp *qp)
{
	const struct requester *req = &qp->req;
	const struct sent *sent = &req->sent[req->cursor & req->sent_mask];
	uint16_t behind = (uint16_t)(sent->wqe_index + sent->n_wqebbs);

	if (qp->slot)
		ledger_store(&qp->slot->sent, (uint64_t)behind << REQ_OLDEST_SHIFT);
}

/* Where the message under way has come to. Valid with the word. */
void ledger_note_message(struct engine_qp *qp)
{
	struct responder *resp = &qp->resp;

	qp->slot->messages[!resp->noted_half] = (struct ledger_message){
		.raddr = resp->raddr,
		.left_bytes = resp->left_bytes,
		.done_bytes = resp->done_bytes,
		.rkey = resp->rkey,
		.kind = resp->message_kind,
	};
	resp->noted_half = !resp->noted_half;
}

/* An atomic is executed next. */
void ledger_note_atomic(struct engine_qp *qp)
{
	if (!qp->slot)
		return;
	ledger_store(&qp->slot->resp, ledger_resp_word(qp) | RESP_ATOMIC);
	fault_point(qp->engine, ENGINE_STEP_INTENT);
}

/* Its result, which goes to the entry at replay_next. Valid with the word. */
void ledger_note_replay(struct engine_qp *qp, const struct replay *replay)
{
	if (!qp->slot)
		return;
	qp->slot->replay[qp->resp.replay_next] = (struct ledger_replay){
		.old = replay->old,
		.psn = replay->psn,
		.bytes = (uint8_t)replay->bytes,
		.valid = replay->valid,
		.unknown = replay->unknown,
	};
	ledger_order();
	fault_point(qp->engine, ENGINE_STEP_REPLAY);
}

/* A DCI's next DCT, or a DCT's next connection to a DCI, of which nothing has been executed. */
void ledger_note_connection(struct engine_qp *qp)
{
	struct ledger_qp *slot = qp->slot;
	struct ledger_head *head;
	struct ledger_dc *dc;

	if (!slot)
		return;
	head = qp->attr.ledger->head;
	if (head->next_connection < qp->dc.connection)
		head->next_connection = qp->dc.connection;
	dc = &slot->dcs[!qp->dc_half];
	*dc = (struct ledger_dc){
		.av = qp->dc.av,
		.connection = qp->dc.connection,
		.key = qp->dc.key,
		.first_psn = qp->dc.first_psn,
		.connected = qp->dc.connected,
	};
	memcpy(dc->gid, qp->dc.gid, sizeof(dc->gid));
	if (qp->dc.parent)
		slot->settings[qp->settings_half].path = qp->path;
	fault_point(qp->engine, ENGINE_STEP_CONNECT);
	/* The former connection receives nothing any more, so its note may have the indexes of the new one for a moment. */
	ledger_note_resp(qp);
	fault_point(qp->engine, ENGINE_STEP_CONNECTED);
	qp->dc_half = !qp->dc_half;
	ledger_note_control(qp);
}

/* ---- queues --------------------------------------------------------------------------------------------------------- */

uint64_t ledger_cq_word(const struct cq *cq, uint32_t pi)
{
	return pi | (cq->dead ? CQ_DEAD : 0) |
	       (cq->error_qpn == CQ_NO_QPN ? 0 : CQ_HAS_ERROR | (uint64_t)cq->error_qpn << CQ_ERROR_QPN_SHIFT);
}

void ledger_note_cq(struct cq *cq)
{
	if (cq->slot)
		ledger_store(&cq->slot->word, ledger_cq_word(cq, cq->pi));
}

uint64_t ledger_srq_word(const struct srq *srq)
{
	return srq->n_taken | (uint64_t)srq->next_index << SRQ_NEXT_SHIFT | (uint64_t)srq->limit << SRQ_LIMIT_SHIFT;
}

void ledger_note_srq(struct srq *srq)
{
	if (srq->slot)
		ledger_store(&srq->slot->word, ledger_srq_word(srq));
}

/* From here on both words are due; `word` has a count `count` now. */
static void arm(struct engine_ledger *ledger, const uint64_t *word, uint32_t count)
{
	struct ledger_journal *journal = &ledger->head->journal;

	ledger_store(&journal->armed, offset_of(ledger, word) / 8 << 32 | count);
}

/* The CQE whose last word is `tail`, the others being in the ring, and the word of the half that wrote it. */
void ledger_publish(struct cq *cq, struct engine_qp *qp, bool responder, uint64_t *tail_at, uint64_t tail)
{
	struct engine_ledger *ledger = cq->attr.ledger;
	struct ledger_journal *journal = &ledger->head->journal;
	const struct engine *engine = cq->engine;
	uint64_t *word = NULL;

	fault_point(engine, ENGINE_STEP_CQE_BODY);
	if (qp->slot)
		word = responder ? &qp->slot->resp : &qp->slot->req;
	journal->word = ledger_cq_word(cq, cq->pi + 1);
	journal->qp_at = word ? offset_of(ledger, word) : 0;
	if (word)
		journal->qp_word = responder ? ledger_resp_word(qp) : ledger_req_word(qp);
	journal->cqe_tail = tail;
	arm(ledger, &cq->slot->word, cq->pi);
	fault_point(engine, ENGINE_STEP_CQE_INTENT);
	__atomic_store_n(tail_at, tail, __ATOMIC_RELEASE);
	ledger_order();
	fault_point(engine, ENGINE_STEP_CQE);
	if (word)
		ledger_store(word, journal->qp_word);
	fault_point(engine, ENGINE_STEP_CQE_STATE);
	ledger_store(&cq->slot->word, journal->word);
	fault_point(engine, ENGINE_STEP_CQE_NOTED);
}

/* The QP has taken the WQE of its SRQ: both know. */
void ledger_note_take(struct engine_qp *qp)
{
	struct engine_ledger *ledger = qp->attr.ledger;
	struct srq *srq = qp->srq;
	struct ledger_journal *journal;

	if (!srq->slot || !qp->slot) {
		ledger_note_srq(srq);
		return;
	}
	journal = &ledger->head->journal;
	journal->word = ledger_srq_word(srq);
	journal->qp_at = offset_of(ledger, &qp->slot->resp);
	journal->qp_word = ledger_resp_word(qp);
	/* bounded: it was counted up for this one. */
	arm(ledger, &srq->slot->word, srq->n_taken - 1);
	ledger_store(&qp->slot->resp, journal->qp_word);
	fault_point(qp->engine, ENGINE_STEP_TAKE_NOTED);
	ledger_store(&srq->slot->word, journal->word);
}
