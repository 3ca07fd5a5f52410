/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon says of what it has: messages are filled in with it. */
#ifndef SHMEMD_SESSION_LIST_ITEMS_H
#define SHMEMD_SESSION_LIST_ITEMS_H

#include "daemon/nic/nic.h"
#include "daemon/session/registry.h"
#include "daemon/session/session.h"
#include "proto/codec.h"

struct host_nic;

void fill_counters(struct msg_counters *to, const struct nic_counters *from);
void fill_nic(struct msg_nic *to, const struct registry_nic *rnic);
void fill_nic_ctx_pool(struct msg_nic *to, struct nic *nic); /* its context pool, if it has one */
void fill_unmanaged(struct msg_undriven_nic *to, const struct registry *registry, const struct host_nic *from);
void fill_session_item(struct msg_session_item *item, struct session *session);
/* A QP of a batch, and what its NIC says of it. Any thread that may use the batch. */
void fill_qp_item(struct msg_qp_item *item, uint64_t session, const struct session_queues *queues,
		  const struct nic_qp *qp, const struct nic_qp_info *info);
void fill_mr_item(struct msg_mr_item *item, uint64_t session, const struct session_mr *mr);
void fill_pe_item(struct msg_pe_item *item, const struct session *session, const struct session_pe *pe);
void fill_path_item(struct msg_path_item *item, const struct session *session, const struct session_pe *pe, unsigned int run);

#endif
