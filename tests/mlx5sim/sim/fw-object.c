/* SPDX-License-Identifier: Apache-2.0 */
/*
 * General objects: of all types there is one, the mapping of an address to a QP. It says whose congestion control that
 * address shall have, of which a link that loses nothing has none; so it is kept, and changes nothing.
 */
#include <errno.h>
#include <stdlib.h>

#include "tests/mlx5sim/sim/fw.h"

static void mapping_free(struct object *object)
{
	free(object);
}

static int check(struct fw_cmd *cmd)
{
	uint32_t qpn = (uint32_t)fw_get(cmd, PRM_CREATE_AV_QP_MAPPING_IN_QPN);
	uint64_t index = fw_get(cmd, PRM_CREATE_AV_QP_MAPPING_IN_AV_SRC_ADDR_INDEX);
	struct engine_qp_info info;
	int r;

	if (cmd->op_mod != PRM_OBJ_AV_QP_MAPPING)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, PRM_IN_OP_MOD, "no objects of type 0x%x", cmd->op_mod);
	if (index >= nic_n_gids(cmd->nic))
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, PRM_CREATE_AV_QP_MAPPING_IN_AV_SRC_ADDR_INDEX,
			       "GID index %u", (unsigned int)index);
	/* A QP of any context of this device. */
	sim_lock(cmd->nic->sim);
	r = engine_qp_query(cmd->nic->engine, qpn, &info);
	sim_unlock(cmd->nic->sim);
	return r < 0 ? fw_fail(cmd, PRM_STATUS_BAD_RES, PRM_CREATE_AV_QP_MAPPING_IN_QPN, "no QP 0x%x", qpn) : 0;
}

int fw_create_object(struct fw_cmd *cmd)
{
	struct object *object;
	int r;

	r = check(cmd);
	if (r < 0)
		return r;
	object = calloc(1, sizeof(*object));
	if (!object)
		return -ENOMEM;
	r = object_add(cmd->call->ufile, object, OBJECT_DEVX, mapping_free);
	if (r < 0) {
		free(object);
		return r;
	}
	r = object_name(object, cmd->opcode, object->handle);
	if (r < 0) {
		object_destroy(object);
		return r;
	}
	fw_set(cmd, PRM_CREATE_GENERAL_OBJECT_OUT_OBJ_ID, object->number);
	cmd->created = object;
	return 0;
}
