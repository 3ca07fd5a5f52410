/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations that the files of the engine share.
 *
 * A QP has two halves that exchange packets only: struct requester (send queue, requests in flight, responses) and
 * struct responder (receive queue, requests of the peer). Each half executes one packet at a time. A memory operation that
 * completes later parks the half, and the packet's completion puts the QP back on the ready list. Everything runs on the
 * owner's thread except packet_free_remote().
 */
#ifndef SHMEMD_ENGINE_PRIVATE_H
#define SHMEMD_ENGINE_PRIVATE_H

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "daemon/engine/engine-extension.h"
#include "daemon/engine/engine.h"
#include "kernels/host/wqe-parse.h"
#include "proto/base/assert.h"
#include "proto/base/overflow.h"
#include "proto/base/hash.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* ---- packet sequence numbers: 24 bits, compared by signed distance ------------------------------------- */

#define PSN_MASK 0xffffffu
#define PSN_HALF 0x800000u

static inline uint32_t psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & PSN_MASK;
}

/* From b to a, -2^23 .. 2^23 - 1. */
static inline int32_t psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

/* From b forward to a, 0 .. 2^24 - 1. */
static inline uint32_t psn_ahead(uint32_t a, uint32_t b)
{
	return (a - b) & PSN_MASK;
}

/* ---- memory spans and copies ---------------------------------------------------------------------------- */

struct mem_span {
	struct engine_mem *mem;
	uint64_t offset;
	uint32_t bytes;
};

enum copy_phase {
	COPY_NEXT, /* choose the next step */
	COPY_MOVED, /* `step` bytes have reached the destination */
	COPY_BOUNCE_FULL, /* `step` bytes are in the bounce buffer */
};

/* Payload of a packet to a list of spans. */
struct copy {
	struct engine_memop op;
	struct engine_qp *qp; /* put on the ready list when an operation ends */
	struct engine_packet *pkt; /* the source; NULL: idle */
	struct list bounce_link; /* waiting for a bounce buffer */
	void *bounce;
	uint32_t left_bytes;
	uint32_t src_offset, dst_offset; /* in the present source and destination span */
	uint32_t step;
	unsigned int src, dst;
	enum copy_phase phase;
	bool op_pending;
	bool has_refs; /* destination spans hold references: an operation was pending once */
	bool flip; /* fault point: the next byte is altered on its way */
	const uint8_t *header; /* in front of the payload; the source is still there; NULL: none, or copied */
	uint32_t header_bytes;
	int op_status;
	unsigned int n_dst;
	struct mem_span dst_spans[WQE_MAX_SGES];
};

/* ---- memory regions ---------------------------------------------------------------------------------------- */

struct mr {
	struct engine_mr_attr attr;
	struct mw *mw; /* this is what a bound window opens; NULL for a region */
	struct indirect *indirect; /* ... or what this indirect key opens: its memory is made when it is used */
	uint64_t epoch; /* of mr_epoch, when that was */
};

/* The last region found; good while the table is unchanged. */
struct mr_cache {
	struct mr *mr;
	uint64_t epoch;
};

struct mr_want {
	uint32_t key;
	uint32_t pdn;
	uint32_t access;
	uint64_t addr;
	uint64_t bytes;
	const struct engine_qp *remote_of; /* the QP that a peer asks through; NULL for the QP's own WQEs, which name no window */
};

/* ---- packets ------------------------------------------------------------------------------------------------ */

enum packet_kind {
	PACKET_WRITE,
	PACKET_SEND,
	PACKET_READ,
	PACKET_ATOMIC,
	PACKET_DC_CLOSE,
	PACKET_READ_RESPONSE,
	PACKET_ATOMIC_RESPONSE,
	PACKET_ACK,
	PACKET_NAK,
};

/* Does it go to the responder? */
static inline bool packet_is_request(enum packet_kind kind)
{
	return kind <= PACKET_DC_CLOSE;
}

enum packet_nak {
	NAK_RNR,
	NAK_PSN_SEQUENCE,
	NAK_INVALID_REQUEST,
	NAK_REMOTE_ACCESS,
	NAK_REMOTE_OP,
	NAK_OUTCOME_UNKNOWN,
};

#define PACKET_FIRST 0x01u
#define PACKET_LAST 0x02u
#define PACKET_IMM 0x04u
#define PACKET_SOLICITED 0x08u
#define PACKET_ACK_REQ 0x10u
#define PACKET_INVAL 0x20u /* imm is a key to invalidate */

/* Payloads up to this size travel inside the packet when the memory can be addressed. */
#define PACKET_SMALL_BYTES 128u
#define PACKET_DATA_BYTES 1024u

struct ledger_qp;
struct ledger_queue;
struct packet_pool;
struct tenant;

