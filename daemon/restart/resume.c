/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claim, verify, adopt, discard.
 *
 * Sessions come by rising number, the order in which they were made. The daemon takes over all of a session or nothing. If it
 * takes nothing, it sends the reason on the session's socket and removes all names of the session. That includes sessions whose
 * state has another version or cannot be read. No NIC moves anything before the last session is there, since sessions write to
 * each other.
 *
 * Where NICs block or stall, workers import sessions, those of several users at the same time. A user can make an import wait for
 * its memory, so NICs that stall wait for `most_nsec` and then go on: a session that comes later ends. Its peers find it gone.
 * Control thread, except pending_run().
 */
#include "daemon/restart/resume.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "daemon/restart/import.h"
#include "daemon/restart/state.h"
#include "daemon/service/fdstore.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "proto/base/show.h"

#define STATE_SUFFIX "-state"
#define WAIT_NSEC (200 * NSEC_PER_MSEC) /* between two calls of progress() */

/* ---- the store as sessions see it --------------------------------------------------------------------------------- */

static int ops_put(void *arg, const char *name, int fd)
{
	return manager_store_put(arg, name, fd);
}

static int ops_put_memory(void *arg, const char *name, int fd)
{
	return manager_store_put_memory(arg, name, fd);
}

static unsigned int ops_room(void *arg)
{
	return manager_store_usual_room(arg);
}

static void ops_remove(void *arg, const char *name)
{
	manager_store_remove(arg, name);
}

static void ops_settle(void *arg)
{
	manager_store_settle(arg);
}

static uint64_t ops_mark(void *arg)
{
	return manager_store_mark(arg);
}

static bool ops_reached(void *arg, uint64_t mark)
{
	return fdstore_reached(mark);
}

/* Carriers have memory of many sessions. */
static bool ops_lost(void *arg, uint64_t session)
{
	char prefix[32];

	snprintf(prefix, sizeof(prefix), "s%" PRIx64 "-", session);
	return fdstore_has_lost(prefix) || fdstore_has_lost("s0-b");
}

static int ops_follow(void *arg)
{
	return fdstore_follow();
}

static int ops_take(void *arg, const char *name)
{
	return manager_store_take(arg, name);
}

const struct save_store resume_store = {.put = ops_put, .put_memory = ops_put_memory, .room = ops_room, .remove = ops_remove,
					.settle = ops_settle, .mark = ops_mark, .reached = ops_reached, .lost = ops_lost,
					.follow = ops_follow, .take = ops_take};

/* ---- what was claimed ---------------------------------------------------------------------------------------------- */

struct claimed_name {
	char name[SAVE_NAME_BYTES];
	bool is_of_session;
	uint64_t session;
};

struct claimed {
	unsigned int n, size;
	struct claimed_name *names; /* owned */
	uint64_t *ids; /* owned: of sessions with a state, n_ids of them */
	unsigned int n_ids;
};

static void claimed_deinit(struct claimed *claimed)
{
	free(claimed->names);
	free(claimed->ids);
}

static void count_name(void *arg, const char *name)
{
	struct claimed *claimed = arg;

	claimed->size++;
}

/* The session and the rest of "s1f-anything". False: the name belongs to no session. */
static bool parse_name(const char *name, uint64_t *ret_id, const char **ret_what)
{
	int end = 0;

	if (sscanf(name, "s%" SCNx64 "-%n", ret_id, &end) != 1 || end == 0)
		return false;
	*ret_what = name + end;
	return true;
}

static void add_name(void *arg, const char *name)
{
	struct claimed *claimed = arg;
	struct claimed_name *to;
	const char *what;

	if (claimed->n == claimed->size || strlen(name) >= SAVE_NAME_BYTES)
		return;
	to = &claimed->names[claimed->n++];
	snprintf(to->name, sizeof(to->name), "%s", name);
	to->is_of_session = parse_name(name, &to->session, &what);
	if (to->is_of_session && strcmp(what, "state") == 0)
		claimed->ids[claimed->n_ids++] = to->session;
}

