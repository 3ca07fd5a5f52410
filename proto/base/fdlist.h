/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptors of one packet. Owns them until one is taken by index; what is not taken is closed by
 * fdlist_deinit, as close_foreign() does. Fixed capacity: a packet carries few descriptors and a client must not make us allocate.
 */
#ifndef SHMEMD_BASE_FDLIST_H
#define SHMEMD_BASE_FDLIST_H

#define FDLIST_MAX 16

struct foreign_account;

struct fdlist {
	struct foreign_account *account; /* borrowed: what is closed is counted there; or NULL */
	unsigned int n;
	int fds[FDLIST_MAX]; /* -1 once taken */
};

void fdlist_init(struct fdlist *fds);
void fdlist_deinit(struct fdlist *fds); /* closes what is left; may be called twice */
int fdlist_add(struct fdlist *fds, int fd); /* takes fd on success; -ENOSPC, -EBADF */
int fdlist_get(const struct fdlist *fds, unsigned int index); /* borrowed; -EBADF when absent or taken */
int fdlist_take(struct fdlist *fds, unsigned int index); /* owned by the caller; -EBADF likewise */

#endif
