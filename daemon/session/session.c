/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client and all that dies with it.
 *
 * Teardown is by kind in the order of the table below, never by id or age; within a kind the newest goes first,
 * since a batch of queues may use CQs of an older one. The order: data threads let go of the queues and QPs go to
 * error before anything they touch disappears; queues before the memory they name; memory before the context that
 * holds PD and doorbell page; the socket after all of them, so that its end tells a client that everything is gone. Quota charges live
 * in the objects and return with each.
 *
 * Refuses to free anything from inside a handler. No loop, no globals. Control thread.
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

#include "daemon/session/dispatch.h"
#include "daemon/session/monitor.h"
#include "proto/base/assert.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "proto/framing.h"

#define SESSION_PACKETS_PER_TURN 16
#define SESSION_TURN_NSEC (NSEC_PER_MSEC / 2)

static void teardown_quiesce(struct session *session);
static void teardown_queues(struct session *session);
static void teardown_memory(struct session *session);
static void teardown_nics(struct session *session);
static void teardown_published(struct session *session);
static void teardown_health(struct session *session);
static void teardown_connection(struct session *session);
static void teardown_charges(struct session *session);

static const struct {
	const char *steps;
	void (*run)(struct session *session);
} teardown[] = {
	{"1 stop data threads on its queues, 2 QPs to error, 3 bounded wait for the flush", teardown_quiesce},
	{"4 destroy QPs, 5 CQs", teardown_queues},
	{"6 deregister memory", teardown_memory},
	{"7 doorbell pages, 8 PDs, 9 contexts and their descriptors", teardown_nics},
	{"9 descriptors: published ones", teardown_published},
	{"9 descriptors: health page", teardown_health},
	{"9 descriptors: socket and pidfd", teardown_connection},
	{"11 the quota of session and connection", teardown_charges},
};

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

static int refuse_connection(struct session *session, enum quota_what what, enum shmd_status status)
{
	struct msg msg;

	msg_init(&msg, MSG_ERROR_REP, 0);
	msg.error_rep.status = status;
	quota_explain(&session->user, what, 1, msg.error_rep.text, sizeof(msg.error_rep.text));
	note_event(session, CATALOG_SESSION_REFUSED, "refused a connection: %s", msg.error_rep.text);
	session->registry->refused_total++;
	session_send(session, &msg, NULL);
	monitor_refused(session, status, msg.error_rep.text);
	return -EDQUOT;
}

static int charge_connection(struct session *session)
{
	const struct quota_amount amount = {.n = {[QUOTA_CONNECTIONS] = 1}};

	/* Those whose clients have read or gone meanwhile give their places back. */
	unread_look(&session->registry->unread, UNREAD_LOOKS);
	if (quota_fds_stuck(&session->user, 1))
		return refuse_connection(session, QUOTA_FDS, SHMD_STATUS_QUOTA_FDS);
	if (quota_charge(&session->user, &amount, &session->connection_charge) == 0)
		return 0;
	return refuse_connection(session, QUOTA_CONNECTIONS, SHMD_STATUS_QUOTA_SESSIONS);
}

int session_new(struct registry *registry, int sock, struct session **ret_session)
{
	_cleanup_close_ int owned_sock = sock;
	_cleanup_(session_freep) struct session *session = calloc(1, sizeof(*session));
	int r, r_identity;

	if (!session)
		return -ENOMEM;
	session->registry = registry;
	session->health_fd = -1;
	session->identity.pidfd = -1;
	session->started_nsec = nsec_now();
	list_init(&session->link);
	list_init(&session->monitor_link);
	list_init(&session->published);
	resource_table_init(&session->resources);
	connection_init(&session->connection, take_fd(&owned_sock));

	r = framing_setup(session->connection.fd);
	if (r < 0)
		return r;
	r_identity = identity_init(&session->identity, session->connection.fd);
	r = quota_user_init(&session->user, &registry->quota, session->identity.uid,
			    session->identity.cgroup);
	if (r < 0)
		return r;
	/* Also of a client that is gone already: what it sent has to be closed. */
	session->connection.account = quota_user_account(&session->user);
	if (r_identity < 0)
		return r_identity;
	r = unread_new(&registry->unread, &session->user, session->connection.fd, &session->connection.unread);
	if (r < 0)
		return r;
	r = charge_connection(session);
	if (r < 0)
		return r;
	r = framing_set_passing(session->connection.fd, true);
	if (r < 0 && r != -ENOPROTOOPT)
		return r;
	session->id = ++registry->last_id;
	list_add_tail(&registry->sessions, &session->link);
	*ret_session = take_ptr(session);
	return 0;
}

