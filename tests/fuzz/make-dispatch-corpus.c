/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the seeds of fuzz-dispatch into a folder: whole sessions, good and bad, as records. Every request that the
 * codec knows is in them, so a new message has its seeds when this program has run again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/nic/nic.h"
#include "proto/codec-table.h"
#include "proto/codec.h"
#include "proto/framing.h"
#include "tests/lib/strange-fd.h"
#include "tests/unit/proto/sample.h"

/* Numbers of the fake NIC: the first batch of one CQ and two QPs. */
#define CQN 1u
#define QPN 2u

/* A cursor into a list of NICs: the page, as a cursor has it (handle-list.c). */
#define PAGE_CURSOR_SHIFT (20 + 12)

#define STRANGE(kind) (uint8_t)(0x40 | (kind))
#define DEED(n) (uint8_t)((n) << 1 | 0x80)

static uint8_t out[1 << 17];
static size_t n_out;
static uint64_t last_id;
static uint8_t reads = 0x80; /* the client takes replies at once */

static void record(uint8_t what, uint8_t fds, const void *data, size_t bytes)
{
	out[n_out++] = what;
	out[n_out++] = fds;
	out[n_out++] = (uint8_t)bytes;
	out[n_out++] = (uint8_t)(bytes >> 8);
	if (bytes)
		memcpy(out + n_out, data, bytes);
	n_out += bytes;
}

/* Kinds of descriptors as in fuzz-dispatch.c. */
static void say(unsigned int client, struct msg *msg, uint8_t fds)
{
	static uint8_t packet[FRAMING_MAX_PACKET_BYTES];
	int n;

	msg->id = ++last_id;
	msg->n_fds = fds & 0x40 ? 1u + (fds >> 5 & 1) : (unsigned int)!!(fds & 7) + !!(fds & 0x38);
	n = msg_encode(msg, packet, sizeof(packet));
	if (n < 0)
		abort();
	record((uint8_t)(0x08 | reads | client), fds, packet, (size_t)n);
}

static void hello(unsigned int client, enum msg_role role)
{
	struct msg msg;

	msg_init(&msg, MSG_HELLO_REQ, 0);
	msg.hello_req.version_min = msg.hello_req.version_max = 1;
	msg.hello_req.role = role;
	say(client, &msg, 0);
}

static void open_named(unsigned int client, const char *nic, const char *gpu, uint32_t doorbell)
{
	struct msg msg;

	msg_init(&msg, MSG_NIC_OPEN_REQ, 0);
	msg.nic_open_req.doorbell = doorbell;
	snprintf(msg.nic_open_req.nic, sizeof(msg.nic_open_req.nic), "%s", nic);
	snprintf(msg.nic_open_req.gpu, sizeof(msg.nic_open_req.gpu), "%s", gpu);
	say(client, &msg, 0);
}

static void open_nic(unsigned int client)
{
	open_named(client, "", "", 0);
}

static void begin(void)
{
	hello(0, MSG_ROLE_CLIENT);
	open_nic(0);
}

static void reg_as(const struct msg_mem_reg_req *req, uint8_t fd)
{
	struct msg msg;

	msg_init(&msg, MSG_MEM_REG_REQ, 0);
	msg.mem_reg_req = *req;
	say(0, &msg, fd);
}

static void reg(unsigned int client, uint8_t fd)
{
	struct msg msg;

	msg_init(&msg, MSG_MEM_REG_REQ, 0);
	msg.mem_reg_req = (struct msg_mem_reg_req){
		.kind = MSG_MEM_MEMFD, .access = 0xf, .length_bytes = 1 << 16, .iova = 0x10000};
	say(client, &msg, fd);
}

static void create(unsigned int client, uint32_t n_qps, bool own_memory)
{
	struct msg msg;
	struct msg_queue_specs *specs = &msg.queue_create_req.specs;

	msg_init(&msg, MSG_QUEUE_CREATE_REQ, 0);
	specs->n_cqs = specs->n_qps = 1;
	specs->cqs[0] = (struct msg_cq_spec){.count = 1, .log2_entries = 6};
	specs->qps[0] = (struct msg_qp_spec){.count = n_qps, .type = 1, .log2_sq_wqebbs = 4};
	if (own_memory) {
		msg.queue_create_req.mem_kind = MSG_MEM_MEMFD;
		msg.queue_create_req.mem_bytes = 1 << 20;
	}
	say(client, &msg, own_memory ? 1 : 0);
}

