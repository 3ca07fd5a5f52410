/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions whose NICs block: what a worker does, what others see meanwhile, and what ends while it is at it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/session/drain.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"
#include "tests/unit/session/lab.h"

/* Two clients with queues and memory, and an administrator. */
struct scene {
	struct lab lab;
	struct pair admin, a, b;
	uint32_t qpn, queues, mr; /* of a */
	uint32_t qpn_b;
};

static uint32_t create(struct pair *pair, uint32_t *ret_queues)
{
	struct msg rep;
	uint32_t qpn;

	raw_create_queues(&pair->raw, 2, &rep);
	qpn = rep.queue_create_rep.qps[0].qpn;
	*ret_queues = rep.queue_create_rep.queues;
	msg_deinit(&rep);
	return qpn;
}

static void scene_init(struct scene *s)
{
	uint32_t queues;

	lab_init_blocking(&s->lab, 100);
	pair_init_hello(&s->admin, &s->lab, MSG_ROLE_CONTROL);
	pair_init_hello(&s->a, &s->lab, MSG_ROLE_CLIENT);
	pair_init_hello(&s->b, &s->lab, MSG_ROLE_CLIENT);
	raw_open_nic(&s->a.raw, "fake0");
	raw_open_nic(&s->b.raw, "fake0");
	s->mr = raw_reg(&s->a.raw, 4096);
	s->qpn = create(&s->a, &s->queues);
	s->qpn_b = create(&s->b, &queues);
	ASSERT_EQ(s->lab.nics[0].n_ctxs, 2);
	ASSERT(list_empty(&s->lab.todo));
	s->lab.registry.counted_nsec = UINT64_MAX; /* no tenant is counted unless a test says so */
	s->a.waits = true;
	s->b.waits = true;
	s->admin.waits = true;
}

static void release(struct pair *pair)
{
	if (pair->session)
		pair->session->owner = NULL;
	session_release(pair->session);
	pair->session = NULL;
	raw_close(&pair->raw);
}

static void scene_deinit(struct scene *s)
{
	release(&s->admin);
	release(&s->a);
	release(&s->b);
	lab_work(&s->lab);
	lab_assert_empty(&s->lab);
	lab_deinit(&s->lab);
}

static void expect_nothing(struct pair *pair)
{
	struct msg msg;

	ASSERT_ERR(raw_recv(&pair->raw, &msg, NULL), EAGAIN);
}

/* The reply that has come; the caller's to deinit. */
static void expect_reply(struct pair *pair, enum msg_kind kind, struct msg *ret_rep)
{
	ASSERT_OK(raw_recv(&pair->raw, ret_rep, NULL));
	ASSERT_STREQ(msg_kind_name(ret_rep->kind), msg_kind_name(kind));
	ASSERT_EQ(ret_rep->id, pair->raw.last_id);
}

static void expect_reply_and_drop(struct pair *pair, enum msg_kind kind)
{
	struct msg rep;

	expect_reply(pair, kind, &rep);
	msg_deinit(&rep);
}

static void send(struct pair *pair, struct msg *req)
{
	raw_send(&pair->raw, req, NULL, 0);
}

static void send_kind(struct pair *pair, enum msg_kind kind)
{
	struct msg req;

	msg_init(&req, kind, 0);
	send(pair, &req);
}

static void send_create(struct pair *pair)
{
	struct msg req;

	raw_fill_create(&req, 1);
	send(pair, &req);
}

static void send_list(struct pair *pair, enum msg_list_what what)
{
	struct msg req;

	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = what;
	send(pair, &req);
}

/* Every request that a NIC may take its time for. */
enum slow {
	SLOW_OPEN,
	SLOW_REG,
	SLOW_DEREG,
	SLOW_CREATE,
	SLOW_DESTROY,
	SLOW_CONNECT,
	SLOW_RESOLVE,
	SLOW_MODIFY,
	SLOW_QUERY,
	SLOW_COUNTERS,
	SLOW_LIST_SESSIONS,
	SLOW_LIST_QPS,
	SLOW_N,
};

