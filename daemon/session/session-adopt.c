/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session of a former daemon, made again from its state and its descriptors.
 *
 * First everything is read, then NICs import their contexts, then handles, numbers, charges and what was published are
 * as they were. Limits that are lower now take nothing away. All or nothing: contexts that were imported when something fails are
 * forgotten again, and what is left of them goes with their descriptors. Control thread, before the loop.
 */
#include "daemon/session/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/porter/porter.h"
#include "daemon/session/cgroup.h"
#include "daemon/session/keep-read.h"
#include "daemon/session/keep-tables.h"
#include "daemon/session/session.h"
#include "proto/base/cleanup.h"
#include "proto/framing.h"

static int take_of(struct session *session, const char *what)
{
	char name[KEEP_NAME_BYTES];

	keep_name_of(name, session->id, what);
	return adopt_take(session, name);
}

/* A saved state does not count mappings: this daemon makes its own. */
static void adopt_charge(struct session *session, struct quota_amount amount, unsigned int n_maps, struct quota_charge *charge)
{
	amount.n[QUOTA_MAPS] = n_maps;
	quota_charge_adopt(&session->user, &amount, charge);
}

/* ---- published ------------------------------------------------------------------------------------------------------ */

/* As what came in a packet. */
static int hold(struct session *session, int fd)
{
	return fd < 0 || !session->connection.slot ? 0 : porter_slot_hold(session->connection.slot, fd);
}

static int adopt_entry(struct session *session, const struct publish_entry *kept, const struct quota_amount *amount,
		       const void *data)
{
	struct publish_entry *entry = publish_entry_new(&kept->key);
	int r;

	if (!entry)
		return -ENOMEM;
	entry->owner = session;
	entry->number = kept->number;
	entry->kept = kept->kept;
	entry->data_bytes = kept->data_bytes;
	if (data)
		memcpy(entry->data, data, entry->data_bytes);
	if (entry->kept)
		entry->fd = adopt_take_number(session, 'p', entry->kept);
	r = entry->kept && entry->fd < 0 ? -EBADF : hold(session, entry->fd);
	if (r == 0)
		r = publish_add(&session->registry->published, entry);
	if (r < 0) {
		publish_entry_free(entry);
		return r;
	}
	adopt_charge(session, *amount, 0, &entry->charge);
	list_add_tail(&session->published, &entry->owner_link);
	session->n_published++;
	return 0;
}

static int adopt_published(struct keep_reader *reader, struct session *session, uint32_t n_wanted)
{
	uint64_t before = 0;
	uint32_t n = 0;
	int r = reader->r;

	while (r == 0 && keep_next_is(reader, TAG_ENTRY_NUMBER)) {
		struct publish_entry kept = {0};
		struct quota_amount amount = {0};
		const void *data;
		size_t bytes;

		kept.number = keep_get(reader, TAG_ENTRY_NUMBER, session->resources.last_number);
		keep_get_fields(reader, &keep_entry, &kept);
		keep_get_fields(reader, &keep_amount, &amount);
		data = keep_get_bytes(reader, TAG_PUBLISHED_DATA, &bytes);
		if (reader->r == 0 && (bytes != kept.data_bytes || kept.number <= before))
			reader->r = -EBADMSG;
		before = kept.number;
		n++;
		r = reader->r < 0 ? reader->r : adopt_entry(session, &kept, &amount, data);
	}
	return r == 0 && n != n_wanted ? -EBADMSG : r;
}

/* ---- contexts ------------------------------------------------------------------------------------------------------- */

/* Descriptors of one NIC's context and of what is in it, borrowed: in the order in which things were made. */
struct import {
	struct nic_import_attr attr;
	int *mr_fds, *queue_fds; /* owned arrays */
	void *record; /* owned */
};

static void import_deinit(struct import *import)
{
	for (unsigned int k = 0; k < import->attr.fds.n; k++)
		safe_close(import->attr.fds.fds[k]);
	free(import->mr_fds);
	free(import->queue_fds);
	free(import->record);
}

