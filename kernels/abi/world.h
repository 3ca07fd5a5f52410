/* SPDX-License-Identifier: Apache-2.0 */
/*
 * World state: what device functions on a symmetric address and a PE see (<shmd/dev/pe.h>).
 *
 * Filled by the runtime of libshmemclient, in host memory for CPU threads and in GPU memory for kernels. It stands above the
 * dev-states of the queues that it names. Addresses hold where the functions run, so the layout is the same for every reader.
 *
 * Heaps	A PE has up to SHMD_DEV_HEAPS symmetric heaps, for host and for GPU memory. All PEs have the same offsets in use. A
 *		reader reserves the same number of bytes for the heap of each PE that it can map, so a PE's copy of `addr` is at
 *		pe.heap_addr[h] + (addr - heap[h].own_addr), and for the NIC at heap[h].iova + (addr - heap[h].own_addr).
 * Growth	Chunks are added behind one another. The runtime writes keys and ends of a chunk first and then stores
 *		used_bytes with release; readers check an address against used_bytes. Nothing moves and nothing shrinks.
 * Mutable	Device functions write what stands under "mutable" only; pe.path and the last line of the world change while they
 *		read. Everything else is constant once the world, context or team is open.
 * Versioned and size-stamped: a reader refuses a version that it does not know, or a size below its own.
 */
#ifndef SHMD_ABI_WORLD_H
#define SHMD_ABI_WORLD_H

#include "types.h"

#define SHMD_DEV_WORLD_VERSION 5u
#define SHMD_DEV_HEAPS 2u
#define SHMD_DEV_HEAP_CHUNKS 64u /* of each heap */
#define SHMD_DEV_RAILS 4u /* NICs that a PE uses at once */

/* Which memory a heap is. */
enum shmd_dev_heap_kind {
	SHMD_DEV_HEAP_HOST = 0,
	SHMD_DEV_HEAP_GPU = 1,
};

/* How the memory of a PE is reached. A PE's path changes once at most, to GONE. */
enum shmd_path {
	SHMD_PATH_NONE = 0, /* a setting forbids all paths, or the PE has no NIC */
	SHMD_PATH_SELF = 1, /* the caller itself */
	SHMD_PATH_MAPPED = 2, /* its heap is mapped here: loads, stores and atomics of the caller */
	SHMD_PATH_QUEUE = 3, /* requests on a queue of the context */
	SHMD_PATH_GONE = 4, /* it has ended or is unreachable; operations to it fail */
};

/* One PE, as the owner of this world state reaches it. A cache line each. */
struct shmd_dev_pe {
	uint64_t heap_addr[SHMD_DEV_HEAPS]; /* offset 0 of its heaps in the reader's address space; 0: not mapped */
	uint32_t path[SHMD_DEV_HEAPS]; /* enum shmd_path, for each heap */
	uint32_t node; /* equal numbers: one node */
	uint32_t node_pe; /* its place among the PEs of its node */
	uint8_t reserved[32];
};
SHMD_PIN_SIZE(struct shmd_dev_pe, 64);
SHMD_PIN_OFFSET(struct shmd_dev_pe, path, 16);
SHMD_PIN_OFFSET(struct shmd_dev_pe, node, 24);

/* One heap of this PE. */
struct shmd_dev_heap {
	uint64_t own_addr; /* offset 0 of the caller's own heap; 0: the world has no such heap */
	uint64_t range_bytes; /* reserved for each PE; a multiple of the granule */
	uint64_t used_bytes; /* end of the last chunk; grows, stored with release */
	uint64_t iova; /* of offset 0, for NICs, the same on all PEs */
	uint64_t chunk_index_addr; /* uint8_t[range_bytes >> log2_granule]: the chunk in which a granule lies */
	uint64_t chunk_ends_addr; /* uint64_t[SHMD_DEV_HEAP_CHUNKS]: first offset behind each chunk */
	uint32_t log2_granule; /* chunks begin and end at multiples of it */
	uint32_t kind; /* enum shmd_dev_heap_kind */
	uint8_t reserved[8];
};
SHMD_PIN_SIZE(struct shmd_dev_heap, 64);
SHMD_PIN_OFFSET(struct shmd_dev_heap, used_bytes, 16);
SHMD_PIN_OFFSET(struct shmd_dev_heap, chunk_index_addr, 32);
SHMD_PIN_OFFSET(struct shmd_dev_heap, log2_granule, 48);

/* Local memory outside the heaps that is registered on all rails of the caller, with its address as iova. */
struct shmd_dev_buffer {
	uint64_t addr, end_addr;
	shmd_be32 lkey_be[SHMD_DEV_RAILS];
};
SHMD_PIN_SIZE(struct shmd_dev_buffer, 32);

