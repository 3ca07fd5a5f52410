/* SPDX-License-Identifier: Apache-2.0 */
/* Syncs and barriers of teams that overlap, one after the other without anything between; locks. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <shmd/dev/coll.h>

#include "tests/dev/pe-lab.h"

/* ---- syncs ----------------------------------------------------------------------------------------------------------------------- */

#define N_ROUNDS 400u

static const uint32_t sizes[] = {1, 2, 3, 5, LAB_PES};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* Each PE puts the number of the round to all others; after the sync it must find it from all of them. */
static void sync_world(const struct lab_thread *me)
{
	uint64_t *rounds = (uint64_t *)pe_lab_memory(me->lab, me->pe);
	struct shmd_dev_team *team = &me->lab->pes[me->pe].team;

	for (uint64_t i = 1; i <= N_ROUNDS; i++) {
		for (uint32_t pe = 0; pe < me->lab->n_pes; pe++)
			ASSERT_EQ(shmd_dev_put(me->ctx, &rounds[me->pe], &i, 8, pe), SHMD_DEV_OK);
		ASSERT_EQ(i % 2 ? shmd_dev_team_sync(me->ctx, team) : shmd_dev_team_barrier(me->ctx, team), SHMD_DEV_OK);
		/* A PE may have begun the next round, but not the one after it. */
		for (uint32_t pe = 0; pe < me->lab->n_pes; pe++) {
			uint64_t found = shmd_dev_signal_fetch(&rounds[pe]);

			ASSERT_GE(found, i);
			ASSERT_LE(found, i + 1);
		}
	}
}

TEST(no_pe_leaves_a_sync_before_all_have_called)
{
	for (uint32_t i = 0; i < N_SIZES; i++) {
		struct pe_lab *lab = pe_lab_new(sizes[i]);

		pe_lab_run(lab, 1, sync_world, NULL);
		pe_lab_free(lab);
	}
}

/* Teams of random members in random order, the same on all PEs. Team 0 is left to the world. */
struct teams {
	uint32_t members[LAB_TEAMS][LAB_PES];
	uint32_t n[LAB_TEAMS];
	uint64_t order;
};

static void shuffle(uint32_t *pes, uint64_t *random)
{
	for (uint32_t i = 0; i < LAB_PES; i++) {
		uint32_t j = lab_random(random) % LAB_PES, kept = pes[i];

		pes[i] = pes[j];
		pes[j] = kept;
	}
}

static void choose_teams(struct teams *teams, uint64_t *random)
{
	for (uint32_t t = 1; t < LAB_TEAMS; t++) {
		for (uint32_t i = 0; i < LAB_PES; i++)
			teams->members[t][i] = i;
		shuffle(teams->members[t], random);
		teams->n[t] = 1 + (uint32_t)(lab_random(random) % LAB_PES);
	}
	teams->order = lab_random(random) | 1;
}

static int place_in(const struct teams *teams, uint32_t t, uint32_t pe)
{
	for (uint32_t i = 0; i < teams->n[t]; i++) {
		if (teams->members[t][i] == pe)
			return (int)i;
	}
	return -1;
}

/* All PEs go through the same random order of syncs, and each takes part in those of its teams. */
static void sync_teams(const struct lab_thread *me)
{
	struct teams *all = (struct teams *)me->arg;
	struct shmd_dev_team *teams = aligned_alloc(64, sizeof(*teams) * LAB_TEAMS);
	uint64_t *counts = (uint64_t *)pe_lab_memory(me->lab, me->pe), order = all->order;
	uint64_t done[LAB_TEAMS] = {0};

	for (uint32_t t = 1; t < LAB_TEAMS; t++) {
		int place = place_in(all, t, me->pe);

		if (place >= 0)
			pe_lab_team(me->lab, t, all->members[t], all->n[t], (uint32_t)place, &teams[t]);
	}
	for (uint32_t i = 0; i < 3000; i++) {
		uint32_t t = 1 + (uint32_t)(lab_random(&order) % (LAB_TEAMS - 1));

		if (place_in(all, t, me->pe) < 0)
			continue;
		/* Everybody counts at the first member; after the sync all of this round must be there. */
		ASSERT_EQ(shmd_dev_atomic(me->ctx, &counts[t], shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1), all->members[t][0]), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_team_sync(me->ctx, &teams[t]), SHMD_DEV_OK);
		done[t]++;
		if (all->members[t][0] == me->pe)
			ASSERT_GE(shmd_dev_signal_fetch(&counts[t]), done[t] * all->n[t]);
	}
	free(teams);
}