static int take_contexts_fds(struct session *session, const struct session_nic *nic, struct nic_kept *kept)
{
	char name[KEEP_NAME_BYTES];

	for (kept->n = 0; kept->n < nic->n_kept; kept->n++) {
		keep_name_nic(name, session->id, nic->index, kept->n);
		kept->fds[kept->n] = adopt_take(session, name);
		if (kept->fds[kept->n] < 0)
			return -EBADF;
	}
	return 0;
}

static uint64_t add_part(struct nic_record_part *parts, unsigned int *n, const struct adopt_head *head)
{
	parts[(*n)++] = head->part;
	return head->part.n;
}

/* The context's own part, those of its regions and those of its batches. */
static int join_record(struct adopt *a, unsigned int i, struct import *import)
{
	_cleanup_free_ struct nic_record_part *mrs = calloc((size_t)a->n_mrs + 1, sizeof(*mrs));
	_cleanup_free_ struct nic_record_part *queues = calloc((size_t)a->n_queues + 1, sizeof(*queues));
	const struct nic_record_part ctx = {a->records[i], a->record_bytes[i]};
	unsigned int n_mrs = 0, n_queues = 0;
	struct session_nic *nic = a->nics[i];
	int r;

	if (!mrs || !queues)
		return -ENOMEM;
	for (uint32_t k = 0; k < a->n_mrs; k++)
		if (a->mrs[k].head.nic == i)
			nic->parts_bytes += add_part(mrs, &n_mrs, &a->mrs[k].head);
	for (uint32_t k = 0; k < a->n_queues; k++)
		if (a->queues[k].head.nic == i)
			nic->parts_bytes += add_part(queues, &n_queues, &a->queues[k].head);
	r = nic_record_join(&ctx, n_mrs, mrs, n_queues, queues, &import->record, &import->attr.record_bytes);
	import->attr.record = import->record;
	return r;
}

static int prepare_import(struct adopt *a, unsigned int i, struct import *import)
{
	struct nic_import_attr *attr = &import->attr;
	int r;

	*import = (struct import){
		.attr = {
			.ctx = {.session_id = a->session->id, .doorbell = a->nics[i]->doorbell,
				.health_fd = a->session->health_fd, .is_kept = true},
		},
		.mr_fds = calloc((size_t)a->n_mrs + 1, sizeof(int)),
		.queue_fds = calloc((size_t)a->n_queues + 1, sizeof(int)),
	};
	if (!import->mr_fds || !import->queue_fds)
		return -ENOMEM;
	for (uint32_t k = 0; k < a->n_mrs; k++)
		if (a->mrs[k].head.nic == i)
			import->mr_fds[attr->n_mr_fds++] = a->mrs[k].head.fd;
	for (uint32_t k = 0; k < a->n_queues; k++)
		if (a->queues[k].head.nic == i)
			import->queue_fds[attr->n_queue_fds++] = a->queues[k].head.fd;
	attr->mr_fds = import->mr_fds;
	attr->queue_fds = import->queue_fds;
	r = take_contexts_fds(a->session, a->nics[i], &attr->fds);
	return r < 0 ? r : join_record(a, i, import);
}

static int own_mr(struct adopt *a, struct adopt_mr *from, struct nic_mr *mr)
{
	struct session_mr *to = from->mr;
	int r = resource_restore(&a->session->resources, &to->head, from->head.handle);

	if (r < 0)
		return r;
	from->mr = NULL;
	to->head.number = from->head.number;
	to->head.part_bytes = from->head.part.n;
	to->nic = a->session->nics[from->head.nic];
	to->mr = mr;
	adopt_charge(a->session, from->head.amount, SESSION_MR_MAPS, &to->head.charge);
	return 0;
}

static void know_qps(struct session_queues *queues, const struct adopt_queues *from)
{
	struct keep_qp qp;

	for (uint32_t i = 0; i < from->n_qps; i++) {
		memcpy(&qp, (const char *)from->qps + i * sizeof(qp), sizeof(qp));
		queues->qps[i] = (struct session_qp){(enum nic_qp_state)qp.state, qp.dest_qpn, qp.first_error};
	}
}

