/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of NICs, on their way to the log, the sessions they concern, and monitors.
 *
 * A NIC's event changes health words and the daemon's state of the NIC and its QPs; the client of each session that has the NIC open
 * gets a message. An event of a whole NIC is logged once, not once for each session.
 *
 * Clients learn of a QP in error in three ways: the error CQE, the word beside the QP's dbrec (SHMD_QP_ERROR_OFFSET, for waits
 * without a request under way), and an event to the session. ERR that the client requested is not an event. Control thread.
 */
#include "daemon/session/registry.h"

#include <stdio.h>
#include <syslog.h>

#include "daemon/session/monitor.h"
#include "daemon/session/qp-cache.h"
#include "daemon/session/session.h"

/* ---- words -------------------------------------------------------------------------------------------------------- */

static const char *port_state_text(enum nic_port_state state)
{
	return state == NIC_PORT_ACTIVE ? "active" : state == NIC_PORT_DOWN ? "down" : "lost";
}

static void fill_event(struct msg_event *event, const struct registry_nic *rnic, const struct nic_event *news)
{
	static const enum msg_event_kind kinds[] = {
		[NIC_EVENT_QP_ERROR] = MSG_EVENT_QP_ERROR,
		[NIC_EVENT_CQ_ERROR] = MSG_EVENT_CQ_ERROR,
		[NIC_EVENT_PORT_STATE] = MSG_EVENT_PORT_STATE,
		[NIC_EVENT_LOST] = MSG_EVENT_NIC_LOST,
		[NIC_EVENT_RETURNED] = MSG_EVENT_PORT_STATE,
		[NIC_EVENT_DROPPED] = MSG_EVENT_DROPPED,
		[NIC_EVENT_LOOK] = MSG_EVENT_DROPPED,
	};
	const char *name = rnic->info.name;

	event->kind = kinds[news->kind];
	event->number = news->number;
	event->detail = event->kind == MSG_EVENT_PORT_STATE ? news->state : news->syndrome;
	switch (news->kind) {
	case NIC_EVENT_QP_ERROR:
		if (news->number)
			snprintf(event->text, sizeof(event->text), "QP 0x%x on %s is in error, syndrome 0x%x",
				 news->number, name, news->syndrome);
		else
			snprintf(event->text, sizeof(event->text),
				 "%u QPs on %s are in error, the first with syndrome 0x%x", news->n_lost + 1, name,
				 news->syndrome);
		break;
	case NIC_EVENT_CQ_ERROR:
		if (news->number)
			snprintf(event->text, sizeof(event->text), "CQ 0x%x on %s is in error", news->number, name);
		else
			snprintf(event->text, sizeof(event->text), "%u CQs on %s are in error", news->n_lost + 1,
				 name);
		break;
	case NIC_EVENT_DROPPED: /* for monitors alone */
	case NIC_EVENT_LOOK: /* for the registry alone */
		break;
	case NIC_EVENT_PORT_STATE:
		snprintf(event->text, sizeof(event->text), "the port of %s is %s", name,
			 port_state_text(news->state));
		break;
	case NIC_EVENT_LOST:
		snprintf(event->text, sizeof(event->text), "%s is gone", name);
		break;
	case NIC_EVENT_RETURNED: /* for monitors alone */
		snprintf(event->text, sizeof(event->text), "%s is back, its port is %s", name,
			 port_state_text(news->state));
		break;
	}
}