TEST(syncs_of_overlapping_teams_follow_each_other)
{
	uint64_t random = 4101842887655102017ull;

	for (uint32_t i = 0; i < 3; i++) {
		struct pe_lab *lab = pe_lab_new(LAB_PES);
		struct teams teams;

		choose_teams(&teams, &random);
		pe_lab_run(lab, 1, sync_teams, &teams);
		pe_lab_free(lab);
	}
}

static void sync_thrice(const struct lab_thread *me)
{
	for (uint32_t i = 0; i < 3; i++)
		ASSERT_EQ(shmd_dev_team_sync(me->ctx, &me->lab->pes[me->pe].team), SHMD_DEV_OK);
}

TEST(a_sync_that_failed_is_gone_on_with)
{
	struct pe_lab *lab = pe_lab_new(3);
	struct shmd_dev_ctx *ctx = &lab->pes[0].ctx;
	struct shmd_dev_mode mode = shmd_dev_ctx_mode(ctx, SHMD_DEV_THREAD);

	/* PE 0 comes before the others, and gives up twice. */
	mode.timeout_nsec = MSEC;
	ASSERT_EQ(shmd_dev_team_sync_as(ctx, &lab->pes[0].team, mode), SHMD_DEV_TIMEOUT);
	ASSERT_EQ(shmd_dev_team_barrier_as(ctx, &lab->pes[0].team, mode), SHMD_DEV_TIMEOUT);
	pe_lab_run(lab, 1, sync_thrice, NULL);
	for (uint32_t i = 0; i < 3; i++)
		ASSERT_EQ(lab->pes[i].team.n_syncs, 3u);
	pe_lab_free(lab);
}

/* ---- a member that has ended and was forgiven ----------------------------------------------------------------------------------- */

/* No time limit: nothing but the answer ends the call. */
static void sync_without_one(const struct lab_thread *me)
{
	static const uint32_t rest[] = {0, 1, 3, 4};
	struct shmd_dev_team team;

	if (me->pe == 2)
		return;
	me->ctx->timeout_nsec = SHMD_DEV_NO_TIMEOUT;
	ASSERT_EQ(shmd_dev_team_sync(me->ctx, &me->lab->pes[me->pe].team), SHMD_DEV_PE_GONE);
	ASSERT_EQ(shmd_dev_team_barrier(me->ctx, &me->lab->pes[me->pe].team), SHMD_DEV_PE_GONE);
	/* A team of those that are left goes on. */
	pe_lab_team(me->lab, 1, rest, 4, me->pe - (me->pe > 2), &team);
	for (int i = 0; i < 10; i++)
		ASSERT_EQ(shmd_dev_team_barrier(me->ctx, &team), SHMD_DEV_OK);
}

TEST(a_member_that_was_forgiven_ends_syncs_of_its_teams_on_every_pe)
{
	struct pe_lab *lab = pe_lab_new(5);

	pe_lab_end_pe(lab, 2);
	pe_lab_forgive(lab);
	pe_lab_run(lab, 1, sync_without_one, NULL);
	pe_lab_free(lab);
}

/* As another thread of each PE may do it: between two looks of a wait. */
static void end_and_forgive(struct pe_lab *lab, uint32_t gone)
{
	for (uint32_t i = 0; i < lab->n_pes; i++) {
		struct lab_pe *pe = &lab->pes[i];

		__atomic_store_n(&pe->entries[gone].path[0], SHMD_PATH_GONE, __ATOMIC_RELEASE);
		__atomic_store_n(&pe->world.n_gone_known, 1, __ATOMIC_RELEASE);
		__atomic_store_n(&pe->world.n_gone, 1, __ATOMIC_RELEASE);
	}
}

