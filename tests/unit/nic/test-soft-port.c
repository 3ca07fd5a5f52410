/* SPDX-License-Identifier: Apache-2.0 */
/* A soft port that goes down and up: lost, waiting and failing requests, and the reports of them. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "client.h"
#include "process-lab.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"

#define QUIET_NSEC (30 * NSEC_PER_MSEC)
#define ALICE 1001u
#define BOB 1002u
#define CAROL 1003u

/* 4.2 ms, tried three times. */
static const struct nic_qp_params short_params = {
	.timeout = 10, .retry_count = 2, .rnr_retry = 7, .min_rnr_timer = 1, .max_rd_atomic = 16};

static void set(struct nic *nic, enum nic_port_state state)
{
	ASSERT_OK(nic->ops->port_set(nic, state));
}

/* Shorter than a sleep can be. */
static void spin(uint64_t nsec)
{
	uint64_t begin = nsec_now();

	while (nsec_now() - begin < nsec)
		;
}

static void assert_event(struct nic *nic, enum nic_port_state state)
{
	struct nic_event event;

	ASSERT_OK(nic->ops->next_event(nic, &event));
	ASSERT_EQ(event.kind, NIC_EVENT_PORT_STATE);
	ASSERT_EQ(event.state, state);
	ASSERT_EQ(event.session_id, 0u);
	ASSERT_EQ(event.number, 0u);
}

TEST(port_state_is_reported_by_query_and_event)
{
	struct pollfd pfd = {.events = POLLIN};
	struct nic_event event;
	struct nic_info info;
	struct client c;
	struct rig rig;
	struct nic *nic;

	rig_open(&rig, 2, NULL);
	nic = rig.nic[0];
	pfd.fd = nic->event_fd;
	/* Without a data thread, and with one. */
	for (int i = 0; i < 2; i++) {
		set(nic, NIC_PORT_ACTIVE);
		ASSERT_EQ(poll(&pfd, 1, 0), 0);
		set(nic, NIC_PORT_DOWN);
		set(nic, NIC_PORT_DOWN);
		ASSERT_EQ(poll(&pfd, 1, 0), 1);
		ASSERT_OK(nic_query(nic, &info));
		ASSERT_EQ(info.state, NIC_PORT_DOWN);
		ASSERT_OK(nic_query(rig.nic[1], &info));
		ASSERT_EQ(info.state, NIC_PORT_ACTIVE);
		set(nic, NIC_PORT_ACTIVE);
		ASSERT_OK(nic_query(nic, &info));
		ASSERT_EQ(info.state, NIC_PORT_ACTIVE);
		assert_event(nic, NIC_PORT_DOWN);
		assert_event(nic, NIC_PORT_ACTIVE);
		ASSERT_ERR(nic->ops->next_event(nic, &event), EAGAIN);
		ASSERT_EQ(poll(&pfd, 1, 0), 0);
		if (i == 0)
			client_open_ctx(&c, nic, 1);
	}
	ASSERT_ERR(nic->ops->port_set(nic, NIC_PORT_LOST), EINVAL);
	ASSERT_ERR(nic->ops->port_set(nic, (enum nic_port_state)0), EINVAL);
	ASSERT(!rig.nic[0]->ops->ctx_close(c.ctx));
	rig_close(&rig);
}

/* Nothing is asked of the events meanwhile: the last state is not among those that are merged away. */
TEST(last_of_many_port_states_is_kept)
{
	struct nic_event event = {0};
	unsigned int n = 0;
	struct rig rig;

	rig_open(&rig, 1, NULL);
	for (int i = 0; i < 1001; i++)
		set(rig.nic[0], i % 2 ? NIC_PORT_ACTIVE : NIC_PORT_DOWN);
	while (rig.nic[0]->ops->next_event(rig.nic[0], &event) == 0)
		n++;
	ASSERT_LE(n, 256u);
	ASSERT_GE(n, 1u);
	ASSERT_EQ(event.kind, NIC_EVENT_PORT_STATE);
	ASSERT_EQ(event.state, NIC_PORT_DOWN);
	rig_close(&rig);
}

/* a on NIC 0, b on NIC 1, c with itself on NIC 0. */
struct lane {
	struct rig rig;
	struct client a, b, c;
};

static void lane_open(struct lane *lane, const struct nic_qp_params *params)
{
	rig_open(&lane->rig, 2, NULL);
	client_open(&lane->a, lane->rig.nic[0], 1, 1);
	client_open(&lane->b, lane->rig.nic[1], 2, 1);
	client_open(&lane->c, lane->rig.nic[0], 3, 1);
	client_connect_as(&lane->a, 0, &lane->b, 0, params);
	client_connect_as(&lane->c, 0, &lane->c, 0, params);
}

static void lane_close(struct lane *lane)
{
	client_close(&lane->a);
	client_close(&lane->b);
	client_close(&lane->c);
	rig_close(&lane->rig);
}

static void post(struct client *from, uint64_t value, struct client *to)
{
	client_post_inline(from, 0, value, to, 64);
	client_ring(from, 0);
}

