/* SPDX-License-Identifier: Apache-2.0 */
/* Reports to the daemon which PE of which world this process is. The daemon lists it. */
#include <limits.h>
#include <string.h>

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
	if (report->gpu.n_mapped >= report->n_pes || report->gpu.used_bytes > report->gpu.heap_bytes)
		return text_fail(-EINVAL, "a GPU heap of %llu bytes has %llu in use, and %u PEs of %u map it", (unsigned long long)report->gpu.heap_bytes,
				 (unsigned long long)report->gpu.used_bytes, report->gpu.n_mapped, report->n_pes);
	return 0;
}

/* ---- runs */

static int check_runs(const struct shmd_pe_report *report)
{
	uint64_t next = 0;

	for (unsigned int i = 0; report->runs && i < report->n_runs; i++) {
		const struct shmd_pe_run *run = &report->runs[i];

		if (run->first < next || run->last < run->first || run->last >= report->n_pes)
			return text_fail(-EINVAL, "PEs %u to %u are out of order, or not in a world of %u PEs", run->first, run->last,
					 report->n_pes);
		if (run->path < SHMD_PE_PATH_MAPPED || run->path > SHMD_PE_PATH_MORE)
			return text_fail(-EINVAL, "the path to PEs %u to %u has the number %d, which none has", run->first, run->last,
					 (int)run->path);
		next = (uint64_t)run->last + 1;
	}
	return 0;
}

static struct msg_pe_way way_of(const struct shmd_pe_run *run)
{
	struct msg_pe_way way = {.path = (enum msg_pe_path)run->path};

	text_copy(way.nic, sizeof(way.nic), run->nic ? run->nic : "");
	text_copy(way.reason, sizeof(way.reason), run->reason ? run->reason : "");
	return way;
}

/* Its place in the request; at the end if it is a new one, which the caller adds. */
static unsigned int find_way(const struct msg_pe_report_req *req, const struct msg_pe_way *way)
{
	unsigned int i = 0;

	while (i < req->n_ways && (req->ways[i].path != way->path || strcmp(req->ways[i].nic, way->nic) != 0 ||
				   strcmp(req->ways[i].reason, way->reason) != 0))
		i++;
	return i;
}

static void add_run(struct msg_pe_report_req *req, uint32_t first, uint32_t last, const struct msg_pe_way *way)
{
	unsigned int at = find_way(req, way);

	if (at == req->n_ways)
		req->ways[req->n_ways++] = *way;
	req->runs[req->n_runs++] = (struct msg_pe_run){.first = first, .last = last, .way = at};
}

/* The last place among the runs, and among the ways, is for the rest. */
static bool has_room(const struct msg_pe_report_req *req, const struct msg_pe_way *way, bool is_last)
{
	unsigned int kept = is_last ? 0 : 1;

	return req->n_runs + kept < MSG_MAX_PE_RUNS && find_way(req, way) + kept < MSG_MAX_PE_WAYS;
}

static void fill_runs(struct msg_pe_report_req *req, const struct shmd_pe_run *runs, unsigned int n)
{
	static const struct msg_pe_way more = {.path = MSG_PE_PATH_MORE, .reason = "the report has room for 32 runs and 8 ways"};

	for (unsigned int i = 0; i < n; i++) {
		struct msg_pe_way way = way_of(&runs[i]);

		if (!has_room(req, &way, i == n - 1)) {
			add_run(req, runs[i].first, runs[n - 1].last, &more);
			return;
		}
		add_run(req, runs[i].first, runs[i].last, &way);
	}
}

/* ---- the calls */

static void fill_gpu(struct msg_pe_gpu *msg, const struct shmd_pe_gpu *gpu)
{
	*msg = (struct msg_pe_gpu){
		.heap_bytes = gpu->heap_bytes,
		.used_bytes = gpu->used_bytes,
		.n_chunks = gpu->n_chunks,
		.n_mapped = gpu->n_mapped,
		.mem_kind = gpu->mem_kind,
		.bytes_put = gpu->bytes_put,
		.bytes_got = gpu->bytes_got,
	};
	text_copy(msg->gpu, sizeof(msg->gpu), gpu->gpu);
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
	if (!r)
		r = check_runs(report);
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
	req->has_gpu = report->gpu.heap_bytes != 0;
	fill_gpu(&req->gpu, &report->gpu);
	if (report->runs)
		fill_runs(req, report->runs, report->n_runs);
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
