/* SPDX-License-Identifier: Apache-2.0 */
/* Events of NICs. */
#ifndef SHMEMD_SESSION_EVENTS_H
#define SHMEMD_SESSION_EVENTS_H

#include "daemon/nic/nic.h"

struct registry;
struct registry_nic;

/* Tell the log, the sessions that the event concerns, and monitors. */
void registry_event(struct registry *registry, struct registry_nic *rnic, const struct nic_event *event);

#endif
