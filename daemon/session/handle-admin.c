/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status and lists.
 *
 * Totals are shown to everybody. Sessions, QPs and memory regions of other users are shown to root and to the
 * daemon's own user only; others see theirs. A list comes in pages; the cursor names where the next one starts
 * (session, slot in its table, QP in the batch), so it stays right while sessions come and go.
 *
 * What a list shows is put down at once; then NICs are asked, where they block by a worker that holds the sessions of
 * the page. Of a session that another worker is busy with, what is known of it is shown. The totals of status and of
 * NICs are what is known, too: nobody waits for firmware there. Control thread, but what is called ask_...().
 */
#include "daemon/session/dispatch.h"
#include "daemon/session/drain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/session/hot-nics.h"
#include "daemon/session/hot-spot.h"
#include "daemon/session/undriven.h"
#include "proto/base/nsec.h"
#include "proto/framing.h"

#define CURSOR_ITEM_BITS 12
#define CURSOR_SLOT_BITS RESOURCE_SLOT_BITS

_Static_assert(MSG_MAX_QPS < (1 << CURSOR_ITEM_BITS), "a QP's place in its batch fits the cursor");

struct cursor {
	uint64_t session;
	uint32_t slot, item;
};

static struct cursor cursor_decode(uint64_t wire)
{
	return (struct cursor){
		.session = wire >> (CURSOR_SLOT_BITS + CURSOR_ITEM_BITS),
		.slot = wire >> CURSOR_ITEM_BITS & RESOURCE_MAX,
		.item = wire & ((1u << CURSOR_ITEM_BITS) - 1),
	};
}

static uint64_t cursor_encode(const struct cursor *cursor)
{
	return cursor->session << (CURSOR_SLOT_BITS + CURSOR_ITEM_BITS) |
	       (uint64_t)cursor->slot << CURSOR_ITEM_BITS | cursor->item;
}

/* `session` or the first behind it that the caller may see; a new one starts at its first slot. */
static struct session *visible_from(const struct session *caller, struct session *session, struct cursor *cursor)
{
	while (session && !session_may_see(caller, session->identity.uid))
		session = registry_session_after(caller->registry, session);
	if (session && session->id != cursor->session)
		*cursor = (struct cursor){.session = session->id};
	return session;
}

static struct session *first_visible(const struct session *caller, struct cursor *cursor)
{
	return visible_from(caller, registry_next_session(caller->registry, cursor->session), cursor);
}

static struct session *next_visible(const struct session *caller, const struct session *session,
				    struct cursor *cursor)
{
	return visible_from(caller, registry_session_after(caller->registry, session), cursor);
}

static void sum_nics(struct registry *registry, struct msg_counters *to)
{
	struct nic_counters sum = {0}, one;

	for (unsigned int i = 0; i < registry->n_nics; i++) {
		if (registry_tell_counters(&registry->nics[i], &one) == 0)
			nic_counters_add(&sum, &one);
	}
	registry_keep_told(registry);
	fill_counters(to, &sum);
}

static void count_dc(const struct registry *registry, struct msg_status_rep *rep)
{
	for (unsigned int i = 0; i < registry->n_nics; i++) {
		rep->n_dcis += registry->nics[i].n_dcis;
		rep->n_dcts += registry->nics[i].n_dcts;
	}
}

static void fill_hot_spot(const struct session *caller, struct msg_status_rep *rep)
{
	const struct hot_spot *spot = caller->registry->hot_spot;

	if (!spot || !spot->is_told)
		return;
	snprintf(rep->hot_nic, sizeof(rep->hot_nic), "%s", caller->registry->nics[spot->nic].info.name);
	hot_nics_names(caller->registry, spot->among, rep->hot_among, sizeof(rep->hot_among));
	hot_nics_processes(caller->registry, (unsigned int)spot->nic, caller, rep->hot_processes, sizeof(rep->hot_processes));
	rep->hot_share_percent = spot->share_percent;
	rep->hot_nsec = nsec_now() - spot->since_nsec;
}

