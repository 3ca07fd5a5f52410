/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shmemd-traffic: what both directions of its traffic have, and what is counted.
 *
 * A side sends to its peer in batches; each operation has a number, so that what is missing, comes twice or in another order, or brings
 * other bytes is seen at once.
 */
#ifndef SHMD_TESTS_TRAFFIC_H
#define SHMD_TESTS_TRAFFIC_H

#include <stdbool.h>
#include <stdint.h>

#include <shmemclient.h>
#include <shmd/dev/rma.h>

#define TRAFFIC_BATCH 8u /* of each kind */
#define TRAFFIC_BLOCK_BYTES 4096u
#define TRAFFIC_MESSAGE_BYTES 64u
#define TRAFFIC_RECVS 64u

/* Registered; peers write to all but the sources. */
struct traffic_memory {
	uint64_t counter; /* adds of the peer */
	uint64_t fetched; /* fetching adds of the peer */
	uint8_t blocks[TRAFFIC_BATCH][TRAFFIC_BLOCK_BYTES]; /* puts of the peer */
	uint8_t immediates[TRAFFIC_BATCH][TRAFFIC_MESSAGE_BYTES]; /* its immediate writes */
	uint8_t received[TRAFFIC_RECVS][TRAFFIC_MESSAGE_BYTES]; /* its sends */
	uint8_t block_sources[TRAFFIC_BATCH][TRAFFIC_BLOCK_BYTES];
	uint8_t message_sources[2 * TRAFFIC_BATCH][TRAFFIC_MESSAGE_BYTES];
	uint8_t read[TRAFFIC_BLOCK_BYTES];
};

struct traffic_counts {
	uint64_t batches, puts, gets, adds, fetches, sends, immediates, requests;
	uint64_t unknown; /* atomics whose outcome is unknown: queues were made anew */
};

struct traffic_side {
	const char *name;
	struct traffic_side *peer;
	struct traffic_counts *counts;
	uint64_t patience_nsec;
	struct shmd_client *client;
	struct shmd_nic *nic;
	struct shmd_mem *mem;
	struct shmd_mr *mr;
	struct shmd_queues *queues;
	struct shmd_dev_qp *qp;
	struct shmd_recv_cq rcq;
	struct traffic_memory *memory;
	uint32_t recv_ci;
	/* State of these queues. */
	uint64_t n_added, n_fetched; /* by us, at the peer */
	uint32_t n_messages, n_heard; /* sends and immediate writes: by us; of the peer's */
};

/* Ends the program with 1 and these words. */
void traffic_die(const struct traffic_side *side, const char *fmt, ...) __attribute__((noreturn, format(printf, 2, 3)));

/* One batch from side to its peer: posted, waited for and checked. False: the outcome of an atomic is unknown. */
bool traffic_batch(struct traffic_side *side);
/* Buffers for all that may come; queues are new. */
void traffic_begin(struct traffic_side *side);
/* After a batch whose outcome is unknown: what the peer's counters may be. */
void traffic_check_unknown(const struct traffic_side *side);

#endif
