/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests and their replies.
 *
 * One request is under way at a time; its thread holds the lock from the packet to the reply, and waiting for the lock counts
 * against the time limit. Other packets that arrive meanwhile are handled here: events go to the queue; the reply of a request that
 * timed out earlier is dropped, and its descriptors are closed. A packet that cannot be read, does not match its descriptors or
 * is a reply of another kind ends the client, because later numbers would have no meaning. The socket does not
 * block; waiting is poll() up to the client's time limit.
 *
 * After another daemon has taken the session over, and the last packet of the former one is read, the request is
 * sent again under its number. If both daemons answer, the second reply comes late and is dropped like any other.
 */
#include "libclient/request.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "proto/framing.h"
#include "proto/status.h"

void request_init(struct request *call, enum msg_kind kind, enum msg_kind expect)
{
	memset(call, 0, sizeof(*call));
	msg_init(&call->req, kind, 0);
	msg_init(&call->rep, MSG_OK_REP, 0);
	fdlist_init(&call->rep_fds);
	call->fd = -1;
	call->expect = expect;
}

void request_deinit(struct request *call)
{
	msg_deinit(&call->req);
	msg_deinit(&call->rep);
	fdlist_deinit(&call->rep_fds);
}

int request_set_nic(char name[MSG_NAME_BYTES], const char *nic)
{
	if (!nic || !*nic || strlen(nic) >= MSG_NAME_BYTES)
		return text_fail(-EINVAL, "nic is not the name of a NIC");
	text_copy(name, MSG_NAME_BYTES, nic);
	return 0;
}

int request_take_fd(struct request *call, uint32_t index)
{
	int fd = fdlist_take(&call->rep_fds, index);

	if (fd < 0)
		return text_fail(-EPROTO, "shmemd's reply lacks descriptor %u", index);
	return fd;
}

/* Either side has ended the connection. */
static int die_by_hangup(struct shmd_client *client)
{
	char text[CLIENT_TEXT_BYTES];

	if (!restart_gave_up(&client->restart))
		return client_die(client, -ECONNRESET,
				  "the connection to shmemd broke: it stopped or ended the session; open a new client");
	snprintf(text, sizeof(text), "shmemd is gone: it died and did not come back within %g s; open a new client when it runs",
		 (double)restart_grace(&client->restart) / (double)NSEC_PER_SEC);
	return client_die(client, -ECONNRESET, text);
}

static int recv_packet(struct shmd_client *client, size_t *ret_bytes, struct fdlist *fds)
{
	int r = framing_recv(client->sock, client->buf, FRAMING_MAX_PACKET_BYTES, ret_bytes, fds);

	/* A reset socket reports its error once, before the packets that still lie in it, which may say why. */
	if (r == -ECONNRESET)
		r = framing_recv(client->sock, client->buf, FRAMING_MAX_PACKET_BYTES, ret_bytes, fds);
	if (r == -ECONNRESET || r == -EPIPE)
		return die_by_hangup(client);
	if (r == -EAGAIN || !r)
		return r;
	if (r == -EMSGSIZE)
		return client_die(client, -EPROTO, "shmemd sent a packet above the limits");
	return client_die(client, r, "cannot receive from shmemd");
}

/*
 * The next message, its descriptors in *fds. -EAGAIN if none has arrived, -ENOSYS for a body that this version does not
 * know (the id is valid), else the dead error.
 */
static int read_message(struct shmd_client *client, struct msg *ret_msg, struct fdlist *fds)
{
	size_t bytes;
	int r;

	r = recv_packet(client, &bytes, fds);
	if (r < 0)
		return r;
	r = msg_decode(client->buf, bytes, ret_msg);
	if (r == -ENOSYS)
		return r;
	if (r == -ENOMEM)
		return client_die(client, r, "no memory for shmemd's reply");
	if (r < 0)
		return client_die(client, -EPROTO, "shmemd sent a message that cannot be read");
	if (client->trace)
		trace_message("<-", ret_msg, fds->fds, fds->n);
	if (ret_msg->n_fds != fds->n) {
		msg_deinit(ret_msg);
		return client_die(client, -EPROTO, "shmemd sent a wrong number of descriptors");
	}
	return 0;
}