static void fill_connect(struct msg *req, uint32_t qpn)
{
	const struct nic_addr addr = {
		.link = NIC_LINK_ETHERNET, .qp_type = NIC_QP_RC, .mtu_log2 = 12, .qpn = 0x77};

	msg_init(req, MSG_CONNECT_REQ, 0);
	req->connect_req.peers = calloc(1, sizeof(*req->connect_req.peers));
	req->connect_req.n_peers = 1;
	req->connect_req.peers[0].qpn = qpn;
	req->connect_req.peers[0].addr_bytes =
		(uint32_t)nic_addr_encode(&addr, req->connect_req.peers[0].addr);
}

static void fill_resolve(struct msg *req)
{
	const struct nic_addr addr = {
		.link = NIC_LINK_ETHERNET, .qp_type = NIC_QP_DCT, .mtu_log2 = 12, .qpn = 0x77};

	msg_init(req, MSG_PEER_RESOLVE_REQ, 0);
	req->peer_resolve_req.addrs = calloc(1, sizeof(*req->peer_resolve_req.addrs));
	req->peer_resolve_req.n_addrs = 1;
	req->peer_resolve_req.addrs[0].addr_bytes =
		(uint32_t)nic_addr_encode(&addr, req->peer_resolve_req.addrs[0].addr);
}

/* Returns the kind of its reply. */
static enum msg_kind send_slow(struct scene *s, enum slow what)
{
	static const struct {
		enum msg_kind request, reply;
	} kinds[SLOW_N] = {
		{MSG_NIC_OPEN_REQ, MSG_NIC_OPEN_REP},	{MSG_MEM_REG_REQ, MSG_MEM_REG_REP},
		{MSG_MEM_DEREG_REQ, MSG_OK_REP},	{MSG_QUEUE_CREATE_REQ, MSG_QUEUE_CREATE_REP},
		{MSG_QUEUE_DESTROY_REQ, MSG_OK_REP},	{MSG_CONNECT_REQ, MSG_CONNECT_REP},
		{MSG_PEER_RESOLVE_REQ, MSG_PEER_RESOLVE_REP},
		{MSG_QP_MODIFY_REQ, MSG_OK_REP},	{MSG_QP_QUERY_REQ, MSG_QP_QUERY_REP},
		{MSG_COUNTERS_REQ, MSG_COUNTERS_REP},	{MSG_LIST_REQ, MSG_LIST_REP},
		{MSG_LIST_REQ, MSG_LIST_REP},
	};
	int fd = raw_memfd(4096);
	struct msg req;

	msg_init(&req, kinds[what].request, 0);
	if (what == SLOW_OPEN)
		snprintf(req.nic_open_req.nic, sizeof(req.nic_open_req.nic), "fake1");
	else if (what == SLOW_REG)
		req.mem_reg_req = (struct msg_mem_reg_req){.kind = MSG_MEM_MEMFD, .length_bytes = 4096};
	else if (what == SLOW_DEREG)
		req.mem_dereg_req.handle = s->mr;
	else if (what == SLOW_CREATE)
		raw_fill_create(&req, 1);
	else if (what == SLOW_DESTROY)
		req.queue_destroy_req.handle = s->queues;
	else if (what == SLOW_CONNECT)
		fill_connect(&req, s->qpn);
	else if (what == SLOW_RESOLVE)
		fill_resolve(&req);
	else if (what == SLOW_MODIFY)
		req.qp_modify_req = (struct msg_qp_modify_req){.qpn = s->qpn, .state = NIC_QPS_ERR};
	else if (what == SLOW_QUERY)
		req.qp_query_req.qpn = s->qpn;
	else if (what == SLOW_LIST_SESSIONS || what == SLOW_LIST_QPS)
		req.list_req.what = what == SLOW_LIST_QPS ? MSG_LIST_QPS : MSG_LIST_SESSIONS;
	raw_send(&s->a.raw, &req, &fd, what == SLOW_REG);
	msg_deinit(&req);
	close(fd);
	return kinds[what].reply;
}

