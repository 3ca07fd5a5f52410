/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits. Words only grow, so a wait for at least a value ends although later signals may come first; a wait for a word that PEs add to must be
 * over before another PE adds, or the sum would not tell who has added.
 */
#include <shmd.h>

#include "tests/random/model.h"

#define NEVER 30000 /* no word becomes as large */

static bool adds(int word)
{
	return word_use(word) == USE_SIGNAL_ADD || word_use(word) == USE_ATOMIC_ADD;
}

/* From here on the PE knows what the signals of this word announce. */
static void see(struct model *model, const struct step *step, int word, bool is_sealed)
{
	struct model_word *w = &model->worlds[step->world].words[step->pe][word];
	struct access access = {.kind = ACCESS_READ, .world = step->world, .pe = step->pe, .ctx = LOCAL_CTX, .far = step->pe,
				.owner = step->pe, .lo = word_at(word), .hi = word_at(word) + word_bytes(word)};

	for (uint32_t i = 0; i < w->n_events; i++)
		order_see(&model->order, step->pe, &w->events[i]);
	w->n_events = 0;
	if (is_sealed || adds(word))
		(void)order_add(&model->order, &access, true);
}

static bool is_valid(const struct model *model, const struct step *step)
{
	int last = step->word + (int)step->n - 1;

	return model_has(model, step->world, 0, step->pe) && step->n >= 1 && step->n <= MAX_WAIT && last < N_WORDS &&
	       word_bytes(last) == word_bytes(step->word) && model->order.n_records + step->n <= MAX_RECORDS;
}

static uint64_t value_of(const struct model *model, const struct step *step, uint32_t i)
{
	return model_word(model, step->world, step->pe, step->word + (int)i);
}

/* Words in `good` are waited for as they are now, the others for what never comes. */
static bool wait_many(struct model *model, struct step *step)
{
	step->good &= step->mask;
	if (!step->good || (step->kind == STEP_WAIT_ALL && step->good != step->mask))
		return false;
	for (uint32_t i = 0; i < step->n; i++)
		step->values[i] = step->good >> i & 1 ? value_of(model, step, i) : NEVER;
	for (uint32_t i = 0; i < step->n; i++)
		if ((step->good >> i & 1) && (step->kind == STEP_WAIT_ALL || !(step->good & (step->good - 1))))
			see(model, step, step->word + (int)i, false);
	return true;
}

/* All words are larger than a negative number. */
static bool is_negative(const struct step *step)
{
	return (step->cmp & SHMD_CMP_SIGNED) && step->op;
}

static bool wait_one(struct model *model, struct step *step)
{
	uint64_t v = value_of(model, step, 0);

	int cmp = step->cmp & ~SHMD_CMP_SIGNED;

	if (is_negative(step)) {
		step->value = (uint64_t)-3;
		return cmp >= SHMD_CMP_NE && cmp <= SHMD_CMP_GE;
	}
	/* They hold at once, and announce nothing. */
	step->value = NEVER;
	if (cmp == SHMD_CMP_NE || cmp == SHMD_CMP_LT || cmp == SHMD_CMP_LE)
		return true;
	if (cmp == SHMD_CMP_GT && !v)
		return false;
	step->value = cmp == SHMD_CMP_GT ? v - 1 : v;
	see(model, step, step->word, cmp == SHMD_CMP_EQ);
	return true;
}

/* Is a signal of this word on its way that the PE has not waited for? Then its value is not known. */
static bool is_open(const struct model *model, const struct step *step)
{
	struct access access = {.kind = ACCESS_READ, .world = step->world, .pe = step->pe, .ctx = LOCAL_CTX, .far = step->pe,
				.owner = step->pe, .lo = word_at(step->word), .hi = word_at(step->word) + word_bytes(step->word)};

	return !order_allows(&model->order, &access);
}

/* Comparisons that stay as they are when the word grows. */
static bool test(struct model *model, struct step *step)
{
	uint64_t v = value_of(model, step, 0);

	if (is_open(model, step))
		return false;
	if (is_negative(step)) {
		int cmp = step->cmp & ~SHMD_CMP_SIGNED;

		step->value = (uint64_t)-3;
		step->want = cmp >= SHMD_CMP_NE && cmp <= SHMD_CMP_GE;
		return true;
	}
	switch (step->cmp & ~SHMD_CMP_SIGNED) {
	case SHMD_CMP_GE:
		step->value = v;
		step->want = 1;
		return true;
	case SHMD_CMP_LT:
		step->value = v;
		step->want = 0;
		return true;
	case SHMD_CMP_GT:
		step->value = NEVER;
		step->want = 0;
		return true;
	default:
		return false;
	}
}

bool judge_wait(struct model *model, struct step *step)
{
	if (!is_valid(model, step))
		return false;
	if (step->kind == STEP_WAIT)
		return wait_one(model, step);
	return step->kind == STEP_TEST ? test(model, step) : wait_many(model, step);
}
