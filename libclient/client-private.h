/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of libshmemclient share.
 *
 * Ownership: a client owns its socket, its health page and, by lists, every NIC, memory object, MR and queue
 * batch made from it; shmd_client_close() frees what is left. A NIC is kept by a count of its MRs and batches.
 * Locks: client->lock guards the socket, the event queue, the dead state and the lists. It is never held while
 * a callback runs, and never taken in a forked child.
 */
#ifndef SHMEMD_CLIENT_PRIVATE_H
#define SHMEMD_CLIENT_PRIVATE_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include <shmemclient-admin.h>

#include "proto/base/cleanup.h"
#include "proto/base/fdlist.h"
#include "proto/base/list.h"
#include "proto/base/nsec.h"
#include "proto/base/page.h"
#include "proto/codec.h"

#define CLIENT_DEFAULT_TIMEOUT_NSEC (10 * NSEC_PER_SEC)
#define CLIENT_EVENTS_MAX 64u
#define CLIENT_TEXT_BYTES 512
#define ACCESS_REMOTE (SHMD_ACCESS_REMOTE_WRITE | SHMD_ACCESS_REMOTE_READ | SHMD_ACCESS_REMOTE_ATOMIC)

/* What NICs translate and the protocol counts in. The kernel's page may be larger: proto/base/page.h. */
#define PAGE_BYTES 4096u

/* Events that arrived and were not asked for yet: a ring of bounded size. */
struct event_entry {
	struct shmd_admin_event event;
	uint32_t nic; /* NIC index of the session */
};
struct event_queue {
	struct event_entry entries[CLIENT_EVENTS_MAX];
	unsigned int first, n;
	bool is_monitor; /* what does not fit stays in the socket, or is counted */
	uint32_t n_lost;
	int signal_fd; /* eventfd: readable while n is not 0 or the client is dead */
};

/* restart.c: how a client outlives the daemon. */
struct restart {
	int watch_fd; /* the socket that hangs up when the daemon dies; its number stays. -1: the connection ends then */
	int wake_fd; /* eventfd: the watcher looks again; -1 without watch_fd */
	uint64_t grace_nsec; /* atomic */
	uint32_t state; /* atomic: number of restarts, and whether the watcher gave up */
	bool is_away; /* atomic, for error texts: there is no daemon now */
	bool in_hello; /* lock held: the daemon may know the session already, and has not told us */
};

struct shmd_client {
	pid_t pid; /* the process that opened it */
	int sock;
	int epoll_fd; /* sock and events.signal_fd: what shmd_client_fd() gives */
	enum shmd_role role;
	uint64_t timeout_nsec;
	bool trace; /* SHMEMD_DEBUG=proto */
	pthread_mutex_t lock;

	uint64_t next_id;
	uint8_t *buf; /* one packet */
	int dead; /* 0, or the negative errno of every call from now on */
	char dead_text[CLIENT_TEXT_BYTES];
	struct event_queue events;
	struct restart restart;

	uint64_t session;
	struct msg_limits limits;
	char daemon[MSG_NAME_BYTES];
	struct shmd_health_page *health; /* NULL for SHMD_ROLE_CONTROL */
	pthread_t watcher;
	bool has_watcher;
	bool closing; /* atomic: tells the watcher that the hang-up is our own */

	struct list nics; /* shmd_nic.link */
	struct list mems; /* shmd_mem.link */
	struct list mrs; /* shmd_mr.link */
	struct list queues; /* shmd_queues.link */
	struct list dcts; /* shmd_dct.link */
	struct list gpus; /* shmd_gpu.link: the open ones */
	struct list gpu_pins; /* gpu_pin.link */
	struct list gpu_mems; /* shmd_gpu_mem.link */
};

struct shmd_nic {
	struct shmd_client *client;
	struct list link;
	bool is_auto; /* its doorbell mode was the daemon's to choose, and may change */
	bool fell_back; /* to mode cpu, which this process asked for. Under client->lock */
	pthread_mutex_t doorbell_lock; /* of the next five, which change together, and of mode and reason in info */
	struct shmd_nic_info info;
	void *page; /* the doorbell page */
	uint32_t register_offset;
	const struct shmd_nic_page *nic_page; /* or NULL */
	int wake_fd; /* or -1 */
	int command_fd; /* of the NIC's context, where shmemd handed it out; or -1 */
	uint32_t pd; /* the kernel's handle, for regions that this process registers itself */
	void *former_page; /* before the mode changed: queues of then may ring it; or NULL */
	unsigned int n_users; /* MRs, queue batches and DCTs */
};