TEST(each_slow_request_leaves_the_control_thread_at_once)
{
	for (enum slow what = 0; what < SLOW_N; what++) {
		enum msg_kind reply;
		struct scene s;

		scene_init(&s);
		s.lab.nics[0].log[0] = 0;
		s.lab.nics[1].log[0] = 0;
		reply = send_slow(&s, what);
		/* Checked and charged; no NIC has heard of it. */
		ASSERT(s.a.session->busy);
		ASSERT_STREQ(s.lab.nics[0].log, "");
		ASSERT_STREQ(s.lab.nics[1].log, "");
		expect_nothing(&s.a);
		ASSERT(lab_run(&s.lab));
		expect_nothing(&s.a);
		ASSERT(lab_done(&s.lab));
		expect_reply_and_drop(&s.a, reply);
		/* An opened NIC is looked at once; then nothing is left. */
		ASSERT_EQ(lab_work(&s.lab), what == SLOW_OPEN ? 1u : 0u);
		ASSERT(!s.a.session->busy);
		scene_deinit(&s);
	}
}

TEST(answers_keep_the_order_of_requests)
{
	struct scene s;

	scene_init(&s);
	send_create(&s.a);
	/* It needs no NIC and waits all the same. */
	send_kind(&s.a, MSG_STATUS_REQ);
	session_readable(s.a.session);
	expect_nothing(&s.a);
	ASSERT_EQ(lab_work(&s.lab), 1u);
	s.a.raw.last_id--;
	expect_reply_and_drop(&s.a, MSG_QUEUE_CREATE_REP);
	expect_nothing(&s.a);
	s.a.raw.last_id++;
	session_readable(s.a.session);
	expect_reply_and_drop(&s.a, MSG_STATUS_REP);
	scene_deinit(&s);
}

static void first_becomes_last(struct list *works)
{
	struct list *first = works->next;

	list_del(first);
	list_add_tail(works, first);
}

TEST(others_are_answered_while_one_waits)
{
	struct scene s;

	scene_init(&s);
	send_create(&s.a);
	ASSERT(lab_run(&s.lab));
	send_kind(&s.b, MSG_STATUS_REQ);
	expect_reply_and_drop(&s.b, MSG_STATUS_REP);
	send_kind(&s.b, MSG_NIC_LIST_REQ);
	expect_reply_and_drop(&s.b, MSG_NIC_LIST_REP);
	/* A second worker is done first. */
	send_kind(&s.b, MSG_COUNTERS_REQ);
	ASSERT(lab_run(&s.lab));
	first_becomes_last(&s.lab.ready);
	ASSERT(lab_done(&s.lab));
	expect_nothing(&s.a);
	expect_reply_and_drop(&s.b, MSG_COUNTERS_REP);
	ASSERT(lab_done(&s.lab));
	expect_reply_and_drop(&s.a, MSG_QUEUE_CREATE_REP);
	scene_deinit(&s);
}

TEST(session_that_ends_during_its_request_leaves_nothing)
{
	/* Before a worker took it; while it runs; killed, with the reason. */
	for (int when = 0; when < 3; when++) {
		for (enum slow what = 0; what < SLOW_N; what++) {
			struct scene s;

			scene_init(&s);
			send_slow(&s, what);
			if (when > 0)
				ASSERT(lab_run(&s.lab));
			if (when == 2) {
				session_end(s.a.session, SHMD_STATUS_KILLED, "for a test");
				raw_expect_end(&s.a.raw, SHMD_STATUS_KILLED);
			}
			release(&s.a);
			/* It is there until the worker is done with it. */
			ASSERT_EQ(s.lab.nics[0].n_ctxs, 2);
			lab_work(&s.lab);
			ASSERT_EQ(s.lab.nics[0].n_ctxs, 1);
			ASSERT_EQ(s.lab.nics[1].n_ctxs, 0);
			ASSERT_EQ(s.lab.registry.quota.total.n[QUOTA_SESSIONS], 1);
			scene_deinit(&s);
		}
	}
}

