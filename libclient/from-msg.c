/* SPDX-License-Identifier: Apache-2.0 */
/* See from-msg.h. */
#include "libclient/from-msg.h"

#include <errno.h>
#include <string.h>

#include <shmd/abi/cqe.h>

#include "libclient/text.h"

#define CQ_COLLAPSED 1u
#define MAX_LOG2_RQ_STRIDE 9u

_Static_assert(1u << MAX_LOG2_RQ_STRIDE == SHMD_MAX_RQ_STRIDE_BYTES, "the largest stride");
_Static_assert(sizeof(((struct shmd_counters *)0)->wqes_by_kind) == sizeof(((struct msg_counters *)0)->wqes_by_kind),
	       "the same kinds");
_Static_assert(sizeof(((struct shmd_undriven_nic *)0)->gids) / sizeof(((struct shmd_undriven_nic *)0)->gids[0]) == MSG_MAX_GIDS,
	       "the same number of GIDs");

void limits_from_msg(const struct msg_limits *msg, struct shmd_limits *ret_limits)
{
	*ret_limits = (struct shmd_limits){
		.max_qps_per_request = msg->max_qps_per_request,
		.max_peers_per_request = msg->max_peers_per_request,
		.max_nics_per_session = msg->max_nics_per_session,
		.max_sessions = msg->max_sessions,
		.max_qps = msg->max_qps,
		.max_cqs = msg->max_cqs,
		.max_mrs = msg->max_mrs,
		.max_fds = msg->max_fds,
		.max_published = msg->max_published,
		.max_registered_bytes = msg->max_registered_bytes,
	};
}

void counters_from_msg(const struct msg_counters *msg, struct shmd_counters *ret_counters)
{
	*ret_counters = (struct shmd_counters){
		.wqes = msg->wqes,
		.bytes_sent = msg->bytes_sent,
		.bytes_read = msg->bytes_read,
		.recv_wqes = msg->recv_wqes,
		.error_cqes = msg->error_cqes,
		.rnr_naks = msg->rnr_naks,
		.retries = msg->retries,
	};
	memcpy(ret_counters->wqes_by_kind, msg->wqes_by_kind, sizeof(msg->wqes_by_kind));
}

/* Daemons that do not report atomics support all of them. */
static uint32_t atomics_from_msg(uint32_t atomics)
{
	if (!(atomics & MSG_ATOMICS_TOLD))
		return SHMD_ATOMIC_8 | SHMD_ATOMIC_MASKED_4 | SHMD_ATOMIC_MASKED_8;
	return atomics & ~MSG_ATOMICS_TOLD;
}

void nic_info_from_msg(const struct msg_nic *msg, struct shmd_nic_info *ret_info)
{
	struct shmd_nic_info info = {
		.port = msg->port,
		.link = msg->link,
		.state = msg->state,
		.lid = (uint16_t)msg->lid,
		.mtu_bytes = msg->mtu_bytes,
		.rate_mbps = msg->rate_mbps,
		.max_log2_sq_wqebbs = msg->max_log2_sq_wqebbs,
		.max_log2_cq_entries = msg->max_log2_cq_entries,
		.max_qps = msg->max_qps,
		.n_sessions = msg->n_sessions,
		.n_qps = msg->n_qps,
		.atomics = atomics_from_msg(msg->atomics),
		.atomics_dc = atomics_from_msg(msg->atomics_dc),
	};

	text_copy(info.name, sizeof(info.name), msg->name);
	text_copy(info.backend, sizeof(info.backend), msg->backend);
	text_copy(info.pci, sizeof(info.pci), msg->pci);
	memcpy(info.gid, msg->gid, sizeof(info.gid));
	memcpy(info.mac, msg->mac, sizeof(info.mac));
	for (unsigned int i = 0; i < msg->n_mem_kinds && i < 4; i++)
		info.mem_kinds[i] = msg->mem_kinds[i];
	*ret_info = info;
}

static void warm_from_msg(const struct msg_nic_warm *msg, struct shmd_nic_warm *ret_warm)
{
	*ret_warm = (struct shmd_nic_warm){
		.n_wanted = msg->n_wanted,
		.n_ready = msg->n_ready,
		.n_made = msg->n_made,
		.n_handed_out = msg->n_handed_out,
		.n_batches_handed_out = msg->n_batches_handed_out,
		.missed_empty = msg->missed_empty,
		.missed_shape = msg->missed_shape,
		.missed_memory = msg->missed_memory,
		.n_failed = msg->n_failed,
	};
}

