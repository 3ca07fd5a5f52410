/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the soft backend: one NIC is a data thread that owns an engine.
 *
 * Three kinds of state, each with one owner:
 * - identity: written by probe, constant afterwards;
 * - "data thread" members: touched by the NIC's thread only, also by control operations, which are calls
 *   handed over to it (struct soft_call);
 * - shared members: atomics, or under the lock named beside them.
 */
#ifndef SHMEMD_NIC_SOFT_H
#define SHMEMD_NIC_SOFT_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/engine/engine.h"
#include "daemon/engine/ledger.h"
#include "daemon/nic/nic-page.h"
#include "daemon/nic/nic.h"
#include "daemon/nic/soft/soft-delay.h"
#include "proto/base/list.h"

#define SOFT_MAX_NICS 64u
#define SOFT_ATOMICS (NIC_ATOMIC_8 | NIC_ATOMIC_MASKED_4 | NIC_ATOMIC_MASKED_8)
#define SOFT_MAX_QPS 65536u
#define SOFT_MAX_CQS 65536u
#define SOFT_MAX_MRS 16384u
/* A ring is filled when its CQ is created: 8 MiB take about a millisecond, of the caller's time. */
#define SOFT_MAX_LOG2_CQ_ENTRIES 17u
/* CQ rings of one request: filling them makes their pages the daemon's memory. */
#define SOFT_MAX_CQ_BYTES (1ull << 30)
#define SOFT_MAPS_PER_CTX 2u /* doorbell page, ledger */
#define SOFT_MTU_LOG2 12u
#define SOFT_CHUNK_BYTES 65536u

struct soft_ctx;
struct soft_nic;
struct soft_queues;

/* ---- memory of clients, mapped here (soft-map.c) --------------------------------------------------------- */

struct soft_map {
	void *base; /* page aligned; NULL: nothing mapped */
	size_t bytes;
	uint8_t *data; /* where the wanted offset lies */
};

/* Which kinds of memory this backend maps: 0, -EOPNOTSUPP for the others, -EINVAL for what is no kind. */
int soft_check_kind(enum nic_mem_kind kind);
/*
 * Map part of a client's memfd. -EBADF not a memfd of ordinary pages; -EPERM not sealed against shrinking, or
 * not writable; -EINVAL outside the file; -ENOMEM.
 */
int soft_map_memfd(int fd, uint64_t offset, uint64_t bytes, bool writable, struct soft_map *ret_map);
void soft_map_deinit(struct soft_map *map);

/* Have the first `bytes` of a mapping in memory, so that no data thread waits for pages. -ENOMEM. */
int soft_map_populate(struct soft_map *map, uint64_t bytes);

/* Memory of our own, and that of a former process: nic_mem_create() and nic_mem_adopt(). */
int soft_map_create(const char *name, size_t bytes, struct soft_map *ret_map, int *ret_fd);
int soft_map_adopt(int fd, size_t bytes, struct soft_map *ret_map, int *ret_fd);

/* ---- numbers of QPs and CQs (soft-numbers.c) -------------------------------------------------------------- */

struct soft_number {
	uint32_t number; /* 0: free */
	void *object;
};

/* 24-bit numbers: a slot below, and a generation above, so that one is not soon used again. */
struct soft_numbers {
	struct soft_number *slots; /* one per 16-bit slot */
	uint32_t next_slot;
	uint32_t generation; /* 1..0xfe, so no number is 0, 1 or 0xffffff */
	uint32_t n_used;
	bool goes_on; /* behind numbers of a former process */
};

int soft_numbers_init(struct soft_numbers *numbers);
void soft_numbers_deinit(struct soft_numbers *numbers);
/* -ENOSPC */
int soft_numbers_alloc(struct soft_numbers *numbers, void *object, uint32_t *ret_number);
/* A number of a former process: new ones come behind it. -EEXIST its slot is taken, -EINVAL it is none. */
int soft_numbers_reserve(struct soft_numbers *numbers, uint32_t number, void *object);
void soft_numbers_dealloc(struct soft_numbers *numbers, uint32_t number);
void *soft_numbers_find(const struct soft_numbers *numbers, uint32_t number); /* or NULL */

