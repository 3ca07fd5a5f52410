/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a session follows what changes: each object is saved when it comes or changes, and removed when it goes.
 *
 * A change costs what it changes, not what the session has. The handlers stage objects as they come and go. The next answer
 * commits these together with the session itself and its NICs, which are small: so every answer that a client got is saved, and a
 * request that is cut in the middle was never answered and comes again. If an object cannot be saved, the session ends with this
 * daemon. Control thread, except export_object().
 */
#include "daemon/restart/save.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/restart/save-kinds.h"
#include "daemon/restart/state.h"
#include "proto/base/cleanup.h"

/* ---- what backends say, by any thread that may use the context ---------------------------------------------------------- */

static void export_nic(struct session_nic *nic)
{
	free(nic->record);
	nic->record = NULL;
	nic->record_bytes = 0;
	nic->record_r = nic->ctx->nic->ops->ctx_export(nic->ctx, &nic->record, &nic->record_bytes);
}

static void export_queues(struct session_queues *queues)
{
	free(queues->part);
	queues->part = NULL;
	queues->part_bytes = 0;
	queues->part_r = queues->queues->ctx->nic->ops->queues_export(queues->queues, &queues->part, &queues->part_bytes);
}

static void export_object(enum save_kind kind, void *object)
{
	if (kind == SAVE_NIC)
		export_nic(object);
	else
		export_queues(object);
}

/* ---- records ------------------------------------------------------------------------------------------------------- */

static void stage(struct session *session, enum save_kind kind, uint64_t number, const void *object, const struct nic_record_part *part)
{
	_cleanup_(save_writer_deinit) struct save_writer w = {0};

	if (!session->saved.state)
		return;
	save_kinds[kind].put(&w, session, object, part);
	if (w.r == 0)
		state_put(session->saved.state, save_key(kind, number), w.buf, w.n);
	else
		save_drop(session, "its state cannot be written: %s", strerror(-w.r));
}

static void unstage(struct session *session, enum save_kind kind, uint64_t number)
{
	if (session->saved.state)
		state_remove(session->saved.state, save_key(kind, number));
}

static void drop_nic(struct session *session, const struct session_nic *nic, int r)
{
	save_drop(session, "what it has on %s cannot be written down: %s", nic->rnic->info.name, strerror(-r));
}

/* The next daemon joins the parts into one record, whose length is limited. */
static void stage_part(struct session *session, enum save_kind kind, struct session_nic *nic, struct resource *head, const void *object,
		       const struct nic_record_part *part)
{
	nic->parts_bytes += part->n - head->part_bytes;
	head->part_bytes = part->n;
	if (nic->parts_bytes + nic->record_bytes > NIC_RECORD_MAX_BYTES)
		drop_nic(session, nic, -ENOSPC);
	else
		stage(session, kind, head->number, object, part);
}

/* ---- objects that come and change ---------------------------------------------------------------------------------- */

/* More descriptors may come while the context lives; those that are there stay what they are. */
static void add_nic(struct session *session, struct session_nic *nic)
{
	struct nic_saved_fds saved = {0};
	char name[SAVE_NAME_BYTES];
	int r;

	if (!session->saved.state)
		return;
	if (nic->has_agent) {
		save_drop(session, "the next daemon cannot go on with its memory agent on %s", nic->rnic->info.name);
		return;
	}
	r = nic->ctx->nic->ops->ctx_saved_fds(nic->ctx, &saved);
	if (r == -EOPNOTSUPP)
		save_drop(session, "what it has on %s ends with the daemon", nic->rnic->info.name);
	else if (r < 0)
		save_drop(session, "what it has on %s cannot be saved: %s", nic->rnic->info.name, strerror(-r));
	for (; r == 0 && nic->n_saved < saved.n; nic->n_saved++) {
		save_name_nic(name, session->id, nic->index, nic->n_saved);
		/* One that was put of a NIC that the session does not have yet goes with the descriptors that no state names. */
		if (save_fd(session, name, saved.fds[nic->n_saved]) < 0)
			return;
	}
}

/* Its slot is free no longer. */
static void take_slot(struct session *session, struct resource *head)
{
	if (head->reused)
		unstage(session, SAVE_SLOT, head->reused);
	head->reused = 0;
}

static void save_mr(struct session *session, struct session_mr *mr)
{
	struct nic_record_part part = {0};
	_cleanup_free_ void *bytes = NULL;
	int r;

	if (!session->saved.state)
		return;
	r = mr->mr->ctx->nic->ops->mr_export(mr->mr, &bytes, &part.n);
	part.bytes = bytes;
	if (r < 0)
		drop_nic(session, mr->nic, r);
	else
		stage_part(session, SAVE_MR, mr->nic, &mr->head, mr, &part);
}

static void add_mr(struct session *session, struct session_mr *mr, int fd)
{
	if (mr->nic->rnic->nic->saves_memory)
		save_memory(session, mr, fd);
	take_slot(session, &mr->head);
	save_mr(session, mr);
}

