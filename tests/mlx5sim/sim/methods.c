/* SPDX-License-Identifier: Apache-2.0 */
/* Every method there is, with what it takes. A family's functions stand in its own file. */
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

#include "tests/mlx5sim/sim/newer.h"
#include "tests/mlx5sim/sim/sim.h"

#define MUST true
#define MAY false

static const struct attr_spec invoke_write[] = {
	{UVERBS_ATTR_CORE_IN, ATTR_IN, MAY, 0, 0},
	{UVERBS_ATTR_CORE_OUT, ATTR_OUT, MAY, 0, 0},
	{UVERBS_ATTR_WRITE_CMD, ATTR_IN, MUST, 4, 8},
	{UVERBS_ATTR_UHW_IN, ATTR_IN, MAY, 0, 0},
	{UVERBS_ATTR_UHW_OUT, ATTR_OUT, MAY, 0, 0},
};

static const struct attr_spec info_handles[] = {
	{UVERBS_ATTR_INFO_OBJECT_ID, ATTR_IN, MUST, 8, 8},
	{UVERBS_ATTR_INFO_TOTAL_HANDLES, ATTR_OUT, MAY, 4, 0},
	{UVERBS_ATTR_INFO_HANDLES_LIST, ATTR_OUT, MAY, 4, 0},
};

static const struct attr_spec query_port[] = {
	{UVERBS_ATTR_QUERY_PORT_PORT_NUM, ATTR_IN, MUST, 1, 8},
	{UVERBS_ATTR_QUERY_PORT_RESP, ATTR_OUT, MUST, sizeof(struct ib_uverbs_query_port_resp), 0},
};

static const struct attr_spec query_port_speed[] = {
	{QUERY_PORT_SPEED_PORT_NUM, ATTR_IN, MUST, 1, 8},
	{QUERY_PORT_SPEED_RESP, ATTR_OUT, MUST, 8, 0},
};

static const struct attr_spec query_mlx5_port[] = {
	{MLX5_IB_ATTR_QUERY_PORT_PORT_NUM, ATTR_IN, MUST, 4, 8},
	{MLX5_IB_ATTR_QUERY_PORT, ATTR_OUT, MUST, 8, 0},
};

static const struct attr_spec get_context[] = {
	{UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, ATTR_OUT, MAY, 4, 0},
	{UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, ATTR_OUT, MAY, 8, 0},
	{UVERBS_ATTR_UHW_IN, ATTR_IN, MUST, sizeof(struct mlx5_ib_alloc_ucontext_req), 0},
	{UVERBS_ATTR_UHW_OUT, ATTR_OUT, MUST, 0, 0},
};

static const struct attr_spec query_context[] = {
	{UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, ATTR_OUT, MAY, 4, 0},
	{UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, ATTR_OUT, MAY, 8, 0},
	{MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX, ATTR_OUT, MUST, 0, 0},
};

static const struct attr_spec query_gid_table[] = {
	{UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, ATTR_IN, MUST, 8, 8},
	{UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, ATTR_IN, MAY, 4, 8},
	{UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, ATTR_OUT, MUST, 0, 0},
	{UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, ATTR_OUT, MUST, 8, 0},
};

static const struct attr_spec query_gid_entry[] = {
	{UVERBS_ATTR_QUERY_GID_ENTRY_PORT, ATTR_IN, MUST, 4, 8},
	{UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, ATTR_IN, MUST, 4, 8},
	{UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, ATTR_IN, MAY, 4, 8},
	{UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, ATTR_OUT, MUST, sizeof(struct ib_uverbs_gid_entry), 0},
};

static const struct attr_spec async_alloc[] = {
	{UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, ATTR_NEW_FD, MUST, 0, 0},
};

static const struct attr_spec destroy_pd[] = {
	{UVERBS_ATTR_DESTROY_PD_HANDLE, ATTR_OBJECT, MUST, 0, 0},
};

static const struct attr_spec query_pd[] = {
	{MLX5_IB_ATTR_QUERY_PD_HANDLE, ATTR_OBJECT, MUST, 0, 0},
	{MLX5_IB_ATTR_QUERY_PD_RESP_PDN, ATTR_OUT, MUST, 4, 0},
};