/* Responses are what frees requests: they have packets of their own to count on. */
enum packet_use {
	PACKET_USE_REQUEST,
	PACKET_USE_RESPONSE,
};
#define N_PACKET_USES 2

/* Fields that only packets of unreliable services have. */
struct packet_unreliable {
	uint32_t life; /* of the sender, when it was sent */
	uint32_t entry; /* of the sender's `sent` */
	/* UD */
	uint32_t qkey;
	struct engine_ud_path path; /* its route is the sender's alone */
};

/* Fields that only packets of DC have. */
struct packet_dc {
	uint64_t key;
	uint64_t connection;
	uint32_t first_psn; /* of the connection */
};

/* Fields that only requests of XRC have. */
struct packet_xrc {
	uint32_t srqn;
};

struct engine_packet {
	struct list link; /* of the transport, then of the half that receives it */
	struct packet_pool *pool;
	struct tenant *tenant; /* of the pool's engine: who allocated it */
	uint8_t use; /* enum packet_use: how it is counted there */
	uint8_t kind; /* enum packet_kind */
	uint8_t flags; /* PACKET_* */
	uint8_t nak; /* enum packet_nak */
	uint8_t rnr_timer; /* IBTA encoding */
	uint8_t service; /* enum engine_qp_type of the sender */
	bool awaited; /* an unreliable sender waits until it comes back to the pool */
	uint32_t dest_qpn;
	uint32_t src_qpn;
	const void *source; /* self_route of the sender: QP numbers are unique in one engine only */
	uint32_t psn;
	uint32_t imm;
	uint32_t payload_bytes; /* in this packet: `data` when n_segs is 0 */
	uint32_t rkey;
	uint32_t mtu_bytes; /* READ: payload of one response packet */
	uint64_t raddr; /* WRITE, first packet; READ; ATOMIC */
	uint64_t length_bytes; /* of the message: WRITE, first packet; READ */
	uint32_t n_segs; /* payload by reference; each holds a reference of its memory */
	union {
		struct engine_atomic atomic; /* ATOMIC */
		uint8_t data[PACKET_DATA_BYTES] __attribute__((aligned(16)));
		struct mem_span segs[WQE_MAX_SGES];
	};
	union {
		struct packet_unreliable unreliable; /* of UC and UD only */
		struct packet_dc dc; /* of DCIs and DCTs only */
		struct packet_xrc xrc; /* of XRC_INIs only */
	};
};

/* ---- CQs ------------------------------------------------------------------------------------------------------ */

struct cq {
	struct engine *engine;
	struct engine_cq_attr attr;
	uint32_t pi;
	uint32_t ci; /* last value read from the dbrec */
	uint32_t n_users; /* XRC SRQs; QPs, twice for one that uses it for both queues */
	uint32_t fired_arm; /* arm word that has had its event */
	bool dead; /* overrun */
	bool new_solicited;
	uint32_t error_qpn; /* collapsed: QP whose error CQE lies at entry 0, or CQ_NO_QPN */
	struct ledger_queue *slot; /* in the ledger, or NULL */
	struct list notify_link; /* a CQE was written since the arm word was last read */
	struct list dead_link;
};

#define CQ_NO_QPN UINT32_MAX

/* ---- SRQs ----------------------------------------------------------------------------------------------------- */

struct srq {
	struct engine *engine;
	struct engine_srq_attr attr;
	uint16_t pi, ci; /* dbrec; WQEs taken */
	uint16_t next_index;
	uint16_t limit; /* armed when not 0 */
	bool error;
	uint32_t n_users;
	uint32_t n_taken; /* ci, not counted round */
	struct ledger_queue *slot; /* in the ledger, or NULL */
	struct cq *cq; /* XRC */
};

/* ---- QPs -------------------------------------------------------------------------------------------------------- */

#define SENT_STARTED 0x01u /* has PSNs */
#define SENT_FETCH 0x02u /* read or atomic: done by its response */
#define SENT_SIGNALED 0x04u
#define SENT_SOLICITED 0x08u
#define SENT_FENCE 0x10u
#define SENT_NO_STREAM 0x20u /* when it fails, the QP does, whatever streams it has */

/* One send WQE between fetch and completion. */
struct sent {
	uint16_t wqe_index;
	uint8_t n_wqebbs;
	uint8_t opcode;
	uint8_t kind; /* enum engine_wqe_kind */
	uint8_t flags; /* SENT_* */
	uint8_t syndrome; /* not 0: fails when it is the oldest */
	uint8_t n_sges;
	uint32_t first_psn;
	uint32_t n_psns;
	/* READ, ATOMIC: response packets whose payload has arrived; UC, UD: packets that hold no memory of ours any more */
	uint32_t n_responses;
	uint32_t bytes;
	struct wqe_sge sge; /* the only one when n_sges is 1 */
};

