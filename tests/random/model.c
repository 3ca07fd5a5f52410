/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/random/model.h"

#include <stdlib.h>
#include <string.h>

/* ---- words ------------------------------------------------------------------------------------------------------------------ */

uint32_t word_bytes(int word)
{
	return word < 24 ? 8 : word < 32 ? 4 : 2;
}

uint32_t word_at(int word)
{
	if (word < 24)
		return (uint32_t)offsetof(struct words, w8) + 8 * (uint32_t)word;
	if (word < 32)
		return (uint32_t)offsetof(struct words, w4) + 4 * (uint32_t)(word - 24);
	return (uint32_t)offsetof(struct words, w2) + 2 * (uint32_t)(word - 32);
}

enum word_use word_use(int word)
{
	if (word < 24)
		return (enum word_use)(word % 4);
	return word < 32 && word % 2 ? USE_ATOMIC_ADD : USE_PUT;
}

uint64_t model_word(const struct model *model, int world, int pe, int word)
{
	uint64_t v = 0;

	memcpy(&v, model_at(model, world, 0, pe, word_at(word)), word_bytes(word));
	return v;
}

/* ---- questions -------------------------------------------------------------------------------------------------------------- */

uint32_t model_known_bytes(const struct model *model, int world, int alloc)
{
	uint64_t size = model->worlds[world].allocs[alloc].size;

	return size < model->program->cap ? (uint32_t)size : model->program->cap;
}

bool model_has(const struct model *model, int world, int alloc, int pe)
{
	const struct model_alloc *a = &model->worlds[world].allocs[alloc];

	return a->is_live && !(a->freed >> pe & 1);
}

bool model_range(const struct model *model, int world, int alloc, uint32_t at, uint32_t bytes)
{
	uint32_t known = model_known_bytes(model, world, alloc), half = model->program->cap / 2;

	if (!model->worlds[world].allocs[alloc].is_live || at > known || bytes > known - at)
		return false;
	return model->worlds[world].allocs[alloc].size <= model->program->cap || at >= half || at + bytes <= half;
}

uint8_t *model_at(const struct model *model, int world, int alloc, int pe, uint32_t at)
{
	return model->worlds[world].allocs[alloc].bytes + (size_t)pe * model->program->cap + at;
}

bool model_is_member(const struct model *model, int world, int team, int a, int b)
{
	const struct model_team *t = &model->worlds[world].teams[team];

	return t->is_live && t->color[a] >= 0 && t->color[a] == t->color[b];
}

/* ---- accesses --------------------------------------------------------------------------------------------------------------- */

struct access access_far(const struct step *step, enum access_kind kind, int to, uint32_t at, uint32_t bytes)
{
	return (struct access){.kind = kind,
			       .world = step->world,
			       .pe = step->pe,
			       .ctx = step->ctx,
			       .far = to,
			       .alloc = step->alloc,
			       .owner = to,
			       .lo = at,
			       .hi = at + bytes,
			       .is_update = kind != ACCESS_READ};
}

struct access access_word(const struct step *step, enum access_kind kind)
{
	struct access access = access_far(step, kind, step->to, word_at(step->word), word_bytes(step->word));

	access.alloc = 0;
	return access;
}

void accesses_add(struct accesses *accesses, struct access access, bool is_done)
{
	if (access.lo == access.hi)
		return;
	accesses->done |= (uint32_t)is_done << accesses->n;
	accesses->list[accesses->n++] = access;
}

bool accesses_meet(const struct access *a, const struct access *b)
{
	return a->alloc == b->alloc && a->owner == b->owner && a->lo < b->hi && b->lo < a->hi &&
	       (a->kind != ACCESS_READ || b->kind != ACCESS_READ);
}

bool accesses_take(struct model *model, const struct accesses *accesses)
{
	for (uint32_t i = 0; i < accesses->n; i++) {
		const struct access *a = &accesses->list[i];

		if (!model_has(model, a->world, a->alloc, a->pe) || !order_allows(&model->order, a))
			return false;
		for (uint32_t k = 0; k < i; k++)
			if (accesses_meet(a, &accesses->list[k]))
				return false;
	}
	if (model->order.n_records + accesses->n > MAX_RECORDS)
		return false;
	for (uint32_t i = 0; i < accesses->n; i++)
		(void)order_add(&model->order, &accesses->list[i], accesses->done >> i & 1);
	return true;
}

/* ---- life ------------------------------------------------------------------------------------------------------------------- */

static void start_world(struct model *model, int world)
{
	struct model_world *w = &model->worlds[world];
	int n = model->program->n_pes;

	for (int a = 0; a < MAX_ALLOCS; a++)
		w->allocs[a].bytes = calloc((size_t)n, model->program->cap);
	memset(w->ctx_team, -1, sizeof(w->ctx_team));
	team_of_all(model->program, world, &w->teams[0]);
	for (int pe = 0; pe < n; pe++)
		w->ctx_team[pe][0] = 0;
}

struct model *model_new(struct program *program)
{
	struct model *model = calloc(1, sizeof(*model));

	if (!model)
		abort();
	model->program = program;
	model->order.n_pes = program->n_pes;
	for (int i = 0; i < program->n_worlds; i++)
		start_world(model, i);
	return model;
}

void model_free(struct model *model)
{
	for (int i = 0; i < MAX_WORLDS; i++)
		for (int a = 0; a < MAX_ALLOCS; a++)
			free(model->worlds[i].allocs[a].bytes);
	free(model);
}

/* ---- one step --------------------------------------------------------------------------------------------------------------- */

static bool is_wait(enum step_kind kind)
{
	return kind >= STEP_WAIT && kind <= STEP_TEST;
}

static bool is_access(enum step_kind kind)
{
	return (kind >= STEP_PUT && kind <= STEP_FLAG) || kind == STEP_LOCKED_ADD;
}

/* The context exists and leads to the other PE. */
static bool has_way(const struct model *model, const struct step *step, int to)
{
	int team = model->worlds[step->world].ctx_team[step->pe][step->ctx];

	return team >= 0 && model_is_member(model, step->world, team, step->pe, to);
}

static bool judge_step(struct model *model, struct step *step)
{
	if (step->world >= model->program->n_worlds)
		return false;
	if (!is_access(step->kind) && !is_wait(step->kind))
		return judge_collective(model, step);
	if (!has_way(model, step, step->pe) || (is_access(step->kind) && !has_way(model, step, step->to)) ||
	    (is_batch(step->kind) && !has_way(model, step, step->to2)))
		return false;
	order_tick(&model->order, step->pe);
	return is_wait(step->kind) ? judge_wait(model, step) : judge_access(model, step);
}

bool judge(struct model *model, struct step *step)
{
	bool is_good = judge_step(model, step);

	if (is_good && step->kind != STEP_COLL)
		model->is_coll_last = false;
	return is_good;
}
