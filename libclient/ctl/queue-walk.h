/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The states of a queue's entries, by its bytes and indexes.
 *
 * Indexes are compared in 16 bits, as the NIC and doorbell records count them. A ring's bytes are a client's and
 * may be anything: walking never leaves them.
 */
#ifndef SHMEMD_CTL_QUEUE_WALK_H
#define SHMEMD_CTL_QUEUE_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum walk_state {
	WALK_CONSUMED, /* the NIC took it (WQE); the client took it (CQE) */
	WALK_PENDING, /* the NIC has its doorbell (WQE); waits for the client (CQE) */
	WALK_NOT_RUNG, /* in the doorbell record, but no doorbell has rung since */
	WALK_UNANNOUNCED, /* written, and not in the doorbell record */
};

/* The ring of a send or a receive queue: WQEBBs, or receive WQEs. */
struct walk_ring {
	const uint8_t *bytes; /* n_entries << log2 of the entry's bytes */
	uint32_t n_entries; /* a power of two */
	uint32_t entry_bytes;
	uint32_t qpn;
	uint16_t ci, pi, dbrec; /* the first two are the NIC's, dbrec the client's */
};

struct walk_entry {
	uint16_t index;
	uint32_t slot;
	uint32_t n_entries; /* WQEBBs that it takes */
	enum walk_state state;
	const uint8_t *at; /* its bytes in a row: in the ring, or in unwrapped */
	size_t bytes;
	uint8_t unwrapped[1024];
};

typedef void walk_fn(void *arg, const struct walk_entry *entry);

/* WQEs, oldest first: consumed ones that are still intact in the ring, then the others. */
void walk_sq(const struct walk_ring *ring, walk_fn *fn, void *arg);
void walk_rq(const struct walk_ring *ring, walk_fn *fn, void *arg);

struct walk_counts {
	uint32_t pending, not_rung;
};
/* Entries between the indexes, at most the ring's size. */
struct walk_counts walk_count(const struct walk_ring *ring);

/*
 * The state of the CQE at this consumer index of an ordinary CQ: WALK_PENDING if the NIC wrote it and the client, whose
 * index is ci, has not consumed it. False: no CQE is there.
 */
bool walk_cqe(const uint8_t *cqe, uint32_t index, uint32_t ci, uint32_t log2_entries, enum walk_state *ret_state);

const char *walk_state_text(enum walk_state state);

#endif
