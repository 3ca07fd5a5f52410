/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/raw-traffic.h"

#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <shmd/abi/cqe.h>
#include <shmd/abi/doorbell.h>
#include <shmd/abi/wqe.h>

#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "proto/framing.h"
#include "tests/lib/test.h"

#define POLL_LIMIT_NSEC (10 * NSEC_PER_SEC)
#define POLL_FIRST_PAUSE_NSEC 20000
#define POLL_LAST_PAUSE_NSEC 640000

const char *raw_traffic_nic(unsigned int index)
{
	const char *backend = getenv("SHMEMD_TEST_BACKEND");
	static char name[32];

	snprintf(name, sizeof(name), backend && strcmp(backend, "mlx5") == 0 ? "mlx5_%u" : "soft%u", index);
	return name;
}

static void *map(int fd, size_t bytes, uint64_t offset)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);

	ASSERT_NE(at, MAP_FAILED);
	return at;
}

static void keep(struct raw_traffic *traffic, const struct raw_traffic_attr *attr, enum raw_traffic_page which,
		 int fd)
{
	if (attr->keep_fds)
		traffic->page_fds[which] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

static void hello(struct raw_traffic *traffic, const struct raw_traffic_attr *attr)
{
	struct msg req, rep;
	struct fdlist fds;

	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req = (struct msg_hello_req){.version_min = SHMD_PROTOCOL_VERSION_MIN,
					       .version_max = SHMD_PROTOCOL_VERSION_MAX,
					       .role = MSG_ROLE_CLIENT,
					       .resumes = attr->resumes,
					       .library = "raw client"};
	raw_send(&traffic->raw, &req, NULL, 0);
	fdlist_init(&fds);
	ASSERT_OK(raw_recv(&traffic->raw, &rep, &fds));
	ASSERT_EQ(rep.kind, MSG_HELLO_REP);
	keep(traffic, attr, RAW_TRAFFIC_HEALTH_PAGE, fdlist_get(&fds, 0));
	fdlist_deinit(&fds);
}

static void open_nic(struct raw_traffic *traffic, const struct raw_traffic_attr *attr)
{
	struct msg req, rep;
	struct fdlist fds;

	msg_init(&req, MSG_NIC_OPEN_REQ, 0);
	snprintf(req.nic_open_req.nic, sizeof(req.nic_open_req.nic), "%s", attr->nic ? attr->nic : "");
	raw_send(&traffic->raw, &req, NULL, 0);
	fdlist_init(&fds);
	ASSERT_OK(raw_recv(&traffic->raw, &rep, &fds));
	ASSERT_EQ(rep.kind, MSG_NIC_OPEN_REP);
	traffic->doorbell_page = map(fdlist_get(&fds, rep.nic_open_rep.page_fd), SHMD_DB_PAGE_BYTES,
				     rep.nic_open_rep.page_offset);
	traffic->is_uar = rep.nic_open_rep.doorbell == 2;
	traffic->doorbell_offset = rep.nic_open_rep.register_offset;
	keep(traffic, attr, RAW_TRAFFIC_DOORBELL_PAGE, fdlist_get(&fds, rep.nic_open_rep.page_fd));
	if (rep.nic_open_rep.nic_page_fd)
		keep(traffic, attr, RAW_TRAFFIC_NIC_PAGE, fdlist_get(&fds, rep.nic_open_rep.nic_page_fd - 1));
	traffic->wake_fd = rep.nic_open_rep.wake_fd ? fdlist_take(&fds, rep.nic_open_rep.wake_fd - 1) : -1;
	fdlist_deinit(&fds);
}

static void reg_heap(struct raw_traffic *traffic, uint32_t bytes)
{
	int fd = raw_memfd(bytes);
	struct msg req, rep;

	traffic->heap_bytes = bytes;
	traffic->heap = map(fd, traffic->heap_bytes, 0);
	msg_init(&req, MSG_MEM_REG_REQ, 0);
	req.mem_reg_req = (struct msg_mem_reg_req){
		.kind = MSG_MEM_MEMFD,
		.access = 0xf,
		.length_bytes = traffic->heap_bytes,
		.iova = RAW_TRAFFIC_IOVA,
	};
	raw_expect(&traffic->raw, &req, &fd, 1, MSG_MEM_REG_REP, &rep);
	traffic->lkey = rep.mem_reg_rep.lkey;
	traffic->rkey = rep.mem_reg_rep.rkey;
	traffic->mr = rep.mem_reg_rep.mr;
	close(fd);
}

static void create_queues(struct raw_traffic *traffic, const struct raw_traffic_attr *attr)
{
	struct msg req, rep;
	struct fdlist fds;

	raw_fill_create(&req, attr->n_qps ? attr->n_qps : 1);
	req.queue_create_req.specs.qps[0].access = 0xe;
	if (attr->log2_sq_wqebbs)
		req.queue_create_req.specs.qps[0].log2_sq_wqebbs = attr->log2_sq_wqebbs;
	if (attr->n_rq_wqes) {
		req.queue_create_req.specs.qps[0].n_rq_wqes = attr->n_rq_wqes;
		req.queue_create_req.specs.qps[0].log2_rq_stride = 4;
	}
	if (attr->log2_cq_entries)
		req.queue_create_req.specs.cqs[0].log2_entries = attr->log2_cq_entries;
	if (attr->own_cqs) {
		req.queue_create_req.specs.cqs[0].count = attr->n_qps;
		req.queue_create_req.specs.cqs[0].flags = 3;
		req.queue_create_req.specs.qps[0].send_cq_step = 1;
		req.queue_create_req.specs.qps[0].recv_cq_step = 1;
	}
	raw_send(&traffic->raw, &req, NULL, 0);
	fdlist_init(&fds);
	ASSERT_OK(raw_recv(&traffic->raw, &rep, &fds));
	ASSERT_EQ(rep.kind, MSG_QUEUE_CREATE_REP);
	traffic->queue_mem_bytes = rep.queue_create_rep.mem_bytes;
	traffic->queue_mem = map(fdlist_get(&fds, rep.queue_create_rep.mem_fd - 1),
				 traffic->queue_mem_bytes, 0);
	keep(traffic, attr, RAW_TRAFFIC_QUEUE_MEM, fdlist_get(&fds, rep.queue_create_rep.mem_fd - 1));
	traffic->queues = rep.queue_create_rep.queues;
	traffic->n_qps = rep.queue_create_rep.n_qps;
	traffic->all_qps = rep.queue_create_rep.qps;
	rep.queue_create_rep.qps = NULL;
	traffic->qp = traffic->all_qps[0];
	traffic->all_cqs = rep.queue_create_rep.cqs;
	rep.queue_create_rep.cqs = NULL;
	traffic->cq = traffic->all_cqs[0];
	fdlist_deinit(&fds);
	msg_deinit(&rep);
}

enum shmd_status raw_traffic_connect(struct raw_traffic *traffic, const struct msg_qp_info *to)
{
	struct msg_peer peer = {.qpn = traffic->qp.qpn, .addr_bytes = to->addr_bytes};
	struct msg req, rep;

	memcpy(peer.addr, to->addr, sizeof(peer.addr));
	msg_init(&req, MSG_CONNECT_REQ, 0);
	req.connect_req.has_params = traffic->params.retry_count > 0;
	req.connect_req.params = traffic->params;
	req.connect_req.n_peers = 1;
	req.connect_req.peers = &peer;
	raw_expect(&traffic->raw, &req, NULL, 0, MSG_CONNECT_REP, &rep);
	return (enum shmd_status)rep.connect_rep.status;
}

static void connect_all(struct raw_traffic *traffic)
{
	for (uint32_t i = 0; i < traffic->n_qps; i++) {
		traffic->qp = traffic->all_qps[i];
		ASSERT_EQ(raw_traffic_connect(traffic, &traffic->qp), SHMD_STATUS_OK);
	}
	traffic->qp = traffic->all_qps[0];
}

void raw_traffic_init_with(struct raw_traffic *traffic, const char *socket, const struct raw_traffic_attr *attr)
{
	*traffic = (struct raw_traffic){.wake_fd = -1, .page_fds = {-1, -1, -1, -1}};
	raw_connect(&traffic->raw, socket);
	traffic->raw.pump = attr->pump;
	traffic->raw.pump_arg = attr->pump_arg;
	traffic->params = attr->params;
	hello(traffic, attr);
	open_nic(traffic, attr);
	reg_heap(traffic, attr->heap_bytes ? attr->heap_bytes : RAW_TRAFFIC_HEAP_BYTES);
	create_queues(traffic, attr);
	if (!attr->unconnected)
		connect_all(traffic);
}

void raw_traffic_init(struct raw_traffic *traffic, const char *socket)
{
	const struct raw_traffic_attr attr = {0};

	raw_traffic_init_with(traffic, socket, &attr);
}

void raw_traffic_deinit(struct raw_traffic *traffic)
{
	munmap(traffic->heap, traffic->heap_bytes);
	munmap(traffic->queue_mem, traffic->queue_mem_bytes);
	munmap(traffic->doorbell_page, SHMD_DB_PAGE_BYTES);
	traffic->wake_fd = safe_close(traffic->wake_fd);
	for (int i = 0; i < RAW_TRAFFIC_PAGES; i++)
		traffic->page_fds[i] = safe_close(traffic->page_fds[i]);
	free(traffic->all_qps);
	free(traffic->all_cqs);
	raw_close(&traffic->raw);
}

/* The NIC is woken every time, whatever its page says: slower than a real client, and never late. */
static void ring(struct raw_traffic *traffic, const void *ctrl)
{
	struct shmd_dbrec *dbrec = (void *)(traffic->queue_mem + traffic->qp.dbrec_offset);
	uint64_t value, one = 1;

	memcpy(&value, ctrl, sizeof(value));
	__atomic_store_n(&dbrec->snd, htobe32(traffic->pi), __ATOMIC_RELEASE);
	__atomic_store_n((uint64_t *)(traffic->doorbell_page + traffic->doorbell_offset), value,
			 __ATOMIC_RELEASE);
	if (traffic->wake_fd >= 0)
		ASSERT_EQ(write(traffic->wake_fd, &one, sizeof(one)), sizeof(one));
}

void raw_traffic_announce(struct raw_traffic *traffic, uint16_t pi)
{
	for (uint32_t i = 0; i < traffic->n_qps; i++) {
		struct shmd_dbrec *dbrec = (void *)(traffic->queue_mem + traffic->all_qps[i].dbrec_offset);

		__atomic_store_n(&dbrec->snd, htobe32(pi), __ATOMIC_RELEASE);
	}
}

static const uint8_t *fill(struct raw_traffic *traffic, const struct raw_op *op)
{
	bool atomic = op->opcode == SHMD_OPCODE_ATOMIC_FA || op->opcode == SHMD_OPCODE_ATOMIC_CS;
	uint32_t mask = (1u << traffic->qp.log2_sq_wqebbs) - 1, qpn = op->qpn ? op->qpn : traffic->qp.qpn;
	uint8_t *wqe = traffic->queue_mem + traffic->qp.sq_offset + (traffic->pi & mask) * SHMD_WQEBB_BYTES;
	struct shmd_wqe_ctrl_seg ctrl = {
		.opmod_idx_opcode = htobe32((uint32_t)traffic->pi << 8 | op->opcode),
		.qpn_ds = htobe32(qpn << 8 | (atomic ? 4 : 3)),
		.fm_ce_se = SHMD_WQE_CE_ALWAYS,
	};
	struct shmd_wqe_raddr_seg raddr = {.raddr = htobe64(op->raddr), .rkey = htobe32(op->rkey)};
	struct shmd_wqe_atomic_seg add = {.swap_add = htobe64(1)};
	struct shmd_wqe_data_seg data = {
		.byte_count = htobe32(op->bytes),
		.lkey = htobe32(op->lkey),
		.addr = htobe64(op->laddr),
	};

	if (op->opcode == SHMD_OPCODE_SEND) {
		ctrl.qpn_ds = htobe32(qpn << 8 | 2);
		memcpy(wqe + 16, &data, 16);
		memcpy(wqe, &ctrl, 16);
		traffic->pi++;
		return wqe;
	}
	memcpy(wqe, &ctrl, 16);
	memcpy(wqe + 16, &raddr, 16);
	memcpy(wqe + 32, &add, 16);
	memcpy(wqe + (atomic ? 48 : 32), &data, 16);
	traffic->pi++;
	return wqe;
}

void raw_traffic_fill(struct raw_traffic *traffic, const struct raw_op *op)
{
	fill(traffic, op);
}

void raw_traffic_post(struct raw_traffic *traffic, const struct raw_op *op)
{
	ring(traffic, fill(traffic, op));
}

void raw_traffic_write(struct raw_traffic *traffic, uint32_t to, uint32_t from, uint32_t bytes)
{
	raw_traffic_post(traffic, &(struct raw_op){
		.opcode = SHMD_OPCODE_RDMA_WRITE,
		.lkey = traffic->lkey,
		.rkey = traffic->rkey,
		.laddr = RAW_TRAFFIC_IOVA + from,
		.raddr = RAW_TRAFFIC_IOVA + to,
		.bytes = bytes,
	});
}

uint8_t raw_traffic_syndrome(const struct raw_traffic *traffic)
{
	uint32_t slot = (traffic->ci - 1) & ((1u << traffic->cq.log2_entries) - 1);
	const struct shmd_err_cqe *cqe =
		(void *)(traffic->queue_mem + traffic->cq.ring_offset + slot * SHMD_CQE_BYTES);

	return cqe->syndrome;
}

/* Opcode and owner of the CQE at ci, or -1 while it is not there. */
static int next_op_own(const struct raw_traffic *traffic)
{
	uint32_t n = 1u << traffic->cq.log2_entries;
	const struct shmd_cqe *cqe = (void *)(traffic->queue_mem + traffic->cq.ring_offset +
					      (traffic->ci & (n - 1)) * SHMD_CQE_BYTES);
	uint8_t op_own = __atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE);

	if (op_own >> 4 == SHMD_CQE_INVALID ||
	    (op_own & SHMD_CQE_OWNER_MASK) != (traffic->ci >> traffic->cq.log2_entries & 1))
		return -1;
	return op_own;
}

bool raw_traffic_has_cqe(const struct raw_traffic *traffic)
{
	return next_op_own(traffic) >= 0;
}

unsigned int raw_traffic_poll(struct raw_traffic *traffic)
{
	struct timespec pause = {.tv_nsec = POLL_FIRST_PAUSE_NSEC};
	struct shmd_dbrec *dbrec = (void *)(traffic->queue_mem + traffic->cq.dbrec_offset);
	uint64_t end = nsec_now() + POLL_LIMIT_NSEC;
	int op_own;

	while ((op_own = next_op_own(traffic)) < 0) {
		if (nsec_now() > end)
			test_fail(TEST_WHERE, "no CQE %u within 10 s", traffic->ci);
		nanosleep(&pause, NULL);
		/* Many who look leave the NIC's thread no CPU. */
		if (pause.tv_nsec < POLL_LAST_PAUSE_NSEC)
			pause.tv_nsec *= 2;
	}
	traffic->ci++;
	__atomic_store_n(&dbrec->rcv, htobe32(traffic->ci & 0xffffff), __ATOMIC_RELEASE);
	return (unsigned int)op_own >> 4;
}
