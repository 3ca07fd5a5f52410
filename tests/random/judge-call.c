/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that are no access to memory: the heap, teams, contexts, order. */
#include <stdlib.h>
#include <string.h>

#include "tests/random/model.h"

static struct model_world *world_of(struct model *model, const struct step *step)
{
	return &model->worlds[step->world];
}

/* Signals that are forgotten announce nothing any more. */
static void forget_events(struct model_world *w)
{
	for (int pe = 0; pe < MAX_PES; pe++)
		for (int i = 0; i < N_WORDS; i++)
			w->words[pe][i].n_events = 0;
}

static void meet(struct model *model, int world, uint32_t members, bool completes)
{
	int n = model->program->n_pes;

	for (int pe = 0; pe < n; pe++) {
		if (!(members >> pe & 1))
			continue;
		order_tick(&model->order, pe);
		if (completes)
			order_quiet(&model->order, world, pe, 0, ALL_PES);
	}
	order_meet(&model->order, members);
	if (members != (1u << n) - 1)
		return;
	order_prune(&model->order, world, -1);
	forget_events(&model->worlds[world]);
}

static void meet_all(struct model *model, int world)
{
	meet(model, world, (1u << model->program->n_pes) - 1, true);
}

/* ---- the heap --------------------------------------------------------------------------------------------------------------- */

static void fill(struct model *model, const struct step *step, int pe, uint32_t from)
{
	uint32_t known = model_known_bytes(model, step->world, step->alloc);

	for (uint32_t i = from; i < known; i++)
		*model_at(model, step->world, step->alloc, pe, i) = step->kind == STEP_CALLOC ? 0 : pattern_byte(step->value + (uint64_t)pe, i);
}

static bool allocate(struct model *model, struct step *step)
{
	struct model_alloc *a = &world_of(model, step)->allocs[step->alloc];

	if (a->is_live || !step->size || step->size > (64u << 20) || (!step->alloc && step->kind != STEP_CALLOC))
		return false;
	a->is_live = true;
	a->freed = 0;
	a->size = step->size;
	for (int pe = 0; pe < model->program->n_pes; pe++)
		fill(model, step, pe, 0);
	meet_all(model, step->world);
	return true;
}

/* Bytes from the start on that the model knows. */
static uint32_t prefix(const struct model *model, uint64_t size)
{
	return size <= model->program->cap ? (uint32_t)size : model->program->cap / 2;
}

static void want_prefix(struct model *model, struct step *step, uint32_t kept)
{
	struct program *program = model->program;

	step->bytes = kept;
	step->want_at = program->n_wanted;
	if (program->n_wanted + kept * MAX_PES >= program->room_wanted) {
		program->room_wanted = 2 * (program->room_wanted + kept * MAX_PES) + 64;
		program->wanted = realloc(program->wanted, program->room_wanted);
	}
	for (int pe = 0; pe < program->n_pes; pe++, program->n_wanted += kept)
		memcpy(program->wanted + program->n_wanted, model_at(model, step->world, step->alloc, pe, 0), kept);
}

static bool reallocate(struct model *model, struct step *step)
{
	struct model_alloc *a = &world_of(model, step)->allocs[step->alloc];
	uint32_t kept;

	if (!a->is_live || a->freed || !step->alloc || !step->size || step->size > (64u << 20))
		return false;
	/* The call completes the default context. */
	if (order_is_busy(&model->order, step->world, step->alloc, ALL_PES, 0))
		return false;
	kept = prefix(model, a->size) < prefix(model, step->size) ? prefix(model, a->size) : prefix(model, step->size);
	want_prefix(model, step, kept);
	a->size = step->size;
	for (int pe = 0; pe < model->program->n_pes; pe++)
		fill(model, step, pe, kept);
	meet_all(model, step->world);
	return true;
}

static bool release(struct model *model, const struct step *step)
{
	struct model_alloc *a = &world_of(model, step)->allocs[step->alloc];

	if (!model_has(model, step->world, step->alloc, step->pe) || order_is_busy(&model->order, step->world, step->alloc, step->pe, LOCAL_CTX))
		return false;
	a->freed |= 1u << step->pe;
	if (a->freed != (1u << model->program->n_pes) - 1)
		return true;
	a->is_live = false;
	order_prune(&model->order, step->world, step->alloc);
	return true;
}

/* ---- teams and contexts ----------------------------------------------------------------------------------------------------- */

