/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about the device, its port and its GIDs; contexts; commands that came from the age of write(). */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

#include "proto/base/cleanup.h"
#include "tests/mlx5sim/sim/newer.h"
#include "tests/mlx5sim/sim/sim.h"

#define SPEED_25_GBPS 32 /* for each of 4 lanes */
#define WIDTH_1X 1
#define WIDTH_4X 2
#define PHYS_LINK_UP 5
#define PHYS_DISABLED 3

int device_query_port(struct call *call)
{
	struct ib_uverbs_query_port_resp_ex resp = {0};
	struct ib_uverbs_query_port_resp *port = &resp.legacy_resp;
	bool ethernet = call->ufile->sim->ethernet;

	bool down = __atomic_load_n(&call->nic->port_down, __ATOMIC_RELAXED);

	if (call_u64(call, UVERBS_ATTR_QUERY_PORT_PORT_NUM) != 1)
		return call_refuse(call, -EINVAL, "port");
	port->port_cap_flags =
		ethernet ? IB_UVERBS_PCF_CM_SUP | IB_UVERBS_PCF_IP_BASED_GIDS : SIM_IB_CAP_MASK;
	resp.port_cap_flags2 = ethernet ? 0 : SIM_IB_CAP_MASK2;
	port->max_msg_sz = 1u << 30;
	port->gid_tbl_len = SIM_GID_TABLE;
	port->pkey_tbl_len = 1;
	port->lid = call->nic->lid;
	port->sm_lid = ethernet ? 0 : 1;
	port->state = down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
	port->max_mtu = IBV_MTU_4096;
	port->active_mtu = ethernet ? IBV_MTU_1024 : IBV_MTU_4096;
	if (__atomic_load_n(&call->nic->mtu_gone, __ATOMIC_RELAXED))
		port->active_mtu = 0;
	port->max_vl_num = 4;
	port->active_width = __atomic_load_n(&call->nic->lanes_gone, __ATOMIC_RELAXED) ? WIDTH_1X : WIDTH_4X;
	port->active_speed = SPEED_25_GBPS;
	port->phys_state = down ? PHYS_DISABLED : PHYS_LINK_UP;
	port->link_layer = ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
	port->flags = ethernet ? IB_UVERBS_QPF_GRH_REQUIRED : 0;
	return call_out(call, UVERBS_ATTR_QUERY_PORT_RESP, &resp, sizeof(resp));
}

/* In 100 Mb/s: what width and speed above come to. */
int device_query_port_speed(struct call *call)
{
	uint64_t speed = __atomic_load_n(&call->nic->lanes_gone, __ATOMIC_RELAXED) ? 250 : 1000;

	if (__atomic_load_n(&call->nic->port_down, __ATOMIC_RELAXED))
		speed = 0;
	if (call_u64(call, QUERY_PORT_SPEED_PORT_NUM) != 1)
		return call_refuse(call, -EINVAL, "port");
	return call_out(call, QUERY_PORT_SPEED_RESP, &speed, sizeof(speed));
}

/* A port without a switch has no flags. */
int device_query_mlx5_port(struct call *call)
{
	const struct mlx5_ib_uapi_query_port resp = {0};

	if (call_u64(call, MLX5_IB_ATTR_QUERY_PORT_PORT_NUM) != 1)
		return call_refuse(call, -EINVAL, "port");
	return call_out(call, MLX5_IB_ATTR_QUERY_PORT, &resp, sizeof(resp));
}

/* The objects of one kind in this context, newest first: after an import, handles are all that is left of it. */
int device_info_handles(struct call *call)
{
	static const struct {
		uint64_t id;
		enum object_type type;
	} kinds[] = {
		{UVERBS_OBJECT_PD, OBJECT_PD},	     {UVERBS_OBJECT_MR, OBJECT_MR},
		{UVERBS_OBJECT_CQ, OBJECT_CQ},	     {UVERBS_OBJECT_QP, OBJECT_QP},
		{UVERBS_OBJECT_SRQ, OBJECT_SRQ},     {UVERBS_OBJECT_AH, OBJECT_AH},
		{UVERBS_OBJECT_XRCD, OBJECT_XRCD},
		{MLX5_IB_OBJECT_UAR, OBJECT_UAR},    {MLX5_IB_OBJECT_DEVX_OBJ, OBJECT_DEVX},
		{MLX5_IB_OBJECT_DEVX_UMEM, OBJECT_UMEM},
	};
	size_t room = call_room(call, UVERBS_ATTR_INFO_HANDLES_LIST) / sizeof(uint32_t), kind = 0;
	uint64_t id = call_u64(call, UVERBS_ATTR_INFO_OBJECT_ID);
	_cleanup_free_ uint32_t *handles = NULL;
	struct object *object;
	uint32_t total = 0;
	int r;

	while (kind < sizeof(kinds) / sizeof(kinds[0]) && kinds[kind].id != id)
		kind++;
	if (kind == sizeof(kinds) / sizeof(kinds[0]))
		return call_refuse(call, -EINVAL, "no objects of kind 0x%llx", (unsigned long long)id);
	handles = calloc(room + 1, sizeof(*handles));
	if (!handles)
		return -ENOMEM;
	list_for_each_entry (object, &call->ufile->objects, link) {
		if (object->type == kinds[kind].type && total < room)
			handles[total++] = object->handle;
	}
	r = call_out(call, UVERBS_ATTR_INFO_TOTAL_HANDLES, &total, sizeof(total));
	return r < 0 ? r
		     : call_out(call, UVERBS_ATTR_INFO_HANDLES_LIST, handles, room * sizeof(uint32_t));
}

