/* SPDX-License-Identifier: Apache-2.0 */
/* Monitors: the events they get, the events they do not get, and the cost of a slow one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon/session/drain.h"
#include "daemon/session/monitor.h"
#include "proto/base/nsec.h"
#include "tests/unit/session/lab.h"
#include "tests/lib/test.h"

#define ORDINARY_UID 4242u
#define N_STORM 5000u

struct scene {
	struct lab lab;
	struct pair monitor;
};

static void monitor_init(struct pair *pair, struct lab *lab)
{
	struct msg req, rep;

	pair_init_hello(pair, lab, MSG_ROLE_CONTROL);
	msg_init(&req, MSG_MONITOR_REQ, 0);
	raw_expect(&pair->raw, &req, NULL, 0, MSG_OK_REP, &rep);
}

static void scene_init(struct scene *s)
{
	lab_init(&s->lab, 100);
	monitor_init(&s->monitor, &s->lab);
}

static void scene_deinit(struct scene *s)
{
	pair_deinit(&s->monitor);
	ASSERT_EQ(s->lab.registry.n_monitors, 0);
	lab_assert_empty(&s->lab);
	lab_deinit(&s->lab);
}

static void expect_event(struct pair *monitor, enum msg_event_kind kind, struct msg_event *ret_event)
{
	struct timespec now;
	struct msg msg;

	ASSERT_OK(raw_recv(&monitor->raw, &msg, NULL));
	ASSERT_EQ(msg.kind, MSG_EVENT);
	ASSERT_EQ(msg.id, 0);
	ASSERT_EQ(msg.event.kind, kind);
	clock_gettime(CLOCK_REALTIME, &now);
	ASSERT_LE(nsec_from_timespec(&now) - msg.event.time_nsec, 10 * NSEC_PER_SEC);
	*ret_event = msg.event;
}

static void expect_silence(struct pair *monitor)
{
	struct msg msg;

	ASSERT_ERR(raw_recv(&monitor->raw, &msg, NULL), EAGAIN);
}

static void expect_of(const struct msg_event *event, const struct session *session)
{
	ASSERT_EQ(event->session, session->id);
	ASSERT_EQ(event->uid, session->identity.uid);
	ASSERT_EQ(event->pid, session->identity.pid);
}

TEST(monitor_sees_the_life_of_a_session)
{
	struct msg_event event;
	struct pair client;
	struct msg req, rep;
	struct scene s;
	uint32_t first;
	uint64_t id;

	scene_init(&s);
	pair_init_hello(&client, &s.lab, MSG_ROLE_CLIENT);
	id = client.session->id;
	expect_event(&s.monitor, MSG_EVENT_SESSION_OPENED, &event);
	expect_of(&event, client.session);
	ASSERT(strstr(event.text, ", raw client"));

	raw_open_nic(&client.raw, "fake1");
	raw_create_queues(&client.raw, 3, &rep);
	first = rep.queue_create_rep.qps[0].qpn;
	expect_event(&s.monitor, MSG_EVENT_QUEUES_CREATED, &event);
	expect_of(&event, client.session);
	ASSERT_STREQ(event.nic_name, "fake1");
	ASSERT_EQ(event.number, first);
	ASSERT_EQ(event.detail, 3);

	msg_init(&req, MSG_QUEUE_DESTROY_REQ, 0);
	req.queue_destroy_req.handle = rep.queue_create_rep.queues;
	msg_deinit(&rep);
	raw_expect(&client.raw, &req, NULL, 0, MSG_OK_REP, &rep);
	expect_event(&s.monitor, MSG_EVENT_QUEUES_DESTROYED, &event);
	expect_of(&event, client.session);
	ASSERT_EQ(event.number, first);
	ASSERT_EQ(event.detail, 3);

	pair_deinit(&client);
	expect_event(&s.monitor, MSG_EVENT_SESSION_CLOSED, &event);
	ASSERT_EQ(event.session, id);
	ASSERT_EQ(event.detail, 0);
	expect_silence(&s.monitor);
	scene_deinit(&s);
}

TEST(monitor_learns_why_a_session_was_ended)
{
	struct msg_event event;
	struct pair client;
	struct msg rep;
	struct scene s;

	scene_init(&s);
	pair_init_hello(&client, &s.lab, MSG_ROLE_CLIENT);
	raw_open_nic(&client.raw, "fake0");
	raw_create_queues(&client.raw, 1, &rep);
	msg_deinit(&rep);
	session_end(client.session, SHMD_STATUS_KILLED, "it was in the way");
	pair_deinit(&client);
	expect_event(&s.monitor, MSG_EVENT_SESSION_OPENED, &event);
	expect_event(&s.monitor, MSG_EVENT_QUEUES_CREATED, &event);
	expect_event(&s.monitor, MSG_EVENT_QUEUES_DESTROYED, &event);
	expect_event(&s.monitor, MSG_EVENT_SESSION_CLOSED, &event);
	ASSERT_EQ(event.detail, SHMD_STATUS_KILLED);
	ASSERT_STREQ(event.text, "it was in the way");
	scene_deinit(&s);
}

static void nic_event(struct lab *lab, enum nic_event_kind kind, uint64_t session)
{
	struct nic_event event = {
		.kind = kind, .session_id = session, .number = 0x77, .syndrome = 0x13, .state = NIC_PORT_DOWN};

	registry_event(&lab->registry, &lab->registry.nics[1], &event);
}

TEST(monitor_sees_nics_and_queues_in_error)
{
	struct msg_event event;
	struct pair client;
	struct scene s;

	scene_init(&s);
	pair_init_hello(&client, &s.lab, MSG_ROLE_CLIENT);
	expect_event(&s.monitor, MSG_EVENT_SESSION_OPENED, &event);
	nic_event(&s.lab, NIC_EVENT_QP_ERROR, client.session->id);
	expect_event(&s.monitor, MSG_EVENT_QP_ERROR, &event);
	expect_of(&event, client.session);
	ASSERT_EQ(event.number, 0x77);
	ASSERT_EQ(event.detail, 0x13);
	ASSERT_STREQ(event.nic_name, "fake1");
	nic_event(&s.lab, NIC_EVENT_CQ_ERROR, client.session->id);
	expect_event(&s.monitor, MSG_EVENT_CQ_ERROR, &event);
	nic_event(&s.lab, NIC_EVENT_PORT_STATE, 0);
	expect_event(&s.monitor, MSG_EVENT_PORT_STATE, &event);
	ASSERT_EQ(event.detail, NIC_PORT_DOWN);
	ASSERT_EQ(event.session, 0);
	nic_event(&s.lab, NIC_EVENT_LOST, 0);
	expect_event(&s.monitor, MSG_EVENT_NIC_LOST, &event);
	/* A session that is gone causes no event. */
	nic_event(&s.lab, NIC_EVENT_QP_ERROR, 12345);
	expect_silence(&s.monitor);
	pair_deinit(&client);
	scene_deinit(&s);
}

