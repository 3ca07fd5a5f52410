/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists.
 *
 * Totals are public. Root and the daemon's own user see the sessions, QPs and memory regions of all users; others see their own. No
 * list or log line shows keys or worlds. A list comes in pages; the cursor names the start of the next one (session, slot in its
 * table, QP in the batch), so it stays right while sessions come and go.
 *
 * A handler fills its page at once and then queries the NICs, while it holds the sessions of the page. A worker queries NICs that
 * block; the control thread queries the counters of sessions on NICs that stall, within its patience. A list shows the last known
 * state of NICs, and of a session that another worker uses: state, peer and error of its QPs as requests, events and lists reported
 * last, counters as of the last query. So no client waits for firmware there. Counters of NICs are sums of these; each reader
 * triggers a refresh of 16 sessions, at most once a second, for the next reader. Ports are as the last event reported, or the last
 * query in the background (at most ten a second). Control thread, except ask_qps(), and ask_sessions() of NICs that block.
 */
#include "daemon/host/host.h"
#include "daemon/session/dispatch.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/session/list-items.h"
#include "daemon/session/qp-cache.h"
#include "daemon/session/unmanaged.h"
#include "proto/base/nsec.h"

/* Sessions of others are held meanwhile, and wait: a NIC at one user's memory is asked for no longer than this. */
#define PATIENCE_NSEC (10 * NSEC_PER_MSEC)
/* The control thread serves others afterwards: the rest of a page of sessions is shown as it is known. */
#define PAGE_NSEC (50 * NSEC_PER_MSEC)

/* One that has ended waits to be torn down, and is shown as it is known. */
static bool may_ask(struct request *req, struct session *session)
{
	return !session->ended && request_hold(req, session);
}

/* ---- cursors ---------------------------------------------------------------------------------------------------- */

#define CURSOR_ITEM_BITS 12
#define CURSOR_SLOT_BITS RESOURCE_SLOT_BITS

_Static_assert(MSG_MAX_QPS < (1 << CURSOR_ITEM_BITS), "a QP's place in its batch fits the cursor");

