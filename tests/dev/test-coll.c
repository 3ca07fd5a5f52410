/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives among threads: random programs on overlapping teams, compared with a model; what is refused, and what a failure leaves. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "tests/dev/coll-program.h"
#include "tests/dev/pe-lab.h"

struct program {
	struct coll_team teams[COLL_MAX_TEAMS];
	uint32_t n_teams, flags, bounce_bytes, n_steps;
	uint64_t seed;
};

static void shuffle(uint32_t *pes, uint64_t *random)
{
	for (uint32_t i = 0; i < LAB_PES; i++) {
		uint32_t j = (uint32_t)(lab_random(random) % LAB_PES), kept = pes[i];

		pes[i] = pes[j];
		pes[j] = kept;
	}
}

/* Random members in a random order; the first team is that of all. */
static void choose_teams(struct program *program)
{
	uint64_t random = program->seed * 2 + 1;

	program->n_teams = COLL_MAX_TEAMS;
	for (uint32_t t = 0; t < program->n_teams; t++) {
		for (uint32_t i = 0; i < LAB_PES; i++)
			program->teams[t].members[i] = i;
		shuffle(program->teams[t].members, &random);
		program->teams[t].n = t ? 1 + (uint32_t)(lab_random(&random) % LAB_PES) : LAB_PES;
	}
}

static int place_in(const struct coll_team *team, uint32_t pe)
{
	for (uint32_t i = 0; i < team->n; i++)
		if (team->members[i] == pe)
			return (int)i;
	return -1;
}

static void run_program(const struct lab_thread *me)
{
	struct program *program = me->arg;
	struct shmd_dev_team *teams = aligned_alloc(64, sizeof(*teams) * COLL_MAX_TEAMS);
	uint8_t *bounce = aligned_alloc(64, 65536);
	struct coll_team mine[COLL_MAX_TEAMS];
	struct coll_home home = {
		.call = coll_call_dev,
		.ctx = me->ctx,
		.teams = mine,
		.n_teams = program->n_teams,
		.pe = me->pe,
		.room = pe_lab_memory(me->lab, me->pe),
		.room_bytes = LAB_MEMORY_BYTES,
		.seed = program->seed,
		.n_steps = program->n_steps,
	};

	me->ctx->bounce_addr = (uintptr_t)bounce;
	me->ctx->bounce_bytes = program->bounce_bytes;
	for (uint32_t t = 0; t < program->n_teams; t++) {
		int place = place_in(&program->teams[t], me->pe);

		mine[t] = program->teams[t];
		if (place < 0)
			continue;
		pe_lab_team(me->lab, 1 + t, program->teams[t].members, mine[t].n, (uint32_t)place, &teams[t]);
		pe_lab_team_flags(&teams[t], program->flags);
		mine[t].team = &teams[t];
	}
	coll_program_run(&home);
	free(bounce);
	free(teams);
}

static void run_programs(uint32_t flags, uint32_t bounce_bytes, uint32_t n)
{
	const uint32_t n_steps = test_is_full() ? 400 : test_has_sanitizer() ? 60 : 150;

	for (uint32_t i = 0; i < n; i++) {
		struct program program = {.flags = flags, .bounce_bytes = bounce_bytes, .n_steps = n_steps, .seed = 77 + i};
		struct pe_lab *lab = pe_lab_new(LAB_PES);

		choose_teams(&program);
		pe_lab_run(lab, 1, run_program, &program);
		pe_lab_free(lab);
	}
}

TEST_TIMEOUT(random_collectives_on_overlapping_teams_give_what_the_model_gives, 300)
{
	run_programs(SHMD_TEAM_MAPPED, 0, 6);
}

/* As if some members were behind queues: syncs in place of flags, pieces in place of ranges; with room for few members at a time, too. */
TEST_TIMEOUT(random_collectives_work_in_rounds_and_by_pieces, 300)
{
	run_programs(0, 65536, 3);
	run_programs(0, 128, 3);
}

/* ---- arguments */

/* No constant, so that compilers do not follow it into copies that are not made. */
static volatile uint64_t huge = 1ull << 62;

