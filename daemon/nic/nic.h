/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract between the daemon and a NIC backend.
 *
 * A `struct nic` is one port of one NIC. A `struct nic_ctx` is one session on one NIC: its PD, its doorbell
 * page, its keys and queues; no object of one context is usable through another. Backends embed these heads in
 * structs of their own and fill the operation table completely (nic_no_* are for operations that they do not offer).
 *
 * Threads: one thread at a time calls operations on a context; contexts are independent. queues_create fills rings of CQs: a worker
 * calls it for large rings and for rings in a client's memory, on any NIC. If nic->blocks is set, these operations may take as
 * long as a firmware command; so may query and ctx_pool_step, each called by one thread at a time, and ctx_open and ctx_import,
 * called by several at once. If nic->stalls is set, operations on a context, ctx_open and ctx_import may take as long as its user
 * likes; qp_query and queues_read return -EBUSY when they get no answer, and ctx_counters returns its last result. Only the
 * control thread calls the other operations on `struct nic`, and these never block. Backends never call back; the owner reads
 * events when nic->event_fd is readable.
 *
 * Errors are negative errno: -EOPNOTSUPP not offered by this backend (memory kinds: see accepted_kinds), -EINVAL an argument,
 * -ENOSPC a limit of the NIC, -EUSERS the NIC serves no further user, -EBUSY still in use, -ENODEV the NIC is gone, -EPERM not
 * allowed, -EBADF a descriptor of the wrong kind, -EIO the hardware answered nonsense.
 */
#ifndef SHMEMD_NIC_H
#define SHMEMD_NIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <shmd/abi/doorbell.h>
#include <shmd/abi/wqe.h>

#include "proto/base/list.h"

#define NIC_NAME_BYTES 32
#define NIC_REASON_BYTES 128
#define NIC_ADDR_BYTES 64 /* most bytes of an endpoint address on the wire */
#define NIC_PAGE_MASK 4095u /* NICs translate pages of 4 KiB, whatever the kernel's are */
#define NIC_PSN_MASK 0xffffffu

struct nic;
struct nic_ctx;
struct nic_mr;
struct nic_queues;

/* ---- what a NIC is ------------------------------------------------------------------------------------- */

enum nic_mem_kind {
	NIC_MEM_MEMFD = 1,
	NIC_MEM_DMABUF = 2,
	NIC_MEM_AGENT = 3,
	NIC_MEM_PEERMEM = 4, /* addresses of the client, which registered them itself by the command descriptor */
};

enum nic_link {
	NIC_LINK_ETHERNET = 1,
	NIC_LINK_INFINIBAND = 2,
};

enum nic_port_state {
	NIC_PORT_DOWN = 1,
	NIC_PORT_ACTIVE = 2,
	NIC_PORT_LOST = 3, /* the NIC itself is gone */
};

/* Atomics that a NIC's QPs send and carry out. */
#define NIC_ATOMIC_8 0x1u /* fetch-add and compare-swap of 8 bytes */
#define NIC_ATOMIC_MASKED_4 0x2u /* masked (extended) atomics of 4 bytes; there are no others of that size */
#define NIC_ATOMIC_MASKED_8 0x4u
#define NIC_ATOMIC_RESULT_BE 0x8u /* results of 8 bytes arrive big-endian */

struct nic_info {
	char name[NIC_NAME_BYTES]; /* "soft0", "mlx5_0" */
	char backend[NIC_NAME_BYTES];
	char pci[16]; /* "0000:3b:00.0", or empty */
	uint64_t guid; /* of the device, the same for all its ports; 0: it has none */
	uint32_t port; /* from 1 */
	enum nic_link link;
	enum nic_port_state state;
	uint8_t gid[16];
	uint8_t mac[6];
	uint16_t lid;
	uint32_t mtu_bytes;
	uint64_t rate_mbps; /* 0: unknown */
	uint32_t max_qps; /* of the NIC, all sessions together */
	uint32_t max_cqs;
	uint32_t max_mrs;
	uint32_t max_log2_sq_wqebbs;
	uint32_t max_log2_cq_entries;
	uint32_t accepted_kinds[4]; /* enum nic_mem_kind, best first, 0-terminated */
	uint32_t atomics, atomics_dc; /* NIC_ATOMIC_*; of RC QPs, and of DCIs and DCTs */
	bool doorbell_cpu; /* modes this NIC can offer */
	bool doorbell_uar_mmap;
};

struct nic_counters {
	uint64_t wqes; /* send WQEs completed with success */
	uint64_t wqes_by_kind[8]; /* nop, write, write with immediate, read, send, send with immediate, atomic, other */
	uint64_t bytes_sent;
	uint64_t bytes_read;
	uint64_t recv_wqes;
	uint64_t error_cqes;
	uint64_t rnr_naks;
	uint64_t retries;
};
void nic_counters_add(struct nic_counters *sum, const struct nic_counters *more);

