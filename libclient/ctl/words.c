/* SPDX-License-Identifier: Apache-2.0 */
/* Words for the numbers of the public header, the same in tables and in JSON, and advice on errors. */
#include <shmd/abi/cqe.h>

#include "libclient/ctl/ctl.h"

const char *const ctl_wqe_kinds[8] = {
	"nop", "write", "write_imm", "read", "send", "send_imm", "atomic", "other",
};

const char *ctl_nic_state(uint32_t state)
{
	static const char *const words[] = {"unknown", "down", "active", "lost"};

	return words[state < 4 ? state : 0];
}

/* IBTA PortInfo: PortPhysicalState. */
const char *ctl_phys_state(uint32_t state)
{
	static const char *const words[] = {"unknown", "sleep", "polling", "disabled", "training", "link-up",
					    "error-recovery", "phy-test"};

	return words[state < 8 ? state : 0];
}

const char *ctl_link(uint32_t link)
{
	static const char *const words[] = {"unknown", "ethernet", "infiniband"};

	return words[link < 3 ? link : 0];
}

const char *ctl_gid_type(uint32_t type)
{
	static const char *const words[] = {"unknown", "ib", "roce-v1", "roce-v2"};

	return words[type < 4 ? type : 0];
}

enum color ctl_nic_state_color(uint32_t state)
{
	return state == 2 ? COLOR_GREEN : COLOR_RED;
}

const char *ctl_qp_type(uint32_t type)
{
	static const char *const words[] = {
		"unknown", [SHMD_QP_TYPE_RC] = "RC", [SHMD_QP_TYPE_DCI] = "DCI", [SHMD_QP_TYPE_DCT] = "DCT"};

	return words[type <= SHMD_QP_TYPE_DCT ? type : 0];
}

const char *ctl_qp_state(uint32_t state)
{
	static const char *const words[] = {
		[SHMD_QP_RST] = "RST", [SHMD_QP_INIT] = "INIT", [SHMD_QP_RTR] = "RTR",
		[SHMD_QP_RTS] = "RTS", [SHMD_QP_ERR] = "ERR", [SHMD_QP_SQD] = "SQD"};

	return state <= SHMD_QP_SQD && words[state] ? words[state] : "unknown";
}

enum color ctl_qp_state_color(uint32_t state)
{
	switch (state) {
	case SHMD_QP_RTS:
		return COLOR_GREEN;
	case SHMD_QP_ERR:
		return COLOR_RED;
	case SHMD_QP_SQD:
		return COLOR_YELLOW;
	default:
		return COLOR_NONE;
	}
}

const char *ctl_mem_kind(uint32_t kind)
{
	static const char *const words[] = {"unknown", "memfd", "dmabuf", "agent", "peermem"};

	return words[kind < 5 ? kind : 0];
}

const char *ctl_event_kind(unsigned int kind)
{
	static const char *const words[] = {
		"unknown", "qp-error", "cq-error", "port-state", "nic-lost", "session-end", "session-opened",
		"session-closed", "queues-created", "queues-destroyed", "drain", "dropped", "refused", "resumed",
	};

	return words[kind < sizeof(words) / sizeof(words[0]) ? kind : 0];
}

const char *ctl_syndrome_advice(uint32_t syndrome)
{
	switch (syndrome) {
	case SHMD_SYNDROME_LOCAL_LENGTH_ERR:
		return "post receives at least as long as the peer's messages";
	case SHMD_SYNDROME_LOCAL_QP_OP_ERR:
		return "look at the WQE that failed below: opcode, segments and size must be ones that the NIC knows";
	case SHMD_SYNDROME_LOCAL_PROT_ERR:
		return "compare lkey and address of the WQE that failed with shmemctl list mrs (--keys shows keys)";
	case SHMD_SYNDROME_WR_FLUSH_ERR:
		return "an earlier work request or the QP's owner brought it to ERR; shmd_queues_modify to RST makes it new";
	case SHMD_SYNDROME_LOCAL_ACCESS_ERR:
	case SHMD_SYNDROME_REMOTE_ACCESS_ERR:
		return "compare rkey, address and ACCESS at the side that was written to: shmemctl list mrs there";
	case SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR:
	case SHMD_SYNDROME_REMOTE_OP_ERR:
		return "look at the peer's QP with shmemctl dump-queue: what it allows, and its own first error";
	case SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR:
		return "is the peer's process alive, its QP in RTS (shmemctl list qps), both ports active (shmemctl list nics)?";
	case SHMD_SYNDROME_RNR_RETRY_EXC_ERR:
		return "the peer must post receives before messages arrive: see its receive queue with shmemctl dump-queue";
	case SHMD_SYNDROME_OUTCOME_UNKNOWN:
		return "the daemon ended in the midst of an atomic: read the word to see whether it took effect, then connect anew";
	default:
		return "the QP works again after shmd_queues_modify to RST and a new connect at both sides";
	}
}
