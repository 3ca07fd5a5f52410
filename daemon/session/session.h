/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client: its connection, its identity, and everything the daemon holds for it.
 *
 * A session exists from accept on. Before Hello it may do nothing; a controller's session owns nothing and is never
 * listed. session_end marks it ended and may be called from inside a handler. A session is torn down by session_free, or by
 * session_release once no worker uses it; where its NICs block, a worker does their part.
 */
#ifndef SHMEMD_SESSION_H
#define SHMEMD_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/nic/nic.h"
#include "daemon/session/connection.h"
#include "daemon/session/identity.h"
#include "daemon/session/save.h"
#include "daemon/session/quota.h"
#include "daemon/porter/words.h"
#include "daemon/session/registry.h"
#include "daemon/session/resource.h"
#include "proto/base/hash.h"
#include "proto/base/list.h"
#include "proto/base/cleanup.h"
#include "proto/codec.h"
#include "proto/status.h"

#define SESSION_MAX_NICS REGISTRY_MAX_NICS
#define SESSION_MAX_PES 64

#define SESSION_CONNECTION_FDS 2 /* of any connection: socket, pidfd */

/* Most mappings that the daemon has for one of each; of a context: struct nic.maps_per_ctx. */
#define SESSION_MAPS 1 /* health page, while no porter writes it */
#define SESSION_MR_MAPS 1
#define SESSION_QUEUES_MAPS 1

/* One NIC of a session: the isolation boundary. */
struct session_nic {
	struct session *session;
	struct registry_nic *rnic;
	struct nic_ctx *ctx; /* owned */
	unsigned int index; /* in the session */
	bool is_counted; /* in rnic->n_sessions */
	char gpu[REGISTRY_GPU_BYTES]; /* it was opened for, normal form; "": none */
	enum nic_doorbell_mode doorbell; /* taken: the context's own is its worker's */
	bool fell_back; /* to mode cpu, by its client's request */
	bool told_memory; /* the log has its first region with a reason */
	uint32_t n_dc_peers, n_rc_peers; /* as the client said last */
	char doorbell_reason[MSG_TEXT_BYTES]; /* why not a better one; or empty */
	struct hash qps, cqs; /* struct session_queues by number: a request may name hundreds of many thousands */
	struct quota_charge charge;
	bool has_agent; /* a memory agent serves it */
	struct quota_charge agent_charge; /* of its ring */
	/* The saved part, where the session outlives the daemon. */
	void *record; /* owned; result of ctx_export(), set by the thread that uses the context */
	size_t record_bytes;
	uint64_t parts_bytes; /* of what is in the context: the rest of its record */
	int record_r; /* why there is none, when there should be */
	unsigned int n_saved; /* descriptors of the context that are saved */
	struct nic_counters last; /* of the context, as it was closed */
};

struct session_mr {
	struct resource head;
	struct session_nic *nic;
	struct nic_mr *mr; /* owned */
	struct held *held; /* owned: a porter holds the memory for as long as the NIC uses it; NULL: a memfd, or none */
	enum nic_mem_kind kind;
	uint64_t iova, length_bytes;
	uint32_t access;
	char reason[MSG_MEM_REASON_BYTES]; /* why its client took no better kind; or empty */
	uint32_t memory; /* number of the name under which it outlives the daemon; 0: none does */
};

/* Last known state of a QP, without asking its NIC. */
struct session_qp {
	enum nic_qp_state state;
	uint32_t dest_qpn;
	uint32_t first_error;
};

struct session_queues {
	struct resource head;
	struct session_nic *nic;
	struct nic_queues *queues; /* owned */
	struct held *held; /* owned: of its memory, as that of a region */
	struct session_qp *qps; /* owned; as the layout has them */
	uint32_t first_qpn, n_qps, n_dcis, n_dcts; /* 0 until the batch is complete */
	bool leaving; /* a worker destroys it: no other thread reads `queues` */
	struct list changed_link; /* session_saved.changed_queues, since its QPs were saved */
	void *part; /* owned; result of queues_export(), set by the thread that uses the context; until it is saved */
	size_t part_bytes;
	int part_r; /* as session_nic.record_r */
};

