/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory regions: a client's memfd or dmabuf behind a key of the session's PD, or a region that the client has made there
 * itself by the command descriptor.
 *
 * Pages of a memfd are pinned by the kernel for as long as the region lives, so the daemon's mapping is needed for the
 * call alone, and what the client does to its file later moves nothing under the NIC. A dmabuf is never mapped.
 *
 * The client's own regions are taken by the kernel's handle, which is asked for keys and length: what the client says is not
 * believed, but that the memory is its own. From then on they are destroyed like all others.
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

int mlx5_map_memfd(int fd, uint64_t offset, uint64_t bytes, bool writable, uint8_t **ret_data)
{
	uint64_t size;
	void *data;
	int r;

	r = nic_memfd_check(fd, &size);
	if (r < 0)
		return r;
	if (bytes == 0 || !range_fits(offset, bytes, size))
		return -EINVAL;
	data = map_shared(fd, offset, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ);
	if (data == MAP_FAILED)
		return errno == EACCES || errno == EPERM ? -EPERM : -ENOMEM;
	*ret_data = data;
	return 0;
}

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

static int reg_memfd(struct mlx5_ctx *ctx, const struct nic_mr_attr *attr, struct ibv_mr **ret_mr)
{
	bool writable = attr->access & ~NIC_ACCESS_REMOTE_READ;
	uint8_t *data;
	int r;

	r = mlx5_map_memfd(attr->fd, attr->offset, attr->length_bytes, writable, &data);
	if (r < 0)
		return r;
	errno = 0;
	*ret_mr = ibv_reg_mr_iova(ctx->pd, data, attr->length_bytes, attr->iova,
				  ibv_access(attr->access));
	r = *ret_mr ? 0 : mlx5_errno(errno);
	unmap_shared(data, attr->length_bytes);
	return r;
}

static int reg_dmabuf(struct mlx5_ctx *ctx, const struct nic_mr_attr *attr, struct ibv_mr **ret_mr)
{
	errno = 0;
	*ret_mr = ibv_reg_dmabuf_mr(ctx->pd, attr->offset, attr->length_bytes, attr->iova, attr->fd,
				    ibv_access(attr->access));
	return *ret_mr ? 0 : mlx5_errno(errno);
}

/* A region may be reported once: a second report would destroy it twice. */
static bool has_handle(const struct mlx5_ctx *ctx, uint32_t handle)
{
	const struct mlx5_mr *mr;

	list_for_each_entry(mr, &ctx->base.mrs, base.link)
		if (mr->ibv && mr->ibv->handle == handle)
			return true;
	return false;
}

/* For a made-up handle the kernel may return any error; to the client it is not a region. */
static int not_a_region(int r)
{
	return r == -ENODEV || r == -ENOMEM || r == -EOPNOTSUPP ? r : -ENOENT;
}

static int take_peermem(struct mlx5_ctx *ctx, const struct nic_mr_attr *attr, struct ibv_mr **ret_mr)
{
	struct ibv_mr *mr;

	if (!ctx->base.client_pd)
		return -EPERM;
	if (has_handle(ctx, attr->handle))
		return -EEXIST;
	errno = 0;
	mr = ibv_import_mr(ctx->pd, attr->handle);
	if (!mr)
		return not_a_region(mlx5_errno(errno));
	if (mr->length != attr->length_bytes) {
		ibv_unimport_mr(mr);
		return -EINVAL;
	}
	*ret_mr = mr;
	return 0;
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
	mr->base = (struct nic_mr){.ctx = base,
				   .lkey = mr->ibv->lkey,
				   .rkey = mr->ibv->rkey,
				   .length_bytes = attr->length_bytes};
	list_add_tail(&ctx->base.mrs, &mr->base.link);
	*ret_mr = &take_ptr(mr)->base;
	return 0;
}

struct nic_mr *mlx5_mr_dereg(struct nic_mr *base)
{
	struct mlx5_mr *mr;
	struct mlx5_ctx *ctx;
	int err;

	if (!base)
		return NULL;
	mr = container_of(base, struct mlx5_mr, base);
	ctx = mlx5_ctx(base->ctx);
	err = mr->ibv ? ibv_dereg_mr(mr->ibv) : 0;
	/* libmlx5 keeps an object that the kernel does not destroy, else for ever. */
	if (err)
		ibv_unimport_mr(mr->ibv);
	mlx5_note_destroyed(ctx, mlx5_result(err));
	list_del(&mr->base.link);
	free(mr);
	return NULL;
}