TEST(port_that_is_down_neither_sends_nor_receives_and_goes_on_when_it_is_up)
{
	/* 134 ms, tried eight times. */
	const struct nic_qp_params params = {
		.timeout = 15, .retry_count = 7, .rnr_retry = 7, .min_rnr_timer = 1, .max_rd_atomic = 16};
	struct shmd_cqe cqe;
	struct lane lane;

	lane_open(&lane, &params);
	for (int end = 0; end < 2; end++) {
		set(lane.rig.nic[end], NIC_PORT_DOWN);
		post(&lane.a, 100 + (uint64_t)end, &lane.b);
		post(&lane.b, 200 + (uint64_t)end, &lane.a);
		post(&lane.c, 300 + (uint64_t)end, &lane.c);
		ASSERT(!client_poll(&lane.a, 0, &cqe, QUIET_NSEC));
		ASSERT(!client_poll(&lane.b, 0, &cqe, 0));
		ASSERT_EQ(client_word(&lane.b, 64), end ? 100u : 0u);
		ASSERT_EQ(client_word(&lane.a, 64), end ? 200u : 0u);
		/* NIC 0 does not even reach itself while it is down; NIC 1 is not in that way. */
		if (end)
			client_complete(&lane.c, 0);
		else
			ASSERT(!client_poll(&lane.c, 0, &cqe, 0));
		set(lane.rig.nic[end], NIC_PORT_ACTIVE);
		client_complete(&lane.a, 0);
		client_complete(&lane.b, 0);
		if (!end)
			client_complete(&lane.c, 0);
		ASSERT_EQ(client_word(&lane.b, 64), 100u + (uint64_t)end);
		ASSERT_EQ(client_word(&lane.a, 64), 200u + (uint64_t)end);
		ASSERT_EQ(client_word(&lane.c, 64), 300u + (uint64_t)end);
	}
	lane_close(&lane);
}

TEST(short_retries_end_in_retry_exceeded_while_the_port_is_down)
{
	const struct nic_ops *ops;
	struct nic_qp_info info;
	struct nic_event event;
	struct shmd_cqe cqe;
	struct lane lane;
	uint64_t begin;

	lane_open(&lane, &short_params);
	ops = lane.rig.nic[0]->ops;
	set(lane.rig.nic[0], NIC_PORT_DOWN);
	assert_event(lane.rig.nic[0], NIC_PORT_DOWN);
	begin = nsec_now();
	post(&lane.a, 1, &lane.b);
	ASSERT(client_poll(&lane.a, 0, &cqe, CLIENT_LIMIT_NSEC));
	ASSERT_EQ(client_cqe_syndrome(&cqe), SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	/* Three times 4.2 ms, not less. */
	ASSERT_GE(nsec_now() - begin, 3 * (4096ull << 10));
	ASSERT_OK(ops->qp_query(lane.a.ctx, client_qpn(&lane.a, 0), &info));
	ASSERT_EQ(info.state, NIC_QPS_ERR);
	ASSERT_EQ(info.counters.retries, 2u);
	wait_event(lane.rig.nic[0], &event);
	ASSERT_EQ(event.kind, NIC_EVENT_QP_ERROR);
	ASSERT_EQ(event.syndrome, SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	/* The QP that had nothing on its way lives on. */
	set(lane.rig.nic[0], NIC_PORT_ACTIVE);
	post(&lane.c, 7, &lane.c);
	client_complete(&lane.c, 0);
	ASSERT_EQ(client_word(&lane.b, 64), 0u);
	lane_close(&lane);
}

/* With time-out 0 the requester sends nothing again: lost packets stay lost, as IBTA has it. */
TEST(time_out_0_waits_for_ever)
{
	struct nic_qp_params params = short_params;
	struct shmd_cqe cqe;
	struct lane lane;

	params.timeout = 0;
	lane_open(&lane, &params);
	set(lane.rig.nic[0], NIC_PORT_DOWN);
	post(&lane.a, 1, &lane.b);
	ASSERT(!client_poll(&lane.a, 0, &cqe, QUIET_NSEC));
	set(lane.rig.nic[0], NIC_PORT_ACTIVE);
	ASSERT(!client_poll(&lane.a, 0, &cqe, QUIET_NSEC));
	lane_close(&lane);
}

TEST(port_taken_down_before_the_first_context_is_down)
{
	struct shmd_cqe cqe;
	struct client c;
	struct rig rig;

	rig_open(&rig, 1, NULL);
	set(rig.nic[0], NIC_PORT_DOWN);
	client_open(&c, rig.nic[0], 1, 1);
	client_connect(&c, 0, &c, 0);
	post(&c, 5, &c);
	ASSERT(!client_poll(&c, 0, &cqe, QUIET_NSEC));
	set(rig.nic[0], NIC_PORT_ACTIVE);
	client_complete(&c, 0);
	ASSERT_EQ(client_word(&c, 64), 5u);
	client_close(&c);
	rig_close(&rig);
}

/* Requests, acknowledgements and responses are lost at any point of them; none is carried out twice or left out. */
TEST_TIMEOUT(traffic_over_a_flapping_port_is_exact, 120)
{
	/* 34 ms, tried eight times: a machine with other work may take some of that. */
	const struct nic_qp_params params = {
		.timeout = 13, .retry_count = 7, .rnr_retry = 7, .min_rnr_timer = 1, .max_rd_atomic = 16};
	const unsigned int n_rounds = test_is_full() ? 2000 : 50;
	struct nic_qp_info info;
	struct lane lane;

	lane_open(&lane, &params);
	for (unsigned int round = 0; round < n_rounds; round++) {
		struct nic *nic = lane.rig.nic[round % 2];

		memset(lane.a.mem + 8192, (int)(round & 0xff), 65536);
		for (unsigned int i = 0; i < 8; i++)
			client_post_fetch_add(&lane.a, 0, 4096 + 8 * i, &lane.b, 8, 1);
		client_post_write(&lane.a, 0, 8192, &lane.b, 8192, 65536);
		client_post_read(&lane.a, 0, 131072, &lane.b, 8192, 65536);
		client_ring(&lane.a, 0);
		spin(round % 13 * 2000);
		set(nic, NIC_PORT_DOWN);
		nap(round % 3 * 100000);
		set(nic, NIC_PORT_ACTIVE);
		for (unsigned int i = 0; i < 10; i++)
			client_complete(&lane.a, 0);
		for (unsigned int i = 0; i < 8; i++)
			ASSERT_EQ(client_word(&lane.a, 4096 + 8 * i), 8 * round + i);
		ASSERT_MEMEQ(lane.b.mem + 8192, lane.a.mem + 8192, 65536);
	}
	ASSERT_EQ(client_word(&lane.b, 8), 8 * n_rounds);
	ASSERT_OK(lane.rig.nic[0]->ops->qp_query(lane.a.ctx, client_qpn(&lane.a, 0), &info));
	ASSERT_GT(info.counters.retries, 0u);
	printf("# %u rounds, %u retries\n", n_rounds, (unsigned int)info.counters.retries);
	lane_close(&lane);
}

/* ---- channels between users -------------------------------------------------------------------------------------- */

static uint64_t cpu_nsec(void)
{
	struct timespec ts;

	ASSERT_OK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts));
	return nsec_from_timespec(&ts);
}

