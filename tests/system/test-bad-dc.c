/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile requests for dynamic connections: numbers, types, addresses and limits that are not the client's. */
#include <stdlib.h>
#include <string.h>

#include "tests/lib/fixture-daemon.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"
#include "tests/system/raw-traffic.h"

#define RTR 2u
#define N_RANDOM 300

/* A session with a DCI, its first QP, and a DCT. */
struct owner {
	struct raw_client raw;
	uint32_t queues, cqn;
	struct msg_qp_info dci, dct;
};

static void fill_create(struct msg *req, uint32_t n_dcis, uint32_t n_dcts)
{
	struct msg_queue_specs *specs = &req->queue_create_req.specs;

	raw_fill_create(req, 0);
	if (n_dcis)
		specs->qps[specs->n_qps++] = (struct msg_qp_spec){.count = n_dcis, .type = 2, .log2_sq_wqebbs = 4};
	if (n_dcts)
		specs->qps[specs->n_qps++] = (struct msg_qp_spec){.count = n_dcts, .type = 3, .access = 0xe};
}

static void client_init(struct raw_client *raw, const struct fixture_daemon *daemon)
{
	raw_connect(raw, daemon->socket);
	raw_hello(raw, MSG_ROLE_CLIENT);
	raw_open_nic(raw, raw_traffic_nic(0));
}

static void owner_init(struct owner *o, const struct fixture_daemon *daemon)
{
	struct msg req, rep;

	client_init(&o->raw, daemon);
	fill_create(&req, 1, 1);
	raw_expect(&o->raw, &req, NULL, 0, MSG_QUEUE_CREATE_REP, &rep);
	o->queues = rep.queue_create_rep.queues;
	o->cqn = rep.queue_create_rep.cqs[0].cqn;
	o->dci = rep.queue_create_rep.qps[0];
	o->dct = rep.queue_create_rep.qps[1];
	msg_deinit(&rep);
}

static void query(struct owner *o, uint32_t qpn, struct msg_qp_query_rep *ret)
{
	struct msg req, rep;

	msg_init(&req, MSG_QP_QUERY_REQ, 0);
	req.qp_query_req.qpn = qpn;
	raw_expect(&o->raw, &req, NULL, 0, MSG_QP_QUERY_REP, &rep);
	*ret = rep.qp_query_rep;
}

/* As they were made. */
static void expect_untouched(struct owner *o)
{
	struct msg_qp_query_rep state;

	query(o, o->dci.qpn, &state);
	ASSERT_EQ(state.state, 0);
	ASSERT_EQ(state.first_error, 0);
	query(o, o->dct.qpn, &state);
	ASSERT_EQ(state.state, RTR);
	ASSERT_EQ(state.first_error, 0);
}

/* ---- numbers of another session ------------------------------------------------------------------------------------- */

static void try_number(struct raw_client *raw, uint32_t qpn, const struct msg_qp_info *to)
{
	static const uint32_t states[] = {0, 1, 3, 6, 7};
	struct msg_peer peer = {.qpn = qpn};
	struct msg req, rep;

	for (unsigned int i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		msg_init(&req, MSG_QP_MODIFY_REQ, 0);
		req.qp_modify_req = (struct msg_qp_modify_req){.qpn = qpn, .state = states[i]};
		raw_expect_error(raw, &req, NULL, 0, SHMD_STATUS_NOT_FOUND);
	}
	msg_init(&req, MSG_QP_QUERY_REQ, 0);
	req.qp_query_req.qpn = qpn;
	raw_expect_error(raw, &req, NULL, 0, SHMD_STATUS_NOT_FOUND);
	/* As one connects a DCI, and as one connects the others. */
	for (int with_address = 0; with_address < 2; with_address++) {
		peer.addr_bytes = with_address ? to->addr_bytes : 0;
		memcpy(peer.addr, to->addr, sizeof(peer.addr));
		msg_init(&req, MSG_CONNECT_REQ, 0);
		req.connect_req.n_peers = 1;
		req.connect_req.peers = &peer;
		raw_ask(raw, &req, NULL, 0, &rep);
		ASSERT(rep.kind == MSG_ERROR_REP ||
		       (rep.connect_rep.status != SHMD_STATUS_OK && !rep.connect_rep.n_done));
	}
}

