/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that no encoder of ours writes: each gives an error or a valid message, within bounds. */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "proto/arena.h"
#include "proto/codec-table.h"
#include "proto/codec.h"
#include "proto/framing.h"
#include "tests/lib/test.h"
#include "tests/unit/proto/sample.h"

static uint8_t packet[FRAMING_MAX_PACKET_BYTES];

/* ---- a writer of raw wire bytes ----------------------------------------------------------------------------- */

struct wire {
	uint8_t bytes[FRAMING_MAX_PACKET_BYTES + 64];
	size_t n;
};

static void put_byte(struct wire *w, uint8_t byte)
{
	ASSERT_LT(w->n, sizeof(w->bytes));
	w->bytes[w->n++] = byte;
}

static void put_varint(struct wire *w, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		put_byte(w, (uint8_t)(value | 0x80));
	put_byte(w, (uint8_t)value);
}

static void put_number(struct wire *w, unsigned int field, uint64_t value)
{
	put_varint(w, field << 3);
	put_varint(w, value);
}

static void put_bytes(struct wire *w, unsigned int field, const void *bytes, size_t n)
{
	put_varint(w, field << 3 | 2);
	put_varint(w, n);
	for (size_t i = 0; i < n; i++)
		put_byte(w, ((const uint8_t *)bytes)[i]);
}

/* A packet whose body of that kind holds the bytes of *body. */
static int decode_body(unsigned int kind, const struct wire *body, struct msg *ret_msg)
{
	static struct wire whole;

	whole.n = 0;
	put_number(&whole, 1, 9);
	put_bytes(&whole, kind, body->bytes, body->n);
	return msg_decode(whole.bytes, whole.n, ret_msg);
}

/* The same with one string or bytes field in the body. */
static int decode_one(unsigned int kind, unsigned int field, const void *bytes, size_t n,
		      struct msg *ret_msg)
{
	static struct wire body;

	body.n = 0;
	put_bytes(&body, field, bytes, n);
	return decode_body(kind, &body, ret_msg);
}

static bool is_documented(int r)
{
	return r == 0 || r == -EBADMSG || r == -ENOSYS || r == -EMSGSIZE;
}

/* Decodes; a message that came out is complete: it can be encoded again and formatted. */
static void check_decode(const uint8_t *bytes, size_t n)
{
	static uint8_t again[FRAMING_MAX_PACKET_BYTES];
	char line[256];
	struct msg msg;
	int r = msg_decode(bytes, n, &msg);

	ASSERT(is_documented(r));
	if (r < 0)
		return;
	r = msg_encode(&msg, again, sizeof(again));
	ASSERT(r > 0 || r == -EMSGSIZE);
	ASSERT_LT(msg_format(&msg, line, sizeof(line)), (int)sizeof(line));
	msg_deinit(&msg);
}

/* A copy of exactly n bytes, so that a sanitizer sees a read beyond them. */
static void check_exact(const uint8_t *bytes, size_t n)
{
	uint8_t *copy = malloc(n ? n : 1);

	ASSERT(copy);
	memcpy(copy, bytes, n);
	check_decode(copy, n);
	free(copy);
}

/* ---- what packets may do ------------------------------------------------------------------------------------- */

TEST(a_packet_cut_at_any_byte_is_an_error_or_a_message)
{
	sample_for_each_kind (kind) {
		for (unsigned int v = 0; v < sample_n_variants(kind); v++) {
			struct msg msg;
			int n;

			sample_init(&msg, kind, v, SAMPLE_RANDOM, kind);
			n = msg_encode(&msg, packet, sizeof(packet));
			ASSERT_GT(n, 0);
			for (int cut = 0; cut < n; cut++)
				check_exact(packet, (size_t)cut);
			msg_deinit(&msg);
		}
	}
}

/* Cut inside its body a message is always refused: the length before the body is wrong then. */
TEST(a_body_cut_short_is_refused)
{
	struct msg msg, back;
	int n;

	sample_init(&msg, MSG_QUEUE_CREATE_REQ, 0, SAMPLE_MAX, 0);
	n = msg_encode(&msg, packet, sizeof(packet));
	for (int cut = n - 1; cut > n - 100; cut--)
		ASSERT_ERR(msg_decode(packet, (size_t)cut, &back), EBADMSG);
}

