/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the soft backend: one NIC has an executor for each user with contexts on it, a data thread that owns an engine.
 * Outside, the executors of a NIC are one port with one set of QP numbers.
 *
 * Three kinds of state, each with one owner:
 * - identity: written by probe, constant afterwards;
 * - "data thread" members: touched by the executor's thread only, also by control operations, which are calls
 *   handed over to it (struct soft_call);
 * - shared members: atomics, or under the lock named beside them.
 *
 * An executor touches memory of its own user's clients and of no others, so a client whose memory makes a thread sleep in the
 * kernel makes its own user's thread sleep.
 */
#ifndef SHMEMD_NIC_SOFT_H
#define SHMEMD_NIC_SOFT_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/engine/engine.h"
#include "daemon/engine/ledger.h"
#include "daemon/nic/doorbell-poll.h"
#include "daemon/nic/nic-page.h"
#include "daemon/nic/nic.h"
#include "daemon/nic/soft/soft-agent.h"
#include "daemon/nic/soft/soft-delay.h"
#include "daemon/nic/soft/soft-ring.h"
#include "daemon/nic/soft/soft-shared.h"
#include "proto/base/hash.h"
#include "proto/base/list.h"

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

/* The order of ctx_saved_fds. */
enum { SOFT_SAVED_DOORBELL, SOFT_SAVED_WAKE, SOFT_SAVED_NIC_PAGE, SOFT_SAVED_LEDGER, SOFT_N_SAVED };

struct soft_ctx;
struct soft_exec;
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
int soft_check_mr_kind(enum nic_mem_kind kind); /* the same for regions, which an agent may reach */
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

/* Numbers of one executor and what has them: data thread. The executors of a NIC share the table of numbers. */
struct soft_names {
	struct soft_shared_numbers *numbers;
	uint32_t exec;
	bool are_given; /* by another process, which has taken them */
	struct hash objects;
};

void soft_names_init(struct soft_names *names, struct soft_shared_numbers *numbers, uint32_t exec);
void soft_names_deinit(struct soft_names *names); /* also of one that is all zero */
/* As the functions of soft-shared.h; -ENOMEM. */
int soft_names_alloc(struct soft_names *names, void *object, uint32_t *ret_number);
/* One that is given must be this executor's: -EINVAL. */
int soft_names_reserve(struct soft_names *names, uint32_t number, void *object);
void soft_names_dealloc(struct soft_names *names, uint32_t number);
/* NULL: nothing of this executor. */
void *soft_names_find(const struct soft_names *names, uint32_t number);

/* ---- the way between NICs (soft-fabric.c) ------------------------------------------------------------------ */

/*
 * Where one executor is reached. Lives as long as its port, for one executor after another, so a sender never races with the
 * end of one. Pushing is lock-free and open to every thread; only the executor's thread takes. Packets come by reference from
 * executors of the same user, and through channels from those of others (soft-foreign.c).
 */
struct soft_lane {
	struct soft_shared_owner *owner; /* the port's; NULL: nobody asks */
	struct soft_shared_lane *shared; /* of its thread; NULL: that one is in another process */
	struct soft_shared_lane own; /* where the thread is in no part */
	uint16_t port, exec; /* where it is in the fabric */
	struct list *packets; /* atomic stack through link.next, newest first */
	struct list *calls; /* the same */
	struct list *agent_items; /* the same: operations of its engine that agents of other executors have ended */
	struct list *ends; /* the same: of channels that others have opened (struct soft_end.link) */
	int wake_fd; /* owned eventfd, watched edge-triggered and never read; -1: the thread is in another process */
};

/* A NIC as other NICs reach it. Lives until the last route to it is put. */
struct soft_port {
	uint32_t refs; /* atomic */
	uint16_t id; /* in the fabric */
	bool settled; /* under the fabric's lock: somebody goes by its GID */
	struct soft_shared_port *shared; /* the fabric's */
	struct soft_fabric *fabric; /* owned reference */
	struct soft_lane *lanes[SOFT_MAX_EXECS]; /* atomic, owned; NULL: never used */
};

/* A channel that an executor wants to one in another process. */
struct soft_want {
	struct list link;
	uint16_t port, peer_port, peer_exec;
};