static const struct attr_spec query_mr[] = {
	{UVERBS_ATTR_QUERY_MR_HANDLE, ATTR_OBJECT, MUST, 0, 0},
	{UVERBS_ATTR_QUERY_MR_RESP_LKEY, ATTR_OUT, MUST, 4, 0},
	{UVERBS_ATTR_QUERY_MR_RESP_RKEY, ATTR_OUT, MUST, 4, 0},
	{UVERBS_ATTR_QUERY_MR_RESP_LENGTH, ATTR_OUT, MUST, 8, 0},
	{UVERBS_ATTR_QUERY_MR_RESP_IOVA, ATTR_OUT, MAY, 8, 0},
};

static const struct attr_spec destroy_mr[] = {
	{UVERBS_ATTR_DESTROY_MR_HANDLE, ATTR_OBJECT, MUST, 0, 0},
};

static const struct attr_spec destroy_mw[] = {
	{UVERBS_ATTR_DESTROY_MW_HANDLE, ATTR_OBJECT, MUST, 0, 0},
};

static const struct attr_spec create_cq[] = {
	{UVERBS_ATTR_CREATE_CQ_HANDLE, ATTR_NEW_OBJECT, MUST, 0, 0},
	{UVERBS_ATTR_CREATE_CQ_CQE, ATTR_IN, MUST, 4, 8},
	{UVERBS_ATTR_CREATE_CQ_USER_HANDLE, ATTR_IN, MUST, 8, 8},
	{UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, ATTR_FD, MAY, 0, 0},
	{UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, ATTR_IN, MUST, 4, 8},
	{UVERBS_ATTR_CREATE_CQ_FLAGS, ATTR_IN, MAY, 4, 8},
	{UVERBS_ATTR_CREATE_CQ_RESP_CQE, ATTR_OUT, MUST, 4, 0},
	{UVERBS_ATTR_CREATE_CQ_EVENT_FD, ATTR_FD, MAY, 0, 0},
	{UVERBS_ATTR_UHW_IN, ATTR_IN, MUST, 0, 0},
	{UVERBS_ATTR_UHW_OUT, ATTR_OUT, MUST, 0, 0},
};

static const struct attr_spec destroy_cq[] = {
	{UVERBS_ATTR_DESTROY_CQ_HANDLE, ATTR_OBJECT, MUST, 0, 0},
	{UVERBS_ATTR_DESTROY_CQ_RESP, ATTR_OUT, MUST, sizeof(struct ib_uverbs_destroy_cq_resp), 0},
};

static const struct attr_spec create_qp[] = {
	{UVERBS_ATTR_CREATE_QP_HANDLE, ATTR_NEW_OBJECT, MUST, 0, 0},
	{UVERBS_ATTR_CREATE_QP_XRCD_HANDLE, ATTR_OBJECT, MAY, 0, 0}, /* which of these a QP must have goes by its type */
	{UVERBS_ATTR_CREATE_QP_PD_HANDLE, ATTR_OBJECT, MAY, 0, 0},
	{UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, ATTR_OBJECT, MAY, 0, 0},
	{UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, ATTR_OBJECT, MAY, 0, 0},
	{UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, ATTR_OBJECT, MAY, 0, 0},
	{UVERBS_ATTR_CREATE_QP_USER_HANDLE, ATTR_IN, MUST, 8, 8},
	{UVERBS_ATTR_CREATE_QP_CAP, ATTR_IN, MUST, sizeof(struct ib_uverbs_qp_cap), 0},
	{UVERBS_ATTR_CREATE_QP_TYPE, ATTR_IN, MUST, 4, 8},
	{UVERBS_ATTR_CREATE_QP_FLAGS, ATTR_IN, MAY, 4, 8},
	{UVERBS_ATTR_CREATE_QP_EVENT_FD, ATTR_FD, MAY, 0, 0},
	{UVERBS_ATTR_CREATE_QP_RESP_CAP, ATTR_OUT, MUST, sizeof(struct ib_uverbs_qp_cap), 0},
	{UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, ATTR_OUT, MUST, 4, 0},
	{UVERBS_ATTR_UHW_IN, ATTR_IN, MUST, 0, 0},
	{UVERBS_ATTR_UHW_OUT, ATTR_OUT, MUST, 0, 0},
};

