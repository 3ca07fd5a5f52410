/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets as bytes: a header, what its kind or service adds, the payload. In the order of the host, since both ends are on one;
 * a wire to other nodes has a pair of functions like these.
 *
 * The reader is the border: it checks everything of a header that the engine relies on, once, in a copy of its own. The payload
 * may change while it is read, as a client's memory may. Refuses unreliable services, whose packets nobody answers.
 */
#include "daemon/engine/engine-private.h"

#define MAX_CHUNK_BYTES (1u << 20)
#define MIN_CHUNK_BYTES 256u
#define NUMBER_MASK 0xffffffu
#define RNR_TIMER_MOST 31u
#define ALL_FLAGS \
	(PACKET_FIRST | PACKET_LAST | PACKET_IMM | PACKET_SOLICITED | PACKET_ACK_REQ | PACKET_INVAL)

struct header {
	uint8_t kind, flags, nak, rnr_timer;
	uint8_t service;
	uint8_t atomic_bytes, is_compare_swap; /* of an ATOMIC */
	uint8_t zero;
	uint32_t dest_qpn, src_qpn;
	uint32_t source;
	uint32_t psn;
	uint32_t imm;
	uint32_t payload_bytes;
	uint32_t rkey;
	uint32_t mtu_bytes;
	uint64_t raddr;
	uint64_t length_bytes;
};

/* Behind it, of an ATOMIC. */
struct atomic_words {
	uint64_t swap_or_add, compare, swap_mask, compare_mask, boundary;
};

/* Behind it, of DC and XRC. */
struct service_words {
	uint64_t key, connection;
	uint64_t number; /* first_psn, srqn */
};

struct any_header {
	struct header header;
	uint64_t words[8];
};

_Static_assert(sizeof(struct header) == 56, "no holes");
_Static_assert(sizeof(struct any_header) == ENGINE_PACKET_MAX_BYTES, "with both");

static bool is_of_dc(uint8_t service)
{
	return service == ENGINE_QP_DCI || service == ENGINE_QP_DCT;
}

static bool is_of_xrc(uint8_t service)
{
	return service == ENGINE_QP_XRC_INI || service == ENGINE_QP_XRC_TGT;
}

static size_t header_bytes(uint8_t kind, uint8_t service)
{
	return sizeof(struct header) + (kind == PACKET_ATOMIC ? sizeof(struct atomic_words) : 0) +
	       (is_of_dc(service) || is_of_xrc(service) ? sizeof(struct service_words) : 0);
}

bool engine_packet_is_request(const struct engine_packet *pkt)
{
	return packet_is_request(pkt->kind);
}

/* ---- writing ---------------------------------------------------------------------------------------------------------- */

int engine_packet_bytes(const struct engine_packet *pkt)
{
	if (unlikely(pkt->service != ENGINE_QP_RC && !is_of_dc(pkt->service) && !is_of_xrc(pkt->service)))
		return -EOPNOTSUPP;
	for (uint32_t i = 0; i < pkt->n_segs; i++)
		if (!span_pointer(&pkt->segs[i]))
			return -EOPNOTSUPP;
	/* bounded: a payload is a chunk. */
	return (int)(header_bytes(pkt->kind, pkt->service) + pkt->payload_bytes);
}

/* Where the next bytes go, or come from. */
struct cursor {
	const struct engine_piece *pieces;
	size_t at;
};

/* `bytes` of them, less at the end of a piece. */
static uint8_t *advance(struct cursor *cursor, size_t *bytes)
{
	bool second = cursor->at >= cursor->pieces[0].bytes;
	const struct engine_piece *piece = &cursor->pieces[second];
	size_t offset = second ? cursor->at - cursor->pieces[0].bytes : cursor->at;

	if (*bytes > piece->bytes - offset)
		*bytes = piece->bytes - offset;
	cursor->at += *bytes;
	return piece->at + offset;
}

static void put(struct cursor *to, const void *from, size_t bytes)
{
	while (bytes > 0) {
		size_t n = bytes;
		uint8_t *at = advance(to, &n);

		copy_bytes(at, from, n); /* a client may write the payload meanwhile */
		from = (const uint8_t *)from + n;
		bytes -= n;
	}
}

static void get(struct cursor *from, void *to, size_t bytes)
{
	while (bytes > 0) {
		size_t n = bytes;
		const uint8_t *at = advance(from, &n);

		memcpy(to, at, n);
		to = (uint8_t *)to + n;
		bytes -= n;
	}
}

static void fill_words(const struct engine_packet *pkt, uint64_t *words)
{
	const struct engine_atomic *a = &pkt->atomic;

	if (pkt->kind == PACKET_ATOMIC) {
		*(struct atomic_words *)words = (struct atomic_words){
			a->swap_or_add, a->compare, a->swap_mask, a->compare_mask, a->boundary};
		words += sizeof(struct atomic_words) / sizeof(*words);
	}
	if (is_of_dc(pkt->service))
		*(struct service_words *)words =
			(struct service_words){pkt->dc.key, pkt->dc.connection, pkt->dc.first_psn};
	else
		*(struct service_words *)words = (struct service_words){0, 0, pkt->xrc.srqn};
}

