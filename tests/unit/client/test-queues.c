/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches of queues against a fake daemon that lays them out: splitting, dev-state, connect, RST, and answers that
 * make no sense.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <arpa/inet.h>

#include <shmd/abi/cqe.h>

#include "libclient/objects.h"
#include "proto/status.h"
#include "tests/lib/test.h"
#include "tests/unit/client/fake-daemon.h"

/* State of the fake NIC. */
struct fake_nic {
	struct fake_daemon fake;
	unsigned int n_created, n_destroyed, n_mrs, n_connects, n_peers, n_modified;
	struct msg_queue_create_req last; /* specs of the last create */
	unsigned int batches[8];
	uint32_t next_qpn, next_cqn;
	unsigned int fail_create_at; /* this create request, from 1, is refused */
	bool break_offsets;
	unsigned int fail_peer_at; /* this peer, from 1 over all requests, is refused */
	uint32_t atomics, atomics_dc; /* as the message has them */
	struct msg_qp_modify_req modify;
};

#define FAKE_SQ_BYTES(spec) (64ull << (spec)->log2_sq_wqebbs)
#define FAKE_RQ_BYTES(spec) ((uint64_t)(spec)->n_rq_wqes << (spec)->log2_rq_stride)

/* CQs first, each a ring and a dbrec of 64 bytes; then QPs: receive ring, send ring, dbrec. */
static uint64_t lay_out(const struct msg_queue_specs *specs, struct msg_queue_create_rep *rep, struct fake_nic *nic)
{
	const struct msg_qp_spec *qps = &specs->qps[0];
	uint64_t at = 0;
	unsigned int n_cqs = 0;

	for (unsigned int s = 0; s < specs->n_cqs; s++) {
		const struct msg_cq_spec *spec = &specs->cqs[s];

		for (unsigned int i = 0; i < spec->count; i++, n_cqs++) {
			uint64_t ring = spec->flags & 1 ? 64 : 64ull << spec->log2_entries;

			if (rep)
				rep->cqs[n_cqs] = (struct msg_cq_info){
					.cqn = nic->next_cqn++, .log2_entries = spec->log2_entries,
					.flags = spec->flags, .ring_offset = at, .dbrec_offset = at + ring};
			at += ring + 64;
		}
	}
	for (unsigned int i = 0; i < qps->count; i++) {
		uint64_t sq = at + FAKE_RQ_BYTES(qps);

		if (rep)
			rep->qps[i] = (struct msg_qp_info){
				.qpn = nic->next_qpn++, .log2_sq_wqebbs = qps->log2_sq_wqebbs,
				.n_rq_wqes = qps->n_rq_wqes, .log2_rq_stride = qps->log2_rq_stride,
				.send_cqn = rep->cqs[qps->send_cq_first + i * qps->send_cq_step].cqn,
				.recv_cqn = rep->cqs[qps->recv_cq_first + i * qps->recv_cq_step].cqn,
				.rq_offset = at, .sq_offset = sq, .dbrec_offset = sq + FAKE_SQ_BYTES(qps),
				.addr_bytes = 3, .addr = {1, 2, (uint8_t)i}};
		at = sq + FAKE_SQ_BYTES(qps) + 64;
	}
	return (at + 4095) & ~4095ull;
}

