/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the daemon: soft NICs whose executors are in processes of their own, one process for each user. Objects here are heads of
 * nic.h with the names that the process has for them; each operation is a packet and its answer.
 *
 * A process is called a host here: it is where executors live. It has every NIC of the daemon, and ends with its user's last context
 * and a while later. When it dies its contexts have lost their NIC; others do not notice, and the user's next context starts
 * another one.
 */
#ifndef SHMEMD_NIC_SOFT_REMOTE_H
#define SHMEMD_NIC_SOFT_REMOTE_H

#include <pthread.h>

#include "daemon/nic/soft/remote/remote-wire.h"
#include "daemon/nic/soft/soft.h"

#define REMOTE_TRIES 3u /* hosts that end just when they get a context */

struct remote;
struct remote_host;
struct remote_nic;

/* One end of a socket pair. */
struct remote_channel {
	pthread_mutex_t lock; /* one question or work at a time */
	int sock; /* owned */
	pthread_mutex_t send_lock; /* of the next two. Never held while somebody waits for an answer */
	uint32_t seq; /* of the last one that was sent */
	uint32_t n_owed; /* answers that nobody waits for: to questions that were given up, and to remote_tell() */
	uint64_t owed_nsec; /* how long somebody had waited for the last one of these */
};

/* A host on a NIC. */
struct remote_link {
	struct remote_host *host;
	struct remote_nic *nic;
	struct list link; /* nic->links; in no list before the first context */
	int events; /* owned; -1: none yet, or no more */
	struct list ctxs; /* struct remote_ctx.link; under remote->lock */
	uint32_t n_ctxs; /* the same */
	struct nic_counters last; /* the same; never falls */
};

struct remote_host {
	struct remote *all;
	uint32_t uid;
	struct list link; /* all->hosts while it lives */
	uint32_t refs; /* under all->lock: of that list, of contexts, and of who uses it now */
	bool is_dead; /* atomic; changes under all->lock */
	unsigned int seat; /* of all->seats, and the number of its executor on each NIC */
	int peers, want_fd; /* owned: news of the exchange to it, and wishes from it; under all->lock */
	int pidfd; /* owned; -1: none yet, or the kernel has none; under all->lock */
	uint32_t n_tokens; /* of the exchange's thread: wishes that it may still have */
	uint64_t tokens_at_nsec;
	pthread_mutex_t start_lock; /* of the next four, and of the start of links */
	int asks_theirs, peers_theirs; /* owned, until it starts */
	bool was_started;
	bool was_shown; /* others see it; under all->lock */
	int start_result;
	struct remote_channel works, asks;
	uint64_t import_nsec; /* how long imports may still wait for the former process; under works.lock */
	struct remote_link links[]; /* one for each NIC */
};

/* A place for one host after the other. Under all->lock. */
struct remote_seat {
	struct remote_host *host; /* NULL: none that lives */
	int pidfd; /* owned: of the last one, which may not have ended yet; -1: it has */
	int part_fd; /* owned; -1: never used */
};

struct remote_nic {
	struct nic base;
	struct remote *all;
	unsigned int index;
	struct nic *face; /* owned: a soft NIC without executors, for the address, the port and its events */

	/* under all->lock */
	struct list links; /* struct remote_link.link */
	bool was_started, is_open; /* as in struct soft_nic */
	struct nic_counters past; /* of hosts that have gone */
	uint32_t n_mrs; /* atomic */
};

/* All NICs of one probe. */
struct remote {
	struct nic_soft_attr attr; /* its fault is the copy below */
	char fault[REMOTE_FAULT_BYTES];
	unsigned int n_nics, n_open;
	struct remote_nic *nics[REMOTE_MAX_NICS];
	struct soft_shared *table; /* of the faces */
	pthread_mutex_t lock;
	struct list hosts; /* struct remote_host.link, under lock */
	struct remote_seat seats[SOFT_MAX_EXECS];
	/* The exchange; under lock until its thread has started. */
	bool has_exchange, is_over; /* is_over: atomic */
	pthread_t exchange;
	int exchange_epoll; /* owned, of want_fds by seat, and of the next one */
	int exchange_stop; /* owned eventfd */
};