static const struct attr_spec destroy_qp[] = {
	{UVERBS_ATTR_DESTROY_QP_HANDLE, ATTR_OBJECT, MUST, 0, 0},
	{UVERBS_ATTR_DESTROY_QP_RESP, ATTR_OUT, MUST, sizeof(struct ib_uverbs_destroy_qp_resp), 0},
};

static const struct attr_spec create_srq[] = {
	{UVERBS_ATTR_CREATE_SRQ_HANDLE, ATTR_NEW_OBJECT, MUST, 0, 0},
	{UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, ATTR_OBJECT, MUST, 0, 0},
	{UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE, ATTR_OBJECT, MAY, 0, 0},
	{UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, ATTR_OBJECT, MAY, 0, 0},
	{UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS, ATTR_IN, MAY, 4, 8}, /* of a type that is refused by name */
	{UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, ATTR_OUT, MAY, 4, 0},
	{UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, ATTR_IN, MUST, 8, 8},
	{UVERBS_ATTR_CREATE_SRQ_MAX_WR, ATTR_IN, MUST, 4, 8},
	{UVERBS_ATTR_CREATE_SRQ_MAX_SGE, ATTR_IN, MUST, 4, 8},
	{UVERBS_ATTR_CREATE_SRQ_LIMIT, ATTR_IN, MUST, 4, 8}, /* of no effect at creation, as verbs say */
	{UVERBS_ATTR_CREATE_SRQ_TYPE, ATTR_IN, MUST, 4, 8},
	{UVERBS_ATTR_CREATE_SRQ_EVENT_FD, ATTR_FD, MAY, 0, 0},
	{UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, ATTR_OUT, MUST, 4, 0},
	{UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, ATTR_OUT, MUST, 4, 0},
	{UVERBS_ATTR_UHW_IN, ATTR_IN, MUST, 0, 0},
	{UVERBS_ATTR_UHW_OUT, ATTR_OUT, MUST, 0, 0},
};

static const struct attr_spec destroy_srq[] = {
	{UVERBS_ATTR_DESTROY_SRQ_HANDLE, ATTR_OBJECT, MUST, 0, 0},
	{UVERBS_ATTR_DESTROY_SRQ_RESP, ATTR_OUT, MUST, sizeof(struct ib_uverbs_destroy_srq_resp), 0},
};

static const struct attr_spec destroy_xrcd[] = {
	{UVERBS_ATTR_DESTROY_XRCD_HANDLE, ATTR_OBJECT, MUST, 0, 0},
};

static const struct attr_spec destroy_ah[] = {
	{UVERBS_ATTR_DESTROY_AH_HANDLE, ATTR_OBJECT, MUST, 0, 0},
};

static const struct attr_spec alloc_dm[] = {
	{UVERBS_ATTR_ALLOC_DM_HANDLE, ATTR_NEW_OBJECT, MUST, 0, 0},
	{UVERBS_ATTR_ALLOC_DM_LENGTH, ATTR_IN, MUST, 8, 8},
	{UVERBS_ATTR_ALLOC_DM_ALIGNMENT, ATTR_IN, MUST, 4, 8},
	{MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, ATTR_OUT, MAY, 8, 0},
	{MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, ATTR_OUT, MAY, 2, 0},
	{MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE, ATTR_IN, MAY, 1, 8},
};

static const struct attr_spec free_dm[] = {
	{UVERBS_ATTR_FREE_DM_HANDLE, ATTR_OBJECT, MUST, 0, 0},
};

static const struct attr_spec query_dm[] = {
	{MLX5_IB_ATTR_QUERY_DM_REQ_HANDLE, ATTR_OBJECT, MUST, 0, 0},
	{MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET, ATTR_OUT, MUST, 8, 0},
	{MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX, ATTR_OUT, MUST, 2, 0},
	{MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH, ATTR_OUT, MUST, 8, 0},
};