int handle_status(struct request *req)
{
	struct registry *registry = req->session->registry;
	const uint64_t *total = registry->quota.total.n;
	struct msg_status_rep *rep = &req->rep->status_rep;

	quota_collect(&registry->quota);
	registry_count(registry);
	req->rep->kind = MSG_STATUS_REP;
	*rep = (struct msg_status_rep){
		.pid = (uint32_t)getpid(),
		.protocol_version = SHMD_PROTOCOL_VERSION_MAX,
		.uptime_nsec = nsec_now() - registry->started_nsec,
		.n_nics = registry->n_nics,
		.n_sessions = (uint32_t)total[QUOTA_SESSIONS],
		.n_qps = (uint32_t)total[QUOTA_QPS],
		.n_cqs = (uint32_t)total[QUOTA_CQS],
		.n_mrs = (uint32_t)total[QUOTA_MRS],
		.n_fds = (uint32_t)total[QUOTA_FDS],
		.n_published = (uint32_t)total[QUOTA_PUBLISHED],
		.registered_bytes = total[QUOTA_BYTES],
		.sessions_total = registry->sessions_total,
		.refused_total = registry->refused_total,
		.draining = registry->draining,
		.drain_left_nsec = drain_left_nsec(registry),
		.n_monitors = registry->n_monitors,
		.keeps_sessions = session_may_resume(registry),
		.restart_grace_nsec = registry->attr.restart_grace_nsec,
		.n_resumed = registry->resumed_total,
	};
	snprintf(rep->daemon, sizeof(rep->daemon), "%s", registry->attr.daemon);
	count_dc(registry, rep);
	fill_hot_spot(req->session, rep);
	sum_nics(registry, &rep->counters);
	return 0;
}

/* ---- sessions --------------------------------------------------------------------------------------------------- */

static void append(char *buf, size_t size, const char *text)
{
	size_t used = strlen(buf);

	snprintf(buf + used, size - used, "%s%s", used ? "," : "", text);
}

/* How many of the session's NICs from this one on have its reason; 0: none, or one before it told of them. */
static unsigned int count_reason(const struct session *session, unsigned int nic)
{
	const char *reason = session->nics[nic]->doorbell_reason;
	unsigned int n = 0;

	for (unsigned int i = 0; i < session->n_nics; i++) {
		if (strcmp(session->nics[i]->doorbell_reason, reason))
			continue;
		if (i < nic || !*reason)
			return 0;
		n++;
	}
	return n;
}

/* NICs of one reason tell it once, and each reason has its part of what room is left: a list is no place for long texts. */
static void fill_reasons(const struct session *session, char *buf, size_t size)
{
	unsigned int n_left = 0;

	for (unsigned int i = 0; i < session->n_nics; i++)
		n_left += count_reason(session, i) > 0;
	for (unsigned int i = 0; n_left > 0; i++) {
		const char *name = session->nics[i]->rnic->info.name, *reason = session->nics[i]->doorbell_reason;
		unsigned int n = count_reason(session, i);
		size_t used = strlen(buf), room = n ? (size - used) / n_left-- : 0;

		if (n == 1)
			snprintf(buf + used, room, "%s%s: %s", used ? "; " : "", name, reason);
		else if (n > 1)
			snprintf(buf + used, room, "%s%s and %u more: %s", used ? "; " : "", name, n - 1, reason);
	}
}

/* What the session holds: the sum of the charges of everything in it. */
static void sum_charges(const struct session *session, struct quota_amount *sum)
{
	const struct quota_amount *own[] = {&session->connection_charge.amount,
					    &session->session_charge.amount};
	const struct publish_entry *entry;
	const struct resource *head;

	memset(sum, 0, sizeof(*sum));
	for (int k = 0; k < QUOTA_N; k++) {
		sum->n[k] += own[0]->n[k] + own[1]->n[k];
		for (unsigned int i = 0; i < session->n_nics; i++)
			sum->n[k] += session->nics[i]->charge.amount.n[k];
		for (int kind = 0; kind < RESOURCE_N; kind++)
			list_for_each_entry(head, &session->resources.lists[kind], link)
				sum->n[k] += head->charge.amount.n[k];
		list_for_each_entry(entry, &session->published, owner_link)
			sum->n[k] += entry->charge.amount.n[k];
	}
}

