/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client: lookup in its session, messages and packets on their way, and its end. session-new.c makes a session;
 * session-teardown.c frees its objects, never from inside a handler.
 *
 * 16 connections of root and of the daemon's uid may pass every limit. Only controllers may use them; shmemd rejects a client's
 * Hello there, because the reserves of the pools are sized for controllers. No loop, no globals. Control thread.
 */
#include "daemon/session/session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <syslog.h>
#include <unistd.h>

#include "daemon/porter/porter.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "proto/framing.h"

#define OWN_FDS 1 /* health page; socket and pidfd are the connection's */
#define RESUME_FDS 2 /* of one that outlives the daemon: its pair to watch, and its state */

/* A client that says Hello once more gets another pair, and the porter holds all: no client needs so many. */
#define WATCHES_MAX 64u
#define HELD_NSEC (2 * NSEC_PER_SEC) /* how long packets wait for a service manager at most */

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
	session->saved.reply_fd = -1;
	list_init(&session->saved.gone);
	list_init(&session->saved.changed_queues);
	hash_init(&session->saved.memories);
	hash_init(&session->saved.memories_by_file);
	return session;
}

void session_call_attention(struct session *session)
{
	const struct registry_hooks *hooks = &session->registry->attr.hooks;

	if (hooks->attention && session->owner)
		hooks->attention(hooks->arg, session);
}

bool session_is_busy(const struct session *session)
{
	return session->busy || session->is_reading;
}

/* ---- lookup -------------------------------------------------------------------------------------------------------- */

bool session_is_admin(const struct session *session)
{
	return session->identity.uid == 0 || session->identity.uid == session->registry->owner_uid;
}

bool session_may_see(const struct session *session, uint32_t uid)
{
	return session_is_admin(session) || session->identity.uid == uid;
}

struct session_nic *session_nic_by_index(struct session *session, uint32_t index)
{
	return index < session->n_nics ? session->nics[index] : NULL;
}

struct session_nic *session_nic_by_rnic(struct session *session, const struct registry_nic *rnic)
{
	for (unsigned int i = 0; i < session->n_nics; i++)
		if (session->nics[i]->rnic == rnic)
			return session->nics[i];
	return NULL;
}

bool session_nic_has_qpn(const struct session_nic *nic, uint32_t qpn)
{
	return hash_get(&nic->qps, qpn);
}

/* Numbers of one batch mostly follow each other. */
struct session_queues *session_nic_find_qp(const struct session_nic *nic, uint32_t qpn, uint32_t *ret_index)
{
	struct session_queues *queues = hash_get(&nic->qps, qpn);
	const struct nic_layout *layout = queues ? &queues->queues->layout : NULL;
	uint32_t i = queues ? qpn - queues->first_qpn : 0;

	if (!queues)
		return NULL;
	if (i >= layout->n_qps || layout->qps[i].qpn != qpn)
		for (i = 0; i < layout->n_qps && layout->qps[i].qpn != qpn; i++)
			;
	*ret_index = i;
	return i < layout->n_qps ? queues : NULL;
}

const struct nic_qp *session_nic_qp(const struct session_nic *nic, uint32_t qpn)
{
	uint32_t i;
	const struct session_queues *queues = session_nic_find_qp(nic, qpn, &i);

	return queues ? &queues->queues->layout.qps[i] : NULL;
}

bool session_nic_has_cqn(const struct session_nic *nic, uint32_t cqn)
{
	return hash_get(&nic->cqs, cqn);
}

int session_counters(struct session *session, struct nic_counters *ret_counters)
{
	struct nic_counters sum = {0}, one;

	for (unsigned int i = 0; i < session->n_nics; i++) {
		struct nic_ctx *ctx = session->nics[i]->ctx;
		int r = ctx->nic->ops->ctx_counters(ctx, &one);

		if (r < 0)
			return r;
		nic_counters_add(&sum, &one);
	}
	*ret_counters = sum;
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
	session_note_event(session, end_event(status), "session ends: %s", msg.event.text);
	session_health_end(session);
	/* Nobody flushes it later. */
	connection_release(&session->connection);
	session_send(session, &msg, NULL);
	/* session_send may have ended it, when the socket is broken or full. */
	session->ended = true;
	session->end_status = status;
	/* Else it would be alive again after a death before its teardown. A worker that has it is waited for first. */
	if (!session->busy)
		session_save_ending(session);
	memcpy(session->end_text, msg.event.text, sizeof(session->end_text));
	session_call_attention(session);
}

