/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that the kernel keeps for a context: what a firmware command made, umems, doorbell pages.
 *
 * Another process that has the command descriptor can go on with such an object when it knows the kernel's handle for it.
 * libmlx5 has that in structures of its own, and from rdma-core 63 on gives it out as bytes that only the same library reads.
 * So there are two ways, and each object knows its own: libmlx5 where it can export, and else this file's own calls
 * to uverbs. Doorbell pages are always made by the latter, since no libmlx5 exports one.
 *
 * Any thread that owns the context.
 */
#include "daemon/nic/mlx5/mlx5.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "proto/base/assert.h"
#include "proto/base/cleanup.h"

#define UAR_PAGE_BYTES 4096u

/* ---- one call of uverbs (Linux: rdma/rdma_user_ioctl_cmds.h, rdma/mlx5_user_ioctl_cmds.h) --------------------------- */

#define CALL_ATTRS 8u

struct call {
	uint64_t words[(sizeof(struct ib_uverbs_ioctl_hdr) + CALL_ATTRS * sizeof(struct ib_uverbs_attr)) / 8];
};

static struct ib_uverbs_ioctl_hdr *call_hdr(struct call *call)
{
	return (struct ib_uverbs_ioctl_hdr *)(void *)call->words;
}

static void call_begin(struct call *call, uint16_t object, uint16_t method)
{
	struct ib_uverbs_ioctl_hdr *hdr = call_hdr(call);

	memset(call, 0, sizeof(*call));
	hdr->object_id = object;
	hdr->method_id = method;
	hdr->driver_id = RDMA_DRIVER_MLX5;
}

static struct ib_uverbs_attr *call_attr(struct call *call, uint16_t id, size_t len)
{
	struct ib_uverbs_ioctl_hdr *hdr = call_hdr(call);
	struct ib_uverbs_attr *attr = &hdr->attrs[hdr->num_attrs];

	assert_bug(hdr->num_attrs < CALL_ATTRS && len <= UINT16_MAX);
	hdr->num_attrs++;
	attr->attr_id = id;
	attr->len = (uint16_t)len;
	attr->flags = UVERBS_ATTR_F_MANDATORY;
	return attr;
}

/* Small data stand in the attribute itself. */
static void call_in(struct call *call, uint16_t id, const void *data, size_t bytes)
{
	struct ib_uverbs_attr *attr = call_attr(call, id, bytes);

	if (bytes <= sizeof(attr->data))
		memcpy(&attr->data, data, bytes);
	else
		attr->data = (uintptr_t)data;
}

static void call_out(struct call *call, uint16_t id, void *data, size_t bytes)
{
	call_attr(call, id, bytes)->data = (uintptr_t)data;
}

/* An existing object; a new one's handle stands there after the call. */
static struct ib_uverbs_attr *call_handle(struct call *call, uint16_t id, uint32_t handle)
{
	struct ib_uverbs_attr *attr = call_attr(call, id, 0);

	attr->data = handle;
	return attr;
}

static void call_fd(struct call *call, uint16_t id, int fd)
{
	call_attr(call, id, 0)->data_s64 = fd;
}

static int call_do_on(struct call *call, int command_fd)
{
	struct ib_uverbs_ioctl_hdr *hdr = call_hdr(call);

	hdr->length = (uint16_t)(sizeof(*hdr) + hdr->num_attrs * sizeof(hdr->attrs[0]));
	return ioctl(command_fd, RDMA_VERBS_IOCTL, hdr) == 0 ? 0 : mlx5_errno(errno);
}

static int call_do(struct call *call, const struct ibv_context *ibv)
{
	return call_do_on(call, ibv->cmd_fd);
}

/* ---- handles: an idr of the kernel's for each context, of all kinds together; a free one goes to the next object ---------- */

static const struct {
	uint16_t object, destroy, handle;
} kinds[] = {
	[MLX5_OBJECT_DEVX] = {MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_DESTROY, MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE},
	[MLX5_OBJECT_UMEM] = {MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_DEREG,
			      MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE},
	[MLX5_OBJECT_UAR] = {MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY, MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE},
	[MLX5_OBJECT_MR] = {UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, UVERBS_ATTR_DESTROY_MR_HANDLE},
	[MLX5_OBJECT_AH] = {UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY, UVERBS_ATTR_DESTROY_AH_HANDLE},
	[MLX5_OBJECT_PD] = {UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, UVERBS_ATTR_DESTROY_PD_HANDLE},
};