static int die_by_status(struct shmd_client *client, uint32_t status, const char *text)
{
	int r = text_fail_status(status, text);

	return client_die(client, r, shmd_error_text());
}

static void take_event(struct shmd_client *client, const struct msg_event *event)
{
	event_queue_push(&client->events, event);
	if (event->kind != MSG_EVENT_SESSION_END)
		return;
	client_set_health(client->health, SHMD_HEALTH_SESSION_ENDED);
	/* There is no session yet. This counts as a hang-up, since the next daemon may start in a moment. */
	if (client->restart.in_hello && event->detail == SHMD_STATUS_SHUTDOWN) {
		client_die(client, -ECONNRESET, "shmemd stopped before it had opened the session");
		return;
	}
	die_by_status(client, event->detail ? event->detail : SHMD_STATUS_KILLED, event->text);
}

/* A message that is not the awaited reply, and its descriptors. 0, or the dead error. */
static int take_other(struct shmd_client *client, const struct msg *msg, struct fdlist *fds)
{
	if (msg->kind == MSG_EVENT)
		take_event(client, &msg->event);
	else if (msg->kind == MSG_RESUMED_EVENT)
		restart_resume(client, &msg->resumed_event, fds);
	else if (msg->kind == MSG_ERROR_REP && !msg->id)
		die_by_status(client, msg->error_rep.status, msg->error_rep.text);
	return client->dead;
}

int request_drain(struct shmd_client *client)
{
	struct fdlist fds;
	struct msg msg;
	int r = 0;

	while (!client->dead && !r && !event_queue_is_full(&client->events)) {
		fdlist_init(&fds);
		r = read_message(client, &msg, &fds);
		if (!r) {
			r = take_other(client, &msg, &fds);
			msg_deinit(&msg);
		} else if (r == -ENOSYS) {
			r = 0;
		}
		fdlist_deinit(&fds);
	}
	if (client->dead)
		return client_die(client, client->dead, client->dead_text);
	return 0;
}

/* The reason for a delay, for the end of a sentence. */
static const char *why_late(const struct shmd_client *client)
{
	return restart_is_away(&client->restart) ? ": it died and is not back yet" : "";
}

/* Keeps the id of the request. */
static int send_request(struct shmd_client *client, struct request *call, uint64_t deadline)
{
	unsigned int n_fds = call->fd >= 0 ? 1 : 0;
	int bytes, r;

	call->req.n_fds = n_fds;
	call->n_restarts = restart_count(&client->restart);
	bytes = msg_encode(&call->req, client->buf, FRAMING_MAX_PACKET_BYTES);
	if (bytes < 0)
		return text_fail(bytes, "%s cannot be sent: %s", msg_kind_name(call->req.kind),
				 strerror(-bytes));
	if (client->trace)
		trace_message("->", &call->req, &call->fd, n_fds);
	for (;;) {
		r = framing_send(client->sock, client->buf, (size_t)bytes, &call->fd, n_fds);
		if (r != -EAGAIN)
			break;
		r = wait_fd(client->sock, POLLOUT, deadline);
		if (r < 0)
			return text_fail(-ETIMEDOUT, "shmemd takes no requests%s", why_late(client));
	}
	if (r == -EPIPE || r == -ECONNRESET) {
		/* The daemon's last words may still lie in the socket. */
		r = request_drain(client);
		return r ? r : die_by_hangup(client);
	}
	if (r < 0)
		return text_fail(r, "cannot send to shmemd: %s", strerror(-r));
	return 0;
}

/* Nothing more to read: waits, or repeats the request for a new daemon, which may not have it. */
static int wait_or_repeat(struct shmd_client *client, struct request *call, uint64_t deadline)
{
	if (call->n_restarts != restart_count(&client->restart))
		return send_request(client, call, deadline);
	if (wait_fd(client->sock, POLLIN, deadline) < 0)
		return text_fail(-ETIMEDOUT, "shmemd did not answer %s in time%s", msg_kind_name(call->req.kind),
				 why_late(client));
	return 0;
}

