/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects of a session in bytes: fields that lists show, values that its client got, and values that its NICs need again.
 *
 * One function for each kind; keep-read.c reads the same, object by object. The first item of an object tells its kind. Changes
 * nothing. Control thread.
 */
#include "daemon/session/keep-tables.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/cleanup.h"

static void put_resource(struct keep_writer *w, const struct resource *head, uint16_t tag_nic, const struct session_nic *nic,
			 const struct nic_record_part *part)
{
	keep_put(w, TAG_HANDLE, head->handle);
	keep_put(w, TAG_IS_KEPT, head->is_kept);
	keep_put_fields(w, &keep_amount, &head->charge.amount);
	keep_put(w, tag_nic, nic->index);
	keep_put_bytes(w, TAG_PART, part->bytes, part->n);
}

void keep_put_mr(struct keep_writer *w, const struct session_mr *mr, const struct nic_record_part *part)
{
	keep_put(w, TAG_MR_NUMBER, mr->head.number);
	put_resource(w, &mr->head, TAG_MR_NIC, mr->nic, part);
	keep_put_fields(w, &keep_mr, mr);
}

void keep_put_queues(struct keep_writer *w, const struct session_queues *queues, const struct nic_record_part *part)
{
	keep_put(w, TAG_QUEUES_NUMBER, queues->head.number);
	put_resource(w, &queues->head, TAG_QUEUES_NIC, queues->nic, part);
}

void keep_put_qps(struct keep_writer *w, const struct session_queues *queues)
{
	/* bounded: a batch. */
	_cleanup_free_ struct keep_qp *qps = calloc((size_t)queues->n_qps + 1, sizeof(*qps));

	if (!qps) {
		w->r = -ENOMEM;
		return;
	}
	for (uint32_t i = 0; i < queues->n_qps; i++)
		qps[i] = (struct keep_qp){queues->qps[i].state, queues->qps[i].dest_qpn, queues->qps[i].first_error};
	keep_put(w, TAG_QPS_NUMBER, queues->head.number);
	keep_put_bytes(w, TAG_QPS, qps, queues->n_qps * sizeof(*qps));
}

/* Clients know handles, so slots keep their numbers. A slot that no record names was never used. */
void keep_put_slot(struct keep_writer *w, const struct resource_table *table, uint32_t slot)
{
	keep_put(w, TAG_FREED, table->slots[slot].freed);
	keep_put(w, TAG_SLOT, slot);
	keep_put(w, TAG_GENERATION, table->slots[slot].generation);
}

void keep_put_nic(struct keep_writer *w, const struct session_nic *nic)
{
	const struct nic_info *info = &nic->rnic->info;

	keep_put_bytes(w, TAG_NIC_NAME, info->name, strlen(info->name));
	keep_put(w, TAG_NIC_GUID, info->guid);
	keep_put(w, TAG_NIC_PORT, info->port);
	keep_put_fields(w, &keep_nic, nic);
	keep_put_fields(w, &keep_amount, &nic->charge.amount);
	keep_put_bytes(w, TAG_NIC_RECORD, nic->record, nic->record_bytes);
}

void keep_put_entry(struct keep_writer *w, const struct publish_entry *entry)
{
	keep_put(w, TAG_ENTRY_NUMBER, entry->number);
	keep_put_fields(w, &keep_entry, entry);
	keep_put_fields(w, &keep_amount, &entry->charge.amount);
	keep_put_bytes(w, TAG_PUBLISHED_DATA, entry->data, entry->data_bytes);
}

void keep_put_session(struct keep_writer *w, const struct session *session)
{
	keep_put_fields(w, &keep_session, session);
	keep_put(w, TAG_ENDED, session->ended);
	keep_put(w, TAG_HAS_PIDFD, session->identity.pidfd >= 0);
	keep_put_fields(w, &keep_amount, &session->connection_charge.amount);
	keep_put_fields(w, &keep_amount, &session->session_charge.amount);
	keep_put_fields(w, &keep_counters, &session->counters);
	keep_put(w, TAG_INFLIGHT, session->connection.inflight ? session->connection.inflight->n_fds : 0);
	keep_put_bytes(w, TAG_REPLY, session->keep.reply, session->keep.reply_bytes);
	keep_put(w, TAG_N_NICS, session->n_nics);
	keep_put(w, TAG_N_FREED, session->resources.n_freed);
	keep_put(w, TAG_N_MRS, session->resources.n[RESOURCE_MR]);
	keep_put(w, TAG_N_QUEUES, session->resources.n[RESOURCE_QUEUES]);
	keep_put(w, TAG_N_PUBLISHED, session->ended ? 0 : session->n_published);
	keep_put(w, TAG_N_SLOTS, session->resources.n_slots);
	keep_put(w, TAG_LAST_NUMBER, session->resources.last_number);
}
