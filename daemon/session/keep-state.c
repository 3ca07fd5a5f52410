/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session in bytes: what its lists show, what its client was told, and what its NICs must be told again.
 *
 * Tables first, what they cannot say in between; keep-read.c reads the same in the same order. Changes nothing. Control
 * thread.
 */
#include "daemon/session/keep-tables.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/cleanup.h"

static void put_resource(struct keep_writer *w, const struct resource *head, uint16_t tag_nic, const struct session_nic *nic)
{
	keep_put(w, TAG_HANDLE, head->handle);
	keep_put(w, TAG_IS_KEPT, head->is_kept);
	keep_put_fields(w, &keep_amount, &head->charge.amount);
	keep_put(w, tag_nic, nic->index);
}

/* Those of a table are counted by it. Oldest first, as they were made. */
static void put_mrs(struct keep_writer *w, const struct session *session)
{
	const struct list *lists = session->resources.lists, *at;

	keep_put(w, TAG_N_MRS, session->resources.n[RESOURCE_MR]);
	for (at = lists[RESOURCE_MR].prev; at != &lists[RESOURCE_MR]; at = at->prev) {
		const struct session_mr *mr = container_of(at, struct session_mr, head.link);

		put_resource(w, &mr->head, TAG_MR_NIC, mr->nic);
		keep_put_fields(w, &keep_mr, mr);
	}
}

static void put_qps(struct keep_writer *w, const struct session_queues *queues)
{
	/* bounded: a batch. */
	_cleanup_free_ struct keep_qp *qps = calloc((size_t)queues->n_qps + 1, sizeof(*qps));

	if (!qps) {
		w->r = -ENOMEM;
		return;
	}
	for (uint32_t i = 0; i < queues->n_qps; i++)
		qps[i] = (struct keep_qp){queues->qps[i].state, queues->qps[i].dest_qpn, queues->qps[i].first_error};
	keep_put_bytes(w, TAG_QPS, qps, queues->n_qps * sizeof(*qps));
}

static void put_queues(struct keep_writer *w, const struct session *session)
{
	const struct list *lists = session->resources.lists, *at;

	keep_put(w, TAG_N_QUEUES, session->resources.n[RESOURCE_QUEUES]);
	for (at = lists[RESOURCE_QUEUES].prev; at != &lists[RESOURCE_QUEUES]; at = at->prev) {
		const struct session_queues *queues = container_of(at, struct session_queues, head.link);

		put_resource(w, &queues->head, TAG_QUEUES_NIC, queues->nic);
		put_qps(w, queues);
	}
}

/* Handles are told to clients: each slot goes on where it is. */
static void put_slots(struct keep_writer *w, const struct resource_table *table)
{
	/* bounded: RESOURCE_MAX. */
	_cleanup_free_ uint16_t *generations = calloc((size_t)table->n_slots + 1, sizeof(*generations));
	_cleanup_free_ uint32_t *slots = calloc((size_t)table->n_slots + 1, sizeof(*slots));

	if (!generations || !slots) {
		w->r = -ENOMEM;
		return;
	}
	for (uint32_t i = 0; i < table->n_slots; i++)
		generations[i] = table->slots[i].generation;
	keep_put(w, TAG_N_SLOTS, table->n_slots);
	keep_put_bytes(w, TAG_GENERATIONS, generations, table->n_slots * sizeof(*generations));
	keep_put_bytes(w, TAG_FREE_SLOTS, slots, resource_free_slots(table, slots) * sizeof(*slots));
}

static void put_nics(struct keep_writer *w, const struct session *session)
{
	keep_put(w, TAG_N_NICS, session->n_nics);
	for (unsigned int i = 0; i < session->n_nics; i++) {
		const struct session_nic *nic = session->nics[i];
		const char *name = nic->rnic->info.name;

		keep_put_bytes(w, TAG_NIC_NAME, name, strlen(name));
		keep_put_fields(w, &keep_nic, nic);
		keep_put_fields(w, &keep_amount, &nic->charge.amount);
		keep_put_bytes(w, TAG_NIC_RECORD, nic->record, nic->record_bytes);
	}
}

static void put_published(struct keep_writer *w, const struct session *session)
{
	const struct publish_entry *entry;

	keep_put(w, TAG_N_PUBLISHED, session->ended ? 0 : session->n_published);
	if (session->ended)
		return;
	list_for_each_entry(entry, &session->published, owner_link) {
		keep_put_fields(w, &keep_entry, entry);
		keep_put_fields(w, &keep_amount, &entry->charge.amount);
		keep_put_bytes(w, TAG_PUBLISHED_DATA, entry->data, entry->data_bytes);
	}
}

void keep_put_session(struct keep_writer *w, const struct session *session)
{
	keep_put_fields(w, &keep_session, session);
	keep_put(w, TAG_ENDED, session->ended);
	keep_put(w, TAG_HAS_PIDFD, session->identity.pidfd >= 0);
	keep_put_fields(w, &keep_amount, &session->connection_charge.amount);
	keep_put_fields(w, &keep_amount, &session->session_charge.amount);
	keep_put_fields(w, &keep_counters, &session->counters);
	keep_put(w, TAG_UNREAD, session->connection.unread ? session->connection.unread->n_fds : 0);
	keep_put_bytes(w, TAG_REPLY, session->keep.reply, session->keep.reply_bytes);
	put_nics(w, session);
	put_slots(w, &session->resources);
	put_mrs(w, session);
	put_queues(w, session);
	put_published(w, session);
}
