/* SPDX-License-Identifier: Apache-2.0 */
/* Steps on the heap, teams, contexts and order, on the runtime. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "tests/random/execute.h"

/* Long enough for others to be first where they need not wait. */
#define PAUSE_NSEC 300000

/* ---- the heap --------------------------------------------------------------------------------------------------------------- */

static uint32_t known_bytes(struct run *run, int alloc)
{
	uint64_t size = run_world(run)->sizes[alloc];

	return size < run->program->cap ? (uint32_t)size : run->program->cap;
}

static void fill(struct run *run, uint32_t from)
{
	const struct step *step = run_step(run);
	uint32_t known = known_bytes(run, step->alloc);

	for (uint32_t i = from; i < known; i++)
		*run_at(run, step->alloc, i) = pattern_byte(step->value + (uint64_t)run->pe, i);
}

/* No byte of another allocation that some PE still has. */
static void check_apart(struct run *run, const uint8_t *ptr, uint64_t size)
{
	const struct run_world *w = run_world(run);

	for (int i = 0; i < MAX_ALLOCS; i++)
		if (i != run_step(run)->alloc && w->allocs[i] && ptr < w->allocs[i] + w->sizes[i] && w->allocs[i] < ptr + size)
			run_fail(run, "the memory is that of allocation %d", i);
}

static void take(struct run *run, void *ptr)
{
	const struct step *step = run_step(run);
	struct run_world *w = run_world(run);
	uint64_t align = step->kind == STEP_ALIGN && step->align > 16 ? step->align : 16;

	if ((uintptr_t)ptr % align)
		run_fail(run, "%p is not aligned to %llu bytes", ptr, (unsigned long long)align);
	check_apart(run, ptr, step->size);
	w->allocs[step->alloc] = ptr;
	w->sizes[step->alloc] = step->size;
}

static void allocate(struct run *run)
{
	const struct step *step = run_step(run);
	struct shmd_world *world = run_world(run)->world;
	void *ptr = NULL;

	if (step->kind == STEP_MALLOC)
		run_must(run, shmd_malloc(world, step->size, (uint32_t)step->value & 3, &ptr));
	else if (step->kind == STEP_CALLOC)
		run_must(run, shmd_calloc(world, 1, step->size, 0, &ptr));
	else
		run_must(run, shmd_align(world, step->align, step->size, 0, &ptr));
	take(run, ptr);
	run_settle(run, step->world, 0);
	if (step->kind == STEP_CALLOC)
		return;
	fill(run, 0);
	run_must(run, shmd_sync_all(world));
}

static void reallocate(struct run *run)
{
	const struct step *step = run_step(run);
	const uint8_t *wanted = run->program->wanted + step->want_at + (size_t)run->pe * step->bytes;
	struct run_world *w = run_world(run);
	void *ptr = NULL;

	run_must(run, shmd_realloc(w->world, w->allocs[step->alloc], step->size, &ptr));
	take(run, ptr);
	run_settle(run, step->world, 0);
	run_compare(run, run->at, ptr, wanted, step->bytes);
	fill(run, step->bytes);
	run_must(run, shmd_sync_all(w->world));
}

/* How many PEs have freed an allocation by now, in the order of the program. */
static bool is_last_free(const struct run *run)
{
	const struct step *step = run_step(run);
	uint32_t freed = 0;

	for (uint32_t i = run->at + 1; i-- > 0;) {
		const struct step *before = &run->program->steps[i];

		if (before->world != step->world || before->alloc != step->alloc)
			continue;
		if (before->kind <= STEP_ALIGN)
			break;
		freed |= before->kind == STEP_FREE ? 1u << before->pe : 0;
	}
	return freed == (1u << run->program->n_pes) - 1;
}

static void release(struct run *run)
{
	const struct step *step = run_step(run);
	struct run_world *w = run_world(run);

	if (step->pe == run->pe)
		run_must(run, shmd_free(w->world, w->allocs[step->alloc]));
	/* Until all have freed it, it must not serve again. */
	if (is_last_free(run))
		w->allocs[step->alloc] = NULL;
}