static const struct attr_spec reg_dm_mr[] = {
	{UVERBS_ATTR_REG_DM_MR_HANDLE, ATTR_NEW_OBJECT, MUST, 0, 0},
	{UVERBS_ATTR_REG_DM_MR_OFFSET, ATTR_IN, MUST, 8, 8},
	{UVERBS_ATTR_REG_DM_MR_LENGTH, ATTR_IN, MUST, 8, 8},
	{UVERBS_ATTR_REG_DM_MR_PD_HANDLE, ATTR_OBJECT, MUST, 0, 0},
	{UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, ATTR_IN, MUST, 4, 8},
	{UVERBS_ATTR_REG_DM_MR_DM_HANDLE, ATTR_OBJECT, MUST, 0, 0},
	{UVERBS_ATTR_REG_DM_MR_RESP_LKEY, ATTR_OUT, MUST, 4, 0},
	{UVERBS_ATTR_REG_DM_MR_RESP_RKEY, ATTR_OUT, MUST, 4, 0},
};

static const struct attr_spec reg_dmabuf_mr[] = {
	{UVERBS_ATTR_REG_DMABUF_MR_HANDLE, ATTR_NEW_OBJECT, MUST, 0, 0},
	{UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, ATTR_OBJECT, MUST, 0, 0},
	{UVERBS_ATTR_REG_DMABUF_MR_OFFSET, ATTR_IN, MUST, 8, 8},
	{UVERBS_ATTR_REG_DMABUF_MR_LENGTH, ATTR_IN, MUST, 8, 8},
	{UVERBS_ATTR_REG_DMABUF_MR_IOVA, ATTR_IN, MUST, 8, 8},
	{UVERBS_ATTR_REG_DMABUF_MR_FD, ATTR_IN, MUST, 4, 8},
	{UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, ATTR_IN, MUST, 4, 8},
	{UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, ATTR_OUT, MUST, 4, 0},
	{UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, ATTR_OUT, MUST, 4, 0},
};

static const struct attr_spec reg_mr[] = {
	{REG_MR_HANDLE, ATTR_NEW_OBJECT, MUST, 0, 0},
	{REG_MR_PD_HANDLE, ATTR_OBJECT, MUST, 0, 0},
	{REG_MR_IOVA, ATTR_IN, MUST, 8, 8},
	{REG_MR_ADDR, ATTR_IN, MAY, 8, 8},
	{REG_MR_LENGTH, ATTR_IN, MUST, 8, 8},
	{REG_MR_ACCESS_FLAGS, ATTR_IN, MUST, 4, 8},
	{REG_MR_FD, ATTR_FD, MAY, 0, 0},
	{REG_MR_FD_OFFSET, ATTR_IN, MAY, 8, 8},
	{REG_MR_RESP_LKEY, ATTR_OUT, MUST, 4, 0},
	{REG_MR_RESP_RKEY, ATTR_OUT, MUST, 4, 0},
};

static const struct attr_spec alloc_uar[] = {
	{MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, ATTR_NEW_OBJECT, MUST, 0, 0},
	{MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, ATTR_IN, MUST, 4, 8},
	{MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, ATTR_OUT, MUST, 8, 0},
	{MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, ATTR_OUT, MUST, 4, 0},
	{MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, ATTR_OUT, MUST, 4, 0},
};

#define COMMAND_MIN 16 /* bytes of a command's head, and of its answer's */

static const struct attr_spec other[] = {
	{MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, ATTR_IN, MUST, COMMAND_MIN, 0},
	{MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, ATTR_OUT, MUST, COMMAND_MIN, 0},
};

static const struct attr_spec query_uar[] = {
	{MLX5_IB_ATTR_DEVX_QUERY_UAR_USER_IDX, ATTR_IN, MUST, 4, 8},
	{MLX5_IB_ATTR_DEVX_QUERY_UAR_DEV_IDX, ATTR_OUT, MUST, 4, 0},
};

static const struct attr_spec query_eqn[] = {
	{MLX5_IB_ATTR_DEVX_QUERY_EQN_USER_VEC, ATTR_IN, MUST, 4, 8},
	{MLX5_IB_ATTR_DEVX_QUERY_EQN_DEV_EQN, ATTR_OUT, MUST, 4, 0},
};

