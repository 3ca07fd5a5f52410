/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of the kernels in kernels.cu and selftest.cu; plain C, for the code that launches them. */
#ifndef SHMD_CUDA_KERNELS_H
#define SHMD_CUDA_KERNELS_H

#include <shmd/dev/args.h>

/* Pointers are valid on the GPU; status and done have an entry for each thread of the launch. */
struct shmd_kernel_args {
	struct shmd_dev_qp *qp;
	struct shmd_dev_addr remote; /* `bytes` at the peer */
	struct shmd_dev_addr local; /* `bytes` here */
	struct shmd_dev_addr word; /* an aligned 64-bit word at the peer */
	const uint64_t *local_word; /* the same word when the peer is this process, else any that is not 0 */
	uint64_t bytes;
	uint64_t value;
	uint64_t timeout_nsec;
	int *status;
	uint32_t *done;
	const struct shmd_dev_peer *peers; /* the QP is a DCI, and the others' memory is behind any of them; else NULL */
	uint32_t n_peers;
};

/* shmd_selftest: a QP whose peer is this process, so that every effect can be looked at. */
struct shmd_selftest_args {
	struct shmd_dev_qp *qp;
	struct shmd_dev_addr remote; /* the same memory as `local`, by its rkey */
	struct shmd_dev_addr local;
	uint8_t *memory; /* the same memory, as this GPU sees it */
	uint64_t bytes; /* of it: at least SHMD_SELFTEST_MIN_BYTES */
	uint64_t timeout_nsec;
	struct shmd_selftest_result *result;
	const struct shmd_dev_peer *peers; /* as above: `remote` is behind any of them */
	uint32_t n_peers;
};

#define SHMD_SELFTEST_BLOCK_BYTES 65536u
#define SHMD_SELFTEST_MAX_THREADS 1024 /* of one block: a bound for the compiler too */
#define SHMD_SELFTEST_MIN_BYTES (3u * SHMD_SELFTEST_BLOCK_BYTES)

struct shmd_selftest_result {
	int status; /* first status that was not SHMD_DEV_OK */
	uint32_t step; /* enum shmd_selftest_step, where */
	uint64_t n_wrong; /* bytes or words with the wrong contents */
	uint64_t n_operations;
};

enum shmd_selftest_step {
	SHMD_SELFTEST_DONE = 0,
	SHMD_SELFTEST_PUT = 1, /* one put by the block */
	SHMD_SELFTEST_GET = 2, /* and a get of it */
	SHMD_SELFTEST_WARPS = 3, /* a put by each warp, with a signal */
	SHMD_SELFTEST_THREADS = 4, /* p and g by each thread */
	SHMD_SELFTEST_TICKETS = 5, /* fetch-and-add by each thread, 4 and 8 bytes */
	SHMD_SELFTEST_BATCHES = 6, /* 32 WQEs by the lanes of each warp, one doorbell */
};

#endif
