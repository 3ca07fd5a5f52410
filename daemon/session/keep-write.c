/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a session follows what changes: each object is saved when it comes or changes, and removed when it goes.
 *
 * A change costs what it changes, not what the session has. The handlers stage objects as they come and go. The next answer
 * commits these together with the session itself and its NICs, which are small. If an object cannot be saved, the session ends
 * with this daemon. Control thread, except session_nic_export() and session_queues_export().
 */
#include "daemon/session/keep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/session/keep-tables.h"
#include "daemon/session/session.h"
#include "proto/base/assert.h"
#include "proto/base/cleanup.h"

void session_nic_export(struct session_nic *nic)
{
	free(nic->record);
	nic->record = NULL;
	nic->record_bytes = 0;
	nic->record_r = nic->ctx->nic->ops->ctx_export(nic->ctx, &nic->record, &nic->record_bytes);
}

void session_queues_export(struct session_queues *queues)
{
	free(queues->part);
	queues->part = NULL;
	queues->part_bytes = 0;
	queues->part_r = queues->queues->ctx->nic->ops->queues_export(queues->queues, &queues->part, &queues->part_bytes);
}

/* ---- one object ---------------------------------------------------------------------------------------------------- */

static void stage(struct session *session, uint64_t key, const struct keep_writer *w)
{
	if (w->r == 0)
		session->registry->attr.keep->state_put(session->keep.state, key, w->buf, w->n);
	else
		session_keep_drop(session, "its state cannot be written: %s", strerror(-w->r));
}

static void remove_key(struct session *session, uint64_t key)
{
	session->registry->attr.keep->state_remove(session->keep.state, key);
}

static void drop_nic(struct session *session, const struct session_nic *nic, int r)
{
	session_keep_drop(session, "what it has on %s cannot be written down: %s", nic->rnic->info.name, strerror(-r));
}

/* The next daemon joins the parts into one record, whose length is limited. */
static bool count_part(struct session *session, struct session_nic *nic, struct resource *head, size_t bytes)
{
	nic->parts_bytes -= head->part_bytes;
	head->part_bytes = bytes;
	nic->parts_bytes += bytes;
	if (nic->parts_bytes + nic->record_bytes <= NIC_RECORD_MAX_BYTES)
		return true;
	drop_nic(session, nic, -ENOSPC);
	return false;
}

/* Its slot is free no longer. */
static void take_slot(struct session *session, struct resource *head)
{
	if (head->reused)
		remove_key(session, keep_key(KEEP_SLOT, head->reused, 0));
	head->reused = 0;
}

void session_keep_mr(struct session *session, struct session_mr *mr)
{
	_cleanup_(keep_writer_deinit) struct keep_writer w = {0};
	struct nic_record_part part = {0};
	_cleanup_free_ void *bytes = NULL;
	int r;

	if (!session->keep.state)
		return;
	r = mr->mr->ctx->nic->ops->mr_export(mr->mr, &bytes, &part.n);
	if (r < 0) {
		drop_nic(session, mr->nic, r);
		return;
	}
	part.bytes = bytes;
	if (!count_part(session, mr->nic, &mr->head, part.n))
		return;
	take_slot(session, &mr->head);
	keep_put_mr(&w, mr, &part);
	stage(session, keep_key(KEEP_MR, mr->head.number, 0), &w);
}

/* A record of their own: QPs change more often than the rest of a batch. */
static void save_qps(struct session *session, struct session_queues *queues)
{
	_cleanup_(keep_writer_deinit) struct keep_writer w = {0};

	keep_put_qps(&w, queues);
	stage(session, keep_key(KEEP_QUEUES, queues->head.number, KEEP_PART_QPS), &w);
}

static void save_batch(struct session *session, struct session_queues *queues)
{
	_cleanup_(keep_writer_deinit) struct keep_writer w = {0};
	_cleanup_free_ void *bytes = NULL;
	struct nic_record_part part;

	if (!queues->part && queues->part_r == 0)
		session_queues_export(queues);
	bytes = take_ptr(queues->part);
	if (queues->part_r < 0) {
		drop_nic(session, queues->nic, queues->part_r);
		return;
	}
	part = (struct nic_record_part){bytes, queues->part_bytes};
	if (!count_part(session, queues->nic, &queues->head, part.n))
		return;
	keep_put_queues(&w, queues, &part);
	stage(session, keep_key(KEEP_QUEUES, queues->head.number, 0), &w);
}