static void fail_to_allocate(struct run *run)
{
	const struct step *step = run_step(run);
	struct run_world *w = run_world(run);
	int rank = rank_of(run->program, step->world, run->pe);
	void *ptr = NULL;

	if (step->kind == STEP_MALLOC_FAILS)
		run_want(run, shmd_malloc(w->world, UINT64_C(1) << 45, 0, &ptr), -ENOMEM);
	else
		run_want(run, shmd_malloc(w->world, 100 + (rank == run->program->n_pes - 1), 0, &ptr), -EINVAL);
	if (ptr)
		run_fail(run, "a call that failed has written its output");
}

/* ---- teams and contexts ----------------------------------------------------------------------------------------------------- */

static void check_team(struct run *run, int slot)
{
	const struct run_world *w = run_world(run);
	const struct model_team *table = &w->tables[slot];
	const struct shmd_team *team = w->teams[slot];

	if ((team != NULL) != (table->color[run->pe] >= 0))
		run_fail(run, "the PE has %s team", team ? "a" : "no");
	if (!team)
		return;
	if (shmd_team_my_pe(team) != table->place[run->pe] || shmd_team_n_pes(team) != table->n[run->pe])
		run_fail(run, "the PE is %d of %d, not %d of %d", shmd_team_my_pe(team), shmd_team_n_pes(team), table->place[run->pe],
			 table->n[run->pe]);
	for (int pe = 0; pe < run->program->n_pes; pe++) {
		bool is_in = table->color[pe] == table->color[run->pe];
		int rank = rank_of(run->program, run_step(run)->world, pe), wanted = is_in ? table->place[pe] : -1;

		if (shmd_team_translate(w->teams[0], rank, team) != wanted || (is_in && shmd_team_translate(team, wanted, NULL) != rank))
			run_fail(run, "PE %d of the world is not PE %d of the team", rank, wanted);
	}
}

static void split(struct run *run)
{
	const struct step *step = run_step(run);
	struct run_world *w = run_world(run);
	struct shmd_team *parent = w->teams[step->team], *row = NULL, *column = NULL;
	struct model_team tables[2];

	(void)team_split(&w->tables[step->team], step, run->program->n_pes, &tables[0], &tables[1]);
	if (parent && step->kind == STEP_SPLIT_COLOR)
		run_must(run, shmd_team_split_color(parent, step->color[run->pe], step->key[run->pe], &row));
	else if (parent && step->kind == STEP_SPLIT_STRIDED)
		run_must(run, shmd_team_split_strided(parent, step->op, (int)(int64_t)step->value, (int)step->bytes, &row));
	else if (parent)
		run_must(run, shmd_team_split_2d(parent, (int)step->bytes, &row, &column));
	w->tables[step->to] = tables[0];
	w->teams[step->to] = row;
	check_team(run, step->to);
	if (step->kind != STEP_SPLIT_2D)
		return;
	w->tables[step->to2] = tables[1];
	w->teams[step->to2] = column;
	check_team(run, step->to2);
}

static void end_team(struct run *run)
{
	const struct step *step = run_step(run);
	struct run_world *w = run_world(run);

	run_must(run, shmd_team_destroy(w->teams[step->team]));
	w->teams[step->team] = NULL;
	w->tables[step->team].is_live = false;
}

static void make_ctx(struct run *run)
{
	const struct step *step = run_step(run);
	struct shmd_ctx_attr attr = {.flags = (uint32_t)step->value & 3};
	struct run_world *w = run_world(run);

	run_must(run, shmd_ctx_create(w->teams[step->team], step->value & 4 ? &attr : NULL, &w->ctxs[step->ctx]));
	w->ctx_team[step->ctx] = step->team;
}

static void end_ctx(struct run *run)
{
	const struct step *step = run_step(run);

	run_must(run, shmd_ctx_destroy(run_world(run)->ctxs[step->ctx]));
	run_settle(run, step->world, step->ctx);
}

