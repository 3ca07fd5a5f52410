/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dynamically connected QPs: one DCI to many DCTs, one after the other, and many DCIs to one DCT.
 *
 * A DCI is the requester of RC. Before it sends to another DCT than the last one, everything before must have completed;
 * then it takes the route there and a new connection number, which each of its packets carries, with the access key and
 * the connection's first PSN. So any packet can be the first that arrives.
 *
 * A DCT executes nothing itself: for each DCI that it hears from it has a QP, the responder of RC. A DCI that goes on to
 * another DCT, or ends, says so, and that QP is closed: it drops what comes late, and the longest closed one goes when there
 * are many, or when the engine has no QP left for whatever purpose. A later connection of the same DCI begins it anew. Refused in silence: packets of earlier ones, a
 * wrong key, and a DCI that finds no free QP. An error that ends such a QP ends neither the DCT nor its other connections.
 */
#include "daemon/engine/ledger-private.h"

#define MAX_CLOSED 64u /* of one DCT */

/* ---- the DCI ---------------------------------------------------------------------------------------------------- */

/* Its DCT needs not remember this connection any more. */
static void leave_by(struct engine_qp *dci, struct engine_packet *pkt)
{
	pkt->kind = PACKET_DC_CLOSE;
	pkt->flags = 0;
	pkt->payload_bytes = 0;
	qp_send(dci, pkt);
	dci->dc.connected = false;
}

/* The same of a DCI that ends, which waits for nothing. Best effort: what is lost costs the DCT a QP, and no more. */
void dc_leave(struct engine_qp *dci)
{
	/* One of a former process has no route before the end of its restore. */
	bool can_send = !dci->engine->closing && dci->has_route;
	struct engine_packet *pkt = can_send ? packet_alloc(dci->engine, 0) : NULL;

	if (pkt)
		leave_by(dci, pkt);
	dci->dc.connected = false;
}

static bool is_connected_to(const struct engine_qp *qp, const struct wqe_request *cur)
{
	return qp->dc.connected && !memcmp(&qp->dc.av, &cur->av, sizeof(cur->av));
}

