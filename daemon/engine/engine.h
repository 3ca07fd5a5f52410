/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NIC in software: executes mlx5-format queues.
 *
 * One `struct engine` is one NIC port: its QPs, CQs, PDs and memory regions. It has no loop, no socket, no
 * thread and no globals: the owner calls it from one thread at a time and lends it a clock, a transport and an
 * event sink (struct engine_ops). Two front doors own engines: daemon/nic/soft and the simulated ConnectX of
 * the tests.
 *
 * Rules
 * - Requester and responder are separate halves of a QP. They exchange struct engine_packet only, through
 *   ops->send, also when both live in the same engine; so a wire transport needs no change here.
 * - Client-written inputs are WQEs, dbrecs and CQ consumer indexes, each read once into engine-owned memory
 *   and parsed there by kernels/host/wqe-parse. A doorbell only wakes; the producer index comes from the
 *   dbrec. A wrong input becomes an error CQE with its mlx5 syndrome and a QP in the error state.
 * - Payload memory is touched only through struct engine_mem_ops, whose operations may complete later, from
 *   any call into the engine's owner thread. Messages of one QP take effect in the order they were posted, and
 *   CQEs appear in order, over operations still pending.
 * - Nothing here blocks or allocates on the data path beyond bounded pools; a request of 2 GiB is executed in
 *   chunks so that one call never takes long.
 */
#ifndef SHMEMD_ENGINE_H
#define SHMEMD_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shmd/abi/cqe.h>
#include <shmd/abi/doorbell.h>
#include <shmd/abi/wqe.h>

#include "proto/base/list.h"

struct engine;
struct engine_ledger; /* ledger.h */
struct engine_mem;
struct engine_memop;
struct engine_jam;
struct engine_packet;
struct packet_pool;

/* ---- memory ---------------------------------------------------------------------------------------- */

/* One asynchronous memory operation. Embedded in engine state; the backend calls engine_memop_done once. */
struct engine_memop {
	void (*done)(struct engine_memop *op, int status); /* set by the engine; 0 or negative errno */
	void *owner; /* of the engine that waits: on its thread engine_memop_done() must be called */
};

/* Effect of an atomic on the remote word. Values are native-endian. */
struct engine_atomic {
	bool is_compare_swap; /* else fetch-add */
	uint8_t bytes; /* 4 or 8 */
	uint64_t swap_or_add;
	uint64_t compare;
	uint64_t swap_mask; /* all ones for the plain form */
	uint64_t compare_mask; /* all ones for the plain form */
	uint64_t boundary; /* fetch-add: set bits stop carries; 0 for the plain form */
};

/*
 * How to reach one memory object. Each function returns 0 when it completed at once, -EINPROGRESS when `op`
 * will be completed later by engine_memop_done() on the owner's thread, or another negative errno (no callback
 * then). Offsets are bytes from the start of the object and were range-checked by the engine.
 */
struct engine_mem_ops {
	/* A pointer valid as long as the object, or NULL when the memory cannot be addressed. May be NULL. */
	void *(*pointer)(struct engine_mem *mem, uint64_t offset, size_t bytes);
	int (*read)(struct engine_mem *mem, uint64_t offset, void *dst, size_t bytes,
		    struct engine_memop *op);
	int (*write)(struct engine_mem *mem, uint64_t offset, const void *src, size_t bytes,
		     struct engine_memop *op);
	/* Atomic against every other agent on this memory; the old value goes to *ret_old. */
	int (*atomic)(struct engine_mem *mem, uint64_t offset, const struct engine_atomic *what,
		      uint64_t *ret_old, struct engine_memop *op);
	/*
	 * Writes to memories of the same order, which is not NULL, take effect in the order of the calls, also while earlier ones are pending.
	 * May be NULL.
	 */
	const void *(*order)(struct engine_mem *mem);
	/* Called when the last reference is dropped, on whichever owner thread dropped it. */
	void (*free)(struct engine_mem *mem);
};

/* A memory object: embedded in the backend's own. References are atomic: packets carry them across engines. */
struct engine_mem {
	const struct engine_mem_ops *ops;
	uint64_t size_bytes;
	uint32_t refs;
};