struct shmd_mem {
	struct shmd_client *client;
	struct list link;
	void *addr;
	size_t bytes;
	int fd;
	bool is_adopted;
};

struct shmd_mr {
	struct shmd_nic *nic;
	struct list link;
	uint32_t handle;
	uint32_t lkey, rkey;
	struct shmd_mr_info info;
};

/* One request's worth of queues. */
struct queue_batch {
	uint32_t handle; /* the daemon's; 0 once destroyed */
	unsigned int first, n; /* QPs of the whole */
	void *mem;
	uint64_t mem_bytes;
	struct msg_qp_info *qps; /* n, owned */
	struct msg_cq_info *cqs; /* n send CQs, then n receive CQs if any; owned */
};

struct shmd_queues {
	struct shmd_nic *nic;
	struct list link;
	struct shmd_queues_attr attr; /* defaults filled in */
	unsigned int n_batches;
	struct queue_batch *batches;

	struct shmd_mem *scratch; /* result slots of every QP */
	struct shmd_mr *scratch_mr;
	void *dev; /* dev-state, then dev-qps, then slot words: one mapping */
	size_t dev_bytes;
	struct shmd_dev_state *dev_state;
	struct shmd_dev_qp *dev_qps;
	uint32_t *slot_busy;
	struct shmd_dev_peer *peers; /* owned; of the dev-state */
	struct shmd_hot *hot; /* owned; of DCIs whose peers may have QPs of their own */
	struct list gpu_views; /* gpu_view.queues_link */
};

/* A peer's own QP. */
struct hot_slot {
	struct shmd_queues *queues; /* NULL: free */
	uint32_t peer;
	bool is_connected, is_used;
};

struct shmd_hot {
	struct shmd_queues *dcis;
	uint32_t n_peers, sq_wqebbs, access;
	uint64_t min_posts;
	struct shmd_dev_route *routes; /* n_peers, owned: of the dev-state */
	unsigned int n_slots;
	struct hot_slot *slots; /* n_slots, owned */
	uint64_t *qps; /* room for n_slots, owned: hot_qps_addr of the dev-state */
};

struct shmd_dct {
	struct shmd_nic *nic;
	struct list link;
	uint32_t handle; /* of a batch of queues */
	struct shmd_addr addr;
};

/* ---- client.c */

/* Opens a session on a connected socket; takes sock in every case. */
int client_open_on_fd(int sock, const struct shmd_client_attr *attr, struct shmd_client **ret_client);
/* -EINVAL for NULL, -ECHILD in a forked child. Every public function with a client starts with it. */
int client_check(const struct shmd_client *client);
/* Lock held. The first reason stays. Returns the error. */
int client_die(struct shmd_client *client, int err, const char *text);
/* Set every health word that has no final value yet. Any thread. */
void client_set_health(struct shmd_health_page *page, uint32_t health);

/* -EAGAIN when another thread's request had it until the deadline (CLOCK_MONOTONIC). */
int client_lock_until(struct shmd_client *client, uint64_t deadline_nsec);

static inline void client_lock(struct shmd_client *client)
{
	pthread_mutex_lock(&client->lock);
}

static inline void client_unlock(struct shmd_client *client)
{
	pthread_mutex_unlock(&client->lock);
}

/* ---- watcher.c */

int watcher_start(struct shmd_client *client);
void watcher_stop(struct shmd_client *client); /* after shutdown of the socket */

/* ---- restart.c */

