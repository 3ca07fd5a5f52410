/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dumps the queues of any session, for administrators.
 *
 * It copies rings, dbrecs and indexes as they are, at most 16 KiB a reply; the client and the NIC go on writing, so two of them may
 * not match. It trusts nothing that it read: positions come from the daemon's own layout, the request's are taken modulo the
 * ring. A session that a worker is busy with gives BUSY. Control thread, except run_dump().
 */
#include "daemon/session/dispatch.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "daemon/session/list-items.h"

#define RING_ENTRY_BYTES 64u /* a WQEBB, a CQE */

/* A QP, and where its queues are. */
struct dump {
	struct session *session;
	struct session_queues *queues;
	const struct nic_qp *qp;
	struct session_queues *send_queues, *recv_queues; /* batches of its CQs */
	const struct nic_cq *send_cq, *recv_cq;
	int r;
};

/* One ring of it. */
struct ring {
	struct session_queues *queues;
	uint64_t offset;
	uint32_t n_entries, entry_bytes; /* powers of two; 0: it has no such ring */
};

static const struct nic_cq *find_cq(const struct session_nic *nic, uint32_t cqn,
				    struct session_queues **ret_queues)
{
	struct session_queues *queues = hash_get(&nic->cqs, cqn);
	const struct nic_layout *layout = queues ? &queues->queues->layout : NULL;

	for (uint32_t i = 0; layout && i < layout->n_cqs; i++) {
		if (layout->cqs[i].cqn == cqn) {
			*ret_queues = queues;
			return &layout->cqs[i];
		}
	}
	return NULL;
}

/* False: no session has this QP on the NIC. */
static bool find_qp(struct registry *registry, const struct registry_nic *rnic, uint32_t qpn,
		    struct dump *ret_dump)
{
	struct session *session = registry_next_session(registry, 0);
	struct dump dump = {0};

	for (; session; session = registry_session_after(registry, session)) {
		struct session_nic *nic = session_nic_by_rnic(session, rnic);

		dump.queues = nic ? hash_get(&nic->qps, qpn) : NULL;
		if (!dump.queues)
			continue;
		dump.qp = session_nic_qp(nic, qpn);
		if (!dump.qp)
			return false;
		dump.send_cq = find_cq(nic, dump.qp->send_cqn, &dump.send_queues);
		dump.recv_cq = find_cq(nic, dump.qp->recv_cqn, &dump.recv_queues);
		dump.session = session;
		*ret_dump = dump;
		return true;
	}
	return false;
}

static int read_queues(const struct session_queues *queues, uint64_t offset, void *buf, size_t bytes)
{
	struct nic_queues *q = queues->queues;

	return bytes ? q->ctx->nic->ops->queues_read(q, offset, buf, bytes) : 0;
}

static int read_dbrec(const struct session_queues *queues, uint64_t offset, uint32_t *ret_rcv,
		      uint32_t *ret_snd)
{
	uint32_t words[2];
	int r;

	_Static_assert(sizeof(words) == sizeof(struct shmd_dbrec), "rcv, then snd");
	r = read_queues(queues, offset, words, sizeof(words));
	if (r < 0)
		return r;
	*ret_rcv = be32toh(words[0]);
	*ret_snd = be32toh(words[1]);
	return 0;
}

static int fill_cqs(struct msg_queue_dump_rep *rep, const struct dump *dump)
{
	uint32_t arm;
	int r = 0;

	if (dump->send_cq) {
		rep->send_cqn = dump->send_cq->cqn;
		rep->send_cq_log2_entries = dump->send_cq->log2_entries;
		rep->send_cq_flags = dump->send_cq->flags;
		r = read_dbrec(dump->send_queues, dump->send_cq->dbrec_offset, &rep->dbrec_send_cq, &arm);
	}
	if (r == 0 && dump->recv_cq) {
		rep->recv_cqn = dump->recv_cq->cqn;
		rep->recv_cq_log2_entries = dump->recv_cq->log2_entries;
		rep->recv_cq_flags = dump->recv_cq->flags;
		r = read_dbrec(dump->recv_queues, dump->recv_cq->dbrec_offset, &rep->dbrec_recv_cq, &arm);
	}
	return r;
}

static int fill_head(struct msg_queue_dump_rep *rep, const struct dump *dump, uint64_t session)
{
	struct nic_ctx *ctx = dump->queues->nic->ctx;
	struct nic_qp_info info;
	int r;

	r = ctx->nic->ops->qp_query(ctx, dump->qp->qpn, &info);
	if (r < 0)
		return r;
	fill_qp_item(&rep->qp, session, dump->queues, dump->qp, &info);
	rep->rq_pi = info.rq_pi;
	rep->rq_ci = info.rq_ci;
	rep->n_rq_wqes = dump->qp->n_rq_wqes;
	rep->log2_rq_stride = dump->qp->n_rq_wqes ? dump->qp->log2_rq_stride : 0;
	r = read_dbrec(dump->queues, dump->qp->dbrec_offset, &rep->dbrec_rq, &rep->dbrec_sq);
	return r < 0 ? r : fill_cqs(rep, dump);
}

