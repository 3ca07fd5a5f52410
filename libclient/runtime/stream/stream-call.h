/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parameter of the kernel behind a call on a stream: one, by value, so that a CUDA graph keeps it. C and CUDA.
 *
 * Addresses are of GPU memory: ctx and team are the copies of shmd_ctx_gpu_dev() and shmd_team_gpu_dev().
 */
#ifndef SHMD_STREAM_CALL_H
#define SHMD_STREAM_CALL_H

#include <stdint.h>

#include <shmd/abi/types.h>

enum stream_what {
	STREAM_NOTHING = 0, /* the first launch of a kernel (kernels.h) */
	STREAM_SIGNAL = 1,
	STREAM_WAIT = 2,
	STREAM_QUIET = 3,
	STREAM_SYNC = 4,
	STREAM_BARRIER = 5,
	STREAM_BROADCAST = 6,
	STREAM_FCOLLECT = 7,
	STREAM_ALLTOALL = 8,
	STREAM_REDUCE = 9,
	STREAM_REDUCE_SCATTER = 10,
	STREAM_PUT = 11,
	STREAM_GET = 12,
	STREAM_ATOMIC = 13,
	STREAM_P = 14,
	STREAM_WAIT_ALL = 15,
};

/* In GPU memory: the first failure since the host took the last one. One word, so that the host never sees a part of it. */
struct stream_failure {
	int32_t status; /* enum shmd_dev_status; 0: none */
	uint16_t what;
	uint16_t is_own_limit; /* the context has another time limit than the world */
};
SHMD_PIN_SIZE(struct stream_failure, 8);
#define STREAM_NO_PE 0xffffffffu

/* In GPU memory: what an atomic has for the host that waits for it. */
struct stream_result {
	uint64_t old;
	int32_t status;
	uint32_t reserved;
};
SHMD_PIN_SIZE(struct stream_result, 16);

struct stream_call {
	uint64_t ctx_addr, team_addr, failure_addr;
	/* dest: also the first word. ATOMIC: source is where struct stream_result goes; WAIT_ALL: values, or 0. */
	uint64_t dest, source;
	uint64_t n; /* bytes, or elements where there is a type; WAIT_ALL: words; ATOMIC: what it is compared with */
	uint64_t value; /* of words */
	uint64_t status_addr; /* WAIT_ALL: of words that are left out; 0: none is */
	uint32_t what; /* enum stream_what */
	uint32_t pe; /* SIGNAL, PUT, GET, ATOMIC, P: of the context; BROADCAST: the root; else STREAM_NO_PE */
	uint32_t op; /* signal operation, comparison, atomic, or reduction */
	uint32_t type; /* REDUCE, REDUCE_SCATTER; words: their bytes */
};

/* Kernels of stream-kernels.cu, and how many threads their one block has. */
enum stream_kernel {
	STREAM_KERNEL_WORD, /* SIGNAL, WAIT, WAIT_ALL, QUIET, ATOMIC, P */
	STREAM_KERNEL_ORDER, /* SYNC, BARRIER; PUT and GET, which go by queues */
	STREAM_KERNEL_MOVE, /* BROADCAST, FCOLLECT, ALLTOALL */
	STREAM_KERNEL_REDUCE, /* REDUCE, REDUCE_SCATTER */
	STREAM_N_KERNELS,
};
#define STREAM_NAMES {"shmd_stream_word", "shmd_stream_order", "shmd_stream_move", "shmd_stream_reduce"}
#define STREAM_THREADS {1, 32, 512, 512}

#endif
