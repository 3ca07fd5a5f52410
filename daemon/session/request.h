/* SPDX-License-Identifier: Apache-2.0 */
/* One request from its handler to its answer, and what handlers need for it. */
#ifndef SHMEMD_SESSION_REQUEST_H
#define SHMEMD_SESSION_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/session/session.h"
#include "daemon/session/work.h"
#include "proto/base/fdlist.h"

struct request;

/* What NICs do for a request, by any thread: touches the request, and sessions that it may. */
typedef void (*request_run)(struct request *req);
/* The part that the session keeps of it; returns as a handler does. */
typedef int (*request_finish)(struct request *req);
/* The result of the handler, or of what it left to request_work(), goes to the client. */
typedef void (*request_answer)(struct request *req, int r);

/* One request on its way through a handler. On the heap, since it may go on when the handler has returned. */
struct request {
	struct session *session;
	const struct msg *msg;
	struct fdlist *fds; /* of the packet; what the handler does not take is closed */
	struct msg *rep; /* kind is set by the handler; OK_REP unless changed */
	struct fdlist rep_fds; /* owned; sent with the reply */
	uint32_t accepted_kinds; /* for the error reply */
	char text[MSG_TEXT_BYTES]; /* the facts of a refusal */
	void *op; /* owned, freed with it: what run and finish have in common */
	struct session_nic *changes; /* whose context is another one when it was carried out; or NULL */
	struct work work;
	request_run run;
	request_finish finish;
	request_answer answer;
	struct list held; /* struct session.hold_link: other sessions that its worker uses */
};

/* A handler's result: its request goes on elsewhere. */
#define REQUEST_WAITS 0x10000

/* Takes what is in *msg and *fds. NULL: no memory. */
struct request *request_new(struct session *session, struct msg *msg, struct fdlist *fds, request_answer answer);
/* Other sessions may be gone here, and whatever they held. */
void request_free(struct request *req);

/* Refuse: returns `status` after noting the facts. */
int request_fail(struct request *req, enum shmd_status status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Status on the wire for the errno of a backend or the system; INTERNAL for an unexpected one. */
enum shmd_status request_status(enum msg_kind kind, int err);
/* Charge the session's user, or refuse with the limit's name. */
int request_charge(struct request *req, const struct quota_amount *amount,
		   struct quota_charge *charge);
/* Add a descriptor to the reply: a dup of a borrowed one. Returns its index, or negative errno. */
int request_add_fd(struct request *req, int borrowed_fd);
int request_add_held(struct request *req, int borrowed_fd); /* the same for a client's; 0; control thread */
/* The session's NIC with this index, or NULL after request_fail(NOT_FOUND). */
struct session_nic *request_nic(struct request *req, uint32_t index);
int request_no_nic(struct request *req, const char *name); /* none is called so, or no backend drives it; NO_NIC */
/* The NIC of this name, or NULL after request_no_nic(). */
struct registry_nic *request_nic_by_name(struct request *req, const char *name);
/* Zeroed memory for req->op, or NULL. */
void *request_op(struct request *req, size_t bytes);
/*
 * Carry out `run`, then `finish`: at once; or, where one of its NICs blocks or stalls, `run` by a worker, and then nobody may
 * touch the request after this call. The answer is the handler's.
 */
int request_work(struct request *req, bool blocks, request_run run, request_finish finish);
/* The same for what maps memory that a client reaches, and needs no NIC. */
int request_at_memory(struct request *req, request_run run, request_finish finish);
/* The same for a look at NICs: if no worker takes it soon, `finish` comes without `run`. */
int request_look(struct request *req, request_run run, request_finish finish);
/* The same for what changes this NIC's context: what outlives the daemon of it is written down anew. */
int request_change(struct request *req, struct session_nic *nic, request_run run, request_finish finish);
/* The same for what takes too long for the control thread on any NIC. */
int request_change_long(struct request *req, struct session_nic *nic, request_run run, request_finish finish);
/* May its worker use this session's contexts? False while another one does. */
bool request_hold(struct request *req, struct session *session);
/* The packet's descriptor is of a kind that shmemd does not take: MEM_FD. */
int request_refused_fd(struct request *req, const char *done);
/* Is this descriptor memory of its kind, acceptable to the NIC, and does it hold the range? 0 or a refusal. */
struct mem_claim {
	enum msg_mem_kind kind;
	int fd; /* -1 for agent memory */
	uint64_t offset, length_bytes;
	bool writable;
};
int request_check_mem(struct request *req, const struct registry_nic *rnic,
		      const struct mem_claim *claim);
/* Has the session attached a memory agent to this NIC? The same. */
int request_check_agent(struct request *req, const struct session_nic *nic);

#endif