void engine_mem_init(struct engine_mem *mem, const struct engine_mem_ops *ops, uint64_t size_bytes);
struct engine_mem *engine_mem_ref(struct engine_mem *mem);
struct engine_mem *engine_mem_unref(struct engine_mem *mem);

/* Complete a pending operation. Owner's thread only; may continue the QP at once. */
void engine_memop_done(struct engine_memop *op, int status);

/* Carry out `what` on a naturally aligned word the CPU can address. Shared by all pointer backends. */
uint64_t engine_atomic_apply(void *word, const struct engine_atomic *what);

/* ---- the owner's side ------------------------------------------------------------------------------ */

enum engine_event_kind {
	ENGINE_EVENT_QP_ERROR, /* the QP moved to ERR by itself; syndrome says why */
	ENGINE_EVENT_QP_SQ_DRAINED, /* SQD: all earlier requests have completed */
	ENGINE_EVENT_CQ_OVERRUN, /* a CQE had no room: the CQ is dead, its QPs go to ERR */
	ENGINE_EVENT_CQ_COMPLETION, /* an armed CQ got a CQE (number is the cqn) */
	ENGINE_EVENT_SRQ_LIMIT, /* fewer WQEs are left than engine_srq_arm() said (number is the srqn) */
	ENGINE_EVENT_SRQ_ERROR, /* its index or list cannot be true: QPs that want a WQE of it go to ERR */
	ENGINE_EVENT_QP_LAST_WQE, /* a QP in ERR has taken and flushed its last WQE of an SRQ */
};

struct engine_event {
	enum engine_event_kind kind;
	uint32_t number; /* qpn, cqn or srqn */
	uint8_t syndrome; /* enum shmd_cqe_syndrome, 0 when none */
	bool responder;
};

/* How a UD message gets to where its address vector says. */
struct engine_ud_path {
	void *route; /* as route_get gives; used before ud_path is called again */
	bool has_grh; /* said in the receiver's CQE */
	uint8_t sl; /* 0..15 */
	uint16_t slid;
	uint8_t grh[SHMD_GRH_BYTES]; /* what the receiver finds in front of the payload */
};

/*
 * Where the executor may be cut off: between each two of its steps that touch a client's memory, a ledger, or another
 * engine. Said in the order in which they come.
 */
enum engine_step {
	ENGINE_STEP_FETCH, /* a WQE was taken from its ring */
	ENGINE_STEP_SEND, /* a request was given to the transport */
	ENGINE_STEP_TAKE, /* a receive WQE was taken, and not noted */
	ENGINE_STEP_TAKE_NOTED, /* ... of an SRQ: noted there or with the QP, not both */
	ENGINE_STEP_PAYLOAD, /* payload of a request is in place, and not noted */
	ENGINE_STEP_INTENT, /* an atomic is noted, and not done */
	ENGINE_STEP_ATOMIC, /* it is done, its result not noted */
	ENGINE_STEP_REPLAY, /* its result is noted, and not valid yet */
	ENGINE_STEP_EXECUTED, /* a request is noted as executed */
	ENGINE_STEP_REPLY, /* an answer was given to the transport */
	ENGINE_STEP_RESPONSE, /* payload of an answer is in place */
	ENGINE_STEP_COMPLETE, /* a request is complete, and not noted */
	ENGINE_STEP_CQE_BODY, /* a CQE is in its ring but for its last word */
	ENGINE_STEP_CQE_INTENT, /* the rest is noted */
	ENGINE_STEP_CQE, /* its client can see it */
	ENGINE_STEP_CQE_STATE, /* noted with the QP */
	ENGINE_STEP_CQE_NOTED, /* noted with the CQ */
	ENGINE_STEP_NOTIFY, /* before a CQ with a new CQE is asked whether it is armed */
	ENGINE_STEP_ERROR, /* a QP is in ERR, and its event is not sent yet */
	ENGINE_STEP_MODIFY, /* new settings of a QP are noted, and not valid yet */
	ENGINE_STEP_MODIFIED,
	ENGINE_STEP_CONNECT, /* a DCI has another DCT, or a DCT another DCI: noted, and not valid yet */
	ENGINE_STEP_CONNECTED, /* ... and the indexes are this connection's already */
	ENGINE_N_STEPS,
};

/*
 * Called from within the engine: they must not call back into it, except that send may hand the packet to
 * engine_input() of any engine the calling thread owns.
 */
