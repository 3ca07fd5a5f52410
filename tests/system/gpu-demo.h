/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The demo with CUDA kernels: PEs are sessions, all in one process on one GPU or each in a process on a GPU of its own.
 * A kernel writes every WQE, dbrec and doorbell; CPU threads fill and compare payload and start kernels. Payload is in GPU memory where a NIC
 * reaches that, and CPU threads have a copy of it.
 */
#ifndef SHMEMD_GPU_DEMO_H
#define SHMEMD_GPU_DEMO_H

#include <stddef.h>

#include "demo-pattern.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GPU_DEMO_MAX_PES 8
#define GPU_DEMO_MAX_THREADS 32
#define GPU_DEMO_MAX_SAMPLES 256

/* The heap, the same on every PE. */
#define GPU_DEMO_SRC_BYTES (4u << 20)
#define GPU_DEMO_DST (GPU_DEMO_SRC_BYTES)
#define GPU_DEMO_GET_BYTES (64u << 10)
#define GPU_DEMO_LAND (GPU_DEMO_DST + GPU_DEMO_SRC_BYTES) /* a block for each PE */
#define GPU_DEMO_COUNTER (GPU_DEMO_LAND + GPU_DEMO_MAX_PES * GPU_DEMO_GET_BYTES)
#define GPU_DEMO_COUNTER32 (GPU_DEMO_COUNTER + 64u)
#define GPU_DEMO_SIGNAL (GPU_DEMO_COUNTER + 128u)
#define GPU_DEMO_OUTBOX (GPU_DEMO_COUNTER + 4096u)
#define GPU_DEMO_INBOX (GPU_DEMO_OUTBOX + 4096u)
#define GPU_DEMO_HEAP_BYTES (GPU_DEMO_INBOX + 4096u)

#define GPU_DEMO_PING_PONGS 200u
#define GPU_DEMO_MESSAGE_BYTES 64u

enum gpu_demo_kernel {
	GPU_DEMO_PUT_KERNEL,
	GPU_DEMO_GET_KERNEL,
	GPU_DEMO_ATOMIC_KERNEL,
	GPU_DEMO_SIGNAL_KERNEL,
	GPU_DEMO_N_KERNELS,
};

struct gpu_demo_thread {
	int status; /* enum shmd_dev_status */
	uint32_t peer; /* at which PE */
	uint64_t n_operations; /* work requests posted */
	uint64_t n_wrong, n_right; /* bytes the kernel compared itself */
	uint64_t nsec;
};

/* In host memory that the GPU sees; each thread writes what is its own. */
struct gpu_demo_result {
	struct gpu_demo_thread threads[GPU_DEMO_MAX_THREADS];
	uint64_t olds[GPU_DEMO_MAX_PES][DEMO_FETCH_ADDS]; /* fetched values */
	uint64_t samples[GPU_DEMO_MAX_SAMPLES]; /* nsec of single operations of thread 0 */
	uint32_t n_samples;
};

struct gpu_demo_args {
	struct shmd_dev_qp *qps; /* QP i talks to PE i */
	uint8_t *heap; /* as the GPU sees it */
	struct shmd_dev_addr local; /* the heap, for work requests */
	struct shmd_dev_addr remote[GPU_DEMO_MAX_PES];
	uint32_t me, n_pes, bytes, repeats;
	uint32_t lacks_masked_4, lacks_masked_8; /* atomics that the NICs lack */
	uint64_t timeout_nsec;
	struct gpu_demo_result *result;
};

/*
 * The place where kernels run: a stream on a GPU, of the calling thread. NULL or a negative number with gpu_demo_error() set.
 * gpu_demo_run returns when the kernel has ended, or when limit_nsec passed. With NO_LAUNCH it runs nothing.
 */
struct gpu_demo_stream;
struct gpu_demo_stream *gpu_demo_stream_new(int gpu);
int gpu_demo_run(struct gpu_demo_stream *stream, enum gpu_demo_kernel kernel, const struct gpu_demo_args *args,
		 uint32_t n_threads, uint64_t limit_nsec);
/* Either side may be GPU memory. Complete when it returns. */
int gpu_demo_copy(struct gpu_demo_stream *stream, void *to, const void *from, size_t bytes);
void gpu_demo_stream_free(struct gpu_demo_stream *stream);
const char *gpu_demo_error(void);

#ifdef __cplusplus
}
#endif

#endif
