/* SPDX-License-Identifier: Apache-2.0 */
/* Accepts connections, and holds the sockets of ended sessions until their clients close them. */
#ifndef SHMEMD_CLIENTS_ACCEPT_H
#define SHMEMD_CLIENTS_ACCEPT_H

#include <stdint.h>

#include "daemon/clients/listener.h"
#include "daemon/loop.h"
#include "daemon/session/registry.h"

struct accept_attr {
	struct loop *loop;
	const struct listener *listener; /* with what else is borrowed, it outlives this */
	struct registry *registry;
	uint64_t max_fds; /* that this process may open */
	uint64_t hang_in; /* fault point: the loop stands still in its accept with this number; 0: never */
	int (*serve)(void *arg, int sock); /* takes the socket in any case */
	void *arg;
};

struct accept;

/* Starts without accepting connections. -ENOMEM. */
int accept_new(const struct accept_attr *attr, struct accept **ret_accept);
int accept_begin(struct accept *accept);
void accept_stop(struct accept *accept); /* NULL allowed, here and below */
/* A session may have ended: its socket is looked at from time to time. Cheap. */
void accept_look(struct accept *accept);
struct accept *accept_free(struct accept *accept);

#endif
