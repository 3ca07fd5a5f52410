/* SPDX-License-Identifier: Apache-2.0 */
/* Teams of a world on one node: members, ids, syncs, a thousand at once. */
#include <errno.h>
#include <string.h>

#include <shmd/dev/pe.h>

#include "tests/lib/test.h"
#include "tests/system/world-lab.h"

/* Each member counts in the word of each; word is symmetric, and 0 at first. */
static void count_members(struct shmd_team *team, uint64_t *word, int expected)
{
	ASSERT_EQ(shmd_team_n_pes(team), expected);
	for (int i = 0; i < expected; i++)
		__atomic_add_fetch((uint64_t *)shmd_team_ptr(team, word, i), 1, __ATOMIC_RELAXED);
	world_lab_must(shmd_team_barrier(team), "barrier");
	ASSERT_EQ(__atomic_load_n(word, __ATOMIC_ACQUIRE), (uint64_t)expected);
}

static uint64_t *zeroed_words(struct shmd_world *world, size_t n)
{
	uint64_t *words;

	world_lab_must(shmd_calloc(world, n, sizeof(*words), 0, (void **)&words), "calloc");
	return words;
}

static int has_teams(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open_started(lab, pe);
	struct shmd_team *all = shmd_team_world(world);
	uint64_t *words;

	(void)arg;
	ASSERT_EQ(shmd_team_n_pes(all), lab->n);
	ASSERT_EQ(shmd_team_my_pe(all), pe);
	ASSERT_EQ(shmd_team_n_pes(shmd_team_shared(world)), lab->n);
	ASSERT_EQ(shmd_team_n_pes(shmd_team_node(world)), lab->n);
	ASSERT_EQ(shmd_team_n_pes(shmd_team_same_index(world)), 1);
	ASSERT_EQ(shmd_team_translate(shmd_team_same_index(world), 0, NULL), pe);
	ASSERT_EQ(shmd_team_my_pe(NULL), -1);
	ASSERT_OK(shmd_team_destroy(NULL));
	ASSERT_OK(shmd_team_destroy(all));
	words = zeroed_words(world, 4);
	count_members(all, &words[0], lab->n);
	count_members(shmd_team_shared(world), &words[1], lab->n);
	count_members(shmd_team_node(world), &words[2], lab->n);
	count_members(shmd_team_same_index(world), &words[3], 1);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(every_world_has_four_teams, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 1, has_teams, NULL);
	world_lab_run(&daemon, 5, has_teams, NULL);
	fixture_daemon_stop(&daemon);
}

/* PE 0 gives up a sync that the others then complete. */
static void fail_one_sync(struct shmd_world *world, struct shmd_team *team, uint64_t *gave_up, int pe)
{
	struct shmd_ctx *ctx = shmd_world_ctx(world);

	if (pe == 0) {
		struct shmd_dev_mode mode = shmd_dev_ctx_mode(shmd_ctx_dev(ctx), SHMD_DEV_THREAD);

		mode.timeout_nsec = 0;
		ASSERT_EQ(shmd_dev_team_sync_as(shmd_ctx_dev(ctx), shmd_team_dev(team), mode), SHMD_DEV_TIMEOUT);
		for (int i = 1; i < shmd_n_pes(world); i++)
			world_lab_must(shmd_p(ctx, gave_up, 1, sizeof(*gave_up), i), "p");
		return;
	}
	world_lab_must(shmd_wait_until(ctx, gave_up, sizeof(*gave_up), SHMD_CMP_EQ, 1), "wait");
	world_lab_must(shmd_team_sync(team), "sync");
}

static int goes_on_after_a_failed_sync(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open_started(lab, pe);
	struct shmd_team *all = shmd_team_world(world), *child;
	uint64_t *words = zeroed_words(world, 8);

	(void)arg;
	fail_one_sync(world, all, &words[0], pe);
	count_members(all, zeroed_words(world, 1), lab->n);
	fail_one_sync(world, all, &words[1], pe);
	world_lab_must(shmd_team_split_strided(all, 0, 1, lab->n, &child), "split");
	count_members(child, &words[2], lab->n);
	fail_one_sync(world, child, &words[3], pe);
	world_lab_must(shmd_team_destroy(child), "destroy");
	/* The id and its scratch serve again. */
	world_lab_must(shmd_team_split_strided(all, 0, 1, lab->n, &child), "split");
	count_members(child, &words[4], lab->n);
	world_lab_must(shmd_team_destroy(child), "destroy");
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(sync_that_failed_on_one_pe_is_made_up_before_the_next_collective_call, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 3, goes_on_after_a_failed_sync, NULL);
	fixture_daemon_stop(&daemon);
}