/* Events of a NIC as a whole are the administrator's business; a QP's error is its client's. */
static void note_nic_event(struct registry *registry, const struct registry_nic *rnic,
			   const struct nic_event *event)
{
	const char *name = rnic->info.name;
	struct note note = {.topic = NOTE_NIC, .nic = name};
	char text[NIC_NAME_BYTES + 32];

	if (event->kind == NIC_EVENT_LOST || (event->kind == NIC_EVENT_PORT_STATE && event->state == NIC_PORT_LOST)) {
		note.level = LOG_ERR;
		note.event = CATALOG_NIC_LOST;
		snprintf(text, sizeof(text), "NIC %s is gone", name);
	} else if (event->kind == NIC_EVENT_RETURNED) {
		note.level = LOG_NOTICE;
		note.event = CATALOG_NIC_BACK;
		snprintf(text, sizeof(text), "NIC %s is back", name);
	} else if (event->kind == NIC_EVENT_PORT_STATE) {
		bool up = event->state == NIC_PORT_ACTIVE;

		note.level = up ? LOG_NOTICE : LOG_WARNING;
		note.event = up ? CATALOG_PORT_UP : CATALOG_PORT_DOWN;
		snprintf(text, sizeof(text), "the port of NIC %s is %s", name, up ? "up" : "down");
	} else {
		return;
	}
	note.text = text;
	registry_note(registry, &note);
}

/* ---- who hears ----------------------------------------------------------------------------------------------------- */

/* Earlier questions may be answered later. The rate is that of the state before, so until the answer it is not known. */
static void note_state(struct registry_nic *rnic, const struct nic_event *event)
{
	if (!rnic->nic->blocks || (event->kind != NIC_EVENT_PORT_STATE && event->kind != NIC_EVENT_LOST &&
				   event->kind != NIC_EVENT_RETURNED))
		return;
	rnic->info.state = event->kind == NIC_EVENT_LOST ? NIC_PORT_LOST : event->state;
	rnic->info.rate_mbps = 0;
	registry_ask_nic(rnic);
}

static void set_health(struct session *session, const struct session_nic *nic, const struct nic_event *event)
{
	if (event->kind == NIC_EVENT_LOST)
		session_health_port(session, nic, NIC_PORT_LOST);
	else if (event->kind == NIC_EVENT_PORT_STATE)
		session_health_port(session, nic, event->state);
}

/* To those that had the NIC before it came back it stays lost. */
static void tell_session(struct session *session, const struct registry_nic *rnic, const struct nic_event *event, struct msg *msg)
{
	struct session_nic *nic = session_nic_by_rnic(session, rnic);

	if (!nic || session->ended || event->kind == NIC_EVENT_RETURNED)
		return;
	set_health(session, nic, event);
	if (event->kind == NIC_EVENT_QP_ERROR)
		qp_cache_error(nic, event->number, event->syndrome);
	session->saved.changed = true;
	msg->event.nic = nic->index;
	session_send(session, msg, NULL);
}

static void tell(struct registry *registry, const struct registry_nic *rnic, const struct nic_event *event)
{
	struct session *session;
	struct msg msg;

	msg_init(&msg, MSG_EVENT, 0);
	fill_event(&msg.event, rnic, event);
	list_for_each_entry(session, &registry->sessions, link)
		if (event->session_id == 0 || event->session_id == session->id)
			tell_session(session, rnic, event, &msg);
	monitor_nic_event(registry, rnic, event, &msg.event);
}

static void look(struct registry *registry, struct registry_nic *rnic, uint64_t id)
{
	struct session *session;

	if (id == 0)
		registry_ask_nic(rnic);
	list_for_each_entry(session, &registry->sessions, link)
		if (id == session->id)
			session_look(session);
}

void registry_event(struct registry *registry, struct registry_nic *rnic, const struct nic_event *event)
{
	if (event->kind == NIC_EVENT_DROPPED) {
		monitor_nic_dropped(registry, rnic, event);
		return;
	}
	if (event->kind == NIC_EVENT_LOOK) {
		look(registry, rnic, event->session_id);
		return;
	}
	note_state(rnic, event);
	if (event->session_id == 0)
		note_nic_event(registry, rnic, event);
	if (event->kind == NIC_EVENT_RETURNED)
		registry_refresh_nic(rnic);
	tell(registry, rnic, event);
}
