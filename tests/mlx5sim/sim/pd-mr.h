/* SPDX-License-Identifier: Apache-2.0 */
/* Protection domains, for objects that are made in one. */
#ifndef SHMEMD_TESTS_MLX5SIM_PD_MR_H
#define SHMEMD_TESTS_MLX5SIM_PD_MR_H

#include "tests/mlx5sim/sim/sim.h"

struct pd {
	struct object object;
	uint32_t pdn;
};

/* UVERBS_METHOD_REG_MR of newer kernels (rdma/ib_user_ioctl_cmds.h of rdma-core 64): memory of either kind. Without DMA handles. */
#define METHOD_REG_MR 5
enum {
	REG_MR_HANDLE = 0,
	REG_MR_PD_HANDLE = 1,
	REG_MR_IOVA = 3,
	REG_MR_ADDR = 4,
	REG_MR_LENGTH = 5,
	REG_MR_ACCESS_FLAGS = 6,
	REG_MR_FD = 7,
	REG_MR_FD_OFFSET = 8,
	REG_MR_RESP_LKEY = 9,
	REG_MR_RESP_RKEY = 10,
};

int pd_new(struct call *call, enum object_type type, struct pd **ret_pd);
struct pd *pd_get(struct call *call, uint64_t handle); /* NULL */

#endif
