/* SPDX-License-Identifier: Apache-2.0 */
/* From a packet to a handler and back: the only place where a condition becomes a status number. */
#ifndef SHMEMD_SESSION_DISPATCH_H
#define SHMEMD_SESSION_DISPATCH_H

#include <stddef.h>

#include "daemon/session/session.h"
#include "daemon/session/work.h"
#include "proto/base/fdlist.h"

struct request;

/* What NICs do for a request, by any thread: touches the request, and sessions that it may. */
typedef void (*request_run)(struct request *req);
/* What the session keeps of it: returns what a handler does. */
typedef int (*request_finish)(struct request *req);

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
	struct list held; /* struct session.hold_link: other sessions that its worker uses */
};

/* Of a handler: its request goes on elsewhere. */
#define REQUEST_WAITS 0x10000

/*
 * 0: send *rep. REQUEST_WAITS, by request_work. Other positive: enum shmd_status, by request_fail; the session lives. Negative errno: what a backend or the
 * system said; dispatch.c turns it into a status, and one it does not know ends the session.
 */
typedef int (*request_handler)(struct request *req);

/* Decode, check, carry out, answer. The descriptors left in *fds are the caller's to close. */
void dispatch_packet(struct session *session, const void *buf, size_t bytes, struct fdlist *fds);

/* Refuse a request whose descriptors this process had no place for; the session lives. */
void dispatch_without_fds(struct session *session, const void *buf, size_t bytes);

/* What an errno of a backend is called on the wire; INTERNAL when nobody expected it. */
enum shmd_status dispatch_status(enum msg_kind kind, int err);

/* Refuse: returns `status` after noting the facts. */
int request_fail(struct request *req, enum shmd_status status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Charge the session's user, or refuse with the limit's name. */
int request_charge(struct request *req, const struct quota_amount *amount,
		   struct quota_charge *charge);
/* Add a descriptor to the reply: a dup of a borrowed one. Returns its index, or negative errno. */
int request_add_fd(struct request *req, int borrowed_fd);
/* The session's NIC with this index, or NULL after request_fail(NOT_FOUND). */
struct session_nic *request_nic(struct request *req, uint32_t index);
/* 0 for an administrator, or a refusal. */
int request_admin(struct request *req);
/* The NIC of this name, or NULL after request_fail(NO_NIC). */
int request_no_nic(struct request *req, const char *name); /* none is called so, or no backend drives it; NO_NIC */
struct registry_nic *request_nic_by_name(struct request *req, const char *name);
/* Zeroed memory for req->op, or NULL. */
void *request_op(struct request *req, size_t bytes);
/*
 * Carry out `run`, then `finish`: at once; or, where one of its NICs blocks, `run` by a worker, and then nobody may
 * touch the request after this call. The answer is the handler's.
 */
int request_work(struct request *req, bool blocks, request_run run, request_finish finish);
/* The same for what changes this NIC's context: what outlives the daemon of it is written down anew. */
int request_change(struct request *req, struct session_nic *nic, request_run run, request_finish finish);
/* May its worker use this session's contexts? False while another one does. */
bool request_hold(struct request *req, struct session *session);
/* Is this descriptor memory of its kind, acceptable to the NIC, and does it hold the range? 0 or a refusal. */
struct mem_claim {
	enum msg_mem_kind kind;
	int fd; /* -1 for agent memory */
	uint64_t offset, length_bytes;
	bool writable;
};
int request_check_mem(struct request *req, const struct registry_nic *rnic,
		      const struct mem_claim *claim);

int handle_hello(struct request *req);
int handle_nic_list(struct request *req);
int handle_nic_open(struct request *req);
int handle_nic_doorbell(struct request *req);
int handle_mem_reg(struct request *req);
int handle_mem_dereg(struct request *req);
int handle_queue_layout(struct request *req);
int handle_queue_create(struct request *req);
int handle_queue_destroy(struct request *req);
int handle_connect(struct request *req);
int handle_peer_resolve(struct request *req);
int handle_qp_modify(struct request *req);
int handle_qp_query(struct request *req);
int handle_counters(struct request *req);
int handle_publish(struct request *req);
int handle_unpublish(struct request *req);
int handle_fetch(struct request *req);
int handle_status(struct request *req);
int handle_list(struct request *req);
int handle_monitor(struct request *req);
int handle_queue_dump(struct request *req);
int handle_session_kill(struct request *req);
int handle_drain(struct request *req);
int handle_port_set(struct request *req);

#endif
