/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptors of one packet, owned until taken.
 *
 * An index keeps its meaning when an earlier descriptor is taken: slots are marked, never moved. Any thread; no locks.
 */
#include <errno.h>

#include "proto/base/cleanup.h"
#include "proto/base/fdlist.h"

void fdlist_init(struct fdlist *fds)
{
	fds->close = NULL;
	fds->refused = NULL;
	fds->n = 0;
	for (unsigned int i = 0; i < FDLIST_MAX; i++)
		fds->fds[i] = -1;
}

void fdlist_close(const struct fdlist *fds, int fd)
{
	if (fds->close && fd >= 0)
		fds->close(fd);
	else
		safe_close(fd);
}

void fdlist_deinit(struct fdlist *fds)
{
	if (!fds)
		return;
	for (unsigned int i = 0; i < fds->n; i++) {
		fdlist_close(fds, fds->fds[i]);
		fds->fds[i] = -1;
	}
	fds->n = 0;
}

int fdlist_add(struct fdlist *fds, int fd)
{
	if (fd < 0)
		return -EBADF;
	if (fds->n >= FDLIST_MAX)
		return -ENOSPC;
	fds->fds[fds->n++] = fd;
	return 0;
}

int fdlist_get(const struct fdlist *fds, unsigned int index)
{
	if (index >= fds->n || fds->fds[index] < 0)
		return -EBADF;
	return fds->fds[index];
}

int fdlist_take(struct fdlist *fds, unsigned int index)
{
	int fd = fdlist_get(fds, index);

	if (fd >= 0)
		fds->fds[index] = -1;
	return fd;
}
