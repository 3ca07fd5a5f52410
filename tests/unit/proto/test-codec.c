/* SPDX-License-Identifier: Apache-2.0 */
/* Encoded messages come back; limits on both sides; messages that an encoder refuses. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/codec-table.h"
#include "proto/codec.h"
#include "proto/framing.h"
#include "tests/lib/test.h"
#include "tests/unit/proto/sample.h"

static uint8_t packet[FRAMING_MAX_PACKET_BYTES];
static uint8_t packet2[FRAMING_MAX_PACKET_BYTES];

/* Encodes, decodes, compares; returns the size of the packet. */
static int check_round_trip(const struct msg *msg)
{
	struct msg back;
	int n = msg_encode(msg, packet, sizeof(packet));

	ASSERT_GE(n, 0);
	ASSERT_OK(msg_decode(packet, (size_t)n, &back));
	ASSERT(sample_is_equal(msg, &back));
	ASSERT_EQ(msg_encode(&back, packet2, sizeof(packet2)), n);
	ASSERT_MEMEQ(packet, packet2, (size_t)n);
	msg_deinit(&back);
	return n;
}

static int check_sample(unsigned int kind, unsigned int variant, enum sample_fill fill, uint64_t seed)
{
	struct msg msg;
	int n;

	sample_init(&msg, kind, variant, fill, seed);
	n = check_round_trip(&msg);
	msg_deinit(&msg);
	return n;
}

TEST(every_kind_comes_back_with_the_lowest_values)
{
	sample_for_each_kind (kind)
		check_sample(kind, 0, SAMPLE_MIN, 0);
}

/* Also the proof that a legal message always fits a packet. */
TEST(every_kind_comes_back_with_the_highest_values)
{
	int largest = 0;

	sample_for_each_kind (kind) {
		for (unsigned int v = 0; v < sample_n_variants(kind); v++) {
			int n = check_sample(kind, v, SAMPLE_MAX, 0);

			if (n > largest)
				largest = n;
		}
	}
	/* A quarter stays free for fields of later versions, but for the largest of all, QueueCreateRep. */
	ASSERT_LT(largest, (int)FRAMING_MAX_PACKET_BYTES * 15 / 16);
}

TEST(every_kind_comes_back_with_random_values)
{
	sample_for_each_kind (kind)
		for (uint64_t seed = 0; seed < 40; seed++)
			check_sample(kind, (unsigned int)(seed % sample_n_variants(kind)), SAMPLE_RANDOM,
				     seed * 64 + kind);
}

/* By name, not by table: a field that lands in another one is seen here. */
TEST(named_fields_come_back_under_their_names)
{
	struct msg msg, back;
	int n;

	msg_init(&msg, MSG_MEM_REG_REQ, 77);
	msg.n_fds = 1;
	msg.mem_reg_req = (struct msg_mem_reg_req){
		.nic = 1, .kind = MSG_MEM_DMABUF, .fd = 3, .access = 15,
		.offset = 4096, .length_bytes = UINT64_C(1) << 40, .iova = UINT64_C(0x7fff00000000)};
	n = msg_encode(&msg, packet, sizeof(packet));
	ASSERT_GT(n, 0);
	ASSERT_OK(msg_decode(packet, (size_t)n, &back));
	ASSERT_EQ(back.id, 77);
	ASSERT_EQ(back.n_fds, 1);
	ASSERT_EQ(back.kind, MSG_MEM_REG_REQ);
	ASSERT_EQ(back.mem_reg_req.nic, 1);
	ASSERT_EQ(back.mem_reg_req.kind, MSG_MEM_DMABUF);
	ASSERT_EQ(back.mem_reg_req.fd, 3);
	ASSERT_EQ(back.mem_reg_req.access, 15);
	ASSERT_EQ(back.mem_reg_req.offset, 4096);
	ASSERT_EQ(back.mem_reg_req.length_bytes, UINT64_C(1) << 40);
	ASSERT_EQ(back.mem_reg_req.iova, UINT64_C(0x7fff00000000));
}

/* Bytes written by hand from the .proto: the wire format itself is frozen. */
TEST(wire_bytes_are_those_of_the_proto)
{
	static const uint8_t hello[] = {
		0x08, 0x05,                         /* id 5 */
		0x52, 0x0b,                         /* hello_req (10), 11 bytes */
		0x08, 0x01, 0x10, 0x02,             /* version_min 1, version_max 2 */
		0x1a, 0x03, 'a', ' ', '1',          /* library */
		0x20, 0x01};                        /* role client */
	struct msg msg, back;

	msg_init(&msg, MSG_HELLO_REQ, 5);
	msg.hello_req.version_min = 1;
	msg.hello_req.version_max = 2;
	msg.hello_req.role = MSG_ROLE_CLIENT;
	strcpy(msg.hello_req.library, "a 1");
	ASSERT_EQ(msg_encode(&msg, packet, sizeof(packet)), (int)sizeof(hello));
	ASSERT_MEMEQ(packet, hello, sizeof(hello));
	ASSERT_OK(msg_decode(hello, sizeof(hello), &back));
	ASSERT_EQ(back.hello_req.version_max, 2);
	ASSERT_STREQ(back.hello_req.library, "a 1");
}

TEST(params_are_absent_or_present)
{
	struct msg msg, back;
	int n;

	msg_init(&msg, MSG_CONNECT_REQ, 1);
	n = msg_encode(&msg, packet, sizeof(packet));
	ASSERT_OK(msg_decode(packet, (size_t)n, &back));
	ASSERT(!back.connect_req.has_params);

	msg.connect_req.has_params = true;
	n = msg_encode(&msg, packet, sizeof(packet));
	ASSERT_OK(msg_decode(packet, (size_t)n, &back));
	ASSERT(back.connect_req.has_params);
}