/* ---- the way between NICs (soft-fabric.c) ------------------------------------------------------------------ */

/*
 * Where a NIC's thread is reached. Lives until the last route to it is put, so a sender never races with
 * the end of a NIC. Pushing is lock-free and open to every thread; only the NIC's thread takes.
 */
struct soft_port {
	uint32_t refs; /* atomic */
	uint8_t gid[16]; /* constant once it is settled */
	bool settled; /* under the fabric's lock: somebody goes by it */
	bool running; /* atomic: a thread drains it */
	bool down; /* atomic: packets to and from it are dropped (soft-port.c) */
	uint32_t asleep; /* atomic: the thread must be woken */
	int wake_fd; /* eventfd, watched edge-triggered and never read */
	struct list *packets; /* atomic stack through link.next, newest first */
	struct list *calls; /* the same */
	uint32_t turns __attribute__((aligned(64))); /* atomic: turns that the thread has begun; it alone writes to this line */
};

/* The ports of one probe, by GID. */
struct soft_fabric {
	uint32_t refs; /* under lock */
	pthread_mutex_t lock;
	struct soft_port *ports[SOFT_MAX_NICS]; /* under lock, by NIC; not owned: a port leaves before it is freed */
};

struct soft_fabric *soft_fabric_new(void);
struct soft_fabric *soft_fabric_ref(struct soft_fabric *fabric);
struct soft_fabric *soft_fabric_unref(struct soft_fabric *fabric);
int soft_fabric_add(struct soft_fabric *fabric, struct soft_port *port);
void soft_fabric_remove(struct soft_fabric *fabric, struct soft_port *port);
/* A new reference; -EHOSTUNREACH. */
int soft_fabric_find(struct soft_fabric *fabric, const uint8_t gid[16], struct soft_port **ret_port);
/* The same for what may be one of its ports: only compared, never looked into. */
int soft_fabric_find_port(struct soft_fabric *fabric, const void *claimed, struct soft_port **ret_port);

/* GIDs of a former process for ports that nobody goes by yet. -EXDEV others have settled for others. */
int soft_fabric_adopt(struct soft_fabric *fabric, unsigned int n, const uint8_t (*gids)[16]);
void soft_fabric_settle(struct soft_fabric *fabric, struct soft_port *port);
/* All GIDs, at most SOFT_MAX_NICS. */
unsigned int soft_fabric_gids(struct soft_fabric *fabric, uint8_t (*ret_gids)[16]);
void soft_port_mac(const struct soft_port *port, uint8_t ret_mac[6]);

struct soft_port *soft_port_new(const uint8_t gid[16]);
struct soft_port *soft_port_unref(struct soft_port *port);
void soft_port_push(struct soft_port *port, struct list **stack, struct list *item);
/* Everything pushed so far, oldest first, to the end of *items. Returns whether there was any. */
bool soft_port_take(struct list **stack, struct list *items);
void soft_port_wake(struct soft_port *port);

/* ---- calls: control operations carried out by the data thread (soft-call.c) --------------------------------- */

struct soft_call {
	struct list link;
	/*
	 * On the data thread. True: finished, `result` is set. False: more to do in the next turn, so that a batch
	 * of a thousand objects does not keep the queues of others waiting.
	 */
	bool (*run)(struct soft_nic *nic, struct soft_call *call);
	int result;
	sem_t done;
};

/* Objects handled in one turn of a batch. */
#define SOFT_CALL_SLICE 32u

/* Hand over and wait. Returns call->result. The NIC must have been started. */
int soft_call(struct soft_nic *nic, struct soft_call *call);
/* Data thread: run what is handed over, one turn each. Returns how many ran. */
unsigned int soft_calls_run(struct soft_nic *nic);

/* ---- the NIC --------------------------------------------------------------------------------------------------- */

enum soft_fault_kind {
	SOFT_FAULT_NONE,
	SOFT_FAULT_THREAD_STOP,
	SOFT_FAULT_FLIP_PAYLOAD_BYTE,
	SOFT_FAULT_DROP_CQE,
	SOFT_FAULT_DELAY_MEMORY, /* nth is the seed */
	SOFT_FAULT_SIT_STILL, /* nth is the time, in milliseconds */
	SOFT_FAULT_ENGINE_STEP, /* the process is killed */
};

