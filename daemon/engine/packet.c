/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets: a bounded pool for each engine.
 *
 * The engine's own thread allocates and frees on a plain list. Other threads (an engine that consumed the
 * packet, a transport that dropped it) push on a lock-free stack, which the owner collects. The pool outlives
 * its engine until the last packet has come back: packet_pool_close() leaves a marker on the stack, and from
 * then on returning packets are only counted.
 */
#include <stdlib.h>

#include "daemon/engine/engine-private.h"

#define POOL_PACKETS 1024u
#define POOL_CLOSED ((struct engine_packet *)1)

/* Nobody's, unless tenant_packet() made it somebody's. */
static void uncharge(struct engine *engine, struct engine_packet *pkt)
{
	struct tenant *tenant = pkt->tenant;

	if (unlikely(!tenant))
		return;
	if (unlikely(pkt->awaited))
		engine->extension->packet_back(engine, pkt);
	if (--tenant->n_packets[pkt->use] == 0)
		tenant_release(engine, tenant);
}

static void pool_free(struct packet_pool *pool)
{
	free(pool->packets);
	free(pool);
}

/* NULL: no memory. */
struct packet_pool *packet_pool_alloc(unsigned int n_packets)
{
	struct packet_pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	/* bounded: by the callers, some thousand at most. */
	pool->packets = aligned_alloc(64, (n_packets * sizeof(struct engine_packet) + 63) & ~(size_t)63);
	if (!pool->packets) {
		free(pool);
		return NULL;
	}
	pool->n_packets = n_packets;
	return pool;
}

int packet_pool_new(struct engine *engine)
{
	engine->pool = packet_pool_alloc(POOL_PACKETS);
	if (!engine->pool)
		return -ENOMEM;
	engine->n_free_packets = POOL_PACKETS;
	return 0;
}

static unsigned int collect(struct engine *engine, struct engine_packet *stack)
{
	unsigned int n = 0;

	while (stack) {
		struct engine_packet *next = packet_stack_next(stack);

		uncharge(engine, stack);
		list_add_head(&engine->free_packets, &stack->link);
		stack = next;
		n++;
	}
	return n;
}

void packet_pool_collect(struct engine *engine)
{
	struct engine_packet **returned = &engine->pool->returned;

	if (!__atomic_load_n(returned, __ATOMIC_RELAXED))
		return;
	engine->n_free_packets +=
		collect(engine, __atomic_exchange_n(returned, NULL, __ATOMIC_ACQUIRE));
}

/* The stack of those that came back meanwhile: none will any more. */
struct engine_packet *packet_pool_shut(struct packet_pool *pool)
{
	return __atomic_exchange_n(&pool->returned, POOL_CLOSED, __ATOMIC_ACQ_REL);
}

/* `n_away` packets are still out. Early returns count below zero, and the last return brings the sum to zero and frees the pool. */
void packet_pool_leave(struct packet_pool *pool, unsigned int n_away)
{
	if (__atomic_add_fetch(&pool->orphans, (int32_t)n_away, __ATOMIC_ACQ_REL) == 0)
		pool_free(pool);
}

void packet_pool_close(struct engine *engine)
{
	struct packet_pool *pool = engine->pool;

	if (!pool)
		return;
	engine->n_free_packets += collect(engine, packet_pool_shut(pool));
	packet_pool_leave(pool, POOL_PACKETS - engine->n_free_packets);
	engine->pool = NULL;
}

struct engine_packet *packet_first_use(struct packet_pool *pool)
{
	struct engine_packet *pkt = &pool->packets[pool->n_used++];

	list_init(&pkt->link);
	pkt->pool = pool;
	pkt->tenant = NULL;
	pkt->awaited = false;
	pkt->service = ENGINE_QP_RC;
	pkt->n_segs = 0;
	return pkt;
}

/* NULL when that would leave less than `reserve` packets. */
struct engine_packet *packet_alloc(struct engine *engine, unsigned int reserve)
{
	struct engine_packet *pkt;
	struct list *link;

	if (engine->n_free_packets <= reserve) {
		packet_pool_collect(engine);
		if (engine->n_free_packets <= reserve)
			return NULL;
	}
	engine->n_free_packets--;
	if (unlikely(list_empty(&engine->free_packets)))
		return packet_first_use(engine->pool);
	link = engine->free_packets.next;
	list_del(link);
	pkt = container_of(link, struct engine_packet, link);
	pkt->tenant = NULL;
	return pkt;
}

void packet_drop_payload(struct engine_packet *pkt)
{
	for (uint32_t i = 0; i < pkt->n_segs; i++)
		engine_mem_unref(pkt->segs[i].mem);
	pkt->n_segs = 0;
	pkt->payload_bytes = 0;
}

void packet_add_seg(struct engine_packet *pkt, const struct mem_span *span)
{
	pkt->segs[pkt->n_segs] = *span;
	pkt->n_segs++;
	engine_mem_ref(span->mem);
}

struct engine_packet *packet_put(struct engine *engine, struct engine_packet *pkt)
{
	if (!pkt)
		return NULL;
	if (pkt->pool != engine->pool)
		return engine_packet_free(pkt);
	packet_drop_payload(pkt);
	uncharge(engine, pkt);
	list_add_head(&engine->free_packets, &pkt->link);
	engine->n_free_packets++;
	return NULL;
}

void packet_put_all(struct engine *engine, struct list *packets)
{
	while (!list_empty(packets)) {
		struct engine_packet *pkt = list_first_entry(packets, struct engine_packet, link);

		list_del(&pkt->link);
		packet_put(engine, pkt);
	}
}

struct engine_packet *engine_packet_free(struct engine_packet *pkt)
{
	struct engine_packet *top;
	struct packet_pool *pool;

	if (!pkt)
		return NULL;
	packet_drop_payload(pkt);
	pool = pkt->pool;
	top = __atomic_load_n(&pool->returned, __ATOMIC_ACQUIRE);
	do {
		if (top == POOL_CLOSED) {
			if (__atomic_sub_fetch(&pool->orphans, 1, __ATOMIC_ACQ_REL) == 0)
				pool_free(pool);
			return NULL;
		}
		pkt->link.next = (struct list *)(void *)top;
	} while (!__atomic_compare_exchange_n(&pool->returned, &top, pkt, true, __ATOMIC_RELEASE,
					      __ATOMIC_ACQUIRE));
	return NULL;
}

struct list *engine_packet_link(struct engine_packet *pkt)
{
	return &pkt->link;
}

struct engine_packet *engine_packet_from_link(struct list *link)
{
	return container_of(link, struct engine_packet, link);
}

uint32_t engine_packet_payload_bytes(const struct engine_packet *pkt)
{
	return pkt->payload_bytes;
}

uint32_t engine_packet_dest_qpn(const struct engine_packet *pkt)
{
	return pkt->dest_qpn;
}

uint32_t engine_packet_src_qpn(const struct engine_packet *pkt)
{
	return pkt->src_qpn;
}

void engine_packet_put(struct engine *engine, struct engine_packet *pkt)
{
	packet_put(engine, pkt);
}