/* Where a page starts. It names ids and slots, no objects, so it stays right while sessions come and go. */
struct cursor {
	uint64_t session;
	uint32_t slot, item; /* in its table, in the slot */
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

static struct session *cursor_first(const struct session *caller, struct cursor *cursor)
{
	return visible_from(caller, registry_next_session(caller->registry, cursor->session), cursor);
}

static struct session *cursor_next(const struct session *caller, const struct session *session, struct cursor *cursor)
{
	return visible_from(caller, registry_session_after(caller->registry, session), cursor);
}

/* ---- sessions --------------------------------------------------------------------------------------------------- */

struct session_page {
	unsigned int n; /* as the reply has them */
	struct {
		struct session *session;
		bool held;
		int r;
		struct nic_counters counters;
	} asks[MSG_FULL_SESSION_ITEMS];
};

static void set_patience(struct session *session, uint64_t nsec)
{
	for (unsigned int i = 0; i < session->n_nics; i++) {
		session->nics[i]->ctx->patience_nsec = nsec;
		session->nics[i]->ctx->on_control = nsec > 0 && session->registry->stalls;
	}
}

static void ask_sessions(struct request *req)
{
	uint64_t end = req->session->registry->stalls ? nsec_add(nsec_now(), PAGE_NSEC) : UINT64_MAX;
	struct session_page *page = req->op;

	for (unsigned int i = 0; i < page->n && nsec_now() < end; i++) {
		struct session *session = page->asks[i].session;

		if (!page->asks[i].held)
			continue;
		set_patience(session, PATIENCE_NSEC);
		page->asks[i].r = session_counters(session, &page->asks[i].counters);
		set_patience(session, 0);
	}
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
	page->asks[page->n].r = -EBUSY;
	/* One without NICs has nothing to ask, and goes on. */
	page->asks[page->n].held = session->n_nics > 0 && may_ask(req, session);
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
	for (session = cursor_first(req->session, cursor); session;
	     session = cursor_next(req->session, session, cursor)) {
		if (rep->n_sessions == MSG_FULL_SESSION_ITEMS) {
			rep->next_cursor = cursor_encode(cursor);
			break;
		}
		fill_session_item(&rep->sessions[rep->n_sessions++], session);
		add_ask(req, page, session);
	}
	/* A NIC that stalls is asked here, and firmware by a worker: an administrator's list waits for neither. */
	return req->session->registry->blocks ? request_look(req, ask_sessions, finish_sessions)
					      : request_work(req, false, ask_sessions, finish_sessions);
}

/* ---- resources: the same walk for QPs and memory regions ---------------------------------------------------------- */

struct qp_page {
	unsigned int n; /* as the reply has them */
	bool is_asked; /* else no worker took it */
	struct {
		const struct session_queues *queues;
		const struct nic_qp *qp;
		uint64_t session;
		bool held; /* then: and told */
		struct nic_qp_info info; /* as known, then as told */
	} asks[MSG_MAX_QP_ITEMS];
};

/* A QP whose NIC says nothing is shown as it is known, and an event that comes meanwhile stays known. */
static bool ask_qp(struct nic_ctx *ctx, uint32_t qpn, struct nic_qp_info *ret_info)
{
	int r;

	ctx->patience_nsec = PATIENCE_NSEC;
	r = ctx->nic->ops->qp_query(ctx, qpn, ret_info);
	ctx->patience_nsec = 0;
	return r == 0;
}

static void ask_qps(struct request *req)
{
	uint64_t end = req->session->registry->stalls ? nsec_add(nsec_now(), PAGE_NSEC) : UINT64_MAX;
	struct qp_page *page = req->op;

	page->is_asked = true;
	for (unsigned int i = 0; i < page->n; i++)
		page->asks[i].held = page->asks[i].held && nsec_now() < end &&
				     ask_qp(page->asks[i].queues->nic->ctx, page->asks[i].qp->qpn, &page->asks[i].info);
}

static int finish_qps(struct request *req)
{
	struct msg_list_rep *rep = &req->rep->list_rep;
	struct qp_page *page = req->op;

	for (unsigned int i = 0; i < page->n; i++) {
		if (!page->is_asked || !page->asks[i].held)
			continue;
		qp_cache_set_info(page->asks[i].queues->nic, page->asks[i].qp->qpn, &page->asks[i].info);
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
	bool held = may_ask(req, session);

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

static int list_mr(struct request *req, struct session *session, struct resource *head)
{
	const struct session_mr *mr = container_of(head, struct session_mr, head);
	struct msg_list_rep *rep = &req->rep->list_rep;

	if (rep->n_mrs == MSG_MAX_MR_ITEMS)
		return 1;
	fill_mr_item(&rep->mrs[rep->n_mrs++], session->id, mr);
	return 0;
}

static int list_resources(struct request *req, struct cursor *cursor, enum resource_kind kind)
{
	struct session *session;
	struct resource *head;
	int r;

	for (session = cursor_first(req->session, cursor); session;
	     session = cursor_next(req->session, session, cursor)) {
		while ((head = resource_next(&session->resources, kind, &cursor->slot))) {
			r = kind == RESOURCE_MR ? list_mr(req, session, head)
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
	return r < 0 ? r : request_look(req, ask_qps, finish_qps);
}

static int list_mrs(struct request *req, struct cursor *cursor)
{
	req->rep->list_rep.mrs = calloc(MSG_MAX_MR_ITEMS, sizeof(*req->rep->list_rep.mrs));
	return req->rep->list_rep.mrs ? list_resources(req, cursor, RESOURCE_MR) : -ENOMEM;
}

/* ---- PEs ---------------------------------------------------------------------------------------------------------- */

static int list_pes(struct request *req, struct cursor *cursor)
{
	struct msg_list_rep *rep = &req->rep->list_rep;
	struct session *session;

	rep->pes = calloc(MSG_MAX_PE_ITEMS, sizeof(*rep->pes));
	if (!rep->pes)
		return -ENOMEM;
	for (session = cursor_first(req->session, cursor); session; session = cursor_next(req->session, session, cursor)) {
		for (; cursor->slot < SESSION_MAX_PES; cursor->slot++) {
			if (!session->pes[cursor->slot])
				continue;
			if (rep->n_pes == MSG_MAX_PE_ITEMS) {
				rep->next_cursor = cursor_encode(cursor);
				return 0;
			}
			fill_pe_item(&rep->pes[rep->n_pes++], session, session->pes[cursor->slot]);
		}
	}
	return 0;
}

/* False: the page is full, and the cursor is where the next one starts. */
static bool add_paths(struct msg_list_rep *rep, const struct session *session, struct cursor *cursor)
{
	const struct session_pe *pe = session->pes[cursor->slot];

	for (; pe && cursor->item < pe->n_runs; cursor->item++) {
		if (rep->n_paths == MSG_MAX_PATH_ITEMS)
			return false;
		fill_path_item(&rep->paths[rep->n_paths++], session, pe, cursor->item);
	}
	cursor->item = 0;
	return true;
}

static int list_paths(struct request *req, struct cursor *cursor)
{
	struct msg_list_rep *rep = &req->rep->list_rep;
	struct session *session;

	rep->paths = calloc(MSG_MAX_PATH_ITEMS, sizeof(*rep->paths));
	if (!rep->paths)
		return -ENOMEM;
	for (session = cursor_first(req->session, cursor); session; session = cursor_next(req->session, session, cursor)) {
		for (; cursor->slot < SESSION_MAX_PES; cursor->slot++) {
			if (!add_paths(rep, session, cursor)) {
				rep->next_cursor = cursor_encode(cursor);
				return 0;
			}
		}
	}
	return 0;
}

/* ---- NICs --------------------------------------------------------------------------------------------------------- */

/* The pages behind the one of NICs that backends drive: page i is the cursor of session i. */
static int list_unmanaged(struct request *req, const struct cursor *cursor)
{
	const struct registry *registry = req->session->registry;
	const struct host_list *seen = registry->unmanaged;
	struct msg_list_rep *rep = &req->rep->list_rep;
	uint64_t first = (cursor->session - 1) * MSG_MAX_UNDRIVEN;

	if (!seen || first >= seen->n)
		return 0; /* they went between two pages */
	rep->undriven = calloc(MSG_MAX_UNDRIVEN, sizeof(*rep->undriven));
	if (!rep->undriven)
		return -ENOMEM;
	while (rep->n_undriven < MSG_MAX_UNDRIVEN && first + rep->n_undriven < seen->n) {
		fill_unmanaged(&rep->undriven[rep->n_undriven], registry, &seen->nics[first + rep->n_undriven]);
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
		if (registry_counters_for_reader(rnic, &counters) == 0)
			fill_counters(&rep->nics[i].counters, &counters);
		fill_nic_ctx_pool(&rep->nics[i], rnic->nic);
	}
	registry_save_told(registry);
	rep->n_nics = registry->n_nics;
	if (registry->unmanaged && registry->unmanaged->n > 0)
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
		return cursor.session ? list_unmanaged(req, &cursor) : list_nics(req);
	case MSG_LIST_PES:
		return list_pes(req, &cursor);
	case MSG_LIST_PATHS:
		return list_paths(req, &cursor);
	}
	/* OK_REP again, so that no array of the reply is looked for. */
	req->rep->kind = MSG_OK_REP;
	return request_fail(req, SHMD_STATUS_INVALID, "there is no list number %d",
			    (int)req->msg->list_req.what);
}
