/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that move or change data. */
#include <shmd.h>
#include <stdlib.h>
#include <string.h>

#include "tests/random/model.h"

#define LOCK_FAMILY 1000 /* and the number of the lock */

static uint8_t *far_bytes(const struct model *model, const struct step *step, int to, uint32_t at)
{
	return model_at(model, step->world, step->alloc, to, at);
}

/* The PE of a block. */
static int target(const struct step *step, uint32_t i)
{
	return is_batch(step->kind) && i % 2 ? step->to2 : step->to;
}

/* ---- the caller's side ------------------------------------------------------------------------------------------------------ */

static bool near_add(const struct model *model, const struct step *step, struct accesses *accesses, enum access_kind kind, bool is_done)
{
	uint32_t n = step->n ? step->n : 1;
	struct access access = access_far(step, kind, step->pe, 0, 0);

	if (step->near_alloc == PRIVATE)
		return true;
	if (!model_range(model, step->world, step->near_alloc, step->near_at, (n - 1) * step->near_stride + step->bytes))
		return false;
	access.alloc = step->near_alloc;
	access.is_update = false;
	for (uint32_t i = 0; i < n; i++) {
		access.far = target(step, i);
		access.lo = step->near_at + i * step->near_stride;
		access.hi = access.lo + step->bytes;
		accesses_add(accesses, access, is_done);
	}
	return true;
}

/* Source of block i, as it is when the step begins. */
static void near_read(const struct model *model, const struct step *step, uint32_t i, uint8_t *to)
{
	if (step->near_alloc == PRIVATE)
		pattern_fill(to, step->value + i, step->bytes);
	else
		memcpy(to, model_at(model, step->world, step->near_alloc, step->pe, step->near_at + i * step->near_stride), step->bytes);
}

/* ---- put and get ------------------------------------------------------------------------------------------------------------ */

static bool far_add(const struct model *model, const struct step *step, struct accesses *accesses, enum access_kind kind, bool is_done)
{
	uint32_t n = step->n ? step->n : 1;

	/* Words of locks belong to the library. */
	if (!step->alloc && step->at < offsetof(struct words, guarded) && step->at + step->bytes > offsetof(struct words, lock))
		return false;
	if (n > MAX_ACCESSES / 2 || !model_range(model, step->world, step->alloc, step->at, (n - 1) * step->stride + step->bytes))
		return false;
	for (uint32_t i = 0; i < n; i++)
		accesses_add(accesses, access_far(step, kind, target(step, i), step->at + i * step->stride, step->bytes), is_done);
	return true;
}

static void put_effect(struct model *model, const struct step *step)
{
	uint32_t n = step->n ? step->n : 1;
	uint8_t *blocks = malloc((size_t)n * step->bytes + 1);

	for (uint32_t i = 0; i < n; i++)
		near_read(model, step, i, blocks + (size_t)i * step->bytes);
	for (uint32_t i = 0; i < n; i++)
		memcpy(far_bytes(model, step, target(step, i), step->at + i * step->stride), blocks + (size_t)i * step->bytes, step->bytes);
	free(blocks);
}

static bool put_adds(const struct model *model, const struct step *step, struct accesses *accesses)
{
	return far_add(model, step, accesses, ACCESS_WRITE, false) &&
	       near_add(model, step, accesses, ACCESS_READ, !is_nbi(step->kind));
}

static bool put(struct model *model, const struct step *step)
{
	struct accesses accesses = {.n = 0};

	if (!put_adds(model, step, &accesses) || !accesses_take(model, &accesses))
		return false;
	put_effect(model, step);
	return true;
}

static void want_bytes(struct program *program, const uint8_t *from, uint32_t bytes)
{
	if (program->n_wanted + bytes >= program->room_wanted) {
		program->room_wanted = 2 * (program->room_wanted + bytes) + 64;
		program->wanted = realloc(program->wanted, program->room_wanted);
	}
	if (bytes)
		memcpy(program->wanted + program->n_wanted, from, bytes);
	program->n_wanted += bytes;
}

static bool get(struct model *model, struct step *step)
{
	bool is_done = !is_nbi(step->kind);
	struct accesses accesses = {.n = 0};
	uint32_t n = step->n ? step->n : 1;

	if (!far_add(model, step, &accesses, ACCESS_READ, is_done) || !near_add(model, step, &accesses, ACCESS_WRITE, is_done) ||
	    !accesses_take(model, &accesses))
		return false;
	step->want_at = model->program->n_wanted;
	for (uint32_t i = 0; i < n; i++)
		want_bytes(model->program, far_bytes(model, step, target(step, i), step->at + i * step->stride), step->bytes);
	for (uint32_t i = 0; i < n && step->near_alloc != PRIVATE; i++)
		memcpy(model_at(model, step->world, step->near_alloc, step->pe, step->near_at + i * step->near_stride),
		       model->program->wanted + step->want_at + (size_t)i * step->bytes, step->bytes);
	return true;
}

