/* SPDX-License-Identifier: Apache-2.0 */
/* NICs that the host has and no backend drives: lists show them, monitors get their changes, and no session opens one. */
#ifndef SHMEMD_SESSION_UNMANAGED_H
#define SHMEMD_SESSION_UNMANAGED_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/host/host.h"

struct registry;
struct registry_nic;

/*
 * The present NICs, in place of the former ones; owned by the registry from here on. Reports NICs that came, went or changed their state. NICs that
 * the registry has are dropped: they may have been seen before they were opened.
 */
void unmanaged_update(struct registry *registry, struct host_list *list);
/* The registry has this NIC now: it is not one of these any more, and no event says that it went. */
void unmanaged_forget(struct registry *registry, const struct registry_nic *rnic);
/* By name; NULL: none of these. */
const struct host_nic *unmanaged_find(const struct registry *registry, const char *name);
/* A ConnectX NIC that this daemon may open, as far as one can see. */
bool unmanaged_is_openable(const struct registry *registry, const struct host_nic *seen);
/* Why no backend drives it, and what to do. */
void unmanaged_text(const struct registry *registry, const struct host_nic *seen, char *text, size_t size);

#endif
