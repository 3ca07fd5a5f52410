/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session of a former daemon, made again from its state and its descriptors.
 *
 * First everything is read, then NICs import their contexts, then handles, numbers, charges and published entries are
 * as they were. Limits that are lower now take nothing away. All or nothing: contexts that were imported when something fails are
 * forgotten again, and the rest of them goes with their descriptors.
 *
 * A client can make a NIC wait for its memory, so import_run() and the end of a session that is given up are for workers, where there
 * are some. Control thread, except import_run() and forget_run().
 */
#include "daemon/restart/import.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/porter/porter.h"
#include "daemon/restart/save.h"
#include "daemon/restart/save-kinds.h"
#include "daemon/restart/state.h"
#include "daemon/session/cgroup.h"
#include "proto/base/cleanup.h"
#include "proto/framing.h"

/* A saved state does not count mappings: this daemon makes its own. */
static void import_charge(struct session *session, struct quota_amount amount, unsigned int n_maps, struct quota_charge *charge)
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

static int import_entry(struct session *session, const struct import_entry *from)
{
	struct publish_entry *entry = publish_entry_new(&from->like.key);
	int r;

	if (!entry)
		return -ENOMEM;
	entry->owner = session;
	entry->number = from->like.number;
	entry->saved = from->like.saved;
	entry->data_bytes = from->like.data_bytes;
	if (from->data)
		memcpy(entry->data, from->data, entry->data_bytes);
	if (entry->saved)
		entry->fd = save_take_number(session, 'p', entry->saved);
	r = entry->saved && entry->fd < 0 ? -EBADF : hold(session, entry->fd);
	if (r == 0)
		r = publish_add(&session->registry->published, entry);
	if (r < 0) {
		publish_entry_free(entry);
		return r;
	}
	import_charge(session, from->amount, 0, &entry->charge);
	list_add_tail(&session->published, &entry->owner_link);
	session->n_published++;
	return 0;
}

static int import_entries(struct import *a)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < a->n_entries; i++)
		r = import_entry(a->session, &a->entries[i]);
	return r;
}

/* ---- contexts ------------------------------------------------------------------------------------------------------- */

/* Descriptors of one NIC's context and of what is in it, borrowed: in the order in which things were made. */
struct import_nic {
	struct nic_import_attr attr;
	int *mr_fds, *queue_fds; /* owned arrays */
	void *record; /* owned */
};

static void import_nic_deinit(struct import_nic *import)
{
	for (unsigned int k = 0; k < import->attr.fds.n; k++)
		safe_close(import->attr.fds.fds[k]);
	free(import->mr_fds);
	free(import->queue_fds);
	free(import->record);
}

static int take_contexts_fds(struct session *session, const struct session_nic *nic, struct nic_saved_fds *saved)
{
	char name[SAVE_NAME_BYTES];

	for (saved->n = 0; saved->n < nic->n_saved; saved->n++) {
		save_name_nic(name, session->id, nic->index, saved->n);
		saved->fds[saved->n] = save_take(session, name);
		if (saved->fds[saved->n] < 0)
			return -EBADF;
	}
	return 0;
}

static uint64_t add_part(struct nic_record_part *parts, unsigned int *n, const struct import_head *head)
{
	parts[(*n)++] = head->part;
	return head->part.n;
}

/* The context's own part, those of its regions and those of its batches. */
static int join_record(struct import *a, unsigned int i, struct import_nic *import)
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