/* ---- loads and stores of the PE --------------------------------------------------------------------------------------------- */

static bool local(struct model *model, struct step *step, enum access_kind kind)
{
	struct accesses accesses = {.n = 0};

	step->to = step->pe;
	if (!far_add(model, step, &accesses, kind, kind == ACCESS_READ))
		return false;
	for (uint32_t i = 0; i < accesses.n; i++) {
		accesses.list[i].ctx = LOCAL_CTX;
		accesses.list[i].is_update = false;
	}
	if (!accesses_take(model, &accesses))
		return false;
	step->want_at = model->program->n_wanted;
	if (kind == ACCESS_READ)
		want_bytes(model->program, far_bytes(model, step, step->pe, step->at), step->bytes);
	else
		pattern_fill(far_bytes(model, step, step->pe, step->at), step->value, step->bytes);
	return true;
}

/* ---- words ------------------------------------------------------------------------------------------------------------------ */

static bool is_word(const struct step *step)
{
	return (step->bytes == 1 || step->bytes == 2 || step->bytes == 4 || step->bytes == 8) && step->at % step->bytes == 0;
}

static bool word(struct model *model, struct step *step, enum access_kind kind)
{
	struct accesses accesses = {.n = 0};

	if (!is_word(step) || !far_add(model, step, &accesses, kind, kind == ACCESS_READ) || !accesses_take(model, &accesses))
		return false;
	if (kind == ACCESS_WRITE)
		memcpy(far_bytes(model, step, step->to, step->at), &step->value, step->bytes);
	step->want = 0;
	memcpy(&step->want, far_bytes(model, step, step->to, step->at), step->bytes);
	return true;
}

/* Small whole numbers alone, whose sum is the same in each order. */
static bool float_sum(uint64_t old, uint64_t value, uint32_t bytes, uint64_t *ret_sum)
{
	double a, b;
	float c, d;

	if (bytes == 8) {
		memcpy(&a, &old, 8);
		memcpy(&b, &value, 8);
		if (!(a > -100000 && a < 100000) || a != (double)(int)a || !(b > -100 && b < 100) || b != (double)(int)b)
			return false;
		a += b;
		memcpy(ret_sum, &a, 8);
		return true;
	}
	memcpy(&c, &old, 4);
	memcpy(&d, &value, 4);
	if (!(c > -100000 && c < 100000) || c != (float)(int)c || !(d > -100 && d < 100) || d != (float)(int)d)
		return false;
	c += d;
	memcpy(ret_sum, &c, 4);
	return true;
}

static bool outcome(const struct step *step, uint64_t old, uint64_t *ret_new)
{
	uint64_t mask = step->bytes == 8 ? UINT64_MAX : UINT32_MAX;

	*ret_new = old;
	switch (step->op) {
	case SHMD_ATOMIC_ADD:
		*ret_new = old + step->value;
		break;
	case SHMD_ATOMIC_AND:
		*ret_new = old & step->value;
		break;
	case SHMD_ATOMIC_OR:
		*ret_new = old | step->value;
		break;
	case SHMD_ATOMIC_XOR:
		*ret_new = old ^ step->value;
		break;
	case SHMD_ATOMIC_SWAP:
		*ret_new = step->value;
		break;
	case SHMD_ATOMIC_COMPARE_SWAP:
		*ret_new = (old & mask) == (step->compare & mask) ? step->value : old;
		break;
	case SHMD_ATOMIC_ADD_FLOAT:
		return float_sum(old, step->value, step->bytes, ret_new);
	default:
		break;
	}
	*ret_new &= mask;
	return true;
}

static bool outcomes(const struct step *step, uint64_t old, uint64_t *ret_new)
{
	bool is_good = outcome(step, old, ret_new);

	for (uint32_t i = 1; is_good && i < step->n; i++)
		is_good = outcome(step, *ret_new, ret_new);
	return is_good && (step->n < 2 || !step->is_exact);
}

/* Atomics of a family may be exchanged, unless a former value counts. */
static int family_of(const struct step *step)
{
	bool is_alone = step->is_exact || step->op == SHMD_ATOMIC_SWAP || step->op == SHMD_ATOMIC_COMPARE_SWAP || step->op == SHMD_ATOMIC_FETCH;

	return is_alone ? 0 : step->op * 10 + (int)step->bytes;
}