TEST(wrong_arguments_are_refused_and_change_nothing)
{
	struct pe_lab *lab = pe_lab_new(2);
	struct shmd_dev_team *team = &lab->pes[0].team;
	struct shmd_dev_ctx *ctx = &lab->pes[0].ctx;
	uint8_t *memory = pe_lab_memory(lab, 0), outside[64];
	struct shmd_dev_stride narrow = {.n = 2, .block_bytes = 8, .dest_stride_bytes = 7, .source_stride_bytes = 8};
	struct shmd_dev_coll args;

	pe_lab_team_flags(team, SHMD_TEAM_MAPPED);
	ASSERT_EQ(shmd_dev_broadcast(ctx, team, memory, outside, 8, 0), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_broadcast(ctx, team, outside, memory, 8, 0), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_broadcast(ctx, team, memory, memory, 8, 2), SHMD_DEV_INVALID);
	/* The heap has room for the source, but not for two of it. */
	ASSERT_EQ(shmd_dev_fcollect(ctx, team, memory, memory, LAB_MEMORY_BYTES), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_fcollect(ctx, team, memory, memory, huge), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_alltoall(ctx, team, memory, memory, LAB_MEMORY_BYTES), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_collect(ctx, team, outside, memory, 8), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_alltoalls(ctx, team, memory, memory, &narrow), SHMD_DEV_INVALID);
	narrow.dest_stride_bytes = 1ull << 62;
	ASSERT_EQ(shmd_dev_alltoalls(ctx, team, memory, memory, &narrow), SHMD_DEV_INVALID);
	for (uint32_t type = 0; type <= 17; type++) {
		for (uint32_t op = 0; op <= 8; op++) {
			args = shmd_dev_coll_math(memory, memory, 0, type, op);
			ASSERT_EQ(shmd_dev_reduce(ctx, team, &args), op && op <= coll_n_ops(type) ? SHMD_DEV_OK : SHMD_DEV_INVALID);
		}
	}
	args = shmd_dev_coll_math(memory, memory, 1ull << 62, SHMD_DEV_TYPE_INT64, SHMD_DEV_REDUCE_SUM);
	ASSERT_EQ(shmd_dev_reduce_scatter(ctx, team, &args), SHMD_DEV_INVALID);
	ASSERT_EQ(team->n_exchanges, 0u);
	ASSERT_EQ(team->coll_status, SHMD_DEV_OK);
	pe_lab_free(lab);
}

TEST(nothing_to_do_waits_for_nobody)
{
	struct pe_lab *lab = pe_lab_new(3);
	struct shmd_dev_team *team = &lab->pes[0].team;
	struct shmd_dev_ctx *ctx = &lab->pes[0].ctx;
	struct shmd_dev_stride none = {.n = 0, .block_bytes = 8, .dest_stride_bytes = 8, .source_stride_bytes = 8};
	struct shmd_dev_coll args = shmd_dev_coll_math(NULL, NULL, 0, SHMD_DEV_TYPE_FLOAT, SHMD_DEV_REDUCE_MIN);

	ctx->timeout_nsec = MSEC;
	ASSERT_EQ(shmd_dev_broadcast(ctx, team, NULL, NULL, 0, 1), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_fcollect(ctx, team, NULL, NULL, 0), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_alltoall(ctx, team, NULL, NULL, 0), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_alltoalls(ctx, team, NULL, NULL, &none), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_reduce(ctx, team, &args), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_scan_exclusive(ctx, team, &args), SHMD_DEV_OK);
	/* Others may have bytes. */
	ASSERT_EQ(shmd_dev_collect(ctx, team, pe_lab_memory(lab, 0), NULL, 0), SHMD_DEV_TIMEOUT);
	pe_lab_free(lab);
}

static void collect_nothing(const struct lab_thread *me)
{
	const uint32_t *flags = me->arg;

	pe_lab_team_flags(&me->lab->pes[me->pe].team, *flags);
	ASSERT_EQ(shmd_dev_collect(me->ctx, &me->lab->pes[me->pe].team, NULL, NULL, 0), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_collect(me->ctx, &me->lab->pes[me->pe].team, NULL, NULL, 0), SHMD_DEV_OK);
}

TEST(a_collect_of_nothing_takes_any_address)
{
	uint32_t flags[] = {SHMD_TEAM_MAPPED, 0};

	for (uint32_t i = 0; i < 2; i++) {
		struct pe_lab *lab = pe_lab_new(5);

		pe_lab_run(lab, 1, collect_nothing, &flags[i]);
		pe_lab_free(lab);
	}
}

