/* SPDX-License-Identifier: Apache-2.0 */
/* The demo's kernels on a GPU. With NO_LAUNCH nothing is started: the demo must notice. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "gpu-demo-kernels.h"

#ifdef NO_LAUNCH
#define LAUNCHES 0
#else
#define LAUNCHES 1
#endif

struct gpu_demo_stream {
	cudaStream_t stream;
};

static thread_local char error_text[160];

const char *gpu_demo_error(void)
{
	return error_text;
}

static int fail(const char *what, cudaError_t error)
{
	snprintf(error_text, sizeof(error_text), "%s: %s", what, cudaGetErrorString(error));
	return -1;
}

#define KERNEL(name, kernel)                                                                                  \
	static __global__ void name(struct gpu_demo_args args)                                                \
	{                                                                                                     \
		gpu_demo_body(kernel, &args, threadIdx.x, blockDim.x);                                        \
	}

KERNEL(put_kernel, GPU_DEMO_PUT_KERNEL)
KERNEL(get_kernel, GPU_DEMO_GET_KERNEL)
KERNEL(atomic_kernel, GPU_DEMO_ATOMIC_KERNEL)
KERNEL(signal_kernel, GPU_DEMO_SIGNAL_KERNEL)

typedef void (*kernel_fn)(struct gpu_demo_args args);
static const kernel_fn kernels[GPU_DEMO_N_KERNELS] = {put_kernel, get_kernel, atomic_kernel, signal_kernel};

struct gpu_demo_stream *gpu_demo_stream_new(int gpu)
{
	struct gpu_demo_stream *s = (struct gpu_demo_stream *)calloc(1, sizeof(*s));
	struct cudaFuncAttributes attributes;
	cudaError_t error = cudaSetDevice(gpu);
	int i;

	if (error == cudaSuccess)
		error = cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking);
	/* Loads them now: loading waits for kernels that run, and those may wait for the one to be loaded. */
	for (i = 0; i < GPU_DEMO_N_KERNELS && error == cudaSuccess; i++)
		error = cudaFuncGetAttributes(&attributes, (const void *)kernels[i]);
	if (error == cudaSuccess)
		return s;
	fail("start CUDA", error);
	gpu_demo_stream_free(s);
	return NULL;
}

void gpu_demo_stream_free(struct gpu_demo_stream *s)
{
	if (s && s->stream)
		cudaStreamDestroy(s->stream);
	free(s);
}

int gpu_demo_copy(struct gpu_demo_stream *s, void *to, const void *from, size_t bytes)
{
	cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, s->stream);

	if (error == cudaSuccess)
		error = cudaStreamSynchronize(s->stream);
	return error == cudaSuccess ? 0 : fail("copy", error);
}

static uint64_t now_nsec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int await(cudaStream_t stream, uint64_t limit_nsec)
{
	struct timespec pause = {0, 50000};
	uint64_t end = now_nsec() + limit_nsec;
	cudaError_t error;

	while ((error = cudaStreamQuery(stream)) == cudaErrorNotReady) {
		if (now_nsec() > end) {
			snprintf(error_text, sizeof(error_text), "the kernel did not end in time");
			return -1;
		}
		nanosleep(&pause, NULL);
	}
	return error == cudaSuccess ? 0 : fail("kernel", error);
}

int gpu_demo_run(struct gpu_demo_stream *s, enum gpu_demo_kernel kernel, const struct gpu_demo_args *args,
		 uint32_t n_threads, uint64_t limit_nsec)
{
	void *params[] = {(void *)args};
	cudaError_t error;

	if (!LAUNCHES)
		return 0;
	error = cudaLaunchKernel((const void *)kernels[kernel], dim3(1), dim3(n_threads), params, 0, s->stream);
	return error == cudaSuccess ? await(s->stream, limit_nsec) : fail("launch", error);
}
