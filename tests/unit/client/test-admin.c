/* SPDX-License-Identifier: Apache-2.0 */
/* Administration from the client's side: what goes out, what comes back, and a daemon that answers nonsense. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <shmemclient-admin.h>

#include "libclient/objects.h"
#include "proto/status.h"
#include "tests/lib/test.h"
#include "tests/unit/client/fake-daemon.h"

#define RING 32u
#define STRIDE 32u
#define PER_REPLY 5u /* entries in one of the fake's replies */
#define N_BURST 100u

static const struct shmd_client_attr control = {.role = SHMD_ROLE_CONTROL, .timeout_nsec = 10 * NSEC_PER_SEC};

/* ---- requests without an answer to read ---------------------------------------------------------------------------- */

static struct msg last;

static void answer_ok(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	last = *req;
	fake_send_ok(fake, req->id);
}

static void open_with(struct fake_daemon *fake, void (*handle)(struct fake_daemon *, const struct msg *, struct fdlist *),
		      struct shmd_client **ret_client)
{
	fake->handle = handle;
	ASSERT_OK(fake_open(fake, &control, ret_client));
}

static void end(struct fake_daemon *fake, struct shmd_client *client)
{
	shmd_client_close(client);
	fake_join(fake);
}

TEST(kill_drain_and_port_set_say_what_was_asked)
{
	struct fake_daemon fake = {0};
	struct shmd_client *client;

	open_with(&fake, answer_ok, &client);
	ASSERT_OK(shmd_admin_kill(client, UINT64_MAX));
	ASSERT_EQ(last.kind, MSG_SESSION_KILL_REQ);
	ASSERT_EQ(last.session_kill_req.session, UINT64_MAX);
	ASSERT_OK(shmd_admin_drain(client, true, 77));
	ASSERT_EQ(last.kind, MSG_DRAIN_REQ);
	ASSERT(last.drain_req.on);
	ASSERT_EQ(last.drain_req.grace_nsec, 77);
	ASSERT_OK(shmd_admin_drain(client, false, 0));
	ASSERT(!last.drain_req.on);
	ASSERT_OK(shmd_admin_port_set(client, "soft7", false));
	ASSERT_EQ(last.kind, MSG_PORT_SET_REQ);
	ASSERT_STREQ(last.port_set_req.nic, "soft7");
	ASSERT_EQ(last.port_set_req.state, 1);
	ASSERT_OK(shmd_admin_port_set(client, "soft7", true));
	ASSERT_EQ(last.port_set_req.state, 2);
	end(&fake, client);
}

static int never(void *arg, const struct shmd_admin_event *event)
{
	test_fail(TEST_WHERE, "called");
	return 0;
}

TEST(arguments_that_make_no_sense_reach_no_daemon)
{
	struct fake_daemon fake = {0};
	struct shmd_queue_head head;
	struct shmd_client *client;
	char buf[64], name[200];

	memset(name, 'n', sizeof(name));
	name[sizeof(name) - 1] = 0;
	open_with(&fake, answer_ok, &client);
	ASSERT_ERR(shmd_admin_kill(NULL, 1), EINVAL);
	ASSERT_ERR(shmd_admin_drain(NULL, true, 1), EINVAL);
	ASSERT_ERR(shmd_admin_monitor(NULL, never, NULL), EINVAL);
	ASSERT_ERR(shmd_admin_monitor(client, NULL, NULL), EINVAL);
	ASSERT_ERR(shmd_admin_port_set(NULL, "soft0", true), EINVAL);
	ASSERT_ERR(shmd_admin_port_set(client, NULL, true), EINVAL);
	ASSERT_ERR(shmd_admin_port_set(client, "", true), EINVAL);
	ASSERT_ERR(shmd_admin_port_set(client, name, true), EINVAL);
	ASSERT_ERR(shmd_admin_queue_head(client, "soft0", 1, NULL), EINVAL);
	ASSERT_ERR(shmd_admin_queue_head(client, name, 1, &head), EINVAL);
	ASSERT_ERR(shmd_admin_queue_head(NULL, "soft0", 1, &head), EINVAL);
	ASSERT_ERR(shmd_admin_queue_read(NULL, "soft0", 1, SHMD_PART_SQ, 0, 1, buf), EINVAL);
	ASSERT_ERR(shmd_admin_queue_read(client, "soft0", 1, SHMD_PART_SQ, 0, 1, NULL), EINVAL);
	ASSERT_ERR(shmd_admin_queue_read(client, "soft0", 1, 1, 0, 1, buf), EINVAL);
	ASSERT_ERR(shmd_admin_queue_read(client, "soft0", 1, 6, 0, 1, buf), EINVAL);
	ASSERT_ERR(shmd_admin_queue_read(client, NULL, 1, SHMD_PART_SQ, 0, 1, buf), EINVAL);
	ASSERT_OK(shmd_admin_queue_read(client, "soft0", 1, SHMD_PART_SQ, 0, 0, NULL));
	ASSERT_EQ(fake.n_requests, 0);
	end(&fake, client);
}

