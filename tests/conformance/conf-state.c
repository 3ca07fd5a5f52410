/* SPDX-License-Identifier: Apache-2.0 */
/* The states of a QP: which requests run in which, what transitions do, and which are refused. */
#include "tests/conformance/conf.h"

#include <errno.h>

#define LOC 4159u
#define REM 4227u

static void one_write(struct conf *c, size_t rem)
{
	struct conf_wqe w;

	conf_write(&w, c->a, LOC, rem, 5000);
	conf_want_copy(&c->tgt.mem, rem, &c->ini.mem, LOC, 5000);
	conf_do(c->a, &w);
	conf_check(c);
}

TEST(conf_state_of_a_new_qp_is_reset_and_of_a_connected_one_rts)
{
	struct conf c;

	conf_open(&c, &(struct conf_attr){.unconnected = true});
	ASSERT_EQ(conf_query(c.a).state, SHMD_QP_RST);
	ASSERT_EQ(conf_query(c.a).qpn, c.a->dev->qpn);
	conf_connect(&c);
	ASSERT_EQ(conf_query(c.a).state, SHMD_QP_RTS);
	ASSERT_EQ(conf_query(c.b).state, SHMD_QP_RTS);
	ASSERT_EQ(conf_query(c.a).dest_qpn, c.b->dev->qpn);
	ASSERT_EQ(conf_query(c.b).dest_qpn, c.a->dev->qpn);
	one_write(&c, REM);
	conf_close(&c);
}

TEST(conf_state_init_accepts_receives_that_are_used_after_connecting)
{
	struct conf_wqe w;
	struct conf c;
	uint16_t recv;

	conf_open(&c, &(struct conf_attr){.unconnected = true, .rq_wqes = 4});
	conf_need(&c, CONF_F_RECV);
	conf_modify(c.b, SHMD_QP_INIT);
	ASSERT_EQ(conf_query(c.b).state, SHMD_QP_INIT);
	recv = conf_post_recv(c.b, REM, 100);
	conf_connect(&c);
	conf_send(&w, c.a, LOC, 100);
	conf_want_copy(&c.tgt.mem, REM, &c.ini.mem, LOC, 100);
	conf_do(c.a, &w);
	conf_expect_recv(c.b, recv, SHMD_CQE_RESP_SEND, 100);
	conf_check(&c);
	conf_close(&c);
}

/* Requests posted before the QP can send wait, and run when it can. */
TEST(conf_state_init_runs_no_requests)
{
	struct conf_wqe w;
	struct conf c;
	uint16_t index;

	conf_open(&c, &(struct conf_attr){.unconnected = true});
	conf_modify(c.a, SHMD_QP_INIT);
	conf_write(&w, c.a, LOC, REM, 100);
	index = conf_run(c.a, &w);
	conf_expect_no_cqe(c.a, 10);
	conf_check(&c);
	conf_connect(&c);
	conf_ring(c.a);
	conf_want_copy(&c.tgt.mem, REM, &c.ini.mem, LOC, 100);
	conf_expect_ok(c.a, index);
	conf_check(&c);
	conf_close(&c);
}

/* ---- SQD ------------------------------------------------------------------------------------------------------------ */

static void sqd_stops(struct conf *c, size_t n)
{
	struct conf_wqe w;
	uint16_t index = 0;

	conf_need(c, CONF_F_SQD);
	one_write(c, REM);
	conf_modify(c->a, SHMD_QP_SQD);
	ASSERT_EQ(conf_query(c->a).state, SHMD_QP_SQD);
	for (size_t i = 0; i < n; i++) {
		conf_write(&w, c->a, LOC, 200 * i, 100);
		index = conf_run(c->a, &w);
	}
	conf_expect_no_cqe(c->a, 10);
	conf_check(c);
	conf_modify(c->a, SHMD_QP_RTS);
	conf_ring(c->a);
	for (size_t i = 0; i < n; i++)
		conf_want_copy(&c->tgt.mem, 200 * i, &c->ini.mem, LOC, 100);
	conf_expect_ok(c->a, index);
	conf_check(c);
}

TEST(conf_state_sqd_stops_the_send_queue_and_rts_resumes_it)
{
	conf_each_variant(sqd_stops, 10, NULL);
}

