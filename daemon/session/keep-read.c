/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what keep-state.c writes, in the same order, and takes the memory that is kept with it.
 *
 * The bytes are this program's own, and still nothing of them is believed that could make the daemon do what no client can
 * ask for: counts are bounded by the bytes that are there, numbers by what their fields hold, places by what was read
 * before. Makes nothing but memory. Control thread, before the loop.
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

static int read_nic(struct keep_reader *reader, struct adopt *a, unsigned int i)
{
	char name[NIC_NAME_BYTES] = "";
	const void *bytes;
	size_t n;

	a->nics[i] = calloc(1, sizeof(*a->nics[i]));
	if (!a->nics[i])
		return -ENOMEM;
	a->n_nics = i + 1;
	bytes = keep_get_bytes(reader, TAG_NIC_NAME, &n);
	if (bytes && n < sizeof(name))
		memcpy(name, bytes, n);
	keep_get_fields(reader, &keep_nic, a->nics[i]);
	keep_get_fields(reader, &keep_amount, &a->nic_amounts[i]);
	a->records[i] = keep_get_bytes(reader, TAG_NIC_RECORD, &a->record_bytes[i]);
	a->nics[i]->index = i;
	a->nics[i]->rnic = registry_find_nic(a->session->registry, name);
	if (reader->r < 0)
		return reader->r;
	return a->nics[i]->rnic ? 0 : -ENODEV;
}

static int read_nics(struct keep_reader *reader, struct adopt *a)
{
	uint64_t n = keep_get(reader, TAG_N_NICS, SESSION_MAX_NICS);
	int r = reader->r;

	for (unsigned int i = 0; r == 0 && i < n; i++)
		r = read_nic(reader, a, i);
	return r;
}

static void read_slots(struct keep_reader *reader, struct adopt *a)
{
	size_t n_generations, n_free;

	a->n_slots = (uint32_t)keep_get(reader, TAG_N_SLOTS, RESOURCE_MAX);
	a->generations = keep_get_bytes(reader, TAG_GENERATIONS, &n_generations);
	a->free_slots = keep_get_bytes(reader, TAG_FREE_SLOTS, &n_free);
	a->n_free = (uint32_t)(n_free / sizeof(uint32_t));
	if (reader->r == 0 && (n_generations != a->n_slots * sizeof(uint16_t) || n_free % sizeof(uint32_t) ||
			       a->n_free > a->n_slots))
		reader->r = -EBADMSG;
}

/* Of a NIC that the session has. */
static void read_head(struct keep_reader *reader, const struct adopt *a, uint16_t tag_nic, struct adopt_head *head)
{
	head->fd = -1;
	head->handle = (uint32_t)keep_get(reader, TAG_HANDLE, UINT32_MAX);
	head->is_kept = keep_get(reader, TAG_IS_KEPT, 1);
	keep_get_fields(reader, &keep_amount, &head->amount);
	head->nic = (uint32_t)keep_get(reader, tag_nic, SESSION_MAX_NICS - 1);
	if (reader->r == 0 && head->nic >= a->n_nics)
		reader->r = -EBADMSG;
}

static int read_mr(struct keep_reader *reader, struct adopt *a, struct adopt_mr *to)
{
	read_head(reader, a, TAG_MR_NIC, &to->head);
	to->mr = calloc(1, sizeof(*to->mr));
	if (!to->mr)
		return -ENOMEM;
	resource_init(&to->mr->head, RESOURCE_MR);
	keep_get_fields(reader, &keep_mr, to->mr);
	if (reader->r == 0 && to->head.is_kept) {
		to->head.fd = adopt_take_number(a->session, 'm', to->head.handle);
		to->mr->head.is_kept = true;
	}
	return reader->r;
}

static int read_mrs(struct keep_reader *reader, struct adopt *a)
{
	uint32_t n = keep_get_count(reader, TAG_N_MRS);
	int r = reader->r;

	/* bounded: by the bytes of the state. */
	a->mrs = calloc((size_t)n + 1, sizeof(*a->mrs));
	if (!a->mrs)
		return -ENOMEM;
	for (uint32_t i = 0; r == 0 && i < n; i++) {
		a->n_mrs = i + 1;
		r = read_mr(reader, a, &a->mrs[i]);
	}
	return r;
}

static int read_batch(struct keep_reader *reader, struct adopt *a, struct adopt_queues *to)
{
	size_t bytes;

	read_head(reader, a, TAG_QUEUES_NIC, &to->head);
	to->qps = keep_get_bytes(reader, TAG_QPS, &bytes);
	if (reader->r == 0 && (bytes % sizeof(struct keep_qp) || bytes / sizeof(struct keep_qp) > NIC_MAX_BATCH_QPS))
		reader->r = -EBADMSG;
	if (reader->r < 0)
		return reader->r;
	to->n_qps = (uint32_t)(bytes / sizeof(struct keep_qp));
	to->queues = calloc(1, sizeof(*to->queues));
	if (!to->queues)
		return -ENOMEM;
	resource_init(&to->queues->head, RESOURCE_QUEUES);
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

static int read_queues(struct keep_reader *reader, struct adopt *a)
{
	uint32_t n = keep_get_count(reader, TAG_N_QUEUES);
	int r = reader->r;

	/* bounded: by the bytes of the state. */
	a->queues = calloc((size_t)n + 1, sizeof(*a->queues));
	if (!a->queues)
		return -ENOMEM;
	for (uint32_t i = 0; r == 0 && i < n; i++) {
		a->n_queues = i + 1;
		r = read_batch(reader, a, &a->queues[i]);
	}
	return r;
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

	keep_get_fields(reader, &keep_session, session);
	a->ended = keep_get(reader, TAG_ENDED, 1);
	a->has_pidfd = keep_get(reader, TAG_HAS_PIDFD, 1);
	keep_get_fields(reader, &keep_amount, &a->connection_amount);
	keep_get_fields(reader, &keep_amount, &a->session_amount);
	keep_get_fields(reader, &keep_counters, &session->counters);
	a->n_unread = (uint32_t)keep_get(reader, TAG_UNREAD, CONNECTION_MAX_FDS);
	if (reader->r == 0 && (session->id != id || session->version == 0))
		return -EBADMSG;
	session->role = MSG_ROLE_CLIENT;
	return reader->r < 0 ? reader->r : read_reply(reader, &session->keep);
}

int adopt_read(struct keep_reader *reader, struct adopt *a)
{
	int r = read_session(reader, a);

	if (r == 0)
		r = read_nics(reader, a);
	if (r < 0)
		return r;
	read_slots(reader, a);
	r = read_mrs(reader, a);
	return r < 0 ? r : read_queues(reader, a);
}
