/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client: its connection, its identity, and everything the daemon holds for it.
 *
 * A session exists from accept on. Before Hello it may do nothing; a controller's session owns nothing and is never
 * listed. session_end marks it ended and may be called from anywhere; only session_free, called from the loop,
 * tears it down.
 */
#ifndef SHMEMD_SESSION_H
#define SHMEMD_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/nic/nic.h"
#include "daemon/session/connection.h"
#include "daemon/session/identity.h"
#include "daemon/session/quota.h"
#include "daemon/session/registry.h"
#include "daemon/session/resource.h"
#include "proto/base/hash.h"
#include "proto/base/list.h"
#include "proto/base/cleanup.h"
#include "proto/codec.h"
#include "proto/status.h"

#define SESSION_MAX_NICS REGISTRY_MAX_NICS

/* One NIC of a session: the isolation boundary. */
struct session_nic {
	struct registry_nic *rnic;
	struct nic_ctx *ctx; /* owned */
	unsigned int index; /* in the session */
	struct hash qps, cqs; /* struct session_queues by number: a request may name hundreds of many thousands */
	struct quota_charge charge;
};

struct session_mr {
	struct resource head;
	struct session_nic *nic;
	struct nic_mr *mr; /* owned */
	enum nic_mem_kind kind;
	uint64_t iova, length_bytes;
	uint32_t access;
};

struct session_queues {
	struct resource head;
	struct session_nic *nic;
	struct nic_queues *queues; /* owned */
	uint32_t n_dcis, n_dcts;
};

struct session {
	struct registry *registry;
	struct list link; /* registry->sessions */
	void *owner; /* of whoever watches the connection */
	uint64_t id;
	uint64_t started_nsec;
	struct identity identity;
	struct connection connection;
	struct quota_user user;
	struct quota_charge connection_charge; /* since accept */
	struct quota_charge session_charge; /* since Hello, clients only */

	uint32_t version; /* of the protocol; 0 before Hello */
	enum msg_role role;
	char library[MSG_NAME_BYTES];

	bool ended;
	bool gone; /* the client hung up or died, or does not read: nobody waits for anything of it */
	enum shmd_status end_status;
	char end_text[MSG_TEXT_BYTES]; /* why, for monitors; empty: the client went */

	struct list monitor_link; /* registry->monitors, when it is one */
	uint32_t n_dropped; /* events a slow monitor has lost since it was told last */

	int health_fd; /* owned; -1 before Hello */
	struct shmd_health_page *health; /* mapped; NULL before Hello */

	unsigned int n_nics;
	struct session_nic *nics[SESSION_MAX_NICS]; /* owned */
	struct resource_table resources;
	struct list published; /* struct publish_entry.owner_link */
	uint32_t n_published;
};

/*
 * Takes `sock` in any case. -EDQUOT: the user has too many connections (the client has been told);
 * -ESRCH: the client is gone already; or another negative errno.
 */
int session_new(struct registry *registry, int sock, struct session **ret_session);
/* Fixed-order teardown. NULL allowed; right for half-built sessions. */
struct session *session_free(struct session *session);
DEFINE_CLEANUP(struct session *, session_free);

/* The socket has something to read, or hung up. Handles a bounded number of packets. */
void session_readable(struct session *session);
void session_writable(struct session *session);
bool session_wants_write(const struct session *session);
bool session_stalled(const struct session *session); /* call session_writable after a while, not at once */

/*
 * The session is over: health words are set, the client is told, the owner is called for attention. Later calls
 * change nothing. The session stays valid until session_free.
 */
void session_end(struct session *session, enum shmd_status status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The client's process or its socket is gone: nobody to tell. */
void session_end_gone(struct session *session);

/* Send a message, with descriptors or NULL. A client that lets too much wait is ended. */
void session_send(struct session *session, struct msg *msg, const struct fdlist *fds);

/* The same for a message that is encoded already, without descriptors; *msg is for the trace. */
void session_send_packet(struct session *session, const struct msg *msg, const void *packet, size_t bytes);

/* One line for the log when messages are traced; direction "->" or "<-". */
void session_trace(struct session *session, const char *direction, const struct msg *msg);

/* Tell about an event of one of its NICs, if it has that open. */
void session_nic_event(struct session *session, const struct registry_nic *rnic,
		       const struct nic_event *event);

/* What has happened, as clients are told; the index of the NIC is the session's own. */
void session_fill_event(struct msg_event *event, const struct registry_nic *rnic,
			const struct nic_event *news);

bool session_is_listed(const struct session *session); /* a client that said Hello */
bool session_is_admin(const struct session *session); /* root or the daemon's user */
bool session_may_see(const struct session *session, uint32_t uid); /* what belongs to that user */
int session_make_health(struct session *session); /* the page behind health_fd */
void session_health_end(struct session *session); /* every word: the session has ended */
/* The word of one NIC follows its port: down, active again, lost for good. */
void session_health_port(struct session *session, const struct session_nic *nic, enum nic_port_state state);

struct session_nic *session_nic_by_index(struct session *session, uint32_t index); /* or NULL */
struct session_nic *session_nic_by_rnic(struct session *session, const struct registry_nic *rnic);
/* Do this session's queues on the NIC have this number? */
bool session_nic_has_qpn(const struct session_nic *nic, uint32_t qpn);
/* NULL when not. Costs a walk over the batch. */
const struct nic_qp *session_nic_qp(const struct session_nic *nic, uint32_t qpn);
bool session_nic_has_cqn(const struct session_nic *nic, uint32_t cqn);
int session_counters(struct session *session, struct nic_counters *ret_counters);
void session_counters_add(struct nic_counters *sum, const struct nic_counters *more);

/* Undo one resource. NULL allowed; half-built ones too. */
struct session_mr *session_mr_free(struct session *session, struct session_mr *mr);
/* Make the numbers of a new batch known. -ENOMEM; then the batch is to be freed. */
int session_queues_add_numbers(struct session_queues *queues);
/* -EBUSY while QPs of another batch use its CQs; then nothing is freed. */
int session_queues_free(struct session *session, struct session_queues *queues);
struct session_nic *session_nic_free(struct session_nic *nic);
DEFINE_CLEANUP(struct session_nic *, session_nic_free);

void session_note(struct session *session, int level, enum note_topic topic, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

#endif
