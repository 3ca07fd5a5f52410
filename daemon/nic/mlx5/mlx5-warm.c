/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The warm pool: contexts that are made before a session asks, each with a batch of queues over memory of ours.
 *
 * A context here is whole but for its doorbell, which depends on what its session wants, and it is nobody's: its queues
 * are in no table of it, so that no number finds them. It leaves the pool once, to a session, and is closed with that;
 * nothing comes back. Values that depend on the session or on the time are set when it leaves: who has it, the address and PSN of
 * each QP, what peers may do.
 *
 * Lists and counters have the NIC's lock. Commands are sent by warm_step's thread alone, without it.
 */
#include "daemon/nic/mlx5/mlx5.h"

#include <errno.h>
#include <string.h>

#include "proto/base/assert.h"
#include "proto/base/cleanup.h"

/* ---- the pool: under the lock ------------------------------------------------------------------------------------ */

static void retire(struct mlx5_warm *warm, struct mlx5_ctx *ctx)
{
	list_del(&ctx->link);
	list_add_tail(&warm->stale, &ctx->link);
	warm->info.n_ready--;
}

static bool is_good(const struct mlx5_nic *nic, const struct mlx5_ctx *ctx)
{
	return !nic->lost && ctx->life == nic->life && ctx->warm_shape == nic->warm.shape;
}

/* Contexts that are not wanted any more: of a lost NIC, of another shape, too many. */
static void sort_out(struct mlx5_nic *nic)
{
	struct mlx5_warm *warm = &nic->warm;
	struct mlx5_ctx *ctx, *tmp;

	list_for_each_entry_safe (ctx, tmp, &warm->ready, link)
		if (!is_good(nic, ctx) || warm->info.n_ready > warm->attr.n_ctxs)
			retire(warm, ctx);
}

static enum nic_warm_todo todo(const struct mlx5_nic *nic)
{
	const struct mlx5_warm *warm = &nic->warm;

	if (!list_empty(&warm->stale))
		return NIC_WARM_DESTROY;
	return !nic->lost && warm->info.n_ready < warm->attr.n_ctxs ? NIC_WARM_MAKE : NIC_WARM_NOTHING;
}

void mlx5_warm_init(struct mlx5_nic *nic)
{
	list_init(&nic->warm.ready);
	list_init(&nic->warm.stale);
}

static int check_attr(const struct nic_warm_attr *attr)
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

int mlx5_warm_set(struct nic *base, const struct nic_warm_attr *attr)
{
	struct mlx5_nic *nic = mlx5_nic(base);
	struct mlx5_warm *warm = &nic->warm;
	int r = attr->queues.n_qp_specs ? check_attr(attr) : 0;

	if (r < 0)
		return r;
	pthread_mutex_lock(&nic->lock);
	/* Members of four bytes each: no padding that differs. */
	if (memcmp(&warm->attr.queues, &attr->queues, sizeof(attr->queues)) != 0)
		warm->shape++;
	warm->attr = *attr;
	sort_out(nic);
	pthread_mutex_unlock(&nic->lock);
	return 0;
}

int mlx5_warm_query(struct nic *base, struct nic_warm_info *ret_info)
{
	struct mlx5_nic *nic = mlx5_nic(base);

	pthread_mutex_lock(&nic->lock);
	sort_out(nic);
	*ret_info = nic->warm.info;
	ret_info->n_wanted = nic->warm.attr.n_ctxs;
	ret_info->todo = todo(nic);
	pthread_mutex_unlock(&nic->lock);
	return 0;
}

/* For this session, without doorbell; NULL: none is ready. */
static struct mlx5_ctx *take_ready(struct mlx5_nic *nic, const struct nic_ctx_attr *attr)
{
	struct mlx5_warm *warm = &nic->warm;
	struct mlx5_ctx *ctx = NULL;

	pthread_mutex_lock(&nic->lock);
	sort_out(nic);
	if (warm->info.n_ready > 0) {
		ctx = list_first_entry(&warm->ready, struct mlx5_ctx, link);
		list_del(&ctx->link);
		list_add_tail(&nic->ctxs, &ctx->link);
		ctx->base.session_id = attr->session_id;
		warm->info.n_ready--;
		warm->info.n_handed_out++;
	} else if (warm->attr.n_ctxs > 0) {
		warm->info.missed_empty++;
	}
	pthread_mutex_unlock(&nic->lock);
	/* Reports from before it had a session reached nobody. */
	if (ctx)
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

/* ---- making and destroying: warm_step's thread ------------------------------------------------------------------- */

static int make_spare(struct mlx5_ctx *ctx, const struct nic_queues_attr *attr)
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
	ctx->spare = container_of(queues, struct mlx5_queues, base);
	ctx->spare_fd = take_fd(&fd);
	mlx5_queues_hide(ctx->spare);
	return 0;
}

static int make_ctx(struct mlx5_nic *nic, const struct nic_warm_attr *attr, uint32_t shape, struct mlx5_ctx **ret_ctx)
{
	const struct nic_ctx_attr nobody = {.health_fd = -1};
	struct mlx5_ctx *ctx;
	int r = mlx5_ctx_make(nic, &nobody, &ctx);

	if (r < 0)
		return r;
	ctx->warm_shape = shape;
	if (attr->queues.n_qp_specs)
		r = make_spare(ctx, &attr->queues);
	if (r < 0) {
		mlx5_ctx_close(&ctx->base);
		return r;
	}
	*ret_ctx = ctx;
	return 0;
}