/* ---- endpoint addresses -------------------------------------------------------------------------------- */

/* Data that a peer needs to reach one QP. The encoding is opaque to clients; nic-addr.c is its only author. */
struct nic_addr {
	uint8_t link; /* enum nic_link */
	uint8_t qp_type; /* enum nic_qp_type */
	uint8_t mtu_log2; /* 8..12 */
	uint32_t qpn; /* 24 bits */
	uint32_t psn; /* 24 bits: first PSN this QP sends */
	uint16_t lid;
	uint8_t gid[16];
	uint8_t mac[6];
	uint64_t dc_key;
};

/* Returns the bytes written to buf (at most NIC_ADDR_BYTES). */
size_t nic_addr_encode(const struct nic_addr *addr, uint8_t buf[NIC_ADDR_BYTES]);
/* -EINVAL for anything nic_addr_encode of a known version does not produce. */
int nic_addr_decode(const void *buf, size_t bytes, struct nic_addr *ret_addr);

/* ---- memory --------------------------------------------------------------------------------------------- */

#define NIC_ACCESS_LOCAL_WRITE 0x1u
#define NIC_ACCESS_REMOTE_WRITE 0x2u
#define NIC_ACCESS_REMOTE_READ 0x4u
#define NIC_ACCESS_REMOTE_ATOMIC 0x8u
#define NIC_ACCESS_ALL 0xfu

struct nic_mr_attr {
	enum nic_mem_kind kind;
	int fd; /* borrowed: the backend dups or maps what it keeps; a memfd is sealed against shrinking */
	uint64_t offset; /* bytes into fd; NIC_MEM_AGENT: the address in the agent's process, and there is no fd */
	uint64_t length_bytes; /* at least 1 */
	uint32_t handle; /* NIC_MEM_PEERMEM: the kernel's, of the region; there is no fd */
	uint64_t iova; /* agrees with offset modulo 4096, as NICs translate whole pages, but for NIC_MEM_AGENT; -EINVAL */
	uint32_t access;
};

/* Head of a backend's MR. Keys and length are constant after registration. */
struct nic_mr {
	struct nic_ctx *ctx;
	struct list link; /* ctx->mrs, by the backend */
	uint32_t lkey;
	uint32_t rkey;
	uint64_t length_bytes;
};

/* Whatever kind of memory it is. */
bool nic_mr_attr_is_right(const struct nic_mr_attr *attr);

/* ---- queues ---------------------------------------------------------------------------------------------- */

/*
 * A DCI sends to the DCT that the address vector of its WQE names with its key; see nic_ops.resolve. It has no receive side.
 * A DCT sends nothing and has no rings: it is a target from its creation on, has a random key, and ends with its batch.
 * Sends to it find no receive WQE.
 */
enum nic_qp_type {
	NIC_QP_RC = 1,
	NIC_QP_DCI = 2,
	NIC_QP_DCT = 3,
};

/* Limits of one request; a NIC may have smaller ones (struct nic_info). */
#define NIC_MAX_BATCH_QPS (1u << 16)
#define NIC_MAX_BATCH_CQS (1u << 16)
#define NIC_MIN_LOG2_SQ_WQEBBS 4u
#define NIC_MAX_LOG2_SQ_WQEBBS 15u
#define NIC_MAX_RQ_WQES (1u << 15)
#define NIC_MIN_LOG2_RQ_STRIDE 4u
#define NIC_MAX_LOG2_RQ_STRIDE 9u
#define NIC_MAX_LOG2_CQ_ENTRIES 22u

#define NIC_CQ_COLLAPSED 0x1u
#define NIC_CQ_OVERRUN_IGNORE 0x2u

/* `count` equal CQs. */
struct nic_cq_spec {
	uint32_t count;
	uint32_t log2_entries;
	uint32_t flags; /* NIC_CQ_* */
};

#define NIC_QP_GPU_DRIVEN 0x1u /* a GPU rings the doorbells, and it cannot wake a sleeping thread */

/*
 * `count` equal QPs. CQs are named by index over all CQs of the request (spec order); QP i of the spec uses
 * first + i * step. An existing CQ of the context is named by its cqn instead (cqn not 0).
 */
struct nic_qp_spec {
	uint32_t count;
	enum nic_qp_type type;
	uint32_t log2_sq_wqebbs; /* 4..max; 0 for a DCT, which sends nothing */
	uint32_t n_rq_wqes; /* 0, or a power of two; raised until the ring has 64 bytes */
	uint32_t log2_rq_stride; /* 4..9; unused without receive WQEs */
	uint32_t send_cq_first, send_cq_step, send_cqn;
	uint32_t recv_cq_first, recv_cq_step, recv_cqn;
	uint32_t flags; /* NIC_QP_* */
	uint32_t access; /* NIC_ACCESS_REMOTE_*: what peers may do */
};

