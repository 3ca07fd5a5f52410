/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that move data and wait for it, on the runtime. */
#include <string.h>

#include "tests/random/execute.h"

static struct shmd_ctx *ctx_of(struct run *run)
{
	return run_world(run)->ctxs[run_step(run)->ctx];
}

/* The caller's side of a put: memory of the heap, or a pattern that stays until the end. */
static const uint8_t *source_of(struct run *run, uint64_t value)
{
	const struct step *step = run_step(run);
	uint32_t n = step->n ? step->n : 1, stride = n > 1 ? step->near_stride : step->bytes;
	struct pending *pending;

	if (step->near_alloc != PRIVATE)
		return run_at(run, step->near_alloc, step->near_at);
	pending = run_keep(run, false, n * stride + step->bytes);
	memset(pending->bytes, 0xee, n * stride);
	for (uint32_t i = 0; i < n; i++)
		pattern_fill(pending->bytes + (size_t)i * stride, value + i, step->bytes);
	return pending->bytes;
}

static uint8_t *dest_of(struct run *run)
{
	const struct step *step = run_step(run);

	return run_at(run, step->alloc, step->at);
}

/* ---- put -------------------------------------------------------------------------------------------------------------------- */

static void put_direct(struct run *run)
{
	const struct step *step = run_step(run);
	const uint8_t *source = source_of(run, step->value);
	void *there = shmd_ptr(run_world(run)->world, dest_of(run), rank_of(run->program, step->world, step->to));

	if (there)
		memmove(there, source, step->bytes);
	else
		run_must(run, shmd_put(ctx_of(run), dest_of(run), source, step->bytes, run_to(run, step->to)));
}

static struct shmd_stride stride_of(const struct step *step, bool is_get)
{
	return (struct shmd_stride){.n = step->n,
				    .block_bytes = step->bytes,
				    .dest_stride_bytes = is_get ? step->near_stride : step->stride,
				    .source_stride_bytes = is_get ? step->stride : step->near_stride};
}

static void batch(struct run *run)
{
	const struct step *step = run_step(run);
	const uint8_t *source = source_of(run, step->value);
	uint32_t stride = step->n > 1 ? step->near_stride : step->bytes;
	struct shmd_put_item items[MAX_ACCESSES];

	for (uint32_t i = 0; i < step->n; i++)
		items[i] = (struct shmd_put_item){dest_of(run) + (size_t)i * step->stride, source + (size_t)i * stride, step->bytes,
						  run_to(run, i % 2 ? step->to2 : step->to)};
	run_must(run, shmd_put_batch_nbi(ctx_of(run), items, step->n));
}

static void put(struct run *run)
{
	const struct step *step = run_step(run);
	const uint8_t *source = source_of(run, step->value);
	int to = run_to(run, step->to);
	struct shmd_stride stride = stride_of(step, false);

	if (step->kind == STEP_PUT)
		run_must(run, shmd_put(ctx_of(run), dest_of(run), source, step->bytes, to));
	else if (step->kind == STEP_PUT_NBI)
		run_must(run, shmd_put_nbi(ctx_of(run), dest_of(run), source, step->bytes, to));
	else if (step->kind == STEP_PUT_STRIDED_NBI)
		run_must(run, shmd_put_strided_nbi(ctx_of(run), dest_of(run), source, &stride, to));
	else
		run_must(run, shmd_put_strided(ctx_of(run), dest_of(run), source, &stride, to));
	/* The source of a call that has returned is the caller's again. */
	if (!is_nbi(step->kind) && step->near_alloc == PRIVATE)
		memset(run->pending->bytes, 0xdd, step->bytes);
}

static void put_signal(struct run *run)
{
	const struct step *step = run_step(run);
	enum shmd_signal_op op = word_use(step->word) == USE_SIGNAL_SET ? SHMD_SIGNAL_SET : SHMD_SIGNAL_ADD;
	uint64_t value = op == SHMD_SIGNAL_SET ? step->want : step->value;
	uint64_t *word = (uint64_t *)(void *)run_at(run, 0, word_at(step->word));
	const uint8_t *source = source_of(run, step->compare);
	int to = run_to(run, step->to);

	if (step->kind == STEP_PUT_SIGNAL)
		run_must(run, shmd_put_signal(ctx_of(run), dest_of(run), source, step->bytes, word, value, op, to));
	if (step->kind == STEP_PUT_SIGNAL && step->near_alloc == PRIVATE)
		memset(run->pending->bytes, 0xdd, step->bytes);
	if (step->kind == STEP_PUT_SIGNAL_NBI)
		run_must(run, shmd_put_signal_nbi(ctx_of(run), dest_of(run), source, step->bytes, word, value, op, to));
}

