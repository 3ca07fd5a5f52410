/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of rdma-core 63 that export and import objects, for a libmlx5 that has none: so the daemon's way by the
 * library is tested everywhere. They know older structures by the first fields that rdma-core 44 to 62 share.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/mlx5dv.h>

struct obj {
	struct ibv_context *ibv;
	uint32_t handle;
	uint8_t rest[64];
};

struct umem {
	struct mlx5dv_devx_umem base;
	struct ibv_context *ibv;
	uint32_t handle;
	uint8_t rest[64];
};

struct sizes {
	uint32_t var, umem, obj;
};

#pragma GCC visibility push(default)
void _mlx5dv_get_export_sizes(struct sizes *sizes, size_t bytes);
int mlx5dv_devx_obj_export(struct mlx5dv_devx_obj *obj, void *data);
struct mlx5dv_devx_obj *mlx5dv_devx_obj_import(struct ibv_context *ibv, void *data);
void mlx5dv_devx_obj_unimport(struct mlx5dv_devx_obj *obj);
int mlx5dv_devx_umem_export(struct mlx5dv_devx_umem *umem, void *data);
struct mlx5dv_devx_umem *mlx5dv_devx_umem_import(struct ibv_context *ibv, void *data);
void mlx5dv_devx_umem_unimport(struct mlx5dv_devx_umem *umem);
#pragma GCC visibility pop

void _mlx5dv_get_export_sizes(struct sizes *sizes, size_t bytes)
{
	const struct sizes all = {.var = 8, .umem = 8, .obj = 24};

	memset(sizes, 0, bytes);
	memcpy(sizes, &all, bytes < sizeof(all) ? bytes : sizeof(all));
}

int mlx5dv_devx_obj_export(struct mlx5dv_devx_obj *obj, void *data)
{
	memset(data, 0, 24);
	memcpy(data, &((struct obj *)(void *)obj)->handle, 4);
	return 0;
}

struct mlx5dv_devx_obj *mlx5dv_devx_obj_import(struct ibv_context *ibv, void *data)
{
	struct obj *obj = calloc(1, sizeof(*obj));

	if (obj) {
		obj->ibv = ibv;
		memcpy(&obj->handle, data, 4);
	}
	return (struct mlx5dv_devx_obj *)(void *)obj;
}

void mlx5dv_devx_obj_unimport(struct mlx5dv_devx_obj *obj)
{
	free(obj);
}

int mlx5dv_devx_umem_export(struct mlx5dv_devx_umem *umem, void *data)
{
	memcpy(data, &((struct umem *)(void *)umem)->handle, 4);
	memcpy((uint8_t *)data + 4, &umem->umem_id, 4);
	return 0;
}

struct mlx5dv_devx_umem *mlx5dv_devx_umem_import(struct ibv_context *ibv, void *data)
{
	struct umem *umem = calloc(1, sizeof(*umem));

	if (!umem)
		return NULL;
	umem->ibv = ibv;
	memcpy(&umem->handle, data, 4);
	memcpy(&umem->base.umem_id, (uint8_t *)data + 4, 4);
	return &umem->base;
}

void mlx5dv_devx_umem_unimport(struct mlx5dv_devx_umem *umem)
{
	free(umem);
}