static int prepare_import(struct import *a, unsigned int i, struct import_nic *import)
{
	struct nic_import_attr *attr = &import->attr;
	int r;

	*import = (struct import_nic){
		.attr = {
			.ctx = {.session_id = a->session->id, .uid = a->session->identity.uid, .doorbell = a->nics[i]->doorbell,
				.health_fd = a->session->health_fd, .is_saved = true},
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

static int own_mr(struct import *a, struct import_mr *from, struct nic_mr *mr)
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
	import_charge(a->session, from->head.amount, SESSION_MR_MAPS, &to->head.charge);
	return 0;
}

static void know_qps(struct session_queues *queues, const struct import_queues *from)
{
	struct saved_qp qp;

	for (uint32_t i = 0; i < from->n_qps; i++) {
		memcpy(&qp, (const char *)from->qps + i * sizeof(qp), sizeof(qp));
		queues->qps[i] = (struct session_qp){(enum nic_qp_state)qp.state, qp.dest_qpn, qp.first_error};
	}
}

static int own_queues(struct import *a, struct import_queues *from, struct nic_queues *batch)
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
	save_ops.add(a->session, SAVE_QPS, to, -1);
	import_charge(a->session, from->head.amount, SESSION_QUEUES_MAPS, &to->head.charge);
	return 0;
}

/* The session's from here on, whatever becomes of what is in it. */
static void own_context(struct import *a, unsigned int i)
{
	struct session_nic *nic = a->nics[i];

	a->nics[i] = NULL;
	nic->ctx = a->imported[i].ctx;
	nic->rnic->n_sessions++;
	nic->is_counted = true;
	import_charge(a->session, a->nic_amounts[i], nic->rnic->nic->maps_per_ctx, &nic->charge);
	a->session->nics[a->session->n_nics++] = nic;
}

static int prepare_nics(struct import *a)
{
	int r = 0;

	a->contexts = calloc(a->n_nics + 1, sizeof(*a->contexts));
	if (!a->contexts)
		return -ENOMEM;
	for (unsigned int i = 0; r == 0 && i < a->n_nics; i++) {
		a->n_contexts++;
		r = prepare_import(a, i, &a->contexts[i]);
	}
	return r;
}

static int check_imported(struct import *a, unsigned int i)
{
	const struct nic_import_attr *attr = &a->contexts[i].attr;
	const struct nic_imported *imported = &a->imported[i];
	int r = session_attach_ctx(a->session, imported->ctx);

	if (r < 0)
		return r;
	return imported->n_mrs == attr->n_mr_fds && imported->n_queues == attr->n_queue_fds ? 0 : -EBADMSG;
}

static int own_contexts(struct import *a)
{
	int r = 0;

	for (unsigned int i = 0; i < a->n_imported; i++)
		own_context(a, i);
	for (unsigned int i = 0; r == 0 && i < a->n_imported; i++)
		r = check_imported(a, i);
	return a->r < 0 ? a->r : r;
}

/* In the order in which they were made, whatever their NICs. */
static int import_mrs(struct import *a)
{
	unsigned int n[SESSION_MAX_NICS] = {0};
	int r = 0;

	for (uint32_t k = 0; r == 0 && k < a->n_mrs; k++) {
		uint32_t i = a->mrs[k].head.nic;

		r = own_mr(a, &a->mrs[k], a->imported[i].mrs[n[i]++]);
	}
	return r;
}

static int import_queues(struct import *a)
{
	unsigned int n[SESSION_MAX_NICS] = {0};
	int r = 0;

	for (uint32_t k = 0; r == 0 && k < a->n_queues; k++) {
		uint32_t i = a->queues[k].head.nic;

		r = own_queues(a, &a->queues[k], a->imported[i].queues[n[i]++]);
	}
	return r == 0 && !resource_table_complete(&a->session->resources) ? -EBADMSG : r;
}

/* ---- handles -------------------------------------------------------------------------------------------------------- */

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
static int find_slots(const struct import *a, struct slots *slots)
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

static int import_slots(struct import *a)
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

/* ---- the session itself -------------------------------------------------------------------------------------------- */

static int import_health(struct session *session)
{
	struct stat st;

	_cleanup_close_ int fd = save_take_of(session, "health");

	/* Nothing but a memfd is asked for its size. */
	if (fd < 0 || fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &st) < 0 || st.st_size != sizeof(struct shmd_health_page))
		return -EBADF;
	session_have_page(session, take_fd(&fd));
	return 0;
}

/* Somebody else would get the messages sent on it. */
static int refuse_socket(struct session *session)
{
	porters_discard(session->registry->attr.porters, take_fd(&session->connection.fd));
	return -EBADF;
}