void restart_init(struct restart *restart); /* none is expected */
void restart_deinit(struct restart *restart); /* may be called twice */
/* Before Hello is answered a restart only means that it is to be said once more. */
void restart_expect(struct restart *restart);
void restart_none(struct restart *restart); /* Hello was answered: from here on they count */
/* What Hello brought; takes watch_fd in every case. Sets the error text. */
int restart_begin(struct restart *restart, int watch_fd, uint64_t grace_nsec);
/* The next daemon has taken over. Takes its socket out of fds. Lock held. 0, also when it comes too late; or the dead error. */
int restart_resume(struct shmd_client *client, const struct msg_resumed_event *news, struct fdlist *fds);
/* The rest: any thread. How often restart_resume() was called in time: */
unsigned int restart_count(const struct restart *restart);
/* The same and whether the watcher gave up, in one number that no two states share. */
uint32_t restart_state(const struct restart *restart);
/* From `seen` on no next daemon counts any more. False: one came in time. */
bool restart_give_up(struct restart *restart, uint32_t seen);
bool restart_gave_up(const struct restart *restart);
uint64_t restart_grace(const struct restart *restart);
bool restart_is_away(const struct restart *restart);
void restart_set_away(struct restart *restart, bool is_away);

/* ---- request.c */

/* One request and its reply. Zero, then request_init; request_deinit frees both messages and the descriptors. */
struct request {
	struct msg req;
	int fd; /* borrowed: the one descriptor that goes along, or -1 */
	enum msg_kind expect;
	unsigned int n_restarts; /* of the daemon, when it was sent last */
	struct msg rep;
	struct fdlist rep_fds;
};

void request_init(struct request *call, enum msg_kind kind, enum msg_kind expect);
void request_deinit(struct request *call);
#define _cleanup_request_ _cleanup_(request_deinit)

/* Sends call->req and waits for its reply of kind call->expect. Takes the lock. Sets the error text. */
int request_call(struct shmd_client *client, struct request *call);
/* MSG_MEM_DEREG_REQ or MSG_QUEUE_DESTROY_REQ, of what has this handle. */
int request_destroy(struct shmd_client *client, enum msg_kind kind, uint32_t handle);
/* request_call() with the lock held. */
int request_call_locked(struct shmd_client *client, struct request *call);
/* Reads what has arrived without waiting, events to the queue. Lock held. 0, or the dead error. */
int request_drain(struct shmd_client *client);
/* A descriptor of the reply: index as it came (from 0); -EPROTO, with text, when it is not there. */
int request_take_fd(struct request *call, uint32_t index);

/* ---- events.c */

void event_queue_push(struct event_queue *queue, const struct msg_event *event);
/* SHMD_EVENT_DAEMON_RESUMED. */
void event_queue_push_resumed(struct event_queue *queue, uint32_t n_restarts, const char *text);
/* A monitor's queue is full: the daemon may wait. */
bool event_queue_is_full(const struct event_queue *queue);
/* The next event with all that a monitor is told; as shmd_event_next. */
int event_next(struct shmd_client *client, uint64_t timeout_nsec, struct event_entry *ret_entry);
/* Makes signal_fd readable for ever. */
void event_queue_signal(struct event_queue *queue);

/* ---- nic.c */

/*
 * The page that came in mode uar-mmap is of no use here, `why` in words: mode cpu from now on, where the mode was the
 * daemon's to choose. Lock held. Else, and where the daemon refuses, an error with `why` in its text.
 */
int nic_to_cpu(struct shmd_nic *nic, const char *why);
/* Frees handle and mappings; the owner has checked that nobody uses them. */
void nic_free(struct shmd_nic *nic);

/* ---- memory.c, mr.c */

void mem_free(struct shmd_mem *mem);
int mem_fd_new(size_t bytes); /* a memfd of this size, full of zeros, sealed against growing and shrinking; or an error with text */
int mem_seal(int fd, int seals); /* adds seals that are missing; 0, or negative errno */
void mr_free(struct shmd_mr *mr);
/* As shmd_mr_reg(); `reason`: why the kind is not a better one, for shmemd's lists and shmd_mr_info(); or empty. */
int mr_reg(struct shmd_nic *nic, const struct shmd_mr_attr *attr, const char *reason, struct shmd_mr **ret_mr);
/* What the kernel has for memory of GPUs without dmabuf: a module's name, or NULL. A hint for people, not a decision. */
const char *mr_peer_module(void);

/* ---- hot.c */

