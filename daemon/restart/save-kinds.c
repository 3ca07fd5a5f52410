/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of each kind of object: fields that lists show, values that a client got, and values that its NICs need again.
 *
 * The first item of an object names its kind. A daemon wrote the bytes, and the reader still refuses what no client could have asked
 * for: the bytes that are there bound counts, fields bound numbers, and the objects before bound places. It makes nothing but memory,
 * and takes the descriptors that are saved with an object. Control thread.
 */
#include "daemon/restart/save-kinds.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/restart/import.h"
#include "daemon/restart/save.h"
#include "proto/base/cleanup.h"

/* ---- writing ------------------------------------------------------------------------------------------------------- */

static void put_resource(struct save_writer *w, const struct resource *head, uint16_t tag_nic, const struct session_nic *nic,
			 const struct nic_record_part *part)
{
	save_put(w, TAG_HANDLE, head->handle);
	save_put(w, TAG_IS_SAVED, head->is_saved);
	save_put_fields(w, &amount_fields, &head->charge.amount);
	save_put(w, tag_nic, nic->index);
	save_put_bytes(w, TAG_PART, part->bytes, part->n);
}

static void put_mr(struct save_writer *w, const struct session *session, const void *object, const struct nic_record_part *part)
{
	const struct session_mr *mr = object;

	save_put(w, TAG_MR_NUMBER, mr->head.number);
	put_resource(w, &mr->head, TAG_MR_NIC, mr->nic, part);
	save_put_fields(w, &mr_fields, mr);
}

static void put_queues(struct save_writer *w, const struct session *session, const void *object, const struct nic_record_part *part)
{
	const struct session_queues *queues = object;

	save_put(w, TAG_QUEUES_NUMBER, queues->head.number);
	put_resource(w, &queues->head, TAG_QUEUES_NIC, queues->nic, part);
}

static void put_qps(struct save_writer *w, const struct session *session, const void *object, const struct nic_record_part *part)
{
	const struct session_queues *queues = object;
	/* bounded: a batch. */
	_cleanup_free_ struct saved_qp *qps = calloc((size_t)queues->n_qps + 1, sizeof(*qps));

	if (!qps) {
		w->r = -ENOMEM;
		return;
	}
	for (uint32_t i = 0; i < queues->n_qps; i++)
		qps[i] = (struct saved_qp){queues->qps[i].state, queues->qps[i].dest_qpn, queues->qps[i].first_error};
	save_put(w, TAG_QPS_NUMBER, queues->head.number);
	save_put_bytes(w, TAG_QPS, qps, queues->n_qps * sizeof(*qps));
}

/* Clients know handles, so slots keep their numbers. A slot that no record names was never used. */
static void put_slot(struct save_writer *w, const struct session *session, const void *object, const struct nic_record_part *part)
{
	const uint32_t *slot = object;
	const struct resource_slot *at = &session->resources.slots[*slot];

	save_put(w, TAG_FREED, at->freed);
	save_put(w, TAG_SLOT, *slot);
	save_put(w, TAG_GENERATION, at->generation);
}

static void put_nic(struct save_writer *w, const struct session *session, const void *object, const struct nic_record_part *part)
{
	const struct session_nic *nic = object;
	const struct nic_info *info = &nic->rnic->info;

	save_put_bytes(w, TAG_NIC_NAME, info->name, strlen(info->name));
	save_put(w, TAG_NIC_GUID, info->guid);
	save_put(w, TAG_NIC_PORT, info->port);
	save_put_fields(w, &nic_fields, nic);
	save_put_fields(w, &amount_fields, &nic->charge.amount);
	save_put_bytes(w, TAG_NIC_RECORD, nic->record, nic->record_bytes);
}

static void put_entry(struct save_writer *w, const struct session *session, const void *object, const struct nic_record_part *part)
{
	const struct publish_entry *entry = object;

	save_put(w, TAG_ENTRY_NUMBER, entry->number);
	save_put_fields(w, &entry_fields, entry);
	save_put_fields(w, &amount_fields, &entry->charge.amount);
	save_put_bytes(w, TAG_PUBLISHED_DATA, entry->data, entry->data_bytes);
}

