/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/dev/coll-program.h"
#include "tests/lib/test.h"

#define POISON 0xa5
#define MARGIN 64u /* bytes around dest that must stay */

static uint64_t next(uint64_t *random)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return *random;
}

/* ---- what the next step is: the same on all PEs */

static const uint16_t sizes[] = {0, 1, 1, 2, 3, 7, 8, 8, 9, 31, 48, 49, 55, 56, 57, 64, 65, 100, 128, 500, 1000, 4095, 4096, 4097, 9000, 40000};

static bool computes(enum coll_call call)
{
	return call >= COLL_REDUCE && call <= COLL_SCAN_EXCLUSIVE;
}

uint32_t coll_n_ops(uint32_t type)
{
	if (type < SHMD_DEV_TYPE_INT8 || type > SHMD_DEV_TYPE_BFLOAT16)
		return 0;
	if (type == SHMD_DEV_TYPE_COMPLEX_FLOAT || type == SHMD_DEV_TYPE_COMPLEX_DOUBLE)
		return 2;
	return type >= SHMD_DEV_TYPE_FLOAT ? 4 : 7;
}

static void choose_math(struct coll_step *step, uint64_t *random)
{
	uint32_t type = SHMD_DEV_TYPE_INT8 + (uint32_t)(next(random) % SHMD_DEV_TYPE_BFLOAT16), n_ops = coll_n_ops(type);

	step->args.type = type;
	step->args.op = SHMD_DEV_REDUCE_SUM + (uint32_t)(next(random) % n_ops);
}

static void choose_stride(struct coll_step *step, uint64_t *random)
{
	struct shmd_dev_stride *stride = &step->args.stride;

	stride->block_bytes = next(random) % 20;
	stride->n = next(random) % 40;
	stride->dest_stride_bytes = stride->block_bytes + next(random) % 3 * 8;
	stride->source_stride_bytes = stride->block_bytes + next(random) % 3 * 8;
}

static void choose(struct coll_step *step, const struct coll_home *home, uint64_t *random)
{
	uint64_t most;

	memset(step, 0, sizeof(*step));
	step->number = next(random);
	step->call = (enum coll_call)(next(random) % COLL_N_CALLS);
	step->team = &home->teams[next(random) % home->n_teams];
	step->args.type = SHMD_DEV_TYPE_UINT8;
	step->args.root = (uint32_t)(next(random) % step->team->n);
	if (computes(step->call))
		choose_math(step, random);
	if (step->call == COLL_ALLTOALLS)
		choose_stride(step, random);
	most = (home->room_bytes / 2 - 4 * MARGIN) / step->team->n / shmd_dev_type_bytes(step->args.type);
	step->args.n = sizes[next(random) % (sizeof(sizes) / sizeof(sizes[0]))];
	/* Large ones seldom: they take most of the time. */
	if (step->args.n > 1000 && next(random) % 4)
		step->args.n %= 61;
	if (step->args.n > most)
		step->args.n = most;
	step->in_place = (computes(step->call) || step->call == COLL_BROADCAST) && next(random) % 3 == 0;
}

/* ---- a step as one PE makes it */

struct places {
	uint8_t *source, *dest;
	uint64_t source_bytes, dest_bytes;
};

static struct places place(const struct coll_step *step, const struct coll_home *home, uint32_t me, uint64_t random)
{
	uint64_t aligned = shmd_dev_type_bytes(step->args.type);
	struct places at = {.source_bytes = coll_source_bytes(step, me), .dest_bytes = coll_dest_bytes(step, me)};

	at.source = home->room + MARGIN + random % (MARGIN / aligned) * aligned;
	at.dest = step->in_place ? at.source : home->room + home->room_bytes / 2 + MARGIN + random / 64 % (MARGIN / aligned) * aligned;
	ASSERT_LE(at.source + at.source_bytes, home->room + home->room_bytes / 2);
	ASSERT_LE(at.dest + at.dest_bytes + MARGIN, home->room + home->room_bytes);
	return at;
}

static void expect_poison(const uint8_t *from, uint64_t bytes)
{
	if (bytes && (from[0] != POISON || memcmp(from, from + 1, bytes - 1) != 0))
		test_fail(TEST_WHERE, "one of %llu bytes is not 0x%x", (unsigned long long)bytes, POISON);
}