void nic_item_from_msg(const struct msg_nic *msg, struct shmd_nic_item *ret_item)
{
	nic_info_from_msg(msg, &ret_item->info);
	counters_from_msg(&msg->counters, &ret_item->counters);
	warm_from_msg(&msg->warm, &ret_item->warm);
}

void undriven_nic_from_msg(const struct msg_undriven_nic *msg, struct shmd_undriven_nic *ret_nic)
{
	*ret_nic = (struct shmd_undriven_nic){
		.port = msg->port,
		.link = msg->link,
		.state = msg->state,
		.phys_state = msg->phys_state,
		.lid = msg->lid,
		.mtu_bytes = msg->mtu_bytes,
		.rate_mbps = msg->rate_mbps,
		.n_gids = msg->n_gids,
	};
	text_copy(ret_nic->name, sizeof(ret_nic->name), msg->name);
	text_copy(ret_nic->driver, sizeof(ret_nic->driver), msg->driver);
	text_copy(ret_nic->pci, sizeof(ret_nic->pci), msg->pci);
	text_copy(ret_nic->netdev, sizeof(ret_nic->netdev), msg->netdev);
	text_copy(ret_nic->reason, sizeof(ret_nic->reason), msg->reason);
	for (unsigned int i = 0; i < msg->n_gids; i++) {
		memcpy(ret_nic->gids[i].gid, msg->gids[i].gid, sizeof(ret_nic->gids[i].gid));
		ret_nic->gids[i].index = msg->gids[i].index;
		ret_nic->gids[i].type = msg->gids[i].type;
	}
}

void session_item_from_msg(const struct msg_session_item *msg, struct shmd_session_item *ret_item)
{
	*ret_item = (struct shmd_session_item){
		.session = msg->session,
		.uid = msg->uid,
		.gid = msg->gid,
		.pid = msg->pid,
		.n_qps = msg->n_qps,
		.n_cqs = msg->n_cqs,
		.n_mrs = msg->n_mrs,
		.n_fds = msg->n_fds,
		.registered_bytes = msg->registered_bytes,
		.age_nsec = msg->age_nsec,
		.n_dcis = msg->n_dcis,
		.n_dcts = msg->n_dcts,
		.n_dc_peers = msg->n_dc_peers,
		.n_rc_peers = msg->n_rc_peers,
		.kept = msg->kept,
	};
	text_copy(ret_item->command, sizeof(ret_item->command), msg->command);
	text_copy(ret_item->cgroup, sizeof(ret_item->cgroup), msg->cgroup);
	text_copy(ret_item->library, sizeof(ret_item->library), msg->library);
	text_copy(ret_item->nics, sizeof(ret_item->nics), msg->nics);
	text_copy(ret_item->doorbell, sizeof(ret_item->doorbell), msg->doorbell);
	text_copy(ret_item->doorbell_reason, sizeof(ret_item->doorbell_reason), msg->doorbell_reason);
	text_copy(ret_item->unkept_reason, sizeof(ret_item->unkept_reason), msg->unkept_reason);
	text_copy(ret_item->gpu_nics, sizeof(ret_item->gpu_nics), msg->gpu_nics);
	counters_from_msg(&msg->counters, &ret_item->counters);
}

void qp_item_from_msg(const struct msg_qp_item *msg, struct shmd_qp_item *ret_item)
{
	*ret_item = (struct shmd_qp_item){
		.session = msg->session,
		.qpn = msg->qpn,
		.type = msg->type,
		.state = msg->state,
		.dest_qpn = msg->dest_qpn,
		.sq_pi = msg->sq_pi,
		.sq_ci = msg->sq_ci,
		/* bounded here. A DCT has no send queue. */
		.sq_wqebbs = msg->log2_sq_wqebbs && msg->log2_sq_wqebbs < 32 ? 1u << msg->log2_sq_wqebbs : 0,
		.first_error = msg->first_error,
		.wqes = msg->wqes,
		.bytes = msg->bytes,
	};
	text_copy(ret_item->nic, sizeof(ret_item->nic), msg->nic);
}