static void count_session_dc(const struct session *session, struct msg_session_item *item)
{
	const struct session_queues *queues;

	list_for_each_entry(queues, &session->resources.lists[RESOURCE_QUEUES], head.link) {
		item->n_dcis += queues->n_dcis;
		item->n_dcts += queues->n_dcts;
	}
}

/* Numbers that a client says of itself. */
static uint32_t add_said(uint32_t sum, uint32_t n)
{
	return n > UINT32_MAX - sum ? UINT32_MAX : sum + n;
}

/* Its client waits for another daemon, and nothing of it ends with this one. */
static bool session_outlives(const struct session *session)
{
	return session->is_watched && !session->keep.reason[0];
}

static void fill_session(struct msg_session_item *item, struct session *session)
{
	struct quota_amount sum;

	sum_charges(session, &sum);
	*item = (struct msg_session_item){
		.session = session->id,
		.uid = session->identity.uid,
		.gid = session->identity.gid,
		.pid = session->identity.pid,
		.n_qps = (uint32_t)sum.n[QUOTA_QPS],
		.n_cqs = (uint32_t)sum.n[QUOTA_CQS],
		.n_mrs = (uint32_t)sum.n[QUOTA_MRS],
		.n_fds = (uint32_t)sum.n[QUOTA_FDS],
		.registered_bytes = sum.n[QUOTA_BYTES],
		.age_nsec = nsec_now() - session->started_nsec,
		.kept = session_outlives(session),
	};
	snprintf(item->command, sizeof(item->command), "%s", session->identity.command);
	snprintf(item->cgroup, sizeof(item->cgroup), "%s", session->identity.cgroup);
	snprintf(item->library, sizeof(item->library), "%s", session->library);
	for (unsigned int i = 0; i < session->n_nics; i++) {
		const struct session_nic *nic = session->nics[i];
		bool uar = nic->doorbell == NIC_DOORBELL_UAR_MMAP;

		append(item->nics, sizeof(item->nics), nic->rnic->info.name);
		append(item->doorbell, sizeof(item->doorbell), uar ? "uar-mmap" : "cpu");
		item->n_dc_peers = add_said(item->n_dc_peers, nic->n_dc_peers);
		item->n_rc_peers = add_said(item->n_rc_peers, nic->n_rc_peers);
	}
	fill_reasons(session, item->doorbell_reason, sizeof(item->doorbell_reason));
	count_session_dc(session, item);
	if (!item->kept && session_may_resume(session->registry))
		snprintf(item->unkept_reason, sizeof(item->unkept_reason), "%.*s", MSG_REASON_BYTES - 1,
			 session->keep.reason[0] ? session->keep.reason : "its client does not wait for another daemon");
}

struct session_page {
	unsigned int n; /* as the reply has them */
	struct {
		struct session *session;
		bool held;
		int r;
		struct nic_counters counters;
	} asks[MSG_FULL_SESSION_ITEMS];
};

static void ask_sessions(struct request *req)
{
	struct session_page *page = req->op;

	for (unsigned int i = 0; i < page->n; i++)
		if (page->asks[i].held)
			page->asks[i].r = session_counters(page->asks[i].session, &page->asks[i].counters);
}

static int finish_sessions(struct request *req)
{
	struct session_page *page = req->op;

	for (unsigned int i = 0; i < page->n; i++) {
		struct msg_session_item *item = &req->rep->list_rep.sessions[i];

		if (page->asks[i].held && page->asks[i].r == 0)
			page->asks[i].session->counters = page->asks[i].counters;
		fill_counters(&item->counters, page->asks[i].held ? &page->asks[i].session->counters
								  : &page->asks[i].counters);
	}
	return 0;
}

