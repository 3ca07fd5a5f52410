/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/hot-decide.h"

/* The busiest first; bounded. */
struct ranking {
	unsigned int n;
	struct {
		uint64_t posts;
		uint32_t peer;
	} at[SHMD_HOT_MAX_PEERS];
};

static bool comes_before(const struct ranking *ranking, unsigned int i, uint64_t posts, uint32_t peer)
{
	if (ranking->at[i].posts != posts)
		return ranking->at[i].posts > posts;
	return ranking->at[i].peer < peer;
}

/* Keeps the `max` busiest of all that it is given. */
static void rank(struct ranking *ranking, unsigned int max, uint64_t posts, uint32_t peer)
{
	unsigned int i = ranking->n;

	while (i && !comes_before(ranking, i - 1, posts, peer))
		i--;
	if (i == max)
		return;
	if (ranking->n < max)
		ranking->n++;
	for (unsigned int k = ranking->n - 1; k > i; k--)
		ranking->at[k] = ranking->at[k - 1];
	ranking->at[i].posts = posts;
	ranking->at[i].peer = peer;
}

static bool contains(const uint32_t *hot, unsigned int n_hot, uint32_t peer)
{
	for (unsigned int i = 0; i < n_hot; i++)
		if (hot[i] == peer)
			return true;
	return false;
}

static void change(struct shmd_hot_change *changes, unsigned int *n, uint32_t peer, enum shmd_hot_action action)
{
	changes[(*n)++] = (struct shmd_hot_change){.peer = peer, .action = action};
}

unsigned int hot_decide(const struct hot_rules *rules, const struct shmd_dev_route *routes, uint32_t n_peers,
			const uint32_t *hot, unsigned int n_hot, struct shmd_hot_change *ret_changes)
{
	uint64_t min = rules->min_posts ? rules->min_posts : 1, cool = min / 2 + min % 2;
	struct ranking stay = {.n = 0}, come = {.n = 0};
	unsigned int n = 0, n_come = 0;

	for (unsigned int i = 0; i < n_hot; i++) {
		uint64_t posts = routes[hot[i]].n_posts;

		if (posts < cool)
			change(ret_changes, &n, hot[i], SHMD_HOT_RETIRE);
		else
			rank(&stay, rules->max_peers, posts, hot[i]);
	}
	for (uint32_t peer = 0; peer < n_peers; peer++)
		if (routes[peer].n_posts >= min && !contains(hot, n_hot, peer))
			rank(&come, rules->max_peers, routes[peer].n_posts, peer);
	for (; n_come < come.n; n_come++) {
		uint64_t posts = come.at[n_come].posts, least;

		if (stay.n + n_come < rules->max_peers)
			continue;
		least = stay.n ? stay.at[stay.n - 1].posts : UINT64_MAX;
		if (posts <= least || posts - least <= least)
			break;
		change(ret_changes, &n, stay.at[--stay.n].peer, SHMD_HOT_RETIRE);
	}
	for (unsigned int i = 0; i < n_come; i++)
		change(ret_changes, &n, come.at[i].peer, SHMD_HOT_OFFER);
	return n;
}
