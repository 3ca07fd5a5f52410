/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptors of one packet. The list owns them until one is taken by index; fdlist_deinit closes the others.
 * Fixed capacity: a packet carries few descriptors, and a client must not make us allocate.
 */
#ifndef SHMEMD_BASE_FDLIST_H
#define SHMEMD_BASE_FDLIST_H

#define FDLIST_MAX 16

struct fdlist {
	void (*close)(int fd); /* closes what is left; NULL: close(2) */
	const char *refused; /* the kind of a descriptor that was not let in, in words; or NULL. Its place has -1 */
	unsigned int n;
	int fds[FDLIST_MAX]; /* -1 once taken */
};

void fdlist_init(struct fdlist *fds);
void fdlist_deinit(struct fdlist *fds); /* closes what is left; may be called twice */
void fdlist_close(const struct fdlist *fds, int fd); /* as this list closes; errno kept */
int fdlist_add(struct fdlist *fds, int fd); /* takes fd on success; -ENOSPC, -EBADF */
int fdlist_get(const struct fdlist *fds, unsigned int index); /* borrowed; -EBADF when absent or taken */
int fdlist_take(struct fdlist *fds, unsigned int index); /* owned by the caller; -EBADF likewise */

#endif
