/* SPDX-License-Identifier: Apache-2.0 */
/* One client on the loop: the watches that drive its session. */
#ifndef SHMEMD_CLIENTS_CLIENT_H
#define SHMEMD_CLIENTS_CLIENT_H

#include <stdint.h>

#include "daemon/clients/fair-turns.h"
#include "daemon/loop.h"
#include "daemon/session/session.h"
#include "proto/base/list.h"

struct client {
	struct list link; /* struct daemon.clients */
	struct session *session; /* owned */
	uint64_t handshake_nsec;
	struct loop_watch *socket_watch;
	struct turn turn; /* all zero: it is served whenever it asks */
	struct loop_watch *process_watch; /* NULL without a pidfd */
	struct loop_timer *handshake;
	struct loop_timer *retry; /* of output that stalled */
	bool retry_armed;
	struct loop_defer *reap;
	void (*activity)(void *arg);
	void *activity_arg;
};

struct client_attr {
	struct loop *loop;
	struct registry *registry;
	struct turns *turns; /* NULL: every client is served at once */
	struct list *clients;
	uint64_t handshake_nsec;
	void (*activity)(void *arg); /* called after a client was heard or freed */
	void *activity_arg;
};

/* Takes `sock` in any case. Errors as session_new. */
int client_new(const struct client_attr *attr, int sock);
/* A session of a former daemon; it stays the caller's when this fails. */
int client_import(const struct client_attr *attr, struct session *session);
struct client *client_free(struct client *client);
/* The registry's hook: output waits, or the session has ended. */
void client_attention(struct session *session);

#endif