struct requester {
	uint16_t pi; /* last value of the dbrec */
	uint16_t ci; /* next WQEBB to fetch */
	uint16_t oldest; /* first WQEBB that has not completed */
	bool check_dbrec;
	bool loaded; /* `cur` is the request at `cursor` */
	bool halted; /* an entry has a syndrome: nothing new is sent */
	bool rnr_wait;
	bool drain_reported;
	bool resuming; /* WQEs before resume_end had been fetched (SQD) or sent (UC, UD) by a former process */
	uint16_t resume_end;
	bool recovering; /* from a loss at recovered_psn, until progress or the timer */
	uint8_t retry_left;
	uint8_t rnr_left;
	uint32_t peer_stamp; /* of ops.is_peer_behind */
	uint64_t behind_since_nsec; /* when that was first true since progress; 0: it was not */
	uint8_t grace; /* after a restore, until the peer answers: resends that are soon, and cost no retry */
	uint32_t head, tail, cursor; /* entries of `sent`: oldest, next free, next to send */
	uint32_t sent_mask;
	uint32_t life; /* unique in the engine; another one after everything on its way was dropped */
	uint32_t next_psn;
	uint32_t unacked_psn; /* all before it were acknowledged */
	uint32_t sent_psn; /* one behind the last PSN ever sent; next_psn but in mid-message */
	uint32_t recovered_psn;
	uint32_t n_since_ack_req;
	uint32_t n_fetches, n_reads; /* started and not completed */
	uint32_t cur_packet; /* of `cur`: next packet to send */
	uint32_t resume_packet; /* where a resend enters the request at `cursor` */
	unsigned int cur_sge;
	uint32_t cur_sge_offset;
	struct list rx; /* responses */
	struct engine_packet *pkt; /* the response being copied */
	struct mr_cache mr;
	struct sent *sent;
	uint8_t *shadow; /* WQEs from fetch to completion, each in one piece */
	uint32_t n_shadow; /* WQEBBs: those of the ring, or fewer */
	struct copy copy;
	struct wqe_request cur;
};

/* A WQE that ends behind resume_end is one that the client has changed since. bounded: MAX_SHADOW_WQEBBS were on their way. */
static inline bool requester_resumes(const struct requester *req)
{
	return req->resuming && (int16_t)(req->resume_end - req->ci) > 0;
}

#define REPLAY_ENTRIES 16u

struct replay {
	bool valid;
	uint32_t psn;
	uint64_t old;
	uint32_t bytes;
	bool unknown; /* it was cut off: nobody knows whether it took effect */
};

struct responder {
	uint16_t pi, ci; /* receive WQEs: dbrec, next to take */
	uint32_t expected_psn;
	bool nak_sent; /* PSN sequence NAK, until the expected packet comes */
	bool ack_due;
	struct list rx; /* requests */
	struct engine_packet *pkt; /* being executed */
	struct engine_packet *spent; /* carries the acknowledgement that is due */
	struct early_queue *early; /* owned; NULL until the first early write */

	/* the message of several packets under way */
	bool in_message;
	uint8_t message_kind; /* PACKET_WRITE or PACKET_SEND */
	uint32_t rkey;
	uint64_t raddr;
	uint64_t left_bytes; /* WRITE: announced and not arrived */
	uint64_t done_bytes;

	/* the receive WQE taken for it */
	bool has_recv;
	uint16_t recv_index;
	uint32_t recv_sge, recv_sge_offset;
	uint64_t recv_bytes, recv_left_bytes;
	unsigned int n_recv_sges;

	/* the READ under way: `pkt` is its request */
	bool reading;
	bool read_again; /* a duplicate */
	uint32_t read_psn;
	uint64_t read_done_bytes;

	struct replay replay[REPLAY_ENTRIES];
	unsigned int replay_next;
	bool noted_half; /* of the ledger: which message holds */

	struct mr_cache mr;
	struct mr_cache recv_mr;
	struct engine_memop atomic_op;
	struct engine_mem *atomic_mem; /* referenced while an atomic is pending */
	bool atomic_pending;
	int atomic_status;
	uint64_t atomic_old;
	struct copy copy;
	struct wqe_sge recv_sges[32];
};

/*
 * All QPs of one PD. Tenants share the engine by work, not by number of QPs or WQEs (tenant.c); and packets by how
 * many are left.
 */
