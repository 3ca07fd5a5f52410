/* SPDX-License-Identifier: Apache-2.0 */
/* The backend's row in the table of backends. Constant; pure but for the probe. */
#include "daemon/nic/nic.h"

static int probe(const struct nic_probe_attr *attr, struct list *nics, struct nic_mlx5_report *report)
{
	return nic_mlx5_probe(&attr->mlx5, nics, report);
}

const struct nic_backend nic_mlx5_backend = {
	.name = "mlx5", .probe = probe, .serve = nic_mlx5_serve, .claims = nic_mlx5_claims};