static void handle(unsigned int client, enum msg_kind kind, uint32_t number)
{
	struct msg msg;

	msg_init(&msg, kind, 0);
	msg.mem_dereg_req.handle = number;
	say(client, &msg, 0);
}

static void world(unsigned int client, enum msg_kind kind, uint8_t fd)
{
	struct msg msg;

	msg_init(&msg, kind, 0);
	memset(msg.fetch_req.world, 7, MSG_WORLD_BYTES);
	if (kind == MSG_PUBLISH_REQ) {
		memset(msg.publish_req.key.world, 7, MSG_WORLD_BYTES);
		msg.publish_req.has_fd = fd != 0;
		msg.publish_req.data_bytes = 4;
	}
	say(client, &msg, fd);
}

static void qp(unsigned int client, enum msg_kind kind, uint32_t state)
{
	struct msg msg;

	msg_init(&msg, kind, 0);
	msg.qp_modify_req.qpn = 2;
	if (kind == MSG_QP_MODIFY_REQ)
		msg.qp_modify_req.state = state;
	say(client, &msg, 0);
}

static void list(unsigned int client)
{
	struct msg msg;

	for (unsigned int what = MSG_LIST_SESSIONS; what <= MSG_LIST_NICS; what++) {
		msg_init(&msg, MSG_LIST_REQ, 0);
		msg.list_req.what = what;
		say(client, &msg, 0);
	}
	msg_init(&msg, MSG_STATUS_REQ, 0);
	say(client, &msg, 0);
}

static void create_as(const struct msg_queue_create_req *req, uint8_t fd)
{
	struct msg msg;

	msg_init(&msg, MSG_QUEUE_CREATE_REQ, 0);
	msg.queue_create_req = *req;
	say(0, &msg, fd);
}

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
	say(0, &msg, 0);
}

/* A sample of one kind of request, with and without descriptors, in the middle of a life. */
static void request(enum msg_kind kind, enum msg_role role)
{
	struct msg msg;

	begin();
	reg(0, 1);
	create(0, 2, false);
	hello(1, role);
	for (unsigned int i = 0; i < 4; i++) {
		sample_init(&msg, kind, 0, i == 0 ? SAMPLE_MIN : SAMPLE_RANDOM, i);
		say(1, &msg, i == 2 ? 1 : 0);
		msg_deinit(&msg);
		if (i == 2)
			record(DEED(2) | 1, 0, NULL, 0);
		if (i == 2)
			hello(1, role);
	}
}

static void connecting(void)
{
	struct msg_connect_req req = {0};

	begin();
	create(0, 2, false);
	connect_as(&req, 0);
	connect_as(&req, 2);
	connect_as(&req, 2);
	handle(0, MSG_COUNTERS_REQ, 0);
	qp(0, MSG_QP_QUERY_REQ, 0);
	for (uint32_t state = 0; state < 8; state++)
		qp(0, MSG_QP_MODIFY_REQ, state);
	hello(1, MSG_ROLE_CLIENT);
	qp(1, MSG_QP_QUERY_REQ, 0);
	open_nic(1);
	qp(1, MSG_QP_QUERY_REQ, 0);
	qp(1, MSG_QP_MODIFY_REQ, 0);
}

