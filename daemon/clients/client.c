/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop's side of a session.
 *
 * Watches the socket and also the process, because a forked child can keep the socket open. Ends a client that does not say
 * Hello in time. A deferred call frees an ended session, never a handler. Control thread.
 */
#include "daemon/clients/client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "daemon/session/dispatch.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

#define RETRY_NSEC (10 * NSEC_PER_MSEC)
#define HELD_RETRY_NSEC (1 * NSEC_PER_MSEC) /* a service manager is busy: usually not for long */

DEFINE_CLEANUP(struct client *, client_free);

static void serve(struct client *client)
{
	if (client->turn.user)
		turn_ask(&client->turn);
	else
		session_readable(client->session);
}

static void on_socket(void *arg, unsigned int events)
{
	struct client *client = arg;

	if (events & LOOP_WRITE)
		session_writable(client->session);
	if (events & LOOP_READ)
		serve(client);
	if (turn_waits(&client->turn))
		client_attention(client->session);
	/* The session may have ended here; it is freed by on_reap. */
	client->activity(client->activity_arg);
}

static void on_turn(void *arg)
{
	struct client *client = arg;

	session_readable(client->session);
	client_attention(client->session);
	client->activity(client->activity_arg);
}

static void on_retry(void *arg)
{
	struct client *client = arg;

	client->retry_armed = false;
	session_writable(client->session);
}

static void on_process(void *arg, unsigned int events)
{
	struct client *client = arg;

	session_end_gone(client->session);
}

static void on_handshake(void *arg)
{
	struct client *client = arg;

	if (client->session->hello)
		hello_give_up(client->session, client->handshake_nsec / NSEC_PER_MSEC);
	else if (client->session->version == 0)
		session_end(client->session, SHMD_STATUS_PROTOCOL, "no Hello within %" PRIu64 " ms",
			    client->handshake_nsec / NSEC_PER_MSEC);
}

static void on_reap(void *arg)
{
	struct client *client = arg;
	void (*activity)(void *arg) = client->activity;
	void *activity_arg = client->activity_arg;

	client_free(client);
	activity(activity_arg);
}

static uint64_t retry_nsec(const struct session *session)
{
	return session->saved.held_since_nsec && session->connection.n_out ? HELD_RETRY_NSEC : RETRY_NSEC;
}

void client_attention(struct session *session)
{
	struct client *client = session->owner;
	/* The socket of one that waits for its turn stays readable: the loop would look at it again and again. */
	unsigned int events = (session_wants_read(session) && !turn_waits(&client->turn) ? LOOP_READ : 0) |
			      (session_wants_write(session) ? LOOP_WRITE : 0);

	/* Not again by what comes to wait meanwhile: it would put the time off. */
	if (session_stalled(session) && !client->retry_armed)
		client->retry_armed = loop_timer_arm(client->retry, retry_nsec(session)) == 0;
	if (!session->ended && loop_watch_set(client->socket_watch, events) == 0) {
		if (session_has_packet(session))
			serve(client);
		return;
	}
	session->ended = true;
	client->socket_watch = loop_watch_free(client->socket_watch);
	client->process_watch = loop_watch_free(client->process_watch);
	loop_defer_schedule(client->reap);
}

static int watch_all(struct client *client, const struct client_attr *attr)
{
	struct session *session = client->session;
	int r;

	r = loop_defer_new(attr->loop, on_reap, client, &client->reap);
	if (r < 0)
		return r;
	r = loop_watch_new(attr->loop, session->connection.fd, LOOP_READ, on_socket, client,
			   &client->socket_watch);
	if (r < 0)
		return r;
	if (session->identity.pidfd >= 0) {
		r = loop_watch_new(attr->loop, session->identity.pidfd, LOOP_READ, on_process, client,
				   &client->process_watch);
		if (r < 0)
			return r;
	}
	r = loop_timer_new(attr->loop, on_retry, client, &client->retry);
	if (r < 0)
		return r;
	r = loop_timer_new(attr->loop, on_handshake, client, &client->handshake);
	if (r < 0)
		return r;
	return loop_timer_arm(client->handshake, attr->handshake_nsec);
}

static int client_make(const struct client_attr *attr, struct client **ret_client)
{
	struct client *client = calloc(1, sizeof(*client));

	if (!client)
		return -ENOMEM;
	list_init(&client->link);
	client->handshake_nsec = attr->handshake_nsec;
	client->activity = attr->activity;
	client->activity_arg = attr->activity_arg;
	*ret_client = client;
	return 0;
}

static int make_turn(struct client *client, struct turns *turns)
{
	const struct quota_user *user = &client->session->user;
	const void *const keys[TURN_ACCOUNTS] = {user->uid, user->cgroup};

	return turns ? turn_init(&client->turn, turns, keys, on_turn, client) : 0;
}

static int watch_session(struct client *client, const struct client_attr *attr)
{
	int r = watch_all(client, attr);

	if (r == 0)
		r = make_turn(client, attr->turns);
	if (r < 0)
		return r;
	client->session->owner = client;
	list_add_tail(attr->clients, &client->link);
	return 0;
}

int client_new(const struct client_attr *attr, int sock)
{
	_cleanup_close_ int owned_sock = sock;
	_cleanup_(client_freep) struct client *client = NULL;
	int r = client_make(attr, &client);

	if (r == 0)
		r = session_new(attr->registry, take_fd(&owned_sock), &client->session);
	if (r == 0)
		r = watch_session(client, attr);
	if (r < 0)
		return r;
	take_ptr(client);
	return 0;
}

int client_import(const struct client_attr *attr, struct session *session)
{
	_cleanup_(client_freep) struct client *client = NULL;
	int r = client_make(attr, &client);

	if (r < 0)
		return r;
	client->session = session;
	r = watch_session(client, attr);
	if (r < 0) {
		client->session = NULL;
		return r;
	}
	/* Events that happened before the watch began. */
	client_attention(session);
	take_ptr(client);
	return 0;
}

struct client *client_free(struct client *client)
{
	if (!client)
		return NULL;
	list_del(&client->link);
	turn_deinit(&client->turn);
	loop_watch_free(client->socket_watch);
	loop_watch_free(client->process_watch);
	loop_timer_free(client->handshake);
	loop_timer_free(client->retry);
	loop_defer_free(client->reap);
	if (client->session)
		client->session->owner = NULL;
	session_release(client->session);
	free(client);
	return NULL;
}
