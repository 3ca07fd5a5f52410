/* SPDX-License-Identifier: Apache-2.0 */
/*
 * New teams out of a parent. Every split is a split by colors.
 *
 * Each round of the agreement on an id is one entry on the board of each PE of the parent, and one sync of the parent. A board has two
 * entries, used in turn: whoever writes an entry again has passed the sync of the round between, so all PEs have read it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <shmd/dev/pe.h>

#include "libclient/runtime/team/ids.h"
#include "libclient/runtime/team/team.h"
#include "libclient/runtime/world/ctx.h"
#include "libclient/runtime/world/exchange.h"
#include "libclient/runtime/world/world-heap.h"
#include "libclient/runtime/world/world.h"
#include "proto/base/cleanup.h"

struct board_entry {
	struct team_offer offer;
	int32_t color, key;
	uint8_t reserved[8];
};
_Static_assert(2 * sizeof(struct board_entry) == WORLD_BOARD_BYTES, "two entries fill a board");

/* A split under way. */
struct split {
	struct shmd_team *parent;
	int color, key;
	struct board_entry *entries; /* of all PEs of the parent */
	struct shmd_team *child; /* with room for all */
	struct team_agreement agreement;
};

static int read_board(struct split *split, int i, uint64_t offset)
{
	struct shmd_world *world = split->parent->world;
	int pe = team_pe(split->parent, i);
	const uint8_t *own = world_heap_at(&world->pes[world->rank], offset);
	int status = shmd_dev_get(&world->ctx->dev, &split->entries[i], own, sizeof(split->entries[i]), (uint32_t)pe);

	return world_status_error(world, status, "reading the board of a PE", pe);
}

static uint64_t board_offset(const struct shmd_team *team)
{
	return WORLD_BOARDS_OFFSET + team->dev.id * (uint64_t)WORLD_BOARD_BYTES + (team->n_boards & 1) * sizeof(struct board_entry);
}

/* The others may have read this PE's entry, so what it offered cannot be taken back. */
static int parent_lost(struct shmd_team *parent, int r)
{
	if (r < 0)
		parent->lost = r;
	return r;
}

static int write_entry(struct split *split, const struct board_entry *mine)
{
	struct shmd_team *parent = split->parent;
	struct shmd_world *world = parent->world;
	int r = team_finish_sync(parent, "splitting a team");

	if (r < 0)
		return r;
	memcpy(world_heap_at(&world->pes[world->rank], board_offset(parent)), mine, sizeof(*mine));
	r = team_sync(parent, "splitting a team");
	if (!r)
		parent->n_boards++;
	return parent_lost(parent, r);
}

static int pass_entries(struct split *split, const struct board_entry *mine)
{
	uint64_t offset = board_offset(split->parent);
	int r = write_entry(split, mine);

	for (int i = 0; !r && i < (int)split->parent->dev.n_pes; i++)
		r = parent_lost(split->parent, read_board(split, i, offset));
	return r;
}

static struct team_offer make_offer(struct split *split)
{
	struct shmd_world *world = split->parent->world;
	struct team_offer offer = {0};

	if (split->color < 0)
		return offer;
	pthread_mutex_lock(&world->tables);
	offer = team_agreement_offer(&split->agreement, world->ids);
	pthread_mutex_unlock(&world->tables);
	return offer;
}

static int settle(struct split *split, const struct team_offer *own)
{
	struct shmd_world *world = split->parent->world;
	bool is_any = false;
	int r;

	for (uint32_t i = 0; i < split->parent->dev.n_pes; i++) {
		const struct board_entry *entry = &split->entries[i];

		/* The error of a PE counts, also if it is in no team. */
		if (entry->color >= 0 || entry->offer.error)
			team_agreement_take(&split->agreement, &entry->offer);
		is_any |= entry->color >= 0;
	}
	pthread_mutex_lock(&world->tables);
	r = is_any || split->agreement.error ? team_agreement_end(&split->agreement, world->ids, own, split->color >= 0) : 0;
	pthread_mutex_unlock(&world->tables);
	return r;
}

static void give_back(struct split *split, const struct team_offer *own)
{
	pthread_mutex_lock(&split->parent->world->tables);
	split->agreement.error = -EIO;
	(void)team_agreement_end(&split->agreement, split->parent->world->ids, own, false);
	pthread_mutex_unlock(&split->parent->world->tables);
}

/* The id, or a negative errno that all PEs of the parent return, but for those of the sync itself. */
static int agree(struct split *split)
{
	int r = -EAGAIN;

	team_agreement_init(&split->agreement, split->parent->dev.id + (split->parent->n_boards << 10));
	while (r == -EAGAIN) {
		struct board_entry mine = {.offer = make_offer(split), .color = split->color, .key = split->key};

		r = pass_entries(split, &mine);
		if (r < 0) {
			if (!split->parent->lost)
				give_back(split, &mine.offer);
			return r;
		}
		r = settle(split, &mine.offer);
	}
	if (r == -ENOSPC)
		return shmd_error_set(-ENOSPC, "no id is left that is free on all PEs: each has room for %llu teams (SHMD_MAX_TEAMS)",
				      (unsigned long long)split->parent->world->settings.max_teams);
	if (r < 0)
		return shmd_error_set(r, "another PE of the team could not make its part of the new team");
	return r;
}

