/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages as plain structs, and the only code that touches generated types.
 *
 * Strings are fixed arrays, always terminated; encoding refuses nothing that fits, decoding refuses what does
 * not (-EMSGSIZE). On the wire they are UTF-8 without control characters: encoding puts '?' for what may not
 * stand, decoding refuses it. Arrays are owned by the message and released by msg_deinit. Decoding checks form
 * (known kind, sizes of byte fields, counts, enum ranges of the .proto, without 0 where an enum here has none)
 * and leaves meaning to the handlers.
 */
#ifndef SHMEMD_PROTO_CODEC_H
#define SHMEMD_PROTO_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers are the field numbers of Envelope.body. */
enum msg_kind {
	MSG_OK_REP = 8,
	MSG_ERROR_REP = 9,
	MSG_HELLO_REQ = 10,
	MSG_HELLO_REP = 11,
	MSG_EVENT = 12,
	MSG_RESUMED_EVENT = 13,
	MSG_NIC_LIST_REQ = 14,
	MSG_NIC_LIST_REP = 15,
	MSG_NIC_OPEN_REQ = 16,
	MSG_NIC_OPEN_REP = 17,
	MSG_NIC_DOORBELL_REQ = 18,
	MSG_MEM_REG_REQ = 20,
	MSG_MEM_REG_REP = 21,
	MSG_MEM_DEREG_REQ = 22,
	MSG_QUEUE_LAYOUT_REQ = 24,
	MSG_QUEUE_LAYOUT_REP = 25,
	MSG_QUEUE_CREATE_REQ = 26,
	MSG_QUEUE_CREATE_REP = 27,
	MSG_QUEUE_DESTROY_REQ = 28,
	MSG_CONNECT_REQ = 30,
	MSG_CONNECT_REP = 31,
	MSG_QP_MODIFY_REQ = 32,
	MSG_QP_QUERY_REQ = 34,
	MSG_QP_QUERY_REP = 35,
	MSG_COUNTERS_REQ = 36,
	MSG_COUNTERS_REP = 37,
	MSG_PEER_RESOLVE_REQ = 38,
	MSG_PEER_RESOLVE_REP = 39,
	MSG_PUBLISH_REQ = 40,
	MSG_UNPUBLISH_REQ = 41,
	MSG_FETCH_REQ = 42,
	MSG_FETCH_REP = 43,
	MSG_STATUS_REQ = 50,
	MSG_STATUS_REP = 51,
	MSG_LIST_REQ = 52,
	MSG_LIST_REP = 53,
	MSG_MONITOR_REQ = 60,
	MSG_QUEUE_DUMP_REQ = 62,
	MSG_QUEUE_DUMP_REP = 63,
	MSG_SESSION_KILL_REQ = 64,
	MSG_DRAIN_REQ = 66,
	MSG_PORT_SET_REQ = 68,
};
#define MSG_KIND_MAX 68

#define MSG_TEXT_BYTES 256
#define MSG_NAME_BYTES 64
#define MSG_MEM_REASON_BYTES 112 /* a full list of regions, each with one, fits a packet */
#define MSG_REASON_BYTES 96 /* in lists, whose replies are long */
#define MSG_CGROUP_BYTES 256
#define MSG_ADDR_BYTES 64
#define MSG_AV_BYTES 48
#define MSG_DATA_BYTES 256
#define MSG_WORLD_BYTES 16
#define MSG_WQE_KINDS 8
#define MSG_MAX_NICS 64
#define MSG_MAX_GIDS 16
#define MSG_MAX_SPECS 8
#define MSG_MAX_QPS 256   /* per request */
#define MSG_MAX_CQS 512   /* per request */
#define MSG_MAX_PEERS 512 /* per request */
#define MSG_MAX_SESSION_ITEMS 48 /* per list reply, as the next ones: read from daemons whose items were shorter ... */
#define MSG_FULL_SESSION_ITEMS 37 /* ... and so many are sent; a full reply always fits a packet */
#define MSG_MAX_QP_ITEMS 256
#define MSG_MAX_MR_ITEMS 256
#define MSG_MAX_UNDRIVEN 32
#define MSG_DUMP_BYTES 16384