/* ---- failures */

static void broadcast_once(struct pe_lab *lab, uint32_t pe, int want)
{
	ASSERT_EQ(shmd_dev_broadcast(&lab->pes[pe].ctx, &lab->pes[pe].team, pe_lab_memory(lab, pe), pe_lab_memory(lab, pe) + 64, 8, 2), want);
}

TEST(a_failure_is_the_end_of_collectives_on_a_team_and_of_nothing_else)
{
	for (uint32_t is_mapped = 0; is_mapped < 2; is_mapped++) {
		struct pe_lab *lab = pe_lab_new(3);

		for (uint32_t pe = 0; pe < 3; pe++) {
			pe_lab_team_flags(&lab->pes[pe].team, is_mapped ? SHMD_TEAM_MAPPED : 0);
			lab->pes[pe].ctx.timeout_nsec = 2 * MSEC;
		}
		broadcast_once(lab, 0, SHMD_DEV_TIMEOUT);
		lab->pes[0].ctx.timeout_nsec = SHMD_DEV_NO_TIMEOUT;
		broadcast_once(lab, 0, SHMD_DEV_TIMEOUT);
		pe_lab_free(lab);
	}
}

static void sync_once(const struct lab_thread *me)
{
	ASSERT_EQ(shmd_dev_team_sync(me->ctx, &me->lab->pes[me->pe].team), SHMD_DEV_OK);
}

TEST(syncs_work_after_a_collective_that_failed)
{
	struct pe_lab *lab = pe_lab_new(3);

	for (uint32_t pe = 0; pe < 3; pe++)
		pe_lab_team_flags(&lab->pes[pe].team, SHMD_TEAM_MAPPED);
	lab->pes[1].ctx.timeout_nsec = MSEC;
	broadcast_once(lab, 1, SHMD_DEV_TIMEOUT);
	lab->pes[1].ctx.timeout_nsec = PATIENCE;
	pe_lab_run(lab, 1, sync_once, NULL);
	pe_lab_free(lab);
}

static int broadcast_large(struct pe_lab *lab, uint32_t pe)
{
	pe_lab_team_flags(&lab->pes[pe].team, SHMD_TEAM_MAPPED);
	lab->pes[pe].ctx.timeout_nsec = 2 * MSEC;
	return shmd_dev_broadcast(&lab->pes[pe].ctx, &lab->pes[pe].team, pe_lab_memory(lab, pe), pe_lab_memory(lab, pe) + 4096, 1000, 2);
}

TEST(source_of_a_root_that_failed_is_not_read)
{
	struct pe_lab *lab = pe_lab_new(3);

	ASSERT_EQ(broadcast_large(lab, 2), SHMD_DEV_TIMEOUT);
	memset(pe_lab_memory(lab, 2) + 4096, 0xee, 1000);
	ASSERT_EQ(broadcast_large(lab, 0), SHMD_DEV_TIMEOUT);
	ASSERT_EQ(pe_lab_memory(lab, 0)[0], 0);
	pe_lab_free(lab);
}

/* A PE that failed may use its source again while late PEs still read it; they fail afterwards. Atomic stores are no race for TSan. */
static void use_source_again(struct pe_lab *lab, uint32_t pe)
{
	uint64_t *words = (uint64_t *)pe_lab_memory(lab, pe);

	for (int i = 0; i < 16; i++)
		__atomic_store_n(&words[i], 0xeeeeeeeeeeeeeeee, __ATOMIC_RELAXED);
}

/* PE 0 gives up behind its reads, and its program changes source; PE 1 reads only then. The others wait for PE 1. */
struct halves {
	uint32_t has_failed, is_reduction;
	int status[LAB_PES];
};

static int second_half(struct shmdi_coll *c, uint32_t is_reduction)
{
	struct shmdi_math m = {.type = SHMD_DEV_TYPE_UINT64, .op = SHMD_DEV_REDUCE_MAX, .kind = SHMDI_REDUCE, .bytes = c->n * 128};

	if (!is_reduction)
		return shmdi_coll_read_blocks(c, c->me * 128, 128, 0);
	shmdi_math_divide(c, &m);
	return shmdi_math_large_rest(c, &m);
}