/* Flags of the team, and how many PEs it has: collectives of many, and some by queues, go by rounds. */
struct meeting {
	uint32_t flags, n;
};

static void meet_until_one_ends(const struct lab_thread *me)
{
	struct shmd_dev_team *team = &me->lab->pes[me->pe].team;
	uint8_t *memory = pe_lab_memory(me->lab, me->pe);

	me->ctx->timeout_nsec = SHMD_DEV_NO_TIMEOUT;
	team->flags = ((const struct meeting *)me->arg)->flags;
	if (me->pe == 2) {
		usleep(20000);
		end_and_forgive(me->lab, 2);
		return;
	}
	if (me->pe == 0) {
		ASSERT_EQ(shmd_dev_fcollect(me->ctx, team, memory, memory + 4096, 8), SHMD_DEV_PE_GONE);
		ASSERT_EQ(shmd_dev_fcollect(me->ctx, team, memory, memory + 4096, 8), SHMD_DEV_PE_GONE);
		return;
	}
	ASSERT_EQ(shmd_dev_team_sync(me->ctx, team), SHMD_DEV_PE_GONE);
}

TEST(a_member_that_ends_and_is_forgiven_during_a_call_ends_it)
{
	struct meeting meetings[] = {{SHMD_TEAM_MAPPED, 3}, {0, 3}, {0, 6}};

	for (uint32_t i = 0; i < 3; i++) {
		struct pe_lab *lab = pe_lab_new(meetings[i].n);

		pe_lab_run(lab, 1, meet_until_one_ends, &meetings[i]);
		pe_lab_free(lab);
	}
}

/* ---- locks ----------------------------------------------------------------------------------------------------------------------- */

#define N_LOCKS 200u

/* A counter at the last PE that a get and a put change, which loses counts unless the lock excludes. */
static void count_locked(const struct lab_thread *me)
{
	uint64_t *lock = (uint64_t *)pe_lab_memory(me->lab, me->pe), *count = lock + 8, v;
	uint32_t last = me->lab->n_pes - 1;
	int rc;

	for (uint32_t i = 0; i < N_LOCKS; i++) {
		if (i % 4 == 3) {
			while ((rc = shmd_dev_lock_test(me->ctx, lock)) == SHMD_DEV_AGAIN)
				usleep(50);
			ASSERT_EQ(rc, SHMD_DEV_OK);
		} else {
			ASSERT_EQ(shmd_dev_lock(me->ctx, lock), SHMD_DEV_OK);
		}
		ASSERT_EQ(shmd_dev_get(me->ctx, &v, count, 8, last), SHMD_DEV_OK);
		v++;
		ASSERT_EQ(shmd_dev_put(me->ctx, count, &v, 8, last), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_unlock(me->ctx, lock), SHMD_DEV_OK);
	}
}

static void count_all(uint32_t n_pes, uint32_t n_threads, uint64_t first)
{
	struct pe_lab *lab = pe_lab_new(n_pes);
	uint64_t *lock = (uint64_t *)pe_lab_memory(lab, 0);

	/* Tickets that are about to wrap. */
	*lock = first << 44 | first << 24;
	pe_lab_run(lab, n_threads, count_locked, NULL);
	ASSERT_EQ(((uint64_t *)pe_lab_memory(lab, n_pes - 1))[8], (uint64_t)n_pes * n_threads * N_LOCKS);
	first = (first + (uint64_t)n_pes * n_threads * N_LOCKS) & 0xfffff;
	ASSERT_EQ(*lock, first << 44 | first << 24);
	for (uint32_t pe = 1; pe < n_pes; pe++)
		ASSERT_EQ(*(uint64_t *)pe_lab_memory(lab, pe), 0u);
	pe_lab_free(lab);
}

TEST(a_lock_excludes)
{
	count_all(1, 1, 0);
	count_all(2, 1, 0xfffff);
	count_all(3, 1, 0xfffff - 100);
	count_all(2, 4, 0);
	count_all(LAB_PES, 1, 0xffff0);
}

