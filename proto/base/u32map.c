/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 32-bit number to pointer.
 *
 * At most half of the slots are used, so a probe always meets a free one. Removal moves later entries of the
 * same run back, so there are no tombstones and the table never degrades.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "proto/base/assert.h"
#include "proto/base/u32map.h"

#define MIN_SLOTS 16u

void u32map_init(struct u32map *map)
{
	*map = (struct u32map){0};
}

void u32map_deinit(struct u32map *map)
{
	free(map->slots);
	u32map_init(map);
}

static void insert(struct u32map *map, uint32_t key, void *value)
{
	uint32_t i = u32map_home(map, key);

	while (map->slots[i].value)
		i = (i + 1) & map->mask;
	map->slots[i] = (struct u32map_slot){value, key};
	map->n++;
}

static int grow(struct u32map *map)
{
	uint32_t n_slots = map->slots ? (map->mask + 1) * 2 : MIN_SLOTS;
	struct u32map bigger = {NULL, n_slots - 1, 0};

	if (!n_slots)
		return -ENOMEM;
	bigger.slots = calloc(n_slots, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (uint32_t i = 0; map->slots && i <= map->mask; i++) {
		if (map->slots[i].value)
			insert(&bigger, map->slots[i].key, map->slots[i].value);
	}
	u32map_deinit(map);
	*map = bigger;
	return 0;
}

int u32map_put(struct u32map *map, uint32_t key, void *value)
{
	int r;

	assert_bug(value);
	if (u32map_get(map, key))
		return -EEXIST;
	if (!map->slots || map->n >= (map->mask + 1) / 2) {
		r = grow(map);
		if (r < 0)
			return r;
	}
	insert(map, key, value);
	return 0;
}

/* May the entry that lives in slot `at` and belongs in `home` move to slot `hole`? */
static bool may_move(const struct u32map *map, uint32_t home, uint32_t at, uint32_t hole)
{
	return ((at - home) & map->mask) >= ((at - hole) & map->mask);
}

static void close_hole(struct u32map *map, uint32_t hole)
{
	for (uint32_t i = (hole + 1) & map->mask; map->slots[i].value; i = (i + 1) & map->mask) {
		if (may_move(map, u32map_home(map, map->slots[i].key), i, hole)) {
			map->slots[hole] = map->slots[i];
			hole = i;
		}
	}
	map->slots[hole].value = NULL;
}

void *u32map_remove(struct u32map *map, uint32_t key)
{
	void *value;

	if (!map->slots)
		return NULL;
	for (uint32_t i = u32map_home(map, key); map->slots[i].value; i = (i + 1) & map->mask) {
		if (map->slots[i].key != key)
			continue;
		value = map->slots[i].value;
		close_hole(map, i);
		map->n--;
		return value;
	}
	return NULL;
}
