/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives. On a stream little data is moved by one kernel of the runtime. Else each member copies to the others, by the copy engines, and all
 * meet behind it; as the interface has it, dest is ready on all members before any of them calls. Reductions are always a kernel.
 */
#include <errno.h>

#include <shmd/dev/coll.h>

#include "libclient/compat/nvshmem/rma.h"
#include "proto/base/overflow.h"

/* A kernel of one block moves more than this more slowly than copies and a sync do. */
#define KERNEL_BYTES 65536u

static bool is_by_kernel(size_t bytes, struct nvs_where where)
{
	return where.is_on_stream && nvs.has_kernels && bytes <= KERNEL_BYTES;
}

/* A wrong address is refused at once, since the others wait in their kernels for a member whose kernel has gone. */
static int check_elements(const void *memory, size_t n, size_t bytes)
{
	uint64_t all;

	if (!n)
		return 0;
	if (mul_overflows(n, bytes, &all))
		return shmd_error_set(-EINVAL, "%zu elements are more than any memory", n);
	return nvs_at(memory, nvs.facts.mype) && nvs_at((const char *)memory + (all - 1), nvs.facts.mype) ? 0 : -EINVAL;
}

/* Blocks of each side. */
static int check_sides(const void *dest, size_t n_dest, const void *source, size_t n_source, size_t bytes)
{
	int r = bytes ? check_elements(dest, n_dest, bytes) : 0;

	return r || !bytes ? r : check_elements(source, n_source, bytes);
}

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
	return nvs_agree_as(team, r ? r : r2);
}

static struct nvs_host_team *team_of(int32_t team)
{
	return nvs_ready() ? NULL : nvs_team_at(team);
}

/* Kernels report a wrong root, and without this check nobody would copy. All members give the same one, so all refuse it. */
static int check_root(const struct nvs_host_team *team, int root)
{
	int n = shmd_team_n_pes(team->team);

	return root >= 0 && root < n ? 0 : shmd_error_set(-EINVAL, "%d is not a PE of a team of %d", root, n);
}

int nvs_broadcast(const char *name, int32_t team, void *dest, const void *source, size_t bytes, int root, struct nvs_where where)
{
	struct nvs_host_team *mine = team_of(team);
	int r;

	if (mine && is_by_kernel(bytes, where)) {
		r = check_sides(dest, 1, source, 1, bytes);
		return nvs_result(name, r ? r : shmd_broadcast_on_stream(mine->team, dest, source, bytes, root, where.stream));
	}
	r = mine ? check_root(mine, root) : -EINVAL;
	if (!r)
		r = begin(&where);
	if (r < 0)
		return nvs_fail(name, r);
	if (shmd_team_my_pe(mine->team) == root)
		r = copy_to_all(mine, dest, source, bytes, (struct blocks){0, 0}, where.stream);
	return nvs_result(name, finish(mine, r, where));
}

int nvs_alltoall(const char *name, int32_t team, void *dest, const void *source, size_t bytes, struct nvs_where where)
{
	struct nvs_host_team *mine = team_of(team);
	int r;

	if (mine && is_by_kernel(bytes, where)) {
		r = check_sides(dest, (size_t)shmd_team_n_pes(mine->team), source, (size_t)shmd_team_n_pes(mine->team), bytes);
		return nvs_result(name, r ? r : shmd_alltoall_on_stream(mine->team, dest, source, bytes, where.stream));
	}
	r = mine ? begin(&where) : -EINVAL;
	if (r < 0)
		return nvs_fail(name, r);
	r = copy_to_all(mine, dest, source, bytes, (struct blocks){(size_t)shmd_team_my_pe(mine->team) * bytes, bytes}, where.stream);
	return nvs_result(name, finish(mine, r, where));
}

int nvs_fcollect(const char *name, int32_t team, void *dest, const void *source, size_t bytes, struct nvs_where where)
{
	struct nvs_host_team *mine = team_of(team);
	int r;

	if (mine && is_by_kernel(bytes, where)) {
		r = check_sides(dest, (size_t)shmd_team_n_pes(mine->team), source, 1, bytes);
		return nvs_result(name, r ? r : shmd_fcollect_on_stream(mine->team, dest, source, bytes, where.stream));
	}
	r = mine ? begin(&where) : -EINVAL;
	if (r < 0)
		return nvs_fail(name, r);
	r = copy_to_all(mine, dest, source, bytes, (struct blocks){(size_t)shmd_team_my_pe(mine->team) * bytes, 0}, where.stream);
	return nvs_result(name, finish(mine, r, where));
}

static int check_math(const struct nvs_host_team *team, const struct nvs_math *math)
{
	size_t bytes = shmd_dev_type_bytes(math->type), blocks = math->is_scatter ? (size_t)shmd_team_n_pes(team->team) : 1;
	int r = check_elements(math->dest, math->n, bytes);

	return r ? r : check_elements(math->source, math->n, bytes * blocks);
}

static int reduce(const struct nvs_host_team *team, const struct nvs_math *math, cuda_stream stream)
{
	int r = nvs_need_kernels();

	if (!r)
		r = check_math(team, math);
	if (r < 0)
		return r;
	if (math->is_scatter)
		return shmd_reduce_scatter_on_stream(team->team, math->dest, math->source, math->n, math->type, math->op, stream);
	return shmd_reduce_on_stream(team->team, math->dest, math->source, math->n, math->type, math->op, stream);
}

/* ---- reductions of the host */

/*
 * Each team has a stream for them. Behind copies and atomics of other threads, or a reduction of another team, they would keep these from PEs that
 * are to come here.
 */
static int make_stream(struct nvs_host_team *team)
{
	int r = team->stream ? 0 : device_enter(nvs.device);

	if (r || team->stream)
		return r;
	return device_leave(nvs.device, nvs.device->cuda->stream_create(&team->stream, CUDA_STREAM_NON_BLOCKING), "make a stream");
}

static int wait_for_kernel(const struct nvs_host_team *team)
{
	int r = device_enter(nvs.device);

	if (!r)
		r = device_leave(nvs.device, nvs.device->cuda->stream_sync(team->stream), "wait for a reduction");
	return r ? r : shmd_stream_status(nvs.world);
}

/* Nobody waits in a kernel for a member that has no memory for it. An earlier failure on a stream is no failure of the reduction. */
static int reduce_now(struct nvs_host_team *team, const struct nvs_math *math)
{
	int r = nvs_need_kernels();

	if (r < 0)
		return r;
	r = make_stream(team);
	r = nvs_agree_as(team, r ? r : check_math(team, math));
	if (r < 0)
		return r;
	(void)nvs_result("a call on a stream", shmd_stream_status(nvs.world));
	r = reduce(team, math, team->stream);
	return r ? r : wait_for_kernel(team);
}

int nvs_reduce(const char *name, int32_t team, struct nvs_math math, struct nvs_where where)
{
	struct nvs_host_team *mine = team_of(team);

	if (!mine)
		return nvs_fail(name, -EINVAL);
	return nvs_result(name, where.is_on_stream ? reduce(mine, &math, where.stream) : reduce_now(mine, &math));
}
