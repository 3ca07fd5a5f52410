/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of random programs (tests/random) for kernels: the host makes works of a PE's steps, with addresses and PEs found, and one kernel carries out
 * many of them, one after the other. C and CUDA.
 */
#ifndef SHMEMD_TESTS_GPU_RANDOM_WORK_H
#define SHMEMD_TESTS_GPU_RANDOM_WORK_H

#include <stdbool.h>
#include <stdint.h>

#define WORK_WORDS 6 /* MAX_WAIT */

enum work_kind {
	/* memory of this PE */
	WORK_PATTERN, /* n blocks at dest, of the pattern of value, value + 1, ..., from byte `first` of it */
	WORK_SET, /* bytes at dest become value */
	WORK_COPY, /* from source to dest */
	WORK_COMPARE, /* n blocks at source with those at wanted; of each block the first `compare` bytes, if that is not 0 */
	/* calls */
	WORK_PUT, WORK_PUT_NBI, WORK_PUT_STRIDED, WORK_PUT_STRIDED_NBI, WORK_PUT_DIRECT, WORK_BATCH, WORK_P,
	WORK_GET, WORK_GET_NBI, WORK_GET_STRIDED, WORK_GET_STRIDED_NBI, WORK_GET_BATCH, WORK_G,
	WORK_ATOMIC, WORK_ATOMIC_FETCH, WORK_PUT_SIGNAL, WORK_PUT_SIGNAL_NBI, WORK_SIGNAL,
	WORK_FENCE, WORK_FENCE_PE, WORK_QUIET, WORK_QUIET_PE, WORK_SYNC, WORK_BARRIER,
	WORK_WAIT, WORK_TEST, WORK_WAIT_ALL, WORK_WAIT_ANY, WORK_WAIT_SOME, WORK_LOCKED_ADD, WORK_COLL,
	WORK_INVALID_PE, WORK_INVALID_DEST, WORK_INVALID_P, WORK_INVALID_ATOMIC, /* refused */
};

struct work {
	enum work_kind kind;
	uint32_t step; /* of the program */
	uint8_t scope; /* enum shmd_dev_scope; calls that have one */
	bool is_beside; /* a collective: at once with the one before */
	bool is_exact; /* `want` is what an atomic finds */
	uint64_t ctx, team;
	uint8_t *dest, *source;
	const uint8_t *wanted;
	uint64_t n, bytes, dest_stride, source_stride;
	uint32_t pe, pe2; /* as the context numbers them */
	int op, cmp;
	int call, type; /* collective */
	uint32_t mask, good;
	uint64_t value, compare, want, first;
	uint8_t *signal;
	uint64_t values[WORK_WORDS];
};

/* In memory of the host: the first failure. */
struct work_failure {
	uint32_t has_failed, step;
	int kind, status;
	uint64_t index, found, wanted;
};

#ifdef __cplusplus
extern "C" {
#endif

/* Memory of the host that kernels see; NULL: there is none. */
void *work_memory(uint64_t bytes);
/* Memory of the GPU that is not of a heap. */
void *work_gpu_memory(uint64_t bytes);
/* The GPU of a PE; -1: there is none. */
int work_choose_gpu(int pe);
/* 0, or -1 with a sentence on stderr: CUDA failed. Returns when all works are done, or one has failed. */
int work_run(const struct work *works, uint32_t n, struct work_failure *failure);

#ifdef __cplusplus
}
#endif

#endif