static int import_socket(struct session *session)
{
	int sock = save_take_of(session, "sock");

	if (sock < 0)
		return -EBADF;
	session_take_socket(session, sock);
	return identity_has_peer(sock) ? framing_setup(sock) : refuse_socket(session);
}

/* First, and both: whatever is wrong with the rest, its client hears of its end, and kernels that wait for it see that. */
static int import_ways_to_tell(struct session *session)
{
	int r = import_socket(session), r_health = import_health(session);

	return r < 0 ? r : r_health;
}

static int import_connection(struct import *a)
{
	struct session *session = a->session;
	struct registry *registry = session->registry;
	int r;

	if (!identity_is_peer(&session->identity, session->connection.fd))
		return refuse_socket(session);
	if (a->has_pidfd) {
		session->identity.pidfd = save_take_of(session, "pid");
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
	save_tell_porter(session, true);
	r = inflight_new(&registry->inflight, &session->user, session->connection.fd, &session->connection.inflight);
	if (r < 0)
		return r;
	inflight_sent(session->connection.inflight, a->n_inflight);
	import_charge(session, a->connection_amount, 0, &session->connection_charge);
	import_charge(session, a->session_amount, SESSION_MAPS, &session->session_charge);
	return 0;
}

static int read_contents(struct import *a, const void *bytes, size_t n)
{
	struct save_reader reader = {.at = bytes, .end = (const uint8_t *)bytes + n};
	int r = save_read(&reader, a);

	if (r == 0)
		r = import_connection(a);
	return r == 0 ? prepare_nics(a) : r;
}

/* Queue memory that came with the last answer: of the newest batch. */
static int find_reply_fd(struct import *a)
{
	struct session_saved *saved = &a->session->saved;
	_cleanup_(msg_deinit) struct msg rep;
	int r;

	msg_init(&rep, MSG_OK_REP, 0);
	if (!saved->reply)
		return 0;
	r = msg_decode(saved->reply, saved->reply_bytes, &rep);
	if (r < 0 || rep.kind != MSG_QUEUE_CREATE_REP || rep.n_fds == 0)
		return r;
	if (a->n_queues == 0 || a->queues[a->n_queues - 1].head.handle != rep.queue_create_rep.queues)
		return -EBADMSG;
	saved->reply_fd = take_fd(&a->queues[a->n_queues - 1].head.fd);
	return 0;
}

/* ---- giving up ------------------------------------------------------------------------------------------------------ */

struct forget {
	struct work work;
	unsigned int n;
	struct nic_ctx *ctxs[];
};

static void forget_run(struct work *work)
{
	struct forget *forget = container_of(work, struct forget, work);

	while (forget->n > 0) {
		struct nic_ctx *ctx = forget->ctxs[--forget->n];

		ctx->nic->ops->ctx_unimport(ctx);
	}
}

static void forget_done(struct work *work)
{
	free(container_of(work, struct forget, work));
}

static void forget_objects(struct session *session)
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
}

/* Objects of contexts are forgotten with them; the session's tables say so first. */
static void abandon_contexts(struct session *session)
{
	/* bounded: SESSION_MAX_NICS. */
	struct forget *forget = session->n_nics ? malloc(sizeof(*forget) + session->n_nics * sizeof(forget->ctxs[0])) : NULL;

	if (forget)
		*forget = (struct forget){.work = {
			.users = {session->user.uid, session->user.cgroup}, .may_stall = session->registry->stalls,
			.run = forget_run, .done = forget_done}};
	forget_objects(session);
	for (unsigned int i = 0; i < session->n_nics; i++) {
		struct session_nic *nic = session->nics[i];

		if (forget)
			forget->ctxs[forget->n++] = take_ptr(nic->ctx);
		else
			nic->ctx = nic->ctx->nic->ops->ctx_unimport(nic->ctx);
		save_ops.remove(session, SAVE_NIC, nic);
		session_nic_free(nic);
	}
	session->n_nics = 0;
	if (forget)
		registry_work(session->registry, registry_has_busy(session->registry), &forget->work);
}

