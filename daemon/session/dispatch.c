/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dispatcher.
 *
 * Decodes a packet, checks it against the table (permissions, first version), calls its handler and answers; answers keep
 * the order of requests. Three outcomes and one place for each: a refusal (the session lives), a
 * violation of the protocol (error reply, the session ends), and an unexpected errno (INTERNAL, the session
 * ends, the daemon lives).
 *
 * Refuses before a handler sees it: anything before Hello, replies as requests, packets whose descriptors do not
 * match what the message says. While a worker is busy with a session this file reads nothing from it. No loop, no globals. Control
 * thread.
 */
#include "daemon/session/dispatch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "daemon/porter/porter.h"
#include "daemon/session/monitor.h"
#include "daemon/session/request.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "proto/framing.h"

#define ROLE_CLIENT (1u << MSG_ROLE_CLIENT)
#define ROLE_CONTROL (1u << MSG_ROLE_CONTROL)
#define ROLE_ANY (ROLE_CLIENT | ROLE_CONTROL)

/* One session reads at most this much before others have their turn. */
#define PACKETS_PER_TURN 16
#define TURN_NSEC (NSEC_PER_MSEC / 2)

static const struct rule {
	request_handler handler;
	unsigned int roles;
	uint32_t since; /* protocol version */
	bool once; /* its answer outlives the daemon: it is not carried out again */
	bool for_admins; /* only administrators may send it */
} rules[MSG_KIND_MAX + 1] = {
	[MSG_HELLO_REQ] = {handle_hello, ROLE_ANY, 1, true},
	[MSG_NIC_LIST_REQ] = {handle_nic_list, ROLE_ANY, 1},
	[MSG_NIC_OPEN_REQ] = {handle_nic_open, ROLE_CLIENT, 1, true},
	[MSG_NIC_DOORBELL_REQ] = {handle_nic_doorbell, ROLE_CLIENT, 1, true},
	[MSG_MEM_REG_REQ] = {handle_mem_reg, ROLE_CLIENT, 1, true},
	[MSG_AGENT_ATTACH_REQ] = {handle_agent_attach, ROLE_CLIENT, 1, true},
	[MSG_MEM_DEREG_REQ] = {handle_mem_dereg, ROLE_CLIENT, 1, true},
	[MSG_QUEUE_LAYOUT_REQ] = {handle_queue_layout, ROLE_ANY, 1},
	[MSG_QUEUE_CREATE_REQ] = {handle_queue_create, ROLE_CLIENT, 1, true},
	[MSG_QUEUE_DESTROY_REQ] = {handle_queue_destroy, ROLE_CLIENT, 1, true},
	[MSG_CONNECT_REQ] = {handle_connect, ROLE_CLIENT, 1, true},
	[MSG_PEER_RESOLVE_REQ] = {handle_peer_resolve, ROLE_CLIENT, 1},
	[MSG_QP_MODIFY_REQ] = {handle_qp_modify, ROLE_CLIENT, 1, true},
	[MSG_QP_QUERY_REQ] = {handle_qp_query, ROLE_CLIENT, 1},
	[MSG_COUNTERS_REQ] = {handle_counters, ROLE_CLIENT, 1},
	[MSG_PUBLISH_REQ] = {handle_publish, ROLE_CLIENT, 1, true},
	[MSG_UNPUBLISH_REQ] = {handle_unpublish, ROLE_CLIENT, 1, true},
	[MSG_FETCH_REQ] = {handle_fetch, ROLE_CLIENT, 1},
	[MSG_PE_REPORT_REQ] = {handle_pe_report, ROLE_CLIENT, 1, true},
	[MSG_STATUS_REQ] = {handle_status, ROLE_ANY, 1},
	[MSG_LIST_REQ] = {handle_list, ROLE_ANY, 1},
	[MSG_MONITOR_REQ] = {handle_monitor, ROLE_CONTROL, 1},
	[MSG_QUEUE_DUMP_REQ] = {handle_queue_dump, ROLE_CONTROL, 1, .for_admins = true},
	[MSG_SESSION_KILL_REQ] = {handle_session_kill, ROLE_CONTROL, 1, .for_admins = true},
	[MSG_DRAIN_REQ] = {handle_drain, ROLE_CONTROL, 1, .for_admins = true},
	[MSG_PORT_SET_REQ] = {handle_port_set, ROLE_CONTROL, 1, .for_admins = true},
};