static void answer_nic_open(struct fake_nic *nic, uint64_t id)
{
	int fds[3] = {fake_memfd(4096), fake_memfd(4096), eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	struct shmd_nic_page page = {.version = SHMD_NIC_PAGE_VERSION};
	struct msg rep;

	ASSERT_EQ(pwrite(fds[1], &page, sizeof(page), 0), (int)sizeof(page));
	msg_init(&rep, MSG_NIC_OPEN_REP, id);
	rep.nic_open_rep.nic = 5;
	rep.nic_open_rep.doorbell = 1;
	rep.nic_open_rep.register_offset = SHMD_DB_SEND_OFFSET;
	rep.nic_open_rep.nic_page_fd = 2;
	rep.nic_open_rep.wake_fd = 3;
	rep.nic_open_rep.info.max_log2_sq_wqebbs = 15;
	rep.nic_open_rep.info.max_log2_cq_entries = 20;
	rep.nic_open_rep.info.atomics = nic->atomics;
	rep.nic_open_rep.info.atomics_dc = nic->atomics_dc;
	fake_send(&nic->fake, &rep, fds, 3);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
}

static void answer_create(struct fake_nic *nic, const struct msg *req)
{
	const struct msg_queue_create_req *create = &req->queue_create_req;
	const struct msg_queue_specs *specs = &create->specs;
	struct msg_queue_create_rep *body;
	struct msg rep;
	int fd = -1;

	nic->last = *create;
	nic->batches[nic->n_created++ % 8] = specs->qps[0].count;
	if (nic->n_created == nic->fail_create_at) {
		fake_send_error(&nic->fake, req->id, SHMD_STATUS_NIC_LIMIT, "full");
		return;
	}
	msg_init(&rep, MSG_QUEUE_CREATE_REP, req->id);
	body = &rep.queue_create_rep;
	body->queues = nic->n_created;
	body->n_cqs = specs->cqs[0].count + specs->cqs[1].count;
	body->n_qps = specs->qps[0].count;
	body->cqs = calloc(body->n_cqs, sizeof(*body->cqs));
	body->qps = calloc(body->n_qps, sizeof(*body->qps));
	ASSERT(body->cqs && body->qps);
	body->mem_bytes = lay_out(specs, body, nic);
	if (nic->break_offsets)
		body->qps[0].sq_offset = body->mem_bytes - 64;
	if (!create->mem_kind) {
		fd = fake_memfd(body->mem_bytes);
		body->mem_fd = 1;
	}
	fake_send(&nic->fake, &rep, &fd, !create->mem_kind);
	safe_close(fd);
	msg_deinit(&rep);
}

static void answer_connect(struct fake_nic *nic, const struct msg *req)
{
	struct msg rep;

	msg_init(&rep, MSG_CONNECT_REP, req->id);
	nic->n_connects++;
	for (unsigned int i = 0; i < req->connect_req.n_peers; i++) {
		if (++nic->n_peers == nic->fail_peer_at) {
			rep.connect_rep.status = SHMD_STATUS_UNREACHABLE;
			break;
		}
		rep.connect_rep.n_done++;
	}
	fake_send(&nic->fake, &rep, NULL, 0);
}

static void answer_reg(struct fake_nic *nic, const struct msg *req)
{
	struct msg rep;

	msg_init(&rep, MSG_MEM_REG_REP, req->id);
	rep.mem_reg_rep.mr = ++nic->n_mrs;
	rep.mem_reg_rep.lkey = 0x11223344;
	rep.mem_reg_rep.rkey = 0x55667788;
	fake_send(&nic->fake, &rep, NULL, 0);
}

static void answer(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	struct fake_nic *nic = fake->arg;
	struct msg rep;

	switch (req->kind) {
	case MSG_NIC_OPEN_REQ:
		answer_nic_open(nic, req->id);
		return;
	case MSG_QUEUE_CREATE_REQ:
		answer_create(nic, req);
		return;
	case MSG_QUEUE_LAYOUT_REQ:
		msg_init(&rep, MSG_QUEUE_LAYOUT_REP, req->id);
		rep.queue_layout_rep.total_bytes = lay_out(&req->queue_layout_req, NULL, nic);
		fake_send(fake, &rep, NULL, 0);
		return;
	case MSG_MEM_REG_REQ:
		answer_reg(nic, req);
		return;
	case MSG_CONNECT_REQ:
		answer_connect(nic, req);
		return;
	case MSG_QUEUE_DESTROY_REQ:
		nic->n_destroyed++;
		break;
	case MSG_MEM_DEREG_REQ:
		nic->n_mrs--;
		break;
	case MSG_QP_MODIFY_REQ:
		nic->modify = req->qp_modify_req;
		break;
	default:
		test_fail(TEST_WHERE, "unexpected %s", msg_kind_name(req->kind));
	}
	fake_send_ok(fake, req->id);
}

static struct fake_nic nic;
static struct shmd_client *client;
static struct shmd_nic *handle;

static void open_nic_with(uint32_t atomics, uint32_t atomics_dc)
{
	memset(&nic, 0, sizeof(nic));
	nic.atomics = atomics;
	nic.atomics_dc = atomics_dc;
	nic.fake.handle = answer;
	nic.fake.arg = &nic;
	nic.next_qpn = 0x100;
	nic.next_cqn = 0x10;
	ASSERT_OK(fake_open(&nic.fake, NULL, &client));
	ASSERT_OK(shmd_nic_open(client, NULL, &handle));
}

static void open_nic(void)
{
	open_nic_with(0, 0);
}

static void close_nic(void)
{
	ASSERT_OK(shmd_nic_close(handle));
	shmd_client_close(client);
	fake_join(&nic.fake);
}

TEST(large_batches_are_split_over_requests)
{
	struct shmd_queues_attr attr = {.n_qps = 600, .sq_wqebbs = 16};
	struct shmd_queues *queues;

	open_nic();
	ASSERT_OK(shmd_queues_create(handle, &attr, &queues));
	ASSERT_EQ(shmd_queues_count(queues), 600);
	ASSERT_EQ(nic.n_created, 3);
	ASSERT_EQ(nic.batches[0], 256);
	ASSERT_EQ(nic.batches[1], 256);
	ASSERT_EQ(nic.batches[2], 88);
	for (unsigned int i = 0; i < 600; i++)
		ASSERT_EQ(shmd_queues_dev_qp(queues, i)->qpn, 0x100 + i);
	ASSERT(!shmd_queues_dev_qp(queues, 600));
	ASSERT_OK(shmd_queues_destroy(queues));
	ASSERT_EQ(nic.n_destroyed, 3);
	ASSERT_EQ(nic.n_mrs, 0);
	close_nic();
}

TEST(dev_state_describes_every_qp)
{
	struct shmd_queues_attr attr = {.n_qps = 3, .sq_wqebbs = 32, .rq_wqes = 8, .rq_stride_bytes = 64,
					.recv_cq_entries = 16, .sharing = SHMD_SHARING_BLOCK};
	const struct shmd_dev_state *state;
	struct shmd_queues *queues;
	struct shmd_recv_cq cq;
	struct shmd_addr addr;

	open_nic();
	ASSERT_OK(shmd_queues_create(handle, &attr, &queues));
	state = shmd_queues_dev_state(queues);
	ASSERT_EQ(state->version, SHMD_DEV_STATE_VERSION);
	ASSERT_EQ(state->size_bytes, sizeof(*state));
	ASSERT_EQ(state->n_qps, 3);
	ASSERT_EQ(state->health_addr, (uintptr_t)shmd_client_health_page(client));
	for (unsigned int i = 0; i < 3; i++) {
		struct shmd_dev_qp *qp = shmd_queues_dev_qp(queues, i);

		ASSERT_EQ((uintptr_t)qp, state->qps_addr + i * sizeof(*qp));
		ASSERT_EQ((uintptr_t)qp % 64, 0);
		ASSERT_EQ(qp->sq_wqebbs, 32);
		ASSERT_EQ(qp->rq_wqes, 8);
		ASSERT_EQ(qp->rq_stride_shift, 6);
		ASSERT_EQ(qp->sq_addr, qp->rq_addr + 8 * 64);
		ASSERT_EQ(qp->sq_dbrec_addr, qp->rq_dbrec_addr + 4);
		ASSERT_EQ(qp->flags, SHMD_QP_CQ_COLLAPSED | SHMD_QP_WAKE | SHMD_QP_TELLS_ERROR);
		ASSERT_EQ(qp->sharing, SHMD_SHARING_BLOCK);
		ASSERT_EQ(qp->nic, 5);
		ASSERT_EQ(qp->health_addr, (uintptr_t)&shmd_client_health_page(client)->nic[5]);
		ASSERT_EQ(qp->doorbell_addr % 4096, SHMD_DB_SEND_OFFSET);
		ASSERT_EQ(qp->scratch_lkey_be, htonl(0x11223344));
		ASSERT_EQ(qp->scratch_addr, shmd_queues_dev_qp(queues, 0)->scratch_addr + i * 32 * 16);
		ASSERT_EQ(qp->slot_busy_addr, shmd_queues_dev_qp(queues, 0)->slot_busy_addr + i * 32 * 4);
		ASSERT_EQ(qp->max_inline_bytes, 28);
		/* Every byte can be reached. */
		memset((void *)(uintptr_t)qp->sq_addr, 0, 32 * 64);
		memset((void *)(uintptr_t)qp->scratch_addr, 0, 32 * 16);
		memset((void *)(uintptr_t)qp->slot_busy_addr, 0, 32 * 4);
		*(uint64_t *)(uintptr_t)qp->doorbell_addr = 1;
		ASSERT_OK(shmd_queues_recv_cq(queues, i, &cq));
		ASSERT_EQ(cq.entries, 16);
		ASSERT_EQ(cq.cqn, 0x10 + 3 + i);
		memset(cq.ring, 0, 16 * 64);
		ASSERT_OK(shmd_queues_addr(queues, i, &addr));
		ASSERT_EQ(addr.bytes, 3);
		ASSERT_EQ(addr.data[2], i);
	}
	ASSERT_OK(shmd_queues_destroy(queues));
	close_nic();
}

/* RC and DC apart. An older daemon does not report atomics; its NICs have all of them. */
TEST(dev_state_tells_which_atomics_the_nic_lacks)
{
	const uint32_t all = SHMD_ATOMIC_8 | SHMD_ATOMIC_MASKED_4 | SHMD_ATOMIC_MASKED_8;
	const struct {
		uint32_t told, atomics, flags;
	} cases[] = {
		{0, all, 0},
		{MSG_ATOMICS_TOLD, 0, SHMD_QP_NO_ATOMIC_8 | SHMD_QP_NO_MASKED_4 | SHMD_QP_NO_MASKED_8},
		{MSG_ATOMICS_TOLD | 1, SHMD_ATOMIC_8, SHMD_QP_NO_MASKED_4 | SHMD_QP_NO_MASKED_8},
		{MSG_ATOMICS_TOLD | 5, SHMD_ATOMIC_8 | SHMD_ATOMIC_MASKED_8, SHMD_QP_NO_MASKED_4},
		{MSG_ATOMICS_TOLD | 0xf, all | SHMD_ATOMIC_RESULT_BE, SHMD_QP_ATOMIC_8_BE},
	};
	const uint32_t flags = SHMD_QP_NO_ATOMIC_8 | SHMD_QP_NO_MASKED_4 | SHMD_QP_NO_MASKED_8 | SHMD_QP_ATOMIC_8_BE;

	for (unsigned int i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
		bool is_dc = i % 2;
		struct shmd_queues_attr attr = {.n_qps = 1, .qp_type = is_dc ? SHMD_QP_TYPE_DCI : SHMD_QP_TYPE_RC};
		struct shmd_queues *queues;
		struct shmd_nic_info info;

		open_nic_with(is_dc ? 0 : cases[i / 2].told, is_dc ? cases[i / 2].told : 0);
		ASSERT_OK(shmd_nic_info(handle, &info));
		ASSERT_EQ(is_dc ? info.atomics_dc : info.atomics, cases[i / 2].atomics);
		ASSERT_EQ(is_dc ? info.atomics : info.atomics_dc, all);
		ASSERT_OK(shmd_queues_create(handle, &attr, &queues));
		ASSERT_EQ(shmd_queues_dev_qp(queues, 0)->flags & flags, cases[i / 2].flags);
		ASSERT_OK(shmd_queues_destroy(queues));
		close_nic();
	}
}

TEST(specs_follow_the_attributes)
{
	struct shmd_queues_attr attr = {.n_qps = 2, .cq_mode = SHMD_CQ_MODE_ORDINARY, .gpu_driven = 1,
					.access = SHMD_ACCESS_REMOTE_READ};
	struct shmd_queues *queues;

	open_nic();
	ASSERT_OK(shmd_queues_create(handle, &attr, &queues));
	ASSERT_EQ(nic.last.nic, 5);
	ASSERT_EQ(nic.last.specs.n_cqs, 1);
	ASSERT_EQ(nic.last.specs.cqs[0].flags, 0);
	ASSERT_EQ(nic.last.specs.cqs[0].log2_entries, 8);
	ASSERT_EQ(nic.last.specs.qps[0].log2_sq_wqebbs, 8);
	ASSERT_EQ(nic.last.specs.qps[0].flags, 1);
	ASSERT_EQ(nic.last.specs.qps[0].access, SHMD_ACCESS_REMOTE_READ);
	ASSERT_EQ(shmd_queues_dev_qp(queues, 0)->flags, SHMD_QP_TELLS_ERROR);
	ASSERT_EQ(shmd_queues_dev_qp(queues, 0)->nic_page_addr, 0);
	ASSERT_OK(shmd_queues_destroy(queues));
	close_nic();
}

TEST(a_small_receive_queue_is_raised_to_64_bytes)
{
	struct shmd_queues_attr attr = {.n_qps = 1, .rq_wqes = 1};
	struct shmd_queues *queues;
	struct shmd_recv_cq cq;

	open_nic();
	ASSERT_OK(shmd_queues_create(handle, &attr, &queues));
	ASSERT_EQ(nic.last.specs.qps[0].n_rq_wqes, 4);
	ASSERT_EQ(shmd_queues_dev_qp(queues, 0)->rq_wqes, 4);
	ASSERT_OK(shmd_queues_recv_cq(queues, 0, &cq));
	ASSERT_EQ(cq.entries, 4);
	ASSERT_OK(shmd_queues_destroy(queues));
	close_nic();
}

TEST(attributes_outside_their_range_are_refused_here)
{
	static const struct shmd_queues_attr bad[] = {
		{.n_qps = 0},
		{.n_qps = 1, .sq_wqebbs = 8},
		{.n_qps = 1, .sq_wqebbs = 48},
		{.n_qps = 1, .sq_wqebbs = 65536},
		{.n_qps = 1, .rq_wqes = 3},
		{.n_qps = 1, .rq_wqes = 65536},
		{.n_qps = 1, .rq_wqes = 4, .rq_stride_bytes = 8},
		{.n_qps = 1, .rq_wqes = 4, .rq_stride_bytes = 1024},
		{.n_qps = 1, .rq_wqes = 4, .recv_cq_entries = 6},
		{.n_qps = 1, .sharing = 3},
		{.n_qps = 1, .cq_mode = 2},
		{.n_qps = 1, .access = SHMD_ACCESS_LOCAL_WRITE},
		{.n_qps = 1, .mem_kind = SHMD_MEM_AGENT},
		{.n_qps = 1, .mem_kind = SHMD_MEM_MEMFD, .mem_offset = 8},
	};
	struct shmd_queues *queues = NULL;
	uint64_t bytes;

	open_nic();
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ASSERT_ERR(shmd_queues_create(handle, &bad[i], &queues), EINVAL);
		ASSERT_ERR(shmd_queues_layout(handle, &bad[i], &bytes), EINVAL);
	}
	ASSERT_ERR(shmd_queues_create(handle, &(struct shmd_queues_attr){.n_qps = 4000000000u}, &queues), EDQUOT);
	ASSERT(!queues);
	ASSERT_EQ(nic.n_created, 0);
	close_nic();
}

