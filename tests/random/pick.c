/* SPDX-License-Identifier: Apache-2.0 */
/* Steps as they come: memory and contexts that exist, the rest by chance. */
#include <shmd.h>
#include <string.h>

#include "tests/random/generate.h"

/* ---- places ----------------------------------------------------------------------------------------------------------------- */

int pick_pe(struct maker *maker)
{
	return (int)draw(maker, (uint32_t)maker->program->n_pes);
}

/* An allocation that the PE has; seldom any. */
int pick_alloc(struct maker *maker, const struct step *step)
{
	int alloc = 1 + (int)draw(maker, MAX_ALLOCS - 1);

	for (int i = 0; i < MAX_ALLOCS && !model_has(maker->model, step->world, alloc, step->pe); i++)
		alloc = alloc % (MAX_ALLOCS - 1) + 1;
	return alloc;
}

/* A context that the PE has, and PEs of its team. */
static void pick_way(struct maker *maker, struct step *step)
{
	const struct model_world *w = &maker->model->worlds[step->world];

	do
		step->ctx = one_in(maker, 2) ? 0 : (int)draw(maker, MAX_CTXS);
	while (w->ctx_team[step->pe][step->ctx] < 0);
	step->to = one_in(maker, 3) ? maker->last.to : pick_pe(maker);
	step->to2 = pick_pe(maker);
	for (int i = 0; i < 8; i++) {
		if (!model_is_member(maker->model, step->world, w->ctx_team[step->pe][step->ctx], step->pe, step->to))
			step->to = pick_pe(maker);
		if (!model_is_member(maker->model, step->world, w->ctx_team[step->pe][step->ctx], step->pe, step->to2))
			step->to2 = pick_pe(maker);
	}
}

static uint32_t pick_bytes(struct maker *maker, uint32_t most)
{
	static const uint32_t usual[] = {1, 2, 3, 4, 7, 8, 8, 9, 16, 24, 31, 32, 33, 64, 100, 256};
	uint32_t bytes = one_in(maker, 4) ? draw(maker, most) + 1 : usual[draw(maker, 16)];

	return bytes < most ? bytes : most;
}

/* A range of an allocation; often where the newest put was, or at an end. */
uint32_t pick_at(struct maker *maker, int world, int alloc, uint32_t span, uint32_t align)
{
	uint32_t known = model_known_bytes(maker->model, world, alloc), at;

	if (span >= known)
		return 0;
	at = one_in(maker, 4) ? 0 : one_in(maker, 4) ? known - span : draw(maker, known - span + 1);
	if (alloc == maker->last.alloc && one_in(maker, 3))
		at = maker->last.at;
	return one_in(maker, 3) ? at / 8 * 8 : at / align * align;
}

static void pick_place(struct maker *maker, struct step *step, uint32_t most)
{
	uint32_t known;

	step->alloc = one_in(maker, 3) ? maker->last.alloc : pick_alloc(maker, step);
	known = model_known_bytes(maker->model, step->world, step->alloc);
	step->bytes = pick_bytes(maker, known < most ? known ? known : 1 : most);
	if (one_in(maker, 20))
		step->bytes = 0;
	step->at = pick_at(maker, step->world, step->alloc, step->bytes, 1);
	step->near_alloc = one_in(maker, 2) ? PRIVATE : pick_alloc(maker, step);
	if (step->near_alloc != PRIVATE)
		step->near_at = pick_at(maker, step->world, step->near_alloc, step->bytes, 1);
}

static void pick_blocks(struct maker *maker, struct step *step)
{
	step->n = 1 + draw(maker, 9);
	step->bytes = 1 + draw(maker, one_in(maker, 4) ? 60 : 12);
	step->stride = step->bytes + (one_in(maker, 4) ? 0 : draw(maker, 20));
	step->near_stride = step->bytes + (one_in(maker, 4) ? 0 : draw(maker, 20));
	step->at = pick_at(maker, step->world, step->alloc, (step->n - 1) * step->stride + step->bytes, 1);
	if (step->near_alloc != PRIVATE)
		step->near_at = pick_at(maker, step->world, step->near_alloc, (step->n - 1) * step->near_stride + step->bytes, 1);
}