int mlx5_handles_list(int command_fd, enum mlx5_object_kind kind, uint32_t *handles, uint32_t room, uint32_t *ret_n)
{
	uint64_t type = kinds[kind].object;
	uint32_t n = 0;
	struct call call;
	int r;

	assert_bug(room > 0 && room <= MLX5_HANDLES_MAX);
	call_begin(&call, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INFO_HANDLES);
	call_in(&call, UVERBS_ATTR_INFO_OBJECT_ID, &type, sizeof(type));
	call_out(&call, UVERBS_ATTR_INFO_TOTAL_HANDLES, &n, sizeof(n));
	call_out(&call, UVERBS_ATTR_INFO_HANDLES_LIST, handles, room * sizeof(*handles));
	r = call_do_on(&call, command_fd);
	*ret_n = n < room ? n : room;
	return r;
}

int mlx5_handle_destroy(int command_fd, enum mlx5_object_kind kind, uint32_t handle)
{
	struct call call;

	call_begin(&call, kinds[kind].object, kinds[kind].destroy);
	call_handle(&call, kinds[kind].handle, handle);
	return call_do_on(&call, command_fd);
}

/* ---- libmlx5 that exports -------------------------------------------------------------------------------------------- */

/* rdma-core 63: sizes of what is exported, for VARs, umems and objects. */
struct export_sizes {
	uint32_t var, umem, obj;
};

static void *symbol(const char *name, bool *found)
{
	void *at = dlsym(RTLD_DEFAULT, name);

	*found = *found && at;
	return at;
}

bool mlx5_library_find(struct mlx5_library *ret_library)
{
	struct mlx5_library library = {0};
	struct export_sizes sizes = {0};
	void (*get_sizes)(struct export_sizes *, size_t);
	bool found = true;

	get_sizes = symbol("_mlx5dv_get_export_sizes", &found);
	library.obj_export = symbol("mlx5dv_devx_obj_export", &found);
	library.obj_import = symbol("mlx5dv_devx_obj_import", &found);
	library.obj_unimport = symbol("mlx5dv_devx_obj_unimport", &found);
	library.umem_export = symbol("mlx5dv_devx_umem_export", &found);
	library.umem_import = symbol("mlx5dv_devx_umem_import", &found);
	library.umem_unimport = symbol("mlx5dv_devx_umem_unimport", &found);
	if (!found)
		return false;
	get_sizes(&sizes, sizeof(sizes));
	library.obj_bytes = sizes.obj;
	library.umem_bytes = sizes.umem;
	if (!sizes.obj || !sizes.umem || sizes.obj > MLX5_BLOB_BYTES || sizes.umem > MLX5_BLOB_BYTES)
		return false;
	*ret_library = library;
	return true;
}

/* ---- objects --------------------------------------------------------------------------------------------------------- */

static struct mlx5_object *object_new(struct ibv_context *ibv, enum mlx5_object_kind kind)
{
	struct mlx5_object *object = calloc(1, sizeof(*object));

	if (object) {
		object->ibv = ibv;
		object->kind = kind;
	}
	return object;
}

/*
 * Handles that libmlx5 keeps to itself: the kernel lists the newest object first. Where a client makes one in its context at this
 * moment it is that one's, and the client has confused itself.
 */
static int learn_handle(struct mlx5_object *object)
{
	uint32_t n = 0;
	int r = mlx5_handles_list(object->ibv->cmd_fd, object->kind, &object->handle, 1, &n);

	return r < 0 || n ? r : -ENOENT;
}

/* One whose handle cannot be learnt is not kept. */
static int give(struct mlx5_object *object, struct mlx5_object **ret_object)
{
	int r = object->library ? learn_handle(object) : 0;

	if (r < 0)
		mlx5_object_destroy(object);
	else
		*ret_object = object;
	return r;
}