struct tenant {
	struct list link; /* engine->fresh or engine->active, while it has ready QPs */
	struct list waiting_link; /* engine->packet_waiters, while it has QPs that wait for packets */
	struct list ready; /* struct engine_qp.ready_link */
	struct list waiters[N_PACKET_USES]; /* struct engine_qp.packet_link, of the same use */
	uint32_t pdn;
	int32_t credit_nsec; /* of work it may do before others get their turn; negative: overdrawn */
	uint32_t refs; /* QPs, and a turn that runs */
	uint32_t n_packets[N_PACKET_USES]; /* by enum packet_use */
};

/* A DCI's connection to one DCT, or a DCT's to one DCI. */
struct dc {
	uint64_t key;
	uint64_t connection; /* unique in the engine of the DCI, and growing; nobody counts it round */
	uint32_t first_psn;
	bool connected; /* DCI */
	struct shmd_wqe_av_seg av; /* DCI: of the DCT */
	struct hash children; /* DCT: the first of its connections to DCIs of a QP number */
	struct engine_qp *parent; /* of such a connection, which is a QP of its own: the DCT */
	struct engine_qp *sibling; /* ... and the next to a DCI of the same number on another engine */
	const void *source; /* ... and the engine of its DCI */
	uint8_t gid[16]; /* ... and the way there, where a ledger wants it */
	uint16_t slid; /* ... and the LID of its port, 0 where there are none */
	bool closed; /* ... whose DCI has left it */
	struct list closed_link;
	struct list engine_link; /* engine.dc_closed */
	struct list closed_children; /* DCT: longest closed first */
	unsigned int n_closed;
};

/* Streams of a DCI that has them: see stream.c. */
struct streams {
	unsigned int max; /* so many in error end the QP; 0: it has none */
	unsigned int n;
	uint16_t *errored; /* owned; those in error */
	uint16_t present; /* whose requests are on their way */
};

struct engine_qp {
	struct engine *engine;
	struct tenant *tenant;
	struct list all_link;
	struct list ready_link;
	struct list packet_link[N_PACKET_USES]; /* waiting for a free packet of this use */
	struct engine_qp_attr attr;
	struct cq *send_cq, *recv_cq; /* XRC_TGT: none, but the SRQ's */
	struct srq *srq; /* XRC_TGT: of the last request in order, not counted as its user; NULL: none yet */
	uint32_t recv_pdn; /* of the keys in receive WQEs */
	uint32_t remote_pdn; /* of the keys that the peer names */
	enum engine_qp_state state;
	bool zombie; /* destroyed, awaiting memory operations */
	bool frozen; /* the dbrec is not read any more */
	bool last_wqe_told; /* in ERR with an SRQ */
	bool cancelled; /* reset, awaiting memory operations of the former life */
	uint8_t first_error;
	void *route; /* valid when has_route */
	bool has_route;
	uint8_t log2_mtu; /* payload of a packet: the engine's chunk */
	bool reliable; /* requests are acknowledged */
	bool has_av; /* UD, DCI: WQEs have an address vector */
	bool is_dc;
	const struct engine_service *service; /* of its type; NULL: RC, DC */
	bool failing; /* the error CQE that is being written ends it */
	bool restored; /* of a former process */
	bool settings_half, dc_half; /* of the ledger: which ones hold */
	bool repeats; /* the last modify of the former process may come again */
	bool timer_armed; /* retry or RNR timer */
	unsigned int timer_place; /* in the heap; 0: none */
	uint64_t timer_key_nsec; /* there: deadline_nsec or earlier */
	uint64_t deadline_nsec; /* while armed */
	struct engine_qp_modify path; /* the merged values of all modify calls */
	struct engine_qp_counters *counters; /* own_counters, or of the ledger */
	struct engine_qp_counters own_counters;
	struct ledger_qp *slot; /* in the ledger; NULL: it dies with the process */
	struct dc dc;
	struct streams streams;
	struct responder resp;
	struct requester req;
};

/* ---- the engine -------------------------------------------------------------------------------------------------- */

#define HOT_QPS 8u
#define N_BOUNCE 16u
#define BOUNCE_BYTES 65536u
#define TURN_UNITS 16u /* of one half in one turn of a QP */
#define WINDOW_PSNS 256u
#define ACK_REQ_EVERY 64u
#define MAX_SENT 256u
/* A long ring costs its client memory, not the daemon. */
#define MAX_SHADOW_WQEBBS (2 * ACK_REQ_EVERY * SHMD_WQE_MAX_WQEBBS)
#define PACKET_RESERVE 64u /* kept for READ responses when requests have used up the rest */
#define TURN_BYTES 65536u /* of payload after which a turn ends */
#define PROGRESS_WORK 65536u /* of tenant_charge, after which engine_progress returns */
#define PACKET_WAIT_NSEC 50000u