static struct ring cq_ring(const struct nic_cq *cq, struct session_queues *queues)
{
	if (!cq)
		return (struct ring){0};
	/* bounded: nic_layout_init() made the layout. */
	return (struct ring){
		.queues = queues,
		.offset = cq->ring_offset,
		.n_entries = cq->flags & NIC_CQ_COLLAPSED ? 1 : 1u << cq->log2_entries,
		.entry_bytes = RING_ENTRY_BYTES,
	};
}

static struct ring ring_of(const struct dump *dump, enum msg_queue_part part)
{
	/* bounded: nic_layout_init() made the layout. */
	const struct nic_qp *qp = dump->qp;
	struct ring ring = {.queues = dump->queues};

	switch (part) {
	case MSG_PART_SQ:
		ring.offset = qp->sq_offset;
		ring.n_entries = qp->log2_sq_wqebbs ? 1u << qp->log2_sq_wqebbs : 0;
		ring.entry_bytes = RING_ENTRY_BYTES;
		break;
	case MSG_PART_RQ:
		ring.offset = qp->rq_offset;
		ring.n_entries = qp->n_rq_wqes;
		ring.entry_bytes = 1u << qp->log2_rq_stride;
		break;
	case MSG_PART_SEND_CQ:
		return cq_ring(dump->send_cq, dump->send_queues);
	case MSG_PART_RECV_CQ:
		return cq_ring(dump->recv_cq, dump->recv_queues);
	case MSG_PART_NONE:
		break;
	}
	return ring;
}

/* From entry `first` on, over the end of the ring to its beginning. */
static int read_ring(const struct ring *ring, uint32_t first, uint32_t n, uint8_t *buf)
{
	/* bounded: first lies in the ring, and n is no more than it has. */
	uint32_t to_end = ring->n_entries - first;
	uint32_t n_before = n < to_end ? n : to_end;
	size_t before_bytes = (size_t)n_before * ring->entry_bytes;
	int r;

	r = read_queues(ring->queues, ring->offset + (uint64_t)first * ring->entry_bytes, buf, before_bytes);
	if (r < 0)
		return r;
	return read_queues(ring->queues, ring->offset, buf + before_bytes,
			   (size_t)(n - n_before) * ring->entry_bytes);
}

static int fill_data(struct msg_queue_dump_rep *rep, const struct ring *ring,
		     const struct msg_queue_dump_req *dump)
{
	uint32_t most, n;

	if (ring->n_entries == 0)
		return 0;
	most = MSG_DUMP_BYTES / ring->entry_bytes;
	n = dump->n < ring->n_entries ? dump->n : ring->n_entries;
	n = n < most ? n : most;
	rep->entry_bytes = ring->entry_bytes;
	rep->first = dump->first & (ring->n_entries - 1);
	if (n == 0)
		return 0;
	/* bounded by MSG_DUMP_BYTES. */
	rep->data = malloc((size_t)n * ring->entry_bytes);
	if (!rep->data)
		return -ENOMEM;
	rep->data_bytes = n * ring->entry_bytes;
	return read_ring(ring, rep->first, n, rep->data);
}

static void run_dump(struct request *req)
{
	const struct msg_queue_dump_req *ask = &req->msg->queue_dump_req;
	struct msg_queue_dump_rep *rep = &req->rep->queue_dump_rep;
	struct dump *dump = req->op;
	struct ring ring = ring_of(dump, ask->part);

	dump->r = fill_head(rep, dump, dump->session->id);
	if (dump->r == 0)
		dump->r = fill_data(rep, &ring, ask);
}

static int finish_dump(struct request *req)
{
	const struct dump *dump = req->op;

	if (dump->r == -EBUSY)
		return request_fail(req, SHMD_STATUS_BUSY, "the NIC waits for memory of session %" PRIu64 ", or gets no CPU: ask again",
				    dump->session->id);
	return dump->r;
}

int handle_queue_dump(struct request *req)
{
	const struct msg_queue_dump_req *ask = &req->msg->queue_dump_req;
	struct dump *dump = request_op(req, sizeof(*dump));
	struct registry_nic *rnic;

	if (!dump)
		return -ENOMEM;
	rnic = request_nic_by_name(req, ask->nic);
	if (!rnic)
		return SHMD_STATUS_NO_NIC;
	if (!find_qp(req->session->registry, rnic, ask->qpn, dump))
		return request_fail(req, SHMD_STATUS_NOT_FOUND, "no session has QP 0x%x on %s", ask->qpn,
				    rnic->info.name);
	if (!request_hold(req, dump->session))
		return request_fail(req, SHMD_STATUS_BUSY, "%s carries out another request of session %" PRIu64,
				    rnic->info.name, dump->session->id);
	req->rep->kind = MSG_QUEUE_DUMP_REP;
	return request_work(req, nic_takes_time(rnic->nic), run_dump, finish_dump);
}
