/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The demo's kernels as C, for tests on machines without a GPU: the calling thread is the block. With NO_LAUNCH nothing
 * is started: the demo must notice.
 */
#include "tests/lib/fake-cuda.h"

#include <stddef.h>
#include <string.h>

#include "gpu-demo-kernels.h"

struct gpu_demo_stream {
	int gpu;
};

static struct gpu_demo_stream streams[FAKE_CUDA_GPUS] = {{0}, {1}};

const char *gpu_demo_error(void)
{
	return "no such GPU";
}

struct gpu_demo_stream *gpu_demo_stream_new(int gpu)
{
	/* Also what makes the linker keep the driver that is not one. */
	fake_cuda_set_current(-1);
	return gpu >= 0 && gpu < FAKE_CUDA_GPUS ? &streams[gpu] : NULL;
}

void gpu_demo_stream_free(struct gpu_demo_stream *stream)
{
}

int gpu_demo_copy(struct gpu_demo_stream *stream, void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
	return 0;
}

int gpu_demo_run(struct gpu_demo_stream *stream, enum gpu_demo_kernel kernel, const struct gpu_demo_args *args,
		 uint32_t n_threads, uint64_t limit_nsec)
{
#ifndef NO_LAUNCH
	gpu_demo_body(kernel, args, 0, 1);
#endif
	return 0;
}