struct engine {
	struct engine_attr attr;
	const struct engine_extension *extension; /* or NULL */
	struct engine_ops ops;
	void *owner;
	uint64_t now_nsec;
	uint64_t mr_epoch;
	struct hash qps, cqs, mrs, srqs;
	uint32_t n_regions; /* of mrs: those of engine_mr_create */
	struct hash mws, indirects; /* by the upper 24 bits of the key */
	struct list all_qps;
	struct list fresh, active; /* struct tenant.link: those in credit who come with news; the others, in turn */
	struct hash tenants; /* struct tenant by pdn */
	uint64_t moved_bytes; /* by copies and fetches, ever */
	uint64_t turn_began; /* moved_bytes then */
	uint64_t turn_clock_nsec; /* 0: no other tenant is ready */
	uint64_t moved_stop; /* the present turn ends when moved_bytes gets here */
	struct engine_qp **timers; /* a heap, from 1; owned */
	unsigned int n_timers, timer_places;
	struct list packet_waiters; /* struct tenant.waiting_link */
	struct list bounce_waiters;
	struct list notify_cqs;
	struct list dead_cqs;
	struct packet_pool *pool;
	struct list free_packets;
	unsigned int n_free_packets;
	unsigned int n_qps; /* zombies included */
	unsigned int n_children; /* of them, connections of DCTs */
	struct list ledgers; /* struct engine_ledger.link */
	struct list dc_closed; /* engine_qp.dc.engine_link: ended connections of all DCTs, the longest ended first */
	unsigned int n_awaited; /* packets away that unreliable senders wait for */
	unsigned int n_jams; /* ways that the owner may call jammed */
	uint32_t next_life;
	uint64_t next_connection; /* of DCIs */
	bool closing; /* engine_free: nothing is sent any more */
	void *bounce_memory;
	void *bounce_free[N_BOUNCE];
	unsigned int n_bounce_free;
	struct engine_qp *hot[HOT_QPS];
	enum engine_fault fault;
	uint64_t fault_left;
	struct engine_qp_counters past; /* of destroyed QPs */
	struct wqe_request scratch;
};

/* tenant.c; what follows is called in every turn */
int tenant_join(struct engine *engine, struct engine_qp *qp);
void tenant_release(struct engine *engine, struct tenant *tenant);
void tenant_activate(struct engine *engine, struct tenant *tenant);
struct tenant *tenant_rotate(struct engine *engine);
uint32_t tenant_turn_nsec(struct engine *engine);
struct engine_packet *tenant_packet(struct engine_qp *qp, enum packet_use use);
void tenants_wake(struct engine *engine);
void tenants_free(struct engine *engine);

#define TENANT_QUANTUM_NSEC 8192
#define TENANT_MOST_DEBT_NSEC (1 << 20) /* timers cost their tenant while it waits for its turn */
#define TENANT_UNIT_WORK 1024u /* of a unit, in bytes moved in the same time */
#define TENANT_WORK_PER_NSEC 16u

/* Is anybody but the first in line ready? */
static inline bool tenants_compete(const struct engine *engine)
{
	const struct list *fresh = &engine->fresh, *active = &engine->active;

	return (!list_empty(fresh) && (!list_empty(active) || fresh->next != fresh->prev)) ||
	       active->next != active->prev;
}

static inline struct tenant *tenant_first(const struct engine *engine)
{
	const struct list *line = list_empty(&engine->fresh) ? &engine->active : &engine->fresh;

	return list_empty(line) ? NULL : list_first_entry(line, struct tenant, link);
}

/* The tenant whose turn it is; NULL: none is ready. */
static inline struct tenant *tenant_next(struct engine *engine)
{
	struct tenant *tenant = tenant_first(engine);

	return likely(!tenant || tenant->credit_nsec > 0) ? tenant : tenant_rotate(engine);
}

/* Before a turn. Within one call of engine_progress the end of one turn begins the next. */
static inline void tenant_begin(struct engine *engine, bool goes_on)
{
	engine->turn_began = engine->moved_bytes;
	engine->moved_stop = engine->moved_bytes + TURN_BYTES;
	if (likely(!tenants_compete(engine) || !engine->ops.clock_nsec))
		engine->turn_clock_nsec = 0;
	else if (!goes_on || !engine->turn_clock_nsec)
		engine->turn_clock_nsec = engine->ops.clock_nsec(engine->owner);
}

static inline void tenant_pay(struct tenant *tenant, uint32_t nsec)
{
	/* bounded: a turn is 50 us or 64 KiB and a chunk, and debts end here. */
	tenant->credit_nsec -= (int32_t)nsec;
	if (unlikely(tenant->credit_nsec < -TENANT_MOST_DEBT_NSEC))
		tenant->credit_nsec = -TENANT_MOST_DEBT_NSEC;
}

