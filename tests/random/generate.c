/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs from seeds. A step is chosen without care and shown to the judge, which refuses what would race; then another is tried, now and
 * then behind a fence, a quiet or a barrier, which is what lets most steps pass.
 */
#include <shmd.h>
#include <stdlib.h>
#include <string.h>

#include "tests/random/generate.h"

/* ---- the list --------------------------------------------------------------------------------------------------------------- */

void program_add(struct program *program, const struct step *step)
{
	if (program->n_steps == program->room_steps) {
		program->room_steps = program->room_steps ? 2 * program->room_steps : 256;
		program->steps = realloc(program->steps, program->room_steps * sizeof(*step));
	}
	program->steps[program->n_steps++] = *step;
}

void program_free(struct program *program)
{
	free(program->steps);
	free(program->wanted);
	program->steps = NULL;
	program->wanted = NULL;
}

void program_cut(const struct program *from, const bool *keep, struct program *ret_program)
{
	struct model *model;

	*ret_program = *from;
	ret_program->steps = NULL;
	ret_program->wanted = NULL;
	ret_program->n_steps = ret_program->room_steps = ret_program->n_wanted = ret_program->room_wanted = 0;
	model = model_new(ret_program);
	for (uint32_t i = 0; i < from->n_steps; i++) {
		struct step step = from->steps[i];

		if (keep[i] && judge(model, &step))
			program_add(ret_program, &step);
	}
	model_free(model);
}

static bool offer(struct maker *maker, struct step *step)
{
	if (!judge(maker->model, step))
		return false;
	program_add(maker->program, step);
	return true;
}

/* ---- steps that belong together --------------------------------------------------------------------------------------------- */

/* A refused step often lacks no more than order. */
static void put_order_before(struct maker *maker, const struct step *step)
{
	static const enum step_kind kinds[] = {STEP_FENCE, STEP_FENCE_PE, STEP_FENCE, STEP_QUIET, STEP_QUIET_PE, STEP_QUIET, STEP_BARRIER};
	struct step order = {.kind = kinds[draw(maker, 7)], .world = step->world, .pe = step->pe, .ctx = step->ctx, .to = step->to};

	if (order.kind == STEP_BARRIER || step->pe == ALL_PES)
		order = (struct step){.kind = STEP_BARRIER, .world = step->world, .pe = ALL_PES, .value = draw(maker, 2)};
	(void)offer(maker, &order);
}

/* The other PE waits for the signal, looks at the data, and often answers. */
static void follow(struct maker *maker, const struct step *step)
{
	struct step wait = {.kind = STEP_WAIT, .world = step->world, .pe = step->to, .word = step->word, .n = 1, .near_alloc = PRIVATE};
	struct step check = {.kind = STEP_CHECK, .world = step->world, .pe = step->to, .alloc = step->alloc, .at = step->at,
			     .bytes = step->bytes, .near_alloc = PRIVATE};

	if (step->kind == STEP_FLAG) {
		check.alloc = maker->last.alloc;
		check.at = maker->last.at;
		check.bytes = maker->last.bytes;
	}
	wait.cmp = one_in(maker, 3) ? SHMD_CMP_EQ : one_in(maker, 3) ? SHMD_CMP_GT : SHMD_CMP_GE;
	if (offer(maker, &wait) && check.bytes)
		(void)offer(maker, &check);
}

/* A sum of floating point begins with a number that the PE puts there. */
static bool begin_sum(struct maker *maker, struct step *step)
{
	struct step first = *step;

	first.kind = STEP_P;
	first.value = 0;
	if (step->bytes == 8)
		memcpy(&first.value, &(double){(double)draw(maker, 50)}, 8);
	else
		memcpy(&first.value, &(float){(float)draw(maker, 50)}, 4);
	step->value = first.value;
	if (offer(maker, &first)) {
		first.kind = STEP_QUIET;
		(void)offer(maker, &first);
	}
	return offer(maker, step);
}

/* Other PEs want the same lock, or word, at the same time. */
static void crowd(struct maker *maker, struct step step)
{
	step.ctx = 0;
	step.is_exact = false;
	if (step.kind != STEP_LOCKED_ADD) {
		step.n = 51;
		(void)offer(maker, &(struct step){.kind = STEP_BARRIER, .world = step.world, .pe = ALL_PES});
	}
	for (int i = 0; i < 3; i++) {
		step.pe = (step.pe + 1) % maker->program->n_pes;
		(void)offer(maker, &step);
	}
}

