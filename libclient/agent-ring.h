/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's side of a ring (kernels/abi/agent-ring.h): taking requests, each checked, and posting completions.
 *
 * Nothing in the ring is believed. A field of the NIC's is read once, into an agent_op, and checked there; constants of the ring's
 * layout come from the header, never from the ring. An operation with status 0 lies in one region of the table, and its payload in the
 * ring. No thread, no lock, no CUDA: one thread at a time uses a ring.
 */
#ifndef SHMD_AGENT_RING_H
#define SHMD_AGENT_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shmd/abi/agent-ring.h>

#include "proto/base/list.h"

struct agent_gpu;

/* Addresses that the NIC may name. */
struct agent_region {
	struct list link;
	uint64_t addr, bytes;
	struct agent_gpu *gpu; /* which carries out */
};

struct agent_ring {
	int fd; /* the memfd, or -1 once the daemon has it */
	uint8_t *map; /* or NULL */
	uint32_t generation; /* carried out; 0 before the first */
	uint32_t n_taken, n_completed; /* in this generation */
};

struct agent_op {
	uint32_t id;
	uint8_t op; /* enum shmd_agent_op, if status is 0 */
	int32_t status; /* 0, or why it is not carried out */
	uint64_t addr, bytes;
	uint8_t *payload; /* in the ring: a write comes from here, a read goes here; of an atomic, the old value */
	struct agent_gpu *gpu;
	struct shmd_agent_atomic atomic;
	uint64_t old_value, new_value; /* of an atomic, once it is known */
	const struct agent_op *follows; /* of an atomic, whose write of the word is its own too; or NULL */
};

static inline size_t agent_ring_bytes(void)
{
	return SHMD_AGENT_DATA_OFFSET + SHMD_AGENT_DATA_BYTES;
}

/* A ring in a new memfd, sealed. Sets the error text. */
int agent_ring_make(struct agent_ring *ret_ring);
/* May be called twice. Other processes keep their mappings. */
void agent_ring_free(struct agent_ring *ring);
/* There are requests, or a new generation. */
bool agent_ring_has_news(const struct agent_ring *ring);
/*
 * Takes up to max requests, in their order. Before a generation that the NIC has begun it forgets the former one. The payload of a read
 * may be part of a completion that agent_ring_complete() posts, so all that were taken are completed before more are taken.
 */
unsigned int agent_ring_take(struct agent_ring *ring, const struct list *regions, struct agent_op *ops, unsigned int max);
/* Posts a completion for each, those of agent_ring_take() in the same order. */
void agent_ring_complete(struct agent_ring *ring, const struct agent_op *ops, unsigned int n);
/* Fences, so that a look at the ring comes behind it. */
void agent_ring_set_asleep(struct agent_ring *ring, bool is_asleep);
void agent_ring_set_state(struct agent_ring *ring, enum shmd_agent_state state);

/* The new value of a word of 4 or 8 bytes that holds `old`. */
uint64_t agent_atomic_apply(const struct agent_op *op, uint64_t old);

static inline bool agent_op_is_atomic(const struct agent_op *op)
{
	return op->op == SHMD_AGENT_FETCH_ADD || op->op == SHMD_AGENT_COMPARE_SWAP;
}

#endif
