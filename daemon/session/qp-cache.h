/* SPDX-License-Identifier: Apache-2.0 */
/* The last known state of each QP, for lists that cannot ask its NIC. Each call ignores numbers that the session does not have. */
#ifndef SHMEMD_SESSION_QP_CACHE_H
#define SHMEMD_SESSION_QP_CACHE_H

#include "daemon/session/session.h"

void qp_cache_set(struct session_nic *nic, uint32_t qpn, const struct session_qp *qp);
void qp_cache_set_info(struct session_nic *nic, uint32_t qpn, const struct nic_qp_info *info); /* as its NIC reports it */
void qp_cache_set_state(struct session_nic *nic, uint32_t qpn, enum nic_qp_state state);
void qp_cache_error(struct session_nic *nic, uint32_t qpn, uint32_t syndrome);

#endif