#define NIC_MAX_SPECS 8

struct nic_queues_attr {
	unsigned int n_cq_specs, n_qp_specs;
	struct nic_cq_spec cqs[NIC_MAX_SPECS];
	struct nic_qp_spec qps[NIC_MAX_SPECS];
};

/* The place of one queue in queue memory. Offsets are bytes. */
struct nic_cq {
	uint32_t cqn;
	uint32_t log2_entries;
	uint32_t flags;
	uint64_t ring_offset; /* of all entries, also when every CQE goes to the first */
	uint64_t dbrec_offset;
};

struct nic_qp {
	uint32_t qpn;
	enum nic_qp_type type;
	uint32_t log2_sq_wqebbs;
	uint32_t n_rq_wqes;
	uint32_t log2_rq_stride;
	uint32_t send_cqn, recv_cqn;
	uint32_t flags;
	uint32_t access;
	uint64_t rq_offset; /* the receive ring, if any, lies directly before the send ring */
	uint64_t sq_offset;
	uint64_t dbrec_offset;
	struct nic_addr addr;
};

/* In a layout whose queues do not exist yet: send_cqn and recv_cqn are an index into layout.cqs. */
#define NIC_CQ_BY_INDEX 0x80000000u

/* Layout of a request: pure, the same for every backend. Numbers and addresses are left 0. */
struct nic_layout {
	uint32_t n_cqs, n_qps;
	uint64_t total_bytes; /* multiple of 4096 */
	struct nic_cq *cqs; /* owned */
	struct nic_qp *qps; /* owned; send_cqn/recv_cqn: NIC_CQ_BY_INDEX | index, or an existing cqn */
};
/* -EINVAL an invalid spec; -EOVERFLOW; -ENOMEM. */
int nic_layout_init(struct nic_layout *layout, const struct nic_queues_attr *attr);
/* -ENOMEM; the caller deinitializes *copy in that case too. */
int nic_layout_copy(struct nic_layout *copy, const struct nic_layout *layout);
void nic_layout_deinit(struct nic_layout *layout);
/*
 * Checks a queue of a saved layout: sizes, flags and numbers are ones that a backend gives, and rings and dbrec lie within
 * total_bytes. The backend checks that its CQs exist and that the rest of the address is right.
 */
bool nic_cq_is_right(const struct nic_cq *cq, uint64_t total_bytes);
bool nic_qp_is_right(const struct nic_qp *qp, uint64_t total_bytes);

struct nic_queue_mem {
	enum nic_mem_kind kind;
	int fd; /* borrowed; a memfd is sealed against shrinking */
	uint64_t offset; /* multiple of 4096 */
	uint64_t length_bytes; /* at least layout.total_bytes */
};

/* Makes queue memory that the daemon owns: a memfd of constant size. -EMFILE, -ENOMEM. nic-mem.c. */
int nic_queue_memfd(uint64_t bytes, int *ret_fd);
/*
 * Makes memory that the daemon owns and clients map too: a memfd of constant size, mapped for writing. `seals` adds seals, or
 * is 0. -EMFILE, -ENOMEM.
 */
int nic_mem_create(const char *name, size_t bytes, int seals, int *ret_fd, void **ret_map);
/* Maps all of such memory that a former process made, and duplicates `fd`. -EBADF wrong kind or size; as above. */
int nic_mem_adopt(int fd, size_t bytes, int *ret_fd, void **ret_map);
/* Such memory without a mapping here; and a mapping of it without a descriptor. -EBADF wrong kind or size; as above. */
int nic_memfd_new(const char *name, uint64_t bytes, int *ret_fd);
int nic_mem_view(int fd, size_t bytes, bool writable, void **ret_map);
/* May a backend map it? Returns its size. -EBADF not a memfd of ordinary pages, -EPERM not sealed against shrinking. */
int nic_memfd_check(int fd, uint64_t *ret_bytes);

/* Head of a backend's batch of queues. */
struct nic_queues {
	struct nic_ctx *ctx;
	struct list link; /* ctx->queues, by the backend */
	struct nic_layout layout; /* complete: numbers and addresses set */
};

/* ---- connect, modify, query ------------------------------------------------------------------------------- */

struct nic_peer {
	uint32_t qpn; /* of this context */
	struct nic_addr remote; /* all zero for a DCI */
};

/* The address of a DCT, for the WQEs of every DCI of the context. */
struct nic_dc_peer {
	struct shmd_wqe_av_seg av; /* complete */
	uint32_t dctn;
	uint64_t dc_key;
};

#define NIC_HOP_LIMIT 64u

