/* SPDX-License-Identifier: Apache-2.0 */
/* Which attributes a transition of a QP needs and allows, and the attributes for the engine. Pure. */
#ifndef SHMEMD_TESTS_MLX5SIM_QP_TABLE_H
#define SHMEMD_TESTS_MLX5SIM_QP_TABLE_H

#include <stdint.h>

#include <rdma/ib_user_verbs.h>

#include "daemon/engine/engine.h"

#define QP_TABLE_REMOTE_ACCESS                                                                     \
	(ENGINE_ACCESS_REMOTE_WRITE | ENGINE_ACCESS_REMOTE_READ | ENGINE_ACCESS_REMOTE_ATOMIC)

/*
 * `from` and `to` as in enum ibv_qp_state. 0, or -EINVAL with a reason: no such transition, an attribute missing, one
 * that does not belong there.
 */
int qp_table_check(enum engine_qp_type type, uint32_t from, uint32_t to, uint32_t attr_mask,
		   const char **ret_reason);

/* Everything but the address and the DC key; -EINVAL with a reason for a value out of range. */
int qp_table_translate(enum engine_qp_type type, const struct ib_uverbs_modify_qp *cmd, uint32_t to,
		       struct engine_qp_modify *ret_modify, const char **ret_reason);

#endif
