/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debugging a heap in host memory: guard zones around allocations, and what was not freed.
 *
 * A heap with zones (heap_attr.zone_bytes) has unused bytes before and behind each allocation. They are filled with a pattern
 * when the allocation is made or resized, and must still have it later. Each PE looks at its own copy, which any PE may have
 * damaged.
 *
 * Threads	as the allocator: the caller locks. Blocks: never.
 */
#ifndef SHMD_HEAP_GUARD_H
#define SHMD_HEAP_GUARD_H

#include <stdint.h>

#include "libclient/runtime/heap/heap-alloc.h"

#define HEAP_GUARD_ZONE_BYTES HEAP_LINE /* a good zone_bytes: allocations keep their cache lines */

/* Fill the zones of an allocation. base: where offset 0 is mapped. */
void heap_guard_fill(const struct heap_info *info, void *base);

/* -EFAULT, and a sentence that says which bytes around which allocation are not as they were filled. */
int heap_guard_check(const struct heap_info *info, const void *base);

/* All allocations. -EFAULT: the number of damaged ones, and the sentence of the first of them. */
int heap_guard_check_all(const struct heap *heap, const void *base, uint64_t *ret_n_damaged);

struct heap_leaks {
	uint64_t n, bytes; /* allocations that this PE has not freed, and what was asked for */
};
typedef void (*heap_leak_fn)(void *arg, const struct heap_info *info);
/* Calls fn, if it is not NULL, for the first n_shown of them in the order of offsets. */
void heap_leaks(const struct heap *heap, uint64_t n_shown, heap_leak_fn fn, void *arg, struct heap_leaks *ret_leaks);

#endif