/* The local end of the path to a peer. */
struct nic_path {
	uint8_t gid_index;
	uint8_t mac[6]; /* Ethernet: of the next hop */
	uint16_t udp_sport; /* Ethernet */
	bool has_grh; /* InfiniBand */
	uint8_t traffic_class;
};

/* Pure, for backends: nic-av.c. */
void nic_dc_peer_init(struct nic_dc_peer *peer, const struct nic_addr *remote, const struct nic_path *path);

struct nic_qp_params {
	uint8_t timeout; /* IBTA: 4.096 us << timeout */
	uint8_t retry_count; /* 0..7 */
	uint8_t rnr_retry; /* 0..7, 7 for ever */
	uint8_t min_rnr_timer; /* IBTA encoding */
	uint8_t max_rd_atomic;
	uint8_t traffic_class;
};

/* Checks of what clients ask for that hold on every NIC. */
bool nic_qp_params_are_right(const struct nic_qp_params *params);
/* The peer of a connect on a port with this link: a DCI has none, a DCT cannot be connected. */
bool nic_remote_is_right(const struct nic_qp *qp, const struct nic_addr *remote, enum nic_link link);

/* qpc.state numbers of mlx5 */
enum nic_qp_state {
	NIC_QPS_RST = 0,
	NIC_QPS_INIT = 1,
	NIC_QPS_RTR = 2,
	NIC_QPS_RTS = 3,
	NIC_QPS_ERR = 6,
	NIC_QPS_SQD = 7,
};

struct nic_qp_info {
	enum nic_qp_state state;
	uint32_t dest_qpn;
	uint32_t sq_pi, sq_ci, rq_pi, rq_ci; /* 16 bits; 0 if the NIC does not report it */
	uint32_t first_error; /* syndrome */
	struct nic_counters counters;
};

/* ---- doorbell hand-over -------------------------------------------------------------------------------------- */

enum nic_doorbell_mode {
	NIC_DOORBELL_AUTO = 0,
	NIC_DOORBELL_CPU = 1,
	NIC_DOORBELL_UAR_MMAP = 2,
};

/* Descriptors stay owned by the context; the session sends dups of them. -1: not used by this mode. */
struct nic_doorbell {
	enum nic_doorbell_mode mode;
	int page_fd; /* doorbell page: memfd (cpu), or the context's command fd (uar-mmap) */
	uint64_t page_offset; /* for mmap */
	uint32_t register_offset; /* of the 8-byte send doorbell in the page */
	int nic_page_fd; /* struct shmd_nic_page, read-only for clients, or -1 */
	int wake_fd; /* eventfd, or -1 */
	char reason[NIC_REASON_BYTES]; /* why the context has no better mode; empty if it has the best */
};

struct nic_ctx_attr {
	uint64_t session_id; /* for logs and names */
	uint32_t uid; /* owner of the context: users who do not trust each other have different uids */
	enum nic_doorbell_mode doorbell;
	int health_fd; /* session's struct shmd_health_page memfd, borrowed */
	bool is_saved; /* descriptors outlive the daemon, which will call ctx_saved_fds. Other contexts pay nothing for it */
};

/* Head of a backend's context. */
struct nic_ctx {
	struct nic *nic;
	struct nic_doorbell doorbell;
	uint64_t patience_nsec; /* set by the caller: how long operations wait before -EBUSY on a NIC that stalls; 0: the backend decides */
	bool on_control; /* the caller's: it is the control thread, whose waits for such NICs have a budget besides */
	uint32_t client_pd; /* constant: the kernel's handle of its PD + 1, for a client with its command descriptor; 0: no client has it */
	uint64_t session_id;
	struct list mrs, queues; /* the backend's, in the order of creation, as in records */
};

/* ---- events ---------------------------------------------------------------------------------------------------- */

enum nic_event_kind {
	NIC_EVENT_QP_ERROR,
	NIC_EVENT_CQ_ERROR,
	NIC_EVENT_PORT_STATE,
	NIC_EVENT_LOST,
	NIC_EVENT_RETURNED, /* a lost NIC is back, for new contexts; older contexts stay lost */
	NIC_EVENT_DROPPED, /* n_lost events of sessions were not kept; session_id is 0 */
	NIC_EVENT_LOOK, /* no news yet: call ctx_look for this session's context; session_id 0: call query */
};

struct nic_event {
	enum nic_event_kind kind;
	uint64_t session_id; /* 0: concerns every session of the NIC */
	uint32_t number; /* qpn or cqn; 0: several, when there was no room for each */
	uint32_t n_lost; /* further events that this one stands for */
	uint32_t syndrome;
	enum nic_port_state state;
};

/* ---- a context in another process --------------------------------------------------------------------------- */

/*
 * A context outlives its process as long as a process has the descriptors that ctx_saved_fds returns. With these and the record
 * of the context, another process takes it over. Queues in hardware go on meanwhile; queues of a data thread rest until resume.
 */
