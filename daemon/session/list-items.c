/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the daemon describes what it has: sessions, QPs, regions, NICs and counters, as they stand in lists and in other replies.
 *
 * Waits for no firmware. Control thread, but fill_qp_item().
 */
#include "daemon/host/host.h"
#include "daemon/session/list-items.h"

#include <stdio.h>
#include <string.h>

#include "daemon/session/node-map.h"
#include "daemon/session/unmanaged.h"
#include "proto/base/nsec.h"

/* ---- NICs and their counters ---------------------------------------------------------------------------------------- */

void fill_counters(struct msg_counters *to, const struct nic_counters *from)
{
	*to = (struct msg_counters){
		.wqes = from->wqes,
		.bytes_sent = from->bytes_sent,
		.bytes_read = from->bytes_read,
		.recv_wqes = from->recv_wqes,
		.error_cqes = from->error_cqes,
		.rnr_naks = from->rnr_naks,
		.retries = from->retries,
	};
	_Static_assert(sizeof(to->wqes_by_kind) == sizeof(from->wqes_by_kind), "the same kinds");
	memcpy(to->wqes_by_kind, from->wqes_by_kind, sizeof(to->wqes_by_kind));
}

static void fill_modes(struct msg_nic *to, const struct nic_info *info)
{
	while (to->n_mem_kinds < 4 && info->accepted_kinds[to->n_mem_kinds]) {
		to->mem_kinds[to->n_mem_kinds] = info->accepted_kinds[to->n_mem_kinds];
		to->n_mem_kinds++;
	}
	if (info->doorbell_uar_mmap)
		to->doorbell_modes[to->n_doorbell_modes++] = NIC_DOORBELL_UAR_MMAP;
	if (info->doorbell_cpu)
		to->doorbell_modes[to->n_doorbell_modes++] = NIC_DOORBELL_CPU;
}

void fill_nic(struct msg_nic *to, const struct registry_nic *rnic)
{
	const struct nic_info *info = &rnic->info;

	memset(to, 0, sizeof(*to));
	snprintf(to->name, sizeof(to->name), "%s", info->name);
	snprintf(to->backend, sizeof(to->backend), "%s", info->backend);
	snprintf(to->pci, sizeof(to->pci), "%s", info->pci);
	memcpy(to->gid, info->gid, sizeof(to->gid));
	memcpy(to->mac, info->mac, sizeof(to->mac));
	to->port = info->port;
	to->link = info->link;
	to->state = info->state;
	to->lid = info->lid;
	to->mtu_bytes = info->mtu_bytes;
	to->rate_mbps = info->rate_mbps;
	to->max_log2_sq_wqebbs = info->max_log2_sq_wqebbs;
	to->max_log2_cq_entries = info->max_log2_cq_entries;
	to->max_qps = info->max_qps;
	to->atomics = MSG_ATOMICS_TOLD | info->atomics;
	to->atomics_dc = MSG_ATOMICS_TOLD | info->atomics_dc;
	to->n_sessions = rnic->n_sessions;
	to->n_qps = rnic->n_qps;
	fill_modes(to, info);
}

void fill_nic_ctx_pool(struct msg_nic *to, struct nic *nic)
{
	struct nic_ctx_pool_info info;

	if (nic->ops->ctx_pool_query(nic, &info) < 0)
		return;
	to->has_warm = true;
	to->warm = (struct msg_nic_warm){
		.n_wanted = info.n_wanted,
		.n_ready = info.n_ready,
		.n_made = info.n_made,
		.n_handed_out = info.n_handed_out,
		.n_batches_handed_out = info.n_batches_handed_out,
		.missed_empty = info.missed_empty,
		.missed_shape = info.missed_shape,
		.missed_memory = info.missed_memory,
		.n_failed = info.n_failed,
	};
}

/* The interface that has the port's addresses, which may be a bond; else the device's own. */
static const char *shown_netdev(const struct host_nic *nic)
{
	for (unsigned int i = 0; i < nic->n_gids; i++)
		if (nic->gids[i].netdev[0])
			return nic->gids[i].netdev;
	return nic->netdev;
}

void fill_unmanaged(struct msg_undriven_nic *to, const struct registry *registry, const struct host_nic *from)
{
	char pci[HOST_PCI_BYTES];

	_Static_assert((int)HOST_FABRIC_INFINIBAND == (int)NIC_LINK_INFINIBAND && (int)HOST_STATE_ACTIVE == (int)NIC_PORT_ACTIVE, "on the wire");
	*to = (struct msg_undriven_nic){
		.port = from->port,
		.link = from->fabric,
		.state = from->state,
		.phys_state = from->phys_state,
		.lid = from->lid,
		.mtu_bytes = from->active_mtu_bytes,
		.rate_mbps = from->rate_mbps,
		.n_gids = from->n_gids < MSG_MAX_GIDS ? from->n_gids : MSG_MAX_GIDS,
	};
	snprintf(to->name, sizeof(to->name), "%.31s", from->name);
	snprintf(to->driver, sizeof(to->driver), "%s", from->driver);
	if (from->pci != HOST_NO_PCI)
		snprintf(to->pci, sizeof(to->pci), "%.15s", host_pci_text(from->pci, pci));
	snprintf(to->netdev, sizeof(to->netdev), "%.15s", shown_netdev(from));
	unmanaged_text(registry, from, to->reason, sizeof(to->reason));
	for (unsigned int i = 0; i < to->n_gids; i++) {
		memcpy(to->gids[i].gid, from->gids[i].bytes, sizeof(to->gids[i].gid));
		to->gids[i].index = from->gids[i].index;
		to->gids[i].type = from->gids[i].type;
	}
}

