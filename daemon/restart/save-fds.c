/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors of sessions in the store, by name.
 *
 * Names are "s", the session's number in hex, "-", and: sock, pid, health, state; cN.K for descriptor K of NIC N; mN for memory of
 * regions; qH for memory of the queues behind handle H; pN for published descriptors. If one cannot be put, the session ends with this
 * daemon. Control thread.
 */
#include "daemon/restart/save.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "daemon/porter/held.h"
#include "daemon/porter/porter.h"
#include "daemon/restart/state.h"
#include "proto/base/cleanup.h"
#include "proto/text.h"

/* A full store would keep out the sessions of other users. So each user may fill at most this many times the free places. */
#define USER_SHARE 7u

struct saved_gone {
	struct list link;
	char name[SAVE_NAME_BYTES];
};

static void save_name_of(char name[SAVE_NAME_BYTES], uint64_t session, const char *what)
{
	snprintf(name, SAVE_NAME_BYTES, "s%" PRIx64 "-%s", session, what);
}

/* "s1f-m3" and the like. */
static void save_name(char name[SAVE_NAME_BYTES], uint64_t session, char kind, uint32_t number)
{
	snprintf(name, SAVE_NAME_BYTES, "s%" PRIx64 "-%c%" PRIx32, session, kind, number);
}

void save_name_nic(char name[SAVE_NAME_BYTES], uint64_t session, unsigned int nic, unsigned int k)
{
	snprintf(name, SAVE_NAME_BYTES, "s%" PRIx64 "-c%u.%u", session, nic, k);
}

/* ---- shares ------------------------------------------------------------------------------------------------------- */

static unsigned int count_names(const struct registry *registry, uint32_t uid)
{
	const struct session *session;
	unsigned int n = 0;

	list_for_each_entry(session, &registry->sessions, link)
		if (session->identity.uid == uid)
			n += session->saved.n_names;
	return n;
}

/* An eighth of what a user could have stays free for the others, and so on for each of them. */
static bool has_share(const struct session *session)
{
	const struct registry *registry = session->registry;
	unsigned int room = registry->attr.store->room(registry->attr.store_arg);

	/* bounded: what a service manager keeps. */
	return room == 0 || count_names(registry, session->identity.uid) <= (uint64_t)USER_SHARE * room;
}

/* ---- names that go ------------------------------------------------------------------------------------------------ */

static void remove_name(struct registry *registry, const char *name)
{
	registry->attr.store->remove(registry->attr.store_arg, name);
}

static void settle(struct registry *registry)
{
	registry->attr.store->settle(registry->attr.store_arg);
}

static void remove_one(struct session *session, const char *name)
{
	session->saved.n_names -= session->saved.n_names > 0;
	remove_name(session->registry, name);
}

static void remove_of(struct session *session, const char *what)
{
	char name[SAVE_NAME_BYTES];

	save_name_of(name, session->id, what);
	remove_name(session->registry, name);
}

static void remove_number(struct session *session, char kind, uint32_t number)
{
	char name[SAVE_NAME_BYTES];

	save_name(name, session->id, kind, number);
	remove_one(session, name);
}

void save_remove_gone(struct session *session)
{
	struct saved_gone *gone, *tmp;

	list_for_each_entry_safe(gone, tmp, &session->saved.gone, link) {
		list_del(&gone->link);
		remove_one(session, gone->name);
		free(gone);
	}
	settle(session->registry);
}

/* Without memory it goes at once: only who dies in this very moment leaves a state that names too much. */
void save_unname(struct session *session, char kind, uint32_t number)
{
	struct saved_gone *gone;

	if (!session->saved.state)
		return;
	gone = malloc(sizeof(*gone));
	if (!gone) {
		remove_number(session, kind, number);
		return;
	}
	save_name(gone->name, session->id, kind, number);
	list_add_tail(&session->saved.gone, &gone->link);
}

static void remove_resources(struct session *session)
{
	struct resource *head;
	uint64_t memory;
	size_t pos = 0;

	list_for_each_entry(head, &session->resources.lists[RESOURCE_QUEUES], link)
		if (head->is_saved)
			remove_number(session, 'q', head->handle);
	while (hash_next(&session->saved.memories, &pos, &memory))
		remove_number(session, 'm', (uint32_t)memory);
}

static void remove_contexts(struct session *session)
{
	char name[SAVE_NAME_BYTES];

	for (unsigned int i = 0; i < session->n_nics; i++)
		for (unsigned int k = 0; k < session->nics[i]->n_saved; k++) {
			save_name_nic(name, session->id, i, k);
			remove_name(session->registry, name);
		}
}

static void remove_published(struct session *session)
{
	struct publish_entry *entry;

	list_for_each_entry(entry, &session->published, owner_link)
		if (entry->saved)
			remove_number(session, 'p', entry->saved);
}

/* Removes the state first: the descriptors that it names have no owner from then on. */
static void remove_all(struct session *session)
{
	remove_of(session, "state");
	remove_resources(session);
	remove_contexts(session);
	remove_published(session);
	save_remove_gone(session);
	remove_of(session, "health");
	remove_of(session, "pid");
	remove_of(session, "sock");
	settle(session->registry);
	session->saved.n_names = 0;
}