TEST(monitor_sees_drains_and_refused_users)
{
	struct msg_event event;
	struct pair client;
	struct msg req;
	struct scene s;

	scene_init(&s);
	drain_begin(&s.lab.registry, NSEC_PER_SEC);
	expect_event(&s.monitor, MSG_EVENT_DRAIN, &event);
	ASSERT_EQ(event.detail, 1);
	pair_init(&client, &s.lab);
	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req.version_min = req.hello_req.version_max = 1;
	req.hello_req.role = MSG_ROLE_CLIENT;
	raw_send(&client.raw, &req, NULL, 0);
	expect_event(&s.monitor, MSG_EVENT_REFUSED, &event);
	ASSERT_EQ(event.detail, SHMD_STATUS_DRAINING);
	ASSERT_EQ(event.session, 0);
	ASSERT_EQ(event.pid, client.session->identity.pid);
	pair_deinit(&client);
	drain_stop(&s.lab.registry);
	expect_event(&s.monitor, MSG_EVENT_DRAIN, &event);
	ASSERT_EQ(event.detail, 0);
	/* A connection that never became a session causes no close event. */
	expect_silence(&s.monitor);
	scene_deinit(&s);
}

TEST(monitor_learns_which_limit_refused_a_request)
{
	struct msg_event event;
	struct session *session;
	struct scene s;
	int socks[2];

	scene_init(&s);
	s.lab.registry.quota.limits.n[QUOTA_CONNECTIONS] = 1;
	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, socks));
	ASSERT_ERR(session_new(&s.lab.registry, socks[0], &session), EDQUOT);
	close(socks[1]);
	expect_event(&s.monitor, MSG_EVENT_REFUSED, &event);
	ASSERT_EQ(event.detail, SHMD_STATUS_QUOTA_SESSIONS);
	ASSERT(strstr(event.text, "max-connections"));
	scene_deinit(&s);
}