/* Its porter or a worker writes its health words and frees it, where there is one. */
static void release(struct session *session)
{
	session->release = session_release;
	session_release(session);
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
	release(session);
}

void session_refuse(struct registry *registry, uint64_t id, const char *why)
{
	struct session *session = session_alloc(registry);

	if (!session)
		return;
	session->id = id;
	import_ways_to_tell(session);
	if (session->connection.fd >= 0)
		session_end(session, SHMD_STATUS_SHUTDOWN, "shmemd has restarted and cannot go on with this session: %s", why);
	release(session);
}

static void import_free(struct import *a)
{
	for (unsigned int i = 0; i < a->n_nics; i++) {
		session_nic_free(a->nics[i]);
		nic_imported_deinit(&a->imported[i]);
	}
	for (unsigned int i = 0; i < a->n_contexts; i++)
		import_nic_deinit(&a->contexts[i]);
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
	free(a->contexts);
	free(a->mrs);
	free(a->queues);
	free(a->freed);
	free(a->entries);
	free(a);
}

/* ---- all of it ---------------------------------------------------------------------------------------------------- */

/* Its state is the session's from here on. */
static int alloc(struct registry *registry, uint64_t id, struct state *state, struct import **ret_import)
{
	struct import *a = calloc(1, sizeof(*a));
	struct session *session = a ? session_alloc(registry) : NULL;

	if (!session) {
		state_free(state);
		free(a);
		return -ENOMEM;
	}
	a->session = session;
	session->id = id;
	session->saved.state = state;
	session->saved.imported = session->saved.is_named = true;
	session->saved.n_names = 1; /* the state's */
	*ret_import = a;
	return 0;
}

/* By rising number, wherever the import of another one ended first. */
static void list_session(struct registry *registry, struct session *session)
{
	struct list *at = registry->sessions.prev;

	while (at != &registry->sessions && container_of(at, struct session, link)->id > session->id)
		at = at->prev;
	list_add_head(at, &session->link);
}

static int fail(struct import *a, int r)
{
	struct session *session = a->session;

	import_free(a);
	save_memories_taken(&session->saved);
	give_up(session, r);
	return r;
}

int import_begin(struct registry *registry, uint64_t id, struct state *state, const void *bytes, size_t n, struct import **ret_import)
{
	struct import *a;
	int r = alloc(registry, id, state, &a);

	if (r < 0)
		return r;
	r = import_ways_to_tell(a->session);
	if (r == 0)
		r = read_contents(a, bytes, n);
	if (r < 0)
		return fail(a, r);
	if (registry->last_id < id)
		registry->last_id = id;
	*ret_import = a;
	return 0;
}

void import_run(struct import *a)
{
	for (unsigned int i = 0; a->r == 0 && i < a->n_nics; i++) {
		struct nic *nic = a->nics[i]->rnic->nic;

		a->r = nic->ops->ctx_import(nic, &a->contexts[i].attr, &a->imported[i]);
		a->n_imported += a->r == 0;
	}
}

int import_end(struct import *a, struct session **ret_session)
{
	static int (*const imports[])(struct import *a) = {
		own_contexts, import_slots, import_mrs, import_queues, import_entries, find_reply_fd};
	struct session *session = a->session;
	int r = 0;

	for (unsigned int i = 0; r == 0 && i < sizeof(imports) / sizeof(imports[0]); i++)
		r = imports[i](a);
	if (r < 0)
		return fail(a, r);
	session->ended = a->ended;
	import_free(a);
	save_memories_taken(&session->saved);
	session->saved.is_stale = true;
	session->release = session_release;
	list_session(session->registry, session);
	*ret_session = session;
	return 0;
}

int session_import(struct registry *registry, uint64_t id, struct state *state, const void *bytes, size_t n,
		  struct session **ret_session)
{
	struct import *import;
	int r = import_begin(registry, id, state, bytes, n, &import);

	if (r < 0)
		return r;
	import_run(import);
	return import_end(import, ret_session);
}
