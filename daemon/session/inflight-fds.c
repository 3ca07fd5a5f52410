/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that clients have not read.
 *
 * The kernel charges a descriptor to the daemon's user from sending to reading, even after the daemon has closed its own, and at
 * RLIMIT_NOFILE rejects further ones for any client. So each uid and cgroup has a share (an eighth of RLIMIT_NOFILE, and 64). A
 * socket with unread descriptors stays, with its place in max-connections, until its client has read or closed it: otherwise a
 * client could reconnect and get a new share. A timer checks such sockets every 100 ms.
 *
 * Beyond the share a reply waits, as it does when the kernel takes no more. To find out whether there is room again, all waiting
 * replies together check the sockets of others once a millisecond. From then on the porter of such a client alone reads its
 * socket, and drops packets that the daemon has not read.
 *
 * The kernel reports of a socket only whether all was read, so counts are upper bounds. Invariants: linked means n_fds > 0;
 * n_fds are counted in the quota. Has no loop. Control thread.
 */
#include "daemon/session/inflight-fds.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/sockios.h>

#include "daemon/porter/porter.h"
#include "proto/base/assert.h"
#include "proto/base/nsec.h"
#include "proto/framing.h"

/* Replies that wait for room look no more often than this. */
#define WAITERS_LOOK_NSEC NSEC_PER_MSEC

void inflight_table_init(struct inflight_table *table)
{
	*table = (struct inflight_table){0};
	list_init(&table->sockets);
}

static struct inflight_fds *inflight_free(struct inflight_fds *inflight)
{
	quota_inflight_sub(&inflight->user, inflight->n_fds);
	list_del(&inflight->link);
	inflight->table->n_ended -= inflight->ended;
	if (inflight->slot)
		porter_slot_end(inflight->slot, inflight->sock);
	else
		framing_close(inflight->sock);
	quota_charge_deinit(&inflight->place);
	quota_user_deinit(&inflight->user);
	free(inflight);
	return NULL;
}

void inflight_table_deinit(struct inflight_table *table)
{
	struct inflight_fds *inflight, *tmp;

	list_for_each_entry_safe(inflight, tmp, &table->sockets, link) {
		assert_bug(inflight->ended);
		inflight_free(inflight);
	}
}

int inflight_new(struct inflight_table *table, const struct quota_user *user, int sock, struct inflight_fds **ret_inflight)
{
	struct inflight_fds *inflight = calloc(1, sizeof(*inflight));

	if (!inflight)
		return -ENOMEM;
	inflight->table = table;
	inflight->sock = sock;
	list_init(&inflight->link);
	quota_user_copy(&inflight->user, user);
	*ret_inflight = inflight;
	return 0;
}

unsigned int inflight_count(struct inflight_fds *inflight)
{
	int bytes;

	if (inflight->n_fds > 0 && ioctl(inflight->sock, SIOCOUTQ, &bytes) == 0 && bytes == 0) {
		quota_inflight_sub(&inflight->user, inflight->n_fds);
		inflight->n_fds = 0;
		list_del(&inflight->link);
	}
	return inflight->n_fds;
}

void inflight_look(struct inflight_table *table, unsigned int n_sockets)
{
	const struct list *seen = NULL;

	while (n_sockets-- > 0 && !list_empty(&table->sockets) && table->sockets.next != seen) {
		struct inflight_fds *inflight = container_of(table->sockets.next, struct inflight_fds, link);

		if (inflight_count(inflight) > 0) {
			list_del(&inflight->link);
			list_add_tail(&table->sockets, &inflight->link);
			/* Sockets in each other's queues are looked for once more: one is enough for all of them. */
			if (!seen && inflight->ended && inflight->slot)
				porter_slot_drain(inflight->slot);
			seen = seen ? seen : &inflight->link;
		} else if (inflight->ended) {
			inflight_free(inflight);
		}
	}
}

bool inflight_may_send(struct inflight_fds *inflight, unsigned int n)
{
	struct inflight_table *table = inflight->table;
	uint64_t now;

	if (quota_inflight_fits(&inflight->user, n))
		return true;
	/* All that wait look for each other: hundreds of them, each for itself, would look most of the time. */
	now = nsec_now();
	if (now - table->looked_nsec < WAITERS_LOOK_NSEC)
		return false;
	table->looked_nsec = now;
	inflight_look(table, INFLIGHT_LOOKS);
	return quota_inflight_fits(&inflight->user, n);
}

void inflight_sent(struct inflight_fds *inflight, unsigned int n)
{
	if (n > 0 && inflight->n_fds == 0)
		list_add_tail(&inflight->table->sockets, &inflight->link);
	inflight->n_fds += n;
	quota_inflight_add(&inflight->user, n);
}

void inflight_end(struct inflight_fds *inflight, struct porter_slot *slot, struct quota_charge *place)
{
	inflight->slot = slot;
	if (inflight_count(inflight) == 0) {
		inflight_free(inflight);
		return;
	}
	/* The client sees the end behind what it has not read. */
	shutdown(inflight->sock, SHUT_RDWR);
	if (slot)
		porter_slot_drain(slot);
	else
		framing_drain(inflight->sock);
	inflight->ended = true;
	inflight->table->n_ended++;
	inflight->place = *place;
	*place = (struct quota_charge){0};
}
