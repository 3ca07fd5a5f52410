/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/session/lab.h"
#include "tests/lib/test.h"

struct scene {
	struct lab lab;
	struct pair pair;
};

static void scene_init(struct scene *scene, uint64_t limit)
{
	lab_init(&scene->lab, limit);
	pair_init_hello(&scene->pair, &scene->lab, MSG_ROLE_CLIENT);
	raw_open_nic(&scene->pair.raw, "fake0");
}

static void scene_deinit(struct scene *scene)
{
	ASSERT(!scene->pair.session->ended);
	pair_deinit(&scene->pair);
	lab_assert_empty(&scene->lab);
	lab_deinit(&scene->lab);
}

TEST(queues_come_with_a_sealed_memfd)
{
	struct msg req, rep, layout;
	struct fdlist fds;
	struct scene s;
	struct stat st;

	scene_init(&s, 10);
	raw_fill_create(&req, 2);
	raw_send(&s.pair.raw, &req, NULL, 0);
	fdlist_init(&fds);
	ASSERT_OK(raw_recv(&s.pair.raw, &rep, &fds));
	ASSERT_EQ(rep.kind, MSG_QUEUE_CREATE_REP);
	ASSERT_EQ(fds.n, 1);
	ASSERT_EQ(rep.queue_create_rep.mem_fd, 1);
	ASSERT_EQ(rep.queue_create_rep.n_cqs, 1);
	ASSERT_EQ(rep.queue_create_rep.n_qps, 2);
	ASSERT_NE(rep.queue_create_rep.qps[0].qpn, rep.queue_create_rep.qps[1].qpn);
	ASSERT_EQ(rep.queue_create_rep.qps[1].send_cqn, rep.queue_create_rep.cqs[0].cqn);
	ASSERT_GT(rep.queue_create_rep.qps[0].addr_bytes, 0);
	ASSERT_OK(fstat(fds.fds[0], &st));
	ASSERT_EQ(st.st_size, rep.queue_create_rep.mem_bytes);
	ASSERT_EQ(fcntl(fds.fds[0], F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	ASSERT_EQ(s.lab.registry.quota.total.n[QUOTA_BYTES], rep.queue_create_rep.mem_bytes);
	ASSERT_EQ(s.lab.registry.nics[0].n_qps, 2);
	fdlist_deinit(&fds);

	layout = req;
	layout.kind = MSG_QUEUE_LAYOUT_REQ;
	layout.queue_layout_req = req.queue_create_req.specs;
	msg_deinit(&rep);
	req = layout;
	raw_expect(&s.pair.raw, &req, NULL, 0, MSG_QUEUE_LAYOUT_REP, &layout);
	ASSERT_EQ(layout.queue_layout_rep.total_bytes, s.lab.registry.quota.total.n[QUOTA_BYTES]);
	scene_deinit(&s);
}

TEST(queues_on_the_clients_memory)
{
	struct msg req, rep;
	struct scene s;
	int fd = raw_memfd(1 << 20);

	scene_init(&s, 10);
	raw_fill_create(&req, 2);
	req.queue_create_req.mem_kind = MSG_MEM_MEMFD;
	req.queue_create_req.mem_offset = 4096;
	req.queue_create_req.mem_bytes = (1 << 20) - 4096;
	raw_expect(&s.pair.raw, &req, &fd, 1, MSG_QUEUE_CREATE_REP, &rep);
	ASSERT_EQ(rep.queue_create_rep.mem_fd, 0);
	msg_deinit(&rep);
	req.queue_create_req.mem_offset = 64;
	raw_expect_error(&s.pair.raw, &req, &fd, 1, SHMD_STATUS_MEM_RANGE);
	req.queue_create_req.mem_offset = 0;
	req.queue_create_req.mem_bytes = 4096;
	req.queue_create_req.specs.qps[0].log2_sq_wqebbs = 8;
	raw_expect_error(&s.pair.raw, &req, &fd, 1, SHMD_STATUS_MEM_RANGE);
	req.queue_create_req.mem_bytes = 2 << 20;
	raw_expect_error(&s.pair.raw, &req, &fd, 1, SHMD_STATUS_MEM_RANGE);
	req.queue_create_req.mem_kind = MSG_MEM_DMABUF;
	raw_expect_error(&s.pair.raw, &req, &fd, 1, SHMD_STATUS_MEM_KIND);
	req.queue_create_req.mem_kind = MSG_MEM_AGENT;
	raw_expect_error(&s.pair.raw, &req, NULL, 0, SHMD_STATUS_MEM_KIND);
	req.queue_create_req.mem_kind = MSG_MEM_PEERMEM;
	raw_expect_error(&s.pair.raw, &req, NULL, 0, SHMD_STATUS_MEM_KIND);
	close(fd);
	scene_deinit(&s);
}

static void refuse_spec(struct scene *s, void (*spoil)(struct msg_queue_specs *), enum shmd_status status)
{
	struct msg req;

	raw_fill_create(&req, 1);
	spoil(&req.queue_create_req.specs);
	raw_expect_error(&s->pair.raw, &req, NULL, 0, status);
}

static void no_queue(struct msg_queue_specs *specs)
{
	specs->n_cqs = specs->n_qps = 0;
}
static void too_many_qps(struct msg_queue_specs *specs)
{
	specs->qps[0].count = MSG_MAX_QPS + 1;
}
static void sum_of_counts_wraps(struct msg_queue_specs *specs)
{
	specs->n_qps = 2;
	specs->qps[1] = specs->qps[0];
	specs->qps[0].count = 0x80000000u;
	specs->qps[1].count = 0x80000001u;
}
static void cq_beyond_nic(struct msg_queue_specs *specs)
{
	specs->cqs[0].log2_entries = 17;
}
static void sq_beyond_nic(struct msg_queue_specs *specs)
{
	specs->qps[0].log2_sq_wqebbs = 13;
}
static void sq_absurd(struct msg_queue_specs *specs)
{
	specs->qps[0].log2_sq_wqebbs = 0xffffffff;
}
static void unknown_type(struct msg_queue_specs *specs)
{
	specs->qps[0].type = 77;
}
static void unknown_flags(struct msg_queue_specs *specs)
{
	specs->qps[0].flags = 0x80000000u;
}
static void foreign_cq(struct msg_queue_specs *specs)
{
	specs->qps[0].send_cqn = 0x1234;
}
static void cq_index_absent(struct msg_queue_specs *specs)
{
	specs->qps[0].send_cq_first = 1;
}

TEST(specs_outside_their_ranges)
{
	struct scene s;

	scene_init(&s, 1000);
	refuse_spec(&s, no_queue, SHMD_STATUS_INVALID);
	refuse_spec(&s, too_many_qps, SHMD_STATUS_LIMIT_REQUEST);
	refuse_spec(&s, sum_of_counts_wraps, SHMD_STATUS_LIMIT_REQUEST);
	refuse_spec(&s, cq_beyond_nic, SHMD_STATUS_INVALID);
	refuse_spec(&s, sq_beyond_nic, SHMD_STATUS_INVALID);
	refuse_spec(&s, sq_absurd, SHMD_STATUS_INVALID);
	refuse_spec(&s, unknown_type, SHMD_STATUS_INVALID);
	refuse_spec(&s, unknown_flags, SHMD_STATUS_INVALID);
	refuse_spec(&s, foreign_cq, SHMD_STATUS_NOT_FOUND);
	refuse_spec(&s, cq_index_absent, SHMD_STATUS_INVALID);
	scene_deinit(&s);
}

TEST(use_after_destroy)
{
	struct msg req, rep;
	struct scene s;
	uint32_t handle, qpn;

	scene_init(&s, 10);
	raw_create_queues(&s.pair.raw, 1, &rep);
	handle = rep.queue_create_rep.queues;
	qpn = rep.queue_create_rep.qps[0].qpn;
	msg_deinit(&rep);
	msg_init(&req, MSG_QUEUE_DESTROY_REQ, 0);
	req.queue_destroy_req.handle = handle;
	raw_expect(&s.pair.raw, &req, NULL, 0, MSG_OK_REP, &rep);
	raw_expect_error(&s.pair.raw, &req, NULL, 0, SHMD_STATUS_NOT_FOUND);
	msg_init(&req, MSG_QP_QUERY_REQ, 0);
	req.qp_query_req.qpn = qpn;
	raw_expect_error(&s.pair.raw, &req, NULL, 0, SHMD_STATUS_NOT_FOUND);
	msg_init(&req, MSG_QP_MODIFY_REQ, 0);
	req.qp_modify_req.qpn = qpn;
	raw_expect_error(&s.pair.raw, &req, NULL, 0, SHMD_STATUS_NOT_FOUND);
	ASSERT_EQ(s.lab.registry.nics[0].n_qps, 0);
	scene_deinit(&s);
}

TEST(quotas_of_queues_name_their_limit)
{
	struct msg req, rep;
	struct scene s;

	scene_init(&s, 10);
	raw_create_queues(&s.pair.raw, 8, &rep);
	msg_deinit(&rep);
	raw_fill_create(&req, 3);
	raw_expect(&s.pair.raw, &req, NULL, 0, MSG_ERROR_REP, &rep);
	ASSERT_EQ(rep.error_rep.status, SHMD_STATUS_QUOTA_QPS);
	ASSERT(strstr(rep.error_rep.text, "limit reached: max-qps is 10, "));
	ASSERT(strstr(rep.error_rep.text, "holds 8 and asked for 3 more"));
	raw_fill_create(&req, 0);
	req.queue_create_req.specs.cqs[0].count = 10;
	raw_expect_error(&s.pair.raw, &req, NULL, 0, SHMD_STATUS_QUOTA_CQS);
	ASSERT_EQ(s.lab.registry.refused_total, 2);
	scene_deinit(&s);
}

/* ---- connect ---------------------------------------------------------------------------------------------------- */

static void fill_connect(struct msg *req, struct msg_peer *peers, unsigned int n)
{
	msg_init(req, MSG_CONNECT_REQ, 0);
	req->connect_req.n_peers = n;
	req->connect_req.peers = peers;
}

static void fill_peer(struct msg_peer *peer, const struct msg *created, unsigned int from, unsigned int to)
{
	const struct msg_qp_info *qps = created->queue_create_rep.qps;

	peer->qpn = qps[from].qpn;
	peer->addr_bytes = qps[to].addr_bytes;
	memcpy(peer->addr, qps[to].addr, sizeof(peer->addr));
}

TEST(connect_stops_at_the_first_failure_and_tells)
{
	struct msg_peer peers[4];
	struct msg req, rep, created;
	struct scene s;

	scene_init(&s, 10);
	raw_create_queues(&s.pair.raw, 4, &created);
	for (unsigned int i = 0; i < 4; i++)
		fill_peer(&peers[i], &created, i, (i + 1) % 4);
	peers[2].qpn = 0x999;
	fill_connect(&req, peers, 4);
	raw_expect(&s.pair.raw, &req, NULL, 0, MSG_CONNECT_REP, &rep);
	ASSERT_EQ(rep.connect_rep.n_done, 2);
	ASSERT_EQ(rep.connect_rep.status, SHMD_STATUS_NOT_FOUND);
	ASSERT_STREQ(rep.connect_rep.text, "peer 2: this session has no QP 0x999 on NIC 0");

	fill_peer(&peers[2], &created, 2, 3);
	peers[3].addr_bytes = 3;
	fill_connect(&req, peers + 2, 2);
	raw_expect(&s.pair.raw, &req, NULL, 0, MSG_CONNECT_REP, &rep);
	ASSERT_EQ(rep.connect_rep.n_done, 1);
	ASSERT_EQ(rep.connect_rep.status, SHMD_STATUS_INVALID);

	fill_peer(&peers[3], &created, 3, 0);
	fill_connect(&req, peers, 1);
	raw_expect(&s.pair.raw, &req, NULL, 0, MSG_CONNECT_REP, &rep);
	ASSERT_EQ(rep.connect_rep.n_done, 0);
	ASSERT_EQ(rep.connect_rep.status, SHMD_STATUS_QP_STATE);
	fill_connect(&req, peers + 3, 1);
	raw_expect(&s.pair.raw, &req, NULL, 0, MSG_CONNECT_REP, &rep);
	ASSERT_EQ(rep.connect_rep.n_done, 1);
	ASSERT_EQ(rep.connect_rep.status, 0);

	msg_init(&req, MSG_QP_QUERY_REQ, 0);
	req.qp_query_req.qpn = created.queue_create_rep.qps[3].qpn;
	raw_expect(&s.pair.raw, &req, NULL, 0, MSG_QP_QUERY_REP, &rep);
	ASSERT_EQ(rep.qp_query_rep.state, NIC_QPS_RTS);
	ASSERT_EQ(rep.qp_query_rep.dest_qpn, created.queue_create_rep.qps[0].qpn);
	msg_deinit(&created);
	scene_deinit(&s);
}

TEST(qps_of_another_session_do_not_exist)
{
	struct msg req, rep, created;
	struct pair other;
	struct scene s;

	scene_init(&s, 20);
	raw_create_queues(&s.pair.raw, 1, &created);
	pair_init_hello(&other, &s.lab, MSG_ROLE_CLIENT);
	raw_open_nic(&other.raw, "fake0");
	msg_init(&req, MSG_QP_MODIFY_REQ, 0);
	req.qp_modify_req.qpn = created.queue_create_rep.qps[0].qpn;
	req.qp_modify_req.state = NIC_QPS_ERR;
	raw_expect_error(&other.raw, &req, NULL, 0, SHMD_STATUS_NOT_FOUND);
	raw_fill_create(&req, 1);
	req.queue_create_req.specs.qps[0].send_cqn = created.queue_create_rep.cqs[0].cqn;
	raw_expect_error(&other.raw, &req, NULL, 0, SHMD_STATUS_NOT_FOUND);
	raw_expect(&s.pair.raw, &req, NULL, 0, MSG_QUEUE_CREATE_REP, &rep);
	msg_deinit(&rep);
	msg_deinit(&created);
	pair_deinit(&other);
	scene_deinit(&s);
}

TEST(parameters_outside_their_ranges)
{
	static const struct msg_qp_params wrong[] = {
		{32, 7, 7, 0, 1, 0}, {0, 8, 7, 0, 1, 0}, {0, 0, 8, 0, 1, 0}, {0, 0, 0, 32, 1, 0},
		{0, 0, 0, 0, 17, 0}, {0, 0, 0, 0, 255, 0}, {0, 0, 0, 0, 1, 256}, {256, 0, 0, 0, 0, 0}};
	struct msg req;
	struct scene s;

	scene_init(&s, 10);
	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		fill_connect(&req, NULL, 0);
		req.connect_req.has_params = true;
		req.connect_req.params = wrong[i];
		raw_expect_error(&s.pair.raw, &req, NULL, 0, SHMD_STATUS_INVALID);
	}
	scene_deinit(&s);
}

TEST(parameters_that_a_client_leaves_out_are_the_daemons)
{
	const struct msg_qp_params own = {1, 2, 3, 4, 5, 6};
	struct msg req, rep, created;
	struct scene s;

	scene_init(&s, 10);
	s.lab.registry.attr.qp_params = (struct nic_qp_params){11, 5, 4, 9, 8, 0};
	for (unsigned int i = 0; i < 2; i++) {
		const struct nic_qp_params *params = &s.lab.nics[0].params;
		struct msg_peer peer;

		raw_create_queues(&s.pair.raw, 1, &created);
		fill_peer(&peer, &created, 0, 0);
		fill_connect(&req, &peer, 1);
		req.connect_req.has_params = i;
		req.connect_req.params = own;
		raw_expect(&s.pair.raw, &req, NULL, 0, MSG_CONNECT_REP, &rep);
		ASSERT_EQ(rep.connect_rep.status, SHMD_STATUS_OK);
		ASSERT_EQ(params->timeout, i ? 1 : 11);
		ASSERT_EQ(params->retry_count, i ? 2 : 5);
		ASSERT_EQ(params->rnr_retry, i ? 3 : 4);
		ASSERT_EQ(params->min_rnr_timer, i ? 4 : 9);
		ASSERT_EQ(params->max_rd_atomic, i ? 5 : 8);
		ASSERT_EQ(params->traffic_class, i ? 6 : 0);
		msg_deinit(&created);
	}
	scene_deinit(&s);
}

static void expect_params(const struct nic_qp_params *params, const struct nic_qp_params *want)
{
	ASSERT_EQ(params->timeout, want->timeout);
	ASSERT_EQ(params->retry_count, want->retry_count);
	ASSERT_EQ(params->rnr_retry, want->rnr_retry);
	ASSERT_EQ(params->min_rnr_timer, want->min_rnr_timer);
	ASSERT_EQ(params->max_rd_atomic, want->max_rd_atomic);
	ASSERT_EQ(params->traffic_class, want->traffic_class);
}

TEST(zero_in_a_parameter_is_the_daemons_setting_and_255_is_zero)
{
	static const struct {
		struct msg_qp_params asked;
		struct nic_qp_params taken;
	} rows[] = {
		{{0}, {11, 5, 4, 9, 8, 0}},
		{{.retry_count = 2}, {11, 2, 4, 9, 8, 0}},
		{{255, 255, 255, 255, 0, 0}, {0, 0, 0, 0, 8, 0}},
		{{31, 7, 7, 31, 16, 255}, {31, 7, 7, 31, 16, 255}},
	};
	struct msg req, rep, created;
	struct msg_peer peer;
	struct scene s;

	scene_init(&s, 10);
	s.lab.registry.attr.qp_params = (struct nic_qp_params){11, 5, 4, 9, 8, 0};
	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		raw_create_queues(&s.pair.raw, 1, &created);
		fill_peer(&peer, &created, 0, 0);
		fill_connect(&req, &peer, 1);
		req.connect_req.has_params = true;
		req.connect_req.params = rows[i].asked;
		raw_expect(&s.pair.raw, &req, NULL, 0, MSG_CONNECT_REP, &rep);
		ASSERT_EQ(rep.connect_rep.status, SHMD_STATUS_OK);
		expect_params(&s.lab.nics[0].params, &rows[i].taken);
		msg_deinit(&created);
	}
	scene_deinit(&s);
}

TEST(states_that_cannot_be_asked_for)
{
	struct msg req, rep, created;
	struct scene s;

	scene_init(&s, 10);
	raw_create_queues(&s.pair.raw, 1, &created);
	msg_init(&req, MSG_QP_MODIFY_REQ, 0);
	req.qp_modify_req.qpn = created.queue_create_rep.qps[0].qpn;
	for (uint32_t state = 0; state < 16; state++) {
		req.qp_modify_req.state = state;
		if (state == 0 || state == 1 || state == 3 || state == 6 || state == 7)
			raw_expect(&s.pair.raw, &req, NULL, 0, MSG_OK_REP, &rep);
		else
			raw_expect_error(&s.pair.raw, &req, NULL, 0, SHMD_STATUS_INVALID);
	}
	msg_deinit(&created);
	scene_deinit(&s);
}
