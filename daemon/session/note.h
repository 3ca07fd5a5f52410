/* SPDX-License-Identifier: Apache-2.0 */
/* Lines for the log, each with its facts. */
#ifndef SHMEMD_SESSION_NOTE_H
#define SHMEMD_SESSION_NOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/session/catalog.h"

struct msg;
struct registry;
struct session;

enum note_topic {
	NOTE_PROTO = 1,
	NOTE_SESSION = 2,
	NOTE_NIC = 4,
};

/* Something worth a line in the log, and its facts. */
struct note {
	int level; /* LOG_* of syslog.h */
	enum note_topic topic;
	bool provoked; /* by a client, who must not be able to flood the log */
	const struct session *session; /* or NULL */
	const char *nic; /* or NULL */
	const char *kind; /* of the message, or NULL */
	uint32_t qpn; /* or 0 */
	enum catalog_event event; /* or CATALOG_NONE */
	const char *text;
};

void registry_note(struct registry *registry, const struct note *note);
/* A line about this session; its client provokes it. */
void session_note(struct session *session, int level, enum note_topic topic, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* An operational event of this session. */
void session_note_event(struct session *session, enum catalog_event event, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* One line for the log when messages are traced; direction "->" or "<-". */
void session_trace(struct session *session, const char *direction, const struct msg *msg);

#endif
