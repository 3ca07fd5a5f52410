/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks of a session by the command descriptor of its own mlx5 context, through the kernel's interface. Handles are small numbers,
 * so the attacker tries all of them; it knows the victim's numbers.
 */
#include "tests/system/isolation.h"

#include <string.h>
#include <sys/ioctl.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl.h>

#include "daemon/nic/mlx5/mlx5-cmd.h"
#include "tests/lib/test.h"

#define N_HANDLES 128u
#define MAX_ATTRS 3u

struct call {
	struct ib_uverbs_attr attrs[MAX_ATTRS];
};

static struct ib_uverbs_attr attr_of(uint16_t id, uint16_t bytes, uint64_t data)
{
	return (struct ib_uverbs_attr){.attr_id = id, .len = bytes, .flags = UVERBS_ATTR_F_MANDATORY, .data = data};
}

static int call(const struct isolation *s, const struct call *c, uint16_t object, uint16_t method, uint16_t n_attrs)
{
	uint64_t words[(sizeof(struct ib_uverbs_ioctl_hdr) + sizeof(*c)) / 8] = {0};
	struct ib_uverbs_ioctl_hdr *hdr = (struct ib_uverbs_ioctl_hdr *)(void *)words;

	hdr->object_id = object;
	hdr->method_id = method;
	hdr->num_attrs = n_attrs;
	hdr->driver_id = RDMA_DRIVER_MLX5;
	hdr->length = (uint16_t)(sizeof(*hdr) + n_attrs * sizeof(c->attrs[0]));
	memcpy(hdr->attrs, c->attrs, n_attrs * sizeof(c->attrs[0]));
	return ioctl(s->attacker.page_fds[RAW_TRAFFIC_DOORBELL_PAGE], RDMA_VERBS_IOCTL, words);
}

/* One command for the object with this handle. True: it was carried out. */
static bool command(const struct isolation *s, uint16_t method, uint32_t handle, const struct mlx5_cmd *cmd)
{
	static uint8_t out[4096];
	bool is_query = method == MLX5_IB_METHOD_DEVX_OBJ_QUERY;
	struct call c = {.attrs = {
		attr_of(is_query ? MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE : MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE, 0, handle),
		attr_of(is_query ? MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN : MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN,
			(uint16_t)cmd->in_bytes, (uintptr_t)cmd->in),
		attr_of(is_query ? MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT : MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT,
			(uint16_t)cmd->out_bytes, (uintptr_t)out),
	}};

	ASSERT_LE(cmd->out_bytes, sizeof(out));
	memset(out, 0, sizeof(out));
	return call(s, &c, MLX5_IB_OBJECT_DEVX_OBJ, method, 3) == 0 && prm_get(out, PRM_OUT_STATUS) == 0;
}

static unsigned int count_commands(const struct isolation *s, uint16_t method, const struct mlx5_cmd *cmd)
{
	unsigned int n = 0;

	for (uint32_t handle = 0; handle < N_HANDLES; handle++)
		n += command(s, method, handle, cmd);
	return n;
}

void isolation_try_commands(struct isolation *s)
{
	static const enum prm_opcode changes[] = {PRM_OP_2ERR_QP, PRM_OP_2RST_QP};
	struct mlx5_cmd cmd;

	ASSERT(s->attacker.is_uar);
	/* Its own QP, to see that this is how one asks. */
	mlx5_cmd_query_qp(&cmd, s->attacker.qp.qpn);
	ASSERT_EQ(count_commands(s, MLX5_IB_METHOD_DEVX_OBJ_QUERY, &cmd), 1);
	mlx5_cmd_query_qp(&cmd, s->board->victim.qp.qpn);
	ASSERT_EQ(count_commands(s, MLX5_IB_METHOD_DEVX_OBJ_QUERY, &cmd), 0);
	mlx5_cmd_query_cq(&cmd, s->board->victim.cq.cqn);
	ASSERT_EQ(count_commands(s, MLX5_IB_METHOD_DEVX_OBJ_QUERY, &cmd), 0);
	for (unsigned int i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		mlx5_cmd_qp(&cmd, changes[i], s->board->victim.qp.qpn);
		ASSERT_EQ(count_commands(s, MLX5_IB_METHOD_DEVX_OBJ_MODIFY, &cmd), 0);
	}
}

static bool destroy(const struct isolation *s, uint16_t object, uint16_t method, uint16_t attr, uint32_t handle)
{
	struct call c = {.attrs = {attr_of(attr, 0, handle)}};

	return call(s, &c, object, method, 1) == 0;
}

/* QPs before what they use: so in several rounds. */
void isolation_destroy_by_commands(struct isolation *s)
{
	unsigned int n = 0;

	ASSERT(s->attacker.is_uar);
	for (uint32_t i = 0; i < 4 * N_HANDLES; i++) {
		n += destroy(s, MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_DESTROY,
			     MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE, i % N_HANDLES);
		n += destroy(s, MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_DEREG,
			     MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE, i % N_HANDLES);
		n += destroy(s, UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, UVERBS_ATTR_DESTROY_MR_HANDLE, i % N_HANDLES);
	}
	/* Its QP and its CQ at least. */
	ASSERT_GE(n, 2);
}