/* ---- GIDs ------------------------------------------------------------------------------------------------------ */

static void fill_gid(const struct nic *nic, unsigned int index, struct ib_uverbs_gid_entry *ret)
{
	*ret = (struct ib_uverbs_gid_entry){
		.gid_index = index, .port_num = 1, .gid_type = nic->gid_types[index]};
	memcpy(ret->gid, nic->gids[index], sizeof(ret->gid));
}

int device_query_gid_table(struct call *call)
{
	struct ib_uverbs_gid_entry entries[SIM_GIDS_MAX];
	uint64_t n = nic_n_gids(call->nic);
	int r;

	if (call_u64(call, UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE) != sizeof(entries[0]) ||
	    call_u64(call, UVERBS_ATTR_QUERY_GID_TABLE_FLAGS))
		return call_refuse(call, -EOPNOTSUPP, "entry size or flags");
	if (call_out_room(call, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES) < n * sizeof(entries[0]))
		return call_refuse(call, -EINVAL, "there are %llu entries", (unsigned long long)n);
	for (unsigned int i = 0; i < n; i++)
		fill_gid(call->nic, i, &entries[i]);
	r = call_out(call, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, entries,
		     (size_t)n * sizeof(entries[0]));
	return r < 0 ? r
		     : call_out(call, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &n, sizeof(n));
}

int device_query_gid_entry(struct call *call)
{
	uint64_t index = call_u64(call, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX);
	struct ib_uverbs_gid_entry entry;

	if (call_u64(call, UVERBS_ATTR_QUERY_GID_ENTRY_PORT) != 1 ||
	    call_u64(call, UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS))
		return call_refuse(call, -EINVAL, "port or flags");
	if (index >= SIM_GID_TABLE)
		return call_refuse(call, -EINVAL, "GID index %llu", (unsigned long long)index);
	if (index >= nic_n_gids(call->nic))
		return -ENODATA;
	fill_gid(call->nic, (unsigned int)index, &entry);
	return call_out(call, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, &entry, sizeof(entry));
}

/* ---- context --------------------------------------------------------------------------------------------------- */

/* Answers for a new context and for one that another process asks about: both are the same. */
static int answer_context(struct call *call, uint16_t vectors_id, uint16_t support_id,
			  uint16_t driver_id)
{
	const struct mlx5_ib_alloc_ucontext_resp driver = {
		.qp_tab_size = 1u << 18,
		.bf_reg_size = 512,
		.cache_line_size = 64,
		.max_sq_desc_sz = 1024,
		.max_rq_desc_sz = 512,
		.max_send_wqebb = SIM_MAX_QP_WR,
		.max_recv_wr = SIM_MAX_QP_WR,
		.max_srq_recv_wr = SIM_MAX_QP_WR,
		.num_ports = 1,
		.response_length = sizeof(driver),
		.cqe_version = 1,
		.cmds_supp_uhw =
			MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE | MLX5_USER_CMDS_SUPP_UHW_CREATE_AH,
		.eth_min_inline = MLX5_USER_INLINE_MODE_NONE,
		.log_uar_size = 12,
		.num_uars_per_page = 1,
		.num_dyn_bfregs = 512,
		.clock_info_versions = 1u << MLX5_IB_CLOCK_INFO_V1,
	};
	uint64_t core_support = IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS;
	uint32_t n_vectors = 1;
	int r;

	r = call_out(call, vectors_id, &n_vectors, sizeof(n_vectors));
	if (r == 0)
		r = call_out(call, support_id, &core_support, sizeof(core_support));
	return r < 0 ? r : call_out(call, driver_id, &driver, sizeof(driver));
}