static void save_batch(struct session *session, struct session_queues *queues)
{
	_cleanup_free_ void *bytes = NULL;

	if (!queues->part && queues->part_r == 0)
		export_queues(queues);
	bytes = take_ptr(queues->part);
	if (queues->part_r < 0)
		drop_nic(session, queues->nic, queues->part_r);
	else
		stage_part(session, SAVE_QUEUES, queues->nic, &queues->head, queues,
			   &(struct nic_record_part){bytes, queues->part_bytes});
}

/* QPs have a record of their own: they change more often than the rest of a batch. */
static void add_queues(struct session *session, struct session_queues *queues, int fd)
{
	if (fd >= 0)
		queues->head.is_saved = save_fd_number(session, 'q', queues->head.handle, fd);
	if (!session->saved.state) {
		free(queues->part);
		queues->part = NULL;
		return;
	}
	take_slot(session, &queues->head);
	save_batch(session, queues);
	stage(session, SAVE_QPS, queues->head.number, queues, NULL);
}

static void add_qps(struct session *session, struct session_queues *queues)
{
	if (session->saved.state && queues->head.handle && list_empty(&queues->changed_link))
		list_add_tail(&session->saved.changed_queues, &queues->changed_link);
}

static void add_entry(struct session *session, struct publish_entry *entry, int fd)
{
	if (save_fd_number(session, 'p', session->saved.last_published + 1, fd))
		entry->saved = ++session->saved.last_published;
	if (!session->saved.state)
		return;
	entry->number = ++session->resources.last_number;
	stage(session, SAVE_ENTRY, entry->number, entry, NULL);
}

static void add(struct session *session, enum save_kind kind, void *object, int fd)
{
	switch (kind) {
	case SAVE_NIC:
		add_nic(session, object);
		return;
	case SAVE_SLOT:
		if (session->saved.state)
			stage(session, kind, session->resources.slots[*(uint32_t *)object].freed, object, NULL);
		return;
	case SAVE_MR:
		add_mr(session, object, fd);
		return;
	case SAVE_QUEUES:
		add_queues(session, object, fd);
		return;
	case SAVE_ENTRY:
		add_entry(session, object, fd);
		return;
	case SAVE_PE:
		stage(session, kind, ((struct session_pe *)object)->slot, object, NULL);
		return;
	default:
		add_qps(session, object);
	}
}

/* ---- objects that go ------------------------------------------------------------------------------------------------ */

static void remove_resource(struct session *session, enum save_kind kind, struct session_nic *nic, struct resource *head)
{
	nic->parts_bytes -= head->part_bytes;
	head->part_bytes = 0;
	if (head->handle)
		unstage(session, kind, head->number);
}

static void remove_mr(struct session *session, struct session_mr *mr)
{
	if (mr->head.is_saved)
		save_no_memory(session, mr);
	remove_resource(session, SAVE_MR, mr->nic, &mr->head);
}

static void remove_queues(struct session *session, struct session_queues *queues)
{
	if (queues->head.is_saved)
		save_unname(session, 'q', queues->head.handle);
	list_del(&queues->changed_link);
	remove_resource(session, SAVE_QUEUES, queues->nic, &queues->head);
	remove_resource(session, SAVE_QPS, queues->nic, &queues->head);
}

static void remove_entry(struct session *session, struct publish_entry *entry)
{
	if (entry->saved)
		save_unname(session, 'p', entry->saved);
	unstage(session, SAVE_ENTRY, entry->number);
}

static void remove_object(struct session *session, enum save_kind kind, void *object)
{
	if (kind == SAVE_MR)
		remove_mr(session, object);
	else if (kind == SAVE_QUEUES)
		remove_queues(session, object);
	else if (kind == SAVE_ENTRY)
		remove_entry(session, object);
	else if (kind == SAVE_PE)
		unstage(session, kind, ((struct session_pe *)object)->slot);
	else if (kind == SAVE_NIC)
		unstage(session, kind, ((struct session_nic *)object)->index);
}

/* ---- the state ----------------------------------------------------------------------------------------------------- */

static void save_nic(struct session *session, struct session_nic *nic)
{
	/* This is the first change since the session was imported. */
	if (nic->record_r == 0 && !nic->record)
		export_nic(nic);
	if (nic->record_r < 0)
		drop_nic(session, nic, nic->record_r);
	else
		stage(session, SAVE_NIC, nic->index, nic, NULL);
}

static void save_changed_queues(struct session *session)
{
	struct list *changed = &session->saved.changed_queues;

	while (session->saved.state && !list_empty(changed)) {
		struct session_queues *queues = list_first_entry(changed, struct session_queues, changed_link);

		list_del(&queues->changed_link);
		if (queues->nic->rnic->nic->records_states && queues->queues)
			save_batch(session, queues);
		stage(session, SAVE_QPS, queues->head.number, queues, NULL);
	}
}

/* The next daemon does not publish them again. */
static void remove_entries(struct session *session)
{
	const struct publish_entry *entry;

	list_for_each_entry(entry, &session->published, owner_link)
		unstage(session, SAVE_ENTRY, entry->number);
	for (unsigned int i = 0; i < SESSION_MAX_PES; i++)
		if (session->pes[i])
			unstage(session, SAVE_PE, i);
}

