/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by fake-cuda.c (GPUs, contexts, streams, failures), fake-cuda-copy.c and fake-cuda-memory.c (memory apart from addresses). */
#ifndef SHMEMD_TESTS_FAKE_CUDA_PRIVATE_H
#define SHMEMD_TESTS_FAKE_CUDA_PRIVATE_H

#include <stddef.h>
#include <stdint.h>

#include "tests/lib/fake-cuda.h"

#define EXPORT __attribute__((visibility("default")))

enum {
	OK = 0,
	INVALID_VALUE = 1,
	NOT_INITIALISED = 3,
	INVALID_GPU = 101,
	INVALID_CONTEXT = 201,
	ALREADY = 712,
	NOT_FOUND = 500,
	NOT_READY = 600,
	NOT_REGISTERED = 713,
	NOT_SUPPORTED = 801,
	UNDER_CAPTURE = 900,
};

extern struct fake_cuda_counts fake_cuda_counted; /* under the lock */

int fake_cuda_lock(void);
void fake_cuda_unlock(int *taken);
#define LOCKED __attribute__((cleanup(fake_cuda_unlock), unused)) int taken_ = fake_cuda_lock()

/* The failure that a test wants, or what is missing; else OK. With the lock. */
int fake_cuda_enter(const char *symbol, int needs_context);
/* Every call begins with it and holds the lock to its end. */
#define ENTER(needs_context)                                                                                  \
	LOCKED;                                                                                               \
	int result_ = fake_cuda_enter(__func__, needs_context);                                                         \
                                                                                                              \
	if (result_)                                                                                          \
	return result_

/* Bytes lie in [addr, addr + size). */
static inline int fake_cuda_holds(const char *addr, size_t size, const char *at, size_t bytes)
{
	return addr && at >= addr && bytes <= size && (size_t)(at - addr) <= size - bytes;
}

/*
 * A kernel begins, behind the one that runs in the stream; what the stream has put off is carried out. Not OK: not a stream of the current
 * context. With the lock, which it may give away for a while.
 */
int fake_cuda_stream_begin(void *stream);
/* The kernel has ended. Without the lock. */
void fake_cuda_stream_end(void *stream);
/* Whether a thread captures, and this one must neither allocate nor wait. */
int fake_cuda_forbids(void);

/* The allocation that has the byte; 0: none has. */
int fake_cuda_find_allocation(const void *at, uint64_t *begin, size_t *bytes);

/* To and from GPU memory. */
void fake_cuda_copy_in(char *to, const char *from, size_t bytes);
void fake_cuda_copy_out(char *to, const char *from, size_t bytes);

/* Bytes lie in memory that is mapped in a range of addresses. With the lock. */
int fake_cuda_is_mapped(const void *at, size_t bytes);
/* The memory behind a mapping, of its first bytes; -1: no mapping begins there. With the lock. */
int fake_cuda_fd_of_mapped(const void *at, size_t bytes);

#endif