/* Commands of this context bear it, and see what was made with it. */
static int take_uid(struct call *call)
{
	struct nic *nic = call->nic;
	int r = 0;

	sim_lock(nic->sim);
	if (nic->n_uids >= SIM_MAX_UCTX) {
		r = -ENOSPC;
	} else {
		nic->n_uids++;
		call->ufile->uid = nic->next_uid++;
		if (!nic->next_uid)
			nic->next_uid = 1;
	}
	sim_unlock(nic->sim);
	return r < 0 ? call_refuse(call, r, "more than %u contexts", SIM_MAX_UCTX) : 0;
}

int device_get_context(struct call *call)
{
	struct mlx5_ib_alloc_ucontext_req_v2 req;
	int r;

	r = call_in_struct(call, UVERBS_ATTR_UHW_IN, &req, sizeof(req));
	if (r < 0)
		return r;
	if (call->ufile->has_context)
		return call_refuse(call, -EINVAL, "a second context");
	if (req.comp_mask || req.reserved0 || req.reserved1 || req.reserved2)
		return call_refuse(call, -EOPNOTSUPP, "unknown input bits");
	if (req.flags & ~(uint32_t)MLX5_IB_ALLOC_UCTX_DEVX)
		return call_refuse(call, -EOPNOTSUPP, "unknown flags 0x%x", req.flags);
	if (!(req.lib_caps & MLX5_LIB_CAP_DYN_UAR))
		return call_refuse(call, -EOPNOTSUPP, "a library without dynamic UARs");
	r = answer_context(call, UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS,
			   UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, UVERBS_ATTR_UHW_OUT);
	if (r < 0)
		return r;
	call->ufile->has_context = true;
	return req.flags & MLX5_IB_ALLOC_UCTX_DEVX ? take_uid(call) : 0;
}

int device_query_context(struct call *call)
{
	if (!call->ufile->has_context)
		return call_refuse(call, -EINVAL, "no context");
	return answer_context(call, UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS,
			      UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT,
			      MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX);
}

/* ---- device ---------------------------------------------------------------------------------------------------- */

static void fill_device(const struct nic *nic, struct ib_uverbs_query_device_resp *ret)
{
	*ret = (struct ib_uverbs_query_device_resp){
		.fw_ver = (uint64_t)22 << 32 | 36 << 16 | 1010,
		.node_guid = htobe64(nic->guid),
		.sys_image_guid = htobe64(nic->guid),
		.max_mr_size = UINT64_MAX,
		.page_size_cap = 0xfffffffffffff000u,
		.vendor_id = 0x02c9,
		.vendor_part_id = 0x101d,
		.max_qp = SIM_MAX_QP,
		.max_qp_wr = SIM_MAX_QP_WR,
		.max_sge = SIM_MAX_SGE,
		.max_sge_rd = SIM_MAX_SGE,
		.max_cq = SIM_MAX_CQ,
		.max_cqe = SIM_MAX_CQE,
		.max_mr = SIM_MAX_MR,
		.device_cap_flags = IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
				    IBV_DEVICE_XRC,
		.max_mw = SIM_MAX_MW,
		.max_pd = SIM_MAX_PD,
		.max_qp_rd_atom = SIM_MAX_RD_ATOMIC,
		.max_res_rd_atom = SIM_MAX_QP * SIM_MAX_RD_ATOMIC,
		.max_qp_init_rd_atom = SIM_MAX_RD_ATOMIC,
		.atomic_cap = IBV_ATOMIC_HCA,
		.max_ah = SIM_MAX_AH,
		.max_srq = SIM_MAX_SRQ,
		.max_srq_wr = SIM_MAX_SRQ_WR,
		.max_srq_sge = SIM_MAX_SRQ_SGE,
		.max_pkeys = 1,
		.local_ca_ack_delay = 16,
		.phys_port_cnt = 1,
	};
}