static void connecting_badly(void)
{
	struct msg_connect_req req = {
		.has_params = true,
		.params = {.timeout = 31, .retry_count = 7, .rnr_retry = 7, .max_rd_atomic = 16, .traffic_class = 255}};
	struct msg_peer none = {.qpn = QPN};
	struct msg msg;

	begin();
	connect_as(&req, 1);
	create(0, 2, false);
	connect_as(&req, 1);
	req.params.max_rd_atomic = 0;
	connect_as(&req, 1);
	req.nic = 3;
	connect_as(&req, 1);
	msg_init(&msg, MSG_CONNECT_REQ, 0);
	msg.connect_req.n_peers = 1;
	msg.connect_req.peers = &none;
	say(0, &msg, 0);
	record(DEED(3), 0x10, NULL, 0);
	qp(0, MSG_QP_MODIFY_REQ, 1);
	req = (struct msg_connect_req){0};
	record(DEED(3), 0x20, NULL, 0);
	connect_as(&req, 2);
	record(DEED(3), 0, NULL, 0);
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
	say(0, &msg, 0);
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
	say(0, &msg, 0);
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

	begin();
	resolve_as(&req, &addr, 44);
	create_as(&create_req, 0);
	list(0);
	connect_qp(QPN, &addr);
	connect_qp(QPN, NULL);
	connect_qp(QPN + 1, NULL);
	resolve_as(&req, &addr, 44);
	resolve_as(&req, &addr, 43);
	addr.qp_type = NIC_QP_RC;
	resolve_as(&req, &addr, 44);
	create(0, 1, false);
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
	say(0, &msg, 0);
	req.nic = 0;
	record(DEED(3), 0, NULL, 0);
	resolve_as(&req, &addr, 44);
	record(DEED(3), 0x20, NULL, 0);
	resolve_as(&req, &addr, 44);
	handle(0, MSG_QUEUE_DESTROY_REQ, 1);
}

static void memory(void)
{
	struct msg_mem_reg_req req = {.kind = MSG_MEM_MEMFD, .access = 0xf, .length_bytes = 4096};

	hello(0, MSG_ROLE_CLIENT);
	open_named(0, "fake1", "", 2);
	for (uint8_t kind = 0; kind < STRANGE_FD_N; kind++) {
		reg_as(&req, STRANGE(kind));
		handle(0, MSG_MEM_DEREG_REQ, 1);
	}
	req.kind = MSG_MEM_DMABUF;
	reg_as(&req, 1);
	reg_as(&req, STRANGE(STRANGE_PATH));
	req.kind = MSG_MEM_AGENT;
	reg_as(&req, 0);
	req = (struct msg_mem_reg_req){.kind = MSG_MEM_PEERMEM, .length_bytes = 4096, .reason = "no dmabuf"};
	reg_as(&req, 0);
	req.kernel_handle = UINT32_MAX;
	reg_as(&req, 0);
	list(0);
}

static void memory_not_taken(void)
{
	struct msg_mem_reg_req req = {.kind = MSG_MEM_DMABUF, .access = 0xf, .length_bytes = 4096};

	hello(0, MSG_ROLE_CLIENT);
	open_named(0, "fake0", "", 0);
	reg_as(&req, 1);
	req.fd = 1;
	reg_as(&req, 1);
	hello(0, MSG_ROLE_CLIENT);
}

static void memory_out_of_range(void)
{
	const struct msg_mem_reg_req good = {.kind = MSG_MEM_MEMFD, .access = 4, .length_bytes = 4096};
	struct msg_mem_reg_req bad[] = {good, good, good, good, good, good, good, good};

	begin();
	bad[0].length_bytes = 0;
	bad[1].length_bytes = UINT64_MAX;
	bad[2].offset = UINT64_MAX - 4095, bad[2].iova = 0;
	bad[3].iova = UINT64_MAX - 4095, bad[3].length_bytes = 4097;
	bad[4].iova = 1;
	bad[5].access = 16;
	bad[6].kind = MSG_MEM_UNSET;
	bad[7].nic = 1;
	for (unsigned int i = 0; i < 8; i++)
		reg_as(&bad[i], STRANGE(i == 1 ? STRANGE_HUGE : STRANGE_SEALED));
	handle(0, MSG_MEM_DEREG_REQ, 77);
	record(DEED(3), 0x18, NULL, 0);
	reg_as(&good, 1);
	for (unsigned int i = 0; i < 7; i++)
		reg_as(&good, STRANGE(STRANGE_READ_ONLY));
}