/* The ports of one probe, by GID. */
struct soft_fabric {
	uint32_t refs; /* under lock */
	struct soft_shared *shared;
	int shared_fd; /* owned; -1: the table is another process's, and read here */
	/* Then: */
	unsigned int own_exec; /* the only one in this process, on each port */
	struct soft_shared_part *parts[SOFT_MAX_EXECS]; /* atomic, owned: of this process and others, as far as they are known */
	struct list *wants; /* atomic stack of struct soft_want */
	int want_fd; /* owned eventfd: there are some */
	uint64_t import_nsec; /* else: how long imports may still wait for processes of a former daemon; under lock */
	pthread_mutex_t lock;
	struct soft_port *ports[SOFT_MAX_NICS]; /* under lock, by NIC; not owned: a port leaves before it is freed */
	struct list *over; /* atomic stack: ends of channels that nobody uses, to be unmapped by who may wait for that */
	/* Control thread: how long it may still wait for executors, and when that was counted (soft-call.c). */
	uint64_t patience_nsec, patience_at_nsec;
};

/* NULL: no memory. */
struct soft_fabric *soft_fabric_new(void);
/* A view of another process's: the descriptors of its table, and of the part for this one, are borrowed. -EBADF, -ENOMEM, -EMFILE. */
int soft_fabric_new_view(int table_fd, int part_fd, unsigned int own_exec, struct soft_fabric **ret_fabric);
static inline bool soft_fabric_is_view(const struct soft_fabric *fabric)
{
	return fabric->shared_fd < 0;
}
/* The port at this place of another process's table. -ENODEV, -ENOMEM. */
int soft_fabric_join(struct soft_fabric *fabric, unsigned int id, struct soft_port **ret_port);
struct soft_fabric *soft_fabric_ref(struct soft_fabric *fabric);
struct soft_fabric *soft_fabric_unref(struct soft_fabric *fabric);
/* A new port with one reference, and a place that no other has. -ENOSPC, -ENOMEM, -EIO. */
int soft_fabric_add(struct soft_fabric *fabric, const uint8_t gid[16], struct soft_port **ret_port);
void soft_fabric_remove(struct soft_fabric *fabric, struct soft_port *port);
/* A new reference; -EHOSTUNREACH. */
int soft_fabric_find(struct soft_fabric *fabric, const uint8_t gid[16], struct soft_port **ret_port);
/* The same for what may be one of its ports: only compared, never looked into. */
int soft_fabric_find_port(struct soft_fabric *fabric, const void *claimed, struct soft_port **ret_port);
int soft_fabric_find_id(struct soft_fabric *fabric, uint32_t id, struct soft_port **ret_port);

/* GIDs of a former process for ports that nobody goes by yet. -EXDEV others have settled for others, or the table is not ours. */
int soft_fabric_adopt(struct soft_fabric *fabric, unsigned int n, const uint8_t (*gids)[16]);
void soft_fabric_settle(struct soft_fabric *fabric, struct soft_port *port);
/* All GIDs, at most SOFT_MAX_NICS. */
unsigned int soft_fabric_gids(struct soft_fabric *fabric, uint8_t (*ret_gids)[16]);
void soft_port_mac(const struct soft_port *port, uint8_t ret_mac[6]);

struct soft_port *soft_port_unref(struct soft_port *port);
/* The lane of this executor, made when it is first asked for. One thread at a time; -EMFILE, -ENOMEM. */
int soft_port_lane(struct soft_port *port, unsigned int exec, struct soft_lane **ret_lane);
/* Any thread. The lane of the executor that has this QP; NULL: none. */
struct soft_lane *soft_port_find_lane(struct soft_port *port, uint32_t qpn);
/* The same by the executor's number. */
struct soft_lane *soft_port_exec_lane(struct soft_port *port, unsigned int exec);
/* The state of its thread; NULL: it is not known yet. */
const struct soft_shared_lane *soft_lane_thread(const struct soft_fabric *fabric, const struct soft_lane *lane);
static inline bool soft_lane_is_remote(const struct soft_lane *lane)
{
	return !lane->shared;
}