void mr_item_from_msg(const struct msg_mr_item *msg, struct shmd_mr_item *ret_item)
{
	*ret_item = (struct shmd_mr_item){
		.session = msg->session,
		.mr = msg->mr,
		.kind = msg->kind,
		.access = msg->access,
		.iova = msg->iova,
		.length_bytes = msg->length_bytes,
	};
	text_copy(ret_item->nic, sizeof(ret_item->nic), msg->nic);
	text_copy(ret_item->reason, sizeof(ret_item->reason), msg->reason);
}

static struct shmd_pe_gpu pe_gpu_from_msg(const struct msg_pe_gpu *msg)
{
	struct shmd_pe_gpu gpu = {
		.heap_bytes = msg->heap_bytes,
		.used_bytes = msg->used_bytes,
		.n_chunks = msg->n_chunks,
		.n_mapped = msg->n_mapped,
		.mem_kind = msg->mem_kind,
		.bytes_put = msg->bytes_put,
		.bytes_got = msg->bytes_got,
	};

	text_copy(gpu.gpu, sizeof(gpu.gpu), msg->gpu);
	return gpu;
}

void pe_item_from_msg(const struct msg_pe_item *msg, struct shmd_pe_item *ret_item)
{
	*ret_item = (struct shmd_pe_item){
		.session = msg->session,
		.uid = msg->uid,
		.pid = msg->pid,
		.world = msg->world,
		.pe = msg->pe,
		.n_pes = msg->n_pes,
		.node = msg->node,
		.node_pe = msg->node_pe,
		.heap_bytes = msg->heap_bytes,
		.n_mapped = msg->n_mapped,
		.n_rc = msg->n_rc,
		.n_dc = msg->n_dc,
		.gpu = pe_gpu_from_msg(&msg->gpu),
	};
	text_copy(ret_item->command, sizeof(ret_item->command), msg->command);
	text_copy(ret_item->nics, sizeof(ret_item->nics), msg->nics);
	text_copy(ret_item->gpus, sizeof(ret_item->gpus), msg->gpus);
	text_copy(ret_item->reason, sizeof(ret_item->reason), msg->reason);
}

void path_item_from_msg(const struct msg_path_item *msg, struct shmd_path_item *ret_item)
{
	*ret_item = (struct shmd_path_item){
		.session = msg->session,
		.world = msg->world,
		.pe = msg->pe,
		.n_pes = msg->n_pes,
		.first = msg->first,
		.last = msg->last,
		.path = (enum shmd_pe_path)msg->path,
	};
	text_copy(ret_item->nic, sizeof(ret_item->nic), msg->nic);
	text_copy(ret_item->reason, sizeof(ret_item->reason), msg->reason);
}

void qp_info_from_msg(uint32_t qpn, const struct msg_qp_query_rep *msg, struct shmd_qp_info *ret_info)
{
	*ret_info = (struct shmd_qp_info){
		.qpn = qpn,
		.state = (enum shmd_qp_state)msg->state,
		.dest_qpn = msg->dest_qpn,
		.sq_pi = msg->sq_pi,
		.sq_ci = msg->sq_ci,
		.rq_pi = msg->rq_pi,
		.rq_ci = msg->rq_ci,
		.first_error = msg->first_error,
	};
	counters_from_msg(&msg->counters, &ret_info->counters);
}

static uint32_t cq_entries(uint32_t cqn, uint32_t log2_entries, uint32_t flags)
{
	if (!cqn || log2_entries > 31)
		return 0;
	return flags & CQ_COLLAPSED ? 1 : 1u << log2_entries;
}

