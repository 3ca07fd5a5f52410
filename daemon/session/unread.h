/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that were sent to a client and that it may not have read yet, of live sessions and of ended ones. */
#ifndef SHMEMD_SESSION_UNREAD_H
#define SHMEMD_SESSION_UNREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/session/quota.h"
#include "proto/base/list.h"

/* So many sockets are looked at for each connection, and every millisecond while replies wait for room. */
#define UNREAD_LOOKS 16u

struct porter_slot;

struct unread_table {
	struct list sockets; /* struct unread.link: those with descriptors, looked at longest ago first */
	unsigned int n_ended;
	uint64_t looked_nsec; /* for a reply, last */
};

struct unread {
	struct unread_table *table;
	struct list link; /* while n_fds > 0 */
	struct quota_user user; /* whom n_fds are counted to */
	unsigned int n_fds; /* at most: sent since everything was read last */
	int sock; /* the session's, until it has ended */
	bool ended;
	struct porter_slot *slot; /* owned, once the session has ended; or NULL: nothing comes in */
	struct quota_charge place; /* of the connection, once it has ended */
};

void unread_table_init(struct unread_table *table);
void unread_table_deinit(struct unread_table *table); /* every session is freed already */

/* -ENOMEM. */
int unread_new(struct unread_table *table, const struct quota_user *user, int sock, struct unread **ret_unread);

unsigned int unread_count(struct unread *unread); /* after a look */
/* Has the user room for n more? Looks at a few sockets of everybody now and then when it has not. */
bool unread_may_send(struct unread *unread, unsigned int n);
void unread_sent(struct unread *unread, unsigned int n);

/*
 * The session is over. Takes the socket, and its slot or NULL, and frees `unread`; when something is unread, both stay, and the place of
 * the connection with them, until the client has read it or closed its own end: unread_look finds out.
 */
void unread_end(struct unread *unread, struct porter_slot *slot, struct quota_charge *place);
void unread_look(struct unread_table *table, unsigned int n_sockets);

#endif
