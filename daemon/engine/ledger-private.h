/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a ledger, and how the executor notes things there.
 *
 * Each request changes one word for each half of a QP, and one for each CQ and SRQ: a store makes it valid. Larger
 * things have two places, and a bit of a word that says which one holds. Where a word of a CQ or SRQ changes together with
 * one of a QP, the journal says first what both will be: it is due as long as the count in the word of the CQ or SRQ is the one
 * before, so nothing needs to be taken back.
 *
 * Nobody else reads this memory while the engine lives, and stores of a process that was killed are there up to an
 * instruction: so the compiler must keep them in order, and no more.
 */
#ifndef SHMEMD_ENGINE_LEDGER_PRIVATE_H
#define SHMEMD_ENGINE_LEDGER_PRIVATE_H

#include "daemon/engine/engine-private.h"
#include "daemon/engine/ledger.h"

/* ---- memory: a head, QPs, CQs, SRQs -------------------------------------------------------------------------------- */

/* Word `req` of a QP. */
#define REQ_OLDEST_SHIFT 0u /* 16 bits: first WQEBB that has not completed */
#define REQ_PSN_SHIFT 16u /* 24 bits: its PSN */
#define REQ_FAILED 0x10000000000ull /* bit 40 */
#define REQ_SYNDROME_SHIFT 48u /* 8 bits */

/* Word `resp`. */
#define RESP_PSN_SHIFT 0u /* 24 bits: expected */
#define RESP_CI_SHIFT 24u /* 16 bits: receive WQEs taken; with an SRQ the one taken last */
#define RESP_FAILED 0x10000000000ull /* bit 40 */
#define RESP_HAS_RECV 0x20000000000ull
#define RESP_IN_MESSAGE 0x40000000000ull
#define RESP_ATOMIC 0x80000000000ull /* one is under way, and nobody knows how far it has come */
#define RESP_HALF_SHIFT 44u /* 1 bit: which message */
#define RESP_SYNDROME_SHIFT 48u /* 8 bits */
#define RESP_REPLAY_SHIFT 56u /* 4 bits: next entry */

/* Word `control`. */
#define CONTROL_STATE_SHIFT 0u /* 8 bits: enum engine_qp_state */
#define CONTROL_ERROR_SHIFT 8u /* 8 bits: first_error */
#define CONTROL_HALF_SHIFT 16u /* 1 bit: which settings */
#define CONTROL_DC_HALF_SHIFT 17u /* 1 bit: which connection */
#define CONTROL_FROZEN 0x40000ull /* bit 18 */
#define CONTROL_LAST_WQE_TOLD 0x80000ull
#define CONTROL_STOP_SHIFT 32u /* 16 bits: SQD: first WQEBB that had not been fetched */

struct ledger_settings {
	struct engine_qp_modify path;
	struct engine_qp_modify last; /* as it was asked for */
};

struct ledger_message {
	uint64_t raddr, left_bytes, done_bytes;
	uint32_t rkey;
	uint32_t kind;
};

struct ledger_replay {
	uint64_t old;
	uint32_t psn;
	uint8_t bytes;
	uint8_t valid;
	uint8_t unknown;
	uint8_t reserved;
};

struct ledger_dc {
	struct shmd_wqe_av_seg av; /* DCI */
	uint8_t gid[16]; /* connection of a DCT: of its DCI */
	uint64_t connection;
	uint64_t key;
	uint32_t first_psn;
	uint32_t connected;
};

#define LEDGER_USED 0x80000000u

struct ledger_qp {
	uint64_t req, resp;
	uint64_t sent; /* UC, UD: as req, of the first WQEBB that has not been sent */
	uint64_t control;
	uint32_t number; /* qpn | LEDGER_USED; of a connection of a DCT, its; 0: free */
	uint32_t dci_qpn; /* | LEDGER_USED: it is such a connection */
	uint32_t log2_mtu;
	uint16_t frozen_sq_pi, frozen_rq_pi;
	uint64_t reserved[2];
	struct engine_qp_counters counters;
	struct ledger_settings settings[2];
	struct ledger_message messages[2];
	struct ledger_replay replay[REPLAY_ENTRIES];
	struct ledger_dc dcs[2];
} __attribute__((aligned(64)));

/* The slot of a CQ or an SRQ. Low half of the word: CQEs written, or WQEs taken, ever. */
struct ledger_queue {
	uint64_t word;
	uint32_t number; /* | LEDGER_USED; 0: free */
	uint32_t reserved[13];
} __attribute__((aligned(64)));

#define CQ_ERROR_QPN_SHIFT 32u /* 24 bits */
#define CQ_HAS_ERROR 0x100000000000000ull /* bit 56 */
#define CQ_DEAD 0x200000000000000ull

#define SRQ_NEXT_SHIFT 32u /* 16 bits: index */
#define SRQ_LIMIT_SHIFT 48u /* 16 bits */

/* Due while the low half of `armed` is that of the word at 8 * its upper half; all offsets are in the ledger. */
struct ledger_journal {
	uint64_t armed;
	uint64_t word; /* what that will be */
	uint64_t qp_at; /* word of a QP; 0: none */
	uint64_t qp_word;
	uint64_t cqe_tail; /* last word of the CQE, when it is a CQ */
};

struct ledger_head {
	char magic[8];
	uint32_t version;
	uint32_t qp_bytes;
	struct engine_ledger_limits limits;
	uint32_t reserved;
	uint64_t next_connection; /* at least */
	struct engine_ledger_limits used; /* places beyond were never looked at: in a sparse file that would make them */
	uint32_t reserved2;
	struct ledger_journal journal __attribute__((aligned(64)));
};