/* PEs ask one after the other while PE 0 holds the lock, and write down their turn. */
static void ask_in_turn(const struct lab_thread *me)
{
	uint64_t *lock = (uint64_t *)pe_lab_memory(me->lab, me->pe), *asked = lock + 8, *turn = lock + 9, *turns = lock + 16, mine = 0;

	if (me->pe)
		ASSERT_EQ(shmd_dev_wait_until(me->ctx, asked, 8, SHMD_DEV_CMP_GE, me->pe), SHMD_DEV_OK);
	else
		ASSERT_EQ(shmd_dev_lock(me->ctx, lock), SHMD_DEV_OK);
	if (me->pe == 0) {
		for (uint32_t pe = 1; pe < me->lab->n_pes; pe++) {
			ASSERT_EQ(shmd_dev_p(me->ctx, asked, pe, 8, pe), SHMD_DEV_OK);
			/* Until it stands in the queue. */
			while (shmd_dev_signal_fetch(lock) >> 44 != pe + 1)
				usleep(100);
		}
	} else {
		ASSERT_EQ(shmd_dev_lock(me->ctx, lock), SHMD_DEV_OK);
	}
	ASSERT_EQ(shmd_dev_atomic_fetch(me->ctx, turn, shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1), 0, &mine), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_p(me->ctx, &turns[me->pe], mine, 8, 0), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_unlock(me->ctx, lock), SHMD_DEV_OK);
}

TEST(pes_get_a_lock_in_the_order_in_which_they_asked)
{
	struct pe_lab *lab = pe_lab_new(LAB_PES);
	uint64_t *turns = (uint64_t *)pe_lab_memory(lab, 0) + 16;

	pe_lab_run(lab, 1, ask_in_turn, NULL);
	for (uint32_t pe = 0; pe < LAB_PES; pe++)
		ASSERT_EQ(turns[pe], pe);
	pe_lab_free(lab);
}

TEST(who_gives_up_leaves_the_queue_or_keeps_the_place)
{
	struct pe_lab *lab = pe_lab_new(3);
	struct shmd_dev_ctx *a = &lab->pes[0].ctx, *b = &lab->pes[1].ctx, *c = &lab->pes[2].ctx;
	uint64_t *lock[3];

	for (uint32_t pe = 0; pe < 3; pe++) {
		lock[pe] = (uint64_t *)pe_lab_memory(lab, pe);
		lab->pes[pe].ctx.timeout_nsec = 2 * MSEC;
	}
	ASSERT_EQ(shmd_dev_lock(a, lock[0]), SHMD_DEV_OK);
	/* The last in the queue leaves it. */
	ASSERT_EQ(shmd_dev_lock(b, lock[1]), SHMD_DEV_TIMEOUT);
	ASSERT_EQ(*lock[1], 0u);
	ASSERT_EQ(*lock[0] >> 44, 1u);
	/* As if b stood there when c asks: b keeps its place, and c gets behind it. */
	__atomic_fetch_add(lock[0], 1ull << 44, __ATOMIC_RELAXED);
	*lock[1] = 1u << 22 | 1;
	ASSERT_EQ(shmd_dev_lock(c, lock[2]), SHMD_DEV_TIMEOUT);
	ASSERT_EQ(shmd_dev_lock_test(b, lock[1]), SHMD_DEV_AGAIN);
	__atomic_fetch_add(lock[0], 1ull << 44, __ATOMIC_RELAXED);
	*lock[2] = 1u << 22 | 2;
	ASSERT_EQ(shmd_dev_lock(b, lock[1]), SHMD_DEV_TIMEOUT);
	ASSERT_EQ(*lock[1], 1u << 22 | 1);
	ASSERT_EQ(shmd_dev_unlock(a, lock[0]), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_lock_test(c, lock[2]), SHMD_DEV_AGAIN);
	ASSERT_EQ(shmd_dev_lock(b, lock[1]), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_lock_test(c, lock[2]), SHMD_DEV_AGAIN);
	ASSERT_EQ(shmd_dev_unlock(b, lock[1]), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_lock_test(a, lock[0]), SHMD_DEV_AGAIN);
	ASSERT_EQ(shmd_dev_lock_test(c, lock[2]), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_unlock(c, lock[2]), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_lock_test(a, lock[0]), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_unlock(a, lock[0]), SHMD_DEV_OK);
	ASSERT_EQ(*lock[0], 4ull << 44 | 4ull << 24);
	pe_lab_free(lab);
}