/* Memory only: the QPs of peers are batches of their own in the client's list. NULL is allowed. */
void hot_free(struct shmd_hot *hot);

/* ---- gpu-hot.c. Lock held. */

/* Nothing is under way on any QP of the batch that did not fail, in any view. 0, or -EBUSY with text. */
int gpu_queues_idle(struct shmd_queues *queues);
/* Brings every view of the DCIs to what the set's slots say, also after one failed. The first error. */
int gpu_write_ways(struct shmd_hot *hot);
/* Adds what kernels counted to the set's routes, and begins again at 0 there. */
int gpu_take_counts(struct shmd_hot *hot);

/* ---- queues.c, connect.c, dev-state.c, dynamic.c */

/* As many as the daemon and a packet allow. */
unsigned int client_peers_per_request(const struct shmd_client *client);
/*
 * Tells the daemon, for its lists, how the peers of this NIC's DCIs go. 0, or the error of the request; _quietly for callers
 * that have done what they were asked for.
 */
int peers_tell(struct shmd_nic *nic);
void peers_tell_quietly(struct shmd_nic *nic);
/* As queues_free(). */
void dct_free(struct shmd_dct *dct);

/* Local things only: the daemon's end with the session or by shmd_queues_destroy(). Lock held, or closing. */
void queues_free(struct shmd_queues *queues);
/* The batch that holds QP i, which must be below n_qps, and the QP in it. */
const struct queue_batch *queues_batch_of(const struct shmd_queues *queues, unsigned int i);
const struct msg_qp_info *queues_qp(const struct shmd_queues *queues, unsigned int i);
/* -EINVAL with text when queues is NULL or has no QP i; -ECHILD. */
int queues_check(const struct shmd_queues *queues, unsigned int i);

/* Makes scratch memory, dev-state and dev-qps once all batches are there. */
int dev_state_init(struct shmd_queues *queues);
/* Deregisters and frees the scratch memory. 0, or the daemon's error. */
int dev_state_release_scratch(struct shmd_queues *queues);
/* Unmaps what dev_state_init mapped. */
void dev_state_deinit(struct shmd_queues *queues);
/* After a QP went to RST: indexes, dbrec, CQ and slots as new. */
void dev_state_reset_qp(struct shmd_queues *queues, unsigned int i);

/* ---- gpu.c, gpu-range.c, gpu-view.c, gpu-mem.c. Lock held, or the client is closing. */

/* Before a host range is unmapped: no GPU sees it any more. Nothing happens when none did. */
void gpu_forget_range(struct shmd_client *client, const void *addr);
/* The same for all that queues own, and their views on GPUs. */
void gpu_forget_queues(struct shmd_queues *queues);
/* Around dev_state_reset_qp: what GPUs consumed comes here; the QP is as new in their views too. */
int gpu_before_reset(struct shmd_queues *queues, unsigned int i);
int gpu_after_reset(struct shmd_queues *queues, unsigned int i);
void gpu_close_all(struct shmd_client *client);
/* What is left of them when the client closes, before its GPUs: local things only. */
void gpu_mem_free_all(struct shmd_client *client);

/* ---- admin-control.c */

/* Copies a NIC's name into a request: -EINVAL, with text, for NULL and what is no name. */
int admin_set_nic(char name[MSG_NAME_BYTES], const char *nic);

/* ---- text.c */

/* Sets this thread's error text and returns err. */
int text_fail(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The daemon refused: sentence of the status, then its own words. Returns the negative errno. */
int text_fail_status(uint32_t status, const char *text);

/* The socket is not there or nobody listens on it; or it is there for others. Return err. */
int fail_not_running(int err, const char *path);
int fail_not_socket(int err, const char *path);
int fail_not_allowed(int err, const char *path);
/* Copies a string, cut where it does not fit; always terminated. */
void text_copy(char *dst, size_t size, const char *src);

/* ---- trace.c */

bool trace_is_wanted(void);
void trace_message(const char *arrow, const struct msg *msg, const int *fds, unsigned int n_fds);

/* ---- time, in hooks.c */

/* Waits until fd has one of `events` or the deadline passes. 0; -EAGAIN when it passed; negative errno. */
int wait_fd(int fd, short events, uint64_t deadline_nsec);

#endif
