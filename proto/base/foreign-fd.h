/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMD_BASE_FOREIGN_FD_H
#define SHMD_BASE_FOREIGN_FD_H

/*
 * Close a descriptor that came from somebody who is not trusted. Never blocks: what might (the last descriptor of a
 * file whose server does not answer, a socket that lingers) is closed by a thread of its own. Returns -1; errno kept.
 */
int close_foreign(int fd);

/* fn(fd) by such a thread, where fn is what closes it. Negative errno: there is none, and fd is still the caller's. */
int close_elsewhere(int fd, void (*fn)(int fd));

/* Wait until everything handed over is closed, however long that takes: for tests that count descriptors. */
void close_foreign_wait(void);

#endif