static void mutate(uint8_t *bytes, size_t *n, uint64_t *seed)
{
	uint64_t x = sample_random(seed);
	size_t at = x % *n;

	switch ((x >> 32) % 5) {
	case 0:
		bytes[at] ^= (uint8_t)(1u << ((x >> 40) % 8));
		break;
	case 1:
		bytes[at] = (uint8_t)(x >> 40);
		break;
	case 2: /* lose bytes */
		memmove(bytes + at, bytes + at + 1, *n - at - 1);
		*n -= *n > 1;
		break;
	case 3: /* say a part twice */
		if (*n * 2 <= sizeof(packet)) {
			memmove(bytes + *n, bytes + at, *n - at);
			*n += *n - at;
		}
		break;
	default:
		bytes[at] = 0xff;
		break;
	}
}

TEST(mutated_packets_never_harm)
{
	unsigned int n_rounds = test_is_full() ? 2000 : test_has_sanitizer() ? 40 : 120;
	uint64_t seed = 1;

	sample_for_each_kind (kind) {
		for (unsigned int round = 0; round < n_rounds; round++) {
			struct msg msg;
			size_t bytes;
			int n;

			sample_init(&msg, kind, round % sample_n_variants(kind), SAMPLE_RANDOM, seed);
			n = msg_encode(&msg, packet, sizeof(packet));
			msg_deinit(&msg);
			bytes = (size_t)n;
			for (unsigned int i = 0; i <= round % 8; i++)
				mutate(packet, &bytes, &seed);
			check_exact(packet, bytes);
		}
	}
}

TEST(random_bytes_never_harm)
{
	uint64_t seed = 2;

	for (unsigned int round = 0; round < 5000; round++) {
		size_t n = 1 + sample_random(&seed) % 64;

		for (size_t i = 0; i < n; i++)
			packet[i] = (uint8_t)sample_random(&seed);
		check_exact(packet, n);
	}
}

TEST(an_unknown_body_keeps_its_id)
{
	static struct wire w;
	struct msg msg;

	put_number(&w, 1, 41);
	put_number(&w, 2, 3);
	put_bytes(&w, 900, "new", 3);
	ASSERT_ERR(msg_decode(w.bytes, w.n, &msg), ENOSYS);
	ASSERT_EQ(msg.id, 41);
	ASSERT_EQ(msg.n_fds, 3);
	ASSERT_EQ(msg.kind, 0);
	msg_deinit(&msg);
}

TEST(an_envelope_without_a_body_is_an_unknown_request)
{
	static struct wire w;
	struct msg msg;

	put_number(&w, 1, 41);
	ASSERT_ERR(msg_decode(w.bytes, w.n, &msg), ENOSYS);
	ASSERT_EQ(msg.id, 41);
	ASSERT_ERR(msg_decode(w.bytes, 0, &msg), EBADMSG);
}

TEST(unknown_fields_are_ignored)
{
	static struct wire body;
	struct msg msg;

	put_number(&body, 1, 7);
	put_number(&body, 99, 1);
	put_bytes(&body, 100, "later", 5);
	ASSERT_OK(decode_body(MSG_MEM_DEREG_REQ, &body, &msg));
	ASSERT_EQ(msg.mem_dereg_req.handle, 7);
}

TEST(outputs_stay_untouched_on_error)
{
	struct msg msg;

	memset(&msg, 0x5a, sizeof(msg));
	ASSERT_ERR(msg_decode("\xff\xff", 2, &msg), EBADMSG);
	for (size_t i = 0; i < sizeof(msg); i++)
		ASSERT_EQ(((uint8_t *)&msg)[i], 0x5a);
}

TEST(strings_with_a_nul_inside_are_refused)
{
	struct msg msg;

	ASSERT_ERR(decode_one(MSG_NIC_OPEN_REQ, 2, "soft0\0x", 7, &msg), EBADMSG);
	ASSERT_ERR(decode_one(MSG_NIC_OPEN_REQ, 2, "\0", 1, &msg), EBADMSG);
	ASSERT_ERR(decode_one(MSG_NIC_OPEN_REQ, 2, "soft0\0", 6, &msg), EBADMSG);
	ASSERT_OK(decode_one(MSG_NIC_OPEN_REQ, 2, "soft0", 5, &msg));
	ASSERT_STREQ(msg.nic_open_req.nic, "soft0");
	ASSERT_OK(decode_one(MSG_NIC_OPEN_REQ, 2, "", 0, &msg));
	ASSERT_STREQ(msg.nic_open_req.nic, "");
}

