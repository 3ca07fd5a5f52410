/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMD_BASE_FOREIGN_FD_H
#define SHMD_BASE_FOREIGN_FD_H

#include <stdbool.h>

/*
 * Close a descriptor that came from somebody who is not trusted. Never blocks: what might (the last descriptor of a
 * file whose server does not answer, a socket that lingers) is closed by a thread of its own. Returns -1; errno kept.
 */
int close_foreign(int fd);

/*
 * Closing it waits for nobody, whoever does it and whatever the sender has done to it: a memfd, a pipe, an anonymous inode,
 * memory of CUDA. Not a socket, which its sender may have linger, or hold descriptors. The file itself is not asked.
 */
bool foreign_never_waits(int fd);

/*
 * Whose descriptors they are: counts what is not closed yet, and keeps one sender from holding all threads. Lives
 * while anything of it is being closed, also when its owner lets go.
 */
struct foreign_account;

struct foreign_account *foreign_account_new(void); /* NULL: no memory */
struct foreign_account *foreign_account_unref(struct foreign_account *account); /* NULL allowed; returns NULL */
/* How many were handed over and are open, or being closed, now. Any thread. */
unsigned int foreign_account_unclosed(struct foreign_account *account);

/* As close_foreign(), counted; account NULL: as everybody who has none. */
int close_foreign_for(int fd, struct foreign_account *account);

/* fn(fd) by such a thread, where fn is what closes it. Negative errno: there is none, and fd is still the caller's. */
int close_elsewhere(int fd, void (*fn)(int fd), struct foreign_account *account);

/* Wait until everything handed over is closed, however long that takes: for tests that count descriptors. */
void close_foreign_wait(void);

#endif
