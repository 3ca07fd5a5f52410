/* SPDX-License-Identifier: Apache-2.0 */
/* Capabilities that the device reports. A capability is set here when the simulator has it, and no other. */
#include <string.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_verbs.h>

#include "tests/mlx5sim/sim/fw.h"

/* PRM, roce_addr.version, roce_addr.l3_type */
enum roce_version { ROCE_V1 = 0, ROCE_V2 = 2 };
enum roce_l3 { ROCE_IPV4 = 0, ROCE_IPV6 = 1 };

struct value {
	uint32_t field;
	uint64_t value;
};

static const struct value general[] = {
	{PRM_HCA_CAP_LOG_MAX_SRQ_SZ, 15},
	{PRM_HCA_CAP_LOG_MAX_QP_SZ, 15},
	{PRM_HCA_CAP_LOG_MAX_QP, 14},
	{PRM_HCA_CAP_LOG_MAX_SRQ, 12},
	{PRM_HCA_CAP_LOG_MAX_CQ_SZ, 22},
	{PRM_HCA_CAP_LOG_MAX_CQ, 14},
	{PRM_HCA_CAP_RELAXED_ORDERING_WRITE, 1},
	{PRM_HCA_CAP_RELAXED_ORDERING_READ, 1},
	{PRM_HCA_CAP_LOG_MAX_MKEY, 16},
	{PRM_HCA_CAP_FIXED_BUFFER_SIZE, 1},
	{PRM_HCA_CAP_LOG_MAX_KLM_LIST, 12},
	{PRM_HCA_CAP_LOG_MAX_EQ, 4},
	{PRM_HCA_CAP_LOG_MAX_MRW_SZ, 63},
	{PRM_HCA_CAP_LOG_MAX_RA_REQ_DC, 4},
	{PRM_HCA_CAP_LOG_MAX_RA_RES_DC, 4},
	{PRM_HCA_CAP_LOG_MAX_RA_REQ_QP, 4},
	{PRM_HCA_CAP_LOG_MAX_RA_RES_QP, 4},
	{PRM_HCA_CAP_MAX_QP_CNT, SIM_MAX_COUNTERS},
	{PRM_HCA_CAP_LOCAL_CA_ACK_DELAY, 16},
	{PRM_HCA_CAP_NUM_PORTS, 1},
	{PRM_HCA_CAP_LOG_MAX_MSG, 30},
	{PRM_HCA_CAP_CQE_VERSION, 1},
	{PRM_HCA_CAP_COMPACT_AV, 1},
	{PRM_HCA_CAP_DCT, 1},
	{PRM_HCA_CAP_CQ_OI, 1},
	{PRM_HCA_CAP_CQ_MODERATION, 1},
	{PRM_HCA_CAP_UD, 1},
	{PRM_HCA_CAP_UC, 1},
	{PRM_HCA_CAP_RC, 1},
	{PRM_HCA_CAP_UAR_4K, 1},
	{PRM_HCA_CAP_LOG_PG_SZ, 12},
	{PRM_HCA_CAP_BF, 1},
	{PRM_HCA_CAP_LOG_BF_REG_SIZE, 9},
	{PRM_HCA_CAP_MAX_WQE_SZ_SQ, 1024},
	{PRM_HCA_CAP_MAX_WQE_SZ_RQ, 512},
	{PRM_HCA_CAP_MAX_WQE_SZ_SQ_DC, 1024},
	{PRM_HCA_CAP_LOG_MAX_PD, 16},
	{PRM_HCA_CAP_MAX_NUM_EQS, 1},
	{PRM_HCA_CAP_FREQUENCY_MHZ, 1000},
	{PRM_HCA_CAP_FREQUENCY_KHZ, 1000000},
	{PRM_HCA_CAP_NUM_OF_UARS_PER_PAGE, 1},
	{PRM_HCA_CAP_LOG_MAX_ATOMIC_SIZE_QP, 3},
	{PRM_HCA_CAP_LOG_MAX_ATOMIC_SIZE_DC, 3},
	{PRM_HCA_CAP_NATIVE_PORT_NUM, 1},
	{PRM_HCA_CAP_NUM_VHCA_PORTS, 1},
	{PRM_HCA_CAP_PG, 1},
	{PRM_HCA_CAP_QPC_EXTENSION, 1},
	{PRM_HCA_CAP_LOG_MAX_DCI_STREAMS, SIM_MAX_LOG2_STREAMS},
	{PRM_HCA_CAP_LOG_MAX_DCI_ERRORED, SIM_MAX_LOG2_STREAMS},
	{PRM_HCA_CAP_CQE_COMPRESSION, 1},
	{PRM_HCA_CAP_CQE_COMPRESSION_128, 1},
	{PRM_HCA_CAP_GENERAL_OBJ_TYPES, 1ull << PRM_OBJ_AV_QP_MAPPING},
};

/* Whatever the transport has works with regions on demand, too. */
#define ODP_SEND 0x80000000u
#define ODP_RECEIVE 0x40000000u
#define ODP_WRITE 0x20000000u
#define ODP_READ 0x10000000u
#define ODP_ATOMIC 0x08000000u
#define ODP_SRQ_RECEIVE 0x04000000u