struct engine_ops {
	uint64_t (*now_nsec)(void *owner);
	/*
	 * Where packets for this address go: called when a QP moves to RTR. *ret_route is opaque, stays valid
	 * until route_put, and is passed to send. -EHOSTUNREACH when there is no way.
	 */
	int (*route_get)(void *owner, const uint8_t gid[16], void **ret_route);
	void (*route_put)(void *owner, void *route);
	/*
	 * Takes the packet in every case. 0, or -EHOSTUNREACH when the other side is gone (the packet is
	 * freed; the requester's retry timer decides). -EOPNOTSUPP when payload from such memory never gets there: the
	 * packet is freed, and the request ends in an error. Delivery is engine_input() on the other engine.
	 */
	int (*send)(void *owner, void *route, struct engine_packet *pkt);
	void (*event)(void *owner, const struct engine_event *ev);
	/* A clock that is read around turns while PDs compete, to share by time; NULL: by an estimate. */
	uint64_t (*clock_nsec)(void *owner);
	/*
	 * The path of one message of UD QP `qpn`; `av` is a private copy of the client's address vector and may hold any bytes.
	 * The engine zeroes *ret_path before. A negative errno: the engine drops the message silently. NULL: there are no UD QPs.
	 */
	int (*ud_path)(void *owner, uint32_t qpn, const struct shmd_wqe_av_seg *av, uint32_t payload_bytes,
		       struct engine_ud_path *ret_path);
	/* The route of a DCI to the DCT of an address vector, as route_get. NULL: there is no DC. */
	int (*dc_route)(void *owner, uint32_t qpn, const struct shmd_wqe_av_seg *av, void **ret_route);
	/* The route back to the engine with this self_route, which a DCT has heard from; as route_get. */
	int (*dc_route_back)(void *owner, const void *source, void **ret_route);
	/* The LID of that engine's port, for the receive CQEs of a DCT. NULL: there are no LIDs, so 0. */
	uint16_t (*dc_slid)(void *owner, const void *source);
	/*
	 * The GID by which route_get() finds the engine with this self_route, also after a restart. NULL: DCTs have no
	 * ledger.
	 */
	int (*dc_source_gid)(void *owner, const void *source, uint8_t ret_gid[16]);
	/*
	 * A request was not answered in time: has the other side perhaps not had a chance to? Then no retry is spent, and it is
	 * asked again soon. *stamp is 0 after progress and is the owner's otherwise. False where the packet cannot have arrived.
	 * NULL: time alone counts.
	 */
	bool (*is_peer_behind)(void *owner, void *route, uint32_t dest_qpn, uint32_t *stamp);
	/*
	 * Asked before a packet is made, while engine_set_jams() says that there are jams: the jam on the way to that QP, of
	 * requests or of answers, or NULL where the way is free.
	 */
	struct engine_jam *(*jam)(void *owner, void *route, uint32_t dest_qpn, bool is_answer);
	/* The executor is at this step: tests end it there. NULL in ordinary runs. */
	void (*fault)(void *owner, enum engine_step step);
};

struct engine_extension;

struct engine_attr {
	uint32_t max_qps; /* 1..1<<20 */
	uint32_t max_cqs;
	uint32_t max_mrs;
	uint32_t chunk_bytes; /* payload of one packet at most; power of two, 256..1 MiB */
	/* What route_get of other engines returns for this one: a QP hears only packets from where its own route leads. */
	const void *self_route;
	uint32_t max_srqs; /* 0: none */
	uint32_t max_mws; /* 0: none; without these and those the opcodes that serve them are unknown */
	uint32_t max_indirects;
	bool lacks_masked_atomics; /* their opcodes are unknown */
	bool results_8_be; /* of atomics of 8 bytes arrive big-endian, as those of 4 bytes do */
	const struct engine_extension *extension; /* engine-extension.h; NULL: RC and DC on regions alone */
};

int engine_new(const struct engine_attr *attr, const struct engine_ops *ops, void *owner,
	       struct engine **ret_engine);
/* Destroys what is left, QPs first. Pending memory operations must have completed. */
struct engine *engine_free(struct engine *engine);

/* ---- objects. Numbers and keys are chosen by the owner and unique in the engine (-EEXIST otherwise) ---- */

