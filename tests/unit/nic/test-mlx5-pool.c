/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts that the mlx5 backend makes in advance, by the contract of nic.h, on two simulated ConnectX NICs. Whatever a
 * test does, each device that is closed again must hold nothing: the last close would hide what was forgotten.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/mlx5dv.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl.h>

#include "client.h"
#include "daemon/nic/mlx5/mlx5-bell.h"
#include "kernel-objects.h"
#include "proto/base/nsec.h"
#include "tests/lib/sim-nic.h"
#include "tests/lib/test.h"

/* ---- devices that are opened and closed ------------------------------------------------------------------------------ */

static unsigned int n_opened, n_closed;

/* In the place of libmlx5's, which it calls. */
struct ibv_context *mlx5dv_open_device(struct ibv_device *device, struct mlx5dv_context_attr *attr)
{
	struct ibv_context *(*real)(struct ibv_device *, struct mlx5dv_context_attr *);

	*(void **)&real = dlsym(RTLD_NEXT, "mlx5dv_open_device");
	ASSERT(real);
	__atomic_fetch_add(&n_opened, 1, __ATOMIC_RELAXED);
	return real(device, attr);
}

static bool is_failing, is_shared;
static unsigned int n_left; /* objects that are made before none is any more */

static bool makes_object(const struct ib_uverbs_ioctl_hdr *hdr)
{
	return (hdr->object_id == MLX5_IB_OBJECT_DEVX_OBJ && hdr->method_id == MLX5_IB_METHOD_DEVX_OBJ_CREATE) ||
	       (hdr->object_id == MLX5_IB_OBJECT_DEVX_UMEM && hdr->method_id == MLX5_IB_METHOD_DEVX_UMEM_REG) ||
	       (hdr->object_id == MLX5_IB_OBJECT_UAR && hdr->method_id == MLX5_IB_METHOD_UAR_OBJ_ALLOC);
}

/* The backend's own calls: as a kernel without room. */
int ioctl(int fd, unsigned long request, ...)
{
	int (*real)(int, unsigned long, ...);
	va_list ap;
	void *arg;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (is_failing && request == RDMA_VERBS_IOCTL && makes_object(arg)) {
		if (n_left == 0) {
			errno = ENOSPC;
			return -1;
		}
		n_left--;
	}
	*(void **)&real = dlsym(RTLD_NEXT, "ioctl");
	ASSERT(real);
	return real(fd, request, arg);
}

/* Likewise libibverbs'. */
int ibv_close_device(struct ibv_context *ibv)
{
	int (*real)(struct ibv_context *);

	*(void **)&real = dlsym(RTLD_NEXT, "ibv_close_device");
	ASSERT(real);
	if (!is_shared) {
		ASSERT_LE(kernel_objects(ibv->cmd_fd, MLX5_IB_OBJECT_DEVX_OBJ), 0);
		ASSERT_LE(kernel_objects(ibv->cmd_fd, MLX5_IB_OBJECT_DEVX_UMEM), 0);
		ASSERT_LE(kernel_objects(ibv->cmd_fd, UVERBS_OBJECT_MR), 0);
		ASSERT_LE(kernel_objects(ibv->cmd_fd, UVERBS_OBJECT_PD), 0);
	}
	__atomic_fetch_add(&n_closed, 1, __ATOMIC_RELAXED);
	return real(ibv);
}

/* ---- the pool -------------------------------------------------------------------------------------------------------- */

static struct nic_ctx_pool_info info_of(struct nic *nic)
{
	struct nic_ctx_pool_info info;

	ASSERT_OK(nic->ops->ctx_pool_query(nic, &info));
	return info;
}

static void set_pool(struct nic *nic, unsigned int n_ctxs, unsigned int n_qps)
{
	struct nic_ctx_pool_attr attr = {.n_ctxs = n_ctxs};

	if (n_qps)
		client_attr(&attr.queues, n_qps, 0);
	ASSERT_OK(nic->ops->ctx_pool_set(nic, &attr));
}

