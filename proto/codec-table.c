/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables, and the only include of generated code.
 *
 * A field stands here once; encoder, decoder and formatter follow the table, so they cannot disagree. Read-only data,
 * any thread.
 */
#include <errno.h>

#include "proto/codec-table.h"
#include "proto/shmemd.pb-c.h"

/* 0, and does not compile unless the expression has that many bytes. */
#define CHECK_SIZE(expr, size) (0 * sizeof(char[sizeof(expr) == (size) ? 1 : -1]))
#define MEMBER(s, f) (((struct s *)0)->f)
#define OFFSET(s, f, size) (offsetof(struct s, f) + CHECK_SIZE(MEMBER(s, f), size))
#define OFFSET_OF_ARRAY(s, f, size) (offsetof(struct s, f) + CHECK_SIZE(MEMBER(s, f[0]), size))
#define COUNT(s, f) (sizeof(MEMBER(s, f)) / sizeof(MEMBER(s, f[0])))

/* clang-format off */
#define U32(s, f, no) \
	{.number = no, .name = #f, .type = FIELD_U32, .offset = OFFSET(s, f, 4)}
#define U32_SECRET(s, f, no) \
	{.number = no, .name = #f, .type = FIELD_U32, .offset = OFFSET(s, f, 4), .is_secret = true}
#define U64(s, f, no) \
	{.number = no, .name = #f, .type = FIELD_U64, .offset = OFFSET(s, f, 8)}
#define U64_SECRET(s, f, no) \
	{.number = no, .name = #f, .type = FIELD_U64, .offset = OFFSET(s, f, 8), .is_secret = true}
#define BOOL(s, f, no) \
	{.number = no, .name = #f, .type = FIELD_BOOL, .offset = OFFSET(s, f, sizeof(bool))}
#define ENUM(s, f, no, lowest, highest) \
	{.number = no, .name = #f, .type = FIELD_ENUM, .offset = OFFSET(s, f, 4), .min = lowest, .max = highest}
#define TEXT(s, f, no) \
	{.number = no, .name = #f, .type = FIELD_TEXT, .offset = OFFSET_OF_ARRAY(s, f, 1), .max = COUNT(s, f)}
#define BYTES_FIXED(s, f, no) \
	{.number = no, .name = #f, .type = FIELD_BYTES_FIXED, .offset = OFFSET_OF_ARRAY(s, f, 1), .max = COUNT(s, f)}
#define BYTES_FIXED_SECRET(s, f, no) \
	{.number = no, .name = #f, .type = FIELD_BYTES_FIXED, .offset = OFFSET_OF_ARRAY(s, f, 1), .max = COUNT(s, f), \
	 .is_secret = true}
#define BYTES_SECRET(s, f, n, no) \
	{.number = no, .name = #f, .type = FIELD_BYTES, .offset = OFFSET_OF_ARRAY(s, f, 1), .max = COUNT(s, f), \
	 .n_offset = OFFSET(s, n, 4), .is_secret = true}
#define BYTES_HEAP_SECRET(s, f, n, no, limit) \
	{.number = no, .name = #f, .type = FIELD_BYTES_HEAP, .offset = OFFSET_OF_ARRAY(s, f, 1), .max = limit, \
	 .n_offset = OFFSET(s, n, 4), .is_secret = true}
#define U32_ARRAY(s, f, n, no) \
	{.number = no, .name = #f, .type = FIELD_U32_ARRAY, .offset = OFFSET_OF_ARRAY(s, f, 4), .max = COUNT(s, f), \
	 .n_offset = OFFSET(s, n, 4)}
#define U64_ARRAY(s, f, no) \
	{.number = no, .name = #f, .type = FIELD_U64_ARRAY, .offset = OFFSET_OF_ARRAY(s, f, 8), .max = COUNT(s, f)}
#define MSG(s, f, no, m) \
	{.number = no, .name = #f, .type = FIELD_MSG, .offset = OFFSET(s, f, sizeof(struct msg_##m)), .sub = &m##_message}
#define MSG_OPT(s, f, present, no, m) \
	{.number = no, .name = #f, .type = FIELD_MSG_OPT, .offset = OFFSET(s, f, sizeof(struct msg_##m)), \
	 .n_offset = OFFSET(s, present, sizeof(bool)), .sub = &m##_message}
#define MSG_ARRAY(s, f, n, no, m) \
	{.number = no, .name = #f, .type = FIELD_MSG_ARRAY, .offset = OFFSET_OF_ARRAY(s, f, sizeof(struct msg_##m)), \
	 .max = COUNT(s, f), .n_offset = OFFSET(s, n, 4), .sub = &m##_message}
#define MSG_HEAP(s, f, n, no, m, limit) \
	{.number = no, .name = #f, .type = FIELD_MSG_HEAP, .offset = OFFSET_OF_ARRAY(s, f, sizeof(struct msg_##m)), \
	 .max = limit, .n_offset = OFFSET(s, n, 4), .sub = &m##_message}

/* A message whose fields are name##_fields, plain struct is s and generated descriptor is that of g. */
#define MESSAGE(name, s, g) \
	static const struct message name##_message = { \
		.generated = &shmemd__##g##__descriptor, .plain_bytes = sizeof(struct s), \
		.n_fields = sizeof(name##_fields) / sizeof(name##_fields[0]), .fields = name##_fields}
#define MESSAGE_EMPTY(name) \
	static const struct message name##_message = {.generated = &shmemd__##name##__descriptor}

MESSAGE_EMPTY(ok_rep);

static const struct field error_rep_fields[] = {
	U32(msg_error_rep, status, 1),
	TEXT(msg_error_rep, text, 2),
	U32(msg_error_rep, accepted_kinds, 3),
};
MESSAGE(error_rep, msg_error_rep, error_rep);

static const struct field hello_req_fields[] = {
	U32(msg_hello_req, version_min, 1),
	U32(msg_hello_req, version_max, 2),
	TEXT(msg_hello_req, library, 3),
	ENUM(msg_hello_req, role, 4, MSG_ROLE_CLIENT, MSG_ROLE_CONTROL),
	BOOL(msg_hello_req, resumes, 5),
};
MESSAGE(hello_req, msg_hello_req, hello_req);

static const struct field limits_fields[] = {
	U32(msg_limits, max_packet_bytes, 1),
	U32(msg_limits, max_fds_per_packet, 2),
	U32(msg_limits, max_qps_per_request, 3),
	U32(msg_limits, max_peers_per_request, 4),
	U32(msg_limits, max_nics_per_session, 5),
	U32(msg_limits, max_sessions, 6),
	U32(msg_limits, max_qps, 7),
	U32(msg_limits, max_cqs, 8),
	U64(msg_limits, max_registered_bytes, 9),
	U32(msg_limits, max_fds, 10),
	U32(msg_limits, max_mrs, 11),
	U32(msg_limits, max_published, 12),
};
MESSAGE(limits, msg_limits, limits);

static const struct field hello_rep_fields[] = {
	U32(msg_hello_rep, version, 1),
	TEXT(msg_hello_rep, daemon, 2),
	U64(msg_hello_rep, session, 3),
	MSG(msg_hello_rep, limits, 4, limits),
	U32(msg_hello_rep, n_nics, 5),
	U32(msg_hello_rep, watch_fd, 6),
	U64(msg_hello_rep, restart_grace_nsec, 7),
};
MESSAGE(hello_rep, msg_hello_rep, hello_rep);

static const struct field event_fields[] = {
	ENUM(msg_event, kind, 1, MSG_EVENT_QP_ERROR, MSG_EVENT_REFUSED),
	U32(msg_event, nic, 2),
	U32(msg_event, number, 3),
	U32(msg_event, detail, 4),
	TEXT(msg_event, text, 5),
	U64(msg_event, session, 6),
	TEXT(msg_event, nic_name, 7),
	U64(msg_event, time_nsec, 8),
	U32(msg_event, uid, 9),
	U32(msg_event, pid, 10),
};
MESSAGE(event, msg_event, event);

static const struct field resumed_event_fields[] = {
	U32(msg_resumed_event, watch_fd, 1),
	U64(msg_resumed_event, restart_grace_nsec, 2),
	TEXT(msg_resumed_event, daemon, 3),
};
MESSAGE(resumed_event, msg_resumed_event, resumed_event);

MESSAGE_EMPTY(nic_list_req);

static const struct field counters_fields[] = {
	U64(msg_counters, wqes, 1),
	U64_ARRAY(msg_counters, wqes_by_kind, 2),
	U64(msg_counters, bytes_sent, 3),
	U64(msg_counters, bytes_read, 4),
	U64(msg_counters, recv_wqes, 5),
	U64(msg_counters, error_cqes, 6),
	U64(msg_counters, rnr_naks, 7),
	U64(msg_counters, retries, 8),
};
MESSAGE(counters, msg_counters, counters);

static const struct field nic_warm_fields[] = {
	U32(msg_nic_warm, n_wanted, 1),
	U32(msg_nic_warm, n_ready, 2),
	U64(msg_nic_warm, n_made, 3),
	U64(msg_nic_warm, n_handed_out, 4),
	U64(msg_nic_warm, n_batches_handed_out, 5),
	U64(msg_nic_warm, missed_empty, 6),
	U64(msg_nic_warm, missed_shape, 7),
	U64(msg_nic_warm, missed_memory, 8),
	U64(msg_nic_warm, n_failed, 9),
};
MESSAGE(nic_warm, msg_nic_warm, nic_warm);

static const struct field nic_fields[] = {
	TEXT(msg_nic, name, 1),
	TEXT(msg_nic, backend, 2),
	TEXT(msg_nic, pci, 3),
	U32(msg_nic, port, 4),
	U32(msg_nic, link, 5),
	U32(msg_nic, state, 6),
	BYTES_FIXED(msg_nic, gid, 7),
	BYTES_FIXED(msg_nic, mac, 8),
	U32(msg_nic, lid, 9),
	U32(msg_nic, mtu_bytes, 10),
	U64(msg_nic, rate_mbps, 11),
	U32_ARRAY(msg_nic, mem_kinds, n_mem_kinds, 12),
	U32_ARRAY(msg_nic, doorbell_modes, n_doorbell_modes, 13),
	U32(msg_nic, max_log2_sq_wqebbs, 14),
	U32(msg_nic, max_log2_cq_entries, 15),
	U32(msg_nic, max_qps, 16),
	U32(msg_nic, n_sessions, 17),
	U32(msg_nic, n_qps, 18),
	MSG(msg_nic, counters, 19, counters),
	MSG_OPT(msg_nic, warm, has_warm, 20, nic_warm),
	U32(msg_nic, atomics, 21),
	U32(msg_nic, atomics_dc, 22),
};
MESSAGE(nic, msg_nic, nic);

static const struct field nic_list_rep_fields[] = {
	MSG_HEAP(msg_nic_list_rep, nics, n_nics, 1, nic, MSG_MAX_NICS),
};
MESSAGE(nic_list_rep, msg_nic_list_rep, nic_list_rep);

static const struct field nic_open_req_fields[] = {
	TEXT(msg_nic_open_req, gpu, 1),
	TEXT(msg_nic_open_req, nic, 2),
	U32(msg_nic_open_req, doorbell, 3),
};
MESSAGE(nic_open_req, msg_nic_open_req, nic_open_req);

static const struct field nic_open_rep_fields[] = {
	U32(msg_nic_open_rep, nic, 1),
	MSG(msg_nic_open_rep, info, 2, nic),
	U32(msg_nic_open_rep, doorbell, 3),
	TEXT(msg_nic_open_rep, reason, 4),
	TEXT(msg_nic_open_rep, assignment, 5),
	U64(msg_nic_open_rep, page_offset, 6),
	U32(msg_nic_open_rep, register_offset, 7),
	U32(msg_nic_open_rep, page_fd, 8),
	U32(msg_nic_open_rep, nic_page_fd, 9),
	U32(msg_nic_open_rep, wake_fd, 10),
	U32(msg_nic_open_rep, pd, 11),
};
MESSAGE(nic_open_rep, msg_nic_open_rep, nic_open_rep);

static const struct field nic_doorbell_req_fields[] = {
	U32(msg_nic_doorbell_req, nic, 1),
	U32(msg_nic_doorbell_req, doorbell, 2),
	TEXT(msg_nic_doorbell_req, reason, 3),
};
MESSAGE(nic_doorbell_req, msg_nic_doorbell_req, nic_doorbell_req);

static const struct field mem_reg_req_fields[] = {
	U32(msg_mem_reg_req, nic, 1),
	ENUM(msg_mem_reg_req, kind, 2, MSG_MEM_UNSET, MSG_MEM_PEERMEM),
	U32(msg_mem_reg_req, fd, 3),
	U64(msg_mem_reg_req, offset, 4),
	U64(msg_mem_reg_req, length_bytes, 5),
	U64(msg_mem_reg_req, iova, 6),
	U32(msg_mem_reg_req, access, 7),
	U32(msg_mem_reg_req, kernel_handle, 8),
	TEXT(msg_mem_reg_req, reason, 9),
};
MESSAGE(mem_reg_req, msg_mem_reg_req, mem_reg_req);

static const struct field mem_reg_rep_fields[] = {
	U32(msg_mem_reg_rep, mr, 1),
	U32_SECRET(msg_mem_reg_rep, lkey, 2),
	U32_SECRET(msg_mem_reg_rep, rkey, 3),
};
MESSAGE(mem_reg_rep, msg_mem_reg_rep, mem_reg_rep);

static const struct field mem_dereg_req_fields[] = {
	U32(msg_handle_req, handle, 1),
};
MESSAGE(mem_dereg_req, msg_handle_req, mem_dereg_req);

static const struct field cq_spec_fields[] = {
	U32(msg_cq_spec, count, 1),
	U32(msg_cq_spec, log2_entries, 2),
	U32(msg_cq_spec, flags, 3),
};
MESSAGE(cq_spec, msg_cq_spec, cq_spec);

static const struct field qp_spec_fields[] = {
	U32(msg_qp_spec, count, 1),
	U32(msg_qp_spec, type, 2),
	U32(msg_qp_spec, log2_sq_wqebbs, 3),
	U32(msg_qp_spec, n_rq_wqes, 4),
	U32(msg_qp_spec, log2_rq_stride, 5),
	U32(msg_qp_spec, send_cq_first, 6),
	U32(msg_qp_spec, send_cq_step, 7),
	U32(msg_qp_spec, send_cqn, 8),
	U32(msg_qp_spec, recv_cq_first, 9),
	U32(msg_qp_spec, recv_cq_step, 10),
	U32(msg_qp_spec, recv_cqn, 11),
	U32(msg_qp_spec, flags, 12),
	U32(msg_qp_spec, access, 13),
};
MESSAGE(qp_spec, msg_qp_spec, qp_spec);

static const struct field queue_layout_req_fields[] = {
	MSG_ARRAY(msg_queue_specs, cqs, n_cqs, 1, cq_spec),
	MSG_ARRAY(msg_queue_specs, qps, n_qps, 2, qp_spec),
};
MESSAGE(queue_layout_req, msg_queue_specs, queue_layout_req);

static const struct field queue_layout_rep_fields[] = {
	U64(msg_queue_layout_rep, total_bytes, 1),
};
MESSAGE(queue_layout_rep, msg_queue_layout_rep, queue_layout_rep);

static const struct field queue_create_req_fields[] = {
	U32(msg_queue_create_req, nic, 1),
	MSG_ARRAY(msg_queue_create_req, specs.cqs, specs.n_cqs, 2, cq_spec),
	MSG_ARRAY(msg_queue_create_req, specs.qps, specs.n_qps, 3, qp_spec),
	ENUM(msg_queue_create_req, mem_kind, 4, MSG_MEM_UNSET, MSG_MEM_PEERMEM),
	U32(msg_queue_create_req, mem_fd, 5),
	U64(msg_queue_create_req, mem_offset, 6),
	U64(msg_queue_create_req, mem_bytes, 7),
};
MESSAGE(queue_create_req, msg_queue_create_req, queue_create_req);

static const struct field cq_info_fields[] = {
	U32(msg_cq_info, cqn, 1),
	U32(msg_cq_info, log2_entries, 2),
	U32(msg_cq_info, flags, 3),
	U64(msg_cq_info, ring_offset, 4),
	U64(msg_cq_info, dbrec_offset, 5),
};
MESSAGE(cq_info, msg_cq_info, cq_info);

static const struct field qp_info_fields[] = {
	U32(msg_qp_info, qpn, 1),
	U32(msg_qp_info, log2_sq_wqebbs, 2),
	U32(msg_qp_info, n_rq_wqes, 3),
	U32(msg_qp_info, log2_rq_stride, 4),
	U32(msg_qp_info, send_cqn, 5),
	U32(msg_qp_info, recv_cqn, 6),
	U64(msg_qp_info, rq_offset, 7),
	U64(msg_qp_info, sq_offset, 8),
	U64(msg_qp_info, dbrec_offset, 9),
	BYTES_SECRET(msg_qp_info, addr, addr_bytes, 10),
};
MESSAGE(qp_info, msg_qp_info, qp_info);

static const struct field queue_create_rep_fields[] = {
	U32(msg_queue_create_rep, queues, 1),
	U64(msg_queue_create_rep, mem_bytes, 2),
	U32(msg_queue_create_rep, mem_fd, 3),
	MSG_HEAP(msg_queue_create_rep, cqs, n_cqs, 4, cq_info, MSG_MAX_CQS),
	MSG_HEAP(msg_queue_create_rep, qps, n_qps, 5, qp_info, MSG_MAX_QPS),
};
MESSAGE(queue_create_rep, msg_queue_create_rep, queue_create_rep);

static const struct field queue_destroy_req_fields[] = {
	U32(msg_handle_req, handle, 1),
};
MESSAGE(queue_destroy_req, msg_handle_req, queue_destroy_req);

static const struct field peer_fields[] = {
	U32(msg_peer, qpn, 1),
	BYTES_SECRET(msg_peer, addr, addr_bytes, 2),
};
MESSAGE(peer, msg_peer, peer);

static const struct field qp_params_fields[] = {
	U32(msg_qp_params, timeout, 1),
	U32(msg_qp_params, retry_count, 2),
	U32(msg_qp_params, rnr_retry, 3),
	U32(msg_qp_params, min_rnr_timer, 4),
	U32(msg_qp_params, max_rd_atomic, 5),
	U32(msg_qp_params, traffic_class, 6),
};
MESSAGE(qp_params, msg_qp_params, qp_params);

static const struct field connect_req_fields[] = {
	U32(msg_connect_req, nic, 1),
	MSG_HEAP(msg_connect_req, peers, n_peers, 2, peer, MSG_MAX_PEERS),
	MSG_OPT(msg_connect_req, params, has_params, 3, qp_params),
};
MESSAGE(connect_req, msg_connect_req, connect_req);

static const struct field connect_rep_fields[] = {
	U32(msg_connect_rep, n_done, 1),
	U32(msg_connect_rep, status, 2),
	TEXT(msg_connect_rep, text, 3),
};
MESSAGE(connect_rep, msg_connect_rep, connect_rep);

static const struct field peer_addr_fields[] = {
	BYTES_SECRET(msg_peer_addr, addr, addr_bytes, 1),
};
MESSAGE(peer_addr, msg_peer_addr, peer_addr);

static const struct field peer_resolve_req_fields[] = {
	U32(msg_peer_resolve_req, nic, 1),
	MSG_HEAP(msg_peer_resolve_req, addrs, n_addrs, 2, peer_addr, MSG_MAX_PEERS),
	U32(msg_peer_resolve_req, traffic_class, 3),
	U32(msg_peer_resolve_req, n_dc_peers, 4),
	U32(msg_peer_resolve_req, n_rc_peers, 5),
};
MESSAGE(peer_resolve_req, msg_peer_resolve_req, peer_resolve_req);

static const struct field peer_entry_fields[] = {
	BYTES_FIXED_SECRET(msg_peer_entry, av, 1),
	U32(msg_peer_entry, dctn, 2),
	U64_SECRET(msg_peer_entry, dc_key, 3),
};
MESSAGE(peer_entry, msg_peer_entry, peer_entry);

static const struct field peer_resolve_rep_fields[] = {
	MSG_HEAP(msg_peer_resolve_rep, entries, n_entries, 1, peer_entry, MSG_MAX_PEERS),
	U32(msg_peer_resolve_rep, status, 2),
	TEXT(msg_peer_resolve_rep, text, 3),
};
MESSAGE(peer_resolve_rep, msg_peer_resolve_rep, peer_resolve_rep);

static const struct field qp_modify_req_fields[] = {
	U32(msg_qp_modify_req, nic, 1),
	U32(msg_qp_modify_req, qpn, 2),
	U32(msg_qp_modify_req, state, 3),
};
MESSAGE(qp_modify_req, msg_qp_modify_req, qp_modify_req);

static const struct field qp_query_req_fields[] = {
	U32(msg_qp_query_req, nic, 1),
	U32(msg_qp_query_req, qpn, 2),
};
MESSAGE(qp_query_req, msg_qp_query_req, qp_query_req);

static const struct field qp_query_rep_fields[] = {
	U32(msg_qp_query_rep, state, 1),
	U32(msg_qp_query_rep, dest_qpn, 2),
	U32(msg_qp_query_rep, sq_pi, 3),
	U32(msg_qp_query_rep, sq_ci, 4),
	U32(msg_qp_query_rep, rq_pi, 5),
	U32(msg_qp_query_rep, rq_ci, 6),
	U32(msg_qp_query_rep, first_error, 7),
	MSG(msg_qp_query_rep, counters, 8, counters),
};
MESSAGE(qp_query_rep, msg_qp_query_rep, qp_query_rep);

MESSAGE_EMPTY(counters_req);

static const struct field counters_rep_fields[] = {
	{.number = 1, .name = "counters", .type = FIELD_MSG, .offset = 0, .sub = &counters_message},
};
MESSAGE(counters_rep, msg_counters, counters_rep);

static const struct field publish_req_fields[] = {
	BYTES_FIXED_SECRET(msg_publish_req, key.world, 1),
	U32(msg_publish_req, key.pe, 2),
	U32(msg_publish_req, key.slot, 3),
	BYTES_SECRET(msg_publish_req, data, data_bytes, 4),
	BOOL(msg_publish_req, has_fd, 5),
};
MESSAGE(publish_req, msg_publish_req, publish_req);

static const struct field unpublish_req_fields[] = {
	BYTES_FIXED_SECRET(msg_world_key, world, 1),
	U32(msg_world_key, pe, 2),
	U32(msg_world_key, slot, 3),
};
MESSAGE(unpublish_req, msg_world_key, unpublish_req);

static const struct field fetch_req_fields[] = {
	BYTES_FIXED_SECRET(msg_world_key, world, 1),
	U32(msg_world_key, pe, 2),
	U32(msg_world_key, slot, 3),
};
MESSAGE(fetch_req, msg_world_key, fetch_req);

static const struct field fetch_rep_fields[] = {
	BYTES_SECRET(msg_fetch_rep, data, data_bytes, 1),
	BOOL(msg_fetch_rep, has_fd, 2),
};
MESSAGE(fetch_rep, msg_fetch_rep, fetch_rep);

MESSAGE_EMPTY(status_req);

static const struct field status_rep_fields[] = {
	TEXT(msg_status_rep, daemon, 1),
	U32(msg_status_rep, pid, 2),
	U64(msg_status_rep, uptime_nsec, 3),
	U32(msg_status_rep, protocol_version, 4),
	U32(msg_status_rep, n_nics, 5),
	U32(msg_status_rep, n_sessions, 6),
	U32(msg_status_rep, n_qps, 7),
	U32(msg_status_rep, n_cqs, 8),
	U32(msg_status_rep, n_mrs, 9),
	U64(msg_status_rep, registered_bytes, 10),
	U32(msg_status_rep, n_fds, 11),
	U64(msg_status_rep, sessions_total, 12),
	U64(msg_status_rep, refused_total, 13),
	MSG(msg_status_rep, counters, 14, counters),
	U32(msg_status_rep, n_published, 15),
	BOOL(msg_status_rep, draining, 16),
	U64(msg_status_rep, drain_left_nsec, 17),
	U32(msg_status_rep, n_monitors, 18),
	U32(msg_status_rep, n_dcis, 19),
	U32(msg_status_rep, n_dcts, 20),
	BOOL(msg_status_rep, keeps_sessions, 21),
	U64(msg_status_rep, restart_grace_nsec, 22),
	U64(msg_status_rep, n_resumed, 23),
	U32(msg_status_rep, n_hidden_sessions, 29),
	TEXT(msg_status_rep, settings_warning, 30),
};
MESSAGE(status_rep, msg_status_rep, status_rep);

static const struct field list_req_fields[] = {
	ENUM(msg_list_req, what, 1, MSG_LIST_SESSIONS, MSG_LIST_NICS),
	U64(msg_list_req, cursor, 2),
};
MESSAGE(list_req, msg_list_req, list_req);

static const struct field session_item_fields[] = {
	U64(msg_session_item, session, 1),
	U32(msg_session_item, uid, 2),
	U32(msg_session_item, gid, 3),
	U32(msg_session_item, pid, 4),
	TEXT(msg_session_item, command, 5),
	TEXT(msg_session_item, cgroup, 6),
	TEXT(msg_session_item, library, 7),
	TEXT(msg_session_item, nics, 8),
	TEXT(msg_session_item, doorbell, 9),
	U32(msg_session_item, n_qps, 10),
	U32(msg_session_item, n_cqs, 11),
	U32(msg_session_item, n_mrs, 12),
	U64(msg_session_item, registered_bytes, 13),
	U32(msg_session_item, n_fds, 14),
	U64(msg_session_item, age_nsec, 15),
	MSG(msg_session_item, counters, 16, counters),
	U32(msg_session_item, n_dcis, 17),
	U32(msg_session_item, n_dcts, 18),
	TEXT(msg_session_item, doorbell_reason, 19),
	U32(msg_session_item, n_dc_peers, 20),
	U32(msg_session_item, n_rc_peers, 21),
	BOOL(msg_session_item, kept, 22),
	TEXT(msg_session_item, unkept_reason, 23),
	TEXT(msg_session_item, gpu_nics, 24),
};
MESSAGE(session_item, msg_session_item, session_item);

static const struct field qp_item_fields[] = {
	U64(msg_qp_item, session, 1),
	TEXT(msg_qp_item, nic, 2),
	U32(msg_qp_item, qpn, 3),
	U32(msg_qp_item, type, 4),
	U32(msg_qp_item, state, 5),
	U32(msg_qp_item, dest_qpn, 6),
	U32(msg_qp_item, sq_pi, 7),
	U32(msg_qp_item, sq_ci, 8),
	U32(msg_qp_item, log2_sq_wqebbs, 9),
	U32(msg_qp_item, first_error, 10),
	U64(msg_qp_item, wqes, 11),
	U64(msg_qp_item, bytes, 12),
};
MESSAGE(qp_item, msg_qp_item, qp_item);

static const struct field mr_item_fields[] = {
	U64(msg_mr_item, session, 1),
	TEXT(msg_mr_item, nic, 2),
	U32(msg_mr_item, mr, 3),
	U32(msg_mr_item, kind, 4),
	U64(msg_mr_item, iova, 5),
	U64(msg_mr_item, length_bytes, 6),
	U32(msg_mr_item, access, 7),
	TEXT(msg_mr_item, reason, 8),
};
MESSAGE(mr_item, msg_mr_item, mr_item);

static const struct field gid_fields[] = {
	BYTES_FIXED(msg_gid, gid, 1),
	U32(msg_gid, index, 2),
	U32(msg_gid, type, 3),
};
MESSAGE(gid, msg_gid, gid);

static const struct field undriven_nic_fields[] = {
	TEXT(msg_undriven_nic, name, 1),
	TEXT(msg_undriven_nic, driver, 2),
	TEXT(msg_undriven_nic, pci, 3),
	TEXT(msg_undriven_nic, netdev, 4),
	U32(msg_undriven_nic, port, 5),
	U32(msg_undriven_nic, link, 6),
	U32(msg_undriven_nic, state, 7),
	U32(msg_undriven_nic, phys_state, 8),
	U32(msg_undriven_nic, lid, 9),
	U32(msg_undriven_nic, mtu_bytes, 10),
	U64(msg_undriven_nic, rate_mbps, 11),
	MSG_ARRAY(msg_undriven_nic, gids, n_gids, 12, gid),
	TEXT(msg_undriven_nic, reason, 13),
};
MESSAGE(undriven_nic, msg_undriven_nic, undriven_nic);

static const struct field list_rep_fields[] = {
	U64(msg_list_rep, next_cursor, 1),
	MSG_HEAP(msg_list_rep, sessions, n_sessions, 2, session_item, MSG_MAX_SESSION_ITEMS),
	MSG_HEAP(msg_list_rep, qps, n_qps, 3, qp_item, MSG_MAX_QP_ITEMS),
	MSG_HEAP(msg_list_rep, mrs, n_mrs, 4, mr_item, MSG_MAX_MR_ITEMS),
	MSG_HEAP(msg_list_rep, nics, n_nics, 5, nic, MSG_MAX_NICS),
	MSG_HEAP(msg_list_rep, undriven, n_undriven, 6, undriven_nic, MSG_MAX_UNDRIVEN),
};
MESSAGE(list_rep, msg_list_rep, list_rep);

MESSAGE_EMPTY(monitor_req);

static const struct field queue_dump_req_fields[] = {
	TEXT(msg_queue_dump_req, nic, 1),
	U32(msg_queue_dump_req, qpn, 2),
	ENUM(msg_queue_dump_req, part, 3, MSG_PART_NONE, MSG_PART_RECV_CQ),
	U32(msg_queue_dump_req, first, 4),
	U32(msg_queue_dump_req, n, 5),
};
MESSAGE(queue_dump_req, msg_queue_dump_req, queue_dump_req);

static const struct field queue_dump_rep_fields[] = {
	MSG(msg_queue_dump_rep, qp, 1, qp_item),
	U32(msg_queue_dump_rep, rq_pi, 2),
	U32(msg_queue_dump_rep, rq_ci, 3),
	U32(msg_queue_dump_rep, log2_rq_stride, 4),
	U32(msg_queue_dump_rep, n_rq_wqes, 5),
	U32(msg_queue_dump_rep, send_cqn, 6),
	U32(msg_queue_dump_rep, recv_cqn, 7),
	U32(msg_queue_dump_rep, send_cq_log2_entries, 8),
	U32(msg_queue_dump_rep, recv_cq_log2_entries, 9),
	U32(msg_queue_dump_rep, send_cq_flags, 10),
	U32(msg_queue_dump_rep, recv_cq_flags, 11),
	U32(msg_queue_dump_rep, dbrec_sq, 12),
	U32(msg_queue_dump_rep, dbrec_rq, 13),
	U32(msg_queue_dump_rep, dbrec_send_cq, 14),
	U32(msg_queue_dump_rep, dbrec_recv_cq, 15),
	U32(msg_queue_dump_rep, entry_bytes, 16),
	U32(msg_queue_dump_rep, first, 17),
	BYTES_HEAP_SECRET(msg_queue_dump_rep, data, data_bytes, 18, MSG_DUMP_BYTES),
};
MESSAGE(queue_dump_rep, msg_queue_dump_rep, queue_dump_rep);

static const struct field session_kill_req_fields[] = {
	U64(msg_session_kill_req, session, 1),
};
MESSAGE(session_kill_req, msg_session_kill_req, session_kill_req);

static const struct field drain_req_fields[] = {
	BOOL(msg_drain_req, on, 1),
	U64(msg_drain_req, grace_nsec, 2),
};
MESSAGE(drain_req, msg_drain_req, drain_req);

static const struct field port_set_req_fields[] = {
	TEXT(msg_port_set_req, nic, 1),
	U32(msg_port_set_req, state, 2),
};
MESSAGE(port_set_req, msg_port_set_req, port_set_req);

const struct message_kind codec_kinds[MSG_KIND_MAX + 1] = {
	[MSG_OK_REP] = {"ok-rep", &ok_rep_message},
	[MSG_ERROR_REP] = {"error-rep", &error_rep_message},
	[MSG_HELLO_REQ] = {"hello-req", &hello_req_message},
	[MSG_HELLO_REP] = {"hello-rep", &hello_rep_message},
	[MSG_EVENT] = {"event", &event_message},
	[MSG_RESUMED_EVENT] = {"resumed-event", &resumed_event_message},
	[MSG_NIC_LIST_REQ] = {"nic-list-req", &nic_list_req_message},
	[MSG_NIC_LIST_REP] = {"nic-list-rep", &nic_list_rep_message},
	[MSG_NIC_OPEN_REQ] = {"nic-open-req", &nic_open_req_message},
	[MSG_NIC_OPEN_REP] = {"nic-open-rep", &nic_open_rep_message},
	[MSG_NIC_DOORBELL_REQ] = {"nic-doorbell-req", &nic_doorbell_req_message},
	[MSG_MEM_REG_REQ] = {"mem-reg-req", &mem_reg_req_message},
	[MSG_MEM_REG_REP] = {"mem-reg-rep", &mem_reg_rep_message},
	[MSG_MEM_DEREG_REQ] = {"mem-dereg-req", &mem_dereg_req_message},
	[MSG_QUEUE_LAYOUT_REQ] = {"queue-layout-req", &queue_layout_req_message},
	[MSG_QUEUE_LAYOUT_REP] = {"queue-layout-rep", &queue_layout_rep_message},
	[MSG_QUEUE_CREATE_REQ] = {"queue-create-req", &queue_create_req_message},
	[MSG_QUEUE_CREATE_REP] = {"queue-create-rep", &queue_create_rep_message},
	[MSG_QUEUE_DESTROY_REQ] = {"queue-destroy-req", &queue_destroy_req_message},
	[MSG_CONNECT_REQ] = {"connect-req", &connect_req_message},
	[MSG_CONNECT_REP] = {"connect-rep", &connect_rep_message},
	[MSG_QP_MODIFY_REQ] = {"qp-modify-req", &qp_modify_req_message},
	[MSG_QP_QUERY_REQ] = {"qp-query-req", &qp_query_req_message},
	[MSG_QP_QUERY_REP] = {"qp-query-rep", &qp_query_rep_message},
	[MSG_COUNTERS_REQ] = {"counters-req", &counters_req_message},
	[MSG_COUNTERS_REP] = {"counters-rep", &counters_rep_message},
	[MSG_PEER_RESOLVE_REQ] = {"peer-resolve-req", &peer_resolve_req_message},
	[MSG_PEER_RESOLVE_REP] = {"peer-resolve-rep", &peer_resolve_rep_message},
	[MSG_PUBLISH_REQ] = {"publish-req", &publish_req_message},
	[MSG_UNPUBLISH_REQ] = {"unpublish-req", &unpublish_req_message},
	[MSG_FETCH_REQ] = {"fetch-req", &fetch_req_message},
	[MSG_FETCH_REP] = {"fetch-rep", &fetch_rep_message},
	[MSG_STATUS_REQ] = {"status-req", &status_req_message},
	[MSG_STATUS_REP] = {"status-rep", &status_rep_message},
	[MSG_LIST_REQ] = {"list-req", &list_req_message},
	[MSG_LIST_REP] = {"list-rep", &list_rep_message},
	[MSG_MONITOR_REQ] = {"monitor-req", &monitor_req_message},
	[MSG_QUEUE_DUMP_REQ] = {"queue-dump-req", &queue_dump_req_message},
	[MSG_QUEUE_DUMP_REP] = {"queue-dump-rep", &queue_dump_rep_message},
	[MSG_SESSION_KILL_REQ] = {"session-kill-req", &session_kill_req_message},
	[MSG_DRAIN_REQ] = {"drain-req", &drain_req_message},
	[MSG_PORT_SET_REQ] = {"port-set-req", &port_set_req_message},
};

_Static_assert((int)MSG_OK_REP == SHMEMD__ENVELOPE__BODY_OK_REP, "frozen");
_Static_assert((int)MSG_ERROR_REP == SHMEMD__ENVELOPE__BODY_ERROR_REP, "frozen");
_Static_assert((int)MSG_HELLO_REQ == SHMEMD__ENVELOPE__BODY_HELLO_REQ, "frozen");
_Static_assert((int)MSG_HELLO_REP == SHMEMD__ENVELOPE__BODY_HELLO_REP, "frozen");
_Static_assert((int)MSG_EVENT == SHMEMD__ENVELOPE__BODY_EVENT, "frozen");
_Static_assert((int)MSG_RESUMED_EVENT == SHMEMD__ENVELOPE__BODY_RESUMED_EVENT, "frozen");
_Static_assert((int)MSG_NIC_LIST_REQ == SHMEMD__ENVELOPE__BODY_NIC_LIST_REQ, "frozen");
_Static_assert((int)MSG_NIC_LIST_REP == SHMEMD__ENVELOPE__BODY_NIC_LIST_REP, "frozen");
_Static_assert((int)MSG_NIC_OPEN_REQ == SHMEMD__ENVELOPE__BODY_NIC_OPEN_REQ, "frozen");
_Static_assert((int)MSG_NIC_OPEN_REP == SHMEMD__ENVELOPE__BODY_NIC_OPEN_REP, "frozen");
_Static_assert((int)MSG_NIC_DOORBELL_REQ == SHMEMD__ENVELOPE__BODY_NIC_DOORBELL_REQ, "frozen");
_Static_assert((int)MSG_MEM_REG_REQ == SHMEMD__ENVELOPE__BODY_MEM_REG_REQ, "frozen");
_Static_assert((int)MSG_MEM_REG_REP == SHMEMD__ENVELOPE__BODY_MEM_REG_REP, "frozen");
_Static_assert((int)MSG_MEM_DEREG_REQ == SHMEMD__ENVELOPE__BODY_MEM_DEREG_REQ, "frozen");
_Static_assert((int)MSG_QUEUE_LAYOUT_REQ == SHMEMD__ENVELOPE__BODY_QUEUE_LAYOUT_REQ, "frozen");
_Static_assert((int)MSG_QUEUE_LAYOUT_REP == SHMEMD__ENVELOPE__BODY_QUEUE_LAYOUT_REP, "frozen");
_Static_assert((int)MSG_QUEUE_CREATE_REQ == SHMEMD__ENVELOPE__BODY_QUEUE_CREATE_REQ, "frozen");
_Static_assert((int)MSG_QUEUE_CREATE_REP == SHMEMD__ENVELOPE__BODY_QUEUE_CREATE_REP, "frozen");
_Static_assert((int)MSG_QUEUE_DESTROY_REQ == SHMEMD__ENVELOPE__BODY_QUEUE_DESTROY_REQ, "frozen");
_Static_assert((int)MSG_CONNECT_REQ == SHMEMD__ENVELOPE__BODY_CONNECT_REQ, "frozen");
_Static_assert((int)MSG_CONNECT_REP == SHMEMD__ENVELOPE__BODY_CONNECT_REP, "frozen");
_Static_assert((int)MSG_QP_MODIFY_REQ == SHMEMD__ENVELOPE__BODY_QP_MODIFY_REQ, "frozen");
_Static_assert((int)MSG_QP_QUERY_REQ == SHMEMD__ENVELOPE__BODY_QP_QUERY_REQ, "frozen");
_Static_assert((int)MSG_QP_QUERY_REP == SHMEMD__ENVELOPE__BODY_QP_QUERY_REP, "frozen");
_Static_assert((int)MSG_COUNTERS_REQ == SHMEMD__ENVELOPE__BODY_COUNTERS_REQ, "frozen");
_Static_assert((int)MSG_COUNTERS_REP == SHMEMD__ENVELOPE__BODY_COUNTERS_REP, "frozen");
_Static_assert((int)MSG_PEER_RESOLVE_REQ == SHMEMD__ENVELOPE__BODY_PEER_RESOLVE_REQ, "frozen");
_Static_assert((int)MSG_PEER_RESOLVE_REP == SHMEMD__ENVELOPE__BODY_PEER_RESOLVE_REP, "frozen");
_Static_assert((int)MSG_PUBLISH_REQ == SHMEMD__ENVELOPE__BODY_PUBLISH_REQ, "frozen");
_Static_assert((int)MSG_UNPUBLISH_REQ == SHMEMD__ENVELOPE__BODY_UNPUBLISH_REQ, "frozen");
_Static_assert((int)MSG_FETCH_REQ == SHMEMD__ENVELOPE__BODY_FETCH_REQ, "frozen");
_Static_assert((int)MSG_FETCH_REP == SHMEMD__ENVELOPE__BODY_FETCH_REP, "frozen");
_Static_assert((int)MSG_STATUS_REQ == SHMEMD__ENVELOPE__BODY_STATUS_REQ, "frozen");
_Static_assert((int)MSG_STATUS_REP == SHMEMD__ENVELOPE__BODY_STATUS_REP, "frozen");
_Static_assert((int)MSG_LIST_REQ == SHMEMD__ENVELOPE__BODY_LIST_REQ, "frozen");
_Static_assert((int)MSG_LIST_REP == SHMEMD__ENVELOPE__BODY_LIST_REP, "frozen");
_Static_assert((int)MSG_MONITOR_REQ == SHMEMD__ENVELOPE__BODY_MONITOR_REQ, "frozen");
_Static_assert((int)MSG_QUEUE_DUMP_REQ == SHMEMD__ENVELOPE__BODY_QUEUE_DUMP_REQ, "frozen");
_Static_assert((int)MSG_QUEUE_DUMP_REP == SHMEMD__ENVELOPE__BODY_QUEUE_DUMP_REP, "frozen");
_Static_assert((int)MSG_SESSION_KILL_REQ == SHMEMD__ENVELOPE__BODY_SESSION_KILL_REQ, "frozen");
_Static_assert((int)MSG_DRAIN_REQ == SHMEMD__ENVELOPE__BODY_DRAIN_REQ, "frozen");
_Static_assert((int)MSG_PORT_SET_REQ == SHMEMD__ENVELOPE__BODY_PORT_SET_REQ, "frozen");
_Static_assert((int)MSG_ROLE_CLIENT == SHMEMD__ROLE__ROLE_CLIENT, "frozen");
_Static_assert((int)MSG_ROLE_CONTROL == SHMEMD__ROLE__ROLE_CONTROL, "frozen");
_Static_assert((int)MSG_EVENT_QP_ERROR == SHMEMD__EVENT_KIND__EVENT_QP_ERROR, "frozen");
_Static_assert((int)MSG_EVENT_CQ_ERROR == SHMEMD__EVENT_KIND__EVENT_CQ_ERROR, "frozen");
_Static_assert((int)MSG_EVENT_PORT_STATE == SHMEMD__EVENT_KIND__EVENT_PORT_STATE, "frozen");
_Static_assert((int)MSG_EVENT_NIC_LOST == SHMEMD__EVENT_KIND__EVENT_NIC_LOST, "frozen");
_Static_assert((int)MSG_EVENT_SESSION_END == SHMEMD__EVENT_KIND__EVENT_SESSION_END, "frozen");
_Static_assert((int)MSG_EVENT_SESSION_OPENED == SHMEMD__EVENT_KIND__EVENT_SESSION_OPENED, "frozen");
_Static_assert((int)MSG_EVENT_SESSION_CLOSED == SHMEMD__EVENT_KIND__EVENT_SESSION_CLOSED, "frozen");
_Static_assert((int)MSG_EVENT_QUEUES_CREATED == SHMEMD__EVENT_KIND__EVENT_QUEUES_CREATED, "frozen");
_Static_assert((int)MSG_EVENT_QUEUES_DESTROYED == SHMEMD__EVENT_KIND__EVENT_QUEUES_DESTROYED, "frozen");
_Static_assert((int)MSG_EVENT_DRAIN == SHMEMD__EVENT_KIND__EVENT_DRAIN, "frozen");
_Static_assert((int)MSG_EVENT_DROPPED == SHMEMD__EVENT_KIND__EVENT_DROPPED, "frozen");
_Static_assert((int)MSG_EVENT_REFUSED == SHMEMD__EVENT_KIND__EVENT_REFUSED, "frozen");
_Static_assert((int)MSG_MEM_UNSET == SHMEMD__MEM_KIND__MEM_UNSET, "frozen");
_Static_assert((int)MSG_MEM_MEMFD == SHMEMD__MEM_KIND__MEM_MEMFD, "frozen");
_Static_assert((int)MSG_MEM_DMABUF == SHMEMD__MEM_KIND__MEM_DMABUF, "frozen");
_Static_assert((int)MSG_MEM_AGENT == SHMEMD__MEM_KIND__MEM_AGENT, "frozen");
_Static_assert((int)MSG_MEM_PEERMEM == SHMEMD__MEM_KIND__MEM_PEERMEM, "frozen");
_Static_assert((int)MSG_LIST_SESSIONS == SHMEMD__LIST_WHAT__LIST_SESSIONS, "frozen");
_Static_assert((int)MSG_LIST_QPS == SHMEMD__LIST_WHAT__LIST_QPS, "frozen");
_Static_assert((int)MSG_LIST_MRS == SHMEMD__LIST_WHAT__LIST_MRS, "frozen");
_Static_assert((int)MSG_LIST_NICS == SHMEMD__LIST_WHAT__LIST_NICS, "frozen");
_Static_assert((int)MSG_PART_NONE == SHMEMD__QUEUE_PART__PART_NONE, "frozen");
_Static_assert((int)MSG_PART_SQ == SHMEMD__QUEUE_PART__PART_SQ, "frozen");
_Static_assert((int)MSG_PART_RQ == SHMEMD__QUEUE_PART__PART_RQ, "frozen");
_Static_assert((int)MSG_PART_SEND_CQ == SHMEMD__QUEUE_PART__PART_SEND_CQ, "frozen");
_Static_assert((int)MSG_PART_RECV_CQ == SHMEMD__QUEUE_PART__PART_RECV_CQ, "frozen");
/* clang-format on */

const struct message_kind *codec_kind(unsigned int kind)
{
	if (kind > MSG_KIND_MAX || !codec_kinds[kind].name)
		return NULL;
	return &codec_kinds[kind];
}

static Shmemd__Envelope to_generated(const struct codec_envelope *envelope)
{
	Shmemd__Envelope generated = SHMEMD__ENVELOPE__INIT;

	generated.id = envelope->id;
	generated.n_fds = envelope->n_fds;
	generated.body_case = (Shmemd__Envelope__BodyCase)envelope->kind;
	generated.ok_rep =
		(Shmemd__OkRep *)envelope->body; /* all bodies are one union of pointers */
	return generated;
}

size_t codec_envelope_packed_bytes(const struct codec_envelope *envelope)
{
	Shmemd__Envelope generated = to_generated(envelope);

	return shmemd__envelope__get_packed_size(&generated);
}

size_t codec_envelope_pack(const struct codec_envelope *envelope, uint8_t *buf)
{
	Shmemd__Envelope generated = to_generated(envelope);

	return shmemd__envelope__pack(&generated, buf);
}

int codec_envelope_unpack(const void *buf, size_t bytes, ProtobufCAllocator *allocator,
			  struct codec_envelope *ret_envelope)
{
	Shmemd__Envelope *generated = shmemd__envelope__unpack(allocator, bytes, buf);

	if (!generated)
		return -EBADMSG;
	*ret_envelope = (struct codec_envelope){
		.id = generated->id,
		.n_fds = generated->n_fds,
		.kind = generated->body_case,
		.body = generated->ok_rep ? &generated->ok_rep->base : NULL,
	};
	return 0;
}