/* Fields that this kind does not have may hold anything, since packets are used again: they stay here. */
static void fill_header(const struct engine_packet *pkt, uint32_t source, struct header *h)
{
	bool is_nak = pkt->kind == PACKET_NAK, is_atomic = pkt->kind == PACKET_ATOMIC;
	bool names_memory = pkt->kind == PACKET_WRITE || pkt->kind == PACKET_READ || is_atomic;

	*h = (struct header){
		.kind = pkt->kind,
		.flags = pkt->flags,
		.nak = is_nak ? pkt->nak : 0,
		.rnr_timer = is_nak ? pkt->rnr_timer : 0,
		.service = pkt->service,
		.atomic_bytes = is_atomic ? pkt->atomic.bytes : 0,
		.is_compare_swap = is_atomic && pkt->atomic.is_compare_swap,
		.dest_qpn = pkt->dest_qpn,
		.src_qpn = pkt->src_qpn,
		.source = source,
		.psn = pkt->kind == PACKET_DC_CLOSE ? 0 : pkt->psn,
		.imm = pkt->flags & (PACKET_IMM | PACKET_INVAL) ? pkt->imm : 0,
		.payload_bytes = pkt->payload_bytes,
		.rkey = names_memory ? pkt->rkey : 0,
		.mtu_bytes = pkt->kind == PACKET_READ ? pkt->mtu_bytes : 0,
		.raddr = names_memory ? pkt->raddr : 0,
		.length_bytes = names_memory ? pkt->length_bytes : 0,
	};
}

static void put_payload(struct cursor *to, const struct engine_packet *pkt)
{
	if (!pkt->n_segs)
		put(to, pkt->data, pkt->payload_bytes);
	for (uint32_t i = 0; i < pkt->n_segs; i++)
		put(to, span_pointer(&pkt->segs[i]), pkt->segs[i].bytes);
}

void engine_packet_write(struct engine *engine, const struct engine_packet *pkt, uint32_t source,
			 const struct engine_piece to[2])
{
	size_t bytes = header_bytes(pkt->kind, pkt->service);
	struct cursor cursor = {.pieces = to};
	struct any_header any;

	fill_header(pkt, source, &any.header);
	if (unlikely(bytes > sizeof(struct header)))
		fill_words(pkt, any.words);
	put(&cursor, &any, bytes);
	put_payload(&cursor, pkt);
	engine->moved_bytes += pkt->payload_bytes;
}

/* ---- reading ----------------------------------------------------------------------------------------------------------- */

struct packet_pool *engine_packets_new(unsigned int n)
{
	return packet_pool_alloc(n);
}

struct packet_pool *engine_packets_free(struct packet_pool *pool)
{
	struct engine_packet *pkt;
	unsigned int n_away;

	if (!pool)
		return NULL;
	n_away = pool->n_used;
	for (pkt = packet_pool_shut(pool); pkt; pkt = packet_stack_next(pkt))
		n_away--;
	for (pkt = pool->spare; pkt; pkt = packet_stack_next(pkt))
		n_away--;
	packet_pool_leave(pool, n_away);
	return NULL;
}

bool engine_packets_left(const struct packet_pool *pool)
{
	return pool->spare || pool->n_used < pool->n_packets || __atomic_load_n(&pool->returned, __ATOMIC_RELAXED);
}

static struct engine_packet *take_packet(struct packet_pool *pool)
{
	struct engine_packet *pkt;

	if (!pool->spare && __atomic_load_n(&pool->returned, __ATOMIC_RELAXED))
		pool->spare = __atomic_exchange_n(&pool->returned, NULL, __ATOMIC_ACQUIRE);
	if (!pool->spare)
		return pool->n_used < pool->n_packets ? packet_first_use(pool) : NULL;
	pkt = pool->spare;
	pool->spare = packet_stack_next(pkt);
	list_init(&pkt->link);
	return pkt;
}

static bool has_payload(uint8_t kind)
{
	return kind == PACKET_WRITE || kind == PACKET_SEND || kind == PACKET_READ_RESPONSE ||
	       kind == PACKET_ATOMIC_RESPONSE;
}

static bool atomic_is_valid(const struct header *h)
{
	if (h->kind != PACKET_ATOMIC)
		return !h->atomic_bytes && !h->is_compare_swap;
	return (h->atomic_bytes == 4 || h->atomic_bytes == 8) && h->is_compare_swap <= 1;
}

/* The chunk of a READ: a power of two. */
static bool mtu_is_valid(const struct header *h)
{
	return h->kind != PACKET_READ || (h->mtu_bytes >= MIN_CHUNK_BYTES && h->mtu_bytes <= MAX_CHUNK_BYTES &&
					  !(h->mtu_bytes & (h->mtu_bytes - 1)));
}

static bool payload_is_valid(const struct header *h)
{
	if (h->kind == PACKET_ATOMIC_RESPONSE)
		return h->payload_bytes == 4 || h->payload_bytes == 8;
	return h->payload_bytes <= (has_payload(h->kind) ? MAX_CHUNK_BYTES : 0);
}

