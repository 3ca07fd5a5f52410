/* SPDX-License-Identifier: Apache-2.0 */
/* Packets as bytes: all kinds come back as they were, at any border between pieces, and what is no packet is refused. */
#include <string.h>

#include "daemon/engine/engine-private.h"
#include "fixture.h"
#include "tests/lib/test.h"

#define MOST 4096u
#define PAYLOAD 3000u
#define SOURCE 0x1234u
#define N_PACKETS 2u

/* Memory of the sender, and where bytes arrive. */
struct memory {
	struct engine_mem mem;
	uint8_t bytes[MOST];
};

struct lab {
	struct world w;
	struct packet_pool *packets;
	struct memory sender, received;
};

static void *memory_pointer(struct engine_mem *mem, uint64_t offset, size_t bytes)
{
	ASSERT_LE(offset + bytes, (uint64_t)MOST);
	return container_of(mem, struct memory, mem)->bytes + offset;
}

static const struct engine_mem_ops memory_ops = {.pointer = memory_pointer};

static void lab_init(struct lab *l)
{
	world_init(&l->w, MEM_POINTER);
	l->packets = engine_packets_new(N_PACKETS);
	ASSERT(l->packets);
	engine_mem_init(&l->sender.mem, &memory_ops, MOST);
	engine_mem_init(&l->received.mem, &memory_ops, MOST);
	for (uint32_t i = 0; i < MOST; i++)
		l->sender.bytes[i] = (uint8_t)(i * 7);
}

static void lab_deinit(struct lab *l)
{
	engine_packets_free(l->packets);
	ASSERT_EQ(l->sender.mem.refs, 1u);
	ASSERT_EQ(l->received.mem.refs, 1u);
	world_deinit(&l->w);
}

static struct engine_packet *new_packet(struct lab *l, enum packet_kind kind, enum engine_qp_type service)
{
	struct engine_packet *pkt = packet_alloc(l->w.nodes[0].engine, 0);

	ASSERT(pkt);
	pkt->kind = (uint8_t)kind;
	pkt->flags = PACKET_FIRST | PACKET_LAST | PACKET_IMM;
	pkt->nak = NAK_REMOTE_ACCESS;
	pkt->rnr_timer = 31;
	pkt->service = (uint8_t)service;
	pkt->dest_qpn = 0xffffff;
	pkt->src_qpn = 0x123456;
	pkt->source = l;
	pkt->psn = 0xfffff0;
	pkt->imm = 0xdeadbeef;
	pkt->payload_bytes = 0;
	pkt->rkey = 0x7700;
	pkt->mtu_bytes = 65536;
	pkt->raddr = ~0ull;
	pkt->length_bytes = 1u << 31;
	pkt->n_segs = 0;
	return pkt;
}

static size_t write_packet(struct lab *l, const struct engine_packet *pkt)
{
	const struct engine_piece to[2] = {{l->received.bytes, MOST}};
	int n = engine_packet_bytes(pkt);

	ASSERT_GT(n, 0);
	ASSERT_LE(n, (int)MOST);
	engine_packet_write(l->w.nodes[0].engine, pkt, SOURCE, to);
	return (size_t)n;
}

/* Reads the bytes that lie there, with a border after the first `border`. */
static int read_at(struct lab *l, size_t n, size_t border, struct engine_packet **ret_pkt)
{
	const struct engine_piece from[2] = {{l->received.bytes, border}, {l->received.bytes + border, n - border}};
	uint32_t source = 0;
	int r = engine_packet_read(l->packets, from, &l->received.mem, &source, ret_pkt);

	ASSERT(r < 0 || source == SOURCE);
	return r;
}

static void expect_same(const struct engine_packet *a, const struct engine_packet *b)
{
	ASSERT_EQ(a->kind, b->kind);
	ASSERT_EQ(a->flags, b->flags);
	if (a->kind == PACKET_NAK) {
		ASSERT_EQ(a->nak, b->nak);
		ASSERT_EQ(a->rnr_timer, b->rnr_timer);
	}
	ASSERT_EQ(a->service, b->service);
	ASSERT_EQ(a->dest_qpn, b->dest_qpn);
	ASSERT_EQ(a->src_qpn, b->src_qpn);
	ASSERT(a->psn == b->psn || b->kind == PACKET_DC_CLOSE);
	ASSERT_EQ(a->imm, b->imm);
	ASSERT_EQ(a->payload_bytes, b->payload_bytes);
	if (a->kind == PACKET_READ)
		ASSERT_EQ(a->mtu_bytes, b->mtu_bytes);
	if (a->kind == PACKET_SEND || a->kind > PACKET_ATOMIC)
		return;
	ASSERT_EQ(a->rkey, b->rkey);
	ASSERT_EQ(a->raddr, b->raddr);
	ASSERT_EQ(a->length_bytes, b->length_bytes);
}