/* A PE is late, and the others see all that it did before it met them. */
static bool meet_late(struct maker *maker, struct step *step)
{
	const struct model_world *w = &maker->model->worlds[step->world];
	uint32_t members = team_members(&w->teams[step->team], step->op, maker->program->n_pes);
	struct step late = {.kind = STEP_PAUSE, .world = step->world, .pe = pick_pe(maker), .near_alloc = PRIVATE}, look;

	if (!(members >> late.pe & 1))
		return offer(maker, step);
	(void)offer(maker, &late);
	late.kind = step->kind == STEP_SYNC ? STEP_STORE : STEP_PUT;
	pick_access(maker, &late);
	late.ctx = 0;
	(void)offer(maker, &late);
	if (!offer(maker, step))
		return false;
	look = late;
	look.kind = step->kind == STEP_SYNC ? STEP_GET : STEP_CHECK;
	look.near_alloc = PRIVATE;
	for (look.pe = 0; look.pe < maker->program->n_pes; look.pe++) {
		if (step->kind == STEP_SYNC && (members >> look.pe & 1) && look.pe != late.pe)
			(void)offer(maker, &look);
		if (step->kind == STEP_BARRIER && look.pe == late.to)
			(void)offer(maker, &look);
	}
	return true;
}

/* An atomic, a fence and a flag: a PE that sees the flag sees the atomic, although they may go by different ways. */
static void announce_atomic(struct maker *maker, const struct step *step)
{
	struct step fence = {.kind = STEP_FENCE, .world = step->world, .pe = step->pe, .ctx = step->ctx};
	struct step flag = {.kind = STEP_FLAG, .world = step->world, .pe = step->pe, .ctx = step->ctx, .to = step->to, .value = 1,
			    .word = 2 + 4 * (int)draw(maker, 6), .near_alloc = PRIVATE};
	struct step wait = {.kind = STEP_WAIT, .world = step->world, .pe = step->to, .word = flag.word, .n = 1, .cmp = SHMD_CMP_GE};
	struct step look = {.kind = STEP_CHECK, .world = step->world, .pe = step->to, .alloc = step->alloc, .at = step->at,
			    .bytes = step->bytes, .near_alloc = PRIVATE};

	(void)offer(maker, &fence);
	if (offer(maker, &flag) && offer(maker, &wait))
		(void)offer(maker, &look);
}

/* Another collective, on another team, for a second thread of its PEs. */
static void come_beside(struct maker *maker, const struct step *step)
{
	for (int i = 0; i < 6; i++) {
		struct step beside = {.kind = STEP_COLL, .world = step->world, .pe = pick_pe(maker), .wants_beside = true};

		if (one_in(maker, 4))
			beside.world = (int)draw(maker, (uint32_t)maker->program->n_worlds);
		pick_coll(maker, &beside);
		if ((beside.team != step->team || beside.world != step->world) && offer(maker, &beside))
			return;
	}
}

/* Sources and dests of many PEs seldom rest all at once. */
static bool offer_coll(struct maker *maker, struct step *step)
{
	for (int i = 0; i < 4; i++) {
		if (offer(maker, step))
			return true;
		*step = (struct step){.kind = STEP_COLL, .world = step->world, .pe = pick_pe(maker)};
		pick_coll(maker, step);
	}
	return offer(maker, step);
}

static bool completes(enum step_kind kind)
{
	return kind <= STEP_REALLOC || kind == STEP_BARRIER || kind == STEP_CTX_END || kind == STEP_QUIET;
}

/* Operations that are under way when the step completes them. */
static void leave_open(struct maker *maker, const struct step *step)
{
	for (int i = 0; i < 3; i++) {
		struct step nbi = {.kind = one_in(maker, 3) ? STEP_PUT_NBI : STEP_GET_NBI, .world = step->world, .pe = step->pe};

		if (nbi.pe == ALL_PES)
			nbi.pe = pick_pe(maker);
		pick_access(maker, &nbi);
		nbi.ctx = step->ctx;
		nbi.near_alloc = nbi.kind == STEP_GET_NBI ? PRIVATE : nbi.near_alloc;
		(void)offer(maker, &nbi);
	}
}

static void make_step(struct maker *maker)
{
	struct step step = pick(maker);
	bool passes;

	if (completes(step.kind) && one_in(maker, 2))
		leave_open(maker, &step);
	if (step.kind == STEP_COLL)
		passes = offer_coll(maker, &step);
	else
		passes = step.kind == STEP_SYNC || step.kind == STEP_BARRIER ? meet_late(maker, &step) : offer(maker, &step);
	if (!passes && (step.kind == STEP_ATOMIC || step.kind == STEP_ATOMIC_FETCH) && step.op == SHMD_ATOMIC_ADD_FLOAT)
		passes = begin_sum(maker, &step);
	if (!passes && one_in(maker, 2)) {
		put_order_before(maker, &step);
		passes = offer(maker, &step);
	}
	if (!passes)
		return;
	if (step.kind >= STEP_PUT && step.kind <= STEP_BATCH)
		maker->last = step;
	if (step.kind == STEP_ATOMIC && one_in(maker, 4))
		announce_atomic(maker, &step);
	else if ((step.kind == STEP_LOCKED_ADD && one_in(maker, 2)) ||
		 ((step.kind == STEP_ATOMIC || step.kind == STEP_ATOMIC_FETCH) && one_in(maker, 6)))
		crowd(maker, step);
	if (step.kind == STEP_COLL && one_in(maker, 2))
		come_beside(maker, &step);
	if (step.kind >= STEP_PUT_SIGNAL && step.kind <= STEP_FLAG && !one_in(maker, 3))
		follow(maker, &step);
}