/* One that is not held may be gone when the answer is made. */
static void add_ask(struct request *req, struct session_page *page, struct session *session)
{
	page->asks[page->n].session = session;
	/* One without NICs has nothing to ask, and goes on. */
	page->asks[page->n].held = session->n_nics > 0 && request_hold(req, session);
	page->asks[page->n].counters = session->counters;
	page->n++;
}

static int list_sessions(struct request *req, struct cursor *cursor)
{
	struct session_page *page = request_op(req, sizeof(*page));
	struct msg_list_rep *rep = &req->rep->list_rep;
	struct session *session;

	rep->sessions = calloc(MSG_FULL_SESSION_ITEMS, sizeof(*rep->sessions));
	if (!rep->sessions || !page)
		return -ENOMEM;
	for (session = first_visible(req->session, cursor); session;
	     session = next_visible(req->session, session, cursor)) {
		if (rep->n_sessions == MSG_FULL_SESSION_ITEMS) {
			rep->next_cursor = cursor_encode(cursor);
			break;
		}
		fill_session(&rep->sessions[rep->n_sessions++], session);
		add_ask(req, page, session);
	}
	return request_work(req, true, ask_sessions, finish_sessions);
}

/* ---- resources: the same walk for QPs and memory regions ---------------------------------------------------------- */

void fill_qp_item(struct msg_qp_item *item, uint64_t session, const struct session_queues *queues,
		  const struct nic_qp *qp, const struct nic_qp_info *info)
{
	*item = (struct msg_qp_item){
		.session = session,
		.qpn = qp->qpn,
		.type = qp->type,
		.state = info->state,
		.dest_qpn = info->dest_qpn,
		.sq_pi = info->sq_pi,
		.sq_ci = info->sq_ci,
		.log2_sq_wqebbs = qp->log2_sq_wqebbs,
		.first_error = info->first_error,
		.wqes = info->counters.wqes,
		.bytes = info->counters.bytes_sent + info->counters.bytes_read,
	};
	snprintf(item->nic, sizeof(item->nic), "%s", queues->nic->rnic->nic->name);
}

void know_qp(struct session_nic *nic, uint32_t qpn, const struct nic_qp_info *info)
{
	session_know(nic, qpn, &(struct session_qp){
		.state = info->state, .dest_qpn = info->dest_qpn, .first_error = info->first_error});
}

struct qp_page {
	unsigned int n; /* as the reply has them */
	struct {
		const struct session_queues *queues;
		const struct nic_qp *qp;
		uint64_t session;
		bool held;
		struct nic_qp_info info; /* as known, then as told */
	} asks[MSG_MAX_QP_ITEMS];
};

/* A QP whose NIC says nothing is shown as it is known. */
static void ask_qps(struct request *req)
{
	struct qp_page *page = req->op;

	for (unsigned int i = 0; i < page->n; i++) {
		struct nic_ctx *ctx = page->asks[i].held ? page->asks[i].queues->nic->ctx : NULL;

		if (ctx)
			ctx->nic->ops->qp_query(ctx, page->asks[i].qp->qpn, &page->asks[i].info);
	}
}

static int finish_qps(struct request *req)
{
	struct msg_list_rep *rep = &req->rep->list_rep;
	struct qp_page *page = req->op;

	for (unsigned int i = 0; i < page->n; i++) {
		if (!page->asks[i].held)
			continue;
		know_qp(page->asks[i].queues->nic, page->asks[i].qp->qpn, &page->asks[i].info);
		fill_qp_item(&rep->qps[i], page->asks[i].session, page->asks[i].queues, page->asks[i].qp,
			     &page->asks[i].info);
	}
	return 0;
}

/* From cursor->item on. Positive: the page is full, and the cursor says where to go on. */
static int list_batch(struct request *req, struct session *session, struct resource *head,
		      struct cursor *cursor)
{
	const struct session_queues *queues = container_of(head, struct session_queues, head);
	const struct nic_layout *layout = queues->leaving ? NULL : &queues->queues->layout;
	struct msg_list_rep *rep = &req->rep->list_rep;
	struct qp_page *page = req->op;
	bool held = request_hold(req, session);