/* PEs 5, 3, 1 of six, in this order. */
static int splits_strided(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open_started(lab, pe);
	struct shmd_team *odd, *last;

	(void)arg;
	world_lab_must(shmd_team_split_strided(shmd_team_world(world), 5, -2, 3, &odd), "split");
	ASSERT_EQ(odd != NULL, pe % 2 == 1);
	if (odd) {
		ASSERT_EQ(shmd_team_my_pe(odd), (5 - pe) / 2);
		for (int i = 0; i < 3; i++)
			ASSERT_EQ(shmd_team_translate(odd, i, NULL), 5 - 2 * i);
		ASSERT_EQ(shmd_team_translate(odd, 3, NULL), -1);
		ASSERT_EQ(shmd_team_translate(shmd_team_world(world), 4, odd), -1);
		ASSERT_EQ(shmd_team_translate(shmd_team_world(world), 3, odd), 1);
		world_lab_must(shmd_team_split_strided(odd, 0, 0, 1, &last), "split of one");
		ASSERT_EQ(last != NULL, pe == 5);
		for (int i = 0; i < 100; i++)
			world_lab_must(shmd_team_sync(odd), "sync");
		world_lab_must(shmd_team_destroy(last), "destroy");
		world_lab_must(shmd_team_destroy(odd), "destroy");
	}
	ASSERT_ERR(shmd_team_split_strided(shmd_team_world(world), 0, 3, 3, &odd), EINVAL);
	ASSERT_ERR(shmd_team_split_strided(NULL, 0, 1, 1, &odd), EINVAL);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_strided_team_has_these_pes_in_this_order, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 6, splits_strided, NULL);
	fixture_daemon_stop(&daemon);
}

/* Seven PEs in rows of three: the last row and two columns are shorter. */
static int splits_2d(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open_started(lab, pe);
	struct shmd_team *row, *column;

	(void)arg;
	world_lab_must(shmd_team_split_2d(shmd_team_world(world), 3, &row, &column), "2d");
	ASSERT_EQ(shmd_team_n_pes(row), pe == 6 ? 1 : 3);
	ASSERT_EQ(shmd_team_n_pes(column), pe % 3 == 0 ? 3 : 2);
	ASSERT_EQ(shmd_team_my_pe(row), pe % 3);
	ASSERT_EQ(shmd_team_my_pe(column), pe / 3);
	for (int i = 0; i < 50; i++) {
		world_lab_must(shmd_team_sync(row), "row");
		world_lab_must(shmd_team_sync(column), "column");
	}
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_grid_has_rows_and_columns, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 7, splits_2d, NULL);
	fixture_daemon_stop(&daemon);
}

/* Keys turn the order around; color -1 is in no team. */
static int splits_by_color(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open_started(lab, pe);
	struct shmd_team *team;
	int color = pe == 0 ? -1 : pe % 2;
	uint64_t *word;

	(void)arg;
	world_lab_must(shmd_team_split_color(shmd_team_world(world), color, -pe, &team), "color");
	ASSERT_EQ(team == NULL, pe == 0);
	for (int i = 0; team && i < shmd_team_n_pes(team); i++)
		ASSERT_EQ(shmd_team_translate(team, i, NULL), (color ? 5 : 4) - 2 * i);
	word = zeroed_words(world, 1);
	if (team)
		count_members(team, word, color ? 3 : 2);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(colors_make_teams_in_the_order_of_their_keys, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 6, splits_by_color, NULL);
	fixture_daemon_stop(&daemon);
}

/* As many as there are ids, on overlapping halves; then none is left, and those that end make room. */
static int makes_many(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open_started(lab, pe);
	struct shmd_team *teams[SHMD_DEV_MAX_TEAMS], *one;
	const int n = SHMD_DEV_MAX_TEAMS - 4;

	(void)arg;
	(void)lab;
	for (int i = 0; i < n; i++)
		world_lab_must(shmd_team_split_strided(shmd_team_world(world), 0, 1, 3, &teams[i]), "split");
	ASSERT_ERR(shmd_team_split_strided(shmd_team_world(world), 0, 1, 3, &one), ENOSPC);
	for (int i = 0; i < n; i += 7)
		world_lab_must(shmd_team_sync(teams[i]), "sync");
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < n; i += 100)
			world_lab_must(shmd_team_destroy(teams[i]), "destroy");
		for (int i = 0; i < n; i += 100) {
			world_lab_must(shmd_team_split_strided(shmd_team_world(world), 2, -1, 3, &teams[i]), "split again");
			world_lab_must(shmd_team_sync(teams[i]), "sync");
		}
	}
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(all_ids_serve_at_once_and_again, 240)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 3, makes_many, NULL);
	fixture_daemon_stop(&daemon);
}
