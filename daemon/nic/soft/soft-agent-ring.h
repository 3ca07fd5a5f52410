/* SPDX-License-Identifier: Apache-2.0 */
/* The NIC's side of an agent ring (kernels/abi/agent-ring.h): posting requests, taking completions. Pure. */
#ifndef SHMEMD_NIC_SOFT_AGENT_RING_H
#define SHMEMD_NIC_SOFT_AGENT_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shmd/abi/agent-ring.h>

#include "daemon/engine/engine.h"

#define AGENT_RING_MIN_DATA_BYTES (UINT64_C(1) << 20)
#define AGENT_RING_MAX_DATA_BYTES (UINT64_C(64) << 20)
#define AGENT_RING_MAX_BYTES (AGENT_RING_MAX_DATA_BYTES + SHMD_AGENT_DATA_OFFSET)
#define AGENT_RING_UNIT_BYTES 4096u
#define AGENT_RING_PART_BYTES 65536u /* most of one request: larger operations are several */

/* One request. Addresses are the agent's. */
struct agent_request {
	enum shmd_agent_op op;
	uint64_t addr;
	uint32_t bytes; /* of a read or write: 1 to AGENT_RING_PART_BYTES */
	void *dst; /* READ: filled when it is done */
	const void *src; /* WRITE: read when it is posted */
	struct engine_atomic atomic; /* FETCH_ADD, COMPARE_SWAP */
	uint64_t *ret_old; /* the same: written when it is done */
};

struct agent_ring_slot {
	bool is_used;
	uint32_t id;
	uint32_t first_unit, n_units; /* of the data area; n_units 0: none */
	struct agent_request request;
	void *user;
};

struct agent_ring {
	uint8_t *map; /* borrowed; the agent writes it at any time */
	uint64_t data_offset, data_bytes; /* as they were at first */
	uint32_t generation;
	uint32_t n_requests, n_completions; /* posted, and taken */
	bool is_dead; /* nothing is posted or taken any more */
	uint32_t n_free_units, next_unit;
	uint32_t n_used, next_slot, next_id;
	uint8_t unit_is_used[AGENT_RING_MAX_DATA_BYTES / AGENT_RING_UNIT_BYTES];
	struct agent_ring_slot slots[SHMD_AGENT_ENTRIES];
};

/* A request that is done. */
struct agent_done {
	void *user; /* as it was posted with */
	int status; /* 0 or negative errno */
};

/* Checks what the library wrote into a file of `bytes`, and begins generation 1. -EINVAL; the ring is left alone then. */
int agent_ring_init(struct agent_ring *ring, void *map, uint64_t bytes);
/* The agent serves this generation. It may still end at any time. */
bool agent_ring_is_ready(const struct agent_ring *ring);
bool agent_ring_has_ended(const struct agent_ring *ring);
/* -EAGAIN: there is no room now; -EPIPE the ring is dead; -EINVAL. */
int agent_ring_post(struct agent_ring *ring, const struct agent_request *request, void *user);
/* True: the agent sleeps, and is to be woken. After the last of a row of posts. */
bool agent_ring_must_wake(const struct agent_ring *ring);
/* Is there something to take? */
bool agent_ring_has_news(const struct agent_ring *ring);
/* 1 and *ret_done; 0: nothing; -EPROTO: the agent wrote nonsense, and the ring is dead. */
int agent_ring_take(struct agent_ring *ring, struct agent_done *ret_done);
/* Makes the ring dead, and forgets one request that was under way. False: there is none. */
bool agent_ring_forget(struct agent_ring *ring, void **ret_user);

#endif
