/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of the peers that get QPs of their own, and of those that give them back. */
#include <string.h>

#include "libclient/hot-decide.h"
#include "tests/lib/test.h"

#define N_PEERS 300u

static struct shmd_dev_route routes[N_PEERS];
static struct shmd_hot_change changes[2 * SHMD_HOT_MAX_PEERS];
static unsigned int n_changes;

static void decide(unsigned int max_peers, uint64_t min_posts, const uint32_t *hot, unsigned int n_hot)
{
	const struct hot_rules rules = {.max_peers = max_peers, .min_posts = min_posts};

	memset(changes, 0xff, sizeof(changes));
	n_changes = hot_decide(&rules, routes, N_PEERS, hot, n_hot, changes);
	ASSERT_LE(n_changes, 2 * max_peers);
}

static void expect(unsigned int i, enum shmd_hot_action action, uint32_t peer)
{
	ASSERT_LT(i, n_changes);
	ASSERT_EQ(changes[i].action, action);
	ASSERT_EQ(changes[i].peer, peer);
}

TEST(busiest_peers_are_offered_first_and_no_more_than_there_is_room_for)
{
	routes[7].n_posts = 100;
	routes[299].n_posts = 300;
	routes[0].n_posts = 200;
	routes[20].n_posts = 99;
	decide(8, 100, NULL, 0);
	ASSERT_EQ(n_changes, 3u);
	expect(0, SHMD_HOT_OFFER, 299);
	expect(1, SHMD_HOT_OFFER, 0);
	expect(2, SHMD_HOT_OFFER, 7);
	decide(2, 100, NULL, 0);
	ASSERT_EQ(n_changes, 2u);
	expect(0, SHMD_HOT_OFFER, 299);
	expect(1, SHMD_HOT_OFFER, 0);
	for (uint32_t i = 0; i < N_PEERS; i++)
		routes[i].n_posts = 1000 + i;
	decide(SHMD_HOT_MAX_PEERS, 100, NULL, 0);
	ASSERT_EQ(n_changes, SHMD_HOT_MAX_PEERS);
	for (uint32_t i = 0; i < SHMD_HOT_MAX_PEERS; i++)
		expect(i, SHMD_HOT_OFFER, N_PEERS - 1 - i);
}

TEST(peer_without_operations_is_never_hot)
{
	const uint32_t hot[] = {3, 4};

	decide(8, 0, NULL, 0);
	ASSERT_EQ(n_changes, 0u);
	routes[4].n_posts = 1;
	routes[9].n_posts = 1;
	decide(8, 0, hot, 2);
	ASSERT_EQ(n_changes, 2u);
	expect(0, SHMD_HOT_RETIRE, 3);
	expect(1, SHMD_HOT_OFFER, 9);
}

TEST(between_half_and_all_of_the_threshold_nothing_changes)
{
	const uint32_t hot[] = {1, 2, 3};

	routes[1].n_posts = 50;
	routes[2].n_posts = 49;
	routes[3].n_posts = 99;
	routes[5].n_posts = 99;
	decide(8, 100, hot, 3);
	ASSERT_EQ(n_changes, 1u);
	expect(0, SHMD_HOT_RETIRE, 2);
	/* Half of an odd number is more than its lower half. */
	decide(8, 99, hot, 3);
	ASSERT_EQ(n_changes, 2u);
	expect(0, SHMD_HOT_RETIRE, 2);
	expect(1, SHMD_HOT_OFFER, 5);
}

TEST(when_all_places_are_taken_only_more_than_twice_the_operations_displace)
{
	const uint32_t hot[] = {10, 11};

	routes[10].n_posts = 1000;
	routes[11].n_posts = 400;
	routes[12].n_posts = 800;
	decide(2, 100, hot, 2);
	ASSERT_EQ(n_changes, 0u);
	routes[12].n_posts = 801;
	decide(2, 100, hot, 2);
	ASSERT_EQ(n_changes, 2u);
	expect(0, SHMD_HOT_RETIRE, 11);
	expect(1, SHMD_HOT_OFFER, 12);
	/* Each against who would have to go for it: the newcomers never for each other. */
	routes[13].n_posts = 5000;
	routes[14].n_posts = 4000;
	routes[15].n_posts = 3000;
	decide(2, 100, hot, 2);
	ASSERT_EQ(n_changes, 4u);
	expect(0, SHMD_HOT_RETIRE, 11);
	expect(1, SHMD_HOT_RETIRE, 10);
	expect(2, SHMD_HOT_OFFER, 13);
	expect(3, SHMD_HOT_OFFER, 14);
	/* Nothing overflows. */
	routes[10].n_posts = routes[11].n_posts = UINT64_MAX / 2 + 1;
	routes[13].n_posts = UINT64_MAX;
	decide(2, UINT64_MAX, hot, 2);
	ASSERT_EQ(n_changes, 0u);
	routes[11].n_posts = UINT64_MAX / 2;
	decide(2, UINT64_MAX - 1, hot, 2);
	ASSERT_EQ(n_changes, 2u);
	expect(0, SHMD_HOT_RETIRE, 11);
	expect(1, SHMD_HOT_OFFER, 13);
}

TEST(places_of_peers_that_cooled_are_given_away_in_the_same_interval)
{
	const uint32_t hot[] = {1, 2};

	routes[1].n_posts = 10;
	routes[2].n_posts = 100;
	routes[3].n_posts = 100;
	decide(2, 100, hot, 2);
	ASSERT_EQ(n_changes, 2u);
	expect(0, SHMD_HOT_RETIRE, 1);
	expect(1, SHMD_HOT_OFFER, 3);
}

TEST(equal_peers_are_taken_by_their_number_and_nothing_swings)
{
	uint32_t hot[2];

	for (uint32_t i = 40; i < 50; i++)
		routes[i].n_posts = 500;
	decide(2, 100, NULL, 0);
	ASSERT_EQ(n_changes, 2u);
	expect(0, SHMD_HOT_OFFER, 40);
	expect(1, SHMD_HOT_OFFER, 41);
	hot[0] = changes[0].peer;
	hot[1] = changes[1].peer;
	decide(2, 100, hot, 2);
	ASSERT_EQ(n_changes, 0u);
}