void session_keep_queues(struct session *session, struct session_queues *queues)
{
	if (!session->keep.state) {
		free(queues->part);
		queues->part = NULL;
		return;
	}
	take_slot(session, &queues->head);
	save_batch(session, queues);
	if (session->keep.state)
		save_qps(session, queues);
}

void session_keep_qps(struct session_queues *queues)
{
	struct session_keep *keep = &queues->nic->session->keep;

	if (keep->state && queues->head.handle && list_empty(&queues->changed_link))
		list_add_tail(&keep->changed_queues, &queues->changed_link);
}

void session_keep_no_resource(struct session *session, struct session_nic *nic, struct resource *head)
{
	enum keep_kind kind = head->kind == RESOURCE_MR ? KEEP_MR : KEEP_QUEUES;
	uint32_t slot = resource_slot_of(head->handle);
	bool is_saved = session->keep.state && head->handle;

	nic->parts_bytes -= head->part_bytes;
	head->part_bytes = 0;
	if (is_saved) {
		remove_key(session, keep_key(kind, head->number, 0));
		remove_key(session, keep_key(kind, head->number, KEEP_PART_QPS));
	}
	resource_remove(&session->resources, head);
	if (is_saved) {
		_cleanup_(keep_writer_deinit) struct keep_writer w = {0};

		keep_put_slot(&w, &session->resources, slot);
		stage(session, keep_key(KEEP_SLOT, session->resources.slots[slot].freed, 0), &w);
	}
}

void session_keep_entry(struct session *session, struct publish_entry *entry)
{
	_cleanup_(keep_writer_deinit) struct keep_writer w = {0};

	if (!session->keep.state)
		return;
	entry->number = ++session->resources.last_number;
	keep_put_entry(&w, entry);
	stage(session, keep_key(KEEP_ENTRY, entry->number, 0), &w);
}

void session_keep_no_nic(struct session *session, const struct session_nic *nic)
{
	if (session->keep.state)
		remove_key(session, keep_key(KEEP_NIC, nic->index, 0));
}

void session_keep_no_entry(struct session *session, const struct publish_entry *entry)
{
	if (session->keep.state)
		remove_key(session, keep_key(KEEP_ENTRY, entry->number, 0));
}

/* ---- the state ----------------------------------------------------------------------------------------------------- */

static void save_nic(struct session *session, struct session_nic *nic)
{
	_cleanup_(keep_writer_deinit) struct keep_writer w = {0};

	/* This is the first change since the session was adopted. */
	if (nic->record_r == 0 && !nic->record)
		session_nic_export(nic);
	if (nic->record_r < 0) {
		drop_nic(session, nic, nic->record_r);
		return;
	}
	keep_put_nic(&w, nic);
	stage(session, keep_key(KEEP_NIC, nic->index, 0), &w);
}

static void save_changed_queues(struct session *session)
{
	struct list *changed = &session->keep.changed_queues;

	while (session->keep.state && !list_empty(changed)) {
		struct session_queues *queues = list_first_entry(changed, struct session_queues, changed_link);

		list_del(&queues->changed_link);
		if (queues->nic->rnic->nic->records_states && queues->queues)
			save_batch(session, queues);
		if (session->keep.state)
			save_qps(session, queues);
	}
}

/* The next daemon does not publish them again. */
static void remove_entries(struct session *session)
{
	const struct publish_entry *entry;

	list_for_each_entry(entry, &session->published, owner_link)
		remove_key(session, keep_key(KEEP_ENTRY, entry->number, 0));
}

static void save_session(struct session *session)
{
	_cleanup_(keep_writer_deinit) struct keep_writer w = {0};

	keep_put_session(&w, session);
	stage(session, keep_key(KEEP_SESSION, 0, 0), &w);
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

		if (session->keep.state && mr->mr && mr->nic->rnic->nic->records_states)
			session_keep_mr(session, mr);
	}
}

int session_keep_save(struct session *session)
{
	const struct keep_ops *ops = session->registry->attr.keep;
	int r;

	if (session->keep.is_stale)
		save_stale_mrs(session);
	session->keep.is_stale = false;
	for (unsigned int i = 0; session->keep.state && i < session->n_nics; i++)
		save_nic(session, session->nics[i]);
	if (session->keep.state)
		save_changed_queues(session);
	if (session->keep.state && session->ended)
		remove_entries(session);
	if (session->keep.state)
		save_session(session);
	if (!session->keep.state)
		return -EOPNOTSUPP;
	r = ops->state_commit(session->keep.state);
	if (r < 0)
		session_keep_drop(session, "its state cannot be written: %s", strerror(-r));
	return r;
}