struct soft_fault {
	enum soft_fault_kind kind;
	enum engine_step step;
	uint64_t nth;
};

/* "soft.drop-cqe:3", or NULL for none; -EINVAL. */
int soft_fault_parse(const char *text, struct soft_fault *ret_fault);

#define SOFT_MAX_EVENTS 256u
#define SOFT_NIC_EVENTS 2u /* more, for the kinds that concern the NIC as a whole: nobody's QPs push those out */

struct soft_events {
	pthread_mutex_t lock; /* all of this */
	struct nic_event ring[SOFT_MAX_EVENTS + SOFT_NIC_EVENTS];
	uint32_t first;
	uint32_t n;
	uint32_t n_lost; /* found no room; told when all others are */
};

struct soft_nic {
	struct nic base;

	/* identity */
	unsigned int index; /* in the fabric */
	uint32_t gpu_poll_usec;
	uint32_t spin_usec;
	uint8_t mtu_log2;
	bool keeps; /* contexts may outlive the process */
	struct soft_fault fault;
	struct soft_fabric *fabric; /* owned reference */
	struct soft_port *port; /* owned reference; in the fabric */

	/* shared */
	pthread_mutex_t lock; /* the four below */
	bool started;
	bool open; /* nothing is imported any more */
	pthread_t thread;
	uint32_t last_pdn;
	struct soft_events events;
	struct nic_page nic_page; /* constant once started; kept where `keeps` is set */
	struct nic_counters former; /* of queues that were gone before their contexts were imported; control thread */
	/* Away from flags of the data thread: compilers read several of those at once. */
	bool is_leaving; /* the thread is to rest; atomic */
	bool has_left; /* and it does; atomic */

	/* data thread, from its start on */
	struct engine *engine;
	struct soft_page *page; /* what nic_page tells, and more */
	int epoll_fd;
	struct list ctxs; /* struct soft_ctx.link */
	struct list calls; /* unfinished ones */
	struct list packets; /* not yet given to the engine, from other NICs and from itself */
	struct soft_delay delay;
	struct soft_numbers qpns;
	struct soft_numbers cqns;
	uint32_t n_gpu_qps; /* driven by a GPU */
	uint64_t idle_since_nsec; /* 0: not idle */
	bool idle_yields; /* spun long enough */
	uint64_t now_nsec; /* the engine's clock */
	uint64_t calls_after_nsec; /* while there is traffic, no slice of a call before */
	bool busy; /* the last turn had traffic */
	bool has_sat_still; /* fault point */
	uint32_t n_turns;
	uint32_t turns_unpolled; /* since doorbells were looked at */
	bool stop;
	bool resting; /* only calls are served: until all contexts of a former process are there, or for good */
	bool is_mute; /* nothing is sent: what ends here goes on elsewhere */
	bool fault_stopped;
	uint64_t n_steps; /* of the engine, at the one that is a fault point */
};

static inline struct soft_nic *soft_nic(struct nic *nic)
{
	return container_of(nic, struct soft_nic, base);
}

/* Starts the data thread on the first call (soft-thread.c). */
int soft_thread_start(struct soft_nic *nic);
/*
 * The same for contexts of a former process, whose NIC page this is: the thread rests. -EBUSY it is too late for that; -EXDEV
 * another page is there; -EBADF it is none.
 */
int soft_thread_adopt(struct soft_nic *nic, int page_fd);
void soft_resume(struct nic *nic);
bool soft_rest(struct nic *nic);
bool soft_thread_is_started(struct soft_nic *nic);
/* Ends it for good and frees what it owned; also right when it never ran. */
void soft_thread_stop(struct soft_nic *nic);

/* The NIC page and what lies behind it (soft-page.c). */
struct soft_page {
	struct shmd_nic_page client; /* all that clients are told of */
	uint8_t unused[960];
	uint32_t port_is_down;
};

int soft_page_make(struct soft_nic *nic);
/* One that make has kept; -EBADF. The port is down if it was. */
int soft_page_adopt(struct soft_nic *nic, int fd);
void soft_page_deinit(struct soft_nic *nic);

