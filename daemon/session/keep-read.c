/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what keep-state.c writes, object by object in the order of their kinds, and takes the memory that is kept with them.
 *
 * A daemon wrote the bytes, and the reader still refuses what no client could have asked for: the bytes that are there bound
 * counts, fields bound numbers, and the objects before bound places. Makes nothing but memory. Control thread, before the loop.
 */
#include "daemon/session/keep-read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/session/keep-tables.h"
#include "proto/base/cleanup.h"

void adopt_deinit(struct adopt *a)
{
	for (unsigned int i = 0; i < a->n_nics; i++) {
		session_nic_free(a->nics[i]);
		nic_imported_deinit(&a->imported[i]);
	}
	for (uint32_t i = 0; a->mrs && i < a->n_mrs; i++) {
		free(a->mrs[i].mr);
		safe_close(a->mrs[i].head.fd);
	}
	for (uint32_t i = 0; a->queues && i < a->n_queues; i++) {
		if (a->queues[i].queues)
			free(a->queues[i].queues->qps);
		free(a->queues[i].queues);
		safe_close(a->queues[i].head.fd);
	}
	free(a->mrs);
	free(a->queues);
	free(a->freed);
}

int adopt_take(struct session *session, const char *name)
{
	const struct registry_attr *attr = &session->registry->attr;
	int fd = attr->keep->take(attr->keep_arg, name);

	session->keep.n_names += fd >= 0;
	return fd;
}

int adopt_take_number(struct session *session, char kind, uint32_t number)
{
	char name[KEEP_NAME_BYTES];

	keep_name(name, session->id, kind, number);
	return adopt_take(session, name);
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

static void refuse_unless(struct keep_reader *reader, bool right)
{
	if (reader->r == 0 && !right)
		reader->r = -EBADMSG;
}

/* Room for element n of an array, zeroed; it doubles when it is full. False: there is no memory. */
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

static int read_nic(struct keep_reader *reader, struct adopt *a)
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
	bytes = keep_get_bytes(reader, TAG_NIC_NAME, &n);
	if (bytes && n < sizeof(name))
		memcpy(name, bytes, n);
	guid = keep_get(reader, TAG_NIC_GUID, UINT64_MAX);
	port = (uint32_t)keep_get(reader, TAG_NIC_PORT, UINT32_MAX);
	keep_get_fields(reader, &keep_nic, nic);
	keep_get_fields(reader, &keep_amount, &a->nic_amounts[i]);
	a->records[i] = keep_get_bytes(reader, TAG_NIC_RECORD, &a->record_bytes[i]);
	nic->index = i;
	nic->session = a->session;
	nic->rnic = find_nic(a->session->registry, name, guid, port);
	if (reader->r < 0)
		return reader->r;
	return nic->rnic ? 0 : -ENODEV;
}

/* Numbers rise within a kind, up to the last that the session gave. */
static void check_number(struct keep_reader *reader, const struct adopt *a, uint64_t number, uint64_t before)
{
	refuse_unless(reader, number > before && number <= a->last_number);
}

static int read_slot(struct keep_reader *reader, struct adopt *a)
{
	struct adopt_slot *slot;

	if (!make_room((void **)&a->freed, a->n_freed, sizeof(*a->freed)))
		return -ENOMEM;
	slot = &a->freed[a->n_freed++];
	slot->freed = keep_get(reader, TAG_FREED, KEEP_NUMBER_MAX);
	check_number(reader, a, slot->freed, a->n_freed > 1 ? slot[-1].freed : 0);
	slot->slot = (uint32_t)keep_get(reader, TAG_SLOT, a->n_slots ? a->n_slots - 1 : 0);
	slot->generation = (uint16_t)keep_get(reader, TAG_GENERATION, UINT16_MAX);
	refuse_unless(reader, a->n_slots > 0);
	return reader->r;
}

/* For a NIC that the session has. */
static void read_head(struct keep_reader *reader, const struct adopt *a, uint16_t tag_nic, struct adopt_head *head)
{
	head->fd = -1;
	head->handle = (uint32_t)keep_get(reader, TAG_HANDLE, UINT32_MAX);
	head->is_kept = keep_get(reader, TAG_IS_KEPT, 1);
	keep_get_fields(reader, &keep_amount, &head->amount);
	head->nic = (uint32_t)keep_get(reader, tag_nic, SESSION_MAX_NICS - 1);
	head->part.bytes = keep_get_bytes(reader, TAG_PART, &head->part.n);
	refuse_unless(reader, head->nic < a->n_nics && resource_slot_of(head->handle) < a->n_slots);
}

