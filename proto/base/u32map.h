/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 32-bit number to pointer: open addressing with linear probing, no tombstones.
 * One thread. Values are never NULL. Lookups do not allocate; u32map_put may.
 */
#ifndef SHMEMD_BASE_U32MAP_H
#define SHMEMD_BASE_U32MAP_H

#include <stddef.h>
#include <stdint.h>

struct u32map_slot {
	void *value; /* NULL: free */
	uint32_t key;
};

struct u32map {
	struct u32map_slot *slots; /* NULL while empty */
	uint32_t mask; /* slots - 1; a power of two slots, at most half of them used */
	uint32_t n;
};

void u32map_init(struct u32map *map);
void u32map_deinit(struct u32map *map);

/* -EEXIST, -ENOMEM */
int u32map_put(struct u32map *map, uint32_t key, void *value);

/* The value that was there, or NULL. */
void *u32map_remove(struct u32map *map, uint32_t key);

static inline uint32_t u32map_home(const struct u32map *map, uint32_t key)
{
	return (uint32_t)(((uint64_t)key * 0x9e3779b97f4a7c15ull) >> 32) & map->mask;
}

static inline void *u32map_get(const struct u32map *map, uint32_t key)
{
	if (!map->slots)
		return NULL;
	for (uint32_t i = u32map_home(map, key); map->slots[i].value; i = (i + 1) & map->mask) {
		if (map->slots[i].key == key)
			return map->slots[i].value;
	}
	return NULL;
}

#endif