static void flag(struct run *run)
{
	const struct step *step = run_step(run);
	uint32_t bytes = word_bytes(step->word);
	void *word = run_at(run, 0, word_at(step->word));
	struct shmd_atomic add = {.op = SHMD_ATOMIC_ADD, .bytes = bytes, .value = step->value};
	int to = run_to(run, step->to);
	struct pending *pending;

	switch (word_use(step->word)) {
	case USE_SIGNAL_SET:
		run_must(run, shmd_signal(ctx_of(run), word, step->want, SHMD_SIGNAL_SET, to));
		break;
	case USE_SIGNAL_ADD:
		run_must(run, shmd_signal(ctx_of(run), word, step->value, SHMD_SIGNAL_ADD, to));
		break;
	case USE_ATOMIC_ADD:
		run_must(run, shmd_atomic(ctx_of(run), word, &add, to));
		break;
	default:
		if (step->value != 2) {
			run_must(run, shmd_p(ctx_of(run), word, step->want, bytes, to));
			break;
		}
		pending = run_keep(run, false, 8);
		memcpy(pending->bytes, &step->want, 8);
		run_must(run, shmd_put_nbi(ctx_of(run), word, pending->bytes, bytes, to));
	}
}

/* ---- get -------------------------------------------------------------------------------------------------------------------- */

/* Room for what comes, or the place in the heap. */
static uint8_t *room_of(struct run *run)
{
	const struct step *step = run_step(run);
	uint32_t n = step->n ? step->n : 1;

	if (step->near_alloc != PRIVATE)
		return run_at(run, step->near_alloc, step->near_at);
	return run_keep(run, is_nbi(step->kind), (n - 1) * step->near_stride + step->bytes)->bytes;
}

static void get_batch(struct run *run)
{
	const struct step *step = run_step(run);
	struct shmd_get_item items[MAX_ACCESSES];
	uint8_t *to = room_of(run);

	for (uint32_t i = 0; i < step->n; i++)
		items[i] = (struct shmd_get_item){to + (size_t)i * step->near_stride, dest_of(run) + (size_t)i * step->stride, step->bytes,
						  run_to(run, i % 2 ? step->to2 : step->to)};
	run_must(run, shmd_get_batch_nbi(ctx_of(run), items, step->n));
}

static void get_nbi(struct run *run)
{
	const struct step *step = run_step(run);
	struct shmd_stride stride = stride_of(step, true);
	uint8_t *to = room_of(run);

	if (step->kind == STEP_GET_NBI)
		run_must(run, shmd_get_nbi(ctx_of(run), to, dest_of(run), step->bytes, run_to(run, step->to)));
	else
		run_must(run, shmd_get_strided_nbi(ctx_of(run), to, dest_of(run), &stride, run_to(run, step->to)));
}

static void get(struct run *run)
{
	const struct step *step = run_step(run);
	struct shmd_stride stride = stride_of(step, true);
	uint8_t *to = room_of(run);

	if (step->kind == STEP_GET)
		run_must(run, shmd_get(ctx_of(run), to, dest_of(run), step->bytes, run_to(run, step->to)));
	else
		run_must(run, shmd_get_strided(ctx_of(run), to, dest_of(run), &stride, run_to(run, step->to)));
	run_compare_blocks(run, run->at, to);
}

static void get_word(struct run *run)
{
	const struct step *step = run_step(run);
	uint64_t v = 0;

	run_must(run, shmd_g(ctx_of(run), dest_of(run), step->bytes, run_to(run, step->to), &v));
	if (v != step->want)
		run_fail(run, "the word is 0x%llx, not 0x%llx", (unsigned long long)v, (unsigned long long)step->want);
}

/* ---- atomics and locks ------------------------------------------------------------------------------------------------------ */

static void atomic_once(struct run *run)
{
	const struct step *step = run_step(run);
	struct shmd_atomic amo = {.op = (enum shmd_atomic_op)step->op, .bytes = step->bytes, .value = step->value, .compare = step->compare};
	uint64_t old = 0;

	if (step->kind == STEP_ATOMIC) {
		run_must(run, shmd_atomic(ctx_of(run), dest_of(run), &amo, run_to(run, step->to)));
		return;
	}
	run_must(run, shmd_atomic_fetch(ctx_of(run), dest_of(run), &amo, run_to(run, step->to), step->is_exact ? &old : NULL));
	if (step->is_exact && old != step->want)
		run_fail(run, "operation %d finds 0x%llx, not 0x%llx", step->op, (unsigned long long)old, (unsigned long long)step->want);
}

static void atomic(struct run *run)
{
	for (uint32_t i = 0; i < run_step(run)->n || !i; i++)
		atomic_once(run);
}

static void add_under_lock(struct run *run)
{
	const struct step *step = run_step(run);
	struct words *words = (struct words *)(void *)run_world(run)->allocs[0];
	uint64_t *lock = &words->lock[step->word & 1], *word = &words->guarded[step->word & 1], v = 0;
	int r = 0;

	if (step->value & 2)
		while (!(r = shmd_lock_test(ctx_of(run), lock)))
			;
	else
		r = shmd_lock(ctx_of(run), lock);
	run_must(run, r);
	run_must(run, shmd_g(ctx_of(run), word, 8, run_to(run, step->to), &v));
	run_must(run, shmd_p(ctx_of(run), word, v + step->value, 8, run_to(run, step->to)));
	run_must(run, shmd_unlock(ctx_of(run), lock));
}

