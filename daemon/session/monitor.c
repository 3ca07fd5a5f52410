/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events for monitors.
 *
 * An event of a session goes to administrators and to monitors of the session's user; an event of a NIC or the daemon goes to all
 * monitors. It is encoded once, and only if there is a monitor. A uid has at most 16 monitors, since each costs a packet of every
 * event. A monitor that does not read costs its socket's buffer and MONITOR_MAX_PACKETS packets, which leaves half of the output
 * queue to replies; it loses the newest events and gets their number once it reads again. The daemon neither ends it nor waits for it. A NIC
 * counts the events that it merged or had no room for (nic_event.n_lost); monitors get them as EVENT_DROPPED with the NIC's name.
 * Control thread.
 */
#include "daemon/host/host.h"
#include "daemon/session/monitor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <syslog.h>
#include <time.h>

#include "daemon/session/session.h"
#include "proto/base/nsec.h"
#include "proto/base/show.h"

/* An event, and whose affair it is; NULL: everybody's. */
struct news {
	const uint32_t *uid;
	struct msg msg;
};

static void news_init(struct news *news, enum msg_event_kind kind, const struct session *about)
{
	struct msg_event *event = &news->msg.event;
	struct timespec now;

	msg_init(&news->msg, MSG_EVENT, 0);
	clock_gettime(CLOCK_REALTIME, &now);
	event->kind = kind;
	event->time_nsec = nsec_from_timespec(&now);
	news->uid = NULL;
	if (!about)
		return;
	news->uid = &about->identity.uid;
	event->session = about->id;
	event->uid = about->identity.uid;
	event->pid = about->identity.pid;
}

static bool is_behind(const struct session *monitor)
{
	return monitor->n_dropped > 0 || monitor->connection.n_out >= MONITOR_MAX_PACKETS;
}

static void tell_one(struct session *monitor, const struct news *news, size_t bytes)
{
	if (monitor->ended || (news->uid && !session_may_see(monitor, *news->uid)))
		return;
	if (!is_behind(monitor))
		session_send_packet(monitor, &news->msg, monitor->registry->packet, bytes, NULL);
	else if (monitor->n_dropped < UINT32_MAX)
		monitor->n_dropped++;
}

static void tell(struct registry *registry, const struct news *news)
{
	int bytes = msg_encode(&news->msg, registry->packet, REGISTRY_PACKET_BYTES);
	struct session *monitor;

	if (bytes < 0)
		return; /* no memory: as good as lost on the way */
	/* A monitor that ends here stays in the list until it is freed. */
	list_for_each_entry(monitor, &registry->monitors, monitor_link)
		tell_one(monitor, news, (size_t)bytes);
}

static bool nobody_listens(const struct registry *registry)
{
	return list_empty(&registry->monitors);
}

/* ---- monitors ------------------------------------------------------------------------------------------------- */

static unsigned int count_of_user(const struct registry *registry, uint32_t uid)
{
	const struct session *monitor;
	unsigned int n = 0;

	list_for_each_entry(monitor, &registry->monitors, monitor_link)
		n += monitor->identity.uid == uid;
	return n;
}

int monitor_join(struct session *session)
{
	struct registry *registry = session->registry;

	if (!list_empty(&session->monitor_link))
		return 0;
	if (count_of_user(registry, session->identity.uid) >= MONITOR_MAX_PER_UID)
		return -EBUSY;
	list_add_tail(&registry->monitors, &session->monitor_link);
	registry->n_monitors++;
	return 0;
}

void monitor_leave(struct session *session)
{
	if (list_empty(&session->monitor_link))
		return;
	list_del(&session->monitor_link);
	session->registry->n_monitors--;
}

void monitor_catch_up(struct session *session)
{
	struct news news;

	if (session->n_dropped == 0 || connection_wants_write(&session->connection))
		return;
	news_init(&news, MSG_EVENT_DROPPED, NULL);
	news.msg.event.number = session->n_dropped;
	snprintf(news.msg.event.text, sizeof(news.msg.event.text),
		 "lost %" PRIu32 " event%s: this monitor does not read fast enough", session->n_dropped, plural_s(session->n_dropped));
	session->n_dropped = 0;
	session_send(session, &news.msg, NULL);
}

/* ---- what happens ------------------------------------------------------------------------------------------------ */

void monitor_session_opened(const struct session *session)
{
	struct news news;

	if (session->role != MSG_ROLE_CLIENT || nobody_listens(session->registry))
		return;
	news_init(&news, MSG_EVENT_SESSION_OPENED, session);
	snprintf(news.msg.event.text, sizeof(news.msg.event.text), "%s, %s", session->identity.command,
		 session->library);
	tell(session->registry, &news);
}

