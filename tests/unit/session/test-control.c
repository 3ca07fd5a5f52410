/* SPDX-License-Identifier: Apache-2.0 */
/* Kill, drain, ports: permissions, effects, and sessions that are not affected. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/session/drain.h"
#include "proto/base/nsec.h"
#include "tests/unit/session/lab.h"
#include "tests/lib/test.h"

#define ORDINARY_UID 4242u
#define N_MANY 30

struct scene {
	struct lab lab;
	struct pair admin, client, other;
};

static void scene_init(struct scene *s)
{
	lab_init(&s->lab, 100);
	pair_init_hello(&s->admin, &s->lab, MSG_ROLE_CONTROL);
	pair_init_hello(&s->client, &s->lab, MSG_ROLE_CLIENT);
	pair_init_hello(&s->other, &s->lab, MSG_ROLE_CLIENT);
}

static void scene_deinit(struct scene *s)
{
	pair_deinit(&s->admin);
	pair_deinit(&s->client);
	pair_deinit(&s->other);
	lab_assert_empty(&s->lab);
	lab_deinit(&s->lab);
}

static void fill_kill(struct msg *req, uint64_t session)
{
	msg_init(req, MSG_SESSION_KILL_REQ, 0);
	req->session_kill_req.session = session;
}

static void fill_drain(struct msg *req, bool on, uint64_t grace_nsec)
{
	msg_init(req, MSG_DRAIN_REQ, 0);
	req->drain_req.on = on;
	req->drain_req.grace_nsec = grace_nsec;
}

static void fill_port(struct msg *req, const char *nic, uint32_t state)
{
	msg_init(req, MSG_PORT_SET_REQ, 0);
	snprintf(req->port_set_req.nic, sizeof(req->port_set_req.nic), "%s", nic);
	req->port_set_req.state = state;
}

static void drain(struct scene *s, bool on, uint64_t grace_nsec)
{
	struct msg req, rep;

	fill_drain(&req, on, grace_nsec);
	raw_expect(&s->admin.raw, &req, NULL, 0, MSG_OK_REP, &rep);
}

static void expect_event(struct pair *pair, enum msg_event_kind kind, uint32_t detail)
{
	struct msg msg;

	ASSERT_OK(raw_recv(&pair->raw, &msg, NULL));
	ASSERT_EQ(msg.kind, MSG_EVENT);
	ASSERT_EQ(msg.id, 0);
	ASSERT_EQ(msg.event.kind, kind);
	ASSERT_EQ(msg.event.detail, detail);
	ASSERT(msg.event.text[0]);
}

TEST(kill_ends_the_victim_with_its_status_and_no_other_session)
{
	struct msg req, rep;
	struct scene s;

	scene_init(&s);
	fill_kill(&req, s.client.session->id);
	raw_expect(&s.admin.raw, &req, NULL, 0, MSG_OK_REP, &rep);
	pair_expect_end(&s.client, SHMD_STATUS_KILLED);
	ASSERT_EQ(lab_page(s.client.session).session, SHMD_HEALTH_SESSION_ENDED);
	ASSERT(!s.other.session->ended);
	ASSERT_EQ(lab_page(s.other.session).session, SHMD_HEALTH_OK);
	/* It has ended, though it is not freed yet. */
	raw_expect_error(&s.admin.raw, &req, NULL, 0, SHMD_STATUS_NOT_FOUND);
	scene_deinit(&s);
}

TEST(kill_finds_clients_that_said_hello_and_nothing_else)
{
	struct pair silent;
	struct scene s;
	struct msg req;

	scene_init(&s);
	pair_init(&silent, &s.lab);
	const uint64_t ids[] = {0, UINT64_MAX, s.admin.session->id, silent.session->id, silent.session->id + 1};

	for (unsigned int i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		fill_kill(&req, ids[i]);
		raw_expect_error(&s.admin.raw, &req, NULL, 0, SHMD_STATUS_NOT_FOUND);
	}
	ASSERT(!s.admin.session->ended && !silent.session->ended);
	pair_deinit(&silent);
	scene_deinit(&s);
}

TEST(administration_is_for_root_and_the_daemons_user_only)
{
	struct msg reqs[5];
	struct scene s;

	scene_init(&s);
	s.lab.registry.owner_uid = 1;
	pair_make_ordinary(&s.admin, ORDINARY_UID);
	/* The same uid as the victim's is not enough. */
	pair_make_ordinary(&s.client, ORDINARY_UID);
	fill_kill(&reqs[0], s.client.session->id);
	fill_drain(&reqs[1], true, 0);
	fill_drain(&reqs[2], false, 0);
	fill_port(&reqs[3], "fake0", 1);
	msg_init(&reqs[4], MSG_QUEUE_DUMP_REQ, 0);
	reqs[4].queue_dump_req.part = MSG_PART_NONE;
	for (unsigned int i = 0; i < 5; i++)
		raw_expect_error(&s.admin.raw, &reqs[i], NULL, 0, SHMD_STATUS_PERMISSION);
	ASSERT(!s.client.session->ended);
	ASSERT(!s.lab.registry.draining);
	ASSERT_EQ(s.lab.nics[0].port_set, 0);
	s.admin.session->identity.uid = 1;
	for (unsigned int i = 0; i < 4; i++) {
		struct msg rep;

		raw_expect(&s.admin.raw, &reqs[i], NULL, 0, MSG_OK_REP, &rep);
	}
	scene_deinit(&s);
}