TEST(a_refusal_in_the_middle_leaves_nothing_behind)
{
	struct shmd_queues_attr attr = {.n_qps = 600, .sq_wqebbs = 16};
	struct shmd_queues *queues = NULL;

	open_nic();
	nic.fail_create_at = 3;
	ASSERT_ERR(shmd_queues_create(handle, &attr, &queues), ENOSPC);
	ASSERT_STREQ(shmd_error_text(), "the NIC has no room for more: full");
	ASSERT(!queues);
	ASSERT_EQ(nic.n_destroyed, 2);
	close_nic();
}

TEST(offsets_outside_queue_memory_are_not_believed)
{
	struct shmd_queues_attr attr = {.n_qps = 2};
	struct shmd_queues *queues = NULL;

	open_nic();
	nic.break_offsets = true;
	ASSERT_ERR(shmd_queues_create(handle, &attr, &queues), EPROTO);
	ASSERT(!queues);
	ASSERT_EQ(nic.n_destroyed, 1);
	close_nic();
}

TEST(queue_memory_of_the_callers_is_used)
{
	struct shmd_queues_attr attr = {.n_qps = 300, .sq_wqebbs = 16, .mem_kind = SHMD_MEM_MEMFD,
					.mem_offset = 8192};
	struct shmd_queues *queues = NULL;
	uint32_t marked = 0;
	uint64_t bytes;

	open_nic();
	ASSERT_OK(shmd_queues_layout(handle, &attr, &bytes));
	ASSERT_EQ(bytes % 4096, 0);
	attr.mem_fd = fake_memfd(8192 + bytes);
	attr.mem_bytes = bytes - 4096;
	ASSERT_ERR(shmd_queues_create(handle, &attr, &queues), ENOSPC);
	attr.mem_bytes = bytes;
	ASSERT_OK(shmd_queues_create(handle, &attr, &queues));
	ASSERT_EQ(nic.last.mem_kind, MSG_MEM_MEMFD);
	/* The last QP's ring lies in the caller's descriptor. */
	*(uint32_t *)(uintptr_t)shmd_queues_dev_qp(queues, 299)->sq_addr = 0xabcdef01;
	for (uint64_t at = 8192; at < 8192 + bytes && marked != 0xabcdef01; at += 64)
		ASSERT_EQ(pread(attr.mem_fd, &marked, 4, (off_t)at), 4);
	ASSERT_EQ(marked, 0xabcdef01);
	ASSERT_OK(shmd_queues_destroy(queues));
	close(attr.mem_fd);
	close_nic();
}