/* A table of them in ascending order, without overlap. The runtime replaces the whole table. */
struct shmd_dev_buffers {
	uint64_t n;
	uint64_t reserved;
	/* struct shmd_dev_buffer[n] follows */
};
SHMD_PIN_SIZE(struct shmd_dev_buffers, 16);

/* How a context reaches a PE by a queue. */
struct shmd_dev_pe_way {
	uint64_t qp_addr; /* struct shmd_dev_qp: an RC QP with this PE as its peer, or a DCI; 0: none */
	uint64_t peer_addr; /* struct shmd_dev_peer for a DCI; 0: the QP is connected */
	uint64_t state_addr; /* struct shmd_dev_state with routes (hot peers), asked for each post; 0: qp_addr and peer_addr hold */
	uint32_t peer_index; /* in the peers of that state */
	uint16_t rail; /* of the caller: selects lkeys */
	uint16_t peer_rail; /* of the PE: selects rkeys */
};
SHMD_PIN_SIZE(struct shmd_dev_pe_way, 32);
SHMD_PIN_OFFSET(struct shmd_dev_pe_way, peer_index, 24);
SHMD_PIN_OFFSET(struct shmd_dev_pe_way, rail, 28);

/* struct shmd_dev_world.flags */
/*
 * Some PE is reached by a NIC whose atomics do not meet those of the reader, a CPU or a GPU: all atomics and signals of the world go by
 * queues, also those to the caller itself and to mapped PEs. Then every PE has a way.
 */
#define SHMD_WORLD_ATOMICS_BY_QUEUE 0x1u
/* Stores in place and a queue lead to one PE, to its two heaps, and have no order with each other: a fence is a quiet. */
#define SHMD_WORLD_FENCE_WAITS 0x2u

struct shmd_dev_world {
	uint32_t version; /* SHMD_DEV_WORLD_VERSION */
	uint32_t size_bytes; /* of this struct as the writer knew it */
	uint32_t my_pe;
	uint32_t n_pes;
	uint32_t n_heaps; /* heaps beyond have own_addr 0 */
	uint32_t n_rails; /* of the caller */
	uint32_t flags; /* SHMD_WORLD_* */
	uint32_t my_node;
	uint64_t pes_addr; /* struct shmd_dev_pe[n_pes] */
	uint64_t world_team_addr; /* struct shmd_dev_team of all PEs */
	uint64_t timeout_nsec; /* of waits; SHMD_DEV_NO_TIMEOUT: none */
	uint64_t health_addr; /* struct shmd_health_page of the session; 0: no session */
	struct shmd_dev_heap heap[SHMD_DEV_HEAPS];
	/* By rail: shmd_be32[SHMD_DEV_HEAPS * SHMD_DEV_HEAP_CHUNKS], index heap * SHMD_DEV_HEAP_CHUNKS + chunk */
	uint64_t lkeys_addr[SHMD_DEV_RAILS];
	/* By rail of the peer: shmd_be32[SHMD_DEV_HEAPS * SHMD_DEV_HEAP_CHUNKS][n_pes] */
	uint64_t rkeys_addr[SHMD_DEV_RAILS];
	uint64_t buffers_addr; /* struct shmd_dev_buffers, or 0; loaded with acquire */
	uint8_t reserved0[56];

	/* changes while functions wait: written by the runtime, never by device functions */
	uint32_t n_gone; /* PEs that have ended */
	/* n_gone that the program has acknowledged: while n_gone differs, waits for memory and syncs end with SHMD_DEV_PE_GONE */
	uint32_t n_gone_known;
	uint32_t first_gone; /* the first of them; undefined while n_gone is 0 */
	uint32_t ended; /* not 0: the world was aborted */
	uint8_t reserved1[48];
};
SHMD_PIN_SIZE(struct shmd_dev_world, 384);
SHMD_PIN_OFFSET(struct shmd_dev_world, pes_addr, 32);
SHMD_PIN_OFFSET(struct shmd_dev_world, heap, 64);
SHMD_PIN_OFFSET(struct shmd_dev_world, lkeys_addr, 192);
SHMD_PIN_OFFSET(struct shmd_dev_world, rkeys_addr, 224);
SHMD_PIN_OFFSET(struct shmd_dev_world, buffers_addr, 256);
SHMD_PIN_OFFSET(struct shmd_dev_world, n_gone, 320);

/* ---- contexts -------------------------------------------------------------------------------------------------------------- */

/* PEs whose addresses a context, and a team, has at hand. */
#define SHMD_DEV_NEAR_PES 8u

