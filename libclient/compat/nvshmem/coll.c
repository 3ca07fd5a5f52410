/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives that move data: each member copies to the others, and all meet behind it. As the interface has it, dest is ready on all members
 * before any of them calls.
 */
#include <errno.h>

#include "libclient/compat/nvshmem/rma.h"

/* One block for a member. */
static int copy_to(const struct nvs_host_team *team, int member, char *dest, const char *source, size_t bytes, cuda_stream stream)
{
	void *at = nvs_at(dest, team->pes[member]);

	return at ? nvs_copy_on(stream, at, source, bytes) : -EINVAL;
}

struct blocks {
	size_t dest_offset; /* in the dest of every member */
	size_t source_step; /* from one member's block to the next one's */
};

static int copy_to_all(const struct nvs_host_team *team, char *dest, const char *source, size_t bytes, struct blocks blocks, cuda_stream stream)
{
	int n = shmd_team_n_pes(team->team), r = 0;

	for (int i = 0; !r && i < n; i++)
		r = copy_to(team, i, dest + blocks.dest_offset, source + (size_t)i * blocks.source_step, bytes, stream);
	return r;
}

/* A host's call goes by the library's stream, in its context. */
static int begin(struct nvs_where *where)
{
	if (where->is_on_stream)
		return 0;
	where->stream = nvs.device->stream;
	return device_enter(nvs.device);
}

/* Whatever has failed here, the others do not wait for ever; those of a host's call fail, too. */
static int finish(struct nvs_host_team *team, int r, struct nvs_where where)
{
	int r2;

	if (where.is_on_stream) {
		r2 = nvs_sync_on(team, where.stream);
		return r ? r : r2;
	}
	r2 = device_leave(nvs.device, nvs.device->cuda->stream_sync(where.stream), "wait for copies");
	return nvs_agree_in(team->team, r ? r : r2);
}

static struct nvs_host_team *team_of(int32_t team)
{
	return nvs_ready() ? NULL : nvs_team_at(team);
}

int nvs_broadcast(const char *name, int32_t team, void *dest, const void *source, size_t bytes, int root, struct nvs_where where)
{
	struct nvs_host_team *mine = team_of(team);
	int r = mine ? begin(&where) : -EINVAL;

	if (r < 0)
		return nvs_fail(name, r);
	if (shmd_team_my_pe(mine->team) == root)
		r = copy_to_all(mine, dest, source, bytes, (struct blocks){0, 0}, where.stream);
	return nvs_result(name, finish(mine, r, where));
}

int nvs_alltoall(const char *name, int32_t team, void *dest, const void *source, size_t bytes, struct nvs_where where)
{
	struct nvs_host_team *mine = team_of(team);
	int r = mine ? begin(&where) : -EINVAL;

	if (r < 0)
		return nvs_fail(name, r);
	r = copy_to_all(mine, dest, source, bytes, (struct blocks){(size_t)shmd_team_my_pe(mine->team) * bytes, bytes}, where.stream);
	return nvs_result(name, finish(mine, r, where));
}

int nvs_fcollect(const char *name, int32_t team, void *dest, const void *source, size_t bytes, struct nvs_where where)
{
	struct nvs_host_team *mine = team_of(team);
	int r = mine ? begin(&where) : -EINVAL;

	if (r < 0)
		return nvs_fail(name, r);
	r = copy_to_all(mine, dest, source, bytes, (struct blocks){(size_t)shmd_team_my_pe(mine->team) * bytes, 0}, where.stream);
	return nvs_result(name, finish(mine, r, where));
}