/* A PE of a world as its client describes it, for lists: nothing else reads it. */
struct session_pe {
	uint32_t slot; /* in session.pes */
	uint64_t world, heap_bytes;
	uint32_t pe, n_pes, node, node_pe;
	uint32_t n_mapped, n_rc, n_dc;
	char reason[MSG_PE_REASON_BYTES];
	unsigned int n_ways, n_runs;
	struct msg_pe_way ways[MSG_MAX_PE_WAYS];
	struct msg_pe_run runs[MSG_MAX_PE_RUNS]; /* ascending; their `way` is below n_ways */
	struct msg_pe_gpu gpu;
};

/* Whether runs ascend in a world of n_pes PEs, and name ways that there are. */
bool session_pe_runs_fit(const struct msg_pe_run *runs, unsigned int n_runs, unsigned int n_ways, uint32_t n_pes);

struct request;

/* A porter has read it; it waits for the session's turn, as packets in the socket do. */
struct session_packet {
	int r;
	size_t bytes;
	struct fdlist fds; /* owned */
	uint8_t data[];
};

struct session {
	struct registry *registry;
	struct list link; /* registry->sessions */
	void *owner; /* of the owner that watches the connection */
	uint64_t id;
	uint64_t started_nsec;
	struct identity identity;
	struct connection connection;
	struct quota_user user;
	struct quota_charge connection_charge; /* since accept */
	bool has_admin_place; /* passes the limits; for controllers only */
	enum quota_what admin_limit; /* has_admin_place: the limit that it passes */
	struct quota_charge session_charge; /* since Hello, clients only */

	uint32_t version; /* of the protocol; 0 before Hello */
	enum msg_role role;
	char library[MSG_NAME_BYTES];

	struct request *hello; /* owned: its porter does not have the socket yet; NULL: it does not wait for that */
	void (*hello_go_on)(struct session *session); /* carries it out; the session may be gone after it */
	bool is_reading; /* that, or its porter reads a packet: until that is carried out no other is read */
	struct session_packet *packet; /* owned: it is here, and waits for session_readable(); or NULL */
	bool ended;
	bool gone; /* the client hung up or died, or does not read, so nothing waits for it */
	enum shmd_status end_status;
	char end_text[MSG_TEXT_BYTES]; /* why, for monitors; empty: the client went */

	struct list monitor_link; /* registry->monitors, when it is one */
	uint32_t n_dropped; /* events a slow monitor has lost since the last report */

	/*
	 * A worker uses its contexts, for a request or another purpose, one at a time: until that is over no packet of it
	 * is read and nothing of it is freed.
	 */
	bool busy;
	bool wants_look; /* one of its contexts has news; looked at when it is not busy */
	bool is_counted; /* the look asks for the counters, too */
	bool released; /* freed when it is not busy */
	bool contexts_closed; /* of the teardown: the rest needs no NIC */
	struct list hold_link; /* struct request.held, while it is busy for another session's request */
	struct work work; /* look, teardown */
	uint64_t quiesce_nsec; /* of the teardown: most that it may wait; 0: not at all */
	struct nic_counters counters; /* as asked for last */
	struct nic_counters fresh_counters; /* of the look, until it is over */

	bool is_watched; /* since Hello: the client has a socket to watch, and goes on with the next daemon. Others end with this one */
	unsigned int n_watches; /* pairs that were made for the client */
	int watch_fds[2]; /* owned: this process's ends of the pairs that the client watches; -1: none. The second is the newest of further ones */
	int health_fd; /* owned; -1 before Hello */
	bool has_page; /* false before Hello, and once teardown has begun */
	struct words words; /* of the page: not written yet */
	bool is_telling; /* its porter writes */
	uint64_t told_down; /* bits: NICs whose words may say something else than OK */
	bool told_end; /* the page says that the session has ended, or its writer will */
	struct health_write *health_write; /* a worker writes; NULL: none does */
	/* session_release(), for health.c, which is below it. NULL while an import may still free the session. */
	void (*release)(struct session *session);