/* After a turn of one of its QPs. A turn in vain is work as well. Returns the work, in bytes. */
static inline unsigned int tenant_charge(struct engine *engine, struct tenant *tenant, unsigned int units)
{
	unsigned int work = (units ? units : 1) * TENANT_UNIT_WORK +
			    (unsigned int)(engine->moved_bytes - engine->turn_began);

	tenant_pay(tenant, engine->turn_clock_nsec ? tenant_turn_nsec(engine) : work / TENANT_WORK_PER_NSEC);
	if (list_empty(&tenant->ready))
		list_del(&tenant->link);
	return work;
}

static inline void qp_ready(struct engine_qp *qp)
{
	if (!list_empty(&qp->ready_link))
		return;
	list_add_tail(&qp->tenant->ready, &qp->ready_link);
	if (list_empty(&qp->tenant->link))
		tenant_activate(qp->engine, qp->tenant);
}

static inline void qp_unready(struct engine_qp *qp)
{
	list_del(&qp->ready_link);
	if (list_empty(&qp->tenant->ready))
		list_del(&qp->tenant->link);
}

/* Has this turn moved so much that others must have theirs? The QP goes on in its next one. */
static inline bool turn_is_over(struct engine_qp *qp)
{
	if (likely(qp->engine->moved_bytes < qp->engine->moved_stop))
		return false;
	qp_ready(qp);
	return true;
}

static inline bool qp_can_receive(const struct engine_qp *qp)
{
	return qp->state == ENGINE_QP_RTR || qp->state == ENGINE_QP_RTS || qp->state == ENGINE_QP_SQD ||
	       qp->state == ENGINE_QP_SQER;
}

/*
 * In ERR because a former process left the outcome of an atomic unknown, and its peer may not know. The QP
 * answers once more the requests that the former process executed, and nothing else.
 */
static inline bool qp_answers_again(const struct engine_qp *qp)
{
	return unlikely(qp->state == ENGINE_QP_ERR) && qp->restored && qp->attr.type == ENGINE_QP_RC &&
	       qp->first_error == SHMD_SYNDROME_OUTCOME_UNKNOWN;
}

static inline bool qp_can_send(const struct engine_qp *qp)
{
	return qp->state == ENGINE_QP_RTS || qp->state == ENGINE_QP_SQD;
}

/* packet.c */
struct packet_pool {
	struct engine_packet *packets; /* owned */
	unsigned int n_packets;
	unsigned int n_used; /* packets[] behind it were never handed out, nor touched */
	struct engine_packet *returned; /* atomic: stack by link.next, or a mark that the pool is shut */
	struct engine_packet *spare; /* of those that are read into: the same, taken from there */
	int32_t orphans; /* atomic: packets still away when the engine went */
};

/* The stack reuses the link of a packet that is in no list. */
static inline struct engine_packet *packet_stack_next(const struct engine_packet *pkt)
{
	return (struct engine_packet *)(void *)pkt->link.next;
}

struct packet_pool *packet_pool_alloc(unsigned int n_packets);
struct engine_packet *packet_pool_shut(struct packet_pool *pool);
void packet_pool_leave(struct packet_pool *pool, unsigned int n_away);
struct engine_packet *packet_first_use(struct packet_pool *pool);
int packet_pool_new(struct engine *engine);
void packet_pool_close(struct engine *engine);
void packet_pool_collect(struct engine *engine);
struct engine_packet *packet_alloc(struct engine *engine, unsigned int reserve);
void packet_drop_payload(struct engine_packet *pkt);
struct engine_packet *packet_put(struct engine *engine, struct engine_packet *pkt);
void packet_put_all(struct engine *engine, struct list *packets);
void packet_add_seg(struct engine_packet *pkt, const struct mem_span *span);

/* mr.c */
int mr_resolve(struct engine *engine, struct mr_cache *cache, const struct mr_want *want,
	       struct mem_span *ret_span);

int mr_new(struct engine *engine, const struct engine_mr_attr *attr, struct mw *mw, struct mr **ret_mr);
void mr_free(struct engine *engine, struct mr *mr);

/* copy.c */
int bounce_init(struct engine *engine);
void copy_init(struct copy *copy, struct engine_qp *qp);
int copy_start(struct copy *copy, struct engine_packet *pkt);
int copy_start_behind(struct copy *copy, struct engine_packet *pkt, const uint8_t *header, uint32_t header_bytes);
int copy_continue(struct copy *copy);
bool copy_is_pending(const struct copy *copy);
void copy_end(struct copy *copy);
void copy_bytes(void *dst, const void *src, size_t bytes);

static inline void copy_add_dst(struct copy *copy, const struct mem_span *span)
{
	copy->dst_spans[copy->n_dst++] = *span;
}