static int read_mr(struct keep_reader *reader, struct adopt *a)
{
	struct adopt_mr *to;

	if (!make_room((void **)&a->mrs, a->n_mrs, sizeof(*a->mrs)))
		return -ENOMEM;
	to = &a->mrs[a->n_mrs++];
	to->head.number = keep_get(reader, TAG_MR_NUMBER, KEEP_NUMBER_MAX);
	check_number(reader, a, to->head.number, a->n_mrs > 1 ? to[-1].head.number : 0);
	read_head(reader, a, TAG_MR_NIC, &to->head);
	to->mr = calloc(1, sizeof(*to->mr));
	if (!to->mr)
		return -ENOMEM;
	resource_init(&to->mr->head, RESOURCE_MR);
	keep_get_fields(reader, &keep_mr, to->mr);
	refuse_unless(reader, to->mr->memory <= a->last_number);
	if (reader->r == 0 && to->head.is_kept) {
		to->head.fd = adopt_take_memory(a->session, to->mr->memory);
		to->mr->head.is_kept = true;
	}
	return reader->r;
}

/* The QPs of a batch follow it. */
static void read_qps(struct keep_reader *reader, struct adopt_queues *to)
{
	size_t bytes;

	refuse_unless(reader, keep_get(reader, TAG_QPS_NUMBER, KEEP_NUMBER_MAX) == to->head.number);
	to->qps = keep_get_bytes(reader, TAG_QPS, &bytes);
	refuse_unless(reader, bytes % sizeof(struct keep_qp) == 0 && bytes / sizeof(struct keep_qp) <= NIC_MAX_BATCH_QPS);
	if (reader->r == 0)
		to->n_qps = (uint32_t)(bytes / sizeof(struct keep_qp));
}

static int read_queues(struct keep_reader *reader, struct adopt *a)
{
	struct adopt_queues *to;

	if (!make_room((void **)&a->queues, a->n_queues, sizeof(*a->queues)))
		return -ENOMEM;
	to = &a->queues[a->n_queues++];
	to->head.number = keep_get(reader, TAG_QUEUES_NUMBER, KEEP_NUMBER_MAX);
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
	if (to->head.is_kept) {
		to->head.fd = adopt_take_number(a->session, 'q', to->head.handle);
		to->queues->head.is_kept = true;
	}
	return 0;
}

static int read_reply(struct keep_reader *reader, struct session_keep *keep)
{
	const void *reply = keep_get_bytes(reader, TAG_REPLY, &keep->reply_bytes);

	if (!reply)
		return reader->r;
	if (keep->reply_bytes > REGISTRY_PACKET_BYTES)
		return -EBADMSG;
	keep->reply = malloc(keep->reply_bytes);
	if (!keep->reply)
		return -ENOMEM;
	memcpy(keep->reply, reply, keep->reply_bytes);
	return 0;
}

static int read_session(struct keep_reader *reader, struct adopt *a)
{
	struct session *session = a->session;
	uint64_t id = session->id;
	int r;

	keep_get_fields(reader, &keep_session, session);
	a->ended = keep_get(reader, TAG_ENDED, 1);
	a->has_pidfd = keep_get(reader, TAG_HAS_PIDFD, 1);
	keep_get_fields(reader, &keep_amount, &a->connection_amount);
	keep_get_fields(reader, &keep_amount, &a->session_amount);
	keep_get_fields(reader, &keep_counters, &session->counters);
	a->n_inflight = (uint32_t)keep_get(reader, TAG_INFLIGHT, CONNECTION_MAX_FDS);
	if (reader->r == 0 && (session->id != id || session->version == 0))
		return -EBADMSG;
	session->role = MSG_ROLE_CLIENT;
	r = reader->r < 0 ? reader->r : read_reply(reader, &session->keep);
	a->wanted.n_nics = (uint32_t)keep_get(reader, TAG_N_NICS, SESSION_MAX_NICS);
	a->wanted.n_freed = (uint32_t)keep_get(reader, TAG_N_FREED, RESOURCE_MAX);
	a->wanted.n_mrs = (uint32_t)keep_get(reader, TAG_N_MRS, RESOURCE_MAX);
	a->wanted.n_queues = (uint32_t)keep_get(reader, TAG_N_QUEUES, RESOURCE_MAX);
	a->wanted.n_published = (uint32_t)keep_get(reader, TAG_N_PUBLISHED, UINT32_MAX);
	a->n_slots = (uint32_t)keep_get(reader, TAG_N_SLOTS, RESOURCE_MAX);
	a->last_number = keep_get(reader, TAG_LAST_NUMBER, KEEP_NUMBER_MAX);
	return r < 0 ? r : reader->r;
}

/* The first item of an object names its kind; kinds come in this order. session-adopt.c reads published entries later. */
static const struct {
	uint16_t tag;
	int (*read)(struct keep_reader *reader, struct adopt *a);
} kinds[] = {
	{TAG_NIC_NAME, read_nic},
	{TAG_FREED, read_slot},
	{TAG_MR_NUMBER, read_mr},
	{TAG_QUEUES_NUMBER, read_queues},
};

int adopt_read(struct keep_reader *reader, struct adopt *a)
{
	int r = read_session(reader, a);

	for (unsigned int i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		while (r == 0 && keep_next_is(reader, kinds[i].tag))
			r = kinds[i].read(reader, a);
	if (r == 0 && (a->n_nics != a->wanted.n_nics || a->n_freed != a->wanted.n_freed || a->n_mrs != a->wanted.n_mrs ||
		       a->n_queues != a->wanted.n_queues))
		return -EBADMSG;
	return r;
}
