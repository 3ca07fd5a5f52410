/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/team/missing.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <shmd/dev/coll.h>

#include "libclient/runtime/world/world-heap.h"
#include "libclient/runtime/world/world.h"

#define MOST_NAMES 3u
#define NAMES_BYTES (MOST_NAMES * (PE_TEXT_BYTES + 2) + 32)

enum came { CAME_NOT, CAME, CAME_UNKNOWN };

/* Messages of a sync, or of collectives, in rounds. */
struct rounds {
	uint32_t first; /* flag of round 0 */
	uint64_t number; /* that the flags have when the messages have arrived */
};

/* A word in the scratch of member i; 0: its memory is not mapped here. */
static uint64_t word_at(const struct shmd_team *team, uint32_t i, uint64_t offset)
{
	const struct shmd_world *world = team->world;
	const uint8_t *at = world_heap_at(&world->pes[team_pe(team, (int)i)], team->dev.scratch_offset);

	return at ? __atomic_load_n((const uint64_t *)(const void *)(at + offset), __ATOMIC_ACQUIRE) : 0;
}

static bool has_arrived(const struct shmd_team *team, const struct rounds *rounds, uint32_t i, uint32_t round)
{
	return word_at(team, i, (uint64_t)(rounds->first + round) * SHMD_DEV_SYNC_FLAG_BYTES) >= rounds->number;
}

static bool map_each_other(const struct shmd_team *team, uint32_t i, uint32_t j)
{
	const struct world_card *cards = team->world->cards;
	char reason[WORLD_REASON_BYTES];

	return cards_path(&cards[team_pe(team, (int)i)], &cards[team_pe(team, (int)j)], false, reason, sizeof(reason)) == SHMD_PATH_MAPPED;
}

static uint32_t round_of(uint32_t distance)
{
	return 31u - (uint32_t)__builtin_clz(distance);
}

static enum came has_come(const struct shmd_team *team, const struct rounds *rounds, uint32_t i)
{
	uint32_t n = team->dev.n_pes, me = team->dev.my_pe, next = (i + 1) % n;

	if (i == me || has_arrived(team, rounds, next, 0) || has_arrived(team, rounds, me, round_of((me + n - i) % n)))
		return CAME;
	return world_heap_at(&team->world->pes[team_pe(team, (int)next)], 0) && map_each_other(team, i, next) ? CAME_NOT : CAME_UNKNOWN;
}

/* ---- in words */

static void add_name(const struct shmd_team *team, uint32_t i, uint32_t n_before, char names[NAMES_BYTES])
{
	size_t used = strlen(names);
	char text[PE_TEXT_BYTES];

	if (n_before < MOST_NAMES)
		snprintf(names + used, NAMES_BYTES - used, "%s%s", n_before ? ", " : "",
			 pe_text(team->world->hellos, team_pe(team, (int)i), text));
}

static int blame_some(const char *call, const char *names, uint32_t n)
{
	char more[32] = "";

	if (n > MOST_NAMES)
		snprintf(more, sizeof(more), " and %u more", n - MOST_NAMES);
	return shmd_error_set(-ETIMEDOUT, "%s: %s%s did not come within the time limit (SHMD_TIMEOUT)", call, names, more);
}

/* Member i, or one that it waits for. */
static int blame_one(const struct shmd_team *team, const char *call, uint32_t i, bool may_wait)
{
	char text[PE_TEXT_BYTES];

	pe_text(team->world->hellos, team_pe(team, (int)i), text);
	return shmd_error_set(-ETIMEDOUT, "%s: %s%s did not come within the time limit (SHMD_TIMEOUT)", call, text,
			      may_wait ? ", or a PE that it waits for," : "");
}