/* Returns 0 with the message of the id of call->req in call->rep. */
static int await_reply(struct shmd_client *client, struct request *call, uint64_t deadline)
{
	struct msg msg;
	int r;

	for (;;) {
		fdlist_deinit(&call->rep_fds);
		fdlist_init(&call->rep_fds);
		r = read_message(client, &msg, &call->rep_fds);
		if (r == -EAGAIN) {
			r = wait_or_repeat(client, call, deadline);
			if (r < 0)
				return r;
			continue;
		}
		if (r == -ENOSYS && msg.id == call->req.id)
			return client_die(client, -EPROTO, "shmemd answered with an unknown message");
		if (r == -ENOSYS)
			continue;
		if (r < 0)
			return r;
		if (msg.id == call->req.id && msg.kind != MSG_EVENT) {
			call->rep = msg;
			return 0;
		}
		r = take_other(client, &msg, &call->rep_fds);
		msg_deinit(&msg);
		if (r < 0)
			return client_die(client, r, client->dead_text);
	}
}

static int fail_mem_kind(const struct msg_error_rep *rep)
{
	static const char *const names[] = {
		[MSG_MEM_MEMFD] = "memfd", [MSG_MEM_DMABUF] = "dmabuf", [MSG_MEM_AGENT] = "agent",
		[MSG_MEM_PEERMEM] = "peermem"};
	char list[64] = "";
	size_t used = 0;

	for (unsigned int kind = MSG_MEM_MEMFD; kind <= MSG_MEM_PEERMEM; kind++) {
		if (!(rep->accepted_kinds & 1u << kind))
			continue;
		text_copy(list + used, sizeof(list) - used, used ? ", " : "");
		used = strlen(list);
		text_copy(list + used, sizeof(list) - used, names[kind]);
		used = strlen(list);
	}
	return text_fail(status_to_errno(rep->status), "%s; it accepts %s",
			 status_text(rep->status), *list ? list : "none");
}

static int judge_reply(struct shmd_client *client, struct request *call)
{
	const struct msg_error_rep *error = &call->rep.error_rep;

	if (call->rep.kind == call->expect)
		return 0;
	if (call->rep.kind != MSG_ERROR_REP)
		return client_die(client, -EPROTO, "shmemd answered with a message of another kind");
	switch (error->status) {
	case SHMD_STATUS_PROTOCOL:
	case SHMD_STATUS_SHUTDOWN:
	case SHMD_STATUS_KILLED:
		return die_by_status(client, error->status, error->text);
	case SHMD_STATUS_MEM_KIND:
		return fail_mem_kind(error);
	default:
		return text_fail_status(error->status, error->text);
	}
}

static int call_locked(struct shmd_client *client, struct request *call, uint64_t deadline)
{
	int r;

	if (client->dead)
		return client_die(client, client->dead, client->dead_text);
	call->req.id = client->next_id++;
	r = send_request(client, call, deadline);
	if (!r)
		r = await_reply(client, call, deadline);
	if (!r)
		r = judge_reply(client, call);
	return r;
}

int request_call_locked(struct shmd_client *client, struct request *call)
{
	return call_locked(client, call, nsec_add(nsec_now(), client_timeout_nsec(client)));
}

int request_call(struct shmd_client *client, struct request *call)
{
	uint64_t deadline = nsec_add(nsec_now(), client_timeout_nsec(client));
	int r;

	if (client_lock_until(client, deadline) < 0)
		return text_fail(-ETIMEDOUT, "shmemd did not answer another thread's request in time");
	r = call_locked(client, call, deadline);
	client_unlock(client);
	return r;
}

int request_destroy(struct shmd_client *client, enum msg_kind kind, uint32_t handle)
{
	_cleanup_request_ struct request call;
	struct msg_handle_req *req = kind == MSG_MEM_DEREG_REQ ? &call.req.mem_dereg_req : &call.req.queue_destroy_req;

	request_init(&call, kind, MSG_OK_REP);
	req->handle = handle;
	return request_call(client, &call);
}
