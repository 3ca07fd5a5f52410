/* SPDX-License-Identifier: Apache-2.0 */
/* Memory windows: the kernel makes them, WQEs bind and free them (daemon/engine/mw.c). */
#include <errno.h>
#include <stdlib.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include "tests/mlx5sim/sim/pd-mr.h"

struct mw {
	struct object object;
	struct pd *pd;
	uint32_t key; /* as it was made; 0: not in the engine */
};

static void mw_free(struct object *object)
{
	struct mw *mw = container_of(object, struct mw, object);
	struct nic *nic = object->ufile->nic;

	sim_lock(nic->sim);
	if (mw->key) {
		engine_mw_destroy(nic->engine, mw->key);
		nic->n_mws--;
	}
	sim_unlock(nic->sim);
	mw->pd->object.users--;
	free(mw);
}

static int mw_new(struct call *call, struct pd *pd, bool is_type_2, struct mw **ret_mw)
{
	struct engine_mw_attr attr = {.pdn = pd->pdn, .is_type_2 = is_type_2};
	struct mw *mw = calloc(1, sizeof(*mw));
	struct nic *nic = call->nic;
	int r;

	if (!mw)
		return -ENOMEM;
	r = object_add(call->ufile, &mw->object, OBJECT_MW, mw_free);
	if (r < 0) {
		free(mw);
		return r;
	}
	mw->pd = pd;
	pd->object.users++;
	sim_lock(nic->sim);
	attr.key = nic->next_key;
	nic->next_key += 0x100;
	r = engine_mw_create(nic->engine, &attr);
	if (r == 0) {
		mw->key = attr.key;
		nic->n_mws++;
	}
	sim_unlock(nic->sim);
	*ret_mw = mw;
	if (r < 0)
		object_destroy(&mw->object);
	return r;
}

static int check_mw(struct call *call, const struct ib_uverbs_alloc_mw *cmd)
{
	struct mlx5_ib_alloc_mw driver;
	int r;

	r = call_in_struct(call, UVERBS_ATTR_UHW_IN, &driver, sizeof(driver));
	if (r < 0)
		return r;
	if (driver.comp_mask || driver.num_klms || driver.reserved1 || driver.reserved2)
		return call_refuse(call, -EOPNOTSUPP, "windows of several parts, or unknown bits");
	if (cmd->mw_type != IBV_MW_TYPE_1 && cmd->mw_type != IBV_MW_TYPE_2)
		return call_refuse(call, -EINVAL, "type %u", cmd->mw_type);
	return 0;
}

int write_alloc_mw(struct call *call)
{
	struct ib_uverbs_alloc_mw_resp resp = {0};
	struct ib_uverbs_alloc_mw cmd;
	struct mw *mw = NULL;
	struct pd *pd;
	int r;

	r = call_in_struct(call, UVERBS_ATTR_CORE_IN, &cmd, sizeof(cmd));
	if (r == 0)
		r = check_mw(call, &cmd);
	if (r < 0)
		return r;
	pd = pd_get(call, cmd.pd_handle);
	if (!pd)
		return call_refuse(call, -EINVAL, "no such PD");
	r = mw_new(call, pd, cmd.mw_type == IBV_MW_TYPE_2, &mw);
	if (r < 0)
		return r;
	resp.mw_handle = mw->object.handle;
	resp.rkey = mw->key;
	r = call_out(call, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
	if (r < 0)
		object_destroy(&mw->object);
	return r;
}

int mw_destroy(struct call *call)
{
	struct object *object =
		object_get(call->ufile, OBJECT_MW, call_u64(call, UVERBS_ATTR_DESTROY_MW_HANDLE));

	return object ? object_destroy(object) : call_refuse(call, -ENOENT, "no such window");
}