static const struct attr_spec subscribe[] = {
	{MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_HANDLE, ATTR_FD, MUST, 0, 0},
	{MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE, ATTR_OBJECT, MAY, 0, 0},
	{MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_TYPE_NUM_LIST, ATTR_IN, MUST, 2, 0},
	{MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_COOKIE, ATTR_IN, MAY, 8, 8},
	{MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_NUM, ATTR_IN, MAY, 4, 8},
};

static const struct attr_spec create_obj[] = {
	{MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE, ATTR_NEW_OBJECT, MUST, 0, 0},
	{MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN, ATTR_IN, MUST, COMMAND_MIN, 0},
	{MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, ATTR_OUT, MUST, COMMAND_MIN, 0},
};

static const struct attr_spec destroy_obj[] = {
	{MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE, ATTR_OBJECT, MUST, 0, 0},
};

static const struct attr_spec modify_obj[] = {
	{MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE, ATTR_OBJECT, MUST, 0, 0},
	{MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN, ATTR_IN, MUST, COMMAND_MIN, 0},
	{MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT, ATTR_OUT, MUST, COMMAND_MIN, 0},
};

static const struct attr_spec query_obj[] = {
	{MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE, ATTR_OBJECT, MUST, 0, 0},
	{MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN, ATTR_IN, MUST, COMMAND_MIN, 0},
	{MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT, ATTR_OUT, MUST, COMMAND_MIN, 0},
};

static const struct attr_spec query_obj_async[] = {
	{MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_HANDLE, ATTR_OBJECT, MUST, 0, 0},
	{MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_CMD_IN, ATTR_IN, MUST, COMMAND_MIN, 0},
	{MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_OUT_LEN, ATTR_IN, MUST, 2, 8},
	{MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_WR_ID, ATTR_IN, MUST, 8, 8},
	{MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_FD, ATTR_FD, MUST, 0, 0},
};

static const struct attr_spec reg_umem[] = {
	{MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE, ATTR_NEW_OBJECT, MUST, 0, 0},
	{MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR, ATTR_IN, MUST, 8, 8},
	{MLX5_IB_ATTR_DEVX_UMEM_REG_LEN, ATTR_IN, MUST, 8, 8},
	{MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS, ATTR_IN, MAY, 4, 8},
	{MLX5_IB_ATTR_DEVX_UMEM_REG_PGSZ_BITMAP, ATTR_IN, MAY, 8, 8},
	{MLX5_IB_ATTR_DEVX_UMEM_REG_DMABUF_FD, ATTR_FD, MAY, 0, 0},
	{MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID, ATTR_OUT, MUST, 4, 0},
};

static const struct attr_spec dereg_umem[] = {
	{MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE, ATTR_OBJECT, MUST, 0, 0},
};

static const struct attr_spec alloc_cmd_fd[] = {
	{MLX5_IB_ATTR_DEVX_ASYNC_CMD_FD_ALLOC_HANDLE, ATTR_NEW_FD, MUST, 0, 0},
};

static const struct attr_spec alloc_event_fd[] = {
	{MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_HANDLE, ATTR_NEW_FD, MUST, 0, 0},
	{MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_FLAGS, ATTR_IN, MUST, 4, 8},
};

static const struct attr_spec destroy_uar[] = {
	{MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, ATTR_OBJECT, MUST, 0, 0},
};

#define METHOD(object, method, name, attrs, run) \
	{object, method, name, attrs, sizeof(attrs) / sizeof((attrs)[0]), run}

