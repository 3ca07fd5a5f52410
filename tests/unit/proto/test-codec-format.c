/* SPDX-License-Identifier: Apache-2.0 */
/* The line for people: content, secrets, truncation. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proto/codec-table.h"
#include "proto/codec.h"
#include "tests/lib/test.h"
#include "tests/unit/proto/sample.h"

static char line[65536];

TEST(a_line_names_kind_id_and_fields)
{
	struct msg msg;

	msg_init(&msg, MSG_QUEUE_LAYOUT_REQ, 12);
	msg.n_fds = 2;
	msg.queue_layout_req.n_cqs = 1;
	msg.queue_layout_req.cqs[0] = (struct msg_cq_spec){.count = 4, .log2_entries = 10};
	ASSERT_GT(msg_format(&msg, line, sizeof(line)), 0);
	ASSERT_STREQ(line, "queue-layout-req id 12 fds 2 cqs 1 [count 4 log2_entries 10]");
}

TEST(secrets_are_not_shown)
{
	struct msg msg;

	msg_init(&msg, MSG_MEM_REG_REP, 1);
	msg.mem_reg_rep = (struct msg_mem_reg_rep){.mr = 3, .lkey = 987654321, .rkey = 123456789};
	msg_format(&msg, line, sizeof(line));
	ASSERT_STREQ(line, "mem-reg-rep id 1 fds 0 mr 3 lkey hidden rkey hidden");

	msg_init(&msg, MSG_PUBLISH_REQ, 1);
	memset(msg.publish_req.key.world, 0xab, MSG_WORLD_BYTES);
	memset(msg.publish_req.data, 0xcd, 4);
	msg.publish_req.data_bytes = 4;
	msg_format(&msg, line, sizeof(line));
	ASSERT_STREQ(line, "publish-req id 1 fds 0 world 16 bytes data 4 bytes");
}

TEST(long_arrays_are_cut)
{
	struct msg msg;

	sample_init(&msg, MSG_CONNECT_REQ, 0, SAMPLE_MAX, 0);
	msg_format(&msg, line, sizeof(line));
	ASSERT_NE(strstr(line, " peers 512 ["), NULL);
	ASSERT_NE(strstr(line, " ..."), NULL);
	ASSERT_LT(strlen(line), 512);
	msg_deinit(&msg);
}

TEST(a_line_is_cut_to_any_buffer)
{
	sample_for_each_kind (kind) {
		struct msg msg;
		int whole;

		sample_init(&msg, kind, 0, SAMPLE_MAX, 0);
		whole = msg_format(&msg, line, sizeof(line));
		ASSERT_EQ(whole, (int)strlen(line));
		for (size_t size = 1; size <= (size_t)whole + 2; size += 1 + size / 8) {
			char small[65536];

			memset(small, 0x7e, sizeof(small));
			ASSERT_LT(msg_format(&msg, small, size), (int)size);
			ASSERT_LT(strlen(small), size);
			ASSERT_EQ(strncmp(small, line, size - 1), 0);
			ASSERT_EQ(small[size], 0x7e);
		}
		msg_deinit(&msg);
	}
	ASSERT_ERR(msg_format(&(struct msg){0}, line, 0), EINVAL);
}

TEST(an_unknown_kind_still_gives_a_line)
{
	struct msg msg;

	msg_init(&msg, 0, 9);
	msg_format(&msg, line, sizeof(line));
	ASSERT_STREQ(line, "unknown id 9 fds 0");
}
