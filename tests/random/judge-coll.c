/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collective calls that move or compute. Each member reads its own source and writes its own dest between its call and its return, and orders
 * nothing else by it: that is what <shmd-coll.h> promises.
 */
#include <shmd.h>
#include <stdlib.h>
#include <string.h>

#include "tests/random/coll.h"
#include "tests/random/model.h"

/* A call as the judge works it out: members in the order of their team, with copies of their sources. */
struct coll {
	const struct step *step;
	int pes[MAX_PES];
	int n;
	uint32_t dest_bytes;
	uint8_t *sources[MAX_PES];
};

/* ---- sizes ------------------------------------------------------------------------------------------------------------------ */

static uint32_t block_bytes(const struct step *step)
{
	return step->n * step->bytes;
}

static uint32_t span(const struct step *step, uint32_t stride, int n_members)
{
	return step->n ? (step->n * (uint32_t)n_members - 1) * stride + step->bytes : 0;
}

uint32_t coll_source_bytes(const struct step *step, int n_members, int pe)
{
	if (step->word == COLL_COLLECT)
		return coll_collect_bytes(step, pe);
	if (step->word == COLL_ALLTOALLS)
		return span(step, step->near_stride, n_members);
	return block_bytes(step) * (step->word == COLL_ALLTOALL || step->word == COLL_REDUCE_SCATTER ? (uint32_t)n_members : 1);
}

static uint32_t dest_bytes(const struct coll *c)
{
	uint32_t sum = 0;

	switch (c->step->word) {
	case COLL_COLLECT:
		for (int i = 0; i < c->n; i++)
			sum += coll_collect_bytes(c->step, c->pes[i]);
		return sum;
	case COLL_ALLTOALLS:
		return span(c->step, c->step->stride, c->n);
	case COLL_FCOLLECT:
	case COLL_ALLTOALL:
		return block_bytes(c->step) * (uint32_t)c->n;
	default:
		/* In place, the rest of source is undefined behind the call. */
		return block_bytes(c->step) * (c->step->word == COLL_REDUCE_SCATTER && coll_in_place(c->step) ? (uint32_t)c->n : 1);
	}
}

/* ---- results ---------------------------------------------------------------------------------------------------------------- */

/* Element `at` of the sources of the first `last` members. */
static void combine_first(const struct coll *c, int last, uint32_t at, uint8_t *to)
{
	if (last)
		memcpy(to, c->sources[0] + (size_t)at * c->step->bytes, c->step->bytes);
	else
		coll_neutral(c->step, to);
	for (int i = 1; i < last; i++)
		coll_combine(c->step, to, c->sources[i] + (size_t)at * c->step->bytes);
}

static void compute(const struct coll *c, int me, uint8_t *dest)
{
	int last = c->step->word == COLL_SCAN_INCLUSIVE ? me + 1 : c->step->word == COLL_SCAN_EXCLUSIVE ? me : c->n;
	uint32_t first = c->step->word == COLL_REDUCE_SCATTER ? (uint32_t)me * c->step->n : 0, block = block_bytes(c->step);

	/* The PE fills undefined bytes with this when the call has returned. */
	pattern_fill(dest + block, c->step->value + (uint64_t)me, c->dest_bytes - block);
	for (uint32_t i = 0; i < c->step->n; i++)
		combine_first(c, last, first + i, dest + (size_t)i * c->step->bytes);
}

static void move_apart(const struct coll *c, int me, uint8_t *dest)
{
	const struct step *s = c->step;

	for (uint32_t i = 0; i < (uint32_t)c->n; i++)
		for (uint32_t k = 0; k < s->n; k++)
			memcpy(dest + (i * s->n + k) * s->stride, c->sources[i] + ((uint32_t)me * s->n + k) * s->near_stride, s->bytes);
}

static void move(const struct coll *c, int me, uint8_t *dest)
{
	uint32_t block = block_bytes(c->step), at = 0;

	for (int i = 0; i < c->n; i++) {
		uint32_t bytes = c->step->word == COLL_COLLECT ? coll_collect_bytes(c->step, c->pes[i]) : block;

		if (c->step->word == COLL_BROADCAST && i != c->step->to)
			continue;
		memcpy(dest + at, c->sources[i] + (c->step->word == COLL_ALLTOALL ? (uint32_t)me * block : 0), bytes);
		at += bytes;
	}
}

static void result(const struct coll *c, int me, uint8_t *dest)
{
	if (coll_computes(c->step->word))
		compute(c, me, dest);
	else if (c->step->word == COLL_ALLTOALLS)
		move_apart(c, me, dest);
	else
		move(c, me, dest);
}

/* Room in the wanted bytes for the dest of each PE of the program. */
static uint8_t *want(struct program *program, struct step *step, uint32_t bytes)
{
	uint32_t all = bytes * (uint32_t)program->n_pes;

	step->want_at = program->n_wanted;
	if (program->n_wanted + all >= program->room_wanted) {
		program->room_wanted = 2 * (program->room_wanted + all) + 64;
		program->wanted = realloc(program->wanted, program->room_wanted);
	}
	program->n_wanted += all;
	memset(program->wanted + step->want_at, 0, all);
	return program->wanted + step->want_at;
}

static uint8_t *source_at(const struct model *model, const struct coll *c, int i)
{
	return model_at(model, c->step->world, c->step->near_alloc, c->pes[i], c->step->near_at);
}