static void fill_error(struct msg *msg, uint64_t id, enum shmd_status status, const struct request *req)
{
	msg_init(msg, MSG_ERROR_REP, id);
	msg->error_rep.status = status;
	if (req) {
		msg->error_rep.accepted_kinds = req->accepted_kinds;
		memcpy(msg->error_rep.text, req->text, sizeof(msg->error_rep.text));
	}
	if (!msg->error_rep.text[0])
		snprintf(msg->error_rep.text, sizeof(msg->error_rep.text), "%s", status_text(status));
}

static void send_refusal(struct session *session, struct msg *msg)
{
	session_note(session, LOG_DEBUG, NOTE_SESSION, "refused: %s", msg->error_rep.text);
	session_send(session, msg, NULL);
}

static void send_error(struct session *session, uint64_t id, enum shmd_status status,
		       const struct request *req)
{
	struct msg msg;

	fill_error(&msg, id, status, req);
	send_refusal(session, &msg);
}

/* The client broke the protocol: tell it how, then end. */
static void violation(struct session *session, uint64_t id, enum shmd_status status, const char *text)
{
	struct request req = {.session = session};

	snprintf(req.text, sizeof(req.text), "%s", text);
	send_error(session, id, status, &req);
	session_end(session, status, "%s", text);
}

/* How many descriptors this message must bring. */
static unsigned int expected_fds(const struct msg *msg)
{
	switch (msg->kind) {
	case MSG_MEM_REG_REQ:
		return msg->mem_reg_req.kind == MSG_MEM_AGENT || msg->mem_reg_req.kind == MSG_MEM_PEERMEM ? 0 : 1;
	case MSG_QUEUE_CREATE_REQ:
		return msg->queue_create_req.mem_kind == MSG_MEM_MEMFD ||
		       msg->queue_create_req.mem_kind == MSG_MEM_DMABUF;
	case MSG_AGENT_ATTACH_REQ:
		return 1;
	case MSG_PUBLISH_REQ:
		return msg->publish_req.has_fd;
	default:
		return 0;
	}
}

static bool fds_match(const struct msg *msg, const struct fdlist *fds)
{
	if (msg->n_fds != fds->n || fds->n != expected_fds(msg))
		return false;
	if (fds->n == 0)
		return true;
	if (msg->kind == MSG_MEM_REG_REQ)
		return msg->mem_reg_req.fd < fds->n;
	if (msg->kind == MSG_AGENT_ATTACH_REQ)
		return msg->agent_attach_req.ring_fd < fds->n;
	if (msg->kind == MSG_QUEUE_CREATE_REQ)
		return msg->queue_create_req.mem_fd < fds->n;
	return true;
}

/* Does the protocol allow this packet now? NULL, or the violation in words. */
static const char *find_violation(const struct session *session, const struct msg *msg)
{
	const struct rule *rule = &rules[msg->kind];

	if (!rule->handler)
		return "the client sent a message that only the daemon may send";
	if (msg->id == 0)
		return "a request has the number 0";
	if (session->version == 0 && msg->kind != MSG_HELLO_REQ)
		return "the first message was not Hello";
	if (session->version != 0 && msg->kind == MSG_HELLO_REQ)
		return "the client said Hello twice";
	if (session->version != 0 && rule->since > session->version)
		return "the request is newer than the protocol version agreed on";
	return NULL;
}

/* Ends the session after an unexpected errno. */
static void fail_inside(struct request *req, int err)
{
	struct session *session = req->session;

	session_note(session, LOG_ERR, NOTE_SESSION, "%s failed inside: %s",
		     msg_kind_name(req->msg->kind), strerror(-err));
	violation(session, req->msg->id, SHMD_STATUS_INTERNAL, status_text(SHMD_STATUS_INTERNAL));
}

