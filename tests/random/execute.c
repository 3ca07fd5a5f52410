/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/random/execute.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void run_fail(const struct run *run, const char *fmt, ...)
{
	char text[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "PE %d, step %u (%s): %s\n", run->pe, run->at,
		run->at < run->program->n_steps ? step_names[run_step(run)->kind] : "end", text);
	_exit(1);
}

void run_must(const struct run *run, int r)
{
	if (r < 0)
		run_fail(run, "%d: %s", r, shmd_error_text());
}

void run_want(const struct run *run, int r, int wanted)
{
	if (r != wanted)
		run_fail(run, "the call returns %d, not %d: %s", r, wanted, r < 0 ? shmd_error_text() : "");
}

void run_compare(const struct run *run, uint32_t step, const uint8_t *found, const uint8_t *wanted, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		if (found[i] != wanted[i])
			run_fail(run, "byte %u of %u is 0x%02x, not 0x%02x, by step %u", i, bytes, found[i], wanted[i], step);
}

void run_compare_blocks(const struct run *run, uint32_t at, const uint8_t *found)
{
	const struct step *step = &run->program->steps[at];
	uint32_t n = step->n ? step->n : 1;

	for (uint32_t i = 0; i < n; i++)
		run_compare(run, at, found + (size_t)i * step->near_stride, run->program->wanted + step->want_at + (size_t)i * step->bytes,
			    step->bytes);
}

const struct step *run_step(const struct run *run)
{
	return &run->program->steps[run->at];
}

struct run_world *run_world(struct run *run)
{
	return &run->worlds[run_step(run)->world];
}

uint8_t *run_at(struct run *run, int alloc, uint32_t at)
{
	const struct run_world *w = run_world(run);
	uint64_t size = w->sizes[alloc];
	uint32_t cap = run->program->cap;

	return w->allocs[alloc] + (size <= cap || at < cap / 2 ? at : size - cap + at);
}

int run_to(struct run *run, int pe)
{
	const struct run_world *w = run_world(run);

	return w->tables[w->ctx_team[run_step(run)->ctx]].place[pe];
}

struct pending *run_keep(struct run *run, bool is_get, uint32_t bytes)
{
	struct pending *pending = malloc(sizeof(*pending) + bytes);

	if (!pending)
		run_fail(run, "no memory");
	pending->next = run->pending;
	pending->step = run->at;
	pending->is_get = is_get;
	run->pending = pending;
	return pending;
}

void run_settle(struct run *run, int world, int ctx)
{
	for (struct pending **at = &run->pending; *at;) {
		struct pending *pending = *at;
		const struct step *step = &run->program->steps[pending->step];

		if (ctx != ALL_CTXS && (step->world != world || step->ctx != ctx)) {
			at = &pending->next;
			continue;
		}
		if (pending->is_get)
			run_compare_blocks(run, pending->step, pending->bytes);
		*at = pending->next;
		free(pending);
	}
}

/* Each PE also counts who has freed an allocation. */
static bool is_mine(const struct run *run, const struct step *step)
{
	return step->pe == ALL_PES || step->pe == run->pe || step->kind == STEP_FREE;
}

static void execute_step(struct run *run)
{
	const struct step *step = run_step(run);

	if (!is_mine(run, step))
		return;
	if (step->kind >= STEP_WAIT && step->kind <= STEP_TEST)
		execute_wait(run);
	else if ((step->kind >= STEP_PUT && step->kind <= STEP_FLAG) || step->kind == STEP_LOCKED_ADD)
		execute_access(run);
	else
		execute_call(run);
}

void execute(struct run *run)
{
	for (int i = 0; i < run->program->n_worlds; i++) {
		struct run_world *w = &run->worlds[i];

		team_of_all(run->program, i, &w->tables[0]);
		w->teams[0] = shmd_team_world(w->world);
		w->ctxs[0] = shmd_world_ctx(w->world);
	}
	for (run->at = 0; run->at < run->program->n_steps; run->at++)
		execute_step(run);
	run_settle(run, 0, ALL_CTXS);
}
