/* SPDX-License-Identifier: Apache-2.0 */
/* The requests: one handler for each kind of message. session.h has the calls that read packets. */
#ifndef SHMEMD_SESSION_DISPATCH_H
#define SHMEMD_SESSION_DISPATCH_H

#include "daemon/session/request.h"
#include "daemon/session/session.h"

/*
 * 0: send *rep. REQUEST_WAITS, by request_work. Other positive: enum shmd_status, by request_fail; the session lives. Negative
 * errno: what a backend or the system said; request_status() turns it into a status, and one it does not know ends the session.
 */
typedef int (*request_handler)(struct request *req);

int handle_hello(struct request *req);
void hello_give_up(struct session *session, uint64_t msec); /* so long no porter has its socket. Ends the session */
int handle_nic_list(struct request *req);
int handle_nic_open(struct request *req);
int handle_nic_doorbell(struct request *req);
int handle_mem_reg(struct request *req);
int handle_mem_dereg(struct request *req);
int handle_agent_attach(struct request *req);
int handle_queue_layout(struct request *req);
int handle_queue_create(struct request *req);
int handle_queue_destroy(struct request *req);
int handle_connect(struct request *req);
int handle_peer_resolve(struct request *req);
int handle_pe_report(struct request *req);
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