TEST(request_that_fails_at_a_worker_is_refused_and_leaves_nothing)
{
	for (enum slow what = 0; what < SLOW_LIST_SESSIONS; what++) {
		const uint64_t *total;
		uint64_t before[QUOTA_N];
		struct msg rep;
		struct scene s;

		/* These cannot fail. */
		if (what == SLOW_DEREG || what == SLOW_DESTROY || what == SLOW_COUNTERS)
			continue;
		scene_init(&s);
		total = s.lab.registry.quota.total.n;
		memcpy(before, total, sizeof(before));
		for (int i = 0; i < 2; i++) {
			s.lab.nics[i].fail_at = s.lab.nics[i].n_calls + 1;
			s.lab.nics[i].fail_err = -ENOSPC;
		}
		send_slow(&s, what);
		lab_work(&s.lab);
		if (what == SLOW_CONNECT) {
			expect_reply(&s.a, MSG_CONNECT_REP, &rep);
			ASSERT_EQ(rep.connect_rep.status, SHMD_STATUS_NIC_LIMIT);
			ASSERT_EQ(rep.connect_rep.n_done, 0);
		} else if (what == SLOW_RESOLVE) {
			expect_reply(&s.a, MSG_PEER_RESOLVE_REP, &rep);
			ASSERT_EQ(rep.peer_resolve_rep.status, SHMD_STATUS_NIC_LIMIT);
			ASSERT_EQ(rep.peer_resolve_rep.n_entries, 0);
			msg_deinit(&rep);
		} else {
			expect_reply(&s.a, MSG_ERROR_REP, &rep);
			ASSERT_EQ(rep.error_rep.status, SHMD_STATUS_NIC_LIMIT);
		}
		ASSERT_MEMEQ(before, total, sizeof(before));
		ASSERT_EQ(s.lab.registry.nics[1].n_sessions, 0);
		ASSERT(!s.a.session->ended);
		scene_deinit(&s);
	}
}

/* ---- teardown ------------------------------------------------------------------------------------------------------- */

TEST(teardown_is_a_workers_and_quotas_return_after_it)
{
	const char *order = "quiesce destroy dereg close ";
	struct msg msg;
	struct scene s;

	scene_init(&s);
	s.lab.nics[0].log[0] = 0;
	session_end(s.a.session, SHMD_STATUS_KILLED, "for a test");
	raw_expect_end(&s.a.raw, SHMD_STATUS_KILLED);
	session_release(s.a.session);
	s.a.session = NULL;
	ASSERT_STREQ(s.lab.nics[0].log, "");
	ASSERT(lab_run(&s.lab));
	ASSERT_STREQ(s.lab.nics[0].log, order);
	/* Others see neither half of it. */
	ASSERT_EQ(s.lab.registry.quota.total.n[QUOTA_SESSIONS], 2);
	send_list(&s.b, MSG_LIST_SESSIONS);
	expect_nothing(&s.a);
	ASSERT(lab_done(&s.lab));
	ASSERT_EQ(s.lab.registry.quota.total.n[QUOTA_SESSIONS], 1);
	ASSERT_EQ(s.lab.registry.quota.total.n[QUOTA_QPS], 2);
	/* The end of the socket is the last of it. */
	ASSERT_ERR(raw_recv(&s.a.raw, &msg, NULL), ECONNRESET);
	lab_work(&s.lab);
	expect_reply(&s.b, MSG_LIST_REP, &msg);
	ASSERT_EQ(msg.list_rep.n_sessions, 1);
	msg_deinit(&msg);
	scene_deinit(&s);
}

TEST(entries_of_a_session_go_before_its_worker_ends)
{
	struct scene s;

	scene_init(&s);
	send_kind(&s.a, MSG_PUBLISH_REQ);
	expect_reply_and_drop(&s.a, MSG_OK_REP);
	send_kind(&s.b, MSG_PUBLISH_REQ);
	expect_reply_and_drop(&s.b, MSG_ERROR_REP);
	session_end(s.a.session, SHMD_STATUS_KILLED, "for a test");
	release(&s.a);
	ASSERT(!list_empty(&s.lab.todo));
	send_kind(&s.b, MSG_PUBLISH_REQ);
	expect_reply_and_drop(&s.b, MSG_OK_REP);
	scene_deinit(&s);
}