/* The end of a channel is news for an executor that takes none. The first executor without contexts is kept. */
TEST(executor_whose_port_is_down_sleeps_although_its_peers_leave)
{
	struct client alice, bob, carol;
	struct rig rig;
	uint64_t begin;

	rig_open(&rig, 2, NULL);
	client_open_for(&alice, rig.nic[0], 1, ALICE, 1);
	client_open_for(&bob, rig.nic[1], 2, BOB, 1);
	client_open_for(&carol, rig.nic[0], 3, CAROL, 1);
	client_connect(&alice, 0, &bob, 0);
	client_exercise(&alice, &bob);
	client_exercise(&bob, &alice);
	set(rig.nic[1], NIC_PORT_DOWN);
	client_close(&carol);
	client_close(&alice);
	nap(QUIET_NSEC);
	begin = cpu_nsec();
	nap(10 * QUIET_NSEC);
	ASSERT_LT(cpu_nsec() - begin, 5 * QUIET_NSEC);
	client_close(&bob);
	rig_close(&rig);
}

/* It lies in a channel that the executor has not seen yet. */
TEST_WAITS(first_request_to_an_executor_that_stands_still_is_lost_when_its_port_goes_down, TEST_DEFAULT_TIMEOUT_SEC)
{
	struct nic_qp_params params = short_params;
	struct client alice, bob;
	struct shmd_cqe cqe;
	struct rig rig;

	params.timeout = 0;
	rig_open(&rig, 2, "soft.sit-still:500");
	client_open_for(&alice, rig.nic[0], 1, ALICE, 1);
	client_open_for(&bob, rig.nic[1], 2, BOB, 2);
	client_connect_as(&alice, 0, &bob, 0, &params);
	client_connect(&bob, 1, &bob, 1);
	/* After the eighth its thread stands still. */
	for (uint64_t i = 0; i < 9; i++) {
		client_post_inline(&bob, 1, i, &bob, 0);
		client_ring(&bob, 1);
		if (i < 8)
			client_complete(&bob, 1);
	}
	nap(QUIET_NSEC);
	post(&alice, 7, &bob);
	nap(QUIET_NSEC);
	set(rig.nic[1], NIC_PORT_DOWN);
	set(rig.nic[1], NIC_PORT_ACTIVE);
	client_complete(&bob, 1);
	ASSERT(!client_poll(&alice, 0, &cqe, QUIET_NSEC));
	ASSERT_EQ(client_word(&bob, 64), 0u);
	client_close(&alice);
	client_close(&bob);
	rig_close(&rig);
}
