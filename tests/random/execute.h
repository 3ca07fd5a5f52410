/* SPDX-License-Identifier: Apache-2.0 */
/* One PE's part of a program, on the runtime. */
#ifndef SHMEMD_TESTS_RANDOM_EXECUTE_H
#define SHMEMD_TESTS_RANDOM_EXECUTE_H

#include <shmd.h>

#include "tests/random/model.h"

/* A get that may still be under way, or the source of a put. */
struct pending {
	struct pending *next;
	uint32_t step;
	bool is_get;
	uint8_t bytes[];
};

struct run_world {
	struct shmd_world *world;
	uint8_t *allocs[MAX_ALLOCS]; /* NULL: none */
	uint64_t sizes[MAX_ALLOCS];
	struct shmd_team *teams[MAX_TEAMS]; /* NULL: not in it */
	struct model_team tables[MAX_TEAMS];
	struct shmd_ctx *ctxs[MAX_CTXS];
	int ctx_team[MAX_CTXS];
};

struct run {
	const struct program *program;
	int pe;
	uint32_t at; /* the step */
	struct run_world worlds[MAX_WORLDS];
	struct pending *pending;
};

/* Ends the process: 1, with a sentence on stderr. */
void run_fail(const struct run *run, const char *fmt, ...) __attribute__((noreturn, format(printf, 2, 3)));
/* r is 0, or the library's sentence fails the run. */
void run_must(const struct run *run, int r);
void run_want(const struct run *run, int r, int wanted);
void run_compare(const struct run *run, uint32_t step, const uint8_t *found, const uint8_t *wanted, uint32_t bytes);
/* The bytes or blocks that a get has brought. */
void run_compare_blocks(const struct run *run, uint32_t at, const uint8_t *found);
const struct step *run_step(const struct run *run);
struct run_world *run_world(struct run *run);
/* The caller's copy of a byte that the model knows. */
uint8_t *run_at(struct run *run, int alloc, uint32_t at);
/* The other PE as the context numbers it. */
int run_to(struct run *run, int pe);
struct pending *run_keep(struct run *run, bool is_get, uint32_t bytes);
/* Gets of this context are complete: ctx, or ALL_CTXS. */
#define ALL_CTXS (-1)
void run_settle(struct run *run, int world, int ctx);

/* execute-call.c, execute-coll.c and execute-access.c */
void execute_call(struct run *run);
void execute_coll(struct run *run);
void execute_access(struct run *run);
void execute_wait(struct run *run);
/* All steps of this PE; the worlds are open. Ends the process at the first failure. */
void execute(struct run *run);

#endif
