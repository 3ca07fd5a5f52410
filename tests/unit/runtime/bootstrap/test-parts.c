/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a bootstrap that need no socket: keyed hash, ids, first messages, sets of ranks, filters, the tables of rank 0. */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <shmemclient.h>

#include "libclient/runtime/bootstrap/address.h"
#include "libclient/runtime/bootstrap/bootstrap.h"
#include "libclient/runtime/bootstrap/collect.h"
#include "libclient/runtime/bootstrap/join.h"
#include "libclient/runtime/bootstrap/keyed-hash.h"
#include "libclient/runtime/bootstrap/link.h"
#include "libclient/runtime/bootstrap/rank-list.h"
#include "libclient/runtime/bootstrap/wire.h"

TEST(the_keyed_hash_is_siphash_2_4_with_16_bytes)
{
	/* Key and data are 0, 1, 2, ...; computed with OpenSSL's SIPHASH. */
	static const struct {
		size_t bytes;
		uint8_t hash[KEYED_HASH_BYTES];
	} vectors[] = {
		{0, {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93}},
		{1, {0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45}},
		{15, {0x54, 0x93, 0xe9, 0x99, 0x33, 0xb0, 0xa8, 0x11, 0x7e, 0x08, 0xec, 0x0f, 0x97, 0xcf, 0xc3, 0xd9}},
	};
	uint8_t key[16], data[16], hash[KEYED_HASH_BYTES];

	for (uint8_t i = 0; i < 16; i++)
		key[i] = data[i] = i;
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		keyed_hash(key, data, vectors[i].bytes, hash);
		ASSERT_MEMEQ(hash, vectors[i].hash, KEYED_HASH_BYTES);
	}
	ASSERT(keyed_hash_equal(hash, vectors[2].hash));
	hash[15] ^= 1;
	ASSERT(!keyed_hash_equal(hash, vectors[2].hash));
}

static bool is_in(const void *arg, int rank)
{
	return ((const char *)arg)[rank] == 'x';
}

static const char *list(const char *set, size_t bytes)
{
	static char text[128];

	memset(text, '!', sizeof(text));
	rank_list(text, bytes, (int)strlen(set), is_in, set);
	ASSERT_LT(strnlen(text, sizeof(text)), bytes);
	return text;
}

TEST(ranks_are_listed_as_runs)
{
	ASSERT_STREQ(list("...x", 64), "rank 3");
	ASSERT_STREQ(list("x..x.xx.xxxx", 64), "ranks 0, 3, 5, 6, 8-11");
	ASSERT_STREQ(list("x.x.x.x.x.x.x.x", 24), "ranks 0, 2, 4, 6, ...");
	for (size_t bytes = 11; bytes < 64; bytes++)
		list("x.x.x.x.x.x.xxx.x", bytes);
}

TEST(interfaces_are_chosen_by_prefix_name_and_exclusion)
{
	ASSERT(interface_fits(NULL, "eth0") && interface_fits("", "eth0"));
	ASSERT(interface_fits("ib,eth", "eth0") && !interface_fits("ib,eth", "lo"));
	ASSERT(interface_fits("=eth0", "eth0") && !interface_fits("=eth", "eth0"));
	ASSERT(!interface_fits("^docker,lo", "lo") && interface_fits("^docker,lo", "eth0"));
	ASSERT(!interface_fits("^=eth0", "eth0") && interface_fits("^=eth0", "eth01"));
}

TEST(an_id_is_one_word_of_text_and_back)
{
	struct bootstrap_attr attr = {.interface = "=lo", .unbound = true};
	char text[BOOTSTRAP_UID_TEXT_BYTES], line[BOOTSTRAP_UID_TEXT_BYTES + 1];
	struct shmd_uid uid, again, other;

	ASSERT_OK(bootstrap_uid_make(&attr, &uid));
	bootstrap_uid_text(&uid, text);
	ASSERT_EQ(strspn(text, "shmd-0123456789abcdef"), strlen(text));
	ASSERT_OK(bootstrap_uid_from_text(text, &again));
	ASSERT_MEMEQ(&uid, &again, sizeof(uid));
	snprintf(line, sizeof(line), "%.*s\n", (int)sizeof(line) - 2, text);
	ASSERT_OK(bootstrap_uid_from_text(line, &again));
	ASSERT_OK(bootstrap_uid_make(&attr, &other));
	ASSERT(memcmp(uid.data + 4, other.data + 4, UID_SECRET_BYTES));
}

