/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that were sent to a client and that it may not have read yet, of live sessions and of ended ones. */
#ifndef SHMEMD_SESSION_INFLIGHT_FDS_H
#define SHMEMD_SESSION_INFLIGHT_FDS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/session/quota.h"
#include "proto/base/list.h"

/* So many sockets are looked at for each connection, and every millisecond while replies wait for room. */
#define INFLIGHT_LOOKS 16u

struct porter_slot;

struct inflight_table {
	struct list sockets; /* struct inflight_fds.link: those with descriptors, looked at longest ago first */
	unsigned int n_ended;
	uint64_t looked_nsec; /* for a reply, last */
};

struct inflight_fds {
	struct inflight_table *table;
	struct list link; /* while n_fds > 0 */
	struct quota_user user; /* whom n_fds are counted to */
	unsigned int n_fds; /* at most: sent since everything was read last */
	int sock; /* the session's, until it has ended */
	bool ended;
	struct porter_slot *slot; /* owned, once the session has ended; or NULL: nothing comes in */
	struct quota_charge place; /* of the connection, once it has ended */
};

void inflight_table_init(struct inflight_table *table);
void inflight_table_deinit(struct inflight_table *table); /* every session is freed already */

/* -ENOMEM. */
int inflight_new(struct inflight_table *table, const struct quota_user *user, int sock, struct inflight_fds **ret_inflight);

unsigned int inflight_count(struct inflight_fds *inflight); /* after a look */
/* Has the user room for n more? Looks at a few sockets of everybody now and then when it has not. */
bool inflight_may_send(struct inflight_fds *inflight, unsigned int n);
void inflight_sent(struct inflight_fds *inflight, unsigned int n);

/*
 * The session is over. Takes the socket, and its slot or NULL, and frees `inflight`; when something is unread, both stay, and the place of
 * the connection with them, until the client has read it or closed its own end: inflight_look finds out.
 */
void inflight_end(struct inflight_fds *inflight, struct porter_slot *slot, struct quota_charge *place);
void inflight_look(struct inflight_table *table, unsigned int n_sockets);

#endif