static int own_queues(struct adopt *a, struct adopt_queues *from, struct nic_queues *batch)
{
	struct session_queues *to = from->queues;
	int r;

	if (batch->layout.n_qps != from->n_qps)
		return -EBADMSG;
	to->nic = a->session->nics[from->head.nic];
	to->queues = batch;
	r = session_queues_add_numbers(to);
	if (r == 0)
		r = resource_restore(&a->session->resources, &to->head, from->head.handle);
	if (r < 0)
		return r;
	from->queues = NULL;
	to->head.number = from->head.number;
	to->head.part_bytes = from->head.part.n;
	session_queues_count(to);
	know_qps(to, from);
	/* It may have objects that the import found destroyed: see save_stale_mrs(). */
	session_keep_qps(to);
	adopt_charge(a->session, from->head.amount, SESSION_QUEUES_MAPS, &to->head.charge);
	return 0;
}

/* In the order in which they were made, whatever their NICs. */
static int own_contents(struct adopt *a)
{
	unsigned int n_mrs[SESSION_MAX_NICS] = {0}, n_queues[SESSION_MAX_NICS] = {0};
	int r = 0;

	for (uint32_t k = 0; r == 0 && k < a->n_mrs; k++) {
		uint32_t i = a->mrs[k].head.nic;

		r = own_mr(a, &a->mrs[k], a->imported[i].mrs[n_mrs[i]++]);
	}
	for (uint32_t k = 0; r == 0 && k < a->n_queues; k++) {
		uint32_t i = a->queues[k].head.nic;

		r = own_queues(a, &a->queues[k], a->imported[i].queues[n_queues[i]++]);
	}
	return r;
}

/* The session's from here on, whatever becomes of what is in it. */
static void own_context(struct adopt *a, unsigned int i)
{
	struct session_nic *nic = a->nics[i];

	a->nics[i] = NULL;
	nic->ctx = a->imported[i].ctx;
	nic->rnic->n_sessions++;
	nic->is_counted = true;
	adopt_charge(a->session, a->nic_amounts[i], nic->rnic->nic->maps_per_ctx, &nic->charge);
	a->session->nics[a->session->n_nics++] = nic;
}

static int import_nic(struct adopt *a, unsigned int i)
{
	struct nic *nic = a->nics[i]->rnic->nic;
	struct nic_imported *imported = &a->imported[i];
	_cleanup_(import_deinit) struct import import;
	int r = prepare_import(a, i, &import);

	if (r == 0)
		r = nic->ops->ctx_import(nic, &import.attr, imported);
	if (r < 0)
		return r;
	own_context(a, i);
	r = session_attach(a->session, imported->ctx->doorbell.wake_fd, true);
	if (r < 0)
		return r;
	return imported->n_mrs == import.attr.n_mr_fds && imported->n_queues == import.attr.n_queue_fds ? 0 : -EBADMSG;
}

struct slots {
	uint16_t *generations; /* owned */
	uint32_t *free_slots; /* owned, n_free of them */
	bool *is_used; /* owned: one that was freed and one that is taken have a handle or a generation */
	uint32_t n_free;
};

static void slots_deinit(struct slots *slots)
{
	free(slots->generations);
	free(slots->free_slots);
	free(slots->is_used);
}

static bool use_slot(struct slots *slots, uint32_t slot, uint32_t generation)
{
	bool is_first = !slots->is_used[slot];

	slots->is_used[slot] = true;
	slots->generations[slot] = (uint16_t)generation;
	return is_first;
}

/* Each of them is taken, or was freed, or was never used: then it comes before those that were. */
static int find_slots(const struct adopt *a, struct slots *slots)
{
	bool right = true;

	for (uint32_t i = 0; i < a->n_mrs; i++)
		right &= use_slot(slots, resource_slot_of(a->mrs[i].head.handle), a->mrs[i].head.handle >> RESOURCE_SLOT_BITS);
	for (uint32_t i = 0; i < a->n_queues; i++)
		right &= use_slot(slots, resource_slot_of(a->queues[i].head.handle),
				  a->queues[i].head.handle >> RESOURCE_SLOT_BITS);
	for (uint32_t i = 0; i < a->n_freed; i++)
		right &= use_slot(slots, a->freed[i].slot, a->freed[i].generation);
	for (uint32_t i = 0; i < a->n_slots; i++)
		if (!slots->is_used[i])
			slots->free_slots[slots->n_free++] = i;
	for (uint32_t i = 0; right && i < a->n_freed; i++)
		slots->free_slots[slots->n_free++] = a->freed[i].slot;
	return right ? 0 : -EBADMSG;
}

