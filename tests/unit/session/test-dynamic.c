/* SPDX-License-Identifier: Apache-2.0 */
/* DCIs and DCTs in sessions: created, connected, resolved, counted, listed; and what of it is refused. */
#include <string.h>

#include "tests/lib/test.h"
#include "tests/unit/session/lab.h"

struct scene {
	struct lab lab;
	struct pair pair;
	struct msg created; /* 2 DCIs, then a DCT, then an RC QP */
};

static void fill_create(struct msg *req)
{
	struct msg_queue_specs *specs = &req->queue_create_req.specs;

	raw_fill_create(req, 1);
	specs->qps[2] = specs->qps[0];
	specs->qps[0].type = NIC_QP_DCI;
	specs->qps[0].count = 2;
	specs->qps[1] = (struct msg_qp_spec){.count = 1, .type = NIC_QP_DCT, .access = NIC_ACCESS_REMOTE_WRITE};
	specs->n_qps = 3;
}

static void scene_init(struct scene *s)
{
	struct msg req;

	lab_init(&s->lab, 10);
	pair_init_hello(&s->pair, &s->lab, MSG_ROLE_CLIENT);
	raw_open_nic(&s->pair.raw, "fake0");
	fill_create(&req);
	raw_expect(&s->pair.raw, &req, NULL, 0, MSG_QUEUE_CREATE_REP, &s->created);
	ASSERT_EQ(s->created.queue_create_rep.n_qps, 4u);
}

static void scene_deinit(struct scene *s)
{
	msg_deinit(&s->created);
	ASSERT(!s->pair.session->ended);
	pair_deinit(&s->pair);
	lab_assert_empty(&s->lab);
	lab_deinit(&s->lab);
}

/* ---- resolve ---------------------------------------------------------------------------------------------------- */

static void fill_addr(struct msg_peer_addr *to, const struct nic_addr *addr)
{
	memset(to, 0, sizeof(*to));
	to->addr_bytes = (uint32_t)nic_addr_encode(addr, to->addr);
}

static struct nic_addr dct_addr(uint32_t i)
{
	return (struct nic_addr){.link = NIC_LINK_ETHERNET, .qp_type = NIC_QP_DCT, .mtu_log2 = 12, .qpn = 0x100 + i,
				 .gid = {0xfd, [15] = (uint8_t)i}, .dc_key = 0x1122334455667788u + i};
}

/* Sends it whole; the caller frees *rep. */
static void resolve(struct scene *s, struct msg_peer_addr *addrs, unsigned int n, struct msg *rep)
{
	struct msg req;

	msg_init(&req, MSG_PEER_RESOLVE_REQ, 0);
	req.peer_resolve_req.n_addrs = n;
	req.peer_resolve_req.addrs = addrs;
	req.peer_resolve_req.traffic_class = 0x68;
	raw_expect(&s->pair.raw, &req, NULL, 0, MSG_PEER_RESOLVE_REP, rep);
}

TEST(as_many_addresses_as_one_request_has_are_resolved)
{
	static struct msg_peer_addr addrs[MSG_MAX_PEERS];
	struct scene s;
	struct msg rep;

	scene_init(&s);
	for (unsigned int i = 0; i < MSG_MAX_PEERS; i++) {
		struct nic_addr addr = dct_addr(i);

		fill_addr(&addrs[i], &addr);
	}
	resolve(&s, addrs, MSG_MAX_PEERS, &rep);
	ASSERT_EQ(rep.peer_resolve_rep.status, 0u);
	ASSERT_EQ(rep.peer_resolve_rep.n_entries, (unsigned int)MSG_MAX_PEERS);
	for (unsigned int i = 0; i < MSG_MAX_PEERS; i++) {
		const struct msg_peer_entry *entry = &rep.peer_resolve_rep.entries[i];
		struct shmd_wqe_av_seg av;

		ASSERT_EQ(entry->dctn, 0x100 + i);
		ASSERT_EQ(entry->dc_key, 0x1122334455667788u + i);
		memcpy(&av, entry->av, sizeof(av));
		ASSERT_EQ(av.rgid[15], (uint8_t)i);
		ASSERT_EQ(av.tclass, 0x68);
	}
	msg_deinit(&rep);
	resolve(&s, addrs, 0, &rep);
	ASSERT_EQ(rep.peer_resolve_rep.n_entries, 0u);
	ASSERT_EQ(rep.peer_resolve_rep.status, 0u);
	msg_deinit(&rep);
	scene_deinit(&s);
}

