/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory, for regions that lie in it and for processes that map it. */
#ifndef SHMEMD_TESTS_MLX5SIM_DM_H
#define SHMEMD_TESTS_MLX5SIM_DM_H

#include "tests/mlx5sim/sim/sim.h"

struct dm {
	struct object object;
	struct memory *memory;
	int memfd;
	uint16_t index; /* of its page number; unique in the ufile */
	uint64_t asked_bytes, bytes;
};

struct dm *dm_get(struct call *call, uint64_t handle); /* NULL */

/* Is a mapping at this offset of device memory, or of the clock? */
bool dm_is_of_mmap(uint64_t offset);
int dm_mmap(struct ufile *ufile, uint64_t offset, uint64_t bytes, uint64_t prot, int *ret_memfd);

#endif
