/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report of this PE to shmemd, for `shmemctl list pes` and `list paths`.
 *
 * Nothing depends on it. So a world goes on where the daemon refuses the report, and error sentences stay as they were. With the
 * world's lock, except at its end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/runtime/settings/log.h"
#include "libclient/runtime/world/queues.h"
#include "libclient/runtime/world/report.h"
#include "libclient/runtime/world/world-heap.h"
#include "libclient/runtime/world/world.h"
#include "proto/base/cleanup.h"

#define TEXT_BYTES 512
#define REASON_BYTES (WORLD_REASON_BYTES + 32)

static enum shmd_pe_path path_to(const struct shmd_world *world, int pe)
{
	const struct world_peer *peer = &world->peers[pe];

	if (peer->is_mapped)
		return SHMD_PE_PATH_MAPPED;
	if (!peer->nic[0])
		return SHMD_PE_PATH_NONE;
	return world_queues_reach_by_dc(world, pe) && !peer->is_hot ? SHMD_PE_PATH_DC : SHMD_PE_PATH_RC;
}

static void count_paths(const struct shmd_world *world, struct shmd_pe_report *report, char text[REASON_BYTES])
{
	uint32_t n_hot = 0;

	for (int i = 0; i < world->size; i++) {
		const struct world_peer *peer = &world->peers[i];
		enum shmd_pe_path path = path_to(world, i);

		if (i == world->rank)
			continue;
		report->n_mapped += path == SHMD_PE_PATH_MAPPED;
		report->n_rc += path == SHMD_PE_PATH_RC;
		report->n_dc += path == SHMD_PE_PATH_DC;
		/* The first one explains most of the others. */
		if (path != SHMD_PE_PATH_MAPPED && !report->reason)
			report->reason = peer->reason;
		n_hot += peer->is_hot;
	}
	snprintf(text, REASON_BYTES, "%s%s%u hot by RC", report->reason ? report->reason : "", report->reason ? "; " : "", n_hot);
	if (n_hot)
		report->reason = text;
}

static bool is_same(const struct shmd_pe_run *a, const struct shmd_pe_run *b)
{
	return a->path == b->path && !strcmp(a->nic, b->nic) && !strcmp(a->reason, b->reason);
}

/* Runs of equal paths. This PE is no reason to begin another. */
static void find_runs(const struct shmd_world *world, struct shmd_pe_run *runs, unsigned int *ret_n)
{
	unsigned int n = 0;

	for (int i = 0; i < world->size; i++) {
		const struct world_peer *peer = &world->peers[i];
		struct shmd_pe_run run = {.first = (uint32_t)i, .last = (uint32_t)i, .nic = peer->nic, .reason = peer->reason};

		if (i == world->rank)
			continue;
		run.path = path_to(world, i);
		if (n && is_same(&runs[n - 1], &run))
			runs[n - 1].last = run.last;
		else
			runs[n++] = run;
	}
	*ret_n = n;
}

void world_log_paths(const struct shmd_world *world)
{
	static const char *const words[] = {[SHMD_PE_PATH_MAPPED] = "mapped memory", [SHMD_PE_PATH_RC] = "RC", [SHMD_PE_PATH_DC] = "DC"};
	_cleanup_free_ struct shmd_pe_run *runs = NULL;
	unsigned int n = 0;
	char to[48];

	if (!runtime_log_wants(RUNTIME_PART_PATH, RUNTIME_LOG_INFO))
		return;
	runs = calloc((size_t)world->size, sizeof(*runs));
	if (runs)
		find_runs(world, runs, &n);
	for (unsigned int i = 0; i < n; i++) {
		if (runs[i].first == runs[i].last)
			snprintf(to, sizeof(to), "PE %u", runs[i].first);
		else
			snprintf(to, sizeof(to), "PEs %u to %u", runs[i].first, runs[i].last);
		runtime_log(PATH, INFO, "to %s: %s%s%s%s%s", to, words[runs[i].path], *runs[i].nic ? " on " : "", runs[i].nic,
			    *runs[i].reason ? ", because " : "", runs[i].reason);
	}
}

void world_report(struct shmd_world *world)
{
	WORLD_REQUESTS(world);
	const struct world_peer *self = &world->peers[world->rank];
	struct shmd_pe_report report = {
		.world = world->hellos[0].id,
		.pe = (uint32_t)world->rank,
		.n_pes = (uint32_t)world->size,
		.node = (uint32_t)self->node,
		.node_pe = (uint32_t)self->node_pe,
	};
	_cleanup_free_ struct shmd_pe_run *runs = calloc((size_t)world->size, sizeof(*runs));
	uint64_t used, most;
	char text[TEXT_BYTES], reason[REASON_BYTES];
	int r;

	snprintf(text, sizeof(text), "%s", shmd_error_text());
	world_heap_sizes(world, &report.heap_bytes, &used, &most);
	count_paths(world, &report, reason);
	if (runs)
		find_runs(world, runs, &report.n_runs);
	report.runs = runs;
	r = shmd_pe_report(session_client(world->session), &report);
	if (r < 0)
		runtime_log(WORLD, INFO, "shmemctl does not list this PE: %s", shmd_error_text());
	world->is_reported = r == 0;
	(void)shmd_error_set(0, "%s", text);
}

void world_retract(struct shmd_world *world)
{
	char text[TEXT_BYTES];

	/* The end of the session does it, too, and needs no answer. */
	if (!world->is_reported || !session_is_shared(world->session))
		return;
	world->is_reported = false;
	snprintf(text, sizeof(text), "%s", shmd_error_text());
	(void)shmd_pe_retract(session_client(world->session), world->hellos[0].id, (uint32_t)world->rank);
	(void)shmd_error_set(0, "%s", text);
}
