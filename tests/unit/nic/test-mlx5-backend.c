/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mlx5 backend by the contract of nic.h, on two simulated ConnectX NICs. Queues are driven as a client would:
 * memory, dbrecs and the doorbell page by hand, nothing of libibverbs.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"

#define SILENCE_NSEC 200000000ull

static uint64_t word_at(const struct client *c, uint64_t offset)
{
	return __atomic_load_n((uint64_t *)(void *)(c->mem + offset), __ATOMIC_ACQUIRE);
}

static void fill(struct client *c, uint64_t offset, uint32_t bytes, uint8_t seed)
{
	for (uint32_t i = 0; i < bytes; i++)
		c->mem[offset + i] = (uint8_t)(seed + i * 7 + (i >> 8));
}

/* All operations that move data, from QP 0 of a to QP 0 of b. */
static void exercise(struct client *a, struct client *b)
{
	fill(a, 0, 4096, 1);
	client_post_write(a, 0, 0, b, 8192, 4096);
	client_ring(a, 0);
	client_complete(a, 0);
	ASSERT_MEMEQ(a->mem, b->mem + 8192, 4096);

	client_post_read(a, 0, 16384, b, 8192, 4096);
	client_ring(a, 0);
	client_complete(a, 0);
	ASSERT_MEMEQ(a->mem + 16384, b->mem + 8192, 4096);

	client_post_inline(a, 0, 0x1122334455667788ull, b, 128);
	client_post_fetch_add(a, 0, 24576, b, 128, 5);
	client_ring(a, 0);
	client_complete(a, 0);
	client_complete(a, 0);
	ASSERT_EQ(word_at(b, 128), 0x1122334455667788ull + 5);
	ASSERT_EQ(word_at(a, 24576), 0x1122334455667788ull);
}

static void send_and_receive(struct client *a, struct client *b)
{
	struct shmd_cqe cqe;

	fill(a, 512, 300, 9);
	client_post_recv(b, 0, 40960, 1024);
	client_post_send(a, 0, 512, 300);
	client_ring(a, 0);
	client_complete(a, 0);
	ASSERT(client_poll(b, 0, &cqe, CLIENT_LIMIT_NSEC));
	ASSERT_EQ(client_cqe_opcode(&cqe), SHMD_CQE_RESP_SEND);
	ASSERT_MEMEQ(b->mem + 40960, a->mem + 512, 300);
}

/* ---- NICs ---------------------------------------------------------------------------------------------------------- */

TEST(a_nic_tells_what_it_is)
{
	static const uint8_t none[16];
	struct nic_info info;
	struct rig rig;

	rig_open_mlx5(&rig, 2, NULL);
	ASSERT_OK(nic_query(rig.nic[1], &info));
	ASSERT_STREQ(info.name, "mlx5_1");
	ASSERT_STREQ(info.backend, "mlx5");
	ASSERT_EQ(info.port, 1u);
	ASSERT_EQ(info.state, NIC_PORT_ACTIVE);
	ASSERT_GE(info.mtu_bytes, 1024u);
	ASSERT_EQ(info.rate_mbps, 100000u);
	ASSERT_GE(info.max_qps, 1024u);
	ASSERT_GE(info.max_log2_sq_wqebbs, 10u);
	ASSERT_GT(strlen(info.pci), 8u);
	ASSERT(memcmp(info.gid, none, 16) != 0);
	ASSERT(info.link == NIC_LINK_INFINIBAND ? info.lid != 0 : memcmp(info.mac, none, 6) != 0);
	ASSERT(info.doorbell_uar_mmap && !info.doorbell_cpu);
	ASSERT_EQ(info.accepted_kinds[0], NIC_MEM_DMABUF);
	ASSERT_EQ(info.accepted_kinds[1], NIC_MEM_MEMFD);
	ASSERT_ERR(rig.nic[0]->ops->port_set(rig.nic[0], NIC_PORT_DOWN), EOPNOTSUPP);
	rig_close(&rig);
}

/* ---- data ---------------------------------------------------------------------------------------------------------- */

TEST(self_loop_on_one_nic)
{
	struct client c;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	client_open(&c, rig.nic[0], 1, 1);
	client_connect(&c, 0, &c, 0);
	exercise(&c, &c);
	client_close(&c);
	rig_close(&rig);
}

TEST(two_sessions_on_two_nics)
{
	struct client a, b;
	struct rig rig;

	rig_open_mlx5(&rig, 2, NULL);
	client_open(&a, rig.nic[0], 1, 1);
	client_open(&b, rig.nic[1], 2, 1);
	client_connect(&a, 0, &b, 0);
	for (int i = 0; i < 10; i++) {
		exercise(&a, &b);
		exercise(&b, &a);
	}
	send_and_receive(&a, &b);
	send_and_receive(&b, &a);
	client_close(&b);
	client_close(&a);
	rig_close(&rig);
}