/* The second of three is bad: the first is resolved, and the answer says why the second is not. */
static void stops(struct scene *s, const struct msg_peer_addr *bad, enum shmd_status status, const char *text)
{
	struct nic_addr good = dct_addr(1);
	struct msg_peer_addr addrs[3];
	struct msg rep;

	fill_addr(&addrs[0], &good);
	addrs[1] = *bad;
	addrs[2] = addrs[0];
	resolve(s, addrs, 3, &rep);
	ASSERT_EQ(rep.peer_resolve_rep.n_entries, 1u);
	ASSERT_EQ(rep.peer_resolve_rep.status, (uint32_t)status);
	ASSERT(strstr(rep.peer_resolve_rep.text, text));
	ASSERT_EQ(strncmp(rep.peer_resolve_rep.text, "address 1: ", 11), 0);
	msg_deinit(&rep);
}

TEST(hostile_addresses_end_a_resolve_and_nothing_else)
{
	struct nic_addr addr = dct_addr(1);
	struct msg_peer_addr bad;
	struct scene s;

	scene_init(&s);
	memset(&bad, 0, sizeof(bad));
	stops(&s, &bad, SHMD_STATUS_INVALID, "no endpoint address");
	fill_addr(&bad, &addr);
	for (uint32_t bytes = 1; bytes < bad.addr_bytes; bytes += 7) {
		struct msg_peer_addr cut = {.addr_bytes = bytes};

		memcpy(cut.addr, bad.addr, bytes);
		stops(&s, &cut, SHMD_STATUS_INVALID, "no endpoint address");
	}
	bad.addr[0] = 2; /* a version that does not exist */
	stops(&s, &bad, SHMD_STATUS_INVALID, "no endpoint address");
	addr.qp_type = NIC_QP_RC;
	fill_addr(&bad, &addr);
	stops(&s, &bad, SHMD_STATUS_INVALID, "no address of a DCT");
	addr.qp_type = NIC_QP_DCI;
	fill_addr(&bad, &addr);
	stops(&s, &bad, SHMD_STATUS_INVALID, "no address of a DCT");
	addr = dct_addr(1);
	addr.lid = 7; /* the fake NIC has no way there */
	fill_addr(&bad, &addr);
	stops(&s, &bad, SHMD_STATUS_UNREACHABLE, status_text(SHMD_STATUS_UNREACHABLE));
	scene_deinit(&s);
}

TEST(a_resolve_outside_of_its_ranges_is_refused)
{
	struct nic_addr addr = dct_addr(1);
	struct msg_peer_addr one;
	struct scene s;
	struct msg req;

	scene_init(&s);
	fill_addr(&one, &addr);
	msg_init(&req, MSG_PEER_RESOLVE_REQ, 0);
	req.peer_resolve_req.n_addrs = 1;
	req.peer_resolve_req.addrs = &one;
	req.peer_resolve_req.traffic_class = 256;
	raw_expect_error(&s.pair.raw, &req, NULL, 0, SHMD_STATUS_INVALID);
	req.peer_resolve_req.traffic_class = 0;
	req.peer_resolve_req.nic = 1;
	raw_expect_error(&s.pair.raw, &req, NULL, 0, SHMD_STATUS_NOT_FOUND);
	scene_deinit(&s);
}

/* ---- connect ------------------------------------------------------------------------------------------------------ */

static void try_connect(struct scene *s, unsigned int i, int addr_of, enum shmd_status status)
{
	const struct msg_qp_info *qps = s->created.queue_create_rep.qps;
	struct msg_peer peer = {.qpn = qps[i].qpn};
	struct msg req, rep;

	if (addr_of >= 0) {
		peer.addr_bytes = qps[addr_of].addr_bytes;
		memcpy(peer.addr, qps[addr_of].addr, sizeof(peer.addr));
	}
	msg_init(&req, MSG_CONNECT_REQ, 0);
	req.connect_req.n_peers = 1;
	req.connect_req.peers = &peer;
	raw_expect(&s->pair.raw, &req, NULL, 0, MSG_CONNECT_REP, &rep);
	ASSERT_EQ(rep.connect_rep.status, (uint32_t)status);
	ASSERT_EQ(rep.connect_rep.n_done, status == SHMD_STATUS_OK ? 1u : 0u);
}