/* Requests already under way complete in SQD. */
static void sqd_drains(struct conf *c, size_t bytes)
{
	struct conf_timer timer = CONF_TIMER;
	struct conf_wqe w;
	uint16_t last = 0;
	struct conf_cqe cqe;

	conf_need(c, CONF_F_SQD);
	for (size_t i = 0; i < 8; i++) {
		conf_write(&w, c->a, 0, 0, bytes);
		last = conf_post(c->a, &w);
	}
	conf_ring(c->a);
	conf_want_copy(&c->tgt.mem, 0, &c->ini.mem, 0, bytes);
	while (!conf_poll(c->a, &cqe))
		conf_pause(&timer);
	conf_modify(c->a, SHMD_QP_SQD);
	conf_sleep_msec(20);
	conf_modify(c->a, SHMD_QP_RTS);
	conf_ring(c->a);
	if (cqe.wqe_counter != last)
		conf_expect_ok(c->a, last);
	conf_check(c);
}

TEST(conf_state_sqd_in_the_midst_of_writes_loses_none)
{
	conf_each_variant(sqd_drains, 1 << 20, &(struct conf_attr){.mem_bytes = 1 << 20});
}

static void sqd_receives(struct conf *c, size_t bytes)
{
	struct conf_wqe w;

	conf_need(c, CONF_F_SQD);
	conf_modify(c->b, SHMD_QP_SQD);
	one_write(c, REM);
	conf_read(&w, c->a, 20000, REM, 3000);
	conf_want_copy(&c->ini.mem, 20000, &c->tgt.mem, REM, 3000);
	conf_do(c->a, &w);
	conf_check(c);
}

TEST(conf_state_sqd_goes_on_answering_its_peer)
{
	conf_each_variant(sqd_receives, 0, NULL);
}

/* ---- ERR ------------------------------------------------------------------------------------------------------------- */

static void err_flushes(struct conf *c, size_t n)
{
	struct conf_wqe w;

	conf_need(c, CONF_F_RECV);
	for (size_t i = 0; i < n; i++)
		conf_post_recv(c->a, 0, 100);
	conf_modify(c->a, SHMD_QP_ERR);
	ASSERT_EQ(conf_query(c->a).state, SHMD_QP_ERR);
	for (size_t i = 0; i < n; i++)
		conf_expect_recv_error(c->a, (uint16_t)i, SHMD_SYNDROME_WR_FLUSH_ERR);
	for (size_t i = 0; i < n; i++) {
		conf_write(&w, c->a, LOC, REM, 100);
		conf_expect_flush(c->a, conf_run(c->a, &w));
	}
	conf_check(c);
}

TEST(conf_state_err_flushes_sends_and_receives)
{
	conf_each_variant(err_flushes, 4, &(struct conf_attr){.rq_wqes = 4, .ordinary_cq = true});
}

/* A send that waits for a receive is flushed when the QP is moved to ERR. */
static void err_ends_waiting(struct conf *c, size_t arg)
{
	struct conf_wqe w;

	conf_need(c, CONF_F_RECV);
	conf_send(&w, c->a, LOC, 100);
	conf_run(c->a, &w);
	conf_expect_no_cqe(c->a, 5);
	conf_modify(c->a, SHMD_QP_ERR);
	conf_expect_flush(c->a, 0);
	conf_check(c);
}

TEST(conf_state_err_flushes_a_send_that_waits_for_a_receive)
{
	conf_each_variant(err_ends_waiting, 0, &(struct conf_attr){.rq_wqes = 4});
}

/* ---- RST ---------------------------------------------------------------------------------------------------------------- */