static int create_by_ioctl(struct mlx5_object *object, const struct mlx5_cmd *cmd, void *out)
{
	struct ib_uverbs_attr *handle;
	struct call call;
	int r;

	call_begin(&call, MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_CREATE);
	handle = call_handle(&call, MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE, 0);
	call_in(&call, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN, cmd->in, cmd->in_bytes);
	call_out(&call, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, out, cmd->out_bytes);
	r = call_do(&call, object->ibv);
	object->handle = (uint32_t)handle->data;
	return r;
}

int mlx5_object_create(struct ibv_context *ibv, const struct mlx5_library *library, const struct mlx5_cmd *cmd,
		       void *out, struct mlx5_object **ret_object)
{
	_cleanup_free_ struct mlx5_object *object = object_new(ibv, MLX5_OBJECT_DEVX);
	int r = 0;

	if (!object)
		return -ENOMEM;
	if (library) {
		errno = 0;
		object->obj = mlx5dv_devx_obj_create(ibv, cmd->in, cmd->in_bytes, out, cmd->out_bytes);
		object->library = library;
		r = object->obj ? 0 : mlx5_errno(errno);
	} else {
		r = create_by_ioctl(object, cmd, out);
	}
	return r < 0 ? r : give(take_ptr(object), ret_object);
}

_Static_assert((int)MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE == (int)MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE &&
		       (int)MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN == (int)MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN &&
		       (int)MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT == (int)MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT,
	       "both methods have the same attributes");

static int call_object(struct mlx5_object *object, uint16_t method, const struct mlx5_cmd *cmd, void *out)
{
	struct call call;

	call_begin(&call, MLX5_IB_OBJECT_DEVX_OBJ, method);
	call_handle(&call, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE, object->handle);
	call_in(&call, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN, cmd->in, cmd->in_bytes);
	call_out(&call, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT, out, cmd->out_bytes);
	return call_do(&call, object->ibv);
}

int mlx5_object_modify(struct mlx5_object *object, const struct mlx5_cmd *cmd, void *out)
{
	return object->obj ? mlx5_result(mlx5dv_devx_obj_modify(object->obj, cmd->in, cmd->in_bytes, out, cmd->out_bytes))
			   : call_object(object, MLX5_IB_METHOD_DEVX_OBJ_MODIFY, cmd, out);
}

int mlx5_object_query(struct mlx5_object *object, const struct mlx5_cmd *cmd, void *out)
{
	return object->obj ? mlx5_result(mlx5dv_devx_obj_query(object->obj, cmd->in, cmd->in_bytes, out, cmd->out_bytes))
			   : call_object(object, MLX5_IB_METHOD_DEVX_OBJ_QUERY, cmd, out);
}

int mlx5_object_subscribe(struct mlx5_object *object, struct mlx5dv_devx_event_channel *channel,
			  uint16_t *types, uint16_t bytes, uint64_t cookie)
{
	struct call call;

	if (object->obj)
		return mlx5_result(mlx5dv_devx_subscribe_devx_event(channel, object->obj, bytes, types, cookie));
	call_begin(&call, MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_SUBSCRIBE_EVENT);
	call_fd(&call, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_HANDLE, channel->fd);
	call_handle(&call, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE, object->handle);
	call_in(&call, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_TYPE_NUM_LIST, types, bytes);
	call_in(&call, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_COOKIE, &cookie, sizeof(cookie));
	return call_do(&call, object->ibv);
}

/* ---- umems ----------------------------------------------------------------------------------------------------------- */

int mlx5_uverbs_reg_umem(int command_fd, const struct mlx5dv_devx_umem_in *in, uint32_t *ret_number, uint32_t *ret_handle)
{
	uint64_t addr = (uintptr_t)in->addr, bytes = in->size, sizes = in->pgsz_bitmap;
	struct ib_uverbs_attr *handle;
	struct call call;
	int r;

	call_begin(&call, MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_REG);
	handle = call_handle(&call, MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE, 0);
	call_in(&call, MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR, &addr, sizeof(addr));
	call_in(&call, MLX5_IB_ATTR_DEVX_UMEM_REG_LEN, &bytes, sizeof(bytes));
	call_in(&call, MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS, &in->access, sizeof(in->access));
	call_in(&call, MLX5_IB_ATTR_DEVX_UMEM_REG_PGSZ_BITMAP, &sizes, sizeof(sizes));
	if (in->comp_mask & MLX5DV_UMEM_MASK_DMABUF)
		call_fd(&call, MLX5_IB_ATTR_DEVX_UMEM_REG_DMABUF_FD, in->dmabuf_fd);
	call_out(&call, MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID, ret_number, sizeof(*ret_number));
	r = call_do_on(&call, command_fd);
	*ret_handle = (uint32_t)handle->data;
	return r;
}