TEST(text_that_is_no_id_is_refused)
{
	static const char *const wrong[] = {"", "shmd-", "shmd-0", "shmd-00", "other", "shmd-7368753100000000000000000000000000000000",
					    "shmd-zz687531"};
	char text[BOOTSTRAP_UID_TEXT_BYTES], longer[2 * BOOTSTRAP_UID_TEXT_BYTES];
	struct bootstrap_attr attr = {.unbound = true};
	struct shmd_uid uid;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		ASSERT_ERR(bootstrap_uid_from_text(wrong[i], &uid), EINVAL);
	ASSERT_OK(bootstrap_uid_make(&attr, &uid));
	bootstrap_uid_text(&uid, text);
	snprintf(longer, sizeof(longer), "%s%0256d", text, 0);
	ASSERT_ERR(bootstrap_uid_from_text(longer, &uid), EINVAL);
	for (size_t n = strlen(text); n > 50; n--) {
		text[n - 1] = 0;
		/* Zeros at the end are left out of the text, so a shorter one may be valid: it must not be read past its end. */
		bootstrap_uid_from_text(text, &uid);
	}
	ASSERT_ERR(bootstrap_uid_from_text("shmd-73687531aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa0007123401", &uid), EINVAL);
	ASSERT_ERR(bootstrap_uid_from_text("shmd-73687531aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa0001fff810047f000001", &uid), EINVAL);
	ASSERT_OK(bootstrap_uid_from_text("shmd-73687531aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa0001fff008047f000001", &uid));
}

static const uint8_t secret[16] = "a secret of ours", other_secret[16] = "one of another's", challenge[16] = "asked";

static struct wire_hello sample_hello(void)
{
	return (struct wire_hello){.purpose = WIRE_JOIN, .rank = 3, .size = 5, .port = 4711, .version = "0.1.0",
				   .instance = "instance", .nonce = "nonce"};
}

TEST(a_hello_counts_only_with_the_secret_and_for_its_challenge)
{
	struct wire_hello hello = sample_hello(), got;
	uint8_t bytes[WIRE_HELLO_BYTES], again[WIRE_HELLO_BYTES];

	wire_hello(&hello, secret, challenge, bytes);
	ASSERT_OK(wire_hello_read(bytes, secret, challenge, &got));
	wire_hello(&got, secret, challenge, again);
	ASSERT_MEMEQ(again, bytes, sizeof(bytes)); /* the structs may differ in their padding */
	ASSERT_EQ(got.rank, hello.rank);
	ASSERT_EQ(got.port, hello.port);
	ASSERT_ERR(wire_hello_read(bytes, other_secret, challenge, &got), EACCES);
	ASSERT_ERR(wire_hello_read(bytes, secret, other_secret, &got), EACCES);
	for (size_t i = 0; i < sizeof(bytes); i++) {
		bytes[i] ^= 1;
		ASSERT_LT(wire_hello_read(bytes, secret, challenge, &got), 0);
		bytes[i] ^= 1;
	}
	hello.rank = 5;
	wire_hello(&hello, secret, challenge, bytes);
	ASSERT_ERR(wire_hello_read(bytes, secret, challenge, &got), EINVAL);
}

