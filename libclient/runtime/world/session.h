/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one session with shmemd that all worlds of a process share, and its NICs.
 *
 * It opens with the first world that starts and closes with the last one. NICs stay open as long: a session can open a NIC only
 * once. A session that ended is left to the worlds that have it, and the next world begins a new one. A forked child begins anew,
 * too. Any thread. One opens at a time, and only others that open wait for it.
 */
#ifndef SHMD_WORLD_SESSION_H
#define SHMD_WORLD_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include <shmd.h>

#define SESSION_PATH_BYTES 256

struct session;

/*
 * path "": the library's default. timeout_nsec: of the requests that open the session, if this call does. -EINVAL: another world of this
 * process uses another daemon.
 */
int session_get(const char *path, uint64_t timeout_nsec, struct session **ret_session);
void session_put(struct session *session); /* NULL is allowed */
bool session_is_shared(const struct session *session); /* other worlds have it, too */
struct shmd_client *session_client(const struct session *session);
/*
 * The first NICs of the session, opened as far as they are not yet: up to n, which is at most SHMD_DEV_RAILS. The daemon assigns them. An
 * error only if there is none at all; with fewer than n, the error text has the reason.
 */
int session_nics(struct session *session, uint32_t n, struct shmd_nic **nics, uint32_t *ret_n);
/* Equal for processes of one user that reach the same daemon on the same boot of a kernel. -errno of stat() with a sentence. */
int session_node(const struct session *session, uint64_t *ret_node);

#endif
