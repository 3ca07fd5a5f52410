/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory regions: a client's memfd or dmabuf behind a key of the session's PD, or a region that the client has made there
 * itself by the command descriptor.
 *
 * A mapper maps and registers a memfd (mlx5-mapper.h): the kernel pins its pages for as long as the region lives, so what the client
 * does to its file later moves nothing under the NIC. A dmabuf is never mapped.
 *
 * The client's own regions are taken by the kernel's handle, which is asked for keys and length: what the client says is not
 * believed, but that the memory is its own. From then on they are destroyed like all others: by a mapper, since their memory, too, is
 * of the client's making.
 *
 * Any thread that owns the context.
 */
#include "daemon/nic/mlx5/mlx5.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "proto/base/cleanup.h"
#include "proto/base/overflow.h"
#include "proto/base/page.h"

static int ibv_access(uint32_t access)
{
	int flags = 0;

	if (access & NIC_ACCESS_LOCAL_WRITE)
		flags |= IBV_ACCESS_LOCAL_WRITE;
	if (access & NIC_ACCESS_REMOTE_WRITE)
		flags |= IBV_ACCESS_REMOTE_WRITE;
	if (access & NIC_ACCESS_REMOTE_READ)
		flags |= IBV_ACCESS_REMOTE_READ;
	if (access & NIC_ACCESS_REMOTE_ATOMIC)
		flags |= IBV_ACCESS_REMOTE_ATOMIC;
	/* Verbs require it together with remote write; for a NIC it is the same memory. */
	if (access & (NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_ATOMIC))
		flags |= IBV_ACCESS_LOCAL_WRITE;
	return flags;
}

/* For a made-up handle the kernel may return any error: it is not a region. */
static int not_a_region(int r)
{
	return r == -ENODEV || r == -ENOMEM || r == -EOPNOTSUPP ? r : -ENOENT;
}

static bool has_handle(const struct mlx5_ctx *ctx, uint32_t handle)
{
	const struct mlx5_mr *mr;

	list_for_each_entry(mr, &ctx->base.mrs, base.link)
		if (mr->ibv && mr->ibv->handle == handle)
			return true;
	return false;
}

/* -EEXIST: it has a record, and two would destroy it twice. -EINVAL: it has another length. -ENOENT: there is none. */
static int take_region(struct mlx5_ctx *ctx, uint32_t handle, uint64_t bytes, struct ibv_mr **ret_mr)
{
	struct ibv_mr *mr;

	if (has_handle(ctx, handle))
		return -EEXIST;
	errno = 0;
	mr = ibv_import_mr(ctx->pd, handle);
	if (!mr)
		return not_a_region(mlx5_errno(errno));
	if (mr->length != bytes) {
		ibv_unimport_mr(mr);
		return -EINVAL;
	}
	*ret_mr = mr;
	return 0;
}

/* The mapper registers by calls of its own; libmlx5 takes the region over by the kernel's handle. */
static int reg_memfd(struct mlx5_ctx *ctx, const struct nic_mr_attr *attr, struct ibv_mr **ret_mr)
{
	const struct mapper_request region = {.pd = ctx->pd->handle,
					      .access = (uint32_t)ibv_access(attr->access),
					      .is_writable = attr->access & ~NIC_ACCESS_REMOTE_READ,
					      .offset = attr->offset,
					      .bytes = attr->length_bytes,
					      .address = attr->iova};
	uint32_t handle;
	int r = mlx5_memory_reg(ctx, &region, attr->fd, &handle);

	if (r < 0)
		return r;
	r = take_region(ctx, handle, attr->length_bytes, ret_mr);
	/* The region of another record is that one's. */
	if (r < 0 && r != -EEXIST)
		mlx5_memory_destroy(ctx, MLX5_OBJECT_MR, handle);
	/* A mapper that says anything wrong is no better than one that cannot register. */
	return r == -EEXIST || r == -EINVAL || r == -ENOENT ? -EIO : r;
}

static int reg_dmabuf(struct mlx5_ctx *ctx, const struct nic_mr_attr *attr, struct ibv_mr **ret_mr)
{
	errno = 0;
	*ret_mr = ibv_reg_dmabuf_mr(ctx->pd, attr->offset, attr->length_bytes, attr->iova, attr->fd,
				    ibv_access(attr->access));
	return *ret_mr ? 0 : mlx5_errno(errno);
}

/* A region may be reported once. */
static int take_peermem(struct mlx5_ctx *ctx, const struct nic_mr_attr *attr, struct ibv_mr **ret_mr)
{
	return ctx->base.client_pd ? take_region(ctx, attr->handle, attr->length_bytes, ret_mr) : -EPERM;
}

static int reg(struct mlx5_ctx *ctx, const struct nic_mr_attr *attr, struct ibv_mr **ret_mr)
{
	switch (attr->kind) {
	case NIC_MEM_MEMFD:
		return reg_memfd(ctx, attr, ret_mr);
	case NIC_MEM_DMABUF:
		return reg_dmabuf(ctx, attr, ret_mr);
	case NIC_MEM_PEERMEM:
		return take_peermem(ctx, attr, ret_mr);
	case NIC_MEM_AGENT:
		return -EOPNOTSUPP;
	}
	return -EINVAL;
}

int mlx5_mr_reg(struct nic_ctx *base, const struct nic_mr_attr *attr, struct nic_mr **ret_mr)
{
	_cleanup_free_ struct mlx5_mr *mr = calloc(1, sizeof(*mr));
	struct mlx5_ctx *ctx = mlx5_ctx(base);
	int r;

	if (!mr)
		return -ENOMEM;
	if (ctx->meddled)
		return -EPERM;
	r = nic_mr_attr_is_right(attr) ? reg(ctx, attr, &mr->ibv) : -EINVAL;
	if (r < 0)
		return r;
	mr->is_mapped = attr->kind != NIC_MEM_DMABUF;
	mr->base = (struct nic_mr){.ctx = base,
				   .lkey = mr->ibv->lkey,
				   .rkey = mr->ibv->rkey,
				   .length_bytes = attr->length_bytes};
	list_add_tail(&ctx->base.mrs, &mr->base.link);
	*ret_mr = &take_ptr(mr)->base;
	return 0;
}

static int destroy(struct mlx5_ctx *ctx, struct mlx5_mr *mr)
{
	int r;

	if (!mr->ibv)
		return 0;
	if (mr->is_mapped)
		r = mlx5_memory_destroy(ctx, MLX5_OBJECT_MR, mr->ibv->handle);
	else
		r = mlx5_result(ibv_dereg_mr(mr->ibv));
	/* libmlx5 keeps an object that it has not destroyed. */
	if (mr->is_mapped || r < 0)
		ibv_unimport_mr(mr->ibv);
	return r;
}

struct nic_mr *mlx5_mr_dereg(struct nic_mr *base)
{
	struct mlx5_mr *mr;
	struct mlx5_ctx *ctx;

	if (!base)
		return NULL;
	mr = container_of(base, struct mlx5_mr, base);
	ctx = mlx5_ctx(base->ctx);
	mlx5_note_destroyed(ctx, destroy(ctx, mr));
	list_del(&mr->base.link);
	free(mr);
	return NULL;
}
