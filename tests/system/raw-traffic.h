/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A QP connected to itself, driven by hand: WQEs, dbrec, doorbell, CQE. Small on purpose; real clients use the library.
 */
#ifndef SHMD_TESTS_RAW_TRAFFIC_H
#define SHMD_TESTS_RAW_TRAFFIC_H

#include <stdint.h>

#include "tests/lib/raw-client.h"

#define RAW_TRAFFIC_HEAP_BYTES (1 << 20)
#define RAW_TRAFFIC_IOVA 0x10000

struct raw_traffic {
	struct raw_client raw; /* after Hello */
	uint8_t *heap; /* registered: RAW_TRAFFIC_IOVA */
	uint32_t lkey, rkey;
	uint8_t *queue_mem;
	uint64_t queue_mem_bytes;
	uint8_t *doorbell_page;
	int wake_fd; /* or -1 */
	uint32_t doorbell_offset;
	struct msg_qp_info qp;
	struct msg_cq_info cq;
	uint16_t pi;
	uint32_t ci;
};

void raw_traffic_init(struct raw_traffic *traffic, const char *socket);
void raw_traffic_deinit(struct raw_traffic *traffic);
/* Post one write within the heap and ring the doorbell. */
void raw_traffic_write(struct raw_traffic *traffic, uint32_t to, uint32_t from, uint32_t bytes);
/* Wait for the next CQE; returns its opcode (enum shmd_cqe_opcode). Fails the test after 5 s. */
unsigned int raw_traffic_poll(struct raw_traffic *traffic);

#endif