static void call_in_halves(const struct lab_thread *me)
{
	struct halves *halves = me->arg;
	uint8_t *source = pe_lab_memory(me->lab, me->pe);
	struct shmd_dev_coll args = shmd_dev_coll_of(source + 4096, source, 128);
	_Alignas(64) uint8_t bounce[1024];
	struct shmdi_coll c;

	me->ctx->bounce_addr = (uintptr_t)bounce;
	me->ctx->bounce_bytes = sizeof(bounce);
	ASSERT_EQ(shmdi_coll_begin(&c, me->ctx, &me->lab->pes[me->pe].team, shmdi_ctx_mode(me->ctx)), SHMD_DEV_OK);
	ASSERT_EQ(shmdi_coll_sides(&c, &args, c.n * 128, c.n * 128), SHMD_DEV_OK);
	ASSERT_EQ(shmdi_coll_meet(&c), SHMD_DEV_OK);
	while (me->pe == 1 && !__atomic_load_n(&halves->has_failed, __ATOMIC_ACQUIRE))
		sched_yield();
	c.mode.timeout_nsec = me->pe == 1 ? PATIENCE : me->pe ? 300 * MSEC : 2 * MSEC;
	halves->status[me->pe] = second_half(&c, halves->is_reduction);
	if (me->pe)
		return;
	use_source_again(me->lab, 0);
	__atomic_store_n(&halves->has_failed, 1, __ATOMIC_RELEASE);
}

TEST(nobody_takes_what_a_pe_that_failed_has_changed_since)
{
	for (uint32_t i = 0; i < 4; i++) {
		/* Each tells each, or in rounds. */
		struct pe_lab *lab = pe_lab_new(i & 1 ? 3 : 5);
		struct halves halves = {.is_reduction = i / 2};

		for (uint32_t pe = 0; pe < lab->n_pes; pe++)
			pe_lab_team_flags(&lab->pes[pe].team, i & 1 ? SHMD_TEAM_MAPPED : 0);
		pe_lab_run(lab, 1, call_in_halves, &halves);
		for (uint32_t pe = 0; pe < lab->n_pes; pe++)
			ASSERT_EQ(halves.status[pe], SHMD_DEV_TIMEOUT);
		pe_lab_free(lab);
	}
}

#define BLOCK 1000u

/* Forward, then backward. */
static void alltoall_by_pieces(const struct lab_thread *me)
{
	uint8_t *source = pe_lab_memory(me->lab, me->pe), *dest = source + LAB_PES * BLOCK;
	struct shmd_dev_coll args = shmd_dev_coll_of(dest, source, BLOCK);
	struct shmdi_coll c;

	for (uint32_t i = 0; i < me->lab->n_pes * BLOCK; i++)
		source[i] = (uint8_t)(i * 7 + i / 256 + me->pe * 31);
	ASSERT_EQ(shmdi_coll_begin(&c, me->ctx, &me->lab->pes[me->pe].team, shmdi_ctx_mode(me->ctx)), SHMD_DEV_OK);
	ASSERT_EQ(shmdi_coll_sides(&c, &args, c.n * BLOCK, c.n * BLOCK), SHMD_DEV_OK);
	ASSERT_EQ(shmdi_coll_piece(&c), 65536u);
	for (int call = 0; call < 2; call++) {
		memset(dest, 0, c.n * BLOCK);
		ASSERT_EQ(shmdi_coll_meet(&c), SHMD_DEV_OK);
		ASSERT_EQ(shmdi_coll_is_backward(&c), call);
		ASSERT_EQ(shmdi_coll_read_blocks(&c, c.me * BLOCK, BLOCK, call ? 125 : 48), SHMD_DEV_OK);
		for (uint32_t at = 0; at < c.n * BLOCK; at++) {
			uint32_t from = at / BLOCK, i = me->pe * BLOCK + at % BLOCK;

			ASSERT_EQ(dest[at], (uint8_t)(i * 7 + i / 256 + from * 31));
		}
	}
}