enum msg_role { MSG_ROLE_CLIENT = 1, MSG_ROLE_CONTROL = 2 };
enum msg_mem_kind { MSG_MEM_UNSET = 0, MSG_MEM_MEMFD = 1, MSG_MEM_DMABUF = 2, MSG_MEM_AGENT = 3, MSG_MEM_PEERMEM = 4 };
enum msg_event_kind {
	MSG_EVENT_QP_ERROR = 1,
	MSG_EVENT_CQ_ERROR = 2,
	MSG_EVENT_PORT_STATE = 3,
	MSG_EVENT_NIC_LOST = 4,
	MSG_EVENT_SESSION_END = 5,
	MSG_EVENT_SESSION_OPENED = 6,
	MSG_EVENT_SESSION_CLOSED = 7,
	MSG_EVENT_QUEUES_CREATED = 8,
	MSG_EVENT_QUEUES_DESTROYED = 9,
	MSG_EVENT_DRAIN = 10,
	MSG_EVENT_DROPPED = 11,
	MSG_EVENT_REFUSED = 12,
};
enum msg_list_what {
	MSG_LIST_SESSIONS = 1,
	MSG_LIST_QPS = 2,
	MSG_LIST_MRS = 3,
	MSG_LIST_NICS = 4,
};
enum msg_queue_part {
	MSG_PART_NONE = 1,
	MSG_PART_SQ = 2,
	MSG_PART_RQ = 3,
	MSG_PART_SEND_CQ = 4,
	MSG_PART_RECV_CQ = 5,
};

struct msg_counters {
	uint64_t wqes;
	uint64_t wqes_by_kind[MSG_WQE_KINDS];
	uint64_t bytes_sent, bytes_read, recv_wqes, error_cqes, rnr_naks, retries;
};

struct msg_error_rep {
	uint32_t status;
	uint32_t accepted_kinds; /* bits 1 << kind */
	char text[MSG_TEXT_BYTES];
};

struct msg_hello_req {
	uint32_t version_min, version_max;
	enum msg_role role;
	bool resumes;
	char library[MSG_NAME_BYTES];
};

struct msg_limits {
	uint32_t max_packet_bytes, max_fds_per_packet, max_qps_per_request, max_peers_per_request;
	uint32_t max_nics_per_session, max_sessions, max_qps, max_cqs;
	uint64_t max_registered_bytes;
	uint32_t max_fds, max_mrs, max_published;
};

struct msg_hello_rep {
	uint32_t version;
	uint32_t n_nics;
	uint64_t session;
	struct msg_limits limits;
	uint32_t watch_fd; /* index + 1, 0: none */
	uint64_t restart_grace_nsec;
	char daemon[MSG_NAME_BYTES];
};

struct msg_event {
	enum msg_event_kind kind;
	uint32_t nic, number, detail;
	char text[MSG_TEXT_BYTES];
	uint64_t session, time_nsec;
	uint32_t uid, pid;
	char nic_name[MSG_NAME_BYTES];
};

struct msg_resumed_event {
	uint32_t watch_fd; /* index */
	uint64_t restart_grace_nsec;
	char daemon[MSG_NAME_BYTES];
};

struct msg_nic_warm {
	uint32_t n_wanted, n_ready;
	uint64_t n_made, n_handed_out, n_batches_handed_out, missed_empty, missed_shape, missed_memory, n_failed;
};
#define MSG_ATOMICS_TOLD 0x80000000u

struct msg_nic {
	char name[MSG_NAME_BYTES], backend[MSG_NAME_BYTES], pci[MSG_NAME_BYTES];
	uint32_t port, link, state, lid, mtu_bytes;
	uint8_t gid[16], mac[6];
	uint64_t rate_mbps;
	unsigned int n_mem_kinds, n_doorbell_modes;
	uint32_t mem_kinds[4], doorbell_modes[4];
	uint32_t max_log2_sq_wqebbs, max_log2_cq_entries, max_qps, n_sessions, n_qps;
	uint32_t atomics, atomics_dc; /* MSG_ATOMICS_TOLD, and bits of the README; 0: of a daemon that does not tell */
	struct msg_counters counters;
	bool has_warm; /* of NICs that can make contexts in advance */
	struct msg_nic_warm warm;
};