TEST(dcis_and_dcts_of_another_session_are_no_numbers_of_ones_own)
{
	struct fixture_daemon daemon;
	struct owner victim, other;
	struct msg req;

	fixture_daemon_start(&daemon, NULL);
	owner_init(&victim, &daemon);
	owner_init(&other, &daemon);
	try_number(&other.raw, victim.dci.qpn, &other.dct);
	try_number(&other.raw, victim.dct.qpn, &other.dct);
	msg_init(&req, MSG_QUEUE_DESTROY_REQ, 0);
	req.queue_destroy_req.handle = victim.dct.qpn;
	raw_expect_error(&other.raw, &req, NULL, 0, SHMD_STATUS_NOT_FOUND);
	fill_create(&req, 1, 1);
	req.queue_create_req.specs.qps[0].send_cqn = victim.cqn;
	raw_expect_error(&other.raw, &req, NULL, 0, SHMD_STATUS_NOT_FOUND);
	fill_create(&req, 1, 1);
	req.queue_create_req.specs.qps[1].recv_cqn = victim.cqn;
	raw_expect_error(&other.raw, &req, NULL, 0, SHMD_STATUS_NOT_FOUND);
	expect_untouched(&victim);
	expect_untouched(&other);
	raw_close(&other.raw);
	raw_close(&victim.raw);
	fixture_daemon_stop(&daemon);
}

/* ---- queues that make no sense ---------------------------------------------------------------------------------------- */

TEST(dcis_and_dcts_that_make_no_sense_are_refused_and_nothing_is_made)
{
	static const struct msg_qp_spec specs[] = {
		{.count = 1, .type = 3, .log2_sq_wqebbs = 4},
		{.count = 1, .type = 3, .n_rq_wqes = 4, .log2_rq_stride = 4},
		{.count = 1, .type = 2, .log2_sq_wqebbs = 4, .n_rq_wqes = 4, .log2_rq_stride = 4},
		{.count = 1, .type = 2},
		{.count = 1, .type = 2, .log2_sq_wqebbs = 40},
		{.count = 1, .type = 0, .log2_sq_wqebbs = 4},
		{.count = 1, .type = 4, .log2_sq_wqebbs = 4},
		{.count = 1, .type = UINT32_MAX, .log2_sq_wqebbs = 4},
		{.count = 0, .type = 3},
		{.count = 1, .type = 3, .recv_cq_first = 1},
		{.count = 1, .type = 2, .log2_sq_wqebbs = 4, .send_cq_first = UINT32_MAX},
		{.count = 2, .type = 3, .recv_cq_step = UINT32_MAX},
		{.count = UINT32_MAX, .type = 3},
		{.count = UINT32_MAX, .type = 2, .log2_sq_wqebbs = 4},
		{.count = 1, .type = 3, .access = 0x10},
	};
	struct msg_status_rep status;
	struct fixture_daemon daemon;
	struct raw_client raw;
	struct msg req, rep;

	fixture_daemon_start(&daemon, NULL);
	client_init(&raw, &daemon);
	for (unsigned int i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		raw_fill_create(&req, 0);
		req.queue_create_req.specs.n_qps = 1;
		req.queue_create_req.specs.qps[0] = specs[i];
		raw_ask(&raw, &req, NULL, 0, &rep);
		if (rep.kind != MSG_ERROR_REP)
			test_fail(TEST_WHERE, "number %u was not refused", i);
		msg_deinit(&rep);
	}
	raw_status(&raw, &status);
	ASSERT_EQ(status.n_qps, 0);
	ASSERT_EQ(status.n_cqs, 0);
	ASSERT_EQ(status.registered_bytes, 0);
	raw_close(&raw);
	fixture_daemon_stop(&daemon);
}

TEST(dcis_and_dcts_are_bounded_as_qps_are)
{
	struct fixture_daemon daemon;
	struct raw_client raw;
	struct msg req, rep;
	uint32_t handle;

	fixture_daemon_start(&daemon, "--max-qps=4", NULL);
	client_init(&raw, &daemon);
	fill_create(&req, 2, 3);
	raw_expect_error(&raw, &req, NULL, 0, SHMD_STATUS_QUOTA_QPS);
	fill_create(&req, 1, 3);
	raw_expect(&raw, &req, NULL, 0, MSG_QUEUE_CREATE_REP, &rep);
	handle = rep.queue_create_rep.queues;
	msg_deinit(&rep);
	fill_create(&req, 0, 1);
	raw_expect(&raw, &req, NULL, 0, MSG_ERROR_REP, &rep);
	ASSERT_EQ(rep.error_rep.status, SHMD_STATUS_QUOTA_QPS);
	ASSERT(strstr(rep.error_rep.text, "limit reached: max-qps"));
	fill_create(&req, 1, 0);
	raw_expect_error(&raw, &req, NULL, 0, SHMD_STATUS_QUOTA_QPS);
	msg_init(&req, MSG_QUEUE_DESTROY_REQ, 0);
	req.queue_destroy_req.handle = handle;
	raw_expect(&raw, &req, NULL, 0, MSG_OK_REP, &rep);
	fill_create(&req, 2, 2);
	raw_expect(&raw, &req, NULL, 0, MSG_QUEUE_CREATE_REP, &rep);
	msg_deinit(&rep);
	raw_close(&raw);
	fixture_daemon_stop(&daemon);
}

