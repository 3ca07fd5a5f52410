/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collective calls that move or compute: the PE compares its dest at once, which no other PE may write to any more. A second thread makes
 * the second one of two calls on different teams that come at once.
 */
#include <pthread.h>
#include <string.h>

#include "tests/random/coll.h"
#include "tests/random/execute.h"

static int make_call(struct run *run, struct shmd_team *team, void *dest, const void *source)
{
	const struct step *s = run_step(run);
	struct shmd_stride stride = {.n = s->n, .block_bytes = s->bytes, .dest_stride_bytes = s->stride, .source_stride_bytes = s->near_stride};
	size_t bytes = (size_t)s->n * s->bytes;
	enum shmd_type type = (enum shmd_type)s->mask;
	enum shmd_reduce_op op = (enum shmd_reduce_op)s->cmp;

	switch (s->word) {
	case COLL_BROADCAST:
		return shmd_broadcast(team, dest, source, bytes, s->to);
	case COLL_FCOLLECT:
		return shmd_fcollect(team, dest, source, bytes);
	case COLL_COLLECT:
		return shmd_collect(team, dest, source, coll_collect_bytes(s, run->pe));
	case COLL_ALLTOALL:
		return shmd_alltoall(team, dest, source, bytes);
	case COLL_ALLTOALLS:
		return shmd_alltoalls(team, dest, source, &stride);
	case COLL_REDUCE:
		return shmd_reduce(team, dest, source, s->n, type, op);
	case COLL_REDUCE_SCATTER:
		return shmd_reduce_scatter(team, dest, source, s->n, type, op);
	case COLL_SCAN_INCLUSIVE:
		return shmd_scan_inclusive(team, dest, source, s->n, type, op);
	default:
		return shmd_scan_exclusive(team, dest, source, s->n, type, op);
	}
}

/* Bytes that the contract leaves undefined get those of the model: padding, and the rest of a reduction by parts in place. */
static void compare_numbers(struct run *run, uint8_t *dest, const uint8_t *wanted)
{
	const struct step *s = run_step(run);

	for (uint32_t i = 0; i < s->n; i++)
		run_compare(run, run->at, dest + (size_t)i * s->bytes, wanted + (size_t)i * s->bytes, coll_number_bytes(s));
	memcpy(dest, wanted, s->size);
}

static void call(struct run *run)
{
	const struct step *s = run_step(run);
	struct run_world *w = run_world(run);
	uint8_t *dest = run_at(run, s->alloc, s->at), *source = run_at(run, s->near_alloc, s->near_at);
	const uint8_t *wanted = run->program->wanted + s->want_at + (size_t)run->pe * s->size;

	if (coll_is_float(s))
		coll_fill(s, run->pe, coll_source_bytes(s, w->tables[s->team].n[run->pe], run->pe) / s->bytes, source);
	run_must(run, make_call(run, w->teams[s->team], dest, source));
	if (coll_computes(s->word))
		compare_numbers(run, dest, wanted);
	else
		run_compare(run, run->at, dest, wanted, (uint32_t)s->size);
}

static bool is_member(struct run *run, uint32_t at)
{
	const struct step *s = &run->program->steps[at];

	return team_members(&run->worlds[s->world].tables[s->team], s->op, run->program->n_pes) >> run->pe & 1;
}

static bool has_beside(const struct run *run, uint32_t at)
{
	return at < run->program->n_steps && run->program->steps[at].kind == STEP_COLL && run->program->steps[at].is_beside;
}

static void *call_in_thread(void *arg)
{
	struct run *run = arg;

	run->at++;
	call(run);
	return NULL;
}

void execute_coll(struct run *run)
{
	struct run beside = *run;
	pthread_t thread;

	/* The second one of two was made with the first. */
	if (!is_member(run, run->at) || (has_beside(run, run->at) && is_member(run, run->at - 1)))
		return;
	if (!has_beside(run, run->at + 1) || !is_member(run, run->at + 1)) {
		call(run);
		return;
	}
	if (pthread_create(&thread, NULL, call_in_thread, &beside))
		run_fail(run, "no thread");
	call(run);
	(void)pthread_join(thread, NULL);
}
