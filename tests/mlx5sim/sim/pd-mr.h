/* SPDX-License-Identifier: Apache-2.0 */
/* Protection domains, for objects that are made in one; regions. */
#ifndef SHMEMD_TESTS_MLX5SIM_PD_MR_H
#define SHMEMD_TESTS_MLX5SIM_PD_MR_H

#include <rdma/ib_user_verbs.h>

#include "tests/mlx5sim/sim/sim.h"

struct pd {
	struct object object;
	uint32_t pdn;
};

int pd_new(struct call *call, enum object_type type, struct pd **ret_pd);
struct pd *pd_get(struct call *call, uint64_t handle); /* NULL */

struct dm;

struct mr {
	struct object object;
	struct pd *pd;
	struct dm *dm; /* NULL: memory of the client */
	bool is_dmabuf;
	struct memory *memory; /* of regions on demand: see odp.c */
	uint32_t key;
	struct ib_uverbs_reg_mr reg; /* as it was asked for; ends in no data */
};

struct mr *mr_of_key(struct ufile *ufile, uint32_t key); /* NULL */

/* All of the calling process's memory, as it is at each access. -EPERM: that may not be read from here. */
int odp_memory_new(struct call *call, struct memory **ret_memory);

#endif
