/* SPDX-License-Identifier: Apache-2.0 */
/* Telling monitors what happens: who may see what, and what becomes of those who do not read. */
#ifndef SHMEMD_SESSION_MONITOR_H
#define SHMEMD_SESSION_MONITOR_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/nic/nic.h"
#include "proto/codec.h"
#include "proto/status.h"

struct host_nic;
struct registry;
struct registry_nic;
struct session;
struct session_queues;

/* Monitors of one user; each costs a packet of every event. */
#define MONITOR_MAX_PER_UID 16u
/* Events that wait for a monitor beyond its socket; the rest of the queue is for replies. */
#define MONITOR_MAX_PACKETS 32u

/* The session gets every event that its user may see, from now on. Twice is once. -EBUSY: too many of this user. */
int monitor_join(struct session *session);
void monitor_leave(struct session *session); /* also when it never joined */
/* Its socket takes packets again: say how much was lost. */
void monitor_catch_up(struct session *session);

void monitor_session_opened(const struct session *session);
void monitor_session_closed(const struct session *session); /* nothing for who was no client */
void monitor_refused(const struct session *session, enum shmd_status status, const char *text);
void monitor_nic_event(struct registry *registry, const struct registry_nic *rnic,
		       const struct nic_event *news, const struct msg_event *told);
/* A NIC that no backend drives: found or changed (MSG_EVENT_PORT_STATE), or gone (MSG_EVENT_NIC_LOST). */
void monitor_unmanaged(struct registry *registry, enum msg_event_kind kind, const struct host_nic *seen, const char *text);
/* One that no session had yet. */
void monitor_nic_came(const struct registry_nic *rnic, const char *text);
/* Events of a NIC that are not reported one by one; event->session_id: whose they were, 0: of several sessions. */
void monitor_nic_dropped(struct registry *registry, const struct registry_nic *rnic, const struct nic_event *event);
void monitor_drain(struct registry *registry, bool on, const char *text);

/* A batch that is complete, or was and is gone from its NIC. */
void monitor_queues(const struct session *session, enum msg_event_kind kind, const struct session_queues *queues);

#endif