static void queues(void)
{
	const struct msg_cq_spec cq = {.count = 1, .log2_entries = 6};
	const struct msg_qp_spec qp_spec = {
		.count = 1, .type = 1, .log2_sq_wqebbs = 4, .n_rq_wqes = 4, .log2_rq_stride = 6};
	struct msg_queue_create_req req = {.specs = {.n_cqs = 1, .n_qps = 1, .cqs = {cq}, .qps = {qp_spec}}};
	struct msg msg;

	begin();
	msg_init(&msg, MSG_QUEUE_LAYOUT_REQ, 0);
	msg.queue_layout_req = req.specs;
	say(0, &msg, 0);
	msg.queue_layout_req.cqs[0].count = UINT32_MAX;
	say(0, &msg, 0);
	msg.queue_layout_req = (struct msg_queue_specs){0};
	say(0, &msg, 0);
	create_as(&req, 0);
	req.specs.n_cqs = 0;
	req.specs.qps[0].send_cqn = req.specs.qps[0].recv_cqn = CQN;
	create_as(&req, 0);
	handle(0, MSG_QUEUE_DESTROY_REQ, 1);
	req.specs.qps[0].send_cqn = 99;
	create_as(&req, 0);
	req.specs.qps[0] = qp_spec;
	req.specs.qps[0].log2_sq_wqebbs = 13;
	create_as(&req, 0);
	req.specs.n_cqs = 1;
	req.specs.cqs[0].log2_entries = 17;
	create_as(&req, 0);
	req.specs.cqs[0].log2_entries = 99;
	create_as(&req, 0);
	handle(0, MSG_QUEUE_DESTROY_REQ, 99);
}

static void queues_in_own_memory(void)
{
	struct msg_queue_create_req req = {
		.specs = {.n_cqs = 1, .cqs = {{.count = 1, .log2_entries = 6}}},
		.mem_kind = MSG_MEM_MEMFD,
		.mem_bytes = 1 << 16};

	begin();
	for (uint8_t kind = 0; kind < STRANGE_FD_N; kind++)
		create_as(&req, STRANGE(kind));
	req.mem_offset = 1;
	create_as(&req, 1);
	req.mem_offset = 0;
	req.mem_bytes = 4096;
	create_as(&req, 1);
	req.nic = 1;
	create_as(&req, 1);
	req.nic = 0;
	req.mem_kind = MSG_MEM_DMABUF;
	create_as(&req, 1);
	req.mem_kind = MSG_MEM_AGENT;
	create_as(&req, 0);
	record(DEED(3), 0x18, NULL, 0);
	req.mem_kind = MSG_MEM_UNSET;
	create_as(&req, 0);
}

static void nics(void)
{
	struct msg msg;

	hello(0, MSG_ROLE_CLIENT);
	open_named(0, "none", "", 0);
	open_named(0, "", "0000:3b:00.0", 0);
	open_named(0, "", "0000:3b:00.0", 0);
	open_named(0, "", "GPU-01234567-89ab-cdef-0123-456789abcdef", 0);
	open_named(0, "", "neither", 0);
	open_named(0, "fake0", "", 0);
	open_named(0, "fake1", "", 3);
	hello(1, MSG_ROLE_CLIENT);
	open_named(1, "fake1", "", 2);
	open_named(1, "fake1", "", 1);
	msg_init(&msg, MSG_NIC_LIST_REQ, 0);
	say(1, &msg, 0);
}

static void to_cpu(unsigned int client, uint32_t nic, uint32_t doorbell, const char *reason)
{
	struct msg msg;

	msg_init(&msg, MSG_NIC_DOORBELL_REQ, 0);
	msg.nic_doorbell_req.nic = nic;
	msg.nic_doorbell_req.doorbell = doorbell;
	snprintf(msg.nic_doorbell_req.reason, sizeof(msg.nic_doorbell_req.reason), "%s", reason);
	say(client, &msg, 0);
}

/* The first NIC of a session is its number 0; "fake1" has a page of its own to give. */
static void doorbells(void)
{
	begin();
	open_named(0, "fake1", "", 0);
	to_cpu(0, 0, 1, "the first NIC has no other mode");
	to_cpu(0, 1, 2, "back again");
	to_cpu(0, 1, 1, "");
	to_cpu(0, 2, 1, "no such NIC");
	create(0, 1, false);
	to_cpu(0, 1, 1, "cannot map it\nnor say why");
	to_cpu(0, 1, 1, "again");
	hello(1, MSG_ROLE_CONTROL);
	to_cpu(1, 0, 1, "not for administrators");
	list(1);
}

