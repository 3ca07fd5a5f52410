/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a session that a later daemon needs, and the descriptors.
 *
 * The state is written after each request that changed something and before its answer, by keep-write.c: so every answer that a client got
 * is kept. A request that is cut in the middle was never answered; it comes again. A session that something cannot be
 * kept of is not kept at all. Names of what is kept, each after "s", the session's number in hex, and "-": sock, pid,
 * health, state; cN.K for descriptor K of NIC N; mN for memory of regions; qH for memory of the queues behind handle H; pN for
 * what was published.
 *
 * Control thread.
 */
#include "daemon/session/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "daemon/porter/held.h"
#include "daemon/porter/porter.h"
#include "daemon/session/keep-tables.h"
#include "daemon/session/session.h"
#include "proto/base/cleanup.h"
#include "proto/text.h"

/* Whoever fills the store keeps the sessions of others out of it: a user has at most so many times what is left to them. */
#define USER_SHARE 7u

struct keep_gone {
	struct list link;
	char name[KEEP_NAME_BYTES];
};

void keep_name_of(char name[KEEP_NAME_BYTES], uint64_t session, const char *what)
{
	snprintf(name, KEEP_NAME_BYTES, "s%" PRIx64 "-%s", session, what);
}

void keep_name(char name[KEEP_NAME_BYTES], uint64_t session, char kind, uint32_t number)
{
	snprintf(name, KEEP_NAME_BYTES, "s%" PRIx64 "-%c%" PRIx32, session, kind, number);
}

void keep_name_nic(char name[KEEP_NAME_BYTES], uint64_t session, unsigned int nic, unsigned int k)
{
	snprintf(name, KEEP_NAME_BYTES, "s%" PRIx64 "-c%u.%u", session, nic, k);
}

void session_keep_init(struct session_keep *keep)
{
	*keep = (struct session_keep){.reply_fd = -1};
	list_init(&keep->gone);
	list_init(&keep->changed_queues);
	hash_init(&keep->memories);
	hash_init(&keep->memories_by_file);
}

bool session_is_kept(const struct session *session)
{
	return session->keep.state;
}

void session_changed(struct session *session)
{
	session->keep.changed = true;
}

/* ---- shares ------------------------------------------------------------------------------------------------------- */

static unsigned int count_names(const struct registry *registry, uint32_t uid)
{
	const struct session *session;
	unsigned int n = 0;

	list_for_each_entry(session, &registry->sessions, link)
		if (session->identity.uid == uid)
			n += session->keep.n_names;
	return n;
}

/* An eighth of what a user could have stays free for the others, and so on for each of them. */
static bool has_share(const struct session *session)
{
	const struct registry *registry = session->registry;
	unsigned int room = registry->attr.keep->room(registry->attr.keep_arg);

	/* bounded: what a service manager keeps. */
	return room == 0 || count_names(registry, session->identity.uid) <= (uint64_t)USER_SHARE * room;
}

/* ---- names that go ------------------------------------------------------------------------------------------------ */

static void remove_name(struct registry *registry, const char *name)
{
	registry->attr.keep->remove(registry->attr.keep_arg, name);
}

static void remove_one(struct session *session, const char *name)
{
	session->keep.n_names -= session->keep.n_names > 0;
	remove_name(session->registry, name);
}

static void remove_of(struct session *session, const char *what)
{
	char name[KEEP_NAME_BYTES];

	keep_name_of(name, session->id, what);
	remove_name(session->registry, name);
}

static void remove_number(struct session *session, char kind, uint32_t number)
{
	char name[KEEP_NAME_BYTES];

	keep_name(name, session->id, kind, number);
	remove_one(session, name);
}

static void remove_gone(struct session *session)
{
	struct keep_gone *gone, *tmp;

	list_for_each_entry_safe(gone, tmp, &session->keep.gone, link) {
		list_del(&gone->link);
		remove_one(session, gone->name);
		free(gone);
	}
}

/* Without memory it goes at once: only who dies in this very moment leaves a state that names too much. */
void session_keep_unname(struct session *session, char kind, uint32_t number)
{
	struct keep_gone *gone;

	if (!session->keep.state)
		return;
	gone = malloc(sizeof(*gone));
	if (!gone) {
		remove_number(session, kind, number);
		return;
	}
	keep_name(gone->name, session->id, kind, number);
	list_add_tail(&session->keep.gone, &gone->link);
}