static void put_pe(struct save_writer *w, const struct session *session, const void *object, const struct nic_record_part *part)
{
	const struct session_pe *pe = object;

	save_put_fields(w, &pe_fields, pe);
	save_put(w, TAG_N_WAYS, pe->n_ways);
	for (unsigned int i = 0; i < pe->n_ways; i++)
		save_put_fields(w, &way_fields, &pe->ways[i]);
	save_put(w, TAG_N_RUNS, pe->n_runs);
	for (unsigned int i = 0; i < pe->n_runs; i++)
		save_put_fields(w, &run_fields, &pe->runs[i]);
}

static uint32_t n_reported(const struct session *session)
{
	uint32_t n = 0;

	for (unsigned int i = 0; i < SESSION_MAX_PES; i++)
		n += session->pes[i] != NULL;
	return n;
}

static void put_session(struct save_writer *w, const struct session *session, const void *object, const struct nic_record_part *part)
{
	save_put_fields(w, &session_fields, session);
	save_put(w, TAG_ENDED, session->ended);
	save_put(w, TAG_HAS_PIDFD, session->identity.pidfd >= 0);
	save_put_fields(w, &amount_fields, &session->connection_charge.amount);
	save_put_fields(w, &amount_fields, &session->session_charge.amount);
	save_put_fields(w, &counters_fields, &session->counters);
	save_put(w, TAG_INFLIGHT, session->connection.inflight ? session->connection.inflight->n_fds : 0);
	save_put_bytes(w, TAG_REPLY, session->saved.reply, session->saved.reply_bytes);
	save_put(w, TAG_N_NICS, session->n_nics);
	save_put(w, TAG_N_FREED, session->resources.n_freed);
	save_put(w, TAG_N_MRS, session->resources.n[RESOURCE_MR]);
	save_put(w, TAG_N_QUEUES, session->resources.n[RESOURCE_QUEUES]);
	save_put(w, TAG_N_PUBLISHED, session->ended ? 0 : session->n_published);
	save_put(w, TAG_N_REPORTED, session->ended ? 0 : n_reported(session));
	save_put(w, TAG_N_SLOTS, session->resources.n_slots);
	save_put(w, TAG_LAST_NUMBER, session->resources.last_number);
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

static void refuse_unless(struct save_reader *reader, bool right)
{
	if (reader->r == 0 && !right)
		reader->r = -EBADMSG;
}

/* Room for element n of an array, zeroed; it doubles when it is full. False: out of memory. */
static bool make_room(void **array, uint32_t n, size_t bytes_each)
{
	void *more;

	if (n & (n - 1))
		return true;
	/* bounded: by the bytes of the state. */
	more = reallocarray(*array, n ? 2 * (size_t)n : 1, bytes_each);
	if (!more)
		return false;
	memset((char *)more + n * bytes_each, 0, (n ? n : 1) * bytes_each);
	*array = more;
	return true;
}

/* Finds the NIC by its name or, if the node has renamed it since, by the GUID of its device. */
static struct registry_nic *find_nic(struct registry *registry, const char *name, uint64_t guid, uint32_t port)
{
	struct registry_nic *rnic = registry_find_nic(registry, name);

	if (!guid || (rnic && rnic->info.guid == guid && rnic->info.port == port))
		return rnic;
	for (unsigned int i = 0; i < registry->n_nics; i++)
		if (registry->nics[i].info.guid == guid && registry->nics[i].info.port == port)
			return &registry->nics[i];
	return rnic && rnic->info.guid ? NULL : rnic;
}

static int read_nic(struct save_reader *reader, struct import *a)
{
	char name[NIC_NAME_BYTES] = "";
	unsigned int i = a->n_nics;
	struct session_nic *nic;
	const void *bytes;
	uint64_t guid;
	uint32_t port;
	size_t n;

	if (i == SESSION_MAX_NICS)
		return -EBADMSG;
	nic = a->nics[i] = calloc(1, sizeof(*nic));
	if (!nic)
		return -ENOMEM;
	a->n_nics = i + 1;
	bytes = save_get_bytes(reader, TAG_NIC_NAME, &n);
	if (bytes && n < sizeof(name))
		memcpy(name, bytes, n);
	guid = save_get(reader, TAG_NIC_GUID, UINT64_MAX);
	port = (uint32_t)save_get(reader, TAG_NIC_PORT, UINT32_MAX);
	save_get_fields(reader, &nic_fields, nic);
	save_get_fields(reader, &amount_fields, &a->nic_amounts[i]);
	a->records[i] = save_get_bytes(reader, TAG_NIC_RECORD, &a->record_bytes[i]);
	nic->index = i;
	nic->session = a->session;
	nic->rnic = find_nic(a->session->registry, name, guid, port);
	if (reader->r < 0)
		return reader->r;
	return nic->rnic ? 0 : -ENODEV;
}

/* Numbers rise within a kind, up to the last that the session gave. */
static void check_number(struct save_reader *reader, const struct import *a, uint64_t number, uint64_t before)
{
	refuse_unless(reader, number > before && number <= a->last_number);
}

static int read_slot(struct save_reader *reader, struct import *a)
{
	struct import_slot *slot;

	if (!make_room((void **)&a->freed, a->n_freed, sizeof(*a->freed)))
		return -ENOMEM;
	slot = &a->freed[a->n_freed++];
	slot->freed = save_get(reader, TAG_FREED, SAVE_NUMBER_MAX);
	check_number(reader, a, slot->freed, a->n_freed > 1 ? slot[-1].freed : 0);
	slot->slot = (uint32_t)save_get(reader, TAG_SLOT, a->n_slots ? a->n_slots - 1 : 0);
	slot->generation = (uint16_t)save_get(reader, TAG_GENERATION, UINT16_MAX);
	refuse_unless(reader, a->n_slots > 0);
	return reader->r;
}

/* For a NIC that the session has. */
static void read_head(struct save_reader *reader, const struct import *a, uint16_t tag_nic, struct import_head *head)
{
	head->fd = -1;
	head->handle = (uint32_t)save_get(reader, TAG_HANDLE, UINT32_MAX);
	head->is_saved = save_get(reader, TAG_IS_SAVED, 1);
	save_get_fields(reader, &amount_fields, &head->amount);
	head->nic = (uint32_t)save_get(reader, tag_nic, SESSION_MAX_NICS - 1);
	head->part.bytes = save_get_bytes(reader, TAG_PART, &head->part.n);
	refuse_unless(reader, head->nic < a->n_nics && resource_slot_of(head->handle) < a->n_slots);
}

static int read_mr(struct save_reader *reader, struct import *a)
{
	struct import_mr *to;

	if (!make_room((void **)&a->mrs, a->n_mrs, sizeof(*a->mrs)))
		return -ENOMEM;
	to = &a->mrs[a->n_mrs++];
	to->head.number = save_get(reader, TAG_MR_NUMBER, SAVE_NUMBER_MAX);
	check_number(reader, a, to->head.number, a->n_mrs > 1 ? to[-1].head.number : 0);
	read_head(reader, a, TAG_MR_NIC, &to->head);
	to->mr = calloc(1, sizeof(*to->mr));
	if (!to->mr)
		return -ENOMEM;
	resource_init(&to->mr->head, RESOURCE_MR);
	save_get_fields(reader, &mr_fields, to->mr);
	refuse_unless(reader, to->mr->memory <= a->last_number);
	if (reader->r == 0 && to->head.is_saved) {
		to->head.fd = save_take_memory(a->session, to->mr->memory);
		to->mr->head.is_saved = true;
	}
	return reader->r;
}

/* The QPs of a batch follow it. */
static void read_qps(struct save_reader *reader, struct import_queues *to)
{
	size_t bytes;

	refuse_unless(reader, save_get(reader, TAG_QPS_NUMBER, SAVE_NUMBER_MAX) == to->head.number);
	to->qps = save_get_bytes(reader, TAG_QPS, &bytes);
	refuse_unless(reader, bytes % sizeof(struct saved_qp) == 0 && bytes / sizeof(struct saved_qp) <= NIC_MAX_BATCH_QPS);
	if (reader->r == 0)
		to->n_qps = (uint32_t)(bytes / sizeof(struct saved_qp));
}

static int read_queues(struct save_reader *reader, struct import *a)
{
	struct import_queues *to;

	if (!make_room((void **)&a->queues, a->n_queues, sizeof(*a->queues)))
		return -ENOMEM;
	to = &a->queues[a->n_queues++];
	to->head.number = save_get(reader, TAG_QUEUES_NUMBER, SAVE_NUMBER_MAX);
	check_number(reader, a, to->head.number, a->n_queues > 1 ? to[-1].head.number : 0);
	read_head(reader, a, TAG_QUEUES_NIC, &to->head);
	read_qps(reader, to);
	if (reader->r < 0)
		return reader->r;
	to->queues = calloc(1, sizeof(*to->queues));
	if (!to->queues)
		return -ENOMEM;
	resource_init(&to->queues->head, RESOURCE_QUEUES);
	list_init(&to->queues->changed_link);
	/* bounded: NIC_MAX_BATCH_QPS. */
	to->queues->qps = calloc((size_t)to->n_qps + 1, sizeof(*to->queues->qps));
	if (!to->queues->qps)
		return -ENOMEM;
	if (to->head.is_saved) {
		to->head.fd = save_take_number(a->session, 'q', to->head.handle);
		to->queues->head.is_saved = true;
	}
	return 0;
}

static int read_entry(struct save_reader *reader, struct import *a)
{
	struct import_entry *to;
	size_t bytes;

	if (!make_room((void **)&a->entries, a->n_entries, sizeof(*a->entries)))
		return -ENOMEM;
	to = &a->entries[a->n_entries++];
	to->like.number = save_get(reader, TAG_ENTRY_NUMBER, SAVE_NUMBER_MAX);
	check_number(reader, a, to->like.number, a->n_entries > 1 ? to[-1].like.number : 0);
	save_get_fields(reader, &entry_fields, &to->like);
	save_get_fields(reader, &amount_fields, &to->amount);
	to->data = save_get_bytes(reader, TAG_PUBLISHED_DATA, &bytes);
	refuse_unless(reader, bytes == to->like.data_bytes);
	return reader->r;
}

static void read_paths(struct save_reader *reader, struct session_pe *pe)
{
	pe->n_ways = (unsigned int)save_get(reader, TAG_N_WAYS, MSG_MAX_PE_WAYS);
	for (unsigned int i = 0; i < pe->n_ways; i++)
		save_get_fields(reader, &way_fields, &pe->ways[i]);
	pe->n_runs = (unsigned int)save_get(reader, TAG_N_RUNS, MSG_MAX_PE_RUNS);
	for (unsigned int i = 0; i < pe->n_runs; i++)
		save_get_fields(reader, &run_fields, &pe->runs[i]);
	refuse_unless(reader, session_pe_runs_fit(pe->runs, pe->n_runs, pe->n_ways, pe->n_pes));
}

/* Slots rise. */
static int read_pe(struct save_reader *reader, struct import *a)
{
	_cleanup_free_ struct session_pe *pe = calloc(1, sizeof(*pe));
	struct session_pe **pes = a->session->pes;
	uint32_t slot;

	if (!pe)
		return -ENOMEM;
	save_get_fields(reader, &pe_fields, pe);
	read_paths(reader, pe);
	slot = pe->slot;
	for (unsigned int i = slot; i < SESSION_MAX_PES; i++)
		refuse_unless(reader, !pes[i]);
	if (reader->r == 0)
		pes[slot] = take_ptr(pe);
	return reader->r;
}

static int read_reply(struct save_reader *reader, struct session_saved *saved)
{
	const void *reply = save_get_bytes(reader, TAG_REPLY, &saved->reply_bytes);

	if (!reply)
		return reader->r;
	if (saved->reply_bytes > REGISTRY_PACKET_BYTES)
		return -EBADMSG;
	saved->reply = malloc(saved->reply_bytes);
	if (!saved->reply)
		return -ENOMEM;
	memcpy(saved->reply, reply, saved->reply_bytes);
	return 0;
}

static int read_session(struct save_reader *reader, struct import *a)
{
	struct session *session = a->session;
	uint64_t id = session->id;
	int r;

	save_get_fields(reader, &session_fields, session);
	a->ended = save_get(reader, TAG_ENDED, 1);
	a->has_pidfd = save_get(reader, TAG_HAS_PIDFD, 1);
	save_get_fields(reader, &amount_fields, &a->connection_amount);
	save_get_fields(reader, &amount_fields, &a->session_amount);
	save_get_fields(reader, &counters_fields, &session->counters);
	a->n_inflight = (uint32_t)save_get(reader, TAG_INFLIGHT, CONNECTION_MAX_FDS);
	if (reader->r == 0 && (session->id != id || session->version == 0))
		return -EBADMSG;
	session->role = MSG_ROLE_CLIENT;
	r = reader->r < 0 ? reader->r : read_reply(reader, &session->saved);
	a->wanted.n_nics = (uint32_t)save_get(reader, TAG_N_NICS, SESSION_MAX_NICS);
	a->wanted.n_freed = (uint32_t)save_get(reader, TAG_N_FREED, RESOURCE_MAX);
	a->wanted.n_mrs = (uint32_t)save_get(reader, TAG_N_MRS, RESOURCE_MAX);
	a->wanted.n_queues = (uint32_t)save_get(reader, TAG_N_QUEUES, RESOURCE_MAX);
	a->wanted.n_published = (uint32_t)save_get(reader, TAG_N_PUBLISHED, UINT32_MAX);
	a->wanted.n_reported = (uint32_t)save_get(reader, TAG_N_REPORTED, SESSION_MAX_PES);
	a->n_slots = (uint32_t)save_get(reader, TAG_N_SLOTS, RESOURCE_MAX);
	a->last_number = save_get(reader, TAG_LAST_NUMBER, SAVE_NUMBER_MAX);
	return r < 0 ? r : reader->r;
}

const struct save_kind_ops save_kinds[SAVE_N] = {
	[SAVE_SESSION] = {TAG_SESSION, put_session, read_session},
	[SAVE_NIC] = {TAG_NIC_NAME, put_nic, read_nic},
	[SAVE_SLOT] = {TAG_FREED, put_slot, read_slot},
	[SAVE_MR] = {TAG_MR_NUMBER, put_mr, read_mr},
	[SAVE_QUEUES] = {TAG_QUEUES_NUMBER, put_queues, read_queues},
	[SAVE_ENTRY] = {TAG_ENTRY_NUMBER, put_entry, read_entry},
	[SAVE_PE] = {TAG_PE, put_pe, read_pe},
	[SAVE_QPS] = {TAG_QPS_NUMBER, put_qps}, /* read_queues() reads those of its batch */
};

int save_read(struct save_reader *reader, struct import *a)
{
	int r = read_session(reader, a);

	for (unsigned int kind = SAVE_NIC; kind <= SAVE_PE; kind++)
		while (r == 0 && save_next_is(reader, save_kinds[kind].tag))
			r = save_kinds[kind].read(reader, a);
	if (r == 0)
		r = save_reader_end(reader);
	if (r == 0 && (a->n_nics != a->wanted.n_nics || a->n_freed != a->wanted.n_freed || a->n_mrs != a->wanted.n_mrs ||
		       a->n_queues != a->wanted.n_queues || a->n_entries != a->wanted.n_published ||
		       n_reported(a->session) != a->wanted.n_reported))
		return -EBADMSG;
	return r;
}