static void expect_payload(const struct engine_packet *pkt, const uint8_t *bytes)
{
	for (uint32_t i = 0; i < pkt->n_segs; i++) {
		ASSERT_MEMEQ(span_pointer(&pkt->segs[i]), bytes, pkt->segs[i].bytes);
		bytes += pkt->segs[i].bytes;
	}
	if (!pkt->n_segs)
		ASSERT_MEMEQ(pkt->data, bytes, pkt->payload_bytes);
}

/* The struct has a hole, so its bytes may differ. */
static void expect_same_atomic(const struct engine_atomic *a, const struct engine_atomic *b)
{
	ASSERT_EQ(a->is_compare_swap, b->is_compare_swap);
	ASSERT_EQ(a->bytes, b->bytes);
	ASSERT_EQ(a->swap_or_add, b->swap_or_add);
	ASSERT_EQ(a->compare, b->compare);
	ASSERT_EQ(a->swap_mask, b->swap_mask);
	ASSERT_EQ(a->compare_mask, b->compare_mask);
	ASSERT_EQ(a->boundary, b->boundary);
}

TEST(every_kind_comes_back_as_it_was_whatever_the_border)
{
	static const enum engine_qp_type services[] = {ENGINE_QP_RC, ENGINE_QP_DCI, ENGINE_QP_DCT, ENGINE_QP_XRC_INI};
	struct lab l;

	lab_init(&l);
	for (unsigned int kind = PACKET_WRITE; kind <= PACKET_NAK; kind++) {
		for (unsigned int s = 0; s < 4; s++) {
			struct engine_packet *pkt = new_packet(&l, kind, services[s]), *back;
			const struct engine_atomic atomic = {true, 4, 1, 2, 3, 4, 5};
			size_t n;

			pkt->dc = (struct packet_dc){~0ull, 77, 0xabcdef};
			if (s == 3)
				pkt->xrc = (struct packet_xrc){0x555};
			pkt->atomic = atomic;
			if (kind == PACKET_ATOMIC_RESPONSE)
				pkt->payload_bytes = 8;
			n = write_packet(&l, pkt);
			for (size_t border = 0; border <= n; border++) {
				ASSERT_OK(read_at(&l, n, border, &back));
				expect_same(back, pkt);
				if (kind == PACKET_ATOMIC)
					expect_same_atomic(&back->atomic, &atomic);
				if (s == 1 || s == 2)
					ASSERT_EQ(back->dc.first_psn, 0xabcdefu);
				if (s == 3)
					ASSERT_EQ(back->xrc.srqn, 0x555u);
				engine_packet_free(back);
			}
			packet_put(l.w.nodes[0].engine, pkt);
		}
	}
	lab_deinit(&l);
}

/* Small payloads are copied; of large ones the bytes stay where they are, and are referred to. */
TEST(payload_of_any_length_arrives_whatever_the_border)
{
	static const uint32_t lengths[] = {1, 2, 4, 7, 8, 128, 1024, 1025, PAYLOAD};
	struct lab l;

	lab_init(&l);
	for (unsigned int i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct engine_packet *pkt = new_packet(&l, PACKET_WRITE, ENGINE_QP_RC), *back;
		struct mem_span spans[2] = {{&l.sender.mem, 5, (lengths[i] + 1) / 2},
					    {&l.sender.mem, 5 + (lengths[i] + 1) / 2, lengths[i] / 2}};
		size_t n;

		packet_add_seg(pkt, &spans[0]);
		packet_add_seg(pkt, &spans[1]);
		pkt->payload_bytes = lengths[i];
		n = write_packet(&l, pkt);
		for (size_t border = 0; border <= n; border += 1 + border / 100) {
			ASSERT_OK(read_at(&l, n, border, &back));
			expect_payload(back, l.sender.bytes + 5);
			ASSERT_EQ(back->n_segs > 0, lengths[i] > 1024);
			ASSERT_EQ(l.received.mem.refs, 1 + back->n_segs);
			engine_packet_free(back);
		}
		packet_put(l.w.nodes[0].engine, pkt);
	}
	lab_deinit(&l);
}