/*
 * The NIC may give the numbers of destroyed objects to new ones. The first change is early enough to save the regions without
 * them. Before it, another import must find the QPs of a cut request as they were.
 */
static void save_stale_mrs(struct session *session)
{
	struct resource *head;

	list_for_each_entry(head, &session->resources.lists[RESOURCE_MR], link) {
		struct session_mr *mr = container_of(head, struct session_mr, head);

		if (mr->mr && mr->nic->rnic->nic->records_states)
			save_mr(session, mr);
	}
}

static int commit(struct session *session)
{
	int r;

	if (session->saved.is_stale)
		save_stale_mrs(session);
	session->saved.is_stale = false;
	for (unsigned int i = 0; session->saved.state && i < session->n_nics; i++)
		save_nic(session, session->nics[i]);
	save_changed_queues(session);
	if (session->ended)
		remove_entries(session);
	stage(session, SAVE_SESSION, 0, session, NULL);
	if (!session->saved.state)
		return -EOPNOTSUPP;
	r = state_commit(session->saved.state);
	if (r < 0)
		save_drop(session, "its state cannot be written: %s", strerror(-r));
	return r;
}

int save_write(struct session *session)
{
	int r;

	if (!session->saved.state)
		return 0;
	r = commit(session);
	if (r < 0)
		return r;
	session->saved.changed = false;
	save_remove_gone(session);
	return 0;
}

/* ---- a session's life ---------------------------------------------------------------------------------------------- */

static void begin(struct session *session)
{
	struct session_saved *saved = &session->saved;
	int r;

	if (!session->is_watched)
		return;
	r = state_new(&saved->state);
	if (r < 0) {
		snprintf(saved->reason, sizeof(saved->reason), "no memory for its state: %s", strerror(-r));
		return;
	}
	r = save_fd_of(session, "sock", session->connection.fd);
	if (r == 0)
		r = save_fd_of(session, "pid", session->identity.pidfd);
	if (r == 0)
		save_fd_of(session, "health", session->health_fd);
}

/*
 * With the first answer, since a daemon that imports a session has one to give: a client that hears of a restart before it hears of its
 * session says Hello once more.
 */
static void name_state(struct session *session)
{
	struct session_saved *saved = &session->saved;

	if (!saved->state || saved->is_named)
		return;
	saved->is_named = true;
	save_fd_of(session, "state", state_fd(saved->state));
}

static void ending(struct session *session)
{
	save_forget_reply(&session->saved);
	save_write(session);
}

/* Descriptors of all replies but this one are found in the session. */
static int copy_reply_fd(struct session_saved *saved, const struct msg *rep, const struct fdlist *fds)
{
	if (rep->kind != MSG_QUEUE_CREATE_REP || fds->n == 0)
		return 0;
	saved->reply_fd = fcntl(fds->fds[0], F_DUPFD_CLOEXEC, 3);
	return saved->reply_fd < 0 ? -errno : 0;
}

static int copy_reply(struct session *session, struct msg *rep)
{
	uint8_t *packet = session->registry->packet;
	int r = msg_encode(rep, packet, REGISTRY_PACKET_BYTES);

	if (r < 0)
		return r;
	/* bounded: a packet. */
	session->saved.reply = malloc((size_t)r + 1);
	if (!session->saved.reply)
		return -ENOMEM;
	memcpy(session->saved.reply, packet, (size_t)r);
	session->saved.reply_bytes = (size_t)r;
	return 0;
}

static void due(struct session *session)
{
	if (!session->saved.is_due)
		return;
	session->saved.is_due = false;
	if (save_write(session) == 0)
		name_state(session);
}

/*
 * A daemon that is killed now loses the descriptors that wait for a busy manager, and with a state that names them the session. So the
 * state follows them: the client has no answer yet, and asks the next daemon again.
 */
static void answer(struct session *session, const struct msg *request, struct msg *rep, const struct fdlist *fds)
{
	struct session_saved *saved = &session->saved;
	int r;

	if (!saved->state || session->ended)
		return;
	save_forget_reply(saved);
	rep->n_fds = fds->n;
	saved->request = request->id;
	saved->kind = request->kind;
	r = copy_reply(session, rep);
	if (r == 0)
		r = copy_reply_fd(saved, rep, fds);
	if (r < 0)
		save_drop(session, "an answer cannot be saved: %s", strerror(-r));
	saved->is_due = true;
	if (!session_waits_for_manager(session))
		due(session);
}

static void lost(struct session *session)
{
	save_drop(session, "the service manager did not take one of its descriptors");
}

static void changes(struct session *session)
{
	if (session->saved.changed && !session->ended && !session->saved.is_due)
		save_write(session);
}

const struct save_ops save_ops = {
	.begin = begin,
	.answer = answer,
	.due = due,
	.changes = changes,
	.repeat = save_repeat,
	.ending = ending,
	.forget = save_forget,
	.lost = lost,
	.add = add,
	.remove = remove_object,
	.export = export_object,
	.registry = save_registry,
	.registry_end = save_registry_end,
};
