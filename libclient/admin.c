/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What shmemctl shows: the daemon's status and its lists, page by page.
 *
 * Callbacks run between requests, without the lock, so they may use the client.
 */
#include <errno.h>
#include <string.h>

#include "libclient/client-private.h"

/* A page has 256 QPs: that is more than 64 NICs have. */
#define LIST_MAX_PAGES (1u << 17)

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
	_Static_assert(sizeof(ret_counters->wqes_by_kind) == sizeof(msg->wqes_by_kind), "the same kinds");
	memcpy(ret_counters->wqes_by_kind, msg->wqes_by_kind, sizeof(msg->wqes_by_kind));
}

int shmd_client_counters(struct shmd_client *client, struct shmd_counters *ret_counters)
{
	_cleanup_request_ struct request call;
	int r;

	request_init(&call, MSG_COUNTERS_REQ, MSG_COUNTERS_REP);
	r = client_check(client);
	if (r < 0)
		return r;
	if (!ret_counters)
		return text_fail(-EINVAL, "ret_counters is NULL");
	r = request_call(client, &call);
	if (r < 0)
		return r;
	counters_from_msg(&call.rep.counters_rep, ret_counters);
	return 0;
}

int shmd_admin_status(struct shmd_client *client, struct shmd_daemon_status *ret_status)
{
	_cleanup_request_ struct request call;
	const struct msg_status_rep *rep = &call.rep.status_rep;
	int r;

	request_init(&call, MSG_STATUS_REQ, MSG_STATUS_REP);
	r = client_check(client);
	if (r < 0)
		return r;
	if (!ret_status)
		return text_fail(-EINVAL, "ret_status is NULL");
	r = request_call(client, &call);
	if (r < 0)
		return r;
	*ret_status = (struct shmd_daemon_status){
		.pid = rep->pid,
		.uptime_nsec = rep->uptime_nsec,
		.protocol_version = rep->protocol_version,
		.n_nics = rep->n_nics,
		.n_sessions = rep->n_sessions,
		.n_qps = rep->n_qps,
		.n_cqs = rep->n_cqs,
		.n_mrs = rep->n_mrs,
		.n_fds = rep->n_fds,
		.n_published = rep->n_published,
		.registered_bytes = rep->registered_bytes,
		.sessions_total = rep->sessions_total,
		.refused_total = rep->refused_total,
		.draining = rep->draining,
		.drain_left_nsec = rep->drain_left_nsec,
		.n_monitors = rep->n_monitors,
		.n_dcis = rep->n_dcis,
		.n_dcts = rep->n_dcts,
		.keeps_sessions = rep->keeps_sessions,
		.restart_grace_nsec = rep->restart_grace_nsec,
		.n_resumed = rep->n_resumed,
		.hot_share_percent = rep->hot_share_percent,
		.hot_nsec = rep->hot_nsec,
		.n_hidden_sessions = rep->n_hidden_sessions,
	};
	text_copy(ret_status->daemon, sizeof(ret_status->daemon), rep->daemon);
	text_copy(ret_status->hot_nic, sizeof(ret_status->hot_nic), rep->hot_nic);
	text_copy(ret_status->hot_among, sizeof(ret_status->hot_among), rep->hot_among);
	text_copy(ret_status->hot_processes, sizeof(ret_status->hot_processes), rep->hot_processes);
	text_copy(ret_status->settings_warning, sizeof(ret_status->settings_warning), rep->settings_warning);
	counters_from_msg(&rep->counters, &ret_status->counters);
	return 0;
}

/* ---- lists */

/* Calls the caller's function for each item of one page; a non-zero return stops and is returned. */
typedef int page_fn(const struct msg_list_rep *page, void *fn_arg);

/* A daemon that sends the same page again, or pages without end, must not keep the caller for ever. */
static int check_progress(uint64_t cursor, uint64_t next, unsigned int n_pages)
{
	if (next == 0 || (next > cursor && n_pages < LIST_MAX_PAGES))
		return 0;
	if (next <= cursor)
		return text_fail(-EPROTO, "shmemd's list does not go on: its next page begins where this one did, or before");
	return text_fail(-EPROTO, "shmemd's list does not end: it has more than %u pages", LIST_MAX_PAGES);
}

static int list_pages(struct shmd_client *client, enum msg_list_what what, page_fn *page, void *fn_arg)
{
	uint64_t cursor = 0;
	int r = client_check(client);

	for (unsigned int n = 1; !r; n++) {
		_cleanup_request_ struct request call;

		request_init(&call, MSG_LIST_REQ, MSG_LIST_REP);
		call.req.list_req.what = what;
		call.req.list_req.cursor = cursor;
		r = request_call(client, &call);
		if (r)
			break;
		r = check_progress(cursor, call.rep.list_rep.next_cursor, n);
		if (!r)
			r = page(&call.rep.list_rep, fn_arg);
		cursor = call.rep.list_rep.next_cursor;
		if (!cursor)
			break;
	}
	return r;
}

struct sessions_call {
	int (*fn)(void *arg, const struct shmd_session_item *item);
	void *arg;
};

static void session_from_msg(const struct msg_session_item *msg, struct shmd_session_item *ret_item)
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
	counters_from_msg(&msg->counters, &ret_item->counters);
}