/* ---- members */

struct ranked {
	int32_t key;
	int32_t place; /* in the parent */
};

static int by_key(const void *left, const void *right)
{
	const struct ranked *a = left, *b = right;

	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	return a->place < b->place ? -1 : a->place > b->place;
}

/* The order needs no more room than the entries have, which are not needed afterwards. */
static int pick_members(struct split *split)
{
	struct ranked *ranked = (struct ranked *)split->entries;
	int n = 0;

	for (uint32_t i = 0; i < split->parent->dev.n_pes; i++) {
		struct board_entry entry = split->entries[i];

		if (entry.color == split->color)
			ranked[n++] = (struct ranked){.key = entry.key, .place = (int32_t)i};
	}
	qsort(ranked, (size_t)n, sizeof(*ranked), by_key);
	for (int i = 0; i < n; i++)
		split->child->members[i] = (uint32_t)team_pe(split->parent, ranked[i].place);
	return n;
}

/* The others learn that this PE has no room, and do not make the team either. */
static int refuse(struct shmd_team *parent, int error)
{
	struct board_entry mine = {.offer = {.error = error}, .color = -1};
	struct split split = {.parent = parent};
	int r = write_entry(&split, &mine);

	return r < 0 ? r : error;
}

static int split_color(struct shmd_team *parent, int color, int key, struct shmd_team **ret_team)
{
	_cleanup_free_ struct board_entry *entries = calloc(parent->dev.n_pes, sizeof(*entries));
	struct split split = {.parent = parent, .color = color, .key = key, .entries = entries};
	int r;

	if (parent->lost)
		return shmd_error_set(parent->lost, "an earlier split of this team failed here half way, so its PEs may disagree about ids");
	r = team_alloc(parent->world, (int)parent->dev.n_pes, &split.child);
	if (r < 0 || !entries) {
		team_free(split.child);
		return refuse(parent, r ? r : shmd_error_set(-ENOMEM, "no memory for a team of %u PEs", parent->dev.n_pes));
	}
	r = agree(&split);
	if (r < 0 || color < 0) {
		team_free(split.child);
		split.child = NULL;
	} else {
		team_begin(split.child, (uint32_t)r, pick_members(&split));
	}
	if (r >= 0)
		*ret_team = split.child;
	return r < 0 ? r : 0;
}

int shmd_team_split_color(struct shmd_team *parent, int color, int key, struct shmd_team **ret_team)
{
	int r = team_check(parent);

	if (!r && (color < -1 || !ret_team))
		r = shmd_error_set(-EINVAL, "color is %d, which is neither -1 nor a number from 0 on, or ret_team is NULL", color);
	return r ? r : split_color(parent, color, key, ret_team);
}

int shmd_team_split_strided(struct shmd_team *parent, int start, int stride, int n_pes, struct shmd_team **ret_team)
{
	int r = team_check(parent), me, place = -1;
	int64_t last;

	if (r < 0)
		return r;
	last = start + (int64_t)stride * (n_pes - 1);
	if (!ret_team || n_pes < 1 || start < 0 || (stride == 0 && n_pes > 1) || start >= (int64_t)parent->dev.n_pes || last < 0 ||
	    last >= (int64_t)parent->dev.n_pes)
		return shmd_error_set(-EINVAL, "%d PEs from %d on, %d apart, are not all in a team of %u", n_pes, start, stride,
				      parent->dev.n_pes);
	me = (int)parent->dev.my_pe - start;
	if (n_pes == 1)
		place = me == 0 ? 0 : -1;
	else if (me % stride == 0 && me / stride >= 0 && me / stride < n_pes)
		place = me / stride;
	return split_color(parent, place < 0 ? -1 : 0, place, ret_team);
}

int shmd_team_split_2d(struct shmd_team *parent, int xrange, struct shmd_team **ret_row, struct shmd_team **ret_column)
{
	struct shmd_team *row = NULL;
	int r = team_check(parent), me;

	if (r < 0)
		return r;
	if (xrange < 1 || !ret_row || !ret_column)
		return shmd_error_set(-EINVAL, "rows of %d PEs, or an output is NULL", xrange);
	me = (int)parent->dev.my_pe;
	r = split_color(parent, me / xrange, me % xrange, &row);
	if (!r)
		r = split_color(parent, me % xrange, me / xrange, ret_column);
	if (r < 0) {
		(void)shmd_team_destroy(row);
		return r;
	}
	*ret_row = row;
	return 0;
}