/* Access flags of MRs (IBTA; values of enum ibv_access_flags). Local read is always allowed. */
#define ENGINE_ACCESS_LOCAL_WRITE 0x1u
#define ENGINE_ACCESS_REMOTE_WRITE 0x2u
#define ENGINE_ACCESS_REMOTE_READ 0x4u
#define ENGINE_ACCESS_REMOTE_ATOMIC 0x8u
#define ENGINE_ACCESS_MW_BIND 0x10u /* of MRs alone */

struct engine_mr_attr {
	uint32_t key; /* lkey and rkey; above SHMD_LKEY_TERMINATE */
	uint32_t pdn;
	uint32_t access;
	uint64_t iova; /* first address as WQEs name it; iova + length must not overflow */
	uint64_t length_bytes; /* at least 1 */
	struct engine_mem *mem; /* the engine takes a reference of its own */
	uint64_t mem_offset; /* where iova lies in mem */
};

int engine_mr_create(struct engine *engine, const struct engine_mr_attr *attr);
int engine_mr_destroy(struct engine *engine, uint32_t key); /* -ENOENT */

#define ENGINE_CQ_COLLAPSED 0x1u /* every CQE at entry 0 */
#define ENGINE_CQ_OVERRUN_IGNORE 0x2u /* never look at the consumer index */

struct engine_cq_attr {
	uint32_t cqn; /* 24 bits */
	uint32_t log2_entries; /* 0..22 */
	uint32_t flags;
	void *ring; /* client-shared; (collapsed ? 1 : 1 << log2_entries) * entry_bytes, filled with 0xff here */
	uint32_t entry_bytes; /* 64 (also 0), or 128: the CQE is the second half */
	bool filled; /* the caller has done that: large rings take long */
	void *dbrec; /* client-shared struct shmd_dbrec, may be NULL with OVERRUN_IGNORE */
	struct engine_ledger *ledger; /* what it is to outlive the process in; NULL: it does not */
};

int engine_cq_create(struct engine *engine, const struct engine_cq_attr *attr);
int engine_cq_destroy(struct engine *engine, uint32_t cqn); /* -ENOENT; -EBUSY while a QP or an SRQ uses it */
/* A receive queue that several QPs take WQEs from, of any type, in the order in which they need them. */
struct engine_srq_attr {
	uint32_t srqn; /* 24 bits, a number space of its own */
	uint32_t pdn; /* where the keys of its WQEs are looked up, whatever the PD of the QP */
	void *ring; /* client-shared, 1 << (log2_wqes + log2_stride) bytes of struct shmd_wqe_srq_next_seg and data segments */
	uint32_t log2_wqes; /* 0..15 */
	uint32_t log2_stride; /* 5..9 */
	void *dbrec; /* client-shared, one big-endian word: WQEs posted ever, 16 bits */
	bool is_xrc; /* for the XRC_TGT QPs of its domain, and for no others; with what follows: */
	uint32_t xrcdn; /* domain, 24 bits */
	uint32_t cqn; /* where receives complete */
	uint32_t user_index; /* 24 bits, returned in their CQEs */
	struct engine_ledger *ledger; /* as of a CQ */
};

int engine_srq_create(struct engine *engine, const struct engine_srq_attr *attr);
/*
 * -ENOENT; -EBUSY while a QP uses it. One of XRC goes at once: an XRC_TGT QP in a message of it moves to ERR, and the WQE that
 * was taken has no CQE.
 */
int engine_srq_destroy(struct engine *engine, uint32_t srqn);
/* One event when fewer than `limit` WQEs are left, from within this call if they are now. 0: none. -ENOENT, -EINVAL. */
int engine_srq_arm(struct engine *engine, uint32_t srqn, uint32_t limit);

enum engine_qp_type {
	ENGINE_QP_RC = 0, /* mlx5 qpc.st numbers */
	ENGINE_QP_UC = 1,
	ENGINE_QP_UD = 2,
	ENGINE_QP_XRC_INI = 3,
	ENGINE_QP_XRC_TGT = 4, /* mlx5 has one number for both */
	ENGINE_QP_DCI = 5,
	ENGINE_QP_DCT = 6,
	ENGINE_QP_RAW = 7, /* no number of mlx5, which makes such a QP of other objects */
	ENGINE_N_QP_TYPES
};