static void undriven(void)
{
	struct msg msg;

	hello(0, MSG_ROLE_CLIENT);
	open_named(0, "rxe0", "", 0);
	open_named(0, "", "", 3);
	hello(1, MSG_ROLE_CONTROL);
	for (uint64_t page = 0; page < 4; page++) {
		msg_init(&msg, MSG_LIST_REQ, 0);
		msg.list_req.what = MSG_LIST_NICS;
		msg.list_req.cursor = page << PAGE_CURSOR_SHIFT;
		say(1, &msg, 0);
	}
}

/* Each kind of refusal that Hello knows. */
static void hellos(void)
{
	struct msg msg;

	msg_init(&msg, MSG_HELLO_REQ, 0);
	msg.hello_req.version_min = msg.hello_req.version_max = 9;
	msg.hello_req.role = MSG_ROLE_CLIENT;
	say(0, &msg, 0);
	record(DEED(2), 0, NULL, 0);
	msg.hello_req.version_min = 0;
	say(0, &msg, 1);
	record(DEED(2), 0, NULL, 0);
	for (unsigned int i = 0; i < 8; i++) {
		say(0, &msg, 0);
		open_nic(0);
		record(DEED(2), 0, NULL, 0);
	}
	last_id = UINT64_MAX; /* the next one is 0 */
	hello(1, MSG_ROLE_CONTROL);
}

/* Sessions that have a pipe to watch, until it would be a descriptor too many. */
static void watched(void)
{
	struct msg msg;

	msg_init(&msg, MSG_HELLO_REQ, 0);
	msg.hello_req.version_min = msg.hello_req.version_max = 1;
	msg.hello_req.resumes = true;
	for (unsigned int role = MSG_ROLE_CONTROL; role >= MSG_ROLE_CLIENT; role--) {
		msg.hello_req.role = role;
		for (unsigned int client = 0; client < 2; client++) {
			record((uint8_t)(DEED(2) | client), 0, NULL, 0);
			say(client, &msg, 0);
			open_nic(client);
		}
	}
	create(0, 2, false);
	reg(0, 1);
	record(DEED(2), 0, NULL, 0);
	say(0, &msg, 0);
}

static void lists(void)
{
	struct msg msg;

	begin();
	open_named(0, "fake1", "", 0);
	reg(0, 1);
	create(0, 2, false);
	create(0, 2, false);
	hello(1, MSG_ROLE_CONTROL);
	for (unsigned int what = MSG_LIST_SESSIONS; what <= MSG_LIST_NICS; what++) {
		msg_init(&msg, MSG_LIST_REQ, 0);
		msg.list_req.what = what;
		msg.list_req.cursor = 1;
		say(1, &msg, 0);
	}
	list(1);
	record(DEED(3), 0, NULL, 0);
	list(1);
	begin();
}

static void a_trick(uint8_t what)
{
	begin();
	record(DEED(7), what, "\x08\x05\x92\x03\x00", 5);
	open_named(0, "fake1", "", 0);
	record(DEED(7) | 1, what, "\x08\x05\x92\x03\x00", 5);
}

static void cut_memory(void)
{
	static uint8_t packet[FRAMING_MAX_PACKET_BYTES];
	struct msg msg;
	int n;

	begin();
	msg_init(&msg, MSG_MEM_REG_REQ, 99);
	msg.mem_reg_req = (struct msg_mem_reg_req){.kind = MSG_MEM_MEMFD, .access = 0xf, .length_bytes = 1 << 16};
	msg.n_fds = 1;
	n = msg_encode(&msg, packet, sizeof(packet));
	if (n < 0)
		abort();
	for (uint8_t kind = STRANGE_SEALED; kind <= STRANGE_FILE; kind++)
		record(DEED(7), (uint8_t)(kind << 3 | 6), packet, (size_t)n);
}

static void life(void)
{
	hello(0, MSG_ROLE_CLIENT);
	open_nic(0);
	reg(0, 1);
	create(0, 2, false);
	create(0, 1, true);
	qp(0, MSG_QP_QUERY_REQ, 0);
	qp(0, MSG_QP_MODIFY_REQ, 1);
	hello(1, MSG_ROLE_CONTROL);
	list(1);
	handle(0, MSG_QUEUE_DESTROY_REQ, 2);
	handle(0, MSG_MEM_DEREG_REQ, 1);
}

