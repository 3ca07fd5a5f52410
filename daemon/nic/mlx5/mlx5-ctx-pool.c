/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The context pool (setting warm-contexts): contexts made before a session asks, each with a batch of queues over memory of
 * the daemon's; and opening a context, from the pool or by commands.
 *
 * A pooled context lacks only its doorbell, which depends on the session. No session owns it, and the context's tables do not
 * have its queues, so no number finds them. It leaves the pool once, for a session, and is closed with that session. Values that
 * depend on the session or the time are set when it leaves: the session's id, address and PSN of each QP, access rights.
 *
 * The NIC's lock protects lists and counters. Only the thread of ctx_pool_step sends commands, without the lock.
 */
#include "daemon/nic/mlx5/mlx5.h"

#include <errno.h>
#include <string.h>

#include "proto/base/assert.h"
#include "proto/base/cleanup.h"

/* ---- the pool: under the lock ------------------------------------------------------------------------------------ */

static void retire(struct mlx5_ctx_pool *pool, struct mlx5_ctx *ctx)
{
	list_del(&ctx->link);
	list_add_tail(&pool->stale, &ctx->link);
	pool->info.n_ready--;
}

static bool is_good(const struct mlx5_nic *nic, const struct mlx5_ctx *ctx)
{
	return !nic->lost && ctx->life == nic->life && ctx->pool_shape == nic->ctx_pool.shape;
}

/* Retires contexts of a lost NIC or of another shape, and those above the wanted number. */
static void sort_out(struct mlx5_nic *nic)
{
	struct mlx5_ctx_pool *pool = &nic->ctx_pool;
	struct mlx5_ctx *ctx, *tmp;

	list_for_each_entry_safe (ctx, tmp, &pool->ready, link)
		if (!is_good(nic, ctx) || pool->info.n_ready > pool->attr.n_ctxs)
			retire(pool, ctx);
}

static enum nic_ctx_pool_todo todo(const struct mlx5_nic *nic)
{
	const struct mlx5_ctx_pool *pool = &nic->ctx_pool;

	if (!list_empty(&pool->stale))
		return NIC_CTX_POOL_DESTROY;
	return !nic->lost && pool->info.n_ready < pool->attr.n_ctxs ? NIC_CTX_POOL_MAKE : NIC_CTX_POOL_NOTHING;
}

void mlx5_ctx_pool_init(struct mlx5_nic *nic)
{
	list_init(&nic->ctx_pool.ready);
	list_init(&nic->ctx_pool.stale);
}

static int check_attr(const struct nic_ctx_pool_attr *attr)
{
	struct nic_layout layout = {0};
	int r;

	for (unsigned int i = 0; i < attr->queues.n_qp_specs && i < NIC_MAX_SPECS; i++)
		if (attr->queues.qps[i].type != NIC_QP_RC)
			return -EINVAL;
	r = nic_layout_init(&layout, &attr->queues);
	nic_layout_deinit(&layout);
	return r == -EOVERFLOW ? -EINVAL : r;
}

int mlx5_ctx_pool_set(struct nic *base, const struct nic_ctx_pool_attr *attr)
{
	struct mlx5_nic *nic = mlx5_nic(base);
	struct mlx5_ctx_pool *pool = &nic->ctx_pool;
	int r = attr->queues.n_qp_specs ? check_attr(attr) : 0;

	if (r < 0)
		return r;
	pthread_mutex_lock(&nic->lock);
	/* Members of four bytes each: no padding that differs. */
	if (memcmp(&pool->attr.queues, &attr->queues, sizeof(attr->queues)) != 0)
		pool->shape++;
	pool->attr = *attr;
	sort_out(nic);
	pthread_mutex_unlock(&nic->lock);
	return 0;
}

int mlx5_ctx_pool_query(struct nic *base, struct nic_ctx_pool_info *ret_info)
{
	struct mlx5_nic *nic = mlx5_nic(base);

	pthread_mutex_lock(&nic->lock);
	sort_out(nic);
	*ret_info = nic->ctx_pool.info;
	ret_info->n_wanted = nic->ctx_pool.attr.n_ctxs;
	ret_info->todo = todo(nic);
	pthread_mutex_unlock(&nic->lock);
	return 0;
}

/* For this session, without doorbell; NULL: none is ready. */
static struct mlx5_ctx *take_ready(struct mlx5_nic *nic, const struct nic_ctx_attr *attr)
{
	struct mlx5_ctx_pool *pool = &nic->ctx_pool;
	struct mlx5_ctx *ctx = NULL;

	pthread_mutex_lock(&nic->lock);
	sort_out(nic);
	if (pool->info.n_ready > 0) {
		ctx = list_first_entry(&pool->ready, struct mlx5_ctx, link);
		list_del(&ctx->link);
		list_add_tail(&nic->ctxs, &ctx->link);
		ctx->base.session_id = attr->session_id;
		ctx->uid = attr->uid;
		pool->info.n_ready--;
		pool->info.n_handed_out++;
	} else if (pool->attr.n_ctxs > 0) {
		pool->info.missed_empty++;
	}
	pthread_mutex_unlock(&nic->lock);
	if (!ctx)
		return NULL;
	ctx->is_pooled = false;
	mlx5_memory_leave(ctx);
	/* Earlier events had no session to report to. */
	mlx5_events_listen(ctx);
	return ctx;
}