/* A refused Hello may leave half a session behind, so there is no second try. */
static void end_refused_hello(struct request *req, enum shmd_status status)
{
	session_end(req->session, status, "%s", req->text[0] ? req->text : status_text(status));
}

/*
 * Before the client gets its reply, so that the next daemon knows all that the client knows. Refusals too: another copy of the request
 * may come when it would be carried out, to a client that has gone on.
 */
static void save(struct request *req, struct msg *rep, const struct fdlist *fds)
{
	const struct save_ops *save = req->session->registry->attr.save;

	if (save && rep && rules[req->msg->kind].once)
		save->answer(req->session, req->msg, rep, fds);
	else if (save)
		save->changes(req->session);
}

static void refuse(struct request *req, enum shmd_status status)
{
	struct fdlist none;
	struct msg error;

	fdlist_init(&none);
	fill_error(&error, req->msg->id, status, req);
	save(req, &error, &none);
	send_refusal(req->session, &error);
}

static void answer(struct request *req, int r)
{
	struct session *session = req->session;
	enum shmd_status refusal = r < 0 ? request_status(req->msg->kind, r) : (enum shmd_status)r;

	if (r == 0) {
		save(req, req->rep, &req->rep_fds);
		session_send(session, req->rep, &req->rep_fds);
		return;
	}
	if (r > 0 || refusal != SHMD_STATUS_INTERNAL) {
		refuse(req, refusal);
	} else {
		save(req, NULL, NULL);
		fail_inside(req, r);
	}
	if (session->version == 0)
		end_refused_hello(req, refusal);
}

static int check_admin(struct request *req)
{
	if (!rules[req->msg->kind].for_admins || session_is_admin(req->session))
		return 0;
	return request_fail(req, SHMD_STATUS_PERMISSION, "only root and the user of the daemon (uid %u) may do this",
			    req->session->registry->owner_uid);
}

static void run_handler(struct session *session, struct msg *msg, struct fdlist *fds)
{
	struct request *req = request_new(session, msg, fds, answer);
	int r;

	if (!req) {
		send_error(session, msg->id, SHMD_STATUS_NO_MEMORY, NULL);
		return;
	}
	r = check_admin(req);
	if (r == 0)
		r = rules[req->msg->kind].handler(req);
	if (r == REQUEST_WAITS)
		return;
	answer(req, r);
	request_free(req);
}

/* While what the user sent is not closed, whatever it sends only adds to it. */
static void refuse_fds(struct session *session, const struct msg *msg, const struct fdlist *fds)
{
	struct request req = {.session = session};

	session->registry->refused_total++;
	quota_explain(&session->user, QUOTA_FDS, fds->n, req.text, sizeof(req.text));
	send_error(session, msg->id, SHMD_STATUS_QUOTA_FDS, &req);
}

/* False: this session may not make the request now, and has its answer already. */
static bool decode_request(struct session *session, const void *buf, size_t bytes, struct msg *msg)
{
	const char *wrong;
	int r = msg_decode(buf, bytes, msg);

	if (r == -ENOSYS && session->version != 0) {
		send_error(session, msg->id, SHMD_STATUS_UNKNOWN_REQUEST, NULL);
		return false;
	}
	if (r < 0) {
		violation(session, 0, SHMD_STATUS_PROTOCOL, "the client sent a malformed packet");
		return false;
	}
	session_trace(session, "<-", msg);
	if (session->registry->attr.save && session->registry->attr.save->repeat(session, msg))
		return false;
	wrong = find_violation(session, msg);
	if (wrong)
		violation(session, msg->id, SHMD_STATUS_PROTOCOL, wrong);
	return !wrong;
}

static void dispatch_packet(struct session *session, const void *buf, size_t bytes, struct fdlist *fds)
{
	_cleanup_(msg_deinit) struct msg msg;

	msg_init(&msg, MSG_OK_REP, 0);
	if (!decode_request(session, buf, bytes, &msg))
		return;
	if (!fds_match(&msg, fds))
		violation(session, msg.id, SHMD_STATUS_FDS, status_text(SHMD_STATUS_FDS));
	else if (session->version != 0 && !(rules[msg.kind].roles & (1u << session->role)))
		send_error(session, msg.id, SHMD_STATUS_PERMISSION, NULL);
	else if (fds->n > 0 && quota_fds_stuck(&session->user, fds->n))
		refuse_fds(session, &msg, fds);
	else
		run_handler(session, &msg, fds);
}

