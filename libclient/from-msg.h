/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protocol messages to public structs. Pure: no lock, no request. The codec has already checked sizes and terminated strings.
 */
#ifndef SHMD_FROM_MSG_H
#define SHMD_FROM_MSG_H

#include <stdbool.h>

#include <shmemclient-admin.h>

#include "proto/codec.h"

void limits_from_msg(const struct msg_limits *msg, struct shmd_limits *ret_limits);
void counters_from_msg(const struct msg_counters *msg, struct shmd_counters *ret_counters);
void nic_info_from_msg(const struct msg_nic *msg, struct shmd_nic_info *ret_info);
void nic_item_from_msg(const struct msg_nic *msg, struct shmd_nic_item *ret_item);
void undriven_nic_from_msg(const struct msg_undriven_nic *msg, struct shmd_undriven_nic *ret_nic);
void session_item_from_msg(const struct msg_session_item *msg, struct shmd_session_item *ret_item);
void qp_item_from_msg(const struct msg_qp_item *msg, struct shmd_qp_item *ret_item);
void mr_item_from_msg(const struct msg_mr_item *msg, struct shmd_mr_item *ret_item);
void pe_item_from_msg(const struct msg_pe_item *msg, struct shmd_pe_item *ret_item);
void path_item_from_msg(const struct msg_path_item *msg, struct shmd_path_item *ret_item);
void qp_info_from_msg(uint32_t qpn, const struct msg_qp_query_rep *msg, struct shmd_qp_info *ret_info);
/* 0; or -EPROTO, with text, for a stride that no NIC has. */
int queue_head_from_msg(const struct msg_queue_dump_rep *msg, struct shmd_queue_head *ret_head);
void status_from_msg(const struct msg_status_rep *msg, struct shmd_daemon_status *ret_status);
/* False for a kind that this version of the library does not know. */
bool event_from_msg(const struct msg_event *msg, struct shmd_admin_event *ret_event);

#endif
