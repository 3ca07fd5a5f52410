/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions and scans on the host: the device functions, with an errno and a sentence. One call at a time on a team. */
#include "libclient/runtime/coll/coll-check.h"
#include "libclient/runtime/coll/coll-gpu.h"
#include "libclient/runtime/settings/nvtx.h"

_Static_assert(SHMD_TYPE_INT8 == (int)SHMD_DEV_TYPE_INT8 && SHMD_TYPE_UINT8 == (int)SHMD_DEV_TYPE_UINT8 &&
		       SHMD_TYPE_FLOAT == (int)SHMD_DEV_TYPE_FLOAT && SHMD_TYPE_COMPLEX_DOUBLE == (int)SHMD_DEV_TYPE_COMPLEX_DOUBLE &&
		       SHMD_TYPE_HALF == (int)SHMD_DEV_TYPE_HALF && SHMD_TYPE_BFLOAT16 == (int)SHMD_DEV_TYPE_BFLOAT16,
	       "the same numbers");
_Static_assert(SHMD_REDUCE_SUM == (int)SHMD_DEV_REDUCE_SUM && SHMD_REDUCE_PROD == (int)SHMD_DEV_REDUCE_PROD &&
		       SHMD_REDUCE_MIN == (int)SHMD_DEV_REDUCE_MIN && SHMD_REDUCE_MAX == (int)SHMD_DEV_REDUCE_MAX &&
		       SHMD_REDUCE_AND == (int)SHMD_DEV_REDUCE_AND && SHMD_REDUCE_OR == (int)SHMD_DEV_REDUCE_OR &&
		       SHMD_REDUCE_XOR == (int)SHMD_DEV_REDUCE_XOR,
	       "the same numbers");

size_t shmd_type_bytes(enum shmd_type type)
{
	return shmd_dev_type_bytes((uint32_t)type);
}

static int reduce_on_gpu(struct shmd_team *team, enum stream_what what, const struct shmd_dev_coll *args, const char *name)
{
	struct stream_call call = {.what = what, .dest = (uintptr_t)args->dest, .source = (uintptr_t)args->source, .n = args->n,
				   .pe = STREAM_NO_PE, .op = args->op, .type = args->type};

	return coll_gpu_run(team, STREAM_KERNEL_REDUCE, call, name);
}

int shmd_reduce(struct shmd_team *team, void *dest, const void *source, size_t n, enum shmd_type type, enum shmd_reduce_op op)
{
	struct shmd_dev_coll args = shmd_dev_coll_math(dest, source, n, (uint32_t)type, (uint32_t)op);
	int r = coll_check(team, dest, source, n), status;

	if (r < 0)
		return r;
	if (r == COLL_ON_GPU)
		return reduce_on_gpu(team, STREAM_REDUCE, &args, "reduction");
	runtime_nvtx_push("shmd_reduce");
	status = shmd_dev_reduce(coll_ctx(team), &team->dev, &args);
	runtime_nvtx_pop();
	return coll_result(team, status, "reduction");
}

int shmd_reduce_scatter(struct shmd_team *team, void *dest, const void *source, size_t n, enum shmd_type type, enum shmd_reduce_op op)
{
	struct shmd_dev_coll args = shmd_dev_coll_math(dest, source, n, (uint32_t)type, (uint32_t)op);
	int r = coll_check(team, dest, source, n), status;

	if (r < 0)
		return r;
	if (r == COLL_ON_GPU)
		return reduce_on_gpu(team, STREAM_REDUCE_SCATTER, &args, "reduction by parts");
	runtime_nvtx_push("shmd_reduce_scatter");
	status = shmd_dev_reduce_scatter(coll_ctx(team), &team->dev, &args);
	runtime_nvtx_pop();
	return coll_result(team, status, "reduction by parts");
}

int shmd_scan_inclusive(struct shmd_team *team, void *dest, const void *source, size_t n, enum shmd_type type, enum shmd_reduce_op op)
{
	struct shmd_dev_coll args = shmd_dev_coll_math(dest, source, n, (uint32_t)type, (uint32_t)op);
	int r = coll_check(team, dest, source, n), status;

	if (r < 0)
		return r;
	if (r == COLL_ON_GPU)
		return coll_gpu_refuse("scan");
	runtime_nvtx_push("shmd_scan_inclusive");
	status = shmd_dev_scan_inclusive(coll_ctx(team), &team->dev, &args);
	runtime_nvtx_pop();
	return coll_result(team, status, "scan");
}

int shmd_scan_exclusive(struct shmd_team *team, void *dest, const void *source, size_t n, enum shmd_type type, enum shmd_reduce_op op)
{
	struct shmd_dev_coll args = shmd_dev_coll_math(dest, source, n, (uint32_t)type, (uint32_t)op);
	int r = coll_check(team, dest, source, n), status;

	if (r < 0)
		return r;
	if (r == COLL_ON_GPU)
		return coll_gpu_refuse("scan");
	runtime_nvtx_push("shmd_scan_exclusive");
	status = shmd_dev_scan_exclusive(coll_ctx(team), &team->dev, &args);
	runtime_nvtx_pop();
	return coll_result(team, status, "scan");
}
