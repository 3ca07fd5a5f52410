/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agent ring: how a NIC in software reaches memory that only its owner's process can touch, such as that of a GPU.
 *
 * One ring for each (session, NIC), in a sealed memfd that the library makes. The NIC's data thread writes requests, the memory agent, a
 * thread of the library, carries them out and writes completions, in any order. The file is
 *	page 0		struct shmd_agent_ring
 *	then		struct shmd_agent_request[SHMD_AGENT_ENTRIES]
 *	then		struct shmd_agent_completion[SHMD_AGENT_ENTRIES]
 *	data_offset	data_bytes of payload, which the NIC alone divides among its requests
 * Neither side believes the other: the NIC keeps its own list of what is under way and ignores completions that name nothing of it; the
 * agent checks address, size and data offset against its own table of regions. Each side reads a field of the other's once.
 *
 * Indexes count up and wrap at 2^32; the entry is the index modulo SHMD_AGENT_ENTRIES. The NIC has at most SHMD_AGENT_ENTRIES requests under
 * way, so neither ring overflows.
 *
 * Wakes. The agent stores agent_asleep, fences, looks at n_requests once more and sleeps on its descriptor, an eventfd that the daemon made; the
 * NIC stores n_requests, fences, and writes the eventfd if agent_asleep is not 0. The other way it is the NIC's own wake (struct shmd_nic_page):
 * the agent stores n_completions, fences, reads asleep, and writes the session's wake descriptor.
 *
 * Generations. A NIC that takes the ring over, after a restart of the daemon, stores generation, higher than before; the agent finishes
 * what it has begun, forgets the rest, sets n_requests_seen and n_completions to 0 and stores agent_generation. Until then the NIC posts nothing.
 */
#ifndef SHMD_ABI_AGENT_RING_H
#define SHMD_ABI_AGENT_RING_H

#include "types.h"

#define SHMD_AGENT_RING_VERSION 1u
#define SHMD_AGENT_ENTRIES 1024u
#define SHMD_AGENT_REQUESTS_OFFSET 4096u
#define SHMD_AGENT_COMPLETIONS_OFFSET (SHMD_AGENT_REQUESTS_OFFSET + SHMD_AGENT_ENTRIES * 128u)
#define SHMD_AGENT_DATA_OFFSET (SHMD_AGENT_COMPLETIONS_OFFSET + SHMD_AGENT_ENTRIES * 64u)
#define SHMD_AGENT_DATA_BYTES (UINT64_C(8) << 20) /* what the library makes; the NIC takes 1 MiB to 64 MiB */
#define SHMD_AGENT_INLINE_BYTES 64u /* of a write, in its request */
#define SHMD_AGENT_INLINE_READ_BYTES 40u /* of a read, in its completion */

enum shmd_agent_state {
	SHMD_AGENT_STARTING = 0,
	SHMD_AGENT_RUNNING = 1,
	SHMD_AGENT_ENDED = 2, /* it will carry out nothing more: the NIC fails what is under way */
};

struct shmd_agent_ring {
	/* constant, written by the library before it sends the descriptor */
	uint32_t version; /* SHMD_AGENT_RING_VERSION */
	uint32_t size_bytes; /* of this struct */
	uint64_t data_offset; /* SHMD_AGENT_DATA_OFFSET */
	uint64_t data_bytes; /* a multiple of 64 KiB */
	uint8_t reserved0[40];

	/* written by the NIC */
	uint32_t n_requests; /* posted in this generation; stored with release */
	uint32_t generation; /* from 1 */
	uint8_t reserved1[56];

	/* written by the agent */
	uint32_t n_completions; /* posted in this generation; stored with release */
	uint32_t agent_generation; /* 0 before the first */
	uint32_t agent_asleep; /* 0 or 1 */
	uint32_t agent_state; /* enum shmd_agent_state */
	uint8_t reserved2[48];
};
SHMD_PIN_SIZE(struct shmd_agent_ring, 192);
SHMD_PIN_OFFSET(struct shmd_agent_ring, n_requests, 64);
SHMD_PIN_OFFSET(struct shmd_agent_ring, n_completions, 128);

enum shmd_agent_op {
	SHMD_AGENT_READ = 1,
	SHMD_AGENT_WRITE = 2,
	SHMD_AGENT_FETCH_ADD = 3,
	SHMD_AGENT_COMPARE_SWAP = 4,
};

/* As struct engine_atomic of the daemon; native byte order. */
struct shmd_agent_atomic {
	uint64_t swap_or_add;
	uint64_t compare;
	uint64_t swap_mask, compare_mask; /* all ones for the plain form */
	uint64_t boundary; /* fetch-add: set bits stop carries; 0 for the plain form */
};
SHMD_PIN_SIZE(struct shmd_agent_atomic, 40);

struct shmd_agent_request {
	uint32_t id; /* the NIC's; the completion returns it */
	uint8_t op; /* enum shmd_agent_op */
	uint8_t reserved0[3];
	uint64_t addr; /* in the agent's process */
	uint64_t bytes; /* of a read or write: 1 to data_bytes; of an atomic: 4 or 8 */
	/*
	 * Where the payload is, from the start of the file. 0: a write of at most SHMD_AGENT_INLINE_BYTES has it in `inline_data`, and a read
	 * of at most SHMD_AGENT_INLINE_READ_BYTES gets it in its completion.
	 */
	uint64_t data_offset;
	union {
		struct shmd_agent_atomic atomic;
		uint8_t inline_data[SHMD_AGENT_INLINE_BYTES];
	};
	uint8_t reserved1[32];
};
SHMD_PIN_SIZE(struct shmd_agent_request, 128);
SHMD_PIN_OFFSET(struct shmd_agent_request, addr, 8);
SHMD_PIN_OFFSET(struct shmd_agent_request, inline_data, 32);

struct shmd_agent_completion {
	uint32_t id;
	int32_t status; /* 0 or a negative errno */
	uint64_t old_value; /* of an atomic */
	uint8_t inline_data[SHMD_AGENT_INLINE_READ_BYTES];
	uint8_t reserved[8];
};
SHMD_PIN_SIZE(struct shmd_agent_completion, 64);
SHMD_PIN_OFFSET(struct shmd_agent_completion, old_value, 8);
SHMD_PIN_OFFSET(struct shmd_agent_completion, inline_data, 16);

#endif