TEST(administration_is_not_for_clients)
{
	struct msg reqs[5];
	struct scene s;

	scene_init(&s);
	fill_kill(&reqs[0], s.other.session->id);
	fill_drain(&reqs[1], true, 0);
	fill_port(&reqs[2], "fake0", 1);
	msg_init(&reqs[3], MSG_QUEUE_DUMP_REQ, 0);
	reqs[3].queue_dump_req.part = MSG_PART_NONE;
	msg_init(&reqs[4], MSG_MONITOR_REQ, 0);
	for (unsigned int i = 0; i < 5; i++)
		raw_expect_error(&s.client.raw, &reqs[i], NULL, 0, SHMD_STATUS_PERMISSION);
	ASSERT(!s.other.session->ended);
	scene_deinit(&s);
}

static void expect_refused_hello(struct scene *s)
{
	struct pair late;
	struct msg req;

	pair_init(&late, &s->lab);
	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req.version_min = req.hello_req.version_max = 1;
	req.hello_req.role = MSG_ROLE_CLIENT;
	raw_send(&late.raw, &req, NULL, 0);
	pair_expect_end(&late, SHMD_STATUS_DRAINING);
	pair_deinit(&late);
}

TEST(drain_refuses_clients_and_still_takes_controllers)
{
	struct msg_status_rep status;
	struct pair controller, late;
	struct scene s;

	scene_init(&s);
	drain(&s, true, NSEC_PER_SEC);
	expect_refused_hello(&s);
	ASSERT_EQ(s.lab.registry.refused_total, 1);
	pair_init_hello(&controller, &s.lab, MSG_ROLE_CONTROL);
	raw_status(&controller.raw, &status);
	ASSERT(status.draining);
	ASSERT_GT(status.drain_left_nsec, 0);
	ASSERT_LE(status.drain_left_nsec, NSEC_PER_SEC);
	ASSERT_EQ(status.n_sessions, 2);
	drain(&s, false, 0);
	raw_status(&controller.raw, &status);
	ASSERT(!status.draining);
	ASSERT_EQ(status.drain_left_nsec, 0);
	pair_init_hello(&late, &s.lab, MSG_ROLE_CLIENT);
	pair_deinit(&late);
	pair_deinit(&controller);
	scene_deinit(&s);
}

/* As if the time had passed. */
static void pass_time(struct scene *s)
{
	s->lab.registry.drain_end_nsec = 1;
	drain_run(&s->lab.registry);
}

TEST(drain_tells_clients_and_ends_them_after_the_grace)
{
	struct scene s;

	scene_init(&s);
	drain(&s, true, 30 * NSEC_PER_SEC);
	ASSERT_EQ(s.lab.alarm_nsec, 30 * NSEC_PER_SEC);
	expect_event(&s.client, MSG_EVENT_DRAIN, 1);
	expect_event(&s.other, MSG_EVENT_DRAIN, 1);
	/* An alarm that comes early ends no session. */
	drain_run(&s.lab.registry);
	ASSERT(!s.client.session->ended);
	ASSERT_EQ(s.lab.n_alarms, 2);
	pass_time(&s);
	pair_expect_end(&s.client, SHMD_STATUS_DRAINING);
	pair_expect_end(&s.other, SHMD_STATUS_DRAINING);
	ASSERT_EQ(lab_page(s.client.session).session, SHMD_HEALTH_SESSION_ENDED);
	ASSERT(!s.admin.session->ended);
	scene_deinit(&s);
}

TEST(drain_called_off_lets_sessions_go_on)
{
	struct scene s;

	scene_init(&s);
	drain(&s, false, 5); /* nothing to call off */
	ASSERT_EQ(s.lab.n_alarms, 0);
	drain(&s, true, NSEC_PER_SEC);
	drain(&s, false, 0);
	expect_event(&s.client, MSG_EVENT_DRAIN, 1);
	expect_event(&s.client, MSG_EVENT_DRAIN, 0);
	pass_time(&s);
	ASSERT(!s.client.session->ended);
	ASSERT(!s.other.session->ended);
	scene_deinit(&s);
}