static void publishing(void)
{
	hello(0, MSG_ROLE_CLIENT);
	hello(1, MSG_ROLE_CLIENT);
	world(0, MSG_PUBLISH_REQ, 1);
	world(1, MSG_PUBLISH_REQ, 0);
	world(1, MSG_FETCH_REQ, 0);
	world(1, MSG_UNPUBLISH_REQ, 0);
	world(0, MSG_UNPUBLISH_REQ, 0);
}

static void reporting(void)
{
	struct msg msg;

	hello(0, MSG_ROLE_CLIENT);
	for (unsigned int i = 0; i < 6; i++) {
		msg_init(&msg, MSG_PE_REPORT_REQ, 0);
		msg.pe_report_req = (struct msg_pe_report_req){.pe = i % 3, .ends = i == 4, .n_pes = 2};
		say(0, &msg, 0);
	}
}
/* A client that publishes its own socket. */
static void own_socket(void)
{
	hello(0, MSG_ROLE_CLIENT);
	world(0, MSG_PUBLISH_REQ, 7);
	world(0, MSG_FETCH_REQ, 0);
}

static void bad_descriptors(void)
{
	hello(0, MSG_ROLE_CLIENT);
	open_nic(0);
	for (uint8_t fd = 0; fd < 8; fd++)
		reg(0, fd);
	reg(0, 0x09);
	record(0x04, 0, NULL, 0);
	record(0x88, 0x80, "\x08\x05", 2);
}

static void failing_nic(void)
{
	hello(0, MSG_ROLE_CLIENT);
	for (uint8_t i = 0; i < 3; i++) {
		record(0x06, i, NULL, 0);
		open_nic(0);
		reg(0, 1);
		create(0, 2, false);
	}
}

static void events(void)
{
	hello(0, MSG_ROLE_CLIENT);
	open_nic(0);
	create(0, 1, false);
	for (uint8_t kind = 0; kind < 8; kind += 2)
		record(0x02, kind, "\x02\0\0\0", 4);
	record(0x00, 0, NULL, 0);
}

static void dump(unsigned int client, enum msg_queue_part part, uint32_t first, uint32_t n)
{
	struct msg msg;

	msg_init(&msg, MSG_QUEUE_DUMP_REQ, 0);
	msg.queue_dump_req = (struct msg_queue_dump_req){
		.nic = "fake0", .qpn = 2, .part = part, .first = first, .n = n};
	say(client, &msg, 0);
}

static void plain(unsigned int client, enum msg_kind kind)
{
	struct msg msg;

	msg_init(&msg, kind, 0);
	say(client, &msg, 0);
}

static void drain(unsigned int client, bool on)
{
	struct msg msg;

	msg_init(&msg, MSG_DRAIN_REQ, 0);
	msg.drain_req.on = on;
	say(client, &msg, 0);
}

static void port(unsigned int client, uint32_t state)
{
	struct msg msg;

	msg_init(&msg, MSG_PORT_SET_REQ, 0);
	snprintf(msg.port_set_req.nic, sizeof(msg.port_set_req.nic), "fake0");
	msg.port_set_req.state = state;
	say(client, &msg, 0);
}

static void kill_session(unsigned int client, uint64_t session)
{
	struct msg msg;

	msg_init(&msg, MSG_SESSION_KILL_REQ, 0);
	msg.session_kill_req.session = session;
	say(client, &msg, 0);
}

/* A monitor, and all that an administrator may do to the other. */
static void administration(void)
{
	hello(0, MSG_ROLE_CLIENT);
	hello(1, MSG_ROLE_CONTROL);
	plain(1, MSG_MONITOR_REQ);
	open_nic(0);
	create(0, 2, false);
	for (unsigned int part = MSG_PART_NONE; part <= MSG_PART_RECV_CQ; part++)
		dump(1, part, 13, 0x1000);
	record(0x02, 0, "\x02\0\0\0", 4);
	port(1, 1);
	port(1, 7);
	drain(1, true);
	drain(1, false);
	kill_session(1, 9);
	kill_session(1, 1);
	dump(1, MSG_PART_SQ, 0, 1);
	record(0x04, 0, NULL, 0); /* the victim comes again */
	drain(1, true);
	hello(0, MSG_ROLE_CLIENT);
	drain(1, false);
	hello(0, MSG_ROLE_CLIENT);
	kill_session(0, 1);
}

