/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What clients have not read.
 *
 * The kernel counts a descriptor to the daemon's user from the time it is sent until it is read, also when the daemon has closed
 * its end meanwhile, and at RLIMIT_NOFILE takes no more, whoever they are for. So each user has a share, and a
 * socket with unread descriptors is kept, and its place in max-connections, until they are read: who
 * could close and connect again would have as many as it likes.
 *
 * The kernel tells of a socket only whether all was read: counts are upper bounds. Invariants: linked means n_fds > 0;
 * n_fds are counted in the quota. Knows no loop. Control thread.
 */
#include "daemon/session/unread.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/sockios.h>

#include "daemon/porter/porter.h"
#include "proto/base/assert.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "proto/framing.h"

/* Replies that wait for room look no more often than this. */
#define WAITERS_LOOK_NSEC NSEC_PER_MSEC

void unread_table_init(struct unread_table *table)
{
	*table = (struct unread_table){0};
	list_init(&table->sockets);
}

static struct unread *unread_free(struct unread *unread)
{
	quota_unread_sub(&unread->user, unread->n_fds);
	list_del(&unread->link);
	unread->table->n_ended -= unread->ended;
	if (unread->slot)
		porter_slot_end(unread->slot, unread->sock);
	else
		framing_close(unread->sock);
	quota_charge_deinit(&unread->place);
	quota_user_deinit(&unread->user);
	free(unread);
	return NULL;
}

void unread_table_deinit(struct unread_table *table)
{
	struct unread *unread, *tmp;

	list_for_each_entry_safe(unread, tmp, &table->sockets, link) {
		assert_bug(unread->ended);
		unread_free(unread);
	}
}

int unread_new(struct unread_table *table, const struct quota_user *user, int sock, struct unread **ret_unread)
{
	struct unread *unread = calloc(1, sizeof(*unread));

	if (!unread)
		return -ENOMEM;
	unread->table = table;
	unread->sock = sock;
	list_init(&unread->link);
	quota_user_copy(&unread->user, user);
	*ret_unread = unread;
	return 0;
}

unsigned int unread_count(struct unread *unread)
{
	int bytes;

	if (unread->n_fds > 0 && ioctl(unread->sock, SIOCOUTQ, &bytes) == 0 && bytes == 0) {
		quota_unread_sub(&unread->user, unread->n_fds);
		unread->n_fds = 0;
		list_del(&unread->link);
	}
	return unread->n_fds;
}

void unread_look(struct unread_table *table, unsigned int n_sockets)
{
	const struct list *seen = NULL;

	while (n_sockets-- > 0 && !list_empty(&table->sockets) && table->sockets.next != seen) {
		struct unread *unread = container_of(table->sockets.next, struct unread, link);

		if (unread_count(unread) > 0) {
			list_del(&unread->link);
			list_add_tail(&table->sockets, &unread->link);
			/* Sockets in each other's queues are looked for once more: one is enough for all of them. */
			if (!seen && unread->ended && unread->slot)
				porter_slot_drain(unread->slot);
			seen = seen ? seen : &unread->link;
		} else if (unread->ended) {
			unread_free(unread);
		}
	}
}

bool unread_may_send(struct unread *unread, unsigned int n)
{
	struct unread_table *table = unread->table;
	uint64_t now;

	if (quota_unread_fits(&unread->user, n))
		return true;
	/* All that wait look for each other: hundreds of them, each for itself, would look most of the time. */
	now = nsec_now();
	if (now - table->looked_nsec < WAITERS_LOOK_NSEC)
		return false;
	table->looked_nsec = now;
	unread_look(table, UNREAD_LOOKS);
	return quota_unread_fits(&unread->user, n);
}

void unread_sent(struct unread *unread, unsigned int n)
{
	if (n > 0 && unread->n_fds == 0)
		list_add_tail(&unread->table->sockets, &unread->link);
	unread->n_fds += n;
	quota_unread_add(&unread->user, n);
}

void unread_end(struct unread *unread, struct porter_slot *slot, struct quota_charge *place)
{
	unread->slot = slot;
	if (unread_count(unread) == 0) {
		unread_free(unread);
		return;
	}
	/* The client sees the end behind what it has not read. */
	shutdown(unread->sock, SHUT_RDWR);
	if (slot)
		porter_slot_drain(slot);
	else
		framing_drain(unread->sock);
	unread->ended = true;
	unread->table->n_ended++;
	unread->place = *place;
	*place = (struct quota_charge){0};
}