	unsigned int n_nics;
	struct session_nic *nics[SESSION_MAX_NICS]; /* owned */
	struct resource_table resources;
	struct list published; /* struct publish_entry.owner_link */
	uint32_t n_published;
	struct session_pe *pes[SESSION_MAX_PES]; /* owned; NULL: this one is free */
	struct session_saved saved;
};

/* Without a connection, for session_new and session_import. NULL: no memory. */
struct session *session_alloc(struct registry *registry);
/*
 * Takes `sock` in any case. -EDQUOT: the user has too many connections (the client got the reason);
 * -ESRCH: the client is gone already; or another negative errno.
 */
int session_new(struct registry *registry, int sock, struct session **ret_session);
/* Fixed-order teardown by the calling thread. NULL allowed; right for half-built sessions; not for busy ones. */
struct session *session_free(struct session *session);
DEFINE_CLEANUP(struct session *, session_free);
/* The same when no worker is busy with it, by one of them where it may block. It has no owner any more. NULL allowed. */
void session_release(struct session *session);

/* The socket has something to read, or hung up; or session_has_packet(). Handles a bounded number of packets. */
void session_readable(struct session *session);
bool session_has_packet(const struct session *session); /* a porter has read one: this is not to be seen at the socket */
void session_packet_free(struct session *session); /* for teardown */
void session_writable(struct session *session);
/*
 * From here on the client may send descriptors, for a porter to read; nothing to do where it may already. -EINPROGRESS: when its porter
 * has the socket; a Hello that waits for that is then carried out. Another negative errno: there is no porter.
 */
int session_let_send_fds(struct session *session);
/*
 * The daemon's own descriptor, which the client gets: its porter keeps it open until the session has ended. is_lasting: the daemon
 * keeps it as well. 0 or negative errno.
 */
int session_attach(struct session *session, int fd, bool is_lasting);
/* The same for what a context has whose last close may wait for the client. */
int session_attach_ctx(struct session *session, struct nic_ctx *ctx);
bool session_flush(struct session *session); /* false: it has ended */
void session_call_attention(struct session *session);
/* A worker uses its contexts, or its porter reads a packet that may want one to. */
bool session_is_busy(const struct session *session);
bool session_wants_read(const struct session *session);
bool session_wants_write(const struct session *session);
/* Takes the socket: of a session that has none. */
void session_take_socket(struct session *session, int sock);
/* The service manager is busy and has not got all of it: a session that is saved ends with a daemon that dies now. */
bool session_waits_for_manager(const struct session *session);
/* If the manager did not get something that was to reach it later, the session is kept no more. */
void session_look_for_lost(struct session *session);
bool session_stalled(const struct session *session); /* call session_writable after a while, not at once */

/*
 * Ends the session: sets health words, tells the client, calls the owner for attention. Later calls
 * change nothing. The session stays valid until session_free or session_release.
 */