static void remove_resources(struct session *session)
{
	struct resource *head;
	uint32_t memory;
	size_t pos = 0;

	list_for_each_entry(head, &session->resources.lists[RESOURCE_QUEUES], link)
		if (head->is_kept)
			remove_number(session, 'q', head->handle);
	while ((memory = session_keep_next_memory(&session->keep, &pos)))
		remove_number(session, 'm', memory);
}

static void remove_contexts(struct session *session)
{
	char name[KEEP_NAME_BYTES];

	for (unsigned int i = 0; i < session->n_nics; i++)
		for (unsigned int k = 0; k < session->nics[i]->n_kept; k++) {
			keep_name_nic(name, session->id, i, k);
			remove_name(session->registry, name);
		}
}

static void remove_published(struct session *session)
{
	struct publish_entry *entry;

	list_for_each_entry(entry, &session->published, owner_link)
		if (entry->kept)
			remove_number(session, 'p', entry->kept);
}

/* The state first: what it names is nobody's from then on. */
static void remove_all(struct session *session)
{
	remove_of(session, "state");
	remove_resources(session);
	remove_contexts(session);
	remove_published(session);
	remove_gone(session);
	remove_of(session, "health");
	remove_of(session, "pid");
	remove_of(session, "sock");
	session->keep.n_names = 0;
}

static void forget_reply(struct session_keep *keep)
{
	free(keep->reply);
	keep->reply = NULL;
	keep->reply_bytes = 0;
	keep->reply_fd = safe_close(keep->reply_fd);
	keep->request = 0;
}

/* Its porter keeps the socket open while the service manager closes its own. */
static void tell_porter(struct session *session, bool is_kept)
{
	if (session->connection.slot)
		porter_slot_keep(session->connection.slot, is_kept);
}

void session_keep_forget(struct session *session)
{
	struct session_keep *keep = &session->keep;

	forget_reply(keep);
	if (keep->state) {
		remove_all(session);
		tell_porter(session, false);
		keep->state = session->registry->attr.keep->state_free(keep->state);
	}
	session_keep_memory_end(keep);
}

void session_keep_drop(struct session *session, const char *fmt, ...)
{
	struct session_keep *keep = &session->keep;
	char text[sizeof(keep->reason) + 64];
	va_list ap;

	if (!keep->state)
		return;
	va_start(ap, fmt);
	vsnprintf(keep->reason, sizeof(keep->reason), fmt, ap);
	va_end(ap);
	text_clean(keep->reason, strlen(keep->reason));
	session_keep_forget(session);
	snprintf(text, sizeof(text), "the session ends with this daemon: %s", keep->reason);
	registry_note(session->registry, &(struct note){
		.level = LOG_NOTICE,
		.topic = NOTE_SESSION,
		.session = session,
		.event = CATALOG_SESSION_UNKEPT,
		.provoked = true,
		.text = text,
	});
}

/* ---- descriptors -------------------------------------------------------------------------------------------------- */

static int put(struct session *session, const char *name, int fd)
{
	struct registry *registry = session->registry;
	int r;

	if (!session->keep.state)
		return -ENOENT;
	r = has_share(session) ? registry->attr.keep->put(registry->attr.keep_arg, name, fd) : -EDQUOT;
	session->keep.n_names += r == 0;
	if (r == -EDQUOT)
		session_keep_drop(session, "this user has its share of what the service manager keeps (max-kept-fds)");
	else if (r == -ENOSPC)
		session_keep_drop(session, "the service manager keeps no more descriptors (FileDescriptorStoreMax)");
	else if (r == -EAGAIN)
		session_keep_drop(session, "somebody has a lease on its memory (fcntl(2), F_SETLEASE)");
	else if (r < 0)
		session_keep_drop(session, "a descriptor cannot be kept: %s", strerror(-r));
	return r;
}

static int put_of(struct session *session, const char *what, int fd)
{
	char name[KEEP_NAME_BYTES];

	if (fd < 0)
		return 0;
	keep_name_of(name, session->id, what);
	return put(session, name, fd);
}

/*
 * Whoever keeps it closes it as well, and a service manager that waits for a client starts nothing any more. All but memfds can
 * be polled, so that their last close takes a lock of whoever polls them; pipes have one more.
 */
static bool may_be_kept(int fd)
{
	struct inspect_info info;

	held_inspect(fd, &info);
	return info.kind == INSPECT_MEMFD;
}

bool session_keep_put(struct session *session, char kind, uint32_t number, int fd)
{
	char name[KEEP_NAME_BYTES];

	if (fd < 0 || !session->keep.state)
		return false;
	if (!may_be_kept(fd)) {
		session_keep_drop(session, "it has published something else than a memfd, which the service manager could not close safely");
		return false;
	}
	keep_name(name, session->id, kind, number);
	return put(session, name, fd) == 0;
}