/* struct shmd_dev_near.flags */
#define SHMD_NEAR_ATOMICS 0x1u /* atomics and signals are carried out in place, too */

/*
 * One heap at the first PEs, as far as it is mapped here: a call finds its address by one load, where the way through the world takes a
 * chain of them. Constant, but that used_bytes grows. All zeros: calls look in the world.
 */
struct shmd_dev_near {
	uint64_t own_addr; /* offset 0 of the caller's own */
	uint64_t used_bytes; /* in use as far as the context knows; there may be more */
	uint64_t gone_addr; /* n_gone of the world */
	uint32_t heap;
	uint32_t flags; /* SHMD_NEAR_* */
	uint64_t peer_addr[SHMD_DEV_NEAR_PES]; /* offset 0 of PE 0.. of the context; 0: not mapped, or no such PE */
};
SHMD_PIN_SIZE(struct shmd_dev_near, 96);
SHMD_PIN_OFFSET(struct shmd_dev_near, peer_addr, 32);

/*
 * A stream of operations with an order of its own. A kernel may have a copy of it among its parameters, which lie in memory that fences do
 * not empty; self_addr leads from there to what changes.
 */
struct shmd_dev_ctx {
	uint64_t world_addr; /* struct shmd_dev_world */
	uint64_t team_addr; /* struct shmd_dev_team: PEs are numbered as in it; 0: as in the world */
	uint64_t ways_addr; /* struct shmd_dev_pe_way[n_pes of the world]; 0: no queues */
	uint64_t qps_addr; /* uint64_t[n_qps]: every QP of the context, for quiet */
	uint64_t states_addr; /* uint64_t[n_states]: dev-states with routes, whose hot QPs belong to it as well */
	uint32_t n_qps;
	uint32_t n_states;
	uint64_t timeout_nsec; /* of plain functions; SHMD_DEV_NO_TIMEOUT: none */
	/*
	 * Memory that is registered on the rails of the ways. Data of the caller's that is not goes through it, which is slower.
	 */
	uint64_t bounce_addr, bounce_bytes; /* 0 bytes: unregistered memory is refused */
	uint64_t bounce_iova;
	shmd_be32 bounce_lkey_be[SHMD_DEV_RAILS];
	uint32_t sharing; /* enum shmd_sharing */
	uint32_t id; /* 0: the default context of the world */
	/*
	 * struct shmd_dev_pe_way[n_pes of the world]: atomics and signals go by these, since all of a PE's words must meet one NIC of it; 0: they
	 * go by the other ways, too. Only with SHMD_WORLD_ATOMICS_BY_QUEUE.
	 */
	uint64_t amo_ways_addr;
	uint64_t self_addr; /* of the context that this is a copy of; 0: this is no copy */
	uint8_t reserved0[8];
	struct shmd_dev_near near;
	uint8_t reserved1[32];

	/* mutable */
	uint32_t bounce_lock; /* 0 free, 1 held */
	uint8_t reserved2[60];
};
SHMD_PIN_SIZE(struct shmd_dev_ctx, 320);
SHMD_PIN_OFFSET(struct shmd_dev_ctx, n_qps, 40);
SHMD_PIN_OFFSET(struct shmd_dev_ctx, timeout_nsec, 48);
SHMD_PIN_OFFSET(struct shmd_dev_ctx, bounce_addr, 56);
SHMD_PIN_OFFSET(struct shmd_dev_ctx, bounce_lkey_be, 80);
SHMD_PIN_OFFSET(struct shmd_dev_ctx, sharing, 96);
SHMD_PIN_OFFSET(struct shmd_dev_ctx, amo_ways_addr, 104);
SHMD_PIN_OFFSET(struct shmd_dev_ctx, self_addr, 112);
SHMD_PIN_OFFSET(struct shmd_dev_ctx, near, 128);
SHMD_PIN_OFFSET(struct shmd_dev_ctx, bounce_lock, 256);

/* ---- teams ----------------------------------------------------------------------------------------------------------------- */

#define SHMD_DEV_MAX_TEAMS 1024u
#define SHMD_DEV_SYNC_ROUNDS 16u
#define SHMD_DEV_COLL_FLAG SHMD_DEV_SYNC_ROUNDS
/*
 * Scratch of a team, in the part of heap 0 that the runtime keeps for itself, at the same offset on all PEs. One flag of 64 bits for
 * each round of a dissemination, in a cache line of its own: the number of the newest sync whose message of this round has arrived.
 * They only grow, so syncs may follow one another without anything between them. From the flag SHMD_DEV_COLL_FLAG on they are those of
 * collectives.
 *
 * The second half is for collectives: slots, two for each of SHMD_DEV_COLL_SENDERS senders or more where there are fewer senders, each a
 * cache line: the number of an exchange, and up to SHMD_DEV_COLL_SLOT_DATA bytes of data (<shmd/dev/coll.h>). A sender uses its own in turn.
 *
 * Behind the flag of the last round stands a word that is 0, or names a member whose collective failed while others may have read its source: its
 * status << 32 | its number in the team + 1. Behind it stands a word that is 1 when a member ends the team while messages of it are under way.
 */
