/* SPDX-License-Identifier: Apache-2.0 */
/* The teams that every world has, on several nodes; the world is a made-up one, for the daemon of a test is always one node. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "libclient/runtime/team/team.h"
#include "libclient/runtime/world/world.h"
#include "tests/lib/test.h"

#define N 6

/* As six PEs see it that an uneven launcher has placed; only neighbours on a node are mapped. */
struct lab {
	struct world_card cards[N];
	struct world_peer peers[N];
	struct shmd_dev_world dev;
	struct shmd_world world;
};

static void lab_init(struct lab *lab, int rank)
{
	static const uint64_t nodes[N] = {7, 9, 7, 3, 9, 7};
	int node[N], node_pe[N];

	memset(lab, 0, sizeof(*lab));
	for (int i = 0; i < N; i++)
		lab->cards[i] = (struct world_card){.node = nodes[i], .allow = SHMD_ALLOW_MAPPED | SHMD_ALLOW_QUEUE};
	cards_number_nodes(lab->cards, N, node, node_pe);
	for (int i = 0; i < N; i++)
		lab->peers[i] = (struct world_peer){.node = node[i], .node_pe = node_pe[i],
						    .is_mapped = i != rank && nodes[i] == nodes[rank] && i + rank != 2};
	lab->world = (struct shmd_world){.pid = getpid(), .rank = rank, .size = N, .cards = lab->cards, .peers = lab->peers,
					 .dev = &lab->dev, .is_started = 1, .tables = PTHREAD_MUTEX_INITIALIZER,
					 .settings = {.max_teams = SHMD_DEV_MAX_TEAMS}};
	ASSERT_OK(world_teams_make(&lab->world));
}

/* The members in their order, -1 behind the last, and the place of the caller. */
static void expect_members(struct shmd_team *team, const int *pes, int rank)
{
	int n = 0;

	while (pes[n] >= 0) {
		ASSERT_EQ(shmd_team_translate(team, n, NULL), pes[n]);
		if (pes[n] == rank)
			ASSERT_EQ(shmd_team_my_pe(team), n);
		n++;
	}
	ASSERT_EQ(shmd_team_n_pes(team), n);
}

TEST(each_pe_has_the_teams_of_its_place)
{
	/* Nodes: PEs 0, 2 and 5; 1 and 4; 3. */
	static const int of_node[N][N + 1] = {{0, 2, 5, -1}, {1, 4, -1}, {0, 2, 5, -1}, {3, -1}, {1, 4, -1}, {0, 2, 5, -1}};
	static const int same_index[N][N + 1] = {{0, 1, 3, -1}, {0, 1, 3, -1}, {2, 4, -1}, {0, 1, 3, -1}, {2, 4, -1}, {5, -1}};
	static const int shared[N][N + 1] = {{0, 5, -1}, {1, 4, -1}, {2, 5, -1}, {3, -1}, {1, 4, -1}, {0, 2, 5, -1}};
	static const int all[N + 1] = {0, 1, 2, 3, 4, 5, -1};
	struct lab lab;

	for (int rank = 0; rank < N; rank++) {
		lab_init(&lab, rank);
		expect_members(shmd_team_world(&lab.world), all, rank);
		expect_members(shmd_team_node(&lab.world), of_node[rank], rank);
		expect_members(shmd_team_same_index(&lab.world), same_index[rank], rank);
		expect_members(shmd_team_shared(&lab.world), shared[rank], rank);
		world_teams_drop(&lab.world);
	}
}

TEST(only_a_team_of_mapped_pes_says_so)
{
	struct lab lab;

	lab_init(&lab, 5);
	ASSERT(shmd_team_dev(shmd_team_node(&lab.world))->flags & SHMD_TEAM_MAPPED);
	ASSERT(shmd_team_dev(shmd_team_same_index(&lab.world))->flags & SHMD_TEAM_MAPPED);
	world_teams_drop(&lab.world);
	lab_init(&lab, 4);
	ASSERT(!(shmd_team_dev(shmd_team_same_index(&lab.world))->flags & SHMD_TEAM_MAPPED));
	world_teams_drop(&lab.world);
}

TEST(a_team_keeps_what_the_program_says_of_it)
{
	struct shmd_team_config config = {.n_contexts = 3}, got = {.n_contexts = 9};
	struct shmd_team *team;
	struct lab lab;

	lab_init(&lab, 0);
	team = shmd_team_node(&lab.world);
	ASSERT_OK(shmd_team_config(team, &got));
	ASSERT_EQ(got.n_contexts, 0);
	ASSERT_OK(shmd_team_set_config(team, &config));
	ASSERT_OK(shmd_team_config(team, &got));
	ASSERT_EQ(got.n_contexts, 3);
	ASSERT_OK(shmd_team_config(shmd_team_world(&lab.world), &got));
	ASSERT_EQ(got.n_contexts, 0);
	ASSERT_OK(shmd_team_set_config(team, NULL));
	ASSERT_OK(shmd_team_config(team, &got));
	ASSERT_EQ(got.n_contexts, 0);
	ASSERT_ERR(shmd_team_config(team, NULL), EINVAL);
	ASSERT_ERR(shmd_team_config(NULL, &got), EINVAL);
	ASSERT_ERR(shmd_team_set_config(NULL, &config), EINVAL);
	world_teams_drop(&lab.world);
}
