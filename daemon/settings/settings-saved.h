/* SPDX-License-Identifier: Apache-2.0 */
/* Saves the settings of the running daemon for the next one: a wrong line of a file must not end kept sessions. */
#ifndef SHMEMD_SETTINGS_SAVED_H
#define SHMEMD_SETTINGS_SAVED_H

#include "daemon/settings/settings.h"

/*
 * Writes to $RUNTIME_DIRECTORY, which the service manager creates for this daemon and empties when it drops the kept
 * descriptors. 0 also if there is no such folder; else negative errno, and the former file is still there.
 */
int settings_saved_write(const struct settings *settings);
/* The path of the file, which may not exist; -ENOENT: there is no such folder. */
int settings_saved_path(char *buf, size_t size);

#endif
