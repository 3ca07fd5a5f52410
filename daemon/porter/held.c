/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors of clients in the daemon's table: everybody who closes or duplicates one does it here. A hold is freed when its porter
 * reports that it has closed all of it; a dropped descriptor counts until then. Control thread.
 */
#include "daemon/porter/held.h"

#include <errno.h>
#include <fcntl.h>

#include "daemon/porter/porter-private.h"
#include "proto/base/cleanup.h"

struct held *held_new(struct porter_slot *slot)
{
	struct porters *porters = slot->porter->porters;
	struct held *held = held_alloc(slot->porter, ++porters->last_hold, slot->account);

	if (!held)
		return NULL;
	if (hash_add(&porters->holds, held->id, held) < 0) {
		held_dealloc(held);
		return NULL;
	}
	return held;
}

void held_free(struct held *held)
{
	struct porter *porter = held->porter;

	if (held->is_dropped)
		foreign_account_closed(held->account, held->n_fds);
	hash_remove(&porter->porters->holds, held->id);
	held_dealloc(held);
	porter_look_idle(porter);
}

void held_drop(struct held *held)
{
	held->is_dropped = true;
	foreign_account_add(held->account, held->n_fds);
	if (held->is_there || held->left >= 0)
		porter_want_held(held);
	else
		held_free(held);
}

struct held *held_unref(struct held *held)
{
	if (held && --held->refs == 0)
		held_drop(held);
	return NULL;
}

struct held *held_ref(int fd)
{
	struct held *held = held_by_fd(fd);

	if (held)
		held->refs++;
	return held;
}

void held_close(int fd)
{
	int saved = errno;
	struct held *held = held_by_fd(fd);

	if (held)
		held_remove(held, fd);
	/* Its porter may have died: this process sends the last one before it closes it, so that a porter has it in any case. */
	if (held && held->refs == 1)
		held->left = fd;
	else
		safe_close(fd);
	held_unref(held);
	errno = saved;
}

int held_dup(int fd)
{
	struct held *held = held_by_fd(fd);
	int copy;

	if (held && held_reserve() < 0)
		return -ENOMEM;
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (copy < 0)
		return -errno;
	if (held)
		held_add(held, copy);
	return copy;
}

void held_inspect(int fd, struct inspect_info *ret_info)
{
	const struct held *held = held_by_fd(fd);

	if (held)
		*ret_info = held->info;
	else
		inspect_fd(fd, ret_info);
}
