/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which accesses of a program come before which, by the contract of <shmd.h>: a vector clock for each PE, and a record for each access that
 * some PE does not yet know to be complete.
 */
#ifndef SHMEMD_TESTS_RANDOM_ORDER_H
#define SHMEMD_TESTS_RANDOM_ORDER_H

#include "tests/random/program.h"

#define MAX_RECORDS 4096

enum access_kind { ACCESS_READ, ACCESS_WRITE, ACCESS_ATOMIC };

/* Bytes [lo, hi) of one PE's copy of an allocation. */
struct access {
	enum access_kind kind;
	int world, pe, ctx;
	int far; /* the PE that the operation goes to */
	int alloc, owner;
	uint32_t lo, hi;
	int family; /* of atomics that may be exchanged with each other; 0: with none */
	bool is_update; /* a fence orders it */
};

struct record {
	struct access access;
	uint64_t time, done; /* by the clock of its PE; 0: not complete */
	uint32_t n_fences;
	uint32_t seen; /* PEs that have seen it by a signal behind it */
};

struct order {
	int n_pes;
	uint64_t clock[MAX_PES][MAX_PES]; /* what a PE knows of another */
	uint32_t n_fences[MAX_WORLDS][MAX_PES][MAX_CTXS][MAX_PES];
	struct record records[MAX_RECORDS];
	uint32_t n_records;
};

/* A signal or flag on its way. */
struct event {
	int world, pe, ctx, to;
	uint64_t time;
	uint32_t n_fences;
	uint64_t clock[MAX_PES];
};

void order_tick(struct order *order, int pe);
/* No earlier access races with it. */
bool order_allows(const struct order *order, const struct access *access);
/* is_done: complete when its call returns. false: no room. */
bool order_add(struct order *order, const struct access *access, bool is_done);
void order_fence(struct order *order, int world, int pe, int ctx, int to); /* to: or ALL_PES */
void order_quiet(struct order *order, int world, int pe, int ctx, int to);
/* The members have met: local stores count as complete. */
void order_meet(struct order *order, uint32_t members);
void order_event(const struct order *order, int world, int pe, int ctx, int to, struct event *ret_event);
void order_see(struct order *order, int pe, const struct event *event);
/* Whether the PE, or any, has operations on an allocation that are not complete, but for those of one context. */
bool order_is_busy(const struct order *order, int world, int alloc, int pe, int but_ctx);
/* Forgets what all PEs know to be complete, and records of an allocation that is gone (alloc -1: none is). */
void order_prune(struct order *order, int world, int alloc);

#endif