struct session *session_free(struct session *session)
{
	if (!session)
		return NULL;
	session->ended = true;
	/* Also where nobody called session_end(): a kernel on a GPU has nothing but these words. */
	session_health_end(session);
	monitor_leave(session);
	for (unsigned int i = 0; i < sizeof(teardown) / sizeof(teardown[0]); i++)
		teardown[i].run(session);
	monitor_session_closed(session);
	list_del(&session->link);
	free(session);
	return NULL;
}

/* ---- teardown, in the order of the table ------------------------------------------------------------------- */

/*
 * One budget for all NICs of the session, so that many NICs do not add up, from one for all sessions, so that many
 * sessions do not. Who has gone reads no flush CQEs: nothing is waited for.
 */
static void teardown_quiesce(struct session *session)
{
	struct registry *registry = session->registry;
	uint64_t begin = nsec_now(), now = begin;
	uint64_t left = session->gone ? 0 : registry_quiesce_left(registry), end = nsec_add(begin, left);

	for (unsigned int i = 0; i < session->n_nics; i++) {
		struct nic_ctx *ctx = session->nics[i]->ctx;

		ctx->nic->ops->ctx_quiesce(ctx, now < end ? end - now : 0);
		now = nsec_now();
	}
	if (left > 0)
		registry_quiesce_spent(registry, now - begin);
}

static void teardown_queues(struct session *session)
{
	struct list *all = &session->resources.lists[RESOURCE_QUEUES];
	struct resource *head, *tmp;

	list_for_each_entry_safe(head, tmp, all, link) {
		struct session_queues *queues = container_of(head, struct session_queues, head);
		int r = session_queues_free(session, queues);

		/* A context whose queues stay cannot be closed: that is a backend's bug. */
		assert_bug(r == 0);
	}
}

static void teardown_memory(struct session *session)
{
	struct list *all = &session->resources.lists[RESOURCE_MR];
	struct resource *head, *tmp;

	list_for_each_entry_safe(head, tmp, all, link)
		session_mr_free(session, container_of(head, struct session_mr, head));
}

static void teardown_nics(struct session *session)
{
	while (session->n_nics > 0) {
		struct session_nic **last = &session->nics[--session->n_nics];

		*last = session_nic_free(*last);
	}
}

static void teardown_published(struct session *session)
{
	struct publish_entry *entry, *tmp;

	list_for_each_entry_safe(entry, tmp, &session->published, owner_link)
		publish_entry_free(entry);
	session->n_published = 0;
}

static void teardown_health(struct session *session)
{
	if (session->health)
		munmap(session->health, sizeof(*session->health));
	session->health = NULL;
	session->health_fd = safe_close(session->health_fd);
}

static void teardown_connection(struct session *session)
{
	resource_table_deinit(&session->resources);
	connection_deinit(&session->connection, &session->connection_charge);
	identity_deinit(&session->identity);
}

static void teardown_charges(struct session *session)
{
	quota_charge_deinit(&session->session_charge);
	quota_charge_deinit(&session->connection_charge);
	quota_user_deinit(&session->user);
}

/* ---- single resources ----------------------------------------------------------------------------------------- */

struct session_mr *session_mr_free(struct session *session, struct session_mr *mr)
{
	if (!mr)
		return NULL;
	if (mr->mr)
		mr->mr->ctx->nic->ops->mr_dereg(mr->mr);
	resource_remove(&session->resources, &mr->head);
	quota_charge_deinit(&mr->head.charge);
	free(mr);
	return NULL;
}

int session_queues_add_numbers(struct session_queues *queues)
{
	const struct nic_layout *layout = &queues->queues->layout;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < layout->n_qps; i++)
		r = hash_add(&queues->nic->qps, layout->qps[i].qpn, queues);
	for (uint32_t i = 0; r == 0 && i < layout->n_cqs; i++)
		r = hash_add(&queues->nic->cqs, layout->cqs[i].cqn, queues);
	return r;
}

