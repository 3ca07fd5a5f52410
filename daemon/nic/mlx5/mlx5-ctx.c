/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: one session on one NIC. Its device context, PD, doorbell page, counters and event channel are its own, so
 * that the command descriptor that its client gets reaches nothing of another session.
 *
 * A client that maps the doorbell page keeps the kernel's context alive, so nothing here is left to the last close:
 * every object is destroyed explicitly.
 */
#include "daemon/nic/mlx5/mlx5.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <shmd/abi/doorbell.h>

#include "proto/base/assert.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

#define FLUSH_POLL_NSEC 20000u
#define FLUSH_POLL_MAX_NSEC 2000000u

/* The NIC keeps its counts: exported counters never fall. */
static void leave_nic(struct mlx5_ctx *ctx)
{
	struct mlx5_nic *nic = ctx->nic;

	pthread_mutex_lock(&nic->lock);
	list_del(&ctx->link);
	nic_counters_add(&nic->past, &ctx->counters);
	pthread_mutex_unlock(&nic->lock);
}

void mlx5_ctx_close_page(struct mlx5_ctx *ctx)
{
	struct mlx5_page *page;

	pthread_mutex_lock(&ctx->nic->lock);
	page = take_ptr(ctx->page);
	list_del(&ctx->page_news.link);
	pthread_mutex_unlock(&ctx->nic->lock);
	mlx5_page_free(page);
}

/* Half-built safe: in the order of teardown. */
static struct mlx5_ctx *ctx_free(struct mlx5_ctx *ctx)
{
	if (!ctx)
		return NULL;
	mlx5_pooled_drop(ctx);
	leave_nic(ctx);
	if (ctx->events) {
		mlx5_events_unwatch(ctx->nic, ctx->events->fd);
		mlx5dv_devx_destroy_event_channel(ctx->events);
	}
	mlx5_rmp_deinit(ctx);
	mlx5_object_destroy(ctx->counter_set);
	mlx5_ctx_close_page(ctx);
	mlx5_uar_free(ctx->uar);
	/* As with regions: an object that the kernel does not destroy is forgotten here. */
	if (ctx->pd && ibv_dealloc_pd(ctx->pd))
		ibv_unimport_pd(ctx->pd);
	if (ctx->ibv)
		ibv_close_device(ctx->ibv);
	/* The mapper's duplicate of the command descriptor goes last. */
	mlx5_memory_leave(ctx);
	hash_deinit(&ctx->qps);
	hash_deinit(&ctx->cqs);
	free(ctx);
	return NULL;
}
DEFINE_CLEANUP(struct mlx5_ctx *, ctx_free);

struct mlx5_ctx *mlx5_ctx_alloc(struct mlx5_nic *nic, const struct nic_ctx_attr *attr)
{
	struct mlx5_ctx *ctx = calloc(1, sizeof(*ctx));

	if (!ctx)
		return NULL;
	ctx->base.nic = &nic->base;
	ctx->base.session_id = attr->session_id;
	ctx->uid = attr->uid;
	ctx->base.doorbell.page_fd = -1;
	ctx->base.doorbell.nic_page_fd = -1;
	ctx->base.doorbell.wake_fd = -1;
	ctx->nic = nic;
	ctx->pooled_fd = -1;
	list_init(&ctx->page_news.link);
	hash_init(&ctx->qps);
	hash_init(&ctx->cqs);
	list_init(&ctx->base.mrs);
	list_init(&ctx->base.queues);
	pthread_mutex_lock(&nic->lock);
	ctx->life = nic->life;
	ctx->caps = nic->caps;
	ctx->key = nic->last_key++;
	list_add_tail(&nic->ctxs, &ctx->link);
	pthread_mutex_unlock(&nic->lock);
	return ctx;
}

static int open_pd(struct mlx5_ctx *ctx)
{
	struct mlx5dv_pd pd = {0};
	struct mlx5dv_obj obj = {.pd = {.out = &pd}};

	errno = 0;
	ctx->pd = ibv_alloc_pd(ctx->ibv);
	if (!ctx->pd)
		return mlx5_errno(errno);
	obj.pd.in = ctx->pd;
	if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD))
		return -EIO;
	ctx->pdn = pd.pdn;
	return 0;
}

