/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report of this PE to shmemd, for `shmemctl list pes`.
 *
 * Nothing depends on it. So a world goes on where the daemon refuses the report, and error sentences stay as they were. With the
 * world's lock, except at its end.
 */
#include <stdio.h>

#include "libclient/runtime/settings/log.h"
#include "libclient/runtime/world/queues.h"
#include "libclient/runtime/world/report.h"
#include "libclient/runtime/world/world-heap.h"
#include "libclient/runtime/world/world.h"

#define TEXT_BYTES 512
#define REASON_BYTES (WORLD_REASON_BYTES + 32)

static void count_paths(const struct shmd_world *world, struct shmd_pe_report *report, char text[REASON_BYTES])
{
	bool is_dc = world_queues_are_dc(world);
	uint32_t n_hot = 0;

	for (int i = 0; i < world->size; i++) {
		const struct world_peer *peer = &world->peers[i];

		if (i == world->rank)
			continue;
		report->n_mapped += peer->is_mapped;
		report->n_dc += !peer->is_mapped && is_dc && !peer->is_hot;
		report->n_rc += !peer->is_mapped && (!is_dc || peer->is_hot);
		/* The first one explains most of the others. */
		if (!peer->is_mapped && !report->reason)
			report->reason = peer->reason;
		n_hot += peer->is_hot;
	}
	snprintf(text, REASON_BYTES, "%s%s%u hot by RC", report->reason ? report->reason : "", report->reason ? "; " : "", n_hot);
	if (n_hot)
		report->reason = text;
}

void world_report(struct shmd_world *world)
{
	const struct world_peer *self = &world->peers[world->rank];
	struct shmd_pe_report report = {
		.world = world->hellos[0].id,
		.pe = (uint32_t)world->rank,
		.n_pes = (uint32_t)world->size,
		.node = (uint32_t)self->node,
		.node_pe = (uint32_t)self->node_pe,
	};
	uint64_t used, most;
	char text[TEXT_BYTES], reason[REASON_BYTES];
	int r;

	snprintf(text, sizeof(text), "%s", shmd_error_text());
	world_heap_sizes(world, &report.heap_bytes, &used, &most);
	count_paths(world, &report, reason);
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
