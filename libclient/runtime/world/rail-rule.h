/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rails: the NICs of a PE, by number. Rail 0 is the NIC that the daemon assigns first.
 *
 *	- The queues of a world are on rail 0, and so is its default context. Each context with queues of its own has one rail.
 *	- Rail r leads to rail r of a peer. A peer with fewer rails has them in turn.
 *	- So all requests of a context to a PE take one queue, and their order is that of one NIC, whatever the number of rails.
 *	- Where atomics are those of the NIC, all PEs send the atomics on a PE's words to rail 0 of that PE, since two NICs are not atomic
 *	  against each other. A context on another rail has queues on rail 0 for them.
 *
 * Pure; any thread.
 */
#ifndef SHMD_WORLD_RAIL_RULE_H
#define SHMD_WORLD_RAIL_RULE_H

#include <stdbool.h>
#include <stdint.h>

/* NICs to open. setting: SHMD_NICS_PER_PE; 0: an equal share of the node's. n_node_pes: PEs of the world on this node. */
uint32_t rail_count(uint64_t setting, uint32_t n_nics, uint32_t n_node_pes);
/* The rail of a peer to which a rail leads; n_peer_rails is not 0. */
uint32_t rail_at_peer(uint32_t rail, uint32_t n_peer_rails);
/* For a new context: the usable rail with the fewest contexts, the lowest of these; 0 if none is usable. */
uint32_t rail_of_new_ctx(const uint32_t *n_contexts, const bool *is_usable, uint32_t n_rails);

#endif
