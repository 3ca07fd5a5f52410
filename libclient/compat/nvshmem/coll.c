/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives. On a stream little data is moved by one kernel of the runtime, and any data where queues lead to PEs. Else each member copies to the
 * others, by the copy engines, and all meet behind it; as the interface has it, dest is ready on all members before any of them calls. Reductions
 * are always a kernel.
 */
#include <errno.h>

#include <shmd/dev/coll.h>

#include "libclient/compat/nvshmem/rma.h"
#include "proto/base/overflow.h"

/* A kernel of one block moves more than this more slowly than copies and a sync do. */
#define KERNEL_BYTES 65536u

static bool is_by_kernel(size_t bytes, struct nvs_where where)
{
	return nvs.ibgda || (where.is_on_stream && nvs.has_kernels && bytes <= KERNEL_BYTES);
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

/* ---- by kernels */

/* A collective of a member, by a kernel. */
struct work {
	enum { BROADCAST, ALLTOALL, FCOLLECT, REDUCE } kind;
	void *dest;
	const void *source;
	size_t bytes; /* of a member's block */
	int root;
	const struct nvs_math *math; /* of REDUCE, which has all there */
};

static int check_math(const struct nvs_host_team *team, const struct nvs_math *math)
{
	size_t bytes = shmd_dev_type_bytes(math->type), blocks = math->is_scatter ? (size_t)shmd_team_n_pes(team->team) : 1;
	int r = check_elements(math->dest, math->n, bytes);

	return r ? r : check_elements(math->source, math->n, bytes * blocks);
}

static int check_work(const struct nvs_host_team *team, const struct work *work)
{
	size_t n = (size_t)shmd_team_n_pes(team->team);

	if (work->kind == REDUCE)
		return check_math(team, work->math);
	return check_sides(work->dest, work->kind == BROADCAST ? 1 : n, work->source, work->kind == ALLTOALL ? n : 1, work->bytes);
}

static int launch_math(const struct nvs_host_team *team, const struct nvs_math *math, cuda_stream stream)
{
	if (math->is_scatter)
		return shmd_reduce_scatter_on_stream(team->team, math->dest, math->source, math->n, math->type, math->op, stream);
	return shmd_reduce_on_stream(team->team, math->dest, math->source, math->n, math->type, math->op, stream);
}

static int launch(const struct nvs_host_team *team, const struct work *work, cuda_stream stream)
{
	if (work->kind == REDUCE)
		return launch_math(team, work->math, stream);
	if (work->kind == BROADCAST)
		return shmd_broadcast_on_stream(team->team, work->dest, work->source, work->bytes, work->root, stream);
	if (work->kind == ALLTOALL)
		return shmd_alltoall_on_stream(team->team, work->dest, work->source, work->bytes, stream);
	return shmd_fcollect_on_stream(team->team, work->dest, work->source, work->bytes, stream);
}

/*
 * Each team has a stream for what the host waits for. Behind copies and atomics of other threads, or a kernel of another team, they would keep these
 * from PEs that are to come here.
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
		r = device_leave(nvs.device, nvs.device->cuda->stream_sync(team->stream), "wait for a collective");
	return r ? r : shmd_stream_status(nvs.world);
}

/* Nobody waits in a kernel for a member that has no memory for it. An earlier failure on a stream is none of this call. */
static int run_now(struct nvs_host_team *team, const struct work *work)
{
	int r = make_stream(team);

	r = nvs_agree_as(team, r ? r : check_work(team, work));
	if (r < 0)
		return r;
	(void)nvs_result("a call on a stream", shmd_stream_status(nvs.world));
	r = launch(team, work, team->stream);
	return r ? r : wait_for_kernel(team);
}

static int run(struct nvs_host_team *team, const struct work *work, struct nvs_where where)
{
	int r = nvs_need_kernels();

	if (!r && !where.is_on_stream)
		return run_now(team, work);
	if (!r)
		r = check_work(team, work);
	return r ? r : launch(team, work, where.stream);
}

/* ---- by copies */

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

/* ---- the calls */

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
		r = where.is_on_stream ? 0 : check_root(mine, root);
		return nvs_result(name, r ? r : run(mine, &(struct work){BROADCAST, dest, source, bytes, root, NULL}, where));
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

	if (mine && is_by_kernel(bytes, where))
		return nvs_result(name, run(mine, &(struct work){ALLTOALL, dest, source, bytes, 0, NULL}, where));
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

	if (mine && is_by_kernel(bytes, where))
		return nvs_result(name, run(mine, &(struct work){FCOLLECT, dest, source, bytes, 0, NULL}, where));
	r = mine ? begin(&where) : -EINVAL;
	if (r < 0)
		return nvs_fail(name, r);
	r = copy_to_all(mine, dest, source, bytes, (struct blocks){(size_t)shmd_team_my_pe(mine->team) * bytes, 0}, where.stream);
	return nvs_result(name, finish(mine, r, where));
}

int nvs_reduce(const char *name, int32_t team, struct nvs_math math, struct nvs_where where)
{
	struct nvs_host_team *mine = team_of(team);

	if (!mine)
		return nvs_fail(name, -EINVAL);
	return nvs_result(name, run(mine, &(struct work){.kind = REDUCE, .math = &math}, where));
}