/* Numbers of the mlx5 query (qpc.state). */
enum engine_qp_state {
	ENGINE_QP_RST = 0,
	ENGINE_QP_INIT = 1,
	ENGINE_QP_RTR = 2,
	ENGINE_QP_RTS = 3,
	ENGINE_QP_SQER = 4,
	ENGINE_QP_ERR = 6,
	ENGINE_QP_SQD = 7,
};

/*
 * UC: a message that misses a packet, finds no receive WQE or is refused is dropped whole, the sender never knows. A
 * request completes when its last packet was sent and the memory that it names is not read any more. An error of the
 * sender's own moves a UC QP to SQER, where it still receives.
 *
 * UD: the same for messages of one packet, each with its own address vector. The receiver's Q_Key decides whether one is
 * heard; its first 40 bytes in the receive buffer are a GRH, and counted in the CQE.
 *
 * DCI: the sender of RC, but each WQE has an address vector that says to which DCT it goes; one for another DCT waits until
 * all before it have completed. DCT: the receiver of RC for every DCI that knows its access key. It has an SRQ, one CQ
 * (recv_cqn) and neither rings nor dbrec; what a DCI does wrong ends that DCI's connection alone.
 *
 * XRC_INI: the sender of RC, connected to one XRC_TGT, with a send CQ alone; each WQE names an SRQ over there. XRC_TGT: the
 * receiver of RC, with neither rings, dbrec nor CQ: WQEs, their CQ and the PD that remote keys are looked up in are those of the
 * SRQ that a packet names, which must be of its XRC domain.
 *
 * RAW: frames, as the client wrote them. There is nobody who steers a frame to a queue: what is sent is checked, completed and
 * gone, and nothing is received.
 */
struct engine_qp_attr {
	uint32_t qpn; /* 24 bits */
	enum engine_qp_type type;
	uint32_t pdn;
	uint32_t user_index; /* 24 bits, returned in CQEs */
	void *sq_ring; /* client-shared, 64 << log2_sq_wqebbs bytes */
	uint32_t log2_sq_wqebbs; /* 0..15 */
	void *rq_ring; /* client-shared, or NULL: a QP that receives nothing */
	uint32_t log2_rq_wqes; /* 0..15 */
	uint32_t log2_rq_stride; /* 4..9: bytes of a receive WQE */
	void *dbrec; /* client-shared struct shmd_dbrec */
	uint32_t send_cqn;
	uint32_t recv_cqn;
	bool has_srq; /* receives by SRQ `srqn`; rq_ring is NULL */
	bool srqn_in_cqes; /* CQEs of its responder tell the SRQ where user_index would stand (CQE version 0) */
	uint32_t srqn;
	uint32_t xrcdn; /* XRC_TGT: domain, 24 bits; its pdn serves to charge for its work alone */
	uint32_t ud_mtu_bytes; /* UD: longest message, power of two 256..4096; 0: 4096 */
	bool has_streams; /* DCI: a WQE that fails ends its stream alone, ... */
	uint32_t log2_errored_streams; /* ... until so many are in error; 0..ENGINE_MAX_LOG2_ERRORED */
	struct engine_ledger *ledger; /* that of its CQs and its SRQ */
};

#define ENGINE_MAX_LOG2_ERRORED 6u

int engine_qp_create(struct engine *engine, const struct engine_qp_attr *attr); /* state RST */
/*
 * At once in RST or ERR with nothing pending; otherwise the QP stops, pending memory operations are awaited
 * inside the engine, and the number stays taken until they end. The client's rings are not touched any more
 * after the call returns.
 */
int engine_qp_destroy(struct engine *engine, uint32_t qpn);

/* Fields that a transition may set. The IBTA table "QP state transition properties" lists those that it needs. */
#define ENGINE_QP_SET_ACCESS 0x01u /* responder: access */
#define ENGINE_QP_SET_PATH 0x02u /* RTR: dest_gid, dest_qpn, mtu */
#define ENGINE_QP_SET_RQ_PSN 0x04u
#define ENGINE_QP_SET_SQ_PSN 0x08u
#define ENGINE_QP_SET_RETRY 0x10u /* RTS: timeout, retry_count, rnr_retry */
#define ENGINE_QP_SET_RNR_TIMER 0x20u /* RTR: min_rnr_timer */
#define ENGINE_QP_SET_RD_ATOMIC 0x40u /* max_rd_atomic (RTS), max_dest_rd_atomic (RTR) */
#define ENGINE_QP_SET_QKEY 0x80u /* UD: INIT, later optional */
#define ENGINE_QP_SET_DC_KEY 0x100u /* DCT: INIT */

