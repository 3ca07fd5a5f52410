/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hot peers as kernels see them: the ways in the views of a batch of DCIs.
 *
 * The view of a hot peer's QP is made on the GPU that has a view of the DCIs: one GPU at most, since each view has indexes of its
 * own. Nothing here waits for kernels: the caller of shmd_hot_switch() has made sure that none runs.
 *
 * All under client->lock.
 */
#include <stdlib.h>

#include "libclient/gpu-private.h"

/* ---- ways */

/* The contents of a view: the routes of slots that have a QP, and the list of QPs in use. */
struct ways {
	uint64_t routes[SHMD_HOT_MAX_PEERS]; /* of slot i */
	uint64_t qps[SHMD_HOT_MAX_PEERS];
	uint32_t n_qps;
};

static int find_ways(const struct gpu_view *view, struct ways *ret_ways)
{
	const struct shmd_hot *hot = view->queues->hot;
	struct gpu_view *way;
	int r = 0;

	*ret_ways = (struct ways){.n_qps = 0};
	for (unsigned int i = 0; i < hot->n_slots; i++) {
		if (!hot->slots[i].is_used)
			continue;
		way = gpu_view_find(view->gpu, hot->slots[i].queues);
		if (!way)
			r = gpu_view_make(view->gpu, hot->slots[i].queues, &way);
		if (r < 0)
			return r;
		ret_ways->routes[i] = way->base + GPU_VIEW_QPS_OFFSET;
		ret_ways->qps[ret_ways->n_qps++] = way->base + GPU_VIEW_QPS_OFFSET;
	}
	return 0;
}

/* Copies the routes of slots that have a QP: those in use, or the others. */
static cuda_result copy_routes(const struct gpu_view *view, const struct ways *ways, bool used)
{
	const struct shmd_hot *hot = view->queues->hot;
	struct shmd_gpu *gpu = view->gpu;
	cuda_result result = CUDA_OK;

	for (unsigned int i = 0; i < hot->n_slots && result == CUDA_OK; i++)
		if (hot->slots[i].queues && hot->slots[i].is_used == used)
			/* bounded: a set that exists. */
			result = gpu->cuda->copy_in(gpu_view_routes(view) +
							    hot->slots[i].peer * sizeof(struct shmd_dev_route) +
							    offsetof(struct shmd_dev_route, qp_addr),
						    &ways->routes[i], sizeof(ways->routes[i]), gpu->stream);
	return result;
}

/* Entries behind the first n_qps stay, so that every entry is a QP even if the copy of n_hot_qps fails. */
static cuda_result copy_list(const struct gpu_view *view, const struct ways *ways)
{
	/* bounded: a set that exists. */
	cuda_address list = gpu_view_routes(view) + view->queues->hot->n_peers * sizeof(struct shmd_dev_route);
	struct shmd_gpu *gpu = view->gpu;
	cuda_result result = CUDA_OK;

	if (ways->n_qps)
		result = gpu->cuda->copy_in(list, ways->qps, ways->n_qps * sizeof(ways->qps[0]), gpu->stream);
	if (result == CUDA_OK)
		result = gpu->cuda->copy_in(view->base + offsetof(struct shmd_dev_state, n_hot_qps), &ways->n_qps,
					    sizeof(ways->n_qps), gpu->stream);
	return result;
}

/* A QP enters the list before its route is written, and leaves the list after the route is cleared. */
static cuda_result copy_ways(const struct gpu_view *view, const struct ways *ways)
{
	cuda_result result = copy_routes(view, ways, false);

	if (result == CUDA_OK)
		result = copy_list(view, ways);
	if (result == CUDA_OK)
		result = copy_routes(view, ways, true);
	return result;
}

int gpu_view_write_ways(struct gpu_view *view)
{
	struct ways ways;
	int r = find_ways(view, &ways);

	if (!r)
		r = gpu_enter(view->gpu);
	return r < 0 ? r : gpu_finish_copies(view->gpu, copy_ways(view, &ways), "write the ways to peers to the GPU");
}

int gpu_write_ways(struct shmd_hot *hot)
{
	struct gpu_view *view;
	int first = 0, r;

	list_for_each_entry(view, &hot->dcis->gpu_views, queues_link) {
		r = gpu_view_write_ways(view);
		if (!first)
			first = r;
	}
	return first;
}

/* ---- looking */

/* Reads from a view, and waits until the copy is done. */
static int read_view(const struct gpu_view *view, void *to, uint64_t from, size_t bytes)
{
	struct shmd_gpu *gpu = view->gpu;
	cuda_result result;
	int r = gpu_enter(gpu);

	if (r < 0)
		return r;
	result = gpu->cuda->copy_out(to, from, bytes, gpu->stream);
	return gpu_finish_copies(gpu, result, "read the dev-state from the GPU");
}

static int view_idle(const struct gpu_view *view)
{
	struct shmd_dev_qp qp;
	int r;

	for (unsigned int i = 0; i < view->queues->attr.n_qps; i++) {
		r = read_view(view, &qp, view->base + GPU_VIEW_QPS_OFFSET + (uint64_t)i * sizeof(qp), sizeof(qp));
		if (r < 0)
			return r;
		if (!qp.error_syndrome && qp.cqe_ci < qp.sq_rsvd_index)
			return text_fail(-EBUSY, "QP %u has requests of a GPU under way: shmd_dev_ways_quiet_as() comes first",
					 i);
	}
	return 0;
}

int gpu_queues_idle(struct shmd_queues *queues)
{
	struct gpu_view *view;
	int r = 0;

	list_for_each_entry(view, &queues->gpu_views, queues_link) {
		r = view_idle(view);
		if (r < 0)
			break;
	}
	return r;
}

/* ---- counts */

/* Writes the ways back unchanged: only this process changes them, and it holds the lock. */
static int clear_counts(const struct gpu_view *view, const struct shmd_dev_route *routes, size_t bytes)
{
	struct shmd_gpu *gpu = view->gpu;
	cuda_result result;
	int r = gpu_enter(gpu);

	if (r < 0)
		return r;
	result = gpu->cuda->copy_in(gpu_view_routes(view), routes, bytes, gpu->stream);
	return gpu_finish_copies(gpu, result, "clear the counts of peers on the GPU");
}

static int take_counts(const struct gpu_view *view, struct shmd_hot *hot, struct shmd_dev_route *buf)
{
	/* bounded: a set that exists. */
	size_t bytes = hot->n_peers * sizeof(*buf);
	int r = read_view(view, buf, gpu_view_routes(view), bytes);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < hot->n_peers; i++) {
		__atomic_fetch_add(&hot->routes[i].n_posts, buf[i].n_posts, __ATOMIC_RELAXED);
		buf[i].n_posts = 0;
	}
	return clear_counts(view, buf, bytes);
}

int gpu_take_counts(struct shmd_hot *hot)
{
	_cleanup_free_ struct shmd_dev_route *buf = NULL;
	struct gpu_view *view;
	int r = 0;

	if (list_empty(&hot->dcis->gpu_views))
		return 0;
	buf = calloc(hot->n_peers, sizeof(*buf));
	if (!buf)
		return text_fail(-ENOMEM, "no memory for counts of %u peers", hot->n_peers);
	list_for_each_entry(view, &hot->dcis->gpu_views, queues_link) {
		r = take_counts(view, hot, buf);
		if (r < 0)
			break;
	}
	return r;
}
