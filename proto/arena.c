/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bump allocator with a budget, and the face that protobuf-c wants of it.
 *
 * protobuf-c allocates as the packet says: repeated messages, merged duplicates, kept unknown fields. The budget is
 * what bounds that. Single allocations are never freed; the arena goes as a whole.
 */
#include <errno.h>
#include <stdlib.h>

#include "proto/arena.h"
#include "proto/base/overflow.h"

#define ARENA_ALIGN 16u

struct arena_chunk {
	_Alignas(ARENA_ALIGN) struct arena_chunk *next;
	_Alignas(ARENA_ALIGN) uint8_t bytes[];
};

/* In front of each allocation. */
struct arena_head {
	_Alignas(ARENA_ALIGN) size_t bytes;
};

static void *allocator_alloc(void *data, size_t bytes)
{
	return arena_alloc(data, bytes);
}

static void allocator_free(void *data, void *ptr)
{
}

void arena_init(struct arena *arena)
{
	arena->allocator = (ProtobufCAllocator){
		.alloc = allocator_alloc,
		.free = allocator_free,
		.allocator_data = arena,
	};
	arena->chunks = NULL;
	arena->next = arena->first;
	arena->end = arena->first + sizeof(arena->first);
	arena->used_bytes = 0;
	arena->error = 0;
}

void arena_deinit(struct arena *arena)
{
	while (arena->chunks) {
		struct arena_chunk *chunk = arena->chunks;

		arena->chunks = chunk->next;
		free(chunk);
	}
}

/* A fresh chunk with room for need_bytes; what was left of the current one is given up. */
static int add_chunk(struct arena *arena, size_t need_bytes)
{
	size_t room = need_bytes > ARENA_CHUNK_BYTES ? need_bytes : ARENA_CHUNK_BYTES;
	/* bounded: need_bytes by ARENA_BUDGET_BYTES. */
	struct arena_chunk *chunk = malloc(sizeof(*chunk) + room);

	if (!chunk)
		return -ENOMEM;
	chunk->next = arena->chunks;
	arena->chunks = chunk;
	arena->next = chunk->bytes;
	arena->end = chunk->bytes + room;
	return 0;
}

static void *fail(struct arena *arena, int error)
{
	if (!arena->error)
		arena->error = error;
	return NULL;
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
	struct arena_head *head;
	uint64_t need;

	if (align_up_overflows(bytes, ARENA_ALIGN, &need) ||
	    add_overflows(need, sizeof(*head), &need) ||
	    need > ARENA_BUDGET_BYTES - arena->used_bytes)
		return fail(arena, -EMSGSIZE);
	if (need > (size_t)(arena->end - arena->next) && add_chunk(arena, need) < 0)
		return fail(arena, -ENOMEM);

	head = (struct arena_head *)arena->next;
	head->bytes = bytes;
	arena->next += need;
	arena->used_bytes += need;
	return head + 1;
}

size_t arena_size_of(const void *ptr)
{
	return ((const struct arena_head *)ptr - 1)->bytes;
}