TEST(strings_with_control_characters_or_bad_utf8_are_refused)
{
	struct msg msg;

	ASSERT_ERR(decode_one(MSG_NIC_OPEN_REQ, 2, "a\nb", 3, &msg), EBADMSG);
	ASSERT_ERR(decode_one(MSG_NIC_OPEN_REQ, 2, "\x1b[2J", 4, &msg), EBADMSG);
	ASSERT_ERR(decode_one(MSG_NIC_OPEN_REQ, 2, "\xff", 1, &msg), EBADMSG);
	ASSERT_ERR(decode_one(MSG_NIC_OPEN_REQ, 2, "\xc3", 1, &msg), EBADMSG);
}

TEST(strings_above_their_limit_are_refused)
{
	char text[MSG_NAME_BYTES + 1];
	struct msg msg;

	memset(text, 'n', sizeof(text));
	ASSERT_OK(decode_one(MSG_NIC_OPEN_REQ, 1, text, MSG_NAME_BYTES - 1, &msg));
	ASSERT_EQ(strlen(msg.nic_open_req.gpu), MSG_NAME_BYTES - 1);
	ASSERT_ERR(decode_one(MSG_NIC_OPEN_REQ, 1, text, MSG_NAME_BYTES, &msg), EMSGSIZE);
}

TEST(a_world_has_sixteen_bytes)
{
	uint8_t world[MSG_WORLD_BYTES + 1] = {1};
	static struct wire empty;
	struct msg msg;

	ASSERT_OK(decode_one(MSG_FETCH_REQ, 1, world, MSG_WORLD_BYTES, &msg));
	ASSERT_MEMEQ(msg.fetch_req.world, world, MSG_WORLD_BYTES);
	ASSERT_ERR(decode_one(MSG_FETCH_REQ, 1, world, MSG_WORLD_BYTES - 1, &msg), EBADMSG);
	ASSERT_ERR(decode_one(MSG_FETCH_REQ, 1, world, MSG_WORLD_BYTES + 1, &msg), EMSGSIZE);
	ASSERT_ERR(decode_body(MSG_FETCH_REQ, &empty, &msg), EBADMSG);
}

TEST(published_data_has_at_most_256_bytes)
{
	uint8_t data[MSG_DATA_BYTES + 1] = {0};
	static struct wire body;
	struct msg msg;

	put_bytes(&body, 1, data, MSG_WORLD_BYTES);
	put_bytes(&body, 4, data, MSG_DATA_BYTES);
	ASSERT_OK(decode_body(MSG_PUBLISH_REQ, &body, &msg));
	ASSERT_EQ(msg.publish_req.data_bytes, MSG_DATA_BYTES);
	put_bytes(&body, 4, data, MSG_DATA_BYTES + 1);
	ASSERT_ERR(decode_body(MSG_PUBLISH_REQ, &body, &msg), EMSGSIZE);
}

TEST(arrays_above_their_limit_are_refused)
{
	static struct wire body;
	struct msg msg;

	put_number(&body, 1, 0);
	for (int i = 0; i < MSG_MAX_PEERS; i++)
		put_bytes(&body, 2, NULL, 0);
	ASSERT_OK(decode_body(MSG_CONNECT_REQ, &body, &msg));
	ASSERT_EQ(msg.connect_req.n_peers, MSG_MAX_PEERS);
	msg_deinit(&msg);
	put_bytes(&body, 2, NULL, 0);
	ASSERT_ERR(decode_body(MSG_CONNECT_REQ, &body, &msg), EMSGSIZE);
}

TEST(enums_out_of_range_are_refused)
{
	static struct wire body;
	struct msg msg;

	put_number(&body, 4, 3);
	ASSERT_ERR(decode_body(MSG_HELLO_REQ, &body, &msg), EBADMSG);
	body.n = 0;
	put_number(&body, 4, UINT64_MAX);
	ASSERT_ERR(decode_body(MSG_HELLO_REQ, &body, &msg), EBADMSG);
	body.n = 0; /* absent: unset */
	ASSERT_ERR(decode_body(MSG_HELLO_REQ, &body, &msg), EBADMSG);
	put_number(&body, 2, MSG_MEM_PEERMEM + 1);
	ASSERT_ERR(decode_body(MSG_MEM_REG_REQ, &body, &msg), EBADMSG);
}