struct engine_qp_modify {
	enum engine_qp_state state; /* the state to enter; may equal the present one */
	uint32_t set; /* ENGINE_QP_SET_* */
	uint32_t access; /* ENGINE_ACCESS_REMOTE_*: what the peer may do through this QP */
	uint8_t dest_gid[16];
	uint32_t dest_qpn;
	uint32_t path_mtu_bytes; /* 256..4096; the engine may use larger packets on a local route */
	uint32_t rq_psn; /* 24 bits: first PSN expected */
	uint32_t sq_psn;
	uint8_t timeout; /* 4.096 us << timeout; 0 for ever (0..31) */
	uint8_t retry_count; /* 0..7 */
	uint8_t rnr_retry; /* 0..7, 7 for ever */
	uint8_t min_rnr_timer; /* IBTA encoding 0..31 */
	uint8_t max_rd_atomic;
	uint8_t max_dest_rd_atomic;
	uint32_t qkey;
	uint64_t dc_key;
};

/* -ENOENT; -EINVAL for a transition IBTA forbids or a missing field; -EHOSTUNREACH from route_get. */
int engine_qp_modify(struct engine *engine, uint32_t qpn, const struct engine_qp_modify *mod);

struct engine_qp_counters {
	uint64_t wqes; /* send WQEs completed with success, NOPs included */
	uint64_t wqes_by_kind[8]; /* enum engine_wqe_kind */
	uint64_t bytes_sent; /* payload of writes and sends that were acknowledged, and of atomics */
	uint64_t bytes_read; /* payload of reads that arrived */
	uint64_t recv_wqes;
	uint64_t error_cqes;
	uint64_t rnr_naks; /* received */
	uint64_t retries;
	uint64_t dropped; /* packets that an unreliable QP did not execute */
};

enum engine_wqe_kind {
	ENGINE_WQE_NOP,
	ENGINE_WQE_WRITE,
	ENGINE_WQE_WRITE_IMM,
	ENGINE_WQE_READ,
	ENGINE_WQE_SEND,
	ENGINE_WQE_SEND_IMM,
	ENGINE_WQE_ATOMIC,
	ENGINE_WQE_OTHER,
};

struct engine_qp_info {
	enum engine_qp_state state;
	uint32_t sq_pi; /* last value read from the dbrec, 16 bits */
	uint32_t sq_ci; /* next WQEBB to execute, 16 bits */
	uint32_t rq_pi;
	uint32_t rq_ci;
	uint32_t dest_qpn;
	uint32_t first_error; /* syndrome of the first error CQE, 0 none */
	uint32_t pending; /* requests posted to the peer and not completed, plus memory operations */
	struct engine_qp_counters counters;
};

int engine_qp_query(struct engine *engine, uint32_t qpn, struct engine_qp_info *ret_info);

/* ---- running ------------------------------------------------------------------------------------------ */

/* A doorbell for this QP was rung (or is suspected): its dbrec is read in the next progress call. */
void engine_doorbell(struct engine *engine, uint32_t qpn);

/*
 * Read the QP's dbrec once more, and never again: what its client posts from now on is not seen, so that a QP in ERR
 * has a known end of its flush. -ENOENT.
 */
int engine_qp_freeze(struct engine *engine, uint32_t qpn);

/* Read every dbrec of QPs that can send or receive. Returns how many have work they had not before. */
unsigned int engine_scan(struct engine *engine);

/*
 * The cheap poll of the spin phase: looks at the dbrecs of the QPs most recently active (at most 8), without
 * waiting for their doorbell words. Returns as engine_scan.
 */
unsigned int engine_scan_hot(struct engine *engine);

/* A packet from the transport. Takes it. */
void engine_input(struct engine *engine, struct engine_packet *pkt);

/*
 * Execute what is ready, at most `budget` WQEs, packets or chunks, and hardly more than 64 KiB of payload: PDs share by
 * the work that they cause (tenant.c), QPs of one PD take turns. Returns the units done;
 * 0 means nothing is ready now. Also runs expired timers.
 */
