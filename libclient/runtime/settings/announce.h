/* SPDX-License-Identifier: Apache-2.0 */
/* The lines that SHMD_VERSION and SHMD_INFO ask for. */
#ifndef SHMD_RUNTIME_ANNOUNCE_H
#define SHMD_RUNTIME_ANNOUNCE_H

#include "libclient/runtime/settings/settings.h"

/* To stderr in one write(), by rank 0, at most once in a process; nothing if neither setting is on. Any thread. */
void runtime_settings_announce(const struct runtime_settings *settings, int rank);

#endif
