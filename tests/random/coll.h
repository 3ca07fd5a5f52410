/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collective calls that move or compute: STEP_COLL. dest is at alloc and at, source at near_alloc and near_at; n elements of `bytes` each (for each
 * PE, where the call is so); word is the call, mask the type, cmp the operation, `to` the root. judge() writes the bytes of dest into `size`.
 */
#ifndef SHMEMD_TESTS_RANDOM_COLL_H
#define SHMEMD_TESTS_RANDOM_COLL_H

#include "tests/random/program.h"

enum coll_call {
	COLL_BROADCAST, COLL_FCOLLECT, COLL_COLLECT, COLL_ALLTOALL, COLL_ALLTOALLS,
	COLL_REDUCE, COLL_REDUCE_SCATTER, COLL_SCAN_INCLUSIVE, COLL_SCAN_EXCLUSIVE,
	N_COLL_CALLS,
};
extern const char *const coll_names[N_COLL_CALLS];

static inline bool coll_computes(int call)
{
	return call >= COLL_REDUCE;
}

static inline bool coll_in_place(const struct step *step)
{
	return step->alloc == step->near_alloc && step->at == step->near_at;
}

/* Bytes that a PE passes to a collect. */
static inline uint32_t coll_collect_bytes(const struct step *step, int pe)
{
	return mix32(step->value + (uint64_t)pe * 7919) % (step->n + 1) * step->bytes;
}

/* From the first byte to the last. */
uint32_t coll_source_bytes(const struct step *step, int n_members, int pe);

/* coll-math.c */
/* PEs fill their sources first: random bytes are no numbers with exact sums. */
bool coll_is_float(const struct step *step);
/* An element without its padding, which the calls may leave or not. */
uint32_t coll_number_bytes(const struct step *step);
void coll_fill(const struct step *step, int pe, uint32_t n, uint8_t *to);
void coll_neutral(const struct step *step, uint8_t *to);
void coll_combine(const struct step *step, uint8_t *sum, const uint8_t *with);

#endif