void save_forget_reply(struct session_saved *saved)
{
	free(saved->reply);
	saved->reply = NULL;
	saved->reply_bytes = 0;
	saved->reply_fd = safe_close(saved->reply_fd);
	saved->request = 0;
}

void save_tell_porter(struct session *session, bool is_saved)
{
	if (session->connection.slot)
		porter_slot_keep(session->connection.slot, is_saved);
}

/* Its porter closes descriptors behind the service manager, however late that hears of their end; without this a second later. */
static void let_porter_follow(struct session *session)
{
	const struct registry_attr *attr = &session->registry->attr;
	_cleanup_close_ int fd = -1;

	if (!session->connection.slot)
		return;
	fd = attr->store->follow(attr->store_arg);
	if (fd >= 0)
		porter_slot_follow(session->connection.slot, fd);
}

/* May be called twice. */
static void forget_memories(struct session_saved *saved)
{
	struct saved_memory *memory;
	size_t pos = 0;
	uint64_t key;

	while ((memory = hash_next(&saved->memories, &pos, &key))) {
		safe_close(memory->fd);
		free(memory);
	}
	hash_deinit(&saved->memories);
	hash_deinit(&saved->memories_by_file);
}

void save_forget(struct session *session)
{
	struct session_saved *saved = &session->saved;

	save_forget_reply(saved);
	if (saved->state) {
		remove_all(session);
		let_porter_follow(session);
		save_tell_porter(session, false);
		saved->state = state_free(saved->state);
	}
	forget_memories(saved);
}

void save_drop(struct session *session, const char *fmt, ...)
{
	struct session_saved *saved = &session->saved;
	char text[sizeof(saved->reason) + 64];
	va_list ap;

	if (!saved->state)
		return;
	va_start(ap, fmt);
	vsnprintf(saved->reason, sizeof(saved->reason), fmt, ap);
	va_end(ap);
	text_clean(saved->reason, strlen(saved->reason));
	save_forget(session);
	snprintf(text, sizeof(text), "the session ends with this daemon: %s", saved->reason);
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

typedef int put_fn(void *arg, const char *name, int fd);

/* Memory in a carrier may be there before others that were put earlier. */
static void note_mark(struct session *session)
{
	const struct registry_attr *attr = &session->registry->attr;
	uint64_t mark = attr->store->mark(attr->store_arg);

	if (mark > session->saved.mark)
		session->saved.mark = mark;
}

static int save_by(struct session *session, put_fn *put, const char *name, int fd)
{
	int r;

	if (!session->saved.state)
		return -ENOENT;
	r = has_share(session) ? put(session->registry->attr.store_arg, name, fd) : -EDQUOT;
	session->saved.n_names += r == 0;
	if (r == 0)
		note_mark(session);
	if (r == -EDQUOT)
		save_drop(session, "this user has its share of what the service manager keeps (max-kept-fds)");
	else if (r == -ENOSPC)
		save_drop(session, "the service manager keeps no more descriptors (FileDescriptorStoreMax)");
	else if (r == -ENOBUFS)
		save_drop(session, "the service manager does not read, and too much waits for it");
	else if (r == -EAGAIN)
		save_drop(session, "somebody has a lease on its memory (fcntl(2), F_SETLEASE)");
	else if (r < 0)
		save_drop(session, "a descriptor cannot be kept: %s", strerror(-r));
	return r;
}

int save_fd(struct session *session, const char *name, int fd)
{
	return save_by(session, session->registry->attr.store->put, name, fd);
}

int save_fd_of(struct session *session, const char *what, int fd)
{
	char name[SAVE_NAME_BYTES];

	if (fd < 0)
		return 0;
	save_name_of(name, session->id, what);
	return save_fd(session, name, fd);
}

/*
 * The service manager closes what it keeps, and starts no other service while it waits for a client there. The last close of
 * anything but a memfd takes a lock of the processes that poll it; that of a pipe takes one more.
 */
static bool may_be_kept(int fd)
{
	struct inspect_info info;

	held_inspect(fd, &info);
	return info.kind == INSPECT_MEMFD;
}

bool save_fd_number(struct session *session, char kind, uint32_t number, int fd)
{
	char name[SAVE_NAME_BYTES];

	if (fd < 0 || !session->saved.state)
		return false;
	if (!may_be_kept(fd)) {
		save_drop(session, "it has published something else than a memfd, which the service manager could not close safely");
		return false;
	}
	save_name(name, session->id, kind, number);
	return save_by(session, session->registry->attr.store->put_memory, name, fd) == 0;
}

/* ---- of a former daemon -------------------------------------------------------------------------------------------- */

int save_take(struct session *session, const char *name)
{
	const struct registry_attr *attr = &session->registry->attr;
	int fd = attr->store->take(attr->store_arg, name);

	session->saved.n_names += fd >= 0;
	return fd;
}

int save_take_of(struct session *session, const char *what)
{
	char name[SAVE_NAME_BYTES];

	save_name_of(name, session->id, what);
	return save_take(session, name);
}

int save_take_number(struct session *session, char kind, uint32_t number)
{
	char name[SAVE_NAME_BYTES];

	save_name(name, session->id, kind, number);
	return save_take(session, name);
}