/* ---- connection --------------------------------------------------------------------------------------------------- */

bool session_waits_for_manager(const struct session *session)
{
	const struct registry_attr *attr = &session->registry->attr;

	return session->saved.state && attr->store && session->saved.mark &&
	       !attr->store->reached(attr->store_arg, session->saved.mark);
}

/* Its client sees the end of its socket at once if no other daemon can find the session. */
static void hold_by_porter(struct session *session)
{
	struct session_saved *saved = &session->saved;

	if (!saved->state || !saved->is_named || saved->is_held_by_porter || !session->connection.slot)
		return;
	saved->is_held_by_porter = true;
	porter_slot_keep(session->connection.slot, true);
}

void session_look_for_lost(struct session *session)
{
	const struct registry_attr *attr = &session->registry->attr;

	if (session->saved.state && attr->store && attr->store->lost(attr->store_arg, session->id))
		attr->save->lost(session);
}

static void write_due(struct session *session)
{
	if (!session->ended && session->saved.is_due)
		session->registry->attr.save->due(session);
}

/*
 * An answer says that the next daemon knows it, too. So it waits until the service manager has what was put before, but not for a
 * manager that reads nothing at all: then the session goes on, and lists say that it is not kept meanwhile.
 */
static bool is_held(void *arg)
{
	struct session *session = arg;
	struct session_saved *saved = &session->saved;
	uint64_t now;

	if (!session->ended)
		session_look_for_lost(session);
	if (!session_waits_for_manager(session))
		write_due(session);
	/* The state may be put by now. */
	if (session->ended || !session_waits_for_manager(session)) {
		saved->held_since_nsec = 0;
		if (!session->ended)
			hold_by_porter(session);
		return false;
	}
	now = nsec_now();
	if (!saved->held_since_nsec)
		saved->held_since_nsec = now;
	if (now - saved->held_since_nsec < HELD_NSEC)
		return true;
	write_due(session);
	return false;
}

void session_take_socket(struct session *session, int sock)
{
	connection_init(&session->connection, sock);
	session->connection.is_held = is_held;
	session->connection.held_arg = session;
}

static void send_failed(struct session *session, int r)
{
	if (session->ended)
		return;
	if (r == -ENOBUFS) {
		snprintf(session->end_text, sizeof(session->end_text),
			 "the client does not read what it is sent");
		session_note_event(session, CATALOG_CLIENT_DEAF, "session ends: %s", session->end_text);
	}
	session_end_gone(session);
}