static void connect_n(struct shmd_queues *queues, unsigned int first, unsigned int n, int err, unsigned int n_done)
{
	struct shmd_addr *addrs = calloc(n, sizeof(*addrs));
	unsigned int done = 12345;

	ASSERT(addrs);
	for (unsigned int i = 0; i < n; i++)
		addrs[i].bytes = 3;
	ASSERT_EQ(shmd_queues_connect(queues, first, n, addrs, NULL, &done), -err);
	ASSERT_EQ(done, n_done);
	free(addrs);
}

TEST(connect_is_split_and_counts_what_is_done)
{
	struct shmd_queues_attr attr = {.n_qps = 1100, .sq_wqebbs = 16};
	struct shmd_queues *queues;

	open_nic();
	ASSERT_OK(shmd_queues_create(handle, &attr, &queues));
	connect_n(queues, 0, 1100, 0, 1100);
	ASSERT_EQ(nic.n_connects, 3);
	nic.n_peers = 0;
	nic.fail_peer_at = 600;
	connect_n(queues, 0, 1100, EHOSTUNREACH, 599);
	ASSERT(strstr(shmd_error_text(), "QP 599 of the batch"));
	connect_n(queues, 1100, 0, 0, 0);
	connect_n(queues, 1000, 101, EINVAL, 0);
	connect_n(queues, 4000000000u, 1, EINVAL, 0);
	ASSERT_OK(shmd_queues_destroy(queues));
	close_nic();
}

