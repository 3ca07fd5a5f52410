/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of the running daemon, saved for the next one: sessions that were kept must not end by a wrong line of a file. */
#ifndef SHMEMD_SETTINGS_SAVED_H
#define SHMEMD_SETTINGS_SAVED_H

#include "daemon/settings/settings.h"

/*
 * In $RUNTIME_DIRECTORY, which the service manager makes for this daemon and empties when the kept descriptors go. 0 also where there
 * is no such folder; else negative errno, and what was saved before is as it was.
 */
int settings_saved_write(const struct settings *settings);
/* Where they are, if they are; -ENOENT: there is no such folder. */
int settings_saved_path(char *buf, size_t size);

#endif
