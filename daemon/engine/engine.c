/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine: objects, and turns of the QPs that have something to do.
 *
 * Work is driven by one list of ready QPs. A QP is put there by a doorbell, a packet, a finished memory
 * operation, a timer, or a resource it waited for (a free packet, a bounce buffer); a turn gives each half a
 * bounded number of units. Nothing here recurses: packets that arrive while a QP runs, and operations that end
 * inside a call, only set state and put QPs on the list.
 */
#include <stdlib.h>

#include "daemon/engine/ledger-private.h"
#include "proto/base/cleanup.h"

/* ---- the engine ------------------------------------------------------------------------------------------ */

static bool engine_attr_is_valid(const struct engine_attr *attr)
{
	uint32_t chunk = attr->chunk_bytes;

	if ((attr->max_mws || attr->max_indirects) && !attr->extension)
		return false;
	return attr->max_qps >= 1 && attr->max_qps <= 1u << 20 && chunk >= 256 &&
	       chunk <= 1u << 20 && !(chunk & (chunk - 1));
}

static void init_lists(struct engine *engine)
{
	list_init(&engine->all_qps);
	list_init(&engine->fresh);
	list_init(&engine->active);
	list_init(&engine->packet_waiters);
	list_init(&engine->bounce_waiters);
	list_init(&engine->notify_cqs);
	list_init(&engine->dead_cqs);
	list_init(&engine->free_packets);
	list_init(&engine->dc_closed);
	list_init(&engine->ledgers);
}

DEFINE_CLEANUP(struct engine *, engine_free);

int engine_new(const struct engine_attr *attr, const struct engine_ops *ops, void *owner,
	       struct engine **ret_engine)
{
	_cleanup_(engine_freep) struct engine *engine = NULL;
	int r;

	if (!engine_attr_is_valid(attr))
		return -EINVAL;
	engine = calloc(1, sizeof(*engine));
	if (!engine)
		return -ENOMEM;
	engine->attr = *attr;
	engine->extension = attr->extension;
	engine->ops = *ops;
	engine->owner = owner;
	init_lists(engine);
	hash_init(&engine->qps);
	hash_init(&engine->cqs);
	hash_init(&engine->mrs);
	hash_init(&engine->mws);
	hash_init(&engine->indirects);
	hash_init(&engine->srqs);
	hash_init(&engine->tenants);
	r = packet_pool_new(engine);
	if (r < 0)
		return r;
	r = bounce_init(engine);
	if (r < 0)
		return r;
	*ret_engine = take_ptr(engine);
	return 0;
}

static void *first_value(const struct hash *map)
{
	size_t pos = 0;

	return hash_next(map, &pos, NULL);
}

static void free_qps(struct engine *engine)
{
	struct engine_qp *qp;

	while ((qp = first_value(&engine->qps))) {
		assert_bug(!qp_has_pending_ops(qp));
		if (qp->zombie)
			qp_reap(qp);
		else
			engine_qp_destroy(engine, qp->attr.qpn);
	}
}

struct engine *engine_free(struct engine *engine)
{
	struct srq *srq;
	struct cq *cq;
	struct mr *mr;

	if (!engine)
		return NULL;
	engine->closing = true;
	ledger_detach(engine);
	free_qps(engine);
	while ((srq = first_value(&engine->srqs)))
		engine_srq_destroy(engine, srq->attr.srqn);
	while ((cq = first_value(&engine->cqs)))
		engine_cq_destroy(engine, cq->attr.cqn);
	if (engine->extension)
		engine->extension->free_keys(engine);
	while ((mr = first_value(&engine->mrs)))
		engine_mr_destroy(engine, mr->attr.key);
	hash_deinit(&engine->qps);
	hash_deinit(&engine->cqs);
	hash_deinit(&engine->mrs);
	hash_deinit(&engine->mws);
	hash_deinit(&engine->indirects);
	hash_deinit(&engine->srqs);
	packet_pool_close(engine);
	tenants_free(engine);
	free(engine->bounce_memory);
	free(engine->timers);
	free(engine);
	return NULL;
}