static int sessions_page(const struct msg_list_rep *page, void *fn_arg)
{
	const struct sessions_call *call = fn_arg;
	struct shmd_session_item item;
	int r = 0;

	for (unsigned int i = 0; i < page->n_sessions && !r; i++) {
		session_from_msg(&page->sessions[i], &item);
		r = call->fn(call->arg, &item);
	}
	return r;
}

int shmd_admin_sessions(struct shmd_client *client, int (*fn)(void *arg, const struct shmd_session_item *item),
			void *arg)
{
	struct sessions_call call = {fn, arg};

	return list_pages(client, MSG_LIST_SESSIONS, sessions_page, &call);
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
		/* bounded here. */
		/* A DCT has none. */
		.sq_wqebbs = msg->log2_sq_wqebbs && msg->log2_sq_wqebbs < 32 ? 1u << msg->log2_sq_wqebbs : 0,
		.first_error = msg->first_error,
		.wqes = msg->wqes,
		.bytes = msg->bytes,
	};
	text_copy(ret_item->nic, sizeof(ret_item->nic), msg->nic);
}

struct qps_call {
	int (*fn)(void *arg, const struct shmd_qp_item *item);
	void *arg;
};

static int qps_page(const struct msg_list_rep *page, void *fn_arg)
{
	const struct qps_call *call = fn_arg;
	struct shmd_qp_item item;
	int r = 0;

	for (unsigned int i = 0; i < page->n_qps && !r; i++) {
		qp_item_from_msg(&page->qps[i], &item);
		r = call->fn(call->arg, &item);
	}
	return r;
}

int shmd_admin_qps(struct shmd_client *client, int (*fn)(void *arg, const struct shmd_qp_item *item), void *arg)
{
	struct qps_call call = {fn, arg};

	return list_pages(client, MSG_LIST_QPS, qps_page, &call);
}

struct mrs_call {
	int (*fn)(void *arg, const struct shmd_mr_item *item);
	void *arg;
};

static int mrs_page(const struct msg_list_rep *page, void *fn_arg)
{
	const struct mrs_call *call = fn_arg;
	int r = 0;

	for (unsigned int i = 0; i < page->n_mrs && !r; i++) {
		const struct msg_mr_item *msg = &page->mrs[i];
		struct shmd_mr_item item = {
			.session = msg->session,
			.mr = msg->mr,
			.kind = msg->kind,
			.access = msg->access,
			.iova = msg->iova,
			.length_bytes = msg->length_bytes,
		};

		text_copy(item.nic, sizeof(item.nic), msg->nic);
		text_copy(item.reason, sizeof(item.reason), msg->reason);
		r = call->fn(call->arg, &item);
	}
	return r;
}

int shmd_admin_mrs(struct shmd_client *client, int (*fn)(void *arg, const struct shmd_mr_item *item), void *arg)
{
	struct mrs_call call = {fn, arg};

	return list_pages(client, MSG_LIST_MRS, mrs_page, &call);
}

struct nics_call {
	int (*fn)(void *arg, const struct shmd_nic_item *item);
	void *arg;
};

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

static int nics_page(const struct msg_list_rep *page, void *fn_arg)
{
	const struct nics_call *call = fn_arg;
	struct shmd_nic_item item;
	int r = 0;

	for (unsigned int i = 0; i < page->n_nics && !r; i++) {
		nic_info_from_msg(&page->nics[i], &item.info);
		counters_from_msg(&page->nics[i].counters, &item.counters);
		warm_from_msg(&page->nics[i].warm, &item.warm);
		r = call->fn(call->arg, &item);
	}
	return r;
}

int shmd_admin_nics(struct shmd_client *client, int (*fn)(void *arg, const struct shmd_nic_item *item), void *arg)
{
	struct nics_call call = {fn, arg};

	return list_pages(client, MSG_LIST_NICS, nics_page, &call);
}

struct undriven_call {
	int (*fn)(void *arg, const struct shmd_undriven_nic *nic);
	void *arg;
};

static void undriven_from_msg(const struct msg_undriven_nic *msg, struct shmd_undriven_nic *ret_nic)
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
	_Static_assert(sizeof(ret_nic->gids) / sizeof(ret_nic->gids[0]) == MSG_MAX_GIDS, "all of them");
	for (unsigned int i = 0; i < msg->n_gids; i++) {
		memcpy(ret_nic->gids[i].gid, msg->gids[i].gid, sizeof(ret_nic->gids[i].gid));
		ret_nic->gids[i].index = msg->gids[i].index;
		ret_nic->gids[i].type = msg->gids[i].type;
	}
}

static int undriven_page(const struct msg_list_rep *page, void *fn_arg)
{
	const struct undriven_call *call = fn_arg;
	struct shmd_undriven_nic nic;
	int r = 0;

	for (unsigned int i = 0; i < page->n_undriven && !r; i++) {
		undriven_from_msg(&page->undriven[i], &nic);
		r = call->fn(call->arg, &nic);
	}
	return r;
}

int shmd_admin_undriven(struct shmd_client *client, int (*fn)(void *arg, const struct shmd_undriven_nic *nic), void *arg)
{
	struct undriven_call call = {fn, arg};

	return list_pages(client, MSG_LIST_NICS, undriven_page, &call);
}
