/* SPDX-License-Identifier: Apache-2.0 */
/* After an error: flush of what is queued on both sides, other QPs undisturbed. Receives that do not fit. */
#include "tests/conformance/conf.h"

#include <string.h>

#define LOC 4159u
#define REM 4227u

static void bad_write(struct conf_wqe *w, const struct conf_qp *qp)
{
	conf_write(w, qp, LOC, REM, 100);
	memset(w->bytes + SHMD_DS_BYTES + 8, 0, 4); /* rkey */
}

/* ---- flush -------------------------------------------------------------------------------------------------------- */

/* Posted together with the bad one: each of the later WQEs is flushed, signalled or not. */
static void flush_batch(struct conf *c, size_t n)
{
	struct conf_wqe w;

	conf_write(&w, c->a, LOC, REM, 50);
	conf_want_copy(&c->tgt.mem, REM, &c->ini.mem, LOC, 50);
	conf_post(c->a, &w);
	bad_write(&w, c->a);
	conf_post(c->a, &w);
	for (size_t i = 0; i < n; i++) {
		conf_write(&w, c->a, LOC, REM + 1000, 100);
		w.fm_ce_se = i % 2 ? SHMD_WQE_CE_ALWAYS : SHMD_WQE_CE_ERROR_ONLY;
		conf_post(c->a, &w);
	}
	conf_ring(c->a);
	conf_expect_ok(c->a, 0);
	conf_expect_error(c->a, 1, SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	for (size_t i = 0; i < n; i++)
		conf_expect_flush(c->a, (uint16_t)(2 + i));
	conf_check(c);
}

TEST(conf_error_flushes_every_later_wqe)
{
	conf_each_variant(flush_batch, 5, &(struct conf_attr){.ordinary_cq = true});
}

static void flush_later(struct conf *c, size_t n)
{
	struct conf_wqe w;

	bad_write(&w, c->a);
	conf_expect_error(c->a, conf_run(c->a, &w), SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	while (n--) {
		conf_write(&w, c->a, LOC, REM, 100);
		conf_expect_flush(c->a, conf_run(c->a, &w));
	}
	conf_check(c);
}

TEST(conf_error_flushes_what_is_posted_afterwards)
{
	conf_each_variant(flush_later, 10, &(struct conf_attr){.ordinary_cq = true});
}

/* A poller that comes late still learns why. */
static void cause_stays(struct conf *c, size_t n)
{
	struct conf_timer timer = CONF_TIMER;
	struct conf_wqe w;

	conf_need(c, CONF_F_KEEPS_CAUSE);
	bad_write(&w, c->a);
	conf_post(c->a, &w);
	while (n--) {
		conf_write(&w, c->a, LOC, REM, 100);
		conf_post(c->a, &w);
	}
	conf_ring(c->a);
	while (conf_query(c->a).counters.error_cqes < c->a->sq_pi)
		conf_pause(&timer);
	conf_expect_error(c->a, 0, SHMD_SYNDROME_REMOTE_ACCESS_ERR);
}

TEST(conf_error_stays_in_a_collapsed_cq_over_the_flushes_behind_it)
{
	for (int i = 0; i < 2; i++) {
		struct conf c;

		conf_open(&c, &(struct conf_attr){.two_nics = i});
		cause_stays(&c, 7);
		conf_close(&c);
	}
}

static void flush_receives(struct conf *c, size_t n)
{
	struct conf_wqe w;

	conf_need(c, CONF_F_RECV);
	for (size_t i = 0; i < n; i++)
		conf_post_recv(c->a, 0, 100);
	bad_write(&w, c->a);
	conf_expect_error(c->a, conf_run(c->a, &w), SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	for (size_t i = 0; i < n; i++)
		conf_expect_recv_error(c->a, (uint16_t)i, SHMD_SYNDROME_WR_FLUSH_ERR);
	conf_check(c);
}

TEST(conf_error_of_a_requester_flushes_its_receives)
{
	conf_each_variant(flush_receives, 3, &(struct conf_attr){.rq_wqes = 4});
}

static void flush_responder(struct conf *c, size_t n)
{
	struct conf_timer timer = CONF_TIMER;
	struct conf_wqe w;

	conf_need(c, CONF_F_RECV);
	for (size_t i = 0; i < n; i++)
		conf_post_recv(c->b, 0, 100);
	bad_write(&w, c->a);
	conf_expect_error(c->a, conf_run(c->a, &w), SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	while (conf_query(c->b).state != SHMD_QP_ERR)
		conf_pause(&timer);
	for (size_t i = 0; i < n; i++)
		conf_expect_recv_error(c->b, (uint16_t)i, SHMD_SYNDROME_WR_FLUSH_ERR);
	conf_check(c);
}

TEST(conf_error_found_by_a_responder_moves_it_to_error_and_flushes_its_receives)
{
	conf_each_variant(flush_responder, 3, &(struct conf_attr){.rq_wqes = 4});
}

static void others_undisturbed(struct conf *c, size_t n)
{
	struct conf_wqe w;

	bad_write(&w, &c->a[1]);
	conf_run(&c->a[1], &w);
	for (size_t i = 0; i < n; i++) {
		conf_write(&w, &c->a[0], LOC, 100 * i, 100);
		conf_want_copy(&c->tgt.mem, 100 * i, &c->ini.mem, LOC, 100);
		conf_do(&c->a[0], &w);
		conf_write(&w, &c->a[2], LOC, 30000 + 100 * i, 100);
		conf_want_copy(&c->tgt.mem, 30000 + 100 * i, &c->ini.mem, LOC, 100);
		conf_do(&c->a[2], &w);
	}
	conf_expect_error(&c->a[1], 0, SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	ASSERT_EQ(conf_query(&c->a[0]).state, SHMD_QP_RTS);
	ASSERT_EQ(conf_query(&c->a[2]).state, SHMD_QP_RTS);
	conf_check(c);
}

TEST(conf_error_does_not_disturb_other_qps_of_the_session)
{
	conf_each_variant(others_undisturbed, 50, &(struct conf_attr){.n_qps = 3});
}

static void error_event(struct conf *c, size_t arg)
{
	struct shmd_event event;
	struct conf_wqe w;

	conf_need(c, CONF_F_EVENTS);
	bad_write(&w, c->a);
	conf_expect_error(c->a, conf_run(c->a, &w), SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	ASSERT_OK(shmd_event_next(c->ini.client, CONF_WAIT_NSEC, &event));
	ASSERT_EQ(event.kind, SHMD_EVENT_QP_ERROR);
	ASSERT_EQ(event.number, c->a->dev->qpn);
	ASSERT_EQ(event.detail, SHMD_SYNDROME_REMOTE_ACCESS_ERR);
}

TEST(conf_error_is_reported_as_an_event)
{
	conf_each_variant(error_event, 0, NULL);
}

/* ---- receives that do not fit ---------------------------------------------------------------------------------------- */

static void recv_too_small(struct conf *c, size_t bytes)
{
	struct conf_wqe w;
	uint16_t recv;

	conf_need(c, CONF_F_RECV);
	recv = conf_post_recv(c->b, REM, (uint32_t)bytes - 1);
	conf_send(&w, c->a, LOC, bytes);
	conf_expect_error(c->a, conf_run(c->a, &w), SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR);
	conf_expect_recv_error(c->b, recv, SHMD_SYNDROME_LOCAL_LENGTH_ERR);
	/* The bytes that fitted may have been placed; nothing behind them. */
	memcpy(c->tgt.mem.want + REM, c->tgt.mem.addr + REM, bytes - 1);
	conf_check(c);
}

TEST(conf_send_longer_than_the_receive_gives_length_and_invalid_request_errors)
{
	conf_each_variant(recv_too_small, 100, &(struct conf_attr){.rq_wqes = 4});
}

TEST(conf_send_of_many_packets_longer_than_the_receive_gives_the_same_errors)
{
	conf_each_variant(recv_too_small, 300000,
			  &(struct conf_attr){.rq_wqes = 4, .mem_bytes = 400000});
}

static void recv_bad_lkey(struct conf *c, size_t arg)
{
	struct conf_sge sge = {(uintptr_t)c->tgt.mem.addr, 100, htobe32(0x12345600)};
	struct conf_wqe w;
	uint16_t recv;

	conf_need(c, CONF_F_RECV);
	recv = conf_post_recv_sges(c->b, &sge, 1);
	conf_send(&w, c->a, LOC, 100);
	conf_expect_error(c->a, conf_run(c->a, &w), SHMD_SYNDROME_REMOTE_OP_ERR);
	conf_expect_recv_error(c->b, recv, SHMD_SYNDROME_LOCAL_PROT_ERR);
	conf_check(c);
}

TEST(conf_receive_with_a_bad_lkey_gives_protection_and_operation_errors)
{
	conf_each_variant(recv_bad_lkey, 0, &(struct conf_attr){.rq_wqes = 4});
}

static void write_imm_bad_rkey(struct conf *c, size_t arg)
{
	struct conf_wqe w;

	conf_need(c, CONF_F_RECV);
	conf_post_recv(c->b, REM, 100);
	bad_write(&w, c->a);
	w.opcode = SHMD_OPCODE_RDMA_WRITE_IMM;
	conf_expect_error(c->a, conf_run(c->a, &w), SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	ASSERT_EQ(conf_wait_recv(c->b).opcode, SHMD_CQE_RESP_ERR);
	conf_check(c);
}

TEST(conf_write_imm_with_a_bad_rkey_delivers_no_immediate)
{
	conf_each_variant(write_imm_bad_rkey, 0, &(struct conf_attr){.rq_wqes = 4});
}
