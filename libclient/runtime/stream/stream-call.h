/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parameter of the kernel behind a call on a stream: one, by value, so that a CUDA graph keeps it. C and CUDA.
 *
 * Addresses are of GPU memory: ctx and team are the copies of shmd_ctx_gpu_dev() and shmd_team_gpu_dev().
 */
#ifndef SHMD_STREAM_CALL_H
#define SHMD_STREAM_CALL_H

#include <stdint.h>

enum stream_what {
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
};

/* In GPU memory: the first failure since the host took the last one. */
struct stream_failure {
	int32_t status; /* enum shmd_dev_status; 0: none */
	uint32_t what;
	uint32_t pe; /* SIGNAL, PUT, GET: of the context; BROADCAST: the root; else STREAM_NO_PE */
	uint32_t reserved;
};
#define STREAM_NO_PE 0xffffffffu

struct stream_call {
	uint64_t ctx_addr, team_addr, failure_addr;
	uint64_t dest, source; /* SIGNAL, WAIT: dest is the word */
	uint64_t n; /* bytes, or elements where there is a type */
	uint64_t value; /* SIGNAL, WAIT */
	uint32_t what; /* enum stream_what */
	uint32_t pe; /* as in stream_failure */
	uint32_t op; /* signal operation, comparison, or reduction */
	uint32_t type; /* REDUCE, REDUCE_SCATTER; WAIT: bytes of the word */
};

/* Kernels of stream-kernels.cu, and how many threads their one block has. */
enum stream_kernel {
	STREAM_KERNEL_WORD, /* SIGNAL, WAIT, QUIET */
	STREAM_KERNEL_ORDER, /* SYNC, BARRIER; PUT and GET, which go by queues */
	STREAM_KERNEL_MOVE, /* BROADCAST, FCOLLECT, ALLTOALL */
	STREAM_KERNEL_REDUCE, /* REDUCE, REDUCE_SCATTER */
	STREAM_N_KERNELS,
};
#define STREAM_NAMES {"shmd_stream_word", "shmd_stream_order", "shmd_stream_move", "shmd_stream_reduce"}
#define STREAM_THREADS {1, 32, 512, 512}

#endif
