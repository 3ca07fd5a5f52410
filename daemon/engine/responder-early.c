/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The responder's early writes: small WRITEs to memory that keeps their order.
 *
 * Memory that answers late, and in order (engine_mem_ops.order), takes many writes at once. So a WRITE of one packet does not wait for the end
 * of the one before if both go to such memory of one order: up to EARLY_MOST of a QP are under way together, and are acknowledged
 * as they end, oldest first. Everything else, duplicates and refusals included, waits until none is under way.
 *
 * Refuses writes with immediate data, parts of longer messages, payload that cannot be addressed, and services other than RC and DC. If one fails the
 * QP refuses it once all have ended; those behind it may have been written.
 */
#include <stdlib.h>

#include "daemon/engine/engine-private.h"

struct early_write {
	struct engine_memop op;
	struct engine_qp *qp;
	struct engine_packet *pkt;
	struct engine_mem *mem; /* referenced; NULL: dropped */
	bool pending;
	int status;
};

struct early_queue {
	uint32_t head, tail;
	unsigned int n_pending;
	const void *order; /* of those under way */
	struct early_write writes[EARLY_MOST];
};

static struct early_write *write_at(struct early_queue *queue, uint32_t index)
{
	return &queue->writes[index % EARLY_MOST];
}

bool early_is_open(const struct responder *resp)
{
	return resp->early && resp->early->head != resp->early->tail;
}

uint32_t early_oldest_psn(const struct responder *resp)
{
	return early_is_open(resp) ? write_at(resp->early, resp->early->head)->pkt->psn : resp->expected_psn;
}

bool early_is_pending(const struct responder *resp)
{
	return resp->early && resp->early->n_pending;
}

/* ---- beginning --------------------------------------------------------------------------------------------------------- */

static const void *source_of(const struct engine_packet *pkt)
{
	if (pkt->n_segs == 0)
		return pkt->data;
	return pkt->n_segs == 1 ? span_pointer(&pkt->segs[0]) : NULL;
}

static bool is_simple(const struct engine_qp *qp, const struct engine_packet *pkt)
{
	const uint8_t all = PACKET_FIRST | PACKET_LAST | PACKET_IMM | PACKET_INVAL;

	return (qp->attr.type == ENGINE_QP_RC || qp->dc.parent) && !qp->service && pkt->kind == PACKET_WRITE &&
	       (pkt->flags & all) == (PACKET_FIRST | PACKET_LAST) && pkt->payload_bytes > 0 &&
	       pkt->payload_bytes == pkt->length_bytes && qp->engine->fault == ENGINE_FAULT_NONE && source_of(pkt);
}

static void write_done(struct engine_memop *op, int status)
{
	struct early_write *write = container_of(op, struct early_write, op);

	write->pending = false;
	write->status = status;
	write->qp->resp.early->n_pending--;
	qp_ready(write->qp);
}

static struct early_queue *get_queue(struct responder *resp)
{
	if (!resp->early)
		resp->early = calloc(1, sizeof(*resp->early));
	return resp->early;
}

static void start(struct engine_qp *qp, struct engine_packet *pkt, const struct mem_span *to)
{
	struct early_queue *queue = qp->resp.early;
	struct early_write *write = write_at(queue, queue->tail++);
	int r;

	*write = (struct early_write){
		.op = {.done = write_done, .owner = qp->engine->owner}, .qp = qp, .pkt = pkt, .mem = engine_mem_ref(to->mem), .pending = true};
	queue->n_pending++;
	r = to->mem->ops->write(to->mem, to->offset, source_of(pkt), pkt->payload_bytes, &write->op);
	if (r != -EINPROGRESS)
		write_done(&write->op, r);
}

/* False: the packet goes the ordinary way. */
bool early_start(struct engine_qp *qp, struct engine_packet *pkt, const struct mem_span *to)
{
	struct responder *resp = &qp->resp;
	const void *order = to->mem->ops->order(to->mem);

	if (!order || !is_simple(qp, pkt) || !get_queue(resp))
		return false;
	resp->early->order = order;
	start(qp, pkt, to);
	resp->expected_psn = psn_add(resp->expected_psn, 1);
	resp->left_bytes = 0;
	resp->done_bytes = pkt->payload_bytes;
	return true;
}

/* ---- the packet behind ------------------------------------------------------------------------------------------------- */

bool early_may_follow(const struct engine_qp *qp, const struct engine_packet *pkt)
{
	const struct early_queue *queue = qp->resp.early;

	return queue->tail - queue->head < EARLY_MOST && pkt->psn == qp->resp.expected_psn && is_simple(qp, pkt);
}

bool early_keeps_order(const struct responder *resp, struct engine_mem *mem)
{
	return mem->ops->order && mem->ops->order(mem) == resp->early->order;
}

/* ---- the end ------------------------------------------------------------------------------------------------------------- */

/* The packet of the first if it has ended, else NULL. The refusal of one that failed ends the QP, so it waits until none is pending. */
struct engine_packet *early_take(struct responder *resp, int *ret_status)
{
	struct early_queue *queue = resp->early;
	struct early_write *write;

	if (likely(!early_is_open(resp)))
		return NULL;
	write = write_at(queue, queue->head);
	if (write->pending || (write->status < 0 && queue->n_pending))
		return NULL;
	queue->head++;
	write->mem = engine_mem_unref(write->mem);
	*ret_status = write->status;
	return write->pkt;
}

/* The QP has stopped: drops all that nothing pending uses any more. */
void early_drop(struct engine_qp *qp)
{
	struct early_queue *queue = qp->resp.early;

	if (likely(!queue))
		return;
	for (uint32_t i = queue->head; i != queue->tail; i++) {
		struct early_write *write = write_at(queue, i);

		if (write->pending || !write->mem)
			continue;
		write->mem = engine_mem_unref(write->mem);
		write->pkt = packet_put(qp->engine, write->pkt);
	}
	if (!queue->n_pending)
		queue->head = queue->tail;
}

void early_free(struct engine_qp *qp)
{
	free(qp->resp.early);
}
