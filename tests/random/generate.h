/* SPDX-License-Identifier: Apache-2.0 */
/* A program under way, and steps chosen without care: pick.c. */
#ifndef SHMEMD_TESTS_RANDOM_GENERATE_H
#define SHMEMD_TESTS_RANDOM_GENERATE_H

#include "tests/random/model.h"

struct maker {
	struct program *program;
	struct model *model;
	uint64_t state;
	struct step last; /* the newest put, whose place is often used again */
};

static inline uint32_t draw(struct maker *maker, uint32_t n)
{
	maker->state += 0x9e3779b97f4a7c15u;
	return n ? mix32(maker->state) % n : 0;
}

static inline bool one_in(struct maker *maker, uint32_t n)
{
	return draw(maker, n) == 0;
}

int pick_pe(struct maker *maker);
uint64_t pick_size(struct maker *maker);
/* Any step. */
struct step pick(struct maker *maker);
/* pick-coll.c: a collective of the PE's team. */
void pick_coll(struct maker *maker, struct step *step);
int pick_alloc(struct maker *maker, const struct step *step);
/* A range of an allocation. */
uint32_t pick_at(struct maker *maker, int world, int alloc, uint32_t span, uint32_t align);
/* The place of an access whose kind, world and PE are known. */
void pick_access(struct maker *maker, struct step *step);

#endif