struct msg_nic_list_rep {
	unsigned int n_nics;
	struct msg_nic *nics;
};

struct msg_nic_open_req {
	uint32_t doorbell;
	char gpu[MSG_NAME_BYTES], nic[MSG_NAME_BYTES];
};

struct msg_nic_open_rep {
	uint32_t nic, doorbell, register_offset;
	uint64_t page_offset;
	uint32_t page_fd;     /* index */
	uint32_t nic_page_fd; /* index + 1, 0: none */
	uint32_t wake_fd;     /* index + 1, 0: none */
	uint32_t pd;          /* handle + 1, 0: none */
	struct msg_nic info;
	char reason[MSG_TEXT_BYTES], assignment[MSG_TEXT_BYTES];
};

struct msg_nic_doorbell_req {
	uint32_t nic, doorbell;
	char reason[MSG_TEXT_BYTES];
};

struct msg_mem_reg_req {
	uint32_t nic;
	enum msg_mem_kind kind;
	uint32_t fd, kernel_handle;
	uint32_t access;
	uint64_t offset, length_bytes, iova;
	char reason[MSG_MEM_REASON_BYTES];
};
struct msg_mem_reg_rep {
	uint32_t mr, lkey, rkey;
};
struct msg_handle_req { /* mem_dereg: mr; queue_destroy: queues */
	uint32_t handle;
};

struct msg_cq_spec {
	uint32_t count, log2_entries, flags;
};
struct msg_qp_spec {
	uint32_t count, type, log2_sq_wqebbs, n_rq_wqes, log2_rq_stride;
	uint32_t send_cq_first, send_cq_step, send_cqn;
	uint32_t recv_cq_first, recv_cq_step, recv_cqn;
	uint32_t flags, access;
};
struct msg_queue_specs {
	unsigned int n_cqs, n_qps;
	struct msg_cq_spec cqs[MSG_MAX_SPECS];
	struct msg_qp_spec qps[MSG_MAX_SPECS];
};
struct msg_queue_layout_rep {
	uint64_t total_bytes;
};
struct msg_queue_create_req {
	uint32_t nic;
	struct msg_queue_specs specs;
	enum msg_mem_kind mem_kind;
	uint32_t mem_fd;
	uint64_t mem_offset, mem_bytes;
};
struct msg_cq_info {
	uint32_t cqn, log2_entries, flags;
	uint64_t ring_offset, dbrec_offset;
};
struct msg_qp_info {
	uint32_t qpn, log2_sq_wqebbs, n_rq_wqes, log2_rq_stride, send_cqn, recv_cqn;
	uint64_t rq_offset, sq_offset, dbrec_offset;
	uint32_t addr_bytes;
	uint8_t addr[MSG_ADDR_BYTES];
};
struct msg_queue_create_rep {
	uint32_t queues;
	uint32_t mem_fd; /* index + 1, 0: none */
	uint64_t mem_bytes;
	unsigned int n_cqs, n_qps;
	struct msg_cq_info *cqs;
	struct msg_qp_info *qps;
};

struct msg_qp_params {
	uint32_t timeout, retry_count, rnr_retry, min_rnr_timer, max_rd_atomic, traffic_class;
};
struct msg_peer {
	uint32_t qpn;
	uint32_t addr_bytes;
	uint8_t addr[MSG_ADDR_BYTES];
};
struct msg_connect_req {
	uint32_t nic;
	bool has_params;
	struct msg_qp_params params;
	unsigned int n_peers;
	struct msg_peer *peers;
};
struct msg_connect_rep {
	uint32_t n_done, status;
	char text[MSG_TEXT_BYTES];
};
struct msg_peer_addr {
	uint32_t addr_bytes;
	uint8_t addr[MSG_ADDR_BYTES];
};
struct msg_peer_resolve_req {
	uint32_t nic, traffic_class;
	uint32_t n_dc_peers, n_rc_peers;
	unsigned int n_addrs; /* at most MSG_MAX_PEERS */
	struct msg_peer_addr *addrs;
};
struct msg_peer_entry {
	uint64_t dc_key;
	uint32_t dctn;
	uint8_t av[MSG_AV_BYTES];
};
struct msg_peer_resolve_rep {
	unsigned int n_entries; /* at most MSG_MAX_PEERS */
	struct msg_peer_entry *entries;
	uint32_t status;
	char text[MSG_TEXT_BYTES];
};
struct msg_qp_modify_req {
	uint32_t nic, qpn, state;
};
struct msg_qp_query_req {
	uint32_t nic, qpn;
};
struct msg_qp_query_rep {
	uint32_t state, dest_qpn, sq_pi, sq_ci, rq_pi, rq_ci, first_error;
	struct msg_counters counters;
};

