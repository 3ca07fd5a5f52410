/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ConnectX NICs: what hardware promises, also where the simulated one does more. A requester's error is told by its CQE
 * alone; flushes may cover it in a collapsed CQ; the network may lose packets; no command drains a
 * send queue; work requests are not counted.
 */
#include "tests/conformance/conf.h"

const struct conf_backend conf_backend_mlx5 = {
	.name = "mlx5",
	.features = CONF_F_ATOMIC | CONF_F_MASKED_ATOMIC | CONF_F_RECV | CONF_F_PLACEMENT_ORDER,
	.max_message_bytes = 1ull << 30,
	.max_sges = 60,
	.max_inline_bytes = 972,
	.qp_access_syndrome = SHMD_SYNDROME_REMOTE_ACCESS_ERR,
	.no_rq_syndrome = SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR,
};
