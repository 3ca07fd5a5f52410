/* SPDX-License-Identifier: Apache-2.0 */
/* Which PEs a split puts into which team. */
#include <string.h>

#include "tests/random/model.h"

void team_of_all(const struct program *program, int world, struct model_team *ret_team)
{
	memset(ret_team, -1, sizeof(*ret_team));
	ret_team->is_live = true;
	for (int pe = 0; pe < program->n_pes; pe++) {
		ret_team->color[pe] = 0;
		ret_team->place[pe] = (int8_t)rank_of(program, world, pe);
		ret_team->n[pe] = (int8_t)program->n_pes;
	}
}

uint32_t team_members(const struct model_team *team, int color, int n_pes)
{
	uint32_t members = 0;

	for (int pe = 0; pe < n_pes; pe++)
		if (team->is_live && team->color[pe] >= 0 && team->color[pe] == color)
			members |= 1u << pe;
	return members;
}

static bool in_one(const struct model_team *parent, const int *color, int a, int b)
{
	return parent->color[a] >= 0 && parent->color[a] == parent->color[b] && color[a] >= 0 && color[a] == color[b];
}

/* PEs of one team with equal colors, by key, then by their place in the parent. The new color is the lowest PE. */
static void by_colors(const struct model_team *parent, const int *color, const int *key, int n_pes, struct model_team *team)
{
	memset(team, -1, sizeof(*team));
	team->is_live = true;
	for (int pe = 0; pe < n_pes; pe++) {
		team->place[pe] = team->n[pe] = 0;
		for (int i = n_pes - 1; i >= 0; i--) {
			if (!in_one(parent, color, i, pe))
				continue;
			team->color[pe] = (int8_t)i;
			team->n[pe]++;
			if (key[i] < key[pe] || (key[i] == key[pe] && parent->place[i] < parent->place[pe]))
				team->place[pe]++;
		}
	}
}

static bool strided(const struct model_team *parent, const struct step *step, int pe, int *color, int *key)
{
	int start = step->op, stride = (int)(int64_t)step->value, n = (int)step->bytes;
	int last = start + (n - 1) * stride;

	if (n < 1 || start < 0 || start >= parent->n[pe] || last < 0 || last >= parent->n[pe] || (!stride && n > 1))
		return false;
	*color = -1;
	for (int i = 0; i < n; i++)
		if (parent->place[pe] == start + i * stride) {
			*color = 0;
			*key = i;
		}
	return true;
}

bool team_split(const struct model_team *parent, const struct step *step, int n_pes, struct model_team *ret_team,
		struct model_team *ret_column)
{
	int color[MAX_PES], key[MAX_PES], column[MAX_PES], column_key[MAX_PES];

	if (!parent->is_live)
		return false;
	for (int pe = 0; pe < n_pes; pe++) {
		column[pe] = color[pe] = column_key[pe] = key[pe] = -1;
		if (parent->color[pe] < 0)
			continue;
		if (step->kind == STEP_SPLIT_STRIDED && !strided(parent, step, pe, &color[pe], &key[pe]))
			return false;
		if (step->kind == STEP_SPLIT_COLOR) {
			color[pe] = step->color[pe];
			key[pe] = step->key[pe];
		} else if (step->kind == STEP_SPLIT_2D) {
			color[pe] = column_key[pe] = parent->place[pe] / (int)step->bytes;
			column[pe] = key[pe] = parent->place[pe] % (int)step->bytes;
		}
	}
	by_colors(parent, color, key, n_pes, ret_team);
	by_colors(parent, column, column_key, n_pes, ret_column);
	return true;
}
