/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines for the log, and the facts beside them. The owner of the registry writes them; this file only composes them. Lines that
 * clients provoke say so, since the log limits their rate. Control thread.
 */
#include "daemon/session/note.h"

#include <stdarg.h>
#include <stdio.h>
#include <syslog.h>

#include "daemon/session/session.h"

void registry_note(struct registry *registry, const struct note *note)
{
	const struct registry_hooks *hooks = &registry->attr.hooks;

	if (!hooks->note || (note->level == LOG_DEBUG && !(hooks->debug & note->topic)))
		return;
	hooks->note(hooks->arg, note);
}

static void __attribute__((format(printf, 3, 0)))
note_text(struct session *session, struct note note, const char *fmt, va_list ap)
{
	char text[MSG_TEXT_BYTES + 64];

	vsnprintf(text, sizeof(text), fmt, ap);
	note.session = session;
	note.text = text;
	registry_note(session->registry, &note);
}

/* Clients provoke every event but a kill: a storm of theirs does not hide that one. */
void session_note_event(struct session *session, enum catalog_event event, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	note_text(session, (struct note){
		.level = LOG_NOTICE,
		.topic = NOTE_SESSION,
		.event = event,
		.provoked = event != CATALOG_SESSION_KILLED,
	}, fmt, ap);
	va_end(ap);
}

void session_note(struct session *session, int level, enum note_topic topic, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	note_text(session, (struct note){.level = level, .topic = topic, .provoked = true}, fmt, ap);
	va_end(ap);
}

void session_trace(struct session *session, const char *direction, const struct msg *msg)
{
	char line[512];
	int n;

	if (!(session->registry->attr.hooks.debug & NOTE_PROTO))
		return;
	n = snprintf(line, sizeof(line), "%s ", direction);
	msg_format(msg, line + n, sizeof(line) - (size_t)n);
	registry_note(session->registry, &(struct note){
		.level = LOG_DEBUG,
		.topic = NOTE_PROTO,
		.session = session,
		.kind = msg_kind_name(msg->kind),
		.text = line,
	});
}
