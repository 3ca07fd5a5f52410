/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Administration with libshmemclient: list what the daemon holds, and change it, as shmemctl does. The rules at the head of
 * <shmemclient.h> hold here too.
 *
 * Programs that drive queues do not need this header. Most functions want a client of SHMD_ROLE_CONTROL, and some are for root and
 * the daemon's user alone: their comments say which.
 */
#ifndef SHMEMCLIENT_ADMIN_H
#define SHMEMCLIENT_ADMIN_H

#include <shmemclient.h>

#ifdef __cplusplus
extern "C" {
#endif

struct shmd_daemon_status {
	char daemon[64];
	uint32_t pid;
	uint64_t uptime_nsec;
	uint32_t protocol_version;
	uint32_t n_nics, n_sessions, n_qps, n_cqs, n_mrs, n_fds, n_published;
	uint64_t registered_bytes, sessions_total, refused_total;
	struct shmd_counters counters;
	bool draining;
	uint64_t drain_left_nsec; /* until sessions are ended; 0: they are being ended, or nothing is drained */
	uint32_t n_monitors;
	uint32_t n_dcis, n_dcts; /* of n_qps; the rest is RC */
	bool keeps_sessions; /* they outlive the daemon, and their clients wait for the next one */
	uint64_t restart_grace_nsec; /* for this time */
	uint64_t n_resumed; /* sessions that it took over from a former one */
	uint32_t n_hidden_sessions; /* of n_sessions, of other users: lists leave them out; 0 for administrators */
	char settings_warning[256]; /* devices that shmemd.conf names and the machine lacks, in words; or empty */
};
/* The daemon as a whole. Any role. */
SHMD_EXPORT int shmd_admin_status(struct shmd_client *client, struct shmd_daemon_status *ret_status);

struct shmd_session_item {
	uint64_t session;
	uint32_t uid, gid, pid;
	char command[64], cgroup[256], library[64];
	char nics[256]; /* names of the NICs it has open, "," between */
	char doorbell[256]; /* "uar-mmap" or "cpu" for each of them, in the same order, "," between */
	uint32_t n_qps, n_cqs, n_mrs, n_fds;
	uint64_t registered_bytes, age_nsec;
	struct shmd_counters counters;
	uint32_t n_dcis, n_dcts; /* of n_qps; the rest is RC */
	uint32_t n_dc_peers, n_rc_peers; /* of its DCIs: by them, and by an RC QP of their own; as the client reports */
	char doorbell_reason[96]; /* "NIC: why not a better mode" or "NIC and 2 more: ...", "; " between; empty: all have the best */
	bool kept; /* it outlives the daemon */
	char unkept_reason[96]; /* why not; empty if kept, or if no session is */
	char gpu_nics[256]; /* NICs that the map gives to the GPUs that the session named, "," between */
};
struct shmd_qp_item {
	uint64_t session;
	char nic[64];
	uint32_t qpn, type; /* enum shmd_qp_type */
	uint32_t state; /* enum shmd_qp_state */
	uint32_t dest_qpn; /* the other end; 0: none */
	uint32_t sq_pi, sq_ci; /* WQEBBs handed over, and completed; 16 bits */
	uint32_t sq_wqebbs; /* size of the send queue, a power of two; 0: a DCT, which has none */
	uint32_t first_error; /* enum shmd_cqe_syndrome of the first error CQE since RST; 0: none */
	uint64_t wqes, bytes; /* completed with success; sent and read */
};
struct shmd_mr_item {
	uint64_t session;
	char nic[64];
	uint32_t mr; /* handle, in that session */
	uint32_t kind; /* enum shmd_mem_kind */
	uint32_t access; /* SHMD_ACCESS_* */
	uint64_t iova, length_bytes;
	char reason[128]; /* why the client took no better kind; or empty */
};
/* A PE of a world, as its session reported it with shmd_pe_report(). */
struct shmd_pe_item {
	uint64_t session;
	uint32_t uid, pid;
	char command[64];
	char nics[256]; /* names of the NICs that the session has open, "," between; empty: none */
	char gpus[256]; /* that they were opened for, likewise */
	uint64_t world; /* tells worlds apart */
	uint32_t pe, n_pes;
	uint32_t node, node_pe; /* in the world, and on the node */
	uint64_t heap_bytes;
	uint32_t n_mapped, n_rc, n_dc; /* other PEs by path */
	char reason[96]; /* why some are not mapped; or empty */
	struct shmd_pe_gpu gpu;
};

/* PEs in a row that a PE reaches in one way, as it reported. */
struct shmd_path_item {
	uint64_t session, world;
	uint32_t pe, n_pes; /* the one that reported */
	uint32_t first, last; /* it may be among them */
	enum shmd_pe_path path;
	char nic[64]; /* by which requests go; empty: none */
	char reason[96]; /* why the path is no better one; or empty */
};
/* Contexts that the daemon makes in advance for new sessions. All but the first two count from its start. */
struct shmd_nic_warm {
	uint32_t n_wanted; /* to be kept ready; 0: none are made */
	uint32_t n_ready;
	uint64_t n_made;
	uint64_t n_handed_out; /* of those, to sessions */
	uint64_t n_batches_handed_out; /* of those, the ones whose queues were used */
	uint64_t missed_empty; /* contexts made while a session waited: none was ready */
	uint64_t missed_shape; /* queues made while a session waited: another number or depth */
	uint64_t missed_memory; /* the same: in the client's own memory */
	uint64_t n_failed; /* none could be made in advance */
};
struct shmd_nic_item {
	struct shmd_nic_info info;
	struct shmd_counters counters;
	struct shmd_nic_warm warm;
};
/*
 * shmd_admin_sessions, _qps, _mrs, _pes, _nics - list the objects that the daemon holds
 *
 * Each calls fn once for every item, in the order of creation; a non-zero return stops and is returned. An item is
 * valid during its call; fn may use the client. A list may miss objects that come or go meanwhile.
 */
SHMD_EXPORT int shmd_admin_sessions(struct shmd_client *client,
				    int (*fn)(void *arg, const struct shmd_session_item *item), void *arg);
SHMD_EXPORT int shmd_admin_qps(struct shmd_client *client,
			       int (*fn)(void *arg, const struct shmd_qp_item *item), void *arg);
SHMD_EXPORT int shmd_admin_mrs(struct shmd_client *client,
			       int (*fn)(void *arg, const struct shmd_mr_item *item), void *arg);
SHMD_EXPORT int shmd_admin_pes(struct shmd_client *client,
			       int (*fn)(void *arg, const struct shmd_pe_item *item), void *arg);
SHMD_EXPORT int shmd_admin_paths(struct shmd_client *client,
				 int (*fn)(void *arg, const struct shmd_path_item *item), void *arg);
SHMD_EXPORT int shmd_admin_nics(struct shmd_client *client,
				int (*fn)(void *arg, const struct shmd_nic_item *item), void *arg);

struct shmd_gid {
	uint8_t gid[16];
	uint32_t index; /* in the port's table */
	uint32_t type; /* 1 InfiniBand, 2 RoCE v1, 3 RoCE v2; 0 not known */
};
/* A field that the daemon does not know is 0 or empty. */
struct shmd_undriven_nic {
	char name[32];
	char driver[32]; /* in the kernel */
	char pci[16];
	char netdev[16];
	uint32_t port; /* from 1 */
	uint32_t link; /* 1 Ethernet, 2 InfiniBand */
	uint32_t state; /* 1 down, 2 active */
	uint32_t phys_state; /* 1 sleep, 2 polling, 3 disabled, 4 training, 5 link up, 6 error recovery, 7 phy test */
	uint32_t lid;
	uint32_t mtu_bytes; /* of RDMA packets */
	uint64_t rate_mbps;
	uint32_t n_gids;
	struct shmd_gid gids[16]; /* the first ones in use */
	char reason[256]; /* why no backend drives it, with advice */
};
/*
 * shmd_admin_undriven - list the NIC ports that no backend drives
 *
 * RDMA devices of the host that no session can open, by name and port; an older daemon, without this list, reports
 * none. Calls fn as the lists above do.
 */
SHMD_EXPORT int shmd_admin_undriven(struct shmd_client *client,
				    int (*fn)(void *arg, const struct shmd_undriven_nic *nic), void *arg);

struct shmd_admin_event {
	enum shmd_event_kind kind;
	uint64_t time_nsec; /* CLOCK_REALTIME of the daemon's host */
	uint64_t session; /* whose; 0: of a NIC or of the daemon */
	uint32_t uid, pid; /* of the session, or of the refused process */
	char nic[64]; /* name, or empty */
	uint32_t number; /* qpn or cqn, 0: several; QUEUES_*: the first qpn; DROPPED: how many events were lost */
	uint32_t detail; /* syndrome, port state, or status; QUEUES_*: how many QPs; DRAIN: 1 on, 0 off */
	char text[256]; /* SESSION_OPENED: "COMMAND, LIBRARY"; else a sentence */
};
/*
 * shmd_admin_monitor - report the daemon's events as they happen
 *
 * Calls fn for every event of NICs, of the daemon and of sessions: of all sessions for root and the daemon's user,
 * of the caller's own uid for others. fn may use the client. A caller that reads too slowly loses the newest events
 * and gets SHMD_EVENT_DROPPED in their place, as it does for events that a NIC with many errors at once did not keep.
 * The connection goes on listening when fn has ended the call; the next call continues.
 *
 * client	of SHMD_ROLE_CONTROL
 * fn		not NULL; a non-zero return ends the call and is returned
 * Blocks	until fn ends it or the connection breaks
 * Errors	-EPERM not SHMD_ROLE_CONTROL; -EBUSY this user has 16 monitors; the fatal error when the daemon goes
 */
SHMD_EXPORT int shmd_admin_monitor(struct shmd_client *client,
				   int (*fn)(void *arg, const struct shmd_admin_event *event), void *arg);

/*
 * shmd_admin_kill, _drain, _port_set - end a session, empty the daemon, take a port down or up
 *
 * All are for root and the daemon's user, on a client of SHMD_ROLE_CONTROL.
 *
 * kill		ends one session: its client gets -ECANCELED, other clients notice nothing. The daemon frees its memory and
 *		queues shortly after the call returns.
 * drain	on: the daemon refuses new clients; live ones get SHMD_EVENT_DRAIN and, grace_nsec later, the
 *		end with -ESHUTDOWN. Returns at once; shmd_admin_status() reports the progress. In a repeated call the new
 *		time counts. off: sessions that have not ended go on as before.
 * port_set	as the administrator of that port would do it; waits on queues of the NIC end when it goes down.
 *
 * nic		name, as in shmd_admin_nics()
 * Errors	-EPERM not allowed; -ENOENT no such session; -ENODEV no such NIC; -EOPNOTSUPP this NIC's ports
 *		cannot be set
 */
SHMD_EXPORT int shmd_admin_kill(struct shmd_client *client, uint64_t session);
SHMD_EXPORT int shmd_admin_drain(struct shmd_client *client, bool on, uint64_t grace_nsec);
SHMD_EXPORT int shmd_admin_port_set(struct shmd_client *client, const char *nic, bool up);

/* One QP and its rings. Counters with dbrec_ are as the client wrote them last, all bits, in host order. */
struct shmd_queue_head {
	struct shmd_qp_item qp;
	uint32_t rq_pi, rq_ci; /* 16 bits */
	uint32_t n_rq_wqes; /* entries of the receive ring; 0: it has none */
	uint32_t rq_stride_bytes; /* of one of them */
	uint32_t send_cqn, recv_cqn;
	uint32_t send_cq_entries, recv_cq_entries; /* of the ring: 1 for a collapsed CQ */
	uint32_t send_cq_flags, recv_cq_flags; /* 1 collapsed, 2 overrun ignored */
	uint32_t dbrec_sq, dbrec_rq; /* producer indexes */
	uint32_t dbrec_send_cq, dbrec_recv_cq; /* consumer indexes */
};
/* The protocol's numbers (QueuePart): it has no value 0, and 1 asks for the head alone. */
enum shmd_queue_part {
	SHMD_PART_SQ = 2, /* entries of 64 bytes, as many as qp.sq_wqebbs */
	SHMD_PART_RQ, /* of rq_stride_bytes */
	SHMD_PART_SEND_CQ, /* of 64 bytes */
	SHMD_PART_RECV_CQ,
};
#define SHMD_MAX_RQ_STRIDE_BYTES 512
/*
 * shmd_admin_queue_head, _queue_read - look into the queues of any session
 *
 * For root and the daemon's user, on a client of SHMD_ROLE_CONTROL: rings hold keys, addresses and inline payload.
 * The client and the NIC go on writing, so data read at different times need not fit together.
 *
 * nic, qpn	name of the NIC and number of a QP on it
 * first, n	entries; any first: taken modulo the ring's size, over whose end the range may go
 * buf		out; room for n entries of 64 bytes, for SHMD_PART_RQ of SHMD_MAX_RQ_STRIDE_BYTES, whatever the stride
 *		is; entries lie there without gaps. Its content is undefined after an error.
 * Errors	-EPERM not allowed; -ENODEV no such NIC; -ENOENT no such QP, or it has no such ring; -EOPNOTSUPP the
 *		CPU cannot reach this memory
 */
SHMD_EXPORT int shmd_admin_queue_head(struct shmd_client *client, const char *nic, uint32_t qpn,
				      struct shmd_queue_head *ret_head);
SHMD_EXPORT int shmd_admin_queue_read(struct shmd_client *client, const char *nic, uint32_t qpn,
				      enum shmd_queue_part part, uint32_t first, uint32_t n, void *buf);

#ifdef __cplusplus
}
#endif

#endif