TEST(a_reply_counts_only_with_the_secret_and_for_its_hello)
{
	struct wire_reply reply = {.error = -EEXIST, .place = 7, .parent = 2, .text = "a sentence"}, got;
	uint8_t bytes[WIRE_REPLY_BYTES], nonce[16] = "nonce", hello[WIRE_HELLO_BYTES];
	struct wire_hello first = sample_hello();

	reply.address.in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(80), .sin_addr.s_addr = htonl(0x7f000001)};
	wire_reply(&reply, secret, challenge, nonce, bytes);
	ASSERT_OK(wire_reply_read(bytes, secret, challenge, nonce, &got));
	ASSERT_STREQ(got.text, "a sentence");
	ASSERT_EQ(got.error, -EEXIST);
	ASSERT_EQ(address_port(&got.address), 80);
	ASSERT_ERR(wire_reply_read(bytes, secret, challenge, challenge, &got), EACCES);
	for (size_t i = 0; i < sizeof(bytes); i++) {
		bytes[i] ^= 1;
		ASSERT_LT(wire_reply_read(bytes, secret, challenge, nonce, &got), 0);
		bytes[i] ^= 1;
	}
	/* A hello that is sent back proves nothing. */
	wire_hello(&first, secret, challenge, hello);
	memcpy(bytes, hello, sizeof(hello));
	ASSERT_LT(wire_reply_read(bytes, secret, challenge, nonce, &got), 0);
}

static struct gate_visit visit_of(unsigned int rank, const char *instance)
{
	struct gate_visit visit = {.hello = sample_hello()};

	visit.hello.rank = rank;
	visit.hello.size = 20;
	snprintf((char *)visit.hello.instance, sizeof(visit.hello.instance), "%s", instance);
	visit.from.in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)(1000 + rank))};
	return visit;
}

TEST(ranks_get_places_in_the_order_they_come_and_parents_that_came_before)
{
	char text[WIRE_TEXT_BYTES];
	struct join *join;
	int error;

	ASSERT_OK(join_new(20, "0.1.0", &join));
	for (unsigned int rank = 19; rank > 0; rank--) {
		struct gate_visit visit = visit_of(rank, "one");
		struct wire_reply reply = {0}, again = {0};
		unsigned int place = 20 - rank, parent = place <= JOIN_FANOUT ? 0 : 20 - (place - 1) / JOIN_FANOUT;

		ASSERT(!join_is_complete(join));
		ASSERT_EQ(join_answer(join, &visit, &reply, &error, text), !parent);
		ASSERT_EQ(reply.place, place);
		ASSERT_EQ(reply.parent, parent);
		if (parent)
			ASSERT_EQ(address_port(&reply.address), 1000 + parent);
		/* The same process tries again: the same answer. */
		ASSERT_EQ(join_answer(join, &visit, &again, &error, text), !parent);
		ASSERT_MEMEQ(&again, &reply, sizeof(reply));
		visit = visit_of(rank, "two");
		join_answer(join, &visit, &again, &error, text);
		ASSERT_EQ(again.error, -EEXIST);
		ASSERT_EQ(error, 0);
	}
	ASSERT(join_is_complete(join));
	join_free(join);
}

TEST(a_parent_on_rank_0_s_machine_is_at_the_address_by_which_a_rank_reached_that)
{
	char text[WIRE_TEXT_BYTES];
	struct join *join;
	int error;

	ASSERT_OK(join_new(20, "0.1.0", &join));
	for (unsigned int rank = 1; rank < 18; rank++) {
		struct gate_visit visit = visit_of(rank, "one");
		struct wire_reply reply = {0};

		visit.from.in.sin_addr.s_addr = htonl(rank == 1 ? INADDR_LOOPBACK : 0x0a000000 + rank);
		visit.is_here = rank == 1;
		join_answer(join, &visit, &reply, &error, text);
		if (reply.parent)
			ASSERT_EQ(ntohl(reply.address.in.sin_addr.s_addr), reply.parent == 1 ? 0 : 0x0a000002u);
	}
	join_free(join);
}

