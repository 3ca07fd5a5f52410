/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client: how its session begins, hears, speaks and ends. session-teardown.c frees its objects, never from
 * inside a handler.
 *
 * While a worker is busy with it no packet is read: requests are answered in order. No loop, no globals. Control thread.
 */
#include "daemon/session/session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <syslog.h>

#include "daemon/porter/porter.h"
#include "daemon/session/dispatch.h"
#include "daemon/session/monitor.h"
#include "proto/base/assert.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "proto/framing.h"

#define SESSION_PACKETS_PER_TURN 16
#define SESSION_TURN_NSEC (NSEC_PER_MSEC / 2)

static void __attribute__((format(printf, 3, 0)))
note_text(struct session *session, struct note note, const char *fmt, va_list ap)
{
	char text[MSG_TEXT_BYTES + 64];

	vsnprintf(text, sizeof(text), fmt, ap);
	note.session = session;
	note.text = text;
	registry_note(session->registry, &note);
}

/* An operational event of this session. Clients provoke all of them but one: no storm of theirs hides a kill. */
static void __attribute__((format(printf, 3, 4)))
note_event(struct session *session, enum catalog_event event, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	note_text(session, (struct note){
		.level = LOG_NOTICE,
		.topic = NOTE_SESSION,
		.event = event,
		.provoked = event != CATALOG_SESSION_KILLED,
	}, fmt, ap);
	va_end(ap);
}

static int refuse_connection(struct session *session, enum quota_what what, uint64_t asked)
{
	enum shmd_status status = what == QUOTA_FDS ? SHMD_STATUS_QUOTA_FDS : SHMD_STATUS_QUOTA_SESSIONS;
	struct msg msg;

	msg_init(&msg, MSG_ERROR_REP, 0);
	msg.error_rep.status = status;
	quota_explain(&session->user, what, asked, msg.error_rep.text, sizeof(msg.error_rep.text));
	note_event(session, CATALOG_SESSION_REFUSED, "refused a connection: %s", msg.error_rep.text);
	session->registry->refused_total++;
	session_send(session, &msg, NULL);
	monitor_refused(session, status, msg.error_rep.text);
	return -EDQUOT;
}

/* An administrator must be able to list and kill when everything is used up. Hello then refuses a client. */
static bool take_admin_place(struct session *session, const struct quota_amount *amount, enum quota_what what)
{
	struct registry *registry = session->registry;

	if (!session_is_admin(session) || registry->n_admin_taken >= registry->attr.n_admin_places)
		return false;
	registry->n_admin_taken++;
	session->has_admin_place = true;
	session->admin_limit = what;
	quota_charge_adopt(&session->user, amount, &session->connection_charge);
	return true;
}

static int charge_connection(struct session *session)
{
	const struct quota_amount amount = {.n = {[QUOTA_CONNECTIONS] = 1, [QUOTA_FDS] = SESSION_CONNECTION_FDS}};
	int r;

	/* Sockets whose clients have read or gone meanwhile give their places back. */
	inflight_look(&session->registry->inflight, INFLIGHT_LOOKS);
	r = quota_fds_stuck(&session->user, SESSION_CONNECTION_FDS)
		? 1 + QUOTA_FDS : quota_charge(&session->user, &amount, &session->connection_charge);
	if (r == 0 || take_admin_place(session, &amount, r - 1))
		return 0;
	return refuse_connection(session, r - 1, amount.n[r - 1]);
}

struct session *session_alloc(struct registry *registry)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		return NULL;
	session->registry = registry;
	session->health_fd = -1;
	session->watch_fds[0] = session->watch_fds[1] = -1;
	session->identity.pidfd = -1;
	session->started_nsec = nsec_now();
	list_init(&session->link);
	list_init(&session->monitor_link);
	list_init(&session->hold_link);
	list_init(&session->published);
	resource_table_init(&session->resources);
	connection_init(&session->connection, -1);
	session_keep_init(&session->keep);
	return session;
}

/*
 * Where descriptors may be in the socket already its porter has it from the start: on a kernel that lets them through, or when it was
 * connected to a service manager's socket while no daemon ran. Else it has it when they are of use.
 */
static int set_passing(struct session *session)
{
	int sock = session->connection.fd, r = 0;

	if (!session->registry->attr.porters)
		r = framing_set_passing(sock, true);
	else if (framing_is_passing(sock))
		r = session_let_send_fds(session);
	return r == -EINPROGRESS || r == -ENOPROTOOPT ? 0 : r;
}