struct msg_world_key { /* unpublish, fetch */
	uint8_t world[MSG_WORLD_BYTES];
	uint32_t pe, slot;
};
struct msg_publish_req {
	struct msg_world_key key;
	bool has_fd;
	uint32_t data_bytes;
	uint8_t data[MSG_DATA_BYTES];
};
struct msg_fetch_rep {
	bool has_fd;
	uint32_t data_bytes;
	uint8_t data[MSG_DATA_BYTES];
};

struct msg_status_rep {
	char daemon[MSG_NAME_BYTES];
	uint32_t pid, protocol_version;
	uint64_t uptime_nsec;
	uint32_t n_nics, n_sessions, n_qps, n_cqs, n_mrs, n_fds, n_published;
	uint64_t registered_bytes, sessions_total, refused_total;
	struct msg_counters counters;
	bool draining;
	uint64_t drain_left_nsec;
	uint32_t n_monitors;
	uint32_t n_dcis, n_dcts; /* of n_qps */
	bool keeps_sessions;
	uint64_t restart_grace_nsec, n_resumed;
	uint32_t n_hidden_sessions;
	char settings_warning[MSG_TEXT_BYTES];
};
struct msg_list_req {
	enum msg_list_what what;
	uint64_t cursor;
};
struct msg_session_item {
	uint64_t session;
	uint32_t uid, gid, pid;
	char command[MSG_NAME_BYTES], cgroup[MSG_CGROUP_BYTES], library[MSG_NAME_BYTES];
	char nics[MSG_TEXT_BYTES], doorbell[MSG_TEXT_BYTES], gpu_nics[MSG_TEXT_BYTES];
	uint32_t n_qps, n_cqs, n_mrs, n_fds;
	uint32_t n_dcis, n_dcts; /* of n_qps */
	char doorbell_reason[MSG_REASON_BYTES];
	uint32_t n_dc_peers, n_rc_peers; /* as it says */
	bool kept;
	char unkept_reason[MSG_REASON_BYTES];
	uint64_t registered_bytes, age_nsec;
	struct msg_counters counters;
};
struct msg_qp_item {
	uint64_t session;
	char nic[MSG_NAME_BYTES];
	uint32_t qpn, type, state, dest_qpn, sq_pi, sq_ci, log2_sq_wqebbs, first_error;
	uint64_t wqes, bytes;
};
struct msg_mr_item {
	uint64_t session;
	char nic[MSG_NAME_BYTES];
	uint32_t mr, kind, access;
	uint64_t iova, length_bytes;
	char reason[MSG_MEM_REASON_BYTES];
};
struct msg_gid {
	uint8_t gid[16];
	uint32_t index, type;
};
struct msg_undriven_nic {
	char name[MSG_NAME_BYTES], driver[MSG_NAME_BYTES], pci[MSG_NAME_BYTES], netdev[MSG_NAME_BYTES];
	uint32_t port, link, state, phys_state, lid, mtu_bytes;
	uint64_t rate_mbps;
	unsigned int n_gids;
	struct msg_gid gids[MSG_MAX_GIDS];
	char reason[MSG_TEXT_BYTES];
};
struct msg_list_rep {
	uint64_t next_cursor;
	unsigned int n_sessions, n_qps, n_mrs, n_nics, n_undriven; /* at most one is not 0 */
	struct msg_session_item *sessions;
	struct msg_qp_item *qps;
	struct msg_mr_item *mrs;
	struct msg_nic *nics;
	struct msg_undriven_nic *undriven;
};

