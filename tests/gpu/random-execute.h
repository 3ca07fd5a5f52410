/* SPDX-License-Identifier: Apache-2.0 */
/* One PE's part of a random program, by kernels: random-execute.c. */
#ifndef SHMEMD_TESTS_GPU_RANDOM_EXECUTE_H
#define SHMEMD_TESTS_GPU_RANDOM_EXECUTE_H

#include "tests/gpu/random-work.h"
#include "tests/random/execute.h"

/* A PE keeps it from program to program. */
struct kernels {
	struct work *works; /* of the next kernel */
	uint32_t n_works;
	struct work_failure *failure;
	uint8_t *private_memory; /* of the GPU, outside of the heap */
	uint64_t private_used;
	uint8_t *numbers; /* of the host: what PEs fill sources with */
	uint64_t numbers_used;
	uint8_t *wanted; /* of the host: the program's wanted bytes */
	struct run *run;
};

/* -1: no memory, or no GPU. */
int kernels_make(struct kernels *kernels, int pe);
/* All steps of the PE; the worlds of run are open. Ends the process at the first failure. */
void kernels_execute(struct kernels *kernels, struct run *run);

#endif