/* The word that a member leaves whose collective failed here while this PE read its source. */
static int blame_none(const struct shmd_team *team, const char *call)
{
	uint32_t who = (uint32_t)word_at(team, team->dev.my_pe, SHMD_DEV_COLL_LEFT_OFFSET);
	char text[PE_TEXT_BYTES];

	if (who && who <= team->dev.n_pes)
		return shmd_error_set(-ETIMEDOUT, "%s: %s gave up before all had read its data", call,
				      pe_text(team->world->hellos, team_pe(team, (int)who - 1), text));
	return shmd_error_set(-ETIMEDOUT, "%s: all PEs have come, but the time limit (SHMD_TIMEOUT) had passed", call);
}

/* The first message that is missing here. */
static int blame_sender(const struct shmd_team *team, const struct rounds *rounds, const char *call)
{
	uint32_t n = team->dev.n_pes, me = team->dev.my_pe, round = 0;

	while ((UINT64_C(1) << round) < n && has_arrived(team, rounds, me, round))
		round++;
	if ((UINT64_C(1) << round) >= n)
		return blame_none(team, call);
	return blame_one(team, call, (me + n - (1u << round)) % n, round > 0);
}

static int blame_rounds(const struct shmd_team *team, const struct rounds *rounds, const char *call)
{
	char names[NAMES_BYTES] = "";
	uint32_t n_missing = 0;

	for (uint32_t i = 0; i < team->dev.n_pes; i++)
		if (has_come(team, rounds, i) == CAME_NOT)
			add_name(team, i, n_missing++, names);
	return n_missing ? blame_some(call, names, n_missing) : blame_sender(team, rounds, call);
}

int team_blame_missing(const struct shmd_team *team, const char *call)
{
	struct rounds rounds = {0, team->dev.n_begun};

	return world_fail(team->world, blame_rounds(team, &rounds, call));
}

/* ---- collectives */

/* The number of the newest exchange in which a member has told this one, where each tells each. */
static uint64_t newest_of(const struct shmd_team *team, uint32_t i)
{
	uint64_t newest = 0, number;
	uint32_t n = shmd_dev_coll_depth(&team->dev);

	for (uint32_t slot = i * n; slot < (i + 1) * n; slot++) {
		number = word_at(team, team->dev.my_pe, SHMD_DEV_COLL_OFFSET + (uint64_t)slot * SHMD_DEV_COLL_SLOT_BYTES);
		newest = number > newest ? number : newest;
	}
	return newest;
}

static uint64_t least_of_others(const struct shmd_team *team)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < team->dev.n_pes; i++)
		if (i != team->dev.my_pe && newest_of(team, i) < least)
			least = newest_of(team, i);
	return least;
}

/* The members that are furthest behind wait for nobody; others may wait for them. */
static int blame_last(const struct shmd_team *team, const char *call)
{
	uint64_t least = least_of_others(team);
	char names[NAMES_BYTES] = "";
	uint32_t n = 0;

	for (uint32_t i = 0; i < team->dev.n_pes && least < team->dev.n_exchanges; i++)
		if (i != team->dev.my_pe && newest_of(team, i) == least)
			add_name(team, i, n++, names);
	return n ? blame_some(call, names, n) : blame_none(team, call);
}

/* Only the root is waited for. It may have come and given up, since it waits for all. */
static int blame_root(const struct shmd_team *team, const char *call, uint32_t root)
{
	char text[PE_TEXT_BYTES];

	if (newest_of(team, root) < team->dev.n_exchanges)
		return blame_one(team, call, root, team->dev.n_pes > 2);
	pe_text(team->world->hellos, team_pe(team, (int)root), text);
	return shmd_error_set(-ETIMEDOUT, "%s: %s came when the time limit (SHMD_TIMEOUT) had passed", call, text);
}

int team_blame_missing_in_coll(const struct shmd_team *team, const char *call, int root)
{
	struct rounds rounds = {SHMD_DEV_COLL_FLAG, team->dev.n_exchanges};
	int r;

	if (shmd_dev_coll_plan(&team->dev, 0) == SHMD_DEV_COLL_ROUNDS)
		r = blame_rounds(team, &rounds, call);
	else if (root >= 0 && (uint32_t)root != team->dev.my_pe)
		r = blame_root(team, call, (uint32_t)root);
	else
		r = blame_last(team, call);
	return world_fail(team->world, r);
}