#define NIC_RECORD_MAX_BYTES (32u << 20)
#define NIC_SAVED_FDS 8

/*
 * A record consists of parts, so that a change rewrites only the part that it changes: the context's own, and one for each region
 * and batch. The context's part is a complete record of a context without regions and batches.
 */
struct nic_record_part {
	const void *bytes; /* borrowed */
	size_t n;
};
/*
 * Joins parts to a record, regions and batches in the order of their creation; the caller frees *ret_record. -EINVAL the
 * context's part is not a record; -ENOSPC more than NIC_RECORD_MAX_BYTES; -ENOMEM. nic-record.c.
 */
int nic_record_join(const struct nic_record_part *ctx, uint32_t n_mrs, const struct nic_record_part *mrs, uint32_t n_queues,
		    const struct nic_record_part *queues, void **ret_record, size_t *ret_bytes);

/* The backend defines the order: ctx_import takes them as ctx_saved_fds returned them. */
struct nic_saved_fds {
	unsigned int n;
	int fds[NIC_SAVED_FDS]; /* owned by the context until it ends: keep duplicates */
};

struct nic_import_attr {
	struct nic_ctx_attr ctx; /* as for ctx_open */
	struct nic_saved_fds fds; /* duplicates of those of ctx_saved_fds, borrowed */
	const void *record;
	size_t record_bytes;
	/*
	 * Queue memory of each batch, in the order of creation, borrowed; -1 if it is not at hand; or 0 of them. Memory that the
	 * CPU does not reach cannot be read, and errors of its QPs are reported when their state is queried. If
	 * nic->saves_memory is set, all are required.
	 */
	unsigned int n_queue_fds;
	const int *queue_fds;
	/* Memory of each region, in the order of creation, borrowed. Unused if nic->saves_memory is not set. */
	unsigned int n_mr_fds;
	const int *mr_fds;
	bool shared; /* the former owner is still alive (tests only): import destroys no object that the record does not name */
};

struct nic_imported {
	struct nic_ctx *ctx;
	unsigned int n_mrs, n_queues;
	struct nic_mr **mrs; /* the arrays are owned; in the order of creation */
	struct nic_queues **queues;
};

/* All of an imported context; on failure there is nothing to free. -ENOMEM. nic-record.c. */
int nic_imported_init(struct nic_imported *imported, struct nic_ctx *ctx);
static inline void nic_imported_deinit(struct nic_imported *imported)
{
	free(imported->mrs);
	free(imported->queues);
	*imported = (struct nic_imported){0};
}

/* ---- the context pool --------------------------------------------------------------------------------------------- */

/*
 * A NIC whose commands take time may keep whole contexts ready, each with one batch of queues over memory of the daemon's,
 * for ctx_open and queues_take to hand out. A context that was handed out belongs to one session, is closed like any other, and
 * does not differ from a context that was made for the session.
 */
struct nic_ctx_pool_attr {
	unsigned int n_ctxs; /* to keep ready; 0: none */
	struct nic_queues_attr queues; /* the batch of each context: RC only; no QPs: no batch. Unused parts are 0 */
};

enum nic_ctx_pool_todo {
	NIC_CTX_POOL_NOTHING,
	NIC_CTX_POOL_MAKE,
	NIC_CTX_POOL_DESTROY,
};

/* Counters since the NIC was found; the first three are current. */
struct nic_ctx_pool_info {
	uint32_t n_wanted;
	uint32_t n_ready; /* as wanted */
	enum nic_ctx_pool_todo todo; /* of the next ctx_pool_step */
	uint64_t n_made;
	uint64_t n_handed_out; /* contexts */
	uint64_t n_batches_handed_out; /* those whose queues were used */
	uint64_t missed_empty; /* contexts made for a session because none was ready */
	uint64_t missed_shape; /* contexts handed out whose session requested queues of another number or depth */
	uint64_t missed_memory; /* contexts handed out whose session requested queues in its own memory */
	uint64_t n_failed; /* contexts that could not be made */
};

/* ---- operations -------------------------------------------------------------------------------------------------- */

struct nic_ops {
	struct nic *(*close)(struct nic *nic); /* all contexts are closed already */
	int (*query)(struct nic *nic, struct nic_info *ret_info);
	int (*counters)(struct nic *nic, struct nic_counters *ret_counters);
	/* 0 and *ret_event, or -EAGAIN. */
	int (*next_event)(struct nic *nic, struct nic_event *ret_event);
	/*
	 * Takes the port down (NIC_PORT_DOWN) or up again (NIC_PORT_ACTIVE), as its administrator would; the change
	 * is reported as NIC_EVENT_PORT_STATE. A port that is down neither sends nor receives: posted requests wait and
	 * are retried as their QP says. Returns 0 if it is in that state already.
	 */
	int (*port_set)(struct nic *nic, enum nic_port_state state);