static inline void *span_pointer(const struct mem_span *span)
{
	const struct engine_mem_ops *ops = span->mem->ops;

	return ops->pointer ? ops->pointer(span->mem, span->offset, span->bytes) : NULL;
}

/* cq.c */
struct cqe_fields {
	uint8_t cqe_opcode; /* enum shmd_cqe_opcode */
	uint8_t wqe_opcode;
	uint8_t syndrome;
	bool solicited;
	uint16_t wqe_counter;
	uint32_t bytes;
	uint32_t imm;
	uint32_t rqpn; /* responder: sender, SL and GRH as in flags_rqpn */
	uint16_t slid;
};

void cq_write(struct cq *cq, struct engine_qp *qp, const struct cqe_fields *fields);
void cq_write_error(struct cq *cq, struct engine_qp *qp, const struct cqe_fields *fields);
void cq_forget_error(struct cq *cq, const struct engine_qp *qp);
bool cq_attr_is_valid(const struct engine_cq_attr *attr);
void cq_clear_ring(const struct engine_cq_attr *attr);
bool cq_is_full(struct cq *cq);
uint32_t cq_n_unread(struct cq *cq);
void cq_write_mark(struct cq *cq, uint8_t cqe_opcode);
void cq_notify_all(struct engine *engine);
void cq_bury_dead(struct engine *engine);

/* qp-state.c */
void qp_error(struct engine_qp *qp, uint8_t syndrome, bool responder);
unsigned int qp_flush_sends(struct engine_qp *qp, unsigned int budget);
void qp_reset(struct engine_qp *qp);
void qp_change_route(struct engine_qp *qp, void *route);
unsigned int qp_flush(struct engine_qp *qp, unsigned int budget);
bool qp_has_pending_ops(const struct engine_qp *qp);
void qp_settle(struct engine_qp *qp);
void qp_stop(struct engine_qp *qp);
int qp_restore_route(struct engine_qp *qp);

static inline uint8_t *shadow_wqe(const struct engine_qp *qp, uint16_t index)
{
	return qp->req.shadow + (size_t)(index & (qp->req.n_shadow - 1)) * SHMD_WQEBB_BYTES;
}

/* A WQE in the shadow ring again, or for the first time. */
static inline int parse_shadow(const struct engine_qp *qp, uint16_t index, unsigned int n_wqebbs,
			       struct wqe_request *ret_req)
{
	/* bounded: 63 units of 16 bytes. */
	size_t bytes = (size_t)n_wqebbs * SHMD_WQEBB_BYTES;

	if (unlikely(qp->has_av))
		return wqe_parse_av(shadow_wqe(qp, index), bytes, ret_req);
	if (unlikely(qp->service && qp->service->parse))
		return qp->service->parse(shadow_wqe(qp, index), bytes, ret_req);
	return wqe_parse(shadow_wqe(qp, index), bytes, ret_req);
}

/* send.c */
uint16_t qp_read_snd(const struct engine_qp *qp);
unsigned int requester_send(struct engine_qp *qp, unsigned int budget);
uint8_t requester_check_sges(struct engine_qp *qp, bool nic_writes); /* 0, or a syndrome */
void requester_start(struct engine_qp *qp, struct sent *sent);
void requester_step(struct engine_qp *qp, const struct sent *sent, uint8_t packet_flags);
uint16_t requester_wqebbs_at(const struct engine_qp *qp, uint16_t index, uint8_t *ret_opcode);

/* requester.c */
unsigned int requester_input(struct engine_qp *qp, unsigned int budget);
void requester_advance(struct engine_qp *qp);
void requester_resend(struct engine_qp *qp, uint32_t psn);
void requester_solicit(struct engine_qp *qp, uint32_t behind_psn);
void requester_fail(struct engine_qp *qp, struct sent *sent, uint8_t syndrome);
void requester_timer(struct engine_qp *qp);
uint64_t requester_retry_nsec(const struct engine_qp *qp);

/* responder.c */
unsigned int responder_run(struct engine_qp *qp, unsigned int budget);
void responder_flush_ack(struct engine_qp *qp);
void responder_drop_ack(struct engine_qp *qp);
void responder_owe_ack(struct engine_qp *qp, struct engine_packet *pkt);
void responder_executed(struct engine_qp *qp, struct engine_packet *pkt);
void responder_reply_nak(struct engine_qp *qp, struct engine_packet *pkt, enum packet_nak nak,
			 uint32_t psn);
void responder_fail(struct engine_qp *qp, struct engine_packet *pkt, enum packet_nak nak);
void responder_fail_with(struct engine_qp *qp, struct engine_packet *pkt, enum packet_nak nak,
			 uint8_t syndrome);
