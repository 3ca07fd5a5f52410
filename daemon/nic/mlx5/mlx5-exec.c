/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Firmware commands: sent through the kernel, traced, their status turned into an errno of nic.h.
 *
 * A refusal of the firmware is its status in the answer; without one the kernel itself refused, and then EIO means that
 * the device is gone.
 */
#include "daemon/nic/mlx5/mlx5.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/assert.h"

#define TRACE_BYTES 16384u

static void trace(struct mlx5_nic *nic, const struct mlx5_cmd *cmd, const void *out)
{
	uint32_t opcode = (uint32_t)prm_get(cmd->in, PRM_IN_OPCODE);
	uint32_t op_mod = (uint32_t)prm_get(cmd->in, PRM_IN_OP_MOD);
	char *text;

	if (!nic->trace)
		return;
	text = malloc(TRACE_BYTES);
	if (!text)
		return;
	/* Contexts are beside each other: an answer follows its command. */
	flockfile(nic->trace);
	mlx5_cmd_dump(text, TRACE_BYTES, cmd->in, cmd->in_bytes, 0);
	fputs(text, nic->trace);
	mlx5_out_dump(text, TRACE_BYTES, opcode, op_mod, out, cmd->out_bytes, 0);
	fputs(text, nic->trace);
	fflush(nic->trace);
	funlockfile(nic->trace);
	free(text);
}

void mlx5_note_destroyed(struct mlx5_ctx *ctx, int r)
{
	ctx->meddled |= r < 0 && r != -ENODEV;
}

/* Traces a command that was sent; returns its result. */
static int finish(struct mlx5_nic *nic, const struct mlx5_cmd *cmd, const void *out, int r)
{
	uint32_t status = (uint32_t)prm_get(out, PRM_OUT_STATUS);

	trace(nic, cmd, out);
	return status ? prm_status_errno(status) : r;
}

int mlx5_exec_create(struct mlx5_ctx *ctx, const struct mlx5_cmd *cmd, void *out,
		     struct mlx5_object **ret_obj)
{
	memset(out, 0, cmd->out_bytes);
	return finish(ctx->nic, cmd, out, mlx5_object_create(ctx->ibv, ctx->nic->library, cmd, out, ret_obj));
}

int mlx5_exec_modify(struct mlx5_ctx *ctx, struct mlx5_object *obj, const struct mlx5_cmd *cmd)
{
	uint8_t out[PRM_MODIFY_QP_OUT_BYTES] = {0};

	assert_bug(cmd->out_bytes <= sizeof(out));
	return finish(ctx->nic, cmd, out, mlx5_object_modify(obj, cmd, out));
}

int mlx5_exec_query(struct mlx5_ctx *ctx, struct mlx5_object *obj, const struct mlx5_cmd *cmd,
		    void *out)
{
	memset(out, 0, cmd->out_bytes);
	return finish(ctx->nic, cmd, out, mlx5_object_query(obj, cmd, out));
}

int mlx5_exec_general(struct mlx5_nic *nic, struct ibv_context *ibv, const struct mlx5_cmd *cmd, void *out)
{
	memset(out, 0, cmd->out_bytes);
	return finish(nic, cmd, out,
		      mlx5_result(mlx5dv_devx_general_cmd(ibv, cmd->in, cmd->in_bytes, out, cmd->out_bytes)));
}