void monitor_session_closed(const struct session *session)
{
	struct news news;

	if (session->version == 0 || session->role != MSG_ROLE_CLIENT || nobody_listens(session->registry))
		return;
	news_init(&news, MSG_EVENT_SESSION_CLOSED, session);
	news.msg.event.detail = session->end_status;
	snprintf(news.msg.event.text, sizeof(news.msg.event.text), "%s",
		 session->end_text[0] ? session->end_text : "the client closed it or is gone");
	tell(session->registry, &news);
}

void monitor_refused(const struct session *session, enum shmd_status status, const char *text)
{
	struct news news;

	if (nobody_listens(session->registry))
		return;
	news_init(&news, MSG_EVENT_REFUSED, session);
	news.msg.event.session = 0; /* it never became one */
	news.msg.event.detail = status;
	snprintf(news.msg.event.text, sizeof(news.msg.event.text), "%s, %s: %s", session->identity.command,
		 status_name(status), text);
	tell(session->registry, &news);
}

void monitor_drain(struct registry *registry, bool on, const char *text)
{
	struct news news;

	if (nobody_listens(registry))
		return;
	news_init(&news, MSG_EVENT_DRAIN, NULL);
	news.msg.event.detail = on;
	snprintf(news.msg.event.text, sizeof(news.msg.event.text), "%s", text);
	tell(registry, &news);
}

static void tell_of_nic(struct registry *registry, struct news *news, const char *nic, const char *text)
{
	struct msg_event *event = &news->msg.event;

	snprintf(event->nic_name, sizeof(event->nic_name), "%s", nic);
	snprintf(event->text, sizeof(event->text), "%s", text);
	tell(registry, news);
}

void monitor_nic_dropped(struct registry *registry, const struct registry_nic *rnic, const struct nic_event *event)
{
	struct news news;

	if (nobody_listens(registry))
		return;
	news_init(&news, MSG_EVENT_DROPPED, registry_find_session(registry, event->session_id));
	news.msg.event.number = event->n_lost;
	snprintf(news.msg.event.nic_name, sizeof(news.msg.event.nic_name), "%s", rnic->info.name);
	snprintf(news.msg.event.text, sizeof(news.msg.event.text),
		 "lost %" PRIu32 " event%s of %s: more came at once than it keeps", event->n_lost, plural_s(event->n_lost), rnic->info.name);
	tell(registry, &news);
}

void monitor_nic_event(struct registry *registry, const struct registry_nic *rnic,
		       const struct nic_event *news_of_nic, const struct msg_event *told)
{
	struct session *about = NULL;
	struct news news;

	if (nobody_listens(registry))
		return;
	if (news_of_nic->session_id != 0) {
		about = registry_find_session(registry, news_of_nic->session_id);
		if (!about)
			return; /* it ended meanwhile, and what its QPs did with it */
	}
	news_init(&news, told->kind, about);
	news.msg.event.number = told->number;
	news.msg.event.detail = told->detail;
	tell_of_nic(registry, &news, rnic->info.name, told->text);
	if (news_of_nic->n_lost > 0)
		monitor_nic_dropped(registry, rnic, news_of_nic);
}

void monitor_unmanaged(struct registry *registry, enum msg_event_kind kind, const struct host_nic *seen, const char *text)
{
	struct news news;

	if (nobody_listens(registry))
		return;
	news_init(&news, kind, NULL);
	news.msg.event.detail = kind == MSG_EVENT_PORT_STATE ? seen->state : 0;
	tell_of_nic(registry, &news, seen->name, text);
}

void monitor_nic_came(const struct registry_nic *rnic, const char *text)
{
	struct news news;

	if (nobody_listens(rnic->registry))
		return;
	news_init(&news, MSG_EVENT_PORT_STATE, NULL);
	news.msg.event.detail = rnic->info.state;
	tell_of_nic(rnic->registry, &news, rnic->info.name, text);
}

void monitor_queues(const struct session *session, enum msg_event_kind kind, const struct session_queues *queues)
{
	const char *nic = queues->nic->rnic->info.name;
	struct msg_event *event;
	struct news news;

	if (nobody_listens(session->registry))
		return;
	news_init(&news, kind, session);
	event = &news.msg.event;
	event->number = queues->first_qpn;
	event->detail = queues->n_qps;
	snprintf(event->nic_name, sizeof(event->nic_name), "%s", nic);
	snprintf(event->text, sizeof(event->text), "%" PRIu32 " QP%s on %s", queues->n_qps, plural_s(queues->n_qps), nic);
	tell(session->registry, &news);
}