static void use_qp(struct shmd_dev_qp *qp)
{
	qp->sq_rsvd_index = qp->sq_ready_index = qp->sq_wqe_pi = qp->db_index = 9;
	qp->fence_index = qp->last_fetch_index = 4;
	qp->cqe_ci = 9;
	qp->rq_pi = 2;
	qp->error_syndrome = 5;
	*(uint32_t *)(uintptr_t)qp->sq_dbrec_addr = htonl(9);
	*(uint32_t *)(uintptr_t)qp->slot_busy_addr = 1;
}

TEST(rst_makes_a_qp_as_new)
{
	struct shmd_queues_attr attr = {.n_qps = 2, .rq_wqes = 4};
	struct shmd_dev_qp *qp, fresh;
	struct shmd_queues *queues;
	struct shmd_cqe *cqe;

	open_nic();
	ASSERT_OK(shmd_queues_create(handle, &attr, &queues));
	qp = shmd_queues_dev_qp(queues, 1);
	fresh = *qp;
	use_qp(qp);
	cqe = (void *)(uintptr_t)qp->cq_addr;
	memset(cqe, 0, sizeof(*cqe));
	*(uint32_t *)(uintptr_t)qp->rq_dbrec_addr = htonl(2);
	ASSERT_OK(shmd_queues_modify(queues, 1, SHMD_QP_ERR));
	ASSERT_EQ(qp->sq_rsvd_index, 9);
	ASSERT_OK(shmd_queues_modify(queues, 1, SHMD_QP_RST));
	ASSERT_EQ(nic.modify.qpn, qp->qpn);
	ASSERT_EQ(nic.modify.nic, 5);
	ASSERT_EQ(nic.modify.state, 0);
	ASSERT_MEMEQ(qp, &fresh, sizeof(fresh));
	ASSERT_EQ(cqe->op_own, 0xff);
	ASSERT_EQ(*(uint32_t *)(uintptr_t)qp->sq_dbrec_addr, 0);
	ASSERT_EQ(*(uint32_t *)(uintptr_t)qp->rq_dbrec_addr, 0);
	ASSERT_EQ(*(uint32_t *)(uintptr_t)qp->slot_busy_addr, 0);
	ASSERT_OK(shmd_queues_destroy(queues));
	close_nic();
}