TEST(encode_refuses_a_small_buffer)
{
	struct msg msg;
	int n;

	sample_init(&msg, MSG_NIC_OPEN_REP, 0, SAMPLE_MAX, 0);
	n = msg_encode(&msg, packet, sizeof(packet));
	ASSERT_GT(n, 0);
	ASSERT_EQ(msg_encode(&msg, packet, (size_t)n), n);
	ASSERT_ERR(msg_encode(&msg, packet, (size_t)n - 1), EMSGSIZE);
	ASSERT_ERR(msg_encode(&msg, packet, 0), EMSGSIZE);
}

TEST(encode_refuses_a_message_above_a_packet)
{
	struct msg msg, whole;

	sample_init(&whole, MSG_LIST_REP, 0, SAMPLE_MAX, 0);
	sample_init(&msg, MSG_LIST_REP, 1, SAMPLE_MAX, 0);
	msg.list_rep.sessions = whole.list_rep.sessions;
	msg.list_rep.n_sessions = whole.list_rep.n_sessions;
	whole.list_rep.sessions = NULL;
	whole.list_rep.n_sessions = 0;
	ASSERT_ERR(msg_encode(&msg, packet, sizeof(packet)), EMSGSIZE);
	msg_deinit(&msg);
	msg_deinit(&whole);
}

TEST(encode_refuses_counts_above_their_limits)
{
	struct msg msg;

	msg_init(&msg, MSG_QUEUE_LAYOUT_REQ, 1);
	msg.queue_layout_req.n_cqs = MSG_MAX_SPECS + 1;
	ASSERT_ERR(msg_encode(&msg, packet, sizeof(packet)), EINVAL);

	sample_init(&msg, MSG_CONNECT_REQ, 0, SAMPLE_MAX, 0);
	msg.connect_req.n_peers++;
	ASSERT_ERR(msg_encode(&msg, packet, sizeof(packet)), EINVAL);
	msg_deinit(&msg);

	msg_init(&msg, MSG_PUBLISH_REQ, 1);
	msg.publish_req.data_bytes = MSG_DATA_BYTES + 1;
	ASSERT_ERR(msg_encode(&msg, packet, sizeof(packet)), EINVAL);

	msg_init(&msg, MSG_OK_REP, 1);
	msg.n_fds = FRAMING_MAX_FDS + 1;
	ASSERT_ERR(msg_encode(&msg, packet, sizeof(packet)), EINVAL);
}

TEST(encode_refuses_values_that_no_decoder_would_take)
{
	struct msg msg;

	msg_init(&msg, MSG_HELLO_REQ, 1); /* role 0 */
	ASSERT_ERR(msg_encode(&msg, packet, sizeof(packet)), EINVAL);
	msg_init(&msg, 19, 1);
	ASSERT_ERR(msg_encode(&msg, packet, sizeof(packet)), EINVAL);
	msg_init(&msg, MSG_ERROR_REP, 1);
	memset(msg.error_rep.text, 'x', sizeof(msg.error_rep.text)); /* no NUL */
	ASSERT_ERR(msg_encode(&msg, packet, sizeof(packet)), EINVAL);
	msg_init(&msg, MSG_CONNECT_REQ, 1);
	msg.connect_req.n_peers = 1; /* and no array */
	ASSERT_ERR(msg_encode(&msg, packet, sizeof(packet)), EINVAL);
}

TEST(control_characters_are_sent_as_question_marks)
{
	struct msg msg, back;
	int n;

	msg_init(&msg, MSG_ERROR_REP, 1);
	strcpy(msg.error_rep.text, "a\x1b[2Jb\n\xff \xc3\xa9");
	n = msg_encode(&msg, packet, sizeof(packet));
	ASSERT_GT(n, 0);
	ASSERT_OK(msg_decode(packet, (size_t)n, &back));
	ASSERT_STREQ(back.error_rep.text, "a?[2Jb?? \xc3\xa9");
}

TEST(deinit_twice_and_of_nothing_is_harmless)
{
	struct msg msg;

	sample_init(&msg, MSG_QUEUE_CREATE_REP, 0, SAMPLE_MAX, 0);
	msg_deinit(&msg);
	ASSERT_EQ(msg.queue_create_rep.n_qps, 0);
	ASSERT_EQ(msg.queue_create_rep.qps, NULL);
	msg_deinit(&msg);
	msg_deinit(NULL);
	msg_init(&msg, 0, 0);
	msg_deinit(&msg);
}

/* The attack: a client whose name reads backwards in an administrator's list. Older peers send it; no list shows it. */
TEST(characters_that_deceive_are_replaced_when_they_are_received)
{
	struct msg msg, back;
	uint8_t *at;
	int n;

	msg_init(&msg, MSG_HELLO_REQ, 7);
	strcpy(msg.hello_req.library, "XYZ mlx5");
	msg.hello_req.role = MSG_ROLE_CLIENT;
	n = msg_encode(&msg, packet, sizeof(packet));
	ASSERT_GT(n, 0);
	at = memmem(packet, (size_t)n, "XYZ", 3);
	ASSERT(at);
	memcpy(at, "\xe2\x80\xae", 3);
	ASSERT_OK(msg_decode(packet, (size_t)n, &back));
	ASSERT_STREQ(back.hello_req.library, "??? mlx5");
	memcpy(at, "\xc2\x9bX", 3);
	ASSERT_ERR(msg_decode(packet, (size_t)n, &back), EBADMSG);
}