TEST(monitor_of_an_ordinary_user_sees_its_own_sessions_and_nics)
{
	struct pair own, foreign;
	struct msg_event event;
	struct msg rep;
	struct scene s;

	scene_init(&s);
	s.lab.registry.owner_uid = 1;
	pair_make_ordinary(&s.monitor, ORDINARY_UID);
	pair_init(&own, &s.lab);
	pair_make_ordinary(&own, ORDINARY_UID);
	raw_hello(&own.raw, MSG_ROLE_CLIENT);
	expect_event(&s.monitor, MSG_EVENT_SESSION_OPENED, &event);
	expect_of(&event, own.session);

	pair_init_hello(&foreign, &s.lab, MSG_ROLE_CLIENT);
	raw_open_nic(&foreign.raw, "fake0");
	raw_create_queues(&foreign.raw, 1, &rep);
	msg_deinit(&rep);
	nic_event(&s.lab, NIC_EVENT_QP_ERROR, foreign.session->id);
	pair_deinit(&foreign);
	expect_silence(&s.monitor);
	nic_event(&s.lab, NIC_EVENT_PORT_STATE, 0);
	expect_event(&s.monitor, MSG_EVENT_PORT_STATE, &event);
	nic_event(&s.lab, NIC_EVENT_QP_ERROR, own.session->id);
	expect_event(&s.monitor, MSG_EVENT_QP_ERROR, &event);
	drain_begin(&s.lab.registry, 0);
	expect_event(&s.monitor, MSG_EVENT_DRAIN, &event);
	pair_deinit(&own);
	expect_event(&s.monitor, MSG_EVENT_SESSION_CLOSED, &event);
	scene_deinit(&s);
}

TEST(controllers_and_failed_requests_are_no_news)
{
	struct pair client, controller;
	struct msg_event event;
	struct msg req;
	struct scene s;

	scene_init(&s);
	pair_init_hello(&controller, &s.lab, MSG_ROLE_CONTROL);
	pair_deinit(&controller);
	pair_init(&controller, &s.lab);
	pair_deinit(&controller);
	expect_silence(&s.monitor);
	pair_init_hello(&client, &s.lab, MSG_ROLE_CLIENT);
	expect_event(&s.monitor, MSG_EVENT_SESSION_OPENED, &event);
	raw_open_nic(&client.raw, "fake0");
	s.lab.nics[0].fail_at = s.lab.nics[0].n_calls + 1;
	s.lab.nics[0].fail_err = -ENOSPC;
	raw_fill_create(&req, 2);
	raw_expect_error(&client.raw, &req, NULL, 0, SHMD_STATUS_NIC_LIMIT);
	expect_silence(&s.monitor);
	pair_deinit(&client);
	scene_deinit(&s);
}

/* Everything that lies in the socket and behind it. Returns the events, and the last of them. */
static uint32_t read_all(struct pair *monitor, struct msg_event *ret_last)
{
	struct msg msg;
	uint32_t n = 0;

	for (;;) {
		int r = raw_recv(&monitor->raw, &msg, NULL);

		if (r == -EAGAIN && session_wants_write(monitor->session)) {
			session_writable(monitor->session);
			continue;
		}
		if (r == -EAGAIN)
			return n;
		ASSERT_OK(r);
		n++;
		*ret_last = msg.event;
	}
}

TEST(slow_monitor_loses_the_newest_events_learns_it_and_costs_bounded_memory)
{
	struct msg_event event;
	struct scene s;
	uint32_t n;

	scene_init(&s);
	for (uint32_t i = 0; i < N_STORM; i++) {
		nic_event(&s.lab, NIC_EVENT_PORT_STATE, 0);
		ASSERT_LE(s.monitor.session->connection.n_out, MONITOR_MAX_PACKETS);
	}
	ASSERT(!s.monitor.session->ended);
	ASSERT_GT(s.monitor.session->n_dropped, 0);
	ASSERT_LE(s.monitor.session->connection.out_bytes, MONITOR_MAX_PACKETS * 1024u);
	n = read_all(&s.monitor, &event);
	ASSERT_EQ(event.kind, MSG_EVENT_DROPPED);
	ASSERT_EQ(n - 1 + event.number, N_STORM);
	/* And it is as good as new. */
	nic_event(&s.lab, NIC_EVENT_LOST, 0);
	expect_event(&s.monitor, MSG_EVENT_NIC_LOST, &event);
	nic_event(&s.lab, NIC_EVENT_RETURNED, 0);
	expect_event(&s.monitor, MSG_EVENT_PORT_STATE, &event);
	ASSERT(strstr(event.text, " is back, its port is "));
	expect_silence(&s.monitor);
	scene_deinit(&s);
}