static bool split(struct model *model, const struct step *step)
{
	struct model_world *w = world_of(model, step);
	struct model_team row, column;
	int second = step->kind == STEP_SPLIT_2D ? step->to2 : step->to;

	if (step->to < 1 || second < 1 || w->teams[step->to].is_live || w->teams[second].is_live ||
	    (step->kind == STEP_SPLIT_2D && (step->to == step->to2 || step->bytes < 1)) ||
	    !team_split(&w->teams[step->team], step, model->program->n_pes, &row, &column))
		return false;
	w->teams[second] = column;
	w->teams[step->to] = row;
	return true;
}

static bool end_team(struct model *model, const struct step *step)
{
	struct model_world *w = world_of(model, step);

	if (!step->team || !w->teams[step->team].is_live)
		return false;
	for (int pe = 0; pe < model->program->n_pes; pe++)
		for (int i = 0; i < MAX_CTXS; i++)
			if (w->ctx_team[pe][i] == step->team)
				return false;
	w->teams[step->team].is_live = false;
	return true;
}

static bool make_ctx(struct model *model, const struct step *step)
{
	struct model_world *w = world_of(model, step);

	if (step->ctx < 1 || w->ctx_team[step->pe][step->ctx] >= 0 ||
	    !model_is_member(model, step->world, step->team, step->pe, step->pe))
		return false;
	w->ctx_team[step->pe][step->ctx] = step->team;
	return true;
}

static bool end_ctx(struct model *model, const struct step *step)
{
	struct model_world *w = world_of(model, step);

	if (step->ctx < 1 || w->ctx_team[step->pe][step->ctx] < 0)
		return false;
	order_tick(&model->order, step->pe);
	order_quiet(&model->order, step->world, step->pe, step->ctx, ALL_PES);
	w->ctx_team[step->pe][step->ctx] = -1;
	return true;
}

/* ---- order ------------------------------------------------------------------------------------------------------------------ */

static bool sync(struct model *model, const struct step *step)
{
	uint32_t members = team_members(&world_of(model, step)->teams[step->team], step->op, model->program->n_pes);

	if (members)
		meet(model, step->world, members, step->kind == STEP_BARRIER);
	return members != 0;
}

static bool order(struct model *model, const struct step *step)
{
	bool is_of_pe = step->kind == STEP_FENCE_PE || step->kind == STEP_QUIET_PE;
	int team = world_of(model, step)->ctx_team[step->pe][step->ctx], to = is_of_pe ? step->to : ALL_PES;

	if (team < 0 || (is_of_pe && !model_is_member(model, step->world, team, step->pe, step->to)))
		return false;
	order_tick(&model->order, step->pe);
	if (step->kind == STEP_FENCE || step->kind == STEP_FENCE_PE)
		order_fence(&model->order, step->world, step->pe, step->ctx, to);
	else
		order_quiet(&model->order, step->world, step->pe, step->ctx, to);
	return true;
}

/* ---- calls that change nothing ---------------------------------------------------------------------------------------------- */

static bool wrong(struct model *model, const struct step *step)
{
	const struct model_alloc *a = &world_of(model, step)->allocs[step->alloc];

	if (step->op == 0)
		return a->is_live && (a->freed >> step->pe & 1);
	return model_has(model, step->world, step->alloc, step->pe) && a->size >= 64;
}

bool judge_collective(struct model *model, struct step *step)
{
	switch (step->kind) {
	case STEP_MALLOC:
	case STEP_CALLOC:
	case STEP_ALIGN:
		return allocate(model, step);
	case STEP_REALLOC:
		return reallocate(model, step);
	case STEP_FREE:
		return release(model, step);
	case STEP_MALLOC_FAILS:
	case STEP_PAUSE:
		return true;
	case STEP_MALLOC_DIFFERS:
		return model->program->n_pes > 1;
	case STEP_SPLIT_COLOR:
	case STEP_SPLIT_STRIDED:
	case STEP_SPLIT_2D:
		return split(model, step);
	case STEP_TEAM_END:
		return end_team(model, step);
	case STEP_CTX:
		return make_ctx(model, step);
	case STEP_CTX_END:
		return end_ctx(model, step);
	case STEP_SYNC:
	case STEP_BARRIER:
		return sync(model, step);
	case STEP_COLL:
		return judge_coll(model, step);
	case STEP_WRONG:
		return wrong(model, step);
	case STEP_TEAM_CHECK:
		return model_is_member(model, step->world, step->team, step->pe, step->pe);
	default:
		return order(model, step);
	}
}