/* ---- monitor ---------------------------------------------------------------------------------------------------------- */

static void send_full_event(struct fake_daemon *fake, enum msg_event_kind kind, uint32_t number)
{
	struct msg msg;

	msg_init(&msg, MSG_EVENT, 0);
	msg.event = (struct msg_event){
		.kind = kind, .nic = 3, .number = number, .detail = 9, .session = 5, .time_nsec = 6,
		.uid = 7, .pid = 8, .nic_name = "soft1", .text = "so it was"};
	fake_send(fake, &msg, NULL, 0);
}

/* The monitor's request: one event; a status request: N_BURST events before the answer. */
static void answer_monitor(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	struct msg rep;

	if (req->kind == MSG_MONITOR_REQ) {
		fake_send_ok(fake, req->id);
		for (unsigned int kind = MSG_EVENT_QP_ERROR; kind <= MSG_EVENT_REFUSED; kind++)
			if (kind != MSG_EVENT_SESSION_END)
				send_full_event(fake, kind, kind);
		return;
	}
	for (uint32_t i = 0; i < N_BURST; i++)
		send_full_event(fake, MSG_EVENT_QP_ERROR, i);
	msg_init(&rep, MSG_STATUS_REP, req->id);
	fake_send(fake, &rep, NULL, 0);
}

static int count_kinds(void *arg, const struct shmd_admin_event *event)
{
	unsigned int *n = arg;

	++*n;
	*n += *n == MSG_EVENT_SESSION_END;
	ASSERT_EQ(event->kind, *n);
	ASSERT_EQ(event->number, *n);
	ASSERT_EQ(event->detail, 9);
	ASSERT_EQ(event->session, 5);
	ASSERT_EQ(event->time_nsec, 6);
	ASSERT_EQ(event->uid, 7);
	ASSERT_EQ(event->pid, 8);
	ASSERT_STREQ(event->nic, "soft1");
	ASSERT_STREQ(event->text, "so it was");
	return event->kind == SHMD_EVENT_REFUSED ? 42 : 0;
}

TEST(monitor_gives_every_kind_in_order_until_the_function_ends_it)
{
	struct fake_daemon fake = {0};
	struct shmd_client *client;
	unsigned int n = 0;

	open_with(&fake, answer_monitor, &client);
	ASSERT_EQ(shmd_admin_monitor(client, count_kinds, &n), 42);
	end(&fake, client);
}

struct burst {
	struct shmd_client *client;
	unsigned int n;
	uint32_t n_dropped;
};

/* At the first event makes a request; then counts what came meanwhile. */
static int ask_and_count(void *arg, const struct shmd_admin_event *event)
{
	struct shmd_daemon_status status;
	struct burst *burst = arg;

	if (burst->n++ == 0)
		ASSERT_OK(shmd_admin_status(burst->client, &status));
	if (event->kind == SHMD_EVENT_DROPPED && event->session == 0)
		burst->n_dropped = event->number;
	return burst->n_dropped ? -1 : 0;
}