	int (*ctx_open)(struct nic *nic, const struct nic_ctx_attr *attr, struct nic_ctx **ret_ctx);
	struct nic_ctx *(*ctx_close)(struct nic_ctx *ctx); /* it is empty already */
	/*
	 * Changes mode uar-mmap to cpu: fills ctx->doorbell anew, and existing queues listen there as well. The former page still
	 * rings them. -EOPNOTSUPP also if a batch lies in memory that the CPU does not reach; -EINVAL the mode is cpu already. A
	 * failure changes nothing.
	 */
	int (*ctx_to_cpu)(struct nic_ctx *ctx);

	/*
	 * Memory of kind agent is reached by this ring from now on: kernels/abi/agent-ring.h. wake_fd is an eventfd that wakes the agent.
	 * Both are borrowed. The context cannot outlive the process any more. A former ring ends; -EEXIST as long as a region needs it.
	 * -EOPNOTSUPP the NIC takes no such memory; -EINVAL it is not what the layout says; -EBADF, -EPERM as for regions.
	 */
	int (*agent_attach)(struct nic_ctx *ctx, int ring_fd, int wake_fd);

	int (*mr_reg)(struct nic_ctx *ctx, const struct nic_mr_attr *attr, struct nic_mr **ret_mr);
	struct nic_mr *(*mr_dereg)(struct nic_mr *mr);

	/* Builds CQs and QPs (state RST, but DCTs: RTR) over `mem`; takes ownership of *layout on success and clears it. */
	int (*queues_create)(struct nic_ctx *ctx, const struct nic_queue_mem *mem,
			     struct nic_layout *layout, struct nic_queues **ret_queues);
	/* -EBUSY while QPs of another batch use its CQs. Frees on success. */
	int (*queues_destroy)(struct nic_queues *queues);

	/* Moves each pair, or DCI, from RST (or INIT) to RTS; stops at the first failure and counts those done. */
	int (*connect)(struct nic_ctx *ctx, unsigned int n, const struct nic_peer *peers,
		       const struct nic_qp_params *params, unsigned int *ret_n_done);
	/*
	 * Resolves addresses of DCTs to the form that WQEs carry; stops at the first failure and counts those done. Keeps
	 * nothing. -EHOSTUNREACH no path to the DCT. The caller checks that each address is a DCT's.
	 */
	int (*resolve)(struct nic_ctx *ctx, unsigned int n, const struct nic_addr *addrs, uint8_t traffic_class,
		       struct nic_dc_peer *ret_peers, unsigned int *ret_n_done);
	/* One transition that needs no peer: to RST, INIT, ERR, SQD, or SQD back to RTS. */
	int (*qp_modify)(struct nic_ctx *ctx, uint32_t qpn, enum nic_qp_state state);
	int (*qp_query)(struct nic_ctx *ctx, uint32_t qpn, struct nic_qp_info *ret_info);
	/*
	 * Copies `bytes` of queue memory from `offset` on, for display only: the client and the NIC go on writing meanwhile.
	 * -ERANGE outside of it; -EOPNOTSUPP the CPU cannot reach it.
	 */
	int (*queues_read)(struct nic_queues *queues, uint64_t offset, void *buf, size_t bytes);
	/* Sum over all queues this context ever had. */
	int (*ctx_counters)(struct nic_ctx *ctx, struct nic_counters *ret_counters);

	/*
	 * Reads a bounded number of events of this context's queues, for next_event to return. The daemon calls it after each
	 * NIC_EVENT_LOOK; the NIC sends no other one before. Only if nic->blocks is set.
	 */
	void (*ctx_look)(struct nic_ctx *ctx);

	/*
	 * Teardown, steps 1 to 3: data threads let go, QPs to ERR, wait for the flush at most timeout_nsec. The NIC does not see
	 * requests that the client posts from here on. With 0 it does not wait: the flush may never be complete.
	 */
	void (*ctx_quiesce)(struct nic_ctx *ctx, uint64_t timeout_nsec);

