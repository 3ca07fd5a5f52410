/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The soft NIC on GPU memory, which the library's memory agent reaches for it. The agent reads, adds and writes: its atomics are exact
 * against those of NICs, and not against those of the memory's owner. shmd_gpu_mr_reg() takes 0 for the address of the memory.
 */
#include "tests/conformance/conf.h"

const struct conf_backend conf_backend_soft_gpu = {
	.name = "soft",
	.is_gpu = true,
	.features = CONF_F_ATOMIC | CONF_F_MASKED_ATOMIC | CONF_F_RECV | CONF_F_SQD |
		    CONF_F_EVENTS | CONF_F_PLACEMENT_ORDER | CONF_F_KEEPS_CAUSE | CONF_F_LOSSLESS |
		    CONF_F_PORT | CONF_F_TELLS_ERROR | CONF_F_COUNTS,
	.max_message_bytes = 1ull << 31,
	.max_sges = 60,
	.max_inline_bytes = 972,
	.no_rq_syndrome = SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR,
};