static void locked_add(struct run *run)
{
	const struct step *step = run_step(run);

	for (uint64_t i = 0; i < step->compare; i++)
		add_under_lock(run);
	run_settle(run, step->world, step->ctx);
}

/* ---- all -------------------------------------------------------------------------------------------------------------------- */

void execute_access(struct run *run)
{
	const struct step *step = run_step(run);

	switch (step->kind) {
	case STEP_PUT_DIRECT:
		put_direct(run);
		break;
	case STEP_BATCH:
		batch(run);
		break;
	case STEP_P:
		run_must(run, shmd_p(ctx_of(run), dest_of(run), step->value, step->bytes, run_to(run, step->to)));
		break;
	case STEP_GET_BATCH:
		get_batch(run);
		break;
	case STEP_GET_NBI:
	case STEP_GET_STRIDED_NBI:
		get_nbi(run);
		break;
	case STEP_GET:
	case STEP_GET_STRIDED:
		get(run);
		break;
	case STEP_G:
		get_word(run);
		break;
	case STEP_STORE:
		pattern_fill(dest_of(run), step->value, step->bytes);
		break;
	case STEP_CHECK:
		run_compare(run, run->at, dest_of(run), run->program->wanted + step->want_at, step->bytes);
		break;
	case STEP_ATOMIC:
	case STEP_ATOMIC_FETCH:
		atomic(run);
		break;
	case STEP_PUT_SIGNAL:
	case STEP_PUT_SIGNAL_NBI:
		put_signal(run);
		break;
	case STEP_FLAG:
		flag(run);
		break;
	case STEP_LOCKED_ADD:
		locked_add(run);
		break;
	default:
		put(run);
	}
}

/* ---- waits ------------------------------------------------------------------------------------------------------------------ */

/* Values one behind the other, as wide as the words. */
static const void *pack(const struct step *step, uint64_t *room)
{
	uint8_t *at = (uint8_t *)room;

	for (uint32_t i = 0; i < step->n; i++)
		memcpy(at + i * word_bytes(step->word), &step->values[i], word_bytes(step->word));
	return room;
}

static void check_found(const struct run *run, const size_t *indexes, size_t n)
{
	const struct step *step = run_step(run);
	uint32_t found = 0;

	for (size_t i = 0; i < n; i++) {
		if (indexes[i] >= step->n || !(step->good >> indexes[i] & 1) || (found >> indexes[i] & 1))
			run_fail(run, "the wait ends with word %zu, of 0x%x", indexes[i], step->good);
		found |= 1u << indexes[i];
	}
	if (!n)
		run_fail(run, "the wait ends with no word");
}

static void wait_many(struct run *run)
{
	const struct step *step = run_step(run);
	size_t indexes[MAX_WAIT] = {0}, n = 1;
	uint64_t values[MAX_WAIT];
	int status[MAX_WAIT];
	struct shmd_wait wait = {.words = run_at(run, 0, word_at(step->word)), .n = step->n, .bytes = word_bytes(step->word),
				 .cmp = (uint32_t)step->cmp, .status = status, .values = pack(step, values)};

	for (uint32_t i = 0; i < step->n; i++)
		status[i] = step->mask >> i & 1 ? 0 : 1;
	if (step->kind == STEP_WAIT_ALL) {
		run_must(run, shmd_wait_until_all(ctx_of(run), &wait));
		run_want(run, shmd_test_all(ctx_of(run), &wait), 1);
		return;
	}
	if (step->kind == STEP_WAIT_ANY)
		run_must(run, shmd_wait_until_any(ctx_of(run), &wait, indexes));
	else
		run_must(run, shmd_wait_until_some(ctx_of(run), &wait, indexes, &n));
	check_found(run, indexes, n);
	run_want(run, shmd_test_any(ctx_of(run), &wait, indexes), 1);
	check_found(run, indexes, 1);
	run_want(run, shmd_test_some(ctx_of(run), &wait, indexes, &n), 1);
	check_found(run, indexes, n);
}

void execute_wait(struct run *run)
{
	const struct step *step = run_step(run);
	const void *word = run_at(run, 0, word_at(step->word));
	uint32_t bytes = word_bytes(step->word);

	if (step->kind == STEP_WAIT)
		run_must(run, shmd_wait_until(ctx_of(run), word, bytes, (uint32_t)step->cmp, step->value));
	else if (step->kind == STEP_TEST)
		run_want(run, shmd_test(ctx_of(run), word, bytes, (uint32_t)step->cmp, step->value), (int)step->want);
	else
		wait_many(run);
}