/* They end all at once, and a worker takes one after the other. */
TEST(sessions_that_end_together_share_one_wait_for_their_queues)
{
	struct pair pairs[30];
	uint64_t begin, most;
	struct lab lab;

	lab_init_blocking(&lab, 1000);
	lab.nics[0].never_flushes = true;
	most = lab.registry.attr.quiesce_nsec;
	for (int i = 0; i < 30; i++) {
		pair_init_hello(&pairs[i], &lab, MSG_ROLE_CLIENT);
		raw_open_nic(&pairs[i].raw, "fake0");
	}
	begin = nsec_now();
	for (int i = 0; i < 30; i++) {
		session_end(pairs[i].session, SHMD_STATUS_SHUTDOWN, "for a test");
		release(&pairs[i]);
	}
	ASSERT_EQ(lab.nics[0].quiesce_nsec, 0);
	lab_work(&lab);
	ASSERT_GT(lab.nics[0].quiesce_nsec, most / 2);
	ASSERT_LE(lab.nics[0].quiesce_nsec, most + (nsec_now() - begin) / 10 + 1);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

TEST(a_session_without_a_nic_waits_for_no_firmware_to_end)
{
	struct pair pair;
	struct lab lab;

	lab_init_blocking(&lab, 100);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	release(&pair);
	ASSERT(list_empty(&lab.todo));
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

TEST(kill_and_drain_reach_busy_sessions)
{
	struct msg req;
	struct scene s;

	scene_init(&s);
	send_create(&s.a);
	ASSERT(lab_run(&s.lab));
	msg_init(&req, MSG_SESSION_KILL_REQ, 0);
	req.session_kill_req.session = s.a.session->id;
	send(&s.admin, &req);
	expect_reply_and_drop(&s.admin, MSG_OK_REP);
	raw_expect_end(&s.a.raw, SHMD_STATUS_KILLED);
	send_create(&s.b);
	drain_begin(&s.lab.registry, 0);
	ASSERT_OK(raw_recv(&s.b.raw, &req, NULL));
	ASSERT_EQ(req.event.kind, MSG_EVENT_DRAIN);
	drain_run(&s.lab.registry);
	raw_expect_end(&s.b.raw, SHMD_STATUS_DRAINING);
	ASSERT_EQ(s.lab.nics[0].n_ctxs, 2);
	lab_work(&s.lab);
	/* They were answered nothing more, and what they got is freed with them. */
	expect_nothing(&s.a);
	expect_nothing(&s.b);
	scene_deinit(&s);
}

/* ---- what administrators see of a busy session ------------------------------------------------------------------------ */

static void list_one(struct scene *s, enum msg_list_what what, struct msg *ret_rep)
{
	send_list(&s->admin, what);
	while (lab_run(&s->lab))
		;
	while (lab_done(&s->lab))
		;
	expect_reply(&s->admin, MSG_LIST_REP, ret_rep);
}

static const struct msg_qp_item *find_item(const struct msg *rep, uint32_t qpn)
{
	for (unsigned int i = 0; i < rep->list_rep.n_qps; i++)
		if (rep->list_rep.qps[i].qpn == qpn)
			return &rep->list_rep.qps[i];
	test_fail(TEST_WHERE, "QP 0x%x is not in the list", qpn);
	return NULL;
}

/* A queue of works of which the oldest, of a busy session, does not end. */
static void stick(struct scene *s, struct list *stuck)
{
	list_init(stuck);
	list_splice_tail(stuck, &s->lab.todo);
}

static void unstick(struct scene *s, struct list *stuck)
{
	list_splice_tail(&s->lab.todo, stuck);
	lab_work(&s->lab);
}

TEST(a_busy_session_is_listed_with_what_is_known_of_it)
{
	struct list stuck;
	struct msg rep;
	struct scene s;

	scene_init(&s);
	send_slow(&s, SLOW_CONNECT);
	lab_work(&s.lab);
	expect_reply_and_drop(&s.a, MSG_CONNECT_REP);
	send_kind(&s.a, MSG_COUNTERS_REQ);
	lab_work(&s.lab);
	expect_reply_and_drop(&s.a, MSG_COUNTERS_REP);
	send_create(&s.a);
	stick(&s, &stuck);
	s.lab.nics[0].log[0] = 0;
	list_one(&s, MSG_LIST_QPS, &rep);
	ASSERT_EQ(rep.list_rep.n_qps, 4);
	ASSERT_EQ(find_item(&rep, s.qpn)->state, NIC_QPS_RTS);
	ASSERT_EQ(find_item(&rep, s.qpn)->dest_qpn, 0x77);
	ASSERT_EQ(find_item(&rep, s.qpn_b)->state, NIC_QPS_RST);
	/* The NIC was asked for the other session's two alone. */
	ASSERT_STREQ(s.lab.nics[0].log, "query query ");
	msg_deinit(&rep);
	list_one(&s, MSG_LIST_SESSIONS, &rep);
	ASSERT_EQ(rep.list_rep.n_sessions, 2);
	ASSERT_EQ(rep.list_rep.sessions[0].counters.wqes, 7);
	ASSERT_EQ(rep.list_rep.sessions[1].counters.wqes, 7);
	msg_deinit(&rep);
	unstick(&s, &stuck);
	expect_reply_and_drop(&s.a, MSG_QUEUE_CREATE_REP);
	scene_deinit(&s);
}

TEST(cached_state_of_a_qp_follows_its_events_and_requests)
{
	const struct nic_event event = {.kind = NIC_EVENT_QP_ERROR, .syndrome = 0x13};
	struct nic_event failed = event;
	struct list stuck;
	struct msg rep;
	struct scene s;

	scene_init(&s);
	failed.session_id = s.a.session->id;
	failed.number = s.qpn + 1;
	registry_event(&s.lab.registry, &s.lab.registry.nics[0], &failed);
	ASSERT_OK(raw_recv(&s.a.raw, &rep, NULL));
	send_slow(&s, SLOW_MODIFY);
	lab_work(&s.lab);
	expect_reply_and_drop(&s.a, MSG_OK_REP);
	send_create(&s.a);
	stick(&s, &stuck);
	list_one(&s, MSG_LIST_QPS, &rep);
	ASSERT_EQ(find_item(&rep, s.qpn)->state, NIC_QPS_ERR);
	ASSERT_EQ(find_item(&rep, s.qpn)->first_error, 0);
	ASSERT_EQ(find_item(&rep, s.qpn + 1)->state, NIC_QPS_ERR);
	ASSERT_EQ(find_item(&rep, s.qpn + 1)->first_error, 0x13);
	msg_deinit(&rep);
	unstick(&s, &stuck);
	scene_deinit(&s);
}

/* The NIC says nothing, and the list is older than the news. */
TEST(a_list_does_not_forget_an_error_that_came_meanwhile)
{
	struct nic_event failed = {.kind = NIC_EVENT_QP_ERROR, .syndrome = 0x13};
	struct list stuck;
	struct msg rep;
	struct scene s;

	scene_init(&s);
	send_slow(&s, SLOW_LIST_QPS);
	failed.session_id = s.a.session->id;
	failed.number = s.qpn;
	registry_event(&s.lab.registry, &s.lab.registry.nics[0], &failed);
	ASSERT_OK(raw_recv(&s.a.raw, &rep, NULL));
	s.lab.nics[0].fail_at = s.lab.nics[0].n_calls + 1;
	s.lab.nics[0].fail_err = -EBUSY;
	lab_work(&s.lab);
	expect_reply_and_drop(&s.a, MSG_LIST_REP);
	send_create(&s.a);
	stick(&s, &stuck);
	list_one(&s, MSG_LIST_QPS, &rep);
	ASSERT_EQ(find_item(&rep, s.qpn)->state, NIC_QPS_ERR);
	ASSERT_EQ(find_item(&rep, s.qpn)->first_error, 0x13);
	msg_deinit(&rep);
	unstick(&s, &stuck);
	expect_reply_and_drop(&s.a, MSG_QUEUE_CREATE_REP);
	scene_deinit(&s);
}

TEST(a_batch_that_a_worker_destroys_is_in_no_list)
{
	struct list stuck;
	struct msg rep;
	struct scene s;

	scene_init(&s);
	send_slow(&s, SLOW_DESTROY);
	stick(&s, &stuck);
	list_one(&s, MSG_LIST_QPS, &rep);
	ASSERT_EQ(rep.list_rep.n_qps, 2);
	find_item(&rep, s.qpn_b);
	msg_deinit(&rep);
	unstick(&s, &stuck);
	expect_reply_and_drop(&s.a, MSG_OK_REP);
	scene_deinit(&s);
}

static void send_dump(struct scene *s, uint32_t qpn)
{
	struct msg req;

	msg_init(&req, MSG_QUEUE_DUMP_REQ, 0);
	snprintf(req.queue_dump_req.nic, sizeof(req.queue_dump_req.nic), "fake0");
	req.queue_dump_req.qpn = qpn;
	req.queue_dump_req.part = MSG_PART_SQ;
	req.queue_dump_req.n = 1;
	send(&s->admin, &req);
}

TEST(queues_of_a_busy_session_are_not_looked_into)
{
	struct list stuck;
	struct msg rep;
	struct scene s;

	scene_init(&s);
	send_create(&s.a);
	stick(&s, &stuck);
	send_dump(&s, s.qpn);
	expect_reply(&s.admin, MSG_ERROR_REP, &rep);
	ASSERT_EQ(rep.error_rep.status, SHMD_STATUS_BUSY);
	/* A worker destroys another session's. */
	send_dump(&s, s.qpn_b);
	ASSERT(s.b.session->busy);
	lab_work(&s.lab);
	expect_reply_and_drop(&s.admin, MSG_QUEUE_DUMP_REP);
	ASSERT(!s.b.session->busy);
	unstick(&s, &stuck);
	scene_deinit(&s);
}

/* On soft NICs: the control thread fills no large ring, and touches no memory of a client. */
TEST(long_requests_go_to_a_worker_if_no_nic_blocks)
{
	struct msg req, rep;
	struct list stuck;
	struct scene s;
	int fd;

	scene_init(&s);
	s.lab.registry.blocks = s.lab.nics[0].base.blocks = s.lab.nics[1].base.blocks = false;
	send_create(&s.a);
	ASSERT(list_empty(&s.lab.todo));
	expect_reply_and_drop(&s.a, MSG_QUEUE_CREATE_REP);
	/* 2 MiB of rings. */
	raw_fill_create(&req, 2);
	req.queue_create_req.specs.cqs[0].log2_entries = 15;
	send(&s.a, &req);
	stick(&s, &stuck);
	ASSERT(s.a.session->busy);
	expect_nothing(&s.a);
	list_one(&s, MSG_LIST_QPS, &rep);
	find_item(&rep, s.qpn);
	msg_deinit(&rep);
	unstick(&s, &stuck);
	expect_reply_and_drop(&s.a, MSG_QUEUE_CREATE_REP);
	/* Small ones, in a memfd of the client. */
	raw_fill_create(&req, 1);
	req.queue_create_req.mem_kind = MSG_MEM_MEMFD;
	req.queue_create_req.mem_bytes = 1 << 16;
	fd = raw_memfd(1 << 16);
	raw_send(&s.b.raw, &req, &fd, 1);
	close(fd);
	ASSERT(s.b.session->busy);
	lab_work(&s.lab);
	expect_reply_and_drop(&s.b, MSG_QUEUE_CREATE_REP);
	scene_deinit(&s);
}

TEST(a_session_that_is_looked_at_is_freed_after_that)
{
	struct msg rep;
	struct scene s;

	scene_init(&s);
	send_list(&s.admin, MSG_LIST_QPS);
	ASSERT(s.a.session->busy && s.b.session->busy);
	release(&s.a);
	ASSERT(lab_run(&s.lab));
	ASSERT_EQ(s.lab.nics[0].n_ctxs, 2);
	/* So is one whose asker has gone. */
	release(&s.admin);
	ASSERT(lab_done(&s.lab));
	lab_work(&s.lab);
	ASSERT_EQ(s.lab.nics[0].n_ctxs, 1);
	send_kind(&s.b, MSG_COUNTERS_REQ);
	lab_work(&s.lab);
	expect_reply(&s.b, MSG_COUNTERS_REP, &rep);
	scene_deinit(&s);
}

TEST(a_request_waits_while_its_session_is_looked_at)
{
	struct scene s;

	scene_init(&s);
	send_list(&s.admin, MSG_LIST_QPS);
	send_kind(&s.a, MSG_STATUS_REQ);
	expect_nothing(&s.a);
	lab_work(&s.lab);
	expect_reply_and_drop(&s.admin, MSG_LIST_REP);
	session_readable(s.a.session);
	expect_reply_and_drop(&s.a, MSG_STATUS_REP);
	scene_deinit(&s);
}

/* ---- news of NICs ---------------------------------------------------------------------------------------------------- */

TEST(a_look_follows_the_work_under_way)
{
	struct nic_event event = {.kind = NIC_EVENT_LOOK};
	struct scene s;

	scene_init(&s);
	event.session_id = s.a.session->id;
	send_create(&s.a);
	s.lab.nics[0].log[0] = 0;
	/* Several are one. */
	registry_event(&s.lab.registry, &s.lab.registry.nics[0], &event);
	registry_event(&s.lab.registry, &s.lab.registry.nics[0], &event);
	lab_work(&s.lab);
	ASSERT_STREQ(s.lab.nics[0].log, "create look ");
	expect_reply_and_drop(&s.a, MSG_QUEUE_CREATE_REP);
	/* At once when nothing is under way; not of a session that ends. */
	registry_event(&s.lab.registry, &s.lab.registry.nics[0], &event);
	ASSERT(s.a.session->busy);
	registry_event(&s.lab.registry, &s.lab.registry.nics[0], &event);
	release(&s.a);
	lab_work(&s.lab);
	ASSERT_STREQ(s.lab.nics[0].log, "create look look quiesce destroy destroy dereg close ");
	scene_deinit(&s);
}

TEST(status_request_refreshes_counters_for_the_next_one)
{
	struct scene s;

	scene_init(&s);
	s.lab.registry.counted_nsec = 0;
	s.b.waits = true;
	send_create(&s.b);
	send_kind(&s.admin, MSG_STATUS_REQ);
	expect_reply_and_drop(&s.admin, MSG_STATUS_REP);
	/* Not of a busy one; and once. */
	ASSERT(s.a.session->busy);
	ASSERT_EQ(s.a.session->counters.wqes, 0);
	send_kind(&s.admin, MSG_STATUS_REQ);
	expect_reply_and_drop(&s.admin, MSG_STATUS_REP);
	ASSERT_EQ(lab_work(&s.lab), 2u);
	ASSERT_EQ(s.a.session->counters.wqes, 7);
	ASSERT_EQ(s.b.session->counters.wqes, 0);
	expect_reply_and_drop(&s.b, MSG_QUEUE_CREATE_REP);
	send_list(&s.admin, MSG_LIST_NICS);
	expect_reply_and_drop(&s.admin, MSG_LIST_REP);
	ASSERT(!s.a.session->busy);
	scene_deinit(&s);
}

TEST(the_state_of_a_nic_is_asked_in_the_background)
{
	struct nic_event event = {.kind = NIC_EVENT_PORT_STATE, .state = NIC_PORT_DOWN};
	struct scene s;
	struct msg rep;
	unsigned int n;

	scene_init(&s);
	s.lab.registry.nics[0].asked_nsec = 0;
	n = s.lab.nics[0].n_queries;
	s.lab.nics[0].info.mtu_bytes = 1024;
	send_kind(&s.b, MSG_NIC_LIST_REQ);
	expect_reply(&s.b, MSG_NIC_LIST_REP, &rep);
	ASSERT_EQ(rep.nic_list_rep.nics[0].mtu_bytes, 4096);
	msg_deinit(&rep);
	ASSERT_EQ(s.lab.nics[0].n_queries, n);
	lab_work(&s.lab);
	ASSERT_EQ(s.lab.nics[0].n_queries, n + 1);
	ASSERT_EQ(s.lab.registry.nics[0].info.mtu_bytes, 1024);
	/* Its state is that of the last event, also where an older answer comes later. */
	s.lab.registry.nics[0].asked_nsec = 0;
	send_kind(&s.b, MSG_NIC_LIST_REQ);
	expect_reply_and_drop(&s.b, MSG_NIC_LIST_REP);
	ASSERT(lab_run(&s.lab));
	registry_event(&s.lab.registry, &s.lab.registry.nics[0], &event);
	ASSERT(lab_done(&s.lab));
	ASSERT_EQ(s.lab.registry.nics[0].info.state, NIC_PORT_DOWN);
	s.lab.nics[0].info.state = NIC_PORT_DOWN;
	lab_work(&s.lab);
	ASSERT_EQ(s.lab.registry.nics[0].info.state, NIC_PORT_DOWN);
	scene_deinit(&s);
}
