/* SPDX-License-Identifier: Apache-2.0 */
/* The soft NIC: everything the queue ABI has. */
#include "tests/conformance/conf.h"

const struct conf_backend conf_backend_soft = {
	.name = "soft",
	.features = CONF_F_ATOMIC | CONF_F_MASKED_ATOMIC | CONF_F_RECV | CONF_F_SQD |
		    CONF_F_EVENTS | CONF_F_PLACEMENT_ORDER | CONF_F_KEEPS_CAUSE | CONF_F_LOSSLESS |
		    CONF_F_PORT | CONF_F_TELLS_ERROR | CONF_F_COUNTS | CONF_F_CPU_ATOMIC |
		    CONF_F_ZERO_BASED,
	.max_message_bytes = 1ull << 31,
	.max_sges = 60,
	.max_inline_bytes = 972,
	.no_rq_syndrome = SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR,
};