	for (; layout && cursor->item < layout->n_qps; cursor->item++) {
		const struct session_qp *known = &queues->qps[cursor->item];
		const struct nic_qp *qp = &layout->qps[cursor->item];

		if (rep->n_qps == MSG_MAX_QP_ITEMS)
			return 1;
		page->asks[page->n].queues = queues;
		page->asks[page->n].qp = qp;
		page->asks[page->n].session = session->id;
		page->asks[page->n].held = held;
		page->asks[page->n].info = (struct nic_qp_info){
			.state = known->state, .dest_qpn = known->dest_qpn, .first_error = known->first_error};
		fill_qp_item(&rep->qps[rep->n_qps++], session->id, queues, qp, &page->asks[page->n++].info);
	}
	return 0;
}

static int list_mr(struct request *req, struct session *session, struct resource *head,
		   struct cursor *cursor)
{
	const struct session_mr *mr = container_of(head, struct session_mr, head);
	struct msg_list_rep *rep = &req->rep->list_rep;
	struct msg_mr_item *item = &rep->mrs[rep->n_mrs];

	if (rep->n_mrs == MSG_MAX_MR_ITEMS)
		return 1;
	*item = (struct msg_mr_item){
		.session = session->id,
		.mr = mr->head.handle,
		.kind = mr->kind,
		.access = mr->access,
		.iova = mr->iova,
		.length_bytes = mr->length_bytes,
	};
	snprintf(item->nic, sizeof(item->nic), "%s", mr->nic->rnic->info.name);
	snprintf(item->reason, sizeof(item->reason), "%s", mr->reason);
	rep->n_mrs++;
	return 0;
}

static int list_resources(struct request *req, struct cursor *cursor, enum resource_kind kind)
{
	struct session *session;
	struct resource *head;
	int r;

	for (session = first_visible(req->session, cursor); session;
	     session = next_visible(req->session, session, cursor)) {
		while ((head = resource_next(&session->resources, kind, &cursor->slot))) {
			r = kind == RESOURCE_MR ? list_mr(req, session, head, cursor)
						: list_batch(req, session, head, cursor);
			if (r > 0)
				req->rep->list_rep.next_cursor = cursor_encode(cursor);
			if (r != 0)
				return r < 0 ? r : 0;
			cursor->slot++;
			cursor->item = 0;
		}
	}
	return 0;
}

static int list_qps(struct request *req, struct cursor *cursor)
{
	struct qp_page *page = request_op(req, sizeof(*page));
	int r;

	req->rep->list_rep.qps = calloc(MSG_MAX_QP_ITEMS, sizeof(*req->rep->list_rep.qps));
	if (!req->rep->list_rep.qps || !page)
		return -ENOMEM;
	r = list_resources(req, cursor, RESOURCE_QUEUES);
	return r < 0 ? r : request_work(req, true, ask_qps, finish_qps);
}

static int list_mrs(struct request *req, struct cursor *cursor)
{
	req->rep->list_rep.mrs = calloc(MSG_MAX_MR_ITEMS, sizeof(*req->rep->list_rep.mrs));
	return req->rep->list_rep.mrs ? list_resources(req, cursor, RESOURCE_MR) : -ENOMEM;
}

static void fill_warm(struct msg_nic *to, struct nic *nic)
{
	struct nic_warm_info info;

	if (nic->ops->warm_query(nic, &info) < 0)
		return;
	to->has_warm = true;
	to->warm = (struct msg_nic_warm){
		.n_wanted = info.n_wanted,
		.n_ready = info.n_ready,
		.n_made = info.n_made,
		.n_handed_out = info.n_handed_out,
		.n_batches_handed_out = info.n_batches_handed_out,
		.missed_empty = info.missed_empty,
		.missed_shape = info.missed_shape,
		.missed_memory = info.missed_memory,
		.n_failed = info.n_failed,
	};
}

