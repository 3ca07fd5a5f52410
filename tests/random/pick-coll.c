/* SPDX-License-Identifier: Apache-2.0 */
/* Collective calls as they come: few bytes travel with the messages, more are read where they are. */
#include <shmd.h>

#include "tests/random/coll.h"
#include "tests/random/generate.h"

static uint32_t pick_n(struct maker *maker, const struct step *step)
{
	/* Now and then as many as the memory of a context for data of others has, and more. */
	if (maker->program->cap > 4096 && one_in(maker, 4))
		return draw(maker, maker->program->cap / step->bytes / 3);
	if (one_in(maker, 20))
		return 0;
	return 1 + draw(maker, one_in(maker, 3) ? 100 : 64 / step->bytes);
}

static void pick_math(struct maker *maker, struct step *step)
{
	step->mask = SHMD_TYPE_INT8 + draw(maker, SHMD_TYPE_COMPLEX_DOUBLE);
	step->cmp = 1 + (int)draw(maker, step->mask >= SHMD_TYPE_COMPLEX_FLOAT ? SHMD_REDUCE_PROD :
					 step->mask >= SHMD_TYPE_FLOAT	       ? SHMD_REDUCE_MAX :
										 SHMD_REDUCE_XOR);
	step->bytes = (uint32_t)shmd_type_bytes((enum shmd_type)step->mask);
	step->n = pick_n(maker, step);
}

static void pick_move(struct maker *maker, struct step *step)
{
	step->bytes = 1u << draw(maker, 4);
	step->n = pick_n(maker, step);
	if (step->word != COLL_ALLTOALLS)
		return;
	step->bytes = 1 + draw(maker, one_in(maker, 3) ? 60 : 9);
	step->n = 1 + draw(maker, 5);
	step->stride = step->bytes + (one_in(maker, 4) ? 0 : draw(maker, 20));
	step->near_stride = step->bytes + (one_in(maker, 4) ? 0 : draw(maker, 20));
}

static uint32_t place(struct maker *maker, const struct step *step, int alloc, uint32_t bytes)
{
	uint32_t at = pick_at(maker, step->world, alloc, bytes, 1);

	return coll_computes(step->word) ? at / step->bytes * step->bytes : at;
}

void pick_coll(struct maker *maker, struct step *step)
{
	const struct model_world *w = &maker->model->worlds[step->world];
	int pe = step->pe, n = 1;

	step->pe = ALL_PES;
	step->team = one_in(maker, 4) ? 0 : (int)draw(maker, MAX_TEAMS);
	if (w->teams[step->team].is_live && w->teams[step->team].color[pe] >= 0) {
		step->op = w->teams[step->team].color[pe];
		n = w->teams[step->team].n[pe];
	}
	step->to = (int)draw(maker, (uint32_t)n);
	step->word = (int)draw(maker, N_COLL_CALLS);
	step->value = draw(maker, UINT32_MAX);
	if (coll_computes(step->word))
		pick_math(maker, step);
	else
		pick_move(maker, step);
	step->alloc = pick_alloc(maker, &(struct step){.world = step->world, .pe = pe});
	step->near_alloc = pick_alloc(maker, &(struct step){.world = step->world, .pe = pe});
	step->near_at = place(maker, step, step->near_alloc, coll_source_bytes(step, n, pe));
	step->at = place(maker, step, step->alloc, step->n * step->bytes * (step->word == COLL_REDUCE ? 1 : (uint32_t)n));
	if (one_in(maker, 4) && (coll_computes(step->word) || step->word == COLL_BROADCAST)) {
		step->near_alloc = step->alloc;
		step->near_at = step->at;
	}
}