static const struct value odp[] = {
	{PRM_ODP_CAP_RC, ODP_SEND | ODP_RECEIVE | ODP_WRITE | ODP_READ | ODP_ATOMIC | ODP_SRQ_RECEIVE},
	{PRM_ODP_CAP_UC, ODP_SEND | ODP_RECEIVE | ODP_WRITE | ODP_SRQ_RECEIVE},
	{PRM_ODP_CAP_UD, ODP_SEND | ODP_RECEIVE | ODP_SRQ_RECEIVE},
	{PRM_ODP_CAP_XRC, ODP_SEND | ODP_WRITE | ODP_READ | ODP_ATOMIC | ODP_SRQ_RECEIVE},
	{PRM_ODP_CAP_DC, ODP_SEND | ODP_WRITE | ODP_READ | ODP_ATOMIC | ODP_SRQ_RECEIVE},
};

/* Plain and masked compare-swap and fetch-add, of 4 and 8 bytes, whose results a kernel has made those of the host. */
static const struct value atomic[] = {
	{PRM_ATOMIC_CAP_REQ_8B_ENDIANNESS, 1},
	{PRM_ATOMIC_CAP_REQ_8B_ENDIANNESS_1, 1},
	{PRM_ATOMIC_CAP_OPERATIONS, 0xf},
	{PRM_ATOMIC_CAP_SIZE_QP, 4 | 8},
	{PRM_ATOMIC_CAP_SIZE_DC, 4 | 8},
};
static const struct value big_endian_atomic[] = {
	{PRM_ATOMIC_CAP_OPERATIONS, 0xf},
	{PRM_ATOMIC_CAP_SIZE_QP, 4 | 8},
	{PRM_ATOMIC_CAP_SIZE_DC, 4 | 8},
};
static const struct value plain_atomic[] = {
	{PRM_ATOMIC_CAP_REQ_8B_ENDIANNESS, 1},
	{PRM_ATOMIC_CAP_REQ_8B_ENDIANNESS_1, 1},
	{PRM_ATOMIC_CAP_OPERATIONS, 0x3},
	{PRM_ATOMIC_CAP_SIZE_QP, 8},
	{PRM_ATOMIC_CAP_SIZE_DC, 8},
};

static const struct value roce[] = {
	{PRM_ROCE_CAP_L3_TYPE, 3},
	{PRM_ROCE_CAP_ROCE_VERSION, 1 << ROCE_V1 | 1 << ROCE_V2},
	{PRM_ROCE_CAP_DST_UDP_PORT, 4791},
	{PRM_ROCE_CAP_MAX_SRC_UDP_PORT, 0xffff},
	{PRM_ROCE_CAP_MIN_SRC_UDP_PORT, 0xc000},
	{PRM_ROCE_CAP_ADDRESS_TABLE_SIZE, SIM_GID_TABLE},
};

static void fill(uint8_t *out, const struct value *values, size_t n)
{
	for (size_t i = 0; i < n; i++)
		prm_set(out, PRM_QUERY_HCA_CAP_OUT_CAP + values[i].field, values[i].value);
}

#define FILL(out, values) fill(out, values, sizeof(values) / sizeof((values)[0]))
#define CAP(name) (PRM_QUERY_HCA_CAP_OUT_CAP + PRM_HCA_CAP_##name)

static void fill_general(const struct fw_cmd *cmd, uint8_t *out)
{
	bool ethernet = cmd->nic->sim->ethernet;

	FILL(out, general);
	prm_set(out, CAP(VHCA_ID), (uint64_t)cmd->nic->index);
	prm_set(out, CAP(PORT_TYPE), ethernet ? PRM_PORT_ETHERNET : PRM_PORT_IB);
	prm_set(out, CAP(ROCE), ethernet);
	prm_set(out, CAP(ATOMIC), cmd->nic->sim->atomics != SIM_ATOMICS_NONE);
}

static void fill_atomic(const struct fw_cmd *cmd, uint8_t *out)
{
	switch (cmd->nic->sim->atomics) {
	case SIM_ATOMICS_ALL:
		FILL(out, atomic);
		break;
	case SIM_ATOMICS_BIG_ENDIAN:
		FILL(out, big_endian_atomic);
		break;
	case SIM_ATOMICS_PLAIN:
		FILL(out, plain_atomic);
		break;
	case SIM_ATOMICS_NONE:
		break;
	}
}