/* ---- beginning and end ------------------------------------------------------------------------------------------------------ */

static void begin(struct maker *maker, int world)
{
	struct step words = {.kind = STEP_CALLOC, .world = world, .pe = ALL_PES, .size = sizeof(struct words)};
	struct step first = {.world = world, .pe = ALL_PES, .alloc = 1, .align = 64};

	/* Now and then the words lie behind the first chunk. */
	if (one_in(maker, 3)) {
		first.kind = STEP_MALLOC;
		first.size = 5u << 20;
		(void)offer(maker, &first);
	}
	(void)offer(maker, &words);
	for (first.alloc = 2; first.alloc < 5; first.alloc++) {
		first.kind = (enum step_kind)(STEP_MALLOC + draw(maker, 3));
		first.size = pick_size(maker);
		first.value = draw(maker, UINT32_MAX);
		(void)offer(maker, &first);
	}
}

static void check_all(struct maker *maker, int world, int pe)
{
	struct step check = {.kind = STEP_CHECK, .world = world, .pe = pe, .near_alloc = PRIVATE};

	for (int a = 0; a < MAX_ALLOCS; a++) {
		uint32_t known = model_known_bytes(maker->model, world, a), half = maker->program->cap / 2;

		check.alloc = a;
		check.at = 0;
		check.bytes = !a ? (uint32_t)offsetof(struct words, lock) : known;
		if (offer(maker, &check))
			continue;
		check.bytes = half;
		if (!offer(maker, &check))
			continue;
		check.at = half;
		check.bytes = known - half;
		(void)offer(maker, &check);
	}
	check.alloc = 0;
	check.at = (uint32_t)offsetof(struct words, guarded);
	check.bytes = 16;
	(void)offer(maker, &check);
}

/* Everything is looked at; then memory, contexts and some teams go, the rest is the close's. */
static void finish(struct maker *maker, int world)
{
	struct step barrier = {.kind = STEP_BARRIER, .world = world, .pe = ALL_PES};
	int n = maker->program->n_pes;

	for (int pe = 0; pe < n; pe++)
		for (int i = 1; i < MAX_CTXS; i++)
			(void)offer(maker, &(struct step){.kind = STEP_CTX_END, .world = world, .pe = pe, .ctx = i});
	(void)offer(maker, &barrier);
	for (int pe = 0; pe < n; pe++)
		check_all(maker, world, pe);
	for (int i = 1; i < MAX_TEAMS; i += 2)
		(void)offer(maker, &(struct step){.kind = STEP_TEAM_END, .world = world, .pe = ALL_PES, .team = i});
	(void)offer(maker, &barrier);
	for (int pe = 0; pe < n; pe++)
		for (int a = 0; a < MAX_ALLOCS; a++)
			(void)offer(maker, &(struct step){.kind = STEP_FREE, .world = world, .pe = pe, .alloc = a});
}

void program_make(struct program *program, uint64_t seed, int n_pes)
{
	struct maker maker = {.program = program, .state = seed * 0xd1342543de82ef95u, .last = {.alloc = 2, .near_alloc = PRIVATE}};
	uint32_t n;

	*program = (struct program){.seed = seed, .n_pes = n_pes, .n_worlds = one_in(&maker, 8) ? 2 : 1, .cap = 2048};
	if (n_pes <= 3 && one_in(&maker, 6))
		program->cap = 1u << 18;
	program->queue_depth = 16u << draw(&maker, 4);
	program->dcis = 1 + draw(&maker, 4);
	program->has_guards = one_in(&maker, 3);
	maker.model = model_new(program);
	for (int i = 0; i < program->n_worlds; i++)
		begin(&maker, i);
	n = (40 + draw(&maker, 260)) * (4 + (uint32_t)n_pes) / 4;
	for (uint32_t i = 0; i < n; i++)
		make_step(&maker);
	for (int i = 0; i < program->n_worlds; i++)
		finish(&maker, i);
	/* Drawn last: the steps of a seed stay what they were. */
	program->nics = 1 + draw(&maker, 2);
	model_free(maker.model);
}
