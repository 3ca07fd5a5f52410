/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an administrator does: listen, end sessions, drain, set ports.
 *
 * The daemon decides who may; nothing is checked here but pointers. The monitor's function runs without the lock.
 */
#include <string.h>

#include "libclient/client-private.h"

int admin_set_nic(char name[MSG_NAME_BYTES], const char *nic)
{
	if (!nic || !*nic || strlen(nic) >= MSG_NAME_BYTES)
		return text_fail(-EINVAL, "nic is not the name of a NIC");
	text_copy(name, MSG_NAME_BYTES, nic);
	return 0;
}

/* Once: to ask again would read what waits in the socket, and more than there is room for. */
static int start_monitor(struct shmd_client *client)
{
	_cleanup_request_ struct request r;
	bool is_monitor;
	int res;

	request_init(&r, MSG_MONITOR_REQ, MSG_OK_REP);
	client_lock(client);
	is_monitor = client->events.is_monitor;
	client_unlock(client);
	if (is_monitor)
		return 0;
	res = request_call(client, &r);
	if (res < 0)
		return res;
	client_lock(client);
	client->events.is_monitor = true;
	client_unlock(client);
	return 0;
}

int shmd_admin_monitor(struct shmd_client *client,
		       int (*fn)(void *arg, const struct shmd_admin_event *event), void *arg)
{
	struct event_entry entry;
	int res;

	res = client_check(client);
	if (res < 0)
		return res;
	if (!fn)
		return text_fail(-EINVAL, "fn is NULL");
	res = start_monitor(client);
	while (!res) {
		res = event_next(client, UINT64_MAX, &entry);
		if (!res)
			res = fn(arg, &entry.event);
	}
	return res;
}

int shmd_admin_kill(struct shmd_client *client, uint64_t session)
{
	_cleanup_request_ struct request r;
	int res;

	request_init(&r, MSG_SESSION_KILL_REQ, MSG_OK_REP);
	res = client_check(client);
	if (res < 0)
		return res;
	r.req.session_kill_req.session = session;
	return request_call(client, &r);
}

int shmd_admin_drain(struct shmd_client *client, bool on, uint64_t grace_nsec)
{
	_cleanup_request_ struct request r;
	int res;

	request_init(&r, MSG_DRAIN_REQ, MSG_OK_REP);
	res = client_check(client);
	if (res < 0)
		return res;
	r.req.drain_req.on = on;
	r.req.drain_req.grace_nsec = grace_nsec;
	return request_call(client, &r);
}

int shmd_admin_port_set(struct shmd_client *client, const char *nic, bool up)
{
	_cleanup_request_ struct request r;
	int res;

	request_init(&r, MSG_PORT_SET_REQ, MSG_OK_REP);
	res = client_check(client);
	if (res < 0)
		return res;
	res = admin_set_nic(r.req.port_set_req.nic, nic);
	if (res < 0)
		return res;
	r.req.port_set_req.state = up ? 2 : 1;
	return request_call(client, &r);
}
