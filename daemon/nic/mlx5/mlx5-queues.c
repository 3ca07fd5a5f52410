/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches of queues: one umem over queue memory, CQs and QPs of DEVX in it.
 *
 * A batch is destroyed by the same walk whether it was completed or failed half way: QPs, CQs, umem, mapping. The mapper fills rings of
 * CQs before the NIC knows them, where the CPU reaches them; in a dmabuf the client has done that.
 *
 * Any thread that owns the context.
 */
#include "daemon/nic/mlx5/mlx5.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <shmd/abi/cqe.h>

#include "proto/base/cleanup.h"

/* ---- CQs --------------------------------------------------------------------------------------------------------- */

int mlx5_cq_enter(struct mlx5_queues *queues, uint32_t i)
{
	struct mlx5_ctx *ctx = queues->ctx;
	struct mlx5_cq *cq = &queues->cqs[i];
	int r;

	cq->queues = queues;
	list_init(&cq->news.link);
	cq->cqn = queues->base.layout.cqs[i].cqn;
	r = hash_add(&ctx->cqs, cq->cqn, cq);
	return r < 0 ? r : mlx5_events_subscribe_cq(ctx, cq);
}

static int create_cq(struct mlx5_queues *queues, uint32_t i)
{
	struct mlx5_ctx *ctx = queues->ctx;
	struct nic_cq *desc = &queues->base.layout.cqs[i];
	struct mlx5_cq *cq = &queues->cqs[i];
	const struct mlx5_cq_args args = {.cq = desc,
					  .umem_id = queues->umem->number,
					  .uar_page = ctx->uar->object->number,
					  .eqn = ctx->eqn};
	uint8_t out[PRM_CREATE_CQ_OUT_BYTES];
	struct mlx5_cmd cmd;
	int r;

	mlx5_cmd_create_cq(&cmd, &args);
	r = mlx5_exec_create(ctx, &cmd, out, &cq->obj);
	if (r < 0)
		return r;
	desc->cqn = (uint32_t)prm_get(out, PRM_CREATE_CQ_OUT_CQN);
	return mlx5_cq_enter(queues, i);
}

static void hide_cq(struct mlx5_ctx *ctx, const struct mlx5_cq *cq)
{
	if (hash_get(&ctx->cqs, cq->cqn) == cq)
		hash_remove(&ctx->cqs, cq->cqn);
}

static void destroy_cq(struct mlx5_queues *queues, struct mlx5_cq *cq)
{
	if (!cq->obj)
		return;
	hide_cq(queues->ctx, cq);
	mlx5_news_drop(queues->ctx->nic, &cq->news);
	mlx5_note_destroyed(queues->ctx, mlx5_object_destroy(cq->obj));
	cq->obj = NULL;
}

struct mlx5_cq *mlx5_cq_find(struct mlx5_queues *queues, uint32_t name)
{
	if (!(name & NIC_CQ_BY_INDEX))
		return hash_get(&queues->ctx->cqs, name);
	name &= ~NIC_CQ_BY_INDEX;
	return name < queues->base.layout.n_cqs ? &queues->cqs[name] : NULL;
}

/* ---- QPs --------------------------------------------------------------------------------------------------------- */

/* Attributes that do not depend on the number. Only a DCT has a key; neither that nor a PSN can be guessed. */
int mlx5_qp_set_addr(struct mlx5_nic *nic, struct nic_qp *desc)
{
	const struct mlx5_port port = mlx5_port_now(nic);
	struct {
		uint64_t dc_key;
		uint32_t psn;
	} secret;

	if (getrandom(&secret, sizeof(secret), 0) != sizeof(secret))
		return -EIO;
	desc->addr = (struct nic_addr){
		.link = (uint8_t)port.link,
		.qp_type = (uint8_t)desc->type,
		.mtu_log2 = port.mtu_log2,
		.qpn = desc->qpn,
		.psn = secret.psn & NIC_PSN_MASK,
		.lid = port.lid,
		.dc_key = desc->type == NIC_QP_DCT ? secret.dc_key : 0,
	};
	memcpy(desc->addr.gid, port.gid, sizeof(desc->addr.gid));
	memcpy(desc->addr.mac, port.mac, sizeof(desc->addr.mac));
	return 0;
}