	/*
	 * Returns the parts of the record for ctx_import of a later process of any version; the caller frees `*ret_part`. The
	 * context's is valid until the next request that changes the context, a region's until it ends, a batch's until it ends
	 * or, if nic->records_states is set, until one of its QPs changes its state. They hold keys of regions and DCTs, and are
	 * useless without the descriptor. -EOPNOTSUPP as ctx_saved_fds; -EINVAL, -ENOSPC, -ENOMEM.
	 */
	int (*ctx_export)(struct nic_ctx *ctx, void **ret_part, size_t *ret_bytes);
	int (*mr_export)(const struct nic_mr *mr, void **ret_part, size_t *ret_bytes);
	int (*queues_export)(const struct nic_queues *queues, void **ret_part, size_t *ret_bytes);
	/*
	 * Returns the descriptors that must outlive the daemon, besides queue memory and, with nic->saves_memory, regions' memory.
	 * They stay the same from ctx_open or ctx_import on until the context ends, except that ctx_to_cpu may add some. If nic->blocks is
	 * set, the last close of the first one may wait for the client.
	 * -EOPNOTSUPP: the context cannot outlive the daemon or be exported.
	 */
	int (*ctx_saved_fds)(struct nic_ctx *ctx, struct nic_saved_fds *ret_saved);
	/*
	 * Takes a context over, all or nothing: a failure leaves the objects as they are. A QP in error is reported as an event,
	 * even if the former daemon reported it already.
	 * The former daemon may have been killed in the middle of a request. Import returns all regions and batches of the record:
	 * those whose destruction had begun are destroyed like any other, and the caller repeats a connect or modify that was cut.
	 * It destroys objects that are newer than the record. If the former daemon was closing the context, import closes it:
	 * -ENOENT. Call it before resume and, if nic->saves_memory is set, before the first ctx_open; else -EBUSY.
	 * -EINVAL not a record, -EPROTONOSUPPORT a record of another version, -EXDEV the record or a descriptor is of another NIC,
	 * -EBADF a descriptor is missing or does not belong to a NIC, -EOPNOTSUPP it needs a libmlx5 that this machine lacks,
	 * -ENOENT an object is gone, -ENODEV the NIC was lost since.
	 */
	int (*ctx_import)(struct nic *nic, const struct nic_import_attr *attr, struct nic_imported *ret_imported);
	/* Forgets a context with its regions and batches, which live on for a process that has its descriptors. */
	struct nic_ctx *(*ctx_unimport)(struct nic_ctx *ctx);
	/*
	 * Starts the imported queues, which rest until then because their peers may not be there yet. The daemon calls it after
	 * the last ctx_import of all NICs, once for each NIC, also without imported contexts. Cannot fail. Control thread.
	 */
	void (*resume)(struct nic *nic);
	/*
	 * A process that leaves its contexts to the next one calls it before it ends: the NIC stops between two steps of its
	 * queues, so that no atomic is cut. Returns whether it has stopped; the daemon calls again until then. Queues in hardware go
	 * on, and their backend returns true at once. Never undone. Control thread; never blocks.
	 */
	bool (*rest)(struct nic *nic);

	/*
	 * Sets the size of the context pool and its queues, from now on. Sends no command: ctx_pool_step does the work.
	 * -EINVAL: invalid queues.
	 */
	int (*ctx_pool_set)(struct nic *nic, const struct nic_ctx_pool_attr *attr);
	int (*ctx_pool_query)(struct nic *nic, struct nic_ctx_pool_info *ret_info);
	/*
	 * Makes or destroys one context by firmware commands. Any thread, one at a time for each NIC. -EAGAIN: nothing to do;
	 * other errors: it could not make a context, and sessions make their own.
	 */
	int (*ctx_pool_step)(struct nic *nic);
	/*
	 * Returns the batch that came with the context if it matches *layout. Then takes ownership of *layout and clears it;
	 * *ret_fd is the memory of the batch, from offset 0, which the caller closes. -ENOENT: no matching batch, so use
	 * queues_create. Sends no command.
	 */
	int (*queues_take)(struct nic_ctx *ctx, struct nic_layout *layout, int *ret_fd, struct nic_queues **ret_queues);
};

/* For slots of operations that a backend does not offer: each does nothing or returns the error of such a slot. nic.c. */
int nic_no_port_set(struct nic *nic, enum nic_port_state state);
int nic_no_agent_attach(struct nic_ctx *ctx, int ring_fd, int wake_fd);
void nic_no_ctx_look(struct nic_ctx *ctx);
int nic_no_ctx_pool_set(struct nic *nic, const struct nic_ctx_pool_attr *attr);
int nic_no_ctx_pool_query(struct nic *nic, struct nic_ctx_pool_info *ret_info);
int nic_no_ctx_pool_step(struct nic *nic);
bool nic_no_rest(struct nic *nic);
int nic_no_queues_take(struct nic_ctx *ctx, struct nic_layout *layout, int *ret_fd, struct nic_queues **ret_queues);

/* Head of a backend's NIC. */
struct nic {
	const struct nic_ops *ops;
	char name[NIC_NAME_BYTES];
	int event_fd; /* readable while next_event has something; -1: none */
	bool blocks; /* operations wait for firmware, so the control thread does not call them */
	bool stalls; /* operations on contexts wait as long as memory of their user makes a data thread sleep; others never do */
	unsigned int maps_per_ctx; /* most memory mappings of the process for one open context */
	bool saves_memory; /* ctx_import needs the memory of every region and of every batch */
	bool records_states; /* records of batches include the states of their QPs */
	struct list link; /* owner's list */
};