void session_end(struct session *session, enum shmd_status status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The client's process or its socket is gone, so there is no client to notify. */
void session_end_gone(struct session *session);

/* Send a message, with descriptors or NULL. A client that lets too much wait is ended. */
void session_send(struct session *session, struct msg *msg, const struct fdlist *fds);

/* The same for a message that is encoded already; *msg is for the trace. */
void session_send_packet(struct session *session, const struct msg *msg, const void *packet, size_t bytes,
			 const struct fdlist *fds);

/* ---- lookup -------------------------------------------------------------------------------------------------------- */

/* A client that said Hello. */
static inline bool session_is_listed(const struct session *session)
{
	return session->version != 0 && session->role == MSG_ROLE_CLIENT && !session->ended;
}
bool session_is_admin(const struct session *session); /* root or the daemon's user */
bool session_may_see(const struct session *session, uint32_t uid); /* what belongs to that user */

struct session_nic *session_nic_by_index(struct session *session, uint32_t index); /* or NULL */
struct session_nic *session_nic_by_rnic(struct session *session, const struct registry_nic *rnic);
/* Do this session's queues on the NIC have this number? */
bool session_nic_has_qpn(const struct session_nic *nic, uint32_t qpn);
/* The batch of a QP, and the QP's index in it. NULL: the session has none of this number. May cost a walk over the batch. */
struct session_queues *session_nic_find_qp(const struct session_nic *nic, uint32_t qpn, uint32_t *ret_index);
const struct nic_qp *session_nic_qp(const struct session_nic *nic, uint32_t qpn);
bool session_nic_has_cqn(const struct session_nic *nic, uint32_t cqn);
int session_counters(struct session *session, struct nic_counters *ret_counters);

/* ---- session-work.c: workers and their sessions ------------------------------------------------------------------ */

/* Carries out deferred things: its teardown, a look, or packets. The session may be gone here. */
void session_go_on(struct session *session);
/* From here to session_let_go a worker may use its contexts. It is not busy yet. */
void session_take(struct session *session);
void session_let_go(struct session *session); /* the session may be gone here */
/* A NIC has news of one of its contexts; that NIC reports what the look finds. */
void session_look(struct session *session);

/* ---- health.c ------------------------------------------------------------------------------------------------------ */

int session_make_health(int *ret_fd);
void session_have_page(struct session *session, int fd); /* takes it: one that is there already */
void session_health_end(struct session *session); /* every word: the session has ended */
/* The word of one NIC follows its port: down, active again, lost for good. */
void session_health_port(struct session *session, const struct session_nic *nic, enum nic_port_state state);
bool session_health_is_busy(const struct session *session); /* somebody writes; session->release() follows */
void session_health_told(struct session *session, const struct words *unwritten); /* as porter_told_fn */
/* The loop has ended, so reports of porters do not come any more: nothing waits for them. */
void registry_leave_porters(struct registry *registry);

/* ---- saved state: save.h; nothing where nothing is saved -------------------------------------------------------------- */

static inline bool session_is_saved(const struct session *session) /* it outlives the daemon */
{
	return session->saved.state;
}
void session_save(struct session *session, enum save_kind kind, void *object, int fd);
void session_unsave(struct session *session, enum save_kind kind, void *object);
void session_save_ending(struct session *session);

/* ---- clients that outlive the daemon ------------------------------------------------------------------------------- */

/* Would a session whose client can go on with another daemon outlive this one? */
bool session_may_resume(const struct registry *registry);
/* Its own share of the quota, from Hello to its end. */
struct quota_amount session_own_amount(const struct session *session);
/*
 * A new pair of sockets. One end is the caller's, for the client; this process alone holds the other, so that it hangs up when
 * the daemon dies. Negative errno: nothing has changed.
 */
int session_make_watch(struct session *session);
/*
 * For a session taken over from a daemon that died: a pair and the news. Nothing for a client that is not watched. A session
 * whose pair cannot be made ends: its client would give up by itself, without a reason.
 */
void session_tell_resumed(struct session *session);

/* ---- session-teardown.c: single resources ------------------------------------------------------------------------- */

/* Frees the session's part of one, and its quota; the NIC's part is gone already, or never was. NULL allowed. */
struct session_mr *session_mr_free(struct session *session, struct session_mr *mr);
struct session_queues *session_queues_free(struct session *session, struct session_queues *queues);
struct session_nic *session_nic_free(struct session_nic *nic);
DEFINE_CLEANUP(struct session_nic *, session_nic_free);
/* Counts a batch, here and in its NIC's sums; the QP cache has its QPs as new. */
void session_queues_count(struct session_queues *queues);
/* Make the numbers of a batch known; after hash_reserve() only -EEXIST can be, which no NIC that is right brings about. Or forget them. */
int session_queues_add_numbers(struct session_queues *queues);
void session_queues_remove_numbers(struct session_queues *queues);

#endif