TEST(monitor_gets_the_events_that_a_request_had_no_room_for)
{
	const unsigned int n_first = MSG_EVENT_REFUSED - 1;
	struct fake_daemon fake = {0};
	struct burst burst = {0};

	open_with(&fake, answer_monitor, &burst.client);
	ASSERT_EQ(shmd_admin_monitor(burst.client, ask_and_count, &burst), -1);
	/* Seen, but for the event that said so, and lost: nothing is missing. */
	ASSERT_EQ(burst.n - 1 + burst.n_dropped, n_first + N_BURST);
	ASSERT_GT(burst.n, CLIENT_EVENTS_MAX);
	end(&fake, burst.client);
}

static void answer_burst(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	fake_send_ok(fake, req->id);
	for (uint32_t i = 0; i < 3 * CLIENT_EVENTS_MAX; i++)
		send_full_event(fake, MSG_EVENT_QP_ERROR, i);
}

static int stop_at_once(void *arg, const struct shmd_admin_event *event)
{
	return 1;
}

static int expect_next(void *arg, const struct shmd_admin_event *event)
{
	unsigned int *n = arg;

	if (event->number == *n)
		++*n;
	return *n == 3 * CLIENT_EVENTS_MAX;
}

/* An event that was not requested stays in the socket, where the daemon sees it: none is lost here. */
TEST(monitor_that_pauses_loses_nothing_in_the_library)
{
	struct fake_daemon fake = {0};
	struct shmd_client *client;
	unsigned int n = 1; /* the first ends the call */

	open_with(&fake, answer_burst, &client);
	ASSERT_EQ(shmd_admin_monitor(client, stop_at_once, NULL), 1);
	for (int i = 0; i < 10; i++)
		ASSERT_EQ(shmd_client_health(client), SHMD_HEALTH_OK);
	fake.handle = answer_ok;
	ASSERT_EQ(shmd_admin_monitor(client, expect_next, &n), 1);
	ASSERT_EQ(n, 3 * CLIENT_EVENTS_MAX);
	end(&fake, client);
}

static void answer_and_end(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	struct msg msg;

	fake_send_ok(fake, req->id);
	msg_init(&msg, MSG_EVENT, 0);
	msg.event.kind = MSG_EVENT_SESSION_END;
	msg.event.detail = SHMD_STATUS_SHUTDOWN;
	fake_send(fake, &msg, NULL, 0);
}

static int count(void *arg, const struct shmd_admin_event *event)
{
	++*(unsigned int *)arg;
	ASSERT_EQ(event->kind, SHMD_EVENT_SESSION_END);
	return 0;
}

TEST(monitor_ends_with_the_daemon)
{
	struct fake_daemon fake = {0};
	struct shmd_client *client;
	unsigned int n = 0;

	open_with(&fake, answer_and_end, &client);
	ASSERT_ERR(shmd_admin_monitor(client, count, &n), ESHUTDOWN);
	ASSERT_EQ(n, 1);
	end(&fake, client);
}

static void refuse(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	fake_send_error(fake, req->id, SHMD_STATUS_PERMISSION, "");
}

TEST(refusals_end_the_call_and_not_the_client)
{
	struct fake_daemon fake = {0};
	struct shmd_queue_head head;
	struct shmd_client *client;
	char buf[64];

	open_with(&fake, refuse, &client);
	ASSERT_ERR(shmd_admin_monitor(client, never, NULL), EPERM);
	ASSERT_ERR(shmd_admin_kill(client, 1), EPERM);
	ASSERT_ERR(shmd_admin_drain(client, true, 1), EPERM);
	ASSERT_ERR(shmd_admin_port_set(client, "soft0", true), EPERM);
	ASSERT_ERR(shmd_admin_queue_head(client, "soft0", 1, &head), EPERM);
	ASSERT_ERR(shmd_admin_queue_read(client, "soft0", 1, SHMD_PART_SQ, 0, 1, buf), EPERM);
	ASSERT_EQ(shmd_client_health(client), SHMD_HEALTH_OK);
	end(&fake, client);
}

