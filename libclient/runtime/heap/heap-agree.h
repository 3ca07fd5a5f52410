/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record that each PE publishes when it enters a collective heap call, and the comparison of all of them.
 *
 * A program must make the same call with the same arguments on all PEs. The records show where one differs: then the call
 * fails on all PEs, with the same sentence, and no allocator has changed. They carry the lists of freed slots as well, which
 * count whether the call succeeds or not.
 *
 * A call has one step or two: all PEs enter; if the heap must grow, all report whether their part of the chunk is there. A PE
 * that cannot go on publishes a negative status, and the call fails on all.
 *
 * Records lie in memory that other processes of the same user write, also while this one reads. So each is copied once, and
 * checked in the copy. Nothing here waits: the runtime puts a sync between writing and reading, and another between reading
 * and the next writing.
 *
 * Threads	one call at a time on one heap. Blocks: never.
 * Errors	a negative errno and a sentence by shmd_error_set().
 */
#ifndef SHMD_HEAP_AGREE_H
#define SHMD_HEAP_AGREE_H

#include <stdbool.h>
#include <stdint.h>

#include "libclient/runtime/heap/heap-alloc.h"

#define HEAP_RECORD_VERSION 1u
#define HEAP_RECORD_FREED 512u /* slots in a list: 2 KiB, one page with the rest */
#define HEAP_RECORD_WHY 112u

/* Numbers are part of the record: a new one goes behind. */
enum heap_operation {
	HEAP_OP_MALLOC = 1,
	HEAP_OP_CALLOC = 2,
	HEAP_OP_ALIGN = 3,
	HEAP_OP_REALLOC = 4,
};

/* "shmd_malloc". */
const char *heap_operation_name(uint32_t operation);

enum heap_step {
	HEAP_STEP_ENTER = 1,
	HEAP_STEP_CHUNK = 2,
};

/* The part of one PE. Numbers without meaning for an operation are 0. */
struct heap_call {
	enum heap_operation operation;
	enum heap_step step;
	uint64_t number; /* of the collective calls of this world so far */
	uint32_t heap; /* which of the world's heaps: SHMD_DEV_HEAP_* */
	uint64_t size; /* bytes, of calloc the product */
	uint64_t align, hints;
	uint64_t offset; /* of realloc and free; HEAP_NONE: NULL */
	int status; /* 0, or the negative errno for which this PE cannot go on */
	const char *why; /* then: a sentence, cut to HEAP_RECORD_WHY - 1 bytes; or NULL */
};

struct heap_record {
	/* These two never move. */
	uint32_t version; /* HEAP_RECORD_VERSION */
	uint32_t library; /* major << 16 | minor << 8 | patch */

	uint32_t operation;
	uint32_t step;
	uint64_t number;
	uint64_t size, align, hints, offset;
	uint32_t heap;
	int32_t status;
	uint32_t n_freed; /* slots in the list */
	uint32_t n_left; /* freed as well, for the records of later calls */
	char why[HEAP_RECORD_WHY];
	uint8_t reserved[8];
	uint32_t freed[HEAP_RECORD_FREED];
};

/*
 * Fill this PE's record. HEAP_STEP_ENTER takes the list of freed slots from `heap`, if it is not NULL: such a record must
 * reach all PEs, or the memory is never reused.
 */
void heap_record_write(struct heap_record *record, const struct heap_call *call, struct heap *heap);

/* Copy the record of PE `pe` and check what can be checked alone. -EINVAL; *ret_record is then undefined. */
int heap_record_read(const struct heap_record *shared, uint32_t pe, struct heap_record *ret_record);

/*
 * Do all PEs do the same? `records` are copies, by PE. -EINVAL: no. Else the status of the first PE that has one. All PEs
 * that have the same records get the same result and the same sentence.
 */
int heap_records_check(const struct heap_record *records, uint32_t n_pes);

/*
 * All allocators count the freed slots of all PEs, in the order that they must. Before the operation itself, and also if it
 * failed. heaps: by number, NULL where there is none. -EINVAL: a PE's list is wrong; its list and those behind it are not counted, on no PE.
 */
int heap_records_apply(const struct heap_record *records, uint32_t n_pes, struct heap *const *heaps, uint32_t n_heaps);

/* Some PE has freed more: before the heap grows, the runtime may exchange records again. */
bool heap_records_left(const struct heap_record *records, uint32_t n_pes);

#endif
