/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of descriptors, and what holds each open elsewhere.
 *
 * The table of descriptors is the process's, and so is this one; whoever closes or duplicates a client's descriptor does it
 * here. Room for what a packet will bring is reserved when it is asked for, so that nothing fails when it is there. Control thread.
 */
#include "daemon/porter/held-table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "proto/base/assert.h"
#include "proto/base/cleanup.h"
#include "proto/base/hash.h"

static struct hash by_fd; /* struct held */
static size_t n_reserved; /* holds that have no descriptor yet, and may get one */

static struct held *find(int fd)
{
	return fd < 0 || by_fd.n == 0 ? NULL : hash_get(&by_fd, (uint64_t)fd);
}

struct held *held_new(struct porter *porter, uint64_t id, struct foreign_account *account)
{
	struct held *held = calloc(1, sizeof(*held));

	if (!held || hash_reserve(&by_fd, n_reserved + 1) < 0) {
		free(held);
		return NULL;
	}
	n_reserved++;
	held->id = id;
	held->porter = porter;
	held->fd = held->left = -1;
	held->account = foreign_account_ref(account);
	list_init(&held->link);
	list_init(&held->pending);
	return held;
}

void held_free(struct held *held)
{
	assert_bug(held->refs == 0 && held->left < 0);
	n_reserved--;
	list_del(&held->link);
	list_del(&held->pending);
	foreign_account_unref(held->account);
	free(held);
	/* A daemon without descriptors of clients has no table of them. */
	if (n_reserved == 0 && by_fd.n == 0)
		hash_deinit(&by_fd);
}

void held_add(struct held *held, int fd)
{
	int r = hash_add(&by_fd, (uint64_t)fd, held);

	assert_bug(r == 0);
	held->fd = fd;
	held->refs++;
}

int held_find(struct held *held)
{
	size_t pos = 0;
	uint64_t fd;
	const struct held *at;

	while (held->fd < 0 && (at = hash_next(&by_fd, &pos, &fd)))
		if (at == held)
			held->fd = (int)fd;
	return held->fd;
}

struct held *held_unref(struct held *held)
{
	if (held && --held->refs == 0)
		porter_drop(held);
	return NULL;
}

struct held *held_ref(int fd)
{
	struct held *held = find(fd);

	if (held)
		held->refs++;
	return held;
}

void held_close(int fd)
{
	int saved = errno;
	struct held *held = find(fd);

	if (held) {
		hash_remove(&by_fd, (uint64_t)fd);
		held->fd = held->fd == fd ? -1 : held->fd;
	}
	/* Its porter may have died: the last one is sent before it is closed, so that somebody else has it in any case. */
	if (held && held->refs == 1)
		held->left = fd;
	else
		safe_close(fd);
	held_unref(held);
	errno = saved;
}

int held_dup(int fd)
{
	struct held *held = find(fd);
	int copy;

	if (held && hash_reserve(&by_fd, n_reserved + 1) < 0)
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
	const struct held *held = find(fd);

	if (held)
		*ret_info = held->info;
	else
		inspect_fd(fd, ret_info);
}