#define SHMD_DEV_SYNC_FLAG_BYTES 64u
#define SHMD_DEV_TEAM_SCRATCH_BYTES 4096u
#define SHMD_DEV_COLL_OFFSET 2048u
#define SHMD_DEV_COLL_LEFT_OFFSET (SHMD_DEV_COLL_OFFSET - SHMD_DEV_SYNC_FLAG_BYTES + 8)
#define SHMD_DEV_TEAM_INCOMPLETE_OFFSET (SHMD_DEV_COLL_LEFT_OFFSET + 8)
#define SHMD_DEV_COLL_SENDERS 16u
#define SHMD_DEV_COLL_SLOT_BYTES 64u
#define SHMD_DEV_COLL_SLOT_DATA 56u

/*
 * Words of a team, for reductions of few elements: each word of 64 bits has 4 bytes of data and the number of its reduction, so it says by itself
 * that it has come. Two buffers in turn, each with a part for each member. In the same heap as the scratch, and like it zeroed when the
 * team is made.
 */
#define SHMD_DEV_WORDS_DATA 4096u /* bytes of data of a member, at most */
#define SHMD_DEV_WORDS_PART_BYTES (2u * SHMD_DEV_WORDS_DATA)
#define SHMD_DEV_WORDS_BUFFER_BYTES (SHMD_DEV_NEAR_PES * SHMD_DEV_WORDS_PART_BYTES)
#define SHMD_DEV_WORDS_BYTES (2u * SHMD_DEV_WORDS_BUFFER_BYTES)
#define SHMD_DEV_WORDS_TEAMS 16u /* teams with smaller ids have words */

/* struct shmd_dev_team.flags */
#define SHMD_TEAM_MAPPED 0x1u /* all members map each other's heaps; the same on all of them */

struct shmd_dev_team {
	uint64_t world_addr; /* struct shmd_dev_world */
	uint64_t members_addr; /* uint32_t[n_pes]: PEs of the world; 0: start + i * stride */
	uint64_t scratch_offset; /* in heap `scratch_heap`: SHMD_DEV_TEAM_SCRATCH_BYTES, zeroed when the team is made */
	uint32_t scratch_heap;
	uint32_t id; /* 0: all PEs of the world; the same on all members */
	uint32_t n_pes;
	uint32_t my_pe; /* of the caller in this team */
	uint32_t start, stride;
	uint32_t flags; /* SHMD_TEAM_* */
	uint32_t reserved0;
	uint64_t words_from_scratch; /* from the scratch of any member to its words; 0: the team has none */

	/* mutable, by one caller at a time: collective calls of one team do not overlap on one PE */
	uint64_t n_syncs; /* complete on this PE; the next one has the number behind it */
	uint64_t n_begun; /* n_syncs, or one more after a sync that failed here */
	uint64_t n_exchanges; /* of collectives, begun on this PE */
	int32_t coll_status; /* SHMD_DEV_OK, or the status of the first collective that failed here: later ones return it */
	uint32_t reserved1;
	uint64_t n_words; /* reductions by words, begun on this PE */
	uint8_t reserved2[24];

	/*
	 * Constant: where the scratch of members my_pe, my_pe + 1, ... and from the last on to the first is mapped here, if they are few and
	 * all are mapped; else zeros.
	 */
	uint64_t near_scratch[SHMD_DEV_NEAR_PES];
};
SHMD_PIN_SIZE(struct shmd_dev_team, 192);
SHMD_PIN_OFFSET(struct shmd_dev_team, scratch_offset, 16);
SHMD_PIN_OFFSET(struct shmd_dev_team, n_pes, 32);
SHMD_PIN_OFFSET(struct shmd_dev_team, flags, 48);
SHMD_PIN_OFFSET(struct shmd_dev_team, n_syncs, 64);
SHMD_PIN_OFFSET(struct shmd_dev_team, n_exchanges, 80);
SHMD_PIN_OFFSET(struct shmd_dev_team, words_from_scratch, 56);
SHMD_PIN_OFFSET(struct shmd_dev_team, coll_status, 88);
SHMD_PIN_OFFSET(struct shmd_dev_team, n_words, 96);
SHMD_PIN_OFFSET(struct shmd_dev_team, near_scratch, 128);

#endif
