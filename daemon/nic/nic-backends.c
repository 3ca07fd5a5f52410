/* SPDX-License-Identifier: Apache-2.0 */
/* The table of backends: real NICs before simulated ones. Constant. */
#include "daemon/nic/nic.h"

const struct nic_backend *const nic_backends[] = {&nic_mlx5_backend, &nic_soft_backend, NULL};
