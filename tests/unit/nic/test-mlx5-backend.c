/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mlx5 backend by the contract of nic.h, on two simulated ConnectX NICs. Queues are driven as a client would:
 * memory, dbrecs and the doorbell page by hand, nothing of libibverbs.
 */
#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/mlx5dv.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl.h>

#include "client.h"
#include "daemon/nic/mlx5/mlx5-bell.h"
#include "tests/lib/test.h"

#define SILENCE_NSEC 200000000ull

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
	ASSERT(info.doorbell_uar_mmap);
	ASSERT_EQ(info.doorbell_cpu, MLX5_HAS_BELL);
	ASSERT_EQ(info.accepted_kinds[0], NIC_MEM_DMABUF);
	ASSERT_EQ(info.accepted_kinds[1], NIC_MEM_PEERMEM);
	ASSERT_EQ(info.accepted_kinds[2], NIC_MEM_MEMFD);
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
	client_exercise(&c, &c);
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
		client_exercise(&a, &b);
		client_exercise(&b, &a);
	}
	client_send_and_receive(&a, &b);
	client_send_and_receive(&b, &a);
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
			ASSERT_EQ(client_word(&b, k * 8), i * 32 + k);
	}
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

/* ---- isolation ------------------------------------------------------------------------------------------------------- */

/*
 * A NIC may look at a queue of its own accord, shortly after it had work there: so several tries, each after a longer pause,
 * and one must be in silence.
 */