TEST(locks_refuse_wrong_words_and_end_with_their_holder)
{
	struct pe_lab *lab = pe_lab_new(2);
	uint64_t *lock = (uint64_t *)pe_lab_memory(lab, 1), outside = 0;
	struct shmd_dev_ctx *ctx = &lab->pes[1].ctx;

	ASSERT_EQ(shmd_dev_lock(ctx, &outside), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_lock(ctx, (uint64_t *)((uint8_t *)lock + 4)), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_unlock(ctx, lock), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_lock_test(ctx, &outside), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_lock(&lab->pes[0].ctx, (uint64_t *)pe_lab_memory(lab, 0)), SHMD_DEV_OK);
	pe_lab_end_pe(lab, 0);
	ctx->timeout_nsec = SHMD_DEV_NO_TIMEOUT;
	ASSERT_EQ(shmd_dev_lock(ctx, lock), SHMD_DEV_PE_GONE);
	pe_lab_free(lab);
}

/* PE 1 ends with the lock, and PE 2 in the queue behind it: they get no turn once they are forgiven. */
TEST(a_pe_that_was_forgiven_holds_no_lock)
{
	for (uint64_t first = 0; first <= 0xffffe; first += 0xffffe) {
		struct pe_lab *lab = pe_lab_new(4);
		uint64_t *lock[4];

		for (uint32_t pe = 0; pe < 4; pe++)
			lock[pe] = (uint64_t *)pe_lab_memory(lab, pe);
		*lock[0] = first << 44 | first << 24;
		ASSERT_EQ(shmd_dev_lock(&lab->pes[1].ctx, lock[1]), SHMD_DEV_OK);
		/* As PE 2 leaves it when it ends in the wait. */
		*lock[2] = 1u << 23 | 1u << 22 | ((first + 1) & 0xfffff);
		*lock[0] += 1ull << 44;
		pe_lab_end_pe(lab, 1);
		pe_lab_end_pe(lab, 2);
		ASSERT_EQ(shmd_dev_lock(&lab->pes[3].ctx, lock[3]), SHMD_DEV_PE_GONE);
		pe_lab_forgive(lab);
		ASSERT_EQ(shmd_dev_lock_test(&lab->pes[0].ctx, lock[0]), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_lock_test(&lab->pes[3].ctx, lock[3]), SHMD_DEV_AGAIN);
		ASSERT_EQ(shmd_dev_unlock(&lab->pes[0].ctx, lock[0]), SHMD_DEV_OK);
		lab->pes[3].ctx.timeout_nsec = PATIENCE;
		ASSERT_EQ(shmd_dev_lock(&lab->pes[3].ctx, lock[3]), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_unlock(&lab->pes[3].ctx, lock[3]), SHMD_DEV_OK);
		/* Nobody takes a later turn with one of their numbers for theirs. */
		ASSERT_EQ(*lock[1], 0u);
		ASSERT_EQ(*lock[2], 0u);
		ASSERT_EQ(*lock[3], 0u);
		pe_lab_free(lab);
	}
}

TEST(a_lock_of_a_pe_that_was_forgiven_goes_to_the_next_that_asks)
{
	struct pe_lab *lab = pe_lab_new(3);
	uint64_t *lock[3];

	for (uint32_t pe = 0; pe < 3; pe++)
		lock[pe] = (uint64_t *)pe_lab_memory(lab, pe);
	ASSERT_EQ(shmd_dev_lock(&lab->pes[1].ctx, lock[1]), SHMD_DEV_OK);
	pe_lab_end_pe(lab, 1);
	pe_lab_forgive(lab);
	lab->pes[2].ctx.timeout_nsec = PATIENCE;
	ASSERT_EQ(shmd_dev_lock(&lab->pes[2].ctx, lock[2]), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_unlock(&lab->pes[2].ctx, lock[2]), SHMD_DEV_OK);
	ASSERT_EQ(*lock[1], 0u);
	pe_lab_free(lab);
}
