/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that kernels without code for queues write to a ring, for a thread of the host. Pure: no GPU, no world.
 *
 * A request is some words of 8 bytes. Byte 0 of each is a flag that changes with every turn of the ring, so a word shows by itself that it is there. This is what
 * device libraries up to 3.4 write; later ones have code for queues.
 */
#ifndef SHMD_NVSHMEM_PROXY_REQUESTS_H
#define SHMD_NVSHMEM_PROXY_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#define NVS_RING_LOG2 22u
#define NVS_RING_BYTES (1u << NVS_RING_LOG2)
#define NVS_RING_WORD 8u
#define NVS_REQUEST_WORDS 5u /* of the longest */
#define NVS_RESULTS_LOG2 12u
#define NVS_RESULTS (1u << NVS_RESULTS_LOG2)

/* In GPU memory: where a kernel looks for the former value of an atomic, once it has made a quiet. */
struct nvs_result_place {
	uint64_t value, flag; /* flag is the kernel's */
};

enum nvs_request_op {
	NVS_REQUEST_PUT = 1,
	NVS_REQUEST_P = 2,
	NVS_REQUEST_GET = 4,
	NVS_REQUEST_G = 5,
	NVS_REQUEST_FENCE = 6,
	NVS_REQUEST_ATOMIC = 7,
};

enum nvs_request_atomic {
	NVS_ATOMIC_INC = 2,
	NVS_ATOMIC_SET = 3,
	NVS_ATOMIC_ADD = 4,
	NVS_ATOMIC_AND = 5,
	NVS_ATOMIC_OR = 6,
	NVS_ATOMIC_XOR = 7,
	NVS_ATOMIC_SIGNAL = 8,
	NVS_ATOMIC_SIGNAL_SET = 9,
	NVS_ATOMIC_SIGNAL_ADD = 10,
	NVS_ATOMIC_FETCH = 12, /* these bring the former value */
	NVS_ATOMIC_FETCH_INC = 13,
	NVS_ATOMIC_FETCH_ADD = 14,
	NVS_ATOMIC_FETCH_AND = 15,
	NVS_ATOMIC_FETCH_OR = 16,
	NVS_ATOMIC_FETCH_XOR = 17,
	NVS_ATOMIC_SWAP = 18,
	NVS_ATOMIC_COMPARE_SWAP = 19,
};

struct nvs_request {
	uint8_t op, atomic;
	uint16_t pe;
	uint64_t offset; /* in the heap */
	uint64_t local; /* PUT, GET, G: an address of this PE */
	uint64_t bytes; /* all but FENCE */
	uint64_t value, compare; /* P, ATOMIC */
	uint64_t result; /* ATOMIC: counts results; its place is this modulo NVS_RESULTS */
};

/* Whether the word at this index of an endless ring has been written. */
bool nvs_ring_has(uint64_t index, uint64_t word);
/* The number of words of a request, by its first one; 0: an unknown request. */
uint32_t nvs_request_words(uint64_t first);
void nvs_request_read(const uint64_t *words, struct nvs_request *ret_request);

#endif