/* ---- sessions ------------------------------------------------------------------------------------------------------- */

static void append(char *buf, size_t size, const char *text)
{
	size_t used = strlen(buf);

	snprintf(buf + used, size - used, "%s%s", used ? "," : "", text);
}

static void append_nics(char *buf, size_t size, const struct registry *registry, uint64_t nics)
{
	for (unsigned int i = 0; i < registry->n_nics; i++)
		if (nics >> i & 1)
			append(buf, size, registry->nics[i].info.name);
}

static uint64_t nics_of_gpus(const struct session *session)
{
	uint64_t nics = 0;

	for (unsigned int i = 0; i < session->n_nics; i++)
		if (session->nics[i]->gpu[0])
			nics |= node_map_nics(session->registry->node_map, session->nics[i]->gpu);
	return nics;
}

/* How many of the session's NICs from this one on have its reason; 0: none, or one before it told of them. */
static unsigned int count_reason(const struct session *session, unsigned int nic)
{
	const char *reason = session->nics[nic]->doorbell_reason;
	unsigned int n = 0;

	for (unsigned int i = 0; i < session->n_nics; i++) {
		if (strcmp(session->nics[i]->doorbell_reason, reason))
			continue;
		if (i < nic || !*reason)
			return 0;
		n++;
	}
	return n;
}

/* NICs of one reason tell it once, and each reason has its part of what room is left: a list is no place for long texts. */
static void fill_reasons(const struct session *session, char *buf, size_t size)
{
	unsigned int n_left = 0;

	for (unsigned int i = 0; i < session->n_nics; i++)
		n_left += count_reason(session, i) > 0;
	for (unsigned int i = 0; n_left > 0; i++) {
		const char *name = session->nics[i]->rnic->info.name, *reason = session->nics[i]->doorbell_reason;
		unsigned int n = count_reason(session, i);
		size_t used = strlen(buf), room = n ? (size - used) / n_left-- : 0;

		if (n == 1)
			snprintf(buf + used, room, "%s%s: %s", used ? "; " : "", name, reason);
		else if (n > 1)
			snprintf(buf + used, room, "%s%s and %u more: %s", used ? "; " : "", name, n - 1, reason);
	}
}

/* The session's holdings: the sum of the charges of everything in it. */
static void sum_charges(const struct session *session, struct quota_amount *sum)
{
	const struct quota_amount *own[] = {&session->connection_charge.amount,
					    &session->session_charge.amount};
	const struct publish_entry *entry;
	const struct resource *head;

	memset(sum, 0, sizeof(*sum));
	for (int k = 0; k < QUOTA_N; k++) {
		sum->n[k] += own[0]->n[k] + own[1]->n[k];
		for (unsigned int i = 0; i < session->n_nics; i++)
			sum->n[k] += session->nics[i]->charge.amount.n[k] + session->nics[i]->agent_charge.amount.n[k];
		for (int kind = 0; kind < RESOURCE_N; kind++)
			list_for_each_entry(head, &session->resources.lists[kind], link)
				sum->n[k] += head->charge.amount.n[k];
		list_for_each_entry(entry, &session->published, owner_link)
			sum->n[k] += entry->charge.amount.n[k];
	}
}

static void count_session_dc(const struct session *session, struct msg_session_item *item)
{
	const struct session_queues *queues;

	list_for_each_entry(queues, &session->resources.lists[RESOURCE_QUEUES], head.link) {
		item->n_dcis += queues->n_dcis;
		item->n_dcts += queues->n_dcts;
	}
}

/* Numbers that a client says of itself. */
static uint32_t add_said(uint32_t sum, uint32_t n)
{
	return n > UINT32_MAX - sum ? UINT32_MAX : sum + n;
}

/* Its client waits for another daemon, and nothing of it ends with this one. */
static bool session_outlives(const struct session *session)
{
	/* One that has waited goes on once its porter knows, too. */
	return session->is_watched && !session->saved.reason[0] && !session->saved.held_since_nsec &&
	       !session_waits_for_manager(session);
}

static const char *why_unkept(const struct session *session)
{
	if (session->saved.reason[0])
		return session->saved.reason;
	return session->is_watched ? "the service manager is busy and has not taken its descriptors yet"
				   : "its client does not wait for another daemon";
}

