/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs from seeds. A step is chosen without care and shown to the judge, which refuses what would race; then another is tried, now and
 * then behind a fence, a quiet or a barrier, which is what lets most steps pass.
 */
#include <shmd.h>
#include <stdlib.h>
#include <string.h>

#include "tests/random/model.h"

struct maker {
	struct program *program;
	struct model *model;
	uint64_t state;
	struct step last; /* the newest put, whose place is often used again */
};

static uint32_t draw(struct maker *maker, uint32_t n)
{
	maker->state += 0x9e3779b97f4a7c15u;
	return n ? mix32(maker->state) % n : 0;
}

static bool one_in(struct maker *maker, uint32_t n)
{
	return draw(maker, n) == 0;
}

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

/* ---- places ----------------------------------------------------------------------------------------------------------------- */

static int pick_pe(struct maker *maker)
{
	return (int)draw(maker, (uint32_t)maker->program->n_pes);
}

/* An allocation that the PE has; seldom any. */
static int pick_alloc(struct maker *maker, const struct step *step)
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
static uint32_t pick_at(struct maker *maker, int world, int alloc, uint32_t span, uint32_t align)
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
	[STEP_PUT_STRIDED] = 10, [STEP_BATCH] = 8, [STEP_GET] = 20, [STEP_GET_NBI] = 10, [STEP_G] = 15, [STEP_GET_STRIDED] = 8,
	[STEP_STORE] = 8, [STEP_CHECK] = 15, [STEP_ATOMIC] = 30, [STEP_ATOMIC_FETCH] = 30, [STEP_PUT_SIGNAL] = 15,
	[STEP_PUT_SIGNAL_NBI] = 10, [STEP_FLAG] = 15, [STEP_WAIT] = 8, [STEP_WAIT_ALL] = 4, [STEP_WAIT_ANY] = 4, [STEP_WAIT_SOME] = 4,
	[STEP_TEST] = 6, [STEP_LOCKED_ADD] = 6, [STEP_WRONG] = 3, [STEP_TEAM_CHECK] = 3,
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

static uint64_t pick_size(struct maker *maker)
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

static void pick_access(struct maker *maker, struct step *step)
{
	pick_way(maker, step);
	step->word = (int)draw(maker, N_WORDS);
	pick_place(maker, step, maker->program->cap);
	step->compare = draw(maker, UINT32_MAX);
	step->value = draw(maker, UINT32_MAX);
	if (step->kind == STEP_PUT_STRIDED || step->kind == STEP_GET_STRIDED || step->kind == STEP_BATCH)
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

static struct step pick(struct maker *maker)
{
	struct step step = {.near_alloc = PRIVATE, .pe = pick_pe(maker), .kind = pick_kind(maker)};

	step.world = (int)draw(maker, (uint32_t)maker->program->n_worlds);
	if (step.kind >= STEP_WAIT && step.kind <= STEP_TEST)
		pick_wait(maker, &step);
	else if ((step.kind >= STEP_PUT && step.kind <= STEP_FLAG) || step.kind == STEP_LOCKED_ADD)
		pick_access(maker, &step);
	else if (step.kind >= STEP_FENCE && step.kind <= STEP_QUIET_PE)
		pick_way(maker, &step);
	else
		pick_call(maker, &step);
	return step;
}

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

/* What a late PE did before it met the others is there for them. */
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
	model_free(maker.model);
}