TEST(drain_again_counts_from_now)
{
	struct scene s;

	scene_init(&s);
	drain(&s, true, UINT64_MAX);
	/* No timer is asked for more than an hour, and no session ends when it goes off. */
	ASSERT_EQ(s.lab.alarm_nsec, 3600 * NSEC_PER_SEC);
	drain_run(&s.lab.registry);
	ASSERT(!s.client.session->ended);
	drain(&s, true, 0);
	ASSERT_EQ(s.lab.alarm_nsec, 0);
	drain_run(&s.lab.registry);
	ASSERT(s.client.session->ended && s.other.session->ended);
	scene_deinit(&s);
}

static unsigned int count_ended(const struct pair *pairs)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < N_MANY; i++)
		n += pairs[i].session->ended;
	return n;
}

TEST(drain_ends_a_few_sessions_in_each_turn)
{
	static struct pair pairs[N_MANY];
	unsigned int before = 0, after, n_turns = 0;
	struct scene s;

	scene_init(&s);
	for (unsigned int i = 0; i < N_MANY; i++)
		pair_init_hello(&pairs[i], &s.lab, MSG_ROLE_CLIENT);
	drain(&s, true, 0);
	for (; before < N_MANY; before = after, n_turns++) {
		drain_run(&s.lab.registry);
		after = count_ended(pairs);
		ASSERT_GT(after, before);
		ASSERT_LE(after - before, 16);
	}
	ASSERT_GE(n_turns, 2);
	for (unsigned int i = 0; i < N_MANY; i++)
		pair_deinit(&pairs[i]);
	scene_deinit(&s);
}

TEST(port_set_reaches_the_nic_that_was_named)
{
	struct msg req, rep;
	struct scene s;

	scene_init(&s);
	fill_port(&req, "fake1", NIC_PORT_DOWN);
	raw_expect(&s.admin.raw, &req, NULL, 0, MSG_OK_REP, &rep);
	ASSERT_EQ(s.lab.nics[1].port_set, NIC_PORT_DOWN);
	ASSERT_EQ(s.lab.nics[0].port_set, 0);
	fill_port(&req, "fake1", NIC_PORT_ACTIVE);
	raw_expect(&s.admin.raw, &req, NULL, 0, MSG_OK_REP, &rep);
	ASSERT_EQ(s.lab.nics[1].port_set, NIC_PORT_ACTIVE);
	scene_deinit(&s);
}

static void count_own_lines(void *arg, const struct note *note)
{
	unsigned int *n_own = arg;

	if (strstr(note->text, " a drain") || strstr(note->text, "takes the port"))
		*n_own += note->session && !note->provoked;
}

/* Clients that provoke so many lines that some are dropped cannot hide who drained or pulled a port. */
TEST(lines_about_an_administrators_acts_are_not_rate_limited)
{
	unsigned int n_own = 0;
	struct msg req, rep;
	struct scene s;

	scene_init(&s);
	s.lab.registry.attr.hooks = (struct registry_hooks){.arg = &n_own, .note = count_own_lines};
	msg_init(&req, MSG_DRAIN_REQ, 0);
	req.drain_req.on = true;
	req.drain_req.grace_nsec = 3600 * NSEC_PER_SEC;
	raw_expect(&s.admin.raw, &req, NULL, 0, MSG_OK_REP, &rep);
	fill_port(&req, "fake1", NIC_PORT_DOWN);
	raw_expect(&s.admin.raw, &req, NULL, 0, MSG_OK_REP, &rep);
	ASSERT_EQ(n_own, 2);
	scene_deinit(&s);
}

TEST(port_set_refusals)
{
	static const uint32_t states[] = {0, NIC_PORT_LOST, 4, UINT32_MAX};
	struct scene s;
	struct msg req;

	scene_init(&s);
	fill_port(&req, "fake2", NIC_PORT_DOWN);
	raw_expect_error(&s.admin.raw, &req, NULL, 0, SHMD_STATUS_NO_NIC);
	fill_port(&req, "", NIC_PORT_DOWN);
	raw_expect_error(&s.admin.raw, &req, NULL, 0, SHMD_STATUS_NO_NIC);
	for (unsigned int i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		fill_port(&req, "fake0", states[i]);
		raw_expect_error(&s.admin.raw, &req, NULL, 0, SHMD_STATUS_INVALID);
	}
	ASSERT_EQ(s.lab.nics[0].port_set, 0);
	s.lab.nics[0].fail_at = s.lab.nics[0].n_calls + 1;
	s.lab.nics[0].fail_err = -EOPNOTSUPP;
	fill_port(&req, "fake0", NIC_PORT_DOWN);
	raw_expect_error(&s.admin.raw, &req, NULL, 0, SHMD_STATUS_BACKEND);
	scene_deinit(&s);
}