void engine_set_fault(struct engine *engine, enum engine_fault fault, uint64_t nth)
{
	engine->fault = fault;
	engine->fault_left = nth;
}

/* ---- QPs ---------------------------------------------------------------------------------------------------- */

/* Checks the rings of a type that has a send ring. */
bool qp_rings_are_valid(const struct engine_qp_attr *attr)
{
	if (attr->has_srq && attr->rq_ring)
		return false;
	if (attr->qpn > PSN_MASK || attr->user_index > PSN_MASK || !attr->sq_ring || !attr->dbrec)
		return false;
	if (attr->log2_sq_wqebbs > 15)
		return false;
	return !attr->rq_ring ||
	       (attr->log2_rq_wqes <= 15 && attr->log2_rq_stride >= 4 && attr->log2_rq_stride <= 9);
}

static bool dct_attr_is_valid(const struct engine_qp_attr *attr)
{
	return attr->qpn <= PSN_MASK && attr->user_index <= PSN_MASK && attr->has_srq && !attr->sq_ring &&
	       !attr->rq_ring && !attr->dbrec && !attr->has_streams;
}

static bool dci_attr_is_valid(const struct engine *engine, const struct engine_qp_attr *attr)
{
	if (attr->rq_ring || attr->has_srq)
		return false;
	if (attr->has_streams && (!engine->extension || attr->log2_errored_streams > ENGINE_MAX_LOG2_ERRORED))
		return false;
	return qp_rings_are_valid(attr);
}

/* Frees the memory of a QP that is in no list and no table. */
struct engine_qp *qp_free(struct engine_qp *qp)
{
	if (!qp)
		return NULL;
	early_free(qp);
	free(qp->streams.errored);
	free(qp->req.sent);
	free(qp->req.shadow);
	free(qp);
	return NULL;
}

DEFINE_CLEANUP(struct engine_qp *, qp_free);

static void atomic_done(struct engine_memop *op, int status)
{
	struct responder *resp = container_of(op, struct responder, atomic_op);
	struct engine_qp *qp = container_of(resp, struct engine_qp, resp);

	resp->atomic_pending = false;
	resp->atomic_status = status;
	resp->atomic_mem = engine_mem_unref(resp->atomic_mem);
	qp_ready(qp);
}

static const struct engine_service *service_of(const struct engine *engine, enum engine_qp_type type)
{
	return engine->extension ? engine->extension->services[type] : NULL;
}

static void qp_init(struct engine_qp *qp, struct engine *engine, const struct engine_qp_attr *attr)
{
	qp->engine = engine;
	qp->attr = *attr;
	qp->state = ENGINE_QP_RST;
	qp->log2_mtu = (uint8_t)__builtin_ctz(engine->attr.chunk_bytes);
	qp->is_dc = attr->type == ENGINE_QP_DCI || attr->type == ENGINE_QP_DCT;
	qp->service = service_of(engine, attr->type);
	qp->reliable = !qp->service || qp->service->reliable;
	qp->has_av = attr->type == ENGINE_QP_UD || attr->type == ENGINE_QP_DCI;
	hash_init(&qp->dc.children);
	list_init(&qp->dc.closed_link);
	list_init(&qp->dc.engine_link);
	list_init(&qp->dc.closed_children);
	qp->recv_pdn = qp->remote_pdn = attr->pdn;
	if (!attr->sq_ring) {
		qp->frozen = true; /* there is no dbrec to read */
		qp->attr.log2_sq_wqebbs = 0;
	}
	if (qp->service && qp->service->init)
		qp->service->init(qp);
	qp->counters = &qp->own_counters;
	qp->req.life = ++engine->next_life;
	list_init(&qp->all_link);
	list_init(&qp->ready_link);
	for (unsigned int use = 0; use < N_PACKET_USES; use++)
		list_init(&qp->packet_link[use]);
	list_init(&qp->req.rx);
	list_init(&qp->resp.rx);
	copy_init(&qp->req.copy, qp);
	copy_init(&qp->resp.copy, qp);
	qp->req.copy.op.owner = engine->owner;
	qp->resp.copy.op.owner = engine->owner;
	qp->resp.atomic_op.owner = engine->owner;
	qp->resp.atomic_op.done = atomic_done;
}

