/* SPDX-License-Identifier: Apache-2.0 */
/* A port that goes down and up under a connection: waiting and failing requests, and the reports. */
#include "tests/conformance/conf.h"

#include <string.h>

#define LOC 4159u
#define REM 4227u
#define WORD 64u

/* 268 ms, eight times: up again long before that. */
static const struct shmd_qp_params params = {
	.timeout = 16, .retry_count = 7, .rnr_retry = 7, .min_rnr_timer = 1, .max_rd_atomic = 16};

/* 0: the initiator's port; 1: the target's. */
static struct conf_side *side_of(struct conf *c, size_t which)
{
	return which ? &c->tgt : &c->ini;
}

static void down_and_up(struct conf *c, size_t which)
{
	uint64_t old, sum;
	struct conf_wqe w;
	uint16_t index;

	conf_need(c, CONF_F_PORT | CONF_F_ATOMIC);
	memcpy(&old, c->tgt.mem.addr + WORD, sizeof(old));
	sum = old + 5;
	conf_port_set(c, side_of(c, which), false);
	conf_write(&w, c->a, LOC, REM, 20000);
	conf_want_copy(&c->tgt.mem, REM, &c->ini.mem, LOC, 20000);
	conf_post(c->a, &w);
	conf_fetch_add(&w, c->a, WORD, WORD, 5);
	conf_want_bytes(&c->ini.mem, WORD, &old, sizeof(old));
	conf_want_bytes(&c->tgt.mem, WORD, &sum, sizeof(sum));
	index = conf_run(c->a, &w);
	conf_expect_no_cqe(c->a, 20);
	conf_port_set(c, side_of(c, which), true);
	conf_expect_ok(c->a, index);
	conf_check(c);
}

TEST(conf_port_down_and_up_at_the_initiator_carries_everything_once)
{
	conf_each_variant(down_and_up, 0, &(struct conf_attr){.params = &params});
}

TEST(conf_port_down_and_up_at_the_target_carries_everything_once)
{
	conf_each_variant(down_and_up, 1, &(struct conf_attr){.params = &params});
}

static void stays_down(struct conf *c, size_t which)
{
	struct conf_wqe w;

	conf_need(c, CONF_F_PORT);
	conf_port_set(c, side_of(c, which), false);
	conf_write(&w, c->a, LOC, REM, 100);
	conf_expect_error(c->a, conf_run(c->a, &w), SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	conf_port_set(c, side_of(c, which), true);
	conf_check(c);
}

TEST(conf_port_that_stays_down_at_the_initiator_gives_transport_retry_exceeded)
{
	conf_each_variant(stays_down, 0, &(struct conf_attr){.params = &conf_impatient});
}

TEST(conf_port_that_stays_down_at_the_target_gives_transport_retry_exceeded)
{
	conf_each_variant(stays_down, 1, &(struct conf_attr){.params = &conf_impatient});
}

/* 134 ms, twice: short enough to wait for, long enough for a peer that is answered by a busy machine. */
static const struct shmd_qp_params short_params = {
	.timeout = 15, .retry_count = 1, .rnr_retry = 7, .min_rnr_timer = 1, .max_rd_atomic = 16};

static void idle(struct conf *c, size_t which)
{
	struct conf_wqe w;

	conf_need(c, CONF_F_PORT);
	conf_port_set(c, side_of(c, which), false);
	/* Longer than all retries would be. */
	conf_sleep_msec(400);
	conf_port_set(c, side_of(c, which), true);
	ASSERT_EQ(conf_query(c->a).state, SHMD_QP_RTS);
	conf_write(&w, c->a, LOC, REM, 5000);
	conf_want_copy(&c->tgt.mem, REM, &c->ini.mem, LOC, 5000);
	conf_do(c->a, &w);
	conf_check(c);
}

TEST(conf_port_down_is_nothing_to_a_qp_with_nothing_on_its_way)
{
	conf_each_variant(idle, 0, &(struct conf_attr){.params = &short_params});
}

static void await_health(const struct conf_qp *qp, uint32_t health)
{
	const uint32_t *word = (const uint32_t *)(uintptr_t)qp->dev->health_addr;
	struct conf_timer timer = CONF_TIMER;

	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != health)
		conf_pause(&timer);
}

static void expect_state(struct conf *c, uint32_t state)
{
	struct shmd_event event;

	ASSERT_OK(shmd_event_next(c->ini.client, CONF_WAIT_NSEC, &event));
	ASSERT_EQ(event.kind, SHMD_EVENT_PORT_STATE);
	ASSERT_EQ(event.detail, state);
}

static void told(struct conf *c, size_t arg)
{
	conf_need(c, CONF_F_PORT);
	for (int i = 0; i < 3; i++) {
		conf_port_set(c, &c->ini, false);
		await_health(c->a, SHMD_HEALTH_PORT_DOWN);
		expect_state(c, 1);
		conf_port_set(c, &c->ini, true);
		await_health(c->a, SHMD_HEALTH_OK);
		expect_state(c, 2);
	}
}

TEST(conf_port_state_is_in_the_health_word_and_an_event)
{
	conf_each_variant(told, 0, NULL);
}
