/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A map from 64-bit keys to pointers. Open addressing; the map owns its table only, never the values.
 * Pointers in it are not NULL. One thread at a time.
 */
#ifndef SHMEMD_BASE_HASH_H
#define SHMEMD_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hash_slot {
	uint64_t key;
	void *value; /* NULL: the slot is free */
};

struct hash {
	size_t n;
	size_t n_slots; /* 0 or a power of two */
	struct hash_slot *slots;
};

void hash_init(struct hash *hash);
void hash_deinit(struct hash *hash); /* frees the table; may be called twice */

int hash_reserve(struct hash *hash, size_t n); /* room for n more: -ENOMEM comes from here, not from hash_add */
int hash_add(struct hash *hash, uint64_t key, void *value); /* -EEXIST, -ENOMEM */
void *hash_get(const struct hash *hash, uint64_t key);	    /* NULL when absent */
void *hash_remove(struct hash *hash, uint64_t key);	    /* what was there, or NULL */

/* A smaller table where few of many slots are used; not within a walk. */
void hash_trim(struct hash *hash);

/*
 * The next entry at or after slot *pos, which starts at 0 and is moved on; NULL at the end. Order has no meaning.
 * The map must not change between two calls of one walk.
 */
void *hash_next(const struct hash *hash, size_t *pos, uint64_t *ret_key);

#endif