int session_new(struct registry *registry, int sock, struct session **ret_session)
{
	_cleanup_close_ int owned_sock = sock;
	_cleanup_(session_freep) struct session *session = session_alloc(registry);
	int r, r_identity;

	if (!session)
		return -ENOMEM;
	connection_init(&session->connection, take_fd(&owned_sock));

	r = framing_setup(session->connection.fd);
	if (r < 0)
		return r;
	r_identity = identity_init(&session->identity, session->connection.fd);
	r = quota_user_init(&session->user, &registry->quota, session->identity.uid,
			    session->identity.tenant);
	if (r < 0)
		return r;
	/* Also of a client that is gone already: what it sent has to be closed. */
	r = set_passing(session);
	if (r == 0)
		r = r_identity;
	if (r < 0)
		return r;
	r = inflight_new(&registry->inflight, &session->user, session->connection.fd, &session->connection.inflight);
	if (r < 0)
		return r;
	r = charge_connection(session);
	if (r < 0)
		return r;
	session->id = ++registry->last_id;
	list_add_tail(&registry->sessions, &session->link);
	*ret_session = take_ptr(session);
	return 0;
}

/* ---- end --------------------------------------------------------------------------------------------- */

void session_end_gone(struct session *session)
{
	if (session->ended)
		return;
	session->ended = true;
	session->end_status = SHMD_STATUS_OK;
	session->gone = true;
	session_note(session, LOG_DEBUG, NOTE_SESSION, "the client has gone");
	session_health_end(session);
	session_call_attention(session);
}

static enum catalog_event end_event(enum shmd_status status)
{
	switch (status) {
	case SHMD_STATUS_INTERNAL:
		return CATALOG_SESSION_FAILED;
	case SHMD_STATUS_PROTOCOL:
	case SHMD_STATUS_FDS:
		return CATALOG_CLIENT_VIOLATION;
	case SHMD_STATUS_VERSION:
		return CATALOG_VERSION_MISMATCH;
	case SHMD_STATUS_QUOTA_SESSIONS:
	case SHMD_STATUS_QUOTA_FDS:
		return CATALOG_SESSION_REFUSED;
	case SHMD_STATUS_KILLED:
		return CATALOG_SESSION_KILLED;
	default:
		return CATALOG_NONE;
	}
}

void session_end(struct session *session, enum shmd_status status, const char *fmt, ...)
{
	struct msg msg;
	va_list ap;

	if (session->ended)
		return;
	msg_init(&msg, MSG_EVENT, 0);
	msg.event.kind = MSG_EVENT_SESSION_END;
	msg.event.detail = status;
	va_start(ap, fmt);
	vsnprintf(msg.event.text, sizeof(msg.event.text), fmt, ap);
	va_end(ap);
	note_event(session, end_event(status), "session ends: %s", msg.event.text);
	session_health_end(session);
	session_send(session, &msg, NULL);
	/* session_send may have ended it, when the socket is broken or full. */
	session->ended = true;
	session->end_status = status;
	/* Else it would be alive again after a death before its teardown. A worker that has it is waited for first. */
	if (!session->busy)
		session_keep_ending(session);
	memcpy(session->end_text, msg.event.text, sizeof(session->end_text));
	session_call_attention(session);
}

/* ---- connection --------------------------------------------------------------------------------------------------- */

void session_trace(struct session *session, const char *direction, const struct msg *msg)
{
	char line[512];
	int n;

	if (!(session->registry->attr.hooks.debug & NOTE_PROTO))
		return;
	n = snprintf(line, sizeof(line), "%s ", direction);
	msg_format(msg, line + n, sizeof(line) - (size_t)n);
	registry_note(session->registry, &(struct note){
		.level = LOG_DEBUG,
		.topic = NOTE_PROTO,
		.session = session,
		.kind = msg_kind_name(msg->kind),
		.text = line,
	});
}

static void send_failed(struct session *session, int r)
{
	if (session->ended)
		return;
	if (r == -ENOBUFS) {
		snprintf(session->end_text, sizeof(session->end_text),
			 "the client does not read what it is sent");
		note_event(session, CATALOG_CLIENT_DEAF, "session ends: %s", session->end_text);
	}
	session_end_gone(session);
}

static void send_packet(struct session *session, const void *packet, size_t bytes,
			const struct fdlist *fds)
{
	int r = connection_send(&session->connection, packet, bytes, fds);

	if (r < 0)
		send_failed(session, r);
	else if (connection_wants_write(&session->connection) || connection_stalled(&session->connection))
		session_call_attention(session);
}