int write_query_device(struct call *call)
{
	struct ib_uverbs_query_device_resp resp;

	fill_device(call->nic, &resp);
	return call_out(call, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
}

/* Compression is a permission: no CQE is ever compressed. */
static const struct mlx5_ib_query_device_resp driver_caps = {
	.response_length = sizeof(driver_caps),
	.flags = MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_PAD | MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_COMP,
	.cqe_comp_caps = {.max_num = 8,
			  .supported_format = MLX5_IB_CQE_RES_FORMAT_HASH | MLX5_IB_CQE_RES_FORMAT_CSUM |
					      MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX},
	.dci_streams_caps = {.max_log_num_concurent = SIM_MAX_LOG2_STREAMS,
			     .max_log_num_errored = SIM_MAX_LOG2_STREAMS},
};

/* Regions on demand are memory like any other one, so whatever the transport has works there. */
static void fill_odp(struct ib_uverbs_odp_caps *ret, uint32_t *ret_xrc)
{
	const uint32_t messages = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;

	ret->general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	ret->per_transport_caps.ud_odp_caps = messages;
	ret->per_transport_caps.uc_odp_caps = messages | IBV_ODP_SUPPORT_WRITE;
	ret->per_transport_caps.rc_odp_caps =
		messages | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;
	*ret_xrc = ret->per_transport_caps.rc_odp_caps & ~(uint32_t)IBV_ODP_SUPPORT_RECV;
}

int write_ex_query_device(struct call *call)
{
	struct ib_uverbs_ex_query_device_resp resp = {.response_length = sizeof(resp)};
	struct ib_uverbs_ex_query_device cmd;
	int r;

	r = call_in_struct(call, UVERBS_ATTR_CORE_IN, &cmd, sizeof(cmd));
	if (r < 0)
		return r;
	if (cmd.comp_mask || cmd.reserved)
		return call_refuse(call, -EINVAL, "unknown input bits");
	fill_device(call->nic, &resp.base);
	fill_odp(&resp.odp_caps, &resp.xrc_odp_caps);
	resp.timestamp_mask = UINT64_MAX;
	resp.hca_core_clock = 1000000; /* kHz */
	resp.max_dm_size = SIM_DM_BYTES;
	resp.cq_moderation_caps.max_cq_moderation_count = 0xffff;
	resp.cq_moderation_caps.max_cq_moderation_period = 0xfff;
	r = call_out(call, UVERBS_ATTR_UHW_OUT, &driver_caps, sizeof(driver_caps));
	return r < 0 ? r : call_out(call, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
}

struct write_spec {
	uint32_t command;
	const char *name;
	bool answers;
	int (*run)(struct call *call);
};

#define EX(command) (IB_USER_VERBS_CMD_FLAG_EXTENDED | (command))

static const struct write_spec writes[] = {
	{IB_USER_VERBS_CMD_QUERY_DEVICE, "query_device", true, write_query_device},
	{EX(IB_USER_VERBS_EX_CMD_QUERY_DEVICE), "ex_query_device", true, write_ex_query_device},
	{IB_USER_VERBS_CMD_ALLOC_PD, "alloc_pd", true, write_alloc_pd},
	{IB_USER_VERBS_CMD_REG_MR, "reg_mr", true, write_reg_mr},
	{IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, "create_comp_channel", true,
	 write_create_comp_channel},
	{IB_USER_VERBS_CMD_QUERY_QP, "query_qp", true, write_query_qp},
	{IB_USER_VERBS_CMD_MODIFY_QP, "modify_qp", false, write_modify_qp},
	{EX(IB_USER_VERBS_EX_CMD_MODIFY_QP), "ex_modify_qp", true, write_ex_modify_qp},
	{IB_USER_VERBS_CMD_RESIZE_CQ, "resize_cq", true, write_resize_cq},
	{EX(IB_USER_VERBS_EX_CMD_MODIFY_CQ), "ex_modify_cq", false, write_ex_modify_cq},
	{IB_USER_VERBS_CMD_REREG_MR, "rereg_mr", true, write_rereg_mr},
	{IB_USER_VERBS_CMD_ALLOC_MW, "alloc_mw", true, write_alloc_mw},
	{IB_USER_VERBS_CMD_MODIFY_SRQ, "modify_srq", false, write_modify_srq},
	{IB_USER_VERBS_CMD_QUERY_SRQ, "query_srq", true, write_query_srq},
	{IB_USER_VERBS_CMD_CREATE_AH, "create_ah", true, write_create_ah},
	{IB_USER_VERBS_CMD_OPEN_XRCD, "open_xrcd", true, write_open_xrcd},
	{IB_USER_VERBS_CMD_OPEN_QP, "open_qp", true, write_open_qp},
};

int device_invoke_write(struct call *call)
{
	uint32_t command = (uint32_t)call_u64(call, UVERBS_ATTR_WRITE_CMD);

	for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
		if (writes[i].command != command)
			continue;
		call->what = writes[i].name;
		/* libibverbs asks whether this method exists by a command without buffers. */
		if (writes[i].answers && !call_has(call, UVERBS_ATTR_CORE_OUT))
			return -ENOSPC;
		if (!call->ufile->has_context)
			return call_refuse(call, -EINVAL, "no context");
		return writes[i].run(call);
	}
	return call_refuse(call, -EOPNOTSUPP, "unknown command 0x%x", command);
}