static void expect_dest(const struct coll_step *step, const struct places *at, uint32_t me)
{
	uint8_t *want = calloc(2, at->dest_bytes + 1), *defined = want + at->dest_bytes + 1;

	ASSERT(want != NULL);
	coll_model(step, me, want, defined);
	for (uint64_t i = 0; i < at->dest_bytes; i++) {
		if (defined[i] && at->dest[i] != want[i])
			test_fail(TEST_WHERE, "call %d, %llu elements of type %u, operation %u, PE %u of %u%s: byte %llu of %llu is 0x%x, not 0x%x",
				  (int)step->call, (unsigned long long)step->args.n, step->args.type, step->args.op, me, step->team->n,
				  step->in_place ? ", in place" : "", (unsigned long long)i, (unsigned long long)at->dest_bytes, at->dest[i],
				  want[i]);
		/* Padding of numbers may change, gaps between elements may not. */
		if (!defined[i] && step->call == COLL_ALLTOALLS)
			ASSERT_EQ(at->dest[i], POISON);
	}
	free(want);
}

static void expect_source(const struct coll_step *step, const struct places *at, uint32_t me)
{
	uint8_t *want = malloc(at->source_bytes + 1);

	ASSERT(want != NULL);
	coll_source(step, me, 0, at->source_bytes, want);
	ASSERT_MEMEQ(at->source, want, at->source_bytes);
	free(want);
}

static void make(const struct coll_step *step, const struct coll_home *home, uint32_t me, uint64_t random)
{
	struct places at = place(step, home, me, random);
	struct shmd_dev_coll args = step->args;

	coll_source(step, me, 0, at.source_bytes, at.source);
	/* Nobody has written to dest before this PE calls. */
	if (!step->in_place)
		expect_poison(at.dest - MARGIN, at.dest_bytes + 2 * MARGIN);
	args.dest = at.dest;
	args.source = at.source;
	if (step->call == COLL_COLLECT)
		args.n = at.source_bytes;
	ASSERT_EQ(home->call(home->ctx, step->team->team, step->call, &args), 0);
	if (step->call != COLL_SYNC && (step->args.n || step->call == COLL_ALLTOALLS))
		expect_dest(step, &at, me);
	if (!step->in_place) {
		expect_source(step, &at, me);
		expect_poison(at.dest - MARGIN, MARGIN);
		expect_poison(at.dest + at.dest_bytes, MARGIN);
		memset(at.dest, POISON, at.dest_bytes);
	}
	/* Others are through with it. */
	memset(at.source, POISON, at.source_bytes);
}

void coll_program_run(const struct coll_home *home)
{
	uint64_t random = home->seed * 2 + 1;
	struct coll_step step;

	memset(home->room, POISON, home->room_bytes);
	for (uint32_t i = 0; i < home->n_steps; i++) {
		choose(&step, home, &random);
		next(&random);
		for (uint32_t me = 0; me < step.team->n; me++)
			if (step.team->members[me] == home->pe)
				make(&step, home, me, random);
	}
}

int coll_call_dev(void *ctx, void *team, enum coll_call call, const struct shmd_dev_coll *args)
{
	switch (call) {
	case COLL_BROADCAST:
		return shmd_dev_broadcast(ctx, team, args->dest, args->source, args->n, args->root);
	case COLL_FCOLLECT:
		return shmd_dev_fcollect(ctx, team, args->dest, args->source, args->n);
	case COLL_COLLECT:
		return shmd_dev_collect(ctx, team, args->dest, args->source, args->n);
	case COLL_ALLTOALL:
		return shmd_dev_alltoall(ctx, team, args->dest, args->source, args->n);
	case COLL_ALLTOALLS:
		return shmd_dev_alltoalls(ctx, team, args->dest, args->source, &args->stride);
	case COLL_REDUCE:
		return shmd_dev_reduce(ctx, team, args);
	case COLL_REDUCE_SCATTER:
		return shmd_dev_reduce_scatter(ctx, team, args);
	case COLL_SCAN_INCLUSIVE:
		return shmd_dev_scan_inclusive(ctx, team, args);
	case COLL_SCAN_EXCLUSIVE:
		return shmd_dev_scan_exclusive(ctx, team, args);
	default:
		return shmd_dev_team_sync(ctx, team);
	}
}