static unsigned int work_off(struct nic *nic)
{
	unsigned int n = 0;
	int r;

	while ((r = nic->ops->ctx_pool_step(nic)) == 0)
		n++;
	ASSERT_ERR(r, EAGAIN);
	ASSERT_EQ(info_of(nic).todo, NIC_CTX_POOL_NOTHING);
	return n;
}

static void fill(struct nic *nic, unsigned int n_ctxs, unsigned int n_qps)
{
	set_pool(nic, n_ctxs, n_qps);
	work_off(nic);
	ASSERT_EQ(info_of(nic).n_ready, n_ctxs);
}

static int take(struct client *c, unsigned int n_qps)
{
	struct nic_queues_attr attr;

	client_attr(&attr, n_qps, 0);
	return client_take(c, &attr);
}

/* As client_open() does it, without a command but for the region. */
static void open_pooled(struct client *c, struct nic *nic, uint64_t session_id, unsigned int n_qps)
{
	client_open_ctx(c, nic, session_id);
	ASSERT_OK(take(c, n_qps));
	client_reg(c);
}

static void wait_event(struct nic *nic, enum nic_event_kind kind, struct nic_event *ret_event)
{
	struct pollfd pfd = {.fd = nic->event_fd, .events = POLLIN};
	uint64_t end = nsec_now() + CLIENT_LIMIT_NSEC;

	do {
		ASSERT_LT(nsec_now(), end);
		poll(&pfd, 1, 100);
	} while (client_next_event(nic, ret_event) < 0 || ret_event->kind != kind);
}

/* ---- a context like any other ---------------------------------------------------------------------------------------- */

static void expect_same_cq(const struct nic_cq *a, const struct nic_cq *b)
{
	ASSERT_EQ(a->log2_entries, b->log2_entries);
	ASSERT_EQ(a->flags, b->flags);
	ASSERT_EQ(a->ring_offset, b->ring_offset);
	ASSERT_EQ(a->dbrec_offset, b->dbrec_offset);
}

static void expect_same_qp(const struct nic_qp *a, const struct nic_qp *b)
{
	ASSERT_EQ(a->type, b->type);
	ASSERT_EQ(a->log2_sq_wqebbs, b->log2_sq_wqebbs);
	ASSERT_EQ(a->n_rq_wqes, b->n_rq_wqes);
	ASSERT_EQ(a->log2_rq_stride, b->log2_rq_stride);
	ASSERT_EQ(a->flags, b->flags);
	ASSERT_EQ(a->access, b->access);
	ASSERT_EQ(a->rq_offset, b->rq_offset);
	ASSERT_EQ(a->sq_offset, b->sq_offset);
	ASSERT_EQ(a->dbrec_offset, b->dbrec_offset);
	ASSERT_NE(a->qpn, b->qpn);
	ASSERT_EQ(a->addr.qpn, a->qpn);
	ASSERT_EQ(a->addr.link, b->addr.link);
	ASSERT_EQ(a->addr.mtu_log2, b->addr.mtu_log2);
	ASSERT_EQ(a->addr.lid, b->addr.lid);
	ASSERT_MEMEQ(a->addr.gid, b->addr.gid, 16);
	ASSERT_MEMEQ(a->addr.mac, b->addr.mac, 6);
	ASSERT_EQ(a->addr.dc_key, 0u);
}

static void expect_same_queues(const struct client *a, const struct client *b)
{
	const struct nic_layout *is = &a->queues->layout, *fresh = &b->queues->layout;

	ASSERT_EQ(is->n_qps, fresh->n_qps);
	ASSERT_EQ(is->n_cqs, fresh->n_cqs);
	ASSERT_EQ(is->total_bytes, fresh->total_bytes);
	for (uint32_t i = 0; i < is->n_cqs; i++)
		expect_same_cq(&is->cqs[i], &fresh->cqs[i]);
	for (uint32_t i = 0; i < is->n_qps; i++)
		expect_same_qp(&is->qps[i], &fresh->qps[i]);
	/* Rings, records, error words: every byte. */
	ASSERT_MEMEQ(a->queue_mem, b->queue_mem, is->total_bytes);
}

