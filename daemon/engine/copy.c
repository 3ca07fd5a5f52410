/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payload of a packet to local memory, once.
 *
 * Between two addressable spans a step is a memcpy; where one side is not addressable its own operation reads or
 * writes the other side directly; only between two unaddressable spans the data pass through a bounce buffer of
 * the engine, of which there are few, so a copy may have to wait for one. Operations may complete later: the
 * copy then takes references of its destinations, returns -EINPROGRESS, and its QP is put on the ready list when
 * the operation ends.
 *
 * Also here: the stores themselves. An aligned word of 1, 2, 4 or 8 bytes is one store with release order, so
 * that a poller of a flag word never sees half of it nor the flag before earlier data.
 */
#include <stdlib.h>

#include "daemon/engine/engine-private.h"

int bounce_init(struct engine *engine)
{
	/* Not touched until used. */
	engine->bounce_memory = malloc((size_t)N_BOUNCE * BOUNCE_BYTES);
	if (!engine->bounce_memory)
		return -ENOMEM;
	for (unsigned int i = 0; i < N_BOUNCE; i++)
		engine->bounce_free[i] =
			(uint8_t *)engine->bounce_memory + (size_t)i * BOUNCE_BYTES;
	engine->n_bounce_free = N_BOUNCE;
	return 0;
}

static void bounce_put(struct engine *engine, void *bounce)
{
	struct copy *waiter;

	engine->bounce_free[engine->n_bounce_free++] = bounce;
	if (list_empty(&engine->bounce_waiters))
		return;
	waiter = list_first_entry(&engine->bounce_waiters, struct copy, bounce_link);
	list_del(&waiter->bounce_link);
	qp_ready(waiter->qp);
}

/*
 * The writes of earlier requests come before the plain stores of a large copy, as behind a NIC with strict ordering: a
 * peer that finds one of the later bytes finds all of the earlier ones. TSan knows no fences, and needs none here.
 */
