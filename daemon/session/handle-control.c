/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that change other clients or NICs (kill, drain, ports), and monitors, which only listen.
 *
 * An administrator is root or the daemon's own uid, as the socket reports it. A client with the uid of a session sees it but must not
 * end it: two containers may share a uid. Only controllers may send these requests, so a program that was given a client's
 * connection cannot. The table in dispatch.c enforces both. Control thread.
 */
#include "daemon/session/dispatch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <syslog.h>

#include "daemon/session/drain.h"
#include "daemon/session/save.h"
#include "daemon/session/monitor.h"

/* Logs the actor: not one of the lines that clients provoke, which are dropped when there are too many. */
static void note_admin(struct request *req, enum note_topic topic, const char *text)
{
	registry_note(req->session->registry, &(struct note){
		.level = LOG_NOTICE, .topic = topic, .session = req->session, .text = text});
}

int handle_monitor(struct request *req)
{
	int r = monitor_join(req->session);

	if (r == -EBUSY)
		return request_fail(req, SHMD_STATUS_BUSY, "user %u already has %u monitors",
				    req->session->identity.uid, MONITOR_MAX_PER_UID);
	return r;
}

int handle_session_kill(struct request *req)
{
	const struct session *caller = req->session;
	uint64_t id = req->msg->session_kill_req.session;
	struct session *victim = registry_find_session(caller->registry, id);

	if (!victim)
		return request_fail(req, SHMD_STATUS_NOT_FOUND, "there is no session %" PRIu64, id);
	session_end(victim, SHMD_STATUS_KILLED, "user %u killed it (pid %u)", caller->identity.uid,
		    caller->identity.pid);
	return 0;
}

int handle_drain(struct request *req)
{
	const struct msg_drain_req *drain = &req->msg->drain_req;
	struct registry *registry = req->session->registry;
	char text[MSG_TEXT_BYTES];

	snprintf(text, sizeof(text), "user %u %s a drain", req->session->identity.uid, drain->on ? "started" : "stopped");
	note_admin(req, NOTE_SESSION, text);
	if (drain->on)
		drain_begin(registry, drain->grace_nsec);
	else
		drain_stop(registry);
	return 0;
}

int handle_port_set(struct request *req)
{
	const struct msg_port_set_req *set = &req->msg->port_set_req;
	struct registry_nic *rnic = request_nic_by_name(req, set->nic);
	char text[MSG_TEXT_BYTES];
	int r;

	if (!rnic)
		return SHMD_STATUS_NO_NIC;
	if (set->state != NIC_PORT_DOWN && set->state != NIC_PORT_ACTIVE)
		return request_fail(req, SHMD_STATUS_INVALID, "a port can be down (1) or active (2), not %u",
				    set->state);
	snprintf(text, sizeof(text), "user %u takes the port of %s %s", req->session->identity.uid, rnic->info.name,
		 set->state == NIC_PORT_DOWN ? "down" : "up");
	note_admin(req, NOTE_NIC, text);
	r = rnic->nic->ops->port_set(rnic->nic, (enum nic_port_state)set->state);
	if (r < 0)
		return r;
	rnic->is_taken_down = set->state == NIC_PORT_DOWN;
	registry_save(req->session->registry);
	return 0;
}
