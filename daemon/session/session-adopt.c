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
#include <sys/mman.h>
#include <sys/stat.h>

#include "daemon/session/cgroup.h"
#include "daemon/session/keep-read.h"
#include "daemon/session/keep-tables.h"
#include "daemon/session/session.h"
#include "proto/base/cleanup.h"
#include "proto/base/foreign-fd.h"
#include "proto/framing.h"

static int take_of(struct session *session, const char *what)
{
	char name[KEEP_NAME_BYTES];

	keep_name_of(name, session->id, what);
	return adopt_take(session, name);
}

/* A state says nothing of mappings: they are those of this daemon. */
static void adopt_charge(struct session *session, struct quota_amount amount, unsigned int n_maps, struct quota_charge *charge)
{
	amount.n[QUOTA_MAPS] = n_maps;
	quota_charge_adopt(&session->user, &amount, charge);
}

/* ---- published ------------------------------------------------------------------------------------------------------ */

static int adopt_entry(struct session *session, const struct publish_entry *kept, const struct quota_amount *amount,
		       const void *data)
{
	struct publish_entry *entry = publish_entry_new(&kept->key);
	int r;

	if (!entry)
		return -ENOMEM;
	entry->owner = session;
	entry->kept = kept->kept;
	entry->data_bytes = kept->data_bytes;
	if (data)
		memcpy(entry->data, data, entry->data_bytes);
	if (entry->kept)
		entry->fd = adopt_take_number(session, 'p', entry->kept);
	r = entry->kept && entry->fd < 0 ? -EBADF : publish_add(&session->registry->published, entry);
	if (r < 0) {
		publish_entry_free(entry);
		return r;
	}
	adopt_charge(session, *amount, 0, &entry->charge);
	list_add_tail(&session->published, &entry->owner_link);
	session->n_published++;
	return 0;
}

static int adopt_published(struct keep_reader *reader, struct session *session)
{
	uint32_t n = keep_get_count(reader, TAG_N_PUBLISHED);
	int r = reader->r;

	for (uint32_t i = 0; r == 0 && i < n; i++) {
		struct publish_entry kept = {0};
		struct quota_amount amount = {0};
		const void *data;
		size_t bytes;

		keep_get_fields(reader, &keep_entry, &kept);
		keep_get_fields(reader, &keep_amount, &amount);
		data = keep_get_bytes(reader, TAG_PUBLISHED_DATA, &bytes);
		if (reader->r == 0 && bytes != kept.data_bytes)
			reader->r = -EBADMSG;
		r = reader->r < 0 ? reader->r : adopt_entry(session, &kept, &amount, data);
	}
	return r;
}

/* ---- contexts ------------------------------------------------------------------------------------------------------- */

/* Descriptors of one NIC's context and of what is in it, borrowed: in the order in which things were made. */
struct import {
	struct nic_import_attr attr;
	int *mr_fds, *queue_fds; /* owned arrays */
};

static void import_deinit(struct import *import)
{
	for (unsigned int k = 0; k < import->attr.fds.n; k++)
		safe_close(import->attr.fds.fds[k]);
	free(import->mr_fds);
	free(import->queue_fds);
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

static int prepare_import(struct adopt *a, unsigned int i, struct import *import)
{
	struct nic_import_attr *attr = &import->attr;

	*import = (struct import){
		.attr = {
			.ctx = {.session_id = a->session->id, .doorbell = a->nics[i]->doorbell,
				.health_fd = a->session->health_fd, .is_kept = true},
			.record = a->records[i],
			.record_bytes = a->record_bytes[i],
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
	return take_contexts_fds(a->session, a->nics[i], &attr->fds);
}

static int own_mr(struct adopt *a, struct adopt_mr *from, struct nic_mr *mr)
{
	struct session_mr *to = from->mr;
	int r = resource_restore(&a->session->resources, &to->head, from->head.handle);

	if (r < 0)
		return r;
	from->mr = NULL;
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
	session_queues_count(to);
	know_qps(to, from);
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
	return imported->n_mrs == import.attr.n_mr_fds && imported->n_queues == import.attr.n_queue_fds ? 0 : -EBADMSG;
}

static int adopt_slots(struct adopt *a)
{
	/* bounded: RESOURCE_MAX. */
	_cleanup_free_ uint16_t *generations = calloc((size_t)a->n_slots + 1, sizeof(*generations));
	_cleanup_free_ uint32_t *slots = calloc((size_t)a->n_free + 1, sizeof(*slots));

	if (!generations || !slots)
		return -ENOMEM;
	if (a->n_slots)
		memcpy(generations, a->generations, a->n_slots * sizeof(*generations));
	if (a->n_free)
		memcpy(slots, a->free_slots, a->n_free * sizeof(*slots));
	return resource_table_restore(&a->session->resources, a->n_slots, generations, a->n_free, slots);
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
	void *page;

	session->health_fd = take_of(session, "health");
	/* Nothing but a memfd is asked for its size. */
	if (session->health_fd < 0 || fcntl(session->health_fd, F_GET_SEALS) < 0 || fstat(session->health_fd, &st) < 0 ||
	    st.st_size != sizeof(struct shmd_health_page))
		return -EBADF;
	page = mmap(NULL, sizeof(struct shmd_health_page), PROT_READ | PROT_WRITE, MAP_SHARED, session->health_fd, 0);
	if (page == MAP_FAILED)
		return -errno;
	session->health = page;
	return 0;
}

/* What is told on it somebody else would hear. */
static int refuse_socket(struct session *session)
{
	session->connection.fd = close_foreign(session->connection.fd);
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
	session->connection.account = quota_user_account(&session->user);
	r = unread_new(&registry->unread, &session->user, session->connection.fd, &session->connection.unread);
	if (r < 0)
		return r;
	unread_sent(session->connection.unread, a->n_unread);
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
		r = adopt_published(&reader, session);
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

/* What contexts hold is forgotten with them; the session's tables say so first. */
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
		session_nic_free(nic);
	}
}

/* Its client is told, as far as there is a way; its health words say it in any case. */
static void give_up(struct session *session, int r)
{
	abandon_contexts(session);
	if (session->connection.fd >= 0)
		session_end(session, SHMD_STATUS_INTERNAL, "shmemd has restarted and cannot continue this session: %s",
			    strerror(-r));
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
	if (r < 0) {
		give_up(session, r);
		return r;
	}
	session->ended = a.ended;
	list_add_tail(&registry->sessions, &session->link);
	if (registry->last_id < id)
		registry->last_id = id;
	*ret_session = session;
	return 0;
}
