/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that the service manager holds for the daemon, by name, so that the next daemon finds them.
 *
 * A manager does not report what it drops. So the store knows its rules and refuses first: a maximum of
 * descriptors, names that fit into one environment variable, no open file twice. Control thread.
 */
#ifndef SHMEMD_RESTART_STORE_H
#define SHMEMD_RESTART_STORE_H

#include <stdint.h>

struct porters;
struct manager_store; /* NULL is a store that keeps nothing: every call accepts it */

/*
 * Claims what an earlier daemon had kept. max_fds: of the settings; the manager's own maximum binds as well. *ret is NULL
 * and the result 0 when no manager keeps descriptors, or none is wanted: then what was kept is let go of.
 */
int manager_store_new(unsigned int max_fds, struct manager_store **ret);
/*
 * The reading end of a pipe whose writing end the manager has, as long as it has anything of ours: porters wait for its end. The
 * caller's; or negative errno: there is none.
 */
int manager_store_lifeline(struct manager_store *store);
/* They close sockets that are discarded. store NULL allowed. */
void manager_store_set_porters(struct manager_store *store, struct porters *porters);
struct manager_store *manager_store_free(struct manager_store *store); /* closes our claims; the manager keeps what it has */

/*
 * fd is borrowed, and may be closed afterwards. The manager gets an open file of its own for a memfd, so one may be kept under
 * several names. 0 also for a NULL store. -ENOSPC: full; -EEXIST: the name is taken; -EBUSY: this open file is kept
 * under another name and cannot be opened again; -EAGAIN: a memfd that cannot be opened before whoever has a lease on it gives that
 * up; -EINVAL: no such name; others of the system. Waits for no file: what its close may do to the manager is for the caller to know.
 */
int manager_store_put(struct manager_store *store, const char *name, int fd);
/* The same for memory, of which there may be much: it costs the manager little. Anything but a memfd is put as above. */
int manager_store_put_memory(struct manager_store *store, const char *name, int fd);
/* After a put that succeeded: fdstore_reached() tells of it whether the manager has what was put. */
uint64_t manager_store_mark(const struct manager_store *store);
void manager_store_remove(struct manager_store *store, const char *name); /* unknown names are fine */
void manager_store_settle(struct manager_store *store); /* after some were removed: the manager lets go of memory, too */
/* A claimed descriptor, now the caller's; the manager keeps it until it is removed. -ENOENT: none, or taken. */
int manager_store_take(struct manager_store *store, const char *name);

/* Names of claimed descriptors that were not taken. fn does not change the store. */
void manager_store_each_left(struct manager_store *store, void (*fn)(void *arg, const char *name), void *arg);
unsigned int manager_store_discard_left(struct manager_store *store); /* removed and closed; how many they were */
unsigned int manager_store_room(const struct manager_store *store); /* at least so many more fit */
unsigned int manager_store_usual_room(const struct manager_store *store); /* the same for names as they usually are; 0 when that is 0 */

#endif
