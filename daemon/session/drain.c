/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drain: the daemon rejects new clients at once (handle-hello.c). Live ones get an event and the time of grace. Then 16 sessions
 * end in each turn of 1 ms, so that the daemon keeps answering. Controllers may still connect.
 *
 * Has no loop: the owner of the registry arms the timer through a hook and calls drain_run(). Control thread.
 */
#include "daemon/session/drain.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <syslog.h>

#include "daemon/session/monitor.h"
#include "daemon/session/session.h"
#include "proto/base/nsec.h"

#define DRAIN_ENDS_PER_TURN 16
#define DRAIN_TURN_NSEC NSEC_PER_MSEC
/* A timer need not know of times that nobody waits for. */
#define DRAIN_MAX_ALARM_NSEC (3600 * NSEC_PER_SEC)

static void set_alarm(struct registry *registry, uint64_t nsec)
{
	const struct registry_hooks *hooks = &registry->attr.hooks;

	if (hooks->drain_alarm)
		hooks->drain_alarm(hooks->arg, nsec < DRAIN_MAX_ALARM_NSEC ? nsec : DRAIN_MAX_ALARM_NSEC);
}

static void tell_client(struct session *session, bool on, const char *text)
{
	struct msg msg;

	msg_init(&msg, MSG_EVENT, 0);
	msg.event.kind = MSG_EVENT_DRAIN;
	msg.event.detail = on;
	snprintf(msg.event.text, sizeof(msg.event.text), "%s", text);
	session_send(session, &msg, NULL);
}

static void tell_all(struct registry *registry, bool on, const char *text)
{
	struct session *session;

	registry_note(registry, &(struct note){
		.level = LOG_NOTICE,
		.topic = NOTE_SESSION,
		.event = on ? CATALOG_DRAIN_BEGUN : CATALOG_DRAIN_ENDED,
		.text = text,
	});
	list_for_each_entry(session, &registry->sessions, link)
		if (session_is_listed(session))
			tell_client(session, on, text);
	monitor_drain(registry, on, text);
}

void drain_begin(struct registry *registry, uint64_t grace_nsec)
{
	char text[MSG_TEXT_BYTES];

	snprintf(text, sizeof(text),
		 "shmemd is being drained: it refuses new sessions and ends live ones in %" PRIu64 ".%03u s",
		 grace_nsec / NSEC_PER_SEC, (unsigned int)(grace_nsec % NSEC_PER_SEC / NSEC_PER_MSEC));
	registry->draining = true;
	registry->drain_end_nsec = nsec_add(nsec_now(), grace_nsec);
	tell_all(registry, true, text);
	set_alarm(registry, grace_nsec);
}

void drain_stop(struct registry *registry)
{
	if (!registry->draining)
		return;
	registry->draining = false;
	tell_all(registry, false, "the drain was stopped: shmemd accepts new sessions, and live ones continue");
}

uint64_t drain_left_nsec(const struct registry *registry)
{
	uint64_t now = nsec_now();

	return registry->draining && now < registry->drain_end_nsec ? registry->drain_end_nsec - now : 0;
}

void drain_run(struct registry *registry)
{
	uint64_t left = drain_left_nsec(registry);
	struct session *session;

	if (!registry->draining)
		return;
	if (left > 0) {
		set_alarm(registry, left);
		return;
	}
	for (int i = 0; i < DRAIN_ENDS_PER_TURN; i++) {
		session = registry_next_session(registry, 0);
		if (!session)
			return;
		session_end(session, SHMD_STATUS_DRAINING,
			    "an administrator drains the daemon, and the grace time is over");
	}
	set_alarm(registry, DRAIN_TURN_NSEC);
}