TEST(rst_consumes_what_lies_in_an_ordinary_cq)
{
	struct shmd_queues_attr attr = {.n_qps = 1, .sq_wqebbs = 16, .cq_mode = SHMD_CQ_MODE_ORDINARY};
	struct shmd_queues *queues;
	struct shmd_dev_qp *qp;
	struct shmd_cqe *ring;

	open_nic();
	ASSERT_OK(shmd_queues_create(handle, &attr, &queues));
	qp = shmd_queues_dev_qp(queues, 0);
	ring = (void *)(uintptr_t)qp->cq_addr;
	memset(ring, 0xff, 16 * sizeof(*ring));
	use_qp(qp);
	/* Consumed up to 14; CQEs 14 to 17 are there, the last two in the second round of the ring. */
	qp->cq_ci = 14;
	ring[14].op_own = ring[15].op_own = SHMD_CQE_REQ << 4 | 0;
	ring[0].op_own = ring[1].op_own = SHMD_CQE_REQ_ERR << 4 | 1;
	ring[2].op_own = SHMD_CQE_REQ << 4 | 0;
	ASSERT_OK(shmd_queues_modify(queues, 0, SHMD_QP_RST));
	ASSERT_EQ(qp->cq_ci, 18);
	ASSERT_EQ(qp->cqe_ci, 0);
	ASSERT_EQ(*(uint32_t *)(uintptr_t)qp->cq_dbrec_addr, htonl(18));
	ASSERT_OK(shmd_queues_destroy(queues));
	close_nic();
}