/* shared NULL: the lane's own. errno says why not. */
struct soft_lane *soft_lane_new(struct soft_shared_owner *owner, struct soft_shared_lane *shared);
struct soft_lane *soft_lane_free(struct soft_lane *lane);
void soft_lane_push(struct soft_lane *lane, struct list **stack, struct list *item);
/* Everything pushed so far, oldest first, to the end of *items. Returns whether there was any. */
bool soft_lane_take(struct list **stack, struct list *items);
void soft_lane_wake(struct soft_lane *lane);
/* A channel has news for its thread. */
void soft_lane_ring(struct soft_lane *lane);

/* ---- packets between executors of different users (soft-foreign.c) ------------------------------------------------------- */

#define SOFT_MAX_CHANNELS 64u /* that one executor opens */

/* The memory of a channel, for the ends in this process. */
struct soft_channel {
	uint32_t refs; /* atomic */
	struct soft_shared_channel *shared; /* owned */
};

/* One end of a channel: data thread of the executor that has it. */
struct soft_end {
	struct list link; /* exec->ends; before: lane->ends; after: fabric->over */
	struct list news_link; /* exec->ends_with_news: written, and not told to the peer yet */
	struct list jam_link; /* exec->jams */
	struct soft_fabric *fabric;
	struct soft_exec *exec; /* NULL: not taken yet */
	struct soft_end *other; /* owned: the peer's end, as long as this one was not opened */
	struct soft_channel *channel; /* owned reference; NULL: it is still to come from another process, or was refused */
	bool is_opener;
	bool is_remote; /* the peer is in another process; then: */
	int wake_fds[2]; /* owned eventfds: of this side, watched edge-triggered and never read, and of the peer; -1: none */
	struct soft_shared_bell *bells[2]; /* of this side, and of the peer */
	uint16_t port_id, exec_id; /* the peer's */
	uint32_t epoch; /* the peer's, when it was opened */
	struct soft_port *port; /* owned reference, the peer's; NULL: not taken yet */
	struct soft_lane *lane; /* the port's */
	uint64_t used_nsec;
	struct list held; /* packets for which there was no room */
	uint32_t held_bytes; /* as records */
	struct engine_jam jam; /* while there are some, and until those who waited have tried */
	struct soft_writer out;
	struct soft_reader in;
	struct packet_pool *packets; /* owned: what is read */
};

/* soft-end.c: the end of who opens a channel, with the other one. NULL: no memory. */
struct soft_end *soft_end_new_pair(struct soft_fabric *fabric);
/* The end of who opens a channel to another process, which is to come. NULL: no memory. */
struct soft_end *soft_end_new_pending(struct soft_fabric *fabric);
/*
 * One end of such a channel for this executor of this process, with the memory and the eventfds of opener and other, all taken also on
 * failure; channel NULL: it was refused. Returns false if there is no memory, or no such executor.
 */
struct soft_remote_channel {
	struct soft_shared_channel *shared;
	int wake_fds[SOFT_N_WAYS]; /* of who opened it, and of the other one */
	bool is_opener;
	uint16_t port, peer_port, peer_exec;
	uint32_t peer_epoch;
};
bool soft_end_arrive(struct soft_fabric *fabric, struct soft_remote_channel *channel);
/* The pending end has what has come for it. */
void soft_end_take_over(struct soft_end *pending, struct soft_end *come);
/* It is nobody's any more. */
void soft_end_bury(struct soft_end *end);
void soft_end_bury_pair(struct soft_end *end);
/* One that was opened to an executor which does not take it: the opener learns of that. */
void soft_end_refuse(struct soft_end *end);
/* Unmaps what was buried: not on a data thread, since that may wait for others. */
void soft_ends_reap(struct soft_fabric *fabric);
void soft_ends_forget(struct soft_lane *lane); /* what was opened to an executor that is not there */
/* Stacks that any thread pushes to, and one thread takes from. */
void soft_stack_push(struct list **stack, struct list *item);
struct list *soft_stack_pop(struct list **stack);

