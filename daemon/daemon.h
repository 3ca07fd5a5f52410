/* SPDX-License-Identifier: Apache-2.0 */
/* The root object: everything the process owns. */
#ifndef SHMEMD_DAEMON_H
#define SHMEMD_DAEMON_H

#include "daemon/settings/settings.h"

struct daemon;

/*
 * Listens and has its NICs when this returns 0. Logs why it failed; *ret_is_wrong is true when the settings do not suit this machine.
 * Both settings, which SIGHUP changes, and where they came from live as long as the daemon.
 */
int daemon_new(struct settings *settings, const struct settings_source *source, struct daemon **ret_daemon, bool *ret_is_wrong);
/* Until SIGTERM or SIGINT. 0, or negative errno when the daemon cannot go on. */
int daemon_run(struct daemon *daemon);
/* Ends all sessions, closes NICs, removes the socket. NULL allowed; right for half-built ones. */
struct daemon *daemon_free(struct daemon *daemon);

#endif