/* The channel is non-blocking: it is read until it is empty. */
int mlx5_ctx_open_events(struct mlx5_ctx *ctx)
{
	int flags, r;

	errno = 0;
	ctx->events = mlx5dv_devx_create_event_channel(ctx->ibv, 0);
	if (!ctx->events)
		return mlx5_errno(errno);
	flags = fcntl(ctx->events->fd, F_GETFL);
	if (flags < 0 || fcntl(ctx->events->fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	r = mlx5_result(mlx5dv_devx_query_eqn(ctx->ibv, 0, &ctx->eqn));
	return r < 0 ? r : mlx5_events_watch(ctx->nic, ctx->events->fd, ctx->key);
}

static int open_counters(struct mlx5_ctx *ctx)
{
	uint8_t out[PRM_ALLOC_Q_COUNTER_OUT_BYTES];
	struct mlx5_cmd cmd;
	int r;

	mlx5_cmd_alloc_q_counter(&cmd);
	r = mlx5_exec_create(ctx, &cmd, out, &ctx->counter_set);
	if (r == 0)
		ctx->counter_set_id =
			(uint32_t)prm_get(out, PRM_ALLOC_Q_COUNTER_OUT_COUNTER_SET_ID);
	/* Sets are scarce: a session without one works, and counts nothing. */
	return r == -ENOSPC || r == -EOPNOTSUPP ? 0 : r;
}

void mlx5_ctx_make_doorbell(struct mlx5_ctx *ctx)
{
	struct nic_doorbell *doorbell = &ctx->base.doorbell;

	doorbell->mode = NIC_DOORBELL_UAR_MMAP;
	doorbell->page_fd = ctx->ibv->cmd_fd;
	doorbell->page_offset = ctx->uar->mmap_off;
	doorbell->register_offset = SHMD_DB_SEND_OFFSET;
	ctx->base.client_pd = ctx->pd->handle + 1;
}

static void take_page(struct mlx5_ctx *ctx, const struct nic_doorbell *doorbell, struct mlx5_page *page)
{
	pthread_mutex_lock(&ctx->nic->lock);
	ctx->page = page;
	pthread_mutex_unlock(&ctx->nic->lock);
	ctx->base.doorbell = *doorbell;
}

int mlx5_ctx_open_doorbell(struct mlx5_ctx *ctx, enum nic_doorbell_mode mode)
{
	struct nic_doorbell doorbell;
	struct mlx5_page *page;
	int r = 0;

	if (mode == NIC_DOORBELL_CPU)
		r = mlx5_page_open(ctx, NULL, &doorbell, &page);
	else
		mlx5_ctx_make_doorbell(ctx);
	if (r == 0 && mode == NIC_DOORBELL_CPU)
		take_page(ctx, &doorbell, page);
	return r;
}

static int hear_batch(const struct mlx5_page *page, const struct mlx5_queues *queues)
{
	int r = mlx5_memory_is_there(&queues->memory) ? 0 : -EOPNOTSUPP;

	/* It has no memory if all of it is gone, or if the caller of the import did not pass the memory. */
	if (!queues->umem)
		return 0;
	for (uint32_t i = 0; i < queues->base.layout.n_qps && r == 0; i++)
		r = mlx5_qp_hear(page, &queues->qps[i]);
	return r;
}

/* The state of former doorbells is unknown; ringing twice does no harm. */
static int hear_all(struct mlx5_ctx *ctx, const struct nic_saved_fds *fds)
{
	_cleanup_(mlx5_page_freep) struct mlx5_page *page = NULL;
	struct nic_doorbell doorbell = {0};
	const struct mlx5_queues *queues;
	int r = mlx5_page_open(ctx, fds, &doorbell, &page);

	list_for_each_entry(queues, &ctx->base.queues, base.link)
		r = r < 0 ? r : hear_batch(page, queues);
	if (r < 0)
		return r;
	mlx5_page_tell(page, fds ? MAPPER_PAGE_LOOK : MAPPER_PAGE_CATCH_UP);
	take_page(ctx, &doorbell, take_ptr(page));
	return 0;
}

int mlx5_ctx_to_cpu(struct nic_ctx *base)
{
	struct mlx5_ctx *ctx = mlx5_ctx(base);

	if (!MLX5_HAS_BELL)
		return -EOPNOTSUPP;
	return ctx->page ? -EINVAL : hear_all(ctx, NULL);
}

int mlx5_ctx_hear_again(struct mlx5_ctx *ctx, const struct nic_saved_fds *fds)
{
	int r = hear_all(ctx, fds);

	return r == -EOPNOTSUPP ? -EBADF : r;
}

static int ctx_init(struct mlx5_ctx *ctx)
{
	int r = mlx5_open(mlx5_ibv_now(ctx->nic)->device, &ctx->ibv);

	if (r == 0)
		r = open_pd(ctx);
	if (r == 0)
		r = mlx5_uar_alloc(ctx->ibv, &ctx->uar);
	if (r == 0)
		r = mlx5_ctx_open_events(ctx);
	if (r == 0)
		r = open_counters(ctx);
	return r;
}

int mlx5_ctx_make(struct mlx5_nic *nic, const struct nic_ctx_attr *attr, struct mlx5_ctx **ret_ctx)
{
	_cleanup_(ctx_freep) struct mlx5_ctx *ctx = mlx5_ctx_alloc(nic, attr);
	int r;

	if (!ctx)
		return -ENOMEM;
	r = ctx_init(ctx);
	if (r < 0)
		return r;
	*ret_ctx = take_ptr(ctx);
	return 0;
}

struct nic_ctx *mlx5_ctx_close(struct nic_ctx *base)
{
	struct mlx5_ctx *ctx;

	if (!base)
		return NULL;
	ctx = mlx5_ctx(base);
	assert_bug(list_empty(&ctx->base.mrs) && list_empty(&ctx->base.queues));
	ctx_free(ctx);
	return NULL;
}

/* ---- quiesce ------------------------------------------------------------------------------------------------------- */

static bool qp_is_flushed(struct mlx5_ctx *ctx, struct mlx5_qp *qp)
{
	struct nic_qp_info info;

	if (mlx5_qp_ask(ctx, qp, &info) < 0)
		return true;
	return info.sq_pi == info.sq_ci && info.rq_pi == info.rq_ci;
}

/* Polls each QP until it is flushed; most QPs are when their turn comes. */
static void wait_flushed(struct mlx5_ctx *ctx, struct mlx5_qp *qp, uint64_t end_nsec)
{
	struct timespec pause = {.tv_nsec = FLUSH_POLL_NSEC};

	while (nsec_now() < end_nsec && !qp_is_flushed(ctx, qp)) {
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < (long)FLUSH_POLL_MAX_NSEC)
			pause.tv_nsec *= 2;
	}
}

void mlx5_ctx_quiesce(struct nic_ctx *base, uint64_t timeout_nsec)
{
	struct mlx5_ctx *ctx = mlx5_ctx(base);
	uint64_t end_nsec = nsec_now() + timeout_nsec, qpn;
	struct mlx5_qp *qp;
	size_t pos = 0;

	mlx5_page_tell(ctx->page, MAPPER_PAGE_SILENCE);
	/* DCTs have no requests in flight: they end when they are destroyed. */
	while ((qp = hash_next(&ctx->qps, &pos, &qpn)))
		if (qp->state != NIC_QPS_RST && qp->desc->type != NIC_QP_DCT)
			mlx5_qp_to_state(ctx, qp, PRM_OP_2ERR_QP, NIC_QPS_ERR);
	pos = 0;
	while ((qp = hash_next(&ctx->qps, &pos, &qpn)))
		if (qp->state != NIC_QPS_RST && qp->desc->type != NIC_QP_DCT)
			wait_flushed(ctx, qp, end_nsec);
}
