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

#include "libclient/runtime/gpu/device.h"
#include "libclient/runtime/heap/heap-alloc.h"
#include "libclient/runtime/settings/log.h"
#include "libclient/runtime/world/heaps.h"
#include "libclient/runtime/world/queues.h"
#include "libclient/runtime/world/report.h"
#include "libclient/runtime/world/world-gpu.h"
#include "libclient/runtime/world/world-heap.h"
#include "libclient/runtime/world/world.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

#define TEXT_BYTES 512
#define NEWS_NSEC NSEC_PER_SEC
#define NEWS_LIMIT_NSEC (NSEC_PER_SEC / 5)
#define NEWS_PAUSE_NSEC (60 * NSEC_PER_SEC) /* after one that failed */
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

static void fill_gpu(const struct shmd_world *world, struct shmd_pe_gpu *ret_gpu)
{
	struct world_gpu *gpu = world->gpu;
	struct heap_stats stats;

	if (!gpu)
		return;
	device_pci(gpu->device, ret_gpu->gpu, sizeof(ret_gpu->gpu));
	pthread_mutex_lock(&world->heap->lock);
	heap_stats(gpu->alloc, &stats);
	pthread_mutex_unlock(&world->heap->lock);
	ret_gpu->heap_bytes = stats.chunk_bytes;
	ret_gpu->used_bytes = stats.live_bytes;
	ret_gpu->n_chunks = gpu->chunks.n;
	for (int pe = 0; pe < world->size; pe++)
		ret_gpu->n_mapped += pe != world->rank && world_gpu_is_mapped(world, pe);
	ret_gpu->mem_kind = world->queues ? world_queues_mem_kind(world, WORLD_GPU_CHUNK(0)) : 0;
	ret_gpu->bytes_put = __atomic_load_n(&gpu->bytes_put, __ATOMIC_RELAXED);
	ret_gpu->bytes_got = __atomic_load_n(&gpu->bytes_got, __ATOMIC_RELAXED);
}

/* Within the time limit that this thread's requests have. */
static int report(struct shmd_world *world)
{
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
	fill_gpu(world, &report.gpu);
	r = shmd_pe_report(session_client(world->session), &report);
	if (r < 0)
		runtime_log(WORLD, INFO, "shmemctl does not list this PE: %s", shmd_error_text());
	(void)shmd_error_set(0, "%s", text);
	return r;
}

void world_report(struct shmd_world *world)
{
	WORLD_REQUESTS(world);

	world->is_reported = report(world) == 0;
}

/* ---- news of the GPU heap */

static bool is_time_for_news(struct world_gpu *gpu)
{
	uint64_t last = __atomic_load_n(&gpu->reported_nsec, __ATOMIC_RELAXED), now = nsec_now();

	return now >= last && now - last >= NEWS_NSEC &&
	       __atomic_compare_exchange_n(&gpu->reported_nsec, &last, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* A daemon that does not answer costs this once a minute. */
static void report_news(struct shmd_world *world)
{
	struct shmd_request_limit former = shmd_request_limit_set((struct shmd_request_limit){session_client(world->session), NEWS_LIMIT_NSEC});

	if (report(world) < 0)
		__atomic_store_n(&world->gpu->reported_nsec, nsec_now() + NEWS_PAUSE_NSEC, __ATOMIC_RELAXED);
	(void)shmd_request_limit_set(former);
}

void world_report_news(struct shmd_world *world)
{
	if (!world->gpu || !is_time_for_news(world->gpu) || pthread_mutex_trylock(&world->lock))
		return;
	if (world->is_reported)
		report_news(world);
	pthread_mutex_unlock(&world->lock);
}

void world_count_copy(struct shmd_world *world, bool is_get, uint64_t bytes)
{
	__atomic_fetch_add(is_get ? &world->gpu->bytes_got : &world->gpu->bytes_put, bytes, __ATOMIC_RELAXED);
	world_report_news(world);
}

/* ---- its end */

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