static int qp_alloc_rings(struct engine_qp *qp)
{
	/* bounded: qp_attr_is_valid() allows 2^15 WQEBBs. */
	size_t n_wqebbs = (size_t)1 << qp->attr.log2_sq_wqebbs;
	size_t n_sent = n_wqebbs < MAX_SENT ? n_wqebbs : MAX_SENT;

	qp->req.n_shadow = n_wqebbs < MAX_SHADOW_WQEBBS ? (uint32_t)n_wqebbs : MAX_SHADOW_WQEBBS;
	/* A WQE that wraps is stored behind the end in one piece. */
	qp->req.shadow = malloc((qp->req.n_shadow + SHMD_WQE_MAX_WQEBBS - 1) * SHMD_WQEBB_BYTES);
	qp->req.sent = malloc(n_sent * sizeof(*qp->req.sent));
	qp->req.sent_mask = (uint32_t)n_sent - 1;
	return qp->req.shadow && qp->req.sent ? 0 : -ENOMEM;
}

void qp_take_queues(struct engine_qp *qp, struct cq *send_cq, struct cq *recv_cq, struct srq *srq)
{
	qp->send_cq = send_cq;
	qp->recv_cq = recv_cq;
	send_cq->n_users++;
	recv_cq->n_users++;
	if (!srq)
		return;
	qp->srq = srq;
	qp->recv_pdn = srq->attr.pdn;
	srq->n_users++;
}

static void leave_queues(struct engine_qp *qp)
{
	if (qp->send_cq) {
		qp->send_cq->n_users--;
		qp->recv_cq->n_users--;
		if (qp->srq)
			qp->srq->n_users--;
	}
	qp->send_cq = qp->recv_cq = NULL;
	qp->srq = NULL;
}

/* -EOPNOTSUPP: this engine does not offer the type. -EINVAL */
static int check_attr(const struct engine *engine, const struct engine_qp_attr *attr)
{
	const struct engine_service *service;

	if ((unsigned int)attr->type >= ENGINE_N_QP_TYPES)
		return -EOPNOTSUPP;
	service = service_of(engine, attr->type);
	if (service && attr->has_streams)
		return -EINVAL;
	if (service)
		return service->check(engine, attr);
	if (attr->type == ENGINE_QP_RC)
		return qp_rings_are_valid(attr) && !attr->has_streams ? 0 : -EINVAL;
	if ((attr->type != ENGINE_QP_DCI && attr->type != ENGINE_QP_DCT) || !engine->ops.dc_route || !engine->ops.dc_route_back)
		return -EOPNOTSUPP;
	return (attr->type == ENGINE_QP_DCT ? dct_attr_is_valid(attr) : dci_attr_is_valid(engine, attr)) ? 0 : -EINVAL;
}

/* A QP in RST that no table knows yet: charged to its tenant, without queues. */
int qp_new(struct engine *engine, const struct engine_qp_attr *attr, struct engine_qp **ret_qp)
{
	_cleanup_(qp_freep) struct engine_qp *qp = NULL;
	int r;

	/* An ended connection of any user makes room: connections are not charged. */
	while (engine->n_qps >= engine->attr.max_qps)
		if (!dc_drop_closed(engine))
			return -ENOSPC;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return -ENOMEM;
	qp_init(qp, engine, attr);
	r = qp_alloc_rings(qp);
	if (r == 0 && attr->has_streams)
		r = engine->extension->streams_init(qp);
	if (r < 0)
		return r;
	/* bounded by max_qps. */
	r = timers_reserve(engine, engine->n_qps + 1);
	if (r < 0)
		return r;
	r = tenant_join(engine, qp);
	if (r < 0)
		return r;
	*ret_qp = take_ptr(qp);
	return 0;
}

