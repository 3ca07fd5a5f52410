/* SPDX-License-Identifier: Apache-2.0 */
/* What sessions say of a hot spot: which NICs should carry the load, and who loads the one that does. Control thread. */
#ifndef SHMEMD_SESSION_HOT_NICS_H
#define SHMEMD_SESSION_HOT_NICS_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/session/hot-spot.h"

struct registry;
struct session;

/*
 * NICs that live sessions should use, a bit per registry index: those they have opened, and all that the map of the node gives
 * to the GPUs that they named; of these the ones whose port is active. groups[i]: those that should share the load of NIC i. The NICs of
 * one process do, and groups that have one in common. Without memory none.
 */
uint64_t hot_nics_assigned(struct registry *registry, uint64_t groups[HOT_SPOT_MAX_NICS]);
/* "soft0, soft1", and how many more there are where they do not fit: "soft0, soft1 and 7 more". 32 bytes at least. */
void hot_nics_names(const struct registry *registry, uint64_t nics, char *buf, size_t size);
/*
 * Processes that have that NIC open, "pid 42 (name), pid 43 (name) and 7 more": of all sessions, or of those that the caller may see. Empty
 * where there is none.
 */
void hot_nics_processes(struct registry *registry, unsigned int nic, const struct session *caller, char *buf, size_t size);

#endif
