/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients report the PEs that they are, for `shmemctl list pes`.
 *
 * The daemon checks only that the numbers fit each other, so that a list makes sense; user, process, NICs and GPUs in the list are the
 * session's own. A session has a fixed number of reports, so they need no quota and finding one is cheap. Control thread.
 */
#include "daemon/session/dispatch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool session_pe_runs_fit(const struct msg_pe_run *runs, unsigned int n_runs, unsigned int n_ways, uint32_t n_pes)
{
	uint64_t next = 0;

	for (unsigned int i = 0; i < n_runs; i++) {
		if (runs[i].first < next || runs[i].last < runs[i].first || runs[i].last >= n_pes || runs[i].way >= n_ways)
			return false;
		next = (uint64_t)runs[i].last + 1;
	}
	return true;
}

#define MAX_CHUNKS 64u /* of a heap */

static bool is_right(const struct msg_pe_report_req *report)
{
	uint64_t n_peers = (uint64_t)report->n_mapped + report->n_rc + report->n_dc;

	return report->n_pes <= INT32_MAX && report->pe < report->n_pes && report->node < report->n_pes &&
	       report->node_pe < report->n_pes && n_peers < report->n_pes && report->gpu.n_mapped < report->n_pes &&
	       report->gpu.used_bytes <= report->gpu.heap_bytes && report->gpu.n_chunks <= MAX_CHUNKS &&
	       session_pe_runs_fit(report->runs, report->n_runs, report->n_ways, report->n_pes);
}

/* The one of this world and PE; else *ret_free is where a new one may stand, or NULL. */
static struct session_pe **find(struct session *session, uint64_t world, uint32_t pe, struct session_pe ***ret_free)
{
	*ret_free = NULL;
	for (unsigned int i = SESSION_MAX_PES; i > 0; i--) {
		struct session_pe **at = &session->pes[i - 1];

		if (!*at)
			*ret_free = at;
		else if ((*at)->world == world && (*at)->pe == pe)
			return at;
	}
	return NULL;
}

static void fill(struct session_pe *pe, const struct msg_pe_report_req *report)
{
	pe->world = report->world;
	pe->heap_bytes = report->heap_bytes;
	pe->pe = report->pe;
	pe->n_pes = report->n_pes;
	pe->node = report->node;
	pe->node_pe = report->node_pe;
	pe->n_mapped = report->n_mapped;
	pe->n_rc = report->n_rc;
	pe->n_dc = report->n_dc;
	memcpy(pe->reason, report->reason, sizeof(pe->reason));
	pe->n_ways = report->n_ways;
	pe->n_runs = report->n_runs;
	memcpy(pe->ways, report->ways, sizeof(pe->ways));
	memcpy(pe->runs, report->runs, sizeof(pe->runs));
	pe->gpu = report->gpu;
}

static int forget(struct request *req, struct session_pe **at)
{
	if (!at)
		return request_fail(req, SHMD_STATUS_NOT_FOUND, "this session has not reported PE %u of that world",
				    req->msg->pe_report_req.pe);
	session_unsave(req->session, SAVE_PE, *at);
	free(*at);
	*at = NULL;
	return 0;
}

int handle_pe_report(struct request *req)
{
	const struct msg_pe_report_req *report = &req->msg->pe_report_req;
	struct session *session = req->session;
	struct session_pe **at, **free_at;

	at = find(session, report->world, report->pe, &free_at);
	if (report->ends)
		return forget(req, at);
	if (!is_right(report))
		return request_fail(req, SHMD_STATUS_INVALID, "the numbers of PE %u do not fit a world of %u PEs", report->pe, report->n_pes);
	if (!at && !free_at)
		return request_fail(req, SHMD_STATUS_QUOTA_PES, "a session reports at most %d PEs", SESSION_MAX_PES);
	if (!at) {
		at = free_at;
		*at = calloc(1, sizeof(**at));
		if (!*at)
			return -ENOMEM;
		(*at)->slot = (uint32_t)(at - session->pes);
	}
	fill(*at, report);
	session_save(session, SAVE_PE, *at, -1);
	return 0;
}
