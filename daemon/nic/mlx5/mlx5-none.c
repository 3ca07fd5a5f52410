/* SPDX-License-Identifier: Apache-2.0 */
/* The row of this backend in builds without libmlx5: it finds no NIC and says why. Any thread. */
#include <errno.h>

#include "daemon/nic/nic.h"

static int probe(const struct nic_probe_attr *attr, struct list *nics, struct nic_mlx5_report *report)
{
	return -EOPNOTSUPP;
}

const struct nic_backend nic_mlx5_backend = {.name = "mlx5",
					     .probe = probe,
					     .claims = nic_mlx5_claims,
					     .why_not = "this build of shmemd has no mlx5 backend"};
