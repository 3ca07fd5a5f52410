/* SPDX-License-Identifier: Apache-2.0 */
/* Words for the numbers of the public header, the same in tables and in JSON. */
#include "libclient/ctl/ctl.h"

const char *const ctl_wqe_kinds[8] = {
	"nop", "write", "write_imm", "read", "send", "send_imm", "atomic", "other",
};

const char *ctl_nic_state(uint32_t state)
{
	static const char *const words[] = {"unknown", "down", "active", "lost"};

	return words[state < 4 ? state : 0];
}

const char *ctl_qp_state(uint32_t state)
{
	switch (state) {
	case SHMD_QP_RST:
		return "RST";
	case SHMD_QP_INIT:
		return "INIT";
	case SHMD_QP_RTR:
		return "RTR";
	case SHMD_QP_RTS:
		return "RTS";
	case SHMD_QP_ERR:
		return "ERR";
	case SHMD_QP_SQD:
		return "SQD";
	default:
		return "unknown";
	}
}

const char *ctl_mem_kind(uint32_t kind)
{
	static const char *const words[] = {"unknown", "memfd", "dmabuf", "agent"};

	return words[kind < 4 ? kind : 0];
}