void responder_refuse(struct engine_qp *qp, struct engine_packet *pkt, int r);
int responder_resolve_remote(struct engine_qp *qp, const struct engine_packet *pkt, uint32_t access,
			     uint64_t bytes, struct mem_span *ret_span);

/* engine.c */
bool qp_rings_are_valid(const struct engine_qp_attr *attr);
int qp_new(struct engine *engine, const struct engine_qp_attr *attr, struct engine_qp **ret_qp);
void qp_take_queues(struct engine_qp *qp, struct cq *send_cq, struct cq *recv_cq, struct srq *srq);
struct engine_qp *qp_free(struct engine_qp *qp);
void qp_join(struct engine_qp *qp);
void qp_bury(struct engine_qp *qp);
void qp_reap(struct engine_qp *qp);
void counters_add(struct engine_qp_counters *sum, const struct engine_qp_counters *c);

/* dc.c */
bool dc_connect(struct engine_qp *qp, struct sent *sent);
void dc_leave(struct engine_qp *dci);
bool dc_drop_closed(struct engine *engine);
int dc_restore_child(struct engine_qp *dct, struct ledger_qp *slot);
struct engine_qp *dc_accept(struct engine_qp *dct, const struct engine_packet *pkt);
bool dc_hears(const struct engine_qp *dci, const struct engine_packet *pkt);
void dc_drop_children(struct engine_qp *dct);
void dc_reap_children(struct engine_qp *dct);
void dc_leave_parent(struct engine_qp *child);
void dc_add_counters(const struct engine_qp *dct, struct engine_qp_counters *sum);

/* srq.c */
bool srq_is_posted(struct srq *srq);
uint8_t srq_take(struct engine_qp *qp);
uint8_t srq_parse(struct engine_qp *qp, uint16_t index, uint16_t *ret_next);

/* responder-data.c */
uint16_t qp_read_rcv(const struct engine_qp *qp);
void responder_execute_data(struct engine_qp *qp, struct engine_packet *pkt);
bool responder_take_recv(struct engine_qp *qp, struct engine_packet *pkt);
int responder_add_recv_targets(struct engine_qp *qp, uint32_t bytes);
void responder_moved(struct engine_qp *qp, struct engine_packet *pkt, int r);
bool responder_resume_data(struct engine_qp *qp);
void responder_retake(struct engine_qp *qp, uint16_t index);

/* responder-early.c */
#define EARLY_MOST 64u
bool early_start(struct engine_qp *qp, struct engine_packet *pkt, const struct mem_span *to); /* to->mem->ops->order is there */
bool early_is_open(const struct responder *resp); /* some have not been taken; the next two want that */
bool early_may_follow(const struct engine_qp *qp, const struct engine_packet *pkt);
bool early_keeps_order(const struct responder *resp, struct engine_mem *mem);
struct engine_packet *early_take(struct responder *resp, int *ret_status);
uint32_t early_oldest_psn(const struct responder *resp); /* the first that has not ended; the expected one, if all have */
bool early_is_pending(const struct responder *resp);
void early_drop(struct engine_qp *qp);
void early_free(struct engine_qp *qp);

/* responder-fetch.c */
void responder_execute_read(struct engine_qp *qp, struct engine_packet *pkt);
void responder_execute_atomic(struct engine_qp *qp, struct engine_packet *pkt);
bool responder_resume_fetch(struct engine_qp *qp);
void responder_duplicate_fetch(struct engine_qp *qp, struct engine_packet *pkt);

/* timer.c */
void timer_arm(struct engine_qp *qp, uint64_t after_nsec);
void timer_cancel(struct engine_qp *qp);
int timers_reserve(struct engine *engine, unsigned int n_qps);
void timer_forget(struct engine_qp *qp);
uint64_t timers_next(struct engine *engine);
void timers_run(struct engine *engine);
uint64_t timer_retry_nsec(uint8_t timeout);
uint64_t timer_rnr_nsec(uint8_t encoded);

/* Writes the sender into the packet. */
static inline void packet_sign(struct engine_packet *pkt, const struct engine_qp *qp)
{
	pkt->src_qpn = qp->attr.qpn;
	pkt->source = qp->engine->attr.self_route;
	pkt->service = (uint8_t)qp->attr.type;
}

/* As engine_ops.send. */
static inline int qp_send(struct engine_qp *qp, struct engine_packet *pkt)
{
	packet_sign(pkt, qp);
	if (unlikely(qp->is_dc))
		pkt->dc = (struct packet_dc){qp->dc.key, qp->dc.connection, qp->dc.first_psn};
	pkt->dest_qpn = qp->path.dest_qpn;
	return qp->engine->ops.send(qp->engine->owner, qp->route, pkt);
}

#endif
