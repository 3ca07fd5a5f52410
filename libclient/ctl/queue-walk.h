/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the entries of a queue are, told from its bytes and indexes.
 *
 * Indexes of rings are what 16 bits of the NIC and of doorbell records are compared in. A ring's bytes are a client's and
 * may be anything: walking never leaves them.
 */
#ifndef SHMEMD_CTL_QUEUE_WALK_H
#define SHMEMD_CTL_QUEUE_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum walk_state {
	WALK_CONSUMED, /* the NIC took it (WQE); the client took it (CQE) */
	WALK_PENDING, /* the NIC knows of it; a CQE: waits for the client */
	WALK_NOT_RUNG, /* in the doorbell record, but the NIC has not looked there: no doorbell since */
	WALK_UNANNOUNCED, /* written, and not in the doorbell record */
};

/* Of a send or a receive queue: WQEBBs, or receive WQEs. */
struct walk_ring {
	const uint8_t *bytes; /* n_entries << log2 of the entry's bytes */
	uint32_t n_entries; /* a power of two */
	uint32_t entry_bytes;
	uint32_t qpn;
	uint16_t ci, pi, dbrec; /* the NIC's two, the client's one */
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

/* WQEs, oldest first: those consumed that are still in the ring as they were written, then the others. */
void walk_sq(const struct walk_ring *ring, walk_fn *fn, void *arg);
void walk_rq(const struct walk_ring *ring, walk_fn *fn, void *arg);

struct walk_counts {
	uint32_t pending, not_rung;
};
/* Entries between the indexes. Beyond the ring's size they mean nothing, and are cut to it. */
struct walk_counts walk_count(const struct walk_ring *ring);

/*
 * What the CQE at this consumer index is, in an ordinary CQ: WALK_PENDING when the NIC wrote it and the client, whose
 * index is ci, has not consumed it. False: nothing there.
 */
bool walk_cqe(const uint8_t *cqe, uint32_t index, uint32_t ci, uint32_t log2_entries, enum walk_state *ret_state);

const char *walk_state_text(enum walk_state state);

#endif