TEST(pieces_of_each_block_in_turn_make_whole_blocks_in_both_directions)
{
	for (uint32_t n = 4; n <= 6; n++) {
		struct pe_lab *lab = pe_lab_new(n);

		for (uint32_t pe = 0; pe < n; pe++)
			pe_lab_team_flags(&lab->pes[pe].team, SHMD_TEAM_MAPPED);
		pe_lab_run(lab, 1, alltoall_by_pieces, NULL);
		pe_lab_free(lab);
	}
}

/* PE 1 has failed; the others call when it goes on with syncs, which they must not take for the rest of its call. */
static void call_late(const struct lab_thread *me)
{
	if (me->pe == 1) {
		use_source_again(me->lab, 1);
	} else {
		me->ctx->timeout_nsec = 200 * MSEC;
		ASSERT_EQ(shmd_dev_broadcast(me->ctx, &me->lab->pes[me->pe].team, pe_lab_memory(me->lab, me->pe),
					     pe_lab_memory(me->lab, me->pe) + 64, 8, 1), SHMD_DEV_TIMEOUT);
	}
	me->ctx->timeout_nsec = PATIENCE;
	sync_once(me);
	sync_once(me);
}

TEST(syncs_of_a_pe_that_failed_are_not_taken_for_the_rest_of_its_collective)
{
	struct pe_lab *lab = pe_lab_new(5);

	/* In rounds. */
	for (uint32_t pe = 0; pe < 5; pe++)
		pe_lab_team_flags(&lab->pes[pe].team, 0);
	lab->pes[1].ctx.timeout_nsec = MSEC;
	ASSERT_EQ(shmd_dev_broadcast(&lab->pes[1].ctx, &lab->pes[1].team, pe_lab_memory(lab, 1), pe_lab_memory(lab, 1) + 64, 8, 1),
		  SHMD_DEV_TIMEOUT);
	pe_lab_run(lab, 1, call_late, NULL);
	pe_lab_free(lab);
}

TEST(a_pe_that_ends_ends_collectives)
{
	struct pe_lab *lab = pe_lab_new(3);
	struct shmd_dev_coll args = shmd_dev_coll_math(pe_lab_memory(lab, 0), pe_lab_memory(lab, 0), 100, SHMD_DEV_TYPE_INT32,
						       SHMD_DEV_REDUCE_SUM);

	pe_lab_team_flags(&lab->pes[0].team, SHMD_TEAM_MAPPED);
	lab->pes[0].ctx.timeout_nsec = SHMD_DEV_NO_TIMEOUT;
	pe_lab_end_pe(lab, 1);
	ASSERT_EQ(shmd_dev_reduce(&lab->pes[0].ctx, &lab->pes[0].team, &args), SHMD_DEV_PE_GONE);
	pe_lab_forgive(lab);
	ASSERT_EQ(shmd_dev_reduce(&lab->pes[0].ctx, &lab->pes[0].team, &args), SHMD_DEV_PE_GONE);
	pe_lab_free(lab);
}

/* With a time limit that is none, so that nothing but the answer ends a call. */
static int call_any(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, uint8_t *memory, uint32_t which)
{
	struct shmd_dev_coll args = shmd_dev_coll_math(memory, memory + 4096, which % 2 ? 100 : 1, SHMD_DEV_TYPE_INT32, SHMD_DEV_REDUCE_SUM);

	if (which < 2)
		return shmd_dev_broadcast(ctx, team, memory, memory + 4096, which ? 400 : 4, 3);
	if (which < 4)
		return shmd_dev_collect(ctx, team, memory, memory + 4096, which == 3 ? 400 : 4);
	return which < 6 ? shmd_dev_reduce(ctx, team, &args) : shmd_dev_scan_exclusive(ctx, team, &args);
}

/* A team for each call, since the first failure is the last call. */
static void call_without_one(const struct lab_thread *me)
{
	static const uint32_t members[] = {0, 1, 2, 3, 4, 5};
	uint32_t flags = *(const uint32_t *)me->arg;
	struct shmd_dev_team *team = aligned_alloc(64, sizeof(*team));

	me->ctx->timeout_nsec = SHMD_DEV_NO_TIMEOUT;
	me->ctx->bounce_bytes = 65536; /* there is none, and no call comes as far */
	for (uint32_t which = 0; which < 8 && me->pe != 1; which++) {
		pe_lab_team(me->lab, 1 + which, members, 6, me->pe, team);
		pe_lab_team_flags(team, flags);
		ASSERT_EQ(call_any(me->ctx, team, pe_lab_memory(me->lab, me->pe), which), SHMD_DEV_PE_GONE);
	}
	free(team);
}

