/* SPDX-License-Identifier: Apache-2.0 */
/*
 * News that a session gets without asking: the health page and events of its NICs.
 *
 * A health word keeps its first final value; "port down" is the one that is not final, and goes when the port is up
 * again. The page is shared with the client: it may hold anything, so it is only ever written and never believed.
 * Control thread.
 */
#include "daemon/session/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "proto/base/cleanup.h"

static bool health_replace(uint32_t *word, uint32_t old, uint32_t value)
{
	return __atomic_compare_exchange_n(word, &old, value, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* One try for each value that gives way: the library writes final values only. */
static void health_set_final(uint32_t *word, uint32_t value)
{
	if (!health_replace(word, SHMD_HEALTH_OK, value))
		health_replace(word, SHMD_HEALTH_PORT_DOWN, value);
}

void session_health_port(struct session *session, const struct session_nic *nic, enum nic_port_state state)
{
	uint32_t *word = &session->health->nic[nic->index];

	if (state == NIC_PORT_LOST)
		health_set_final(word, SHMD_HEALTH_NIC_LOST);
	else if (state == NIC_PORT_DOWN)
		health_replace(word, SHMD_HEALTH_OK, SHMD_HEALTH_PORT_DOWN);
	else
		health_replace(word, SHMD_HEALTH_PORT_DOWN, SHMD_HEALTH_OK);
}

void session_health_end(struct session *session)
{
	if (!session->health)
		return;
	health_set_final(&session->health->session, SHMD_HEALTH_SESSION_ENDED);
	for (unsigned int i = 0; i < SHMD_HEALTH_NICS; i++)
		health_set_final(&session->health->nic[i], SHMD_HEALTH_SESSION_ENDED);
}

int session_make_health(struct session *session)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	_cleanup_close_ int fd = memfd_create("shmemd-health", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *page;

	if (fd < 0 || ftruncate(fd, sizeof(struct shmd_health_page)) < 0 ||
	    fcntl(fd, F_ADD_SEALS, seals) < 0)
		return -errno;
	page = mmap(NULL, sizeof(struct shmd_health_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return -errno;
	session->health = page;
	session->health->version = SHMD_HEALTH_PAGE_VERSION;
	session->health_fd = take_fd(&fd);
	return 0;
}

static const char *port_state_text(enum nic_port_state state)
{
	return state == NIC_PORT_ACTIVE ? "active" : state == NIC_PORT_DOWN ? "down" : "lost";
}

void session_fill_event(struct msg_event *event, const struct registry_nic *rnic,
			const struct nic_event *news)
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

void session_nic_event(struct session *session, const struct registry_nic *rnic,
		       const struct nic_event *event)
{
	struct session_nic *nic = session_nic_by_rnic(session, rnic);
	struct msg msg;

	if (!nic || session->ended)
		return;
	if (event->kind == NIC_EVENT_LOST)
		session_health_port(session, nic, NIC_PORT_LOST);
	else if (event->kind == NIC_EVENT_PORT_STATE)
		session_health_port(session, nic, event->state);
	else if (event->kind == NIC_EVENT_QP_ERROR)
		session_know_error(nic, event->number, event->syndrome);
	session_changed(session);
	msg_init(&msg, MSG_EVENT, 0);
	session_fill_event(&msg.event, rnic, event);
	msg.event.nic = nic->index;
	session_send(session, &msg, NULL);
}
