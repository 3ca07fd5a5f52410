/* SPDX-License-Identifier: Apache-2.0 */
/* The targets of addresses. The functions of address vectors are called with the simulator's lock held. */
#ifndef SHMEMD_TESTS_MLX5SIM_ADDRESS_H
#define SHMEMD_TESTS_MLX5SIM_ADDRESS_H

#include <rdma/ib_user_verbs.h>

#include "tests/mlx5sim/sim/sim.h"

struct nic *address_nic_of_lid(struct sim *sim, uint16_t lid); /* NULL */

/* The GID of an RC or UC peer; a LID is looked up. */
int address_of_peer(struct call *call, const struct ib_uverbs_qp_dest *dest, uint8_t ret_gid[16]);

/* See struct engine_ops. */
int address_ud_path(struct nic *from, const struct shmd_wqe_av_seg *av, uint32_t payload_bytes,
		    struct engine_ud_path *ret_path);
int address_dc_route(struct nic *from, const struct shmd_wqe_av_seg *av, void **ret_route);

#endif
