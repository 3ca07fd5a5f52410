/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Map from 64-bit keys to pointers: linear probing, removal by shifting back, so there are no tombstones.
 *
 * At most three of four slots are used, so each probe ends at a free slot. Removal never allocates or shrinks, which is left
 * to hash_trim(): it cannot fail. One thread at a time.
 */
#include <errno.h>
#include <stdlib.h>

#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/overflow.h"

#define HASH_MIN_SLOTS 16u

/* Handles are small consecutive numbers: every bit of the key must reach the low bits of the slot number. */
static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 32)) * UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ (x >> 29)) * UINT64_C(0xff51afd7ed558ccd);
	return x ^ (x >> 32);
}

static size_t home(const struct hash *hash, uint64_t key)
{
	return (size_t)mix(key) & (hash->n_slots - 1);
}

/* The slot of key, or the free slot where it would go. The table is not empty. */
static size_t find(const struct hash *hash, uint64_t key)
{
	size_t i = home(hash, key);

	while (hash->slots[i].value && hash->slots[i].key != key)
		i = (i + 1) & (hash->n_slots - 1);
	return i;
}

void hash_init(struct hash *hash)
{
	*hash = (struct hash){0};
}

void hash_deinit(struct hash *hash)
{
	if (!hash)
		return;
	free(hash->slots);
	hash_init(hash);
}

/* The same entries in so many slots, which are enough. */
static int rebuild(struct hash *hash, size_t n_slots)
{
	struct hash other = {.n = hash->n, .n_slots = n_slots};

	other.slots = calloc(n_slots, sizeof(*other.slots));
	if (!other.slots)
		return -ENOMEM;

	for (size_t i = 0; i < hash->n_slots; i++)
		if (hash->slots[i].value)
			other.slots[find(&other, hash->slots[i].key)] = hash->slots[i];
	free(hash->slots);
	*hash = other;
	return 0;
}

static int grow(struct hash *hash)
{
	size_t n_slots;

	if (mul_overflows(hash->n_slots, (size_t)2, &n_slots))
		return -ENOMEM;
	return rebuild(hash, n_slots ? n_slots : HASH_MIN_SLOTS);
}

void hash_trim(struct hash *hash)
{
	/* Without memory for the smaller one the larger one stays. */
	if (hash->n_slots / 8 > HASH_MIN_SLOTS && hash->n < hash->n_slots / 8)
		(void)rebuild(hash, hash->n_slots / 4);
}

static bool has_room(const struct hash *hash, size_t n)
{
	return n <= hash->n_slots / 4 * 3 - hash->n;
}

int hash_reserve(struct hash *hash, size_t n)
{
	int r = 0;

	while (r == 0 && !has_room(hash, n))
		r = grow(hash);
	return r;
}

int hash_add(struct hash *hash, uint64_t key, void *value)
{
	struct hash_slot *slot;
	int r;

	assert_bug(value);
	if (hash_get(hash, key))
		return -EEXIST;
	r = hash_reserve(hash, 1);
	if (r < 0)
		return r;
	slot = &hash->slots[find(hash, key)];
	slot->key = key;
	slot->value = value;
	hash->n++;
	return 0;
}

void *hash_get(const struct hash *hash, uint64_t key)
{
	return hash->n ? hash->slots[find(hash, key)].value : NULL;
}

/* Slot `from` may fill the hole unless its home lies cyclically after the hole: it would be lost to probes then. */
static bool may_move(const struct hash *hash, size_t hole, size_t from)
{
	size_t mask = hash->n_slots - 1;
	size_t distance = (from - home(hash, hash->slots[from].key)) & mask;

	return distance >= ((from - hole) & mask);
}

void *hash_remove(struct hash *hash, uint64_t key)
{
	size_t mask = hash->n_slots - 1, hole;
	void *value;

	if (!hash->n)
		return NULL;
	hole = find(hash, key);
	value = hash->slots[hole].value;
	if (!value)
		return NULL;

	for (size_t i = (hole + 1) & mask; hash->slots[i].value; i = (i + 1) & mask) {
		if (may_move(hash, hole, i)) {
			hash->slots[hole] = hash->slots[i];
			hole = i;
		}
	}
	hash->slots[hole].value = NULL;
	hash->n--;
	return value;
}

void *hash_next(const struct hash *hash, size_t *pos, uint64_t *ret_key)
{
	for (size_t i = *pos; i < hash->n_slots; i++) {
		if (hash->slots[i].value) {
			*pos = i + 1;
			if (ret_key)
				*ret_key = hash->slots[i].key;
			return hash->slots[i].value;
		}
	}
	*pos = hash->n_slots;
	return NULL;
}
