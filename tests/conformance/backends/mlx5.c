/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ConnectX NICs: what hardware promises, also where the simulated one does more. Flushes may cover an error CQE in a
 * collapsed CQ; the network may lose packets; no command drains a send queue; work requests are not counted.
 */
#include "tests/conformance/conf.h"

const struct conf_backend conf_backend_mlx5 = {
	.name = "mlx5",
	.features = CONF_F_ATOMIC | CONF_F_MASKED_ATOMIC | CONF_F_RECV | CONF_F_PLACEMENT_ORDER | CONF_F_EVENTS |
		    CONF_F_TELLS_ERROR | CONF_F_CPU_ATOMIC |
		    CONF_F_ZERO_BASED,
	.max_message_bytes = 1ull << 30,
	.max_sges = 60,
	.max_inline_bytes = 972,
	.no_rq_syndrome = SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR,
};