struct remote_ctx {
	struct nic_ctx base;
	struct remote_nic *nic;
	struct remote_host *host; /* owned reference */
	struct list link; /* of the host on that NIC */
	uint64_t id;
	uint32_t pdn;
	bool is_lost; /* under all->lock: the event is out */
	struct nic_counters last; /* when they were last asked for */
	struct nic_counters past; /* of queues that are gone */
	bool has_agent; /* it cannot outlive the daemon */
	int fds[REMOTE_N_FDS]; /* owned */
};

struct remote_mr {
	struct nic_mr base;
	uint64_t id;
	struct nic_mr_attr attr; /* its fd is gone */
};

struct remote_queues {
	struct nic_queues base;
	uint64_t id;
	uint64_t mem_offset; /* its numbers are taken while it is here, also if its host has died */
};

static inline struct remote_nic *remote_nic(struct nic *nic)
{
	return container_of(nic, struct remote_nic, base);
}

static inline struct remote_ctx *remote_ctx(const struct nic_ctx *ctx)
{
	return container_of(ctx, struct remote_ctx, base);
}

static inline struct remote_link *remote_link_of(struct remote_host *host, const struct remote_nic *nic)
{
	return &host->links[nic->index];
}

/* ---- hosts (remote-life.c, remote-host.c) -------------------------------------------------------------------------------------------------- */

/*
 * The host of this user, started if there is none, ready for contexts on this NIC. The caller puts it. Waits for a new process; -ENOMEM
 * it does not come; -EUSERS nobody starts one. -ENODEV it has just died.
 */
int remote_host_get(struct remote_nic *nic, uint32_t uid, struct remote_host **ret_host);
void remote_host_ref(struct remote_host *host); /* under all->lock */
void remote_host_put(struct remote_host *host);
void remote_host_put_locked(struct remote_host *host);
bool remote_host_is_dead(const struct remote_host *host);
/* From here on its requests fail and its contexts are lost. Under all->lock; any number of times. */
void remote_host_die(struct remote_host *host);
/* Hosts with contexts on this NIC, or all if NULL; each to be put. Returns how many. */
unsigned int remote_hosts(struct remote *all, const struct remote_nic *nic, struct remote_host *ret_hosts[SOFT_MAX_EXECS]);
int remote_channel_init(struct remote_channel *channel, int sock);
void remote_channel_deinit(struct remote_channel *channel);
/* All contexts have gone. */
void remote_hosts_end(struct remote *all);
/* Takes what this host has counted on this NIC. */
void remote_link_count(struct remote_link *link, const struct nic_counters *counters);

/* ---- seats and channels (remote-exchange.c); under all->lock ------------------------------------------------------------------------ */

void remote_seats_init(struct remote *all);
void remote_seats_deinit(struct remote *all);
/* -EUSERS: all are taken. */
int remote_seat_take(struct remote_host *host);
/* It has started: others see it, and it may wish for channels. */
int remote_seat_open(struct remote_host *host);
/* It lives no more, or its packets make no sense: others see that, and it is killed. */
void remote_seat_leave(struct remote_host *host);
/* Not under the lock: ends the thread. */
void remote_exchange_stop(struct remote *all);

static inline struct soft_shared_port *remote_port(const struct remote_nic *nic)
{
	return &nic->all->table->ports[nic->index];
}

/* ---- calls (remote-call.c) --------------------------------------------------------------------------------------------------- */

struct remote_request {
	struct remote_head head;
	const void *body; /* borrowed: head.bytes */
	unsigned int n_fds;
	const int *fds;
};

/* A work: waits as long as it takes. The result, or -ENODEV: the host has died. The caller deinitializes *ret_answer if it is not negative. */
int remote_call(struct remote_host *host, const struct remote_request *request, struct remote_packet *ret_answer);
/* The same under works.lock, for several works that belong together. */
int remote_call_locked(struct remote_host *host, const struct remote_request *request, struct remote_packet *ret_answer);
/* Does the host say 0 or an error here? */
static inline bool remote_is_result(int32_t result)
{
	return result <= 0 && result >= -4095;
}
/* A question: waits at most nsec. -EBUSY: no answer; then nobody waits as long, or less, again before it has come. */
int remote_ask(struct remote_host *host, const struct remote_request *request, uint64_t nsec, struct remote_packet *ret_answer);
/* A request whose answer is dropped. Waits for other questions only. */
void remote_tell(struct remote_host *host, const struct remote_request *request);

/* ---- operations ---------------------------------------------------------------------------------------------------------------- */