/* It is known from now on. */
void qp_join(struct engine_qp *qp)
{
	qp->engine->n_qps++;
	list_add_tail(&qp->engine->all_qps, &qp->all_link);
}

static int find_queues(struct engine *engine, const struct engine_qp_attr *attr, struct cq **ret_send_cq,
		       struct cq **ret_recv_cq, struct srq **ret_srq)
{
	const struct engine_service *service = service_of(engine, attr->type);
	uint32_t send_cqn = attr->type == ENGINE_QP_DCT ? attr->recv_cqn : attr->send_cqn;
	uint32_t recv_cqn = service && service->has_no_recv_cq ? attr->send_cqn : attr->recv_cqn;

	*ret_send_cq = hash_get(&engine->cqs, send_cqn);
	*ret_recv_cq = hash_get(&engine->cqs, recv_cqn);
	*ret_srq = attr->has_srq ? hash_get(&engine->srqs, attr->srqn) : NULL;
	if (service && service->has_no_queues)
		return 0;
	if (!*ret_send_cq || !*ret_recv_cq || (attr->has_srq && (!*ret_srq || (*ret_srq)->attr.is_xrc)))
		return -EINVAL;
	return 0;
}

/* Its CQs must exist after a restart too. */
static int check_ledger(const struct engine *engine, const struct engine_qp_attr *attr, const struct cq *send_cq,
			const struct cq *recv_cq, const struct srq *srq)
{
	const struct engine_service *service = service_of(engine, attr->type);
	const struct engine_ledger *ledger = attr->ledger;

	if (!ledger)
		return 0;
	/* A DCT that forgot a connection would take what is sent again for new. */
	if (attr->type == ENGINE_QP_DCT && !engine->ops.dc_source_gid)
		return -EOPNOTSUPP;
	if ((service && service->has_no_ledger) || attr->has_streams)
		return -EOPNOTSUPP;
	return send_cq->attr.ledger == ledger && recv_cq->attr.ledger == ledger && (!srq || srq->attr.ledger == ledger)
		       ? 0
		       : -EINVAL;
}

/* slot: of a former process; NULL: a new one. */
static int create(struct engine *engine, const struct engine_qp_attr *attr, struct ledger_qp *slot)
{
	struct cq *send_cq, *recv_cq;
	struct engine_qp *qp;
	struct srq *srq;
	int r;

	r = check_attr(engine, attr);
	if (r < 0)
		return r;
	r = find_queues(engine, attr, &send_cq, &recv_cq, &srq);
	if (r == 0)
		r = check_ledger(engine, attr, send_cq, recv_cq, srq);
	if (r == 0)
		r = qp_new(engine, attr, &qp);
	if (r < 0)
		return r;
	r = hash_add(&engine->qps, attr->qpn, qp);
	if (r == 0 && attr->ledger && !slot) {
		r = ledger_take_qp(qp);
		if (r < 0)
			hash_remove(&engine->qps, attr->qpn);
	}
	if (r < 0) {
		qp->tenant->refs--;
		tenant_release(engine, qp->tenant);
		qp_free(qp);
		return r;
	}
	if (!qp->service || !qp->service->has_no_queues)
		qp_take_queues(qp, send_cq, recv_cq, srq);
	qp_join(qp);
	if (slot)
		ledger_load_qp(qp, slot);
	return 0;
}

int engine_qp_create(struct engine *engine, const struct engine_qp_attr *attr)
{
	return create(engine, attr, NULL);
}

