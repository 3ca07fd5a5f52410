/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Administration: monitors, ending sessions, drains, ports.
 *
 * The daemon checks permissions; these functions check pointers only. The monitor's function runs without the lock.
 */
#include <string.h>

#include "libclient/request.h"

/* Once: a second request would read the events that wait in the socket, more than the queue has room for. */
static int start_monitor(struct shmd_client *client)
{
	_cleanup_request_ struct request call;
	bool is_monitor;
	int r;

	request_init(&call, MSG_MONITOR_REQ, MSG_OK_REP);
	client_lock(client);
	is_monitor = client->events.is_monitor;
	client_unlock(client);
	if (is_monitor)
		return 0;
	r = request_call(client, &call);
	if (r < 0)
		return r;
	client_lock(client);
	client->events.is_monitor = true;
	client_unlock(client);
	return 0;
}

int shmd_admin_monitor(struct shmd_client *client,
		       int (*fn)(void *arg, const struct shmd_admin_event *event), void *arg)
{
	struct event_entry entry;
	int r;

	r = client_check(client);
	if (r < 0)
		return r;
	if (!fn)
		return text_fail(-EINVAL, "fn is NULL");
	r = start_monitor(client);
	while (!r) {
		r = event_next(client, UINT64_MAX, &entry);
		if (!r)
			r = fn(arg, &entry.event);
	}
	return r;
}

int shmd_admin_kill(struct shmd_client *client, uint64_t session)
{
	_cleanup_request_ struct request call;
	int r;

	request_init(&call, MSG_SESSION_KILL_REQ, MSG_OK_REP);
	r = client_check(client);
	if (r < 0)
		return r;
	call.req.session_kill_req.session = session;
	return request_call(client, &call);
}

int shmd_admin_drain(struct shmd_client *client, bool on, uint64_t grace_nsec)
{
	_cleanup_request_ struct request call;
	int r;

	request_init(&call, MSG_DRAIN_REQ, MSG_OK_REP);
	r = client_check(client);
	if (r < 0)
		return r;
	call.req.drain_req.on = on;
	call.req.drain_req.grace_nsec = grace_nsec;
	return request_call(client, &call);
}

int shmd_admin_port_set(struct shmd_client *client, const char *nic, bool up)
{
	_cleanup_request_ struct request call;
	int r;

	request_init(&call, MSG_PORT_SET_REQ, MSG_OK_REP);
	r = client_check(client);
	if (r < 0)
		return r;
	r = request_set_nic(call.req.port_set_req.nic, nic);
	if (r < 0)
		return r;
	call.req.port_set_req.state = up ? 2 : 1;
	return request_call(client, &call);
}