/* Whatever a session asks of its own, each request is answered. */
TEST(any_state_of_ones_own_dcis_and_dcts_is_answered)
{
	struct fixture_daemon daemon;
	struct owner victim, o;
	struct msg req, rep;

	fixture_daemon_start(&daemon, NULL);
	owner_init(&victim, &daemon);
	owner_init(&o, &daemon);
	for (uint32_t i = 0; i < 40; i++) {
		msg_init(&req, MSG_QP_MODIFY_REQ, 0);
		req.qp_modify_req = (struct msg_qp_modify_req){.qpn = i % 2 ? o.dct.qpn : o.dci.qpn, .state = i * 7 % 20};
		raw_ask(&o.raw, &req, NULL, 0, &rep);
		ASSERT(rep.kind == MSG_OK_REP || rep.kind == MSG_ERROR_REP);
	}
	msg_init(&req, MSG_QUEUE_DESTROY_REQ, 0);
	req.queue_destroy_req.handle = o.queues;
	raw_expect(&o.raw, &req, NULL, 0, MSG_OK_REP, &rep);
	expect_untouched(&victim);
	raw_close(&o.raw);
	raw_close(&victim.raw);
	fixture_daemon_stop(&daemon);
}

/* ---- addresses ---------------------------------------------------------------------------------------------------------- */

/* Bytes of a real one changed, cut and lengthened. */
static void mutate(struct msg_peer_addr *addr, const struct msg_qp_info *from)
{
	unsigned int n = (unsigned int)random() % 6;

	memcpy(addr->addr, from->addr, sizeof(addr->addr));
	addr->addr_bytes = random() % 4 ? from->addr_bytes : (uint32_t)random() % (MSG_ADDR_BYTES + 1);
	while (n-- > 0)
		addr->addr[(unsigned int)random() % MSG_ADDR_BYTES] = (uint8_t)random();
}

static void resolve(struct owner *o, struct msg_peer_addr *addrs, unsigned int n, struct msg *rep)
{
	struct msg req;

	msg_init(&req, MSG_PEER_RESOLVE_REQ, 0);
	req.peer_resolve_req.n_addrs = n;
	req.peer_resolve_req.addrs = addrs;
	raw_expect(&o->raw, &req, NULL, 0, MSG_PEER_RESOLVE_REP, rep);
}

TEST(addresses_of_any_bytes_end_a_resolve_and_nothing_else)
{
	struct fixture_daemon daemon;
	struct msg_peer_addr addrs[3];
	struct owner victim, o;
	struct msg rep;

	srandom(5);
	fixture_daemon_start(&daemon, NULL);
	owner_init(&victim, &daemon);
	owner_init(&o, &daemon);
	for (unsigned int i = 0; i < N_RANDOM; i++) {
		for (unsigned int k = 0; k < 3; k++)
			mutate(&addrs[k], i % 2 ? &victim.dct : &victim.dci);
		resolve(&o, addrs, 3, &rep);
		ASSERT_LE(rep.peer_resolve_rep.n_entries, 3);
		ASSERT_EQ(rep.peer_resolve_rep.status == SHMD_STATUS_OK, rep.peer_resolve_rep.n_entries == 3);
		msg_deinit(&rep);
	}
	/* An address that is right is resolved as ever, one of a DCI never. */
	for (unsigned int k = 0; k < 2; k++) {
		const struct msg_qp_info *of = k ? &victim.dci : &victim.dct;

		addrs[k].addr_bytes = of->addr_bytes;
		memcpy(addrs[k].addr, of->addr, sizeof(addrs[k].addr));
	}
	resolve(&o, addrs, 2, &rep);
	ASSERT_EQ(rep.peer_resolve_rep.n_entries, 1);
	ASSERT_EQ(rep.peer_resolve_rep.status, SHMD_STATUS_INVALID);
	ASSERT_EQ(rep.peer_resolve_rep.entries[0].dctn, victim.dct.qpn);
	msg_deinit(&rep);
	expect_untouched(&victim);
	expect_untouched(&o);
	raw_close(&o.raw);
	raw_close(&victim.raw);
	fixture_daemon_stop(&daemon);
}