static int adopt_slots(struct adopt *a)
{
	struct resource_table *table = &a->session->resources;
	/* bounded: RESOURCE_MAX. */
	_cleanup_(slots_deinit) struct slots slots = {
		.generations = calloc((size_t)a->n_slots + 1, sizeof(*slots.generations)),
		.free_slots = calloc((size_t)a->n_slots + 1, sizeof(*slots.free_slots)),
		.is_used = calloc((size_t)a->n_slots + 1, sizeof(*slots.is_used)),
	};
	int r;

	if (!slots.generations || !slots.free_slots || !slots.is_used)
		return -ENOMEM;
	r = find_slots(a, &slots);
	if (r == 0)
		r = resource_table_restore(table, a->n_slots, slots.generations, slots.n_free, slots.free_slots);
	for (uint32_t i = 0; r == 0 && i < a->n_freed; i++)
		table->slots[a->freed[i].slot].freed = a->freed[i].freed;
	table->last_number = a->last_number;
	table->n_freed = a->n_freed;
	return r;
}

static int adopt_contexts(struct adopt *a)
{
	int r = adopt_slots(a);

	for (unsigned int i = 0; r == 0 && i < a->n_nics; i++)
		r = import_nic(a, i);
	if (r == 0)
		r = own_contents(a);
	return r == 0 && !resource_table_complete(&a->session->resources) ? -EBADMSG : r;
}

/* ---- the session itself -------------------------------------------------------------------------------------------- */

static int adopt_health(struct session *session)
{
	struct stat st;

	session->health_fd = take_of(session, "health");
	/* Nothing but a memfd is asked for its size. */
	if (session->health_fd < 0 || fcntl(session->health_fd, F_GET_SEALS) < 0 || fstat(session->health_fd, &st) < 0 ||
	    st.st_size != sizeof(struct shmd_health_page))
		return -EBADF;
	return session_map_health(session, session->health_fd);
}

/* Somebody else would get the messages sent on it. */
static int refuse_socket(struct session *session)
{
	porters_discard(session->registry->attr.porters, take_fd(&session->connection.fd));
	return -EBADF;
}

static int adopt_socket(struct session *session)
{
	int sock = take_of(session, "sock");

	if (sock < 0)
		return -EBADF;
	connection_init(&session->connection, sock);
	return identity_has_peer(sock) ? framing_setup(sock) : refuse_socket(session);
}

/* First, and both: whatever is wrong with the rest, its client hears of its end, and kernels that wait for it see that. */
static int adopt_ways_to_tell(struct session *session)
{
	int r = adopt_socket(session), r_health = adopt_health(session);

	return r < 0 ? r : r_health;
}

static int adopt_connection(struct adopt *a)
{
	struct session *session = a->session;
	struct registry *registry = session->registry;
	int r;

	if (!identity_is_peer(&session->identity, session->connection.fd))
		return refuse_socket(session);
	if (a->has_pidfd) {
		session->identity.pidfd = take_of(session, "pid");
		if (session->identity.pidfd < 0 || !identity_is_process(&session->identity, session->identity.pidfd))
			return -EBADF;
	}
	cgroup_tenant(session->identity.cgroup, NULL, NULL, session->identity.tenant, sizeof(session->identity.tenant));
	r = quota_user_init(&session->user, &registry->quota, session->identity.uid, session->identity.tenant);
	if (r < 0)
		return r;
	r = session_let_send_fds(session);
	if (r < 0 && r != -EINPROGRESS)
		return r;
	if (session->connection.slot)
		porter_slot_keep(session->connection.slot, true);
	r = inflight_new(&registry->inflight, &session->user, session->connection.fd, &session->connection.inflight);
	if (r < 0)
		return r;
	inflight_sent(session->connection.inflight, a->n_inflight);
	adopt_charge(session, a->connection_amount, 0, &session->connection_charge);
	adopt_charge(session, a->session_amount, SESSION_MAPS, &session->session_charge);
	return 0;
}