/* Present and greatest values (bit 0 of the op_mod) are the same. The answer holds as much as fits. */
int fw_query_hca_cap(struct fw_cmd *cmd)
{
	uint8_t out[PRM_QUERY_HCA_CAP_OUT_BYTES] = {0};

	switch (cmd->op_mod >> 1) {
	case PRM_CAP_GENERAL:
		fill_general(cmd, out);
		break;
	case PRM_CAP_ATOMIC:
		fill_atomic(cmd, out);
		break;
	case PRM_CAP_ODP:
		FILL(out, odp);
		break;
	case PRM_CAP_ROCE:
		if (cmd->nic->sim->ethernet)
			FILL(out, roce);
		break;
	default: /* of flow tables, device memory and the rest there is nothing */
		if (cmd->op_mod >> 1 > PRM_CAP_GENERAL_2)
			return fw_fail(cmd, PRM_STATUS_BAD_PARAM, PRM_IN_OP_MOD,
				       "no capabilities of type 0x%x", cmd->op_mod >> 1);
	}
	memcpy(cmd->out, out, cmd->out_bytes < sizeof(out) ? cmd->out_bytes : sizeof(out));
	return 0;
}

int fw_check_atomic_mode(struct fw_cmd *cmd, uint32_t field)
{
	static const uint8_t most[] = {[SIM_ATOMICS_ALL] = PRM_ATOMIC_UP_TO_8B,
				       [SIM_ATOMICS_BIG_ENDIAN] = PRM_ATOMIC_UP_TO_8B,
				       [SIM_ATOMICS_PLAIN] = PRM_ATOMIC_ONLY_8B,
				       [SIM_ATOMICS_NONE] = PRM_ATOMIC_NONE};
	uint64_t mode = fw_get(cmd, field);

	if (mode > most[cmd->nic->sim->atomics])
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, field, "atomic mode %u", (unsigned int)mode);
	return 0;
}

/* ---- addresses ------------------------------------------------------------------------------------------------- */

int fw_query_roce_address(struct fw_cmd *cmd)
{
	uint64_t index = fw_get(cmd, PRM_QUERY_ROCE_ADDRESS_IN_INDEX);
	uint8_t out[PRM_QUERY_ROCE_ADDRESS_OUT_BYTES] = {0};
	const struct nic *nic = cmd->nic;

	if (!nic->sim->ethernet)
		return fw_fail(cmd, PRM_STATUS_BAD_OP, 0, "not a RoCE port");
	if (index >= SIM_GID_TABLE)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, PRM_QUERY_ROCE_ADDRESS_IN_INDEX,
			       "GID index %u", (unsigned int)index);
	if (cmd->out_bytes < sizeof(out))
		return fw_fail(cmd, PRM_STATUS_BAD_OUTP_LEN, 0, "%zu bytes", cmd->out_bytes);
	if (index >= nic_n_gids(nic))
		return 0; /* an empty entry: zeros */
#define ADDR(name) (PRM_QUERY_ROCE_ADDRESS_OUT_ADDR + PRM_ROCE_ADDR_##name)
	prm_set_bytes(out, ADDR(GID), nic->gids[index]);
	prm_set_bytes(out, ADDR(MAC), nic->mac);
	prm_set(out, ADDR(VERSION),
		nic->gid_types[index] == IB_UVERBS_GID_TYPE_ROCE_V2 ? ROCE_V2 : ROCE_V1);
	prm_set(out, ADDR(L3_TYPE), nic->gids[index][10] == 0xff ? ROCE_IPV4 : ROCE_IPV6);
#undef ADDR
	memcpy(cmd->out, out, sizeof(out));
	return 0;
}

int fw_query_vport(struct fw_cmd *cmd)
{
	uint8_t out[PRM_QUERY_HCA_VPORT_CONTEXT_OUT_BYTES] = {0};
	const struct nic *nic = cmd->nic;
	bool down = __atomic_load_n(&nic->port_down, __ATOMIC_RELAXED);
	const uint64_t active = 4, link_up = 5; /* IBTA PortInfo */

	if (nic->sim->ethernet)
		return fw_fail(cmd, PRM_STATUS_BAD_OP, 0, "not an InfiniBand port");
#define CONTEXT(name) (PRM_QUERY_HCA_VPORT_CONTEXT_OUT_CONTEXT + PRM_HCA_VPORT_##name)
	prm_set(out, CONTEXT(PORT_PHYSICAL_STATE), down ? 3 : link_up);
	prm_set(out, CONTEXT(PORT_STATE), down ? 1 : active);
	prm_set(out, CONTEXT(VPORT_STATE), down ? 1 : active);
	prm_set(out, CONTEXT(SYSTEM_IMAGE_GUID), nic->guid);
	prm_set(out, CONTEXT(PORT_GUID), nic->guid);
	prm_set(out, CONTEXT(NODE_GUID), nic->guid);
	prm_set(out, CONTEXT(CAP_MASK1), SIM_IB_CAP_MASK);
	prm_set(out, CONTEXT(CAP_MASK2), SIM_IB_CAP_MASK2);
	prm_set(out, CONTEXT(LID), nic->lid);
	prm_set(out, CONTEXT(SM_LID), 1);
#undef CONTEXT
	memcpy(cmd->out, out, cmd->out_bytes < sizeof(out) ? cmd->out_bytes : sizeof(out));
	return 0;
}

/* Ports are not bonded. */
int fw_query_lag(struct fw_cmd *cmd)
{
	fw_set(cmd, PRM_QUERY_LAG_OUT_STATE, 0);
	return 0;
}