int queue_head_from_msg(const struct msg_queue_dump_rep *msg, struct shmd_queue_head *ret_head)
{
	if (msg->log2_rq_stride > MAX_LOG2_RQ_STRIDE)
		return text_fail(-EPROTO, "shmemd reports receive WQEs of 2^%u bytes", msg->log2_rq_stride);
	/* bounded: MAX_LOG2_RQ_STRIDE. */
	*ret_head = (struct shmd_queue_head){
		.rq_pi = msg->rq_pi,
		.rq_ci = msg->rq_ci,
		.n_rq_wqes = msg->n_rq_wqes,
		.rq_stride_bytes = msg->n_rq_wqes ? 1u << msg->log2_rq_stride : 0,
		.send_cqn = msg->send_cqn,
		.recv_cqn = msg->recv_cqn,
		.send_cq_entries = cq_entries(msg->send_cqn, msg->send_cq_log2_entries, msg->send_cq_flags),
		.recv_cq_entries = cq_entries(msg->recv_cqn, msg->recv_cq_log2_entries, msg->recv_cq_flags),
		.send_cq_flags = msg->send_cq_flags,
		.recv_cq_flags = msg->recv_cq_flags,
		.dbrec_sq = msg->dbrec_sq,
		.dbrec_rq = msg->dbrec_rq,
		.dbrec_send_cq = msg->dbrec_send_cq,
		.dbrec_recv_cq = msg->dbrec_recv_cq,
	};
	qp_item_from_msg(&msg->qp, &ret_head->qp);
	return 0;
}

void status_from_msg(const struct msg_status_rep *msg, struct shmd_daemon_status *ret_status)
{
	*ret_status = (struct shmd_daemon_status){
		.pid = msg->pid,
		.uptime_nsec = msg->uptime_nsec,
		.protocol_version = msg->protocol_version,
		.n_nics = msg->n_nics,
		.n_sessions = msg->n_sessions,
		.n_qps = msg->n_qps,
		.n_cqs = msg->n_cqs,
		.n_mrs = msg->n_mrs,
		.n_fds = msg->n_fds,
		.n_published = msg->n_published,
		.registered_bytes = msg->registered_bytes,
		.sessions_total = msg->sessions_total,
		.refused_total = msg->refused_total,
		.draining = msg->draining,
		.drain_left_nsec = msg->drain_left_nsec,
		.n_monitors = msg->n_monitors,
		.n_dcis = msg->n_dcis,
		.n_dcts = msg->n_dcts,
		.keeps_sessions = msg->keeps_sessions,
		.restart_grace_nsec = msg->restart_grace_nsec,
		.n_resumed = msg->n_resumed,
		.n_hidden_sessions = msg->n_hidden_sessions,
	};
	text_copy(ret_status->daemon, sizeof(ret_status->daemon), msg->daemon);
	text_copy(ret_status->settings_warning, sizeof(ret_status->settings_warning), msg->settings_warning);
	counters_from_msg(&msg->counters, &ret_status->counters);
}

static const enum shmd_event_kind event_kinds[] = {
	[MSG_EVENT_QP_ERROR] = SHMD_EVENT_QP_ERROR,
	[MSG_EVENT_CQ_ERROR] = SHMD_EVENT_CQ_ERROR,
	[MSG_EVENT_PORT_STATE] = SHMD_EVENT_PORT_STATE,
	[MSG_EVENT_NIC_LOST] = SHMD_EVENT_NIC_LOST,
	[MSG_EVENT_SESSION_END] = SHMD_EVENT_SESSION_END,
	[MSG_EVENT_SESSION_OPENED] = SHMD_EVENT_SESSION_OPENED,
	[MSG_EVENT_SESSION_CLOSED] = SHMD_EVENT_SESSION_CLOSED,
	[MSG_EVENT_QUEUES_CREATED] = SHMD_EVENT_QUEUES_CREATED,
	[MSG_EVENT_QUEUES_DESTROYED] = SHMD_EVENT_QUEUES_DESTROYED,
	[MSG_EVENT_DRAIN] = SHMD_EVENT_DRAIN,
	[MSG_EVENT_DROPPED] = SHMD_EVENT_DROPPED,
	[MSG_EVENT_REFUSED] = SHMD_EVENT_REFUSED,
};

bool event_from_msg(const struct msg_event *msg, struct shmd_admin_event *ret_event)
{
	if ((size_t)msg->kind >= sizeof(event_kinds) / sizeof(event_kinds[0]) || !event_kinds[msg->kind])
		return false;
	*ret_event = (struct shmd_admin_event){
		.kind = event_kinds[msg->kind],
		.time_nsec = msg->time_nsec,
		.session = msg->session,
		.uid = msg->uid,
		.pid = msg->pid,
		.number = msg->number,
		.detail = msg->detail,
	};
	text_copy(ret_event->nic, sizeof(ret_event->nic), msg->nic_name);
	text_copy(ret_event->text, sizeof(ret_event->text), msg->text);
	return true;
}