static int adopt_contents(struct adopt *a, const void *bytes, size_t n)
{
	struct keep_reader reader = {.at = bytes, .end = (const uint8_t *)bytes + n};
	struct session *session = a->session;
	int r = adopt_read(&reader, a);

	if (r == 0)
		r = adopt_connection(a);
	if (r == 0)
		r = adopt_contexts(a);
	if (r == 0)
		r = adopt_published(&reader, session, a->wanted.n_published);
	return r < 0 ? r : keep_reader_end(&reader);
}

/* Queue memory that came with the last answer: of the newest batch. */
static int find_reply_fd(struct adopt *a)
{
	struct session_keep *keep = &a->session->keep;
	_cleanup_(msg_deinit) struct msg rep;
	int r;

	msg_init(&rep, MSG_OK_REP, 0);
	if (!keep->reply)
		return 0;
	r = msg_decode(keep->reply, keep->reply_bytes, &rep);
	if (r < 0 || rep.kind != MSG_QUEUE_CREATE_REP || rep.n_fds == 0)
		return r;
	if (a->n_queues == 0 || a->queues[a->n_queues - 1].head.handle != rep.queue_create_rep.queues)
		return -EBADMSG;
	keep->reply_fd = take_fd(&a->queues[a->n_queues - 1].head.fd);
	return 0;
}

/* ---- giving up ------------------------------------------------------------------------------------------------------ */

/* Objects of contexts are forgotten with them; the session's tables say so first. */
static void abandon_contexts(struct session *session)
{
	struct resource *head, *tmp;

	list_for_each_entry_safe(head, tmp, &session->resources.lists[RESOURCE_QUEUES], link) {
		struct session_queues *queues = container_of(head, struct session_queues, head);

		queues->queues = NULL;
		session_queues_free(session, queues);
	}
	list_for_each_entry_safe(head, tmp, &session->resources.lists[RESOURCE_MR], link) {
		struct session_mr *mr = container_of(head, struct session_mr, head);

		mr->mr = NULL;
		session_mr_free(session, mr);
	}
	while (session->n_nics > 0) {
		struct session_nic *nic = session->nics[--session->n_nics];

		nic->ctx = nic->ctx->nic->ops->ctx_unimport(nic->ctx);
		session_keep_no_nic(session, nic);
		session_nic_free(nic);
	}
}

/* Its client gets the reason, as far as there is a way; its health words have it in any case. */
static void give_up(struct session *session, int r)
{
	abandon_contexts(session);
	if (session->connection.fd >= 0)
		session_end(session, SHMD_STATUS_INTERNAL, "shmemd has restarted and cannot continue this session: %s",
			    strerror(-r));
	if (!session->connection.slot)
		porters_discard(session->registry->attr.porters, take_fd(&session->connection.fd));
	session_free(session);
}

void session_refuse(struct registry *registry, uint64_t id, const char *why)
{
	struct session *session = session_alloc(registry);

	if (!session)
		return;
	session->id = id;
	adopt_ways_to_tell(session);
	if (session->connection.fd >= 0)
		session_end(session, SHMD_STATUS_SHUTDOWN, "shmemd has restarted and cannot go on with this session: %s", why);
	session_free(session);
}

int session_adopt(struct registry *registry, uint64_t id, struct state *state, const void *bytes, size_t n,
		  struct session **ret_session)
{
	struct session *session = session_alloc(registry);
	struct adopt a = {.session = session};
	int r;

	if (!session) {
		registry->attr.keep->state_free(state);
		return -ENOMEM;
	}
	session->id = id;
	session->keep.state = state;
	session->keep.adopted = session->keep.is_named = true;
	session->keep.n_names = 1; /* the state's */
	r = adopt_ways_to_tell(session);
	if (r == 0)
		r = adopt_contents(&a, bytes, n);
	if (r == 0)
		r = find_reply_fd(&a);
	adopt_deinit(&a);
	adopt_memories_taken(&session->keep);
	if (r < 0) {
		give_up(session, r);
		return r;
	}
	session->ended = a.ended;
	session->keep.is_stale = true;
	list_add_tail(&registry->sessions, &session->link);
	if (registry->last_id < id)
		registry->last_id = id;
	*ret_session = session;
	return 0;
}