/* Engine's event sink and the queue behind next_event (soft-events.c). */
int soft_events_init(struct soft_events *events);
void soft_events_deinit(struct soft_events *events);
void soft_event(struct soft_nic *nic, const struct engine_event *ev);
void soft_event_port(struct soft_nic *nic, enum nic_port_state state);
int soft_next_event(struct nic *nic, struct nic_event *ret_event);

/* Down and up by request (soft-port.c). */
int soft_port_set(struct nic *nic, enum nic_port_state state);
bool soft_port_is_down(const struct soft_port *port);
/* Data thread: frees every packet that waits for the engine. */
void soft_thread_drop_packets(struct soft_nic *nic);

/* ---- contexts (soft-ctx.c) ---------------------------------------------------------------------------------------- */

struct soft_ctx {
	struct nic_ctx base;
	struct soft_nic *nic;
	uint32_t pdn;
	struct soft_map page_map;
	uint64_t *doorbell; /* the 8-byte word in the doorbell page */

	/* the caller's side: one thread at a time */
	struct list mrs; /* struct soft_mr.link, in the order in which they were made */
	struct list batches; /* struct soft_queues.link, the same */
	int ledger_fd; /* -1: it ends with the process */
	struct soft_map ledger_map;

	/* data thread */
	struct engine_ledger *ledger;
	struct list link; /* nic->ctxs */
	struct list qps; /* struct soft_qp.link; rotates while it is scanned */
	uint32_t n_qps;
	uint32_t n_scan; /* QPs still to be looked at since the last doorbell */
	bool quiesced; /* its doorbells are not looked at any more */
	struct nic_counters past; /* of queues that are gone */
};

static inline struct soft_ctx *soft_ctx(struct nic_ctx *ctx)
{
	return container_of(ctx, struct soft_ctx, base);
}

int soft_ctx_open(struct nic *nic, const struct nic_ctx_attr *attr, struct nic_ctx **ret_ctx);
/* Empty; pdn 0: a new one. Closed by soft_ctx_close() once it was attached to the data thread, else freed. */
struct soft_ctx *soft_ctx_alloc(struct soft_nic *nic, const struct nic_ctx_attr *attr, uint32_t pdn);
struct soft_ctx *soft_ctx_free(struct soft_ctx *ctx);
/* Its pages are there. -EINVAL another context has its PD; or what the engine says of the ledger. */
int soft_ctx_attach(struct soft_ctx *ctx);
size_t soft_ledger_bytes(void);
struct nic_ctx *soft_ctx_close(struct nic_ctx *ctx);
int soft_ctx_counters(struct nic_ctx *ctx, struct nic_counters *ret_counters);
void soft_ctx_quiesce(struct nic_ctx *ctx, uint64_t timeout_nsec);
/* Data thread: look at the doorbell, mark QPs. Returns whether there is anything to do. */
bool soft_ctx_poll(struct soft_ctx *ctx);

/* ---- memory regions (soft-mr.c) -------------------------------------------------------------------------------------- */

/* Memory the CPU reaches: every operation completes at once. */
extern const struct engine_mem_ops soft_mem_ops;

struct soft_mr {
	struct nic_mr base;
	struct list link; /* ctx->mrs */
	struct engine_mem *mem; /* owned reference */
	struct nic_mr_attr attr; /* its fd is gone */
};

int soft_mr_reg(struct nic_ctx *ctx, const struct nic_mr_attr *attr, struct nic_mr **ret_mr);
/* One of a former process, under its key. -EINVAL another has it. */
int soft_mr_restore(struct soft_ctx *ctx, const struct nic_mr_attr *attr, uint32_t key);
struct nic_mr *soft_mr_dereg(struct nic_mr *mr);

/* ---- queues (soft-queues.c, soft-qp.c) --------------------------------------------------------------------------------- */

struct soft_cq {
	struct soft_queues *queues; /* NULL: not created */
	uint32_t cqn;
	uint32_t n_foreign_qps; /* QPs of other batches */
};