TEST(more_descriptors_than_a_packet_may_carry_are_refused)
{
	static struct wire w;
	struct msg msg;

	put_number(&w, 2, FRAMING_MAX_FDS + 1);
	put_bytes(&w, MSG_STATUS_REQ, NULL, 0);
	ASSERT_ERR(msg_decode(w.bytes, w.n, &msg), EBADMSG);
}

TEST(a_packet_above_the_limit_is_refused_unread)
{
	struct msg msg;

	ASSERT_ERR(msg_decode(packet, FRAMING_MAX_PACKET_BYTES + 1, &msg), EMSGSIZE);
}

/* Bytes of the heap in use. */
static size_t heap_bytes(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

TEST(an_array_refused_half_way_is_freed)
{
	uint8_t addr[MSG_ADDR_BYTES + 1] = {0};
	static struct wire body, peer;
	struct msg msg;
	size_t before;

	if (test_has_sanitizer())
		test_skip("a sanitizer has an allocator of its own");
	put_bytes(&peer, 2, addr, MSG_ADDR_BYTES);
	for (int i = 0; i < 200; i++) /* small blocks count as used after free() */
		put_bytes(&body, 2, peer.bytes, peer.n);
	before = heap_bytes();
	ASSERT_OK(decode_body(MSG_CONNECT_REQ, &body, &msg));
	ASSERT_GT(heap_bytes(), before);
	msg_deinit(&msg);
	ASSERT_EQ(heap_bytes(), before);

	peer.n = 0;
	put_bytes(&peer, 2, addr, sizeof(addr));
	put_bytes(&body, 2, peer.bytes, peer.n);
	ASSERT_ERR(decode_body(MSG_CONNECT_REQ, &body, &msg), EMSGSIZE);
	ASSERT_EQ(heap_bytes(), before);
}

/* ---- amplification -------------------------------------------------------------------------------------------- */

/* 64 KiB of two-byte sub-messages would become many MiB of structs. */
TEST(many_tiny_messages_hit_the_budget)
{
	static struct wire body;
	struct msg msg;

	while (body.n + 2 <= FRAMING_MAX_PACKET_BYTES - 16)
		put_bytes(&body, 1, NULL, 0);
	ASSERT_ERR(decode_body(MSG_NIC_LIST_REP, &body, &msg), EMSGSIZE);
}

/* Each repetition of a single message is merged into the one before, with memory of its own. */
TEST(a_message_repeated_many_times_hits_the_budget)
{
	static struct wire body;
	struct msg msg;

	while (body.n + 8 <= FRAMING_MAX_PACKET_BYTES - 16)
		put_bytes(&body, 2, "\x0a\x04name", 6);
	ASSERT_ERR(decode_body(MSG_NIC_OPEN_REP, &body, &msg), EMSGSIZE);
}

TEST(many_unknown_fields_hit_the_budget)
{
	static struct wire body;
	struct msg msg;

	while (body.n + 2 <= FRAMING_MAX_PACKET_BYTES - 16)
		put_number(&body, 15, 1);
	ASSERT_ERR(decode_body(MSG_STATUS_REQ, &body, &msg), EMSGSIZE);
}

TEST(the_last_of_several_bodies_counts)
{
	static struct wire w;
	struct msg msg;

	put_bytes(&w, MSG_STATUS_REQ, NULL, 0);
	put_bytes(&w, MSG_MEM_DEREG_REQ, "\x08\x07", 2);
	ASSERT_OK(msg_decode(w.bytes, w.n, &msg));
	ASSERT_EQ(msg.kind, MSG_MEM_DEREG_REQ);
	ASSERT_EQ(msg.mem_dereg_req.handle, 7);
}

TEST(the_arena_refuses_above_its_budget)
{
	struct arena arena;
	uint8_t *p;

	arena_init(&arena);
	ASSERT_EQ(arena_alloc(&arena, SIZE_MAX), NULL);
	ASSERT_EQ(arena.error, -EMSGSIZE);
	ASSERT_EQ(arena_alloc(&arena, ARENA_BUDGET_BYTES), NULL); /* its head counts too */
	p = arena_alloc(&arena, ARENA_BUDGET_BYTES - 16);
	ASSERT_NE(p, NULL);
	ASSERT_EQ((uintptr_t)p % 16, 0);
	ASSERT_EQ(arena_size_of(p), ARENA_BUDGET_BYTES - 16);
	memset(p, 1, ARENA_BUDGET_BYTES - 16);
	ASSERT_EQ(arena_alloc(&arena, 0), NULL);
	arena_deinit(&arena);
}