int mlx5_umem_reg(struct ibv_context *ibv, const struct mlx5_library *library, struct mlx5dv_devx_umem_in *in,
		  struct mlx5_object **ret_umem)
{
	_cleanup_free_ struct mlx5_object *object = object_new(ibv, MLX5_OBJECT_UMEM);
	int r = 0;

	if (!object)
		return -ENOMEM;
	if (library) {
		errno = 0;
		object->umem = mlx5dv_devx_umem_reg_ex(ibv, in);
		object->library = library;
		r = object->umem ? 0 : mlx5_errno(errno);
		object->number = object->umem ? object->umem->umem_id : 0;
	} else {
		r = mlx5_uverbs_reg_umem(ibv->cmd_fd, in, &object->number, &object->handle);
	}
	return r < 0 ? r : give(take_ptr(object), ret_umem);
}

/* ---- regions: the struct command REG_MR of uverbs (Linux: rdma/ib_user_verbs.h), by its ioctl -------------------------- */

int mlx5_uverbs_reg_mr(int command_fd, const struct mlx5_reg *reg, uint32_t *ret_handle)
{
	struct ib_uverbs_reg_mr_resp resp = {0};
	const struct ib_uverbs_reg_mr cmd = {.start = (uintptr_t)reg->data,
					     .length = reg->bytes,
					     .hca_va = reg->iova,
					     .pd_handle = reg->pd,
					     .access_flags = reg->access};
	const uint64_t what = IB_USER_VERBS_CMD_REG_MR;
	struct call call;
	int r;

	call_begin(&call, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
	call_in(&call, UVERBS_ATTR_CORE_IN, &cmd, sizeof(cmd));
	call_out(&call, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
	call_in(&call, UVERBS_ATTR_WRITE_CMD, &what, sizeof(what));
	r = call_do_on(&call, command_fd);
	if (r == 0)
		*ret_handle = resp.mr_handle;
	return r;
}

/* ---- doorbell pages -------------------------------------------------------------------------------------------------- */

static int alloc_page(struct mlx5_uar *uar, struct ibv_context *ibv, uint32_t type)
{
	_cleanup_free_ struct mlx5_object *object = object_new(ibv, MLX5_OBJECT_UAR);
	struct ib_uverbs_attr *handle;
	struct call call;
	uint32_t bytes;
	int r;

	if (!object)
		return -ENOMEM;
	call_begin(&call, MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC);
	handle = call_handle(&call, MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, 0);
	call_in(&call, MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, &type, sizeof(type));
	call_out(&call, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, &uar->mmap_off, sizeof(uar->mmap_off));
	call_out(&call, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, &bytes, sizeof(bytes));
	call_out(&call, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, &object->number, sizeof(object->number));
	r = call_do(&call, ibv);
	object->handle = (uint32_t)handle->data;
	if (r == 0)
		uar->object = take_ptr(object);
	return r;
}

static int map_page(struct mlx5_uar *uar)
{
	void *page = mmap(NULL, UAR_PAGE_BYTES, PROT_WRITE, MAP_SHARED, uar->object->ibv->cmd_fd,
			  (off_t)uar->mmap_off);

	if (page == MAP_FAILED)
		return mlx5_errno(errno);
	uar->base_addr = page;
	return 0;
}

/* Each page of the kernel's is an object of its own; that type NC is one page for all is a custom of libmlx5's. */
int mlx5_uar_alloc(struct ibv_context *ibv, struct mlx5_uar **ret_uar)
{
	struct mlx5_uar *uar = calloc(1, sizeof(*uar));
	int r = uar ? alloc_page(uar, ibv, MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC) : -ENOMEM;

	if (uar && r < 0)
		r = alloc_page(uar, ibv, MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF);
	if (r == 0)
		r = map_page(uar);
	if (r < 0)
		mlx5_uar_free(uar);
	else
		*ret_uar = uar;
	return r;
}

static void unmap_page(struct mlx5_uar *uar)
{
	if (uar->base_addr)
		munmap(uar->base_addr, UAR_PAGE_BYTES);
	uar->base_addr = NULL;
}

void mlx5_uar_free(struct mlx5_uar *uar)
{
	if (!uar)
		return;
	unmap_page(uar);
	mlx5_object_destroy(uar->object);
	free(uar);
}

/* ---- export and import ------------------------------------------------------------------------------------------------- */

int mlx5_object_export(const struct mlx5_object *object, struct mlx5_object_record *ret_record)
{
	struct mlx5_object_record record = {.number = object->number, .handle = object->handle};
	const struct mlx5_library *library = object->library;
	int err = 0;

	if (object->obj) {
		record.blob_bytes = library->obj_bytes;
		err = library->obj_export(object->obj, record.blob);
	} else if (object->umem) {
		record.blob_bytes = library->umem_bytes;
		err = library->umem_export(object->umem, record.blob);
	}
	if (!err)
		*ret_record = record;
	return mlx5_result(err);
}

static int import_by_library(struct mlx5_object *object, const struct mlx5_library *library,
			     const struct mlx5_object_record *record)
{
	uint8_t blob[MLX5_BLOB_BYTES];
	bool is_obj = object->kind == MLX5_OBJECT_DEVX;

	if (!library || object->kind == MLX5_OBJECT_UAR ||
	    record->blob_bytes != (is_obj ? library->obj_bytes : library->umem_bytes))
		return -EOPNOTSUPP;
	memcpy(blob, record->blob, sizeof(blob));
	errno = 0;
	object->library = library;
	if (is_obj)
		object->obj = library->obj_import(object->ibv, blob);
	else
		object->umem = library->umem_import(object->ibv, blob);
	return object->obj || object->umem ? 0 : mlx5_errno(errno);
}

int mlx5_object_import(struct ibv_context *ibv, const struct mlx5_library *library, enum mlx5_object_kind kind,
		       const struct mlx5_object_record *record, struct mlx5_object **ret_object)
{
	_cleanup_free_ struct mlx5_object *object = object_new(ibv, kind);
	int r = 0;

	if (!object)
		return -ENOMEM;
	object->number = record->number;
	object->handle = record->handle;
	if (record->blob_bytes)
		r = import_by_library(object, library, record);
	if (r == 0)
		*ret_object = take_ptr(object);
	return r;
}

/* A page is mapped by the offset, which the kernel knows as one of this context or refuses. */
int mlx5_uar_import(struct ibv_context *ibv, const struct mlx5_object_record *record, uint64_t mmap_off,
		    struct mlx5_uar **ret_uar)
{
	struct mlx5_uar *uar = calloc(1, sizeof(*uar));
	int r;

	if (!uar)
		return -ENOMEM;
	uar->mmap_off = mmap_off;
	r = mlx5_object_import(ibv, NULL, MLX5_OBJECT_UAR, record, &uar->object);
	if (r == 0)
		r = map_page(uar);
	if (r < 0)
		mlx5_uar_unimport(uar);
	else
		*ret_uar = uar;
	return r;
}

void mlx5_object_unimport(struct mlx5_object *object)
{
	if (!object)
		return;
	if (object->obj)
		object->library->obj_unimport(object->obj);
	else if (object->umem)
		object->library->umem_unimport(object->umem);
	free(object);
}

void mlx5_uar_unimport(struct mlx5_uar *uar)
{
	if (!uar)
		return;
	unmap_page(uar);
	mlx5_object_unimport(uar->object);
	free(uar);
}

/* ---- the end of an object ---------------------------------------------------------------------------------------------- */

int mlx5_object_destroy(struct mlx5_object *object)
{
	int r;

	if (!object)
		return 0;
	if (object->obj)
		r = mlx5_result(mlx5dv_devx_obj_destroy(object->obj));
	else if (object->umem)
		r = mlx5_result(mlx5dv_devx_umem_dereg(object->umem));
	else
		r = mlx5_handle_destroy(object->ibv->cmd_fd, object->kind, object->handle);
	/* libmlx5 keeps an object that the kernel does not destroy, else for ever. */
	if (r < 0)
		mlx5_object_unimport(object);
	else
		free(object);
	return r;
}
