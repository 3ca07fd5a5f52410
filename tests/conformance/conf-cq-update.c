/* SPDX-License-Identifier: Apache-2.0 */
/* Which WQEs get a CQE: the modes of CQ_UPDATE, and CQEs that stand for requests before them. */
#include "tests/conformance/conf.h"

#include <string.h>

#define LOC 4159u

static void error_only(struct conf *c, size_t fm_ce_se)
{
	struct conf_wqe w;
	uint16_t quiet, loud;

	conf_write(&w, c->a, LOC, 100, 3000);
	conf_want_copy(&c->tgt.mem, 100, &c->ini.mem, LOC, 3000);
	w.fm_ce_se = (uint8_t)fm_ce_se;
	quiet = conf_run(c->a, &w);
	conf_expect_no_cqe(c->a, 5);
	conf_check(c);
	conf_nop(&w);
	loud = conf_run(c->a, &w);
	conf_expect_ok(c->a, loud);
	ASSERT_EQ(loud, (uint16_t)(quiet + 1));
	ASSERT(c->a->collapsed || c->a->cq_ci == 1);
}

TEST(conf_cq_update_error_only_gives_no_cqe_on_success)
{
	conf_each_variant(error_only, SHMD_WQE_CE_ERROR_ONLY, NULL);
}

TEST(conf_cq_update_first_error_gives_no_cqe_on_success)
{
	conf_each_variant(error_only, SHMD_WQE_CE_FIRST_ERROR, NULL);
}

static void error_only_fails(struct conf *c, size_t fm_ce_se)
{
	struct conf_wqe w;

	conf_write(&w, c->a, LOC, 100, 3000);
	w.fm_ce_se = (uint8_t)fm_ce_se;
	memset(w.bytes + SHMD_DS_BYTES + 8, 0, 4); /* rkey */
	conf_expect_error(c->a, conf_run(c->a, &w), SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	conf_check(c);
}

TEST(conf_cq_update_error_only_gives_a_cqe_on_failure)
{
	conf_each_variant(error_only_fails, SHMD_WQE_CE_ERROR_ONLY, NULL);
}

static void always_eqe(struct conf *c, size_t fm_ce_se)
{
	struct conf_wqe w;

	conf_nop(&w);
	w.fm_ce_se = (uint8_t)fm_ce_se;
	conf_do(c->a, &w);
}

TEST(conf_cq_update_always_with_event_gives_a_cqe)
{
	conf_each_variant(always_eqe, SHMD_WQE_CE_ALWAYS_EQE, NULL);
}

static void solicited(struct conf *c, size_t arg)
{
	uint16_t sent, recv;
	struct conf_wqe w;

	conf_need(c, CONF_F_RECV);
	recv = conf_post_recv(c->b, 0, 100);
	conf_send(&w, c->a, LOC, 100);
	conf_want_copy(&c->tgt.mem, 0, &c->ini.mem, LOC, 100);
	w.fm_ce_se |= SHMD_WQE_SOLICITED;
	sent = conf_run(c->a, &w);
	conf_expect_recv(c->b, recv, SHMD_CQE_RESP_SEND, 100);
	conf_expect_ok(c->a, sent);
	conf_check(c);
}

TEST(conf_cq_solicited_bit_changes_nothing_for_a_poller)
{
	conf_each_variant(solicited, 0, &(struct conf_attr){.rq_wqes = 4});
}

/* Every fourth WQE asks for a CQE; it stands for those before it. */
static void one_in_four(struct conf *c, size_t n)
{
	struct conf_wqe w;

	for (size_t i = 0; i < n; i++) {
		conf_write(&w, c->a, LOC, 600 * i, 599);
		conf_want_copy(&c->tgt.mem, 600 * i, &c->ini.mem, LOC, 599);
		w.fm_ce_se = i % 4 == 3 ? SHMD_WQE_CE_ALWAYS : 0;
		conf_post(c->a, &w);
	}
	conf_ring(c->a);
	for (size_t i = 3; i < n; i += 4) {
		struct conf_cqe cqe = conf_wait(c->a, (uint16_t)i);

		ASSERT_EQ(cqe.opcode, SHMD_CQE_REQ);
		ASSERT_EQ(cqe.wqe_counter % 4, 3);
		i = cqe.wqe_counter;
	}
	ASSERT(c->a->collapsed || c->a->cq_ci == n / 4);
	conf_check(c);
}

TEST(conf_cq_one_cqe_stands_for_unsignalled_wqes_before_it)
{
	conf_each_variant(one_in_four, 64, NULL);
}

/* No CQE was asked for by the writes, so the NOP's must make the NIC ask for them. */
static void nop_behind(struct conf *c, size_t n)
{
	struct conf_wqe w;

	for (size_t r = 0; r < 20; r++) {
		for (size_t i = 0; i < n; i++) {
			conf_write(&w, c->a, LOC + r, 600 * i, 599);
			conf_want_copy(&c->tgt.mem, 600 * i, &c->ini.mem, LOC + r, 599);
			w.fm_ce_se = 0;
			conf_post(c->a, &w);
		}
		conf_nop(&w);
		conf_do(c->a, &w);
		conf_check(c);
	}
}

TEST(conf_cq_nop_completes_behind_one_unsignalled_write)
{
	conf_each_variant(nop_behind, 1, NULL);
}

TEST(conf_cq_nop_completes_behind_50_unsignalled_writes)
{
	conf_each_variant(nop_behind, 50, NULL);
}
