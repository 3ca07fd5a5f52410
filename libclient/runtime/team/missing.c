/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/team/missing.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "libclient/runtime/world/world-heap.h"
#include "libclient/runtime/world/world.h"

#define MOST_NAMES 3u
#define NAMES_BYTES (MOST_NAMES * (PE_TEXT_BYTES + 2) + 32)

enum came { CAME_NOT, CAME, CAME_UNKNOWN };

/* A flag of round k at member i; 0: its memory is not mapped here. */
static uint64_t flag_at(const struct shmd_team *team, uint32_t i, uint32_t round)
{
	const struct shmd_world *world = team->world;
	const uint8_t *at = world_heap_at(&world->pes[team_pe(team, (int)i)], team->dev.scratch_offset);

	return at ? __atomic_load_n((const uint64_t *)(const void *)(at + round * SHMD_DEV_SYNC_FLAG_BYTES), __ATOMIC_ACQUIRE) : 0;
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

static enum came has_come(const struct shmd_team *team, uint32_t i)
{
	uint32_t n = team->dev.n_pes, me = team->dev.my_pe, next = (i + 1) % n;
	uint64_t number = team->dev.n_begun;

	if (i == me || flag_at(team, next, 0) >= number || flag_at(team, me, round_of((me + n - i) % n)) >= number)
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

/* The first message that is missing here. */
static int blame_sender(const struct shmd_team *team, const char *call)
{
	uint32_t n = team->dev.n_pes, me = team->dev.my_pe, round = 0;
	char text[PE_TEXT_BYTES];

	while ((UINT64_C(1) << round) < n && flag_at(team, me, round) >= team->dev.n_begun)
		round++;
	if ((UINT64_C(1) << round) >= n)
		return shmd_error_set(-ETIMEDOUT, "%s: the last PE came when the time limit (SHMD_TIMEOUT) had passed", call);
	pe_text(team->world->hellos, team_pe(team, (int)((me + n - (1u << round)) % n)), text);
	return shmd_error_set(-ETIMEDOUT, "%s: %s%s did not come within the time limit (SHMD_TIMEOUT)", call, text,
			      round ? ", or a PE that it waits for," : "");
}

int team_blame_missing(const struct shmd_team *team, const char *call)
{
	char names[NAMES_BYTES] = "";
	uint32_t n_missing = 0;

	for (uint32_t i = 0; i < team->dev.n_pes; i++)
		if (has_come(team, i) == CAME_NOT)
			add_name(team, i, n_missing++, names);
	return world_fail(team->world, n_missing ? blame_some(call, names, n_missing) : blame_sender(team, call));
}