int remote_ctx_open(struct nic *nic, const struct nic_ctx_attr *attr, struct nic_ctx **ret_ctx);
struct nic_ctx *remote_ctx_close(struct nic_ctx *ctx);
void remote_ctx_quiesce(struct nic_ctx *ctx, uint64_t timeout_nsec);
int remote_ctx_counters(struct nic_ctx *ctx, struct nic_counters *ret_counters);
/* A question about a context, within its patience and the control thread's budget. */
int remote_ctx_ask(struct remote_ctx *ctx, struct remote_head head, size_t bytes, struct remote_packet *ret_answer);
int remote_ctx_call(struct remote_ctx *ctx, struct remote_request *request, struct remote_packet *ret_answer);
/* Takes a reference to the host, and the descriptors of the answer. -ENODEV: the host has died. */
int remote_ctx_new(struct remote_nic *nic, struct remote_host *host, const struct nic_ctx_attr *attr, struct remote_packet *answer,
		   struct remote_ctx **ret_ctx);
/* On the daemon's side alone. */
struct remote_ctx *remote_ctx_free(struct remote_ctx *ctx);

int remote_agent_attach(struct nic_ctx *ctx, int ring_fd, int wake_fd);
int remote_mr_reg(struct nic_ctx *ctx, const struct nic_mr_attr *attr, struct nic_mr **ret_mr);
struct nic_mr *remote_mr_dereg(struct nic_mr *mr);
/* remote-numbers.c */
int remote_mr_count(struct remote_nic *nic); /* one more: -ENOSPC */
void remote_mr_uncount(struct remote_nic *nic);
void remote_mr_free(struct remote_mr *mr);
void remote_queues_free(struct remote_queues *queues);
int remote_mr_add(struct remote_ctx *ctx, const struct nic_mr_attr *attr, uint64_t id, uint32_t key, struct nic_mr **ret_mr);
int remote_queues_create(struct nic_ctx *ctx, const struct nic_queue_mem *mem, struct nic_layout *layout,
			 struct nic_queues **ret_queues);
/* Numbers for all of a batch: new ones, which the layout gets, or those that it has. -ENOSPC; -EINVAL another has one of them. */
int remote_numbers_take(const struct remote_ctx *ctx, struct nic_layout *layout);
int remote_numbers_reserve(const struct remote_nic *nic, const struct remote_host *host, const struct nic_layout *layout);
void remote_numbers_drop(const struct remote_nic *nic, const struct remote_host *host, const struct nic_layout *layout);
/* Takes *layout with its numbers and clears it, if it succeeds. */
int remote_queues_add(struct remote_ctx *ctx, uint64_t id, uint64_t mem_offset, struct nic_layout *layout,
		      struct nic_queues **ret_queues);
int remote_queues_destroy(struct nic_queues *queues);
int remote_queues_read(struct nic_queues *queues, uint64_t offset, void *buf, size_t bytes);
int remote_connect(struct nic_ctx *ctx, unsigned int n, const struct nic_peer *peers, const struct nic_qp_params *params,
		   unsigned int *ret_n_done);
int remote_resolve(struct nic_ctx *ctx, unsigned int n, const struct nic_addr *addrs, uint8_t traffic_class,
		   struct nic_dc_peer *ret_peers, unsigned int *ret_n_done);
int remote_qp_modify(struct nic_ctx *ctx, uint32_t qpn, enum nic_qp_state state);
int remote_qp_query(struct nic_ctx *ctx, uint32_t qpn, struct nic_qp_info *ret_info);

int remote_ctx_saved_fds(struct nic_ctx *ctx, struct nic_saved_fds *ret_saved);
int remote_ctx_export(struct nic_ctx *ctx, void **ret_part, size_t *ret_bytes);
int remote_mr_export(const struct nic_mr *mr, void **ret_part, size_t *ret_bytes);
int remote_queues_export(const struct nic_queues *queues, void **ret_part, size_t *ret_bytes);
int remote_ctx_import(struct nic *nic, const struct nic_import_attr *attr, struct nic_imported *ret_imported);
struct nic_ctx *remote_ctx_unimport(struct nic_ctx *ctx);

/* ---- NICs (remote-nic.c) --------------------------------------------------------------------------------------------------------- */

/* Each soft NIC of *faces, which have no executors, becomes the face of a NIC that is appended to *nics. Takes them in any case. */
int remote_wrap(const struct nic_soft_attr *attr, struct list *faces, struct list *nics);

#endif