#define LEDGER_HEAD_BYTES 4096u

struct engine_ledger {
	struct engine *engine; /* NULL: it is gone */
	struct list link;
	struct ledger_head *head;
	struct ledger_qp *qps;
	struct ledger_queue *cqs, *srqs;
	uint32_t free_qp, free_cq, free_srq; /* none below is free */
	uint32_t next_qp, next_cq, next_srq; /* where a search begins: objects come back in the order of their places */
	uint32_t n_users;
};

static inline uint32_t ledger_used(uint32_t used, uint32_t most)
{
	return used < most ? used : most;
}

/* ---- steps ---------------------------------------------------------------------------------------------------------- */

/* Stores before come before those behind. It binds the compiler alone: a process is killed between two instructions. */
static inline void ledger_order(void)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static inline void fault_point(const struct engine *engine, enum engine_step step)
{
	if (unlikely(engine->ops.fault))
		engine->ops.fault(engine->owner, step);
}

static inline void ledger_store(uint64_t *at, uint64_t value)
{
	ledger_order();
	__atomic_store_n(at, value, __ATOMIC_RELAXED);
	ledger_order();
}

static inline uint64_t ledger_req_word(const struct engine_qp *qp)
{
	const struct requester *req = &qp->req;
	const struct sent *sent = &req->sent[req->head & req->sent_mask];
	uint32_t psn = req->head != req->tail && (sent->flags & SENT_STARTED) ? sent->first_psn : req->next_psn;
	uint64_t word = (uint64_t)req->oldest << REQ_OLDEST_SHIFT | (uint64_t)psn << REQ_PSN_SHIFT;

	if (unlikely(qp->failing))
		word |= REQ_FAILED | (uint64_t)qp->first_error << REQ_SYNDROME_SHIFT;
	return word;
}

static inline uint64_t ledger_resp_word(const struct engine_qp *qp)
{
	const struct responder *resp = &qp->resp;
	uint16_t ci = unlikely(qp->srq) ? resp->recv_index : resp->ci;
	uint64_t word = (uint64_t)resp->expected_psn << RESP_PSN_SHIFT | (uint64_t)ci << RESP_CI_SHIFT |
			(uint64_t)resp->replay_next << RESP_REPLAY_SHIFT |
			(uint64_t)resp->noted_half << RESP_HALF_SHIFT;

	if (unlikely(resp->has_recv))
		word |= RESP_HAS_RECV;
	if (unlikely(resp->in_message))
		word |= RESP_IN_MESSAGE;
	if (unlikely(qp->failing))
		word |= RESP_FAILED | (uint64_t)qp->first_error << RESP_SYNDROME_SHIFT;
	return word;
}

/* A request has completed without a CQE. */
static inline void ledger_note_req(const struct engine_qp *qp)
{
	if (unlikely(qp->slot))
		ledger_store(&qp->slot->req, ledger_req_word(qp));
}

void ledger_note_message(struct engine_qp *qp);

/* A request of the peer was executed, without a CQE. */
static inline void ledger_note_resp(struct engine_qp *qp)
{
	if (likely(!qp->slot))
		return;
	if (unlikely(qp->resp.in_message))
		ledger_note_message(qp);
	ledger_store(&qp->slot->resp, ledger_resp_word(qp));
}

/* ---- ledger.c ------------------------------------------------------------------------------------------------------- */

int ledger_take_qp(struct engine_qp *qp);
int ledger_take_cq(struct cq *cq);
int ledger_take_srq(struct srq *srq);
void ledger_drop_qp(struct engine_qp *qp);
void ledger_drop_cq(struct cq *cq);
void ledger_drop_srq(struct srq *srq);
void ledger_detach(struct engine *engine); /* the engine goes, and leaves the memory as it is */
bool ledger_is_last(const struct engine_qp *qp, const struct engine_qp_modify *mod);
void ledger_note_control(struct engine_qp *qp);
void ledger_note_settings(struct engine_qp *qp, const struct engine_qp_modify *mod);
void ledger_note_sent(struct engine_qp *qp);
void ledger_note_atomic(struct engine_qp *qp);
void ledger_note_replay(struct engine_qp *qp, const struct replay *replay);
void ledger_note_cq(struct cq *cq);
void ledger_note_srq(struct srq *srq);
void ledger_note_take(struct engine_qp *qp);
void ledger_note_connection(struct engine_qp *qp);
void ledger_publish(struct cq *cq, struct engine_qp *qp, bool responder, uint64_t *tail_at, uint64_t tail);
uint64_t ledger_cq_word(const struct cq *cq, uint32_t pi);
uint64_t ledger_srq_word(const struct srq *srq);

/* ---- ledger-restore.c ----------------------------------------------------------------------------------------------- */

struct ledger_qp *ledger_find_qp(struct engine_ledger *ledger, uint32_t qpn);
struct ledger_queue *ledger_find_cq(struct engine_ledger *ledger, uint32_t cqn);
struct ledger_queue *ledger_find_srq(struct engine_ledger *ledger, uint32_t srqn);
void ledger_replay_words(struct engine_ledger *ledger);
void ledger_load_cq(struct cq *cq, struct ledger_queue *slot);
void ledger_load_srq(struct srq *srq, struct ledger_queue *slot);
void ledger_load_qp(struct engine_qp *qp, struct ledger_qp *slot);

#endif
