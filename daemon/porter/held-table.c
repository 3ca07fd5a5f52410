/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of descriptors, and the hold of each.
 *
 * The table of descriptors belongs to the whole process, and so does this one. An order to receive a packet reserves the room that
 * the packet's descriptor will need, so that nothing fails once it is here. Control thread.
 */
#include <stdlib.h>

#include "daemon/porter/porter-private.h"
#include "proto/base/assert.h"

static struct hash by_fd; /* struct held */
static size_t n_reserved; /* holds that have no descriptor yet, and may get one */

struct held *held_by_fd(int fd)
{
	return fd < 0 || by_fd.n == 0 ? NULL : hash_get(&by_fd, (uint64_t)fd);
}

struct held *held_alloc(struct porter *porter, uint64_t id, struct foreign_account *account)
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

void held_dealloc(struct held *held)
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

void held_remove(struct held *held, int fd)
{
	hash_remove(&by_fd, (uint64_t)fd);
	held->fd = held->fd == fd ? -1 : held->fd;
}

int held_reserve(void)
{
	return hash_reserve(&by_fd, n_reserved + 1);
}
