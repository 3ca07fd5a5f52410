/* SPDX-License-Identifier: Apache-2.0 */
/* Reports to the daemon which PE of which world this process is. The daemon lists it. */
#include <limits.h>

#include "libclient/request.h"

static int check(const struct shmd_pe_report *report)
{
	if (!report)
		return text_fail(-EINVAL, "report is NULL");
	if (report->n_pes > INT_MAX || report->pe >= report->n_pes || report->node >= report->n_pes || report->node_pe >= report->n_pes)
		return text_fail(-EINVAL, "PE %u, node %u and PE %u of it do not fit a world of %u PEs", report->pe, report->node,
				 report->node_pe, report->n_pes);
	if ((uint64_t)report->n_mapped + report->n_rc + report->n_dc >= report->n_pes)
		return text_fail(-EINVAL, "%u mapped PEs, %u by RC and %u by DC are more than a world of %u PEs has beside this one",
				 report->n_mapped, report->n_rc, report->n_dc, report->n_pes);
	return 0;
}

int shmd_pe_report(struct shmd_client *client, const struct shmd_pe_report *report)
{
	_cleanup_request_ struct request call;
	struct msg_pe_report_req *req = &call.req.pe_report_req;
	int r;

	request_init(&call, MSG_PE_REPORT_REQ, MSG_OK_REP);
	r = client_check(client);
	if (!r)
		r = check(report);
	if (r < 0)
		return r;
	*req = (struct msg_pe_report_req){
		.world = report->world,
		.pe = report->pe,
		.n_pes = report->n_pes,
		.node = report->node,
		.node_pe = report->node_pe,
		.heap_bytes = report->heap_bytes,
		.n_mapped = report->n_mapped,
		.n_rc = report->n_rc,
		.n_dc = report->n_dc,
	};
	text_copy(req->reason, sizeof(req->reason), report->reason ? report->reason : "");
	return request_call(client, &call);
}

int shmd_pe_retract(struct shmd_client *client, uint64_t world, uint32_t pe)
{
	_cleanup_request_ struct request call;
	int r;

	request_init(&call, MSG_PE_REPORT_REQ, MSG_OK_REP);
	r = client_check(client);
	if (r < 0)
		return r;
	call.req.pe_report_req.world = world;
	call.req.pe_report_req.pe = pe;
	call.req.pe_report_req.ends = true;
	return request_call(client, &call);
}