static void fill_undriven(struct msg_undriven_nic *to, const struct registry *registry, const struct nic_seen *from)
{
	*to = (struct msg_undriven_nic){
		.port = from->port,
		.link = from->link,
		.state = from->state,
		.phys_state = from->phys_state,
		.lid = from->lid,
		.mtu_bytes = from->mtu_bytes,
		.rate_mbps = from->rate_mbps,
		.n_gids = from->n_gids,
	};
	snprintf(to->name, sizeof(to->name), "%s", from->name);
	snprintf(to->driver, sizeof(to->driver), "%s", from->driver);
	snprintf(to->pci, sizeof(to->pci), "%s", from->pci);
	snprintf(to->netdev, sizeof(to->netdev), "%s", from->netdev);
	undriven_text(registry, from, to->reason, sizeof(to->reason));
	_Static_assert(NIC_SEEN_GIDS == MSG_MAX_GIDS, "all of them");
	for (unsigned int i = 0; i < from->n_gids; i++) {
		memcpy(to->gids[i].gid, from->gids[i].gid, sizeof(to->gids[i].gid));
		to->gids[i].index = from->gids[i].index;
		to->gids[i].type = from->gids[i].type;
	}
}

/* The pages behind the one of NICs that backends drive: page i is the cursor of session i. */
static int list_undriven(struct request *req, const struct cursor *cursor)
{
	const struct registry *registry = req->session->registry;
	const struct nic_seen_list *seen = registry->undriven;
	struct msg_list_rep *rep = &req->rep->list_rep;
	uint64_t first = (cursor->session - 1) * MSG_MAX_UNDRIVEN;

	if (!seen || first >= seen->n)
		return 0; /* they went between two pages */
	rep->undriven = calloc(MSG_MAX_UNDRIVEN, sizeof(*rep->undriven));
	if (!rep->undriven)
		return -ENOMEM;
	while (rep->n_undriven < MSG_MAX_UNDRIVEN && first + rep->n_undriven < seen->n) {
		fill_undriven(&rep->undriven[rep->n_undriven], registry, &seen->nics[first + rep->n_undriven]);
		rep->n_undriven++;
	}
	if (first + rep->n_undriven < seen->n)
		rep->next_cursor = cursor_encode(&(struct cursor){.session = cursor->session + 1});
	return 0;
}

static int list_nics(struct request *req)
{
	struct registry *registry = req->session->registry;
	struct msg_list_rep *rep = &req->rep->list_rep;
	struct nic_counters counters;

	rep->nics = calloc(MSG_MAX_NICS, sizeof(*rep->nics));
	if (!rep->nics)
		return -ENOMEM;
	registry_count(registry);
	for (unsigned int i = 0; i < registry->n_nics; i++) {
		struct registry_nic *rnic = &registry->nics[i];

		registry_refresh_nic(rnic);
		fill_nic(&rep->nics[i], rnic);
		if (registry_tell_counters(rnic, &counters) == 0)
			fill_counters(&rep->nics[i].counters, &counters);
		fill_warm(&rep->nics[i], rnic->nic);
	}
	registry_keep_told(registry);
	rep->n_nics = registry->n_nics;
	if (registry->undriven && registry->undriven->n > 0)
		rep->next_cursor = cursor_encode(&(struct cursor){.session = 1});
	return 0;
}

int handle_list(struct request *req)
{
	struct cursor cursor = cursor_decode(req->msg->list_req.cursor);

	req->rep->kind = MSG_LIST_REP;
	switch (req->msg->list_req.what) {
	case MSG_LIST_SESSIONS:
		return list_sessions(req, &cursor);
	case MSG_LIST_QPS:
		return list_qps(req, &cursor);
	case MSG_LIST_MRS:
		return list_mrs(req, &cursor);
	case MSG_LIST_NICS:
		return cursor.session ? list_undriven(req, &cursor) : list_nics(req);
	}
	/* OK_REP again, so that no array of the reply is looked for. */
	req->rep->kind = MSG_OK_REP;
	return request_fail(req, SHMD_STATUS_INVALID, "there is no list number %d",
			    (int)req->msg->list_req.what);
}