/* Events that a NIC merged into one, and events that it had no room for. */
TEST(events_that_a_nic_lost_are_reported_as_lost)
{
	struct nic_event several = {.kind = NIC_EVENT_QP_ERROR, .syndrome = 0x13, .n_lost = 16};
	const struct nic_event lost = {.kind = NIC_EVENT_DROPPED, .n_lost = 44};
	struct msg_event event;
	struct pair client;
	struct scene s;

	scene_init(&s);
	pair_init_hello(&client, &s.lab, MSG_ROLE_CLIENT);
	expect_event(&s.monitor, MSG_EVENT_SESSION_OPENED, &event);
	several.session_id = client.session->id;
	registry_event(&s.lab.registry, &s.lab.registry.nics[1], &several);
	expect_event(&s.monitor, MSG_EVENT_QP_ERROR, &event);
	ASSERT_EQ(event.number, 0);
	ASSERT_STREQ(event.text, "17 QPs on fake1 are in error, the first with syndrome 0x13");
	expect_event(&s.monitor, MSG_EVENT_DROPPED, &event);
	expect_of(&event, client.session);
	ASSERT_EQ(event.number, 16);
	ASSERT_STREQ(event.nic_name, "fake1");
	registry_event(&s.lab.registry, &s.lab.registry.nics[1], &lost);
	expect_event(&s.monitor, MSG_EVENT_DROPPED, &event);
	ASSERT_EQ(event.number, 44);
	ASSERT_EQ(event.session, 0);
	ASSERT_STREQ(event.nic_name, "fake1");
	expect_silence(&s.monitor);
	pair_deinit(&client);
	scene_deinit(&s);
}

TEST(slow_monitor_delays_no_client_and_is_answered)
{
	struct pair quick;
	struct msg_event event;
	struct msg req, msg;
	struct scene s;
	uint32_t n = 0;

	scene_init(&s);
	monitor_init(&quick, &s.lab);
	for (uint32_t i = 0; i < N_STORM; i++) {
		nic_event(&s.lab, NIC_EVENT_PORT_STATE, 0);
		expect_event(&quick, MSG_EVENT_PORT_STATE, &event);
	}
	/* There is room for a reply where there is none for events. */
	msg_init(&req, MSG_STATUS_REQ, 0);
	raw_send(&s.monitor.raw, &req, NULL, 0);
	ASSERT(!s.monitor.session->ended);
	for (int r = 0; r == 0; n++) {
		r = raw_recv(&s.monitor.raw, &msg, NULL);
		if (r == 0 && msg.kind == MSG_STATUS_REP)
			break;
		if (r == -EAGAIN)
			r = 0, session_writable(s.monitor.session);
		ASSERT_LT(n, N_STORM);
	}
	ASSERT_EQ(msg.status_rep.n_monitors, 2);
	pair_deinit(&quick);
	scene_deinit(&s);
}

TEST(monitors_of_one_user_are_limited)
{
	struct pair more[MONITOR_MAX_PER_UID];
	struct msg req, rep;
	struct scene s;

	scene_init(&s);
	for (unsigned int i = 0; i < MONITOR_MAX_PER_UID - 1; i++)
		monitor_init(&more[i], &s.lab);
	pair_init_hello(&more[MONITOR_MAX_PER_UID - 1], &s.lab, MSG_ROLE_CONTROL);
	msg_init(&req, MSG_MONITOR_REQ, 0);
	raw_expect_error(&more[MONITOR_MAX_PER_UID - 1].raw, &req, NULL, 0, SHMD_STATUS_BUSY);
	/* A monitor may ask again. */
	raw_expect(&s.monitor.raw, &req, NULL, 0, MSG_OK_REP, &rep);
	ASSERT_EQ(s.lab.registry.n_monitors, MONITOR_MAX_PER_UID);
	pair_deinit(&more[0]);
	raw_expect(&more[MONITOR_MAX_PER_UID - 1].raw, &req, NULL, 0, MSG_OK_REP, &rep);
	for (unsigned int i = 1; i < MONITOR_MAX_PER_UID; i++)
		pair_deinit(&more[i]);
	scene_deinit(&s);
}

TEST(monitor_that_hung_up_does_not_stop_events_for_others)
{
	struct pair gone, last;
	struct msg_event event;
	struct scene s;

	scene_init(&s);
	monitor_init(&gone, &s.lab);
	monitor_init(&last, &s.lab);
	raw_close(&gone.raw);
	nic_event(&s.lab, NIC_EVENT_LOST, 0);
	ASSERT(gone.session->ended);
	expect_event(&s.monitor, MSG_EVENT_NIC_LOST, &event);
	expect_event(&last, MSG_EVENT_NIC_LOST, &event);
	pair_deinit(&gone);
	pair_deinit(&last);
	scene_deinit(&s);
}