int mlx5_ctx_open(struct nic *base, const struct nic_ctx_attr *attr, struct nic_ctx **ret_ctx)
{
	struct mlx5_ctx *ctx;
	struct mlx5_nic *nic = mlx5_nic(base);
	int r = 0;

	if (attr->doorbell == NIC_DOORBELL_CPU && !MLX5_HAS_BELL)
		return -EOPNOTSUPP;
	if (attr->doorbell > NIC_DOORBELL_UAR_MMAP)
		return -EINVAL;
	if (mlx5_is_lost(nic))
		return -ENODEV;
	ctx = take_ready(nic, attr);
	if (!ctx)
		r = mlx5_ctx_make(nic, attr, &ctx);
	if (r < 0)
		return r;
	r = mlx5_ctx_open_doorbell(ctx, attr->doorbell);
	if (r < 0) {
		mlx5_ctx_close(&ctx->base);
		return r;
	}
	*ret_ctx = &ctx->base;
	return 0;
}

/* ---- making and destroying: ctx_pool_step's thread ------------------------------------------------------------------- */

static int make_pooled(struct mlx5_ctx *ctx, const struct nic_queues_attr *attr)
{
	struct nic_queue_mem mem = {.kind = NIC_MEM_MEMFD};
	struct nic_queues *queues = NULL;
	_cleanup_close_ int fd = -1;
	struct nic_layout layout = {0};
	int r;

	r = nic_layout_init(&layout, attr);
	if (r == 0)
		r = nic_queue_memfd(layout.total_bytes, &fd);
	mem.fd = fd;
	mem.length_bytes = layout.total_bytes;
	if (r == 0)
		r = mlx5_queues_create(&ctx->base, &mem, &layout, &queues);
	nic_layout_deinit(&layout);
	if (r < 0)
		return r;
	ctx->pooled = container_of(queues, struct mlx5_queues, base);
	ctx->pooled_fd = take_fd(&fd);
	mlx5_queues_hide(ctx->pooled);
	return 0;
}

static int make_ctx(struct mlx5_nic *nic, const struct nic_ctx_pool_attr *attr, uint32_t shape, struct mlx5_ctx **ret_ctx)
{
	const struct nic_ctx_attr nobody = {.health_fd = -1};
	struct mlx5_ctx *ctx;
	int r = mlx5_ctx_make(nic, &nobody, &ctx);

	if (r < 0)
		return r;
	ctx->pool_shape = shape;
	ctx->is_pooled = true;
	if (attr->queues.n_qp_specs)
		r = make_pooled(ctx, &attr->queues);
	if (r < 0) {
		mlx5_ctx_close(&ctx->base);
		return r;
	}
	*ret_ctx = ctx;
	return 0;
}

/* Adds a context to the pool, and retires it at once if the NIC, the shape or the number have changed meanwhile. */
static void add_ready(struct mlx5_nic *nic, struct mlx5_ctx *ctx)
{
	struct mlx5_ctx_pool *pool = &nic->ctx_pool;

	pthread_mutex_lock(&nic->lock);
	list_del(&ctx->link);
	list_add_tail(&pool->ready, &ctx->link);
	pool->info.n_ready++;
	pool->info.n_made++;
	sort_out(nic);
	pthread_mutex_unlock(&nic->lock);
}

static int make_one(struct mlx5_nic *nic)
{
	struct nic_ctx_pool_attr attr;
	struct mlx5_ctx *ctx;
	uint32_t shape;
	int r;

	pthread_mutex_lock(&nic->lock);
	attr = nic->ctx_pool.attr;
	shape = nic->ctx_pool.shape;
	pthread_mutex_unlock(&nic->lock);
	r = make_ctx(nic, &attr, shape, &ctx);
	if (r == 0) {
		add_ready(nic, ctx);
		return 0;
	}
	pthread_mutex_lock(&nic->lock);
	nic->ctx_pool.info.n_failed++;
	pthread_mutex_unlock(&nic->lock);
	return r == -EAGAIN ? -EIO : r;
}

static bool destroy_one(struct mlx5_nic *nic)
{
	struct mlx5_ctx *ctx = NULL;

	pthread_mutex_lock(&nic->lock);
	if (!list_empty(&nic->ctx_pool.stale)) {
		ctx = list_first_entry(&nic->ctx_pool.stale, struct mlx5_ctx, link);
		list_del(&ctx->link);
	}
	pthread_mutex_unlock(&nic->lock);
	if (ctx)
		mlx5_ctx_close(&ctx->base);
	return ctx;
}

