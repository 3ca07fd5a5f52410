/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short-lived memory for one message being encoded or decoded, bounded whatever the input says.
 *
 * Small messages need no heap at all. Each allocation knows its size, which is how an embedded NUL in a decoded
 * string is seen.
 */
#ifndef SHMEMD_PROTO_ARENA_H
#define SHMEMD_PROTO_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#define ARENA_BUDGET_BYTES (1024u * 1024u)
#define ARENA_FIRST_BYTES 4096u
#define ARENA_CHUNK_BYTES 65536u

struct arena_chunk;

struct arena {
	ProtobufCAllocator allocator;
	struct arena_chunk *chunks;
	uint8_t *next; /* free bytes of the current chunk: [next, end) */
	uint8_t *end;
	size_t used_bytes; /* of the budget, heads included */
	int error; /* of the first allocation that failed: -EMSGSIZE for the budget, -ENOMEM; or 0 */
	_Alignas(16) uint8_t first[ARENA_FIRST_BYTES];
};

void arena_init(struct arena *arena); /* may not be moved afterwards */
void arena_deinit(struct arena *arena);

void *arena_alloc(struct arena *arena,
		  size_t bytes);       /* aligned to 16; NULL beyond the budget or out of memory */
size_t arena_size_of(const void *ptr); /* the bytes asked for ptr */

#endif