int soft_foreign_init(struct soft_exec *exec);
/* No thread runs any more, and the engine is gone. */
void soft_foreign_deinit(struct soft_exec *exec);
/* As engine_ops.send. */
int soft_foreign_send(struct soft_exec *exec, struct soft_lane *lane, struct soft_port *port, struct engine_packet *pkt);
/* The jam on the way to this executor, or NULL. */
struct engine_jam *soft_foreign_jam(const struct soft_exec *exec, const struct soft_lane *lane, bool is_answer);
/*
 * Has the peer perhaps not read yet what was sent to it, or have we not read its answers? As engine_ops.is_peer_behind, whose stamp
 * has SOFT_STAMP_WAY while this counts.
 */
bool soft_foreign_is_behind(const struct soft_exec *exec, const struct soft_lane *lane, uint32_t *stamp);
/* Packets from others to the engine, and what was kept back to others. Returns how many that were. */
unsigned int soft_foreign_run(struct soft_exec *exec, unsigned int max_packets, uint64_t max_bytes);
/* Rings at everybody for whom this executor has written something. */
void soft_foreign_tell(struct soft_exec *exec);
/* Before sleep: is there anything that soft_foreign_run() can do? */
bool soft_foreign_is_pending(struct soft_exec *exec);
/* Everything that is on its way to this executor, or was kept back, is gone. */
void soft_foreign_drop(struct soft_exec *exec);
/*
 * On the caller's thread, since mapping may wait for others: channels for so many peers, and those that nobody uses are unmapped.
 * Without any an executor makes its own.
 */
void soft_foreign_stock(struct soft_exec *exec, unsigned int n);
/* The same for peers that are going to be connected, as far as they are of other users. */
void soft_foreign_expect(struct soft_exec *exec, unsigned int n, const struct nic_addr *(*peer)(const void *peers, unsigned int i),
			 const void *peers);
/* Data thread: such a peer in another process is going to be connected. */
void soft_foreign_prepare(struct soft_exec *exec, const struct nic_addr *peer);
/* Has somebody in another process news for this executor? */
bool soft_foreign_has_news(const struct soft_exec *exec);
/* Has this one rung at a peer in another process that has not looked yet? */
bool soft_foreign_has_rung(const struct soft_exec *exec, const struct soft_lane *lane);
/* Is this a peer of another user? */
bool soft_is_foreign(const struct soft_exec *exec, const struct soft_lane *lane);

/* For ops.is_peer_behind: a position in a way, then turns of the peer's thread, at last turns of this one. */
#define SOFT_STAMP_SET (1u << 31)
#define SOFT_STAMP_WAY (1u << 30)
#define SOFT_STAMP_LAST (1u << 29) /* the peer has run */
#define SOFT_STAMP_MASK (SOFT_STAMP_LAST - 1)

/* ---- calls: control operations carried out by the data thread (soft-call.c) --------------------------------- */

/*
 * The call of a thread that waits however long it takes lies on its stack: such a thread serves one user, so a user whose memory
 * makes the executor sleep makes nobody else wait. A call that its caller may leave is on the heap and changes nothing; the executor
 * frees one that was left.
 */
enum soft_call_state {
	SOFT_CALL_STAYS, /* the caller waits to the end */
	SOFT_CALL_MAY_BE_LEFT,
	SOFT_CALL_DONE, /* of those that may be left */
	SOFT_CALL_LEFT,
};

struct soft_call {
	struct list link;
	/*
	 * On the data thread. True: finished, `result` is set. False: more to do in the next turn, so that a batch
	 * of a thousand objects does not keep the queues of others waiting.
	 */
	bool (*run)(struct soft_exec *exec, struct soft_call *call);
	int result;
	uint32_t state; /* atomic: enum soft_call_state */
	sem_t done;
};

/* Objects handled in one turn of a batch. */
#define SOFT_CALL_SLICE 32u
/* How long who only asks waits, unless told otherwise. A thread that has not been scheduled for so long is at a client's memory, or the node is overloaded. */
#define SOFT_ASK_NSEC 250000000u

/* Hand over and wait. Returns call->result. */
int soft_call(struct soft_exec *exec, struct soft_call *call);
/*
 * The same for a context, for as long as its caller has patience; `call` is the first member of something from malloc. 0: it was
 * carried out, and the caller frees it. -EBUSY: it was not, and the executor frees it; until that has had a turn, no further call
 * waits for as long, or less.
 */