static int send_create_qp(struct mlx5_queues *queues, struct mlx5_qp *qp, uint32_t i)
{
	struct mlx5_ctx *ctx = queues->ctx;
	const struct mlx5_qp_args args = {
		.qp = qp->desc,
		.caps = &ctx->caps,
		.umem_id = queues->umem->number,
		.pdn = ctx->pdn,
		.uar_page = ctx->uar->object->number,
		.user_index = i,
	};
	uint8_t out[PRM_CREATE_QP_OUT_BYTES];
	struct mlx5_cmd cmd;
	int r;

	mlx5_cmd_create_qp(&cmd, &args);
	r = mlx5_exec_create(ctx, &cmd, out, &qp->obj);
	if (r == 0)
		qp->desc->qpn = (uint32_t)prm_get(out, PRM_CREATE_QP_OUT_QPN);
	return r;
}

static void count_foreign(struct mlx5_queues *queues, struct mlx5_qp *qp, uint32_t one)
{
	qp->send_cq->n_foreign_qps += qp->send_cq->queues != queues ? one : 0;
	qp->recv_cq->n_foreign_qps += qp->recv_cq->queues != queues ? one : 0;
}

int mlx5_qp_enter(struct mlx5_queues *queues, uint32_t i)
{
	struct mlx5_ctx *ctx = queues->ctx;
	struct mlx5_qp *qp = &queues->qps[i];
	int r;

	qp->queues = queues;
	count_foreign(queues, qp, 1);
	r = hash_add(&ctx->qps, qp->desc->qpn, qp);
	/* A DCT has no error of its own: a DCI's mistake ends that DCI. */
	return r < 0 || qp->desc->type == NIC_QP_DCT ? r : mlx5_events_subscribe_qp(ctx, qp);
}

/* For QPs that send. Every batch in doorbell mode cpu is mapped: see check_request, mlx5_ctx_to_cpu(). */
int mlx5_qp_hear(const struct mlx5_page *page, const struct mlx5_qp *qp)
{
	if (!page || !qp->obj || qp->desc->type == NIC_QP_DCT)
		return 0;
	return mlx5_page_add(page, &qp->queues->memory, qp->desc->dbrec_offset + offsetof(struct shmd_dbrec, snd),
			     qp->desc->qpn, qp->desc->flags & NIC_QP_GPU_DRIVEN);
}

static int create_qp(struct mlx5_queues *queues, uint32_t i)
{
	struct nic_qp *desc = &queues->base.layout.qps[i];
	struct mlx5_qp *qp = &queues->qps[i];
	int r;

	qp->desc = desc;
	list_init(&qp->news.link);
	qp->send_cq = mlx5_cq_find(queues, desc->send_cqn);
	qp->recv_cq = mlx5_cq_find(queues, desc->recv_cqn);
	if (!qp->send_cq || !qp->recv_cq)
		return -EINVAL;
	desc->send_cqn = qp->send_cq->cqn;
	desc->recv_cqn = qp->recv_cq->cqn;
	r = mlx5_qp_set_addr(queues->ctx->nic, desc);
	if (r == 0)
		r = desc->type == NIC_QP_DCT ? mlx5_dct_create(queues->ctx, qp, i) : send_create_qp(queues, qp, i);
	if (r < 0)
		return r;
	desc->addr.qpn = desc->qpn;
	r = mlx5_qp_enter(queues, i);
	mlx5_qp_tell_error(qp, 0);
	return r < 0 ? r : mlx5_qp_hear(queues->ctx->page, qp);
}

static void hide_qp(struct mlx5_ctx *ctx, const struct mlx5_qp *qp)
{
	if (hash_get(&ctx->qps, qp->desc->qpn) == qp)
		hash_remove(&ctx->qps, qp->desc->qpn);
	mlx5_page_qp(ctx->page, MAPPER_QP_REMOVE, qp->desc->qpn);
}