static bool foreign_page_is_silent(struct client *a, struct client *b, uint64_t value)
{
	const struct timespec pause = {.tv_nsec = (long)value * 5000000};
	struct shmd_cqe cqe;

	nanosleep(&pause, NULL);
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
	ASSERT_EQ(client_word(&a, 0), value);
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
	struct nic_mr_attr attr = {.kind = NIC_MEM_MEMFD,
				   .length_bytes = 8192,
				   .iova = 0x10000,
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
	client_exercise(&a, &b);
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
	struct nic_ctx_attr attr = {.session_id = 1, .doorbell = 9, .health_fd = -1};
	struct nic_ctx *ctx = NULL;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	ASSERT_ERR(rig.nic[0]->ops->ctx_open(rig.nic[0], &attr, &ctx), EINVAL);
	attr.doorbell = NIC_DOORBELL_CPU;
	if (!MLX5_HAS_BELL)
		ASSERT_ERR(rig.nic[0]->ops->ctx_open(rig.nic[0], &attr, &ctx), EOPNOTSUPP);
	ASSERT(!ctx);
	rig_close(&rig);
}

TEST(doorbell_mode_cpu_hands_out_no_command_descriptor)
{
	struct nic_ctx_attr attr = {.session_id = 1, .doorbell = NIC_DOORBELL_CPU, .health_fd = -1};
	struct nic_queue_mem mem = {.kind = NIC_MEM_DMABUF, .fd = -1, .length_bytes = 1u << 20};
	struct nic_queues *queues = NULL;
	struct nic_queues_attr wanted = {
		.n_cq_specs = 1, .cqs[0] = {.count = 1, .log2_entries = 4}, .n_qp_specs = 1,
		.qps[0] = {.count = 1, .type = NIC_QP_RC, .log2_sq_wqebbs = 4}};
	struct nic_layout layout;
	struct nic_ctx *ctx;
	struct stat st;
	struct rig rig;

	if (!MLX5_HAS_BELL)
		test_skip("doorbell mode cpu is for x86");
	rig_open_mlx5(&rig, 1, NULL);
	ASSERT_OK(rig.nic[0]->ops->ctx_open(rig.nic[0], &attr, &ctx));
	ASSERT_EQ(ctx->doorbell.mode, NIC_DOORBELL_CPU);
	ASSERT_EQ(ctx->doorbell.page_offset, 0u);
	/* Memory, all three that a client may get; a command descriptor is no regular file. */
	ASSERT_OK(fstat(ctx->doorbell.page_fd, &st));
	ASSERT(S_ISREG(st.st_mode));
	ASSERT_OK(fstat(ctx->doorbell.nic_page_fd, &st));
	ASSERT(S_ISREG(st.st_mode));
	ASSERT_GE(ctx->doorbell.wake_fd, 0);
	/* The thread that rings must reach dbrecs. */
	ASSERT_OK(nic_layout_init(&layout, &wanted));
	ASSERT_ERR(rig.nic[0]->ops->queues_create(ctx, &mem, &layout, &queues), EOPNOTSUPP);
	nic_layout_deinit(&layout);
	rig.nic[0]->ops->ctx_close(ctx);
	rig_close(&rig);
}

/* The page of before rings these queues as it did. */
TEST(context_changes_to_mode_cpu_with_its_queues)
{
	const struct nic_ops *ops;
	uint8_t *uar, *page;
	uint64_t one = 1;
	struct client c;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	ops = rig.nic[0]->ops;
	client_open(&c, rig.nic[0], 1, 2);
	if (!MLX5_HAS_BELL) {
		ASSERT_ERR(ops->ctx_to_cpu(c.ctx), EOPNOTSUPP);
		client_close(&c);
		rig_close(&rig);
		return;
	}
	client_connect(&c, 0, &c, 1);
	client_exercise(&c, &c);
	ASSERT_OK(ops->ctx_to_cpu(c.ctx));
	ASSERT_ERR(ops->ctx_to_cpu(c.ctx), EINVAL);
	ASSERT_EQ(c.ctx->doorbell.mode, NIC_DOORBELL_CPU);
	uar = c.doorbell_page;
	page = mmap(NULL, SHMD_DB_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, c.ctx->doorbell.page_fd, 0);
	ASSERT(page != MAP_FAILED);
	for (uint64_t i = 1; i <= 20; i++) {
		client_post_inline(&c, 0, i, &c, 0);
		client_publish(&c, 0);
		c.doorbell_page = i % 2 ? page : uar;
		client_ring_word(&c, client_qpn(&c, 0));
		ASSERT_EQ(write(c.ctx->doorbell.wake_fd, &one, sizeof(one)), sizeof(one));
		client_complete(&c, 0);
		ASSERT_EQ(client_word(&c, 0), i);
	}
	c.doorbell_page = uar;
	munmap(page, SHMD_DB_PAGE_BYTES);
	client_close(&c);
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
	ASSERT_OK(rig.nic[0]->ops->queues_read(c.queues, c.queues->layout.cqs[0].ring_offset, &byte,
					       1));
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
		ASSERT_EQ(client_word(&c, 8 * i), 1000u + i);
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
	client_exercise(&c, &c);
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
	/* The NIC's sum: the counts of its contexts, and those of contexts that ended. */
	ASSERT_OK(rig.nic[0]->ops->counters(rig.nic[0], &after));
	ASSERT_GT(after.error_cqes, before.error_cqes);
	client_close(&a);
	client_close(&b);
	ASSERT_OK(rig.nic[0]->ops->counters(rig.nic[0], &before));
	ASSERT_EQ(before.error_cqes, after.error_cqes);
	rig_close(&rig);
}

static uint64_t errors_of(struct client *c, unsigned int i)
{
	struct nic_qp_info info;

	ASSERT_OK(c->ctx->nic->ops->qp_query(c->ctx, client_qpn(c, i), &info));
	return info.counters.error_cqes;
}

/* A write with a wrong key, and what is flushed behind it. */
static void fail_with_flushes(struct client *a, unsigned int i, struct client *b, unsigned int n_flushed)
{
	struct shmd_cqe cqe;

	b->mr->rkey ^= 0x5500;
	for (unsigned int n = 0; n <= n_flushed; n++)
		client_post_write(a, i, 0, b, 0, 64);
	b->mr->rkey ^= 0x5500;
	client_ring(a, i);
	ASSERT(client_poll(a, i, &cqe, CLIENT_LIMIT_NSEC));
	ASSERT_EQ(client_cqe_opcode(&cqe), SHMD_CQE_REQ_ERR);
	/* The NIC counts the flushes a moment later. */
	for (unsigned int n = 0; n < 10000 && errors_of(a, i) <= n_flushed; n++)
		usleep(1000);
}

/* Nothing lies in the ring of a collapsed CQ, whose NIC may write to all of it, as the simulated one does. */
TEST(collapsed_cqs_have_rings_of_their_own)
{
	struct nic_queues_attr attr;
	struct client a;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	client_attr(&attr, 3, 0);
	attr.cqs[0].flags = NIC_CQ_COLLAPSED | NIC_CQ_OVERRUN_IGNORE;
	client_open_ctx(&a, rig.nic[0], 1);
	client_reg(&a);
	client_create_as(&a, &attr);
	for (uint32_t i = 0; i < 3; i++)
		ASSERT_EQ(a.queue_mem[a.queues->layout.cqs[i].ring_offset + SHMD_CQE_BYTES - 1], 0xff);
	client_close(&a);
	rig_close(&rig);
}

static void count_errors(struct rig *rig, uint32_t cq_flags)
{
	struct nic_queues_attr attr;
	struct client a, b;

	client_attr(&attr, 3, 0);
	attr.cqs[0].flags = cq_flags;
	client_open_ctx(&a, rig->nic[0], 1);
	client_reg(&a);
	client_create_as(&a, &attr);
	client_open(&b, rig->nic[0], 2, 3);
	for (unsigned int i = 0; i < 3; i++)
		client_connect(&a, i, &b, i);
	ASSERT_EQ(errors_of(&a, 0), 0u);
	fail_with_flushes(&a, 0, &b, 3);
	ASSERT_EQ(errors_of(&a, 0), 4u);
	ASSERT_EQ(errors_of(&a, 1), 0u);
	/* Counters go on through a reset. */
	ASSERT_OK(a.ctx->nic->ops->qp_modify(a.ctx, client_qpn(&a, 0), NIC_QPS_RST));
	ASSERT_EQ(errors_of(&a, 0), 4u);
	fail_with_flushes(&a, 1, &b, 1);
	ASSERT_EQ(errors_of(&a, 1), 2u);
	ASSERT_EQ(errors_of(&a, 0), 4u);
	ASSERT_EQ(errors_of(&a, 2), 0u);
	client_close(&a);
	client_close(&b);
}

TEST(error_cqes_are_those_of_the_qp_that_is_asked_about)
{
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	count_errors(&rig, 0);
	count_errors(&rig, NIC_CQ_COLLAPSED | NIC_CQ_OVERRUN_IGNORE);
	rig_close(&rig);
}

/* ---- hostile clients --------------------------------------------------------------------------------------------------- */

/* As the kernel's interface has it: one attribute, a handle. A client guesses them, since they are small numbers. */
static int destroy_handle(int cmd_fd, uint16_t object, uint16_t method, uint16_t attr, uint32_t handle)
{
	uint64_t cmd[(sizeof(struct ib_uverbs_ioctl_hdr) + sizeof(struct ib_uverbs_attr)) / 8] = {0};
	struct ib_uverbs_ioctl_hdr *hdr = (struct ib_uverbs_ioctl_hdr *)(void *)cmd;

	hdr->length = sizeof(cmd);
	hdr->object_id = object;
	hdr->method_id = method;
	hdr->num_attrs = 1;
	hdr->driver_id = RDMA_DRIVER_MLX5;
	hdr->attrs[0] = (struct ib_uverbs_attr){
		.attr_id = attr, .flags = UVERBS_ATTR_F_MANDATORY, .data = handle};
	return ioctl(cmd_fd, RDMA_VERBS_IOCTL, cmd);
}

/* QPs before what they use: so in several rounds. */
static unsigned int destroy_all_by_hand(int cmd_fd)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < 4 * 64; i++) {
		uint32_t handle = i % 64;

		n += destroy_handle(cmd_fd, MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_DESTROY,
				    MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE, handle) == 0;
		n += destroy_handle(cmd_fd, MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_DEREG,
				    MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE, handle) == 0;
		n += destroy_handle(cmd_fd, UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY,
				    UVERBS_ATTR_DESTROY_MR_HANDLE, handle) == 0;
	}
	return n;
}