static void order_large_copy(void)
{
#if !defined(__SANITIZE_THREAD__)
	__atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

void copy_bytes(void *dst, const void *src, size_t bytes)
{
	uintptr_t both = (uintptr_t)dst | (uintptr_t)src;

	if (bytes == 8 && !(both & 7))
		__atomic_store_n((uint64_t *)dst,
				 __atomic_load_n((const uint64_t *)src, __ATOMIC_ACQUIRE),
				 __ATOMIC_RELEASE);
	else if (bytes == 4 && !(both & 3))
		__atomic_store_n((uint32_t *)dst,
				 __atomic_load_n((const uint32_t *)src, __ATOMIC_ACQUIRE),
				 __ATOMIC_RELEASE);
	else if (bytes == 2 && !(both & 1))
		__atomic_store_n((uint16_t *)dst,
				 __atomic_load_n((const uint16_t *)src, __ATOMIC_ACQUIRE),
				 __ATOMIC_RELEASE);
	else if (bytes == 1)
		__atomic_store_n((uint8_t *)dst,
				 __atomic_load_n((const uint8_t *)src, __ATOMIC_ACQUIRE),
				 __ATOMIC_RELEASE);
	else {
		order_large_copy();
		memmove(dst, src, bytes); /* a client may copy within one region */
	}
}

void engine_memop_done(struct engine_memop *op, int status)
{
	op->done(op, status);
}

static void step_done(struct engine_memop *op, int status)
{
	struct copy *copy = container_of(op, struct copy, op);

	copy->op_pending = false;
	copy->op_status = status;
	qp_ready(copy->qp);
}

void copy_init(struct copy *copy, struct engine_qp *qp)
{
	copy->op.done = step_done;
	copy->qp = qp;
	copy->pkt = NULL;
	list_init(&copy->bounce_link);
	copy->bounce = NULL;
	copy->n_dst = 0;
	copy->op_pending = false;
	copy->has_refs = false;
}

bool copy_is_pending(const struct copy *copy)
{
	return copy->op_pending;
}

static void take_refs(struct copy *copy)
{
	if (copy->has_refs)
		return;
	copy->has_refs = true;
	for (unsigned int i = 0; i < copy->n_dst; i++)
		engine_mem_ref(copy->dst_spans[i].mem);
}

/* Back to idle, from any phase in which no operation is pending. */
void copy_end(struct copy *copy)
{
	if (copy->has_refs) {
		for (unsigned int i = 0; i < copy->n_dst; i++)
			engine_mem_unref(copy->dst_spans[i].mem);
		copy->has_refs = false;
	}
	if (copy->bounce) {
		bounce_put(copy->qp->engine, copy->bounce);
		copy->bounce = NULL;
	}
	if (!list_empty(&copy->bounce_link))
		list_del(&copy->bounce_link);
	copy->pkt = NULL;
	copy->n_dst = 0;
	copy->header = NULL;
}

static bool fault_hits(struct engine *engine)
{
	if (likely(engine->fault != ENGINE_FAULT_FLIP_PAYLOAD_BYTE))
		return false;
	return engine->fault_left && --engine->fault_left == 0;
}

/* The rest of the present source, without memory when the payload lies in the packet. */
static struct mem_span source_span(const struct copy *copy)
{
	const struct engine_packet *pkt = copy->pkt;
	struct mem_span span;

	if (unlikely(copy->header))
		return (struct mem_span){NULL, copy->src_offset, copy->header_bytes - copy->src_offset};
	if (!pkt->n_segs)
		return (struct mem_span){NULL, copy->src_offset,
					 pkt->payload_bytes - copy->src_offset};
	span = pkt->segs[copy->src];
	span.offset += copy->src_offset;
	span.bytes -= copy->src_offset;
	return span;
}

static const void *source_pointer(const struct copy *copy, const struct mem_span *span)
{
	/* bounded: offsets within the packet. */
	if (unlikely(copy->header))
		return copy->header + span->offset;
	return span->mem ? span_pointer(span) : copy->pkt->data + span->offset;
}

static struct mem_span target_span(const struct copy *copy)
{
	struct mem_span span = copy->dst_spans[copy->dst];

	span.offset += copy->dst_offset;
	span.bytes -= copy->dst_offset;
	return span;
}

static void advance(struct copy *copy)
{
	copy->qp->engine->moved_bytes += copy->step;
	copy->left_bytes -= copy->step;
	copy->src_offset += copy->step;
	copy->dst_offset += copy->step;
	if (unlikely(copy->header)) {
		if (copy->src_offset == copy->header_bytes) {
			copy->header = NULL;
			copy->src_offset = 0;
		}
	} else if (copy->pkt->n_segs && copy->src_offset == copy->pkt->segs[copy->src].bytes) {
		copy->src++;
		copy->src_offset = 0;
	}
	if (copy->dst_offset == copy->dst_spans[copy->dst].bytes) {
		copy->dst++;
		copy->dst_offset = 0;
	}
	copy->phase = COPY_NEXT;
}

/* Handles an operation's result; an operation may also have completed inside the call. */
static int issued(struct copy *copy, int r)
{
	if (r == -EINPROGRESS) {
		if (!copy->op_pending)
			return copy->op_status;
		take_refs(copy);
		return r;
	}
	copy->op_pending = false;
	return r;
}

static int issue_write(struct copy *copy, const struct mem_span *dst, const void *src)
{
	copy->phase = COPY_MOVED;
	copy->op_pending = true;
	copy->op_status = 0;
	return issued(copy,
		      dst->mem->ops->write(dst->mem, dst->offset, src, copy->step, &copy->op));
}

static int issue_read(struct copy *copy, const struct mem_span *src, void *dst,
		      enum copy_phase next)
{
	copy->phase = next;
	copy->op_pending = true;
	copy->op_status = 0;
	return issued(copy, src->mem->ops->read(src->mem, src->offset, dst, copy->step, &copy->op));
}

/* Take a bounce buffer or queue for one: -EINPROGRESS without a pending operation. */
static int bounce_get(struct copy *copy)
{
	struct engine *engine = copy->qp->engine;

	if (copy->bounce)
		return 0;
	if (!engine->n_bounce_free) {
		if (list_empty(&copy->bounce_link))
			list_add_tail(&engine->bounce_waiters, &copy->bounce_link);
		take_refs(copy);
		return -EINPROGRESS;
	}
	if (!list_empty(&copy->bounce_link))
		list_del(&copy->bounce_link);
	copy->bounce = engine->bounce_free[--engine->n_bounce_free];
	return 0;
}

static int step_bounce(struct copy *copy, const struct mem_span *src, const void *from)
{
	int r = bounce_get(copy);

	if (r < 0)
		return r;
	if (copy->step > BOUNCE_BYTES)
		copy->step = BOUNCE_BYTES;
	copy->phase = COPY_BOUNCE_FULL;
	if (!from)
		return issue_read(copy, src, copy->bounce, COPY_BOUNCE_FULL);
	memcpy(copy->bounce, from, copy->step);
	return 0;
}

/* Choose how the next bytes travel and start them. */
static int step_next(struct copy *copy)
{
	struct mem_span src = source_span(copy);
	struct mem_span dst = target_span(copy);
	const void *from;
	void *to;

	copy->step = src.bytes < dst.bytes ? src.bytes : dst.bytes;
	if (copy->step > copy->left_bytes)
		copy->step = copy->left_bytes;
	if (unlikely(copy->flip))
		copy->step = 1;
	src.bytes = copy->step;
	dst.bytes = copy->step;
	from = source_pointer(copy, &src);
	if (unlikely(copy->flip))
		return step_bounce(copy, &src, from);
	to = span_pointer(&dst);
	if (from && to) {
		copy_bytes(to, from, copy->step);
		copy->phase = COPY_MOVED;
		return 0;
	}
	if (from)
		return issue_write(copy, &dst, from);
	if (to)
		return issue_read(copy, &src, to, COPY_MOVED);
	return step_bounce(copy, &src, NULL);
}

static int step_empty_bounce(struct copy *copy)
{
	struct mem_span dst = target_span(copy);
	void *to;

	if (unlikely(copy->flip)) {
		*(uint8_t *)copy->bounce ^= 0x01;
		copy->flip = false;
	}
	dst.bytes = copy->step;
	to = span_pointer(&dst);
	if (!to)
		return issue_write(copy, &dst, copy->bounce);
	copy_bytes(to, copy->bounce, copy->step);
	copy->phase = COPY_MOVED;
	return 0;
}

static int run(struct copy *copy)
{
	int r = 0;

	while (r == 0) {
		if (copy->phase == COPY_MOVED)
			advance(copy);
		if (!copy->left_bytes)
			break;
		r = copy->phase == COPY_BOUNCE_FULL ? step_empty_bounce(copy) : step_next(copy);
	}
	if (r != -EINPROGRESS)
		copy_end(copy);
	return r;
}

static int begin(struct copy *copy, struct engine_packet *pkt, uint32_t bytes)
{
	copy->pkt = pkt;
	copy->left_bytes = bytes;
	copy->src = copy->dst = 0;
	copy->src_offset = copy->dst_offset = 0;
	copy->phase = COPY_NEXT;
	return run(copy);
}

/*
 * Copy the payload of `pkt` to the spans added by copy_add_dst(), which must hold at least as much. 0 done,
 * -EINPROGRESS: call copy_continue() at the QP's next turn, the packet stays; other errors: failed, some bytes
 * may have been written.
 */
int copy_start(struct copy *copy, struct engine_packet *pkt)
{
	copy->flip = fault_hits(copy->qp->engine);
	/* The common case: one span to one span, both addressable. */
	if (likely(copy->n_dst == 1 && pkt->n_segs <= 1 && !copy->flip)) {
		struct mem_span dst = copy->dst_spans[0];
		const void *from = pkt->data;
		void *to;

		dst.bytes = pkt->payload_bytes;
		to = span_pointer(&dst);
		if (pkt->n_segs)
			from = span_pointer(&pkt->segs[0]);
		if (likely(from && to)) {
			copy_bytes(to, from, pkt->payload_bytes);
			copy->qp->engine->moved_bytes += pkt->payload_bytes;
			copy->n_dst = 0;
			return 0;
		}
	}
	return begin(copy, pkt, pkt->payload_bytes);
}

/* The same with a header in front of the payload, which must stay as long as the packet. */
int copy_start_behind(struct copy *copy, struct engine_packet *pkt, const uint8_t *header, uint32_t header_bytes)
{
	copy->flip = fault_hits(copy->qp->engine);
	copy->header = header;
	copy->header_bytes = header_bytes;
	/* bounded: the caller's header is that of a datagram. */
	return begin(copy, pkt, header_bytes + pkt->payload_bytes);
}

int copy_continue(struct copy *copy)
{
	int r = copy->op_status;

	if (copy->op_pending)
		return -EINPROGRESS;
	copy->op_status = 0;
	if (r < 0) {
		copy_end(copy);
		return r;
	}
	return run(copy);
}