static void destroy_qp(struct mlx5_queues *queues, struct mlx5_qp *qp)
{
	if (!qp->obj)
		return;
	hide_qp(queues->ctx, qp);
	queues->ctx->counted_is_stale |= qp->event_told;
	mlx5_news_drop(queues->ctx->nic, &qp->news);
	mlx5_note_destroyed(queues->ctx, mlx5_object_destroy(qp->obj));
	qp->obj = NULL;
	count_foreign(queues, qp, -1u);
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

/* One that libmlx5 made is not of a memfd. */
static int destroy_umem(struct mlx5_queues *queues)
{
	struct mlx5_object *umem = take_ptr(queues->umem);
	int r;

	if (!umem || umem->library || queues->mem_kind != NIC_MEM_MEMFD)
		return mlx5_object_destroy(umem);
	r = mlx5_memory_destroy(queues->ctx, MLX5_OBJECT_UMEM, umem->handle);
	mlx5_object_unimport(umem);
	return r;
}

struct mlx5_queues *mlx5_queues_free(struct mlx5_queues *queues)
{
	struct nic_layout *layout;

	if (!queues)
		return NULL;
	layout = &queues->base.layout;
	for (uint32_t i = 0; queues->qps && i < layout->n_qps; i++)
		destroy_qp(queues, &queues->qps[i]);
	for (uint32_t i = 0; queues->cqs && i < layout->n_cqs; i++)
		destroy_cq(queues, &queues->cqs[i]);
	mlx5_note_destroyed(queues->ctx, destroy_umem(queues));
	mlx5_memory_close(&queues->memory);
	nic_layout_deinit(layout);
	free(queues->cqs);
	free(queues->qps);
	free(queues);
	return NULL;
}
DEFINE_CLEANUP(struct mlx5_queues *, mlx5_queues_free);

static int check_request(const struct mlx5_ctx *ctx, const struct nic_queue_mem *mem,
			 const struct nic_layout *layout)
{
	const struct mlx5_caps *caps = &ctx->caps;

	if (ctx->meddled)
		return -EPERM;
	if (mem->kind == NIC_MEM_AGENT)
		return -EOPNOTSUPP;
	if (mem->kind != NIC_MEM_MEMFD && mem->kind != NIC_MEM_DMABUF)
		return -EINVAL;
	/* The thread that rings reads dbrecs. */
	if (mem->kind == NIC_MEM_DMABUF && ctx->page)
		return -EOPNOTSUPP;
	if ((mem->offset & NIC_PAGE_MASK) || mem->length_bytes < layout->total_bytes)
		return -EINVAL;
	for (uint32_t i = 0; i < layout->n_cqs; i++)
		if (layout->cqs[i].log2_entries > caps->log_max_cq_sz)
			return -ENOSPC;
	for (uint32_t i = 0; i < layout->n_qps; i++) {
		if (layout->qps[i].type != NIC_QP_RC && !caps->dct)
			return -EOPNOTSUPP;
		if (layout->qps[i].log2_sq_wqebbs > caps->log_max_qp_sz)
			return -ENOSPC;
	}
	return 0;
}

/* The layout is copied, since the caller keeps his on failure. */
int mlx5_queues_copy_layout(struct mlx5_queues *queues, const struct nic_layout *layout)
{
	int r = nic_layout_copy(&queues->base.layout, layout);

	/* bounded: who made the layout saw to it. */
	queues->cqs = calloc((size_t)layout->n_cqs + 1, sizeof(*queues->cqs));
	queues->qps = calloc((size_t)layout->n_qps + 1, sizeof(*queues->qps));
	return !queues->cqs || !queues->qps ? -ENOMEM : r;
}

/* Rings of CQs come first, and nothing lies between them. */
static uint64_t rings_end(const struct nic_layout *layout)
{
	uint64_t end = 0;

	for (uint32_t i = 0; i < layout->n_cqs; i++) {
		const struct nic_cq *cq = &layout->cqs[i];
		/* bounded: nic_layout_init() made the layout. */
		uint64_t cq_end = cq->ring_offset + ((uint64_t)SHMD_CQE_BYTES << cq->log2_entries);

		end = cq_end > end ? cq_end : end;
	}
	return end;
}

static int map_memfd(struct mlx5_queues *queues, const struct nic_queue_mem *mem)
{
	const struct mlx5_memory_attr attr = {.fd = mem->fd,
					      .offset = mem->offset,
					      .bytes = queues->base.layout.total_bytes,
					      .fill_bytes = rings_end(&queues->base.layout)};

	return mlx5_memory_open(queues->ctx, &attr, &queues->memory, &queues->umem);
}

static int reg_dmabuf(struct mlx5_queues *queues, const struct nic_queue_mem *mem)
{
	struct mlx5dv_devx_umem_in in = {
		.size = queues->base.layout.total_bytes,
		.access = IBV_ACCESS_LOCAL_WRITE,
		.pgsz_bitmap = ~(uint64_t)NIC_PAGE_MASK,
		.comp_mask = MLX5DV_UMEM_MASK_DMABUF,
		.dmabuf_fd = mem->fd,
		/* An offset in the dmabuf, not an address. */
		.addr = (void *)(uintptr_t)mem->offset,
	};

	return mlx5_umem_reg(queues->ctx->ibv, queues->ctx->nic->library, &in, &queues->umem);
}

static int queues_make(struct mlx5_queues *queues, const struct nic_queue_mem *mem)
{
	const struct nic_layout *layout = &queues->base.layout;
	int r = mem->kind == NIC_MEM_MEMFD ? map_memfd(queues, mem) : reg_dmabuf(queues, mem);

	for (uint32_t i = 0; r == 0 && i < layout->n_cqs; i++)
		r = create_cq(queues, i);
	for (uint32_t i = 0; r == 0 && i < layout->n_qps; i++)
		r = create_qp(queues, i);
	return r;
}

void mlx5_pooled_drop(struct mlx5_ctx *ctx)
{
	ctx->pooled = mlx5_queues_free(ctx->pooled);
	ctx->pooled_fd = safe_close(ctx->pooled_fd);
}

static void pass_over_pooled(struct mlx5_ctx *ctx)
{
	if (ctx->pooled && !ctx->pooled_told) {
		pthread_mutex_lock(&ctx->nic->lock);
		ctx->nic->ctx_pool.info.missed_memory++;
		pthread_mutex_unlock(&ctx->nic->lock);
	}
	ctx->pooled_told = false;
	mlx5_pooled_drop(ctx);
}

int mlx5_queues_create(struct nic_ctx *base, const struct nic_queue_mem *mem,
		       struct nic_layout *layout, struct nic_queues **ret_queues)
{
	_cleanup_(mlx5_queues_freep) struct mlx5_queues *queues = NULL;
	struct mlx5_ctx *ctx = mlx5_ctx(base);
	int r;

	r = check_request(ctx, mem, layout);
	if (r < 0)
		return r;
	/* First, since it may hold the resources that the NIC lacks. */
	pass_over_pooled(ctx);
	if (ctx->meddled)
		return -EPERM;
	queues = calloc(1, sizeof(*queues));
	if (!queues)
		return -ENOMEM;
	queues->base.ctx = base;
	queues->ctx = ctx;
	queues->mem_kind = mem->kind;
	queues->mem_offset = mem->offset;
	list_init(&queues->base.link);
	r = mlx5_queues_copy_layout(queues, layout);
	if (r == 0)
		r = queues_make(queues, mem);
	if (r < 0)
		return r;
	nic_layout_deinit(layout);
	list_add_tail(&ctx->base.queues, &queues->base.link);
	*ret_queues = &take_ptr(queues)->base;
	return 0;
}

int mlx5_queues_destroy(struct nic_queues *base)
{
	struct mlx5_queues *queues = container_of(base, struct mlx5_queues, base);

	for (uint32_t i = 0; i < base->layout.n_cqs; i++)
		if (queues->cqs[i].n_foreign_qps > 0)
			return -EBUSY;
	list_del(&queues->base.link);
	mlx5_queues_free(queues);
	return 0;
}

/* ---- batches that wait ------------------------------------------------------------------------------------------- */

void mlx5_queues_hide(struct mlx5_queues *queues)
{
	struct nic_layout *layout = &queues->base.layout;

	for (uint32_t i = 0; i < layout->n_qps; i++)
		hide_qp(queues->ctx, &queues->qps[i]);
	for (uint32_t i = 0; i < layout->n_cqs; i++)
		hide_cq(queues->ctx, &queues->cqs[i]);
	list_del(&queues->base.link);
}

int mlx5_queues_show(struct mlx5_queues *queues)
{
	struct nic_layout *layout = &queues->base.layout;
	struct mlx5_ctx *ctx = queues->ctx;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < layout->n_cqs; i++)
		r = hash_add(&ctx->cqs, layout->cqs[i].cqn, &queues->cqs[i]);
	for (uint32_t i = 0; r == 0 && i < layout->n_qps; i++) {
		r = hash_add(&ctx->qps, layout->qps[i].qpn, &queues->qps[i]);
		if (r == 0)
			r = mlx5_qp_hear(ctx->page, &queues->qps[i]);
	}
	if (r == 0)
		list_add_tail(&ctx->base.queues, &queues->base.link);
	else
		mlx5_queues_hide(queues);
	return r;
}

int mlx5_queues_read(struct nic_queues *base, uint64_t offset, void *buf, size_t bytes)
{
	struct mlx5_queues *queues = container_of(base, struct mlx5_queues, base);
	uint64_t total = base->layout.total_bytes;

	if (offset > total || bytes > total - offset)
		return -ERANGE;
	return mlx5_memory_read(&queues->memory, offset, buf, bytes);
}
