/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barriers, of the host and on streams.
 *
 * On a stream a kernel of the runtime syncs the team, with numbers that lie in GPU memory: a graph that is captured takes the next ones at each
 * launch. Without kernels each member writes the number of its sync to a word of every other member, by the driver's own operations on streams,
 * and waits for the words of the others. The host counts these numbers, so a graph would carry the same ones at each launch: there
 * the call fails. None of these words are those of device code, whose barriers count for themselves.
 */
#include <errno.h>

#include <shmd-stream.h>

#include "libclient/compat/nvshmem/nvs.h"

/* ---- by the host */

static int barrier(struct shmd_team *team)
{
	int r = nvs_quiet();

	return r ? r : shmd_team_barrier(team);
}

NVS_API void nvshmem_barrier_all(void);
void nvshmem_barrier_all(void)
{
	int r = nvs_ready();

	(void)nvs_result("nvshmem_barrier_all", r ? r : barrier(shmd_team_world(nvs.world)));
}

NVS_API void nvshmem_sync_all(void);
void nvshmem_sync_all(void)
{
	int r = nvs_ready();

	(void)nvs_result("nvshmem_sync_all", r ? r : shmd_sync_all(nvs.world));
}

NVS_API int nvshmem_barrier(int32_t team);
int nvshmem_barrier(int32_t team)
{
	int r = nvs_ready();
	const struct nvs_host_team *mine = r ? NULL : nvs_team_at(team);

	return nvs_result("nvshmem_barrier", mine ? barrier(mine->team) : r ? r : -EINVAL);
}

NVS_API int nvshmem_team_sync(int32_t team);
int nvshmem_team_sync(int32_t team)
{
	int r = nvs_ready();
	const struct nvs_host_team *mine = r ? NULL : nvs_team_at(team);

	return nvs_result("nvshmem_team_sync", mine ? shmd_team_sync(mine->team) : r ? r : -EINVAL);
}

/* ---- on streams */

static int check_stream(cuda_stream stream)
{
	const struct cuda_api *cuda = nvs.device->cuda;
	int is_captured = 0;

	if (nvs.ibgda)
		return shmd_error_set(-EOPNOTSUPP, "PEs of this job reach each other by queues, and a sync on a stream is a kernel there, which not all PEs could load");
	if (!cuda->stream_write8 || !cuda->stream_wait8)
		return shmd_error_set(-EOPNOTSUPP, "this CUDA driver has no memory operations of streams");
	if (cuda->stream_capture && cuda->stream_capture(stream, &is_captured) == CUDA_OK && is_captured)
		return shmd_error_set(-EOPNOTSUPP, "without kernels, barriers and collectives on a stream cannot be captured in a graph");
	return 0;
}

/* The word of `from` in the memory of `pe`. */
static cuda_address word_at(int index, int from, int pe)
{
	return (cuda_address)(uintptr_t)nvs_at(nvs.stream_words + (size_t)index * (size_t)nvs.facts.npes + from, pe);
}

static int sync_by_driver(struct nvs_host_team *team, cuda_stream stream)
{
	const struct cuda_api *cuda = nvs.device->cuda;
	int index = (int)(team - nvs.teams), me = nvs.facts.mype, n = shmd_team_n_pes(team->team), r = check_stream(stream);
	cuda_result result = CUDA_OK;

	if (r < 0)
		return r;
	team->n_stream_syncs++;
	for (int i = 0; result == CUDA_OK && i < n; i++)
		if (team->pes[i] != me)
			result = cuda->stream_write8(stream, word_at(index, me, team->pes[i]), team->n_stream_syncs, 0);
	for (int i = 0; result == CUDA_OK && i < n; i++)
		if (team->pes[i] != me)
			result = cuda->stream_wait8(stream, word_at(index, team->pes[i], me), team->n_stream_syncs, CUDA_WAIT_AT_LEAST);
	return result == CUDA_OK ? 0 : cuda_fail(cuda, result, "sync on a stream");
}

int nvs_sync_on(struct nvs_host_team *team, cuda_stream stream)
{
	return nvs.has_kernels ? shmd_team_sync_on_stream(team->team, stream) : sync_by_driver(team, stream);
}

static int sync_on(const char *name, int32_t team, cuda_stream stream)
{
	int r = nvs_ready();
	struct nvs_host_team *mine = r ? NULL : nvs_team_at(team);

	return nvs_result(name, mine ? nvs_sync_on(mine, stream) : r ? r : -EINVAL);
}

NVS_API void nvshmemx_barrier_all_on_stream(cuda_stream stream);
void nvshmemx_barrier_all_on_stream(cuda_stream stream)
{
	(void)sync_on("nvshmemx_barrier_all_on_stream", NVS_TEAM_WORLD, stream);
}

NVS_API void nvshmemx_sync_all_on_stream(cuda_stream stream);
void nvshmemx_sync_all_on_stream(cuda_stream stream)
{
	(void)sync_on("nvshmemx_sync_all_on_stream", NVS_TEAM_WORLD, stream);
}

NVS_API int nvshmemx_barrier_on_stream(int32_t team, cuda_stream stream);
int nvshmemx_barrier_on_stream(int32_t team, cuda_stream stream)
{
	return sync_on("nvshmemx_barrier_on_stream", team, stream);
}

NVS_API int nvshmemx_team_sync_on_stream(int32_t team, cuda_stream stream);
int nvshmemx_team_sync_on_stream(int32_t team, cuda_stream stream)
{
	return sync_on("nvshmemx_team_sync_on_stream", team, stream);
}