/* Before sessions said whether they outlive the daemon, more of them were sent at a time. */
static void answer_as_before(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	struct msg rep;

	msg_init(&rep, MSG_LIST_REP, req->id);
	rep.list_rep.n_sessions = MSG_MAX_SESSION_ITEMS;
	rep.list_rep.sessions = calloc(MSG_MAX_SESSION_ITEMS, sizeof(*rep.list_rep.sessions));
	ASSERT(rep.list_rep.sessions);
	for (unsigned int i = 0; i < MSG_MAX_SESSION_ITEMS; i++) {
		struct msg_session_item *item = &rep.list_rep.sessions[i];

		item->session = i + 1;
		memset(item->command, 'c', sizeof(item->command) - 1);
		memset(item->cgroup, 'g', sizeof(item->cgroup) - 1);
	}
	fake_send(fake, &rep, NULL, 0);
	msg_deinit(&rep);
}

static int count_session(void *arg, const struct shmd_session_item *item)
{
	ASSERT_EQ(item->session, ++*(unsigned int *)arg);
	return 0;
}

TEST(longer_pages_of_older_daemons_are_read)
{
	struct fake_daemon fake = {0};
	struct shmd_client *client;
	unsigned int n = 0;

	open_with(&fake, answer_as_before, &client);
	ASSERT_OK(shmd_admin_sessions(client, count_session, &n));
	ASSERT_EQ(n, 48);
	end(&fake, client);
}

/* ---- lists that do not end ------------------------------------------------------------------------------------------ */

static uint64_t cursor_step; /* from one page to the next */

static void answer_without_end(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	struct msg rep;

	msg_init(&rep, MSG_LIST_REP, req->id);
	rep.list_rep.next_cursor = req->list_req.cursor ? req->list_req.cursor + cursor_step : 7;
	fake_send(fake, &rep, NULL, 0);
}

static int no_session(void *arg, const struct shmd_session_item *item)
{
	test_fail(TEST_WHERE, "an item");
	return 0;
}

/* The attack: a daemon, or who stands in for it, whose cursor stands still, goes back, or goes on for ever. */
static void expect_end(uint64_t step, unsigned int most, const char *words)
{
	struct fake_daemon fake = {0};
	struct shmd_client *client;

	cursor_step = step;
	open_with(&fake, answer_without_end, &client);
	ASSERT_ERR(shmd_admin_sessions(client, no_session, NULL), EPROTO);
	if (!strstr(shmd_error_text(), words))
		test_fail(TEST_WHERE, "%s", shmd_error_text());
	ASSERT_LE(fake.n_requests, most);
	ASSERT_EQ(shmd_client_health(client), SHMD_HEALTH_OK);
	end(&fake, client);
}

TEST(list_whose_cursor_stands_still_or_goes_back_ends)
{
	expect_end(0, 2, "does not go on");
	expect_end(UINT64_MAX, 2, "does not go on");
}

TEST_TIMEOUT(list_that_has_no_end_is_given_up, 300)
{
	expect_end(1, 1u << 17, "does not end");
}

TEST(drain_is_an_event_of_clients_too)
{
	struct fake_daemon fake = {.handle = answer_ok};
	struct shmd_client *client;
	struct shmd_event event;

	ASSERT_OK(fake_open(&fake, NULL, &client));
	fake_send_event(&fake, MSG_EVENT_DRAIN, 1, "finish");
	ASSERT_OK(shmd_event_next(client, 10 * NSEC_PER_SEC, &event));
	ASSERT_EQ(event.kind, SHMD_EVENT_DRAIN);
	ASSERT_EQ(event.detail, 1);
	ASSERT_STREQ(event.text, "finish");
	end(&fake, client);
}

