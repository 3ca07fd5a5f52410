/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/raw-traffic.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <shmd/abi/cqe.h>
#include <shmd/abi/doorbell.h>
#include <shmd/abi/wqe.h>

#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"

#define POLL_LIMIT_NSEC (5 * NSEC_PER_SEC)

static void *map(int fd, size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	ASSERT_NE(at, MAP_FAILED);
	return at;
}

static void open_nic(struct raw_traffic *traffic)
{
	struct msg req, rep;
	struct fdlist fds;

	msg_init(&req, MSG_NIC_OPEN_REQ, 0);
	raw_send(&traffic->raw, &req, NULL, 0);
	fdlist_init(&fds);
	ASSERT_OK(raw_recv(&traffic->raw, &rep, &fds));
	ASSERT_EQ(rep.kind, MSG_NIC_OPEN_REP);
	ASSERT_EQ(rep.nic_open_rep.page_offset, 0);
	traffic->doorbell_page = map(fdlist_get(&fds, rep.nic_open_rep.page_fd), SHMD_DB_PAGE_BYTES);
	traffic->doorbell_offset = rep.nic_open_rep.register_offset;
	traffic->wake_fd = rep.nic_open_rep.wake_fd ? fdlist_take(&fds, rep.nic_open_rep.wake_fd - 1) : -1;
	fdlist_deinit(&fds);
}

static void reg_heap(struct raw_traffic *traffic)
{
	int fd = raw_memfd(RAW_TRAFFIC_HEAP_BYTES);
	struct msg req, rep;

	traffic->heap = map(fd, RAW_TRAFFIC_HEAP_BYTES);
	msg_init(&req, MSG_MEM_REG_REQ, 0);
	req.mem_reg_req = (struct msg_mem_reg_req){
		.kind = MSG_MEM_MEMFD,
		.access = 0xf,
		.length_bytes = RAW_TRAFFIC_HEAP_BYTES,
		.iova = RAW_TRAFFIC_IOVA,
	};
	raw_expect(&traffic->raw, &req, &fd, 1, MSG_MEM_REG_REP, &rep);
	traffic->lkey = rep.mem_reg_rep.lkey;
	traffic->rkey = rep.mem_reg_rep.rkey;
	close(fd);
}

static void create_queues(struct raw_traffic *traffic)
{
	struct msg req, rep;
	struct fdlist fds;

	raw_fill_create(&req, 1);
	req.queue_create_req.specs.qps[0].access = 0xe;
	raw_send(&traffic->raw, &req, NULL, 0);
	fdlist_init(&fds);
	ASSERT_OK(raw_recv(&traffic->raw, &rep, &fds));
	ASSERT_EQ(rep.kind, MSG_QUEUE_CREATE_REP);
	traffic->queue_mem_bytes = rep.queue_create_rep.mem_bytes;
	traffic->queue_mem = map(fdlist_get(&fds, rep.queue_create_rep.mem_fd - 1),
				 traffic->queue_mem_bytes);
	traffic->qp = rep.queue_create_rep.qps[0];
	traffic->cq = rep.queue_create_rep.cqs[0];
	fdlist_deinit(&fds);
	msg_deinit(&rep);
}

static void connect_to_itself(struct raw_traffic *traffic)
{
	struct msg_peer peer = {.qpn = traffic->qp.qpn, .addr_bytes = traffic->qp.addr_bytes};
	struct msg req, rep;

	memcpy(peer.addr, traffic->qp.addr, sizeof(peer.addr));
	msg_init(&req, MSG_CONNECT_REQ, 0);
	req.connect_req.n_peers = 1;
	req.connect_req.peers = &peer;
	raw_expect(&traffic->raw, &req, NULL, 0, MSG_CONNECT_REP, &rep);
	ASSERT_STREQ(rep.connect_rep.text, "");
	ASSERT_EQ(rep.connect_rep.n_done, 1);
}

void raw_traffic_init(struct raw_traffic *traffic, const char *socket)
{
	*traffic = (struct raw_traffic){.wake_fd = -1};
	raw_connect(&traffic->raw, socket);
	raw_hello(&traffic->raw, MSG_ROLE_CLIENT);
	open_nic(traffic);
	reg_heap(traffic);
	create_queues(traffic);
	connect_to_itself(traffic);
}

void raw_traffic_deinit(struct raw_traffic *traffic)
{
	munmap(traffic->heap, RAW_TRAFFIC_HEAP_BYTES);
	munmap(traffic->queue_mem, traffic->queue_mem_bytes);
	munmap(traffic->doorbell_page, SHMD_DB_PAGE_BYTES);
	traffic->wake_fd = safe_close(traffic->wake_fd);
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

void raw_traffic_write(struct raw_traffic *traffic, uint32_t to, uint32_t from, uint32_t bytes)
{
	uint32_t mask = (1u << traffic->qp.log2_sq_wqebbs) - 1;
	uint8_t *wqe = traffic->queue_mem + traffic->qp.sq_offset + (traffic->pi & mask) * SHMD_WQEBB_BYTES;
	struct shmd_wqe_ctrl_seg ctrl = {
		.opmod_idx_opcode = htobe32((uint32_t)traffic->pi << 8 | SHMD_OPCODE_RDMA_WRITE),
		.qpn_ds = htobe32(traffic->qp.qpn << 8 | 3),
		.fm_ce_se = SHMD_WQE_CE_ALWAYS,
	};
	struct shmd_wqe_raddr_seg raddr = {
		.raddr = htobe64(RAW_TRAFFIC_IOVA + to), .rkey = htobe32(traffic->rkey)};
	struct shmd_wqe_data_seg data = {
		.byte_count = htobe32(bytes),
		.lkey = htobe32(traffic->lkey),
		.addr = htobe64(RAW_TRAFFIC_IOVA + from),
	};

	memcpy(wqe, &ctrl, 16);
	memcpy(wqe + 16, &raddr, 16);
	memcpy(wqe + 32, &data, 16);
	traffic->pi++;
	ring(traffic, wqe);
}

unsigned int raw_traffic_poll(struct raw_traffic *traffic)
{
	const struct timespec pause = {.tv_nsec = 20000};
	uint32_t n = 1u << traffic->cq.log2_entries;
	struct shmd_dbrec *dbrec = (void *)(traffic->queue_mem + traffic->cq.dbrec_offset);
	const struct shmd_cqe *cqe = (void *)(traffic->queue_mem + traffic->cq.ring_offset +
					      (traffic->ci & (n - 1)) * SHMD_CQE_BYTES);
	uint64_t end = nsec_now() + POLL_LIMIT_NSEC;
	uint8_t op_own;

	for (;;) {
		op_own = __atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE);
		if (op_own >> 4 != SHMD_CQE_INVALID &&
		    (op_own & SHMD_CQE_OWNER_MASK) == (traffic->ci >> traffic->cq.log2_entries & 1))
			break;
		if (nsec_now() > end)
			test_fail(TEST_WHERE, "no CQE %u within 5 s", traffic->ci);
		nanosleep(&pause, NULL);
	}
	traffic->ci++;
	__atomic_store_n(&dbrec->rcv, htobe32(traffic->ci & 0xffffff), __ATOMIC_RELEASE);
	return op_own >> 4;
}