const struct method_spec methods[] = {
	METHOD(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, "invoke_write", invoke_write, device_invoke_write),
	METHOD(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INFO_HANDLES, "info_handles", info_handles, device_info_handles),
	METHOD(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT, "query_port", query_port, device_query_port),
	METHOD(UVERBS_OBJECT_DEVICE, METHOD_QUERY_PORT_SPEED, "query_port_speed", query_port_speed,
	       device_query_port_speed),
	METHOD(UVERBS_OBJECT_DEVICE, MLX5_IB_METHOD_QUERY_PORT, "query_mlx5_port", query_mlx5_port,
	       device_query_mlx5_port),
	METHOD(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT, "get_context", get_context, device_get_context),
	METHOD(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT, "query_context", query_context, device_query_context),
	METHOD(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE, "query_gid_table", query_gid_table,
	       device_query_gid_table),
	METHOD(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY, "query_gid_entry", query_gid_entry,
	       device_query_gid_entry),
	METHOD(UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC, "async_event_alloc", async_alloc,
	       async_event_alloc),
	METHOD(UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, "dealloc_pd", destroy_pd, pd_destroy),
	METHOD(UVERBS_OBJECT_PD, MLX5_IB_METHOD_PD_QUERY, "query_pd", query_pd, pd_query),
	METHOD(UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR, "query_mr", query_mr, mr_query),
	METHOD(UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR, "reg_dmabuf_mr", reg_dmabuf_mr, mr_reg_dmabuf),
	METHOD(UVERBS_OBJECT_MR, METHOD_REG_MR, "reg_mr", reg_mr, mr_reg),
	METHOD(UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, "dereg_mr", destroy_mr, mr_destroy),
	METHOD(UVERBS_OBJECT_MW, UVERBS_METHOD_MW_DESTROY, "dealloc_mw", destroy_mw, mw_destroy),
	METHOD(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, "create_cq", create_cq, cq_create),
	METHOD(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY, "destroy_cq", destroy_cq, cq_destroy),
	METHOD(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE, "create_qp", create_qp, qp_create),
	METHOD(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY, "destroy_qp", destroy_qp, qp_destroy),
	METHOD(UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE, "create_srq", create_srq, srq_create),
	METHOD(UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY, "destroy_srq", destroy_srq, srq_destroy),
	METHOD(UVERBS_OBJECT_XRCD, UVERBS_METHOD_XRCD_DESTROY, "close_xrcd", destroy_xrcd, xrcd_destroy),
	METHOD(UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY, "destroy_ah", destroy_ah, ah_destroy),
	METHOD(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC, "alloc_dm", alloc_dm, dm_alloc),
	METHOD(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE, "free_dm", free_dm, dm_destroy),
	METHOD(UVERBS_OBJECT_DM, MLX5_IB_METHOD_DM_QUERY, "query_dm", query_dm, dm_query),
	METHOD(UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG, "reg_dm_mr", reg_dm_mr, mr_reg_dm),
	METHOD(MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC, "alloc_uar", alloc_uar, uar_alloc),
	METHOD(MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY, "free_uar", destroy_uar, uar_destroy),
	METHOD(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER, "devx_general", other, devx_other),
	METHOD(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_QUERY_UAR, "devx_query_uar", query_uar, devx_query_uar),
	METHOD(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_QUERY_EQN, "devx_query_eqn", query_eqn, devx_query_eqn),
	METHOD(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_SUBSCRIBE_EVENT, "devx_subscribe", subscribe, devx_subscribe),
	METHOD(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_CREATE, "devx_create", create_obj, devx_create),
	METHOD(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_DESTROY, "devx_destroy", destroy_obj, devx_destroy),
	METHOD(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_MODIFY, "devx_modify", modify_obj, devx_modify),
	METHOD(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_QUERY, "devx_query", query_obj, devx_query),
	METHOD(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_ASYNC_QUERY, "devx_query_async", query_obj_async,
	       devx_query_async),
	METHOD(MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_REG, "reg_umem", reg_umem, umem_reg),
	METHOD(MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_DEREG, "dereg_umem", dereg_umem, umem_dereg),
	METHOD(MLX5_IB_OBJECT_DEVX_ASYNC_CMD_FD, MLX5_IB_METHOD_DEVX_ASYNC_CMD_FD_ALLOC, "devx_cmd_channel", alloc_cmd_fd,
	       devx_channel_alloc),
	METHOD(MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD, MLX5_IB_METHOD_DEVX_ASYNC_EVENT_FD_ALLOC, "devx_event_channel",
	       alloc_event_fd, devx_channel_alloc),
};

const size_t n_methods = sizeof(methods) / sizeof(methods[0]);
