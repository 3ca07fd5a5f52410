/* SPDX-License-Identifier: Apache-2.0 */
/* The socket that clients connect to: the service manager's, or one of our own. */
#ifndef SHMEMD_CLIENTS_LISTENER_H
#define SHMEMD_CLIENTS_LISTENER_H

#include <stdbool.h>
#include <sys/types.h>

#include "daemon/settings/settings.h"

struct listener {
	int fd; /* owned; -1: not open */
	bool activated; /* the service manager made it and removes it */
	bool kept; /* by the service manager for the next daemon: ours, and it stays when we end */
	bool was_passing; /* and descriptors could be sent to it */
	char path[SETTINGS_PATH_BYTES];
	dev_t dev; /* of our own, so that only it is removed */
	ino_t ino;
};

/* Logs why it failed. -EADDRINUSE: a daemon is running there. */
int listener_init(struct listener *listener, const struct settings *settings);
/* Mode and group of our own socket become those of the settings. On failure nothing changed, and it says why. */
int listener_set_access(struct listener *listener, const struct settings *settings);
void listener_deinit(struct listener *listener); /* removes our own socket, unless it is kept */

#endif