static void take_sources(struct model *model, struct coll *c)
{
	for (int i = 0; i < c->n; i++) {
		uint32_t bytes = coll_source_bytes(c->step, c->n, c->pes[i]);

		if (coll_is_float(c->step))
			coll_fill(c->step, c->pes[i], bytes / c->step->bytes, source_at(model, c, i));
		c->sources[i] = malloc(bytes + 1);
		memcpy(c->sources[i], source_at(model, c, i), bytes);
	}
}

static void work_out(struct model *model, struct coll *c, uint8_t *wanted)
{
	const struct step *step = c->step;

	take_sources(model, c);
	for (int i = 0; i < c->n; i++) {
		uint8_t *at = model_at(model, step->world, step->alloc, c->pes[i], step->at);
		uint8_t *dest = wanted + (uint32_t)c->pes[i] * c->dest_bytes;

		/* Bytes between elements stay. */
		memcpy(dest, at, c->dest_bytes);
		result(c, i, dest);
		memcpy(at, dest, c->dest_bytes);
	}
	for (int i = 0; i < c->n; i++)
		free(c->sources[i]);
}

/* ---- the judge -------------------------------------------------------------------------------------------------------------- */

static void find_members(const struct model *model, const struct step *step, struct coll *ret)
{
	const struct model_team *team = &model->worlds[step->world].teams[step->team];
	uint32_t members = team_members(team, step->op, model->program->n_pes);

	*ret = (struct coll){.step = step};
	for (int pe = 0; pe < model->program->n_pes; pe++)
		if (members >> pe & 1) {
			ret->pes[team->place[pe]] = pe;
			ret->n++;
		}
}

static struct access access_own(const struct step *step, enum access_kind kind, int pe, int alloc, uint32_t at, uint32_t bytes)
{
	return (struct access){.kind = kind, .world = step->world, .pe = pe, .ctx = LOCAL_CTX, .far = pe, .alloc = alloc, .owner = pe, .lo = at,
			       .hi = at + bytes};
}

/* As loads and stores of the members; a source that is filled is written. */
static bool find_accesses(const struct model *model, const struct coll *c, struct accesses *accesses)
{
	const struct step *step = c->step;
	enum access_kind of_source = coll_is_float(step) ? ACCESS_WRITE : ACCESS_READ;

	for (int i = 0; i < c->n; i++) {
		uint32_t bytes = coll_source_bytes(step, c->n, c->pes[i]);

		if (!model_has(model, step->world, step->alloc, c->pes[i]) || !model_has(model, step->world, step->near_alloc, c->pes[i]) ||
		    !model_range(model, step->world, step->near_alloc, step->near_at, bytes))
			return false;
		if (!coll_in_place(step))
			accesses_add(accesses, access_own(step, of_source, c->pes[i], step->near_alloc, step->near_at, bytes), of_source == ACCESS_READ);
		accesses_add(accesses, access_own(step, ACCESS_WRITE, c->pes[i], step->alloc, step->at, c->dest_bytes), false);
	}
	return model_range(model, step->world, step->alloc, step->at, c->dest_bytes);
}

/* At once with the collective before, which is on another team. */
static bool is_beside(const struct model *model, const struct step *step)
{
	return step->wants_beside && model->is_coll_last && (step->world != model->last_world || step->team != model->last_team);
}

static bool meets_last(const struct model *model, const struct accesses *accesses)
{
	for (uint32_t i = 0; i < accesses->n; i++)
		for (uint32_t k = 0; k < model->last.n; k++)
			if (accesses->list[i].world == model->last.list[k].world && accesses_meet(&accesses->list[i], &model->last.list[k]))
				return true;
	return false;
}

static void remember(struct model *model, const struct step *step, const struct accesses *accesses)
{
	model->is_coll_last = !step->is_beside;
	model->last_world = step->world;
	model->last_team = step->team;
	model->last = *accesses;
}

/* Equal addresses are allowed where dest has as many bytes as source, and in a reduction by parts. */
static bool may_be_in_place(const struct step *step)
{
	return step->word == COLL_BROADCAST || coll_computes(step->word);
}

static bool is_valid(const struct coll *c)
{
	const struct step *step = c->step;

	if (!c->n || !step->bytes || !step->alloc || step->near_alloc < 1 || step->to >= c->n)
		return false;
	if (step->word == COLL_ALLTOALLS && (step->stride < step->bytes || step->near_stride < step->bytes))
		return false;
	if (coll_computes(step->word) && ((step->at | step->near_at) & (step->bytes - 1)))
		return false;
	return !coll_in_place(step) || may_be_in_place(step);
}

bool judge_coll(struct model *model, struct step *step)
{
	struct accesses accesses = {.n = 0};
	struct coll c;

	find_members(model, step, &c);
	if (!is_valid(&c))
		return false;
	c.dest_bytes = dest_bytes(&c);
	if (c.dest_bytes > model->program->cap || !find_accesses(model, &c, &accesses))
		return false;
	step->is_beside = is_beside(model, step);
	if (step->is_beside && meets_last(model, &accesses))
		return false;
	for (int i = 0; i < c.n; i++)
		order_tick(&model->order, c.pes[i]);
	if (!accesses_take(model, &accesses))
		return false;
	remember(model, step, &accesses);
	work_out(model, &c, want(model->program, step, c.dest_bytes));
	step->size = c.dest_bytes;
	return true;
}