TEST(a_client_that_destroys_objects_by_the_command_descriptor_harms_nobody_else)
{
	struct nic_mr_attr attr = {.kind = NIC_MEM_MEMFD,
				   .length_bytes = 4096,
				   .access = NIC_ACCESS_ALL};
	struct nic_counters counters;
	const struct nic_ops *ops;
	struct client a, b;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	ops = rig.nic[0]->ops;
	client_open(&a, rig.nic[0], 1, 2);
	client_open(&b, rig.nic[0], 2, 1);
	client_connect(&b, 0, &b, 0);
	/* QPs, CQs, the counters, a umem and a region. */
	ASSERT_EQ(destroy_all_by_hand(a.ctx->doorbell.page_fd), 7u);
	ASSERT_LT(ops->ctx_counters(a.ctx, &counters), 0);
	ASSERT_OK(ops->counters(rig.nic[0], &counters));
	ASSERT_LT(ops->qp_modify(a.ctx, client_qpn(&a, 0), NIC_QPS_INIT), 0);
	ASSERT(!ops->mr_dereg(a.mr));
	a.mr = NULL;
	/* The daemon's view of this context is outdated: the context holds nothing new. */
	attr.fd = a.mem_fd;
	ASSERT_ERR(try_reg(&a, &attr), EPERM);
	client_close(&a);
	client_exercise(&b, &b);
	client_close(&b);
	rig_close(&rig);
}