static bool atomic(struct model *model, struct step *step)
{
	struct access access = access_far(step, ACCESS_ATOMIC, step->to, step->at, step->bytes);
	struct accesses accesses = {.n = 0};
	uint64_t old = 0, new;

	if (!is_word(step) || step->bytes < 4 || !model_range(model, step->world, step->alloc, step->at, step->bytes))
		return false;
	memcpy(&old, far_bytes(model, step, step->to, step->at), step->bytes);
	access.family = family_of(step);
	accesses_add(&accesses, access, step->kind == STEP_ATOMIC_FETCH);
	if (!outcomes(step, old, &new) || !accesses_take(model, &accesses))
		return false;
	step->want = old;
	memcpy(far_bytes(model, step, step->to, step->at), &new, step->bytes);
	return true;
}

static bool locked_add(struct model *model, struct step *step)
{
	struct access access;
	struct accesses accesses = {.n = 0};
	uint64_t v;

	step->at = (uint32_t)(offsetof(struct words, guarded) + 8 * (size_t)(step->word & 1));
	step->bytes = 8;
	access = access_far(step, ACCESS_ATOMIC, step->to, step->at, 8);
	access.family = LOCK_FAMILY + (step->word & 1);
	accesses_add(&accesses, access, true);
	if (step->alloc || !accesses_take(model, &accesses))
		return false;
	memcpy(&v, far_bytes(model, step, step->to, step->at), 8);
	v += step->value * step->compare;
	memcpy(far_bytes(model, step, step->to, step->at), &v, 8);
	/* The unlock completes the operations of the context. */
	order_quiet(&model->order, step->world, step->pe, step->ctx, ALL_PES);
	return true;
}

/* ---- signals and flags ------------------------------------------------------------------------------------------------------ */

/* Adds may be exchanged; other writes of a word follow each other. */
static bool announce(struct model *model, struct step *step, struct accesses *accesses)
{
	struct model_word *w = &model->worlds[step->world].words[step->to][step->word];
	bool adds = word_use(step->word) == USE_SIGNAL_ADD || word_use(step->word) == USE_ATOMIC_ADD;
	struct access access = access_word(step, adds ? ACCESS_ATOMIC : ACCESS_WRITE);
	uint64_t v = model_word(model, step->world, step->to, step->word) + step->value;

	if (step->value == 0 || step->value > 3 || v > 20000 || (adds && w->n_events == MAX_EVENTS))
		return false;
	access.family = adds ? SHMD_ATOMIC_ADD * 10 + 8 : 0;
	accesses_add(accesses, access, false);
	if (!accesses_take(model, accesses))
		return false;
	if (!adds)
		w->n_events = 0;
	order_event(&model->order, step->world, step->pe, step->ctx, step->to, &w->events[w->n_events++]);
	step->want = v;
	return true;
}

static void set_word(struct model *model, const struct step *step)
{
	memcpy(model_at(model, step->world, 0, step->to, word_at(step->word)), &step->want, word_bytes(step->word));
}

static bool put_signal(struct model *model, struct step *step)
{
	struct accesses accesses = {.n = 0};
	struct step data = *step;

	if (word_use(step->word) > USE_SIGNAL_ADD)
		return false;
	/* The value is the signal's; the pattern has another one. */
	data.value = step->compare;
	if (!put_adds(model, &data, &accesses) || !announce(model, step, &accesses))
		return false;
	put_effect(model, &data);
	set_word(model, step);
	return true;
}

static bool flag(struct model *model, struct step *step)
{
	struct accesses accesses = {.n = 0};

	if (!announce(model, step, &accesses))
		return false;
	set_word(model, step);
	return true;
}

bool judge_access(struct model *model, struct step *step)
{
	switch (step->kind) {
	case STEP_GET:
	case STEP_GET_NBI:
	case STEP_GET_STRIDED:
	case STEP_GET_STRIDED_NBI:
	case STEP_GET_BATCH:
		return step->alloc && get(model, step);
	case STEP_G:
		return word(model, step, ACCESS_READ);
	case STEP_P:
		return step->alloc && word(model, step, ACCESS_WRITE);
	case STEP_STORE:
		return step->alloc && local(model, step, ACCESS_WRITE);
	case STEP_CHECK:
		return local(model, step, ACCESS_READ);
	case STEP_ATOMIC:
	case STEP_ATOMIC_FETCH:
		return step->alloc && atomic(model, step);
	case STEP_PUT_SIGNAL:
	case STEP_PUT_SIGNAL_NBI:
		return step->alloc && put_signal(model, step);
	case STEP_FLAG:
		return flag(model, step);
	case STEP_LOCKED_ADD:
		return locked_add(model, step);
	default:
		return step->alloc && put(model, step);
	}
}