int engine_qp_restore(struct engine *engine, const struct engine_qp_attr *attr)
{
	struct ledger_qp *slot = attr->ledger ? ledger_find_qp(attr->ledger, attr->qpn) : NULL;

	return slot ? create(engine, attr, slot) : -ENOENT;
}

void counters_add(struct engine_qp_counters *sum, const struct engine_qp_counters *c)
{
	sum->wqes += c->wqes;
	for (unsigned int i = 0; i < 8; i++)
		sum->wqes_by_kind[i] += c->wqes_by_kind[i];
	sum->bytes_sent += c->bytes_sent;
	sum->bytes_read += c->bytes_read;
	sum->recv_wqes += c->recv_wqes;
	sum->error_cqes += c->error_cqes;
	sum->rnr_naks += c->rnr_naks;
	sum->retries += c->retries;
	sum->dropped += c->dropped;
}

void engine_counters(struct engine *engine, struct engine_qp_counters *ret_counters)
{
	struct engine_qp *qp;

	*ret_counters = engine->past;
	list_for_each_entry(qp, &engine->all_qps, all_link)
		counters_add(ret_counters, qp->counters);
}

/* A destroyed QP goes when its last memory operation has ended. */
void qp_reap(struct engine_qp *qp)
{
	struct engine *engine = qp->engine;

	qp_settle(qp);
	dc_reap_children(qp);
	if (qp_has_pending_ops(qp) || qp->dc.children.n)
		return;
	qp_unready(qp);
	timer_forget(qp);
	if (qp->dc.parent)
		dc_leave_parent(qp);
	else
		hash_remove(&engine->qps, qp->attr.qpn);
	hash_deinit(&qp->dc.children);
	engine->n_qps--;
	qp->tenant->refs--;
	tenant_release(engine, qp->tenant);
	qp_free(qp);
}

static void hot_remove(struct engine *engine, const struct engine_qp *qp)
{
	for (unsigned int i = 0; i < HOT_QPS; i++) {
		if (engine->hot[i] == qp)
			engine->hot[i] = NULL;
	}
}

/* At once, or when its memory operations have ended. */
void qp_bury(struct engine_qp *qp)
{
	ledger_drop_qp(qp);
	qp_reset(qp);
	qp->zombie = true;
	list_del(&qp->all_link);
	hot_remove(qp->engine, qp);
	counters_add(&qp->engine->past, qp->counters);
	leave_queues(qp);
	qp_reap(qp);
}

int engine_qp_destroy(struct engine *engine, uint32_t qpn)
{
	struct engine_qp *qp = hash_get(&engine->qps, qpn);

	if (!qp || qp->zombie)
		return -ENOENT;
	qp_bury(qp);
	return 0;
}

int engine_qp_query(struct engine *engine, uint32_t qpn, struct engine_qp_info *ret_info)
{
	const struct engine_qp *qp = hash_get(&engine->qps, qpn);

	if (!qp || qp->zombie)
		return -ENOENT;
	*ret_info = (struct engine_qp_info){
		.state = qp->state,
		.sq_pi = qp->req.pi,
		.sq_ci = qp->req.ci,
		.rq_pi = qp->resp.pi,
		.rq_ci = qp->resp.ci,
		.dest_qpn = qp->path.dest_qpn,
		.first_error = qp->first_error,
		.pending = qp->req.tail - qp->req.head + copy_is_pending(&qp->req.copy) +
			   copy_is_pending(&qp->resp.copy) + qp->resp.atomic_pending + early_is_pending(&qp->resp),
		.counters = *qp->counters,
	};
	dc_add_counters(qp, &ret_info->counters);
	return 0;
}

/* ---- waking -------------------------------------------------------------------------------------------------- */

static void hot_touch(struct engine *engine, struct engine_qp *qp)
{
	struct engine_qp *carry = qp;

	if (engine->hot[0] == qp)
		return;
	for (unsigned int i = 0; i < HOT_QPS; i++) {
		struct engine_qp *next = engine->hot[i];

		engine->hot[i] = carry;
		if (!next || next == qp)
			return;
		carry = next;
	}
}