/* Also right when only some were added. */
static void remove_numbers(struct session_queues *queues)
{
	const struct nic_layout *layout = &queues->queues->layout;

	for (uint32_t i = 0; i < layout->n_qps; i++)
		hash_remove(&queues->nic->qps, layout->qps[i].qpn);
	for (uint32_t i = 0; i < layout->n_cqs; i++)
		hash_remove(&queues->nic->cqs, layout->cqs[i].cqn);
}

int session_queues_free(struct session *session, struct session_queues *queues)
{
	struct nic_queues *q = queues->queues;
	struct monitor_batch told;
	uint32_t n_qps;
	int r;

	if (q) {
		n_qps = q->layout.n_qps;
		told = monitor_batch_of(queues);
		remove_numbers(queues);
		r = q->ctx->nic->ops->queues_destroy(q);
		if (r < 0) {
			int known = session_queues_add_numbers(queues);

			assert_bug(known == 0); /* the maps never shrink */
			return r;
		}
		queues->nic->rnic->n_qps -= n_qps;
		queues->nic->rnic->n_dcis -= queues->n_dcis;
		queues->nic->rnic->n_dcts -= queues->n_dcts;
		/* What failed half way was never told of. */
		if (queues->head.handle)
			monitor_queues(session, MSG_EVENT_QUEUES_DESTROYED, &told);
	}
	resource_remove(&session->resources, &queues->head);
	quota_charge_deinit(&queues->head.charge);
	free(queues);
	return 0;
}

struct session_nic *session_nic_free(struct session_nic *nic)
{
	if (!nic)
		return NULL;
	if (nic->ctx) {
		nic->ctx->nic->ops->ctx_close(nic->ctx);
		nic->rnic->n_sessions--;
	}
	hash_deinit(&nic->qps);
	hash_deinit(&nic->cqs);
	quota_charge_deinit(&nic->charge);
	free(nic);
	return NULL;
}

/* ---- end --------------------------------------------------------------------------------------------- */

static void call_attention(struct session *session)
{
	const struct registry_hooks *hooks = &session->registry->attr.hooks;

	if (hooks->attention && session->owner)
		hooks->attention(hooks->arg, session);
}

void session_end_gone(struct session *session)
{
	if (session->ended)
		return;
	session->ended = true;
	session->end_status = SHMD_STATUS_OK;
	session->gone = true;
	session_note(session, LOG_DEBUG, NOTE_SESSION, "the client has gone");
	session_health_end(session);
	call_attention(session);
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
	memcpy(session->end_text, msg.event.text, sizeof(session->end_text));
	call_attention(session);
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
		call_attention(session);
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

void session_send_packet(struct session *session, const struct msg *msg, const void *packet, size_t bytes)
{
	if (session->ended)
		return;
	session_trace(session, "->", msg);
	send_packet(session, packet, bytes, NULL);
}

static bool read_one(struct session *session)
{
	uint8_t *buf = session->registry->in_packet;
	struct fdlist fds;
	size_t bytes;
	int r;

	if (quota_fds_overrun(&session->user) && framing_next_has_fds(session->connection.fd)) {
		session_end(session, SHMD_STATUS_QUOTA_FDS,
			    "the user sent descriptors whose closing takes too long, and sends more");
		return false;
	}
	fdlist_init(&fds);
	fds.account = session->connection.account;
	r = connection_recv(&session->connection, buf, REGISTRY_PACKET_BYTES, &bytes, &fds);
	if (r == 0)
		dispatch_packet(session, buf, bytes, &fds);
	else if (r == -EMFILE)
		dispatch_without_fds(session, buf, bytes);
	else if (r == -EMSGSIZE)
		session_end(session, SHMD_STATUS_PROTOCOL, "the client sent a packet above the limits");
	else if (r != -EAGAIN)
		session_end_gone(session);
	fdlist_deinit(&fds);
	return r == 0 || r == -EMFILE;
}

/* Requests are cheap or dear: either way others have their turn soon. */
void session_readable(struct session *session)
{
	uint64_t begin = nsec_now();

	for (int i = 0; i < SESSION_PACKETS_PER_TURN && !session->ended; i++)
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
		call_attention(session);
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
