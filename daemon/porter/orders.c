/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders to a porter.
 *
 * They leave in their order. If the channel has no room for one, it is a flag of the slot or hold that it is about, and that slot or
 * hold is linked until the order is sent: nothing is lost, and nothing is allocated for it. The daemon's close of
 * a descriptor is never the last one. A porter may have died unseen, so the descriptor is sent before it is closed here. And a
 * porter may be faster than this process, so the order to close it is sent after that. Control thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/porter/message.h"
#include "daemon/porter/porter-private.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

#define RETRY_NSEC (10 * NSEC_PER_MSEC) /* a full channel */

bool porter_slot_is_ready(const struct porter_slot *slot)
{
	return slot->porter->is_running && slot->is_there;
}

/* 0, or -EAGAIN: not now. */
static int send_order(struct porter *porter, const struct porter_order *order, int fd)
{
	struct iovec iov = {.iov_base = (void *)order, .iov_len = sizeof(*order)};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.align = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	if (porter->channel < 0)
		return -EAGAIN;
	if (fd >= 0) {
		header.msg_control = control.bytes;
		header.msg_controllen = sizeof(control.bytes);
		memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
	}
	do
		n = sendmsg(porter->channel, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	/* porter_read_news() sees that a porter has ended. */
	return n < 0 ? -EAGAIN : 0;
}

int porter_send_op(struct porter_slot *slot, enum porter_op op, uint32_t value, int fd)
{
	const struct porter_order order = {
		.op = op, .slot = slot->id, .value = value, .hold = op == PORTER_RECV ? slot->next->id : 0};

	return send_order(slot->porter, &order, fd);
}

void attaching_free(struct attaching **at)
{
	struct attaching *attaching = *at;

	*at = attaching->next;
	close(attaching->fd);
	free(attaching);
}

/* At the end of a slot all of them are sent once more before they are closed: the porter that had them may be dead. */
static int flush_attaching(struct porter_slot *slot)
{
	struct attaching **at = &slot->attaching;
	int r = 0;

	while (r == 0 && *at) {
		if (!(*at)->is_there || slot->is_ended)
			r = porter_send_op(slot, (*at)->op, 0, (*at)->fd);
		if (r < 0)
			break;
		(*at)->is_there = true;
		if (slot->is_ended || !(*at)->is_lasting)
			attaching_free(at);
		else
			at = &(*at)->next;
	}
	return r;
}

static int send_words(struct porter_slot *slot)
{
	const struct porter_order order = {.op = PORTER_TELL, .slot = slot->id, .words = slot->words};

	return send_order(slot->porter, &order, slot->words_fd);
}

/* Sends all that is not sent yet, in the order in which the porter can carry it out. */
static int flush_slot(struct porter_slot *slot)
{
	int r = 0;

	if (!slot->is_there) {
		r = porter_send_op(slot, PORTER_SOCKET, 0, slot->sock);
		slot->is_there = r == 0;
	}
	if (r == 0)
		r = flush_attaching(slot);
	if (r == 0 && slot->words_fd >= 0 && !slot->has_words) {
		r = send_words(slot);
		slot->has_words = r == 0;
	}
	if (r == 0 && slot->is_kept != slot->told_kept) {
		r = porter_send_op(slot, PORTER_KEEP, slot->is_kept, -1);
		slot->told_kept ^= r == 0;
	}
	if (r == 0 && slot->next && !slot->is_asked && !slot->is_ended) {
		r = porter_send_op(slot, PORTER_RECV, 0, -1);
		slot->is_asked = r == 0;
	}
	if (r == 0 && slot->wants_drain) {
		r = porter_send_op(slot, PORTER_DRAIN, 0, -1);
		slot->wants_drain = r < 0;
	}
	if (r == 0 && slot->is_ended && slot->sock >= 0) {
		r = porter_send_op(slot, PORTER_LAST, 0, slot->sock);
		slot->sock = r == 0 ? safe_close(slot->sock) : slot->sock;
	}
	if (r == 0 && slot->is_ended && !slot->told_ended) {
		r = porter_send_op(slot, PORTER_END, 0, -1);
		slot->told_ended = r == 0;
	}
	return r;
}

static int send_hold(struct held *held, enum porter_op op, int fd)
{
	const struct porter_order order = {.op = op, .hold = held->id};

	return send_order(held->porter, &order, fd);
}

static int flush_held(struct held *held)
{
	int r = 0;

	if (held->left >= 0) {
		r = send_hold(held, PORTER_LAST, held->left);
		held->left = r == 0 ? safe_close(held->left) : held->left;
	}
	if (r == 0)
		r = held->is_dropped ? send_hold(held, PORTER_DROP, -1) : send_hold(held, PORTER_HOLD, held_find(held));
	if (r < 0)
		return r;
	held->is_there = true;
	list_del(&held->pending);
	return 0;
}

bool porter_is_overdue(const struct porter *porter, uint64_t now)
{
	bool can_start = porter->channel >= 0 && porter->porters->fork_error == 0;

	return !porter->is_running && !can_start && now - porter->gone_nsec >= PORTER_PATIENCE_NSEC;
}

bool porter_is_behind(const struct porter *porter)
{
	return !list_empty(&porter->pending_slots) || !list_empty(&porter->pending_holds);
}

void porter_flush(struct porter *porter)
{
	struct porter_slot *slot, *tmp_slot;
	struct held *held, *tmp_held;
	int r = 0;

	list_for_each_entry_safe(slot, tmp_slot, &porter->pending_slots, pending) {
		r = flush_slot(slot);
		if (r < 0)
			break;
		list_del(&slot->pending);
		if (!list_empty(&slot->waiting) && porter_slot_is_ready(slot))
			porters_alarm(porter->porters, 0);
	}
	if (r == 0)
		list_for_each_entry_safe(held, tmp_held, &porter->pending_holds, pending) {
			r = flush_held(held);
			if (r < 0)
				break;
		}
	if (porter_is_behind(porter))
		porters_alarm(porter->porters, RETRY_NSEC);
}

void porter_want_slot(struct porter_slot *slot)
{
	if (list_empty(&slot->pending))
		list_add_tail(&slot->porter->pending_slots, &slot->pending);
	porter_flush(slot->porter);
}

void porter_want_held(struct held *held)
{
	if (list_empty(&held->pending))
		list_add_tail(&held->porter->pending_holds, &held->pending);
	porter_flush(held->porter);
}