TEST(packets_for_what_is_read_are_bounded_and_outlive_their_owner)
{
	struct engine_packet *pkt, *back[N_PACKETS], *more;
	struct lab l;
	size_t n;

	lab_init(&l);
	pkt = new_packet(&l, PACKET_ACK, ENGINE_QP_RC);
	n = write_packet(&l, pkt);
	packet_put(l.w.nodes[0].engine, pkt);
	for (unsigned int round = 0; round < 3; round++) {
		for (unsigned int i = 0; i < N_PACKETS; i++)
			ASSERT_OK(read_at(&l, n, n, &back[i]));
		ASSERT(!engine_packets_left(l.packets));
		ASSERT_ERR(read_at(&l, n, n, &more), ENOBUFS);
		engine_packet_free(back[0]);
		ASSERT(engine_packets_left(l.packets));
		if (round < 2)
			engine_packet_free(back[1]);
	}
	l.packets = engine_packets_free(l.packets);
	engine_packet_free(back[1]);
	lab_deinit(&l);
}

/* One byte or word of a good packet is another: then it is refused, or every field is what the engine can do with. */
TEST(no_altered_header_is_believed)
{
	struct engine_packet *pkt, *back;
	struct lab l;
	size_t n;

	lab_init(&l);
	pkt = new_packet(&l, PACKET_READ, ENGINE_QP_RC);
	n = write_packet(&l, pkt);
	packet_put(l.w.nodes[0].engine, pkt);
	for (size_t i = 0; i < n; i++) {
		for (unsigned int value = 0; value < 256; value++) {
			uint8_t was = l.received.bytes[i];

			l.received.bytes[i] = (uint8_t)value;
			if (i < 16 || i >= 20) { /* not where the source stands */
				int r = read_at(&l, n, n, &back);

				ASSERT(r == 0 || r == -EBADMSG);
				if (r == 0) {
					ASSERT_LE(back->kind, PACKET_NAK);
					ASSERT_LE(back->nak, NAK_OUTCOME_UNKNOWN);
					ASSERT_LE(back->dest_qpn | back->src_qpn | back->psn, 0xffffffu);
					ASSERT_EQ(back->payload_bytes, 0u);
					ASSERT(back->kind != PACKET_READ || back->mtu_bytes >= 256);
					engine_packet_free(back);
				}
			}
			l.received.bytes[i] = was;
		}
	}
	lab_deinit(&l);
}

TEST(a_length_that_is_not_that_of_the_bytes_is_refused)
{
	struct engine_packet *pkt, *back;
	struct lab l;
	size_t n;

	lab_init(&l);
	pkt = new_packet(&l, PACKET_SEND, ENGINE_QP_DCI);
	pkt->payload_bytes = 64;
	pkt->dc = (struct packet_dc){1, 2, 3};
	n = write_packet(&l, pkt);
	packet_put(l.w.nodes[0].engine, pkt);
	for (size_t bytes = 0; bytes < n + 64; bytes++) {
		int r = read_at(&l, bytes, bytes, &back);

		ASSERT_EQ(r, bytes == n ? 0 : -EBADMSG);
		if (r == 0)
			engine_packet_free(back);
	}
	lab_deinit(&l);
}

TEST(unreliable_services_and_memory_that_cannot_be_read_have_no_bytes)
{
	const struct engine_mem_ops unreadable = {0};
	struct engine_mem mem;
	struct mem_span span = {&mem, 0, 8};
	struct engine_packet *pkt;
	struct lab l;

	lab_init(&l);
	engine_mem_init(&mem, &unreadable, 8);
	pkt = new_packet(&l, PACKET_SEND, ENGINE_QP_UD);
	ASSERT_EQ(engine_packet_bytes(pkt), -EOPNOTSUPP);
	pkt->service = ENGINE_QP_RC;
	packet_add_seg(pkt, &span);
	pkt->payload_bytes = 8;
	ASSERT_EQ(engine_packet_bytes(pkt), -EOPNOTSUPP);
	packet_put(l.w.nodes[0].engine, pkt);
	lab_deinit(&l);
}
