/* SPDX-License-Identifier: Apache-2.0 */
/* Protection domains, for objects that are made in one. */
#ifndef SHMEMD_TESTS_MLX5SIM_PD_MR_H
#define SHMEMD_TESTS_MLX5SIM_PD_MR_H

#include "tests/mlx5sim/sim/sim.h"

struct pd {
	struct object object;
	uint32_t pdn;
};

int pd_new(struct call *call, enum object_type type, struct pd **ret_pd);
struct pd *pd_get(struct call *call, uint64_t handle); /* NULL */

#endif