static void reconnect(struct conf *c, size_t rounds)
{
	struct conf_wqe w;

	for (size_t i = 0; i < rounds; i++) {
		one_write(c, REM + i);
		conf_write(&w, c->a, LOC, REM, 8);
		w.opcode = 0x7f;
		conf_run(c->a, &w);
		conf_expect_error(c->a, 1, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
		conf_modify(c->a, SHMD_QP_RST);
		conf_modify(c->b, SHMD_QP_RST);
		ASSERT_EQ(conf_query(c->a).state, SHMD_QP_RST);
		ASSERT_EQ(conf_query(c->a).first_error, 0);
		conf_connect(c);
	}
	one_write(c, REM);
}

TEST(conf_state_rst_clears_an_error_and_the_qp_connects_again)
{
	conf_each_variant(reconnect, 5, NULL);
}

/* The flush of the second life must show, although the first ended in an error too. */
static void err_rst_err(struct conf *c, size_t arg)
{
	struct conf_wqe w;

	conf_write(&w, c->a, LOC, REM, 8);
	w.opcode = 0x7f;
	conf_expect_error(c->a, conf_run(c->a, &w), SHMD_SYNDROME_LOCAL_QP_OP_ERR);
	conf_modify(c->a, SHMD_QP_RST);
	conf_modify(c->b, SHMD_QP_RST);
	conf_connect(c);
	conf_modify(c->a, SHMD_QP_ERR);
	conf_write(&w, c->a, LOC, REM, 8);
	conf_expect_flush(c->a, conf_run(c->a, &w));
}

TEST(conf_state_rst_forgets_the_error_of_the_life_before)
{
	conf_each_variant(err_rst_err, 0, NULL);
}

static void receive_one(struct conf *c, size_t rem)
{
	uint16_t recv = conf_post_recv(c->b, rem, 5000);
	struct conf_wqe w;

	conf_send(&w, c->a, LOC, 5000);
	conf_want_copy(&c->tgt.mem, rem, &c->ini.mem, LOC, 5000);
	conf_do(c->a, &w);
	conf_expect_recv(c->b, recv, SHMD_CQE_RESP_SEND, 5000);
	conf_check(c);
}

/* Used receives and waiting ones: afterwards the ring begins at 0 and is empty. */
static void rst_forgets_receives(struct conf *c, size_t n)
{
	conf_need(c, CONF_F_RECV);
	for (size_t i = 0; i < n; i++)
		receive_one(c, REM + 100 * i);
	conf_post_recv(c->b, 0, 5000);
	conf_modify(c->b, SHMD_QP_RST);
	conf_modify(c->a, SHMD_QP_RST);
	conf_connect(c);
	ASSERT_EQ(c->b->rq_pi, 0);
	receive_one(c, 20000);
}

TEST(conf_state_rst_forgets_posted_receives)
{
	conf_each_variant(rst_forgets_receives, 3, &(struct conf_attr){.rq_wqes = 4});
}

static void rst_midway(struct conf *c, size_t bytes)
{
	struct conf_wqe w;

	for (int i = 0; i < 8; i++) {
		conf_write(&w, c->a, 0, 0, bytes);
		conf_post(c->a, &w);
	}
	conf_ring(c->a);
	conf_modify(c->a, SHMD_QP_RST);
	conf_modify(c->b, SHMD_QP_RST);
	conf_connect(c);
	conf_write(&w, c->a, 0, 0, bytes);
	conf_want_copy(&c->tgt.mem, 0, &c->ini.mem, 0, bytes);
	conf_do(c->a, &w);
	conf_check(c);
}

TEST(conf_state_rst_in_the_midst_of_writes_leaves_a_usable_qp)
{
	conf_each_variant(rst_midway, 1 << 20, &(struct conf_attr){.mem_bytes = 1 << 20});
}

/* ---- refused ------------------------------------------------------------------------------------------------------------- */

static int try_modify(struct conf_qp *qp, enum shmd_qp_state state)
{
	return shmd_queues_modify(qp->side->queues, qp->index, state);
}

TEST(conf_state_transitions_that_skip_states_are_refused)
{
	struct conf c;

	conf_open(&c, &(struct conf_attr){.unconnected = true});
	ASSERT_LT(try_modify(c.a, SHMD_QP_SQD), 0);
	ASSERT_LT(try_modify(c.a, SHMD_QP_RTS), 0);
	ASSERT_LT(try_modify(c.a, SHMD_QP_RTR), 0);
	ASSERT_EQ(conf_query(c.a).state, SHMD_QP_RST);
	conf_connect(&c);
	ASSERT_LT(try_modify(c.a, SHMD_QP_INIT), 0);
	ASSERT_LT(try_modify(c.a, (enum shmd_qp_state)5), 0);
	ASSERT_EQ(conf_query(c.a).state, SHMD_QP_RTS);
	one_write(&c, REM);
	conf_modify(c.a, SHMD_QP_ERR);
	ASSERT_LT(try_modify(c.a, SHMD_QP_RTS), 0);
	ASSERT_LT(try_modify(c.a, SHMD_QP_INIT), 0);
	ASSERT_LT(try_modify(c.a, SHMD_QP_SQD), 0);
	ASSERT_EQ(conf_query(c.a).state, SHMD_QP_ERR);
	conf_close(&c);
}

TEST(conf_state_connecting_a_connected_qp_is_refused)
{
	struct shmd_addr addr;
	struct conf c;

	conf_open(&c, NULL);
	ASSERT_OK(shmd_queues_addr(c.tgt.queues, 0, &addr));
	ASSERT_LT(shmd_queues_connect(c.ini.queues, 0, 1, &addr, NULL, NULL), 0);
	one_write(&c, REM);
	conf_close(&c);
}

TEST(conf_state_connecting_to_a_mangled_address_is_refused)
{
	struct shmd_addr addr;
	struct conf c;

	conf_open(&c, &(struct conf_attr){.unconnected = true});
	ASSERT_OK(shmd_queues_addr(c.tgt.queues, 0, &addr));
	addr.bytes--;
	ASSERT_LT(shmd_queues_connect(c.ini.queues, 0, 1, &addr, NULL, NULL), 0);
	addr.bytes = 0;
	ASSERT_LT(shmd_queues_connect(c.ini.queues, 0, 1, &addr, NULL, NULL), 0);
	conf_connect(&c);
	one_write(&c, REM);
	conf_close(&c);
}

/* ---- counters ----------------------------------------------------------------------------------------------------------------- */

static void counters(struct conf *c, size_t arg)
{
	struct shmd_counters before, after;
	struct shmd_qp_info info;
	struct conf_wqe w;

	conf_need(c, CONF_F_COUNTS);
	ASSERT_OK(shmd_client_counters(c->ini.client, &before));
	one_write(c, REM);
	conf_read(&w, c->a, 20000, 20000, 300);
	conf_want_copy(&c->ini.mem, 20000, &c->tgt.mem, 20000, 300);
	conf_do(c->a, &w);
	conf_nop(&w);
	conf_do(c->a, &w);
	info = conf_query(c->a);
	ASSERT_EQ(info.counters.wqes, 3);
	ASSERT_EQ(info.counters.wqes_by_kind[0], 1);
	ASSERT_EQ(info.counters.wqes_by_kind[1], 1);
	ASSERT_EQ(info.counters.wqes_by_kind[3], 1);
	ASSERT_EQ(info.counters.bytes_sent, 5000);
	ASSERT_EQ(info.counters.bytes_read, 300);
	ASSERT_EQ(info.counters.error_cqes, 0);
	ASSERT_OK(shmd_client_counters(c->ini.client, &after));
	ASSERT_EQ(after.wqes - before.wqes, 3);
	conf_check(c);
}

TEST(conf_state_counters_tell_what_was_executed)
{
	conf_each_variant(counters, 0, NULL);
}

static uint32_t error_word(const struct conf_qp *qp)
{
	uint64_t dbrec = qp->dev->sq_dbrec_addr - offsetof(struct shmd_dbrec, snd);

	return __atomic_load_n((const uint32_t *)(uintptr_t)(dbrec + SHMD_QP_ERROR_OFFSET), __ATOMIC_ACQUIRE);
}

/* The peer's QP has nothing on its way: this word is all that its waits can find. */
static void error_is_told(struct conf *c, size_t arg)
{
	struct conf_wqe w;

	conf_need(c, CONF_F_TELLS_ERROR);
	ASSERT_EQ(error_word(c->b), 0u);
	conf_wqe_init(&w, SHMD_OPCODE_RDMA_WRITE);
	conf_wqe_raddr(&w, (uintptr_t)c->tgt.mem.addr, c->ini.mem.rkey_be);
	conf_wqe_data(&w, (uintptr_t)c->ini.mem.addr, 8, c->ini.mem.lkey_be);
	conf_expect_error(c->a, conf_run(c->a, &w), SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	/* The CQE may come a moment earlier; a query finds it reported. */
	ASSERT_EQ(conf_query(c->a).state, SHMD_QP_ERR);
	ASSERT_EQ(conf_query(c->b).state, SHMD_QP_ERR);
	ASSERT_EQ(error_word(c->a), SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	ASSERT_EQ(error_word(c->b), SHMD_SYNDROME_LOCAL_ACCESS_ERR);
	conf_modify(c->b, SHMD_QP_RST);
	ASSERT_EQ(error_word(c->b), 0u);
	conf_modify(c->b, SHMD_QP_ERR);
	ASSERT_EQ(error_word(c->b), SHMD_SYNDROME_WR_FLUSH_ERR);
	conf_check(c);
}

TEST(conf_state_error_is_reported_beside_the_dbrec)
{
	conf_each_variant(error_is_told, 0, NULL);
}
