/* SPDX-License-Identifier: Apache-2.0 */
/* Protection domains and memory regions. */
#include <errno.h>
#include <stdlib.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

#include "tests/mlx5sim/sim/dm.h"
#include "tests/mlx5sim/sim/fw.h"
#include "tests/mlx5sim/sim/newer.h"
#include "tests/mlx5sim/sim/pd-mr.h"

#define ACCESS_KNOWN                                                                               \
	0xffu /* IB_UVERBS_ACCESS_LOCAL_WRITE to _HUGETLB; the optional range may be ignored */

#define MR_ACCESS                                                                                  \
	(ENGINE_ACCESS_LOCAL_WRITE | ENGINE_ACCESS_REMOTE_WRITE | ENGINE_ACCESS_REMOTE_READ |            \
	 ENGINE_ACCESS_REMOTE_ATOMIC | ENGINE_ACCESS_MW_BIND)

static void pd_free(struct object *object)
{
	struct nic *nic = object->ufile->nic;

	sim_lock(nic->sim);
	nic->n_pds--;
	sim_unlock(nic->sim);
	free(container_of(object, struct pd, object));
}

int pd_new(struct call *call, enum object_type type, struct pd **ret_pd)
{
	struct nic *nic = call->nic;
	struct pd *pd;
	int r;

	if (!call->ufile->has_context)
		return call_refuse(call, -EINVAL, "no context");
	if (nic_count(nic, &nic->n_pds) >= SIM_MAX_PD)
		return call_refuse(call, -ENOMEM, "more than %u PDs", SIM_MAX_PD);
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return -ENOMEM;
	r = object_add(call->ufile, &pd->object, type, pd_free);
	if (r < 0) {
		free(pd);
		return r;
	}
	sim_lock(nic->sim);
	nic->n_pds++;
	pd->pdn = nic->next_pdn++;
	sim_unlock(nic->sim);
	r = object_name(&pd->object, PRM_OP_ALLOC_PD, pd->pdn);
	if (r < 0) {
		object_destroy(&pd->object);
		return r;
	}
	*ret_pd = pd;
	return 0;
}

