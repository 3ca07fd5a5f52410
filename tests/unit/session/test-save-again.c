/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that a client sends again because the daemon died: what was answered is not done twice. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tests/unit/session/save-scene.h"

/* Sent as the last one was, with its number. */
static void send_again(struct save_scene *s, struct msg *req, const int *fds, unsigned int n_fds, struct msg *rep)
{
	s->a.raw.last_id--;
	raw_ask(&s->a.raw, req, fds, n_fds, rep);
}

TEST(request_that_was_answered_is_not_carried_out_again)
{
	struct msg req, rep, again;
	unsigned int n_calls;
	struct save_scene s;

	save_scene_init(&s, 100);
	raw_fill_create(&req, 3);
	raw_expect(&s.a.raw, &req, NULL, 0, MSG_QUEUE_CREATE_REP, &rep);
	save_scene_restart(&s);
	save_scene_adopt(&s);
	n_calls = s.k.lab.nics[0].n_calls;
	send_again(&s, &req, NULL, 0, &again);
	ASSERT_EQ(again.kind, MSG_QUEUE_CREATE_REP);
	ASSERT_EQ(again.n_fds, 1);
	ASSERT_EQ(again.id, rep.id);
	ASSERT_EQ(again.queue_create_rep.queues, rep.queue_create_rep.queues);
	ASSERT_EQ(again.queue_create_rep.qps[2].qpn, rep.queue_create_rep.qps[2].qpn);
	ASSERT_EQ(s.k.lab.nics[0].n_calls, n_calls);
	ASSERT_EQ(s.k.lab.nics[0].n_queues, 2);
	msg_deinit(&again);
	/* Another number is another request. */
	raw_expect(&s.a.raw, &req, NULL, 0, MSG_QUEUE_CREATE_REP, &again);
	ASSERT_NE(again.queue_create_rep.queues, rep.queue_create_rep.queues);
	msg_deinit(&again);
	msg_deinit(&rep);
	save_scene_deinit(&s);
}

/* Its client got that answer, and has gone on when another copy of the request comes. */
TEST(request_that_was_refused_stays_refused)
{
	struct msg req, rep;
	struct save_scene s;

	save_scene_init(&s, 100);
	s.k.lab.registry.quota.limits.n[QUOTA_QPS] = 4;
	raw_fill_create(&req, 3);
	raw_expect_error(&s.a.raw, &req, NULL, 0, SHMD_STATUS_QUOTA_QPS);
	save_scene_restart(&s);
	save_scene_adopt(&s);
	send_again(&s, &req, NULL, 0, &rep);
	ASSERT_EQ(rep.kind, MSG_ERROR_REP);
	ASSERT_EQ(rep.error_rep.status, SHMD_STATUS_QUOTA_QPS);
	ASSERT(strstr(rep.error_rep.text, "max-qps"));
	ASSERT_EQ(s.k.lab.nics[0].n_queues, 1);
	raw_expect(&s.a.raw, &req, NULL, 0, MSG_QUEUE_CREATE_REP, &rep);
	msg_deinit(&rep);
	save_scene_deinit(&s);
}

TEST(answers_with_the_descriptors_of_a_context_come_again)
{
	struct msg req, rep;
	struct save_scene s;

	s.k.blocks = false;
	save_lab_init(&s.k, 100);
	save_lab_hello(&s.a, &s.k);
	s.id = s.a.session->id;
	save_scene_restart(&s);
	save_scene_adopt(&s);
	/* Hello itself, whose answer brings another pipe. */
	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req = (struct msg_hello_req){.version_min = 1, .version_max = 1, .role = MSG_ROLE_CLIENT, .resumes = true};
	send_again(&s, &req, NULL, 0, &rep);
	ASSERT_EQ(rep.kind, MSG_HELLO_REP);
	ASSERT_EQ(rep.n_fds, 2);
	ASSERT_EQ(rep.hello_rep.session, s.id);
	msg_init(&req, MSG_NIC_OPEN_REQ, 0);
	snprintf(req.nic_open_req.nic, sizeof(req.nic_open_req.nic), "fake1");
	raw_expect(&s.a.raw, &req, NULL, 0, MSG_NIC_OPEN_REP, &rep);
	save_scene_restart(&s);
	save_scene_adopt(&s);
	send_again(&s, &req, NULL, 0, &rep);
	ASSERT_EQ(rep.kind, MSG_NIC_OPEN_REP);
	ASSERT_EQ(rep.n_fds, 1);
	ASSERT_EQ(s.k.lab.nics[1].n_ctxs, 1);
	save_scene_deinit(&s);
}

static int ask_hello_again(struct save_scene *s, struct fdlist *fds)
{
	struct msg req, rep;

	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req = (struct msg_hello_req){.version_min = 1, .version_max = 1, .role = MSG_ROLE_CLIENT, .resumes = true};
	s->a.raw.last_id--;
	raw_send(&s->a.raw, &req, NULL, 0);
	fdlist_init(fds);
	ASSERT_OK(raw_recv(&s->a.raw, &rep, fds));
	ASSERT_EQ(rep.kind, MSG_HELLO_REP);
	ASSERT_EQ(rep.hello_rep.session, s->id);
	ASSERT_EQ(fds->n, 2);
	return fds->fds[rep.hello_rep.watch_fd - 1];
}

/* A session can be found from its answer on, and not before: a daemon that dies between the two leaves a client that asks again. */
TEST(hello_that_was_not_answered_is_answered_by_the_next_daemon)
{
	struct fdlist fds, more;
	struct pollfd watch;
	struct save_scene s;

	s.k.blocks = false;
	save_lab_init(&s.k, 100);
	save_lab_hello(&s.a, &s.k);
	s.id = s.a.session->id;
	save_scene_restart(&s);
	ASSERT_OK(save_lab_adopt_bytes(&s.k, s.id, s.k.first_state, s.k.first_bytes, &s.a.session));
	s.a.session->owner = &s.a;
	watch = (struct pollfd){.fd = ask_hello_again(&s, &fds)};
	ASSERT_EQ(poll(&watch, 1, 0), 0);
	/* When it dies once more, two copies may lie in the socket: an answer without a waiting call leaves that pipe alone. */
	ask_hello_again(&s, &more);
	ASSERT_EQ(poll(&watch, 1, 0), 0);
	fdlist_deinit(&more);
	ASSERT_EQ(poll(&watch, 1, 0), 0);
	save_scene_restart(&s);
	ASSERT_EQ(poll(&watch, 1, 0), 1);
	fdlist_deinit(&fds);
	save_scene_adopt(&s);
	save_scene_deinit(&s);
}

TEST(request_that_changed_nothing_is_carried_out_again)
{
	struct msg req, rep;
	struct save_scene s;

	save_scene_init(&s, 100);
	msg_init(&req, MSG_STATUS_REQ, 0);
	raw_expect(&s.a.raw, &req, NULL, 0, MSG_STATUS_REP, &rep);
	save_scene_restart(&s);
	save_scene_adopt(&s);
	send_again(&s, &req, NULL, 0, &rep);
	ASSERT_EQ(rep.kind, MSG_STATUS_REP);
	save_scene_deinit(&s);
}
