/* SPDX-License-Identifier: Apache-2.0 */
/* NICs that the host has and no backend drives: they are shown, their changes are told, and no session opens one. */
#ifndef SHMEMD_SESSION_UNDRIVEN_H
#define SHMEMD_SESSION_UNDRIVEN_H

#include <stddef.h>

#include "daemon/nic/nic.h"

struct registry;

/* What is there now, in place of what was; owned by the registry from here on. Tells what came, went and changed its state. */
void undriven_update(struct registry *registry, struct nic_seen_list *list);
/* By name; NULL: none of these. */
const struct nic_seen *undriven_find(const struct registry *registry, const char *name);
/* Why no backend drives it, and what to do. */
void undriven_text(const struct registry *registry, const struct nic_seen *seen, char *text, size_t size);

#endif