static bool length_is_valid(const struct header *h)
{
	bool counts = h->kind == PACKET_READ || (h->kind == PACKET_WRITE && h->flags & PACKET_FIRST);

	return !counts || (h->length_bytes <= WQE_MAX_MESSAGE_BYTES && h->payload_bytes <= h->length_bytes);
}

static bool header_is_valid(const struct header *h)
{
	return h->kind <= PACKET_NAK && !(h->flags & ~ALL_FLAGS) && h->nak <= NAK_OUTCOME_UNKNOWN &&
	       h->rnr_timer <= RNR_TIMER_MOST && !h->zero &&
	       (h->service == ENGINE_QP_RC || is_of_dc(h->service) || is_of_xrc(h->service)) &&
	       h->dest_qpn <= NUMBER_MASK && h->src_qpn <= NUMBER_MASK && h->psn <= PSN_MASK && atomic_is_valid(h) &&
	       mtu_is_valid(h) && payload_is_valid(h) && length_is_valid(h);
}

/* The words behind the header are copied before they are looked at, as it was. */
static bool take_words(const struct header *h, const uint64_t *words, struct engine_packet *pkt)
{
	const struct service_words *service;

	if (h->kind == PACKET_ATOMIC) {
		const struct atomic_words *a = (const struct atomic_words *)words;

		pkt->atomic = (struct engine_atomic){h->is_compare_swap, h->atomic_bytes, a->swap_or_add,
						     a->compare, a->swap_mask, a->compare_mask, a->boundary};
		words += sizeof(*a) / sizeof(*words);
	}
	service = (const struct service_words *)words;
	if (is_of_dc(h->service)) {
		pkt->dc = (struct packet_dc){service->key, service->connection, (uint32_t)service->number};
		return service->number <= PSN_MASK;
	}
	pkt->xrc.srqn = (uint32_t)service->number;
	return !is_of_xrc(h->service) || (service->number <= NUMBER_MASK && !service->key && !service->connection);
}

static void take_header(const struct header *h, struct engine_packet *pkt)
{
	pkt->kind = h->kind;
	pkt->flags = h->flags;
	pkt->nak = h->nak;
	pkt->rnr_timer = h->rnr_timer;
	pkt->service = h->service;
	pkt->dest_qpn = h->dest_qpn;
	pkt->src_qpn = h->src_qpn;
	pkt->source = NULL;
	pkt->psn = h->psn;
	pkt->imm = h->imm;
	pkt->payload_bytes = h->payload_bytes;
	pkt->rkey = h->rkey;
	pkt->mtu_bytes = h->mtu_bytes;
	pkt->raddr = h->raddr;
	pkt->length_bytes = h->length_bytes;
	pkt->n_segs = 0;
}

/* A small payload is copied; a large one stays, in the pieces that it lies in. */
static void take_payload(struct cursor *from, struct engine_mem *mem, struct engine_packet *pkt)
{
	uint32_t left = pkt->payload_bytes;

	if (left <= PACKET_DATA_BYTES) {
		get(from, pkt->data, left);
		return;
	}
	while (left > 0) {
		struct mem_span span = {.mem = mem, .offset = from->at};
		size_t n = left;

		advance(from, &n);
		span.bytes = (uint32_t)n;
		packet_add_seg(pkt, &span);
		left -= span.bytes;
	}
}

/* The header and the words behind it. -EBADMSG also if that and the payload are not all that there is. */
static int get_header(struct cursor *from, size_t bytes, struct any_header *any)
{
	const struct header *h = &any->header;
	size_t n;

	if (bytes < sizeof(*h))
		return -EBADMSG;
	get(from, &any->header, sizeof(*h));
	if (!header_is_valid(h))
		return -EBADMSG;
	n = header_bytes(h->kind, h->service);
	if (bytes != n + h->payload_bytes)
		return -EBADMSG;
	get(from, any->words, n - sizeof(*h));
	return 0;
}

int engine_packet_read(struct packet_pool *packets, const struct engine_piece from[2], struct engine_mem *mem,
		       uint32_t *ret_source, struct engine_packet **ret_pkt)
{
	struct cursor cursor = {.pieces = from};
	struct any_header any = {0};
	struct engine_packet *pkt;
	/* bounded: the caller's memory has them all. */
	int r = get_header(&cursor, from[0].bytes + from[1].bytes, &any);

	if (r < 0)
		return r;
	pkt = take_packet(packets);
	if (!pkt)
		return -ENOBUFS;
	take_header(&any.header, pkt);
	if (!take_words(&any.header, any.words, pkt)) {
#ifdef FUZZ_PLANT
		if (PLANTED("packet") && any.header.kind == PACKET_ATOMIC)
			return -EBADMSG;
#endif
		engine_packet_free(pkt);
		return -EBADMSG;
	}
	take_payload(&cursor, mem, pkt);
	*ret_source = any.header.source;
	*ret_pkt = pkt;
	return 0;
}

void engine_packet_set_source(struct engine_packet *pkt, const void *source)
{
	pkt->source = source;
}