/* ---- queues ------------------------------------------------------------------------------------------------------------- */

/* Changes a reply that was right. */
static void (*spoil)(struct msg_queue_dump_rep *rep);

static void answer_dump(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	const struct msg_queue_dump_req *ask = &req->queue_dump_req;
	uint32_t entry = ask->part == MSG_PART_RQ ? STRIDE : 64, n;
	struct msg_queue_dump_rep *rep;
	struct msg msg;

	msg_init(&msg, MSG_QUEUE_DUMP_REP, req->id);
	rep = &msg.queue_dump_rep;
	*rep = (struct msg_queue_dump_rep){
		.qp = {.session = 4, .qpn = ask->qpn, .log2_sq_wqebbs = 5, .sq_pi = 11},
		.rq_pi = 21, .rq_ci = 22, .log2_rq_stride = 5, .n_rq_wqes = RING, .send_cqn = 31, .recv_cqn = 32,
		.send_cq_log2_entries = 6, .recv_cq_log2_entries = 6, .recv_cq_flags = 1, .dbrec_sq = 41,
		.dbrec_rq = 42, .dbrec_send_cq = 43, .dbrec_recv_cq = 44};
	snprintf(rep->qp.nic, sizeof(rep->qp.nic), "%s", ask->nic);
	if (ask->part != MSG_PART_NONE) {
		n = ask->n < PER_REPLY ? ask->n : PER_REPLY;
		rep->entry_bytes = entry;
		rep->first = ask->first % RING;
		rep->data_bytes = n * entry;
		rep->data = calloc(1, MSG_DUMP_BYTES);
		for (uint32_t i = 0; i < n; i++)
			memset(rep->data + i * entry, (int)((rep->first + i) % RING + 1), entry);
	}
	if (spoil)
		spoil(rep);
	fake_send(fake, &msg, NULL, 0);
	msg_deinit(&msg);
}

TEST(queue_head_is_shown_in_entries_and_bytes)
{
	struct fake_daemon fake = {0};
	struct shmd_queue_head head;
	struct shmd_client *client;

	open_with(&fake, answer_dump, &client);
	ASSERT_OK(shmd_admin_queue_head(client, "soft0", 9, &head));
	ASSERT_EQ(head.qp.qpn, 9);
	ASSERT_EQ(head.qp.session, 4);
	ASSERT_EQ(head.qp.sq_wqebbs, 32);
	ASSERT_EQ(head.qp.sq_pi, 11);
	ASSERT_STREQ(head.qp.nic, "soft0");
	ASSERT_EQ(head.rq_pi, 21);
	ASSERT_EQ(head.rq_ci, 22);
	ASSERT_EQ(head.n_rq_wqes, RING);
	ASSERT_EQ(head.rq_stride_bytes, STRIDE);
	ASSERT_EQ(head.send_cqn, 31);
	ASSERT_EQ(head.recv_cqn, 32);
	ASSERT_EQ(head.send_cq_entries, 64);
	ASSERT_EQ(head.recv_cq_entries, 1);
	ASSERT_EQ(head.recv_cq_flags, 1);
	ASSERT_EQ(head.dbrec_sq, 41);
	ASSERT_EQ(head.dbrec_rq, 42);
	ASSERT_EQ(head.dbrec_send_cq, 43);
	ASSERT_EQ(head.dbrec_recv_cq, 44);
	end(&fake, client);
}

static void expect_read(struct shmd_client *client, enum shmd_queue_part part, uint32_t first, uint32_t n)
{
	uint32_t entry = part == SHMD_PART_RQ ? STRIDE : 64;
	uint8_t *buf = malloc((size_t)n * entry + 1);

	buf[n * entry] = 0x5a;
	ASSERT_OK(shmd_admin_queue_read(client, "soft0", 9, part, first, n, buf));
	for (uint32_t i = 0; i < n * entry; i++)
		ASSERT_EQ(buf[i], (first + i / entry) % RING + 1);
	ASSERT_EQ(buf[n * entry], 0x5a);
	free(buf);
}