int soft_ctx_ask(struct soft_ctx *ctx, struct soft_call *call);
/* Control thread, which has others to serve: soft_ctx_ask() within what is left of a budget for all NICs, a tenth of the time. */
int soft_call_brief(struct soft_exec *exec, struct soft_call *call);
/* Control thread: how long it may wait now; it waited so long in vain. */
uint64_t soft_patience_left(struct soft_fabric *fabric);
void soft_patience_spend(struct soft_fabric *fabric, uint64_t nsec);
/* Data thread: run what is handed over, one turn each. Returns how many ran. */
unsigned int soft_calls_run(struct soft_exec *exec);
/* No thread runs any more: calls that were left are freed. */
void soft_calls_drop(struct soft_exec *exec);

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
	bool saves; /* contexts may outlive the process */
	struct soft_fault fault;
	int killed_pid; /* a fault point kills this process, too; 0: its own alone */
	struct soft_fabric *fabric; /* owned reference */
	struct soft_port *port; /* owned reference; in the fabric */

	/* shared */
	pthread_mutex_t start_lock; /* taken before `lock`: one executor starts at a time */
	pthread_mutex_t lock; /* of the next six */
	struct soft_exec *execs[SOFT_MAX_EXECS]; /* owned */
	struct soft_exec *spare; /* one of them: it has no context, and serves whoever comes */
	bool started; /* there has been an executor */
	bool open; /* nothing is imported any more */
	uint32_t last_pdn;
	struct nic_counters past; /* of executors that ended */
	uint32_t n_mrs; /* atomic */
	struct soft_events events;
	bool is_leaving; /* all executors are to rest; atomic */
	bool was_down; /* a page of a former process says so of the port; atomic */
	struct nic_counters former; /* of queues that were gone before their contexts were imported; under lock while these are imported */
};

/* Executes the queues of one user on one NIC. */
struct soft_exec {
	/* constant once started */
	struct soft_nic *nic;
	unsigned int index; /* in the NIC */
	struct soft_lane *lane; /* the port's */
	struct nic_page nic_page; /* what the clients of this executor read; saved if the NIC `saves` */

	/* under the NIC's lock */
	uint32_t uid;
	uint32_t n_ctxs;
	bool is_ending;
	bool is_shared; /* as its page: no new context comes to it */
	struct nic_counters last; /* when it was last asked */

	/* shared */
	bool may_resume; /* atomic: all contexts of a former process are there */
	bool has_left; /* atomic: it rests, as its NIC is to */
	uint32_t late_turns; /* atomic: + 1; of the lane when a caller had waited too long. 0: none has */
	uint64_t late_nsec; /* atomic: how long that one had waited */
	struct list *stock; /* atomic stack of channels that nobody uses yet: struct soft_end.link, the opener's */
	uint32_t n_stock; /* atomic */

	/* data thread, from its start on */
	struct engine *engine;
	struct soft_page *page; /* what nic_page tells, and more */
	struct doorbell_poll poll; /* its pages are contexts */
	struct list calls; /* unfinished ones */
	struct soft_names qpns, cqns;
	struct list packets; /* not yet given to the engine, from executors of the user and from itself */
	struct list ends; /* struct soft_end.link */
	struct hash ends_by_peer;
	struct list ends_with_news, jams;
	unsigned int n_ends, n_opened, n_jams, n_remote;
	bool ends_have_more; /* some have something left to read */
	uint32_t n_downs; /* of the port, when packets were last dropped for that */
	struct soft_delay delay;
	struct list agents; /* of its contexts */
	unsigned int n_agent_items; /* that agents of other executors have */
	bool is_draining; /* atomic: it has ended, and takes the former back */
	uint64_t calls_after_nsec; /* while there is traffic, no slice of a call before */
	bool busy; /* the last turn had traffic */
	bool has_sat_still; /* fault point */
	uint32_t n_turns;
	uint32_t turns_unpolled; /* since doorbells were looked at */
	bool resting; /* only calls are served: until all contexts of a former process are there, or for good */
	bool is_mute; /* nothing is sent: what ends here goes on elsewhere */
	bool fault_stopped;
	uint64_t n_steps; /* of the engine, at the one that is a fault point */
};

/* NICs that stand for those of another process. Descriptors are borrowed. */
struct soft_identity {
	int table_fd, part_fd;
	unsigned int exec; /* of this process, on each NIC */
	int killed_pid;
};