void fill_session_item(struct msg_session_item *item, struct session *session)
{
	struct quota_amount sum;

	session_look_for_lost(session);
	sum_charges(session, &sum);
	*item = (struct msg_session_item){
		.session = session->id,
		.uid = session->identity.uid,
		.gid = session->identity.gid,
		.pid = session->identity.pid,
		.n_qps = (uint32_t)sum.n[QUOTA_QPS],
		.n_cqs = (uint32_t)sum.n[QUOTA_CQS],
		.n_mrs = (uint32_t)sum.n[QUOTA_MRS],
		.n_fds = (uint32_t)sum.n[QUOTA_FDS],
		.registered_bytes = sum.n[QUOTA_BYTES],
		.age_nsec = nsec_now() - session->started_nsec,
		.kept = session_outlives(session),
	};
	snprintf(item->command, sizeof(item->command), "%s", session->identity.command);
	snprintf(item->cgroup, sizeof(item->cgroup), "%s", session->identity.cgroup);
	snprintf(item->library, sizeof(item->library), "%s", session->library);
	for (unsigned int i = 0; i < session->n_nics; i++) {
		const struct session_nic *nic = session->nics[i];
		bool uar = nic->doorbell == NIC_DOORBELL_UAR_MMAP;

		append(item->nics, sizeof(item->nics), nic->rnic->info.name);
		append(item->doorbell, sizeof(item->doorbell), uar ? "uar-mmap" : "cpu");
		item->n_dc_peers = add_said(item->n_dc_peers, nic->n_dc_peers);
		item->n_rc_peers = add_said(item->n_rc_peers, nic->n_rc_peers);
	}
	append_nics(item->gpu_nics, sizeof(item->gpu_nics), session->registry, nics_of_gpus(session));
	fill_reasons(session, item->doorbell_reason, sizeof(item->doorbell_reason));
	count_session_dc(session, item);
	if (!item->kept && session_may_resume(session->registry))
		snprintf(item->unkept_reason, sizeof(item->unkept_reason), "%.*s", MSG_REASON_BYTES - 1, why_unkept(session));
}

/* ---- what sessions have --------------------------------------------------------------------------------------------- */

void fill_qp_item(struct msg_qp_item *item, uint64_t session, const struct session_queues *queues,
		  const struct nic_qp *qp, const struct nic_qp_info *info)
{
	*item = (struct msg_qp_item){
		.session = session,
		.qpn = qp->qpn,
		.type = qp->type,
		.state = info->state,
		.dest_qpn = info->dest_qpn,
		.sq_pi = info->sq_pi,
		.sq_ci = info->sq_ci,
		.log2_sq_wqebbs = qp->log2_sq_wqebbs,
		.first_error = info->first_error,
		.wqes = info->counters.wqes,
		.bytes = info->counters.bytes_sent + info->counters.bytes_read,
	};
	snprintf(item->nic, sizeof(item->nic), "%s", queues->nic->rnic->nic->name);
}

void fill_mr_item(struct msg_mr_item *item, uint64_t session, const struct session_mr *mr)
{
	*item = (struct msg_mr_item){
		.session = session,
		.mr = mr->head.handle,
		.kind = mr->kind,
		.access = mr->access,
		.iova = mr->iova,
		.length_bytes = mr->length_bytes,
	};
	snprintf(item->nic, sizeof(item->nic), "%s", mr->nic->rnic->info.name);
	snprintf(item->reason, sizeof(item->reason), "%s", mr->reason);
}

void fill_pe_item(struct msg_pe_item *item, const struct session *session, const struct session_pe *pe)
{
	*item = (struct msg_pe_item){
		.session = session->id,
		.uid = session->identity.uid,
		.pid = session->identity.pid,
		.world = pe->world,
		.pe = pe->pe,
		.n_pes = pe->n_pes,
		.node = pe->node,
		.node_pe = pe->node_pe,
		.heap_bytes = pe->heap_bytes,
		.n_mapped = pe->n_mapped,
		.n_rc = pe->n_rc,
		.n_dc = pe->n_dc,
		.has_gpu = pe->gpu.heap_bytes != 0,
		.gpu = pe->gpu,
	};
	snprintf(item->command, sizeof(item->command), "%s", session->identity.command);
	snprintf(item->reason, sizeof(item->reason), "%s", pe->reason);
	for (unsigned int i = 0; i < session->n_nics; i++) {
		append(item->nics, sizeof(item->nics), session->nics[i]->rnic->info.name);
		if (session->nics[i]->gpu[0])
			append(item->gpus, sizeof(item->gpus), session->nics[i]->gpu);
	}
}

void fill_path_item(struct msg_path_item *item, const struct session *session, const struct session_pe *pe, unsigned int run)
{
	const struct msg_pe_way *way = &pe->ways[pe->runs[run].way];

	*item = (struct msg_path_item){
		.session = session->id,
		.world = pe->world,
		.pe = pe->pe,
		.n_pes = pe->n_pes,
		.first = pe->runs[run].first,
		.last = pe->runs[run].last,
		.path = way->path,
	};
	snprintf(item->nic, sizeof(item->nic), "%s", way->nic);
	snprintf(item->reason, sizeof(item->reason), "%s", way->reason);
}