void engine_doorbell(struct engine *engine, uint32_t qpn)
{
	struct engine_qp *qp = hash_get(&engine->qps, qpn);

	if (!qp || qp->zombie)
		return;
	hot_touch(engine, qp);
	qp->req.check_dbrec = true;
	qp_ready(qp);
}

int engine_qp_freeze(struct engine *engine, uint32_t qpn)
{
	struct engine_qp *qp = hash_get(&engine->qps, qpn);

	if (!qp || qp->zombie)
		return -ENOENT;
	qp->req.pi = qp_read_snd(qp);
	/* Without a receive queue the word means nothing, and nothing flushes up to it. */
	if (qp->attr.rq_ring)
		qp->resp.pi = qp_read_rcv(qp);
	qp->frozen = true;
	ledger_note_control(qp);
	qp_ready(qp);
	return 0;
}

/* 1 when a dbrec of this QP has moved since it was last read. */
static unsigned int scan_qp(struct engine_qp *qp)
{
	bool news = false;

	if (qp_can_send(qp) || qp->state == ENGINE_QP_ERR || qp->state == ENGINE_QP_SQER)
		news = qp_read_snd(qp) != qp->req.pi && !qp->req.check_dbrec;
	if (qp->attr.rq_ring && qp->state == ENGINE_QP_ERR)
		news |= qp_read_rcv(qp) != qp->resp.pi;
	if (!news)
		return 0;
	qp->req.check_dbrec = true;
	qp_ready(qp);
	return 1;
}

unsigned int engine_scan(struct engine *engine)
{
	struct engine_qp *qp;
	unsigned int n = 0;

	list_for_each_entry(qp, &engine->all_qps, all_link) {
		if (!scan_qp(qp))
			continue;
		hot_touch(engine, qp);
		n++;
	}
	return n;
}

unsigned int engine_scan_hot(struct engine *engine)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < HOT_QPS; i++) {
		if (engine->hot[i])
			n += scan_qp(engine->hot[i]);
	}
	return n;
}

/* Is it from the QP that this one is connected to, or from one that its service admits? */
static bool hears(const struct engine_qp *qp, const struct engine_packet *pkt)
{
	if (unlikely(qp->is_dc))
		return dc_hears(qp, pkt);
	if (unlikely(qp->service && qp->service->hears))
		return qp->service->hears(qp, pkt);
	if (unlikely(qp->attr.type != pkt->service))
		return false;
	return qp->path.dest_qpn == pkt->src_qpn && qp->route == pkt->source;
}