TEST(each_type_of_qp_is_connected_in_its_own_way)
{
	struct scene s;

	scene_init(&s);
	try_connect(&s, 0, 3, SHMD_STATUS_INVALID); /* a DCI has no peer */
	try_connect(&s, 0, 2, SHMD_STATUS_INVALID);
	try_connect(&s, 0, -1, SHMD_STATUS_OK);
	try_connect(&s, 0, -1, SHMD_STATUS_QP_STATE);
	try_connect(&s, 2, -1, SHMD_STATUS_INVALID); /* a DCT is not connected */
	try_connect(&s, 2, 3, SHMD_STATUS_INVALID);
	try_connect(&s, 3, -1, SHMD_STATUS_INVALID); /* an RC QP has one, of its kind */
	try_connect(&s, 3, 0, SHMD_STATUS_INVALID);
	try_connect(&s, 3, 2, SHMD_STATUS_INVALID);
	try_connect(&s, 3, 3, SHMD_STATUS_OK);
	scene_deinit(&s);
}

/* ---- counts ------------------------------------------------------------------------------------------------------- */

static void expect_counts(struct scene *s, uint32_t n_qps, uint32_t n_dcis, uint32_t n_dcts)
{
	struct msg_status_rep status;
	struct msg req, rep;

	raw_status(&s->pair.raw, &status);
	ASSERT_EQ(status.n_qps, n_qps);
	ASSERT_EQ(status.n_dcis, n_dcis);
	ASSERT_EQ(status.n_dcts, n_dcts);
	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_SESSIONS;
	raw_expect(&s->pair.raw, &req, NULL, 0, MSG_LIST_REP, &rep);
	ASSERT_EQ(rep.list_rep.n_sessions, 1u);
	ASSERT_EQ(rep.list_rep.sessions[0].n_qps, n_qps);
	ASSERT_EQ(rep.list_rep.sessions[0].n_dcis, n_dcis);
	ASSERT_EQ(rep.list_rep.sessions[0].n_dcts, n_dcts);
	msg_deinit(&rep);
}

static void tell_peers(struct scene *s, uint32_t n_dc, uint32_t n_rc)
{
	struct msg req, rep;

	msg_init(&req, MSG_PEER_RESOLVE_REQ, 0);
	req.peer_resolve_req.n_dc_peers = n_dc;
	req.peer_resolve_req.n_rc_peers = n_rc;
	raw_expect(&s->pair.raw, &req, NULL, 0, MSG_PEER_RESOLVE_REP, &rep);
	ASSERT_EQ(rep.peer_resolve_rep.n_entries, 0u);
	msg_deinit(&rep);
	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_SESSIONS;
	raw_expect(&s->pair.raw, &req, NULL, 0, MSG_LIST_REP, &rep);
	ASSERT_EQ(rep.list_rep.sessions[0].n_dc_peers, n_dc);
	ASSERT_EQ(rep.list_rep.sessions[0].n_rc_peers, n_rc);
	msg_deinit(&rep);
}

TEST(peer_counts_of_a_client_stand_in_the_list_of_sessions)
{
	struct scene s;

	scene_init(&s);
	tell_peers(&s, 4092, 4);
	tell_peers(&s, 0, UINT32_MAX);
	tell_peers(&s, 0, 0);
	scene_deinit(&s);
}

TEST(dcis_and_dcts_count_as_qps_and_are_distinguished)
{
	struct msg req, rep;
	struct scene s;

	scene_init(&s);
	expect_counts(&s, 4, 2, 1);
	fill_create(&req);
	raw_expect(&s.pair.raw, &req, NULL, 0, MSG_QUEUE_CREATE_REP, &rep);
	expect_counts(&s, 8, 4, 2);
	raw_expect_error(&s.pair.raw, &req, NULL, 0, SHMD_STATUS_QUOTA_QPS);
	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_QPS;
	msg_deinit(&rep);
	raw_expect(&s.pair.raw, &req, NULL, 0, MSG_LIST_REP, &rep);
	ASSERT_EQ(rep.list_rep.n_qps, 8u);
	for (unsigned int i = 0; i < 8; i++)
		ASSERT_EQ(rep.list_rep.qps[i].type, i % 4 < 2 ? 2u : i % 4 == 2 ? 3u : 1u);
	msg_deinit(&rep);
	msg_init(&req, MSG_QUEUE_DESTROY_REQ, 0);
	req.queue_destroy_req.handle = s.created.queue_create_rep.queues;
	raw_expect(&s.pair.raw, &req, NULL, 0, MSG_OK_REP, &rep);
	expect_counts(&s, 4, 2, 1);
	scene_deinit(&s);
}