/* A monitor that reads nothing while more happens than fits. */
static void slow_monitor(void)
{
	hello(1, MSG_ROLE_CONTROL);
	plain(1, MSG_MONITOR_REQ);
	reads = 0;
	hello(0, MSG_ROLE_CLIENT);
	open_nic(0);
	for (unsigned int i = 0; i < 24; i++)
		record(0x02, 0x80, "\x02\0\0\0", 4);
	record(0x01, 0, NULL, 0);
	plain(1, MSG_STATUS_REQ);
	record(0x01, 0, NULL, 0);
}

static void early(void)
{
	open_nic(0);
	hello(0, MSG_ROLE_CLIENT);
	hello(1, MSG_ROLE_CLIENT);
	hello(1, MSG_ROLE_CLIENT);
}

static void never_reads(void)
{
	reads = 0;
	hello(0, MSG_ROLE_CLIENT);
	for (unsigned int i = 0; i < 12; i++) {
		struct msg msg;

		msg_init(&msg, MSG_NIC_LIST_REQ, 0);
		say(0, &msg, 0);
	}
}

static const struct {
	const char *name;
	void (*write)(void);
} seeds[] = {
	{"life", life},
	{"publishing", publishing},
	{"reporting", reporting},
	{"own-socket", own_socket},
	{"bad-descriptors", bad_descriptors},
	{"failing-nic", failing_nic},
	{"events", events},
	{"administration", administration},
	{"slow-monitor", slow_monitor},
	{"early", early},
	{"never-reads", never_reads},
	{"connecting", connecting},
	{"connecting-badly", connecting_badly},
	{"dynamic", dynamic},
	{"memory", memory},
	{"memory-not-taken", memory_not_taken},
	{"memory-out-of-range", memory_out_of_range},
	{"queues", queues},
	{"queues-in-own-memory", queues_in_own_memory},
	{"nics", nics},
	{"doorbells", doorbells},
	{"undriven", undriven},
	{"hellos", hellos},
	{"watched", watched},
	{"lists", lists},
	{"cut-memory", cut_memory},
};

static int write_seed(const char *folder, const char *name)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "we");
	if (f && fwrite(out, 1, n_out, f) == n_out && fclose(f) == 0)
		return 0;
	fprintf(stderr, "%s: %m\n", path);
	return -1;
}

static void start(void)
{
	n_out = 0;
	reads = 0x80;
	last_id = 0;
}

static int write_requests(const char *folder)
{
	static const char *const roles[] = {[MSG_ROLE_CLIENT] = "client", [MSG_ROLE_CONTROL] = "control"};
	char name[128];
	int r = 0;

	sample_for_each_kind (kind) {
		if (!strstr(msg_kind_name(kind), "-req"))
			continue;
		for (unsigned int role = MSG_ROLE_CLIENT; role <= MSG_ROLE_CONTROL && r == 0; role++) {
			start();
			request(kind, role);
			snprintf(name, sizeof(name), "request-%s-of-a-%s", msg_kind_name(kind), roles[role]);
			r = write_seed(folder, name);
		}
	}
	return r;
}

static int write_tricks(const char *folder)
{
	static const uint8_t tricks[] = {0, 1, 2, 10, 3, 4, 0x84, 0xcc, 5, 6, 7};
	char name[64];
	int r = 0;

	for (unsigned int i = 0; i < sizeof(tricks) && r == 0; i++) {
		start();
		a_trick(tricks[i]);
		snprintf(name, sizeof(name), "trick-%u", tricks[i]);
		r = write_seed(folder, name);
	}
	return r;
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
		return 2;
	}
	for (unsigned int i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
		start();
		seeds[i].write();
		if (write_seed(argv[1], seeds[i].name) < 0)
			return EXIT_FAILURE;
	}
	return write_requests(argv[1]) < 0 || write_tricks(argv[1]) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