/* It joins the others; sorted out at once when the NIC, the shape or the number have changed meanwhile. */
static void add_ready(struct mlx5_nic *nic, struct mlx5_ctx *ctx)
{
	struct mlx5_warm *warm = &nic->warm;

	pthread_mutex_lock(&nic->lock);
	list_del(&ctx->link);
	list_add_tail(&warm->ready, &ctx->link);
	warm->info.n_ready++;
	warm->info.n_made++;
	sort_out(nic);
	pthread_mutex_unlock(&nic->lock);
}

static int make_one(struct mlx5_nic *nic)
{
	struct nic_warm_attr attr;
	struct mlx5_ctx *ctx;
	uint32_t shape;
	int r;

	pthread_mutex_lock(&nic->lock);
	attr = nic->warm.attr;
	shape = nic->warm.shape;
	pthread_mutex_unlock(&nic->lock);
	r = make_ctx(nic, &attr, shape, &ctx);
	if (r == 0) {
		add_ready(nic, ctx);
		return 0;
	}
	pthread_mutex_lock(&nic->lock);
	nic->warm.info.n_failed++;
	pthread_mutex_unlock(&nic->lock);
	return r == -EAGAIN ? -EIO : r;
}

static bool destroy_one(struct mlx5_nic *nic)
{
	struct mlx5_ctx *ctx = NULL;

	pthread_mutex_lock(&nic->lock);
	if (!list_empty(&nic->warm.stale)) {
		ctx = list_first_entry(&nic->warm.stale, struct mlx5_ctx, link);
		list_del(&ctx->link);
	}
	pthread_mutex_unlock(&nic->lock);
	if (ctx)
		mlx5_ctx_close(&ctx->base);
	return ctx;
}

int mlx5_warm_step(struct nic *base)
{
	struct nic_warm_info info;

	mlx5_warm_query(base, &info);
	switch (info.todo) {
	case NIC_WARM_DESTROY:
		destroy_one(mlx5_nic(base));
		return 0;
	case NIC_WARM_MAKE:
		return make_one(mlx5_nic(base));
	case NIC_WARM_NOTHING:
		break;
	}
	return -EAGAIN;
}

void mlx5_warm_deinit(struct mlx5_nic *nic)
{
	pthread_mutex_lock(&nic->lock);
	nic->warm.attr.n_ctxs = 0;
	sort_out(nic);
	pthread_mutex_unlock(&nic->lock);
	while (destroy_one(nic))
		;
	assert_bug(list_empty(&nic->warm.ready));
}

/* ---- the batch of a context: who has the context ------------------------------------------------------------------ */

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

static bool same_qp(struct mlx5_queues *spare, uint32_t i, const struct nic_qp *wanted)
{
	const struct nic_qp *is = &spare->base.layout.qps[i];
	const struct mlx5_qp *qp = &spare->qps[i];

	return wanted->type == is->type && wanted->log2_sq_wqebbs == is->log2_sq_wqebbs &&
	       wanted->n_rq_wqes == is->n_rq_wqes &&
	       (!is->n_rq_wqes || wanted->log2_rq_stride == is->log2_rq_stride) &&
	       mlx5_cq_find(spare, wanted->send_cqn) == qp->send_cq &&
	       mlx5_cq_find(spare, wanted->recv_cqn) == qp->recv_cq;
}

/* Equal queues lie at equal places: the layout is a function of them. */
static bool same_shape(struct mlx5_queues *spare, const struct nic_layout *wanted)
{
	const struct nic_layout *is = &spare->base.layout;

	if (is->n_cqs != wanted->n_cqs || is->n_qps != wanted->n_qps || is->total_bytes != wanted->total_bytes ||
	    !same_cqs(is, wanted))
		return false;
	for (uint32_t i = 0; i < is->n_qps; i++)
		if (!same_qp(spare, i, &wanted->qps[i]))
			return false;
	return true;
}

/* What CREATE_QP does not know of: it belongs to the request, or to now. */
static int dress(struct mlx5_queues *spare, const struct nic_layout *wanted)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < wanted->n_qps; i++) {
		struct nic_qp *desc = &spare->base.layout.qps[i];

		desc->access = wanted->qps[i].access;
		desc->flags = wanted->qps[i].flags;
		desc->log2_rq_stride = wanted->qps[i].log2_rq_stride;
		r = mlx5_qp_set_addr(spare->ctx->nic, desc);
	}
	return r < 0 ? r : mlx5_queues_show(spare);
}

int mlx5_queues_take(struct nic_ctx *base, struct nic_layout *layout, int *ret_fd, struct nic_queues **ret_queues)
{
	struct mlx5_ctx *ctx = mlx5_ctx(base);
	struct nic_warm_info *info = &ctx->nic->warm.info;

	/* A context whose client destroyed what is ours: queues_create says so. */
	if (!ctx->spare || ctx->meddled)
		return -ENOENT;
	ctx->spare_told = true;
	if (!same_shape(ctx->spare, layout)) {
		count(ctx, &info->missed_shape);
		return -ENOENT;
	}
	/* For lack of memory: whoever makes them anew lacks it too, and says so. */
	if (dress(ctx->spare, layout) < 0)
		return -ENOENT;
	count(ctx, &info->n_batches_handed_out);
	nic_layout_deinit(layout);
	*ret_queues = &ctx->spare->base;
	ctx->spare = NULL;
	*ret_fd = take_fd(&ctx->spare_fd);
	return 0;
}
