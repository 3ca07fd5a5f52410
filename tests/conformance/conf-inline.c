/* SPDX-License-Identifier: Apache-2.0 */
/* Payload in the WQE itself: every size that changes the shape of the WQE. */
#include "tests/conformance/conf.h"

#include <string.h>

#define REM 4227u

static void inline_write(struct conf *c, size_t bytes)
{
	uint8_t data[SHMD_WQE_MAX_WQEBBS * SHMD_WQEBB_BYTES];
	struct conf_wqe w;

	conf_need_inline(c, (unsigned int)bytes);
	conf_pattern(data, bytes, 77);
	conf_write_inline(&w, c->a, data, bytes, REM);
	conf_want_bytes(&c->tgt.mem, REM, data, bytes);
	conf_do(c->a, &w);
	conf_check(c);
}

#define INLINE_CASE(bytes_)                                                                        \
	TEST(conf_inline_write_##bytes_##_bytes)                                                   \
	{                                                                                          \
		conf_each_variant(inline_write, bytes_, NULL);                                     \
	}
INLINE_CASE(1)
INLINE_CASE(4)
INLINE_CASE(8)
INLINE_CASE(12)
INLINE_CASE(13)
INLINE_CASE(28)
INLINE_CASE(29)
INLINE_CASE(60)
INLINE_CASE(92)
INLINE_CASE(93)
INLINE_CASE(220)
INLINE_CASE(512)
INLINE_CASE(956)

static void inline_send(struct conf *c, size_t bytes)
{
	uint8_t data[SHMD_WQE_MAX_WQEBBS * SHMD_WQEBB_BYTES];
	uint16_t sent, recv;
	struct conf_wqe w;

	conf_need(c, CONF_F_RECV);
	conf_need_inline(c, (unsigned int)bytes);
	conf_pattern(data, bytes, 78);
	recv = conf_post_recv(c->b, REM, 2000);
	conf_wqe_init(&w, SHMD_OPCODE_SEND_IMM);
	w.imm = 5;
	conf_wqe_inline(&w, data, bytes);
	conf_want_bytes(&c->tgt.mem, REM, data, bytes);
	sent = conf_run(c->a, &w);
	conf_expect_recv(c->b, recv, SHMD_CQE_RESP_SEND_IMM, (uint32_t)bytes);
	conf_expect_ok(c->a, sent);
	conf_check(c);
}

TEST(conf_inline_send_1_byte)
{
	conf_each_variant(inline_send, 1, &(struct conf_attr){.rq_wqes = 4});
}

TEST(conf_inline_send_44_bytes)
{
	conf_each_variant(inline_send, 44, &(struct conf_attr){.rq_wqes = 4});
}

TEST(conf_inline_send_900_bytes)
{
	conf_each_variant(inline_send, 900, &(struct conf_attr){.rq_wqes = 4});
}

static void inline_write_imm(struct conf *c, size_t bytes)
{
	uint8_t data[64];
	struct conf_cqe cqe;
	struct conf_wqe w;
	uint16_t sent;

	conf_need(c, CONF_F_RECV);
	conf_pattern(data, bytes, 79);
	conf_post_recv(c->b, 0, 0);
	conf_write_inline(&w, c->a, data, bytes, REM);
	w.opcode = SHMD_OPCODE_RDMA_WRITE_IMM;
	w.imm = 0xffffffff;
	conf_want_bytes(&c->tgt.mem, REM, data, bytes);
	sent = conf_run(c->a, &w);
	cqe = conf_wait_recv(c->b);
	ASSERT_EQ(cqe.opcode, SHMD_CQE_RESP_WRITE_IMM);
	ASSERT_EQ(cqe.imm, 0xffffffff);
	ASSERT_EQ(cqe.byte_cnt, bytes);
	conf_expect_ok(c->a, sent);
	conf_check(c);
}

TEST(conf_inline_write_imm)
{
	conf_each_variant(inline_write_imm, 33, &(struct conf_attr){.rq_wqes = 4});
}

/* The NIC may read the WQE only until the request has completed: afterwards the slot is the client's. */
static void inline_reuse(struct conf *c, size_t n)
{
	struct conf_wqe w;

	for (uint64_t i = 0; i < n; i++) {
		conf_write_inline(&w, c->a, &i, 8, 8 * (i % 1000));
		conf_want_bytes(&c->tgt.mem, 8 * (i % 1000), &i, 8);
		conf_do(c->a, &w);
		memset((void *)(uintptr_t)c->a->dev->sq_addr, 0xcc,
		       (size_t)c->a->dev->sq_wqebbs * 64);
	}
	conf_check(c);
}

TEST(conf_inline_slots_may_be_overwritten_after_completion)
{
	conf_each_variant(inline_reuse, 200, NULL);
}