struct msg_queue_dump_req {
	char nic[MSG_NAME_BYTES];
	uint32_t qpn;
	enum msg_queue_part part;
	uint32_t first, n;
};
struct msg_queue_dump_rep {
	struct msg_qp_item qp;
	uint32_t rq_pi, rq_ci, log2_rq_stride, n_rq_wqes;
	uint32_t send_cqn, recv_cqn, send_cq_log2_entries, recv_cq_log2_entries;
	uint32_t send_cq_flags, recv_cq_flags;
	uint32_t dbrec_sq, dbrec_rq, dbrec_send_cq, dbrec_recv_cq;
	uint32_t entry_bytes, first;
	uint32_t data_bytes; /* at most MSG_DUMP_BYTES */
	uint8_t *data;
};
struct msg_session_kill_req {
	uint64_t session;
};
struct msg_drain_req {
	bool on;
	uint64_t grace_nsec;
};
struct msg_port_set_req {
	char nic[MSG_NAME_BYTES];
	uint32_t state;
};

struct msg {
	uint64_t id;
	uint32_t n_fds;
	enum msg_kind kind;
	union {
		struct msg_error_rep error_rep;
		struct msg_hello_req hello_req;
		struct msg_hello_rep hello_rep;
		struct msg_event event;
		struct msg_resumed_event resumed_event;
		struct msg_nic_list_rep nic_list_rep;
		struct msg_nic_open_req nic_open_req;
		struct msg_nic_open_rep nic_open_rep;
		struct msg_nic_doorbell_req nic_doorbell_req;
		struct msg_mem_reg_req mem_reg_req;
		struct msg_mem_reg_rep mem_reg_rep;
		struct msg_handle_req mem_dereg_req;
		struct msg_queue_specs queue_layout_req;
		struct msg_queue_layout_rep queue_layout_rep;
		struct msg_queue_create_req queue_create_req;
		struct msg_queue_create_rep queue_create_rep;
		struct msg_handle_req queue_destroy_req;
		struct msg_connect_req connect_req;
		struct msg_connect_rep connect_rep;
		struct msg_peer_resolve_req peer_resolve_req;
		struct msg_peer_resolve_rep peer_resolve_rep;
		struct msg_qp_modify_req qp_modify_req;
		struct msg_qp_query_req qp_query_req;
		struct msg_qp_query_rep qp_query_rep;
		struct msg_counters counters_rep;
		struct msg_publish_req publish_req;
		struct msg_world_key unpublish_req;
		struct msg_world_key fetch_req;
		struct msg_fetch_rep fetch_rep;
		struct msg_status_rep status_rep;
		struct msg_list_req list_req;
		struct msg_list_rep list_rep;
		struct msg_queue_dump_req queue_dump_req;
		struct msg_queue_dump_rep queue_dump_rep;
		struct msg_session_kill_req session_kill_req;
		struct msg_drain_req drain_req;
		struct msg_port_set_req port_set_req;
	};
};

void msg_init(struct msg *msg, enum msg_kind kind, uint64_t id); /* all zero but these */
void msg_deinit(struct msg *msg); /* frees arrays; may be called twice */

/*
 * Returns the bytes written; -EMSGSIZE when buf is too small; -EINVAL for a count or size above its limit, an enum
 * out of range or an unterminated string; -ENOMEM, only for messages with arrays. A message within the limits fits
 * FRAMING_MAX_PACKET_BYTES.
 */
int msg_encode(const struct msg *msg, void *buf, size_t size);

/*
 * 0 and *ret_msg (caller calls msg_deinit); -EBADMSG malformed; -ENOSYS a body this side does not know (id and
 * n_fds of *ret_msg are valid then); -EMSGSIZE a string, bytes field or array above its limit; -ENOMEM.
 */
int msg_decode(const void *buf, size_t bytes, struct msg *ret_msg);

const char *msg_kind_name(unsigned int kind); /* "queue-create-req"; "unknown" */

/*
 * One line of text for SHMEMD_DEBUG=proto, cut to the buffer; secrets (worlds, keys, addresses, published data) are
 * not shown. Returns its length; -EINVAL for size 0.
 */
int msg_format(const struct msg *msg, char *buf, size_t size);

#endif