unsigned int engine_progress(struct engine *engine, unsigned int budget);

/*
 * When engine_progress must be called even if nothing arrives (clock of now_nsec): 0 while something is ready,
 * UINT64_MAX never.
 */
uint64_t engine_next_deadline(struct engine *engine);

/* Sum over all QPs that ever lived here. */
void engine_counters(struct engine *engine, struct engine_qp_counters *ret_counters);

/* ---- packets: for transports --------------------------------------------------------------------------- */

/* Transports queue packets by this link and read nothing else of a packet unless they serialise it. */
struct list *engine_packet_link(struct engine_packet *pkt);
struct engine_packet *engine_packet_from_link(struct list *link);
struct engine_packet *engine_packet_free(struct engine_packet *pkt); /* any thread */
/* Whom it is for, where one address has several engines. */
uint32_t engine_packet_dest_qpn(const struct engine_packet *pkt);
uint32_t engine_packet_src_qpn(const struct engine_packet *pkt);
/* As engine_packet_free(), by the thread of this engine. */
void engine_packet_put(struct engine *engine, struct engine_packet *pkt);
bool engine_packet_is_request(const struct engine_packet *pkt); /* else it answers one */
/* For counters and fault injection by the owner: payload bytes carried, and a writable view when inline. */
uint32_t engine_packet_payload_bytes(const struct engine_packet *pkt);

/*
 * Packets as bytes (packet-bytes.c), for another process or node. They name no memory of the sender. The reader believes none of
 * them: what engine_packet_read() makes of any bytes, engine_input() takes. Bytes lie in one or two pieces.
 */
#define ENGINE_PACKET_MAX_BYTES (sizeof(uint64_t) * 15) /* besides the payload */

struct engine_piece {
	uint8_t *at;
	size_t bytes;
};

/* How many bytes that are. -EOPNOTSUPP: the CPU does not reach its payload, or it is of an unreliable service. */
int engine_packet_bytes(const struct engine_packet *pkt);
/* As many bytes to the pieces, together as large. `source` stands for the sender's self_route; `engine` is the sender. */
void engine_packet_write(struct engine *engine, const struct engine_packet *pkt, uint32_t source,
			 const struct engine_piece to[2]);

/* Packets for what is read: at most n at a time, of one thread. NULL: no memory. */
struct packet_pool *engine_packets_new(unsigned int n);
struct packet_pool *engine_packets_free(struct packet_pool *packets); /* those that are away free it */
bool engine_packets_left(const struct packet_pool *packets);

/*
 * A packet of what engine_packet_write() wrote, or anybody else. A large payload stays where it is: the packet then refers to `mem`,
 * in which these bytes begin at 0. The caller says where it came from before anything else is done with it. -ENOBUFS: all
 * packets are away; -EBADMSG: these bytes are no packet.
 */
int engine_packet_read(struct packet_pool *packets, const struct engine_piece from[2], struct engine_mem *mem,
		       uint32_t *ret_source, struct engine_packet **ret_pkt);
void engine_packet_set_source(struct engine_packet *pkt, const void *source);

/*
 * A way that is full. QPs whose packets would go there wait without holding any; others go on.
 * The owner has it, and answers with it when ops.jam asks.
 */
struct engine_jam {
	struct list waiters;
	bool has_answers; /* else requests */
};

void engine_jam_init(struct engine_jam *jam, bool has_answers);
/* Sets the number of jams. While it is not 0 the engine calls ops.jam for each packet. */
void engine_set_jams(struct engine *engine, unsigned int n);
/* The way is free: some of the waiters try. Returns whether others are left; call it again when those have tried. */
bool engine_jam_wake(struct engine_jam *jam);

/* ---- fault points: tests show that a broken NIC is noticed ------------------------------------------------ */

enum engine_fault {
	ENGINE_FAULT_NONE,
	ENGINE_FAULT_FLIP_PAYLOAD_BYTE, /* one byte of the n-th payload that is written */
	ENGINE_FAULT_DROP_CQE, /* the n-th CQE is not written */
};
void engine_set_fault(struct engine *engine, enum engine_fault fault, uint64_t nth);

#endif