static void expect_new(struct client *c)
{
	const struct nic_ops *ops = c->ctx->nic->ops;
	struct nic_counters counters;
	struct nic_qp_info info;

	ASSERT_OK(ops->ctx_counters(c->ctx, &counters));
	ASSERT_EQ(counters.error_cqes + counters.rnr_naks + counters.retries, 0u);
	for (unsigned int i = 0; i < c->n_qps; i++) {
		ASSERT_OK(ops->qp_query(c->ctx, client_qpn(c, i), &info));
		ASSERT_EQ(info.state, NIC_QPS_RST);
		ASSERT_EQ(info.first_error, 0u);
	}
}

TEST(a_context_of_the_pool_is_as_a_fresh_one)
{
	struct client pooled, fresh;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	fill(rig.nic[0], 1, 3);
	open_pooled(&pooled, rig.nic[0], 7, 3);
	client_open(&fresh, rig.nic[0], 8, 3);
	ASSERT_EQ(pooled.ctx->session_id, 7u);
	ASSERT_EQ(pooled.ctx->doorbell.mode, fresh.ctx->doorbell.mode);
	ASSERT_EQ(pooled.ctx->doorbell.register_offset, fresh.ctx->doorbell.register_offset);
	ASSERT_EQ(pooled.ctx->doorbell.wake_fd, -1);
	expect_same_queues(&pooled, &fresh);
	expect_new(&pooled);
	client_connect(&pooled, 0, &fresh, 0);
	client_exercise(&pooled, &fresh);
	client_exercise(&fresh, &pooled);
	client_send_and_receive(&pooled, &fresh);
	client_send_and_receive(&fresh, &pooled);
	client_connect(&pooled, 1, &pooled, 2);
	client_close(&pooled);
	client_close(&fresh);
	rig_close(&rig);
}

