/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A QP that is connected to itself and driven by hand: WQEs, dbrec, doorbell, CQE. It is small on purpose; real clients use
 * the library.
 */
#ifndef SHMD_TESTS_RAW_TRAFFIC_H
#define SHMD_TESTS_RAW_TRAFFIC_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/lib/raw-client.h"

#define RAW_TRAFFIC_HEAP_BYTES (1 << 20)
#define RAW_TRAFFIC_IOVA 0x10000

/* Indexes of page_fds. */
enum raw_traffic_page {
	RAW_TRAFFIC_DOORBELL_PAGE,
	RAW_TRAFFIC_NIC_PAGE,
	RAW_TRAFFIC_QUEUE_MEM,
	RAW_TRAFFIC_HEALTH_PAGE,
	RAW_TRAFFIC_PAGES,
};

struct raw_traffic {
	struct raw_client raw; /* after Hello */
	uint8_t *heap; /* registered: RAW_TRAFFIC_IOVA */
	uint32_t heap_bytes;
	uint32_t lkey, rkey;
	uint8_t *queue_mem;
	uint64_t queue_mem_bytes;
	uint8_t *doorbell_page;
	int wake_fd; /* or -1 */
	bool is_uar; /* the doorbell page is a NIC's own, behind its command descriptor; there is no NIC page */
	uint32_t doorbell_offset;
	struct msg_qp_params params; /* of connects from now on; retry_count 0: the daemon's own */
	uint32_t mr, queues; /* handles */
	int page_fds[RAW_TRAFFIC_PAGES]; /* attr.keep_fds; else -1 */
	struct msg_qp_info qp; /* the first of all_qps */
	struct msg_qp_info *all_qps; /* owned */
	struct msg_cq_info *all_cqs; /* owned */
	uint32_t n_qps;
	struct msg_cq_info cq;
	uint16_t pi;
	uint32_t ci;
};

/* Name of a NIC of the backend under test: "soft0", or of the one that SHMEMD_TEST_BACKEND names. */
const char *raw_traffic_nic(unsigned int index);

struct raw_traffic_attr {
	const char *nic; /* or NULL: assigned */
	uint32_t heap_bytes; /* 0: RAW_TRAFFIC_HEAP_BYTES */
	uint32_t log2_sq_wqebbs; /* 0: 4 */
	uint32_t n_rq_wqes; /* of 16 bytes; 0: nothing can be received */
	struct msg_qp_params params; /* of the connects; retry_count 0: the daemon's own */
	uint32_t log2_cq_entries; /* 0: 6 */
	uint32_t n_qps; /* 0: 1; each is connected to itself */
	void (*pump)(void *arg); /* after each request that is sent, as struct raw_client.pump */
	void *pump_arg;
	bool keep_fds; /* the daemon's descriptors stay open in page_fds */
	bool unconnected;
	bool resumes; /* the session outlives its daemon, where sessions do */
	bool own_cqs; /* each QP has a collapsed CQ of its own, which is never full */
};

void raw_traffic_init(struct raw_traffic *traffic, const char *socket);
void raw_traffic_init_with(struct raw_traffic *traffic, const char *socket, const struct raw_traffic_attr *attr);
/* Connect the QP to an endpoint address: its own, or another's. Returns the status of the reply. */
enum shmd_status raw_traffic_connect(struct raw_traffic *traffic, const struct msg_qp_info *to);
void raw_traffic_deinit(struct raw_traffic *traffic);
/* Post one write within the heap and ring the doorbell. */
void raw_traffic_write(struct raw_traffic *traffic, uint32_t to, uint32_t from, uint32_t bytes);
/* The same, any keys and addresses: one write (or, by the opcode, a read, an atomic or a send). */
struct raw_op {
	uint8_t opcode; /* enum shmd_opcode */
	uint32_t qpn; /* in the WQE and the doorbell; 0: its own */
	uint32_t lkey, rkey;
	uint64_t laddr, raddr;
	uint32_t bytes;
};
/* Claim in the dbrecs of all QPs, and nowhere else, that everything before `pi` was posted, whatever the rings hold. */
void raw_traffic_announce(struct raw_traffic *traffic, uint16_t pi);
/* Write a WQE at `pi` and move that on; without dbrec and doorbell, and with both. */
void raw_traffic_fill(struct raw_traffic *traffic, const struct raw_op *op);
void raw_traffic_post(struct raw_traffic *traffic, const struct raw_op *op);
/* Is there one? */
bool raw_traffic_has_cqe(const struct raw_traffic *traffic);
/* Wait for the next CQE; returns its opcode (enum shmd_cqe_opcode). Fails the test after 5 s. */
unsigned int raw_traffic_poll(struct raw_traffic *traffic);
/* The syndrome of the CQE that raw_traffic_poll returned last, when it was an error. */
uint8_t raw_traffic_syndrome(const struct raw_traffic *traffic);

#endif