int mlx5_ctx_pool_step(struct nic *base)
{
	struct nic_ctx_pool_info info;

	mlx5_ctx_pool_query(base, &info);
	switch (info.todo) {
	case NIC_CTX_POOL_DESTROY:
		destroy_one(mlx5_nic(base));
		return 0;
	case NIC_CTX_POOL_MAKE:
		return make_one(mlx5_nic(base));
	case NIC_CTX_POOL_NOTHING:
		break;
	}
	return -EAGAIN;
}

void mlx5_ctx_pool_deinit(struct mlx5_nic *nic)
{
	pthread_mutex_lock(&nic->lock);
	nic->ctx_pool.attr.n_ctxs = 0;
	sort_out(nic);
	pthread_mutex_unlock(&nic->lock);
	while (destroy_one(nic))
		;
	assert_bug(list_empty(&nic->ctx_pool.ready));
}

/* ---- the batch of a context: the owner's thread ------------------------------------------------------------------- */

static void count(struct mlx5_ctx *ctx, uint64_t *counter)
{
	pthread_mutex_lock(&ctx->nic->lock);
	(*counter)++;
	pthread_mutex_unlock(&ctx->nic->lock);
}

static bool same_cqs(const struct nic_layout *is, const struct nic_layout *wanted)
{
	for (uint32_t i = 0; i < is->n_cqs; i++)
		if (is->cqs[i].log2_entries != wanted->cqs[i].log2_entries || is->cqs[i].flags != wanted->cqs[i].flags)
			return false;
	return true;
}

static bool same_qp(struct mlx5_queues *pooled, uint32_t i, const struct nic_qp *wanted)
{
	const struct nic_qp *is = &pooled->base.layout.qps[i];
	const struct mlx5_qp *qp = &pooled->qps[i];

	return wanted->type == is->type && wanted->log2_sq_wqebbs == is->log2_sq_wqebbs &&
	       wanted->n_rq_wqes == is->n_rq_wqes &&
	       (!is->n_rq_wqes || wanted->log2_rq_stride == is->log2_rq_stride) &&
	       mlx5_cq_find(pooled, wanted->send_cqn) == qp->send_cq &&
	       mlx5_cq_find(pooled, wanted->recv_cqn) == qp->recv_cq;
}

/* Equal queues lie at equal places: the layout is a function of them. */
static bool same_shape(struct mlx5_queues *pooled, const struct nic_layout *wanted)
{
	const struct nic_layout *is = &pooled->base.layout;

	if (is->n_cqs != wanted->n_cqs || is->n_qps != wanted->n_qps || is->total_bytes != wanted->total_bytes ||
	    !same_cqs(is, wanted))
		return false;
	for (uint32_t i = 0; i < is->n_qps; i++)
		if (!same_qp(pooled, i, &wanted->qps[i]))
			return false;
	return true;
}

/* Sets the values that are not in CREATE_QP: they depend on the request or the time. */
static int dress(struct mlx5_queues *pooled, const struct nic_layout *wanted)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < wanted->n_qps; i++) {
		struct nic_qp *desc = &pooled->base.layout.qps[i];

		desc->access = wanted->qps[i].access;
		desc->flags = wanted->qps[i].flags;
		desc->log2_rq_stride = wanted->qps[i].log2_rq_stride;
		r = mlx5_qp_set_addr(pooled->ctx->nic, desc);
	}
	return r < 0 ? r : mlx5_queues_show(pooled);
}

/* From here on its memory is a client's, too: the user's mapper has it, and the daemon no more. */
static int hand_over(struct mlx5_ctx *ctx)
{
	struct mlx5_queues *pooled = ctx->pooled;
	const struct mlx5_memory_attr attr = {.fd = ctx->pooled_fd, .bytes = pooled->base.layout.total_bytes};
	struct mlx5_memory memory;
	int r = mlx5_memory_open(ctx, &attr, &memory, NULL);

	if (r < 0)
		return r;
	mlx5_memory_close(&pooled->memory);
	pooled->memory = memory;
	return 0;
}

int mlx5_queues_take(struct nic_ctx *base, struct nic_layout *layout, int *ret_fd, struct nic_queues **ret_queues)
{
	struct mlx5_ctx *ctx = mlx5_ctx(base);
	struct nic_ctx_pool_info *info = &ctx->nic->ctx_pool.info;

	/* queues_create reports a context whose client destroyed an object of ours. */
	if (!ctx->pooled || ctx->meddled)
		return -ENOENT;
	ctx->pooled_told = true;
	if (!same_shape(ctx->pooled, layout)) {
		count(ctx, &info->missed_shape);
		return -ENOENT;
	}
	/* No memory: queues_create lacks it too, and reports that. */
	if (hand_over(ctx) < 0 || dress(ctx->pooled, layout) < 0)
		return -ENOENT;
	count(ctx, &info->n_batches_handed_out);
	nic_layout_deinit(layout);
	*ret_queues = &ctx->pooled->base;
	ctx->pooled = NULL;
	*ret_fd = take_fd(&ctx->pooled_fd);
	return 0;
}
