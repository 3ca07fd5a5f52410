/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory objects for engine tests.
 *
 * MEM_POINTER is ordinary memory. MEM_SYNC cannot be addressed and answers at once. MEM_DELAY cannot be addressed,
 * and every operation happens later, at a random time and in random order among those pending: an engine that
 * starts an operation before the one it depends on has ended loses data. MEM_QUEUE is the same, but all of them happen in their order, which
 * it says; in a world of two nodes only the second has it, the first has ordinary memory. MEM_MIXED gives a pointer to some ranges only.
 */
#ifndef TESTS_ENGINE_TEST_MEM_H
#define TESTS_ENGINE_TEST_MEM_H

#include "daemon/engine/engine.h"

enum mem_mode {
	MEM_POINTER,
	MEM_SYNC,
	MEM_DELAY,
	MEM_QUEUE,
	MEM_MIXED,
	N_MEM_MODES,
};

#define MAX_DELAYED 256

struct delayed {
	enum { DELAYED_READ, DELAYED_WRITE, DELAYED_ATOMIC } kind;
	struct test_mem *mem;
	uint64_t offset;
	void *dst;
	const void *src;
	size_t bytes;
	const struct engine_atomic *what;
	struct engine_memop *op;
	unsigned int wait; /* turns left */
};

/* Operations under way, of all delayed memories of one test. */
struct delay_queue {
	struct delayed ops[MAX_DELAYED];
	unsigned int n;
	unsigned int max_n; /* most that were pending at once */
	uint64_t total;
	uint64_t seed;
	unsigned int hold_turns; /* every operation takes at least this many */
};

struct test_mem {
	struct engine_mem mem;
	enum mem_mode mode;
	uint8_t *bytes;
	bool borrowed; /* bytes */
	struct delay_queue *queue;
	int fail_with; /* negative errno for the next operations, 0: none */
	bool fail_later; /* ... through engine_memop_done */
	bool done_inside; /* complete inside the call, which says "later" all the same */
	bool freed;
	uint64_t n_ops;
};

uint64_t test_random(uint64_t *seed);

/* bytes NULL: of its own. */
void test_mem_init(struct test_mem *mem, enum mem_mode mode, uint64_t size_bytes, struct delay_queue *queue, void *bytes);
void test_mem_deinit(struct test_mem *mem);

/* Let time pass for pending operations: completes some. Returns how many are left or were completed. */
unsigned int delay_queue_run(struct delay_queue *queue);

#endif
