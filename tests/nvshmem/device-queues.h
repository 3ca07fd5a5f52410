/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread of the CPU drives queues as NVSHMEM's device code does: it reads the copies of the states that the host library has written, and
 * nothing else of the library's. Addresses are symmetric ones of this PE. Each function of a queue takes the number of one of the queues to the
 * PE, behind which are those that were created; to this PE itself there is one.
 */
#ifndef SHMEMD_TESTS_DEVICE_QUEUES_H
#define SHMEMD_TESTS_DEVICE_QUEUES_H

#include "libclient/compat/nvshmem/ibgda-images.h"
#include "tests/nvshmem/device-library.h"

struct device_queues {
	struct nvs_state state;
	struct nvs_ibgda_state ibgda;
};
/* The states as they are now. Also after the heap has grown. */
struct device_queues device_queues_read(void);

struct nvs_ibgda_qp *queue_to(const struct device_queues *queues, int pe, uint32_t number);
/* Post, with one doorbell. Memory on this side is in the heap, or registered. */
void queue_put(const struct device_queues *queues, uint32_t number, void *dest, const void *source, size_t bytes, int pe);
void queue_get(const struct device_queues *queues, uint32_t number, void *dest, const void *source, size_t bytes, int pe);
/* Up to 12 bytes in the request. */
void queue_p(const struct device_queues *queues, uint32_t number, void *dest, const void *value, size_t bytes, int pe);
void queue_add8(const struct device_queues *queues, uint32_t number, uint64_t *word, uint64_t value, int pe);
/* A put, and an atomic behind it with the same doorbell. */
void queue_put_signal(const struct device_queues *queues, uint32_t number, void *dest, const void *source, size_t bytes, uint64_t *signal, uint64_t value,
		      int pe);
/* Wait for what they return. swap8 takes two units, and one more of nothing for the CQE. */
uint64_t queue_fetch_add8(const struct device_queues *queues, uint32_t number, uint64_t *word, uint64_t value, int pe);
uint32_t queue_fetch_add4(const struct device_queues *queues, uint32_t number, uint32_t *word, uint32_t value, int pe);
uint64_t queue_swap8(const struct device_queues *queues, uint32_t number, uint64_t *word, uint64_t value, int pe);
/* 0; -1: the CQE is an error, where device code asserts. */
int queue_quiet(const struct device_queues *queues, uint32_t number, int pe);

#endif