void session_send(struct session *session, struct msg *msg, const struct fdlist *fds)
{
	struct registry *registry = session->registry;
	int r;

	if (session->ended)
		return;
	msg->n_fds = fds ? fds->n : 0;
	session_trace(session, "->", msg);
	r = msg_encode(msg, registry->packet, REGISTRY_PACKET_BYTES);
	if (r < 0) {
		session_note(session, LOG_ERR, NOTE_SESSION, "cannot encode %s: %s",
			     msg_kind_name(msg->kind), strerror(-r));
		session_end_gone(session);
		return;
	}
	send_packet(session, registry->packet, (size_t)r, fds);
}

void session_send_packet(struct session *session, const struct msg *msg, const void *packet, size_t bytes,
			 const struct fdlist *fds)
{
	if (session->ended)
		return;
	session_trace(session, "->", msg);
	send_packet(session, packet, bytes, fds);
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
		session_end(session, SHMD_STATUS_INTERNAL,
			    "the process of shmemd that receives this user's descriptors has ended, and this request with it");
	else if (r != -EAGAIN)
		session_end_gone(session);
}

/* ---- packets that a porter reads -------------------------------------------------------------------------------------- */

/* It waits for the session's turn, as packets in the socket do. */
struct session_packet {
	int r;
	size_t bytes;
	struct fdlist fds; /* owned */
	uint8_t data[];
};

void session_packet_free(struct session *session)
{
	if (session->packet)
		fdlist_deinit(&session->packet->fds);
	free(session->packet);
	session->packet = NULL;
}

bool session_has_packet(const struct session *session)
{
	return session->packet && !session->ended;
}

static void on_packet(void *arg, int r, const void *buf, size_t bytes, struct fdlist *fds)
{
	struct session *session = arg;

	if (session->ended)
		return;
	/* bounded: a packet. */
	session->packet = malloc(sizeof(*session->packet) + bytes);
	if (!session->packet) {
		session_end(session, SHMD_STATUS_NO_MEMORY, "no memory for a packet with a descriptor");
		return;
	}
	session->packet->r = r;
	session->packet->bytes = bytes;
	session->packet->fds = *fds;
	fdlist_init(fds);
	if (bytes > 0)
		memcpy(session->packet->data, buf, bytes);
	session_call_attention(session);
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

/* Not before its porter has the socket, and so what will be in it. */
static int pass_on(struct session *session)
{
	int r = framing_set_passing(session->connection.fd, true);

	return r == -ENOPROTOOPT ? 0 : r;
}

static void on_ready(void *arg)
{
	struct session *session = arg;

	if (session->ended)
		return;
	pass_on(session);
	if (session->hello)
		hello_go_on(session);
}

int session_let_send_fds(struct session *session)
{
	struct connection *conn = &session->connection;
	const struct porter_slot_attr attr = {
		.uid = session->identity.uid,
		.account = quota_user_account(&session->user),
		.sock = conn->fd,
		.packet = on_packet,
		.ready = on_ready,
		.arg = session,
	};
	int r;

	if (!session->registry->attr.porters)
		return 0;
	r = conn->slot ? 0 : porter_slot_new(session->registry->attr.porters, &attr, &conn->slot);
	if (r < 0)
		return r;
	return porter_slot_await(conn->slot) ? pass_on(session) : -EINPROGRESS;
}

int session_attach(struct session *session, int fd, bool is_lasting)
{
	return session->connection.slot && fd >= 0 ? porter_slot_attach(session->connection.slot, fd, is_lasting) : 0;
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

/* ---- reading -------------------------------------------------------------------------------------------------------- */

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
	for (int i = 0; i < SESSION_PACKETS_PER_TURN && session_wants_read(session); i++)
		if (!read_one(session) || nsec_now() - begin > SESSION_TURN_NSEC)
			return;
}

void session_writable(struct session *session)
{
	int r;

	if (session->ended)
		return;
	r = connection_flush(&session->connection);
	if (r < 0) {
		send_failed(session, r);
		return;
	}
	monitor_catch_up(session);
	if (!session->ended)
		session_call_attention(session);
}

bool session_wants_read(const struct session *session)
{
	return !session->ended && !session_is_busy(session);
}

bool session_wants_write(const struct session *session)
{
	return !session->ended && connection_wants_write(&session->connection);
}

bool session_stalled(const struct session *session)
{
	return !session->ended && connection_stalled(&session->connection);
}

void session_note(struct session *session, int level, enum note_topic topic, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	note_text(session, (struct note){.level = level, .topic = topic, .provoked = true}, fmt, ap);
	va_end(ap);
}