TEST(errors_of_queues_of_the_pool_are_reported_to_their_session)
{
	struct nic_event event;
	struct nic_counters counters;
	struct client a, b;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	fill(rig.nic[0], 2, 1);
	open_pooled(&a, rig.nic[0], 21, 1);
	open_pooled(&b, rig.nic[0], 22, 1);
	client_connect(&a, 0, &b, 0);
	b.mr->rkey ^= 0x5500;
	client_post_write(&a, 0, 0, &b, 0, 64);
	b.mr->rkey ^= 0x5500;
	client_ring(&a, 0);
	wait_event(rig.nic[0], NIC_EVENT_QP_ERROR, &event);
	/* The responder fails too, by its own event. */
	while (event.session_id != 21)
		wait_event(rig.nic[0], NIC_EVENT_QP_ERROR, &event);
	ASSERT_EQ(event.number, client_qpn(&a, 0));
	ASSERT_EQ(event.syndrome, SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	ASSERT_OK(rig.nic[0]->ops->ctx_counters(a.ctx, &counters));
	ASSERT_GT(counters.error_cqes, 0u);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

TEST(doorbell_mode_cpu_rings_queues_of_the_pool)
{
	struct client a, b;
	struct rig rig;

	if (!MLX5_HAS_BELL)
		test_skip("doorbell mode cpu is for x86");
	rig_open_mlx5(&rig, 1, NULL);
	fill(rig.nic[0], 2, 1);
	client_open_ctx_as(&a, rig.nic[0], 1, NIC_DOORBELL_CPU);
	ASSERT_OK(take(&a, 1));
	client_reg(&a);
	open_pooled(&b, rig.nic[0], 2, 1);
	ASSERT_EQ(a.ctx->doorbell.mode, NIC_DOORBELL_CPU);
	ASSERT_EQ(b.ctx->doorbell.mode, NIC_DOORBELL_UAR_MMAP);
	client_connect(&a, 0, &b, 0);
	client_exercise(&a, &b);
	client_exercise(&b, &a);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

/* Its queues are heard that come after the change, and no number of theirs before. */
TEST(a_context_of_the_pool_changes_to_mode_cpu_before_its_queues_are_taken)
{
	uint8_t *uar, *page;
	uint64_t one = 1;
	struct client c;
	struct rig rig;

	if (!MLX5_HAS_BELL)
		test_skip("doorbell mode cpu is for x86");
	rig_open_mlx5(&rig, 1, NULL);
	fill(rig.nic[0], 1, 1);
	client_open_ctx(&c, rig.nic[0], 1);
	ASSERT_OK(rig.nic[0]->ops->ctx_to_cpu(c.ctx));
	ASSERT_OK(take(&c, 1));
	client_reg(&c);
	client_connect(&c, 0, &c, 0);
	uar = c.doorbell_page;
	page = mmap(NULL, SHMD_DB_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, c.ctx->doorbell.page_fd, 0);
	ASSERT(page != MAP_FAILED);
	c.doorbell_page = page;
	for (uint64_t i = 1; i <= 4; i++) {
		client_post_inline(&c, 0, i, &c, 0);
		client_ring(&c, 0);
		ASSERT_EQ(write(c.ctx->doorbell.wake_fd, &one, sizeof(one)), (ssize_t)sizeof(one));
		client_complete(&c, 0);
		ASSERT_EQ(client_word(&c, 0), i);
	}
	c.doorbell_page = uar;
	munmap(page, SHMD_DB_PAGE_BYTES);
	client_close(&c);
	rig_close(&rig);
}

TEST(taking_sends_no_command_and_an_attached_qp_at_most_five)
{
	struct client c;
	struct rig rig;
	uint64_t before;

	rig_open_mlx5(&rig, 1, NULL);
	fill(rig.nic[0], 1, 1);
	before = sim_nic_commands(0);
	client_open_ctx(&c, rig.nic[0], 1);
	ASSERT_OK(take(&c, 1));
	ASSERT_EQ(sim_nic_commands(0) - before, 0u);
	client_connect(&c, 0, &c, 0);
	ASSERT_LE(sim_nic_commands(0) - before, 5u);
	client_close(&c);
	rig_close(&rig);
}

/* ---- handed out once --------------------------------------------------------------------------------------------------- */

TEST(pooled_contexts_are_handed_out_once)
{
	struct client c[3];
	struct rig rig;
	unsigned int had;

	rig_open_mlx5(&rig, 1, NULL);
	had = n_opened;
	fill(rig.nic[0], 3, 2);
	ASSERT_EQ(n_opened - had, 3u);
	for (int i = 0; i < 3; i++)
		open_pooled(&c[i], rig.nic[0], 1 + (uint64_t)i, 2);
	ASSERT_EQ(info_of(rig.nic[0]).n_ready, 0u);
	for (int i = 0; i < 3; i++) {
		const struct client *other = &c[(i + 1) % 3];

		ASSERT_NE(c[i].ctx->doorbell.page_fd, other->ctx->doorbell.page_fd);
		ASSERT_NE(c[i].queue_fd, other->queue_fd);
		ASSERT_NE(client_qpn(&c[i], 0), client_qpn(other, 0));
		ASSERT_NE(c[i].mr->rkey, other->mr->rkey);
		ASSERT_NE(c[i].queues->layout.qps[0].addr.psn, other->queues->layout.qps[0].addr.psn);
	}
	had = n_closed;
	for (int i = 0; i < 3; i++)
		client_close(&c[i]);
	/* Each was closed with its session, and what comes next is opened anew. */
	ASSERT_EQ(n_closed - had, 3u);
	ASSERT_EQ(info_of(rig.nic[0]).n_ready, 0u);
	had = n_opened;
	ASSERT_EQ(work_off(rig.nic[0]), 3u);
	ASSERT_EQ(n_opened - had, 3u);
	ASSERT_EQ(info_of(rig.nic[0]).n_made, 6u);
	ASSERT_EQ(info_of(rig.nic[0]).n_handed_out, 3u);
	rig_close(&rig);
	ASSERT_EQ(n_opened, n_closed);
}

struct crowd {
	struct nic *nic;
	bool over;
};

static void *refill(void *arg)
{
	const struct timespec pause = {.tv_nsec = 100000};
	struct crowd *crowd = arg;

	while (!__atomic_load_n(&crowd->over, __ATOMIC_ACQUIRE))
		if (crowd->nic->ops->ctx_pool_step(crowd->nic) < 0)
			nanosleep(&pause, NULL);
	return NULL;
}

static void *come_and_go(void *arg)
{
	struct crowd *crowd = arg;
	struct client c;

	for (uint64_t i = 0; i < 6; i++) {
		client_open_ctx(&c, crowd->nic, 1 + i);
		if (take(&c, 1) < 0)
			client_create(&c, 1, 0);
		client_reg(&c);
		client_connect(&c, 0, &c, 0);
		client_exercise(&c, &c);
		client_close(&c);
	}
	return NULL;
}

TEST(sessions_take_while_a_thread_refills)
{
	struct nic_ctx_pool_info info;
	struct crowd crowd = {0};
	pthread_t filler, threads[4];
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	crowd.nic = rig.nic[0];
	fill(crowd.nic, 3, 1);
	ASSERT_EQ(pthread_create(&filler, NULL, refill, &crowd), 0);
	for (int i = 0; i < 4; i++)
		ASSERT_EQ(pthread_create(&threads[i], NULL, come_and_go, &crowd), 0);
	for (int i = 0; i < 4; i++)
		ASSERT_EQ(pthread_join(threads[i], NULL), 0);
	__atomic_store_n(&crowd.over, true, __ATOMIC_RELEASE);
	ASSERT_EQ(pthread_join(filler, NULL), 0);
	info = info_of(crowd.nic);
	ASSERT_EQ(info.n_handed_out + info.missed_empty, 24u);
	ASSERT_EQ(info.n_batches_handed_out, info.n_handed_out);
	ASSERT_EQ(info.n_made, info.n_handed_out + info.n_ready);
	ASSERT_GE(info.n_handed_out, 3u);
	rig_close(&rig);
	ASSERT_EQ(n_opened, n_closed);
}

/* ---- what does not fit ------------------------------------------------------------------------------------------------- */

TEST(an_empty_pool_is_no_obstacle)
{
	struct client a, b;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	fill(rig.nic[0], 1, 1);
	open_pooled(&a, rig.nic[0], 1, 1);
	client_open_ctx(&b, rig.nic[0], 2);
	ASSERT_EQ(info_of(rig.nic[0]).missed_empty, 1u);
	ASSERT_ERR(take(&b, 1), ENOENT);
	client_create(&b, 1, 0);
	client_reg(&b);
	client_connect(&a, 0, &b, 0);
	client_exercise(&a, &b);
	/* A second batch of one context, too. */
	ASSERT_ERR(a.ctx->nic->ops->queues_take(a.ctx, &(struct nic_layout){0}, &(int){-1}, &(struct nic_queues *){NULL}),
		   ENOENT);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

TEST(another_shape_takes_the_context_and_not_its_queues)
{
	struct nic_queues_attr attr[4];
	struct client c;
	struct rig rig;
	uint64_t made;

	rig_open_mlx5(&rig, 1, NULL);
	fill(rig.nic[0], 1, 2);
	client_open_ctx(&c, rig.nic[0], 1);
	for (int i = 0; i < 4; i++)
		client_attr(&attr[i], 2, 0);
	attr[0].qps[0].log2_sq_wqebbs++;
	attr[1].qps[0].count = 1;
	attr[1].qps[0].recv_cq_first = 1;
	attr[2].cqs[0].flags = NIC_CQ_OVERRUN_IGNORE;
	/* The other's CQ: as many of the same, and yet not these. */
	attr[3].qps[0].recv_cq_first = 1;
	attr[3].qps[0].recv_cq_step = 0;
	for (unsigned int i = 0; i < 4; i++) {
		ASSERT_ERR(client_take(&c, &attr[i]), ENOENT);
		ASSERT_EQ(info_of(rig.nic[0]).missed_shape, i + 1u);
	}
	made = info_of(rig.nic[0]).n_batches_handed_out;
	ASSERT_EQ(made, 0u);
	client_create_as(&c, &attr[0]);
	/* Nothing of what was passed over is left. */
	ASSERT_EQ(kernel_objects(c.ctx->doorbell.page_fd, MLX5_IB_OBJECT_DEVX_UMEM), 1);
	client_reg(&c);
	client_connect(&c, 0, &c, 1);
	client_exercise(&c, &c);
	ASSERT_EQ(info_of(rig.nic[0]).missed_memory, 0u);
	client_close(&c);
	rig_close(&rig);
}

TEST(rights_of_peers_are_those_of_the_request)
{
	struct nic_queues_attr attr;
	struct shmd_cqe cqe;
	struct client a, b;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	fill(rig.nic[0], 2, 1);
	open_pooled(&a, rig.nic[0], 1, 1);
	client_open_ctx(&b, rig.nic[0], 2);
	client_attr(&attr, 1, NIC_QP_GPU_DRIVEN);
	attr.qps[0].access = NIC_ACCESS_REMOTE_READ;
	ASSERT_OK(client_take(&b, &attr));
	ASSERT_EQ(b.queues->layout.qps[0].access, NIC_ACCESS_REMOTE_READ);
	ASSERT_EQ(b.queues->layout.qps[0].flags, NIC_QP_GPU_DRIVEN);
	client_reg(&b);
	client_connect(&a, 0, &b, 0);
	client_post_read(&a, 0, 0, &b, 0, 64);
	client_ring(&a, 0);
	client_complete(&a, 0);
	client_post_write(&a, 0, 0, &b, 0, 64);
	client_ring(&a, 0);
	ASSERT(client_poll(&a, 0, &cqe, CLIENT_LIMIT_NSEC));
	ASSERT_EQ(client_cqe_opcode(&cqe), SHMD_CQE_REQ_ERR);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

TEST(queues_in_the_clients_own_memory_pass_the_pool_by)
{
	struct client c;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	fill(rig.nic[0], 1, 1);
	client_open_ctx(&c, rig.nic[0], 1);
	client_create(&c, 1, 0);
	ASSERT_EQ(kernel_objects(c.ctx->doorbell.page_fd, MLX5_IB_OBJECT_DEVX_UMEM), 1);
	client_reg(&c);
	ASSERT_EQ(info_of(rig.nic[0]).missed_memory, 1u);
	ASSERT_EQ(info_of(rig.nic[0]).missed_shape, 0u);
	client_connect(&c, 0, &c, 0);
	client_exercise(&c, &c);
	client_close(&c);
	rig_close(&rig);
}

/* Their numbers were never published: a request that guesses them finds nothing. */
TEST(queues_that_were_not_handed_out_have_no_number)
{
	const struct nic_ops *ops;
	struct nic_qp_info info;
	struct client a, b;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	ops = rig.nic[0]->ops;
	fill(rig.nic[0], 1, 8);
	client_open_ctx(&a, rig.nic[0], 1);
	client_open(&b, rig.nic[0], 2, 1);
	for (uint32_t qpn = client_qpn(&b, 0); qpn > client_qpn(&b, 0) - 64 && qpn > 0; qpn--) {
		ASSERT_ERR(ops->qp_query(a.ctx, qpn, &info), EINVAL);
		ASSERT_ERR(ops->qp_modify(a.ctx, qpn, NIC_QPS_INIT), EINVAL);
	}
	ASSERT_OK(take(&a, 8));
	ASSERT_OK(ops->qp_query(a.ctx, client_qpn(&a, 7), &info));
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

/* ---- settings that change ---------------------------------------------------------------------------------------------- */

TEST(the_pool_follows_its_settings)
{
	struct nic_ctx_pool_attr attr = {.n_ctxs = 1};
	struct client c;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	ASSERT_EQ(info_of(rig.nic[0]).todo, NIC_CTX_POOL_NOTHING);
	ASSERT_ERR(rig.nic[0]->ops->ctx_pool_step(rig.nic[0]), EAGAIN);
	fill(rig.nic[0], 3, 1);
	/* The same again changes nothing. */
	set_pool(rig.nic[0], 3, 1);
	ASSERT_EQ(work_off(rig.nic[0]), 0u);
	set_pool(rig.nic[0], 1, 1);
	ASSERT_EQ(info_of(rig.nic[0]).n_ready, 1u);
	ASSERT_EQ(info_of(rig.nic[0]).todo, NIC_CTX_POOL_DESTROY);
	ASSERT_EQ(work_off(rig.nic[0]), 2u);
	/* Another shape: none of before is handed out. */
	set_pool(rig.nic[0], 1, 4);
	ASSERT_EQ(info_of(rig.nic[0]).n_ready, 0u);
	ASSERT_EQ(work_off(rig.nic[0]), 2u);
	open_pooled(&c, rig.nic[0], 1, 4);
	client_close(&c);
	/* Contexts alone. */
	fill(rig.nic[0], 1, 0);
	client_open_ctx(&c, rig.nic[0], 1);
	ASSERT_ERR(take(&c, 1), ENOENT);
	ASSERT_EQ(info_of(rig.nic[0]).missed_shape, 0u);
	client_close(&c);
	set_pool(rig.nic[0], 0, 0);
	work_off(rig.nic[0]);
	ASSERT_EQ(info_of(rig.nic[0]).n_ready, 0u);
	/* Queues that make no sense, and such as belong to a request. */
	client_attr(&attr.queues, 1, 0);
	attr.queues.qps[0].log2_sq_wqebbs = 16;
	ASSERT_ERR(rig.nic[0]->ops->ctx_pool_set(rig.nic[0], &attr), EINVAL);
	client_attr(&attr.queues, 1, 0);
	attr.queues.qps[0].type = NIC_QP_DCI;
	ASSERT_ERR(rig.nic[0]->ops->ctx_pool_set(rig.nic[0], &attr), EINVAL);
	rig_close(&rig);
	ASSERT_EQ(n_opened, n_closed);
}

/* At every object of the NIC in turn. */
TEST(failure_to_make_a_context_leaves_nothing_and_fails_no_session)
{
	unsigned int n_failed = 0;
	struct nic_ctx_pool_info info;
	struct client c;
	struct rig rig;
	int r;

	rig_open_mlx5(&rig, 1, NULL);
	set_pool(rig.nic[0], 1, 2);
	do {
		n_left = n_failed;
		is_failing = true;
		r = rig.nic[0]->ops->ctx_pool_step(rig.nic[0]);
		is_failing = false;
		info = info_of(rig.nic[0]);
		n_failed += r < 0;
		ASSERT_EQ(info.n_failed, n_failed);
		ASSERT_EQ(info.n_ready, r == 0);
		if (r < 0)
			ASSERT_ERR(r, ENOSPC);
		ASSERT_LT(n_failed, 32u);
	} while (r < 0);
	/* The page; where objects are made by own calls also counters, memory, and a CQ and a QP twice. */
	ASSERT(n_failed == 1 || n_failed == 7);
	open_pooled(&c, rig.nic[0], 1, 2);
	client_close(&c);
	rig_close(&rig);
	ASSERT_EQ(n_opened, n_closed);
}

TEST(a_session_comes_while_the_pool_fails)
{
	struct client c;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	set_pool(rig.nic[0], 1, 2);
	n_left = 0;
	is_failing = true;
	rig.nic[0]->ops->ctx_pool_step(rig.nic[0]);
	is_failing = false;
	client_open(&c, rig.nic[0], 1, 1);
	client_connect(&c, 0, &c, 0);
	client_exercise(&c, &c);
	client_close(&c);
	rig_close(&rig);
}

/* ---- what befalls the NIC ---------------------------------------------------------------------------------------------- */

static void wait_gid(struct nic *nic, const uint8_t before[16], uint8_t ret_gid[16])
{
	const struct timespec pause = {.tv_nsec = 2000000};
	uint64_t end = nsec_now() + CLIENT_LIMIT_NSEC;
	struct nic_event event;
	struct nic_info info;

	do {
		ASSERT_LT(nsec_now(), end);
		nanosleep(&pause, NULL);
		while (client_next_event(nic, &event) == 0)
			;
		ASSERT_OK(nic_query(nic, &info));
	} while (memcmp(info.gid, before, 16) == 0);
	memcpy(ret_gid, info.gid, 16);
}

TEST(addresses_are_those_of_the_day_they_are_handed_out)
{
	uint8_t before[16], now[16];
	struct nic_info info;
	struct client c;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	ASSERT_OK(nic_query(rig.nic[0], &info));
	if (info.link == NIC_LINK_INFINIBAND)
		test_skip("the simulator changes addresses on RoCE alone");
	memcpy(before, info.gid, 16);
	fill(rig.nic[0], 2, 1);
	sim_nic_happen("gid-gone 0");
	wait_gid(rig.nic[0], before, now);
	open_pooled(&c, rig.nic[0], 1, 1);
	ASSERT_MEMEQ(c.queues->layout.qps[0].addr.gid, now, 16);
	client_connect(&c, 0, &c, 0);
	client_exercise(&c, &c);
	client_close(&c);
	sim_nic_happen("gid-back 0");
	wait_gid(rig.nic[0], now, before);
	open_pooled(&c, rig.nic[0], 2, 1);
	ASSERT_MEMEQ(c.queues->layout.qps[0].addr.gid, before, 16);
	client_connect(&c, 0, &c, 0);
	client_exercise(&c, &c);
	client_close(&c);
	rig_close(&rig);
}

TEST(a_lost_nic_drops_its_pool_and_one_that_returns_has_a_new_one)
{
	struct nic_ctx_attr attr = {.session_id = 9, .health_fd = -1};
	struct nic_ctx *ctx = NULL;
	struct nic_event event;
	unsigned int closed;
	struct client c;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	fill(rig.nic[0], 3, 2);
	closed = n_closed;
	sim_nic_happen("fatal 0");
	wait_event(rig.nic[0], NIC_EVENT_LOST, &event);
	ASSERT_EQ(info_of(rig.nic[0]).n_ready, 0u);
	ASSERT_ERR(rig.nic[0]->ops->ctx_open(rig.nic[0], &attr, &ctx), ENODEV);
	ASSERT_EQ(work_off(rig.nic[0]), 3u);
	ASSERT_EQ(n_closed - closed, 3u);
	sim_nic_happen("return 0");
	wait_event(rig.nic[0], NIC_EVENT_RETURNED, &event);
	ASSERT_EQ(info_of(rig.nic[0]).todo, NIC_CTX_POOL_MAKE);
	ASSERT_EQ(work_off(rig.nic[0]), 3u);
	open_pooled(&c, rig.nic[0], 1, 2);
	client_connect(&c, 0, &c, 1);
	client_exercise(&c, &c);
	client_close(&c);
	rig_close(&rig);
	ASSERT_EQ(n_opened, n_closed);
}

/* No client knows those queues: the process that goes on destroys them, and until then they can be handed out. */
TEST(a_record_names_no_unused_queues)
{
	struct nic_imported imported;
	struct nic_import_attr attr = {.ctx = {.session_id = 1, .health_fd = -1}, .shared = true};
	struct client c;
	struct rig rig;
	void *record;

	rig_open_mlx5(&rig, 1, NULL);
	fill(rig.nic[0], 1, 4);
	client_open_ctx(&c, rig.nic[0], 1);
	ASSERT_OK(client_export(&c, &record, &attr.record_bytes));
	ASSERT_OK(rig.nic[0]->ops->ctx_saved_fds(c.ctx, &attr.fds));
	attr.record = record;
	ASSERT_OK(rig.nic[0]->ops->ctx_import(rig.nic[0], &attr, &imported));
	ASSERT_EQ(imported.n_queues, 0u);
	is_shared = true;
	ASSERT(!rig.nic[0]->ops->ctx_unimport(imported.ctx));
	is_shared = false;
	nic_imported_deinit(&imported);
	ASSERT_OK(take(&c, 4));
	client_reg(&c);
	client_connect(&c, 0, &c, 1);
	client_exercise(&c, &c);
	client_close(&c);
	free(record);
	rig_close(&rig);
}