/* More may come while the context lives; those that are there stay what they are. */
void session_keep_nic(struct session *session, struct session_nic *nic)
{
	struct nic_kept kept = {0};
	char name[KEEP_NAME_BYTES];
	int r;

	if (!session->keep.state)
		return;
	r = nic->ctx->nic->ops->ctx_keep(nic->ctx, &kept);
	if (r == -EOPNOTSUPP)
		session_keep_drop(session, "what it has on %s ends with the daemon", nic->rnic->info.name);
	else if (r < 0)
		session_keep_drop(session, "what it has on %s cannot be kept: %s", nic->rnic->info.name, strerror(-r));
	for (; r == 0 && nic->n_kept < kept.n; nic->n_kept++) {
		keep_name_nic(name, session->id, nic->index, nic->n_kept);
		r = put(session, name, kept.fds[nic->n_kept]);
		/* One that was put of a NIC that the session does not have yet goes with what nobody names. */
		if (r < 0)
			return;
	}
}

/* ---- the state ---------------------------------------------------------------------------------------------------- */

int session_keep_write(struct session *session)
{
	int r;

	if (!session->keep.state)
		return 0;
	r = session_keep_save(session);
	if (r < 0)
		return r;
	session->keep.changed = false;
	remove_gone(session);
	return 0;
}

/* Nobody asks for these before there is a state: that comes with the answer to Hello. */
void session_keep_begin(struct session *session)
{
	const struct registry_attr *attr = &session->registry->attr;
	int r;

	if (!attr->keep || !session->is_watched)
		return;
	r = attr->keep->state_new(&session->keep.state);
	if (r < 0) {
		snprintf(session->keep.reason, sizeof(session->keep.reason), "no memory for its state: %s", strerror(-r));
		return;
	}
	r = put_of(session, "sock", session->connection.fd);
	if (r == 0)
		r = put_of(session, "pid", session->identity.pidfd);
	if (r == 0)
		put_of(session, "health", session->health_fd);
}

/*
 * With the first answer, since who takes a session over has one to give: a client that hears of a restart before it hears of its
 * session says Hello once more.
 */
static void name_state(struct session *session)
{
	struct session_keep *keep = &session->keep;

	if (!keep->state || keep->is_named)
		return;
	keep->is_named = true;
	if (put_of(session, "state", session->registry->attr.keep->state_fd(keep->state)) == 0)
		tell_porter(session, true);
}

void session_keep_ending(struct session *session)
{
	forget_reply(&session->keep);
	session_keep_write(session);
}

/* ---- requests ----------------------------------------------------------------------------------------------------- */

/* Descriptors of all replies but this one are found in the session. */
static int keep_reply_fd(struct session_keep *keep, const struct msg *rep, const struct fdlist *fds)
{
	if (rep->kind != MSG_QUEUE_CREATE_REP || fds->n == 0)
		return 0;
	keep->reply_fd = fcntl(fds->fds[0], F_DUPFD_CLOEXEC, 3);
	return keep->reply_fd < 0 ? -errno : 0;
}

static int copy_reply(struct session *session, struct msg *rep)
{
	struct registry *registry = session->registry;
	int r = msg_encode(rep, registry->packet, REGISTRY_PACKET_BYTES);

	if (r < 0)
		return r;
	/* bounded: a packet. */
	session->keep.reply = malloc((size_t)r + 1);
	if (!session->keep.reply)
		return -ENOMEM;
	memcpy(session->keep.reply, registry->packet, (size_t)r);
	session->keep.reply_bytes = (size_t)r;
	return 0;
}

void session_keep_reply(struct session *session, const struct msg *request, struct msg *rep, const struct fdlist *fds)
{
	struct session_keep *keep = &session->keep;
	int r;

	if (!keep->state || session->ended)
		return;
	forget_reply(keep);
	rep->n_fds = fds->n;
	keep->request = request->id;
	keep->kind = request->kind;
	r = copy_reply(session, rep);
	if (r == 0)
		r = keep_reply_fd(keep, rep, fds);
	if (r < 0)
		session_keep_drop(session, "an answer cannot be kept: %s", strerror(-r));
	if (session_keep_write(session) == 0)
		name_state(session);
}

void session_keep_rest(struct session *session)
{
	if (session->keep.state && session->keep.changed && !session->ended)
		session_keep_write(session);
}
