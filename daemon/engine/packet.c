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

struct packet_pool {
	struct engine_packet *packets;
	unsigned int n_used;		/* packets[] behind it were never handed out, nor touched */
	struct engine_packet *returned; /* atomic: stack by link.next, or POOL_CLOSED */
	int32_t orphans;		/* atomic: packets still away when the engine went */
};

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

/* The stack reuses the link of a packet that is in no list. */
static struct engine_packet *stack_next(const struct engine_packet *pkt)
{
	return (struct engine_packet *)(void *)pkt->link.next;
}

static void pool_free(struct packet_pool *pool)
{
	free(pool->packets);
	free(pool);
}

int packet_pool_new(struct engine *engine)
{
	struct packet_pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return -ENOMEM;
	pool->packets = aligned_alloc(64, POOL_PACKETS * sizeof(struct engine_packet));
	if (!pool->packets) {
		free(pool);
		return -ENOMEM;
	}
	engine->pool = pool;
	engine->n_free_packets = POOL_PACKETS;
	return 0;
}

static unsigned int collect(struct engine *engine, struct engine_packet *stack)
{
	unsigned int n = 0;

	while (stack) {
		struct engine_packet *next = stack_next(stack);

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

void packet_pool_close(struct engine *engine)
{
	struct packet_pool *pool = engine->pool;
	int32_t away;

	if (!pool)
		return;
	engine->n_free_packets += collect(
		engine, __atomic_exchange_n(&pool->returned, POOL_CLOSED, __ATOMIC_ACQ_REL));
	away = (int32_t)(POOL_PACKETS - engine->n_free_packets);
	/* Early returns have counted below zero; whoever brings the sum to zero is the last. */
	if (__atomic_add_fetch(&pool->orphans, away, __ATOMIC_ACQ_REL) == 0)
		pool_free(pool);
	engine->pool = NULL;
}

static struct engine_packet *first_use(struct packet_pool *pool)
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
		return first_use(engine->pool);
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

/* ---- payload that travels in the packet ----------------------------------------------------------------------------- */

struct own_mem {
	struct engine_mem base;
	uint8_t data[];
};

static void *own_pointer(struct engine_mem *mem, uint64_t offset, size_t bytes)
{
	return container_of(mem, struct own_mem, base)->data + offset;
}

static void own_free(struct engine_mem *mem)
{
	free(container_of(mem, struct own_mem, base));
}

static const struct engine_mem_ops own_ops = {.pointer = own_pointer, .free = own_free};

static bool can_be_read(const struct engine_packet *pkt)
{
	for (uint32_t i = 0; i < pkt->n_segs; i++)
		if (!span_pointer(&pkt->segs[i]))
			return false;
	return true;
}

static void gather(const struct engine_packet *pkt, uint8_t *to)
{
	for (uint32_t i = 0; i < pkt->n_segs; i++) {
		copy_bytes(to, span_pointer(&pkt->segs[i]), pkt->segs[i].bytes);
		to += pkt->segs[i].bytes;
	}
}

int engine_packet_own_payload(struct engine *engine, struct engine_packet *pkt)
{
	struct mem_span span = {.bytes = pkt->payload_bytes};
	struct own_mem *own;

	if (!pkt->n_segs || !can_be_read(pkt))
		return 0;
	/* bounded: a packet's payload is at most a chunk. */
	own = malloc(sizeof(*own) + pkt->payload_bytes);
	if (!own)
		return -ENOMEM;
	engine_mem_init(&own->base, &own_ops, pkt->payload_bytes);
	gather(pkt, own->data);
	engine->moved_bytes += pkt->payload_bytes;
	packet_drop_payload(pkt);
	span.mem = &own->base;
	pkt->segs[0] = span;
	pkt->n_segs = 1;
	pkt->payload_bytes = span.bytes;
	return 0;
}