/* ---- order ------------------------------------------------------------------------------------------------------------------ */

static void sync(struct run *run)
{
	const struct step *step = run_step(run);
	struct run_world *w = run_world(run);

	if (!(team_members(&w->tables[step->team], step->op, run->program->n_pes) >> run->pe & 1))
		return;
	if (step->kind == STEP_SYNC) {
		run_must(run, !step->team && (step->value & 1) ? shmd_sync_all(w->world) : shmd_team_sync(w->teams[step->team]));
		return;
	}
	run_must(run, !step->team && (step->value & 1) ? shmd_barrier_all(w->world) : shmd_team_barrier(w->teams[step->team]));
	run_settle(run, step->world, 0);
}

static void order(struct run *run)
{
	const struct step *step = run_step(run);
	struct shmd_ctx *ctx = run_world(run)->ctxs[step->ctx];

	if (step->kind == STEP_FENCE)
		run_must(run, shmd_fence(ctx));
	else if (step->kind == STEP_FENCE_PE)
		run_must(run, shmd_fence_pe(ctx, run_to(run, step->to)));
	else if (step->kind == STEP_QUIET_PE)
		run_must(run, shmd_quiet_pe(ctx, run_to(run, step->to)));
	else {
		run_must(run, shmd_quiet(ctx));
		run_settle(run, step->world, step->ctx);
	}
}

/* ---- calls that are refused ------------------------------------------------------------------------------------------------- */

static void wrong(struct run *run)
{
	const struct step *step = run_step(run);
	struct run_world *w = run_world(run);
	struct shmd_atomic add = {.op = SHMD_ATOMIC_ADD, .bytes = 8, .value = 1};
	uint8_t *ptr = w->allocs[step->alloc];
	uint64_t outside = 1;

	switch (step->op) {
	case 0:
		run_want(run, shmd_free(w->world, ptr), -EINVAL);
		break;
	case 1:
		run_want(run, shmd_free(w->world, ptr + 16), -EINVAL);
		break;
	case 2:
		run_want(run, shmd_atomic(w->ctxs[0], ptr + 4, &add, 0), -EINVAL);
		break;
	case 3:
		run_want(run, shmd_put(w->ctxs[0], ptr, &outside, 8, run->program->n_pes), -EINVAL);
		break;
	case 4:
		run_want(run, shmd_put(w->ctxs[0], &outside, ptr, 8, 0), -EINVAL);
		break;
	default:
		run_want(run, shmd_p(w->ctxs[0], ptr + 1, 1, 2, 0), -EINVAL);
	}
}

void execute_call(struct run *run)
{
	switch (run_step(run)->kind) {
	case STEP_MALLOC:
	case STEP_CALLOC:
	case STEP_ALIGN:
		allocate(run);
		break;
	case STEP_REALLOC:
		reallocate(run);
		break;
	case STEP_FREE:
		release(run);
		break;
	case STEP_MALLOC_FAILS:
	case STEP_MALLOC_DIFFERS:
		fail_to_allocate(run);
		break;
	case STEP_SPLIT_COLOR:
	case STEP_SPLIT_STRIDED:
	case STEP_SPLIT_2D:
		split(run);
		break;
	case STEP_TEAM_END:
		end_team(run);
		break;
	case STEP_CTX:
		make_ctx(run);
		break;
	case STEP_CTX_END:
		end_ctx(run);
		break;
	case STEP_SYNC:
	case STEP_BARRIER:
		sync(run);
		break;
	case STEP_COLL:
		execute_coll(run);
		break;
	case STEP_WRONG:
		wrong(run);
		break;
	case STEP_TEAM_CHECK:
		check_team(run, run_step(run)->team);
		break;
	case STEP_PAUSE:
		nanosleep(&(struct timespec){.tv_nsec = PAUSE_NSEC}, NULL);
		break;
	default:
		order(run);
	}
}