/* Wrappers, so that callers read like prose. */
static inline int nic_query(struct nic *nic, struct nic_info *ret_info)
{
	return nic->ops->query(nic, ret_info);
}

/* Must the control thread leave operations on its contexts to workers? */
static inline bool nic_takes_time(const struct nic *nic)
{
	return nic->blocks || nic->stalls;
}

/* ---- backends ------------------------------------------------------------------------------------------------------ */

struct nic_soft_attr {
	unsigned int n_nics; /* 1..64 */
	uint32_t gpu_poll_usec; /* at least 1: how often queues driven by a GPU are looked at when idle */
	uint32_t spin_usec; /* how long an idle NIC thread spins and yields before it sleeps; 20 is good */
	uint8_t max_mtu_log2; /* 8..12; 0: 12 */
	bool saves; /* contexts may outlive the process (struct nic_ctx_attr.is_saved): NIC pages are made for the next one too */
	const char *fault; /* developer's fault point, or NULL: see nic/soft/README.md */
	/*
	 * NULL: executors are threads of this process. Else each user's are in a process of its own, which this function starts: it runs
	 * nic_soft_serve() with the other end of *ret_channel, a SOCK_SEQPACKET pair. Any thread. -EAGAIN: try again soon; errors.
	 */
	int (*start_process)(void *arg, uint32_t uid, int *ret_channel);
	void *start_arg;
	uint32_t linger_msec; /* how long such a process stays without contexts; 0: 10 s */
};

/* In such a process, which has no other thread: returns never. Takes both; the pidfd of the daemon may be -1. Defined in nic/soft. */
void nic_soft_serve(int channel, int daemon_pidfd) __attribute__((noreturn));

/* Appends n_nics soft NICs to *nics (struct nic.link). All or nothing. Defined in nic/soft. */
int nic_soft_probe(const struct nic_soft_attr *attr, struct list *nics);

struct host_managed;

struct nic_mlx5_attr {
	const char *trace; /* file that gets every firmware command in words, or NULL */
	uint32_t gpu_poll_usec; /* of doorbell mode cpu, as for soft NICs; 0: 20 */
	uint32_t spin_usec;
	const char *objects; /* how they are made: "library", "ioctl", or NULL for the former where libmlx5 exports */
	uint8_t max_mtu_log2; /* 8..12; 0: that of the port */
	unsigned int n_managed;
	const struct host_managed *managed; /* borrowed during the call: probe skips these ports */
	/*
	 * NULL: memory of clients is mapped here. Else by a process for each user, which this function starts: it runs nic_mlx5_serve() with
	 * the other end of *ret_channel, as for soft NICs.
	 */
	int (*start_process)(void *arg, uint32_t uid, int *ret_channel);
	void *start_arg;
};

/* As nic_soft_serve(). Defined in nic/mlx5, in builds with libmlx5. */
void nic_mlx5_serve(int channel, int daemon_pidfd) __attribute__((noreturn));

struct nic_mlx5_report {
	char unusable[2 * NIC_REASON_BYTES]; /* NICs that probe skipped and why, as far as they fit; empty: none */
};

/* Appends the ConnectX ports of this host; returns 0 also if there are none. Any thread; blocks. Defined in nic/mlx5, in builds with libmlx5. */
int nic_mlx5_probe(const struct nic_mlx5_attr *attr, struct list *nics, struct nic_mlx5_report *ret_report);

/* "mlx5_core": a ConnectX. Pure; nic.c. */
bool nic_mlx5_claims(const char *driver);

/* Each backend reads its own part. */
struct nic_probe_attr {
	struct nic_soft_attr soft;
	struct nic_mlx5_attr mlx5;
};

struct nic_backend {
	const char *name; /* as in nic_info.backend */
	/* Appends NICs; *report is cleared by the caller. Soft: control thread. mlx5: any thread, and blocks. Errors as nic_NAME_probe. */
	int (*probe)(const struct nic_probe_attr *attr, struct list *nics, struct nic_mlx5_report *report);
	/* A process of start_process runs this, with no other thread; NULL: the backend starts none. */
	void (*serve)(int channel, int daemon_pidfd);
	bool (*claims)(const char *driver); /* whether it manages NICs whose kernel driver has this name. Pure */
	const char *why_not; /* why this build cannot use it, in words; NULL: it can */
};

/* Each is linked in every build; without libmlx5, nic_mlx5_backend says why not. */
extern const struct nic_backend nic_mlx5_backend, nic_soft_backend;
/* All, ended by NULL, in the order in which the daemon tries them. nic-backends.c. */
extern const struct nic_backend *const nic_backends[];

#endif