static void pick_word(struct maker *maker, struct step *step, uint32_t least)
{
	step->bytes = least << draw(maker, least == 4 ? 2 : 4);
	step->at = pick_at(maker, step->world, step->alloc, step->bytes, step->bytes) / step->bytes * step->bytes;
	step->value = ((uint64_t)draw(maker, UINT32_MAX) << 32) | draw(maker, UINT32_MAX);
	/* Now and then a number that a sum of floating point may begin with. */
	if (one_in(maker, 3) && step->bytes == 8)
		memcpy(&step->value, &(double){(double)draw(maker, 50)}, 8);
	else if (one_in(maker, 3) && step->bytes == 4)
		step->value = 0, memcpy(&step->value, &(float){(float)draw(maker, 50)}, 4);
	if (step->bytes < 8)
		step->value &= (UINT64_C(1) << (8 * step->bytes)) - 1;
}

static void pick_atomic(struct maker *maker, struct step *step)
{
	pick_word(maker, step, 4);
	step->op = (int)draw(maker, 8);
	step->is_exact = one_in(maker, 2);
	if (step->op == SHMD_ATOMIC_COMPARE_SWAP || step->op == SHMD_ATOMIC_SWAP || step->op == SHMD_ATOMIC_FETCH)
		step->is_exact = true;
	step->compare = draw(maker, 50);
	/* Half of the compare-swaps find what they compare with. */
	if (one_in(maker, 2) && model_range(maker->model, step->world, step->alloc, step->at, step->bytes))
		memcpy(&step->compare, model_at(maker->model, step->world, step->alloc, step->to, step->at), step->bytes);
	/* A word of 4 bytes has no use for the upper half. */
	if (step->bytes == 4 && one_in(maker, 2)) {
		step->compare ^= UINT64_C(0xabcdef01) << 32;
		step->value ^= UINT64_C(0x10fedcba) << 32;
	}
}

/* ---- steps ------------------------------------------------------------------------------------------------------------------ */

static const uint8_t weights[N_STEP_KINDS] = {
	[STEP_MALLOC] = 3, [STEP_CALLOC] = 2, [STEP_ALIGN] = 2, [STEP_REALLOC] = 5, [STEP_FREE] = 12, [STEP_MALLOC_FAILS] = 1,
	[STEP_MALLOC_DIFFERS] = 1, [STEP_SPLIT_COLOR] = 3, [STEP_SPLIT_STRIDED] = 3, [STEP_SPLIT_2D] = 2, [STEP_TEAM_END] = 3,
	[STEP_CTX] = 8, [STEP_CTX_END] = 3, [STEP_SYNC] = 8, [STEP_BARRIER] = 10, [STEP_FENCE] = 8, [STEP_FENCE_PE] = 4,
	[STEP_QUIET] = 8, [STEP_QUIET_PE] = 5, [STEP_PUT] = 30, [STEP_PUT_NBI] = 20, [STEP_PUT_DIRECT] = 4, [STEP_P] = 20,
	[STEP_PUT_STRIDED] = 10, [STEP_PUT_STRIDED_NBI] = 8, [STEP_BATCH] = 8, [STEP_GET] = 20, [STEP_GET_NBI] = 10, [STEP_G] = 15, [STEP_GET_STRIDED] = 8,
	[STEP_GET_STRIDED_NBI] = 6, [STEP_GET_BATCH] = 6,
	[STEP_STORE] = 8, [STEP_CHECK] = 15, [STEP_ATOMIC] = 30, [STEP_ATOMIC_FETCH] = 30, [STEP_PUT_SIGNAL] = 15,
	[STEP_PUT_SIGNAL_NBI] = 10, [STEP_FLAG] = 15, [STEP_WAIT] = 8, [STEP_WAIT_ALL] = 4, [STEP_WAIT_ANY] = 4, [STEP_WAIT_SOME] = 4,
	[STEP_TEST] = 6, [STEP_LOCKED_ADD] = 6, [STEP_WRONG] = 3, [STEP_TEAM_CHECK] = 3, [STEP_COLL] = 60,
	[STEP_PAUSE] = 2,
};

static enum step_kind pick_kind(struct maker *maker)
{
	uint32_t all = 0, at;
	int kind = 0;

	for (int i = 0; i < N_STEP_KINDS; i++)
		all += weights[i];
	for (at = draw(maker, all); at >= weights[kind]; kind++)
		at -= weights[kind];
	return (enum step_kind)kind;
}

uint64_t pick_size(struct maker *maker)
{
	uint32_t cap = maker->program->cap;

	if (one_in(maker, 8))
		return ((uint64_t)draw(maker, 3u << 20) + cap) / 64 * 64 + 64;
	return one_in(maker, 4) ? 1 + draw(maker, 100) : 64 + draw(maker, cap - 63);
}

