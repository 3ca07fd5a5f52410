/* SPDX-License-Identifier: Apache-2.0 */
/* The service manager's side: what it hands us at start, what we tell it. All of it is harmless without one. */
#ifndef SHMEMD_FDSTORE_H
#define SHMEMD_FDSTORE_H

#include <stdbool.h>
#include <stdint.h>

/* A listening SOCK_SEQPACKET socket passed by socket activation. -ENOENT: none; -EINVAL: something else was. */
int fdstore_listener(int *ret_fd);
bool fdstore_has_manager(void); /* somebody hears fdstore_notify */
uint64_t fdstore_watchdog_nsec(void); /* how often at least it wants to hear WATCHDOG=1; 0: not at all */
/* "READY=1\nSTATUS=..."; see sd_notify(3). Waits for a manager that is busy: for what it must hear. */
void fdstore_notify(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same without waiting: -EAGAIN when the manager has too much unread, then it was not told. */
int fdstore_try_notify(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
