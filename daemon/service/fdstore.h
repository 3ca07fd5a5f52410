/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol of the service manager: descriptors that it passes and keeps, and notifications. Without one nothing happens. */
#ifndef SHMEMD_SERVICE_FDSTORE_H
#define SHMEMD_SERVICE_FDSTORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FDSTORE_NAME_BYTES 64
/* Name under which a listening socket of our own is kept. */
/* A pipe that hangs up when the manager lets go of everything. */
#define FDSTORE_LIFELINE "node-lifeline"
#define FDSTORE_LISTENER "listener"

/*
 * The listening SOCK_SEQPACKET socket: passed by socket activation, or else one of our own that was kept, which
 * *ret_kept tells. -ENOENT: none; -EINVAL: something else was passed. The caller's.
 */
int fdstore_listener(int *ret_fd, bool *ret_kept);
bool fdstore_has_manager(void); /* somebody hears fdstore_notify */
uint64_t fdstore_watchdog_nsec(void); /* how often at least it wants to hear WATCHDOG=1; 0: not at all */
/* "READY=1\nSTATUS=..."; see sd_notify(3). For what the manager must hear: one that is busy hears it later. */
void fdstore_notify(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same without waiting: -EAGAIN when the manager has too much unread, then it was not told. */
int fdstore_try_notify(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Waits up to 2 s for a manager that is busy: for a daemon that ends. */
void fdstore_await(void);
/* The last one, which waits likewise. A later notification opens another socket. */
void fdstore_end(void);

/* ---- kept descriptors ------------------------------------------------------------------------------------------- */

/* A copy of the socket of activation, for when the daemon cannot start; -1: there is none. Changes nothing. The caller's. */
int fdstore_copy_listener(void);
/* Something of a session was passed; true until fdstore_claim. */
bool fdstore_has_sessions(void);
/* How many the manager keeps for us ($FDSTORE); 0: none. */
unsigned int fdstore_max(void);
/* "listener", "node-state", or "s", hex digits, "-" and more: what cannot be taken for a socket of activation. */
bool fdstore_is_name(const char *name);
/*
 * Calls fn for each descriptor that an earlier daemon kept, except the listener; fn owns it. A second call finds none, and no
 * listener either: call fdstore_listener first.
 */
void fdstore_claim(void (*fn)(void *arg, const char *name, int fd), void *arg);
/*
 * Have the manager keep a copy of fd, which is borrowed, also when it hangs up. Waits for nobody: a manager that is busy gets it later. 0
 * does not say that it was kept: what is above the maximum, or is kept already, is dropped without a word. -EINVAL: no such
 * name; -ENOENT: no manager; -ENOBUFS: too many descriptors wait already; -EBADF, -EMFILE, -ECONNREFUSED. fdstore_has_lost() tells whether
 * such an error came later.
 */
int fdstore_keep(const char *name, int fd);
/* It lets go of what it keeps under this name, or never gets it. Waits for nobody. */
int fdstore_drop(const char *name);
/* A descriptor that hangs up once the manager has read all that was said before, or never will. The caller's. Waits for nobody. */
int fdstore_follow(void);
/* A descriptor whose name begins with this was to be sent later, and then it could not be: until that name is dropped. */
bool fdstore_has_lost(const char *prefix);
bool fdstore_flush(void); /* false: something has not reached it */
/* A number for all that was said up to now, as far as it waits; 0: nothing does. */
uint64_t fdstore_mark(void);
bool fdstore_reached(uint64_t mark); /* the manager has all of that */

#endif