static int compare_ids(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int find_claimed(struct manager_store *store, struct claimed *claimed)
{
	*claimed = (struct claimed){0};
	manager_store_each_left(store, count_name, claimed);
	/* bounded: what the service manager keeps. */
	claimed->names = calloc((size_t)claimed->size + 1, sizeof(*claimed->names));
	claimed->ids = calloc((size_t)claimed->size + 1, sizeof(*claimed->ids));
	if (!claimed->names || !claimed->ids)
		return -ENOMEM;
	manager_store_each_left(store, add_name, claimed);
	qsort(claimed->ids, claimed->n_ids, sizeof(*claimed->ids), compare_ids);
	return 0;
}

/*
 * Removes all names of a session, taken or not. An upgrade may refuse thousands of sessions with several names each, so the loop
 * compares numbers and parses nothing.
 */
static void let_go(struct manager_store *store, const struct claimed *claimed, uint64_t id)
{
	for (unsigned int i = 0; i < claimed->n; i++)
		if (claimed->names[i].is_of_session && claimed->names[i].session == id)
			manager_store_remove(store, claimed->names[i].name);
	manager_store_settle(store);
}

/* ---- one session ---------------------------------------------------------------------------------------------------- */

static void tell_lost(struct registry *registry, uint64_t id, int r)
{
	char text[128];

	snprintf(text, sizeof(text), "session %" PRIu64 " of the daemon before cannot go on: %s", id, strerror(-r));
	registry_note(registry, &(struct note){.level = LOG_WARNING, .topic = NOTE_SESSION, .text = text});
}

/* On success the caller owns *ret_state. */
static int read_state(struct manager_store *store, const char *name, struct state **ret_state, const void **ret_bytes,
		      size_t *ret_n)
{
	struct state *state;
	uint32_t version;
	int fd, r;

	fd = manager_store_take(store, name);
	if (fd < 0)
		return fd;
	r = state_open(fd, &state);
	if (r < 0)
		return r;
	r = state_read(state, &version, ret_bytes, ret_n);
	if (r < 0)
		state_free(state);
	else
		*ret_state = state;
	return r;
}

struct resuming {
	struct resume_attr attr;
	struct claimed claimed;
	struct resume_result result;
	struct list pending; /* struct pending.link: imports that have begun */
	bool is_over; /* NICs have gone on */
};

struct pending {
	struct list link;
	struct work work;
	struct resuming *all;
	struct import *import; /* owned */
	uint64_t id;
};

static struct resuming *resuming_free(struct resuming *all)
{
	if (!all)
		return NULL;
	claimed_deinit(&all->claimed);
	free(all);
	return NULL;
}
DEFINE_CLEANUP(struct resuming *, resuming_free);

static void count_lost(struct resuming *all, uint64_t id, int r)
{
	if (r == -EPROTONOSUPPORT)
		all->result.n_strange++;
	else
		all->result.n_ended++;
	let_go(all->attr.store, &all->claimed, id);
	if (r != -EPROTONOSUPPORT)
		tell_lost(all->attr.registry, id, r);
}

/* Its NICs have gone on without it, so its peers have found it gone. */
static void end_late(struct session *session)
{
	session_end(session, SHMD_STATUS_SHUTDOWN,
		    "shmemd has restarted and cannot go on with this session: its memory kept the restart waiting for too long");
	session_release(session);
}

static void pending_run(struct work *work)
{
	import_run(container_of(work, struct pending, work)->import);
}

static void pending_done(struct work *work)
{
	struct pending *pending = container_of(work, struct pending, work);
	struct resuming *all = pending->all;
	struct session *session;
	int r = import_end(pending->import, &session);

	list_del(&pending->link);
	if (r < 0)
		count_lost(all, pending->id, r);
	else if (all->is_over)
		end_late(session);
	free(pending);
	if (all->is_over && list_empty(&all->pending))
		resuming_free(all);
}

/* The import of the others goes on if there is no memory for one. */
static int add_pending(struct resuming *all, uint64_t id, struct state *state, const void *bytes, size_t n)
{
	struct pending *pending = malloc(sizeof(*pending));
	int r;

	if (!pending) {
		state_free(state);
		return -ENOMEM;
	}
	*pending = (struct pending){.all = all, .id = id};
	r = import_begin(all->attr.registry, id, state, bytes, n, &pending->import);
	if (r < 0) {
		free(pending);
		return r;
	}
	list_add_tail(&all->pending, &pending->link);
	return 0;
}

static int begin_one(struct resuming *all, uint64_t id)
{
	char name[SAVE_NAME_BYTES];
	struct state *state;
	const void *bytes;
	size_t n;
	int r;

	snprintf(name, sizeof(name), "s%" PRIx64 STATE_SUFFIX, id);
	r = read_state(all->attr.store, name, &state, &bytes, &n);
	if (r == 0)
		return add_pending(all, id, state, bytes, n);
	session_refuse(all->attr.registry, id, r == -EPROTONOSUPPORT ? "its saved state is of another version of shmemd" :
								  "its saved state cannot be read");
	return r;
}

static void tell_progress(const struct resume_attr *attr)
{
	if (attr->progress)
		attr->progress(attr->arg);
}

static void begin_each(struct resuming *all)
{
	const struct claimed *claimed = &all->claimed;

	for (unsigned int i = 0; i < claimed->n_ids; i++) {
		int r;

		/* It had ended, and its contexts are closed and counted: only names were left to go. */
		if (claimed->ids[i] == all->attr.registry->counted) {
			let_go(all->attr.store, claimed, claimed->ids[i]);
			all->result.n_ended++;
			tell_progress(&all->attr);
			continue;
		}
		r = begin_one(all, claimed->ids[i]);
		if (r < 0)
			count_lost(all, claimed->ids[i], r);
		tell_progress(&all->attr);
	}
}

/* One after the other if there are no workers. */
static void submit_each(struct resuming *all)
{
	struct registry *registry = all->attr.registry;
	struct pending *pending, *tmp;

	list_for_each_entry_safe(pending, tmp, &all->pending, link) {
		const struct quota_user *user = &pending->import->session->user;

		pending->work = (struct work){.users = {user->uid, user->cgroup}, .may_stall = registry->stalls,
					      .run = pending_run, .done = pending_done};
		registry_work(registry, registry_has_busy(registry), &pending->work);
		tell_progress(&all->attr);
	}
}

/* Returns how many there are. */
static unsigned int tell_late(struct resuming *all)
{
	const struct pending *pending;
	unsigned int n = 0;

	list_for_each_entry(pending, &all->pending, link) {
		char text[160];

		snprintf(text, sizeof(text), "session %" PRIu64 " of the daemon before cannot go on: its import waits for memory of uid %u",
			 pending->id, pending->import->session->identity.uid);
		registry_note(all->attr.registry, &(struct note){.level = LOG_WARNING, .topic = NOTE_SESSION, .text = text});
		n++;
	}
	return n;
}

static void wait_for_all(struct resuming *all)
{
	uint64_t begin = nsec_now(), most = all->attr.most_nsec, now = begin;

	while (!list_empty(&all->pending) && (!most || now - begin < most)) {
		uint64_t left = most ? most - (now - begin) : WAIT_NSEC;

		all->attr.wait(all->attr.arg, left < WAIT_NSEC ? left : WAIT_NSEC);
		tell_progress(&all->attr);
		now = nsec_now();
	}
}

static void import_registry(const struct resume_attr *attr)
{
	struct state *state;
	const void *bytes;
	size_t n;
	int r = read_state(attr->store, SAVE_REGISTRY, &state, &bytes, &n);

	if (r == 0) {
		r = registry_import(attr->registry, state, bytes, n);
		if (r < 0)
			state_free(state);
	}
	if (r < 0)
		manager_store_remove(attr->store, SAVE_REGISTRY);
}

/* ---- all go on ------------------------------------------------------------------------------------------------------ */

static void resume_nics(struct registry *registry)
{
	for (unsigned int i = 0; i < registry->n_nics; i++) {
		struct nic *nic = registry->nics[i].nic;

		nic->ops->resume(nic);
		/* Its addresses may be those of before. */
		registry_refresh_nic(&registry->nics[i]);
	}
}

static void go_on(const struct resume_attr *attr, struct session *session, struct resume_result *result)
{
	int r;

	/* Where NICs block or stall a worker ends its contexts: neither firmware nor memory of its user holds the start up. */
	if (session->ended) {
		session_release(session);
		result->n_ended++;
		return;
	}
	for (unsigned int i = 0; i < session->n_nics; i++)
		session_health_port(session, session->nics[i], session->nics[i]->rnic->info.state);
	r = attr->attach(attr->arg, session);
	if (r < 0) {
		session_end(session, SHMD_STATUS_NO_MEMORY, "shmemd has restarted and cannot watch this session: %s",
			    strerror(-r));
		session_release(session);
		result->n_ended++;
		return;
	}
	session_tell_resumed(session);
	result->n_resumed++;
}

static void go_on_all(const struct resume_attr *attr, struct resume_result *result)
{
	struct session *session, *tmp;

	list_for_each_entry_safe(session, tmp, &attr->registry->sessions, link)
		go_on(attr, session, result);
}

static void tell(struct registry *registry, const struct resume_result *result)
{
	char text[192];

	if (result->n_strange > 0) {
		snprintf(text, sizeof(text),
			 "%u session%s of the previous daemon ended: the state is that of another version of shmemd",
			 result->n_strange, plural_s(result->n_strange));
		registry_note(registry, &(struct note){
			.level = LOG_WARNING, .topic = NOTE_SESSION, .event = CATALOG_STATE_STRANGE, .text = text});
	}
	if (result->n_resumed + result->n_ended + result->n_strays == 0)
		return;
	snprintf(text, sizeof(text), "took over %u session%s of the previous daemon; %u ended with it; closed %u stray descriptor%s",
		 result->n_resumed, plural_s(result->n_resumed), result->n_ended, result->n_strays, plural_s(result->n_strays));
	registry_note(registry, &(struct note){
		.level = LOG_INFO, .topic = NOTE_SESSION, .event = CATALOG_ADOPTED, .text = text});
}

static int resuming_new(const struct resume_attr *attr, struct resuming **ret_all)
{
	_cleanup_(resuming_freep) struct resuming *all = calloc(1, sizeof(*all));
	int r;

	if (!all)
		return -ENOMEM;
	all->attr = *attr;
	list_init(&all->pending);
	r = find_claimed(attr->store, &all->claimed);
	if (r < 0)
		return r;
	*ret_all = take_ptr(all);
	return 0;
}

int resume_all(const struct resume_attr *attr, struct resume_result *ret_result)
{
	struct resuming *all;
	int r = resuming_new(attr, &all);

	if (r < 0)
		return r;
	import_registry(attr);
	begin_each(all);
	submit_each(all);
	wait_for_all(all);
	all->result.n_late = tell_late(all);
	all->result.n_ended += all->result.n_late;
	all->result.n_strays = manager_store_discard_left(attr->store);
	resume_nics(attr->registry);
	/* Not before: soft NICs have connections of DCTs again, and what those counted, from there on. */
	registry_count_on(attr->registry);
	registry_save(attr->registry);
	go_on_all(attr, &all->result);
	tell(attr->registry, &all->result);
	*ret_result = all->result;
	all->is_over = true;
	if (list_empty(&all->pending))
		resuming_free(all);
	return 0;
}
