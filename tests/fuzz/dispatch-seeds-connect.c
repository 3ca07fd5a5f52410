/* SPDX-License-Identifier: Apache-2.0 */
/* Seeds of fuzz-dispatch. Connecting QPs, one by one and in bulk, and addresses that DC resolves. */
#include <string.h>

#include "daemon/nic/nic.h"
#include "tests/fuzz/dispatch-seeds.h"

/* Numbers of the fake NIC: the first batch of one CQ and two QPs. */
#define QPN 2u

static void fill_peer(struct msg_peer *peer, uint32_t qpn)
{
	const struct nic_addr addr = {
		.link = NIC_LINK_ETHERNET, .qp_type = NIC_QP_RC, .mtu_log2 = 12, .qpn = qpn};

	*peer = (struct msg_peer){.qpn = qpn};
	peer->addr_bytes = (uint32_t)nic_addr_encode(&addr, peer->addr);
}

static void connect_as(struct msg_connect_req *req, unsigned int n_peers)
{
	struct msg_peer peers[2];
	struct msg msg;

	for (unsigned int i = 0; i < n_peers; i++)
		fill_peer(&peers[i], QPN + i);
	msg_init(&msg, MSG_CONNECT_REQ, 0);
	msg.connect_req = *req;
	msg.connect_req.n_peers = n_peers;
	msg.connect_req.peers = peers;
	seed_say(0, &msg, 0);
}

static void connecting(void)
{
	struct msg_connect_req req = {0};

	seed_begin();
	seed_create(0, 2, false);
	connect_as(&req, 0);
	connect_as(&req, 2);
	connect_as(&req, 2);
	seed_handle(0, MSG_COUNTERS_REQ, 0);
	seed_qp(0, MSG_QP_QUERY_REQ, 0);
	for (uint32_t state = 0; state < 8; state++)
		seed_qp(0, MSG_QP_MODIFY_REQ, state);
	seed_hello(1, MSG_ROLE_CLIENT);
	seed_qp(1, MSG_QP_QUERY_REQ, 0);
	seed_open_nic(1);
	seed_qp(1, MSG_QP_QUERY_REQ, 0);
	seed_qp(1, MSG_QP_MODIFY_REQ, 0);
}

static void connecting_badly(void)
{
	struct msg_connect_req req = {
		.has_params = true,
		.params = {.timeout = 31, .retry_count = 7, .rnr_retry = 7, .max_rd_atomic = 16, .traffic_class = 255}};
	struct msg_peer none = {.qpn = QPN};
	struct msg msg;

	seed_begin();
	connect_as(&req, 1);
	seed_create(0, 2, false);
	connect_as(&req, 1);
	req.params.max_rd_atomic = 0;
	connect_as(&req, 1);
	req.nic = 3;
	connect_as(&req, 1);
	msg_init(&msg, MSG_CONNECT_REQ, 0);
	msg.connect_req.n_peers = 1;
	msg.connect_req.peers = &none;
	seed_say(0, &msg, 0);
	seed_record(SEED_DEED(3), 0x10, NULL, 0);
	seed_qp(0, MSG_QP_MODIFY_REQ, 1);
	req = (struct msg_connect_req){0};
	seed_record(SEED_DEED(3), 0x20, NULL, 0);
	connect_as(&req, 2);
	seed_record(SEED_DEED(3), 0, NULL, 0);
	connect_as(&req, 2);
}

static void connect_qp(uint32_t qpn, const struct nic_addr *addr)
{
	struct msg_peer peer = {.qpn = qpn};
	struct msg msg;

	if (addr)
		peer.addr_bytes = (uint32_t)nic_addr_encode(addr, peer.addr);
	msg_init(&msg, MSG_CONNECT_REQ, 0);
	msg.connect_req.n_peers = 1;
	msg.connect_req.peers = &peer;
	seed_say(0, &msg, 0);
}

/* Three addresses: of a DCT, then `second`, then `bytes` of a DCT's. */
static void resolve_as(const struct msg_peer_resolve_req *req, const struct nic_addr *second, uint32_t bytes)
{
	const struct nic_addr dct = {.link = NIC_LINK_ETHERNET, .qp_type = NIC_QP_DCT, .mtu_log2 = 12, .qpn = QPN + 1};
	struct msg_peer_addr addrs[3];
	struct msg msg;

	memset(addrs, 0, sizeof(addrs));
	for (unsigned int i = 0; i < 3; i++)
		addrs[i].addr_bytes = (uint32_t)nic_addr_encode(i == 1 ? second : &dct, addrs[i].addr);
	addrs[2].addr_bytes = bytes;
	msg_init(&msg, MSG_PEER_RESOLVE_REQ, 0);
	msg.peer_resolve_req = *req;
	msg.peer_resolve_req.n_addrs = 3;
	msg.peer_resolve_req.addrs = addrs;
	seed_say(0, &msg, 0);
}

/* A DCI and a DCT: what of RC QPs they are refused, and addresses good and bad. */
static void dynamic(void)
{
	struct msg_queue_create_req create_req = {
		.specs = {.n_cqs = 1, .n_qps = 2, .cqs = {{.count = 1, .log2_entries = 6}},
			  .qps = {{.count = 1, .type = NIC_QP_DCI, .log2_sq_wqebbs = 4}, {.count = 1, .type = NIC_QP_DCT}}}};
	struct nic_addr addr = {.link = NIC_LINK_ETHERNET, .qp_type = NIC_QP_DCT, .mtu_log2 = 12, .qpn = QPN + 1};
	struct msg_peer_resolve_req req = {.traffic_class = 255};
	struct msg msg;

	seed_begin();
	resolve_as(&req, &addr, 44);
	seed_create_as(&create_req, 0);
	seed_list(0);
	connect_qp(QPN, &addr);
	connect_qp(QPN, NULL);
	connect_qp(QPN + 1, NULL);
	resolve_as(&req, &addr, 44);
	resolve_as(&req, &addr, 43);
	addr.qp_type = NIC_QP_RC;
	resolve_as(&req, &addr, 44);
	seed_create(0, 1, false);
	addr.qp_type = NIC_QP_DCI;
	connect_qp(QPN + 3, &addr);
	addr.qp_type = NIC_QP_DCT;
	addr.lid = 1;
	resolve_as(&req, &addr, 44);
	req.traffic_class = 256;
	resolve_as(&req, &addr, 44);
	req = (struct msg_peer_resolve_req){.nic = 1};
	resolve_as(&req, &addr, 44);
	msg_init(&msg, MSG_PEER_RESOLVE_REQ, 0);
	seed_say(0, &msg, 0);
	req.nic = 0;
	seed_record(SEED_DEED(3), 0, NULL, 0);
	resolve_as(&req, &addr, 44);
	seed_record(SEED_DEED(3), 0x20, NULL, 0);
	resolve_as(&req, &addr, 44);
	seed_handle(0, MSG_QUEUE_DESTROY_REQ, 1);
}

const struct dispatch_seed dispatch_connect_seeds[] = {
	{"connecting", connecting},
	{"connecting-badly", connecting_badly},
	{"dynamic", dynamic},
	{NULL, NULL},
};