/* As nic_soft_probe(), with executors in this process. identity NULL: random addresses. */
int soft_probe(const struct nic_soft_attr *attr, const struct soft_identity *identity, struct list *nics);

static inline struct soft_nic *soft_nic(struct nic *nic)
{
	return container_of(nic, struct soft_nic, base);
}

/*
 * The executor of this user for one more context, started when the user has none (soft-exec.c). -EUSERS: as many users as a NIC
 * can have. Each context puts it back.
 */
int soft_exec_get(struct soft_nic *nic, uint32_t uid, struct soft_exec **ret_exec);
/*
 * The same for a context of a former process, whose NIC page this is: the executor rests. Contexts with one page have one
 * executor. -EBUSY it is too late for that; -EXDEV the user's executor has another page, and neither is shared; -EBADF it is none.
 */
int soft_exec_adopt(struct soft_nic *nic, uint32_t uid, int page_fd, struct soft_exec **ret_exec);
/* Its context is gone. The last one leaves it to the next user, or ends it. */
void soft_exec_put(struct soft_exec *exec);
/* For each executor that there is, under the NIC's lock; and then, before any other can end, what those that ended had counted. */
void soft_execs_count(struct soft_nic *nic, void (*fn)(struct soft_exec *exec, void *sum), struct nic_counters *sum);
/* Reads the executor's counters for however long it takes. A thread that serves its user alone, while a context keeps the executor. */
void soft_exec_recount(struct soft_exec *exec);
/* The NIC's counters as last read: asks nobody. Any thread. */
void soft_counters_known(struct soft_nic *nic, struct nic_counters *ret_counters);
/* For each executor that there is, under the NIC's lock. */
void soft_execs_each(struct soft_nic *nic, void (*fn)(struct soft_exec *exec, void *arg), void *arg);
/* All contexts are gone: ends all of them. */
void soft_execs_stop(struct soft_nic *nic);
void soft_resume(struct nic *nic);
bool soft_rest(struct nic *nic);

/* The data thread (soft-thread.c). */
int soft_thread_start(struct soft_exec *exec);
int soft_thread_start_engine(struct soft_exec *exec);

/* The NIC page and what lies behind it (soft-page.c). */
struct soft_page {
	struct shmd_nic_page client; /* all that clients know of */
	uint8_t unused[960];
	uint32_t port_is_down;
	uint32_t is_shared; /* contexts of several users have it: a daemon without executors has made it */
};

int soft_page_make(struct soft_exec *exec);
/* One that a former process has saved; -EBADF. The port is down if it was. */
int soft_page_adopt(struct soft_exec *exec, int fd);
bool soft_page_is_shared(int fd); /* of a former process */
void soft_page_deinit(struct soft_exec *exec);

/* Engine's event sink and the queue behind next_event (soft-events.c). */
int soft_events_init(struct soft_events *events);
void soft_events_deinit(struct soft_events *events);
void soft_event(struct soft_exec *exec, const struct engine_event *ev);
void soft_event_port(struct soft_nic *nic, enum nic_port_state state);
int soft_next_event(struct nic *nic, struct nic_event *ret_event);

/* Down and up by request (soft-port.c). */
int soft_port_set(struct nic *nic, enum nic_port_state state);
bool soft_port_is_down(const struct soft_port *port);
/* Data thread: frees every packet that waits for the engine. */
void soft_thread_drop_packets(struct soft_exec *exec);

/* ---- the lock of a saved context (soft-lock.c) -------------------------------------------------------------------- */

#define SOFT_IMPORT_NSEC 2000000000u /* that imports of a process, or of all threads, wait for the processes of a former daemon */

/* A description of `fd` of its own, locked for writing: at most nsec until nobody else has it. -EBUSY, -EBADF. */
int soft_lock_take(int fd, uint64_t nsec, int *ret_fd);

/* ---- contexts (soft-ctx.c) ---------------------------------------------------------------------------------------- */

struct soft_ctx {
	struct nic_ctx base;
	struct soft_nic *nic;
	struct soft_exec *exec; /* counts this context */
	uint32_t pdn;
	struct nic_counters last; /* when they were last asked for; the caller's side */