TEST(a_nic_in_use_does_not_close)
{
	struct shmd_queues_attr attr = {.n_qps = 1};
	struct shmd_queues *queues;

	open_nic();
	ASSERT_OK(shmd_queues_create(handle, &attr, &queues));
	ASSERT_ERR(shmd_nic_close(handle), EBUSY);
	ASSERT_OK(shmd_queues_destroy(queues));
	close_nic();
}

TEST(closing_the_client_frees_everything_made_from_it)
{
	struct shmd_queues_attr attr = {.n_qps = 300};
	struct shmd_queues *queues;
	struct shmd_mem *mem;
	struct shmd_mr *mr;

	open_nic();
	ASSERT_OK(shmd_queues_create(handle, &attr, &queues));
	ASSERT_OK(shmd_mem_alloc(client, 4096, &mem));
	ASSERT_OK(shmd_mr_reg_mem(handle, mem, SHMD_ACCESS_ALL, &mr));
	ASSERT_EQ(shmd_mr_lkey(mr), 0x11223344);
	ASSERT_EQ(shmd_mr_rkey_be(mr), htonl(0x55667788));
	shmd_client_close(client);
	fake_join(&nic.fake);
	/* The end of the session did it: no request was needed. */
	ASSERT_EQ(nic.n_destroyed, 0);
}