static void send_packet(struct session *session, const void *packet, size_t bytes,
			const struct fdlist *fds)
{
	int r = connection_send(&session->connection, packet, bytes, fds);

	if (r < 0)
		send_failed(session, r);
	else if (connection_wants_write(&session->connection) || session_stalled(session))
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

/* ---- packets that a porter reads -------------------------------------------------------------------------------------- */

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

/* Not before its porter has the socket, and so what will be in it. */
static int pass_on(struct session *session)
{
	int r = framing_set_passing(session->connection.fd, true);

	return r == -ENOPROTOOPT ? 0 : r;
}

static void on_told(void *arg, const struct words *unwritten)
{
	session_health_told(arg, unwritten);
}

static void on_ready(void *arg)
{
	struct session *session = arg;

	if (session->ended)
		return;
	pass_on(session);
	if (session->hello)
		session->hello_go_on(session);
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
		.told = on_told,
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

/*
 * An eventfd that the client polls; and the command descriptor of a NIC in hardware: its last close destroys what the client has made
 * with it, and unpins that memory.
 */
int session_attach_ctx(struct session *session, struct nic_ctx *ctx)
{
	struct nic_saved_fds saved = {0};
	int r = session_attach(session, ctx->doorbell.wake_fd, true);

	if (r == 0 && ctx->nic->blocks && ctx->nic->ops->ctx_saved_fds(ctx, &saved) == 0 && saved.n > 0)
		r = session_attach(session, saved.fds[0], true);
	return r;
}

bool session_flush(struct session *session)
{
	int r = -EPIPE;

	/* Also if nothing is to be sent: the porter hears as soon as the manager has everything. */
	if (!session->ended && session->saved.held_since_nsec)
		is_held(session);
	if (!session->ended)
		r = connection_flush(&session->connection);

	if (r < 0)
		send_failed(session, r);
	return r == 0;
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
	return !session->ended && (connection_stalled(&session->connection) || session->saved.held_since_nsec);
}

/* ---- saved state ----------------------------------------------------------------------------------------------------- */

void session_save(struct session *session, enum save_kind kind, void *object, int fd)
{
	const struct save_ops *save = session->registry->attr.save;

	if (save)
		save->add(session, kind, object, fd);
}

void session_unsave(struct session *session, enum save_kind kind, void *object)
{
	const struct save_ops *save = session->registry->attr.save;

	if (save)
		save->remove(session, kind, object);
}

void session_save_ending(struct session *session)
{
	const struct save_ops *save = session->registry->attr.save;

	if (save)
		save->ending(session);
}

/* ---- clients that outlive the daemon ------------------------------------------------------------------------------------ */

/*
 * A client learns by this pair of sockets that the daemon died while somebody keeps its connection open: only this process has the other
 * end. Nothing can be sent on it: this end is shut down for reading, so that its close finds an empty queue. It is not a pipe, since
 * whoever can open its end again for writing holds the lock that a close takes. Anybody may poll the client's end, and a porter holds it
 * too, so that no close of it here is the last one.
 */
bool session_may_resume(const struct registry *registry)
{
	return registry->saves_sessions && registry->attr.restart_grace_nsec > 0;
}

struct quota_amount session_own_amount(const struct session *session)
{
	return (struct quota_amount){
		.n = {[QUOTA_SESSIONS] = 1, [QUOTA_MAPS] = SESSION_MAPS,
		      [QUOTA_FDS] = OWN_FDS + (session->is_watched ? RESUME_FDS : 0)}};
}

/* The first one stays: it may be what its client watches. */
static void own_watch(struct session *session, int fd)
{
	int *place = &session->watch_fds[session->watch_fds[0] >= 0];

	safe_close(*place);
	*place = fd;
}

int session_make_watch(struct session *session)
{
	_cleanup_close_ int ours = -1, theirs = -1;
	int fds[2], r;

	if (session->n_watches == WATCHES_MAX)
		return -EMFILE;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	ours = fds[0];
	theirs = fds[1];
	if (shutdown(ours, SHUT_RD) < 0)
		return -errno;
	r = session_attach(session, theirs, false);
	if (r < 0)
		return r;
	own_watch(session, take_fd(&ours));
	session->n_watches++;
	return take_fd(&theirs);
}

void session_tell_resumed(struct session *session)
{
	struct registry *registry = session->registry;
	struct fdlist fds;
	struct msg msg;
	int fd;

	if (session->ended || !session->is_watched)
		return;
	fd = session_make_watch(session);
	if (fd < 0) {
		session_end(session, SHMD_STATUS_NO_MEMORY, "the daemon has restarted and cannot create a socket to watch for this session: %s",
			    strerror(-fd));
		return;
	}
	registry->resumed_total++;
	fdlist_init(&fds);
	fds.fds[fds.n++] = fd;
	msg_init(&msg, MSG_RESUMED_EVENT, 0);
	msg.resumed_event.restart_grace_nsec = registry->attr.restart_grace_nsec;
	snprintf(msg.resumed_event.daemon, sizeof(msg.resumed_event.daemon), "%s", registry->attr.daemon);
	session_send(session, &msg, &fds);
	fdlist_deinit(&fds);
}
