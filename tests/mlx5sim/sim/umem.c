/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that DEVX objects are made on: pages of the caller's, of a memfd it mapped, or of a dmabuf. */
#include <errno.h>
#include <stdlib.h>

#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

#include "tests/mlx5sim/sim/fw.h"

#define ACCESS_KNOWN                                                                               \
	(IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_REMOTE_WRITE |                            \
	 IB_UVERBS_ACCESS_REMOTE_READ)

static void umem_free(struct object *object)
{
	struct umem *umem = container_of(object, struct umem, object);
	struct nic *nic = object->ufile->nic;

	sim_lock(nic->sim);
	nic->n_umems--;
	sim_unlock(nic->sim);
	memory_unref(umem->memory);
	free(umem);
}

/* A page size the caller allows must not be larger than the umem, rounded up to a power of two and a page. */
static bool has_page_size(uint64_t sizes, uint64_t bytes)
{
	unsigned int order = 12;

	while (order < 63 && (uint64_t)1 << order < bytes)
		order++;
	return (sizes & ((((uint64_t)2 << order) - 1) & ~(uint64_t)(SIM_PAGE - 1))) != 0;
}

static int check(struct call *call, uint64_t bytes, uint64_t access)
{
	if (!call->ufile->uid)
		return call_refuse(call, -EINVAL, "a context without DEVX");
	if (access & ~(uint64_t)ACCESS_KNOWN)
		return call_refuse(call, -EINVAL, "unknown access bits 0x%llx",
				   (unsigned long long)access);
	if ((access & IB_UVERBS_ACCESS_REMOTE_WRITE) && !(access & IB_UVERBS_ACCESS_LOCAL_WRITE))
		return call_refuse(call, -EINVAL, "remote write without local write");
	if (!bytes)
		return call_refuse(call, -EINVAL, "no bytes");
	if (call_has(call, MLX5_IB_ATTR_DEVX_UMEM_REG_PGSZ_BITMAP) &&
	    !has_page_size(call_u64(call, MLX5_IB_ATTR_DEVX_UMEM_REG_PGSZ_BITMAP), bytes))
		return call_refuse(call, -EINVAL, "no page size that is possible");
	if (nic_count(call->nic, &call->nic->n_umems) >= SIM_MAX_MR)
		return call_refuse(call, -ENOMEM, "more than %u umems", SIM_MAX_MR);
	return 0;
}

static int pin(struct call *call, struct umem *umem)
{
	int fd, r;

	if (!call_has(call, MLX5_IB_ATTR_DEVX_UMEM_REG_DMABUF_FD))
		return memory_pin(call, umem->addr, umem->bytes, umem->writable, &umem->memory);
	fd = upcall_get_fd(call->reply, (int)call_u64(call, MLX5_IB_ATTR_DEVX_UMEM_REG_DMABUF_FD));
	if (fd < 0)
		return call_refuse(call, -EBADF, "no such descriptor");
	r = memory_of_dmabuf(call, fd, umem->addr, umem->bytes, umem->writable, &umem->memory);
	return r < 0 ? call_refuse(call, r, "not a dmabuf, or a shorter one") : 0;
}

static int answer(struct call *call, const struct umem *umem)
{
	uint32_t id = umem->object.number;
	int r = call_out(call, MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID, &id, sizeof(id));

	return r < 0 ? r
		     : call_set_handle(call, MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE,
				       umem->object.handle);
}

int umem_reg(struct call *call)
{
	uint64_t access = call_u64(call, MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS);
	uint64_t bytes = call_u64(call, MLX5_IB_ATTR_DEVX_UMEM_REG_LEN);
	struct umem *umem;
	uint32_t id;
	int r;

	r = check(call, bytes, access);
	if (r < 0)
		return r;
	umem = calloc(1, sizeof(*umem));
	if (!umem)
		return -ENOMEM;
	umem->addr = call_u64(call, MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR);
	umem->bytes = bytes;
	umem->writable = !!(access & IB_UVERBS_ACCESS_LOCAL_WRITE);
	r = object_add(call->ufile, &umem->object, OBJECT_UMEM, umem_free);
	if (r < 0) {
		free(umem);
		return r;
	}
	sim_lock(call->nic->sim);
	call->nic->n_umems++;
	id = call->nic->next_umem++;
	sim_unlock(call->nic->sim);
	r = object_name(&umem->object, FW_CREATE_UMEM, id);
	if (r == 0)
		r = pin(call, umem);
	if (r == 0)
		r = answer(call, umem);
	if (r < 0)
		object_destroy(&umem->object);
	return r;
}

int umem_dereg(struct call *call)
{
	struct object *object = object_get(call->ufile, OBJECT_UMEM,
					   call_u64(call, MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE));

	if (!object)
		return call_refuse(call, -ENOENT, "no such umem");
	if (object->users)
		return call_refuse(call, -EINVAL, "%u objects are made on it", object->users);
	return object_destroy(object);
}

/* ---- for commands ---------------------------------------------------------------------------------------------- */

void *fw_umem(struct fw_cmd *cmd, uint32_t id_field, uint32_t offset_field, uint64_t bytes,
	      bool writable, struct umem **ret_umem)
{
	struct object *object = fw_object(cmd, FW_CREATE_UMEM, id_field, "umem");
	uint64_t offset = fw_get(cmd, offset_field);
	struct umem *umem;

	if (!object)
		return NULL;
	umem = container_of(object, struct umem, object);
	if (offset > umem->bytes || bytes > umem->bytes - offset) {
		fw_fail(cmd, PRM_STATUS_BAD_PARAM, offset_field,
			"0x%llx bytes at 0x%llx of a umem of 0x%llx bytes",
			(unsigned long long)bytes, (unsigned long long)offset,
			(unsigned long long)umem->bytes);
		return NULL;
	}
	if (writable && !umem->writable) {
		fw_fail(cmd, PRM_STATUS_BAD_PARAM, id_field, "the umem is read-only");
		return NULL;
	}
	object->users++;
	*ret_umem = umem;
	return (uint8_t *)memory_at(umem->memory, umem->addr) + offset;
}

void umem_put(struct umem *umem)
{
	if (umem)
		umem->object.users--;
}
