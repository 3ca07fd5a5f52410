/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives that move data, on the host: the device functions, with an errno and a sentence. One call at a time on a team. */
#include "libclient/runtime/coll/coll-check.h"
#include "libclient/runtime/coll/coll-gpu.h"
#include "libclient/runtime/settings/nvtx.h"

static int move_on_gpu(struct shmd_team *team, enum stream_what what, struct shmd_dev_coll args, uint32_t root, const char *name)
{
	struct stream_call call = {.what = what, .dest = (uintptr_t)args.dest, .source = (uintptr_t)args.source, .n = args.n, .pe = root};

	return coll_gpu_run(team, STREAM_KERNEL_MOVE, call, name);
}

int shmd_broadcast(struct shmd_team *team, void *dest, const void *source, size_t bytes, int root)
{
	int r = coll_check(team, dest, source, bytes), status;

	if (r < 0)
		return r;
	if (r == COLL_ON_GPU)
		return move_on_gpu(team, STREAM_BROADCAST, shmd_dev_coll_of(dest, source, bytes), (uint32_t)root, "broadcast");
	runtime_nvtx_push("shmd_broadcast");
	status = shmd_dev_broadcast(coll_ctx(team), &team->dev, dest, source, bytes, (uint32_t)root);
	runtime_nvtx_pop();
	return status == SHMD_DEV_OK ? 0 : coll_fail(team, status, "broadcast", root);
}

int shmd_fcollect(struct shmd_team *team, void *dest, const void *source, size_t bytes)
{
	int r = coll_check(team, dest, source, bytes), status;

	if (r < 0)
		return r;
	if (r == COLL_ON_GPU)
		return move_on_gpu(team, STREAM_FCOLLECT, shmd_dev_coll_of(dest, source, bytes), STREAM_NO_PE, "fcollect");
	runtime_nvtx_push("shmd_fcollect");
	status = shmd_dev_fcollect(coll_ctx(team), &team->dev, dest, source, bytes);
	runtime_nvtx_pop();
	return coll_result(team, status, "fcollect");
}

int shmd_collect(struct shmd_team *team, void *dest, const void *source, size_t bytes)
{
	int r = coll_check(team, dest, source, 1), status;

	if (r < 0)
		return r;
	if (r == COLL_ON_GPU)
		return coll_gpu_refuse("collect");
	runtime_nvtx_push("shmd_collect");
	status = shmd_dev_collect(coll_ctx(team), &team->dev, dest, source, bytes);
	runtime_nvtx_pop();
	return coll_result(team, status, "collect");
}

int shmd_alltoall(struct shmd_team *team, void *dest, const void *source, size_t bytes)
{
	int r = coll_check(team, dest, source, bytes), status;

	if (r < 0)
		return r;
	if (r == COLL_ON_GPU)
		return move_on_gpu(team, STREAM_ALLTOALL, shmd_dev_coll_of(dest, source, bytes), STREAM_NO_PE, "alltoall");
	runtime_nvtx_push("shmd_alltoall");
	status = shmd_dev_alltoall(coll_ctx(team), &team->dev, dest, source, bytes);
	runtime_nvtx_pop();
	return coll_result(team, status, "alltoall");
}

int shmd_alltoalls(struct shmd_team *team, void *dest, const void *source, const struct shmd_stride *stride)
{
	struct shmd_dev_stride dev;
	int r = coll_check(team, dest, source, stride ? stride->n * stride->block_bytes : 1), status;

	if (r < 0)
		return r;
	if (r == COLL_ON_GPU)
		return coll_gpu_refuse("alltoall of elements");
	dev = (struct shmd_dev_stride){.n = stride->n,
				       .block_bytes = stride->block_bytes,
				       .dest_stride_bytes = stride->dest_stride_bytes,
				       .source_stride_bytes = stride->source_stride_bytes};
	runtime_nvtx_push("shmd_alltoalls");
	status = shmd_dev_alltoalls(coll_ctx(team), &team->dev, dest, source, &dev);
	runtime_nvtx_pop();
	return coll_result(team, status, "alltoall of elements");
}