struct soft_qp {
	struct list link; /* ctx->qps */
	struct soft_queues *queues; /* NULL: not created */
	const struct nic_qp *desc; /* in the batch's layout */
	const struct shmd_dbrec *dbrec; /* client-written */
	uint32_t *error; /* in the dbrec's line, SHMD_QP_ERROR_OFFSET: written here, never read */
	uint32_t told; /* what was written there */
	bool is_restored; /* and nobody has changed its state since */
	uint32_t seen_snd_be; /* its send word when a scan last saw it change */
	struct soft_cq *send_cq;
	struct soft_cq *recv_cq;
};

struct soft_queues {
	struct nic_queues base;
	struct soft_ctx *ctx;
	struct list link; /* ctx->batches */
	struct soft_map map;
	uint64_t mem_offset;
	bool is_restored; /* of a former process */
	struct soft_cq *cqs; /* owned, n_cqs of the layout; data thread */
	struct soft_qp *qps; /* the same */
};

int soft_queues_create(struct nic_ctx *ctx, const struct nic_queue_mem *mem,
		       struct nic_layout *layout, struct nic_queues **ret_queues);
/* As create, of a former process: the layout has its numbers, and the ledger what the queues were doing. */
int soft_queues_restore(struct soft_ctx *ctx, const struct nic_queue_mem *mem, const struct nic_layout *layout);
int soft_queues_destroy(struct nic_queues *queues);
/* Data thread: all QPs of a context, at once; their batches remain. */
void soft_qps_destroy(struct soft_ctx *ctx);
int soft_queues_read(struct nic_queues *queues, uint64_t offset, void *buf, size_t bytes);

int soft_connect(struct nic_ctx *ctx, unsigned int n, const struct nic_peer *peers,
		 const struct nic_qp_params *params, unsigned int *ret_n_done);
int soft_qp_modify(struct nic_ctx *ctx, uint32_t qpn, enum nic_qp_state state);
int soft_qp_query(struct nic_ctx *ctx, uint32_t qpn, struct nic_qp_info *ret_info);

/* Dynamic connections (soft-dc.c): operations of the engine, DCTs on the data thread, the caller's resolve. */
int soft_dc_route(void *owner, uint32_t qpn, const struct shmd_wqe_av_seg *av, void **ret_route);
int soft_dc_route_back(void *owner, const void *source, void **ret_route);
int soft_dc_source_gid(void *owner, const void *source, uint8_t ret_gid[16]);
int soft_dct_create(struct soft_ctx *ctx, const struct nic_qp *desc, bool is_restored);
void soft_dct_destroy(struct soft_nic *nic, uint32_t dctn);
int soft_resolve(struct nic_ctx *ctx, unsigned int n, const struct nic_addr *addrs, uint8_t traffic_class,
		 struct nic_dc_peer *ret_peers, unsigned int *ret_n_done);

/* Data thread. The QP of this context, or NULL. */
struct soft_qp *soft_qp_find(struct soft_ctx *ctx, uint32_t qpn);
/* Data thread: add what this QP has counted. */
void soft_qp_count(struct soft_qp *qp, struct nic_counters *sum);
/* Data thread: tell those who wait and have nothing on its way; 0 when it works again. The first reason stays. */
void soft_qp_tell_error(struct soft_qp *qp, uint32_t syndrome);
/* Data thread: one that is restored. Of its error the client is told again, since the news may have died with the process. */
void soft_qp_learn_error(struct soft_qp *qp);
/* Contexts that outlive the process (soft-adopt.c). */
int soft_ctx_keep(struct nic_ctx *ctx, struct nic_kept *ret_kept);
int soft_ctx_export(struct nic_ctx *ctx, void **ret_part, size_t *ret_bytes);
int soft_mr_export(const struct nic_mr *mr, void **ret_part, size_t *ret_bytes);
int soft_queues_export(const struct nic_queues *queues, void **ret_part, size_t *ret_bytes);
int soft_ctx_import(struct nic *nic, const struct nic_import_attr *attr, struct nic_imported *ret_imported);
struct nic_ctx *soft_ctx_unimport(struct nic_ctx *ctx);

void soft_counters_add(struct nic_counters *sum, const struct engine_qp_counters *more);

#endif
