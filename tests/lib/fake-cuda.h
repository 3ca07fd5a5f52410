/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libcuda.so.1 over host memory, for machines without a GPU: two GPUs, each with a context and its own alias of
 * registered memory, so that an address of the wrong side is noticed. It refuses what CUDA refuses: calls without a
 * current context, streams of another one, ranges registered twice.
 *
 * A program that links with it finds it by dlopen("libcuda.so.1").
 */
#ifndef SHMEMD_TESTS_FAKE_CUDA_H
#define SHMEMD_TESTS_FAKE_CUDA_H

#define FAKE_CUDA_GPUS 2
#define FAKE_CUDA_MULTIPROCESSORS 4 /* of a GPU; of 1024 threads each */

struct fake_cuda_counts {
	int registered, allocations, contexts, streams;
	int put_off; /* copies and stores that streams have not carried out (fake_cuda_put_off()) */
	int memories, reserved, mapped; /* handles of memory, ranges of addresses, mappings in them */
	int modules, launches; /* modules that are loaded; kernels launched so far */
	int batches; /* calls of memory operations of streams that were carried out */
	int in_children; /* calls in a process forked from the one that initialised CUDA: a driver does not work there */
	int pushed; /* contexts on this thread's stack */
};

/* The next call of `symbol` returns `result`. */
__attribute__((visibility("default"))) void fake_cuda_fail(const char *symbol, int result);
/* The next `n` calls of it do. */
__attribute__((visibility("default"))) void fake_cuda_fail_times(const char *symbol, int result, int n);
/* The next `n` calls do after `n_before` that do not. An empty symbol: all calls are good again. */
__attribute__((visibility("default"))) void fake_cuda_fail_after(const char *symbol, int result, int n_before, int n);
/* Whether that call came. */
__attribute__((visibility("default"))) int fake_cuda_failed(void);
/* Copies and memory operations of streams are done once the stream was polled that often. 0, as at the start: at once. */
__attribute__((visibility("default"))) void fake_cuda_put_off(int n_polls);
/* Copies from a GPU do not return until 0 is set, as with a driver that waits for its own lock; the number of those that wait. */
__attribute__((visibility("default"))) void fake_cuda_hang(int hangs);
__attribute__((visibility("default"))) int fake_cuda_hanging(void);
/* The driver has no memory operations of streams. */
__attribute__((visibility("default"))) void fake_cuda_lack_values(int lacks);
/* A symbol of a module or a library of kernels, whose handle is an array of them that ends with a NULL name. */
struct fake_cuda_symbol {
	const char *name;
	unsigned long long addr;
	unsigned long bytes;
};
__attribute__((visibility("default"))) struct fake_cuda_counts fake_cuda_counts(void);
/* cuModuleGetFunction() finds this kernel; cuLaunchKernel() runs it at once, in the thread that launches. */
__attribute__((visibility("default"))) void fake_cuda_kernel(const char *name, void (*run)(void **parameters));
/* Blocks of the last cuLaunchKernelEx() whose blocks are all there at once; 0: it was another one. */
__attribute__((visibility("default"))) unsigned int fake_cuda_cooperative_blocks(void);
/* While a thread captures no thread may allocate or wait for a stream, unless it has made its captures relaxed. 0: they all may. */
__attribute__((visibility("default"))) void fake_cuda_capture(int captures);
/* Make the primary context of a GPU current in this thread, as the CUDA runtime does; -1: none. */
__attribute__((visibility("default"))) void fake_cuda_set_current(int ordinal);

#endif