#ifndef MFD_HUGETLB
#define MFD_HUGETLB 4u
#endif

/* A hole punched in huge pages may not be filled again, and then faults; and a part of one is never unmapped. */
TEST(huge_pages_are_refused)
{
	int fd = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
	struct nic_mr_attr attr = {.kind = NIC_MEM_MEMFD,
				   .fd = fd,
				   .length_bytes = 4096,
				   .access = NIC_ACCESS_ALL};
	struct nic_queue_mem mem = {.kind = NIC_MEM_MEMFD, .fd = fd, .length_bytes = 1 << 30};
	struct nic_queues *queues = NULL;
	struct nic_queues_attr queues_attr;
	struct nic_layout layout;
	struct client c;
	struct rig rig;

	if (fd < 0)
		test_skip("no memfd of huge pages on this kernel");
	ASSERT_OK(ftruncate(fd, 1 << 30));
	ASSERT_OK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	rig_open_mlx5(&rig, 1, NULL);
	client_open_ctx(&c, rig.nic[0], 1);
	ASSERT_ERR(try_reg(&c, &attr), EBADF);
	client_attr(&queues_attr, 1, 0);
	ASSERT_OK(nic_layout_init(&layout, &queues_attr));
	ASSERT_ERR(rig.nic[0]->ops->queues_create(c.ctx, &mem, &layout, &queues), EBADF);
	nic_layout_deinit(&layout);
	close(fd);
	client_close(&c);
	rig_close(&rig);
}

/* ---- opening --------------------------------------------------------------------------------------------------------- */

static uint32_t effective_caps(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	ASSERT_OK(syscall(SYS_capget, &head, data));
	return data[0].effective;
}

static uint32_t caps_at_open;
static unsigned int n_opened;

/* In the place of libmlx5's, which it calls. */
struct ibv_context *mlx5dv_open_device(struct ibv_device *device, struct mlx5dv_context_attr *attr)
{
	struct ibv_context *(*real)(struct ibv_device *, struct mlx5dv_context_attr *);

	*(void **)&real = dlsym(RTLD_NEXT, "mlx5dv_open_device");
	ASSERT(real);
	caps_at_open |= effective_caps();
	n_opened++;
	return real(device, attr);
}

TEST(capabilities_that_would_stick_to_a_context_are_laid_down)
{
	const uint32_t stick = CAP_TO_MASK(CAP_NET_RAW) | CAP_TO_MASK(CAP_SYS_RAWIO);
	uint32_t had;
	struct client c;
	struct rig rig;

	/* Root of a container may have one of them alone; whoever has none is root of a namespace of his own. */
	if (!(effective_caps() & stick) && unshare(CLONE_NEWUSER) < 0)
		test_skip("neither capabilities nor a user namespace to have them in");
	had = effective_caps();
	if (!(had & stick))
		test_skip("no capabilities in a user namespace");
	rig_open_mlx5(&rig, 1, NULL);
	client_open_ctx(&c, rig.nic[0], 1);
	ASSERT_GE(n_opened, 2u);
	ASSERT_EQ(caps_at_open & stick, 0u);
	ASSERT_EQ(effective_caps(), had);
	client_close(&c);
	rig_close(&rig);
}

TEST(a_device_without_its_node_is_told)
{
	const char *root = getenv("MLX5SIM_ROOT");
	const struct nic_mlx5_attr attr = {0};
	struct nic_mlx5_report report;
	char node[256], away[256];
	struct rig rig;

	if (!root)
		test_skip("nodes of real devices stay");
	snprintf(node, sizeof(node), "%s/dev/infiniband/uverbs1", root);
	snprintf(away, sizeof(away), "%s/uverbs1", root);
	ASSERT_OK(rename(node, away));
	list_init(&rig.nics);
	ASSERT_OK(nic_mlx5_probe(&attr, &rig.nics, &report));
	ASSERT_OK(rename(away, node));
	ASSERT_STREQ(report.unusable, "/dev/infiniband/uverbs1: No such file or directory");
	ASSERT(rig.nics.next->next == &rig.nics);
	rig_close(&rig);
}
