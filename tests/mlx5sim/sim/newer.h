/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of newer kernels that the distribution's headers lack; numbers of rdma/ib_user_ioctl_cmds.h in rdma-core 64. */
#ifndef SHMEMD_TESTS_MLX5SIM_NEWER_H
#define SHMEMD_TESTS_MLX5SIM_NEWER_H

/* UVERBS_METHOD_QUERY_PORT_SPEED */
#define METHOD_QUERY_PORT_SPEED 7
enum {
	QUERY_PORT_SPEED_PORT_NUM = 0,
	QUERY_PORT_SPEED_RESP = 1,
};

/* UVERBS_METHOD_REG_MR: memory of either kind. Without DMA handles. */
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

#endif