/* The request at the cursor, which has no PSN yet, may go when this is true. */
bool dc_connect(struct engine_qp *qp, struct sent *sent)
{
	struct requester *req = &qp->req;
	struct engine *engine = qp->engine;
	bool has_streams = qp->streams.max;
	struct engine_packet *pkt;
	void *route;

	if (likely(is_connected_to(qp, &req->cur) &&
		   (!has_streams || engine->extension->stream_goes_on(qp, sent))))
		return true;
	if (req->head != req->cursor) {
		/* Earlier requests may not have asked for an acknowledgement. */
		requester_solicit(qp, req->sent_psn);
		return false;
	}
	if (unlikely(has_streams))
		engine->extension->stream_begin(qp, sent);
	if (is_connected_to(qp, &req->cur))
		return true;
	if (engine->ops.dc_route(engine->owner, qp->attr.qpn, &req->cur.av, &route) < 0) {
		requester_fail(qp, sent, SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
		return false;
	}
	/* Charged and waited for as a request is: many DCIs that go on at once take nobody's last packets, and lose none. */
	if (qp->dc.connected) {
		pkt = tenant_packet(qp, PACKET_USE_REQUEST);
		if (!pkt) {
			engine->ops.route_put(engine->owner, route);
			return false;
		}
		leave_by(qp, pkt);
	}
	qp_change_route(qp, route);
	qp->path.dest_qpn = req->cur.av_qpn;
	qp->dc.av = req->cur.av;
	qp->dc.key = req->cur.av_key;
	qp->dc.connection = ++engine->next_connection;
	qp->dc.first_psn = req->next_psn;
	qp->dc.connected = true;
	ledger_note_connection(qp);
	return true;
}

/* ---- the DCT ------------------------------------------------------------------------------------------------------ */

static struct engine_qp *find_child(const struct engine_qp *dct, const struct engine_packet *pkt)
{
	struct engine_qp *child = hash_get(&dct->dc.children, pkt->src_qpn);

	while (child && child->dc.source != pkt->source)
		child = child->dc.sibling;
	return child;
}

static int add_child(struct engine_qp *dct, struct engine_qp *child, uint32_t dci_qpn)
{
	struct engine_qp *first = hash_get(&dct->dc.children, dci_qpn);

	if (!first)
		return hash_add(&dct->dc.children, dci_qpn, child);
	child->dc.sibling = first->dc.sibling;
	first->dc.sibling = child;
	return 0;
}

static void reopen(struct engine_qp *child)
{
	if (!child->dc.closed)
		return;
	child->dc.closed = false;
	list_del(&child->dc.closed_link);
	list_del(&child->dc.engine_link);
	child->dc.parent->dc.n_closed--;
}

static void drop_child(struct engine_qp *child)
{
	reopen(child);
	qp_bury(child);
}

static void drop_oldest_closed(struct engine_qp *dct)
{
	drop_child(list_first_entry(&dct->dc.closed_children, struct engine_qp, dc.closed_link));
}

/* The longest closed one of all DCTs. False: none is. */
bool dc_drop_closed(struct engine *engine)
{
	if (list_empty(&engine->dc_closed))
		return false;
	drop_child(list_first_entry(&engine->dc_closed, struct engine_qp, dc.engine_link));
	return true;
}

/* A receive WQE that it had taken is flushed in its turn. */
static void close_child(struct engine_qp *child)
{
	struct engine_qp *dct = child->dc.parent;

	child->state = ENGINE_QP_ERR;
	ledger_note_control(child);
	qp_stop(child);
	qp_ready(child);
	child->dc.closed = true;
	list_add_tail(&dct->dc.closed_children, &child->dc.closed_link);
	list_add_tail(&dct->engine->dc_closed, &child->dc.engine_link);
	if (++dct->dc.n_closed > MAX_CLOSED)
		drop_oldest_closed(dct);
	/* Shrinks buffers that were large once, because no user is charged for them. */
	hash_trim(&dct->dc.children);
}

/* -ENOSPC: the ledger has no place for it, and then it is not heard. */
static int note_child(struct engine_qp *child)
{
	struct engine *engine = child->engine;
	int r;

	r = engine->ops.dc_source_gid(engine->owner, child->dc.source, child->dc.gid);
	if (r == 0)
		r = ledger_take_qp(child);
	while (r == -ENOSPC && dc_drop_closed(engine))
		r = ledger_take_qp(child);
	return r;
}

static void lose_child(struct engine_qp *child)
{
	child->tenant->refs--;
	tenant_release(child->engine, child->tenant);
	qp_free(child);
}

/* A QP of its own for this DCI; NULL when there is none to be had. */
static struct engine_qp *new_child(struct engine_qp *dct, const struct engine_packet *pkt)
{
	struct engine *engine = dct->engine;
	struct engine_qp *child;

	/* The other half is for QPs that somebody asked for. */
	if (engine->n_children >= engine->attr.max_qps / 2 && !dc_drop_closed(engine))
		return NULL;
	if (qp_new(engine, &dct->attr, &child) < 0)
		return NULL;
	child->dc.parent = dct;
	child->dc.source = pkt->source;
	if (engine->ops.dc_slid)
		child->dc.slid = engine->ops.dc_slid(engine->owner, pkt->source);
	child->dc.connection = pkt->dc.connection - 1;
	child->path.dest_qpn = pkt->src_qpn;
	if ((dct->slot && note_child(child) < 0) || add_child(dct, child, pkt->src_qpn) < 0) {
		ledger_drop_qp(child);
		lose_child(child);
		return NULL;
	}
	qp_take_queues(child, dct->send_cq, dct->recv_cq, dct->srq);
	qp_join(child);
	engine->n_children++;
	return child;
}

/* Begins a connection. False: the former one still has memory operations, or there is no way back. */
static bool start_child(struct engine_qp *child, const struct engine_packet *pkt)
{
	const struct engine_qp *dct = child->dc.parent;
	struct engine *engine = child->engine;
	void *route;

	/* The packet that closes the former connection may be lost, and only a QP that has stopped may be settled. */
	if (child->state == ENGINE_QP_RTR)
		close_child(child);
	qp_settle(child);
	if (qp_has_pending_ops(child))
		return false;
	if (engine->ops.dc_route_back(engine->owner, pkt->source, &route) < 0)
		return false;
	/* A receive WQE that it had taken belongs to nobody else: its client must hear of it. */
	qp_flush(child, 1);
	qp_reset(child);
	reopen(child);
	qp_change_route(child, route);
	child->path = dct->path;
	child->path.dest_qpn = pkt->src_qpn;
	child->dc.connection = pkt->dc.connection;
	child->dc.first_psn = pkt->dc.first_psn;
	child->resp.expected_psn = pkt->dc.first_psn;
	child->state = ENGINE_QP_RTR;
	ledger_note_connection(child);
	return true;
}

/*
 * The connection that a former process knew by this place, which it keeps. One in ERR was closed or may as well be. The error
 * leaves the place to the caller.
 */
int dc_restore_child(struct engine_qp *dct, struct ledger_qp *slot)
{
	const struct ledger_dc *dc = &slot->dcs[slot->control >> CONTROL_DC_HALF_SHIFT & 1];
	struct engine *engine = dct->engine;
	struct engine_qp *child;
	void *route;
	int r;

	r = engine->ops.route_get(engine->owner, dc->gid, &route);
	if (r < 0)
		return r;
	r = qp_new(engine, &dct->attr, &child);
	if (r < 0) {
		engine->ops.route_put(engine->owner, route);
		return r;
	}
	child->dc.parent = dct;
	child->dc.source = route; /* where packets for an engine go is what it signs with */
	memcpy(child->dc.gid, dc->gid, sizeof(child->dc.gid));
	if (engine->ops.dc_slid)
		child->dc.slid = engine->ops.dc_slid(engine->owner, route);
	qp_change_route(child, route);
	r = add_child(dct, child, slot->dci_qpn & PSN_MASK);
	if (r < 0) {
		engine->ops.route_put(engine->owner, route);
		lose_child(child);
		return r;
	}
	qp_take_queues(child, dct->send_cq, dct->recv_cq, dct->srq);
	qp_join(child);
	engine->n_children++;
	ledger_load_qp(child, slot);
	child->path.dest_qpn = slot->dci_qpn & PSN_MASK;
	child->repeats = false;
	if (child->state != ENGINE_QP_RTR)
		close_child(child);
	return 0;
}

/* Whose packet it is; NULL: nobody's. */
struct engine_qp *dc_accept(struct engine_qp *dct, const struct engine_packet *pkt)
{
	struct engine_qp *child;

	if (pkt->service != ENGINE_QP_DCI || dct->state != ENGINE_QP_RTR || pkt->dc.key != dct->path.dc_key)
		return NULL;
	child = find_child(dct, pkt);
	if (unlikely(pkt->kind == PACKET_DC_CLOSE)) {
		if (child && !child->zombie && !child->dc.closed && child->dc.connection == pkt->dc.connection)
			close_child(child);
		return NULL;
	}
	if (unlikely(!child))
		child = new_child(dct, pkt);
	if (!child || child->zombie)
		return NULL;
	if (pkt->dc.connection < child->dc.connection ||
	    (pkt->dc.connection > child->dc.connection && !start_child(child, pkt)))
		return NULL;
	return child;
}

/* engine_input() asks this for a DCI, and for the QP that dc_accept() found. */
bool dc_hears(const struct engine_qp *qp, const struct engine_packet *pkt)
{
	uint8_t peer = qp->attr.type == ENGINE_QP_DCI ? ENGINE_QP_DCT : ENGINE_QP_DCI;

	return pkt->service == peer && pkt->dc.connection == qp->dc.connection &&
	       qp->path.dest_qpn == pkt->src_qpn && qp->route == pkt->source;
}

/* ---- ends --------------------------------------------------------------------------------------------------------- */

/* One pass over the table. True when any was dropped. */
static bool drop_some(struct engine_qp *dct)
{
	struct engine_qp *child, *next;
	bool any = false;
	size_t pos = 0;

	while ((child = hash_next(&dct->dc.children, &pos, NULL))) {
		bool dropped = false;

		for (; child; child = next) {
			next = child->dc.sibling;
			if (child->zombie)
				continue;
			drop_child(child);
			dropped = true;
		}
		/* Reaping one takes it out of the table, and what is behind it moves into its place. */
		pos -= dropped;
		any |= dropped;
	}
	return any;
}

/* Each connection ends, at once or when its memory operations have. */
void dc_drop_children(struct engine_qp *dct)
{
	/* Another pass finds entries that moved from the end of the table to its beginning. */
	while (drop_some(dct)) {
	}
}

/* Frees dropped QPs whose memory operations have ended since. */
void dc_reap_children(struct engine_qp *dct)
{
	struct engine_qp *child;
	size_t pos = 0;

	while ((child = hash_next(&dct->dc.children, &pos, NULL))) {
		qp_settle(child);
		if (qp_has_pending_ops(child))
			continue;
		qp_reap(child);
		pos = 0;
	}
}

/* The QP of a connection is freed next. */
void dc_leave_parent(struct engine_qp *child)
{
	struct engine_qp *dct = child->dc.parent;
	struct hash *children = &dct->dc.children;
	uint32_t dci_qpn = child->path.dest_qpn;
	struct engine_qp *first = hash_get(children, dci_qpn);

	dct->engine->n_children--;
	/* It may wait for this one only. */
	if (dct->zombie)
		qp_ready(dct);
	if (first != child) {
		while (first->dc.sibling != child)
			first = first->dc.sibling;
		first->dc.sibling = child->dc.sibling;
		return;
	}
	hash_remove(children, dci_qpn);
	if (child->dc.sibling)
		(void)hash_add(children, dci_qpn, child->dc.sibling);
}

void dc_add_counters(const struct engine_qp *dct, struct engine_qp_counters *sum)
{
	const struct engine_qp *child;
	size_t pos = 0;

	while ((child = hash_next(&dct->dc.children, &pos, NULL)))
		for (; child; child = child->dc.sibling)
			if (!child->zombie)
				counters_add(sum, child->counters);
}