static void pick_teams(struct maker *maker, struct step *step)
{
	int n = maker->program->n_pes, parent = maker->model->worlds[step->world].teams[step->team].n[0];

	step->to = 1 + (int)draw(maker, MAX_TEAMS - 1);
	step->to2 = 1 + (int)draw(maker, MAX_TEAMS - 1);
	for (int i = 0; i < n; i++) {
		step->color[i] = (int8_t)((int)draw(maker, 4) - 1);
		step->key[i] = (int8_t)draw(maker, 5);
	}
	if (parent < 1)
		parent = 1;
	step->op = (int)draw(maker, (uint32_t)parent);
	step->value = (uint64_t)(int64_t)((int)draw(maker, 5) - 2);
	step->bytes = 1 + draw(maker, (uint32_t)parent);
}

static void pick_call(struct maker *maker, struct step *step)
{
	step->size = pick_size(maker);
	step->align = UINT64_C(1) << draw(maker, one_in(maker, 6) ? 17 : 9);
	step->alloc = step->kind == STEP_REALLOC || step->kind == STEP_FREE ? pick_alloc(maker, step) : 1 + (int)draw(maker, MAX_ALLOCS - 1);
	step->team = one_in(maker, 3) ? 0 : (int)draw(maker, MAX_TEAMS);
	step->value = draw(maker, UINT32_MAX);
	if (step->kind >= STEP_SPLIT_COLOR && step->kind <= STEP_SPLIT_2D)
		pick_teams(maker, step);
	if (step->kind == STEP_CTX || step->kind == STEP_CTX_END)
		step->ctx = 1 + (int)draw(maker, MAX_CTXS - 1);
	if (step->kind == STEP_SYNC || step->kind == STEP_BARRIER)
		step->op = maker->model->worlds[step->world].teams[step->team].color[step->pe];
	if (step->kind == STEP_WRONG)
		step->op = (int)draw(maker, 6);
	if (step->kind <= STEP_REALLOC || (step->kind >= STEP_MALLOC_FAILS && step->kind <= STEP_TEAM_END) || step->kind == STEP_SYNC ||
	    step->kind == STEP_BARRIER)
		step->pe = ALL_PES;
}

static void pick_wait(struct maker *maker, struct step *step)
{
	step->word = (int)draw(maker, N_WORDS);
	step->n = 1;
	step->cmp = (int)draw(maker, 6);
	if (one_in(maker, 3))
		step->cmp |= SHMD_CMP_SIGNED;
	step->op = (int)draw(maker, 2);
	if (step->kind == STEP_WAIT || step->kind == STEP_TEST)
		return;
	step->n = 1 + draw(maker, MAX_WAIT);
	step->mask = draw(maker, 1u << step->n);
	step->good = step->kind == STEP_WAIT_ALL ? step->mask : step->mask & draw(maker, 1u << step->n);
	step->cmp = SHMD_CMP_GE;
}

void pick_access(struct maker *maker, struct step *step)
{
	pick_way(maker, step);
	step->word = (int)draw(maker, N_WORDS);
	pick_place(maker, step, maker->program->cap);
	step->compare = draw(maker, UINT32_MAX);
	step->value = draw(maker, UINT32_MAX);
	if (has_blocks(step->kind))
		pick_blocks(maker, step);
	else if (step->kind == STEP_P || step->kind == STEP_G)
		pick_word(maker, step, 1);
	else if (step->kind == STEP_ATOMIC || step->kind == STEP_ATOMIC_FETCH)
		pick_atomic(maker, step);
	else if (step->kind >= STEP_PUT_SIGNAL && step->kind <= STEP_FLAG)
		step->value = 1 + draw(maker, 3);
	if (step->kind == STEP_PUT_SIGNAL || step->kind == STEP_PUT_SIGNAL_NBI)
		step->word = (int)draw(maker, 12) / 2 * 4 + (int)draw(maker, 2);
	if (step->kind == STEP_LOCKED_ADD) {
		step->alloc = 0;
		step->compare = 1 + draw(maker, 6);
	}
}

struct step pick(struct maker *maker)
{
	struct step step = {.near_alloc = PRIVATE, .pe = pick_pe(maker), .kind = pick_kind(maker)};

	step.world = (int)draw(maker, (uint32_t)maker->program->n_worlds);
	if (step.kind >= STEP_WAIT && step.kind <= STEP_TEST)
		pick_wait(maker, &step);
	else if ((step.kind >= STEP_PUT && step.kind <= STEP_FLAG) || step.kind == STEP_LOCKED_ADD)
		pick_access(maker, &step);
	else if (step.kind >= STEP_FENCE && step.kind <= STEP_QUIET_PE)
		pick_way(maker, &step);
	else if (step.kind == STEP_COLL)
		pick_coll(maker, &step);
	else
		pick_call(maker, &step);
	return step;
}