	pthread_mutex_t list_lock; /* base.queues: a question looks a batch up while another thread makes one */

	/* the caller's side: one thread at a time */
	int ledger_fd; /* -1: it ends with the process */
	struct soft_map ledger_map;
	struct soft_agent *agent; /* owned reference; NULL: it has attached none */

	/* data thread */
	struct engine_ledger *ledger;
	struct doorbell_page page; /* its queues are struct soft_qp; silent once the context is quiesced */
	struct nic_counters past; /* of queues that are gone */
};

static inline struct soft_ctx *soft_ctx(struct nic_ctx *ctx)
{
	return container_of(ctx, struct soft_ctx, base);
}

int soft_ctx_open(struct nic *nic, const struct nic_ctx_attr *attr, struct nic_ctx **ret_ctx);
/* Empty; pdn 0: a new one. Puts back the executor when it goes, also when it could not be made. Closed by soft_ctx_close() once it was attached to the data thread, else freed. */
struct soft_ctx *soft_ctx_alloc(struct soft_exec *exec, const struct nic_ctx_attr *attr, uint32_t pdn);
struct soft_ctx *soft_ctx_free(struct soft_ctx *ctx);
/* Its pages are there. -EINVAL another context has its PD; or what the engine says of the ledger. */
int soft_ctx_attach(struct soft_ctx *ctx);
size_t soft_ledger_bytes(void);
struct nic_ctx *soft_ctx_close(struct nic_ctx *ctx);
int soft_ctx_counters(struct nic_ctx *ctx, struct nic_counters *ret_counters);
void soft_ctx_quiesce(struct nic_ctx *ctx, uint64_t timeout_nsec);

/* ---- memory regions (soft-mr.c) -------------------------------------------------------------------------------------- */

/* Memory the CPU reaches: every operation completes at once. */
extern const struct engine_mem_ops soft_mem_ops;

struct soft_mr {
	struct nic_mr base;
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
	struct doorbell_queue doorbell; /* in ctx->page */
	struct soft_queues *queues; /* NULL: not created */
	const struct nic_qp *desc; /* in the batch's layout */
	uint32_t *error; /* in the dbrec's line, SHMD_QP_ERROR_OFFSET: written here, never read */
	uint32_t told; /* what was written there */
	bool is_restored; /* and nobody has changed its state since */
	struct soft_cq *send_cq;
	struct soft_cq *recv_cq;
};

struct soft_queues {
	struct nic_queues base;
	struct soft_ctx *ctx;
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
void soft_dct_destroy(struct soft_exec *exec, uint32_t dctn);
int soft_resolve(struct nic_ctx *ctx, unsigned int n, const struct nic_addr *addrs, uint8_t traffic_class,
		 struct nic_dc_peer *ret_peers, unsigned int *ret_n_done);

/* Data thread. The QP of this context, or NULL. */
struct soft_qp *soft_qp_find(struct soft_ctx *ctx, uint32_t qpn);
/* Data thread: add what this QP has counted. */
void soft_qp_count(struct soft_qp *qp, struct nic_counters *sum);
/* Data thread: tell those who wait and have nothing on its way; 0 when it works again. The first reason stays. */
void soft_qp_tell_error(struct soft_qp *qp, uint32_t syndrome);
/* Data thread: one that is restored. Reports its error again, since the news may have died with the process. */
void soft_qp_learn_error(struct soft_qp *qp);
/* Contexts that outlive the process (soft-adopt.c). */
int soft_ctx_saved_fds(struct nic_ctx *ctx, struct nic_saved_fds *ret_saved);
int soft_ctx_export(struct nic_ctx *ctx, void **ret_part, size_t *ret_bytes);
int soft_mr_export(const struct nic_mr *mr, void **ret_part, size_t *ret_bytes);
int soft_queues_export(const struct nic_queues *queues, void **ret_part, size_t *ret_bytes);
int soft_ctx_import(struct nic *nic, const struct nic_import_attr *attr, struct nic_imported *ret_imported);
struct nic_ctx *soft_ctx_unimport(struct nic_ctx *ctx);

void soft_counters_add(struct nic_counters *sum, const struct engine_qp_counters *more);

#endif