TEST(a_pe_that_was_forgiven_ends_collectives_of_every_member_of_its_teams)
{
	uint32_t flags[] = {SHMD_TEAM_MAPPED, 0};

	for (uint32_t i = 0; i < 2; i++) {
		struct pe_lab *lab = pe_lab_new(6);

		pe_lab_end_pe(lab, 1);
		pe_lab_forgive(lab);
		pe_lab_run(lab, 1, call_without_one, &flags[i]);
		pe_lab_free(lab);
	}
}

/* PE 0 passes no number of the call that it was refused. */
static void call_twice(const struct lab_thread *me)
{
	struct shmd_dev_team *team = &me->lab->pes[me->pe].team;
	uint8_t *memory = pe_lab_memory(me->lab, me->pe), outside[8] = {0};

	pe_lab_team_flags(team, SHMD_TEAM_MAPPED);
	memory[64] = (uint8_t)(me->pe + 1);
	if (!me->pe)
		ASSERT_EQ(shmd_dev_fcollect(me->ctx, team, memory, outside, 1), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_fcollect(me->ctx, team, memory, memory + 64, 1), SHMD_DEV_OK);
	for (uint32_t i = 0; i < me->lab->n_pes; i++)
		ASSERT_EQ(memory[i], i + 1);
}

TEST(a_pe_that_was_refused_may_call_again_while_the_others_wait)
{
	struct pe_lab *lab = pe_lab_new(4);

	pe_lab_run(lab, 1, call_twice, NULL);
	pe_lab_free(lab);
}

TEST(reductions_by_queues_want_memory_before_they_do_anything)
{
	struct pe_lab *lab = pe_lab_new(3);
	struct shmd_dev_team *team = &lab->pes[0].team;
	uint8_t *memory = pe_lab_memory(lab, 0);
	struct shmd_dev_coll args = shmd_dev_coll_math(memory, memory, 100, SHMD_DEV_TYPE_INT32, SHMD_DEV_REDUCE_SUM);

	pe_lab_team_flags(team, 0);
	lab->pes[0].ctx.timeout_nsec = SHMD_DEV_NO_TIMEOUT;
	lab->pes[0].ctx.bounce_bytes = 127;
	ASSERT_EQ(shmd_dev_reduce(&lab->pes[0].ctx, team, &args), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_reduce_scatter(&lab->pes[0].ctx, team, &args), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_scan_inclusive(&lab->pes[0].ctx, team, &args), SHMD_DEV_INVALID);
	ASSERT_EQ(team->n_exchanges, 0u);
	ASSERT_EQ(team->coll_status, SHMD_DEV_OK);
	pe_lab_free(lab);
}

/* The marks of words begin anew behind 31 bits of the number: words of that number from long ago stand in the buffers. */
static void sum_where_marks_begin_anew(const struct lab_thread *me)
{
	struct shmd_dev_team *team = &me->lab->pes[me->pe].team;
	uint32_t *source = (uint32_t *)pe_lab_memory(me->lab, me->pe), *dest = source + 1000, n = me->lab->n_pes;
	struct shmd_dev_coll args = shmd_dev_coll_math(dest, source, 99, SHMD_DEV_TYPE_UINT32, SHMD_DEV_REDUCE_SUM);

	for (uint64_t round = 0; round < 6; round++) {
		for (uint32_t i = 0; i < 99; i++)
			source[i] = (uint32_t)round * 1000 + i + me->pe;
		ASSERT_EQ(shmd_dev_reduce(me->ctx, team, &args), SHMD_DEV_OK);
		for (uint32_t i = 0; i < 99; i++)
			ASSERT_EQ(dest[i], n * ((uint32_t)round * 1000 + i) + n * (n - 1) / 2);
	}
}

static uint64_t *words_of(struct pe_lab *lab, uint32_t pe)
{
	const struct shmd_dev_team *team = &lab->pes[pe].team;

	return (uint64_t *)(void *)(lab->pes[pe].heap + team->scratch_offset + team->words_from_scratch);
}