static void dispatch_without_fds(struct session *session, const void *buf, size_t bytes)
{
	struct request req = {.session = session, .text = "no descriptor of shmemd is free to receive this with"};
	_cleanup_(msg_deinit) struct msg msg;

	msg_init(&msg, MSG_OK_REP, 0);
	if (!decode_request(session, buf, bytes, &msg))
		return;
	if (expected_fds(&msg) == 0)
		violation(session, msg.id, SHMD_STATUS_FDS, status_text(SHMD_STATUS_FDS));
	else
		send_error(session, msg.id, SHMD_STATUS_NO_MEMORY, &req);
}

/* ---- reading -------------------------------------------------------------------------------------------------------- */

static void end_without_porter(struct session *session)
{
	const char *trouble = porters_trouble(session->registry->attr.porters);

	session_end(session, SHMD_STATUS_INTERNAL,
		    "the process of shmemd that receives this user's descriptors has ended, and this request with it%s%s",
		    trouble ? "; no other one can be started: " : "", trouble ? trouble : "");
}

static void on_read(struct session *session, int r, const void *buf, size_t bytes, struct fdlist *fds)
{
	if (r == 0)
		dispatch_packet(session, buf, bytes, fds);
	else if (r == -EMFILE)
		dispatch_without_fds(session, buf, bytes);
	else if (r == -EMSGSIZE)
		session_end(session, SHMD_STATUS_PROTOCOL, "the client sent a packet above the limits");
	else if (r == -EPIPE)
		end_without_porter(session);
	else if (r != -EAGAIN)
		session_end_gone(session);
}

static void carry_out_packet(struct session *session)
{
	struct session_packet *packet = session->packet;

	session->packet = NULL;
	session->is_reading = false;
	on_read(session, packet->r, packet->data, packet->bytes, &packet->fds);
	fdlist_deinit(&packet->fds);
	free(packet);
	session_go_on(session);
}

static void ask_porter(struct session *session)
{
	int r = porter_slot_recv(session->connection.slot);

	if (r < 0) {
		session_end(session, SHMD_STATUS_NO_MEMORY, "cannot receive a descriptor: %s", strerror(-r));
		return;
	}
	session->is_reading = true;
	session_call_attention(session);
}

static bool is_overrun(struct session *session)
{
	if (!quota_fds_overrun(&session->user) || !framing_next_has_fds(session->connection.fd))
		return false;
	session_end(session, SHMD_STATUS_QUOTA_FDS,
		    "the user sent descriptors whose closing takes too long, and sends more");
	return true;
}

/* False: there is nothing to read now. */
static bool read_one(struct session *session)
{
	uint8_t *buf = session->registry->in_packet;
	struct fdlist fds;
	size_t bytes;
	int r;

	if (is_overrun(session))
		return false;
	fdlist_init(&fds);
	r = connection_recv(&session->connection, session->registry->attr.porters, buf, REGISTRY_PACKET_BYTES, &bytes, &fds);
	if (r == FRAMING_HAS_FDS)
		ask_porter(session);
	else
		on_read(session, r, buf, bytes, &fds);
	fdlist_deinit(&fds);
	return r == 0 || r == -EMFILE;
}

/* Requests are cheap or dear: either way others have their turn soon. */
void session_readable(struct session *session)
{
	uint64_t begin = nsec_now();

	if (session_has_packet(session))
		carry_out_packet(session);
	for (int i = 0; i < PACKETS_PER_TURN && session_wants_read(session); i++)
		if (!read_one(session) || nsec_now() - begin > TURN_NSEC)
			return;
}

void session_writable(struct session *session)
{
	if (!session_flush(session))
		return;
	monitor_catch_up(session);
	if (!session->ended)
		session_call_attention(session);
}