TEST(a_rank_that_comes_again_from_another_address_is_found_there)
{
	struct wire_reply reply = {0};
	char text[WIRE_TEXT_BYTES];
	struct gate_visit visit;
	struct join *join;
	int error;

	ASSERT_OK(join_new(20, "0.1.0", &join));
	for (unsigned int rank = 1; rank < 10; rank++) {
		visit = visit_of(rank, "one");
		join_answer(join, &visit, &reply, &error, text);
	}
	ASSERT_EQ(address_port(&reply.address), 1001);
	visit = visit_of(1, "one");
	visit.from.in.sin_port = htons(77);
	join_answer(join, &visit, &reply, &error, text);
	visit = visit_of(9, "one");
	join_answer(join, &visit, &reply, &error, text);
	ASSERT_EQ(address_port(&reply.address), 77);
	join_free(join);
}

TEST(a_second_rank_0_is_refused_whatever_it_says_of_itself)
{
	struct gate_visit visit = visit_of(0, "");
	struct wire_reply reply = {0};
	char text[WIRE_TEXT_BYTES];
	struct join *join;
	int error;

	ASSERT_OK(join_new(20, "0.1.0", &join));
	ASSERT(!join_answer(join, &visit, &reply, &error, text));
	ASSERT_EQ(reply.error, -EEXIST);
	ASSERT_EQ(error, 0);
	join_free(join);
}

TEST(a_tree_has_each_place_once)
{
	for (unsigned int size = 1; size < 200; size++) {
		unsigned int n = 1;

		for (unsigned int place = 0; place < size; place++) {
			ASSERT(!join_children(place, size) || join_first_child(place) == n);
			n += join_children(place, size);
		}
		ASSERT_EQ(n, size);
	}
}

TEST(frames_with_wrong_numbers_are_refused)
{
	struct frame frame = {.type = FRAME_SHARE, .kind = 2, .rank = 3, .seq = 1ull << 40, .value = 9, .bytes = 10}, got;
	uint8_t head[FRAME_HEAD_BYTES];

	frame_write_head(&frame, head);
	ASSERT_OK(frame_read_head(head, 4, &got));
	ASSERT(got.type == FRAME_SHARE && got.kind == 2 && got.rank == 3 && got.seq == 1ull << 40 && got.value == 9 && got.bytes == 10);
	ASSERT_ERR(frame_read_head(head, 3, &got), EPROTO);
	frame.bytes = LINK_MOST_BYTES + 1;
	frame_write_head(&frame, head);
	ASSERT_ERR(frame_read_head(head, 4, &got), EPROTO);
	head[0] = FRAME_LAST + 1;
	ASSERT_ERR(frame_read_head(head, 4, &got), EPROTO);
}

TEST(a_share_of_another_call_is_refused)
{
	struct collect collect;
	char text[128];

	ASSERT_OK(collect_init(&collect, 2));
	ASSERT_ERR(collect_add(&collect, 0, 1, COLLECT_GATHER, 1, "a", 1, text, sizeof(text)), EPROTO);
	ASSERT_ERR(collect_add(&collect, 0, 0, COLLECT_GATHER, 2, "a", 1, text, sizeof(text)), EPROTO);
	ASSERT_ERR(collect_add(&collect, 0, 0, COLLECT_OPEN + 1, 1, "a", 1, text, sizeof(text)), EPROTO);
	ASSERT_OK(collect_add(&collect, 0, 0, COLLECT_GATHER, 1, "a", 1, text, sizeof(text)));
	ASSERT_ERR(collect_add(&collect, 0, 0, COLLECT_GATHER, 1, "a", 1, text, sizeof(text)), EPROTO);
	ASSERT_ERR(collect_add(&collect, 1, 0, COLLECT_GATHER, 2, "ab", 2, text, sizeof(text)), EPROTO);
	ASSERT_EQ(collect_add(&collect, 1, 0, COLLECT_GATHER, 1, "b", 1, text, sizeof(text)), 1);
	ASSERT_MEMEQ(collect.shares, "ab", 2);
	collect_deinit(&collect);
}