/* Whether one is taken is a matter of who comes first, so none may be left. */
TEST(words_of_long_ago_do_not_pass_for_new_ones)
{
	const uint64_t n_words = SHMD_DEV_WORDS_BYTES / sizeof(uint64_t), first = (1ull << 31) - 2;
	struct pe_lab *lab = pe_lab_new(3);

	for (uint32_t pe = 0; pe < 3; pe++) {
		pe_lab_team_flags(&lab->pes[pe].team, SHMD_TEAM_MAPPED);
		lab->pes[pe].team.n_words = first;
		for (uint64_t i = 0; lab->has_near && i < n_words; i++)
			words_of(lab, pe)[i] = (i < n_words / 2 ? 1ull : 3ull) << 32 | 12345;
	}
	pe_lab_run(lab, 1, sum_where_marks_begin_anew, NULL);
	for (uint32_t pe = 0; pe < 3; pe++) {
		ASSERT_EQ(lab->pes[pe].team.n_words, lab->has_near ? first + 6 : first);
		for (uint64_t i = 0; lab->has_near && i < n_words; i++)
			ASSERT_NE((uint32_t)words_of(lab, pe)[i], 12345u);
	}
	pe_lab_free(lab);
}

/* ---- how a call works */

TEST(the_plan_follows_size_members_and_paths)
{
	struct shmd_dev_team team = {.n_pes = 1};

	ASSERT_EQ(shmd_dev_coll_plan(&team, 1000), SHMD_DEV_COLL_LOCAL);
	for (team.n_pes = 2; team.n_pes < 40; team.n_pes++) {
		team.flags = SHMD_TEAM_MAPPED;
		ASSERT_EQ(shmd_dev_coll_plan(&team, 56), team.n_pes <= 16 ? SHMD_DEV_COLL_SLOTS : SHMD_DEV_COLL_ROUNDS);
		ASSERT_EQ(shmd_dev_coll_plan(&team, 57), team.n_pes <= 16 ? SHMD_DEV_COLL_FLAT : SHMD_DEV_COLL_ROUNDS);
		team.flags = 0;
		ASSERT_EQ(shmd_dev_coll_plan(&team, 1), team.n_pes <= 4 ? SHMD_DEV_COLL_SLOTS : SHMD_DEV_COLL_ROUNDS);
	}
}

/* One thread plays both PEs: the root does not wait for whoever has not called yet, until all slots hold what was not read. */
TEST(a_root_broadcasts_ahead_of_those_who_read)
{
	const uint32_t members[] = {0, 1}, n_ahead = SHMD_DEV_COLL_SENDERS - 1;
	struct pe_lab *lab = pe_lab_new(2);
	struct shmd_dev_team teams[2];

	for (uint32_t pe = 0; pe < 2; pe++) {
		pe_lab_team(lab, 1, members, 2, pe, &teams[pe]);
		pe_lab_team_flags(&teams[pe], SHMD_TEAM_MAPPED);
		lab->pes[pe].ctx.timeout_nsec = 20000000;
	}
	for (uint64_t round = 0; round < 3; round++) {
		uint64_t *mine = (uint64_t *)pe_lab_memory(lab, 0), *theirs = (uint64_t *)pe_lab_memory(lab, 1);

		for (uint64_t i = 0; i < n_ahead; i++) {
			*mine = round * 100 + i;
			ASSERT_EQ(shmd_dev_broadcast(&lab->pes[0].ctx, &teams[0], mine + 1, mine, 8, 0), SHMD_DEV_OK);
		}
		for (uint64_t i = 0; i < n_ahead; i++) {
			ASSERT_EQ(shmd_dev_broadcast(&lab->pes[1].ctx, &teams[1], theirs + 1, theirs, 8, 0), SHMD_DEV_OK);
			ASSERT_EQ(theirs[1], round * 100 + i);
		}
	}
	for (uint64_t i = 0; i < n_ahead; i++)
		ASSERT_EQ(shmd_dev_broadcast(&lab->pes[0].ctx, &teams[0], pe_lab_memory(lab, 0) + 8, pe_lab_memory(lab, 0), 8, 0), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_broadcast(&lab->pes[0].ctx, &teams[0], pe_lab_memory(lab, 0) + 8, pe_lab_memory(lab, 0), 8, 0), SHMD_DEV_TIMEOUT);
	pe_lab_free(lab);
}
