/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The DEVX methods of uverbs: which commands each lets through, and the objects that commands make. A kernel's checks
 * are here; the firmware's, in fw.c. An answer that says why a command failed reaches the caller.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

#include "proto/base/cleanup.h"
#include "tests/mlx5sim/sim/fw.h"

#define OUT_MAX 65536u

static int check_uid(struct call *call, uint16_t opcode)
{
	if (!call->ufile->has_context)
		return call_refuse(call, -EINVAL, "no context");
	/* Every caller may read capabilities. */
	if (!call->ufile->uid && opcode != PRM_OP_QUERY_HCA_CAP &&
	    opcode != PRM_OP_QUERY_HCA_VPORT_CONTEXT)
		return call_refuse(call, -EINVAL, "a context without DEVX");
	return 0;
}

/* Input and output of a command; `out` is to be freed. */
static int begin(struct call *call, uint16_t in_id, size_t out_bytes, enum fw_kind kind,
		 struct fw_cmd *ret_cmd)
{
	struct fw_cmd cmd = {.call = call, .nic = call->nic, .out_bytes = out_bytes};
	int r;

	cmd.in = call_in(call, in_id, &cmd.in_bytes);
	cmd.opcode = (uint16_t)prm_get(cmd.in, PRM_IN_OPCODE);
	call->what = prm_opcode_name(cmd.opcode);
	r = check_uid(call, cmd.opcode);
	if (r < 0)
		return r;
	if (!fw_is_kind(cmd.opcode, kind))
		return call_refuse(call, -EINVAL, "command 0x%x is not for %s", cmd.opcode,
				   call->method->name);
	if (out_bytes > OUT_MAX)
		return call_refuse(call, -EINVAL, "%zu bytes of output", out_bytes);
	cmd.out = calloc(1, out_bytes);
	if (!cmd.out)
		return -ENOMEM;
	*ret_cmd = cmd;
	return 0;
}

/* Runs it and hands the answer out, also when the command failed. */
static int run(struct fw_cmd *cmd, uint16_t out_id)
{
	int r = fw_exec(cmd), written = 0;

	if (r == 0 || r == -EREMOTEIO)
		written = call_out(cmd->call, out_id, cmd->out, cmd->out_bytes);
	return r < 0 ? r : written;
}

int devx_other(struct call *call)
{
	_cleanup_free_ uint8_t *out = NULL;
	struct fw_cmd cmd;
	int r;

	r = begin(call, MLX5_IB_ATTR_DEVX_OTHER_CMD_IN,
		  call_room(call, MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT), FW_GENERAL, &cmd);
	if (r < 0)
		return r;
	out = cmd.out;
	return run(&cmd, MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT);
}

int devx_create(struct call *call)
{
	_cleanup_free_ uint8_t *out = NULL;
	struct fw_cmd cmd;
	int r;

	r = begin(call, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN,
		  call_room(call, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT), FW_CREATE, &cmd);
	if (r < 0)
		return r;
	out = cmd.out;
	r = run(&cmd, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT);
	if (r == 0)
		r = call_set_handle(call, MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE, cmd.created->handle);
	if (r < 0 && cmd.created)
		object_destroy(cmd.created);
	return r;
}

int devx_destroy(struct call *call)
{
	struct object *object = object_get(call->ufile, OBJECT_DEVX,
					   call_u64(call, MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE));

	if (!object)
		return call_refuse(call, -ENOENT, "no such object");
	fw_wait(call->ufile);
	if (object->users) /* the firmware's "bad resource state", which has no answer to stand in */
		return call_refuse(call, -EINVAL, "%u others use what %s made", object->users,
				   prm_opcode_name(object->opcode));
	return object_destroy(object);
}

/* Modify and query: of an object, whichever way it was made, and of no other than its handle says. */
static int begin_on_object(struct call *call, uint16_t handle_id, uint16_t in_id, size_t out_bytes,
			   enum fw_kind kind, struct fw_cmd *ret_cmd)
{
	struct object *object = object_any(call->ufile, call_u64(call, handle_id));
	uint16_t made_by;
	uint32_t number;
	int r;

	if (!object)
		return call_refuse(call, -ENOENT, "no such object");
	r = begin(call, in_id, out_bytes, kind, ret_cmd);
	if (r < 0)
		return r;
	/* A command that names an unknown object fails in the firmware. */
	if (fw_object_of(ret_cmd, &made_by, &number) &&
	    (object->opcode != made_by || object->number != number)) {
		free(ret_cmd->out);
		return call_refuse(call, -EINVAL, "the command is for another object, 0x%x",
				   number);
	}
	return 0;
}

int devx_modify(struct call *call)
{
	_cleanup_free_ uint8_t *out = NULL;
	struct fw_cmd cmd;
	int r;

	r = begin_on_object(call, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE,
			    MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN,
			    call_room(call, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT), FW_MODIFY, &cmd);
	if (r < 0)
		return r;
	out = cmd.out;
	return run(&cmd, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT);
}

int devx_query(struct call *call)
{
	_cleanup_free_ uint8_t *out = NULL;
	struct fw_cmd cmd;
	int r;

	r = begin_on_object(call, MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE,
			    MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN,
			    call_room(call, MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT), FW_QUERY, &cmd);
	if (r < 0)
		return r;
	out = cmd.out;
	return run(&cmd, MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT);
}

/* The answer is read from a descriptor, behind the caller's number for it. */
int devx_query_async(struct call *call)
{
	size_t out_bytes = (size_t)call_u64(call, MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_OUT_LEN);
	uint64_t wr_id = call_u64(call, MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_WR_ID);
	_cleanup_free_ uint8_t *message = NULL, *out = NULL;
	struct object *channel;
	struct fw_cmd cmd;
	int r;

	channel = channel_of_fd(call, (int)call_u64(call, MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_FD));
	if (!channel)
		return call_refuse(call, -EBADF, "no command channel of this context");
	if (out_bytes < PRM_EMPTY_OUT_BYTES)
		return call_refuse(call, -EINVAL, "%zu bytes of output", out_bytes);
	r = begin_on_object(call, MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_HANDLE,
			    MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_CMD_IN, out_bytes, FW_QUERY, &cmd);
	if (r < 0)
		return r;
	out = cmd.out;
	message = malloc(sizeof(wr_id) + out_bytes);
	if (!message)
		return -ENOMEM;
	fw_exec(&cmd); /* that it failed stands in the answer */
	memcpy(message, &wr_id, sizeof(wr_id));
	memcpy(message + sizeof(wr_id), cmd.out, out_bytes);
	return channel_send(container_of(channel, struct channel, object), message,
			    sizeof(wr_id) + out_bytes)
		       ? 0
		       : call_refuse(call, -EAGAIN, "nobody reads the answers");
}

/* ---- numbers --------------------------------------------------------------------------------------------------- */

/* Contexts of libraries with dynamic UARs have no others, and those are known by page. */
int devx_query_uar(struct call *call)
{
	return call_refuse(call, -EINVAL, "this context has no static UARs");
}

int devx_query_eqn(struct call *call)
{
	uint64_t vector = call_u64(call, MLX5_IB_ATTR_DEVX_QUERY_EQN_USER_VEC);
	uint32_t eqn = FW_EQN;

	if (vector)
		return call_refuse(call, -ENOENT, "completion vector %llu",
				   (unsigned long long)vector);
	return call_out(call, MLX5_IB_ATTR_DEVX_QUERY_EQN_DEV_EQN, &eqn, sizeof(eqn));
}