void engine_input(struct engine *engine, struct engine_packet *pkt)
{
	struct engine_qp *qp = hash_get(&engine->qps, pkt->dest_qpn);
	bool request = packet_is_request(pkt->kind);

	if (unlikely(qp && qp->attr.type == ENGINE_QP_DCT && !qp->zombie))
		qp = dc_accept(qp, pkt);
	/* Not connected, or not to the sender: as if lost on the way. */
	if (unlikely(!qp || qp->zombie || !hears(qp, pkt) || !(request ? qp_can_receive(qp) || qp_answers_again(qp)
								      : qp_can_send(qp)))) {
		if (qp && !qp->reliable)
			qp->counters->dropped++;
		packet_put(engine, pkt);
		return;
	}
	list_add_tail(request ? &qp->resp.rx : &qp->req.rx, &pkt->link);
	qp_ready(qp);
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

static unsigned int turn_error(struct engine_qp *qp, unsigned int quantum)
{
	unsigned int done;

	/* A READ that is answered again is nothing that stopped. */
	if (!qp->resp.reading)
		qp_settle(qp);
	qp->req.check_dbrec = false;
	if (qp_has_pending_ops(qp))
		return 0;
	done = qp_flush(qp, quantum);
	if (done < quantum && qp_answers_again(qp))
		done += responder_run(qp, quantum - done);
	if (done == quantum)
		qp_ready(qp);
	return done;
}

/* A send queue in error: the QP still receives. */
static unsigned int turn_send_error(struct engine_qp *qp, unsigned int quantum)
{
	unsigned int done;

	qp->req.check_dbrec = false;
	done = qp_flush_sends(qp, quantum);
	if (done == quantum)
		qp_ready(qp);
	return done;
}

static unsigned int turn_half(struct engine_qp *qp, unsigned int quantum,
			      unsigned int (*half)(struct engine_qp *qp, unsigned int budget))
{
	unsigned int done;

	if (!quantum)
		return 0;
	done = half(qp, quantum);
	if (done == quantum)
		qp_ready(qp);
	return done;
}

/* One turn of one QP, at most `budget` units. */
static unsigned int turn(struct engine_qp *qp, unsigned int budget)
{
	unsigned int quantum = budget < TURN_UNITS ? budget : TURN_UNITS;
	unsigned int done;

	if (unlikely(qp->zombie)) {
		qp_reap(qp);
		return 1;
	}
	if (unlikely(qp->cancelled)) {
		qp_settle(qp);
		if (qp->cancelled)
			return 0;
	}
	if (unlikely(qp->state == ENGINE_QP_ERR))
		return turn_error(qp, quantum);
	if (!qp_can_receive(qp))
		return 0;
	done = turn_half(qp, quantum, responder_run);
	if (unlikely(!qp_can_send(qp)))
		return qp->state == ENGINE_QP_SQER ? done + turn_send_error(qp, budget - done) : done;
	quantum = budget - done < TURN_UNITS ? budget - done : TURN_UNITS;
	if (!quantum)
		qp_ready(qp);
	done += turn_half(qp, quantum, requester_input);
	if (!qp_can_send(qp))
		return done;
	quantum = budget - done < TURN_UNITS ? budget - done : TURN_UNITS;
	if (!quantum)
		qp_ready(qp);
	return done + turn_half(qp, quantum, requester_send);
}

/* A turn of the tenant's next QP. Its last QP may go with that. Returns the work. */
static unsigned int tenant_turn(struct engine *engine, struct tenant *tenant, unsigned int budget,
				unsigned int *done)
{
	struct engine_qp *qp = list_first_entry(&tenant->ready, struct engine_qp, ready_link);
	unsigned int units, work;

	list_del(&qp->ready_link);
	tenant->refs++;
	units = turn(qp, budget);
	work = tenant_charge(engine, tenant, units);
	if (unlikely(--tenant->refs == 0))
		tenant_release(engine, tenant);
	*done += units;
	return work;
}

unsigned int engine_progress(struct engine *engine, unsigned int budget)
{
	unsigned int done = 0, work = 0;
	struct tenant *tenant;

	engine->now_nsec = engine->ops.now_nsec(engine->owner);
	timers_run(engine);
	tenants_wake(engine);
	if (unlikely(engine->n_awaited))
		packet_pool_collect(engine);
	while (done < budget && work < PROGRESS_WORK && (tenant = tenant_next(engine))) {
		tenant_begin(engine, work > 0);
		work += tenant_turn(engine, tenant, budget - done, &done);
		if (unlikely(!list_empty(&engine->dead_cqs)))
			cq_bury_dead(engine);
	}
	cq_notify_all(engine);
	/* Turns in vain do not mean that there is nothing to do. */
	return done || !work ? done : tenant_first(engine) != NULL;
}

uint64_t engine_next_deadline(struct engine *engine)
{
	uint64_t deadline = timers_next(engine);
	uint64_t soon;

	if (tenant_first(engine))
		return 0;
	if (list_empty(&engine->packet_waiters) && !engine->n_awaited)
		return deadline;
	/* Other threads return packets without waking a thread. */
	soon = engine->ops.now_nsec(engine->owner) + PACKET_WAIT_NSEC;
	return soon < deadline ? soon : deadline;
}