int write_alloc_pd(struct call *call)
{
	struct ib_uverbs_alloc_pd_resp resp = {0};
	struct mlx5_ib_alloc_pd_resp driver = {0};
	struct pd *pd = NULL;
	int r;

	r = pd_new(call, OBJECT_PD, &pd);
	if (r < 0)
		return r;
	resp.pd_handle = pd->object.handle;
	driver.pdn = pd->pdn;
	r = call_out(call, UVERBS_ATTR_UHW_OUT, &driver, sizeof(driver));
	if (r == 0)
		r = call_out(call, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
	if (r < 0)
		object_destroy(&pd->object);
	return r;
}

int pd_destroy(struct call *call)
{
	struct object *object =
		object_get(call->ufile, OBJECT_PD, call_u64(call, UVERBS_ATTR_DESTROY_PD_HANDLE));

	return object ? object_destroy(object) : call_refuse(call, -ENOENT, "no such PD");
}

int pd_query(struct call *call)
{
	const struct pd *pd = pd_get(call, call_u64(call, MLX5_IB_ATTR_QUERY_PD_HANDLE));

	if (!pd)
		return call_refuse(call, -ENOENT, "no such PD");
	return call_out(call, MLX5_IB_ATTR_QUERY_PD_RESP_PDN, &pd->pdn, sizeof(pd->pdn));
}

struct pd *pd_get(struct call *call, uint64_t handle)
{
	struct object *object = object_get(call->ufile, OBJECT_PD, handle);

	return object ? container_of(object, struct pd, object) : NULL;
}

/* ---- regions --------------------------------------------------------------------------------------------------- */

struct mr *mr_of_key(struct ufile *ufile, uint32_t key)
{
	struct object *object;

	list_for_each_entry (object, &ufile->objects, link) {
		struct mr *mr = container_of(object, struct mr, object);

		if (object->type == OBJECT_MR && mr->key == key)
			return mr;
	}
	return NULL;
}

static void mr_free(struct object *object)
{
	struct mr *mr = container_of(object, struct mr, object);
	struct nic *nic = object->ufile->nic;

	sim_lock(nic->sim);
	if (mr->key)
		engine_mr_destroy(nic->engine, mr->key);
	nic->n_mrs--;
	sim_unlock(nic->sim);
	mr->pd->object.users--;
	if (mr->dm)
		mr->dm->object.users--;
	memory_unref(mr->memory);
	free(mr);
}

static int check_remote_access(struct call *call, uint32_t access)
{
	uint32_t remote = IB_UVERBS_ACCESS_REMOTE_WRITE | IB_UVERBS_ACCESS_REMOTE_ATOMIC;

	if ((access & remote) && !(access & IB_UVERBS_ACCESS_LOCAL_WRITE))
		return call_refuse(call, -EINVAL, "remote write or atomic without local write");
	return 0;
}

static int check_reg(struct call *call, const struct ib_uverbs_reg_mr *cmd)
{
	uint32_t access = cmd->access_flags & ~(uint32_t)IB_UVERBS_ACCESS_OPTIONAL_RANGE;

	if (access & ~ACCESS_KNOWN)
		return call_refuse(call, -EINVAL, "unknown access bits 0x%x",
				   access & ~ACCESS_KNOWN);
	if ((cmd->start ^ cmd->hca_va) & (SIM_PAGE - 1))
		return call_refuse(call, -EINVAL, "address and IOVA differ within a page");
	/* Pages that are pinned are looked for; those on demand are not. */
	if (!cmd->length || cmd->hca_va + cmd->length < cmd->hca_va || cmd->start + cmd->length < cmd->start)
		return call_refuse(call, -EINVAL, "length");
	if (nic_count(call->nic, &call->nic->n_mrs) >= SIM_MAX_MR)
		return call_refuse(call, -ENOMEM, "more than %u regions", SIM_MAX_MR);
	return check_remote_access(call, access);
}

static bool is_on_demand(const struct ib_uverbs_reg_mr *cmd)
{
	return cmd->access_flags & IB_UVERBS_ACCESS_ON_DEMAND;
}

static struct engine_mr_attr attr_of(uint32_t key, const struct pd *pd,
				     const struct ib_uverbs_reg_mr *cmd)
{
	return (struct engine_mr_attr){
		.key = key,
		.pdn = pd->pdn,
		.access = cmd->access_flags & MR_ACCESS,
		.iova = cmd->hca_va,
		.length_bytes = cmd->length,
		.mem_offset = is_on_demand(cmd) ? cmd->start : cmd->start & (SIM_PAGE - 1),
	};
}

static int mr_enter(struct call *call, struct mr *mr, const struct ib_uverbs_reg_mr *cmd)
{
	struct engine_mr_attr attr = attr_of(0, mr->pd, cmd);
	struct nic *nic = call->nic;
	int r;

	attr.mem = &mr->memory->mem;
	if (mr->dm)
		attr.mem_offset = cmd->start;
	sim_lock(nic->sim);
	attr.key = nic->next_key;
	nic->next_key += 0x100;
	/* A key without addresses, for device memory of length zero. */
	r = attr.length_bytes ? engine_mr_create(nic->engine, &attr) : 0;
	if (r == 0)
		mr->key = attr.key;
	sim_unlock(nic->sim);
	return r;
}

static int take_dmabuf(struct call *call, struct mr *mr, int client_fd, const struct ib_uverbs_reg_mr *cmd)
{
	int fd = upcall_get_fd(call->reply, client_fd);
	int r;

	if (fd < 0)
		return call_refuse(call, -EBADF, "no such descriptor");
	r = memory_of_dmabuf(call, fd, cmd->start, cmd->length,
			     !!(cmd->access_flags & IB_UVERBS_ACCESS_LOCAL_WRITE), &mr->memory);
	return r < 0 ? call_refuse(call, r, "not a dmabuf, or a shorter one") : 0;
}

/* Memory of the calling process: its present pages, or whatever lies there at each access. */
static int own_memory(struct call *call, const struct ib_uverbs_reg_mr *cmd, struct memory **ret_memory)
{
	if (is_on_demand(cmd))
		return odp_memory_new(call, ret_memory);
	return memory_pin(call, cmd->start, cmd->length, !!(cmd->access_flags & IB_UVERBS_ACCESS_LOCAL_WRITE),
			  ret_memory);
}

static int take_memory(struct call *call, struct mr *mr, struct dm *dm, int dmabuf_fd,
		       const struct ib_uverbs_reg_mr *cmd)
{
	if (mr->is_dmabuf)
		return take_dmabuf(call, mr, dmabuf_fd, cmd);
	if (!dm)
		return own_memory(call, cmd, &mr->memory);
	mr->dm = dm;
	dm->object.users++;
	engine_mem_ref(&dm->memory->mem);
	mr->memory = dm->memory;
	return 0;
}

#define NO_FD (-1)

/* Device memory, a dmabuf that the client has as `dmabuf_fd`, or the client's own memory. */
static int mr_new(struct call *call, struct pd *pd, struct dm *dm, int dmabuf_fd,
		  const struct ib_uverbs_reg_mr *cmd, struct mr **ret_mr)
{
	struct mr *mr = calloc(1, sizeof(*mr));
	int r;

	if (!mr)
		return -ENOMEM;
	mr->pd = pd;
	mr->is_dmabuf = dmabuf_fd != NO_FD;
	mr->reg = *cmd;
	r = object_add(call->ufile, &mr->object, OBJECT_MR, mr_free);
	if (r < 0) {
		free(mr);
		return r;
	}
	pd->object.users++;
	sim_lock(call->nic->sim);
	call->nic->n_mrs++;
	sim_unlock(call->nic->sim);
	r = take_memory(call, mr, dm, dmabuf_fd, cmd);
	if (r == 0)
		r = mr_enter(call, mr, cmd);
	if (r < 0) {
		object_destroy(&mr->object);
		return r;
	}
	*ret_mr = mr;
	return 0;
}

int write_reg_mr(struct call *call)
{
	struct ib_uverbs_reg_mr_resp resp = {0};
	struct ib_uverbs_reg_mr cmd;
	struct pd *pd;
	struct mr *mr;
	int r;

	r = call_in_struct(call, UVERBS_ATTR_CORE_IN, &cmd, sizeof(cmd));
	if (r == 0)
		r = check_reg(call, &cmd);
	if (r < 0)
		return r;
	pd = pd_get(call, cmd.pd_handle);
	if (!pd)
		return call_refuse(call, -EINVAL, "no such PD");
	r = mr_new(call, pd, NULL, NO_FD, &cmd, &mr);
	if (r < 0)
		return call_refuse(call, r, "0x%llx bytes at 0x%llx",
				   (unsigned long long)cmd.length, (unsigned long long)cmd.start);
	resp.mr_handle = mr->object.handle;
	resp.lkey = mr->key;
	resp.rkey = mr->key;
	r = call_out(call, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
	if (r < 0)
		object_destroy(&mr->object);
	return r;
}

static int check_dm(struct call *call, const struct dm *dm, const struct ib_uverbs_reg_mr *cmd)
{
	const uint32_t known = IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_REMOTE_WRITE |
			       IB_UVERBS_ACCESS_REMOTE_READ | IB_UVERBS_ACCESS_REMOTE_ATOMIC |
			       IB_UVERBS_ACCESS_ZERO_BASED | IB_UVERBS_ACCESS_OPTIONAL_RANGE;

	if (cmd->access_flags & ~known || !(cmd->access_flags & IB_UVERBS_ACCESS_ZERO_BASED))
		return call_refuse(call, -EINVAL, "access bits 0x%x", cmd->access_flags);
	if (cmd->start > dm->asked_bytes || cmd->length > dm->asked_bytes - cmd->start)
		return call_refuse(call, -EINVAL, "beyond the %llu bytes",
				   (unsigned long long)dm->asked_bytes);
	if (nic_count(call->nic, &call->nic->n_mrs) >= SIM_MAX_MR)
		return call_refuse(call, -ENOMEM, "more than %u regions", SIM_MAX_MR);
	return check_remote_access(call, cmd->access_flags);
}

int mr_reg_dm(struct call *call)
{
	struct ib_uverbs_reg_mr cmd = {
		.start = call_u64(call, UVERBS_ATTR_REG_DM_MR_OFFSET),
		.length = call_u64(call, UVERBS_ATTR_REG_DM_MR_LENGTH),
		.access_flags = (uint32_t)call_u64(call, UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS),
	};
	struct dm *dm = dm_get(call, call_u64(call, UVERBS_ATTR_REG_DM_MR_DM_HANDLE));
	struct pd *pd = pd_get(call, call_u64(call, UVERBS_ATTR_REG_DM_MR_PD_HANDLE));
	struct mr *mr;
	int r;

	if (!dm || !pd)
		return call_refuse(call, -ENOENT, "no such memory or PD");
	r = check_dm(call, dm, &cmd);
	if (r == 0)
		r = mr_new(call, pd, dm, NO_FD, &cmd, &mr);
	if (r < 0)
		return r;
	r = call_out(call, UVERBS_ATTR_REG_DM_MR_RESP_LKEY, &mr->key, sizeof(mr->key));
	if (r == 0)
		r = call_out(call, UVERBS_ATTR_REG_DM_MR_RESP_RKEY, &mr->key, sizeof(mr->key));
	if (r == 0)
		r = call_set_handle(call, UVERBS_ATTR_REG_DM_MR_HANDLE, mr->object.handle);
	if (r < 0)
		object_destroy(&mr->object);
	return r;
}

static int check_dmabuf(struct call *call, int fd, const struct ib_uverbs_reg_mr *cmd)
{
	const uint32_t known = IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_REMOTE_WRITE |
			       IB_UVERBS_ACCESS_REMOTE_READ | IB_UVERBS_ACCESS_REMOTE_ATOMIC |
			       IB_UVERBS_ACCESS_RELAXED_ORDERING;

	if (cmd->access_flags & ~known)
		return call_refuse(call, -EINVAL, "access bits 0x%x", cmd->access_flags);
	return fd < 0 ? call_refuse(call, -EBADF, "no such descriptor") : 0;
}

int mr_reg_dmabuf(struct call *call)
{
	struct ib_uverbs_reg_mr cmd = {
		.start = call_u64(call, UVERBS_ATTR_REG_DMABUF_MR_OFFSET),
		.length = call_u64(call, UVERBS_ATTR_REG_DMABUF_MR_LENGTH),
		.hca_va = call_u64(call, UVERBS_ATTR_REG_DMABUF_MR_IOVA),
		.access_flags = (uint32_t)call_u64(call, UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS),
	};
	struct pd *pd = pd_get(call, call_u64(call, UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE));
	int r, fd = (int)(uint32_t)call_u64(call, UVERBS_ATTR_REG_DMABUF_MR_FD);
	struct mr *mr = NULL;

	if (!pd)
		return call_refuse(call, -ENOENT, "no such PD");
	r = check_dmabuf(call, fd, &cmd);
	if (r == 0)
		r = check_reg(call, &cmd);
	if (r == 0)
		r = mr_new(call, pd, NULL, fd, &cmd, &mr);
	if (r < 0)
		return r;
	r = call_out(call, UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, &mr->key, sizeof(mr->key));
	if (r == 0)
		r = call_out(call, UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, &mr->key, sizeof(mr->key));
	if (r == 0)
		r = call_set_handle(call, UVERBS_ATTR_REG_DMABUF_MR_HANDLE, mr->object.handle);
	if (r < 0)
		object_destroy(&mr->object);
	return r;
}

/* The client's memory, or a dmabuf. */
int mr_reg(struct call *call)
{
	bool of_fd = call_has(call, REG_MR_FD);
	struct ib_uverbs_reg_mr cmd = {
		.start = call_u64(call, of_fd ? REG_MR_FD_OFFSET : REG_MR_ADDR),
		.length = call_u64(call, REG_MR_LENGTH),
		.hca_va = call_u64(call, REG_MR_IOVA),
		.access_flags = (uint32_t)call_u64(call, REG_MR_ACCESS_FLAGS),
	};
	struct pd *pd = pd_get(call, call_u64(call, REG_MR_PD_HANDLE));
	int r, fd = of_fd ? (int)call_u64(call, REG_MR_FD) : NO_FD;
	struct mr *mr = NULL;

	if (!pd)
		return call_refuse(call, -ENOENT, "no such PD");
	if (call_has(call, REG_MR_ADDR) == of_fd || call_has(call, REG_MR_FD_OFFSET) != of_fd)
		return call_refuse(call, -EINVAL, "neither an address nor a descriptor with an offset");
	r = of_fd ? check_dmabuf(call, fd, &cmd) : 0;
	if (r == 0)
		r = check_reg(call, &cmd);
	if (r == 0)
		r = mr_new(call, pd, NULL, fd, &cmd, &mr);
	if (r < 0)
		return r;
	r = call_out(call, REG_MR_RESP_LKEY, &mr->key, sizeof(mr->key));
	if (r == 0)
		r = call_out(call, REG_MR_RESP_RKEY, &mr->key, sizeof(mr->key));
	if (r == 0)
		r = call_set_handle(call, REG_MR_HANDLE, mr->object.handle);
	if (r < 0)
		object_destroy(&mr->object);
	return r;
}

/* Anything but the key may change. Made anew: what is on its way meets the old region or the new one. */
static int mr_change(struct call *call, struct mr *mr, struct pd *pd,
		     const struct ib_uverbs_reg_mr *cmd)
{
	struct nic *nic = call->nic;
	struct engine_mr_attr attr = attr_of(mr->key, pd, cmd);
	struct memory *memory;
	int r;

	r = own_memory(call, cmd, &memory);
	if (r < 0)
		return r;
	attr.mem = &memory->mem;
	sim_lock(nic->sim);
	engine_mr_destroy(nic->engine, mr->key);
	r = engine_mr_create(nic->engine, &attr);
	sim_unlock(nic->sim);
	memory_unref(mr->memory);
	mr->memory = memory;
	mr->pd->object.users--;
	mr->pd = pd;
	pd->object.users++;
	mr->reg = *cmd;
	return r;
}

/* Attributes of the new region. */
static struct ib_uverbs_reg_mr merged(const struct mr *mr, const struct ib_uverbs_rereg_mr *cmd)
{
	struct ib_uverbs_reg_mr reg = mr->reg;

	if (cmd->flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		reg.start = cmd->start;
		reg.length = cmd->length;
		reg.hca_va = cmd->hca_va;
	}
	if (cmd->flags & IBV_REREG_MR_CHANGE_ACCESS)
		reg.access_flags = cmd->access_flags;
	return reg;
}

int write_rereg_mr(struct call *call)
{
	struct ib_uverbs_rereg_mr_resp resp = {0};
	struct ib_uverbs_rereg_mr cmd;
	struct ib_uverbs_reg_mr reg;
	struct object *object;
	struct pd *pd;
	struct mr *mr;
	int r;

	r = call_in_struct(call, UVERBS_ATTR_CORE_IN, &cmd, sizeof(cmd));
	if (r < 0)
		return r;
	object = object_get(call->ufile, OBJECT_MR, cmd.mr_handle);
	if (!object)
		return call_refuse(call, -EINVAL, "no such region");
	if (!cmd.flags || cmd.flags & ~(uint32_t)IBV_REREG_MR_FLAGS_SUPPORTED)
		return call_refuse(call, -EINVAL, "flags 0x%x", cmd.flags);
	mr = container_of(object, struct mr, object);
	if (mr->dm)
		return call_refuse(call, -EINVAL, "it lies in device memory");
	if (mr->is_dmabuf)
		return call_refuse(call, -EOPNOTSUPP, "it lies in a dmabuf");
	pd = cmd.flags & IBV_REREG_MR_CHANGE_PD ? pd_get(call, cmd.pd_handle) : mr->pd;
	if (!pd)
		return call_refuse(call, -EINVAL, "no such PD");
	reg = merged(mr, &cmd);
	r = check_reg(call, &reg);
	if (r == 0)
		r = mr_change(call, mr, pd, &reg);
	resp.lkey = mr->key;
	resp.rkey = mr->key;
	return r < 0 ? r : call_out(call, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
}

int mr_destroy(struct call *call)
{
	struct object *object =
		object_get(call->ufile, OBJECT_MR, call_u64(call, UVERBS_ATTR_DESTROY_MR_HANDLE));

	return object ? object_destroy(object) : call_refuse(call, -ENOENT, "no such region");
}

int mr_query(struct call *call)
{
	struct object *object =
		object_get(call->ufile, OBJECT_MR, call_u64(call, UVERBS_ATTR_QUERY_MR_HANDLE));
	const struct mr *mr;
	int r;

	if (!object)
		return call_refuse(call, -ENOENT, "no such region");
	mr = container_of(object, struct mr, object);
	r = call_out(call, UVERBS_ATTR_QUERY_MR_RESP_LKEY, &mr->key, sizeof(mr->key));
	if (r == 0)
		r = call_out(call, UVERBS_ATTR_QUERY_MR_RESP_RKEY, &mr->key, sizeof(mr->key));
	if (r == 0)
		r = call_out(call, UVERBS_ATTR_QUERY_MR_RESP_LENGTH, &mr->reg.length, 8);
	return r < 0 ? r : call_out(call, UVERBS_ATTR_QUERY_MR_RESP_IOVA, &mr->reg.hca_va, 8);
}
