/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status: totals, which everybody sees. NICs' counters are what is known of them: nobody waits for firmware here. Control thread.
 */
#include "daemon/session/dispatch.h"

#include <stdio.h>
#include <unistd.h>

#include "daemon/session/drain.h"
#include "daemon/session/list-items.h"
#include "daemon/session/node-map.h"
#include "proto/base/nsec.h"
#include "proto/framing.h"

static void sum_nics(struct registry *registry, struct msg_counters *to)
{
	struct nic_counters sum = {0}, one;

	for (unsigned int i = 0; i < registry->n_nics; i++) {
		if (registry_counters_for_reader(&registry->nics[i], &one) == 0)
			nic_counters_add(&sum, &one);
	}
	registry_save_told(registry);
	fill_counters(to, &sum);
}

static void count_dc(const struct registry *registry, struct msg_status_rep *rep)
{
	for (unsigned int i = 0; i < registry->n_nics; i++) {
		rep->n_dcis += registry->nics[i].n_dcis;
		rep->n_dcts += registry->nics[i].n_dcts;
	}
}

/* Without those of controllers, and of who has not said Hello. */
static uint64_t fds_of_sessions(const uint64_t total[QUOTA_N])
{
	/* bounded: a connection is a descriptor of this process. */
	uint64_t others = (total[QUOTA_CONNECTIONS] - total[QUOTA_SESSIONS]) * SESSION_CONNECTION_FDS;

	return total[QUOTA_CONNECTIONS] < total[QUOTA_SESSIONS] || others > total[QUOTA_FDS] ? 0 : total[QUOTA_FDS] - others;
}

static uint32_t count_hidden(const struct session *caller)
{
	struct registry *registry = caller->registry;
	struct session *session = registry_next_session(registry, 0);
	uint32_t n = 0;

	for (; session && !session_is_admin(caller); session = registry_session_after(registry, session))
		n += !session_may_see(caller, session->identity.uid);
	return n;
}

int handle_status(struct request *req)
{
	struct registry *registry = req->session->registry;
	const uint64_t *total = registry->quota.total.n;
	struct msg_status_rep *rep = &req->rep->status_rep;

	quota_collect(&registry->quota);
	registry_count(registry);
	req->rep->kind = MSG_STATUS_REP;
	*rep = (struct msg_status_rep){
		.pid = (uint32_t)getpid(),
		.protocol_version = SHMD_PROTOCOL_VERSION_MAX,
		.uptime_nsec = nsec_now() - registry->started_nsec,
		.n_nics = registry->n_nics,
		.n_sessions = (uint32_t)total[QUOTA_SESSIONS],
		.n_qps = (uint32_t)total[QUOTA_QPS],
		.n_cqs = (uint32_t)total[QUOTA_CQS],
		.n_mrs = (uint32_t)total[QUOTA_MRS],
		.n_fds = (uint32_t)fds_of_sessions(total),
		.n_published = (uint32_t)total[QUOTA_PUBLISHED],
		.registered_bytes = total[QUOTA_BYTES],
		.sessions_total = registry->sessions_total,
		.refused_total = registry->refused_total,
		.draining = registry->draining,
		.drain_left_nsec = drain_left_nsec(registry),
		.n_monitors = registry->n_monitors,
		.keeps_sessions = session_may_resume(registry),
		.restart_grace_nsec = registry->attr.restart_grace_nsec,
		.n_resumed = registry->resumed_total,
		.n_hidden_sessions = count_hidden(req->session),
	};
	snprintf(rep->daemon, sizeof(rep->daemon), "%s", registry->attr.daemon);
	count_dc(registry, rep);
	snprintf(rep->settings_warning, sizeof(rep->settings_warning), "%s", node_map_doubts(registry->node_map));
	sum_nics(registry, &rep->counters);
	return 0;
}