TEST(a_ring_goes_round_many_times)
{
	struct client a, b;
	struct rig rig;

	rig_open_mlx5(&rig, 2, NULL);
	client_open(&a, rig.nic[0], 1, 1);
	client_open(&b, rig.nic[1], 2, 1);
	client_connect(&a, 0, &b, 0);
	for (uint64_t i = 0; i < 20; i++) {
		for (uint64_t k = 0; k < 32; k++)
			client_post_inline(&a, 0, i * 32 + k, &b, k * 8);
		client_ring(&a, 0);
		for (uint64_t k = 0; k < 32; k++)
			client_complete(&a, 0);
		for (uint64_t k = 0; k < 32; k++)
			ASSERT_EQ(word_at(&b, k * 8), i * 32 + k);
	}
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

/* ---- isolation ------------------------------------------------------------------------------------------------------- */

/* A NIC may look at a queue of its own accord, shortly after it had work there: so several tries, one in silence. */
static bool foreign_page_is_silent(struct client *a, struct client *b, uint64_t value)
{
	struct shmd_cqe cqe;

	client_post_inline(a, 0, value, a, 0);
	client_publish(a, 0);
	client_ring_word(b, client_qpn(a, 0));
	return !client_poll(a, 0, &cqe, SILENCE_NSEC);
}

TEST(a_doorbell_in_a_foreign_page_rings_nothing)
{
	struct client a, b;
	struct rig rig;
	uint64_t value = 1;

	rig_open_mlx5(&rig, 1, NULL);
	client_open(&a, rig.nic[0], 1, 1);
	client_open(&b, rig.nic[0], 2, 1);
	ASSERT_NE(a.ctx->doorbell.page_fd, b.ctx->doorbell.page_fd);
	client_connect(&a, 0, &a, 0);
	while (!foreign_page_is_silent(&a, &b, value))
		ASSERT_LT(value++, 20u);
	client_ring_word(&a, client_qpn(&a, 0));
	client_complete(&a, 0);
	ASSERT_EQ(word_at(&a, 0), value);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

TEST(the_key_of_another_session_is_refused)
{
	struct client a, b, c;
	struct shmd_cqe cqe;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	client_open(&a, rig.nic[0], 1, 1);
	client_open(&b, rig.nic[0], 2, 1);
	client_open(&c, rig.nic[0], 3, 1);
	client_connect(&a, 0, &b, 0);
	client_post_write(&a, 0, 0, &c, 0, 64);
	client_ring(&a, 0);
	ASSERT(client_poll(&a, 0, &cqe, CLIENT_LIMIT_NSEC));
	ASSERT_EQ(client_cqe_opcode(&cqe), SHMD_CQE_REQ_ERR);
	ASSERT_EQ(client_cqe_syndrome(&cqe), SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	client_close(&a);
	client_close(&b);
	client_close(&c);
	rig_close(&rig);
}

/* ---- memory ---------------------------------------------------------------------------------------------------------- */

static int try_reg(struct client *c, const struct nic_mr_attr *attr)
{
	struct nic_mr *mr = NULL;
	int r = c->ctx->nic->ops->mr_reg(c->ctx, attr, &mr);

	c->ctx->nic->ops->mr_dereg(mr);
	return r;
}

TEST(memory_is_judged_before_the_nic_sees_it)
{
	struct client c;
	struct rig rig;
	struct nic_mr_attr attr = {.kind = NIC_MEM_MEMFD, .length_bytes = 8192, .iova = 0x10000,
				   .access = NIC_ACCESS_ALL};
	int unsealed, pair[2];
	uint8_t *map;

	rig_open_mlx5(&rig, 1, NULL);
	client_open_ctx(&c, rig.nic[0], 1);
	attr.fd = client_memfd(8192, &map);
	ASSERT_OK(try_reg(&c, &attr));
	attr.iova = 0x10800;
	ASSERT_ERR(try_reg(&c, &attr), EINVAL);
	attr.offset = 0x800;
	ASSERT_ERR(try_reg(&c, &attr), EINVAL);
	attr.length_bytes = 0x800;
	ASSERT_OK(try_reg(&c, &attr));
	attr.access = 0x10;
	ASSERT_ERR(try_reg(&c, &attr), EINVAL);
	attr.access = NIC_ACCESS_ALL;
	attr.kind = NIC_MEM_AGENT;
	ASSERT_ERR(try_reg(&c, &attr), EOPNOTSUPP);
	attr.kind = NIC_MEM_MEMFD;
	munmap(map, 8192);
	close(attr.fd);
	unsealed = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ASSERT_OK(ftruncate(unsealed, 8192));
	attr.fd = unsealed;
	ASSERT_ERR(try_reg(&c, &attr), EPERM);
	close(unsealed);
	ASSERT_OK(pipe(pair));
	attr.fd = pair[0];
	ASSERT_ERR(try_reg(&c, &attr), EBADF);
	close(pair[0]);
	close(pair[1]);
	client_close(&c);
	rig_close(&rig);
}

/* Pages are pinned: what the client does to its file and mapping moves nothing under the NIC. */
TEST(a_region_outlives_the_mapping_it_was_made_from)
{
	struct client a, b;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	client_open(&a, rig.nic[0], 1, 1);
	client_open(&b, rig.nic[0], 2, 1);
	client_connect(&a, 0, &b, 0);
	ASSERT_GT(a.mr->lkey, 0x100u);
	ASSERT_NE(a.mr->rkey, b.mr->rkey);
	exercise(&a, &b);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

/* ---- life ------------------------------------------------------------------------------------------------------------ */

TEST(a_context_closes_at_every_half_built_point)
{
	struct client c;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	for (int step = 0; step < 6; step++) {
		client_open_ctx(&c, rig.nic[0], 1);
		if (step >= 1)
			client_reg(&c);
		if (step >= 2)
			client_create(&c, 20, 0);
		if (step >= 3)
			client_connect(&c, 0, &c, 1);
		if (step >= 4)
			for (int i = 0; i < 30; i++)
				client_post_write(&c, 0, 0, &c, 4096, 4096);
		if (step >= 5)
			client_ring(&c, 0);
		client_close(&c);
	}
	rig_close(&rig);
}

TEST(doorbell_modes_that_are_not_there_are_refused)
{
	struct nic_ctx_attr attr = {.session_id = 1, .doorbell = NIC_DOORBELL_CPU, .health_fd = -1};
	struct nic_ctx *ctx = NULL;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	ASSERT_ERR(rig.nic[0]->ops->ctx_open(rig.nic[0], &attr, &ctx), EOPNOTSUPP);
	attr.doorbell = 9;
	ASSERT_ERR(rig.nic[0]->ops->ctx_open(rig.nic[0], &attr, &ctx), EINVAL);
	ASSERT(!ctx);
	rig_close(&rig);
}

TEST(a_failed_batch_leaves_nothing_behind)
{
	struct nic_queue_mem mem = {.kind = NIC_MEM_MEMFD};
	struct nic_queues *queues = NULL;
	struct nic_queues_attr attr;
	struct nic_layout layout;
	const struct nic_ops *ops;
	struct client c;
	struct rig rig;
	uint8_t *map;

	rig_open_mlx5(&rig, 1, NULL);
	ops = rig.nic[0]->ops;
	client_open_ctx(&c, rig.nic[0], 1);
	client_attr(&attr, 4, 0);
	ASSERT_OK(nic_layout_init(&layout, &attr));
	mem.length_bytes = layout.total_bytes;
	mem.fd = client_memfd(layout.total_bytes, &map);
	/* The last QP names a CQ that is not there. */
	layout.qps[3].send_cqn = 0x123456;
	ASSERT_ERR(ops->queues_create(c.ctx, &mem, &layout, &queues), EINVAL);
	ASSERT_EQ(layout.n_qps, 4u);
	layout.qps[3].send_cqn = layout.qps[2].send_cqn;
	layout.qps[3].type = NIC_QP_DCT;
	ASSERT_ERR(ops->queues_create(c.ctx, &mem, &layout, &queues), EOPNOTSUPP);
	layout.qps[3].type = NIC_QP_RC;
	mem.length_bytes--;
	ASSERT_ERR(ops->queues_create(c.ctx, &mem, &layout, &queues), EINVAL);
	mem.length_bytes++;
	mem.kind = NIC_MEM_AGENT;
	ASSERT_ERR(ops->queues_create(c.ctx, &mem, &layout, &queues), EOPNOTSUPP);
	ASSERT(!queues);
	munmap(map, layout.total_bytes);
	close(mem.fd);
	nic_layout_deinit(&layout);
	client_close(&c);
	rig_close(&rig);
}

TEST(a_cq_in_use_by_another_batch_stays)
{
	struct nic_queues_attr attr;
	struct client a, b;
	const struct nic_ops *ops;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	ops = rig.nic[0]->ops;
	client_open(&a, rig.nic[0], 1, 1);
	memset(&b, 0, sizeof(b));
	b.ctx = a.ctx;
	client_attr(&attr, 1, 0);
	attr.n_cq_specs = 0;
	attr.qps[0].send_cqn = a.queues->layout.cqs[0].cqn;
	attr.qps[0].recv_cqn = a.queues->layout.cqs[0].cqn;
	client_create_as(&b, &attr);
	ASSERT_ERR(ops->queues_destroy(a.queues), EBUSY);
	munmap(b.queue_mem, b.queues->layout.total_bytes);
	close(b.queue_fd);
	ASSERT_OK(ops->queues_destroy(b.queues));
	free(b.qps);
	client_close(&a);
	rig_close(&rig);
}

TEST(queue_memory_is_read_within_its_bounds_only)
{
	struct client c;
	struct rig rig;
	uint8_t byte = 0;
	uint64_t total;

	rig_open_mlx5(&rig, 1, NULL);
	client_open(&c, rig.nic[0], 1, 1);
	total = c.queues->layout.total_bytes;
	ASSERT_OK(rig.nic[0]->ops->queues_read(c.queues, c.queues->layout.cqs[0].ring_offset, &byte, 1));
	ASSERT_EQ(byte, 0xff);
	ASSERT_OK(rig.nic[0]->ops->queues_read(c.queues, total - 1, &byte, 1));
	ASSERT_ERR(rig.nic[0]->ops->queues_read(c.queues, total, &byte, 1), ERANGE);
	ASSERT_ERR(rig.nic[0]->ops->queues_read(c.queues, UINT64_MAX, &byte, 1), ERANGE);
	client_close(&c);
	rig_close(&rig);
}

TEST(two_hundred_qps_in_one_request)
{
	struct client c;
	struct rig rig;
	unsigned int n = 200;

	rig_open_mlx5(&rig, 1, NULL);
	client_open(&c, rig.nic[0], 1, n);
	for (unsigned int i = 0; i < n; i++)
		client_connect(&c, i, &c, i);
	for (unsigned int i = 0; i < n; i++) {
		client_post_inline(&c, i, 1000u + i, &c, 8 * i);
		client_ring(&c, i);
	}
	for (unsigned int i = 0; i < n; i++) {
		client_complete(&c, i);
		ASSERT_EQ(word_at(&c, 8 * i), 1000u + i);
	}
	client_close(&c);
	rig_close(&rig);
}

/* ---- states ---------------------------------------------------------------------------------------------------------- */

static enum nic_qp_state state_of(struct client *c)
{
	struct nic_qp_info info;

	ASSERT_OK(c->ctx->nic->ops->qp_query(c->ctx, client_qpn(c, 0), &info));
	return info.state;
}

TEST(states_are_those_of_the_firmware)
{
	const struct nic_ops *ops;
	struct nic_qp_info info;
	struct client c;
	struct rig rig;
	uint32_t qpn;

	rig_open_mlx5(&rig, 1, NULL);
	ops = rig.nic[0]->ops;
	client_open(&c, rig.nic[0], 1, 1);
	qpn = client_qpn(&c, 0);
	ASSERT_EQ(state_of(&c), NIC_QPS_RST);
	ASSERT_OK(ops->qp_modify(c.ctx, qpn, NIC_QPS_INIT));
	ASSERT_EQ(state_of(&c), NIC_QPS_INIT);
	ASSERT_ERR(ops->qp_modify(c.ctx, qpn, NIC_QPS_INIT), EINVAL);
	client_connect(&c, 0, &c, 0);
	ASSERT_EQ(state_of(&c), NIC_QPS_RTS);
	ASSERT_OK(ops->qp_query(c.ctx, qpn, &info));
	ASSERT_EQ(info.dest_qpn, qpn);
	ASSERT_OK(ops->qp_modify(c.ctx, qpn, NIC_QPS_ERR));
	ASSERT_EQ(state_of(&c), NIC_QPS_ERR);
	ASSERT_OK(ops->qp_modify(c.ctx, qpn, NIC_QPS_RST));
	ASSERT_EQ(state_of(&c), NIC_QPS_RST);
	client_connect(&c, 0, &c, 0);
	exercise(&c, &c);
	ASSERT_ERR(ops->qp_modify(c.ctx, qpn, NIC_QPS_SQD), EOPNOTSUPP);
	ASSERT_ERR(ops->qp_modify(c.ctx, qpn + 1, NIC_QPS_ERR), EINVAL);
	client_close(&c);
	rig_close(&rig);
}

TEST(connect_stops_at_the_first_failure)
{
	struct nic_peer peers[3];
	struct client a, b;
	struct rig rig;
	unsigned int n_done = 9;
	struct nic_qp_params params = client_params;

	rig_open_mlx5(&rig, 1, NULL);
	client_open(&a, rig.nic[0], 1, 3);
	client_open(&b, rig.nic[0], 2, 3);
	for (unsigned int i = 0; i < 3; i++) {
		peers[i].qpn = client_qpn(&a, i);
		peers[i].remote = b.queues->layout.qps[i].addr;
	}
	peers[1].remote.qp_type = NIC_QP_DCI;
	ASSERT_ERR(rig.nic[0]->ops->connect(a.ctx, 3, peers, &params, &n_done), EINVAL);
	ASSERT_EQ(n_done, 1u);
	peers[1].remote.qp_type = NIC_QP_RC;
	ASSERT_OK(rig.nic[0]->ops->connect(a.ctx, 2, peers + 1, &params, &n_done));
	ASSERT_EQ(n_done, 2u);
	/* Connected already. */
	ASSERT_ERR(rig.nic[0]->ops->connect(a.ctx, 1, peers, &params, &n_done), EINVAL);
	params.retry_count = 8;
	ASSERT_ERR(rig.nic[0]->ops->connect(a.ctx, 1, peers, &params, &n_done), EINVAL);
	ASSERT_EQ(n_done, 0u);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

static uint32_t error_word(const struct client *c)
{
	const uint8_t *dbrec = c->queue_mem + c->queues->layout.qps[0].dbrec_offset;

	return __atomic_load_n((const uint32_t *)(const void *)(dbrec + SHMD_QP_ERROR_OFFSET), __ATOMIC_ACQUIRE);
}

static void expect_event(struct nic *nic, struct nic_event *ret_event)
{
	struct pollfd pfd = {.fd = nic->event_fd, .events = POLLIN};
	uint64_t end = nsec_now() + CLIENT_LIMIT_NSEC;

	do {
		ASSERT_EQ(poll(&pfd, 1, 10000), 1);
		ASSERT_LT(nsec_now(), end);
	} while (nic->ops->next_event(nic, ret_event) < 0);
}

/* b writes to a, with a key that is not a's. */
static void write_by_a_wrong_key(struct client *b, struct client *a)
{
	a->mr->rkey ^= 0x5500;
	client_post_write(b, 0, 0, a, 0, 64);
	a->mr->rkey ^= 0x5500;
	client_ring(b, 0);
}

static uint32_t syndrome_told(struct rig *rig, uint64_t session, uint32_t qpn)
{
	struct nic_event event;

	expect_event(rig->nic[session - 1], &event);
	ASSERT_EQ(event.kind, NIC_EVENT_QP_ERROR);
	ASSERT_EQ(event.session_id, session);
	ASSERT_EQ(event.number, qpn);
	return event.syndrome;
}

TEST(both_ends_of_a_failed_request_tell_by_an_event)
{
	struct nic_event event;
	struct client a, b;
	struct rig rig;

	rig_open_mlx5(&rig, 2, NULL);
	client_open(&a, rig.nic[0], 1, 1);
	client_open(&b, rig.nic[1], 2, 1);
	client_connect(&a, 0, &b, 0);
	exercise(&b, &a);
	ASSERT_ERR(rig.nic[0]->ops->next_event(rig.nic[0], &event), EAGAIN);
	ASSERT_ERR(rig.nic[1]->ops->next_event(rig.nic[1], &event), EAGAIN);
	write_by_a_wrong_key(&b, &a);
	ASSERT_EQ(syndrome_told(&rig, 1, client_qpn(&a, 0)), SHMD_SYNDROME_LOCAL_ACCESS_ERR);
	ASSERT_EQ(error_word(&a), SHMD_SYNDROME_LOCAL_ACCESS_ERR);
	ASSERT_EQ(syndrome_told(&rig, 2, client_qpn(&b, 0)), SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	ASSERT_EQ(error_word(&b), SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	ASSERT_ERR(rig.nic[0]->ops->next_event(rig.nic[0], &event), EAGAIN);
	ASSERT_ERR(rig.nic[1]->ops->next_event(rig.nic[1], &event), EAGAIN);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

/* Both QPs begin again at 0, as a client does it. */
static void start_over(struct client *c)
{
	const struct nic_qp *qp = &c->queues->layout.qps[0];

	ASSERT_OK(c->ctx->nic->ops->qp_modify(c->ctx, qp->qpn, NIC_QPS_RST));
	memset(c->queue_mem + qp->dbrec_offset, 0, sizeof(struct shmd_dbrec));
	c->qps[0].sq_pi = 0;
	c->qps[0].rq_pi = 0;
}

TEST(a_qp_that_was_reset_has_no_errors_of_its_former_life)
{
	struct nic_qp_info info;
	struct nic_event event;
	struct client a, b;
	struct shmd_cqe cqe;
	struct rig rig;

	rig_open_mlx5(&rig, 2, NULL);
	client_open(&a, rig.nic[0], 1, 1);
	client_open(&b, rig.nic[1], 2, 1);
	for (int i = 0; i < 20; i++) {
		client_connect(&a, 0, &b, 0);
		write_by_a_wrong_key(&b, &a);
		ASSERT(client_poll(&b, 0, &cqe, CLIENT_LIMIT_NSEC));
		ASSERT_EQ(client_cqe_syndrome(&cqe), SHMD_SYNDROME_REMOTE_ACCESS_ERR);
		start_over(&a);
		start_over(&b);
		ASSERT_EQ(error_word(&a), 0u);
		ASSERT_EQ(error_word(&b), 0u);
	}
	client_connect(&a, 0, &b, 0);
	exercise(&b, &a);
	ASSERT_OK(rig.nic[1]->ops->qp_modify(b.ctx, client_qpn(&b, 0), NIC_QPS_ERR));
	ASSERT_OK(rig.nic[1]->ops->qp_query(b.ctx, client_qpn(&b, 0), &info));
	ASSERT_EQ(info.first_error, SHMD_SYNDROME_WR_FLUSH_ERR);
	/* ERR that was asked for is no news. */
	ASSERT_ERR(rig.nic[1]->ops->next_event(rig.nic[1], &event), EAGAIN);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

/* A hundred QPs on one CQ fail in one go: an event for each, and one call at a time tells one. */
TEST(every_qp_of_a_shared_cq_is_told)
{
	struct nic_queues_attr attr;
	struct nic_event event;
	uint8_t told[100] = {0};
	struct client c, b;
	struct rig rig;

	rig_open_mlx5(&rig, 2, NULL);
	client_open(&b, rig.nic[1], 2, 100);
	client_open_ctx(&c, rig.nic[0], 1);
	client_reg(&c);
	client_attr(&attr, 100, 0);
	attr.cqs[0] = (struct nic_cq_spec){.count = 1, .log2_entries = 9};
	attr.qps[0].send_cq_step = 0;
	attr.qps[0].recv_cq_step = 0;
	client_create_as(&c, &attr);
	for (unsigned int i = 0; i < 100; i++)
		client_connect(&c, i, &b, i);
	b.mr->rkey ^= 0x5500;
	for (unsigned int i = 0; i < 100; i++) {
		client_post_write(&c, i, 0, &b, 0, 64);
		client_publish(&c, i);
	}
	b.mr->rkey ^= 0x5500;
	client_ring_word(&c, client_qpn(&c, 0));
	for (unsigned int n = 0; n < 100; n++) {
		unsigned int i = 0;

		expect_event(rig.nic[0], &event);
		ASSERT_EQ(event.syndrome, SHMD_SYNDROME_REMOTE_ACCESS_ERR);
		while (i < 100 && client_qpn(&c, i) != event.number)
			i++;
		ASSERT_LT(i, 100u);
		ASSERT(!told[i]);
		told[i] = 1;
	}
	client_close(&c);
	client_close(&b);
	rig_close(&rig);
}

/* Also before any event was read. */
TEST(a_requester_that_fails_is_told_why_when_it_asks)
{
	struct nic_qp_info info;
	struct client a, b;
	struct shmd_cqe cqe;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	client_open(&a, rig.nic[0], 1, 1);
	client_open(&b, rig.nic[0], 2, 1);
	client_connect(&a, 0, &b, 0);
	ASSERT_OK(rig.nic[0]->ops->qp_query(a.ctx, client_qpn(&a, 0), &info));
	ASSERT_EQ(info.first_error, 0u);
	client_post_inline(&a, 0, 1, &b, 0);
	b.mr->rkey ^= 0x5500;
	client_post_write(&a, 0, 0, &b, 0, 64);
	b.mr->rkey ^= 0x5500;
	client_post_inline(&a, 0, 2, &b, 0);
	client_ring(&a, 0);
	for (int i = 0; i < 3; i++)
		ASSERT(client_poll(&a, 0, &cqe, CLIENT_LIMIT_NSEC));
	ASSERT_EQ(client_cqe_syndrome(&cqe), SHMD_SYNDROME_WR_FLUSH_ERR);
	ASSERT_OK(rig.nic[0]->ops->qp_query(a.ctx, client_qpn(&a, 0), &info));
	ASSERT_EQ(info.state, NIC_QPS_ERR);
	ASSERT_EQ(info.first_error, SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	ASSERT_EQ(error_word(&a), SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

/* ---- what happens to NICs ---------------------------------------------------------------------------------------------- */

/* The simulator's control file; real NICs are not pulled out by a test. */
static void happen(const char *what)
{
	const char *root = getenv("MLX5SIM_ROOT");
	char path[256];
	FILE *file;

	if (!root)
		test_skip("only a simulated NIC can be told to fail");
	snprintf(path, sizeof(path), "%s/control", root);
	file = fopen(path, "w");
	ASSERT(file);
	ASSERT_GT(fprintf(file, "%s\n", what), 0);
	ASSERT_OK(fclose(file));
}

TEST(port_that_goes_down_and_up_is_told_by_events_and_query)
{
	struct nic_event event;
	struct nic_info info;
	struct rig rig;

	rig_open_mlx5(&rig, 2, NULL);
	happen("port-down 0");
	expect_event(rig.nic[0], &event);
	ASSERT_EQ(event.kind, NIC_EVENT_PORT_STATE);
	ASSERT_EQ(event.state, NIC_PORT_DOWN);
	ASSERT_EQ(event.session_id, 0u);
	ASSERT_OK(nic_query(rig.nic[0], &info));
	ASSERT_EQ(info.state, NIC_PORT_DOWN);
	ASSERT_OK(nic_query(rig.nic[1], &info));
	ASSERT_EQ(info.state, NIC_PORT_ACTIVE);
	happen("port-up 0");
	expect_event(rig.nic[0], &event);
	ASSERT_EQ(event.state, NIC_PORT_ACTIVE);
	ASSERT_ERR(rig.nic[1]->ops->next_event(rig.nic[1], &event), EAGAIN);
	rig_close(&rig);
}

/* libmlx5 keeps its handle of an object that the kernel could not destroy, and of a lost NIC it cannot destroy any. */
void __lsan_disable(void) __attribute__((weak));
void __lsan_enable(void) __attribute__((weak));

static void open_unlucky(struct client *c, struct nic *nic)
{
	if (__lsan_disable)
		__lsan_disable();
	client_open(c, nic, 1, 3);
	if (__lsan_enable)
		__lsan_enable();
}

/* The other channels' ends may come a moment later. */
static void expect_silence(struct nic *nic)
{
	struct pollfd pfd = {.fd = nic->event_fd, .events = POLLIN};
	uint64_t end = nsec_now() + CLIENT_LIMIT_NSEC;
	struct nic_event event;

	while (poll(&pfd, 1, 100) == 1) {
		ASSERT_ERR(nic->ops->next_event(nic, &event), EAGAIN);
		ASSERT_LT(nsec_now(), end);
	}
}

static unsigned int n_usable_nics(void)
{
	const struct nic_mlx5_attr attr = {0};
	struct nic_mlx5_report report;
	unsigned int n = 0;
	struct rig rig;

	list_init(&rig.nics);
	ASSERT_OK(nic_mlx5_probe(&attr, &rig.nics, &report));
	for (struct list *at = rig.nics.next; at != &rig.nics; at = at->next)
		n++;
	rig_close(&rig);
	return n;
}

/* For the tests after this one; and a NIC that has returned can be used again. */
static void return_nic(unsigned int n_nics)
{
	const struct timespec pause = {.tv_nsec = 5000000};
	uint64_t end = nsec_now() + CLIENT_LIMIT_NSEC;

	happen("return 0");
	while (n_usable_nics() < n_nics) {
		ASSERT_LT(nsec_now(), end);
		nanosleep(&pause, NULL);
	}
}

TEST(nic_that_is_lost_is_told_and_lets_everything_go)
{
	struct nic_ctx_attr attr = {.session_id = 9, .health_fd = -1};
	struct nic_ctx *ctx = NULL;
	struct nic_event event;
	struct nic_info info;
	struct client a, b;
	struct rig rig;

	rig_open_mlx5(&rig, 2, NULL);
	open_unlucky(&a, rig.nic[0]);
	client_open(&b, rig.nic[1], 2, 1);
	client_connect(&a, 0, &b, 0);
	exercise(&a, &b);
	happen("fatal 0");
	expect_event(rig.nic[0], &event);
	ASSERT_EQ(event.kind, NIC_EVENT_LOST);
	ASSERT_OK(nic_query(rig.nic[0], &info));
	ASSERT_EQ(info.state, NIC_PORT_LOST);
	ASSERT_ERR(rig.nic[0]->ops->ctx_open(rig.nic[0], &attr, &ctx), ENODEV);
	ASSERT_ERR(rig.nic[0]->ops->qp_modify(a.ctx, client_qpn(&a, 1), NIC_QPS_INIT), ENODEV);
	/* Told once, and nothing is left that would wake the daemon for ever. */
	ASSERT_ERR(rig.nic[0]->ops->next_event(rig.nic[0], &event), EAGAIN);
	expect_silence(rig.nic[0]);
	/* Its sessions end as any others; the NIC beside it goes on. */
	client_close(&a);
	ASSERT_OK(nic_query(rig.nic[1], &info));
	ASSERT_EQ(info.state, NIC_PORT_ACTIVE);
	client_close(&b);
	rig_close(&rig);
	return_nic(2);
}

TEST(quiesce_flushes_what_was_posted)
{
	struct client a, b;
	struct shmd_cqe cqe;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	client_open(&a, rig.nic[0], 1, 1);
	client_open(&b, rig.nic[0], 2, 1);
	client_connect(&a, 0, &b, 0);
	/* No receive is posted: it is retried for ever. */
	client_post_send(&a, 0, 0, 64);
	client_ring(&a, 0);
	ASSERT(!client_poll(&a, 0, &cqe, SILENCE_NSEC / 4));
	rig.nic[0]->ops->ctx_quiesce(a.ctx, CLIENT_QUIESCE_NSEC);
	ASSERT_EQ(state_of(&a), NIC_QPS_ERR);
	ASSERT(client_poll(&a, 0, &cqe, CLIENT_LIMIT_NSEC));
	ASSERT_EQ(client_cqe_opcode(&cqe), SHMD_CQE_REQ_ERR);
	ASSERT_EQ(client_cqe_syndrome(&cqe), SHMD_SYNDROME_WR_FLUSH_ERR);
	ASSERT_EQ(state_of(&b), NIC_QPS_RTS);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

TEST(counters_tell_what_went_wrong)
{
	struct nic_counters before, after;
	struct client a, b;
	struct shmd_cqe cqe;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	client_open(&a, rig.nic[0], 1, 1);
	client_open(&b, rig.nic[0], 2, 1);
	client_connect(&a, 0, &b, 0);
	ASSERT_OK(rig.nic[0]->ops->ctx_counters(a.ctx, &before));
	b.mr->rkey ^= 0x5500;
	client_post_write(&a, 0, 0, &b, 0, 64);
	client_ring(&a, 0);
	ASSERT(client_poll(&a, 0, &cqe, CLIENT_LIMIT_NSEC));
	b.mr->rkey ^= 0x5500;
	ASSERT_OK(rig.nic[0]->ops->ctx_counters(a.ctx, &after));
	ASSERT_GT(after.error_cqes, before.error_cqes);
	ASSERT_OK(rig.nic[0]->ops->counters(rig.nic[0], &after));
	ASSERT_GT(after.error_cqes, before.error_cqes);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

/* ---- trace ----------------------------------------------------------------------------------------------------------- */

static unsigned int n_lines_with(FILE *file, const char *what)
{
	char line[512];
	unsigned int n = 0;

	rewind(file);
	while (fgets(line, sizeof(line), file))
		n += !!strstr(line, what);
	return n;
}

/* Next line of a command, answers left out; false at the end. */
static bool next_command_line(FILE *file, bool *is_in, char line[256])
{
	while (fgets(line, 256, file)) {
		if (line[0] != ' ' && line[0] != '#')
			*is_in = strstr(line, " in, ");
		if (*is_in && line[0] != '#')
			return true;
	}
	return false;
}

/* A committed value of "*" is one that every run has anew: numbers of objects, addresses, the first PSN. */
static void assert_line(const char *line, const char *committed)
{
	const char *any = strstr(committed, "= *\n");

	if (!any)
		ASSERT_STREQ(line, committed);
	else if (strncmp(line, committed, (size_t)(any - committed) + 2) != 0)
		test_fail(TEST_WHERE, "the trace has %snot %s", line, committed);
}

static void assert_trace(const char *path, const char *committed_path)
{
	FILE *trace = fopen(path, "r"), *committed = fopen(committed_path, "r");
	char line[256], wanted[256];
	bool in_trace = false, in_committed = false;

	ASSERT(trace && committed);
	while (next_command_line(committed, &in_committed, wanted)) {
		ASSERT(next_command_line(trace, &in_trace, line));
		assert_line(line, wanted);
	}
	ASSERT(!next_command_line(trace, &in_trace, line));
	fclose(trace);
	fclose(committed);
}

TEST(the_commands_of_an_rc_pair_are_the_committed_ones)
{
	char path[] = "/tmp/shmemd-trace-XXXXXX", committed[512];
	const char *data = getenv("SHMEMD_TEST_DATA"), *keep = getenv("SHMEMD_TEST_KEEP_TRACE");
	int fd = mkstemp(path);
	struct nic_info info;
	struct client a, b;
	struct rig rig;

	ASSERT_GE(fd, 0);
	close(fd);
	if (!data)
		test_skip("SHMEMD_TEST_DATA names no folder");
	rig_open_mlx5(&rig, 2, path);
	client_open(&a, rig.nic[0], 1, 1);
	client_open(&b, rig.nic[1], 2, 1);
	client_connect(&a, 0, &b, 0);
	ASSERT_OK(nic_query(rig.nic[0], &info));
	ASSERT_OK(rig.nic[0]->ops->qp_modify(a.ctx, client_qpn(&a, 0), NIC_QPS_RST));
	ASSERT_OK(rig.nic[1]->ops->qp_modify(b.ctx, client_qpn(&b, 0), NIC_QPS_RST));
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
	snprintf(committed, sizeof(committed), "%s/mlx5-trace-%s", data,
		 info.link == NIC_LINK_ETHERNET ? "roce" : "ib");
	if (keep)
		ASSERT_OK(rename(path, keep));
	else
		assert_trace(path, committed);
	unlink(path);
}

TEST(the_trace_has_every_command_in_words)
{
	char path[] = "/tmp/shmemd-trace-XXXXXX";
	int fd = mkstemp(path);
	struct client c;
	struct rig rig;
	FILE *file;

	ASSERT_GE(fd, 0);
	close(fd);
	rig_open_mlx5(&rig, 1, path);
	client_open(&c, rig.nic[0], 1, 1);
	client_connect(&c, 0, &c, 0);
	exercise(&c, &c);
	file = fopen(path, "r");
	ASSERT(file);
	ASSERT_EQ(n_lines_with(file, "CREATE_CQ in, 272 bytes"), 1u);
	ASSERT_EQ(n_lines_with(file, "CREATE_QP in, 272 bytes"), 1u);
	ASSERT_EQ(n_lines_with(file, "RST2INIT_QP in"), 1u);
	ASSERT_EQ(n_lines_with(file, "INIT2RTR_QP out, 16 bytes: ok"), 1u);
	ASSERT_EQ(n_lines_with(file, "RTR2RTS_QP in"), 1u);
	/* Nothing that this code does not understand, and nothing refused. */
	ASSERT_EQ(n_lines_with(file, "STATUS = "), 0u);
	ASSERT_EQ(n_lines_with(file, "in no field"), 0u);
	fclose(file);
	unlink(path);
	client_close(&c);
	rig_close(&rig);
}