TEST(queue_read_joins_replies_over_the_end_of_the_ring)
{
	struct fake_daemon fake = {0};
	struct shmd_client *client;

	open_with(&fake, answer_dump, &client);
	expect_read(client, SHMD_PART_SQ, 0, 1);
	ASSERT_EQ(fake.n_requests, 1);
	expect_read(client, SHMD_PART_SQ, 29, 12);
	ASSERT_EQ(fake.n_requests, 4);
	expect_read(client, SHMD_PART_RQ, 7, RING);
	expect_read(client, SHMD_PART_SEND_CQ, UINT32_MAX, 9);
	expect_read(client, SHMD_PART_RECV_CQ, 3, 2 * RING + 1);
	end(&fake, client);
}

static void no_ring(struct msg_queue_dump_rep *rep)
{
	rep->entry_bytes = rep->data_bytes = 0;
}

TEST(queue_read_of_a_ring_that_is_not_there)
{
	struct fake_daemon fake = {0};
	struct shmd_client *client;
	uint8_t buf[512];

	spoil = no_ring;
	open_with(&fake, answer_dump, &client);
	ASSERT_ERR(shmd_admin_queue_read(client, "soft0", 9, SHMD_PART_RQ, 0, 1, buf), ENOENT);
	end(&fake, client);
}

static void too_much(struct msg_queue_dump_rep *rep)
{
	rep->data_bytes = MSG_DUMP_BYTES;
}
static void nothing(struct msg_queue_dump_rep *rep)
{
	rep->data_bytes = 0;
}
static void half_an_entry(struct msg_queue_dump_rep *rep)
{
	rep->data_bytes = rep->entry_bytes * 3 / 2;
}
static void huge_entries(struct msg_queue_dump_rep *rep)
{
	rep->entry_bytes = 4096;
	rep->data_bytes = 4096;
}
static void odd_entries(struct msg_queue_dump_rep *rep)
{
	rep->entry_bytes = 48;
	rep->data_bytes = 48;
}
static void huge_stride(struct msg_queue_dump_rep *rep)
{
	rep->log2_rq_stride = 200;
}

/* The fake's second reply has other entries than its first. */
static void changing_entries(struct msg_queue_dump_rep *rep)
{
	static bool again;

	rep->entry_bytes = again ? 512 : 16;
	rep->data_bytes = rep->entry_bytes;
	again = true;
}

TEST(queue_read_takes_no_more_than_the_buffer_was_said_to_hold)
{
	static void (*const spoils[])(struct msg_queue_dump_rep *) = {
		too_much, nothing, half_an_entry, huge_entries, odd_entries};
	struct shmd_queue_head head;

	for (unsigned int i = 0; i < sizeof(spoils) / sizeof(spoils[0]); i++) {
		struct fake_daemon fake = {0};
		struct shmd_client *client;
		uint8_t *buf = malloc(3 * 64); /* for a sanitizer to see the end of */

		spoil = spoils[i];
		open_with(&fake, answer_dump, &client);
		ASSERT_ERR(shmd_admin_queue_read(client, "soft0", 9, SHMD_PART_SQ, 0, 3, buf), EPROTO);
		free(buf);
		end(&fake, client);
	}
	struct fake_daemon fake = {0};
	struct shmd_client *client;
	uint8_t *buf = malloc(4 * SHMD_MAX_RQ_STRIDE_BYTES);

	spoil = changing_entries;
	open_with(&fake, answer_dump, &client);
	ASSERT_ERR(shmd_admin_queue_read(client, "soft0", 9, SHMD_PART_RQ, 0, 4, buf), EPROTO);
	spoil = huge_stride;
	ASSERT_ERR(shmd_admin_queue_head(client, "soft0", 9, &head), EPROTO);
	free(buf);
	end(&fake, client);
}
