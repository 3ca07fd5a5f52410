/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots: the socket of a session, which a porter has too. Control thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "daemon/porter/message.h"
#include "daemon/porter/porter-private.h"
#include "proto/base/assert.h"
#include "proto/base/cleanup.h"

struct porter_slot *slot_new(struct porter *porter, const struct porter_slot_attr *attr)
{
	struct porters *porters = porter->porters;
	struct porter_slot *slot = calloc(1, sizeof(*slot));

	if (!slot || hash_add(&porters->slots, ++porters->last_slot, slot) < 0) {
		free(slot);
		return NULL;
	}
	slot->porter = porter;
	slot->id = porters->last_slot;
	slot->sock = attr->sock;
	slot->account = foreign_account_ref(attr->account);
	slot->packet = attr->packet;
	slot->ready = attr->ready;
	slot->told = attr->told;
	slot->words_fd = -1;
	slot->arg = attr->arg;
	list_init(&slot->pending);
	list_init(&slot->waiting);
	list_add_tail(&porter->slots, &slot->link);
	porter->idle_nsec = 0;
	return slot;
}

void slot_free(struct porter_slot *slot)
{
	struct porter *porter = slot->porter;

	if (slot->next)
		held_free(slot->next);
	if (slot->is_ended)
		foreign_account_closed(slot->account, 1 + slot->n_attached);
	hash_remove(&porter->porters->slots, slot->id);
	list_del(&slot->link);
	list_del(&slot->pending);
	list_del(&slot->waiting);
	while (slot->attaching)
		attaching_free(&slot->attaching);
	foreign_account_unref(slot->account);
	safe_close(slot->words_fd);
	free(slot);
	porter_look_idle(porter);
}

bool porter_slot_await(struct porter_slot *slot)
{
	bool is_ready = porter_slot_is_ready(slot);

	if (!is_ready && list_empty(&slot->waiting))
		list_add_tail(&slot->porter->waiting, &slot->waiting);
	return is_ready;
}

static int add_attaching(struct porter_slot *slot, enum porter_op op, int fd, bool is_lasting)
{
	struct attaching *attaching = calloc(1, sizeof(*attaching));

	if (!attaching)
		return -ENOMEM;
	attaching->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (attaching->fd < 0) {
		free(attaching);
		return -errno;
	}
	attaching->op = op;
	attaching->is_lasting = is_lasting;
	attaching->next = slot->attaching;
	slot->attaching = attaching;
	return 0;
}

int porter_slot_attach(struct porter_slot *slot, int fd, bool is_lasting)
{
	int r = 0;

	if (is_lasting || !slot->is_there || porter_is_behind(slot->porter) || porter_send_op(slot, PORTER_ATTACH, 0, fd) < 0) {
		r = add_attaching(slot, PORTER_ATTACH, fd, is_lasting);
		if (r < 0)
			return r;
		porter_want_slot(slot);
	}
	slot->n_attached++;
	return 0;
}

int porter_slot_follow(struct porter_slot *slot, int fd)
{
	int r = add_attaching(slot, PORTER_FOLLOW, fd, true);

	if (r == 0)
		porter_want_slot(slot);
	return r;
}

int porter_slot_hold(struct porter_slot *slot, int fd)
{
	struct held *held = held_new(slot);

	if (!held)
		return -ENOMEM;
	inspect_fd(fd, &held->info);
	held->n_fds = 1;
	list_add_tail(&slot->porter->holds, &held->link);
	held_add(held, fd);
	porter_want_held(held);
	return 0;
}

int porter_slot_recv(struct porter_slot *slot)
{
	assert_bug(!slot->next);
	if (slot->porter->channel < 0 && slot->porter->porters->is_over)
		return -EPIPE;
	slot->next = held_new(slot);
	if (!slot->next)
		return -ENOMEM;
	porter_want_slot(slot);
	if (!slot->porter->is_running)
		porters_alarm(slot->porter->porters, PORTER_PATIENCE_NSEC);
	return 0;
}

int porter_slot_tell(struct porter_slot *slot, int fd, const struct words *words)
{
	if (slot->words_fd >= 0)
		return -EBUSY;
	if (porter_is_overdue(slot->porter, nsec_now()) || (slot->porter->channel < 0 && slot->porter->porters->is_over))
		return -EPIPE;
	slot->words_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (slot->words_fd < 0)
		return -errno;
	slot->words = *words;
	porter_want_slot(slot);
	return 0;
}

void slot_told(struct porter_slot *slot, bool are_written)
{
	const struct words words = slot->words;

	slot->words_fd = safe_close(slot->words_fd);
	slot->has_words = false;
	if (slot->told)
		slot->told(slot->arg, are_written ? NULL : &words);
}

void porter_slot_keep(struct porter_slot *slot, bool is_kept)
{
	slot->is_kept = is_kept;
	porter_want_slot(slot);
}

void porter_slot_drain(struct porter_slot *slot)
{
	slot->packet = NULL;
	slot->told = NULL;
	slot->wants_drain = true;
	porter_want_slot(slot);
}

void porter_slot_end(struct porter_slot *slot, int sock)
{
	shutdown(sock, SHUT_RDWR);
	slot->sock = sock;
	slot->is_ended = true;
	slot->packet = NULL;
	slot->told = NULL;
	list_del(&slot->waiting);
	foreign_account_add(slot->account, 1 + slot->n_attached);
	porter_want_slot(slot);
}
